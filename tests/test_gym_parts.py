"""Parts of learning tasks by hand: rewards of papers, features, actions, and the networks that are drawn."""

import math
import re
from typing import Any

import numpy as np
import pytest
import scipy.stats

import dumbbell
from dumbbell.errors import InputError
from dumbbell.gym import (
    FEATURES,
    REWARDS,
    TASKS,
    LogUniform,
    MonitorIntervals,
    OneOf,
    QueueKey,
    RateFactor,
    Uniform,
    WindowFactor,
)
from dumbbell.gym.draws import draw_network
from dumbbell.gym.features import FeatureTable
from dumbbell.gym.rewards import SEGMENT
from dumbbell.gym.tasks import FRAME, find_task

NAMES = dumbbell.Agents.columns


def observe(*rows: dict[str, float], network: dict[str, Any] | None = None) -> MonitorIntervals:
    """Return intervals of one agent, one after the other; what is not given is NaN."""
    intervals = MonitorIntervals(NAMES, 1)
    intervals.begin(slice(0, 1), network or {})
    for row in rows:
        intervals.take(np.array([[row.get(name, math.nan) for name in NAMES]]))
    return intervals


def reward(name: str, *rows: dict[str, float], network: dict[str, Any] | None = None) -> float:
    (value,) = REWARDS[name].compute(observe(*rows, network=network))
    return float(value)


def measure(name: Any, *rows: dict[str, float], network: dict[str, Any] | None = None) -> float:
    ((value,),) = FeatureTable([name]).measure(observe(*rows, network=network))
    return float(value)


# 200 segments of 1448 B a second are 2.3168 Mbit/s
STEADY = {"elapsed_ms": 100, "delivery_rate_mbit": 200 * SEGMENT * 8e-6, "sending_rate_mbit": 200 * SEGMENT * 8e-6}


def test_auroras_reward_is_linear() -> None:
    # 10 * 200 - 1000 * 0.12 - 2000 * 0.05 = 2000 - 120 - 100 = 1780, over 1000
    assert reward("aurora", STEADY | {"rtt_mean_ms": 120, "loss": 0.05}) == pytest.approx(1.78)
    # without an RTT in the interval, the smoothed one counts: 2000 - 300
    assert reward("aurora", STEADY | {"srtt_ms": 300, "loss": 0}) == pytest.approx(1.7)
    # nothing was delivered and everything lost: -1000 * 0.3 - 2000
    silent = {"delivery_rate_mbit": 0.0, "srtt_ms": 300, "loss": 1}
    assert reward("aurora", silent) == pytest.approx(-2.3)


def test_orcas_reward_is_power_with_slack() -> None:
    most = {"delivery_rate_mbit": 20.0, "sending_rate_mbit": 20.0, "loss": 0, "min_rtt_ms": 40, "srtt_ms": 50}
    # at 1.25 times the smallest RTT nothing is lost: 20 / 20
    assert reward("orca", most) == pytest.approx(1)
    # 10 of at most 20 Mbit/s, one of 21 segments lost: 0.5 Mbit/s; RTT twice the smallest: 1.25 / 2
    half = {"delivery_rate_mbit": 10.0, "sending_rate_mbit": 11.0, "loss": 1 / 21, "min_rtt_ms": 40, "srtt_ms": 80}
    assert reward("orca", most, half) == pytest.approx((10 - 5 * 0.5) / 20 * 0.625)
    # nothing delivered: what was sent is lost
    gone = half | {"delivery_rate_mbit": 0.0, "sending_rate_mbit": 4.0, "loss": 1}
    assert reward("orca", most, gone) == pytest.approx(-5 * 4 / 20 * 0.625)


def test_sages_rewards() -> None:
    network = {"rate_mbit": 48.0, "flows": 2}
    seen = {"delivery_rate_mbit": 24.0, "sending_rate_mbit": 24.0, "loss": 0, "min_rtt_ms": 40, "srtt_ms": 50}
    # half of the link at an RTT of 1 / 0.8 of the smallest: 25 / 4
    assert reward("sage", seen, network=network) == pytest.approx(6.25)
    assert reward("sage", seen | {"srtt_ms": 80}, network=network) == pytest.approx(6.25 / 2)
    # 12 Mbit/s are lost for 8 that are delivered: -25 * (16 / 48)^2
    lossy = seen | {"delivery_rate_mbit": 8.0, "loss": 0.6, "sending_rate_mbit": 20.0}
    assert reward("sage", lossy, network=network) == pytest.approx(-25 / 9)
    # the fair share is 0.95 * 48 / 2 = 22.8
    fair = seen | {"delivery_rate_mbit": 22.8}
    assert reward("sage_friendly", fair, network=network) == pytest.approx(25)
    half = seen | {"delivery_rate_mbit": 11.4}
    assert reward("sage_friendly", half, network=network) == pytest.approx(25 * math.exp(-2))
    # from twice the fair share on, it falls no further
    for many in (45.6, 48.0):
        greedy = seen | {"delivery_rate_mbit": many}
        assert reward("sage_friendly", greedy, network=network) == pytest.approx(25 * math.exp(-8))


