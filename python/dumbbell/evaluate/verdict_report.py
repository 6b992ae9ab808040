"""An evaluation as text, as Markdown for an appendix, as JSON, and as a page."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, Template

from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.comparison import EvaluationComparison, format_commands, format_figure
from dumbbell.evaluate.evaluation import Evaluation, Verdict
from dumbbell.evaluate.grade import CellGrade
from dumbbell.evaluate.harm import CellHarm
from dumbbell.evaluate.measures import DRAWS
from dumbbell.evaluate.objections import list_objections
from dumbbell.evaluate.suite_file import Criterion, NamedNumber
from dumbbell.evaluate.verdict_maps import make_verdict_map, name_cell, name_grade
from dumbbell.results.tables import align_table
from dumbbell.words import capitalise, format_count, format_measured, join_words

_NUMBER = re.compile(r"\d+(\.\d+)?")
_THOUSANDS = re.compile(r"(?<=\d) (?=\d{3}\b)")
_MOST_REASONS = 3  # of a criterion
_OBJECTIONS = "What a critical reader may object, and what this run answers:"
HARM = """\
Harm in the cell where the subject's is greatest: what others lose of what they have alone (Ware et al. 2019), \
0 nothing, 1 everything:"""
LEGEND = "+ as expected, F not, c a constant differs, ? unknown"
_REPEAT = "To repeat the worst cells"


def describe_setup(found: Evaluation) -> str:
    """Return one sentence on what was run."""
    seeds = [cell.seeds for cell in found.cells if cell.seeds] or [0]
    spread = f"{min(seeds)} to {max(seeds)}" if min(seeds) < max(seeds) else f"{max(seeds)}"
    cells = len({cell.place for cell in found.cells})
    kind = "the quick part of " if found.quick else ""
    beside = f", next to {join_words(found.suite.yardsticks)}" if found.suite.yardsticks else ""
    each = "" if seeds == [1] * len(seeds) else f" with {spread} seeds each"
    runs = f", {format_count(found.runs, 'run')}" if found.runs else ""
    return f"{found.subject.name} in {kind}suite {found.suite.name}{beside}: {format_count(cells, 'cell')}{each}{runs}."


def summarise(found: Evaluation) -> str:
    """Return one sentence with the number of criteria of each grade."""
    counts = Counter(one.grade for one in sorted(found.verdicts, key=lambda verdict: grades.rank(verdict.grade)))
    parts = [f"{number} {grade}" for grade, number in counts.items()]
    count = capitalise(format_count(len(found.verdicts), "criterion", "criteria"))
    return f"{count}, by their worst cells: {', '.join(parts)}."


def format_report(found: Evaluation, *, markdown: bool = False) -> str:
    """Return the evaluation as text; in Markdown with headings, for an appendix."""
    head = f"# {found.subject.name}, evaluated against {found.suite.source}" if markdown else ""
    out = [one.criterion for one in found.verdicts if one.grade == grades.NOT_APPLICABLE]
    noted = [one.criterion for one in found.verdicts if one.criterion.note]
    notes = [*found.notes, *(f"{one.id}: {one.note}" for one in noted if not (one.judge and one in out))]
    notes += [f"{one.id} does not apply: {one.no_data}" for one in out if one.no_data]
    parts = [
        head,
        found.suite.first,
        describe_setup(found),
        summarise(found),
        explain_rows(found),
        _format_table(found),
        _format_harm(found),
        _format_unanswered(found),
        _format_judgements(found),
        _format_list("Notes:", notes),
        _format_bars(found),
        _format_list(_OBJECTIONS, (f"*{one.title}* {one.answer}" for one in list_objections(found)))
        if markdown
        else "",
        _format_commands(found, markdown=markdown),
        _format_list("Runs that failed:", found.failed),
    ]
    return "\n\n".join(filter(None, parts))


def _format_list(title: str, lines: Iterable[str]) -> str:
    """Return lines below a title; nothing if there are none."""
    shown = [f"- {line}" for line in lines]
    return "\n".join([title, *shown]) if shown else ""


def explain_rows(found: Evaluation) -> str:
    """Return what the rows of the table of criteria are."""
    row = "Each row is a criterion with its worst cell, whose grade it has"
    if found.is_judged:
        return f"{row}."
    row += ": among cells of that grade the one that misses its bar most, or keeps it least"
    theirs = ", next to those of the yardsticks in its place" if found.suite.yardsticks else ""
    interval = f"An interval holds 95 % of {DRAWS} resamples of the seeds."
    return f"{row}. The row has the subject's value there with its interval{theirs}. {interval}"


def _format_table(found: Evaluation) -> str:
    numbers = [] if found.is_judged else ["value", *found.suite.yardsticks]
    header = ["section", "criterion", "grade", "title" if found.is_judged else "measure", *numbers, "cells"]
    header.append("worst cell")
    rows = []
    for one in found.verdicts:
        sections = one.criterion.answers
        if found.is_judged:
            shown = ["; ".join(found.suite.paragraphs[name].title for name in sections)]
        else:
            others = (format_other(one.worst, name) for name in found.suite.yardsticks)
            shown = [describe_measure(found, one.criterion), format_value(one.worst), *others]
        place = one.worst.name or "the only one"
        rows.append([", ".join(sections), one.criterion.id, one.grade, *shown, format_counts(one), place])
    return align_table(header, rows, words=tuple(n for n, name in enumerate(header) if name not in numbers))


