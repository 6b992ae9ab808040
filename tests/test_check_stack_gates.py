"""What fails `dumbbell check stack` in continuous integration: worse results, other reasons and worse figures."""

import json
import shlex
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from conftest import Command
from dumbbell.check.stack import against, stack_report
from dumbbell.check.stack.cases import CASES
from dumbbell.check.stack.outcomes import Outcome, StackFlow, StackRun
from dumbbell.check.stack.stack_case import CLOSED, CRASHED, DIFFERS, FAILED, HUNG, PASSED, SceneOutcomes
from dumbbell.check.stack.suite import STACK, StackReport, StackResult
from dumbbell.evaluate import gate as ci
from dumbbell.evaluate.case_verdict import CaseVerdict, Expectation
from window_stack import CRATE, SOURCE, built

PLACE = "100Mbit 20ms"


def result(found: str, what: str = "a limit of 5%", said: str = "6%", goodput: float = 9.0, **keys: Any) -> StackResult:
    scene = next(one for one in CASES["use"].scenes if one.place == PLACE)
    runs = tuple(
        StackRun(
            seed,
            (StackFlow(goodput + seed / 100, rtt_p50=0.05, rtt_p95=0.06, sent=1000.0, **keys),),
            hash=f"{goodput}{seed}",
        )
        for seed in range(1, 6)
    )
    checks = (Expectation(what, found in (PASSED, DIFFERS), said),)
    reason = "" if found == PASSED else f"{said} ({what})"
    return StackResult(
        "use", "one-cubic", PLACE, CaseVerdict(found, reason, checks), SceneOutcomes(scene, Outcome(runs), Outcome())
    )


def make_report(one: StackResult) -> StackReport:
    return StackReport([one], 1.0, 5)


def after(tmp_path: Path, before: StackResult, now: StackResult) -> list[str]:
    """Return what a baseline of one result says of another."""
    path = tmp_path / "before.json"
    path.write_text(stack_report.to_json(make_report(before)))
    gate = ci.make_gate(make_report(now), STACK, None, ci.read_report(path, STACK))
    gate.figures += against.list_worse_figures(against.compare_with_report(path, make_report(now), "one-cubic"))
    return [*gate.unexpected.values(), *gate.failures, *gate.figures]


WORSE = [
    (CLOSED, "closed after 1.4 s: gaps", f"failed → closed: use one-cubic {PLACE}: closed after 1.4 s: gaps"),
    (CRASHED, "the plugin crashed (SIGSEGV)", "failed → crashed: "),
    (HUNG, "the plugin hangs: nothing happened for 60 s", "failed → hung: "),
]


@pytest.mark.parametrize(("found", "said", "line"), WORSE)
def test_a_known_failure_hides_no_worse_one(found: str, said: str, line: str, tmp_path: Path) -> None:
    old, now = result(FAILED), result(found, "the stack runs", said)
    (told,) = after(tmp_path, old, now)
    assert told.startswith(line)
    assert after(tmp_path, now, now) == [] and after(tmp_path, now, old) == []
    # what is expected is at the worst what the line says
    known = tmp_path / "known"
    for text, most in (
        ("use one-cubic", CLOSED),
        ("use one-cubic = failed", FAILED),
        (f"use one-cubic = {found}", found),
    ):
        known.write_text(text)
        gate = ci.gate_by_expected(make_report(now), ci.read_expected(known, STACK), STACK)
        is_expected = STACK.rank[found] <= STACK.rank[most]
        assert (gate.unexpected == {}) == is_expected
        assert is_expected or next(iter(gate.unexpected.values())).startswith(f"{most} is expected, {found}: use")
    assert ci.find_status(make_report(now), ci.gate_failures(make_report(now), STACK), STACK) == 1


def test_the_same_failure_by_another_limit_is_a_change(tmp_path: Path) -> None:
    old = result(FAILED, "at least 80% of the goodput", "70 Mbit/s")
    assert after(tmp_path, old, result(FAILED, "at least 80% of the goodput", "71 Mbit/s")) == []
    # a limit that depends on the run is the same limit
    assert after(tmp_path, old, result(FAILED, "at least 81.5% of the goodput", "70 Mbit/s")) == []
    (told,) = after(tmp_path, old, result(FAILED, "at most 5% of the packets lost", "9%"))
    assert told == f"failed by another limit: use one-cubic {PLACE}: 9% (at most 5% of the packets lost)"
    gone, worn = (
        result(CLOSED, "the connection stays open", f"closed after {text}") for text in ("1 s: gaps", "2 s: full")
    )
    assert after(tmp_path, gone, result(CLOSED, "the connection stays open", "closed after 7 s: gaps")) == []
    (told,) = after(tmp_path, gone, worn)
    assert told.startswith("closed by another limit: ")


