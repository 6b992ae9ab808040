"""Which run of an experiment file is meant: one cell, by its number or by values of its keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dumbbell.errors import Conflict, InputError, Nothing, OutOfRange, TooMany, Unfit, UnknownName, nearest
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.experiment.matrix import Path, parse_path
from dumbbell.results import dimensions as dims
from dumbbell.results import selecting
from dumbbell.results.selecting import Condition

_MOST_NAMED = 4  # runs that an error names
_OF_SENDERS = ("cc", "cc.name", "base_rtt", "direction")  # a run has one for each of its senders
_OF_PARTS = ("flow", "class", "kind", "from_bytes")  # a run has them, but none tells it from others
_WRITING = ("trace", "qlog")  # commands that have --flow


def chosen(experiment: Experiment, number: int | None, where: Sequence[str], command: str = "qlog") -> Cell:
    """Return the run with this number, from 1 to all runs, or the first seed of the only cell for which `where` holds.

    `where` are conditions as for `dumbbell table`; those on `cc`, `base_rtt` and `direction` are met by runs that have
    such a flow. Raises InputError if there is no such run, or more than one; `command` is what errors are said of.
    """
    file = experiment.file
    if number is not None:
        if where:
            raise Conflict("--cell and --where", "one of them", file=command)
        if not 1 <= number <= len(experiment):
            raise OutOfRange(str(number), f"from 1 to {len(experiment)}", file=file, option="--cell")
        return experiment.cell(number - 1)
    conditions = [selecting.parse(one) for one in where]
    seed = 0
    for condition in (one for one in conditions if one.key == "seed"):
        seeds = list(map(str, experiment.seeds))
        seed = seeds.index(selecting.texts_of(condition.text, seeds, lambda _: [], key="seed")[0])
    found = list(range(seed, len(experiment), len(experiment.seeds)))
    conditions = [one for one in conditions if one.key != "seed"]
    cells = {index: experiment.cell(index) for index in (found if conditions else found[:_MOST_NAMED])}
    for place, condition in enumerate(conditions):
        try:
            met = _met(experiment, {index: cells[index] for index in found}, condition, command)
        except InputError as error:
            raise _nothing_left(experiment, cells, conditions[: place + 1], error, command) from None
        found = [index for index in found if index in met]
    if len(found) > 1:
        raise TooMany(f"{len(found)} runs", f"one: {_named(cells, found)}; or --where KEY=VALUE", file=file)
    return cells[found[0]]


def _met(experiment: Experiment, cells: dict[int, Cell], condition: Condition, command: str) -> set[int]:
    """Return the numbers of the cells that meet a condition; raises InputError if there are none."""
    key, text = condition.key, condition.text
    keys = list(experiment.cell(0).matrix)
    if key in keys:  # as the file has it
        values = [selecting.unquoted(value) for value in selecting.split_values(text)]
        if found := {index for index, cell in cells.items() if cell.matrix[key] in values}:
            return found
    if key in _OF_PARTS:
        flow = "; --flow N keeps one flow" if command in _WRITING else ""
        raise Unfit(
            f"{key} keeps parts of a run, and this is about a whole run", f"keys of runs{flow}", option="--where"
        )
    if key in _OF_SENDERS:
        senders = {
            f"{index} {number}": {"flows": [{"direction": "down"} | sender]}
            for index, cell in cells.items()
            for number, sender in enumerate([*cell.groups["flows"], *cell.groups["web"]])
        }
        return _fitting(key, parse_path(f"flows[0].{key}"), senders, text)
    configs = {str(index): dims.seedless(cell.groups) for index, cell in cells.items()}
    path = dims.path_named(key, configs.values(), keys)
    if path is None:
        known = [*keys, "seed", *_OF_SENDERS]
        close = nearest(key, [*known, *(one.rpartition(".")[2] for one in keys)])
        also = "any other key of the experiment"
        raise UnknownName(
            key, among=known, file=experiment.file, option="--where", nearest=close, what="key", also=also
        )
    return _fitting(key, path, configs, text)


def _fitting(key: str, path: Path, configs: dict[str, dict[str, Any]], text: str) -> set[int]:
    """Return the numbers that names of `configs` begin with, of those with a value at `path`."""
    dimension = dims.dimension_of(key, path, configs)
    meant = selecting.of_dimension(dimension, text, configs)
    return {int(name.partition(" ")[0]) for name, of_cell in dimension.texts.items() if of_cell in meant}


def _nothing_left(
    experiment: Experiment, cells: dict[int, Cell], conditions: Sequence[Condition], error: InputError, command: str
) -> InputError:
    """Return the error for a last condition that cells meet, but none that meets those before it, else `error`."""
    if len(conditions) == 1:
        return error
    try:
        _met(experiment, cells, conditions[-1], command)
    except InputError:
        return error
    said = " and ".join(map(str, conditions))
    return Nothing(f"no run has {said}", f"another value of {conditions[-1].key}: {error.allowed}", option="--where")


def _named(cells: dict[int, Cell], found: Sequence[int]) -> str:
    """Return some runs with their numbers and what distinguishes them."""
    there = [cells[index].matrix for index in found if index in cells]
    keys = [key for key in there[0] if len(there) < len(found) or len({texts[key] for texts in there}) > 1]
    named = [
        f"--cell {index + 1} ({', '.join(f'{key}={cells[index].matrix[key]}' for key in keys)})"
        for index in found[:_MOST_NAMED]
    ]
    return ", ".join(named) + (", …" if len(found) > len(named) else "")
