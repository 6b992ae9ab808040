"""Every column of the results: unit, words for an axis, and what exactly was measured.

What runs measure is declared in Rust (`crates/dumbbell-measure/src/columns`). What a run is called and what it was
given is written by the store and described here.
"""

import json
import math
from dataclasses import dataclass, replace
from typing import Any

from dumbbell import _native

_DESCRIBED = json.loads(_native.columns())
# of the engine's histograms: bins for every doubling of a value, and the width of the narrowest, in ms or as a ratio
BINS: int = _DESCRIBED["bins"]
LEAST_BIN: float = _DESCRIBED["least_bin_ms"]
# everything that measures
ENGINES = ("sim", "linux", "live", "shell")
# tables whose rows are parts of a run: what one is called, and the columns that distinguish the parts of a run
PARTS = {
    "flows": ("flow", ("flow", "cc", "direction", "base_rtt_ms")),
    "classes": ("class", ("class", "kind", "cc", "direction", "base_rtt_ms")),
    "slowdowns": ("class and range of sizes", ("class", "from_bytes")),
    "short_flows": ("short flow", ("class",)),
    "hops": ("hop", ("hop",)),
    "apps": ("user of an application", ("app", "name", "class", "cc", "direction", "base_rtt_ms")),
    "app_loads": ("load", ("app", "class")),
}


@dataclass(frozen=True)
class Column:
    """One column of a table; `unit` is empty for words, JSON, indexes and ratios.

    `least_bin` is set where values are read from a histogram: the width of its narrowest bin. `engines` are those whose
    results have the column. `values` are "count", "real" or "text".
    """

    name: str
    unit: str
    label: str
    doc: str
    least_bin: float | None = None
    engines: tuple[str, ...] = ENGINES
    values: str = "text"

    @property
    def most(self) -> float | None:
        """The largest value that there can be: 1 of utilisation, of Jain's index and of shares."""
        is_share = self.name in ("utilisation", "jain", "share") or self.name.endswith("_share")
        return 1.0 if is_share and not self.unit else None

    def find_resolution(self, value: float | None) -> float | None:
        """Return the width of the histogram's bin at `value`; None of a column whose values are exact."""
        if self.least_bin is None or value is None or not math.isfinite(value):
            return None
        doublings = math.frexp(value / self.least_bin)[1] - 1
        return self.least_bin * 2.0 ** max(0, doublings - int(math.log2(BINS)))


_KEY = Column("key", "", "run", "Key of the run, as in table runs: it joins the tables.")
_OF_STORE = [
    Column("key", "", "run", "Hash of configuration, seed and engine version: equal runs have equal keys."),
    Column("experiment", "", "experiment", "Name of the experiment: that of its file, without the ending."),
    Column("title", "", "title", "Title of the experiment."),
    Column("seed", "", "seed", "Seed of every random stream of the run.", values="count"),
    Column(
        "number", "", "run", "Number of the run in its sweep, from 0: the order of files and matrices.", values="count"
    ),
    Column("matrix", "", "matrix", "JSON: the keys of the matrix and what each was in this run, as text."),
    Column(
        "config",
        "",
        "configuration",
        "JSON: all that the engine was given, in ns, bit/s and bytes, no key missing.",
    ),
    Column("engine_version", "", "engine", "Version of the engine and a hash of its sources."),
    Column("kernel", "", "kernel", "JSON: kernel, patches and tools, of a run on Linux."),
    Column(
        "imported",
        "",
        "imported file",
        "JSON: name, digest and format of an imported file, its own description, and notes on the import.",
        engines=("import",),
    ),
    Column(
        "given",
        "",
        "given",
        "JSON: for a run on Linux, the keys that the experiment sets, since all others have the kernel's values; for "
        "an imported run, the keys that its file determines.",
    ),
    Column("wall_s", "s", "time of computation", "Seconds that one core took for the run.", values="real"),
    Column(
        "hash",
        "",
        "hash",
        "Digest of what was measured, but not of the seed: equal for equal results. Measures that came later (P95 of "
        "the time in queue, one-way delay and jitter of UDP) are left out, so that it can be compared between engines.",
    ),
    Column(
        "cell",
        "",
        "cell",
        "Hash of the configuration without seed and engine version: equal in the runs of one cell of the matrix "
        "with several seeds, or by several engines.",
    ),
]


OF_STORE = frozenset(one.name for one in _OF_STORE)
"""Columns of runs that no engine measures."""
# table → what has a row in it
TABLES: dict[str, str] = {table: about for table, about, _ in _DESCRIBED["tables"]}


def _describe_columns(table: str, columns: list[dict[str, Any]]) -> list[Column]:
    """Return the columns of a table; those of runs say whose they are where a run has several hops."""
    of_hops = {one["name"] for name, _, columns in _DESCRIBED["tables"] if name == "hops" for one in columns}
    found = [Column(**{**one, "engines": tuple(one["engines"])}) for one in columns]
    if table != "runs":
        return found
    return [replace(one, doc=f"{one.doc} {OF_BOTTLENECK}") if one.name in of_hops else one for one in found]


OF_BOTTLENECK = "With several hops, this is measured at the hop bottleneck; table hops contains it for each hop."
# table → its columns, in order
COLUMNS: dict[str, dict[str, Column]] = {
    table: {one.name: one for one in (*(_OF_STORE if table == "runs" else [_KEY]), *_describe_columns(table, columns))}
    for table, _, columns in _DESCRIBED["tables"]
}


def is_of_hop(table: str, name: str) -> bool:
    """Return whether a column of runs is measured at the hop bottleneck, while table hops has it of each hop."""
    return table == "runs" and name in COLUMNS["hops"] and name not in ("key", "hop")


def find(name: str) -> list[tuple[str, Column]]:
    """Return every column called `name`, with its table."""
    return [(table, columns[name]) for table, columns in COLUMNS.items() if name in columns]


def format_axis_label(name: str, table: str | None = None) -> str:
    """Return a column in words with its unit, `goodput, Mbit/s`; of `table`, or of the first table that has it.

    A name that is not a column is returned unchanged.
    """
    found = [column for owner, column in find(name) if table in (None, owner)] or [c for _, c in find(name)]
    if not found:
        return name
    label, unit = found[0].label, found[0].unit
    return f"{label}, {unit}" if unit and not {unit, unit.removesuffix("s")} & set(label.split()) else label
