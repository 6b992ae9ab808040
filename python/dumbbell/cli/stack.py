"""`dumbbell stack`: QUIC stacks that run in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from dumbbell.cli.commands import CommandGroup
from dumbbell.experiment.plugins import built

stack = typer.Typer(cls=CommandGroup, rich_markup_mode=None)
Option = typer.Option


@stack.command()
def build(
    kind: Annotated[str, typer.Argument(metavar="quinn|noq|quiche|picoquic", help="The stack.")],
    version: Annotated[
        str | None, Option(metavar="VERSION", help="Version of the stack's crate. By default, the newest.")
    ] = None,
    path: Annotated[
        str | None,
        Option(metavar="DIR", help="Source tree of the stack, or a crate with controls for it. Required for picoquic."),
    ] = None,
    name: Annotated[str | None, Option(metavar="NAME", help="Name of the result.")] = None,
    no_qlog: Annotated[
        bool, Option("--no-qlog", help="Skip the second library, which writes the stack's own qlog.")
    ] = False,
) -> None:
    """A stack that is built already is not built again. A crate with congestion controls has a function controllers(),
    which returns names and factories of the stack.
    """
    from dumbbell.engines.progress import StepProgress
    from dumbbell.stacks import build as building

    wanted = building.StackRequest(kind, version, Path(path) if path is not None else None, name, logs=not no_qlog)
    made, is_new = building.build(wanted, StepProgress())
    what = f"{' '.join(made.controls)}, {made.library}"
    print(f"{made.name}: {what}" if is_new else f"{made.name}: built already, {what}")


@stack.command("list")
def list_(
    form: Annotated[Literal["text", "json"], Option("--format", help="json: everything known about each.")] = "text",
) -> None:
    found = built.list_installed()
    if form == "json":
        told = [{"name": one.name, "library": str(one.library), **one.described} for one in found]
        print(json.dumps(told, indent=2))
        return
    if not found:
        print("no stacks: dumbbell stack build quinn")
        return
    rows = [("name", "version", "size", "made from", "congestion controls")]
    for one in found:
        size = f"{one.described['bytes'] / 1e6:.1f} MB"
        rows.append((one.name, one.version, size, one.origin, " ".join(one.controls)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@stack.command()
def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Stacks of dumbbell stack list.")],
) -> None:
    from dumbbell.stacks import build as building

    for name in names:
        built.remove(name)
        print(f"{name}: removed")
    building.remove_compiled()
