"""Results beside published statistics of connection classes: the files of the DualPI2 authors' evaluation (2021).

One row a cell, class and statistic, with its mean and percentiles. Class `a` is that of the first flow, `b` that of the
last, `all` is the link.
"""

import csv
import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.compare import Cell, Comparison, Figure, Pair, alike, latest_engine, only_flows, where
from dumbbell.errors import InputError
from dumbbell.tables import aligned, number

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


@dataclass(frozen=True)
class _Side:
    """What one class of a cell is made of."""

    cc: str
    ecn: bool
    rtt_ms: float
    flows: int


def describes(path: str | Path) -> bool:
    """Whether a CSV file is of this kind."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as stream:
            return set(next(csv.reader(stream), [])) >= COLUMNS
    except (OSError, UnicodeDecodeError, csv.Error):
        return False


def read(path: str | Path) -> list[Figure]:
    """Return the figures of a file: mean of every statistic, percentiles of the delay; raises InputError."""
    figures = []
    try:
        with Path(path).open(newline="", encoding="utf-8") as stream:
            for line, row in enumerate(csv.DictReader(stream), 2):
                try:
                    figures += _figures(row)
                except (KeyError, TypeError, ValueError) as error:
                    raise InputError(
                        str(path), f"line {line}", str(error), "a class, a statistic and numbers"
                    ) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), "", str(error), "a CSV file of published results") from None
    return figures


def _figures(row: dict[str, str]) -> list[Figure]:
    aqm = _AQMS.get(row["aqm"], row["aqm"])
    second = row["rtt_b_ms"] != ""
    cell: Cell = (
        ("qdisc", aqm),
        ("cc1", row["cc_a"]),
        ("cc2", row["cc_b"] if second else ""),
        ("rate_mbit", float(row["link_mbit"])),
        ("delay_ms", float(row["rtt_a_ms"])),
        ("delay2_ms", float(row["rtt_b_ms"]) if second else math.nan),
        ("flows", (int(row["flows_a"]), int(row["flows_b"] or 0))),
        ("udp_mbit", float(row.get("udp_mbit") or 0)),
    )
    flow = _FLOW[row["class"]]
    wanted = [("mean", row["mean"])]
    if row["statistic"] == "queue_delay_ms":
        wanted += [(p, row[p]) for p in _PERCENTILES]
    return [Figure(cell, row["class"], flow, f"{row['statistic']} {of}", float(value)) for of, value in wanted if value]


def _sides(config: dict[str, Any]) -> list[_Side]:
    sides = []
    for flow in config["flows"]:
        ecn = config["hosts"]["ecn"] if flow["ecn"] is None else flow["ecn"]
        sides.append(_Side(flow["cc"]["name"], ecn, flow["base_rtt"] / 1e6, flow["count"]))
    return sides


def _side(name: str, rtt_ms: float, flows: int) -> _Side:
    """Return what the evaluation calls `cubic-ecn` or `cubic`; Prague and DCTCP always are of ECN."""
    cc = name.removesuffix("-ecn")
    return _Side(cc, cc != name or cc in ("prague", "dctcp"), rtt_ms, flows)


def _wanted(cell: Cell) -> tuple[str, float, tuple[_Side, ...]]:
    named = dict(cell)
    sides = [_side(named["cc1"], named["delay_ms"], named["flows"][0])]
    if named["cc2"]:
        sides.append(_side(named["cc2"], named["delay2_ms"], named["flows"][1]))
    return named["qdisc"], named["rate_mbit"], tuple(sides)


def compare(runs: pl.DataFrame, classes: pl.DataFrame, figures: Iterable[Figure]) -> Comparison:
    """Return every published figure that a run answers, beside the mean over the runs that do."""
    places: dict[tuple[str, float, tuple[_Side, ...]], list[dict[str, Any]]] = {}
    for run in runs.iter_rows(named=True):
        config = json.loads(run["config"])
        if not only_flows(config):
            continue
        bottleneck = config["bottleneck"]
        place = (bottleneck["aqm"]["name"], bottleneck["rate"] / 1e6, tuple(_sides(config)))
        places.setdefault(place, []).append(run)
    by_class = {(row["key"], row["class"]): row for row in classes.iter_rows(named=True)}
    result = Comparison()
    found: dict[Cell, dict[tuple[str, str], Pair]] = {}
    for figure in figures:
        found_runs = [] if dict(figure.cell)["udp_mbit"] else places.get(_wanted(figure.cell), [])
        answers = alike(latest_engine(found_runs), where(figure.cell))
        values = [v for run in answers if (v := _measured(run, by_class, figure)) is not None]
        if not values:
            result.missing += 1
            continue
        simulated = statistics.fmean(values)
        score, error = _error(figure, simulated)
        pair = Pair(figure, simulated, len(values), score, error)
        found.setdefault(figure.cell, {})[figure.table, figure.metric] = pair
        result.pairs.append(pair)
    for pairs in found.values():
        result.pairs += _ratio(pairs)
    return result


def _measured(run: dict[str, Any], by_class: dict[tuple[str, int], dict[str, Any]], figure: Figure) -> float | None:
    statistic, of = figure.metric.split()
    if statistic == "util_pct":
        # the share of a class follows from its rate
        return None if figure.flow else 100 * float(run["utilisation"])
    row = by_class.get((run["key"], max(figure.flow - 1, 0)))
    if row is None or figure.flow == 0:
        return None
    if statistic == "queue_delay_ms":
        value = row.get(f"sojourn_{of}_ms")
        return None if value is None else float(value)
    if statistic not in _STATISTICS:
        return None
    column, factor = _STATISTICS[statistic]
    return None if row.get(column) is None else factor * float(row[column])


def _error(figure: Figure, simulated: float) -> tuple[str, float]:
    statistic, of = figure.metric.split()
    published = figure.value
    match statistic:
        case "queue_delay_ms":
            error = (simulated - published) / published if published else math.nan
            return f"queue delay {of}, |sim - pub| / pub", error
        case "mark_pct" | "drop_pct":
            error = math.log(simulated / published) if min(simulated, published) > 0 else math.nan
            return f"{statistic}, |ln(sim / pub)|", error
        case "rate_per_flow_mbit":
            return "rate, |sim - pub| / link", (simulated - published) / dict(figure.cell)["rate_mbit"]
        case _:
            return f"{statistic}, |sim - pub|", simulated - published


def _ratio(pairs: dict[tuple[str, str], Pair]) -> list[Pair]:
    """Return the ratio of the rates of the classes."""
    a, b = (pairs.get((side, "rate_per_flow_mbit mean")) for side in ("a", "b"))
    if a is None or b is None or min(a.simulated, b.simulated, a.figure.value, b.figure.value) <= 0:
        return []
    simulated, published = a.simulated / b.simulated, a.figure.value / b.figure.value
    figure = Figure(a.figure.cell, "a / b", 0, "rate_ratio mean", published)
    return [Pair(figure, simulated, a.seeds, "rate ratio, |ln(sim / pub)|", math.log(simulated / published))]


def table(comparison: Comparison) -> str:
    """Return a Markdown table, one row a cell, simulated / published."""
    shown = (
        ("a / b", "rate_ratio mean"),
        *((side, f"queue_delay_ms {of}") for side in "ab" for of in ("mean", "p99")),
        ("a", "mark_pct mean"),
        ("b", "drop_pct mean"),
        ("all", "util_pct mean"),
    )
    cells: dict[Cell, dict[tuple[str, str], Pair]] = {}
    for pair in comparison.pairs:
        cells.setdefault(pair.figure.cell, {})[pair.figure.table, pair.figure.metric] = pair
    rows = []
    for cell, pairs in cells.items():
        named = dict(cell)
        both = f"{named['delay_ms']:g}" + (f" / {named['delay2_ms']:g}" if named["cc2"] else "")
        row = [named["qdisc"], f"{named['cc1']} {named['cc2']}".strip(), both]
        rows.append(row + [_text(pairs.get(key)) for key in shown])
    header = ["queue", "cc", "RTT a / b", *(f"{metric.removesuffix(' mean')} {side}" for side, metric in shown)]
    return aligned(header, rows, words=(0, 1, 2))


def _text(pair: Pair | None) -> str:
    return "-" if pair is None else f"{number(pair.simulated)} / {number(pair.figure.value)}"
