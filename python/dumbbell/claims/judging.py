"""Verdicts on claims: from frames of runs to values, intervals and whether each claim holds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import polars as pl

from dumbbell import programs
from dumbbell.claims.language import Cell, Claim, Claims, Predicate, Value, label, normalise_value
from dumbbell.errors import Unfit, UnknownName, Unreadable, WrongValue, quote_value
from dumbbell.experiment import shipped
from dumbbell.results.aggregate import LEVEL
from dumbbell.results.results import StoredResults
from dumbbell.results.student import compute_t_quantile

HOLDS, FAILS, NO_DATA = "holds", "fails", "no data"

Seeds = dict[int, float]  # one value per seed
Values = dict[Cell, Seeds | None]  # None where a run that is needed is missing


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and the 95 % interval in which it lies (Student); NaN if there are less than two values."""

    mean: float
    low: float = math.nan
    high: float = math.nan
    seeds: int = 1


@dataclass(frozen=True)
class ClaimVerdict:
    """Whether a claim holds, and by how much.

    `held` of `cells` cells satisfy the predicate, `unknown` of them lack runs; `share_low` to `share_high` is the
    Wilson interval of the share. `value` is the mean over the cells, with its interval over the seeds that all
    cells have. `unsure` cells satisfy the predicate or not within their own interval over seeds.
    """

    claim: Claim
    verdict: str
    held: int
    cells: int
    unknown: int
    value: Interval
    unsure: int = 0
    failing: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # cells of the matrix
    why: str = ""
    share_low: float = math.nan
    share_high: float = math.nan

    @property
    def share(self) -> float:
        """The share of cells that satisfy the predicate, of those with data."""
        known = self.cells - self.unknown
        return self.held / known if known else math.nan


@dataclass
class Index:
    """Runs of one table by cell and seed."""

    keys: tuple[str, ...]
    rows: dict[Cell, dict[int, dict[str, float | None]]] = field(default_factory=dict)

    def find_values(self, cell: Cell, measure: str) -> Seeds | None:
        """Return a measure of a cell by seed; None if no run has it."""
        found = {
            seed: value
            for seed, row in self.rows.get(cell, {}).items()
            if (value := row[measure]) is not None and not math.isnan(value)
        }
        return found or None


def run_tables(claims: Claims, results: StoredResults, *, run_program: bool = False) -> dict[str, pl.DataFrame]:
    """Return the frames that the claims speak of: functions of the program next to them.

    It is run if it comes with dumbbell, or if `run_program` says so. Raises InputError.
    """
    allowed = "a program next to the claims, NAME.py, with " + ", ".join(f"{name}()" for name in claims.tables)
    program = Path(claims.file).parent / claims.frames
    if program.suffix != ".py" or program.parent != Path(claims.file).parent:
        raise WrongValue(quote_value(claims.frames), allowed, file=claims.file, key="frames")
    if not program.is_file():
        raise Unreadable("there is no such file", allowed, file=program)
    if not (run_program or program.resolve().is_relative_to(shipped.place().resolve())):
        raise Unfit(f"{program} is a program", "option --run-program, if you trust it", file=claims.file, key="frames")
    found = vars(programs.load(program))
    missing = [name for name in claims.tables if name not in found]
    if missing:
        raise UnknownName(missing[0], among=f"there must be {allowed}", file=claims.file, key="tables", what="function")
    makers: dict[str, Callable[[StoredResults], pl.DataFrame]] = {name: found[name] for name in claims.tables}
    return {name: make(results) for name, make in makers.items()}


def judge(claims: Claims, tables: Mapping[str, pl.DataFrame]) -> list[ClaimVerdict]:
    """Return a verdict on each claim from one frame for each of `claims.tables`: a row per run, or a part of one.

    A frame has the columns of the matrix, `seed` and its measures. Raises InputError if columns are missing.
    """
    indices = {name: _make_index(claims, name, tables[name]) for name in claims.tables}
    return [_judge(claim, indices, claims.order) for claim in claims.claims]


