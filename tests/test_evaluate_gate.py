"""Evaluations in continuous integration: status, expected failures, a report of before, JUnit, annotations, folders."""

import json
import math
import shlex
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import Command
from dumbbell.cli.evaluate_options import Progress
from dumbbell.errors import InputError
from dumbbell.evaluate import gate as gates
from dumbbell.evaluate import verdict_report
from dumbbell.evaluate.comparison import read_report
from dumbbell.evaluate.evaluation import Evaluation, Verdict
from dumbbell.evaluate.grade import (
    CANNOT_TELL,
    CONSTANT,
    CRASHED,
    FAILS,
    HUNG,
    NO_WORSE,
    NOT_APPLICABLE,
    PASSES,
    WORSE,
    CaseVerdict,
    CellGrade,
    Expectation,
    make_judged_cell,
)
from dumbbell.evaluate.plan import Candidate, Plan, ScenePlace
from dumbbell.evaluate.suite_file import EvaluationSuite, load_suite
from dumbbell.experiment.plugins import trust

BBR, RFC = load_suite("bbr"), load_suite("rfc9743")
SUBJECT = Candidate("bbr3", "bbr3")
HERE, THERE = "10Mbit 20ms", "1Mbit 100ms"
Result = tuple[str, str, CaseVerdict]


def result(case: str, found: str, place: str = HERE) -> Result:
    """Return the verdict of a judge with its criterion and its place."""
    checks = (Expectation("it \x01 holds", found == PASSES, "5 < 6 & 7"),)
    return case, place, CaseVerdict(found, f"because {found}", checks)


def make_evaluation(*results: Result, subject: Candidate = SUBJECT) -> Evaluation:
    """Return an evaluation by judges."""
    cells: dict[str, dict[ScenePlace, CellGrade]] = {}
    criteria = {one.id: one for one in BBR.criteria}
    for number, (case, where, verdict) in enumerate(results):
        place = ScenePlace(case, (number,))
        labels = dict(zip(("rate", "rtt"), where.split(), strict=True))
        cell = replace(make_judged_cell(criteria[case], verdict), place=place, labels=labels, command="again")
        cells.setdefault(case, {})[place] = cell
    verdicts = tuple(Verdict(one, cells[one.id]) for one in BBR.criteria if one.id in cells)
    return Evaluation(BBR, subject, verdicts, Plan(), 1, seconds=1.25)


CELLS = (
    result("drain-time", FAILS),
    result("drain-time", NOT_APPLICABLE, THERE),
    result("startup-plateau", PASSES),
    result("rate-up", CONSTANT),
)
MIXED = make_evaluation(*CELLS)


def write_report(path: Path, found: Evaluation) -> Path:
    path.write_text(verdict_report.to_json(found))
    return path


def gate_by_expected(found: Evaluation, file: Path) -> gates.Gate:
    return gates.make_gate(found, FAILS, gates.read_expected(file, BBR, SUBJECT, FAILS))


def gate_by_report(found: Evaluation, file: Path) -> gates.Gate:
    return gates.make_gate(found, FAILS, None, (file.name, read_report(file, BBR.name)))


def status(found: Evaluation) -> int:
    return gates.make_gate(found, FAILS).status


def test_the_status_says_whether_anything_was_judged() -> None:
    assert status(MIXED) == 1
    assert status(make_evaluation(result("rate-up", PASSES), result("rate-down", NOT_APPLICABLE))) == 0
    assert status(make_evaluation(result("rate-up", CONSTANT))) == 0
    assert status(make_evaluation(result("rate-up", NOT_APPLICABLE))) == 3
    assert status(make_evaluation(result("rate-up", PASSES), result("rate-down", CANNOT_TELL))) == 3
    assert status(make_evaluation(result("rate-up", FAILS), result("rate-down", CANNOT_TELL))) == 1


