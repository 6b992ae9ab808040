"""The same cells on two engines side by side: goodput, mean RTT and mean time in queue, with the scores."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dumbbell.errors import Nothing, Unfit, spell_option
from dumbbell.experiment.matrix import get_path, parse_path
from dumbbell.results.store import Store
from dumbbell.results.tables import align_table, format_number
from dumbbell.results.versions import KINDS, Names, choose_version, find_kind, name_versions
from dumbbell.words import format_count


@dataclass(frozen=True)
class EngineMeasure:
    """A measure that is compared: `error` is over the link's rate or over the second engine's value.

    Up to `bar` they agree; on the real clock, of which no run is like another, up to `live_bar`.
    """

    name: str
    column: str
    unit: str
    of_rate: bool
    bar: float
    live_bar: float


MEASURES = (
    EngineMeasure("goodput", "goodput_mbit", "Mbit/s", True, 0.02, 0.03),
    EngineMeasure("mean RTT", "rtt_mean_ms", "ms", False, 0.06, 0.10),
    EngineMeasure("mean sojourn", "sojourn_mean_ms", "ms", False, 0.10, 0.10),
)


@dataclass(frozen=True)
class EnginePair:
    """One cell on both engines: means over seeds, in the order of `MEASURES`, and shares of the goodput by flow."""

    cell: str
    ccs: tuple[str, ...]
    rate_mbit: float
    first: tuple[float, ...]
    second: tuple[float, ...]
    seeds: tuple[int, int]
    shares: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())

    def compute_error(self, index: int) -> float:
        """Return the error of the first engine's value, signed; NaN if there is none."""
        first, second = self.first[index], self.second[index]
        over = self.rate_mbit if MEASURES[index].of_rate else second
        return (first - second) / over if over else math.nan

    @property
    def agrees(self) -> bool:
        """Whether every error that there is lies within its bar."""
        errors = (self.compute_error(index) for index in range(len(MEASURES)))
        return all(math.isnan(one) or abs(one) <= measure.bar for one, measure in zip(errors, MEASURES, strict=True))

    @property
    def with_bbr(self) -> bool:
        """Whether a flow runs some BBR, whose random phases make single runs differ."""
        return any(cc.startswith("bbr") for cc in self.ccs)


@dataclass(frozen=True)
class EngineComparison:
    """All cells that both engines ran, how many only one did, and how many runs in real time did not count.

    `names` are those of the engines; their versions if it is unset.
    """

    engines: tuple[str, str]
    pairs: list[EnginePair]
    alone: int
    invalid: int = 0
    names: tuple[str, str] | None = None

    def find_bar(self, measure: EngineMeasure) -> float:
        """Return the error up to which the two agree."""
        return measure.live_bar if "live" in map(find_kind, self.engines) else measure.bar


_QUERY = """
    SELECT r.cell, r.engine_version, r.given, any_value(r.matrix) AS matrix, any_value(r.config) AS config,
        any_value(r.experiment) AS experiment, count(*) AS seeds,
        avg(r.goodput_total_mbit) AS goodput_mbit, avg(f.rtt_mean_ms) AS rtt_mean_ms,
        avg(r.sojourn_mean_ms) AS sojourn_mean_ms, min(r.place) AS place, list(f.shares) AS shares
    FROM (SELECT *{given}, rowid AS place FROM runs) r LEFT JOIN (
        SELECT key, avg(rtt_mean_ms) FILTER (WHERE NOT isnan(rtt_mean_ms)) AS rtt_mean_ms,
            list(share ORDER BY flow) AS shares
        FROM flows GROUP BY key
    ) f USING (key)
    WHERE {counts}
    GROUP BY r.cell, r.engine_version, r.given ORDER BY place
"""


@dataclass(frozen=True)
class _Cells:
    """The cells of a file by engine and by the keys that were set, if that matters to the engine.

    `late` has for each engine the number of runs that were too late to count.
    """

    frame: pl.DataFrame
    late: dict[str, int]
    names: Names

    @property
    def versions(self) -> list[str]:
        return self.frame["engine_version"].unique(maintain_order=True).to_list()


