"""Axes: linear or by powers, with a tick at each value where there are few, or with names."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from dumbbell.errors import Unfit
from dumbbell.figures.canvas import Panel, Picture, group_by_measure
from dumbbell.figures.frames import Numbers, convert_numbers, format_plain, format_value

FEW = 10
WIDE = 20.0  # a logarithmic axis when values span more
_LARGE = 10_000.0  # logarithmic axes that go so far have 1k and 1M for 1000 and 1000000


def collect_numbers(rows: pl.DataFrame, *names: str | None) -> Numbers:
    """Return the numbers in columns that can be drawn; a name may be None."""
    return collect_finite(*(convert_numbers(rows[name]) for name in names if name))


def collect_finite(*columns: Numbers) -> Numbers:
    """Return the numbers of columns that can be drawn."""
    every = np.concatenate([np.asarray(column, dtype=float).ravel() for column in columns] or [np.array([])])
    known: Numbers = every[np.isfinite(every)]
    return known


def is_log(asked: bool | None, values: Numbers, option: str) -> bool:
    """Say whether an axis is logarithmic: as asked, else if all values are positive and far apart.

    A few values that are more evenly spread by their ratios than by their differences, such as 5, 20 and 80, are far
    apart from a factor of 8.
    """
    if asked and len(values) and values.min() <= 0:
        raise Unfit(f"there is a value of {values.min():g}", "values above 0 on a logarithmic axis", key=option)
    if asked is not None:
        return asked
    if not len(values) or values.min() <= 0:
        return False
    return bool(values.max() > WIDE * values.min()) or _is_geometric(np.unique(values))


def _is_geometric(values: Numbers) -> bool:
    """Return whether a few different values are spread more evenly by their ratios than by their differences."""
    if not 3 <= len(values) <= FEW or values[-1] < 8 * values[0]:
        return False
    ratios, differences = np.diff(np.log(values)), np.diff(values)
    return bool(ratios.max() / ratios.min() < differences.max() / differences.min())


def scale(axis: Axis, values: Numbers, *, log: bool) -> None:
    """Make an axis linear or logarithmic, with plain numbers."""
    if not log:
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], min_n_ticks=3))
    if log:
        (axis.axes.set_xscale if isinstance(axis, XAxis) else axis.axes.set_yscale)("log")
        spans = float(values.max() / values.min()) if len(values) else 10.0
        subs = (1.0,) if spans > 300 else (1.0, 2.0, 5.0) if spans > 6 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_minor_formatter(NullFormatter())
    write = choose_number_format(values, log=log)
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


def choose_number_format(values: Numbers, *, log: bool) -> Callable[[float], str]:
    """Return how the numbers at an axis are written: with k, M and G on a logarithmic one of large numbers."""
    if not (log and len(values) and values.max() >= _LARGE):
        return format_plain

    def write(value: float) -> str:
        for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= size:
                return f"{format_plain(value / size)}{unit}"
        return format_plain(value)

    return write


def scale_heights(panels: Sequence[Panel], *names: str | None, log: bool, zero: bool = True) -> dict[int, Numbers]:
    """Make the vertical axes of each measure fit its columns, and return their numbers; axes begin at 0 if `zero`."""
    found = {}
    for own, rows in group_by_measure(panels):
        heights = found[own[0].measure] = collect_numbers(rows, *names)
        scale(own[0].axes.yaxis, heights, log=is_log(log, heights, "log_y"))
        if zero:
            start_at_zero(own[0].axes, heights, log=log)
    return found


def set_ticks_at_values(axes: Axes, values: Numbers, names: Mapping[float, str] | None = None) -> None:
    """Set a tick at each value that occurs, if there are few; `names` are what to write at values."""
    found = np.unique(values)
    write = choose_number_format(values, log=axes.get_xscale() == "log")
    if 1 <= len(found) <= FEW:
        axes.set_xticks(list(found), [(names or {}).get(float(value), write(float(value))) for value in found])
        axes.xaxis.set_minor_locator(NullLocator())


def set_names(picture: Picture, axes: Axes, names: Sequence[str], at: Sequence[float] | None = None) -> None:
    """Set a name at each place, 0, 1, 2 and so on unless given."""
    places = list(range(len(names))) if at is None else list(at)
    axes.set_xticks(places, list(names))
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    picture.categories.update(picture.panels.values())


def start_at_zero(axes: Axes, values: Numbers, *, log: bool) -> None:
    """Let a linear axis of values that are nowhere negative begin at 0, unless all are far from it."""
    if not log and len(values) and values.min() >= 0 and values.min() < 0.5 * values.max():
        axes.set_ylim(0, max(float(values.max()) * 1.05, 1e-12))


def format_place(names: Sequence[str], key: Sequence[Any]) -> str:
    """Return the values of several keys at a place of an axis; the axis says what a single one is."""
    if len(key) == 1:
        return format_category(key[0])
    return ", ".join(format_value(name, value) for name, value in zip(names, key, strict=True))


def format_category(value: Any) -> str:
    """Return the name of a category at an axis, where the axis says what it is."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return format_plain(float(value))
    return "none" if value is None else str(value)
