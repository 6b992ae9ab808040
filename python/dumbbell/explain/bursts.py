"""Events in groups: counts over time, and those that are close to each other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dumbbell.explain.facts.base import Burst

_SHOWN = 4  # bursts that are listed all
_LEAST_GAP_S = 0.05

Array = np.ndarray[Any, Any]


def find_gap(flows: Iterable[dict[str, Any]], interval_s: float) -> float:
    """Return how far bursts of these rows of table flows are apart: two of their longest RTTs, 50 ms at least.

    Where events are known by interval, there is also one without any between bursts. RTTs are the medians that flows
    measured, with the wait in the queue: a sender answers a drop, or hears of another, a round trip later. Flows that
    measured none count by their base RTT.
    """
    longest = max(map(_find_longest_rtt, flows), default=0.0) / 1e3
    return max(2 * longest, _LEAST_GAP_S, 1.5 * interval_s)


def _find_longest_rtt(row: dict[str, Any]) -> float:
    measured = row.get("rtt_p50_ms")
    return float(row["base_rtt_ms"]) if measured is None or not math.isfinite(measured) else float(measured)


def find_bursts(at: Array, counts: Array, apart: float) -> list[Burst]:
    """Return the bursts of events at times in order; `counts` are those of each time, some of them 0."""
    there = counts > 0
    at, counts = at[there], counts[there]
    if not len(at):
        return []
    first = np.concatenate([[0], np.flatnonzero(np.diff(at) > apart) + 1])
    last = np.concatenate([first[1:] - 1, [len(at) - 1]])
    sums = np.add.reduceat(counts, first)
    return [Burst(float(at[i]), float(at[j]), int(n)) for i, j, n in zip(first, last, sums, strict=True)]


def select_bursts(bursts: list[Burst]) -> tuple[Burst, ...]:
    """Return all bursts of a few, else the largest, the first of several."""
    return tuple(bursts) if len(bursts) <= _SHOWN else (max(bursts, key=lambda one: one.count),)


def describe_bursts(found: list[Burst], apart: float) -> dict[str, Any]:
    """Return what `base.Grouped` says of bursts, one at least."""
    spaces = np.diff([one.from_s for one in found]) if len(found) > 1 else np.zeros(1)
    return {
        "from_s": found[0].from_s,
        "until_s": found[-1].until_s,
        "count": sum(one.count for one in found),
        "bursts": select_bursts(found),
        "burst_count": len(found),
        "apart_s": apart,
        "typical_s": float(np.median(spaces)),
        "closest_s": float(spaces.min()),
        "farthest_s": float(spaces.max()),
    }


def find_spans(at: Array, on: Array) -> list[tuple[float, float]]:
    """Return the times in which a condition holds: from the first row with it to the first one without, or the last."""
    if not len(at) or not on.any():
        return []
    change = np.flatnonzero(np.diff(on.astype(np.int8))) + 1
    starts = [0, *change] if on[0] else list(change)
    found = []
    for first, end in zip(starts[::2], [*starts[1::2], len(at)], strict=False):
        found.append((float(at[first]), float(at[min(end, len(at) - 1)])))
    return found
