"""Verdicts on statements: from rows of runs to values, intervals, and whether each statement holds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from dumbbell import programs
from dumbbell.errors import InputError, Unfit, UnknownName, Unreadable, WrongValue, quote_value
from dumbbell.evaluate.criterion_bar import CriterionBar
from dumbbell.evaluate.statement_file import (
    Cell,
    Statement,
    StatementSuite,
    Value,
    collect_values,
    format_column_value,
    normalise_value,
)
from dumbbell.experiment import shipped
from dumbbell.results.aggregate import LEVEL
from dumbbell.results.results import StoredResults
from dumbbell.results.student import compute_t_quantile

HOLDS, FAILS, NO_DATA = "holds", "fails", "no data"

Seeds = dict[int, float]
"""One value of each seed."""
Values = dict[Cell, Seeds | None]
"""The values of each cell; None where a run that is needed is missing."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and the 95 % interval in which it lies (Student); NaN if there are less than two values."""

    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    seeds: int = 0


@dataclass(frozen=True)
class StatementCell:
    """A cell, or what is left of several that were compared: its value, whether it meets the bar, and how surely."""

    place: str
    value: Interval
    grade: str
    sure: bool = True

    @property
    def says(self) -> str:
        """Whether it meets the bar, in words."""
        if self.grade == NO_DATA:
            return self.grade
        met = "meets the bar" if self.grade == HOLDS else "does not meet it"
        return met if self.sure else f"{met}, within the error"


@dataclass(frozen=True)
class StatementVerdict:
    """Whether a statement holds, and by how much.

    `value` is the mean over the cells, with its interval over the seeds that all cells have. `missing` are cells of
    the matrix without a run, and `why` says what is missing.
    """

    statement: Statement
    grade: str
    cells: tuple[StatementCell, ...] = ()
    value: Interval = field(default_factory=Interval)
    missing: tuple[str, ...] = ()
    why: str = ""

    @property
    def known(self) -> list[StatementCell]:
        """The cells with data."""
        return [one for one in self.cells if one.grade != NO_DATA]

    @property
    def met(self) -> int:
        """The number of cells that meet the bar."""
        return sum(one.grade == HOLDS for one in self.cells)

    @property
    def unsure(self) -> int:
        """The number of cells whose interval over seeds contains the bar."""
        return sum(not one.sure for one in self.cells)

    @property
    def failing(self) -> list[str]:
        """The cells that do not meet the bar; none if the bar is for their mean."""
        is_mean = self.statement.quantifier.is_mean
        return [] if is_mean else [one.place for one in self.cells if one.grade == FAILS]

    @property
    def share(self) -> float:
        """The share of the cells with data that meet the bar."""
        return self.met / len(self.known) if self.known else math.nan

    @property
    def share_interval(self) -> tuple[float, float]:
        """The Wilson interval of the share."""
        return estimate_share(self.met, len(self.known)) if self.known else (math.nan, math.nan)


_Measured = Mapping[str, Mapping[Cell, Seeds]]
"""The values of one table by measure, cell and seed."""


def collect_tables(
    suite: StatementSuite, results: Sequence[StoredResults], *, run_program: bool = False
) -> dict[str, pl.DataFrame]:
    """Return the tables of a suite: what their SQL gives, or functions of the program next to the suite.

    The program is run if it comes with dumbbell, or if `run_program` says so. Raises InputError.
    """
    own = [name for name, table in suite.tables.items() if not table.sql]
    makers = _load_functions(suite, own, run_program=run_program) if own else {}
    found = {}
    for name, table in suite.tables.items():
        try:
            parts = [one.sql(table.sql) if table.sql else makers[name](one) for one in results]
        except InputError as error:
            raise (error.move_into(str(suite.file), f"table.{name}: ") if table.sql else error) from None
        found[name] = pl.concat(parts, how="vertical_relaxed")
    return found


def _load_functions(
    suite: StatementSuite, names: Sequence[str], *, run_program: bool
) -> dict[str, Callable[[StoredResults], pl.DataFrame]]:
    allowed = "a program next to the suite, NAME.py, with " + ", ".join(f"{name}()" for name in names)
    path = suite.file.parent / suite.program
    if path.suffix != ".py" or path.parent != suite.file.parent:
        raise WrongValue(quote_value(suite.program), allowed, file=suite.file, key="program")
    if not path.is_file():
        raise Unreadable("there is no such file", allowed, file=path)
    if not (run_program or path.resolve().is_relative_to(shipped.place().resolve())):
        raise Unfit(f"{path} is a program", "option --run-program, if you trust it", file=suite.file, key="program")
    found = vars(programs.load(path))
    for name in names:
        if name not in found:
            among = f"there must be {allowed}"
            raise UnknownName(name, among=among, file=suite.file, key="table", what="function")
    return {name: found[name] for name in names}


def judge_statements(suite: StatementSuite, tables: Mapping[str, pl.DataFrame]) -> list[StatementVerdict]:
    """Return a verdict on each statement from one frame for each table of the suite: a row per run, or a part of one.

    A frame has the columns of the matrix, `seed` and its measures. Raises InputError if columns are missing.
    """
    measured = {name: _sort_by_measure(suite, name, tables[name]) for name in suite.tables}
    return [_StatementJudge(suite, one, measured).judge() for one in suite.criteria]


