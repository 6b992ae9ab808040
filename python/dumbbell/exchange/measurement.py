"""The measurements of a file of another tool, before they become tables: flows, their series, and the set-up.

Times are seconds from the start of the measurement, rates Mbit/s, RTTs ms. What a file does not say is missing: it is
never filled with a default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from dumbbell.errors import Unfit

Floats = npt.NDArray[np.float64]
Kind = Literal["flows", "udp", "ping"]
SAME_S = 2e-6  # times of the calendar, s since 1970, are known to a quarter of a microsecond
MOST_POINTS = 1_000_000  # of a series: a clock that is wrong would make one without end
_LEAST_SEGMENT, _MOST_SEGMENT = 48, 65_535  # of TCP: TCP_MIN_SND_MSS of Linux, and what 16 bits say
_LONGER_V6 = 20  # bytes of a header of IPv6 more than of IPv4
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448  # of a full segment with timestamps: Ethernet without FCS, and of it payload
LONGEST_S = 86_400.0  # of a run: experiment.duration is at most a day
SAMPLE_S = 0.2  # between samples of window and smoothed RTT, as engines take them
PERCENTILES = {"rtt_p50_ms": 50.0, "rtt_p95_ms": 95.0, "rtt_p99_ms": 99.0}


def compute_frame_ratio(segment: float, *, is_v6: bool) -> float:
    """Return bytes of frames for each byte of payload in full segments of TCP with timestamps, 12 bytes of options."""
    headers = FRAME_BYTES - PAYLOAD_BYTES + (_LONGER_V6 if is_v6 else 0)
    return (segment + headers) / segment if _LEAST_SEGMENT <= segment <= _MOST_SEGMENT else FRAME_BYTES / PAYLOAD_BYTES


def read_number(value: Any) -> float:
    """Return a number of a JSON file; NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:
        return math.nan


class Origin(Enum):
    """Where a proposed value is from."""

    FILE = "from the file"
    DERIVED = "derived"
    ASSUMED = "ASSUMED"


@dataclass(frozen=True)
class SetupFact:
    """A proposed value of the set-up, as an experiment file has it, and where it is from.

    `source` says where in the file it stands, how it was derived, or why it was assumed. `error` says how far a derived
    value may be from the true one.
    """

    text: str
    source: str
    origin: Origin = Origin.FILE
    error: str = ""

    @property
    def known(self) -> bool:
        """Whether the file says the value, or enough to derive it."""
        return self.origin is not Origin.ASSUMED

    @property
    def explanation(self) -> str:
        """Where the value is from, in words."""
        return f"{self.origin.value}: {self.source}{f'; {self.error}' if self.error else ''}"


def derive_fact(text: str, how: str, error: str) -> SetupFact:
    """Return a value that follows from what the file says, with its error."""
    return SetupFact(text, how, Origin.DERIVED, error)


def assume_fact(text: str, why: str) -> SetupFact:
    """Return a value that the file does not say."""
    return SetupFact(text, why, Origin.ASSUMED)


