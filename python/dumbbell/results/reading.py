"""Results files that are read: one instance of DuckDB has them attached, each for as long as somebody reads it.

An instance takes some 13 ms to start, a file 1 ms to be attached, and one table opens its file six times.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import duckdb

# a file of another kind must not make DuckDB fetch an extension from the network
ALONE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def silence_connection(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return a connection that prints nothing: with `python -m`, DuckDB takes the session for an interactive one.

    In a notebook without the package ipywidgets DuckDB can show no progress bar, and refuses to switch it off.
    """
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    return connection


@dataclass
class _AttachedFile:
    name: str
    readers: int = 0


class _Instance:
    """Reads files, by several threads. One that was damaged by what it read is replaced by a new one."""

    def __init__(self) -> None:
        self._root = silence_connection(duckdb.connect(config=ALONE | {"threads": 2}))
        self._files: dict[tuple[int, int], _AttachedFile] = {}
        self._number = 0

    def is_working(self) -> bool:
        try:
            self._root.execute("SELECT 1")
        except duckdb.Error:
            return False
        return True

    def attach(self, path: Path | None) -> Attached:
        self._number += 1
        # attached twice, a file has two descriptors: to close one of them gives up the lock on the other
        place = (0, -self._number)  # of no file
        if path is not None:
            state = path.stat()
            place = (state.st_dev, state.st_ino)
        file = self._files.get(place)
        if file is None:
            file = _AttachedFile(f"results_{self._number}")
            quoted = str(path or ":memory:").replace("'", "''")
            self._root.execute(f"ATTACH '{quoted}' AS {file.name} ({'READ_ONLY, ' * (path is not None)}TYPE duckdb)")
            self._files[place] = file
        file.readers += 1
        connection = silence_connection(self._root.cursor())
        connection.execute(f"USE {file.name}")
        return Attached(connection, self, place)

    def detach(self, place: tuple[int, int]) -> None:
        file = self._files[place]
        file.readers -= 1
        if not file.readers:
            del self._files[place]
            with contextlib.suppress(duckdb.Error):
                self._root.execute(f"DETACH {file.name}")


@dataclass
class Attached:
    """A file that is read through `connection`, by whom it is the default database."""

    connection: duckdb.DuckDBPyConnection
    _instance: _Instance
    _place: tuple[int, int]
    _is_open: bool = True

    def close(self) -> None:
        """Give the file free, if nobody else in this process reads it."""
        with _lock:
            if self._is_open:
                self._is_open = False
                with contextlib.suppress(duckdb.Error):
                    self.connection.close()
                self._instance.detach(self._place)


_lock = threading.RLock()
_instance: _Instance | None = None
_of_parents: list[_Instance] = []  # never closed: their threads are not in this process


def attach_file(path: Path) -> Attached:
    """Return a connection that reads a file. Raises duckdb.Error, and OSError if there is none."""
    return _attach(path)


def attach_memory() -> Attached:
    """Return a connection to a database in memory, which goes when it is closed."""
    return _attach(None)


def _attach(path: Path | None) -> Attached:
    global _instance
    with _lock:
        if _instance is None or not _instance.is_working():
            _instance = _Instance()
        return _instance.attach(path)


@atexit.register
def _end() -> None:
    global _instance
    _instance = None  # what is left at the end of Python is reported as a leak


def _forget_instances() -> None:
    global _lock
    _lock = threading.RLock()
    if _instance is not None:
        _of_parents.append(_instance)
        _end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_instances)
