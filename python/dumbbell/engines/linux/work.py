"""One build at work: its lock, its log and its child processes."""

import os
import re
import selectors
from collections.abc import Callable
from pathlib import Path

from dumbbell.engines.progress import StepProgress
from dumbbell.errors import InUse, escape_line
from dumbbell.processes import lock_file, start_group

TICK_S = 0.25  # between looks at the progress of a child
LOCK_WAIT_S = 10.0  # for what a killed build left running, which ends by itself


class KernelWork:
    """A build's folder while one process works in it. Raises InputError if another one does."""

    def __init__(self, place: Path, told: StepProgress) -> None:
        self.place, self.told, self.log = place, told, place / "log"
        place.parent.mkdir(parents=True, exist_ok=True)
        # next to the folder, which may be removed; no kernel's name begins with a dot
        self._lock = place.with_name(f".{place.name}.lock").open("a+b")

    def __enter__(self) -> "KernelWork":
        try:
            lock_file(self._lock.fileno(), LOCK_WAIT_S)
        except TimeoutError:
            allowed = f"wait until it ends, or end it (log: {self.log})"
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
            environment = _make_environment()
            with start_group(command, self._lock.fileno(), folder, environment) as child:
                assert child.stdout is not None
                rest = b""
                with selectors.DefaultSelector() as selector:
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

    def find_complaint(self, pattern: str, start: int = 0) -> str:
        """Return the first line of the log, from byte `start` on, that matches `pattern`, else its last one."""
        last = ""
        with self.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(start)
            for text in log:
                if re.search(pattern, text):
                    return escape_line(text.strip())
                last = text.strip() or last
        return escape_line(last)


def _make_environment() -> dict[str, str]:
    """Return our environment without what would change a build, such as that of a make around us."""
    theirs = re.compile(
        r"(MAKE|MFLAGS|KBUILD_|KCONFIG_|KC[PF]|ARCH$|SUBARCH$|CROSS_COMPILE$|[OVCWM]$|PATCH_|TAR_OPTIONS$|LOCALVERSION$)"
    )
    return {name: value for name, value in os.environ.items() if not theirs.match(name)} | {"LC_ALL": "C"}
