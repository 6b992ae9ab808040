"""`dumbbell.simulate` and `dumbbell.simulate_many`: what runs measure, in memory and without a file."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import takewhile
from typing import Literal, overload

from dumbbell import _native
from dumbbell.engines.base import Ended
from dumbbell.engines.in_flight import RunsInFlight
from dumbbell.engines.sim import Simulator
from dumbbell.engines.sweep import check_workers, open_workers
from dumbbell.errors import (
    InputError,
    WrongValue,
    check_count,
    combine_errors,
    escape_line,
    parse_engine_error,
)
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.given import Given, make_cells, read_given
from dumbbell.experiment.settings import Settings, split_settings
from dumbbell.notebook import Results
from dumbbell.results.in_memory import RunsInMemory
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.results import StoredResults

AHEAD = 1024  # experiments that are taken while results of the first of them are still to come


def simulate(
    experiment: Given, overrides: Settings = (), *, seed: int | None = None, jobs: int | None = None
) -> Results:
    """Simulate an experiment and return what its runs measured, in memory: no file is written.

    The results are those of `dumbbell.run`: the same tables, values and digests, of every run of the experiment. If it
    is one run, `summary`, `digest`, `series` and `explain` tell of it. They can be pickled and kept with `save`.

    `experiment` is a file, a shipped one by name, the table of such a file or, which is fastest for many calls, one
    that is checked: `dumbbell.load(FILE)`. `overrides` replace keys, `{"bottleneck.rate": "40Mbit"}` or
    `["bottleneck.rate=40Mbit"]`, and `seed` the seeds. Several runs are carried out on `jobs` cores (all by default),
    one run in the thread that calls.

    Raises InputError (a ValueError) on bad input, RuntimeError if a run fails, and KeyboardInterrupt on Ctrl-C.
    """
    check_workers(jobs, None, "simulate")
    task = _Task(experiment, overrides, seed)
    # plugins run in processes of their own
    if task.error is None and len(task.cells) == 1 and not task.cells[0].has_plugin_text:
        task.end(0, _simulate_here(task.cells[0]))
    else:
        with closing(_carry_out(iter([task]), jobs, None, ordered=True, ahead=1)) as ended:
            deque(ended, maxlen=0)
    return task.collect()


@overload
def simulate_many(
    experiments: Iterable[Given | tuple[Given, Settings]],
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    ordered: bool = True,
    ahead: int = AHEAD,
    return_exceptions: Literal[False] = False,
) -> Iterator[Results]: ...
@overload
def simulate_many(
    experiments: Iterable[Given | tuple[Given, Settings]],
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    ordered: bool = True,
    ahead: int = AHEAD,
    return_exceptions: Literal[True],
) -> Iterator[Results | Exception]: ...
def simulate_many(
    experiments: Iterable[Given | tuple[Given, Settings]],
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    ordered: bool = True,
    ahead: int = AHEAD,
    return_exceptions: bool = False,
) -> Iterator[Results] | Iterator[Results | Exception]:
    """Simulate many experiments at once and yield the results of each, as `simulate` returns them.

    An experiment is what `simulate` takes, or a tuple of that and overrides: `(experiment, {"seeds": [7]})`. Results
    come in the order of the experiments or, unless `ordered`, as they end; `results.item` counts the experiments
    from 0. `experiments` may be a generator without an end: at most `ahead` are taken from it whose results were not
    yielded yet.

    Runs are carried out on `jobs` cores (all by default), in threads of this process, or by the workers of the Dask
    scheduler whose address is `cluster`. They end when the iterator is closed or no longer used.

    An experiment that cannot be run raises InputError, or RuntimeError if a run fails, whose text begins with its
    number, `item 3`; this ends the iteration. With `return_exceptions` the exception is yielded in place of results
    and the others go on. Raises KeyboardInterrupt on Ctrl-C.
    """
    check_workers(jobs, cluster, "simulate_many")
    if isinstance(experiments, str | bytes | Mapping) or not isinstance(experiments, Iterable):
        found, allowed = f"of type {type(experiments).__name__}", "a list, or a generator, of experiments"
        raise WrongValue(found, allowed, command="simulate_many", key="experiments")
    check_count(ahead, "a number of experiments, 1 or more", command="simulate_many", key="ahead")
    return _yield_results(experiments, jobs, cluster, ordered, ahead, return_exceptions)


def _yield_results(
    experiments: Iterable[Given | tuple[Given, Settings]],
    jobs: int | None,
    cluster: str | None,
    ordered: bool,
    ahead: int,
    return_exceptions: bool,
) -> Iterator[Results | Exception]:
    tasks = (_Task.read_item(one, item) for item, one in enumerate(experiments))
    with closing(_carry_out(tasks, jobs, cluster, ordered=ordered, ahead=ahead)) as ended:
        for task in ended:
            try:
                results: Results | Exception = task.collect()
            except Exception as error:
                if not return_exceptions:
                    raise
                results = error
            yield results


def collect_results(runs: list[Finished]) -> Results:
    """Return results in memory of finished runs, one or more."""
    return Results(StoredResults(RunsInMemory(runs)))


def _simulate_here(cell: Cell) -> Ended:
    """Simulate in this thread; Ctrl-C ends it."""
    started = time.perf_counter()
    try:
        result = _native.run(cell.config)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic too
        return error
    return MeasuredRun(time.perf_counter() - started, result)


class _Task:
    """An experiment to simulate, and how its runs have ended."""

    __slots__ = ("_ended", "_given", "_item", "_settings", "cells", "error")

    def __init__(self, given: Given, overrides: Settings, seed: int | None = None, *, item: int | None = None) -> None:
        """Read the experiment, one of many if `item` is its number: what is wrong with it is raised by `collect`."""
        self._given, self._settings, self._item = given, overrides, item
        self.cells: list[Cell] = []
        self.error: BaseException | None = None
        self._ended: dict[int, MeasuredRun] = {}
        try:
            if seed is not None:
                self._settings = [*split_settings(overrides), ("seeds", [seed])]
            self.cells = make_cells(given, self._settings)
        except InputError as error:
            self.error = self._find_error() or error

    @classmethod
    def read_item(cls, one: Given | tuple[Given, Settings], item: int) -> _Task:
        """Read an item of `simulate_many`: an experiment, or a tuple of one and its overrides."""
        if not isinstance(one, tuple):
            return cls(one, (), item=item)
        if len(one) == 2:
            return cls(*one, item=item)
        task = cls({}, (), item=item)
        allowed = "a tuple of an experiment and its overrides"
        task.error = WrongValue(f"a tuple of {len(one)}", allowed, key="experiment")
        return task

    def _find_error(self) -> InputError | None:
        """Return all that is wrong with the experiment, as reading it says."""
        try:
            read_given(self._given, self._settings)
        except InputError as error:
            return error
        return None

    @property
    def is_over(self) -> bool:
        """Whether all runs have ended, or one has failed."""
        return self.error is not None or len(self._ended) == len(self.cells)

    def end(self, place: int, ended: Ended) -> None:
        """Keep how the run at a place of `cells` has ended."""
        if isinstance(ended, MeasuredRun):
            self._ended[place] = ended
        elif self.error is None:
            self.error = self._explain_failure(self.cells[place], ended)

    def _explain_failure(self, cell: Cell, error: BaseException) -> BaseException:
        if isinstance(error, InputError | KeyboardInterrupt):
            return error
        if isinstance(error, ValueError):  # of the engine, which was not asked before
            return self._find_error() or parse_engine_error(cell.experiment, error)
        settings = "".join(f", {key} {value}" for key, value in cell.matrix.items())
        text = escape_line(str(error)) or type(error).__name__
        return RuntimeError(f"{cell.experiment}{settings}, seed {cell.seed}: {text}")

    def collect(self) -> Results:
        """Return what the runs measured; raises what failed, which says the number of the experiment."""
        if self.error is not None:
            raise self._number_error(self.error)
        runs = [Finished(cell, self._ended[place]) for place, cell in enumerate(self.cells)]
        results = collect_results(runs)
        results.item = self._item
        return results

    def _number_error(self, error: BaseException) -> BaseException:
        if self._item is None:
            return error
        if isinstance(error, InputError):
            errors = [one.move(one.file, f"item {self._item}: {one.key}") for one in error.errors]
            return combine_errors(errors)
        return RuntimeError(f"item {self._item}: {error}") if isinstance(error, RuntimeError) else error


def _carry_out(
    tasks: Iterator[_Task], jobs: int | None, cluster: str | None, *, ordered: bool, ahead: int
) -> Generator[_Task]:
    """Yield experiments whose runs have ended: in their order, or as they end; at most `ahead` are taken before."""
    waiting: dict[int, _Task] = {}  # by number, in order: taken and not yielded
    left: deque[Cell] = deque()  # runs of these that have not begun
    places: dict[int, tuple[_Task, int]] = {}  # of runs that have not ended, by id

    def take_cells() -> Iterator[Cell]:
        while True:
            while not left and len(waiting) < ahead and (task := next(tasks, None)) is not None:
                waiting[id(task)] = task
                for place, cell in enumerate(task.cells):
                    places[id(cell)] = task, place
                left.extend(task.cells)
            if not left:
                return
            yield left.popleft()

    def list_over() -> list[_Task]:
        over = takewhile(lambda one: one.is_over, waiting.values())
        return list(over if ordered else filter(lambda one: one.is_over, waiting.values()))

    with open_workers(jobs, cluster, Simulator()) as workers:
        flight = RunsInFlight(workers)
        while True:
            while flight.has_room and flight.begin(take_cells()):
                pass
            if not waiting:
                return
            if not list_over():
                for cell, ended in flight.take(flight.pause_s):
                    task, place = places.pop(id(cell))
                    task.end(place, ended)
            for task in list_over():
                yield waiting.pop(id(task))
