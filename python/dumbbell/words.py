"""How numbers and lists stand in sentences."""

import math
from collections.abc import Iterable


def join_words(words: Iterable[object], last: str = "and") -> str:
    """Return `a, b and c`."""
    *others, end = list(map(str, words)) or [""]
    return f"{', '.join(others)} {last} {end}" if others else end


def format_count(number: int, what: str) -> str:
    """Return `1 run`, `2 runs`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def count_places(value: float, digits: int) -> int:
    """Return how many digits after the point a number has if `digits` of it are significant."""
    if value == 0:
        return 0
    return max(0, digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}")))))


def trim_zeros(value: float, places: int) -> str:
    """Return a number with at most so many digits after the point."""
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
