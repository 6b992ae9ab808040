"""`dumbbell table`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from dumbbell.cli import results_files as options
from dumbbell.errors import Conflict, Unfit


def table(
    results: options.File,
    rows: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Key whose values are the rows. May be repeated.")
    ] = None,
    columns: Annotated[str | None, typer.Option(metavar="KEY", help="Key whose values are the columns.")] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(metavar="MEASURE", help="Measure, such as goodput, rtt or sojourn_p99. May be repeated."),
    ] = None,
    where: options.Where = None,
    mean_over: options.MeanOver = None,
    of: options.Of = None,
    engine: options.Engine = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Print at most N rows.")] = None,
    no_spread: Annotated[bool, typer.Option("--no-spread", help="Print means without their 95 % intervals.")] = False,
    form: Annotated[
        Literal["markdown", "csv", "raw", "latex"],
        typer.Option("--format", help="csv: one row per mean; raw: CSV of every run; latex: with booktabs."),
    ] = "markdown",
    caption: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="With --format latex: a table with this text, measure and unit as caption."),
    ] = None,
) -> None:
    """All other keys in which the runs differ become rows, unless --mean-over names them."""
    from dumbbell.results import tables

    if caption is not None and form != "latex":
        raise Unfit("only tables in LaTeX have a caption", "--format latex as well", option="--caption")
    options.require_part(of)
    found = options.open_results(results, where, engine)
    values = value or found.choose_measures(of)
    if form == "raw":
        for name, given in (
            ("--rows", rows),
            ("--columns", columns),
            ("--mean-over", mean_over),
            ("--no-spread", no_spread),
            ("--limit", limit),
        ):
            if given:
                allowed = f"--format raw without {name}, for every value of every run, or --format csv, for the means"
                raise Conflict(f"--format raw and {name}", allowed, command="table")
        print(tables.tidy(found, values, of).write_csv(), end="")
        return
    shown = [
        tables.make_table(
            found, one, rows, columns, of=of, mean_over=mean_over or [], spread=not no_spread, limit=limit
        )
        for one in values
    ]
    if form == "csv":
        print(tables.join_csv(shown), end="")
    else:
        print("\n\n".join(one.to_latex(caption) if form == "latex" else one.to_markdown() for one in shown))
