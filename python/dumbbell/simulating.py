"""`dumbbell.simulate` and `dumbbell.simulate_many`: results in memory, without a file."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, overload

from dumbbell import _native
from dumbbell.engines.base import Ended
from dumbbell.engines.in_flight import LOOK_S, RunsInFlight
from dumbbell.engines.sim import Simulator
from dumbbell.engines.sweep import check_workers, open_workers
from dumbbell.errors import InputError, OutOfRange, combine_errors, escape_line, parse_engine_error, quote_value
from dumbbell.experiment import plugins
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.given import Given, read_given
from dumbbell.experiment.settings import Settings, split_settings
from dumbbell.results.in_memory import RunsInMemory
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.results import StoredResults
from dumbbell.notebook import Results
from dumbbell.words import format_count

AHEAD = 1024  # experiments that are taken before the results of the first of them are


def simulate(experiment: Given, overrides: Settings = (), *, seed: int | None = None, jobs: int | None = None) -> Results:
    """Simulate an experiment and return what its runs measured, in memory."""
    check_workers(jobs, None, "simulate")
    cells = list(_list_cells(experiment, overrides, seed))
    if len(cells) == 1 and not plugins.find_plugins(cells[0].groups):
        return collect_results([Finished(cells[0], _simulate_here(cells[0]))])
    with closing(_carry_out(iter([_Item(0, cells)]), jobs, None, ordered=True, ahead=1)) as found:
        (item,) = found
    return item.collect()


def _list_cells(experiment: Given, overrides: Settings, seed: int | None) -> Iterator[Cell]:
    settings = split_settings(overrides)
    if seed is not None:
        settings.append(("seeds", [seed]))
    checked = read_given(experiment, dict(settings))
    return checked.make_cells()


def _simulate_here(cell: Cell) -> MeasuredRun:
    started = time.perf_counter()
    try:
        result = _native.run(cell.config, _native.Cancel())
    except Exception as error:
        raise _name_failure(cell, error) from None
    return MeasuredRun(time.perf_counter() - started, result)


def _name_failure(cell: Cell, error: BaseException) -> BaseException:
    """Return what is raised for a run that failed."""
    if isinstance(error, InputError | KeyboardInterrupt):
        return error
    if isinstance(error, ValueError):
        return parse_engine_error(cell.experiment, error)
    settings = "".join(f", {key} {value}" for key, value in cell.matrix.items())
    text = escape_line(str(error)) or type(error).__name__
    return RuntimeError(f"{cell.experiment}{settings}, seed {cell.seed}: {text}")


def collect_results(runs: list[Finished]) -> Results:
    """Return results of finished runs, in memory."""
    return Results(StoredResults(RunsInMemory(runs)))


@dataclass
class _Item:
    """An experiment of `simulate_many`, and how its runs have ended."""

    number: int
    cells: list[Cell]
    ended: dict[int, MeasuredRun] = field(default_factory=dict)
    error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether all runs have ended, or one has failed."""
        return self.error is not None or len(self.ended) == len(self.cells)

    def collect(self) -> Results:
        if self.error is not None:
            raise self.error
        return collect_results([Finished(cell, self.ended[id(cell)]) for cell in self.cells])


def simulate_many(
    experiments: Iterable[Given | tuple[Given, Settings]],
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    ordered: bool = True,
    ahead: int = AHEAD,
) -> Iterator[Results]:
    """Yield the results of experiments."""
    check_workers(jobs, cluster, "simulate_many")

    def read() -> Iterator[_Item]:
        for number, one in enumerate(experiments):
            given, overrides = one if isinstance(one, tuple) else (one, ())
            try:
                yield _Item(number, list(_list_cells(given, overrides, None)))
            except InputError as error:
                yield _Item(number, [], error=error)

    with closing(_carry_out(read(), jobs, cluster, ordered=ordered, ahead=ahead)) as found:
        for item in found:
            yield item.collect()


def _carry_out(
    items: Iterator[_Item], jobs: int | None, cluster: str | None, *, ordered: bool, ahead: int
) -> Iterator[_Item]:
    """Yield experiments whose runs have ended: in order, or as they end."""
    waiting: dict[int, _Item] = {}  # by number, in order: taken and not yielded
    of_cells: dict[int, _Item] = {}
    left: deque[Cell] = deque()  # of items that were taken, not begun

    def take_cells() -> Iterator[Cell]:
        while True:
            while not left and len(waiting) < ahead and (item := next(items, None)) is not None:
                waiting[item.number] = item
                of_cells.update((id(cell), item) for cell in item.cells)
                left.extend(item.cells)
            if not left:
                return
            yield left.popleft()

    with open_workers(jobs, cluster, Simulator()) as workers:
        flight = RunsInFlight(workers)
        while True:
            while flight.has_room and flight.begin(take_cells()):
                pass
            if not waiting:
                return
            if not _list_next(waiting, ordered=ordered):
                for cell, ended in flight.take(0.0 if flight.has_room else LOOK_S):
                    item = of_cells.pop(id(cell))
                    if isinstance(ended, MeasuredRun):
                        item.ended[id(cell)] = ended
                    else:
                        item.error = item.error or _name_failure(cell, ended)
            for item in _list_next(waiting, ordered=ordered):
                yield waiting.pop(item.number)


def _list_next(waiting: dict[int, _Item], *, ordered: bool) -> list[_Item]:
    """Return what may be yielded next: the first experiments that are over, or all of them."""
    if not ordered:
        return [item for item in waiting.values() if item.is_over]
    return list(takewhile(lambda item: item.is_over, waiting.values()))
