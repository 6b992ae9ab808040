"""Cases of STARTUP and DRAIN."""

from __future__ import annotations

from functools import partial

import numpy as np

from dumbbell.evaluate.bbr.case import INFLIGHT_COLUMNS, CaseProgram, Checks
from dumbbell.evaluate.bbr.lab import APP_SHARE, CaseLab, CaseRun, NotApplicable, PathChange, Setup
from dumbbell.evaluate.bbr.shown import check_bulk, check_limited, check_state_at
from dumbbell.evaluate.bbr.trace import PROBE_BW, Trace
from dumbbell.qlog.fields import FRAME

FULL_BW = 1.25  # growth in a round below which the pipe may be full, and the rounds of it (section Startup)
FULL_BW_ROUNDS = 3
LOST_RANGES = 6  # separate holes in a round that STARTUP takes for congestion: BBR.StartupFullLossCnt
DRAIN_GAIN = 0.5
_MARGIN = 0.99  # of the estimated bandwidth, that is paced: BBR.PacingMarginPercent


def find_start_of_limit(trace: Trace, seconds: float) -> float | None:
    """Return from when on the application has been the limit for so long."""
    busy = trace.time[trace["app_limited"] == 0]
    ends = [*busy.tolist(), float(trace.time[-1])]
    for before, after in zip([0.0, *ends], ends, strict=False):
        if after - before >= 2 * seconds and trace["delivered"][trace.find_row(before)] > 1:
            return float(before) + seconds
    return None


# 1


def _run_plateau(lab: CaseLab) -> CaseRun:
    return CaseRun(lab.run_bulk(), Setup(lab.point))


def _judge_plateau(trace: Trace, setup: Setup, checks: Checks) -> None:
    startup = checks.find_phase("startup")
    drain = checks.find_next_phase(startup, ("drain",))
    row = drain.rows.start
    bandwidth, expected = trace["max_bw_mbit"][row], setup.point.goodput
    held = -0.02 <= bandwidth / expected - 1 <= 0.02 + setup.point.late_acks
    found = f"{bandwidth:.4g} of {expected:.4g} Mbit/s"
    checks.expect("max_bw within 2 % of the link", held, found, needs=("max_bw_mbit",))
    checks.expect_full_pipe(row)
    needs = ("max_bw_mbit", "round")
    # the first of these rounds begins right after the last growth, which Linux looks for at every ACK
    before = trace.find_round_before(row, FULL_BW_ROUNDS - 1)
    growth = bandwidth / max(trace["max_bw_mbit"][before], 1e-12)
    what = f"less than 25 % growth at {FULL_BW_ROUNDS} starts of rounds"
    checks.expect(what, growth < FULL_BW, f"by {growth:.3g} since the first", needs=needs)
    passed = trace.count_rounds(int(np.argmax(trace["max_bw_mbit"] > bandwidth / FULL_BW)), row)
    found = f"{passed:.0f} rounds after the last growth of 25 %"
    checks.expect(f"not before {FULL_BW_ROUNDS} such rounds", passed >= FULL_BW_ROUNDS, found, needs=needs)


# 2


def _run_lossy_startup(lab: CaseLab) -> CaseRun:
    point = lab.point
    in_round = APP_SHARE * point.bdp
    if in_round < 40:
        raise NotApplicable(
            f"{in_round:.2g} segments of the application in a round: too few for {LOST_RANGES} separate holes in each"
        )
    length = 2 * point.startup + point.send_buffer
    since = find_start_of_limit(lab.run(length, lab.limit_application()), point.round)
    if since is None:
        raise NotApplicable(f"the application is not the limit in {length:.3g} s")
    share = min(0.3, max(0.05, 4 * LOST_RANGES / in_round))
    change = lab.limit_application().merge(lab.lose_packets(share, since))
    trace = lab.run_until(
        lambda trace: trace.find_phase("drain") is not None, since + 12 * point.round, since + 24 * point.round, change
    )
    return CaseRun(trace, Setup(point, {"loss begins": since}, {"loss": share}))


def _judge_lossy_startup(trace: Trace, setup: Setup, checks: Checks) -> None:
    since = setup.times["loss begins"]
    startup = checks.find_phase("startup", ends=False)
    found = f"until {startup.end:.4g} s, loss from {since:.4g} s"
    checks.expect("STARTUP until the loss begins", startup.end >= since, found)
    checks.expect_or_end("STARTUP ends", trace.is_over(startup), f"not in {trace.time[-1] - since:.4g} s of loss")
    before = trace.select_rows(since - setup.point.round, since)
    checks.expect_limited(" when the loss begins", before, "the round before")
    checks.expect_loss(startup.rows.stop, trace.find_row(since))
    checks.find_next_phase(startup, ("drain",))
    checks.expect_full_pipe(startup.rows.stop)


