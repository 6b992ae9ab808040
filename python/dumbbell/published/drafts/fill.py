"""A paper's tables filled with results, each figure with the published one, as Markdown, CSV rows and heat maps."""

import math
import multiprocessing
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.errors import WrongValue, quote_value
from dumbbell.processes import count_cores
from dumbbell.published import pictures as beside
from dumbbell.published.compare import Cell, Comparison, Figure, Pair, compare
from dumbbell.published.drafts.model import Table
from dumbbell.results.tables import align_table
from dumbbell.waiting import restore_ctrl_c
from dumbbell.writing import make_folder

# metric of a difference → what is subtracted, and whether the rate divides it
DIFFERENCES = {"throughput_difference": ("throughput_mbit", True), "rtt_difference_ms": ("rtt_ms", False)}

_PROCESSES = 2  # fewer have nothing to share

Key = tuple[Cell, int, str]


@dataclass(frozen=True)
class Filled:
    """A table and, for each rate and delay, a pair a flow; NaN where nothing is published or no run answers."""

    table: Table
    cells: dict[tuple[float, float], tuple[Pair, ...]]


def chosen(tables: Sequence[Table], only: str | None) -> list[Table]:
    """Return the tables with the numbers in `only`, such as `12,13` or `22-36`; all of them if it is None."""
    if only is None:
        return list(tables)
    wanted: set[int] = set()
    for part in only.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,6})(?:-([0-9]{1,6}))?\s*", part)
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not numbers or numbers[0] < tables[0].number or numbers[-1] > tables[-1].number:
            raise WrongValue(
                quote_value(part), f"numbers from 1 to {len(tables)}, such as 12,13 or 22-36", key="--only"
            )
        wanted.update(numbers)
    return [table for table in tables if table.number in wanted]


def _cell(table: Table, ccs: tuple[str, str], rate: float, delay: float) -> Cell:
    """Return a cell as `read_reference` would."""
    named = ("qdisc", table.qdisc), ("cc1", ccs[0]), ("cc2", ccs[1])
    return (*named, ("rate_mbit", float(rate)), ("delay_ms", float(delay)))


def _keys(table: Table, rate: float, delay: float) -> list[Key]:
    """Return what has to be measured for one cell of a table."""
    if table.metric in DIFFERENCES:
        metric = DIFFERENCES[table.metric][0]
        return [(_cell(table, (cc, ""), rate, delay), 1, metric) for cc in (table.cc1, table.cc2)]
    cell = _cell(table, (table.cc1, table.cc2), rate, delay)
    return [(cell, flow, table.metric) for flow in table.flows]


def _difference(table: Table, rate: float, delay: float, pairs: tuple[Pair, ...]) -> Pair:
    of, from_ = pairs
    scale = rate if DIFFERENCES[table.metric][1] else 1.0
    simulated = (of.simulated - from_.simulated) / scale
    published = (of.figure.value - from_.figure.value) / scale
    cell = _cell(table, (f"{table.cc1} - {table.cc2}", ""), rate, delay)
    figure = Figure(cell, str(table.number), 1, table.metric, published)
    score = f"{table.metric}, |sim - pub|"
    return Pair(figure, simulated, min(of.seeds, from_.seeds), score, simulated - published)


def fill(tables: Sequence[Table], runs: pl.DataFrame, flows: pl.DataFrame, published: Iterable[Figure]) -> list[Filled]:
    """Return tables with the mean over seeds of what `runs` and `flows` hold, and the published figures."""
    known = {(figure.cell, figure.flow, figure.metric): figure.value for figure in published}
    keys = {key: None for t in tables for place in product(t.grid.rates, t.grid.delays) for key in _keys(t, *place)}
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
                answered.get(key) or Pair(wanted[key], math.nan, 0, "", math.nan) for key in _keys(table, rate, delay)
            )
            cells[rate, delay] = (_difference(table, rate, delay, found),) if table.metric in DIFFERENCES else found
        filled.append(Filled(table, cells))
    return filled


def _numbers(values: list[float], decimals: int) -> str:
    """Return values of the flows of a cell, `9.56` or `4.71/4.80`; nothing if there are none."""
    return "" if any(map(math.isnan, values)) else "/".join(f"{value:z.{decimals}f}" for value in values)


def _text(pairs: tuple[Pair, ...], decimals: int) -> str:
    simulated = _numbers([pair.simulated for pair in pairs], decimals) or "-"
    published = _numbers([pair.figure.value for pair in pairs], decimals)
    return f"{simulated} ({published})" if published else simulated


def markdown(filled: Sequence[Filled]) -> str:
    """Return tables under the headings of their sections: simulated, and in brackets the published figure if known."""
    parts, section = [], ""
    for one in filled:
        table = one.table
        if table.section != section:
            section = table.section
            parts.append(f"## {section}")
        header = ["Mbit \\ ms", *(f"{delay:g}" for delay in table.grid.delays)]
        rows = [
            [f"{rate:g}", *(_text(one.cells[rate, delay], table.decimals) for delay in table.grid.delays)]
            for rate in table.grid.rates
        ]
        parts += [align_table(header, rows), f"Table {table.number}: {table.title}; {table.grid.caption}"]
    return "\n\n".join(parts)


def tidy_rows(filled: Sequence[Filled]) -> list[dict[str, Any]]:
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


def heat_maps(filled: Sequence[Filled], folder: str | Path) -> list[Path]:
    """Draw the errors of every group of tables into a file of `folder`; groups without any are left out."""
    groups: dict[str, list[Pair]] = {}
    for one in filled:
        pairs = [pair for cell in one.cells.values() for pair in cell if not math.isnan(pair.error)]
        groups.setdefault(one.table.group, []).extend(pairs)
    drawn = {Path(folder) / f"{group}.png": pairs for group, pairs in groups.items() if pairs}
    make_folder(folder)
    largest_first = sorted(drawn.items(), key=lambda one: -len(one[1]))
    if (processes := min(count_cores(), len(drawn))) < _PROCESSES:
        for path, pairs in largest_first:
            _draw(path, pairs)
    else:  # matplotlib holds Python's lock; processes are not forked from one with threads
        restore_ctrl_c()
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
            list(pool.map(_draw, *zip(*largest_first, strict=True)))
    return list(drawn)


def _draw(path: Path, pairs: list[Pair]) -> None:
    from dumbbell import (
        figures,
    )  # whoever only prints tables, and who leaves drawing to others, does without matplotlib

    figures.save(beside.errors(*beside.pairs(Comparison(pairs), pairs[0].figure.metric)), path)
