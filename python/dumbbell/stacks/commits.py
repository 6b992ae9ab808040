"""Commits of a stack's git tree: a clone of it, in which they are checked out, bisected and built."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from dumbbell.engines.progress import StepProgress
from dumbbell.errors import Failed, Missing, Needs, Unfit, WrongValue, escape_line, quote_value
from dumbbell.experiment.plugins import built
from dumbbell.stacks import build, tools
from dumbbell.stacks.project import LOGGING
from dumbbell.writing import make_folder

_LONGEST_RANGE = 1000  # commits
_FIRST_BAD = re.compile(r"^([0-9a-f]{40,64}) is the first (?:bad|'bad') commit$", re.MULTILINE)
_ONLY_SKIPPED = "only 'skip'ped commits left"


@dataclass(frozen=True)
class Commit:
    """A commit: its hash, its day, and the first line of its message."""

    id: str
    day: str
    subject: str
    name: str = field(default="", compare=False)
    """The user's name for it, if that is not its hash."""

    @property
    def short(self) -> str:
        """The hash as lists have it."""
        return self.id[:10]


class CommitVerdict(Enum):
    """A verdict on a commit, as git bisect takes it."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "skip"


@dataclass(frozen=True)
class BisectionEnd:
    """The end of a bisection: the first bad commit, or those that may be it, since they could not be judged."""

    first_bad: Commit | None
    possible: tuple[Commit, ...] = ()


class TreeClone:
    """A clone of a git tree in a new folder: commits are checked out here, and the tree is not changed."""

    def __init__(self, tree: Path, folder: Path) -> None:
        if shutil.which("git") is None:
            raise Needs("git", "the package git", option="--tree")
        self.tree, self.folder = tree, folder
        if not tree.is_dir() or not self._ask(tree, "rev-parse", "--git-dir"):
            raise Unfit(f"{escape_line(str(tree))} is not a git tree", "the folder of a clone", option="--tree")
        root = self._ask(tree, "rev-parse", "--show-toplevel") or str(tree)
        self.inside = self._ask(tree, "rev-parse", "--show-prefix").strip("/")  # the folder in the tree that is meant
        answer = _run_git(None, ["clone", "--quiet", "--shared", "--no-checkout", root, str(folder)])
        if answer.returncode != 0:
            raise Failed(f"git clone: {escape_line(answer.stderr.strip())[:300]}", "", option="--tree")

    def find_commit(self, name: str) -> Commit:
        """Return what the tree calls by a name, such as a tag. Raises InputError."""
        found = self._ask(self.tree, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if not found:
            raise WrongValue(quote_value(name), f"a commit, a tag or a branch of {self.tree}", option="--commits")
        return self._describe(found)

    def find_range(self, text: str) -> tuple[Commit, Commit]:
        """Return the ends of `GOOD..BAD`. Raises InputError."""
        first, dots, last = text.partition("..")
        if not dots or not first or not last or last.startswith("."):
            raise WrongValue(quote_value(text), "GOOD..BAD, two commits of the tree", option="--commits")
        return self.find_commit(first), self.find_commit(last)

    def list_commits(self, text: str) -> list[Commit]:
        """Return the commits of `A..B`, A and B with all between them on the first parents, or of `A,B,C`."""
        if ".." not in text:
            named = [(name, self.find_commit(name)) for name in text.split(",")]
            return [one if one.id.startswith(name) else replace(one, name=name) for name, one in named]
        first, last = self.find_range(text)
        between = self._ask(self.folder, "rev-list", "--first-parent", "--reverse", f"{first.id}..{last.id}").split()
        if not between or len(between) > _LONGEST_RANGE:
            found = f"{quote_value(text)}, {len(between)} commits"
            raise WrongValue(found, f"a range of 1 to {_LONGEST_RANGE} commits", option="--commits")
        return [first, *map(self._describe, between)]

    def check_out(self, commit: Commit) -> None:
        """Check a commit out; files that builds have left stay. Raises InputError."""
        self._run("checkout", "--quiet", "--force", "--detach", commit.id)

    def find_first_bad(self, good: Commit, bad: Commit, judge: Callable[[Commit], CommitVerdict]) -> BisectionEnd:
        """Let `git bisect` find the first bad commit; `judge` checks out what it looks at. Raises InputError."""
        self.check_out(bad)
        output = self._run("bisect", "start", "--no-checkout", bad.id, good.id)
        while (end := self._read_end(output)) is None:
            commit = self._describe(self._ask(self.folder, "rev-parse", "BISECT_HEAD"))
            output = self._run("bisect", judge(commit).value, may_fail=True)
        return end

    def _read_end(self, output: str) -> BisectionEnd | None:
        if found := _FIRST_BAD.search(output):
            return BisectionEnd(self._describe(found[1]))
        if _ONLY_SKIPPED in output:
            return BisectionEnd(
                None, tuple(map(self._describe, re.findall(r"^[0-9a-f]{40,64}$", output, re.MULTILINE)))
            )
        if "Bisecting:" not in output:
            raise Failed(f"git bisect: {escape_line(output.strip())[:300]}", "GOOD before BAD", option="--commits")
        return None

    def _describe(self, commit: str) -> Commit:
        day, _, subject = self._ask(self.tree, "show", "-s", "--format=%cs %s", commit).partition(" ")
        return Commit(commit, day, escape_line(subject))

    def _ask(self, folder: Path, *words: str) -> str:
        """Return what git says, nothing if it refuses."""
        answer = _run_git(folder, words)
        return answer.stdout.strip() if answer.returncode == 0 else ""

    def _run(self, *words: str, may_fail: bool = False) -> str:
        answer = _run_git(self.folder, words)
        if answer.returncode != 0 and not may_fail:
            said = escape_line((answer.stderr or answer.stdout).strip())[:300]
            raise Failed(f"git {words[0]}: {said}", "", option="--tree")
        return answer.stdout + answer.stderr


def _run_git(folder: Path | None, words: Iterable[str]) -> subprocess.CompletedProcess[str]:
    # variables of a hook would name another tree; hooks of the user are not ours to run
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "core.hooksPath=/dev/null", *(["-C", str(folder)] if folder is not None else []), *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment | {"LC_ALL": "C"}, errors="replace"
    )


@dataclass(frozen=True)
class CommitBuild:
    """How a commit becomes a library: by `dumbbell stack build`, or by a shell command that makes the file `stack`.

    Libraries of commands are kept in `folder`, by their commits; those of `dumbbell stack build` are among the stacks.
    """

    clone: TreeClone
    stack: str
    command: str | None
    folder: Path

    def check(self) -> None:
        """Raise InputError if there is no way to build the stack."""
        if self.command is None and self.stack not in built.STACKS:
            known = ", ".join(built.STACKS)
            raise Missing(f"the shell command that makes {self.stack}, or one of {known} as STACK", option="--build")

    def name_stack(self, commit: Commit) -> str:
        """Return the name or the file of the stack of a commit."""
        if self.command is None:
            inside = self.clone.inside.replace("/", "-")
            return f"{self.stack}-{commit.short}{'-' if inside else ''}{inside}"
        key = hashlib.sha256(f"{self.command}\0{self.stack}\0{self.clone.inside}".encode()).hexdigest()[:6]
        return str(self.folder.absolute() / f"{commit.short}-{key}{Path(self.stack).suffix}")

    def make_stack(self, commit: Commit, progress: StepProgress) -> str:
        """Check a commit out and build it, unless it is built; return its stack. Raises InputError."""
        name = self.name_stack(commit)
        if any(one.name == name for one in built.list_installed()) or (self.command and Path(name).is_file()):
            return name
        self.clone.check_out(commit)
        place = self.clone.folder / self.clone.inside
        if self.command is None:
            build.build(build.StackRequest(self.stack, None, place, name, self.stack not in LOGGING), progress)
        else:
            self._run_command(self.command, place, Path(name))
        return name

    def _run_command(self, command: str, place: Path, kept: Path) -> None:
        made = place / self.stack
        made.unlink(missing_ok=True)  # what another commit has left
        words = ["sh", "-c", command]
        answer = subprocess.run(
            words, cwd=place, capture_output=True, text=True, check=False, errors="replace", stdin=subprocess.DEVNULL
        )
        if answer.returncode != 0:
            said = escape_line(tools.find_complaint_of_cmake(answer.stdout + answer.stderr))
            raise Failed(f"it does not compile: {said or f'status {answer.returncode}'}", "", option="--build")
        if not made.is_file():
            raise Failed(f"{quote_value(command)} makes no {self.stack}", "a command that makes it", option="--build")
        make_folder(kept.parent)
        shutil.copyfile(made, kept)
