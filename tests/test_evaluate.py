"""`dumbbell evaluate`: bars, grades, suites, and the suite of RFC 9743."""

import json
import math
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

import dumbbell
from conftest import Command
from dumbbell.cli.evaluate_options import strip_ending
from dumbbell.engines import sweep
from dumbbell.engines.sim import Simulator
from dumbbell.errors import InputError, Unfit
from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.criterion_bar import parse_bar
from dumbbell.evaluate.evaluation import Verdict, evaluate
from dumbbell.evaluate.gate import make_gate
from dumbbell.evaluate.grade import CellGrade, judge_cell
from dumbbell.evaluate.measures import measure_runs
from dumbbell.evaluate.plan import Candidate, ScenePlace, make_plan
from dumbbell.evaluate.suite_file import Criterion, CriterionMeasure, EvaluationSuite, Seeds, list_suites, load_suite
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.results.results import StoredResults
from dumbbell.results.store import TABLES
from real_linux import needs_kernel

SCENE = """\
title = "One flow over a short queue"
duration = "8s"
[bottleneck]
rate = "10Mbit"
aqm = "pfifo"
buffer = "0.5bdp"
[[flows]]
cc = "cubic"
base_rtt = "20ms"
count = 3
start = { uniform = ["0s", "100ms"] }
[record]
from = "2s"
interval = "200ms"
[matrix]
"bottleneck.buffer" = ["0.25bdp", "8bdp"]
"""
SUITE = '''\
title = "Small"
of = "cc"
source = "our own rules"
first = "This is an example."
yardsticks = ["cubic"]
seeds = { quick = 2, first = 3, most = 6 }
[paragraphs]
"1" = { title = "Loss", word = "MUST" }
"2" = { title = "Prose", author = "The author writes it." }
[words]
little = { value = 0.02, origin = "ours" }
[measure.dropped]
title = "packets dropped"
unit = "share"
sql = """
SELECT q.key, sum(q.drops) / (sum(q.drops) + sum(q.packets)) AS value
FROM queue_series q JOIN cells c USING (key) WHERE q.time_s > c.from_s GROUP BY q.key"""
[measure.marked]
title = "marks"
sql = "SELECT key, mark_share AS value FROM runs JOIN cells USING (key) WHERE ce_marks > 0"
[scene.short]
subject = ["flows[0]"]
quick = { "bottleneck.buffer" = [1] }
[[criterion]]
id = "loss"
answers = ["1"]
says = "It loses little."
scene = "short"
measure = "dropped"
passes = "<= little"
level = "<= 1.5 * cubic"
fails = "> 0.05 and > 3 * cubic"
[[criterion]]
id = "marks"
answers = ["1"]
says = "It answers marks."
scene = "short"
measure = "marked"
level = "<= 4 * cubic"
no_data = "No packet was marked."
'''


def bar(text: str, *names: str) -> object:
    return parse_bar(text, {"cubic", "little", *names}, "bar")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "suite.toml").write_text(SUITE)
    (folder / "short.toml").write_text(SCENE)
    return folder


def _replace_query(text: str, query: str) -> str:
    """Return a suite with another query for its first measure."""
    start = text.index('sql = """') + len('sql = """')
    return text[:start] + query + text[text.index('"""', start) :]


# bars


@pytest.mark.parametrize(
    ("text", "value", "is_met"),
    [
        ("<= little", 0.02, True),
        ("< little", 0.02, False),
        (">= 0.8 * cubic", 0.08, True),
        (">= 0.8 * cubic", 0.07, False),
        ("> 0.05 and > 3 * cubic", 0.31, True),
        ("> 0.05 and > 3 * cubic", 0.29, False),
        ("> 0.05 and > 3 * cubic", 0.05, False),
        ("<= max(4 * cubic, 0.25)", 0.4, True),
        ("<= min(4 * cubic, 0.25)", 0.3, False),
        ("<= cubic + 0.1", 0.2, True),
        ("<= -cubic", -0.2, True),
        ("<= 1 / (cubic - 0.1)", 1e9, True),  # beyond every number
    ],
)
def test_bars_are_met_as_they_say(text: str, value: float, is_met: bool) -> None:
    found = parse_bar(text, {"cubic", "little"}, "bar")
    assert found.is_met(value, {"cubic": 0.1, "little": 0.02}) == is_met


