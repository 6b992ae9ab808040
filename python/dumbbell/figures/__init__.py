"""Figures: every function takes a frame and names of its columns and returns a figure; none of them averages.

None touches pyplot, its backend or the settings of matplotlib.
"""

from dumbbell.figures.bars import bars
from dumbbell.figures.canvas import SUFFIXES, Picture, save, save_all, skip_arrangement
from dumbbell.figures.distributions import box, cdf
from dumbbell.figures.dots import dots
from dumbbell.figures.ellipses import ellipses
from dumbbell.figures.forest import forest
from dumbbell.figures.frames import format_number, format_value
from dumbbell.figures.front import front
from dumbbell.figures.heat import heat
from dumbbell.figures.interactive import Interactive, make_page, make_spec, write
from dumbbell.figures.labels import mark_events, mark_place
from dumbbell.figures.labels import write as write_in
from dumbbell.figures.lines import lines
from dumbbell.figures.nested import nested
from dumbbell.figures.over_time import Series, shares, stacked_series
from dumbbell.figures.ribbon import Band, find_bands
from dumbbell.figures.style import set_sizes

__all__ = [
    "SUFFIXES",
    "Band",
    "Interactive",
    "Picture",
    "Series",
    "bars",
    "box",
    "cdf",
    "dots",
    "ellipses",
    "find_bands",
    "forest",
    "format_number",
    "format_value",
    "front",
    "heat",
    "lines",
    "make_page",
    "make_spec",
    "mark_events",
    "mark_place",
    "nested",
    "save",
    "save_all",
    "set_sizes",
    "shares",
    "skip_arrangement",
    "stacked_series",
    "write",
    "write_in",
]
