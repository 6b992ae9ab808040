"""Results against published statistics of connection classes: the files of the DualPI2 authors' evaluation (2021).

One row per cell, class and statistic, with its mean and percentiles. Class `a` is that of L4S or ECN, `b` the other,
`all` is the link. In overload UDP is in one of them; a row then counts packets either of TCP or of UDP.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.published.compare import (
    Cell,
    Comparison,
    Figure,
    Pair,
    compute_relative_error,
    format_cell,
    format_pair,
    has_columns,
    read_csv,
    select_alike,
    select_latest_engine,
)
from dumbbell.results.tables import align_table

COLUMNS = frozenset(
    ("aqm", "cc_a", "cc_b", "link_mbit", "rtt_a_ms", "rtt_b_ms", "flows_a", "flows_b", "class", "statistic", "mean")
)
# names of the evaluation → names of queue disciplines
_AQMS = {"fqcodel": "fq_codel"}
# statistic → column of `classes`, factor
_STATISTICS = {
    "rate_per_flow_mbit": ("throughput_mbit", 1.0),
    "mark_pct": ("mark_share", 100.0),
    "drop_pct": ("drop_share", 100.0),
}
_PERCENTILES = ("p1", "p25", "p75", "p99")
_FLOW = {"all": 0, "a": 1, "b": 2}
_UDP_HEADERS = 42  # Ethernet, IPv4 and UDP: the evaluation names UDP by its payload


@dataclass(frozen=True)
class _Side:
    """One class of a cell."""

    cc: str
    ecn: bool
    rtt_ms: float
    flows: int


@dataclass(frozen=True)
class _Place:
    """The keys that decide which published cell a run answers."""

    aqm: str
    rate_mbit: float
    sides: tuple[_Side, ...]
    udp_mbit: float  # of payload
    udp_class: str


def describes(path: str | Path) -> bool:
    """Whether a CSV file is of this kind."""
    return has_columns(path, COLUMNS)


def read(path: str | Path) -> list[Figure]:
    """Return the figures of a file: mean of every statistic, percentiles of the delay; raises InputError."""
    return read_csv(path, _read_figures, "a class, a statistic and numbers")


def _read_figures(row: dict[str, str]) -> list[Figure]:
    aqm = _AQMS.get(row["aqm"], row["aqm"])
    flows = int(row["flows_a"] or 0), int(row["flows_b"] or 0)
    cell: Cell = (
        ("qdisc", aqm),
        ("cc1", row["cc_a"] if flows[0] else ""),
        ("cc2", row["cc_b"] if flows[1] else ""),
        ("rate_mbit", float(row["link_mbit"])),
        ("delay_ms", float(row["rtt_a_ms"]) if flows[0] else math.nan),
        ("delay2_ms", float(row["rtt_b_ms"]) if flows[1] else math.nan),
        ("flows", flows),
        ("udp_mbit", float(row.get("udp_mbit") or 0)),
        ("udp_class", row.get("udp_class") or ""),
        ("counted", row.get("counted") or "tcp"),
    )
    wanted = [("mean", row["mean"])]
    if row["statistic"] == "queue_delay_ms":
        wanted += [(p, row[p]) for p in _PERCENTILES]
    values = [(of, float(value)) for of, value in wanted if value]
    metric, flow = row["statistic"], _FLOW[row["class"]]
    return [Figure(cell, row["class"], flow, f"{metric} {of}", v) for of, v in values if not math.isnan(v)]


def _place(config: dict[str, Any]) -> _Place | None:
    """Return what a run answers; None if it has traffic that the evaluation has not."""
    udp = config["udp"]
    if not config["flows"] or config["web"] or len(udp) > 1 or any(source["count"] > 1 for source in udp):
        return None
    sides = []
    for flow in config["flows"]:
        ecn = config["hosts"]["ecn"] if flow["ecn"] is None else flow["ecn"]
        sides.append(_Side(flow["cc"]["name"], ecn, flow["base_rtt"] / 1e6, flow["count"]))
    bottleneck = config["bottleneck"]
    return _Place(bottleneck["aqm"]["name"], bottleneck["rate"] / 1e6, tuple(sides), *describe_udp(config))


def describe_udp(config: dict[str, Any]) -> tuple[float, str]:
    """Return payload of the UDP of a run in Mbit/s, and its class."""
    for source in config["udp"]:
        payload = source["rate"] * (source["size"] - _UDP_HEADERS) / source["size"] / 1e6
        return round(payload, 3), "b" if source["ecn"] == "not-ect" else "a"
    return 0.0, ""


def _make_side(name: str, rtt_ms: float, flows: int) -> _Side:
    """Return what the evaluation calls `cubic-ecn` or `cubic`; Prague and DCTCP always are of ECN."""
    cc = name.removesuffix("-ecn")
    return _Side(cc, cc != name or cc in ("prague", "dctcp"), rtt_ms, flows)


def _find_place(cell: Cell) -> _Place:
    named = dict(cell)
    both = zip((named["cc1"], named["cc2"]), (named["delay_ms"], named["delay2_ms"]), named["flows"], strict=True)
    sides = tuple(_make_side(cc, rtt, flows) for cc, rtt, flows in both if flows)
    return _Place(named["qdisc"], named["rate_mbit"], sides, named["udp_mbit"], named["udp_class"])


def compare(runs: pl.DataFrame, classes: pl.DataFrame, figures: Iterable[Figure]) -> Comparison:
    """Return every published figure that a run answers, with the mean over the runs that do."""
    places: dict[_Place, list[dict[str, Any]]] = {}
    for run in runs.iter_rows(named=True):
        place = _place(json.loads(run["config"]))
        if place is not None:
            places.setdefault(place, []).append(run)
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in classes.sort("class").iter_rows(named=True):
        by_run.setdefault(row["key"], []).append(row)
    result = Comparison()
    found: dict[Cell, dict[tuple[str, str], Pair]] = {}
    for figure in figures:
        if _is_empty(figure):
            continue
        answers = select_alike(select_latest_engine(places.get(_find_place(figure.cell), [])), format_cell(figure.cell))
        values = [v for run in answers if (v := _find_measured(run, by_run.get(run["key"], []), figure)) is not None]
        pair = result.add(figure, values, tuple(run["key"] for run in answers), _compute_error)
        if pair is not None:
            found.setdefault(figure.cell, {})[figure.table, figure.metric] = pair
    for pairs in found.values():
        result.pairs += [*_make_ratio_pairs(pairs), *_make_absolute_pairs(pairs)]
    return result


def _is_empty(figure: Figure) -> bool:
    """Whether the figure is of a class that has no packet of those that its row counts."""
    named = dict(figure.cell)
    if named["counted"] == "udp":
        return figure.flow != 0 and figure.table != named["udp_class"]
    return figure.flow != 0 and not named["flows"][figure.flow - 1]


def _find_measured(run: dict[str, Any], classes: list[dict[str, Any]], figure: Figure) -> float | None:
    """Return what a run gives for a figure; `classes` are its rows of that table."""
    statistic, of = figure.metric.split()
    named = dict(figure.cell)
    if named["counted"] == "udp":
        rows = [row for row in classes if row["kind"] == "udp"]
    else:
        rows = [row for row in classes if row["kind"] == "flows"]
        if figure.flow:
            first = figure.flow - 1 if named["flows"][0] else 0
            rows = rows[first : first + 1]
    if statistic == "util_pct":
        rate = named["rate_mbit"]
        if not figure.flow and not named["udp_mbit"]:
            return 100 * float(run["utilisation"])
        return sum(100 * float(row["total_throughput_mbit"]) / rate for row in rows) if rows else None
    if len(rows) != 1 or figure.flow == 0:
        return None
    (row,) = rows
    if statistic == "queue_delay_ms":
        value = row.get(f"sojourn_{of}_ms")
        return None if value is None else float(value)
    if statistic not in _STATISTICS:
        return None
    column, factor = _STATISTICS[statistic]
    return None if row.get(column) is None else factor * float(row[column])


def _name_load(cell: Cell) -> str:
    """Return what stands ahead of a score: figures in overload are scored apart."""
    named = dict(cell)
    return f"overload, {named['counted']}: " if named["udp_mbit"] else ""


def _compute_error(figure: Figure, simulated: float) -> tuple[str, float]:
    statistic, of = figure.metric.split()
    published, before = figure.value, _name_load(figure.cell)
    match statistic:
        case "queue_delay_ms":
            return f"{before}queue delay {of}, |sim - pub| / pub", compute_relative_error(simulated, published)
        case "mark_pct" | "drop_pct":
            error = math.log(simulated / published) if min(simulated, published) > 0 else math.nan
            return f"{before}{statistic}, |ln(sim / pub)|", error
        case "rate_per_flow_mbit":
            return f"{before}rate, |sim - pub| / link", (simulated - published) / dict(figure.cell)["rate_mbit"]
        case _:
            return f"{before}{statistic}, |sim - pub|", simulated - published


def _make_ratio_pairs(pairs: dict[tuple[str, str], Pair]) -> list[Pair]:
    """Return the ratio of the rates of the classes."""
    a, b = (pairs.get((side, "rate_per_flow_mbit mean")) for side in ("a", "b"))
    if a is None or b is None or min(a.simulated, b.simulated, a.figure.value, b.figure.value) <= 0:
        return []
    simulated, published = a.simulated / b.simulated, a.figure.value / b.figure.value
    figure = Figure(a.figure.cell, "a / b", 0, "rate_ratio mean", published)
    score = f"{_name_load(figure.cell)}rate ratio, |ln(sim / pub)|"
    return [Pair(figure, simulated, a.seeds, score, math.log(simulated / published), a.keys)]


def _make_absolute_pairs(pairs: dict[tuple[str, str], Pair]) -> list[Pair]:
    """Return the mean delays once more, with their errors in ms."""
    more = []
    for (_, metric), pair in pairs.items():
        if metric == "queue_delay_ms mean":
            figure = replace(pair.figure, metric="queue_delay_abs mean")
            score = f"{_name_load(figure.cell)}queue delay mean, |sim - pub| ms"
            more.append(Pair(figure, pair.simulated, pair.seeds, score, pair.simulated - pair.figure.value, pair.keys))
    return more


def format_table(comparison: Comparison) -> str:
    """Return a Markdown table, one row per cell, simulated / published."""
    shown = (
        ("a / b", "rate_ratio mean"),
        *((side, "rate_per_flow_mbit mean") for side in "ab"),
        *((side, f"queue_delay_ms {of}") for side in "ab" for of in ("mean", "p99")),
        ("a", "mark_pct mean"),
        *((side, "drop_pct mean") for side in "ab"),
        ("all", "util_pct mean"),
    )
    cells: dict[Cell, dict[tuple[str, str], Pair]] = {}
    for pair in comparison.pairs:
        cells.setdefault(pair.figure.cell, {})[pair.figure.table, pair.figure.metric] = pair
    rows = []
    overload = any(dict(cell)["udp_mbit"] for cell in cells)
    for cell, pairs in cells.items():
        named = dict(cell)
        both = " / ".join("-" if math.isnan(rtt) else f"{rtt:g}" for rtt in (named["delay_ms"], named["delay2_ms"]))
        row = [named["qdisc"], f"{named['cc1']} {named['cc2']}".strip(), both]
        if overload:
            udp = f"{named['udp_mbit']:g} in {named['udp_class']}" if named["udp_mbit"] else "-"
            row += [udp, named["counted"]]
        rows.append(row + [format_pair(pairs.get(key)) for key in shown])
    header = ["queue", "cc", "RTT a / b", *(("UDP", "counted") if overload else ())]
    words = range(len(header))
    header += [f"{metric.removesuffix(' mean')} {side}" for side, metric in shown]
    return align_table(header, rows, words=tuple(words))
