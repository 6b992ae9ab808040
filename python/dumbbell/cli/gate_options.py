"""Options of commands that judge, for continuous integration; and their progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from dumbbell.errors import Conflict, Unwritable
from dumbbell.writing import write_text

Format = Annotated[
    Literal["text", "markdown", "json"],
    Option("--format", help="markdown: tables for a page; json: every verdict with all its numbers."),
]
Known = Annotated[
    str | None, Option("--known", metavar="FILE", help="File of expected failures. Only other failures count.")
]
Baseline = Annotated[
    str | None,
    Option("--baseline", metavar="FILE.json", help="An earlier report. Only what got worse counts as failed."),
]
Junit = Annotated[str | None, Option("--junit", metavar="FILE", help="Also write JUnit XML.")]
Github = Annotated[bool, Option("--github", help="Also print annotations for GitHub Actions.")]
_LINE_EVERY = 10.0  # seconds between two lines of progress where stderr is not a terminal


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


def refuse_together(*pairs: tuple[tuple[str, object], tuple[str, object]], command: str) -> None:
    """Raise Conflict if both options of a pair, each with its value, are given."""
    for one, other in pairs:
        if one[1] and other[1]:
            raise Conflict(f"{one[0]} and {other[0]}", "one of them", command=command)


def check_report_options(
    *, form: str, known: str | None, baseline: str | None, junit: str | None, github: bool, command: str
) -> None:
    """Check the options for reports, before anything runs for minutes. Raises InputError."""
    refuse_together(
        (("--known", known), ("--baseline", baseline)),
        (("--github", github), ("--format json", form == "json")),
        command=command,
    )
    if junit is not None and not Path(junit).parent.is_dir():
        raise Unwritable(
            f"there is no folder {Path(junit).parent}",
            "a file in a folder that exists",
            command=command,
            option="--junit",
        )


def write_junit(name: str, text: str, command: str) -> None:
    """Write JUnit's file. Raises Unwritable."""
    write_text(Path(name), text, "a file to write to", command=command, option="--junit")


def join_lines(lines: Iterable[str]) -> str:
    """Return lines without an empty end."""
    return "\n".join(lines).rstrip("\n")
