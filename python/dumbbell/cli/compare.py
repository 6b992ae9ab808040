"""`dumbbell compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dumbbell.cli import results_files as options
from dumbbell.errors import Conflict, Missing, Nothing


def compare(
    results: options.File,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="[REFERENCE]",
            help="CSV of published results, or sce, linux-6.12 and so on; with --engines, other results "
            "or two engines.",
        ),
    ] = "",
    where: options.Where = None,
    engine: options.Engine = None,
    engines: Annotated[
        bool,
        typer.Option(
            "--engines",
            help="The same cells on the simulator and on another engine, side by side, or on the two that follow: "
            "--engines linux:a,linux:b.",
        ),
    ] = False,
    scores_only: Annotated[bool, typer.Option("--scores", help="Scores alone, no cells.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One compared figure per row.")] = False,
    any_length: Annotated[bool, typer.Option("--any-length", help="Match runs of any duration.")] = False,
) -> None:
    from dumbbell.published import compare as comparing
    from dumbbell.published import engines as beside
    from dumbbell.published.reference import compare_reference as compare_with

    if scores_only and as_csv:
        raise Conflict("--scores and --csv", "one of them", command="compare")
    if engines:
        if where or as_csv or any_length:
            raise Conflict("--engines and other options", "--engine and --scores with it alone", command="compare")
        pair = reference if "," in reference and not Path(reference).exists() else engine or ""
        other = None if pair == reference else reference
        first, comma, second = pair.partition(",")
        both = beside.compare(results, other or None, (first, second) if comma else ("sim", engine))
        text = beside.format_scores(both) if scores_only else beside.format_markdown(both)
        print("\n\n".join(filter(None, [text, beside.describe_sharing(both)])))
        return
    if not reference:
        raise Missing("a CSV of published results, or --engines", command="compare", key="REFERENCE")
    reference = options.find_reference(reference)
    found = options.open_whole_runs(results, where, engine, "compare holds whole runs")
    compared, table = compare_with(found, reference, any_length=any_length)
    if not compared.pairs:
        raise Nothing("no run that answers a cell", f"runs of cells in {reference}", file=results)
    if as_csv:
        options.print_csv(comparing.tidy_rows(compared))
        return
    if not scores_only:
        print(table(compared), end="\n\n")
    print("\n\n".join([comparing.format_scores(compared), *found.notes]))
