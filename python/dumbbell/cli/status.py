"""Exit statuses of the command line, its version, and its error for lines that name no command."""

from dumbbell._native import engine_version

DONE, FAILED, BAD_INPUT, FAULT, INTERRUPTED = 0, 1, 2, 70, 130  # 70 is EX_SOFTWARE of sysexits.h
DIFFERENT = 1  # `dumbbell diff`


class LineError(Exception):
    """A line whose command or options do not exist; the text says which."""


def format_version() -> str:
    """Return the versions of the package and of its simulator, which are built together."""
    return f"dumbbell {engine_version().partition('+')[0]} (engine {engine_version()})"
