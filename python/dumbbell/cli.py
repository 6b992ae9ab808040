"""The command line: `dumbbell run`, `table`, `compare` and so on."""

import contextlib
import csv
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Never

import polars as pl
import typer

from dumbbell import experiment, json_schema, reference, registry, shipped, sweep, units
from dumbbell._native import engine_version
from dumbbell.errors import InputError, nearest, one_line
from dumbbell.store import TABLES, Alike, Store
from dumbbell.tables import PARTS, Frame, markdown, tidy

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A laboratory for congestion control and active queue management.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            version = importlib.metadata.version("dumbbell")
        except importlib.metadata.PackageNotFoundError:  # run from its folder
            version = engine_version().partition("+")[0]
        print(f"dumbbell {version} (engine {engine_version()})")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print versions and leave.")
    ] = False,
) -> None:
    pass


File = Annotated[str, typer.Argument(metavar="RESULTS", help="Results file written by dumbbell run.")]
Where = Annotated[list[str] | None, typer.Option("--where", metavar="KEY=VALUE", help="Only runs and flows like this.")]


def _frame(results: str, of: str = "flows") -> Frame:
    with Store.open(results) as store:
        frame = Frame(store.table("runs"), store.table(of), results, of)
    if frame.runs.height == 0:
        raise InputError(results, "", "no finished run", "results of at least one run")
    return frame


@app.command()
def run(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Experiment files, or names from dumbbell list.")
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", help="Results file; runs that it has are skipped.")
    ] = "results.duckdb",
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time; all cores by default.")] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on a Dask cluster: its scheduler, tcp://HOST:PORT.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replaces a key of the files.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check, and say how many runs, how long, how large.")
    ] = False,
) -> None:
    """Run experiments; what the results file has already is not run again."""
    if jobs is not None and cluster is not None:
        raise InputError("run", "", "--jobs and --cluster", "one of them")
    experiments = [experiment.load(file, settings) for file in files]
    if dry_run:
        workers = sweep.slots(jobs, cluster)
        plan = sweep.estimate(experiments, output, workers)
        kept = f", {plan.kept} of them already in {output}" if plan.kept else ""
        costs = f"about {_duration(plan.seconds)} on {workers} cores, {_size(plan.size)} in {output}"
        print(f"{plan.runs} runs{kept}; {costs}")
        return
    report = sweep.run(experiments, output, jobs=jobs, cluster=cluster, on_failure=_failure)
    counts = f"{report.done} runs done, {report.kept} kept from before, {len(report.failed)} failed"
    print(f"{counts}{', interrupted' if report.interrupted else ''}: {output}", file=sys.stderr)
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)
    if report.alike and report.alike.same:
        print(_alike(report.alike), file=sys.stderr)
    if report.failed:
        raise typer.Exit(FAILED)


def _failure(cell: experiment.Cell, text: str) -> None:
    place = ", ".join(f"{key} = {value}" for key, value in cell.matrix.items())
    print(
        one_line(f"{cell.experiment}: failed: {text} ({place}{', ' * bool(place)}seed = {cell.seed})"), file=sys.stderr
    )


def _alike(alike: Alike) -> str:
    """Return what there is to say of cells in which the seed made no difference."""
    runs = f"in {alike.same} of {alike.cells} cells all seeds (up to {alike.seeds}) made the same run"
    return (
        f'{runs}: nothing random mattered in them; start = {{ uniform = ["0s", "1s"] }} or jitter draws from the seed'
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _size(size: float) -> str:
    return f"{max(size / 1e6, 1):.0f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"


@app.command("list")
def list_(what: Annotated[str, typer.Argument(metavar="[aqm|cc|stage|experiments]")] = "") -> None:
    """List queue disciplines, congestion controls, stages of paths and the experiments that come with dumbbell."""
    kinds = ("aqm", "cc", "stage", "experiments")
    if what and what not in kinds:
        raise InputError("list", "", what, ", ".join(kinds), nearest(what, kinds))
    known = registry.registry()
    for kind, algorithms in (("aqm", known.aqm), ("cc", known.cc), ("stage", known.stage)):
        if what in ("", kind):
            width = max(map(len, algorithms), default=0)
            print("\n".join([f"{kind}:", *(f"  {a.name:{width}}  {a.title}" for a in algorithms.values())]))
    if what in ("", "experiments"):
        print("experiments:")
        titles = {name: experiment.title(path) for name, path in shipped.experiments().items()}
        width = max(map(len, titles), default=0)
        for name, title in titles.items():
            print(f"  {name:{width}}  {title}".rstrip())


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="A key, table, algorithm, profile or column.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="The whole reference, as Markdown.")] = False,
) -> None:
    """Say what a key, table or algorithm of experiment files takes, or what a column of the results is."""
    if everything == bool(name):
        raise InputError("describe", "", f"{name} and --all" if name else "no name", "a name, or --all")
    print(reference.markdown() if everything else reference.describe(name), end="" if everything else "\n")


