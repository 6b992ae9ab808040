"""Runs experiments on all cores; what is finished is kept, what is kept is not run again."""

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dumbbell import _native
from dumbbell.errors import one_line
from dumbbell.experiment import Cell, Experiment
from dumbbell.store import Finished, Store, finished

PACKETS_PER_SECOND = 1.0e6  # of one core, before anything has been measured
RUN_BYTES, FLOW_BYTES, INTERVAL_BYTES = 6000, 120, 80  # in the results file, about
WINDOW = 8192  # runs that are put in order, longest first
COMMIT_EVERY_S = 1.0
_SAMPLE = 500


@dataclass
class Report:
    """What a sweep did."""

    done: int = 0
    kept: int = 0
    interrupted: bool = False
    failed: list[tuple[Cell, str]] = field(default_factory=list)


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


def _speed(store: Store | None) -> float:
    """Return packets a second on one core, from the longest runs in the store if it has some."""
    if store is None:
        return PACKETS_PER_SECOND
    runs = store.table("runs")
    if "packets" not in runs.columns or runs.height == 0:
        return PACKETS_PER_SECOND
    longest = runs.sort("wall_s", descending=True).head(200)
    packets, seconds = float(longest["packets"].sum()), float(longest["wall_s"].sum())
    return packets / seconds if packets and seconds > 0 else PACKETS_PER_SECOND


def estimate(experiments: list[Experiment], output: str | Path, jobs: int) -> Estimate:
    """Return what `run` would do; reads the store if there is one and writes nothing. Raises InputError."""
    runs, work, size, kept = 0, 0.0, 0.0, 0.0
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Store.open(output)) if Path(output).exists() else None
        speed = _speed(store)
        keys = store.keys() if store else set()
    for experiment in experiments:
        sample = experiment.sample(_SAMPLE)
        scale = len(experiment) / len(sample)
        left = [cell for cell in sample if cell.key not in keys]
        runs += len(experiment)
        kept += (len(sample) - len(left)) * scale
        work += scale * sum(cell.packets for cell in left) / speed
        size += scale * sum(_bytes(cell) for cell in left)
    return Estimate(runs, round(kept), work / max(1, min(jobs, runs)), size)


def _bytes(cell: Cell) -> float:
    record = cell.groups["record"]
    intervals = cell.duration / record["interval"] if record["series"] else 0
    return RUN_BYTES + cell.flow_count * FLOW_BYTES + intervals * INTERVAL_BYTES


def _longest_first(cells: Iterable[Cell]) -> Iterator[Cell]:
    cells = iter(cells)
    while window := list(itertools.islice(cells, WINDOW)):
        yield from sorted(window, key=lambda cell: -cell.packets)


def _missing(experiments: list[Experiment], keys: set[str], report: Report) -> Iterator[Cell]:
    """Yield every run that is not kept yet, once."""
    for experiment in experiments:
        for cell in experiment.cells():
            if cell.key in keys:
                report.kept += 1
            else:
                keys.add(cell.key)
                yield cell


def _work(cell: Cell, cancel: _native.Cancel, progress: _native.Progress) -> Finished:
    started = time.perf_counter()
    result = _native.run(cell.config, cancel, progress)
    return finished(cell, result, time.perf_counter() - started)


class _Bar:
    """Progress on standard error, with time left; nothing if that is no terminal."""

    def __init__(self, experiments: list[Experiment], *, quiet: bool) -> None:
        console = Console(stderr=True)
        self._shown = console.is_terminal and not quiet
        runs = TextColumn("{task.fields[runs]}")
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), runs, TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not self._shown)
        self._total, self._work, self._runs = 0, 0.0, 0
        if self._shown:
            for experiment in experiments:
                sample = experiment.sample(_SAMPLE)
                self._total += len(experiment)
                self._work += sum(cell.packets for cell in sample) * len(experiment) / len(sample)
        self._done = 0.0
        self._task = self._progress.add_task("runs", total=self._work or None, runs="")

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def finish(self, cell: Cell) -> None:
        self._runs += 1
        self._done += cell.packets

    def update(self, running: Iterable[tuple[Cell, _native.Progress]]) -> None:
        if self._shown:
            parts = sum(cell.packets * min(1.0, p.simulated / max(1, cell.duration)) for cell, p in running)
            self._progress.update(self._task, completed=self._done + parts, runs=f"{self._runs}/{self._total}")


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on the first Ctrl-C or request to terminate, where this is the main thread; the second is raised."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(
    experiments: list[Experiment],
    output: str | Path,
    *,
    jobs: int | None = None,
    quiet: bool = False,
    on_failure: Callable[[Cell, str], None] = lambda _cell, _text: None,
) -> Report:
    """Run whatever of `experiments` is not in the results file `output` yet, on `jobs` cores (all by default).

    Finished runs are committed about every second. Ctrl-C stops at once; what is finished is kept. A failed run does
    not stop the others. Raises InputError if `output` cannot be used.
    """
    jobs = jobs or cores()
    report = Report()
    cancel = _native.Cancel()
    running: dict[Future[Finished], tuple[Cell, _native.Progress]] = {}
    waiting: list[Finished] = []

    def stop() -> None:
        report.interrupted = True
        cancel.cancel()

    def settle(done: Iterable[Future[Finished]]) -> None:
        for future in done:
            cell, _ = running.pop(future)
            bar.finish(cell)
            error = future.exception()
            if error is None:
                waiting.append(future.result())
            elif not isinstance(error, _native.Interrupted):
                text = one_line(str(error) or type(error).__name__)
                report.failed.append((cell, text))
                on_failure(cell, text)

    def commit() -> None:
        store.add(waiting)
        report.done += len(waiting)
        waiting.clear()

    with (
        Store.open(output, write=True) as store,
        _Bar(experiments, quiet=quiet) as bar,
        _signals(stop),
        ThreadPoolExecutor(jobs, thread_name_prefix="run") as pool,
    ):
        cells = _longest_first(_missing(experiments, store.keys(), report))
        committed = time.monotonic()
        try:
            while not report.interrupted:
                # one more than can run, so that no core waits for the next
                while len(running) <= jobs and (cell := next(cells, None)) is not None:
                    progress = _native.Progress()
                    running[pool.submit(_work, cell, cancel, progress)] = (cell, progress)
                if not running:
                    break
                settle(wait(running, timeout=0.2, return_when=FIRST_COMPLETED).done)
                bar.update(running.values())
                if time.monotonic() - committed >= COMMIT_EVERY_S:
                    commit()
                    committed = time.monotonic()
            settle(wait(running).done)
            commit()
        finally:
            cancel.cancel()
    return report
