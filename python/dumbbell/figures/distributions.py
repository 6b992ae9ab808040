"""Distributions: box plots over runs, cumulative distributions of values or histograms."""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from dumbbell.figures.axes import (
    collect_finite,
    collect_numbers,
    format_category,
    is_log,
    scale,
    scale_heights,
    set_names,
)
from dumbbell.figures.canvas import Panel, Picture, group_by_measure, make_drawing, spread
from dumbbell.figures.frames import (
    Groups,
    Layout,
    Names,
    Numbers,
    convert_numbers,
    format_axis_label,
    order_values,
    read_rows,
    thin_line,
)
from dumbbell.figures.lines import handle
from dumbbell.figures.palette import make_solid
from dumbbell.figures.style import SINGLE, TEXT, Style
from dumbbell.lazy import call_lazily
from dumbbell.results.columns import BINS, LEAST_BIN

FEW_POINTS = 10
MOST_POINTS = 5000
_BOX, _LEAST_BOX, _MOST_WIDE = 0.17, 0.1, 6.0  # inches: a box, where there are many, all of them before that


@make_drawing(page=call_lazily("dumbbell.figures.interactive.points", "box"))
def box(
    frame: Any,
    x: str,
    y: str,
    *,
    by: Names = None,
    log_y: bool = False,
    each: str | None = None,
    **layout: Unpack[Layout],
) -> Picture:
    """Draw box plots of the rows (seeds) of each value of `x` and group of `by`.

    A box reaches from the first to the third quartile with a line at the median, whiskers to the furthest value
    within 1.5 of its length. With ten rows or fewer each is drawn as a point, else only those beyond the whiskers.
    `each` is as for `lines`.
    """
    rows = read_rows(frame, layout, ("y",), each=each, x=x, y=y, by=by)
    names, groups = order_values(rows[x]), Groups.from_frame(rows, by)
    count = len(groups.keys)
    stride = count + 0.8
    picture, panels = spread(rows, layout, wide=_choose_width(stride * len(names)), each=each)
    scale_heights(panels, y, log=log_y)
    for panel in panels:
        axes = panel.axes
        for number, label, part, style in groups.list_parts(panel.rows):
            own = [collect_numbers(part.filter(pl.col(x).eq_missing(name)), y) for name in names]
            at = [i * stride + number - (count - 1) / 2 for i in range(len(names))]
            filled = [(place, values) for place, values in zip(at, own, strict=True) if len(values)]
            if not filled:
                continue
            few = max(len(values) for _, values in filled) <= FEW_POINTS
            made = axes.boxplot(
                [values for _, values in filled],
                positions=[place for place, _ in filled],
                widths=0.72,
                manage_ticks=False,
                patch_artist=True,
                showfliers=not few,
                boxprops={"facecolor": style.colour, "alpha": 0.55, "edgecolor": "0.2", "linewidth": 0.8},
                medianprops={"color": "black", "linewidth": 1.5},
                whiskerprops={"color": "0.2", "linewidth": 0.9},
                capprops={"color": "0.2", "linewidth": 0.9},
                flierprops={"marker": style.marker, "markersize": 3, "markeredgecolor": style.colour},
            )
            for patch in made["boxes"]:
                patch.set_label(label)
                patch.set_hatch(style.hatch if count > 1 else "")
            if few:
                for place, values in filled:
                    beside = place + (np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else np.zeros(1))
                    axes.plot(
                        beside,
                        values,
                        linestyle="none",
                        marker=style.marker,
                        markersize=3.5,
                        markerfacecolor=style.colour,
                        markeredgecolor="white",
                        markeredgewidth=0.5,
                        label=f"_{label}, points",
                        zorder=4,
                    )
        set_names(picture, axes, [format_category(name) for name in names], [i * stride for i in range(len(names))])
        axes.set_xlim(-stride / 2 - 0.1, (len(names) - 0.5) * stride + 0.1)
    picture.add_groups(
        groups,
        lambda style: Patch(facecolor=style.colour, alpha=0.55, edgecolor="0.2", linewidth=0.8, hatch=style.hatch),
    )
    return picture.set_texts(layout, format_axis_label(x), format_axis_label(y), each)


