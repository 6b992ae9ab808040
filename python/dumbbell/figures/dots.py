"""Dots in rows: one row for each category, one mark for each group, so that long names stay level and can be read."""

import re
import textwrap
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dumbbell.figures.axes import collect_numbers, format_category, is_log, scale
from dumbbell.figures.canvas import Panel, Picture, choose_panel_size, group_by_measure, make_drawing, spread
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
from dumbbell.figures.lines import handle
from dumbbell.figures.style import SMALL, TEXT, get_sizes
from dumbbell.lazy import call_lazily

_ROW = 0.19  # inches, of a row with one mark, and between the marks of a row and those of the next
_STEP, _TEXT_STEP = 0.085, 0.115  # inches from mark to mark within a row; with texts next to the marks
_LEAST = 0.5  # inches, of a panel
_LINE, _LONGEST = 0.13, 22  # inches of a line of a name, and characters of one
_BESIDE = 4.5  # points from a mark to its text


@make_drawing(page=call_lazily("dumbbell.figures.interactive.points", "dots"))
def dots(
    frame: Any,
    y: str,
    x: str,
    *,
    low: str | None = None,
    high: str | None = None,
    by: Names = None,
    text: str | None = None,
    log_x: bool | None = None,
    reference: str | None = None,
    reference_name: str | None = None,
    limits: tuple[float, float] | None = None,
    each: str | None = None,
    **layout: Unpack[Layout],
) -> Picture:
    """Draw `x` as marks in one row for each `y`, the first at the top; the groups of `by` lie below each other in it.

    `low` to `high` is drawn as a line through the mark, `reference` as an open diamond in the same place. `text` is a
    column with what is written to the right of each mark: numbers or words. The horizontal axis is logarithmic if all
    values are positive and span more than a factor of 20, or as `log_x` says; a linear axis begins at 0 unless values
    are negative or all far from 0. `limits` are the ends of the axis instead. `each` is a column with names of
    measures: each has a column of panels with a horizontal axis of its own, which its name labels; facets then run
    down. Raises InputError as `lines` does.
    """
    numbers: dict[str, Names] = {"x": x, "low": low, "high": high, "reference": reference}
    rows = read_rows(frame, layout, tuple(numbers), each=each, y=y, **numbers, by=by, text=text)
    check_unique(rows, by, list_facets(layout, each), y)
    names = order_values(rows[y])
    groups = Groups.from_frame(rows, by)
    count, larger = len(groups.keys), (get_sizes().text or TEXT) / TEXT
    step = (_TEXT_STEP * larger if text else _STEP) if count > 1 else 0.0
    pitch = step * (count - 1) + _ROW * larger  # inches from row to row
    picture, panels = spread(
        rows,
        layout,
        size=lambda across: (choose_panel_size(across)[0], max(_LEAST, pitch * len(names))),
        each=each,
        across_each=each is not None,
    )
    picture.rigid = True  # rows are as high as their marks need
    _scale_widths(panels, x, low, high, reference, log=log_x, limits=limits)
    places = {name: len(names) - 1 - i for i, name in enumerate(names)}
    for panel in panels:
        for number, _, part, style in groups.list_parts(panel.rows):
            at = np.array([places[name] for name in part[y].to_list()], dtype=float)
            at += ((count - 1) / 2 - number) * step / pitch
            label = groups.labels[number]
            values = convert_numbers(part[x])
            ends = [values, *(convert_numbers(part[name]) for name in (low, high, reference) if name)]
            if low or high:
                first, last = convert_numbers(part[low or x]), convert_numbers(part[high or x])
                panel.axes.hlines(at, first, last, color=style.colour, linewidth=1.1, label=f"_{label}, bars", zorder=2)
            panel.axes.plot(
                values,
                at,
                color=style.colour,
                marker=style.marker,
                linestyle="none",
                label=label,
                clip_on=False,
                zorder=3,
            )
            if reference:
                panel.axes.plot(
                    convert_numbers(part[reference]),
                    at,
                    **_DIAMOND,
                    label=f"_{label}, reference",
                    clip_on=False,
                    zorder=3.2,
                )
            if text:
                _write_texts(panel.axes, at, np.fmax.reduce(ends), part[text].to_list())
        _name_rows(panel.axes, names, lines=int(pitch / (_LINE * larger)))
    picture.add_groups(groups, lambda style: handle(style, joined=False))
    if reference:
        if count == 1:
            picture.add_entry(groups.labels[0] or "simulated", handle(groups.styles[0], joined=False))
        picture.add_entry(reference_name or format_axis_label(reference), Line2D([], [], **_DIAMOND))
    return picture.set_texts(layout, format_axis_label(x), "")


_DIAMOND: dict[str, Any] = {
    "linestyle": "none",
    "marker": "D",
    "markersize": 4.5,
    "markerfacecolor": "none",
    "markeredgecolor": "black",
}


def _scale_widths(
    panels: Sequence[Panel], *columns: str | None, log: bool | None, limits: tuple[float, float] | None
) -> None:
    """Make the horizontal axes of each measure fit its columns."""
    for own, rows in group_by_measure(panels):
        axes, widths = own[0].axes, collect_numbers(rows, *columns)
        logarithmic = is_log(log, widths, "log_x")
        scale(axes.xaxis, widths, log=logarithmic)
        if limits is not None:
            axes.set_xlim(*limits)
        elif not len(widths):
            continue
        elif logarithmic:
            room = (float(widths.max()) / float(widths.min())) ** 0.04
            axes.set_xlim(float(widths.min()) / max(room, 1.05), float(widths.max()) * max(room, 1.05))
        else:
            least, most = float(widths.min()), float(widths.max())
            room = 0.05 * (most - least) or 0.05 * abs(most) or 1.0
            axes.set_xlim(0.0 if 0 <= least < 0.5 * most else least - room, most + room)


def _write_texts(axes: Axes, at: Numbers, ends: Numbers, texts: Sequence[Any]) -> None:
    """Write a text to the right of what is drawn in each place."""
    for place, end, text in zip(at, ends, texts, strict=True):
        if text is not None and np.isfinite(end):
            axes.annotate(
                format_category(text),
                (end, place),
                xytext=(_BESIDE, 0),
                textcoords="offset points",
                ha="left",
                va="center_baseline",
                annotation_clip=False,
                fontsize=SMALL * (get_sizes().text or TEXT) / TEXT,
            )


def _name_rows(axes: Axes, names: Sequence[Any], *, lines: int) -> None:
    """Write the names of the rows, long ones in as many lines as have room, and draw a border between neighbours."""
    texts = [format_category(name) for name in reversed(names)]
    if lines > 1:
        longest = max(_LONGEST, *(-(-len(text) // lines) + 4 for text in texts))
        whole = (re.sub(r"(?<=\d) (?=\S)", "\N{NO-BREAK SPACE}", text) for text in texts)  # a number keeps its unit
        texts = [textwrap.fill(text, longest, break_long_words=False) for text in whole]
    axes.set_ylim(-0.5, len(names) - 0.5)
    axes.set_yticks(range(len(names)), texts)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    for border in np.arange(len(names) - 1) + 0.5:
        axes.axhline(border, color="0.9", linewidth=0.5, zorder=0.6, label="_border")
