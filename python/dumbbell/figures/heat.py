"""Heat maps over two keys."""

import math
from typing import Any, Literal, Unpack

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from dumbbell.errors import UnknownName
from dumbbell.figures.axes import collect_numbers, format_category, set_names
from dumbbell.figures.canvas import MOST_PANELS, Picture, choose_panel_size, make_drawing, spread
from dumbbell.figures.frames import (
    Layout,
    check_unique,
    convert_numbers,
    format_axis_label,
    format_number,
    list_facets,
    order_values,
    read_rows,
)
from dumbbell.figures.style import DOUBLE, MISSING, ON_PALE, ON_STRONG, get_sizes
from dumbbell.lazy import call_lazily

Kind = Literal["difference", "ratio", "share", "percent", "plain", "margin"]
MOST_WRITTEN = 100
_DIGIT, _CELL = 0.055, (0.22, 0.2)  # inches of a digit in a cell, and of the smallest cell with a number in it
_LEAST = (0.9, 1.1)  # inches of a map, so that the colour bar has room
_NAME = 0.18  # inches that a name at an axis needs
_AROUND = 1.5  # inches next to the maps: names, label and colour bar
MAPS = {
    **dict.fromkeys(("difference", "ratio", "share", "percent"), "RdBu_r"),
    **{"plain": "cividis", "margin": "RdBu"},
}


@make_drawing(page=call_lazily("dumbbell.figures.interactive.maps", "heat"))
def heat(
    frame: Any,
    x: str,
    y: str,
    value: str,
    *,
    most_panels: int = MOST_PANELS,
    kind: Kind = "difference",
    limit: float | None = None,
    label: str | None = None,
    decimals: int | None = None,
    **layout: Unpack[Layout],
) -> Picture:
    """Draw a heat map of `value` in each panel, all with one colour bar, which `label` describes.

    Numbers in cells have so many `decimals`, or else as many as three digits of the largest number need.

    A "difference" is white at 0, a "ratio" white at 1 on a logarithmic scale, a "share" white at one half from 0 to 1,
    "percent" the same in per cent, "plain" runs from low to high, and a "margin" is a difference that is red below 0.
    `limit` is the difference, or the ratio, at which colours end. Maps of up to 100 cells have their numbers written
    into them, where a page has room; cells without a value are blank there, and hatched in other maps. Rows and columns
    stand in order at equal distances, the first row at the bottom; it is at the top if rows and columns have the same
    names. The colour bar stands in the last place of the grid if no map does.
    """
    rows = read_rows(frame, layout, ("value",), x=x, y=y, value=value)
    if kind not in MAPS:
        raise UnknownName(str(kind), among=MAPS, key="kind", what="map")
    check_unique(rows, list_facets(layout), x, y)
    across, down = order_values(rows[x]), order_values(rows[y])
    from_top = down == across and len(down) > 1 and isinstance(down[0], str)
    if from_top:
        down = down[::-1]
    column = {name: i for i, name in enumerate(across)}
    line = {name: i for i, name in enumerate(down)}
    written = len(across) * len(down) <= MOST_WRITTEN

    every = collect_numbers(rows, value)
    form = choose_format(every, kind, decimals)
    longest = max((len(form(number)) for number in every), default=0) if written else 0

    def choose_size(count: int) -> tuple[float, float]:
        nonlocal written
        wide = len(across) * max(_CELL[0], _DIGIT * longest + 0.06)
        written = written and wide * count <= (get_sizes().width or DOUBLE) - _AROUND
        width, height = choose_panel_size(count)
        cells = (wide, _CELL[1] * len(down)) if written else (0.0, 0.0)
        own = max(cells[0], min(width, 0.7 * len(across))), max(cells[1], min(height, 0.5 * len(down)))
        return max(_LEAST[0], own[0]), max(_LEAST[1], own[1])

    picture, panels = spread(rows, layout, size=choose_size, shared=False, most=most_panels)
    picture.rigid = True
    norm = make_norm(every if limit is None else np.array([limit]), kind)
    colours: Colormap = mpl.colormaps[MAPS[kind]].with_extremes(bad=(0, 0, 0, 0))
    for panel in panels:
        grid = np.full((len(down), len(across)), np.nan)
        places = panel.rows.select(x, y).rows()
        for (at, up), number in zip(places, convert_numbers(panel.rows[value]), strict=True):
            grid[line[up], column[at]] = number
        shown = np.ma.masked_invalid(np.where(grid > 0, grid, np.nan) if kind == "ratio" else grid)
        axes = panel.axes
        if not written:  # a blank cell could be one whose colour is white
            axes.set_facecolor(MISSING)
            axes.patch.set(hatch="////", edgecolor="white", linewidth=0.0)
        image = axes.imshow(shown, cmap=colours, norm=norm, aspect="auto", origin="lower", interpolation="nearest")
        image.set_label(value)
        axes.grid(visible=False)
        axes.spines[["left", "bottom"]].set_visible(False)
        if written:
            shades = colours(norm(shown))
            for (i, j), number in np.ndenumerate(grid):
                if math.isfinite(number):
                    dark = float(np.dot(shades[i, j, :3], (0.3, 0.59, 0.11))) < 0.5
                    text = axes.text(
                        j,
                        i,
                        form(number),
                        ha="center",
                        va="center",
                        fontsize="small",
                        color=ON_STRONG if dark else ON_PALE,
                    )
                    text.set_in_layout(False)
    # inner panels need none of them, and ticks are slow
    leftmost, lowest = {row[0] for row in picture.grid}, picture.list_lowest()
    for panel in panels:
        axes = panel.axes
        axes.tick_params(length=0)
        some = _select_names(across, picture.panel_size[0]) if axes in lowest else []
        set_names(picture, axes, [format_category(across[i]) for i in some], some)
        some = _select_names(down, picture.panel_size[1]) if axes in leftmost else []
        axes.set_yticks(some, [format_category(down[i]) for i in some])
    bar = picture.add_axes((0, 0, 0.1, 0.1), label="colour bar")
    lies = picture.grid[-1][-1] is None
    scale = picture.colorbar(
        mpl.cm.ScalarMappable(norm, colours), cax=bar, orientation="horizontal" if lies else "vertical"
    )
    scale.outline.set_visible(False)
    axis = bar.xaxis if lies else bar.yaxis
    if kind == "ratio":
        axis.set_major_locator(FixedLocator(list_ratio_ticks(norm)[:: 2 if lies else 1]))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda number, _: format_number(f"{number:.3g}")))
    picture.around.bar_label = format_axis_label(value) if label is None else label
    axis.set_label_text(picture.around.bar_label)
    axis.labelpad = 5.0
    picture.around.bar, picture.around.bar_lies = bar, lies
    return picture.set_texts(layout, format_axis_label(x), format_axis_label(y))