def describe_measure(found: Evaluation, one: Criterion) -> str:
    """Return what a criterion measures, with its unit, or its judge."""
    return f"judge {one.judge}" if one.judge else found.suite.measures[one.measure].label


def format_value(cell: CellGrade) -> str:
    """Return the subject's value in a cell with its interval."""
    return "-" if cell.criterion.judge else format_figure(cell.value, cell.low, cell.high)


def describe_cell(found: Evaluation, cell: CellGrade) -> str:
    """Return in words why a cell has its grade: what a judge says, or the value next to those of the yardsticks."""
    if cell.judged is not None:
        return cell.reason
    others = ", ".join(f"{name} {format_measured(value)}" for name, value in cell.others.items())
    return f"{describe_measure(found, cell.criterion)}: {format_value(cell)}{f' ({others})' if others else ''}"


def format_other(cell: CellGrade, name: str) -> str:
    """Return the value of a yardstick in a cell."""
    return format_measured(cell.others.get(name, math.nan))


def format_counts(one: Verdict) -> str:
    """Return how many cells have each grade."""
    return ", ".join(f"{grade}: {number}" for grade, number in one.counts)


def _format_harm(found: Evaluation) -> str:
    lines = []
    for one in found.verdicts:
        if one.criterion.harm is not None and (worst := one.worst_harm) is not None:
            measure = found.suite.measures[one.criterion.harm.measure].title
            who = [("it", ""), *((name, name) for name in found.suite.yardsticks)]
            texts = [f"{said} {format_harm(worst.harm.get(name))}" for said, name in who]
            lines.append(f"{one.criterion.id}, {measure}: {', '.join(texts)}{f' ({worst.name})' if worst.name else ''}")
    return _format_list(HARM, lines)


def format_harm(harm: CellHarm | None) -> str:
    """Return a harm with its interval."""
    return "-" if harm is None else format_figure(harm.value, harm.low, harm.high, digits=2, none="-")


def _format_unanswered(found: Evaluation) -> str:
    lines = []
    for name, grade, reason in found.list_unanswered():
        paragraph = found.suite.paragraphs[name]
        word = f" ({paragraph.word})" if paragraph.word else ""
        lines.append(f"{name} {paragraph.title}{word}, {grade}: {reason}")
    return _format_list("What no run answers:", lines)


def _format_bars(found: Evaluation) -> str:
    lines = [f"{grade}: {meaning}." for grade, meaning in _list_grades(found)]
    lines += [f"{name} = {word.value:g}: {word.origin}." for name, word in _list_words(found)]
    for one in (verdict.criterion for verdict in found.verdicts if not verdict.criterion.judge):
        origin = f" ({one.origin})" if one.origin else ""
        lines.append(f"{one.id}: {one.says} {capitalise(one.describe_bars())}{origin}.")
    bars = "" if found.is_judged else ", words and bars. Each margin, and each number without a name, is ours"
    return _format_list(f"Grades{bars}:", lines)


def _list_words(found: Evaluation) -> list[tuple[str, NamedNumber]]:
    """Return the words that the bars use, with their numbers and origins."""
    used = {name for one in found.verdicts for bar in one.criterion.bars for name in bar.names}
    return [(name, word) for name, word in found.suite.words.items() if name in used]


def _list_grades(found: Evaluation) -> list[tuple[str, str]]:
    """Return the grades that measures can give, those of judges and of failed runs only where they occur."""
    used = {cell.grade for cell in found.cells}
    rare = [grades.CONSTANT, grades.AS_RELATIVE, grades.CLOSED, grades.CRASHED, grades.HUNG]
    if found.is_judged:
        rare = list(grades.GRADES)
    return [(grade, meaning) for grade, meaning in grades.GRADES.items() if grade in used or grade not in rare]


def _format_commands(found: Evaluation, *, markdown: bool) -> str:
    bad = [one for one in found.verdicts if grades.rank(one.grade) >= grades.rank(grades.CANNOT_TELL)]
    commands = [(one.criterion.id, one.worst.command) for one in bad]
    whole = found.is_judged or found.suite.of == "stack"
    title = f"{_REPEAT}:" if whole else f"{_REPEAT}, each with the first of its seeds:"
    return format_commands(title, commands, markdown=markdown)


def _format_judgements(found: Evaluation) -> str:
    """Return what judges and failed runs say: of one cell all that was looked at, of several the reasons."""
    parts = list(filter(None, map(_describe_judgement, found.verdicts)))
    return "\n".join([f"What was seen ({LEGEND}):", *parts]) if parts else ""


