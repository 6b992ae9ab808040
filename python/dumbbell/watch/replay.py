"""A run cut into intervals: what each link and each flow did in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dumbbell.errors import Nothing
from dumbbell.explain.facts.base import Fact, Rank
from dumbbell.explain.facts.queues import Peak, RateChange, StartPeak
from dumbbell.explain.facts.senders import ProbeRtt, SlowStartsLeft
from dumbbell.explain.observed import Observed

Array = np.ndarray[Any, np.dtype[np.float64]]

FRAMES, LINES = 300, 60  # into which a run is cut if nobody says: on a terminal, and for lines
_NICE_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000)
_UNSET_SSTHRESH = 1 << 30
_MACHINE = {"recovery": "recovery", "cwr": "CWR", "loss": "after timeout"}


@dataclass(frozen=True)
class LinkReplay:
    """A link and its queue; arrays have a value per interval.

    `sojourn_ms` is the mean time in queue, NaN where nothing left it; `queued` counts the packets in the queue at the
    end of the interval.
    """

    name: str
    rate_mbit: Array
    capacity_mbit: Array
    sojourn_ms: Array
    queued: Array
    marks: Array
    drops: Array


@dataclass(frozen=True)
class FlowReplay:
    """A flow; arrays have a value per interval. Those of a sender are NaN where it has none, or none yet.

    `cwnd`, in segments, `rtt_ms` and `state` are those at the end of the interval.
    """

    name: str
    rate_mbit: Array
    cwnd: Array
    rtt_ms: Array
    retransmissions: Array
    state: list[str]


@dataclass(frozen=True)
class Replay:
    """A run in intervals of `interval_s`, whose ends are `times`; `events` are sentences of `dumbbell explain`."""

    title: str
    duration_s: float
    interval_s: float
    times: Array
    links: list[LinkReplay]
    flows: list[FlowReplay]
    events: list[tuple[float, str]]
    notes: list[str]

    def __len__(self) -> int:
        return len(self.times)

    def find_interval(self, time: float) -> int:
        """Return the interval that a time lies in, -1 before the first has ended."""
        return min(len(self) - 1, math.floor(time / self.interval_s + 1e-6) - 1)


def choose_interval(run: Observed, duration_s: float, frames: int) -> float:
    """Return the length of intervals if nobody says, s: about `frames` of them in a run, or that of its series."""
    least = max(duration_s / frames, run.interval_s)
    return next((ms / 1e3 for ms in _NICE_MS if ms / 1e3 >= least - 1e-9), least)


def make_replay(run: Observed, events: list[Fact], interval_s: float) -> Replay:
    """Return a run in intervals of about this length; raises InputError if it has no time series."""
    if not run.has_series:
        raise Nothing("the run kept no time series", "record.series = true", file=run.experiment, key="record.series")
    length = max(interval_s, run.interval_s)
    # whole intervals of the series
    length = round(length / run.interval_s) * run.interval_s
    count = max(1, math.ceil(run.duration_s / length - 1e-9))
    times = np.minimum(np.arange(1, count + 1) * length, run.duration_s)
    bins = _Bins(times, length)
    links = [_link(name if len(run.hops) > 1 else "link", rows, bins) for name, rows in _select_busy_hops(run).items()]
    flows = _replay_flows(run, bins)
    sentences = [_describe_event(one) for one in events if one.rank is Rank.EVENT and not isinstance(one, Peak)]
    keys = "".join(f", {key} = {value}" for key, value in run.matrix.items())
    title = f"{run.experiment}{keys}, seed {run.seed}"
    return Replay(title, run.duration_s, length, times, links, flows, sorted(sentences), list(run.notes))


def _describe_event(fact: Fact) -> tuple[float, str]:
    """Return what there is to say of an event while it goes on, and from when on it is known."""
    if isinstance(fact, StartPeak | SlowStartsLeft):
        return fact.until_s, fact.sentence
    if isinstance(fact, ProbeRtt):
        return fact.when if fact.until_s is None else fact.until_s, fact.sentence
    if isinstance(fact, RateChange):
        return fact.at_s, f"{fact.sentence.split('. ')[0].rstrip('.')}."
    return fact.when, fact.sentence


def _select_busy_hops(run: Observed) -> dict[str, pl.DataFrame]:
    """Return the hops that anything passes; all if nothing does."""
    hops = run.hops
    return {name: rows for name, rows in hops.items() if (rows["throughput_mbit"] > 0).any()} or hops


class _Bins:
    """Intervals with these ends, and what rows at points of time come to in each."""

    def __init__(self, ends: Array, length: float) -> None:
        self.ends, self.length = ends, length

    def _find_bins(self, time: Array) -> np.ndarray[Any, np.dtype[np.int64]]:
        found = np.ceil(time / self.length - 1e-6).astype(np.int64) - 1
        return np.clip(found, 0, len(self.ends) - 1)

    def compute_sums(self, time: Array, values: Array) -> Array:
        """Return sums."""
        return np.bincount(self._find_bins(time), weights=values, minlength=len(self.ends)).astype(np.float64)

    def compute_means(self, time: Array, values: Array, weights: Array | None = None) -> Array:
        """Return means, NaN where there is no weight."""
        weight = np.ones_like(values) if weights is None else weights
        total = self.compute_sums(time, weight)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total > 0, self.compute_sums(time, values * weight) / total, np.nan)

    def find_last(self, time: Array, values: Array) -> Array:
        """Return the last value at or before the end of each; NaN before the first."""
        place = np.searchsorted(time, self.ends + 1e-9, side="right") - 1
        found = values[np.maximum(place, 0)].astype(np.float64) if len(values) else np.full(len(self.ends), np.nan)
        return np.where(place >= 0, found, np.nan)


def _get_numbers(rows: pl.DataFrame, name: str) -> Array:
    if name not in rows.columns:
        return np.full(rows.height, np.nan)
    return rows[name].cast(pl.Float64).to_numpy()


def _link(name: str, rows: pl.DataFrame, bins: _Bins) -> LinkReplay:
    time, rate = _get_numbers(rows, "time_s"), _get_numbers(rows, "throughput_mbit")
    return LinkReplay(
        name,
        bins.compute_means(time, rate),
        bins.compute_means(time, _get_numbers(rows, "capacity_mbit")),
        bins.compute_means(time, _get_numbers(rows, "sojourn_mean_ms"), rate),
        bins.find_last(time, _get_numbers(rows, "backlog_packets")),
        bins.compute_sums(time, _get_numbers(rows, "ce_marks") + _get_numbers(rows, "sce_marks")),
        bins.compute_sums(time, _get_numbers(rows, "drops")),
    )


def _replay_flows(run: Observed, bins: _Bins) -> list[FlowReplay]:
    series, trace = run.find_table("series"), run.find_table("trace")
    found = []
    for flow, (name, group) in enumerate(run.members):
        own = series.filter(pl.col("flow") == flow)
        time = _get_numbers(own, "time_s")
        if not own.height:
            continue
        cwnd, rtt = _get_numbers(own, "cwnd"), _get_numbers(own, "srtt_ms")
        begun = rtt > 0
        found.append(
            FlowReplay(
                name,
                bins.compute_means(time, _get_numbers(own, "goodput_mbit")),
                bins.find_last(time, np.where(begun, cwnd, np.nan)),
                bins.find_last(time, np.where(begun, rtt, np.nan)),
                bins.compute_sums(time, np.nan_to_num(_get_numbers(own, "retransmissions"))),
                [""] * len(bins.ends)
                if "control" in group.get("cc", {})  # a stack tells no states
                else _replay_states(own, trace.filter(pl.col("flow") == flow) if trace.height else trace, bins),
            )
        )
    return found


def _replay_states(series: pl.DataFrame, trace: pl.DataFrame, bins: _Bins) -> list[str]:
    """Return the state of a sender at the end of each interval: BBR's, or that of loss recovery, or of its window."""
    time = _get_numbers(series, "time_s")
    cwnd, ssthresh = (bins.find_last(time, _get_numbers(series, name)) for name in ("cwnd", "ssthresh"))
    rtt = bins.find_last(time, _get_numbers(series, "srtt_ms"))
    place = np.full(len(bins.ends), -1)
    if trace.height:
        place = np.searchsorted(trace["time_s"].to_numpy(), bins.ends + 1e-9, side="right") - 1
        models, machines = trace["state"].to_list(), trace["ca_state"].to_list()
    found = []
    for n, at in enumerate(place):
        if not rtt[n] > 0:
            found.append("")
        elif at >= 0 and models[at]:
            found.append(models[at].upper())
        elif at >= 0 and machines[at] in _MACHINE:
            found.append(_MACHINE[machines[at]])
        elif np.isnan(ssthresh[n]):
            found.append("")
        else:
            slow = cwnd[n] < ssthresh[n] or ssthresh[n] >= _UNSET_SSTHRESH
            found.append("slow start" if slow else "avoidance")
    return found
