"""Colours that mean something: each control, queue, source of data and state has one colour in every figure.

A place in `style.COLOURS` stands for a name, so that its marker, dashes and hatching are fixed as well.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dumbbell.errors import TooMany
from dumbbell.figures.style import COLOURS, DASHES, HATCHES, MARKERS, MOST_SERIES, Style

_CONTROLS = {
    **{"cubic": 0, "reno": 1, "prague": 2, "bbrdraft": 3, "dctcp": 4, "bbr1": 5, "bbr3": 6, "bbr2": 7},
    **{"cubicsce": 5, "renosce": 6, "dctcpsce": 7, "ledbat": 4, "ledbatpp": 2, "udp": 8, "constant": 8, "external": 8},
}
_QUEUES = {
    **{"fqcodel": 0, "pie": 1, "dualpi2": 2, "pfifo": 3, "bfifo": 3, "codel": 4, "pi2": 5, "csaqm": 5, "fqpie": 6},
    **{"cake": 7, "red": 8, "step": 8, "docsispie": 1, "mac80211": 0, "htbclasses": 4, "fq": 0},
}
_SOURCES = {"simulator": 0, "simulated": 0, "live": 2, "published": 3, "measured": 3, "linux": 6}
LIGHTNESS_APART = 6.0  # of two colours that can be distinguished in grey
_FAMILIES: tuple[Mapping[str, int], ...] = (_CONTROLS, _QUEUES, _SOURCES)
_OTHER_NAMES = {
    **{"bbrv1": "bbr1", "bbrv2": "bbr2", "bbrv3": "bbr3", "draft": "bbrdraft"},
    **{"newreno": "reno", "tcpprague": "prague", "ledbat++": "ledbatpp"},
    **{"fifo": "pfifo", "taildrop": "pfifo", "simulation": "simulator", "thesimulator": "simulator"},
}
# the states of congestion controls, in the pale colours of Tol (2021); the hatches distinguish them in grey
STATES: dict[str, tuple[str, str]] = {
    "startup": ("#CCEEFF", "++++"),
    "drain": ("#EEEEBB", "////"),
    "probe_up": ("#FFCCCC", "xxxx"),
    "probe_down": ("#BBCCEE", "...."),
    "probe_cruise": ("#DDDDDD", ""),
    "probe_refill": ("#CCDDAA", "----"),
    "probe_rtt": ("#E6D5F0", "\\\\\\\\"),
    "slow_start": ("#CCEEFF", "||||"),
    "cong_avoid": ("#F7E1C8", ""),
    "recovery": ("#FFCCCC", "oo"),
}
_OTHER_STATES = (("#F7E1C8", "oo"), ("#BBCCEE", "||||"), ("#CCDDAA", ""), ("#EEEEBB", "++++"))


def choose_state_looks(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return colour and hatch of each state by its name; raises InputError if there are too many to distinguish."""
    every = list(dict.fromkeys(names))
    known = {name: STATES[key] for name in every if (key := name.lower().replace(" ", "_")) in STATES}
    spare = [look for look in (*_OTHER_STATES, *STATES.values()) if look not in known.values()]
    others = [name for name in every if name not in known]
    if len(others) > len(spare):
        raise TooMany(f"{len(every)} names", f"at most {len(known) + len(spare)}", key="states")
    return known | dict(zip(others, spare, strict=False))


