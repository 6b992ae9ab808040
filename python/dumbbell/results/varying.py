"""Finds keys that distinguish cells: all that vary, those that are axes of a table or figure, and the others.

Every key that varies is named. A key that follows from another one is part of the label of that axis, `target=5ms,
interval=100ms`, or, where the label would be too long or the other key is the one that a matrix has, it is in the line
"They differ in … as well".
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dumbbell.experiment import matrix, schema
from dumbbell.experiment.registry import read_registry
from dumbbell.results import dimensions as dims
from dumbbell.results.dimensions import NOTHING, Dimension

if TYPE_CHECKING:
    import polars as pl

OF_CELLS = ("engine_version", "experiment", "given")  # dimensions that are no keys of configurations
_MOST_JOINED, _LONGEST = 3, 64  # keys that one axis joins, and characters of its values
_MOST_VALUES, _MOST_BESIDE = 4, 8  # values of a key that are listed, and keys that are listed with values
_MOST_NAMES = 20
_WAYS = ("bottleneck", "reverse")


class Partition:
    """Cells put into ever smaller groups by one key after the other."""

    def __init__(self, cells: Sequence[str]) -> None:
        self._group: dict[str, int] = dict.fromkeys(cells, 0)
        self.groups = 1 if cells else 0

    def refine(self, values: dict[str, str]) -> bool:
        """Divide the groups by a key; return whether any was divided."""
        numbers: dict[tuple[int, Hashable], int] = {}
        group = {cell: numbers.setdefault((before, values[cell]), len(numbers)) for cell, before in self._group.items()}
        if len(numbers) == self.groups:
            return False
        self._group, self.groups = group, len(numbers)
        return True


def find_undetermined(
    dimensions: Iterable[Dimension], given: Iterable[Dimension], cells: Sequence[str]
) -> list[Dimension]:
    """Return those of `dimensions` that distinguish cells which `given` and those before them do not."""
    partition = Partition(cells)
    for dimension in given:
        partition.refine(dimension.texts)
    return [dimension for dimension in dimensions if partition.refine(dimension.texts)]


# which keys vary


def find_varying(cells: pl.DataFrame, configs: dict[str, dict[str, Any]]) -> list[Dimension]:
    """Return every key by which cells differ: experiments, keys of matrices, then all others.

    `cells` has one row per cell: `cell`, `experiment`, `engine_version`, `matrix` (JSON), `given`.
    """
    names = cells["cell"].to_list()
    partition = Partition(names)
    found: list[Dimension] = []

    def take(dimension: Dimension) -> None:
        if len(set(dimension.texts.values())) > 1:
            partition.refine(dimension.texts)
            found.append(dimension)

    for column in ("engine_version", "experiment"):
        take(dims.make_column(column, dict(zip(names, cells[column].to_list(), strict=True))))
    for name in list_matrix_keys(cells):
        if name == matrix.SETTING:
            called = (json.loads(text).get(name, NOTHING) for text in cells["matrix"])
            take(dims.make_column(name, dict(zip(names, called, strict=True))))
            continue
        path = matrix.parse_path(name)
        leaf = dims.find_leaf(path, configs)
        if all(leaf != one.path for one in found):
            take(dims.make_dimension(name if leaf == path else matrix.format_path(leaf), leaf, configs))
    paths = [path for path in _find_all_unlike(cells, configs) if not any(_covers_path(one, path) for one in found)]
    for path in paths:
        take(dims.make_dimension(matrix.format_path(path), path, configs))
    if partition.groups < len(names):  # what is not used distinguishes runs only where nothing else does
        for path in paths:
            dimension = dims.make_dimension(matrix.format_path(path), path, configs, unused=True)
            if partition.refine(dimension.texts):
                found = [one for one in found if one.path != path] + [dimension]
    if partition.groups < len(names):  # on Linux: one configuration, and other keys of it set
        take(dims.make_column("given", dict(zip(names, cells["given"].to_list(), strict=True))))
    return found


def list_matrix_keys(cells: pl.DataFrame) -> list[str]:
    """Return the keys of the matrices of all experiments, in order."""
    texts = cells["matrix"].unique(maintain_order=True)
    return list(dict.fromkeys(key for text in texts for key in json.loads(text)))


def _covers_path(dimension: Dimension, path: matrix.Path) -> bool:
    """Return whether all that is at a path is in the values of a dimension."""
    outer = dimension.path
    return outer is not None and len(path) >= len(outer) and matrix.do_overlap(path, outer)


def _find_all_unlike(cells: pl.DataFrame, configs: dict[str, dict[str, Any]]) -> list[matrix.Path]:
    """Return the paths at which cells differ: those of one experiment, then experiments from each other."""
    groups = [own["cell"].to_list() for _, own in cells.group_by("experiment", maintain_order=True)]
    groups.append([own[0] for own in groups])
    paths: dict[matrix.Path, None] = {}
    for own in groups:
        whole = _fill_sections([dims.drop_seed(configs[cell]) for cell in own])
        for path in dims.find_unlike_paths((), whole):
            paths[path] = None
            paths |= dict.fromkeys(_find_unlike_senders(path, whole))
    return [path for path in paths if not _follows_profile(path, paths, configs)]


def _fill_sections(configs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return configurations with all sections, and all keys of sections, that any of them has; None for those lacking.

    A table whose `name` determines its keys, such as an algorithm, stays whole.
    """
    keys: dict[str, dict[str, None]] = {}
    for config in configs:
        for name, value in config.items():
            known = keys.setdefault(name, {})
            if isinstance(value, dict):
                known.update(dict.fromkeys(value))
    empty = {name: dict.fromkeys(inner) for name, inner in keys.items() if inner and "name" not in inner}
    return [
        {
            name: empty[name] | config[name]
            if name in empty and isinstance(config.get(name), dict)
            else config.get(name)
            for name in keys
        }
        for config in configs
    ]


