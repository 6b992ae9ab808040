"""Environments for agents that learn: tasks of congestion control and of queues for Gymnasium and PettingZoo.

`dumbbell.gym.make_env` makes an environment with one simulation, `make_vector_env` one with many in a call,
`make_parallel_env` one with several agents in a simulation. They need the extra gym: pip install 'dumbbell[gym]'.
"""

import importlib
from typing import TYPE_CHECKING, Any

from dumbbell.errors import Needs
from dumbbell.gym.actions import QueueKey, RateFactor, WindowFactor
from dumbbell.gym.draws import LogUniform, OneOf, Uniform
from dumbbell.gym.features import FEATURES, Feature
from dumbbell.gym.intervals import MonitorIntervals
from dumbbell.gym.rewards import REWARDS
from dumbbell.gym.tasks import TASKS, LearningTask

if TYPE_CHECKING:
    from dumbbell.gym.environments import NetworkEnv, NetworkVectorEnv
    from dumbbell.gym.parallel_environment import NetworkParallelEnv

__all__ = [
    "FEATURES",
    "REWARDS",
    "TASKS",
    "Feature",
    "LearningTask",
    "LogUniform",
    "MonitorIntervals",
    "OneOf",
    "QueueKey",
    "RateFactor",
    "Uniform",
    "WindowFactor",
    "make_env",
    "make_parallel_env",
    "make_vector_env",
    "register_tasks",
]


def _import_environments(module: str) -> Any:
    try:
        return importlib.import_module(f"dumbbell.gym.{module}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("gymnasium", "pettingzoo"):
            raise
        raise Needs(f"the package {package}", "pip install 'dumbbell[gym]'", key="dumbbell.gym") from None


def make_env(task: str | LearningTask, **changes: Any) -> "NetworkEnv":
    """Return a task as a `gymnasium.Env` with one simulation.

    `task` is the name of one of `TASKS` or a task of yours; `changes` replace fields of it: `reward=…`, `steps=100`.
    Raises InputError.
    """
    environment: NetworkEnv = _import_environments("environments").NetworkEnv(task, **changes)
    return environment


def make_vector_env(
    task: str | LearningTask, num_envs: int, *, threads: int | None = None, **changes: Any
) -> "NetworkVectorEnv":
    """Return a task as a `gymnasium.vector.VectorEnv` with `num_envs` simulations, which go on in one call.

    Flows are simulated on `threads` (by default all cores), queues that are agents one after the other. An episode that
    is over begins again in the same step, as gymnasium calls it `AutoresetMode.SAME_STEP`. Raises InputError.
    """
    module = _import_environments("environments")
    environment: NetworkVectorEnv = module.NetworkVectorEnv(task, num_envs, threads, **changes)
    return environment


def make_parallel_env(task: str | LearningTask = "shared", agents: int = 3, **changes: Any) -> "NetworkParallelEnv":
    """Return a task as a `pettingzoo.ParallelEnv`, in whose networks a number of flows have agents.

    Raises InputError.
    """
    module = _import_environments("parallel_environment")
    environment: NetworkParallelEnv = module.NetworkParallelEnv(task, agents, **changes)
    return environment


def register_tasks() -> None:
    """Let `gymnasium.make("dumbbell/aurora-v0")` and `gymnasium.make_vec` make the tasks. Raises InputError."""
    _import_environments("environments").register_tasks()
