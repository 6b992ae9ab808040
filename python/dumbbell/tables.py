"""Tables of results: any key by any other, means over seeds with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import polars as pl

from dumbbell.aggregate import Axis, Means, means, times
from dumbbell.columns import axis_label
from dumbbell.errors import InputError
from dumbbell.results import PARTS, Results

MOST_COLUMNS = 16  # that a table takes from a key which nobody chose


def number(value: float | None) -> str:
    """Return a number with four significant digits, `-` for none."""
    if value is None or value != value:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def aligned(header: list[str], rows: list[list[str]], *, words: tuple[int, ...] = (0,)) -> str:
    """Return a Markdown table whose columns line up: those numbered in `words` to the left, the others to the right."""
    widths = [max(3, *(len(row[i]) for row in [header, *rows])) for i in range(len(header))]

    def line(cells: list[str]) -> str:
        padded = zip(range(len(cells)), cells, widths, strict=True)
        return "| " + " | ".join(cell.ljust(w) if i in words else cell.rjust(w) for i, cell, w in padded) + " |"

    rule = line(["-" * w if i in words else "-" * (w - 1) + ":" for i, w in enumerate(widths)])
    return "\n".join([line(header), rule, *(line(row) for row in rows)])


@dataclass
class Table:
    """Means of a measure: `frame` has a row for each combination of keys, with mean, interval and n."""

    title: str
    frame: pl.DataFrame
    header: list[str]
    words: int
    cells: list[list[str]]
    notes: list[str]

    def markdown(self) -> str:
        """Return an aligned Markdown table, what it shows above it and what to know of it below."""
        body = aligned(self.header, self.cells, words=tuple(range(self.words)))
        return "\n\n".join([self.title, body, *self.notes])

    __str__ = markdown

    def __repr__(self) -> str:
        return self.markdown()

    def _repr_html_(self) -> str:
        def row(cells: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(row(cells, "td") for cells in self.cells)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p>{escape(self.title)}</p><table>{row(self.header, 'th')}{body}</table>{notes}"


def table(
    results: Results,
    value: str = "goodput",
    rows: str | Sequence[str] | None = None,
    columns: str | None = None,
    *,
    of: str | None = None,
    mean_over: Sequence[str] = (),
    spread: bool = True,
) -> Table:
    """Return means of `value` over seeds, as a table with the values of the keys `rows` down and of `columns` across.

    Every other key by which the runs differ is a row as well, unless it is in `mean_over`. `of` names the table of the
    store, where several have the measure. With `spread` each mean has half of its 95 % interval. Raises InputError.
    """
    names = [rows] if isinstance(rows, str) else list(rows or ())
    wanted = [*names, *([columns] if columns else [])]
    found = means(results, value, wanted, of=of, mean_over=mean_over, option="--rows")
    across = found.axis(columns) if columns else _chosen(found, names)
    down = [axis for axis in found.axes if axis is not across and (axis.name in names or len(axis.texts) > 1)]
    if not down and not names and across is None and found.axes:
        down = [found.axes[0]]
    heads = across.texts if across else [axis_label(found.measure.column, found.measure.table)]
    by_row: dict[tuple[str, ...], dict[str, str]] = {}
    for row in found.frame.iter_rows(named=True):
        place = tuple(row[axis.name] for axis in down)
        by_row.setdefault(place, {})[row[across.name] if across else heads[0]] = cell_text(row, spread=spread)
    cells = [[*place, *(texts.get(head, "-") for head in heads)] for place, texts in by_row.items()]
    header = [axis.name for axis in down]
    if across:
        header = [*header[:-1], f"{header[-1]} \\ {across.name}"] if header else [f"\\ {across.name}"]
        cells = cells if down else [["", *row] for row in cells]
    header = header or [""]
    cells = cells if len(cells) == 0 or len(cells[0]) == len(header) + len(heads) else [["", *row] for row in cells]
    return Table(_title(found, spread=spread), found.frame, [*header, *heads], len(header), cells, found.notes)


def _chosen(found: Means, names: list[str]) -> Axis | None:
    """Return the key that goes across when nobody has said: the last that nobody wants down, if it has few values."""
    free = [axis for axis in found.several if axis.name not in names]
    if not free or (len(found.several) < 2 and not names):
        return None
    return free[-1] if len(free[-1].texts) <= MOST_COLUMNS else None


def cell_text(row: dict[str, Any], *, spread: bool) -> str:
    """Return a mean, half of its interval, and of how many runs it is if not all have a value."""
    text = number(row["mean"])
    if spread and row["half"] is not None:
        text += f" ± {row['half']:.2g}" if abs(row["half"]) < 100 else f" ± {row['half']:.0f}"
    return text + (f" ({row['runs'] - row['none']} of {row['runs']})" if row["none"] else "")


def _title(found: Means, *, spread: bool) -> str:
    """Return what a table shows: of what, over what, how often."""
    of = found.measure.of
    text = f"{axis_label(found.measure.column, found.measure.table)}, of each {of}" + " and seed" * any(
        axis.name == "seed" for axis in found.axes
    )
    if found.over:
        text += f"; mean over {', '.join(found.over)}"
    if max(found.frame["n"].to_list(), default=0) > 1:
        text += f"; mean{' ± half of the 95 % interval' if spread else ''} over seeds, n = {times(found.frame['n'])}"
    return text


def tidy(results: Results, values: Sequence[str], of: str | None = None) -> pl.DataFrame:
    """Return one value a row: every key by which runs differ, seed, flow or class, measure and value."""
    if of is not None and of not in PARTS:
        raise InputError("--of", "", of, ", ".join(PARTS))
    found = []
    for measure in (results.measure(value, of) for value in values):
        rows = results.tidy(measure.table)  # type: ignore[arg-type]
        parts = [c for c in PARTS.get(measure.table, ("", ()))[1] if c in rows.columns]
        last = rows.columns.index("seed")
        kept = list(dict.fromkeys([*rows.columns[: last + 1], *parts]))
        value_column = pl.col(measure.column).cast(pl.Float64).alias("value")
        found.append(rows.select(*kept, pl.lit(measure.column).alias("measure"), value_column))
    whole = pl.concat(found, how="diagonal_relaxed")
    return whole.select(*(c for c in whole.columns if c not in ("measure", "value")), "measure", "value")
