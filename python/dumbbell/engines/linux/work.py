"""One build at work: its lock, its log, its child processes, and what it tells the user meanwhile."""

import contextlib
import ctypes
import fcntl
import math
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dumbbell.errors import InUse, one_line

TICK_S = 0.25  # between looks at the progress of a child
GRACE_S = 5.0  # for children to end when told to
LOCK_WAIT_S = 10.0  # for what a killed build left running, which ends by itself
QUIET_EVERY_S = 30.0  # between lines of progress where nobody sees a bar
_PR_SET_PDEATHSIG = 1  # prctl(2)
# a shell that leads the child's process group, and ends all of it when told to end
_TOGETHER = """trap 'trap - TERM; kill 0' TERM; "$@" & wait $!"""
_prctl = ctypes.CDLL(None).prctl


class Told:
    """Tells the user on standard error which step is at work and how far: a bar in a terminal, lines elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description:10}"),
            BarColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._shown = console.is_terminal
        self._step, self._begun, self._said = "", 0.0, 0.0

    def say(self, line: str) -> None:
        """Print a line."""
        print(line, file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Show that the step `name` is at work, then print what the list got meanwhile, with the time it took."""
        self._step, self._begun = name, time.monotonic()
        self._said = self._begun
        task = self._bar.add_task(name, total=None, counts="")
        result: list[str] = []
        self._bar.start()
        try:
            yield result
        finally:
            self._bar.stop()
            self._bar.remove_task(task)
        self.say(f"  {name:10} {', '.join([*result, f'{time.monotonic() - self._begun:.0f} s'])}")

    def advance(self, done: float, total: float | None, unit: str) -> None:
        """Say that the step has done `done` of about `total`."""
        counts = f"{done:.0f} of {total:.0f} {unit}" if total and done <= total else f"{done:.0f} {unit}"
        if self._shown:
            self._bar.update(self._bar.task_ids[-1], completed=done, total=total if total else None, counts=counts)
        elif time.monotonic() - self._said >= QUIET_EVERY_S:
            self._said = time.monotonic()
            self.say(f"  {self._step:10} {counts}, {self._said - self._begun:.0f} s so far")


class Work:
    """A build's folder while one process works in it. Raises InputError if another one does."""

    def __init__(self, place: Path, told: Told) -> None:
        self.place, self.told, self.log = place, told, place / "log"
        place.parent.mkdir(parents=True, exist_ok=True)
        # next to the folder, which may be removed; no kernel's name begins with a dot
        self._lock = place.with_name(f".{place.name}.lock").open("a+b")

    def __enter__(self) -> "Work":
        try:
            lock(self._lock.fileno(), LOCK_WAIT_S)
        except TimeoutError:
            allowed = f"wait for its end, or end it (log: {self.log})"
            raise InUse("another build of this kernel", allowed, command="linux build", key=self.place.name) from None
        self.place.mkdir(exist_ok=True)
        self.log.write_bytes(b"")
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def run(
        self,
        command: list[str],
        *,
        folder: Path | None = None,
        line: Callable[[str], None] | None = None,
        tick: Callable[[], None] | None = None,
    ) -> int:
        """Run `command`, its output into the log, and return its exit status.

        It and all its children end with us: by Ctrl-C, by any error, and, as the kernel tells them, if we are killed.
        They hold the lock until they have ended.
        """
        with self.log.open("ab", buffering=0) as log:
            log.write(f"$ {' '.join(command)}\n".encode(errors="replace"))
            child = subprocess.Popen(
                together(command),
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
                pass_fds=(self._lock.fileno(),),
            )
            try:
                assert child.stdout is not None
                rest = b""
                with child.stdout, selectors.DefaultSelector() as selector:
                    selector.register(child.stdout, selectors.EVENT_READ)
                    while True:
                        if tick is not None:
                            tick()
                        if not selector.select(TICK_S):
                            continue
                        if not (piece := os.read(child.stdout.fileno(), 1 << 16)):
                            break
                        log.write(piece)
                        *lines, rest = (rest + piece).split(b"\n")
                        if line is not None:
                            for one in lines:
                                line(one.decode(errors="replace"))
                return child.wait()
            finally:
                _end(child)

    def complaint(self, pattern: str, start: int = 0) -> str:
        """Return the first line of the log, from byte `start` on, that matches `pattern`, else its last one."""
        last = ""
        with self.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(start)
            for text in log:
                if re.search(pattern, text):
                    return one_line(text.strip())
                last = text.strip() or last
        return one_line(last)


def lock(file: int, seconds: float, tell: Callable[[], None] = lambda: None) -> None:
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


def _environment() -> dict[str, str]:
    """Return our environment without what would change a build, such as that of a make around us."""
    theirs = re.compile(
        r"(MAKE|MFLAGS|KBUILD_|KCONFIG_|KC[PF]|ARCH$|SUBARCH$|CROSS_COMPILE$|[OVCWM]$|PATCH_|TAR_OPTIONS$|LOCALVERSION$)"
    )
    return {name: value for name, value in os.environ.items() if not theirs.match(name)} | {"LC_ALL": "C"}


def together(command: list[str]) -> list[str]:
    """Return a command that carries out `command` in a session of its own, and ends all of it when told to end."""
    return ["sh", "-c", _TOGETHER, "sh", *command]


def end_with_parent() -> None:
    """Have the kernel end this child when its parent dies, however it dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and what it has started, if any of it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        if child.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_S)
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
