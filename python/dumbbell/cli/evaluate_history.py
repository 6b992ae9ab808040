"""`dumbbell evaluate history` and `evaluate bisect`: a stack over its versions and commits."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from dumbbell.cli.evaluate_gate import format_command_line, write_page
from dumbbell.cli.evaluate_options import Format, RunOptions, SuiteName, refuse_together
from dumbbell.cli.evaluate_stack import StackOptions, select_criteria, select_subject
from dumbbell.cli.option_groups import expand_options
from dumbbell.cli.status import FAILED
from dumbbell.errors import Conflict, InputError, Missing, Nothing, WrongValue, quote_value

if TYPE_CHECKING:
    from dumbbell.evaluate.comparison import Report
    from dumbbell.evaluate.history import HistoryEntry
    from dumbbell.evaluate.suite_file import EvaluationSuite
    from dumbbell.stacks.commits import Commit, CommitBuild

_HISTORY, _BISECT = "evaluate history", "evaluate bisect"
_NOTHING_WORSE = 3


@dataclass(frozen=True)
class TreeOptions:
    """Options of the commits of a stack, and of how each is built."""

    tree: Annotated[
        str | None, Option("--tree", metavar="DIR", help="Git tree of the stack, which is not changed.")
    ] = None
    commits: Annotated[
        str | None,
        Option("--commits", metavar="A..B", help="Commits of the tree: a range."),
    ] = None
    build: Annotated[
        str | None,
        Option("--build", metavar="COMMAND", help="Shell command that makes the library STACK in the tree."),
    ] = None

    @contextmanager
    def prepare(self, stack: str, output: str, command: str) -> Iterator[CommitBuild]:
        """Give the way to build commits, in a clone of the tree that is removed at the end. Raises InputError."""
        from dumbbell.stacks.commits import CommitBuild, TreeClone

        if self.tree is None:
            raise Missing("the git tree of the stack", command=command, option="--tree")
        with tempfile.TemporaryDirectory(prefix="dumbbell-") as folder:
            clone = TreeClone(Path(self.tree), Path(folder) / "tree")
            found = CommitBuild(clone, stack, self.build, Path(f"{output}-libraries"))
            found.check()
            yield found


@expand_options
def judge_history(
    *,
    names: Annotated[
        list[str],
        typer.Argument(metavar="STACK|REPORT...", help="A stack of stack build, its library in the tree, or reports."),
    ],
    versions: Annotated[
        str | None, Option("--versions", metavar="V,V", help="Released versions of the stack, from the oldest.")
    ] = None,
    tree: TreeOptions,
    options: StackOptions,
    suite: SuiteName = "stack",
    run: RunOptions,
    form: Format = "text",
) -> None:
    """Each version is built and judged, and compared with the one before it. Instead of a stack, there may be reports
    that --format json wrote, of any suite, from the oldest.

    Exit status: 0 the last one is not worse than the one before it, 1 it is, or it cannot be built, 2 bad input.
    """
    from dumbbell.evaluate import history as histories

    if all(name.endswith(".json") for name in names):
        if versions or suite != "stack" or (tree, options, replace(run, output="")) != _NO_STACK:
            raise Conflict("reports and options of a stack", "reports with --output and --format", command=_HISTORY)
        title, entries = "History", [histories.read_entry(Path(name)) for name in names]
    else:
        if len(names) > 1:
            raise WrongValue(quote_value(names[1]), "one stack, or reports", command=_HISTORY, key="STACK")
        title = f"{names[0]} over {'versions' if versions else 'commits'}"
        judge = _StackJudge(options, run.load_suite(suite, "stack", _HISTORY), run)
        entries = list(_judge_versions(names[0], versions, tree, judge))
    if len(entries) < 2 or not any(one.report is not None for one in entries):
        lacks = "; ".join(f"{one.name}: {one.lacks}" for one in entries if one.lacks)
        raise Nothing(lacks or f"{names[0]} alone", "two versions or reports, one that is judged", command=_HISTORY)
    found = histories.EvaluationHistory(title, tuple(entries))
    write_page(run.output, histories.make_history_page(found, format_command_line()), _HISTORY)
    text = histories.to_json(found) if form == "json" else histories.format_history(found, markdown=form == "markdown")
    print(text)
    print(f"The page: {run.output}.html", file=sys.stderr)
    if found.is_last_worse:
        raise typer.Exit(FAILED)


_NO_STACK = (TreeOptions(), StackOptions(), RunOptions(output=""))


@dataclass(frozen=True)
class _StackJudge:
    """Judges builds of a stack with the same options, by the same suite."""

    options: StackOptions
    suite: EvaluationSuite
    run: RunOptions

    def make_entry(self, name: str, title: str, make: Any) -> HistoryEntry:
        """Return the entry of a version, which has a reason in the place of a report if it cannot be built."""
        from dumbbell.evaluate.history import HistoryEntry

        try:
            stack = make()
        except InputError as error:
            return HistoryEntry(name, title, None, str(error.move_into("")).removeprefix(": "))
        return HistoryEntry(name, title, self.judge(stack))

    def judge(self, stack: str, cells: Collection[tuple[str, str]] | None = None) -> Report:
        """Return the report on a stack, or on some of its cells: criteria and places. Raises InputError."""
        from dumbbell.evaluate.judging import EvaluationChoice
        from dumbbell.evaluate.verdict_report import to_json

        subject, control = select_subject(stack, self.options)
        chosen = select_criteria(self.suite, control)
        places: Sequence[str] = self.options.place or ()
        if cells is not None:
            chosen = chosen.select(sorted({criterion for criterion, _ in cells}))
            places = sorted({where for _, where in cells})
        found = self.run.carry_out(chosen, subject, EvaluationChoice(self.run.quick, places=tuple(places)))
        report: Report = json.loads(to_json(found))
        return report


def _judge_versions(stack: str, versions: str | None, tree: TreeOptions, judge: _StackJudge) -> Iterator[HistoryEntry]:
    from dumbbell.engines.progress import StepProgress
    from dumbbell.stacks import build as building
    from dumbbell.stacks.project import LOGGING

    refuse_together(
        (("--versions", versions), ("--commits", tree.commits)),
        (("--versions", versions), ("--tree", tree.tree)),
        (("--versions", versions), ("--build", tree.build)),
        command=_HISTORY,
    )
    progress = StepProgress()
    if versions is not None:
        wanted = [building.StackRequest(stack, one, logs=stack not in LOGGING) for one in versions.split(",")]
        for request in wanted:
            building.make_plan(request)  # a version that cannot be is found before any is built
        for request in wanted:
            yield judge.make_entry(str(request.version), "", lambda one=request: building.build(one, progress)[0].name)
        return
    if tree.commits is None:
        raise Missing("--versions, or --tree with --commits", command=_HISTORY, option="--versions")
    with tree.prepare(stack, judge.run.output, _HISTORY) as made:
        for commit in made.clone.list_commits(tree.commits):
            title = f"{commit.day} {commit.short} {commit.subject}"
            yield judge.make_entry(commit.name or commit.short, title, partial(made.make_stack, commit, progress))


@expand_options
def find_bad_commit(
    *,
    name: Annotated[
        str, typer.Argument(metavar="STACK", help="A stack of dumbbell stack build, or the library in the tree.")
    ],
    tree: TreeOptions,
    options: StackOptions,
    suite: SuiteName = "stack",
    run: RunOptions,
    form: Format = "text",
) -> None:
    """Git bisect looks for the first commit at which a grade or a value is worse than in A, as in B. Commits that
    cannot be built or judged are passed over.

    Exit status: 0 it is found, 1 it is one of several between which none can be judged, 2 bad input, 3 B is not worse
    than A.
    """
    from dumbbell.engines.progress import StepProgress
    from dumbbell.evaluate import bisection

    if tree.commits is None:
        raise Missing("the good commit and the bad one: GOOD..BAD", command=_BISECT, option="--commits")
    judge = _StackJudge(options, run.load_suite(suite, "stack", _BISECT), run)
    with tree.prepare(name, run.output, _BISECT) as made:
        ends = made.clone.find_range(tree.commits)
        progress = StepProgress()

        def judge_commit(commit: Commit, cells: Collection[tuple[str, str]] | None) -> Report:
            return judge.judge(made.make_stack(commit, progress), cells)

        found = bisection.search_commit(made.clone, ends, judge_commit, progress.print_line)
    print(bisection.to_json(found) if form == "json" else bisection.format_search(found, markdown=form == "markdown"))
    if found.end is None:
        raise typer.Exit(_NOTHING_WORSE)
    if found.first_bad is None:
        raise typer.Exit(FAILED)
