"""Objectives of a search: a measure of every run, and how runs of several cells and seeds become one value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dumbbell.errors import Conflict, InputError, Missing, UnknownName, WrongValue, quote_value
from dumbbell.evaluate.suite_file import CriterionMeasure, list_suites, load_suite
from dumbbell.experiment.toml_checks import check_keys, check_kind, check_name
from dumbbell.results.columns import COLUMNS, OF_STORE, PARTS, format_axis_label
from dumbbell.results.results import SHORT
from dumbbell.words import format_measured

AIMS = ("minimise", "maximise")
MERGES = ("mean", "worst")
_KEYS = ("measure", "sql", "criterion", "aim", "flows", "cells", "seeds", "label")
Merge = Literal["mean", "worst"]


@dataclass(frozen=True)
class Objective:
    """A measure with its aim, and how values of a run's parts, of cells and of seeds become one: mean or worst.

    The measure is a column of a table or, in `measure`, that of a suite or SQL.
    """

    name: str
    label: str
    is_less_better: bool
    table: str = ""
    column: str = ""
    measure: CriterionMeasure | None = None
    flows: str = "mean"
    cells: str = "mean"
    seeds: str = "mean"
    source: str = ""
    """The suite and criterion that the measure is of."""

    @property
    def definition(self) -> str:
        """The measure as text: objectives with equal texts are measured once."""
        if self.measure is None:
            return json.dumps([self.table, self.column, self._choose("flows")])
        one = self.measure
        return json.dumps([one.sql, one.function, dict(one.options or {}), one.quantile], sort_keys=True)

    @property
    def unit(self) -> str:
        """The unit of its values; empty for those of queries."""
        return COLUMNS[self.table][self.column].unit if self.measure is None else self.measure.unit

    def format_value(self, value: float) -> str:
        """Return a value with its unit."""
        text = format_measured(value)
        return text if self.unit in ("", "share", "ratio") else f"{text} {self.unit}"

    @property
    def sql_function(self) -> str:
        """The function of SQL that merges the values of a run's parts."""
        return {"mean": "avg"}.get(kind := self._choose("flows"), kind)

    def merge(self, values: Sequence[float], over: Literal["flows", "cells", "seeds"]) -> float:
        """Return the mean of values, or the worst of them by the aim."""
        kind = self._choose(over)
        return sum(values) / len(values) if kind == "mean" else max(values) if kind == "max" else min(values)

    def _choose(self, over: Literal["flows", "cells", "seeds"]) -> Literal["mean", "max", "min"]:
        if getattr(self, over) == "mean":
            return "mean"
        return "max" if self.is_less_better else "min"

    def sign_value(self, value: float) -> float:
        """Return a value of which less is better."""
        return value if self.is_less_better else -value


def read_objectives(table: Any, folder: Path) -> tuple[Objective, ...]:
    """Return the objectives of a search file in `folder`. Raises InputError."""
    found = check_kind("objectives", table, dict, "tables, one for each objective")
    if not found:
        raise Missing("a table for each objective, such as [objectives.delay]", key="objectives")
    return tuple(_read_objective(name, value, folder) for name, value in found.items())


def _read_objective(name: str, value: Any, folder: Path) -> Objective:
    place = f"objectives.{name}"
    table = check_keys(place, value, _KEYS)
    if not name.isidentifier():
        raise WrongValue(quote_value(name), "a name in letters, digits and _", key=place)
    sources = [one for one in ("measure", "sql", "criterion") if one in table]
    if len(sources) != 1:
        if sources:
            raise Conflict(" and ".join(sources), "one of them", key=place)
        raise Missing("measure, sql or criterion", key=place)
    text = check_kind(f"{place}.{sources[0]}", table[sources[0]], str, "text")
    if sources[0] != "criterion" and "aim" not in table:
        raise Missing("minimise or maximise", key=f"{place}.aim")
    merges: dict[str, Any] = {
        one: check_name(f"{place}.{one}", table.get(one, "mean"), MERGES) for one in ("flows", "cells", "seeds")
    }
    label = str(check_kind(f"{place}.label", table.get("label", ""), str, "text"))
    aim = check_name(f"{place}.aim", table["aim"], AIMS) if "aim" in table else ""
    if "flows" in table and sources[0] != "measure":
        raise Conflict(f"flows and {sources[0]}", "flows with measure: what SQL gives is of whole runs", key=place)
    if sources[0] == "sql":
        measure = CriterionMeasure(name, label or name, "", sql=text)
        return Objective(name, label or name, aim == "minimise", measure=measure, **merges)
    if sources[0] == "criterion":
        return _read_criterion(name, text, aim, label, merges, folder)
    owner, column = find_column(text, f"{place}.measure")
    return Objective(name, label or format_axis_label(column, owner), aim == "minimise", owner, column, **merges)


def find_column(name: str, key: str) -> tuple[str, str]:
    """Return the table and the column that a measure means, such as `sojourn_p99` or `flows.goodput`; else InputError.

    What runs and their parts both have is the run's.
    """
    head, dot, tail = name.rpartition(".")
    tables = [head] if dot else ["runs", *PARTS]
    if dot and head not in ("runs", *PARTS):
        raise UnknownName(quote_value(head), among=["runs", *PARTS], key=key, what="table")
    known: dict[str, str] = {}
    for table in tables:
        numbers = [one for one in COLUMNS[table].values() if one.values in ("count", "real")]
        columns = [
            one.name for one in numbers if one.name not in OF_STORE and one.name not in PARTS.get(table, ("", ()))[1]
        ]
        for word in (tail, SHORT.get(tail, tail), f"{tail}_ms", f"{tail}_s", f"{tail}_mbit"):
            if word in columns:
                return table, word
        known |= dict.fromkeys(columns, table)
    raise UnknownName(quote_value(name), among=list(known), key=key, what="measure")


def _read_criterion(name: str, text: str, aim: str, label: str, merges: Mapping[str, Any], folder: Path) -> Objective:
    place = f"objectives.{name}.criterion"
    suite_name, colon, wanted = text.rpartition(":")
    if not colon:
        raise WrongValue(quote_value(text), "SUITE:CRITERION, such as rfc9743:late-share", key=place)
    known = list_suites()
    own = folder / suite_name
    try:
        suite = load_suite(str(own) if suite_name not in known and own.is_dir() else suite_name)
    except InputError as error:
        raise error.move("", place) if not error.file else error from None
    among = [one.id for one in suite.criteria if one.measure]
    criterion = next((one for one in suite.criteria if one.id == wanted and one.measure), None)
    if criterion is None:
        raise UnknownName(quote_value(wanted), among=among, key=place, what="criterion")
    measure = suite.measures[criterion.measure]
    if measure.quantile is not None:
        raise WrongValue(quote_value(text), "a criterion whose measure has one value for each run", key=place)
    # a search for what misses the bar, unless the file has another aim
    is_less_better = aim == "minimise" if aim else not criterion.bars[0].is_upper
    return Objective(name, label or measure.label, is_less_better, measure=measure, source=text, **merges)
