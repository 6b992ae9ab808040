"""Cases of PROBE_BW: what ends its phases, and what loss and the application do to them."""

from __future__ import annotations

from functools import partial

import numpy as np

from dumbbell.evaluate.bbr.case import INFLIGHT_COLUMNS, MIN_PIPE_CWND, CaseProgram, Checks, format_bound
from dumbbell.evaluate.bbr.lab import (
    APP_SHARE,
    PROBE_ROUNDS,
    PROBE_WAIT,
    CaseLab,
    CaseRun,
    NotApplicable,
    PathChange,
    Setup,
)
from dumbbell.evaluate.bbr.shown import LONG, check_bulk, check_limited, check_loss_in_probe_up, check_state_at
from dumbbell.evaluate.bbr.startup import FULL_BW, FULL_BW_ROUNDS, describe_slower_link
from dumbbell.evaluate.bbr.trace import Phase, Trace

DOWN_GAIN = 0.9
TARGET_COLUMNS = ("cwnd", "bw_mbit", "min_rtt_ms")  # of target()
BETA, HEADROOM = 0.7, 0.15


def _choose_loss(in_flight: float) -> float:
    """Return a share of loss well above LossThresh: with few segments in flight, such that some are lost in a round."""
    return min(0.5, max(0.08, 4 / max(in_flight, 1)))


# 5


def _run_one_probe(lab: CaseLab) -> CaseRun:
    return CaseRun(lab.probe()[0], Setup(lab.point))


def _judge_up_plateau(trace: Trace, _: Setup, checks: Checks) -> None:
    up = checks.find_phase("probe_up")
    first, row = up.rows.start, up.rows.stop
    checks.expect_no_loss(first, row)
    used, bdp = float(np.max(trace["in_flight"][up.rows])), float(trace["inflight_bdp"][first])
    found = f"{used:.0f} in flight, BDP {bdp:.0f}"
    checks.expect("it sends the BDP and more", used >= bdp, found, needs=INFLIGHT_COLUMNS)
    growth = float(trace["max_bw_mbit"][row] / trace["max_bw_mbit"][first])
    checks.expect("the delivery rate does not grow", growth < FULL_BW, f"by {growth:.3g}", needs=("max_bw_mbit",))
    what, passed = f"it ends after {FULL_BW_ROUNDS} rounds without growth", trace.count_rounds(first, row)
    checks.expect(what, passed >= FULL_BW_ROUNDS, f"after {passed:.0f}", needs=("round",))
    checks.expect_flag("full_bw_now", row)
    checks.find_next_phase(up, ("probe_down",))


def _run_one_down(lab: CaseLab) -> CaseRun:
    _, up = lab.probe()
    first, most = up.end + 2 * lab.point.round, up.end + 3 * lab.estimate_cycle()
    return CaseRun(lab.run_until(lambda trace: trace.is_past("probe_down", up.start), first, most), Setup(lab.point))


# 6 and 7


def _run_limited_probe(lab: CaseLab) -> tuple[PathChange, Trace, Phase]:
    """Return an application that is the limit from the first PROBE_BW on, and the first PROBE_UP that it limits."""
    since = lab.find_start_of_probing().start
    lab.require_inflight()
    change = lab.limit_application(since=since)

    def find_limited_phase(trace: Trace) -> Phase | None:
        probes = trace.find_phases("probe_up", since, cut=True)
        return next((one for one in probes if trace["app_limited"][one.rows.start] == 1), None)

    length = since + 2 * lab.estimate_cycle() + LONG * lab.point.round
    trace = lab.run_until(lambda trace: find_limited_phase(trace) is not None, length, 2 * length, change)
    found = find_limited_phase(trace)
    if found is None:
        raise NotApplicable(f"no application-limited PROBE_UP in {trace.time[-1]:.3g} s")
    return change, trace, found


