"""Keys such as `flows[*].base_rtt` and the lazy product of their values."""

import copy
import functools
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dumbbell.errors import InputError, Nothing, Unfit, UnknownKey, WrongValue, quote_value
from dumbbell.experiment.settings import show_setting

_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)|\[(\*|[0-9]{1,7})\]")
Path = tuple[str | int, ...]
EVERY = -1  # the step [*]
SETTING = "setting"  # the key of an axis that names what the other keys of the axis set; no run has it


@functools.lru_cache(maxsize=1024)
def parse_path(text: str) -> Path:
    """Return the steps of a dotted key; InputError if it is none."""
    steps: list[str | int] = []
    for part in text.split("."):
        position = 0
        while match := _STEP.match(part, position):
            if match[1] is not None and position:
                break
            steps.append(match[1] if match[1] is not None else EVERY if match[2] == "*" else int(match[2]))
            position = match.end()
        if position != len(part) or not part or part.startswith("["):
            raise WrongValue(quote_value(text), 'a key such as "bottleneck.rate" or "flows[*].base_rtt"')
    return tuple(steps)


def format_path(path: Path) -> str:
    """Return a path as it is written in a file."""
    steps = [f".{s}" if isinstance(s, str) else "[*]" if s == EVERY else f"[{s}]" for s in path]
    return "".join(steps).removeprefix(".")


def _expand_short_form(value: Any, step: str | int) -> Any:
    """Return the table that a short form such as `aqm = "codel"` stands for."""
    return {"name": value} if isinstance(value, str) and isinstance(step, str) else value


def _format_place(path: Path) -> str:
    return format_path(path) or "the file"


def _select_items(holder: Any, step: str | int, before: Path, rest: Path) -> range | list[str]:
    """Return the keys or indexes of `holder` that `step` means; `rest` comes after it."""
    if isinstance(step, str):
        if not isinstance(holder, dict):
            if isinstance(holder, list):
                every = format_path((*before, EVERY, step, *rest))
                raise UnknownKey(str(step), key=format_path((*before, step, *rest)), nearest=every)
            raise UnknownKey(
                str(step), among=f"{_format_place(before)} is {quote_value(holder)}", key=format_path((*before, step))
            )
        return [step]
    if not isinstance(holder, list) or not holder:
        found = "no list" if not isinstance(holder, list) else "an empty list"
        raise UnknownKey(str(step), among=f"{_format_place(before)} is {found}", key=format_path((*before, step)))
    if step == EVERY:
        return range(len(holder))
    if step >= len(holder):
        here = _format_place(before)
        raise UnknownKey(
            str(step), among=f"the last of {here} is {here}[{len(holder) - 1}]", key=format_path((*before, step))
        )
    return range(step, step + 1)


def set_path(holder: Any, path: Path, value: Any, before: Path = ()) -> None:
    """Set every place in `holder` that `path` means to a copy of `value`; tables on the way are made."""
    step, rest = path[0], path[1:]
    for item in _select_items(holder, step, before, rest):
        if not rest:
            holder[item] = copy.deepcopy(value) if isinstance(value, dict | list) else value
            continue
        if isinstance(item, str):
            holder[item] = _expand_short_form(holder.get(item, {} if isinstance(rest[0], str) else []), rest[0])
        else:
            holder[item] = _expand_short_form(holder[item], rest[0])
        set_path(holder[item], rest, value, (*before, step))


def get_path(holder: Any, path: Path) -> list[Any]:
    """Return the values at every place that `path` means; places that do not exist are left out."""
    found = [holder]
    for step in path:
        if isinstance(step, str):
            found = [h[step] for h in found if isinstance(h, dict) and step in h]
        elif step == EVERY:
            found = [item for h in found if isinstance(h, list) for item in h]
        else:
            found = [h[step] for h in found if isinstance(h, list) and step < len(h)]
    return found


def do_overlap(one: Path, other: Path) -> bool:
    """Return whether one of two paths leads to a place that the other goes through or ends at."""
    return all(
        a == b or (isinstance(a, int) and isinstance(b, int) and EVERY in (a, b))
        for a, b in zip(one, other, strict=False)
    )


