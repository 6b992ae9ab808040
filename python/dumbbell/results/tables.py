"""Tables of results: any key by any other, means over seeds with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from html import escape
from typing import Any

import polars as pl

from dumbbell.errors import UnknownName
from dumbbell.results import censored, latex
from dumbbell.results.aggregate import FEW, Axis, Means, average_samples, collect_samples, format_counts
from dumbbell.results.columns import BINS, COLUMNS, PARTS
from dumbbell.results.results import StoredResults
from dumbbell.words import capitalise

MOST_COLUMNS = 16  # that a table takes from a key which nobody chose
_MOST_DIGITS = 6  # significant, of a mean that is rounded to its interval
EQUAL = " (equal)"  # instead of an interval of zero
NARROW = "± <"  # before the width of a bin that is wider than the interval
# of a time that some runs were over before
_LATE = "not reached: the run was over before. A median counts such runs as later (Kaplan and Meier); no mean does"
_NARROW_MEANS = (
    f"{NARROW}w: the interval is narrower than the bin of the histogram from which the value is read; w is the width "
    "of the bin"
)


def format_number(value: float | None) -> str:
    """Return a number with four significant digits, `-` for none."""
    if value is None or value != value:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def align_table(header: list[str], rows: list[list[str]], *, words: tuple[int, ...] = (0,)) -> str:
    """Return a Markdown table whose columns line up: those numbered in `words` to the left, the others to the right."""
    widths = [max(3, *(len(row[i]) for row in [header, *rows])) for i in range(len(header))]

    def format_line(cells: list[str]) -> str:
        padded = zip(range(len(cells)), cells, widths, strict=True)
        return "| " + " | ".join(cell.ljust(w) if i in words else cell.rjust(w) for i, cell, w in padded) + " |"

    rule = format_line(["-" * w if i in words else "-" * (w - 1) + ":" for i, w in enumerate(widths)])
    return "\n".join([format_line(header), rule, *(format_line(row) for row in rows)])


@dataclass
class Table:
    """Means of a measure: `frame` has a row for each combination of keys, with mean, interval and n.

    Keys that are numbers have a column of them next to that of their texts; its name ends in the unit, as in
    `Results.tidy`: `bottleneck.rate_mbit`. Numbers without a unit stand alone. `n` is how many different runs a mean is
    of, `runs` how many there are, `none` how many of these have no value. `resolution` is the width of the histogram's
    bin at the mean, null where values are exact. `plain` is what `to_csv` writes: the rows that are shown, with the
    texts of those keys alone that are no numbers.
    """

    title: str
    frame: pl.DataFrame
    plain: pl.DataFrame
    header: list[str]
    words: int
    cells: list[list[str]]
    notes: list[str]
    lines: list[str] = field(default_factory=list)
    """Those of `notes` without which the table cannot be read right."""

    def to_markdown(self) -> str:
        """Return an aligned Markdown table, what it shows above it and what to know of it below."""
        body = align_table(self.header, self.cells, words=tuple(range(self.words)))
        return "\n\n".join([self.title, body, *self.notes])

    def to_csv(self) -> str:
        """Return what the table shows as CSV: one mean per row, every key a column."""
        return self.plain.write_csv()

    def to_latex(self, caption: str | None = None) -> str:
        """Return what the table shows as a LaTeX `tabular`, for which a document has to load booktabs.

        With `caption` it is in a `table`, below that text and the title, which has the measure and its unit.
        """
        notes = [note for note in self.notes if note not in self.lines]
        made = latex.format_tabular(self.title, self.header, self.cells, self.words, notes, self.lines)
        if caption is None:
            return made
        text = " ".join(filter(None, [caption, f"{capitalise(self.title)}."]))
        head = [r"\begin{table}", r"\centering", rf"\caption{{{latex.escape(text)}}}"]
        return "\n".join([*head, made, r"\end{table}"])

    __str__ = to_markdown

    def __repr__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        def format_row(cells: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(format_row(cells, "td") for cells in self.cells)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p>{escape(self.title)}</p><table>{format_row(self.header, 'th')}{body}</table>{notes}"


def make_table(
    results: StoredResults,
    value: str | None = None,
    rows: str | Sequence[str] | None = None,
    columns: str | None = None,
    *,
    of: str | None = None,
    mean_over: Sequence[str] = (),
    spread: bool = True,
    limit: int | None = None,
) -> Table:
    """Return means of `value` over seeds, as a table with the values of the keys `rows` down and of `columns` across.

    By default it is what `Results.default_measures` says. Of more rows than `limit` the first are in text and CSV,
    all in the frame.

    Every other key by which the runs differ is a row as well, unless it is in `mean_over`. `of` names the table of the
    store, where several have the measure. With `spread` each mean has half of its 95 % interval. Raises InputError.
    """
    names = [rows] if isinstance(rows, str) else list(rows or ())
    options = dict.fromkeys(names, "--rows") | ({columns: "--columns"} if columns else {})
    wanted = [*names, *([columns] if columns else [])]
    value = value or results.choose_measures(of)[0]
    each = collect_samples(results, value, wanted, of=of, mean_over=mean_over, options=options)
    found = censored.drop_partial(average_samples(each))
    late: dict[tuple[str, ...], str] = {}
    if censored.is_censored(found.measure):
        late = censored.format_censored(
            each, censored.add_limits(results, each, wanted, mean_over=mean_over, options=options)
        )
    across = found.find_axis(columns) if columns else _choose_columns(found, names)
    down = [axis for axis in found.axes if axis is not across and (axis.name in names or len(axis.texts) > 1)]
    if not down and not names and across is None and found.axes:
        down = [found.axes[0]]
    column = COLUMNS[found.measure.table][found.measure.column]
    heads = across.texts if across else [found.measure.label]
    by_row: dict[tuple[str, ...], dict[str, str]] = {}
    places = []
    several = found.frame.filter(pl.col("n") > 0)["n"].n_unique() > 1
    bins = [column.find_resolution(mean) for mean in found.frame["mean"]]
    found.frame.insert_column(found.frame.columns.index("high") + 1, pl.Series("resolution", bins, dtype=pl.Float64))
    for row in found.frame.iter_rows(named=True):
        places.append(tuple(row[axis.name] for axis in down))
        own = tuple(row[axis.name] for axis in found.axes) or ("all runs",)
        text = late.get(own) or format_cell(row, spread=spread, says_n=several)
        by_row.setdefault(places[-1], {})[row[across.name] if across else heads[0]] = text
    shown = list(by_row)[:limit]
    called = [_name_flows(results, axis) for axis in down]
    said = [[of.get(text, text) for of, text in zip(called, place, strict=True)] for place in shown]
    cells = [
        [*words, *(by_row[place].get(head, "-") for head in heads)] for words, place in zip(said, shown, strict=True)
    ]
    if across:
        of_heads = _name_flows(results, across)
        heads = [of_heads.get(head, head) for head in heads]
    header = [axis.name for axis in down]
    if not down:  # nothing tells runs apart
        header, cells = ["experiment"], [[_format_experiments(results), *row] for row in cells]
    if across:
        header = [*header[:-1], f"{header[-1]} \\ {across.name}"]
    notes = [*found.lines, *found.notes]
    if late:
        notes.append(_LATE)
    elif (found.frame["none"] > 0).any():
        what = found.measure.label.partition(",")[0]
        notes.insert(0, f"(k of n): {what} has a value in k of n runs; means are of these")
    if len(shown) < len(by_row):
        notes.insert(0, f"{len(shown)} of {len(by_row)} rows; without --limit all")
    if any(NARROW in text for row in cells for text in row):
        least = f"{column.least_bin:g} {column.unit}".strip()
        notes.append(f"{_NARROW_MEANS}, {100 / BINS:.1f} % of the value or less, but at least {least}")
    frame, labels = _add_numbers(found)
    plain = frame.filter(pl.Series([place in set(shown) for place in places], dtype=pl.Boolean)).drop(labels)
    plain = plain if spread else plain.drop("half", "low", "high")
    return Table(
        _make_title(found, spread=spread), frame, plain, [*header, *heads], len(header), cells, notes, found.lines
    )


def _format_experiments(results: StoredResults) -> str:
    names = results.cells["experiment"].unique(maintain_order=True).to_list()
    return ", ".join(names) if len(names) < 4 else f"{len(names)} experiments"


def _name_flows(results: StoredResults, axis: Axis) -> dict[str, str]:
    """Return the names of flows by the texts of their numbers: `0 cubic`, where a number is alike in all runs."""
    if axis.name != "flow" or axis.numbers is None:
        return {}
    called = pl.coalesce("part", "cc").str.replace(r" #\d+$", "").alias("called")
    flows = results.parts("flows", []).select("flow", called).unique(maintain_order=True)
    alike = flows.group_by("flow").agg(pl.col("called").first(), n=pl.len()).filter(pl.col("n") == 1)
    return {str(flow): f"{flow} {name}" for flow, name in alike.select("flow", "called").iter_rows() if name}


def _add_numbers(found: Means) -> tuple[pl.DataFrame, list[str]]:
    """Return the means with the numbers of every key that has some, and the columns of texts next to them.

    An axis that joins several keys has columns for each of them, and so have keys that differ with the axes.
    """
    columns: dict[str, pl.Expr] = {}
    labels: list[str] = []

    def take(axis: Axis, texts: pl.Expr) -> None:
        columns[axis.name] = texts
        if axis.joins:
            labels.append(axis.name)
            for key, own in axis.joins:
                take(key, texts.replace_strict(own, default=None, return_dtype=pl.String))
        elif axis.numbers is not None:
            end = f"_{axis.unit}" if axis.unit else ""
            name = axis.name if axis.name.endswith(end) else axis.name + end
            whole = axis.unit in ("", "bytes") and all(value == int(value) for value in axis.numbers.values())
            kind = pl.Int64 if whole else pl.Float64
            columns[name] = texts.replace_strict(axis.numbers, default=None, return_dtype=pl.Float64).cast(kind)
            labels.extend([axis.name] if name != axis.name else [])

    for axis in found.axes:
        take(axis, pl.col(axis.name))
    for one in found.also:
        places = found.frame.select(one.by).rows() if one.by else [()] * found.frame.height
        texts = [one.texts.get(place) for place in places]
        take(one.key, pl.lit(pl.Series(one.key.name, texts, dtype=pl.String)))
    rest = [name for name in found.frame.columns if name not in columns and (found.axes or name != "all runs")]
    exprs = [expr.alias(name) for name, expr in columns.items()]
    return found.frame.select(*exprs, pl.lit(found.measure.column).alias("measure"), *rest), labels


def join_csv(tables: Sequence[Table]) -> str:
    """Return what several tables show as one CSV, in which column `measure` distinguishes them."""
    whole = pl.concat([one.plain for one in tables], how="diagonal_relaxed")
    place = tables[0].plain.columns.index("measure")
    last = tables[0].plain.columns[place:]
    return whole.select(pl.exclude(last), *last).write_csv()


def _choose_columns(found: Means, names: list[str]) -> Axis | None:
    """Return the key that goes across when nobody has said: the last that nobody wants down, if it has few values."""
    free = [axis for axis in found.several if axis.name not in names]
    if not free or (len(found.several) < 2 and not names):
        return None
    return free[-1] if len(free[-1].texts) <= MOST_COLUMNS else None


def format_cell(row: dict[str, Any], *, spread: bool, says_n: bool = False) -> str:
    """Return a mean with its interval, and of how many runs it is if not all have a value or, if `says_n`, anyway."""
    width = row.get("resolution")
    if row["mean"] is None or not spread:
        text = format_number(row["mean"])
    elif row["n"] == FEW:
        text = format_number(row["mean"]) + format_range(row["low"], row["high"], width)
    else:
        text = format_mean(row["mean"], row["half"], width)
    if row["none"]:
        return f"{text} ({row['runs'] - row['none']} of {row['runs']})"
    return f"{text}, n = {row['n']}" if says_n and row["n"] else text


def format_mean(mean: float | None, half: float | None, width: float | None = None) -> str:
    """Return a mean to the last digit of its interval, and half of that as `format_half` has it."""
    text = format_half(half, width)
    if mean is None or mean != mean or half is None or text in ("", EQUAL):
        return format_number(mean) + text
    shown = text.removeprefix(f" {NARROW}").removeprefix(" ± ")
    last = -int(Decimal(shown).as_tuple().exponent)  # the place of the last digit that the interval shows
    rounded = round(mean, last)
    digits = last + 1 + (math.floor(math.log10(abs(rounded))) if rounded else -last)
    if digits > _MOST_DIGITS:
        return format_number(mean) + text
    if rounded == 0:
        return f"0{text}"
    if abs(rounded) >= 1e-4:
        return f"{rounded:.{last}f}" + text
    return f"{rounded:.{max(digits, 1)}g}" + text


def format_range(low: float, high: float, width: float | None = None) -> str:
    """Return the least and the greatest of two values with a space ahead, ` (2.1 to 2.4)`."""
    if low == high:
        return EQUAL if width is None else f" {NARROW}{_format_two_digits(width)}"
    return f" ({format_number(low)} to {format_number(high)})"


def format_half(half: float | None, width: float | None = None) -> str:
    """Return half of an interval with a space ahead, such as ` ± 0.53`; nothing for none.

    One that is narrower than the histogram's bin, whose `width` is None where values are exact, is ` ± <` and that. Of
    exact values that are all equal it is ` (equal)`: no interval is zero.
    """
    if half is None or half != half:
        return ""
    if half == 0 and width is None:
        return EQUAL
    return (
        f" {NARROW}{_format_two_digits(width)}"
        if width is not None and half < width
        else f" ± {_format_two_digits(half)}"
    )


def explain_bins(texts: Iterable[str]) -> list[str]:
    """Return what `± <w` means, if one of `texts` has it."""
    return [f"{_NARROW_MEANS}."] if any(NARROW in text for text in texts) else []


def _format_two_digits(value: float) -> str:
    """Return a number with two significant digits, all of them if it is 99.5 or more."""
    return f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.2g}"


def _make_title(found: Means, *, spread: bool) -> str:
    """Return what a table shows: of what, over what, how often, and what stands for chance."""
    of = found.measure.of
    text = f"{found.measure.label}, of each {of}" + " and seed" * any(axis.name == "seed" for axis in found.axes)
    if found.over:
        text += f"; mean over {', '.join(found.over)}"
    return "; ".join([text, *([said] if (said := describe_counts(found, spread=spread)) else [])])


def describe_counts(found: Means, *, spread: bool = True) -> str:
    """Return of how many seeds means are, and what is shown of their chance: from the runs themselves."""
    counts = found.frame.filter(pl.col("n") > 0)["n"]
    most = max(counts.to_list(), default=0)
    if most == 0:
        return ""
    if most == 1:
        if found.frame["runs"].max() == 1:
            return "one run each"
        return "one seed" if found.over else "all seeds gave the same run"
    if not spread:
        return f"mean over seeds, n = {format_counts(counts)}"
    if most == FEW:
        return "mean (least to greatest) of 2 seeds" + "; n = 1 to 2" * (counts.min() == 1)
    of_two = " (of 2: least to greatest)" * bool((counts == FEW).any())
    return f"mean ± half of the 95 % interval{of_two} over seeds, n = {format_counts(counts)}"


def tidy(results: StoredResults, values: Sequence[str], of: str | None = None) -> pl.DataFrame:
    """Return one value per row: every key by which runs differ, seed, flow or class, measure and value."""
    if of is not None and of not in PARTS:
        raise UnknownName(of, among=PARTS, option="--of", what="part")
    found = []
    for measure in (results.measure(value, of) for value in values):
        rows = results.tidy(measure.table)  # type: ignore[arg-type]
        parts = [c for c in PARTS.get(measure.table, ("", ()))[1] if c in rows.columns]
        last = rows.columns.index("seed")
        kept = list(dict.fromkeys([*rows.columns[: last + 1], *parts]))
        if len(results.engines) > 1:
            rows = rows.with_columns(pl.col("engine_version").replace_strict(results.name_engines()))
            kept.insert(0, "engine_version")
        value_column = pl.col(measure.column).cast(pl.Float64).alias("value")
        found.append(rows.select(*kept, pl.lit(measure.column).alias("measure"), value_column))
    whole = pl.concat(found, how="diagonal_relaxed")
    return whole.select(*(c for c in whole.columns if c not in ("measure", "value")), "measure", "value")
