"""Settings that replace keys of an experiment, as `--set KEY=VALUE` or as a table, and values of Python as TOML's."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from dumbbell.errors import Conflict, WrongValue, quote_value

_PLAIN = frozenset((str, int, float, bool))
_BARE = re.compile("[A-Za-z0-9_-]+")


def parse_setting(text: str) -> tuple[str, Any]:
    """Return key and value of `--set KEY=VALUE`; VALUE is TOML, or a string without quotes. Raises InputError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise WrongValue(quote_value(text), "KEY=VALUE, such as bottleneck.rate=40Mbit", option="--set")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError, KeyError):
        return key.strip(), value.strip()


def show_setting(key: str, value: Any) -> str:
    """Return key and value as `--set` takes them: text without quotes where that is enough."""
    bare = isinstance(value, str) and value.lstrip()[:1] not in ("[", "{", '"', "'")
    return f"{key}={value if bare else format_toml(value)}"


def copy_value(value: Any, key: str = "") -> Any:
    """Return a copy of what TOML could hold, in which no table is in two places: a key is set in one.

    Of Python's other types, paths and bytes are text, tuples and arrays lists, numbers of numpy numbers.
    """
    if type(value) in _PLAIN:
        return value
    match value:
        case dict():
            return {
                _check_key(inner, key): held
                if type(held) in _PLAIN
                else copy_value(held, f"{key}.{inner}".removeprefix("."))
                for inner, held in value.items()
            }
        case list() | tuple():
            return [copy_value(held, f"{key}[{n}]") for n, held in enumerate(value)]
        case bool() | None:
            return value
        case str() | int() | float():  # and what is derived from them
            return next(kind(value) for kind in (str, int, float) if isinstance(value, kind))
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise WrongValue(quote_value(value), "text, or bytes that are UTF-8", key=key) from None
        case PurePath():
            return str(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        plain = value.tolist()
        if type(plain) is not type(value):
            return copy_value(plain, key)
    found = f"{quote_value(value)} ({type(value).__name__})"
    raise WrongValue(found, "text, a number, true, false, a list or a table", key=key)


def _check_key(key: Any, table: str) -> str:
    if not isinstance(key, str):
        raise WrongValue(f"{quote_value(key)} ({type(key).__name__})", "text", key=f"{table}: a key".removeprefix(": "))
    return key


def format_toml(value: Any) -> str:
    """Return a value as a TOML file has it, in one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            inner = ", ".join(
                f"{key if _BARE.fullmatch(key) else json.dumps(key)} = {format_toml(one)}" for key, one in value.items()
            )
            return f"{{ {inner} }}"
        case list() | tuple():
            return f"[{', '.join(map(format_toml, value))}]"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


Settings = Mapping[str, Any] | Sequence[str | tuple[str, Any]] | None


def split_settings(settings: Settings) -> list[tuple[str, Any]]:
    """Return keys and values of settings, given as a table, as `KEY=VALUE` or one by one."""
    if type(settings) is dict or isinstance(settings, Mapping):
        return [(_check_key(key, "overrides"), copy_value(value)) for key, value in settings.items()]
    if isinstance(settings, str) or not isinstance(settings, Iterable | None):
        raise WrongValue(
            quote_value(settings), 'a table, or a list such as ["bottleneck.rate=40Mbit"]', key="overrides"
        )
    return [_split_setting(one, number) for number, one in enumerate(settings or ())]


def _split_setting(one: Any, number: int) -> tuple[str, Any]:
    if isinstance(one, str):
        return parse_setting(one)
    if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str):
        return one
    allowed = '"KEY=VALUE", or a tuple of a key and its value'
    raise WrongValue(f"{quote_value(one)} ({type(one).__name__})", allowed, key=f"overrides[{number}]")


def list_names(settings: Sequence[tuple[str, Any]]) -> set[str]:
    """Return the keys of settings; raises InputError if a key has two values."""
    names: set[str] = set()
    for key, _ in settings:
        if key in names:
            raise Conflict(f"two values of {quote_value(key)}", "each key once", option="--set")
        names.add(key)
    return names
