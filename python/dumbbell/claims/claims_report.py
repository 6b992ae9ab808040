"""Verdicts on claims as text for terminals, as Markdown, CSV and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from dumbbell.claims.judging import FAILS, HOLDS, NO_DATA, ClaimVerdict, Interval
from dumbbell.claims.language import Claims
from dumbbell.results.tables import align_table, format_half, format_number
from dumbbell.words import format_count

_MOST_NAMED = 4  # cells


def _format_mean(value: Interval) -> str:
    if math.isnan(value.mean):
        return "-"
    return format_number(value.mean) + format_half((value.high - value.low) / 2)


def format_value(verdict: ClaimVerdict) -> str:
    """Return what was found: the share of cells with its interval and the mean, or the mean alone."""
    if verdict.value.seeds == 0 and math.isnan(verdict.value.mean):
        return "-"
    known = verdict.cells - verdict.unknown
    if verdict.cells == 1:
        return _format_mean(verdict.value)
    if verdict.claim.quantifier.is_mean:
        return f"{_format_mean(verdict.value)} ({format_count(known, 'cell')})"
    share = f"{verdict.held} of {known} cells ({verdict.share_low:.2f}..{verdict.share_high:.2f})"
    return f"{share}, mean {_format_mean(verdict.value)}"


def _format_cells(cells: Sequence[str]) -> str:
    more = f"; {len(cells) - _MOST_NAMED} more" if len(cells) > _MOST_NAMED else ""
    return "; ".join(cells[:_MOST_NAMED]) + more


def list_remarks(verdict: ClaimVerdict) -> list[str]:
    """Return what is to say of a verdict: cells that fail or are missing, seeds, reason, Linux."""
    claim = verdict.claim
    found = []
    if verdict.failing and verdict.cells > 1:
        found.append(f"Not so: {_format_cells(verdict.failing)}.")
    if verdict.unsure and not claim.quantifier.is_mean:
        found.append(f"Within the error over seeds: {verdict.unsure} of {verdict.cells - verdict.unknown} cells.")
    if verdict.why:
        few = verdict.missing and (len(verdict.missing) <= _MOST_NAMED or "all with" not in verdict.why)
        named = f": {_format_cells(verdict.missing)}" if few else ""
        found.append(f"{verdict.why[0].upper()}{verdict.why[1:]}{named}.")
    if claim.note:
        found.append(claim.note)
    if claim.reason and verdict.verdict == FAILS:
        found.append(claim.reason)
    if claim.linux:
        found.append(f"Linux: {claim.linux}")
    return found


def make_summary(claims: Claims, verdicts: Sequence[ClaimVerdict]) -> str:
    """Return how many of the paper's claims hold, and of the claims of every section that is not counted among them."""
    counted = [one for one in verdicts if claims.sections[one.claim.section].counted]
    lines = [_format_counts(counted)] if counted else []
    for section in claims.sections.values():
        of = [one for one in verdicts if one.claim.section == section.id]
        if of and not section.counted:
            lines.append(f"{section.title} (not counted): {_format_counts(of)}")
    return "\n".join(lines)


def _format_counts(verdicts: Sequence[ClaimVerdict]) -> str:
    found = [one.verdict for one in verdicts]
    held, failed = found.count(HOLDS), found.count(FAILS)
    judged = held + failed
    line = f"{held} of {judged} judged claims hold"
    line += f" ({100 * held / judged:.0f} %)" if judged else ""
    also = sum(one.verdict == FAILS and one.claim.linux_fails is True for one in verdicts)
    if also:
        line += f"; {also} more fail on real Linux too ({100 * (held + also) / judged:.0f} % in all)"
    return f"{line}; {found.count(NO_DATA)} without data"