def _sort_by_measure(suite: StatementSuite, name: str, frame: pl.DataFrame) -> _Measured:
    table, keys = suite.tables[name], suite.list_columns(name)
    for column in (*keys, "seed", *table.measures):
        if column not in frame.columns:
            where = f"table.{name}.{'measures' if column in table.measures else 'keys'}"
            raise UnknownName(column, among=frame.columns, file=suite.file, key=where, what="column")
    found: dict[str, dict[Cell, Seeds]] = {one: {} for one in table.measures}
    runs: dict[tuple[Cell, int], dict[str, float | None]] = {}
    for row in frame.iter_rows(named=True):
        cell = tuple((column, normalise_value(row[column])) for column in keys)
        values = {one: None if row[one] is None else float(row[one]) for one in table.measures}
        if runs.setdefault((cell, row["seed"]), values) != values:
            place = f"{name}: {_format_cell(cell, keys)}, seed {row['seed']}"
            raise Unfit("two runs of one cell and seed differ", "one run of each", file=suite.file, key=place)
        for measure, value in values.items():
            if value is not None and not math.isnan(value):
                found[measure].setdefault(cell, {})[row["seed"]] = value
    return found


class _StatementJudge:
    def __init__(self, suite: StatementSuite, statement: Statement, measured: Mapping[str, _Measured]) -> None:
        self.suite, self.statement, self.measured = suite, statement, measured

    def judge(self) -> StatementVerdict:
        statement = self.statement
        values: Values = {}
        for cell, stored in statement.cells.items():
            given = self._check_conditions(stored)
            if given is not False:
                values[cell] = self.measured[statement.table][statement.measure].get(stored) if given else None
        missing = [cell for cell, seeds in values.items() if seeds is None]
        if not values:
            return StatementVerdict(statement, NO_DATA, why="no cell is as `given` asks")
        for column, compared in statement.over:
            values = _combine_cells(values, column, compared, lambda _, pair: _compute_ratio(pair), every=True)
        for column, kind in statement.along:
            values = _combine_cells(values, column, self.suite.columns[column], partial(_reduce_series, kind))
        # of several differences the one that is hardest on the bar
        hardest = max if statement.bar.is_upper else min
        for column, compared in statement.against:
            values = _combine_cells(
                *(values, column, compared, lambda _, one: hardest(one[0] - other for other in one[1:])), every=True
            )
        if not values:
            return StatementVerdict(statement, NO_DATA, why="no two cells to compare")
        return self._make_verdict(values, missing)

    def _is_met(self, value: float, bar: CriterionBar | None = None) -> bool:
        return (bar or self.statement.bar).is_met(value, self.suite.numbers)

    def _check_conditions(self, stored: Cell) -> bool | None:
        """Whether a cell is as all conditions ask; None if a run that is needed is missing."""
        known = True
        for one in self.statement.given:
            columns = self.suite.list_columns(one.table)
            place = tuple((key, one.replaced.get(key, value)) for key, value in stored if key in columns)
            found = self.measured[one.table][one.measure].get(place)
            if found is None:
                known = False
            elif not self._is_met(_average(found.values()), one.bar):
                return False
        return known or None

    def _make_verdict(self, values: Values, missing: Sequence[Cell]) -> StatementVerdict:
        every, quantifier = self.statement.cells, self.statement.quantifier
        known = [seeds for seeds in values.values() if seeds is not None]
        unknown = len(values) - len(known)
        telling = _find_distinguishing_columns(values)
        cells = tuple(self._judge_cell(_format_cell(cell, telling), seeds) for cell, seeds in values.items())
        held = sum(one.grade == HOLDS for one in cells)
        mean = _average_cells(known) if known else Interval()
        if not known:
            grade = NO_DATA
        elif quantifier.is_mean:
            grade = NO_DATA if unknown else HOLDS if self._is_met(mean.mean) else FAILS
        elif quantifier.is_true_of(held, len(values)):
            grade = HOLDS
        else:  # what is missing may decide
            grade = NO_DATA if quantifier.is_true_of(held + unknown, len(values)) else FAILS
        why = ""
        if missing:
            why = f"{len(missing)} of {len(every)} cells have no run{_describe_common_values(missing, every)}"
        elif unknown:
            why = f"{unknown} of {len(values)} comparisons have no seed in common"
        columns = _find_distinguishing_columns(every)
        lacking = tuple(_format_cell(cell, columns) for cell in missing)
        return StatementVerdict(self.statement, grade, cells, mean, lacking, why)

    def _judge_cell(self, place: str, seeds: Seeds | None) -> StatementCell:
        if seeds is None:
            return StatementCell(place, Interval(), NO_DATA)
        found = estimate_mean(seeds.values())
        return StatementCell(place, found, HOLDS if self._is_met(found.mean) else FAILS, self._is_sure(found))

    def _is_sure(self, one: Interval) -> bool:
        """Whether the interval of a cell lies on one side of the bar."""
        if math.isnan(one.low):
            return True
        inside = [limit for limit in self.statement.bar.list_limits(self.suite.numbers) if one.low < limit < one.high]
        return not inside and len({self._is_met(value) for value in (one.low, one.mean, one.high)}) == 1


