"""Throughput against delay."""

import polars as pl

from dumbbell import figures
from dumbbell.errors import Conflict, InputError, WrongValue, flag
from dumbbell.figures import Picture
from dumbbell.plotting.asked import Asked
from dumbbell.plotting.measured import require_values, seeds_said
from dumbbell.plotting.placing import in_order, placed
from dumbbell.results import aggregate
from dumbbell.results.columns import axis_label
from dumbbell.results.results import Measure, Results


def ellipses(results: Results, asked: Asked) -> Picture:
    """Draw throughput against delay, with one standard deviation around the mean."""
    if len(asked.value) not in (0, 2):
        raise WrongValue("--value", "", ", ".join(asked.value), "two: a delay and a throughput")
    measures = _of_one_table(results, asked)
    delay, throughput = (
        aggregate.samples(
            results, f"{one.table}.{one.column}", asked.keys, mean_over=asked.mean_over, options=asked.options
        )
        for one in measures
    )
    names = [axis.name for axis in delay.axes]
    joined = delay.frame.join(throughput.frame, on=[*names, aggregate.SEED, "hash"], suffix=" of throughput")
    pairs = joined.height
    joined = joined.drop_nulls(["value", "value of throughput"])
    require_values(results, joined, [one.column for one in measures])
    by, facet = placed(results, delay.axes, asked, None, few=12)
    seeds = joined.group_by(names or pl.lit(1)).agg(pl.col("hash").n_unique())["hash"]
    how_often = f"mean and standard deviation of {seeds_said(seeds)}" if seeds.max() != 1 else "one run each"
    missing = f"no value in {pairs - joined.height} of {pairs}" if joined.height < pairs else ""
    return figures.ellipses(
        in_order(delay.axes, joined),
        "value",
        "value of throughput",
        by=by or None,
        facet=facet or None,
        log_x=asked.log_x,
        x_label=axis_label(delay.measure.column, delay.measure.table),
        y_label=axis_label(throughput.measure.column, throughput.measure.table),
        title="; ".join([how_often, *([missing] if missing else []), *delay.left_out]),
    )


def _of_one_table(results: Results, asked: Asked) -> tuple[Measure, Measure]:
    """Return what ellipses have across and up: two measures of runs, of flows or of classes."""
    if not asked.value and asked.of is None:
        return Measure("flows", "sojourn_mean_ms"), Measure("flows", "throughput_mbit")
    names = asked.value or ("sojourn", "throughput")
    tables = [asked.of] if asked.of else [results.measure(name, by_part=asked.keys).table for name in names]
    for table in dict.fromkeys([*tables, "flows", "classes"]):
        both = [measure for measure in (_measure(results, name, table) for name in names) if measure]
        if len(both) == 2 and both[0].table == both[1].table == table:
            return both[0], both[1]
    whose = " and ".join(f"{name} of {table}" for name, table in zip(names, tables, strict=False))
    raise Conflict("--value", "", whose, f"two measures of one table: {flag('of')} flows, classes or runs")


def _measure(results: Results, name: str, table: str) -> Measure | None:
    try:
        return results.measure(name, table)
    except InputError:
        return None
