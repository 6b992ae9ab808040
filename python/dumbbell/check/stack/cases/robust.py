"""Paths that lose, reorder, change and fail: no abort, no stall, no collapse.

All is held against TCP's CUBIC on the same path, so that the stack does not fail by what the path
does to everybody.
"""

from __future__ import annotations

from typing import Any

from dumbbell.check.stack.scenes import compute_bdp, make_scene
from dumbbell.check.stack.stack_case import Limits, Scene, SceneOutcomes, StackCase
from dumbbell.evaluate.bbr.lab import FRAME

LEAST_OF_TCP = 0.5  # of the goodput of TCP's CUBIC on the same path
LONGEST_GAP, GAP_OF_TCP = 1.0, 1.5  # s without delivery apart from outages, and times what TCP's CUBIC has
_ROUNDS = 4  # of a long path and a queue, that may pass without a delivery: a probe timeout is about three of them
MOST_BLIND = 0.05  # of the rate, two seconds into a time without any acknowledgement
_MUCH = 1.5
_MEASURE = "goodput over that of TCP's CUBIC"
_RATE, _RTT, _SECONDS = 20.0, 0.04, 12.0


def judge_progress(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge stalls and goodput."""
    _judge_stalls(seen, limits)
    ours, theirs, found = _compare_goodputs(seen)
    limits.require(f"at least {LEAST_OF_TCP:.0%} of the goodput of TCP's CUBIC", ours >= LEAST_OF_TCP * theirs, found)
    if ours > _MUCH * theirs:
        limits.note(found)


def judge_reordering(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge stalls; a goodput below that of TCP is reported.

    RFC 9002 recommends thresholds that take much reordering for loss (section 6.1.1: 3 packets, section 6.1.2: 9/8 of
    the RTT). What makes TCP's CUBIC faster is undo and RACK's larger window of reordering, which no RFC of QUIC has.
    """
    _judge_stalls(seen, limits)
    ours, theirs, found = _compare_goodputs(seen)
    if not LEAST_OF_TCP * theirs <= ours <= _MUCH * theirs:
        limits.note(found)


def _compare_goodputs(seen: SceneOutcomes) -> tuple[float, float, str]:
    ours, theirs = seen.compare_means(lambda one: one.goodput)
    return ours, theirs, f"{ours:.3g} Mbit/s, TCP's CUBIC {theirs:.3g}"


def _judge_stalls(seen: SceneOutcomes, limits: Limits) -> None:
    scene, number = seen.scene, seen.scene.subjects[0]
    ours, theirs = (
        one.find_worst(number, lambda flow: flow.find_longest_gap(flow.start, scene.outages))
        for one in (seen.subject, seen.tcp)
    )
    queue = 8 * FRAME * compute_bdp(scene.rate, scene.rtt) / (1e6 * scene.rate)
    most = max(LONGEST_GAP, _ROUNDS * (scene.rtt + queue), GAP_OF_TCP * theirs)
    limits.require(
        f"no more than {most:.3g} s without a delivery",
        ours <= most + 1e-9,
        f"nothing delivered for {ours:.3g} s that no outage explains, TCP's CUBIC {theirs:.3g} s",
    )


def judge_blackout(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge what is sent while no acknowledgement comes, and whether the connection goes on afterwards."""
    ((start, end),) = seen.scene.outages
    shares = []
    for run in seen.subject.runs:
        rates = run.link.rates[run.link.select_intervals(start + 2.0, end)]
        shares.append(float(rates.mean()) / seen.scene.rate if len(rates) else 0.0)
    worst = max(shares)
    limits.require(
        f"at most {MOST_BLIND:.0%} of the link's rate, two seconds after the last acknowledgement",
        worst <= MOST_BLIND,
        f"{worst:.1%} of the link's rate",
    )
    judge_progress(seen, limits)


def _make_lossy_scene(place: str, *path: dict[str, Any]) -> Scene:
    return make_scene(place, _RATE, _RTT, _SECONDS, flow={"path": list(path)})


def _make_bleached_scene(place: str, where: str, **keys: Any) -> Scene:
    made = make_scene(place, _RATE, _RTT, _SECONDS, aqm="fq_codel", flow={"ecn": True})
    made.table["bottleneck"][where] = [{"name": "bleach"} | keys]
    return made


def _make_blackout_scene(place: str, start: float, end: float, **keys: Any) -> Scene:
    lost = [{"name": "loss", "probability": 1.0, "from": f"{start:g}s", "to": f"{end:g}s"}]
    return make_scene(place, _RATE, _RTT, _SECONDS + 4, flow=dict.fromkeys(keys, lost), outages=((start, end),))


def _list_steps(every: float) -> list[tuple[float, float]]:
    count = int(_SECONDS / every)
    return [(every * step, _RATE / 4 if step % 2 else _RATE) for step in range(1, count)]


# packets behind the change overtake about 80, less than the 128 up to which a packet number of a byte is understood
_LONGER = {"name": "reorder", "probability": 1.0, "delay": "50ms", "from": "4s", "to": "8s"}
_STALLS = (
    f"no time without delivery above {LONGEST_GAP:g} s (or {_ROUNDS} RTTs with a full queue, or {GAP_OF_TCP:g} times"
    " that of TCP's CUBIC) that no outage explains"
)
_LIMITS = f"{_STALLS}, goodput at least {LEAST_OF_TCP:.0%} of that of TCP's CUBIC"


def _describe_figure(seen: SceneOutcomes) -> str:
    ours, theirs = seen.compare_means(lambda one: one.goodput)
    return f"{ours / theirs:.2g}" if theirs else ""


def _make_case(key: str, question: str, source: str, *scenes: Scene) -> StackCase:
    return StackCase(
        key, "robust", question, source, _LIMITS, judge_progress, scenes, measure=_MEASURE, figure=_describe_figure
    )


CASES = (
    _make_case(
        "random-loss",
        "Does it keep sending where the path loses packets at random?",
        "RFC 9743, section 6.4; shares of RFC 8868, section 4.2",
        _make_lossy_scene("0.1%", {"name": "loss", "probability": 0.001}),
        _make_lossy_scene("1%", {"name": "loss", "probability": 0.01}),
        _make_lossy_scene("5%", {"name": "loss", "probability": 0.05}),
        _make_lossy_scene("bursts", {"name": "burst_loss"}),
    ),
    StackCase(
        "reordering",
        "robust",
        "Does it keep sending where packets overtake each other?",
        "RFC 9743, section 7.7; RFC 9002, section 6.1: time and packet thresholds",
        f"{_STALLS}; a goodput below {LEAST_OF_TCP:.0%} of that of TCP's CUBIC is reported, and no failure",
        judge_reordering,
        (
            _make_lossy_scene("1% 5ms", {"name": "reorder", "probability": 0.01, "delay": "5ms"}),
            _make_lossy_scene("5% 20ms", {"name": "reorder", "probability": 0.05, "delay": "20ms"}),
        ),
        measure=_MEASURE,
        figure=_describe_figure,
    ),
    _make_case(
        "jitter",
        "Does it keep sending where the delay of packets varies?",
        "RFC 9743, section 6.4; RFC 8868, section 4.5; C4's Wi-Fi; DOCSIS",
        _make_lossy_scene("10ms", {"name": "jitter", "max": "10ms"}),
        _make_lossy_scene("30ms", {"name": "jitter", "max": "30ms"}),
        _make_lossy_scene("batches 10ms", {"name": "batch", "interval": "10ms"}),
        make_scene("wifi bad", _RATE, _RTT, _SECONDS, link={"name": "wifi", "jitter": "7ms"}),
    ),
    _make_case(
        "rate-steps",
        "Does it follow a link whose rate changes?",
        "RFC 9743, sections 6.4 and 7.8; RFC 7928, section 8.2.6: each 100 ms; here by a factor of 4",
        make_scene("4s", _RATE, _RTT, _SECONDS, rates=_list_steps(4.0)),
        make_scene("500ms", _RATE, _RTT, _SECONDS, rates=_list_steps(0.5)),
        make_scene("100ms", _RATE, _RTT, _SECONDS, rates=_list_steps(0.1)),
    ),
    _make_case(
        "path-change",
        "Does it keep sending when the path gets longer, and shorter again?",
        "RFC 9743, sections 7.3 and 7.9",
        _make_lossy_scene("40ms 90ms 40ms", _LONGER),
    ),
    _make_case(
        "outage",
        "Does it resume after nothing came through for a while?",
        "RFC 9743, section 7.8; RFC 9002, section 6.2: probes at doubling distances, and section 7.6",
        _make_blackout_scene("lost 1s", 4.0, 5.0, path=True),
        _make_blackout_scene("lost 4s", 4.0, 8.0, path=True),
        make_scene(
            "held 2s",
            _RATE,
            _RTT,
            _SECONDS + 4,
            link={"name": "onoff", "on": "5s", "off": "2s"},
            outages=((5.0, 7.0), (12.0, 14.0)),
        ),
    ),
    StackCase(
        "no-feedback",
        "robust",
        "Does it stop when no acknowledgement comes back, and resume afterwards?",
        "RFC 9743, section 5.2: starvation and loss of feedback; RFC 8085, section 3.1.1; RFC 9002, section 6.2.1",
        f"two seconds into it at most {MOST_BLIND:.0%} of the link's rate is sent; then as the others",
        judge_blackout,
        (_make_blackout_scene("4s", 4.0, 8.0, ack_path=True),),
        measure=_MEASURE,
        figure=_describe_figure,
    ),
    _make_case(
        "acks-lost",
        "Does it keep sending where acknowledgements get lost or come in batches?",
        "RFC 9743, section 7.8; RFC 9002, section 6.1",
        make_scene("30%", _RATE, _RTT, _SECONDS, flow={"ack_path": [{"name": "loss", "probability": 0.3}]}),
        make_scene("batches 30ms", _RATE, _RTT, _SECONDS, flow={"ack_path": [{"name": "batch", "interval": "30ms"}]}),
    ),
    _make_case(
        "bleaching",
        "Does it keep sending where a router clears the ECN field, ahead of the queue or behind it?",
        "RFC 3168, section 18; RFC 9000, section 13.4.2: ECN is validated",
        _make_bleached_scene("ahead", "path"),
        _make_bleached_scene("behind", "behind"),
        _make_bleached_scene("from 4s", "behind", **{"from": "4s"}),
    ),
    _make_case(
        "queues",
        "Does it keep sending with a queue of few packets, a policer, and one of a second and more?",
        "RFC 9743, section 6.1: a range of queue depths; 20 BDP as of IETF 126",
        make_scene("4 packets", _RATE, _RTT, _SECONDS, packets=4),
        make_scene("20 BDP", _RATE, _RTT, _SECONDS, buffer=20.0),
        _make_lossy_scene("policer", {"name": "policer", "rate": "10Mbit", "burst": "50kB"}),
    ),
    _make_case(
        "far-and-slow",
        "Does it work at very low rates and over very long paths?",
        "RFC 9743, sections 7.4 and 7.5; RFC 7928, section 6.2: RTTs up to 560 ms",
        make_scene("256kbit 100ms", 0.256, 0.1, 20.0),
        make_scene("20Mbit 600ms", 20.0, 0.6, 20.0),
    ),
)
