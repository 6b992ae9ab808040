"""`dumbbell describe`."""

from typing import Annotated

import typer

from dumbbell.errors import Conflict, Missing


def describe(
    name: Annotated[
        str, typer.Argument(help="A key, table, algorithm, profile, column, or the file of a plugin.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="The whole reference, as Markdown.")] = False,
) -> None:
    from dumbbell.cli import reference

    if everything and name:
        raise Conflict(f"{name} and --all", "one of them", command="describe")
    if not everything and not name:
        raise Missing("a name, or --all", command="describe", key="NAME")
    if everything:
        print(reference.format_markdown(), end="")
    else:
        print(reference.describe_plugin(name) if reference.is_plugin(name) else reference.describe(name))
