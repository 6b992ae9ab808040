"""Networks that no training has seen, and how agents and controls do in them by Aurora's reward."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import dumbbell.gym
from dumbbell.gym.draws import Network, draw_network
from dumbbell.gym.rewards import SEGMENT

if TYPE_CHECKING:
    from numpy.typing import NDArray

Act = Callable[[Any], Any]
"""Returns the action for an observation."""

TASK = dumbbell.gym.TASKS["aurora"]
COUNT = 50  # networks
SEED = 1_000_000  # of their draws; trainings have small seeds
SECONDS = 60
CONTROLS = {"CUBIC": "cubic", "BBRv3": "bbr3"}
START = "start rate kept"
LIMIT = 1.05  # of docs/how-to/own-agent.md


def draw_networks() -> list[tuple[Network, dict[str, Any]]]:
    """Return the networks: the drawn values, and the table of an experiment."""
    generator = np.random.default_rng(SEED)
    found = []
    for _ in range(COUNT):
        network = draw_network(TASK.draws, generator)
        table = TASK.make_experiment(network)
        found.append((network, table | {"duration": f"{SECONDS}s", "record": {"series": False}}))
    return found


def compute_score(goodput_mbit: Any, rtt_ms: Any, loss: Any) -> Any:
    """Return Aurora's reward of the means of a run."""
    return (10 * goodput_mbit * (1e6 / 8 / SEGMENT) - rtt_ms - 2000 * loss) / 1000


def compute_bound(network: Network) -> float:
    """Return a reward that no run exceeds: every packet that survives the random loss, at the base RTT."""
    packets = network["packets_per_second"] * (1 - network["loss"])
    return float((10 * packets - network["rtt_ms"] - 2000 * network["loss"]) / 1000)


def follow_rule(observation: NDArray[Any]) -> NDArray[Any]:
    """Return the action of a rule of one line: raise the rate until the RTT exceeds its minimum by a part."""
    action: NDArray[Any] = np.clip(LIMIT - observation[-2:-1], -1, 1)
    return action


def measure_runs(results: dumbbell.Results) -> pl.DataFrame:
    """Return one row for each flow of runs: its score, and what the score is made of."""
    loss = pl.col("retransmissions") / pl.col("sent")
    return results.flows.select(
        "key", score=compute_score(pl.col("goodput_mbit"), pl.col("rtt_mean_ms"), loss), goodput="goodput_mbit",
        rtt="rtt_mean_ms", loss=loss,
    )  # fmt: skip


def run_agent(network: Network, table: dict[str, Any], act: Act) -> pl.DataFrame:
    """Return the row of an agent in a network."""
    task = dataclasses.replace(TASK, draws={}, make_experiment=lambda made: made.update(network) or table, steps=10**6)
    env = dumbbell.gym.make_env(task)
    observation, _ = env.reset(seed=SEED)
    over = False
    while not over:
        observation, _, _, over, _ = env.step(act(observation))
    return measure_runs(env.fork().finish())
