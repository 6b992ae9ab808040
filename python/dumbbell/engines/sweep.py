"""Runs experiments on all cores or on a cluster; what is finished is kept, what is kept is not run again."""

import bisect
import contextlib
import dataclasses
import heapq
import itertools
import math
import os
import queue
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dumbbell import _native
from dumbbell.errors import InputError, one_line
from dumbbell.experiment.file import Cell, Experiment
from dumbbell.experiment.schema import SENDERS
from dumbbell.results.store import Alike, Finished, Measured, Store

PACKETS_PER_SECOND = 8.0e6  # of one core, where no run can be tried out: in the middle of the cases of make bench
_TRIALS = 24  # runs that an estimate tries out
_TRIAL_S, _TRIAL_MOST_S = 0.2, 1.0  # of a core, for each of them: once its flows have started, and in all
RUN_BYTES, FLOW_BYTES, INTERVAL_BYTES, BIN_BYTES, BINS = 1500, 120, 80, 8, 1000  # in the results file, about
SHORT_FLOW_BYTES = 40
WINDOW = 4096  # runs that are put in order, longest first
LOOKED_UP = 256  # runs that are looked for in the store at a time
AHEAD_S = 1.0  # work in flight for each core: short runs go on while finished ones are taken and committed
AHEAD = (2, 16, 1024)  # runs in flight for each core: at least, before any has ended, at most
LOOK_S = 0.05  # between looks at what has ended: to take short runs one by one would cost more than they do
COMMIT_EVERY_S = 2.0
SWITCH_S = 0.0005  # after which a thread gives up Python's lock to one whose run has ended
_SIZED = 32  # runs of each experiment from which the size of its results is reckoned
_EXACT = 5000  # runs that an estimate looks at one by one; of more it looks at a sample
_SAMPLE = 1000
_FIRST_S = 0.25  # before the first run starts, for finding the longest


@dataclass
class Report:
    """What a sweep did."""

    done: int = 0
    kept: int = 0
    interrupted: bool = False
    failed: list[tuple[Cell, str]] = field(default_factory=list)
    alike: Alike | None = None


