"""Results against cells of one flow, two or many, each with its own congestion control and base RTT: DualPI2 on Linux.

One row per cell, seed and flow; those of one run follow each other, in the order of its flows. Alike flows of a cell
with more than two count as their mean.
"""

import csv
import itertools
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.errors import Unreadable
from dumbbell.published.compare import (
    Cell,
    Comparison,
    Figure,
    Pair,
    compute_error,
    format_cell,
    has_columns,
    has_only_flows,
    matches_qdisc,
    select_alike,
    select_latest_engine,
)
from dumbbell.results.tables import align_table, format_number

COLUMNS = frozenset(("qdisc", "ecn", "ccs", "rate_mbit", "rtts_ms", "seconds", "seed", "flow", "cc", "goodput_mbit"))
# column of the file → measure; those of the queue stand in the row of every flow
_OF_FLOW = {"goodput_mbit": "goodput_mbit", "mean_rtt_ms": "rtt_ms", "retransmissions": "retransmissions"}
_OF_QUEUE = {"queue_drops": "drops", "mean_delay_l_ms": "sojourn_l_ms", "mean_delay_c_ms": "sojourn_c_ms"}
_SIMULATED = {"goodput_mbit": "goodput_mbit", "rtt_ms": "rtt_mean_ms", "retransmissions": "retransmissions"}
_SOJOURNS = ("sojourn_l_ms", "sojourn_c_ms")


@dataclass(frozen=True)
class _Flow:
    """A flow as a cell names it; `dctcp-ect1` is DCTCP that sends ECT(1)."""

    cc: str
    rtt_ms: float

    @property
    def low_latency(self) -> bool:
        """Whether its packets go to the L queue."""
        return self.cc in ("prague", "dctcp-ect1")


def describes(path: str | Path) -> bool:
    """Whether a CSV file is of this kind."""
    return has_columns(path, COLUMNS)


def read(path: str | Path) -> list[Figure]:
    """Return the figures of a file, means over seeds; raises InputError.

    Marks are those of the C queue and the CE that flows in the L queue saw: there the kernel counts a packet twice
    that the coupled part and the step both mark.
    """
    name = str(path)
    runs: list[list[dict[str, str]]] = []
    try:
        with Path(path).open(newline="", encoding="utf-8") as stream:
            for line, row in enumerate(csv.DictReader(stream), 2):
                try:
                    if int(row["flow"]) == 1:
                        runs.append([])
                    runs[-1].append({c: _check_value(c, v) for c, v in row.items() if c})
                except (IndexError, KeyError, TypeError, ValueError) as error:
                    raise Unreadable(
                        f"this cannot be read ({error})",
                        "a number in every numeric column",
                        file=name,
                        key=f"line {line}",
                    ) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Unreadable(f"it cannot be read ({error})", "a CSV file of measured flows", file=name) from None
    repeats: dict[tuple[Cell, int, str], list[float]] = {}
    for rows in runs:
        if len(rows) != rows[0]["ccs"].count("+") + 1:
            found = f"{len(rows)} rows of {rows[0]['ccs']}, seed {rows[0]['seed']}"
            raise Unreadable(f"there are {found}", "a row for each flow of a run", file=name, key="flow")
        flows = [_Flow(_name_kind(row), rtt) for row, rtt in zip(rows, _parse_rtts(rows), strict=True)]
        cell = _make_cell(rows[0], flows)
        for (flow, measure), value in _read_measures(rows, flows).items():
            repeats.setdefault((cell, flow, measure), []).append(value)
    return [Figure(cell, "", flow, measure, statistics.fmean(v)) for (cell, flow, measure), v in repeats.items()]


def _check_value(column: str, value: str) -> str:
    numeric = column in ("rate_mbit", "seconds", "flow", "ecn", *_OF_FLOW, *_OF_QUEUE)
    if numeric and value:
        float(value)
    return value


def _name_kind(row: dict[str, str]) -> str:
    return "dctcp-ect1" if row["cc"] == "dctcp" and row.get("ect") == "1" else row["cc"]


def _parse_rtts(rows: Sequence[dict[str, str]]) -> list[float]:
    rtts = [float(rtt) for rtt in rows[0]["rtts_ms"].split("+")]
    return rtts * len(rows) if len(rtts) == 1 else rtts