@app.command("schema")
def schema_() -> None:
    """Print the JSON Schema of experiment files, for editors."""
    print(json.dumps(json_schema.file_schema(), indent=2))


@app.command()
def table(
    results: File,
    rows: Annotated[str, typer.Option(help="Key whose values are the rows.")] = "bottleneck.rate",
    columns: Annotated[str | None, typer.Option(help="Key whose values are the columns.")] = None,
    value: Annotated[list[str] | None, typer.Option(help="What to show: goodput, rtt, sojourn_p99, ...")] = None,
    where: Where = None,
    of: Annotated[str, typer.Option(help=f"Whose figures: {', '.join(PARTS)}.")] = "flows",
    spread: Annotated[bool, typer.Option("--spread", help="Add the standard deviation.")] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Tidy CSV: one value a row, every matrix key a column.")
    ] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="An aligned Markdown table (the default).")] = False,
) -> None:
    """Print a table of results: any key by any other, means over the rest."""
    if as_csv and as_markdown:
        raise InputError("table", "", "--csv and --markdown", "one of them")
    if of not in PARTS:
        raise InputError("--of", "", of, ", ".join(PARTS), nearest(of, PARTS))
    frame = _frame(results, of)
    values = value or ["slowdown" if of in ("slowdowns", "short_flows") else "goodput"]
    if as_csv:
        print(tidy(frame, values, where), end="")
    else:
        print("\n\n".join(markdown(frame, rows, columns, v, where=where, spread=spread) for v in values))


@app.command()
def compare(
    results: File,
    reference: Annotated[str, typer.Argument(help="CSV of published results.")],
    scores_only: Annotated[bool, typer.Option("--scores", help="Scores alone, no cells.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One compared figure a row.")] = False,
    any_length: Annotated[bool, typer.Option("--any-length", help="Match runs of any duration.")] = False,
) -> None:
    """Print results beside published ones, cell by cell, with errors and scores."""
    from dumbbell import by_class
    from dumbbell import compare as comparing

    of_classes = by_class.describes(reference)
    figures = by_class.read(reference) if of_classes else comparing.read_reference(reference)
    if of_classes:
        with Store.open(results) as store:
            compared = by_class.compare(store.table("runs"), store.table("classes"), figures)
    else:
        frame = _frame(results)
        compared = comparing.compare(frame.runs, frame.flows, figures, any_length=any_length)
    if not compared.pairs:
        raise InputError(results, "", "no run that answers a cell", f"runs of cells in {reference}")
    if as_csv:
        _print_csv(comparing.tidy_rows(compared))
        return
    if not scores_only:
        print((by_class.table if of_classes else comparing.grids)(compared), end="\n\n")
    print(comparing.scores(compared))


@app.command()
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
    published = comparing.read_reference(reference or shipped.folder("references") / DRAFTS[name].reference)
    frames = [_frame(file) for file in results]
    runs, flows = (
        pl.concat(parts, how="diagonal_relaxed").unique(keys, keep="first", maintain_order=True)
        for parts, keys in (([f.runs for f in frames], ["key"]), ([f.flows for f in frames], ["key", "flow"]))
    )
    filled = fill.fill(tables, runs, flows, published)
    if not any(pair.seeds for one in filled for cell in one.cells.values() for pair in cell):
        raise InputError(", ".join(results), "", "no run that answers a cell", f"runs of experiments/{name}")
    if as_csv:
        _print_csv(fill.tidy_rows(filled))
    else:
        print(fill.markdown(filled))
    if maps is not None:
        print("\n".join(map(str, fill.heat_maps(filled, maps))), file=sys.stderr)


