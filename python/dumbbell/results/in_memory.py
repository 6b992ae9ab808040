"""Runs in the memory of this process, as they ended: their tables are made when somebody asks for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell import _native
from dumbbell.results.measured_run import Finished
from dumbbell.results.source import RunTables
from dumbbell.results.store import KINDS_OF_RUNS, TABLES, Store, gather_tables, list_kinds


class RunsInMemory(RunTables):
    """Tables of finished runs, which have the columns and values that a results file of the same runs has."""

    def __init__(self, runs: Sequence[Finished]) -> None:
        """Hold `runs`, one or more, whose cells have the keys of an engine."""
        super().__init__()
        self.runs = tuple(runs)
        self._gathered: dict[str, _native.Rows] = {}
        self._frames: dict[str, pl.DataFrame] = {}

    @property
    def path(self) -> Path:
        """The name of the experiment."""
        return Path(self.runs[0].cell.experiment)

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: what the runs measured, without what was made of it."""
        return {"runs": self.runs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Hold the runs of another process."""
        self.__init__(state["runs"])  # type: ignore[misc]

    @property
    def keys(self) -> list[str]:
        """The keys of the runs."""
        return [run.cell.key for run in self.runs]

    def read_summary(self, key: str) -> dict[str, Any]:
        """Return what one run measured as a whole: the figures of its row in table `runs`."""
        summary: dict[str, Any] = json.loads(self._find_result(key).summary)
        return summary

    def read_digest(self, key: str) -> str:
        """Return the digest over all figures of one run."""
        return self._find_result(key).hash

    def _find_result(self, key: str) -> _native.Result:
        return self.runs[self.keys.index(key)].run.result

    def make_frame(self, table: str) -> pl.DataFrame:
        """Return all rows of a table."""
        if table not in self._frames:
            rows = pl.DataFrame(self._gather(table))  # whose texts that repeat are codes
            columns = (rows.get_column(name) for name in self._list_kinds(table))
            texts = (pl.Categorical, pl.Enum)
            self._frames[table] = pl.DataFrame(
                [one.cast(pl.String) if isinstance(one.dtype, texts) else one for one in columns]
            )
        return self._frames[table]

    def _gather(self, table: str) -> _native.Rows:
        if table not in self._gathered:
            self._gathered |= gather_tables(list(self.runs), [table])
        return self._gathered[table]

    def _list_kinds(self, table: str) -> dict[str, str]:
        kinds = list_kinds(self._gather(table))
        return KINDS_OF_RUNS | kinds if table == "runs" else kinds

    @cached_property
    def columns(self) -> dict[str, dict[str, str]]:
        """Names and types of the columns of every table."""
        self._gathered = gather_tables(list(self.runs))
        return {table: self._list_kinds(table) for table in TABLES}

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
            if wanted["key"].to_list() == self.keys:
                return rows
            return wanted.select("key").join(rows, on="key", maintain_order="left_right")
        return wanted.join(rows.select("key", *columns), on="key", maintain_order="left_right")

    def keep(self, keys: Sequence[str], path: Path) -> None:
        """Add the runs with these keys to a results file, unless it has them already. Raises InputError."""
        with Store.open(path, write=True) as store:
            wanted = set(keys) - store.find_kept(keys)
            store.add(run for run in self.runs if run.cell.key in wanted)

    def open(self) -> Store:
        """Return a store with copies of the tables."""
        return Store.hold(self.path, {table: self.make_frame(table) for table in TABLES})