def _find_unlike_senders(path: matrix.Path, configs: Sequence[dict[str, Any]]) -> list[matrix.Path]:
    """Return where the senders differ that all configurations have, if some configurations have more of them."""
    if len(path) != 1 or path[0] not in schema.SENDERS:
        return []
    lists = [config.get(path[0]) or [] for config in configs]
    return [
        inner
        for number in range(min(map(len, lists)))
        for inner in dims.find_unlike_paths((*path, number), [one[number] for one in lists])
        if len(inner) > 2
    ]


def _follows_profile(path: matrix.Path, paths: Iterable[matrix.Path], configs: dict[str, dict[str, Any]]) -> bool:
    """Return whether a key of hosts is in each configuration as the profile has it, and the profiles differ."""
    if path[0] != "hosts" or len(path) != 2 or path[1] == "profile" or ("hosts", "profile") not in paths:
        return False
    profiles, params = read_registry().profiles, read_registry().sections["hosts"]
    for config in configs.values():
        hosts = config.get("hosts") or {}
        known = profiles.get(hosts.get("profile", ""))
        if known is None:
            return False
        usual = {key: param.default for key, param in params.items()} | known.hosts
        if path[1] not in hosts or hosts[path[1]] != usual.get(str(path[1])):
            return False
    return True


# which of them are axes


@dataclass(frozen=True)
class Beside:
    """A key that no axis has: it follows from what the axes show, from `axis` alone if that is not None."""

    key: Dimension
    axis: Dimension | None


