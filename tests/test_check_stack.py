"""`dumbbell check stack`: judges of made-up runs, reports, a comparison, and the example of a stack in C."""

import json
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from conftest import Command
from dumbbell import stacks
from dumbbell.check.stack import against, stack_report
from dumbbell.check.stack.cases import CASES, GROUPS
from dumbbell.check.stack.outcomes import LinkSeries, Outcome, StackFlow, StackRun
from dumbbell.check.stack.stack_case import CANNOT_TELL, CRASHED, DIFFERS, FAILED, PASSED, Scene, SceneOutcomes
from dumbbell.check.stack.suite import STACK, StackReport, StackResult, Subject
from dumbbell.errors import InputError
from dumbbell.evaluate import gate as ci
from dumbbell.evaluate.case_verdict import CaseVerdict, Expectation
from dumbbell.experiment.file import parse
from dumbbell.experiment.plugins import trust
from window_stack import built

GAPS = "too many gaps in stream buffer"


def times(seconds: float, interval: float = 0.1) -> np.ndarray[Any, Any]:
    return np.arange(1, round(seconds / interval) + 1) * interval


def flow(goodput: float = 19.0, silent: tuple[tuple[float, float], ...] = (), **keys: Any) -> StackFlow:
    """Make a flow up that delivers all the time but in `silent`."""
    at = times(16.0)
    rates = np.full(len(at), goodput)
    for start, end in silent:
        rates[(at > start + 1e-9) & (at <= end + 1e-9)] = 0
    given: dict[str, Any] = {"goodput": goodput, "rtt_p50": 0.05, "rtt_p95": 0.06, "sent": 1000.0}
    return StackFlow(**given | {"times": at, "rates": rates} | keys)


def outcome(*flows: StackFlow, link: LinkSeries | None = None, seed: int = 1) -> Outcome:
    return Outcome((StackRun(seed, flows, link or LinkSeries(), f"hash {seed}"),))


def scene_of(case: str, place: str = "") -> Scene:
    return next(one for one in CASES[case].scenes if place in ("", one.place))


def judged(case: str, subject: Outcome, tcp: Outcome | None = None, place: str = "") -> CaseVerdict:
    return CASES[case].judge_scene(SceneOutcomes(scene_of(case, place), subject, tcp or outcome(flow(), flow())))


@pytest.mark.parametrize("case", CASES)
def test_every_case_fails_on_a_connection_that_is_closed_and_on_a_crash(case: str) -> None:
    flows = [flow(closed="out of paper", closed_after=1.5)] * 3
    assert judged(case, outcome(*flows)).reason == "closed after 1.5 s: out of paper (the connection stays open)"
    said = judged(case, Outcome(error="the child ended by signal 11"))
    assert (said.result, said.reason) == (CRASHED, "the child ended by signal 11 (the stack runs)")


@pytest.mark.parametrize("case", [key for key, one in CASES.items() if one.tcp])
def test_nobody_can_tell_without_tcp(case: str) -> None:
    assert judged(case, outcome(flow(), flow(), flow()), Outcome(error="no")).result == CANNOT_TELL