def _run_lossy_probe(lab: CaseLab) -> CaseRun:
    change, _, up = _run_limited_probe(lab)
    since = up.start + 1.5 * lab.point.round
    share = _choose_loss(APP_SHARE * lab.point.bdp)
    trace = lab.run(since + 12 * lab.point.round + 0.5, change.merge(lab.lose_packets(share, since)))
    return CaseRun(trace, Setup(lab.point, {"PROBE_UP": up.start, "loss begins": since}, {"loss": share}))


def _judge_lossy_probe(trace: Trace, setup: Setup, checks: Checks) -> None:
    since = setup.times["loss begins"]
    checks.expect_limited(" when the loss begins", trace.select_rows(setup.times["PROBE_UP"], since), "the time before")
    row = trace.find_row(since)
    if trace.state[row] == "probe_rtt":
        raise NotApplicable("PROBE_RTT is due before the loss begins")
    checks.expect_or_end("PROBE_UP until the loss begins", trace.state[row] == "probe_up", str(trace.state[row]))
    up = next(one for one in trace.phases if one.rows.start <= row < one.rows.stop)
    ending = trace.find_next_phase(up)
    if ending is not None and ending.state == "probe_rtt":
        raise NotApplicable("PROBE_RTT is due before the loss is seen")
    checks.expect_or_end("PROBE_UP ends", trace.is_over(up), f"not in {trace.time[-1] - since:.4g} s of loss")
    end = checks.find_next_phase(up, ("probe_down",)).rows.start
    checks.expect_loss(end, row)
    passed = _count_rounds_of_loss(trace, row, since, end)
    checks.expect("within three rounds of the first loss", passed <= 3, f"after {passed:.0f}", needs=("lost", "round"))
    before, now = float(trace["inflight_longterm"][row]), float(trace["inflight_longterm"][end])
    least = BETA * trace.compute_target(row) - 1
    kept = np.isnan(now) if np.isnan(before) else abs(now - before) < 0.5
    found = f"{format_bound(before)} → {format_bound(now)}" + ("" if kept else f", at least {least:.0f}")
    what, needs = "inflight_longterm is kept, or at least Beta times the target", ("inflight_longterm",)
    checks.expect(what, kept or now >= least, found, needs=needs, unless=TARGET_COLUMNS)


def _count_rounds_of_loss(trace: Trace, row: int, since: float, end: int) -> float:
    """Return the rounds from the first loss after a row, at a time or later, to a row."""
    first = trace.find_time(lambda found: found["lost"] > found["lost"][row], since)
    return trace.count_rounds(trace.find_row(first if first is not None else since), end)


def _run_limited_startup(lab: CaseLab) -> CaseRun:
    lab.require_inflight()
    length = (LONG + 14) * lab.point.round
    return CaseRun(lab.run(length, lab.limit_application()), Setup(lab.point))


def _judge_limited_startup(trace: Trace, _: Setup, checks: Checks) -> None:
    checks.expect_no_loss(0)
    checks.expect_limited("", slice(0, len(trace)), "the time")
    passed = trace.count_rounds(0, len(trace) - 1)
    others = [one for one in trace.phases if one.state not in ("startup", "probe_rtt")]
    left = f"→ {others[0].state} at {others[0].start:.4g} s" if others else f"{passed:.0f} rounds"
    # whatever the rounds, it has left
    needs = () if others else ("round",)
    checks.expect(f"STARTUP for {LONG} rounds", passed >= LONG and not others, left, needs=needs)


def _run_limited_up(lab: CaseLab) -> CaseRun:
    change, _, up = _run_limited_probe(lab)
    length = up.start + (LONG + 6) * lab.point.round
    return CaseRun(lab.run(length, change), Setup(lab.point, {"PROBE_UP": up.start}))


