"""Options of the commands that look at one run: `dumbbell trace`, `explain` and `watch`."""

from collections.abc import Mapping
from typing import Annotated

import typer

from dumbbell.errors import Conflict

File = Annotated[str, typer.Argument(metavar="FILE", help="Experiment file, or a name from dumbbell list.")]
Key = Annotated[str, typer.Argument(metavar="[KEY]", help="The beginning of the key of a run in RESULTS.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key of the experiment.")
]
Number = Annotated[int | None, typer.Option("--cell", metavar="N", help="Number of a run of the experiment, from 1.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="KEY=VALUE", help="Choose the run by keys as in tables; its first seed."),
]
Flows = Annotated[
    list[int] | None, typer.Option("--flow", metavar="N", help="Only this flow, from 0. May be repeated.")
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="The engine that runs FILE, or whose runs are taken from RESULTS: sim, live, linux or linux:NAME.",
    ),
]
StoredOnly = Annotated[bool, typer.Option("--stored", help="Use stored data only. The run is not repeated.")]
Trust = Annotated[bool, typer.Option("--trust", help="Allow plugins (code!) in the folder of the file and below it.")]


def refuse_of_results(command: str, options: Mapping[str, object]) -> None:
    """Raise Conflict if an option of results files, with its value, is given with an experiment file."""
    for option in filter(options.get, options):
        allowed = f"--where or --cell, or {option} with RESULTS"
        raise Conflict(f"{option} and an experiment file", allowed, command=command)


def refuse_of_files(command: str, options: Mapping[str, object]) -> None:
    """Raise Conflict if an option of experiment files, with its value, is given with a results file."""
    for option in filter(options.get, options):
        raise Conflict(f"{option} and a results file", f"{option} with an experiment file", command=command)
