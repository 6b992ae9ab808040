"""`dumbbell plugin`: queue disciplines, congestion controls, those of video, and stacks of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dumbbell.experiment.plugins.known as plugins
from dumbbell.cli.commands import CommandGroup
from dumbbell.cli.evaluate_options import Progress
from dumbbell.errors import Failed, InputError, Unreadable, escape_line
from dumbbell.experiment.plugins import process, project, trust
from dumbbell.words import format_count

plugin = typer.Typer(cls=CommandGroup, rich_markup_mode=None)
Option = typer.Option


@plugin.command()
def new(
    kind: Annotated[str, typer.Argument(metavar="queue|control|media|stack", help="Kind of plugin.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name in experiment files and tables.")],
    language: Annotated[str, Option(metavar="c|rust|python", help="Language. A stack is in C or Rust.")] = "c",
    folder: Annotated[str, Option("-o", "--output", metavar="DIR", help="Folder to make. By default, NAME.")] = "",
) -> None:
    """The folder has the source of the plugin and an experiment that uses it."""
    place = Path(folder or name)
    file, build = project.make(kind, name, language, place)
    steps = [
        f"cd {place}",
        *([build] if build else []),
        f"dumbbell plugin test {file}",
        "dumbbell run --trust try.toml",
        *([f"dumbbell evaluate stack ./{file}"] if kind == "stack" else []),
    ]
    print("\n".join([f"{place}: a {kind} called {name}. Next:", *(f"    {step}" for step in steps)]))


@plugin.command()
def test(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The plugin: a shared library or a Python program. Its code is run.")
    ],
    seed: Annotated[int, Option(min=0, max=2**63 - 1, metavar="N", help="Seed of the random operations and runs.")] = 1,
    sequences: Annotated[
        int, Option(min=0, max=10**6, metavar="N", help="Number of sequences of operations on a queue.")
    ] = 200,
    runs: Annotated[
        int, Option(min=0, max=10**6, metavar="N", help="Number of short runs with other algorithms.")
    ] = 40,
    within: Annotated[
        float | None,
        Option(
            min=0.1,
            max=86400,
            metavar="SECONDS",
            help="Time without progress after which the plugin counts as hung. By default, 3 s, or "
            "DUMBBELL_PLUGIN_HANG_S.",
        ),
    ] = None,
) -> None:
    """Every operation and run is done twice, to check that the plugin is deterministic. The first fault is printed."""
    path = Path(file)
    trust.trust(path.absolute().parent)
    try:
        found = plugins.read(path.name, path.absolute().parent)
    except InputError as error:
        raise error.move("plugin test", "") from None
    limit = process.hang_s(process.TRY_HANG_S) if within is None else within
    parts_of = sequences * (found.kind == "aqm") + runs
    progress = Progress("sequences and runs" if found.kind == "aqm" else "runs")
    try:
        done, made = process.try_out(
            plugins.find_copy(found.digest),
            seed,
            sequences,
            runs,
            gets_on_s=limit,
            doing=lambda stood: progress(stood, parts_of),
        )
    except RuntimeError as error:
        raise Failed(escape_line(str(error)), file=file) from None
    parts = [f"{format_count(done, 'sequence')} of operations"] * bool(done) + [format_count(made, "run")] * bool(made)
    print(f"{found.algorithm.name}: {' and '.join(parts) or 'nothing'} tried, nothing wrong")


@plugin.command("trust")
def trust_(
    folder: Annotated[
        str, typer.Argument(metavar="[FOLDER]", help="Folder whose plugins, and those in folders below, may be loaded.")
    ] = "",
) -> None:
    """The permission is kept. Without a folder, the command lists the folders that are trusted."""
    if not folder:
        print("\n".join(map(str, trust.list_folders())) or "no folder is trusted")
        return
    if not Path(folder).is_dir():
        raise Unreadable("there is no such folder", "a folder with plugins", file=folder)
    print(f"{Path(folder).resolve()} is trusted: {trust.trust_permanently(Path(folder))}")
