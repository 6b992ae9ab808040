"""Rewards of papers as data: expression, source, and a function of monitor intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell.errors import UnknownName, WrongValue, quote_value
from dumbbell.gym.features import compute_delay_slack, compute_lost_rate
from dumbbell.gym.intervals import MonitorIntervals, divide, fill_gaps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RewardFunction = Callable[[MonitorIntervals], Any]
"""Returns a number for each agent."""

SEGMENT = 1448
"""Payload of a segment, bytes: an MTU of 1500 B without headers of IPv4 and TCP and its timestamps (RFC 7323)."""
_NEAR_RTT = 0.8  # of the RTT, from which Sage's reward takes the smallest RTT as reached
_USABLE = 0.95  # of the capacity: Sage's correction of its measured rates


@dataclass(frozen=True)
class Reward:
    """A reward of a paper."""

    name: str
    expression: str
    source: str
    compute: RewardFunction


def compute_aurora_reward(intervals: MonitorIntervals) -> Floats:
    """Return Aurora's linear reward: throughput in segments/s, latency in s, loss as a share, over 1000."""
    throughput = intervals["delivery_rate_mbit"] * (1e6 / 8 / SEGMENT)
    latency = np.where(np.isnan(intervals["rtt_mean_ms"]), intervals["srtt_ms"], intervals["rtt_mean_ms"]) / 1e3
    penalties = 1000 * fill_gaps(latency) + 2000 * fill_gaps(intervals["loss"])
    rewards: Floats = (10 * throughput - penalties) / 1000
    return rewards


def compute_orca_reward(intervals: MonitorIntervals) -> Floats:
    """Return Orca's normalised power, in which an RTT up to 1.25 times the smallest one costs nothing."""
    useful = intervals["delivery_rate_mbit"] - 5 * compute_lost_rate(intervals)
    return divide(useful, intervals.get_most("delivery_rate_mbit")) * compute_delay_slack(intervals)


def compute_sage_reward(intervals: MonitorIntervals) -> Floats:
    """Return Sage's reward of a single flow, negative if less than twice the lost rate is delivered."""
    useful = intervals["delivery_rate_mbit"] - 2 * compute_lost_rate(intervals)
    near = divide(intervals["min_rtt_ms"], intervals["srtt_ms"])
    near = np.where(near >= _NEAR_RTT, 1, near)
    return 25 * np.sign(useful) * divide(useful, intervals["rate_mbit"]) ** 2 * near


def compute_sage_friendly_reward(intervals: MonitorIntervals) -> Floats:
    """Return Sage's reward next to other flows, largest at the fair share of the link."""
    fair = _USABLE * intervals["rate_mbit"] / intervals["flows"]
    share = np.minimum(2, divide(intervals["delivery_rate_mbit"], fair))
    rewards: Floats = 25 * np.exp(-8 * (share - 1) ** 2)
    return rewards


def compute_power_reward(intervals: MonitorIntervals) -> Floats:
    """Return the power of a queue: utilisation over its delay in base RTTs, its own included."""
    return intervals["utilisation"] / (1 + divide(intervals["backlog_ms"], intervals["rtt_ms"]))


_ALL = (
    Reward(
        "aurora",
        "(10 · throughput - 1000 · latency - 2000 · loss) / 1000; segments/s, s, share",
        "Jay et al., ICML 2019; the factor 1/1000: PCC-RL, network_sim.py",
        compute_aurora_reward,
    ),
    Reward(
        "orca",
        "(throughput - 5 · lost rate) / largest throughput · min(1, 1.25 · smallest RTT / smoothed RTT)",
        "Abbasloo et al., SIGCOMM 2020; Orca, envwrapper.py and params.json",
        compute_orca_reward,
    ),
    Reward(
        "sage",
        "± 25 · ((throughput - 2 · lost rate) / link rate)² · (1 if smallest RTT / RTT ≥ 0.8, else this quotient)",
        "Yen et al., SIGCOMM 2023; Sage, sage.cc, for one flow",
        compute_sage_reward,
    ),
    Reward(
        "sage_friendly",
        "25 · exp(-8 · (x - 1)²), x = min(2, throughput / (0.95 · link rate / flows))",
        "Yen et al., SIGCOMM 2023; Sage, sage.cc, for several flows",
        compute_sage_friendly_reward,
    ),
    Reward(
        "power",
        "utilisation / (1 + queueing delay / base RTT)",
        "Kleinrock, ICC 1979: power, throughput over delay",
        compute_power_reward,
    ),
)
REWARDS = {one.name: one for one in _ALL}
"""Rewards by name."""


def find_reward(given: str | RewardFunction) -> RewardFunction:
    """Return a reward that was given as a function, or the one of a name. Raises InputError."""
    if callable(given):
        return given
    if not isinstance(given, str):
        raise WrongValue(quote_value(given), "a name or a function", command="gym", key="reward")
    if given not in REWARDS:
        raise UnknownName(given, among=list(REWARDS), what="reward")
    return REWARDS[given].compute
