"""Names next to lines, in place of a legend far from them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from dumbbell.figures import style

if TYPE_CHECKING:
    from dumbbell.figures.canvas import Picture

_AWAY = 6.0  # points, from the end of a line to its name
_TEXT_COLOURS = {to_hex(line): text for line, text in zip(style.COLOURS, style.TEXT_COLOURS, strict=True)}


def name_lines(
    picture: "Picture",
    names: Mapping[str, str] | None = None,
    panels: Collection[tuple[Any, ...]] | None = None,
    *,
    legend: bool = False,
) -> None:
    """Write the name of each line at its right end, in its colour, and take it out of the legend.

    `names` are texts for labels of lines, of which a label that is missing keeps its place in the legend; without it
    every line has its label. `panels` are keys of panels; without it those at the right of their rows have names.
    `legend` keeps the lines in the legend: the texts are then what is to be known of their ends.
    Names that would touch are moved apart when the figure is arranged; call `arrange` afterwards.
    """
    if picture.end_labels is not None:  # which are made without being asked for
        picture.end_labels.clear(picture)
        picture.end_labels.use_legend(picture)
        picture.end_labels = None
    chosen = [picture.panels[key] for key in panels] if panels is not None else list(_list_last(picture))
    named = set()
    for axes in chosen:
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
                color=_find_text_colour(line.get_color()),
                annotation_clip=False,
                zorder=4,
            )
            note.set_gid("name of a line")
            picture.line_names.setdefault(axes, []).append(note)
    if legend:
        return
    picture.entries = [(label, shown) for label, shown in picture.entries if label not in named]


def _find_text_colour(line: Any) -> str:
    """Return the colour of text for what has the colour of a line."""
    return _TEXT_COLOURS.get(to_hex(line), "black")


def mark_place(picture: "Picture", key: tuple[Any, ...], x: float, text: str = "") -> None:
    """Draw an upright dashed line at a place of a panel, with a text next to its upper end."""
    with style.apply_style(picture.sizes):
        axes = picture.panels[key]
        axes.axvline(x, color=style.GUIDE, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1.4, label=f"_{text}")
        low, high = axes.get_xlim()
        middle = float(np.mean(axes.transAxes.inverted().transform(axes.transData.transform([(x, 0)]))[0][0]))
        left = middle > 0.5
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
        axes.set_xlim(low, high)


def _list_last(picture: "Picture") -> Iterator[Axes]:
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


def spread_names(names: Sequence[Annotation], apart: float, dpi: float) -> None:
    """Move names apart that would touch; `apart` is in pixels."""
    ends = [float(name.axes.transData.transform(name.xy)[1]) for name in names if name.axes is not None]
    for name, end, place in zip(names, ends, spread_heights(ends, apart), strict=True):
        name.xyann = (_AWAY, (place - end) / dpi * 72)


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


def write(
    picture: "Picture",
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
            color=style.GUIDE if colour is None else _find_text_colour(colour),
            annotation_clip=False,
            zorder=4,
        )