def test_a_control_to_which_no_case_applies_leaves_with_3(command: Command) -> None:
    said = command("evaluate", "cc", "reno", "--suite", "bbr", "--rate", "10Mbit", "--rtt", "20ms")
    assert said.returncode == 3
    assert "- 1 startup-plateau: does not apply: the control reports no states" in said.stdout
    assert "by their worst cells: 23 does not apply." in said.stdout and "Notes:" not in said.stdout


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("4 bbr3", []),
        ("# all of it\ndrain-time bbr3 # known\n", []),
        ("4 bbr3 10Mbit 20ms", []),
        ("", ["new failure: 4 bbr3 10Mbit 20ms: because fails"]),
        ("4 bbr2", ["new failure: 4 bbr3 10Mbit 20ms: because fails"]),
        ("4 bbr3 10000kbit 0.04s", ["new failure: 4 bbr3 10Mbit 20ms: because fails"]),
        ("4 bbr3\n1 bbr3", ["expected to fail, but passes: known line 2: 1 bbr3"]),
        (
            "4 bbr3\n15 bbr3 10Mbit 20ms",
            ["expected to fail, but a constant differs: known line 2: 15 bbr3 10Mbit 20ms"],
        ),
    ],
)
def test_known_failures_fail_when_they_are_new_and_when_they_pass(
    tmp_path: Path, lines: str, expected: list[str]
) -> None:
    file = tmp_path / "known"
    file.write_text(lines)
    gate = gate_by_expected(MIXED, file)
    assert [*gate.unexpected.values(), *gate.failures] == expected
    assert gate.status == (1 if expected else 0)


def test_a_known_failure_that_does_not_apply_is_said_and_does_not_fail(tmp_path: Path) -> None:
    file = tmp_path / "known"
    file.write_text("4 bbr3 10Mbit 20ms\n4 bbr3 1Mbit 100ms\n18 bbr3\n")
    gate = gate_by_expected(MIXED, file)
    assert not gate.list_failed()
    assert gate.to_lines() == ["expected to fail, does not apply: known line 2: 4 bbr3 1Mbit 100ms"]


@pytest.mark.parametrize("line", ["23 bbr3", "4", "4 10Mbit", "nonsense x", "4 bbr3 here", "4 bbr3 10Mbit"])
def test_a_wrong_line_of_known_failures_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "known"
    file.write_text(f"# comment\n{line}\n")
    if line == "4 10Mbit":  # a control of this name is not there: the line is of no use, and the failure is new
        assert gate_by_expected(MIXED, file).list_failed()
        return
    with pytest.raises(InputError, match="line 2"):
        gate_by_expected(MIXED, file)


def test_a_baseline_fails_on_what_got_worse_alone(tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    write_report(file, MIXED)
    assert gate_by_report(MIXED, file).status == 0
    worse = make_evaluation(
        result("drain-time", FAILS), result("startup-plateau", CONSTANT), result("rate-up", CANNOT_TELL)
    )
    gate = gate_by_report(worse, file)
    assert [line.partition(": because")[0] for line in gate.unexpected.values()] == [
        "passes → a constant differs: 1 bbr3 10Mbit 20ms",
        "a constant differs → cannot tell: 15 bbr3 10Mbit 20ms",
    ]
    assert gate.status == 1
    better = make_evaluation(
        result("drain-time", PASSES), result("startup-plateau", PASSES), result("rate-up", CONSTANT)
    )
    gate = gate_by_report(better, file)
    assert gate.to_lines() == ["fails → passes: 4 bbr3 10Mbit 20ms", "1 results of before.json were not looked at"]
    assert gate.status == 0
    cells = (result("drain-time", CANNOT_TELL), result("startup-plateau", PASSES))
    unknown = make_evaluation(*cells)
    write_report(file, unknown)
    assert gate_by_report(unknown, file).status == 0
    new = make_evaluation(*cells, result("rate-up", FAILS))
    assert "fails, not in before.json: 15 bbr3" in next(iter(gate_by_report(new, file).unexpected.values()))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"suite": "bbr", "criteria": 5}',
        '{"suite": "bbr", "criteria": [{"id": 1}]}',
        "\ud7ff{",
        "[" * 9999,
    ],
)
def test_a_baseline_that_is_no_report_gets_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "before.json"
    file.write_text(text)
    with pytest.raises(InputError, match="not a report"):
        read_report(file, BBR.name)


def test_a_baseline_of_another_suite_or_without_a_file_is_named(tmp_path: Path) -> None:
    file = write_report(tmp_path / "before.json", MIXED)
    with pytest.raises(InputError, match='suite is "bbr"; it must be a report of suite rfc9743'):
        read_report(file, RFC.name)
    with pytest.raises(InputError, match=r"none\.json: no such file"):
        read_report(tmp_path / "none.json", BBR.name)


