"""The findings at the top of a report: verdicts on statements, and differences between files, engines and settings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from dumbbell.errors import InputError
from dumbbell.evaluate import statement_report, statement_verdict
from dumbbell.evaluate.statement_file import list_suites_about, load_statements
from dumbbell.evaluate.statement_verdict import FAILS, HOLDS, NO_DATA, StatementVerdict
from dumbbell.experiment import matrix
from dumbbell.report.sources import ReportRuns
from dumbbell.results import diff, pairing, selecting
from dumbbell.results import dimensions as dims
from dumbbell.results.columns import format_axis_label, is_of_hop
from dumbbell.results.diff import (
    Diff,
    describe_opposite_changes,
    describe_opposite_means,
    format_interval,
    format_percent,
)
from dumbbell.results.dimensions import Dimension
from dumbbell.results.results import StoredResults
from dumbbell.results.tables import format_number
from dumbbell.words import capitalise

_MOST_VALUES = 6  # values of a key that are held against its first
_MOST_MEASURES = 8  # of one comparison
_MOST_PARTS = 6  # flows of one measure
_LARGEST_CHANGE = 10.0  # that is given in percent, as a share
# what people feel of a link: calls, games, videos, pings, pages
_FELT = (
    *(
        "apps.delay_p99_ms",
        "apps.mos",
        "apps.late_share",
        "apps.frame_delay_p95_ms",
        "apps.frozen_s",
        "apps.load_p95_s",
        "apps.stalled_share",
        "apps.rpm",
        "flows.delay_p99_ms",
        "flows.jitter_mean_ms",
        "flows.loss_share",
        "flows.rtt_p99_ms",
        "slowdowns.slowdown_p99",
    ),
)
# of the bottleneck; with several hops, those of each
_OF_QUEUE = ("utilisation", "sojourn_mean_ms", "sojourn_p99_ms", "mark_share", "drop_share")
# what is compared where files or engines do not differ: what users of links and flows notice
_HEADLINES = (
    *_FELT,
    *("runs.utilisation", "runs.goodput_total_mbit", "runs.sojourn_mean_ms", "runs.sojourn_p99_ms", "runs.jain"),
    *("runs.mark_share", "runs.drop_share", "flows.goodput_mbit", "flows.rtt_mean_ms", "flows.retransmissions"),
    *("classes.relative_throughput", *(f"hops.{name}" for name in _OF_QUEUE)),
)
_name = pl.concat_str("table", pl.lit("."), "measure")


@dataclass(frozen=True)
class ReportSide:
    """Runs of one file and engine, which may be held against others."""

    name: str
    results: StoredResults
    number_of: dict[str, int]
    """The number of each run, by its key."""
    cells: dict[str, list[int]]
    """The runs of each cell, by the name that the cell has in `results`."""


@dataclass
class SideComparison:
    """Two sides: pairs of cells, each with its runs on both sides and what it is in words; and what differs."""

    a: int
    b: int
    cells: list[tuple[list[int], list[int], str]]
    lines: list[str]
    rows: list[dict[str, Any]]
    verdict: str


@dataclass
class Ranking:
    """The largest differences between two values of a key, and what is beyond both at values between them."""

    title: str
    lines: list[str]
    rows: list[dict[str, Any]]
    beyond: list[str]

    @property
    def changes(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The first measures, each with the flows of which its change is significant, and that change."""
        measures = itertools.groupby(self.rows, key=lambda row: row["measure"])
        return [_list_changes(list(rows)) for _, rows in itertools.islice(measures, 3)]


def _list_changes(rows: Sequence[dict[str, Any]]) -> tuple[str, list[tuple[str, str]]]:
    changes = []
    for row in rows:
        part = row["of"].partition(" ")[2]
        change = f"{row['a']} to {row['b']}" if row["change"] == "-" else row["change"]
        changes += [(f" of {part}" if part else "", change)] * row["sure"]
    return drop_unit(rows[0]["label"]), changes


@dataclass
class JudgedStatements:
    """Verdicts on the statements of a study, or why there are none."""

    study: str
    title: str
    summary: str
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    refused: str = ""


