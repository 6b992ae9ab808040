"""Features that agents observe, which are computed from their monitor intervals, with bounds and sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dumbbell.errors import UnknownName
from dumbbell.gym.intervals import MonitorIntervals, divide, fill_gaps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_AURORA = "Jay et al., ICML 2019; bounds: PCC-RL, sender_obs.py"
_ORCA = "Abbasloo et al., SIGCOMM 2020; Orca, envwrapper.py"
SLACK = 1.25  # of an RTT over the smallest one: delay_margin_coef of Orca, params.json


@dataclass(frozen=True)
class Feature:
    """A number that agents observe, within bounds; `neutral` stands where nothing was measured."""

    name: str
    low: float
    high: float
    neutral: float
    compute: Callable[[MonitorIntervals], Floats]
    doc: str
    source: str = ""


def compute_latency_gradient(intervals: MonitorIntervals) -> Floats:
    """Return the change of the mean RTT since the interval before, seconds per second."""
    change = intervals["rtt_mean_ms"] - intervals.get_previous("rtt_mean_ms")
    return divide(change, intervals["elapsed_ms"])


def compute_latency_ratio(intervals: MonitorIntervals) -> Floats:
    """Return the mean RTT over the least mean RTT of an interval of the episode."""
    return divide(intervals["rtt_mean_ms"], intervals.get_least("rtt_mean_ms"))


def compute_send_ratio(intervals: MonitorIntervals) -> Floats:
    """Return the rate of the segments sent over that of the segments delivered."""
    return divide(intervals["sending_rate_mbit"], intervals["delivery_rate_mbit"])


def compute_lost_rate(intervals: MonitorIntervals) -> Floats:
    """Return the rate of the segments lost, Mbit/s: if none was delivered, that of the segments sent."""
    delivered, loss = intervals["delivery_rate_mbit"], fill_gaps(intervals["loss"])
    return np.where(loss < 1, delivered * divide(loss, 1 - loss), intervals["sending_rate_mbit"])


def compute_delay_slack(intervals: MonitorIntervals) -> Floats:
    """Return the smallest RTT with slack over the smoothed RTT, at most 1."""
    return np.minimum(1, SLACK * divide(intervals["min_rtt_ms"], intervals["srtt_ms"]))


def _share_most(name: str) -> Callable[[MonitorIntervals], Floats]:
    return lambda intervals: divide(intervals[name], intervals.get_most("delivery_rate_mbit"))


def _read_column(name: str) -> Callable[[MonitorIntervals], Floats]:
    return lambda intervals: intervals[name]


_ALL = (
    Feature(
        "latency_gradient",
        *(-1, 10, 0),
        compute_latency_gradient,
        "Change of the mean RTT since the interval before, seconds per second.",
        f"{_AURORA}, which compares the halves of one interval",
    ),
    Feature(
        "latency_ratio",
        *(1, 10_000, 1),
        compute_latency_ratio,
        "Mean RTT over the least mean RTT of an interval of the episode.",
        _AURORA,
    ),
    Feature(
        "send_ratio",
        *(0, 1000, 1),
        compute_send_ratio,
        "Rate of the segments sent over that of those delivered.",
        _AURORA,
    ),
    Feature(
        "rate_share",
        *(0, 1, 0),
        _share_most("delivery_rate_mbit"),
        "Delivery rate over the largest one of the episode.",
        _ORCA,
    ),
    Feature(
        "pacing_share",
        *(0, 10, 0),
        _share_most("pacing_rate_mbit"),
        "Pacing rate over the largest delivery rate of the episode.",
        _ORCA,
    ),
    Feature(
        "loss_share",
        *(0, 10, 0),
        lambda intervals: 5 * divide(compute_lost_rate(intervals), intervals.get_most("delivery_rate_mbit")),
        "Five times the rate of lost segments over the largest delivery rate of the episode.",
        f"{_ORCA}; the upper bound is ours",
    ),
    Feature(
        "acks_share",
        *(0, 10, 0),
        lambda intervals: divide(intervals["acks"], intervals["cwnd"]),
        "Acknowledgements over the window in segments.",
        f"{_ORCA}; the upper bound is ours",
    ),
    Feature(
        "elapsed_s",
        *(0, 10, 0),
        lambda intervals: intervals["elapsed_ms"] / 1e3,
        "Length of the interval, s.",
        f"{_ORCA}; the upper bound is ours",
    ),
    Feature(
        "rtt_share",
        *(0, 1, 1),
        lambda intervals: divide(intervals["min_rtt_ms"], intervals["srtt_ms"]),
        "Smallest RTT over the smoothed RTT.",
        _ORCA,
    ),
    Feature(
        "delay_slack",
        *(0, 1, 1),
        compute_delay_slack,
        f"{SLACK} times the smallest RTT over the smoothed RTT, at most 1.",
        _ORCA,
    ),
    Feature("loss", *(0, 1, 0), _read_column("loss"), "Share of segments thought lost."),
    Feature("ce", *(0, 1, 0), _read_column("ce"), "Share of the segments delivered that had CE."),
    Feature(
        "queue_delay",
        *(0, 10, 0),
        lambda intervals: divide(intervals["backlog_ms"], intervals["rtt_ms"]),
        "Time that the backlog takes on the link, over the base RTT.",
    ),
    Feature("utilisation", *(0, 1, 0), _read_column("utilisation"), "Share of the link in use."),
    Feature("action", *(-1, 1, -1), _read_column("action"), "The action of the interval."),
)
FEATURES = {one.name: one for one in _ALL}
"""Features by name."""


def find_feature(given: str | Feature) -> Feature:
    """Return a feature that was given, or the one of a name. Raises InputError."""
    if isinstance(given, Feature):
        return given
    if given not in FEATURES:
        raise UnknownName(str(given), among=list(FEATURES), what="feature")
    return FEATURES[given]


class FeatureTable:
    """Several features, which are measured together."""

    def __init__(self, features: Sequence[str | Feature]) -> None:
        """Find the features. Raises InputError."""
        self.features = [find_feature(one) for one in features]
        self.low, self.high, self.neutral = (
            np.array([getattr(one, name) for one in self.features], np.float64) for name in ("low", "high", "neutral")
        )

    def measure(self, intervals: MonitorIntervals) -> Floats:
        """Return their values in the latest interval: a row for each agent, a column for each feature."""
        with np.errstate(all="ignore"):
            values = np.column_stack([one.compute(intervals) for one in self.features])
        np.copyto(values, self.neutral, where=np.isnan(values))
        return np.clip(values, self.low, self.high, out=values)
