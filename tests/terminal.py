"""A program on a terminal of its own, whose keys a test presses."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path
from typing import Any

RESTORED = "\x1b[?1049l"  # the screen that was there before


def echoes(modes: list[Any]) -> bool:
    """Whether a terminal is as a shell has it: with echo, line by line."""
    return bool(modes[3] & termios.ECHO) and bool(modes[3] & termios.ICANON)


class Terminal:
    """A program on a terminal of 100 columns."""

    def __init__(self, folder: Path, *words: str, kind: str = "xterm") -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored below a shell's &
            os.environ |= {"TERM": kind, "COLUMNS": "100", "LINES": "30"}
            os.execv(sys.executable, [sys.executable, "-m", "dumbbell", *words])
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.modes = self.now()
        self.said = b""
        self.status: int | None = None

    def now(self) -> list[Any]:
        """Return the modes of the terminal."""
        return termios.tcgetattr(self.master)

    def comes(self, wanted: str, seconds: float = 30.0) -> bool:
        """Whether a text comes; what was before it is forgotten."""
        deadline = time.monotonic() + seconds
        while wanted.encode() not in self.said and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.said += os.read(self.master, 65536)
                except OSError:
                    break
        found = wanted.encode() in self.said
        self.said = self.said.partition(wanted.encode())[2] if found else self.said
        return found

    def press(self, key: str) -> None:
        """Press a key."""
        os.write(self.master, key.encode())

    def ends(self, seconds: float = 20.0) -> int:
        """Return the exit status; a program that goes on is killed, and has none."""
        deadline = time.monotonic() + seconds
        while self.status is None and time.monotonic() < deadline:
            self.comes("\0never", 0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        assert self.status is not None, self.said
        return self.status

    def close(self) -> None:
        """End the program, if it goes on."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        os.close(self.master)