@pytest.mark.parametrize(
    ("case", "subject", "tcp", "result"),
    [
        ("use", flow(15.3), flow(19.0), PASSED),
        ("use", flow(15.1), flow(19.0), FAILED),
        ("use", flow(19.0, rtt_p50=0.03), flow(19.0), DIFFERS),
        ("queue", flow(rtt_p95=0.07), flow(rtt_p95=0.06), PASSED),
        ("queue", flow(rtt_p95=0.08), flow(rtt_p95=0.06), FAILED),
        ("queue", flow(rtt_p95=0.04), flow(rtt_p95=0.06), DIFFERS),
        ("loss", flow(lost=49.0), flow(lost=10.0), PASSED),
        ("loss", flow(lost=51.0), flow(lost=10.0), FAILED),
        ("loss", flow(lost=80.0), flow(lost=30.0), PASSED),
        ("limited", flow(9.9, rtt_p95=0.05), flow(), PASSED),
        ("limited", flow(9.0, rtt_p95=0.05), flow(), FAILED),
        ("limited", flow(9.9, rtt_p95=0.05, lost=2.0), flow(), FAILED),
        ("limited", flow(9.9, rtt_p95=0.07), flow(), FAILED),
        ("c4-alone", flow(completion=4.9), flow(completion=4.8), PASSED),
        ("c4-alone", flow(completion=5.2), flow(completion=4.6), FAILED),
        ("c4-alone", flow(completion=5.2), flow(completion=5.1), DIFFERS),
        ("c4-alone", flow(completion=3.0), flow(completion=4.8), DIFFERS),
        ("c4-alone", flow(completion=math.nan), flow(completion=4.8), FAILED),
        ("random-loss", flow(10.0), flow(19.0), PASSED),
        ("random-loss", flow(9.0), flow(19.0), FAILED),
        ("random-loss", flow(19.0), flow(9.0), DIFFERS),
        ("random-loss", flow(silent=((3.0, 3.9),)), flow(), PASSED),
        ("random-loss", flow(silent=((3.0, 4.2),)), flow(), FAILED),
        ("random-loss", flow(silent=((3.0, 4.2),)), flow(silent=((5.0, 6.0),)), PASSED),
        ("outage", flow(silent=((4.0, 6.9),)), flow(), PASSED),
        ("outage", flow(silent=((4.0, 7.2),)), flow(), FAILED),
        ("outage", flow(silent=((4.0, 16.0),)), flow(), FAILED),
    ],
)
def test_judges_of_one_flow(case: str, subject: StackFlow, tcp: StackFlow, result: str) -> None:
    assert judged(case, outcome(subject, subject, subject), outcome(tcp, tcp, tcp)).result == result


@pytest.mark.parametrize(
    ("ours", "of_tcp", "result"),
    [
        (0.5, 0.5, PASSED),
        (0.7, 0.5, DIFFERS),
        (0.8, 0.5, FAILED),
        (0.8, 0.75, PASSED),  # as TCP's CUBIC in its place
        (0.2, 0.5, FAILED),
        (0.2, 0.25, PASSED),
    ],
)
def test_the_share_is_held_against_that_of_tcp_in_its_place(ours: float, of_tcp: float, result: str) -> None:
    subject, tcp = (outcome(flow(20 * share), flow(20 * (1 - share))) for share in (ours, of_tcp))
    assert judged("with-cubic", subject, tcp).result == result


@pytest.mark.parametrize("case", [f"with-{one}" for one in ("cubic", "bbr3", "prague", "itself")])
def test_a_fair_share_of_little_is_no_sharing(case: str) -> None:
    tcp = outcome(flow(9.5), flow(9.5))
    low = judged(case, outcome(flow(1.0), flow(1.0)), tcp)
    assert low.result == FAILED and low.reason.startswith("2 Mbit/s, TCP's CUBIC 19 (together at least 80%"), low
    assert judged(case, outcome(flow(8.0), flow(8.0)), tcp).result == PASSED


@pytest.mark.parametrize(("rates", "result"), [((10, 10), PASSED), ((16, 4), FAILED), ((7, 7), FAILED)])
def test_two_of_a_kind_share(rates: tuple[float, float], result: str) -> None:
    subject = outcome(*(flow(rate) for rate in rates))
    assert judged("with-itself", subject, outcome(flow(9.5), flow(9.5))).result == result


def link(
    seconds: float, rate: Callable[[float], float], sojourn: Callable[[float], float] = lambda _: 0.0
) -> LinkSeries:
    at = times(seconds, 0.02)
    return LinkSeries(at, np.array([rate(time) for time in at]), np.array([sojourn(time) for time in at]))


@pytest.mark.parametrize(
    ("case", "rate", "sojourn", "result"),
    [
        ("bbr-startup", lambda at: min(20 * at / 0.3, 20), lambda at: 60.0 if at < 0.5 else 5.0, PASSED),
        ("bbr-startup", lambda at: min(20 * at / 3, 20), lambda _: 0.0, FAILED),  # full after 3 s
        ("bbr-startup", lambda at: min(20 * at / 0.3, 20), lambda _: 60.0, FAILED),  # never drained
        ("bbr-probe-rtt", lambda at: 10 if 8 < at < 8.3 else 20, lambda at: 0.0 if 8.1 < at < 8.3 else 9.0, PASSED),
        ("bbr-probe-rtt", lambda at: 10 if 8 < at < 8.1 else 20, lambda at: 0.0 if 8.1 < at < 8.3 else 9.0, FAILED),
        ("bbr-probe-rtt", lambda at: 10 if 8 < at < 8.3 else 20, lambda _: 9.0, FAILED),
        ("bbr-faster", lambda at: 10 if at < 11 else 20, lambda _: 0.0, PASSED),
        ("bbr-faster", lambda at: 10 if at < 13 else 20, lambda _: 0.0, FAILED),
        ("bbr-slower", lambda _: 10, lambda at: 300.0 if 6 < at < 12 else 0.0, PASSED),
        ("bbr-slower", lambda _: 10, lambda at: 300.0 if 6 < at < 16 else 0.0, FAILED),
    ],
)
def test_what_the_wire_shows_of_bbr(
    case: str, rate: Callable[[float], float], sojourn: Callable[[float], float], result: str
) -> None:
    scene = scene_of(case)
    assert judged(case, outcome(flow(), link=link(scene.seconds, rate, sojourn))).result == result


