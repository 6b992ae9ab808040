"""Episodes of a task: simulations whose agents act, observe and are rewarded in arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dumbbell.errors import OutOfRange, Unfit, quote_value
from dumbbell.gym.actions import QueueKey
from dumbbell.gym.draws import Network, draw_network
from dumbbell.gym.drivers import FlowDriver, QueueDriver
from dumbbell.gym.features import FeatureTable
from dumbbell.gym.intervals import MonitorIntervals, fill_gaps
from dumbbell.gym.rewards import find_reward
from dumbbell.gym.tasks import BUFFERS, DURATION, SILENT, LearningTask
from dumbbell.simulation import Simulation

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_MOST_SEEDS = 2**31


class Episodes:
    """An episode of a task in each of `count` simulations, with `agents` rows for each of them."""

    def __init__(self, task: LearningTask, count: int, agents: int = 1, threads: int | None = None) -> None:
        """Prepare the episodes; each of them begins with `begin`."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise OutOfRange(quote_value(count), "a number of simulations, 1 or more", command="gym", key="count")
        self.task, self.count, self.agents = task, count, agents
        self._features = FeatureTable(task.features)
        self._reward = find_reward(task.reward)
        if isinstance(task.action, QueueKey):
            self.driver: FlowDriver | QueueDriver = QueueDriver(task.action, task.every, count)
        else:
            self.driver = FlowDriver(task.action, task.every, count, agents, threads)
        rows = count * agents
        self.networks: list[Network] = [{} for _ in range(count)]
        self._intervals = MonitorIntervals(self.driver.columns, rows)
        self._history = np.tile(self._features.neutral.astype(np.float32), (rows, task.history, 1))
        self._steps = np.zeros(count, np.int64)

    @property
    def low(self) -> NDArray[np.float32]:
        """The least values of observations."""
        return np.tile(self._features.low.astype(np.float32), self.task.history)

    @property
    def high(self) -> NDArray[np.float32]:
        """The largest values of observations."""
        return np.tile(self._features.high.astype(np.float32), self.task.history)

    def begin(self, number: int, generator: Generator) -> Network:
        """Begin the episode of a simulation in a network that is drawn; return the drawn values."""
        network = {"agents": self.agents, **draw_network(self.task.draws, generator)}
        table = self.task.make_experiment(network)
        table = {"duration": DURATION, "record": SILENT, "hosts": BUFFERS, **table}
        simulation = Simulation(table, seed=int(generator.integers(1, _MOST_SEEDS)))
        rows = slice(number * self.agents, (number + 1) * self.agents)
        self.driver.begin(number, simulation, network)
        self._intervals.begin(rows, network)
        self._history[rows] = self._features.neutral
        self._steps[number] = 0
        self.networks[number] = network
        return dict(network)

    def step(self, actions: ArrayLike) -> Floats:
        """Carry out an action of each agent, -1 to 1, and return their rewards."""
        wanted = np.asarray(actions, np.float64).reshape(self.count * self.agents)
        if np.isnan(wanted).any():
            raise OutOfRange("nan", "numbers from -1 to 1", command="gym", key="actions")
        self._intervals.take(self.driver.step(np.clip(wanted, -1, 1)))
        self._steps += 1
        self._history[:, :-1] = self._history[:, 1:]
        self._history[:, -1] = self._features.measure(self._intervals)
        with np.errstate(all="ignore"):
            rewards = np.asarray(self._reward(self._intervals), np.float64)
        if rewards.shape != wanted.shape:
            raise Unfit(
                f"the reward returned an array of shape {rewards.shape}",
                f"one number for each agent, {wanted.shape}",
                command="gym",
            )
        return fill_gaps(rewards)

    def observe(self) -> NDArray[np.float32]:
        """Return what each agent observes: features of its latest intervals, the oldest first."""
        return self._history.reshape(len(self._history), -1).copy()

    def list_over(self) -> NDArray[np.bool_]:
        """Return whether each episode has had all of its steps, or its simulation is over."""
        return np.asarray((self._steps >= self.task.steps) | self.driver.list_over())
