"""Progress of builds, and of sweeps: a bar with the time left, on standard error, in a notebook, or as a function."""

import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from dumbbell import _native
from dumbbell.experiment.cell import Cell

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# whether to show a progress bar (default: on a terminal), or a callback (done, total)
ProgressTold = bool | Callable[[int, int], None] | None
_QUIET_EVERY_S = 30.0  # between lines of progress where nobody sees a bar
_TERMINAL = ("FORCE_COLOR", "TTY_COMPATIBLE")  # variables by which rich takes anything for a terminal


def _make_bar() -> "Progress | None":
    """Return a bar, where there is a terminal or a notebook to show it."""
    if not ((sys.stderr and sys.stderr.isatty()) or "IPython" in sys.modules or any(map(os.environ.get, _TERMINAL))):
        return None  # and no need to import what draws one
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (console.is_terminal or (console.is_jupyter and importlib.util.find_spec("ipywidgets"))):
        return None  # without that package rich draws a warning in a notebook, and no bar
    runs = TextColumn("{task.fields[runs]}")
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), runs, TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)


class Bar:
    """Progress of what is left. `left` returns how many runs that is and how many packets, if they are wanted."""

    def __init__(self, left: Callable[[], tuple[int, float]], told: ProgressTold) -> None:
        self._told = told if callable(told) else None
        self._bar = None if told is False or self._told is not None else _make_bar()
        counted = self._bar is not None or self._told is not None
        self._total, self._work = left() if counted else (0, 0.0)
        self._runs = 0
        self._done, self._updated = 0.0, 0.0
        self._task: TaskID | None = None

    def __enter__(self) -> "Bar":
        if self._bar is not None:
            self._task = self._bar.add_task("runs", total=self._work or None, runs="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def finish(self, cell: Cell) -> None:
        """Count a run that has ended."""
        self._runs += 1
        self._done += cell.packets
        if self._told is not None:
            self._told(self._runs, max(self._runs, self._total))

    def update(self, running: Iterable[tuple[Cell, _native.Progress]]) -> None:
        """Show how far the runs are."""
        if self._bar is not None and self._task is not None and time.monotonic() - self._updated > 0.1:
            self._updated = time.monotonic()
            parts = sum(cell.packets * min(1.0, p.simulated / max(1, cell.duration)) for cell, p in running)
            self._bar.update(
                self._task, completed=self._done + parts, runs=f"{self._runs}/{max(self._runs, self._total)}"
            )


class StepProgress:
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

    def print_line(self, line: str) -> None:
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
        self.print_line(f"  {name:10} {', '.join([*result, f'{time.monotonic() - self._begun:.0f} s'])}")

    def advance(self, done: float, total: float | None, unit: str) -> None:
        """Say that the step has done `done` of about `total`."""
        counts = f"{done:.0f} of {total:.0f} {unit}" if total and done <= total else f"{done:.0f} {unit}"
        if self._shown:
            self._bar.update(self._bar.task_ids[-1], completed=done, total=total if total else None, counts=counts)
        elif time.monotonic() - self._said >= _QUIET_EVERY_S:
            self._said = time.monotonic()
            self.print_line(f"  {self._step:10} {counts}, {self._said - self._begun:.0f} s so far")
