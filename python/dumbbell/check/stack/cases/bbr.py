"""Test cases of the BBR draft, as far as the wire shows them: for a control whose name begins with bbr.

Nothing of the control's state is known, but what leaves the link and what waits in its queue. `dumbbell check bbr
--trace` judges all cases, by a log of the stack.
"""

from __future__ import annotations

import numpy as np

from dumbbell.check.stack.outcomes import StackRun
from dumbbell.check.stack.scenes import make_scene
from dumbbell.check.stack.stack_case import Judge, Limits, Scene, SceneOutcomes, StackCase
from dumbbell.evaluate.bbr.lab import FRAME, PathPoint

FULL = 0.9  # of the link's rate: the pipe is full
DRAINED = 0.5  # BDP that may be left in the queue: BBR.drain_pacing_gain empties it, the cruise refills it a little
DIP, DIP_S = 0.75, 0.2  # of the rate, for BBR.ProbeRTTDuration; BBR.ProbeRTTCwndGain is 0.5
EMPTY = 1.0  # ms
PROBE_RTT_S = 20.0  # BBR.ProbeRTTInterval is 5 s, BBRv1's window of min_rtt 10 s, and a cycle of PROBE_BW
CYCLE_S = 3.0  # the longest that PROBE_BW cruises, section Time Scale for Bandwidth Probing
SLOWER_CYCLES = 3  # BBR.MaxBwFilterLen is two cycles, and the first may have just begun
PACKETS = 10
LEAST_LOSSY = 0.7  # of the rate at 1 % of loss, half of BBR.LossThresh; the draft's control has 80 %
MOST_POLICED = 0.15  # share of packets that may be lost at a policer
_RATE, _RTT = 20.0, 0.04


