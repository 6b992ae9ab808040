"""Verdicts on statements as text for terminals, as Markdown, CSV, JSON, and as a page with all cells."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dumbbell.evaluate.comparison import format_figure
from dumbbell.evaluate.statement_file import StatementSuite
from dumbbell.evaluate.statement_verdict import FAILS, HOLDS, NO_DATA, Interval, StatementCell, StatementVerdict
from dumbbell.evaluate.suite_file import Paragraph
from dumbbell.evaluate.verdict_report import load_page
from dumbbell.results.tables import align_table, format_half, format_number
from dumbbell.words import capitalise, format_count, join_words

Judged = Sequence[tuple[StatementSuite, Sequence[StatementVerdict]]]
_MOST_NAMED = 4  # cells


def _format_mean(value: Interval) -> str:
    if math.isnan(value.mean):
        return "-"
    return format_number(value.mean) + format_half((value.high - value.low) / 2)


def format_found(verdict: StatementVerdict) -> str:
    """Return what was found: the share of cells with its interval and the mean, or the mean alone."""
    if verdict.value.seeds == 0 and math.isnan(verdict.value.mean):
        return "-"
    known = len(verdict.known)
    if len(verdict.cells) == 1:
        return _format_mean(verdict.value)
    if verdict.statement.quantifier.is_mean:
        return f"{_format_mean(verdict.value)} ({format_count(known, 'cell')})"
    low, high = verdict.share_interval
    return f"{verdict.met} of {known} cells ({low:.2f}..{high:.2f}), mean {_format_mean(verdict.value)}"


def _format_cells(cells: Sequence[str]) -> str:
    more = f"; {len(cells) - _MOST_NAMED} more" if len(cells) > _MOST_NAMED else ""
    return "; ".join(cells[:_MOST_NAMED]) + more


def list_remarks(verdict: StatementVerdict) -> list[str]:
    """Return what is to say of a verdict: cells that fail or are missing, seeds, reason, Linux."""
    statement = verdict.statement
    found = []
    if verdict.failing and len(verdict.cells) > 1:
        found.append(f"Not so: {_format_cells(verdict.failing)}.")
    if verdict.unsure and not statement.quantifier.is_mean:
        found.append(f"Within the error over seeds: {verdict.unsure} of {len(verdict.known)} cells.")
    if verdict.why:
        few = verdict.missing and (len(verdict.missing) <= _MOST_NAMED or "all with" not in verdict.why)
        named = f": {_format_cells(verdict.missing)}" if few else ""
        found.append(f"{capitalise(verdict.why)}{named}.")
    if statement.note:
        found.append(statement.note)
    if statement.reason and verdict.grade == FAILS:
        found.append(statement.reason)
    if statement.linux:
        found.append(f"Linux: {statement.linux}")
    return found


def _group_verdicts(
    suite: StatementSuite, verdicts: Sequence[StatementVerdict]
) -> list[tuple[Paragraph, list[StatementVerdict]]]:
    """Return the sections with their verdicts: a statement stands in the first of the sections that it answers."""
    found = [(one, [of for of in verdicts if of.statement.answers[0] == one.id]) for one in suite.paragraphs.values()]
    return [(section, of_section) for section, of_section in found if of_section]


def summarise_statements(suite: StatementSuite, verdicts: Sequence[StatementVerdict]) -> str:
    """Return how many statements hold, and of every section that does not count among them."""
    counted = [one for one in verdicts if suite.paragraphs[one.statement.answers[0]].counted]
    lines = [_format_counts(counted)] if counted else []
    for section, of in _group_verdicts(suite, verdicts):
        if not section.counted:
            lines.append(f"{section.title} (not counted): {_format_counts(of)}")
    return "\n".join(lines)


def _format_counts(verdicts: Sequence[StatementVerdict]) -> str:
    found = [one.grade for one in verdicts]
    held, failed = found.count(HOLDS), found.count(FAILS)
    judged = held + failed
    line = f"{held} of {judged} judged statements hold"
    line += f" ({100 * held / judged:.0f} %)" if judged else ""
    also = sum(one.grade == FAILS and one.statement.linux_fails is True for one in verdicts)
    if also:
        line += f"; {also} more fail on real Linux too ({100 * (held + also) / judged:.0f} % hold or fail on both)"
    return f"{line}; {found.count(NO_DATA)} without data"


def format_statements(suite: StatementSuite, verdicts: Sequence[StatementVerdict]) -> str:
    """Return a table of verdicts, remarks on those that do not hold, and the summary."""
    rows = [[one.grade, one.statement.id, format_found(one), one.statement.text] for one in verdicts]
    parts = [align_table(["verdict", "statement", "cells that meet it (95 %), mean", "bar"], rows, words=(0, 1, 2, 3))]
    for one in verdicts:
        if one.grade != HOLDS:
            head = f"{one.grade}: {one.statement.id}: {one.statement.says}"
            parts.append("\n  ".join([head, f"Cells: {one.statement.selects}.", *list_remarks(one)]))
    return "\n\n".join([*parts, summarise_statements(suite, verdicts)])


def format_statement_page(suite: StatementSuite, verdicts: Sequence[StatementVerdict]) -> str:
    """Return Markdown: summary, a table for each section, remarks below it, and what words were taken for."""
    parts = [f"# {suite.title}", summarise_statements(suite, verdicts).replace("\n", "\n\n")]
    for section, of in _group_verdicts(suite, verdicts):
        rows = [
            [
                f"`{one.statement.id}`",
                ", ".join(map(str, one.statement.figures)) or "-",
                one.statement.says,
                one.grade,
                format_found(one),
                one.statement.text,
                one.statement.selects,
            ]
            for one in of
        ]
        header = ["statement", "figure", "it says", "verdict", "value", "bar", "cells"]
        parts += [f"## {section.title}", align_table(header, rows, words=tuple(range(len(header))))]
        remarks = [f"- `{one.statement.id}`: {' '.join(list_remarks(one))}" for one in of if list_remarks(one)]
        parts += ["\n".join(remarks)] if remarks else []
    if words := list_words(suite):
        parts += ["## Words", align_table(["word", "taken for", "why"], words, words=(0, 1, 2))]
    return "\n\n".join(parts)


def list_words(suite: StatementSuite) -> list[list[str]]:
    """Return the words of a suite, each with the number that it was taken for, and why."""
    words = [[name, format_number(one.value), one.origin] for name, one in suite.words.items()]
    for name, share in suite.shares.items():
        bound = "more than" if share.strict else "at least"
        words.append([name, f"{bound} {format_number(share.share)} of the cells", share.origin])
    return words


def make_row(verdict: StatementVerdict) -> dict[str, Any]:
    """Return all that is known of a verdict, one value a column; nothing where there is no number."""
    statement, value = verdict.statement, verdict.value
    low, high = verdict.share_interval
    numbers = {"share": verdict.share, "share_low": low, "share_high": high}
    numbers |= {"value": value.mean, "low": value.low, "high": value.high}
    return {
        "id": statement.id,
        "section": " ".join(statement.answers),
        "figures": " ".join(map(str, statement.figures)),
        "verdict": verdict.grade,
        "held": verdict.met,
        "cells": len(verdict.cells),
        "unknown": len(verdict.cells) - len(verdict.known),
        "unsure": verdict.unsure,
        "seeds": value.seeds,
        **{name: one if math.isfinite(one) else None for name, one in numbers.items()},
        "bar": statement.text,
        "selects": statement.selects,
        "says": statement.says,
        "failing": "; ".join(verdict.failing),
        "missing": "; ".join(verdict.missing),
        "why": verdict.why,
        "note": statement.note,
        "reason": statement.reason,
        "linux_fails": statement.linux_fails,
        "linux": statement.linux,
    }


def make_json(suite: StatementSuite, verdicts: Sequence[StatementVerdict]) -> str:
    """Return every verdict and the words that the statements use, as JSON."""
    rows = [
        make_row(one) | {"figures": list(one.statement.figures), "failing": one.failing, "missing": list(one.missing)}
        for one in verdicts
    ]
    words, shares = ({name: asdict(one) for name, one in some.items()} for some in (suite.words, suite.shares))
    whole = {"title": suite.title, "words": words, "shares": shares, "criteria": rows}
    return json.dumps(whole, indent=2, allow_nan=False)


def make_statement_page(judged: Judged, command: str, notes: Sequence[str] = ()) -> str:
    """Return a page that stands alone; `command` is the line that was typed."""
    return load_page("statement_page.html").render(
        title=join_words(suite.title for suite, _ in judged),
        command=command,
        judged=judged,
        notes=notes,
        summarise=summarise_statements,
        group_verdicts=_group_verdicts,
        format_found=format_found,
        format_counts=_format_cell_counts,
        format_value=_format_value,
        list_remarks=list_remarks,
        list_words=list_words,
        join_words=join_words,
    )


def _format_cell_counts(verdict: StatementVerdict) -> str:
    counts = Counter(cell.says for cell in verdict.cells)
    return ", ".join(f"{word}: {number}" for word, number in sorted(counts.items())) or "none has data"


def _format_value(cell: StatementCell) -> str:
    return format_figure(cell.value.mean, cell.value.low, cell.value.high, none="-")
