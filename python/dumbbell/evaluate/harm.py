"""Harm (Ware, Mukerjee, Seshan and Sherry, HotNets 2019): what others lose because the subject is there.

Where x is a measure of others alone and y that with the subject, harm is (x - y) / x if more is better for them, and
(y - x) / y if less is. 0 takes nothing, 1 takes everything, and less than 0 is of use to them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from dumbbell.evaluate.measures import measure_runs
from dumbbell.evaluate.plan import NOBODY, Candidate, Plan, ScenePlace, make_victim_plan
from dumbbell.evaluate.suite_file import EvaluationSuite, HarmRule
from dumbbell.results.aggregate import LEVEL
from dumbbell.results.results import StoredResults

_DRAWS = 400  # resamples of the seeds of a cell
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
    """Return the harm of each pair of values; NaN of a part of nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        harm = (alone - beside) / alone if is_more_better else (beside - alone) / beside
    return np.where(np.isfinite(harm), harm, np.nan)


class HarmRuns:
    """The runs of others alone that the criteria of a suite need, and the harm that follows from them."""

    def __init__(self, suite: EvaluationSuite, subject: Candidate, beside: Plan, seeds: int) -> None:
        self.suite, self.beside = suite, beside
        wanted = {one.scene for one in suite.criteria if one.harm is not None}
        scenes = [scene for name, scene in suite.scenes.items() if name in wanted]
        self.plan = make_victim_plan(suite, scenes, subject, seeds, beside)

    def compute(self, results: StoredResults, subject: str) -> dict[tuple[str, ScenePlace], dict[str, CellHarm]]:
        """Return harm by criterion and cell, of the subject, which has an empty name, and of the yardsticks."""
        found: dict[tuple[str, ScenePlace], dict[str, CellHarm]] = {}
        for criterion in self.suite.criteria:
            if criterion.harm is None:
                continue
            values: dict[tuple[ScenePlace, str], dict[int, float]] = {}
            for plan in (self.beside, self.plan):
                values |= self._measure(plan, criterion.scene, criterion.harm.measure, results)
            for (place, who), beside in values.items():
                alone = values.get((place, NOBODY), {})
                seeds = sorted(alone.keys() & beside.keys())
                if who == NOBODY or not seeds:
                    continue
                draws = np.random.default_rng(zlib.crc32(f"{criterion.id} {place.position}".encode()))
                harm = estimate_harm([alone[n] for n in seeds], [beside[n] for n in seeds], criterion.harm, draws)
                found.setdefault((criterion.id, place), {})["" if who == subject else who] = harm
        return found

    def _measure(
        self, plan: Plan, scene: str, measure: str, results: StoredResults
    ) -> dict[tuple[ScenePlace, str], dict[int, float]]:
        """Return the mean of a measure by place, whose runs they are, and seed."""
        cells = plan.cells.filter(pl.col("scene") == scene)
        once = cells.drop("who", "position").unique("key", keep="first", maintain_order=True)
        roles = plan.roles.filter(pl.col("key").is_in(once["key"].implode()))
        rows = measure_runs(self.suite.measures[measure], results, once, roles, str(self.suite.file))
        means = dict(rows.drop_nulls().group_by("key").agg(pl.col("value").mean()).iter_rows())
        found: dict[tuple[ScenePlace, str], dict[int, float]] = {}
        for key, position, who, seed in cells.select("key", "position", "who", "seed").iter_rows():
            if key in means:
                found.setdefault((ScenePlace(scene, tuple(position)), who), {})[seed] = means[key]
        return found


def estimate_harm(
    alone: Sequence[float], beside: Sequence[float], rule: HarmRule, random: np.random.Generator
) -> CellHarm:
    """Return the harm of means over seeds, which are paired, with its interval over resampled seeds."""
    x, y = np.array(alone), np.array(beside)
    drawn = random.integers(len(x), size=(_DRAWS, len(x)))
    value = float(compute_harm(x.mean(), y.mean(), is_more_better=rule.is_more_better))
    resampled = compute_harm(x[drawn].mean(axis=1), y[drawn].mean(axis=1), is_more_better=rule.is_more_better)
    low, high = np.nanquantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if not np.isnan(value) else (value, value)
    return CellHarm(value, float(low), float(high), float(x.mean()), float(y.mean()))


def find_worst_harm(harm: Mapping[ScenePlace, Mapping[str, CellHarm]]) -> ScenePlace | None:
    """Return the cell in which the subject harms most; none if no harm is a number."""
    known = {place: one[""].value for place, one in harm.items() if "" in one and not np.isnan(one[""].value)}
    return max(known, key=lambda place: known[place]) if known else None