@pytest.mark.parametrize(
    ("case", "one", "result"),
    [
        ("bbr-loss", flow(15.0), PASSED),
        ("bbr-loss", flow(13.0), FAILED),
        ("bbr-policer", flow(lost=100.0), PASSED),
        ("bbr-policer", flow(lost=200.0), FAILED),
    ],
)
def test_what_a_flow_shows_of_bbr(case: str, one: StackFlow, result: str) -> None:
    assert judged(case, outcome(one)).result == result


@pytest.mark.parametrize(("blind", "result"), [(0.0, PASSED), (0.9, PASSED), (3.0, FAILED)])
def test_a_sender_stops_without_feedback(blind: float, result: str) -> None:
    at = times(16.0)
    rates = np.where((at > 4.5) & (at <= 8), blind, 19.0)
    subject = outcome(flow(silent=((4.0, 9.0),)), link=LinkSeries(at, rates, np.zeros(len(at))))
    assert judged("no-feedback", subject).result == result


def test_a_gap_is_the_longest_time_without_delivery_that_no_outage_explains() -> None:
    assert flow().find_longest_gap(0.0) == 0
    assert flow(silent=((0.0, 2.0),)).find_longest_gap(1.5) == pytest.approx(0.5)
    assert flow(silent=((3.0, 5.0), (7.0, 7.5))).find_longest_gap(0.0) == pytest.approx(2.0)
    # 1 s of outage, and as much behind it, in which a sender may still wait for its next probe
    assert flow(silent=((3.0, 5.5),)).find_longest_gap(0.0, [(3.0, 4.0)]) == pytest.approx(0.5)
    assert StackFlow(0.0).find_longest_gap(0.0) == 0


def test_every_judge_can_fail_and_names_its_source() -> None:
    for one in CASES.values():
        assert one.source and one.limits and one.question.endswith("?") and one.group in GROUPS
        places = [scene.place for scene in one.scenes]
        assert len(set(places)) == len(places)
        for scene in one.scenes:
            assert scene.subjects, f"{one.key} {scene.place}"
            # every scene is an experiment
            cell = parse(scene.substitute_control({"cc": "cubic"}, [1]), "x").make_cell(0)
            assert cell.duration == round(scene.seconds * 1e9)


# reports, with made-up results


def result(
    case: str, place: str, verdict: str, control: str = "new-cubic", *, closed: str = "", rate: float = 9
) -> StackResult:
    flows = [
        flow(rate * (1 + seed / 1e4), closed=closed, closed_after=1.25 if closed else math.nan) for seed in (1, 2, 3)
    ]
    runs = tuple(
        StackRun(seed, (one, one, one), LinkSeries(), f"{control} {seed}")
        for seed, one in zip((1, 2, 3), flows, strict=True)
    )
    checks = (Expectation("a limit", verdict not in (FAILED,), "a figure"),)
    reason = f"closed after 1.25 s: {closed}" if closed else "a figure (a limit)" if verdict != PASSED else ""
    seen = SceneOutcomes(scene_of(case, place), Outcome(runs), Outcome(runs))
    return StackResult(case, control, place, CaseVerdict(verdict, reason, checks), seen)


