"""Runs of a shipped experiment that were changed by other settings: they never mix with runs that were not.

A figure or a published cell says by its keys which runs it is of. All other settings have to be the same in all runs of
an experiment, or as the experiment's own file has them for each of its cells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.errors import InputError, Unfit, spell_option
from dumbbell.experiment import matrix, shipped
from dumbbell.experiment.file import load
from dumbbell.results import dimensions as dims
from dumbbell.results.results import StoredResults
from dumbbell.words import format_count

_MOST_CELLS = 20_000  # of a file that is resolved
_MOST_LISTED = 4  # queue disciplines
_Differing = dict[str, tuple[str, ...]]


def list_left_out(results: StoredResults, placed: pl.Series) -> list[str]:
    """Return a line on the runs of results that no figure or table has, with their queue disciplines; none if all do.

    `placed` are the keys of the runs that they have.
    """
    rest = [key for key in results.keys if key not in set(placed)]
    if not rest:
        return []
    texts = results.with_keys(rest).find_key("bottleneck.aqm").ordered
    more = f" and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    return [
        f"left out: {format_count(len(rest), 'run')} that no figure or table has, over "
        f"{', '.join(texts[:_MOST_LISTED])}{more}"
    ]


def require_alike(runs: pl.DataFrame) -> None:
    """Raise InputError if some runs of a shipped experiment have settings that others have not, and no matrix sets.

    `runs` has the columns `experiment`, `matrix` and `config` of table runs; without them nothing is checked.
    """
    if not {"experiment", "matrix", "config"} <= {*runs.columns}:
        return
    for (name,), own in runs.group_by("experiment", maintain_order=True):
        kinds: dict[str, tuple[str, dict[str, Any]]] = {}
        for labels, text in own.select("matrix", "config").iter_rows():
            config = dims.drop_seed(json.loads(text))
            kinds.setdefault(json.dumps([labels, config], sort_keys=True), (labels, config))
        if len(kinds) < 2:
            continue
        if unlike := _list_unlike(str(name), list(kinds.values())):
            keys = ", ".join(unlike)
            found = f"several kinds of runs belong to one published cell or figure of {name}: they differ in {keys}"
            raise Unfit(found, f"{spell_option('where')} KEY=VALUE for runs of one kind", file="results")


def _list_unlike(name: str, kinds: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the keys in which runs of an experiment differ and that no axis sets; `kinds` are labels and settings.

    Experiments of several studies may have one name: the runs are of the file that they fit best. The file that has
    most of their cells is tried first, because nothing fits better than a file without such keys.
    """
    files = _list_files(name)
    found: dict[int, list[str]] = {}
    for place in sorted(range(len(files)), key=lambda place: -files[place].count_cells(labels for labels, _ in kinds)):
        found[place] = files[place].list_unlike(kinds)
        if not found[place]:
            return []
    return min((found[place] for place in range(len(files))), key=len, default=[])


class _ShippedFile:
    """The cells of an experiment file, by what its matrix says of each, and the keys that the matrix sets."""

    def __init__(self, cells: Mapping[str, dict[str, Any]], axes: list[matrix.Path]) -> None:
        self._cells = cells
        self._axes = axes

    def count_cells(self, labels: Iterable[str]) -> int:
        """Return how many of the labels are those of a cell."""
        return sum(_hash_labels(json.loads(text)) in self._cells for text in labels)

    def list_unlike(self, kinds: Iterable[tuple[str, dict[str, Any]]]) -> list[str]:
        """Return the keys that no axis sets and in which runs differ; `kinds` are labels and settings."""
        found = [self.find_differing(json.loads(labels), config) for labels, config in kinds]
        keys = dict.fromkeys(key for one in found for key in one)
        return [key for key in keys if len({one.get(key) for one in found}) > 1]

    def find_differing(self, labels: dict[str, str], config: dict[str, Any]) -> _Differing:
        """Return the keys that no axis sets and whose values are other ones than in the file, with these values.

        They are compared with the cell of the same labels or, where an axis has a value of its own, with the nearest.
        """
        own = self._cells.get(_hash_labels(labels))
        candidates = [own] if own is not None else self._find_nearest(labels)
        return min((self._find_unlike(one, config) for one in candidates), key=len, default={})

    def _find_nearest(self, labels: dict[str, str]) -> list[dict[str, Any]]:
        alike = {code: sum(labels.get(key) == text for key, text in json.loads(code).items()) for code in self._cells}
        most = max(alike.values(), default=0)
        return [self._cells[code] for code, count in alike.items() if count == most]

    def _find_unlike(self, own: dict[str, Any], config: dict[str, Any]) -> _Differing:
        paths = [
            path
            for path in dims.find_unlike_paths((), [own, config])
            if not any(len(path) >= len(axis) and matrix.do_overlap(path, axis) for axis in self._axes)
        ]
        return {
            matrix.format_path(path): tuple(
                dims.spell_path_value(path, value) for value in matrix.get_path(config, path)
            )
            for path in paths
        }


@cache
def _list_files(name: str) -> tuple[_ShippedFile, ...]:
    """Return the cells of the shipped experiments with this name, without those that have too many."""
    paths = [path for path in shipped.list_experiments().values() if path.stem == name]
    return tuple(file for path in paths if (file := _read(path)) is not None)


def _read(path: Path) -> _ShippedFile | None:
    try:
        experiment = load(path)
    except InputError:
        return None
    if experiment.matrix.size > _MOST_CELLS:
        return None
    step, cells = len(experiment.seeds), {}
    for number in range(experiment.matrix.size):
        cell = experiment.make_cell(number * step)
        cells[_hash_labels(cell.matrix)] = json.loads(json.dumps(dims.drop_seed(cell.groups)))
    return _ShippedFile(cells, [path for axis in experiment.matrix.axes for path in axis.paths])


def _hash_labels(labels: dict[str, str]) -> str:
    return json.dumps(labels, sort_keys=True)
