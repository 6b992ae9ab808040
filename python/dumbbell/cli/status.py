"""Exit statuses of the command line."""

DONE, FAILED, BAD_INPUT, FAULT, INTERRUPTED = 0, 1, 2, 70, 130  # 70 is EX_SOFTWARE of sysexits.h


class LineError(Exception):
    """A line whose command or options do not exist; the text says which."""
