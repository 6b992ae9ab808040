"""The folder that stacks are built in, while one process works in it; how what was built is kept."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dumbbell.engines.progress import StepProgress
from dumbbell.errors import Failed, InUse, Unwritable, escape_line
from dumbbell.experiment.plugins import built
from dumbbell.experiment.plugins.built import Built
from dumbbell.processes import lock_file, start_group
from dumbbell.writing import get_reason, report_write_failures

WORK = ".work"  # below home(): projects, what was compiled, logs; no stack's name begins with a dot
DESCRIBE_S = 20.0  # for a library to say what it declares
LOCK_WAIT_S = 600.0  # for another build


@dataclass(frozen=True)
class Step:
    """A program that does part of a build.

    If it fails, an error says `failure` and what is `needed`; `complaint` finds in its output what it complained of.
    """

    command: list[str]
    folder: Path
    environment: dict[str, str]
    failure: str
    needed: str
    complaint: Callable[[str], str]


class StackWork:
    """The folder that stacks are built in, while one process works in it."""

    def __init__(self, progress: StepProgress) -> None:
        self.progress, self.place = progress, built.find_home() / WORK
        self._log = self.place / "log"

    def __enter__(self) -> Self:
        with report_write_failures(self.place):
            self.place.mkdir(parents=True, exist_ok=True)
            self._lock = (self.place / "lock").open("a+b")
        try:
            waiting = f"another build is at work; waiting for its end (log: {self._log})"
            lock_file(self._lock.fileno(), LOCK_WAIT_S, lambda: self.progress.print_line(waiting))
        except TimeoutError:
            raise InUse("another build", f"wait for its end (log: {self._log})", command="stack build") from None
        self._log.write_bytes(b"")
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def run(self, step: Step, counted: str = "", unit: str = "") -> int:
        """Let a program work, with its output in the log; return how many lines of it match `counted`.

        They are the progress, in `unit`. Raises InputError if the program fails.
        """
        count = 0
        start = self._log.stat().st_size
        started = start_group(step.command, self._lock.fileno(), step.folder, step.environment)
        with started as child, self._log.open("ab", buffering=0) as log:
            assert child.stdout is not None
            log.write(f"$ {Path(step.command[0]).name} {' '.join(step.command[1:])}\n".encode())
            for line in child.stdout:
                log.write(line)
                if counted and re.match(counted.encode(), line):
                    count += 1
                    self.progress.advance(count, None, unit)
            status = child.wait()
        if status != 0:
            text = self._log.read_bytes()[start:].decode(errors="replace")
            found = f"{step.failure}: {escape_line(step.complaint(text))} (log: {self._log})"
            raise Failed(found, step.needed, command="stack build")
        return count


def keep(name: str, content: bytes, described: dict[str, object], logging: bytes | None = None) -> Built:
    """Put a library where stacks lie, with its description, and the one that writes the stack's own qlog, if any."""
    place = built.find_home() / name
    try:
        place.mkdir(parents=True, exist_ok=True)
        draft = place / f".{os.getpid()}.new"
        draft.write_bytes(content)
        described |= {
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "controls": list_controls(draft, name),
        }
        (place / built.DESCRIPTION).unlink(missing_ok=True)
        draft.replace(place / built.LIBRARY)  # a process that has loaded the former one keeps it
        (place / built.LOGGING).unlink(missing_ok=True)
        if logging is not None:
            draft.write_bytes(logging)
            draft.replace(place / built.LOGGING)
        draft.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
        draft.replace(place / built.DESCRIPTION)
    except OSError as error:
        raise Unwritable(get_reason(error), file=place) from None
    finally:
        place.joinpath(f".{os.getpid()}.new").unlink(missing_ok=True)
    return built.find(name)


def list_controls(library: Path, name: str) -> list[str]:
    """Return the congestion controls that a library declares, asked in a process of its own. Raises InputError."""
    script = Path(__file__).with_name("describe.py")
    command = [sys.executable, "-I", "-S", str(script), str(library)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DESCRIBE_S)
        if answer.returncode == 0:
            return [str(control) for control in json.loads(answer.stdout)]
        found = escape_line(
            answer.stderr.strip().splitlines()[-1] if answer.stderr.strip() else f"status {answer.returncode}"
        )
    except subprocess.TimeoutExpired:
        found = f"nothing for {DESCRIBE_S:g} s"
    except ValueError as error:
        found = escape_line(str(error))
    raise Failed(
        f"the library does not say what it is: {found}", "a stack that can be loaded", command="stack build", key=name
    )
