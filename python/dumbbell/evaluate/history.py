"""A history: reports of one suite on versions or commits of a subject, from the oldest, their changes, and its page."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from dumbbell.evaluate.comparison import (
    REPEAT,
    CellChange,
    EvaluationComparison,
    Figures,
    Report,
    compare_reports,
    format_commands,
    format_figure,
    read_figures,
    read_report,
)
from dumbbell.evaluate.grade import GRADES, MUCH
from dumbbell.evaluate.plan import format_labels
from dumbbell.evaluate.verdict_maps import name_grade
from dumbbell.evaluate.verdict_report import load_page
from dumbbell.results.tables import align_table
from dumbbell.words import format_count

_STEP, _HEIGHT, _MARGIN = 22, 44, 8  # of a drawing: between two versions, its height, and around it, px


@dataclass(frozen=True)
class HistoryEntry:
    """A version or a commit: its name, its title if it has one, and its report, or the reason why there is none."""

    name: str
    title: str
    report: Report | None
    lacks: str = ""

    @property
    def criteria(self) -> Mapping[str, Mapping[str, Any]]:
        """The verdicts of the report by their criteria."""
        return {one["id"]: one for one in self.report["criteria"]} if self.report is not None else {}


@dataclass(frozen=True)
class CellHistory:
    """A cell over all entries: its place, and grade and figures of each entry, nothing where it has none."""

    place: str
    cells: tuple[tuple[str, Figures] | None, ...]


@dataclass(frozen=True)
class EvaluationHistory:
    """The entries, and the changes of each from the one before it that has a report."""

    title: str
    entries: tuple[HistoryEntry, ...]

    @cached_property
    def steps(self) -> list[tuple[HistoryEntry, EvaluationComparison]]:
        """Each entry with a report except the first, compared with the one before it."""
        judged = [(one, one.report) for one in self.entries if one.report is not None]
        return [
            (now, compare_reports(report, before, earlier.name))
            for (earlier, before), (now, report) in itertools.pairwise(judged)
        ]

    @property
    def criteria(self) -> list[Mapping[str, Any]]:
        """The criteria of all entries, each as the newest report with it has it."""
        found: dict[str, Mapping[str, Any]] = {}
        for one in self.entries:
            found |= one.criteria
        return list(found.values())

    @property
    def is_last_worse(self) -> bool:
        """Whether the last entry is worse than the one before it, or has no report."""
        last = self.entries[-1]
        return last.report is None or any(one is last and found.regressions for one, found in self.steps)

    def list_cells(self, criterion: str) -> list[CellHistory]:
        """Return the cells of a criterion over all entries."""
        places: dict[str, str] = {}
        by_entry: list[dict[str, tuple[str, Figures]]] = []
        for entry in self.entries:
            cells = entry.criteria.get(criterion, {"cells": []})["cells"]
            places |= {cell["where"]: format_labels(cell["place"]) for cell in cells}
            by_entry.append({cell["where"]: (str(cell["grade"]), read_figures(cell)) for cell in cells})
        return [CellHistory(place, tuple(one.get(where) for one in by_entry)) for where, place in places.items()]

    def describe(self) -> str:
        """Return in sentences what was compared, and how many cells got worse or better."""
        judged = [one for one in self.entries if one.report is not None]
        suites = {str(one.report["suite"]) for one in judged if one.report is not None}
        sentences = [f"{format_count(len(self.entries), 'version')} by suite {', '.join(sorted(suites))}."]
        for entry, found in self.steps:
            if found.list_changed():
                sentences.append(f"{entry.name}: {found.describe()}")
        if not any(found.list_changed() for _, found in self.steps):
            sentences.append("No grade or figure changed.")
        return "\n".join([*sentences, *(f"{one.name}: {one.lacks}" for one in self.entries if one.lacks)])


def read_entry(path: Path) -> HistoryEntry:
    """Return a report that `--format json` wrote as an entry. Raises InputError."""
    report = read_report(path)
    return HistoryEntry(path.stem, str(report["name"]), report)


def format_history(history: EvaluationHistory, *, markdown: bool = False) -> str:
    """Return the grades of all criteria over the entries, what changed, and the commands of what got worse."""
    head = f"# {history.title}" if markdown else history.title
    names = [one.name for one in history.entries]
    rows = [
        [one["id"], *(entry.criteria.get(one["id"], {}).get("grade", "-") for entry in history.entries)]
        for one in history.criteria
    ]
    grades = align_table(["criterion", *names], rows, words=tuple(range(len(names) + 1))) if rows else ""
    titles = [f"- {one.name}: {one.title}" for one in history.entries if one.title]
    parts = [
        head,
        history.describe(),
        "\n".join(titles),
        grades,
        _format_changes(history),
        _format_commands(history, markdown=markdown),
    ]
    return "\n\n".join(filter(None, parts))


def list_changes(history: EvaluationHistory) -> list[tuple[HistoryEntry, CellChange]]:
    """Return the cells that changed from one entry to the next, by entry, those that got worse first."""
    return [(entry, change) for entry, found in history.steps for change in found.list_changed()]


def _format_changes(history: EvaluationHistory) -> str:
    changes = list_changes(history)
    if not changes:
        return ""
    header = ["since", "criterion", "cell", "change", "grade before", "grade", "before", "value"]
    rows = [[entry.name, *one.row] for entry, one in changes]
    return align_table(header, rows, words=tuple(range(6)))


def _format_commands(history: EvaluationHistory, *, markdown: bool) -> str:
    worse = [(entry, one) for entry, one in list_changes(history) if one.direction > 0]
    names = [f"{entry.name}, {one.criterion}" if markdown else one.criterion for entry, one in worse]
    return format_commands(REPEAT, zip(names, (one.command for _, one in worse), strict=True), markdown=markdown)


def to_json(history: EvaluationHistory) -> str:
    """Return all reports, and the changes between them."""
    entries = [
        {"name": one.name, "title": one.title, "lacks": one.lacks, "report": one.report} for one in history.entries
    ]
    changes = [
        {"since": entry.name, **asdict(change), "change": change.word} for entry, change in list_changes(history)
    ]
    return json.dumps({"title": history.title, "entries": entries, "changes": changes}, indent=2)


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
