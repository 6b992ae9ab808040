"""`dumbbell run`."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumbbell.cli.status import FAILED, INTERRUPTED
from dumbbell.errors import Conflict, escape_line
from dumbbell.words import format_count, format_work_time

if TYPE_CHECKING:
    from dumbbell.engines.base import Engine
    from dumbbell.experiment.cell import Cell
    from dumbbell.experiment.file import Experiment
    from dumbbell.results.store import Alike

_LARGE = 10e9  # bytes of results that are announced before they are made


def run(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Experiment files, or names from dumbbell list experiments.")
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="RESULTS", help="Results file. It may have runs already.")
    ] = "results.duckdb",
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at a time. By default, one per core.")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Threads of each simulation, which make one with thousands of flows faster. By default, all cores for"
            " a single run, and one for each of several.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Run on a Dask cluster, by the address of its scheduler: tcp://HOST:PORT."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key of the files.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="The engine: sim, live, linux, or linux:NAME for a kernel of dumbbell linux list.",
        ),
    ] = "sim",
    trust: Annotated[
        bool, typer.Option("--trust", help="Allow plugins (code!) in the folders of the files and below them.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check the files and print how many runs there are, how long they take and how large they get.",
        ),
    ] = False,
    show_commands: Annotated[
        bool,
        typer.Option(
            "--show-commands",
            help="Print the commands of tc, ip and sysctl that set up Linux for each cell, and exit.",
        ),
    ] = False,
) -> None:
    """Exit status: 0 done, 1 runs failed, 2 bad input, 130 interrupted. A sweep resumes where it stopped."""
    from dumbbell import engines
    from dumbbell.engines.sim import Simulator

    if jobs is not None and cluster is not None:
        raise Conflict("--jobs and --cluster", "one of them", command="run")
    if show_commands:
        print_commands(
            files, settings, engine, {"--dry-run": dry_run, "--jobs": jobs, "--cluster": cluster}, trust=trust
        )
        return
    other = engines.find_engine(engine)
    if cluster is not None and not isinstance(other, Simulator):
        raise Conflict(f"--cluster and --engine {engine}", "one of them", command="run")
    if threads is not None and (cluster is not None or not isinstance(other, Simulator)):
        place = "--cluster" if cluster is not None else f"--engine {engine}"
        raise Conflict(f"--threads and {place}", "one of them", command="run")
    experiments = _load_experiments(files, settings, trust=trust)
    if isinstance(other, Simulator):
        other = Simulator(threads or choose_threads(experiments, jobs))
    carry_out(experiments, output, jobs=jobs, cluster=cluster, engine=other, dry_run=dry_run)


def choose_threads(experiments: list[Experiment], jobs: int | None) -> int:
    """Return all cores for a single run, and one for each of several, which use all cores already."""
    from dumbbell.processes import count_cores

    cells = itertools.chain.from_iterable(experiment.make_cells() for experiment in experiments)
    return count_cores() if jobs is None and len(list(itertools.islice(cells, 2))) == 1 else 1


def _load_experiments(files: list[str], settings: list[str] | None, *, trust: bool) -> list[Experiment]:
    from dumbbell.experiment.file import load
    from dumbbell.experiment.plugins import trust as trusting

    if trust:
        for file in files:
            trusting.trust(Path(file).absolute().parent)
    return [load(file, settings) for file in files]


def print_commands(
    files: list[str], settings: list[str] | None, engine: str, others: dict[str, object], *, trust: bool
) -> None:
    """Print what every cell tells the kernel. No kernel and no tc are needed for that; raises InputError."""
    from dumbbell.engines.linux import kernels, plan_commands, reach
    from dumbbell.engines.linux.engine import LinuxEngine as LinuxEngine
    from dumbbell.results.versions import describe_difference

    for name, given in others.items():
        if given:
            raise Conflict(f"--show-commands and {name}", "one of them", command="run")
    kind, _, which = engine.partition(":")
    if kind not in ("linux", "sim"):  # the simulator is the default, and has no commands
        raise Conflict(f"--show-commands and --engine {engine}", "--engine linux", command="run")
    if which or kernels.find_folder(kernels.DEFAULT).exists():
        kernel = kernels.load(which or None)
    else:
        kernel = reach.make_kernel()
        print(
            "no kernel is built: these commands are for one with all queue disciplines and congestion controls",
            file=sys.stderr,
        )
    experiments = _load_experiments(files, settings, trust=trust)
    for note in LinuxEngine(kernel).check_experiments(experiments):
        print(describe_difference("linux", note), file=sys.stderr)
    print("\n\n".join(plan_commands.format_commands(experiments, kernel)))


def carry_out(
    experiments: list[Experiment],
    output: str,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    engine: Engine | None = None,
    dry_run: bool = False,
) -> None:
    """Run experiments, or say what that would take, with what there is to say; leaves if runs fail."""
    from dumbbell.engines import estimate, sweep
    from dumbbell.engines.sim import Simulator
    from dumbbell.experiment import ecn

    engine = engine or Simulator()
    _prepare(engine, experiments)
    for note in filter(None, map(ecn.explain_useless_marks, experiments)):
        print(note, file=sys.stderr)
    if dry_run:
        workers = sweep.count_slots(jobs, cluster, engine)
        plan = estimate.estimate(experiments, output, workers, engine)
        kept = f", {plan.kept} of them already in {output}" if plan.kept else ""
        where = f"on {workers} cores" if workers > 1 else "one after the other"
        costs = f"about {format_work_time(max(plan.seconds, 1), 2)} {where}, {_format_size(plan.size)} in {output}"
        print(f"{format_count(plan.runs, 'run')}{kept}; {costs}")
        return
    if (size := estimate.estimate_size(experiments)) > _LARGE:
        advice = "a longer record.interval or record.series = false makes it smaller"
        print(
            f"{output}: this may take up to {_format_size(size)}{_describe_free_space(output)}; {advice}",
            file=sys.stderr,
        )
    report = sweep.run(experiments, output, jobs=jobs, cluster=cluster, engine=engine, on_failure=_print_failure)
    counts = f"{format_count(report.done, 'run')} done, {report.kept} kept from before, {len(report.failed)} failed"
    print(f"{counts}{', interrupted' if report.interrupted else ''}: {output}", file=sys.stderr)
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)
    if report.alike and report.alike.same:
        print(_describe_alike(report.alike), file=sys.stderr)
    if report.failed:
        raise typer.Exit(FAILED)


def _prepare(engine: Engine, experiments: list[Experiment]) -> None:
    """Let an engine check every cell, and say what it does only nearly as the simulator."""
    from dumbbell.results.versions import describe_difference, find_kind

    for note in engine.prepare(experiments):
        print(describe_difference(find_kind(engine.version), note), file=sys.stderr)


def _describe_free_space(output: str) -> str:
    """Return how much room the disk of a file has, if that can be told."""
    with contextlib.suppress(OSError):
        return f", {_format_size(shutil.disk_usage(Path(output).absolute().parent).free)} are free"
    return ""


def _print_failure(cell: Cell, text: str) -> None:
    place = ", ".join(f"{key} = {value}" for key, value in cell.matrix.items())
    print(
        escape_line(f"{cell.experiment}: failed: {text} ({place}{', ' * bool(place)}seed = {cell.seed})"),
        file=sys.stderr,
    )


def _describe_alike(alike: Alike) -> str:
    """Return what there is to say of cells in which the seed made no difference."""
    runs = f"all seeds (up to {alike.seeds}) gave the same run in {alike.same} of {alike.cells} cells"
    return (
        f'{runs}, because nothing in them is random; start = {{ uniform = ["0s", "1s"] }} or jitter makes them differ'
    )


def _format_size(size: float) -> str:
    return f"{max(size / 1e6, 1):.0f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"
