"""From results to figures: what is drawn against what, in which lines and panels. `dumbbell.figures` draws it.

`draw.py` chooses the kind of figure. The kind's file reads the results and hands a frame to `dumbbell.figures`.
"""

from dumbbell.plotting.draw import KINDS, plot

__all__ = ["KINDS", "plot"]
