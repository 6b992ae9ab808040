"""The simulator: runs on all cores of this machine."""

import bisect
import contextlib
import itertools
import math
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from dumbbell import _native
from dumbbell.engines.base import Ended, Local, Run, Workers
from dumbbell.errors import UnknownName
from dumbbell.experiment import plugins
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.experiment.plugins.process import PluginChild
from dumbbell.experiment.schema import SENDERS
from dumbbell.processes import count_cores
from dumbbell.results.measured_run import MeasuredRun

PACKETS_PER_SECOND = 8.0e6  # of one core, where no run can be tried out: in the middle of the cases of make bench
_TRIALS = 24  # runs that an estimate tries out
_TRIAL_S, _TRIAL_MOST_S = 0.2, 1.0  # of a core, for each of them: once its flows have started, and in all
SWITCH_S = 0.0005  # after which a thread gives up Python's lock to one whose run has ended


class Threads(Local):
    """The cores of this machine: a thread each, which do not hold Python's lock while they simulate.

    A run with plugins is carried out in a process of its own. Others may use several `threads` each.
    """

    def __init__(self, jobs: int, threads: int = 1) -> None:
        super().__init__(jobs)
        self._threads = threads
        self._cancel = _native.Cancel()
        self._children: set[PluginChild] = set()
        self._switch = sys.getswitchinterval()

    def __enter__(self) -> Self:
        sys.setswitchinterval(SWITCH_S)
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        sys.setswitchinterval(self._switch)

    def run(self, cell: Cell, progress: _native.Progress) -> MeasuredRun:
        """Simulate."""
        started = time.perf_counter()
        if loaded := plugins.list_copies(cell.groups):
            result = self._simulate_apart(cell, loaded, progress)
        else:
            result = _native.run(cell.config, self._cancel, progress, threads=self._threads)
        return MeasuredRun(time.perf_counter() - started, result)

    def carry_out(self, runs: Sequence[Run]) -> list[Ended]:
        """Simulate one run after the other; those without plugins without a look at Python in between."""
        if any(cell.has_plugin_text for cell, _ in runs):
            return super().carry_out(runs)
        configs, progress = [cell.config for cell, _ in runs], [progress for _, progress in runs]
        ended = _native.run_all(configs, self._cancel, progress, self._threads)
        return [MeasuredRun(*one) if isinstance(one, tuple) else one for one in ended]

    def _simulate_apart(self, cell: Cell, loaded: dict[str, str], progress: _native.Progress) -> _native.Result:
        """Simulate in another process."""
        child = PluginChild("run", site=any(path.endswith(".py") for path in loaded.values()))
        self._children.add(child)
        try:
            if self.stopped.is_set():
                child.kill()
            return _native.Result.from_bytes(child.answer({"config": cell.config, "plugins": loaded}, progress))
        except RuntimeError:
            if self.stopped.is_set():
                raise _native.Interrupted from None
            raise
        finally:
            self._children.discard(child)

    def stop(self) -> None:
        """End what runs and what waits."""
        self._cancel.cancel()
        super().stop()
        for child in list(self._children):
            child.kill()


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

    def measure_packet_cost(self) -> float | None:
        """Return the seconds of a core for each of `Cell.packets`; None if the run fails.

        What it does until its flows have started is not counted, unless it is over by then.
        """
        begun = time.perf_counter()

        def read_clock() -> float:
            with contextlib.suppress(OSError):  # it has ended
                return time.perf_counter() - begun if self._clock is None else time.clock_gettime(self._clock)
            return math.inf

        self.start()
        started = max((one["start"]["max"] for name in SENDERS for one in self._cell.groups.get(name, ())), default=0)
        first, before = 0.0, 0
        while self.is_alive() and (spent := read_clock()) < _TRIAL_MOST_S and (not before or spent < first + _TRIAL_S):
            if not before and self._progress.simulated > started:
                first, before = spent, self._progress.simulated
            self.join(0.005)
        self._cancel.cancel()
        self.join()
        if self._whole:
            return self._spent / self._cell.packets
        share = (self._progress.simulated - before) / self._cell.duration
        return None if self._failed or share <= 0 else (self._spent - first) / (share * self._cell.packets)


def measure_speed(cells: list[Cell], jobs: int) -> float:
    """Return packets per second on one core, counted as `Cell.packets`: some of the runs are tried out for a moment.

    They lie at equal distances of work in the order of the cells, and as many are tried at once as the sweep will run.
    """
    cells = [cell for cell in cells if not plugins.find_plugins(cell.groups)]  # code of others is tried by its run
    if not cells:
        return PACKETS_PER_SECOND
    done = list(itertools.accumulate(cell.packets for cell in cells))
    tried = [cells[bisect.bisect(done, done[-1] * (i + 0.5) / _TRIALS)] for i in range(_TRIALS)]
    with ThreadPoolExecutor(min(jobs, count_cores())) as pool:
        costs = [cost for cost in pool.map(lambda cell: _Trial(cell).measure_packet_cost(), tried) if cost]
    return len(costs) / sum(costs) if costs else PACKETS_PER_SECOND


@dataclass(frozen=True)
class Simulator:
    """The simulator of this build; each run may use up to `threads` threads. Results are the same with any number."""

    threads: int = 1

    @property
    def version(self) -> str:
        """Part of every run's key: a hash of the sources."""
        return _native.engine_version()

    @property
    def format_plan(self) -> None:
        """Nothing: all that a run does follows from its configuration."""
        return

    @staticmethod
    def prepare(_experiments: list[Experiment]) -> list[str]:
        """Nothing to check: an experiment that could be read can be simulated."""
        return []

    @staticmethod
    def estimate_seconds(cells: Sequence[Cell], jobs: int) -> list[float]:
        """Return about how many seconds of a core each run takes; some of them are tried out for a moment."""
        per_second = measure_speed(list(cells), jobs)
        return [cell.packets / per_second for cell in cells]

    @staticmethod
    def count_parallel(jobs: int) -> int:
        """Return how many runs go on at once where `jobs` are allowed."""
        return jobs

    def open_workers(self, jobs: int) -> Workers:
        """Return the cores of this machine."""
        return Threads(jobs, self.threads)


def make_engine(which: str | None = None) -> Simulator:
    """Return the engine; raises InputError if `which` names another."""
    if which is not None:
        raise UnknownName(f"sim:{which}", among=("sim",), option="--engine", what="engine")
    return Simulator()
