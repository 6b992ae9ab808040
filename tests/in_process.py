"""The command line without a start of Python: what `python -m dumbbell` does, in this process.

What a process would own is set up for the command and put back after it: folder, standard streams with their file
descriptors, environment, `sys.argv`, `sys.path`, filters of warnings, and the modules that it imported from its folder.
Signals, terminals, kills, times and what Python itself reads at its start need a process (`conftest.process`).
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TextIO

from dumbbell.cli import program

COMMAND = (sys.executable, "-m", "dumbbell")
INSTALLED = (Path(sys.prefix), Path(program.__file__).parents[1])


def run(
    arguments: list[str], folder: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Carry out `dumbbell ARGUMENTS` in `folder`, with more variables of the environment if there are any."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _streams(out, err), _own(arguments, folder, environment or {}):
            status = _status()
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
        said = [_text(file) for file in (out, err)]
    return subprocess.CompletedProcess([*COMMAND, *arguments], status, *said)


def _status() -> int:
    """Return the exit status that Python makes of how the command ends."""
    try:
        program.main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # as Python does with what nobody catches
        traceback.print_exc()
        return 1
    return 0


@contextlib.contextmanager
def _streams(out: IO[bytes], err: IO[bytes]) -> Iterator[None]:
    """Let the standard streams, and what child processes take for them, be two files and an empty input."""
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        stream.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        with open(os.devnull, encoding="utf-8") as nothing, _text_of(1) as stdout, _text_of(2) as stderr:  # noqa: PTH123
            sys.stdin, sys.stdout, sys.stderr = nothing, stdout, stderr
            yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for number, place in kept.items():
            os.dup2(place, number)
            os.close(place)


def _text_of(number: int) -> TextIO:
    return open(number, "w", encoding="utf-8", closefd=False)


def _text(file: IO[bytes]) -> str:
    """Return what was written to a file, with the ends of lines as subprocess gives them."""
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")


@contextlib.contextmanager
def _own(arguments: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Set up what a process owns beside its streams, and put back what was there."""
    words, paths, modules, variables = sys.argv, list(sys.path), set(sys.modules), dict(os.environ)
    with contextlib.chdir(folder), warnings.catch_warnings():
        _warn_as_at_a_start()
        sys.argv = ["dumbbell", *arguments]
        sys.path.insert(0, str(folder))
        os.environ.update(environment)
        try:
            yield
        finally:
            sys.argv, sys.path[:] = words, paths
            for name in set(sys.modules) - modules:
                place = Path(getattr(sys.modules[name], "__file__", None) or os.devnull)
                # what is installed stays, also where its folder is below this one: a second copy has other classes
                if place.is_relative_to(folder.resolve()) and not any(map(place.is_relative_to, INSTALLED)):
                    del sys.modules[name]
            os.environ.clear()
            os.environ.update(variables)


def _warn_as_at_a_start() -> None:
    """Print the warnings that Python prints if nobody says which, on the standard error of the moment."""
    warnings.resetwarnings()
    for category in (ResourceWarning, ImportWarning, PendingDeprecationWarning, DeprecationWarning):
        warnings.simplefilter("ignore", category)

    def told(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))

    warnings.showwarning = told
