"""Results in one DuckDB file: runs, flows, classes, series, queue_series and sojourn, joined by a run's `key`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import duckdb
import polars as pl
import pyarrow as pa

from dumbbell import _native
from dumbbell.errors import InputError
from dumbbell.experiment import Cell

FORMAT = 1
TABLES = ("runs", "flows", "classes", "series", "queue_series", "sojourn")
_ALLOWED = "a results file written by dumbbell run"
_FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


@dataclass(frozen=True)
class Finished:
    """One finished run: what describes it and what it measured."""

    cell: Cell
    wall_s: float
    hash: str
    summary: dict[str, Any]
    tables: dict[str, pa.Table]


def arrow(columns: _native.Columns) -> pa.Table:
    """Return the engine's columns as an Arrow table, without a copy of the numbers."""
    arrays = {}
    for name, kind, values in columns:
        if kind == "text":
            arrays[name] = pa.array(values, pa.string())
        else:
            assert isinstance(values, bytes)
            dtype = pa.int64() if kind == "u64" else pa.float64()
            arrays[name] = pa.Array.from_buffers(dtype, len(values) // 8, [None, pa.py_buffer(values)])
    return pa.table(arrays)


def classes(flows: pa.Table, queue: pa.Table, rate: int) -> pa.Table:
    """Return one row a connection class (congestion control, base RTT, ECN); `rate` is the link's, bit/s.

    `queue` is what the engine measured of each class. Further columns are means over the flows of the class, shares of
    the packets of the class, and
    `relative_throughput`: throughput over (rate / number of flows);
    `window_kb`: throughput * (base RTT + mean sojourn), kB;
    `normalised_window`: that over the window which, equal for all flows, would fill the link.
    """
    by_class = pl.DataFrame(flows).group_by("class", maintain_order=True)
    means = by_class.agg(
        pl.col("cc", "base_rtt_ms").first(),
        pl.len().cast(pl.Int64).alias("flows"),
        pl.col("throughput_mbit", "goodput_mbit", "rtt_mean_ms").mean(),
        (pl.col("sojourn_mean_ms") * pl.col("packets")).sum() / pl.col("packets").sum(),
        (pl.col("ce_received").sum() / pl.col("packets").sum()).alias("mark_share"),
        pl.sum_horizontal(pl.col("drops_overflow", "drops_aqm").sum()).alias("drops"),
        pl.col("packets").sum(),
    )
    rtt_s = (pl.col("base_rtt_ms") + pl.col("sojourn_mean_ms").fill_nan(0)) / 1e3
    fair_kb = rate / 8e3 / (pl.col("flows") / rtt_s).sum()
    shares = means.select(
        pl.exclude("drops", "packets"),
        (pl.col("drops") / (pl.col("drops") + pl.col("packets"))).alias("drop_share"),
        (pl.col("throughput_mbit") / (rate / 1e6 / len(flows))).alias("relative_throughput"),
        (pl.col("throughput_mbit") * 125 * rtt_s).alias("window_kb"),
        (pl.col("throughput_mbit") * 125 * rtt_s / fair_kb).alias("normalised_window"),
    )
    return shares.join(pl.DataFrame(queue), on="class", how="left", maintain_order="left").to_arrow()


def ratios(classes: pa.Table) -> dict[str, float | None]:
    """Return the ratios of mean rate and mean window of the first class to the second, None unless there are two."""
    pair = classes.num_rows == 2

    def ratio(column: str) -> float | None:
        first, second = (float(v) for v in classes[column].to_pylist()) if pair else (0.0, 0.0)
        return first / second if second > 0 else None

    return {"rate_ratio": ratio("throughput_mbit"), "window_ratio": ratio("window_kb")}


def finished(cell: Cell, result: _native.Result, wall_s: float) -> Finished:
    """Return what the engine measured in the form in which it is kept."""
    tables = {name: arrow(getattr(result, name)) for name in ("flows", "series", "queue_series", "sojourn")}
    tables["classes"] = classes(tables["flows"], arrow(result.classes), cell.groups["bottleneck"]["rate"])
    summary = json.loads(result.summary) | ratios(tables["classes"])
    return Finished(cell, wall_s, result.hash, summary, tables)


def _run_row(run: Finished) -> dict[str, Any]:
    described = {
        "key": run.cell.key,
        "experiment": run.cell.experiment,
        "title": run.cell.title,
        "seed": run.cell.seed,
        "matrix": json.dumps(run.cell.matrix, ensure_ascii=False),
        "config": run.cell.compact,
        "engine_version": _native.engine_version(),
        "wall_s": run.wall_s,
        "hash": run.hash,
    }
    flat = {name: json.dumps(v) if isinstance(v, dict | list) else v for name, v in run.summary.items()}
    return described | {name: value for name, value in flat.items() if name not in described}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Store:
    """A results file; a context manager. Errors of the file are InputErrors of one line."""

    def __init__(self, path: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.path, self._connection = path, connection

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False) -> Self:
        """Open a results file, made anew if it is missing and `write` is true.

        Raises InputError if the file is no results file, is damaged or is in use; it is then left as it is.
        """
        path = Path(path)
        with _clear_errors(path):
            if path.is_dir():
                raise InputError(str(path), "", "a directory", _ALLOWED)
            if path.exists():
                cls._check(path)
            elif write and not path.parent.is_dir():
                raise InputError(str(path), "", f"no folder {path.parent}", "a file in a folder that exists")
            elif not write:
                raise InputError(str(path), "", "no file", _ALLOWED)
            else:
                cls._create(path)
                cls._check(path)
            return cls(path, duckdb.connect(str(path), read_only=not write, config={"threads": 2}))

    @staticmethod
    def _check(path: Path) -> None:
        # not looked at by other means: to close any descriptor of a file gives up the locks that DuckDB holds on it
        with contextlib.closing(duckdb.connect(str(path), read_only=True, config={"threads": 2})) as connection:
            names = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
            if "dumbbell" not in names:
                raise InputError(str(path), "", "a database of something else", _ALLOWED)
            row = connection.execute("SELECT format FROM dumbbell").fetchone()
            if row is None or row[0] != FORMAT:
                raise InputError(str(path), "", f"results in format {row and row[0]}", f"format {FORMAT}")

    @staticmethod
    def _create(path: Path) -> None:
        """Make an empty results file, complete at the moment at which it appears."""
        log = path.with_name(path.name + ".wal")
        if log.exists():
            raise InputError(str(log), "", "the log of another results file", "no such file beside a new one")
        draft = path.with_name(f"{path.name}.{os.getpid()}.new")
        try:
            with contextlib.closing(duckdb.connect(str(draft))) as connection:
                connection.execute(f"CREATE TABLE dumbbell AS SELECT {FORMAT} AS format")
                connection.execute(
                    "CREATE TABLE runs (key VARCHAR PRIMARY KEY, experiment VARCHAR, title VARCHAR, seed BIGINT,"
                    " matrix VARCHAR, config VARCHAR, engine_version VARCHAR, wall_s DOUBLE, hash VARCHAR)"
                )
                for table in TABLES[1:]:
                    connection.execute(f"CREATE TABLE {table} (key VARCHAR)")
                # close() would say nothing if the disk is full, and leave tables in a log that is not renamed
                connection.execute("CHECKPOINT")
            try:
                # unlike rename() not over a file that another sweep has made and opened meanwhile
                os.link(draft, path)
            except FileExistsError:
                return
            except OSError:  # a file system without links
                draft.rename(path)
        finally:
            draft.unlink(missing_ok=True)
            draft.with_name(draft.name + ".wal").unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write everything to the file itself and give it free."""
        with contextlib.suppress(duckdb.Error):
            self._connection.close()

    def keys(self) -> set[str]:
        """Return the keys of all runs that are kept."""
        with _clear_errors(self.path):
            return {row[0] for row in self._connection.execute("SELECT key FROM runs").fetchall()}

    def read(self, query: str) -> pl.DataFrame:
        """Return what an SQL query over the tables gives."""
        with _clear_errors(self.path):
            return pl.DataFrame(self._connection.sql(query).to_arrow_table())

    def table(self, name: str) -> pl.DataFrame:
        """Return one of the tables, in an order that does not depend on how the runs were scheduled."""
        with _clear_errors(self.path):
            return self.read(
                f"SELECT * FROM {name} ORDER BY ALL" if name == "runs" else f"SELECT * FROM {name} ORDER BY key, rowid"
            )

    def add(self, runs: Iterable[Finished]) -> None:
        """Keep finished runs, all of them or, if the machine stops, none."""
        runs = list(runs)
        if not runs:
            return
        parts: dict[str, list[pa.Table]] = {name: [] for name in TABLES[1:]}
        for run in runs:
            for name, table in run.tables.items():
                if len(table):
                    key = pa.array([run.cell.key], pa.string()).take(pa.array([0] * len(table), pa.int32()))
                    parts[name].append(table.add_column(0, "key", key))
        with _clear_errors(self.path):
            self._connection.execute("BEGIN")
            try:
                self._insert("runs", pa.Table.from_pylist(_rows([_run_row(run) for run in runs])))
                for name, tables in parts.items():
                    if tables:
                        self._insert(name, pa.concat_tables(tables, promote_options="permissive"))
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(duckdb.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def _insert(self, name: str, rows: pa.Table) -> None:
        described = self._connection.execute(f"DESCRIBE {name}").fetchall()
        known = {row[0]: row[1] for row in described}
        for field in rows.schema:
            if pa.types.is_null(field.type):
                rows = rows.drop_columns([field.name])
            elif field.name not in known:
                kind = {"double": "DOUBLE", "int64": "BIGINT", "bool": "BOOLEAN"}.get(str(field.type), "VARCHAR")
                self._connection.execute(f"ALTER TABLE {name} ADD COLUMN {_quoted(field.name)} {kind}")
            elif known[field.name] == "BIGINT" and pa.types.is_floating(field.type):
                self._connection.execute(f"ALTER TABLE {name} ALTER COLUMN {_quoted(field.name)} TYPE DOUBLE")
        self._connection.register("batch", rows)
        self._connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM batch")
        self._connection.unregister("batch")


def _rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that all have the same columns, each with values of one type."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    kinds = {name: {type(row[name]) for row in rows if row.get(name) is not None} for name in names}
    real = {name for name, found in kinds.items() if found == {int, float}}
    return [{n: float(row[n]) if n in real and row.get(n) is not None else row.get(n) for n in names} for row in rows]


@contextlib.contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        text = str(error).split("\n")[0]
        if "Could not set lock" in text or "same database file with a different configuration" in text:
            process = text.partition("(PID ")[2].partition(")")[0]
            by = f" by process {process}" if process else ""
            raise InputError(str(path), "", f"a file in use{by}", "a results file that nothing else has open") from None
        if reason := next((reason for reason in _FULL if reason in text), None):
            raise InputError(str(path), "", f"no room for more ({reason.lower()})", "a disk with free space") from None
        if "not a valid DuckDB database file" in text:
            raise InputError(str(path), "", "another kind of file", _ALLOWED) from None
        raise InputError(str(path), "", f"a file that cannot be used ({text})", _ALLOWED) from None
    except OSError as error:
        raise InputError(str(path), "", (error.strerror or str(error)).lower(), _ALLOWED) from None
