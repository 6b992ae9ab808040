"""How every figure looks: colours, markers and line styles that can be distinguished in grey too, and sizes.

A figure is as wide as a column of a paper, or as two, so that its text has the size that it says. `set_sizes` gives
other sizes to all figures that are drawn within it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl

# Okabe and Ito (2008) without yellow, with grey, and wine from Tol (2021). In this order colours at most two places
# apart differ in luminance, so that series with one marker (every eighth) can be distinguished in grey
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#222222", "#56B4E9", "#CC79A7", "#D55E00", "#882255", "#999999")
# for dark pages, the same hues; `web/page.css` has both for pages
DARK_COLOURS = ("#4aa8e0", "#f0b840", "#2ec499", "#e2e2e2", "#93d3ff", "#e3a3c5", "#ff8a3d", "#cf6a9c", "#8a8f94")
# of text in the colour of a line: darker where the line is pale, with a contrast of 4.5 to white or more
TEXT_COLOURS = {
    **{colour.lower(): colour.lower() for colour in COLOURS},
    **{"#e69f00": "#8f6200", "#009e73": "#007a59", "#56b4e9": "#1d74ab", "#cc79a7": "#a34d7c", "#d55e00": "#b34e00"},
    "#999999": "#6b6b6b",
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.6)),
    (0, (1.2, 1.1)),
    (0, (6, 1.4, 1.2, 1.4)),
    (0, (9, 2.2)),
    (0, (3.2, 1.2, 1, 1.2, 1, 1.2)),
    (0, (2.4, 3.2)),
    (0, (12, 1.4, 3, 1.4)),
)
HATCHES = ("", "////", "....", "xxxx", "----", "\\\\\\\\", "++++", "oo")
MOST_SERIES = 56
SINGLE, DOUBLE = 3.5, 7.16  # inches: a column of an IEEE or ACM page, and both
MISSING = "0.82"
ON_PALE, ON_STRONG = "#010101", "#fefefe"  # of text in a cell of a map, which keeps its colour on a dark page
GUIDE = "0.45"  # of lines that are no data

TEXT = 8.0  # points
SMALL = 7.0

_OWN = {
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "axes.titlepad": 4.0,
    "axes.labelpad": 2.5,
    "axes.linewidth": 0.7,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.pad": 2.5,
    "ytick.major.pad": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.4,
    "legend.labelspacing": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.0,
    "lines.markeredgewidth": 0.8,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "dumbbell",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
# what belongs to the user's session and not to the look of a figure
_LEFT = {"backend", "backend_fallback", "interactive", "toolbar", "timezone", "figure.max_open_warning", "date.epoch"}
_RC: dict[Any, Any] = {key: value for key, value in mpl.rcParamsDefault.items() if key not in _LEFT} | _OWN


@dataclass(frozen=True)
class FigureSizes:
    """The size of a figure that a user asked for, in inches and points; None leaves it to the figure."""

    width: float | None = None
    height: float | None = None
    text: float | None = None


_WANTED_SIZES: ContextVar[FigureSizes | None] = ContextVar("sizes", default=None)


@contextmanager
def set_sizes(width: float | None = None, height: float | None = None, text: float | None = None) -> Iterator[None]:
    """Give figures drawn here a width and a height in inches, and text of so many points."""
    token = _WANTED_SIZES.set(FigureSizes(width, height, text))
    try:
        yield
    finally:
        _WANTED_SIZES.reset(token)


def get_sizes() -> FigureSizes:
    """Return the sizes of figures drawn here."""
    return _WANTED_SIZES.get() or FigureSizes()


_SIZES = ("font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize")


@contextmanager
def apply_style(sizes: FigureSizes | None = None) -> Iterator[None]:
    """Draw as this package does, whatever the user's own settings are; they are back afterwards.

    A figure that exists is drawn in the `sizes` in which it was made, as its ticks depend on them.
    """
    text = (sizes or get_sizes()).text
    scale = 1.0 if text is None else text / TEXT
    with mpl.rc_context(_RC | {size: _RC[size] * scale for size in _SIZES}):
        yield


@dataclass(frozen=True)
class Style:
    """Colour, marker, line style and hatching of one series; `palette.choose_styles` chooses them."""

    colour: str
    marker: str
    dashes: Any
    hatch: str

    @property
    def text_colour(self) -> str:
        """The colour of text that names the series."""
        return TEXT_COLOURS.get(self.colour.lower(), self.colour)
