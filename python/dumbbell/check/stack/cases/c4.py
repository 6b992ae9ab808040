"""Limits on completion times of the C4 test suite: draft-huitema-ccwg-c4-test-02 and private-octopus/c4.

The draft runs each case with a hundred seeds, and the worst has to meet the limit. The worst of a few says more of how
many they are than of the stack, so that here the mean has to meet it, and nobody can tell where the limit lies within
the interval of the mean. Its rates are binary: "20 Mbit/s" are 20 / 1.048576. The limits are those of one control, C4,
so that the stack does not fail by a limit that TCP's CUBIC misses in the same place.

Left out are fading Wi-Fi, whose jitter changes with time, careful resume, which needs a state of before, and media.
"""

from __future__ import annotations

import math
from typing import Any

from dumbbell.check.stack.outcomes import WITHIN
from dumbbell.check.stack.scenes import SPREAD, make_other_flow, make_scene, make_subject
from dumbbell.check.stack.stack_case import Limits, Scene, SceneOutcomes, StackCase

_BINARY = 1.048576
SLOWER_THAN_TCP = 1.1  # a limit that is missed is a failure if TCP's CUBIC is faster by this
_MUCH = 1.25


def _format_size(megabytes: float) -> str:
    return f"{megabytes:g}MB"


def judge_completion(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge how long the stack takes; the first of its flows is the one that is measured."""
    number, within = seen.scene.subjects[0], seen.scene.within
    assert within is not None
    start = _start(seen.scene)
    (ours, wide), (theirs, of_tcp) = (
        one.estimate_mean(number, lambda flow: start + flow.completion) for one in (seen.subject, seen.tcp)
    )
    end = seen.scene.seconds - SPREAD - start
    shown = [f"{one:.3g} s" if one < end + 1 else f"more than {end:.3g} s" for one in (ours, theirs)]
    slower = SLOWER_THAN_TCP * theirs
    what = f"complete within C4's limit, or {SLOWER_THAN_TCP:g} times what TCP's CUBIC takes"
    found = f"limit {max(within, slower):.3g} s, TCP's CUBIC {shown[1]}"
    # either limit is enough, and that of TCP's CUBIC has an interval of its own
    held = [_judge_mean(ours, within, wide), _judge_mean(ours, slower, math.hypot(wide, SLOWER_THAN_TCP * of_tcp))]
    if True not in held and None in held:
        limits.note_unknown(what, f"{ours:.3g} ± {wide:.2g} s, {found}: {WITHIN}")
    else:
        limits.require(what, True in held, f"{shown[0]}, {found}")
    if within < ours < slower:
        limits.note(f"{shown[0]}, above C4's limit of {within:g} s, TCP's CUBIC {shown[1]}")
    elif ours < theirs / _MUCH:
        limits.note(f"{shown[0]}, TCP's CUBIC {shown[1]}")


def _judge_mean(mean: float, limit: float, half: float) -> bool | None:
    """Return whether a mean keeps a limit; None if the limit lies within its interval, `half` on each side."""
    if mean == limit or abs(mean - limit) >= half:
        return mean <= limit
    return None


def _start(scene: Scene) -> float:
    """Return when the flow starts: the clock of the draft starts with the trial, ours with the flow."""
    return float(scene.table["flows"][scene.subjects[0]]["start"]["uniform"][0].removesuffix("ns")) / 1e9


def _make_scene(
    place: str, rate: float, rtt: float, megabytes: float, within: float, *beside: dict[str, Any], **keys: Any
) -> Scene:
    rate = rate / _BINARY
    ours = make_subject(rtt, at=keys.pop("at", 0.0), size=_format_size(megabytes), **keys.pop("flow", {}))
    seconds = 2 * within + 2
    return make_scene(place, rate, rtt, seconds, flows=[ours, *beside], within=within, **keys)


def _list_rates(*rates: tuple[float, float]) -> list[tuple[float, float]]:
    return [(at, rate / _BINARY) for at, rate in rates]


# the draft's bad Wi-Fi; a queue of one BDP of 2 ms would drop what the link holds back for 90 ms
_WIFI: dict[str, Any] = {"link": {"name": "wifi", "jitter": "7ms"}, "packets": 100}
_LOST = [{"name": "loss", "probability": 1.0, "from": "2s", "to": "4s"}]
_LATE = [{"name": "reorder", "probability": 1.0, "delay": "70ms", "from": "1s"}]  # all packets: a longer path
_ALONE = (
    _make_scene("base", 20, 0.08, 10, 5.0),
    _make_scene("short-fast", 200, 0.04, 20, 1.25),
    _make_scene("low-and-up", 5, 0.1, 7, 7.9, rates=_list_rates((2.5, 10))),
    _make_scene("drop-and-back", 10, 0.1, 7, 8.15, rates=_list_rates((1.5, 5), (3.5, 10))),
    _make_scene("black-hole", 20, 0.07, 10, 6.1, flow={"path": _LOST}, outages=((2.0, 4.0),)),
    _make_scene("short-to-long", 10, 0.03, 20, 22.0, flow={"path": _LATE}),
    _make_scene("suspension", 20, 0.01, 10, 5.4, link={"name": "onoff", "on": "1.8s", "off": "200ms"}),
    # the draft says 10 MB, which 10 Mbit/s cannot carry in this time; 4 MB is what its other cases with bad Wi-Fi have
    _make_scene("bad-wifi", 10, 0.002, 4, 4.3, **_WIFI),
)
_SELF = (
    _make_scene("same-start", 20, 0.08, 5, 6.7, make_subject(0.08, size=_format_size(10))),
    _make_scene("background-first", 20, 0.08, 5, 8.15, make_subject(0.08, size=_format_size(10)), at=0.5),
    _make_scene("background-later", 50, 0.03, 10, 4.1, make_subject(0.03, at=0.5, size=_format_size(20))),
    _make_scene("long", 20, 0.08, 20, 22.8, make_subject(0.08, size=_format_size(30))),
    _make_scene("long-background-later", 10, 0.07, 10, 22.2, make_subject(0.07, at=1.0, size=_format_size(15))),
    _make_scene("bad-wifi", 10, 0.002, 4, 13.0, make_subject(0.002, size=_format_size(10)), at=1.0, **_WIFI),
)


def _make_scenes_with_tcp(cc: str, long: float, last: float, wifi: float) -> tuple[Scene, ...]:
    return (
        _make_scene("same-start", 20, 0.08, 5, 6.7, make_other_flow(cc, 0.08, size=_format_size(10))),
        _make_scene("long", 20, 0.08, 20, long, make_other_flow(cc, 0.08, size=_format_size(30))),
        _make_scene(
            "long-background-later", 10, 0.07, 10, last, make_other_flow(cc, 0.07, at=1.0, size=_format_size(15))
        ),
        _make_scene("bad-wifi", 10, 0.002, 4, wifi, make_other_flow(cc, 0.002, size=_format_size(10)), at=1.0, **_WIFI),
    )


_SOURCE = "draft-huitema-ccwg-c4-test-02"
_LIMITS = (
    f"the draft's limit in the mean of the seeds, or {SLOWER_THAN_TCP:g} times what TCP's CUBIC takes in the same place"
)


def _describe_figure(seen: SceneOutcomes) -> str:
    mean, wide = seen.subject.estimate_mean(seen.scene.subjects[0], lambda one: _start(seen.scene) + one.completion)
    return f"{mean:.3g}{f' ± {wide:.2g}' if wide else ''}" if math.isfinite(mean) else "never"


def _make_case(key: str, question: str, scenes: tuple[Scene, ...]) -> StackCase:
    return StackCase(
        key,
        "c4",
        question,
        _SOURCE,
        _LIMITS,
        judge_completion,
        scenes,
        measure="completion, mean, s",
        figure=_describe_figure,
    )


CASES = (
    _make_case("c4-alone", "Does a transfer end in time, also where the path changes or fails for a while?", _ALONE),
    _make_case("c4-self", "Does it end in time next to another of its kind?", _SELF),
    _make_case(
        "c4-cubic", "Does it end in time next to TCP's CUBIC?", _make_scenes_with_tcp("cubic", 22.2, 22.0, 11.0)
    ),
    _make_case("c4-bbr", "Does it end in time next to TCP's BBRv3?", _make_scenes_with_tcp("bbr3", 23.0, 23.0, 13.5)),
)