def _group_flows(flows: Sequence[_Flow]) -> list[tuple[int, list[int]]]:
    """Return number and members of each group of flows that count as one: each of two, alike neighbours of more."""
    if len(flows) <= 2:
        return [(i + 1, [i]) for i in range(len(flows))]
    runs = itertools.groupby(range(len(flows)), lambda i: flows[i])
    return [(number, list(members)) for number, (_, members) in enumerate(runs, 1)]


def _make_cell(row: dict[str, str], flows: Sequence[_Flow]) -> Cell:
    options = row.get("options") or "default"
    named = [(len(members), flows[members[0]]) for _, members in _group_flows(flows)]
    rtts = [f"{flow.rtt_ms:g}" for _, flow in named]
    return (
        ("qdisc", row["qdisc"] if options == "default" else f"{row['qdisc']} {options}"),
        ("ecn", float(row["ecn"])),
        ("ccs", "+".join(flow.cc if count == 1 else f"{count} {flow.cc}" for count, flow in named)),
        ("rate_mbit", float(row["rate_mbit"])),
        ("rtts_ms", rtts[0] if len(set(rtts)) == 1 else "+".join(rtts)),
        ("seconds", float(row["seconds"])),
    )


def _read_measures(rows: Sequence[dict[str, str]], flows: Sequence[_Flow]) -> dict[tuple[int, str], float]:
    """Return what a run of the file gives, by group of flows (0: the queue) and measure."""
    found: dict[tuple[int, str], float] = {}
    for group, members in _group_flows(flows):
        for column, measure in _OF_FLOW.items():
            values = [float(rows[i][column]) for i in members if rows[i].get(column)]
            if values:
                found[group, measure] = statistics.fmean(values)
    queues = {"sojourn_l_ms": True, "sojourn_c_ms": False}
    for column, measure in _OF_QUEUE.items():
        used = measure not in queues or any(flow.low_latency == queues[measure] for flow in flows)
        if used and rows[0].get(column):
            found[0, measure] = float(rows[0][column])
    if rows[0].get("queue_marks_c"):
        marks = float(rows[0]["queue_marks_c"])
        marks += sum(float(row["delivered_ce"]) for row, flow in zip(rows, flows, strict=True) if flow.low_latency)
        found[0, "marks"] = marks
        if (0, "drops") in found:
            found[0, "signals"] = marks + found[0, "drops"]
    return found


def _list_flows(config: dict[str, Any]) -> list[_Flow]:
    flows = []
    for flow in config["flows"]:
        cc = flow["cc"]
        name = "dctcp-ect1" if cc["name"] == "dctcp" and cc.get("ect") == 1 else str(cc["name"])
        flows += [_Flow(name, flow["base_rtt"] / 1e6)] * flow["count"]
    return flows


def make_cell_of_run(config: dict[str, Any]) -> Cell:
    """Return the cell that a run answers; the queue's words, which come first, are left empty."""
    row = {
        "qdisc": "",
        "ecn": str(int(config["hosts"]["ecn"])),
        "rate_mbit": str(config["bottleneck"]["rate"] / 1e6),
        "seconds": str(config["duration"] / 1e9),
    }
    return _make_cell(row, _list_flows(config))


