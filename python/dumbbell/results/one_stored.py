"""Selects one run: one of a results file, or of an experiment file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from dumbbell.errors import Ambiguous, Conflict, Nothing, Unfit
from dumbbell.experiment import shipped
from dumbbell.results.results import StoredResults

_MOST_NAMED = 4  # runs that an error names
_SHOWN = 8  # digits of a key


def is_experiment(name: str) -> bool:
    """Whether a name is one of an experiment: it ends in .toml, or comes with dumbbell and there is no such file."""
    return name.endswith(".toml") or (not Path(name).exists() and shipped.find(name) is not None)


def choose_run(path: str, key: str = "", where: Sequence[str] = (), engine: str | None = None) -> StoredResults:
    """Return the one run of a results file that is meant.

    `key` is the beginning of a key of column `key`; `where` are conditions as for `dumbbell table`. Of runs that only
    their seeds distinguish it is the first. Raises InputError.
    """
    results = StoredResults(path, engine=engine)
    if not results.keys:
        raise Nothing("found no finished run", "results of at least one run", file=path)
    if key:
        if where:
            raise Conflict("KEY and --where", "one of them", file=path)
        everything = results if engine else StoredResults(path, engine="all")
        found = [one for one in everything.keys if one.startswith(key.lower())]
        if not found or not re.fullmatch(r"[0-9a-fA-F]+", key):
            raise Nothing(
                f"found no run with the key {key}", f"the beginning of a key, such as {_list_runs(results)}", file=path
            )
        if len(found) > 1:
            known = ", ".join(one[: len(key) + 4] for one in found[:_MOST_NAMED])
            raise Ambiguous(f"it has {len(found)} runs whose keys begin with {key}", f"one of {known}", file=path)
        return refuse_session(everything.with_keys(found))
    results = results.where(*where)
    results.require_whole_runs("explain takes whole runs", "keys of runs, such as flows[*].cc or seed")
    refuse_session(results)
    if len(results.cells) > 1:
        allowed = f"one with KEY or --where: {_list_runs(results)}"
        raise Ambiguous(f"it has {len(results)} runs", allowed, file=path)
    return results.with_keys(results.keys[:1])


def refuse_session(results: StoredResults) -> StoredResults:
    """Return results that are not a session of `dumbbell shell`; else raise InputError."""
    if results.sessions:
        found = "this is a session of dumbbell shell, which has no run of an experiment"
        raise Unfit(found, "dumbbell table or dumbbell plot", file=results.path)
    return results


def _list_runs(results: StoredResults) -> str:
    """Return some runs with their keys and what distinguishes them."""
    texts = results.name_cells()
    firsts = results.frame("runs").unique("cell", keep="first", maintain_order=True) if len(results) else pl.DataFrame()
    found = []
    for row in firsts.head(_MOST_NAMED).iter_rows(named=True):
        said = texts.get(row["cell"], "")
        found.append(f"{row['key'][:_SHOWN]}{f' ({said})' if said else ''}")
    more = len(firsts) - len(found)
    return "; ".join(found) + (f"; … ({len(firsts)} in all)" if more > 0 else "")