# 3


def _judge_drain(trace: Trace, setup: Setup, checks: Checks) -> None:
    _require_drain(trace)
    drain = checks.find_phase("drain")
    first, last = drain.rows.start, drain.rows.stop - 1
    checks.expect_constant("DrainPacingGain is 0.5", "pacing_gain", first, DRAIN_GAIN, 0.002)
    paced, expected = trace["pacing_rate_mbit"][last], trace["pacing_gain"][last] * trace["bw_mbit"][last] * _MARGIN
    found = f"{paced:.4g} Mbit/s, gain times bandwidth is {expected:.4g}"
    needs = ("pacing_rate_mbit", "pacing_gain", "bw_mbit")
    checks.expect("paced at that gain", abs(paced / expected - 1) < 0.02, found, needs=needs)
    row = checks.find_next_phase(drain, PROBE_BW).rows.start
    room = setup.point.compute_burst(trace, row)
    in_flight, target = trace["in_flight"], trace["inflight_bdp"]
    least = max(target[row], target[row - 1])
    checks.expect_inflight("it ends at inflight <= BBRInflight(1.0)", row, least, room, INFLIGHT_COLUMNS)
    inside = slice(first + 1, last + 1)
    low = float(np.min(in_flight[inside] - target[inside])) if last > first else 0.0
    found = f"down to {low:+.0f}, allowed {-room:.0f} for bursts"
    checks.expect("and not before", low >= -room, found, needs=INFLIGHT_COLUMNS)


def _require_drain(trace: Trace) -> None:
    """Refuse a trace in which STARTUP is followed by PROBE_BW."""
    if trace.find_phase("drain", cut=True) is not None:
        return
    startup = [one for one in trace.phases if one.state == "startup" and trace.is_over(one)]
    after = trace.find_next_phase(startup[-1]) if startup else None
    if after is not None and after.state == "probe_rtt":
        raise NotApplicable("PROBE_RTT takes the place of DRAIN")
    if after is not None and after.state in PROBE_BW:
        row = after.rows.start
        raise NotApplicable(
            f"DRAIN ends with the ACK that begins it: {trace['in_flight'][row]:.0f} in flight, BBRInflight(1.0) was "
            f"{trace['inflight_bdp'][row - 1]:.0f} with its allowance for bursts"
        )


# 4


def _run_late_drain(lab: CaseLab) -> CaseRun:
    if lab.point.bdp < 8:
        raise NotApplicable(
            f"the path holds {lab.point.bdp:.2g} segments, little more than the minimum window, "
            "which BBRInflight(1.0) equals here"
        )
    drain = lab.run_bulk().find_phase("drain", cut=True)
    if drain is None:
        raise NotApplicable("the flow does not reach DRAIN")
    at = lab.to_link_time(drain.start)
    length = drain.start + 30 * max(lab.point.round, drain.seconds)
    decrease, trace = 0.1, lab.run_bulk()
    for decrease in (0.1, 0.6):
        change = PathChange(rates=[(at, lab.point.rate * (1 - decrease))])
        trace = lab.run_until(lambda trace: trace.find_phase(PROBE_BW) is not None, length, 2 * length, change)
        if _has_late_drain(trace):
            break
    return CaseRun(trace, Setup(lab.point, {"rate falls": drain.start}, {"decrease": decrease}))


def _has_late_drain(trace: Trace) -> bool:
    """Whether inflight stayed above BBRInflight(1.0) for three rounds of DRAIN."""
    drain = trace.find_phase("drain")
    if drain is None or not trace.is_over(drain):
        return drain is not None
    return trace.count_rounds(drain.rows.start, drain.rows.stop) >= FULL_BW_ROUNDS


def _judge_late_drain(trace: Trace, setup: Setup, checks: Checks) -> None:
    cut = trace.find_phase("drain", cut=True)
    after = trace.find_next_phase(cut) if cut is not None else None
    if cut is not None and after is not None and after.state == "probe_rtt":
        passed = trace.count_rounds(cut.rows.start, cut.rows.stop)
        found = f"after {passed:.0f}, with PROBE_RTT"
        if checks.expect("DRAIN ends after 3 rounds", passed <= 4, found, needs=("round",)):
            raise NotApplicable(f"PROBE_RTT is due after {passed:.0f} rounds of DRAIN")
        return
    drain = checks.find_phase("drain")
    row = checks.find_next_phase(drain, PROBE_BW).rows.start
    passed = trace.count_rounds(drain.rows.start, row)
    in_flight, target = trace["in_flight"][row], trace["inflight_bdp"][row]
    room = setup.point.compute_burst(trace, row)
    what = f"inflight is still above BBRInflight(1.0){describe_slower_link(setup)}"
    found = (
        f"{in_flight:.0f} when it ends, expected above {target + room:.0f} ({target:.0f}, and {room:.0f} for bursts)"
    )
    checks.expect(what, in_flight > target + room, found, needs=INFLIGHT_COLUMNS)
    checks.expect("DRAIN ends after 3 rounds", 3 <= passed <= 4, f"after {passed:.0f}", needs=("round",))


