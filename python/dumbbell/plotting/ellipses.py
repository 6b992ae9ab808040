"""Throughput against delay."""

from dataclasses import replace

import polars as pl

from dumbbell import figures
from dumbbell.errors import Conflict, InputError, WrongValue, spell_option
from dumbbell.figures import Picture
from dumbbell.plotting.kinds import Kind
from dumbbell.plotting.measure_means import describe_seeds, require_values
from dumbbell.plotting.placing import order_frame, place_keys
from dumbbell.plotting.request import PlotRequest
from dumbbell.results import aggregate
from dumbbell.results.aggregate import Axis
from dumbbell.results.results import Measure, StoredResults

_FILLED = 0.5  # of its link, up to which a queue says nothing


def ellipses(results: StoredResults, request: PlotRequest) -> Picture:
    """Draw throughput against delay, with one standard deviation around the mean."""
    if len(request.value) not in (0, 2):
        raise WrongValue(", ".join(request.value), "two: a delay and a throughput", option="--value")
    measures = _choose_measures(results, request)
    delay, throughput = (
        aggregate.collect_samples(
            results, f"{one.table}.{one.column}", request.keys, mean_over=request.mean_over, options=request.options
        )
        for one in measures
    )
    names = [axis.name for axis in delay.axes]
    joined = delay.frame.join(throughput.frame, on=[*names, aggregate.SEED, "hash"], suffix=" of throughput")
    pairs = joined.height
    joined = joined.drop_nulls(["value", "value of throughput"])
    missing = f"no value in {pairs - joined.height} of {pairs}" if joined.height < pairs else ""
    axes, idle = delay.axes, ""
    if delay.measure.table == "hops":
        joined, axes, idle = _select_filled(results, joined, axes)
    require_values(results, joined, [one.column for one in measures])
    by, facet = place_keys(results, axes, request, None, few=12)
    seeds = joined.group_by(names or pl.lit(1)).agg(pl.col("hash").n_unique())["hash"]
    how_often = _describe_deviations(seeds)
    hops = [text for axis in axes if axis.name == "hop" for text in axis.texts]
    of_hop = f", of {hops[0]}" if len(hops) == 1 else ""
    return figures.ellipses(
        order_frame(axes, joined),
        "value",
        "value of throughput",
        by=by or None,
        facet=facet or None,
        log_x=request.log_x,
        x_label=delay.measure.label + of_hop,
        y_label=throughput.measure.label + of_hop,
        title="; ".join([how_often, *filter(None, [missing, idle]), *delay.left_out]),
    )


def _describe_deviations(seeds: pl.Series) -> str:
    """Return what markers and ellipses are of; runs of several seeds that are the same count as one."""
    if seeds.max() == 1:
        return "one run each"
    if seeds.min() == 1:
        most = describe_seeds(seeds.filter(seeds > 1))
        return f"mean and standard deviation over {most}; no ellipse where all seeds made the same run"
    return f"mean and standard deviation over {describe_seeds(seeds)}"


def _select_filled(
    results: StoredResults, rows: pl.DataFrame, axes: list[Axis]
) -> tuple[pl.DataFrame, list[Axis], str]:
    """Return the rows and axes of those hops that something fills, and which others are left out.

    What a queue costs cannot be seen where its link is idle.
    """
    used = dict(results.hops.group_by("hop", maintain_order=True).agg(pl.col("utilisation").max()).iter_rows())
    idle = [hop for hop, most in used.items() if most is not None and most < _FILLED]
    if not idle or len(idle) == len(used):
        return rows, axes, ""
    kept = [
        replace(axis, texts=[t for t in axis.texts if t not in idle]) if axis.name == "hop" else axis for axis in axes
    ]
    most = max(used[hop] for hop in idle)
    return (
        rows.filter(~pl.col("hop").is_in(idle)),
        kept,
        f"without {', '.join(idle)}: utilisation of {most:.2g} at most",
    )


def _choose_measures(results: StoredResults, request: PlotRequest) -> tuple[Measure, Measure]:
    """Return what ellipses have across and up: two measures of runs, of flows or of classes."""
    if not request.value and request.of is None:
        return Measure("flows", "sojourn_mean_ms"), Measure("flows", "throughput_mbit")
    names = request.value or ("sojourn", "throughput")
    tables = [request.of] if request.of else [results.measure(name, by_part=request.keys).table for name in names]
    for table in dict.fromkeys([*tables, "flows", "classes"]):
        both = [measure for measure in (_measure(results, name, table) for name in names) if measure]
        if len(both) == 2 and both[0].table == both[1].table == table:
            return both[0], both[1]
    whose = " and ".join(f"{name} of {table}" for name, table in zip(names, tables, strict=False))
    raise Conflict(whose, f"two measures of one table: {spell_option('of')} flows, classes or runs", option="--value")


def _measure(results: StoredResults, name: str, table: str) -> Measure | None:
    try:
        return results.measure(name, table)
    except InputError:
        return None


ELLIPSES = Kind("ellipses", ellipses, values="pair", against=False)
