"""Counts what a packet costs at both ends of each large step of the ladder: what the reasons in reasons.toml rest on.

python -m benches.steps                      make steps: counts what is missing, writes steps.csv and docs/speed.md
python -m benches.steps cake,bbr2,1000 …     counts these again, after a change of the engine

Counted in cachegrind's model of caches, as for `make where`, are a run that is over before a flow starts, which is
set-up and end, and the cell without it. There a cell with fewer than WHOLE flows runs for half of its time.
"""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from pathlib import Path
from typing import Any

from benches import ladder, where
from benches.program import ROOT

FIGURES = Path(__file__).with_name("steps.csv")
STEP = 3  # times the time of a neighbour: what is named
WHOLE = 100_000
KEYS = ("ladder", "queue", "control", "flows", "rate")
# of a run: sums over its flows, and the mean length of the queue in packets
COUNTS = ("packets", "sent", "retransmissions", "timeouts", "drops", "acks", "queue_mean")
Row = dict[str, str]


def measure_nanoseconds(row: Row) -> float:
    """Return the time per packet of a row of ladder.csv."""
    return 1e9 * float(row["cpu_s"]) / float(row["packets"])


def find_steps(rows: Sequence[Row]) -> list[tuple[Row, Row, float]]:
    """Return neighbours whose times per packet differ by over STEP times, and how many times the time is."""
    found = []
    for before, after in pairwise(rows):
        if any(before[key] != after[key] for key in ("ladder", "queue", "control")):
            continue
        ratio = measure_nanoseconds(after) / measure_nanoseconds(before)
        if max(ratio, 1 / ratio) > STEP:
            found.append((before, after, ratio))
    return found


def build_example() -> Path:
    """Build the example that runs a cell and return its place."""
    command = ["cargo", "build", "--release", "--quiet", "-p", "dumbbell-sim", "--example", "counts"]
    subprocess.run(command, cwd=ROOT, check=True)
    return ROOT / "target" / "release" / "examples" / "counts"


def make_cell(row: Row) -> dict[str, Any]:
    """Return the cell of a row of figures, as the ladder ran it."""
    numbers = ("flows", "rate", "duration")
    return {key: int(row[key]) if key in numbers else row[key] for key in (*KEYS, "duration")}


def run(command: Sequence[str | Path], config: dict[str, Any]) -> tuple[dict[str, float], str]:
    """Run a configuration; return sums over its flows and the mean of the queue, and what was said beside them."""
    text = json.dumps(config, separators=(",", ":"))
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    said = json.loads(done.stdout)
    return said["flows"] | {"queue_mean": said["summary"]["backlog_mean_packets"]}, done.stderr


def count_cost(binary: Path, config: dict[str, Any]) -> dict[str, float]:
    """Return packets of a configuration, and instructions and misses in the model of caches."""
    valgrind = ["valgrind", "--tool=cachegrind", "--cachegrind-out-file=/dev/null", *where.CACHES]
    flows, said = run([*valgrind, binary], config)
    found = {"packets": flows["packets"]}
    for name, text in {"instructions": "I\\s+refs", "first": "D1\\s+misses", "last": "LLd misses"}.items():
        count = re.search(rf"{text}:\s+([\d,]+)", said)
        assert count is not None
        found[name] = float(count[1].replace(",", ""))
    return found


def count_row(binary: Path, row: Row) -> Row:
    """Return what a cell costs per packet without set-up and end, what those cost per flow, and what its flows did."""
    config = ladder.make_config(make_cell(row))
    did, _ = run([binary], config)
    # flows that are listed as one are the same, and read at once
    short = config | {"flows": [config["flows"][0] | {"count": len(config["flows"])}]}
    whole = count_cost(binary, short | ({"duration": config["duration"] // 2} if int(row["flows"]) < WHOLE else {}))
    nothing, set_up = count_cost(binary, short | {"duration": 1}), count_cost(binary, config | {"duration": 1})
    per = {name: (whole[name] - nothing[name]) / whole["packets"] for name in ("instructions", "first", "last")}
    return {
        **{key: row[key] for key in KEYS},
        "instructions": f"{per['instructions']:.0f}",
        "first": f"{per['first']:.1f}",
        "last": f"{per['last']:.2f}",
        "set_up": f"{set_up['instructions'] / int(row['flows']):.0f}",
        **{name: f"{did[name]:.0f}" for name in COUNTS},
    }


def read() -> dict[tuple[str, ...], Row]:
    """Return what has been counted, by cell."""
    if not FIGURES.exists():
        return {}
    with FIGURES.open(encoding="utf-8", newline="") as lines:
        return {tuple(row[key] for key in KEYS): row for row in csv.DictReader(lines)}


def main(again: Sequence[str]) -> None:
    """Count both ends of every step of the ladder, those of cells that have figures already only if asked to."""
    with ladder.FIGURES.open(encoding="utf-8", newline="") as lines:
        ends = {
            tuple(row[key] for key in KEYS): row for pair in find_steps(list(csv.DictReader(lines))) for row in pair[:2]
        }
    had = read()
    binary = build_example()
    asked = {key for key in ends if f"{key[1]},{key[2]},{key[3]}" in again}
    todo = sorted((ends[key] for key in ends if key in asked or key not in had), key=lambda row: int(row["flows"]))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in as_completed(pool.submit(count_row, binary, row) for row in todo):
            row = done.result()
            had[tuple(row[key] for key in KEYS)] = row
            print(*row.values(), flush=True)
            found = [had[key] for key in ends if key in had]
            with FIGURES.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(found)
    from benches import page

    page.write()


if __name__ == "__main__":
    main(sys.argv[1:])
