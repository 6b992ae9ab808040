"""Figures of one value per run, or of means over seeds: lines, bars, boxes, maps."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from dumbbell import figures
from dumbbell.errors import Missing, Unfit
from dumbbell.figures import Picture
from dumbbell.plotting.kinds import Kind
from dumbbell.plotting.measure_means import (
    collect_means,
    describe_late,
    describe_means,
    describe_seeds,
    format_y_label,
    note,
)
from dumbbell.plotting.placing import (
    add_numbers,
    choose_first_key,
    describe_joined,
    find_common_axes,
    join_frames,
    name_numbers,
    order_frame,
    place_keys,
)
from dumbbell.plotting.request import MOST_LINES, PlotRequest, set_facets
from dumbbell.results import censored
from dumbbell.results.aggregate import Axis, Means, Samples
from dumbbell.results.columns import COLUMNS
from dumbbell.results.results import StoredResults

_ALL = "all of them"  # a column with one value: what differs in nothing stands in one place


def lines(results: StoredResults, request: PlotRequest) -> Picture:
    """Draw means over seeds with their intervals along a key."""
    found = [_clip_intervals(means, request) for _, means in _compute_each(results, request, numeric=True)]
    axes = find_common_axes([one.axes for one in found])
    first = choose_first_key(results, _find_shared_axes(axes, found), request, numeric=True)
    by, facet = place_keys(results, axes, request, first)
    frame, each = join_frames(axes, [(format_y_label(one, request), one) for one in found])
    frame, x, x_label = add_numbers(first, frame)
    return figures.lines(
        frame.drop_nulls("mean"),
        x,
        "mean",
        low="low",
        high="high",
        by=by or None,
        facet=facet or None,
        log_x=request.log_x,
        log_y=request.log_y,
        each=each,
        x_label=x_label,
        x_names=name_numbers(first),
        y_label=format_y_label(found[0], request),
        title="; ".join(filter(None, [describe_means(found), describe_joined(first)])) or None,
    )


def _compute_each(
    results: StoredResults, request: PlotRequest, *, numeric: bool = False
) -> list[tuple[Samples, Means]]:
    """Return values and means of every measure that is asked for."""
    wanted = request.value or (results.choose_measures(request.of)[0],)
    return [collect_means(results, request, value, numeric=numeric) for value in wanted]


def _clip_intervals(found: Means, request: PlotRequest) -> Means:
    """Return means whose intervals end where values do: at 0 of what is never negative, at 1 of shares."""
    if request.baseline:  # differences have either sign
        return found
    column = COLUMNS.get(found.measure.table, {}).get(found.measure.column)
    means = found.frame["mean"].drop_nulls()
    least = 0.0 if bool((means >= 0).all()) else None
    most = column.most if column and bool((means <= (column.most or math.inf)).all()) else None
    return replace(found, frame=found.frame.with_columns(pl.col("low", "high").clip(least, most)))


def bars(results: StoredResults, request: PlotRequest) -> Picture:
    """Draw means over seeds as bars."""
    found = [_clip_intervals(means, request) for _, means in _compute_each(results, request)]
    axes = find_common_axes([one.axes for one in found])
    first = _choose_name_key(results, request, axes, found)
    by, facet = place_keys(results, axes, request, first, few=MOST_LINES)
    if len(by) > 2:
        by, facet = by[:2], [*by[2:], *facet]
    frame, each = join_frames(axes, [(format_y_label(one, request), one) for one in found])
    group, inner = (by[0], by[1]) if len(by) > 1 else (by[0] if by else None, None)
    return figures.bars(
        frame.drop_nulls("mean").with_columns(pl.lit("all runs").alias(_ALL)),
        first.name if first else _ALL,
        "mean",
        low="low",
        high="high",
        group=group,
        inner=inner,
        facet=facet or None,
        log_y=request.log_y,
        each=each,
        x_label=first.label_of_texts if first else "",
        y_label=format_y_label(found[0], request),
        title=describe_means(found),
    )


def _find_shared_axes(axes: Sequence[Axis], found: Sequence[Samples]) -> list[Axis]:
    """Return the keys that all measures have: one of them is along the horizontal axis."""
    return [axis for axis in axes if all(axis.name in [own.name for own in one.axes] for one in found)]


def _choose_name_key(
    results: StoredResults, request: PlotRequest, axes: Sequence[Axis], found: Sequence[Samples]
) -> Axis | None:
    """Return the key whose names are along the horizontal axis; None if the measures have no key in common."""
    shared = _find_shared_axes(axes, found)
    return choose_first_key(results, shared, request, numeric=False) if shared else None


def box(results: StoredResults, request: PlotRequest) -> Picture:
    """Draw quartiles of the seeds."""
    found, means = zip(*_compute_each(results, request), strict=True)
    found = tuple(_add_limits(results, one, request) for one in found)
    axes = find_common_axes([one.axes for one in found])
    first = _choose_name_key(results, request, axes, found)
    by, facet = place_keys(results, axes, request, first)
    frame, each = join_frames(axes, [(format_y_label(one, request), one) for one in found])
    return figures.box(
        frame.drop_nulls("value").with_columns(pl.lit("all runs").alias(_ALL)),
        first.name if first else _ALL,
        "value",
        by=by or None,
        facet=facet or None,
        log_y=request.log_y,
        each=each,
        x_label=first.label_of_texts if first else "",
        y_label=format_y_label(found[0], request),
        title=_describe_boxes(means),
    )


def _describe_boxes(found: Sequence[Means]) -> str:
    """Return how many seeds boxes are of, what is left out, and how many runs are drawn where they were over."""
    said: list[str | None] = []
    for one in found:
        is_late = censored.is_censored(one.measure)
        said.append(describe_seeds(one.frame["runs" if is_late else "n"]))
        said.append(
            _count_late(one) if is_late else describe_means([replace(one, frame=one.frame.with_columns(n=pl.lit(0)))])
        )
    return "; ".join(dict.fromkeys(filter(None, said)))


def _count_late(found: Means) -> str:
    """Return how many runs are drawn where they were over, because a time was not reached in them."""
    how = ", which are drawn where they were over: their times are longer"
    return describe_late(int(found.frame["none"].sum()), int(found.frame["runs"].sum()), how)


def _add_limits(results: StoredResults, found: Samples, request: PlotRequest) -> Samples:
    """Return values of a censored time with those of runs that did not reach it: as long as the run was watched."""
    if not censored.is_censored(found.measure) or request.baseline:
        return found
    rows = censored.add_limits(results, found, request.keys, mean_over=request.mean_over, options=request.options)
    return replace(found, frame=rows.with_columns(pl.coalesce("value", "watched").alias("value")).drop("watched"))


def heat(results: StoredResults, request: PlotRequest, *, ratio: bool = False) -> Picture:
    """Draw means over two keys as a map; with `ratio`, over those of the baseline."""
    if ratio and not request.baseline:
        raise Missing("KEY=VALUE, the runs by which kind ratio divides", key="--baseline")
    _, found = collect_means(
        results, request, request.value[0] if request.value else "utilisation", ratio=ratio, numeric=None
    )
    several = [axis for axis in found.several if axis.name not in request.facet]
    chosen = [axis for axis in several if axis.name in (request.against, *request.by)]
    others = sorted((a for a in several if a not in chosen), key=lambda a: (a.numbers is None, -len(a.texts)))
    chosen = [*chosen, *others][:2]
    if len(chosen) < 2:
        raise Unfit("fewer than two keys differ", "another kind: a heat map has two keys", file=results.path)
    # delays across and rates up, as published maps have them
    x, y = chosen if request.against or "rtt" in chosen[0].name else chosen[::-1]
    rest = [axis for axis in found.axes if axis not in (x, y)]
    _, facet = place_keys(results, rest, set_facets(request, [axis.name for axis in rest]), None)
    label = format_y_label(found, request, "ratio" if ratio else "")
    of_shares = found.measure.column == "share" and not request.baseline
    frame = order_frame(found.axes, found.frame)
    frame, across, _ = add_numbers(x, frame) if name_numbers(x) is None else (frame, x.name, "")
    frame, up, _ = add_numbers(y, frame) if name_numbers(y) is None else (frame, y.name, "")
    joint = [text for text in (describe_joined(x), describe_joined(y)) if text]
    return figures.heat(
        frame,
        across,
        up,
        "mean",
        facet=facet or None,
        kind="ratio" if ratio else "difference" if request.baseline else "share" if of_shares else "plain",
        x_label=x.label if x.label != y.label else f"{x.label}, {x.name.rpartition('.')[0]}",
        y_label=y.label if x.label != y.label else f"{y.label}, {y.name.rpartition('.')[0]}",
        label=_name_share(results, label) if of_shares and results.of_parts else label,
        title="; ".join(filter(None, [note(found, ""), *joint])) or None,
    )


def _name_share(results: StoredResults, label: str) -> str:
    """Return whose share it is, of flows that are chosen; their control if it is the same everywhere."""
    ccs = results.flows["cc"].unique().to_list()
    return f"{ccs[0] if len(ccs) == 1 else 'the first flow'}'s {label}"


LINES = Kind("lines", lines, baseline=True)
BARS = Kind("bars", bars, baseline=True)
BOX = Kind("box", box, baseline=True)
HEAT = Kind("heat", heat, values="one", baseline=True)
RATIO = Kind("ratio", partial(heat, ratio=True), values="one", baseline=True)