@pytest.mark.parametrize(
    "text",
    [
        *("", "<=", "<= ", "0.02", "== 1", "<= 1 or > 2", "<= unknown", "<= cubic.value", "<= __import__('os')"),
        *("<= (lambda: 1)()", "<= [1][0]", "<= 'a'", "<= True", "<= 1 < 2", "<= 2 ** 9", "<= max()", "<= max(key=1)"),
        *("and", "< 1 and", "<= " + "(" * 150, "<= " + "1 + " * 100 + "1", 7, None),
    ],
)
def test_what_is_no_bar_is_refused_with_its_key(text: object) -> None:
    with pytest.raises(InputError, match="criterion") as caught:
        parse_bar(text, {"cubic"}, "criterion[0].level")
    assert caught.value.key == "criterion[0].level"


# grades

MEAN = CriterionMeasure("m", "m", "")


def make_criterion(**bars: str) -> Criterion:
    parsed = {name: parse_bar(text, {"cubic", "little"}, name) for name, text in bars.items()}
    return Criterion("c", ("1",), "it does", "s", "m", parsed.get("passes"), parsed.get("level"), parsed.get("fails"))


def make_runs(*values: float) -> dict[int, np.ndarray]:
    return {seed: np.array([value]) for seed, value in enumerate(values, 1)}


@pytest.mark.parametrize(
    ("mine", "theirs", "grade"),
    [
        (0.02, 0.001, grades.PASSES),
        (0.03, 0.02, grades.NO_WORSE),
        (0.04, 0.02, grades.WORSE),
        (0.06, 0.02, grades.WORSE),  # three times, not more
        (0.061, 0.02, grades.FAILS),
    ],
)
def test_the_first_bar_that_is_met_is_the_grade(mine: float, theirs: float, grade: str) -> None:
    criterion = make_criterion(passes="<= little", level="<= 1.5 * cubic", fails="> 0.05 and > 3 * cubic")
    values = {"it": make_runs(mine, mine), "cubic": make_runs(theirs, theirs)}
    found = judge_cell(criterion, MEAN, {"little": 0.02}, "it", values, "here")
    assert (found.grade, found.sure, found.seeds, found.value) == (grade, True, 2, mine)
    assert found.low == found.high == mine and found.others == {"cubic": theirs}


def test_a_grade_is_sure_if_resampled_seeds_give_it_too() -> None:
    criterion = make_criterion(level="<= cubic + 1")
    # 2 on average, and 3 and 1 as often: the mean of resampled seeds is above 2 in nearly half of them
    open_cell = judge_cell(
        criterion, MEAN, {}, "it", {"it": make_runs(1, 3, 1, 3), "cubic": make_runs(1, 1, 1, 1)}, "x"
    )
    assert not open_cell.sure and open_cell.grade == grades.CANNOT_TELL
    # paired seeds: each run is just as far from its yardstick, however much both vary
    paired = {"it": make_runs(1.5, 3.5, 9.5, 0.5), "cubic": make_runs(1, 3, 9, 0)}
    assert judge_cell(criterion, MEAN, {}, "it", paired, "x").sure


def test_a_pass_or_a_failure_is_one_in_nearly_all_resamples() -> None:
    criterion = make_criterion(passes="<= little", level="<= 1.5 * cubic", fails="> 0.05 and > 3 * cubic")

    def judge(mine: tuple[float, ...], theirs: float) -> CellGrade:
        values = {"it": make_runs(*mine), "cubic": make_runs(*(theirs for _ in mine))}
        return judge_cell(criterion, MEAN, {"little": 0.02}, "it", values, "x")

    # the mean of 0.0195 keeps the number, as many means of resampled seeds do not; all are within the margin
    assert (judge((0.01, 0.029), 0.03).grade, judge((0.01, 0.029), 0.03).sure) == (grades.NO_WORSE, True)
    assert judge((0.01, 0.019), 0.03).grade == grades.PASSES
    # the mean of 0.055 is a failure, as many are not; all are beyond the margin
    assert (judge((0.03, 0.08), 0.01).grade, judge((0.03, 0.08), 0.01).sure) == (grades.WORSE, True)
    assert judge((0.06, 0.08), 0.01).grade == grades.FAILS


@pytest.mark.parametrize(("value", "excess"), [(4.0, 1.0), (0.25, 0.5), (1.0, -0.5), (1.9, -0.05), (0.55, -0.1)])
def test_a_value_is_beyond_the_nearer_end_of_a_bar_with_two(value: float, excess: float) -> None:
    criterion = make_criterion(level=">= 0.5 and <= 2")
    found = judge_cell(criterion, MEAN, {}, "it", {"it": make_runs(value)}, "x")
    assert found.excess == pytest.approx(excess)


@pytest.mark.parametrize("name", ["out", "out.html", "out.duckdb"])
def test_an_output_is_named_with_its_ending_or_without(name: str) -> None:
    assert strip_ending(name) == "out"


