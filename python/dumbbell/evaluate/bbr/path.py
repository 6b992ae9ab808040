"""Cases of PROBE_RTT, of paths that aggregate, change, police and reorder, and of loss that proves to be spurious."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import numpy as np

from dumbbell.evaluate.bbr.case import INFLIGHT_COLUMNS, LOSS_THRESH, MIN_PIPE_CWND, CaseProgram, Checks, format_bound
from dumbbell.evaluate.bbr.lab import CaseLab, CaseRun, NotApplicable, PathChange, Setup, to_nanoseconds
from dumbbell.evaluate.bbr.shown import check_probe_rtt, check_small_path, check_state, check_timeout
from dumbbell.evaluate.bbr.trace import PROBE_BW, Trace
from dumbbell.qlog.fields import FRAME, PAYLOAD

PROBE_RTT_INTERVAL, PROBE_RTT_DURATION, PROBE_RTT_GAIN = 5.0, 0.2, 0.5
_INTERVALS = {"bbr1": 10.0}  # of controls that wait longer: section of BBRv1, bbr_min_rtt_win_sec

# 10


def _probe_rtt(lab: CaseLab) -> CaseRun:
    since = lab.find_start_of_probing().start

    def is_done(trace: Trace) -> bool:
        found = trace.find_phase("probe_rtt", since)
        return found is not None and trace.is_over(found) and trace.time[-1] > found.end + 6 * lab.point.round

    interval = _INTERVALS.get(lab.cc["name"], PROBE_RTT_INTERVAL)
    first = since + interval + PROBE_RTT_DURATION + 0.2 + 14 * lab.point.round
    trace = lab.run_until(is_done, first, since + 14 + 16 * lab.point.round, lab.lengthen_path(since))
    return CaseRun(trace, Setup(lab.point, {"path gets longer": since}))


def _judge_probe_rtt(trace: Trace, setup: Setup, checks: Checks) -> None:
    since = setup.times["path gets longer"]
    found = checks.find_phase("probe_rtt", since)
    first, row = found.rows.start, found.rows.stop
    waited = found.start - since
    held = found.start >= PROBE_RTT_INTERVAL and waited <= PROBE_RTT_INTERVAL + 4 * setup.point.round
    said = f"{waited:.3g} s after the path got longer, at {found.start:.3g} s"
    checks.expect("5 s after the last new minimum", held, said, constant=True)
    checks.expect_constant("ProbeRTTCwndGain is 0.5", "cwnd_gain", first, PROBE_RTT_GAIN, 0.002)
    # the estimate of before: in PROBE_RTT itself it may already be that of the longer path
    most = max(PROBE_RTT_GAIN * float(np.max(trace["inflight_bdp"][max(first - 1, 0) : row])), MIN_PIPE_CWND)
    low = float(np.min(trace["in_flight"][found.rows]))
    what = "inflight falls to half of the BDP, or 4"
    checks.expect(what, low <= most + 1, f"{low:.0f}, {most:.0f}", needs=INFLIGHT_COLUMNS)
    reached = first + int(np.argmax(trace["in_flight"][found.rows] <= most + 1))
    lasted, passed = found.end - float(trace.time[reached]), trace.count_rounds(reached, row)
    checks.expect("for 200 ms", lasted >= 0.99 * PROBE_RTT_DURATION, f"{lasted * 1e3:.4g} ms", needs=INFLIGHT_COLUMNS)
    checks.expect("and a round", passed >= 1, f"{passed:.0f} rounds", needs=(*INFLIGHT_COLUMNS, "round"))
    after = checks.find_next_phase(found, PROBE_BW)
    checks.expect_flag("full_bw_reached", after.rows.start)
    start = found.end + 2 * setup.point.round
    end = min(start + 4 * setup.point.round, float(trace.time[-1]))
    checks.expect_goodput("it sends as before", start, end, 0.8, setup.point.goodput)


# 11


def _run_idle(lab: CaseLab) -> CaseRun:
    interval = _INTERVALS.get(lab.cc["name"], PROBE_RTT_INTERVAL)
    # what is in the send buffer leaves first: on short paths that is made for windows of hundreds of segments
    rest = interval + 1.0 + 9 * lab.point.round + lab.point.send_buffer + 600 * lab.point.packet_time
    starts = [one.start + 0.2 * lab.point.round for one in lab.run_bulk(more=True).find_phases(PROBE_BW)]
    for since in starts[:6]:
        resume = since + rest
        pause = PathChange(flow={"app_pause": to_nanoseconds(since), "app_resume": to_nanoseconds(resume)})
        trace = lab.run(resume + min(3.0, 60 * lab.point.round) + 4 * lab.point.round, pause)
        if trace.state[trace.find_row(resume - 1e-6)] != "probe_rtt":
            return CaseRun(trace, Setup(lab.point, {"pause": since, "resume": resume}))
    raise NotApplicable("PROBE_RTT is due before nothing is in flight")


def _judge_idle(trace: Trace, setup: Setup, checks: Checks) -> None:
    resume = setup.times["resume"]
    last = trace.find_row(resume - 1e-6)
    left = trace["in_flight"][last]
    checks.expect("nothing in flight when the application goes on", left == 0, f"{left:.0f}", needs=("in_flight",))
    idle = resume - float(trace.time[last])
    checks.expect("idle for 5 s", idle >= PROBE_RTT_INTERVAL, f"{idle:.3g} s")
    restarted = trace.find_time(lambda found: found["idle_restart"] == 1, resume - 1e-9)
    soon = restarted is not None and restarted <= resume + 0.5 * setup.point.round
    when = "never" if restarted is None else f"{restarted - resume:.3g} s after it"
    checks.expect("idle_restart is set with the first segment", soon, when, needs=("idle_restart",))
    # the next one is due 5 s later
    soon_after = (resume - 1e-6, resume + 0.9 * PROBE_RTT_INTERVAL)
    probes = [one for one in trace.phases if one.state == "probe_rtt" and soon_after[0] < one.start < soon_after[1]]
    checks.expect("no PROBE_RTT", not probes, f"{probes[0].start - resume:.3g} s after it" if probes else "none")
    after = {one.state for one in trace.phases if one.end > resume}
    checks.expect("still in PROBE_BW", after <= {*PROBE_BW, "probe_rtt"}, ", ".join(sorted(after)))


# 13


def _run_cruise_over_batches(lab: CaseLab) -> CaseRun:
    interval = lab.choose_batch_interval()
    first = 2 * lab.point.startup + 3.5 + 10 * interval
    trace = lab.run_until(lambda trace: trace.is_past("probe_cruise"), first, 3 * first, lab.batch_acks())
    return CaseRun(trace, Setup(lab.point, {}, {"batch": interval}))


def _judge_cruise_over_batches(trace: Trace, setup: Setup, checks: Checks) -> None:
    checks.require("PROBE_CRUISE of two rounds or more", "round")
    # after PROBE_RTT the path fills again
    before = {one.rows.stop for one in trace.phases if one.state == "probe_rtt"}
    found = [
        one
        for one in trace.find_phases("probe_cruise", cut=True)
        if trace.count_rounds(one.rows.start, one.rows.stop - 1) >= (5 if one.rows.start in before else 2)
    ]
    if not found and trace.find_phase("probe_rtt"):
        raise NotApplicable("PROBE_CRUISE lasts few of these rounds, and PROBE_RTT comes before each")
    checks.expect_or_end("PROBE_CRUISE of two rounds or more", bool(found), "none")
    cruise, point = found[0], setup.point
    rows = cruise.rows
    in_batch = setup.values["batch"] * point.rate / (8 * FRAME)
    extra = trace["extra_acked"][rows]
    least = float(np.min(extra))
    said = f"down to {least:.0f}, a batch has {in_batch:.0f}"
    checks.expect("extra_acked is that of a batch", 0.4 * in_batch <= least, said, needs=("extra_acked",))
    bounds = np.fmin(trace["inflight_shortterm"][rows], trace["inflight_longterm"][rows])
    model = trace["cwnd_gain"][rows] * trace["max_bw_mbit"][rows] * trace["min_rtt_ms"][rows] * 1e3 / 8 / PAYLOAD
    expected = np.fmin(model + 0.9 * extra, 0.84 * bounds)
    short = float(np.max(expected - trace["cwnd"][rows]))
    checks.expect(
        "cwnd holds it in addition to twice the BDP",
        short <= 4,
        f"{short:.0f} segments less" if not short <= 0 else "0 segments less",
        needs=("cwnd", "cwnd_gain", "max_bw_mbit", "min_rtt_ms", "extra_acked"),
        unless=("inflight_shortterm", "inflight_longterm"),
        constant=True,
    )
    filled = 2 * setup.values["batch"] + (
        2 * float(np.nan_to_num(trace["srtt_ms"][rows.start])) / 1e3 if rows.start in before else 0.0
    )
    start, unless = min(cruise.start + filled, cruise.end), ("srtt_ms",) if rows.start in before else ()
    checks.expect_goodput("the link stays full", start, cruise.end, 0.95, point.goodput, unless)


# 14


def _run_less_than_a_packet(lab: CaseLab) -> CaseRun:
    point = lab.point
    if point.bdp >= 1:
        raise NotApplicable(f"the BDP is {point.bdp:.3g} packets")
    first = point.startup + 80 * point.round
    return CaseRun(lab.run_until(lambda trace: trace.find_phase(PROBE_BW) is not None, first, 4 * first), Setup(point))


def _judge_less_than_a_packet(trace: Trace, setup: Setup, checks: Checks) -> None:
    found = checks.find_phase(PROBE_BW, ends=False)
    rows, point = slice(found.rows.start, len(trace)), setup.point
    least = float(np.min(trace["cwnd"][rows]))
    checks.expect("cwnd is 4 packets or more", least >= MIN_PIPE_CWND, f"{least:.0f}", needs=("cwnd",))
    steady = trace["pacing_gain"][rows] == 1
    paced = trace["pacing_rate_mbit"][rows][steady]
    if checks.expect("it cruises", len(paced) > 0, "it does not", needs=("pacing_gain",)):
        median = float(np.median(paced))
        held = -0.05 <= median / (0.99 * point.goodput) - 1 <= 0.05 + setup.point.late_acks
        said = f"{median:.4g}, 0.99 of the link's {point.goodput:.4g} Mbit/s"
        checks.expect("paced at the link's rate", held, said, needs=("pacing_rate_mbit",))
    what, end = "the link is full: delayed ACKs do not stall it", float(trace.time[-1])
    checks.expect_goodput(what, found.start, end, 0.95, point.goodput)


# 15


def _run_ten_times_more(lab: CaseLab) -> CaseRun:
    point, slow = lab.point, lab.find_tenth()
    if point.bdp < 10:
        raise NotApplicable(f"a window of 4 segments carries what the path holds, {point.bdp:.2g} segments")
    # STARTUP ends with loss, which sets inflight_longterm
    small = PathChange(buffer=max(slow.bdp, 10, lab.compute_room_for_bursts()))
    before = lab.run_until(
        lambda trace: trace.find_phase("probe_cruise") is not None, 2 * slow.startup, 8 * slow.startup, small, slow
    )
    cruise = before.find_phase(PROBE_BW)
    if cruise is None:
        raise NotApplicable("the flow does not reach PROBE_BW")
    change = small.merge(PathChange(rates=[(lab.to_link_time(cruise.start) + slow.round, point.rate)]))
    since = cruise.start + slow.round

    def is_done(trace: Trace) -> bool:
        return bool(trace["max_bw_mbit"][-1] >= 0.9 * point.goodput)

    first = since + lab.estimate_cycle() + 10 * slow.round
    trace = lab.run_until(is_done, first, since + 4 * lab.estimate_cycle() + 10 * slow.round, change, slow)
    return CaseRun(trace, Setup(point, {"rate rises": since}, {"rate before": float(slow.rate)}))


def _judge_ten_times_more(trace: Trace, setup: Setup, checks: Checks) -> None:
    since, point = setup.times["rate rises"], setup.point
    up = checks.find_phase("probe_up", since, ends=False)
    probes = trace.find_phases("probe_up", since)
    reached = trace.find_time(lambda found: found["max_bw_mbit"] >= 0.9 * point.goodput, since)
    last = trace.find_row(reached) + 1 if reached is not None else len(trace)
    steps = [
        _find_steps(trace, slice(one.rows.start, min(one.rows.stop, last))) for one in probes if one.rows.start < last
    ]
    longest = max(steps, key=len, default=[])
    bounds = ("inflight_longterm", "probe_up_step")
    # a round at whose start the window is not the limit keeps the step: it doubles in most rounds
    grows = all(after >= before for before, after in pairwise(longest))
    doubles = grows and longest[-1] >= longest[0] * 2 ** ((len(longest) - 1) / 2) if longest else False
    is_set = all(map(trace.has, bounds)) and np.isfinite(trace["inflight_longterm"][up.rows.start])
    if any(map(trace.is_without, bounds)) or (is_set and len(longest) > 1):
        found = f"steps {', '.join(f'{one:g}' for one in longest)}"
        checks.expect("the step of inflight_longterm doubles", doubles, found, needs=bounds)
    found = f"{np.fmax.reduce(trace['max_bw_mbit']):.4g} of {point.goodput:.4g} Mbit/s"
    reached = checks.require_value("90 % of the new rate is found", reached, found, needs=("max_bw_mbit",))
    spent = sum(
        trace.count_rounds(one.rows.start, min(one.rows.stop, trace.find_row(reached) + 1) - 1) + 1
        for one in probes
        if one.start <= reached
    )
    # at 25 % more in each round a factor of ten takes 11 rounds, of which each probe spends three without growth
    most = 4 * math.log2(max(point.bdp, 2)) + 8
    found = f"{spent:.0f} rounds, at most 4 log2(BDP) + 8 = {most:.0f}"
    checks.expect("in O(log BDP) rounds of PROBE_UP", spent <= most, found, needs=("round",))


def _find_steps(trace: Trace, rows: slice) -> list[float]:
    """Return the step at the end of each round of a probe in which the bound is raised."""
    steps: list[float] = []
    for number in dict.fromkeys(trace["round"][rows].tolist()):
        inside = rows.start + np.flatnonzero(trace["round"][rows] == number)
        if not len(inside):
            continue  # a round that is not known
        last = inside[0] + len(inside) - 1
        step, bound = float(trace["probe_up_step"][last]), trace["inflight_longterm"][inside]
        if np.isfinite(step) and step > 0 and bound[-1] > bound[0]:
            steps.append(step)
    return steps


# 16


def _run_a_tenth(lab: CaseLab) -> CaseRun:
    point, slow = lab.point, lab.find_tenth()
    if slow.bdp < 8:
        raise NotApplicable(
            f"at a tenth of the rate the path holds {slow.bdp:.2g} segments, little more than the minimum window"
        )
    # what is in flight overflows the buffer when the rate falls, and its queue is a round trip
    buffer = max(slow.bdp, 20, lab.compute_room_for_bursts())

    def is_done(trace: Trace) -> bool:
        return len(_find_whole_cycles(trace, since)) >= 2

    before = lab.run_bulk(PathChange(buffer=buffer), more=True)
    start = next((one for one in before.find_phases(("probe_cruise", "probe_down")) if one.seconds > 0), None)
    if start is None:
        raise NotApplicable("the flow does not reach PROBE_BW")
    since = start.start
    change = PathChange(rates=[(lab.to_link_time(since), slow.rate)], buffer=buffer)
    length = since + 3 * (3.0 + 30 * (point.rtt + buffer * slow.packet_time))
    trace = lab.run_until(is_done, length, 4 * length, change)
    return CaseRun(trace, Setup(point, {"rate falls": since}, {"rate after": float(slow.rate), "buffer": buffer}))


def _find_whole_cycles(trace: Trace, since: float) -> list[int]:
    """Return the rows at which a cycle of PROBE_BW, from one PROBE_UP to the next, ends without PROBE_RTT in it."""
    starts = [one.rows.start for one in trace.find_phases("probe_up", since, cut=True)]
    return [end for first, end in pairwise(starts) if not (trace.state[first:end] == "probe_rtt").any()]


def _judge_a_tenth(trace: Trace, setup: Setup, checks: Checks) -> None:
    since, point = setup.times["rate falls"], setup.point
    slow = point.set_rate(setup.values["rate after"])
    row = trace.find_row(since)
    if trace.is_without("bw_shortterm_mbit"):
        checks.expect("bw_shortterm falls fast", False, "", needs=("bw_shortterm_mbit",))
    elif trace.has("bw_shortterm_mbit"):
        old = float(trace["max_bw_mbit"][row])
        lost = trace.find_time(lambda found: found["lost"] > found["lost"][row], since)
        if checks.expect("loss when the rate falls", lost is not None, "none", needs=("lost",)):
            assert lost is not None
            fallen = trace.find_time(lambda found: found["bw_shortterm_mbit"] <= 0.5 * old, since)
            begin, end = trace.find_row(lost), trace.find_row(fallen if fallen is not None else float(trace.time[-1]))
            passed = trace.count_rounds(begin, end)
            # Beta = 0.7 a round: the second round of loss is below a half
            held, said = fallen is not None and passed <= 6, f"to a half {passed:.0f} rounds after the first loss"
            checks.expect("bw_shortterm falls fast", held, said, needs=("max_bw_mbit", "round"))
    cycles = _find_whole_cycles(trace, since)
    if len(cycles) < 2:
        last = float(trace["max_bw_mbit"][-1])
        raise NotApplicable(
            f"PROBE_RTT falls into all but {len(cycles)} of the cycles of PROBE_BW in {trace.time[-1] - since:.3g} s; "
            f"in the end max_bw is {last:.4g}, the link {slow.goodput:.4g} Mbit/s"
        )
    found, needs = trace["max_bw_mbit"][cycles[1] :], ("max_bw_mbit",)
    held, said = bool(found[0] <= 1.1 * slow.goodput), f"{found[0]:.4g}, link {slow.goodput:.4g} Mbit/s"
    checks.expect("max_bw is the new rate after two cycles", held, said, needs=needs)
    lowest = float(np.min(found))
    checks.expect("and not less", lowest >= 0.8 * slow.goodput, f"down to {lowest:.4g} Mbit/s", needs=needs)


# 17


def _run_policed(lab: CaseLab) -> CaseRun:
    point = lab.point
    token = point.set_rate(point.rate / 2)
    if token.bdp < 8:
        raise NotApplicable(
            f"at the token rate the path holds {token.bdp:.2g} segments, little more than the minimum window"
        )
    # less than the BDP, so that a window that fills the path uses the burst up
    bucket = round(max(0.5 * token.bdp, 10, lab.compute_room_for_bursts()) * FRAME)
    change = PathChange(path=[{"name": "policer", "rate": token.rate, "burst": bucket}])
    length = 2 * point.startup + max(3 * lab.estimate_cycle(), 120 * point.round)
    return CaseRun(
        lab.run(length, change), Setup(point, {}, {"token rate": float(token.rate), "bucket": float(bucket)})
    )


def _judge_policed(trace: Trace, setup: Setup, checks: Checks) -> None:
    token = setup.point.set_rate(setup.values["token rate"])
    start = checks.find_phase(PROBE_BW, ends=False)
    rows = slice(start.rows.start, len(trace))
    lost = trace["lost"][-1] - trace["lost"][start.rows.start]
    checks.expect("the policer drops in PROBE_BW", lost > 0, f"{lost:.0f} lost", needs=("lost",))
    bounds = ("bw_shortterm_mbit", "inflight_shortterm", "inflight_longterm")
    if any(map(trace.is_without, bounds)) or any(map(trace.has, bounds)):
        short = np.isfinite(trace["bw_shortterm_mbit"][rows]) | np.isfinite(trace["inflight_shortterm"][rows])
        checks.expect("bw_shortterm and inflight_shortterm react", bool(short.any()), "never set", needs=bounds)
    end = float(trace.time[-1])
    half = trace.find_row((start.start + end) / 2)
    checks.expect_goodput("it gets the token rate", float(trace.time[half]), end, 0.7, token.goodput)
    starts = half + np.flatnonzero(np.diff(trace["round"][half:]) > 0)
    shares = [trace.compute_loss_share(int(first), int(last)) for first, last in pairwise(starts)]
    share = float(np.median(shares)) if shares else math.nan
    what = "no continuous loss: at most LossThresh, 2 %, in most rounds"
    found = f"median {share:.1%}, in all {trace.compute_loss_share(half, len(trace) - 1):.1%}"
    checks.expect(what, share <= LOSS_THRESH, found, needs=("lost", "delivered", "round"))


# 18 and 19


def _run_spurious(lab: CaseLab, timeout: bool) -> CaseRun:
    point = lab.point
    if point.bdp < 8:
        raise NotApplicable(
            "fewer than 8 segments are in flight: no three overtake a late one, and nothing is probed for"
        )
    trace, up = lab.probe()
    since = up.start + 1.0 * point.round
    srtt = float(trace["srtt_ms"][trace.find_row(since)]) / 1e3
    if timeout:
        # all that is sent is late by more than the retransmission timeout, so that probes are late as well
        delay = 2.0 * (1.5 * srtt + 0.25)
        until = since + delay
    else:
        # one burst at the least is in time
        burst = max(2.5, 0.6 * lab.compute_room_for_bursts()) * point.packet_time
        delay, until = 0.7 * srtt, since + max(0.1 * point.round, burst)
    trace = lab.run(until + delay + 8 * srtt + 0.5, lab.make_packets_late(delay, since, until))
    return CaseRun(trace, Setup(point, {"late segments": since}, {"delay": delay, "for": until - since}))


def _judge_spurious(trace: Trace, setup: Setup, checks: Checks, *, timeout: bool) -> None:
    since = setup.times["late segments"]
    before = trace.find_row(since)
    name, ca = ("timeout recovery", "loss") if timeout else ("fast recovery", "recovery")
    found = trace.find_time(lambda found: found.words["ca_state"] == ca, since)
    began = checks.require_value(f"{name} begins", found, f"no {name}", needs=("ca_state",))
    row = trace.find_row(began)
    found = trace.find_time(lambda found: found["undone"] > found["undone"][before], began)
    undone = checks.require_value("it turns out to be spurious", found, "nothing was undone", needs=("undone",))
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
        said = f"{format_bound(old)} → {format_bound(new)}"
        checks.expect(f"{column.removesuffix('_mbit')} is restored", held, said, needs=(column,))
    old, new = float(trace["cwnd"][max(row - 1, 0)]), float(np.max(trace["cwnd"][at : at + 3]))
    # the window of the state that it is in now may be smaller than that of PROBE_UP
    least = min(0.9 * old, 0.95 * float(trace["cwnd_gain"][at]) * trace.compute_target(at))
    said, unless = f"{old:.0f} → {new:.0f}", ("cwnd_gain", "bw_mbit", "min_rtt_ms")
    checks.expect("cwnd is restored", new >= least, said, needs=("cwnd",), unless=unless)


PATH = {
    "probe-rtt": CaseProgram(_probe_rtt, _judge_probe_rtt, shown=partial(check_probe_rtt, time="path gets longer")),
    "idle": CaseProgram(_run_idle, _judge_idle),
    "cruise-aggregation": CaseProgram(
        _run_cruise_over_batches, _judge_cruise_over_batches, shown=partial(check_state, state="probe_cruise")
    ),
    "sub-packet": CaseProgram(_run_less_than_a_packet, _judge_less_than_a_packet, shown=check_small_path),
    "rate-up": CaseProgram(_run_ten_times_more, _judge_ten_times_more),
    "rate-down": CaseProgram(_run_a_tenth, _judge_a_tenth),
    "policer": CaseProgram(_run_policed, _judge_policed),
} | {
    key: CaseProgram(
        partial(_run_spurious, timeout=timeout),
        partial(_judge_spurious, timeout=timeout),
        shown=partial(check_timeout, timeout=timeout),
        without={"bbr1": "BBRv1 has none of these bounds to save and restore"},
    )
    for key, timeout in (("spurious-recovery", False), ("spurious-timeout", True))
}
