"""The findings of judges, as text and for JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.case_verdict import SIGNS, CaseVerdict
from dumbbell.evaluate.evaluation import Evaluation, Verdict
from dumbbell.evaluate.grade import CellGrade
from dumbbell.evaluate.plan import ScenePlace, format_where

_NUMBER = re.compile(r"\d+(\.\d+)?")
_MOST = 3  # reasons of a criterion


def format_judgements(found: Evaluation) -> str:
    """Return what judges and failed runs say: of one cell all that was looked at, of several the reasons."""
    parts = [text for one in found.verdicts if (text := _describe_judgement(found, one))]
    return "\n".join(["What was seen:", *parts]) if parts else ""


def _describe_judgement(found: Evaluation, one: Verdict) -> str:
    judged = {place: cell.judged for place, cell in one.cells.items() if cell.judged is not None}
    if not judged:
        return ""
    title = f"- {', '.join(one.criterion.answers)} {one.criterion.id}"
    if len(one.cells) == 1:
        [verdict] = judged.values()
        lines = [f"{title}: {one.grade}{f': {verdict.reason}' if verdict.reason and not verdict.checks else ''}"]
        for check in verdict.checks:
            sign = "c" if check.held is False and check.constant else SIGNS[check.held]
            lines.append(f"  {sign} {check.what}: {check.found}")
        return "\n".join([*lines, *([f"  log {', '.join(verdict.log)}"] if verdict.log else [])])
    shown = [grade for grade in reversed(grades.ORDER) if grade not in (grades.PASSES, grades.NO_WORSE)]
    lines = [
        f"  {grade}: {line}"
        for grade in shown
        for line in _list_reasons(found, {place: of for place, of in judged.items() if of.result == grade})
    ]
    return "\n".join([f"{title}:", *lines]) if lines else ""


def _list_reasons(found: Evaluation, judged: Mapping[ScenePlace, CaseVerdict]) -> list[str]:
    """Return why cells have a grade: cells that share a reason in one line, the most frequent reason first."""
    # figures differ from cell to cell, what was expected does not
    kinds = {
        place: "; ".join(check.what for check in one.checks if check.held is not True) or _NUMBER.sub("#", one.reason)
        for place, one in judged.items()
    }
    lines = []
    for kind, count in Counter(kinds.values()).most_common(_MOST):
        first = next(place for place, of in kinds.items() if of == kind)
        more = f" (and in {count - 1} more)" if count > 1 else ""
        lines.append(f"{format_where(found.plan.labels[first])}: {judged[first].reason}{more}")
    return lines


def convert_judgement(cell: CellGrade) -> dict[str, Any]:
    """Return what a judge says of a cell as JSON has it; `held` is null where nobody can tell."""
    if cell.judged is None:
        return {"reason": "", "checks": []}
    verdict = cell.judged
    checks = [
        {"what": one.what, "held": one.held, "found": one.found, "constant": one.constant}
        | ({"needs": list(one.needs)} if one.needs else {})
        for one in verdict.checks
    ]
    return {"reason": verdict.reason, "checks": checks} | ({"log": list(verdict.log)} if verdict.log else {})
