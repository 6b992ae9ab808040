"""The commands that read results: `dumbbell table`, `plot`, `diff`, `compare`, `draft`, `claims` and so on."""

from __future__ import annotations

import contextlib
import csv
import re
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from dumbbell.errors import (
    Conflict,
    InputError,
    Missing,
    Nothing,
    Unfit,
    UnknownName,
    Unreadable,
    Unwritable,
    WrongValue,
    shown,
)
from dumbbell.experiment import shipped, units
from dumbbell.results.results import PARTS, Results
from dumbbell.results.store import TABLES, Store
from dumbbell.scratch import Scratch

DIFFERENT = 1  # exit status

File = Annotated[str, typer.Argument(metavar="RESULTS", help="Results file written by dumbbell run.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="KEY=VALUE[,VALUE]", help="Only runs, flows and classes like this: docs/selecting.md."
    ),
]
MeanOver = Annotated[
    list[str] | None, typer.Option("--mean-over", metavar="KEY", help="Take means over the values of this key.")
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Runs of sim, live, linux (all kernels), linux:NAME, a version, or all; by default the newest of sim.",
    ),
]
Of = Annotated[str | None, typer.Option(help=f"Whose figures: {', '.join(PARTS)}, runs.")]


_FILES = (".csv", ".parquet", ".json", ".gz", ".bz2", ".zip", ".toml", ".duckdb")  # names of files, none of a folder
_KEYS_OF_RUNS = "keys of runs, such as flows[*].cc or bottleneck.rate"


def _results(path: str, where: list[str] | None = None, engine: str | None = None) -> Results:
    results = Results(path, engine=engine)
    if not results.keys:
        raise Nothing(path, "", "no finished run", "results of at least one run")
    return results.where(*(where or []))


def _whole_runs(path: str, where: list[str] | None, engine: str | None, why: str) -> Results:
    """Return results of one engine; conditions on flows or classes are refused, and `why` says so."""
    found = _one_engine(_results(path, where, engine))
    found.require_whole_runs(why, _KEYS_OF_RUNS)
    return found


def _one_engine(results: Results) -> Results:
    """Return results that are of one engine; raises InputError for those of several kernels."""
    if results.selected_engine == "linux" and len(results.engines) > 1:
        names = results.engine_texts().values()
        raise Unfit(str(results.path), "--engine", f"linux is {len(names)} kernels", names)
    return results


def _of(of: str | None) -> None:
    if of is not None and of not in (*PARTS, "runs"):
        raise UnknownName("--of", "", of, (*PARTS, "runs"), what="part")


def table(
    results: File,
    rows: Annotated[list[str] | None, typer.Option(help="Key whose values are the rows; several are allowed.")] = None,
    columns: Annotated[str | None, typer.Option(help="Key whose values are the columns.")] = None,
    value: Annotated[list[str] | None, typer.Option(help="What to show: goodput, rtt, sojourn_p99, ...")] = None,
    where: Where = None,
    mean_over: MeanOver = None,
    of: Of = None,
    engine: Engine = None,
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
    """Print means over seeds with their intervals: any key by any other, all keys that differ.

    Whatever else the runs differ in becomes a row, unless --mean-over names it.
    """
    from dumbbell.results import tables

    formats = {"--csv": as_csv or raw, "--latex": as_latex, "--markdown": as_markdown}
    if sum(formats.values()) > 1:
        wanted = {"--raw": raw} | formats | {"--csv": as_csv and not raw}
        raise Conflict("table", "", " and ".join(name for name, given in wanted.items() if given), "one of them")
    if caption is not None and not as_latex:
        raise Unfit("--caption", "", "it is of LaTeX tables", "--latex as well")
    _of(of)
    found = _results(results, where, engine)
    values = value or found.default_measures(of)
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
                raise Conflict("table", "", f"--raw and {name}", allowed)
        print(tables.tidy(found, values, of).write_csv(), end="")
        return
    shown = [
        tables.table(found, one, rows, columns, of=of, mean_over=mean_over or [], spread=not no_spread, limit=limit)
        for one in values
    ]
    if as_csv:
        print(tables.whole_csv(shown), end="")
    else:
        print("\n\n".join(one.to_latex(caption) if as_latex else one.markdown() for one in shown))


def compare(
    results: File,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="[REFERENCE]",
            help="CSV of published results, or sce, linux-6.12 and so on; with --engines, other results "
            "or two engines.",
        ),
    ] = "",
    where: Where = None,
    engine: Engine = None,
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
    """Print results against published ones, or two engines' side by side, cell by cell, with errors and scores."""
    from dumbbell.published import compare as comparing
    from dumbbell.published import engines as beside
    from dumbbell.published.reference import compared as held

    if scores_only and as_csv:
        raise Conflict("compare", "", "--scores and --csv", "one of them")
    if engines:
        if where or as_csv or any_length:
            raise Conflict("compare", "", "--engines and other options", "--engine and --scores with it alone")
        pair = reference if "," in reference and not Path(reference).exists() else engine or ""
        other = None if pair == reference else reference
        first, comma, second = pair.partition(",")
        both = beside.compare(results, other or None, (first, second) if comma else ("sim", engine))
        text = beside.scores(both) if scores_only else beside.markdown(both)
        print("\n\n".join(filter(None, [text, beside.sharing(both)])))
        return
    if not reference:
        raise Missing("compare", "REFERENCE", "a CSV of published results, or --engines")
    reference = _reference(reference)
    found = _whole_runs(results, where, engine, "compare holds whole runs")
    compared, table = held(found, reference, any_length=any_length)
    if not compared.pairs:
        raise Nothing(results, "", "no run that answers a cell", f"runs of cells in {reference}")
    if as_csv:
        _print_csv(comparing.tidy_rows(compared))
        return
    if not scores_only:
        print(table(compared), end="\n\n")
    print("\n\n".join([comparing.scores(compared), *found.notes]))


