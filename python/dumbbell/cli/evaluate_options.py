"""Options that the commands of `dumbbell evaluate` share, and the progress of commands that judge."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Exit, Option

from dumbbell.cli.status import INTERRUPTED
from dumbbell.errors import Conflict, InputError, OutOfRange, Unwritable, WrongValue, quote_value
from dumbbell.writing import make_folder

if TYPE_CHECKING:
    from dumbbell.evaluate.evaluation import Evaluation
    from dumbbell.evaluate.judging import EvaluationChoice
    from dumbbell.evaluate.plan import Candidate
    from dumbbell.evaluate.suite_file import EvaluationSuite

SuiteName = Annotated[
    str, Option("--suite", metavar="NAME", help="A suite that comes with dumbbell, or a folder of yours.")
]
Listed = Annotated[bool, Option("--list", help="List the criteria of the suite with their sections, and exit.")]
Format = Annotated[
    Literal["text", "markdown", "json"],
    Option("--format", help="markdown: for an appendix of a draft; json: every cell with all its numbers."),
]


def strip_ending(name: str) -> str:
    """Return the name of an output without the ending of its page or of its results file."""
    return name.removesuffix(".html").removesuffix(".duckdb")


# those of bottleneck.rate and of flows.base_rtt, in bit/s and ns
_LIMITS = {"--rate": (1_000, 10_000_000_000_000), "--rtt": (0, 60_000_000_000)}
_LINE_EVERY = 10.0  # seconds between two lines of progress where stderr is not a terminal


@dataclass(frozen=True)
class RunOptions:
    """Options that choose what of a suite is run, and where its results are."""

    quick: Annotated[bool, Option("--quick", help="Run a part of the cells with fewer seeds.")] = False
    only: Annotated[
        list[str] | None,
        Option("--only", metavar="ID[,ID]", help="Judge only these criteria, scenes, or sections such as 5.2.1."),
    ] = None
    output: Annotated[
        str,
        Option(
            "-o",
            "--output",
            metavar="NAME",
            callback=strip_ending,
            help="Write NAME.duckdb and NAME.html; runs in it are not repeated.",
        ),
    ] = "evaluation"
    jobs: Annotated[int | None, Option(min=1, metavar="N", help="Runs at a time. By default, one per core.")] = None

    @property
    def results(self) -> str:
        """The results file."""
        return f"{self.output}.duckdb"

    def load_suite(self, name: str, kind: str, command: str) -> EvaluationSuite:
        """Return the chosen part of a suite for subjects of a kind. Raises InputError."""
        from dumbbell.evaluate.suite_file import KINDS, load_suite

        suite = load_suite(name).select(split_names(self.only))
        if kind not in suite.kinds:
            allowed = f"a suite that evaluates {KINDS[kind]}"
            raise WrongValue(quote_value(name), allowed, command=command, option="--suite")
        return suite

    def carry_out(self, suite: EvaluationSuite, subject: Candidate, choice: EvaluationChoice) -> Evaluation:
        """Evaluate a subject; end with the status of an interrupted command if it is one. Raises InputError."""
        from dumbbell.evaluate.judging import carry_out

        progress = Progress("runs" if suite.used_scenes else "paths")
        found: Evaluation = carry_out(suite, subject, self.results, choice, jobs=self.jobs, progress=progress)
        if found.interrupted:
            print(f"interrupted: {self.results} keeps the finished runs; the same command continues", file=sys.stderr)
            raise Exit(INTERRUPTED)
        return found


@dataclass(frozen=True)
class GateOptions:
    """Options of an evaluation's report, and those for continuous integration."""

    form: Format = "text"
    fail: Annotated[
        Literal["worse", "fails"], Option("--fail", help="The grade from which on the exit status is 1.")
    ] = "worse"
    known: Annotated[
        str | None, Option("--known", metavar="FILE", help="File of expected failures. Only other failures count.")
    ] = None
    baseline: Annotated[
        str | None,
        Option("--baseline", metavar="FILE.json", help="An earlier report. Only what got worse counts as failed."),
    ] = None
    junit: Annotated[str | None, Option("--junit", metavar="FILE", help="Also write JUnit XML.")] = None
    github: Annotated[bool, Option("--github", help="Also print annotations for GitHub Actions.")] = False
    keep: Annotated[
        str | None,
        Option(
            "--keep", metavar="DIR", help="Write experiment, qlog, packets and figure of each bad cell to this folder."
        ),
    ] = None

    def check(self, command: str) -> None:
        """Refuse what cannot be, before anything runs for minutes. Raises InputError."""
        refuse_together(
            (("--known", self.known), ("--baseline", self.baseline)),
            (("--github", self.github), ("--format json", self.form == "json")),
            command=command,
        )
        if self.junit is not None and not Path(self.junit).parent.is_dir():
            found = f"there is no folder {Path(self.junit).parent}"
            raise Unwritable(found, "a file in a folder that exists", command=command, option="--junit")
        if self.keep is not None:
            make_folder(self.keep, "a folder to write to", command=command, option="--keep")

    def refuse_with_list(self, command: str, **others: object) -> None:
        """Raise Conflict for an option that does nothing with --list; `others` are further ones by their names."""
        given: dict[str, object] = {"format": self.form == "json", "known": self.known, "baseline": self.baseline}
        given |= {"junit": self.junit, "github": self.github, "keep": self.keep} | others
        for name, value in given.items():
            if value:
                raise Conflict(f"--list and --{name}", "--list with --suite and --only alone", command=command)


class Progress:
    """How many parts are done: a line that is written over on a terminal, elsewhere one every ten seconds."""

    def __init__(self, what: str = "parts") -> None:
        self._what = what
        self._terminal = sys.stderr.isatty()
        self._began = self._last = time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        """Say that so many are done."""
        now = time.monotonic()
        if self._terminal:
            print(f"\r{done} of {of} {self._what}", end="" if done < of else "\n", file=sys.stderr, flush=True)
        elif now - self._last >= _LINE_EVERY and done < of:
            self._last = now
            print(f"{done} of {of} {self._what} after {now - self._began:.0f} s", file=sys.stderr, flush=True)


def parse_quantity(kind: str, option: str, text: str, command: str) -> int:
    """Return a quantity that an option has: a rate in bit/s, a time in ns, a size in bytes. Raises InputError."""
    from dumbbell.experiment import units

    try:
        value = int(units.parse(kind, text))
    except InputError as error:
        raise error.move_into(command, option) from None
    least, most = _LIMITS.get(option, (value, value))
    if not least <= value <= most:
        allowed = f"from {units.show(kind, least)} to {units.show(kind, most)}"
        raise OutOfRange(quote_value(text), allowed, command=command, option=option)
    return value


def split_names(texts: list[str] | None) -> list[str]:
    """Return the names of an option that may be repeated and may hold several, between commas."""
    return [one for text in texts or [] for one in text.split(",")]


def refuse_together(*pairs: tuple[tuple[str, object], tuple[str, object]], command: str) -> None:
    """Raise Conflict if both options of a pair, each with its value, are given."""
    for one, other in pairs:
        if one[1] and other[1]:
            raise Conflict(f"{one[0]} and {other[0]}", "one of them", command=command)
