"""Processes of this machine: cores, locks of files, and children that end with us."""

import contextlib
import ctypes
import fcntl
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

GRACE_S = 5.0  # for children to end when told to
_PR_SET_PDEATHSIG = 1  # prctl(2)
# a shell that leads the child's process group, and ends all of it when told to end
_TOGETHER = """trap 'trap - TERM; kill 0' TERM; "$@" & wait $!"""
_prctl = getattr(ctypes.CDLL(None), "prctl", None)  # looked up before a fork, where nothing may be loaded


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lock_file(file: int, seconds: float, tell: Callable[[], None] = lambda: None) -> None:
    """Lock an open file for us alone; raises TimeoutError if somebody else has it for more than `seconds`.

    `tell` is called once if there is a wait of more than a second.
    """
    begun = time.monotonic()
    until, told_at = begun + seconds, begun + 1
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError from None
            if time.monotonic() > told_at:
                told_at = math.inf
                tell()
            time.sleep(0.1)


def group_command(command: list[str]) -> list[str]:
    """Return a command that carries out `command` in a session of its own, and ends all of it when told to end."""
    return ["sh", "-c", _TOGETHER, "sh", *command]


def end_with_parent() -> None:
    """Have the kernel end this child when its parent dies, however it dies; only Linux can."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def start_group(
    command: list[str], lock: int, folder: Path | None, environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a child with a process group of its own, all of which ends with the block, or with us if we are killed.

    Its output, errors too, is in `stdout`. It has the file `lock` open, and so holds its lock, until it has ended.
    """
    child = subprocess.Popen(
        group_command(command),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=end_with_parent,
        pass_fds=(lock,),
    )
    try:
        assert child.stdout is not None
        with child.stdout:
            yield child
    finally:
        end_group(child)


def end_group(child: "subprocess.Popen[bytes]") -> None:
    """End the child and what it has started, if any of it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        if child.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_S)
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
