"""What there is to use: `dumbbell list`, `describe` and `schema`."""

from typing import Annotated

import typer

from dumbbell.errors import Conflict, Missing, UnknownName
from dumbbell.experiment import shipped
from dumbbell.experiment.registry import registry
from dumbbell.experiment.toml_file import title as title_of


def list_(what: Annotated[str, typer.Argument(metavar="[aqm|cc|stage|link|experiments]")] = "") -> None:
    """List queue disciplines, congestion controls, stages of paths, links and experiments that come with dumbbell."""
    known = registry()
    kinds = (*known.kinds, "experiments")
    if what and what not in kinds:
        raise UnknownName("list", "", what, kinds, what="kind")
    for kind, algorithms in known.kinds.items():
        if what in ("", kind):
            width = max(map(len, algorithms), default=0)
            print("\n".join([f"{kind}:", *(f"  {a.name:{width}}  {a.title}" for a in algorithms.values())]))
    if what in ("", "experiments"):
        print("experiments:")
        titles = {name: title_of(path) for name, path in shipped.experiments().items()}
        width = max(map(len, titles), default=0)
        for name, title in titles.items():
            print(f"  {name:{width}}  {title}".rstrip())


def describe(
    name: Annotated[
        str, typer.Argument(help="A key, table, algorithm, profile, column, or the file of a plugin.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="The whole reference, as Markdown.")] = False,
) -> None:
    """Say what a key, table or algorithm of experiment files takes, or what a column of the results is."""
    from dumbbell.cli import reference

    if everything == bool(name):
        raise (
            Conflict("describe", "", f"{name} and --all", "one of them")
            if name
            else Missing("describe", "NAME", "a name, or --all")
        )
    if reference.is_plugin(name):
        print(reference.of_plugin(name))
        return
    print(reference.markdown() if everything else reference.describe(name), end="" if everything else "\n")


def schema_() -> None:
    """Print the JSON Schema of experiment files, for editors."""
    import json

    from dumbbell.experiment import json_schema

    print(json.dumps(json_schema.file_schema(), indent=2))
