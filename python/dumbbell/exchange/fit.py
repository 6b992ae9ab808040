"""The measurements of a file and the simulation of its proposal: the remaining error, and which part of it is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from dumbbell.exchange import imported_tables
from dumbbell.exchange.keep import Imported
from dumbbell.exchange.measurement import Origin
from dumbbell.results.results import StoredResults
from dumbbell.results.tables import align_table, format_number

# columns of flows, what they are called, whether a class has their sum (else their mean)
_MEASURES = (
    ("goodput_mbit", "goodput, Mbit/s", True),
    ("rtt_mean_ms", "RTT, mean, ms", False),
    ("rtt_p99_ms", "RTT, P99, ms", False),
    ("delay_mean_ms", "one-way delay, mean, ms", False),
    ("delay_p99_ms", "one-way delay, P99, ms", False),
    ("jitter_mean_ms", "jitter, mean, ms", False),
    ("sent", "packets sent", True),
    ("retransmissions", "retransmissions", True),
)
_MOST_ROWS, _MOST_KEYS = 40, 4
_CLOSE = 0.02  # of what was measured: errors that need no reason
_LIKE_FIFO = ("pfifo", "bfifo")
_OFF, _OFF_MS = 1.5, 5.0  # RTTs that are longer in a simulation by this factor and more: its queue is another one
_FLOW_QUEUE, _AQM = "fq_codel", "codel"
# the assumptions that move a measure, by the last part of their keys
_MOVES = {
    "goodput_mbit": ("rate", "cc", "aqm"),
    "rtt_mean_ms": ("base_rtt", "aqm", "rate", "cc"),
    "rtt_p99_ms": ("aqm", "rate", "cc"),
    "delay_mean_ms": ("aqm", "rate"),
    "delay_p99_ms": ("aqm", "rate"),
    "jitter_mean_ms": ("aqm", "rate"),
    "sent": ("rate", "cc", "aqm"),
    "retransmissions": ("aqm", "cc", "ecn"),
}


@dataclass(frozen=True)
class _FitRow:
    """A measure of a class of flows in both."""

    flows: str
    measure: str
    column: str
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        """How far the simulation is off, as a part of what was measured; infinite where that is 0; NaN if unknown."""
        if self.measured <= 0:
            return math.inf if self.simulated > 0 else 0.0
        return (self.simulated - self.measured) / self.measured


def compare_with_proposal(one: Imported, results: StoredResults) -> str:
    """Return the table of an imported file and of the runs of its proposal, with what follows from it."""
    rows = _compare_classes(one, results)
    if not rows:
        return ""
    shown = [
        [row.flows, row.measure, format_number(row.measured), format_number(row.simulated), _format_error(row)]
        for row in rows[:_MOST_ROWS]
    ]
    text = [f"{one.path.name}: measured next to simulated", ""]
    text.append(align_table(["flows", "measure", "measured", "simulated", "error"], shown, words=(0, 1)))
    if (more := len(rows) - len(shown)) > 0:
        text.append(f"and {more} rows more: dumbbell diff --by engine_version has them")
    if said := _list_unknown_errors(one, rows):
        text.append(said)
    if better := _choose_queue(one, rows):
        text.append(better)
    return "\n".join(text)


def _format_error(row: _FitRow) -> str:
    return f"{100 * row.error:+.1f} %" if math.isfinite(row.error) else "-"


def _compare_classes(one: Imported, results: StoredResults) -> list[_FitRow]:
    """Return what both have of each class of flows."""
    runs = results.runs
    is_import = pl.col("engine_version") == imported_tables.VERSION
    named = (pl.col("experiment") == one.name) & pl.col("imported").str.contains(
        f'"file": "{one.path.name}"', literal=True
    )
    theirs = runs.filter(is_import & named)
    ours = runs.filter(~is_import & pl.col("cell").is_in(theirs["cell"].to_list()))
    sides_of = [theirs["key"].to_list()[-1:], ours["key"].to_list()[-1:]]
    flows = results.flows
    found = []
    for members in _list_classes(one):
        sides = [flows.filter(pl.col("key").is_in(keys), pl.col("flow").is_in(members)) for keys in sides_of]
        if not all(side.height for side in sides):
            continue
        for column, name, is_sum in _MEASURES:
            values = [_compute_value(side, column, is_sum=is_sum) for side in sides]
            if not math.isnan(values[0]):
                found.append(_FitRow(_name(sides[0], len(members)), name, column, *values))
    return found


def _list_classes(one: Imported) -> list[list[int]]:
    """Return the flows of each table of the proposal, by their numbers."""
    found, first = [], 0
    for kind in ("flows", "udp"):
        for entry in one.cell.groups[kind]:
            found.append(list(range(first, first + entry["count"])))
            first += entry["count"]
    return found


def _compute_value(side: pl.DataFrame, column: str, *, is_sum: bool) -> float:
    if column not in side.columns:
        return math.nan
    values = side[column].cast(pl.Float64).fill_nan(None).drop_nulls()
    if not len(values):
        return math.nan
    return float(values.sum() if is_sum else values.mean())  # type: ignore[arg-type]


def _name(side: pl.DataFrame, count: int) -> str:
    row: dict[str, Any] = side.row(0, named=True)
    kind, base = row["cc"], row["base_rtt_ms"] or 0.0
    words = [
        f"{kind} {row['direction']}",
        f"flow {row['flow']}" if count == 1 else f"{count} flows from {row['flow']} on",
    ]
    return ", ".join([*words, *([f"{base:g} ms"] if base > 0 else [])])


def _list_unknown_errors(one: Imported, rows: list[_FitRow]) -> str:
    """Return which errors are beyond what a proposal can know, as it assumed what they depend on."""
    assumed = [key for key, fact in one.facts if fact.origin is Origin.ASSUMED]
    lines = []
    for column in dict.fromkeys(row.column for row in rows):
        known = [row for row in rows if row.column == column and not math.isnan(row.error)]
        worst = max(known, key=lambda row: abs(row.error), default=None)
        if worst is None or abs(worst.error) < _CLOSE:
            continue
        keys = [key for key in assumed if key.rpartition(".")[2] in _MOVES.get(column, ())]
        why = f"beyond what the file tells: ASSUMED are {', '.join(keys[:_MOST_KEYS])}"
        if not keys:
            why = "no assumption explains it"
        off = (
            f"up to {_format_error(worst)}"
            if math.isfinite(worst.error)
            else f"0, and {format_number(worst.simulated)} simulated"
        )
        lines.append(f"{worst.measure}: {off} ({worst.flows}): {why}")
    return "\n".join(lines) or f"all within {_CLOSE:.0%} of what was measured"


def _choose_queue(one: Imported, rows: list[_FitRow]) -> str:
    """Return the queue that fits better, where a FIFO was assumed and flows waited less than in it."""
    found = []
    for section in ("bottleneck", "reverse"):
        fact = dict(one.facts).get(f"{section}.aqm")
        if fact is None or fact.origin is not Origin.ASSUMED or not any(name in fact.text for name in _LIKE_FIFO):
            continue
        for row in rows:
            is_ping, is_higher = row.flows.startswith("ping"), row.simulated > _OFF * row.measured + _OFF_MS
            if row.column == "rtt_p99_ms" and is_ping and is_higher:
                aqm = f"a queue for each flow fits better: --set {section}.aqm={_FLOW_QUEUE}"
            elif row.column == "rtt_mean_ms" and not is_ping and is_higher:
                aqm = f"an AQM fits better: --set {section}.aqm={_AQM}"
            else:
                continue
            values = f"{row.measured:.3g} measured, {row.simulated:.3g} with the FIFO that was assumed"
            found.append(f"{row.flows}, {row.measure}: {values}; {aqm}")
            break
    return "\n".join(found)