FAST = ("200Mbit 100ms", "400Mbit 50ms")
BROKEN = StackReport(
    [
        result("use", "10Mbit 20ms", PASSED),
        *(result("use", place, FAILED, closed=GAPS, rate=0.5) for place in FAST),
        result("reordering", "1% 5ms", FAILED),
        result("outage", "lost 1s", DIFFERS),
    ],
    12.5,
    30,
)
BOTH = StackReport(
    [
        *BROKEN.results,
        result("use", "10Mbit 20ms", PASSED, "old-cubic"),
        *(result("use", place, DIFFERS, "old-cubic", rate=90) for place in FAST),
        result("reordering", "1% 5ms", FAILED, "old-cubic"),
        result("outage", "lost 1s", FAILED, "old-cubic"),
    ],
    12.5,
    60,
)


def test_the_first_lines_name_closed_connections_in_the_stacks_words() -> None:
    first, second = stack_report.format_report(BROKEN).splitlines()[:2]
    assert first == f'new-cubic closes the connection in 2 cells of 5: "{GAPS}"'
    assert second == "    use: 200Mbit 100ms (after 1.2 s), 400Mbit 50ms (after 1.2 s)"
    text = stack_report.format_report(BROKEN)
    assert "  reordering, a limit: 1% 5ms: a figure" in text
    assert "new-cubic: 5 verdicts: 1 passed, 1 differs from TCP, 3 failed" in text
    assert GAPS in stack_report.format_markdown(BROKEN).partition("| case |")[0]
    whole = StackReport([result("use", "10Mbit 20ms", PASSED)], 1.0, 1)
    assert stack_report.format_report(whole).startswith("new-cubic keeps every connection open in 1 cell.\n")


def test_a_connection_that_closes_for_some_seeds_is_counted() -> None:
    one = result("use", FAST[0], FAILED, closed=GAPS)
    runs = [replace(run, flows=(flow(),) * 3) if run.seed == 2 else run for run in one.seen.subject.runs]
    some = replace(one, seen=replace(one.seen, subject=Outcome(tuple(runs))))
    assert "(after 1.2 s, 2 of 3 connections)" in stack_report.format_report(StackReport([some], 1.0, 3))


def test_a_crash_is_in_the_first_lines() -> None:
    one = result("use", FAST[0], FAILED)
    crash = replace(one, seen=replace(one.seen, subject=Outcome(error="the child ended by signal 6")))
    assert "new-cubic fails in 1 cell of 1: the child ended by signal 6" in stack_report.format_report(
        StackReport([crash], 1.0, 3)
    )


def test_the_status_and_what_others_read(tmp_path: Path) -> None:
    gate = ci.make_gate(BROKEN, STACK, None, None)
    assert ci.find_status(BROKEN, gate, STACK) == 1
    good = StackReport([one for one in BROKEN.results if one.verdict.result != FAILED], 1.0, 1)
    assert ci.find_status(good, ci.gate_failures(good, STACK), STACK) == 0
    unknown = StackReport([result("use", FAST[0], CANNOT_TELL)], 1.0, 1)
    assert ci.find_status(unknown, ci.gate_failures(unknown, STACK), STACK) == 3
    root = ElementTree.fromstring(ci.format_junit(BROKEN, gate, STACK))
    assert (root[0].attrib["name"], root[0].attrib["failures"]) == ("stack new-cubic", "3")
    assert [line.partition("::")[0] or line[:7] for line in ci.list_annotations(BROKEN, gate, STACK)] == [
        "::error",
        "::error",
    ]
    (tmp_path / "before.json").write_text(stack_report.to_json(BROKEN))
    before = ci.read_report(tmp_path / "before.json", STACK)
    assert not ci.make_gate(BROKEN, STACK, None, before).failed
    worse = StackReport([result("use", "10Mbit 20ms", FAILED)], 1.0, 1)
    assert list(ci.make_gate(worse, STACK, None, before).unexpected.values()) == [
        "passed → failed: use new-cubic 10Mbit 20ms: a figure (a limit)"
    ]


@pytest.mark.parametrize(
    ("lines", "failed"),
    [
        ("use new-cubic\nreordering new-cubic 1% 5ms", False),
        ("use new-cubic 200Mbit 100ms\nuse new-cubic 400Mbit 50ms\nreordering new-cubic", False),
        ("use new-cubic 200Mbit 100ms\nreordering new-cubic", True),
        ("use new-cubic\nreordering new-cubic\noutage new-cubic", True),
    ],
)
def test_known_failures_have_case_control_and_place(tmp_path: Path, lines: str, failed: bool) -> None:
    (tmp_path / "known").write_text(lines)
    assert ci.gate_by_expected(BROKEN, ci.read_expected(tmp_path / "known", STACK), STACK).failed == failed


