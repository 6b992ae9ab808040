"""Figures: every function takes a frame and names of its columns and returns a figure; none of them averages.

None touches pyplot, its backend or the settings of matplotlib.
"""

from dumbbell.figures.bars import bars
from dumbbell.figures.canvas import SUFFIXES, Picture, save, save_all, unarranged
from dumbbell.figures.distributions import box, cdf
from dumbbell.figures.ellipses import ellipses
from dumbbell.figures.forest import forest
from dumbbell.figures.frames import printed, said
from dumbbell.figures.heat import heat
from dumbbell.figures.interactive import Interactive, page, spec, write
from dumbbell.figures.lines import lines
from dumbbell.figures.nested import nested
from dumbbell.figures.over_time import Series, shares, stacked_series
from dumbbell.figures.ribbon import Band, bands
from dumbbell.figures.style import asked

__all__ = [
    "SUFFIXES",
    "Band",
    "Interactive",
    "Picture",
    "Series",
    "asked",
    "bands",
    "bars",
    "box",
    "cdf",
    "ellipses",
    "forest",
    "heat",
    "lines",
    "nested",
    "page",
    "printed",
    "said",
    "save",
    "save_all",
    "shares",
    "spec",
    "stacked_series",
    "unarranged",
    "write",
]
