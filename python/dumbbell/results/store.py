"""Results in one DuckDB file: the tables in `TABLES`, joined by a run's `key`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import duckdb

from dumbbell import _native, file_kinds
from dumbbell.errors import InUse, Unreadable, Unwritable, WrongValue
from dumbbell.experiment.cell import Cell
from dumbbell.results.columns import TABLES as DECLARED
from dumbbell.results.measured_run import Finished
from dumbbell.results.reading import ALONE, Attached, attach_file, attach_memory, silence_connection
from dumbbell.scratch import Scratch, create_whole
from dumbbell.writing import get_reason

if TYPE_CHECKING:
    import polars as pl

FORMAT = 5
_CACHE = "32MB"  # of the file, in memory after every eighth commit
_CACHED_COMMITS = 8
_LOG = "64MB"  # from which on the log is worked into the file: this costs as much as writing it, and less by the byte
TABLES = tuple(DECLARED)
KINDS_OF_RUNS = dict.fromkeys(("key", "experiment", "title"), "VARCHAR") | {
    "seed": "BIGINT",
    "matrix": "VARCHAR",
    "config": "VARCHAR",
    "engine_version": "VARCHAR",
    "cell": "VARCHAR",
    "wall_s": "DOUBLE",
    "hash": "VARCHAR",
}
"""The first columns of table `runs`, and their SQL types."""
ALLOWED = "a results file written by dumbbell run"
# what makes files that are called so from results, or from an experiment
_MADE_BY = {
    ".csv": "dumbbell export RESULTS --format csv",
    ".parquet": "dumbbell export RESULTS --format parquet",
    ".pcapng": "dumbbell trace FILE",
    ".qlog": "dumbbell trace FILE",
    ".html": "dumbbell report RESULTS",
} | dict.fromkeys((".png", ".svg", ".pdf"), "dumbbell plot RESULTS")
_INTERRUPTED = "Query interrupted"
LOCKED = "Could not set lock"  # of DuckDB, about a file that another process has open
_OPEN_HERE = ("same database file with a different configuration", "Unique file handle conflict")  # or this process
# they would change what else reads results in this process
_NOT_QUERIES = {"ATTACH", "DETACH", "LOAD", "PRAGMA", "SET", "VARIABLE_SET"}
_PATIENCE_S = 1.0  # with others that read a file at the moment at which it is to be written
_ATTEMPTS, _AGAIN_S = 40, 0.05  # to copy a file between two commits that change it
_SETTLED_NS = 20_000_000  # the clock of a file's times ticks every few ms: what was written just now may be again
_FULL = {number: os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}


@dataclass(frozen=True)
class Alike:
    """Of `cells` that were run with several seeds, how many measured the same with each; at most `seeds` of them."""

    same: int
    cells: int
    seeds: int


def gather_tables(runs: list[Finished], tables: list[str] | None = None) -> dict[str, _native.Rows]:
    """Return what is kept of finished runs, table by table, each in one piece: to DuckDB every chunk is a batch.

    These are all tables, or those with the names `tables`.
    """
    cells = [run.cell for run in runs]
    matrices: dict[int, str] = {}  # seeds have one in common
    for matrix in {id(cell.matrix): cell.matrix for cell in cells}.values():
        matrices[id(matrix)] = json.dumps(matrix, ensure_ascii=False)
    described: list[tuple[str, list[int] | list[float] | list[str] | list[str | None]]] = [
        ("key", [cell.key for cell in cells]),
        ("experiment", [cell.experiment for cell in cells]),
        ("title", [cell.title for cell in cells]),
        ("seed", [cell.seed for cell in cells]),
        ("number", [cell.number for cell in cells]),
        ("matrix", [matrices[id(cell.matrix)] for cell in cells]),
        ("config", [cell.config for cell in cells]),
        ("engine_version", [cell.engine for cell in cells]),
        ("kernel", [run.run.kernel or None for run in runs]),
        ("given", [_format_given(cell) if cell.plan_of else None for cell in cells]),
        ("cell", [cell.cell_key for cell in cells]),
        ("wall_s", [float(run.run.wall_s) for run in runs]),
    ]
    return dict(_native.gather([run.run.result for run in runs], described, tables))


def _format_given(cell: Cell) -> str:
    """Return the keys that an experiment sets, where it matters: JSON."""

    def find_given(value: Any, place: str) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from find_given(inner, f"{place}.{key}" if place else key)
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                yield from find_given(inner, f"{place}[{number}]")
        else:
            yield place

    return json.dumps(sorted(find_given(cell.given, "")))


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class ArrowStream:
    """A table as DuckDB and polars hand it over without pyarrow, which may not be installed."""

    table: Any

    def __arrow_c_stream__(self, requested: object = None) -> object:
        return self.table.__arrow_c_stream__(requested)


class Store:
    """A results file; a context manager. Errors of the file are InputErrors of one line."""

    def __init__(
        self,
        path: Path,
        file: Attached | duckdb.DuckDBPyConnection,
        snapshot: Scratch | None = None,
    ) -> None:
        self.path, self._file, self._snapshot = path, file, snapshot
        self._connection = file.connection if isinstance(file, Attached) else file
        self._commits = 0
        self._known: dict[str, dict[str, str]] = {}  # columns of tables that were written to, and their types

    @classmethod
    def open(cls, path: str | Path, *, write: bool = False) -> Self:
        """Open a results file, created if it is missing and `write` is true.

        A file that another process writes is read as it was at its last commit. Raises InputError if the file is
        not a results file, is damaged or, to be written, is in use; it is then left unchanged.
        """
        path = Path(path)
        with clear_errors(path):
            if path.is_dir():
                raise Unreadable("this is a directory", ALLOWED, file=path)
            if path.exists():
                return cls._write(path) if write else cls._read(path)
            if not write:
                raise Unreadable("there is no such file", ALLOWED, file=path)
            if maker := _MADE_BY.get(path.suffix.lower()):
                found = f"results are a DuckDB file, and {path.suffix} names another kind"
                raise Unwritable(found, f"a name such as {path.stem}.duckdb; {maker} makes {path.suffix}", file=path)
            if not path.parent.is_dir():
                raise Unwritable(f"there is no folder {path.parent}", "a file in a folder that exists", file=path)
            made = cls._create(path)
            return cls._write(path, known=made)

    @classmethod
    def hold(cls, name: Path, tables: Mapping[str, pl.DataFrame]) -> Self:
        """Return a store in memory with copies of tables, which errors call `name`."""
        with contextlib.ExitStack() as undo:
            file = attach_memory()
            undo.callback(file.close)
            for table, rows in tables.items():
                file.connection.register("held", ArrowStream(rows))
                file.connection.execute(f"CREATE TABLE {table} AS SELECT * FROM held")
            file.connection.unregister("held")
            undo.pop_all()
            return cls(name, file)

    @classmethod
    def _write(cls, path: Path, *, known: bool = False) -> Self:
        """Open a file that is there; whether it holds results is checked unless that is `known`."""
        patience = time.monotonic() + _PATIENCE_S
        while True:
            try:
                if not known:
                    cls._open_checked(path, path).close()
                # what is written are small commits, in which a second thread would mostly wait for the first
                connection = connect(path, threads=1, checkpoint_threshold=_LOG)
                return cls(path, connection)
            except duckdb.IOException as error:
                if LOCKED not in str(error) or time.monotonic() > patience:
                    raise
            time.sleep(_AGAIN_S)

    @classmethod
    def _read(cls, path: Path) -> Self:
        # not looked at by other means: to close any descriptor of a file gives up the locks that DuckDB holds on it
        try:
            return cls(path, cls._open_checked(path, path))
        except duckdb.IOException as error:
            if LOCKED not in str(error):
                raise
            # locks of this process are no conflict: another one has it, and to close a descriptor here harms nobody
            with contextlib.ExitStack() as undo:
                folder = Scratch()
                undo.callback(folder.close)
                if not _copy_snapshot(path, folder.path):
                    raise
                file = cls._open_checked(folder.path / path.name, path)
                undo.pop_all()
                return cls(path, file, folder)

    @staticmethod
    def _open_checked(path: Path, said: Path) -> Attached:
        """Return results that are read; errors are said of `said`."""
        with contextlib.ExitStack() as undo:
            file = attach_file(path)
            undo.callback(file.close)
            try:
                formats = [row[0] for row in file.connection.execute("SELECT format FROM dumbbell").fetchall()]
            except duckdb.CatalogException:
                raise Unreadable("this is a database of something else", ALLOWED, file=said) from None
            if formats != [FORMAT]:
                found = f"these are results in format {', '.join(map(str, formats)) or None}"
                raise Unreadable(
                    found, f"results in format {FORMAT}; run the experiment again with this version", file=said
                )
            undo.pop_all()
            return file

    @staticmethod
    def _create(path: Path) -> bool:
        """Make an empty results file, complete at the moment at which it appears; False if another was there first."""
        log = find_log(path)
        if log.exists():
            raise Unwritable("this is the log of another results file", "another name", file=log)
        empty = _make_empty_file()
        try:  # not over a file that another sweep has made and opened meanwhile
            create_whole(path, empty)
        except FileExistsError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write everything to the file itself and give it free."""
        with contextlib.suppress(duckdb.Error):
            if not isinstance(self._file, Attached):  # which works the log into the file, and nothing else goes on
                self._connection.execute("RESET threads")
            self._file.close()
        if self._snapshot is not None:
            self._snapshot.close()

    def find_kept(self, keys: Iterable[str]) -> set[str]:
        """Return those of `keys` whose runs are kept."""
        with clear_errors(self.path):
            query = "SELECT key FROM runs WHERE key IN (SELECT unnest(?::VARCHAR[]))"
            return {row[0] for row in self._connection.execute(query, [list(keys)]).fetchall()}

    def find_alike_seeds(self, experiments: Iterable[str], engine: str) -> Alike:
        """Return in how many cells of these experiments, run by this engine, the seed made no difference."""
        with clear_errors(self.path):
            cells = (
                "SELECT count(*) AS seeds, count(DISTINCT hash) AS hashes FROM runs"
                " WHERE engine_version = ? AND experiment IN (SELECT unnest(?::VARCHAR[])) GROUP BY cell"
            )
            query = f"SELECT count(*) FILTER (hashes = 1), count(*), max(seeds) FROM ({cells}) WHERE seeds > 1"
            found = self._connection.execute(query, [engine, list(experiments)]).fetchall()
        same, of, seeds = found[0]
        return Alike(same, of, seeds or 0)

    def read_kernel_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the kernels that made runs here, by the version of the engine."""
        if "kernel" not in self.list_columns("runs"):
            return {}
        rows = self.read("SELECT DISTINCT engine_version, kernel FROM runs WHERE engine_version LIKE 'linux-%'")
        names: dict[str, set[str]] = {}
        for version, text in rows.iter_rows():
            with contextlib.suppress(ValueError, TypeError, LookupError):  # written by other versions of dumbbell
                name = str(json.loads(text)["kernel"]["name"])
                names.setdefault(version, set()).add(name)
        return {version: tuple(sorted(found)) for version, found in names.items()}

    def list_columns(self, name: str) -> list[str]:
        """Return the names of the columns of a table."""
        with clear_errors(self.path):
            return [row[0] for row in self._connection.execute(f"DESCRIBE {name}").fetchall()]

    def list_types(self, name: str) -> dict[str, str]:
        """Return the names and SQL types of the columns of a table."""
        with clear_errors(self.path):
            return {row[0]: row[1] for row in self._connection.execute(f"DESCRIBE {name}").fetchall()}

    def read(self, query: str, **frames: pl.DataFrame) -> pl.DataFrame:
        """Return what an SQL query over the tables, and over `frames` by their names, gives."""
        import polars as pl  # who only writes does without

        with clear_errors(self.path):
            for name, frame in frames.items():
                self._connection.register(name, ArrowStream(frame))
            return pl.DataFrame(ArrowStream(self._connection.sql(query)))

    def run_query(
        self,
        query: str,
        keys: pl.DataFrame,
        frames: dict[str, pl.DataFrame],
        kept: dict[str, pl.DataFrame] | None = None,
    ) -> pl.DataFrame:
        """Return what a user's query gives over the runs in `keys` and over `frames`; InputError if it is not a query.

        `kept` says of some tables which rows are meant, by the values of a few columns.
        """
        import polars as pl

        with clear_errors(self.path):
            self._connection.register("meant", ArrowStream(keys))
            self._connection.execute("CREATE TEMP TABLE meant_keys AS SELECT key FROM meant")
            here = self._connection.execute("SELECT current_database()").fetchone()
            for name in TABLES:
                of_file = f"{_quote_name(str(here and here[0]))}.main.{name}"
                meant = "key IN (SELECT key FROM meant_keys)"
                if kept and name in kept:
                    columns = ", ".join(kept[name].columns)
                    self._connection.register("meant", ArrowStream(kept[name]))
                    self._connection.execute(f"CREATE TEMP TABLE kept_{name} AS SELECT * FROM meant")
                    meant = f"({columns}) IN (SELECT ({columns}) FROM kept_{name})"
                self._connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM {of_file} WHERE {meant}")
            for name, frame in frames.items():
                self._connection.register(name, ArrowStream(frame))
            allowed = f"a query over {', '.join(TABLES)}"
            try:
                kinds = {statement.type.name for statement in duckdb.extract_statements(query)}
                if others := kinds & _NOT_QUERIES:
                    raise WrongValue(min(others), allowed, key="sql")
                found = self._connection.sql(query)
                for name, kind in zip(found.columns, found.types, strict=True):
                    if kind == "INTERVAL":
                        raise WrongValue(f"an interval, {name}", f"a number, such as epoch({name})", key="sql")
                names = [
                    f"#{place} AS {_quote_name(name)}" for place, name in enumerate(_number_names(found.columns), 1)
                ]
                return pl.DataFrame(ArrowStream(found.project(", ".join(names))))
            except duckdb.Error as error:  # the file is open and readable: what fails now is the query
                text = " ".join(str(error).split("\n")[0].split())
                raise WrongValue(text, allowed, key="sql") from None

    def read_table(self, name: str) -> pl.DataFrame:
        """Return one of the tables, in an order that does not depend on how the runs were scheduled."""
        with clear_errors(self.path):
            return self.read(
                f"SELECT * FROM {name} ORDER BY ALL" if name == "runs" else f"SELECT * FROM {name} ORDER BY key, rowid"
            )

    def add(self, runs: Iterable[Finished]) -> None:
        """Keep finished runs, all of them or, if the machine stops, none."""
        if runs := list(runs):
            self.write(gather_tables(runs))

    def write(self, rows: Mapping[str, _native.Rows | pl.DataFrame]) -> None:
        """Add rows to tables, all of them or none. A column may be new, and one of integers may turn real."""
        with clear_errors(self.path):
            self._connection.execute("BEGIN")
            try:
                for name in TABLES:
                    if name in rows:
                        self._insert(name, rows[name])
                self._connection.execute("COMMIT")
            except BaseException:
                self._known.clear()
                with contextlib.suppress(duckdb.Error):
                    self._connection.execute("ROLLBACK")
                raise
        self._commits += 1
        if self._commits % _CACHED_COMMITS:
            return
        # what has been written is not needed in memory again, where it would stay until most of it was full
        with contextlib.suppress(duckdb.Error):
            self._connection.execute(f"SET memory_limit = '{_CACHE}'")
        self._connection.execute("RESET memory_limit")

    def list_tables(self) -> list[str]:
        """Return the names of all tables, those of searches too."""
        with clear_errors(self.path):
            return [row[0] for row in self._connection.execute("SHOW TABLES").fetchall()]

    def make_table(self, name: str, columns: Mapping[str, str]) -> None:
        """Make a table that is not one of runs, by the names and SQL types of its columns, unless it is there."""
        with clear_errors(self.path):
            listed = ", ".join(f"{_quote_name(column)} {kind}" for column, kind in columns.items())
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({listed})")

    def replace_rows(self, tables: Mapping[str, tuple[pl.DataFrame, tuple[str, str] | None]]) -> None:
        """Add rows to tables that are not those of runs, all of them or none.

        With a column and its value, they are in place of the rows that have this value.
        """
        with clear_errors(self.path):
            self._connection.execute("BEGIN")
            try:
                for name, (rows, former) in tables.items():
                    if former is not None:
                        self._connection.execute(f"DELETE FROM {name} WHERE {former[0]} = ?", [former[1]])
                    if rows.height:
                        self._connection.register("batch", ArrowStream(rows))
                        self._connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM batch")
                        self._connection.unregister("batch")
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(duckdb.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def _insert(self, name: str, rows: _native.Rows | pl.DataFrame) -> None:
        if name not in self._known:
            described = self._connection.execute(f"DESCRIBE {name}").fetchall()
            self._known[name] = {row[0]: row[1] for row in described}
        known = self._known[name]
        kinds = list_kinds(rows)
        if len(kinds.keys() - known.keys()) > 1:
            self._replace_table(name, known, kinds)
        for column, kind in kinds.items():
            if column not in known:
                self._connection.execute(f"ALTER TABLE {name} ADD COLUMN {_quote_name(column)} {kind}")
            elif (known[column], kind) == ("BIGINT", "DOUBLE"):
                self._connection.execute(f"ALTER TABLE {name} ALTER COLUMN {_quote_name(column)} TYPE DOUBLE")
            else:
                continue
            known[column] = kind
        if (
            rows.num_rows if isinstance(rows, _native.Rows) else rows.height
        ) == 0:  # of no run, but the columns are there for those who ask
            return
        self._connection.register("batch", ArrowStream(rows))
        self._connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM batch")
        self._connection.unregister("batch")

    def _replace_table(self, name: str, known: dict[str, str], kinds: dict[str, str]) -> None:
        """Give a table without rows all its columns at once: one by one, they take as long as 500 runs."""
        if self._connection.execute(f"SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT 1)").fetchall() != [(0,)]:
            return
        known |= {column: kind for column, kind in kinds.items() if column not in known}
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} ({_format_columns(name, known)})")


def list_kinds(rows: _native.Rows | pl.DataFrame) -> dict[str, str]:
    """Return the names and SQL types of columns."""
    if isinstance(rows, _native.Rows):
        return dict(rows.kinds)
    return {
        name: {"Float64": "DOUBLE", "Int64": "BIGINT"}.get(str(kind), "VARCHAR") for name, kind in rows.schema.items()
    }


_OF_KEY = {("runs", "key"): " PRIMARY KEY"}


def _format_columns(table: str, kinds: Mapping[str, str]) -> str:
    """Return columns as SQL declares them."""
    return ", ".join(f"{_quote_name(name)} {kind}{_OF_KEY.get((table, name), '')}" for name, kind in kinds.items())


def _number_names(names: list[str]) -> list[str]:
    """Return names of columns of which those that came before have a number, as DuckDB gives them: `key`, `key_1`."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        number = seen[name] = seen.get(name, -1) + 1
        found.append(f"{name}_{number}" if number else name)
    return found


