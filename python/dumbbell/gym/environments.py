"""Tasks as environments of Gymnasium: one simulation, or many in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from dumbbell.errors import Unfit
from dumbbell.gym.episodes import Episodes
from dumbbell.gym.tasks import TASKS, LearningTask, find_task
from dumbbell.simulation import Simulation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Observation = NDArray[np.float32]


def make_spaces(episodes: Episodes) -> tuple[gymnasium.spaces.Space[Any], gymnasium.spaces.Space[Any]]:
    """Return the spaces of the observations and of the actions of an agent."""
    action = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    return gymnasium.spaces.Box(episodes.low, episodes.high, dtype=np.float32), action


class NetworkEnv(gymnasium.Env["Observation", Any]):
    """One simulation of a task; a reset draws another network."""

    def __init__(self, task: str | LearningTask, **changes: Any) -> None:
        """Prepare a task, given or by name, with changes of its fields."""
        self.task = find_task(task, changes)
        self._episodes = Episodes(self.task, 1)
        self.observation_space, self.action_space = make_spaces(self._episodes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in a network that is drawn; equal seeds give equal episodes."""
        super().reset(seed=seed, options=options)
        network = self._episodes.begin(0, self.np_random)
        return self._episodes.observe()[0], {"network": network}

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry out an action; return observation, reward, and whether the episode is over."""
        reward = float(self._episodes.step(action)[0])
        return self._episodes.observe()[0], reward, False, bool(self._episodes.list_over()[0]), {}

    def fork(self) -> Simulation:
        """Return a copy of the simulation as it is now, to look at, to go on with or to finish."""
        return self._episodes.fork(0)


class NetworkVectorEnv(VectorEnv["Observation", Any, "NDArray[Any]"]):
    """Many simulations of a task in one call; what ends begins again in the same step.

    Each simulation has random numbers of its own, so that it is the one that `NetworkEnv` with its seed is.
    """

    def __init__(self, task: str | LearningTask, num_envs: int = 1, threads: int | None = None, **changes: Any) -> None:
        """Prepare `num_envs` simulations, which go on on `threads` (by default all cores)."""
        self.task = find_task(task, changes)
        self._episodes = Episodes(self.task, num_envs, threads=threads)
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space, self.single_action_space = make_spaces(self._episodes)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators: list[np.random.Generator] = []

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin all episodes; simulation i gets seed + i, or the seed at place i of a list."""
        del options
        seeds = (
            [None if seed is None else seed + i for i in range(self.num_envs)] if isinstance(seed, int | None) else seed
        )
        if len(seeds) != self.num_envs:
            raise Unfit(f"{len(seeds)} seeds", f"one for each of {self.num_envs} simulations", command="gym")
        if not self._generators:
            self._generators = [seeding.np_random(one)[0] for one in seeds]
        infos: dict[str, Any] = {}
        for number, one in enumerate(seeds):
            if one is not None:
                self._generators[number] = seeding.np_random(one)[0]
            infos = self._begin(number, infos)
        return self._episodes.observe(), infos

    def _begin(self, number: int, infos: dict[str, Any]) -> dict[str, Any]:
        network = self._episodes.begin(number, self._generators[number])
        return self._add_info(infos, {"network": network}, number)

    def step(self, actions: ArrayLike) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Carry out an action in each simulation; `final_obs` of the infos are the last observations of an episode."""
        rewards = self._episodes.step(actions)
        over = self._episodes.list_over()
        infos: dict[str, Any] = {}
        if over.any():
            last = self._episodes.observe()
            for number in np.flatnonzero(over).tolist():
                infos = self._add_info(infos, {"final_obs": last[number], "final_info": {}}, number)
                infos = self._begin(number, infos)
        return self._episodes.observe(), rewards, np.zeros(self.num_envs, np.bool_), over, infos

    def fork(self, number: int) -> Simulation:
        """Return a copy of a simulation as it is now."""
        return self._episodes.fork(number)


def register_tasks() -> None:
    """Register the tasks with Gymnasium."""
    for name in TASKS:
        if f"dumbbell/{name}-v0" not in gymnasium.registry:
            gymnasium.register(
                id=f"dumbbell/{name}-v0",
                entry_point=f"{__name__}:NetworkEnv",
                vector_entry_point=f"{__name__}:NetworkVectorEnv",
                kwargs={"task": name},
            )
