"""Grades: from values of runs, or what a judge saw, to what a criterion says of each cell, and how sure that is."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dumbbell.evaluate.measures import Values
from dumbbell.evaluate.suite_file import Criterion, CriterionMeasure
from dumbbell.results.aggregate import LEVEL

if TYPE_CHECKING:
    from dumbbell.evaluate.bbr.lab import CaseRun

PASSES, NO_WORSE, WORSE, FAILS = "passes", "no worse", "worse", "fails"
TRANSPORT, CANNOT_TELL, NOT_APPLICABLE = "the transport's", "cannot tell", "does not apply"
CONSTANT, AS_RELATIVE = "a constant differs", "as its family"
CLOSED, CRASHED, HUNG = "closed", "crashed", "hung"
RELATIVE = "its family"  # the name of the relative of a subject
GRADES = {
    PASSES: "it meets a number that is not relative to a yardstick, or all that a judge expects was seen",
    CONSTANT: "it behaves as a judge expects, and only a constant or a flag differs from the document's",
    NO_WORSE: "it is within a stated margin of the yardstick, or keeps a number of ours",
    AS_RELATIVE: "it is beyond that margin, as Linux's control of the same family is, and not worse than that one",
    WORSE: "it is beyond that margin",
    FAILS: "it does what a document names a failure or warns of, or breaks an invariant",
    TRANSPORT: "it is not worse, but that is the merit of the TCP around it",
    CANNOT_TELL: "the interval crosses the bar after the last seed, or there is no data",
    NOT_APPLICABLE: "the criterion does not concern it",
    CLOSED: "it closed a connection before its end",
    CRASHED: "it ended its process, or did what the interface of plugins forbids",
    HUNG: "it did not come back from a call",
}
GOOD = (PASSES, NO_WORSE, AS_RELATIVE)
ORDER = (
    *(NOT_APPLICABLE, PASSES, CONSTANT, NO_WORSE, TRANSPORT, AS_RELATIVE, CANNOT_TELL),
    *(WORSE, FAILS, CLOSED, CRASHED, HUNG),
)
_WEAKER = {PASSES: NO_WORSE, FAILS: WORSE}
"""The grade instead of passes or fails if fewer than 95 % of the resamples of the seeds meet the document's number."""
ENDED = (CLOSED, CRASHED, HUNG)
"""Grades of runs that ended early."""
_HANGS = "the plugin hangs"  # what the process of a run says of one
MUCH = 0.05  # of a figure: less is no change, whatever its interval
DRAWS = 400  # resamples of the seeds of a cell


SIGNS: Mapping[bool | None, str] = {True: "+", False: "F", None: "?"}


