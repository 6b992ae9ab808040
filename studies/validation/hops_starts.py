"""Runs scenarios of traffic both ways and of two queues on Linux from many starts.

What they measure goes into references/linux-6.12-hops-starts.csv.

    python -m studies.validation.hops_starts [SCENARIO…] [--starts N]

Without scenarios: those whose figures are outside their bars against the single runs of linux-6.12-hops.csv. The
starts are those of the simulator's runs, seed by seed. Runs that the file already has are not repeated, and each one
is kept as it ends, so that this may be stopped at any time.
"""

import csv
import sys
from pathlib import Path

import polars as pl

import dumbbell
from dumbbell.published.by_flow import Row, Run

from . import hops
from .hops import HOP_NAMES, PREFIXES

_KEYS = (
    *("kernel", "scenario", "bottleneck.rate", "bottleneck.aqm", "reverse.rate", "reverse.aqm", "hop[0].rate"),
    *("hop[0].aqm", "hosts.ecn", "duration", "flow", "flows.cc", "flows.base_rtt", "flows.direction", "flows.route"),
)  # as in the file of single runs
COLUMNS = (
    *_KEYS[: _KEYS.index("flow")],
    "seed",
    *_KEYS[_KEYS.index("flow") :],
    *("start_s", "goodput_mbit", "rtt_mean_ms"),
    *(f"{prefix}{what}" for prefix in PREFIXES.values() for what in ("drops", "ce_marks")),
    *("ping_down_rtt_p99_ms", "ping_up_rtt_p99_ms"),
)


def measure(run: Run, seed: int) -> list[Row]:
    """Return the rows of one start of a scenario on Linux."""
    table = hops.make_experiment(run, starts=seed) | {"seeds": [seed]}
    found = dumbbell.run(table, engine="linux", jobs=1, progress=False)
    of_hop = {HOP_NAMES[row["hop"]]: row for row in found.hops.iter_rows(named=True)}
    queues = {
        f"{prefix}{what}": str(of_hop[name][what]) if name in of_hop else ""
        for name, prefix in PREFIXES.items()
        for what in ("drops", "ce_marks")
    }
    pings = found.flows.filter(pl.col("cc") == "ping")
    p99s = {row["direction"]: row["rtt_p99_ms"] for row in pings.iter_rows(named=True)}
    queues |= {f"ping_{way}_rtt_p99_ms": f"{p99s[way]:.3f}" if way in p99s else "" for way in ("down", "up")}
    flows = {row["flow"]: row for row in found.flows.iter_rows(named=True)}
    return [
        {"seed": str(seed), **{key: row[key] for key in _KEYS}}
        | {"start_s": f"{flows[number]['start_s']:.6f}", "goodput_mbit": f"{flows[number]['goodput_mbit']:.4f}"}
        | {"rtt_mean_ms": f"{flows[number]['rtt_mean_ms']:.3f}"}
        | queues
        for number, row in enumerate(run)
    ]


def main(arguments: list[str]) -> None:
    """Measure what is asked for and not there yet."""
    starts = int(arguments.pop(arguments.index("--starts") + 1)) if "--starts" in arguments else hops.LEAST_MANY
    wanted = [word for word in arguments if word != "--starts"] or hops.list_outside()
    known = hops.read_scenarios(hops.SINGLE)
    if unknown := [scenario for scenario in wanted if scenario not in known]:
        sys.exit(f"unknown scenario {unknown[0]}; {hops.SINGLE} has them")
    path = Path(hops.MANY)
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for scenario in wanted:
        for seed in range(1, starts + 1):
            with path.open(newline="", encoding="utf-8") as stream:  # which another process may have added to
                done = {(row["scenario"], row["seed"]) for row in csv.DictReader(stream)}
            if (scenario, str(seed)) in done:
                continue
            rows = measure(known[scenario][0], seed)
            with path.open("a", newline="", encoding="utf-8") as stream:
                csv.DictWriter(stream, COLUMNS, lineterminator="\n").writerows(rows)
            print(f"{scenario}, seed {seed}: done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