def test_a_wrong_case_of_known_failures_is_named(tmp_path: Path) -> None:
    (tmp_path / "known").write_text("uze new-cubic")
    with pytest.raises(InputError, match="line 1: unknown case"):
        ci.read_expected(tmp_path / "known", STACK)


def test_a_comparison_says_the_regression_first() -> None:
    changed = against.find_changed_verdicts(BOTH, "new-cubic", "old-cubic")
    assert (
        changed.describe_changes("new-cubic", "old-cubic")
        == "new-cubic is worse than old-cubic in 2 verdicts, better in 1."
    )
    assert changed.to_lines() == [
        "worse: use: differs from TCP → failed: 200Mbit 100ms; 400Mbit 50ms",
        "better: outage: failed → differs from TCP: lost 1s (a figure (a limit))",
    ]
    first = stack_report.list_headlines(BOTH, "new-cubic", "old-cubic")[0]
    assert first == f'new-cubic closes the connection in 2 cells of 5, old-cubic in none of these: "{GAPS}"'
    gate = against.gate_against(BOTH, "new-cubic", "old-cubic")
    assert ci.find_status(BOTH.select_control("new-cubic"), gate, STACK) == 1
    gate = against.gate_against(BOTH, "old-cubic", "new-cubic")
    assert len(gate.unexpected) == 1  # the outage
    same = against.find_changed_verdicts(BROKEN, "new-cubic", "new-cubic")
    assert same.describe_changes("a", "b") == "a is in no verdict worse or better than b."


def test_figures_are_held_against_each_other_seed_by_seed() -> None:
    subjects = [Subject(name, "cubic", {}) for name in ("new-cubic", "old-cubic")]
    found = against.compare_controls(BOTH, *subjects)
    assert found is not None
    rows = against.list_differences(found)
    assert {(row["where"], row["measure"]) for row in rows} == {(f"use, {place}", "goodput_mbit") for place in FAST}
    assert all(row["n"] == 3 and row["difference"] < -89 for row in rows)
    assert "use, 200Mbit 100ms" in against.format_differences(found)
    assert against.compare_controls(StackReport([], 0.0), *subjects) is None


# the example of a stack in C


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))


def test_the_cases_are_listed_with_limits_and_sources(command: Command) -> None:
    said = command("check", "stack", "--list")
    assert said.returncode == 0 and said.stdout == command("check", "stack", "any", "--list").stdout
    for key, one in CASES.items():
        assert f"  {key}: {one.question}" in said.stdout and f"[{one.source}]" in said.stdout
    said = command("check", "stack", "any", "--list", "--case", "bbr")
    assert "bbr-startup" in said.stdout and "c4-alone" not in said.stdout


@pytest.mark.slow
def test_every_scene_is_an_experiment_of_a_stack_and_tcp_in_its_place_asks_for_ecn(tmp_path: Path) -> None:
    stack = {"stack": {"plugin": str(built(tmp_path))}}
    trust.trust(tmp_path)
    for one in CASES.values():
        for scene in one.scenes:
            groups = parse(scene.substitute_control(stack, [1]), "x").make_cell(0).groups
            assert {groups["flows"][number]["cc"]["name"] for number in scene.subjects} == {"window-aimd"}
            assert groups["hosts"]["ecn"] == (len(scene.subjects) < len(groups["flows"]))
            assert parse(scene.substitute_control({"cc": "cubic"}, [1]), "x").make_cell(0).groups["hosts"]["ecn"]


@pytest.mark.slow
def test_the_example_is_judged(tmp_path: Path, command: Command) -> None:
    line = ["check", "stack", built(tmp_path), "--case", "jitter", "--case", "far-and-slow", "--seeds", "1"]
    said = command(*line, "--junit", tmp_path / "out.xml", "--github")
    assert said.stdout.startswith("window-aimd keeps every connection open in 6 cells.\n"), said.stderr
    assert "window-aimd: 6 verdicts: " in said.stdout
    counted = ElementTree.parse(tmp_path / "out.xml").getroot()[0].attrib
    assert said.returncode == (1 if int(counted["failures"]) else 0) and counted["tests"] == "6"
    whole = json.loads(command(*line, "--format", "json", "--jobs", "1").stdout)
    again = json.loads(command(*line, "--format", "json", "--jobs", "2").stdout)
    assert whole["results"] == again["results"]
    fixed = command(*line[:3], "--case", "loss", "--seeds", "1", "--cc", "fixed", "--set", "initial=400")
    assert fixed.returncode == 1 and "window-fixed, failed:\n  loss, at most" in fixed.stdout


