"""`dumbbell explain`."""

from typing import Annotated

import typer

from dumbbell.errors import Conflict


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RESULTS|FILE", help="Results file, or experiment file or a name from dumbbell list, which is run."
        ),
    ],
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="The run: the beginning of its key in RESULTS.")] = "",
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="KEY=VALUE", help="The run with this value instead of KEY; its first seed."),
    ] = None,
    cell: Annotated[int | None, typer.Option("--cell", metavar="N", help="Number of the run of FILE, from 1.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replaces a key of FILE.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="What runs FILE: sim, live, linux or linux:NAME; of RESULTS the runs of this engine.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every fact with its numbers and its sentence.")] = False,
    stored_only: Annotated[
        bool, typer.Option("--stored", help="What RESULTS have, without repeating the run for its trace.")
    ] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Load the plugins that lie next to FILE, or in folders below: code.")
    ] = False,
) -> None:
    """Say what happened in one run, in sentences made from its events.

    A stored run of the simulator is repeated with its trace, which takes the time of one run: it measures the same.
    """
    from dumbbell.explain import explained, observed, which

    if which.is_experiment(what):
        if key or stored_only:
            given = "KEY" if key else "--stored"
            raise Conflict(
                "explain", "", f"{given} and an experiment file", f"--where or --cell, or {given} with RESULTS"
            )
        run = observed.of_file(what, settings, cell, where or [], engine=engine, trust=trust, command="explain")
    else:
        of_files: dict[str, object] = {"--set": settings, "--cell": cell, "--trust": trust}
        for option, value in of_files.items():
            if value:
                raise Conflict("explain", "", f"{option} and a results file", f"{option} with an experiment file")
        run = observed.of_results(which.stored(what, key, where or [], engine))
    if not stored_only:
        observed.repeat(run)
    found = explained.explained(run)
    print(found.json_text() if as_json else found.text())
