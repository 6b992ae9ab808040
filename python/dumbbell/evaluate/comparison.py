"""An evaluation against another one: of another subject, or an earlier one that was written as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.errors import Unreadable, WrongValue, quote_value
from dumbbell.evaluate.grade import CANNOT_TELL, GRADES, MUCH, NOT_APPLICABLE, is_bad, rank
from dumbbell.evaluate.plan import format_labels
from dumbbell.results.aggregate import LEVEL
from dumbbell.results.student import compute_t_quantile
from dumbbell.results.tables import align_table
from dumbbell.words import format_count, format_measured
from dumbbell.writing import report_read_failures

_NORMAL = 1.959964  # standard deviations on either side that hold the share `LEVEL` of a normal distribution
REPEAT = "To repeat what got worse:"
Figures = tuple[float, float, float]
"""A value and its interval."""
Report = Mapping[str, Any]
"""An evaluation as `--format json` has it."""


@dataclass(frozen=True)
class CellChange:
    """A cell in both evaluations: grades and figures, there and here, and whether they got better or worse."""

    criterion: str
    where: str
    """The place in a word or two."""
    place: str
    """The place with the names of its keys."""
    grades: tuple[str, str]
    figures: tuple[str, str]
    figure: int
    """1 if the figure got worse, -1 if it got better, 0 if its intervals overlap."""
    command: str

    @property
    def direction(self) -> int:
        """1 if the grade or the figure got worse, -1 if one got better and none worse, 0 if nothing changed."""
        before, now = self.grades
        if self.figure > 0 or (is_bad(now) and rank(now) > rank(before)):
            return 1
        improved = is_bad(before) and rank(now) < rank(before) and now not in (CANNOT_TELL, NOT_APPLICABLE)
        return -1 if self.figure < 0 or improved else 0

    @property
    def row(self) -> list[str]:
        """The cells of a row in a table of changes."""
        return [self.criterion, self.place or "the only one", self.word, *self.grades, *self.figures]

    @property
    def word(self) -> str:
        """The direction as a word."""
        return {1: "worse", -1: "better"}.get(self.direction, "the same")


@dataclass(frozen=True)
class EvaluationComparison:
    """The changes from another evaluation to this one."""

    other: str
    changes: tuple[CellChange, ...]
    new: int
    """Cells that the other evaluation does not have."""

    @property
    def regressions(self) -> list[CellChange]:
        """The cells that got worse."""
        return [one for one in self.changes if one.direction > 0]

    def list_changed(self) -> list[CellChange]:
        """Return the cells that changed, those that got worse first."""
        return sorted((one for one in self.changes if one.direction), key=lambda one: -one.direction)

    def describe(self) -> str:
        """Return how many cells changed, in one sentence."""
        better = sum(one.direction < 0 for one in self.changes)
        same = len(self.changes) - better - len(self.regressions)
        new = f", {format_count(self.new, 'cell')} only here" if self.new else ""
        return f"Against {self.other}: {len(self.regressions)} worse, {better} better, {same} the same{new}."


def read_text(path: Path) -> str:
    """Return the text of a file. Raises InputError."""
    try:
        with report_read_failures(path, "a file that can be read"):
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable("this is not text", "a text file", file=path) from None


def read_report(path: Path, suite: str = "") -> Report:
    """Return a report that `--format json` wrote, of a suite if one is named. Raises InputError."""
    text = read_text(path)
    try:
        report: Report = json.loads(text)
        of = report["suite"]
        unknown = {cell["grade"] for cell in collect_cells(report).values()} - GRADES.keys()
        compare_reports(report, report, str(report["name"]))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        allowed = "what dumbbell evaluate --format json writes"
        raise Unreadable("this is not a report", allowed, file=path) from None
    if suite and of != suite:
        raise WrongValue(quote_value(of), f"a report of suite {suite}", file=path, key="suite")
    if unknown:
        raise WrongValue(quote_value(min(unknown)), list(GRADES), file=path, key="grade")
    return report


def collect_cells(report: Report) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the cells of a report by criterion and place."""
    return {(one["id"], cell["where"]): cell for one in report["criteria"] for cell in one["cells"]}


