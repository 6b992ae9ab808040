"""Quantiles of Student's t, which every table of means needs, without the import of scipy, a quarter of a second.

Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4, solved for the angle by Newton's method
within a bracket.
"""

import math
from functools import cache

_MOST = 10_000  # degrees of freedom up to which the sum is quicker than an import


@cache
def quantile(freedom: float, level: float) -> float:
    """Return t with |T| < t of probability `level`, for `freedom` > 0 degrees of freedom."""
    whole = int(freedom) if 1 <= freedom <= _MOST else 0
    if whole != freedom:  # the sums are of whole numbers
        from scipy.special import stdtrit

        return float(stdtrit(freedom, 0.5 + level / 2))
    low, high = 0.0, math.pi / 2
    angle = high * level
    for _ in range(100):
        within, slope = _within(whole, angle)
        if within < level:
            low = angle
        else:
            high = angle
        following = angle - (within - level) / slope if slope else high
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - angle) <= 1e-15 * angle:
            break
        angle = following
    return math.tan(angle) * math.sqrt(whole)


def _within(freedom: int, angle: float) -> tuple[float, float]:
    """Return the probability of |T| < √freedom · tan(angle), and its derivative by the angle."""
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2
    found, term = 0.0, cosine if is_odd else 1.0
    for n in range(2 if is_odd else 1, freedom, 2):
        found += term
        term *= n / (n + 1) * cosine * cosine
    slope = term * freedom / cosine  # all terms of the derivative but the last cancel out
    return (2 / math.pi * (angle + sine * found), 2 / math.pi * slope) if is_odd else (sine * found, slope)