@dataclass(frozen=True)
class Estimate:
    """What a sweep will take: runs, those of them already kept, seconds on `jobs` cores, bytes on disk."""

    runs: int
    kept: int
    seconds: float
    size: float


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Trial(threading.Thread):
    """A run that is begun to see what it costs, and given up as soon as that is known."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(name="trial", daemon=True)
        self._cell, self._cancel, self._progress = cell, _native.Cancel(), _native.Progress()
        self._clock: int | None = None  # of the time that the thread computes; not everywhere
        self._spent, self._whole, self._failed = 0.0, False, False

    def run(self) -> None:
        """Carry out the run, or as much of it as there is time for."""
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            _native.run(self._cell.config, self._cancel, self._progress)
            self._whole = True
        except _native.Interrupted:
            pass
        except (RuntimeError, ValueError):
            self._failed = True
        self._spent = time.thread_time()

    def seconds_per_packet(self) -> float | None:
        """Return the seconds of a core for each of `Cell.packets`; None if the run fails.

        What it does until its flows have started is not counted, unless it is over by then.
        """
        begun = time.perf_counter()

        def clock() -> float:
            with contextlib.suppress(OSError):  # it has ended
                return time.perf_counter() - begun if self._clock is None else time.clock_gettime(self._clock)
            return math.inf

        self.start()
        started = max((one["start"]["max"] for name in SENDERS for one in self._cell.groups[name]), default=0)
        first, before = 0.0, 0
        while self.is_alive() and (spent := clock()) < _TRIAL_MOST_S and (not before or spent < first + _TRIAL_S):
            if not before and self._progress.simulated > started:
                first, before = spent, self._progress.simulated
            self.join(0.005)
        self._cancel.cancel()
        self.join()
        if self._whole:
            return self._spent / self._cell.packets
        share = (self._progress.simulated - before) / self._cell.duration
        return None if self._failed or share <= 0 else (self._spent - first) / (share * self._cell.packets)


def speed(cells: list[Cell], jobs: int) -> float:
    """Return packets per second on one core, counted as `Cell.packets`: some of the runs are tried out for a moment.

    They lie at equal distances of work in the order of the cells, and as many are tried at once as the sweep will run.
    """
    if not cells:
        return PACKETS_PER_SECOND
    done = list(itertools.accumulate(cell.packets for cell in cells))
    tried = [cells[bisect.bisect(done, done[-1] * (i + 0.5) / _TRIALS)] for i in range(_TRIALS)]
    with ThreadPoolExecutor(min(jobs, cores())) as pool:
        costs = [cost for cost in pool.map(lambda cell: _Trial(cell).seconds_per_packet(), tried) if cost]
    return len(costs) / sum(costs) if costs else PACKETS_PER_SECOND


def estimate(experiments: list[Experiment], output: str | Path, jobs: int, engine: "Engine | None" = None) -> Estimate:
    """Return what `run` would do; reads the store if there is one and writes nothing. Raises InputError.

    Exact in the number of runs, apart from those that several files of a large sweep share. How long they take is
    computed from a few that are tried out for some seconds. Neither time nor memory grows with the number of runs.
    """
    if engine is not None:
        experiments = _of_engine(experiments, engine)
    total = sum(map(len, experiments))
    work, longest, size, kept, runs = 0.0, 0.0, 0.0, 0.0, float(total)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Store.open(output)) if Path(output).exists() else None
        tried: list[Cell] = []
        for part in _parts(experiments, store):
            runs -= part.repeated
            kept += part.scale * part.kept
            costs = [cell.packets if engine is None else engine.seconds(cell) for cell in part.left]
            work += part.scale * sum(costs)
            longest = max(longest, *costs, 0.0)
            size += part.scale * sum(_bytes(cell) for cell in part.left)
            tried += part.left
    per_second = speed(tried, jobs) if engine is None else 1.0
    return Estimate(round(runs), round(kept), max(work / jobs, longest) / per_second, size)


@dataclass(frozen=True)
class _Part:
    """Runs of one experiment, each for `scale` of them: those to be made, how many are kept or of an earlier one."""

    scale: float
    left: list[Cell]
    kept: int
    repeated: int


def _parts(experiments: list[Experiment], store: Store | None) -> Iterator[_Part]:
    """Yield every experiment: all its runs, or a sample of them if there are many in all."""
    exact = sum(map(len, experiments)) <= _EXACT
    seen: set[str] = set()
    for experiment in experiments:
        sample = list(experiment.cells()) if exact else experiment.sample(_SAMPLE)
        unseen = {cell.key: cell for cell in sample if cell.key not in seen} if exact else {c.key: c for c in sample}
        seen |= unseen.keys() if exact else set()
        known = store.kept(unseen) if store else set()
        left = [cell for key, cell in unseen.items() if key not in known]
        scale = len(experiment) / len(sample)
        yield _Part(scale, left, len(known), len(sample) - len(unseen) if exact else 0)


def left(experiments: list[Experiment], store: Store) -> tuple[int, float]:
    """Return how many runs are to be made that are not kept, about, and how many packets they will take."""
    parts = list(_parts(experiments, store))
    runs = round(sum(part.scale * len(part.left) for part in parts))
    return runs, sum(part.scale * sum(cell.packets for cell in part.left) for part in parts)


def size(experiments: list[Experiment]) -> float:
    """Return about how many bytes the results of all runs take, from some of each experiment."""
    total = 0.0
    for experiment in experiments:
        some = experiment.sample(_SIZED)
        total += sum(map(_bytes, some)) * len(experiment) / max(len(some), 1)
    return total


def _bytes(cell: Cell) -> float:
    record = cell.groups["record"]
    intervals: float = cell.duration / record["interval"] if record["series"] else 0
    bins = min(cell.packets - 1000, BINS)  # of the histogram of sojourn times
    short_flows: float = min(cell.short_flow_count, record["short_flows"]) * SHORT_FLOW_BYTES
    return RUN_BYTES + bins * BIN_BYTES + cell.flow_count * FLOW_BYTES + intervals * INTERVAL_BYTES + short_flows


def _longest_first(cells: Iterator[Cell]) -> Iterator[Cell]:
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


def _missing(
    experiments: list[Experiment], store: Store, begun: set[str], report: Report, keys: list[str] | None = None
) -> Iterator[Cell]:
    """Yield every run that is neither stored nor started.

    The caller removes a run's key from `begun` once it is committed.
    """
    cells = itertools.chain.from_iterable(experiment.cells() for experiment in experiments)
    numbered = (dataclasses.replace(cell, number=number) for number, cell in enumerate(cells))
    while some := list(itertools.islice(numbered, LOOKED_UP)):
        known = store.kept(cell.key for cell in some)
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


class Workers(Protocol):
    """Where runs are carried out: a context manager."""

    @property
    def slots(self) -> int:
        """How many runs can be carried out at once."""

    def submit(self, cell: Cell, progress: _native.Progress) -> Future[Measured]:
        """Start a run. Raises InputError if the workers are unusable: no further run can start."""

    def stop(self) -> None:
        """End what has been begun, at once."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Local(ABC):
    """A thread of this machine for each run at a time; `run` says what the thread does."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.stopped = threading.Event()
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="run")

    @abstractmethod
    def run(self, cell: Cell, progress: _native.Progress) -> Measured:
        """Carry out a run; raises `_native.Interrupted` soon after `stopped` is set."""

    def submit(self, cell: Cell, progress: _native.Progress) -> Future[Measured]:
        """Start a run, or put it behind those that wait."""
        return self._pool.submit(self.run, cell, progress)

    def stop(self) -> None:
        """End what runs and what waits."""
        self.stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._pool.shutdown()


class Threads(Local):
    """The cores of this machine: a thread each, which do not hold Python's lock while they simulate."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self._cancel = _native.Cancel()
        self._switch = sys.getswitchinterval()

    def __enter__(self) -> Self:
        sys.setswitchinterval(SWITCH_S)
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        sys.setswitchinterval(self._switch)

    def run(self, cell: Cell, progress: _native.Progress) -> Measured:
        """Simulate."""
        started = time.perf_counter()
        result = _native.run(cell.config, self._cancel, progress)
        return Measured(time.perf_counter() - started, result)

    def stop(self) -> None:
        """End what runs and what waits."""
        self._cancel.cancel()
        super().stop()


