"""The results of the suite, as tables for terminals and pages, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dumbbell.check import fields
from dumbbell.check.case import (
    CANNOT_TELL,
    CONSTANT,
    FAILED,
    MEANING,
    NOT_APPLICABLE,
    PASSED,
    SPECIFICATION,
    CaseVerdict,
)
from dumbbell.check.cases import CASES
from dumbbell.check.suite import BbrReport, BbrResult
from dumbbell.experiment import units
from dumbbell.words import format_count, format_work_time

_SIGNS = {PASSED: "+", CONSTANT: "c", FAILED: "F", CANNOT_TELL: "?", NOT_APPLICABLE: "."}
_CHECK_SIGNS = {True: "+", False: "F", None: "?"}
_MOST_REASONS = 3  # of a case and a control


def count_results(results: Sequence[BbrResult]) -> str:
    """Return how results came out, in words: `passed 3`, `failed 1 of 3`, `-` if the case applies nowhere."""
    found = [one.verdict.result for one in results]
    applicable = len(found) - found.count(NOT_APPLICABLE)
    if not applicable:
        return "-"
    for result in (FAILED, CANNOT_TELL):
        if result in found:
            return f"{result} {found.count(result)} of {applicable}"
    return f"{CONSTANT if CONSTANT in found else PASSED} {applicable}"


def _select(report: BbrReport, case: str, control: str) -> list[BbrResult]:
    return [one for one in report.results if (one.case, one.control) == (case, control)]


def list_cases(report: BbrReport) -> list[str]:
    """Return the keys of the cases, in order."""
    return list(dict.fromkeys(one.case for one in report.results))


def _format_signs(results: Sequence[BbrResult]) -> str:
    """Return a sign for each point, rates apart."""
    rates: dict[int, str] = {}
    for one in results:
        rates[one.place.rate] = rates.get(one.place.rate, "") + _SIGNS[one.verdict.result]
    return " ".join(rates.values())


def _describe_axes(report: BbrReport) -> str:
    points = [one.place for one in report.results]
    rates = ", ".join(units.show("rate", rate) for rate in dict.fromkeys(point.rate for point in points))
    rtts = ", ".join(units.show("time", round(rtt * 1e9)) for rtt in dict.fromkeys(point.rtt for point in points))
    return f"Groups are rates: {rates}; signs in a group are RTTs: {rtts}."


def format_totals(report: BbrReport) -> str:
    """Return how many verdicts there are of each result, in words."""
    found = [one.verdict.result for one in report.results]
    return ", ".join(f"{found.count(result)} {result}" for result in MEANING if result in found)


def _format_summary(report: BbrReport) -> str:
    verdicts = len(report.results)
    lines = [f"{format_count(verdicts, 'verdict')} in {format_work_time(report.seconds)}: {format_totals(report)}"]
    for name in report.controls:
        found = [one.verdict for one in report.results if one.control == name]
        if all(one.result == NOT_APPLICABLE for one in found):
            lines.append(f"{name}: nothing could be judged: {found[0].reason}")
    lines += [f"left out: {point} ({reason})" for point, reason in report.left_out.items()]
    return "\n".join(lines)


def list_judged(report: BbrReport) -> list[str]:
    """Return the keys of the cases that applied somewhere, in order."""
    found = {one.case for one in report.results if one.verdict.result != NOT_APPLICABLE}
    return [key for key in list_cases(report) if key in found]


def list_notes(report: BbrReport) -> list[str]:
    """Return what is known of the cases that were judged."""
    return [f"{CASES[key].number}. {CASES[key].note}" for key in list_judged(report) if CASES[key].note]


def list_reasons(results: Sequence[BbrResult], result: str) -> list[str]:
    """Return why verdicts are what they are: points that share a reason in one line, the most frequent first."""
    found: dict[str, list[str]] = {}
    for one in results:
        if one.verdict.result == result:
            # the figures differ from point to point, what was expected does not
            held = None if result == CANNOT_TELL else False
            key = "; ".join(check.what for check in one.verdict.checks if check.held is held) or one.verdict.reason
            found.setdefault(key, []).append(f"{one.place}: {one.verdict.reason}")
    lines = []
    for places in sorted(found.values(), key=len, reverse=True)[:_MOST_REASONS]:
        others = f" (and at {len(places) - 1} more)" if len(places) > 1 else ""
        lines.append(f"{places[0]}{others}")
    return lines


def format_report(report: BbrReport) -> str:
    """Return the tables as plain text."""
    names = report.controls
    legend = "\n".join(f"{sign} {result}: {MEANING[result]}" for result, sign in _SIGNS.items())
    parts = [f"{SPECIFICATION}.", legend, _describe_axes(report)]
    lines = []
    for key in list_cases(report):
        lines.append(f"{CASES[key].number + '.':4} {CASES[key].heading}")
        lines += [f"     {name:{max(map(len, names))}}  {_format_signs(_select(report, key, name))}" for name in names]
    parts.append("\n".join(lines))
    parts += [why for key in list_cases(report) for name in names if (why := _explain_verdict(report, key, name))]
    if of_cases := list_notes(report):
        parts.append("\n".join(["Notes on cases:", *of_cases]))
    return "\n\n".join([*parts, _format_summary(report)])


def _explain_verdict(report: BbrReport, key: str, name: str) -> str:
    results = _select(report, key, name)
    lines = [f"  {line}" for result in (FAILED, CANNOT_TELL, CONSTANT) for line in list_reasons(results, result)]
    return "\n".join([f"{CASES[key].number}. {CASES[key].heading}, {name}:", *lines]) if lines else ""


def format_verdicts(report: BbrReport, not_judged: Mapping[str, str]) -> str:
    """Return the verdicts of a trace with all that was looked at, and why other cases were not judged."""
    lines = []
    for one in report.results:
        case, verdict = CASES[one.case], one.verdict
        reason = f": {verdict.reason}" if verdict.result == NOT_APPLICABLE else ""
        lines.append(f"{case.number}. {case.heading}: {verdict.result}{reason}")
        for check in verdict.checks:
            sign = "c" if check.held is False and check.constant else _CHECK_SIGNS[check.held]
            lines.append(f"  {sign} {check.what}: {check.found}")
        if verdict.log:
            lines.append(f"  log {fields.list_columns_to_log(verdict.log)}")
    if not_judged:
        lines += ["", "Not judged:"]
        lines += [f"  {CASES[key].number}. {CASES[key].heading}: {why}" for key, why in not_judged.items()]
    if of_cases := list_notes(report):
        lines += ["", "Notes on cases:", *(f"  {line}" for line in of_cases)]
    return "\n".join([*lines, "", format_totals(report) or "nothing could be judged"])


def _format_table(report: BbrReport, format_cell: Callable[[list[BbrResult]], str], *, headings: bool) -> str:
    """Return a table with a row for each case and a column for each control."""
    columns = [*(["case"] if headings else []), *report.controls]
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for key in list_cases(report):
        head = [CASES[key].number, *([CASES[key].heading] if headings else [])]
        cells = [*head, *(format_cell(_select(report, key, name)) for name in report.controls)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def format_markdown(report: BbrReport) -> str:
    """Return the tables for a page."""
    parts = [
        f"Cases of {SPECIFICATION}. Numbers count the points at which a case applies. Passed: "
        f"{MEANING[PASSED]}. Constant: {MEANING[CONSTANT]}. "
        f"Failed: {MEANING[FAILED]}. Cannot tell: {MEANING[CANNOT_TELL]}. -: {MEANING[NOT_APPLICABLE]}.",
        _format_table(report, count_results, headings=True),
        "Point by point: `+` passed, `c` constant, `F` failed, `?` cannot tell, `.` not applicable. "
        f"{_describe_axes(report)}",
        _format_table(report, lambda results: f"`{_format_signs(results)}`", headings=False),
    ]
    for title, result in (
        ("What failed", FAILED),
        ("Where the verdict is open", CANNOT_TELL),
        ("Where a constant differs", CONSTANT),
        ("Where a case does not apply", NOT_APPLICABLE),
    ):
        most = 1 if result == NOT_APPLICABLE else _MOST_REASONS
        lines = [
            f"- {CASES[key].number}, {name}: {line}"
            for key in list_cases(report)
            for name in report.controls
            for line in list_reasons(_select(report, key, name), result)[:most]
        ]
        if lines:
            parts.append("\n".join([f"{title}, with the first point of each kind:", "", *lines]))
    if of_cases := list_notes(report):
        parts.append("\n".join(["Notes on cases:", "", *(f"- {line}" for line in of_cases)]))
    if report.left_out:
        parts.append(f"Left out: {'; '.join(f'{point} ({reason})' for point, reason in report.left_out.items())}.")
    return "\n\n".join(parts) + "\n"


def convert_verdict(verdict: CaseVerdict) -> dict[str, Any]:
    """Return a verdict as JSON has it; `held` is null where nobody can tell."""
    checks = [
        {"what": one.what, "held": one.held, "found": one.found, "constant": one.constant}
        | ({"needs": [fields.name(column) for column in one.needs]} if one.needs else {})
        for one in verdict.checks
    ]
    log = {"log": [fields.name(column) for column in verdict.log]} if verdict.log else {}
    return {"result": verdict.result, "reason": verdict.reason} | log | {"checks": checks}


def to_json(report: BbrReport, **others: Any) -> str:
    """Return all verdicts as JSON, and `others` next to them."""
    results = [
        {
            "number": CASES[one.case].number,
            "case": one.case,
            "heading": CASES[one.case].heading,
            "control": one.control,
            "rate_bit": one.place.rate,
            "rtt_s": one.place.rtt,
        }
        | convert_verdict(one.verdict)
        for one in report.results
    ]
    left_out = [
        {"rate_bit": point.rate, "rtt_s": point.rtt, "reason": reason} for point, reason in report.left_out.items()
    ]
    of_cases = {key: CASES[key].note for key in list_judged(report) if CASES[key].note}
    whole = {"specification": SPECIFICATION, "results": results, "notes": of_cases, "left_out": left_out} | others
    return json.dumps(whole, indent=1)
