"""Which run of an experiment file is written: one cell, by its number or by values of the matrix."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from dumbbell.errors import Conflict, Nothing, OutOfRange, TooMany, UnknownKey
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment
from dumbbell.results import selecting

_MOST_NAMED = 3  # cells that an error names


def chosen(experiment: Experiment, number: int | None, where: Sequence[str], command: str = "qlog") -> Cell:
    """Return the run with this number, from 1 to all runs, or the first seed of the only cell for which `where` holds.

    `where` are conditions KEY=VALUE[,VALUE] on keys of the matrix, with values as they stand in the file. Raises
    InputError if there is no such cell, or more than one; `command` is what errors about options are said of.
    """
    file = experiment.file
    if number is not None:
        if where:
            raise Conflict(command, "", "--cell and --where", "one of them")
        if not 1 <= number <= len(experiment):
            raise OutOfRange(file, "--cell", str(number), f"from 1 to {len(experiment)}")
        return experiment.cell(number - 1)
    known = list(experiment.cell(0).matrix)
    conditions = {}
    for one in map(selecting.parse, where):
        if one.key not in known:
            raise UnknownKey(file, f"--where {one.key}", one.key, known)
        conditions[one.key] = [selecting.unquoted(value) for value in selecting.split_values(one.text)]
    seeds = len(experiment.seeds)
    cells = (experiment.cell(index) for index in range(0, len(experiment), seeds))
    fitting = (cell for cell in cells if all(cell.matrix[key] in values for key, values in conditions.items()))
    found = list(itertools.islice(fitting, _MOST_NAMED + 1))
    if not found:
        raise Nothing(file, "--where", "no run is like this", _named(list(itertools.islice(_all(experiment), 3))))
    if len(found) > 1:
        several = _named(found[:_MOST_NAMED])
        raise TooMany(file, "", f"several cells: {several}", f"one: --where, or --cell from 1 to {len(experiment)}")
    return found[0]


def _all(experiment: Experiment) -> itertools.islice[Cell]:
    return itertools.islice(experiment.cells(), 0, None, len(experiment.seeds))


def _named(cells: Sequence[Cell]) -> str:
    return "; ".join(", ".join(f"{key}={value}" for key, value in cell.matrix.items()) for cell in cells)