def _describe_judgement(one: Verdict) -> str:
    judged = [cell for cell in one.cells.values() if cell.judged is not None]
    if not judged:
        return ""
    title = f"- {', '.join(one.criterion.answers)} {one.criterion.id}"
    if len(one.cells) == 1:
        [cell] = judged
        lines = [f"{title}: {one.grade}{f': {cell.reason}' if cell.reason and not cell.checks else ''}"]
        lines += [f"  {check}" for check in cell.checks]
        lines += [f"  log {', '.join(cell.log)}"] if cell.log else []
        return "\n".join(lines)
    shown = [grade for grade in reversed(grades.ORDER) if grade not in (grades.PASSES, grades.NO_WORSE)]
    lines = [
        f"  {grade}: {line}"
        for grade in shown
        for line in _list_reasons([cell for cell in judged if cell.grade == grade])
    ]
    return "\n".join([f"{title}:", *lines]) if lines else ""


def _list_reasons(judged: Iterable[CellGrade]) -> list[str]:
    """Return why cells have a grade: cells that share a reason in one line, the most frequent reason first."""
    kinds: dict[str, list[CellGrade]] = {}
    for one in judged:
        # figures differ from cell to cell, what was expected does not
        broken = "; ".join(check.what for check in one.checks if check.held is not True)
        kinds.setdefault(broken or _NUMBER.sub("#", one.reason), []).append(one)
    lines = []
    for first, *others in sorted(kinds.values(), key=len, reverse=True)[:_MOST_REASONS]:
        more = f" (and in {len(others)} more)" if others else ""
        lines.append(f"{first.key[1]}: {first.reason}{more}")
    return lines


def to_json(found: Evaluation, **others: Any) -> str:
    """Return every grade with all its numbers, and `others` next to them."""
    return json.dumps(
        {
            "suite": found.suite.name,
            "name": found.subject.name,
            "subject": found.subject.value,
            "quick": found.quick,
            "yardsticks": list(found.suite.yardsticks),
            "runs": found.runs,
            "failed": list(found.failed),
            "notes": list(found.notes),
            "criteria": [_describe_verdict(found, one) for one in found.verdicts],
            "unanswered": [
                {"paragraph": name, "grade": grade, "reason": reason} for name, grade, reason in found.list_unanswered()
            ],
        }
        | others,
        indent=2,
    )


def _describe_verdict(found: Evaluation, one: Verdict) -> dict[str, Any]:
    bars = {"passes": one.criterion.passes, "level": one.criterion.level, "fails": one.criterion.fails}
    return {
        "id": one.criterion.id,
        "answers": list(one.criterion.answers),
        "says": one.criterion.says,
        "measure": describe_measure(found, one.criterion),
        "grade": one.grade,
        "bars": {name: bar.text for name, bar in bars.items() if bar is not None},
        "origin": one.criterion.origin,
        "cells": list(map(_describe_cell, one.cells.values())),
    }


def _describe_cell(cell: CellGrade) -> dict[str, Any]:
    """Return a cell as JSON has it; `held` is null where a judge cannot tell."""
    figures = {"value": cell.value, "low": cell.low, "high": cell.high}
    checks = [
        {"what": one.what, "held": one.held, "found": one.found, "constant": one.constant}
        | ({"needs": list(one.needs)} if one.needs else {})
        for one in cell.checks
    ]
    return {
        "place": cell.labels,
        "where": cell.key[1],
        "grade": cell.grade,
        "reason": cell.reason,
        "checks": checks,
        **({"log": list(cell.log)} if cell.log else {}),
        **_make_finite(figures),
        "others": _make_finite(cell.others),
        "seeds": cell.seeds,
        "command": cell.command,
        "harm": {who or "subject": _make_finite(asdict(harm)) for who, harm in cell.harm.items()},
    }


def _make_finite(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def keep_whole(text: str) -> str:
    """Return a text whose numbers no line of a page divides between their thousands."""
    return _THOUSANDS.sub("\N{NO-BREAK SPACE}", text)


def load_page(name: str) -> Template:
    """Return the template of a page, in the frame and with the style sheet of all."""
    loader = FileSystemLoader(Path(__file__).parent)
    pages = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    pages.filters |= {"kind": name_grade, "measured": format_measured, "sentence": capitalise, "unbroken": keep_whole}
    return pages.get_template(name)


def make_page(found: Evaluation, command: str, compared: EvaluationComparison | None = None) -> str:
    """Return a page that stands alone: every criterion with all its cells, and how to repeat them."""
    return load_page("page.html").render(
        title=f"{found.subject.name}, evaluated against {found.suite.source}",
        found=found,
        suite=found.suite,
        yardsticks=list(found.suite.yardsticks),
        harms=["harm", *(f"harm by {name}" for name in found.suite.yardsticks)] if found.has_harm else [],
        setup=describe_setup(found),
        summary=summarise(found),
        command=command,
        rows=explain_rows(found),
        maps=[(one, made) for one in found.verdicts if (made := make_verdict_map(one)) is not None],
        grades=_list_grades(found),
        words=_list_words(found),
        objections=list_objections(found),
        compared=compared,
        describe_measure=describe_measure,
        legend=LEGEND,
        format_value=format_value,
        format_other=format_other,
        format_counts=format_counts,
        format_harm=format_harm,
        name_cell=name_cell,
    )
