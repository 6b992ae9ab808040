"""`dumbbell describe`."""

import json
from typing import Annotated

import typer

from dumbbell.errors import Conflict, Missing


def describe(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="A key, table, algorithm, profile, column, or the file of a plugin."),
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Print the whole reference, as Markdown.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of experiment files, for editors.")
    ] = False,
) -> None:
    """For a key: its type, unit, range and default. For an algorithm: its parameters and their sources."""
    from dumbbell.cli import key_reference
    from dumbbell.experiment import json_schema

    asked = [one for one, given in ((name, name), ("--all", everything), ("--schema", schema)) if given]
    if len(asked) > 1:
        raise Conflict(" and ".join(asked), "one of them", command="describe")
    if schema:
        print(json.dumps(json_schema.make_schema(), indent=2))
    elif everything:
        print(key_reference.format_markdown(), end="")
    elif name:
        print(key_reference.describe_plugin(name) if key_reference.is_plugin(name) else key_reference.describe(name))
    else:
        raise Missing("a name, --all or --schema", command="describe", key="NAME")
