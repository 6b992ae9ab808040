"""Overrides of an experiment file: other values for the cells that meet conditions."""

from dataclasses import dataclass
from typing import Any

from dumbbell.errors import InputError, Nothing, Unfit, UnknownKey, WrongValue, escape_line, quote_value
from dumbbell.experiment import matrix as keys
from dumbbell.experiment import net, schema, spelling
from dumbbell.experiment.files import Files
from dumbbell.experiment.registry import Param, read_registry

TABLES = ("bottleneck", "reverse", "hosts", "record")
_IN_QUOTES = 'keys in quotes, such as "bottleneck.rate"'


@dataclass(frozen=True)
class OverrideCondition:
    """Values of which a run has to have one at a path."""

    path: keys.Path
    values: tuple[Any, ...]  # canonical

    def is_met(self, groups: dict[str, Any]) -> bool:
        """Whether every value at the path is one of those wanted."""
        found = keys.get_path(groups, self.path)
        return bool(found) and all(_make_comparable(value) in self.values for value in found)


def _make_comparable(value: Any) -> Any:
    if isinstance(value, dict):
        at_once = value.keys() == {"min", "max"} and value["min"] == value["max"]
        return value["min"] if at_once else value.get("name", value)
    return value


Override = tuple[tuple[OverrideCondition, ...], tuple[tuple[keys.Path, Any], ...]]  # when, set


def find_param(path: keys.Path) -> Param | None:
    """Return the parameter that the end of `path` names, if the registry has one."""
    known = read_registry()
    last = path[-1]
    if not isinstance(last, str):
        return None
    if len(path) > 1 and path[-2] in ("aqm", "cc", "link", "kind"):
        algorithms = known.app if path[-2] == "kind" else known.kinds[str(path[-2])]
        return next((a.params[last] for a in algorithms.values() if last in a.params), None)
    if schema.PATH_KEYS.intersection(step for step in path[:-1] if isinstance(step, str)):
        return next((stage.params[last] for stage in known.stage.values() if last in stage.params), None)
    section = next((str(step) for step in path[:-1] if step in (*known.sections, *net.HOPS)), "run")
    return None if last in ("start", "count") else schema.describe_section(section).get(last)


def has_value(path: keys.Path) -> bool:
    """Return whether the end of `path` names a value, and no table or list of them."""
    return find_param(path) is not None or path[-1] in ("aqm", "cc", "link", "kind", "name", "start", "count")


def _parse_condition(key: str, wanted: Any, where: str, files: Files) -> OverrideCondition:
    try:
        if isinstance(wanted, dict) and "." not in key:
            raise Unfit(f"the key {quote_dotted_key(key, wanted)} is without quotes", _IN_QUOTES)
        path = keys.parse_path(key)
        param = find_param(path)
        values = wanted if isinstance(wanted, list) else [wanted]
        if not values:
            raise Nothing("the list is empty", "at least one value")
        if not has_value(path):
            near = schema.find_nearest_key(path, {})
            raise UnknownKey(
                key, among="it must be a key of a run, such as bottleneck.rate or flows[*].base_rtt", nearest=near
            )
        if path[-1] == "start":
            values = [schema.parse_start(value)["min"] for value in values]
        elif param is not None:
            values = [spelling.parse_value(param, value, files) for value in values]
        elif any(not isinstance(value, str | int) for value in values):
            raise WrongValue(quote_value(wanted), "a name, or a list of names")
    except InputError as error:
        raise error.move("", f'{where}."{key}"') from None
    return OverrideCondition(path, tuple(values))


def quote_dotted_key(key: str, value: Any) -> str:
    """Return the key that TOML reads as a table inside a table if it has no quotes."""
    while isinstance(value, dict) and len(value) == 1:
        (inner, value), *_ = value.items()
        key = f"{key}.{inner}"
    return escape_line(key)


def parse_override(table: schema.Override, where: str, files: Files) -> Override:
    """Return conditions and settings of an override, whose place in the file is `where`; raises InputError."""
    for name, part in (("when", table.when), ("set", table.set)):
        if not part:
            raise Nothing("it has no key", "one key or more", key=f"{where}.{name}")
    sets = []
    for key, value in table.set.items():
        if isinstance(value, dict) and key in TABLES:
            found = f"the key {quote_dotted_key(key, value)} is without quotes"
            raise Unfit(found, f"{_IN_QUOTES}; a table is never set as a whole", key=f"{where}.set")
        try:
            sets.append((keys.parse_path(key), value))
        except InputError as error:
            raise error.move("", f"{where}.set") from None
    when = tuple(_parse_condition(key, value, f"{where}.when", files) for key, value in table.when.items())
    return when, tuple(sets)
