"""Forest plots: estimates with their intervals, one below another."""

from typing import Any, Unpack

import numpy as np

from dumbbell.figures.axes import format_category
from dumbbell.figures.canvas import Picture, make_drawing, spread
from dumbbell.figures.frames import (
    Layout,
    check_unique,
    convert_numbers,
    format_axis_label,
    list_facets,
    order_values,
    read_rows,
)
from dumbbell.figures.style import COLOURS, GUIDE
from dumbbell.lazy import call_lazily

_ROW, _LEAST = 0.21, 1.2  # inches


@make_drawing(page=call_lazily("dumbbell.figures.interactive.maps", "forest"))
def forest(
    frame: Any,
    y: str,
    x: str,
    *,
    low: str,
    high: str,
    sure: str | None = None,
    limits: tuple[float, float] | None = None,
    **layout: Unpack[Layout],
) -> Picture:
    """Draw `x` with its interval from `low` to `high` in one row for each `y`, around a line at 0.

    `sure` names a column of truth values: where it is false, marker and interval are pale. What lies beyond `limits`
    is drawn as an arrow at the edge. Raises InputError as `lines` does.
    """
    rows = read_rows(frame, layout, ("x", "low", "high"), x=x, y=y, low=low, high=high, sure=sure)
    check_unique(rows, list_facets(layout), y)
    names = order_values(rows[y])
    place = {name: len(names) - 1 - i for i, name in enumerate(names)}
    height = max(_LEAST, _ROW * len(names))
    picture, panels = spread(rows, layout, size=lambda _: (1.7, height))
    for panel in panels:
        axes = panel.axes
        at = np.array([place[name] for name in panel.rows[y].to_list()])
        middle = convert_numbers(panel.rows[x])
        ends = [
            convert_numbers(panel.rows[name]) if limits is None else np.clip(convert_numbers(panel.rows[name]), *limits)
            for name in (low, high)
        ]
        certain = panel.rows[sure].to_numpy() if sure else np.ones(len(at), dtype=bool)
        axes.axvline(0, color=GUIDE, linewidth=0.9, zorder=1.5, label="_zero")
        for shown, colour, face in ((certain, COLOURS[0], COLOURS[0]), (~certain, "0.55", "white")):
            axes.hlines(at[shown], ends[0][shown], ends[1][shown], color=colour, linewidth=1.3, zorder=2)
            kept = middle if limits is None else np.clip(middle, *limits)
            for marker, chosen in (("o", kept == middle), ("<", kept > middle), (">", kept < middle)):
                places = shown & chosen
                if places.any():
                    axes.plot(
                        kept[places],
                        at[places],
                        linestyle="none",
                        marker=marker,
                        color=colour,
                        markerfacecolor=face,
                        markersize=5,
                        clip_on=False,
                        zorder=3,
                    )
        if limits is not None:
            axes.set_xlim(*limits)
        axes.set_ylim(-0.7, len(names) - 0.3)
        axes.set_yticks(range(len(names)), [format_category(name) for name in reversed(names)])
        axes.grid(visible=True, axis="x")
    return picture.set_texts(layout, format_axis_label(x), "")
