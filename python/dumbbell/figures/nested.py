"""Points over names within names: one measure over every combination of up to three keys."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from dumbbell.errors import OutOfRange
from dumbbell.figures.axes import collect_numbers, format_category, is_log, scale, set_names
from dumbbell.figures.canvas import Picture, make_drawing, spread
from dumbbell.figures.frames import (
    Groups,
    Layout,
    Names,
    check_unique,
    convert_numbers,
    format_axis_label,
    order_values,
    read_rows,
)
from dumbbell.figures.lines import handle
from dumbbell.figures.style import GUIDE

_STEP, _NARROW = 0.13, 2.4  # inches from one value of the innermost key to the next, and of the narrowest panel
_INNER = 7.5  # points, of the names of the innermost key
_APART = (0.0, 1.0, 1.6)  # steps more where the second key changes, and the third
_HEIGHT, _LOW = 2.4, 1.7  # inches, of a panel; of one of more than two
_LEFT = -8  # points, from the vertical axis to the words for the keys

_Place = tuple[Any, ...]


@make_drawing()
def nested(
    frame: Any,
    x: Sequence[str],
    y: str,
    *,
    low: str | None = None,
    high: str | None = None,
    by: Names = None,
    facet: Names = None,
    log_y: bool = False,
    bottom: float | None = None,
    top: float | None = None,
    words: Sequence[str] | None = None,
    y_label: str | None = None,
    title: str | None = None,
) -> Picture:
    """Draw `y` as points at every combination of the keys `x`, the innermost first; a line joins its values.

    The keys' values are below the axis, one line each; `words`, or else the columns' names, say what they are. Each
    group of `by` has its colour and marker, `low` to `high` is drawn as a bar, and each value of `facet` has a panel
    below the one before. A combination without a row, or without a number, is left blank. The vertical axis begins at 0
    unless it is logarithmic or values are negative; `bottom` and `top` end it elsewhere, and what lies beyond is cut
    off. Raises InputError if a column is missing or not numeric, or if two rows are for the same point.
    """
    keys = tuple(x)
    if not 1 <= len(keys) <= len(_APART):
        raise OutOfRange(f"{len(keys)} keys", f"1 to {len(_APART)}", key="x")
    layout: Layout = {"facet": facet, "columns": 1, "y_label": y_label, "title": title}
    rows = read_rows(frame, layout, ("y", "low", "high"), x=keys, y=y, low=low, high=high, by=by)
    check_unique(rows, by, facet, keys)
    names = [order_values(rows[key]) for key in reversed(keys)]  # the outermost first
    places = _place_names(names)
    end = max(places.values()) + 1
    height = _HEIGHT if len(Groups.from_frame(rows, facet).keys) <= 2 else _LOW
    picture, panels = spread(rows, layout, size=lambda _: (max(end * _STEP, _NARROW), height))
    groups = Groups.from_frame(rows, by)
    heights = collect_numbers(rows, y, low, high)
    log = is_log(log_y, heights, "log_y")
    scale(panels[0].axes.yaxis, heights, log=log)
    for panel in panels:
        for label, part, style in zip(groups.labels, groups.split(panel.rows), groups.styles, strict=True):
            known = {place: i for i, place in enumerate(part.select(reversed(keys)).rows())}
            values = convert_numbers(part[y])
            for outer in itertools.product(*names[:-1]):
                inner = [(*outer, value) for value in names[-1]]
                panel.axes.plot(
                    [places[place] for place in inner],
                    [values[known[place]] if place in known else np.nan for place in inner],
                    color=style.colour,
                    marker=style.marker,
                    markersize=4.0,
                    linestyle=style.dashes,
                    linewidth=1.2,
                    label=label,
                    zorder=3,
                )
            if low or high:
                at = [places[place] for place in known]
                ends = convert_numbers(part[low or y]), convert_numbers(part[high or y])
                panel.axes.vlines(at, *ends, color=style.colour, linewidth=1.0, label=f"_{label}, bars", zorder=2.5)
        set_names(picture, panel.axes, [format_category(place[-1]) for place in places], list(places.values()))
        panel.axes.tick_params(axis="x", labelsize=_INNER)
        panel.axes.set_xlim(-1, end)
        _draw_borders(panel.axes, names, places)
        if not log:
            least, most = (float(heights.min()), float(heights.max())) if len(heights) else (0.0, 1.0)
            begin = min(0.0, least * 1.05) if bottom is None else bottom
            panel.axes.set_ylim(begin, max(most * 1.05, 0.0 if least < 0 else 1e-9) if top is None else top)
            if least < 0:
                panel.axes.axhline(0, color=GUIDE, linewidth=0.8, zorder=1.6, label="_zero")
    for lowest in picture.list_lowest():
        _write_names(picture, lowest, names, places, list(words or map(format_axis_label, keys)))
    picture.add_groups(groups, lambda style: handle(style, joined=True))
    return picture.set_texts(layout, "", format_axis_label(y))


def _place_names(names: list[list[Any]]) -> dict[_Place, float]:
    """Return where each combination stands, in steps."""
    found: dict[_Place, float] = {}
    at, before = 0.0, None
    for place in itertools.product(*names):
        if before is not None:
            changed = next(i for i, (one, other) in enumerate(zip(place, before, strict=True)) if one != other)
            at += 1 + _APART[len(names) - 1 - changed]
        found[place], before = at, place
    return found


def _find_groups(names: list[list[Any]], places: dict[_Place, float], depth: int) -> list[tuple[Any, float, float]]:
    """Return name, first and last place of every group that the first `depth` keys make."""
    found = []
    for outer in itertools.product(*names[:depth]):
        own = [at for place, at in places.items() if place[:depth] == outer]
        found.append((outer[-1], min(own), max(own)))
    return found


def _draw_borders(axes: Axes, names: list[list[Any]], places: dict[_Place, float]) -> None:
    """Draw a line between neighbours of each key but the innermost; the outermost key's are the darkest."""
    for depth in range(1, len(names)):
        ends = _find_groups(names, places, depth)
        for (_, _, last), (_, first, _) in itertools.pairwise(ends):
            colour, width = ("0.45", 0.9) if depth == 1 and len(names) > 2 else ("0.8", 0.7)
            axes.axvline((last + first) / 2, color=colour, linewidth=width, zorder=1, label="_border")


def _write_names(
    picture: Picture, axes: Axes, names: list[list[Any]], places: dict[_Place, float], words: list[str]
) -> None:
    """Write the values of the outer keys below those of the innermost, and at the left what each key is."""

    def note(text: str, at: float, *, left: bool) -> Annotation:
        return axes.annotate(
            text,
            (at, 0),
            xycoords=axes.transAxes if left else axes.get_xaxis_transform(),
            xytext=(_LEFT if left else 0, -9),
            textcoords="offset points",
            ha="right" if left else "center",
            va="top",
            annotation_clip=False,
            fontsize="small",
            fontweight="bold" if left else "normal",
        )

    note(words[0], 0.0, left=True)
    picture.under[axes] = [
        [
            note(word, 0.0, left=True),
            *(note(format_category(name), (first + last) / 2, left=False) for name, first, last in found),
        ]
        for word, found in zip(
            words[1:], (_find_groups(names, places, depth) for depth in range(len(names) - 1, 0, -1)), strict=True
        )
    ]
