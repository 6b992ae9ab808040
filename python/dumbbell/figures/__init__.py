"""Figures: every function takes a frame and names of its columns and returns a figure; none of them averages.

None touches pyplot, its backend or the settings of matplotlib.
"""

from dumbbell.figures.bars import bars
from dumbbell.figures.canvas import Picture, save
from dumbbell.figures.distributions import box, cdf
from dumbbell.figures.ellipses import ellipses
from dumbbell.figures.frames import said
from dumbbell.figures.heat import heat
from dumbbell.figures.lines import lines
from dumbbell.figures.nested import nested
from dumbbell.figures.over_time import Band, Series, shares, stacked_series

__all__ = [
    "Band",
    "Picture",
    "Series",
    "bars",
    "box",
    "cdf",
    "ellipses",
    "heat",
    "lines",
    "nested",
    "said",
    "save",
    "shares",
    "stacked_series",
]