class Engine(Protocol):
    """An engine other than the simulator: Linux in virtual time, or the real clock."""

    @property
    def version(self) -> str:
        """Part of every run's key."""

    @property
    def plan_of(self) -> Callable[[Cell], str] | None:
        """What it does with a cell, where that does not follow from the configuration: part of the run's key."""

    def prepare(self, experiments: list[Experiment]) -> list[str]:
        """Check every cell, and return what the engine does only nearly as the simulator; raises InputError."""

    def seconds(self, cell: Cell) -> float:
        """Return about how many seconds of a core a run takes."""

    def at_once(self, jobs: int) -> int:
        """Return how many runs go on at once where `jobs` are allowed."""

    def workers(self, jobs: int) -> Workers:
        """Return where runs are carried out, up to `jobs` at a time; raises InputError."""


def _of_engine(experiments: list[Experiment], engine: Engine | None) -> list[Experiment]:
    """Return experiments whose cells have the keys of runs on an engine, by default the simulator."""
    if engine is None:
        return [dataclasses.replace(one, engine=_native.engine_version()) for one in experiments]
    return [dataclasses.replace(one, engine=engine.version, plan_of=engine.plan_of) for one in experiments]


# whether to show a progress bar (default: on a terminal), or a callback (done, total)
ProgressTold = bool | Callable[[int, int], None] | None


class _Bar:
    """Progress of what is left, with time left, on standard error or in a notebook, or told to a function."""

    def __init__(self, experiments: list[Experiment], store: Store, told: ProgressTold) -> None:
        console = Console(stderr=True)
        self._told = told if callable(told) else None
        self._shown = told is not False and self._told is None and (console.is_terminal or console.is_jupyter)
        runs = TextColumn("{task.fields[runs]}")
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), runs, TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not self._shown)
        counted = self._shown or self._told is not None
        self._total, self._work = left(experiments, store) if counted else (0, 0.0)
        self._runs = 0
        self._done, self._updated = 0.0, 0.0
        self._task = self._progress.add_task("runs", total=self._work or None, runs="")

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def finish(self, cell: Cell) -> None:
        self._runs += 1
        self._done += cell.packets
        if self._told is not None:
            self._told(self._runs, max(self._runs, self._total))

    def update(self, running: Iterable[tuple[Cell, _native.Progress]]) -> None:
        if self._shown and time.monotonic() - self._updated > 0.1:
            self._updated = time.monotonic()
            parts = sum(cell.packets * min(1.0, p.simulated / max(1, cell.duration)) for cell, p in running)
            self._progress.update(
                self._task, completed=self._done + parts, runs=f"{self._runs}/{max(self._runs, self._total)}"
            )


