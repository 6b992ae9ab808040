"""Maps of cells on the page of an evaluation."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.evaluation import Evaluation, Verdict
from dumbbell.evaluate.grade import CellGrade
from dumbbell.evaluate.plan import Candidate, ScenePlace, make_plan
from dumbbell.evaluate.suite_file import load_suite
from dumbbell.evaluate.verdict_maps import make_verdict_map
from dumbbell.evaluate.verdict_report import make_page
from test_evaluate import SCENE, SUITE

TWO_AXES = '"bottleneck.buffer, flows[0].base_rtt" = [["1bdp", "10ms"], ["4bdp", "20ms"], ["8bdp", "40ms"]]\n'


def make_evaluation(folder: Path, matrix: str) -> Evaluation:
    """An evaluation of the first criterion without runs: the value of a cell is the sum of its position, all pass."""
    (folder / "short.toml").write_text(SCENE.partition("[matrix]")[0] + "[matrix]\n" + matrix)
    (folder / "suite.toml").write_text(SUITE.replace('quick = { "bottleneck.buffer" = [1] }', ""))
    suite = load_suite(str(folder)).select(["loss"])
    subject = Candidate("reno", "reno")
    plan = make_plan(suite, [subject], 2)
    [criterion] = suite.criteria
    cell = CellGrade(criterion, grades.PASSES, 0, 0, 9, {"cubic": 1.0}, 2)
    cells = {
        place: replace(cell, value=float(sum(place.position)), place=place, labels=labels, command=plan.commands[place])
        for place, labels in plan.labels.items()
    }
    return Evaluation(suite, subject, (Verdict(criterion, cells),), plan, 2)


def draw_map(page: str) -> str:
    """Return the map of a page."""
    return page.partition('<table class="heat">')[2].partition("</table>")[0]


def test_two_axes_make_a_map_that_leads_to_its_cells(tmp_path: Path) -> None:
    found = make_evaluation(tmp_path, TWO_AXES + '"hosts.ecn" = [true, false]\n')
    made = make_verdict_map(found.verdicts[0])
    assert made is not None and made.columns.key == "hosts.ecn"
    assert made.rows.key == "bottleneck.buffer, flows[0].base_rtt"
    page = make_page(found, "dumbbell evaluate cc reno")
    drawn = draw_map(page)
    texts = re.findall(r">([^<>\n]+)</(?:th|span|a)>", drawn)
    # row by row, the sums of positions
    assert texts == ["true", "false", "1bdp, 10ms", "0", "1", "4bdp, 20ms", "1", "2", "8bdp, 40ms", "2", "3"]
    assert drawn.count('<a class="passes"') == 6 and "dumbbell run" in drawn
    places = re.findall(r'href="#(loss-[\d-]+)"', page)
    assert len(set(places)) == 6 and all(f'<tr id="{one}">' in page for one in places)


@pytest.mark.parametrize(
    "matrix",
    [
        TWO_AXES,
        TWO_AXES + '"hosts.ecn" = [true]\n',  # an axis of one value is none
        TWO_AXES + '"hosts.ecn" = [true, false]\n"bottleneck.rate" = ["5Mbit", "10Mbit"]\n',
    ],
)
def test_other_numbers_of_axes_have_no_map(matrix: str, tmp_path: Path) -> None:
    found = make_evaluation(tmp_path, matrix)
    assert make_verdict_map(found.verdicts[0]) is None
    assert draw_map(make_page(found, "")) == ""


def test_a_map_keeps_missing_cells_and_values_apart(tmp_path: Path) -> None:
    found = make_evaluation(tmp_path, TWO_AXES + '"hosts.ecn" = [true, false]\n')
    verdict = found.verdicts[0]
    place = ScenePlace("short", (0, 0))
    nothing = CellGrade(verdict.criterion, grades.CANNOT_TELL, place=place, labels=verdict.cells[place].labels)
    cells = {**verdict.cells, place: nothing}
    del cells[ScenePlace("short", (2, 1))]
    drawn = draw_map(make_page(replace(found, verdicts=(Verdict(verdict.criterion, cells),)), ""))
    assert drawn.count("<a ") == 5 and drawn.count("<td></td>") == 2  # the corner, and the missing one
    assert '<a class="cannot-tell"' in drawn and ">-</a>" in drawn


def test_names_of_settings_are_escaped(tmp_path: Path) -> None:
    matrix = '"setting, bottleneck.buffer" = [["<b>a</b>", "1bdp"], ["b & c", "2bdp"]]\n"hosts.ecn" = [true, false]\n'
    found = make_evaluation(tmp_path, matrix)
    made = make_verdict_map(found.verdicts[0])
    assert made is not None and "setting" in (made.rows.key, made.columns.key)
    page = make_page(found, "")
    assert "&lt;b&gt;a&lt;/b&gt;" in draw_map(page) and "<b>" not in page
