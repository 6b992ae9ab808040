"""Bars and cells of the suites that come with dumbbell: directions, units of words, and every cell as it is.

`python tests/test_suite_bars.py` writes the list of cells again, after a change that is meant.
"""

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
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
