"""The share that the stack takes next to others, over five queues."""

from __future__ import annotations

import math
from typing import Any

from dumbbell.check.stack.outcomes import Outcome
from dumbbell.check.stack.scenes import compute_bdp, make_other_flow, make_scene, make_subject
from dumbbell.check.stack.stack_case import Limits, Scene, SceneOutcomes, StackCase

MOST_RATIO = 3.0  # RFC 8868: goodputs of the same priority and RTT within [0.333, 3]
HARM = 0.1  # share of the link by which the stack may take more from another than TCP's CUBIC does in its place
LEAST_TOGETHER = 0.8  # of what TCP's CUBIC and the other flow get together
_MUCH = 0.15  # a share that differs by this from that of TCP's CUBIC in its place is reported
_RATE, _RTT, _SECONDS, _SINCE = 20.0, 0.04, 25.0, 5.0
QUEUES: dict[str, dict[str, Any]] = {
    "pfifo": {"name": "pfifo", "limit": compute_bdp(_RATE, _RTT)},
    "codel": {"name": "codel"},
    "fq_codel": {"name": "fq_codel"},
    "pie": {"name": "pie"},
    "dualpi2": {"name": "dualpi2"},
}
OTHERS = {"cubic": "TCP's CUBIC", "bbr3": "TCP's BBRv3", "prague": "TCP Prague"}


def judge_share(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge the share that the stack has next to another flow, which is flow 1."""
    ours, of_tcp = (_measure_share(one) for one in (seen.subject, seen.tcp))
    ratio, found = ours / max(1 - ours, 1e-9), f"{ours:.0%} of the goodput, TCP's CUBIC in its place {of_tcp:.0%}"
    # the harm of Ware et al., HotNets 2019: what the other loses, against what it loses to TCP's CUBIC
    fair = limits.require(
        f"at most {MOST_RATIO:g} times the other's goodput, or {HARM:.0%} more than TCP's CUBIC takes",
        ratio <= MOST_RATIO or ours <= of_tcp + HARM,
        found,
    )
    fair &= limits.require(
        f"at least 1/{MOST_RATIO:g} of the other's goodput, or {HARM:.0%} less than TCP's CUBIC gets",
        ratio >= 1 / MOST_RATIO or ours >= of_tcp - HARM,
        found,
    )
    if fair and abs(ours - of_tcp) > _MUCH:
        limits.note(found)
    _judge_utilisation(seen, limits, "TCP's CUBIC next to the same")


def judge_two_connections(seen: SceneOutcomes, limits: Limits) -> None:
    """Judge how two connections of the stack share."""
    ours = _measure_share(seen.subject)
    ratio = ours / max(1 - ours, 1e-9)
    limits.require(
        f"goodputs within a factor of {MOST_RATIO:g}",
        1 / MOST_RATIO <= ratio <= MOST_RATIO,
        f"{ours:.0%} and {1 - ours:.0%} of the goodput",
    )
    _judge_utilisation(seen, limits, "two of TCP's CUBIC")


def _judge_utilisation(seen: SceneOutcomes, limits: Limits, who: str) -> None:
    """Judge the goodput of both flows together: equal shares of little use no link."""
    together, theirs = (
        one.compute_mean(0, lambda flow: flow.goodput) + one.compute_mean(1, lambda flow: flow.goodput)
        for one in (seen.subject, seen.tcp)
    )
    limits.require(
        f"together at least {LEAST_TOGETHER:.0%} of the goodput of {who}",
        together >= LEAST_TOGETHER * theirs,
        f"{together:.3g} Mbit/s, TCP's CUBIC {theirs:.3g}",
    )


def _measure_share(outcome: Outcome) -> float:
    found = [
        one.flows[0].goodput / total
        for one in outcome.runs
        if (total := one.flows[0].goodput + one.flows[1].goodput) > 0
    ]
    return sum(found) / len(found) if found else math.nan


def _make_scenes(cc: str) -> tuple[Scene, ...]:
    flows = [make_subject(_RTT), make_other_flow(cc, _RTT) if cc else make_subject(_RTT)]
    return tuple(
        make_scene(name, _RATE, _RTT, _SECONDS, aqm=queue, flows=flows, since=_SINCE) for name, queue in QUEUES.items()
    )


_PATH = f"{_RATE:g} Mbit/s and {_RTT * 1e3:g} ms, after {_SINCE:g} s"
_BOUNDS = f"ratio of goodputs from 1/{MOST_RATIO:g} to {MOST_RATIO:g} at {_PATH}"


def _describe_figure(seen: SceneOutcomes) -> str:
    return f"{_measure_share(seen.subject):.0%}"


CASES = (
    *(
        StackCase(
            f"with-{cc}",
            "sharing",
            f"What share does it take next to {name}?",
            "RFC 9743, section 5.2.1; RFC 8868 for the ratio; harm after Ware et al. 2019",
            f"{_BOUNDS}, or no more than {HARM:.0%} from the share of TCP's CUBIC in its place; together at least"
            f" {LEAST_TOGETHER:.0%} of the goodput of TCP's CUBIC next to the same",
            judge_share,
            _make_scenes(cc),
            measure="share of the goodput",
            figure=_describe_figure,
        )
        for cc, name in OTHERS.items()
    ),
    StackCase(
        "with-itself",
        "sharing",
        "How do two of its connections share?",
        "RFC 9743, section 5.1.4",
        f"{_BOUNDS}; together at least {LEAST_TOGETHER:.0%} of the goodput of two of TCP's CUBIC",
        judge_two_connections,
        _make_scenes(""),
        measure="share of the goodput of the first",
        figure=_describe_figure,
    ),
)