def _judge_limited_up(trace: Trace, setup: Setup, checks: Checks) -> None:
    up = trace.find_phase("probe_up", setup.times["PROBE_UP"] - 1e-9, cut=True)
    if up is None:
        raise NotApplicable("the flow is not in PROBE_UP")
    checks.expect_no_loss(up.rows.start)
    checks.expect_limited("", up.rows, "the time")
    last = up.rows.stop - 1
    after = trace.find_next_phase(up)
    passed = trace.count_rounds(up.rows.start, last)
    if after is not None and after.state == "probe_rtt":
        checks.expect("PROBE_UP until PROBE_RTT is due", True, f"{up.seconds:.3g} s")
        return
    if after is not None:
        checks.expect(f"PROBE_UP for {LONG} rounds", False, f"{up.seconds:.3g} s, then {after.state}")
        return
    checks.expect(f"PROBE_UP for {LONG} rounds", passed >= LONG, f"{passed:.0f} rounds", needs=("round",))


# 8


def _compute_headroom(longterm: float) -> float:
    """BBRInflightWithHeadroom()."""
    return np.inf if np.isnan(longterm) else max(longterm - max(HEADROOM * longterm, 1), MIN_PIPE_CWND)


def _measure_excess(trace: Trace, rows: slice) -> float:
    """Return by how much inflight is above BBRInflight(1.0) and BBRInflightWithHeadroom() at the least."""
    headrooms = [_compute_headroom(one) for one in trace["inflight_longterm"][rows]]
    return float(np.min(trace["in_flight"][rows] - np.minimum(trace["inflight_bdp"][rows], headrooms)))


def _judge_down_inflight(trace: Trace, setup: Setup, checks: Checks) -> None:
    up = checks.find_phase("probe_up")
    down = checks.find_phase("probe_down", up.start)
    first, row = down.rows.start, down.rows.stop
    checks.expect_constant("ProbeDownPacingGain is 0.90", "pacing_gain", first, DOWN_GAIN, 0.002)
    after = trace.find_next_phase(down)
    if (
        after is not None
        and after.state == "probe_refill"
        and trace.count_rounds(first, row) >= min(PROBE_ROUNDS, trace.compute_target(first)) - 2
    ):
        raise NotApplicable("it is time for the next probe, in rounds, before inflight is down")
    # the next probe may be due by the count of rounds
    checks.find_next_phase(down, ("probe_cruise",), unless=("round", *TARGET_COLUMNS))
    headroom, room = _compute_headroom(float(trace["inflight_longterm"][row])), setup.point.compute_burst(trace, row)
    bdp = float(trace["inflight_bdp"][row])
    checks.expect_inflight("inflight <= BBRInflight(1.0)", row, bdp, room, INFLIGHT_COLUMNS)
    bounds = ("in_flight", "inflight_longterm")
    checks.expect_inflight("inflight <= BBRInflightWithHeadroom()", row, headroom, room, bounds)
    low = _measure_excess(trace, slice(first + 1, row)) if row > first + 1 else 0.0
    needs = (*INFLIGHT_COLUMNS, "inflight_longterm")
    checks.expect("and not before", low >= -room, f"down to {low:+.0f}, allowed {-room:.0f} for bursts", needs=needs)


# 9


def _run_late_down(lab: CaseLab) -> CaseRun:
    trace: Trace | None = None
    setup, after = Setup(lab.point), None
    for number in (1, 2, 3, 4):
        before, up = lab.probe(number=number)
        down = before.find_phase("probe_down", up.start)
        if down is None:
            continue
        since = down.start - 1e-9
        length = down.start + lab.estimate_cycle()
        for decrease in (0.1, 0.2):
            change = PathChange(rates=[(lab.to_link_time(down.start), (1 - decrease) * lab.point.rate)])
            trace = lab.run_until(partial(Trace.is_past, state="probe_down", after=since), length, 3 * length, change)
            setup = Setup(lab.point, {"rate falls": down.start}, {"decrease": decrease})
            found = trace.find_phase("probe_down", since, cut=True)
            after = trace.find_next_phase(found) if found else None
            if after is None or after.state not in ("probe_rtt", "probe_cruise"):
                return CaseRun(trace, setup)
        if trace is not None and after is not None and after.state != "probe_rtt":
            return CaseRun(trace, setup)
    if trace is None:
        raise NotApplicable("the flow does not enter PROBE_DOWN")
    raise NotApplicable("PROBE_RTT is due before the next probe in each of the first four cycles")


