"""Runs of a results file: which are meant, and what distinguishes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import polars as pl

from dumbbell.errors import InputError, Nothing, Unfit, UnknownName, flag, nearest
from dumbbell.experiment import matrix
from dumbbell.results import dimensions as dims
from dumbbell.results import parts, selecting
from dumbbell.results import varying as keys_of
from dumbbell.results.dimensions import Dimension
from dumbbell.results.labels import with_assumed_control
from dumbbell.results.selecting import Condition
from dumbbell.results.store import TABLES, Store
from dumbbell.results.versions import NOT_LINUX, chosen, kernel_texts, kind, meant, texts
from dumbbell.scratch import Scratch

_OF_ENGINES = ("engine_version", "kernel")
# what of these tables is shown if nobody says
_MEASURES_OF = {"slowdowns": "slowdown", "short_flows": "slowdown", "hops": "throughput"}
OF_RUN = ("experiment", "title", "seed", "engine_version", "kernel")
_REMEDY = 'nothing in them is random; a start such as { uniform = ["0s", "1s"] } or jitter draws'


class Runs:
    """Runs of a results file: nothing is read before it is asked for, and the file is open only meanwhile.

    They are the runs of one version of the engine, unless several are asked for: `notes` names what is left out.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        keys: Iterable[str] | None = None,
        engine: str | None = None,
        folder: Scratch | None = None,
    ) -> None:
        self.path = Path(path)
        self._folder = folder  # of results that are kept nowhere else; removed with the last object that knows it
        self._engine = engine
        self._keys = None if keys is None else list(keys)
        self._of_parts: tuple[Condition, ...] = ()  # conditions that keep some parts of the runs
        self._conditions: tuple[Condition, ...] = ()  # all that were given
        with Store.open(self.path):
            pass

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: a file that goes with this object travels with it, byte for byte."""
        if self._folder is None:
            return self.__dict__
        return {**self.__dict__, "_folder": None, "_content": self.path.read_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Write the file that came along to a folder of this process."""
        content = state.pop("_content", None)
        self.__dict__.update(state)
        if content is not None:
            self._folder = Scratch()
            self.path = self._folder.path / self.path.name
            self.path.write_bytes(content)

    @classmethod
    def opened(cls, source: str | Path | Self) -> Self:
        """Return results that are open, or those of a file."""
        return source if isinstance(source, cls) else cls(source)  # type: ignore[arg-type]

    def only(self, keys: Iterable[str]) -> Self:
        """Return the runs with these keys."""
        other = self.engine("all")
        other._keys, other._of_parts, other._conditions = list(keys), (), ()
        return other

    # which runs

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What `where` was given for these runs."""
        return self._conditions

    @cached_property
    def _all(self) -> pl.DataFrame:
        """One row per run of the file, in the order of the file: what describes it, without its configuration."""
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
            raise Nothing("no finished run", "results of at least one run", file=self.path)
        # the one that made the last run comes last
        versions = rows["engine_version"].reverse().unique(maintain_order=True).to_list()[::-1]
        if self._engine != "all":
            wanted = [chosen(versions, "sim") or versions[-1]]
            if self._engine and not (wanted := meant(versions, self._engine, self._kernels)):
                known = [*texts(versions, self._kernels).values(), "all"]
                raise UnknownName(self._engine, among=known, file=self.path, what="engine")
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
        """What to know of these results, one line each: what is left out or assumed, seeds that make no difference."""
        notes = self._left_out
        if self._engine is None:
            if notes:
                notes[-1] += f"; {flag('engine')} all has them"
            if not any(kind(version) == "sim" for version in self._all["engine_version"].unique()):
                notes.insert(0, f"no run is of engine sim; these are of {', '.join(self.engine_texts().values())}")
        notes += self._assumed
        identical, several = self.identical
        if identical:
            notes.append(f"in {identical} of {several} cells all seeds made the same run: {_REMEDY}")
        return notes

    @property
    def _left_out(self) -> list[str]:
        """The engines whose runs are left out, one line each."""
        meant = set(self._index["engine_version"])
        left = self._all.filter(~pl.col("engine_version").is_in(list(meant)))
        counts = left.group_by("engine_version", maintain_order=True).len().rows()
        names = self.engine_texts(self._all["engine_version"])
        return [f"left out: {count} run{'s' * (count > 1)} of engine {names[version]}" for version, count in counts]

    @property
    def _assumed(self) -> list[str]:
        """The controls of imported runs that their files do not say, one line per engine."""
        found: dict[str, dict[str, None]] = {}
        for cell, version, given in self._index.select("cell", "engine_version", "given").iter_rows():
            if kind(version) == "import":
                groups = with_assumed_control(self._configs[cell], given)
                found.setdefault(version, {}).update(dict.fromkeys(group["cc"]["name"] for group in groups))
        return [
            f"{' and '.join(names)} of engine {version} {'is' if len(names) == 1 else 'are'} assumed: the file does not"
            " say the control"
            for version, names in found.items()
            if names
        ]

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
        """One row per cell: `cell`, `experiment`, `engine_version`, `matrix` (JSON)."""
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

    @property
    def hops_of_cells(self) -> dict[str, list[str]]:
        """The names of the hops of each cell that has several."""
        found = {
            cell: [
                "bottleneck",
                *(hop["name"] for hop in config.get("hop") or []),
                *(["reverse"] * bool(config.get("reverse"))),
            ]
            for cell, config in self._configs.items()
        }
        return {cell: hops for cell, hops in found.items() if len(hops) > 1}

    @cached_property
    def varying(self) -> list[Dimension]:
        """Every key by which the cells of these results differ; a cell is what only seeds may differ in."""
        return keys_of.varying(self._called_cells, self._configs)

    @cached_property
    def _axes(self) -> keys_of.Axes:
        return keys_of.axes(self.varying, self.matrix_keys, list(self._configs))

    @property
    def dimensions(self) -> list[Dimension]:
        """The keys that distinguish the cells of these results; keys that change together are one."""
        return self._axes.axes

    @property
    def differ_as_well(self) -> str:
        """A sentence that names the keys which differ with the `dimensions`; empty if there are none."""
        return self._axes.line

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

    def default_measures(self, of: str | None = None) -> list[str]:
        """Return what is shown if nobody says: goodput, or what else the table `of` has.

        Short flows have no goodput that means anything. Of sessions, in which each connection is a flow, it is what the
        link did.
        """
        if of in _MEASURES_OF:
            return [_MEASURES_OF[of]]
        return ["runs.throughput_mbit", "runs.sojourn_mean_ms"] if self.sessions else ["goodput"]

    @cached_property
    def unlike_experiments(self) -> dict[str, list[str]]:
        """The keys that each experiment varies, if there are several that do not vary the same."""
        cells = self._called_cells
        found: dict[str, list[str]] = {}
        for (name,), own in cells.group_by("experiment", maintain_order=True):
            keys = keys_of.varying(own, {cell: self._configs[cell] for cell in own["cell"]})
            found[str(name)] = [one.name for one in keys_of.axes(keys, self.matrix_keys, own["cell"].to_list()).axes]
        return found if len({tuple(keys) for keys in found.values()}) > 1 else {}

    @cached_property
    def matrix_keys(self) -> list[str]:
        """Keys of the matrices of all experiments, in order."""
        return keys_of.matrix_keys(self._index)

    # keys

    def _config_path(self, name: str) -> matrix.Path | None:
        """Return the path that `name` means, if it means one."""
        others = [one.name for one in self.varying if one.path]
        return dims.path_named(name, self._configs.values(), self.matrix_keys, others)

    def key(self, name: str, option: str = "key") -> Dimension:
        """Return the values of a key of runs, whether or not they differ; InputError if there is no such key."""
        if found := next((one for one in (*self.varying, *self.dimensions) if name == one.name), None):
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
        if ", " in name and all(map(self.has_key, name.split(", "))):
            return keys_of.joined([self.key(one) for one in name.split(", ")])
        path = self._config_path(name)
        if path is None:
            raise self._no_key(name, option)
        return dims.dimension_of(name, path, self._configs)

    def has_key(self, name: str) -> bool:
        """Whether there is such a key of runs."""
        known = name == "kernel" or any(name == one.name for one in (*self.varying, *self.dimensions))
        if ", " in name and not known:
            return all(map(self.has_key, name.split(", ")))
        return known or self._config_path(name) is not None

    def _no_key(self, name: str, option: str) -> InputError:
        own = [*self.matrix_keys, *(one.name for one in self.dimensions), *OF_RUN, "flow", "cc", "base_rtt"]
        known = list(dict.fromkeys(own))
        words = [*known, *(key.rpartition(".")[2] for key in known)]
        return UnknownName(
            name,
            among=known,
            file=self.path,
            option=option,
            nearest=nearest(name, words),
            what="key",
            also="any other key of a run",
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

    def where(self, *conditions: str, option: str = "--where", **values: Any) -> Self:
        """Return only what meets every `KEY=VALUE[,VALUE...]`; values in any unit: 20000kbit is 20Mbit.

        Conditions on `flow`, `class`, `kind`, `cc`, `direction` and `base_rtt` keep the flows or classes that have any
        such, in all tables but `runs` and `queue_series`, which are of whole runs. docs/selecting.md has the grammar.
        As keywords, values may also be numbers and lists: `where(seed=[1, 2])`.
        Raises InputError.
        """
        wanted = [selecting.parse(text, option) for text in conditions]
        wanted += [selecting.condition_of(key, value) for key, value in values.items()]
        wanted.sort(key=lambda condition: condition.key not in _OF_ENGINES)  # all others are about the runs of these
        found = self
        for condition in wanted:
            try:
                found = found._met(condition, option)
            except InputError as error:
                raise found._nothing_left(condition, error, self, option) from None
            found._conditions = (*found._conditions, condition)
        return found

    def _nothing_left(self, condition: Condition, error: InputError, whole: Runs, option: str) -> InputError:
        """Return the error for a condition that no run meets which meets those before it, else `error` itself."""
        if self is whole:
            return error
        try:
            whole._met(condition, option)
        except InputError:
            return error
        said = " and ".join(map(str, [*self._conditions, condition]))
        return Nothing(
            f"no run has {said}", f"another value: {condition.key} of the others is {error.allowed}", option=option
        )

    def _met(self, condition: Condition, option: str) -> Self:
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
        # sessions are runs of one direction each
        if key in parts.KEYS and self._parts.height and not (key == "direction" and self.sessions):
            return self._of_parts_like(Condition(key, text))
        dimension = self.key(key, option)
        meant = selecting.of_dimension(dimension, text, self._configs, option)
        cells = [cell for cell, of_cell in dimension.texts.items() if of_cell in meant]
        return self._with(self._index.filter(pl.col("cell").is_in(cells))["key"])

    def _of_engines(self, key: str, text: str, option: str) -> Self:
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

    def _of_parts_like(self, condition: Condition) -> Self:
        """Return the runs that have such parts, and of these runs the other parts no more."""
        found = self._parts.filter(parts.meant(self._parts, condition, self._ccs))
        cells = found["cell"].unique().to_list()
        other = self._with(self._index.filter(pl.col("cell").is_in(cells))["key"])
        if found.height < self._parts.filter(pl.col("cell").is_in(cells)).height:
            other._of_parts = (*self._of_parts, condition)
        return other

    @cached_property
    def _all_parts(self) -> pl.DataFrame:
        """One row per flow, and one per class of short flows, of each cell: see `parts.listed`."""
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

    def _with(self, keys: Iterable[str], engine: str | None = None) -> Self:
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

    def engine(self, version: str) -> Self:
        """Return the runs of another engine: `sim`, `live`, `linux`, `linux:NAME`, a version, or `all` of them."""
        other = object.__new__(type(self))
        known = {name for name in vars(self) if isinstance(getattr(type(self), name, None), cached_property)}
        other.__dict__.update({name: value for name, value in vars(self).items() if name not in known})
        other._engine = version
        return other

    @cached_property
    def identical(self) -> tuple[int, int]:
        """In how many cells of several seeds all runs are the same, and how many cells of several seeds there are."""
        several = self._index.group_by("cell").agg(pl.len(), unlike=pl.col("hash").n_unique()).filter(pl.col("len") > 1)
        return several.filter(pl.col("unlike") == 1).height, several.height

    # rows of tables

    @cached_property
    def _columns(self) -> dict[str, dict[str, str]]:
        """Names and types of the columns of every table."""
        with Store.open(self.path) as store:
            return {table: store.types(table) for table in TABLES}

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
                    raise Unfit(found, "table slowdowns", option="--where")
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
                raise Unfit(found, "all flows of a class, or a measure of flows", option="--where")
        keys = self._index.select("key", pl.col("cell").alias("cell of key"))
        wanted = keys.join(kept.select(pl.col("cell").alias("cell of key"), part).unique(), on="cell of key")
        return rows.join(wanted.select("key", part), on=["key", part], how="semi", maintain_order="left")

    @property
    def whole_runs(self) -> Self:
        """The same runs with all their parts."""
        other = self._with(self._index["key"])
        other._of_parts = ()
        return other

    def require_whole_runs(self, what: str, allowed: str) -> None:
        """Raise InputError if conditions keep only some parts of the runs, of which `what` cannot be told."""
        if self._of_parts:
            found = f"{' and '.join(self.of_parts)} keeps parts of runs, while {what}"
            raise Unfit(found, allowed, option="--where")