# from cells to values


def _combine_cells(
    values: Values,
    column: str,
    wanted: Sequence[Value],
    make: Callable[[Sequence[Value], list[float]], float],
    *,
    every: bool = False,
) -> Values:
    """Return what `make` makes of cells that differ in one column alone, in the order of the `wanted` values of it.

    With `every`, groups of cells are left out in which one of these values is missing.
    """
    groups: dict[Cell, dict[Value, Seeds | None]] = {}
    for cell, seeds in values.items():
        rest = tuple(pair for pair in cell if pair[0] != column)
        groups.setdefault(rest, {})[dict(cell)[column]] = seeds
    found: Values = {}
    for cell, members in groups.items():
        present = [value for value in wanted if value in members]
        if not every or len(present) == len(wanted):
            found[cell] = _combine_by_seed([members[value] for value in present], partial(make, present))
    return found


def _combine_by_seed(members: Sequence[Seeds | None], make: Callable[[list[float]], float]) -> Seeds | None:
    """Return what `make` makes of the members seed by seed; None if one is missing or they share no seed."""
    known = [one for one in members if one is not None]
    if len(known) < len(members):
        return None
    seeds = [seed for seed in known[0] if all(seed in one for one in known)]
    made = {seed: make([one[seed] for one in known]) for seed in seeds}
    return {seed: value for seed, value in made.items() if not math.isnan(value)} or None


def _compute_ratio(pair: Sequence[float]) -> float:
    """Return the first over the second; two zeros are equal."""
    first, second = pair
    if second == 0:
        return 1.0 if first == 0 else math.inf
    return first / second


def _average(values: Iterable[float]) -> float:
    """Return the mean; NaN of infinities of both signs, which ratios and their differences may have."""
    found = list(values)
    return statistics.fmean(found) if all(map(math.isfinite, found)) else sum(found) / len(found)


_REDUCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": _average,
    "least": min,
    "greatest": max,
    "range": lambda series: max(series) - min(series),
    "balance": lambda series: _compute_ratio([min(series), max(series)]),
    "change": lambda series: series[-1] - series[0],
}


def _reduce_series(kind: str, places: Sequence[Value], series: Sequence[float]) -> float:
    """Return what a kind of `statement_file.ALONG` makes of values at consecutive values of a column."""
    if kind in _REDUCTIONS:
        return _REDUCTIONS[kind](series)
    if kind == "least at":
        return float(places[series.index(min(series))])
    if len(set(series)) < 2:
        return 0.0
    places_in_order = pl.Series(range(len(series)), dtype=pl.Float64)
    return float(pl.select(pl.corr(places_in_order, pl.Series(series), method="spearman")).item())


# from values to verdicts


def estimate_mean(values: Iterable[float]) -> Interval:
    """Return the mean of one value per seed with its 95 % interval; none if all are the same."""
    found = list(values)
    mean = _average(found)
    if len(found) < 2 or not math.isfinite(mean) or not (deviation := statistics.stdev(found)):
        return Interval(mean, seeds=len(found))
    half = compute_t_quantile(len(found) - 1, LEVEL) * deviation / math.sqrt(len(found))
    return Interval(mean, mean - half, mean + half, len(found))


def estimate_share(held: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    z = statistics.NormalDist().inv_cdf(0.5 + LEVEL / 2)
    share, wide = held / of, 1 + z * z / of
    half = z / wide * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    centre = (share + z * z / (2 * of)) / wide
    return max(0.0, centre - half), min(1.0, centre + half)


def _average_cells(known: Sequence[Seeds]) -> Interval:
    """Return the mean over cells; with an interval over seeds if all cells have the same ones."""
    shared = [seed for seed in known[0] if all(seed in seeds for seeds in known)]
    if all(set(seeds) == set(shared) for seeds in known):
        return estimate_mean(_average(seeds[seed] for seeds in known) for seed in shared)
    mean = _average(_average(seeds.values()) for seeds in known)
    return Interval(mean, seeds=len(shared))  # an interval would be of other runs than the mean


def _describe_common_values(some: Iterable[Cell], cells: Iterable[Cell]) -> str:
    """Return the values of columns that some of the cells have, where they do not have all: `, all with aqm PI2`."""
    every = collect_values(cells)
    parts = [
        f"{column} {', '.join(map(format_column_value, values))}"
        for column, values in collect_values(some).items()
        if len(values) < len(every[column])
    ]
    return f", all with {'; '.join(parts)}" if parts else ""


def _find_distinguishing_columns(cells: Iterable[Cell]) -> set[str]:
    """Return the columns in which cells differ; all of them if there is one cell."""
    values = collect_values(cells)
    return {column for column, found in values.items() if len(found) > 1} or set(values)


def _format_cell(cell: Cell, columns: Iterable[str]) -> str:
    kept = set(columns)
    return ", ".join(f"{column} {format_column_value(value)}" for column, value in cell if column in kept)
