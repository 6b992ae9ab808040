"""Events in groups: counts over time, and those that are close to each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from dumbbell.explain.facts import Burst
from dumbbell.explain.observed import Observed

_SHOWN = 4  # bursts that are listed all
_LEAST_GAP_S = 0.05

Array = np.ndarray[Any, Any]


def gap_s(run: Observed, interval_s: float) -> float:
    """Return how far bursts are apart: two of the longest base RTTs, 50 ms, or five intervals."""
    longest = max((group.get("base_rtt", 0) for _, group in run.members), default=0) / 1e9
    return max(2 * longest, _LEAST_GAP_S, 5 * interval_s)


def of_counts(at: Array, counts: Array, apart: float) -> list[Burst]:
    """Return the bursts of events at times in order; `counts` are those of each time, some of them 0."""
    there = counts > 0
    at, counts = at[there], counts[there]
    if not len(at):
        return []
    first = np.concatenate([[0], np.flatnonzero(np.diff(at) > apart) + 1])
    last = np.concatenate([first[1:] - 1, [len(at) - 1]])
    sums = np.add.reduceat(counts, first)
    return [Burst(float(at[i]), float(at[j]), int(n)) for i, j, n in zip(first, last, sums, strict=True)]


def shown(bursts: list[Burst]) -> tuple[Burst, ...]:
    """Return all bursts of a few, else the largest, the first of several."""
    return tuple(bursts) if len(bursts) <= _SHOWN else (max(bursts, key=lambda one: one.count),)


def grouped(found: list[Burst], apart: float) -> dict[str, Any]:
    """Return what `facts.Grouped` says of bursts, one at least."""
    return {
        "from_s": found[0].from_s,
        "until_s": found[-1].until_s,
        "count": sum(one.count for one in found),
        "bursts": shown(found),
        "burst_count": len(found),
        "apart_s": apart,
        "typical_s": float(np.median(np.diff([one.from_s for one in found]))) if len(found) > 1 else 0.0,
    }


def spans(at: Array, on: Array) -> list[tuple[float, float]]:
    """Return the times in which a condition holds: from the first row with it to the first one without, or the last."""
    if not len(at) or not on.any():
        return []
    change = np.flatnonzero(np.diff(on.astype(np.int8))) + 1
    starts = [0, *change] if on[0] else list(change)
    found = []
    for first, end in zip(starts[::2], [*starts[1::2], len(at)], strict=False):
        found.append((float(at[first]), float(at[min(end, len(at) - 1)])))
    return found
