"""Runs experiments on all cores or on a cluster; what is finished is kept, what is kept is not run again."""

import contextlib
import heapq
import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from dumbbell import _native
from dumbbell.engines.base import Engine, Workers, prepare_experiments
from dumbbell.engines.estimate import estimate_missing
from dumbbell.engines.in_flight import LOOK_S, WINDOW, RunsInFlight
from dumbbell.engines.progress import Bar, ProgressTold
from dumbbell.engines.sim import Simulator
from dumbbell.errors import Conflict, InputError, WrongValue, check_count, escape_line, quote_value
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.processes import count_cores
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.store import Alike, Store

LOOKED_UP = (256, 2048)  # runs that are looked for in the store at once: at first, and at most
COMMIT_EVERY_S = 2.0
LAST = 2048  # runs that are worth a commit of their own, which costs as much as 500 of them, while the last ones go on
_FIRST_S = 0.1  # before the first run starts, for finding the longest


@dataclass
class SweepReport:
    """The summary of a sweep."""

    done: int = 0
    kept: int = 0
    interrupted: bool = False
    failed: list[tuple[Cell, str]] = field(default_factory=list)
    alike: Alike | None = None


def _sort_longest_first(cells: Iterator[Cell]) -> Iterator[Cell]:
    """Yield the cells, always the longest of the next `WINDOW`.

    The window grows while cells are taken from it, so that the first need not wait until it is full.
    """
    window: list[tuple[float, int, Cell]] = []
    numbers = itertools.count()

    def look(most: int) -> bool:
        found = list(itertools.islice(cells, most))
        for cell in found:
            heapq.heappush(window, (-cell.packets, next(numbers), cell))
        return len(found) == most

    end = time.monotonic() + _FIRST_S
    while len(window) < WINDOW and time.monotonic() < end and look(1):
        pass
    while look(1 if len(window) >= WINDOW else 2) or window:
        yield heapq.heappop(window)[2]


def _select_missing(
    experiments: list[Experiment], store: Store, begun: set[str], report: SweepReport, keys: list[str] | None = None
) -> Iterator[Cell]:
    """Yield every run that is neither stored nor started.

    The caller removes a run's key from `begun` once it is committed.
    """
    ahead = itertools.accumulate(map(len, experiments), initial=0)
    cells = itertools.chain.from_iterable(
        experiment.make_cells(first) for experiment, first in zip(experiments, ahead, strict=False)
    )
    most = LOOKED_UP[0]
    while some := list(itertools.islice(cells, most)):
        most = min(2 * most, LOOKED_UP[1])
        known = store.find_kept(cell.key for cell in some)
        if keys is not None:
            keys += [cell.key for cell in some]
        missing = []
        for cell in some:
            if cell.key in known or cell.key in begun:
                report.kept += 1
            else:
                begun.add(cell.key)
                missing.append(cell)
        yield from missing


@contextlib.contextmanager
def _handle_signals(report: SweepReport) -> Iterator[None]:
    """Note the first Ctrl-C or request to terminate, where this is the main thread; the second is raised."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        report.interrupted = True

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_workers(jobs: object, cluster: object, command: str) -> None:
    """Raise InputError, said of `command`, if `jobs` is not a number of cores, or `cluster` not an address."""
    if jobs is not None:
        check_count(jobs, "a number of runs at a time, 1 or more", command=command, key="jobs")
    if cluster is not None and not isinstance(cluster, str):
        allowed = "the address of a Dask scheduler, tcp://HOST:PORT"
        raise WrongValue(quote_value(cluster), allowed, command=command, key="cluster")
    if jobs is not None and cluster is not None:
        raise Conflict("jobs and cluster", "one of them", command=command)


def open_workers(jobs: int | None, cluster: str | None, engine: Engine) -> Workers:
    """Return what carries runs out: `jobs` cores of this machine, all by default, or the workers of a cluster."""
    if cluster is None:
        return engine.open_workers(jobs or count_cores())
    from dumbbell.engines.cluster import Cluster

    return Cluster(cluster)


def count_slots(jobs: int | None, cluster: str | None, engine: Engine) -> int:
    """Return how many runs can be carried out at once, here or on a cluster. Raises InputError."""
    if cluster is None:
        return engine.count_parallel(jobs or count_cores())
    with open_workers(jobs, cluster, engine) as workers:
        return workers.slots


def run(
    experiments: list[Experiment],
    output: str | Path,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    engine: Engine | None = None,
    progress: ProgressTold = None,
    on_failure: Callable[[Cell, str], None] = lambda _cell, _text: None,
    keys: list[str] | None = None,
) -> SweepReport:
    """Run whatever of `experiments` is not in the results file `output` yet.

    Runs are carried out by `engine` (the simulator by default) on `jobs` cores of this machine (all by default), or by
    the workers of the Dask scheduler whose address is `cluster`. Finished runs are committed about every two seconds.
    Ctrl-C stops at once; what is finished is kept. A failed run does not stop the others. `keys` takes the keys of
    all runs, kept ones too. Raises InputError if `output` or `cluster` cannot be used.
    """
    report = SweepReport()
    engine = engine or Simulator()
    experiments = prepare_experiments(experiments, engine)
    waiting: list[Finished] = []
    begun: set[str] = set()

    def settle(wait_s: float = 0.0) -> None:
        """Take what has ended, as `RunsInFlight.take` does."""
        fatal = None
        for cell, ended in flight.take(wait_s):
            bar.finish(cell)
            if isinstance(ended, MeasuredRun):
                waiting.append(Finished(cell, ended))
            elif isinstance(ended, InputError):
                fatal = ended
            elif not isinstance(ended, _native.Interrupted):
                text = escape_line(str(ended) or type(ended).__name__)
                report.failed.append((cell, text))
                on_failure(cell, text)
        if fatal is not None:
            raise fatal
        bar.update(flight.list_runs())

    def commit() -> None:
        store.add(waiting)
        report.done += len(waiting)
        begun.difference_update(run.cell.key for run in waiting)
        waiting.clear()

    with (
        open_workers(jobs, cluster, engine) as workers,
        Store.open(output, write=True) as store,
        Bar(lambda: estimate_missing(experiments, store), progress) as bar,
        _handle_signals(report),
    ):
        cells = _sort_longest_first(_select_missing(experiments, store, begun, report, keys))
        flight = RunsInFlight(workers)
        committed = time.monotonic()
        try:
            while not report.interrupted:
                while flight.has_room and not report.interrupted and flight.begin(cells):
                    pass
                if not flight.count:
                    break
                settle(0.0 if flight.has_room else LOOK_S)
                at_the_end = flight.has_room and len(waiting) >= max(flight.count, LAST)
                if at_the_end or time.monotonic() - committed >= COMMIT_EVERY_S:
                    commit()
                    committed = time.monotonic()
            if report.interrupted:
                workers.stop()
            while flight.count:
                settle()
        finally:
            workers.stop()
            commit()
        report.alike = store.find_alike_seeds({experiment.name for experiment in experiments}, engine.version)
    return report