def _print_csv(rows: list[dict[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, list(dict.fromkeys(c for row in rows for c in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


@app.command()
def paper(
    name: Annotated[str, typer.Argument(metavar="PAPER", help="Whose figures: abe.")],
    results: File,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="DIR", help="Folder for the figures.")] = None,
) -> None:
    """Print a paper's results as tables and, with -o, draw its figures."""
    from dumbbell import abe

    if name != "abe":
        raise InputError("paper", "", name, "abe", nearest(name, ["abe"]))
    found = abe.Results(results)
    print(abe.tables(found))
    if output is not None:
        print("\n".join(map(str, abe.draw(found, output))), file=sys.stderr)


@app.command()
def plot(
    results: File,
    output: Annotated[str, typer.Option("-o", "--output", help="Picture: .png, .pdf or .svg.")] = "plot.png",
    reference: Annotated[str | None, typer.Option(help="Draw errors beside this CSV of published results.")] = None,
    value: Annotated[str | None, typer.Option(help="What to draw.")] = None,
    against: Annotated[
        str | None, typer.Option(metavar="KEY", help="Draw means against the values of this key.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="FROM..TO", help="Part of time series to draw, such as 20s..21s.")
    ] = None,
    where: Where = None,
) -> None:
    """Draw time series, with --against lines over a key or, with --reference, a heat map of errors."""
    from dumbbell import compare as comparing
    from dumbbell import figures
    from dumbbell.tables import selected

    frame = _frame(results)
    if reference is not None:
        compared = comparing.compare(frame.runs, frame.flows, comparing.read_reference(reference))
        figures.errors(compared, value or "rtt_ms", output)
        return
    frame = selected(frame, where or [])
    if against is not None:
        figures.against(frame, against, value or "goodput", output)
        return
    with Store.open(results) as store:
        rows = [store.table(name) for name in ("series", "queue_series")]
    lines = [(frame.flows if "flow" in table.columns else frame.runs) for table in rows]
    shown = [
        table.join(line, on=["key", "flow"] if "flow" in table.columns else "key", how="semi", maintain_order="left")
        for table, line in zip(rows, lines, strict=True)
    ]
    figures.series(frame, shown, value or "goodput", output, _span(time) if time else None)


def _span(text: str) -> tuple[float, float]:
    """Return two times, `20s..21s`, in seconds."""
    try:
        start, end = (units.parse("time", part) / 1e9 for part in text.split(".."))
    except (ValueError, InputError):
        raise InputError("--time", "", text, "FROM..TO, such as 20s..21s") from None
    return start, end


@app.command()
def export(
    results: File,
    output: Annotated[str, typer.Option("-o", "--output", help="Folder for one file a table.")] = ".",
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV (the default).")] = False,
    as_parquet: Annotated[bool, typer.Option("--parquet", help="Parquet.")] = False,
) -> None:
    """Write every table of the results as a CSV or Parquet file; files that exist are not written over."""
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


def main() -> None:
    """Run the command line and leave with its exit status: 0 done, 1 runs failed, 2 bad input, 130 interrupted."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115  for the rest of the process
    try:
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False, prog_name="dumbbell")
        sys.stdout.flush()
    except InputError as error:
        _leave(BAD_INPUT, str(error))
    except typer.TyperException as error:
        _leave(BAD_INPUT, f"dumbbell: {one_line(error.format_message())} (dumbbell --help says more)")
    except (KeyboardInterrupt, typer.Abort):
        _leave(INTERRUPTED)
    except BrokenPipeError:
        _leave(FAILED)
    except OSError as error:
        place = one_line(str(error.filename or "standard output"))
        _leave(BAD_INPUT, f"{place}: found {(error.strerror or str(error)).lower()}, allowed: a place to write to")
    _leave(status or DONE)


def _leave(status: int, line: str = "") -> Never:
    """End with `status` after `line`; output that cannot be written is dropped."""
    for stream, text in ((sys.stdout, ""), (sys.stderr, f"{line}\n" if line else "")):
        try:
            stream.write(text)
            stream.flush()
        except OSError:
            # what is left in the buffer would fail once more when Python ends
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(status)
