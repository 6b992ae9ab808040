"""Results against runs of any number of flows: the measurements of Linux that come with dumbbell.

One row per flow of a run; those of one run follow each other. Columns with a dot, and `duration`, are keys of an
experiment; others have the names and units of the results tables. Alike flows of a run with more than two count as
their mean. docs/references.md has the columns.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.errors import InputError
from dumbbell.experiment.units import parse
from dumbbell.published.compare import (
    MEASURED,
    Cell,
    Comparison,
    Figure,
    Pair,
    compute_error,
    compute_relative_error,
    format_cell,
    format_pair,
    has_columns,
    has_only_flows,
    matches_qdisc,
    read_csv,
    select_alike,
    select_latest_engine,
)
from dumbbell.results.tables import align_table

Row = dict[str, str]
Run = list[Row]
"""The rows of a run, one per flow."""

# column of the file → measure; those of the queue stand in the row of every flow
_OF_FLOW = {"goodput_mbit": "goodput_mbit", "rtt_mean_ms": "rtt_ms", "retransmissions": "retransmissions"}
_OF_QUEUE = {"drops": "drops", "sojourn_mean_l_ms": "sojourn_l_ms", "sojourn_mean_c_ms": "sojourn_c_ms"}
_MARKS = ("ce_marks", "ce_marks_c")
_SOJOURNS = ("sojourn_l_ms", "sojourn_c_ms")
# of a cell's name; the other keys of a file stand behind them
_IN_A_GRID = ("bottleneck.shaper", "flows.start")
_NAMED = {"bottleneck.aqm", "bottleneck.rate", "hosts.ecn", "duration", "flows.cc", "flows.base_rtt", "flows.cc.ect"}


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
    """Whether a CSV file is of this kind and has flows or keys that a grid of rates and base RTTs has no place for."""
    return has_columns(path, MEASURED) and any(
        len(run) > 2
        or len({row["flows.base_rtt"] for row in run}) > 1
        or any(key not in _IN_A_GRID for key, _ in _list_stated(run))
        for run in read_runs(path)
    )


@lru_cache(maxsize=8)
def _read_runs(path: str, _changed: int) -> list[Run]:
    runs: list[Run] = []

    def add(row: Row) -> list[Row]:
        row = {column: value or "" for column, value in row.items() if column}
        number = int(row["flow"])
        for column in (*_OF_FLOW, *_OF_QUEUE, *_MARKS):
            float(row.get(column) or 0)
        _make_cell(row, _list_flows_of_rows([row]))
        if not runs or number <= int(runs[-1][-1]["flow"]):
            runs.append([])
        if number != len(runs[-1]):
            raise ValueError(f"flow {number} where flow {len(runs[-1])} of a run is due")
        runs[-1].append(row)
        return []

    read_csv(path, add)
    return runs


def read_runs(path: str | Path) -> list[Run]:
    """Return the runs of a file; raises InputError."""
    return _read_runs(str(path), Path(path).stat().st_mtime_ns if Path(path).exists() else 0)


def read(path: str | Path, counts: Callable[[Sequence[float]], bool] | None = None) -> list[Figure]:
    """Return the figures of a file, means over runs; raises InputError.

    `counts` says of the goodputs of a run whether it counts. Marks are those of the C queue and the CE that flows in
    the L queue reported: there the kernel counts a packet twice that the coupled part and the step both mark.
    """
    repeats: dict[tuple[Cell, int, str], list[float]] = {}
    for cell, runs in group_runs(path).items():
        for rows in runs:
            if counts is not None and not counts([float(row["goodput_mbit"] or 0) for row in rows]):
                continue
            for (flow, measure), value in _read_measures(rows, _list_flows_of_rows(rows)).items():
                repeats.setdefault((cell, flow, measure), []).append(value)
    return [Figure(cell, "", flow, measure, statistics.fmean(v)) for (cell, flow, measure), v in repeats.items()]


def group_runs(path: str | Path) -> dict[Cell, list[Run]]:
    """Return the runs of each cell of a file."""
    cells: dict[Cell, list[Run]] = {}
    for rows in read_runs(path):
        cells.setdefault(_make_cell(rows[0], _list_flows_of_rows(rows), _list_stated(rows)), []).append(rows)
    return cells


def _list_flows_of_rows(rows: Run) -> list[_Flow]:
    return [
        _Flow(
            "dctcp-ect1" if row.get("flows.cc.ect") == "1" else row["flows.cc"],
            read_value(row["flows.base_rtt"]) / 1e6,
        )
        for row in rows
    ]


def _list_stated(rows: Run) -> Cell:
    """Return the keys that a run states in addition to those of its name, and the set that it belongs to."""
    keys = [c for c in rows[0] if "." in c and c not in _NAMED and not c.startswith("flows.") and rows[0][c]]
    of_flows = [c for c in rows[0] if c.startswith("flows.") and c not in _NAMED and any(row[c] for row in rows)]
    labels = [("set", rows[0]["set"])] if rows[0].get("set") else []
    return (*labels, *((c, rows[0][c]) for c in keys), *((c, "+".join(row[c] for row in rows)) for c in of_flows))


@lru_cache(maxsize=4096)
def read_value(text: str) -> Any:
    """Return the value of a key as configurations have it: ns, bit/s, bytes, bool, number or text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in ("time", "rate", "size"):
        try:
            return parse(kind, text)
        except InputError:
            continue
    try:
        return float(text)
    except ValueError:
        return text


