"""The measurements of runs, as judges use them: flows with their deliveries over time, and the bottleneck."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dumbbell.results.aggregate import LEVEL
from dumbbell.results.student import compute_t_quantile

_Array = np.ndarray[Any, Any]
_NONE = np.zeros(0)
WITHIN = "the limit lies within the interval"  # of a mean: more seeds may tell


@dataclass(frozen=True)
class StackFlow:
    """A flow of a run. Rates are Mbit/s, times seconds. `times` are ends of intervals, `rates` the goodput in them.

    `lost` are its packets that the queue dropped or the path lost, `believed` those that the stack says it took for
    lost: NaN if it does not say it.
    """

    goodput: float
    rtt_p50: float = math.nan
    rtt_p95: float = math.nan
    base_rtt: float = 0.0
    start: float = 0.0
    sent: float = 0.0
    lost: float = 0.0
    believed: float = math.nan
    completion: float = math.nan
    closed: str = ""
    closed_after: float = math.nan
    times: _Array = field(default_factory=lambda: _NONE, compare=False, repr=False)
    rates: _Array = field(default_factory=lambda: _NONE, compare=False, repr=False)

    @property
    def lost_share(self) -> float:
        """Packets that were lost, of those that it sent."""
        return self.lost / self.sent if self.sent else 0.0

    def find_longest_gap(self, since: float, outages: Sequence[tuple[float, float]] = ()) -> float:
        """Return the longest time without delivery after `since`, for how much of it no outage accounts.

        A sender that probes at doubling distances may miss the end of an outage by as much as it has lasted (RFC 9002,
        section 6.2), so that this much of the time behind an outage counts as part of it.
        """
        excused = [(start, end + (end - start)) for start, end in outages]
        longest, begun = 0.0, None
        before = since
        for time, rate in zip(self.times.tolist(), self.rates.tolist(), strict=True):
            if time <= since:
                continue
            if rate > 0:
                begun = None
            elif begun is None:
                begun = before
            if begun is not None:
                longest = max(longest, _measure_outside(begun, time, excused))
            before = time
        return longest


def _measure_outside(start: float, end: float, excused: Sequence[tuple[float, float]]) -> float:
    """Return how long a time is without its parts that are excused; those do not overlap."""
    within = sum(max(0.0, min(end, until) - max(start, since)) for since, until in excused)
    return end - start - within


@dataclass(frozen=True)
class LinkSeries:
    """The bottleneck over time: ends of intervals, what left the link in them (Mbit/s) and the time in queue (ms)."""

    times: _Array = field(default_factory=lambda: _NONE)
    rates: _Array = field(default_factory=lambda: _NONE)
    sojourns: _Array = field(default_factory=lambda: _NONE)

    def select_intervals(self, start: float, end: float) -> slice:
        """Return the intervals that lie between two times."""
        first = int(np.searchsorted(self.times, start + 1e-9, side="right"))
        return slice(first, int(np.searchsorted(self.times, end + 1e-9, side="right")))


@dataclass(frozen=True)
class StackRun:
    """A run of one seed."""

    seed: int
    flows: tuple[StackFlow, ...]
    link: LinkSeries = field(default_factory=LinkSeries, compare=False, repr=False)
    hash: str = ""
    seconds: float = field(default=0.0, compare=False)  # of real time that it took


@dataclass(frozen=True)
class Outcome:
    """The runs of a scene, or why one of them failed."""

    runs: tuple[StackRun, ...] = ()
    error: str = ""

    def explain_close(self, flows: Sequence[int]) -> str:
        """Return why a connection of these flows was closed before its end, and when; empty if none was."""
        found = [one.flows[number] for one in self.runs for number in flows if one.flows[number].closed]
        if not found:
            return ""
        first = min(found, key=lambda one: one.closed_after)
        return f"closed after {first.closed_after:.3g} s: {first.closed}"

    def list_reasons(self, flows: Sequence[int]) -> list[str]:
        """Return the words with which connections of these flows were closed."""
        return sorted({one.flows[number].closed for one in self.runs for number in flows} - {""})

    def sum_up(self, flows: Sequence[int], of: Callable[[StackFlow], float]) -> float:
        """Return the sum of a figure over flows and seeds."""
        return sum(of(one.flows[number]) for one in self.runs for number in flows)

    def list_values(self, number: int, of: Callable[[StackFlow], float]) -> list[float]:
        """Return a figure of a flow, for each seed."""
        return [of(one.flows[number]) for one in self.runs]

    def compute_mean(self, number: int, of: Callable[[StackFlow], float]) -> float:
        """Return the mean of a figure of a flow."""
        found = self.list_values(number, of)
        return sum(found) / len(found) if found else math.nan

    def estimate_mean(self, number: int, of: Callable[[StackFlow], float]) -> tuple[float, float]:
        """Return the mean of a figure of a flow and half of its interval (95 %, Student's t) over seeds.

        Infinity if a seed has no figure; without spread, or from one seed, the interval has no width.
        """
        found = [math.inf if math.isnan(one) else one for one in self.list_values(number, of)]
        mean = sum(found) / len(found) if found else math.inf
        if len(found) < 2 or math.isinf(mean) or max(found) == min(found):
            return mean, 0.0
        spread = math.sqrt(sum((one - mean) ** 2 for one in found) / (len(found) - 1))
        return mean, compute_t_quantile(len(found) - 1, LEVEL) * spread / math.sqrt(len(found))

    def find_worst(self, number: int, of: Callable[[StackFlow], float]) -> float:
        """Return the largest figure of a flow; infinity if a seed has none."""
        return max((math.inf if math.isnan(one) else one for one in self.list_values(number, of)), default=math.inf)


def make_runs(tables: Mapping[str, Any], rough: Mapping[str, Sequence[bool]]) -> dict[str, StackRun]:
    """Return the runs of frames `runs`, `flows`, `series` and `queue_series`, by key.

    `rough` says of each flow of a run whether its data pass stages that may lose them.
    """
    series: dict[tuple[str, int], tuple[_Array, _Array]] = {}
    for (key, flow), part in tables["series"].group_by("key", "flow", maintain_order=True):
        series[key, flow] = (part["time_s"].to_numpy(), part["goodput_mbit"].to_numpy())
    links: dict[str, LinkSeries] = {}
    for (key,), part in tables["queue_series"].group_by("key", maintain_order=True):
        names = ("time_s", "throughput_mbit", "sojourn_mean_ms")
        links[key] = LinkSeries(*(part[name].cast(float).to_numpy() for name in names))
    flows: dict[str, list[StackFlow]] = {}
    for row in tables["flows"].sort("key", "flow").iter_rows(named=True):
        times, rates = series.get((row["key"], row["flow"]), (_NONE, _NONE))
        may_lose = rough[row["key"]][row["flow"]]
        flows.setdefault(row["key"], []).append(_make_flow(row, times, rates, may_lose=may_lose))
    return {
        row["key"]: StackRun(
            row["seed"],
            tuple(flows[row["key"]]),
            links.get(row["key"], LinkSeries()),
            str(row["hash"]),
            float(row["wall_s"] or 0.0),
        )
        for row in tables["runs"].iter_rows(named=True)
    }


def _make_flow(row: Mapping[str, Any], times: _Array, rates: _Array, *, may_lose: bool) -> StackFlow:
    def get_number(name: str) -> float:
        return math.nan if row[name] is None else float(row[name])

    return StackFlow(
        goodput=get_number("goodput_mbit"),
        rtt_p50=get_number("rtt_p50_ms") / 1e3,
        rtt_p95=get_number("rtt_p95_ms") / 1e3,
        base_rtt=get_number("base_rtt_ms") / 1e3,
        start=get_number("start_s"),
        sent=get_number("sent"),
        # what left neither the queue nor was dropped by it was lost ahead of it
        lost=max(get_number("drops"), get_number("sent") - get_number("packets")) if may_lose else get_number("drops"),
        believed=get_number("retransmissions"),
        completion=get_number("completion_s"),
        closed=row["closed"] or "",
        closed_after=get_number("closed_s"),
        times=times,
        rates=rates,
    )