# elements and attributes of the xunit plug-in's junit-10.xsd, as far as they are used here
SCHEMA: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": (set(), {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"testcase"}),
    "testcase": ({"name", "classname", "time"}, {"failure", "skipped"}),
    "failure": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
}


def test_junit_has_the_elements_of_its_schema_and_counts_that_add_up(tmp_path: Path) -> None:
    file = tmp_path / "known"
    subject = Candidate("bbr \x02<1>", "bbr3")
    file.write_text("4 bbr \x02<1>\n1 bbr \x02<1>")
    found = make_evaluation(
        *CELLS, result("rate-down", CANNOT_TELL), result("rate-down", FAILS, THERE), subject=subject
    )
    gate = gates.make_gate(found, FAILS, gates.read_expected(file, BBR, subject, FAILS))
    root = ElementTree.fromstring(gates.format_junit(gate))

    def check(element: ElementTree.Element) -> None:
        attributes, children = SCHEMA[element.tag]
        assert set(element.attrib) == attributes
        assert {child.tag for child in element} <= children
        for child in element:
            check(child)

    check(root)
    for suite in root:
        for count, tag in (("failures", "failure"), ("skipped", "skipped")):
            assert int(suite.attrib[count]) == len(suite.findall(f"testcase/{tag}"))
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        float(suite.attrib["time"])
    assert [(one.attrib["name"], one.attrib["failures"]) for one in root] == [
        ("bbr bbr ?<1>", "1"),
        ("expected failures", "1"),
    ]
    messages = [one.attrib["message"] for one in root.iter("skipped")]
    assert "expected: fails: because fails" in messages and "cannot tell: because cannot tell" in messages


def test_annotations_are_one_a_case_and_control_and_escaped() -> None:
    cells = (result("drain-time", FAILS), result("drain-time", FAILS, THERE), result("rate-up", CANNOT_TELL))
    assert gates.list_annotations(gates.make_gate(make_evaluation(*cells), FAILS)) == [
        "::error title=4. Exiting DRAIN Based on Time%2C bbr3::fails: 4 bbr3 10Mbit 20ms: because fails (and 1 more)",
        "::warning title=15. Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached%2C bbr3::"
        "cannot tell: 15 bbr3 10Mbit 20ms: because cannot tell",
    ]


def test_the_options_work_together(tmp_path: Path, command: Command) -> None:
    point = ["bbr3", "--suite", "bbr", "--rate", "10Mbit", "--rtt", "20ms", "--only", "4,1"]
    plain = command("evaluate", "cc", *point, "--format", "json")
    assert plain.returncode == 1
    before, known, xml = tmp_path / "before.json", tmp_path / "known", tmp_path / "junit.xml"
    before.write_text(plain.stdout)
    said = command("evaluate", "cc", *point, "--baseline", before, "--junit", xml, "--github")
    assert said.returncode == 0 and "nothing differs from" in said.stdout and "::error" not in said.stdout
    assert ElementTree.parse(xml).getroot()[0].attrib["failures"] == "0"
    known.write_text("4 bbr3\n")
    assert command("evaluate", "cc", *point, "--known", known, "--format", "markdown").returncode == 0
    known.write_text("1 bbr3\n")
    said = command("evaluate", "cc", *point, "--known", known, "--format", "json", "--junit", xml)
    assert said.returncode == 1
    assert len(json.loads(said.stdout)["gate"]["unexpected"]) == 2
    assert [one.attrib["failures"] for one in ElementTree.parse(xml).getroot()] == ["1", "1"]
    assert command("evaluate", "cc", *point, "--github").stdout.splitlines()[-1].startswith("::error title=4.")


@pytest.mark.slow
def test_a_bad_cell_gets_a_folder_with_its_trace(tmp_path: Path, command: Command) -> None:
    line = ["evaluate", "cc", "bbr3", "--suite", "bbr", "--rate", "10Mbit", "--rtt", "20ms", "--only", "4,1"]
    assert command(*line, "--keep", tmp_path / "kept").returncode == 1
    (folder,) = (tmp_path / "kept").iterdir()
    assert folder.name == "drain-time-10Mbit-20ms"
    assert {one.name for one in folder.iterdir()} == {"verdict.txt", "trace.sqlog", "figure.png"}
    text = (folder / "verdict.txt").read_text()
    assert "grade: fails\n" in text and text.endswith("--only drain-time --rate 10Mbit --rtt 20ms\n")
    # the trace says what it is of, so that it is judged alike
    again = command("evaluate", "trace", folder / "trace.sqlog", "--only", "4")
    assert again.returncode == 1 and "- 4 drain-time: fails" in again.stdout


