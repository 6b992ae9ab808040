"""Cumulative distributions: of packets, of short flows, of runs."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from dumbbell import figures
from dumbbell.errors import Conflict, spell_option
from dumbbell.figures import Picture
from dumbbell.plotting.kinds import Kind
from dumbbell.plotting.measure_means import collect_means, describe_late, describe_seeds, format_y_label, require_values
from dumbbell.plotting.placing import find_common_axes, join_frames, place_keys
from dumbbell.plotting.request import PlotRequest
from dumbbell.results import aggregate, censored
from dumbbell.results.aggregate import Samples
from dumbbell.results.columns import format_axis_label
from dumbbell.results.results import StoredResults

_AT_ONCE_MS = 0.05  # where a logarithmic axis has packets that waited less: they met an empty queue
_COUNT = "count"
_BINS = {
    "sojourn": ("sojourn", "from_ms", "packets"),
    "rtt": ("rtt", "from_ms", "samples"),
    "pings": ("rtt", "from_ms", "samples"),
}


def cdf(results: StoredResults, request: PlotRequest, *, complementary: bool = False) -> Picture:
    """Draw the share of packets, round trips, short flows or runs up to each value; above it if `complementary`."""
    values = request.value or ("sojourn",)
    of_bins = [value for value in values if value in _BINS]
    if 0 < len(of_bins) < len(values):
        found_values = (
            f"{', '.join(values)}, of which {', '.join(of_bins)} are counts of packets and the others values,"
        )
        raise Conflict(found_values, f"either of {', '.join(_BINS)}, or others", option="--value")
    if request.of is not None and of_bins:
        kind = CCDF if complementary else CDF
        raise Conflict(
            f"{request.of} and kind {kind.name}", f"{spell_option('value')}, which names what is drawn", option="--of"
        )
    found = [_collect_values(results, request, value, request.keys) for value in values]
    unnamed = len(of_bins) > 1 and not {"class", "which"} & set(request.keys)
    if unnamed and any(axis.name == "class" for one, _ in found for axis in one.axes):
        # RTTs of a single class say whose they are beside times in queue of several
        found = [_collect_values(results, request, value, [*request.keys, "which"]) for value in values]
    axes = find_common_axes([one.axes for one, _ in found])
    by, facet = place_keys(results, axes, request, None)
    frame, each = join_frames(axes, [(label, one) for one, label in found])
    values_of = frame["from_ms" if of_bins else "value"]
    missing = [f"no value in {values_of.null_count()} of {values_of.len()}"] if values_of.null_count() else []
    frame = frame.drop_nulls("from_ms" if of_bins else "value")
    require_values(results, frame, values)
    if of_bins and request.log_x is not False:
        frame = frame.with_columns(pl.col("from_ms").clip(_AT_ONCE_MS))
    runs = frame.group_by([*(axis.name for axis in axes), *([each] if each else [])] or pl.lit(1))
    seeds = runs.agg(pl.col("hash").n_unique())["hash"]
    over = found[0][0].over
    together = f"{describe_seeds(seeds)} together" if seeds.max() != 1 else "one run each"
    if over:
        together = f"{aggregate.format_counts(seeds)} run{'s' * (seeds.max() != 1)} together, over {', '.join(over)}"
    left_out = dict.fromkeys(text for one, _ in found for text in one.left_out)
    said = [*([] if len(results) == 1 else [together]), *missing, *left_out]
    counted = _BINS[values[0]][2] if of_bins else "values"
    return figures.cdf(
        frame,
        "from_ms" if of_bins else "value",
        weight=_COUNT if of_bins else None,
        by=by or None,
        facet=facet or None,
        complementary=complementary,
        log_x=request.log_x,
        log_y=request.log_y or complementary,
        each=each,
        x_label=found[0][1],
        y_label=f"share{f' of {counted}' * (not each)} {'above x (CCDF)' if complementary else '(CDF)'}",
        title="; ".join(said) or None,
    )


def _collect_values(
    results: StoredResults, request: PlotRequest, value: str, keys: Sequence[str]
) -> tuple[Samples, str]:
    """Return what one distribution is of, as `value`, or as bins with `from_ms` and a count; and what it is called."""
    if value in _BINS:
        table, column, weight = _BINS[value]
        label = format_axis_label(column, table)
        if value == "pings":
            results, label = results.where("kind=udp"), label.replace("RTT", "RTT of pings")
        found = aggregate.collect_rows(
            results, table, [column, weight], keys, mean_over=request.mean_over, options=request.options
        )
        return replace(found, frame=found.frame.rename({weight: _COUNT})), label
    if value in ("completion", "slowdown", "completion_s"):
        column = "slowdown" if value == "slowdown" else "completion_s"
        found = aggregate.collect_rows(
            results, "short_flows", [column], keys, mean_over=request.mean_over, options=request.options
        )
        return replace(found, frame=found.frame.rename({column: "value"})), format_axis_label(column, "short_flows")
    found, means = collect_means(results, request, value)
    if censored.is_censored(found.measure):  # such runs are in no step, and in the number that shares are of
        late = describe_late(int(means.frame["none"].sum()), int(means.frame["runs"].sum()))
        label = f"{format_y_label(found, request)}{'; ' * bool(late)}{late}"
        return replace(found, frame=found.frame.with_columns(pl.col("value").fill_null(math.inf))), label
    if found.measure.of != "run" and not request.mean_over:  # of each flow, not of those that are alike together
        measure = found.measure
        own = aggregate.collect_rows(results, measure.table, [measure.column], request.keys)
        found = replace(own, frame=own.frame.rename({measure.column: "value"}))
    return found, format_y_label(found, request)


CDF = Kind("cdf", cdf, against=False)
CCDF = Kind("ccdf", partial(cdf, complementary=True), against=False)