@pytest.mark.parametrize(
    ("fault", "first"),
    [
        ("closes", 'window-aimd closes the connection in 1 cell of 1: "out of paper"'),
        ("crashes", "window-aimd fails in 1 cell of 1: "),
    ],
)
def test_a_stack_that_closes_or_crashes_fails_in_the_first_line(
    tmp_path: Path, command: Command, fault: str, first: str
) -> None:
    file = built(tmp_path, fault=fault)
    said = command("check", "stack", file, "--case", "path-change", "--seeds", "1")
    assert said.returncode == 1
    assert said.stdout.startswith(first) or first in said.stdout.splitlines()[1], said.stdout + said.stderr


@pytest.mark.slow
def test_two_versions_are_held_against_each_other(tmp_path: Path, command: Command) -> None:
    good, bad = built(tmp_path, "old"), built(tmp_path, "new", "closes")
    line = ["check", "stack", bad, "--against", good, "--case", "path-change", "--seeds", "2"]
    said = command(*line)
    assert said.returncode == 1
    first, second = said.stdout.splitlines()[:2]
    assert first == "new-aimd is worse than old-aimd in 1 verdict, better in 0."
    assert second == 'new-aimd closes the connection in 1 cell of 1, old-aimd in none of these: "out of paper"'
    slow = command("check", "stack", built(tmp_path, "slow", "slow"), "--against", good, "--case", "rate-steps")
    assert re.search(r"\| rate-steps, 4s +\| goodput, Mbit/s", slow.stdout), slow.stdout
    assert command("check", "stack", good, "--against", bad, *line[5:], "--format", "markdown").returncode == 0
    # a control of another name, also of the same stack
    said = command("check", "stack", good, "--against", good, "--against-cc", "fixed", "--case", "limited")
    assert said.stdout.startswith("old-aimd is worse than old-fixed in 0 verdicts, better in 2."), said.stdout


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--case", "c5"], 'check: --case: unknown case "c5"; did you mean "c4"?'),
        (["--cc", "vegas"], 'check: --cc is "vegas"; it must be aimd or fixed'),
        (["--set", "initial"], 'check: --set is "initial"; it must be KEY=VALUE'),
        (["--set", "initial=0"], "check: --set: initial is 0"),
        (["--set", "nothing=1"], "check: --set: unknown key nothing"),
        (["--window", "1x"], 'check: --window is "1x"'),
        (["--against", "window.so"], 'check: --against is "window.so"; it must be another stack'),
        (["--against", "x.so", "--known", "x"], "check: --against and --known cannot be combined"),
        (["--against-cc", "fixed"], "check stack: --against is missing; give the stack"),
        (["--against", "window.so", "--against-cc", "reno"], 'check: --against-cc is "reno"; it must be aimd or fixed'),
        (["--format", "json", "--github"], "check: --github and --format json cannot be combined"),
    ],
)
def test_mistakes_get_one_line_and_status_2(tmp_path: Path, command: Command, options: list[str], found: str) -> None:
    built(tmp_path)
    said = command("check", "stack", "window.so", *options)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert said.stderr.startswith(found)


def test_a_stack_is_needed_unless_cases_are_listed(command: Command) -> None:
    said = command("check", "stack", "--case", "use")
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert said.stderr.startswith("check stack: NAME is missing; give a stack of dumbbell stack list")


# stacks that are built


