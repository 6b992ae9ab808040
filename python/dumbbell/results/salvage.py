"""What of a damaged results file can still be read, and saving it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import duckdb
import polars as pl

from dumbbell.errors import InUse, Nothing, Unreadable, Unwritable
from dumbbell.results import store
from dumbbell.scratch import Scratch

_PIECE = 2048  # rows: what DuckDB reads at a time, and so about the least that a damaged block takes with it
_BATCH = 122_880  # rows that are copied at a time


@dataclass
class TableFound:
    """A table of a results file: its rows, and which of them can be read."""

    name: str
    rows: int = 0
    numbers: int = 0  # of rows, those that were deleted included
    readable: list[tuple[int, int]] = field(default_factory=list)  # ranges of row numbers, without their ends
    damaged: list[tuple[int, int]] = field(default_factory=list)
    said: str = ""  # by DuckDB, of the first damage

    @property
    def lost(self) -> int:
        """How many rows cannot be read."""
        return sum(end - start for start, end in self.damaged)


@dataclass
class SalvageReport:
    """What can be read of a results file."""

    path: Path
    tables: dict[str, TableFound]
    runs: list[str]
    """Keys of the runs whose row in `runs` can be read."""
    whole: list[str]
    """Of these the keys of runs of which every row can be read."""
    notes: list[str]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost."""
        return not self.notes and not any(table.damaged for table in self.tables.values())

    def to_text(self) -> str:
        """Return a table of what was found, and a sentence."""
        width = max(map(len, self.tables), default=0)
        lines = [f"{self.path}: {note}" for note in self.notes]
        for table in self.tables.values():
            state = f"{table.lost} of them cannot be read ({table.said})" if table.damaged else "ok"
            lines.append(f"{table.name:{width}}  {table.rows:10} rows  {state}")
        of = self.tables["runs"].rows if "runs" in self.tables else 0
        lines.append(
            f"{len(self.whole)} of {of} runs are whole" + ("" if self.is_whole else f"; {_give_advice(self.path)}")
        )
        return "\n".join(lines)


def _give_advice(path: Path) -> str:
    return f"dumbbell store save {path} -o NEW.duckdb keeps them"


