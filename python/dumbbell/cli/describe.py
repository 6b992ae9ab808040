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
    from dumbbell.cli import key_reference

    if everything and name:
        raise Conflict(f"{name} and --all", "one of them", command="describe")
    if not everything and not name:
        raise Missing("a name, or --all", command="describe", key="NAME")
    if everything:
        print(key_reference.format_markdown(), end="")
    else:
        print(key_reference.describe_plugin(name) if key_reference.is_plugin(name) else key_reference.describe(name))
