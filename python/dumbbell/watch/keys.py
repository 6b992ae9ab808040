"""Keys of a terminal, one by one; the terminal is put back as it was, however that ends."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import threading
import time
import tty
from types import FrameType
from typing import Any, Self

from dumbbell.waiting import restore_ctrl_c

_SEQUENCES = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_SEQUENCE = re.compile(r"\x1b[\[O][0-9;]*([A-Za-z~])")
_TERMINATED = 128 + signal.SIGTERM


def parse_keys(text: str) -> list[str]:
    """Return the keys that a text from a terminal stands for; arrows by their names, unknown sequences not at all."""
    found = []
    while text:
        if sequence := _SEQUENCE.match(text):
            found += [_SEQUENCES[sequence[1]]] if sequence[1] in _SEQUENCES else []
            text = text[sequence.end() :]
        else:
            found.append(text[0])
            text = text[1:]
    return found


class Keyboard:
    """Standard input without echo and without lines, if it is a terminal; else no key is ever pressed."""

    def __init__(self) -> None:
        self._terminal = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
        self._before: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._keys: list[str] = []

    @property
    def is_there(self) -> bool:
        """Whether keys can be pressed."""
        return self._terminal is not None

    def __enter__(self) -> Self:
        if self._terminal is not None:
            self._before = termios.tcgetattr(self._terminal)
            self._take()
            restore_ctrl_c()
            if threading.current_thread() is threading.main_thread():
                self._handlers = {
                    signal.SIGTERM: signal.signal(signal.SIGTERM, self._end),
                    signal.SIGCONT: signal.signal(signal.SIGCONT, self._continue),
                }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self._terminal is not None:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)

    def _take(self) -> None:
        assert self._terminal is not None
        tty.setcbreak(self._terminal, termios.TCSANOW)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        raise SystemExit(_TERMINATED)

    def _continue(self, _number: int, _frame: FrameType | None) -> None:
        self._take()  # the shell had put the terminal back meanwhile

    def read(self, seconds: float) -> str:
        """Return the next key, after this time at the latest; empty if none was pressed."""
        if self._keys:
            return self._keys.pop(0)
        if self._terminal is None:
            time.sleep(seconds)
            return ""
        if not select.select([self._terminal], [], [], seconds)[0]:
            return ""
        try:
            data = os.read(self._terminal, 64)
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            return "q"
        self._keys = parse_keys(data.decode(errors="ignore"))
        return self._keys.pop(0) if self._keys else ""
