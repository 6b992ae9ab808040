"""Figures as pages and in notebooks: Vega-Lite from what a `Picture` was drawn from, so that both say the same.

`sheet.py` puts a frame in order: lines, panels, and the keys that a slider or a list chooses from. One function for
each kind of figure makes the marks. `chart_page.py` makes the specification, the page and the file.
"""

from dumbbell.figures.interactive.chart_page import Interactive, make_page, make_spec, write

__all__ = ["Interactive", "make_page", "make_spec", "write"]
