"""The page of a history: grades of all criteria over versions, and each cell's figures with their intervals, drawn."""

from __future__ import annotations

import math

from markupsafe import Markup, escape

from dumbbell.evaluate.comparison import format_figure
from dumbbell.evaluate.grade import GRADES, MUCH
from dumbbell.evaluate.history import CellHistory, EvaluationHistory, list_changes
from dumbbell.evaluate.verdict_maps import name_grade
from dumbbell.evaluate.verdict_report import load_page

_STEP, _HEIGHT, _MARGIN = 22, 44, 8  # of a drawing: between two versions, its height, and around it, px


def make_history_page(history: EvaluationHistory, command: str) -> str:
    """Return a page that stands alone; `command` is the line that was typed."""
    changes = list_changes(history)
    used = {cell["grade"] for entry in history.entries for one in entry.criteria.values() for cell in one["cells"]}
    return load_page("history.html").render(
        title=history.title,
        history=history,
        command=command,
        changes=changes,
        changed={(one.criterion, one.place): one.criterion for _, one in changes},
        grades=[(grade, meaning) for grade, meaning in GRADES.items() if grade in used],
        draw_cell=draw_cell_history,
        format_figure=format_figure,
    )


def draw_cell_history(history: EvaluationHistory, one: CellHistory) -> Markup:
    """Draw the values of a cell over versions with their intervals, each with the colour of its grade.

    The scale is that of the cell: from its least to its greatest value, but at least as much as makes a difference.
    """
    drawn = [(n, *cell) for n, cell in enumerate(one.cells) if cell is not None and not math.isnan(cell[1][0])]
    if not drawn:
        return Markup("")
    low, high = min(figures[1] for _, _, figures in drawn), max(figures[2] for _, _, figures in drawn)
    half = max((high - low) / 2, MUCH * max(abs(high), abs(low)), 1e-12)
    top = (high + low) / 2 + half

    def find_y(value: float) -> float:
        return _MARGIN + (top - value) / (2 * half) * (_HEIGHT - 2 * _MARGIN)

    width = 2 * _MARGIN + _STEP * (len(one.cells) - 1)
    points = [(_MARGIN + _STEP * n, find_y(figures[0])) for n, _, figures in drawn]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [
        f'<svg class="trends" width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}" role="img">',
        f'<polyline class="trend" points="{line}"/>',
    ]
    for (x, y), (n, grade, figures) in zip(points, drawn, strict=True):
        told = f"{history.entries[n].name}: {grade}, {format_figure(*figures)}"
        parts.append(
            f'<path class="trend" d="M{x:.1f} {find_y(figures[2]):.1f}V{find_y(figures[1]):.1f}"/>'
            f'<circle class="{name_grade(grade)}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
            f"<title>{escape(told)}</title></circle>"
        )
    return Markup("".join([*parts, "</svg>"]))