def compare_reports(found: Report, other: Report, name: str) -> EvaluationComparison:
    """Return what changed from another report of the same suite, which has the name `name`."""
    before_cells = collect_cells(other)
    changes, new = [], 0
    for one in found["criteria"]:
        for cell in one["cells"]:
            before = before_cells.get((one["id"], cell["where"]))
            if before is None:
                new += 1
            else:
                changes.append(_compare_cell(one, cell, before))
    return EvaluationComparison(name, tuple(changes), new)


def read_figures(cell: Mapping[str, Any]) -> Figures:
    """Return the value of a cell of a report, and its interval."""
    value, low, high = (math.nan if cell[name] is None else float(cell[name]) for name in ("value", "low", "high"))
    return value, low, high


def widen_interval(figures: Figures, seeds: int) -> Figures:
    """Return figures with the interval that their number of seeds allows.

    Resampled seeds spread less than new seeds would, and their quantiles are those of a normal distribution. A factor
    corrects both, with Student's t: 9 for two seeds, 1.6 for five, 1.1 for twenty.
    """
    value, low, high = figures
    if seeds < 2:
        return figures
    factor = compute_t_quantile(seeds - 1, LEVEL) / _NORMAL * math.sqrt(seeds / (seeds - 1))
    return value, value - factor * (value - low), value + factor * (high - value)


def _compare_cell(criterion: Mapping[str, Any], cell: Mapping[str, Any], before: Mapping[str, Any]) -> CellChange:
    now, then = read_figures(cell), read_figures(before)
    bars = list(criterion["bars"].values())
    return CellChange(
        criterion["id"],
        cell["where"],
        format_labels(cell["place"]),
        (before["grade"], cell["grade"]),
        (format_figure(*then), format_figure(*now)),
        find_direction(
            *(widen_interval(then, before["seeds"]), widen_interval(now, cell["seeds"])),
            is_less_better=bars[0].startswith("<"),
        )
        if bars
        else 0,
        cell["command"],
    )


def find_direction(before: Figures, now: Figures, *, is_less_better: bool) -> int:
    """Return 1 if a figure got worse, -1 if it got better, 0 if not by more than `MUCH` and beyond both intervals."""
    difference = now[0] - before[0]
    apart = now[1] > before[2] or now[2] < before[1]
    if not apart or math.isnan(difference) or abs(difference) <= MUCH * abs(before[0]):
        return 0
    return 1 if (difference > 0) == is_less_better else -1


def format_figure(value: float, low: float, high: float, *, digits: int = 3, none: str = "no data") -> str:
    """Return a value with its interval, or `none` if it is NaN."""
    if math.isnan(value):
        return none
    texts = format_measured(low, digits), format_measured(high, digits)
    return format_measured(value, digits) + (f" ({texts[0]} to {texts[1]})" if texts[0] != texts[1] else "")


def format_comparison(found: EvaluationComparison, subject: str) -> str:
    """Return a sentence and a table of the cells that changed, the worst first, and the commands of those."""
    if not (changed := found.list_changed()):
        return found.describe()
    header = ["criterion", "cell", "change", f"grade of {found.other}", f"of {subject}", found.other, subject]
    table = align_table(header, [one.row for one in changed], words=tuple(range(5)))
    commands = format_commands(REPEAT, [(one.criterion, one.command) for one in found.regressions])
    return "\n\n".join(filter(None, [found.describe(), table, commands]))


def format_commands(title: str, commands: Iterable[tuple[str, str]], *, markdown: bool = False) -> str:
    """Return commands below a title, each with the name of what it repeats; nothing if there are none."""
    lines = [f"- {name}: `{command}`" if markdown else f"{name}: {command}" for name, command in commands]
    return "\n".join([title, *([""] if markdown else []), *lines]) if lines else ""