@dataclass
class Axes:
    """The dimensions that distinguish cells, and the keys that differ with them."""

    axes: list[Dimension]
    beside: list[Beside] = field(default_factory=list)

    @property
    def line(self) -> str:
        """A sentence that names the keys which no axis has; empty if there are none."""
        if not self.beside:
            return ""
        said = [_name_with_values(one) for one in self.beside]
        if len(said) > _MOST_BESIDE:
            said = [one.key.name for one in self.beside]
        more = len(said) - _MOST_NAMES
        listed = ", ".join(said[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        return f"They differ in {listed} as well"


def choose_axes(
    keys: Sequence[Dimension],
    of_matrix: Sequence[str],
    cells: Sequence[str],
    *,
    given: Sequence[Dimension] = (),
    over: Sequence[Dimension] = (),
) -> Axes:
    """Return which of `keys` are further axes of `cells`, next to those that are `given`, and which are said besides.

    Keys that follow from each other are one axis with all of their names, unless one is `given` or means are taken
    `over` it. `of_matrix` are the keys of matrices: other keys never join them.
    """
    own = [matrix.parse_path(name) for name in of_matrix]
    partition = Partition(cells)
    for dimension in (*given, *over):
        partition.refine(dimension.texts)
    taken = [key for one in (*given, *over) for key in one.parts]
    left = [
        key
        for key in (one.select_cells(cells) for one in keys)
        if len(set(key.texts.values())) > 1
        and not any(key.name == one.name or (key.path is not None and _covers_path(one, key.path)) for one in taken)
    ]
    needed: list[Dimension] = []
    rest: list[Dimension] = []
    while left:
        key = left.pop(0)
        other = next((one for one in left if _are_ways(key, one)), None)
        if other is None:
            (needed if partition.refine(key.texts) else rest).append(key)
            continue
        left.remove(other)
        pair = join_keys([key, other] if key.path and key.path[0] == _WAYS[0] else [other, key])
        if partition.refine(pair.texts):
            needed.append(pair)
        else:
            rest += pair.keys
    for one in [*needed]:  # which follows from one after it, as the first of two keys that a matrix joins may do
        other = next((axis for axis in needed if axis is not one and _joins_axis(axis, one, own)), None)
        if other is not None and one in needed:
            needed[needed.index(other)] = join_keys([*other.parts, *one.parts])
            needed.remove(one)
    beside = []
    for key in rest:
        place = next((n for n, axis in enumerate(needed) if _joins_axis(axis, key, own)), None)
        if place is not None:
            needed[place] = join_keys([*needed[place].parts, key])
            continue
        axis = next((one for one in (*given, *needed) if follows_axis(key, one)), None)
        if axis is None or axis.name != matrix.SETTING or not _is_set_by(own, key):  # else the setting names it
            beside.append(Beside(key, axis))
    return Axes(needed, beside)


def _are_ways(one: Dimension, other: Dimension) -> bool:
    """Return whether two keys are one of the bottleneck and the same one of the way back."""
    if one.path is None or other.path is None or len(one.path) < 2 or one.path[1:] != other.path[1:]:
        return False
    return {one.path[0], other.path[0]} == {*_WAYS}


def follows_axis(key: Dimension, axis: Dimension) -> bool:
    """Return whether the value of a key follows from the value of an axis."""
    pairs = {(axis.texts[cell], text) for cell, text in key.texts.items()}
    return len(pairs) == len({text for text, _ in pairs})


def _joins_axis(axis: Dimension, key: Dimension, of_matrix: Sequence[matrix.Path]) -> bool:
    """Return whether a key that follows from an axis is to be part of its label."""
    if {axis.name, key.name} & {*OF_CELLS, matrix.SETTING} or not follows_axis(key, axis):
        return False
    if not _is_set_by(of_matrix, key.parts[0]) and any(_is_set_by(of_matrix, one) for one in axis.parts):
        return False
    whole = join_keys([*axis.parts, *key.parts])
    unlike = {tuple(one.texts.values()) for one in whole.keys}
    return len(unlike) <= _MOST_JOINED and max(map(len, whole.texts.values())) <= _LONGEST


def _is_set_by(of_matrix: Sequence[matrix.Path], key: Dimension) -> bool:
    """Return whether a matrix sets a key, or the table that the key is in."""
    path = key.path
    return path is not None and any(len(path) >= len(own) and matrix.do_overlap(path, own) for own in of_matrix)


def join_keys(keys: Sequence[Dimension]) -> Dimension:
    """Return keys that change together as one dimension, whose name and texts name all of them.

    Its numbers are those of the first key, if each of its texts has a number of its own.
    """
    first = keys[0]
    said = _join_texts(keys)
    texts = {cell: ", ".join(one[cell] for one in said) for cell in first.texts}
    is_numeric = first.is_numeric and NOTHING not in first.texts.values()
    if is_numeric and len(set(first.values.values())) == len(set(texts.values())):
        values = dict(first.values)
    else:
        values = dict(texts)
    return Dimension(", ".join(key.name for key in keys), None, texts, values, tuple(keys))


def _join_texts(keys: Sequence[Dimension]) -> list[dict[str, str]]:
    """Return what several keys are in each cell: each with its name, those that are the same everywhere once."""
    left = list(keys)
    found = []
    while left:
        key = left.pop(0)
        if other := next((one for one in left if _are_ways(key, one)), None):
            left.remove(other)
            down, up = (key, other) if key.path and key.path[0] == _WAYS[0] else (other, key)
            found.append({cell: _join_directions(down, text, up.texts[cell]) for cell, text in down.texts.items()})
            continue
        alike = [one for one in left if one.word == key.word and one.texts == key.texts]
        left = [one for one in left if one not in alike]
        others = [one for one in keys if one is not key and one not in alike]
        name = key.word if all(one.word != key.word for one in others) else key.name
        bare = name == key.word and (key.format_text(NOTHING) == NOTHING or not others)
        found.append({cell: text if bare else f"{name}={text}" for cell, text in key.texts.items()})
    return found


def _join_directions(key: Dimension, down: str, up: str) -> str:
    """Return a value of the bottleneck and one of the way back as one text: `cake both ways`, `pfifo down, cake up`."""
    ahead = key.format_text("")
    return f"{ahead}{down} both ways" if down == up else f"{ahead}{down} down, {up} up"


def _name_with_values(one: Beside) -> str:
    """Return the name of a key, and which values it has with which values of an axis."""
    name, texts = one.key.name, one.key.ordered
    if len(texts) > _MOST_VALUES:
        ends = f"{texts[0]} to {texts[-1]}" if one.key.is_numeric else f"{len(texts)} values"
        return f"{name} ({ends})"
    if one.axis is None or len(one.axis.ordered) > _MOST_VALUES:
        return f"{name} ({', '.join(texts)})"
    with_text: dict[str, list[str]] = {}
    of_axis = {one.axis.texts[cell]: text for cell, text in one.key.texts.items()}
    for own in one.axis.ordered:
        if own in of_axis:
            with_text.setdefault(of_axis[own], []).append(own)
    said = ", ".join(f"{text} with {_join_words(own)}" for text, own in with_text.items())
    return f"{name} ({said})"


def _join_words(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
