"""The cost of `dumbbell.simulate` and `dumbbell.simulate_many`, next to their simulations alone: `make bench-simulate`.

A call simulates one second of one flow at 10 Mbit/s: of an experiment that is checked, with another seed or another
value each time, or of a table that is read each time. The ways take turns, in batches, and of each the batch with the
least CPU time of this thread counts: what else the machine does makes batches longer, and never shorter.

The simulations of `simulate_many` take longer, `MANY` each. First they run alone, on as many threads as there are
cores, then through `simulate_many`; the ratio is that of what both compute, the least of several turns.

Agents act every 10 ms on one flow at 10 Mbit/s, whose window fills the link: in arrays (`dumbbell.Agents`), in a vector
environment and in a single one. The figures are CPU time for a step of one agent, the least of several turns. For
`python -m benches.ns3_gym` the same flow runs in ns3-gym.
"""

import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dumbbell
import dumbbell.gym
from benches.sweep import measure_cpu, time_simulations
from dumbbell import _native
from dumbbell.processes import count_cores

TABLE: dict[str, Any] = {
    "duration": "1s",
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": [{"cc": "cubic", "base_rtt": "20ms"}],
}
BATCH = 100  # calls
MANY = {"1 s of one flow": ({}, 4000), "10 s of two flows": ({"duration": "10s", "flows[0].count": 2}, 1000)}


def set_beta(number: int) -> dict[str, int]:
    """Return an override with another value for each of a thousand numbers."""
    return {"flows[0].cc.beta": number % 1000 + 1}


def list_calls() -> dict[str, Callable[[int], object]]:
    """Return the ways to simulate, which take the number of the call; the simulation alone comes first."""
    experiment = dumbbell.parse(TABLE)
    configs = [next(experiment.add_settings(set_beta(number)).make_cells()).config for number in range(BATCH)]

    def read_table(number: int) -> dict[str, Any]:
        flow = {"cc": {"name": "cubic"} | {"beta": number % 1000 + 1}, "base_rtt": "20ms"}
        return TABLE | {"flows": [flow]}

    return {
        "simulation alone": lambda number: _native.run(configs[number % BATCH]),
        "checked": lambda _: dumbbell.simulate(experiment),
        "checked, a seed": lambda number: dumbbell.simulate(experiment, seed=number + 1),
        "checked, an override": lambda number: dumbbell.simulate(experiment, set_beta(number)),
        "a table": lambda number: dumbbell.simulate(read_table(number)),
        "checked, an override, summary": lambda number: dumbbell.simulate(experiment, set_beta(number)).summary,
        "checked, an override, flows": lambda number: dumbbell.simulate(experiment, set_beta(number)).flows,
    }


def time_calls(turns: int) -> dict[str, float]:
    """Return the seconds of CPU of one call of each way."""
    calls = list_calls()
    least = dict.fromkeys(calls, float("inf"))
    for turn in range(turns):
        for name, call in calls.items():
            before = time.thread_time()
            for number in range(turn * BATCH, (turn + 1) * BATCH):
                call(number)
            least[name] = min(least[name], (time.thread_time() - before) / BATCH)
    return least


def time_many(settings: dict[str, Any], count: int) -> tuple[float, float]:
    """Return the seconds of CPU of simulations alone and through `simulate_many`."""
    experiment = dumbbell.parse(TABLE, settings=settings)
    configs = [next(experiment.add_settings(set_beta(number)).make_cells()).config for number in range(count)]
    _, alone = time_simulations(configs)
    before = measure_cpu(resource.RUSAGE_SELF)
    done = sum(1 for _ in dumbbell.simulate_many((experiment, set_beta(number)) for number in range(count)))
    assert done == count
    return alone, measure_cpu(resource.RUSAGE_SELF) - before


STEPS = 300
SIMULATIONS = 16


def make_network(network: dict[str, Any]) -> dict[str, Any]:
    """Return the network of the agents: 20 segments fill its link of 10 Mbit/s and 20 ms."""
    network.update(rate_mbit=10.0, start_window=20, flows=1)
    return {"bottleneck": TABLE["bottleneck"], "flows": [{"cc": "external", "base_rtt": "20ms"}]}


def list_steppers() -> dict[str, tuple[int, Callable[[], object]]]:
    """Return the ways to step agents: how many agents there are, and a call that steps each of them once."""
    changes: dict[str, Any] = {"draws": {}, "make_experiment": make_network, "every": "10ms", "steps": 10**9}
    table = make_network({}) | {"duration": "86400s", "record": {"series": False}}
    agents = dumbbell.Agents([dumbbell.Simulation(table, seed=seed + 1) for seed in range(SIMULATIONS)], every="10ms")
    windows = np.tile([20.0, np.nan], (SIMULATIONS, 1))
    many = dumbbell.gym.make_vector_env("orca", SIMULATIONS, **changes)
    many.reset(seed=1)
    stays = np.zeros((SIMULATIONS, 1))
    alone = dumbbell.gym.make_env("orca", **changes)
    alone.reset(seed=1)
    return {
        f"Agents, {SIMULATIONS} simulations": (SIMULATIONS, lambda: agents.step(windows)),
        f"make_vector_env, {SIMULATIONS} simulations": (SIMULATIONS, lambda: many.step(stays)),
        "make_env": (1, lambda: alone.step(stays[0])),
    }


def time_steps(turns: int) -> dict[str, float]:
    """Return the seconds of CPU of a step of one agent, of each way; all threads count."""
    steppers = list_steppers()
    least = dict.fromkeys(steppers, float("inf"))
    for _ in range(turns):
        for name, (count, step) in steppers.items():
            began = time.process_time()
            for _ in range(STEPS):
                step()
            least[name] = min(least[name], (time.process_time() - began) / STEPS / count)
    return least


def main() -> None:
    """Measure, and print a line for each way."""
    turns = int(os.environ.get("BENCH_REPEAT", "5"))
    found = time_calls(4 * turns)
    alone = next(iter(found.values()))
    print(f"{TABLE['duration']} of one flow at 10 Mbit/s, CPU time of a call")
    for name, seconds in found.items():
        print(f"{name:30} {seconds * 1e6:5.0f} us, {seconds / alone:.2f} times; 1,000 calls {seconds * 1e3:.2f} s")
    for name, (settings, count) in MANY.items():
        pairs = [time_many(settings, count) for _ in range(turns)]
        bare, whole = (min(times) for times in zip(*pairs, strict=True))
        print(
            f"simulate_many, {count} times {name}, {count_cores()} cores: {whole:.2f} s of CPU, alone {bare:.2f} s, "
            f"{whole / bare:.2f} times, {(whole - bare) / count * 1e6:.0f} us a run around it"
        )

    print("CPU time of a step of an agent, every 10 ms on one flow at 10 Mbit/s")
    for name, seconds in time_steps(2 * turns).items():
        print(f"{name:40} {seconds * 1e6:6.2f} us")


if __name__ == "__main__":
    main()
