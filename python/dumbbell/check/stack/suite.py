"""The suite: every scene of every case, for one control or two, and for TCP's CUBIC in its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dumbbell.check.stack.cases import CASES
from dumbbell.check.stack.outcomes import WITHIN, Outcome, StackRun, make_runs
from dumbbell.check.stack.stack_case import (
    CANNOT_TELL,
    CLOSED,
    CRASHED,
    DIFFERS,
    FAILED,
    HUNG,
    PASSED,
    Scene,
    SceneOutcomes,
    StackCase,
)
from dumbbell.engines import sweep
from dumbbell.evaluate.case_verdict import CaseResult, SuiteReport
from dumbbell.evaluate.gate import Suite
from dumbbell.experiment import plugins
from dumbbell.experiment.file import Experiment, parse
from dumbbell.results.results import StoredResults
from dumbbell.scratch import Scratch

TCP = "tcp-cubic"
SEEDS = (1, 2, 3, 4, 5)
MORE = 4  # times as many seeds where the limit lies within the interval of a mean
# Linux's control of the same family, by the start of a control's name, and what it is called in words
FAMILIES = {"bbr": ("bbr3", "TCP's BBRv3"), "reno": ("reno", "TCP's Reno"), "newreno": ("reno", "TCP's Reno")}
_TABLES = ("runs", "flows", "series", "queue_series")
_RANK = {PASSED: 0, DIFFERS: 0, CANNOT_TELL: 1, FAILED: 2, CLOSED: 3, CRASHED: 4, HUNG: 5}


def _place_of(_case: str, words: Sequence[str]) -> tuple[str, str | None]:
    return (words[0] if words else ""), " ".join(words[1:]) or None


STACK = Suite(
    name="stack",
    rank=_RANK,
    good=frozenset({PASSED, DIFFERS}),
    cases={key: (key, f"{key}: {one.question}") for key, one in CASES.items()},
    test=lambda one: f"{one.case} {one.where}",
    place=_place_of,
    line="CASE CONTROL, or CASE CONTROL PLACE, and the worst that is expected, such as = failed or = crashed",
    failed=FAILED,
    expects=CLOSED,
    places=lambda case: [scene.place for scene in CASES[case].scenes],
)


@dataclass(frozen=True)
class Subject:
    """The subject of a suite: its name in tables, its control, and the keys that make a flow one of it."""

    name: str
    control: str
    flow: dict[str, Any] = field(compare=False, hash=False)


@dataclass(frozen=True)
class StackResult(CaseResult):
    """The result of a case in a scene."""

    place: str
    seen: SceneOutcomes = field(compare=False, repr=False)
    subject: Subject | None = field(default=None, compare=False, repr=False)

    @property
    def seconds(self) -> float:
        """Real time that the stack's runs took."""
        return sum(run.seconds for run in self.seen.subject.runs)


@dataclass(frozen=True)
class StackReport(SuiteReport):
    """All results, and how many runs there were."""

    results: list[StackResult]
    runs: int = 0

    def select_control(self, control: str) -> StackReport:
        """Return the report of one control alone."""
        return replace(self, results=[one for one in self.results if one.control == control])


def select_subject(stack: str, control: str | None, keys: Mapping[str, Any]) -> Subject:
    """Return a stack's control as it is judged; `keys` are those of the stack. Raises InputError if there is none."""
    flow: dict[str, Any] = {"stack": {"name": stack, **keys}} | ({"cc": control} if control is not None else {})
    cc = _resolve_control(flow)
    return Subject(str(cc["name"]), str(cc.get("control", "")), flow)


def _resolve_control(flow: Mapping[str, Any]) -> dict[str, Any]:
    table = {"duration": "1s", "bottleneck": {"aqm": "pfifo"}, "flows": [flow], "seeds": [1]}
    found: dict[str, Any] = parse(table, "check").make_cell(0).groups["flows"][0]["cc"]
    return found


def list_parameters(stack: str) -> frozenset[str]:
    """Return the names of the parameters that a stack takes. Raises InputError."""
    return frozenset(_resolve_control({"stack": stack}))


def list_names(stack: str) -> list[str]:
    """Return what the controls of a stack are called in tables. Raises InputError."""
    algorithm = plugins.find_algorithm(_resolve_control({"stack": stack}), {})
    assert algorithm is not None
    return [f"{algorithm.name}-{one}" for one in algorithm.params["control"].choices]