def _collect_cells(path: str | Path) -> _Cells:
    with Store.open(path) as store:
        columns, names = store.list_columns("runs"), store.read_kernel_names()
        if "goodput_total_mbit" not in columns:
            raise Nothing("found no finished run", "results of at least one run", file=path)
        given = "" if "given" in columns else ", NULL AS given"
        if "valid" not in columns:
            return _Cells(store.read(_QUERY.format(counts="true", given=given)), {}, names)
        invalid = store.read("SELECT engine_version, count(*) FROM runs WHERE valid = 0 GROUP BY 1")
        # only runs in real time have this column filled
        counted = store.read(_QUERY.format(counts="valid IS DISTINCT FROM 0", given=given))
        return _Cells(counted, dict(invalid.iter_rows()), names)


def _find_other_engine(path: str | Path, found: list[str]) -> str:
    """Return the one kind of engine other than the simulator that has runs."""
    kinds = [other for other in KINDS if other != "sim" and other in map(find_kind, found)]
    if len(kinds) > 1:
        raise Unfit(
            f"there are runs of {' and of '.join(kinds)}",
            f"{spell_option('engine')} with one of them",
            file=path,
            option="--engines",
        )
    return kinds[0] if kinds else "another engine"


def compare(
    path: str | Path, other: str | Path | None = None, engines: tuple[str, str | None] = ("sim", None)
) -> EngineComparison:
    """Return the cells that both engines ran, of one results file or of one for each; raises InputError.

    The second engine may be unset: it is the one other than the simulator then. Of runs in real time those count whose
    timing was good enough.
    """
    frames, versions, names, invalid = [], list[str](), list[str](), 0
    for place, named in zip((path, path if other is None else other), engines, strict=True):
        cells = _collect_cells(place)
        wanted = named or _find_other_engine(place, cells.versions)
        version = choose_version(cells.versions, wanted, cells.names)
        known = name_versions(cells.versions, cells.names)
        if version is None:
            some = f"; {_describe_agreement(sum(cells.late.values()), 'run')} too late to count" if cells.late else ""
            raise Nothing(
                f"found no runs of {wanted}{some}",
                f"runs of two engines; there are {', '.join(known.values())}",
                file=place,
                option="--engines",
            )
        versions.append(version)
        names.append(known[version])
        invalid += cells.late.get(version, 0)
        frames.append(cells.frame.filter(pl.col("engine_version") == version))
    if names[0] == names[1]:  # of two files
        names = versions
    pairs, found = [], [[row["cell"] for row in frame.iter_rows(named=True)] for frame in frames]
    seconds: dict[str, list[dict[str, Any]]] = {}
    for row in frames[1].iter_rows(named=True):
        seconds.setdefault(row["cell"], []).append(row)
    experiments = frames[0]["experiment"].n_unique()
    for row in _order_cells(frames[0]):
        for second in seconds.get(row["cell"], []):
            if row["given"] and second["given"] and row["given"] != second["given"]:
                continue  # two kernels with different settings
            config = json.loads(row["config"])
            experiment = [row["experiment"]] if experiments > 1 else []
            label = ", ".join([*experiment, *json.loads(row["matrix"]).values()]) or "the only cell"
            ccs = tuple(one["cc"]["name"] for one in (*config["flows"], *config["web"]))
            rate_mbit, seeds = config["bottleneck"]["rate"] / 1e6, (row["seeds"], second["seeds"])
            shares = (_compute_shares(row), _compute_shares(second))
            pairs.append(EnginePair(label, ccs, rate_mbit, _list_values(row), _list_values(second), seeds, shares))
    if not pairs:
        raise Nothing(
            "found no cell that both engines ran", "the same experiment on both", file=path, option="--engines"
        )
    alone = len(set(found[0]) ^ set(found[1]))
    return EngineComparison((versions[0], versions[1]), pairs, alone, invalid, (names[0], names[1]))


