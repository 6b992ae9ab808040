"""Throughput against queueing delay, as in the papers of Remy (Winstein and Balakrishnan, 2013) and of BBR."""

from itertools import product
from typing import Any, Unpack

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from dumbbell.figures.axes import collect_numbers, is_log, scale
from dumbbell.figures.canvas import Picture, make_drawing, spread
from dumbbell.figures.frames import Groups, Layout, Names, Numbers, convert_numbers, format_axis_label, read_rows
from dumbbell.figures.lines import handle
from dumbbell.lazy import call_lazily

_MOST_LABELS = 8
_LEAST_SPAN = 0.1  # of the highest throughput, that the axis shows: a tenth of a per cent is no difference to look at


@make_drawing(page=call_lazily("dumbbell.figures.interactive.maps", "ellipses"))
def ellipses(
    frame: Any,
    x: str,
    y: str,
    *,
    by: Names = None,
    log_x: bool | None = None,
    **layout: Unpack[Layout],
) -> Picture:
    """Draw delay `x`, smaller to the right, and throughput `y`: better is up and to the right.

    Each group of `by` has a marker at the mean of its rows (seeds, flows) and the ellipse of one standard deviation
    along the axes of their covariance. Groups of fewer than three rows have a marker alone. Labels are next to the
    markers where they fit, else all in a legend.
    """
    rows = read_rows(frame, layout, ("x", "y"), x=x, y=y, by=by)
    groups = Groups.from_frame(rows, by)
    picture, panels = spread(rows, layout, series=len(groups.keys))
    places = collect_numbers(rows, x)
    log = is_log(log_x, places, "log_x")
    first = panels[0].axes
    scale(first.xaxis, places, log=log)
    scale(first.yaxis, collect_numbers(rows, y), log=False)
    corners: list[tuple[float, float]] = []
    centres: dict[Axes, list[tuple[float, float, str, str]]] = {}
    for panel in panels:
        for _, label, part, style in groups.list_parts(panel.rows):
            points = select_points(part, x, y, log=log)
            if not len(points):
                continue
            mean = points.mean(axis=0)
            outline = compute_outline(points, mean)
            if outline is not None:
                shape = _make_ellipse(points, mean) if not log else None
                if shape is not None:
                    panel.axes.add_patch(shape)
                    shape.set(facecolor=style.colour, edgecolor=style.colour, label=f"_{label}, ellipse")
                    shape.set_linestyle(style.dashes)
                    shape.set_alpha(0.25)
                else:
                    panel.axes.fill(
                        10 ** outline[:, 0],
                        outline[:, 1],
                        facecolor=style.colour,
                        alpha=0.25,
                        edgecolor=style.colour,
                        label=f"_{label}, ellipse",
                    )
                corners += [(10 ** float(a) if log else float(a), float(b)) for a, b in outline]
            at = 10 ** float(mean[0]) if log else float(mean[0])
            panel.axes.plot(
                [at],
                [float(mean[1])],
                linestyle="none",
                marker=style.marker,
                color=style.colour,
                markersize=6,
                label=label,
            )
            corners.append((at, float(mean[1])))
            centres.setdefault(panel.axes, []).append((at, float(mean[1]), label, style.text_colour))
    _set_limits(first, corners, log=log)
    picture.set_texts(layout, format_axis_label(x), format_axis_label(y))
    picture.around.x_label += " (smaller is to the right)"
    if len(groups.keys) > _MOST_LABELS or (len(groups.keys) > 1 and not _place_labels(picture, centres)):
        picture.add_groups(groups, lambda style: handle(style, joined=False))
    return picture


def select_points(rows: Any, x: str, y: str, *, log: bool) -> Numbers:
    """Return the known points of rows, with logarithms to the base 10 across if `log`."""
    at = convert_numbers(rows[x])
    points = np.column_stack([np.log10(at) if log else at, convert_numbers(rows[y])])
    known: Numbers = points[np.isfinite(points).all(axis=1)]
    return known


def _compute_axes(points: Numbers) -> tuple[Numbers, Numbers]:
    """Return standard deviations along the main axes, and those axes."""
    spread_of, directions = np.linalg.eigh(np.cov(points.T))
    return np.sqrt(np.maximum(spread_of, 0.0)), directions


def compute_outline(points: Numbers, mean: Numbers) -> Numbers | None:
    """Return points on the ellipse of one standard deviation."""
    if len(points) < 3:
        return None
    deviations, directions = _compute_axes(points)
    turn = np.linspace(0, 2 * np.pi, 73)
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    around: Numbers = mean + (circle * deviations) @ directions.T
    return around


def _make_ellipse(points: Numbers, mean: Numbers) -> Ellipse:
    deviations, directions = _compute_axes(points)
    angle = float(np.degrees(np.arctan2(directions[1, 1], directions[0, 1])))
    return Ellipse((float(mean[0]), float(mean[1])), 2 * float(deviations[1]), 2 * float(deviations[0]), angle=angle)


def _set_limits(axes: Axes, corners: list[tuple[float, float]], *, log: bool) -> None:
    """Show everything, delay from the right."""
    if not corners:
        return
    xs, ys = np.array(corners).T
    low, high, bottom, top = float(xs.min()), float(xs.max()), float(ys.min()), float(ys.max())
    if log:
        axes.set_xlim(high * (high / low) ** 0.08 * 1.02, low / (high / low) ** 0.08 / 1.02)
    else:
        room = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_xlim(high + room, low - room if low < 0 or low > room else 0.0)
    bottom = min(bottom, top - _LEAST_SPAN * abs(top))
    room = 0.08 * (top - bottom) or 0.05 * abs(top) or 1.0
    axes.set_ylim(bottom - room if bottom < 0 or bottom > room else 0.0, top + room)


def _place_labels(picture: Picture, centres: dict[Axes, list[tuple[float, float, str, str]]]) -> bool:
    """Write each label next to its marker where it covers nothing; False, with none written, if one has no room."""
    picture.arrange()
    renderer = picture.canvas.get_renderer()  # type: ignore[attr-defined]
    written: list[Annotation] = []
    offsets = [(x, y) for y, x in product((0, 7, -7, 13, -13), (8, -8, 0)) if (x, y) != (0, 0)]
    for axes, points in centres.items():
        inside = axes.get_window_extent(renderer)
        pixels = [axes.transData.transform((x, y)) for x, y, _, _ in points]
        taken_up: list[Bbox] = []
        for x, y, label, colour in points:
            for aside in offsets:
                note = axes.annotate(
                    label,
                    (x, y),
                    xytext=aside,
                    textcoords="offset points",
                    ha="left" if aside[0] > 0 else "right" if aside[0] < 0 else "center",
                    va="center",
                    fontsize="small",
                    color=colour,
                )
                box = note.get_window_extent(renderer)
                text = Bbox.from_extents(box.x0, box.y0, box.x1, box.y1).padded(2)
                free = not any(text.overlaps(other) for other in taken_up)
                free = free and not any(text.padded(3).contains(*pixel) for pixel in pixels)
                if (
                    free
                    and inside.x0 <= text.x0
                    and text.x1 <= inside.x1
                    and inside.y0 <= text.y0
                    and text.y1 <= inside.y1
                ):
                    written.append(note)
                    taken_up.append(text)
                    break
                note.remove()
            else:
                for note in written:
                    note.remove()
                return False
    return True
