"""An evaluation: a suite's scenes are run with a subject, and every criterion gets its grade."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import polars as pl

from dumbbell.engines import sweep
from dumbbell.engines.base import Engine
from dumbbell.engines.progress import ProgressTold
from dumbbell.errors import Nothing
from dumbbell.evaluate import grade as grades
from dumbbell.evaluate.grade import CaseVerdict, CellGrade
from dumbbell.evaluate.harm import measure_harm
from dumbbell.evaluate.measures import Values, measure_scene
from dumbbell.evaluate.plan import Candidate, Plan, ScenePlace, find_places, make_plan, make_victim_plan
from dumbbell.evaluate.suite_file import Criterion, EvaluationSuite
from dumbbell.results.results import StoredResults
from dumbbell.words import format_count


@dataclass(frozen=True)
class Verdict:
    """The grades of a criterion, cell by cell, and the worst of them."""

    criterion: Criterion
    cells: dict[ScenePlace, CellGrade]

    @cached_property
    def worst(self) -> CellGrade:
        """The cell that counts most against the subject: by its grade, by its bar, and among equals by its value."""
        sign = 1 if not self.criterion.bars or self.criterion.bars[0].is_upper else -1
        cells = self.cells.values()
        return max(cells, key=lambda one: (grades.rank(one.grade), round(one.excess, 9), sign * one.value))

    @property
    def grade(self) -> str:
        """The grade of the worst cell."""
        return self.worst.grade

    @property
    def worst_harm(self) -> CellGrade | None:
        """The cell in which the subject harms others most; none if there is no harm."""
        known = (one for one in self.cells.values() if "" in one.harm and not math.isnan(one.harm[""].value))
        return max(known, key=lambda cell: cell.harm[""].value, default=None)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many cells have each grade, from the best grade to the worst."""
        found = Counter(cell.grade for cell in self.cells.values())
        return sorted(found.items(), key=lambda one: grades.rank(one[0]))


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
    notes: tuple[str, ...] = ()

    @property
    def cells(self) -> list[CellGrade]:
        """The cells of all criteria."""
        return [cell for one in self.verdicts for cell in one.cells.values()]

    @property
    def has_harm(self) -> bool:
        """Whether harm to others was measured in some cell."""
        return any(cell.harm for cell in self.cells)

    @property
    def is_judged(self) -> bool:
        """Whether judges gave all grades, and nothing was measured."""
        return all(one.criterion.judge for one in self.verdicts)

    def list_unanswered(self) -> Iterator[tuple[str, str, str]]:
        """Yield the paragraphs that no criterion answers: id, grade and reason."""
        answered = {paragraph for one in self.suite.criteria for paragraph in one.answers}
        for name, paragraph in self.suite.paragraphs.items():
            if name not in answered:
                grade = "for the author" if paragraph.author else "not covered"
                yield name, grade, paragraph.author or paragraph.lacks or "No criterion of this suite answers it."


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
    values: dict[str, dict[ScenePlace, Mapping[str, Values]]] = {one.id: {} for one in suite.criteria}
    victims = make_victim_plan(suite, me, seeds, whole)
    failed: list[str] = []
    broken: dict[ScenePlace, CaseVerdict] = {}
    keys: list[str] = []
    while True:
        report = sweep.run(plan.experiments, output, jobs=jobs, progress=progress, keys=keys, engine=engine)
        for cell, text in report.failed:
            where = "".join(f"{key} {value}, " for key, value in cell.matrix.items())
            failed.append(f"{cell.experiment}, {where}seed {cell.seed}: {text}")
        broken |= _list_broken(plan, me.name, {cell.key: text for cell, text in report.failed})
        results = StoredResults(Path(output), keys=keys)
        if suite.of == "stack":
            broken = _list_closed(plan, me.name, results) | broken
        for one in suite.criteria:
            values[one.id] |= measure_scene(suite, one.measure, one.scene, plan, results)
        verdicts = tuple(_judge_criterion(suite, one, values[one.id], me.name, broken, whole) for one in suite.criteria)
        open_places = {place for one in verdicts for place, cell in one.cells.items() if not cell.sure}
        if report.interrupted or not open_places or seeds >= most:
            break
        seeds = min(2 * seeds, most)
        plan = make_plan(suite, candidates, seeds, quick=quick, only=open_places, engine=engine)
    if victims.experiments and not report.interrupted:
        report = sweep.run(victims.experiments, output, jobs=jobs, progress=progress, keys=keys, engine=engine)
        failed += [f"{cell.experiment} without the subject, seed {cell.seed}: {text}" for cell, text in report.failed]
        harm = measure_harm(suite, whole, victims, StoredResults(Path(output), keys=keys), me.name)
        for (name, place), found in harm.items():
            cells = next(one.cells for one in verdicts if one.criterion.id == name)
            cells[place] = replace(cells[place], harm=found)
    taken = time.monotonic() - began
    return Evaluation(
        *(suite, subject, verdicts, whole, len(set(keys)) - len(failed), tuple(failed), taken),
        *(report.interrupted, quick, notes),
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
    counts = Counter(place.scene for place in refused)
    notes = tuple(
        f"left out: scene {scene}, {format_count(counts[scene], 'cell') if scene in left else 'all cells'}: {reason}"
        for scene, reason in {place.scene: reason for place, reason in refused.items()}.items()
    )
    return replace(suite, criteria=criteria), notes


def _list_broken(plan: Plan, subject: str, failed: Mapping[str, str]) -> dict[ScenePlace, CaseVerdict]:
    """Return the places at which a run of the subject failed, with the grade of that and what it said."""
    mine = plan.cells.filter((pl.col("who") == subject) & pl.col("key").is_in(list(failed)))
    return {
        ScenePlace(scene, tuple(position)): CaseVerdict(grades.name_failed_run(failed[key]), failed[key])
        for scene, position, key in mine.select("scene", "position", "key").iter_rows()
    }


def _list_closed(plan: Plan, subject: str, results: StoredResults) -> dict[ScenePlace, CaseVerdict]:
    """Return the places at which a connection of the subject was closed before its end: why, and when first."""
    found = results.sql(
        """
        SELECT c.scene, c.position, arg_min(f.closed, f.closed_s) AS closed, min(f.closed_s) AS closed_s
        FROM flows f JOIN roles r USING (key, flow) JOIN cells c USING (key)
        WHERE r.role = 'subject' AND f.closed IS NOT NULL AND f.closed != '' GROUP BY ALL
        """,
        cells=plan.cells.filter(pl.col("who") == subject),
        roles=plan.roles,
    )
    return {
        ScenePlace(scene, tuple(position)): CaseVerdict(grades.CLOSED, f"closed after {seconds:.3g} s: {closed}")
        for scene, position, closed, seconds in found.iter_rows()
    }


def _judge_criterion(
    suite: EvaluationSuite,
    criterion: Criterion,
    values: Mapping[ScenePlace, Mapping[str, Values]],
    subject: str,
    broken: Mapping[ScenePlace, CaseVerdict],
    plan: Plan,
) -> Verdict:
    """Return the verdict of a criterion; a cell with a run that failed has the grade of that failure."""
    measure, cells = suite.measures[criterion.measure], {}
    for place, of_place in values.items():
        cell = grades.judge_cell(criterion, measure, suite.numbers, subject, of_place, str(place.position))
        cell = replace(cell, place=place, labels=plan.labels[place], command=plan.commands[place])
        failure = broken.get(place)
        cells[place] = replace(cell, grade=failure.result, sure=True, judged=failure) if failure else cell
    return Verdict(criterion, cells)
