"""The same cells on two engines side by side: goodput, mean RTT and mean time in queue, with the scores."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from dumbbell.errors import InputError
from dumbbell.store import Store
from dumbbell.tables import aligned, number
from dumbbell.versions import chosen


@dataclass(frozen=True)
class Measure:
    """What is compared: `error` is over the link's rate or over the second engine's value; up to `bar` they agree."""

    name: str
    column: str
    unit: str
    of_rate: bool
    bar: float


MEASURES = (
    Measure("goodput", "goodput_mbit", "Mbit/s", True, 0.02),
    Measure("mean RTT", "rtt_mean_ms", "ms", False, 0.06),
    Measure("mean sojourn", "sojourn_mean_ms", "ms", False, 0.10),
)


@dataclass(frozen=True)
class Pair:
    """One cell on both engines: means over seeds, in the order of `MEASURES`."""

    cell: str
    ccs: tuple[str, ...]
    rate_mbit: float
    first: tuple[float, ...]
    second: tuple[float, ...]
    seeds: tuple[int, int]

    def error(self, index: int) -> float:
        """Return the error of the first engine's value, signed; NaN if there is none."""
        first, second = self.first[index], self.second[index]
        over = self.rate_mbit if MEASURES[index].of_rate else second
        return (first - second) / over if over else math.nan

    @property
    def agrees(self) -> bool:
        """Whether every error that there is lies within its bar."""
        errors = (self.error(index) for index in range(len(MEASURES)))
        return all(math.isnan(one) or abs(one) <= measure.bar for one, measure in zip(errors, MEASURES, strict=True))

    @property
    def with_bbr(self) -> bool:
        """Whether a flow runs some BBR, whose random phases make single runs differ."""
        return any(cc.startswith("bbr") for cc in self.ccs)


@dataclass(frozen=True)
class Compared:
    """All cells that both engines ran, and how many only one did."""

    engines: tuple[str, str]
    pairs: list[Pair]
    alone: int


_QUERY = """
    SELECT r.cell, r.engine_version, any_value(r.matrix) AS matrix, any_value(r.config) AS config, count(*) AS seeds,
        avg(r.goodput_total_mbit) AS goodput_mbit, avg(f.rtt_mean_ms) AS rtt_mean_ms,
        avg(r.sojourn_mean_ms) AS sojourn_mean_ms, min(r.rowid) AS place
    FROM runs r LEFT JOIN (
        SELECT key, avg(rtt_mean_ms) FILTER (WHERE NOT isnan(rtt_mean_ms)) AS rtt_mean_ms FROM flows GROUP BY key
    ) f USING (key)
    GROUP BY r.cell, r.engine_version ORDER BY place
"""


def _cells(path: str | Path) -> pl.DataFrame:
    with Store.open(path) as store:
        if "goodput_total_mbit" not in store.columns("runs"):
            raise InputError(str(path), "", "no finished run", "results of at least one run")
        return store.read(_QUERY)


def compare(path: str | Path, other: str | Path | None = None, engines: tuple[str, str] = ("sim", "linux")) -> Compared:
    """Return the cells that both engines ran, of one results file or of one for each; raises InputError."""
    frames, versions = [], []
    for place, wanted in zip((path, path if other is None else other), engines, strict=True):
        cells = _cells(place)
        found = cells["engine_version"].unique(maintain_order=True).to_list()
        version = chosen(found, wanted)
        if version is None:
            raise InputError(
                str(place), "--engines", f"no runs of {wanted}", f"runs of two engines; there are {', '.join(found)}"
            )
        versions.append(version)
        frames.append(
            {row["cell"]: row for row in cells.filter(pl.col("engine_version") == version).iter_rows(named=True)}
        )
    pairs = []
    for cell, row in frames[0].items():
        if (second := frames[1].get(cell)) is None:
            continue
        config = json.loads(row["config"])
        label = ", ".join(json.loads(row["matrix"]).values()) or "the only cell"
        ccs = tuple(one["cc"]["name"] for one in (*config["flows"], *config["web"]))
        rate_mbit, seeds = config["bottleneck"]["rate"] / 1e6, (row["seeds"], second["seeds"])
        pairs.append(Pair(label, ccs, rate_mbit, _values(row), _values(second), seeds))
    if not pairs:
        raise InputError(str(path), "--engines", "no cell that both engines ran", "the same experiment on both")
    alone = len(frames[0].keys() ^ frames[1].keys())
    return Compared((versions[0], versions[1]), pairs, alone)


def _values(row: dict[str, float | None]) -> tuple[float, ...]:
    found = (row[measure.column] for measure in MEASURES)
    return tuple(math.nan if value is None else float(value) for value in found)


def table(compared: Compared) -> str:
    """Return one row a cell: first engine / second / error of each measure, as a Markdown table."""
    rows = []
    for pair in compared.pairs:
        cells = [
            f"{number(pair.first[i])} / {number(pair.second[i])} / {100 * pair.error(i):+.1f} %"
            for i in range(len(MEASURES))
        ]
        rows.append([pair.cell, *cells])
    header = ["cell", *(f"{measure.name}, {measure.unit}" for measure in MEASURES)]
    return aligned(header, rows, words=(0,))


def scores(compared: Compared) -> str:
    """Return median, 90th percentile and worst of every measure's error, and the share of cells within its bar."""
    rows = []
    for name, with_bbr in (("without BBR", False), ("with BBR", True)):
        pairs = [pair for pair in compared.pairs if pair.with_bbr == with_bbr]
        for index, measure in enumerate(MEASURES):
            errors = [(abs(pair.error(index)), pair) for pair in pairs if not math.isnan(pair.error(index))]
            if not errors:
                continue
            sizes = [error for error, _ in errors]
            worst, where = max(errors, key=lambda one: one[0])
            within = sum(size <= measure.bar for size in sizes) / len(sizes)
            over = "of the rate" if measure.of_rate else "of the second"
            figures = [f"{100 * value:.1f} %" for value in (*np.quantile(sizes, (0.5, 0.9)), worst)]
            bar = f"{100 * within:.0f} % within {100 * measure.bar:.0f} %"
            rows.append([f"{measure.name}, {over}, {name}", str(len(sizes)), *figures, bar, where.cell])
        if pairs:
            within = sum(pair.agrees for pair in pairs) / len(pairs)
            rows.append(
                [f"all of them, {name}", str(len(pairs)), "", "", "", f"{100 * within:.0f} % within the bars", ""]
            )
    return aligned(["error", "cells", "median", "p90", "worst", "bar", "worst cell"], rows, words=(0, 5, 6))


def markdown(compared: Compared) -> str:
    """Return table and scores, with the engines that they are of."""
    first, second = compared.engines
    alone = f" {compared.alone} cells were run on one of them only." if compared.alone else ""
    seeds = [sorted({pair.seeds[which] for pair in compared.pairs}) for which in (0, 1)]
    texts = [" or ".join(map(str, of_engine)) for of_engine in seeds]
    seeds_text = f"Seeds of a cell: {texts[0]} and {texts[1]}."
    text = f"First {first}, second {second}; the error is that of the first. {seeds_text}{alone}"
    return "\n\n".join([text, table(compared), scores(compared)])
