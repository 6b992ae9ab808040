"""Bars of one's own in the place of those of a suite: a TOML file with a table for each criterion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dumbbell.errors import InputError, Missing, UnknownName
from dumbbell.evaluate.criterion_bar import CriterionBar, parse_bar
from dumbbell.evaluate.suite_file import Criterion, EvaluationSuite
from dumbbell.experiment import places
from dumbbell.experiment.toml_checks import check_keys, check_kind
from dumbbell.experiment.toml_file import read_toml

_BARS = ("passes", "level", "fails")


def replace_bars(suite: EvaluationSuite, path: Path) -> EvaluationSuite:
    """Return a suite with the bars of a file: those that it names replace the suite's. Raises InputError.

    A table has the name of a criterion, `passes`, `level` and `fails` as in a suite, or false where the criterion is to
    have no such bar, and `origin`, which reports print.
    """
    table = read_toml(path, "bars by criterion (TOML)")
    known = {one.id: one for one in suite.criteria}
    with places.place_errors(path):
        try:
            for name in table:
                if name not in known:
                    raise UnknownName(name, among=list(known), key=name, what="criterion")
                known[name] = _replace_bars(known[name], table[name], {*suite.words, *suite.yardsticks}, path)
        except InputError as error:
            raise error.move_into(str(path)) from None
    return replace(suite, criteria=tuple(known.values()))


def _replace_bars(criterion: Criterion, value: Any, names: set[str], path: Path) -> Criterion:
    key = criterion.id
    table = check_keys(key, value, (*_BARS, "origin"), ("origin",))
    origin = check_kind(f"{key}.origin", table["origin"], str, "text")
    bars: dict[str, CriterionBar | None] = {}
    for name in _BARS:
        if name in table:
            bars[name] = None if table[name] is False else parse_bar(table[name], names, f"{key}.{name}")
    found = replace(criterion, origin=f"{path.name}: {origin}", **bars)  # type: ignore[arg-type]
    if found.passes is None and found.level is None:
        raise Missing("a bar: passes, level, or both", key=key)
    return found