def _make_empty_file() -> bytes:
    """Return a results file without runs."""
    with clear_errors(Path(tempfile.gettempdir())), Scratch() as folder:
        draft = folder / "empty.duckdb"
        with contextlib.closing(connect(draft)) as connection:
            connection.execute(f"CREATE TABLE dumbbell AS SELECT {FORMAT} AS format")
            connection.execute(f"CREATE TABLE runs ({_format_columns('runs', KINDS_OF_RUNS)})")
            for table in TABLES[1:]:
                connection.execute(f"CREATE TABLE {table} (key VARCHAR)")
            # close() would say nothing if the disk is full, and leave tables in the log
            connection.execute("CHECKPOINT")
        return draft.read_bytes()


def connect(
    path: Path, *, read_only: bool = False, **settings: str | bool | int | float | list[str]
) -> duckdb.DuckDBPyConnection:
    """Return a connection to a file, which may be of another kind. Raises duckdb.Error."""
    return silence_connection(duckdb.connect(str(path), read_only=read_only, config=ALONE | settings))


def find_log(path: Path) -> Path:
    """Return the name of the log that DuckDB keeps next to a file."""
    return path.with_name(path.name + ".wal")


def _copy_snapshot(path: Path, folder: Path) -> bool:
    """Copy a results file that another process writes, and its log, to `folder`; False if it never stood still.

    The file itself changes only when the log is worked into it; between two of these times the log only grows. What is
    torn at its end belongs to a commit that is not over.
    """
    for _ in range(_ATTEMPTS):
        before, log_before = _read_state(path), _read_state(find_log(path))
        if before is not None and time.time_ns() - before.st_mtime_ns > _SETTLED_NS:
            copy = folder / path.name
            shutil.copyfile(path, copy)
            find_log(copy).unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(find_log(path), find_log(copy))
            after, log_after = _read_state(path), _read_state(find_log(path))
            same = after is not None and _stamp(after) == _stamp(before)
            grown = log_before is None or (
                log_after is not None
                and log_after.st_ino == log_before.st_ino
                and log_after.st_size >= log_before.st_size
            )
            if same and grown:
                return True
        time.sleep(_AGAIN_S)
    return False


