"""`dumbbell list`."""

from typing import Annotated

import typer

from dumbbell.errors import UnknownName
from dumbbell.experiment import shipped
from dumbbell.experiment.registry import read_registry
from dumbbell.experiment.toml_file import read_title

KINDS = (*read_registry().kinds, "experiments")


def list_(
    what: Annotated[str, typer.Argument(metavar=f"[{'|'.join(KINDS)}]", help="What to list. By default, all.")] = "",
) -> None:
    if what and what not in KINDS:
        raise UnknownName(what, among=KINDS, command="list", what="kind")
    for kind, algorithms in read_registry().kinds.items():
        if what in ("", kind):
            _print_names(kind, {one.name: one.title for one in algorithms.values()})
    if what in ("", "experiments"):
        _print_names("experiments", {name: read_title(path) for name, path in shipped.list_experiments().items()})


def _print_names(kind: str, titles: dict[str, str]) -> None:
    width = max(map(len, titles), default=0)
    print("\n".join([f"{kind}:", *(f"  {name:{width}}  {text}".rstrip() for name, text in titles.items())]))
