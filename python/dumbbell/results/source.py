"""Where the tables of runs are: a results file, or the memory of this process."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.results.store import KINDS_OF_RUNS, TABLES, Store
from dumbbell.results.versions import find_kind
from dumbbell.scratch import Scratch

DESCRIBED = (*KINDS_OF_RUNS, "number", "kernel", "given")
"""The columns of table `runs` that describe a run; the others are figures."""


class RunTables(ABC):
    """Tables of runs and what has been read of them, shared by all selections of these runs."""

    def __init__(self) -> None:
        self._configs: dict[tuple[str, ...], dict[str, Any]] = {}

    @property
    @abstractmethod
    def path(self) -> Path:
        """The results file; of runs in memory the name of their experiment."""

    @property
    @abstractmethod
    def rows(self) -> pl.DataFrame:
        """One row per run, in the order in which they were kept: what describes it, without its configuration."""

    @property
    @abstractmethod
    def columns(self) -> dict[str, dict[str, str]]:
        """Names and SQL types of the columns of every table."""

    @abstractmethod
    def read(self, table: str, wanted: pl.DataFrame, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows of a table that belong to the runs in `wanted`, whose columns are `key` and others.

        They are in the order of `wanted`. With `columns` those of `wanted` come first; by default there are all of the
        table, and they alone.
        """

    @property
    def keys(self) -> list[str]:
        """The keys of the runs."""
        return self.rows["key"].to_list()

    def read_summary(self, key: str) -> dict[str, Any]:
        """Return what one run measured as a whole: the figures of its row in table `runs`."""
        row = self.read("runs", pl.DataFrame({"key": [key]})).row(0, named=True)
        figures = {name: value for name, value in row.items() if name not in DESCRIBED}
        return {name: json.loads(value) if isinstance(value, str) else value for name, value in figures.items()}

    def read_digest(self, key: str) -> str:
        """Return the digest over all figures of one run."""
        return str(self.read("runs", pl.DataFrame({"key": [key]}), ["hash"])["hash"][0])

    @abstractmethod
    def open(self) -> Store:
        """Return the tables as a store, for SQL."""

    @cached_property
    def kernels(self) -> dict[str, tuple[str, ...]]:
        """The names of kernels, by version of the engine."""
        if not any(find_kind(version) == "linux" for version in self.rows["engine_version"].unique()):
            return {}
        with self.open() as store:
            return store.read_kernel_names()

    def read_configurations(self, cells: pl.DataFrame) -> dict[str, dict[str, Any]]:
        """Return the configuration of each of `cells`, rows like those of `rows`; each is read once."""
        names = [tuple(map(str, row)) for row in cells.select("config", "engine_version", "given").iter_rows()]
        if missing := [place for place, name in enumerate(names) if name not in self._configs]:
            texts = dict(self.read("runs", cells.select("key")[missing], ["config"]).rows())
            self._configs |= {names[place]: json.loads(texts[cells["key"][place]]) for place in missing}
        return {cell: self._configs[name] for cell, name in zip(cells["cell"], names, strict=True)}


class ResultsFile(RunTables):
    """The tables of a results file, which is open only while it is read."""

    def __init__(self, path: Path, folder: Scratch | None) -> None:
        super().__init__()
        self._path = path
        self._folder = folder  # of results that are kept nowhere else; removed with the last object that knows it
        with self.open():
            pass

    @property
    def path(self) -> Path:
        """The results file."""
        return self._path

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: a file that goes with this object travels with it, byte for byte."""
        return {"path": self.path, "content": self._folder and self.path.read_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Write the file that came along to a folder of this process."""
        path, content = state["path"], state["content"]
        folder = None if content is None else Scratch()
        if folder is not None:
            path = folder.path / path.name
            path.write_bytes(content)
        self.__init__(path, folder)  # type: ignore[misc]

    def open(self) -> Store:
        """Return the file."""
        return Store.open(self.path)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """One row per run, in the order of the file: what describes it, without its configuration."""
        with self.open() as store:
            number, given = (one if one in store.list_columns("runs") else "NULL" for one in ("number", "given"))
            rows = store.read(
                "SELECT key, experiment, title, seed, matrix, engine_version, hash, cell, rowid AS place,"
                f" CAST({number} AS BIGINT) AS number, CAST({given} AS VARCHAR) AS given, cell AS config FROM runs"
            )
        return rows.sort("place")

    @cached_property
    def columns(self) -> dict[str, dict[str, str]]:
        """Names and types of the columns of every table."""
        with self.open() as store:
            return {table: store.list_types(table) for table in TABLES}

    def read(self, table: str, wanted: pl.DataFrame, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows of a table that belong to the runs in `wanted`."""
        listed = (
            "t.*"
            if columns is None
            else ", ".join(["wanted.* EXCLUDE (row_of_wanted)", *(f't."{c}"' for c in columns)])
        )
        with self.open() as store:
            return store.read(
                f"SELECT {listed} FROM {table} t JOIN wanted USING (key) ORDER BY row_of_wanted, t.rowid",
                wanted=wanted.with_row_index("row_of_wanted"),
            )