def list_sides(runs: ReportRuns) -> list[ReportSide]:
    """Return the sides of a report: one for each file and engine."""
    found = []
    for place, source in enumerate(runs.sources):
        several = len(source.results.engines) > 1
        for version in source.results.engines:
            own = runs.frame.filter((pl.col("source") == place) & (pl.col("engine_version") == version))
            results = source.results.where(f"engine_version={version}") if several else source.results
            names = [source.name] * (len(runs.sources) > 1) + [source.engines[version]] * several
            cells: dict[str, list[int]] = {}
            number_of = dict(own.select("key", "run").iter_rows())
            for key, cell in results.parts("runs", []).select("key", "cell").iter_rows():
                cells.setdefault(cell, []).append(number_of[key])
            name = ", ".join(names) or source.engines[version]
            found.append(ReportSide(name, results, number_of, cells))
    return found


def compare_sides(of: Sequence[ReportSide]) -> tuple[list[SideComparison], list[str]]:
    """Return every two sides that have cells in common, and why others have none."""
    found, refused = [], []
    for a, b in itertools.combinations(range(len(of)), 2):
        try:
            pairs, _, _ = pairing.pair_results(of[a].results, of[b].results)
            cells = [
                (of[a].cells[first], of[b].cells[second], where)
                for first, second, where in pairs.select("a", "b", "where").iter_rows()
            ]
            differs = diff.compare_results(of[a].results, of[b].results)
        except InputError as error:
            refused.append(f"{of[a].name} and {of[b].name}: {error}")
            continue
        found.append(
            SideComparison(
                a, b, cells, differs.lines[1:], _sort_rows(differs), differs.to_markdown().rpartition("\n\n")[2]
            )
        )
    return found, refused