# measures: a suite of one scene

PLACE = ScenePlace("shallow", (0,))


def evaluate_measured(value: float, half: float = 0.0, grade: str = WORSE, reason: str = "") -> Evaluation:
    """Return an evaluation by rfc9743 with one cell of one criterion."""
    suite = RFC.select(["shallow-loss"])
    judged = CaseVerdict(grade, reason) if reason else None
    [criterion] = suite.criteria
    cell = CellGrade(criterion, grade, value, value - half, value + half, {"cubic": 0.01}, 40, judged=judged)
    cell = replace(cell, place=PLACE, labels={"bottleneck.buffer": "0.25bdp"}, command="again")
    return Evaluation(suite, Candidate("mine", "mine"), (Verdict(criterion, {PLACE: cell}),), Plan(), 5)


def compare(tmp_path: Path, before: Evaluation, now: Evaluation, fail: str = WORSE) -> gates.Gate:
    """Return the gate of an evaluation after another."""
    file = write_report(tmp_path / "before.json", before)
    return gates.make_gate(now, fail, None, (file.name, read_report(file, now.suite.name)))


@pytest.mark.parametrize(
    ("value", "half", "is_worse"),
    [(0.13, 0.01, False), (0.16, 0.01, True), (0.16, 0.03, False), (0.145, 0.0, True), (0.05, 0.0, False)],
)
def test_a_figure_beyond_its_interval_is_a_regression(
    tmp_path: Path, value: float, half: float, is_worse: bool
) -> None:
    gate = compare(tmp_path, evaluate_measured(0.13, 0.01), evaluate_measured(value, half))
    assert bool(gate.figures) == is_worse and gate.status == int(is_worse)
    if is_worse:
        assert gate.figures[0].startswith("figure got worse: shallow-loss 0.25bdp: ")


def test_less_than_five_percent_is_no_regression(tmp_path: Path) -> None:
    assert not compare(tmp_path, evaluate_measured(0.13), evaluate_measured(0.136)).figures
    assert compare(tmp_path, evaluate_measured(0.13), evaluate_measured(0.137)).figures


def test_a_worse_end_is_never_known(tmp_path: Path) -> None:
    crashed = evaluate_measured(math.nan, grade=CRASHED, reason="exit 1")
    gate = compare(tmp_path, evaluate_measured(0.13, grade=FAILS), crashed)
    assert gate.status == 1 and list(gate.unexpected.values()) == ["fails → crashed: shallow-loss mine 0.25bdp: exit 1"]
    # another way to crash is no known crash
    other = evaluate_measured(math.nan, grade=HUNG, reason="the plugin hangs")
    assert compare(tmp_path, crashed, other).status == 1 and compare(tmp_path, crashed, crashed).status == 0
    known = tmp_path / "known"
    for line, expected in (("shallow-loss mine", 1), ("shallow-loss mine = crashed", 0)):
        known.write_text(line)
        gate = gates.make_gate(crashed, WORSE, gates.read_expected(known, crashed.suite, crashed.subject))
        assert gate.status == expected, line


def test_fail_says_from_which_grade_on_a_cell_is_bad(tmp_path: Path) -> None:
    good, worse = evaluate_measured(0.01, grade=NO_WORSE), evaluate_measured(0.13, grade=WORSE)
    for fail, expected in ((WORSE, 1), (FAILS, 0)):
        assert gates.make_gate(worse, fail).status == expected
    # against a report of before it is worse, whatever counts as bad
    assert compare(tmp_path, good, worse, FAILS).status == 1


def test_a_known_cell_of_a_scene_has_to_exist(tmp_path: Path) -> None:
    suite = RFC.select(["shallow-loss"])
    known, subject = tmp_path / "known", Candidate("mine", "reno")
    known.write_text("shallow-loss mine 20Mbit 0.25bdp 40ms\n")
    (entry,) = gates.read_expected(known, suite, subject, WORSE, ["mine"])
    assert entry.where == "20Mbit 0.25bdp 40ms"
    for line, said in (("shallow-loss mine 7bdp", "unknown place"), ("shallow-loss min", "unknown control")):
        known.write_text(line)
        with pytest.raises(InputError, match=said):
            gates.read_expected(known, suite, subject, WORSE, ["mine"])


