"""What continuous integration needs: expected failures, a report of before, JUnit's XML, GitHub's annotations."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dumbbell.check.cases import CASES
from dumbbell.check.lab import Point
from dumbbell.check.model import CANNOT_TELL, CONSTANT, FAILED, MEANING, NOT_APPLICABLE, PASSED
from dumbbell.check.suite import Report, Result
from dumbbell.errors import InputError, UnknownName, Unreadable, WrongValue, nearest, shown
from dumbbell.experiment import units

_Key = tuple[str, str, Point]
# what XML 1.0 has no way to say
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# from good to bad; a case that no longer applies is a change that somebody has to look at
_RANK = {PASSED: 0, CONSTANT: 1, NOT_APPLICABLE: 2, CANNOT_TELL: 3, FAILED: 4}


@dataclass
class Gate:
    """What fails a report: results that nobody expected, in words, and results that are expected to fail."""

    unexpected: dict[_Key, str] = field(default_factory=dict)
    expected: set[_Key] = field(default_factory=set)
    others: list[str] = field(default_factory=list)  # what else changed
    failures: list[str] = field(default_factory=list)  # of no single result

    @property
    def failed(self) -> bool:
        """Whether there is anything that nobody expected."""
        return bool(self.unexpected or self.failures)

    def lines(self) -> list[str]:
        """Return all of it in words."""
        return [*self.unexpected.values(), *self.failures, *self.others]


def _key(one: Result) -> _Key:
    return one.case, one.control, one.point


def label(one: Result) -> str:
    """Return what a result is called in lists: case, control and point, as --known reads it."""
    rate, rtt = units.show("rate", one.point.rate), units.show("time", round(one.point.rtt * 1e9))
    return f"{CASES[one.case].number} {one.control} {rate} {rtt}"


def gate(report: Report, expected: Sequence[Expected] | None = None, before: Before | None = None) -> Gate:
    """Return what nobody expected, after a file of expected failures or a report of before, if there is one."""
    if expected is not None:
        return known(report, expected)
    return plain(report) if before is None else baseline(report, before)


def plain(report: Report) -> Gate:
    """Return the gate without anything expected: each failure counts."""
    failed = [one for one in report.results if one.verdict.result == FAILED]
    return Gate({_key(one): f"failed: {label(one)}: {one.verdict.reason}" for one in failed})


# --known


@dataclass(frozen=True)
class Expected:
    """A line of a file of expected failures; `place` names it."""

    place: str
    case: str
    control: str
    point: Point | None

    def fits(self, one: Result) -> bool:
        """Whether it speaks of a result."""
        return (one.case, one.control) == (self.case, self.control) and self.point in (None, one.point)


def known(report: Report, expected: Sequence[Expected]) -> Gate:
    """Return what is not as expected: failures that are not, and entries of which nothing fails."""
    gate = Gate()
    for one in report.results:
        if one.verdict.result != FAILED:
            continue
        if any(entry.fits(one) for entry in expected):
            gate.expected.add(_key(one))
        else:
            gate.unexpected[_key(one)] = f"new failure: {label(one)}: {one.verdict.reason}"
    for entry in expected:
        fitting = [one for one in report.results if entry.fits(one)]
        judged = [one for one in fitting if one.verdict.result not in (NOT_APPLICABLE, CANNOT_TELL)]
        if any(one.verdict.result == FAILED for one in judged):
            continue
        if judged:
            said = f"expected to fail, but {judged[0].verdict.result}: {entry.place}"
            if entry.point is not None:
                gate.unexpected[_key(judged[0])] = said
            else:
                gate.failures.append(said)
        elif fitting:
            gate.others.append(f"expected to fail, {fitting[0].verdict.result}: {entry.place}")
    return gate


def expected(path: Path) -> list[Expected]:
    """Read a file of expected failures.

    A line is `CASE CONTROL`, which fails wherever it applies or at some points, or `CASE CONTROL RATE RTT`; `#` begins
    a comment. Raises InputError.
    """
    found = []
    for number, line in enumerate(_read(path).splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        words = text.split()
        place = f"line {number}"
        keys = [key for key, one in CASES.items() if words[0].rstrip(".") in (key, one.number)]
        if not keys:
            raise UnknownName(
                str(path),
                place,
                shown(words[0]),
                [one.number for one in CASES.values()],
                nearest(words[0], CASES),
                what="case",
            )
        point = _point(words[-2:]) if len(words) >= 4 else None
        control = " ".join(words[1 : -2 if point else None])
        if not control:
            raise WrongValue(str(path), place, shown(text), "CASE CONTROL, or CASE CONTROL RATE RTT")
        found.append(Expected(f"{path.name} {place}: {text}", keys[0], control, point))
    return found


def _point(words: Sequence[str]) -> Point | None:
    try:
        return Point(units.parse("rate", words[0]), units.parse("time", words[1]) / 1e9)
    except InputError:
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Unreadable(str(path), "", (error.strerror or str(error)).lower(), "a file that can be read") from None
    except UnicodeDecodeError:
        raise Unreadable(str(path), "", "this is not text", "a text file") from None


# --baseline


@dataclass(frozen=True)
class Before:
    """The results of a report of before, and its name."""

    name: str
    results: dict[_Key, str]


def baseline(report: Report, earlier: Before) -> Gate:
    """Return what is worse than before; what is better is only said."""
    before = dict(earlier.results)
    gate = Gate()
    for one in report.results:
        now, old = one.verdict.result, before.pop(_key(one), None)
        if old is None:
            if now == FAILED:
                gate.unexpected[_key(one)] = f"failed, not in {earlier.name}: {label(one)}: {one.verdict.reason}"
        elif now == old:
            if now in (FAILED, CANNOT_TELL):
                gate.expected.add(_key(one))
        elif _RANK[now] > _RANK[old]:
            gate.unexpected[_key(one)] = f"{old} → {now}: {label(one)}: {one.verdict.reason}"
        else:
            gate.others.append(f"{old} → {now}: {label(one)}")
    if before:
        gate.others.append(f"{len(before)} results of {earlier.name} were not looked at")
    return gate


def before(path: Path) -> Before:
    """Read a report of before, as --json wrote it. Raises InputError."""
    text = _read(path)
    try:
        found = {
            (str(one["case"]), str(one["control"]), Point(int(one["rate_bit"]), float(one["rtt_s"]))): str(
                one["result"]
            )
            for one in json.loads(text)["results"]
        }
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise Unreadable(str(path), "", "this is not a report", "what dumbbell check bbr --json writes") from None
    for result in found.values():
        if result not in MEANING:
            raise WrongValue(str(path), "result", shown(result), MEANING)
    return Before(path.name, found)


# --junit


def junit(report: Report, gate: Gate) -> str:
    """Return the results as JUnit's XML: the form that Jenkins' xunit plug-in and GitLab read."""
    outer = ElementTree.Element("testsuites")
    for control in dict.fromkeys(one.control for one in report.results):
        results = [one for one in report.results if one.control == control]
        suite = ElementTree.SubElement(outer, "testsuite", name=_xml(f"bbr {control}"))
        counted = {"failures": 0, "skipped": 0}
        for one in results:
            test = ElementTree.SubElement(
                suite,
                "testcase",
                classname=_xml(f"bbr.{control}"),
                name=_xml(f"{CASES[one.case].number} {one.case} {one.point}"),
                time="0",
            )
            tag, message = _outcome(one, gate)
            if tag:
                counted["failures" if tag == "failure" else "skipped"] += 1
                child = ElementTree.SubElement(test, tag, message=_xml(message))
                if tag == "failure":
                    child.set("type", one.verdict.result.replace(" ", "-"))
                    child.text = _xml("\n".join(_checks(one)))
        suite.attrib |= {name: str(count) for name, count in counted.items()}
        suite.attrib |= {"tests": str(len(results)), "errors": "0", "time": f"{report.seconds:.3f}"}
    if gate.failures:
        suite = ElementTree.SubElement(outer, "testsuite", name="expected failures")
        for number, line in enumerate(gate.failures, 1):
            test = ElementTree.SubElement(suite, "testcase", classname="bbr.known", name=f"known {number}", time="0")
            ElementTree.SubElement(test, "failure", message=_xml(line), type="passed")
        count = str(len(gate.failures))
        suite.attrib |= {"tests": count, "failures": count, "skipped": "0", "errors": "0", "time": "0"}
    ElementTree.indent(outer)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(outer, encoding="unicode") + "\n"


def _outcome(one: Result, gate: Gate) -> tuple[str, str]:
    """Return the element that a result has in JUnit's XML, if any, and its message."""
    if _key(one) in gate.unexpected:
        return "failure", gate.unexpected[_key(one)]
    if _key(one) in gate.expected:
        return "skipped", f"expected: {one.verdict.result}: {one.verdict.reason}"
    if one.verdict.result in (CANNOT_TELL, NOT_APPLICABLE):
        return "skipped", f"{one.verdict.result}: {one.verdict.reason}"
    return "", ""


