"""The ladder: time per packet and memory per flow over six decades of flows and of rates, for four queues and controls.

python -m benches.ladder           make ladder: runs all cells, writes benches/ladder.csv and docs/speed.md
python -m benches.ladder --cell    one cell, which is on standard input: what the others are run by

Each cell is a process of its own, so that its peak of memory is its own. A cell whose run takes over LONGEST seconds of
CPU time is run again for less simulated time.
"""

import csv
import json
import resource
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benches import children

FIGURES = Path(__file__).with_name("ladder.csv")
MS = 1_000_000
BASE_RTT = 5 * MS
FLOWS = [1, 10, 100, 1000, 10_000, 100_000]
RATES = [10**power for power in range(6, 13)]  # bit/s
AT_RATE, AT_FLOWS = 10**10, 10  # the rate of the ladder of flows, the flows of that of rates
CONTROLS = ["dctcp", "cubic", "bbr2", "prague"]
QUEUES = ["step", "fq_codel", "cake", "pi2"]
PACKETS = 1_000_000  # that a run is to have, and at least as many round trips:
ROUND_TRIPS = 20
LONGEST = 25.0  # s


def make_queue(name: str, rate: int) -> dict[str, Any]:
    """Return a queue that is large enough for every cell."""
    packet = 1500 * 8 * 10**9 // rate  # ns
    return {
        # 0.17 of the round trip, and two packets where that is less
        "step": {"name": "step", "threshold": max(850_000, 2 * packet), "limit": 1_000_000},
        "fq_codel": {"name": "fq_codel", "limit": 1_000_000, "memory_limit": 1 << 34},
        "cake": {"name": "cake", "memlimit": (1 << 32) - 1},
        "pi2": {"name": "pi2", "limit": 1_000_000},
    }[name]


def make_config(cell: dict[str, Any]) -> dict[str, Any]:
    """Return the run of a cell."""
    start = {"min": 0, "max": min(50 * MS, cell["duration"] // 4)}
    flow = {"cc": {"name": cell["control"]}, "base_rtt": BASE_RTT, "start": start}
    return {
        "duration": cell["duration"],
        "seed": 1,
        "bottleneck": {"rate": cell["rate"], "aqm": make_queue(cell["queue"], cell["rate"])},
        "hosts": {"send_buffer": 1 << 30, "receive_buffer": 1 << 30},
        "flows": [flow] * cell["flows"],
        "record": {"series": False},
    }


def list_cells() -> Iterator[dict[str, Any]]:
    """Yield every cell, each ladder from its foot."""
    for name in QUEUES:
        for control in CONTROLS:
            steps = [("flows", flows, AT_RATE) for flows in FLOWS] + [("rate", AT_FLOWS, rate) for rate in RATES]
            for ladder, flows, rate in steps:
                duration = max(PACKETS * 1500 * 8 * 10**9 // rate, ROUND_TRIPS * BASE_RTT)
                cell = {"ladder": ladder, "queue": name, "control": control, "flows": flows, "rate": rate}
                yield cell | {"duration": duration}


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Run a cell in this process; `share` is how much of it there was time for, and nothing else if that is not all."""
    from dumbbell import _native

    text = json.dumps(make_config(cell), separators=(",", ":"))
    cancel, progress, done = _native.Cancel(), _native.Progress(), threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            if time.process_time() > LONGEST:
                cancel.cancel()
                return

    threading.Thread(target=watch, daemon=True).start()
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        result = _native.run(text, cancel, progress)
    except _native.Interrupted:
        return {"share": progress.simulated / cell["duration"]}
    took = time.process_time() - began
    done.set()
    memory = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return {"share": 1.0, "packets": json.loads(result.summary)["packets"], "cpu_s": took, "memory": memory}


def measure_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Run a cell twice, each in a process of its own, cut shorter until there is time for it; return the faster one."""
    found = None
    while True:
        command = [sys.executable, "-m", "benches.ladder", "--cell"]
        said: dict[str, Any] = json.loads(children.run(command, json.dumps(cell)).printed)
        if (share := said.pop("share")) == 1.0:
            if found is not None or said["cpu_s"] > LONGEST / 10:
                return cell | min((said, found or said), key=lambda one: float(one["cpu_s"]))
            found = said
            continue
        cell = cell | {"duration": int(cell["duration"] * 0.6 * share) or BASE_RTT}


def main() -> None:
    """Run every cell and write what was measured."""
    todo = list(list_cells())
    rows = []
    began = time.monotonic()
    for number, cell in enumerate(todo, 1):
        row = measure_cell(cell)
        row["cpu_s"] = f"{row['cpu_s']:.3f}"
        rows.append(row)
        nanoseconds = 1e9 * float(row["cpu_s"]) / max(row["packets"], 1)
        left = (time.monotonic() - began) / number * (len(todo) - number) / 60
        print(
            f"{number}/{len(todo)} {cell['queue']}, {cell['control']}, {cell['flows']} flows, {cell['rate'] / 1e6:g} "
            f"Mbit/s: {nanoseconds:.0f} ns per packet, {left:.0f} minutes left",
            flush=True,
        )
    with FIGURES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    from benches import page

    page.write()


if __name__ == "__main__":
    if sys.argv[1:] == ["--cell"]:
        print(json.dumps(run_cell(json.load(sys.stdin))))
    else:
        main()
