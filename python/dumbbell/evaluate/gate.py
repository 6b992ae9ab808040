"""An evaluation in continuous integration: expected failures, an earlier report, JUnit's XML, GitHub's annotations."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dumbbell.errors import InputError, UnknownName, WrongValue, find_nearest, quote_value
from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.comparison import Report, collect_cells, compare_reports, read_text
from dumbbell.evaluate.evaluation import Evaluation
from dumbbell.evaluate.grade import CANNOT_TELL, NOT_APPLICABLE, CellGrade
from dumbbell.evaluate.plan import Candidate, format_where, make_plan
from dumbbell.evaluate.suite_file import Criterion, EvaluationSuite
from dumbbell.evaluate.verdict_report import describe_cell, to_json
from dumbbell.experiment import units

_CellKey = tuple[str, str]
"""A criterion and the place of a cell."""
# a criterion that no longer applies is a change that somebody has to look at
_ORDER = [one for one in grades.ORDER if one != NOT_APPLICABLE]
_ORDER.insert(_ORDER.index(CANNOT_TELL), NOT_APPLICABLE)
_RANK = {grade: number for number, grade in enumerate(_ORDER)}
_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")
# what XML 1.0 has no way to say
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass
class Gate:
    """The reasons why an evaluation fails: cells that nobody expected, in words, and cells that are expected to fail.

    `fail` is the least grade that counts as bad.
    """

    found: Evaluation
    fail: str
    unexpected: dict[_CellKey, str] = field(default_factory=dict)
    expected: set[_CellKey] = field(default_factory=set)
    others: list[str] = field(default_factory=list)  # what else changed
    failures: list[str] = field(default_factory=list)  # entries of expected failures that do not fail
    figures: list[str] = field(default_factory=list)  # that are significantly worse than before

    @property
    def status(self) -> int:
        """The exit status: 1 if something bad is not expected or a yardstick failed, 3 if nothing is judged, else 0.

        A judge that cannot tell lacks a field of the trace: 3 as well, unless that is expected.
        """
        is_told = any(one.grade in grades.ENDED for one in self.found.cells)
        if self.list_failed() or (self.found.failed and not is_told):
            return 1
        untold = (one for one in self.found.cells if one.grade == CANNOT_TELL and one.criterion.judge)
        lacks = any(one.key not in self.expected for one in untold)
        is_judged = any(one.grade not in (CANNOT_TELL, NOT_APPLICABLE) for one in self.found.verdicts)
        return 3 if lacks or not is_judged else 0

    def list_failed(self) -> list[str]:
        """Return what nobody expected, in words."""
        return [*self.unexpected.values(), *self.failures, *self.figures]

    def to_lines(self) -> list[str]:
        """Return all that is not as expected in words."""
        return [*self.list_failed(), *self.others]

    def to_json(self) -> dict[str, Any]:
        """Return the gate for --format json."""
        return {"unexpected": self.list_failed(), "changed": self.others}

    def label(self, cell: CellGrade) -> str:
        """Return what a cell is called in lists: criterion, subject and place, as --known reads it."""
        return f"{name_criterion(self.found.suite, cell.criterion)[0]} {self.found.subject.name} {cell.key[1]}"

    def describe(self, verdict: str, cell: CellGrade, reason: str = "") -> str:
        """Return a verdict on a cell in words."""
        return f"{verdict}: {self.label(cell)}: {reason or describe_cell(self.found, cell)}"


def name_criterion(suite: EvaluationSuite, one: Criterion) -> tuple[str, str]:
    """Return the short name of a criterion and its heading: those of its section if no other judge answers it."""
    sections = Counter(section for each in suite.criteria for section in each.answers)
    section = one.answers[0] if one.answers else ""
    if one.judge and sections[section] == 1:
        return section, f"{section}. {suite.paragraphs[section].title}"
    return one.id, f"{one.id}: {one.says}"


def make_gate(
    found: Evaluation,
    fail: str = grades.WORSE,
    expected: Sequence[ExpectedFailure] | None = None,
    before: tuple[str, Report] | None = None,
) -> Gate:
    """Return what nobody expected: failures that a file does not have, or what is worse than in an earlier report.

    Without both, each failure counts. `before` is the name of the report and what it holds.
    """
    gate = Gate(found, fail)
    if expected is not None:
        _gate_by_expected(gate, expected)
    elif before is not None:
        _gate_by_report(gate, *before)
    else:
        bad = [one for one in found.cells if _is_bad(one.grade, fail)]
        gate.unexpected |= {one.key: gate.describe(one.grade, one) for one in bad}
    return gate


def _is_bad(grade: str, fail: str) -> bool:
    return _RANK[grade] >= _RANK[fail]


# --known


@dataclass(frozen=True)
class ExpectedFailure:
    """A line of a file of expected failures; `line` names it. Nothing worse than `grade` is expected."""

    line: str
    criterion: str
    subject: str
    where: str | None
    grade: str

    def names(self, cell: CellGrade) -> bool:
        """Whether the line is about a cell of its subject."""
        return (self.criterion, self.where or cell.key[1]) == cell.key


def _gate_by_expected(gate: Gate, expected: Sequence[ExpectedFailure]) -> None:
    """Note failures that no entry expects, and entries whose cells do not fail."""
    mine = [one for one in expected if one.subject == gate.found.subject.name]
    for one in gate.found.cells:
        now = one.grade
        known = [entry.grade for entry in mine if entry.names(one)]
        if not _is_bad(now, gate.fail):
            continue
        if any(_RANK[now] <= _RANK[grade] for grade in known):
            gate.expected.add(one.key)
        elif known:
            gate.unexpected[one.key] = gate.describe(
                f"{max(known, key=lambda one: _RANK[one])} is expected, {now}", one
            )
        else:
            gate.unexpected[one.key] = gate.describe("new failure" if now == gate.fail else f"new failure, {now}", one)
    for entry in mine:
        fitting = [one for one in gate.found.cells if entry.names(one)]
        judged = [one for one in fitting if one.grade not in (NOT_APPLICABLE, CANNOT_TELL)]
        if any(_is_bad(one.grade, gate.fail) for one in judged):
            continue
        if judged:
            said = f"expected to fail, but {judged[0].grade}: {entry.line}"
            if entry.where is not None:
                gate.unexpected[judged[0].key] = said
            else:
                gate.failures.append(said)
        elif fitting:
            gate.others.append(f"expected to fail, {fitting[0].grade}: {entry.line}")


def read_expected(
    path: Path,
    suite: EvaluationSuite,
    subject: Candidate,
    fail: str = grades.WORSE,
    names: Sequence[str] | None = None,
) -> list[ExpectedFailure]:
    """Read a file of expected failures.

    A line is `CRITERION SUBJECT`, which fails wherever it applies or at some places, or has the place, too; `= GRADE`
    at its end names the worst that is expected; `#` begins a comment.
    Raises InputError, also for a place and one of the subjects `names` that do not exist.
    """
    short = {one.id: name_criterion(suite, one)[0] for one in suite.criteria}
    worse = [one for one in _ORDER if _is_bad(one, fail)]
    found = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        place = f"line {number}"
        entry, equals, grade = (part.strip() for part in text.partition(" = "))
        if equals and grade not in worse:
            raise UnknownName(quote_value(grade), among=worse, file=path, key=place, what="result")
        word, *words = entry.split()
        criterion = next((one for one in suite.criteria if word.rstrip(".") in (one.id, short[one.id])), None)
        if criterion is None:
            near = find_nearest(word, short)
            among = list(short.values())
            raise UnknownName(quote_value(word), among=among, file=path, key=place, nearest=near, what="case")
        if not words:
            allowed = "CRITERION SUBJECT, or CRITERION SUBJECT CELL, and the worst that is expected, such as = crashed"
            raise WrongValue(quote_value(text), allowed, file=path, key=place)
        rest = " ".join(words)
        who = subject.name if rest == subject.name or rest.startswith(f"{subject.name} ") else words[0]
        if names is not None and who not in names:
            raise UnknownName(quote_value(who), among=names, file=path, key=place, what="control")
        try:
            where = _read_where(rest[len(who) :].strip(), suite, criterion, subject)
        except InputError as error:
            raise error.move(str(path), place) from None
        found.append(ExpectedFailure(f"{path.name} {place}: {text}", criterion.id, who, where, grade or grades.FAILS))
    return found


def _read_where(text: str, suite: EvaluationSuite, criterion: Criterion, subject: Candidate) -> str | None:
    """Return a cell of a criterion as it is called; none for no text. Raises InputError if it does not exist."""
    if not text:
        return None
    if criterion.judge:
        rate, _, rtt = text.partition(" ")
        try:
            pairs = (("rate", rate), ("time", rtt.strip()))
            return " ".join(units.show(kind, units.parse(kind, one)) for kind, one in pairs)
        except InputError:
            raise WrongValue(quote_value(text), "RATE RTT, such as 10Mbit 20ms") from None
    plan = make_plan(suite.select([criterion.id]), [subject], 2)
    places = [format_where(labels) for place, labels in plan.labels.items() if place.scene == criterion.scene]
    if text not in places:
        raise UnknownName(quote_value(text), among=places, what=f"place of {criterion.id}")
    return text


# --baseline


def _gate_by_report(gate: Gate, name: str, report: Report) -> None:
    """Note what is worse than in an earlier report as unexpected, and what is better as changed."""
    before = collect_cells(report)
    for one in gate.found.cells:
        now, old = one.grade, before.pop(one.key, None)
        if old is None:
            if _is_bad(now, gate.fail):
                gate.unexpected[one.key] = gate.describe(f"{now}, not in {name}", one)
        elif now == old["grade"]:
            if _is_bad(now, gate.fail) and (new := _find_other_broken(one, old.get("checks", ()))):
                gate.unexpected[one.key] = gate.describe(f"{now} by another limit", one, "; ".join(new))
            elif _is_bad(now, gate.fail) or now == CANNOT_TELL:
                gate.expected.add(one.key)
        elif _RANK[now] > _RANK[old["grade"]]:
            gate.unexpected[one.key] = gate.describe(f"{old['grade']} → {now}", one)
        else:
            gate.others.append(f"{old['grade']} → {now}: {gate.label(one)}")
    if before:
        gate.others.append(f"{len(before)} results of {name} were not looked at")
    measures = {one.id: one.measure for one in gate.found.suite.criteria}
    for change in compare_reports(json.loads(to_json(gate.found)), report, name).changes:
        if change.figure > 0 and change.grades[1] not in grades.ENDED:
            title = gate.found.suite.measures[measures[change.criterion]].title
            cell = f"{change.criterion} {change.where}".strip()
            gate.figures.append(f"figure got worse: {cell}: {title} {change.figures[0]} → {change.figures[1]}")


def _find_other_broken(cell: CellGrade, before: Sequence[dict[str, Any]]) -> list[str]:
    """Return the limits that were not kept and had been kept before, with what was found.

    Numbers in their names do not count, since they may depend on the run. The end of a connection or a run is a limit.
    """

    def name_limit(what: str, found: str) -> str:
        return _NUMBER.sub("#", f"{what}: {found}" if cell.grade in grades.ENDED else what)

    known = {name_limit(str(one["what"]), str(one["found"])) for one in before if one["held"] is False}
    broken = [one for one in cell.checks if one.held is False]
    return [f"{one.found} ({one.what})" for one in broken if name_limit(one.what, one.found) not in known]


# --junit


def format_junit(gate: Gate) -> str:
    """Return the results as JUnit's XML: the form that Jenkins' xunit plug-in and GitLab read."""
    outer = ElementTree.Element("testsuites")
    name, subject = gate.found.suite.name, gate.found.subject.name
    cells = ElementTree.SubElement(outer, "testsuite", name=f"{name} {subject}")
    for one in gate.found.cells:
        seconds = one.judged.seconds if one.judged is not None else 0.0
        test = _add_junit_test(cells, f"{name}.{subject}", " ".join(filter(None, one.key)), seconds)
        tag, message = _find_outcome(one, gate)
        if tag:
            child = ElementTree.SubElement(test, tag, message=message)
            if tag != "skipped":
                child.set("type", one.grade.replace(" ", "-"))
                child.text = "\n".join(map(str, one.checks))
    for title, short, kind, lines in (
        ("expected failures", "known", "passed", gate.failures),
        ("figures", "figure", "worse", gate.figures),
    ):
        suite = ElementTree.SubElement(outer, "testsuite", name=title) if lines else outer
        for number, line in enumerate(lines, 1):
            test = _add_junit_test(suite, f"{name}.{short}", f"{short} {number}")
            ElementTree.SubElement(test, "failure", message=line, type=kind)
    for suite in outer:
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
        suite.attrib |= {"tests": str(len(suite)), "time": f"{gate.found.seconds if suite is cells else 0:.3f}"}
    for element in outer.iter():
        element.attrib = {key: _NOT_IN_XML.sub("?", value) for key, value in element.attrib.items()}
        element.text = None if element.text is None else _NOT_IN_XML.sub("?", element.text)
    ElementTree.indent(outer)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(outer, encoding="unicode") + "\n"


def _add_junit_test(suite: ElementTree.Element, group: str, name: str, seconds: float = 0.0) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=group, name=name, time=f"{seconds:.3f}")


def _find_outcome(one: CellGrade, gate: Gate) -> tuple[str, str]:
    """Return the element that a cell has in JUnit's XML, if any, and its message."""
    grade, reason = one.grade, describe_cell(gate.found, one)
    if one.key in gate.unexpected:
        # what ended a run is an error and no failure
        return "error" if grade in (grades.CRASHED, grades.HUNG) else "failure", gate.unexpected[one.key]
    if one.key in gate.expected:
        return "skipped", f"expected: {grade}: {reason}"
    return ("skipped", f"{grade}: {reason}") if grade in (CANNOT_TELL, NOT_APPLICABLE) else ("", "")