SMALL = """
title = "Small"
of = "cc"
yardsticks = ["cubic"]
seeds = { quick = 2, first = 2, most = 2 }
[paragraphs]
"1" = { title = "Use" }
[measure.goodput]
title = "goodput"
unit = "Mbit/s"
sql = "SELECT key, sum(goodput_mbit) AS value FROM flows JOIN cells USING (key) GROUP BY 1"
[scene.one]
subject = ["flows[0]"]
[[criterion]]
id = "use"
answers = ["1"]
says = "It uses the link."
scene = "one"
measure = "goodput"
level = ">= 0.8 * cubic"
"""
ONE = """
duration = "3s"
[bottleneck]
rate = "10Mbit"
aqm = "pfifo"
[[flows]]
cc = "cubic"
base_rtt = "20ms"
[matrix]
"bottleneck.rate" = ["10Mbit", "2Mbit"]
"""


PLUGIN = """
class Bad:
    kind, name, title, source, by = "control", "bad", "A fault", "a test", "window"
    params = {}

    def __init__(self, params, seed, flow):
        pass

    def fail(self, conn, steer, *rest):
        raise OSError("no disk")

    init = cong_avoid = fail

    def ssthresh(self, conn, steer, by):
        return steer.ssthresh


plugin = Bad
"""


def write_small(folder: Path) -> EvaluationSuite:
    folder.mkdir()
    (folder / "suite.toml").write_text(SMALL)
    (folder / "one.toml").write_text(ONE)
    return load_suite(str(folder))


@pytest.mark.slow
def test_a_bad_cell_of_a_scene_gets_all_of_its_worst_run(tmp_path: Path, command: Command) -> None:
    write_small(tmp_path / "small")
    slow = '{ name = "constant", window = 10, rate = "4Mbit" }'
    line = ["evaluate", "cc", slow, "--suite", tmp_path / "small", "-o", tmp_path / "out.html"]
    done = command(*line, "--keep", tmp_path / "kept", "--format", "json")
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "out.html").is_file()
    (folder,) = (tmp_path / "kept").iterdir()
    assert folder.name == "use-10Mbit"
    assert {one.name for one in folder.iterdir()} == {
        *("verdict.txt", "experiment.toml", "figure.png", "qlog", "run.pcapng")
    }
    table = tomllib.loads((folder / "experiment.toml").read_text())
    assert table["bottleneck"]["rate"] == "10Mbit" and len(table["seeds"]) == 1 and "matrix" not in table
    # the kept experiment is the run that was judged: nothing is left to run
    again = command("run", folder / "experiment.toml", "-o", tmp_path / "out.duckdb", "--dry-run")
    assert again.returncode == 0 and "1 of them already in" in again.stdout


@pytest.mark.slow
def test_a_plugin_that_crashes_is_worse_than_any_measure(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_small(tmp_path / "small")
    plugin = tmp_path / "bad.py"
    plugin.write_text(PLUGIN)
    done = command("evaluate", "cc", plugin, "--suite", tmp_path / "small", "-o", tmp_path / "out", "--format", "json")
    assert done.returncode == 1, done.stderr
    (criterion,) = json.loads(done.stdout)["criteria"]
    assert criterion["grade"] == CRASHED
    assert all("OSError: no disk" in cell["reason"] for cell in criterion["cells"])
    # the command that repeats a cell trusts the folder of the plugin, and nothing else does
    trusting, program, *words = shlex.split(criterion["cells"][0]["command"])
    assert (trusting, program) == (f"DUMBBELL_TRUST={tmp_path}", "dumbbell")
    monkeypatch.setattr(trust, "_here", set())  # as in another process
    refused = command(*words, "-o", tmp_path / "again.duckdb")
    assert refused.returncode == 2 and "needs you to trust bad.py" in refused.stderr
    monkeypatch.setenv(*trusting.split("="))
    again = command(*words, "-o", tmp_path / "again.duckdb")
    assert again.returncode == 1 and "OSError: no disk" in again.stderr


def test_progress_is_a_line_every_ten_seconds_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("dumbbell.cli.evaluate_options.time.monotonic", lambda: now[0])
    progress = Progress()
    for done in range(1, 31):
        now[0] = float(done)
        progress(done, 30)
    assert capsys.readouterr().err.splitlines() == ["10 of 30 parts after 10 s", "20 of 30 parts after 20 s"]
