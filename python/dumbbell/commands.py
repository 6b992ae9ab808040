"""The commands that read results: `dumbbell table`, `plot`, `diff`, `compare`, `draft`, `claims` and so on."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from dumbbell import units
from dumbbell.check.command import check
from dumbbell.doctor import doctor
from dumbbell.errors import InputError, nearest
from dumbbell.results import PARTS, Results
from dumbbell.shipped import folder as shipped
from dumbbell.store import TABLES, Store

DIFFERENT = 1

File = Annotated[str, typer.Argument(metavar="RESULTS", help="Results file written by dumbbell run.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="KEY=VALUE[,VALUE]", help="Only runs and flows like this; in any unit."),
]
MeanOver = Annotated[
    list[str] | None, typer.Option("--mean-over", metavar="KEY", help="Take means over the values of this key.")
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="VERSION",
        help="Runs of this engine: a version, sim, linux or all; by default the newest of sim.",
    ),
]
Of = Annotated[str | None, typer.Option(help=f"Whose figures: {', '.join(PARTS)}, runs.")]


def _results(path: str, where: list[str] | None = None, engine: str | None = None) -> Results:
    results = Results(path, engine=engine)
    if not results.keys:
        raise InputError(path, "", "no finished run", "results of at least one run")
    return results.where(*(where or []))


def _of(of: str | None) -> None:
    if of is not None and of not in (*PARTS, "runs"):
        raise InputError("--of", "", of, ", ".join((*PARTS, "runs")), nearest(of, (*PARTS, "runs")))


def table(
    results: File,
    rows: Annotated[list[str] | None, typer.Option(help="Key whose values are the rows; several are allowed.")] = None,
    columns: Annotated[str | None, typer.Option(help="Key whose values are the columns.")] = None,
    value: Annotated[list[str] | None, typer.Option(help="What to show: goodput, rtt, sojourn_p99, ...")] = None,
    where: Where = None,
    mean_over: MeanOver = None,
    of: Of = None,
    engine: Engine = None,
    no_spread: Annotated[bool, typer.Option("--no-spread", help="Means without their 95 % intervals.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Tidy CSV: one value a row, every key a column.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="An aligned Markdown table (the default).")] = False,
) -> None:
    """Print means over seeds with their intervals: any key by any other, all keys that differ.

    Whatever else the runs differ in becomes a row, unless --mean-over names it.
    """
    from dumbbell import tables

    if as_csv and as_markdown:
        raise InputError("table", "", "--csv and --markdown", "one of them")
    _of(of)
    found = _results(results, where, engine)
    values = value or ["slowdown" if of in ("slowdowns", "short_flows") else "goodput"]
    if as_csv:
        for name, given in (
            ("--rows", rows),
            ("--columns", columns),
            ("--mean-over", mean_over),
            ("--no-spread", no_spread),
        ):
            if given:
                raise InputError("table", "", f"--csv and {name}", "--csv without it: CSV has every value of every run")
        print(tables.tidy(found, values, of).write_csv(), end="")
        return
    shown = [
        tables.table(found, one, rows, columns, of=of, mean_over=mean_over or [], spread=not no_spread)
        for one in values
    ]
    print("\n\n".join(one.markdown() for one in shown))


def compare(
    results: File,
    reference: Annotated[
        str,
        typer.Argument(help="CSV of published results, or sce, linux-6.12 and so on; with --engines, other results."),
    ] = "",
    where: Where = None,
    engine: Engine = None,
    engines: Annotated[
        bool, typer.Option("--engines", help="The same cells on the simulator and on another engine, side by side.")
    ] = False,
    scores_only: Annotated[bool, typer.Option("--scores", help="Scores alone, no cells.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One compared figure a row.")] = False,
    any_length: Annotated[bool, typer.Option("--any-length", help="Match runs of any duration.")] = False,
) -> None:
    """Print results beside published ones, or two engines' beside each other, cell by cell, with errors and scores."""
    from dumbbell import by_class, by_flow
    from dumbbell import compare as comparing
    from dumbbell import engines as beside

    if scores_only and as_csv:
        raise InputError("compare", "", "--scores and --csv", "one of them")
    if engines:
        if where or as_csv or any_length:
            raise InputError("compare", "", "--engines with another option", "--engines, --engine and --scores")
        both = beside.compare(results, reference or None, ("sim", engine))
        print(beside.scores(both) if scores_only else beside.markdown(both))
        return
    if not reference:
        raise InputError("compare", "REFERENCE", "nothing", "a CSV of published results, or --engines")
    reference = _reference(reference)
    found = _results(results, where, engine)
    table = comparing.grids
    if by_class.describes(reference):
        compared = by_class.compare(found.runs, found.classes, by_class.read(reference))
        table = by_class.table
    elif by_flow.describes(reference):
        compared = by_flow.compare(found.runs, found.flows, by_flow.read(reference))
        table = by_flow.table
    else:
        published = comparing.read_reference(reference)
        compared = comparing.compare(found.runs, found.flows, published, any_length=any_length)
    if not compared.pairs:
        raise InputError(results, "", "no run that answers a cell", f"runs of cells in {reference}")
    if as_csv:
        _print_csv(comparing.tidy_rows(compared))
        return
    if not scores_only:
        print(table(compared), end="\n\n")
    print("\n\n".join([comparing.scores(compared), *found.notes]))


