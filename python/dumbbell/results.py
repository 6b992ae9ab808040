"""A results file as its reader sees it: which runs are meant, what tells them apart, what was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from dumbbell import dimensions as dims
from dumbbell import matrix, schema
from dumbbell.dimensions import Dimension
from dumbbell.errors import InputError, nearest
from dumbbell.experiment import param_of, parse_setting
from dumbbell.labels import group_labels, numbered
from dumbbell.scratch import Scratch
from dumbbell.store import TABLES, Store
from dumbbell.versions import chosen

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from dumbbell.diff import Diff
    from dumbbell.sweep import Report

SHORT = {
    "goodput": "goodput_mbit",
    "throughput": "throughput_mbit",
    "rtt": "rtt_mean_ms",
    "sojourn": "sojourn_mean_ms",
    "backlog": "backlog_mean_packets",
    "relative": "relative_throughput",
    "slowdown": "slowdown_mean",
    "completion": "completion_mean_s",
    "marks": "ce_marks",
    "convergence": "convergence_s",
}
# tables whose rows are parts of a run: what one is called, and the columns that tell the parts of a run apart
PARTS = {
    "flows": ("flow", ("flow", "cc", "base_rtt_ms")),
    "classes": ("class", ("class", "kind", "cc", "base_rtt_ms")),
    "slowdowns": ("class and range of sizes", ("class", "from_bytes")),
    "short_flows": ("short flow", ("class",)),
}
OF_RUN = ("experiment", "title", "seed", "engine_version")
_DESCRIPTIVE = (
    "key",
    "cell",
    "experiment",
    "title",
    "seed",
    "matrix",
    "config",
    "engine_version",
    "kernel",
    "hash",
    "wall_s",
)
_REMEDY = 'nothing in them is random; a start such as { uniform = ["0s", "1s"] } or jitter draws'
_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True)
class Measure:
    """A column of a table of the store."""

    table: str
    column: str

    @property
    def of(self) -> str:
        """What one value belongs to: a run, a flow, a class."""
        return PARTS[self.table][0] if self.table in PARTS else "run"


@dataclass(frozen=True)
class Condition:
    """A key, and the texts of its values that are meant."""

    key: str
    texts: tuple[str, ...]


class Results:
    """Runs of a results file: nothing is read before it is asked for, and the file is open only meanwhile.

    Made by `dumbbell.open` and `dumbbell.run`. It means the runs of one version of the engine, unless several are asked
    for: `notes` names what is left out.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        keys: Iterable[str] | None = None,
        engine: str | None = None,
        report: Report | None = None,
        folder: Scratch | None = None,
    ) -> None:
        self.path = Path(path)
        self.report = report
        self._folder = folder  # of results that are kept nowhere else; removed with the last Results that knows it
        self._engine = engine
        self._keys = None if keys is None else list(keys)
        self._of_parts: tuple[Condition, ...] = ()
        with Store.open(self.path):
            pass

    # which runs

    @cached_property
    def _all(self) -> pl.DataFrame:
        """One row a run of the file, in the order of the file: what describes it, without its configuration."""
        with Store.open(self.path) as store:
            rows = store.read(
                "SELECT key, experiment, title, seed, matrix, engine_version, hash, cell, rowid AS place FROM runs"
            )
        rows = rows.sort("place")
        if self._keys is not None:
            wanted = pl.DataFrame({"key": self._keys}, schema={"key": pl.String})
            rows = wanted.join(rows, on="key", how="inner", maintain_order="left")
        return rows

    @cached_property
    def _index(self) -> pl.DataFrame:
        """The rows of `_all` that are meant."""
        rows = self._all
        if rows.is_empty():
            raise InputError(str(self.path), "", "no finished run", "results of at least one run")
        # the one that made the last run comes last
        versions = rows["engine_version"].reverse().unique(maintain_order=True).to_list()[::-1]
        if self._engine != "all":
            wanted = chosen(versions, self._engine) if self._engine else (chosen(versions, "sim") or versions[-1])
            if wanted is None:
                raise InputError(str(self.path), "engine_version", str(self._engine), ", ".join([*versions, "all"]))
            rows = rows.filter(pl.col("engine_version") == wanted)
        if rows["engine_version"].n_unique() > 1:
            rows = rows.with_columns(cell=pl.col("cell") + " " + pl.col("engine_version"))
        return rows.sort("experiment", "matrix", "cell", "seed", maintain_order=True)

    @property
    def notes(self) -> list[str]:
        """What to know of these results, a line each: what is left out, and seeds that make no difference."""
        meant = set(self._index["engine_version"])
        left = self._all.filter(~pl.col("engine_version").is_in(list(meant)))
        counts = left.group_by("engine_version", maintain_order=True).len().rows()
        notes = [f"left out: {count} runs of engine {version}" for version, count in counts]
        identical, several = self.identical
        if identical:
            notes.append(f"in {identical} of {several} cells all seeds made the same run: {_REMEDY}")
        return notes

    def __len__(self) -> int:
        return self._index.height

    @property
    def keys(self) -> list[str]:
        """The keys of the runs, as in column `key` of every table."""
        return self._index["key"].to_list()

    @property
    def engines(self) -> list[str]:
        """The versions of the engine that made these runs."""
        return self._index["engine_version"].unique(maintain_order=True).to_list()

    @property
    def seeds(self) -> list[int]:
        """The seeds of these runs, ascending."""
        return sorted(self._index["seed"].unique().to_list())

    @property
    def configurations(self) -> dict[str, dict[str, Any]]:
        """The resolved configuration of each cell; its seed is that of one of the runs."""
        return self._configs

    @property
    def cells(self) -> pl.DataFrame:
        """One row a cell: `cell`, `experiment`, `engine_version`, `matrix` (JSON)."""
        rows = self._index.unique("cell", keep="first", maintain_order=True)
        return rows.select("cell", "experiment", "engine_version", "matrix")

    def cell_texts(self) -> dict[str, str]:
        """Return for each cell in words what tells it from the others."""
        return {cell: ", ".join(one.said(one.texts[cell]) for one in self.dimensions) for cell in self._configs}

    @cached_property
    def _configs(self) -> dict[str, dict[str, Any]]:
        """The configuration of each cell; the seed in it is that of its first run."""
        wanted = self._index.unique("cell", keep="first", maintain_order=True).select("cell", "key")
        with Store.open(self.path) as store:
            texts = store.read("SELECT key, config FROM runs JOIN wanted USING (key)", wanted=wanted)
        by_key = dict(texts.rows())
        return {cell: json.loads(by_key[key]) for cell, key in wanted.rows()}

    @cached_property
    def dimensions(self) -> list[Dimension]:
        """The keys by which the cells of these results differ; a cell is what only seeds may differ in."""
        return dims.dimensions(self.cells, self._configs)

    @cached_property
    def matrix_keys(self) -> list[str]:
        """Keys of the matrices of all experiments, in order."""
        texts = self._index["matrix"].unique(maintain_order=True)
        return list(dict.fromkeys(key for text in texts for key in json.loads(text)))

    # keys

    def _config_path(self, name: str) -> matrix.Path | None:
        """Return the path that `name` means: a dotted key, or the end of a key of the matrix or of a section."""
        try:
            path = matrix.parse_path(name)
        except InputError:
            return None

        def known(key: matrix.Path) -> bool:
            return any(matrix.get_path(config, key) for config in self._configs.values())

        if name in ("cc", "base_rtt") and known(("flows", matrix.EVERY, name)):
            return ("flows", matrix.EVERY, name)
        if known(path):
            return path
        ends = [key for key in self.matrix_keys if key.split(".")[-1] == name]
        ends = ends or [one.name for one in self.dimensions if one.path and one.word == name]
        sections, others = (
            [f"{s}.{name}" for s in of if known(matrix.parse_path(f"{s}.{name}"))]
            for of in (("bottleneck", "bottleneck.aqm", "hosts", "flows[*]"), ("web[*]", "udp[*]"))
        )
        for candidates in (ends, sections, others):
            if len(candidates) == 1:
                return matrix.parse_path(candidates[0])
        return None

    def key(self, name: str, option: str = "key") -> Dimension:
        """Return the values of a key of runs, whether or not they differ; InputError if there is no such key."""
        if found := next((one for one in self.dimensions if name == one.name), None):
            return found
        if name in ("experiment", "title", "engine_version"):
            cells = self._index.unique("cell", keep="first", maintain_order=True)
            return dims.column_of(name, dict(cells.select("cell", name).rows()))
        path = self._config_path(name)
        if path is None:
            raise self._no_key(name, option)
        return dims.dimension_of(name, path, self._configs)

    def has_key(self, name: str) -> bool:
        """Whether there is such a key of runs."""
        return any(name == one.name for one in self.dimensions) or self._config_path(name) is not None

    def _no_key(self, name: str, option: str) -> InputError:
        own = [*self.matrix_keys, *(one.name for one in self.dimensions), *OF_RUN, "flow", "cc", "base_rtt"]
        known = list(dict.fromkeys(own))
        words = [*known, *(key.rpartition(".")[2] for key in known)]
        return InputError(
            str(self.path), option, name, f"{', '.join(known)}, any other key of a run", nearest(name, words)
        )

    def is_of_runs(self, name: str) -> bool:
        """Whether a key has one value in each run, as `cc` has where all flows of a run have the same."""
        try:
            dimension = self.key(name)
        except InputError:
            return False
        return not any(" / " in text for text in dimension.texts.values())

    @property
    def of_parts(self) -> list[str]:
        """The keys of those conditions that keep some flows or classes of the runs."""
        return [condition.key.removesuffix("_ms") for condition in self._of_parts]

    def where(self, *conditions: str, **values: Any) -> Results:
        """Return only what meets every `KEY=VALUE[,VALUE...]`; values in any unit: 20000kbit is 20Mbit.

        Conditions on `flow`, `class`, `cc` and `base_rtt` keep those flows or classes of the runs. Raises InputError.
        """
        pairs = [_split(text) for text in conditions] + [(key, str(value)) for key, value in values.items()]
        found = self
        for key, text in pairs:
            found = found._met(key, text)
        return found

    def _met(self, key: str, text: str) -> Results:
        if key == "engine_version":
            return self._with(self._all.filter(pl.col("engine_version") == text)["key"], engine=text)
        if key == "seed":
            wanted = [part.strip() for part in text.split(",")]
            seeds = self._index["seed"].cast(pl.String)
            _require(wanted, seeds.unique(maintain_order=True).to_list(), key)
            return self._with(self._index.filter(seeds.is_in(wanted))["key"])
        column = "base_rtt_ms" if key == "base_rtt" else key
        if any(column in columns for _, columns in PARTS.values()) and not self.is_of_runs(key):
            return self._of_part(column, text)
        dimension = self.key(key, "--where")
        meant = _wanted(dimension, text, self._configs)
        cells = [cell for cell, of_cell in dimension.texts.items() if of_cell in meant]
        return self._with(self._index.filter(pl.col("cell").is_in(cells))["key"])

    def _of_part(self, column: str, text: str) -> Results:
        other = self._with(self._index["key"])
        texts = []
        for part in split_values(text):
            if column == "base_rtt_ms" and not part.strip().replace(".", "", 1).isdigit():
                param = param_of(("flows", 0, "base_rtt"))
                assert param is not None
                texts.append(f"{schema.canonical(param, part.strip()) / 1e6:g}")
            else:
                texts.append(part.strip())
        other._of_parts = (*self._of_parts, Condition(column, tuple(texts)))
        return other

    def _with(self, keys: Iterable[str], engine: str | None = None) -> Results:
        """Return some of the runs of the file; what is known of them is not read again."""
        other = self.engine(engine or ("all" if len(self.engines) > 1 else self.engines[0]))
        other._keys = list(keys)
        wanted = pl.DataFrame({"key": other._keys}, schema={"key": pl.String})
        other.__dict__["_all"] = wanted.join(self._all, on="key", how="inner", maintain_order="left")
        return other

    def engine(self, version: str) -> Results:
        """Return the runs of another version of the engine, or of `all` of them."""
        other = object.__new__(Results)
        other.path, other.report, other._folder = self.path, self.report, self._folder
        other._engine, other._keys, other._of_parts = version, self._keys, self._of_parts
        return other

    # what was measured

    @cached_property
    def _columns(self) -> dict[str, dict[str, str]]:
        """Names and types of the columns of every table."""
        with Store.open(self.path) as store:
            return {table: store.types(table) for table in TABLES}

    def measures(self, table: str) -> list[str]:
        """Return the columns of a table that are measures."""
        parts = PARTS.get(table, ("", ()))[1]
        numeric = ("DOUBLE", "BIGINT", "INTEGER", "BOOLEAN")
        own = [c for c, kind in self._columns[table].items() if kind in numeric]
        return [c for c in own if c not in _DESCRIPTIVE and c not in parts]

    def measure(self, name: str, of: str | None = None, *, by_part: Sequence[str] = ()) -> Measure:
        """Return the column that `name` means, such as `goodput`, `sojourn_p99` or `flows.drops`; else InputError.

        What runs and their parts both have is the run's, unless `of` names the table or a key in `by_part` is one of
        parts only.
        """
        head, dot, tail = name.rpartition(".")
        if dot and head in TABLES:
            of, name = head, tail
        tables = [of, "runs"] if of else ["runs", *PARTS]
        if of is None and by_part:
            tables = [table for table in PARTS if all(key in PARTS[table][1] for key in by_part)] + tables
        for table in tables:
            for candidate in (name, SHORT.get(name, name)):
                if candidate in self.measures(table):
                    return Measure(table, candidate)
        for table in tables:
            close = [column for column in self.measures(table) if column.startswith(f"{name}_")]
            if len(close) == 1:
                return Measure(table, close[0])
        known = list(dict.fromkeys(column for table in tables for column in self.measures(table)))
        short = [word for word, column in SHORT.items() if column in known]
        raise InputError(str(self.path), "--value", name, ", ".join(known), nearest(name, [*known, *short]))

    def table(self, *args: Any, **options: Any) -> Any:
        """See `dumbbell.tables.table`: a table of means with their intervals, any key by any other."""
        from dumbbell import tables

        return tables.table(self, *args, **options)

    def frame(self, name: str) -> pl.DataFrame:
        """Return the rows of one of the tables that belong to these runs."""
        if name not in TABLES:
            raise InputError(str(self.path), "table", name, ", ".join(TABLES), nearest(name, TABLES))
        wanted = self._index.select("key").with_row_index("place")
        with Store.open(self.path) as store:
            rows = store.read(
                f"SELECT t.* FROM {name} t JOIN wanted USING (key) ORDER BY place, t.rowid", wanted=wanted
            )
        return self._kept(name, rows)

    def _kept(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that meet the conditions on parts of runs."""
        for condition in self._of_parts:
            if table == "series" and condition.key in PARTS["flows"][1]:
                return rows.join(self.frame("flows"), on=["key", "flow"], how="semi", maintain_order="left")
            if condition.key not in rows.columns or table not in PARTS:
                continue
            texts = pl.Series([_text(value) for value in rows[condition.key].to_list()], dtype=pl.String)
            _require(condition.texts, texts.unique(maintain_order=True).to_list(), condition.key.removesuffix("_ms"))
            rows = rows.filter(texts.is_in(list(condition.texts)))
        return rows

    runs = property(lambda self: self.frame("runs"), doc="One row a run: configuration, seed, queue and link.")
    flows = property(lambda self: self.frame("flows"), doc="One row a flow or source of UDP of a run.")
    classes = property(lambda self: self.frame("classes"), doc="One row a class of traffic of a run.")
    series = property(lambda self: self.frame("series"), doc="One row a flow and interval of a run.")
    queue_series = property(lambda self: self.frame("queue_series"), doc="One row an interval of a run: the queue.")
    sojourn = property(lambda self: self.frame("sojourn"), doc="One row a class and bin of times in queue.")
    rtt = property(lambda self: self.frame("rtt"), doc="One row a class and bin of RTT samples.")
    short_flows = property(lambda self: self.frame("short_flows"), doc="One row a short flow of a run.")
    slowdowns = property(lambda self: self.frame("slowdowns"), doc="One row a class and range of sizes of a run.")
    trace = property(lambda self: self.frame("trace"), doc="One row a flow and change or interval: its control.")

    def parts(self, table: str, columns: Sequence[str]) -> pl.DataFrame:
        """Return `columns` of a table, with `key`, `cell`, `seed`, `hash` and, of parts of runs, their label `part`.

        A label says what tells the parts of one run apart: "cubic" beside "reno". Parts that are alike share it.
        """
        index = self._index.select("key", "cell", "seed", "hash").with_row_index("place")
        own = [c for c in (*PARTS.get(table, ("", ()))[1], "flow", "class") if c in self._columns[table]]
        names = list(dict.fromkeys([*own, *columns]))
        listed = ", ".join(f't."{name}"' for name in names)
        with Store.open(self.path) as store:
            rows = store.read(
                f"SELECT wanted.*, {listed} FROM {table} t JOIN wanted USING (key) ORDER BY place, t.rowid",
                wanted=index,
            )
        rows = self._kept(table, rows).with_columns(pl.selectors.float().fill_nan(None))
        if table in ("flows", "series"):
            return _with_groups(rows, self._flow_groups)
        if "class" in rows.columns:
            return rows.join(self._classes, on=["cell", "class"], how="left", maintain_order="left")
        return rows

    @cached_property
    def _flow_groups(self) -> pl.DataFrame:
        """One row a group of alike flows of a cell: its first and last flow, and what it is called."""
        rows = []
        several = [len(config["flows"]) + len(config["udp"]) > 1 for config in self._configs.values()]
        for cell, config in self._configs.items():
            groups = [*config["flows"], *config["udp"]]
            first = 0
            # one group alone has no label unless other runs have several
            for one, label in zip(groups, group_labels(groups, alone=any(several)), strict=True):
                rows.append((cell, first, first + one["count"] - 1, label))
                first += one["count"]
        schema = {"cell": pl.String, "first": pl.Int64, "last": pl.Int64, "part": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")

    @cached_property
    def _classes(self) -> pl.DataFrame:
        """One row a class of a cell, and what it is called."""
        first = self._index.unique("cell", keep="first").select("cell", "key")
        with Store.open(self.path) as store:
            rows = store.read(
                'SELECT cell, class, kind, cc, base_rtt_ms FROM classes JOIN "first" USING (key)', first=first
            )
        labels: list[tuple[str, int, str]] = []
        for (cell,), own in rows.sort("class").group_by("cell", maintain_order=True):
            texts = [[row["cc"], f"{row['base_rtt_ms']:g}ms", row["kind"]] for row in own.iter_rows(named=True)]
            tcp = [text for text in texts if text[2] != "udp"]
            unlike = [i for i in range(3) if len({text[i] for text in tcp}) > 1] or [2 if len(texts) > 1 else 0]
            words = [["udp"] if text[2] == "udp" else [text[i] for i in unlike] for text in texts]
            said = [", ".join(of_class) for of_class in words]
            labels += zip([cell] * len(texts), own["class"], numbered(said), strict=True)
        return pl.DataFrame(labels, schema={"cell": pl.String, "class": pl.Int64, "part": pl.String}, orient="row")

    def tidy(self, of: Literal["flows", "runs", "classes", "slowdowns", "short_flows"] = "flows") -> pl.DataFrame:
        """Return one row a cell, seed and flow (or what else `of` names), with every key by which runs differ.

        Keys are typed columns whose names end in their unit: `bottleneck.rate_mbit`, `flows[*].base_rtt_ms`.
        """
        rows = self.parts(of, self.measures(of))
        orders = [{text: i for i, text in enumerate(one.ordered)} for one in self.dimensions]
        places = {
            cell: tuple(order[one.texts[cell]] for one, order in zip(self.dimensions, orders, strict=True))
            for cell in self._configs
        }
        cells = pl.DataFrame({"cell": sorted(places, key=places.__getitem__)}).with_row_index("cell place")
        keys = [one for one in self.dimensions if one.name not in ("experiment", "engine_version")]
        columns = [pl.Series(one.column, [one.values[cell] for cell in cells["cell"]], strict=False) for one in keys]
        described = self._index.select("key", "experiment", "engine_version")
        whole = rows.join(cells.with_columns(columns), on="cell", maintain_order="left").join(
            described, on="key", maintain_order="left"
        )
        whole = whole.sort("cell place", "seed", maintain_order=True).drop("cell place")
        if "part" in whole.columns:
            whole = whole.rename({"part": "which"})
        front = ["experiment", *(one.column for one in keys), "seed", *(["which"] if "which" in whole.columns else [])]
        rest = [c for c in whole.columns if c not in (*front, "place", "cell", "hash", "key", "engine_version")]
        return whole.select(*front, *rest, "engine_version", "key")

    def sql(self, query: str, **frames: Any) -> pl.DataFrame:
        """Return what an SQL query (DuckDB) gives; the tables hold these runs, `frames` are tables of yours."""
        with Store.open(self.path) as store:
            return store.sql(query, self._index.select("key"), {name: as_polars(one) for name, one in frames.items()})

    def arrow(self, name: str = "flows") -> pa.Table:
        """Return `frame(name)` as an Arrow table."""
        return self.frame(name).to_arrow()

    def plot(self, *args: Any, **options: Any) -> Figure:
        """See `dumbbell.plotting.plot`: what suits the shape of the results, or what is asked for."""
        from dumbbell import plotting

        return plotting.plot(self, *args, **options)

    def diff(self, other: Results | str | Path | None = None, *, by: str | None = None, **options: Any) -> Diff:
        """See `dumbbell.diff`: these results against others, or against themselves by a key."""
        from dumbbell import diff

        if other is not None and not isinstance(other, Results):
            other = Results(other)
        return diff.diff(self, other, by=by, **options)

    @cached_property
    def identical(self) -> tuple[int, int]:
        """In how many cells of several seeds all runs are the same, and how many cells of several seeds there are."""
        several = self._index.group_by("cell").agg(pl.len(), unlike=pl.col("hash").n_unique()).filter(pl.col("len") > 1)
        return several.filter(pl.col("unlike") == 1).height, several.height

    # how it looks

    def _summary(self) -> list[tuple[str, str]]:
        seeds = self._index["seed"].n_unique()
        rows = [("runs", f"{len(self)}, {len(self._configs)} cells, {seeds} seeds")]
        rows += [(one.name, _listed(one.ordered)) for one in self.dimensions]
        return rows + [("", note) for note in self.notes]

    def __repr__(self) -> str:
        if self._all.is_empty():
            return f"Results({self.path.name}: no finished run)"
        rows = self._summary()
        width = max(len(name) for name, _ in rows)
        return "\n".join([f"Results({self.path.name})", *(f"  {name:{width}}  {text}".rstrip() for name, text in rows)])

    def _repr_html_(self) -> str:
        from html import escape

        if self._all.is_empty():
            return escape(repr(self))
        rows = "".join(f"<tr><th>{escape(n)}</th><td>{escape(t)}</td></tr>" for n, t in self._summary())
        return f"<b>{escape(self.path.name)}</b><table>{rows}</table>"


def _listed(texts: list[str]) -> str:
    return ", ".join(texts) if len(texts) <= 8 else f"{', '.join(texts[:4])}, … {texts[-1]} ({len(texts)} values)"


def _with_groups(rows: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """Return flows with the label of their group, the last one of their cell that starts at or before them."""
    placed = (
        rows.with_row_index("row")
        .sort("flow")
        .join_asof(groups.sort("first"), left_on="flow", right_on="first", by="cell", check_sortedness=False)
    )
    return placed.sort("row").drop("row", "first", "last")


def as_polars(frame: Any) -> pl.DataFrame:
    """Return a frame of Polars, Arrow, pandas or whatever polars reads; raises InputError if it is none."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    try:
        return pl.DataFrame(frame)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError("frame", "", str(error).split("\n")[0], "a frame of Polars, Arrow or pandas") from None


def split_values(text: str) -> list[str]:
    """Return the parts between commas, but for those in parentheses."""
    return [part.strip() for part in _OUTSIDE_PARENTHESES.split(text)]


def _split(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise InputError("--where", "", text, "KEY=VALUE, such as bottleneck.rate=10Mbit")
    return key.strip(), value.strip()


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _require(wanted: Iterable[str], present: list[str], key: str) -> None:
    for text in wanted:
        if text not in present:
            shown = ", ".join(present[:30]) + (" ..." if len(present) > 30 else "")
            raise InputError("--where", key, text, shown, nearest(text, present))


def _wanted(dimension: Dimension, text: str, configs: dict[str, dict[str, Any]]) -> set[str]:
    """Return the texts of a key that a condition means: as they are shown, in another unit, or the algorithm's name."""
    present = dimension.ordered
    if text in present:
        return {text}
    wanted: set[str] = set()
    for part in split_values(text):
        found = {part} if part in present else _same(dimension, part, configs)
        if not found:
            _require([part], present, dimension.name)
        wanted |= found
    return wanted


def _same(dimension: Dimension, text: str, configs: dict[str, dict[str, Any]]) -> set[str]:
    if dimension.path is None:
        return set()
    value: Any = parse_setting(f"value={text}")[1]
    param = param_of(dimension.path)
    try:
        if dimension.path[-1] == "start":
            value = schema.canonical_start(value)
        elif param is not None:
            value = schema.canonical(param, value)
    except InputError as error:
        raise InputError("--where", dimension.name, error.found, error.allowed, error.nearest) from None
    found = set()
    for cell, of_cell in dimension.texts.items():
        held = matrix.get_path(configs[cell], dimension.path)
        names = {one.get("name") for one in held if isinstance(one, dict)}
        if held and (all(one == value for one in held) or names == {value}):
            found.add(of_cell)
    return found
