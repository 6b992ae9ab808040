"""Draws the changes from one value of a key to the others: every measure in per cent, with its interval."""

from collections.abc import Sequence

import polars as pl

from dumbbell import figures
from dumbbell.errors import Missing, Nothing, Unfit, UnknownName, spell_option
from dumbbell.figures import Picture
from dumbbell.plotting.choice import VERSIONS
from dumbbell.plotting.kinds import Kind
from dumbbell.plotting.request import FEW_PANELS, PlotRequest
from dumbbell.results import aggregate, selecting
from dumbbell.results import diff as differing
from dumbbell.results.columns import COLUMNS, is_of_hop
from dumbbell.results.diff import Diff
from dumbbell.results.results import StoredResults
from dumbbell.words import format_count

_MEASURES = (
    *("flows.goodput_mbit", "flows.rtt_mean_ms", "flows.retransmissions"),
    *("runs.utilisation", "runs.jain", "runs.sojourn_mean_ms", "runs.sojourn_p99_ms", "runs.mark_share"),
    "runs.drop_share",
)
_LEAST, _MOST = 5.0, 150.0  # per cent at which an axis may end
_MOST_ROWS = 30


def differences(results: StoredResults, request: PlotRequest) -> Picture:
    """Draw the change of each measure from the baseline, in per cent, with 95 % intervals over seeds.

    A panel is a cell, or all of them together if they are many, and one other value of the baseline's key.
    """
    key, first, others = _choose_sides(results, request)
    values = _choose_values(request, results)
    found = [(text, differing.compare_results(results, by=f"{key}={first},{text}", values=values)) for text in others]
    return _draw_comparisons(found, first, values, f"{results.path}: {key}")


def draw_differences_of_two(results: StoredResults, other: StoredResults, request: PlotRequest) -> Picture:
    """Draw the change of each measure from one results file to another, over the cells that both have."""
    values = _choose_values(request, results, other)
    found = differing.compare_results(results, other, values=values)
    first, second = (one.path.name for one in (results, other))
    names = (first, second) if first != second else (str(results.path), str(other.path))
    return _draw_comparisons([(names[1], found)], names[0], values, names[0])


def _choose_values(request: PlotRequest, *results: StoredResults) -> tuple[str, ...]:
    """Return the measures that are asked for, or those of the usual ones that all results have."""
    some = any(one.of_parts for one in results)  # of some flows, whose runs as a whole are not meant
    names = [name for name in _MEASURES if name.startswith("flows.") or not some]
    if all(len(one.hops_of_cells) == len(one.configurations) for one in results):
        names = [f"hops.{name.partition('.')[2]}" if is_of_hop(*name.split(".")) else name for name in names]
    return request.value or tuple(name for name in names if all(_is_known(one, name) for one in results))


def _draw_comparisons(found: Sequence[tuple[str, Diff]], first: str, values: Sequence[str], place: str) -> Picture:
    """Draw what differs from `first` to each of the others."""
    others = [text for text, _ in found]
    cells = max(one.frame["pair"].n_unique() for _, one in found)
    each = cells * len(others) <= FEW_PANELS
    rows = pl.concat(
        [(one.frame if each else one.measures).with_columns(to=pl.lit(text)) for text, one in found],
        how="diagonal_relaxed",
    )
    known = pl.any_horizontal(pl.col("a", "b") != 0).any().over("table", "measure", "part")
    rows = rows.filter(known).drop_nulls("change").sort("pair", maintain_order=True)
    if rows.is_empty():
        raise Nothing(
            f"found no measure of {first} that can be compared", "other measures, or another baseline", file=place
        )
    names = _name_rows(rows)
    rows = rows.with_columns(name=pl.Series(names, dtype=pl.String))
    order = _order_names(rows, values)
    per_cent = [pl.col(name) * 100 for name in ("change", "change_low", "change_high")]
    shown = rows.filter(pl.col("name").is_in(order)).with_columns(
        *per_cent,
        pl.col("name").cast(pl.Enum(order)),
        pl.col("to").cast(pl.Enum(others)),
        pl.col("where").cast(pl.Enum(list(dict.fromkeys(rows["where"])))),
    )
    ends = shown.select(pl.max_horizontal(pl.col("change", "change_low", "change_high").abs()).max()).item()
    limit = min(max(1.08 * ends, _LEAST), _MOST)
    facet = [name for name in ("to", "where") if shown[name].n_unique() > 1]
    seeds = aggregate.format_counts(shown["n"])
    sure = (
        f"95 % intervals over {seeds} seeds; filled: significant (FDR 5 %)"
        if shown["n"].max() != 1
        else "one seed each"
    )
    return figures.forest(
        shown,
        "name",
        "change",
        low="change_low",
        high="change_high",
        sure="differs",
        facet=facet or None,
        limits=(-limit, limit),
        x_label=f"change from {first}" + f" to {others[0]}" * (len(others) == 1) + ", %",
        title=sure
        + "; arrows: beyond the axis" * (ends > limit)
        + f"; mean over {format_count(cells, 'cell')}" * (not each)
        + "".join(f"; {line[:1].lower()}{line[1:].rstrip('.')}" for line in _list_notes(found))
        + f"; {format_count(len(set(names)) - len(order), 'measure')} left out" * (len(set(names)) > len(order)),
    )


