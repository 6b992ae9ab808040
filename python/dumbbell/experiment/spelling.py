"""Values of keys: from an experiment file to their canonical form, and back into words."""

import math
import re
from functools import lru_cache
from typing import Any

from dumbbell.errors import InputError, OutOfRange, WrongValue, join_names, quote_value
from dumbbell.experiment import buffer, link_trace, relative, traffic, units
from dumbbell.experiment.files import Files
from dumbbell.experiment.registry import Param


def find_unit_kind(param: Param) -> str | None:
    """Return "time", "rate" or "size" if values of `param` need a unit."""
    if param.kind in ("time", "rate"):
        return param.kind
    return "size" if param.kind == "int" and param.unit == "bytes" else None


def show_value(param: Param, value: Any) -> str:
    """Return a canonical value as it would be written in an experiment file, without quotes."""
    kind = find_unit_kind(param)
    if value is None:
        return "none"
    if param.kind == "arrivals":
        return traffic.show_arrivals(value)
    if param.kind == "sizes":
        return traffic.show_sizes(value)
    if param.kind == "trace":
        return link_trace.show(value)
    if param.kind in ("hops", "states"):
        return " + ".join(value) or "none"
    return units.show(kind, value) if kind else quote_value(value, 200).strip('"')


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_DAY = 24 * units.TIME["h"]
_UNLIMITED = 2**50  # bytes: a bound as large as this limits nobody
_EXPONENTS = {"-log2": "", "-log2 s": " s"}  # units of parameters whose value is the exponent of a power of two


def spell_value(param: Param, value: Any) -> str:
    """Return a canonical value in words, with its unit: `1448 B`, `20ms`, `10 packets`, `unset`, `unlimited`."""
    if value is None:
        return "unset"
    text = show_value(param, value)
    match find_unit_kind(param):
        case "size":
            return "unlimited" if value >= _UNLIMITED else re.sub(r"(?<=\d)(?=[A-Za-z])", " ", text)
        case "time" | "rate":
            return text
    if param.unit in _EXPONENTS:
        return f"{text} (2^-{text}{_EXPONENTS[param.unit]})"
    return f"{text} {param.unit}" if param.unit and param.kind in ("int", "float") else text


def format_limits(param: Param) -> str:
    """Return the bounds of a quantity or number in words, `from 88 B to 8934 B`; empty if it has none."""

    def format_bound(value: Any) -> str:
        return spell_value(param, value) if find_unit_kind(param) else show_value(param, value)

    low, high = (None if one is None else format_bound(one) for one in (param.min, param.max))
    text = " ".join(f"{word} {one}" for word, one in (("from", low), ("to", high)) if one is not None)
    return text.replace(" to unlimited", ", unlimited") + _format_value_names(param)


# names of codepoints: RFC 2474 (CS), 2597 (AF), 3246 (EF), 5865 (VA), 8622 (LE)
DSCP = {
    **{f"CS{number}": number << 3 for number in range(8)},
    **{f"AF{number}{drop}": number << 3 | drop << 1 for number in (1, 2, 3, 4) for drop in (1, 2, 3)},
    "EF": 46,
    "VA": 44,
    "LE": 1,
}


def list_value_names(param: Param) -> dict[str, int]:
    """Return the names that values of a parameter have, each with its number: those of codepoints."""
    return DSCP if param.name == "dscp" else {}


def _format_value_names(param: Param) -> str:
    return ', or a name such as "EF"' if list_value_names(param) else ""


def list_allowed_values(param: Param) -> str | tuple[str, ...]:
    """Return what `param` takes, in words or as a list of words."""
    none = ("none",) if param.optional else ()
    match param.kind:
        case "name":
            return "a name, in letters, digits, - and _"
        case "states":
            return f"a list of {join_names(param.choices)}"
        case "hops":
            return 'a list of names of hops, such as ["bottleneck"]'
        case "bool":
            return ("true", "false", *none)
        case "choice":
            return (*param.choices, *none)
        case _:
            thing = {"time": "a time", "rate": "a rate", "float": "a number"}.get(param.kind, "an integer")
            low, high = param.min, param.max
            if low is None and high is None and param.kind == "int":
                low, high = 0, 2**64 - 1
            limits = [f"from {show_value(param, low)}"] if low is not None else []
            limits += [f"to {show_value(param, high)}"] if high is not None else []
            allowed = " ".join([thing, *limits]) + _format_value_names(param)
    return f"{allowed}, or none" if param.optional else allowed


def _guess_unit(param: Param, kind: str) -> str | None:
    """Return the unit that is meant most likely if a time has none: that of the default, or s of times in a run.

    Such times are 0 or unset by default, and may be as long as a run.
    """
    if kind != "time":
        return None
    if param.default:
        return _find_unit_of(param.default)
    return "s" if param.max is None or param.max >= _DAY else None


@lru_cache(maxsize=256)
def _find_unit_of(time: int) -> str:
    """Return the unit in which a time has few digits."""
    return units.show("time", time).lstrip("0123456789.")


def parse_value(param: Param, value: Any, files: Files | None = None) -> Any:
    """Return `value`, as written in a file, in canonical form; InputError without file and key if it cannot be.

    `files` reads the files that it names.
    """
    if type(value) is int and param.kind == "int" and param.unit != "bytes" and _is_within(param, value):
        return value  # the usual case
    if param.optional and (value is None or (value == "none" and "none" not in param.choices)):
        return None

    def make_error(kind: type[InputError] = WrongValue) -> InputError:
        return kind(quote_value(value), list_allowed_values(param))

    if relative.is_relative(param, value):
        return relative.parse(param, value)
    if param.kind == "arrivals":
        return traffic.parse_arrivals(value)
    if param.kind == "sizes":
        return traffic.parse_sizes(value, files)
    if param.kind == "trace":
        return link_trace.parse(value, files)
    if param.kind == "buffer":
        return buffer.parse(value)
    if param.kind == "states":
        if (
            not isinstance(value, list)
            or any(one not in param.choices for one in value)
            or len(set(value)) < len(value)
        ):
            raise make_error()
        return value
    if param.kind in ("name", "hops"):
        names = [value] if param.kind == "name" else value
        if not isinstance(names, list) or not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names):
            raise make_error()
        return value
    kind = find_unit_kind(param)
    if kind:
        result: Any = units.parse(kind, value, _guess_unit(param, kind))
    elif param.kind == "choice":
        if value not in param.choices:
            raise make_error()
        return value
    elif param.kind == "bool":
        if not isinstance(value, bool):
            raise make_error()
        return value
    elif param.kind == "int":
        result = list_value_names(param).get(value, value) if isinstance(value, str) else value
        if type(result) is not int:
            raise make_error()
    else:
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or math.isnan(value):
            raise make_error()
        result = float(value)
    if not _is_within(param, result):
        raise make_error(OutOfRange)
    return result


def _is_within(param: Param, value: float) -> bool:
    """Return whether a number is within the bounds of a parameter; without bounds, a whole number has 64 bits."""
    low, high = param.min, param.max
    if param.kind != "float":
        low, high = 0 if low is None else low, 2**64 - 1 if high is None else high
    return (low is None or value >= low) and (high is None or value <= high)
