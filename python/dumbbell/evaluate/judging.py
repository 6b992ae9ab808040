"""Evaluations by judges: of controls on the paths of a suite, of traces of others, and together with measures."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dumbbell.engines.base import Engine
from dumbbell.errors import Conflict, OutOfRange, UnknownName, quote_value
from dumbbell.evaluate import evaluation
from dumbbell.evaluate.bbr import grid, judge
from dumbbell.evaluate.bbr.cases import CASES, name_case
from dumbbell.evaluate.bbr.lab import PathPoint
from dumbbell.evaluate.evaluation import Evaluation, Verdict
from dumbbell.evaluate.grade import CaseVerdict, make_judged_cell
from dumbbell.evaluate.plan import Candidate, Plan, ScenePlace
from dumbbell.evaluate.suite_file import Criterion, EvaluationSuite, name_suite
from dumbbell.experiment import units

_NS = 1_000_000_000


@dataclass(frozen=True)
class EvaluationChoice:
    """Parts of an evaluation: `quick`, the rates (bit/s) and base RTTs (ns) of judges, and the places of scenes.

    `keep` is whether judges keep the traces of what is bad, and `engine` runs what is measured, if not the simulator.
    """

    quick: bool = False
    rates: tuple[int, ...] = ()
    rtts: tuple[int, ...] = ()
    keep: bool = False
    engine: Engine | None = None
    places: tuple[str, ...] = ()


def carry_out(
    suite: EvaluationSuite,
    subject: Candidate,
    output: str | Path,
    choice: EvaluationChoice,
    *,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Evaluate a subject by the measures and by the judges of a suite. Raises InputError."""
    judged = tuple(one for one in suite.criteria if one.judge)
    measured = tuple(one for one in suite.criteria if not one.judge)
    if judged and choice.engine is not None:
        raise Conflict("--engine and a suite with judges", "one of them", command="evaluate")
    found = Evaluation(suite, subject, (), Plan(), 0, quick=choice.quick)
    if measured:
        options: dict[str, Any] = {"quick": choice.quick, "places": choice.places, "engine": choice.engine}
        part = replace(suite, criteria=measured)
        found = evaluation.evaluate(part, subject, output, jobs=jobs, progress=progress, **options)
    if judged and not found.interrupted:
        found = _judge_paths(found, replace(suite, criteria=judged), choice, jobs=jobs, progress=progress)
    verdicts = {one.criterion.id: one for one in found.verdicts}
    criteria = tuple(one for one in suite.criteria if one.id in verdicts)
    in_order = tuple(verdicts[one.id] for one in criteria)
    return replace(found, suite=replace(suite, criteria=criteria), verdicts=in_order)


def _judge_paths(
    found: Evaluation,
    suite: EvaluationSuite,
    choice: EvaluationChoice,
    *,
    jobs: int | None,
    progress: Callable[[int, int], None] | None,
) -> Evaluation:
    """Let the judges of a suite judge a congestion control on its paths, too. Raises InputError."""
    subject = found.subject
    paths = (suite.grid.quick if choice.quick else None) or suite.grid
    points, left_out = grid.make_grid(choice.rates or paths.rates, [rtt / _NS for rtt in (choice.rtts or paths.rtts)])
    if not points:
        point, reason = next(iter(left_out.items()))
        held = f"{point}: {reason}"
        raise OutOfRange(held, "a path of fewer segments", command="evaluate cc", option="--rate, --rtt")
    cc = {"name": subject.value} if isinstance(subject.value, str) else dict(subject.value)
    keys = list(dict.fromkeys(_find_case(suite, one) for one in suite.criteria))
    began = time.monotonic()
    results = grid.judge_points(cc, keys, points, jobs=jobs, keep=choice.keep, progress=progress)
    verdicts = []
    words = ["dumbbell", "evaluate", "cc", subject.name, "--suite", name_suite(suite)]
    for criterion in suite.criteria:
        judged = {point: of_point[name_case(criterion.judge)] for point, of_point in results.items()}
        verdicts.append(_make_verdict(criterion, judged, words))
    notes = tuple(f"left out: {point}: {reason}" for point, reason in left_out.items())
    return replace(
        found,
        verdicts=(*found.verdicts, *verdicts),
        runs=found.runs + len(keys) * len(results),
        seconds=found.seconds + time.monotonic() - began,
        notes=(*found.notes, *notes),
    )


def judge_trace(
    suite: EvaluationSuite, path: Path, description: judge.TraceDescription, words: Sequence[str], *, chosen: bool
) -> tuple[Evaluation, judge.JudgedTrace]:
    """Let the judges of a suite judge a trace; return what of it was read, too.

    `words` is the command that judges it, and `chosen` whether its criteria were: one that the trace does not show is
    an error then. Raises InputError.
    """
    criteria = [one for one in suite.criteria if one.judge]
    keys = [_find_case(suite, one) for one in criteria]
    found = judge.judge_file(path, replace(description, cases=keys if chosen else None))
    point = found.run.setup.point
    verdicts = []
    for criterion in criteria:
        judged = {point: found.verdicts[name_case(criterion.judge)]}
        verdicts.append(_make_verdict(criterion, judged, words, names_path=False))
    subject = Candidate(found.control, str(path))
    notes = tuple(f"{path}: {one}" for one in found.notes)
    return Evaluation(suite, subject, tuple(verdicts), Plan(), 0, notes=notes), found


def _make_verdict(
    criterion: Criterion, judged: Mapping[PathPoint, CaseVerdict], words: Sequence[str], *, names_path: bool = True
) -> Verdict:
    """Return the verdict of a criterion by those of its judge at points, which become places.

    `words` are those of the command that repeats them, which also `names_path` if it runs anything.
    """
    cells = {}
    for point, verdict in judged.items():
        place = ScenePlace(criterion.id, (point.rate, round(point.rtt * _NS)))
        labels = {"rate": units.show("rate", point.rate), "rtt": units.show("time", round(point.rtt * _NS))}
        options = [word for key, value in labels.items() for word in (f"--{key}", value)] if names_path else []
        command = shlex.join([*words, "--only", criterion.id, *options])
        cells[place] = replace(make_judged_cell(criterion, verdict), place=place, labels=labels, command=command)
    return Verdict(criterion, cells)


def _find_case(suite: EvaluationSuite, criterion: Criterion) -> str:
    """Return the case of a criterion's judge. Raises InputError if there is none."""
    key = name_case(criterion.judge)
    if key not in CASES:
        among = [f"bbr.{one}" for one in CASES]
        raise UnknownName(
            quote_value(criterion.judge), among=among, file=suite.file, key=f"{criterion.id}.judge", what="judge"
        )
    return key