def test_the_power_of_a_queue() -> None:
    intervals = MonitorIntervals(("utilisation", "backlog_ms"), 2)
    intervals.begin(slice(0, 2), {"rtt_ms": 20.0})
    intervals.take(np.array([[1.0, 0.0], [0.9, 10.0]]))
    assert REWARDS["power"].compute(intervals) == pytest.approx([1, 0.6])  # 0.9 / 1.5


def test_every_reward_and_feature_has_a_source_or_a_column() -> None:
    for one in REWARDS.values():
        assert one.source and one.expression
    for feature in FEATURES.values():
        assert feature.low <= feature.neutral <= feature.high and feature.doc.endswith(".")


def test_auroras_features() -> None:
    first = STEADY | {"rtt_mean_ms": 100}
    # 20 ms more after 100 ms; 120 / 100; 300 sent for 200 delivered
    later = STEADY | {"rtt_mean_ms": 120, "sending_rate_mbit": 300 * SEGMENT * 8e-6}
    assert measure("latency_gradient", first, later) == pytest.approx(0.2)
    assert measure("latency_ratio", first, later) == pytest.approx(1.2)
    assert measure("send_ratio", first, later) == pytest.approx(1.5)
    # the least RTT is that of the episode, not of the interval before
    assert measure("latency_ratio", first, later, first | {"rtt_mean_ms": 150}) == pytest.approx(1.5)
    # nothing measured: no change, and bounds hold
    assert [measure(name, {}) for name in TASKS["aurora"].features] == [0, 1, 1]
    assert measure("latency_gradient", first, first | {"rtt_mean_ms": 1e9}) == 10
    assert measure("send_ratio", STEADY | {"sending_rate_mbit": 1e9}) == 1000


def test_orcas_features() -> None:
    most = {"delivery_rate_mbit": 20.0, "sending_rate_mbit": 20.0, "loss": 0}
    now = {"delivery_rate_mbit": 5.0, "sending_rate_mbit": 6.0, "pacing_rate_mbit": 30.0, "loss": 1 / 6, "acks": 12}
    now |= {"cwnd": 48, "elapsed_ms": 20, "min_rtt_ms": 30, "srtt_ms": 60}
    found = [measure(name, most, now) for name in TASKS["orca"].features]
    # one of six segments is lost: 1 Mbit/s of 5
    assert found == pytest.approx([5 / 20, 30 / 20, 5 * 1 / 20, 12 / 48, 0.02, 0.5, 0.625])


def test_a_new_episode_forgets_the_one_before() -> None:
    intervals = observe({"rtt_mean_ms": 10}, network={"rate_mbit": 5.0, "other": "cubic"})
    intervals.begin(slice(0, 1), {"rate_mbit": 6.0, "other": "bbr3"})
    for column in (intervals["rtt_mean_ms"], intervals.get_previous("rtt_mean_ms"), intervals.get_least("rtt_mean_ms")):
        assert np.isnan(column).all()
    assert intervals["rate_mbit"] == [6.0] and intervals["other"] == ["bbr3"]
    with pytest.raises(InputError, match="unknown column rtt_maen_ms; did you mean rtt_mean_ms"):
        intervals["rtt_maen_ms"]
    with pytest.raises(InputError, match="unknown column rate_mbits"):
        intervals.get_most("rate_mbits")


def test_actions_change_rates_and_windows() -> None:
    rate = RateFactor(0.25, 0.4, 10)
    # up by 1.25, down by 1.25, between half of that and the bounds
    found = rate.apply(np.array([2.0, 2.0, 2.0, 9.0, 0.41]), np.array([1, -1, 0.4, 1, -1]))
    assert found == pytest.approx([2.5, 1.6, 2.2, 10, 0.4])
    window = WindowFactor(4)
    found = window.apply(np.array([10.0, 10.0, 10.0, 5.0]), np.array([1, -1, 0.5, -1]))
    assert found == pytest.approx([40, 4, 20, 4])