def _list_notes(found: Sequence[tuple[str, Diff]]) -> list[str]:
    """Return what comparisons left out, and in which other keys their sides differ."""
    lines = [line for _, one in found for line in one.lines]
    return list(dict.fromkeys(line for line in lines if line.startswith(("Left out: ", "They differ in "))))


def _name_rows(rows: pl.DataFrame) -> list[str]:
    """Return what each row is called: its measure and, where a measure has several, its flow."""
    parts = rows.group_by("table", "measure").agg(pl.col("part").n_unique() > 1)
    several = dict(zip(parts.select("table", "measure").rows(), parts["part"], strict=True))
    return [
        ", ".join([COLUMNS[table][measure].label, *([part] if several[table, measure] else [])])
        for table, measure, part in rows.select("table", "measure", "part").iter_rows()
    ]


def _order_names(rows: pl.DataFrame, values: Sequence[str]) -> list[str]:
    """Return the names in the order of the measures, the flows of each in theirs; not more than one figure holds."""
    found = rows.select("table", "measure", "part", "name").unique(maintain_order=True).rows()
    wanted = {tuple(name.split(".")): place for place, name in enumerate(values)}
    found.sort(key=lambda row: (wanted.get((row[0], row[1]), len(wanted)), row[2]))
    return list(dict.fromkeys(name for *_, name in found))[:_MOST_ROWS]


def _choose_sides(results: StoredResults, request: PlotRequest) -> tuple[str, str, list[str]]:
    """Return the key, its value to compare with, and its other values."""
    if request.baseline is None:
        known = [one for one in results.dimensions if one.word in VERSIONS]
        if not known:
            raise Missing("KEY=VALUE, the runs from which the others differ", key="--baseline")
        return known[0].name, known[0].ordered[0], known[0].ordered[1:]
    condition = selecting.parse(request.baseline, "--baseline")
    dimension = results.find_key(condition.key, "--baseline")
    meant = selecting.select_dimension_texts(dimension, condition.text, results.configurations, "--baseline")
    if len(meant) != 1:
        raise Unfit(f"{len(meant)} values, {', '.join(meant)}", "one value", option="--baseline", key=condition.key)
    others = [text for text in dimension.ordered if text not in meant]
    if not others:
        raise Unfit(
            f"all runs have {meant[0]}",
            f"a key that varies, or {spell_option('where')}",
            option="--baseline",
            key=condition.key,
        )
    return dimension.name, meant[0], others


def _is_known(results: StoredResults, name: str) -> bool:
    try:
        results.measure(name)
    except UnknownName:
        return False
    return True


DIFFERENCES = Kind(
    "differences",
    differences,
    baseline=True,
    against=False,
    keys=False,
    says_rest=True,
    shows=lambda _: "cells, or the mean over all of them",
)
