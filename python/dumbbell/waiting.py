"""Waits that Ctrl-C ends at once."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from dumbbell import _native
from dumbbell.errors import Failed, escape_line

_T = TypeVar("_T")


def restore_ctrl_c() -> None:
    """Let Ctrl-C reach the main thread at once again, which calls this before it waits.

    polars handles SIGINT from its import on. A wait that the signal interrupts then goes on (SA_RESTART), and Python's
    own handler is not looked at before it is over; while another thread is inside of polars, it does not get the signal
    at all.
    """
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def run_engine(command: str, run: Callable[..., _T], config: str, *words: Any, **options: Any) -> _T:
    """Call `run` of the engine in a thread of its own, so that Ctrl-C cancels it. Raises InputError."""
    cancel = _native.Cancel()
    with ThreadPoolExecutor(1) as pool:
        restore_ctrl_c()
        running = pool.submit(run, config, cancel, *words, **options)
        try:
            return running.result()
        except KeyboardInterrupt:
            cancel.cancel()
            raise
        except RuntimeError as error:
            raise Failed(escape_line(str(error)), "a run that can be carried out", command=command) from None
