"""Rates, sizes, times and shares as tc(8) has them, which differ from those of experiment files.

A rate without unit is bits per second, `mbps` are megabytes per second, `k` of a size is 1024 bytes, and a time without
unit is microseconds: tc(8), section PARAMETERS.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from dumbbell.errors import WrongValue, find_nearest, quote_value
from dumbbell.tc.lexer import Word, place_error

_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_RATES = {
    "": 1,
    **{f"{prefix}bit": factor for prefix, factor in (_PREFIXES | _BINARY).items()},
    **{f"{prefix}bps": 8 * factor for prefix, factor in (_PREFIXES | _BINARY).items()},
}
_SIZES: dict[str, Decimal | int] = {
    "": 1,
    "b": 1,
    **{f"{prefix}{end}": 2**power for prefix, power in (("k", 10), ("m", 20), ("g", 30)) for end in ("", "b")},
    **{f"{prefix}bit": 2 ** (power - 3) for prefix, power in (("k", 10), ("m", 20), ("g", 30))},
}
_TIMES = {  # of nanoseconds
    "": 1_000,
    **dict.fromkeys(("s", "sec", "secs"), 10**9),
    **dict.fromkeys(("ms", "msec", "msecs"), 10**6),
    **dict.fromkeys(("us", "usec", "usecs"), 10**3),
    **dict.fromkeys(("ns", "nsec", "nsecs"), 1),
}
_PACKETS = dict.fromkeys(("", "p", "pkt", "pkts", "packet", "packets"), 1)
_NUMBER = re.compile(r"([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})([A-Za-z%]{0,10})", re.ASCII)
_US = 1_000


def _parse(word: Word, what: str, example: str, units: Mapping[str, Decimal | int]) -> Decimal:
    match = _NUMBER.fullmatch(word)
    unit = match[2].lower() if match else ""
    if match is None or unit not in units:
        nearest = find_nearest(unit, [one for one in units if one]) if match and unit else None
        shown = f'"{match[1]}{nearest}"' if match and nearest else None
        error = WrongValue(quote_value(str(word)), f"{what} of tc, such as {example}", nearest=shown)
        raise place_error(error, word)
    return Decimal(match[1]) * units[unit]


def parse_rate(word: Word) -> int:
    """Return a rate in bit/s: the kernel has whole bytes per second."""
    return int(_parse(word, "a rate", "50mbit, 800kbit or 1gbit", _RATES) / 8) * 8


def parse_size(word: Word) -> int:
    """Return a size in bytes; of `15k/8`, which names cells too, the first part."""
    return int(_parse(word.replace_text(word.partition("/")[0]), "a size", "1600, 15k or 4mb", _SIZES))


def parse_time(word: Word) -> int:
    """Return a time in ns, which is whole microseconds."""
    return int(_parse(word, "a time", "5ms, 300us or 1s", _TIMES)) // _US * _US


def parse_packets(word: Word) -> int:
    """Return a number of packets, which tc prints as `10240p`."""
    return _to_whole(word, "a number of packets", "1000", _PACKETS)


def parse_count(word: Word) -> int:
    """Return a whole number."""
    return _to_whole(word, "a whole number", "1024", {"": 1})


def _to_whole(word: Word, what: str, example: str, units: Iterable[str]) -> int:
    value = _parse(word, what, example, dict.fromkeys(units, 1))
    if value != int(value):
        raise place_error(WrongValue(quote_value(str(word)), f"{what}, such as {example}"), word)
    return int(value)


def parse_number(word: Word) -> float:
    """Return a number."""
    return float(_parse(word, "a number", "0.5", {"": 1}))


def parse_share(word: Word) -> float:
    """Return a share from 0 to 1 of a percentage, for which tc needs no sign: `1%` and `1` are 0.01."""
    share = float(_parse(word, "a percentage", "1%", {"": 1, "%": 1}) / 100)
    if share > 1:
        raise place_error(WrongValue(quote_value(str(word)), "a percentage from 0% to 100%"), word)
    return share


def is_number(word: str) -> bool:
    """Whether a word begins as a quantity does."""
    return word[:1].isdigit() or word[:1] == "."