# --github


def list_annotations(gate: Gate) -> list[str]:
    """Return workflow commands of GitHub Actions: an error for what is unexpected, a warning for what nobody can tell.

    GitHub shows ten of a kind for a step, so that there is one for each criterion.
    """
    suite, subject = gate.found.suite, gate.found.subject.name
    groups: dict[tuple[str, str], list[str]] = {}
    for one in gate.found.cells:
        _, heading = name_criterion(suite, one.criterion)
        if one.key in gate.unexpected:
            groups.setdefault(("error", f"{heading}, {subject}"), []).append(gate.unexpected[one.key])
        elif one.grade == CANNOT_TELL and one.key not in gate.expected:
            groups.setdefault(("warning", f"{heading}, {subject}"), []).append(gate.describe("cannot tell", one))
    lines = [_format_annotation(kind, title, texts) for (kind, title), texts in groups.items()]
    return lines + [_format_annotation("error", f"suite {suite.name}", [one]) for one in gate.failures + gate.figures]


def _format_annotation(kind: str, title: str, texts: list[str]) -> str:
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return f"::{kind} title={_escape_command(title, ':,')}::{_escape_command(texts[0] + more)}"


def _escape_command(text: str, others: str = "") -> str:
    """Escape as docs.github.com, Workflow commands, says; of a property also colon and comma."""
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{others}" else char for char in text)