def _order_cells(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return cells in the order of their keys: 10Mbit before 20Mbit, words as they first come."""
    rows = list(frame.iter_rows(named=True))
    first: dict[tuple[str, str], int] = {}

    def place(row: dict[str, Any]) -> list[float]:
        config = json.loads(row["config"])
        order = []
        for key, text in json.loads(row["matrix"]).items():
            value = next(iter(get_path(config, parse_path(key))), None)
            order.append(value if isinstance(value, int | float) else first.setdefault((key, text), len(first)))
        return order

    places = [place(row) for row in rows]
    return [row for _, _, row in sorted(zip(places, range(len(rows)), rows, strict=True))]


def _list_values(row: dict[str, float | None]) -> tuple[float, ...]:
    found = (row[measure.column] for measure in MEASURES)
    return tuple(math.nan if value is None else float(value) for value in found)


def _compute_shares(row: dict[str, Any]) -> tuple[float, ...]:
    """Return of each flow the mean of its shares over seeds; nothing of flows without one, such as short flows."""
    of_seeds = [one for one in row["shares"] or [] if one]
    if not of_seeds or any(None in one or len(one) != len(of_seeds[0]) for one in of_seeds):
        return ()
    return tuple(float(np.mean(of_flow)) for of_flow in zip(*of_seeds, strict=True))


def describe_sharing(compared: EngineComparison) -> str:
    """Return how far shares of single flows differ at most, which goodput of a whole cell cannot show."""
    found = [
        (abs(first - second), flow, pair.cell)
        for pair in compared.pairs
        if len(pair.shares[0]) == len(pair.shares[1]) > 1
        for flow, (first, second) in enumerate(zip(*pair.shares, strict=True))
    ]
    if not found:
        return ""
    most, flow, cell = max(found, key=lambda one: one[0])
    return (
        f"Goodput is that of all flows of a cell. Of single flows the share differs by at most {most:.2g}: flow {flow}"
        f" of {cell} (dumbbell diff --by engine_version compares flows)."
    )


def _format_error(error: float) -> str:
    """Return an error in words: nothing where an engine does not measure it."""
    return "-" if math.isnan(error) else f"{100 * error:+.1f} %"


def format_table(compared: EngineComparison) -> str:
    """Return one row per cell: first engine / second / error of each measure, as a Markdown table."""
    rows = []
    for pair in compared.pairs:
        cells = [
            f"{format_number(pair.first[i])} / {format_number(pair.second[i])} / {_format_error(pair.compute_error(i))}"
            for i in range(len(MEASURES))
        ]
        rows.append([pair.cell, *cells])
    header = ["cell", *(f"{measure.name}, {measure.unit}" for measure in MEASURES)]
    return align_table(header, rows, words=(0,))


def format_scores(compared: EngineComparison) -> str:
    """Return median, 90th percentile and worst of every measure's error, and the share of cells within its bar."""
    rows = []
    for name, with_bbr in (("without BBR", False), ("with BBR", True)):
        pairs = [pair for pair in compared.pairs if pair.with_bbr == with_bbr]
        for index, measure in enumerate(MEASURES):
            errors = [
                (abs(pair.compute_error(index)), pair) for pair in pairs if not math.isnan(pair.compute_error(index))
            ]
            if not errors:
                continue
            sizes = [error for error, _ in errors]
            worst, where = max(errors, key=lambda one: one[0])
            allowed = compared.find_bar(measure)
            within = sum(size <= allowed for size in sizes) / len(sizes)
            over = "of the rate" if measure.of_rate else "of the second"
            figures = [f"{100 * value:.1f} %" for value in (*np.quantile(sizes, (0.5, 0.9)), worst)]
            bar = f"{100 * within:.0f} % within {100 * allowed:.0f} %"
            rows.append([f"{measure.name}, {over}, {name}", str(len(sizes)), *figures, bar, where.cell])
        if pairs:
            within = sum(pair.agrees for pair in pairs) / len(pairs)
            rows.append(
                [f"all of them, {name}", str(len(pairs)), "", "", "", f"{100 * within:.0f} % within the bars", ""]
            )
    return align_table(["error", "cells", "median", "p90", "worst", "bar", "worst cell"], rows, words=(0, 5, 6))


def _describe_agreement(number: int, what: str) -> str:
    """Return `1 cell was`, `2 cells were`."""
    return f"{format_count(number, what)} {'was' if number == 1 else 'were'}"


def format_markdown(compared: EngineComparison) -> str:
    """Return table and scores, with the engines that they are of."""
    first, second = compared.names or compared.engines
    alone = f" {_describe_agreement(compared.alone, 'cell')} run on one of them only." if compared.alone else ""
    seeds = [sorted({pair.seeds[which] for pair in compared.pairs}) for which in (0, 1)]
    texts = [" or ".join(map(str, of_engine)) for of_engine in seeds]
    seeds_text = f"Seeds of a cell: {texts[0]} and {texts[1]}."
    late = (
        f" In real time {_describe_agreement(compared.invalid, 'run')} too late to count." if compared.invalid else ""
    )
    text = f"First {first}, second {second}; the error is that of the first. {seeds_text}{alone}{late}"
    return "\n\n".join([text, format_table(compared), format_scores(compared)])