def _group_flows(flows: Sequence[_Flow]) -> list[tuple[int, list[int]]]:
    """Return number and members of each group of flows that count as one: each of two, alike ones of more."""
    if len(flows) <= 2:
        return [(i + 1, [i]) for i in range(len(flows))]
    members: dict[_Flow, list[int]] = {}
    for i, flow in enumerate(flows):
        members.setdefault(flow, []).append(i)
    return list(enumerate(members.values(), 1))


def _make_cell(row: Row, flows: Sequence[_Flow], stated: Cell = ()) -> Cell:
    named = [(len(members), flows[members[0]]) for _, members in _group_flows(flows)]
    rtts = [f"{flow.rtt_ms:g}" for _, flow in named]
    return (
        ("qdisc", row["bottleneck.aqm"]),
        ("ecn", float(read_value(row["hosts.ecn"]))),
        ("ccs", "+".join(flow.cc if count == 1 else f"{count} {flow.cc}" for count, flow in named)),
        ("rate_mbit", read_value(row["bottleneck.rate"]) / 1e6),
        ("rtts_ms", rtts[0] if len(set(rtts)) == 1 else "+".join(rtts)),
        ("seconds", read_value(row["duration"]) / 1e9),
        *stated,
    )


def _read_measures(rows: Run, flows: Sequence[_Flow]) -> dict[tuple[int, str], float]:
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
    marks = next((float(rows[0][column]) for column in _MARKS if rows[0].get(column)), None)
    if marks is not None:
        pairs = zip(rows, flows, strict=True)
        seen = [float(row["ce_reported"]) for row, flow in pairs if flow.low_latency and row.get("ce_reported")]
        found[0, "marks"] = marks + sum(seen)
        if (0, "drops") in found:
            found[0, "signals"] = found[0, "marks"] + found[0, "drops"]
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
        "bottleneck.aqm": "",
        "hosts.ecn": "true" if config["hosts"]["ecn"] else "false",
        "bottleneck.rate": f"{config['bottleneck']['rate']}bit",
        "duration": f"{config['duration']}ns",
    }
    return _make_cell(row, _list_flows(config))


def _answers(config: dict[str, Any], cell: Cell) -> bool:
    """Whether a run whose cell has this name has the other keys that the cell states."""
    flows = [flow for flow in config["flows"] for _ in range(flow["count"])]
    for key, text in cell[6:]:
        if key.startswith("flows."):
            path = key.split(".")[1:]
            if not all(_has(flow, path, one) for flow, one in zip(flows, text.split("+"), strict=True)):
                return False
        elif "." in key and not _has(config, key.split("."), text):
            return False
    return matches_qdisc(dict(cell)["qdisc"], config["bottleneck"]["aqm"])


