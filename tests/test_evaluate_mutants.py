"""Suites tell defects: each mutant of a control or a queue is caught by the criteria that name its defect.

docs/evaluate.md explains the grades. Sound implementations are caught by none of these criteria, and a control that
ignores all feedback is worse in most criteria of its suite, whatever its window or rate.
"""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dumbbell import _native
from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.evaluation import Evaluation, evaluate
from dumbbell.evaluate.plan import Candidate
from dumbbell.evaluate.suite_file import load_suite
from dumbbell.experiment.plugins import trust
from dumbbell.experiment.registry import read_registry

HELD = Path(__file__).parent / "held"
BAD = (grades.WORSE, grades.FAILS)
MUTANT, STARVES, QUEUE = "mutant.c", "starves.c", "queue.c"
PIE = {"plugin": QUEUE, "pie": True, "target": "15ms"}
# subject, as parameters of a control or of a plugin of `held`, and the criteria that catch it
CONTROLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a window that never falls": ({"name": "constant", "window": "2bdp"}, ("shallow-loss", "ce-answered")),
    "a rate that never falls": ({"name": "constant", "rate": "80%"}, ("beside-share", "overload-loss")),
    "no answer to loss": (
        {"plugin": MUTANT, "on_loss": False, "on_timeout": False},
        ("heavy-loss-sent", "shallow-loss"),
    ),
    "no answer to CE": ({"plugin": MUTANT, "on_ce": False}, ("ce-answered",)),
    "ten times the increase": ({"plugin": MUTANT, "increase": 10.0}, ("overload-loss", "shallow-loss")),
    "half of the reduction": ({"plugin": MUTANT, "decrease": 0.75}, ("standing-queue", "beside-loss")),
    "a tenth of the reduction": ({"plugin": MUTANT, "decrease": 0.95}, ("beside-share", "shallow-loss")),
    "a threshold that never falls": ({"plugin": MUTANT, "least": 200.0}, ("overload-loss",)),
    "DCTCP's answer to loss": ({"name": "dctcp", "loss_response": "alpha"}, ("beside-share",)),
}
QUEUES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a target of 100 us": ({"name": "codel", "target": "100us", "interval": "1ms"}, ("aggressive-use",)),
    "a target of half a second": ({"name": "codel", "target": "500ms"}, ("friendly-queue", "aggressive-queue")),
    "PIE with a target of 200 ms": ({"name": "pie", "target": "200ms"}, ("friendly-queue", "aggressive-queue")),
    "half of the target that it declares": ({"plugin": QUEUE, "scale": 0.5}, ("overload-target",)),
    "PIE with half of its target": (PIE | {"scale": 0.5}, ("overload-target",)),
    "a slow clock": ({"plugin": QUEUE, "clock": 0.5}, ("overload-target",)),
    "PIE with a slow clock": (PIE | {"clock": 0.5}, ("overload-target",)),
    "a fast clock": ({"plugin": QUEUE, "clock": 2.0}, ("overload-target",)),
    "PIE with a fast clock": (PIE | {"clock": 2.0}, ("overload-target",)),
    "drops in place of marks": ({"plugin": QUEUE, "marks": False}, ("ecn-marks",)),
    "PIE with drops in place of marks": (PIE | {"marks": False}, ("ecn-marks",)),
    "drops at the tail only": ({"plugin": QUEUE, "signals": False}, ("friendly-queue", "aggressive-queue")),
    "a queue that starves a flow": ({"plugin": STARVES}, ("rtt-spread",)),
}
# what controls that ignore all feedback are set to: at, above and below what fits into the path
CONSTANTS = [
    *({"window": window} for window in ("0.5bdp", "1bdp", "2bdp", "4bdp", 10)),
    *({"rate": rate} for rate in ("50%", "90%", "150%")),
]
# of the queues that come with dumbbell, those that are no better than tail drop: they have no AQM, or, as a step, one
# for packets with ECN alone, or, as the classes of HTB, one that has to be chosen
TAIL_DROP = {"pfifo", "bfifo", "fq", "step", "htb_classes"}


