"""`dumbbell validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dumbbell.cli import results_files as options
from dumbbell.errors import Conflict, Missing, Nothing


def validate(
    results: options.File,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="[REFERENCE]",
            help="CSV of published results, or a name such as sce or linux-6.12. With --engines: other results, or two "
            "engines.",
        ),
    ] = "",
    where: options.Where = None,
    engine: options.Engine = None,
    engines: Annotated[
        bool,
        typer.Option(
            "--engines",
            help="Compare the same cells on two engines: the simulator and another one, or the two that follow, such "
            "as --engines linux:a,linux:b.",
        ),
    ] = False,
    scores_only: Annotated[bool, typer.Option("--scores", help="Print only the scores, without cells.")] = False,
    form: Annotated[
        Literal["text", "csv"], typer.Option("--format", help="csv: one row per compared number.")
    ] = "text",
    any_length: Annotated[bool, typer.Option("--any-length", help="Match runs of any duration.")] = False,
) -> None:
    """Cell by cell, the command prints measured and published numbers, their errors, and scores over all cells.

    To see only what differs, use dumbbell diff.
    """
    from dumbbell.published import compare as comparing
    from dumbbell.published import engines as beside
    from dumbbell.published.reference import compare_reference as compare_with

    if scores_only and form == "csv":
        raise Conflict("--scores and --format csv", "one of them", command="validate")
    if engines:
        if where or form == "csv" or any_length:
            raise Conflict(
                "--engines and other options", "only --engine and --scores with --engines", command="validate"
            )
        pair = reference if "," in reference and not Path(reference).exists() else engine or ""
        other = None if pair == reference else reference
        first, comma, second = pair.partition(",")
        both = beside.compare(results, other or None, (first, second) if comma else ("sim", engine))
        text = beside.format_scores(both) if scores_only else beside.format_markdown(both)
        print("\n\n".join(filter(None, [text, beside.describe_sharing(both)])))
        return
    if not reference:
        raise Missing("a CSV of published results, or --engines", command="validate", key="REFERENCE")
    reference = options.find_reference(reference)
    found = options.open_whole_runs(results, where, engine, "validate compares whole runs")
    compared, table = compare_with(found, reference, any_length=any_length)
    if not compared.pairs:
        raise Nothing("found no run of a cell that is published", f"runs of cells in {reference}", file=results)
    if form == "csv":
        options.print_csv(comparing.tidy_rows(compared))
        return
    if not scores_only:
        print(table(compared), end="\n\n")
    print("\n\n".join([comparing.format_scores(compared), *found.notes]))
