"""Tables of draft-heist-tsvwg-sce-one-and-two-flow-tests-00 (IETF, 2019), in its order, and maps of their errors.

Sections and captions of tables 1 to 11 are the draft's; it describes those of the appendix without their captions.
Each figure has the published one beside it.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any, Literal

import polars as pl

from dumbbell import results
from dumbbell.errors import WrongValue, quote_value
from dumbbell.published import pictures
from dumbbell.published.compare import Cell, Comparison, Figure, Pair, compare, read_reference
from dumbbell.study import Nothing, Picture, align_table, figures, shipped

TAKES_REFERENCE = True

Kind = Literal["one-flow", "two-flow", "difference"]


@dataclass(frozen=True)
class Grid:
    """Rates (Mbit/s) and delays (ms) of a table's rows and columns, and what the paper's captions say of them."""

    rates: tuple[float, ...]
    delays: tuple[float, ...]
    caption: str


@dataclass(frozen=True)
class Table:
    """One table; of a difference, `cc2` is what is subtracted from `cc1`, each measured with one flow."""

    number: int
    section: str
    title: str
    kind: Kind
    qdisc: str
    cc1: str
    cc2: str
    metric: str
    decimals: int
    grid: Grid

    @property
    def flows(self) -> tuple[int, ...]:
        """Which flows a cell has a figure of; 0 is the whole run."""
        if self.metric == "jain":
            return (0,)
        return (1, 2) if self.kind == "two-flow" else (1,)

    @property
    def group(self) -> str:
        """Name of the tables that differ only in their congestion controls."""
        return f"{self.kind}-{self.qdisc.replace(' ', '-')}-{self.metric}"


# the order of the appendix
CCS = ("cubic", "reno", "reno-sce", "dctcp", "dctcp-sce")
PAIRS = tuple(combinations_with_replacement(CCS, 2))

ONE_FLOW = Grid(
    rates=(0.5, 1, 2, 5, 10, 25, 50, 100),
    delays=(0, 2, 5, 10, 20, 40, 80, 160),
    caption="Columns: netem bi-directional Delay (ms); Rows: Cake-limited Bandwidth (Mbit)",
)
TWO_FLOW = Grid(
    rates=(1, 5, 10, 50, 100),
    delays=(0, 10, 20, 80),
    caption="Columns: netem bi-dir Delay (ms); Rows: Cake Bandwidth (Mbit)",
)

SINGLE_QUEUE, SCE_SINGLE, FAIR_QUEUE = "flowblind", "flowblind sce-single", "triple-isolate"

THROUGHPUT, RTT, JAIN = "throughput_mbit", "rtt_ms", "jain"
THROUGHPUT_DIFFERENCE, RTT_DIFFERENCE = "throughput_difference", "rtt_difference_ms"
DECIMALS = {THROUGHPUT: 2, RTT: 2, JAIN: 3, THROUGHPUT_DIFFERENCE: 3, RTT_DIFFERENCE: 2}
NAMES = {THROUGHPUT: "TCP Throughput (Mbit)", RTT: "TCP RTT (ms)", JAIN: "Jain's fairness index"}

# section, metric, minuend, subtrahend
DIFFERENCES = (
    ("5.1.1. Reno-SCE TCP Throughput", THROUGHPUT_DIFFERENCE, "reno-sce", "reno"),
    ("5.1.2. Reno-SCE TCP RTT", RTT_DIFFERENCE, "reno-sce", "reno"),
    ("5.1.3. DCTCP-SCE TCP Throughput", THROUGHPUT_DIFFERENCE, "dctcp-sce", "dctcp"),
    ("5.1.4. DCTCP-SCE TCP RTT", RTT_DIFFERENCE, "dctcp-sce", "dctcp"),
)
# section, qdisc, pair
FAIRNESS = (
    ("5.2.1.1. Reno vs Reno", SINGLE_QUEUE, "reno", "reno"),
    ("5.2.1.2. Reno vs Reno-SCE", SINGLE_QUEUE, "reno", "reno-sce"),
    ("5.2.1.3. Cubic vs DCTCP-SCE", SINGLE_QUEUE, "cubic", "dctcp-sce"),
    ("5.2.2.1. Reno vs Reno-SCE", SCE_SINGLE, "reno", "reno-sce"),
    ("5.2.2.2. Cubic vs DCTCP-SCE", SCE_SINGLE, "cubic", "dctcp-sce"),
    ("5.2.3.1. Cubic vs DCTCP-SCE", FAIR_QUEUE, "cubic", "dctcp-sce"),
    ("5.2.3.2. DCTCP vs DCTCP-SCE", FAIR_QUEUE, "dctcp", "dctcp-sce"),
)
ONE_FLOW_RAW = (
    ("A.1. One-Flow TCP Throughput", THROUGHPUT),
    ("A.2. One-Flow TCP RTT", RTT),
)
TWO_FLOW_RAW = tuple(
    (f"A.{number}. Two-Flow {'TCP RTT' if metric == RTT else 'TCP Throughput'}, Cake {qdisc}", metric, qdisc)
    for number, (metric, qdisc) in enumerate(product((THROUGHPUT, RTT), (SINGLE_QUEUE, SCE_SINGLE, FAIR_QUEUE)), 3)
)

Row = tuple[str, Kind, str, str, str, str]


def _list_tables() -> Iterator[Row]:
    """Yield section, kind, qdisc, congestion controls and metric of every table."""
    for section, metric, cc1, cc2 in DIFFERENCES:
        yield section, "difference", FAIR_QUEUE, cc1, cc2, metric
    for section, qdisc, cc1, cc2 in FAIRNESS:
        yield section, "two-flow", qdisc, cc1, cc2, JAIN
    for (section, metric), cc in product(ONE_FLOW_RAW, CCS):
        yield section, "one-flow", FAIR_QUEUE, cc, "", metric
    for (section, metric, qdisc), (cc1, cc2) in product(TWO_FLOW_RAW, PAIRS):
        yield section, "two-flow", qdisc, cc1, cc2, metric


def _make_title(kind: Kind, cc1: str, cc2: str, metric: str) -> str:
    if metric == THROUGHPUT_DIFFERENCE:
        return f"Difference in TCP Throughput ({cc1} - {cc2}), normalized to Cake-limited Bandwidth"
    if metric == RTT_DIFFERENCE:
        return f"Difference in TCP RTT ({cc1} - {cc2})"
    return f"{f'{cc1} vs {cc2}' if kind == 'two-flow' else cc1} {NAMES[metric]}"


def _make_table(number: int, row: Row) -> Table:
    section, kind, qdisc, cc1, cc2, metric = row
    grid = TWO_FLOW if kind == "two-flow" else ONE_FLOW
    title = _make_title(kind, cc1, cc2, metric)
    return Table(number, section, title, kind, qdisc, cc1, cc2, metric, DECIMALS[metric], grid)


TABLES = tuple(_make_table(number, row) for number, row in enumerate(_list_tables(), 1))

# metric of a difference → what is subtracted, and whether the rate divides it
SUBTRACTED = {"throughput_difference": ("throughput_mbit", True), "rtt_difference_ms": ("rtt_ms", False)}

Key = tuple[Cell, int, str]


@dataclass(frozen=True)
class Filled:
    """A table and, for each rate and delay, a pair a flow; NaN where nothing is published or no run answers."""

    table: Table
    cells: dict[tuple[float, float], tuple[Pair, ...]]


def select_tables(only: str | None) -> list[Table]:
    """Return the tables with the numbers in `only`, such as `12,13` or `22-36`; all of them if it is None."""
    if only is None:
        return list(TABLES)
    wanted: set[int] = set()
    for part in only.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,6})(?:-([0-9]{1,6}))?\s*", part)
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not numbers or numbers[0] < 1 or numbers[-1] > len(TABLES):
            allowed = f"numbers from 1 to {len(TABLES)}, such as 12,13 or 22-36"
            raise WrongValue(quote_value(part), allowed, key="--only")
        wanted.update(numbers)
    return [table for table in TABLES if table.number in wanted]


def _make_cell(table: Table, ccs: tuple[str, str], rate: float, delay: float) -> Cell:
    """Return a cell as `read_reference` would."""
    named = ("qdisc", table.qdisc), ("cc1", ccs[0]), ("cc2", ccs[1])
    return (*named, ("rate_mbit", float(rate)), ("delay_ms", float(delay)))


def _list_keys(table: Table, rate: float, delay: float) -> list[Key]:
    """Return what has to be measured for one cell of a table."""
    if table.metric in SUBTRACTED:
        metric = SUBTRACTED[table.metric][0]
        return [(_make_cell(table, (cc, ""), rate, delay), 1, metric) for cc in (table.cc1, table.cc2)]
    cell = _make_cell(table, (table.cc1, table.cc2), rate, delay)
    return [(cell, flow, table.metric) for flow in table.flows]


def _make_pair(table: Table, rate: float, delay: float, pairs: tuple[Pair, ...]) -> Pair:
    of, from_ = pairs
    scale = rate if SUBTRACTED[table.metric][1] else 1.0
    simulated = (of.simulated - from_.simulated) / scale
    published = (of.figure.value - from_.figure.value) / scale
    cell = _make_cell(table, (f"{table.cc1} - {table.cc2}", ""), rate, delay)
    figure = Figure(cell, str(table.number), 1, table.metric, published)
    score = f"{table.metric}, |sim - pub|"
    return Pair(figure, simulated, min(of.seeds, from_.seeds), score, simulated - published)


def fill(tables: Sequence[Table], runs: pl.DataFrame, flows: pl.DataFrame, published: Iterable[Figure]) -> list[Filled]:
    """Return tables with the mean over seeds of what `runs` and `flows` hold, and the published figures."""
    known = {(figure.cell, figure.flow, figure.metric): figure.value for figure in published}
    keys = {
        key: None for t in tables for place in product(t.grid.rates, t.grid.delays) for key in _list_keys(t, *place)
    }
    wanted = {key: Figure(key[0], "", key[1], key[2], known.get(key, math.nan)) for key in keys}
    answered = {
        (pair.figure.cell, pair.figure.flow, pair.figure.metric): pair
        for pair in compare(runs, flows, wanted.values()).pairs
    }
    filled = []
    for table in tables:
        cells = {}
        for rate, delay in product(table.grid.rates, table.grid.delays):
            found = tuple(
                answered.get(key) or Pair(wanted[key], math.nan, 0, "", math.nan)
                for key in _list_keys(table, rate, delay)
            )
            cells[rate, delay] = (_make_pair(table, rate, delay, found),) if table.metric in SUBTRACTED else found
        filled.append(Filled(table, cells))
    return filled


def _format_numbers(values: list[float], decimals: int) -> str:
    """Return values of the flows of a cell, `9.56` or `4.71/4.80`; nothing if there are none."""
    return "" if any(map(math.isnan, values)) else "/".join(f"{value:z.{decimals}f}" for value in values)


def _format_pairs(pairs: tuple[Pair, ...], decimals: int) -> str:
    simulated = _format_numbers([pair.simulated for pair in pairs], decimals) or "-"
    published = _format_numbers([pair.figure.value for pair in pairs], decimals)
    return f"{simulated} ({published})" if published else simulated


def format_markdown(filled: Sequence[Filled]) -> str:
    """Return tables under the headings of their sections: simulated, and in brackets the published figure if known."""
    parts, section = [], ""
    for one in filled:
        table = one.table
        if table.section != section:
            section = table.section
            parts.append(f"## {section}")
        header = ["Mbit \\ ms", *(f"{delay:g}" for delay in table.grid.delays)]
        rows = [
            [f"{rate:g}", *(_format_pairs(one.cells[rate, delay], table.decimals) for delay in table.grid.delays)]
            for rate in table.grid.rates
        ]
        parts += [align_table(header, rows), f"Table {table.number}: {table.title}; {table.grid.caption}"]
    return "\n\n".join(parts)


def list_figures(filled: Sequence[Filled]) -> list[dict[str, Any]]:
    """Return one row per figure, with the columns of the reference; what is not known is None."""
    rows = []
    for one in filled:
        table = one.table
        for (rate, delay), pairs in one.cells.items():
            for flow, pair in zip(table.flows, pairs, strict=True):
                described = {c: getattr(table, c) for c in ("kind", "qdisc", "cc1", "cc2")}
                measured = {"simulated": pair.simulated, "published": pair.figure.value, "error": pair.error}
                rows.append(
                    {"table": table.number, **described, "rate_mbit": rate, "delay_ms": delay}
                    | {"flow": flow if flow and table.kind != "difference" else None, "metric": table.metric}
                    | {name: None if math.isnan(value) else value for name, value in measured.items()}
                    | {"seeds": pair.seeds}
                )
    return rows


class Results:
    """The draft's tables, filled with runs of results files; raises InputError if no run answers a cell.

    `only` are the numbers of tables, and `reference` is a file with other published figures.
    """

    def __init__(
        self, found: Sequence[results.StoredResults], reference: str | Path | None = None, only: str | None = None
    ) -> None:
        runs, flows = (
            pl.concat(parts, how="diagonal_relaxed").unique(keys, keep="first", maintain_order=True)
            for parts, keys in (([f.runs for f in found], ["key"]), ([f.flows for f in found], ["key", "flow"]))
        )
        published = read_reference(reference or shipped.list_references()["sce"])
        self.filled = fill(select_tables(only), runs, flows, published)
        self.notes = [note for one in found for note in one.notes]
        if not any(pair.seeds for one in self.filled for cell in one.cells.values() for pair in cell):
            files = ", ".join(str(one.path) for one in found)
            raise Nothing("no run that answers a cell", "runs of the experiments of sce", file=files)


def list_rows(found: Results) -> list[dict[str, Any]]:
    """Return one row per figure."""
    return list_figures(found.filled)


def format_tables(found: Results) -> str:
    """Return the tables as Markdown."""
    return "\n\n".join([format_markdown(found.filled), *found.notes])


def draw(found: Results, folder: str | Path, only: str | None = None, formats: Sequence[str] = (".svg",)) -> list[Path]:
    """Draw the errors of every group of tables into a file of `folder`; groups without any are left out."""
    groups: dict[str, list[Pair]] = {}
    for one in found.filled:
        pairs = [pair for cell in one.cells.values() for pair in cell if not math.isnan(pair.error)]
        groups.setdefault(one.table.group, []).extend(pairs)
    made = {group: partial(_draw_errors, pairs) for group, pairs in groups.items() if pairs}
    return figures.save_all(made, folder, only, formats)


def _draw_errors(pairs: list[Pair]) -> Picture:
    return pictures.draw_errors(*pictures.make_pairs(Comparison(pairs), pairs[0].figure.metric))
