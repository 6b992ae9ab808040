"""`dumbbell table`."""

from __future__ import annotations

from typing import Annotated

import typer

from dumbbell.cli import results_files as options
from dumbbell.errors import Conflict, Unfit


def table(
    results: options.File,
    rows: Annotated[list[str] | None, typer.Option(help="Key whose values are the rows; several are allowed.")] = None,
    columns: Annotated[str | None, typer.Option(help="Key whose values are the columns.")] = None,
    value: Annotated[list[str] | None, typer.Option(help="What to show: goodput, rtt, sojourn_p99, ...")] = None,
    where: options.Where = None,
    mean_over: options.MeanOver = None,
    of: options.Of = None,
    engine: options.Engine = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Print no more than so many rows.")] = None,
    no_spread: Annotated[bool, typer.Option("--no-spread", help="Means without their 95 % intervals.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV: one mean per row, every key a column.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV of the values of every run, not of their means; --csv may be added.")
    ] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="LaTeX, with the rules of booktabs.")] = False,
    caption: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="With --latex: a table with this text, measure and unit as its caption."),
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="An aligned Markdown table (the default).")] = False,
) -> None:
    """Whatever else the runs differ in becomes a row, unless --mean-over names it."""
    from dumbbell.results import tables

    formats = {"--csv": as_csv or raw, "--latex": as_latex, "--markdown": as_markdown}
    if sum(formats.values()) > 1:
        wanted = {"--raw": raw} | formats | {"--csv": as_csv and not raw}
        raise Conflict(" and ".join(name for name, given in wanted.items() if given), "one of them", command="table")
    if caption is not None and not as_latex:
        raise Unfit("it is of LaTeX tables", "--latex as well", option="--caption")
    options.require_part(of)
    found = options.open_results(results, where, engine)
    values = value or found.choose_measures(of)
    if raw:
        for name, given in (
            ("--rows", rows),
            ("--columns", columns),
            ("--mean-over", mean_over),
            ("--no-spread", no_spread),
            ("--limit", limit),
        ):
            if given:
                allowed = "--raw without it, for every value of every run, or --csv, for the means"
                raise Conflict(f"--raw and {name}", allowed, command="table")
        print(tables.tidy(found, values, of).write_csv(), end="")
        return
    shown = [
        tables.make_table(
            found, one, rows, columns, of=of, mean_over=mean_over or [], spread=not no_spread, limit=limit
        )
        for one in values
    ]
    if as_csv:
        print(tables.join_csv(shown), end="")
    else:
        print("\n\n".join(one.to_latex(caption) if as_latex else one.to_markdown() for one in shown))
