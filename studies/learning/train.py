"""Trains the agents of this study with PPO of stable-baselines3, and lets them run in networks that they have not seen.

python -m studies.learning.train [--seeds 1 2 3 4 5] [--rounds 40]

Needs the packages stable-baselines3 and torch. Writes agents/seed-N.json, trained agents; agents/untrained-N.json, the
same before their training; agents/curve.csv, the rewards while they learned; agents/scores.csv, scores of the agents in
the held-out networks; and experiments/heldout.toml, these networks for other controls. `dumbbell study run learning`
runs the experiment, and `dumbbell study page learning` makes the page.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dumbbell.gym
from dumbbell.experiment import parse
from dumbbell.experiment.settings import format_toml
from dumbbell.experiment.toml_file import read_toml

from .held_out import CONTROLS, SECONDS, START, TASK, Act, compute_bound, draw_networks, follow_rule, run_agent
from .policy import AGENTS, Policy, list_policies, read_policy

EXPERIMENT = Path(__file__).with_name("experiments") / "heldout.toml"
CURVE = AGENTS / "curve.csv"
SIMULATIONS = 16
LAYERS = [32, 16]  # Jay et al., ICML 2019
GAMMA = 0.99  # Jay et al., ICML 2019


def make_training_env(seed: int) -> Any:
    """Return the task as stable-baselines3 takes it, all simulations in one call.

    `ended` has mean reward and bound of each episode that ended.
    """
    from stable_baselines3.common.vec_env import VecEnv

    envs = dumbbell.gym.make_vector_env(TASK, SIMULATIONS)

    class TrainingEnv(VecEnv):  # type: ignore[misc]  # stable-baselines3 is not installed where types are checked
        def __init__(self) -> None:
            super().__init__(SIMULATIONS, envs.single_observation_space, envs.single_action_space)
            self.ended: list[tuple[float, float]] = []
            self.bounds = np.zeros(SIMULATIONS)
            self.sums = np.zeros(SIMULATIONS)
            self.actions: Any = None

        def reset(self) -> Any:
            observations, infos = envs.reset(seed=seed)
            self.take_networks(infos["network"], range(SIMULATIONS))
            return observations

        def take_networks(self, networks: Any, numbers: Iterable[int]) -> None:
            for number in numbers:
                self.bounds[number] = compute_bound({name: values[number] for name, values in networks.items()})

        def step_async(self, actions: Any) -> None:
            self.actions = actions

        def step_wait(self) -> Any:
            observations, rewards, _, over, infos = envs.step(self.actions)
            self.sums += rewards
            told: list[dict[str, Any]] = [{} for _ in range(SIMULATIONS)]
            for number in np.flatnonzero(over):
                told[number] = {"terminal_observation": infos["final_obs"][number], "TimeLimit.truncated": True}
                self.ended.append((self.sums[number] / TASK.steps, self.bounds[number]))
                self.sums[number] = 0
            if over.any():
                self.take_networks(infos["network"], np.flatnonzero(over))
            return observations, rewards.astype(np.float32), over, told

        def close(self) -> None:
            envs.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            del attr_name, indices
            return [None] * SIMULATIONS

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise NotImplementedError

        def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **options: Any) -> list[Any]:
            raise NotImplementedError

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            del wrapper_class, indices
            return [False] * SIMULATIONS

    return TrainingEnv()


def export_policy(model: Any, normaliser: Any) -> Policy:
    """Return the numbers of a model of stable-baselines3."""
    state = {name: value.numpy().astype(np.float64) for name, value in model.policy.state_dict().items()}
    names = ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net")
    layers = tuple((state[f"{name}.weight"], state[f"{name}.bias"]) for name in names)
    seen = normaliser.obs_rms
    return Policy(seen.mean, np.sqrt(seen.var + normaliser.epsilon), layers)


def train_agent(seed: int, rounds: int) -> tuple[Policy, Policy, pl.DataFrame]:
    """Return an agent before and after its training, and the mean reward of the episodes of each round."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    env = make_training_env(seed)
    normaliser = VecNormalize(env, gamma=GAMMA)
    model = PPO(
        "MlpPolicy",
        normaliser,
        n_steps=TASK.steps,
        batch_size=SIMULATIONS * TASK.steps // 4,
        gamma=GAMMA,
        learning_rate=1e-3,
        policy_kwargs={"net_arch": LAYERS, "log_std_init": -0.5},
        seed=seed,
        device="cpu",
    )
    untrained = export_policy(model, normaliser)
    rows = []
    began = time.perf_counter()
    for number in range(1, rounds + 1):
        env.ended.clear()
        steps = SIMULATIONS * TASK.steps
        model.learn(steps, reset_num_timesteps=False)
        seconds = round(time.perf_counter() - began, 1)
        reward, bound = np.mean(env.ended, axis=0).tolist()
        rows.append({"seed": seed, "steps": number * steps, "seconds": seconds, "reward": reward, "bound": bound})
        print(f"seed {seed}, {number * steps} steps, {seconds:.0f} s, reward {reward:.3f} of {bound:.3f}", flush=True)
    return untrained, export_policy(model, normaliser), pl.DataFrame(rows)


