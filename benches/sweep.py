"""What a sweep of short runs takes, against the simulations alone: `make bench-sweep`.

10,000 runs of one simulated second, one flow through Cake at 1 to 100 Mbit/s, 400 cells of 25 seeds. First the
simulations alone, on as many threads as there are cores, then `dumbbell run`, from its start to its end. The ratio of
what both compute (user and system) hardly depends on what else the machine does; that of the time that passes does.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dumbbell import _native, experiment
from dumbbell.processes import count_cores

SHORT = """\
title = "short runs"
duration = "1s"
seeds = [%s]

[bottleneck]
rate = "10Mbit"
aqm = { name = "cake", isolation = "triple-isolate", diffserv = "diffserv3", sce = "on" }

[hosts]
profile = "linux-5.1"
ecn = true
sce_feedback = true

[[flows]]
cc = "reno"
base_rtt = "20ms"
start = { uniform = ["0s", "100ms"] }

[matrix]
"flows[0].cc" = ["cubic", "reno", "reno-sce", "dctcp", "dctcp-sce"]
"bottleneck.rate" = ["1Mbit", "2Mbit", "5Mbit", "10Mbit", "20Mbit", "30Mbit", "50Mbit", "70Mbit", "90Mbit", "100Mbit"]
"flows[*].base_rtt" = ["2ms", "5ms", "10ms", "20ms", "40ms", "60ms", "80ms", "160ms"]
"""
SEEDS = 25
TOGETHER = 50  # runs that a thread is given at a time


def measure_cpu(who: int) -> float:
    """Return the seconds that this process, or its children, have computed."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def time_simulations(configs: list[str]) -> tuple[float, float]:
    """Return the seconds that the simulations take by themselves: that pass, and that are computed."""
    cancel = _native.Cancel()

    def carry_out(first: int) -> None:
        for config in configs[first : first + TOGETHER]:
            _native.run(config, cancel)

    began, before = time.perf_counter(), measure_cpu(resource.RUSAGE_SELF)
    with ThreadPoolExecutor(count_cores()) as pool:
        list(pool.map(carry_out, range(0, len(configs), TOGETHER)))
    return time.perf_counter() - began, measure_cpu(resource.RUSAGE_SELF) - before


def time_sweep(plan: Path, output: Path) -> tuple[float, float]:
    """Return the same of `dumbbell run`."""
    began, before = time.perf_counter(), measure_cpu(resource.RUSAGE_CHILDREN)
    line = [sys.executable, "-c", "from dumbbell import cli; cli.main()", "run", str(plan), "-o", str(output)]
    subprocess.run(line, check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began, measure_cpu(resource.RUSAGE_CHILDREN) - before


def main() -> None:
    """Measure, and print a line for each repetition."""
    repetitions = int(os.environ.get("BENCH_REPEAT", "3"))
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "short.toml"
        plan.write_text(SHORT % ", ".join(map(str, range(1, SEEDS + 1))))
        configs = [cell.config for cell in experiment.load(plan).make_cells()]
        print(f"{len(configs)} runs of one second on {count_cores()} cores; seconds that pass, and that are computed")
        for number in range(repetitions):
            bare, bare_cpu = time_simulations(configs)
            whole, whole_cpu = time_sweep(plan, Path(folder) / f"{number}.duckdb")
            around = (whole_cpu - bare_cpu) / len(configs) * 1e6
            print(
                f"alone {bare:.2f} {bare_cpu:.2f}, sweep {whole:.2f} {whole_cpu:.2f}: "
                f"{whole / bare:.2f} and {whole_cpu / bare_cpu:.2f} times, {around:.0f} us a run around it"
            )


if __name__ == "__main__":
    main()