def rank_keys(of: Sequence[ReportSide]) -> list[Ranking]:
    """Return what differs most between the values of each key of a file: algorithms and versions before numbers."""
    found = []
    for side in of:
        known = [name for name in _HEADLINES if _is_known(side.results, name)]
        if len(side.results.hops_of_cells) == len(side.results.configurations):
            known = [f"hops.{name.partition('.')[2]}" if is_of_hop(*name.split(".")) else name for name in known]
            known = list(dict.fromkeys(known))
        keys = [one for one in side.results.dimensions if one.name not in ("engine_version", "kernel", "given")]
        titles: dict[str, str] = {}
        between: dict[str, dict[str, tuple[str, str]]] = {}  # the other values, each against the first and the last
        for key in sorted(keys, key=lambda one: one.is_numeric):
            first, *others = [text for text in key.ordered if text != dims.NOTHING]
            for other in others[:_MOST_VALUES] if not key.is_numeric else others[-1:]:
                by = _format_key(key, first, other)
                titles[by] = _make_title(side.results, key, first, other)
                if key.is_numeric and len(others) > 1:
                    titles[by] += f", first against last of {len(others) + 1} values"
                    middle = others[:-1][:: -(-(len(others) - 1) // _MOST_VALUES)]
                    between[by] = {
                        _shorten_text(key, one): (_format_key(key, first, one), _format_key(key, one, other))
                        for one in middle
                    }
        wanted = [*titles, *(by for pairs in between.values() for pair in pairs.values() for by in pair)]
        differing = diff.compare_by_each(side.results, wanted, known) if wanted and known else {}
        for by, title in titles.items():
            if by in differing:
                pairs = {one: (differing.get(a), differing.get(b)) for one, (a, b) in between.get(by, {}).items()}
                heading = f"{side.name}: {title}" if len(of) > 1 else title
                rows = _sort_rows(differing[by])
                shown = differing[by].measures.filter("differs", _name.is_in([row["measure"] for row in rows]))
                beyond = [*_find_beyond(pairs), *filter(None, [describe_opposite_means(shown)])]
                found.append(Ranking(heading, differing[by].lines[1:], rows, list(map(capitalise, beyond))))
    return found


def _is_known(results: StoredResults, name: str) -> bool:
    """Return whether runs have a measure; those of one hop have no table of hops, and those of several are in it."""
    table, _, column = name.partition(".")
    if column not in results.measures(table):
        return False
    hops = not results.frame("hops").is_empty()
    return hops if table == "hops" else not (table == "runs" and column in _OF_QUEUE and hops)


def _shorten_text(key: Dimension, text: str) -> str:
    """Return a value, of keys that change together that of the first, whose numbers distinguish all of them."""
    if not key.keys or not key.is_numeric:
        return text
    return next(key.keys[0].texts[cell] for cell, own in key.texts.items() if own == text)


def _format_key(key: Dimension, first: str, other: str) -> str:
    return f"{key.name}={_quote_text(first)},{_quote_text(other)}"


def _make_title(results: StoredResults, key: Dimension, first: str, other: str) -> str:
    """Return which keys have which values on both sides: also those that a matrix joins to this one."""
    if key.keys:
        values_a, values_b = (_split_values(key, text) for text in (first, other))
        return f"{' and '.join(one.name for one in key.keys)}: {values_a} (A) against {values_b} (B)"
    joined = {key.name: key}
    matrices = results.cells["matrix"].unique(maintain_order=True).to_list()
    for name in dict.fromkeys(name for text in matrices for name in json.loads(text)):
        own = results.find_key(name)
        if own.path is None or key.path is None or matrix.do_overlap(key.path, own.path):
            continue
        a, b = ({own.texts[cell] for cell, text in key.texts.items() if text == value} for value in (first, other))
        if len(a) == len(b) == 1 and a != b and dims.NOTHING not in a | b:
            joined[name] = own
    said = [dims.distinguish_texts(one, results.configurations) for one in joined.values()]
    cells = [next(cell for cell, text in key.texts.items() if text == value) for value in (first, other)]
    a_says, b_says = (
        ", ".join(called[one.texts[cell]] for called, one in zip(said, joined.values(), strict=True)) for cell in cells
    )
    return f"{' and '.join(joined)}: {a_says} (A) against {b_says} (B)"


def _split_values(key: Dimension, text: str) -> str:
    """Return the values of the keys that a dimension joins, in the order of their names; of both ways in words."""
    if text.endswith((" both ways", " up")):
        return text
    cell = next(cell for cell, own in key.texts.items() if own == text)
    return ", ".join(one.texts[cell] for one in key.keys)


def _find_beyond(between: dict[str, tuple[Diff | None, Diff | None]]) -> list[str]:
    """Return which measures are significantly larger or smaller between the first and the last value than at both."""
    place = ["table", "measure", "part"]
    found: dict[tuple[str, ...], list[str]] = {}
    for value, (before, after) in between.items():
        if before is None or after is None:
            continue
        # from the first up and to the last down, or the other way around
        sure = before.measures.filter("differs").join(after.measures.filter("differs"), on=place, suffix="_last")
        for *whose, up, down in sure.select(*place, "relative", "relative_last").iter_rows():
            if up * down < 0:
                found.setdefault((*whose, "larger" if up > 0 else "smaller"), []).append(value)
    return [
        f"{drop_unit(format_axis_label(measure, table))}{f' of {part}' if part else ''} is {way} with "
        f"{', '.join(values)} than with the first and the last value"
        for (table, measure, part, way), values in found.items()
        if table != "classes" or (("flows", measure, part, way) not in found)
    ]


def _quote_text(text: str) -> str:
    return f'"{text}"' if len(selecting.split_values(text)) > 1 else text


def _sort_rows(found: Diff) -> list[dict[str, Any]]:
    """Return the measures that differ: those that people feel first, then the most significant.

    Of flows all, if one of them differs: what one flow loses another may win, and one row alone would not say so.
    """
    measures = found.measures
    of = {table: set(measures.filter(table=table)["part"]) for table in ("flows", "classes")}
    if of["flows"] == of["classes"]:  # a class for each flow
        measures = measures.filter(pl.col("table") != "classes")
    differing = measures.filter("differs").select("table", "measure").unique(maintain_order=True)
    ranks = {name: place for place, name in enumerate(_FELT)}
    rank = _name.replace_strict(ranks, default=len(ranks), return_dtype=pl.Int64)
    differing = differing.sort(rank, maintain_order=True)
    sign = pl.col("relative").sign()
    same = found.frame.select("table", "measure", "part", cell=sign).join(
        measures.select("table", "measure", "part", mean=sign), on=["table", "measure", "part"]
    )
    agree = same.group_by("table", "measure", "part").agg(agree=(pl.col("cell") == pl.col("mean")).sum())
    measures = measures.join(agree, on=["table", "measure", "part"], how="left", maintain_order="left")
    rows = []
    for table, measure in differing.head(_MOST_MEASURES).iter_rows():
        own = measures.filter(table=table, measure=measure)
        own = own.filter((pl.col("a") != 0) | (pl.col("b") != 0))  # such as retransmissions of pings
        if measure == "rtt_p99_ms":  # of pings first: flows wait for themselves
            own = own.sort(~pl.col("part").str.starts_with("ping"), maintain_order=True)
        rows += [_make_row(row) for row in own.head(_MOST_PARTS).iter_rows(named=True)]
    return rows


def drop_unit(text: str) -> str:
    """Return the label of a measure without its unit."""
    return text.rpartition(",")[0] or text


def _make_row(row: dict[str, Any]) -> dict[str, Any]:
    ways = describe_opposite_changes(row)
    # of a change from little or nothing, both values say more
    nothing = row["a"] == 0 or (row["change"] is not None and abs(row["change"]) > _LARGEST_CHANGE)
    whose = {"runs": "run", "flows": "flow", "classes": "class", "slowdowns": "pages", "hops": "hop", "apps": "user"}[
        row["table"]
    ]
    return {
        "measure": f"{row['table']}.{row['measure']}",
        "label": format_axis_label(row["measure"], row["table"]),
        "of": f"{whose} {row['part']}".strip(),
        "a": format_number(row["a"]),
        "b": format_number(row["b"]),
        "change": ways or ("-" if nothing or row["change"] is None else format_percent(row["change"])),
        "interval": "-" if nothing or ways else format_interval(row["change_low"], row["change_high"], format_percent),
        "cells": f"{row['differing'] if ways else row['agree']} of {row['cells']}",
        "sure": bool(row["differs"]),
    }


def judge_suites(
    runs: ReportRuns, of: Sequence[ReportSide], wanted: Sequence[str], *, run_program: bool = False
) -> list[JudgedStatements]:
    """Return verdicts on the statements of suites: `wanted` ones, else those about the experiments that were run.

    Raises InputError if wanted suites cannot be judged; others then say why.
    """
    if wanted:
        return [_judge_suite(name, side, run_program=run_program) for name in wanted for side in of]
    found = []
    for study in list_suites_about(runs.experiments):
        for side in of:
            try:
                found.append(_judge_suite(study, side))
            except (InputError, pl.exceptions.PolarsError, LookupError, ValueError) as error:
                said = str(error).splitlines()[0] if str(error) else type(error).__name__
                found.append(JudgedStatements(study, f"Statements of {study}", "", refused=said))
    return found


def _judge_suite(name: str, side: ReportSide, *, run_program: bool = False) -> JudgedStatements:
    suite = load_statements(name)
    tables = statement_verdict.collect_tables(suite, [side.results], run_program=run_program)
    verdicts = statement_verdict.judge_statements(suite, tables)
    if all(one.grade == NO_DATA for one in verdicts):
        return JudgedStatements(name, suite.title, "", refused="these runs decide none of the statements")
    verdicts.sort(key=lambda one: (FAILS, HOLDS, NO_DATA).index(one.grade))
    summary = statement_report.summarise_statements(suite, verdicts)
    return JudgedStatements(name, suite.title, summary, list(map(_convert_verdict, verdicts)))


def _convert_verdict(one: StatementVerdict) -> dict[str, Any]:
    remarks = " ".join(statement_report.list_remarks(one))
    return {
        "verdict": one.grade,
        "decided": one.grade != NO_DATA,
        "says": one.statement.says,
        "value": statement_report.format_found(one),
        "note": ". ".join([f"{one.statement.selects}; {one.statement.text}", *filter(None, [remarks])]),
    }
