"""An evaluation in continuous integration: what of it is expected, and what got worse."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dumbbell.errors import InputError, Unreadable, WrongValue, quote_value
from dumbbell.evaluate import gate as gates
from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.case_verdict import CaseResult, CaseVerdict, SuiteReport
from dumbbell.evaluate.comparison import Figures, find_direction, format_figure, widen_interval
from dumbbell.evaluate.evaluation import Evaluation, Verdict, find_status
from dumbbell.evaluate.plan import Candidate, ScenePlace, format_where, make_plan
from dumbbell.evaluate.suite_file import Criterion, EvaluationSuite
from dumbbell.evaluate.verdict_report import describe_cell
from dumbbell.experiment import units

# a criterion that no longer applies is a change that somebody has to look at
_RANK = (
    *(grades.PASSES, grades.CONSTANT, grades.NO_WORSE, grades.TRANSPORT, grades.AS_RELATIVE),
    *(grades.NOT_APPLICABLE, grades.CANNOT_TELL),
    *(grades.WORSE, grades.FAILS, grades.CLOSED, grades.CRASHED, grades.HUNG),
)
_GOOD = frozenset(_RANK[: _RANK.index(grades.NOT_APPLICABLE)])


@dataclass(frozen=True)
class GatedResult(CaseResult):
    """The grade of a criterion in a cell; `place` is what tells the cell from others, as lists of --known have it."""

    seconds: float = field(default=0.0, compare=False)


def make_suite(suite: EvaluationSuite, subject: Candidate, fail: str = grades.WORSE) -> gates.Suite:
    """Return what continuous integration has to know of a suite; `fail` is the least grade that counts as bad."""
    sections = Counter(section for one in suite.criteria for section in one.answers)

    def name_criterion(one: Criterion) -> tuple[str, str]:
        section = one.answers[0] if one.answers else ""
        if one.judge and sections[section] == 1:
            return section, f"{section}. {suite.paragraphs[section].title}"
        return one.id, f"{one.id}: {one.says}"

    judged = {one.id for one in suite.criteria if one.judge}

    def split_words(case: str, words: Sequence[str]) -> tuple[str, Hashable]:
        text = " ".join(words)
        control = subject.name if text == subject.name or text.startswith(f"{subject.name} ") else "".join(words[:1])
        place = text[len(control) :].strip()
        return control, (_normalise_path(place) if case in judged else place) if place else None

    def list_places(case: str) -> list[str] | None:
        if case in judged:
            return None
        one = next(one for one in suite.criteria if one.id == case)
        plan = make_plan(suite.select([case]), [subject], 2)
        return [format_where(labels) for place, labels in plan.labels.items() if place.scene == one.scene]

    return gates.Suite(
        name=suite.name,
        rank={grade: number for number, grade in enumerate(_RANK)},
        good=_GOOD,
        cases={one.id: name_criterion(one) for one in suite.criteria},
        test=lambda one: f"{one.case} {one.place}".strip(),
        place=split_words,
        line="CRITERION SUBJECT, or CRITERION SUBJECT CELL, and the worst that is expected, such as = crashed",
        places=list_places,
        failed=fail,
        expects=grades.FAILS,
    )


def _normalise_path(text: str) -> str:
    """Return a rate and an RTT as cells of judges have them. Raises InputError."""
    rate, _, rtt = text.partition(" ")
    try:
        return f"{units.show('rate', units.parse('rate', rate))} {units.show('time', units.parse('time', rtt.strip()))}"
    except InputError:
        raise WrongValue(quote_value(text), "RATE RTT, such as 10Mbit 20ms") from None


def make_report(found: Evaluation) -> SuiteReport:
    """Return the grades of all cells as results."""
    results = [
        GatedResult(
            one.criterion.id,
            found.subject.name,
            format_where(found.plan.labels[place]),
            _make_verdict(found, one, place),
            cell.judged.seconds if cell.judged is not None else 0.0,
        )
        for one in found.verdicts
        for place, cell in one.cells.items()
    ]
    return SuiteReport(results, found.seconds)


def _make_verdict(found: Evaluation, one: Verdict, place: ScenePlace) -> CaseVerdict:
    cell, grade = one.cells[place], one.decide_grade(place)
    checks = cell.judged.verdict.checks if cell.judged is not None else ()
    return CaseVerdict(grade, describe_cell(found, one, place), checks)


def read_before(path: Path, suite: EvaluationSuite, of: gates.Suite, subject: Candidate) -> EarlierEvaluation:
    """Return an earlier report of the suite, as --format json wrote it; its subject may have another name.

    Raises InputError.
    """
    text = gates.read_text(path)
    try:
        table = json.loads(text)
        if table["suite"] != suite.name:
            raise WrongValue(quote_value(table["suite"]), f"a report of suite {suite.name}", file=path, key="suite")
        return collect_before(str(path), table, of, subject)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise Unreadable("this is not a report", "what dumbbell evaluate --format json writes", file=path) from None


def collect_before(name: str, table: Mapping[str, Any], of: gates.Suite, subject: Candidate) -> EarlierEvaluation:
    """Return the grades and figures of a report as JSON has it, as if they were of `subject`; `name` is the report's.

    Raises InputError for an unknown grade, and other errors for a file of another kind.
    """
    results: list[dict[str, Any]] = []
    figures: dict[tuple[str, str], tuple[Figures, int]] = {}
    for criterion in table["criteria"]:
        for cell in criterion["cells"]:
            key = str(criterion["id"]), str(cell["where"])
            names = {"case": key[0], "control": subject.name, "place": key[1]}
            results.append(names | {"result": str(cell["grade"]), "checks": cell["checks"]})
            if cell["value"] is not None:
                figures[key] = (float(cell["value"]), float(cell["low"]), float(cell["high"])), int(cell["seeds"])
    return EarlierEvaluation(gates.collect_results(Path(name), results, of), figures)


@dataclass(frozen=True)
class EarlierEvaluation:
    """A report of before: its grades, and figures and number of seeds of each cell that has them."""

    grades: gates.Before
    figures: Mapping[tuple[str, str], tuple[Figures, int]]

    def list_worse_figures(self, found: Evaluation) -> list[str]:
        """Return the figures that got worse in words: by more than `grade.MUCH`, and beyond both intervals."""
        lines = []
        for one in found.verdicts:
            for place, cell in one.cells.items():
                where = format_where(found.plan.labels[place])
                before = self.figures.get((one.criterion.id, where))
                if before is None or cell.judged is not None or cell.value != cell.value:
                    continue
                now = (cell.value, cell.low, cell.high)
                wide = widen_interval(*before), widen_interval(now, cell.seeds)
                if find_direction(*wide, is_less_better=one.criterion.bars[0].is_upper) > 0:
                    change = f"{format_figure(*before[0])} → {format_figure(*now)}"
                    title = found.suite.measures[one.criterion.measure].title
                    lines.append(f"figure got worse: {f'{one.criterion.id} {where}'.strip()}: {title} {change}")
        return lines


def find_gated_status(found: Evaluation, report: SuiteReport, gate: gates.Gate, fail: str) -> int:
    """Return the exit status: 1 if something bad is not expected or a yardstick failed, 3 if nothing is judged, else 0.

    A judge that cannot tell lacks a field of the trace: 3 as well, unless that is expected.
    """
    ended = {grades.CLOSED, grades.CRASHED, grades.HUNG}
    is_told = any(one.verdict.result in ended for one in report.results)
    if gate.failed or (found.failed and not is_told):
        return 1
    judged = {one.id for one in found.suite.criteria if one.judge}
    lacks = any(
        one.verdict.result == grades.CANNOT_TELL and one.case in judged and one.key not in gate.expected
        for one in report.results
    )
    return 3 if lacks or find_status(found.verdicts, fail) == 3 else 0
