"""`dumbbell check bbr` in continuous integration: status, expected failures, a report of before, JUnit, annotations."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from conftest import Command
from dumbbell.check import bbr_report, ci
from dumbbell.check.case import CANNOT_TELL, CONSTANT, FAILED, NOT_APPLICABLE, PASSED, CaseVerdict, Expectation
from dumbbell.check.lab import PathPoint
from dumbbell.check.suite import BbrReport, BbrResult
from dumbbell.cli.check_output import Progress
from dumbbell.errors import InputError

HERE, THERE = PathPoint(10_000_000, 0.02), PathPoint(1_000_000, 0.1)


def result(case: str, found: str, point: PathPoint = HERE, control: str = "bbr3") -> BbrResult:
    checks = (Expectation("it \x01 holds", found == PASSED, "5 < 6 & 7"),)
    return BbrResult(case, control, point, CaseVerdict(found, f"because {found}", checks))


def make_report(*results: BbrResult) -> BbrReport:
    return BbrReport(list(results), 1.25)


MIXED = make_report(
    result("drain-time", FAILED),
    result("drain-time", NOT_APPLICABLE, THERE),
    result("startup-plateau", PASSED),
    result("rate-up", CONSTANT),
)


def status(report: BbrReport, gate: ci.Gate | None = None) -> int:
    return ci.find_status(report, gate or ci.gate_failures(report))


def test_the_status_says_whether_anything_was_judged() -> None:
    assert status(MIXED) == 1
    assert status(make_report(result("rate-up", PASSED), result("rate-down", NOT_APPLICABLE))) == 0
    assert status(make_report(result("rate-up", CONSTANT))) == 0
    assert status(make_report(result("rate-up", NOT_APPLICABLE))) == 3
    assert status(make_report()) == 3
    assert status(make_report(result("rate-up", PASSED), result("rate-down", CANNOT_TELL))) == 3
    assert status(make_report(result("rate-up", FAILED), result("rate-down", CANNOT_TELL))) == 1


def test_a_control_to_which_no_case_applies_leaves_with_3(command: Command) -> None:
    said = command("check", "bbr", "--cc", "reno", "--rate", "10Mbit", "--rtt", "20ms")
    assert said.returncode == 3
    assert "reno: nothing could be judged: the control reports no states" in said.stdout
    assert "23 verdicts in " in said.stdout and "Notes on cases" not in said.stdout


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("4 bbr3", []),
        ("# all of it\ndrain-time bbr3 # known\n", []),
        ("4 bbr3 10Mbit 20ms", []),
        ("", ["new failure: 4 bbr3 10Mbit 20ms: because failed"]),
        ("4 bbr2", ["new failure: 4 bbr3 10Mbit 20ms: because failed"]),
        ("4 bbr3 10Mbit 40ms", ["new failure: 4 bbr3 10Mbit 20ms: because failed"]),
        ("4 bbr3\n1 bbr3", ["expected to fail, but passed: known line 2: 1 bbr3"]),
        ("4 bbr3\n15 bbr3 10Mbit 20ms", ["expected to fail, but constant: known line 2: 15 bbr3 10Mbit 20ms"]),
    ],
)
def test_known_failures_fail_when_they_are_new_and_when_they_pass(
    tmp_path: Path, lines: str, expected: list[str]
) -> None:
    file = tmp_path / "known"
    file.write_text(lines)
    gate = ci.gate_by_expected(MIXED, ci.read_expected(file))
    assert [*gate.unexpected.values(), *gate.failures] == expected
    assert status(MIXED, gate) == (1 if expected else 0)


def test_a_known_failure_that_does_not_apply_is_said_and_does_not_fail(tmp_path: Path) -> None:
    file = tmp_path / "known"
    file.write_text("4 bbr3 10Mbit 20ms\n4 bbr3 1Mbit 100ms\n18 bbr3\n")
    gate = ci.gate_by_expected(MIXED, ci.read_expected(file))
    assert not gate.failed
    assert gate.to_lines() == ["expected to fail, not applicable: known line 2: 4 bbr3 1Mbit 100ms"]


@pytest.mark.parametrize("line", ["23 bbr3", "4", "4 10Mbit", "nonsense x"])
def test_a_wrong_line_of_known_failures_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "known"
    file.write_text(f"# comment\n{line}\n")
    if line == "4 10Mbit":  # a control of this name is not there: the line is of no use, and the failure is new
        assert ci.gate_by_expected(MIXED, ci.read_expected(file)).failed
        return
    with pytest.raises(InputError, match="line 2"):
        ci.gate_by_expected(MIXED, ci.read_expected(file))


def test_a_baseline_fails_on_what_got_worse_alone(tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    file.write_text(bbr_report.to_json(MIXED))
    assert status(MIXED, ci.gate_by_report(MIXED, ci.read_report(file))) == 0
    worse = make_report(
        result("drain-time", FAILED), result("startup-plateau", CONSTANT), result("rate-up", CANNOT_TELL)
    )
    gate = ci.gate_by_report(worse, ci.read_report(file))
    assert [line.partition(": because")[0] for line in gate.unexpected.values()] == [
        "passed → constant: 1 bbr3 10Mbit 20ms",
        "constant → cannot tell: 15 bbr3 10Mbit 20ms",
    ]
    assert status(worse, gate) == 1
    better = make_report(result("drain-time", PASSED), result("startup-plateau", PASSED), result("rate-up", CONSTANT))
    gate = ci.gate_by_report(better, ci.read_report(file))
    assert gate.to_lines() == ["failed → passed: 4 bbr3 10Mbit 20ms", "1 results of before.json were not looked at"]
    assert status(better, gate) == 0
    unknown = make_report(result("drain-time", CANNOT_TELL), result("startup-plateau", PASSED))
    file.write_text(bbr_report.to_json(unknown))
    assert status(unknown, ci.gate_by_report(unknown, ci.read_report(file))) == 0
    new = make_report(*unknown.results, result("rate-up", FAILED))
    assert "failed, not in before.json: 15 bbr3" in next(
        iter(ci.gate_by_report(new, ci.read_report(file)).unexpected.values())
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"results": 5}', '{"results": [{"case": 1}]}', "\ud7ff{", "[" * 9999]
)
def test_a_baseline_that_is_no_report_gets_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "before.json"
    file.write_text(text)
    with pytest.raises(InputError, match="not a report"):
        ci.read_report(file)


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
    file.write_text("4 bbr3\n1 bbr3")
    cases = make_report(
        *MIXED.results, result("rate-down", CANNOT_TELL), result("rate-down", FAILED, control="bbr \x02<1>")
    )
    root = ElementTree.fromstring(ci.format_junit(cases, ci.gate_by_expected(cases, ci.read_expected(file))))

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
        ("bbr bbr3", "0"),
        ("bbr bbr ?<1>", "1"),
        ("expected failures", "1"),
    ]
    messages = [one.attrib["message"] for one in root.iter("skipped")]
    assert "expected: failed: because failed" in messages and "cannot tell: because cannot tell" in messages


def test_annotations_are_one_a_case_and_control_and_escaped() -> None:
    cases = make_report(
        result("drain-time", FAILED), result("drain-time", FAILED, THERE), result("rate-up", CANNOT_TELL)
    )
    assert ci.list_annotations(cases, ci.gate_failures(cases)) == [
        "::error title=4. Exiting DRAIN Based on Time%2C bbr3::failed: 4 bbr3 10Mbit 20ms: because failed (and 1 more)",
        "::warning title=15. Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached%2C bbr3::"
        "cannot tell: 15 bbr3 10Mbit 20ms: because cannot tell",
    ]


def test_the_options_work_together(tmp_path: Path, command: Command) -> None:
    point = ["--cc", "bbr3", "--rate", "10Mbit", "--rtt", "20ms", "--case", "4", "--case", "1"]
    plain = command("check", "bbr", *point, "--format", "json")
    assert plain.returncode == 1
    before, known, xml = tmp_path / "before.json", tmp_path / "known", tmp_path / "junit.xml"
    before.write_text(plain.stdout)
    said = command("check", "bbr", *point, "--baseline", before, "--junit", xml, "--github")
    assert said.returncode == 0 and "nothing differs from" in said.stdout and "::error" not in said.stdout
    assert ElementTree.parse(xml).getroot()[0].attrib["failures"] == "0"
    known.write_text("4 bbr3\n")
    assert command("check", "bbr", *point, "--known", known, "--format", "markdown").returncode == 0
    known.write_text("1 bbr3\n")
    said = command("check", "bbr", *point, "--known", known, "--format", "json", "--junit", xml)
    assert said.returncode == 1
    assert len(json.loads(said.stdout)["gate"]["unexpected"]) == 2
    assert [one.attrib["failures"] for one in ElementTree.parse(xml).getroot()] == ["1", "1"]
    assert command("check", "bbr", *point, "--github").stdout.splitlines()[-1].startswith("::error title=4.")


def test_progress_is_a_line_every_ten_seconds_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("dumbbell.cli.check_output.time.monotonic", lambda: now[0])
    progress = Progress()
    for done in range(1, 31):
        now[0] = float(done)
        progress(done, 30)
    assert capsys.readouterr().err.splitlines() == ["10 of 30 parts after 10 s", "20 of 30 parts after 20 s"]