def describe_slower_link(setup: Setup) -> str:
    """Return by how much a link got slower, in words; nothing if the judge was not told."""
    return f", at {setup.values['decrease']:.0%} less" if "decrease" in setup.values else ""


# 12


def _run_startup_over_batches(lab: CaseLab) -> CaseRun:
    interval = lab.choose_batch_interval()
    first = 2 * lab.point.startup + 20 * interval
    trace = lab.run_until(lambda trace: trace.find_phase("drain") is not None, first, 3 * first, lab.batch_acks())
    return CaseRun(trace, Setup(lab.point, {}, {"batch": interval}))


def _judge_startup_over_batches(trace: Trace, setup: Setup, checks: Checks) -> None:
    startup = checks.find_phase("startup")
    row = checks.find_next_phase(startup, ("drain",)).rows.start
    point = setup.point
    in_batch = setup.values["batch"] * point.rate / (8 * FRAME)
    extra = float(np.max(trace["extra_acked"][startup.rows]))
    held, found = 0.5 * in_batch <= extra <= 2.5 * in_batch, f"{extra:.0f}, a batch has {in_batch:.0f}"
    checks.expect("extra_acked is that of a batch", held, found, needs=("extra_acked",))
    cwnd = float(np.max(trace["cwnd"][startup.rows]))
    checks.expect("cwnd > 2 BDP", cwnd > 2 * point.bdp, f"{cwnd:.0f}, BDP {point.bdp:.0f}", needs=("cwnd",))
    bandwidth, needs = trace["max_bw_mbit"][row - 1], ("max_bw_mbit",)
    found = f"{bandwidth:.4g} of {point.goodput:.4g} Mbit/s"
    checks.expect("max_bw finds the link's rate", bandwidth >= 0.95 * point.goodput, found, needs=needs)
    # a sample is over an ACK interval that begins and ends with a batch: it may hold a batch more than the link sends
    # in its time
    most = (1 + in_batch / max(point.bdp + in_batch, 1)) * point.goodput
    found = f"{bandwidth:.4g}, at most {most:.4g} Mbit/s"
    checks.expect("and not more than the batches explain", bandwidth <= most, found, needs=needs)


# 20


def _run_slow_startup(lab: CaseLab) -> CaseRun:
    point = lab.point
    if APP_SHARE * point.bdp < 3:
        raise NotApplicable(
            "nothing is in flight between two segments of a slow application: idleness restarts the interval each time"
        )
    change = lab.limit_application().merge(lab.lengthen_path(3 * point.round))
    needed = 5.5 + 8 * point.round

    trace = lab.run_until(lambda trace: trace.is_past("probe_rtt"), needed, 13 + 12 * point.round, change)
    return CaseRun(trace, Setup(point, {"path gets longer": 3 * point.round}))


def _judge_slow_startup(trace: Trace, _: Setup, checks: Checks) -> None:
    probe = checks.find_phase("probe_rtt")
    before = [one.state for one in trace.phases if one.start < probe.start]
    checks.expect("only STARTUP before", set(before) == {"startup"}, ", ".join(dict.fromkeys(before)))
    checks.expect_flag("full_bw_reached", probe.rows.start, 0)
    checks.find_next_phase(probe, ("startup",))


_V1 = {"bbr1": "BBRv1 does not look at loss in STARTUP"}
STARTUP = {
    "startup-plateau": CaseProgram(_run_plateau, _judge_plateau, shown=partial(check_bulk, state="startup")),
    "startup-loss": CaseProgram(_run_lossy_startup, _judge_lossy_startup, without=_V1),
    "drain-inflight": CaseProgram(_run_plateau, _judge_drain, shown=partial(check_bulk, state="drain")),
    "drain-time": CaseProgram(
        _run_late_drain, _judge_late_drain, shown=partial(check_state_at, time="rate falls", state="drain")
    ),
    "startup-aggregation": CaseProgram(_run_startup_over_batches, _judge_startup_over_batches),
    "startup-probe-rtt": CaseProgram(
        _run_slow_startup, _judge_slow_startup, shown=partial(check_limited, state="startup")
    ),
}
