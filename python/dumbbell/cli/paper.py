"""`dumbbell paper`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dumbbell.cli import results_files as options
from dumbbell.errors import Conflict, Missing, UnknownName, WrongValue
from dumbbell.experiment import shipped


def paper(
    name: Annotated[str, typer.Argument(metavar="PAPER", help=f"Whose: {', '.join(shipped.list_papers())}.")],
    results: Annotated[list[str], typer.Argument(metavar="RESULTS...", help="Results files; one, except of sce.")],
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="DIR", help="Folder for the figures.")] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="CSV", help="Published statistics to show with dualpi2-versions and sce.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE|NUMBERS", help="Draw one figure, into -o DIR or here; of sce tables, such as 12,22-36."
        ),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="One published figure per row, for sce.")] = False,
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
    by_number = hasattr(module, "select_tables")
    if reference is not None and not getattr(module, "TAKES_REFERENCE", False):
        raise Conflict(f"--reference and {name}", "it with dualpi2-versions or sce", command="paper")
    if as_csv and not hasattr(module, "list_rows"):
        raise Conflict(f"--csv and {name}", "it with sce", command="paper")
    if len(results) > 1 and not by_number:
        raise WrongValue(f"{len(results)} files", f"one of {name}", command="paper", key="RESULTS")
    if formats is not None and output is None and (only is None or by_number):
        raise Missing(
            "a folder for the figures that --format is of, or --only FIGURE", command="paper", option="--output"
        )
    endings = [f".{one.strip()}" for one in (formats or "png").split(",")]
    for ending in endings:
        if ending not in figures.SUFFIXES:
            formats_known = [one[1:] for one in figures.SUFFIXES]
            raise UnknownName(ending[1:], among=formats_known, command="paper", option="--format", what="format")
    chosen = [options.open_whole_runs(file, where, engine, "a paper holds whole runs") for file in results]
    if by_number:
        found, only = module.Results(chosen, reference, only), None
    else:
        found = module.Results(chosen[0]) if reference is None else module.Results(chosen[0], reference)
    if as_csv:
        options.print_csv(module.list_rows(found))
    elif only is None:
        print(module.format_tables(found))
    folder = output or ("." if only else None)
    drawn = module.draw(found, folder, only, endings) if folder else []
    if drawn:
        print("\n".join(map(str, drawn)), file=sys.stderr)
