"""Episodes of a task: simulations whose agents act, observe and are rewarded in arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell.errors import Missing, OutOfRange, Unfit, WrongValue, check_count, quote_value
from dumbbell.gym.actions import QueueKey
from dumbbell.gym.draws import Network, draw_network
from dumbbell.gym.drivers import FlowDriver, QueueDriver
from dumbbell.gym.features import FeatureTable
from dumbbell.gym.intervals import MonitorIntervals, fill_gaps
from dumbbell.gym.rewards import find_reward
from dumbbell.gym.tasks import BUFFERS, DURATION, SILENT, LearningTask
from dumbbell.simulation import Simulation
from dumbbell.words import format_count

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_MOST_SEEDS = 2**31
_MOST_SIMULATIONS = 1_000_000  # and agents of one, as arrays are made of them before any simulation is


class Episodes:
    """An episode of a task in each of `count` simulations, with `agents` rows for each of them."""

    def __init__(self, task: LearningTask, count: int, agents: int = 1, threads: int | None = None) -> None:
        """Prepare the episodes; each of them begins with `begin`."""
        allowed = f"a number, 1 to {_MOST_SIMULATIONS}"
        check_count(count, allowed, most=_MOST_SIMULATIONS, command="gym", key="num_envs")
        check_count(agents, allowed, most=_MOST_SIMULATIONS, command="gym", key="agents")
        is_queue = isinstance(task.action, QueueKey)
        if is_queue and agents > 1:
            raise OutOfRange(str(agents), "1: the agent is a queue", command="gym", key="agents")
        if (is_queue or agents > 1) and isinstance(task.every, str) and task.every.endswith(("ack", "rtt")):
            allowed = 'a time such as "20ms": a queue has no RTT, and several agents act at once'
            raise WrongValue(quote_value(task.every), allowed, command="gym", key="every")
        self.task, self.count, self.agents = task, count, agents
        self._features = FeatureTable(task.features)
        self._reward = find_reward(task.reward)
        if isinstance(task.action, QueueKey):
            self.driver: FlowDriver | QueueDriver = QueueDriver(task.action, task.every, count)
        else:
            self.driver = FlowDriver(task.action, task.every, count, agents, threads)
        rows = count * agents
        self._intervals = MonitorIntervals(self.driver.columns, rows)
        self._history = np.tile(self._features.neutral.astype(np.float32), (rows, task.history, 1))
        self._steps = np.full(count, -1)  # of episodes that have not begun

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
        table = self._make_table(network)
        table = {"duration": DURATION, "record": SILENT, "hosts": BUFFERS, **table}
        simulation = Simulation(table, seed=int(generator.integers(1, _MOST_SEEDS)))
        rows = slice(number * self.agents, (number + 1) * self.agents)
        self.driver.begin(number, simulation, network)
        self._intervals.begin(rows, network)
        self._history[rows] = self._features.neutral
        self._steps[number] = 0
        return dict(network)

    def _make_table(self, network: Network) -> dict[str, Any]:
        try:
            table = self.task.make_experiment(network)
        except KeyError as error:
            if error.args[0] in network:
                raise
            raise Missing("it among the draws, for make_experiment", key=str(error.args[0])) from error
        if not isinstance(table, Mapping):
            found = f"make_experiment returned {quote_value(table)}"
            raise Unfit(found, "the table of an experiment", command="gym")
        return dict(table)

    def step(self, actions: ArrayLike) -> Floats:
        """Carry out an action of each agent, -1 to 1, and return their rewards."""
        self._check_begun()
        count = self.count * self.agents
        wanted = _read_numbers("actions is", actions).reshape(-1)
        if wanted.size != count:
            raise Unfit(f"{format_count(wanted.size, 'action')}", f"one for each agent, {count}", command="gym")
        if np.isnan(wanted).any():
            raise OutOfRange("nan", "numbers from -1 to 1", command="gym", key="actions")
        self._intervals.take(self.driver.step(np.clip(wanted, -1, 1)))
        self._steps += 1
        self._history[:, :-1] = self._history[:, 1:]
        self._history[:, -1] = self._features.measure(self._intervals)
        with np.errstate(all="ignore"):
            given = self._reward(self._intervals)
            rewards = _read_numbers("the reward returned", given)
        if rewards.shape != wanted.shape:
            scalar = "nothing" if given is None else "a number"
            found = f"an array of shape {rewards.shape}" if rewards.shape else scalar
            allowed = f"an array with one number for each agent, of shape {wanted.shape}"
            raise Unfit(f"the reward returned {found}", allowed, command="gym")
        return fill_gaps(rewards)

    def fork(self, number: int) -> Simulation:
        """Return a copy of a simulation as it is now."""
        self._check_begun()
        return self.driver.fork(number)

    def _check_begun(self) -> None:
        if (self._steps < 0).any():
            raise Unfit("the environment was not reset", "reset() first", command="gym")

    def observe(self) -> NDArray[np.float32]:
        """Return what each agent observes: features of its latest intervals, the oldest first."""
        return self._history.reshape(len(self._history), -1).copy()

    def list_over(self) -> NDArray[np.bool_]:
        """Return whether each episode has had all of its steps, or its simulation is over."""
        return np.asarray((self._steps >= self.task.steps) | self.driver.list_over())


def _read_numbers(words: str, given: object) -> Floats:
    """Return an array of numbers. Raises InputError, which begins with some words, if it cannot be one."""
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise Unfit(f"{words} {quote_value(given)}", "one number for each agent", command="gym") from None
