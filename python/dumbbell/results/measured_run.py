"""The measurements of a finished run."""

from dataclasses import dataclass

from dumbbell import _native
from dumbbell.experiment.cell import Cell


@dataclass(frozen=True)
class MeasuredRun:
    """The measurements of one run, and the seconds that it took."""

    wall_s: float
    result: _native.Result
    kernel: str = ""
    """JSON: kernel and tools, of a run on Linux."""


@dataclass(frozen=True)
class Finished:
    """One finished run: what describes it and what it measured."""

    cell: Cell
    run: MeasuredRun