def _make_index(claims: Claims, name: str, frame: pl.DataFrame) -> Index:
    table = claims.tables[name]
    own = {key for one in claims.tables.values() for key in one.keys}
    keys = tuple(column for column in claims.order if column not in own or column in table.keys)
    for column in (*keys, "seed", *table.measures):
        if column not in frame.columns:
            where = f"tables.{name}.{'measures' if column in table.measures else 'keys'}"
            raise UnknownName(column, among=frame.columns, file=claims.file, key=where, what="column")
    index = Index(keys)
    for row in frame.iter_rows(named=True):
        cell = tuple((column, normalise_value(row[column])) for column in keys)
        measures = {one: None if row[one] is None else float(row[one]) for one in table.measures}
        if index.rows.setdefault(cell, {}).setdefault(row["seed"], measures) != measures:
            place = f"{name}: {_format_cell(cell, keys)}, seed {row['seed']}"
            raise Unfit("two runs of one cell and seed differ", "one run of each", file=claims.file, key=place)
    return index


# from cells to values


def _judge(claim: Claim, indices: Mapping[str, Index], order: Mapping[str, Sequence[Value]]) -> ClaimVerdict:
    values: Values = {}
    missing: list[Cell] = []
    for cell in claim.cells:
        given = _check_conditions(claim, claim.stored[cell], indices)
        if given is False:
            continue
        found = indices[claim.table].find_values(claim.stored[cell], claim.measure) if given else None
        values[cell] = found
        if found is None:
            missing.append(cell)
    if not values:
        return _make_empty_verdict(claim, "no cell is as `given` asks")
    if claim.over:
        column, first, second = claim.over
        values = _pair_cells(values, column, first, [second], _compute_ratio)
    for column, kind in claim.along:
        values = _reduce_cells(values, column, kind, order[column])
    for column, (first, *others) in claim.against:
        values = _pair_cells(values, column, first, others, _make_difference(claim.predicate))
    if not values:
        return _make_empty_verdict(claim, "no two cells to compare")
    return _make_verdict(claim, values, missing)


def _check_conditions(claim: Claim, stored: Cell, indices: Mapping[str, Index]) -> bool | None:
    """Whether a cell is as all conditions ask; None if a run that is needed is missing."""
    known = True
    for one in claim.given:
        index = indices[one.table]
        replaced = [(column, one.replaced.get(column, value)) for column, value in stored]
        found = index.find_values(tuple(pair for pair in replaced if pair[0] in index.keys), one.measure)
        if found is None:
            known = False
        elif not one.predicate.is_true_of(statistics.fmean(found.values())):
            return False
    return known or None


def _group_cells(values: Values, column: str) -> dict[Cell, dict[Value, Seeds | None]]:
    """Return the cells that differ in one column alone."""
    groups: dict[Cell, dict[Value, Seeds | None]] = {}
    for cell, seeds in values.items():
        rest = tuple(pair for pair in cell if pair[0] != column)
        groups.setdefault(rest, {})[dict(cell)[column]] = seeds
    return groups


def _combine_by_seed(members: Sequence[Seeds | None], make: Callable[[list[float]], float]) -> Seeds | None:
    """Return what `make` makes of the members seed by seed; None if one is missing or they share no seed."""
    if any(one is None for one in members):
        return None
    known = [one for one in members if one is not None]
    seeds = [seed for seed in known[0] if all(seed in one for one in known)]
    made = {seed: make([one[seed] for one in known]) for seed in seeds}
    return {seed: value for seed, value in made.items() if not math.isnan(value)} or None


def _pair_cells(
    values: Values, column: str, first: Value, others: Sequence[Value], make: Callable[[list[float]], float]
) -> Values:
    """Return `make` of the cells with the value `first` of a column and those with `others`, where all are."""
    return {
        cell: _combine_by_seed([members[value] for value in (first, *others)], make)
        for cell, members in _group_cells(values, column).items()
        if all(value in members for value in (first, *others))
    }


def _compute_ratio(pair: list[float]) -> float:
    """Return the first over the second; two zeros are equal."""
    first, second = pair
    if second == 0:
        return 1.0 if first == 0 else math.inf
    return first / second


def _make_difference(predicate: Predicate) -> Callable[[list[float]], float]:
    """Return what takes the others from the first value; of several, the one that is hardest on the predicate."""
    hardest = max if predicate.op in ("<", "<=") else min
    return lambda members: hardest(members[0] - other for other in members[1:])


def _reduce_cells(values: Values, column: str, kind: str, order: Sequence[Value]) -> Values:
    found: Values = {}
    for cell, members in _group_cells(values, column).items():
        present = [value for value in order if value in members]
        found[cell] = _combine_by_seed([members[value] for value in present], partial(_reduce_series, kind, present))
    return found


_REDUCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "least": min,
    "greatest": max,
    "range": lambda series: max(series) - min(series),
    "balance": lambda series: _compute_ratio([min(series), max(series)]),
    "change": lambda series: series[-1] - series[0],
}


