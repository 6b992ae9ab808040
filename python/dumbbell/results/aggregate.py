"""Means over seeds with their intervals. What is unlike is never averaged unless it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from types import MappingProxyType

import polars as pl

from dumbbell.errors import Conflict, Nothing, Unfit, UnknownName, find_nearest, spell_option
from dumbbell.results import crossing, parts, selecting, varying
from dumbbell.results.dimensions import NOTHING, Dimension
from dumbbell.results.results import OF_TRAFFIC, Measure, StoredResults
from dumbbell.results.student import compute_t_quantile
from dumbbell.words import format_count

LEVEL = 0.95
FEW = 2  # values whose range, from the least to the greatest, stands in place of an interval


def make_t_expression(freedom: pl.Expr, level: float = LEVEL) -> pl.Expr:
    """Return t with which a mean lies within t standard errors with probability `level` (Student 1908)."""
    return freedom.map_elements(lambda n: compute_t_quantile(n, level), return_dtype=pl.Float64)


def compute_half_width(deviation: pl.Expr, n: pl.Expr, level: float = LEVEL) -> pl.Expr:
    """Return half of the interval in which the mean lies with probability `level`: t · s / √n.

    Null for less than two values.
    """
    return pl.when(n > 1).then(
        make_t_expression(pl.when(n > 1).then(n - 1), level) * deviation / n.cast(pl.Float64).sqrt()
    )


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
    joins: tuple[tuple[Axis, dict[str, str]], ...] = ()
    """The keys that it joins, each with its own text for each of `texts`."""
    counted: str = ""
    """What its numbers count, if they have no unit."""

    @property
    def word(self) -> str:
        """The last word of the key, spelt out: `base RTT`; of several keys those of all."""
        if self.joins:
            return " and ".join(dict.fromkeys(axis.word for axis, _ in self.joins))
        last = self.name.rpartition(".")[2]
        return _WORDS.get(last, last.replace("_", " "))

    @property
    def label(self) -> str:
        """The last word of the key and the unit of its numbers: `base RTT, ms`; whose numbers, if it joins several."""
        if self.joins and self.numbers is not None:
            (first, _), *rest = self.joins
            others = [axis for axis, own in rest if axis.word != first.word or any(own[text] != text for text in own)]
            label = (
                first.label.replace(first.word, first.name, 1)
                if first.word in [o.word for o in others]
                else first.label
            )
            return label + (f" (with {', '.join(axis.name for axis in others)})" if others else "")
        unit = {"mbit": "Mbit/s"}.get(self.unit, self.unit) or self.counted if self.numbers is not None else ""
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


def _name_column(name: str) -> str:
    """Return the name of the column of rows that has the texts of an axis."""
    return f"axis {name}"


def _find_part_column(measure: Measure, name: str) -> str | None:
    """Return the column of parts of runs that `name` means."""
    column = _OF_PARTS.get(name)
    if column in ("from_bytes", "hop"):
        return column if measure.table == {"from_bytes": "slowdowns", "hop": "hops"}[column] else None
    if column is None:
        return None
    if measure.table in parts.OF_FLOWS:
        return column
    return column if measure.table in parts.OF_CLASSES and column != "flow" else None


@dataclass(frozen=True)
class Also:
    """A key that differs with those of the axes: its values, by the texts of the axes `by` from which they follow."""

    key: Axis
    by: list[str]
    texts: dict[tuple[str, ...], str]


@dataclass
class _AxisRows:
    """Rows of a table with a column of text for each axis."""

    axes: list[Axis]
    frame: pl.DataFrame
    over: list[str]
    differ_as_well: str
    left_out: list[str]
    also: list[Also]


@dataclass
class Samples:
    """Values of one measure: `frame` has a text column for each of `axes`, `seed`, `hash` and `value`; a row per run.

    Flows that are alike count as one value per run; with `over`, a row is the mean over those keys for one seed, of
    `runs` values of which `none` are missing. `differ_as_well` names the keys that no axis has, and `also` are their
    values; `left_out` says which runs have no part in means and differences.
    """

    measure: Measure
    axes: list[Axis]
    frame: pl.DataFrame
    over: list[str]
    notes: list[str]
    differ_as_well: str = ""
    left_out: list[str] = field(default_factory=list)
    also: list[Also] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """What has to be known to read the values right, one line each."""
        return [line for line in (self.differ_as_well, *self.left_out) if line]

    @property
    def several(self) -> list[Axis]:
        """The axes with more than one value."""
        return [axis for axis in self.axes if len(axis.texts) > 1]


@dataclass
class Means(Samples):
    """Means of one measure: `frame` has a column of text for each of `axes` and `mean`, `half`, `low`, `high`, `n`.

    `n` is how many different runs a mean is of, `runs` how many there are, `none` how many of them have no value.
    """

    def find_axis(self, name: str) -> Axis:
        """Return one of the axes."""
        return next(axis for axis in self.axes if axis.name == name)


def collect_samples(
    results: StoredResults,
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
    found = _add_axes(results, measure, [measure.column], keys, mean_over, options)
    named = found.frame
    kept = [axis.name for axis in found.axes]
    if named.is_empty() and measure.table in ("slowdowns", "short_flows"):
        said = f"{measure.column} is measured per {measure.of}, and these runs have none"
        raise Nothing(said, "runs with [[web]]", file=results.path)
    if named.is_empty() and measure.table == "hops":
        said = "each of these runs has one hop, and table hops lists runs with several"
        raise Nothing(said, f"runs with [[hop]] or [reverse], or {spell_option('of')} runs", file=results.path)
    value_of = pl.col(measure.column).cast(pl.Float64)
    each = named.group_by(*kept, SEED, "key", "hash", maintain_order=True).agg(
        value=value_of.sum() if total else value_of.mean(), runs=pl.lit(1)
    )
    each = each.with_columns(none=pl.col("value").is_null().cast(pl.Int64))
    if found.over:  # a value for each seed, so that the interval is over seeds
        each = each.group_by(*kept, SEED, maintain_order=True).agg(
            pl.col("value").mean(), pl.col("runs", "none").sum(), hash=pl.col("hash").str.join("")
        )
    frame = each.select(*kept, SEED, "hash", "value", "runs", "none")
    return Samples(
        measure, found.axes, frame, found.over, results.notes, found.differ_as_well, found.left_out, found.also
    )


def _add_axes(
    results: StoredResults,
    measure: Measure,
    columns: Sequence[str],
    keys: Sequence[str],
    mean_over: Sequence[str],
    options: Mapping[str, str],
) -> _AxisRows:
    """Return the axes of a table's rows, the rows with a column of text for each, and what means are taken over."""
    for name in keys:
        if keys.count(name) > 1:
            raise Conflict(f"{name} and {name}", "each key in one place", file=options.get(name, "key"))
    if measure.table not in (*parts.OF_FLOWS, *parts.OF_CLASSES):
        results.require_whole_runs(
            f"{measure.column} is measured per run", f"a measure of {', '.join(OF_TRAFFIC)}, or keys of runs"
        )
    rows = results.parts(measure.table, columns)
    if rows.is_empty() and results.of_parts:
        found = f"found no rows with {' and '.join(results.of_parts)} in table {measure.table}"
        raise Nothing(found, f"other flows or classes, or {spell_option('of')} classes", option="--where")
    cells = rows["cell"].unique(maintain_order=True).to_list()
    shown: list[Axis] = []
    given: list[Dimension] = []
    for name in keys:
        axis, dimension, rows = _make_axis(results, measure, name, rows, options.get(name, "key"))
        for other, before in zip(given, shown, strict=False):
            if (
                dimension is not None
                and other.texts == dimension.select_cells(cells).texts
                and other.path == dimension.path
            ):
                found = f"{name} and {before.name} name the same key, and"
                raise Conflict(found, "each key in one place", file=options.get(name, "key"))
        shown.append(axis)
        if dimension is not None:
            given.append(dimension.select_cells(cells))
    over, over_parts = _select_keys(results, measure, mean_over, rows, keys, given)
    needed = varying.choose_axes(results.varying, results.matrix_keys, cells, given=given, over=over)
    for dimension in needed.axes:
        axis, rows = _make_axis_of_runs(dimension, rows)
        shown.append(axis)
    of_runs = [*given, *needed.axes]
    rows, left_out = crossing.select_common(rows, of_runs, over)
    names = [*(key.name for one in over for key in one.parts), *over_parts]
    if "part" in rows.columns:
        shown, rows = _add_part_axes(measure, shown, rows, names)
    if measure.table == "hops" and "hop" not in {*names, *(axis.name for axis in shown)}:
        axis, rows = _make_axis_of_parts("hop", "hop", rows)
        shown.append(axis)
    texts = [pl.col(_name_column(axis.name)).alias(axis.name) for axis in shown]
    named = rows.select(*texts, pl.col("seed").alias(SEED), "key", "hash", "cell", *dict.fromkeys(columns))
    also = [_make_further_axis(one.key, of_runs) for one in needed.beside]
    return _AxisRows(shown, named, names, needed.line, [left_out] if left_out else [], also)