def _judge_late_down(trace: Trace, setup: Setup, checks: Checks) -> None:
    down = checks.find_phase("probe_down", setup.times["rate falls"] - 1e-9)
    what = "whether inflight falls below the bounds before it is time to probe"
    checks.require(what, *INFLIGHT_COLUMNS, "inflight_longterm")
    first, row = down.rows.start, down.rows.stop
    after = trace.find_next_phase(down)
    low = _measure_excess(trace, down.rows)
    passed = trace.count_rounds(first, row)
    if after is not None and after.state == "probe_cruise" and low <= setup.point.compute_burst(trace, row):
        raise NotApplicable(
            f"inflight does not stay above BBRInflight(1.0) until it is time to probe{describe_slower_link(setup)}: "
            f"PROBE_DOWN paces at 0.9 times 0.99, and the queue of "
            f"PROBE_UP is gone after {passed:.0f} rounds, {down.seconds:.3g} s"
        )
    checks.find_next_phase(down, ("probe_refill",))
    due = min(PROBE_ROUNDS, float(trace["inflight_bdp"][first]), float(trace["cwnd"][first])) - 2
    waited = down.seconds >= PROBE_WAIT[0] or passed >= due
    counted = "" if trace.is_without("round") else f", {passed:.0f} rounds"
    found = f"after {down.seconds:.3g} s{counted}"
    checks.expect("not before bw_probe_wait, 2 to 3 s, or the rounds for Reno", waited, found, unless=("round", "cwnd"))
    most = PROBE_WAIT[1] + 2.1 * setup.point.round + 3 * float(np.nan_to_num(trace["srtt_ms"][row])) / 1e3
    checks.expect("and then at once", down.seconds <= most, found, unless=("srtt_ms",))


# 21


def _run_loss_below_bound(lab: CaseLab) -> CaseRun:
    point = lab.point
    if point.bdp < 4:
        raise NotApplicable("inflight_longterm has no room below a window of 4 segments")
    _, up = lab.probe()
    share = _choose_loss(point.bdp)
    begins = up.start + 1.2 * point.round
    first = lab.lose_packets(share, begins, begins + point.round)
    trace, _ = lab.probe(first, up.start - 1e-9, 4)
    # a probe after one that caused loss may end as soon as it fills the bound, before any loss can be seen
    known = [
        one
        for one in trace.find_phases("probe_up", up.start + 1e-9)
        if np.isfinite(trace["inflight_longterm"][one.rows.start])
        and trace.count_rounds(one.rows.start, one.rows.stop - 1) >= 2
    ]
    if not known:
        raise NotApplicable("no PROBE_UP of two rounds or more after one with loss, which sets inflight_longterm")
    second = known[0]
    since = second.start + 0.3 * point.round
    change = first.merge(lab.lose_packets(share, since, since + 2 * point.round))
    trace = lab.run(since + 20 * point.round + 0.5, change)
    times = {"first loss": begins, "PROBE_UP": second.start, "second loss": since}
    return CaseRun(trace, Setup(point, times, {"loss": share}))


def _judge_loss_below_bound(trace: Trace, setup: Setup, checks: Checks) -> None:
    up = checks.find_phase("probe_up", setup.times["PROBE_UP"] - 1e-9)
    first, row = up.rows.start, up.rows.stop
    before, needs = float(trace["inflight_longterm"][first]), ("inflight_longterm",)
    checks.expect("inflight_longterm is set before", np.isfinite(before), format_bound(before), needs=needs)
    full = trace["full_bw_now"][row - 1]
    # BBRv2 keeps that of STARTUP
    grows = full != 1 or trace["full_bw_now"][first] == 1
    checks.expect("no plateau before the loss", grows, f"full_bw_now {full:g}", needs=("full_bw_now",))
    after = checks.find_next_phase(up, ("probe_down",))
    checks.expect_loss(row, first)
    passed = _count_rounds_of_loss(trace, first, up.start, row)
    checks.expect("at once", passed <= 2, f"{passed:.0f} rounds after the first loss", needs=("lost", "round"))
    highest = float(np.fmax.reduce(trace["inflight_longterm"][up.rows]))
    now = float(trace["inflight_longterm"][after.rows.start])
    least = BETA * trace.compute_target(row - 1) - 1
    room = setup.point.compute_burst(trace, row)
    found = f"{format_bound(highest)} → {format_bound(now)}, allowed {room:.0f} more for bursts"
    checks.expect("inflight_longterm is not raised by it", now <= highest + room, found, needs=needs)
    found = f"{format_bound(now)}, at least {least:.0f}"
    checks.expect("and is at least Beta times the target", now >= least, found, needs=(*needs, *TARGET_COLUMNS))


