"""Runs of the experiments that a page of findings rests on, and how its tables and figures take means of them."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

from dumbbell.errors import InputError
from dumbbell.results import Results


class Found:
    """Runs of `experiments`; `place` says of each what tells it apart, in columns of its own.

    Raises InputError if an experiment has no runs.
    """

    def __init__(
        self, path: str, experiments: Iterable[str], place: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        self.results = Results(path)
        names = list(experiments)
        rows = [row for row in self.results.runs.iter_rows(named=True) if row["experiment"] in names]
        self.runs = pl.DataFrame([place(row) for row in rows], infer_schema_length=None)
        missing = [name for name in names if self.runs.is_empty() or self.of(name).is_empty()]
        if missing:
            raise InputError(path, "", f"no runs of {', '.join(missing)}", "results of every question")
        self.classes = self.results.frame("classes").drop("cc", strict=False)
        self.flows = self.results.frame("flows").drop("cc", "class", strict=False)

    def of(self, name: str) -> pl.DataFrame:
        """Return the runs of one experiment."""
        return self.runs.filter(pl.col("experiment") == name)

    def members(self, runs: pl.DataFrame) -> pl.DataFrame:
        """Return the connection classes of runs, by `class`."""
        return runs.join(self.classes, on="key")

    def each(self, runs: pl.DataFrame) -> pl.DataFrame:
        """Return the flows of runs, by `flow`."""
        return runs.join(self.flows, on="key")

    def series(self, runs: pl.DataFrame, table: str = "series") -> pl.DataFrame:
        """Return the time series of runs."""
        return runs.join(Results(self.results.path, keys=runs["key"]).frame(table), on="key")


def means(frame: pl.DataFrame, by: list[str], *values: str) -> pl.DataFrame:
    """Return means over seeds, and the least and largest of the first value as `low` and `high`."""
    first = pl.col(values[0])
    return frame.group_by(by).agg(pl.col(values).mean(), low=first.min(), high=first.max(), n=first.count()).sort(by)


def named(column: str, names: dict[Any, str]) -> pl.Expr:
    """Return the names of a column's values, in the order of `names`."""
    return pl.col(column).replace_strict(names, return_dtype=pl.String).cast(pl.Enum(list(names.values())))


def fill(text: str, tables: dict[str, str]) -> str:
    """Return a page with each table in its place; raises InputError if a table has none."""
    for name, table in tables.items():
        place = re.compile(rf"(<!-- table {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not place.search(text):
            raise InputError("", name, "no place for this table", f"<!-- table {name} --> and <!-- end -->")
        text = place.sub(lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", text)  # type: ignore[misc]
    return text
