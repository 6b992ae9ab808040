"""What stands in the way of more packets a second: the machine's caches and memory, and the time that each case takes.

`make bench` ends with it (see benches.where). Times are of CPU, the fastest of TURNS; those of other programs on the
machine are in them.
"""

import csv
import json
from pathlib import Path

from benches import children, program

FIGURES = Path(__file__).with_name("limits.csv")
TURNS = 5
# simulated milliseconds of the runs whose time is taken: some tenths of a second of CPU
CASES = {
    "a": 30_000,
    "b": 300_000,
    "c": 4_000,
    "d": 3_000_000,
    "e": 3_000,
    "f": 400,
    "g": 20_000,
    "h": 20_000,
    "i": 20_000,
    "j": 4_000,
}
# packets per CPU second that are aimed at: case f is 10,000 flows at 100 Gbit/s, which is 8.3 million packets a second
AIMS = dict.fromkeys("abcd", 20e6) | {"f": 8.3e6}


def count_misses() -> None:
    """Measure the machine and the time of each case, and write the figures."""
    binary = program.build_program("release")
    machine = json.loads(children.run([binary, "--memory"]).printed)
    rows = []
    for case, millis in CASES.items():
        runs = [children.run([binary, "--only", case, str(millis)]) for _ in range(TURNS)]
        row = {"case": case, "ns": f"{1e9 * min(run.cpu for run in runs) / float(runs[0].printed):.1f}"}
        rows.append(row | {name: f"{value:.1f}" for name, value in machine.items()})
        print(" ".join(f"{name}={value}" for name, value in rows[-1].items()), flush=True)
    with FIGURES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def estimate_waits(first: float, last: float, near: float, memory: float) -> float:
    """Return how long the misses of a packet take one after the other, ns.

    `first` and `last` are its misses in the first and the last cache, `near` and `memory` the latencies behind them.
    """
    return (first - last) * near + last * memory


def describe_limit(case: str, packets: float, instructions: float, time: float, waiting: float) -> str:
    """Return what stands between a case and the packets a second that are aimed at, in a sentence."""
    there = 1e9 / packets
    goal = f"the goal of {packets / 1e6:g} million packets per second is {there:.0f} ns"
    aim = f"Case {case} takes {time:.0f} ns per packet; {goal}"
    if time <= there:
        return f"{aim}, which is reached."
    if waiting > there:
        return (
            f"{aim}, and its misses take {waiting:.0f} ns one after the other. So at least {waiting / there:.1f} "
            f"misses must be under way at all times, regardless of the instructions."
        )
    return (
        f"{aim}. The misses take {waiting:.0f} ns even one after the other, so memory is not the limit. "
        f"The limit is the {instructions:.0f} instructions, of which {instructions / time:.1f} pass in a nanosecond: "
        f"{there * instructions / time:.0f} would be few enough."
    )
