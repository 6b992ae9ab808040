"""`dumbbell draft`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dumbbell.cli import results_files as options
from dumbbell.errors import Nothing, UnknownName
from dumbbell.experiment import shipped
from dumbbell.published.drafts import DRAFTS


def draft(
    name: Annotated[str, typer.Argument(metavar="DRAFT", help=f"Whose tables: {', '.join(DRAFTS)}.")],
    results: Annotated[list[str], typer.Argument(metavar="RESULTS...", help="Results files.")],
    only: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Tables to print, such as 12,13 or 22-36.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="One figure per row.")] = False,
    maps: Annotated[
        str | None, typer.Option("--heat-maps", metavar="DIR", help="Draw the errors of every group of tables.")
    ] = None,
    reference: Annotated[str | None, typer.Option(metavar="CSV", help="The draft's figures.")] = None,
    where: options.Where = None,
    engine: options.Engine = None,
) -> None:
    import polars as pl

    from dumbbell.published import compare as comparing
    from dumbbell.published.drafts import fill

    if name not in DRAFTS:
        raise UnknownName(name, among=list(DRAFTS), command="draft", what="draft")
    tables = fill.chosen(DRAFTS[name].tables, only)
    published = comparing.read_reference(reference or shipped.list_references()[DRAFTS[name].reference])
    found = [options.open_whole_runs(file, where, engine, "draft holds whole runs") for file in results]
    runs, flows = (
        pl.concat(parts, how="diagonal_relaxed").unique(keys, keep="first", maintain_order=True)
        for parts, keys in (([f.runs for f in found], ["key"]), ([f.flows for f in found], ["key", "flow"]))
    )
    filled = fill.fill(tables, runs, flows, published)
    if not any(pair.seeds for one in filled for cell in one.cells.values() for pair in cell):
        raise Nothing("no run that answers a cell", f"runs of the experiments of {name}", file=", ".join(results))
    if as_csv:
        options.print_csv(fill.tidy_rows(filled))
    else:
        print("\n\n".join([fill.markdown(filled), *(note for one in found for note in one.notes)]))
    if maps is not None:
        print("\n".join(map(str, fill.heat_maps(filled, maps))), file=sys.stderr)