def _checks(one: Result) -> list[str]:
    signs: Mapping[bool | None, str] = {True: "+", False: "F", None: "?"}
    return [f"{signs[check.held]} {check.what}: {check.found}" for check in one.verdict.checks]


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("?", text)


# --github


def github(report: Report, gate: Gate) -> list[str]:
    """Return workflow commands of GitHub Actions: an error for what is unexpected, a warning for what nobody can tell.

    GitHub shows ten of a kind for a step, so that there is one for each case and control.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in report.results:
        if _key(one) in gate.unexpected:
            groups.setdefault(("error", one.case, one.control), []).append(gate.unexpected[_key(one)])
        elif one.verdict.result == CANNOT_TELL and _key(one) not in gate.expected:
            text = f"cannot tell: {label(one)}: {one.verdict.reason}"
            groups.setdefault(("warning", one.case, one.control), []).append(text)
    lines = [
        _command(kind, f"{CASES[case].number}. {CASES[case].heading}, {control}", texts)
        for (kind, case, control), texts in groups.items()
    ]
    return lines + [_command("error", "dumbbell check bbr", [text]) for text in gate.failures]


def _command(kind: str, title: str, texts: list[str]) -> str:
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return f"::{kind} title={_escaped(title, ':,')}::{_escaped(texts[0] + more)}"


def _escaped(text: str, others: str = "") -> str:
    """Escape as docs.github.com, Workflow commands, says; of a property also colon and comma."""
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{others}" else char for char in text)


def status(report: Report, gate: Gate) -> int:
    """Return the exit status: 1 if something failed, 3 if nothing was judged or nobody can tell, otherwise 0."""
    found = {one.verdict.result for one in report.results}
    unknown = [one for one in report.results if one.verdict.result == CANNOT_TELL and _key(one) not in gate.expected]
    if gate.failed:
        return 1
    if unknown or not found & {PASSED, CONSTANT, FAILED}:
        return 3
    return 0


def as_json(gate: Gate) -> dict[str, Any]:
    """Return the gate for --json."""
    return {"unexpected": [*gate.unexpected.values(), *gate.failures], "changed": gate.others}
