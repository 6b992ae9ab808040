"""Fronts: many points of two measures, of which no other point is better than some in both."""

from typing import Any, Literal, Unpack

import numpy as np
from matplotlib.lines import Line2D

from dumbbell.figures.axes import collect_finite, collect_numbers, is_log, scale
from dumbbell.figures.canvas import Picture, make_drawing, spread
from dumbbell.figures.frames import Layout, Numbers, convert_numbers, format_axis_label, read_rows
from dumbbell.figures.style import COLOURS
from dumbbell.lazy import call_lazily

OTHER, ON_FRONT, AS_GIVEN = "other candidate", "on the front", "as the file has it"
GROUPS = (OTHER, ON_FRONT, AS_GIVEN)
_ROOM, _BEYOND = 0.06, 1.0  # of the front's width: around all, and beyond the front on the side where points are worse


@make_drawing(page=call_lazily("dumbbell.figures.interactive.points", "front"))
def front(
    frame: Any,
    x: str,
    y: str,
    *,
    group: str,
    x_ends: tuple[str, str] | None = None,
    y_ends: tuple[str, str] | None = None,
    steps: Literal["pre", "post"] = "post",
    log_x: bool | None = None,
    log_y: bool | None = None,
    **layout: Unpack[Layout],
) -> Picture:
    """Draw `y` over `x` as points: small and grey, or joined by steps on the front, by the words `GROUPS` in `group`.

    `x_ends` and `y_ends` are the columns of the ends of intervals, which are drawn of points on the front. The steps
    are the border of what the front dominates: `post` where less of `x` is better, else `pre`. Points that are far
    from the front lie outside of the axes; `count_outside` says how many.
    """
    rows = read_rows(frame, layout, ("x", "y", "x_ends", "y_ends"), x=x, y=y, x_ends=x_ends, y_ends=y_ends, group=group)
    picture, panels = spread(rows, layout, size=lambda _: (4.2, 3.0))
    axes = panels[0].axes
    known = rows.filter(rows[group] != OTHER)
    for axis, name, own, log in ((axes.xaxis, x, x_ends, log_x), (axes.yaxis, y, y_ends, log_y)):
        numbers = collect_numbers(known, name, *(own or ()))
        logarithmic = is_log(log, numbers, "log_x" if name == x else "log_y")
        scale(axis, numbers, log=logarithmic)
        low, high = find_limits(rows, name, own, group, log=logarithmic)
        (axes.set_xlim if name == x else axes.set_ylim)(low, high)
    for number, name in enumerate(GROUPS):
        part = rows.filter(rows[group] == name).sort(x, y)
        if part.is_empty():
            continue
        at, heights = convert_numbers(part[x]), convert_numbers(part[y])
        look = _LOOKS[name]
        if name == ON_FRONT:
            axes.step(at, heights, where=steps, color=COLOURS[0], linewidth=1.0, label="_steps", zorder=2)
        if name != OTHER and x_ends:
            first, last = (convert_numbers(part[one]) for one in x_ends)
            axes.hlines(heights, first, last, color=look["color"], label="_x", zorder=2.5)
        if name != OTHER and y_ends:
            first, last = (convert_numbers(part[one]) for one in y_ends)
            axes.vlines(at, first, last, color=look["color"], label="_y", zorder=2.5)
        axes.plot(at, heights, linestyle="none", label=name, zorder=2 + number / 2, **look)
        picture.add_entry(name, Line2D([], [], linestyle="none", **look))
    return picture.set_texts(layout, format_axis_label(x), format_axis_label(y))


_LOOKS: dict[str, dict[str, Any]] = {
    OTHER: {"marker": ".", "color": "0.7", "markersize": 3.5},
    ON_FRONT: {"marker": "o", "color": COLOURS[0], "markersize": 3.5},
    AS_GIVEN: {"marker": "D", "color": COLOURS[1], "markersize": 4.5},
}


def find_limits(rows: Any, name: str, ends: tuple[str, str] | None, group: str, *, log: bool) -> tuple[float, float]:
    """Return the ends of an axis: around the front and what is given, and as far beyond as the front is wide."""

    def convert(numbers: Numbers) -> Numbers:
        return np.log10(numbers[numbers > 0]) if log else numbers

    kept = convert(collect_numbers(rows.filter(rows[group] != OTHER), name, *(ends or ())))
    every = convert(collect_finite(convert_numbers(rows[name])))
    least, most = float(kept.min()), float(kept.max())
    width = (most - least) or abs(most) or 1.0
    low = max(float(min(every.min(), least)), least - _BEYOND * width) - _ROOM * width
    high = min(float(max(every.max(), most)), most + _BEYOND * width) + _ROOM * width
    if not log and least >= 0 and low < 0:
        low = 0.0
    return (float(10**low), float(10**high)) if log else (low, high)


def count_outside(picture: Picture, rows: Any, x: str, y: str) -> int:
    """Return how many points lie outside of the axes of a figure."""
    axes = next(iter(picture.panels.values()))
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    at, heights = convert_numbers(rows[x]), convert_numbers(rows[y])
    inside = (at >= left) & (at <= right) & (heights >= bottom) & (heights <= top)
    return int((~inside & np.isfinite(at) & np.isfinite(heights)).sum())
