"""Where a replay comes from: a run that is kept, or one that goes on meanwhile."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Self

from dumbbell import _native
from dumbbell.engines.base import Ended, Engine, Workers
from dumbbell.engines.sim import Simulator
from dumbbell.experiment import plugins
from dumbbell.experiment.cell import Cell
from dumbbell.explain import explained, observed
from dumbbell.explain.facts.base import Fact
from dumbbell.explain.observed import Observed
from dumbbell.watch import replay
from dumbbell.watch.replay import Replay

_FIRST_PART_S = 0.5  # after which the beginning of a run that takes longer is shown
_LEAST_PART_NS = 100_000_000
# what stays so, however the run goes on
_SETTLED = ("started", "stopped", "paused", "slow_start_left", "drained")


class RunSource:
    """A run that is stored, or that goes on meanwhile; `is_done` says whether all of it is there.

    `about` describes the run in few words, `when_shown` says when there will be something to see.
    """

    duration_s: float
    about: str
    when_shown: str
    is_done: bool

    def take_replay(self) -> Replay | None:
        """Return what there is of the run, if that is more than the call before returned. Raises InputError."""
        raise NotImplementedError

    @property
    def reached_s(self) -> float:
        """How far the run has come, in its own time."""
        return self.duration_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _cut(run: Observed, facts: Sequence[Fact], duration_s: float, frames: int, interval_s: float | None) -> Replay:
    return replay.make_replay(run, list(facts), interval_s or replay.choose_interval(run, duration_s, frames))


class StoredReplay(RunSource):
    """A run of a results file."""

    def __init__(self, run: Observed, frames: int, interval_s: float | None) -> None:
        self.duration_s = run.duration_s
        self.about = f"run {run.key[:8]}, engine {run.engine_text}"
        self._found: Replay | None = _cut(run, explained.explain_run(run).facts, run.duration_s, frames, interval_s)

    is_done = True
    when_shown = "it is shown at once"

    def take_replay(self) -> Replay | None:
        """Return the run, once."""
        found, self._found = self._found, None
        return found


class CarriedRun(RunSource):
    """A run that an engine carries out meanwhile.

    The simulator is much faster than the clock. Of a run that takes longer than a moment its beginning is simulated
    again and shown, and again when twice as much can be shown; the whole run takes its place in the end. Runs of other
    engines are replayed when they are over.
    """

    def __init__(self, cell: Cell, engine: Engine, frames: int, interval_s: float | None) -> None:
        self._simulated = isinstance(engine, Simulator)
        self._cell = cell
        if self._simulated:
            self._cell = dataclasses.replace(cell, groups=observed.refine_recording(cell.groups))
        self._engine, self._frames, self._interval_s = engine, frames, interval_s
        self.duration_s = cell.duration / 1e9
        self.about = f"engine {engine.version}"
        self.when_shown = "it is shown as it goes" if self._simulated else "it is shown when it is over"
        self.is_done = False
        self._progress = _native.Progress()
        self._part_ns, self._pending_ns = 0, 0
        self._part: Future[list[Ended]] | None = None

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._workers: Workers = undo.enter_context(self._engine.open_workers(1))
            self._of_parts: Workers = undo.enter_context(Simulator().open_workers(1))
            self._whole = self._workers.begin([(self._cell, self._progress)])
            self._begun = time.monotonic()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.stop()
        self._of_parts.stop()
        self._undo.close()

    @property
    def reached_s(self) -> float:
        """How far the run has come, in its own time."""
        return self.duration_s if self.is_done else self._progress.simulated / 1e9

    def take_replay(self) -> Replay | None:
        """Return what there is of the run, if that is more than the call before returned. Raises InputError."""
        if self.is_done:
            return None
        if self._whole.done():
            self.is_done = True
            return self._replay(self._cell, self._whole, whole=True)
        if self._part is not None and self._part.done():
            part, self._part = self._part, None
            self._part_ns = self._pending_ns
            return self._replay(self._cut_run(self._part_ns), part, whole=False)
        self._begin_part()
        return None

    def _cut_run(self, duration_ns: int) -> Cell:
        """Return the beginning of the run."""
        return dataclasses.replace(self._cell, groups=self._cell.groups | {"duration": duration_ns})

    def _begin_part(self) -> None:
        """Simulate the beginning of the run, if there is more of it to show."""
        own = not self._simulated or plugins.find_plugins(self._cell.groups)
        if own or self._part is not None or time.monotonic() - self._begun < _FIRST_PART_S:
            return
        interval = int(self._cell.groups["record"]["interval"])
        reached = self._progress.simulated // interval * interval
        if reached >= max(2 * self._part_ns, _LEAST_PART_NS):
            self._pending_ns = reached
            self._part = self._of_parts.begin([(self._cut_run(reached), _native.Progress())])

    def _replay(self, cell: Cell, ended: Future[list[Ended]], *, whole: bool) -> Replay:
        measured = observed.take_measured(cell, ended.result()[0])
        run = observed.observe_cell(cell, measured)
        if self._simulated:
            run.fine, run.fine_config = run.tables, run.config
        else:
            observed.repeat(run)  # which says what is missing
        facts = explained.explain_run(run).facts
        if not whole:
            facts = [one for one in facts if one.kind in _SETTLED]
        return _cut(run, facts, self.duration_s, self._frames, self._interval_s)
