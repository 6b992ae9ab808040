"""Places keys: along the horizontal axis, in lines and in panels."""

import math
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from dumbbell.errors import Conflict, TooMany, Unfit, spell_option
from dumbbell.plotting.request import FEW_LINES, MOST_LINES, MOST_PANELS, PlotRequest
from dumbbell.results.aggregate import Axis, Samples
from dumbbell.results.dimensions import NOTHING
from dumbbell.results.results import StoredResults

MEASURE = "measure"  # the column that names one of several measures
_WHOLE = "whole run"
_MOST_SAID = 6  # values of a key that are listed


def find_common_axes(axes: Sequence[Sequence[Axis]]) -> list[Axis]:
    """Return the keys of several measures: each with all its values, in the order of the measure with most keys."""
    keys: dict[str, Axis] = {}
    for axis in (axis for own in sorted(axes, key=len, reverse=True) for axis in own):
        known = keys.get(axis.name, axis)
        numbers = None if known.numbers is None or axis.numbers is None else known.numbers | axis.numbers
        texts = list(dict.fromkeys([*known.texts, *axis.texts]))
        if numbers is not None and len(texts) > len(known.texts):
            texts.sort(key=lambda text: numbers.get(text, math.inf))
        joins = _join_keys(known, axis)
        keys[axis.name] = replace(known, texts=texts, numbers=numbers, unit=axis.unit, joins=joins)
    return list(keys.values())


def _join_keys(one: Axis, other: Axis) -> tuple[tuple[Axis, dict[str, str]], ...]:
    """Return the keys that an axis of two measures joins, with their texts of both."""
    others = {key.name: own for key, own in other.joins}
    return tuple((key, own | others.get(key.name, {})) for key, own in one.joins)


def join_frames(axes: Sequence[Axis], measures: Sequence[tuple[str, Samples]]) -> tuple[pl.DataFrame, str | None]:
    """Return the frames of several measures, each with its name, as one, and the column of names; None of one measure.

    A measure of whole runs has no value of a key of flows: next to measures of flows its line is the whole run's.
    """
    if len(measures) == 1:
        return order_frame(axes, measures[0][1].frame), None
    names = [name for name, _ in measures]
    if len(set(names)) < len(names):
        raise Conflict(f"{names[0]} and {names[0]}", "each value once", option="--value")
    whole = []
    for name, found in measures:
        lacking = [axis.name for axis in axes if axis.name not in found.frame.columns]
        fill = lacking[:1] if found.measure.of == "run" else []
        whole.append(
            found.frame.with_columns(pl.lit(name).alias(MEASURE), *(pl.lit(_WHOLE).alias(key) for key in fill))
        )
    together = pl.concat(whole, how="diagonal")
    known = [replace(axis, texts=[*axis.texts, _WHOLE]) for axis in axes]
    frame = order_frame(known, together).with_columns(pl.col(MEASURE).cast(pl.Enum(names)))
    return frame, MEASURE


def order_frame(axes: Sequence[Axis], frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose keys have an order."""
    return frame.with_columns(pl.col(axis.name).cast(pl.Enum(axis.texts)) for axis in axes)


def add_numbers(axis: Axis, frame: pl.DataFrame) -> tuple[pl.DataFrame, str, str | None]:
    """Return a frame with the numbers of a key, the name of that column, and what to write at the axis."""
    if axis.numbers is None:
        return frame, axis.name, axis.label
    name = f"{axis.name} as a number"
    frame = frame.filter(pl.col(axis.name).cast(pl.String) != NOTHING)  # it has no place on this axis
    numbers = pl.col(axis.name).cast(pl.String).replace_strict(axis.numbers, return_dtype=pl.Float64)
    return frame.with_columns(numbers.alias(name)), name, axis.label


def name_numbers(axis: Axis) -> dict[float, str] | None:
    """Return what to write at the numbers of an axis of sizes, which a file spells in kB or MB; None of other axes."""
    if axis.numbers is None or axis.unit != "bytes":
        return None
    own = axis.joins[0][1] if axis.joins else {}
    return {number: own.get(text, text) for text, number in axis.numbers.items()}


def describe_joined(axis: Axis) -> str:
    """Return what an axis of numbers does not show: the other keys that it joins, with their values."""
    if axis.numbers is None or len(axis.texts) < 2:
        return ""
    (first, of_first), *rest = axis.joins or ((axis, {}),)
    said = []
    for key, own in rest:
        texts = [text for text in axis.texts if text in own]
        if all(own[text] == of_first[text] for text in texts) and key.word == first.word:
            continue
        if len(texts) > _MOST_SAID:
            said.append(f"{key.name} {own[texts[0]]} to {own[texts[-1]]}")
        else:
            said.append(f"{key.name} {', '.join(f'{own[text]} with {of_first[text]}' for text in texts)}")
    return "; ".join(said)


def place_keys(
    results: StoredResults, axes: Sequence[Axis], request: PlotRequest, first: Axis | None, *, few: int = FEW_LINES
) -> tuple[list[str], list[str]]:
    """Return which keys distinguish lines and which panels; InputError if there are too many of either."""
    several = [axis for axis in axes if len(axis.texts) > 1 and axis is not first]
    size = {axis.name: len(axis.texts) for axis in several}
    if few < MOST_LINES and math.prod(size.values()) > few * MOST_PANELS:
        few = MOST_LINES
    by = [axis.name for axis in several if axis.name in request.by]
    facet = [axis.name for axis in several if axis.name in request.facet]
    rest = [axis for axis in several if axis.name not in (*by, *facet)]
    for axis in sorted(rest, key=lambda one: (one.name != "flow", len(one.texts))):
        lines = math.prod(size[name] for name in by) * len(axis.texts)
        fits = lines <= (MOST_LINES if not by and len(rest) == 1 else few)
        (by if fits and not (request.by and not request.facet) else facet).append(axis.name)
    lines, panels = (math.prod(size[name] for name in names) for names in (by, facet))
    if lines > MOST_LINES or panels > MOST_PANELS:
        what = f"{lines} lines" if lines > MOST_LINES else f"{panels} panels"
        keys = ", ".join(f"{name} ({size[name]})" for name in (by if lines > MOST_LINES else facet))
        most = MOST_LINES if lines > MOST_LINES else MOST_PANELS
        remedy = f"choose runs with {spell_option('where')}, or use {spell_option('mean-over')} for some keys"
        raise TooMany(f"{what}, of {keys},", f"at most {most}", remedy, file=results.path)
    return by, facet


def choose_first_key(results: StoredResults, axes: Sequence[Axis], request: PlotRequest, *, numeric: bool) -> Axis:
    """Return the key along the horizontal axis: the one asked for, or that with the most values."""
    if request.against is not None:
        return next(axis for axis in axes if axis.name == request.against)
    free = [axis for axis in axes if axis.name not in (*request.by, *request.facet) and len(axis.texts) > 1]
    if numeric and any(axis.numbers is not None for axis in free):
        free = [axis for axis in free if axis.numbers is not None]
    if not free:
        if axes:
            return axes[0]
        raise Unfit("all runs have the same settings", "kind series, box or cdf", file=results.path)
    return max(free, key=lambda axis: len(axis.texts))


def is_numeric(results: StoredResults, name: str | None) -> bool:
    """Return whether a key has numbers that a line may join."""
    if name is None:
        return True
    if name in ("from_bytes", "base_rtt"):
        return True
    if name in ("flow", "class"):  # numbers that count nothing
        return False
    return results.find_key(name, "--against").is_numeric
