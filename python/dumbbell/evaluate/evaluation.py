"""An evaluation: a suite's scenes are run with a subject, and every criterion gets its grade."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from dumbbell.engines import sweep
from dumbbell.engines.base import Engine
from dumbbell.engines.progress import ProgressTold
from dumbbell.errors import Nothing
from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.case_verdict import CaseVerdict
from dumbbell.evaluate.grade import CellGrade
from dumbbell.evaluate.harm import CellHarm, HarmRuns, find_worst_harm
from dumbbell.evaluate.measures import measure_runs
from dumbbell.evaluate.plan import Candidate, Plan, ScenePlace, find_places, format_labels, make_plan
from dumbbell.evaluate.stack_runs import list_closed
from dumbbell.evaluate.suite_file import Criterion, EvaluationSuite
from dumbbell.results.results import StoredResults
from dumbbell.words import format_count


@dataclass(frozen=True)
class Verdict:
    """The grades of a criterion, cell by cell, and the worst of them."""

    criterion: Criterion
    cells: dict[ScenePlace, CellGrade]

    def decide_grade(self, place: ScenePlace) -> str:
        """Return the grade of a cell after the last seed."""
        return grades.decide_grade(self.criterion, self.cells[place])

    @cached_property
    def worst(self) -> ScenePlace:
        """The cell that counts most against the subject."""
        return max(self.cells, key=lambda place: (grades.rank(self.decide_grade(place)), self.cells[place].excess))

    @property
    def grade(self) -> str:
        """The grade of the worst cell."""
        return self.decide_grade(self.worst)

    def find_worst_harm(self, harm: HarmByPlace) -> ScenePlace | None:
        """Return the cell in which the subject harms others most; none if there is no harm."""
        return find_worst_harm({place: harm.get((self.criterion.id, place), {}) for place in self.cells})

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many cells have each grade, from the best grade to the worst."""
        found = Counter(map(self.decide_grade, self.cells))
        return sorted(found.items(), key=lambda one: grades.rank(one[0]))


HarmByPlace = Mapping[tuple[str, ScenePlace], Mapping[str, CellHarm]]
"""Harm by criterion and cell, of the subject, which has an empty name, and of the yardsticks."""


