"""Version against version of DualPI2: writes the tables of docs/findings/dualpi2-versions.md.

python docs/dualpi2_versions.py l4s-versions.duckdb        make l4s

The file has the runs of experiments/l4s/versions-diff*.toml. What stands around the tables is kept.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from dumbbell import diff, l4s, results
from dumbbell.errors import InputError
from dumbbell.tables import aligned, number

PAGE = Path(__file__).parent / "findings" / "dualpi2-versions.md"
BEGIN, END = "<!-- tables -->", "<!-- /tables -->"
SHIFTED = "4e82fd8, terms shifted"
# each version against the one before it
PAIRS = (
    ("tsfifo", "wrr", "DUALPI2WRR against the time-shifted FIFO"),
    ("tsfifo", "wrrb", "DUALPI2WRRB against the time-shifted FIFO"),
    ("0952823", "cbd8653", "cbd8653 (statistics are reset) against 0952823"),
    ("cbd8653", "4e82fd8", "4e82fd8 (sign preserved) against cbd8653"),
    (SHIFTED, "4e82fd8", "4e82fd8 against itself with the terms of its controller shifted by 6 bits"),
)
WORKLOADS = ("one flow each", "one flow each and short flows", "five flows each and UDP")
_SHORT = ("L, slow-down of short flows", "C, slow-down of short flows")
MEASURES = (l4s.USE, l4s.RATIO, l4s.WINDOW_RATIO, *l4s.RATES, *l4s.DELAYS, *l4s.SIGNALS, *_SHORT)
_UNITS = {"rate": "Mbit/s", "mean": "ms", "P99": "ms", "marks": "%", "drops": "%"}
_WORDS = {"mean": "mean time in queue", "P99": "P99 time in queue"}
_CELL = ["workload", "cc", "rate", "rtt_l", "rtt_c", "flows_l", "flows_c", "udp", "udp_in"]


def read(path: str | Path) -> pl.DataFrame:
    """Return every value of every run, one a row, with version, workload and cell."""
    found = results.Results(path)
    rows = []
    for run in found.runs.iter_rows(named=True):
        place = l4s.describe(run)
        if place is not None:
            aqm = json.loads(run["config"])["bottleneck"]["aqm"]
            version = aqm["version"] if aqm["arithmetic"] is None else SHIFTED
            workload = WORKLOADS[2 if place["udp_in"] else l4s.LOADS.index(place["load"])]
            rows.append({**place, "version": version, "workload": workload})
    if not rows:
        raise InputError(
            str(path), "", "no run of DualPI2's versions", "results of experiments/l4s/versions-diff*.toml"
        )
    runs = pl.DataFrame(rows, infer_schema_length=None)
    finished = pl.col("finished")
    short = (
        found.frame("slowdowns")
        .join(found.classes.select("key", "class", "cc"), on=["key", "class"])
        .with_columns(
            what=pl.when(pl.col("cc").is_in(l4s.SCALABLE)).then(pl.lit(_SHORT[0])).otherwise(pl.lit(_SHORT[1]))
        )
        .filter(finished > 0)
        .group_by("key", "what")
        .agg(value=(pl.col("slowdown_mean") * finished).sum() / finished.sum())
    )
    values = pl.concat([l4s.values(found.runs, found.classes), short]).filter(pl.col("what").is_in(MEASURES))
    return runs.join(values, on="key")


def _held(values: pl.DataFrame, first: str, second: str) -> diff.Diff:
    """Return what differs between two versions in the same cells."""
    cells = values.select(_CELL).unique().sort(_CELL).with_row_index("pair")
    long = values.join(cells, on=_CELL).select(
        pl.col("pair").cast(pl.Int64),
        "version",
        pl.format("{} {} Mbit/s {}/{} ms", "cc", "rate", "rtt_l", "rtt_c").alias("where"),
        pl.lit("").alias("table"),
        pl.col("what").alias("measure"),
        pl.lit("").alias("part"),
        "seed",
        "hash",
        "value",
    )
    sides = [long.filter(pl.col("version") == version).drop("version") for version in (first, second)]
    return diff.held(sides[0], sides[1], (first, second))


def name_of(what: str) -> str:
    """Return a measure in words with its unit."""
    side, _, measure = what.partition(", ")
    if not measure or what == l4s.USE:
        return what
    unit = _UNITS.get(measure)
    return f"{side}: {_WORDS.get(measure, measure)}" + (f", {unit}" if unit else "")


def table(found: diff.Diff) -> str:
    """Return every measure with the mean change of a cell, its interval and the verdict, as Markdown."""
    rows = {row["measure"]: row for row in found.measures.iter_rows(named=True)}
    body = []
    for what in MEASURES:
        row = rows.get(what)
        if row is None or row["a"] == row["b"] == 0:
            continue
        ends = row["change_low"], row["change_high"]
        body.append(
            [
                name_of(what),
                number(row["a"]),
                number(row["b"]),
                "-" if row["change"] is None else diff.percent(row["change"]),
                diff.interval(*ends, diff.percent),
                "**yes**" if row["differs"] else "no",
                f"{row['differing']} of {row['cells']}",
            ]
        )
    header = ["measure", *found.names, "mean change of a cell", "95 % interval", "differs", "cells that differ"]
    return aligned(header, body, words=(0, 5))


def _identical(values: pl.DataFrame, first: str, second: str) -> tuple[int, int]:
    """Return how many runs of two versions are the same to the last bit, and how many there are of both."""
    runs = values.select(*_CELL, "version", "seed", "hash").unique()
    sides = [runs.filter(pl.col("version") == version).drop("version") for version in (first, second)]
    both = sides[0].join(sides[1], on=[*_CELL, "seed"], suffix="_b")
    return both.filter(pl.col("hash") == pl.col("hash_b")).height, both.height


def tables(values: pl.DataFrame, pairs: Iterable[Sequence[str]] = PAIRS) -> str:
    """Return a section for each pair of versions, with a table for each workload."""
    parts = []
    for first, second, title in pairs:
        parts.append(f"## {title}")
        same, runs = _identical(values, first, second)
        if not runs:
            parts.append("No runs of both.")
        elif same == runs:
            parts.append(f"All {runs} pairs of runs are the same to the last bit.")
        else:
            for workload in WORKLOADS:
                here = values.filter(pl.col("workload") == workload)
                if here["version"].is_in([first, second]).any():
                    found = _held(here, first, second)
                    parts.append(f"{workload[0].upper()}{workload[1:]}: {found.lines[-1]}\n\n{table(found)}")
    return "\n\n".join(parts)


def main(path: str) -> None:
    """Write the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables(read(path))}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
