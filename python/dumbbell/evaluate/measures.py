"""Measures of criteria: from the runs of a plan to values of each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from dumbbell.errors import InputError, WrongValue, quote_value
from dumbbell.evaluate.stack_runs import measure_longest_gap
from dumbbell.evaluate.suite_file import CriterionMeasure
from dumbbell.results.results import StoredResults

ROLES = ("subject", "other")


def _measure_longest_below(
    results: StoredResults, cells: pl.DataFrame, roles: pl.DataFrame, options: Mapping[str, Any]
) -> pl.DataFrame:
    """Return the longest time in which a flow of a role gets less than a share of its equal part of the rate, s."""
    series = results.sql(
        """
        SELECT s.key, s.flow, s.time_s, s.goodput_mbit < $below * c.rate_mbit / c.flows AS low, c.interval_s
        FROM series s JOIN roles r USING (key, flow) JOIN cells c USING (key)
        WHERE r.role = '$role' AND s.time_s > c.from_s
        ORDER BY s.key, s.flow, s.time_s
        """.replace("$below", repr(float(options["below"]))).replace("$role", options["role"]),
        cells=cells,
        roles=roles,
    )
    spells = series.with_columns(spell=pl.col("low").rle_id().over("key", "flow")).filter("low")
    lasting = spells.group_by("key", "flow", "spell").agg(value=pl.len() * pl.col("interval_s").first())
    longest = lasting.group_by("key").agg(pl.col("value").max())
    seen = series.select("key").unique()
    return seen.join(longest, on="key", how="left").with_columns(pl.col("value").fill_null(0.0))


_Function = Callable[[StoredResults, pl.DataFrame, pl.DataFrame, Mapping[str, Any]], pl.DataFrame]
FUNCTIONS: dict[str, _Function] = {"longest_below": _measure_longest_below, "longest_gap": measure_longest_gap}


def measure_runs(
    measure: CriterionMeasure, results: StoredResults, cells: pl.DataFrame, roles: pl.DataFrame, file: str
) -> pl.DataFrame:
    """Return `key` and `value` of runs, one row for each run or, where a quantile is asked for, many.

    `cells` and `roles` are those of a plan, each run once. Raises InputError if a measure is none.
    """
    where = f"measure.{measure.name}"
    if measure.function:
        options = dict(measure.options or {})
        if options.get("role") not in ROLES:
            raise WrongValue(quote_value(options.get("role")), ROLES, file=file, key=f"{where}.role")
        return FUNCTIONS[measure.function](results, cells, roles, options)
    try:
        rows = results.sql(measure.sql, cells=cells, roles=roles)
    except InputError as error:
        raise error.move_into(file, f"{where}: ") from None
    if set(rows.columns) != {"key", "value"}:
        raise WrongValue(", ".join(rows.columns), "the columns key and value", file=file, key=f"{where}.sql")
    return rows.select("key", pl.col("value").cast(pl.Float64))
