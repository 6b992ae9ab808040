"""A history: reports of one suite on versions or commits of a subject, from the oldest, and their changes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dumbbell.evaluate.comparison import (
    CellChange,
    EvaluationComparison,
    Figures,
    Report,
    compare_reports,
    read_figures,
    read_report,
)
from dumbbell.evaluate.plan import format_labels
from dumbbell.results.tables import align_table
from dumbbell.words import format_count


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
    rows = [
        [entry.name, one.criterion, one.place or "the only one", one.word, *one.grades, *one.figures]
        for entry, one in changes
    ]
    return align_table(header, rows, words=tuple(range(6)))


def _format_commands(history: EvaluationHistory, *, markdown: bool) -> str:
    worse = [(entry, one) for entry, one in list_changes(history) if one.direction > 0]
    if not worse:
        return ""
    lines = [
        f"- {entry.name}, {one.criterion}: `{one.command}`" if markdown else f"{one.criterion}: {one.command}"
        for entry, one in worse
    ]
    return "\n".join(["To repeat what got worse:", *([""] if markdown else []), *lines])


def to_json(history: EvaluationHistory) -> str:
    """Return all reports, and the changes between them."""
    entries = [
        {"name": one.name, "title": one.title, "lacks": one.lacks, "report": one.report} for one in history.entries
    ]
    changes = [
        {"since": entry.name, **asdict(change), "change": change.word} for entry, change in list_changes(history)
    ]
    return json.dumps({"title": history.title, "entries": entries, "changes": changes}, indent=2)