def _reference(name: str) -> str:
    """Return the path of a reference: a file, or one of those that come with dumbbell, with or without its ending."""
    if Path(name).exists():
        return name
    stem = Path(name).name.removesuffix(".csv")
    own = shipped.references().get(stem)
    if own is None:
        return name
    if Path(name).name != name:
        raise Unreadable(name, "", "no such file or directory", "a CSV file of published results", stem)
    return str(own)


def draft(
    name: Annotated[str, typer.Argument(metavar="DRAFT", help="Whose tables: sce.")],
    results: Annotated[list[str], typer.Argument(metavar="RESULTS...", help="Results files.")],
    only: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Tables to print, such as 12,13 or 22-36.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="One figure per row.")] = False,
    maps: Annotated[
        str | None, typer.Option("--heat-maps", metavar="DIR", help="Draw the errors of every group of tables.")
    ] = None,
    reference: Annotated[str | None, typer.Option(metavar="CSV", help="The draft's figures.")] = None,
    where: Where = None,
    engine: Engine = None,
) -> None:
    """Print a draft's tables in its own order: simulated (published)."""
    from dumbbell.published import compare as comparing
    from dumbbell.published.drafts import DRAFTS, fill

    if name not in DRAFTS:
        raise UnknownName("draft", "", name, list(DRAFTS), what="draft")
    tables = fill.chosen(DRAFTS[name].tables, only)
    published = comparing.read_reference(reference or shipped.references()[DRAFTS[name].reference])
    found = [_whole_runs(file, where, engine, "draft holds whole runs") for file in results]
    runs, flows = (
        pl.concat(parts, how="diagonal_relaxed").unique(keys, keep="first", maintain_order=True)
        for parts, keys in (([f.runs for f in found], ["key"]), ([f.flows for f in found], ["key", "flow"]))
    )
    filled = fill.fill(tables, runs, flows, published)
    if not any(pair.seeds for one in filled for cell in one.cells.values() for pair in cell):
        raise Nothing(", ".join(results), "", "no run that answers a cell", f"runs of the experiments of {name}")
    if as_csv:
        _print_csv(fill.tidy_rows(filled))
    else:
        print("\n\n".join([fill.markdown(filled), *(note for one in found for note in one.notes)]))
    if maps is not None:
        print("\n".join(map(str, fill.heat_maps(filled, maps))), file=sys.stderr)


def claims(
    results: File,
    file: Annotated[
        str, typer.Argument(metavar="[CLAIMS]", help="File of claims, or a study: coexistence.")
    ] = "coexistence",
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID[,ID]", help="Only these claims or sections.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every verdict with all its numbers, as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One row per claim.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="A page: every claim by section.")] = False,
    fail: Annotated[bool, typer.Option("--fail", help="Leave with 1 if a claim fails.")] = False,
    run_program: Annotated[
        bool,
        typer.Option("--run-program", help="Run the program that the claims name as frames, NAME.py next to them."),
    ] = False,
    where: Where = None,
    engine: Engine = None,
) -> None:
    """Print whether a paper's claims hold in results, with values and intervals.

    Exit status: 0 done, 1 a claim fails (with --fail), 2 bad input.
    """
    from dumbbell import claims as claiming
    from dumbbell.claims import report

    if as_json + as_csv + as_markdown > 1:
        raise Conflict("claims", "", "--json, --csv and --markdown", "one of them")
    wanted = claiming.load(file).only([name for names in only or [] for name in names.split(",")])
    found = _whole_runs(results, where, engine, "claims are of whole runs")
    verdicts = claiming.judge(wanted, claiming.tables_of(wanted, found, run_program=run_program))
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


