"""States of one BBR flow on Linux and in the simulator: read, put in order, compared."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import polars as pl

from dumbbell.study import Results, shipped

LINUX = "linux-bbr-traces"  # of references/
STATES = ("startup", "drain", "probe_down", "probe_cruise", "probe_refill", "probe_up", "probe_rtt")
PHASES = {1: "startup", 2: "drain", 3: "probe_rtt", 4: "probe_up", 5: "probe_down", 6: "probe_cruise"}
PHASES |= {7: "probe_refill"}
HIGH_GAIN = 739  # of BBRv1 in STARTUP, times 256
OPEN, CWR = 0, 2  # ca_state: without a loss or a SACK all that is not acknowledged is in flight
PROBES = 2
TOLERANCE = 2.0  # round trips
SHORT = 0.0205  # s; a state may come and go between two samples
LINES = ("bw", "cwnd", "in_flight", "short_term", "long_term", "srtt")

Changes = list[tuple[float, str]]


@dataclass(frozen=True)
class Cell:
    """What a trace is of."""

    version: str
    ecn: bool
    queue: str
    rate_mbit: float
    delay_ms: float

    @property
    def name(self) -> str:
        """The cell in few words."""
        answer = " with ECN" if self.ecn else ""
        version = self.version.replace("bbr", "BBRv")
        return f"{version}{answer}, {self.queue}, {self.rate_mbit:g} Mbit/s, {self.delay_ms:g} ms"

    @property
    def figure(self) -> str:
        """The name of its figure."""
        return f"bbr-trace-{self.version}{'-ecn' if self.ecn else ''}-{self.queue}-{self.rate_mbit:g}"

    @property
    def rtt(self) -> float:
        """Base RTT, s."""
        return self.delay_ms / 1e3


@dataclass
class Trace:
    """A trace: times, states and lines over time; `None` is what is not known or not set."""

    time: list[float]
    state: list[str]
    lines: dict[str, list[float | None]]

    def list_changes(self) -> Changes:
        """Return the states in order, each with the time of its first row."""
        found: Changes = []
        for time, state in zip(self.time, self.state, strict=True):
            if state and (not found or found[-1][1] != state):
                found.append((time, state))
        return found


def _find_state(row: dict[str, Any]) -> str:
    """Return the state that a sample of Linux tells of; BBRv1 tells its gains only."""
    if row["phase"] is not None:
        return PHASES.get(row["phase"], "")
    pacing, window = row["pacing_gain"], row["cwnd_gain"]
    if window == HIGH_GAIN:
        return "startup" if pacing == HIGH_GAIN else "drain"
    if window == 256:
        return "probe_rtt"
    return "probe_up" if pacing > 256 else "probe_down" if pacing < 256 else "probe_cruise"


def read_linux() -> dict[Cell, Trace]:
    """Return the traces of Linux."""
    rows: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for row in pl.read_csv(shipped.list_references()[LINUX], infer_schema_length=None).iter_rows(named=True):
        cell = Cell(row["version"], row["ecn"] == 1, row["qdisc"], float(row["rate_mbit"]), float(row["delay_ms"]))
        rows[cell].append(row)
    traces = {}
    for cell, of_cell in rows.items():
        lines: dict[str, list[float | None]] = {
            "bw": [row["bw_Bps"] * 8e-6 for row in of_cell],
            "cwnd": [row["cwnd"] for row in of_cell],
            "in_flight": [row["unacked"] if row["ca_state"] in (OPEN, CWR) else None for row in of_cell],
            "short_term": [row["inflight_lo"] for row in of_cell],
            "long_term": [row["inflight_hi"] for row in of_cell],
            "srtt": [row["rtt_us"] / 1e3 for row in of_cell],
        }
        traces[cell] = Trace([row["t_s"] for row in of_cell], [_find_state(row) for row in of_cell], lines)
    return traces


def collect_simulated(results: Results, cells: set[Cell]) -> dict[Cell, list[Trace]]:
    """Return the traces of the simulator, one per seed."""
    rows = results.frame("trace")
    by_run = {key: frame for (key,), frame in rows.sort("time_s", maintain_order=True).group_by("key")}
    found: dict[Cell, list[Trace]] = defaultdict(list)
    keys = {"cc": "flows[0].cc.name", "ecn": "flows[0].cc.ecn", "rate": "bottleneck.rate", "rtt": "flows[0].base_rtt"}
    keys |= {"queue": "bottleneck.aqm.name", "threshold": "bottleneck.aqm.ce_threshold"}
    for run in results.tidy("runs", keys).sort("seed").iter_rows(named=True):
        queue = run["queue"] if run["threshold"] is None else "step"
        cell = Cell(run["cc"], bool(run["ecn"]), queue, run["rate"], run["rtt"])
        if cell in cells:
            found[cell].append(_trace(by_run[run["key"]]))
    return found


def _trace(frame: pl.DataFrame) -> Trace:
    columns = ("bw_mbit", "cwnd", "in_flight", "inflight_shortterm", "inflight_longterm", "srtt_ms")
    lines = {
        name: frame[column].cast(pl.Float64).fill_nan(None).to_list()
        for name, column in zip(LINES, columns, strict=True)
    }
    return Trace(frame["time_s"].to_list(), frame["state"].to_list(), lines)


def cut_after_probes(changes: Changes) -> Changes:
    """Return the changes through startup and the first probes, with what comes after the last of them."""
    ups = 0
    for i, (_, state) in enumerate(changes):
        ups += state == "probe_up"
        if ups == PROBES and state not in ("probe_up", "probe_down"):
            return changes[: i + 1]
    return changes


def align_changes(wanted: Changes, mine: Changes) -> list[tuple[float, float, str]] | None:
    """Return the changes that both have, (Linux, simulator, state), or None if the order differs.

    Between two samples a state of Linux may come and go; one that short may be missing on either side.
    """
    pairs = []
    i = j = 0
    while i < len(wanted) and j < len(mine):
        if wanted[i][1] == mine[j][1]:
            pairs.append((wanted[i][0], mine[j][0], wanted[i][1]))
            i, j = i + 1, j + 1
        elif j + 1 < len(mine) and mine[j + 1][0] - mine[j][0] < SHORT:
            j += 1
        elif i + 1 < len(wanted) and wanted[i + 1][0] - wanted[i][0] < SHORT:
            i += 1
        else:
            return None
    return pairs if i == len(wanted) else None


@dataclass
class Timing:
    """How a run differs from Linux within startup and each probe, in round trips, and the waits before the probes."""

    within: list[tuple[float, str]] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)  # Linux, simulator, s

    @property
    def worst(self) -> tuple[float, str]:
        """The largest difference within startup and probes, and where."""
        off, at = max(self.within, key=lambda one: abs(one[0]))
        return abs(off), at


def compare_times(cell: Cell, pairs: list[tuple[float, float, str]]) -> Timing:
    """Compare the times of changes. Each probe starts after a random wait, so its clock starts with it."""
    starts = "probe_up" if cell.version == "bbr1" else "probe_refill"
    found = Timing()
    ahead = 0.0
    for (before, mine_before, _), (theirs, mine, state) in pairwise(pairs):
        if state == starts and (cell.version != "bbr1" or not found.waits):
            found.waits.append((theirs - before, mine - mine_before))
            ahead = mine - theirs
        else:
            found.within.append(((mine - theirs - ahead) / cell.rtt, f"{state} at {theirs:.2f} s"))
    return found


def judge(cell: Cell, trace: Trace, runs: list[Trace]) -> tuple[dict[str, Any], list[dict[str, Any]], Trace]:
    """Compare the runs of a cell with Linux; return its row, a row for each wait, and the run to draw.

    `within` is the largest difference in startup and probes of the seed that is nearest, in round trips; `beyond` how
    far Linux's waits lie outside those of the seeds. The run to draw has the order, and all its times, waits too, are
    nearest.
    """
    wanted = cut_after_probes(trace.list_changes())
    found = [(run, compare_times(cell, pairs)) for run in runs if (pairs := align_changes(wanted, run.list_changes()))]
    row: dict[str, Any] = {
        "cell": cell.name,
        "version": cell.version,
        "rate": cell.rate_mbit,
        "rtt": cell.delay_ms,
        "seeds": len(runs),
        "order": len(found),
    }
    if not found:
        return row | {"within": math.inf, "at": "order", "near": 0, "near_two": 0, "beyond": math.inf}, [], runs[0]
    best = min((one for _, one in found), key=lambda one: one.worst[0])
    waits: list[dict[str, Any]] = []
    for i, (theirs, _) in enumerate(best.waits):
        mine = sorted(one.waits[i][1] for _, one in found if i < len(one.waits))
        beyond = max(mine[0] - theirs, theirs - mine[-1], 0.0) / cell.rtt
        waits.append(
            {"cell": cell.name, "probe": i + 1, "linux": theirs, "low": mine[0], "high": mine[-1], "beyond": beyond}
        )
    row |= {"within": best.worst[0], "at": best.worst[1]}
    row |= {"near": sum(one.worst[0] <= 1 for _, one in found)}
    row |= {"near_two": sum(one.worst[0] <= TOLERANCE for _, one in found)}
    row |= {"beyond": max((one["beyond"] for one in waits), default=0.0)}

    def measure_difference(one: Timing) -> float:
        return max([one.worst[0], *[abs(mine - theirs) / cell.rtt for theirs, mine in one.waits]])

    return row, waits, min(found, key=lambda one: measure_difference(one[1]))[0]
