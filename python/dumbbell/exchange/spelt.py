"""Numbers as experiment files have them."""

from __future__ import annotations

import math

from dumbbell.exchange.measurement import SetupFact
from dumbbell.experiment import units
from dumbbell.words import trim_zeros

_EXACT = 1e-9  # of a value: what arithmetic may be off


def _round_to_three_digits(value: float) -> float:
    """Return a positive number with three digits that count."""
    return round(value, 2 - math.floor(math.log10(value)))


def spell_seconds(value: float) -> str:
    """Return a time in seconds as an experiment file has it, to the millisecond."""
    return f"{trim_zeros(value, 3)}s"


def spell_size(value: float) -> str:
    """Return bytes as an experiment file has them, exactly."""
    whole = round(value)
    return f"{whole // 1000}kB" if whole % 1000 == 0 else f"{whole}B"


def spell_milliseconds(value: float) -> str:
    """Return a time in ms as an experiment file has it, to three digits, which is not more than `value`."""
    value = max(value, 0.001)
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{trim_zeros(math.floor(value / step * (1 + _EXACT) + _EXACT) * step, 6)}ms"


def spell_rate(value: float, least: float = 0.0) -> str:
    """Return a rate in bit/s as an experiment file has it, to three digits; to four where three are below `least`."""
    value = _round_to_three_digits(max(value, least, 1.0))
    if value < least:
        step = 10.0 ** (math.floor(math.log10(least)) - 3)
        value = math.ceil(least / step * (1 - _EXACT)) * step
    for unit, scale in (("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3)):
        if value >= scale:
            return f"{trim_zeros(value / scale, 4)}{unit}"
    return f"{math.ceil(value - _EXACT):.0f}bit"


def parse_milliseconds(fact: SetupFact) -> float:
    """Return a time of the set-up, ms."""
    return units.parse("time", fact.text) / 1e6


def parse_rate(fact: SetupFact) -> float:
    """Return a rate of the set-up, bit/s."""
    return float(units.parse("rate", fact.text))
