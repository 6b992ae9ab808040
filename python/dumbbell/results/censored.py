"""Times that a run may be over before: what did not happen is not known to be late, only to be later than the run.

A mean of the runs in which it happened would be too small. Where it did not happen in all of them, the median stands
for it, by the estimator of Kaplan and Meier (1958), or the number of runs that did not reach it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import polars as pl

from dumbbell.errors import Unfit, spell_option
from dumbbell.results.aggregate import SEED, Means, Samples, collect_samples
from dumbbell.results.results import Measure, StoredResults

LIMITS = {"convergence_s": "common_s", "convergence_cumulative_s": "common_s"}
"""Measures that are censored, and how long each run was watched."""


def is_censored(measure: Measure) -> bool:
    """Return whether a measure has no value because a run was over too early."""
    return measure.table == "runs" and measure.column in LIMITS


def compute_median(times: Sequence[float | None], watched: Sequence[float]) -> float | None:
    """Return the median of times of which some are None, later than `watched`; None if half of them are not reached.

    By Kaplan and Meier: at each time the share of those still without it shrinks by those that reach it then, over
    those that were still watched.
    """
    left = 1.0
    for time in sorted({time for time in times if time is not None}):
        at_risk = sum(
            (own >= time) if own is not None else end >= time for own, end in zip(times, watched, strict=True)
        )
        left *= 1 - times.count(time) / at_risk
        if left <= 0.5 + 1e-12:
            return time
    return None


def add_limits(
    results: StoredResults,
    found: Samples,
    keys: Sequence[str] = (),
    *,
    mean_over: Sequence[str] = (),
    options: Mapping[str, str] = MappingProxyType({}),
) -> pl.DataFrame:
    """Return the frame of a censored measure with a column `watched`: how long each run was watched, s."""
    names = [axis.name for axis in found.axes]
    if found.over:  # of which a mean leaves out what is missing
        without = collect_samples(results, f"runs.{found.measure.column}", keys, options=options)
        lacking = without.frame["value"].null_count()
        if lacking:
            said = f"{lacking} of {without.frame.height} runs did not reach {found.measure.column}: no mean exists"
            raise Unfit(
                said,
                f"{spell_option('where')} for other runs, or omit {spell_option('mean-over')}",
                option="--mean-over",
            )
    limit = collect_samples(
        results, f"runs.{LIMITS[found.measure.column]}", keys, mean_over=mean_over, options=options
    ).frame.select(*names, SEED, "hash", pl.col("value").alias("watched"))
    joined = found.frame.join(limit, on=[*names, SEED, "hash"], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col("watched").fill_null(0.0))


def format_censored(found: Samples, rows: pl.DataFrame) -> dict[tuple[str, ...], str]:
    """Return for each combination of axes in which a run did not reach it what is said instead of a mean."""
    names = [axis.name for axis in found.axes]
    said = {}
    for place, own in rows.group_by(names or pl.lit("all runs"), maintain_order=True):
        late = own["value"].null_count()
        if not late:
            continue
        middle = compute_median(own["value"].to_list(), own["watched"].to_list())
        shortest = own.filter(pl.col("value").is_null())["watched"].min()
        within = f" within {float(str(shortest)):.4g} s"
        many = f"not reached in {late} of {own.height}"
        said[tuple(map(str, place))] = f"{many}{within}" if middle is None else f"median {middle:.4g}, {many}"
    return said


def drop_partial(found: Means) -> Means:
    """Return means without those of only some runs, which would be too small."""
    if not is_censored(found.measure):
        return found
    whole = pl.col("none") == 0
    names = ("mean", "half", "low", "high")
    return replace(
        found, frame=found.frame.with_columns(pl.when(whole).then(pl.col(name)).alias(name) for name in names)
    )
