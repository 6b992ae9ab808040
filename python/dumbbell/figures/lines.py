"""Lines over a number, or points over names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Unpack

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.transforms import ScaledTranslation

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
from dumbbell.figures.style import SMALL, TEXT, Style
from dumbbell.lazy import call_lazily

_MOST_MARKERS = 25
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
    with what was published or measured elsewhere, drawn as hollow markers next to the others; `reference_name` is what
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
    if numeric and not reference and 1 < len(groups.keys) <= _MOST_DIRECT and len(picture.grid[0]) == 1:
        picture.end_labels = EndLabels(panels[0].axes, groups, make_handle)
    else:
        picture.add_groups(groups, make_handle)
    if reference:
        if len(groups.keys) == 1:
            own_handle = handle(groups.styles[0], joined=numeric, marked=marked)
            picture.add_entry(groups.labels[0] or "simulated", own_handle)
        hollow = Line2D(
            [], [], linestyle="none", marker="o", markerfacecolor="white", markeredgecolor="0.2", markersize=4.5
        )
        picture.add_entry(reference_name or format_axis_label(reference), hollow)
    return picture.set_texts(layout, format_axis_label(x), format_axis_label(y), each)


@dataclass
class EndLabels:
    """Names of lines at their right ends, in the first panel of a single column, in place of a legend.

    A name moves up or down by a line of text at most, so that no reader takes it for another's.
    """

    axes: Axes
    groups: Groups
    make_handle: Callable[[Style], Artist]
    notes: list[Annotation] = field(default_factory=list)

    def clear(self, picture: Picture) -> None:
        """Remove the names, or the entries of the legend in their place."""
        for note in self.notes:
            note.remove()
        self.notes = []
        picture.entries = [one for one in picture.entries if one[0] not in self.groups.labels]

    def write(self, picture: Picture) -> None:
        """Write the names into a figure whose panels have their places; make a legend if they do not fit."""
        ends = self._find_ends()
        at = self._spread(picture, ends)
        if at is None:
            entries = [(label, self.make_handle(style)) for label, style, _ in self._list_groups()]
            picture.entries = [*entries, *picture.entries]
            return
        for (label, style, _), point in zip(self._list_groups(), ends, strict=True):
            note = self.axes.annotate(label, point, xytext=(7, 0), textcoords="offset points", ha="left", va="center")
            note.set(fontsize="small", color=style.text_colour, annotation_clip=False)
            self.notes.append(note)
        self.move(picture)

    def move(self, picture: Picture) -> None:
        """Move the names to the ends of their lines after the panels have changed their sizes."""
        ends = self._find_ends()
        for note, place, end in zip(self.notes, self._spread(picture, ends) or [], ends, strict=False):
            note.xyann = (7, (place - float(self.axes.transData.transform(end)[1])) * 72 / picture.dpi)

    def _list_groups(self) -> Iterator[tuple[str, Style, list[Line2D]]]:
        for label, style in zip(self.groups.labels, self.groups.styles, strict=True):
            yield label, style, [line for line in self.axes.lines if line.get_label() == label]

    def _find_ends(self) -> list[tuple[float, float]]:
        """Return the last known point of each line."""
        ends = []
        for _, _, lines in self._list_groups():
            points = np.concatenate(
                [np.asarray(line.get_xydata(), dtype=float) for line in lines] or [np.empty((0, 2))]
            )
            points = points[np.isfinite(points).all(axis=1)]
            ends += [(float(points[-1][0]), float(points[-1][1]))] if len(points) else []
        return ends

    def _spread(self, picture: Picture, ends: Sequence[tuple[float, float]]) -> list[float] | None:
        """Return the heights of the names in pixels; None if a line ends elsewhere, or its name would be far away."""
        if len(ends) != len(self.groups.keys):
            return None
        pixels = [self.axes.transData.transform(end) for end in ends]
        if any(self.axes.bbox.x1 - x > _NEAR_END * self.axes.bbox.width for x, _ in pixels):
            return None
        height = measure_text_height(picture)
        at = spread_heights([float(y) for _, y in pixels], height)
        return at if all(abs(place - y) <= height for place, (_, y) in zip(at, pixels, strict=True)) else None


def measure_text_height(picture: Picture) -> float:
    """Return the height of a line of small text in pixels."""
    return 1.15 * (picture.sizes.text or TEXT) * SMALL / TEXT * picture.dpi / 72


def spread_heights(wanted: Sequence[float], apart: float) -> list[float]:
    """Return heights as near to those wanted as they can be if neighbours are so far apart, in the same order."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[list[int]] = []
    middles: list[float] = []
    for i in order:
        blocks.append([i])
        middles.append(wanted[i])
        while len(blocks) > 1 and middles[-1] - middles[-2] < apart * (len(blocks[-1]) + len(blocks[-2])) / 2:
            blocks[-2:] = [blocks[-2] + blocks[-1]]
            middles[-2:] = [float(np.mean([wanted[one] for one in blocks[-1]]))]
    found = dict.fromkeys(order, 0.0)
    for block, middle in zip(blocks, middles, strict=True):
        for place, i in enumerate(block):
            found[i] = middle + (place - (len(block) - 1) / 2) * apart
    return [found[i] for i in range(len(wanted))]


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
            hollow = axes.plot(
                x,
                convert_numbers(rows[reference]),
                linestyle="none",
                marker=self.style.marker,
                markerfacecolor="white",
                markeredgecolor=colour,
                label=f"_{label}, reference",
                markersize=4.5,
                clip_on=False,  # it is next to its place, and that may be the last
                zorder=3.2,
            )[0]
            assert axes.figure is not None
            hollow.set_transform(axes.transData + ScaledTranslation(4 / 72, 0, axes.figure.dpi_scale_trans))


def handle(style: Style, *, joined: bool, marked: bool = True) -> Line2D:
    """Return what a legend shows of a line; `marked` if its points are data."""
    dashes: Any = style.dashes if joined else "none"
    return Line2D([], [], color=style.colour, marker=style.marker if marked else "None", linestyle=dashes)
