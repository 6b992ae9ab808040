"""A trace of one flow: what its congestion control believed, row by row. All that a judge sees of a flow."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from dumbbell.errors import Missing
from dumbbell.qlog.fields import BY_COLUMN, PAYLOAD

STATES = ("startup", "drain", "probe_down", "probe_cruise", "probe_refill", "probe_up", "probe_rtt")
PROBE_BW = ("probe_down", "probe_cruise", "probe_refill", "probe_up")
WORDS = ("state", "ca_state")
TIME = "time_s"  # the column that every trace must have; a judge does not know what else a trace lacks
NUMBERS = (TIME, *BY_COLUMN)


@dataclass(frozen=True)
class Phase:
    """A stretch of rows in one state: `rows` of the trace, and the time at which it begins and ends."""

    state: str
    rows: slice
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.end - self.start


class Trace:
    """Columns of numbers by name, and `state` and `ca_state` as words; rows in order of time.

    A column that it lacks is NaN in every row. NaN in a column that it has is a bound that is not set, or a value
    that is not known yet.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        if TIME not in columns:
            raise Missing("it with the other columns", command="trace", key=f"column {TIME}")
        self.time = np.asarray(columns[TIME], dtype=float)
        self._columns = {name: np.asarray(columns[name], dtype=float) for name in NUMBERS if name in columns}
        self.words = {name: np.asarray(columns[name]) for name in WORDS if name in columns}
        self._given = {*self._columns, *self.words}
        self.words.setdefault("state", np.full(len(self.time), ""))
        self.words.setdefault("ca_state", np.full(len(self.time), "open"))

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        """Return a column of numbers; NaN in every row if the trace has none of that name."""
        if name not in self._columns:
            self._columns[name] = np.full(len(self.time), np.nan)
        return self._columns[name]

    def has(self, name: str) -> bool:
        """Whether the trace has values in this column."""
        return name in self._columns and bool(np.isfinite(self._columns[name]).any())

    def is_without(self, name: str) -> bool:
        """Whether the trace was made without this column."""
        return name not in self._given

    def select_columns(self, names: Iterable[str]) -> Trace:
        """Return the trace without all other columns."""
        wanted = {TIME, *names}
        columns = self._columns | self.words
        return Trace({name: columns[name] for name in self._given & wanted})

    def select_before(self, time: float) -> Trace:
        """Return the rows before a time."""
        columns = self._columns | self.words
        end = int(np.searchsorted(self.time, time))
        return Trace({name: columns[name][:end] for name in self._given})

    @property
    def state(self) -> np.ndarray[Any, Any]:
        """The state of every row."""
        return self.words["state"]

    @cached_property
    def phases(self) -> list[Phase]:
        """The states in order, from the first that the control reports."""
        changes = np.flatnonzero(self.state[1:] != self.state[:-1]) + 1
        found = []
        for first, end in pairwise([0, *changes.tolist(), len(self)]):
            if end > first and self.state[first]:
                last = self.time[min(end, len(self) - 1)]
                found.append(Phase(str(self.state[first]), slice(first, end), float(self.time[first]), float(last)))
        return found

    def find_phase(self, state: str | tuple[str, ...], after: float = -1.0, *, cut: bool = False) -> Phase | None:
        """Return the first phase in a state that begins at or after a time."""
        return next(iter(self.find_phases(state, after, cut=cut)), None)

    def find_phases(self, state: str | tuple[str, ...], after: float = -1.0, *, cut: bool = False) -> list[Phase]:
        """Return the phases in a state that begin at or after a time.

        Without `cut` those that PROBE_RTT ends are left out.
        """
        states = (state,) if isinstance(state, str) else state
        others = [one for one in self.phases if one.state in states and one.start >= after]
        if not cut and len(others) > 1 and not self.is_over(others[-1]) and any(self._is_cut(one) for one in others):
            # the last one may be cut as well
            return [one for one in others[:-1] if not self._is_cut(one)]
        return [one for one in others if cut or not self._is_cut(one)]

    def _is_cut(self, phase: Phase) -> bool:
        after = self.find_next_phase(phase)
        return bool(phase.state != "probe_rtt" and after is not None and after.state == "probe_rtt")

    def find_next_phase(self, phase: Phase) -> Phase | None:
        """Return the phase after another."""
        place = bisect.bisect_left(self.phases, phase.rows.stop, key=lambda one: one.rows.start)
        return self.phases[place] if place < len(self.phases) else None

    def is_over(self, phase: Phase) -> bool:
        """Whether the phase ended before the trace did."""
        return bool(phase.rows.stop < len(self))

    def is_past(self, state: str, after: float = -1.0) -> bool:
        """Whether a phase in a state began at or after a time, and ended before the trace did."""
        found = self.find_phase(state, after)
        return found is not None and self.is_over(found)

    def select_rows(self, start: float, end: float) -> slice:
        """Return the rows from a time until before another."""
        return slice(int(np.searchsorted(self.time, start)), int(np.searchsorted(self.time, end)))

    def find_row(self, time: float) -> int:
        """Return the last row at or before a time."""
        return max(int(np.searchsorted(self.time, time, side="right")) - 1, 0)

    def find_time(self, test: Callable[[Trace], np.ndarray[Any, Any]], after: float = -1.0) -> float | None:
        """Return the time of the first row at or after a time for which `test` holds."""
        found = np.flatnonzero(test(self) & (self.time >= after))
        return float(self.time[found[0]]) if len(found) else None

    def count_rounds(self, first: int, last: int) -> float:
        """Return how many round trips began between two rows."""
        return float(self["round"][last] - self["round"][first])

    def compute_goodput(self, start: float, end: float) -> float:
        """Return what was delivered between two times, Mbit/s of payload."""
        first, last = self.find_row(start), self.find_row(end)
        seconds = self.time[last] - self.time[first]
        return (
            float(self["delivered"][last] - self["delivered"][first]) * PAYLOAD * 8e-6 / seconds
            if seconds > 0
            else float("nan")
        )

    def compute_loss_share(self, first: int, last: int) -> float:
        """Return the share of segments that were marked lost, of all marked lost or delivered between two rows."""
        lost = float(self["lost"][last] - self["lost"][first])
        delivered = float(self["delivered"][last] - self["delivered"][first])
        return lost / (lost + delivered) if lost + delivered > 0 else 0.0

    def compute_target(self, row: int) -> float:
        """Return BBRTargetInflight(): the estimated BDP or, if it is smaller, the window; segments."""
        bdp = float(self["bw_mbit"][row] * self["min_rtt_ms"][row]) * 1e3 / 8 / PAYLOAD
        return min(bdp, float(self["cwnd"][row]))

    def compute_loss_in_round(self, row: int, since: int) -> float:
        """Return the segments marked lost in the last round trip, over what was in flight when it began.

        Phases before row `since` do not count.
        """
        first = max(self.find_round_before(row), since)
        return float(self["lost"][row] - self["lost"][first]) / max(float(self["in_flight"][first]), 1)

    def find_round_before(self, row: int, count: int = 1) -> int:
        """Return the row at which the round began that was `count` rounds ago."""
        return min(int(np.searchsorted(self["round"], self["round"][row] - count)), row)
