"""Quantities with units, as written in experiment files and as the engine wants them: integer ns, bit/s and bytes."""

import math
import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from numbers import Real
from typing import Any

from dumbbell.errors import WrongValue, find_nearest, quote_value

TIME = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
RATE = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12}
SIZE = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

_QUANTITY = re.compile(r"\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-zµ]{1,10})(/s)?\s*", re.ASCII)
_SPELLINGS = {
    "time": {"µs": "us"},
    "rate": {unit.lower(): unit for unit in RATE},
    "size": {"KB": "kB"},
}
UNITS = {"time": TIME, "rate": RATE, "size": SIZE}
_USUAL = {"time": "ms", "rate": "Mbit", "size": "B"}
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
_IN_BITS = 100_000  # a rate without unit that is as large as this is meant in bit/s, as tc(8) reads it
_BYTES_PER_SECOND = {f"{unit}ps" for unit in SIZE}
_EXAMPLES = {
    "time": 'a time such as "20ms", "1.5s" or "100us"',
    "rate": 'a rate such as "10Mbit", "500kbit" or "1Gbit"',
    "size": 'a size such as "4MB", "64KiB" or "1514B"',
}


def parse(kind: str, value: Any, usual: str | None = None) -> int:
    """Return `value` in ns, bit/s or bytes, for `kind` "time", "rate" or "size".

    The bare number 0 needs no unit. Raises InputError, without file and key, on anything else without a unit, on an
    unknown unit and on a fraction of the smallest unit. The error says a number without unit with the `usual` unit.
    """
    if type(value) is int and value == 0:
        return 0
    if isinstance(value, str):
        return _parse_text(kind, value, usual)
    raise WrongValue(quote_value(value), _EXAMPLES[kind], nearest=_suggest_unit(kind, value, usual or _USUAL[kind]))


@lru_cache(maxsize=4096)
def _parse_text(kind: str, value: str, usual: str | None) -> int:
    units = UNITS[kind]
    match = _QUANTITY.fullmatch(value)
    if match is None:
        raise WrongValue(quote_value(value), _EXAMPLES[kind], nearest=_suggest_unit(kind, value, usual or _USUAL[kind]))
    number, word, per_second = match.groups()
    unit = _find_unit(kind, word)
    if unit is None or (per_second and kind != "rate"):
        raise _make_unit_error(kind, value, number, word, per_second or "")
    try:
        exact = Decimal(number) * units[unit]
        whole = int(exact)
    except InvalidOperation:
        raise WrongValue(quote_value(value), _EXAMPLES[kind]) from None
    if exact != whole:
        raise WrongValue(quote_value(value), f"a multiple of 1{next(iter(units))}")
    return whole


def has_unit(kind: str, value: str) -> bool:
    """Return whether a text is a quantity with a unit of this kind."""
    match = _QUANTITY.fullmatch(value)
    return match is not None and match[3] is None and _find_unit(kind, match[2]) is not None


def parse_span(times: Any, key: str) -> tuple[float, float]:
    """Return two times of a run in seconds: `20s..21s`, or a pair of numbers of seconds or texts such as "20s".

    Raises InputError, with this key.
    """
    form, example = ("FROM..TO", "20s..21s")
    if not isinstance(times, str):
        form, example = ("(FROM, TO)", '("20s", "21s"), or (20, 21) in seconds')
    try:
        start, end = (_parse_seconds(one) for one in (times.split("..") if isinstance(times, str) else times))
    except (TypeError, ValueError):
        raise WrongValue(quote_value(times), f"{form}, such as {example}", key=key) from None
    if not 0 <= start < end < math.inf:
        raise WrongValue(quote_value(times), f"FROM before TO, such as {example}", key=key)
    return start, end


def _parse_seconds(value: Any) -> float:
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else parse("time", value) / 1e9


def _find_unit(kind: str, word: str) -> str | None:
    """Return the unit that a word is, if it is one of this kind."""
    return word if word in UNITS[kind] else _SPELLINGS[kind].get(word.lower() if kind == "rate" else word)


def _suggest_unit(kind: str, value: Any, usual: str) -> str | None:
    """Return a number with the unit that was most likely meant; None if there is nothing to guess."""
    text = str(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not _NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    if not number:
        return None
    if kind == "rate" and number >= _IN_BITS and number == int(number):
        return f'"{show(kind, int(number))}"'
    return f'"{text}{usual}"'


def _make_unit_error(kind: str, value: str, number: str, word: str, per_second: str) -> WrongValue:
    """Return the error of a quantity whose unit there is not, or which is of another kind."""
    other = next((one for one in UNITS if one != kind and _find_unit(one, word)), None)
    if kind == "rate" and (other == "size" or word in _BYTES_PER_SECOND):
        return _make_bytes_error(value, number, word.removesuffix("ps"), is_rate=bool(per_second) or other is None)
    if other is not None and not per_second:
        return WrongValue(f"{quote_value(value)}, a {other}", _EXAMPLES[kind])
    close = find_nearest(word, UNITS[kind])
    return WrongValue(quote_value(value), _EXAMPLES[kind], nearest=f'"{number}{close}"' if close else None)


def _make_bytes_error(value: str, number: str, word: str, *, is_rate: bool) -> WrongValue:
    """Return the error of a rate in bytes, or of a size in place of a rate, which is most likely one in bits."""
    unit = _find_unit("size", word) or word
    bits = int(Decimal(number) * SIZE[unit] * 8) if _NUMBER.fullmatch(number) else 0
    in_bytes = f'"{show("rate", bits)}"' if bits else None
    if is_rate or in_bytes is None:
        return WrongValue(f"{quote_value(value)}, in bytes", _EXAMPLES["rate"], nearest=in_bytes)
    in_bits = f'"{number}{unit[0].lower() if unit[0] in "kK" else unit[0].replace("B", "")}bit"'
    meant = f"{in_bits}, or {in_bytes} for {number}{unit}/s"
    return WrongValue(f"{quote_value(value)}, a size", _EXAMPLES["rate"], nearest=meant)


def show(kind: str, value: int) -> str:
    """Return a quantity in the largest unit in which it has few digits: `show("time", 20_000_000)` is `20ms`.

    Times and rates have up to three digits after the point, sizes one at most: `1448B`, `7.5kB`, and `64KiB` for
    65536.
    """
    units = {unit: size for unit, size in UNITS[kind].items() if unit not in ("min", "h")}
    for unit, size in sorted(units.items(), key=lambda item: -item[1]):
        if value >= size:
            number = Decimal(value) / size
            digits = "1" if unit.endswith("iB") else "0.1" if kind == "size" else "0.001"
            if number == number.quantize(Decimal(digits)):
                return f"{number.normalize():f}{unit}"
    return f"{value}{next(iter(units))}"