def paper(
    name: Annotated[str, typer.Argument(metavar="PAPER", help="Whose: abe, coexistence or dualpi2-versions.")],
    results: File,
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
    where: Where = None,
    engine: Engine = None,
) -> None:
    """Print a paper's results as tables and, with -o, draw its figures: those that there are runs for."""
    from dumbbell import figures, programs
    from dumbbell.pages import study

    if name not in study.papers():
        raise UnknownName("paper", "", name, study.papers(), what="paper")
    module = programs.load(study.folder(name) / study.PAPER)
    if reference is not None and not getattr(module, "TAKES_REFERENCE", False):
        raise Conflict("paper", "", f"--reference and {name}", "it with dualpi2-versions")
    if formats is not None and output is None and only is None:
        raise Missing("paper", "--output", "a folder for the figures that --format is of, or --only FIGURE")
    endings = [f".{one.strip()}" for one in (formats or "png").split(",")]
    for ending in endings:
        if ending not in figures.SUFFIXES:
            known = [one[1:] for one in figures.SUFFIXES]
            raise UnknownName("paper", "--format", ending[1:], known, what="format")
    chosen = _whole_runs(results, where, engine, "a paper holds whole runs")
    found = module.Results(chosen) if reference is None else module.Results(chosen, reference)
    if only is None:
        print(module.tables(found))
    folder = output or ("." if only else None)
    drawn = module.draw(found, folder, only, endings) if folder else []
    if drawn:
        print("\n".join(map(str, drawn)), file=sys.stderr)


def plot(
    results: File,
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="Results to draw the differences to.")] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", help="Picture: .png, .pdf or .svg; .html is interactive.")
    ] = "plot.png",
    kind: Annotated[
        str | None,
        typer.Option(
            help="How to draw: lines, bars, box, cdf, ccdf, heat, ratio, ellipses, differences, series, shares, felt."
        ),
    ] = None,
    value: Annotated[list[str] | None, typer.Option(help="What to draw: goodput, rtt, sojourn, ...")] = None,
    against: Annotated[str | None, typer.Option(metavar="KEY", help="Key along the horizontal axis.")] = None,
    by: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Key that distinguishes lines or bars.")] = None,
    facet: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Key that distinguishes panels.")] = None,
    reference: Annotated[str | None, typer.Option(help="Draw against this CSV of published results.")] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="KEY=VALUE", help="Draw the difference from the runs with this value.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="FROM..TO", help="Part of time series to draw, such as 20s..21s.")
    ] = None,
    slider: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Key that a slider or a list chooses from, in .html.")
    ] = None,
    where: Where = None,
    mean_over: MeanOver = None,
    of: Of = None,
    engine: Engine = None,
    width: Annotated[
        str | None, typer.Option(metavar="WIDTH", help="3.5in, 9cm, 90mm; single or double, columns of a paper.")
    ] = None,
    height: Annotated[str | None, typer.Option(metavar="HEIGHT", help="Such as 2.5in; by default what suits.")] = None,
    font_size: Annotated[float | None, typer.Option(min=4, max=40, help="Of the text, in points.")] = None,
    log_x: Annotated[bool | None, typer.Option("--log-x/--linear-x", help="Scale of the horizontal axis.")] = None,
    log_y: Annotated[bool | None, typer.Option("--log-y/--linear-y", help="Scale of the vertical axis.")] = None,
    title: Annotated[str | None, typer.Option(help="Instead of the title of the experiment.")] = None,
    no_title: Annotated[bool, typer.Option("--no-title", help="No title: papers have it in the caption.")] = False,
) -> None:
    """Draw what suits the results, or what is asked for: lines, bars, distributions, heat maps, time series.

    Of what suits, a line says why, and which option draws another figure. A page, .html, needs no network.

    Experiments that vary different keys have a figure each, NAME-EXPERIMENT.png, unless keys say what to draw.
    """
    from dumbbell import figures, plotting

    if no_title and title is not None:
        raise Conflict("plot", "", "--title and --no-title", "one of them")

    _of(of)
    found = _results(results, where, engine)
    draw = partial(
        plotting.plot,
        kind=kind,
        other=None if other is None else _results(other, where, engine),
        value=value or [],
        against=against,
        by=by or [],
        facet=facet or [],
        reference=None if reference is None else _reference(reference),
        baseline=baseline,
        time=None if time is None else units.span(time, "--time"),
        slider=slider or [],
        mean_over=mean_over or [],
        of=of,
        log_x=log_x,
        log_y=log_y,
        title="" if no_title else title,
        width=_inches("--width", width),
        height=_inches("--height", height),
        font_size=font_size,
    )
    mixed = {} if other or against or by or facet or slider or mean_over or reference else found.unlike_experiments
    path, drawn, hints, errors = Path(output), [], [], []
    for name, own in {name: found.where(experiment=name) for name in mixed}.items() or [("", found)]:
        try:
            with figures.unarranged():
                picture = draw(own)
            drawn.append(figures.write(picture, path.with_stem(f"{path.stem}-{name}") if name else path))
            hints += [text for text in (picture.why, picture.hint) if text and text not in hints]
        except InputError as error:
            errors.append(error.within(f"--where experiment={name}") if name else error)
    if drawn:
        print("\n".join([*map(str, drawn), *found.notes, *hints, *map(str, errors[1:])]), file=sys.stderr)
    if errors:
        raise errors[0]