def test_seeds_count_that_all_have_and_no_data_is_said() -> None:
    criterion = make_criterion(level="<= cubic")
    values = {"it": {1: np.array([1.0]), 2: np.array([9.0])}, "cubic": {1: np.array([2.0])}}
    found = judge_cell(criterion, MEAN, {}, "it", values, "x")
    assert (found.value, found.seeds, found.grade) == (1.0, 1, grades.NO_WORSE)
    none = judge_cell(criterion, MEAN, {}, "it", {"it": {}, "cubic": make_runs(1)}, "x")
    assert none.grade == grades.CANNOT_TELL and math.isnan(none.value)
    applies = Criterion("c", ("1",), "", "s", "m", None, criterion.level, None, no_data="It has none.")
    assert judge_cell(applies, MEAN, {}, "it", {"it": {}, "cubic": make_runs(1)}, "x").grade == grades.NOT_APPLICABLE
    # without data of the yardstick nobody can tell
    assert judge_cell(applies, MEAN, {}, "it", {"it": make_runs(1), "cubic": {}}, "x").grade == grades.CANNOT_TELL


def test_a_yardstick_without_values_counts_only_where_a_bar_names_it() -> None:
    values = {"it": make_runs(0.01, 0.01), "cubic": {}}
    alone = judge_cell(make_criterion(level="<= little"), MEAN, {"little": 0.02}, "it", values, "x")
    assert (alone.grade, alone.seeds, alone.others) == (grades.NO_WORSE, 2, {})
    beside = judge_cell(make_criterion(level="<= little * cubic"), MEAN, {"little": 0.02}, "it", values, "x")
    assert beside.grade == grades.CANNOT_TELL


def test_nobody_can_tell_a_cell_with_a_value_that_is_not_a_number() -> None:
    # without the runs in which something never ended, those would count in which it did
    criterion = make_criterion(level="<= cubic")
    for mine, theirs in ((make_runs(1, math.nan), make_runs(2, 2)), (make_runs(1, 1), make_runs(2, math.nan))):
        found = judge_cell(criterion, MEAN, {}, "it", {"it": mine, "cubic": theirs}, "x")
        assert (found.grade, found.sure, found.seeds) == (grades.CANNOT_TELL, True, 2) and math.isnan(found.value)


def test_a_quantile_is_that_of_all_seeds_together() -> None:
    measure = CriterionMeasure("m", "m", "", quantile=0.5)
    values = {"it": {1: np.array([1.0, 1.0, 1.0]), 2: np.array([9.0])}, "cubic": make_runs(1, 1)}
    assert judge_cell(make_criterion(level="<= cubic"), measure, {}, "it", values, "x").value == 1.0


def test_what_the_transport_does_is_not_said_to_pass() -> None:
    criterion = Criterion(
        "c", ("1",), "", "s", "m", None, make_criterion(level="<= cubic").level, None, merit="transport"
    )
    good = judge_cell(criterion, MEAN, {}, "it", {"it": make_runs(1, 1), "cubic": make_runs(1, 1)}, "x")
    bad = judge_cell(criterion, MEAN, {}, "it", {"it": make_runs(2, 2), "cubic": make_runs(1, 1)}, "x")
    assert good.grade == grades.TRANSPORT and bad.grade == grades.WORSE


# suites


def test_criteria_in_their_scene_are_those_that_name_it(small: Path) -> None:
    def describe(suite: EvaluationSuite) -> list[tuple[object, ...]]:
        return [
            (one.id, one.answers, one.says, one.scene, one.measure, one.no_data, [bar.text for bar in one.bars])
            for one in suite.criteria
        ]

    apart = load_suite(str(small))
    head, _, criteria = SUITE.partition(
        '[scene.short]\nsubject = ["flows[0]"]\nquick = { "bottleneck.buffer" = [1] }\n'
    )
    rows = [
        ", ".join(line for line in part.strip().splitlines() if not line.startswith(("answers", "scene")))
        for part in criteria.split("[[criterion]]")[1:]
    ]
    scene = '[scene.short]\nquick = { "bottleneck.buffer" = [1] }\nanswers = ["1"]\ncriteria = ['
    text = head.replace("seeds =", 'subject = ["flows[0]"]\nseeds =', 1)
    (small / "suite.toml").write_text("\n".join([text, scene, *(f"{{ {row} }}," for row in rows), "]"]))
    together = load_suite(str(small))
    assert describe(together) == describe(apart) and together.scenes == apart.scenes


