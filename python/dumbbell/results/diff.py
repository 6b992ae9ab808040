"""Differences between two results, or between the values of a key: every measure, its interval, how sure, how large.

The same cells are held against each other; cells of other settings if their matrices give them the same values, which
is then said. Where both have the same seeds, the differences are taken seed by seed
(common random numbers); otherwise the means are compared with Welch's test. Over several cells, relative differences
are averaged for each seed, and the interval is over seeds: cells of one sweep draw from the same seeds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from dumbbell.errors import Conflict, Missing, Nothing, Unfit, UnknownName
from dumbbell.results import pairing
from dumbbell.results.aggregate import format_counts, make_t_expression
from dumbbell.results.columns import COLUMNS, PARTS, format_axis_label, is_of_hop
from dumbbell.results.results import StoredResults
from dumbbell.results.student import compute_tails
from dumbbell.results.tables import NARROW, align_table, explain_bins, format_number
from dumbbell.words import format_count

_FAMILY = 0.05  # the chance that a comparison of equals says "different"
# of a value: what a sum of 9 million doubles may be off, 2^-53 for each (Higham, Accuracy and Stability, 2002, 4.2)
_ROUNDING = 1e-9
_MOST_ROWS = 20
# what a run has done rather than measured, and what it was given
_LEFT_OUT = (
    *("events", "short_flows_kept", "start_s", "class", "flows", "common_s"),
    # of which no mean says anything where a run was over before, and which are known to a tenth of a second
    *("convergence_s", "convergence_cumulative_s"),
)
_TABLES = ("runs", "hops", "flows", "classes", "apps")
# what distinguishes the rows of tables that have no parts of their own
_PARTED = {"hops": pl.col("hop"), "slowdowns": pl.format("{}, from {} B", "part", "from_bytes")}


@dataclass
class Diff:
    """The differences. `frame` has a row for each cell, measure and part, `measures` one for each measure and part.

    Columns: `a`, `b` (means), `difference` (b - a) and, of one cell, `half` of its 95 % interval; `change`
    (difference / a) with `change_low` and `change_high`; `n` (pairs of seeds, or seeds of the smaller side); `p`; and
    `differs`: significantly, at a false discovery rate of 5 % over all comparisons; `rises` and `falls`: in how many
    cells that is so. The interval of a change is that of the difference, in units of the mean of A. `resolution` is the
    width of the histogram's bin from which values are read, null if they are exact: of one cell in the unit of the
    measure, over several its mean share of the value.
    """

    names: tuple[str, str]
    frame: pl.DataFrame
    measures: pl.DataFrame
    lines: list[str]

    @property
    def different(self) -> bool:
        """Whether anything differs more than chance explains."""
        return bool(self.frame["differs"].any() or self.measures["differs"].any())

    def to_markdown(self, *, cells: bool = False) -> str:
        """Return what was compared, the ranking as a table, and the verdict."""
        rows = self.frame if cells else self.measures
        differ = rows.filter("differs")
        parts = ["\n".join(self.lines)]
        shown = differ.head(_MOST_ROWS)
        if shown.height:
            header, body = _format_rows(shown, self.names, cells=cells)
            parts.append(align_table(header, body, words=(0, 1, 2) if cells else (0, 1)))
            parts += explain_bins(text for row in body for text in row)
            parts += _explain_dashes(shown, cells=cells)
        if differ.height > shown.height:
            parts.append(f"{differ.height - shown.height} more differ (--format csv has all).")
        if not cells and (opposite := describe_opposite_means(shown)):
            parts.append(f"{opposite} (--cells lists them).")
        return "\n\n".join([*parts, self._format_verdict()])

    def _format_verdict(self) -> str:
        every = self.frame.height
        if not self.different:
            same = self.frame.filter(pl.col("difference") == 0).height
            if same == every:
                return f"No difference: all {every} compared figures are equal."
            smallest = min(self.frame["p"].drop_nulls().to_list(), default=None)
            sure = "" if smallest is None else f"; smallest p {smallest:.2g}, which {every} comparisons give by chance"
            return f"No difference: {same} of {every} compared figures are equal, the others within chance{sure}."
        cells = self.frame.filter("differs")["pair"].n_unique()
        measures = int(self.measures["differs"].sum())
        more = "" if measures else " (--cells lists them)"
        return (
            f"Different: {format_count(measures, 'measure')} over all cells; single figures in "
            f"{format_count(cells, 'cell')}{more}."
        )

    def __repr__(self) -> str:
        return self.to_markdown()


def _format_rows(rows: pl.DataFrame, names: tuple[str, str], *, cells: bool) -> tuple[list[str], list[list[str]]]:
    several = not cells and rows["cells"].max() != 1
    header = [*(["cell"] if cells else []), "measure", "of", *names]
    header += ["mean change of a cell", "95 % interval"] if several else ["difference", "95 % interval", "change"]
    header += ["n"] + ["cells that differ"] * several
    body = []
    for row in rows.iter_rows(named=True):
        nothing = row["a"] == 0  # a change of nothing has no size; cells where both are nothing would give it one
        change = "-" if nothing or row["change"] is None else format_percent(row["change"])
        whose = {
            "runs": "run",
            "flows": "flow",
            "classes": "class",
            "slowdowns": "pages",
            "hops": "hop",
            "apps": "user",
        }[row["table"]]
        line = [
            format_axis_label(row["measure"], row["table"]),
            f"{whose} {row['part']}".strip(),
            format_number(row["a"]),
            format_number(row["b"]),
        ]
        if several:
            ways = describe_opposite_changes(row)
            low, high = (None, None) if nothing or ways else (row["change_low"], row["change_high"])
            line += [
                ways or change,
                _format_bin_width(low, high, row["resolution"], format_percent)
                or format_interval(low, high, format_percent),
            ]
            line += [str(row["n"]), f"{row['differing']} of {row['cells']}"]
        else:
            half, middle = row["half"], row["difference"]
            ends = (None, None) if half is None else (middle - half, middle + half)
            text = _format_bin_width(ends[0], ends[1], row["resolution"], format_number) or format_interval(
                ends[0], ends[1], format_number
            )
            line += [format_number(middle), text, change, str(row["n"])]
        body.append([*([row["where"]] if cells else []), *line])
    return header, body


def _format_bin_width(low: float | None, high: float | None, width: float | None, text: Callable[[float], str]) -> str:
    """Return ` ± <` and the width of the bin if the interval is narrower, in words by `text`; else nothing."""
    if low is None or high is None or width is None or (high - low) / 2 >= width:
        return ""
    return NARROW + text(width).removeprefix("+")


def _find_resolution(row: dict[str, Any]) -> float | None:
    """Return the width of the histogram's bin of the larger of two means; None of a measure whose values are exact."""
    column = COLUMNS.get(row["table"], {}).get(row["measure"])
    return column.find_resolution(max(row["a"], row["b"])) if column else None


