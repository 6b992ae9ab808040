"""The command line: `dumbbell run`, `table`, `compare` and so on."""

import contextlib
import importlib.metadata
import json
import os
import sys
from typing import Annotated, Never

import typer

from dumbbell import experiment, json_schema, reference, registry, scratch, shipped, sweep
from dumbbell._native import engine_version
from dumbbell.commands import add_commands
from dumbbell.errors import InputError, nearest, one_line
from dumbbell.linux import kernels
from dumbbell.linux.command import linux
from dumbbell.linux.engine import engine as linux_engine
from dumbbell.live.engine import engine as live_engine
from dumbbell.live.shell import shell
from dumbbell.live.watch import watch
from dumbbell.store import Alike

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
    scratch.clear(*kernels.scratch_places())


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
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="What runs them: sim, live, linux or linux:NAME, a kernel of dumbbell linux.",
        ),
    ] = "sim",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check, try out a few runs, and say how many, how long, how large.")
    ] = False,
) -> None:
    """Run experiments; what the results file has already is not run again."""
    if jobs is not None and cluster is not None:
        raise InputError("run", "", "--jobs and --cluster", "one of them")
    other = live_engine(engine) or linux_engine(engine)
    if other is not None and cluster is not None:
        raise InputError("run", "", f"--cluster and --engine {engine}", "one of them")
    experiments = [experiment.load(file, settings) for file in files]
    for note in other.prepare(experiments) if other else ():
        print(f"not quite the same on Linux: {note}", file=sys.stderr)
    if dry_run:
        workers = sweep.slots(jobs, cluster)
        if other is not None:
            workers = other.at_once(workers)
        plan = sweep.estimate(experiments, output, workers, other)
        kept = f", {plan.kept} of them already in {output}" if plan.kept else ""
        where = f"on {workers} cores" if workers > 1 else "one after the other"
        costs = f"about {_duration(plan.seconds)} {where}, {_size(plan.size)} in {output}"
        print(f"{plan.runs} runs{kept}; {costs}")
        return
    report = sweep.run(experiments, output, jobs=jobs, cluster=cluster, engine=other, on_failure=_failure)
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


add_commands(app)
app.command()(shell)
app.command()(watch)
app.add_typer(linux, name="linux")


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
