"""Means over seeds with their intervals. What is unlike is never averaged unless it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from dumbbell.errors import Conflict, Nothing, Unfit, UnknownName, flag, nearest
from dumbbell.results import dimensions as dims
from dumbbell.results import parts, selecting
from dumbbell.results.dimensions import NOTHING, Dimension
from dumbbell.results.results import OF_TRAFFIC, Measure, Results
from dumbbell.results.student import quantile

LEVEL = 0.95


def students(freedom: pl.Expr, level: float = LEVEL) -> pl.Expr:
    """Return t with which a mean lies within t standard errors with probability `level` (Student 1908)."""
    return freedom.map_elements(lambda n: quantile(n, level), return_dtype=pl.Float64)


def half_width(deviation: pl.Expr, n: pl.Expr, level: float = LEVEL) -> pl.Expr:
    """Return half of the interval in which the mean lies with probability `level`: t · s / √n.

    Null for less than two values.
    """
    return pl.when(n > 1).then(students(pl.when(n > 1).then(n - 1), level) * deviation / n.cast(pl.Float64).sqrt())


_WORDS = {
    "base_rtt": "base RTT",
    "cc": "congestion control",
    "aqm": "queue discipline",
    "ecn": "ECN",
    "from_bytes": "size from",
}


@dataclass(frozen=True)
class Axis:
    """One key of a table: its name, its texts in order and, if it has any, their numbers and unit."""

    name: str
    texts: list[str]
    numbers: dict[str, float] | None = None
    unit: str = ""

    @property
    def word(self) -> str:
        """The last word of the key, spelt out: `base RTT`."""
        last = self.name.rpartition(".")[2]
        return _WORDS.get(last, last.replace("_", " "))

    @property
    def label(self) -> str:
        """The last word of the key and the unit of its numbers: `base RTT, ms`."""
        unit = {"mbit": "Mbit/s"}.get(self.unit, self.unit) if self.numbers is not None else ""
        return f"{self.word}, {unit}" if unit else self.word

    @property
    def label_of_texts(self) -> str:
        """What to write at an axis with the texts, which have their units themselves: `base RTT` of `20ms`."""
        return self.label if all(text.replace(".", "", 1).isdigit() for text in self.texts) else self.word


SEED = "seed of the run"
# keys of parts of runs → the column of `Results.parts` that has them
_OF_PARTS = {"flow": "flow", "class": "class", "kind": "kind", "cc": "cc_text", "base_rtt": "base_rtt_ms"}
_OF_PARTS |= {
    "direction": "direction",
    "which": "part",
    "base_rtt_ms": "base_rtt_ms",
    "from_bytes": "from_bytes",
    "hop": "hop",
}
# what distinguishes parts of runs and no runs
ONLY_PARTS = ("flow", "class", "from_bytes", "kind", "direction", "hop")


def _column(name: str) -> str:
    """Return the name of the column of rows that has the texts of an axis."""
    return f"axis {name}"


def _part_column(measure: Measure, name: str) -> str | None:
    """Return the column of parts of runs that `name` means."""
    column = _OF_PARTS.get(name)
    if column in ("from_bytes", "hop"):
        return column if measure.table == {"from_bytes": "slowdowns", "hop": "hops"}[column] else None
    if column is None:
        return None
    if measure.table in parts.OF_FLOWS:
        return column
    return column if measure.table in parts.OF_CLASSES and column != "flow" else None


@dataclass
class Samples:
    """Values of one measure: `frame` has a text column for each of `axes`, `seed`, `hash` and `value`; a row per run.

    Flows that are alike count as one value per run; with `over`, a row is the mean over those keys for one seed.
    """

    measure: Measure
    axes: list[Axis]
    frame: pl.DataFrame
    over: list[str]
    notes: list[str]

    @property
    def several(self) -> list[Axis]:
        """The axes with more than one value."""
        return [axis for axis in self.axes if len(axis.texts) > 1]


@dataclass
class Means(Samples):
    """Means of one measure: `frame` has a column of text for each of `axes` and `mean`, `half`, `low`, `high`, `n`.

    `n` is how many different runs a mean is of, `runs` how many there are, `none` how many of them have no value.
    """

    def axis(self, name: str) -> Axis:
        """Return one of the axes."""
        return next(axis for axis in self.axes if axis.name == name)


def samples(
    results: Results,
    value: str,
    keys: Sequence[str] = (),
    *,
    of: str | None = None,
    mean_over: Sequence[str] = (),
    options: Mapping[str, str] = MappingProxyType({}),
    total: bool = False,
) -> Samples:
    """Return a measure of every run with the keys by which runs differ.

    Parts of a run that are alike count as one, with their mean; with their sum if `total`. `keys` come first among the
    axes, in their order; after them come all other keys by which the runs differ, unless they follow from `keys` or are
    in `mean_over`. Raises InputError.
    """
    only_parts = [name for name in keys if name in ONLY_PARTS]
    unlike = [
        {"base_rtt": "base_rtt_ms"}.get(name, name)
        for name in keys
        if name in ("cc", "base_rtt") and not results.is_of_runs(name)
    ]
    measure = results.measure(value, of, by_part=[*only_parts, *unlike])
    axes, named, over = _with_axes(results, measure, [measure.column], keys, mean_over, options)
    kept = [axis.name for axis in axes]
    if named.is_empty() and measure.table in ("slowdowns", "short_flows"):
        found = f"these runs have no {measure.of}, of which {measure.column} is"
        raise Nothing(str(results.path), "", found, "runs with [[web]]")
    if named.is_empty() and measure.table == "hops":
        found = f"these runs have one hop each, and {measure.column} of hops is of several"
        raise Nothing(str(results.path), "", found, f"runs with [[hop]] or [reverse], or {flag('of')} runs")
    value_of = pl.col(measure.column).cast(pl.Float64)
    each = named.group_by(*kept, SEED, "key", "hash", maintain_order=True).agg(
        value=value_of.sum() if total else value_of.mean()
    )
    if over:  # a value for each seed, so that the interval is over seeds
        each = each.group_by(*kept, SEED, maintain_order=True).agg(
            pl.col("value").mean(), hash=pl.col("hash").str.join("")
        )
    return Samples(measure, axes, each.select(*kept, SEED, "hash", "value"), over, results.notes)


def _with_axes(
    results: Results,
    measure: Measure,
    columns: Sequence[str],
    keys: Sequence[str],
    mean_over: Sequence[str],
    options: Mapping[str, str],
) -> tuple[list[Axis], pl.DataFrame, list[str]]:
    """Return the axes of a table's rows, the rows with a column of text for each, and what means are taken over."""
    for name in keys:
        if keys.count(name) > 1:
            raise Conflict(options.get(name, "key"), "", f"{name} and {name}", "each key in one place")
    if measure.table not in (*parts.OF_FLOWS, *parts.OF_CLASSES):
        results.require_whole_runs(
            f"{measure.column} is of the whole run", f"a measure of {', '.join(OF_TRAFFIC)}, or keys of runs"
        )
    rows = results.parts(measure.table, columns)
    if rows.is_empty() and results.of_parts:
        found = f"table {measure.table} has no rows of {' and '.join(results.of_parts)}"
        raise Nothing("--where", "", found, f"other flows or classes, or {flag('of')} classes")
    cells = rows["cell"].unique(maintain_order=True).to_list()
    axes: list[Axis] = []
    given: list[Dimension] = []
    over = [_over(results, measure, name, rows, keys) for name in mean_over]
    for name in keys:
        axis, dimension, rows = _axis(results, measure, name, rows, options.get(name, "key"))
        for other, before in zip(given, axes, strict=False):
            if dimension is not None and other.texts == dimension.only(cells).texts and other.path == dimension.path:
                found = f"{name} and {before.name}, which are the same key,"
                raise Conflict(options.get(name, "key"), "", found, "each key in one place")
        axes.append(axis)
        if dimension is not None:
            given.append(dimension.only(cells))
    rest = [one.only(cells) for one in results.dimensions]
    needed = dims.undetermined([one for one in rest if one.name not in over], given, cells)
    for name in over:
        one = next((one for one in rest if one.name == name), None)
        if one is not None and not dims.undetermined([one], [*given, *needed], cells):
            found = f"the keys that are shown determine {name}"
            raise Unfit("--mean-over", "", found, "a key by which the runs that are shown together differ")
    for dimension in needed:
        axis, _, rows = _axis(results, measure, dimension.name, rows, "key")
        axes.append(axis)
    if "part" in rows.columns:
        axes, rows = _part_axes(measure, axes, rows, over)
    if measure.table == "hops" and "hop" not in {*over, *(axis.name for axis in axes)}:
        axis, rows = _axis_of_parts("hop", "hop", rows)
        axes.append(axis)
    texts = [pl.col(_column(axis.name)).alias(axis.name) for axis in axes]
    named = rows.select(*texts, pl.col("seed").alias(SEED), "key", "hash", *dict.fromkeys(columns))
    return axes, named, over


