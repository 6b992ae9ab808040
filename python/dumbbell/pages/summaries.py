"""Means over seeds, names in an order, and rows of tables: how a study goes from its evidence to what it shows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl


def compute_means(frame: pl.DataFrame, by: Sequence[str], *values: str) -> pl.DataFrame:
    """Return means over seeds; of the first value also min and max, as `low` and `high`, and how many, `n`."""
    first = pl.col(values[0])
    return frame.group_by(by).agg(pl.col(values).mean(), low=first.min(), high=first.max(), n=first.count()).sort(by)


def map_names(column: str | pl.Expr, names: Mapping[Any, str]) -> pl.Expr:
    """Return the names of a column's values, in the order of `names`."""
    values = pl.col(column) if isinstance(column, str) else column
    return values.replace_strict(names, return_dtype=pl.String).cast(pl.Enum(list(names.values())))


def order_names(column: str, order: Iterable[str]) -> pl.Expr:
    """Return a column of names that come in this order."""
    return pl.col(column).cast(pl.Enum(list(order)))


def make_cross_table(
    frame: pl.DataFrame, rows: str, columns: str, order: Iterable[str], text: Callable[[dict[str, Any]], str]
) -> list[list[str]]:
    """Return the cells of a table: a row for each value of `rows`, the values of `columns` across."""
    cells = {(row[rows], str(row[columns])): text(row) for row in frame.iter_rows(named=True)}
    values = frame[rows].unique().sort().to_list()
    shown = {value: value if isinstance(value, str) else f"{value:g}" for value in values}
    return [[shown[value], *(cells.get((value, name), "-") for name in order)] for value in values]
