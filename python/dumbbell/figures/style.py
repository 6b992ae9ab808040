"""How every figure looks: colours, markers and line styles that are told apart in grey too, and sizes of text."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl

from dumbbell.errors import InputError

# Okabe and Ito (2008) without yellow, with grey, and wine from Tol (2021). In this order colours at most two places
# apart differ in luminance, so that series with one marker (every eighth) are told apart in grey
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#222222", "#56B4E9", "#CC79A7", "#D55E00", "#882255", "#999999")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
HATCHES = ("", "////", "....", "xxxx", "----", "\\\\\\\\", "++++", "oo")
MOST_SERIES = 56
MISSING = "0.82"
GUIDE = "0.45"  # of lines that are no data

TEXT = 10.0
SMALL = 9.0

_OWN = {
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.5,
    "lines.markersize": 5.0,
    "lines.markeredgewidth": 1.0,
    "hatch.linewidth": 0.7,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
# what belongs to the user's session and not to the look of a figure
_LEFT = {"backend", "backend_fallback", "interactive", "toolbar", "timezone", "figure.max_open_warning", "date.epoch"}
_LOOK: dict[Any, Any] = {key: value for key, value in mpl.rcParamsDefault.items() if key not in _LEFT} | _OWN


@contextmanager
def look() -> Iterator[None]:
    """Draw as this package does, whatever the user's own settings are; they are back afterwards."""
    with mpl.rc_context(_LOOK):
        yield


@dataclass(frozen=True)
class Style:
    """Colour, marker, line style and hatching of one series."""

    colour: str
    marker: str
    dashes: Any
    hatch: str


def styles(count: int) -> list[Style]:
    """Return a style for each series; raises InputError if there are too many to tell apart."""
    if count > MOST_SERIES:
        raise InputError("", "by", f"{count} series", f"at most {MOST_SERIES}; filter, or spread them over facets")
    return [
        Style(
            COLOURS[i % len(COLOURS)],
            MARKERS[i % len(MARKERS)],
            DASHES[i // len(MARKERS) % len(DASHES)],
            HATCHES[i % len(HATCHES)],
        )
        for i in range(count)
    ]