def test_a_scene_may_be_another_one_with_other_values(small: Path) -> None:
    scene = '[scene.fast]\nfile = "short.toml"\nsubject = ["flows[0]"]\nset = { "bottleneck.rate" = "20Mbit" }\n'
    text = SUITE.replace("[[criterion]]", f"{scene}[[criterion]]", 1)
    (small / "suite.toml").write_text(text.replace('scene = "short"', 'scene = "fast"', 1))
    plan = make_plan(load_suite(str(small)), [Candidate("reno", "reno")], 2)
    rates = {place.scene: table["bottleneck"]["rate"] for place, table in plan.tables.items()}
    assert rates == {"short": "10Mbit", "fast": "20Mbit"}
    assert all(("bottleneck.rate=20Mbit" in line) == (place.scene == "fast") for place, line in plan.commands.items())


def test_a_folder_of_ones_own_is_a_suite(small: Path, tmp_path: Path) -> None:
    found = evaluate(load_suite(str(small)), Candidate("bbr1", "bbr1"), tmp_path / "out.duckdb", progress=False)
    loss, marks = found.verdicts
    shallow, deep = (ScenePlace("short", (n,)) for n in (0, 1))
    assert loss.cells[shallow].grade == grades.FAILS and loss.cells[deep].grade == grades.PASSES
    assert (loss.worst.place, loss.grade) == (shallow, grades.FAILS)
    assert marks.grade == grades.NOT_APPLICABLE
    assert list(found.list_unanswered()) == [("2", "for the author", "The author writes it.")]
    assert loss.worst.name == "bottleneck.buffer 0.25bdp"
    assert make_gate(found, "fails").status == 1 and make_gate(replace(found, verdicts=(marks,))).status == 3
    # CUBIC in its own place is CUBIC
    same = evaluate(load_suite(str(small)), Candidate("cubic", "cubic"), tmp_path / "out.duckdb", progress=False)
    for one in same.verdicts[0].cells.values():
        assert one.value == one.others["cubic"] and one.grade in grades.GOOD
    assert make_gate(same).status == 0


def test_the_command_of_a_cell_repeats_its_runs(small: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.parent)
    suite = load_suite(small.name)
    plan = make_plan(suite, [Candidate("subject bbr1", "bbr1")], suite.seeds.first)
    again = plan.commands[ScenePlace("short", (1,))]
    assert again == "dumbbell run small/short.toml --set bottleneck.buffer=8bdp --set 'flows[0].cc=bbr1'"
    done = command(*shlex.split(again)[1:], "--set", "seeds=[1, 2, 3]", "-o", "again.duckdb")
    assert done.returncode == 0, done.stderr
    keys = plan.cells.filter(pl.col("position") == [1])["key"].to_list()
    assert sorted(dumbbell.open("again.duckdb").keys) == sorted(keys)


def test_cells_that_are_not_sure_get_more_seeds(small: Path, tmp_path: Path) -> None:
    # the least goodput of Reno's flows over an equal part is about as much in another's run: never sure
    least = "SELECT key, min(goodput_mbit) / avg(goodput_mbit) AS value FROM flows JOIN cells USING (key) GROUP BY 1"
    text = _replace_query(SUITE, least).replace('passes = "<= little"\n', "")
    text = text.replace('level = "<= 1.5 * cubic"', 'level = "<= cubic"').replace("most = 6", "most = 5")
    text = text.replace('fails = "> 0.05 and > 3 * cubic"\n', "")
    (small / "suite.toml").write_text(text)
    found = evaluate(load_suite(str(small)), Candidate("reno", "reno"), tmp_path / "out.duckdb", progress=False)
    cells = found.verdicts[0].cells.values()
    assert {one.seeds for one in cells} <= {3, 5}
    assert all(one.seeds == 5 for one in cells if not one.sure)


