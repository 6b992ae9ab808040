"""Quantities with units, as written in experiment files and as the engine wants them: integer ns, bit/s and bytes."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from dumbbell.errors import WrongValue, nearest, shown

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
_EXAMPLES = {
    "time": 'a time such as "20ms", "1.5s" or "100us"',
    "rate": 'a rate such as "10Mbit", "500kbit" or "1Gbit"',
    "size": 'a size such as "4MB", "64KiB" or "1514B"',
}


def parse(kind: str, value: Any) -> int:
    """Return `value` in ns, bit/s or bytes, for `kind` "time", "rate" or "size".

    The bare number 0 needs no unit. Raises InputError, without file and key, on anything else without a unit, on an
    unknown unit and on a fraction of the smallest unit.
    """
    if type(value) is int and value == 0:
        return 0
    units = UNITS[kind]
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        hint = f'"{value}{_usual(kind)}"' if type(value) is int and 0 < value < 10**12 else None
        raise WrongValue("", "", shown(value), _EXAMPLES[kind], hint)
    number, word, per_second = match.groups()
    unit = word if word in units else _SPELLINGS[kind].get(word.lower() if kind == "rate" else word)
    if unit is None or (per_second and kind != "rate"):
        close = nearest(word, units)
        raise WrongValue("", "", shown(value), _EXAMPLES[kind], f'"{number}{close}"' if close else None)
    try:
        exact = Decimal(number) * units[unit]
        whole = int(exact)
    except InvalidOperation:
        raise WrongValue("", "", shown(value), _EXAMPLES[kind]) from None
    if exact != whole:
        raise WrongValue("", "", shown(value), f"a multiple of 1{next(iter(units))}")
    return whole


def _usual(kind: str) -> str:
    return {"time": "ms", "rate": "Mbit", "size": "B"}[kind]


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
