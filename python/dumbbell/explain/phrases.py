"""How facts are written: names, numbers with units, lists."""

from __future__ import annotations

import re

from dumbbell.words import format_number, trim_zeros

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
    "ledbat": "LEDBAT",
    "ledbat-pp": "LEDBAT++",
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
    "docsis_pie": "DOCSIS-PIE",
    "mac80211": "the queues of a Linux access point",
    "htb_classes": "classes of HTB",
    "fq": "fq",
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


def format_time(value: float) -> str:
    """Return a time of the run: to ms up to 10 s, then to hundredths of a second."""
    return f"{trim_zeros(value, 3 if value < 10 else 2)} s"


def format_span(start: float, end: float) -> str:
    """Return a span of time, `from 3 s to 20 s`."""
    return f"from {format_time(start)} to {format_time(end)}"


def format_clock(value: float) -> str:
    """Return the same with all its digits, for a column."""
    return f"{value:.3f} s"


def format_milliseconds(value: float) -> str:
    """Return a delay in ms."""
    return f"{format_number(value)} ms"