def means(
    results: Results,
    value: str,
    keys: Sequence[str] = (),
    *,
    of: str | None = None,
    mean_over: Sequence[str] = (),
    options: Mapping[str, str] = MappingProxyType({}),
) -> Means:
    """Return the means of a measure over seeds, one for each combination of the axes of `samples`."""
    return means_of(samples(results, value, keys, of=of, mean_over=mean_over, options=options))


def from_baseline(found: Samples, key: str, texts: Sequence[str], *, ratio: bool = False) -> Samples:
    """Return the differences from the runs whose `key` is in `texts`, or their ratio to them, seed by seed.

    Those of these runs themselves, 0 or 1, are among them.
    """
    # what follows from the key, as its other name does, differs with it
    rest = [
        axis.name
        for axis in found.axes
        if axis.name != key and found.frame.select(key, axis.name).n_unique() > found.frame[key].n_unique()
    ]
    base = found.frame.filter(pl.col(key).is_in(list(texts))).select(*rest, SEED, pl.col("value").alias("base"))
    base = base.group_by(*rest, SEED, maintain_order=True).agg(pl.col("base").mean())
    others = found.frame.join(base, on=[*rest, SEED], how="inner", nulls_equal=True, maintain_order="left")
    value = pl.col("value") / pl.col("base") if ratio else pl.col("value") - pl.col("base")
    frame = others.with_columns(value=value).drop("base")
    if frame.filter(~pl.col(key).is_in(list(texts))).is_empty():
        allowed = "runs that differ in this key alone, with the same seeds"
        raise Nothing("--baseline", key, f"no other run answers {', '.join(texts)}", allowed)
    return _of_rows(found, frame)


