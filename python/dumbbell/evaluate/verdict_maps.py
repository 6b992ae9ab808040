"""Heat maps: the cells of a criterion whose matrix has two axes, by their positions; a template draws them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dumbbell.evaluate.evaluation import Verdict
from dumbbell.evaluate.grade import CellGrade


@dataclass(frozen=True)
class MapAxis:
    """An axis of a map: its keys, and their values by position."""

    key: str
    labels: Mapping[int, str]


@dataclass(frozen=True)
class VerdictMap:
    """The axes of a map, and its cells by their positions on both: one may be missing."""

    rows: MapAxis
    columns: MapAxis
    cells: Mapping[tuple[int, int], CellGrade]


def name_grade(grade: str) -> str:
    """Return the class of a grade in the page's style sheet."""
    return "".join(letter for letter in grade.replace(" ", "-") if letter.isalpha() or letter == "-")


def name_cell(cell: CellGrade) -> str:
    """Return the name of a cell, to which links lead."""
    return "-".join([cell.criterion.id, *map(str, cell.place.position)])


def make_verdict_map(verdict: Verdict) -> VerdictMap | None:
    """Return the map of a criterion; nothing if not exactly two axes of its scene have several values."""
    positions = [set(digits) for digits in zip(*(place.position for place in verdict.cells), strict=True)]
    axes = [axis for axis, digits in enumerate(positions) if len(digits) > 1]
    if len(axes) != 2:
        return None
    # the longer axis goes down: pages are narrow
    down, across = sorted(axes, key=lambda axis: -len(positions[axis]))
    by_position = {(place.position[down], place.position[across]): cell for place, cell in verdict.cells.items()}
    return VerdictMap(_label_axis(verdict, down), _label_axis(verdict, across), by_position)


def _label_axis(verdict: Verdict, axis: int) -> MapAxis:
    """Return the keys of an axis, and the values of each position: those that change along this axis alone."""
    of_key: dict[str, dict[int, set[str]]] = {}
    for place, cell in verdict.cells.items():
        for key, value in cell.labels.items():
            of_key.setdefault(key, {}).setdefault(place.position[axis], set()).add(value)
    # a key belongs to the axis if its value follows from the position, and is not the same everywhere
    own = [
        key
        for key, values in of_key.items()
        if all(len(one) == 1 for one in values.values()) and len(set().union(*values.values())) > 1
    ]
    own = ["setting"] if "setting" in own else own
    labels = {position: ", ".join(min(of_key[key][position]) for key in own) for position in sorted(of_key[own[0]])}
    return MapAxis(", ".join(own), labels)