def test_a_scene_alone_has_the_values_of_the_whole_suite(small: Path, tmp_path: Path) -> None:
    # criteria of a scene share its seeds: of one that is sure alone, there are fewer
    unsure = """\
[measure.least]
title = "least over mean"
unit = "ratio"
sql = "SELECT key, min(goodput_mbit) / avg(goodput_mbit) AS value FROM flows JOIN cells USING (key) GROUP BY 1"
[[criterion]]
id = "least"
answers = ["1"]
says = "It shares."
scene = "short"
measure = "least"
level = "<= cubic"
"""
    (small / "suite.toml").write_text(SUITE + unsure)
    suite = load_suite(str(small))
    seeds, values = {}, {}
    for only in ((), ("short",), ("loss",)):
        one = suite.select(only)
        found = evaluate(one, Candidate("reno", "reno"), tmp_path / "out.duckdb", progress=False)
        seeds[only] = [cell.seeds for cell in found.verdicts[0].cells.values()]
        values[only] = [cell.value for cell in found.verdicts[0].cells.values()]
    assert values[()] == values[("short",)] and seeds[()] == seeds[("short",)]
    assert sum(seeds[("loss",)]) < sum(seeds[()])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('of = "cc"', 'of = "ccc"', "of"),
        ('level = "<= 1.5 * cubic"', 'level = "<= 1.5 * qubic"', "level"),
        ('answers = ["1"]', 'answers = ["3"]', "answers"),
        ('scene = "short"', 'scene = "long"', "scene"),
        ('measure = "dropped"', 'measure = "droped"', "measure"),
        ("seeds = { quick = 2", "seeds = { quick = 1", "seeds.quick"),
        ("most = 6", "most = 2", "seeds.most"),
        ('id = "marks"', 'id = "loss"', "id"),
        ("little = {", "cubic = {", "words"),
        ('sql = """', 'function = "longest_below"\nsql = """', "measure.dropped"),
        ('passes = "<= little"\nlevel = "<= 1.5 * cubic"\nfails', "fails", "criterion[0]"),
        ('title = "Small"', 'titel = "Small"', "titel"),
        ('subject = ["flows[0]"]\n', "", "scene.short"),
        ("[scene.short]", "[scene.short]\ncriteria = 3", "scene.short.criteria"),
        ("[scene.short]", '[scene.short]\ncriteria = [{ scene = "short" }]', "scene.short.criteria[0]"),
        ("[scene.short]", "[scene.short]\nset = 3", "scene.short.set"),
    ],
)
def test_errors_in_a_suite_name_the_key(small: Path, old: str, new: str, said: str) -> None:
    (small / "suite.toml").write_text(SUITE.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        load_suite(str(small))
    assert said in str(caught.value) and "suite.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("quick = { ", 'quick = { "bottleneck.aqm" = [0], ', "bottleneck.aqm"),
        ('"bottleneck.buffer" = [1] }', '"bottleneck.buffer" = [2] }', "positions from 0 to 1"),
        ('subject = ["flows[0]"]', 'subject = ["flows[1]"]', "flows[1]"),
        ('subject = ["flows[0]"]', 'set = { "flows[7].cc" = "reno" }\nsubject = ["flows[0]"]', "flows[7]"),
        ('subject = ["flows[0]"]', 'file = "missing.toml"\nsubject = ["flows[0]"]', "missing.toml"),
    ],
)
def test_errors_in_a_scene_are_found_before_anything_runs(small: Path, old: str, new: str, said: str) -> None:
    (small / "suite.toml").write_text(SUITE.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        make_plan(load_suite(str(small)), [Candidate("reno", "reno")], 2, quick=True)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT key, drops AS loss FROM runs", "key and value"),
        ("SELECT key FROM nowhere", "measure.dropped"),
        ("DROP TABLE runs", "measure.dropped"),
    ],
)
def test_errors_in_a_measure_name_it(small: Path, tmp_path: Path, query: str, said: str) -> None:
    (small / "suite.toml").write_text(_replace_query(SUITE, query))
    with pytest.raises(InputError, match=said):
        evaluate(load_suite(str(small)), Candidate("reno", "reno"), tmp_path / "o.duckdb", quick=True, progress=False)


# the suites that come with dumbbell


@pytest.mark.parametrize("name", list(list_suites()))
def test_a_suite_uses_all_that_it_has(name: str) -> None:
    suite = load_suite(name)
    assert [one.name for one in suite.used_scenes] == list(suite.scenes)
    assert {one.measure for one in suite.criteria if not one.judge} == set(suite.measures)
    used = " ".join(bar.text for one in suite.criteria for bar in one.bars)
    assert all(word in used for word in suite.words)
    assert all(one.judge for one in suite.criteria if not one.bars)
    files = {path.name for path in suite.file.parent.glob("*.toml")}
    assert files == {"suite.toml", *(scene.file.name for scene in suite.scenes.values())}


def test_failing_is_said_only_where_a_document_names_the_failure() -> None:
    failing = {one.id: one.answers for one in load_suite("rfc9743").criteria if one.fails}
    starving = {"beside-starved", "deploy-starved", "aqm-starved"}
    assert {name for name, sections in failing.items() if "5.2" in sections} == starving
    # loss, wherever section 5.1.3 is answered
    assert all("5.1.3" in sections for name, sections in failing.items() if name not in {*starving, "ce-answered"})