@dataclass(frozen=True)
class Expectation:
    """One expectation: what it is, whether it held (None: cannot tell), what was found.

    `constant`: only a constant or a flag of a document is compared. `needs`: the columns that the trace lacks for it.
    """

    what: str
    held: bool | None
    found: str
    constant: bool = False
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict of a judge on a case: its result, the reason, and every expectation that was checked.

    `log`: fields that the case needs and the trace lacks, if the judge cannot tell. `run` is what was judged, if it is
    kept, and `seconds` how long a core took for it; runs that several cases share count for the first.
    """

    result: str
    reason: str
    checks: tuple[Expectation, ...] = ()
    log: tuple[str, ...] = ()
    run: CaseRun | None = field(default=None, compare=False)
    seconds: float = field(default=0.0, compare=False)

    def list_checks(self) -> list[str]:
        """Return the expectations, one a line, each with a sign for whether it held: c if a constant alone differs."""
        signs = ("c" if one.held is False and one.constant else SIGNS[one.held] for one in self.checks)
        return [f"{sign} {one.what}: {one.found}" for sign, one in zip(signs, self.checks, strict=True)]


@dataclass(frozen=True)
class CellGrade:
    """The grade of one cell.

    `value` is the subject's, `low` to `high` the interval in which it lies at the level of all intervals; `others` has
    those of the yardsticks. `sure` is whether that share of the resamples lies on the same side of the bar.
    """

    grade: str
    value: float
    low: float
    high: float
    others: Mapping[str, float]
    seeds: int
    sure: bool
    excess: float = 0.0
    """The distance of the value beyond the bar, as a part of the bar; negative if the value keeps the bar."""
    worst_seed: int = 1
    judged: CaseVerdict | None = None
    """The verdict of a judge, or of a run that failed."""

    @property
    def reason(self) -> str:
        """The reason for the grade that a judge gives."""
        return self.judged.reason if self.judged is not None else ""


def rank(grade: str) -> int:
    """Return the place of a grade, from what counts least against the subject to what counts most."""
    return ORDER.index(grade)


def is_bad(grade: str) -> bool:
    """Whether a grade counts against the subject."""
    return rank(grade) >= rank(WORSE)


def name_failed_run(text: str) -> str:
    """Return the grade of a run that failed, by what its process said."""
    return HUNG if _HANGS in text else CRASHED


def make_judged_cell(verdict: CaseVerdict) -> CellGrade:
    """Return the grade that a judge gave."""
    return CellGrade(verdict.result, math.nan, math.nan, math.nan, {}, 1, sure=True, judged=verdict)


def judge_cell(
    criterion: Criterion,
    measure: CriterionMeasure,
    words: Mapping[str, float],
    subject: str,
    values: Mapping[str, Values],
    place: str,
) -> CellGrade:
    """Return the grade of a cell; `values` are of the subject and of every yardstick, by seed.

    Seeds are paired: only seeds that all have are used. A yardstick without values is left out if no bar names it.
    `DRAWS` resamples of the seeds, the same for the subject and the yardsticks, decide whether the grade is sure. A
    cell has the same resamples every time. A cell in which a value is not a number cannot be told: without such runs,
    only runs that went well would be used.
    """
    needed = {subject, RELATIVE}.union(*(bar.names for bar in criterion.bars))
    values = {who: one for who, one in values.items() if one or who in needed}
    seeds = sorted(set.intersection(*(set(one) for one in values.values())))
    if not seeds:
        none = NOT_APPLICABLE if criterion.no_data and not values[subject] else CANNOT_TELL
        return CellGrade(none, math.nan, math.nan, math.nan, {}, 0, sure=True)
    runs = {who: [one[seed] for seed in seeds] for who, one in values.items()}
    if any(np.isnan(run).any() for one in runs.values() for run in one):
        return CellGrade(CANNOT_TELL, math.nan, math.nan, math.nan, {}, len(seeds), sure=True)
    found = {who: float(_compute_draws(measure, one, np.arange(len(seeds))[None, :])[0]) for who, one in runs.items()}
    names = {**words, **found}
    yardsticks = values.keys() - {subject, RELATIVE}
    grade = _find_grade(criterion, found[subject], names, yardsticks)
    random = np.random.default_rng(zlib.crc32(f"{criterion.id} {place}".encode()))
    drawn = random.integers(len(seeds), size=(DRAWS, len(seeds)))
    resampled = {who: _compute_draws(measure, one, drawn) for who, one in runs.items()}
    grades = [
        _find_grade(
            criterion,
            float(resampled[subject][n]),
            {**words, **{who: float(one[n]) for who, one in resampled.items()}},
            yardsticks,
        )
        for n in range(DRAWS)
    ]
    alike = sum((one in GOOD) == (grade in GOOD) for one in grades) / DRAWS
    if grades.count(grade) < LEVEL * DRAWS:
        grade = _WEAKER.get(grade, grade)
    low, high = (float(np.quantile(resampled[subject], share)) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    others = {who: value for who, value in found.items() if who != subject}
    excess = _compute_excess(criterion, found[subject], names)
    means = [float(one.mean()) * (1 if criterion.bars[0].is_upper else -1) for one in runs[subject]]
    worst_seed = seeds[int(np.argmax(means))]
    return CellGrade(grade, found[subject], low, high, others, len(seeds), alike >= LEVEL, excess, worst_seed)


def _compute_draws(
    measure: CriterionMeasure, runs: Sequence[npt.NDArray[np.float64]], drawn: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return for each row of `drawn`, places of runs, the mean of the runs or the quantile of all their values."""
    if measure.quantile is None:
        means: npt.NDArray[np.float64] = np.array([one.mean() for one in runs])[drawn].mean(axis=1)
        return means
    return np.array([np.quantile(np.concatenate([runs[n] for n in row]), measure.quantile) for row in drawn])


def _compute_excess(criterion: Criterion, value: float, names: Mapping[str, float]) -> float:
    """Return by how much a value is beyond the more generous of its bars, in parts of that bar."""
    found = []
    for bar in (criterion.passes, criterion.level):
        if bar is not None:
            signs = [sign for sign, _ in bar.conditions]
            found.append(max(map(_compute_distance, signs, repeat(value), bar.list_limits(names))))
    return min(found)


def _compute_distance(sign: str, value: float, limit: float) -> float:
    """Return the distance of a value beyond a limit, in parts of the limit; negative if the value keeps the limit."""
    beyond = value - limit if sign in ("<", "<=") else limit - value
    return beyond / abs(limit) if limit else math.inf if beyond > 0 else 0.0 if beyond == 0 else -math.inf


def _find_grade(criterion: Criterion, value: float, names: Mapping[str, float], yardsticks: AbstractSet[str]) -> str:
    """Return the grade of a value; `names` are values of words, of yardsticks, and of the relative if there is one.

    A bar that the relative misses as well does not count, unless the subject misses it by more.
    """
    grade = _compare_with_bars(criterion, value, names)
    if grade in GOOD or RELATIVE not in names:
        return grade
    used = yardsticks & {name for bar in criterion.bars for name in bar.names}
    beside = {**names, **dict.fromkeys(used, names[RELATIVE])}
    is_as_good = not used or _compare_with_bars(criterion, value, beside) in GOOD
    misses = _compare_with_bars(criterion, names[RELATIVE], names) not in GOOD
    return AS_RELATIVE if misses and is_as_good else grade


def _compare_with_bars(criterion: Criterion, value: float, names: Mapping[str, float]) -> str:
    for grade, bar in ((PASSES, criterion.passes), (NO_WORSE, criterion.level), (FAILS, criterion.fails)):
        if bar is not None and bar.is_met(value, names):
            return grade
    return WORSE


def decide_grade(criterion: Criterion, cell: CellGrade) -> str:
    """Return the grade of a cell after the last seed: nobody can tell one that is not sure."""
    if not cell.sure:
        return CANNOT_TELL
    if criterion.merit == "transport" and cell.grade in GOOD:
        return TRANSPORT
    return cell.grade
