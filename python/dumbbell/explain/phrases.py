"""How facts are written: names, numbers with units, lists."""

from __future__ import annotations

import math
import re

from dumbbell.words import count_places, trim_zeros

_NAMES = {
    "cubic": "CUBIC",
    "reno": "Reno",
    "dctcp": "DCTCP",
    "prague": "Prague",
    "bbr1": "BBRv1",
    "bbr2": "BBRv2",
    "bbr3": "BBRv3",
    "bbr-draft": "BBR of the draft",
    "reno-sce": "Reno-SCE",
    "cubic-sce": "CUBIC-SCE",
    "dctcp-sce": "DCTCP-SCE",
    "udp": "UDP",
    "pfifo": "tail drop",
    "bfifo": "tail drop",
    "red": "RED",
    "step": "a step",
    "codel": "CoDel",
    "fq_codel": "FQ-CoDel",
    "pie": "PIE",
    "fq_pie": "FQ-PIE",
    "pi2": "PI2",
    "dualpi2": "DualPI2",
    "cake": "Cake",
    "csaqm": "CSAQM",
}


_LABEL = re.compile(r"(?P<name>[^,( ]*)(?:\((?P<keys>.*?)\)(?=,| #|$))?(?P<rest>.*?)(?P<number> #\d+)?", re.DOTALL)


def format_label(label: str, cc: str = "") -> str:
    """Return a label of tables as it reads in a sentence: `cubic(beta=0.8), 10ms #2` is `CUBIC (beta=0.8, 10ms) #2`.

    `cc` is a name that the label may leave out, where it is the same for all: `10ms` is `CUBIC (10ms)`, too.
    """
    if cc and not label.startswith(cc):
        label = f"{cc}, {label}" if label else cc
    match = _LABEL.fullmatch(label)
    assert match is not None
    name = _NAMES.get(match["name"], match["name"])
    more = [part for part in (match["keys"], match["rest"].removeprefix(",").strip()) if part]
    inside = f" ({', '.join(more)})" if more else ""
    return f"{name}{inside}{match['number'] or ''}"


def capitalise(text: str) -> str:
    """Return a sentence that begins with a capital letter, unless it begins with a name such as `mine@39b57e`."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].removesuffix("'s").isalpha() else text


def format_number(value: float, digits: int = 3) -> str:
    """Return a number with about `digits` significant digits, and all digits before the point."""
    if not math.isfinite(value):
        return "an unknown number of"
    if value == 0:
        return "0"
    places = count_places(value, digits)
    text = f"{value:,.{places}f}".replace(",", " ")
    return text.rstrip("0").rstrip(".") if places else text


def format_time(value: float) -> str:
    """Return a time of the run: to ms up to 10 s, then to hundredths of a second."""
    return f"{trim_zeros(value, 3 if value < 10 else 2)} s"


def format_span(start: float, end: float) -> str:
    """Return a span of time, `from 3 s to 20 s`."""
    return f"from {format_time(start)} to {format_time(end)}"


def format_clock(value: float) -> str:
    """Return the same with all its digits, for a column."""
    return f"{value:.3f} s"


def format_duration(value: float) -> str:
    """Return a length of time."""
    return f"{format_number(1e3 * value)} ms" if value < 1 else f"{format_number(value)} s"


def format_milliseconds(value: float) -> str:
    """Return a delay in ms."""
    return f"{format_number(value)} ms"


def format_rate(mbit: float) -> str:
    """Return a rate in the unit that suits it."""
    if mbit >= 1000:
        return f"{format_number(mbit / 1000)} Gbit/s"
    return f"{format_number(mbit)} Mbit/s" if mbit >= 0.1 else f"{format_number(1000 * mbit)} kbit/s"


def format_percent(share: float) -> str:
    """Return a share, 0 to 1, as a percentage; small ones with more digits."""
    value = 100 * share
    if value >= 99.95 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 1 else f"{format_number(value, 2)} %"


def format_whole(value: int) -> str:
    """Return a whole number, thousands apart."""
    return f"{value:,}".replace(",", " ")


def format_count(value: int, one: str, many: str = "") -> str:
    """Return `1 packet`, `2 packets`."""
    return f"{format_whole(value)} {one if value == 1 else many or f'{one}s'}"


def format_times(value: int) -> str:
    """Return how often: once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(value, f"{format_whole(value)} times")