def _reference(name: str) -> str:
    """Return the path of a reference: a file, or one of those that come with dumbbell, with or without its ending."""
    if not Path(name).exists():
        own = shipped("references") / (name if name.endswith(".csv") else f"{name}.csv")
        if Path(name).name == name and own.exists():
            return str(own)
    return name


def draft(
    name: Annotated[str, typer.Argument(metavar="DRAFT", help="Whose tables: sce.")],
    results: Annotated[list[str], typer.Argument(metavar="RESULTS...", help="Results files.")],
    only: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Tables to print, such as 12,13 or 22-36.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="One figure a row.")] = False,
    maps: Annotated[
        str | None, typer.Option("--heat-maps", metavar="DIR", help="Draw the errors of every group of tables.")
    ] = None,
    reference: Annotated[str | None, typer.Option(metavar="CSV", help="The draft's figures.")] = None,
) -> None:
    """Print a draft's tables in its own order: simulated (published)."""
    from dumbbell import compare as comparing
    from dumbbell.drafts import DRAFTS, fill

    if name not in DRAFTS:
        raise InputError("draft", "", name, ", ".join(DRAFTS), nearest(name, DRAFTS))
    tables = fill.chosen(DRAFTS[name].tables, only)
    published = comparing.read_reference(reference or shipped("references") / DRAFTS[name].reference)
    found = [_results(file) for file in results]
    runs, flows = (
        pl.concat(parts, how="diagonal_relaxed").unique(keys, keep="first", maintain_order=True)
        for parts, keys in (([f.runs for f in found], ["key"]), ([f.flows for f in found], ["key", "flow"]))
    )
    filled = fill.fill(tables, runs, flows, published)
    if not any(pair.seeds for one in filled for cell in one.cells.values() for pair in cell):
        raise InputError(", ".join(results), "", "no run that answers a cell", f"runs of experiments/{name}")
    if as_csv:
        _print_csv(fill.tidy_rows(filled))
    else:
        print("\n\n".join([fill.markdown(filled), *(note for one in found for note in one.notes)]))
    if maps is not None:
        print("\n".join(map(str, fill.heat_maps(filled, maps))), file=sys.stderr)


def claims(
    results: File,
    file: Annotated[str, typer.Argument(metavar="[CLAIMS]", help="File of claims, or a name: csaqm.")] = "csaqm",
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID[,ID]", help="Only these claims or sections.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every verdict with all its numbers, as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One claim a row.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="A page: every claim by section.")] = False,
    fail: Annotated[bool, typer.Option("--fail", help="Leave with 1 if a claim fails.")] = False,
) -> None:
    """Print whether a paper's claims hold in results, with values and intervals.

    Exit status: 0 done, 1 a claim fails (with --fail), 2 bad input.
    """
    from dumbbell import claims as claiming
    from dumbbell.claims import report

    if as_json + as_csv + as_markdown > 1:
        raise InputError("claims", "", "several of --json, --csv and --markdown", "one of them")
    wanted = claiming.load(file).only([name for names in only or [] for name in names.split(",")])
    found = _results(results)
    verdicts = claiming.judge(wanted, claiming.tables_of(wanted, found))
    if as_csv:
        _print_csv([report.row(one) for one in verdicts])
    else:
        shape = report.as_json if as_json else report.markdown if as_markdown else report.text
        print("\n\n".join([shape(wanted, verdicts), *([] if as_json else found.notes)]))
    if fail and any(one.verdict == claiming.FAILS for one in verdicts):
        raise typer.Exit(DIFFERENT)


