"""Heat maps: the cells of a criterion whose matrix has two axes, with the grade as colour and the value in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from dumbbell.evaluate.evaluation import Evaluation, Verdict
from dumbbell.evaluate.plan import ScenePlace
from dumbbell.words import format_measured

_WIDTH, _HEIGHT = 52, 24  # of a cell, px
_LETTER = 6.2  # px, of a label
_LONGEST = 26  # letters of a label
_SLOPE = math.radians(40)  # of the labels of columns


@dataclass(frozen=True)
class VerdictMap:
    """A map as SVG, and the keys of its two axes."""

    svg: Markup
    rows: str
    columns: str


def name_grade(grade: str) -> str:
    """Return the class of a grade in the page's style sheet."""
    return "".join(letter for letter in grade.replace(" ", "-") if letter.isalpha() or letter == "-")


def name_cell(verdict: Verdict, place: ScenePlace) -> str:
    """Return the name of a cell, to which links lead."""
    return "-".join([verdict.criterion.id, *map(str, place.position)])


def draw_verdict_map(found: Evaluation, verdict: Verdict) -> VerdictMap | None:
    """Return the map of a criterion; nothing if not exactly two axes of its scene have several values."""
    places = list(verdict.cells)
    axes = [
        axis
        for axis in range(len(places[0].position) if places else 0)
        if len({place.position[axis] for place in places}) > 1
    ]
    if len(axes) != 2:
        return None
    # the longer axis goes down: pages are narrow
    down, across = sorted(axes, key=lambda axis: -len({place.position[axis] for place in places}))
    rows, columns = (_label_axis(found, places, axis) for axis in (down, across))
    return VerdictMap(_draw(found, verdict, (down, across), rows, columns), rows.key, columns.key)


@dataclass(frozen=True)
class _LabelledAxis:
    key: str
    labels: dict[int, str]


def _label_axis(found: Evaluation, places: Sequence[ScenePlace], axis: int) -> _LabelledAxis:
    """Return the keys of an axis, and the values of each position: those that change along this axis alone."""
    of_key: dict[str, dict[int, set[str]]] = {}
    for place in places:
        for key, value in found.plan.labels[place].items():
            of_key.setdefault(key, {}).setdefault(place.position[axis], set()).add(value)
    # a key belongs to the axis if its value follows from the position, and is not the same everywhere
    own = [
        key
        for key, values in of_key.items()
        if all(len(one) == 1 for one in values.values()) and len(set().union(*values.values())) > 1
    ]
    own = ["setting"] if "setting" in own else own
    labels = {position: ", ".join(min(of_key[key][position]) for key in own) for position in sorted(of_key[own[0]])}
    return _LabelledAxis(", ".join(own), labels)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _draw(
    found: Evaluation, verdict: Verdict, axes: tuple[int, int], rows: _LabelledAxis, columns: _LabelledAxis
) -> Markup:
    left = 8 + _LETTER * max(len(_shorten(text)) for text in rows.labels.values())
    longest = _LETTER * max(len(_shorten(text)) for text in columns.labels.values())
    top = 14 + longest * math.sin(_SLOPE)
    width = left + _WIDTH * len(columns.labels) + max(0.0, longest * math.cos(_SLOPE) - _WIDTH / 2)
    height = top + _HEIGHT * len(rows.labels)
    parts = [f'<svg class="heat" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">']
    for number, text in enumerate(rows.labels.values()):
        y = top + _HEIGHT * (number + 0.5)
        parts.append(
            f'<text x="{left - 6:.1f}" y="{y:.1f}" text-anchor="end" dominant-baseline="central">'
            f"{escape(_shorten(text))}<title>{escape(text)}</title></text>"
        )
    for number, text in enumerate(columns.labels.values()):
        x, y = left + _WIDTH * (number + 0.5), top - 6
        parts.append(
            f'<text transform="translate({x:.1f} {y:.1f}) rotate({-math.degrees(_SLOPE):.0f})">'
            f"{escape(_shorten(text))}<title>{escape(text)}</title></text>"
        )
    places = {(place.position[axes[0]], place.position[axes[1]]): place for place in verdict.cells}
    for row, down in enumerate(rows.labels):
        for column, across in enumerate(columns.labels):
            if (place := places.get((down, across))) is not None:
                parts.append(_draw_cell(found, verdict, place, left + _WIDTH * column, top + _HEIGHT * row))
    return Markup("".join([*parts, "</svg>"]))


def _draw_cell(found: Evaluation, verdict: Verdict, place: ScenePlace, x: float, y: float) -> str:
    grade, value = verdict.decide_grade(place), verdict.cells[place].value
    text = "-" if math.isnan(value) else format_measured(value, 2)
    told = f"{found.format_place(place)}: {grade}, {text}\n{found.plan.commands[place]}"
    return (
        f'<a href="#{escape(name_cell(verdict, place))}"><rect class="{name_grade(grade)}" x="{x + 1:.1f}" '
        f'y="{y + 1:.1f}" width="{_WIDTH - 2}" height="{_HEIGHT - 2}" rx="3"><title>{escape(told)}</title></rect>'
        f'<text x="{x + _WIDTH / 2:.1f}" y="{y + _HEIGHT / 2:.1f}" text-anchor="middle" '
        f'dominant-baseline="central">{escape(text)}</text></a>'
    )