def _choose_width(boxes: float) -> float:
    """Return the width of a panel with so many boxes in inches."""
    return 0.3 + boxes * max(_LEAST_BOX, min(_BOX, _MOST_WIDE / boxes))


_MOST_NAMED = 4  # curves whose names can stand beside them
_CHARACTER, _NEAR = 0.057, 0.06  # inches of a character; half of the height of a name, as a share
_LEVELS = (0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.2)  # shares at which a name may stand


@make_drawing(page=call_lazily("dumbbell.figures.interactive.over_time", "cdf"))
def cdf(
    frame: Any,
    value: str,
    *,
    weight: str | None = None,
    by: Names = None,
    complementary: bool = False,
    log_x: bool | None = None,
    log_y: bool = False,
    each: str | None = None,
    **layout: Unpack[Layout],
) -> Picture:
    """Draw the share of values up to `value`, or above it if `complementary`; one line for each group of `by`.

    With `weight` a row is a bin of a histogram: `value` is its lower edge, and it reaches to the next in the frame.
    Bins of the store's tables `sojourn` and `rtt` (`from_ms`) reach no further than the engine's bins do, since
    empty ones are left out. Bins of several runs in one group are added up. An infinite value is one of what never
    happened: it counts, and the lines go on to the right end. `each` is a column with names of measures:
    a column of panels and a horizontal axis for each, which its name labels; facets then run down.
    """
    rows = read_rows(frame, layout, ("value", "weight"), each=each, value=value, weight=weight, by=by)
    groups = Groups.from_frame(rows, by)
    drawn = make_solid(groups.styles)
    picture, panels = spread(rows, layout, series=len(groups.keys), each=each, across_each=True)
    curves: list[tuple[Panel, int, tuple[Numbers, Numbers]]] = []
    logs: dict[int, bool] = {}
    for of_measure, theirs in group_by_measure(panels):
        places = collect_numbers(theirs, value)
        edges = np.unique(places) if weight else np.array([])
        log = logs[of_measure[0].measure] = is_log(log_x, places, "log_x")
        scale(of_measure[0].axes.xaxis, places, log=log)
        never = weight is None and bool(np.isinf(convert_numbers(theirs[value])).any())
        for panel in of_measure:
            for number, part in enumerate(groups.split(panel.rows)):
                x, y = compute_steps(part, value, weight, edges, complementary=complementary)
                if never and len(x):
                    x, y = np.append(x, places.max()), np.append(y, y[-1])
                curves.append((panel, number, (x, y)))
    shares = collect_finite(*(y for _, _, (_, y) in curves))
    shares = shares[shares > 0] if log_y else shares
    scale(panels[0].axes.yaxis, shares, log=log_y)
    for panel, number, (x, y) in curves:
        if not len(x):
            continue
        style = drawn[number]
        x, y = thin_line(x, y, MOST_POINTS, log=logs[panel.measure])
        panel.axes.plot(
            x,
            np.where(y > 0, y, np.nan) if log_y else y,
            color=style.colour,
            linestyle=style.dashes,
            drawstyle="default" if weight else "steps-post",
            label=groups.labels[number],
            zorder=3,
        )
    for panel in panels:
        if log_y:
            panel.axes.set_ylim(max(float(shares.min()), 1e-7) / 1.3 if len(shares) else 1e-3, 1.2)
        else:
            panel.axes.set_ylim(0, 1.02)
    if len(groups.keys) > 1:
        shown = [(groups.labels[number], drawn[number], xy) for _, number, xy in curves]
        if len(panels) > 1 or log_y or not _name_curves(picture, panels[0].axes, shown, log=logs[panels[0].measure]):
            for label, own in zip(groups.labels, drawn, strict=True):
                picture.add_entry(label, handle(own, joined=True, marked=False))
    share = f"share of {format_axis_label(weight or 'values')} {'above' if complementary else 'up to'} x"
    return picture.set_texts(layout, format_axis_label(value), share)