def check(
    subjects: Sequence[Subject],
    cases: Sequence[StackCase] = tuple(CASES.values()),
    *,
    seeds: Sequence[int] = SEEDS,
    jobs: int | None = None,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> StackReport:
    """Judge `cases` of `subjects`; those that are not about a control are left out.

    `progress` is called with how many of how many runs are done. Raises InputError, and KeyboardInterrupt on Ctrl-C.
    """
    began = time.monotonic()
    results, runs = _judge_cases(subjects, cases, seeds, jobs, progress)
    near = {(one.case, one.place) for one in results if _is_near(one)}
    if near:
        again = [
            replace(case, scenes=tuple(scene for scene in case.scenes if (case.key, scene.place) in near))
            for case in cases
        ]
        many = range(min(seeds), min(seeds) + MORE * len(seeds))
        more, others = _judge_cases(subjects, [case for case in again if case.scenes], many, jobs, progress)
        better = {one.key: one for one in more}
        results = [better.get(one.key, one) for one in results]
        runs += others
    return StackReport(results, time.monotonic() - began, runs)


def _is_near(one: StackResult) -> bool:
    """Whether more seeds may tell what these do not."""
    return any(check.held is None and check.found.endswith(WITHIN) for check in one.verdict.checks)


def _judge_cases(
    subjects: Sequence[Subject],
    cases: Sequence[StackCase],
    seeds: Sequence[int],
    jobs: int | None,
    progress: Callable[[int, int], None],
) -> tuple[list[StackResult], int]:
    """Run and judge everything; return the results, and how many runs there were."""
    wanted: dict[tuple[str, str, str], Experiment] = {}
    tcp = Subject(TCP, "cubic", {"cc": "cubic"})
    for case in cases:
        about = [one for one in subjects if case.applies_to(one.control)]
        for scene in case.scenes:
            relatives = {of[0].name: of[0] for one in about if (of := _find_relative(one)) is not None}
            for one in [*about, *relatives.values(), *([tcp] if about and case.tcp else [])]:
                table = scene.substitute_control(one.flow, list(seeds))
                wanted[case.key, scene.place, one.name] = parse(table, f"{case.key} {scene.place} {one.name}")
    found, runs = _run(wanted, jobs, progress)
    results = []
    for one in subjects:
        for case in cases:
            if not case.applies_to(one.control):
                continue
            for scene in case.scenes:
                seen = _collect_outcomes(found, case, scene, one)
                results.append(StackResult(case.key, one.name, scene.place, case.judge_scene(seen), seen, one))
    return results, runs


def _find_relative(one: Subject) -> tuple[Subject, str] | None:
    """Return Linux's control of the same family and its name in words.

    None where that is CUBIC, which is the yardstick anyway.
    """
    found = next((of for start, of in FAMILIES.items() if one.control.startswith(start)), None)
    return (Subject(f"tcp-{found[0]}", found[0], {"cc": found[0]}), found[1]) if found else None


def _collect_outcomes(
    found: Mapping[tuple[str, str, str], Outcome], case: StackCase, scene: Scene, one: Subject
) -> SceneOutcomes:
    tcp = found[case.key, scene.place, TCP] if case.tcp else Outcome()
    relative = _find_relative(one)
    ours = found[case.key, scene.place, one.name]
    if relative is None:
        return SceneOutcomes(scene, ours, tcp)
    return SceneOutcomes(scene, ours, tcp, found[case.key, scene.place, relative[0].name], relative[1])


def _run(
    wanted: Mapping[tuple[str, str, str], Experiment], jobs: int | None, progress: Callable[[int, int], None]
) -> tuple[dict[tuple[str, str, str], Outcome], int]:
    """Carry all of it out; return what each left, and how many runs there were."""
    cells = {name: list(experiment.make_cells()) for name, experiment in wanted.items()}
    keys = {name: [cell.key for cell in of] for name, of in cells.items()}
    rough = {cell.key: [bool(flow["path"]) for flow in cell.groups["flows"]] for of in cells.values() for cell in of}
    with Scratch() as folder:
        path = Path(folder) / "results.duckdb"
        done = sweep.run(list(wanted.values()), path, jobs=jobs, progress=progress)
        if done.interrupted:
            raise KeyboardInterrupt
        results = StoredResults(path)
        runs = make_runs({name: results.frame(name) for name in _TABLES}, rough) if done.done else {}
    failed = {cell.key: text for cell, text in done.failed}
    return {name: _make_outcome(of, runs, failed) for name, of in keys.items()}, done.done + len(failed)


def _make_outcome(keys: Sequence[str], runs: Mapping[str, StackRun], failed: Mapping[str, str]) -> Outcome:
    errors = [failed[key] for key in keys if key in failed]
    return Outcome(tuple(runs[key] for key in keys if key in runs), errors[0] if errors else "")