def test_among_equal_cells_the_worst_has_the_worst_value() -> None:
    """A yardstick as the subject keeps each of its own bars by the same margin, except for rounding."""
    suite = load_suite("rfc9743")
    for name, values, worst in (("depth", (0.907, 0.986, 1.0), 0.907), ("bleached-queue", (24.0, 1854.0, 7.1), 1854.0)):
        one = next(criterion for criterion in suite.criteria if criterion.id == name)
        cells = {}
        for n, value in enumerate(values):
            runs = {who: {1: np.array([value * 1.1]), 2: np.array([value * 0.9])} for who in ("it", "cubic")}
            cells[ScenePlace("s", (n,))] = judge_cell(
                one, suite.measures[one.measure], suite.numbers, "it", runs, str(n)
            )
        verdict = Verdict(one, cells)
        assert verdict.worst.value == pytest.approx(worst), name


def test_measures_find_what_a_queue_declares() -> None:
    suite = load_suite("rfc7928").select(["friendly"])
    queues = ("pfifo", {"name": "codel", "target": "7ms", "ecn": True}, "cake")
    plan = make_plan(suite, [Candidate(str(n), one) for n, one in enumerate(queues)], 1)
    found = [json.loads(one) for one in plan.cells["aqm"]]
    assert [(one["name"], one.get("target"), one.get("ecn")) for one in found] == [
        *(("pfifo", None, None), ("codel", 7_000_000, True), ("cake", None, None))
    ]


@pytest.mark.parametrize(
    ("queue", "target"),
    [
        *(
            ("codel", 5),
            ("pie", 15),
            ({"name": "pie", "version": "linux-4"}, 20),
            ({"name": "pie", "target": "7ms"}, 7),
        ),
        *(("dualpi2", 15), ({"name": "dualpi2", "max_rtt": "60ms"}, 10), ("pfifo", None), ("htb_classes", None)),
    ],
)
def test_a_queue_declares_its_target_or_the_default_of_it(queue: Any, target: float | None) -> None:
    suite = load_suite("rfc7928").select(["overload-target"])
    plan = make_plan(suite, [Candidate("queue", queue)], 1)
    declared = suite.measures["over-target"].sql.partition("\nSELECT q.key")[0]
    with duckdb.connect() as connection:
        connection.register("cells", plan.cells.to_arrow())
        assert connection.sql(f"{declared} SELECT target_ms FROM declared").fetchall() == [(target,)]


@pytest.mark.parametrize("name", [name for name in list_suites() if load_suite(name).scenes])
def test_shipped_suites_can_be_planned(name: str) -> None:
    suite = load_suite(name)
    whole = make_plan(suite, [Candidate("subject", suite.yardsticks[0])], 2)
    quick = make_plan(suite, [Candidate("subject", suite.yardsticks[0])], 2, quick=True)
    assert set(quick.labels) <= set(whole.labels)
    assert (len(quick.labels) < len(whole.labels)) == any(scene.quick for scene in suite.scenes.values())
    assert {place.scene for place in quick.labels} == set(suite.scenes)
    tables = {table for measure in suite.measures.values() for table in TABLES if f" {table} " in measure.sql}
    assert tables  # what they read is a table of results


def test_the_longest_time_below_a_share_is_that_of_an_outage(tmp_path: Path) -> None:
    table = {
        "duration": "20s",
        "bottleneck": {"rate": "10Mbit", "aqm": "fq_codel"},
        "flows": [
            {"cc": "reno", "base_rtt": "20ms"},
            {
                "cc": "reno",
                "base_rtt": "20ms",
                "path": [{"name": "loss", "probability": 1.0, "from": "8s", "to": "10s"}],
            },
        ],
        "record": {"from": "2s", "interval": "200ms"},
    }
    results = dumbbell.run(table, output=tmp_path / "r.duckdb", progress=False)
    key = results.keys[0]
    cells = pl.DataFrame(
        {"key": [key], "from_s": [2.0], "interval_s": [0.2], "duration_s": [20.0], "rate_mbit": [10.0], "flows": [2]}
    )
    roles = pl.DataFrame({"key": [key, key], "flow": [0, 1], "role": ["subject", "other"]})
    stored = StoredResults(tmp_path / "r.duckdb", keys=[key])
    found = {
        role: measure_runs(
            CriterionMeasure("m", "m", "s", function="longest_below", options={"role": role, "below": 0.1}),
            stored,
            cells,
            roles,
            "suite.toml",
        )["value"].item()
        for role in ("subject", "other")
    }
    # 2 s without packets, and what its timeouts wait beyond that
    assert found["subject"] == 0.0 and 2.0 <= found["other"] <= 4.0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in list_suites() if load_suite(name).yardsticks])