_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(in|cm|mm)\s*")


def _inches(option: str, text: str | None) -> float | None:
    """Return a length in inches."""
    from dumbbell.figures import style

    columns = {"single": style.SINGLE, "double": style.DOUBLE}
    if text is None or (option == "--width" and text in columns):
        return None if text is None else columns[text]
    match = _SIZE.fullmatch(text)
    inches = float(match[1]) * _INCHES[match[2]] if match else 0.0
    if not 1 <= inches <= 40:
        raise WrongValue(
            "", option, shown(text), "1in to 40in, such as 3.5in or 9cm" + ", or single, double" * (option == "--width")
        )
    return inches


def differ(
    results: str,
    other: str | None,
    by: str | None,
    *,
    values: list[str],
    where: list[str] | None,
    engine: str | None,
    cells: bool,
    as_csv: bool,
) -> bool:
    """Print what differs between two results, or between values of a key, and return whether anything does."""
    from dumbbell.results import diff as differing

    if (other is None) == (by is None):
        raise (
            Missing("diff", "OTHER", "another results file, or --by KEY")
            if by is None
            else Conflict("diff", "", "OTHER and --by", "one of them")
        )
    if cells and as_csv:
        raise Conflict("diff", "", "--cells and --csv", "one of them")
    engine = engine or differing.engine_of(by)
    first = _results(results, where, engine)
    second = None if other is None else _results(other, where, engine)
    found = differing.diff(first, second, by=by, values=values)
    print(found.frame.write_csv() if as_csv else found.markdown(cells=cells), end="" if as_csv else "\n")
    return found.different


def export(
    results: File,
    output: Annotated[
        str, typer.Option("-o", "--output", help="Folder for one file per table, or per run for Flent; NAME.flent.gz.")
    ] = ".",
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV (the default).")] = False,
    as_parquet: Annotated[bool, typer.Option("--parquet", help="Parquet.")] = False,
    as_flent: Annotated[
        bool, typer.Option("--flent", help="Data files of Flent, one per run; so is -o NAME.flent.gz, for one run.")
    ] = False,
    where: Where = None,
    engine: Annotated[
        str, typer.Option("--engine", metavar="ENGINE", help="Runs of this engine, as for table.")
    ] = "all",
) -> None:
    """Write every table of the results as CSV or Parquet, or runs for Flent; files that exist are not written over."""
    from dumbbell.exchange.flent import write as flent

    formats = {"--csv": as_csv, "--parquet": as_parquet, "--flent": as_flent or flent.is_file(output)}
    if sum(formats.values()) > 1:
        raise Conflict("export", "", " and ".join(name for name, given in formats.items() if given), "one of them")
    if formats["--flent"]:
        found = _results(results, where, engine)
        found.require_whole_runs("export writes whole runs", _KEYS_OF_RUNS)
        print("\n".join(map(str, flent.export(found, output))))
        return
    folder, ending = Path(output), "parquet" if as_parquet else "csv"
    if folder.suffix in _FILES and not folder.is_dir():
        allowed = "a folder for a file of each table, or NAME.flent.gz for one run"
        raise WrongValue("export", "-o", shown(output), allowed)
    keys = None
    if where or engine != "all":
        found = _results(results, where, engine)
        found.require_whole_runs("export writes whole runs", _KEYS_OF_RUNS)
        keys = pl.DataFrame({"key": found.keys})
    paths = {name: folder / f"{name}.{ending}" for name in TABLES}
    with Store.open(results) as store:
        for path in paths.values():
            if path.exists():
                raise Unwritable(str(path), "", "this file exists", "a name that is free")
        is_new = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # all of them or none: the tables appear when the last one is complete
            with Scratch(folder) as draft:
                for name, path in paths.items():
                    rows = store.table(name)
                    if keys is not None:
                        rows = rows.join(keys, on="key", how="semi", maintain_order="left")
                    if as_parquet:
                        rows.write_parquet(draft / path.name)
                    else:
                        rows.write_csv(draft / path.name)
                for path in paths.values():
                    (draft / path.name).rename(path)
        except BaseException as error:
            if is_new:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if not isinstance(error, OSError | pl.exceptions.PolarsError):
                raise
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise Unwritable(output, "", reason.lower(), "a folder that can be written to, with space") from None
    print("\n".join(map(str, paths.values())))
