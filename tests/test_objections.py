"""What a critical reader objects: each answer follows from the run, on the page and in the appendix."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import Command
from dumbbell.evaluate.evaluation import Evaluation, Verdict, evaluate
from dumbbell.evaluate.grade import NO_WORSE, CellGrade
from dumbbell.evaluate.objections import list_objections
from dumbbell.evaluate.plan import Candidate, make_plan
from dumbbell.evaluate.suite_file import Seeds, list_suites, load_suite
from dumbbell.evaluate.verdict_maps import name_cell
from dumbbell.evaluate.verdict_report import format_report, keep_whole, make_page

TITLES = (
    "The document sets no threshold that can be passed.",
    "The bars are your own.",
    "A yardstick that does badly is a low bar.",
    "This is a simulator.",
    "Which version is this?",
    "So few paths are not the Internet.",
    "Worst cells and means hide the others.",
    "Something is missing.",
    "Some of this is the merit of the transport.",
)


def carry_out(name: str, subject: str, only: list[str], path: Path) -> Evaluation:
    """Return the quick part of some criteria of a suite, with two seeds."""
    suite = replace(load_suite(name).select(only), seeds=Seeds(2, 2, 2))
    return evaluate(suite, Candidate(subject, subject), path / "out.duckdb", quick=True, progress=False)


def answer(found: Evaluation) -> dict[str, str]:
    """Return the answers of a run by objections."""
    return {one.title: one.answer for one in list_objections(found)}


@pytest.fixture(scope="module")
def reno(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    """Reno in short queues and with reordering."""
    return carry_out("rfc9743", "reno", ["shallow-loss", "reordering"], tmp_path_factory.mktemp("reno"))


def test_page_and_appendix_answer_nine_objections(reno: Evaluation) -> None:
    assert tuple(one.title for one in list_objections(reno)) == TITLES
    page, appendix = make_page(reno, "dumbbell evaluate cc reno"), format_report(reno, markdown=True)
    for one in list_objections(reno):
        assert one.answer and f"- *{one.title}* {one.answer}" in appendix
        assert f"<dt><strong>{one.title}</strong></dt>" in page
    assert TITLES[0] not in format_report(reno)  # a terminal has the table


def test_a_page_keeps_units_and_numbers_and_names_worst_cells(reno: Evaluation) -> None:
    page = make_page(reno, "dumbbell evaluate cc reno")
    assert "Packets dropped at the bottleneck, share: no worse if" in page and "Goodput, Mbit/s: no worse if" in page
    assert f'worst: <a href="#{name_cell(reno.verdicts[0].worst)}">' in page
    # words of bars that are not there are left out
    assert "<code>little</code>" in page and "<code>starving</code>" not in page
    assert keep_whole("26 307 (10 875 to 46 290)").split(" ") == ["26\xa0307", "(10\xa0875", "to", "46\xa0290)"]


def test_answers_follow_from_the_run(reno: Evaluation) -> None:
    said = answer(reno)
    # RFC 9743 has no number that can be passed; 5.1.3 names a failure
    assert said[TITLES[0]].startswith("So nothing passes here")
    assert "1 criterion can fail, since a document names the failure or warns of it: shallow-loss." in said[TITLES[0]]
    assert "is a failure is ours in shallow-loss." in said[TITLES[0]]
    assert said[TITLES[1]].startswith("3 of 3 bars are ours")
    assert (
        "reno is a yardstick itself" in said[TITLES[2]]
        and "With the yardstick reno in the place of cubic" in said[TITLES[2]]
    )
    # five cells, each with the subject and two yardsticks; the one with reordering has a stage
    assert "It runs 15 experiments, each a cell with the subject or a yardstick: 12 of them" in said[TITLES[3]]
    assert "Experiments with more: stages of a path 3." in said[TITLES[3]]
    assert "RFC 5681" in said[TITLES[4]] and "cubic: RFC 9438" in said[TITLES[4]]
    assert "The paths have one rate, 20 Mbit/s, one base RTT, 40 ms and at most 4 bulk flows." in said[TITLES[5]]
    assert "Each cell that has data has 2 seeds. Intervals resample the seeds" in said[TITLES[5]]
    assert "These are the 5 cells of --quick" in said[TITLES[5]]
    assert "2 of 2 sections have a criterion that applies, if only to a part." in said[TITLES[7]]
    assert said[TITLES[8]].endswith(f"reordering mostly judges the transport; its grade: {reno.verdicts[1].grade}.")


def test_another_run_has_other_answers(tmp_path: Path) -> None:
    media = answer(carry_out("rfc8867", "none", ["pause-share", "paused-use", "long-tcp-lowest"], tmp_path))
    assert media[TITLES[0]].startswith("3 criteria can pass, by a number of a document: ")
    assert "ours" not in media[TITLES[0]]
    assert "none: a video without a congestion control." in media[TITLES[4]] and "RFC 8698" in media[TITLES[4]]
    assert "applications" in media[TITLES[3]] and "same encoder" in media[TITLES[8]]
    queue = carry_out("rfc7928", "step", ["friendly-use"], tmp_path)
    assert "Not compared with Linux there: step." in answer(queue)[TITLES[3]]
    # a queue has to be shorter than tail drop, also if it is tail drop
    tail = answer(carry_out("rfc7928", "pfifo", ["friendly-queue", "friendly-use"], tmp_path))[TITLES[2]]
    assert (
        "pfifo is a yardstick itself: bars that ask for more than it has itself make it worse in friendly-queue."
        in tail
    )


@pytest.mark.parametrize("name", [name for name in list_suites() if load_suite(name).scenes])
def test_each_objection_is_answered_in_each_suite(name: str) -> None:
    """The subject is not a yardstick, and no criterion has a note."""
    suite = load_suite(name)
    first = suite.yardsticks[0]
    plan = make_plan(suite, [Candidate("another", first), Candidate(first, first)], 1, quick=True)
    others, verdicts = dict.fromkeys(suite.yardsticks, 1.0) if suite.yardsticks[1:] else {}, []
    for one in (replace(one, note="") for one in suite.criteria):
        places = [place for place in plan.labels if place.scene == one.scene]
        cells = {at: CellGrade(one, NO_WORSE, 1.0, 1.0, 1.0, others, 2, place=at) for at in places}
        verdicts.append(Verdict(one, cells))
    found = Evaluation(suite, Candidate("another", "another"), tuple(verdicts), plan, 1)
    assert [one.title for one in list_objections(found) if not one.answer] == []


def test_bars_of_others_are_said_to_be_theirs(reno: Evaluation) -> None:
    verdicts = tuple(
        replace(one, criterion=replace(one.criterion, origin="bars.toml: our own network")) for one in reno.verdicts
    )
    said = answer(replace(reno, verdicts=verdicts))[TITLES[1]]
    assert (
        "The bars of shallow-loss and reordering are not the suite's, but those of bars.toml: our own network." in said
    )


def test_answers_on_a_trace_are_of_the_trace(command: Command) -> None:
    sample = Path(__file__).parent.parent / "docs" / "check-bbr-sample.sqlog"
    done = command("evaluate", "trace", sample, "--rate", "1Mbit", "--rtt", "40ms", "--format", "markdown")
    assert "Nothing was run: the trace was recorded elsewhere." in done.stdout
    assert "The trace is of one path" in done.stdout and "choose other paths" not in done.stdout
    assert "The transport is that of the trace" in done.stdout
    found = re.search(r"(\d+) of 23 sections have a criterion that applies", done.stdout)
    assert found is not None and 0 < int(found[1]) < 10  # the others are of other paths and applications
    assert "first of its seeds" not in done.stdout
