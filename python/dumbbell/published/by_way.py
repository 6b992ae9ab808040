"""Results against runs of Flent's RRUL: goodput each way, and pings beneath it.

One row per run. `qdisc`, `rate_mbit` and `flows_down` are of the way down, `qdisc_up`, `up_mbit` and `flows_up` of the
way up; `cc1`, `delay_ms`, `ecn` and `pacing` are of all flows.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.published.compare import (
    Cell,
    Comparison,
    Figure,
    Pair,
    format_cell,
    format_pair,
    has_columns,
    matches_qdisc,
    read_csv,
    select_alike,
    select_latest_engine,
)
from dumbbell.results.tables import align_table

_WORDS = ("source", "qdisc", "qdisc_up", "cc1", "pacing")
_NUMBERS = ("ecn", "flows_down", "flows_up", "rate_mbit", "up_mbit", "delay_ms", "seconds")
MEASURES = ("goodput_down_mbit", "goodput_up_mbit", "ping_p50_ms", "ping_p99_ms")
COLUMNS = frozenset((*_WORDS, *_NUMBERS, *MEASURES))


@dataclass(frozen=True)
class _Way:
    """Queue, rate in Mbit/s and flows of one direction."""

    aqm: dict[str, Any]
    rate: float
    flows: int


def describes(path: str | Path) -> bool:
    """Whether a CSV file is of this kind."""
    return has_columns(path, COLUMNS)


def read(path: str | Path) -> list[Figure]:
    """Return the figures of a file, those of a run under the `time` that names it; raises InputError."""
    return read_csv(path, _read_row)


def _read_row(row: dict[str, str]) -> list[Figure]:
    cell = tuple((c, row[c] if c in _WORDS else float(row[c])) for c in (*_WORDS, *_NUMBERS))
    return [Figure(cell, row.get("time") or "", 0, m, float(row[m])) for m in MEASURES if row[m]]


def _find_ways(config: dict[str, Any]) -> dict[str, _Way] | None:
    """Return both ways of a run; None if it has other traffic than flows both ways and one ping."""
    if "reverse" not in config or config["web"] or [udp.get("echo") for udp in config["udp"]] != [True]:
        return None
    hops = {"down": config["bottleneck"], "up": config["reverse"]}
    counts = {way: sum(flow["count"] for flow in config["flows"] if flow["direction"] == way) for way in hops}
    return {way: _Way(hop["aqm"], hop["rate"] / 1e6, counts[way]) for way, hop in hops.items()}


def _is_answer(config: dict[str, Any], ways: dict[str, _Way], cell: Cell) -> bool:
    """Whether a run is what a cell describes."""
    named = dict(cell)
    wanted = {"down": ("qdisc", "rate_mbit", "flows_down"), "up": ("qdisc_up", "up_mbit", "flows_up")}
    for way, (qdisc, rate, flows) in wanted.items():
        is_there = ways[way]
        if not math.isclose(is_there.rate, named[rate]) or is_there.flows != named[flows]:
            return False
        if not matches_qdisc(named[qdisc], is_there.aqm):
            return False
    hosts = config["hosts"]
    rtts = [flow["base_rtt"] / 1e6 for flow in (*config["flows"], *config["udp"])]
    return (
        hosts["ecn"] == bool(named["ecn"])
        and hosts["pacing"] == named["pacing"]
        and all(flow["cc"]["name"] == named["cc1"] and flow["ecn"] is None for flow in config["flows"])
        and all(math.isclose(rtt, named["delay_ms"]) for rtt in rtts)
        and math.isclose(config["duration"] / 1e9, named["seconds"])
    )


def collect_measures(flows: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Return by run what its rows of table `flows` give for every measure."""
    goodput, is_ping = pl.col("goodput_mbit"), pl.col("cc") == "ping"
    found = flows.group_by("key").agg(
        goodput.filter(~is_ping & (pl.col("direction") == "down")).sum().alias("goodput_down_mbit"),
        goodput.filter(~is_ping & (pl.col("direction") == "up")).sum().alias("goodput_up_mbit"),
        pl.col("rtt_p50_ms").filter(is_ping).first().alias("ping_p50_ms"),
        pl.col("rtt_p99_ms").filter(is_ping).first().alias("ping_p99_ms"),
    )
    return {row["key"]: {m: row[m] for m in MEASURES} for row in found.iter_rows(named=True)}


def find_answers(runs: pl.DataFrame, cells: Iterable[Cell]) -> dict[Cell, list[str]]:
    """Return for each cell the keys of the runs that answer it."""
    configs = [(json.loads(run["config"]), run) for run in runs.iter_rows(named=True)]
    there = [(config, ways, run) for config, run in configs if (ways := _find_ways(config)) is not None]
    found = {}
    for cell in dict.fromkeys(cells):
        rows = [run for config, ways, run in there if _is_answer(config, ways, cell)]
        found[cell] = [str(run["key"]) for run in select_alike(select_latest_engine(rows), format_cell(cell))]
    return found


def compare(runs: pl.DataFrame, flows: pl.DataFrame, figures: Iterable[Figure]) -> Comparison:
    """Return every published figure that a run answers, with the mean over the runs that do."""
    figures = list(figures)
    keys = find_answers(runs, (figure.cell for figure in figures))
    values = collect_measures(flows) if flows.height else {}
    result = Comparison()
    for figure in figures:
        of_runs = [values[key][figure.metric] for key in keys[figure.cell]]
        result.add(figure, of_runs, tuple(keys[figure.cell]), _compute_error)
    return result


def _compute_error(figure: Figure, simulated: float) -> tuple[str, float]:
    named, difference = dict(figure.cell), simulated - figure.value
    match figure.metric:
        case "goodput_down_mbit":
            return "goodput down, |sim - pub| / rate", difference / named["rate_mbit"]
        case "goodput_up_mbit":
            return "goodput up, |sim - pub| / rate", difference / named["up_mbit"]
        case "ping_p50_ms":
            return "P50 of pings, |sim - pub| ms", difference
        case _:
            return "P99 of pings, |sim - pub| ms", difference


def format_table(comparison: Comparison) -> str:
    """Return a Markdown table, one row per published run, simulated / published."""
    of_run: dict[tuple[Cell, str], dict[str, Pair]] = {}
    for pair in comparison.pairs:
        of_run.setdefault((pair.figure.cell, pair.figure.table), {})[pair.figure.metric] = pair
    rows = []
    for (cell, time), pairs in of_run.items():
        named = dict(cell)
        queues = [named["qdisc"], *([named["qdisc_up"]] if named["qdisc_up"] != named["qdisc"] else [])]
        row = [time, " / ".join(queues), f"{named['rate_mbit']:g}/{named['up_mbit']:g}", f"{named['delay_ms']:g}"]
        row += ["on" if named["ecn"] else "off", named["pacing"]]
        rows.append(row + [format_pair(pairs.get(measure)) for measure in MEASURES])
    header = ["run", "queue", "Mbit/s", "RTT", "ECN", "pacing", "down", "up", "ping P50", "ping P99"]
    return align_table(header, rows, words=(0, 1, 2, 4, 5))