@dataclass(frozen=True)
class MatrixAxis:
    """One dimension of the matrix: keys that are set in step, and what they are set to at each position."""

    text: str
    keys: tuple[str, ...]
    paths: tuple[Path, ...]
    values: tuple[tuple[Any, ...], ...]

    def list_settings(self, position: int) -> list[tuple[str, Path, Any]]:
        """Return key, path and value of everything that this axis sets at `position`."""
        return list(zip(self.keys, self.paths, self.values[position], strict=True))

    def format_setting(self, position: int) -> str:
        """Return what leaves this position alone, as `--set` takes it."""
        values = self.values[position]
        alone = values[0] if len(self.keys) == 1 else list(values)
        return show_setting(self.text, [alone] if isinstance(alone, list) else alone)

    def is_changed_by(self, path: Path) -> bool:
        """Return whether setting `path` after this axis changes what the axis says that it set."""
        for number, own in enumerate(self.paths):
            rest = path[len(own) :]
            says = rest[:1] in ((), ("name",)) or any(get_path(values[number], rest) for values in self.values)
            if says and do_overlap(path, own):
                return True
        return False


def parse_axis(text: str, values: list[Any]) -> MatrixAxis:
    """Return the axis of one line of `[matrix]`; InputError with the key below `matrix`."""
    where = f'matrix."{text}"'
    try:
        keys = tuple(key.strip() for key in text.split(","))
        paths = tuple(parse_path(key) for key in keys)
    except InputError as error:
        raise error.move("", where) from None
    if not values:
        raise Nothing("the list is empty", "at least one value", key=where)
    if keys == (SETTING,) or SETTING in keys[1:]:
        raise Unfit("a setting names what other keys get", f'"{SETTING}, KEY, …": it stands first', key=where)
    if len(keys) == 1:
        return MatrixAxis(text, keys, paths, tuple((value,) for value in values))
    for i, value in enumerate(values):
        if not isinstance(value, list) or len(value) != len(keys):
            raise WrongValue(quote_value(value), f"a list of {len(keys)} values, one for each key", key=f"{where}[{i}]")
    axis = MatrixAxis(text, keys, paths, tuple(tuple(value) for value in values))
    _check_names(axis, where)
    return axis


def _check_names(axis: MatrixAxis, where: str) -> None:
    """Raise InputError if the names of the settings of an axis are not different texts."""
    if SETTING not in axis.keys:
        return
    seen: dict[str, int] = {}
    for i, values in enumerate(axis.values):
        name = values[axis.keys.index(SETTING)]
        if not isinstance(name, str) or not name.strip():
            raise WrongValue(quote_value(name), "the name of a setting, a text", key=f"{where}[{i}]")
        if seen.setdefault(name, i) != i:
            raise WrongValue(quote_value(name), f"a name that {where}[{seen[name]}] does not have", key=f"{where}[{i}]")


@dataclass(frozen=True)
class Matrix:
    """Axes and the product of them, never held in memory."""

    axes: tuple[MatrixAxis, ...]

    @property
    def size(self) -> int:
        """How many cells."""
        return math.prod(len(axis.values) for axis in self.axes)

    def find_changed_axis(self, path: Path) -> MatrixAxis | None:
        """Return the axis, if there is one, whose labels would not be true if `path` were set after the matrix."""
        return next((axis for axis in self.axes if axis.is_changed_by(path)), None)

    def list_positions(self) -> Iterator[tuple[int, ...]]:
        """Yield the position on every axis, the last axis changing fastest."""
        return itertools.product(*(range(len(axis.values)) for axis in self.axes))

    def find_position(self, index: int) -> tuple[int, ...]:
        """Return the `index`-th of `list_positions()`."""
        digits = []
        for axis in reversed(self.axes):
            index, digit = divmod(index, len(axis.values))
            digits.append(digit)
        return tuple(reversed(digits))

    def list_settings(self, position: tuple[int, ...]) -> list[tuple[str, Path, Any]]:
        """Return what the cell at `position` sets, whole tables before keys inside them."""
        if not self.axes:
            return []
        pairs = zip(self.axes, position, strict=True)
        flat = [setting for axis, digit in pairs for setting in axis.list_settings(digit)]
        return sorted(flat, key=lambda setting: len(setting[1]))