# 22


def _run_idle_refill(lab: CaseLab) -> CaseRun:
    point = lab.point
    lab.require_inflight()
    trace, up = lab.probe()
    refill = next((one for one in reversed(trace.find_phases("probe_refill")) if one.start < up.start), None)
    if refill is None:
        raise NotApplicable("the flow does not enter PROBE_REFILL")
    # what the send buffer holds leaves first: the application begins to be the limit before the phase
    share = 0.3
    for ahead in (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 40.0):
        since = max(refill.start - ahead * point.round, 0.0)
        trace = lab.run(up.start + 14 * point.round + 0.5, lab.limit_application(share, since))
        found = trace.find_phase("probe_refill", since)
        if found and trace.is_over(found) and float(np.mean(trace["app_limited"][found.rows])) > 0.9:
            break
    else:
        raise NotApplicable(
            "the application is not the limit throughout any PROBE_REFILL: what its send buffer holds leaves first"
        )
    return CaseRun(trace, Setup(point, {"application limits": since}, {"share": share}))


def _judge_idle_refill(trace: Trace, setup: Setup, checks: Checks) -> None:
    refill = checks.find_phase("probe_refill", setup.times["application limits"])
    first, row = refill.rows.start, refill.rows.stop
    checks.expect_limited(" during PROBE_REFILL", refill.rows, "it", least=0.9)
    before, now = float(trace["max_bw_mbit"][first]), float(trace["max_bw_mbit"][row])
    known = ("max_bw_mbit",)
    checks.expect("max_bw is not lowered", now >= 0.999 * before, f"{before:.4g} → {now:.4g} Mbit/s", needs=known)
    after = checks.find_next_phase(refill, ("probe_up",))
    passed = trace.count_rounds(first, row)
    checks.expect("after one round", passed <= 2, f"after {passed:.0f}", needs=("round",))
    held = float(np.min(trace["max_bw_mbit"][after.rows]))
    checks.expect("max_bw is kept while it probes", held >= 0.999 * before, f"{held:.4g} Mbit/s", needs=known)


_probing_case = partial(
    CaseProgram, without={"bbr1": "BBRv1 has a fixed cycle of gains, without REFILL, bounds and rules that end a probe"}
)
PROBING = {
    "up-plateau": _probing_case(_run_one_probe, _judge_up_plateau, shown=partial(check_bulk, state="probe_up")),
    "up-loss": _probing_case(_run_lossy_probe, _judge_lossy_probe),
    "limited-startup": CaseProgram(
        _run_limited_startup, _judge_limited_startup, shown=partial(check_limited, state="startup", rounds=LONG)
    ),
    "limited-up": _probing_case(
        _run_limited_up, _judge_limited_up, shown=partial(check_limited, state="probe_up", rounds=LONG)
    ),
    "down-inflight": _probing_case(_run_one_down, _judge_down_inflight, shown=partial(check_bulk, state="probe_down")),
    "down-time": _probing_case(
        _run_late_down, _judge_late_down, shown=partial(check_state_at, time="rate falls", state="probe_down")
    ),
    "up-loss-bound": _probing_case(_run_loss_below_bound, _judge_loss_below_bound, shown=check_loss_in_probe_up),
    "refill-limited": _probing_case(_run_idle_refill, _judge_idle_refill),
}
