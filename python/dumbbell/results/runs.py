"""Runs of a results file: which are meant, and what distinguishes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import polars as pl

from dumbbell.errors import InputError, Nothing, Unfit, UnknownName, spell_option
from dumbbell.results import dimensions as dims
from dumbbell.results import parts, selecting
from dumbbell.results import varying as keys_of
from dumbbell.results.dimensions import Dimension
from dumbbell.results.in_memory import RunsInMemory
from dumbbell.results.labels import add_assumed_controls
from dumbbell.results.selecting import Condition, Selector
from dumbbell.results.source import ResultsFile, RunTables
from dumbbell.results.versions import NOT_LINUX, choose_version, find_kind, name_kernels, name_versions, select_versions
from dumbbell.scratch import Scratch

_OF_ENGINES = ("engine_version", "kernel")
# what of these tables is shown if nobody says
_MEASURES_OF = {"slowdowns": "slowdown", "short_flows": "slowdown", "hops": "throughput"}
OF_RUN = ("experiment", "title", "seed", "engine_version", "kernel")
_REMEDY = 'nothing in them is random; for random starts set start = { uniform = ["0s", "1s"] }'


@dataclass(frozen=True)
class Selection:
    """The runs of a file that are selected."""

    keys: tuple[str, ...] | None = None
    """Of these runs alone, in this order."""
    engine: str | None = None
    conditions: tuple[Condition, ...] = ()
    """What `where` was given."""
    of_parts: tuple[Condition, ...] = ()
    """Those conditions that keep some parts of the runs."""


_ALL = Selection()


class Runs:
    """Runs of a results file, or in memory: nothing is read before it is asked for, a file is open only meanwhile.

    They are the runs of one version of the engine, unless several are asked for: `notes` names what is left out.
    """

    def __init__(
        self,
        source: str | Path | RunTables,
        *,
        keys: Iterable[str] | None = None,
        engine: str | None = None,
        folder: Scratch | None = None,
    ) -> None:
        self._source = ResultsFile(Path(source), folder) if isinstance(source, (str, Path)) else source
        whole = keys is None and engine is None
        self._selection = _ALL if whole else Selection(None if keys is None else tuple(keys), engine)
        self._labelled: pl.DataFrame | None = None  # parts of these runs and more, that they were selected from

    def _select(self, labelled: pl.DataFrame | None = None, **changes: Any) -> Self:
        """Return another selection of the same file; what was read of the file is not read again."""
        other = object.__new__(type(self))
        other._source, other._labelled = self._source, labelled
        other._selection = replace(self._selection, **changes)
        return other

    @property
    def path(self) -> Path:
        """The results file; of runs in memory the name of their experiment."""
        return self._source.path

    @property
    def source(self) -> RunTables:
        """Where the tables are."""
        return self._source

    @classmethod
    def open_source(cls, source: str | Path | Self) -> Self:
        """Return results that are open, or those of a file."""
        return source if isinstance(source, cls) else cls(source)  # type: ignore[arg-type]

    def with_keys(self, keys: Iterable[str]) -> Self:
        """Return the runs with these keys."""
        return self._select(keys=tuple(keys), engine="all", conditions=(), of_parts=())

    # which runs

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of `where` for these runs."""
        return self._selection.conditions

    @cached_property
    def _all(self) -> pl.DataFrame:
        """The rows of the file that `keys` names, in this order; all in that of the file if there are none."""
        if self._selection.keys is None:
            return self._source.rows
        wanted = pl.DataFrame({"key": self._selection.keys}, schema={"key": pl.String})
        return wanted.join(self._source.rows, on="key", how="inner", maintain_order="left")

    @cached_property
    def _index(self) -> pl.DataFrame:
        """The rows of `_all` that are meant."""
        rows = self._all
        if rows.is_empty():
            raise Nothing("found no finished run", "results of at least one run", file=self.path)
        # the one that made the last run comes last
        versions = rows["engine_version"].reverse().unique(maintain_order=True).to_list()[::-1]
        if self._selection.engine != "all":
            wanted = [choose_version(versions, "sim") or versions[-1]]
            if self._selection.engine and not (
                wanted := select_versions(versions, self._selection.engine, self._source.kernels)
            ):
                known = [*name_versions(versions, self._source.kernels).values(), "all"]
                raise UnknownName(self._selection.engine, among=known, file=self.path, what="engine")
            rows = rows.filter(pl.col("engine_version").is_in(wanted))
        if rows["engine_version"].n_unique() > 1:
            rows = rows.with_columns(cell=pl.col("cell") + " " + pl.col("engine_version"))
        if not rows["given"].is_null().all():  # one configuration, of which the kernel got more or less
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

    def name_engines(self, versions: Iterable[str] | None = None) -> dict[str, str]:
        """Return what each version of the engine is called: `linux:NAME` if its kernel has a name."""
        return name_versions(self.engines if versions is None else versions, self._source.kernels)

    @property
    def notes(self) -> list[str]:
        """What to know of these results, one line each: what is left out or assumed, seeds that make no difference."""
        notes = self._left_out
        if self._selection.engine is None:
            if notes:
                notes[-1] += f"; {spell_option('engine')} all shows them"
            if not any(find_kind(version) == "sim" for version in self._all["engine_version"].unique()):
                notes.insert(0, f"no run is of engine sim; shown are runs of {', '.join(self.name_engines().values())}")
        notes += self._assumed
        identical, several = self.identical
        if identical:
            notes.append(f"all seeds gave the same run in {identical} of {several} cells: {_REMEDY}")
        return notes

    @property
    def _left_out(self) -> list[str]:
        """The engines whose runs are left out, one line each."""
        meant = set(self._index["engine_version"])
        left = self._all.filter(~pl.col("engine_version").is_in(list(meant)))
        counts = left.group_by("engine_version", maintain_order=True).len().rows()
        names = self.name_engines(self._all["engine_version"])
        return [f"left out: {count} run{'s' * (count > 1)} of engine {names[version]}" for version, count in counts]

    @property
    def _assumed(self) -> list[str]:
        """The controls of imported runs that their files do not say, one line per engine."""
        found: dict[str, dict[str, None]] = {}
        for cell, version, given in self._index.select("cell", "engine_version", "given").iter_rows():
            if find_kind(version) == "import":
                groups = add_assumed_controls(self._configs[cell], given)
                found.setdefault(version, {}).update(dict.fromkeys(group["cc"]["name"] for group in groups))
        return [
            f"{' and '.join(names)} of engine {version} {'is' if len(names) == 1 else 'are'} assumed: the file does not"
            " name the control"
            for version, names in found.items()
            if names
        ]

    @cached_property
    def _only(self) -> str | None:
        """The key of the only run there is, which needs no selection."""
        if self._selection != Selection() or not isinstance(self._source, RunsInMemory):
            return None
        return self._source.keys[0] if len(self._source.runs) == 1 else None

    def __len__(self) -> int:
        return 1 if self._only else self._index.height

    @property
    def keys(self) -> list[str]:
        """The keys of the runs, as in column `key` of every table."""
        return [self._only] if self._only else self._index["key"].to_list()

    @property
    def engines(self) -> list[str]:
        """The versions of the engine that made these runs."""
        return self._index["engine_version"].unique(maintain_order=True).to_list()

    @property
    def selected_engine(self) -> str | None:
        """What was asked for: a version, a kind, `linux:NAME`, `all`; None where it was left open."""
        return self._selection.engine

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

    def name_cells(self) -> dict[str, str]:
        """Return for each cell in words what tells it from the others."""
        return {cell: ", ".join(one.format_text(one.texts[cell]) for one in self.dimensions) for cell in self._configs}

    @cached_property
    def _configs(self) -> dict[str, dict[str, Any]]:
        """The configuration of each cell; the seed in it is that of one of its runs in the file."""
        return self._source.read_configurations(self._index.unique("cell", keep="first", maintain_order=True))

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
        return keys_of.find_varying(self._called_cells, self._configs)

    @cached_property
    def _axes(self) -> keys_of.Axes:
        return keys_of.choose_axes(self.varying, self.matrix_keys, list(self._configs))

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
        names = self.name_engines()
        rows = self._index.unique("cell", keep="first", maintain_order=True)["given"]
        keys = [set(json.loads(text)) if text else set[str]() for text in rows]
        everywhere = set[str].intersection(*keys) if keys else set()
        given = pl.Series("given", [", ".join(sorted(own - everywhere)) or "-" for own in keys], dtype=pl.String)
        return self.cells.with_columns(pl.col("engine_version").replace_strict(names, return_dtype=pl.String), given)

    @property
    def sessions(self) -> bool:
        """Whether all runs are sessions of `dumbbell shell`."""
        return all("shell" in config for config in self._configs.values())

    def choose_measures(self, of: str | None = None) -> list[str]:
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
            keys = keys_of.find_varying(own, {cell: self._configs[cell] for cell in own["cell"]})
            found[str(name)] = [
                one.name for one in keys_of.choose_axes(keys, self.matrix_keys, own["cell"].to_list()).axes
            ]
        return found if len({tuple(keys) for keys in found.values()}) > 1 else {}

    @cached_property
    def matrix_keys(self) -> list[str]:
        """Keys of the matrices of all experiments, in order."""
        return keys_of.list_matrix_keys(self._index)

    # keys

    def _make_selector(self, option: str) -> Selector:
        return Selector(str(self.path), self._configs, self.matrix_keys, option)

    def _find_key(self, name: str, option: str = "key") -> Dimension | None:
        """Return the values of the key of configurations that `name` means, if it means one."""
        return self._make_selector(option).find_key(name, [one.name for one in self.varying if one.path])

    def find_key(self, name: str, option: str = "key") -> Dimension:
        """Return the values of a key of runs, whether or not they differ; InputError if there is no such key."""
        if found := next((one for one in (*self.varying, *self.dimensions) if name == one.name), None):
            return found
        if name in ("experiment", "title", "engine_version"):
            cells = self._index.unique("cell", keep="first", maintain_order=True)
            names = self.name_engines() if name == "engine_version" else {}
            rows = cells.select("cell", name).iter_rows()
            return dims.make_column(name, {cell: names.get(text, text) for cell, text in rows})
        if name == "kernel":
            names = name_kernels(self.engines, self._source.kernels)
            return dims.make_column(
                name, {c: names[version] for c, version in self.cells.select("cell", "engine_version").rows()}
            )
        if ", " in name and all(map(self.has_key, name.split(", "))):
            return keys_of.join_keys([self.find_key(one) for one in name.split(", ")])
        if found := self._find_key(name, option):
            return found
        known = [*self.matrix_keys, *(one.name for one in self.dimensions), *OF_RUN, "flow", "cc", "base_rtt"]
        raise self._make_selector(option).make_key_error(name, known)

    def find_exact_key(self, name: str, option: str = "key") -> Dimension:
        """Return the values of a key by its full name, None where it is unset or a run has no such key."""
        path = dims.find_exact_path(name, self._configs.values())
        return dims.make_dimension(name, path, self._configs, plain=True) if path else self.find_key(name, option)

    def has_key(self, name: str) -> bool:
        """Whether there is such a key of runs."""
        known = name == "kernel" or any(name == one.name for one in (*self.varying, *self.dimensions))
        if ", " in name and not known:
            return all(map(self.has_key, name.split(", ")))
        return known or self._find_key(name) is not None

    def is_of_runs(self, name: str) -> bool:
        """Whether a key has one value in each run, as `cc` has where all flows of a run have the same."""
        try:
            dimension = self.find_key(name)
        except InputError:
            return False
        return not any(" / " in text for text in dimension.texts.values())

    @property
    def of_parts(self) -> list[str]:
        """The conditions that keep some flows or classes of the runs, `KEY=VALUE`."""
        return [str(condition) for condition in self._selection.of_parts]

    def where(self, *conditions: str, option: str = "--where", **values: Any) -> Self:
        """Return only what meets every `KEY=VALUE[,VALUE...]`; values in any unit: 20000kbit is 20Mbit.

        Conditions on `flow`, `class`, `kind`, `cc`, `direction` and `base_rtt` keep the flows or classes that have any
        such, in all tables but `runs` and `queue_series`, which are of whole runs. docs/selecting.md has the grammar.
        As keywords, values may also be numbers and lists: `where(seed=[1, 2])`.
        Raises InputError.
        """
        wanted = [selecting.parse(text, option) for text in conditions]
        wanted += [selecting.make_condition(key, value) for key, value in values.items()]
        wanted.sort(key=lambda condition: condition.key not in _OF_ENGINES)  # all others are about the runs of these
        return selecting.narrow_runs(self, wanted, lambda runs, one: runs._select_condition(one, option), option)

    def _select_condition(self, condition: Condition, option: str) -> Self:
        """Return the runs that meet a condition, and of them the parts that do; raises InputError if none does."""
        key, text = condition.key, condition.text
        also = {"conditions": (*self._selection.conditions, condition)}
        if key in _OF_ENGINES:
            return self._select_engines(key, text, option, **also)
        if key == "seed":
            rows = self._index.filter(pl.col("seed").is_in(selecting.select_seeds(text, self.seeds, option)))
            return self._select_rows(rows, **also)
        if key == "from_bytes":
            other = self._select_rows(self._index, of_parts=(*self._selection.of_parts, condition), **also)
            other._select_part_rows("slowdowns", other._read("slowdowns"))
            return other
        key = {"base_rtt_ms": "base_rtt", "which": "flow"}.get(key, key)
        # sessions are runs of one direction each
        if key in parts.KEYS and self._parts.height and not (key == "direction" and self.sessions):
            return self._select_runs_with_parts(Condition(key, text), **also)
        cells = self._make_selector(option).select_cells(self.find_key(key, option), text)
        return self._select_rows(self._index.filter(pl.col("cell").is_in(cells)), **also)

    def _select_engines(self, key: str, text: str, option: str, **also: Any) -> Self:
        """Return the runs of versions of the engine, or of kernels, whichever were meant before."""
        known = self._all["engine_version"].reverse().unique(maintain_order=True).to_list()[::-1]
        prefix = "linux:" if key == "kernel" else ""
        names = (name_kernels if key == "kernel" else name_versions)(known, self._source.kernels)
        present = [name for name in names.values() if name != NOT_LINUX]
        wanted = selecting.select_texts(
            text,
            present,
            lambda part: select_versions(known, prefix + part, self._source.kernels),
            key=key,
            option=option,
        )
        found = [version for version in known if version in wanted or names[version] in wanted]
        rows = self._all.filter(pl.col("engine_version").is_in(found))
        return self._select_rows(rows, engine="all" if len(found) > 1 else found[0], **also)

    def _select_runs_with_parts(self, condition: Condition, **also: Any) -> Self:
        """Return the runs that have such parts, and of these runs the other parts no more."""
        found = self._parts.filter(parts.select_parts(self._parts, condition, self._ccs))
        cells = found["cell"].unique().to_list()
        if found.height < self._parts.filter(pl.col("cell").is_in(cells)).height:
            also["of_parts"] = (*self._selection.of_parts, condition)
        return self._select_rows(self._index.filter(pl.col("cell").is_in(cells)), **also)

    @cached_property
    def _all_parts(self) -> pl.DataFrame:
        """One row per flow, and one per class of short flows, of each cell: see `parts.list_parts`."""
        cells = self._index.unique("cell", keep="first", maintain_order=True).select("cell", "key")
        if self._labelled is not None and set(cells["cell"]) <= set(self._labelled["cell"]):
            return self._labelled.filter(pl.col("cell").is_in(cells["cell"].to_list()))
        return parts.list_parts(self._source, cells, self._configs)

    @cached_property
    def _parts(self) -> pl.DataFrame:
        """The rows of `_all_parts` that are meant."""
        found = self._all_parts
        for condition in self._selection.of_parts:
            if condition.key in parts.KEYS:
                found = found.filter(parts.select_parts(found, condition, self._ccs, checked=True))
        return found

    @cached_property
    def _ccs(self) -> dict[str, dict[str, Any]]:
        """The parameters of each congestion control, by the text that says them."""
        senders = [one for config in self._configs.values() for one in (*config["flows"], *config["web"])]
        return {dims.spell_path_value(("flows", 0, "cc"), one["cc"]): one["cc"] for one in senders}

    def _select_rows(self, rows: pl.DataFrame, **changes: Any) -> Self:
        """Return some of the runs of the file; parts keep the labels that they have among these."""
        engine = "all" if len(self.engines) > 1 else self.engines[0]
        keys = tuple(rows["key"].unique(maintain_order=True))
        return self._select(self.__dict__.get("_all_parts"), **{"keys": keys, "engine": engine} | changes)

    def engine(self, version: str) -> Self:
        """Return the runs of another engine: `sim`, `live`, `linux`, `linux:NAME`, a version, or `all` of them."""
        return self._select(engine=version)

    @cached_property
    def identical(self) -> tuple[int, int]:
        """In how many cells of several seeds all runs are the same, and how many cells of several seeds there are."""
        several = self._index.group_by("cell").agg(pl.len(), unlike=pl.col("hash").n_unique()).filter(pl.col("len") > 1)
        return several.filter(pl.col("unlike") == 1).height, several.height

    # rows of tables

    def _read(self, name: str) -> pl.DataFrame:
        """Return all rows of a table that belong to these runs."""
        return self._source.read(name, pl.DataFrame({"key": self.keys}, schema={"key": pl.String}))

    def _select_part_rows(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that meet the conditions on parts of runs; all those of a table of whole runs."""
        if not self._selection.of_parts or table not in (*parts.OF_FLOWS, *parts.OF_CLASSES):
            return rows
        for condition in self._selection.of_parts:
            if condition.key == "from_bytes":
                if table != "slowdowns":
                    found = f"table {table} has no ranges of sizes, by which {condition} selects"
                    raise Unfit(found, "table slowdowns", option="--where")
                texts = rows["from_bytes"].cast(pl.String)
                there = texts.unique(maintain_order=True).to_list()
                meant = selecting.select_texts(condition.text, there, lambda _: [], key="from_bytes")
                rows = rows.filter(texts.is_in(meant))
        part = "flow" if table in parts.OF_FLOWS else "class"
        kept = self._parts.filter(pl.col(part).is_not_null())
        if part == "class":
            cut = self._all_parts.join(kept.select("cell", "class").unique(), on=["cell", "class"], how="semi")
            if cut.height > kept.height:
                found = f"{' and '.join(self.of_parts)} selects some flows of a class, but {table} lists whole classes"
                raise Unfit(found, "all flows of a class, or a measure of flows", option="--where")
        keys = self._index.select("key", pl.col("cell").alias("cell of key"))
        wanted = keys.join(kept.select(pl.col("cell").alias("cell of key"), part).unique(), on="cell of key")
        return rows.join(wanted.select("key", part), on=["key", part], how="semi", maintain_order="left")

    @property
    def whole_runs(self) -> Self:
        """The same runs with all their parts."""
        return self._select_rows(self._index, of_parts=())

    def require_whole_runs(self, what: str, allowed: str) -> None:
        """Raise InputError if conditions keep only some parts of the runs, of which `what` cannot be told."""
        if self._selection.of_parts:
            found = f"{' and '.join(self.of_parts)} selects parts of runs, but {what}"
            raise Unfit(found, allowed, option="--where")