class _TableReader:
    """Reads a file that may be damaged: after a failure DuckDB wants a new connection."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(duckdb.Error):
                self._connection.close()
        self._connection = None

    def read(self, query: str) -> pl.DataFrame:
        """Return what a query gives; raises duckdb.Error for damage."""
        try:
            if self._connection is None:
                self._connection = store.connect(self.path, read_only=True, threads=1)
            return pl.DataFrame(store.ArrowStream(self._connection.sql(query)))
        except duckdb.Error:
            self._close()
            raise

    def read_rows(self, table: str, start: int, end: int, what: str = "*") -> pl.DataFrame:
        """Return the rows of a range."""
        return self.read(f"SELECT {what} FROM {table} WHERE rowid >= {start} AND rowid < {end}")


@contextlib.contextmanager
def _open_damaged(path: Path) -> Iterator[tuple[_TableReader, list[str]]]:
    """Open a results file, without its log if that cannot be read; raises InputError if neither can be opened."""
    notes: list[str] = []
    with contextlib.ExitStack() as undo:
        place, said = path, _explain_failure(path)
        if not path.is_file():
            store.Store.open(path).close()  # says what is wrong with it
        if store.LOCKED in said:
            raise InUse("another process", "wait for its end", file=path)
        if store.is_other(said):
            raise Unreadable(f"this is {store.describe_kind(path)}", store.ALLOWED, file=path)
        elif said:
            place = undo.enter_context(Scratch()) / path.name
            shutil.copyfile(path, place)
            log = store.find_log(path)
            if not log.exists() or _explain_failure(place):
                raise Unreadable(f"it cannot be opened at all ({said})", store.ALLOWED, file=path)
            notes.append(
                f"the log next to it, {log.name}, cannot be read ({said}); this is what the file has without it"
            )
        else:
            store.Store.open(path).close()  # another format, or another kind of database
        yield undo.enter_context(_TableReader(place)), notes


def _explain_failure(path: Path) -> str:
    """Return why a file cannot be opened, or nothing."""
    try:
        with _TableReader(path) as reader:
            reader.read("SELECT 1")
    except duckdb.Error as error:
        return str(error).split("\n")[0][:200]
    return ""


def check(path: str | Path) -> SalvageReport:
    """Read every row of a results file and say what cannot be read; raises InputError if it cannot be opened."""
    path = Path(path)
    with _open_damaged(path) as (reader, notes):
        return _examine_file(path, reader, notes)


def _examine_file(path: Path, reader: _TableReader, notes: list[str]) -> SalvageReport:
    tables = {}
    for name in store.TABLES:
        table = TableFound(name)
        try:
            counted = reader.read(f"SELECT count(*) AS rows, coalesce(max(rowid) + 1, 0) AS numbers FROM {name}")
            table.rows, table.numbers = counted.row(0)
        except duckdb.Error as error:
            notes.append(f"table {name} cannot be read at all ({str(error).splitlines()[0]})")
            continue
        for start, end in _split_range(0, table.numbers, _BATCH):
            _look(reader, table, start, end)
        tables[name] = table
    runs = _read_keys(reader, tables["runs"]) if "runs" in tables else []
    whole = set(runs) if len(tables) == len(store.TABLES) else set[str]()
    for table in tables.values():
        if table.name != "runs" and table.damaged:
            whole &= _find_untouched(reader, table, set(runs))
    return SalvageReport(path, tables, runs, [key for key in runs if key in whole], notes)


def _split_range(start: int, end: int, step: int) -> Iterator[tuple[int, int]]:
    return ((one, min(one + step, end)) for one in range(start, end, step))


def _look(reader: _TableReader, table: TableFound, start: int, end: int) -> None:
    """Find which rows of a range can be read, by halves."""
    try:
        reader.read_rows(table.name, start, end)
    except duckdb.Error as error:
        table.said = table.said or str(error).split("\n")[0][:120]
        if end - start <= _PIECE:
            _join(table.damaged, start, end)
            return
        middle = (start + end) // 2
        _look(reader, table, start, middle)
        _look(reader, table, middle, end)
        return
    _join(table.readable, start, end)


def _join(ranges: list[tuple[int, int]], start: int, end: int) -> None:
    if ranges and ranges[-1][1] == start:
        ranges[-1] = (ranges[-1][0], end)
    else:
        ranges.append((start, end))


def _read_keys(reader: _TableReader, table: TableFound) -> list[str]:
    found: list[str] = []
    for start, end in table.readable:
        found += reader.read_rows(table.name, start, end, "key")["key"].to_list()
    return found


def _find_untouched(reader: _TableReader, table: TableFound, runs: set[str]) -> set[str]:
    """Return the runs of which no row is among the damaged ones.

    Rows of a run follow each other. So damage touches the runs on both sides of it, and may
    have taken those of which no row is left.
    """
    found: set[str] = set()
    edges: set[str] = set()
    for start, end in table.readable:
        keys = reader.read_rows(table.name, start, end, "key")["key"]
        if not len(keys):  # numbers of rows that were deleted
            continue
        found |= set(keys.to_list())
        edges |= {keys[0]} if start > 0 else set()
        edges |= {keys[-1]} if end < table.numbers else set()
    return (found - edges) & runs


def save(path: str | Path, new: str | Path) -> SalvageReport:
    """Write every run of a results file that is whole to a new one; raises InputError if there is none."""
    path, new = Path(path), Path(new)
    if new.exists():
        raise Unwritable("this file exists", "a name that is free", file=new)
    if not new.parent.is_dir():
        raise Unwritable(f"no folder {new.parent}", "a file in a folder that exists", file=new)
    with _open_damaged(path) as (reader, notes):
        found = _examine_file(path, reader, notes)
        if not found.whole:
            raise Nothing("no run can be read whole", "a file with one run or more that is not damaged", file=path)
        # under another name until it is complete
        with store.clear_errors(new), Scratch(new.parent) as folder:
            draft = folder / new.name
            with store.Store.open(draft, write=True) as saved:
                for table in found.tables.values():
                    saved.write({table.name: reader.read_rows(table.name, 0, 0)})  # its columns, should no row be left
                    for first, last in table.readable:
                        for start, end in _split_range(first, last, _BATCH):
                            rows = reader.read_rows(table.name, start, end)
                            saved.write({table.name: rows.filter(pl.col("key").is_in(found.whole))})
            draft.rename(new)
    return found
