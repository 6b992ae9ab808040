"""Means over seeds with their intervals. What is unlike is never averaged unless it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from scipy.special import stdtrit

from dumbbell import dimensions as dims
from dumbbell.dimensions import Dimension
from dumbbell.errors import InputError, nearest
from dumbbell.results import PARTS, Measure, Results

LEVEL = 0.95
REMEDY = 'nothing in them is random; a start such as { uniform = ["0s", "1s"] } or jitter draws'


def half_width(deviation: pl.Expr, n: pl.Expr, level: float = LEVEL) -> pl.Expr:
    """Return half of the interval in which the mean lies with probability `level`: t · s / √n (Student 1908).

    Null for less than two values.
    """
    share = 0.5 + level / 2
    t = (n - 1).map_batches(lambda freedom: pl.Series(stdtrit(freedom.to_numpy(), share)), return_dtype=pl.Float64)
    return pl.when(n > 1).then(t * deviation / n.cast(pl.Float64).sqrt())


@dataclass(frozen=True)
class Axis:
    """One key of the cells of a table: name, its texts in order, and the name of its column of numbers, if it has one."""

    name: str
    texts: list[str]
    numbers: dict[str, float] | None = None
    unit: str = ""

    def said(self, text: str) -> str:
        """Return a value with the last word of its key; names say by themselves what they are."""
        word = self.name.rpartition(".")[2]
        if word in ("cc", "aqm", "flow", "which", "experiment", "title", "engine_version", "kind"):
            return text
        return f"{word.replace('_', ' ')} {text}"


@dataclass
class Means:
    """Means of one measure: `frame` has a column of text for each of `axes` and `mean`, `half`, `low`, `high`, `n`.

    `n` is how many different runs a mean is of, `runs` how many there are, `none` how many of them have no value.
    """

    measure: Measure
    axes: list[Axis]
    frame: pl.DataFrame
    over: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def axis(self, name: str) -> Axis:
        """Return one of the axes."""
        return next(axis for axis in self.axes if axis.name == name)

    @property
    def several(self) -> list[Axis]:
        """The axes with more than one value."""
        return [axis for axis in self.axes if len(axis.texts) > 1]


def _part_axis(results: Results, measure: Measure, name: str) -> str | None:
    """Return the column of parts of runs that `name` means."""
    column = "base_rtt_ms" if name == "base_rtt" else name
    if name == "which":
        return "part"
    return column if measure.table in PARTS and column in PARTS[measure.table][1] else None


def means(
    results: Results,
    value: str,
    keys: Sequence[str] = (),
    *,
    of: str | None = None,
    mean_over: Sequence[str] = (),
    option: str = "key",
) -> Means:
    """Return the means of a measure over seeds, one for each combination of what the runs differ in.

    `keys` come first among the axes, in their order; after them come all other keys by which the runs differ, unless
    they follow from `keys` or are in `mean_over`. Flows that are alike count as one value a run. Raises InputError.
    """
    of_parts = [c for name in keys if (c := {"base_rtt": "base_rtt_ms"}.get(name, name)) in ("flow", "class", "from_bytes", "kind")]
    wants = [name for name in keys if name in ("cc", "base_rtt") and not _of_runs(results, name)]
    by_part = [*of_parts, *({"base_rtt": "base_rtt_ms"}.get(name, name) for name in wants)]
    measure = results.measure(value, of, by_part=by_part)
    rows = results.parts(measure.table, [measure.column])
    cells = rows["cell"].unique(maintain_order=True).to_list()
    axes: list[tuple[Axis, str]] = []  # and the column of `rows` that holds it
    given: list[Dimension] = []
    for name in keys:
        axis, column, dimension, rows = _axis(results, measure, name, rows, option)
        axes.append((axis, column))
        if dimension is not None:
            given.append(dimension.only(cells))
    over = [_over(results, measure, name) for name in mean_over]
    rest = [one.only(cells) for one in results.dimensions if one.name not in over]
    for dimension in dims.undetermined(rest, given, cells):
        axis, column, _, rows = _axis(results, measure, dimension.name, rows, option)
        axes.append((axis, column))
    if measure.table in PARTS:
        axes, rows = _part_axes(measure, axes, rows, over)
    columns = list(dict.fromkeys(column for _, column in axes))
    identical = results.identical
    each = rows.group_by(*columns, "seed", "key", "hash", maintain_order=True).agg(
        pl.col(measure.column).cast(pl.Float64).mean().alias("value")
    )
    if over:  # a value for each seed, so that the interval is over seeds
        each = each.group_by(*columns, "seed", maintain_order=True).agg(pl.col("value").mean(), hash=pl.col("hash").implode().list.join(""))
    grouped = each.group_by(columns, maintain_order=True) if columns else each.with_columns(all=pl.lit(0)).group_by("all")
    frame = grouped.agg(
        mean=pl.col("value").mean(),
        deviation=pl.col("value").std(),
        values=pl.col("value").count(),
        runs=pl.len(),
        unlike=pl.col("hash").n_unique(),
    ).with_columns(
        n=pl.when(pl.col("unlike") > 1).then("values").otherwise(pl.min_horizontal("values", 1)),
        none=pl.col("runs") - pl.col("values"),
    )
    frame = frame.with_columns(half=half_width(pl.col("deviation"), pl.col("n")))
    frame = frame.with_columns(low=pl.col("mean") - pl.col("half"), high=pl.col("mean") + pl.col("half"))
    frame = frame.rename({column: axis.name for axis, column in axes if column in frame.columns and column != axis.name})
    notes = list(results.notes)
    if identical[0]:
        notes.append(f"in {identical[0]} of {identical[1]} cells all seeds made the same run: {REMEDY}")
    wanted = [axis.name for axis, _ in axes]
    return Means(measure, [axis for axis, _ in axes], frame.select(*wanted, "mean", "half", "low", "high", "n", "runs", "none"), over, notes)


def _of_runs(results: Results, name: str) -> bool:
    """Whether a key that flows have is the same for all flows of each run."""
    try:
        dimension = results.key(name)
    except InputError:
        return False
    return not any(" / " in text for text in dimension.texts.values())


def _over(results: Results, measure: Measure, name: str) -> str:
    """Return the name of a key to take means over; InputError if runs do not differ in it."""
    known = [one.name for one in results.dimensions]
    if name in known or (measure.table in PARTS and name in ("which", *PARTS[measure.table][1])):
        return name
    ends = [one for one in known if one.rpartition(".")[2] == name]
    if len(ends) == 1:
        return ends[0]
    if name == "flow" and measure.table in PARTS:
        return "which"
    raise InputError(str(results.path), "--mean-over", name, ", ".join([*known, "flow"]), nearest(name, known))


def _axis(
    results: Results, measure: Measure, name: str, rows: pl.DataFrame, option: str
) -> tuple[Axis, str, Dimension | None, pl.DataFrame]:
    """Return a key as an axis, the column of `rows` that has its texts, and `rows` with that column."""
    part = _part_axis(results, measure, name)
    if part is not None and (name not in ("cc", "base_rtt") or not _of_runs(results, name) or part == "part"):
        values = rows[part].unique().sort().to_list() if part != "part" else rows[part].unique(maintain_order=True).to_list()
        texts = [_part_text(name, value) for value in values]
        numeric = all(isinstance(value, int | float) for value in values)
        column = f"axis {name}"
        rows = rows.with_columns(pl.Series(column, [_part_text(name, value) for value in rows[part].to_list()], dtype=pl.String))
        numbers = dict(zip(texts, values, strict=True)) if numeric else None
        return Axis(name, list(dict.fromkeys(texts)), numbers, "ms" if part == "base_rtt_ms" else ""), column, None, rows
    if name == "seed":
        seeds = sorted(rows["seed"].unique().to_list())
        rows = rows.with_columns(pl.col("seed").cast(pl.String).alias("axis seed"))
        return Axis(name, [str(seed) for seed in seeds], {str(s): s for s in seeds}), "axis seed", None, rows
    dimension = results.key(name, option)
    cells = set(rows["cell"].unique().to_list())
    dimension = dimension.only(cells)
    if measure.table not in PARTS and name in ("cc", "base_rtt", "flow") and any(" / " in t for t in dimension.texts.values()):
        own = [key for key in results.matrix_keys if key.endswith(f".{name}")]
        allowed = ", ".join(own) or "a key of runs"
        raise InputError(option, "", f"{name}, in which the flows of a run differ, while {measure.column} is of the whole run", allowed)
    column = f"axis {dimension.name}"
    rows = rows.with_columns(pl.col("cell").replace_strict(dimension.texts, return_dtype=pl.String).alias(column))
    numbers = {text: float(dimension.values[cell]) for cell, text in dimension.texts.items()} if dimension.is_numeric else None
    scale = dims.scale_of(dimension.path) if dimension.path and dimension.is_numeric else None
    return Axis(name, dimension.ordered, numbers, scale.unit if scale else ""), column, dimension, rows


def _part_text(name: str, value: Any) -> str:
    if name == "base_rtt":
        return f"{value:g}ms"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _part_axes(
    measure: Measure, axes: list[tuple[Axis, str]], rows: pl.DataFrame, over: list[str]
) -> tuple[list[tuple[Axis, str]], pl.DataFrame]:
    """Return the axes with those that tell the parts of a run apart, where the keys do not do so already."""
    own = [c for c in ("from_bytes",) if c in rows.columns]
    for column, name in (*((c, c) for c in own), ("part", "flow" if measure.table == "flows" else "class")):
        if column in over or name in over or any(c in (f"axis {name}", f"axis {column}") for _, c in axes):
            continue
        placed = [c for _, c in axes]
        before = rows.select("cell", *placed).unique().height
        if rows.select("cell", *placed, column).unique().height == before and column == "part":
            continue  # keys such as cc tell the parts apart
        values = rows[column].unique(maintain_order=True).to_list()
        if column != "part":
            values = sorted(values)
        if len(values) > 1:
            text = f"axis {name}"
            rows = rows.with_columns(pl.col(column).cast(pl.String).alias(text))
            numbers = {str(v): float(v) for v in values} if column != "part" else None
            axes = [*axes, (Axis(name, [str(v) for v in values], numbers, "bytes" if numbers else ""), text)]
    return axes, rows
