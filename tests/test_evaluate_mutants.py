"""Suites tell defects: each mutant of a control or a queue is caught by the criteria that name its defect.

docs/evaluate.md explains the grades. Sound implementations are caught by none of these criteria.
"""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dumbbell import _native
from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.comparison import compare_reports
from dumbbell.evaluate.evaluation import Evaluation, evaluate
from dumbbell.evaluate.plan import Candidate
from dumbbell.evaluate.suite_file import load_suite
from dumbbell.evaluate.verdict_report import to_json
from dumbbell.experiment.plugins import trust

HELD = Path(__file__).parent / "held"
BAD = (grades.WORSE, grades.FAILS)
MUTANT, STARVES = "mutant.c", "starves.c"
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
    "a tenth of the reduction": ({"plugin": MUTANT, "decrease": 0.95}, ("beside-share", "shallow-loss")),
    "a threshold that never falls": ({"plugin": MUTANT, "least": 200.0}, ("overload-loss",)),
    "DCTCP's answer to loss": ({"name": "dctcp", "loss_response": "alpha"}, ("beside-share",)),
}
QUEUES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a target of 100 us": ({"name": "codel", "target": "100us", "interval": "1ms"}, ("aggressive-use",)),
    "a queue that starves a flow": ({"plugin": STARVES}, ("rtt-spread",)),
}
# defects that yardsticks have as well, since CUBIC reduces its window by as little and tail drop has no target: suite,
# mutant, the sound one, and what is worse against that
UNSEEN: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "half of the reduction": ("rfc9743", {"plugin": MUTANT, "decrease": 0.75}, {"plugin": MUTANT}, "shallow-loss"),
    "a target of half a second": (
        "rfc7928",
        {"name": "codel", "target": "500ms"},
        {"name": "codel"},
        "aggressive-queue",
    ),
    "half of the target": ("rfc7928", {"name": "codel", "target": "2500us"}, {"name": "codel"}, "aggressive-use"),
    "PIE with a target of 200 ms": ("rfc7928", {"name": "pie", "target": "200ms"}, {"name": "pie"}, "aggressive-queue"),
}


def build_plugin(folder: Path, name: str) -> str:
    """The library of a plugin of `held`, built in a folder that is trusted."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (folder / "dumbbell.h").write_text(_native.plugin_header())
    library = folder / f"lib{Path(name).stem}.so"
    flags = ["-std=c11", "-w", "-O1", "-shared", "-fPIC", f"-I{folder}"]
    subprocess.run(["cc", *flags, str(HELD / name), "-o", str(library)], check=True)
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
    [("rfc9743", {"plugin": MUTANT}, CONTROLS), ("rfc7928", {"name": "fq_codel"}, QUEUES)],
    ids=["the plugin without a defect", "FQ-CoDel"],
)
def test_what_is_sound_is_caught_by_none(
    suite: str, subject: dict[str, Any], mutants: dict[str, tuple[dict[str, Any], tuple[str, ...]]], tmp_path: Path
) -> None:
    criteria = tuple(dict.fromkeys(one for _, criteria in mutants.values() for one in criteria))
    found = judge(suite, subject, criteria, tmp_path)
    assert set(found) == set(criteria) and not any(grade in BAD for grade in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize("name", UNSEEN)
def test_what_no_yardstick_shows_is_worse_than_the_sound_one(name: str, tmp_path: Path) -> None:
    suite, mutant, sound, criterion = UNSEEN[name]
    ours, theirs = (json.loads(to_json(carry_out(suite, one, (criterion,), tmp_path))) for one in (mutant, sound))
    found = compare_reports(ours, theirs, "the sound one")
    assert {one.criterion for one in found.regressions} == {criterion}, found.describe()