def describe_opposite_changes(row: dict[str, Any]) -> str:
    """Return in words that cells change significantly in both directions, which no mean would tell; else nothing."""
    return (
        f"rises in {format_count(row['rises'], 'cell')}, falls in {row['falls']}"
        if row["rises"] and row["falls"]
        else ""
    )


def describe_opposite_means(rows: pl.DataFrame) -> str:
    """Return in words which means over all cells change in the other direction than their cells do on average."""
    several = rows.filter((pl.col("cells") > 1) & ((pl.col("b") - pl.col("a")) * pl.col("change") < 0))
    names = [
        format_axis_label(row["measure"], row["table"]).partition(",")[0]
        for row in several.iter_rows(named=True)
        if not describe_opposite_changes(row)
    ]
    if not names:
        return ""
    return (
        f"The means A and B of {', '.join(names)} change the other way than the mean change of a cell: each cell has"
        " the same weight in the mean change, while cells with large values dominate A and B"
    )


def _explain_dashes(rows: pl.DataFrame, *, cells: bool) -> list[str]:
    """Return what `-` means in a table of these rows."""
    why = []
    if rows.select((pl.col("a") == 0) | pl.col("change").is_null()).to_series().any():
        why.append("a change of nothing has no size")
    if (rows["n"] < 2).any():
        why.append("an interval needs two runs that are not equal")
    if not cells and any(describe_opposite_changes(row) for row in rows.iter_rows(named=True)):
        why.append("cells that change both ways have no mean change")
    return [f"-: {'; '.join(why)}."] if why else []


