"""What a case is, what a judge says, and what is common to judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from dumbbell.check.lab import PAYLOAD, Lab, NotApplicable, Run, Setup
from dumbbell.check.trace import Phase, Trace

SPECIFICATION = "draft-ietf-ccwg-bbr at 4ce5e87 (2026-08-03), appendix BBR Example Test Cases"
PASSED, CONSTANT, FAILED, NOT_APPLICABLE = "passed", "constant", "failed", "not applicable"
# what the results mean, best first
MEANING = {
    PASSED: "all that the case expects was seen",
    CONSTANT: "the behaviour is that of the case, and only a constant or a flag differs from the draft's",
    FAILED: "something that the case expects was not seen",
    NOT_APPLICABLE: "the case makes no sense there, for a reason that is given",
}


@dataclass(frozen=True)
class Check:
    """One expectation: what it is, whether it held, what was found. `constant`: only a constant or a flag of the draft is compared."""

    what: str
    held: bool
    found: str
    constant: bool = False


@dataclass(frozen=True)
class Verdict:
    """What a judge says of a case: its result, why, and every expectation that was looked at."""

    result: str
    reason: str
    checks: tuple[Check, ...] = ()


class Checks:
    """Expectations of a case as they are looked at, in the order of the draft's steps."""

    def __init__(self) -> None:
        self.all: list[Check] = []

    def see(self, what: str, held: bool | np.bool_, found: str, *, constant: bool = False) -> bool:
        """Note an expectation; return whether it held."""
        self.all.append(Check(what, bool(held), found, constant))
        return bool(held)

    def near(self, what: str, value: float, expected: float, tolerance: float, unit: str = "") -> bool:
        """Note that a constant of the draft is the expected one, within a share of it."""
        held = abs(value - expected) <= tolerance * expected
        return self.see(what, held, f"{value:.4g}{unit}", constant=True)

    def verdict(self) -> Verdict:
        """Return the result of all of them."""
        broken = [check for check in self.all if not check.held]
        reason = "; ".join(f"{check.what}: {check.found}" for check in broken)
        if any(not check.constant for check in broken):
            return Verdict(FAILED, reason, tuple(self.all))
        return Verdict(CONSTANT if broken else PASSED, reason, tuple(self.all))


class Ended(Exception):  # noqa: N818  what was seen so far is the verdict
    """Nothing more can be looked at, because something that the rest builds on was not seen."""


Prepare = Callable[[Lab], Run]
Judge = Callable[[Trace, Setup, Checks], None]


@dataclass(frozen=True)
class Case:
    """One case of the draft: how to set it up, and how a trace is judged.

    `number` counts the headings of the appendix, `heading` is the heading itself. `note` says what there is to know of the case as the draft has it.
    `without` are controls that lack what the case is about, and why.
    """

    number: str
    key: str
    heading: str
    expects: str
    prepare: Prepare
    judge: Judge
    note: str = ""
    without: Mapping[str, str] = field(default_factory=dict)

    def verdict(self, run: Run) -> Verdict:
        """Judge a run."""
        checks = Checks()
        try:
            if not any(run.trace.state):
                raise NotApplicable("the control reports no states")
            self.judge(run.trace, run.setup, checks)
        except NotApplicable as reason:
            return Verdict(NOT_APPLICABLE, str(reason), tuple(checks.all))
        except Ended:
            pass
        return checks.verdict()


def phase(trace: Trace, checks: Checks, state: str | tuple[str, ...], after: float = -1.0, *, ends: bool = True) -> Phase:
    """Return the first phase in a state that begins at or after a time; it must be there and, with `ends`, be over."""
    found = trace.first(state, after)
    name = " or ".join([state] if isinstance(state, str) else state)
    cut = trace.all(state, after, cut=True)
    if found is None and cut:
        raise NotApplicable(f"PROBE_RTT, which is due again and again, ends each of {len(cut)} {name} in {trace.time[-1]:.3g} s")
    since = f" after {after:.4g} s" if after > 0 else ""
    if not checks.see(f"{name}{since}", found is not None, f"not in {trace.time[-1] if len(trace) else 0:.4g} s"):
        raise Ended
    assert found is not None
    if ends and not checks.see(f"{name} ends", trace.over(found), f"still there at {trace.time[-1]:.4g} s, since {found.start:.4g} s"):
        raise Ended
    return found


