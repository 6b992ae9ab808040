"""Bars and cells of the suites that come with dumbbell: directions, units of words, and every cell as it is.

`python tests/test_suite_bars.py` writes the list of cells again, after a change that is meant.
"""

import ast
import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from dumbbell.evaluate.criterion_bar import CriterionBar
from dumbbell.evaluate.measures import DRAWS
from dumbbell.evaluate.objections import COVERAGE
from dumbbell.evaluate.plan import Candidate, format_labels, make_plan
from dumbbell.evaluate.suite_file import list_suites, load_suite
from dumbbell.results.aggregate import LEVEL

CELLS = Path(__file__).parent / "held" / "suite_cells.txt"
MEASURED = [name for name in list_suites() if load_suite(name).scenes]
# measures of which more is better; of all others, less is. One has a target, from which both ways lead away
MORE = {
    "l4s": {"both-ways", "used"},
    "rfc7928": {"goodput", "hops-used", "second-used", "used"},
    "rfc8867": {"against-clear", "bottlenecks-used", "least", "paused-use", "phases-used", "rate", "tcp"},
    "rfc9743": {"goodput", "least", "others-goodput", "used"},
    "stack": {"delivered", "goodput", "share-below", "together", "used"},
    "tcpeval": {"camp-a", "camp-b", "used"},
}
TARGETS = {("rfc7928", "over-target")}
UNITS = ("ms", "s", "Mbit/s")


@pytest.mark.parametrize("name", MEASURED)
def test_bars_ask_for_less_of_what_is_bad_and_for_more_of_what_is_good(name: str) -> None:
    suite = load_suite(name)
    assert MORE.get(name, set()) <= set(suite.measures)
    for criterion in suite.criteria:
        wants_more = criterion.measure in MORE.get(name, set())
        for grade, bar in criterion.named_bars:
            above = {sign.startswith(">") for sign, _ in bar.conditions}
            expected = {wants_more != (grade == "fails")} if (name, criterion.measure) not in TARGETS else {True, False}
            assert above == expected, (criterion.id, grade)
        if criterion.harm is not None:
            harmed = suite.measures[criterion.harm.measure].name
            assert criterion.harm.is_more_better == (harmed in MORE[name]), criterion.id


def list_amounts(bar: CriterionBar) -> Iterator[str]:
    """Yield the names in a bar that are amounts of what is measured, and no factors of one."""

    def walk(node: ast.expr) -> Iterator[str]:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Call):
            for one in node.args:
                yield from walk(one)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            yield from walk(node.left)
            yield from walk(node.right)

    for _, amount in bar.conditions:
        yield from walk(amount)


@pytest.mark.parametrize("name", MEASURED)
def test_a_word_names_the_unit_of_what_it_is_compared_with(name: str) -> None:
    suite = load_suite(name)
    for criterion in suite.criteria:
        unit = suite.measures[criterion.measure].unit
        for word in (one for bar in criterion.bars for one in list_amounts(bar)):
            if unit in UNITS and word in suite.words:
                origin = suite.words[word].origin
                assert f" {unit}" in origin.replace(",", " ").replace(";", " ").replace(")", " "), (word, unit, origin)


@pytest.mark.parametrize("name", MEASURED)
def test_a_sentence_of_a_criterion_is_understood_without_the_one_before(name: str) -> None:
    for one in load_suite(name).criteria:
        words = one.says.lower().replace(",", " ").split()
        assert not {"they", "these", "those"}.intersection(words[:4]), one.says
        assert "such a" not in one.says.lower(), one.says


@pytest.mark.parametrize("name", MEASURED)
def test_a_title_of_a_measure_has_its_unit_once(name: str) -> None:
    for measure in load_suite(name).measures.values():
        assert measure.unit in ("", "ratio", "share", *UNITS), measure.title
        if measure.unit == "ratio":  # it has none, and its title names both numbers
            assert " over " in measure.title or measure.title.startswith("part that"), measure.title
        elif measure.unit:
            assert measure.unit not in measure.title.replace(",", " ").replace(":", " ").split(), measure.title


YARDSTICKS = {
    "cubic": "CUBIC",
    "reno": "Reno",
    "prague": "Prague",
    "bbr3": "BBRv3",
    "nada": "NADA",
    "pfifo": "tail drop",
}


@pytest.mark.parametrize("name", MEASURED)
def test_a_sentence_of_a_criterion_says_no_more_than_its_bars(name: str) -> None:
    """To be no worse than CUBIC is not to be good: the sentence names what the grade is relative to."""
    suite = load_suite(name)
    for one in suite.criteria:
        relative = {YARDSTICKS[word] for bar in one.bars for word in bar.names & set(suite.yardsticks)}
        assert not relative or any(word in one.says for word in relative), f"{one.id}: {one.says}"
        # a number or the value of a yardstick, whichever is easier to keep
        level = [] if one.level is None else [amount for _, amount in one.level.conditions]
        choices = [node.args for amount in level for node in ast.walk(amount) if isinstance(node, ast.Call)]
        has_number = any(not {*suite.yardsticks}.intersection(name_all(part)) for parts in choices for part in parts)
        if relative and (has_number or one.passes is not None):
            assert ", or " in one.says, f"{one.id}: {one.says}"