@dataclass
class ImportedFlow:
    """One flow of a file.

    `figures` are columns of table `flows`, `series` has `time_s` (ends of intervals) and columns of table `series`;
    `rtts_ms` are single samples of the RTT.
    """

    name: str
    kind: Kind = "flows"
    direction: str = "down"
    cc: SetupFact | None = None
    base_rtt: SetupFact | None = None
    start_s: float = 0.0
    end_s: float = 0.0
    figures: dict[str, float | int] = field(default_factory=dict)
    series: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={"time_s": pl.Float64}))
    rtts_ms: Floats | None = None
    rate: SetupFact | None = None
    """Of UDP: the rate at which it was sent."""
    size: SetupFact | None = None
    """Of UDP: bytes of a frame."""
    carried: pl.DataFrame | None = None
    """What of it passed the link, as frames: `time_s` and `mbit`, Mbit/s in the interval before."""
    answered: pl.DataFrame | None = None
    """The same of its acknowledgements or answers, which go the other way; None if the file does not say."""
    passed: tuple[float, float, float] | None = None
    """Bytes of frames that passed the link, and from when until when, s; None if the file does not say."""
    frames_per_payload: float = FRAME_BYTES / PAYLOAD_BYTES
    """Bytes of frames for each byte of payload."""
    is_received: bool = True
    """Whether its goodput is what arrived; false of what was given to a socket or put on the net."""
    is_given: bool = False
    """Whether its series are bytes that were given to a socket, which fill its buffer first."""
    lost: int = 0
    """Of UDP: packets that did not arrive."""
    queue_ms: float | None = None
    """Of data: by how much their one-way delay rose at most; None if only round trips are known."""
    queue_median_ms: float | None = None
    """The median of what their one-way delay rose by; None if only round trips are known."""
    queue_packets: int | None = None
    """How many packets of all flows were ahead of data that waited longest; None if that is not known."""
    echo: SetupFact | None = None
    """Of TCP: how the receiver tells of marks, if not as the control expects it."""
    gap_s: float | None = None
    """Of pings: the time from one to the next."""
    lasts: dict[str, SetupFact] | None = None
    """Keys `start` and `stop` as an experiment has them; where no experiment is known, None."""
    sends: SetupFact | None = None
    """Of TCP: what it sent, if it came to its end by itself."""
    ecn: SetupFact | None = None
    """Of TCP: whether it has ECN, if most flows of the file are otherwise."""
    ends: tuple[str, str] | None = None
    """Address and port of sender and receiver."""
    path: str = ""
    """What flows have in common that take one path, where their addresses are not known."""
    is_over: bool = False
    """Whether the flow came to its end within the measurement."""

    @property
    def goodput_mbit(self) -> float:
        """Its goodput; 0 where it is not known."""
        return float(self.figures.get("goodput_mbit", 0.0))

    @property
    def rtt_min_ms(self) -> float:
        """The smallest RTT that is known, smoothed or not; NaN if there is none."""
        known = [self.figures[name] for name in ("rtt_min_ms",) if name in self.figures]
        for name in {"srtt_ms", "rtt_ms"}.intersection(self.series.columns):
            known += [value for value in [self.series[name].min()] if isinstance(value, float)]
        return min(map(float, known), default=math.nan)


@dataclass
class Measurement:
    """The measurements of a file.

    `setup` has facts of the set-up by key (`bottleneck.rate`, `reverse.aqm`, `hosts.ecn` …), `queue` columns of table
    `queue_series`, `hops` those of `hop_series` by hop, `runs` those of table `runs`. `source` is said of the run as a
    whole: format, tool, time.
    """

    flows: list[ImportedFlow]
    duration_s: float
    interval_s: float
    title: str = ""
    setup: dict[str, SetupFact] = field(default_factory=dict)
    queue: pl.DataFrame | None = None
    hops: dict[str, pl.DataFrame] = field(default_factory=dict)
    runs: dict[str, float | int] = field(default_factory=dict)
    trains_mbit: dict[str, float] = field(default_factory=dict)
    """Of each direction the fastest trains of frames, behind the link: it may be as fast as that."""
    source: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    exact: dict[str, Any] | None = None
    """Of a file that dumbbell wrote: the run's configuration and its rows, as they were."""


def check_length(path: Path, duration_s: float) -> None:
    """Raise InputError for a measurement that lasts longer than any run: some of its times are of another clock."""
    if duration_s > LONGEST_S:
        raise Unfit(f"its times span {duration_s:.6g} s", f"a measurement of {LONGEST_S:.0f} s or less", file=path)


def choose_interval(duration_s: float, step_s: float) -> float:
    """Return the length of intervals: `step_s`, or more if a measurement would have more than a million of them."""
    return max(step_s, duration_s / MOST_POINTS)


def make_grid(duration_s: float, interval_s: float) -> Floats:
    """Return the ends of the intervals of a measurement; at least one."""
    count = max(1, math.floor(duration_s / interval_s + 1e-6))
    return np.arange(1, count + 1, dtype=np.float64) * interval_s