@contextlib.contextmanager
def _signals(report: Report) -> Iterator[None]:
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


def _workers(jobs: int | None, cluster: str | None, engine: "Engine | None" = None) -> Workers:
    if engine is not None:
        return engine.workers(jobs or cores())
    if cluster is None:
        return Threads(jobs or cores())
    from dumbbell.engines.cluster import Cluster

    return Cluster(cluster)


def slots(jobs: int | None, cluster: str | None) -> int:
    """Return how many runs can be carried out at once, here or on a cluster. Raises InputError."""
    if cluster is None:
        return jobs or cores()
    with _workers(jobs, cluster) as workers:
        return workers.slots


def run(
    experiments: list[Experiment],
    output: str | Path,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    engine: "Engine | None" = None,
    progress: ProgressTold = None,
    on_failure: Callable[[Cell, str], None] = lambda _cell, _text: None,
    keys: list[str] | None = None,
) -> Report:
    """Run whatever of `experiments` is not in the results file `output` yet.

    Runs are carried out on `jobs` cores of this machine (all by default), by `engine` if there is one; or, if
    `cluster` is the address of a Dask scheduler, by its workers. Finished runs are committed about every two seconds.
    Ctrl-C stops at once; what is finished is kept. A failed run does not stop the others. `keys` takes the keys of
    all runs, kept ones too. Raises InputError if `output` or `cluster` cannot be used.
    """
    report = Report()
    version = _native.engine_version() if engine is None else engine.version
    experiments = _of_engine(experiments, engine)
    running: dict[Future[Measured], tuple[Cell, _native.Progress]] = {}
    done: queue.SimpleQueue[Future[Measured]] = queue.SimpleQueue()
    waiting: list[Finished] = []
    begun: set[str] = set()
    ahead = AHEAD[1]

    def settle(wait_s: float) -> None:
        """Take what has ended since the last time, and in the next `wait_s`; if nothing has then wait for a while."""
        nonlocal ahead
        ended = []
        with contextlib.suppress(queue.Empty):
            ended.append(done.get(timeout=0.2))
            time.sleep(wait_s)
            while True:
                ended.append(done.get_nowait())
        fatal, before = None, len(waiting)
        for future in ended:
            cell, _ = running.pop(future)
            bar.finish(cell)
            error = future.exception() if not future.cancelled() else _native.Interrupted()
            if error is None:
                waiting.append(Finished(cell, future.result()))
            elif isinstance(error, InputError):
                fatal = error
            elif not isinstance(error, _native.Interrupted):
                text = one_line(str(error) or type(error).__name__)
                report.failed.append((cell, text))
                on_failure(cell, text)
        if fatal is not None:
            raise fatal
        if just := waiting[before:]:
            mean_s = sum(finished.run.wall_s for finished in just) / len(just)
            ahead = max(AHEAD[0], min(round(AHEAD_S / max(mean_s, 1e-6)), AHEAD[2]))
        bar.update(running.values())

    def commit() -> None:
        store.add(waiting)
        report.done += len(waiting)
        begun.difference_update(run.cell.key for run in waiting)
        waiting.clear()

    with (
        _workers(jobs, cluster, engine) as workers,
        Store.open(output, write=True) as store,
        _Bar(experiments, store, progress) as bar,
        _signals(report),
    ):
        cells = _longest_first(_missing(experiments, store, begun, report, keys))
        committed = time.monotonic()
        try:
            while not report.interrupted:
                most = max(AHEAD[0] * workers.slots, min(ahead * workers.slots, WINDOW))
                while len(running) < most and not report.interrupted and (cell := next(cells, None)) is not None:
                    simulated = _native.Progress()
                    future = workers.submit(cell, simulated)
                    running[future] = (cell, simulated)
                    future.add_done_callback(done.put)
                if not running:
                    break
                settle(LOOK_S if len(running) >= most else 0.0)
                if time.monotonic() - committed >= COMMIT_EVERY_S:
                    commit()
                    committed = time.monotonic()
            if report.interrupted:
                workers.stop()
            while running:
                settle(0.0)
        finally:
            workers.stop()
            commit()
        report.alike = store.alike({experiment.name for experiment in experiments}, version)
    return report