def compare(runs: pl.DataFrame, flows: pl.DataFrame, figures: Iterable[Figure]) -> Comparison:
    """Return every figure that a run answers, with the mean over the runs that do."""
    places: dict[Cell, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for run in runs.iter_rows(named=True):
        config = json.loads(run["config"])
        if has_only_flows(config):
            places.setdefault(make_cell_of_run(config)[1:], []).append((config, run))
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in flows.sort("flow").iter_rows(named=True):
        by_run.setdefault(row["key"], []).append(row)
    result = Comparison()
    simulated: dict[Cell, list[dict[tuple[int, str], float]]] = {}
    keys: dict[Cell, tuple[str, ...]] = {}
    for figure in figures:
        if figure.cell not in simulated:
            words = dict(figure.cell)["qdisc"]
            there = [(c, r) for c, r in places.get(figure.cell[1:], []) if matches_qdisc(words, c["bottleneck"]["aqm"])]
            answers = select_alike(select_latest_engine([run for _, run in there]), format_cell(figure.cell))
            configs = {run["key"]: config for config, run in there}
            keys[figure.cell] = tuple(run["key"] for run in answers)
            simulated[figure.cell] = [
                _read_simulated(by_run[run["key"]], _list_flows(configs[run["key"]])) for run in answers
            ]
        of_figure = figure.flow, figure.metric
        values = [v for found in simulated[figure.cell] if not math.isnan(v := found.get(of_figure, math.nan))]
        if not values:
            result.missing += 1
            continue
        mean = statistics.fmean(values)
        score, error = _compute_error(figure, mean)
        result.pairs.append(Pair(figure, mean, len(values), score, error, keys[figure.cell]))
    result.pairs += _make_share_pairs(result.pairs)
    return result


def _read_simulated(rows: Sequence[dict[str, Any]], flows: Sequence[_Flow]) -> dict[tuple[int, str], float]:
    """Return what a simulated run gives, as `_read_measures` does."""
    found: dict[tuple[int, str], float] = {}
    for group, members in _group_flows(flows):
        for measure, column in _SIMULATED.items():
            found[group, measure] = statistics.fmean(float(rows[i][column]) for i in members)
    for low_latency, measure in zip((True, False), _SOJOURNS, strict=True):
        inside = [row for row, flow in zip(rows, flows, strict=True) if flow.low_latency == low_latency]
        packets = sum(row["packets"] for row in inside)
        if packets:
            waited = sum(row["sojourn_mean_ms"] * row["packets"] for row in inside if row["packets"])
            found[0, measure] = waited / packets
    found[0, "marks"] = sum(float(row["ce_received"]) for row in rows)
    found[0, "drops"] = sum(float(row["drops"]) for row in rows)
    found[0, "signals"] = found[0, "marks"] + found[0, "drops"]
    return found


def _compute_error(figure: Figure, simulated: float) -> tuple[str, float]:
    published = figure.value
    if figure.metric in _SOJOURNS:
        queue = "L" if figure.metric == "sojourn_l_ms" else "C"
        return f"time in queue {queue}, |sim - pub| / pub", (simulated - published) / published if published else 0.0
    if figure.metric == "signals":
        error = (simulated - published) / published if published else math.nan
        return "marks and drops, |sim - pub| / pub", error
    return compute_error(figure, simulated)


def _make_share_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the share of the first group of flows in the goodput of all, where there are two groups."""
    goodputs: dict[Cell, dict[int, Pair]] = {}
    for pair in pairs:
        if pair.figure.metric == "goodput_mbit":
            goodputs.setdefault(pair.figure.cell, {})[pair.figure.flow] = pair
    derived = []
    for cell, groups in goodputs.items():
        if groups.keys() != {1, 2}:
            continue
        counts = [
            int(count) if rest else 1 for count, _, rest in (w.partition(" ") for w in dict(cell)["ccs"].split("+"))
        ]
        sums = []
        for values in ([groups[g].simulated for g in (1, 2)], [groups[g].figure.value for g in (1, 2)]):
            each = [count * value for count, value in zip(counts, values, strict=True)]
            sums.append(each[0] / sum(each))
        figure = Figure(cell, "", 1, "share", sums[1])
        score, error = "share of flow 1, |sim - pub|", sums[0] - sums[1]
        derived.append(Pair(figure, sums[0], groups[1].seeds, score, error, groups[1].keys))
    return derived


def format_table(comparison: Comparison) -> str:
    """Return a Markdown table, one row per cell, simulated / measured; two flows, or groups of them, are in one row."""
    cells: dict[Cell, dict[tuple[int, str], Pair]] = {}
    for pair in comparison.pairs:
        cells.setdefault(pair.figure.cell, {})[pair.figure.flow, pair.figure.metric] = pair
    shown = [(g, m) for g in (1, 2) for m in ("goodput_mbit", "rtt_ms")]
    shown += [(0, "signals"), (0, "drops"), (0, "sojourn_l_ms"), (0, "sojourn_c_ms")]
    rows = []
    for cell, pairs in cells.items():
        named = dict(cell)
        row = [named["ccs"], "on" if named["ecn"] else "off", f"{named['rate_mbit']:g}", named["rtts_ms"]]
        for key in shown:
            one = pairs.get(key)
            row.append("-" if one is None else f"{format_number(one.simulated)} / {format_number(one.figure.value)}")
        rows.append(row)
    header = ["cc", "ECN", "Mbit/s", "RTT", "goodput 1", "rtt 1", "goodput 2", "rtt 2"]
    header += ["marks and drops", "drops", "sojourn L", "sojourn C"]
    return align_table(header, rows)
