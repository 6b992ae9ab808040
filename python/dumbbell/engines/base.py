"""The interface of engines: an engine checks cells, says what they take and carries them out on workers."""

import dataclasses
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Protocol, Self, runtime_checkable

from dumbbell import _native
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.results.measured_run import MeasuredRun

Run = tuple[Cell, _native.Progress]
Ended = MeasuredRun | BaseException


class Workers(Protocol):
    """Where runs are carried out: a context manager."""

    @property
    def slots(self) -> int:
        """How many runs can be carried out at once."""

    def begin(self, runs: Sequence[Run]) -> Future[list[Ended]]:
        """Start runs, several of them if they are short; they end together, each with what it measured or an error.

        Raises InputError if the workers are unusable: no further run can start.
        """

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
    def run(self, cell: Cell, progress: _native.Progress) -> MeasuredRun:
        """Carry out a run; raises `_native.Interrupted` soon after `stopped` is set."""

    def submit(self, cell: Cell, progress: _native.Progress) -> Future[MeasuredRun]:
        """Begin a run, or put it behind those that wait."""
        return self._pool.submit(self.run, cell, progress)

    def begin(self, runs: Sequence[Run]) -> Future[list[Ended]]:
        """Begin runs that one thread carries out, one after the other."""
        return self._pool.submit(self.carry_out, runs)

    def carry_out(self, runs: Sequence[Run]) -> list[Ended]:
        """Carry out one run after the other in this thread."""
        ended: list[Ended] = []
        for cell, progress in runs:
            try:
                ended.append(_native.Interrupted() if self.stopped.is_set() else self.run(cell, progress))
            except BaseException as error:  # of this run alone, a panic too
                ended.append(error)
        return ended

    def stop(self) -> None:
        """End what runs and what waits."""
        self.stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._pool.shutdown()


class Engine(Protocol):
    """Carries out the runs of experiments: the simulator, Linux in virtual time, or the real clock."""

    @property
    def version(self) -> str:
        """Part of every run's key."""

    @property
    def format_plan(self) -> Callable[[Cell], str] | None:
        """What it does with a cell, where that does not follow from the configuration: part of the run's key."""

    def prepare(self, experiments: list[Experiment]) -> list[str]:
        """Check every cell, and return what the engine does only nearly as the simulator; raises InputError."""

    def estimate_seconds(self, cells: Sequence[Cell], jobs: int) -> list[float]:
        """Return about how many seconds of a core each run takes, where `jobs` of them go on at once."""

    def count_parallel(self, jobs: int) -> int:
        """Return how many runs go on at once where `jobs` are allowed."""

    def open_workers(self, jobs: int) -> Workers:
        """Return where runs are carried out, up to `jobs` at a time; raises InputError."""


@runtime_checkable
class Captures(Protocol):
    """An engine whose kernels send packets, which can be captured."""

    def check(self, cell: Cell, file: str) -> list[str]:
        """Return what it does only nearly as the simulator; raises InputError, said of `file`, if it cannot run it."""

    def capture_run(self, cell: Cell) -> AbstractContextManager[tuple[_native.Result, "_native._Files"]]:
        """Carry out a run, and yield what it measured and the files of its packets; raises RuntimeError if it fails."""


def prepare_experiments(experiments: list[Experiment], engine: Engine) -> list[Experiment]:
    """Return experiments whose cells have the keys of runs on an engine."""
    return [dataclasses.replace(one, engine=engine.version, plan_of=engine.format_plan) for one in experiments]
