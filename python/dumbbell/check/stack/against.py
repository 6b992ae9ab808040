"""Two stacks, or two versions of one, held against each other: verdicts, and figures seed by seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.check.stack.stack_report import convert_flow
from dumbbell.check.stack.suite import STACK, StackReport, StackResult, Subject
from dumbbell.evaluate import gate as ci
from dumbbell.results import diff
from dumbbell.words import format_count

# columns of table flows, and what a report as JSON calls them
_KEYS = {
    "goodput_mbit": "goodput_mbit",
    "rtt_p50_ms": "rtt_p50_ms",
    "rtt_p95_ms": "rtt_p95_ms",
    "drops": "lost",
    "completion_s": "completion_s",
}
_MORE_IS_BETTER = ("goodput_mbit",)
WORSE = 0.05  # of a figure: less is reported, and fails no gate
_Row = tuple[int, str, str, str, str, int, str, float]
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


def gate_against(report: StackReport, name: str, other: str) -> ci.Gate:
    """Return in which verdicts `name` is worse than `other`, and in which it is better."""
    theirs = {(one.case, name, one.place): one.verdict for one in report.results if one.control == other}
    before: dict[tuple[str, str, object], str] = {key: verdict.result for key, verdict in theirs.items()}
    broken: dict[tuple[str, str, object], frozenset[str]] = {
        key: ci.find_broken_limits(verdict) for key, verdict in theirs.items()
    }
    return ci.gate_by_report(report.select_control(name), ci.Before(other, before, broken), STACK)


def list_worse_figures(found: diff.Diff | None) -> list[str]:
    """Return the figures that got significantly worse, and by more than `WORSE`, in words."""
    if found is None:
        return []
    lines = []
    for one in found.frame.filter("differs").iter_rows(named=True):
        before, after = one["a"], one["b"]
        step = (after - before) * (-1 if one["measure"] in _MORE_IS_BETTER else 1)
        if step > WORSE * abs(before):
            change = f"{before:.4g} → {after:.4g}, {after - before:+.3g} ± {one['half']:.2g}, n = {one['n']}"
            lines.append(f"figure got worse: {one['where']}: {one['measure']}: {change}")
    return lines


def compare_with_report(path: Path, report: StackReport, name: str) -> diff.Diff | None:
    """Return how the figures of a control differ from those of a report of before, as --format json wrote it.

    Raises InputError. None if the two have no place in common.
    """
    places = _list_places(report)
    theirs = []
    for one in json.loads(path.read_text(encoding="utf-8"))["results"]:
        if one["control"] != name or (one["case"], one["place"]) not in places:
            continue
        pair, where = places.index((one["case"], one["place"])), f"{one['case']}, {one['place']}"
        for run in one.get("runs", []):
            theirs += _list_figures(pair, where, int(run["seed"]), "", run["flows"][one["stack_flows"][0]])
    before, now = pl.DataFrame(theirs, schema=_SCHEMA, orient="row"), _make_frame(report.select_control(name))
    # equal figures are equal runs
    if before.is_empty() or now.is_empty():
        return None
    return diff.compare_rows(_add_hashes(before), _add_hashes(now), (path.name, name))


def _add_hashes(frame: pl.DataFrame) -> pl.DataFrame:
    """Return figures with a hash of all of a run in place of the run's, which a report does not have."""
    run = ["pair", "seed"]
    texts = frame.sort("measure").group_by(run).agg(pl.format("{}={}", "measure", "value").str.join(" ").alias("hash"))
    return frame.drop("hash").join(texts, on=run).select(*_SCHEMA)


def compare_controls(report: StackReport, name: Subject, other: Subject) -> diff.Diff | None:
    """Return how the figures of `name` differ from those of `other`, with intervals over seeds; None without any."""
    theirs, ours = (_make_frame(report.select_control(one.name)) for one in (other, name))
    if ours.is_empty() or theirs.is_empty():
        return None
    return diff.compare_rows(theirs, ours, (other.name, name.name))


def _list_places(report: StackReport) -> list[tuple[str, str]]:
    return sorted({(one.case, one.place) for one in report.results})


def _make_frame(report: StackReport) -> pl.DataFrame:
    places = _list_places(report)
    rows: list[_Row] = []
    for one in report.results:
        pair, number = places.index((one.case, one.place)), one.seen.scene.subjects[0]
        for run in one.seen.subject.runs:
            flow = convert_flow(run.flows[number])
            rows += _list_figures(pair, f"{one.case}, {one.place}", run.seed, run.hash, flow)
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _list_figures(pair: int, where: str, seed: int, digest: str, flow: Mapping[str, Any]) -> list[_Row]:
    """Return the rows of a flow as a report as JSON has it."""
    return [
        (pair, where, "flows", measure, "", seed, digest, float(flow[key]))
        for measure, key in _KEYS.items()
        if flow.get(key) is not None
    ]


@dataclass(frozen=True)
class Changed:
    """Results of one control that are worse or better than the other's, each with what the other's is."""

    worse: list[tuple[StackResult, str]]
    better: list[tuple[StackResult, str]]

    def describe_changes(self, name: str, other: str) -> str:
        """Return in how many verdicts it is worse and better, in words."""
        if not self.worse and not self.better:
            return f"{name} is in no verdict worse or better than {other}."
        verdicts = format_count(len(self.worse), "verdict")
        return f"{name} is worse than {other} in {verdicts}, better in {len(self.better)}."

    def to_lines(self) -> list[str]:
        """Return them in words, those of a case with the same change together, the worse ones first."""
        lines = []
        for kind, found in (("worse", self.worse), ("better", self.better)):
            groups: dict[tuple[str, str, str], list[StackResult]] = {}
            for one, before in found:
                groups.setdefault((one.case, before, one.verdict.result), []).append(one)
            for (case, before, now), results in groups.items():
                places = "; ".join(_place(one) for one in results)
                lines.append(f"{kind}: {case}: {before} → {now}: {places}")
        return lines


def _place(one: StackResult) -> str:
    """Return where a result is, and why it is so unless the connection was closed, which is said ahead of it all."""
    closed = one.seen.subject.error or one.seen.subject.explain_close(one.seen.scene.subjects)
    return one.place if closed or not one.verdict.reason else f"{one.place} ({one.verdict.reason})"


def find_changed_verdicts(report: StackReport, name: str, other: str) -> Changed:
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


def format_differences(found: diff.Diff) -> str:
    """Return the figures that differ as a table, the surest and largest first."""
    return found.to_markdown(cells=True).replace("(--format csv has all)", "(--format json has all)")


def list_differences(found: diff.Diff) -> list[dict[str, Any]]:
    """Return the figures that differ for JSON."""
    names = ["where", "measure", "a", "b", "difference", "half", "change", "n", "p"]
    return found.frame.filter("differs").select(names).fill_nan(None).to_dicts()
