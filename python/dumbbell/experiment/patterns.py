"""Patterns: what is common to runs of an experiment that differ only in values on which nothing else depends.

While a run is checked as a whole, its tables note which of their values are read or set. A value that nothing read
decides nothing but itself. The next run that differs only in such values is a copy with other values in their places,
each of which is checked alone; its canonical text is made likewise.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from dumbbell.errors import InputError
from dumbbell.experiment import schema, spelling, without_effect
from dumbbell.experiment.cell import CanonicalText, Cell, format_value
from dumbbell.experiment.files import Files
from dumbbell.experiment.matrix import EVERY, Path, do_overlap
from dumbbell.experiment.registry import Param, read_registry

Setting = tuple[Path, Any]
Paths = tuple[Path, ...]
_MOST_KEPT = 256  # patterns of an experiment
_MOST_SETTINGS = 64  # of a run that makes a pattern
_PLAIN = frozenset((str, int, float, bool, type(None)))
# in canonical text, the place of a value; names have no such characters
_MARK = re.compile(r'"\\ue000(\d+)\\ue000"')
_BY_NAME = ("aqm", "cc", "link")  # tables of algorithms


class WatchedTable(dict[str, Any]):
    """A table that notes the keys whose values are read or set: `touched`."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        super().__init__(table)
        self.touched: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.touched.add(key)
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.touched.add(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self.touched.add(key)
        super().__delitem__(key)

    def __iter__(self) -> Iterator[str]:
        """Yield the keys. Because it is a method of this class, copies of the table read every value one by one."""
        return super().__iter__()

    def __eq__(self, other: object) -> bool:
        return dict(self) == other

    def __ior__(self, other: Any) -> WatchedTable:  # type: ignore[override, misc]
        self.update(other)
        return self

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key."""
        self.touched.add(key)
        return super().get(key, default)

    def items(self) -> Any:
        """Return keys and values."""
        self.touched.update(self)
        return super().items()

    def values(self) -> Any:
        """Return the values."""
        self.touched.update(self)
        return super().values()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, which is set if it is not there."""
        self.touched.add(key)
        return super().setdefault(key, default)

    def update(self, other: Mapping[str, Any]) -> None:  # type: ignore[override]
        """Set what another table has."""
        self.touched.update(other)
        super().update(other)

    def pop(self, key: str, *default: Any) -> Any:
        """Take a key out."""
        self.touched.add(key)
        return super().pop(key, *default)


def watch(value: Any) -> Any:
    """Return a run, or a part of one, whose tables note what is read of them."""
    if isinstance(value, dict):
        return WatchedTable({key: watch(one) for key, one in value.items()})
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [watch(one) for one in value]
    return value


def copy_watched(value: Any) -> Any:
    """Return the run, or the part, that `watch` was given, as it is now."""
    if isinstance(value, WatchedTable):
        return {key: copy_watched(one) for key, one in dict.items(value)}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [copy_watched(one) for one in value]
    return value


@dataclass(frozen=True)
class _FreeValue:
    """A value on which nothing else depends: the setting that sets it, its table in a run, its key there."""

    setting: int
    table: Path
    key: str
    param: Param


class DerivedRun(NamedTuple):
    """A run that differs from that of a pattern in the values of free keys; tables and text are made when needed."""

    pattern: _RunPattern
    values: list[Any]
    is_right: bool
    """Whether it can be the only run of an experiment."""

    def make_tables(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the canonical run without its seed, and what is given of it."""
        return self.pattern.make_tables(self.values)

    def format_config(self, seed: int) -> str:
        """Return the canonical text of the run with a seed."""
        return "".join(self.pattern.list_pieces(self.values, str(seed)))

    def format_text(self) -> CanonicalText:
        """Return its canonical text around the seed."""
        pieces, place = self.pattern.list_pieces(self.values), self.pattern.seed_place
        return CanonicalText("".join(pieces[:place]), "".join(pieces[place + 1 :]))


class _RunPattern:
    """A run without its seed, what is given of it, and its free values."""

    def __init__(
        self, groups: dict[str, Any], given: dict[str, Any], free: list[_FreeValue], right: dict[int, Any] | None
    ) -> None:
        """Keep them. The run can be the only one of its experiment if its settings have the values in `right`."""
        self._groups, self._given, self._free, self._right = groups, given, free, right

    @cached_property
    def _pieces(self) -> tuple[list[str], list[int]]:
        """The canonical text: pieces with free values and the seed in between, and the numbers of these.

        The seed comes after the free values in number. There are no pieces if the run has a plugin, whose file may
        change.
        """
        groups = self._groups
        for number, one in enumerate(self._free):
            groups = _replace_value(groups, one.table, one.key, f"\ue000{number}\ue000")
        text = CanonicalText.format(groups).insert_seed(f'"\\ue000{len(self._free)}\\ue000"')
        pieces = [] if '"plugin":' in text else _MARK.split(text)
        return pieces, list(map(int, pieces[1::2]))

    @property
    def seed_place(self) -> int:
        """Where the seed is in `list_pieces`."""
        return 1 + 2 * self._pieces[1].index(len(self._free))

    def list_pieces(self, values: list[Any], seed: str = "") -> list[str]:
        """Return the pieces of the text with the canonical values of free keys."""
        pieces, numbers = self._pieces
        texts = [*map(format_value, values), seed]
        filled = pieces.copy()
        filled[1::2] = [texts[number] for number in numbers]
        return filled

    def make_run(self, settings: Sequence[Setting], files: Files) -> DerivedRun | None:
        """Return the run with the values of `settings`; None if it has to be checked as a whole."""
        if not self._pieces[0]:
            return None
        values: list[Any] = []
        for one in self._free:
            try:
                value = spelling.parse_value(one.param, settings[one.setting][1], files)
            except InputError:
                return None
            if type(value) not in _PLAIN:
                return None
            values.append(value)
        is_right = self._right is not None and all(settings[n][1] == value for n, value in self._right.items())
        return DerivedRun(self, values, is_right)

    def make_tables(self, values: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the run and what is given of it, with the canonical values of free keys."""
        groups, given = self._groups, self._given
        for one, value in zip(self._free, values, strict=True):
            groups = _replace_value(groups, one.table, one.key, value)
            given = _replace_value(given, one.table, one.key, value)
        return groups, given


def _replace_value(holder: Any, steps: Path, key: str, value: Any) -> Any:
    """Return a copy of `holder` with another value for a key of the table to which `steps` lead; it shares the rest."""
    copied = holder.copy()
    if steps:
        copied[steps[0]] = _replace_value(holder[steps[0]], steps[1:], key, value)
    else:
        copied[key] = value
    return copied


def list_leaves(table: dict[str, Any]) -> list[Setting]:
    """Return every value of a table with its path: the settings that make it."""
    found: list[Setting] = []

    def visit(holder: Any, path: Path) -> None:
        for step, one in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if one and isinstance(one, dict | list):
                visit(one, (*path, step))
            else:
                found.append(((*path, step), one))

    visit(table, ())
    return found


class RunPatterns:
    """Patterns of runs, by the keys that are set: by the matrix and the settings of an experiment, or in a table."""

    def __init__(self) -> None:
        self._bound: dict[Paths, tuple[int, ...]] = {}
        """The settings on which anything depends, by their numbers."""
        self._known: dict[tuple[Paths, bytes], _RunPattern] = {}

    def make_run(self, settings: Sequence[Setting], files: Files) -> DerivedRun | None:
        """Return the run with these settings; None if it has to be checked as a whole."""
        paths = tuple([path for path, _ in settings])
        bound = self._bound.get(paths)
        if bound is None or len(bound) == len(paths):
            return None
        pattern = self._known.get((paths, _pack_values(settings, bound)))
        return None if pattern is None else pattern.make_run(settings, files)

    def settle(self, settings: Sequence[Setting], run: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return what `schema.settle` makes of a run with these settings, and keep its pattern; raises InputError."""
        paths = tuple([path for path, _ in settings])
        bound = self._bound.get(paths, ())
        if len(bound) == len(paths) or len(paths) > _MOST_SETTINGS:
            schema.settle(run, given)
            return run
        watched = watch(run)
        schema.settle(watched, given)
        settled: dict[str, Any] = copy_watched(watched)
        free = [
            one
            for number, path in enumerate(paths)
            if number not in bound and not any(do_overlap(path, other) for other in paths if other is not path)
            for one in _list_free_values(number, path, watched, given)
        ]
        bound = self._bound[paths] = tuple(n for n in range(len(paths)) if all(one.setting != n for one in free))
        right = None
        if without_effect.is_lone_run_right(watched, given):
            read = (one.setting for one in free if one.key in _follow(watched, one.table).touched)
            right = {number: settings[number][1] for number in read}
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[paths, _pack_values(settings, bound)] = _RunPattern(settled, given, free, right)
        return settled


class LoneRuns:
    """The only runs of an experiment with further settings of keys that were set before, derived from its patterns."""

    def __init__(self, cell: Cell, known: RunPatterns, files: Files) -> None:
        """Derive runs that `cell` describes, except what they do."""
        self._fields = {key: value for key, value in cell.__dict__.items() if key not in ("groups", "given")}
        self._known, self._files = known, files
        self._merges: dict[tuple[str, ...], tuple[tuple[Setting, ...], Paths]] = {}
        """The settings that stay if these keys are set, and the paths of the keys."""

    def note_keys(self, names: Sequence[str], paths: Sequence[Path], stays: Sequence[Setting]) -> None:
        """Note that a run was right with these keys set, whose paths are `paths`, on top of other settings."""
        if len(self._merges) >= _MOST_KEPT:
            self._merges.clear()
        self._merges[tuple(names)] = tuple(stays), tuple(paths)

    def derive(self, further: Sequence[tuple[str, Any]]) -> Cell | None:
        """Return the run with these settings; None if it has to be checked as a whole."""
        merge = self._merges.get(tuple([key for key, _ in further]))
        if merge is None:
            return None
        stays, paths = merge
        settings = [*stays, *zip(paths, [value for _, value in further], strict=True)]
        derived = self._known.make_run(settings, self._files)
        return Cell.derive(self._fields, derived) if derived is not None and derived.is_right else None


def _pack_values(settings: Sequence[Setting], bound: tuple[int, ...]) -> bytes:
    """Return the values of some settings as bytes: equal ones alike, and unequal ones unlike."""
    try:
        return marshal.dumps([settings[number][1] for number in bound], 2)
    except ValueError:  # a date, which no key takes
        return b""


def _list_free_values(setting: int, path: Path, run: WatchedTable, given: dict[str, Any]) -> list[_FreeValue]:
    """Return the values that a setting sets, if all of them are free."""
    found = []
    try:
        for table in _list_tables(path[:-1], run):
            own, written = (_follow(holder, table) for holder in (run, given))
            param, key = _find_params(table, own).get(str(path[-1])), str(path[-1])
            if param is None or key in own.touched:
                return []
            value = dict.get(own, key)
            if type(value) not in _PLAIN or written[key] != value:
                return []
            found.append(_FreeValue(setting, table, key, param))
    except (LookupError, AttributeError):  # a run has the value elsewhere, or has no such value
        return []
    return found


def _list_tables(path: Path, run: WatchedTable) -> list[Path]:
    """Return the steps to every table that a path means."""
    found: list[Path] = [()]
    for step in path:
        found = [(*one, n) for one in found for n in (range(len(_follow(run, one))) if step == EVERY else [step])]
    return found


def _follow(holder: Any, steps: Path) -> Any:
    """Return what the steps lead to, unnoted."""
    for step in steps:
        holder = dict.__getitem__(holder, step) if isinstance(holder, dict) else holder[step]
    return holder


def _find_params(table: Path, own: WatchedTable) -> dict[str, Param]:
    """Return what single values a table takes."""
    if not table:
        return schema.describe_section("run")
    if table[-1] in _BY_NAME:
        plain = not dict.__contains__(own, "plugin")
        return read_registry().kinds[str(table[-1])][dict.__getitem__(own, "name")].params if plain else {}
    names = [step for step in table if isinstance(step, str)]
    return schema.describe_section(names[0]) if len(names) == 1 else {}
