"""Makes an experiment smaller while it stays as bad: delta debugging of one cell.

Keys, entries of lists and parameters are removed, flows become fewer, the duration shorter and numbers rounder, one
change at a time, until no change is left with which the experiment is still as bad as a limit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dumbbell.errors import InputError
from dumbbell.experiment import units
from dumbbell.experiment.file import parse
from dumbbell.experiment.matrix import Path

MOST_TRIALS = 600
_DURATIONS_S = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60)
# they may have defaults, but a reader of a network looks for them first
_KEPT = ("name", "duration", "rate", "base_rtt", "cc", "stack", "size", "aqm")
_MEASURED = "record"  # the table that says from when on a run is measured, which is no part of a network
Table = dict[str, Any]


def shrink_table(
    table: Table,
    is_bad: Callable[[Table], bool],
    keep_flows: int = 0,
    least_s: float = 1.0,
    tied: Sequence[Sequence[Path]] = (),
) -> tuple[Table, int]:
    """Return the smallest table found that `is_bad`, and how many were tried.

    The first `keep_flows` tables of flows stay, and no run is shorter than `least_s`. Keys that are `tied` keep one
    value, or are removed together. `is_bad` is asked about tables that an experiment file may have alone.
    """
    tried = 0

    def is_still_bad(changed: Table) -> bool:
        nonlocal tried
        try:
            parse(copy.deepcopy(changed) | {"seeds": [1]}, "smaller")
        except InputError:
            return False
        tried += 1
        return is_bad(changed)

    while tried < MOST_TRIALS:
        found = next(
            (
                one
                for one in _list_changes(table, keep_flows, least_s, tied)
                if tried < MOST_TRIALS and is_still_bad(one)
            ),
            None,
        )
        if found is None:
            break
        table = found
    return table, tried


def _list_changes(
    table: Table, keep_flows: int, least_s: float, tied: Sequence[Sequence[Path]] = ()
) -> Iterator[Table]:
    """Yield tables that are smaller by one change, those first that save most."""
    yield from _shorten(table, least_s)
    kept: list[Path] = [("flows", number) for number in range(keep_flows)]
    if keep_flows:
        kept.append(("flows",))
    places = dict(_list_places(table))
    for path in places:
        if path not in kept and path[-1] not in _KEPT:
            yield _remove(table, [one for one in _list_tied(path, tied) if one in places])
    for path, value in places.items():
        together = _list_tied(path, tied)
        fewer = (1, value // 2) if path[-1] == "count" and isinstance(value, int) and value > 1 else ()
        for simpler in (*dict.fromkeys(fewer), *_list_simpler(value)):
            changed = copy.deepcopy(table)
            for one in together:
                if one in places:
                    _find_holder(changed, one)[one[-1]] = simpler
            yield changed


def _shorten(table: Table, least_s: float) -> Iterator[Table]:
    duration = units.parse("time", table["duration"]) / 1e9
    for seconds in _DURATIONS_S:
        if least_s <= seconds < duration:
            yield copy.deepcopy(table) | {"duration": f"{seconds}s"}


def _list_places(value: Any, before: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the places of a table with their values, outer ones first, and the last of a list first."""
    items: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = [(key, inner) for key, inner in value.items() if before or key != _MEASURED]
    elif isinstance(value, list):
        items = list(enumerate(value))[::-1]
    for step, inner in items:
        yield (*before, step), inner
    for step, inner in items:
        yield from _list_places(inner, (*before, step))


def _find_holder(table: Table, path: Path) -> Any:
    holder: Any = table
    for step in path[:-1]:
        holder = holder[step]
    return holder


def _list_tied(path: Path, tied: Sequence[Sequence[Path]]) -> Sequence[Path]:
    """Return the places that keep one value with that at `path`, itself among them."""
    return next((group for group in tied if path in group), (path,))


def _remove(table: Table, paths: Sequence[Path]) -> Table:
    changed = copy.deepcopy(table)
    for path in paths:
        del _find_holder(changed, path)[path[-1]]
    return changed


def _list_simpler(value: Any) -> Iterator[Any]:
    """Yield simpler values: a table with a name alone as that name, rounder numbers."""
    if isinstance(value, dict) and value.keys() == {"name"}:
        yield value["name"]
    elif isinstance(value, bool):
        return
    elif isinstance(value, int | float):
        yield from _list_rounder(value, type(value))
    elif isinstance(value, str):
        for kind in units.UNITS:
            if units.has_unit(kind, value):
                whole = units.parse(kind, value)
                yield from (units.show(kind, one) for one in _list_rounder(whole, int))


def _list_rounder(value: float, kind: type) -> Iterator[Any]:
    """Yield numbers with fewer significant digits than a number has, the roundest first."""
    for digits in (1, 2, 3):
        rounder = kind(float(f"{value:.{digits - 1}e}"))
        if rounder == value:
            return
        yield rounder
