"""Output for continuous integration: expected failures, a report of before, JUnit's XML, GitHub's annotations."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dumbbell.errors import InputError, UnknownName, Unreadable, WrongValue, find_nearest, quote_value
from dumbbell.evaluate.case_verdict import CaseResult, CaseVerdict, SuiteReport
from dumbbell.evaluate.grade import CANNOT_TELL, CLOSED, CRASHED, HUNG, NOT_APPLICABLE
from dumbbell.writing import get_reason

_Key = tuple[str, str, Hashable]
_ENDS = (CLOSED, CRASHED, HUNG)  # results of a run that ended early
_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")
# what XML 1.0 has no way to say
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Suite:
    """The properties of a suite that continuous integration needs.

    `rank` has its results from good to bad; those of `good` are no reason to look, and from `failed` on they are bad.
    `test` names a result in JUnit's XML. `place` splits the words behind a case in a file of expected failures into
    control and place.
    """

    name: str
    rank: Mapping[str, int]
    good: frozenset[str]
    cases: Mapping[str, tuple[str, str]]  # short name and heading
    test: Callable[[CaseResult], str]
    place: Callable[[str, Sequence[str]], tuple[str, Hashable]]
    line: str  # form of a line of expected failures
    places: Callable[[str], Sequence[Hashable] | None]  # those of a case, if there are no others
    failed: str
    expects: str  # the worst that an expected failure is, if its line does not say

    def is_bad(self, result: str) -> bool:
        """Whether a result is a failure, or worse than one."""
        return self.rank[result] >= self.rank[self.failed]


@dataclass
class Gate:
    """The reasons why a report fails: results that nobody expected, in words, and results that are expected to fail."""

    unexpected: dict[_Key, str] = field(default_factory=dict)
    expected: set[_Key] = field(default_factory=set)
    others: list[str] = field(default_factory=list)  # what else changed
    failures: list[str] = field(default_factory=list)  # entries of expected failures that do not fail
    figures: list[str] = field(default_factory=list)  # that are significantly worse than before

    @property
    def failed(self) -> bool:
        """Whether there is anything that nobody expected."""
        return bool(self.unexpected or self.failures or self.figures)

    def to_lines(self) -> list[str]:
        """Return all of it in words."""
        return [*self.unexpected.values(), *self.failures, *self.figures, *self.others]


def _describe(verdict: str, one: CaseResult, of: Suite, reason: str = "") -> str:
    return f"{verdict}: {label(one, of)}: {reason or one.verdict.reason}"


def label(one: CaseResult, of: Suite) -> str:
    """Return what a result is called in lists: case, control and place, as --known reads it."""
    return f"{of.cases[one.case][0]} {one.control} {one.where}"


def make_gate(
    report: SuiteReport, of: Suite, expected: Sequence[Expected] | None = None, before: Before | None = None
) -> Gate:
    """Return what nobody expected, after a file of expected failures or a report of before, if there is one."""
    if expected is not None:
        return gate_by_expected(report, expected, of)
    return gate_failures(report, of) if before is None else gate_by_report(report, before, of)


def gate_failures(report: SuiteReport, of: Suite) -> Gate:
    """Return the gate without anything expected: each failure counts."""
    failed = [one for one in report.results if of.is_bad(one.verdict.result)]
    return Gate({one.key: _describe(one.verdict.result, one, of) for one in failed})


# --known


@dataclass(frozen=True)
class Expected:
    """A line of a file of expected failures; `place` names it. Nothing worse than `result` is expected."""

    place: str
    case: str
    control: str
    point: Hashable
    result: str

    def matches(self, one: CaseResult) -> bool:
        """Whether it speaks of a result."""
        return (one.case, one.control) == (self.case, self.control) and self.point in (None, one.place)


def gate_by_expected(report: SuiteReport, expected: Sequence[Expected], of: Suite) -> Gate:
    """Return what is not as expected: failures that are not, and entries of which nothing fails."""
    gate = Gate()
    for one in report.results:
        now = one.verdict.result
        if not of.is_bad(now):
            continue
        known = [entry.result for entry in expected if entry.matches(one)]
        if any(of.rank[now] <= of.rank[result] for result in known):
            gate.expected.add(one.key)
        elif known:
            worst = max(known, key=lambda result: of.rank[result])
            gate.unexpected[one.key] = _describe(f"{worst} is expected, {now}", one, of)
        else:
            new = "new failure" if now == of.failed else f"new failure, {now}"
            gate.unexpected[one.key] = _describe(new, one, of)
    for entry in expected:
        fitting = [one for one in report.results if entry.matches(one)]
        judged = [one for one in fitting if one.verdict.result not in (NOT_APPLICABLE, CANNOT_TELL)]
        if any(of.is_bad(one.verdict.result) for one in judged):
            continue
        if judged:
            said = f"expected to fail, but {judged[0].verdict.result}: {entry.place}"
            if entry.point is not None:
                gate.unexpected[judged[0].key] = said
            else:
                gate.failures.append(said)
        elif fitting:
            gate.others.append(f"expected to fail, {fitting[0].verdict.result}: {entry.place}")
    return gate


def read_expected(path: Path, of: Suite, controls: Sequence[str] | None = None) -> list[Expected]:
    """Read a file of expected failures.

    A line is `CASE CONTROL`, which fails wherever it applies or at some places, or has the place, too; `= RESULT` at
    its end names the worst that is expected; `#` begins a comment.
    Raises InputError, also for a place and one of `controls` that do not exist.
    """
    found = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        entry, equals, result = (part.strip() for part in text.partition(" = "))
        words = entry.split()
        place = f"line {number}"
        worse = [one for one in of.rank if of.is_bad(one)]
        if equals and result not in worse:
            raise UnknownName(quote_value(result), among=worse, file=path, key=place, what="result")
        keys = [key for key, (short, _) in of.cases.items() if words[0].rstrip(".") in (key, short)]
        if not keys:
            raise UnknownName(
                quote_value(words[0]),
                among=[short for short, _ in of.cases.values()],
                file=path,
                key=place,
                nearest=find_nearest(words[0], of.cases),
                what="case",
            )
        try:
            control, point = of.place(keys[0], words[1:])
        except InputError as error:
            raise error.move(str(path), place) from None
        if not control:
            raise WrongValue(quote_value(text), of.line, file=path, key=place)
        if controls is not None and control not in controls:
            raise UnknownName(quote_value(control), among=controls, file=path, key=place, what="control")
        places = of.places(keys[0]) if point is not None else None
        if places is not None and point not in places:
            where = [str(one) for one in places]
            raise UnknownName(quote_value(str(point)), among=where, file=path, key=place, what=f"place of {keys[0]}")
        found.append(Expected(f"{path.name} {place}: {text}", keys[0], control, point, result or of.expects))
    return found


def read_text(path: Path) -> str:
    """Return the text of a file. Raises InputError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Unreadable(get_reason(error), "a file that can be read", file=path) from None
    except UnicodeDecodeError:
        raise Unreadable("this is not text", "a text file", file=path) from None


