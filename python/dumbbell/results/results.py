"""The measurements in the runs of a results file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from dumbbell.errors import Needs, UnknownName, WrongValue, find_nearest
from dumbbell.experiment import other_names
from dumbbell.results import parts
from dumbbell.results.columns import PARTS, format_axis_label, is_of_hop
from dumbbell.results.frames import ResultTables
from dumbbell.results.runs import Runs
from dumbbell.results.store import TABLES
from dumbbell.results.versions import name_kernels
from dumbbell.words import format_count

SHORT = {
    "goodput": "goodput_mbit",
    "throughput": "throughput_mbit",
    "rtt": "rtt_mean_ms",
    "sojourn": "sojourn_mean_ms",
    "delay": "delay_mean_ms",
    "jitter": "jitter_mean_ms",
    "backlog": "backlog_mean_packets",
    "relative": "relative_throughput",
    "slowdown": "slowdown_mean",
    "completion": "completion_mean_s",
    "marks": "ce_marks",
    "convergence": "convergence_s",
}
OF_TRAFFIC = tuple(name for name in PARTS if name != "hops")  # of which conditions on flows and classes keep some
_DESCRIPTIVE = (
    "key",
    "cell",
    "experiment",
    "title",
    "seed",
    "number",
    "matrix",
    "config",
    "engine_version",
    "kernel",
    "given",
    "hash",
    "wall_s",
)


_OVER_OWN_TIME = ("goodput_mbit", "throughput_mbit")
_ALIKE = 0.1  # share of a run by which starts and ends may differ, and count as the same time


def _has_unlike_times(config: dict[str, Any]) -> bool:
    """Return whether bulk flows start, or are to end, at times that a reader has to know of."""
    duration = config["duration"]
    flows = config["flows"]
    starts = [one["start"][end] for one in flows for end in ("min", "max")]
    ends = [one.get("stop") or duration for one in flows]
    unlike = max((max(times) - min(times) for times in (starts, ends) if times), default=0)
    return unlike > _ALIKE * duration or any(one.get("size") for one in flows)


@dataclass(frozen=True)
class Measure:
    """A column of a table of the store."""

    table: str
    column: str
    hop: str = ""
    """The hop at which it was measured, if the runs have several and it is of one of them."""
    unlike_times: bool = False
    """Whether it is a rate over each flow's own time, in runs whose flows send at unlike times."""

    @property
    def label(self) -> str:
        """What it is in words with its unit, and of which hop."""
        label = format_axis_label(self.column, self.table)
        if self.unlike_times:
            words, _, unit = label.rpartition(", ")
            label = f"{words}, each over its own time, {unit}"
        return f"{label}, of {self.hop}" if self.hop else label

    @property
    def of(self) -> str:
        """What one value belongs to: a run, a flow, a class."""
        return PARTS[self.table][0] if self.table in PARTS else "run"