def test_an_action_sets_a_key_of_a_queue() -> None:
    assert [QueueKey("a", 0, 0.25, scale="square").convert(action) for action in (-1, 0, 1, 2)] == [
        0,
        0.0625,
        0.25,
        0.25,
    ]
    assert QueueKey("a", 1, 100, unit="ms", scale="log").convert(0.0) == "10.000000ms"
    assert QueueKey("a", 10, 20).convert(0.5) == 17.5
    with pytest.raises(InputError, match="unknown scale sqare; did you mean square"):
        QueueKey("a", 0, 1, scale="sqare")


def draw_values(name: str, key: str, count: int = 2000) -> np.ndarray[Any, np.dtype[np.float64]]:
    generator = np.random.default_rng(1)
    return np.array([draw_network(TASKS[name].draws, generator)[key] for _ in range(count)])


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name, task in TASKS.items() for key, one in task.draws.items() if not isinstance(one, OneOf)],
)
def test_networks_are_distributed_as_declared(name: str, key: str) -> None:
    one = TASKS[name].draws[key]
    values = draw_values(name, key)
    assert isinstance(one, Uniform | LogUniform)
    assert values.min() >= math.floor(one.low) and values.max() <= one.high
    if isinstance(one, Uniform):
        ideal = scipy.stats.uniform(one.low, one.high - one.low)
    else:
        ideal = scipy.stats.loguniform(one.low, one.high)
    if isinstance(one, LogUniform) and one.whole:
        # the share of each integer is that of the interval above it
        for value in (1, 2, 3, 5, 10):
            share = ideal.cdf(value + 1) - ideal.cdf(value)
            assert np.mean(values == value) == pytest.approx(share, abs=4 * math.sqrt(share / len(values)))
    else:
        assert scipy.stats.kstest(values, ideal.cdf).pvalue > 0.001


def test_the_networks_of_pcc_rl() -> None:
    """Bandwidth 100 to 500 packets/s, 50 to 500 ms on two links, 2 to 2981 packets, loss up to 5 %."""
    task = TASKS["aurora"]
    generator = np.random.default_rng(3)
    for _ in range(200):
        network = draw_network(task.draws, generator)
        table = task.make_experiment(network)
        rate = int(table["bottleneck"]["rate"].removesuffix("bit"))
        assert 100 <= rate / 8 / FRAME <= 500.001
        assert 100e3 <= int(table["flows"][0]["base_rtt"].removesuffix("us")) <= 1000e3
        assert 2 <= table["bottleneck"]["aqm"]["limit"] <= 2981
        assert 0 <= table["bottleneck"]["path"][0]["probability"] <= 0.05
        assert 0.3 <= network["start_rate_mbit"] / (network["packets_per_second"] * SEGMENT * 8e-6) <= 1.5
    assert isinstance(task.action, RateFactor)
    assert [rate / SEGMENT / 8e-6 for rate in (task.action.low, task.action.high)] == pytest.approx([40, 1000])


def test_choices_are_as_likely_as_each_other() -> None:
    generator = np.random.default_rng(1)
    found = [draw_network(TASKS["friendly"].draws, generator)["other"] for _ in range(1000)]
    assert abs(found.count("cubic") - 500) < 4 * math.sqrt(250) and set(found) == {"cubic", "bbr3"}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: find_task("arora", {}), "unknown task arora; did you mean aurora"),
        (lambda: find_task("aurora", {"step": 3}), "unknown field of a task step; did you mean steps"),
        (lambda: find_task("aurora", {"steps": 0}), "steps is 0; it must be a number, 1 or more"),
        (lambda: find_task("aurora", {"history": True}), "history is true; it must be a number, 1 to 10000"),
        (lambda: Uniform(2, 1), "low and high is 2 to 1; it must be a range of numbers, low to high"),
        (lambda: LogUniform(0, 1), "low is 0; it must be more than 0"),
        (lambda: Uniform("1", 2), 'low and high is "1" to 2'),  # type: ignore[arg-type]
        (lambda: OneOf(()), "values is (); it must be a list of one value or more"),
        (lambda: OneOf("reno"), 'values is "reno"; it must be a list'),  # type: ignore[arg-type]
        (lambda: QueueKey("a", 0, 1, scale="log"), "low is 0; it must be more than 0"),
        (lambda: WindowFactor(0), "base is 0; it must be more than 1"),
        (lambda: WindowFactor(2, 10, 4), "low and high is 10 to 4"),
        (lambda: RateFactor(0, 1, 2), "step is 0; it must be more than 0"),
    ],
)
def test_wrong_parts_are_input_errors(wrong: Any, text: str) -> None:
    with pytest.raises(InputError, match=re.escape(text)):
        wrong()