# states that may last no time: what ends them, inflight at most BBRInflight(1.0), may hold when they begin
_PASSED_THROUGH = {"drain": ("probe_down", "probe_cruise"), "probe_down": ("probe_cruise",)}


def follows(trace: Trace, checks: Checks, before: Phase, states: tuple[str, ...]) -> Phase:
    """Return the phase after another, whose state must be one of these.

    DRAIN and PROBE_DOWN may begin and end with one ACK, if little is in flight; a trace then has the state after them.
    """
    after = trace.next(before)
    name = " or ".join(states)
    if after is None:
        checks.see(f"{before.state} → {name}", False, "→ nothing")
        raise Ended
    held, found = after.state in states, f"→ {after.state}"
    if not held and any(after.state in _PASSED_THROUGH.get(state, ()) for state in states):
        row = after.rows.start
        target = max(float(trace["inflight_bdp"][row]), float(trace["inflight_bdp"][row - 1]))
        held = bool(trace["in_flight"][row] <= target + 4)
        found = f"→ {after.state}, {trace['in_flight'][row]:.0f} in flight, BBRInflight(1.0) {target:.0f}"
    checks.see(f"{before.state} → {name}", held, found)
    return after


def rounds(trace: Trace, first: int, last: int) -> float:
    """Return how many round trips began between two rows."""
    return float(trace["round"][last] - trace["round"][first])


def burst(trace: Trace, row: int, setup: Setup) -> float:
    """Return the segments that a burst may add to what is in flight: a row is written after the control's answer was sent.

    A burst is what the pacing rate sends in 1 ms, from 2 segments to 64 KB; up to 64 KB whatever the rate on paths shorter than about 5 ms (Linux
    tcp_tso_autosize).
    """
    most = 65_536 / PAYLOAD
    paced = trace["pacing_rate_mbit"][row]
    segments = float(np.clip(paced * 1e6 / 8 * 1e-3 / PAYLOAD, 2, most)) if np.isfinite(paced) else 2.0
    if setup.point.rtt < 0.005:
        segments = most
    # Linux takes a burst that is on its way out of what is in flight: at a gain below one it takes longer to leave
    gain = trace["pacing_gain"][max(row - 1, 0)]
    return 2 * segments / (float(np.clip(gain, 0.1, 1)) if np.isfinite(gain) else 1.0)


def goodput(trace: Trace, start: float, end: float) -> float:
    """Return what was delivered between two times, Mbit/s of payload."""
    first, last = trace.at(start), trace.at(end)
    seconds = trace.time[last] - trace.time[first]
    return float(trace["delivered"][last] - trace["delivered"][first]) * PAYLOAD * 8e-6 / seconds if seconds > 0 else float("nan")


def loss_share(trace: Trace, first: int, last: int) -> float:
    """Return the share of segments that were marked lost, of all marked lost or delivered between two rows."""
    lost = float(trace["lost"][last] - trace["lost"][first])
    delivered = float(trace["delivered"][last] - trace["delivered"][first])
    return lost / (lost + delivered) if lost + delivered > 0 else 0.0


def target(trace: Trace, row: int) -> float:
    """Return BBRTargetInflight(): the estimated BDP or, if it is smaller, the window; segments."""
    bdp = float(trace["bw_mbit"][row] * trace["min_rtt_ms"][row]) * 1e3 / 8 / PAYLOAD
    return min(bdp, float(trace["cwnd"][row]))


def loss_in_round(trace: Trace, row: int, since: int) -> float:
    """Return the segments marked lost until a row, over what was in flight a round trip ago: since then, and not before row `since`."""
    first = max(a_round_before(trace, row), since)
    return float(trace["lost"][row] - trace["lost"][first]) / max(float(trace["in_flight"][first]), 1)


def a_round_before(trace: Trace, row: int, count: int = 1) -> int:
    """Return the row at which the round began that was `count` rounds ago."""
    return int(np.searchsorted(trace["round"], trace["round"][row] - count))
