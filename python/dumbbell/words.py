"""How numbers and lists stand in sentences."""

import math
from collections.abc import Iterable


def join_words(words: Iterable[object], last: str = "and") -> str:
    """Return `a, b and c`."""
    *others, end = list(map(str, words)) or [""]
    return f"{', '.join(others)} {last} {end}" if others else end


def count_places(value: float, digits: int) -> int:
    """Return how many digits after the point a number has if `digits` of it are significant."""
    if value == 0:
        return 0
    return max(0, digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}")))))


def trim_zeros(value: float, places: int) -> str:
    """Return a number with at most so many digits after the point."""
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_number(value: float, digits: int = 3) -> str:
    """Return a number with about `digits` significant digits, and all digits before the point."""
    if not math.isfinite(value):
        return "an unknown number of"
    if value == 0:
        return "0"
    places = count_places(value, digits)
    return trim_zeros(value, places) if places else format_whole(round(value))


def format_measured(value: float, digits: int = 3) -> str:
    """Return a number, `-` for one that is missing."""
    return "-" if math.isnan(value) else format_number(value, digits)


def format_whole(value: int) -> str:
    """Return a whole number, with thousands apart if it has more than four digits."""
    return f"{value:,}".replace(",", " ") if abs(value) >= 10_000 else str(value)


def format_duration(value: float) -> str:
    """Return a length of time."""
    return f"{format_number(1e3 * value)} ms" if value < 1 else f"{format_number(value)} s"


def format_rate(mbit: float) -> str:
    """Return a rate in the unit that suits it."""
    if mbit >= 1000:
        return f"{format_number(mbit / 1000)} Gbit/s"
    return f"{format_number(mbit)} Mbit/s" if mbit >= 0.1 else f"{format_number(1000 * mbit)} kbit/s"


def format_percent(share: float) -> str:
    """Return a share, 0 to 1, as a percentage; small ones with more digits."""
    value = 100 * share
    if value >= 99.95 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 1 else f"{format_number(value, 2)} %"


def capitalise(text: str) -> str:
    """Return a sentence that begins with a capital letter, unless it begins with a name such as `mine@39b57e`."""
    first = text.partition(" ")[0].removesuffix("'s").rstrip(",;:").replace("-", "")
    return text[:1].upper() + text[1:] if first.isalpha() else text


def format_count(number: int, one: str, many: str = "") -> str:
    """Return `1 packet`, `2 packets`."""
    return f"{format_whole(number)} {one if number == 1 else many or f'{one}s'}"


def format_times(value: int) -> str:
    """Return how often: once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(value, f"{format_whole(value)} times")


def format_work_time(seconds: float, digits: int = 3) -> str:
    """Return how long work takes, in the unit that suits it: `35 s`, `12 min`, `3.4 h`."""
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{format_number(seconds / size, digits)} {unit}"
    return f"{format_number(seconds, digits)} s"
