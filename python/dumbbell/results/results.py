"""A results file as its reader sees it: which runs are meant, what tells them apart, what was measured."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from dumbbell.errors import InputError, Nothing, Unfit, UnknownName, WrongValue, nearest
from dumbbell.experiment import matrix
from dumbbell.results import dimensions as dims
from dumbbell.results import parts, selecting
from dumbbell.results.dimensions import Dimension
from dumbbell.results.selecting import Condition
from dumbbell.results.store import TABLES, Store
from dumbbell.results.versions import NOT_LINUX, chosen, kernel_texts, kind, meant, texts
from dumbbell.scratch import Scratch

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from dumbbell.engines.sweep import Report
    from dumbbell.results.diff import Diff

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
# tables whose rows are parts of a run: what one is called, and the columns that tell the parts of a run apart
PARTS = {
    "flows": ("flow", ("flow", "cc", "base_rtt_ms")),
    "classes": ("class", ("class", "kind", "cc", "base_rtt_ms")),
    "slowdowns": ("class and range of sizes", ("class", "from_bytes")),
    "short_flows": ("short flow", ("class",)),
}
_OF_ENGINES = ("engine_version", "kernel")
OF_RUN = ("experiment", "title", "seed", "engine_version", "kernel")
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
_REMEDY = 'nothing in them is random; a start such as { uniform = ["0s", "1s"] } or jitter draws'


@dataclass(frozen=True)
class Measure:
    """A column of a table of the store."""

    table: str
    column: str

    @property
    def of(self) -> str:
        """What one value belongs to: a run, a flow, a class."""
        return PARTS[self.table][0] if self.table in PARTS else "run"


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
        self._of_parts: tuple[Condition, ...] = ()  # conditions that keep some parts of the runs
        self._conditions: tuple[Condition, ...] = ()  # all that were given
        with Store.open(self.path):
            pass

    @classmethod
    def opened(cls, source: str | Path | Results) -> Results:
        """Return results that are open, or those of a file."""
        return source if isinstance(source, Results) else cls(source)

    def only(self, keys: Iterable[str]) -> Results:
        """Return the runs with these keys."""
        return Results(self.path, keys=keys, engine="all")

    # which runs

    @cached_property
    def _all(self) -> pl.DataFrame:
        """One row a run of the file, in the order of the file: what describes it, without its configuration."""
        with Store.open(self.path) as store:
            number, given = (one if one in store.columns("runs") else "NULL" for one in ("number", "given"))
            rows = store.read(
                "SELECT key, experiment, title, seed, matrix, engine_version, hash, cell, rowid AS place,"
                f" CAST({number} AS BIGINT) AS number, CAST({given} AS VARCHAR) AS given FROM runs"
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
            raise Nothing(str(self.path), "", "no finished run", "results of at least one run")
        # the one that made the last run comes last
        versions = rows["engine_version"].reverse().unique(maintain_order=True).to_list()[::-1]
        if self._engine != "all":
            wanted = [chosen(versions, "sim") or versions[-1]]
            if self._engine and not (wanted := meant(versions, self._engine, self._kernels)):
                known = [*texts(versions, self._kernels).values(), "all"]
                raise UnknownName(str(self.path), "", self._engine, known, what="engine")
            rows = rows.filter(pl.col("engine_version").is_in(wanted))
        if rows["engine_version"].n_unique() > 1:
            rows = rows.with_columns(cell=pl.col("cell") + " " + pl.col("engine_version"))
        if not rows["given"].is_null().all():  # one configuration, of which the kernel was told more or less
            several = pl.col("given").n_unique().over("cell") > 1
            rows = rows.with_columns(
                cell=pl.when(several).then(pl.col("cell") + " " + pl.col("given")).otherwise("cell")
            )
        # as the files have them: experiments and, in each, the combinations of its matrix
        first = [pl.col(name).min().over("experiment") for name in ("number", "place")]
        of_cell = [pl.col(name).min().over("cell") for name in ("number", "place")]
        of_engine = pl.col("place").min().over("engine_version")
        numbered = rows["number"].null_count() == 0
        order = [*first, *of_cell] if numbered else ["experiment", "matrix", of_engine, "cell"]
        return rows.sort(*order, "seed", maintain_order=True)

    @cached_property
    def _kernels(self) -> dict[str, tuple[str, ...]]:
        """The names of kernels, by version of the engine."""
        if not any(kind(version) == "linux" for version in self._all["engine_version"].unique()):
            return {}
        with Store.open(self.path) as store:
            return store.kernel_names()

    def engine_texts(self, versions: Iterable[str] | None = None) -> dict[str, str]:
        """Return what each version of the engine is called: `linux:NAME` if its kernel has a name."""
        return texts(self.engines if versions is None else versions, self._kernels)

    @property
    def notes(self) -> list[str]:
        """What to know of these results, a line each: what is left out, and seeds that make no difference."""
        notes = self._left_out
        identical, several = self.identical
        if identical:
            notes.append(f"in {identical} of {several} cells all seeds made the same run: {_REMEDY}")
        return notes

    @property
    def _left_out(self) -> list[str]:
        """The engines whose runs are left out, a line each."""
        meant = set(self._index["engine_version"])
        left = self._all.filter(~pl.col("engine_version").is_in(list(meant)))
        counts = left.group_by("engine_version", maintain_order=True).len().rows()
        names = self.engine_texts(self._all["engine_version"])
        return [f"left out: {count} runs of engine {names[version]}" for version, count in counts]

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
    def selected_engine(self) -> str | None:
        """What was asked for: a version, a kind, `linux:NAME`, `all`; None where it was left open."""
        return self._engine

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
        return dims.dimensions(self._called_cells, self._configs)

    @cached_property
    def _called_cells(self) -> pl.DataFrame:
        """The `cells` with what their engines are called, and those keys that were set, but not in all of them."""
        names = self.engine_texts()
        rows = self._index.unique("cell", keep="first", maintain_order=True)["given"]
        keys = [set(json.loads(text)) if text else set[str]() for text in rows]
        everywhere = set[str].intersection(*keys) if keys else set()
        given = pl.Series("given", [", ".join(sorted(own - everywhere)) or "-" for own in keys], dtype=pl.String)
        return self.cells.with_columns(pl.col("engine_version").replace_strict(names, return_dtype=pl.String), given)

    @property
    def sessions(self) -> bool:
        """Whether all runs are sessions of `dumbbell shell`."""
        return all("shell" in config for config in self._configs.values())

    @property
    def default_measures(self) -> list[str]:
        """What is shown if nobody says: goodput; of sessions, in which each connection is a flow, what the link did."""
        return ["runs.throughput_mbit", "runs.sojourn_mean_ms"] if self.sessions else ["goodput"]

    @cached_property
    def unlike_experiments(self) -> dict[str, list[str]]:
        """The keys that each experiment varies, if there are several that do not vary the same."""
        cells = self._called_cells
        found = {
            str(name): [one.name for one in dims.dimensions(own, {cell: self._configs[cell] for cell in own["cell"]})]
            for (name,), own in cells.group_by("experiment", maintain_order=True)
        }
        return found if len({tuple(keys) for keys in found.values()}) > 1 else {}

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
        sections, inside, others = (
            [f"{s}.{name}" for s in of if known(matrix.parse_path(f"{s}.{name}"))]
            for of in (("bottleneck", "bottleneck.aqm", "hosts", "flows[*]"), ("flows[*].cc",), ("web[*]", "udp[*]"))
        )
        for candidates in (ends, sections, inside, others):
            if len(candidates) == 1:
                return matrix.parse_path(candidates[0])
        return None

    def key(self, name: str, option: str = "key") -> Dimension:
        """Return the values of a key of runs, whether or not they differ; InputError if there is no such key."""
        if found := next((one for one in self.dimensions if name == one.name), None):
            return found
        if name in ("experiment", "title", "engine_version"):
            cells = self._index.unique("cell", keep="first", maintain_order=True)
            names = self.engine_texts() if name == "engine_version" else {}
            rows = cells.select("cell", name).iter_rows()
            return dims.column_of(name, {cell: names.get(text, text) for cell, text in rows})
        if name == "kernel":
            names = kernel_texts(self.engines, self._kernels)
            return dims.column_of(
                name, {c: names[version] for c, version in self.cells.select("cell", "engine_version").rows()}
            )
        path = self._config_path(name)
        if path is None:
            raise self._no_key(name, option)
        return dims.dimension_of(name, path, self._configs)

    def has_key(self, name: str) -> bool:
        """Whether there is such a key of runs."""
        known = name == "kernel" or any(name == one.name for one in self.dimensions)
        return known or self._config_path(name) is not None

    def _no_key(self, name: str, option: str) -> InputError:
        own = [*self.matrix_keys, *(one.name for one in self.dimensions), *OF_RUN, "flow", "cc", "base_rtt"]
        known = list(dict.fromkeys(own))
        words = [*known, *(key.rpartition(".")[2] for key in known)]
        return UnknownName(
            str(self.path), option, name, known, nearest(name, words), what="key", also="any other key of a run"
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
        """The conditions that keep some flows or classes of the runs, `KEY=VALUE`."""
        return [str(condition) for condition in self._of_parts]

    def where(self, *conditions: str, option: str = "--where", **values: Any) -> Results:
        """Return only what meets every `KEY=VALUE[,VALUE...]`; values in any unit: 20000kbit is 20Mbit.

        Conditions on `flow`, `class`, `kind`, `cc` and `base_rtt` keep those flows or classes of the runs that have any
        such, in all tables but `runs` and `queue_series`, which are of whole runs. docs/selecting.md has the grammar.
        Raises InputError.
        """
        wanted = [selecting.parse(text, option) for text in conditions]
        wanted += [Condition(key, str(value)) for key, value in values.items()]
        wanted.sort(key=lambda condition: condition.key not in _OF_ENGINES)  # all others are about the runs of these
        found = self
        for condition in wanted:
            try:
                found = found._met(condition, option)
            except InputError as error:
                raise found._nothing_left(condition, error, self, option) from None
            found._conditions = (*found._conditions, condition)
        return found

    def _nothing_left(self, condition: Condition, error: InputError, whole: Results, option: str) -> InputError:
        """Return the error for a condition that no run meets which meets those before it, else `error` itself."""
        if self is whole:
            return error
        try:
            whole._met(condition, option)
        except InputError:
            return error
        said = " and ".join(map(str, [*self._conditions, condition]))
        return Nothing(
            option, "", f"no run has {said}", f"another value: {condition.key} of the others is {error.allowed}"
        )

    def _met(self, condition: Condition, option: str) -> Results:
        key, text = condition.key, condition.text
        if key in _OF_ENGINES:
            return self._of_engines(key, text, option)
        if key == "seed":
            seeds = self._index["seed"].cast(pl.String)
            wanted = selecting.texts_of(text, list(map(str, self.seeds)), lambda _: [], key=key, option=option)
            return self._with(self._index.filter(seeds.is_in(wanted))["key"])
        if key == "from_bytes":
            other = self._with(self._index["key"])
            other._of_parts = (*self._of_parts, condition)
            other._kept("slowdowns", other._read("slowdowns"))
            return other
        key = {"base_rtt_ms": "base_rtt", "which": "flow"}.get(key, key)
        if key in parts.KEYS and self._parts.height:
            return self._of_parts_like(Condition(key, text))
        dimension = self.key(key, option)
        meant = selecting.of_dimension(dimension, text, self._configs, option)
        cells = [cell for cell, of_cell in dimension.texts.items() if of_cell in meant]
        return self._with(self._index.filter(pl.col("cell").is_in(cells))["key"])

    def _of_engines(self, key: str, text: str, option: str) -> Results:
        """Return the runs of versions of the engine, or of kernels, whichever were meant before."""
        known = self._all["engine_version"].reverse().unique(maintain_order=True).to_list()[::-1]
        prefix = "linux:" if key == "kernel" else ""
        names = (kernel_texts if key == "kernel" else texts)(known, self._kernels)
        present = [name for name in names.values() if name != NOT_LINUX]
        wanted = selecting.texts_of(
            text, present, lambda part: meant(known, prefix + part, self._kernels), key=key, option=option
        )
        found = [version for version in known if version in wanted or names[version] in wanted]
        keys = self._all.filter(pl.col("engine_version").is_in(found))["key"]
        return self._with(keys, engine="all" if len(found) > 1 else found[0])

    def _of_parts_like(self, condition: Condition) -> Results:
        """Return the runs that have such parts, and of these runs the other parts no more."""
        found = self._parts.filter(parts.meant(self._parts, condition, self._ccs))
        cells = found["cell"].unique().to_list()
        other = self._with(self._index.filter(pl.col("cell").is_in(cells))["key"])
        if found.height < self._parts.filter(pl.col("cell").is_in(cells)).height:
            other._of_parts = (*self._of_parts, condition)
        return other

    @cached_property
    def _all_parts(self) -> pl.DataFrame:
        """One row a flow, and one a class of short flows, of each cell: see `parts.listed`."""
        cells = self._index.unique("cell", keep="first", maintain_order=True).select("cell", "key")
        return parts.listed(self.path, cells, self._configs)

    @cached_property
    def _parts(self) -> pl.DataFrame:
        """The rows of `_all_parts` that are meant."""
        found = self._all_parts
        for condition in self._of_parts:
            if condition.key in parts.KEYS:
                found = found.filter(parts.meant(found, condition, self._ccs, checked=True))
        return found

    @cached_property
    def _ccs(self) -> dict[str, dict[str, Any]]:
        """The parameters of each congestion control, by the text that says them."""
        senders = [one for config in self._configs.values() for one in (*config["flows"], *config["web"])]
        return {dims.value_text(("flows", 0, "cc"), one["cc"]): one["cc"] for one in senders}

    def _with(self, keys: Iterable[str], engine: str | None = None) -> Results:
        """Return some of the runs of the file; what is known of them is not read again."""
        other = self.engine(engine or ("all" if len(self.engines) > 1 else self.engines[0]))
        other._keys = list(dict.fromkeys(keys))
        wanted = pl.DataFrame({"key": other._keys}, schema={"key": pl.String})
        other.__dict__["_kernels"] = self._kernels
        other.__dict__["_all"] = wanted.join(self._all, on="key", how="inner", maintain_order="left")
        if "_columns" in self.__dict__:
            other.__dict__["_columns"] = self._columns
        cells = set(other._index["cell"])
        if cells <= self._configs.keys():  # cells have other names where the runs of several engines are apart
            other.__dict__["_configs"] = {cell: config for cell, config in self._configs.items() if cell in cells}
            if "_all_parts" in self.__dict__:
                other.__dict__["_all_parts"] = self._all_parts.filter(pl.col("cell").is_in(list(cells)))
        return other

    def engine(self, version: str) -> Results:
        """Return the runs of another engine: `sim`, `live`, `linux`, `linux:NAME`, a version, or `all` of them."""
        other = object.__new__(Results)
        other.path, other.report, other._folder = self.path, self.report, self._folder
        other._engine, other._keys = version, self._keys
        other._of_parts, other._conditions = self._of_parts, self._conditions
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
        if of is None and self._of_parts and self._parts["flow"].null_count() == self._parts.height:
            tables = [table for table in tables if table != "flows"]  # of short flows there are classes only
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
        raise UnknownName(str(self.path), "--value", name, known, nearest(name, [*known, *short]), what="measure")

    def table(self, *args: Any, **options: Any) -> Any:
        """See `dumbbell.tables.table`: a table of means with their intervals, any key by any other."""
        from dumbbell.results import tables

        return tables.table(self, *args, **options)

    def frame(self, name: str) -> pl.DataFrame:
        """Return the rows of one of the tables that belong to these runs."""
        if name not in TABLES:
            raise UnknownName(str(self.path), "", name, TABLES, what="table")
        return self._kept(name, self._read(name))

    def _read(self, name: str) -> pl.DataFrame:
        """Return all rows of a table that belong to these runs."""
        wanted = self._index.select("key").with_row_index("place")
        with Store.open(self.path) as store:
            return store.read(
                f"SELECT t.* FROM {name} t JOIN wanted USING (key) ORDER BY place, t.rowid", wanted=wanted
            )

    def _kept(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that meet the conditions on parts of runs; all those of a table of whole runs."""
        if not self._of_parts or table not in (*parts.OF_FLOWS, *parts.OF_CLASSES):
            return rows
        for condition in self._of_parts:
            if condition.key == "from_bytes":
                if table != "slowdowns":
                    found = f"table {table} has no ranges of sizes, which {condition} is about"
                    raise Unfit("--where", "", found, "table slowdowns")
                texts = rows["from_bytes"].cast(pl.String)
                there = texts.unique(maintain_order=True).to_list()
                meant = selecting.texts_of(condition.text, there, lambda _: [], key="from_bytes")
                rows = rows.filter(texts.is_in(meant))
        part = "flow" if table in parts.OF_FLOWS else "class"
        kept = self._parts.filter(pl.col(part).is_not_null())
        if part == "class":
            cut = self._all_parts.join(kept.select("cell", "class").unique(), on=["cell", "class"], how="semi")
            if cut.height > kept.height:
                found = f"{' and '.join(self.of_parts)} keeps some of the flows of a class, while {table} is of classes"
                raise Unfit("--where", "", found, "all flows of a class, or a measure of flows")
        keys = self._index.select("key", pl.col("cell").alias("cell of key"))
        wanted = keys.join(kept.select(pl.col("cell").alias("cell of key"), part).unique(), on="cell of key")
        return rows.join(wanted.select("key", part), on=["key", part], how="semi", maintain_order="left")

    @property
    def whole_runs(self) -> Results:
        """The same runs with all their parts."""
        other = self._with(self._index["key"])
        other._of_parts = ()
        return other

    def require_whole_runs(self, what: str, allowed: str) -> None:
        """Raise InputError if conditions keep only some parts of the runs, of which `what` cannot be told."""
        if self._of_parts:
            found = f"{' and '.join(self.of_parts)} keeps parts of runs, while {what}"
            raise Unfit("--where", "", found, allowed)

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

        A label says what tells the parts of one run apart: "cubic" beside "reno". Parts that are alike share it. Of
        `series` and `trace` a column may also be one of the flow itself, such as `start_s`.
        """
        index = self._index.select("key", "cell", "seed", "hash").with_row_index("place")
        own = [c for c in (*PARTS.get(table, ("", ()))[1], "flow", "class") if c in self._columns[table]]
        names = list(dict.fromkeys([*own, *columns]))
        of_flow = [name for name in names if table in parts.OF_FLOWS and name not in self._columns[table]]
        listed = ", ".join(f'{"f" if name in of_flow else "t"}."{name}"' for name in names)
        flows = "LEFT JOIN flows f USING (key, flow) " * bool(of_flow)
        with Store.open(self.path) as store:
            rows = store.read(
                f"SELECT wanted.*, {listed} FROM {table} t JOIN wanted USING (key) {flows}ORDER BY place, t.rowid",
                wanted=index,
            )
        rows = self._kept(table, rows).with_columns(pl.selectors.float().fill_nan(None))
        if table not in (*parts.OF_FLOWS, *parts.OF_CLASSES):
            return rows
        part, name = ("flow", "which") if table in parts.OF_FLOWS else ("class", "class_which")
        known = self._parts.filter(pl.col(part).is_not_null()).unique(["cell", part], keep="first", maintain_order=True)
        other = [c for c in ("class", "kind", "cc", "base_rtt_ms", "cc_text") if c not in rows.columns]
        known = known.select("cell", part, *other, pl.col(name).alias("part"))
        return rows.join(known, on=["cell", part], how="left", maintain_order="left")

    def tidy(self, of: Literal["flows", "runs", "classes", "slowdowns", "short_flows"] = "flows") -> pl.DataFrame:
        """Return one row a cell, seed and flow (or what else `of` names), with every key by which runs differ.

        Keys are typed columns whose names end in their unit: `bottleneck.rate_mbit`, `flows[*].base_rtt_ms`. Where
        there are runs on Linux, `kernel` has the names of the kernels.
        """
        if of not in (*parts.OF_FLOWS, *parts.OF_CLASSES):
            self.require_whole_runs(f"table {of} is of whole runs", f"table {', '.join(PARTS)}")
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
        if self._kernels:  # of those runs that have one
            names = kernel_texts(self.engines, self._kernels)
            described = described.with_columns(kernel=pl.col("engine_version").replace_strict(names))
        last = [name for name in ("engine_version", "kernel", "key") if name in described.columns]
        whole = rows.join(cells.with_columns(columns), on="cell", maintain_order="left").join(
            described, on="key", maintain_order="left"
        )
        whole = whole.sort("cell place", "seed", maintain_order=True).drop("cell place")
        if "part" in whole.columns:
            whole = whole.rename({"part": "which"})
        front = ["experiment", *(one.column for one in keys), "seed", *(["which"] if "which" in whole.columns else [])]
        own = [*self._columns[of], *front]
        rest = [c for c in whole.columns if c in own and c not in (*front, *last)]
        return whole.select(*front, *rest, *last)

    def sql(self, query: str, **frames: Any) -> pl.DataFrame:
        """Return what an SQL query (DuckDB) gives; `frames` are tables of yours.

        The tables hold these runs, as `keys` lists them: those of one engine, unless several were asked for, and what
        `where` keeps of them. A warning says what engines are left out.
        """
        for note in self._left_out:
            warnings.warn(f'sql sees {len(self)} runs; {note}; engine("all") has all', stacklevel=2)
        tables = (*parts.OF_FLOWS, *parts.OF_CLASSES) if self._of_parts else ()
        only = {"slowdowns"} if any(one.key == "from_bytes" for one in self._of_parts) else set(tables)
        kept = {}
        for table in tables:
            own = ["key", "flow" if table in parts.OF_FLOWS else "class"]
            own += ["from_bytes"] * (table == "slowdowns")
            rows = self._read(table).select(own)
            kept[table] = (self._kept(table, rows) if table in only else rows.clear()).unique()
        mine = {name: as_polars(one) for name, one in frames.items()}
        with Store.open(self.path) as store:
            return store.sql(query, self._index.select("key"), mine, kept)

    def arrow(self, name: str = "flows") -> pa.Table:
        """Return `frame(name)` as an Arrow table."""
        return self.frame(name).to_arrow()

    def plot(self, *args: Any, **options: Any) -> Figure:
        """See `dumbbell.plotting.plot`: what suits the shape of the results, or what is asked for."""
        from dumbbell import plotting

        return plotting.plot(self, *args, **options)

    def diff(self, other: Results | str | Path | None = None, *, by: str | None = None, **options: Any) -> Diff:
        """See `dumbbell.diff`: these results against others, or against themselves by a key."""
        from dumbbell.results import diff

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


def as_polars(frame: Any) -> pl.DataFrame:
    """Return a frame of Polars, Arrow, pandas or whatever polars reads; raises InputError if it is none."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    try:
        return pl.DataFrame(frame)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise WrongValue(
            "", "frame", f"not readable ({str(error).splitlines()[0]})", "a frame of Polars, Arrow or pandas"
        ) from None
