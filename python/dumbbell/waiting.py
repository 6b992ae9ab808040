"""Waits that Ctrl-C ends at once."""

import signal
import threading


def restore_ctrl_c() -> None:
    """Let Ctrl-C reach the main thread at once again, which calls this before it waits.

    polars handles SIGINT from its import on. A wait that the signal interrupts then goes on (SA_RESTART), and Python's
    own handler is not looked at before it is over; while another thread is inside of polars, it does not get the signal
    at all.
    """
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)
