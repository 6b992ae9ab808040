"""Parameters of a search: keys of an experiment that get values from a range, or one of several choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dumbbell.errors import Conflict, InputError, Missing, OutOfRange, Unfit, WrongValue, quote_value
from dumbbell.experiment import spelling, units
from dumbbell.experiment.file import label
from dumbbell.experiment.matrix import Path, parse_path
from dumbbell.experiment.override import find_param
from dumbbell.experiment.settings import format_toml
from dumbbell.experiment.toml_checks import check_keys, check_kind, check_name, is_number, make_error

DIGITS = 4  # significant ones of a value from a range, so that a file with it reads well and repeats it
SCALES = ("linear", "log")
_KEYS = ("key", "from", "to", "scale", "step", "whole", "choices")
# how values with units stand in tables and constraints: a factor, and the end of a column's name
_SHOWN = {"time": (1e6, "ms"), "rate": (1e6, "Mbit/s"), "size": (1.0, "bytes"), "": (1.0, "")}
_SUFFIX = {"time": "_ms", "rate": "_mbit", "size": "_bytes", "": ""}


@dataclass(frozen=True)
class SearchParameter:
    """A parameter: the keys that get its value, and its range in ns, bit/s, bytes or plain numbers, or its choices."""

    name: str
    keys: tuple[str, ...]
    paths: tuple[Path, ...]
    quantity: str = ""
    """time, rate or size, if values have a unit."""
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    is_whole: bool = False
    """Whether values are integers without a unit."""
    step: float | None = None
    choices: tuple[Any, ...] = ()

    def settle(self, suggested: Any) -> Any:
        """Return the value nearest to a suggestion of a sampler that a file can have; of choices, the place of one."""
        if self.choices:
            return int(suggested)
        value = float(suggested)
        if self.step is not None:
            value = self.low + round((value - self.low) / self.step) * self.step
        elif not self.is_whole:
            value = float(f"{value:.{DIGITS}g}")
        value = min(max(value, self.low), self.high)
        return round(value) if self.is_whole or self.quantity else value

    def spell(self, value: Any) -> Any:
        """Return a settled value as an experiment file has it: `5.2ms`."""
        if self.choices:
            return self.choices[value]
        return units.show(self.quantity, value) if self.quantity else value

    def show(self, value: Any) -> Any:
        """Return a settled value as tables have it: a number, or a choice in few words."""
        if self.choices:
            found = self.choices[value]
            return found if is_number(found) else label(found)
        return value / _SHOWN[self.quantity][0] if self.quantity else value

    @property
    def column(self) -> str:
        """The name of its column in tables: `target_ms`."""
        return f"{self.name}{_SUFFIX[self.quantity]}"

    @property
    def axis_label(self) -> str:
        """The parameter in words with its unit: `target, ms`."""
        unit = _SHOWN[self.quantity][1]
        return f"{self.name}, {unit}" if unit else self.name

    @property
    def is_number(self) -> bool:
        """Whether a constraint can compute with it."""
        return not self.choices or all(map(is_number, self.choices))

    def list_settings(self, value: Any) -> list[tuple[Path, Any]]:
        """Return what an experiment gets that has a settled value."""
        spelt = self.spell(value)
        return [(path, spelt) for path in self.paths]


def read_parameters(table: Any) -> tuple[SearchParameter, ...]:
    """Return the parameters of a search file. Raises InputError."""
    found = check_kind("parameters", table, dict, "tables, one for each parameter")
    if not found:
        raise Missing("a table for each parameter, such as [parameters.target]", key="parameters")
    parameters = [_read_parameter(name, value) for name, value in found.items()]
    owners: dict[str, str] = {}
    for one in parameters:
        for key in one.keys:
            if owner := owners.get(key):
                raise Conflict(f"{key} in {owner} and {one.name}", "each key once", key=f"parameters.{one.name}.key")
            owners[key] = one.name
    return tuple(parameters)


def _read_parameter(name: str, value: Any) -> SearchParameter:
    place = f"parameters.{name}"
    table = check_keys(place, value, _KEYS, ("key",))
    if not name.isidentifier():
        raise WrongValue(quote_value(name), "a name in letters, digits and _", key=place)
    keys = tuple(
        check_kind(f"{place}.key", one, str, "a key such as bottleneck.aqm.target") for one in _list(table["key"])
    )
    try:
        paths = tuple(map(parse_path, keys))
    except InputError as error:
        raise error.move("", f"{place}.key") from None
    if "choices" in table:
        for other in ("from", "to", "scale", "step", "whole"):
            if other in table:
                raise Conflict(f"choices and {other}", "choices, or from and to", key=place)
        choices = check_kind(f"{place}.choices", table["choices"], list, "a list of two values or more")
        if len(choices) < 2 or len({format_toml(one) for one in choices}) < len(choices):
            raise WrongValue(quote_value(choices), "two different values or more", key=f"{place}.choices")
        return SearchParameter(name, keys, paths, choices=tuple(choices))
    for end in ("from", "to"):
        if end not in table:
            raise Missing(f"{end}, or choices", key=place)
    return _read_range(name, keys, paths, table)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _read_range(name: str, keys: tuple[str, ...], paths: tuple[Path, ...], table: Mapping[str, Any]) -> SearchParameter:
    place = f"parameters.{name}"
    param = find_param(paths[0])
    quantity = (
        (spelling.find_unit_kind(param) or "") if param is not None else _guess_quantity(table["from"], table["to"])
    )
    low, high = (_read_number(f"{place}.{end}", table[end], quantity) for end in ("from", "to"))
    whole = table.get("whole", not quantity and (param.kind == "int" if param is not None else _are_whole(table)))
    check_kind(f"{place}.whole", whole, bool, "true or false")
    if param is not None and not quantity and param.kind not in ("int", "float"):
        raise Unfit(f"{keys[0]} is not a number", "choices", key=place)
    if not low < high:
        raise OutOfRange(quote_value(table["to"]), f"more than {quote_value(table['from'])}", key=f"{place}.to")
    scale = check_name(f"{place}.scale", table.get("scale", "linear"), SCALES)
    if scale == "log" and low <= 0:
        raise OutOfRange(quote_value(table["from"]), "more than 0 on a logarithmic scale", key=f"{place}.from")
    step = None if "step" not in table else _read_number(f"{place}.step", table["step"], quantity)
    if step is not None and (step <= 0 or scale == "log"):
        raise Unfit(f"a step of {quote_value(table['step'])}", "a step above 0, on a linear scale", key=f"{place}.step")
    return SearchParameter(name, keys, paths, quantity, low, high, scale == "log", bool(whole), step)


def _are_whole(table: Mapping[str, Any]) -> bool:
    return all(isinstance(table[end], int) for end in ("from", "to"))


def _guess_quantity(low: Any, high: Any) -> str:
    """Return the kind of unit that both ends have, of a key that the registry does not describe."""
    for kind in units.UNITS:
        if all(isinstance(one, str) and units.has_unit(kind, one) for one in (low, high)):
            return kind
    return ""


def _read_number(place: str, value: Any, quantity: str) -> float:
    if quantity:
        try:
            return float(units.parse(quantity, value))
        except InputError as error:
            raise error.move("", place) from None
    if not is_number(value):
        raise make_error(place, value, "a number")
    return float(value)