def format_percent(share: float) -> str:
    """Return a change in per cent with two significant digits: `+0.65 %`, `+120 %`."""
    text = f"{100 * share:+.2g}"
    return f"{float(text):+.0f} %" if "e+" in text else f"{text} %"


def format_interval(low: float | None, high: float | None, text: Callable[[float], str]) -> str:
    """Return an interval in words, each end by `text`."""
    return "-" if low is None or high is None else f"{text(low)} to {text(high)}"


def compare_results(
    first: StoredResults, second: StoredResults | None = None, *, by: str | None = None, values: Sequence[str] = ()
) -> Diff:
    """Return what differs from `first` to `second` or, within `first`, from one value of the key `by` to the others.

    `by` is a key, of which the first value is the one to compare with, or `KEY=A,B`. `values` are measures; by
    default all. Raises InputError if nothing can be compared.
    """
    if (second is None) == (by is None):
        raise (
            Conflict("a second result and a key", "one of them", command="diff")
            if by
            else Missing("a second result, or a key, by=", command="diff", key="OTHER")
        )
    if second is not None:
        pairs, lines, names = pairing.pair_results(first, second)
        sides = [_stack_measures(first, values), _stack_measures(second, values)]
    else:
        assert by is not None
        if engine := find_compared_engines(by):
            first = first.engine(engine) if first.selected_engine is None else first
        pairs, lines, names = pairing.pair_by_key(first, by)
        sides = [_stack_measures(first, values)] * 2
    return _compare_pairs(sides, pairs, names, lines)


def compare_by_each(results: StoredResults, keys: Sequence[str], values: Sequence[str] = ()) -> dict[str, Diff]:
    """Return `diff` of the same results by each of several keys, or values of keys; they are read once.

    Keys that do not differ alone in any two cells, or with which no measure can be compared, are left out.
    """
    long = _stack_measures(results, values)
    found = {}
    for by in keys:
        with contextlib.suppress(Nothing, Unfit):
            pairs, lines, names = pairing.pair_by_key(results, by)
            found[by] = _compare_pairs([long, long], pairs, names, lines)
    return found


def _compare_pairs(sides: list[pl.DataFrame], pairs: pl.DataFrame, names: tuple[str, str], lines: list[str]) -> Diff:
    a, b = (
        side.join(pairs.select("pair", pl.col(name).alias("cell"), "where"), on="cell", how="inner")
        for side, name in zip(sides, ("a", "b"), strict=True)
    )
    return compare_rows(a, b, names, lines)


def find_compared_engines(by: str | None) -> str | None:
    """Return the engines whose runs a difference by this key is between, where the user names none."""
    return {"engine_version": "all", "kernel": "linux"}.get((by or "").partition("=")[0].strip())


def compare_rows(a: pl.DataFrame, b: pl.DataFrame, names: tuple[str, str], lines: Sequence[str] = ()) -> Diff:
    """Return what differs from `a` to `b`, which have a row a value.

    Their columns are `pair` (the number of a cell), `where` (it in words), `table`, `measure`, `part`, `seed`, `hash`
    and `value`. Raises InputError if they have nothing in common.
    """
    compared = _compare_cells(a, b)
    if compared.is_empty():
        raise Nothing("found no measure that both have", "results with the same cells", command="diff")
    frame, measures = _judge_rows(compared.drop("runs"), a, b)
    return Diff(names, frame, measures, [*lines, _describe_comparison(compared)])


def _describe_comparison(compared: pl.DataFrame) -> str:
    kinds = compared.select("pair", "paired", "n").unique()
    way = "paired seed by seed" if kinds["paired"].all() else "means of different seeds, Welch's test"
    if kinds["paired"].any() and not kinds["paired"].all():
        way = "paired seed by seed where both have the seeds"
    of_cell = compared.group_by("pair").agg(least=pl.col("runs").min(), most=pl.col("runs").max())
    reasons = {
        "runs that are equal count once": (compared["n"] < compared["runs"]).any(),
        "fewer where a run has no value": (of_cell["least"] < of_cell["most"]).any(),
        "fewer where a cell has fewer runs": of_cell["most"].n_unique() > 1,
    }
    why = f" seeds ({'; '.join(one for one, holds in reasons.items() if holds)})" if kinds["n"].n_unique() > 1 else ""
    return f"{format_count(compared['pair'].n_unique(), 'cell')} in both, n = {format_counts(kinds['n'])}{why}; {way}."