def _select_names(names: list[Any], length: float) -> list[int]:
    """Return which of the names at an axis of that length have room: all, or every second and so on."""
    return list(range(0, len(names), max(1, math.ceil(len(names) * _NAME / length))))


def make_norm(values: Any, kind: Kind) -> Normalize:
    """Return the scale of the colours of a map with these values."""
    if kind == "ratio":
        values = values[values > 0]
        most = float(np.exp(np.abs(np.log(values)).max())) if len(values) else 2.0
        most = max(most, 1.01)
        return LogNorm(1 / most, most)
    if kind in ("share", "percent"):
        return Normalize(0.0, 100.0 if kind == "percent" else 1.0)
    if kind in ("difference", "margin"):
        most = float(np.abs(values).max()) if len(values) else 1.0
        return Normalize(-(most or 1.0), most or 1.0)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    return Normalize(low, high if high > low else low + 1.0)


def list_ratio_ticks(norm: Normalize) -> list[float]:
    """Return places on both sides of 1 for the colour bar."""
    most = float(norm.vmax or 2.0)
    steps = [1.02, 1.05, 1.1, 1.2, 1.5, 2, 5, 10, 20, 50, 100, 1000, 1e4, 1e6]
    inside = [step for step in steps if step <= most * 1.0001]
    chosen = inside[-2:] if len(inside) > 1 else inside
    return [*(1 / step for step in reversed(chosen)), 1.0, *chosen]


def choose_format(values: Any, kind: Kind, decimals: int | None = None) -> Any:
    """Return how numbers are written into cells: as many decimals as three digits of the largest need, 1 of a ratio."""
    if kind == "percent" and decimals is None:
        decimals = 0
    if decimals is not None:
        return lambda number: format_number(f"{number:z.{decimals}f}")
    most = float(np.abs(values).max()) if len(values) else 1.0
    if kind == "ratio":
        return lambda number: f"{number:.2f}" if 0.1 <= number < 10 else f"{number:.2g}"
    needed = 0 if most == 0 else min(max(2 - math.floor(math.log10(most) + 1e-9), 0), 4)
    needed = min(needed, 2) if most >= 0.1 else needed
    if most >= 1e5:
        return lambda number: format_number(f"{number:.1e}")
    return lambda number: format_number(f"{number:z.{needed}f}")
