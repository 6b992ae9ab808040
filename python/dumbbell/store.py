"""Results in one DuckDB file: runs, flows, classes, series, queue_series and sojourn, joined by a run's `key`."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import operator
import os
import sys
from array import array
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import duckdb
import polars as pl
import pyarrow as pa

from dumbbell import _native
from dumbbell.errors import InputError
from dumbbell.experiment import Cell

FORMAT = 1
_CACHE = "32MB"  # of the file, in memory after a commit
TABLES = ("runs", "flows", "classes", "series", "queue_series", "sojourn")
_ALLOWED = "a results file written by dumbbell run"
_FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


@dataclass(frozen=True)
class Measured:
    """What one run measured, as the engine gives it: plain values, which can be sent to another process."""

    wall_s: float
    hash: str
    summary: str
    columns: dict[str, _native.Columns]


@dataclass(frozen=True)
class Finished:
    """One finished run: what describes it and what it measured."""

    cell: Cell
    wall_s: float
    hash: str
    summary: dict[str, Any]
    tables: Mapping[str, _native.Columns | pa.Table]


def measured(result: _native.Result, wall_s: float) -> Measured:
    """Return everything in `result`, which took `wall_s` seconds."""
    tables = ("flows", "classes", "series", "queue_series", "sojourn")
    return Measured(wall_s, result.hash, result.summary, {name: getattr(result, name) for name in tables})


@lru_cache
def _schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    types = {"text": pa.string(), "u64": pa.int64(), "f64": pa.float64()}
    return pa.schema([(name, types[kind]) for name, kind in columns])


def arrow(parts: Iterable[_native.Columns | pa.Table]) -> pa.Table:
    """Return the rows of all parts that have some, the engine's columns or Arrow tables, one after the other.

    The table is in one piece: to DuckDB every chunk of a table is a batch of its own.
    """
    alike = itertools.groupby(filter(_height, parts), _schema_of)
    tables = [_joined(schema, list(some)) for schema, some in alike]
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _schema_of(part: _native.Columns | pa.Table) -> pa.Schema:
    return part.schema if isinstance(part, pa.Table) else _schema(tuple((name, kind) for name, kind, _ in part))


def _joined(schema: pa.Schema, parts: list[Any]) -> pa.Table:
    if isinstance(parts[0], pa.Table):
        return pa.concat_tables(parts)
    arrays = []
    for number, dtype in enumerate(schema.types):
        values = [part[number][2] for part in parts]
        if dtype == pa.string():
            arrays.append(pa.array(itertools.chain.from_iterable(values), dtype))
        else:
            words = b"".join(values)
            arrays.append(pa.Array.from_buffers(dtype, len(words) // 8, [None, pa.py_buffer(words)]))
    return pa.Table.from_arrays(arrays, schema=schema)


def _height(part: _native.Columns | pa.Table) -> int:
    """Return the number of rows."""
    if isinstance(part, pa.Table):
        return int(part.num_rows)
    return len(part[0][2]) // (8 if isinstance(part[0][2], bytes) else 1) if part else 0


def _values(columns: _native.Columns, names: Container[str]) -> dict[str, list[Any]]:
    """Return some columns as lists."""
    lists: dict[str, list[Any]] = {}
    for name, kind, values in columns:
        if name in names:
            is_bytes = isinstance(values, bytes)
            lists[name] = list(array("q" if kind == "u64" else "d", values)) if is_bytes else list(values)
    return lists


def _column(name: str, values: list[Any]) -> tuple[Any, ...]:
    """Return a column as the engine would give it."""
    match values[0]:
        case str():
            return name, "text", values
        case int():
            return name, "u64", array("q", values).tobytes()
        case _:
            return name, "f64", array("d", values).tobytes()


def _ratio(part: float, whole: float) -> float:
    """Return part / whole as IEEE 754 has it, without errors."""
    if whole:
        return part / whole
    return math.inf if part > 0 else math.nan


_OF_FLOWS = (
    *("class", "cc", "base_rtt_ms", "throughput_mbit", "goodput_mbit", "rtt_mean_ms"),
    *("sojourn_mean_ms", "packets", "ce_received", "drops_overflow", "drops_aqm"),
)
_FIRST, _MEANS = ("class", "cc", "base_rtt_ms"), ("throughput_mbit", "goodput_mbit", "rtt_mean_ms")


def classes(flows: _native.Columns, queue: _native.Columns, rate: int) -> _native.Columns:
    """Return one row a connection class (congestion control, base RTT, ECN); `rate` is the link's, bit/s.

    `queue` is what the engine measured of each class. Further columns are means over the flows of the class, shares of
    the packets of the class, and
    `relative_throughput`: throughput over (rate / number of flows);
    `window_kb`: throughput * (base RTT + mean sojourn), kB;
    `normalised_window`: that over the window which, equal for all flows, would fill the link.

    Sums are exact before they are rounded (fsum): they depend on neither the order of flows nor the version of Python.
    """
    of = _values(flows, _OF_FLOWS)
    members: dict[int, list[int]] = {}
    for flow, number in enumerate(of["class"]):
        members.setdefault(number, []).append(flow)
    count = len(of["class"])
    rows: list[dict[str, Any]] = []
    for of_class in members.values():
        part = {name: [values[flow] for flow in of_class] for name, values in of.items()}
        packets = sum(part["packets"])
        drops = sum(part["drops_overflow"]) + sum(part["drops_aqm"])
        waited = math.fsum(map(operator.mul, part["sojourn_mean_ms"], part["packets"]))
        row = {name: part[name][0] for name in _FIRST} | {"flows": len(of_class)}
        row |= {name: math.fsum(part[name]) / len(of_class) for name in _MEANS}
        row |= {"sojourn_mean_ms": _ratio(waited, packets), "mark_share": _ratio(sum(part["ce_received"]), packets)}
        row |= {"drop_share": _ratio(drops, drops + packets)}
        rows.append(row | {"relative_throughput": _ratio(row["throughput_mbit"], rate / 1e6 / count)})
    waits = (0.0 if math.isnan(row["sojourn_mean_ms"]) else row["sojourn_mean_ms"] for row in rows)
    rtts_s = [(row["base_rtt_ms"] + wait) / 1e3 for row, wait in zip(rows, waits, strict=True)]
    fair_kb = rate / 8e3 / math.fsum(_ratio(row["flows"], rtt_s) for row, rtt_s in zip(rows, rtts_s, strict=True))
    for row, rtt_s in zip(rows, rtts_s, strict=True):
        row["window_kb"] = row["throughput_mbit"] * 125 * rtt_s
        row["normalised_window"] = _ratio(row["window_kb"], fair_kb)
    engine = _values(queue, [name for name, _, _ in queue])
    order = [engine["class"].index(number) for number in members]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns |= {name: [values[i] for i in order] for name, values in engine.items() if name != "class"}
    return [_column(name, values) for name, values in columns.items()]


def ratios(classes: _native.Columns) -> dict[str, float | None]:
    """Return the ratios of mean rate and mean window of the first class to the second, None unless there are two."""
    of = _values(classes, ("throughput_mbit", "window_kb"))

    def ratio(values: list[float]) -> float | None:
        return values[0] / values[1] if len(values) == 2 and values[1] > 0 else None

    return {"rate_ratio": ratio(of["throughput_mbit"]), "window_ratio": ratio(of["window_kb"])}


def finished(cell: Cell, run: Measured) -> Finished:
    """Return what was measured of `cell` in the form in which it is kept."""
    of_classes = classes(run.columns["flows"], run.columns["classes"], cell.groups["bottleneck"]["rate"])
    summary = json.loads(run.summary) | ratios(of_classes)
    return Finished(cell, run.wall_s, run.hash, summary, run.columns | {"classes": of_classes})


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
            # what is written are small commits, in which a second thread would mostly wait for the first
            return cls(path, duckdb.connect(str(path), read_only=not write, config={"threads": 1 if write else 2}))

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

    def kept(self, keys: Iterable[str]) -> set[str]:
        """Return those of `keys` whose runs are kept."""
        with _clear_errors(self.path):
            query = "SELECT key FROM runs WHERE key IN (SELECT unnest(?::VARCHAR[]))"
            return {row[0] for row in self._connection.execute(query, [list(keys)]).fetchall()}

    def columns(self, name: str) -> list[str]:
        """Return the names of the columns of a table."""
        with _clear_errors(self.path):
            return [row[0] for row in self._connection.execute(f"DESCRIBE {name}").fetchall()]

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
        keys = pa.array([run.cell.key for run in runs], pa.string())
        with _clear_errors(self.path):
            self._connection.execute("BEGIN")
            try:
                self._insert("runs", _rows([_run_row(run) for run in runs]))
                for name in TABLES[1:]:
                    parts = [run.tables.get(name, []) for run in runs]
                    if any(heights := [_height(part) for part in parts]):
                        self._insert(name, arrow(parts).add_column(0, "key", _repeated(keys, heights)))
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(duckdb.Error):
                    self._connection.execute("ROLLBACK")
                raise
        # what has been written is not needed in memory again, where it would stay until most of it was full
        with contextlib.suppress(duckdb.Error):
            self._connection.execute(f"SET memory_limit = '{_CACHE}'")
        self._connection.execute("RESET memory_limit")

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


def _repeated(values: pa.Array, times: list[int]) -> pa.Array:
    """Return every one of `values` as often as `times` says, each kept once."""
    numbers = b"".join(number.to_bytes(4, sys.byteorder) * n for number, n in enumerate(times))
    places = pa.Array.from_buffers(pa.int32(), sum(times), [None, pa.py_buffer(numbers)])
    return pa.DictionaryArray.from_arrays(places, values)


def _rows(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a table; a column that some of them lack, or that has integers and real numbers, is one column."""
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(itertools.chain.from_iterable(rows))}
    for name, values in columns.items():
        if {*map(type, values)} >= {int, float}:
            columns[name] = [None if value is None else float(value) for value in values]
    names = list(columns)
    return pa.Table.from_arrays([pa.array(values) for values in columns.values()], names)


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