def _name_curves(
    picture: Picture, axes: Axes, curves: Sequence[tuple[str, Style, tuple[Numbers, Numbers]]], *, log: bool
) -> bool:
    """Write the name of each curve next to it where no other curve is near; return False if there is no room."""
    if len(curves) > _MOST_NAMED or not all(len(x) for _, _, (x, _) in curves):
        return False
    larger = (picture.sizes.text or TEXT) / TEXT
    width = (picture.sizes.width or SINGLE) - 0.8
    every = np.concatenate([x for _, _, (x, _) in curves])
    least, most = (float(np.log(end) if log else end) for end in (every.min(), every.max()))

    def find_ends(xy: tuple[Numbers, Numbers], level: float) -> tuple[float, float]:
        """Return between which places a curve crosses a level, in inches from the left."""
        x, y = xy
        near = np.abs(y - level) <= _NEAR
        crossed = np.flatnonzero((y[:-1] - level) * (y[1:] - level) <= 0)
        at = np.concatenate([x[near], x[crossed], x[crossed + 1]])
        if not len(at):
            return np.inf, -np.inf
        places = ((np.log(at) if log else at) - least) / ((most - least) or 1.0) * width
        return float(places.min()), float(places.max())

    notes = []
    for label, style, xy in curves:
        needed = _CHARACTER * larger * len(label) + 0.15
        for level in _LEVELS:
            first, last = find_ends(xy, level)
            others = [find_ends(other, level) for _, _, other in curves if other is not xy]
            after = min([begin for begin, end in others if end > first] + [width])
            before = max([end for begin, end in others if begin < last] + [0.0])
            side = 1 if after - last >= needed else -1 if first - before >= needed else 0
            if side and np.isfinite(first):
                edge = (last if side > 0 else first) / width * (most - least) + least
                notes.append((label, style, (float(np.exp(edge)) if log else edge, level), side))
                break
    if len(notes) < len(curves):
        return False
    for label, style, place, side in notes:
        axes.annotate(
            label,
            place,
            xytext=(4 * side, 0),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center",
            fontsize="small",
            color=style.colour,
        )
    return True


def compute_steps(
    rows: pl.DataFrame, value: str, weight: str | None, edges: Numbers, *, complementary: bool = False
) -> tuple[Numbers, Numbers]:
    """Return places and the share of values up to (or above) each; of a histogram, corners of a line."""
    known = rows.filter(pl.col(value).cast(pl.Float64).is_finite())
    if known.is_empty():
        return np.array([]), np.array([])
    if weight is None:
        x, times = np.unique(convert_numbers(known[value]), return_counts=True)
        # of all values: an infinite one, of what never happened, is in no step
        whole = convert_numbers(rows[value])
        y = np.cumsum(times) / np.count_nonzero(~np.isnan(whole))
        x, y = np.concatenate([x[:1], x]), np.concatenate([[0.0], y])
    else:
        bins = known.group_by(value).agg(pl.col(weight).sum()).sort(value)
        start, counts = convert_numbers(bins[value]), convert_numbers(bins[weight])
        if not counts.sum() > 0:
            return np.array([]), np.array([])
        index = np.searchsorted(edges, start) + 1
        last = float(edges[-1] + (edges[-1] - edges[-2] if len(edges) > 1 else 0.0))
        end = np.append(edges, last)[index]
        if value == "from_ms":  # of the engine's histogram, of which the store leaves out empty bins
            end = np.minimum(end, start + np.maximum(start / BINS, LEAST_BIN))
        total = np.cumsum(counts) / counts.sum()
        x = np.column_stack([start, end]).ravel()
        y = np.column_stack([np.concatenate([[0.0], total[:-1]]), total]).ravel()
    return x, 1 - y if complementary else y
