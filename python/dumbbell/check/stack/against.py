"""Two stacks, or two versions of one, held against each other: verdicts, and figures seed by seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from dumbbell.check import ci
from dumbbell.check.stack.measured import Flow
from dumbbell.check.stack.suite import STACK, Report, Result, Subject
from dumbbell.results import diff

# columns of table flows, and where a flow of ours has them
_MEASURES: dict[str, Callable[[Flow], float]] = {
    "goodput_mbit": lambda one: one.goodput,
    "rtt_p50_ms": lambda one: 1e3 * one.rtt_p50,
    "rtt_p95_ms": lambda one: 1e3 * one.rtt_p95,
    "retransmissions": lambda one: one.lost,
    "completion_s": lambda one: one.completion,
}
_SCHEMA = {
    "pair": pl.Int64,
    "where": pl.String,
    "table": pl.String,
    "measure": pl.String,
    "part": pl.String,
    "seed": pl.Int64,
    "hash": pl.String,
    "value": pl.Float64,
}


def split(report: Report, control: str) -> Report:
    """Return the report of one control alone."""
    return Report([one for one in report.results if one.control == control], report.seconds, report.runs)


def gate(report: Report, name: str, other: str) -> ci.Gate:
    """Return in which verdicts `name` is worse than `other`, and in which it is better."""
    before: dict[tuple[str, str, object], str] = {
        (one.case, name, one.place): one.verdict.result for one in report.results if one.control == other
    }
    return ci.baseline(split(report, name), ci.Before(other, before), STACK)


def differences(report: Report, name: Subject, other: Subject) -> diff.Diff | None:
    """Return how the figures of `name` differ from those of `other`, with intervals over seeds; None without any."""
    theirs, ours = (_frame(split(report, one.name)) for one in (other, name))
    if ours.is_empty() or theirs.is_empty():
        return None
    return diff.held(theirs, ours, (other.name, name.name))


def _frame(report: Report) -> pl.DataFrame:
    places = sorted({(one.case, one.place) for one in report.results})
    rows = [row for one in report.results for row in _rows(one, places.index((one.case, one.place)))]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _rows(one: Result, pair: int) -> list[tuple[int, str, str, str, str, int, str, float]]:
    number = one.seen.scene.subjects[0]
    return [
        (pair, f"{one.case}, {one.place}", "flows", measure, "", run.seed, run.hash, value)
        for run in one.seen.subject.runs
        for measure, figure in _MEASURES.items()
        if not math.isnan(value := figure(run.flows[number]))
    ]


@dataclass(frozen=True)
class Changed:
    """Results of one control that are worse or better than the other's, each with what the other's is."""

    worse: list[tuple[Result, str]]
    better: list[tuple[Result, str]]

    def lead(self, name: str, other: str) -> str:
        """Return in how many verdicts it is worse and better, in words."""
        if not self.worse and not self.better:
            return f"{name} is in no verdict worse or better than {other}."
        verdicts = f"{len(self.worse)} verdict{'s' * (len(self.worse) != 1)}"
        return f"{name} is worse than {other} in {verdicts}, better in {len(self.better)}."

    def lines(self) -> list[str]:
        """Return them in words, those of a case with the same change together, the worse ones first."""
        lines = []
        for kind, found in (("worse", self.worse), ("better", self.better)):
            groups: dict[tuple[str, str, str], list[Result]] = {}
            for one, before in found:
                groups.setdefault((one.case, before, one.verdict.result), []).append(one)
            for (case, before, now), results in groups.items():
                places = "; ".join(_place(one) for one in results)
                lines.append(f"{kind}: {case}: {before} → {now}: {places}")
        return lines


def _place(one: Result) -> str:
    """Return where a result is, and why it is so unless the connection was closed, which is said ahead of it all."""
    closed = one.seen.subject.error or one.seen.subject.closed(one.seen.scene.subjects)
    return one.place if closed or not one.verdict.reason else f"{one.place} ({one.verdict.reason})"


def changed(report: Report, name: str, other: str) -> Changed:
    """Return in which verdicts `name` is worse than `other`, and in which it is better."""
    before = {(one.case, one.place): one.verdict.result for one in report.results if one.control == other}
    found = Changed([], [])
    for one in report.results:
        old = before.get((one.case, one.place))
        if one.control != name or old is None:
            continue
        step = STACK.rank[one.verdict.result] - STACK.rank[old]
        if step:
            (found.worse if step > 0 else found.better).append((one, old))
    return found


def table(found: diff.Diff) -> str:
    """Return the figures that differ as a table, the surest and largest first."""
    return found.markdown(cells=True).replace("(--csv has all)", "(--json has all)")


def rows(found: diff.Diff) -> list[dict[str, Any]]:
    """Return the figures that differ for JSON."""
    names = ["where", "measure", "a", "b", "difference", "half", "change", "n", "p"]
    return found.frame.filter("differs").select(names).fill_nan(None).to_dicts()
