"""Lines over a number, or points over names."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Unpack

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dumbbell.figures.axes import (
    collect_numbers,
    format_category,
    is_log,
    scale,
    scale_heights,
    set_names,
    set_ticks_at_values,
)
from dumbbell.figures.canvas import Picture, make_drawing, spread
from dumbbell.figures.frames import (
    Groups,
    Layout,
    Names,
    Numbers,
    check_unique,
    convert_numbers,
    format_axis_label,
    list_facets,
    order_values,
    read_rows,
)
from dumbbell.figures.labels import find_end, name_lines
from dumbbell.figures.style import SMALL, TEXT, Style
from dumbbell.lazy import call_lazily

_MOST_MARKERS = 25
_RING = 7.5  # points: a value measured elsewhere is a ring, in which a point that agrees can be seen
_MOST_DIRECT = 6  # lines that are named at their ends
_NEAR_END = 0.08  # of a panel's width, up to which an end is at its right edge
_MOST_BANDS = 3  # intervals of more lines are bars, which can be distinguished where bands would cover each other


@make_drawing(page=call_lazily("dumbbell.figures.interactive.points", "lines"))
def lines(
    frame: Any,
    x: str,
    y: str,
    *,
    low: str | None = None,
    high: str | None = None,
    by: Names = None,
    log_x: bool | None = None,
    log_y: bool = False,
    reference: str | None = None,
    reference_name: str | None = None,
    each: str | None = None,
    x_names: Mapping[float, str] | None = None,
    bands: bool | None = None,
    **layout: Unpack[Layout],
) -> Picture:
    """Draw `y` over `x`: one line for each group of `by`, with the interval from `low` to `high` if named.

    A numeric `x` has lines, on a logarithmic axis if its values are positive and span more than a factor of 20 (or as
    `log_x` says). Any other `x` has names at equal distances, and its points are not joined. `reference` is a column
    with what was published or measured elsewhere, drawn as rings around the places of points; `reference_name` is what
    the legend calls it. `each` is a column with names of measures: a row of panels and a vertical axis for each, which
    its name labels; facets then run across. `x_names` are what to write at numbers of `x`, such as `25kB`.
    Intervals are bands or bars, as `bands` says; without it they are bands where a panel has three lines or fewer.

    Raises InputError if a column is missing or not numeric, or if two rows are for the same point.
    """
    numbers: dict[str, Names] = {"y": y, "low": low, "high": high, "reference": reference}
    rows = read_rows(frame, layout, tuple(numbers), each=each, x=x, **numbers, by=by)
    check_unique(rows, by, list_facets(layout, each), x)
    numeric = rows.schema[x].is_numeric()
    groups = _select_known(rows, by, [y, *([reference] if reference else [])])
    names = [] if numeric else order_values(rows[x])
    wide = 0.0 if numeric else 0.3 + len(names) * max(0.4, 0.075 * len(groups.keys) + 0.2)
    picture, panels = spread(rows, layout, wide=wide, series=len(groups.keys), each=each)
    places = collect_numbers(rows, x) if numeric else np.array([])
    log = numeric and is_log(log_x, places, "log_x")
    scale_heights(panels, y, low, high, reference, log=log_y)
    if numeric:
        scale(panels[0].axes.xaxis, places, log=log)
    marked = not numeric or len(np.unique(places)) <= _MOST_MARKERS
    picture.colours = {label: style.colour for label, style in zip(groups.labels, groups.styles, strict=True)}
    for panel in panels:
        parts = groups.list_parts(panel.rows)
        for number, label, part, style in parts:
            shift = 0.0 if numeric else _shift(number, len(groups.keys))
            own = part.sort(x) if numeric else part
            at = (
                convert_numbers(own[x])
                if numeric
                else np.array([names.index(v) + shift for v in own[x].to_list()], dtype=float)
            )
            banded = numeric and (bands or (bands is None and (len(parts) <= _MOST_BANDS or not marked)))
            line = _Line(label, style, joined=numeric, marked=marked, banded=banded)
            line.draw(panel.axes, at, own, _Measures(y, low, high, reference))
        if numeric:
            set_ticks_at_values(panel.axes, places, x_names)
        else:
            set_names(picture, panel.axes, [format_category(name) for name in names])
            panel.axes.set_xlim(-0.5, len(names) - 0.5)
    make_handle = partial(handle, joined=numeric, marked=marked)
    picture.add_groups(groups, make_handle)
    alone = numeric and not reference and 1 < len(groups.keys) <= _MOST_DIRECT and len(picture.grid[0]) == 1
    if alone and _are_ends_apart(picture, panels[0].axes, groups):
        name_lines(picture, panels=[panels[0].key])
    if reference:
        if len(groups.keys) == 1:
            own_handle = handle(groups.styles[0], joined=numeric, marked=marked)
            picture.add_entry(groups.labels[0] or "simulated", own_handle)
        hollow = Line2D(
            [], [], linestyle="none", marker="o", markerfacecolor="none", markeredgecolor="0.2", markersize=_RING
        )
        picture.add_entry(reference_name or format_axis_label(reference), hollow)
    return picture.set_texts(layout, format_axis_label(x), format_axis_label(y), each)


def _are_ends_apart(picture: Picture, axes: Axes, groups: Groups) -> bool:
    """Return whether all lines end at the right edge, so far apart that each has its name next to its end."""
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    found = [find_end(axes, line) for line in lines]
    ends = [axes.transAxes.inverted().transform(axes.transData.transform(end)) for end in found if end is not None]
    if len(ends) != len(groups.keys) or any(x < 1 - _NEAR_END for x, _ in ends):
        return False
    text = 1.2 * SMALL * (picture.sizes.text or TEXT) / TEXT / 72 / picture.panel_size[1]  # of the panel's height
    heights = sorted(float(y) for _, y in ends)
    return all(later - earlier > text / 2 for earlier, later in pairwise(heights)) and all(
        later - earlier > 1.5 * text for earlier, later in zip(heights, heights[2:], strict=False)
    )


def _select_known(rows: pl.DataFrame, by: Names, measures: list[str]) -> Groups:
    """Return the groups of which something is known."""
    known = rows.filter(pl.any_horizontal(pl.col(m).cast(pl.Float64).fill_nan(None).is_not_null() for m in measures))
    return Groups.from_frame(known if not known.is_empty() else rows, by)


def _shift(number: int, count: int) -> float:
    """Return where a group is drawn next to its name."""
    return (number - (count - 1) / 2) * 0.8 / count


class _Measures(NamedTuple):
    """Names of the columns that a line is drawn from."""

    y: str
    low: str | None
    high: str | None
    reference: str | None


@dataclass(frozen=True)
class _Line:
    """One line: what it is called and looks like, and whether its points are marked and its interval is a band."""

    label: str
    style: Style
    joined: bool
    marked: bool
    banded: bool

    def draw(self, axes: Axes, x: Numbers, rows: pl.DataFrame, measures: _Measures) -> None:
        """Draw it with its interval and its reference."""
        y, low, high, reference = measures
        label, colour = self.label, self.style.colour
        axes.plot(
            x,
            convert_numbers(rows[y]),
            color=colour,
            linestyle=self.style.dashes if self.joined else "none",
            marker=self.style.marker if self.marked else "None",
            label=label,
            zorder=3,
        )
        if low or high:
            bottom, top = convert_numbers(rows[low or y]), convert_numbers(rows[high or y])
            if self.banded:
                axes.fill_between(x, bottom, top, color=colour, alpha=0.15, linewidth=0, label=f"_{label}, interval")
            else:
                axes.vlines(x, bottom, top, color=colour, linewidth=1.0, label=f"_{label}, bars", zorder=2.5)
                for end in (bottom, top):
                    axes.plot(
                        x, end, linestyle="none", marker="_", color=colour, markersize=3.5, label=f"_{label}, end"
                    )
        if reference:
            axes.plot(
                x,
                convert_numbers(rows[reference]),
                linestyle="none",
                marker=self.style.marker,
                markerfacecolor="none",
                markeredgecolor=colour,
                label=f"_{label}, reference",
                markersize=_RING,
                clip_on=False,
                zorder=3.2,
            )


def handle(style: Style, *, joined: bool, marked: bool = True) -> Line2D:
    """Return what a legend shows of a line; `marked` if its points are data."""
    dashes: Any = style.dashes if joined else "none"
    return Line2D([], [], color=style.colour, marker=style.marker if marked else "None", linestyle=dashes)
