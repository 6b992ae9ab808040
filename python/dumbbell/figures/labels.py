"""Names next to lines, in place of a legend far from them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from dumbbell.figures import style

_AWAY = 6.0  # points, from the end of a line to its name
_LINE = 1.2  # of the height of a text, from one name to the next


class LabelledPicture(Protocol):
    """The parts of a `Picture` that names are written into."""

    panels: dict[tuple[Any, ...], Axes]
    grid: list[list[Axes | None]]
    entries: list[tuple[str, Artist]]
    line_names: dict[Axes, list[Annotation]]
    sizes: style.FigureSizes


def name_lines(
    picture: LabelledPicture,
    names: Mapping[str, str] | None = None,
    panels: Collection[tuple[Any, ...]] | None = None,
    *,
    legend: bool = False,
) -> set[str]:
    """Write the name of each line at its right end, in its colour, and take it out of the legend.

    `names` are texts for labels of lines, of which a label that is missing keeps its place in the legend; without it
    every line has its label. `panels` are keys of panels; without it those at the right of their rows have names.
    `legend` keeps the lines in the legend: the texts are then what is to be known of their ends.
    Names that would touch are moved apart when the figure is arranged; call `arrange` afterwards. Returns the labels of
    the lines that have names.
    """
    chosen = [picture.panels[key] for key in panels] if panels is not None else list(_list_last(picture))
    named: set[str] = set()
    for axes in chosen:
        for old in picture.line_names.pop(axes, ()):  # which a figure has without being asked
            old.remove()
        for line in axes.lines:
            label = str(line.get_label())
            end = None if label.startswith("_") else find_end(axes, line)
            text = label if names is None else names.get(label)
            if end is None or not text:
                continue
            named.add(label)
            note = axes.annotate(
                text,
                end,
                xytext=(_AWAY, 0),
                textcoords="offset points",
                ha="left",
                va="center",
                fontsize="small",
                color=style.TEXT_COLOURS.get(to_hex(line.get_color()), "black"),
                annotation_clip=False,
                zorder=4,
            )
            note.set_gid("name of a line")
            picture.line_names.setdefault(axes, []).append(note)
    if not legend:
        picture.entries = [(label, shown) for label, shown in picture.entries if label not in named]
    return named


def mark_place(picture: LabelledPicture, key: tuple[Any, ...], x: float, text: str = "") -> None:
    """Draw an upright dashed line at a place of a panel, with a text next to its upper end."""
    with style.apply_style(picture.sizes):
        axes = picture.panels[key]
        axes.axvline(x, color=style.GUIDE, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1.4, label=f"_{text}")
        left = float(axes.transAxes.inverted().transform(axes.transData.transform((x, axes.get_ylim()[1])))[0]) > 0.5
        axes.annotate(
            text,
            (x, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-3 if left else 3, -1),
            textcoords="offset points",
            ha="right" if left else "left",
            va="top",
            fontsize="small",
            color=style.GUIDE,
            zorder=4,
        )


def mark_events(picture: LabelledPicture, key: tuple[Any, ...], times: Collection[float]) -> None:
    """Draw a tick for each event of a panel, in a strip below its lowest value."""
    with style.apply_style(picture.sizes):
        axes = picture.panels[key]
        low, high = axes.get_ylim()
        strip = 0.14 * (high - low)
        ends = low - 0.85 * strip, low - 0.15 * strip
        axes.vlines(sorted(times), *ends, color=style.COLOURS[0], linewidth=0.9, label="_events", zorder=3)
        axes.set_ylim(low - strip, high)


def _list_last(picture: LabelledPicture) -> Iterator[Axes]:
    for row in picture.grid:
        if last := next((axes for axes in reversed(row) if axes is not None), None):
            yield last


def find_end(axes: Axes, line: Line2D) -> tuple[float, float] | None:
    """Return the last point of a line that can be seen; None if there is none."""
    x, y = np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)
    low, high = sorted(axes.get_xlim())
    seen = np.flatnonzero(np.isfinite(x) & np.isfinite(y) & (x >= low) & (x <= high))
    if not len(seen):
        return None
    last = seen[np.argmax(x[seen])]
    return float(x[last]), float(y[last])


def spread_names(names: Collection[Annotation], heights: Mapping[Annotation, float], dpi: float) -> None:
    """Move names apart that would touch, as little as possible; heights are in pixels."""
    ends = {name: float(name.axes.transData.transform(name.xy)[1]) for name in names if name.axes is not None}
    # runs of names that touch share a middle: pool neighbours until no run touches the next
    runs: list[tuple[list[Annotation], float, float]] = []  # names, lower end, height
    for name in sorted(ends, key=lambda name: ends[name]):
        high = heights[name] * _LINE
        runs.append(([name], ends[name] - high / 2, high))
        while len(runs) > 1 and runs[-2][1] + runs[-2][2] > runs[-1][1]:
            (lower, _, low_high), (upper, _, up_high) = runs[-2:]
            every, whole = lower + upper, low_high + up_high
            runs[-2:] = [(every, _find_foot(every, ends, heights), whole)]
    for own, foot, _ in runs:
        at = foot
        for name in own:
            middle = at + heights[name] * _LINE / 2
            name.xyann = (_AWAY, (middle - ends[name]) / dpi * 72)
            at += heights[name] * _LINE


def _find_foot(run: list[Annotation], ends: Mapping[Annotation, float], heights: Mapping[Annotation, float]) -> float:
    """Return the lower end of a run of names whose places have the least mean distance to the ends of their lines."""
    above, feet = 0.0, []
    for name in run:
        feet.append(ends[name] - above - heights[name] * _LINE / 2)
        above += heights[name] * _LINE
    return float(np.mean(feet))


def write(
    picture: LabelledPicture,
    key: tuple[Any, ...],
    text: str,
    at: tuple[float, float],
    *,
    colour: str | None = None,
    move: tuple[float, float] = (0.0, 0.0),
    ha: str = "left",
    va: str = "center",
) -> None:
    """Write a text into a panel at a place of its axes, moved by so many points; grey, or as lines of a `colour` are.

    Call `arrange` afterwards if the text may lie outside of the panel.
    """
    with style.apply_style(picture.sizes):
        picture.panels[key].annotate(
            text,
            at,
            xytext=move,
            textcoords="offset points",
            ha=ha,
            va=va,
            fontsize="small",
            color=style.GUIDE if colour is None else style.TEXT_COLOURS.get(to_hex(colour), colour),
            annotation_clip=False,
            zorder=4,
        )
