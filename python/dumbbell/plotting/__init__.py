"""From results to figures: what is drawn against what, in which lines and panels. `dumbbell.figures` draws it.

`draw.py` chooses the kind of figure, `kinds.py` lists the kinds. The kind's file reads the results and hands a frame to
`dumbbell.figures`.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import import_lazily

if TYPE_CHECKING:
    from dumbbell.plotting.draw import plot as plot
    from dumbbell.plotting.kinds import KINDS as KINDS
else:
    __getattr__ = import_lazily(__name__, {"KINDS": "kinds", "plot": "draw"})
