"""Cases, verdicts, and helpers that judges share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from dumbbell.evaluate.bbr.lab import CaseLab, CaseRun, NotApplicable, Setup
from dumbbell.evaluate.bbr.trace import Phase, Trace
from dumbbell.evaluate.grade import CANNOT_TELL, CONSTANT, FAILS, NOT_APPLICABLE, PASSES, CaseVerdict, Expectation
from dumbbell.evaluate.suite_file import Criterion, TraceNeeds
from dumbbell.qlog import fields

_T = TypeVar("_T")
INFLIGHT_COLUMNS = ("in_flight", "inflight_bdp")
MIN_PIPE_CWND = 4
LOSS_THRESH = 0.02
_LOSS_SEEN = 5 / 256  # what Linux has for it: segments are whole, and shares are counted when the loss is found
_NOT_KNOWN = re.compile(r"(?<![a-z])nan(?![a-z])")  # a number that is not known there, as text


class Checks:
    """Expectations of a case as they are looked at, in the order of the draft's steps."""

    def __init__(self, trace: Trace) -> None:
        self.all: list[Expectation] = []
        self._trace = trace

    def expect(
        self,
        what: str,
        held: bool | np.bool_,
        found: str,
        *,
        needs: tuple[str, ...] = (),
        unless: tuple[str, ...] = (),
        constant: bool = False,
    ) -> bool:
        """Note an expectation; return whether it held.

        Nobody can tell without the columns that it `needs`, nor if a number in `found` is not known. Without those of
        `unless` nobody can tell that it failed.
        """
        told: bool | None = bool(held)
        lacking = self._find_lacking(needs if held else (*needs, *unless))
        if lacking:
            told, found = None, f"needs {fields.list_columns_to_log(lacking)}"
        elif _NOT_KNOWN.search(found):
            told, found, lacking = None, _NOT_KNOWN.sub("not known", found), self._find_lacking(unless)
        self.all.append(Expectation(what, told, found, constant, () if told is not None else _name_fields(lacking)))
        return told is True

    def expect_constant(self, what: str, column: str, row: int, expected: float, tolerance: float) -> bool:
        """Note that a constant of the draft, found in a row of a column, is as expected, within a share of it."""
        value = float(self._trace[column][row])
        held = abs(value - expected) <= tolerance * expected
        return self.expect(what, held, f"{value:.4g}", needs=(column,), constant=True)

    def expect_flag(self, column: str, row: int, wanted: int = 1) -> None:
        """Note that a flag is as expected in a row.

        Without full_bw_reached STARTUP could not end: where a trace does not have it, it is a flag like any other.
        """
        value = self._trace[column][row]
        constant = column != "full_bw_reached" or self._trace.is_without(column)
        what = f"{column} is {'' if wanted else 'not '}set"
        self.expect(what, value == wanted, f"{value:g}", needs=(column,), constant=constant)

    def expect_limited(self, what: str, rows: slice, where: str, *, least: float = 0.5) -> None:
        """Note that the application is the limit in more than a share of some rows."""
        share = float(np.mean(self._trace["app_limited"][rows])) if rows.stop > rows.start else 0.0
        self.expect(f"application-limited{what}", share > least, f"in {share:.0%} of {where}", needs=("app_limited",))

    def expect_inflight(self, what: str, row: int, limit: float, room: float, needs: tuple[str, ...]) -> None:
        """Note that what is in flight in a row is at most a limit, and `room` for bursts."""
        found = self._trace["in_flight"][row]
        self.expect(what, found <= limit + room, describe_inflight(found, limit, room), needs=needs)

    def expect_goodput(
        self, what: str, start: float, end: float, share: float, link: float, unless: tuple[str, ...] = ()
    ) -> None:
        """Note that a share of what a link carries, Mbit/s, was delivered between two times."""
        rate = self._trace.compute_goodput(start, end)
        found = f"{rate:.4g} of {link:.4g} Mbit/s"
        self.expect(what, rate >= share * link, found, needs=("delivered",), unless=unless)

    def expect_or_end(self, what: str, held: bool | np.bool_, found: str, *, needs: tuple[str, ...] = ()) -> None:
        """Note an expectation without which nothing more can be looked at: the case ends if it did not hold."""
        if not self.expect(what, held, found, needs=needs):
            raise CaseEnded

    def require_value(self, what: str, value: _T | None, found: str, *, needs: tuple[str, ...] = ()) -> _T:
        """Note that there is a value, and return it; the case ends without one."""
        self.expect_or_end(what, value is not None, found, needs=needs)
        assert value is not None
        return value

    def find_phase(self, state: str | tuple[str, ...], after: float = -1.0, *, ends: bool = True) -> Phase:
        """Return the first phase in a state at or after a time; it must be there and, with `ends`, be over."""
        trace = self._trace
        found = trace.find_phase(state, after)
        name = " or ".join([state] if isinstance(state, str) else state)
        cut = trace.find_phases(state, after, cut=True)
        if found is None and cut:
            raise NotApplicable(
                f"PROBE_RTT, which is due repeatedly, ends every {name}: {len(cut)} in {trace.time[-1]:.3g} s"
            )
        since = f" after {after:.4g} s" if after > 0 else ""
        seen = f"at {found.start:.4g} s" if found is not None else f"not in {trace.time[-1] if len(trace) else 0:.4g} s"
        found = self.require_value(f"{name}{since}", found, seen)
        over = trace.is_over(found)
        seen = f"at {found.end:.4g} s" if over else f"still there at {trace.time[-1]:.4g} s, since {found.start:.4g} s"
        if ends:
            self.expect_or_end(f"{name} ends", over, seen)
        return found

    def find_next_phase(self, before: Phase, states: tuple[str, ...], unless: tuple[str, ...] = ()) -> Phase:
        """Return the phase after another, in one of these states; without the columns `unless` it may be another.

        DRAIN and PROBE_DOWN may begin and end with one ACK, if little is in flight; a trace then has the state after
        them.
        """
        trace = self._trace
        after = trace.find_next_phase(before)
        what = f"{before.state} → {' or '.join(states)}"
        if after is None:
            self.expect(what, False, "→ nothing")
            raise CaseEnded
        needs: tuple[str, ...] = ()
        held, found = after.state in states, f"→ {after.state}"
        if not held and any(after.state in _PASSED_THROUGH.get(state, ()) for state in states):
            row = after.rows.start
            target = max(float(trace["inflight_bdp"][row]), float(trace["inflight_bdp"][row - 1]))
            held = bool(trace["in_flight"][row] <= target + 4)
            found = f"→ {after.state}, in flight {describe_inflight(trace['in_flight'][row], target, 4)}"
            needs = ("in_flight", "inflight_bdp")
        self.expect(what, held, found, needs=needs, unless=unless)
        return after

    def expect_loss(self, row: int, since: int) -> None:
        """Note that the round before a row lost more than BBR tolerates; phases before row `since` do not count."""
        lost = self._trace.compute_loss_in_round(row, since)
        found = f"{lost:.1%} of what is in flight"
        self.expect("loss above LossThresh, 2 %", lost >= _LOSS_SEEN, found, needs=("lost", "in_flight", "round"))

    def expect_no_loss(self, first: int, last: int = -1) -> None:
        """Note that nothing was marked lost between two rows."""
        lost = self._trace["lost"][last] - self._trace["lost"][first]
        self.expect("no loss", not lost > 0, f"{lost:.0f} lost", needs=("lost",))

    def expect_full_pipe(self, row: int) -> None:
        """Note that both flags of a full pipe are set in a row."""
        self.expect_flag("full_bw_now", row)
        self.expect_flag("full_bw_reached", row)

    def require(self, what: str, *needs: str) -> None:
        """End the case if the trace lacks any of these columns, without which `what` cannot be looked at."""
        if self._find_lacking(needs):
            self.expect_or_end(what, False, "", needs=needs)

    def _find_lacking(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name in columns if self._trace.is_without(name)))

    def make_verdict(self) -> CaseVerdict:
        """Return the result of all of them.

        A constant or a flag that cannot be compared does not keep a case from passing; the reason names it.
        """
        broken, unknown = ([check for check in self.all if check.held is held] for held in (False, None))
        reason, open_ = ("; ".join(f"{one.what}: {one.found}" for one in some) for some in (broken, unknown))
        if any(not check.constant for check in broken):
            return CaseVerdict(FAILS, reason, tuple(self.all))
        if any(not check.constant for check in unknown):
            return CaseVerdict(CANNOT_TELL, open_, tuple(self.all))
        reason = "; ".join(filter(None, [reason, f"not compared: {open_}" if open_ else ""]))
        return CaseVerdict(CONSTANT if broken else PASSES, reason, tuple(self.all))