def test_each_measure_of_a_suite_has_a_value_in_each_cell(name: str, tmp_path: Path) -> None:
    suite = replace(load_suite(name), seeds=Seeds(2, 2, 2))
    first = suite.yardsticks[0]
    found = evaluate(suite, Candidate(first, first), tmp_path / "out.duckdb", quick=True, progress=False)
    assert not found.failed
    without = {one.criterion.id for one in found.verdicts for cell in one.cells.values() if math.isnan(cell.value)}
    assert without <= {one.id for one in suite.criteria if one.no_data}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "judged", "worse", "no_worse"),
    [
        # BBRv1 does not make way for UDP, and takes up free capacity at once
        ("tcpeval", ("release", "arrival", "steps"), {"bbr1": {"arrival", "steps"}}, "reno"),
        # findings 1, 4, 7 and 8 of the L4S tests; CUBIC has none of them
        (
            "l4s",
            ("own-rtt", "variable-use", "classic-share", "alone-delay", "alone-use"),
            {"prague": {"own-rtt", "variable-use", "classic-share", "alone-delay"}},
            "cubic",
        ),
        # a video that ignores the capacity fills the queue; it keeps its rate next to TCP
        (
            "rfc8867",
            ("variable-queue", "variable-frames", "long-tcp-rate", "long-tcp-tcp"),
            {"none": {"variable-queue", "variable-frames", "long-tcp-tcp"}},
            "nada",
        ),
    ],
)
def test_suites_tell_subjects_apart_as_is_known(
    name: str, judged: tuple[str, ...], worse: dict[str, set[str]], no_worse: str, tmp_path: Path
) -> None:
    suite = load_suite(name).select(judged)
    for subject in (*worse, no_worse):
        found = evaluate(suite, Candidate(subject, subject), tmp_path / "out.duckdb", quick=True, progress=False)
        bad = {one.criterion.id for one in found.verdicts if one.grade == grades.WORSE}
        assert bad == worse.get(subject, set()), subject


@pytest.mark.slow
def test_controls_get_the_grades_that_are_known(tmp_path: Path) -> None:
    """BBRv1 loses, takes and starves, and keeps queues short; CUBIC and Reno are no worse than themselves."""
    judged = ["shallow-loss", "beside-share", "late-share", "aqm-share", "standing-queue", "depth", "short-cubic-p99"]
    suite = load_suite("rfc9743").select(judged)
    found = {
        name: {
            one.criterion.id: one.grade
            for one in evaluate(
                suite, Candidate(name, name), tmp_path / "out.duckdb", quick=True, progress=False
            ).verdicts
        }
        for name in ("cubic", "bbr1")
    }
    assert set(found["cubic"].values()) <= set(grades.GOOD)
    bad = {one for one, grade in found["bbr1"].items() if grade == grades.WORSE}
    assert found["bbr1"]["shallow-loss"] == grades.FAILS
    # depth is a scene, too, and depth-loss judges it
    assert bad == {"beside-share", "late-share", "aqm-share", "short-cubic-p99", "depth-loss"}


@pytest.mark.slow
def test_queues_get_the_grades_that_are_known(tmp_path: Path) -> None:
    """FQ-CoDel keeps a queue short; CoDel with a target of half a second does not, with one of 100 us it starves."""
    judged = ["aggressive-queue", "aggressive-use", "unresponsive-goodput", "varying-capacity-queue"]
    suite = load_suite("rfc7928").select(judged)
    queues = {
        "fq_codel": "fq_codel",
        "slow": {"name": "codel", "target": "500ms"},
        "hasty": {"name": "codel", "target": "100us", "interval": "1ms"},
    }
    found = {}
    for name, value in queues.items():
        done = evaluate(suite, Candidate(name, value), tmp_path / "out.duckdb", quick=True, progress=False)
        found[name] = {one.criterion.id: one for one in done.verdicts}
    assert all(one.grade in grades.GOOD for one in found["fq_codel"].values())
    slow = found["slow"]["aggressive-queue"]
    assert slow.worst.value > 90 and found["hasty"]["aggressive-use"].grade == grades.WORSE


class _Refusing(Simulator):
    """The simulator, but it refuses deep buffers."""

    @staticmethod
    def prepare(_experiments: list[Experiment]) -> list[str]:
        for one in _experiments:
            if any(cell.matrix["bottleneck.buffer"] == "8bdp" for cell in one.make_cells()):
                raise Unfit("it is too deep", "a shallow one", file=one.file, key="bottleneck.buffer")
        return []

    @property
    def format_plan(self) -> Callable[[Cell], str]:  # type: ignore[override]
        def check_depth(cell: Cell) -> str:
            assert cell.matrix["bottleneck.buffer"] != "8bdp", "there is no plan of what is refused"
            return "shallow"

        return check_depth


