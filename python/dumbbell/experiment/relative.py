"""Rates and windows of what sends as parts of the path: `rate = "80%"`, `window = "2bdp"`.

A share is that of the rate of the first hop that the data pass, at the start of the run. A bandwidth-delay product is
that of this rate and the base RTT of the sender itself.
"""

import re
from fractions import Fraction
from typing import Any

from dumbbell.errors import OutOfRange, WrongValue, quote_value
from dumbbell.experiment.frame_size import HEADERS
from dumbbell.experiment.net import compute_base_rtt, list_hops
from dumbbell.experiment.registry import RELATIVE, Param, read_registry

LEAST, MOST = Fraction(1, 1000), Fraction(1000)  # of products
LEAST_PERCENT, MOST_PERCENT = Fraction(1, 1000), Fraction(100_000)
UNITS = {"share": "%", "bdp": "bdp"}
BOUNDS = {"share": (LEAST_PERCENT, MOST_PERCENT), "bdp": (LEAST, MOST)}
_ALLOWED = {
    "share": 'a rate such as "10Mbit", or a share such as "80%" (from 0.001% to 100000%) of the first hop\'s rate',
    "bdp": 'an integer, or bandwidth-delay products such as "2bdp" (from 0.001bdp to 1000bdp)',
}


def is_relative(param: Param, value: Any) -> bool:
    """Return whether a value, as written in a file, is a share or a product, and `param` takes one."""
    return bool(param.relative) and isinstance(value, str) and value.rstrip().endswith(UNITS[param.relative])


def parse(param: Param, value: str) -> dict[str, str]:
    """Return a share or a product as `settle` takes it: `{"share": "80"}`, in percent, or `{"bdp": "2"}`.

    Raises InputError without file and key.
    """
    allowed, (low, high) = _ALLOWED[param.relative], BOUNDS[param.relative]
    number = re.fullmatch(rf"\s*([0-9]{{1,12}}(?:\.[0-9]{{1,9}})?)\s*{UNITS[param.relative]}\s*", value, re.ASCII)
    if number is None:
        raise WrongValue(quote_value(value), allowed)
    if not low <= Fraction(number[1]) <= high:
        raise OutOfRange(quote_value(value), allowed)
    return {param.relative: number[1]}


def settle(run: dict[str, Any], given: dict[str, Any]) -> None:
    """Replace every share and product of a canonical run by a rate or a window; InputError without file."""
    known = read_registry()
    for name in ("flows", "web", "udp"):
        for number, (one, own) in enumerate(zip(run[name], given[name], strict=True)):
            place = f"{name}[{number}]"
            for key in RELATIVE.get(name, ()):
                if isinstance(value := one[key], dict):
                    param = known.sections[name][key]
                    one[key] = own[key] = _compute(run, one, f"{place}.{key}", param, value)
            if "cc" in one and "plugin" not in one["cc"]:
                control = one["cc"]["name"]
                for key in RELATIVE.get(control, ()):
                    if isinstance(value := one["cc"][key], dict):
                        param = known.cc[control].params[key]
                        found = _compute(run, one, f"{place}.cc.{key}", param, value)
                        one["cc"][key] = own["cc"][key] = found


def _compute(run: dict[str, Any], sender: dict[str, Any], key: str, param: Param, value: dict[str, str]) -> int:
    """Return the rate, bit/s, or the window, segments, that a share or a product is for `sender`."""
    ((kind, text),) = value.items()
    usual = "reverse" if sender["direction"] == "up" else "bottleneck"
    first = (sender["route"] or [usual])[0]
    rates = {str(hop.get("name", place)): hop["rate"] for place, hop in list_hops(run)}
    if first not in rates:  # the engine refuses the route
        return int(param.min)
    rate = rates[first]
    if kind == "share":
        found = Fraction(text) / 100 * rate
    else:
        frame = (sender.get("mss") or run["hosts"]["mss"]) + HEADERS
        if not (rtt := compute_base_rtt(run, sender)):
            raise WrongValue(f'"{text}bdp", and the base RTT is 0s', "an integer", key=key)
        found = max(Fraction(1), Fraction(text) * rtt * rate / (8 * 10**9 * frame))
    nearest = int(found + Fraction(1, 2))
    if not param.min <= nearest <= param.max:
        allowed = f"one that makes {'a rate' if kind == 'share' else 'a window'} from {param.min} to {param.max}"
        raise OutOfRange(f'"{text}{UNITS[kind]}", which makes {nearest}', allowed, key=key)
    return nearest
