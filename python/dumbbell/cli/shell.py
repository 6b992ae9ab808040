"""`dumbbell shell`."""

from typing import Annotated

import typer


def shell(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Experiment file, or a name from dumbbell list experiments.")
    ],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Command to run. By default, your shell.")
    ] = None,
    output: Annotated[str, typer.Option("-o", "--output", metavar="RESULTS", help="Results file.")] = "results.duckdb",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key of the file.")
    ] = None,
    up: Annotated[
        list[str] | None,
        typer.Option(
            "--up", metavar="KEY=VALUE", help="Replace a key only in the direction from the command to the far end."
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(metavar="COMMAND", help="Start a server at the far end, whose name is far. May be repeated."),
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Let the command reach only the far end: no host, no Internet.")
    ] = False,
) -> None:
    """The exit status is that of the command, or 2 if no network can be set up."""
    from dumbbell.shell import session

    status = session.start(
        file, command or [], settings=settings or [], up=up or [], servers=server or [], output=output, alone=alone
    )
    raise typer.Exit(status)