# --baseline


@dataclass(frozen=True)
class Before:
    """The results of a report of before, its name, and which limits were not kept, where that is known."""

    name: str
    results: dict[_Key, str]
    broken: dict[_Key, frozenset[str]] = field(default_factory=dict)


def gate_by_report(report: SuiteReport, earlier: Before, of: Suite) -> Gate:
    """Return what is worse than before; what is better is only said."""
    before = dict(earlier.results)
    gate = Gate()
    for one in report.results:
        now, old = one.verdict.result, before.pop(one.key, None)
        if old is None:
            if of.is_bad(now):
                gate.unexpected[one.key] = _describe(f"{now}, not in {earlier.name}", one, of)
        elif now == old:
            known = earlier.broken.get(one.key)
            if of.is_bad(now) and known is not None and (new := _find_other_broken(one.verdict, known)):
                gate.unexpected[one.key] = _describe(f"{now} by another limit", one, of, "; ".join(new))
            elif of.is_bad(now) or now == CANNOT_TELL:
                gate.expected.add(one.key)
        elif of.rank[now] > of.rank[old]:
            gate.unexpected[one.key] = _describe(f"{old} → {now}", one, of)
        else:
            gate.others.append(f"{old} → {now}: {label(one, of)}")
    if before:
        gate.others.append(f"{len(before)} results of {earlier.name} were not looked at")
    return gate


def find_broken_limits(verdict: CaseVerdict) -> frozenset[str]:
    """Return the limits that were not kept, without their numbers, which may depend on the run.

    The end of a connection or a run is reported, too.
    """
    return _select_broken([(one.what, one.found) for one in verdict.checks if one.held is False], verdict.result)


def _find_other_broken(verdict: CaseVerdict, known: frozenset[str]) -> list[str]:
    """Return the limits that were not kept and are not among `known`, with what was found."""
    return [
        f"{one.found} ({one.what})"
        for one in verdict.checks
        if one.held is False and not _select_broken([(one.what, one.found)], verdict.result) <= known
    ]


def _select_broken(checks: Sequence[tuple[str, str]], result: str) -> frozenset[str]:
    texts = (f"{what}: {found}" if result in _ENDS else what for what, found in checks)
    return frozenset(_NUMBER.sub("#", text) for text in texts)


def collect_results(path: Path, results: Sequence[Mapping[str, Any]], of: Suite) -> Before:
    """Return the results of a report of before: each has case, control, place, result, and perhaps checks.

    Raises InputError for an unknown result, and other errors for a file of another kind.
    """
    found: dict[_Key, str] = {}
    broken: dict[_Key, frozenset[str]] = {}
    for one in results:
        key = str(one["case"]), str(one["control"]), str(one["place"])
        found[key] = str(one["result"])
        if found[key] not in of.rank:
            raise WrongValue(quote_value(found[key]), of.rank, file=path, key="result")
        if "checks" in one:
            checks = [(str(check["what"]), str(check["found"])) for check in one["checks"] if check["held"] is False]
            broken[key] = _select_broken(checks, found[key])
    return Before(path.name, found, broken)