def real(name: str) -> str:
    """Return the name of a stack; skips the test if it is not built."""
    try:
        if stacks.find_library(name).is_file():
            return name
    except InputError:
        pass
    pytest.skip(f"{name} is not built (dumbbell stack build quinn --version {name.partition('-')[2]})")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_known_regression_of_quinn_is_in_the_first_lines(command: Command) -> None:
    new, old = real("quinn-0.11.19"), real("quinn-0.11.16")
    said = command("check", "stack", new, "--against", old, "--case", "use", "--case", "jitter", "--seeds", "2")
    assert said.returncode == 1, said.stderr
    first, second, third = said.stdout.splitlines()[:3]
    assert first == "quinn-0.11.19-cubic is worse than quinn-0.11.16-cubic in 3 verdicts, better in 0."
    assert second.startswith("quinn-0.11.19-cubic closes the connection in 3 cells of 11, quinn-0.11.16-cubic in none")
    assert GAPS in second and third.startswith("    use: 200Mbit 100ms (after 1.4 s), 400Mbit 50ms")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_windows_of_its_own_keep_quinn_from_the_failure(command: Command) -> None:
    said = command("check", "stack", real("quinn-0.11.19"), "--case", "use", "--seeds", "1", "--window", "own")
    assert said.stdout.startswith("quinn-0.11.19-cubic keeps every connection open"), said.stderr


# the workflow that the page shows

WORKFLOW = Path(__file__).parent.parent / "docs" / "how-to" / "check-stack.yml"
# stands for the program: stacks are the example in C, and a few cases are judged
STANDS_FOR_DUMBBELL = """\
import json, os, pathlib, sys
words = sys.argv[1:]
made = pathlib.Path(os.environ["MADE"])
if words[:2] == ["stack", "build"]:
    name = words[words.index("--name") + 1] if "--name" in words else f"quinn-{words[words.index('--version') + 1]}"
    (made / "built").open("a").write(name + "\\n")
    sys.exit()
names = (made / "built").read_text().split()
words = [str(made / f"{one}.so") if one in names else one for one in words]
few = ["--case", "jitter", "--case", "path-change", "--seeds", "1"]
os.execv(sys.executable, [sys.executable, "-m", "dumbbell", *words, *few])
"""


@pytest.mark.slow
@pytest.mark.parametrize("known", ["", "path-change here-aimd\njitter here-aimd\n"])
def test_the_steps_of_the_example_workflow_run(tmp_path: Path, known: str) -> None:
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["check"]
    variables = yaml.safe_load(WORKFLOW.read_text())["env"]
    built(tmp_path, "here", "closes").rename(tmp_path / "quinn-here.so")
    built(tmp_path, "release").rename(tmp_path / f"quinn-{variables['GOOD']}.so")
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github" / "congestion-known").write_text(known)
    program = tmp_path / "program.py"
    program.write_text(STANDS_FOR_DUMBBELL)
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, line in (("dumbbell", f'exec {sys.executable} {program} "$@"'), ("pip", "echo pip $*")):
        (commands / name).write_text(f"#!/bin/sh\n{line}\n")
        (commands / name).chmod(0o755)
    summary = tmp_path / "summary.md"
    python = str(WORKFLOW.parent.parent.parent / "python")
    given = os.environ | {name: str(value) for name, value in variables.items()}
    given |= {"MADE": str(tmp_path), "GITHUB_STEP_SUMMARY": str(summary), "PATH": f"{commands}:{os.environ['PATH']}"}
    given["PYTHONPATH"] = os.pathsep.join(filter(None, [python, os.environ.get("PYTHONPATH")]))
    ended = {}
    for step in job["steps"]:
        if "run" in step:
            # as the runner does: bash -e {0}
            shell = ["bash", "-e", "-c", step["run"]]
            done = subprocess.run(
                shell, cwd=tmp_path, env=given, capture_output=True, text=True, check=False, timeout=100
            )
            ended[step["name"]] = done
    assert [done.returncode for done in ended.values()] == [0, 0, 0 if known else 1, 1], ended
    judged = ended["Judge it"].stdout
    assert judged.startswith('here-aimd closes the connection in 5 cells of 5: "out of paper"')
    assert ("::error title=" in judged) == (not known)
    assert ElementTree.parse(tmp_path / "congestion.xml").getroot()[0].attrib["tests"] == "5"
    assert summary.read_text().startswith("here-aimd is worse than release-aimd in 5 verdicts, better in 0.\n")
    for step in job["steps"]:
        assert "run" in step or step["uses"].startswith("actions/")


def test_the_page_has_the_cases_as_they_are() -> None:
    page = (WORKFLOW.parent.parent / "check-stack.md").read_text()
    made = stack_report.format_cases(list(CASES))
    said = "dumbbell check stack NAME --list --format markdown makes the table of docs/check-stack.md"
    assert page.partition("<!-- table cases -->")[2].partition("<!-- end -->")[0].strip() == made, said