def compute_rates(ends: Floats, spans: Floats, values: Floats, points: Floats) -> Floats:
    """Return the mean rate in each interval that ends at one of `points`, of rates over `spans` that end at `ends`.

    An interval in which nothing was measured has NaN. All are 1-D; `points` are evenly spaced.
    """
    if not len(ends):
        return np.full(len(points), np.nan)
    order = np.argsort(ends, kind="stable")
    ends, spans, values = ends[order], spans[order], values[order]
    before = np.concatenate(([-np.inf], ends[:-1]))
    starts = np.maximum(ends - spans, before)
    total = np.concatenate(([0.0], np.cumsum(values * (ends - starts))))
    times = np.empty(2 * len(ends))
    amounts = np.empty(2 * len(ends))
    times[0::2], times[1::2] = starts, ends
    amounts[0::2], amounts[1::2] = total[:-1], total[1:]
    step = points[1] - points[0] if len(points) > 1 else points[0]
    lows, highs = points - step, points
    found: Floats = (np.interp(highs, times, amounts) - np.interp(lows, times, amounts)) / step
    found[(highs <= times[0] + 1e-9) | (lows >= times[-1] - 1e-9)] = np.nan
    return found


def hold_values(times: Floats, values: Floats, points: Floats) -> Floats:
    """Return the last value up to each of `points`; NaN before the first."""
    known = ~np.isnan(values)
    times, values = times[known], values[known]
    if not len(times):
        return np.full(len(points), np.nan)
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    place = np.searchsorted(times, points + SAME_S, side="right") - 1
    return np.where(place >= 0, values[np.maximum(place, 0)], np.nan)


def make_column(values: Floats, *, whole: bool = False) -> pl.Series:
    """Return values as a column: NaN is null; `whole` makes integers of them."""
    series = pl.Series(values, dtype=pl.Float64).fill_nan(None)
    return series.round(0).cast(pl.Int64, strict=False) if whole else series


def smooth_rtts(rtts_ms: Floats) -> Floats:
    """Return the smoothed RTT after each sample: RFC 6298, section 2, with alpha 1/8."""
    found = np.empty(len(rtts_ms))
    srtt = 0.0
    for place, sample in enumerate(rtts_ms.tolist()):
        srtt = sample if place == 0 else srtt + (sample - srtt) / 8
        found[place] = srtt
    return found


def summarise_samples(rtts_ms: Floats) -> dict[str, float | int]:
    """Return the columns that follow from single samples of the RTT: minimum and percentiles."""
    if not len(rtts_ms):
        return {}
    found: dict[str, float | int] = {"rtt_min_ms": float(rtts_ms.min())}
    at = np.percentile(rtts_ms, list(PERCENTILES.values()), method="inverted_cdf")
    return found | dict(zip(PERCENTILES, map(float, at), strict=True))


def summarise_smoothed(times: Floats, srtts_ms: Floats, end_s: float) -> dict[str, float | int]:
    """Return mean and maximum of the smoothed RTT, sampled every 200 ms as engines do it."""
    return _summarise_sampled(times, srtts_ms, end_s, "rtt_mean_ms", "rtt_max_ms")


def summarise_window(times: Floats, segments: Floats, end_s: float) -> dict[str, float | int]:
    """Return mean and maximum of the congestion window, sampled every 200 ms."""
    found = _summarise_sampled(times, segments, end_s, "cwnd_mean", "cwnd_max")
    return found | ({"cwnd_max": round(found["cwnd_max"])} if found else {})


def _summarise_sampled(times: Floats, values: Floats, end_s: float, mean: str, most: str) -> dict[str, float | int]:
    known = ~np.isnan(values)
    if not known.any():
        return {}
    first = float(times[known].min())
    step = choose_interval(max(end_s - first, 0.0), SAMPLE_S)  # at its multiples, as series have their points
    points = np.arange(math.ceil(first / step - 1e-6), math.floor(end_s / step + 1e-6) + 1) * step
    at = hold_values(times, values, np.append(points, max(first, end_s)))
    return {mean: float(np.nanmean(at)), most: float(np.nanmax(at))}
