"""Checks of what a TOML file holds, where no model of its keys exists; each raises InputError with the key."""

from collections.abc import Sequence
from typing import Any

from dumbbell.errors import InputError, Missing, UnknownKey, WrongValue, find_nearest, quote_value


def is_number(value: Any) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def make_error(key: str, found: Any, allowed: str, names: Sequence[str] | None = None) -> InputError:
    """Return the error of a value that is not allowed, with the nearest of `names`."""
    return WrongValue(
        quote_value(found), allowed or names or (), key=key, nearest=find_nearest(found, names) if names else None
    )


def check_name(key: str, value: Any, names: Sequence[str]) -> str:
    """Return a value that is one of `names`."""
    if not isinstance(value, str) or value not in names:
        raise make_error(key, value, "", names)
    return str(value)


def check_kind(key: str, value: Any, kind: type, allowed: str) -> Any:
    """Return a value of a type."""
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        raise make_error(key, value, allowed)
    return value


def check_keys(key: str, table: Any, names: Sequence[str], required: Sequence[str] = ()) -> dict[str, Any]:
    """Return a table without keys that are not among `names`, and with those that are `required`."""
    found: dict[str, Any] = check_kind(key, table, dict, f"a table with {', '.join(names)}")
    dot = f"{key}." if key else ""
    for name in found:
        if name not in names:
            raise UnknownKey(name, among=names, key=f"{dot}{name}")
    for name in required:
        if name not in found:
            raise Missing("a value", key=f"{dot}{name}")
    return found
