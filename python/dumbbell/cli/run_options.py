"""Options of the commands that look at one run: `dumbbell trace`, `qlog write`, `explain` and `watch`."""

from collections.abc import Mapping
from typing import Annotated

import typer

from dumbbell.errors import Conflict

File = Annotated[str, typer.Argument(metavar="FILE", help="Experiment file, or a name from dumbbell list.")]
Key = Annotated[str, typer.Argument(metavar="[KEY]", help="The run: the beginning of its key in RESULTS.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replaces a key of the experiment.")
]
Number = Annotated[int | None, typer.Option("--cell", metavar="N", help="Number of the run of the experiment, from 1.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="KEY=VALUE", help="The run like this, by keys as in tables; its first seed."),
]
Flows = Annotated[
    list[int] | None, typer.Option("--flow", metavar="N", help="Only this flow, from 0; several are allowed.")
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="What runs FILE: sim, live, linux or linux:NAME; of RESULTS the runs of this engine.",
    ),
]
StoredOnly = Annotated[
    bool, typer.Option("--stored", help="What RESULTS have, without repeating the run for its trace.")
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Load the plugins that lie next to the file, or in folders below: code.")
]


def refuse_of_results(command: str, options: Mapping[str, object]) -> None:
    """Raise Conflict if an option of results files, with its value, is given with an experiment file."""
    for option in filter(options.get, options):
        allowed = f"--where or --cell, or {option} with RESULTS"
        raise Conflict(f"{option} and an experiment file", allowed, command=command)


def refuse_of_files(command: str, options: Mapping[str, object]) -> None:
    """Raise Conflict if an option of experiment files, with its value, is given with a results file."""
    for option in filter(options.get, options):
        raise Conflict(f"{option} and a results file", f"{option} with an experiment file", command=command)
