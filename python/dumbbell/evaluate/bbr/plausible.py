"""Whether the times, RTTs and counts of a trace fit together and fit the path, so that no unit was misread.

A wrong unit is the most frequent error in foreign traces, and a judge would not notice: most limits of the cases are
counts and shares, or times in round trips.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dumbbell.errors import Implausible
from dumbbell.evaluate.bbr.lab import PathPoint
from dumbbell.evaluate.bbr.trace import Trace
from dumbbell.qlog import fields
from dumbbell.qlog.fields import PAYLOAD

# queues, delayed acknowledgements and few packets a round make a round trip longer than the base RTT, and no unit is
# wrong by less
_FACTOR = 3.0
# bursts make samples of the rate a few times as large as what is delivered over some round trips
_OF_RATE = 30.0
_ABOVE = 2.0  # of what the link carries: acknowledgements that were held report what was delivered before
_BELOW = 0.9  # of the base RTT: nothing is faster than light, and clocks are that exact
_LEAST_MS = 0.1  # of a clock, which counts for nothing below
_ROUNDS = 5  # that are enough for a median
_SEGMENTS = 10  # that are enough for a rate
_UNRELATED = "do the file, --rate and --rtt belong together?"
_UNITS = ((1e3, "us, read as ms", "ms, read as us"), (1e6, "us, read as s", "s, read as us"))

_Array = np.ndarray[Any, Any]


def check(path: Path, trace: Trace, point: PathPoint, falls: int) -> None:
    """Raise InputError, one line, if a trace cannot be one of this path. `falls`: times that lie before the last."""
    for key, found, hint in _find_faults(trace, point, falls):
        raise Implausible(found, hint, file=path, key=key)


def _find_faults(trace: Trace, point: PathPoint, falls: int) -> Iterator[tuple[str, str, str]]:
    """Yield what is not plausible: the key, what was found, and a hint."""
    if point.rtt <= 0:
        yield "rtt", "the base RTT is 0 ms", "the RTT of the path without queues, such as --rtt 40ms"
    if trace.is_without("state"):
        return  # no case is judged by it
    for name in ("round", "delivered", "sent"):
        back = int(np.count_nonzero(np.diff(trace[name]) < 0)) if trace.has(name) else 0
        if falls > 1 and back > 1:
            found = f"{fields.name(name)} falls {back} times, and {falls} times lie before the one in front of them"
            yield "time", found, "times that are differences need time_format delta in common_fields"
    least = _find_least_rtt(trace)
    # the clock first: it is compared with the RTTs of the same file
    with np.errstate(all="ignore"):
        lengths, rtts = _measure_rounds(trace, least if least is not None else 1e3 * point.round)
    rate = _measure_fastest_rate(trace)
    if len(lengths) >= _ROUNDS:
        ratio = float(np.median(lengths / rtts))
        if not 1 / _FACTOR <= ratio <= _FACTOR:
            length, rtt = _format_ms(float(np.median(lengths))), _format_ms(float(np.median(rtts)))
            found = f"a round trip takes {length} by the clock of the trace, at an RTT of {rtt}"
            yield "time", found, _make_hint(ratio, "times")
    elif rate and trace.has("max_bw_mbit"):
        slower = float(np.nanmax(trace["max_bw_mbit"]) / rate)
        if not 1 / _OF_RATE <= slower <= _OF_RATE:
            found = (
                f"what was delivered comes {slower:.3g} times as slowly by the clock of the trace as bbr_max_bw says"
            )
            yield "time", found, _make_hint(slower, "times")
    # over a tenth of the trace
    if rate is not None and rate > _ABOVE * point.goodput:
        found = f"{rate:.3g} Mbit/s of payload are delivered, and the link carries {point.goodput:.3g} Mbit/s"
        yield "rate", found, _UNRELATED
    if least is None:
        return
    base, most = 1e3 * point.rtt, 1e3 * _FACTOR * point.round
    if least < _BELOW * base - _LEAST_MS:
        found = f"min_rtt is {_format_ms(least)}, below the base RTT of {_format_ms(base)}"
        yield "min_rtt", found, _make_hint(least / base, "RTTs")
    if least > most:
        found = (
            f"min_rtt is {_format_ms(least)}, more than {_FACTOR:g} times what the path of {point} has without a queue"
        )
        yield "min_rtt", found, _make_hint(least / base, "RTTs")


def _find_least_rtt(trace: Trace) -> float | None:
    """Return the smallest RTT of a trace, ms."""
    found = [trace[name] for name in ("min_rtt_ms", "srtt_ms") if trace.has(name)]
    values = np.concatenate(found) if found else np.zeros(0)
    values = values[np.isfinite(values) & (values > 0)]
    return float(values.min()) if len(values) else None


def _measure_rounds(trace: Trace, rtt: float) -> tuple[_Array, _Array]:
    """Return how long rounds take by the clock, and the RTT when they end, ms: `rtt` if the trace does not say it.

    Rounds in which the application is the limit may wait for it, and PROBE_RTT and a restart for other things.
    """
    if not trace.has("round"):
        return np.zeros(0), np.zeros(0)
    starts = np.flatnonzero(np.diff(trace["round"]) == 1) + 1
    limited = trace["app_limited"] > 0 if trace.has("app_limited") else np.zeros(len(trace), dtype=bool)
    whole = [
        (first, end)
        for first, end in itertools.pairwise(starts)
        if trace["round"][end] == trace["round"][first] + 1 and not limited[first : end + 1].any()
    ]
    lengths = np.array([1e3 * (trace.time[end] - trace.time[first]) for first, end in whole])
    smoothed = trace["srtt_ms"][[end for _, end in whole]] if whole else np.zeros(0)
    return lengths, np.where(smoothed > 0, smoothed, rtt)


def _measure_fastest_rate(trace: Trace) -> float | None:
    """Return the rate at which the fastest tenth of all payload is delivered; None if the trace has too little.

    In other tenths the application may be the limit.
    """
    if not trace.has("delivered"):
        return None
    known = np.isfinite(trace["delivered"])
    delivered, times = trace["delivered"][known], trace.time[known]
    part = (delivered[-1] - delivered[0]) / 10
    if part < _SEGMENTS:
        return None
    ends = np.searchsorted(delivered, delivered + part)
    starts = np.flatnonzero(ends < len(delivered))
    seconds = times[ends[starts]] - times[starts]
    rates = (delivered[ends[starts]] - delivered[starts])[seconds > 0] / seconds[seconds > 0] * PAYLOAD * 8e-6
    return float(rates.max()) if len(rates) and rates.max() > 0 else None


def _make_hint(ratio: float, what: str) -> str:
    """Return what may be wrong with a file whose values are `ratio` times what they should be."""
    for factor, large, small in _UNITS:
        if factor / 10 < ratio < factor * 10:
            return f"{what} look like {large}"
        if factor / 10 < 1 / max(ratio, 1e-12) < factor * 10:
            return f"{what} look like {small}"
    return _UNRELATED


def _format_ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1e4 else f"{value / 1e3:.3g} s"
