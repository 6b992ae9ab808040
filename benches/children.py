"""Processes whose CPU time and memory are measured."""

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOOK = 0.01  # s between two looks at the memory


@dataclass(frozen=True)
class Child:
    """A process that has ended: what it printed, seconds of CPU time, and the most memory that it had, in MB."""

    printed: str
    cpu: float
    memory: float


def _read_peak(process: int) -> float:
    """Return the most memory that a process has had so far, in MB; 0 if it has ended, or where /proc does not say."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM:"))
    return next((float(words[1]) * 1024 / 1e6 for words in lines), 0.0)


def run(command: Sequence[str | Path], text: str = "", environment: dict[str, str] | None = None) -> Child:
    """Run a command that reads `text`.

    Its memory is looked at while it runs: the peak that the system tells at its end is at least this process's own.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as given, tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        given.write(text)
        given.seek(0)
        process = subprocess.Popen(command, stdin=given, stdout=out, env=environment)
        memory = 0.0
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            memory = _read_peak(process.pid) or memory
            time.sleep(LOOK)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        printed = out.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed with {process.returncode}:\n{printed}")
    return Child(printed, usage.ru_utime + usage.ru_stime, memory or usage.ru_maxrss / 1000)