def measure_agents() -> pl.DataFrame:
    """Return the scores of all agents, trained and not, in the held-out networks."""
    agents: list[tuple[str, int, Act]] = [("rule", 0, follow_rule)]
    for kind, files in (("untrained", list_policies("untrained")), ("trained", list_policies("seed"))):
        agents += [(kind, seed, read_policy(path).choose_action) for seed, path in files.items()]
    rows = []
    for kind, seed, act in agents:
        for number, (network, table) in enumerate(draw_networks()):
            row = run_agent(network, table, act).drop("key")
            names = {"network": number, "kind": kind, "seed": seed}
            rows.append(row.select(*(pl.lit(value).alias(name) for name, value in names.items()), *row.columns))
    return pl.concat(rows)


def write_experiment() -> None:
    """Write the experiment with the held-out networks and the controls to compare with."""
    keys = (
        "setting",
        "bottleneck.rate",
        "bottleneck.aqm.limit",
        "bottleneck.path[0].probability",
        "flows[0].base_rtt",
        "flows[0].cc",
    )
    rows = []
    first: dict[str, Any] = {}
    for number, (_, table) in enumerate(draw_networks()):
        first = first or table
        queue, flow = table["bottleneck"], table["flows"][0]
        values = [queue["rate"], queue["aqm"]["limit"], queue["path"][0]["probability"], flow["base_rtt"]]
        for name, control in {**CONTROLS, START: flow["cc"]}.items():
            rows.append([f"{number}, {name}", *values, control])
    lines = [
        "# How well do CUBIC, BBRv3 and a constant rate use networks of PCC-RL? studies.learning.train wrote this.",
        'title = "Networks that no agent was trained in"',
        f'duration = "{SECONDS}s"',
        "seeds = [1]",
        "record = { series = false }",
        f"bottleneck = {format_toml(first['bottleneck'])}",
        'hosts = { send_buffer = "64MiB", receive_buffer = "64MiB" }',
        f"flows = [{format_toml(first['flows'][0] | {'cc': 'cubic'})}]",
        "",
        "[matrix]",
        f'"{", ".join(keys)}" = [',
        *(f"    {format_toml(row)}," for row in rows),
        "]",
    ]
    EXPERIMENT.write_text("\n".join([*lines, ""]), encoding="utf-8")
    parse(read_toml(EXPERIMENT), str(EXPERIMENT))


def main() -> None:
    """Train, and write agents and scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5], help="those to train with")
    parser.add_argument("--rounds", type=int, default=40, help=f"of {SIMULATIONS * TASK.steps} steps each")
    given = parser.parse_args()
    AGENTS.mkdir(exist_ok=True)
    write_experiment()
    curve = pl.read_csv(CURVE) if CURVE.exists() else pl.DataFrame()
    for seed in given.seeds:
        untrained, trained, rows = train_agent(seed, given.rounds)
        untrained.save(AGENTS / f"untrained-{seed}.json")
        trained.save(AGENTS / f"seed-{seed}.json")
        curve = pl.concat([*([] if curve.is_empty() else [curve.filter(pl.col("seed") != seed)]), rows])
        curve.sort("seed", "steps").with_columns(pl.col("reward", "bound").round_sig_figs(6)).write_csv(CURVE)
    numbers = pl.col("score", "goodput", "rtt", "loss")
    measure_agents().with_columns(numbers.round_sig_figs(6)).write_csv(AGENTS / "scores.csv")


if __name__ == "__main__":
    main()
