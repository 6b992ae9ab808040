"""Student's t without scipy: quantiles, which every table of means needs, and probabilities of tails.

Abramowitz and Stegun, Handbook of Mathematical Functions. Whole degrees of freedom: 26.7.3 and 26.7.4, solved for the
angle by Newton's method within a bracket. Others: 26.7.1 with the continued fraction 26.5.8 of the incomplete beta
function; their quantiles are smooth in 1/freedom and interpolated between Chebyshev's nodes.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[np.float64]]

_MOST = 10_000  # degrees of freedom up to which the sum is used
_NODES = 32
_LARGE = 50.0  # from here on the quotient of two gamma functions is a series
_TERMS = 5000  # of the continued fraction, which takes about √freedom of them


@cache
def compute_t_quantile(freedom: float, level: float) -> float:
    """Return t with |T| < t of probability `level`, for `freedom` of at least 1; NaN for less."""
    whole = int(freedom) if 1 <= freedom <= _MOST else 0
    if whole != freedom:  # the sums are of whole numbers
        return _interpolate(2 / freedom - 1, level) if freedom >= 1 else math.nan
    low, high = 0.0, math.pi / 2
    angle = high * level
    for _ in range(100):
        within, slope = _compute_probability(whole, angle)
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


def _compute_probability(freedom: int, angle: float) -> tuple[float, float]:
    """Return the probability of |T| < √freedom · tan(angle), and its derivative by the angle."""
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2
    found, term = 0.0, cosine if is_odd else 1.0
    for n in range(2 if is_odd else 1, freedom, 2):
        found += term
        term *= n / (n + 1) * cosine * cosine
    slope = term * freedom / cosine  # all terms of the derivative but the last cancel out
    return (2 / math.pi * (angle + sine * found), 2 / math.pi * slope) if is_odd else (sine * found, slope)


def _interpolate(place: float, level: float) -> float:
    """Return the quantile at a place from -1 (no end of freedom) to 1 (one degree), by Clenshaw's recurrence."""
    first, second = 0.0, 0.0
    coefficients = _compute_coefficients(level)
    for one in reversed(coefficients[1:]):
        first, second = one + 2 * place * first - second, first
    return math.exp(coefficients[0] / 2 + place * first - second)


@cache
def _compute_coefficients(level: float) -> list[float]:
    """Return the Chebyshev series of the logarithm of the quantile over 2/freedom - 1."""
    import numpy as np

    angles = np.pi * (np.arange(_NODES) + 0.5) / _NODES
    freedom = 2 / (1 + np.cos(angles))
    low, high, middle = np.zeros(_NODES), np.full(_NODES, np.pi / 2), np.zeros(_NODES)
    error = slope = middle
    quotient = _compute_gamma_quotient(freedom / 2)
    for step in range(30):  # halve the bracket, then Newton's method
        middle = (low + high) / 2 if step < 26 else middle + error / slope
        error = compute_tails(freedom, np.sqrt(freedom) * np.tan(middle)) - (1 - level)
        slope = 2 / math.sqrt(math.pi) * quotient * np.cos(middle) ** (freedom - 1)
        low, high = np.where(error > 0, middle, low), np.where(error > 0, high, middle)
    logarithms = np.log(np.sqrt(freedom) * np.tan(middle))
    return [float(2 / _NODES * (logarithms * np.cos(order * angles)).sum()) for order in range(_NODES)]


def compute_tails(freedom: Numbers | float, t: Numbers | float) -> Numbers:
    """Return the probability of |T| > |t| for each pair of two arrays, or of two numbers; NaN where either is NaN."""
    import numpy as np

    freedom, t = np.broadcast_arrays(np.asarray(freedom, dtype=float), np.asarray(t, dtype=float))
    with np.errstate(all="ignore"):
        square = np.minimum(np.abs(t), 1e150) ** 2 / freedom
        x, rest = 1 / (1 + square), square / (1 + square)
        first, second = freedom / 2, np.full(freedom.shape, 0.5)
        front = _compute_gamma_quotient(first) / math.sqrt(math.pi) * np.exp(-first * np.log1p(square)) * np.sqrt(rest)
        direct = x < (first + 1) / (first + 2.5)  # where the fraction of the other end converges faster
        a, b = np.where(direct, first, second), np.where(direct, second, first)
        found = front * _compute_fraction(a, b, np.where(direct, x, rest)) / a
        return np.where(direct, found, 1 - found)


def _compute_gamma_quotient(a: Numbers) -> Numbers:
    """Return Γ(a + 1/2) / Γ(a); for large a by the asymptotic series, without differences of large logarithms."""
    import numpy as np

    small = np.minimum(a, _LARGE)
    exact = np.array(
        [math.exp(math.lgamma(one + 0.5) - math.lgamma(one)) if one > 0 else math.nan for one in small.flat]
    )
    over = 1 / np.maximum(a, _LARGE)
    series = 1 + over * (-1 / 8 + over * (1 / 128 + over * (5 / 1024 + over * (-21 / 32768 - over * 399 / 262144))))
    return np.where(a > _LARGE, np.sqrt(a) * series, exact.reshape(a.shape))


def _compute_fraction(a: Numbers, b: Numbers, x: Numbers) -> Numbers:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    import numpy as np

    tiny = 1e-300
    c = np.ones(x.shape)
    d = 1 - (a + b) * x / (a + 1)
    d = 1 / np.where(d == 0, tiny, d)
    found = d.copy()
    for m in range(1, _TERMS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 + numerator * d, 1 + numerator / c
            d, c = 1 / np.where(d == 0, tiny, d), np.where(c == 0, tiny, c)
            found = found * (d * c)
        if not (np.abs(d * c - 1) > 5e-16).any():
            break
    return found