def format_report(claims: Claims, verdicts: Sequence[ClaimVerdict]) -> str:
    """Return a table of verdicts, remarks on those that do not hold, and the summary."""
    rows = [[one.verdict, one.claim.id, format_value(one), one.claim.text] for one in verdicts]
    parts = [align_table(["verdict", "claim", "value", "predicate"], rows, words=(0, 1, 2, 3))]
    for one in verdicts:
        if one.verdict != HOLDS:
            lines = [
                f"{one.verdict}: {one.claim.id}: {one.claim.says}",
                f"Cells: {one.claim.selects}.",
                *list_remarks(one),
            ]
            parts.append("\n  ".join(lines))
    return "\n\n".join([*parts, make_summary(claims, verdicts)])


def format_markdown(claims: Claims, verdicts: Sequence[ClaimVerdict]) -> str:
    """Return a page: summary, a table for each section, remarks below it, and what the paper's words were taken for."""
    parts = [f"# {claims.title}", make_summary(claims, verdicts).replace("\n", "\n\n")]
    for section in claims.sections.values():
        of = [one for one in verdicts if one.claim.section == section.id]
        if not of:
            continue
        rows = [
            [
                f"`{one.claim.id}`",
                ", ".join(map(str, one.claim.figures)) or "-",
                one.claim.says,
                one.verdict,
                format_value(one),
                one.claim.text,
                one.claim.selects,
            ]
            for one in of
        ]
        header = ["claim", "figure", "it says", "verdict", "value", "predicate", "cells"]
        parts += [f"## {section.title}", align_table(header, rows, words=tuple(range(len(header))))]
        remarks = [f"- `{one.claim.id}`: {' '.join(list_remarks(one))}" for one in of if list_remarks(one)]
        parts += ["\n".join(remarks)] if remarks else []
    words = [[name, format_number(one), why] for name, (one, why) in claims.words.items()]
    words += [
        [name, f"{'more than' if one.strict else 'at least'} {format_number(one.share)} of the cells", why]
        for name, (one, why) in claims.shares.items()
    ]
    if words:
        parts += ["## Words", align_table(["word", "taken for", "why"], words, words=(0, 1, 2))]
    return "\n\n".join(parts)


def make_row(verdict: ClaimVerdict) -> dict[str, Any]:
    """Return all that is known of a verdict, one value a column; nothing where there is no number."""
    claim = verdict.claim
    numbers = {
        "share": verdict.share,
        "share_low": verdict.share_low,
        "share_high": verdict.share_high,
        "value": verdict.value.mean,
        "low": verdict.value.low,
        "high": verdict.value.high,
    }
    return {
        "id": claim.id,
        "section": claim.section,
        "figures": " ".join(map(str, claim.figures)),
        "verdict": verdict.verdict,
        "held": verdict.held,
        "cells": verdict.cells,
        "unknown": verdict.unknown,
        "unsure": verdict.unsure,
        "seeds": verdict.value.seeds,
        **{name: one if math.isfinite(one) else None for name, one in numbers.items()},
        "predicate": claim.text,
        "selects": claim.selects,
        "says": claim.says,
        "failing": "; ".join(verdict.failing),
        "missing": "; ".join(verdict.missing),
        "why": verdict.why,
        "note": claim.note,
        "reason": claim.reason,
        "linux_fails": claim.linux_fails,
        "linux": claim.linux,
    }


def to_json(claims: Claims, verdicts: Sequence[ClaimVerdict]) -> str:
    """Return every verdict and the words that the claims use, as JSON."""
    rows = [
        make_row(one) | {"figures": list(one.claim.figures), "failing": list(one.failing), "missing": list(one.missing)}
        for one in verdicts
    ]
    sections = {one.id: {"title": one.title, "counted": one.counted} for one in claims.sections.values()}
    words = {name: {"value": one, "reason": why} for name, (one, why) in claims.words.items()}
    shares = {
        name: {"share": one.share, "strict": one.strict, "reason": why} for name, (one, why) in claims.shares.items()
    }
    whole = {"title": claims.title, "sections": sections, "words": words, "shares": shares, "claims": rows}
    return json.dumps(whole, indent=2, allow_nan=False)
