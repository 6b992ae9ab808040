"""How a page writes numbers."""

import math
from typing import Any

from dumbbell.pages.values import PageError, Values

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def number(value: float, digits: int = 2) -> str:
    """Return a number with `digits` significant digits, or all that are before the point."""
    _finite(value)
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}")))))
    return f"{value:,.{places}f}".replace(",", " ") if abs(value) >= 10_000 else f"{value:.{places}f}"


def fixed(value: float, places: int = 0) -> str:
    """Return a number with `places` digits behind the point; never "-0"."""
    _finite(value)
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def plain(value: float) -> str:
    """Return a setting as it was written: `5`, `2.5`."""
    _finite(value)
    return f"{value:.12g}"


def percent(value: float, places: int = 0) -> str:
    """Return a share as `88 %`."""
    return f"{fixed(100 * value, places)} %"


def span(values: Any, places: int = 0, scale: float = 1.0) -> str:
    """Return `36 to 61` of smallest and largest, times `scale`; one number if both are written alike."""
    least, largest = (fixed(scale * one, places) for one in _ends(values))
    return least if least == largest else f"{least} to {largest}"


def percents(values: Any, places: int = 0) -> str:
    """Return `36 to 61 %` of shares."""
    return f"{span(values, places, 100)} %"


def numbers(values: Any, digits: int = 2) -> str:
    """Return `0.4 to 3` of smallest and largest, each with `digits` significant digits."""
    least, largest = (number(one, digits) for one in _ends(values))
    return least if least == largest else f"{least} to {largest}"


def count(value: int) -> str:
    """Return a count as a word up to twelve."""
    if int(value) != value:
        raise PageError(f"{value} is not a count")
    return _WORDS[int(value)] if 0 <= value < len(_WORDS) else str(int(value))


def times(value: float, digits: int = 2) -> str:
    """Return `2.4 times`, or `twice` and `three times` where the number is that within one part in forty."""
    _finite(value)
    whole = round(value)
    if 2 <= whole <= 12 and abs(value / whole - 1) < 0.025:
        return "twice" if whole == 2 else f"{_WORDS[whole]} times"
    return f"{number(value, digits)} times"


def listed(values: Any) -> str:
    """Return `a, b and c`."""
    words = [str(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def capital(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def _ends(values: Any) -> tuple[float, float]:
    if isinstance(values, Values):
        return values.min, values.max
    found = list(values)
    if not found:
        raise PageError("a span of no values")
    return min(found), max(found)


def _finite(value: float) -> None:
    if value is None or not math.isfinite(value):
        raise PageError(f"{value} is not a number that a page can say")


ALL = {
    function.__name__: function
    for function in (number, fixed, plain, percent, span, percents, numbers, count, times, listed, capital)
}
