"""The runs of a report: results files, their engines, and the keys by which all of these runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import polars as pl

from dumbbell.errors import InputError
from dumbbell.results import dimensions as dims
from dumbbell.results import varying
from dumbbell.results.dimensions import NOTHING, Dimension
from dumbbell.results.results import StoredResults
from dumbbell.results.varying import Axes, Beside
from dumbbell.results.versions import KINDS, find_kind, select_versions

FILE = "results"  # the key that distinguishes files


@dataclass
class ReportSource:
    """Runs of one results file; `name` is what the page calls it."""

    name: str
    results: StoredResults
    engines: dict[str, str] = field(default_factory=dict)
    """What each version of the engine is called."""


@dataclass(frozen=True)
class ReportKey:
    """A key of runs over all files: its texts in order, and their numbers if all are numbers."""

    name: str
    label: str
    texts: list[str]
    numbers: list[float | None] | None
    codes: list[int]
    """Of each run the place of its text among `texts`."""


def open_files(
    files: Sequence[str | Path | StoredResults], where: Sequence[str] = (), engine: str | None = None
) -> list[ReportSource]:
    """Return the runs of results files, each of the newest version of every kind of engine unless `engine` names some.

    Raises InputError if a file has no run, or if `where` selects parts of runs.
    """
    found = []
    for file in files:
        given = isinstance(file, StoredResults)
        results = file if isinstance(file, StoredResults) else StoredResults(file, engine=engine)
        if not given and engine is None:
            results = _select_newest(results)
        results = results.where(*where)
        results.require_whole_runs("a report covers whole runs", "keys of runs, such as flows[*].cc or bottleneck.rate")
        found.append(ReportSource(str(results.path), results, _name_engines(results)))
    return [ReportSource(name, one.results, one.engines) for name, one in zip(_name_files(found), found, strict=True)]


def _name_engines(results: StoredResults) -> dict[str, str]:
    """Return what each version of an engine is called: by its kind where there is one of it."""
    kinds = [find_kind(version) for version in results.engines]
    return {
        version: find_kind(version) if find_kind(version) != "linux" and kinds.count(find_kind(version)) == 1 else text
        for version, text in results.name_engines().items()
    }


def _select_newest(results: StoredResults) -> StoredResults:
    """Return the runs of the newest version of each kind of engine."""
    versions = results.engine("all").engines
    if len(versions) < 2:
        return results
    wanted = [version for kind in KINDS for version in select_versions(versions, kind, results.source.kernels)]
    return results.where(f"engine_version={','.join(dict.fromkeys(wanted))}")


def _name_files(sources: Sequence[ReportSource]) -> list[str]:
    """Return short names of files: as much of their paths as tells them from each other."""
    paths = [one.results.path for one in sources]
    for depth in range(1, 6):
        names = ["/".join(path.absolute().parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name} ({number})" for number, path in enumerate(paths, 1)]


def _differs_between_files(file: Dimension, key: Dimension) -> bool:
    """Return whether files have other values of a key."""
    of_file: dict[str, set[str]] = {}
    for cell, name in file.texts.items():
        of_file.setdefault(name, set()).add(key.texts[cell])
    return len(set(map(frozenset, of_file.values()))) > 1


class ReportRuns:
    """All runs of a report, numbered from 0, and the keys by which they differ."""

    def __init__(self, sources: Sequence[ReportSource]) -> None:
        self.sources = list(sources)
        parts = []
        for number, one in enumerate(self.sources):
            names = ("key", "experiment", "seed", "hash", "engine_version", "wall_s", "matrix", "config", "title")
            rows = one.results.frame("runs")
            rows = rows.select(*names, *(["valid"] if "valid" in rows.columns else []))
            cells = one.results.parts("runs", []).select("key", cell_name="cell")
            rows = rows.join(cells, on="key", how="left", maintain_order="left")
            parts.append(rows.with_columns(source=pl.lit(number)))
        self.frame = pl.concat(parts, how="diagonal_relaxed").with_row_index("run")
        """One row per run: `run`, `source`, `key`, `cell_name`, `experiment`, `seed`, `hash`, `engine_version` …"""

    def __len__(self) -> int:
        return self.frame.height

    def select_source(self, source: int) -> pl.DataFrame:
        """Return `key` and `run` of the runs of one file."""
        return self.frame.filter(pl.col("source") == source).select("key", "run")

    @cached_property
    def have_hops(self) -> bool:
        """Whether all runs have several hops, so that what is measured at queues is of each hop."""
        return all(len(one.results.hops_of_cells) == len(one.results.configurations) for one in self.sources)

    @cached_property
    def late(self) -> list[int]:
        """The runs in real time whose machine did not keep time."""
        if "valid" not in self.frame.columns:
            return []
        return self.frame.filter(pl.col("valid").cast(pl.Int64) == 0)["run"].to_list()

    @cached_property
    def experiments(self) -> list[str]:
        """The experiments, in the order of the files."""
        return self.frame["experiment"].unique(maintain_order=True).to_list()

    @cached_property
    def keys(self) -> list[ReportKey]:
        """The keys by which the runs differ: first files, then engines, then keys of experiments."""
        found = []
        if len(self.sources) > 1:
            names = [one.name for one in self.sources]
            found.append(ReportKey(FILE, FILE, names, None, self.frame["source"].to_list()))
        for name in self._names:
            key = self._make_key(name)
            if len(key.texts) > 1:
                found.append(key)
        return found

    @cached_property
    def differ_as_well(self) -> list[str]:
        """Sentences that name the other keys in which runs differ: within files, and between them."""
        several = len(self.sources) > 1
        found = [
            f"{one.name}: {line[:1].lower()}{line[1:]}" if several else line
            for one in self.sources
            if (line := one.results.differ_as_well)
        ]
        if not several:
            return found
        places = [
            (f"{n} {cell}", one.name) for n, one in enumerate(self.sources) for cell in one.results.configurations
        ]
        cells = pl.DataFrame(places, schema=["cell", "experiment"], orient="row")
        cells = cells.with_columns(engine_version=pl.lit(""), matrix=pl.lit("{}"), given=pl.lit(""))
        configs = {
            f"{n} {cell}": config
            for n, one in enumerate(self.sources)
            for cell, config in one.results.configurations.items()
        }
        file, *keys = varying.find_varying(cells, configs)
        known = {name for key in self.keys for name in key.name.split(", ")}
        beside = [
            Beside(key, file if varying.follows_axis(key, file) else None)
            for key in keys
            if key.path and key.name not in known and _differs_between_files(file, key)
        ]
        return [*found, line] if (line := Axes([], beside).line) else found

    @cached_property
    def _names(self) -> list[str]:
        if len(self.sources) == 1:
            return [one.name for one in self.sources[0].results.dimensions]
        # settings in which files differ follow from the file
        return list(dict.fromkeys(one.name for source in self.sources for one in source.results.dimensions))

    def _make_key(self, name: str) -> ReportKey:
        texts: list[str] = []
        numbers: dict[str, float | None] = {NOTHING: None}
        unit, numeric = "", True
        ordered: dict[str, None] = {}
        for number, source in enumerate(self.sources):
            own = self.frame.filter(pl.col("source") == number)["cell_name"].to_list()
            try:
                dimension: Dimension | None = source.results.find_key(name)
            except InputError:  # a key that this file does not have
                dimension = None
            if dimension is None:
                texts += [NOTHING] * len(own)
                continue
            if name == "engine_version":
                engines = {text: source.engines[version] for version, text in source.results.name_engines().items()}
                dimension = dims.make_column(name, {cell: engines[text] for cell, text in dimension.texts.items()})
            called = dims.distinguish_texts(dimension, source.results.configurations)
            texts += [called[dimension.texts[cell]] for cell in own]
            ordered |= dict.fromkeys(called[text] for text in dimension.ordered)
            of_texts = dimension.numbers
            if of_texts is None:
                numeric = numeric and dimension.ordered == [NOTHING]
            else:
                numbers |= of_texts
                scale = dims.scale_of(dimension.path) if dimension.path else None
                unit = unit or (scale.unit if scale else "")
        known = [text for text in ordered if text in set(texts)]
        if numeric:
            known.sort(key=lambda text: (numbers.get(text) is None, numbers.get(text) or 0.0))
        if NOTHING in texts:
            known = [*(text for text in known if text != NOTHING), NOTHING]
        place = {text: number for number, text in enumerate(known)}
        unit = {"mbit": "Mbit/s"}.get(unit, unit)
        label = f"{name}, {unit}" if unit and numeric else name
        values = [numbers.get(text) for text in known] if numeric else None
        return ReportKey(name, label, known, values, [place[text] for text in texts])