def without(found: Samples, key: str, texts: Sequence[str]) -> Samples:
    """Return samples without those whose `key` is in `texts`."""
    return _of_rows(found, found.frame.filter(~pl.col(key).is_in(list(texts))))


def _of_rows(found: Samples, frame: pl.DataFrame) -> Samples:
    """Return samples with the rows of `frame` and the values of axes that these have."""
    axes = [
        Axis(axis.name, kept, axis.numbers, axis.unit)
        for axis in found.axes
        if (kept := [text for text in axis.texts if text in set(frame[axis.name])])
    ]
    return Samples(found.measure, axes, frame, found.over, found.notes)


def rows(
    results: Results,
    table: str,
    columns: Sequence[str],
    keys: Sequence[str] = (),
    *,
    mean_over: Sequence[str] = (),
    options: Mapping[str, str] = MappingProxyType({}),
) -> Samples:
    """Return rows of a table as they are, with the keys by which runs differ as axes: for distributions and series."""
    measure = Measure(table, columns[-1])
    axes, named, over = _with_axes(results, measure, columns, keys, mean_over, options)
    return Samples(measure, axes, named, over, results.notes)


def means_of(found: Samples) -> Means:
    """Return the means of values over seeds, with intervals."""
    names = [axis.name for axis in found.axes]
    whole = found.frame if names else found.frame.with_columns(pl.lit("").alias("all runs"))
    grouped = whole.group_by(names or ["all runs"], maintain_order=True).agg(
        mean=pl.col("value").mean(),
        deviation=pl.col("value").std(),
        values=pl.col("value").count(),
        runs=pl.len(),
        unlike=pl.col("hash").n_unique(),
    )
    counted = grouped.with_columns(
        n=pl.when(pl.col("unlike") > 1).then("values").otherwise(pl.min_horizontal("values", 1)),
        none=pl.col("runs") - pl.col("values"),
    ).with_columns(half=half_width(pl.col("deviation"), pl.col("n")))
    frame = counted.select(
        *names,
        "mean",
        "half",
        low=pl.col("mean") - pl.col("half"),
        high=pl.col("mean") + pl.col("half"),
        n="n",
        runs="runs",
        none="none",
    )
    return Means(found.measure, found.axes, in_order(found.axes, frame), found.over, found.notes)