@dataclass(frozen=True)
class Evaluation:
    """Verdicts on a subject, with what is needed to repeat them."""

    suite: EvaluationSuite
    subject: Candidate
    verdicts: tuple[Verdict, ...]
    plan: Plan
    runs: int
    failed: tuple[str, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False
    quick: bool = False
    harm: HarmByPlace = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether judges gave all grades, and nothing was measured."""
        return all(one.criterion.judge for one in self.verdicts)

    def format_place(self, place: ScenePlace) -> str:
        """Return what tells a cell of a scene from the others."""
        return format_labels(self.plan.labels[place])

    def list_unanswered(self) -> Iterator[tuple[str, str, str]]:
        """Yield the paragraphs that no criterion answers: id, grade and reason."""
        answered = {paragraph for one in self.suite.criteria for paragraph in one.answers}
        for name, paragraph in self.suite.paragraphs.items():
            if name not in answered:
                grade = "for the author" if paragraph.author else "not covered"
                yield name, grade, paragraph.author or paragraph.lacks or "No criterion of this suite answers it."


@dataclass
class _Measured:
    """Values of runs by criterion, place, whose they are, and seed."""

    suite: EvaluationSuite
    values: dict[tuple[str, ScenePlace], dict[str, dict[int, np.ndarray]]] = field(default_factory=dict)

    def take(self, plan: Plan, results: StoredResults) -> None:
        """Measure the runs of a plan for every criterion."""
        cells, roles = plan.cells, plan.roles
        columns = [name for name in cells.columns if name != "who"]
        for criterion in self.suite.criteria:
            of_scene = cells.filter(pl.col("scene") == criterion.scene)
            if of_scene.is_empty():
                continue
            once = of_scene.select(columns).unique("key", keep="first", maintain_order=True)
            measure = self.suite.measures[criterion.measure]
            mine = roles.filter(pl.col("key").is_in(once["key"].implode()))
            rows = measure_runs(measure, results, once, mine, str(self.suite.file))
            rows = rows.filter(pl.col("value").is_not_null())
            by_key = {key: part["value"].to_numpy() for (key,), part in rows.group_by("key")}
            for key, position, who, seed in of_scene.select("key", "position", "who", "seed").iter_rows():
                place = ScenePlace(criterion.scene, tuple(position))
                of_place = self.values.setdefault((criterion.id, place), {})
                of_who = of_place.setdefault(who, {})
                if key in by_key:
                    of_who[seed] = by_key[key]

    def judge_criteria(self, subject: str) -> tuple[Verdict, ...]:
        """Return the verdicts of all criteria."""
        words = self.suite.numbers
        found = []
        for criterion in self.suite.criteria:
            measure = self.suite.measures[criterion.measure]
            cells = {
                place: grades.judge_cell(criterion, measure, words, subject, values, str(place.position))
                for (name, place), values in self.values.items()
                if name == criterion.id
            }
            found.append(Verdict(criterion, cells))
        return tuple(found)


def evaluate(
    suite: EvaluationSuite,
    subject: Candidate,
    output: str | Path,
    *,
    quick: bool = False,
    places: Sequence[str] = (),
    jobs: int | None = None,
    progress: ProgressTold = None,
    engine: Engine | None = None,
) -> Evaluation:
    """Run the scenes of a suite, or their `places`, with a subject and the yardsticks, and return the verdicts.

    Cells that `engine` cannot run are left out, and the notes name them.

    Runs that the results file `output` has are not repeated. Cells whose grade is not sure get more seeds, twice as
    many each time, up to the most that the suite allows. Raises InputError.
    """
    began = time.monotonic()
    # a subject that is a yardstick itself is both: a name of its own keeps them apart
    me = replace(subject, name=f"subject {subject.name}")
    candidates = [me, *(Candidate(name, name) for name in suite.yardsticks)]
    if subject.relative is not None:
        candidates.append(Candidate(grades.RELATIVE, subject.relative))
    seeds = suite.seeds.quick if quick else suite.seeds.first
    most = suite.seeds.first if quick else suite.seeds.most
    plan = make_plan(suite, candidates, seeds, quick=quick, engine=engine)
    kept = set(find_places(plan, places) if places else plan.labels)
    notes: tuple[str, ...] = ()
    refused = {place: reason for place, reason in plan.refused.items() if place in kept}
    if places or refused:
        plan = make_plan(suite, candidates, seeds, quick=quick, engine=engine, only=kept - set(refused))
    if refused:
        suite, notes = _leave_out(suite, plan, refused)
    whole = plan
    measured = _Measured(suite)
    victims = HarmRuns(suite, me, whole, seeds)
    failed: list[str] = []
    broken: dict[ScenePlace, tuple[str, str]] = {}
    keys: list[str] = []
    while True:
        report = sweep.run(plan.experiments, output, jobs=jobs, progress=progress, keys=keys, engine=engine)
        failed += [f"{cell.experiment}, {_join(cell.matrix)}seed {cell.seed}: {text}" for cell, text in report.failed]
        broken |= _list_broken(plan, me.name, {cell.key: text for cell, text in report.failed})
        results = StoredResults(Path(output), keys=keys)
        if suite.of == "stack":
            closed = list_closed(plan, me.name, results)
            broken = {place: (grades.CLOSED, text) for place, text in closed.items()} | broken
        measured.take(plan, results)
        verdicts = tuple(_break_cells(one, broken) for one in measured.judge_criteria(me.name))
        open_places = {place for one in verdicts for place, cell in one.cells.items() if not cell.sure}
        if report.interrupted or not open_places or seeds >= most:
            break
        seeds = min(2 * seeds, most)
        plan = make_plan(suite, candidates, seeds, quick=quick, only=open_places, engine=engine)
    harm: HarmByPlace = {}
    if victims.plan.experiments and not report.interrupted:
        report = sweep.run(victims.plan.experiments, output, jobs=jobs, progress=progress, keys=keys, engine=engine)
        failed += [f"{cell.experiment} without the subject, seed {cell.seed}: {text}" for cell, text in report.failed]
        harm = victims.compute(StoredResults(Path(output), keys=keys), me.name)
    taken = time.monotonic() - began
    return Evaluation(
        *(suite, subject, verdicts, whole, len(set(keys)) - len(failed), tuple(failed), taken),
        *(report.interrupted, quick, harm, notes),
    )


def _leave_out(
    suite: EvaluationSuite, plan: Plan, refused: Mapping[ScenePlace, str]
) -> tuple[EvaluationSuite, tuple[str, ...]]:
    """Return the suite with the criteria whose scenes still have cells, and a note on each scene that lost some."""
    left = {place.scene for place in plan.labels}
    criteria = tuple(one for one in suite.criteria if one.scene in left)
    if not criteria:
        scene, reason = next((place.scene, reason) for place, reason in refused.items())
        raise Nothing(
            f"the engine cannot run any of its cells (scene {scene}: {reason})", "another one", option="--engine"
        )
    reasons = {place.scene: reason for place, reason in refused.items()}
    counts = Counter(place.scene for place in refused)
    notes = []
    for scene, reason in reasons.items():
        cells = format_count(counts[scene], "cell") if scene in left else "all cells"
        notes.append(f"left out: scene {scene}, {cells}: {reason}")
    return replace(suite, criteria=criteria), tuple(notes)


def _list_broken(plan: Plan, subject: str, failed: Mapping[str, str]) -> dict[ScenePlace, tuple[str, str]]:
    """Return the places at which a run of the subject failed, with the grade of that and what it said."""
    mine = plan.cells.filter((pl.col("who") == subject) & pl.col("key").is_in(list(failed)))
    return {
        ScenePlace(scene, tuple(position)): (grades.name_failed_run(failed[key]), failed[key])
        for scene, position, key in mine.select("scene", "position", "key").iter_rows()
    }


def _break_cells(one: Verdict, broken: Mapping[ScenePlace, tuple[str, str]]) -> Verdict:
    """Return a verdict in which the cells of runs that failed say so: worse than any measure of the others."""
    cells = dict(one.cells)
    for place in cells.keys() & broken.keys():
        verdict = CaseVerdict(*broken[place])
        cells[place] = replace(cells[place], grade=verdict.result, sure=True, judged=verdict)
    return replace(one, cells=cells)


def _join(labels: dict[str, str]) -> str:
    return "".join(f"{key} {value}, " for key, value in labels.items())


def find_status(verdicts: Sequence[Verdict], fail: str) -> int:
    """Return the exit status: 1 if a grade is `fail` or worse, 3 if nothing was judged, else 0."""
    found = [one.grade for one in verdicts]
    if any(grades.rank(one) >= grades.rank(fail) for one in found):
        return 1
    judged = [one for one in found if one not in (grades.CANNOT_TELL, grades.NOT_APPLICABLE)]
    return 0 if judged else 3
