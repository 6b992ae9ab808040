"""What was measured in the runs of a report, table by table, as columns that a page can average and sort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from dumbbell.errors import InputError
from dumbbell.plotting.placing import find_common_axes
from dumbbell.report.sources import ReportRuns
from dumbbell.results import aggregate
from dumbbell.results.aggregate import SEED, Axis
from dumbbell.results.columns import COLUMNS, PARTS, format_axis_label, is_of_hop

_TABLES = ("runs", "flows", "apps", "classes", "slowdowns", "hops")
_DIGITS = 6  # significant, of values in the page
# what a run has done rather than measured, and what it was given
_LEFT_OUT = ("number", "events", "short_flows_kept", "start_s", "class", "flows", "to_bytes", "valid")


@dataclass
class ReportTable:
    """Measures of runs or of their parts: one row per run and combination of `axes`; flows that are alike are one."""

    name: str
    axes: list[Axis]
    frame: pl.DataFrame
    """Columns `run`, the place of the text of each axis, and the measures."""
    measures: list[str]

    @property
    def of(self) -> str:
        """What one value belongs to."""
        return PARTS[self.name][0] if self.name in PARTS else "run"


def make_tables(runs: ReportRuns) -> list[ReportTable]:
    """Return the tables that these runs have rows of; measures without any value are left out."""
    found = [_make_table(runs, name) for name in _TABLES]
    several = [one for one in found if one is not None]
    # one class in every run is the whole run
    return [one for one in several if one.name != "classes" or one.axes]


def _make_table(runs: ReportRuns, name: str) -> ReportTable | None:
    frames: list[pl.DataFrame] = []
    axes: list[list[Axis]] = []
    keys = {key.name for key in runs.keys} | {one.name for s in runs.sources for one in s.results.dimensions}
    for number, source in enumerate(runs.sources):
        columns = [column for column in source.results.measures(name) if column not in _LEFT_OUT]
        if runs.have_hops:
            columns = [column for column in columns if not is_of_hop(name, column)]  # of each hop
        if not columns or source.results.frame(name).is_empty():
            continue
        try:
            found = aggregate.collect_rows(source.results, name, columns)
        except InputError:  # such as of hops, where each run has one
            continue
        parts = [axis for axis in found.axes if axis.name not in keys]
        axes.append(parts)
        rows = found.frame.with_columns(pl.col(columns).cast(pl.Float64))
        rows = rows.group_by("key", SEED, *(axis.name for axis in parts), maintain_order=True).agg(
            pl.col(columns).mean()
        )
        frames.append(
            rows.drop(SEED).join(runs.select_source(number), on="key", how="inner", maintain_order="left").drop("key")
        )
    if not frames:
        return None
    whole = pl.concat(frames, how="diagonal_relaxed")
    several = []
    for axis in find_common_axes(axes):
        texts = whole[axis.name].fill_null("-")
        known = [*axis.texts, *(["-"] if (texts == "-").any() and "-" not in axis.texts else [])]
        if len(known) < 2:
            whole = whole.drop(axis.name)
            continue
        place = {text: code for code, text in enumerate(known)}
        whole = whole.with_columns(pl.Series(axis.name, [place[text] for text in texts.to_list()], dtype=pl.Int32))
        several.append(Axis(axis.name, known, axis.numbers, axis.unit))
    measures = [
        column
        for column in COLUMNS[name]
        if column in whole.columns and column not in {axis.name for axis in several} and whole[column].is_finite().any()
    ]
    return ReportTable(name, several, whole.sort("run", maintain_order=True), measures) if measures else None


def round_values(values: pl.Series) -> list[float | int | None]:
    """Return numbers with six significant digits, whole ones as such; None for what JSON does not have."""
    finite = values.set(~values.is_finite(), None).round_sig_figs(_DIGITS)
    return [None if one is None else int(one) if one == int(one) else one for one in finite.to_list()]


def to_data(table: ReportTable) -> dict[str, Any]:
    """Return a table as the page has it: columns of numbers."""
    measures = [
        {
            "name": name,
            "label": format_axis_label(name, table.name),
            "doc": COLUMNS[table.name][name].doc,
            "most": COLUMNS[table.name][name].most,
            "values": round_values(table.frame[name]),
        }
        for name in table.measures
    ]
    axes = [
        {
            "name": axis.name,
            "label": axis.label,
            "texts": axis.texts,
            "numbers": None if axis.numbers is None else [axis.numbers.get(text) for text in axis.texts],
            "codes": table.frame[axis.name].to_list(),
        }
        for axis in table.axes
    ]
    return {
        "name": table.name,
        "of": table.of,
        "run": table.frame["run"].to_list(),
        "axes": axes,
        "measures": measures,
    }