def name_all(amount: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(amount) if isinstance(node, ast.Name)}


NAMES_NONE = "names no failure"


@pytest.mark.parametrize("name", MEASURED)
def test_what_fails_in_one_criterion_fails_in_each_with_its_measure_or_says_why_not(name: str) -> None:
    """A failure of a document is one in every scene; criteria of a section ask for one limit in one direction."""
    suite = load_suite(name)
    failing = {
        suite.measures[one.measure].title.replace("flow of it", "other flow") for one in suite.criteria if one.fails
    }
    limits = {(section, one.measure): set[str]() for one in suite.criteria for section in one.answers}
    for one in suite.criteria:
        title = suite.measures[one.measure].title.replace("flow of it", "other flow")
        for section in one.answers:
            limits[section, one.measure].add(one.fails.text if one.fails else "")
        assert title not in failing or one.fails or NAMES_NONE in one.note, f"{one.id} names no failure, and not why"
    assert not [place for place, found in limits.items() if len(found) > 1]


def test_loss_fails_wherever_the_section_on_it_is_answered() -> None:
    loss = [one for one in load_suite("rfc9743").criteria if "5.1.3" in one.answers]
    assert len(loss) > 5 and {one.fails.text if one.fails else "" for one in loss} == {"> sustained and > 3 * cubic"}


def answer_query(sql: str, flows: list[dict[str, object]]) -> float:
    """Return the value of the query of a measure over one run of 60 s with these short flows."""
    cells = {"key": "run", "duration_s": 60.0, "rate_mbit": 10.0, "from_s": 0.0}
    tables = {"short_flows": flows, "cells": [cells]}
    tables["classes"] = [{"key": "run", "class": number, "base_rtt_ms": 40.0} for number in (0, 9)]
    connection = duckdb.connect()
    for table, rows in tables.items():
        connection.register(table, pl.DataFrame(rows).to_arrow())
    return float(connection.sql(sql).pl()["value"].mean())


@pytest.mark.parametrize("name", MEASURED)
def test_short_flows_that_do_not_end_count_against_the_subject(name: str) -> None:
    """If flows that do not end were left out, a control that starves them would do well."""
    suite, ended = load_suite(name), 0.5
    flow = {"key": "run", "start_s": 10.0, "size_bytes": 10_000}
    done = [flow | {"class": number, "completion_s": ended, "slowdown": ended / 0.048} for number in (0, 9)] * 10
    for one in suite.criteria:
        sql = suite.measures[one.measure].sql
        if "short_flows" not in sql:
            continue
        hurt = (0, 9) if one.measure != "one-over-three" else (0,)
        starved = [flow | {"class": n, "completion_s": math.nan, "slowdown": math.nan} for n in hurt for _ in range(10)]
        before, after = answer_query(sql, done), answer_query(sql, done + starved)
        assert before > 0 and (after > before) == one.bars[0].is_upper and after != before, one.id
        late = [one | {"start_s": 59.9} for one in starved]  # it had no time to end
        assert answer_query(sql, done + late) == before, one.id


def test_an_interval_holds_the_mean_as_often_as_reports_say() -> None:
    random = np.random.default_rng(1)
    for seeds, share in COVERAGE.items():
        values, drawn = random.standard_normal((4000, seeds)), random.integers(seeds, size=(DRAWS, seeds))
        low, high = np.quantile(values[:, drawn].mean(axis=2), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
        assert abs(np.mean((low <= 0) & (high >= 0)) - share) < 0.03, seeds


def list_cells() -> list[str]:
    """Return a line for each cell of each suite: its scene, its place, whether --quick has it, and a digest of it."""
    lines = []
    for name in MEASURED:
        suite = load_suite(name)
        plan, quick = (
            make_plan(suite, [Candidate("subject", suite.yardsticks[0])], 1, quick=one) for one in (False, True)
        )
        for place, table in plan.tables.items():
            digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:12]
            part = "quick" if place in quick.tables else "whole"
            lines.append(f"{name} {place.scene} | {format_labels(plan.labels[place])} | {part} {digest}")
    return lines


@pytest.mark.slow
def test_cells_of_suites_are_as_they_were() -> None:
    """A scene that changes changes what its grades mean: the list shows it, and has to be written again."""
    before, now = CELLS.read_text(encoding="utf-8").splitlines(), list_cells()
    changed = [f"- {one}" for one in before if one not in now] + [f"+ {one}" for one in now if one not in before]
    assert before == now, "\n".join(changed)


if __name__ == "__main__":
    CELLS.write_text("".join(f"{one}\n" for one in list_cells()), encoding="utf-8")