def _stack_measures(results: StoredResults, values: Sequence[str]) -> pl.DataFrame:
    """Return every measure of every run: `cell`, `part`, `table`, `measure`, `seed`, `hash`, `value`."""
    wanted = [results.measure(value) for value in values]
    parts = []
    for table in dict.fromkeys([*_TABLES, *(one.table for one in wanted if one.table in _PARTED)]):
        if table not in PARTS and results.of_parts and not values:
            continue
        measures = [m.column for m in wanted if m.table == table] if values else results.measures(table)
        measures = [name for name in measures if name not in _LEFT_OUT or values]
        if table == "runs" and not values and len(results.hops_of_cells) == len(results.configurations):
            measures = [name for name in measures if not is_of_hop(table, name)]  # of each hop
        if not measures:
            continue
        if table not in PARTS:
            results.require_whole_runs(f"{', '.join(measures)} is measured per run", f"measures of {', '.join(PARTS)}")
        rows = results.parts(table, measures)
        if table == "classes" and not values and rows["part"].n_unique() < 2:
            continue  # one class is the whole run
        rows = rows.with_columns(pl.col(measures).cast(pl.Float64))
        if table in _PARTED:
            rows = rows.with_columns(part=_PARTED[table])
        rows = rows if table in PARTS else rows.with_columns(part=pl.lit(""))
        each = rows.group_by("cell", "part", "seed", "hash", maintain_order=True).agg(pl.col(measures).mean())
        long = each.unpivot(measures, index=["cell", "part", "seed", "hash"], variable_name="measure")
        parts.append(long.with_columns(table=pl.lit(table)).drop_nulls("value"))
    if not parts:
        tables = ", ".join(_TABLES)
        raise UnknownName(", ".join(values), among=f"it must be measures of {tables}", option="--value", what="measure")
    return pl.concat(parts)


def _subtract(a: str, b: str) -> pl.Expr:
    """Return the difference b - a of two columns, 0 where it is no more than rounding."""
    apart = pl.col(b) - pl.col(a)
    rounding = _ROUNDING * pl.max_horizontal(pl.col(a).abs(), pl.col(b).abs())
    return pl.when(apart.abs() > rounding).then(apart).otherwise(0.0)


_PLACE = ["pair", "where", "table", "measure", "part"]


