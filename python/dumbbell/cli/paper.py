"""`dumbbell paper`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dumbbell.cli import results_files as options
from dumbbell.errors import Conflict, Missing, UnknownName
from dumbbell.experiment import shipped


def paper(
    name: Annotated[str, typer.Argument(metavar="PAPER", help=f"Whose: {', '.join(shipped.papers())}.")],
    results: options.File,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="DIR", help="Folder for the figures.")] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="CSV", help="Published statistics to show with dualpi2-versions.")
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="FIGURE", help="Draw one figure, into -o DIR or here.")] = None,
    formats: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMATS", help="Of figures: png (default), pdf, svg, or several with commas."
        ),
    ] = None,
    where: options.Where = None,
    engine: options.Engine = None,
) -> None:
    from dumbbell import figures, programs

    known = shipped.list_papers()
    if name not in known:
        raise UnknownName(name, among=known, command="paper", what="paper")
    module = programs.load(known[name])
    if reference is not None and not getattr(module, "TAKES_REFERENCE", False):
        raise Conflict(f"--reference and {name}", "it with dualpi2-versions", command="paper")
    if formats is not None and output is None and only is None:
        raise Missing(
            "a folder for the figures that --format is of, or --only FIGURE", command="paper", option="--output"
        )
    endings = [f".{one.strip()}" for one in (formats or "png").split(",")]
    for ending in endings:
        if ending not in figures.SUFFIXES:
            formats_known = [one[1:] for one in figures.SUFFIXES]
            raise UnknownName(ending[1:], among=formats_known, command="paper", option="--format", what="format")
    chosen = options.open_whole_runs(results, where, engine, "a paper holds whole runs")
    found = module.Results(chosen) if reference is None else module.Results(chosen, reference)
    if only is None:
        print(module.tables(found))
    folder = output or ("." if only else None)
    drawn = module.draw(found, folder, only, endings) if folder else []
    if drawn:
        print("\n".join(map(str, drawn)), file=sys.stderr)
