"""Short flows against one CUBIC flow on Linux beside the simulator.

Completion times depend on the arrivals: the means of Linux's eight lists differ by up to a third. So the short flows
have the arrivals of the reference. What arrivals drawn here give (experiments/short-flows*.toml) stands beside.
"""

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import polars as pl

import dumbbell
from dumbbell.published import by_flow
from dumbbell.published.by_flow import Run, read_value
from dumbbell.published.compare import matches_qdisc, select_latest_engine
from dumbbell.results.store import Store

from .bars import Errors, is_within

Key = tuple[str, ...]
_KEYS = ("bottleneck.aqm", "hosts.ecn", "bottleneck.rate", "flows.base_rtt", "duration")


def find_percentile(values: list[float], share: float) -> float:
    """Return a percentile, interpolated between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


@dataclass(frozen=True)
class Judged:
    """Completion times of a cell in seconds: here with the arrivals of Linux, on Linux, and of arrivals drawn here."""

    cell: Key  # the size, and the keys of the run
    simulated: list[float]
    linux: list[float]
    drawn: list[float]

    @property
    def size(self) -> str:
        """The size of a flow."""
        size = read_value(self.cell[0])
        return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1000} kB"

    @property
    def place(self) -> tuple[str, float, float]:
        """Queue, rate in Mbit/s and base RTT in ms."""
        return self.cell[1], read_value(self.cell[3]) / 1e6, read_value(self.cell[4]) / 1e6

    @property
    def name(self) -> str:
        """The cell in few words."""
        qdisc, rate, delay = self.place
        return f"{self.size}, {qdisc}, {rate:g} Mbit/s, {delay:g} ms"

    @property
    def errors(self) -> Errors:
        """Errors of the mean and the 95th percentile."""
        mean = fmean(self.simulated) / fmean(self.linux) - 1
        return {"mean": [mean], "P95": [find_percentile(self.simulated, 0.95) / find_percentile(self.linux, 0.95) - 1]}

    @property
    def verdict(self) -> str:
        """Which bar the cell is outside of."""
        off = [measure for measure, found in self.errors.items() if not is_within("short-flows", {measure: found})]
        return off[0] if off else "yes"


def read_linux(path: str) -> dict[Key, list[Run]]:
    """Return the lists of short flows of each cell."""
    cells: dict[Key, list[Run]] = defaultdict(list)
    for run in by_flow.read_runs(path):
        short = [row for row in run if row["flows.size"]]
        cells[(short[0]["flows.size"], *(run[0][key] for key in _KEYS))].append(short)
    return dict(cells)


def list_finished(runs: list[Run]) -> list[float]:
    """Return the completion times of all flows that were over in time, seconds."""
    return [float(row["completion_s"]) for run in runs for row in run if row["completion_s"]]


def make_experiment(cell: Key, flows: Run, seeds: int = 5) -> dict[str, Any]:
    """Return an experiment with these arrivals; the bulk flow begins at a random moment of the first 10 ms."""
    size, qdisc, ecn, rate, delay, duration = cell
    name, *words = qdisc.split()
    aqm = {"name": name, "limit": int(words[1])} if words[0] == "limit" else {"name": name, "ecn": words == ["ecn"]}
    flow = {"cc": "cubic", "base_rtt": delay}
    short = [flow | {"size": size, "start": f"{row['start_s']}s"} for row in flows]
    return {
        "title": "Linux: short flows at given moments",
        "duration": duration,
        "seeds": list(range(1, seeds + 1)),
        "bottleneck": {"rate": rate, "shaper": "htb", "aqm": aqm},
        "hosts": {"ecn": ecn == "true"},
        "flows": [flow | {"start": {"uniform": ["0s", "10ms"]}}, *short],
        "record": {"series": False},
    }


def simulate_arrivals(linux: dict[Key, list[Run]]) -> dict[Key, list[float]]:
    """Return the completion times of the simulator with Linux's arrivals, seconds."""
    times: dict[Key, list[float]] = defaultdict(list)
    for cell, runs in linux.items():
        for flows in runs:
            measured = dumbbell.run(make_experiment(cell, flows)).flows.filter(pl.col("flow") > pl.col("flow").min())
            times[cell] += measured["completion_s"].drop_nulls().drop_nans().to_list()
    return dict(times)


def _answers(config: dict[str, Any], cell: Key) -> bool:
    size, qdisc, *values = cell
    bottleneck, rtts = config["bottleneck"], {one["base_rtt"] for one in config["flows"] + config["web"]}
    return (
        [web["size"] for web in config["web"]] == [{"fixed": read_value(size)}]
        and bottleneck["shaper"] == "htb"
        and len(rtts) == 1
        and [config["hosts"]["ecn"], bottleneck["rate"], *rtts, config["duration"]] == list(map(read_value, values))
        and matches_qdisc(qdisc, bottleneck["aqm"])
    )


def simulate_drawn_arrivals(results: str, cells: dict[Key, list[Run]]) -> dict[Key, list[float]]:
    """Return the completion times of the runs of a results file, whose arrivals are drawn, seconds."""
    with Store.open(results) as store:
        runs, shorts = store.read_table("runs").to_dicts(), store.read_table("short_flows")
    configs = {run["key"]: json.loads(run["config"]) for run in runs}
    times_of = {key: part["completion_s"].drop_nulls().drop_nans().to_list() for (key,), part in shorts.group_by("key")}
    return {
        cell: [
            time
            for run in select_latest_engine([run for run in runs if _answers(configs[run["key"]], cell)])
            for time in times_of[run["key"]]
        ]
        for cell in cells
    }


def judge(reference: str, results: str) -> list[Judged]:
    """Return every cell."""
    linux = read_linux(reference)
    here, drawn = simulate_arrivals(linux), simulate_drawn_arrivals(results, linux)
    return [Judged(cell, here[cell], list_finished(runs), drawn[cell]) for cell, runs in linux.items()]
