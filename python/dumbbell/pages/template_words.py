"""How a page writes numbers."""

import math
from collections.abc import Callable
from typing import Any

from dumbbell.pages.values import PageError, Values
from dumbbell.words import capitalise, count_places, join_words

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def format_number(value: float, digits: int = 2) -> str:
    """Return a number with `digits` significant digits, or all that are before the point."""
    _require_finite(value)
    if value == 0:
        return "0"
    places = count_places(value, digits)
    return f"{value:,.{places}f}".replace(",", " ") if abs(value) >= 10_000 else f"{value:.{places}f}"


def format_fixed(value: float, places: int = 0) -> str:
    """Return a number with `places` digits behind the point; never "-0"."""
    _require_finite(value)
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def format_plain(value: float) -> str:
    """Return a setting as it was written: `5`, `2.5`."""
    _require_finite(value)
    return f"{value:.12g}"


def format_percent(value: float, places: int = 0) -> str:
    """Return a share as `88 %`."""
    return f"{format_fixed(100 * value, places)} %"


def format_upper_bound(value: Any, places: int = 0, scale: float = 1.0) -> str:
    """Return a bound from above, rounded up, of a number or of the largest of several, times `scale`."""
    return format_fixed(_round_outwards(scale * _find_ends(value)[1], places, math.ceil), places)


def format_lower_bound(value: Any, places: int = 0, scale: float = 1.0) -> str:
    """Return a bound from below, rounded down, of a number or of the smallest of several, times `scale`."""
    return format_fixed(_round_outwards(scale * _find_ends(value)[0], places, math.floor), places)


def format_percent_upper_bound(value: Any, places: int = 0) -> str:
    """Return `8 %`, a bound from above of a share or of the largest of several, rounded up."""
    return f"{format_upper_bound(value, places, 100)} %"


def format_percent_lower_bound(value: Any, places: int = 0) -> str:
    """Return `81 %`, a bound from below of a share or of the smallest of several, rounded down."""
    return f"{format_lower_bound(value, places, 100)} %"


def _round_outwards(value: float, places: int, round_: Callable[[float], int]) -> float:
    """Return a bound with `places` digits; what binary fractions lack does not move it."""
    _require_finite(value)
    scaled = value * 10**places
    near = round(scaled)
    bound = near if abs(scaled - near) < 1e-6 else round_(scaled)
    return bound / float(10**places)


def format_span(values: Any, places: int = 0, scale: float = 1.0) -> str:
    """Return `36 to 61` of smallest and largest, times `scale`; one number if both are written alike."""
    least, largest = (format_fixed(scale * one, places) for one in _find_ends(values))
    return least if least == largest else f"{least} to {largest}"


def format_bounds(values: Any, places: int = 0, scale: float = 1.0) -> str:
    """Return `36 to 61`, bounds of all values, times `scale`: the lower one rounded down, the upper one up."""
    return f"{format_lower_bound(values, places, scale)} to {format_upper_bound(values, places, scale)}"


def format_percent_bounds(values: Any, places: int = 0) -> str:
    """Return `36 to 61 %`, bounds of shares."""
    return f"{format_bounds(values, places, 100)} %"


def format_percents(values: Any, places: int = 0) -> str:
    """Return `36 to 61 %` of shares."""
    return f"{format_span(values, places, 100)} %"


def format_numbers(values: Any, digits: int = 2) -> str:
    """Return `0.4 to 3` of smallest and largest, each with `digits` significant digits."""
    least, largest = (format_number(one, digits) for one in _find_ends(values))
    return least if least == largest else f"{least} to {largest}"


def format_count(value: int) -> str:
    """Return a count as a word up to twelve."""
    if int(value) != value:
        raise PageError(f"{value} is not a count")
    return _WORDS[int(value)] if 0 <= value < len(_WORDS) else str(int(value))


def format_times(value: float, digits: int = 2) -> str:
    """Return `2.4 times`, or `twice` and `three times` where the number is that within one part in forty."""
    _require_finite(value)
    whole = round(value)
    if 2 <= whole <= 12 and abs(value / whole - 1) < 0.025:
        return "twice" if whole == 2 else f"{_WORDS[whole]} times"
    return f"{format_number(value, digits)} times"


def _find_ends(values: Any) -> tuple[float, float]:
    if isinstance(values, Values):
        return values.min, values.max
    if isinstance(values, int | float):
        return values, values
    found = list(values)
    if not found:
        raise PageError("a span of no values")
    return min(found), max(found)


def _require_finite(value: float) -> None:
    if value is None or not math.isfinite(value):
        raise PageError(f"{value} is not a number that a page can say")


# the words by which templates call them
ALL: dict[str, Callable[..., str]] = {
    "number": format_number,
    "fixed": format_fixed,
    "plain": format_plain,
    "percent": format_percent,
    "span": format_span,
    "percents": format_percents,
    "numbers": format_numbers,
    "count": format_count,
    "times": format_times,
    "listed": join_words,
    "capital": capitalise,
    "at_most": format_upper_bound,
    "at_least": format_lower_bound,
    "percent_at_most": format_percent_upper_bound,
    "percent_at_least": format_percent_lower_bound,
    "bounds": format_bounds,
    "percent_bounds": format_percent_bounds,
}