def measure_lightness(colour: str) -> float:
    """Return the lightness of a colour, `#RRGGBB`, from 0 to 100: L* of CIE 1976 for sRGB."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    y = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return 116 * y ** (1 / 3) - 16 if y > 216 / 24389 else y * 24389 / 27


def _simplify(text: str) -> str:
    word = re.sub(r"[-_ .]", "", text.lower())
    return _OTHER_NAMES.get(word, word)


def _find_place(value: Any, family: Mapping[str, int]) -> int | None:
    """Return the place of a name, with or without parameters after it: `CUBIC`, `bbr3 (ecn)`, `codel, target 5 ms`.

    So has `Prague 0.7`, a version, and `against Prague`.
    """
    text = str(value).removeprefix("against ")
    for part in (text, re.split(r"[,(:;]| with | without | (?=[0-9])", text, maxsplit=1)[0]):
        if (place := family.get(_simplify(part))) is not None:
            return place
    return None


def _place_values(values: Sequence[Any]) -> list[int | None] | None:
    """Return the places of values in the family that knows half of them or more; None if there is no such family."""
    for family in _FAMILIES:
        places = [_find_place(value, family) for value in values]
        if 2 * sum(place is not None for place in places) >= len(values):
            return places
    return None


def list_named_places() -> dict[str, int]:
    """Return the place in `COLOURS` of each name of a control or a queue, in small letters without signs."""
    return _QUEUES | _CONTROLS


def choose_styles(keys: Sequence[tuple[Any, ...]]) -> list[Style]:
    """Return the style of each group, whose key has one value or several.

    The first of the values whose names are known decides the colour, or else the first that differ; the others decide
    marker, dashes and hatching. Values that no family knows get the colours that are left, in order. Areas are not
    hatched where their colours can be distinguished in grey. Raises InputError if there are too many groups to
    distinguish.
    """
    return _make_plain(_choose_by_keys(keys), "hatch", HATCHES[0])


def make_solid(styles: Sequence[Style]) -> list[Style]:
    """Return styles whose lines are solid, so that noise can be seen, where their colours suffice in grey."""
    return _make_plain(styles, "dashes", DASHES[0])


def _make_plain(styles: Sequence[Style], name: str, plain: Any) -> list[Style]:
    """Take hatches or dashes from the styles whose colours no other has, and whose lightness differs enough."""
    colours = [own.colour for own in styles]
    taken = [measure_lightness(own.colour) for own in styles if getattr(own, name) == plain]
    made = list(styles)
    for i, own in enumerate(styles):
        here = measure_lightness(own.colour)
        if colours.count(own.colour) == 1 and all(abs(here - other) > LIGHTNESS_APART for other in taken):
            made[i] = replace(own, **{name: plain})
            taken.append(here)
    return made


def _choose_by_keys(keys: Sequence[tuple[Any, ...]]) -> list[Style]:
    if len(keys) > MOST_SERIES:
        raise TooMany(f"{len(keys)} series", f"at most {MOST_SERIES}", "filter the rows, or use facets", key="by")
    columns = [list(dict.fromkeys(column)) for column in zip(*keys, strict=True)]
    differ = [i for i, values in enumerate(columns) if len(values) > 1]
    known = [i for i in differ if _place_values(columns[i])]
    if known:
        coloured = known[0]
        places = _fill_places(_place_values(columns[coloured]) or [])
    elif len(differ) > 1:
        coloured = differ[0]
        places = list(range(len(columns[coloured])))
    else:
        return [_make_style(i, i) for i in range(len(keys))]
    place_of = dict(zip(columns[coloured], places, strict=True))
    chosen = [place_of[key[coloured]] for key in keys]
    return _assign_styles(chosen, [key[:coloured] + key[coloured + 1 :] for key in keys])


def _fill_places(places: Sequence[int | None]) -> list[int]:
    """Give the values without a place those that are left, in order."""
    left = (i for i in range(10**6) if i not in places)
    return [next(left) if place is None else place for place in places]


def _assign_styles(places: Sequence[int], others: Sequence[tuple[Any, ...]]) -> list[Style]:
    """Return the styles of groups whose colours are chosen: groups of one colour differ by marker and dashes."""
    if len(set(places)) == len(places):
        return [_make_style(place, place) for place in places]
    ranks = {other: i for i, other in enumerate(dict.fromkeys(others))}
    pairs = [(place % len(COLOURS), ranks[other]) for place, other in zip(places, others, strict=True)]
    if len(set(pairs)) == len(pairs) and len(ranks) <= len(MARKERS):
        return [_make_style(place, rank) for place, rank in pairs]
    numbered = [(place % len(COLOURS), places[:i].count(place)) for i, place in enumerate(places)]
    if max(rank for _, rank in numbered) < len(MARKERS):
        return [_make_style(place, rank) for place, rank in numbered]
    return [_make_style(i, i) for i in range(len(places))]


def _make_style(colour: int, rest: int) -> Style:
    return Style(
        COLOURS[colour % len(COLOURS)],
        MARKERS[rest % len(MARKERS)],
        DASHES[rest % len(DASHES)],
        HATCHES[rest % len(HATCHES)],
    )