def _find_first(run: StackRun, after: float, held: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float:
    """Return when something held for the first time after a time, as seconds after it; infinity if it never did."""
    found = np.flatnonzero(held & (run.link.times > after + 1e-9))
    return float(run.link.times[found[0]]) - after if len(found) else float("inf")


def _require_within(limits: Limits, what: str, seconds: float, most: float, since: str = "") -> None:
    found = f"{seconds:.3g} s" if np.isfinite(seconds) else "never"
    limits.require(f"{what} within {most:.3g} s{since}", seconds <= most, f"{found} until then")


def judge_startup(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge how soon the link is full, and how soon the queue is empty again."""
    scene = seen.scene
    most = PathPoint(round(scene.rate * 1e6), scene.rtt).startup
    full = max(_find_first(one, one.flows[0].start, one.link.rates >= FULL * scene.rate) for one in seen.subject.runs)
    _require_within(limits, f"{FULL:.0%} of the rate", full, most)
    if not np.isfinite(full):
        return
    least = DRAINED * scene.rtt * 1e3
    drained = max(_find_first(one, one.flows[0].start + full, one.link.sojourns <= least) for one in seen.subject.runs)
    _require_within(limits, f"a queue of at most {DRAINED:g} BDP", drained, most, " after that")


def judge_dip(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge whether the flow gives way for long enough that the path's RTT is seen."""
    assert seen.scene.changed is not None
    after = seen.scene.changed + 1.0
    shares, queues = [], []
    for run in seen.subject.runs:
        late = run.link.times > after
        rates, sojourns = run.link.rates[late], run.link.sojourns[late]
        width = max(round(DIP_S / float(run.link.times[1] - run.link.times[0])), 1)
        means = np.convolve(rates, np.full(width, 1 / width), "valid")
        shares.append(float(means.min()) / seen.scene.rate if len(means) else 1.0)
        queues.append(float(np.nanmin(sojourns)) if np.isfinite(sojourns).any() else float("inf"))
    limits.require(
        f"at most {DIP:.0%} of the rate for {DIP_S:g} s, once in {PROBE_RTT_S:g} s",
        max(shares) <= DIP,
        f"at least {max(shares):.0%} of the rate in any {DIP_S:g} s",
    )
    limits.require(
        "an empty queue at some time then", max(queues) <= EMPTY, f"at least {max(queues):.3g} ms in the queue"
    )


def judge_faster_link(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge how soon a higher rate is used."""
    scene = seen.scene
    assert scene.changed is not None and scene.rate_after is not None
    after = scene.rate_after
    # one round more in PROBE_UP for each doubling, in each of which the draft's volume of probing doubles, and cycles
    most = CYCLE_S * (1 + np.log2(after / scene.rate))
    found = max(_find_first(one, scene.changed, one.link.rates >= FULL * after) for one in seen.subject.runs)
    _require_within(limits, f"{FULL:.0%} of the new rate", found, most)


def judge_slower_link(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge how soon the queue is short again after the rate fell."""
    scene = seen.scene
    assert scene.changed is not None and scene.rate_after is not None
    most = SLOWER_CYCLES * CYCLE_S
    # besides 1.5 RTTs some packets, which are much at a low rate: the least window, and delayed ACKs
    least = 1e3 * (scene.rtt * 1.5 + PACKETS * 8 * FRAME / (1e6 * scene.rate_after))
    found = max(_find_first(one, scene.changed + 0.5, one.link.sojourns <= least) + 0.5 for one in seen.subject.runs)
    _require_within(limits, f"at most {least:.3g} ms in the queue", found, most)


def judge_lossy_link(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge whether random loss below the control's threshold is tolerated."""
    share = seen.subject.compute_mean(0, lambda one: one.goodput) / seen.scene.rate
    limits.require(f"goodput at least {LEAST_LOSSY:.0%} of the rate", share >= LEAST_LOSSY, f"{share:.0%} of the rate")


def judge_policer(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge the loss at a policer."""
    share = seen.subject.compute_mean(0, lambda one: one.lost_share)
    limits.require(f"at most {MOST_POLICED:.0%} of the packets lost", share <= MOST_POLICED, f"{share:.1%} lost")


def _make_case(key: str, question: str, number: str, limit: str, judge: Judge, *scenes: Scene) -> StackCase:
    source = f"draft-ietf-ccwg-bbr, BBR Example Test Cases, {number}"
    return StackCase(key, "bbr", question, source, limit, judge, scenes, only="bbr", tcp=False)


_LONGER = [{"name": "reorder", "probability": 1.0, "delay": "1ms", "from": "2s"}]
_LOSS = {"name": "loss", "probability": 0.01}
_POLICER = {"name": "policer", "rate": "10Mbit", "burst": "50kB"}
CASES = (
    _make_case(
        "bbr-startup",
        "Does STARTUP fill the pipe, and DRAIN empty the queue?",
        "cases 1 and 3",
        f"{FULL:.0%} of the rate in the rounds that STARTUP takes, {DRAINED:g} BDP in the queue as many later",
        judge_startup,
        *(
            make_scene(f"{rate:g}Mbit {rtt * 1e3:g}ms", rate, rtt, 6.0, buffer=4.0, interval=0.02)
            for rate, rtt in ((20.0, 0.04), (100.0, 0.02))
        ),
    ),
    _make_case(
        "bbr-probe-rtt",
        "Does it give way in PROBE_RTT?",
        "case 10",
        f"at most {DIP:.0%} of the rate for {DIP_S:g} s within {PROBE_RTT_S:g} s, and an empty queue",
        judge_dip,
        make_scene(
            "20Mbit 40ms",
            _RATE,
            _RTT,
            3.0 + PROBE_RTT_S,
            buffer=4.0,
            interval=0.02,
            flow={"path": _LONGER},
            changed=2.0,
        ),
    ),
    _make_case(
        "bbr-faster",
        "Is a higher rate found?",
        "case 15",
        f"{FULL:.0%} of the new rate within {CYCLE_S:g} s, and as many for each doubling",
        judge_faster_link,
        make_scene("x2", 10.0, _RTT, 14.0, buffer=2.0, rates=[(6.0, 20.0)], changed=6.0, rate_after=20.0),
        make_scene("x10", 2.0, _RTT, 20.0, buffer=2.0, rates=[(6.0, 20.0)], changed=6.0, rate_after=20.0),
    ),
    _make_case(
        "bbr-slower",
        "Is the queue short again after the rate fell?",
        "case 16",
        f"at most 1.5 RTTs and {PACKETS} packets in the queue within {SLOWER_CYCLES * CYCLE_S:g} s",
        judge_slower_link,
        make_scene("/2", 20.0, _RTT, 17.0, buffer=4.0, rates=[(6.0, 10.0)], changed=6.0, rate_after=10.0),
        make_scene("/4", 20.0, _RTT, 17.0, buffer=4.0, rates=[(6.0, 5.0)], changed=6.0, rate_after=5.0),
    ),
    _make_case(
        "bbr-loss",
        "Is 1 % of random loss tolerated?",
        "cases 2, 6 and 21: below BBR.LossThresh of 2 %",
        f"goodput at least {LEAST_LOSSY:.0%} of the rate",
        judge_lossy_link,
        make_scene("1%", _RATE, _RTT, 12.0, since=2.0, buffer=2.0, flow={"path": [_LOSS]}),
    ),
    _make_case(
        "bbr-policer",
        "Does it find the rate of a policer?",
        "case 17",
        f"at most {MOST_POLICED:.0%} of the packets lost, after 4 s",
        judge_policer,
        make_scene("10Mbit", _RATE, _RTT, 14.0, since=4.0, flow={"path": [_POLICER]}),
    ),
)