def is_other(text: str) -> bool:
    """Whether DuckDB says of a file that it is none of its own."""
    return "not a valid DuckDB database file" in text or "sqlite" in text.lower()


def describe_kind(path: Path) -> str:
    """Return what a file that DuckDB does not open is."""
    if found := file_kinds.find_kind_of_file(path):
        return str(found)
    with contextlib.suppress(OSError):
        if not path.stat().st_size:
            return "an empty file"
    return "another kind of file"


def _read_state(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _stamp(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_ino, state.st_size, state.st_mtime_ns


@contextlib.contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn errors of a results file into InputErrors."""
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except RuntimeError as error:  # so DuckDB says that Ctrl-C came while it was at a query
        if _INTERRUPTED in str(error):
            raise KeyboardInterrupt from None
        raise
    except duckdb.Error as error:
        text = str(error).split("\n")[0]
        if LOCKED in text or any(said in text for said in _OPEN_HERE):
            process = text.partition("(PID ")[2].partition(")")[0]
            raise InUse(
                process and f"process {process}", "end that process, or choose another results file", file=path
            ) from None
        if reason := next((reason for reason in _FULL.values() if reason in text), None):
            raise Unwritable(f"the disk is full ({reason.lower()})", "a disk with free space", file=path) from None
        if is_other(text):
            raise Unreadable(f"this is {describe_kind(path)}", ALLOWED, file=path) from None
        found = f"it is damaged ({text}); docs/troubleshooting.md shows how to save the rest"
        raise Unreadable(found, file=path) from None
    except OSError as error:
        reason = get_reason(error)
        if error.errno in _FULL:
            raise Unwritable(f"the disk is full ({reason})", "a disk with free space", file=path) from None
        raise Unreadable(reason, ALLOWED, file=path) from None
