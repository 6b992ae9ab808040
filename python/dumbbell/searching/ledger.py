"""The part of a results file that a search writes: what runs measured, its candidates and their scores.

Table `measured` has a value by the key of a run and a hash of the measure. A search that goes on finds there what it
has measured before, and so does another search of the same runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from dumbbell.errors import Nothing
from dumbbell.experiment.cell import compute_digest
from dumbbell.results.store import Store

if TYPE_CHECKING:
    from types import TracebackType

    from dumbbell.searching.objective import Objective

COMMIT_EVERY_S = 2.0
RunValues = tuple[float | None, ...]
"""The value of each objective's measure in one run; None where it has none."""
SEARCHES = {"search": "VARCHAR", "name": "VARCHAR", "title": "VARCHAR", "described": "VARCHAR", "finished": "BOOLEAN"}
CANDIDATES = {
    **{"search": "VARCHAR", "candidate": "BIGINT", "state": "VARCHAR", "reason": "VARCHAR", "seeds": "BIGINT"},
    **{"is_front": "BOOLEAN", "parameters": "VARCHAR", "settings": "VARCHAR"},
}
SCORES = {
    **{"search": "VARCHAR", "candidate": "BIGINT", "objective": "VARCHAR"},
    **{"value": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE"},
}
MEASURED = {"key": "VARCHAR", "measure": "VARCHAR", "value": "DOUBLE", "failure": "VARCHAR"}
TABLES = {"searches": SEARCHES, "candidates": CANDIDATES, "scores": SCORES, "measured": MEASURED}
_TYPES: dict[str, Any] = {"VARCHAR": pl.String, "BIGINT": pl.Int64, "DOUBLE": pl.Float64, "BOOLEAN": pl.Boolean}


class Ledger:
    """The measurements of a search in a results file; a context manager. Additions are committed every few seconds."""

    def __init__(self, path: str | Path, objectives: Sequence[Objective]) -> None:
        """Open a results file, and read what was measured of these objectives. Raises InputError."""
        self._store = Store.open(path, write=True)
        self._measures = [compute_digest(one.definition) for one in objectives]
        for name, columns in TABLES.items():
            self._store.make_table(name, columns)
        self._known: dict[str, dict[str, float | None]] = {}
        self._failures: dict[str, str] = {}
        self._new: list[tuple[str, str, float | None, str | None]] = []
        self._committed = time.monotonic()
        wanted = pl.DataFrame({"measure": self._measures}).unique()
        rows = self._store.read("SELECT m.* FROM measured m JOIN wanted USING (measure)", wanted=wanted)
        for key, measure, value, failure in rows.iter_rows():
            self._keep(key, measure, value, failure)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.commit()
        finally:
            self._store.close()

    def _keep(self, key: str, measure: str, value: float | None, failure: str | None) -> None:
        if failure is not None:
            self._failures[key] = failure
        else:
            self._known.setdefault(key, {})[measure] = value

    def find_values(self, key: str) -> RunValues | None:
        """Return what a run measured, one value for each objective, if all of them are known."""
        known = self._known.get(key)
        if known is None or any(measure not in known for measure in self._measures):
            return None
        return tuple(known[measure] for measure in self._measures)

    def find_failure(self, key: str) -> str | None:
        """Return why a run failed, if it did."""
        return self._failures.get(key)

    def add(self, key: str, values: RunValues) -> None:
        """Note what a run measured."""
        for measure, value in dict(zip(self._measures, values, strict=True)).items():
            if measure not in self._known.get(key, {}):
                self._keep(key, measure, value, None)
                self._new.append((key, measure, value, None))

    def add_failure(self, key: str, text: str) -> None:
        """Note that a run failed."""
        self._failures[key] = text
        self._new.append((key, self._measures[0], None, text))

    def commit_now_and_then(self) -> None:
        """Commit what is new if the last commit is a while ago."""
        if time.monotonic() - self._committed >= COMMIT_EVERY_S:
            self.commit()

    def commit(self) -> None:
        """Commit what is new."""
        if self._new:
            self._store.replace_rows({"measured": (_make_frame(MEASURED, self._new), None)})
            self._new.clear()
        self._committed = time.monotonic()

    def write_search(
        self,
        search: str,
        described: tuple[Any, ...],
        candidates: Iterable[tuple[Any, ...]],
        scores: Iterable[tuple[Any, ...]],
    ) -> None:
        """Replace what the file has of a search, all of it or nothing."""
        rows = {"searches": [described], "candidates": list(candidates), "scores": list(scores)}
        frames = {
            name: (_make_frame(TABLES[name], [(search, *row) for row in own]), ("search", search))
            for name, own in rows.items()
        }
        self._store.replace_rows(frames)


def _make_frame(columns: dict[str, str], rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={name: _TYPES[kind] for name, kind in columns.items()}, orient="row")


def is_search(path: Path) -> bool:
    """Whether a results file holds a search; runs in memory hold none."""
    if not path.is_file():
        return False
    with Store.open(path) as store:
        return has_search(store)


def has_search(store: Store) -> bool:
    """Whether a results file holds a search."""
    return "searches" in store.list_tables() and bool(store.read("SELECT 1 FROM searches LIMIT 1").height)


def read_search(path: str | Path, name: str | None = None) -> tuple[dict[str, Any], pl.DataFrame, pl.DataFrame]:
    """Return the last search of a file, or the last of this name: its description, candidates and scores.

    Raises InputError if there is none.
    """
    with Store.open(path) as store:
        if not has_search(store):
            raise Nothing("it holds no search", "results of dumbbell search", file=path)
        searches = store.read("SELECT * FROM searches ORDER BY rowid DESC")
        chosen = searches if name is None else searches.filter(pl.col("name") == name)
        if chosen.is_empty():
            raise Nothing(f"it holds no search {name}", " or ".join(searches["name"].to_list()), file=path)
        row = chosen.row(0, named=True)
        wanted = pl.DataFrame({"search": [row["search"]]})
        candidates, scores = (
            store.read(
                f"SELECT t.* EXCLUDE (search) FROM {table} t JOIN wanted USING (search) ORDER BY t.rowid", wanted=wanted
            )
            for table in ("candidates", "scores")
        )
    return row | {"described": json.loads(row["described"])}, candidates, scores
