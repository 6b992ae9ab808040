"""The results of a stack in the suite, the worst first: for terminals, for pages and as JSON."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

from dumbbell.check.stack.cases import CASES, GROUPS
from dumbbell.check.stack.outcomes import Outcome, StackFlow
from dumbbell.check.stack.stack_case import CANNOT_TELL, CLOSED, CRASHED, DIFFERS, FAILED, HUNG, MEANING, PASSED
from dumbbell.check.stack.suite import STACK, StackReport, StackResult
from dumbbell.words import format_count, format_work_time

_WIDTH = 120
_SPACE = "\0"  # where no line may end
_WORSE = (CLOSED, CRASHED, HUNG)  # told in the headline, with the stack's own words
SIGNS = {PASSED: "+", DIFFERS: "d", CANNOT_TELL: "?", FAILED: "F", CLOSED: "C", CRASHED: "X", HUNG: "H"}


def _group_closed(results: Sequence[StackResult]) -> dict[str, list[StackResult]]:
    """Return the results in which a connection was closed, by the stack's words."""
    found: dict[str, list[StackResult]] = {}
    for one in results:
        for words in one.seen.subject.list_reasons(one.seen.scene.subjects):
            found.setdefault(words, []).append(one)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _group_by(results: Iterable[StackResult], get_name: Callable[[StackResult], str]) -> dict[str, list[StackResult]]:
    """Return the results that have a name, by this name."""
    found: dict[str, list[StackResult]] = {}
    for one in results:
        if name := get_name(one):
            found.setdefault(name, []).append(one)
    return found


def _group_by_case(results: Iterable[StackResult]) -> dict[str, list[StackResult]]:
    return _group_by(results, lambda one: one.case)


def _describe_place(one: StackResult, words: str) -> str:
    flows = [run.flows[number] for run in one.seen.subject.runs for number in one.seen.scene.subjects]
    after = [flow.closed_after for flow in flows if flow.closed == words]
    many = "" if len(after) == len(flows) else f", {len(after)} of {len(flows)} connections"
    return f"{one.place} (after {min(after):.2g} s{many})"


def list_headlines(report: StackReport, control: str, other: str = "") -> list[str]:
    """Return the plainest failures first: connections that the stack closed, in its words, crashes and hangs.

    With `other` it is said what that one does in the same places.
    """
    results = report.select_control(control).results
    lines = []
    for words, found in _group_closed(results).items():
        beside = ""
        if other:
            too = [
                one
                for one in found
                if _find_counterpart(report, one, other).seen.subject.explain_close(one.seen.scene.subjects)
            ]
            beside = f", {other} in {'none' if not too else len(too)} of these"
        cells = format_count(len(found), "cell")
        lines.append(f'{control} closes the connection in {cells} of {len(results)}{beside}: "{words}"')
        lines += [
            f"    {case}: {', '.join(_describe_place(one, words) for one in part)}"
            for case, part in _group_by_case(found).items()
        ]
    for text, found in _group_by(results, lambda one: one.seen.subject.error).items():
        lines.append(f"{control} fails in {format_count(len(found), 'cell')} of {len(results)}: {text}")
        lines += [f"    {case}: {', '.join(one.place for one in part)}" for case, part in _group_by_case(found).items()]
    if not lines:
        lines.append(f"{control} keeps every connection open in {format_count(len(results), 'cell')}.")
    return lines


def _find_counterpart(report: StackReport, one: StackResult, control: str) -> StackResult:
    return next(result for result in report.results if result.key == (one.case, control, one.place))


def _make_legend(results: Sequence[StackResult]) -> list[tuple[str, str]]:
    """Return the signs with what they mean: those of verdicts, and what is worse only where it is."""
    found = {one.verdict.result for one in results}
    return [(sign, result) for result, sign in SIGNS.items() if result in found or result not in _WORSE]


_Keys = Collection[tuple[str, str, Hashable]]  # case, control and place


