"""The command line: `dumbbell run`, `table`, `compare` and so on."""

import codecs
import contextlib
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Annotated, Any, Never

import typer

from dumbbell import engines, experiment, scratch
from dumbbell._native import engine_version
from dumbbell.cli import reference
from dumbbell.cli.linux import linux
from dumbbell.cli.read import add_commands
from dumbbell.cli.study import study
from dumbbell.engines import sweep
from dumbbell.engines.linux import commands, kernels
from dumbbell.engines.linux.engine import Engine as LinuxEngine
from dumbbell.errors import MOST_TOLD, Conflict, InputError, Missing, UnknownName, on_command_line, one_line
from dumbbell.experiment import json_schema, registry, shipped
from dumbbell.results import salvage
from dumbbell.results.store import Alike
from dumbbell.shell.session import shell
from dumbbell.shell.watch import watch

_LARGE = 10e9  # bytes of results of which a user is told before they are made
DONE, FAILED, BAD_INPUT, FAULT, INTERRUPTED = 0, 1, 2, 70, 130  # 70 is EX_SOFTWARE of sysexits.h

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
    show_commands: Annotated[
        bool,
        typer.Option("--show-commands", help="With --engine linux: print what each cell tells the kernel, and leave."),
    ] = False,
) -> None:
    """Run experiments; what the results file has already is not run again."""
    if jobs is not None and cluster is not None:
        raise Conflict("run", "", "--jobs and --cluster", "one of them")
    other = engines.by_name(engine)
    if other is not None and cluster is not None:
        raise Conflict("run", "", f"--cluster and --engine {engine}", "one of them")
    if show_commands and not isinstance(other, LinuxEngine):
        raise Conflict("run", "", f"--show-commands and --engine {engine}", "--engine linux")
    experiments = [experiment.load(file, settings) for file in files]
    for note in other.prepare(experiments) if other else ():
        print(f"not quite the same on Linux: {note}", file=sys.stderr)
    if isinstance(other, LinuxEngine) and show_commands:
        print("\n\n".join(commands.shown(experiments, other.kernel)))
        return
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
    if (size := sweep.size(experiments)) > _LARGE:
        advice = "a longer record.interval or record.series = false makes it smaller"
        print(f"{output}: this may take up to {_size(size)}{_free(output)}; {advice}", file=sys.stderr)
    report = sweep.run(experiments, output, jobs=jobs, cluster=cluster, engine=other, on_failure=_failure)
    counts = f"{report.done} runs done, {report.kept} kept from before, {len(report.failed)} failed"
    print(f"{counts}{', interrupted' if report.interrupted else ''}: {output}", file=sys.stderr)
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)
    if report.alike and report.alike.same:
        print(_alike(report.alike), file=sys.stderr)
    if report.failed:
        raise typer.Exit(FAILED)


def _free(output: str) -> str:
    """Return how much room the disk of a file has, if that can be told."""
    with contextlib.suppress(OSError):
        return f", {_size(shutil.disk_usage(Path(output).absolute().parent).free)} are free"
    return ""


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
        raise UnknownName("list", "", what, kinds, what="kind")
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
        raise (
            Conflict("describe", "", f"{name} and --all", "one of them")
            if name
            else Missing("describe", "NAME", "a name, or --all")
        )
    print(reference.markdown() if everything else reference.describe(name), end="" if everything else "\n")


@app.command("schema")
def schema_() -> None:
    """Print the JSON Schema of experiment files, for editors."""
    print(json.dumps(json_schema.file_schema(), indent=2))


add_commands(app)
app.command()(shell)
app.command()(watch)
app.add_typer(linux, name="linux")
app.add_typer(study, name="study")
app.add_typer(salvage.command, name="store")


def main() -> None:
    """Run the command line and leave with its exit status.

    0 done, 1 runs failed, 2 bad input, 70 a fault of dumbbell, 130 interrupted.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115  for the rest of the process
        _write_anything(getattr(sys, name))
    with on_command_line():
        status = _carried_out()
    _leave(status or DONE)


def _carried_out() -> int:
    """Carry out the command and return its exit status; leaves with a line on standard error if there is an error."""
    try:
        status: int = app(sys.argv[1:] or ["--help"], standalone_mode=False, prog_name="dumbbell")
        sys.stdout.flush()
    except InputError as error:
        _leave(BAD_INPUT, _told(error))
    except typer.TyperException as error:
        _leave(BAD_INPUT, f"dumbbell: {one_line(error.format_message())} (dumbbell --help says more)")
    except (KeyboardInterrupt, typer.Abort):
        _leave(INTERRUPTED)
    except BrokenPipeError:
        _leave(FAILED)
    except OSError as error:
        place = one_line(str(error.filename or "standard output"))
        _leave(BAD_INPUT, f"{place}: it cannot be written: {(error.strerror or str(error)).lower()}")
    except Exception as error:
        if os.environ.get("DUMBBELL_TRACEBACK"):
            raise
        _leave(FAULT, _fault(error))
    return status


def _told(error: InputError) -> str:
    """Return the lines of an error, on a terminal with the place in the file below each."""
    if not sys.stderr.isatty() or not any(one.excerpt for one in error.errors):
        return str(error)
    shown = error.errors[:MOST_TOLD]
    lines = [part for one in shown for part in (str(one), one.excerpt) if part]
    return "\n".join([*lines, *str(error).splitlines()[len(shown) :]])


def _fault(error: Exception) -> str:
    """Return one line for an error that nobody foresaw, and keep how it came about in a file."""
    what = one_line(f"{type(error).__name__}: {error}")[:200]
    said = f"dumbbell: a fault of dumbbell itself, not of what it was given: {what}"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="dumbbell-", suffix=".log", delete=False, encoding="utf-8") as log:
            log.write(f"dumbbell {sys.argv[1:]}\n{''.join(traceback.format_exception(error))}")
    except OSError:
        return f"{said} (DUMBBELL_TRACEBACK=1 shows where)"
    return f"{said} (where it happened is in {log.name})"


_PLAIN = {"±": "+-", "µ": "u", "–": "-", "…": "...", "×": "x", "²": "^2"}  # noqa: RUF001  what they are written as


def _write_anything(stream: Any) -> None:
    """Let a stream write what its encoding lacks in other words, or escaped."""

    def plain(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        found = error.object[error.start : error.end]
        return "".join(_PLAIN.get(c, c.encode("ascii", "backslashreplace").decode()) for c in found), error.end

    codecs.register_error("dumbbell.plain", plain)
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="dumbbell.plain")


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