def _compare_cells(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """Return means, mean difference and its variance for each cell, measure and part."""
    joined = a.select(*_PLACE, "seed", "hash", "value").join(
        b.select(*_PLACE, "seed", pl.col("value").alias("value_b"), pl.col("hash").alias("hash_b")),
        on=[*_PLACE, "seed"],
    )
    by_seed = joined.group_by(_PLACE, maintain_order=True).agg(
        a=pl.col("value").mean(),
        b=pl.col("value_b").mean(),
        difference=_subtract("value", "value_b").mean(),
        variance=_subtract("value", "value_b").var(),
        n=pl.len(),
        runs=pl.len(),
        unlike=pl.max_horizontal(pl.col("hash").n_unique(), pl.col("hash_b").n_unique()),
    )
    by_seed = by_seed.with_columns(
        # seeds that make the same run say nothing about chance
        n=pl.when(pl.col("unlike") > 1).then("n").otherwise(1),
        paired=pl.lit(value=True),
    ).with_columns(variance=pl.when(pl.col("n") > 1).then(pl.col("variance") / pl.col("n")), freedom=pl.col("n") - 1.0)

    def summarise_side(frame: pl.DataFrame) -> pl.DataFrame:
        found = frame.group_by(_PLACE, maintain_order=True).agg(
            mean=pl.col("value").mean(),
            variance=pl.col("value").var(),
            n=pl.len(),
            runs=pl.len(),
            unlike=pl.col("hash").n_unique(),
        )
        n = pl.when(pl.col("unlike") > 1).then("n").otherwise(1)
        return found.with_columns(n=n).with_columns(
            variance=pl.when(pl.col("n") > 1).then(pl.col("variance") / pl.col("n"))
        )

    means = summarise_side(a).join(summarise_side(b), on=_PLACE, suffix="_b")
    v, w = pl.col("variance"), pl.col("variance_b")
    by_mean = means.select(
        *_PLACE,
        a="mean",
        b="mean_b",
        difference=_subtract("mean", "mean_b"),
        variance=v + w,
        n=pl.min_horizontal("n", "n_b"),
        runs=pl.min_horizontal("runs", "runs_b"),
        paired=pl.lit(value=False),
        freedom=pl.when(v + w > 0)
        .then((v + w) ** 2 / (v**2 / (pl.col("n") - 1) + w**2 / (pl.col("n_b") - 1)))
        .otherwise(pl.min_horizontal("n", "n_b") - 1.0),
    )
    # seeds in common are better than means; one in common is better than none, unless both sides have several
    several = by_mean.filter(pl.col("n") > 1).join(by_seed.filter(pl.col("n") > 1), on=_PLACE, how="anti")
    paired = by_seed.drop("unlike").join(several, on=_PLACE, how="anti")
    other = by_mean.join(paired, on=_PLACE, how="anti")
    names = [*_PLACE, "a", "b", "difference", "paired"]
    columns = [*names, pl.col("n", "runs").cast(pl.Int64), pl.col("variance", "freedom").cast(pl.Float64)]
    return pl.concat([paired.select(columns), other.select(columns)])


def _average_cells(side: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    """Return the mean over the cells of every measure, in units of its size in each cell, for each seed.

    Cells of one sweep draw from the same seeds, so that they are not independent of each other; the seeds are. Of a
    sweep with one seed each cell counts as a seed.
    """
    scaled = side.join(sizes, on=_PLACE).with_columns(pl.col("value") / pl.col("size"))
    if side["seed"].n_unique() < 2:
        return scaled.with_columns(seed=pl.col("pair"), hash=pl.col("hash")).with_columns(_WHOLE)
    each = scaled.group_by("table", "measure", "part", "seed", maintain_order=True).agg(
        pl.col("value").mean(), hash=pl.col("hash").str.join("")
    )
    return each.with_columns(_WHOLE)


_WHOLE = [pl.lit(-1, dtype=pl.Int64).alias("pair"), pl.lit("").alias("where")]


def _judge_rows(compared: pl.DataFrame, a: pl.DataFrame, b: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the comparisons, and those over all cells, each with interval, p and verdict."""
    frame = _decide_verdicts(_compute_tests(compared)).with_columns(
        cells=pl.lit(1), differing=pl.col("differs").cast(pl.Int64)
    )
    frame = frame.with_columns(
        rises=(pl.col("differs") & (pl.col("difference") > 0)).cast(pl.Int64),
        falls=(pl.col("differs") & (pl.col("difference") < 0)).cast(pl.Int64),
    )
    bins = [_find_resolution(row) for row in frame.select("table", "measure", "a", "b").iter_rows(named=True)]
    size = (pl.col("a").abs() + pl.col("b").abs()) / 2
    size = pl.when(size > 0).then(size).otherwise(1.0)
    frame = frame.with_columns(pl.Series("resolution", bins, dtype=pl.Float64))
    of_measure = ["table", "measure", "part"]
    counts = frame.group_by(of_measure, maintain_order=True).agg(
        pl.col("a").mean(),
        pl.col("b").mean(),
        pl.col("differing", "rises", "falls").sum(),
        cells=pl.len(),
        resolution=(pl.col("resolution") / size).mean(),
    )
    several = counts.filter(pl.col("cells") > 1)
    alone = frame.join(counts.filter(pl.col("cells") == 1).select(of_measure), on=of_measure)
    sizes = compared.select(*_PLACE, size=size)
    # a run that the other side lacks would move the mean over cells of its seed
    shared = [one.join(other, on=[*_PLACE, "seed"], how="semi") for one, other in ((a, b), (b, a))]
    if shared[0]["seed"].n_unique() > 1:
        a, b = shared
    scaled = _compare_cells(_average_cells(a, sizes), _average_cells(b, sizes)).join(
        several.select(of_measure), on=of_measure
    )
    scaled = scaled.rename({"difference": "relative", "variance": "relative_variance"}).drop("a", "b", "runs")
    whole = scaled.join(several, on=of_measure).with_columns(difference=_subtract("a", "b"))
    measures = pl.concat([alone, _decide_verdicts(_compute_tests(whole))], how="diagonal_relaxed")
    order = ["differs", "at_least", "size"]
    return frame.sort(order, descending=True), measures.sort(order, descending=True)


def _compute_tests(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with half of the interval, change with its interval, p, and how large the difference is at least.

    Rows over several cells come with `relative` and `relative_variance`: differences in units of the mean of both.
    """
    quantile = make_t_expression(pl.col("freedom"))
    size = (pl.col("a").abs() + pl.col("b").abs()) / 2
    if "relative" not in rows.columns:
        rows = rows.with_columns(
            relative=pl.when(size > 0).then(pl.col("difference") / size).otherwise(0.0),
            relative_variance=pl.when(size > 0).then(pl.col("variance") / size**2).otherwise(0.0),
        )
        rows = rows.with_columns(pl.when(pl.col("variance").is_not_null()).then("relative_variance"))
    enough = (pl.col("freedom") > 0) & pl.col("relative_variance").is_not_null()
    rows = rows.with_columns(relative_half=pl.when(enough).then(quantile * pl.col("relative_variance").sqrt()))
    half = quantile * pl.col("variance").sqrt() if "variance" in rows.columns else pl.lit(None, dtype=pl.Float64)
    low, high = (pl.col("relative") - pl.col("relative_half")), (pl.col("relative") + pl.col("relative_half"))
    of_a = pl.when(pl.col("relative") < 1.999).then(1 - pl.col("relative") / 2)  # A, in units of the mean of both
    rows = rows.with_columns(
        half=pl.when(enough).then(half),
        change=pl.col("relative") / of_a,
        change_low=pl.max_horizontal(low / of_a, pl.when(low.is_not_null() & of_a.is_not_null()).then(-1.0)),
        change_high=high / of_a,
        t=pl.when(enough & (pl.col("relative_variance") > 0)).then(
            pl.col("relative").abs() / pl.col("relative_variance").sqrt()
        ),
    )
    tail = pl.struct("freedom", "t").map_batches(
        lambda s: pl.Series(compute_tails(s.struct.field("freedom").to_numpy(), s.struct.field("t").to_numpy())),
        return_dtype=pl.Float64,
    )
    certain = pl.when(pl.col("relative") == 0).then(1.0).otherwise(0.0)  # every pair the same
    return rows.with_columns(
        p=pl.when(enough).then(pl.when(pl.col("t").is_not_null()).then(tail).otherwise(certain)),
        size=pl.col("relative").abs(),
        at_least=pl.max_horizontal(pl.col("relative").abs() - pl.col("relative_half").fill_null(0.0), pl.lit(0.0)),
    )


def _decide_verdicts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the verdict of each: Benjamini and Hochberg's procedure (1995) over all of them.

    Of equals it says "different" with the chance that it is given, here half of `_FAMILY`: there are two such lists.
    What has no interval, one run on either side, differs if it is not equal but for rounding.
    """
    tested = rows.with_row_index("place").filter(pl.col("p").is_not_null()).sort("p")
    count = tested.height
    good = (tested["p"] <= pl.Series(range(1, count + 1), dtype=pl.Float64) / max(count, 1) * (_FAMILY / 2)).to_list()
    last = max((place for place, holds in enumerate(good) if holds), default=-1)
    decided = {place: number <= last for number, place in enumerate(tested["place"].to_list())}
    unequal = (rows["difference"] != 0).to_list()
    verdicts = [decided.get(place, unequal[place]) for place in range(rows.height)]
    return rows.with_columns(pl.Series("differs", verdicts, dtype=pl.Boolean))