def _make_further_axis(key: Dimension, of_runs: Sequence[Dimension]) -> Also:
    """Return a key that no axis has as an axis, and its text for each combination of the axes of runs."""
    found: dict[tuple[str, ...], set[str]] = {}
    for cell, text in key.texts.items():
        found.setdefault(tuple(one.texts[cell] for one in of_runs), set()).add(text)
    names = [one.name for one in of_runs]
    return Also(_convert_dimension(key), names, {place: min(own) for place, own in found.items() if len(own) == 1})


def name_further_keys(results: StoredResults, keys: Sequence[str], mean_over: Sequence[str] = ()) -> str:
    """Return a sentence that names the keys of runs which no axis has, if `keys` are shown; empty if there are none."""
    cells = list(results.configurations)
    given = [
        results.find_key(name) for name in keys if name != "seed" and name not in ONLY_PARTS and results.has_key(name)
    ]
    over = [one for one in (*results.varying, *results.dimensions) if one.is_any_of(mean_over)]
    return varying.choose_axes(results.varying, results.matrix_keys, cells, given=given, over=over).line


def compute_means(
    results: StoredResults,
    value: str,
    keys: Sequence[str] = (),
    *,
    of: str | None = None,
    mean_over: Sequence[str] = (),
    options: Mapping[str, str] = MappingProxyType({}),
) -> Means:
    """Return the means of a measure over seeds, one for each combination of the axes of `collect_samples`."""
    return average_samples(collect_samples(results, value, keys, of=of, mean_over=mean_over, options=options))