def times(counts: pl.Series) -> str:
    """Return how often something was measured: `3`, or `2 to 5`."""
    values = sorted(set(counts.to_list())) or [0]
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def in_order(axes: Sequence[Axis], frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a frame by the values of every axis in their order."""
    orders = [
        pl.col(axis.name).replace_strict({text: i for i, text in enumerate(axis.texts)}, return_dtype=pl.Int64)
        for axis in axes
    ]
    return frame.sort(orders, maintain_order=True) if orders else frame


def _over(results: Results, measure: Measure, name: str, rows: pl.DataFrame, keys: Sequence[str]) -> str:
    """Return the name of a key to take means over; InputError if it would make no difference."""
    known = [one.name for one in results.dimensions]
    ends = [one for one in known if name in (one, one.rpartition(".")[2])]
    found = name if name in known else ends[0] if len(ends) == 1 else None
    part = _part_column(measure, name)
    if found is None and name == "flow" and "part" in rows.columns:
        part = "part"
    if found is None and part is None:
        allowed = [*known, *(("flow",) if measure.table in (*parts.OF_FLOWS, *parts.OF_CLASSES) else ())]
        also = "" if allowed else "the runs differ in no key but their seeds"
        raise UnknownName(str(results.path), "--mean-over", name, allowed, nearest(name, known), what="key", also=also)
    path = results.key(found).path if found else None
    of_runs = [key for key in keys if path and key not in _OF_PARTS and key != "seed"]
    shown = [key for key in keys if key in (name, found)]
    shown += [key for key in of_runs if results.key(key, "--rows").path == path]
    if shown:
        raise Conflict(
            "--mean-over", "", f"{name} here and as {shown[0]} in the table or figure", "a key that is not shown"
        )
    if found is not None:
        return found
    column = "part" if part in ("flow", None) else part
    if rows[column].n_unique() < 2:
        raise Unfit("--mean-over", "", f"nothing differs in {name}", "a key by which runs or flows differ")
    return name


def _axis(
    results: Results, measure: Measure, name: str, rows: pl.DataFrame, option: str
) -> tuple[Axis, Dimension | None, pl.DataFrame]:
    """Return a key as an axis, its dimension if it is one of runs, and `rows` with a column of its texts."""
    part = _part_column(measure, name)
    # UDP has neither, so that its parts differ from the flows of the same run
    unlike = part is not None and rows.select("cell", part).n_unique() > rows["cell"].n_unique()
    if part is not None and (unlike or name not in ("cc", "base_rtt") or not results.is_of_runs(name)):
        axis, rows = _axis_of_parts(name, part, rows)
        return axis, None, rows
    if name == "seed":
        axis, rows = _axis_of_parts(name, "seed", rows)
        return axis, None, rows
    if name in ONLY_PARTS and not results.has_key(name):
        found = f"{name} distinguishes parts, while {measure.column} is of the whole {measure.of}"
        raise Unfit(option, "", found, "a key of runs, or a measure of parts of runs, such as goodput")
    dimension = results.key(name, option).only(rows["cell"].unique(maintain_order=True).to_list())
    if part is None and name in ("cc", "base_rtt") and not results.is_of_runs(name):
        found = f"the flows of a run differ in {name}, while {measure.column} is of the whole run"
        own = [key for key in results.matrix_keys if key.endswith(f".{name}")]
        raise Unfit(option, "", found, own or "a key of runs")
    if dimension.ordered == [NOTHING]:
        why = selecting.switched_off(dimension, results.configurations) or "a key that some of the runs have"
        raise Unfit(option, "", f"{name} has no value in these runs", why)
    rows = rows.with_columns(
        pl.col("cell").replace_strict(dimension.texts, return_dtype=pl.String).alias(_column(name))
    )
    scale = dims.scale_of(dimension.path) if dimension.path and dimension.is_numeric else None
    return Axis(name, dimension.ordered, dimension.numbers, scale.unit if scale else ""), dimension, rows


def _axis_of_parts(name: str, column: str, rows: pl.DataFrame) -> tuple[Axis, pl.DataFrame]:
    """Return a column of `rows` as an axis: numbers ascending, texts as they come first."""
    values = rows[column].drop_nulls().unique(maintain_order=True).to_list()
    numeric = all(isinstance(value, int | float) for value in values)
    if numeric:
        values = sorted(values)
    unit = {"base_rtt_ms": "ms", "from_bytes": "bytes"}.get(column, "")
    texts = {value: f"{value:g}ms" if unit == "ms" else str(value) for value in values}
    if rows[column].null_count():
        texts[None] = NOTHING
    rows = rows.with_columns(
        pl.Series(_column(name), [texts[value] for value in rows[column].to_list()], dtype=pl.String)
    )
    numbers = {text: float(value) for value, text in texts.items() if text != NOTHING} if numeric else None
    return Axis(name, list(dict.fromkeys(texts.values())), numbers, unit), rows


def _part_axes(
    measure: Measure, axes: list[Axis], rows: pl.DataFrame, over: list[str]
) -> tuple[list[Axis], pl.DataFrame]:
    """Return the axes with those that distinguish the parts of a run, where the keys do not do so already."""
    whole = "flow" if measure.table in parts.OF_FLOWS else "class"
    for name, column in (("from_bytes", "from_bytes"), (whole, "part")):
        names = {axis.name for axis in axes}
        if column not in rows.columns or {name, column} & names or rows[column].n_unique() < 2:
            continue
        if column in over or (column == "part" and {"flow", "class", "which"} & set(over)):
            continue
        # of parts that differ in a key to take means over, what else distinguishes them
        other = [key for key in ("cc", "base_rtt", "kind") if key not in over and _part_column(measure, key)]
        merged = [_OF_PARTS[key] for key in other] if {"cc", "base_rtt", "kind"} & set(over) else [column]
        placed = ["cell", *map(_column, names)]
        for one in merged:
            if rows.select(*placed, one).n_unique() == rows.select(placed).n_unique():
                continue  # keys such as cc distinguish the parts
            called = name if one == column else next(key for key in other if _OF_PARTS[key] == one)
            axis, rows = _axis_of_parts(called, one, rows)
            axes = [*axes, axis]
            placed.append(_column(axis.name))
        if merged != [column] and rows.select(placed).n_unique() == rows.select(*placed, column).n_unique():
            found = f"not over {', '.join(over)} alone: {', '.join(other)} distinguish the same {whole}s"
            raise Unfit("--mean-over", "", found, f"{whole}, for means over all that a run has")
    return axes, rows
