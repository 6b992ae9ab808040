"""Runs that are being carried out: as many as keep all workers busy, short ones several at a time."""

import contextlib
import itertools
import math
import queue
import time
from collections.abc import Iterator
from concurrent.futures import Future

from dumbbell import _native
from dumbbell.engines.base import Ended, Run, Workers
from dumbbell.experiment.cell import Cell
from dumbbell.results.measured_run import MeasuredRun
from dumbbell.waiting import restore_ctrl_c

WINDOW = 4096  # runs in flight at most
AHEAD_S = 1.0  # work in flight for each core: short runs go on while finished ones are taken and kept
AHEAD = (2, 16, 1024)  # runs in flight for each core: at least, before any has ended, at most
TOGETHER = 32  # parts of what is in flight for a core, each handed over at once: one run, unless they are short
LOOK_S = 0.05  # between looks at what has ended: to take short runs one by one would cost more than they do
_WAIT_S = 0.2  # for a run to end, between looks at what else goes on


class RunsInFlight:
    """The runs that `workers` have been given and that have not been taken since they ended."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._running: dict[Future[list[Ended]], list[Run]] = {}
        self._done: queue.SimpleQueue[Future[list[Ended]]] = queue.SimpleQueue()
        self._ahead = AHEAD[1]
        self._mean_s = 0.0  # of the runs that were taken last
        self._restored = -math.inf  # when Ctrl-C was last let through
        self.count = 0
        """Runs in flight."""

    @property
    def has_room(self) -> bool:
        """Whether a worker may soon have nothing to do."""
        slots = self._workers.slots
        return self.count < max(AHEAD[0] * slots, min(self._ahead * slots, WINDOW))

    @property
    def pause_s(self) -> float:
        """How long finished runs may wait: a quarter of the time for which the workers have runs in flight."""
        return min(LOOK_S, self.count * self._mean_s / self._workers.slots / 4)

    def list_runs(self) -> Iterator[Run]:
        """Yield all runs in flight."""
        return itertools.chain.from_iterable(self._running.values())

    def begin(self, cells: Iterator[Cell]) -> bool:
        """Give the next of `cells` to a worker, several if runs are short; return whether there were any."""
        together = max(1, self._ahead // TOGETHER)
        runs = [(cell, _native.Progress()) for cell in itertools.islice(cells, together)]
        if runs:
            future = self._workers.begin(runs)
            self._running[future] = runs
            self.count += len(runs)
            future.add_done_callback(self._done.put)
        return bool(runs)

    def take(self, wait_s: float = 0.0) -> list[tuple[Cell, Ended]]:
        """Return what has ended since the last time, and in the next `wait_s`; if nothing has then wait for a while."""
        futures = []
        if (now := time.monotonic()) - self._restored > LOOK_S:
            restore_ctrl_c()
            self._restored = now
        with contextlib.suppress(queue.Empty):
            futures.append(self._done.get(timeout=_WAIT_S))
            if wait_s > 0:
                time.sleep(wait_s)
            while True:
                futures.append(self._done.get_nowait())
        taken: list[tuple[Cell, Ended]] = []
        for future in futures:
            runs = self._running.pop(future)
            self.count -= len(runs)
            cells = [cell for cell, _ in runs]
            taken += zip(cells, _collect_ended(future, len(runs)), strict=True)
        if took := [ended.wall_s for _, ended in taken if isinstance(ended, MeasuredRun)]:
            self._mean_s = sum(took) / len(took)
            self._ahead = max(AHEAD[0], min(round(AHEAD_S / max(self._mean_s, 1e-6)), AHEAD[2]))
        return taken


def _collect_ended(future: Future[list[Ended]], runs: int) -> list[Ended]:
    """Return how each of the runs that were begun together has ended."""
    if future.cancelled():
        return [_native.Interrupted()] * runs
    error = future.exception()
    return future.result() if error is None else [error] * runs
