"""The command line: how it starts and how it ends. What has no command, `--version`, waits for no import of typer."""

from __future__ import annotations

import codecs
import contextlib
import gc
import os
import sys
from typing import TYPE_CHECKING

from dumbbell.cli.status import BAD_INPUT, DONE, FAILED, FAULT, INTERRUPTED, LineError, format_version
from dumbbell.errors import MOST_TOLD, InputError, escape_line, speak_as_command_line

if TYPE_CHECKING:
    from typing import Any, Never

_OBJECTS = 500_000  # between two looks for cycles: imports, and runs of a sweep, make many objects and hardly any cycle


def main() -> None:
    """Run the command line and leave with its exit status.

    0 done, 1 runs failed, 2 bad input, 70 an internal error of dumbbell, 130 interrupted.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the process that started this
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115  for the rest of the process
        _write_anything(getattr(sys, name))
    gc.set_threshold(_OBJECTS)
    with speak_as_command_line():
        status = _carry_out()
    _leave(status or DONE)


def _carry_out() -> int:
    """Carry out the command and return its exit status; leaves with a line on standard error if there is an error."""
    try:
        words = sys.argv[1:] or ["--help"]
        if words == ["--version"]:  # as --version elsewhere, but without an import
            print(format_version())
            sys.stdout.flush()
            return DONE
        from dumbbell.cli import commands

        status = commands.carry_out(words)
        sys.stdout.flush()
    except InputError as error:
        _leave(BAD_INPUT, _format_error(error))
    except LineError as error:
        _leave(BAD_INPUT, f"dumbbell: {error}")
    except KeyboardInterrupt:
        _leave(INTERRUPTED)
    except BrokenPipeError:
        _leave(FAILED)
    except OSError as error:
        place = escape_line(str(error.filename or "standard output"))
        _leave(BAD_INPUT, f"{place}: cannot write: {(error.strerror or str(error)).lower()}")
    except Exception as error:
        if os.environ.get("DUMBBELL_TRACEBACK"):
            raise
        _leave(FAULT, _report_fault(error))
    return status


def _format_error(error: InputError) -> str:
    """Return the lines of an error, on a terminal with the place in the file below each."""
    if not sys.stderr.isatty() or not any(one.excerpt for one in error.errors):
        return str(error)
    shown = error.errors[:MOST_TOLD]
    lines = [part for one in shown for part in (str(one), one.excerpt) if part]
    return "\n".join([*lines, *str(error).splitlines()[len(shown) :]])


def _report_fault(error: Exception) -> str:
    """Return one line for an error that nobody foresaw, and keep how it came about in a file."""
    import tempfile
    import traceback

    what = escape_line(f"{type(error).__name__}: {error}")[:200]
    said = f"dumbbell: internal error of dumbbell, not of your input: {what}"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="dumbbell-", suffix=".log", delete=False, encoding="utf-8") as log:
            log.write(f"dumbbell {sys.argv[1:]}\n{''.join(traceback.format_exception(error))}")
    except OSError:
        return f"{said} (DUMBBELL_TRACEBACK=1 shows where)"
    return f"{said} (where it happened is in {log.name})"


_PLAIN = {"±": "+-", "µ": "u", "–": "-", "…": "...", "×": "x", "²": "^2"}  # noqa: RUF001  what they are written as


def _write_anything(stream: Any) -> None:
    """Let a stream write what its encoding lacks in other words, or escaped."""

    def encode_plainly(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        found = error.object[error.start : error.end]
        return "".join(_PLAIN.get(c, c.encode("ascii", "backslashreplace").decode()) for c in found), error.end

    codecs.register_error("dumbbell.plain", encode_plainly)
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="dumbbell.plain")


def _leave(status: int, line: str = "") -> Never:
    """End with `status` after `line`; output that cannot be written is dropped."""
    for stream, text in ((sys.stdout, ""), (sys.stderr, f"{line}\n" if line else "")):
        try:
            stream.write(text)
            stream.flush()
        except OSError:
            # what is left in the buffer would fail once more when Python ends
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(status)
