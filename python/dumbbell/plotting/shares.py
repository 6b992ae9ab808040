"""How the goodput is divided."""

import polars as pl

from dumbbell import figures
from dumbbell.errors import Nothing, Unfit, spell_option
from dumbbell.figures import Picture
from dumbbell.plotting.kinds import Kind
from dumbbell.plotting.measure_means import collect_means, note
from dumbbell.plotting.over_time import WHICH, collect_alike, describe_seed, make_error, select_seed
from dumbbell.plotting.placing import add_numbers, choose_first_key, describe_joined, order_frame, place_keys
from dumbbell.plotting.request import PlotRequest, set_facets
from dumbbell.results import aggregate
from dumbbell.results.results import StoredResults


def shares(results: StoredResults, request: PlotRequest) -> Picture:
    """Draw how goodput is divided: over time, or along a key."""
    if request.against is None:
        one = select_seed(results)
        if not one.measures("series"):
            raise make_error(results)
        found = aggregate.collect_rows(one, "series", ["time_s", "goodput_mbit"], request.keys, options=request.options)
        if request.time:
            found.frame = found.frame.filter(pl.col("time_s").is_between(*request.time))
        if found.frame.is_empty():
            raise Nothing(
                "the runs have no time series, which kind shares draws",
                f"{spell_option('against')} KEY, or such runs",
                file=results.path,
            )
        found, _ = collect_alike(found, ["goodput_mbit"], total=True)
        x, y, label = "time_s", "goodput_mbit", "time, s"
        frame = order_frame(found.axes, found.frame)
        said = describe_seed(results, one) or None
        axes, first = found.axes, None
    else:
        _, means = collect_means(
            results, request, request.value[0] if request.value else "flows.goodput_mbit", total=True
        )
        first = choose_first_key(results, means.axes, request, numeric=True)
        frame, x, _ = add_numbers(first, order_frame(means.axes, means.frame))
        y, label, axes = "mean", first.label, means.axes
        said = "; ".join(filter(None, [note(means, ""), describe_joined(first)])) or None
    divided = ("flow", WHICH, *request.by)
    by = [axis.name for axis in axes if axis.name in divided and len(axis.texts) > 1]
    if not by:
        raise Unfit(
            "the flows are all alike, which kind shares tells apart", "flows that differ, or few", file=results.path
        )
    rest = tuple(axis.name for axis in axes if axis.name not in divided and axis is not first)
    _, facet = place_keys(results, [a for a in axes if a.name in rest], set_facets(request, rest), None)
    return figures.shares(
        frame,
        x,
        y,
        by=by or None,
        facet=facet or None,
        x_label=label,
        y_label="share of goodput",
        title=said,
    )


def _show_runs(request: PlotRequest) -> str:
    return "runs one by one" if request.against is None else ""


SHARES = Kind("shares", shares, values="one", time=True, shows=_show_runs)
