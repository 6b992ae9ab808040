"""Bars, in groups of up to three levels."""

from typing import Any, Unpack

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dumbbell.figures.axes import format_category, format_place, scale_heights, set_names
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
    list_names,
    order_values,
    read_rows,
)
from dumbbell.figures.lines import handle
from dumbbell.figures.style import Style
from dumbbell.lazy import call_lazily

_BAR = 0.13  # inches; narrower where there are many
_MOST_WIDE = 5.5  # inches of bars before they become narrower
_LEAST_BAR = 0.06
_BETWEEN = 1.0  # bars, between groups
_APART = 1.6  # bars, between the values of x when there are three levels


@make_drawing(page=call_lazily("dumbbell.figures.interactive.points", "bars"))
def bars(
    frame: Any,
    x: str,
    y: str,
    *,
    low: str | None = None,
    high: str | None = None,
    group: Names = None,
    inner: Names = None,
    log_y: bool = False,
    reference: str | None = None,
    reference_name: str | None = None,
    each: str | None = None,
    **layout: Unpack[Layout],
) -> Picture:
    """Draw `y` as bars: at each `x` one bar, or one for each `group`, or one for each `inner` within each `group`.

    The last level has the colours and the legend; the others stand below the axis. `low` to `high` is drawn as an
    error bar, `reference` as a diamond at the bar. On a logarithmic axis a point stands for each bar. `each` is as for
    `lines`. Raises InputError as `lines` does.
    """
    numbers: dict[str, Names] = {"y": y, "low": low, "high": high, "reference": reference}
    rows = read_rows(frame, layout, tuple(numbers), each=each, x=x, **numbers, group=group, inner=inner)
    coloured, middle = (inner, group) if inner else (group, None)
    check_unique(rows, coloured, middle, list_facets(layout, each), x)
    names = order_values(rows[x])
    colours, middles = Groups.from_frame(rows, coloured), Groups.from_frame(rows, middle)
    # where each group stands, in bars
    count = len(colours.keys)
    stride = count + _BETWEEN
    block = stride * len(middles.keys) + (_APART if middle else 0.0)
    place = {(name, m): i * block + j * stride for i, name in enumerate(names) for j, m in enumerate(middles.keys)}
    whole = block * len(names)
    wide = choose_bar_width(whole, facets=bool(list_names(layout.get("facet")))) * whole
    picture, panels = spread(rows, layout, wide=wide, each=each)
    spans = scale_heights(panels, y, low, high, reference, log=log_y, zero=False)
    for panel in panels:
        axes, heights = panel.axes, spans[panel.measure]
        for number, label, part, style in colours.list_parts(panel.rows):
            starts = [place[v, m] for v, m in zip(part[x].to_list(), _list_keys(part, middles.names), strict=True)]
            at = np.array(starts) + number - (count - 1) / 2
            if log_y:  # a bar would have no foot
                axes.plot(
                    at,
                    convert_numbers(part[y]),
                    color=style.colour,
                    marker=style.marker,
                    linestyle="none",
                    label=label,
                    zorder=3,
                )
            else:
                _draw_bar(axes, at, convert_numbers(part[y]), style, label, hatched=count > 1)
            if low or high:
                bottom, top = convert_numbers(part[low or y]), convert_numbers(part[high or y])
                axes.vlines(at, bottom, top, color="0.35", linewidth=1.1, label=f"_{label}, bars", zorder=3)
            if reference:
                axes.plot(
                    at,
                    convert_numbers(part[reference]),
                    linestyle="none",
                    marker="D",
                    markersize=5,
                    markerfacecolor="white",
                    markeredgecolor="black",
                    label=f"_{label}, reference",
                    zorder=4,
                )
        if middle:
            texts = [format_place(middles.names, key) for _ in names for key in middles.keys]
            set_names(picture, axes, texts, [place[name, key] for name in names for key in middles.keys])
        else:
            set_names(picture, axes, [format_category(name) for name in names], [place[name, ()] for name in names])
        axes.set_xlim(-stride / 2 - 0.2, whole - block + stride * (len(middles.keys) - 0.5) + 0.2)
        if not log_y:
            least, most = (float(heights.min()), float(heights.max())) if len(heights) else (0.0, 1.0)
            axes.set_ylim(min(0.0, least * 1.05), max(0.0, most * 1.05) or (0.0 if least < 0 else 1.0))
            axes.axhline(0, color="0.3", linewidth=0.8, zorder=2.2, label="_zero")
    if middle:
        _write_second_line(picture, [format_category(name) for name in names], place, middles, names)
    picture.add_groups(colours, lambda style: handle(style, joined=False) if log_y else _make_patch(style))
    if reference:
        diamond = Line2D([], [], linestyle="none", marker="D", markersize=5, markerfacecolor="white", color="black")
        picture.add_entry(reference_name or format_axis_label(reference), diamond)
    within = f"{', '.join(map(format_axis_label, middles.names))} within " if middle else ""
    return picture.set_texts(layout, f"{within}{format_axis_label(x)}", format_axis_label(y), each)


def choose_bar_width(bars: float, *, facets: bool) -> float:
    """Return the width of a bar in inches."""
    return max(_LEAST_BAR, min(_BAR, (_MOST_WIDE / 2 if facets else _MOST_WIDE) / bars))


def _draw_bar(axes: Axes, at: Numbers, heights: Numbers, style: Style, label: str, *, hatched: bool) -> None:
    made = axes.bar(
        at,
        heights,
        width=0.92,
        color=style.colour,
        edgecolor="white",
        hatch=style.hatch if hatched else "",
        linewidth=0.0,
        label=label,
        zorder=2,
    )
    made.set_label(label)


def _list_keys(rows: Any, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return list(rows.select(names).rows()) if names else [()] * rows.height


def _write_second_line(
    picture: Picture, texts: list[str], place: dict[Any, float], middles: Groups, names: list[Any]
) -> None:
    """Write the names of the outermost level below those of the middle one, in the lowest panel of each column."""
    for lowest in picture.list_lowest():
        picture.under[lowest] = [[]]
        for name, text in zip(names, texts, strict=True):
            middle = float(np.mean([place[name, key] for key in middles.keys]))
            note = lowest.annotate(
                text,
                (middle, 0),
                xycoords=lowest.get_xaxis_transform(),
                xytext=(0, -20),
                textcoords="offset points",
                ha="center",
                va="top",
                annotation_clip=False,
                fontsize="small",
                fontweight="bold",
            )
            picture.under[lowest][0].append(note)


def _make_patch(style: Style) -> Patch:
    return Patch(facecolor=style.colour, edgecolor="white", hatch=style.hatch, linewidth=0.0)