class CaseEnded(Exception):  # noqa: N818  what was seen so far is the verdict
    """Nothing more can be looked at, because something that the rest builds on was not seen."""


def _name_fields(columns: Iterable[str]) -> tuple[str, ...]:
    """Return what qlog calls columns."""
    return tuple(map(fields.name, columns))


Prepare = Callable[[CaseLab], CaseRun]
Judge = Callable[[Trace, Setup, Checks], None]


@dataclass(frozen=True)
class CaseProgram:
    """The functions of a case: one sets it up, one judges a trace, and `shown` says why a trace is not of this set-up.

    `without` are controls that lack what the case is about, and why.
    """

    prepare: Prepare
    judge: Judge
    shown: Callable[[Trace, Setup], str] = lambda _trace, _setup: ""
    without: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BbrCase(CaseProgram):
    """One case of the draft: how to set it up, how a trace is judged, its criterion in the suite, and its heading."""

    key: str
    criterion: Criterion
    heading: str

    @property
    def number(self) -> str:
        """The number of the heading in the appendix of the draft."""
        return self.criterion.answers[0]

    @property
    def needs(self) -> TraceNeeds:
        """The fields that the trace of another implementation must have."""
        return self.criterion.needs

    def judge_run(self, run: CaseRun) -> CaseVerdict:
        """Judge a run."""
        trace = run.trace
        checks = Checks(trace)
        if trace.is_without("state"):
            checks.expect("states", False, "", needs=("state",))
        else:
            try:
                if not any(trace.state):
                    raise NotApplicable("the control reports no states")
                with np.errstate(all="ignore"):
                    self.judge(trace, run.setup, checks)
            except NotApplicable as reason:
                return CaseVerdict(NOT_APPLICABLE, _NOT_KNOWN.sub("not known", str(reason)), tuple(checks.all))
            except CaseEnded:
                pass
        found = checks.make_verdict()
        if found.result != CANNOT_TELL:
            return found
        return replace(
            found, log=_name_fields(name for name in ("state", *self.needs.columns) if trace.is_without(name))
        )


# states that may last no time: what ends them, inflight at most BBRInflight(1.0), may hold when they begin
_PASSED_THROUGH = {"drain": ("probe_down", "probe_cruise"), "probe_down": ("probe_cruise",)}


def describe_inflight(found: float, limit: float, room: float) -> str:
    """Return what is in flight, and what is allowed: a limit, and `room` for bursts."""
    if np.isinf(limit):
        return f"{found:.0f}, no bound is set"
    return f"{found:.0f}, allowed {limit:.0f} and {room:.0f} for bursts"


def format_bound(value: float) -> str:
    """Return a bound in words: one that is not set is unbounded."""
    return "unset" if math.isnan(value) else f"{value:.4g}"