def _reduce_series(kind: str, places: Sequence[Value], series: Sequence[float]) -> float:
    """Return what a kind of `language.ALONG` makes of values at consecutive values of a key."""
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
    mean = statistics.fmean(found)
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


def _make_empty_verdict(claim: Claim, why: str) -> ClaimVerdict:
    return ClaimVerdict(claim, NO_DATA, 0, 0, 0, Interval(math.nan, seeds=0), why=why)


def _make_verdict(claim: Claim, values: Values, missing: Sequence[Cell]) -> ClaimVerdict:
    predicate, quantifier = claim.predicate, claim.quantifier
    known = {cell: seeds for cell, seeds in values.items() if seeds is not None}
    unknown = len(values) - len(known)
    lacking = tuple(_format_cell(cell, _find_distinguishing_columns(claim.cells)) for cell in missing)
    why = ""
    if missing:
        common = _describe_common_values(missing, claim.cells)
        why = f"{len(missing)} of {len(claim.cells)} cells have no run{common}"
    elif unknown:
        why = f"{unknown} of {len(values)} comparisons have no seed in common"
    if not known:
        return replace(_make_empty_verdict(claim, why), cells=len(values), unknown=unknown, missing=lacking)
    cells = {cell: estimate_mean(seeds.values()) for cell, seeds in known.items()}
    shared = [seed for seed in next(iter(known.values())) if all(seed in seeds for seeds in known.values())]
    over_seeds = [statistics.fmean(seeds[seed] for seeds in known.values()) for seed in shared]
    mean = statistics.fmean(one.mean for one in cells.values())
    found = estimate_mean(over_seeds) if over_seeds else Interval(mean)
    if any(set(seeds) != set(shared) for seeds in known.values()):
        found = Interval(mean, seeds=len(shared))  # the interval would be of other runs than the mean
    good = {cell: predicate.is_true_of(one.mean) for cell, one in cells.items()}
    held = sum(good.values())
    if quantifier.is_mean:
        verdict = NO_DATA if unknown else HOLDS if predicate.is_true_of(found.mean) else FAILS
    elif quantifier.is_true_of(held, len(values)):
        verdict = HOLDS
    else:  # what is missing may decide
        verdict = NO_DATA if quantifier.is_true_of(held + unknown, len(values)) else FAILS
    telling = _find_distinguishing_columns(values)
    bad = [] if quantifier.is_mean else [cell for cell, is_good in good.items() if not is_good]
    failing = tuple(_format_cell(cell, telling) for cell in bad)
    return ClaimVerdict(
        claim,
        verdict,
        held,
        len(values),
        unknown,
        found,
        sum(_is_unsure(predicate, one) for one in cells.values()),
        failing,
        lacking,
        why,
        *estimate_share(held, len(known)),
    )


def _is_unsure(predicate: Predicate, one: Interval) -> bool:
    """Whether the interval of a cell has values on both sides of the predicate."""
    if math.isnan(one.low):
        return False
    inside = [bound for bound in (predicate.low, predicate.high) if one.low < bound < one.high]
    return bool(inside) or len({predicate.is_true_of(value) for value in (one.low, one.mean, one.high)}) > 1


def _collect_values(cells: Iterable[Cell]) -> dict[str, list[Value]]:
    """Return the values of every column of cells, in order."""
    found: dict[str, list[Value]] = {}
    for cell in cells:
        for column, value in cell:
            found.setdefault(column, []).append(value)
    return {column: list(dict.fromkeys(values)) for column, values in found.items()}


def _describe_common_values(some: Iterable[Cell], cells: Iterable[Cell]) -> str:
    """Return the values of columns that some of the cells have, where they do not have all: `, all with aqm PI2`."""
    every = _collect_values(cells)
    parts = [
        f"{column} {', '.join(map(label, values))}"
        for column, values in _collect_values(some).items()
        if len(values) < len(every[column])
    ]
    return f", all with {'; '.join(parts)}" if parts else ""


def _find_distinguishing_columns(cells: Iterable[Cell]) -> set[str]:
    """Return the columns in which cells differ; all of them if there is one cell."""
    values = _collect_values(cells)
    return {column for column, found in values.items() if len(found) > 1} or set(values)


def _format_cell(cell: Cell, columns: Iterable[str]) -> str:
    kept = set(columns)
    return ", ".join(f"{column} {label(value)}" for column, value in cell if column in kept)
