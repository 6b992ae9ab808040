"""Waits that Ctrl-C ends at once."""

import signal


def hear_ctrl_c() -> None:
    """Let Ctrl-C end waits for other threads and processes again.

    polars handles SIGINT from its import on, with the flag that a wait which it interrupts goes on (SA_RESTART).
    Python's own handler, which polars calls, then is not looked at before the wait is over.
    """
    signal.siginterrupt(signal.SIGINT, True)