def list_reasons(results: Sequence[StackResult], result: str, expected: _Keys = ()) -> list[str]:
    """Return why verdicts are what they are: what was asked for, and where it was not found.

    Those of `expected` failures say so.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for one in results:
        if one.verdict.result != result:
            continue
        held = False if result == FAILED else None
        broken = [check for check in one.verdict.checks if check.held is held]
        place = f"{one.place} (expected)" if one.key in expected else one.place
        if not broken or result == DIFFERS:
            found.setdefault((one.case, ""), []).append(f"{place}: {one.verdict.reason}")
        for check in broken if result != DIFFERS else []:
            found.setdefault((one.case, check.what), []).append(f"{place}: {check.found}")
    return [f"{case}{', ' if what else ''}{what}: {'; '.join(places)}" for (case, what), places in found.items()]


def format_totals(results: Sequence[StackResult], expected: _Keys = ()) -> str:
    """Return how many verdicts there are of each result, and how many of these are expected, in words."""
    parts = []
    for result in MEANING:
        found = [one for one in results if one.verdict.result == result]
        known = sum(one.key in expected for one in found)
        if found:
            parts.append(f"{len(found)} {result}{f' ({known} expected)' if known else ''}")
    return ", ".join(parts)


def _format_summary(report: StackReport, expected: _Keys) -> str:
    parts = [
        f"{name}: {format_count(len(report.select_control(name).results), 'verdict')}: "
        f"{format_totals(report.select_control(name).results, expected)}"
        for name in report.controls
    ]
    return "\n".join([*parts, f"{format_count(report.runs, 'run')} in {format_work_time(report.seconds)}"])


def _format_signs(results: Sequence[StackResult]) -> str:
    return "".join(SIGNS[one.verdict.result] for one in results)


def _format_figures(results: Sequence[StackResult]) -> str:
    """Return the figures of a case: those of all its places."""
    case = CASES[results[0].case]
    found = [(one.place, case.figure(one.seen) if one.seen.subject.runs else "") for one in results]
    places = ", ".join(f"{place} {figure}".rstrip().replace(" ", _SPACE) for place, figure in found)
    return f"{case.measure}: {places}" if case.measure else places


def _wrap_words(start: str, words: str) -> str:
    lines = textwrap.fill(
        words, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False
    )
    return lines.replace(_SPACE, " ")


def _format_item(line: str) -> str:
    return textwrap.fill(
        line, _WIDTH, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False, break_long_words=False
    )


def list_commands(report: StackReport, command: Callable[[StackResult, list[str]], str], other: str = "") -> list[str]:
    """Return the commands that repeat the cells that failed, one for each case of a control."""
    bad = [one for one in report.results if one.control != other and STACK.is_bad(one.verdict.result)]
    found = _group_by(bad, lambda one: f"{one.control} {one.case}")
    return [f"  {command(results[0], [one.place for one in results])}" for results in found.values()]


def format_report(report: StackReport, *, lead: Sequence[str] = (), other: str = "", expected: _Keys = ()) -> str:
    """Return it as plain text; `lead` stands in place of the headline, and `other` has no more than its count."""
    parts = ["\n".join(lead).strip("\n")] if lead else []
    names = [name for name in report.controls if name != other]
    for name in names:
        if not lead:
            parts.append("\n".join(list_headlines(report, name)))
        for result, heading in ((FAILED, "failed"), (CANNOT_TELL, "cannot tell")):
            if lines := list_reasons(report.select_control(name).results, result, expected):
                parts.append("\n".join([f"{name}, {heading}:", *(_format_item(line) for line in lines)]))
    for name in names:
        signs = ", ".join(f"{sign} {result}" for sign, result in _make_legend(report.select_control(name).results))
        rows = [f"{name}, case by case ({signs}):"]
        group = ""
        by_case = _group_by_case(report.select_control(name).results)
        wide = max(map(len, by_case), default=0)
        for case, results in by_case.items():
            if CASES[case].group != group:
                group = CASES[case].group
                rows.append(f"  {GROUPS[group]}")
            rows.append(_wrap_words(f"    {case:{wide}}  {_format_signs(results):7}  ", _format_figures(results)))
        parts.append("\n".join(rows))
        if lines := list_reasons(report.select_control(name).results, DIFFERS):
            parts.append(
                "\n".join([f"{name}, unlike TCP's CUBIC, and no failure:", *(_format_item(line) for line in lines)])
            )
    return "\n\n".join([*(part for part in parts if part), _format_summary(report, expected)])


def format_markdown(report: StackReport, *, lead: Sequence[str] = (), other: str = "", expected: _Keys = ()) -> str:
    """Return it for a page."""
    parts = ["\n".join(line if line.startswith("|") else f"{line}\n" for line in lead)] if lead else []
    for name in report.controls:
        if name == other:
            continue
        results = report.select_control(name).results
        parts.append(f"**{name}**: {format_totals(results, expected)}.")
        if not lead and (lines := list_headlines(report, name)):
            parts.append(
                "\n".join(f"- {line}" if not line.startswith(" ") else f"  - {line.strip()}" for line in lines)
            )
        for result, heading in ((FAILED, "Failed"), (CANNOT_TELL, "Cannot tell")):
            if lines := list_reasons(results, result, expected):
                parts.append("\n".join([f"{heading}:", "", *(f"- {line}" for line in lines)]))
        rows = [
            f"| {case} | {CASES[case].question} | `{_format_signs(found)}` | "
            f"{_format_figures(found).replace(_SPACE, ' ')} |"
            for case, found in _group_by_case(results).items()
        ]
        signs = ", ".join(f"`{sign}` {result}" for sign, result in _make_legend(results))
        parts.append("\n".join([f"| case | question | {signs} | figures |", "|---|---|---|---|", *rows]))
        if lines := list_reasons(results, DIFFERS):
            parts.append("\n".join(["Unlike TCP's CUBIC, and no failure:", "", *(f"- {line}" for line in lines)]))
    return "\n\n".join([*parts, f"{format_count(report.runs, 'run')} in {format_work_time(report.seconds)}."]) + "\n"


def convert_flow(flow: StackFlow) -> dict[str, Any]:
    """Return a flow as JSON has it: null where it has no figure."""
    figures: dict[str, float | str] = {
        "goodput_mbit": flow.goodput,
        "rtt_p50_ms": 1e3 * flow.rtt_p50,
        "rtt_p95_ms": 1e3 * flow.rtt_p95,
        "sent": flow.sent,
        "lost": flow.lost,
        "believed_lost": flow.believed,
        "completion_s": flow.completion,
        "closed": flow.closed,
        "closed_s": flow.closed_after,
    }
    return {name: one if isinstance(one, str) or math.isfinite(one) else None for name, one in figures.items()}


def _convert_runs(outcome: Outcome) -> list[dict[str, Any]]:
    return [{"seed": run.seed, "flows": [convert_flow(flow) for flow in run.flows]} for run in outcome.runs]


def to_json(report: StackReport, **others: Any) -> str:
    """Return all verdicts with their figures as JSON, and `others` next to them."""
    results = [
        {
            "case": one.case,
            "group": CASES[one.case].group,
            "question": CASES[one.case].question,
            "source": CASES[one.case].source,
            "control": one.control,
            "place": one.place,
            "result": one.verdict.result,
            "reason": one.verdict.reason,
            "checks": [{"what": check.what, "held": check.held, "found": check.found} for check in one.verdict.checks],
            "stack_flows": one.seen.scene.subjects,
            "runs": _convert_runs(one.seen.subject),
            "tcp_runs": _convert_runs(one.seen.tcp),
        }
        for one in report.results
    ]
    failures = {name: list_headlines(report, name) for name in report.controls}
    whole = {"suite": "stack", "first": failures, "results": results, "runs": report.runs, "seconds": report.seconds}
    return json.dumps(whole | others, indent=1)


def list_cases(keys: Sequence[str]) -> str:
    """Return the cases with their questions, sources and limits."""
    lines, group = [], ""
    for key in keys:
        case = CASES[key]
        if case.group != group:
            group = case.group
            lines.append(f"{group}: {GROUPS[group]}")
        lines += [
            f"  {key}: {case.question}",
            f"    {case.limits}",
            f"    in: {', '.join(scene.place for scene in case.scenes)}",
            f"    [{case.source}]",
        ]
    return "\n".join(lines)


def format_cases(keys: Sequence[str]) -> str:
    """Return the cases as tables for a page, one for each group."""
    parts = []
    for group, about in GROUPS.items():
        found = [CASES[key] for key in keys if CASES[key].group == group]
        limits = [one.limits for one in found]
        common = max(limits, key=limits.count, default="")
        common_limits = f"Limits, if no others are named: {common}." if limits.count(common) > 1 else ""
        rows = [
            f"| `{one.key}` | {one.question} | {', '.join(scene.place for scene in one.scenes)}"
            f" | {'' if common_limits and one.limits == common else one.limits} | {one.source} |"
            for one in found
        ]
        head = ["| case | question | in | limits | source |", "| --- | --- | --- | --- | --- |"]
        if found:
            about = f"`{group}`: {about}. {common_limits}".rstrip()
            parts.append("\n".join([about, "", *head, *rows]))
    return "\n\n".join(parts)
