"""The tasks that come with dumbbell: networks, observations, action and reward of agents, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dumbbell.errors import UnknownName, WrongValue, check_count, quote_value
from dumbbell.gym.actions import Action, QueueKey, RateFactor, WindowFactor
from dumbbell.gym.draws import Draw, LogUniform, Network, OneOf, Uniform
from dumbbell.gym.features import Feature
from dumbbell.gym.rewards import SEGMENT, RewardFunction

if TYPE_CHECKING:
    Table = dict[str, Any]

FRAME = 1514
"""Bytes of a full frame on a link, which carries a segment."""
_MOST_HISTORY = 10_000  # intervals: the spaces of observations are kept in memory
FIRST_WINDOW = 10  # segments: RFC 6928
BUFFERS = {"send_buffer": "64MiB", "receive_buffer": "64MiB"}
"""Buffers of the hosts that limit no agent."""
SILENT = {"series": False}
DURATION = "86400s"
"""Longer than any episode, which ends after its steps."""


@dataclass(frozen=True)
class LearningTask:
    """A task of agents: draws of a network, its experiment, what agents observe and do, and their reward.

    `make_experiment` makes the table of an experiment of the drawn values and the number of `agents`. It may add values
    to them, which rewards and features can read, and adds the value at which the action begins: `start_rate_mbit`,
    `start_window` or, for a queue, `rate_mbit` of its link. An episode has `steps` actions, one after each `every`.
    """

    name: str
    title: str
    draws: Mapping[str, Draw]
    make_experiment: Callable[[Network], Table]
    action: Action
    features: tuple[str | Feature, ...]
    reward: str | RewardFunction
    every: str | float
    history: int = 10
    steps: int = 400
    source: str = ""

    def __post_init__(self) -> None:
        check_count(self.steps, "a number, 1 or more", command="gym", key="steps")
        check_count(self.history, f"a number, 1 to {_MOST_HISTORY}", most=_MOST_HISTORY, command="gym", key="history")
        if isinstance(self.features, str) or not isinstance(self.features, Sequence) or not self.features:
            raise WrongValue(quote_value(self.features), "a list of one feature or more", command="gym", key="features")
        if not isinstance(self.action, RateFactor | WindowFactor | QueueKey):
            allowed = "a RateFactor, a WindowFactor or a QueueKey"
            raise WrongValue(quote_value(self.action), allowed, command="gym", key="action")
        if not callable(self.make_experiment):
            raise WrongValue(quote_value(self.make_experiment), "a function", command="gym", key="make_experiment")
        if not isinstance(self.draws, Mapping):
            raise WrongValue(quote_value(self.draws), "a table of distributions", command="gym", key="draws")
        for name, one in self.draws.items():
            if not hasattr(one, "draw"):
                allowed = "a distribution such as Uniform(1, 2)"
                raise WrongValue(quote_value(one), allowed, command="gym", key=f"draws.{name}")


def _make_bottleneck(rate_mbit: float, packets: float, **more: Any) -> Table:
    queue = {"name": "pfifo", "limit": max(1, round(packets))}
    return {"rate": _spell_rate(rate_mbit), "aqm": queue, **more}


def _spell_rate(mbit: float) -> str:
    return f"{round(mbit * 1e6)}bit"


def _spell_ms(ms: float) -> str:
    return f"{round(ms * 1e3)}us"


def compute_bdp(rate_mbit: float, rtt_ms: float) -> float:
    """Return the bandwidth-delay product in full frames."""
    return rate_mbit * rtt_ms * 1e3 / 8 / FRAME


def _make_aurora(network: Network) -> Table:
    """Make a network of PCC-RL: its links count packets, so the rate is that of full frames."""
    network["rate_mbit"] = network["packets_per_second"] * FRAME * 8e-6
    network["start_rate_mbit"] = network["start_share"] * network["packets_per_second"] * SEGMENT * 8e-6
    network["rtt_ms"] = 2 * network["latency_ms"]
    network["queue_packets"] = 1 + network["queue"]
    network["flows"] = 1
    start = {"name": "external", "rate": _spell_rate(network["start_rate_mbit"]), "window": 1_000_000}
    path = [{"name": "loss", "probability": round(network["loss"], 6)}]
    return {
        "bottleneck": _make_bottleneck(network["rate_mbit"], network["queue_packets"], path=path),
        "flows": [{"cc": start, "base_rtt": _spell_ms(network["rtt_ms"])}],
    }


def _make_orca(network: Network) -> Table:
    network["flows"] = 1
    network["start_window"] = FIRST_WINDOW
    return {
        "bottleneck": _make_bottleneck(network["rate_mbit"], network["buffer_kb"] * 1e3 / FRAME),
        "flows": [{"cc": "external", "base_rtt": _spell_ms(network["rtt_ms"])}],
    }


def _make_cellular(network: Network) -> Table:
    network["flows"] = 1
    network["start_window"] = FIRST_WINDOW
    packets = network["buffer_bdp"] * compute_bdp(network["rate_mbit"], network["rtt_ms"])
    return {
        "bottleneck": _make_bottleneck(network["rate_mbit"], packets, link="cellular"),
        "flows": [{"cc": "external", "base_rtt": _spell_ms(network["rtt_ms"])}],
    }


def _make_friendly(network: Network) -> Table:
    network["flows"] = 2
    network["start_window"] = FIRST_WINDOW
    rtt = _spell_ms(network["rtt_ms"])
    packets = network["buffer_bdp"] * compute_bdp(network["rate_mbit"], network["rtt_ms"])
    return {
        "bottleneck": _make_bottleneck(network["rate_mbit"], packets),
        "flows": [{"cc": "external", "base_rtt": rtt}, {"cc": network["other"], "base_rtt": rtt}],
    }


def _make_l4s(network: Network) -> Table:
    """Make a DualPI2 in whose queue L the agent is alone, next to CUBIC in queue C."""
    network["flows"] = 2
    network["start_window"] = FIRST_WINDOW
    rtt = _spell_ms(network["rtt_ms"])
    return {
        "bottleneck": {"rate": _spell_rate(network["rate_mbit"]), "aqm": "dualpi2"},
        "flows": [
            {"cc": {"name": "external", "l4s": True}, "base_rtt": rtt},
            {"cc": "cubic", "base_rtt": rtt, "ecn": False},
        ],
    }


def _make_shared(network: Network) -> Table:
    network["flows"] = network["agents"]
    network["start_window"] = FIRST_WINDOW
    packets = network["buffer_bdp"] * compute_bdp(network["rate_mbit"], network["rtt_ms"])
    return {
        "bottleneck": _make_bottleneck(network["rate_mbit"], packets),
        "flows": [{"cc": "external", "base_rtt": _spell_ms(network["rtt_ms"]), "count": network["agents"]}],
    }


def _make_queue(network: Network, bottleneck: Table) -> Table:
    start = {"uniform": ["0s", "1s"]}
    flows = {"cc": network["cc"], "base_rtt": _spell_ms(network["rtt_ms"]), "count": network["flows"], "start": start}
    return {"bottleneck": {"rate": _spell_rate(network["rate_mbit"]), **bottleneck}, "flows": [flows]}


def _make_dropper(network: Network) -> Table:
    queue = {"aqm": {"name": "pfifo", "limit": 1000}, "path": [{"name": "loss", "probability": 0.0}]}
    return _make_queue(network, queue)


def _make_codel(network: Network) -> Table:
    return _make_queue(network, {"aqm": {"name": "codel"}})


_AURORA = ("latency_gradient", "latency_ratio", "send_ratio")
_ORCA = ("rate_share", "pacing_share", "loss_share", "acks_share", "elapsed_s", "rtt_share", "delay_slack")
_QUEUE = ("queue_delay", "utilisation", "action")
# of PCC-RL, network_sim.py: 40 to 1000 packets/s
_RATES = (40 * SEGMENT * 8e-6, 1000 * SEGMENT * 8e-6)
_HOME: dict[str, Draw] = {
    "rate_mbit": LogUniform(5, 100),
    "rtt_ms": LogUniform(10, 100),
    "buffer_bdp": LogUniform(0.5, 4),
}
_OWN_RANGES = "ranges: ours"
_QUEUE_DRAWS: dict[str, Draw] = {
    "rate_mbit": LogUniform(5, 50),
    "rtt_ms": LogUniform(10, 100),
    "flows": LogUniform(1, 11, whole=True),
    "cc": OneOf(("cubic", "reno")),
}

_ALL = (
    LearningTask(
        "aurora",
        "One flow sets its rate, in networks of PCC-RL",
        {
            "packets_per_second": Uniform(100, 500),
            "latency_ms": Uniform(50, 500),
            "queue": LogUniform(1, 2980.9579870417283, whole=True),
            "loss": Uniform(0, 0.05),
            "start_share": Uniform(0.3, 1.5),
        },
        _make_aurora,
        RateFactor(0.25, *_RATES),
        _AURORA,
        "aurora",
        "0.5rtt",
        source="Jay et al., ICML 2019; PCC-RL, network_sim.py: the queue is 1 + exp(0 to 8) packets. Only "
        "data are lost, and latency has no noise",
    ),
    LearningTask(
        "orca",
        "One flow sets its window, in networks of Orca",
        {"rate_mbit": Uniform(6, 192), "rtt_ms": Uniform(4, 400), "buffer_kb": Uniform(3, 96_000)},
        _make_orca,
        WindowFactor(4),
        _ORCA,
        "orca",
        "20ms",
        source="Abbasloo et al., SIGCOMM 2020; the ranges and their even distribution are not verified: orca.sh, which "
        "is public, trains on one path of 48 Mbit/s, 20 ms and twice the BDP. There is no CUBIC below the window",
    ),
    LearningTask(
        "cellular",
        "One flow sets its window on a cellular link",
        {"rate_mbit": LogUniform(5, 50), "rtt_ms": Uniform(30, 100), "buffer_bdp": LogUniform(1, 8)},
        _make_cellular,
        WindowFactor(2),
        _ORCA,
        "orca",
        "20ms",
        source="link cellular: Winstein et al., NSDI 2013; " + _OWN_RANGES,
    ),
    LearningTask(
        "friendly",
        "One flow sets its window next to a flow of CUBIC or BBRv3",
        {**_HOME, "other": OneOf(("cubic", "bbr3"))},
        _make_friendly,
        WindowFactor(2),
        _ORCA,
        "sage_friendly",
        "20ms",
        source="reward: Yen et al., SIGCOMM 2023; " + _OWN_RANGES,
    ),
    LearningTask(
        "l4s",
        "One flow with marks of DualPI2's queue L sets its window next to a flow of CUBIC in the other queue",
        {"rate_mbit": LogUniform(10, 100), "rtt_ms": LogUniform(10, 50)},
        _make_l4s,
        WindowFactor(2),
        ("rate_share", "acks_share", "rtt_share", "loss", "ce"),
        "sage_friendly",
        "20ms",
        source="RFC 9332; " + _OWN_RANGES,
    ),
    LearningTask(
        "shared",
        "Several flows set their windows at one bottleneck",
        _HOME,
        _make_shared,
        WindowFactor(2),
        _ORCA,
        "sage_friendly",
        "20ms",
        source="reward: Yen et al., SIGCOMM 2023; " + _OWN_RANGES,
    ),
    LearningTask(
        "aqm",
        "A queue sets the probability with which it drops",
        _QUEUE_DRAWS,
        _make_dropper,
        # at most 25 %, as the classic queue of DualPI2: p_Cmax of RFC 9332
        QueueKey("bottleneck.path[0].probability", 0, 0.25, scale="square"),
        _QUEUE,
        "power",
        "100ms",
        steps=200,
        source=_OWN_RANGES,
    ),
    LearningTask(
        "codel_target",
        "A queue sets the target of its CoDel",
        _QUEUE_DRAWS,
        _make_codel,
        QueueKey("bottleneck.aqm.target", 0.5, 100, unit="ms", scale="log"),
        _QUEUE,
        "power",
        "100ms",
        steps=200,
        source="RFC 8289; " + _OWN_RANGES,
    ),
)
TASKS = {one.name: one for one in _ALL}
"""Tasks by name."""


def find_task(given: str | LearningTask, changes: Mapping[str, Any]) -> LearningTask:
    """Return a task that was given, or the one of a name, with changes of its fields. Raises InputError."""
    task = given if isinstance(given, LearningTask) else TASKS.get(str(given))
    if task is None:
        raise UnknownName(str(given), among=list(TASKS), what="task")
    known = [field.name for field in dataclasses.fields(LearningTask)]
    for name in changes:
        if name not in known:
            raise UnknownName(name, among=known, what="field of a task")
    return dataclasses.replace(task, **changes)
