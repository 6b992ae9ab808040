"""Cases of loss that turns out to be spurious: 18 and 19."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dumbbell.evaluate.bbr.case import CaseProgram, Checks, compute_target, format_bound
from dumbbell.evaluate.bbr.lab import CaseLab, CaseRun, NotApplicable, Setup
from dumbbell.evaluate.bbr.path import compute_room_for_bursts
from dumbbell.evaluate.bbr.probing import probe
from dumbbell.evaluate.bbr.shown import check_recovery, check_timeout
from dumbbell.evaluate.bbr.startup import make_packets_late
from dumbbell.evaluate.bbr.trace import Trace


def _run_spurious(lab: CaseLab, timeout: bool) -> CaseRun:
    point = lab.point
    if point.bdp < 8:
        raise NotApplicable(
            "fewer than 8 segments are in flight: no three overtake a late one, and nothing is probed for"
        )
    trace, up = probe(lab)
    since = up.start + 1.0 * point.round
    srtt = float(trace["srtt_ms"][trace.find_row(since)]) / 1e3
    if timeout:
        # all that is sent is late by more than the retransmission timeout, so that probes are late as well
        delay = 2.0 * (1.5 * srtt + 0.25)
        until = since + delay
    else:
        # one burst at the least is in time
        burst = max(2.5, 0.6 * compute_room_for_bursts(lab)) * point.packet_time
        delay, until = 0.7 * srtt, since + max(0.1 * point.round, burst)
    trace = lab.run(until + delay + 8 * srtt + 0.5, make_packets_late(lab, delay, since, until))
    return CaseRun(trace, Setup(point, {"late segments": since}, {"delay": delay, "for": until - since}))


def _judge_spurious(trace: Trace, setup: Setup, checks: Checks, *, timeout: bool) -> None:
    since = setup.times["late segments"]
    before = trace.find_row(since)
    name, ca = ("timeout recovery", "loss") if timeout else ("fast recovery", "recovery")
    began = trace.find_time(lambda found: found.words["ca_state"] == ca, since)
    if not checks.expect(f"{name} begins", began is not None, f"no {name}", needs=("ca_state",)):
        return
    assert began is not None
    row = trace.find_row(began)
    undone = trace.find_time(lambda found: found["undone"] > found["undone"][before], began)
    if not checks.expect("it turns out to be spurious", undone is not None, "nothing was undone", needs=("undone",)):
        return
    assert undone is not None
    at = trace.find_row(undone)
    if "probe_rtt" in set(trace.state[row : at + 1].tolist()):
        raise NotApplicable("PROBE_RTT is due before it turns out to be spurious")
    state = str(trace.state[max(row - 1, 0)])
    wanted = {state, "probe_refill"} if state == "probe_up" else {state}
    # the state may have gone on by itself if it was not left because of the loss
    kept = str(trace.state[at]) in wanted or "probe_down" not in set(trace.state[row:at].tolist())
    checks.expect(f"back in {state}, or in PROBE_REFILL to probe again", kept, str(trace.state[at]))
    for column in ("bw_shortterm_mbit", "inflight_shortterm", "inflight_longterm"):
        old, new = float(trace[column][before]), float(trace[column][at])
        # unset is unbounded
        held = math.isnan(new) or (not math.isnan(old) and new >= old)
        checks.expect(
            f"{column.removesuffix('_mbit')} is restored",
            held,
            f"{format_bound(old)} → {format_bound(new)}",
            needs=(column,),
        )
    old, new = float(trace["cwnd"][max(row - 1, 0)]), float(np.max(trace["cwnd"][at : at + 3]))
    # the window of the state that it is in now may be smaller than that of PROBE_UP
    least = min(0.9 * old, 0.95 * float(trace["cwnd_gain"][at]) * compute_target(trace, at))
    checks.expect(
        "cwnd is restored",
        new >= least,
        f"{old:.0f} → {new:.0f}",
        needs=("cwnd",),
        unless=("cwnd_gain", "bw_mbit", "min_rtt_ms"),
    )


_V1_BOUNDS = {"bbr1": "BBRv1 has none of these bounds to save and restore"}
SPURIOUS = {
    "spurious-recovery": CaseProgram(
        partial(_run_spurious, timeout=False),
        partial(_judge_spurious, timeout=False),
        shown=check_recovery,
        without=_V1_BOUNDS,
    ),
    "spurious-timeout": CaseProgram(
        partial(_run_spurious, timeout=True),
        partial(_judge_spurious, timeout=True),
        shown=check_timeout,
        without=_V1_BOUNDS,
    ),
}
