"""`dumbbell shell`."""

from typing import Annotated

import typer


def shell(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Experiment file, or a name from dumbbell list: its bottleneck.")
    ],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="What to run; by default your shell.")
    ] = None,
    output: Annotated[str, typer.Option("-o", "--output", help="Results file.")] = "results.duckdb",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replaces a key of the file.")
    ] = None,
    up: Annotated[
        list[str] | None,
        typer.Option("--up", metavar="KEY=VALUE", help="Replaces a key on the way up, from the command, alone."),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(metavar="COMMAND", help="A server at the far end, which is called far; several are allowed."),
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Nothing but the far end can be reached: no host, no Internet.")
    ] = False,
) -> None:
    """The exit status is that of the command; 2 if there is no network to work in."""
    from dumbbell.shell import session

    status = session.start(
        file, command or [], settings=settings or [], up=up or [], servers=server or [], output=output, alone=alone
    )
    raise typer.Exit(status)