def test_cells_that_an_engine_refuses_are_left_out_and_named(small: Path, tmp_path: Path) -> None:
    suite, out = load_suite(str(small)), tmp_path / "out.duckdb"
    found = evaluate(suite, Candidate("bbr1", "bbr1"), out, progress=False, engine=_Refusing())
    assert found.notes == ("left out: scene short, 1 cell: bottleneck.buffer: it is too deep; use a shallow one",)
    assert [list(one.cells) for one in found.verdicts] == [[ScenePlace("short", (0,))]] * 2
    # the same cell as by the simulator itself
    same = evaluate(suite, Candidate("bbr1", "bbr1"), out, progress=False).verdicts[0]
    assert same.cells[ScenePlace("short", (0,))].value == found.verdicts[0].cells[ScenePlace("short", (0,))].value
    (small / "short.toml").write_text(SCENE.replace('"0.25bdp", ', ""))
    (small / "suite.toml").write_text(SUITE.replace("[1]", "[0]"))
    with pytest.raises(InputError, match="cannot run any"):
        evaluate(load_suite(str(small)), Candidate("bbr1", "bbr1"), out, progress=False, engine=_Refusing())


# the command


def test_the_command_prints_and_writes_its_verdicts(small: Path, command: Command) -> None:
    done = command("evaluate", "cc", "bbr1", "--suite", "small")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("This is an example.")
    assert "| 1       | loss      | fails" in done.stdout and "does not apply" in done.stdout
    assert "dumbbell run small/short.toml --set bottleneck.buffer=0.25bdp" in done.stdout
    page = (small.parent / "evaluation.html").read_text()
    assert "<title>bbr1, evaluated against our own rules</title>" in page and 'class="grade fails"' in page
    assert "http" not in page
    done = command("evaluate", "cc", "bbr1", "--suite", "small", "--format", "json", "--only", "loss")
    told = json.loads(done.stdout)
    assert [one["grade"] for one in told["criteria"]] == ["fails"] and done.returncode == 1
    assert [one["grade"] for one in told["criteria"][0]["cells"]] == ["fails", "passes"]
    done = command("evaluate", "cc", "cubic", "--suite", "small", "--format", "markdown")
    assert done.returncode == 0 and done.stdout.startswith("# cubic, evaluated against our own rules")
    assert "for the author: The author writes it." in done.stdout
    done = command("evaluate", "cc", "--suite", "small", "--list")
    assert done.stdout == "loss: It loses little. (1)\nmarks: It answers marks. (1)\n"


def test_ctrl_c_keeps_the_runs_and_judges_nothing(
    small: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sweep.run

    def interrupt(*given: Any, **options: Any) -> sweep.SweepReport:
        report = whole(*given, **options)
        report.interrupted = True
        return report

    monkeypatch.setattr(sweep, "run", interrupt)
    done = command("evaluate", "cc", "bbr1", "--suite", "small")
    assert (done.returncode, done.stdout) == (130, "")
    assert "evaluation.duckdb keeps the finished runs" in done.stderr
    assert not (small.parent / "evaluation.html").exists()
    monkeypatch.undo()
    assert command("evaluate", "cc", "bbr1", "--suite", "small").stdout


@needs_kernel
@pytest.mark.slow
def test_a_cell_that_linux_ran_is_repeated_on_linux(small: Path, command: Command) -> None:
    done = command("evaluate", "cc", "reno", "--suite", small.name, "--engine", "linux", "--quick", "--format", "json")
    [loss, marks] = json.loads(done.stdout)["criteria"]
    assert [cell["command"].endswith(" --engine linux") for cell in loss["cells"]] == [True]
    assert loss["cells"][0]["seeds"] == 2 and marks["grade"] == "does not apply"
    assert command("plugin", "new", "control", "mine", "--language", "python").returncode == 0
    refused = command("evaluate", "cc", "mine/mine.py", "--suite", small.name, "--engine", "linux")
    assert refused.returncode == 2 and "--engine linux does not support plugins" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "CONTROL"),
        (("qubic",), "cubic"),
        (("{ name = 'cubic', betta = 0.7 }",), "betta"),
        (("3",), "CONTROL"),
        (("cubic", "--suite", "rfc9999"), "rfc9743"),
        (("cubic", "--only", "9.9"), "--only"),
        (("cubic", "--only", "7.10"), "no criterion answers"),
        (("cubic", "--suite", "rfc7928"), "a congestion control"),
        (("cubic", "--engine", "linux", "--keep", "kept"), "only runs of the simulator"),
        (("--engine", "linux", "--list"), "--list and --engine"),
        (("cubic", "--engine", "minix"), "linux"),
    ],
)
def test_errors_of_the_command_say_what_is_allowed(words: tuple[str, ...], said: str, command: Command) -> None:
    done = command("evaluate", "cc", *words)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
