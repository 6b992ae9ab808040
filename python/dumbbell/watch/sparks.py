"""Values as rows of small bars."""

from __future__ import annotations

from collections.abc import Iterable

_SPARKS = " ▁▂▃▄▅▆▇█"


def draw_sparks(values: Iterable[float], top: float) -> str:
    """Return values from 0 to `top` as a row of small bars."""
    steps = len(_SPARKS) - 1
    return "".join(_SPARKS[min(steps, max(0, round(value / top * steps)))] if top > 0 else " " for value in values)


def draw_bar(share: float, width: int) -> str:
    """Return how much of a line is done, 0 to 1."""
    done = min(width, max(0, round(share * width)))
    return "━" * done + "─" * (width - done)
