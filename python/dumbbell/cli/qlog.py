"""`dumbbell qlog`: runs as qlog, and figures of qlog files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dumbbell.cli import run_options
from dumbbell.cli.commands import CommandGroup
from dumbbell.experiment import units

qlog = typer.Typer(cls=CommandGroup, rich_markup_mode=None)
Option = typer.Option


@qlog.command()
def write(
    file: run_options.File,
    output: Annotated[
        str, Option("-o", "--output", metavar="DIR|FILE.sqlog", help="Folder, or the file of one flow.")
    ] = "qlog",
    settings: run_options.Settings = None,
    cell: run_options.Number = None,
    where: run_options.Where = None,
    flow: run_options.Flows = None,
    qvis: Annotated[bool, Option("--qvis", help="Write qlog 0.3, which qvis reads, not the newest drafts.")] = False,
    stacks: Annotated[
        bool, Option("--stacks", help="Let QUIC stacks write their own qlog into the folder, too.")
    ] = False,
    trust: run_options.Trust = False,
) -> None:
    """Run one cell of an experiment and write qlog: what each sender does and believes, and what queues do."""
    from dumbbell.experiment.file import load
    from dumbbell.experiment.plugins import trust as trusting
    from dumbbell.qlog import write as writing
    from dumbbell.results.one_cell import choose_cell

    if trust:
        trusting.trust(Path(file).absolute().parent)
    chosen = choose_cell(load(file, settings), cell, where or [])
    found = writing.write(chosen, Path(output), flow or [], old=qvis, stacks=stacks)
    print("\n".join(map(str, found.files)))


@qlog.command()
def plot(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="qlog files: ours, a stack's, another tool's.")],
    output: Annotated[str, Option("-o", "--output", help="Picture: .png, .pdf or .svg.")] = "qlog.png",
    time: Annotated[str | None, Option(metavar="FROM..TO", help="Part of the time, such as 1s..2s.")] = None,
    title: Annotated[str | None, Option(help="Instead of the names of the files.")] = None,
) -> None:
    """Draw qlog files over time: window, bytes in flight, RTT and losses."""
    from dumbbell import figures
    from dumbbell.qlog import figure

    found = figure.read_all([Path(one) for one in files])
    picture = figure.draw(found, None if time is None else units.parse_span(time, "--time"), title)
    notes = [f"{path}: {note}" for path, one in found.items() for note in one.notes]
    print("\n".join([str(figures.save(picture, Path(output))), *notes]), file=sys.stderr)