def subtract_baseline(found: Samples, key: str, texts: Sequence[str], *, ratio: bool = False) -> Samples:
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
        raise Nothing(f"found no run to compare with {', '.join(texts)}", allowed, option="--baseline", key=key)
    lost = (
        found.frame.filter(~pl.col(key).is_in(list(texts))).height
        - frame.filter(~pl.col(key).is_in(list(texts))).height
    )
    compared = _replace_rows(found, frame)
    if lost:
        said = f"left out: {format_count(lost, 'value')} without a run of {', '.join(texts)} to compare with"
        compared.left_out = [*compared.left_out, said]
    return compared


def drop_texts(found: Samples, key: str, texts: Sequence[str]) -> Samples:
    """Return samples without those whose `key` is in `texts`."""
    return _replace_rows(found, found.frame.filter(~pl.col(key).is_in(list(texts))))


def _replace_rows(found: Samples, frame: pl.DataFrame) -> Samples:
    """Return samples with the rows of `frame` and the values of axes that these have."""
    axes = [
        replace(axis, texts=kept)
        for axis in found.axes
        if (kept := [text for text in axis.texts if text in set(frame[axis.name])])
    ]
    return replace(found, axes=axes, frame=frame)


def collect_rows(
    results: StoredResults,
    table: str,
    columns: Sequence[str],
    keys: Sequence[str] = (),
    *,
    mean_over: Sequence[str] = (),
    options: Mapping[str, str] = MappingProxyType({}),
) -> Samples:
    """Return rows of a table as they are, with the keys by which runs differ as axes: for distributions and series."""
    measure = Measure(table, columns[-1])
    found = _add_axes(results, measure, columns, keys, mean_over, options)
    return Samples(
        measure,
        found.axes,
        found.frame.drop("cell"),
        found.over,
        results.notes,
        found.differ_as_well,
        found.left_out,
        found.also,
    )


