"""The search for the commit since which a stack is worse: git bisect, with evaluations as its test."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

from dumbbell.errors import InputError
from dumbbell.evaluate.comparison import (
    REPEAT,
    CellChange,
    EvaluationComparison,
    Report,
    compare_reports,
    format_commands,
)
from dumbbell.evaluate.grade import CANNOT_TELL
from dumbbell.results.tables import align_table
from dumbbell.stacks.commits import BisectionEnd, Commit, CommitVerdict, TreeClone

Cell = tuple[str, str]
"""A criterion and a place."""


@dataclass(frozen=True)
class CommitTrial:
    """A commit that was looked at: the verdict on it, why, and the cells that are worse than in the good one."""

    commit: Commit
    verdict: CommitVerdict
    reason: str
    worse: tuple[CellChange, ...] = ()


@dataclass(frozen=True)
class CommitSearch:
    """A bisection between two commits, with all trials in the order of time; `end` is missing if nothing is worse."""

    good: Commit
    bad: Commit
    compared: EvaluationComparison
    trials: tuple[CommitTrial, ...]
    end: BisectionEnd | None

    @property
    def first_bad(self) -> CommitTrial | None:
        """The trial of the first bad commit, if it was found."""
        first = self.end.first_bad if self.end is not None else None
        return next((one for one in self.trials if one.commit == first), None)


def search_commit(
    clone: TreeClone,
    ends: tuple[Commit, Commit],
    judge: Callable[[Commit, Collection[Cell] | None], Report],
    say: Callable[[str], None],
) -> CommitSearch:
    """Find the first commit after `ends[0]` that is worse than it, as `ends[1]` is, in a cell in which that is worse.

    `judge` evaluates a commit in some cells, or in all. A commit that it cannot build or judge is passed over; one of
    the two ends that it cannot raises InputError. `say` gets a line on each commit.
    """
    good, bad = ends
    before = judge(good, None)
    found = compare_reports(judge(bad, None), before, good.short)
    cells = {(one.criterion, one.where) for one in found.regressions}
    trials = [CommitTrial(good, CommitVerdict.GOOD, "the good end")]
    if not cells:
        return CommitSearch(good, bad, found, tuple(trials), None)
    trials.append(CommitTrial(bad, CommitVerdict.BAD, _describe_worse(found.regressions), tuple(found.regressions)))

    def try_commit(commit: Commit) -> CommitVerdict:
        trial = _try_commit(commit, before, cells, judge)
        trials.append(trial)
        say(f"{commit.short} {trial.verdict.value}: {trial.reason} ({commit.subject})")
        return trial.verdict

    say(f"{bad.short} bad: {trials[-1].reason} ({bad.subject})")
    end = clone.find_first_bad(good, bad, try_commit)
    return CommitSearch(good, bad, found, tuple(trials), end)


def _try_commit(
    commit: Commit, before: Report, cells: Collection[Cell], judge: Callable[[Commit, Collection[Cell] | None], Report]
) -> CommitTrial:
    try:
        report = judge(commit, cells)
    except InputError as error:
        return CommitTrial(commit, CommitVerdict.UNKNOWN, str(error.move_into("")).removeprefix(": "))
    changes = [one for one in compare_reports(report, before, "").changes if (one.criterion, one.where) in cells]
    worse = tuple(one for one in changes if one.direction > 0)
    if worse:
        return CommitTrial(commit, CommitVerdict.BAD, _describe_worse(worse), worse)
    if all(one.grades[1] == CANNOT_TELL for one in changes):
        return CommitTrial(commit, CommitVerdict.UNKNOWN, "nobody can tell")
    return CommitTrial(commit, CommitVerdict.GOOD, "as the good end")


def _describe_worse(changes: Collection[CellChange]) -> str:
    one, *others = changes
    before, now = one.grades if one.grades[0] != one.grades[1] else one.figures
    more = f" (and {len(others)} more)" if others else ""
    return f"{f'{one.criterion} {one.where}'.strip()}: {before} → {now}{more}"


def format_search(found: CommitSearch, *, markdown: bool = False) -> str:
    """Return the result in a sentence, the trials, and the commands of what got worse."""
    if found.end is None:
        return f"Nothing is worse in {found.bad.short} than in {found.good.short}. {found.compared.describe()}"
    rows = [
        [one.commit.short, one.commit.day, one.verdict.value, one.reason, one.commit.subject] for one in found.trials
    ]
    parts = [
        _describe_end(found),
        align_table(["commit", "day", "verdict", "reason", "message"], rows, words=tuple(range(5))),
    ]
    if (first := found.first_bad) is not None:
        commands = ((one.criterion, one.command) for one in first.worse)
        parts.append(format_commands(REPEAT, commands, markdown=markdown))
    return "\n\n".join(parts)


def _describe_end(found: CommitSearch) -> str:
    first = found.first_bad
    if first is not None:
        said = f"{first.commit.short} of {first.commit.day} is the first bad commit: {first.commit.subject}"
        return f"{said}\nIt is worse than {found.good.short}: {first.reason}."
    assert found.end is not None
    names = ", ".join(one.short for one in found.end.possible)
    return f"The first bad commit is one of {names}: those among them that are not bad cannot be judged."


def to_json(found: CommitSearch) -> str:
    """Return the result and all trials."""
    first = found.first_bad
    table: dict[str, Any] = {
        "good": asdict(found.good),
        "bad": asdict(found.bad),
        "first_bad": asdict(first.commit) if first is not None else None,
        "possible": [asdict(one) for one in found.end.possible] if found.end is not None else [],
        "trials": [
            asdict(one.commit)
            | {"verdict": one.verdict.value, "reason": one.reason, "worse": [asdict(cell) for cell in one.worse]}
            for one in found.trials
        ],
    }
    return json.dumps(table, indent=2)
