"""Runs in the memory of this process, as they ended: their tables are made when somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell import _native
from dumbbell.results.measured_run import Finished
from dumbbell.results.source import RunSource
from dumbbell.results.store import KINDS_OF_RUNS, TABLES, Store, gather_tables, list_kinds


class RunsInMemory(RunSource):
    """Tables of finished runs, which have the columns and values that a results file of the same runs has."""

    def __init__(self, runs: Sequence[Finished]) -> None:
        """Hold `runs`, one or more, whose cells have the keys of an engine."""
        super().__init__(Path(runs[0].cell.experiment))
        self.runs = tuple(runs)
        self._frames: dict[str, pl.DataFrame] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: what the runs measured, without what was made of it."""
        return {"runs": self.runs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Hold the runs of another process."""
        self.__init__(state["runs"])  # type: ignore[misc]

    @cached_property
    def _tables(self) -> dict[str, _native.Rows]:
        return gather_tables(list(self.runs))

    def make_frame(self, table: str) -> pl.DataFrame:
        """Return all rows of a table."""
        if table not in self._frames:
            rows = pl.DataFrame(self._tables[table])
            self._frames[table] = rows.select(
                pl.col(name).cast(_KINDS[kind]) for name, kind in self.columns[table].items()
            )
        return self._frames[table]

    @cached_property
    def columns(self) -> dict[str, dict[str, str]]:
        """Names and types of the columns of every table."""
        kinds = {table: list_kinds(self._tables[table]) for table in TABLES}
        return kinds | {"runs": KINDS_OF_RUNS | kinds["runs"]}

    @cached_property
    def rows(self) -> pl.DataFrame:
        """One row per run: what describes it, without its configuration."""
        names = ("key", "experiment", "title", "seed", "matrix", "engine_version", "hash", "cell")
        rows = self.make_frame("runs").select(*names, "number", "given", config="cell")
        return rows.with_row_index("place").select(*names, pl.col("place").cast(pl.Int64), "number", "given", "config")

    def read(self, table: str, wanted: pl.DataFrame, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows of a table that belong to the runs in `wanted`."""
        rows = self.make_frame(table)
        if columns is None:
            if wanted["key"].equals(self.rows["key"]):
                return rows
            return wanted.select("key").join(rows, on="key", maintain_order="left_right")
        return wanted.join(rows.select("key", *columns), on="key", maintain_order="left_right")

    def open(self) -> Store:
        """Return a store with copies of the tables."""
        return Store.hold(self.path, {table: self.make_frame(table) for table in TABLES})


_KINDS = {"BIGINT": pl.Int64, "DOUBLE": pl.Float64, "VARCHAR": pl.String}
