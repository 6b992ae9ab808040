"""Fronts: candidates that no other one is better than in every objective, and those that more seeds may put there.

Scores are arrays of candidates by objectives by seeds, in which less is better. All candidates have the same seeds, so
that differences are paired.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dumbbell.results.aggregate import LEVEL
from dumbbell.results.student import compute_t_quantile

TOLERANCE = 0.01  # of the front's width in an objective: a smaller improvement is none
Numbers = npt.NDArray[np.float64]


def find_front(values: Numbers) -> list[int]:
    """Return the rows of `values` (candidates by objectives) that no other row dominates, the first of equal ones."""
    order = np.lexsort(values.T[::-1])
    front: list[int] = []
    for row in order:  # one that dominates it comes before it
        kept = values[front]
        if not (kept <= values[row]).all(axis=1).any():
            front.append(int(row))
    return sorted(front)


def find_contenders(scores: Numbers, front: Sequence[int]) -> list[int]:
    """Return the candidates that may be better than the front in some objective, by the 95 % interval of differences.

    A candidate is none if one on the front is surely as good in every objective, except for `TOLERANCE` of the front.
    """
    means = scores.mean(axis=2)
    tolerance = TOLERANCE * _measure_widths(means[list(front)])
    others = [row for row in range(len(scores)) if row not in set(front)]
    return [row for row in others if not _is_surely_behind(scores[row], scores[list(front)], tolerance)]


def _measure_widths(values: Numbers) -> Numbers:
    """Return the width of a front in every objective; where it has none, the size of its value."""
    widths = values.max(axis=0) - values.min(axis=0)
    found: Numbers = np.where(widths > 0, widths, np.abs(values).max(axis=0))
    return found


def _is_surely_behind(scores: Numbers, front: Numbers, tolerance: Numbers) -> bool:
    differences = scores[None] - front  # front by objectives by seeds
    means, halves = estimate_halves(differences)
    return bool((means - halves >= -tolerance).all(axis=1).any())


def estimate_halves(values: Numbers) -> tuple[Numbers, Numbers]:
    """Return means over the last axis, seeds, and half the width of their 95 % intervals (Student); 0 of one seed."""
    seeds = values.shape[-1]
    means = values.mean(axis=-1)
    if seeds < 2:
        return means, np.zeros_like(means)
    deviations = values.std(axis=-1, ddof=1)
    return means, compute_t_quantile(seeds - 1, LEVEL) * deviations / math.sqrt(seeds)


def compute_hypervolume(values: Numbers, reference: Sequence[float]) -> float:
    """Return the area of two objectives that a set dominates, up to a reference point that is worse than all."""
    area, height = 0.0, float(reference[1])
    for x, y in values[np.lexsort(values.T[::-1])]:
        if x < reference[0] and y < height:
            area += (reference[0] - float(x)) * (height - float(y))
            height = float(y)
    return area
