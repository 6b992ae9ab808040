"""Progress of a sweep: a bar with the time left, on standard error or in a notebook, or told to a function."""

import time
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dumbbell import _native
from dumbbell.experiment.file import Cell

# whether to show a progress bar (default: on a terminal), or a callback (done, total)
ProgressTold = bool | Callable[[int, int], None] | None


class Bar:
    """Progress of what is left. `left` returns how many runs that is and how many packets, if they are wanted."""

    def __init__(self, left: Callable[[], tuple[int, float]], told: ProgressTold) -> None:
        console = Console(stderr=True)
        self._told = told if callable(told) else None
        self._shown = told is not False and self._told is None and (console.is_terminal or console.is_jupyter)
        runs = TextColumn("{task.fields[runs]}")
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), runs, TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not self._shown)
        counted = self._shown or self._told is not None
        self._total, self._work = left() if counted else (0, 0.0)
        self._runs = 0
        self._done, self._updated = 0.0, 0.0
        self._task = self._progress.add_task("runs", total=self._work or None, runs="")

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def finish(self, cell: Cell) -> None:
        """Count a run that has ended."""
        self._runs += 1
        self._done += cell.packets
        if self._told is not None:
            self._told(self._runs, max(self._runs, self._total))

    def update(self, running: Iterable[tuple[Cell, _native.Progress]]) -> None:
        """Show how far the runs are."""
        if self._shown and time.monotonic() - self._updated > 0.1:
            self._updated = time.monotonic()
            parts = sum(cell.packets * min(1.0, p.simulated / max(1, cell.duration)) for cell, p in running)
            self._progress.update(
                self._task, completed=self._done + parts, runs=f"{self._runs}/{max(self._runs, self._total)}"
            )
