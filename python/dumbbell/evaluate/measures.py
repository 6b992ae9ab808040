"""Measures of criteria: from the runs of a plan to values of each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dumbbell.errors import InputError, WrongValue, quote_value
from dumbbell.evaluate.plan import Plan, ScenePlace
from dumbbell.evaluate.suite_file import CriterionMeasure, EvaluationSuite
from dumbbell.results.results import StoredResults

ROLES = ("subject", "other")
DRAWS = 400  # resamples of the seeds of a cell
Outages = Sequence[Sequence[float]]
"""Start and end of times in which nothing can be delivered, s."""
Values = Mapping[int, npt.NDArray[np.float64]]
"""Measured values of the run of each seed."""


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


def find_longest_gap(times: Sequence[float], rates: Sequence[float], since: float, outages: Outages = ()) -> float:
    """Return the longest time without delivery after `since`, for how much of it no outage accounts.

    `times` are ends of intervals, `rates` what was delivered in them. A sender that probes at doubling distances may
    miss the end of an outage by as much as it has lasted (RFC 9002, section 6.2), so that this much of the time behind
    an outage counts as part of it.
    """
    excused = [(start, end + (end - start)) for start, end in outages]
    longest, begun = 0.0, None
    before = since
    for time, rate in zip(times, rates, strict=True):
        if time <= since:
            continue
        if rate > 0:
            begun = None
        elif begun is None:
            begun = before
        if begun is not None:
            within = sum(max(0.0, min(time, until) - max(begun, start)) for start, until in excused)
            longest = max(longest, time - begun - within)
        before = time
    return longest


def _measure_longest_gap(
    results: StoredResults, cells: pl.DataFrame, roles: pl.DataFrame, options: Mapping[str, Any]
) -> pl.DataFrame:
    """Return the longest time without delivery of the first flow of a role, s.

    `outages` and `over` have an entry for each position of the first axis: the outages there, and what the time is
    divided by.
    """
    series = results.sql(
        """
        SELECT s.key, s.time_s, s.goodput_mbit, f.start_s, c.position
        FROM series s JOIN flows f USING (key, flow) JOIN cells c USING (key)
        WHERE flow = (SELECT min(r.flow) FROM roles r WHERE r.key = s.key AND r.role = '$role')
        ORDER BY s.key, s.time_s
        """.replace("$role", options["role"]),
        cells=cells,
        roles=roles,
    )
    rows = []
    for (key,), part in series.group_by("key", maintain_order=True):
        first = (part["position"][0].to_list() or [0])[0]
        outages = options["outages"][first] if options["outages"] else ()
        over = options["over"][first] if options["over"] else 1.0
        gap = find_longest_gap(part["time_s"].to_list(), part["goodput_mbit"].to_list(), part["start_s"][0], outages)
        rows.append({"key": key, "value": gap / over})
    return pl.DataFrame(rows, schema={"key": pl.String, "value": pl.Float64})


_Function = Callable[[StoredResults, pl.DataFrame, pl.DataFrame, Mapping[str, Any]], pl.DataFrame]
FUNCTIONS: dict[str, _Function] = {"longest_below": _measure_longest_below, "longest_gap": _measure_longest_gap}


def measure_runs(
    measure: CriterionMeasure, results: StoredResults, cells: pl.DataFrame, roles: pl.DataFrame, file: str
) -> pl.DataFrame:
    """Return `key` and `value` of runs, one row for each run or, where a quantile is asked for, many.

    `cells` and `roles` are those of a plan, each run once. Raises InputError if a measure cannot be computed.
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


def measure_scene(
    suite: EvaluationSuite, measure: str, scene: str, plan: Plan, results: StoredResults
) -> Mapping[ScenePlace, Mapping[str, Values]]:
    """Return the values of the runs of a scene by place, candidate and seed; a run without a value is left out."""
    cells = plan.cells
    cells = cells.filter(pl.col("scene") == scene) if len(cells) else cells
    if cells.is_empty():
        return {}
    once = cells.drop("who").unique("key", keep="first", maintain_order=True)
    roles = plan.roles.filter(pl.col("key").is_in(once["key"].implode()))
    rows = measure_runs(suite.measures[measure], results, once, roles, str(suite.file)).drop_nulls("value")
    by_key = {key: part["value"].to_numpy() for (key,), part in rows.group_by("key")}
    found: dict[ScenePlace, dict[str, dict[int, npt.NDArray[np.float64]]]] = {}
    for key, position, who, seed in cells.select("key", "position", "who", "seed").iter_rows():
        values = found.setdefault(ScenePlace(scene, tuple(position)), {}).setdefault(who, {})
        if key in by_key:
            values[seed] = by_key[key]
    return found
