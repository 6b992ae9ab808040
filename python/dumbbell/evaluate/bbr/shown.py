"""Whether a trace shows the set-up of a case: the answer is why not, or nothing."""

from __future__ import annotations

import numpy as np

from dumbbell.evaluate.bbr.lab import Setup
from dumbbell.evaluate.bbr.trace import PROBE_BW, Phase, Trace

LONG = 20  # rounds that stand for "indefinitely"
_LONGEST_CYCLE = 3.0, 40  # seconds and rounds: a phase of PROBE_BW is over by then (section Time Scale for Probing)


def _is_limited(trace: Trace, found: Phase) -> bool:
    return float(np.mean(trace["app_limited"][found.rows])) > 0.5


def _cut_off(trace: Trace, setup: Setup, found: Phase) -> bool:
    """Whether the trace ends so early in a phase that nobody could have seen its end."""
    seconds, rounds = _LONGEST_CYCLE
    most = setup.point.startup if found.state in ("startup", "drain") else seconds + rounds * setup.point.round
    return not trace.is_over(found) and found.seconds < most


def check_bulk(trace: Trace, setup: Setup, *, state: str) -> str:
    """Test that a state is there to its end, in which the application is not the limit."""
    found = trace.find_phase(state) or trace.find_phase(state, cut=True)
    if found is None:
        return f"no {state}"
    if _is_limited(trace, found):
        return f"the application is the limit in {state}"
    return f"it ends, or the path changes, in {state}" if _cut_off(trace, setup, found) else ""


def check_limited(trace: Trace, setup: Setup, *, state: str, rounds: int = 0) -> str:
    """Test that a state is there in which the application is the limit, for so many rounds if it stays."""
    if trace.is_without("app_limited"):
        return "app_limited is not in the trace"
    found = trace.find_phase(state, setup.times.get("PROBE_UP", 0.0) - 1e-9, cut=True)
    if found is None:
        return f"no {state}"
    if not _is_limited(trace, found):
        return f"the application is not the limit in {state}"
    seen = float(trace["round"][found.rows.stop - 1] - trace["round"][found.rows.start])
    is_short = not trace.is_over(found) and seen < rounds
    return f"it ends, or the path changes, after {seen:.0f} rounds" if is_short else ""


def check_probe_rtt(trace: Trace, setup: Setup, *, time: str) -> str:
    """Test that PROBE_RTT follows PROBE_BW after a time."""
    found = trace.find_phase("probe_rtt", setup.times[time])
    if found is None:
        return f"no probe_rtt after that time ({time})"
    before = [one for one in trace.phases if one.rows.stop == found.rows.start]
    return "" if before and before[0].state in PROBE_BW else "probe_rtt does not follow PROBE_BW"


def check_state(trace: Trace, _: Setup, *, state: str) -> str:
    """Test that a state is there."""
    return "" if trace.find_phase(state) else f"no {state}"


def check_state_at(trace: Trace, setup: Setup, *, time: str, state: str) -> str:
    """Test that a state begins within a round trip of a time."""
    at, near = setup.times[time], setup.point.round
    found = [one for one in trace.find_phases(state, cut=True) if abs(one.start - at) <= near]
    return "" if found else f"no {state} begins within a round trip of {at:.4g} s ({time})"


def check_loss_in_probe_up(trace: Trace, setup: Setup) -> str:
    """Test that something is lost in PROBE_UP."""
    found = trace.find_phase("probe_up", setup.times["PROBE_UP"] - 1e-9)
    if found is None:
        return "no probe_up at that time (PROBE_UP)"
    last = min(found.rows.stop, len(trace) - 1)
    return "" if trace["lost"][last] > trace["lost"][found.rows.start] else "no loss in that probe_up (PROBE_UP)"


def check_small_path(_: Trace, setup: Setup) -> str:
    """Test that the path holds less than a packet."""
    return f"the BDP is {setup.point.bdp:.3g} packets" if setup.point.bdp >= 1 else ""


def check_timeout(trace: Trace, setup: Setup, *, timeout: bool) -> str:
    """Test that a timeout follows late segments, or that none does."""
    follows = "loss" in trace.words["ca_state"][trace.find_row(setup.times["late segments"]) :]
    if follows == timeout:
        return ""
    return "no timeout follows (recovery_state loss)" if timeout else "a timeout follows: it is case 19"