def average_samples(found: Samples) -> Means:
    """Return the means of values over seeds, with intervals; of two seeds with the least and the greatest value.

    Student's interval of two values is 12.7 standard errors wide on either side, which says nothing.
    """
    names = [axis.name for axis in found.axes]
    whole = found.frame if names else found.frame.with_columns(pl.lit("").alias("all runs"))
    grouped = whole.group_by(names or ["all runs"], maintain_order=True).agg(
        mean=pl.col("value").mean(),
        deviation=pl.col("value").std(),
        values=pl.col("value").count(),
        least=pl.col("value").min(),
        most=pl.col("value").max(),
        runs=pl.col("runs").sum(),
        none=pl.col("none").sum(),
        unlike=pl.col("hash").n_unique(),
    )
    counted = grouped.with_columns(
        n=pl.when(pl.col("unlike") > 1).then("values").otherwise(pl.min_horizontal("values", 1)),
    )
    is_range = pl.col("n") == FEW
    are_equal = is_range & (pl.col("least") == pl.col("most"))
    frame = counted.with_columns(half=compute_half_width(pl.col("deviation"), pl.col("n"))).select(
        *names,
        "mean",
        half=pl.when(are_equal).then(0.0).when(~is_range).then("half"),
        low=pl.when(is_range).then("least").otherwise(pl.col("mean") - pl.col("half")),
        high=pl.when(is_range).then("most").otherwise(pl.col("mean") + pl.col("half")),
        n="n",
        runs="runs",
        none="none",
    )
    fields = {one.name: getattr(found, one.name) for one in dataclass_fields(Samples)}
    return Means(**fields | {"frame": order_rows(found.axes, frame)})