def _has(config: dict[str, Any], path: Sequence[str], text: str) -> bool:
    """Whether a key has this value; one without text may have any."""
    value: Any = config
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    wanted = read_value(text)
    if isinstance(value, dict):  # a moment, drawn or not
        return not text or value.get("min") == value.get("max") == wanted
    return not text or bool(value == wanted)


def compare(
    runs: pl.DataFrame,
    flows: pl.DataFrame,
    figures: Iterable[Figure],
    counts: Callable[[Sequence[float]], bool] | None = None,
) -> Comparison:
    """Return every figure that a run answers, with the mean over the runs that do and that `counts`, as in `read`."""
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
            there = [(c, r) for c, r in places.get(figure.cell[1:6], []) if _answers(c, figure.cell)]
            answers = select_alike(select_latest_engine([run for _, run in there]), format_cell(figure.cell))
            configs = {run["key"]: config for config, run in there}
            keys[figure.cell] = tuple(run["key"] for run in answers)
            simulated[figure.cell] = [
                _read_simulated(run, by_run[run["key"]], _list_flows(configs[run["key"]]))
                for run in answers
                if counts is None or counts([row["goodput_mbit"] or 0.0 for row in by_run[run["key"]]])
            ]
        of_figure = figure.flow, figure.metric
        values = [v for found in simulated[figure.cell] if not math.isnan(v := found.get(of_figure, math.nan))]
        result.add(figure, values, keys[figure.cell], _compute_error)
    result.pairs += _make_share_pairs(result.pairs)
    return result


def _read_simulated(
    run: dict[str, Any], rows: Sequence[dict[str, Any]], flows: Sequence[_Flow]
) -> dict[tuple[int, str], float]:
    """Return what a simulated run gives, as `_measures` does."""
    found: dict[tuple[int, str], float] = {}
    for group, members in _group_flows(flows):
        for column, measure in _OF_FLOW.items():
            values = [float(rows[i][column]) for i in members if rows[i][column] is not None]
            found[group, measure] = statistics.fmean([v for v in values if not math.isnan(v)] or [math.nan])
    for low_latency, measure in zip((True, False), _SOJOURNS, strict=True):
        inside = [row for row, flow in zip(rows, flows, strict=True) if flow.low_latency == low_latency]
        packets = sum(row["packets"] for row in inside)
        if packets:
            waited = sum(row["sojourn_mean_ms"] * row["packets"] for row in inside if row["packets"])
            found[0, measure] = waited / packets
    if any(flow.low_latency for flow in flows) or '"dualpi2"' in run["config"]:
        found[0, "marks"] = sum(float(row["ce_received"]) for row in rows)
    else:
        found[0, "marks"] = float(run["ce_marks"])
    found[0, "drops"] = sum(float(row["drops"]) for row in rows)
    found[0, "signals"] = found[0, "marks"] + found[0, "drops"]
    return found


def _compute_error(figure: Figure, simulated: float) -> tuple[str, float]:
    published = figure.value
    if figure.metric in _SOJOURNS:
        queue = "L" if figure.metric == "sojourn_l_ms" else "C"
        return f"time in queue {queue}, |sim - pub| / pub", (simulated - published) / published if published else 0.0
    if figure.metric == "signals":
        return "marks and drops, |sim - pub| / pub", compute_relative_error(simulated, published)
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
        rows.append(row + [format_pair(pairs.get(key)) for key in shown])
    header = ["cc", "ECN", "Mbit/s", "RTT", "goodput 1", "rtt 1", "goodput 2", "rtt 2"]
    header += ["marks and drops", "drops", "sojourn L", "sojourn C"]
    return align_table(header, rows)