# --junit


def format_junit(report: SuiteReport, gate: Gate, of: Suite) -> str:
    """Return the results as JUnit's XML: the form that Jenkins' xunit plug-in and GitLab read."""
    outer = ElementTree.Element("testsuites")
    for control in report.controls:
        results = [one for one in report.results if one.control == control]
        suite = ElementTree.SubElement(outer, "testsuite", name=_escape_xml(f"{of.name} {control}"))
        counted = {"failures": 0, "errors": 0, "skipped": 0}
        for one in results:
            test = ElementTree.SubElement(
                suite,
                "testcase",
                classname=_escape_xml(f"{of.name}.{control}"),
                name=_escape_xml(of.test(one)),
                time=f"{one.seconds:.3f}",
            )
            tag, message = _find_outcome(one, gate)
            if tag:
                counted[_COUNTED[tag]] += 1
                child = ElementTree.SubElement(test, tag, message=_escape_xml(message))
                if tag != "skipped":
                    child.set("type", one.verdict.result.replace(" ", "-"))
                    child.text = _escape_xml("\n".join(_list_checks(one)))
        suite.attrib |= {name: str(count) for name, count in counted.items()}
        suite.attrib |= {"tests": str(len(results)), "time": f"{report.seconds:.3f}"}
    for name, short, kind, lines in (
        ("expected failures", "known", "passed", gate.failures),
        ("figures", "figure", "worse", gate.figures),
    ):
        if not lines:
            continue
        suite = ElementTree.SubElement(outer, "testsuite", name=name)
        for number, line in enumerate(lines, 1):
            test = ElementTree.SubElement(
                suite, "testcase", classname=f"{of.name}.{short}", name=f"{short} {number}", time="0"
            )
            ElementTree.SubElement(test, "failure", message=_escape_xml(line), type=kind)
        count = str(len(lines))
        suite.attrib |= {"tests": count, "failures": count, "skipped": "0", "errors": "0", "time": "0"}
    ElementTree.indent(outer)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(outer, encoding="unicode") + "\n"


# elements of JUnit's XML and what counts them; what ended a run is an error and no failure
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}
_ERRORS = (CRASHED, HUNG)


def _find_outcome(one: CaseResult, gate: Gate) -> tuple[str, str]:
    """Return the element that a result has in JUnit's XML, if any, and its message."""
    if one.key in gate.unexpected:
        return "error" if one.verdict.result in _ERRORS else "failure", gate.unexpected[one.key]
    if one.key in gate.expected:
        return "skipped", f"expected: {one.verdict.result}: {one.verdict.reason}"
    if one.verdict.result in (CANNOT_TELL, NOT_APPLICABLE):
        return "skipped", f"{one.verdict.result}: {one.verdict.reason}"
    return "", ""


def _list_checks(one: CaseResult) -> list[str]:
    signs: Mapping[bool | None, str] = {True: "+", False: "F", None: "?"}
    return [f"{signs[check.held]} {check.what}: {check.found}" for check in one.verdict.checks]


def _escape_xml(text: str) -> str:
    return _NOT_IN_XML.sub("?", text)


# --github


def list_annotations(report: SuiteReport, gate: Gate, of: Suite) -> list[str]:
    """Return workflow commands of GitHub Actions: an error for what is unexpected, a warning for what nobody can tell.

    GitHub shows ten of a kind for a step, so that there is one for each case and control.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in report.results:
        if one.key in gate.unexpected:
            groups.setdefault(("error", one.case, one.control), []).append(gate.unexpected[one.key])
        elif one.verdict.result == CANNOT_TELL and one.key not in gate.expected:
            groups.setdefault(("warning", one.case, one.control), []).append(_describe("cannot tell", one, of))
    lines = [
        _format_annotation(kind, f"{of.cases[case][1]}, {control}", texts)
        for (kind, case, control), texts in groups.items()
    ]
    return lines + [_format_annotation("error", f"suite {of.name}", [text]) for text in (*gate.failures, *gate.figures)]


def _format_annotation(kind: str, title: str, texts: list[str]) -> str:
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return f"::{kind} title={_escape_command(title, ':,')}::{_escape_command(texts[0] + more)}"


def _escape_command(text: str, others: str = "") -> str:
    """Escape as docs.github.com, Workflow commands, says; of a property also colon and comma."""
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{others}" else char for char in text)


def to_json(gate: Gate) -> dict[str, Any]:
    """Return the gate for --format json."""
    return {"unexpected": [*gate.unexpected.values(), *gate.failures, *gate.figures], "changed": gate.others}