def format_counts(counts: pl.Series) -> str:
    """Return how often something was measured: `3`, or `2 to 5`."""
    values = sorted(set(counts.to_list())) or [0]
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def order_rows(axes: Sequence[Axis], frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a frame by the values of every axis in their order."""
    orders = [
        pl.col(axis.name).replace_strict({text: i for i, text in enumerate(axis.texts)}, return_dtype=pl.Int64)
        for axis in axes
    ]
    return frame.sort(orders, maintain_order=True) if orders else frame


def _select_keys(
    results: StoredResults,
    measure: Measure,
    names: Sequence[str],
    rows: pl.DataFrame,
    keys: Sequence[str],
    given: Sequence[Dimension],
) -> tuple[list[Dimension], list[str]]:
    """Return the keys of runs and those of parts to take means over; InputError if one would make no difference."""
    known = [*(one for one in results.dimensions if one.keys), *results.varying]
    cells = rows["cell"].unique(maintain_order=True).to_list()
    of_runs: list[Dimension] = []
    of_parts: list[str] = []
    for name in names:
        ends = [one for one in known if name in (one.name, one.word) and not one.keys]
        found = next((one for one in known if one.name == name), ends[0] if len(ends) == 1 else None)
        part = (
            "part" if found is None and name == "flow" and "part" in rows.columns else _find_part_column(measure, name)
        )
        if found is None and part is None:
            allowed = [one.name for one in known]
            near = find_nearest(name, allowed)
            allowed += ["flow"] * (measure.table in (*parts.OF_FLOWS, *parts.OF_CLASSES))
            also = "" if allowed else "the runs differ only in their seeds"
            raise UnknownName(
                name, among=allowed, file=results.path, option="--mean-over", nearest=near, what="key", also=also
            )
        shown = [key for key in keys if key == name]
        if found is not None:
            paths = {one.path for one in found.parts}
            shown += [
                key
                for key in keys
                if key not in _OF_PARTS and key != "seed" and results.find_key(key, "--rows").path in paths
            ]
            shown += [key for key in keys if key == found.name]
        if shown:
            allowed_key = "a key that is not shown"
            raise Conflict(
                f"means over {name} and {shown[0]} in the table or figure", allowed_key, option="--mean-over"
            )
        if found is not None:
            of_runs.append(found.select_cells(cells))
            continue
        column = "part" if part in ("flow", None) else part
        if rows[column].n_unique() < 2:
            raise Unfit(f"nothing differs in {name}", "a key by which runs or flows differ", option="--mean-over")
        of_parts.append(name)
    of_runs = list({key.name: key for one in of_runs for key in one.parts}.values())
    needed = varying.choose_axes(results.varying, results.matrix_keys, cells, given=given, over=of_runs).axes
    for one in of_runs:
        others = [other for other in of_runs if other is not one]
        if not varying.find_undetermined([one], [*given, *others, *needed], cells):
            found_keys = f"each row or line has one value of {one.name} already"
            allowed_key = "a key by which the runs that are shown together differ"
            raise Unfit(found_keys, allowed_key, option="--mean-over")
    return of_runs, of_parts


def _make_axis(
    results: StoredResults, measure: Measure, name: str, rows: pl.DataFrame, option: str
) -> tuple[Axis, Dimension | None, pl.DataFrame]:
    """Return a key as an axis, its dimension if it is one of runs, and `rows` with a column of its texts."""
    part = _find_part_column(measure, name)
    # UDP has neither, so that its parts differ from the flows of the same run
    unlike = part is not None and rows.select("cell", part).n_unique() > rows["cell"].n_unique()
    if part is not None and (unlike or name not in ("cc", "base_rtt") or not results.is_of_runs(name)):
        axis, rows = _make_axis_of_parts(name, part, rows)
        return axis, None, rows
    if name == "seed":
        axis, rows = _make_axis_of_parts(name, "seed", rows)
        return axis, None, rows
    if name in ONLY_PARTS and not results.has_key(name):
        found = f"{name} distinguishes parts of a run, but {measure.column} is measured per {measure.of}"
        raise Unfit(found, "a key of runs, or a measure of parts of runs, such as goodput", option=option)
    dimension = results.find_key(name, option).select_cells(rows["cell"].unique(maintain_order=True).to_list())
    if part is None and name in ("cc", "base_rtt") and not results.is_of_runs(name):
        found = f"the flows of a run differ in {name}, but {measure.column} is measured per run"
        own = [key for key in results.matrix_keys if key.endswith(f".{name}")]
        raise Unfit(found, own or "a key of runs", option=option)
    if dimension.ordered == [NOTHING]:
        why = selecting.explain_missing_switch(dimension, results.configurations) or "a key that some of the runs have"
        raise Unfit(f"{name} has no value in these runs", why, option=option)
    axis, rows = _make_axis_of_runs(dimension, rows, name)
    return axis, dimension, rows


def _make_axis_of_runs(dimension: Dimension, rows: pl.DataFrame, name: str = "") -> tuple[Axis, pl.DataFrame]:
    """Return a key of runs as an axis, called `name` if given, and `rows` with a column of its texts."""
    axis = _convert_dimension(dimension, name)
    texts = pl.col("cell").replace_strict(dimension.texts, return_dtype=pl.String)
    return axis, rows.with_columns(texts.alias(_name_column(axis.name)))


def _convert_dimension(dimension: Dimension, name: str = "") -> Axis:
    joins = tuple(
        (_convert_dimension(key), {text: key.texts[cell] for cell, text in dimension.texts.items()})
        for key in dimension.keys
    )
    numbers, unit, counted = dimension.numbers, dimension.unit, dimension.counted
    return Axis(name or dimension.name, dimension.ordered, numbers, unit, joins, counted)


def _make_axis_of_parts(name: str, column: str, rows: pl.DataFrame) -> tuple[Axis, pl.DataFrame]:
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
        pl.Series(_name_column(name), [texts[value] for value in rows[column].to_list()], dtype=pl.String)
    )
    numbers = {text: float(value) for value, text in texts.items() if text != NOTHING} if numeric else None
    return Axis(name, list(dict.fromkeys(texts.values())), numbers, unit), rows


def _add_part_axes(
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
        other = [key for key in ("cc", "base_rtt", "kind") if key not in over and _find_part_column(measure, key)]
        merged = [_OF_PARTS[key] for key in other] if {"cc", "base_rtt", "kind"} & set(over) else [column]
        placed = ["cell", *map(_name_column, names)]
        for one in merged:
            if rows.select(*placed, one).n_unique() == rows.select(placed).n_unique():
                continue  # keys such as cc distinguish the parts
            called = name if one == column else next(key for key in other if _OF_PARTS[key] == one)
            axis, rows = _make_axis_of_parts(called, one, rows)
            axes = [*axes, axis]
            placed.append(_name_column(axis.name))
        if merged != [column] and rows.select(placed).n_unique() == rows.select(*placed, column).n_unique():
            found = f"{', '.join(other)} distinguish the same {whole}s as {', '.join(over)}"
            raise Unfit(found, f"{whole} for means over all of them", option="--mean-over")
    return axes, rows