def build_plugin(folder: Path, name: str) -> str:
    """The library of a plugin of `held`, built in a folder that is trusted."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (folder / "dumbbell.h").write_text(_native.plugin_header())
    library = folder / f"lib{Path(name).stem}.so"
    flags = ["-std=c11", "-w", "-O1", "-shared", "-fPIC", f"-I{folder}"]
    subprocess.run(["cc", *flags, str(HELD / name), "-o", str(library), "-lm"], check=True)
    trust.trust(folder)
    return str(library)


def carry_out(suite_name: str, subject: dict[str, Any], criteria: tuple[str, ...], folder: Path) -> Evaluation:
    """The evaluation of a subject, with three seeds of the quick cells."""
    if "plugin" in subject:
        subject = subject | {"plugin": build_plugin(folder, subject["plugin"])}
    suite = load_suite(suite_name).select(criteria)
    suite = replace(suite, seeds=replace(suite.seeds, quick=3, first=6))
    suite = replace(suite, criteria=tuple(replace(one, harm=None) for one in suite.criteria))
    results = folder.parent / f"{suite_name}.duckdb"  # the yardsticks run once
    found = evaluate(suite, Candidate("it", subject), results, quick=True, progress=False)
    assert not found.failed
    return found


def judge(suite_name: str, subject: dict[str, Any], criteria: tuple[str, ...], folder: Path) -> dict[str, str]:
    found = carry_out(suite_name, subject, criteria, folder)
    return {one.criterion.id: one.grade for one in found.verdicts}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROLS)
def test_a_mutant_of_a_control_is_caught(name: str, tmp_path: Path) -> None:
    subject, criteria = CONTROLS[name]
    found = judge("rfc9743", subject, criteria, tmp_path)
    assert set(found) == set(criteria) and all(grade in BAD for grade in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize("name", QUEUES)
def test_a_mutant_of_a_queue_is_caught(name: str, tmp_path: Path) -> None:
    subject, criteria = QUEUES[name]
    found = judge("rfc7928", subject, criteria, tmp_path)
    assert set(found) == set(criteria) and all(grade in BAD for grade in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "subject", "mutants"),
    [
        ("rfc9743", {"plugin": MUTANT}, CONTROLS),
        ("rfc7928", {"name": "fq_codel"}, QUEUES),
        ("rfc7928", {"plugin": QUEUE}, QUEUES),
        ("rfc7928", PIE, QUEUES),
    ],
    ids=["the control without a defect", "FQ-CoDel", "CoDel without a defect", "PIE without a defect"],
)
def test_what_is_sound_is_caught_by_none(
    suite: str, subject: dict[str, Any], mutants: dict[str, tuple[dict[str, Any], tuple[str, ...]]], tmp_path: Path
) -> None:
    criteria = tuple(dict.fromkeys(one for _, criteria in mutants.values() for one in criteria))
    found = judge(suite, subject, criteria, tmp_path)
    assert set(found) == set(criteria) and not any(grade in BAD for grade in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize("name", read_registry().aqm)
def test_each_queue_keeps_its_target_and_its_marks_and_an_aqm_is_better_than_tail_drop(
    name: str, tmp_path: Path
) -> None:
    criteria = ("overload-target", "ecn-marks", "friendly-queue", "aggressive-queue")
    found = judge("rfc7928", {"name": name}, criteria, tmp_path)
    expected = {"friendly-queue", "aggressive-queue"} if name in TAIL_DROP else set()
    if name == "docsis_pie":
        expected = {"ecn-marks"}  # it has no ECN
    assert {one for one, grade in found.items() if grade in BAD} == expected, found


@pytest.mark.slow
def test_cubic_is_worse_in_none_and_reno_in_two_at_most(tmp_path: Path) -> None:
    criteria = tuple(one.id for one in load_suite("rfc9743").criteria)
    for name, most in (("cubic", 0), ("reno", 2)):
        found = judge("rfc9743", {"name": name}, criteria, tmp_path)
        assert sum(grade in BAD for grade in found.values()) <= most, found


@pytest.mark.slow
@pytest.mark.parametrize("parameters", CONSTANTS, ids=lambda one: " ".join(map(str, *one.items())))
def test_a_control_that_ignores_all_feedback_is_worse_in_most_criteria(
    parameters: dict[str, Any], tmp_path: Path
) -> None:
    criteria = tuple(one.id for one in load_suite("rfc9743").criteria)
    found = judge("rfc9743", {"name": "constant"} | parameters, criteria, tmp_path)
    bad = [one for one, grade in found.items() if grade in BAD]
    assert len(bad) > len(criteria) / 2, bad
