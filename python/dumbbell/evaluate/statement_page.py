"""Verdicts on statements as a page: every statement with all its cells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dumbbell.evaluate.statement_file import StatementSuite
from dumbbell.evaluate.statement_report import (
    format_found,
    list_remarks,
    list_words,
    stands_in,
    summarise_statements,
)
from dumbbell.evaluate.statement_verdict import FAILS, HOLDS, NO_DATA, StatementCell, StatementVerdict
from dumbbell.evaluate.verdict_report import load_page
from dumbbell.words import format_measured, join_words

Judged = Sequence[tuple[StatementSuite, Sequence[StatementVerdict]]]
_KINDS = {HOLDS: "passes", FAILS: "fails", NO_DATA: "cannot-tell"}  # classes of the style sheet


def make_statement_page(judged: Judged, command: str, notes: Sequence[str] = ()) -> str:
    """Return a page that stands alone; `command` is the line that was typed."""
    return load_page("statement_page.html").render(
        title=join_words(suite.title for suite, _ in judged),
        command=command,
        suites=[_show_suite(suite, verdicts) for suite, verdicts in judged],
        notes=notes,
    )


def _show_suite(suite: StatementSuite, verdicts: Sequence[StatementVerdict]) -> dict[str, Any]:
    sections = [
        {
            "title": section.title,
            "statements": [_show_verdict(suite, one) for one in verdicts if stands_in(one, name)],
        }
        for name, section in suite.paragraphs.items()
    ]
    return {
        "title": suite.title,
        "source": suite.source,
        "summary": summarise_statements(suite, verdicts).splitlines(),
        "sections": [one for one in sections if one["statements"]],
        "words": [{"name": name, "meaning": meaning, "origin": origin} for name, meaning, origin in list_words(suite)],
    }


def _show_verdict(suite: StatementSuite, one: StatementVerdict) -> dict[str, Any]:
    statement = one.statement
    counts = Counter(_name_cell(cell) for cell in one.cells)
    return {
        "id": statement.id,
        "name": f"{suite.name}-{statement.id}",
        "says": statement.says,
        "figures": join_words(statement.figures) or "-",
        "grade": one.grade,
        "kind": _KINDS[one.grade],
        "found": format_found(one),
        "bar": statement.text,
        "selects": statement.selects,
        "remarks": list_remarks(one),
        "counts": ", ".join(f"{word}: {number}" for word, number in sorted(counts.items())) or "none has data",
        "cells": [_show_cell(cell) for cell in one.cells],
    }


def _name_cell(cell: StatementCell) -> str:
    """Return whether a cell meets the bar, in words."""
    if cell.grade == NO_DATA:
        return cell.grade
    met = "meets the bar" if cell.grade == HOLDS else "does not meet it"
    return met if cell.sure else f"{met}, within the error"


def _show_cell(cell: StatementCell) -> dict[str, Any]:
    value = cell.value
    shown = "-" if math.isnan(value.mean) else format_measured(value.mean)
    if not math.isnan(value.low) and value.low != value.high:
        shown += f" ({format_measured(value.low)} to {format_measured(value.high)})"
    return {
        "place": cell.place,
        "kind": _KINDS[cell.grade],
        "verdict": _name_cell(cell),
        "value": shown,
        "seeds": value.seeds,
    }