def test_a_figure_that_gets_worse_fails_and_one_that_gets_better_does_not(tmp_path: Path) -> None:
    old = result(PASSED)
    assert after(tmp_path, old, old) == [] and after(tmp_path, old, result(PASSED, goodput=9.9)) == []
    (told,) = after(tmp_path, old, result(PASSED, goodput=8.0))
    assert told == f"figure got worse: use, {PLACE}: goodput_mbit: 9.03 → 8.03, -1 ± 0, n = 5"
    # by less than a twentieth it is no reason to fail
    assert after(tmp_path, old, result(PASSED, goodput=8.9)) == []
    # other runs, and the same figures within their spread
    noisy = result(PASSED)
    runs = tuple(
        replace(one, flows=(replace(one.flows[0], goodput=9 + (-1) ** one.seed),)) for one in noisy.seen.subject.runs
    )
    assert after(tmp_path, old, replace(noisy, seen=replace(noisy.seen, subject=Outcome(runs)))) == []
    late = result(PASSED, lost=400.0)
    (told,) = after(tmp_path, result(PASSED, lost=20.0), late)
    assert ": drops: 20 → 400" in told


def test_junit_has_times_of_cases_and_figures_that_got_worse(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text(stack_report.to_json(make_report(result(PASSED))))
    now = result(PASSED, goodput=8.0)
    runs = tuple(replace(one, seconds=0.25) for one in now.seen.subject.runs)
    found = make_report(replace(now, seen=replace(now.seen, subject=Outcome(runs))))
    gate = ci.make_gate(found, STACK, None, ci.read_report(path, STACK))
    gate.figures += against.list_worse_figures(against.compare_with_report(path, found, "one-cubic"))
    cases, figures = ElementTree.fromstring(ci.format_junit(found, gate, STACK))
    assert cases[0].attrib["time"] == "1.250" and len(cases[0]) == 0
    assert figures.attrib["name"] == "figures" and figures.attrib["failures"] == "1"
    assert figures[0][0].attrib["type"] == "worse" and "goodput_mbit: 9.03 → 8.03" in figures[0][0].attrib["message"]
    assert ci.find_status(found, gate, STACK) == 1 and "figure got worse" in ci.list_annotations(found, gate, STACK)[0]


def test_failures_that_are_expected_say_so(tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("use one-cubic")
    found = make_report(result(FAILED))
    gate = ci.gate_by_expected(found, ci.read_expected(known, STACK), STACK)
    for text in (
        stack_report.format_report(found, expected=gate.expected),
        stack_report.format_markdown(found, expected=gate.expected),
    ):
        assert f"use, a limit of 5%: {PLACE} (expected): 6%" in text and "1 failed (1 expected)" in text
    assert "expected" not in stack_report.format_report(found)


def test_entries_of_what_does_not_exist_are_refused(tmp_path: Path, command: Command) -> None:
    library = built(tmp_path)
    for line, said in [
        (f"use window-aimd {PLACE}\n", ""),
        (
            "use window-aimd 100Mbit 21ms\n",
            'known: line 1: unknown place of use "100Mbit 21ms"; did you mean "100Mbit 20ms"?',
        ),
        ("use window-amid\n", 'known: line 1: unknown control "window-amid"; did you mean "window-aimd"?'),
        (
            "use window-aimd = broken\n",
            'known: line 1: unknown result "broken"; choose from failed, closed, crashed, hung',
        ),
    ]:
        (tmp_path / "known").write_text(line)
        done = command("check", "stack", library, "--case", "limited", "--seeds", "1", "--known", tmp_path / "known")
        if said:
            assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and said in done.stderr, done.stderr
        else:
            assert done.returncode in (0, 1) and not done.stderr, done.stderr


# losses on the wire

FLOOD = [  # what a stack tells of its losses, and the column believed_lost
    ("to->lost = self->lost;", "told"),
    ("to->lost = 0;", "none"),
    ("to->lost = UINT64_MAX;", "missing"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("line", "believed"), FLOOD)
def test_losses_are_those_of_the_wire_whatever_a_stack_says(
    line: str, believed: str, tmp_path: Path, command: Command
) -> None:
    # a window that never falls, of 300 packets for three flows in a short queue
    source = SOURCE
    for before, after_ in (("to->lost = self->lost;", line), ("DUMBBELL_INT, 10, 1", "DUMBBELL_INT, 300, 1")):
        assert before in source
        source = source.replace(before, after_)
    (tmp_path / "flood.c").write_text(source)
    library = tmp_path / "flood.so"
    words = ["cc", "-std=c11", "-w", "-O1", "-shared", "-fPIC", "-I", str(CRATE / "include"), str(tmp_path / "flood.c")]
    subprocess.run([*words, "-o", str(library)], check=True)
    done = command("check", "stack", library, "--cc", "fixed", "--case", "loss", "--seeds", "1", "--format", "json")
    assert done.returncode == 1, done.stderr
    for one in json.loads(done.stdout)["results"]:
        assert one["result"] == FAILED
        for flow in one["runs"][0]["flows"]:
            assert flow["lost"] > 0.2 * flow["sent"]
            told = flow["believed_lost"]
            assert {"told": told is not None and told > 0, "none": told == 0, "missing": told is None}[believed], told
    text = command("check", "stack", library, "--cc", "fixed", "--case", "loss", "--seeds", "1").stdout
    assert ("(0.0% believed)" in text) == (believed == "none") and ("believed" in text) == (believed != "missing")


def test_what_a_stack_believes_is_told_if_it_is_far_from_what_happened() -> None:
    scene = CASES["loss"].scenes[0]
    flows = [
        replace(StackFlow(9.0, sent=1000.0, lost=30.0), believed=believed) for believed in (0.0, 31.0, float("nan"))
    ]
    found = []
    for one in flows:
        outcome = Outcome((StackRun(1, (one,) * 3),))
        found.append(CASES["loss"].judge_scene(SceneOutcomes(scene, outcome, outcome)))
    assert [one.result for one in found] == [DIFFERS, PASSED, PASSED]
    assert found[0].reason == "it took 0 packets for lost, and 90 were lost"


# from a verdict to its run


@pytest.mark.slow
def test_the_runs_of_what_fails_are_kept_and_can_be_repeated(tmp_path: Path, command: Command) -> None:
    library = built(tmp_path, fault="closes")
    words = ("check", "stack", str(library), "--case", "loss", "--place", "20Mbit 40ms 0.25BDP", "--seeds", "2")
    done = command(*words)
    assert done.returncode == 1, done.stderr
    # the command that repeats it is printed with the verdict
    again = next(line.strip() for line in done.stdout.splitlines() if line.strip().startswith("dumbbell check stack"))
    asked = shlex.split(again)
    assert asked[1:4] == ["check", "stack", str(library)] and asked[-2:] == ["--keep", "kept"]
    assert asked[asked.index("--place") + 1] == "20Mbit 40ms 0.25BDP" and asked[asked.index("--seeds") + 1] == "2"
    repeated = command(*asked[1:])
    assert repeated.returncode == 1 and "kept: the runs of 1 cell that failed" in repeated.stderr, repeated.stderr
    (folder,) = (tmp_path / "kept").iterdir()
    assert folder.name == "window-aimd-loss-20Mbit-40ms-0.25BDP"
    assert {path.name for path in folder.iterdir()} == {"experiment.toml", "qlog", "run.pcapng"}
    assert list((folder / "qlog").glob("*.sqlog")) and (folder / "run.pcapng").stat().st_size > 10_000
    text = (folder / "experiment.toml").read_text()
    assert text.startswith("# closed: closed after ") and "out of paper" in text
    # the experiment is the run: it is closed at the same time
    ran = command("run", "--trust", folder / "experiment.toml", "-o", "again.duckdb")
    assert ran.returncode == 0, ran.stderr
    flows = dumbbell.open(tmp_path / "again.duckdb").flows
    assert "out of paper" in flows["closed"].to_list()
    assert f"{min(flows['closed_s'].drop_nulls().drop_nans()):.3g} s" in text
    done = command(*words[:-4], "--place", "20Mbit 41ms")
    assert done.returncode == 2 and "--place: unknown place" in done.stderr
