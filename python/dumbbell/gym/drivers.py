"""Drivers, which carry actions into simulations and return measurements: of flows, or of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dumbbell.errors import Missing, Unfit
from dumbbell.gym.actions import QueueKey, RateFactor, WindowFactor
from dumbbell.gym.draws import Network
from dumbbell.simulation import Agents, Simulation, Time
from dumbbell.words import format_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def _find_value(network: Network, name: str) -> float:
    """Return a value that the action of a task needs."""
    if name not in network:
        raise Missing(
            "it among the draws, or in the network that make_experiment gets, for the action of the task", key=name
        )
    return float(network[name])


class FlowDriver:
    """Agents of the flows with the control external: all simulations go on in one call, on threads."""

    columns = Agents.columns

    def __init__(
        self, action: RateFactor | WindowFactor, every: Time, count: int, agents: int, threads: int | None
    ) -> None:
        """Prepare simulations with a number of agents each."""
        self._action, self._every, self._agents, self._threads = action, every, agents, threads
        self._begun: dict[int, Simulation] = {}
        self._native: Agents | None = None
        self._count = count
        self._state = np.full(count * agents, np.nan)
        self._asked = np.full((count * agents, len(Agents.actions)), np.nan)
        self._place = Agents.actions.index(action.column)

    def begin(self, number: int, simulation: Simulation, network: Network) -> None:
        """Begin the episode of a number with a simulation."""
        if self._native is None:
            self._begun[number] = simulation
        else:
            self._native.replace(number, simulation)
        self._state[number * self._agents : (number + 1) * self._agents] = _find_value(network, self._action.start)

    def step(self, actions: Floats) -> Floats:
        """Carry out actions, and return what was observed until the agents act next."""
        agents = self._start()
        self._state = self._action.apply(self._state, actions)
        is_window = self._action.column == "cwnd"
        self._asked[:, self._place] = np.round(self._state) if is_window else self._state
        return agents.step(self._asked)

    def fork(self, number: int) -> Simulation:
        """Return a copy of a simulation."""
        return self._start().fork(number)

    def list_over(self) -> NDArray[np.bool_]:
        """Return whether each simulation has come to its end."""
        return np.array(self._start().over)

    def _start(self) -> Agents:
        if self._native is None:
            order = [self._begun[number] for number in range(self._count)]
            self._native = Agents(order, every=self._every, threads=self._threads)
            self._begun.clear()
            if len(self._native.rows) != len(self._state):
                found = f"{format_count(len(self._native.rows), 'flow')} with the control external"
                raise Unfit(found, f"{self._agents} in each simulation", command="gym")
        return self._native


# counters in the view of a queue, since the start of the run
_COUNTERS = ("packets", "bytes", "ce_marks", "drops_overflow", "drops_aqm")


class QueueDriver:
    """Agents that are the first queue of each simulation; their actions set a key of it."""

    columns = (
        *("elapsed_ms", "throughput_mbit", "utilisation", "backlog_ms"),
        *("packets", "ce_marks", "drops_overflow", "drops_aqm", "action"),
    )

    def __init__(self, action: QueueKey, every: Time, count: int) -> None:
        """Prepare simulations."""
        self._action, self._every = action, every
        self._simulations: dict[int, Simulation] = {}
        self._rates = np.full(count, np.nan)
        self._before = np.zeros((count, len(_COUNTERS) + 1))
        self._values = np.full((count, len(self.columns)), np.nan)

    def begin(self, number: int, simulation: Simulation, network: Network) -> None:
        """Begin the episode of a number with a simulation."""
        self._simulations[number] = simulation
        self._rates[number] = _find_value(network, "rate_mbit")
        self._before[number] = 0

    def step(self, actions: Floats) -> Floats:
        """Carry out actions, and return measurements of the queues until the next one."""
        for number, action in enumerate(actions):
            simulation = self._simulations[number]
            simulation.set(self._action.key, self._action.convert(float(action))).step(for_=self._every)
            self._values[number] = self._measure(number, simulation, float(action))
        return self._values

    def _measure(self, number: int, simulation: Simulation, action: float) -> list[float]:
        view = simulation.view()
        queue: dict[str, Any] = {name: column[0] for name, column in view.queues.items()}
        now = np.array([view.time, *(queue[name] for name in _COUNTERS)])
        elapsed, packets, size, marks, overflow, dropped = (now - self._before[number]).tolist()
        self._before[number] = now
        rate = self._rates[number]
        throughput = size * 8e-6 / elapsed
        backlog = queue["backlog_bytes"] * 8e-3 / rate
        return [elapsed * 1e3, throughput, throughput / rate, backlog, packets, marks, overflow, dropped, action]

    def fork(self, number: int) -> Simulation:
        """Return a copy of a simulation."""
        return self._simulations[number].fork()

    def list_over(self) -> NDArray[np.bool_]:
        """Return whether each simulation has come to its end."""
        return np.array([self._simulations[number].over for number in range(len(self._rates))])
