"""Tasks with several agents in one simulation, as an environment of PettingZoo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

from dumbbell.errors import Missing
from dumbbell.gym.environments import make_spaces
from dumbbell.gym.episodes import Episodes
from dumbbell.gym.tasks import LearningTask, find_task
from dumbbell.simulation import Simulation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Observations = dict[str, NDArray[np.float32]]


class NetworkParallelEnv(ParallelEnv):  # type: ignore[misc]  # pettingzoo has no types
    """Flows of one simulation that act at the same times, an agent for each: `flow_0`, `flow_1` and so on."""

    def __init__(self, task: str | LearningTask = "shared", agents: int = 3, **changes: Any) -> None:
        """Prepare a task whose networks have a number of flows with the control external."""
        self.task = find_task(task, changes)
        self._episodes = Episodes(self.task, 1, agents)
        self.metadata = {"name": f"dumbbell_{self.task.name}_v0"}
        self.possible_agents = [f"flow_{number}" for number in range(agents)]
        self.agents: list[str] = []
        spaces = make_spaces(self._episodes)
        self.observation_spaces = dict.fromkeys(self.possible_agents, spaces[0])
        self.action_spaces = dict.fromkeys(self.possible_agents, spaces[1])
        self._generator: np.random.Generator | None = None

    def observation_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        """Return the space of the observations of an agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Space[Any]:
        """Return the space of the actions of an agent."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, dict[str, Any]]]:
        """Begin an episode in a network that is drawn; equal seeds give equal episodes."""
        del options
        if seed is not None or self._generator is None:
            self._generator = seeding.np_random(seed)[0]
        network = self._episodes.begin(0, self._generator)
        self.agents = list(self.possible_agents)
        return self._observe(), {agent: {"network": network} for agent in self.agents}

    def step(
        self, actions: dict[str, NDArray[Any]]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Carry out an action of each agent, at the same time."""
        if not self.agents:
            return {}, {}, {}, {}, {}
        for agent in self.agents:
            if agent not in actions:
                raise Missing("an action of each agent", command="gym", key=agent)
        rewards = self._episodes.step(np.concatenate([actions[agent] for agent in self.agents]))
        over = bool(self._episodes.list_over()[0])
        everybody, observations = self.agents, self._observe()
        if over:
            self.agents = []
        return (
            observations,
            dict(zip(everybody, rewards.tolist(), strict=True)),
            dict.fromkeys(everybody, False),
            dict.fromkeys(everybody, over),
            {agent: {} for agent in everybody},
        )

    def _observe(self) -> Observations:
        return dict(zip(self.possible_agents, self._episodes.observe(), strict=True))

    def fork(self) -> Simulation:
        """Return a copy of the simulation as it is now."""
        return self._episodes.fork(0)

    def render(self) -> None:
        """Draw nothing: `dumbbell watch` and figures of the results show a run."""

    def close(self) -> None:
        """Hold nothing that must be closed."""
