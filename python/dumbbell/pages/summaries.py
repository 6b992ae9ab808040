"""Means over seeds, names in an order, and rows of tables: how a study goes from its evidence to what it shows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from dumbbell import figures
from dumbbell.figures import Picture
from dumbbell.pages.values import PageError
from dumbbell.results.aggregate import compute_half_width


def compute_means(frame: pl.DataFrame, by: Sequence[str], *values: str) -> pl.DataFrame:
    """Return means over seeds; of the first value also min and max, as `low` and `high`, and how many, `n`."""
    first = pl.col(values[0])
    return frame.group_by(by).agg(pl.col(values).mean(), low=first.min(), high=first.max(), n=first.count()).sort(by)


def compute_intervals(runs: pl.DataFrame, by: Sequence[str], *values: str, count: str = "n") -> pl.DataFrame:
    """Return means over seeds, with `low` and `high`, the 95 % interval of the first value, and `count` different runs.

    Runs whose `hash` is the same count as one, so that they have no interval.
    """
    first = pl.col(values[0])
    means = runs.group_by(by).agg(
        pl.col(values).mean(),
        deviation=first.std(),
        **{count: pl.when(pl.col("hash").n_unique() > 1).then(first.count()).otherwise(1)},
    )
    half = compute_half_width(pl.col("deviation"), pl.col(count))
    return means.with_columns(low=first - half, high=first + half).drop("deviation")


def map_names(column: str | pl.Expr, names: Mapping[Any, str]) -> pl.Expr:
    """Return the names of a column's values, in the order of `names`."""
    values = pl.col(column) if isinstance(column, str) else column
    return values.replace_strict(names, return_dtype=pl.String).cast(pl.Enum(list(names.values())))


def order_names(column: str, order: Iterable[str]) -> pl.Expr:
    """Return a column of names that come in this order."""
    return pl.col(column).cast(pl.Enum(list(order)))


def make_grid(
    frame: pl.DataFrame,
    rows: Sequence[str],
    column: str,
    order: Iterable[Any],
    text: Callable[[dict[str, Any]], str],
    missing: str = "-",
) -> list[list[str]]:
    """Return the cells of a table: a row for each combination of `rows` as they come, the values of `column` across."""
    lines: dict[tuple[Any, ...], dict[Any, str]] = {}
    for row in frame.iter_rows(named=True):
        lines.setdefault(tuple(row[name] for name in rows), {})[row[column]] = text(row)
    across = list(order)
    return [
        [
            *(f"{value:g}" if isinstance(value, float) else str(value) for value in place),
            *(cells.get(value, missing) for value in across),
        ]
        for place, cells in lines.items()
    ]


def choose_title(find_answer: Callable[[], str | None], subject: str) -> str:
    """Return the answer that the evidence gives, or the subject if it gives none or lacks the rows for it."""
    try:
        return find_answer() or subject
    except PageError:
        return subject


def draw_means(
    frame: pl.DataFrame, x: str, y: str, *, level: float | None = None, level_name: str = "", **options: Any
) -> Picture:
    """Draw lines of means with their intervals from `low` to `high`, and a reference line; it is dashed if named.

    The other options are those of `figures.lines`.
    """
    picture = figures.lines(frame, x, y, low="low", high="high", **options)
    if level is not None:
        picture.draw_level(level, level_name, "--" if level_name else "-")
    return picture.arrange()
