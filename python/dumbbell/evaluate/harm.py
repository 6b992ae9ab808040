"""Harm (Ware, Mukerjee, Seshan and Sherry, HotNets 2019): what others lose because the subject is there.

Where x is a measure of others alone and y that with the subject, harm is (x - y) / x if more is better for them, and
(y - x) / y if less is. 0 takes nothing, 1 takes everything, and less than 0 is of use to them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dumbbell.evaluate.measures import DRAWS, measure_scene
from dumbbell.evaluate.plan import NOBODY, Plan, ScenePlace
from dumbbell.evaluate.suite_file import EvaluationSuite, HarmRule
from dumbbell.results.aggregate import LEVEL
from dumbbell.results.results import StoredResults

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CellHarm:
    """Harm in a cell, with the interval in which it lies, and what others get alone and next to the subject."""

    value: float
    low: float
    high: float
    alone: float
    beside: float


def compute_harm(alone: _Numbers, beside: _Numbers, *, is_more_better: bool) -> _Numbers:
    """Return the harm of each pair of values; NaN where the value to divide by is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        harm = (alone - beside) / alone if is_more_better else (beside - alone) / beside
    return np.where(np.isfinite(harm), harm, np.nan)


def measure_harm(
    suite: EvaluationSuite, beside: Plan, alone: Plan, results: StoredResults, subject: str
) -> dict[tuple[str, ScenePlace], dict[str, CellHarm]]:
    """Return harm by criterion and cell, of the subject, which has an empty name, and of the yardsticks."""
    found: dict[tuple[str, ScenePlace], dict[str, CellHarm]] = {}
    for criterion in suite.criteria:
        if criterion.harm is None:
            continue
        measured, victims = (
            measure_scene(suite, criterion.harm.measure, criterion.scene, plan, results) for plan in (beside, alone)
        )
        for place, values in measured.items():
            undisturbed = victims.get(place, {}).get(NOBODY, {})
            for who, disturbed in values.items():
                if not (seeds := sorted(undisturbed.keys() & disturbed.keys())):
                    continue
                draws = np.random.default_rng(zlib.crc32(f"{criterion.id} {place.position}".encode()))
                x, y = ([float(one[seed].mean()) for seed in seeds] for one in (undisturbed, disturbed))
                harm = estimate_harm(x, y, criterion.harm, draws)
                found.setdefault((criterion.id, place), {})["" if who == subject else who] = harm
    return found


def estimate_harm(
    alone: Sequence[float], beside: Sequence[float], rule: HarmRule, random: np.random.Generator
) -> CellHarm:
    """Return the harm of means over seeds, which are paired, with its interval over resampled seeds."""
    x, y = np.array(alone), np.array(beside)
    drawn = random.integers(len(x), size=(DRAWS, len(x)))
    value = float(compute_harm(x.mean(), y.mean(), is_more_better=rule.is_more_better))
    resampled = compute_harm(x[drawn].mean(axis=1), y[drawn].mean(axis=1), is_more_better=rule.is_more_better)
    low, high = np.nanquantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if not np.isnan(value) else (value, value)
    return CellHarm(value, float(low), float(high), float(x.mean()), float(y.mean()))
