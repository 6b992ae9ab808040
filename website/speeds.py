"""How fast one core simulates each experiment, from which the gallery says its minutes.

`python -m website.speeds` tries out some runs of every experiment, as `dumbbell run --dry-run` does, and writes
`speeds.csv`: minutes of work, so it is not part of `make docs`. With names of experiments it measures these alone.
"""

import csv
import sys
from functools import cache
from pathlib import Path

from dumbbell.engines import sim
from dumbbell.experiment.file import Experiment

FILE = Path(__file__).with_name("speeds.csv")
CORES = 2  # of the machine whose minutes are told
TRIED = 200  # runs of an experiment of which some are tried out


@cache
def read_speeds() -> dict[str, float]:
    """Return packets per second of one core, by name of the experiment."""
    if not FILE.exists():
        return {}
    with FILE.open(encoding="utf-8", newline="") as lines:
        return {row["experiment"]: float(row["packets_per_second"]) for row in csv.DictReader(lines)}


def measure_speed(loaded: Experiment) -> float:
    """Return packets per second of one core in a sample of an experiment's runs."""
    return sim.measure_speed(loaded.sample_cells(TRIED), CORES)


def estimate_seconds(name: str, packets: float, longest: float) -> float:
    """Return how long an experiment takes on `CORES` cores: `packets` in all, `longest` in its longest run."""
    return max(packets / CORES, longest) / read_speeds().get(name, sim.PACKETS_PER_SECOND)


def main(names: list[str]) -> None:
    """Measure the experiments of these names, all if there are none, and write their speeds to the file."""
    from website import gallery  # which asks this module

    speeds = dict(read_speeds())
    entries = {entry.name: entry for entry in gallery.list_entries()}
    speeds = {name: speed for name, speed in speeds.items() if name in entries}
    for name in names or entries:
        speeds[name] = float(f"{measure_speed(gallery.load_experiment(entries[name].file)):.2g}")
        with FILE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["experiment", "packets_per_second"])
            writer.writerows((one, f"{speed:.0f}") for one, speed in sorted(speeds.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
