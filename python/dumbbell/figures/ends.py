"""Names at the ends of lines, in place of a legend: each next to the last point of its line, none over another."""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

Where = Literal["", "rows", "every"]  # no names, those of the last panel of each row, those of every panel
_AWAY = 0.09  # inches from the panel to the names
_LINE = 0.125  # inches from one name to the next


def list_ends(axes: Axes, names: Iterable[str]) -> dict[str, tuple[Line2D, float, float]]:
    """Return the lines of a panel that have one of these names, each with its last point inside the panel."""
    wanted, found = set(names), {}
    low, high = sorted(axes.get_ylim())
    for line in axes.lines:
        name = str(line.get_label()).removeprefix("_")
        x, y = (np.asarray(values, dtype=float) for values in (line.get_xdata(), line.get_ydata()))
        known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if name in wanted and name not in found and len(known):
            across = line.get_transform() == axes.get_yaxis_transform()  # a level, whose x is a share of the panel
            end = max(axes.get_xlim()) if across else x[known[-1]]
            found[name] = (line, float(end), float(np.clip(y[known[-1]], low, high)))
    return found


def write_ends(axes: Axes, names: Iterable[str], width: float, height: float) -> list[tuple[str, Annotation]]:
    """Write names at the ends of the lines of a panel of that size in inches; return those that have a line."""
    found = list_ends(axes, names)
    fractions = [axes.transAxes.inverted().transform(axes.transData.transform(end[1:]))[1] for end in found.values()]
    size = float(axes.xaxis.label.get_fontsize()) / 8
    made = []
    for (name, (line, x, y)), at in zip(found.items(), spread_places(fractions, _LINE * size / height), strict=True):
        note = axes.annotate(
            name,
            (x, y),
            xytext=(1 + _AWAY / width, at),
            textcoords="axes fraction",
            va="center",
            ha="left",
            fontsize="small",
            annotation_clip=False,
            arrowprops={
                **{"arrowstyle": "-", "color": to_hex(line.get_color()), "linewidth": 0.7, "relpos": (0, 0.5)},
                **{"shrinkA": 1, "shrinkB": 0},
            },
        )
        made.append((name, note))
    return made


def spread_places(wanted: Sequence[float], apart: float) -> list[float]:
    """Return places from 0 to 1 that are at least `apart` from each other, in order and near those wanted."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[list[float]] = []  # neighbours that touch: their places less what is below each in its block
    for rank, i in enumerate(order):
        blocks.append([wanted[i] - rank * apart])
        while len(blocks) > 1 and np.mean(blocks[-2]) >= np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    least, most = 0.0, max(0.0, 1.0 - (len(wanted) - 1) * apart)
    flat = [min(max(float(np.mean(block)), least), most) for block in blocks for _ in block]
    places = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        places[i] = flat[rank] + rank * apart
    return places
