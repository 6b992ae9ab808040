"""Runs experiments on all cores or on a cluster; what is finished is kept, what is kept is not run again."""

import contextlib
import heapq
import itertools
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from dumbbell import _native
from dumbbell.engines.base import Ended, Engine, Run, Workers, prepare_experiments
from dumbbell.engines.estimate import estimate_missing
from dumbbell.engines.progress import Bar, ProgressTold
from dumbbell.engines.sim import Simulator
from dumbbell.errors import InputError, escape_line
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.processes import count_cores
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.store import Alike, Store

WINDOW = 4096  # runs that are put in order, longest first
LOOKED_UP = (256, 2048)  # runs that are looked for in the store at once: at first, and at most
AHEAD_S = 1.0  # work in flight for each core: short runs go on while finished ones are taken and committed
AHEAD = (2, 16, 1024)  # runs in flight for each core: at least, before any has ended, at most
TOGETHER = 32  # parts of what is in flight for a core, each handed over at once: one run, unless they are short
LOOK_S = 0.05  # between looks at what has ended: to take short runs one by one would cost more than they do
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


def _collect_ended(future: Future[list[Ended]], runs: int) -> list[Ended]:
    """Return how each of the runs that were begun together has ended."""
    if future.cancelled():
        return [_native.Interrupted()] * runs
    error = future.exception()
    return future.result() if error is None else [error] * runs


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


def _open_workers(jobs: int | None, cluster: str | None, engine: Engine) -> Workers:
    if cluster is None:
        return engine.open_workers(jobs or count_cores())
    from dumbbell.engines.cluster import Cluster

    return Cluster(cluster)


def count_slots(jobs: int | None, cluster: str | None, engine: Engine) -> int:
    """Return how many runs can be carried out at once, here or on a cluster. Raises InputError."""
    if cluster is None:
        return engine.count_parallel(jobs or count_cores())
    with _open_workers(jobs, cluster, engine) as workers:
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
    running: dict[Future[list[Ended]], list[Run]] = {}
    in_flight = 0  # runs of all of these
    done: queue.SimpleQueue[Future[list[Ended]]] = queue.SimpleQueue()
    waiting: list[Finished] = []
    begun: set[str] = set()
    ahead = AHEAD[1]

    def settle(wait_s: float) -> None:
        """Take what has ended since the last time, and in the next `wait_s`; if nothing has then wait for a while."""
        nonlocal ahead, in_flight
        futures = []
        with contextlib.suppress(queue.Empty):
            futures.append(done.get(timeout=0.2))
            time.sleep(wait_s)
            while True:
                futures.append(done.get_nowait())
        fatal, before = None, len(waiting)
        for future in futures:
            runs = running.pop(future)
            in_flight -= len(runs)
            for (cell, _), ended in zip(runs, _collect_ended(future, len(runs)), strict=True):
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
        if just := waiting[before:]:
            mean_s = sum(finished.run.wall_s for finished in just) / len(just)
            ahead = max(AHEAD[0], min(round(AHEAD_S / max(mean_s, 1e-6)), AHEAD[2]))
        bar.update(itertools.chain.from_iterable(running.values()))

    def commit() -> None:
        store.add(waiting)
        report.done += len(waiting)
        begun.difference_update(run.cell.key for run in waiting)
        waiting.clear()

    with (
        _open_workers(jobs, cluster, engine) as workers,
        Store.open(output, write=True) as store,
        Bar(lambda: estimate_missing(experiments, store), progress) as bar,
        _handle_signals(report),
    ):
        cells = _sort_longest_first(_select_missing(experiments, store, begun, report, keys))
        committed = time.monotonic()
        try:
            while not report.interrupted:
                most = max(AHEAD[0] * workers.slots, min(ahead * workers.slots, WINDOW))
                while in_flight < most and not report.interrupted:
                    runs = [(cell, _native.Progress()) for cell in itertools.islice(cells, max(1, ahead // TOGETHER))]
                    if not runs:
                        break
                    future = workers.begin(runs)
                    running[future] = runs
                    in_flight += len(runs)
                    future.add_done_callback(done.put)
                if not running:
                    break
                settle(LOOK_S if in_flight >= most else 0.0)
                at_the_end = in_flight < most and len(waiting) >= max(in_flight, LAST)
                if at_the_end or time.monotonic() - committed >= COMMIT_EVERY_S:
                    commit()
                    committed = time.monotonic()
            if report.interrupted:
                workers.stop()
            while running:
                settle(0.0)
        finally:
            workers.stop()
            commit()
        report.alike = store.find_alike_seeds({experiment.name for experiment in experiments}, engine.version)
    return report
