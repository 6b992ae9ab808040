"""Carries out the runs of candidates, and reduces each to one value for each objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from dumbbell import _native
from dumbbell.engines.base import Ended, Workers
from dumbbell.engines.in_flight import RunsInFlight
from dumbbell.errors import InputError, escape_line
from dumbbell.evaluate.measures import measure_runs
from dumbbell.evaluate.plan import describe_figures
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.matrix import parse_path
from dumbbell.results.in_memory import RunsInMemory
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.results import StoredResults
from dumbbell.searching.candidate import FAILED, MEASURED, REFUSED, SearchCandidate
from dumbbell.searching.ledger import Ledger, RunValues
from dumbbell.searching.objective import Objective
from dumbbell.searching.search_file import SearchPlan

_TOGETHER = 256  # runs whose tables are made and measured at once
Place = tuple[SearchCandidate, tuple[int, int]]
"""A candidate, and the cell and seed of one of its runs."""


class RunMeasurer:
    """Gets what runs of candidates measure from a ledger, or carries them out on workers and adds it there."""

    def __init__(self, plan: SearchPlan, workers: Workers, ledger: Ledger) -> None:
        self._plan, self._ledger = plan, ledger
        self._flight = RunsInFlight(workers)
        self._owners: dict[str, list[Place]] = {}
        self._ended: list[Finished] = []
        self._roles: dict[str, list[bool]] = {}
        self.carried_out = 0
        """Runs that were carried out; the others were in the ledger."""

    def measure(
        self, candidates: Sequence[SearchCandidate], seeds: int, tell: Callable[[], None] = lambda: None
    ) -> None:
        """Measure all cells of candidates with the first `seeds` seeds; `tell` is called now and then."""
        cells = self._list_missing_cells(candidates, seeds)
        while True:
            while self._flight.has_room and self._flight.begin(cells):
                pass
            if not self._flight.count:
                break
            for cell, ended in self._flight.take():
                self._take(cell, ended)
            if len(self._ended) >= _TOGETHER:
                self._settle()
                tell()
        self._settle()
        for one in candidates:
            one.settle_state(self._plan.objectives)

    def _list_missing_cells(self, candidates: Sequence[SearchCandidate], seeds: int) -> Iterator[Cell]:
        """Yield the runs that the ledger does not have, each once; give candidates what it has."""
        for one in candidates:
            if not one.cells:
                self._make_cells(one)
            for number, seed in one.list_missing(seeds) if one.state == MEASURED else ():
                first = one.cells[number]
                cell = first if first.seed == seed else first.set_seed(seed)
                if failure := self._ledger.find_failure(cell.key):
                    one.state, _, one.reason = failure.partition(": ")
                elif (found := self._ledger.find_values(cell.key)) is not None:
                    one.runs[number, seed] = found
                elif cell.key in self._owners:
                    self._owners[cell.key].append((one, (number, seed)))
                else:
                    self._owners[cell.key] = [(one, (number, seed))]
                    if self._plan.subject:
                        self._roles[cell.key] = list_roles(self._plan, one, number)
                    yield cell

    def _make_cells(self, one: SearchCandidate) -> None:
        try:
            one.cells = list(self._plan.set_parameters(one.values, 1).make_cells())
        except InputError as error:
            one.state, one.reason = REFUSED, str(error).partition("\n")[0]

    def _take(self, cell: Cell, ended: Ended) -> None:
        self.carried_out += 1
        if isinstance(ended, MeasuredRun):
            self._ended.append(Finished(cell, ended))
            return
        if isinstance(ended, InputError):  # the workers are unusable
            raise ended
        if isinstance(ended, _native.Interrupted | KeyboardInterrupt):
            raise KeyboardInterrupt
        state = REFUSED if isinstance(ended, ValueError) else FAILED
        text = escape_line(str(ended) or type(ended).__name__)
        self._ledger.add_failure(cell.key, f"{state}: {text}")
        for one, _ in self._owners.pop(cell.key):
            one.state, one.reason = state, f"{text} (seed {cell.seed})" if state == FAILED else text

    def _settle(self) -> None:
        """Measure the runs that have ended."""
        for start in range(0, len(self._ended), _TOGETHER):
            finished = self._ended[start : start + _TOGETHER]
            for key, values in measure_finished(self._plan, finished, self._roles).items():
                self._ledger.add(key, values)
                for one, place in self._owners.pop(key):
                    one.runs[place] = values
        self._ended.clear()
        self._ledger.commit_now_and_then()


def measure_finished(
    plan: SearchPlan, finished: Sequence[Finished], roles: dict[str, list[bool]]
) -> dict[str, RunValues]:
    """Return the value of each objective's measure in finished runs, by their keys.

    `roles` says of each bulk flow whether it is the subject, by the key of the run.
    """
    source = RunsInMemory(finished)
    columns = [
        _measure_column(one, source) if one.measure is None else _measure_query(plan, one, source, finished, roles)
        for one in plan.objectives
    ]
    return {run.cell.key: tuple(column.get(run.cell.key) for column in columns) for run in finished}


def _measure_column(one: Objective, source: RunsInMemory) -> dict[str, float | None]:
    """Return a column of each run; of its parts the mean or the worst. None if the run, or a part of it, has none."""
    rows = source.make_frame(one.table).select("key", value=pl.col(one.column).cast(pl.Float64).fill_nan(None))
    if one.table == "runs":
        return dict(rows.iter_rows())
    found: dict[str, float | None] = {}
    for (key,), part in rows.group_by("key", maintain_order=True):
        values = part["value"]
        found[str(key)] = None if values.null_count() else one.merge(values.to_list(), "flows")
    return found


def _measure_query(
    plan: SearchPlan, one: Objective, source: RunsInMemory, finished: Sequence[Finished], roles: dict[str, list[bool]]
) -> dict[str, float | None]:
    """Return what SQL, or a function of a suite, gives for each run: the mean of its rows."""
    assert one.measure is not None
    of_runs = [(run.cell, roles.get(run.cell.key, [])) for run in finished]
    cells = pl.DataFrame(
        [{"key": cell.key, "seed": cell.seed, **describe_figures(cell, len(own))} for cell, own in of_runs],
        infer_schema_length=None,
    )
    flows = [
        {"key": cell.key, "flow": flow, "role": "subject" if is_subject else "other"}
        for cell, own in of_runs
        for flow, is_subject in enumerate(own)
    ]
    frame = pl.DataFrame(flows, schema={"key": pl.String, "flow": pl.Int64, "role": pl.String})
    try:
        rows = measure_runs(one.measure, StoredResults(source), cells, frame, plan.file)
    except InputError as error:
        raise error.move(plan.file, f"objectives.{one.name}") from None
    found: dict[str, float | None] = {}
    for (key,), part in rows.group_by("key", maintain_order=True):
        values = part["value"].fill_nan(None)
        found[str(key)] = None if values.null_count() else float(sum(values.to_list())) / len(values)
    return found


def list_roles(plan: SearchPlan, one: SearchCandidate, number: int) -> list[bool]:
    """Return whether each bulk flow of a candidate's cell is the subject."""
    experiment = plan.set_parameters(one.values, 1)
    return mark_subject(plan, experiment.make_table(experiment.matrix.find_position(number)))


def mark_subject(plan: SearchPlan, table: Mapping[str, Any]) -> list[bool]:
    """Return whether each bulk flow of an experiment of one cell is the subject."""
    subjects = {parse_path(text)[1] for text in plan.subject}
    return [
        index in subjects for index, flow in enumerate(table.get("flows", ())) for _ in range(int(flow.get("count", 1)))
    ]
