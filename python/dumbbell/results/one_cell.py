"""Selects one run of an experiment file: one cell, by its number or by values of its keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dumbbell.errors import Ambiguous, Conflict, OutOfRange, Unfit
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.results import dimensions as dims
from dumbbell.results import selecting
from dumbbell.results.selecting import Condition, Selector

_MOST_NAMED = 4  # runs that an error names
_OF_SENDERS = ("cc", "cc.name", "base_rtt", "direction")  # a run has one for each of its senders
_OF_PARTS = ("flow", "class", "kind", "from_bytes")  # a run has them, but none tells it from others
_WRITING = ("trace", "qlog")  # commands that have --flow


def choose_cell(experiment: Experiment, number: int | None, where: Sequence[str], command: str = "qlog") -> Cell:
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
        return experiment.make_cell(number - 1)
    conditions = [selecting.parse(one) for one in where]
    seed, seeds = 0, experiment.seeds
    for condition in (one for one in conditions if one.key == "seed"):
        seed = seeds.index(selecting.select_seeds(condition.text, seeds)[0])
    conditions = [one for one in conditions if one.key != "seed"]
    first = range(seed, len(experiment), len(seeds))
    cells = {index: experiment.make_cell(index) for index in (first if conditions else first[:_MOST_NAMED])}
    met = selecting.narrow_runs(cells, conditions, lambda some, one: _select_cells(experiment, some, one, command))
    left = len(met) if conditions else len(first)
    if left > 1:
        allowed = f"one with --cell N or --where KEY=VALUE: {_list_cells(met, left)}"
        raise Ambiguous(f"it describes {left} runs", allowed, file=file)
    return next(iter(met.values()))


def _select_cells(
    experiment: Experiment, cells: dict[int, Cell], condition: Condition, command: str
) -> dict[int, Cell]:
    """Return the cells that meet a condition; raises InputError if there are none."""
    key, text = condition.key, condition.text
    keys = list(experiment.make_cell(0).matrix)
    if key in keys:  # as the file has it
        values = [selecting.strip_quotes(value) for value in selecting.split_values(text)]
        if found := {index: cell for index, cell in cells.items() if cell.matrix[key] in values}:
            return found
    if key in _OF_PARTS:
        flow = "; --flow N keeps one flow" if command in _WRITING else ""
        raise Unfit(
            f"{key} selects a part of a run, but {command} takes a whole run", f"keys of runs{flow}", option="--where"
        )
    if key in _OF_SENDERS:  # a cell for each sender
        configs = {
            f"{index} {number}": {"flows": [{"direction": "down"} | sender]}
            for index, cell in cells.items()
            for number, sender in enumerate([*cell.groups["flows"], *cell.groups["web"]])
        }
        name = f"flows[0].{key}"
    else:
        configs, name = {str(index): dims.drop_seed(cell.groups) for index, cell in cells.items()}, key
    selector = Selector(experiment.file, configs, keys)
    dimension = selector.find_key(name)
    if dimension is None:
        raise selector.make_key_error(key, [*keys, "seed", *_OF_SENDERS])
    meant = selector.select_cells(replace(dimension, name=key), text)
    return {index: cells[index] for index in cells if index in {int(name.partition(" ")[0]) for name in meant}}


def _list_cells(cells: dict[int, Cell], total: int) -> str:
    """Return some of `total` runs with their numbers and what distinguishes them."""
    there = [cell.matrix for cell in cells.values()]
    keys = [key for key in there[0] if len(there) < total or len({texts[key] for texts in there}) > 1]
    named = [
        f"--cell {index + 1} ({', '.join(f'{key}={cell.matrix[key]}' for key in keys)})"
        for index, cell in list(cells.items())[:_MOST_NAMED]
    ]
    return ", ".join(named) + (", …" if total > len(named) else "")
