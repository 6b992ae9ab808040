"""Figures over time: measures one above another, and shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from dumbbell.errors import Missing, OutOfRange, TooMany
from dumbbell.figures.axes import collect_numbers, format_category, is_log, scale, set_names, start_at_zero
from dumbbell.figures.canvas import MOST_PANELS, Picture, make_drawing, spread
from dumbbell.figures.frames import (
    Groups,
    Layout,
    Names,
    Numbers,
    check_unique,
    convert_frame,
    convert_numbers,
    format_axis_label,
    list_facets,
    list_names,
    order_values,
    read_rows,
    thin_line,
)
from dumbbell.figures.lines import handle
from dumbbell.figures.palette import choose_styles, make_solid, measure_lightness
from dumbbell.figures.ribbon import Band, draw_ribbons
from dumbbell.figures.style import DOUBLE, GUIDE, ON_PALE, SINGLE, TEXT, Style
from dumbbell.lazy import call_lazily

MOST_POINTS = 5000
_NEAR = 0.05  # of an axis of time, which it does not leave out
_STEPS = ("cwnd", "ssthresh", "in_flight", "backlog_packets", "backlog_bytes")
_COUNTS = ("ce_marks", "sce_marks", "drops", "retransmissions")
_DRAWN = {"step-before": "steps-pre", "step-after": "steps-post", "linear": "default"}
EMPTY = "no values"  # in a panel without a line
_ALONE = Style("#222222", "", "-", "")  # of a panel without groups
BASE, TOP = "base of the area", "top of the area"  # columns of what is stacked
_CHARACTER, _NAME_HEIGHT = 0.057, 0.15  # inches of a name in an area
_STRONG = 55.0  # lightness of a colour below which a name on it is white
_MOST_BARS = 12  # values of x over which shares are bars


@dataclass(frozen=True)
class Series:
    """One of stacked panels: a frame, the column that is drawn, and the columns whose groups are lines of their own.

    `steps` draws steps; without it that is so of windows and backlogs, which hold until the next point, and of
    `counts` of an interval, which belong to the time before their point. `stacked` draws areas on top of each other,
    the first at the bottom; `ceiling` is a line that they stay below: a frame, its column and the line's name.
    `levels` are horizontal lines with their names, such as the target of a queue discipline.
    """

    frame: Any
    y: str
    by: Names = None
    y_label: str | None = None
    steps: bool | None = None
    log_y: bool = False
    levels: Sequence[tuple[float, str]] = ()
    counts: bool | None = None
    stacked: bool = False
    ceiling: tuple[Any, str, str] | None = None


@make_drawing(page=call_lazily("dumbbell.figures.interactive.over_time", "stacked_series"))
def stacked_series(
    panels: Sequence[Series | tuple[Any, ...]],
    *,
    x: str = "time_s",
    columns: str | None = None,
    marks: Sequence[tuple[float, str]] = (),
    states: Mapping[str, Sequence[Band]] | None = None,
    why_empty: Mapping[Any, str] | None = None,
    x_label: str | None = None,
    title: str | None = None,
) -> Picture:
    """Draw panels one above another over common time; each is a `Series`, or a tuple of its fields in order.

    `columns` names a column of all frames whose values stand side by side. `marks` are times and texts of vertical
    lines, such as changes of rate. `states` are stretches of time of each sender, drawn as ribbons above the panels.
    `why_empty` says of a value of `columns` what its panels without a line have in place of one: "no values" otherwise.
    A group has one colour in all panels. A line of more than 5000 points is drawn by
    the first, lowest, highest and last of each pixel column. The keys of `panels` of the figure are the values of
    `columns`, if any, and the number of the panel.
    """
    given = [one if isinstance(one, Series) else Series(*one) for one in panels]
    if not given:
        raise Missing("one or more", key="panels")
    frames = []
    for one in given:
        rows = read_rows(one.frame, {"columns": columns}, ("x", "y"), x=x, y=one.y, by=one.by)
        frames.append(
            rows.filter(
                pl.col(one.y).cast(pl.Float64).fill_nan(None).is_not_null().any().over(_make_line(one, columns))
            )
        )
        if one.stacked:
            frames[-1] = stack_rows(frames[-1], x, one.y, one.by, columns)
    groups = [Groups.from_frame(rows, one.by) for rows, one in zip(frames, given, strict=True)]
    labels = join_labels(groups)
    drawn = style_lines(labels) | {"": _ALONE}
    over = Groups.from_frame(pl.concat([rows.select(columns) for rows in frames]) if columns else frames[0], columns)
    across, down = len(over.keys), len(given)
    if across * down > MOST_PANELS:
        raise TooMany(f"{across * down} panels", f"at most {MOST_PANELS}", "filter the rows", key="panels")
    picture = Picture(
        down, across, ((6.2, 3.2, 2.6, 2.0)[min(across, 4) - 1], 2.8 if down == 1 else 1.5 if down < 4 else 1.25)
    )
    picture.around.column_titles = over.labels if columns else []
    times = np.concatenate([collect_numbers(rows, x) for rows in frames])
    first_of_column: dict[int, Axes] = {}
    for i, (one, rows, own) in enumerate(zip(given, frames, groups, strict=True)):
        heights = collect_numbers(rows, TOP if one.stacked else one.y)
        ceiling = convert_frame(one.ceiling[0]) if one.ceiling else None
        if one.ceiling and ceiling is not None:
            heights = np.concatenate([heights, collect_numbers(ceiling, one.ceiling[1])])
        first: Axes | None = None
        for j, (key, part) in enumerate(zip(over.keys, over.split(rows), strict=True)):
            axes = picture.add_panel(i, j, (*key, i), share=(first_of_column.get(j), first))
            first_of_column.setdefault(j, axes)
            if first is None:
                log = is_log(one.log_y or None if one.log_y else False, heights, "log_y")
                scale(axes.yaxis, heights, log=log)
                start_at_zero(axes, np.concatenate([heights, [v for v, _ in one.levels]]), log=log)
                axes.locator_params(axis="y", nbins=4) if not log else None
            first = first or axes
            for label, line in zip(own.labels, own.split(part), strict=True):
                if not line.is_empty() and one.stacked:
                    _draw_area(axes, line, x, label, drawn[label])
                elif not line.is_empty():
                    _draw_line(axes, line, x, one, label, drawn[label])
            if one.ceiling and ceiling is not None:
                _draw_ceiling(axes, ceiling.filter(pl.col(columns) == key[0]) if columns else ceiling, x, one)
            if columns and part.is_empty():
                why = axes.text(
                    0.5, 0.5, (why_empty or {}).get(key[0], EMPTY), transform=axes.transAxes, ha="center", color=GUIDE
                )
                why.set_fontsize("small")
            for value, text in one.levels:
                axes.axhline(value, color=GUIDE, linewidth=0.9, linestyle="--", zorder=1.5, label=f"_{text}")
                axes.annotate(
                    text,
                    (1, value),
                    xycoords=("axes fraction", "data"),
                    xytext=(3, 0),
                    textcoords="offset points",
                    va="center",
                    ha="left",
                    fontsize="small",
                    color=GUIDE,
                    annotation_clip=False,
                ) if j == across - 1 else None
    for axes in picture.panels.values():
        scale(axes.xaxis, times, log=False)
        if len(times) and times.max() > times.min():
            axes.set_xlim(find_start(times), float(times.max()))
    above = draw_ribbons(picture, states or {}, named=len(states or {}) > 1 or bool({*labels} & {*(states or {})}))
    shown = [(time, text) for time, text in marks if not len(times) or times.min() <= time <= times.max()]
    picture.title_pad = 6.0 + 72 * above + 12 * _mark(picture, shown, above)
    if len(labels) > 1:
        for label in labels:
            picture.add_entry(label, handle(drawn[label], joined=True, marked=False))
    for name in (one.ceiling[2] for one in given if one.ceiling):
        picture.add_entry(name, Line2D([], [], color="black", linewidth=0.9, linestyle=(0, (4, 2))))
    picture.around.title = title
    picture.around.x_label = format_axis_label(x) if x_label is None else x_label
    picture.around.y_labels = [format_axis_label(one.y) if one.y_label is None else one.y_label for one in given]
    return picture


def find_start(times: Numbers) -> float:
    """Return where an axis of time begins: at 0 if the first point is of the first interval, or near it, else there."""
    points = np.unique(times)
    first = float(points[0])
    interval = float(np.diff(points).min()) if len(points) > 1 else 0.0
    return 0.0 if 0 <= first <= max(1.5 * interval, _NEAR * float(points[-1])) else first


def _make_line(one: Series, columns: str | None) -> list[Any]:
    return [*list_names(one.by), *list_names(columns)] or [pl.lit(1)]


def style_lines(labels: Sequence[str]) -> dict[str, Style]:
    """Return the style of each line by its label: solid where colours suffice, so that noise can be seen."""
    styles = choose_styles([(label,) for label in labels])
    return dict(zip(labels, make_solid(styles), strict=True))


def join_labels(groups: list[Groups]) -> list[str]:
    """Return the labels of all panels, in the order of the panel with the most of them."""
    longest = max(groups, key=lambda own: len(own.labels))
    every = [*longest.labels, *(label for own in groups for label in own.labels)]
    return [label for label in dict.fromkeys(every) if label]


def choose_steps(one: Series) -> Literal["step-before", "step-after", "linear"]:
    """Return how points of a panel are joined: a count is of the time before its point, a window holds after it."""
    if one.counts if one.counts is not None else one.y in _COUNTS:
        return "step-before"
    return "step-after" if (one.steps if one.steps is not None else one.y in _STEPS) else "linear"


def is_areas(column: pl.Series) -> bool:
    """Return whether shares are areas over these values, and not a bar for each."""
    return column.dtype.is_numeric() and column.n_unique() > _MOST_BARS


def _draw_line(axes: Axes, rows: pl.DataFrame, x: str, one: Series, label: str, style: Style) -> None:
    rows = rows.sort(x)
    at, heights = thin_line(convert_numbers(rows[x]), convert_numbers(rows[one.y]), MOST_POINTS)
    axes.plot(
        at,
        heights,
        color=style.colour,
        linestyle=style.dashes,
        linewidth=1.0,
        drawstyle=_DRAWN[choose_steps(one)],
        label=label,
    )


def stack_rows(rows: pl.DataFrame, x: str, y: str, by: Names, columns: str | None = None) -> pl.DataFrame:
    """Return a row for each group and place, also where a group has none, with the base and the top of its area."""
    place = [*([columns] if columns else []), x]
    groups = Groups.from_frame(rows, by)
    order = pl.DataFrame(
        [(*key, i) for i, key in enumerate(groups.keys)],
        schema={**{name: rows.schema[name] for name in groups.names}, "order": pl.Int64},
        orient="row",
    )
    every = rows.select(place).unique().join(order, how="cross")
    whole = every.join(rows, on=[*place, *groups.names], how="left", nulls_equal=True).sort(*place, "order")
    value = pl.col(y).cast(pl.Float64).fill_nan(None).fill_null(0.0)
    top = value.cum_sum().over(place)
    return whole.with_columns((top - value).alias(BASE), top.alias(TOP)).drop("order")


def _draw_area(axes: Axes, rows: pl.DataFrame, x: str, label: str, style: Style) -> None:
    rows = rows.sort(x)
    at, base, top = convert_numbers(rows[x]), convert_numbers(rows[BASE]), convert_numbers(rows[TOP])
    alone = style is _ALONE
    shape = axes.fill_between(at, base, top, color=style.colour, alpha=0.2 if alone else 0.75, linewidth=0, label=label)
    shape.set_zorder(2)
    edge = style.colour if alone else "white"
    axes.plot(at, top, color=edge, linewidth=1.0 if alone else 0.6, zorder=2.1, label=f"_{label}, edge")


def _draw_ceiling(axes: Axes, rows: pl.DataFrame, x: str, one: Series) -> None:
    """Draw the line that areas stay below."""
    assert one.ceiling is not None
    _, column, name = one.ceiling
    rows = rows.sort(x)
    axes.plot(
        convert_numbers(rows[x]),
        convert_numbers(rows[column]),
        color="black",
        linewidth=0.9,
        linestyle=(0, (4, 2)),
        zorder=3,
        label=name,
    )


def _mark(picture: Picture, marks: Sequence[tuple[float, str]], above: float) -> int:
    """Draw a vertical line at each time, with its text `above` inches over the highest panel; return how many lines.

    Texts that would touch stand one above another.
    """
    ends: list[float] = []  # in inches along the axis, of each row of texts
    for time, text in sorted(marks):
        highest = [axes for axes in picture.grid[0] if axes is not None]
        for axes in picture.panels.values():
            axes.axvline(time, color=GUIDE, linewidth=0.9, linestyle=":", zorder=1.5, label=f"_{text}")
        first = highest[0]
        low, high = first.get_xlim()
        place = (time - low) / (high - low) * picture.panel_size[0]
        length = 0.075 * len(text)
        row = next((i for i, end in enumerate(ends) if place > end), len(ends))
        ends[row : row + 1] = [place + length]
        for axes in highest:
            axes.annotate(
                text,
                (time, 1),
                xycoords=axes.get_xaxis_transform(),
                xytext=(0, 2 + 72 * above + 12 * row),
                textcoords="offset points",
                ha="left",
                va="bottom",
                fontsize="small",
                color=GUIDE,
                annotation_clip=False,
            )
    return len(ends)


@make_drawing(page=call_lazily("dumbbell.figures.interactive.over_time", "shares"))
def shares(
    frame: Any,
    x: str,
    y: str,
    *,
    by: Names = None,
    **layout: Unpack[Layout],
) -> Picture:
    """Draw how the sum of `y` over the groups of `by` is divided, at each `x`: areas over time, bars over a key.

    Areas with room for their names need no legend and no hatching.
    """
    rows = read_rows(frame, layout, ("y",), x=x, y=y, by=by)
    check_unique(rows, by, list_facets(layout), x)
    heights = collect_numbers(rows, y)
    if len(heights) and heights.min() < 0:
        raise OutOfRange(f"{heights.min():g}", "0 or more", key=y)
    groups = Groups.from_frame(rows, by)
    names = order_values(rows[x])
    areas = is_areas(rows[x])
    picture, panels = spread(rows, layout, wide=0.0 if areas else 0.32 * len(names) + 0.3)
    place = {name: i for i, name in enumerate(names)}
    tables = [_divide(groups.split(panel.rows), x, y, names) for panel in panels]
    notes = [_place_names(picture, groups.labels, here, table) for here, table in tables] if areas else []
    named = areas and {name for note in notes for name in note} == {*groups.labels}
    for panel, (here, table) in zip(panels, tables, strict=True):
        base = np.zeros(len(here))
        parts = groups.split(panel.rows)
        # the first lies on top, as in the legend
        for label, style, part, share in reversed(list(zip(groups.labels, groups.styles, parts, table, strict=True))):
            if not part.is_empty():
                hatched = len(parts) > 1 and not named
                _draw_share(panel.axes, here, place, base, share, label, style, areas=areas, hatched=hatched)
            base = base + share
        panel.axes.set_ylim(0, 1)
        panel.axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}"))
        panel.axes.grid(visible=False)
        if areas:
            panel.axes.set_xlim(find_start(np.array(names, dtype=float)), float(names[-1]))
        else:
            set_names(picture, panel.axes, [format_category(name) for name in names])
    if areas:
        scale(panels[0].axes.xaxis, np.array(names, dtype=float), log=False)
    for label, style in zip(groups.labels, groups.styles, strict=True):
        if named:
            # white is that of the page, so that it is dark on the lighter colours of a dark page
            ink = "white" if measure_lightness(style.colour) < _STRONG else ON_PALE
            for panel, note in zip(panels, notes, strict=True):
                if label in note:
                    panel.axes.text(
                        *note[label], label, ha="center", va="center", fontsize="small", color=ink, zorder=3
                    )
        else:
            picture.add_entry(label, Patch(facecolor=style.colour, edgecolor="white", hatch=style.hatch, linewidth=0.0))
    return picture.set_texts(layout, format_axis_label(x), f"share of {format_axis_label(y).partition(',')[0]}")


def _divide(parts: Sequence[pl.DataFrame], x: str, y: str, names: Sequence[Any]) -> tuple[list[Any], Numbers]:
    """Return the places that have rows, and the share of each group there."""
    known = {name for part in parts for name in part[x].to_list()}
    here = [name for name in names if name in known]
    at = {name: i for i, name in enumerate(here)}
    table = np.zeros((len(parts), len(here)))
    for i, part in enumerate(parts):
        for name, number in zip(part[x].to_list(), np.nan_to_num(convert_numbers(part[y])), strict=True):
            table[i, at[name]] = number
    whole = table.sum(axis=0)
    with np.errstate(invalid="ignore"):
        shares_of: Numbers = np.where(whole > 0, table / whole, 0.0)
    return here, shares_of


def _place_names(
    picture: Picture, labels: Sequence[str], here: Sequence[Any], table: Numbers
) -> dict[str, tuple[float, float]]:
    """Return where the names of areas have the most room within them, for those that have enough."""
    sizes = picture.sizes
    width, height = picture.panel_size
    across, larger = len(picture.grid[0]), (sizes.text or TEXT) / TEXT
    width = min(width, ((sizes.width or DOUBLE) - 0.8) / across - 0.2) if across > 1 or sizes.width else SINGLE - 0.7
    x = np.array(here, dtype=float)
    tops = np.cumsum(table[::-1], axis=0)[::-1]  # the first lies on top
    found = {}
    for label, top, share in zip(labels, tops, table, strict=True):
        half = _CHARACTER * larger * (len(label) + 1) / 2 / width * (x[-1] - find_start(x))
        best = _NAME_HEIGHT * larger / (0.7 * height)
        for middle in x[(x - half >= find_start(x)) & (x + half <= x[-1])]:
            within = (x >= middle - half) & (x <= middle + half)
            low, high = float((top - share)[within].max()), float(top[within].min())
            if high - low > best:
                best, found[label] = high - low, (float(middle), (low + high) / 2)
    return found


def _draw_share(
    axes: Axes,
    here: list[Any],
    place: dict[Any, int],
    base: Any,
    share: Any,
    label: str,
    style: Style,
    *,
    areas: bool,
    hatched: bool,
) -> None:
    look: dict[str, Any] = {
        "facecolor": style.colour,
        "edgecolor": "white",
        "linewidth": 0.0 if hatched else 0.8,
        "hatch": style.hatch if hatched else "",
    }
    if areas:
        axes.fill_between(np.array(here, dtype=float), base, base + share, label=label, **look)
    else:
        made = axes.bar([place[name] for name in here], share, bottom=base, width=0.8, label=label, **look)
        made.set_label(label)
