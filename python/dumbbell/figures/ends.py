"""Names at the ends of lines, in place of a legend: each next to the last point of its line, none over another."""

import itertools
import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

Where = Literal["", "rows", "every"]  # no names, those of the last panel of each row, those of every panel
_AWAY = 0.09  # inches from the panel to the names
_LINE = 0.125  # inches, of a line of text
_LONGEST = 20  # characters of a line


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
    texts = [textwrap.fill(name, _LONGEST) for name in found]
    high = [_LINE * size / height * (1 + text.count("\n")) for text in texts]
    made = []
    for (name, (line, x, y)), text, at in zip(found.items(), texts, spread_places(fractions, high), strict=True):
        note = axes.annotate(
            text,
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


def spread_places(wanted: Sequence[float], high: Sequence[float]) -> list[float]:
    """Return middles of texts that are so `high`, none over another, in order, from 0 to 1, and near those wanted."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    above = [0.0]  # of each text, how much higher than the lowest one it is where all touch
    for lower, upper in itertools.pairwise(order):
        above.append(above[-1] + (high[lower] + high[upper]) / 2)
    blocks: list[list[float]] = []  # neighbours that touch: where the lowest of all texts would be for each of them
    for rank, i in enumerate(order):
        blocks.append([wanted[i] - above[rank]])
        while len(blocks) > 1 and np.mean(blocks[-2]) >= np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    most = max(0.0, 1.0 - above[-1])
    lowest = [min(max(float(np.mean(block)), 0.0), most) for block in blocks for _ in block]
    places = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        places[i] = lowest[rank] + above[rank]
    return places