class StoredResults(ResultTables, Runs):
    """Runs of a results file and what was measured in them, as frames and as tables of the file."""

    def measures(self, table: str) -> list[str]:
        """Return the columns of a table that are measures."""
        parts = PARTS.get(table, ("", ()))[1]
        numeric = ("DOUBLE", "BIGINT", "INTEGER", "BOOLEAN")
        own = [c for c, kind in self._source.columns[table].items() if kind in numeric]
        return [c for c in own if c not in _DESCRIPTIVE and c not in parts]

    def measure(self, name: str, of: str | None = None, *, by_part: Sequence[str] = ()) -> Measure:
        """Return the column that `name` means, such as `goodput`, `sojourn_p99` or `flows.drops`; else InputError.

        What runs and their parts both have is the run's, unless `of` names the table or a key in `by_part` is one of
        parts only. What is measured at hops is of each hop as soon as all runs have several.
        """
        head, dot, tail = name.rpartition(".")
        if dot and head in TABLES:
            of, name = head, tail
        tables = [of] if of else ["runs", *PARTS]
        if of is None and by_part:
            tables = [table for table in PARTS if all(key in PARTS[table][1] for key in by_part)] + tables
        if of is None and self._selection.of_parts and self._parts["flow"].null_count() == self._parts.height:
            tables = [table for table in tables if table != "flows"]  # of short flows there are classes only
        for table in tables:
            if name == "delay" and not any(config.get("udp") for config in self._configs.values()):
                break  # the short name is of one-way delays of UDP, which nothing has
            for candidate in (name, SHORT.get(name, name)):
                if candidate in self.measures(table):
                    return self._complete_label(Measure(table, candidate), asked=of)
        known = list(dict.fromkeys(column for table in tables for column in self.measures(table)))
        meant = other_names.find_measures(name, known)
        for table in tables if not meant else ():
            close = [column for column in self.measures(table) if column.startswith(f"{name}_")]
            if len(close) == 1:
                return self._complete_label(Measure(table, close[0]), asked=of)
        short = [word for word, column in SHORT.items() if column in known]
        near = meant[0] if meant else find_nearest(name, [*known, *short])
        also = "; ".join(f"{one} is {format_axis_label(one)}" for one in meant)
        others = [table for table in ("runs", *PARTS) if {name, SHORT.get(name, name)} & set(self.measures(table))]
        if of is not None and others:
            also = f"{' or '.join(f'--of {table}' for table in others)} has it"
        if name.startswith("ping"):
            also = "--where kind=udp keeps pings; of kinds, series and cdf draw pings"
        raise UnknownName(name, among=known, file=self.path, option="--value", nearest=near, what="measure", also=also)

    def _complete_label(self, measure: Measure, asked: str | None = None) -> Measure:
        """Return a measure with what its label has to say: unlike times of flows, its hop.

        A measure of runs is that of each hop if all runs have several; if only some have, it says its hop.
        """
        if measure.table == "flows" and measure.column in _OVER_OWN_TIME:
            return replace(measure, unlike_times=any(map(_has_unlike_times, self._configs.values())))
        if not is_of_hop(measure.table, measure.column) or not self.hops_of_cells:
            return measure
        if asked is None and len(self.hops_of_cells) == len(self._configs):
            return Measure("hops", measure.column)
        return Measure(measure.table, measure.column, "bottleneck")

    def frame(self, name: str) -> pl.DataFrame:
        """Return the rows of one of the tables that belong to these runs."""
        if name not in TABLES:
            raise UnknownName(name, among=TABLES, file=self.path, what="table")
        return self._select_part_rows(name, self._read(name))

    def parts(self, table: str, columns: Sequence[str]) -> pl.DataFrame:
        """Return `columns` of a table, with `key`, `cell`, `seed`, `hash` and, of parts of runs, their label `part`.

        A label says what distinguishes the parts of one run: "cubic" and "reno". Parts that are alike share it. Of
        `series` and `trace` a column may also be one of the flow itself, such as `start_s`. What the engine does not
        measure is missing in every row.
        """
        index = self._index.select("key", "cell", "seed", "hash").with_row_index("place")
        own = [c for c in (*PARTS.get(table, ("", ()))[1], "flow", "class") if c in self._source.columns[table]]
        names = list(dict.fromkeys([*own, *columns]))
        others = [name for name in names if name not in self._source.columns[table]]
        of_flow = [name for name in others if table in parts.OF_FLOWS and name in self._source.columns["flows"]]
        rows = self._source.read(table, index, [name for name in names if name not in others])
        if of_flow:
            flows = self._source.read("flows", index.select("key"), ["flow", *of_flow])
            rows = rows.join(flows, on=["key", "flow"], how="left", maintain_order="left")
        absent = [pl.lit(None, pl.Float64).alias(name) for name in others if name not in of_flow]
        rows = rows.with_columns(absent).select(*index.columns, *names)
        rows = self._select_part_rows(table, rows).with_columns(pl.selectors.float().fill_nan(None))
        if table not in (*parts.OF_FLOWS, *parts.OF_CLASSES):
            return rows
        part, name = ("flow", "which") if table in parts.OF_FLOWS else ("class", "class_which")
        known = self._parts.filter(pl.col(part).is_not_null()).unique(["cell", part], keep="first", maintain_order=True)
        other = [c for c in ("class", "kind", "cc", "direction", "base_rtt_ms", "cc_text") if c not in rows.columns]
        known = known.select("cell", part, *other, pl.col(name).alias("part"))
        return rows.join(known, on=["cell", part], how="left", maintain_order="left")

    def tidy(
        self,
        of: Literal["flows", "runs", "classes", "slowdowns", "short_flows", "hops"] = "flows",
        keys: Sequence[str] | Mapping[str, str] | None = None,
    ) -> pl.DataFrame:
        """Return one row per cell, seed and flow (or what else `of` names), with `keys`: by default all that differ.

        Keys are typed columns whose names end in their unit: `bottleneck.rate_mbit`, `flows[*].base_rtt_ms`. A mapping
        names columns itself, and what is unset is null there. Where there are runs on Linux, `kernel` has the names of
        the kernels.
        """
        if not isinstance(of, str) or of not in ("runs", *PARTS):
            raise UnknownName(str(of), among=["runs", *PARTS], file=self.path, key="of", what="table")
        if of not in (*parts.OF_FLOWS, *parts.OF_CLASSES):
            self.require_whole_runs(f"table {of} lists whole runs", f"table {', '.join(OF_TRAFFIC)}")
        rows = self.parts(of, self.measures(of))
        orders = [{text: i for i, text in enumerate(one.ordered)} for one in self.dimensions]
        places = {
            cell: tuple(order[one.texts[cell]] for one, order in zip(self.dimensions, orders, strict=True))
            for cell in self._configs
        }
        cells = pl.DataFrame({"cell": sorted(places, key=places.__getitem__)}).with_row_index("cell place")
        if isinstance(keys, Mapping):
            found = {name: self.find_exact_key(key, "keys") for name, key in keys.items()}
            rows = rows.drop(found, strict=False)
        else:
            wanted = self.varying if keys is None else [self.find_key(name, "keys") for name in dict.fromkeys(keys)]
            already = ("experiment", "engine_version", "kernel", *rows.columns)
            found = {one.column: one for one in wanted if one.column not in already}
        columns = [
            pl.Series(name, [one.values[cell] for cell in cells["cell"]], strict=False) for name, one in found.items()
        ]
        described = self._index.select("key", "experiment", "engine_version")
        if self._source.kernels:  # of those runs that have one
            names = name_kernels(self.engines, self._source.kernels)
            described = described.with_columns(kernel=pl.col("engine_version").replace_strict(names))
        last = [name for name in ("engine_version", "kernel", "key") if name in described.columns]
        whole = rows.join(cells.with_columns(columns), on="cell", maintain_order="left").join(
            described, on="key", maintain_order="left"
        )
        whole = whole.sort("cell place", "seed", maintain_order=True).drop("cell place")
        if "part" in whole.columns:
            whole = whole.rename({"part": "which"})
        front = ["experiment", *found, "seed", *(["which"] if "which" in whole.columns else [])]
        own = [*self._source.columns[of], *front]
        rest = [c for c in whole.columns if c in own and c not in (*front, *last)]
        return whole.select(*front, *rest, *last)

    def sql(self, query: str, **frames: Any) -> pl.DataFrame:
        """Return what an SQL query (DuckDB) gives; `frames` are tables of yours.

        The tables hold these runs, as `keys` lists them: those of one engine, unless several were asked for, and what
        `where` keeps of them. A warning says what engines are left out.
        """
        for note in self._left_out:
            warnings.warn(f'sql sees {format_count(len(self), "run")}; {note}; engine("all") has all', stacklevel=2)
        tables = (*parts.OF_FLOWS, *parts.OF_CLASSES) if self._selection.of_parts else ()
        only = {"slowdowns"} if any(one.key == "from_bytes" for one in self._selection.of_parts) else set(tables)
        kept = {}
        for table in tables:
            own = ["key", "flow" if table in parts.OF_FLOWS else "class"]
            own += ["from_bytes"] * (table == "slowdowns")
            rows = self._read(table).select(own)
            kept[table] = (self._select_part_rows(table, rows) if table in only else rows.clear()).unique()
        mine = {name: convert_to_polars(one) for name, one in frames.items()}
        with self._source.open() as store:
            return store.run_query(query, self._index.select("key"), mine, kept)

    # how it looks

    def _summarise(self) -> list[tuple[str, str]]:
        seeds = self._index["seed"].n_unique()
        rows = [("runs", f"{len(self)}, {format_count(len(self._configs), 'cell')}, {format_count(seeds, 'seed')}")]
        rows += [(one.name, _join_words(one.ordered)) for one in self.dimensions]
        return rows + [("", note) for note in (self.differ_as_well, *self.notes) if note]

    def __repr__(self) -> str:
        if self._all.is_empty():
            return f"Results({self.path.name}: no finished run)"
        rows = self._summarise()
        width = max(len(name) for name, _ in rows)
        return "\n".join([f"Results({self.path.name})", *(f"  {name:{width}}  {text}".rstrip() for name, text in rows)])

    def _repr_html_(self) -> str:
        from html import escape

        if self._all.is_empty():
            return escape(repr(self))
        rows = "".join(f"<tr><th>{escape(n)}</th><td>{escape(t)}</td></tr>" for n, t in self._summarise())
        return f"<b>{escape(self.path.name)}</b><table>{rows}</table>"


def _join_words(texts: list[str]) -> str:
    comma = "; " if any("," in text for text in texts) else ", "
    return (
        comma.join(texts) if len(texts) <= 8 else f"{comma.join(texts[:4])}{comma}… {texts[-1]} ({len(texts)} values)"
    )


def convert_to_polars(frame: Any) -> pl.DataFrame:
    """Return a frame of Polars, Arrow, pandas or whatever polars reads; raises InputError if it is none."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    try:
        return pl.DataFrame(frame)
    except ModuleNotFoundError:
        raise Needs("the package pyarrow for one of pandas", "pip install 'dumbbell[pandas]'", key="frame") from None
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise WrongValue(
            f"not readable ({str(error).splitlines()[0]})", "a frame of Polars, Arrow or pandas", key="frame"
        ) from None