def _print_csv(rows: list[dict[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, list(dict.fromkeys(c for row in rows for c in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


PAPERS = ("abe", "csaqm", "l4s")


def paper(
    name: Annotated[str, typer.Argument(metavar="PAPER", help="Whose figures: abe, csaqm, l4s.")],
    results: File,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="DIR", help="Folder for the figures.")] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="CSV", help="Published statistics to show beside l4s.")
    ] = None,
) -> None:
    """Print a paper's results as tables and, with -o, draw its figures."""
    from dumbbell import abe, coexistence_paper, l4s

    if name not in PAPERS:
        raise InputError("paper", "", name, ", ".join(PAPERS), nearest(name, PAPERS))
    if reference is not None and name != "l4s":
        raise InputError("paper", "--reference", name, "l4s")
    if name == "l4s":
        reports = l4s.Results(results, reference)
        print(l4s.tables(reports))
        drawn = [] if output is None else l4s.draw(reports, output)
    elif name == "csaqm":
        matrix = coexistence_paper.Results(results)
        print(coexistence_paper.tables(matrix))
        drawn = [] if output is None else coexistence_paper.draw(matrix, output)
    else:
        found = abe.Results(results)
        print(abe.tables(found))
        drawn = [] if output is None else abe.draw(found, output)
    if drawn:
        print("\n".join(map(str, drawn)), file=sys.stderr)


def plot(
    results: File,
    output: Annotated[str, typer.Option("-o", "--output", help="Picture: .png, .pdf or .svg.")] = "plot.png",
    kind: Annotated[
        str | None, typer.Option(help="How to draw: lines, bars, box, cdf, ccdf, heat, ellipses, series, shares.")
    ] = None,
    value: Annotated[list[str] | None, typer.Option(help="What to draw: goodput, rtt, sojourn, ...")] = None,
    against: Annotated[str | None, typer.Option(metavar="KEY", help="Key along the horizontal axis.")] = None,
    by: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Key that tells lines or bars apart.")] = None,
    facet: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Key that tells panels apart.")] = None,
    reference: Annotated[str | None, typer.Option(help="Draw beside this CSV of published results.")] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="KEY=VALUE", help="Draw the difference from the runs with this value.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="FROM..TO", help="Part of time series to draw, such as 20s..21s.")
    ] = None,
    where: Where = None,
    mean_over: MeanOver = None,
    of: Of = None,
    engine: Engine = None,
) -> None:
    """Draw what suits the results, or what is asked for: lines, bars, distributions, heat maps, time series."""
    from dumbbell import figures, plotting

    _of(of)
    found = _results(results, where, engine)
    figure = plotting.plot(
        found,
        kind,
        value=value or [],
        against=against,
        by=by or [],
        facet=facet or [],
        reference=None if reference is None else _reference(reference),
        baseline=baseline,
        time=None if time is None else _span(time),
        mean_over=mean_over or [],
        of=of,
    )
    figures.save(figure, output)
    print("\n".join([output, *found.notes]), file=sys.stderr)


def _span(text: str) -> tuple[float, float]:
    """Return two times, `20s..21s`, in seconds."""
    try:
        start, end = (units.parse("time", part) / 1e9 for part in text.split(".."))
    except (ValueError, InputError):
        raise InputError("--time", "", text, "FROM..TO, such as 20s..21s") from None
    if start >= end:
        raise InputError("--time", "", text, "FROM before TO, such as 20s..21s")
    return start, end


def diff(
    results: File,
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="Results to hold against the first.")] = None,
    by: Annotated[
        str | None, typer.Option(metavar="KEY[=A,B]", help="Hold the runs of one value of a key against another.")
    ] = None,
    value: Annotated[list[str] | None, typer.Option(help="Measures to compare; by default all.")] = None,
    where: Where = None,
    engine: Engine = None,
    cells: Annotated[bool, typer.Option("--cells", help="Every cell that differs, not only each measure.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One compared cell and measure a row.")] = False,
) -> None:
    """Print what differs between two results, surest and largest first.

    Exit status: 0 no difference, 1 different, 2 bad input.
    """
    from dumbbell import diff as differing

    if (other is None) == (by is None):
        raise InputError("diff", "", "neither OTHER nor --by" if by is None else "OTHER and --by", "one of them")
    if cells and as_csv:
        raise InputError("diff", "", "--cells and --csv", "one of them")
    first = _results(results, where, engine)
    second = None if other is None else _results(other, where, engine)
    found = differing.diff(first, second, by=by, values=value or [])
    print(found.frame.write_csv() if as_csv else found.markdown(cells=cells), end="" if as_csv else "\n")
    if found.different:
        raise typer.Exit(DIFFERENT)


def export(
    results: File,
    output: Annotated[str, typer.Option("-o", "--output", help="Folder for one file a table.")] = ".",
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV (the default).")] = False,
    as_parquet: Annotated[bool, typer.Option("--parquet", help="Parquet.")] = False,
) -> None:
    """Write every table of the results, all engines' runs, as CSV or Parquet; files that exist are not written over."""
    if as_csv and as_parquet:
        raise InputError("export", "", "--csv and --parquet", "one of them")
    folder, ending = Path(output), "parquet" if as_parquet else "csv"
    with Store.open(results) as store:
        paths = {name: folder / f"{name}.{ending}" for name in TABLES}
        for path in paths.values():
            if path.exists():
                raise InputError(str(path), "", "a file", "a name that is free")
        path = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, path in paths.items():
                rows = store.table(name)
                if as_parquet:
                    rows.write_parquet(path)
                else:
                    rows.write_csv(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            if path.is_file():
                path.unlink()  # a part of a table
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise InputError(output, "", reason.lower(), "a folder that can be written to, with space") from None
    print("\n".join(map(str, paths.values())))


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module to the command line."""
    for command in (table, plot, diff, compare, draft, paper, claims, export, check, doctor):
        app.command()(command)
