"""States of one BBR flow beside those of real Linux: prints which sequences agree, draws some side by side.

python docs/findings_bbr_traces.py RESULTS TRACES [PAGE]

RESULTS holds runs of experiments/linux/bbr-traces.toml. TRACES is a CSV of samples of one flow each, with a row at
least every 40 ms and within 10 ms after a change of state: version, ecn (its own answer to ECN, 0 or 1), qdisc (pfifo
or step), rate_mbit, delay_ms, t_s, cwnd, unacked, rtt_us, min_rtt_us, pacing_gain, cwnd_gain (times 256), bw_Bps,
inflight_lo, inflight_hi and, but for BBRv1, phase as tcp_bbr_info has it. Table and figures are written as PAGE and
beside it, the table into bbr.md there too; without a page it is printed.
"""

import csv
import json
import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from questions import fill

from dumbbell.compare import latest_engine
from dumbbell.figures.canvas import save
from dumbbell.store import Store

STATES = ("startup", "drain", "probe_down", "probe_cruise", "probe_refill", "probe_up", "probe_rtt")
COLOURS = dict(zip(STATES, ("#4477aa", "#66ccee", "#228833", "#dddddd", "#ccbb44", "#ee6677", "#aa3377"), strict=True))
PHASES = {"1": "startup", "2": "drain", "3": "probe_rtt", "4": "probe_up", "5": "probe_down", "6": "probe_cruise"}
PHASES |= {"7": "probe_refill"}
HIGH_GAIN = "739"  # of BBRv1 in STARTUP, times 256
PROBES = 2
TOLERANCE = 2.0  # round trips
SHORT = 0.0205  # s; a state may come and go between two samples
FRAME_PER_PAYLOAD = 1514 / 1448
SHOWN_S = {"10": 2.0, "50": 8.0}  # by rate


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
        return f"{self.version}{answer}, {self.queue}, {self.rate_mbit:g} Mbit/s, {self.delay_ms:g} ms"

    @property
    def rtt(self) -> float:
        """Base RTT, s."""
        return self.delay_ms / 1e3


@dataclass
class Trace:
    """Columns over time; `None` in bounds that are not set."""

    time: list[float]
    state: list[str]
    lines: dict[str, list[float]]

    def changes(self) -> list[tuple[float, str]]:
        """Return the states in order, each with the time of its first row."""
        found: list[tuple[float, str]] = []
        for time, state in zip(self.time, self.state, strict=True):
            if state and (not found or found[-1][1] != state):
                found.append((time, state))
        return found


def state_of(row: dict[str, str]) -> str:
    """Return the state that a sample of Linux tells of; BBRv1 tells its gains only."""
    if row["phase"]:
        return PHASES.get(row["phase"], "")
    pacing, window = int(row["pacing_gain"]), row["cwnd_gain"]
    if window == HIGH_GAIN:
        return "startup" if row["pacing_gain"] == HIGH_GAIN else "drain"
    if window == "256":
        return "probe_rtt"
    return "probe_up" if pacing > 256 else "probe_down" if pacing < 256 else "probe_cruise"


def read(path: str) -> dict[Cell, Trace]:
    """Return the traces of Linux."""
    rows: dict[Cell, list[dict[str, str]]] = defaultdict(list)
    with Path(path).open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            cell = Cell(
                row["version"], row["ecn"] == "1", row["qdisc"], float(row["rate_mbit"]), float(row["delay_ms"])
            )
            rows[cell].append(row)

    def number(text: str) -> float:
        return float(text) if text else math.nan

    traces = {}
    for cell, of_cell in rows.items():
        lines = {
            "bw": [number(row["bw_Bps"]) * 8e-6 for row in of_cell],
            "cwnd": [number(row["cwnd"]) for row in of_cell],
            "in flight (Linux: outstanding)": [number(row["unacked"]) for row in of_cell],
            "short-term bound": [number(row["inflight_lo"]) for row in of_cell],
            "long-term bound": [number(row["inflight_hi"]) for row in of_cell],
            "smoothed RTT": [number(row["rtt_us"]) / 1e3 for row in of_cell],
        }
        traces[cell] = Trace([float(row["t_s"]) for row in of_cell], [state_of(row) for row in of_cell], lines)
    return traces


def simulated(results: str, cells: set[Cell]) -> dict[Cell, list[Trace]]:
    """Return the traces of the simulator, one a seed."""
    with Store.open(results) as store:
        runs = latest_engine(store.table("runs").to_dicts())
        rows = store.table("trace")
    by_run = {key: frame for (key,), frame in rows.sort("time_s", maintain_order=True).group_by("key")}
    found: dict[Cell, list[Trace]] = defaultdict(list)
    for run in sorted(runs, key=lambda one: one["seed"]):
        cell = _cell_of(json.loads(run["config"]))
        if cell in cells:
            found[cell].append(_trace(by_run[run["key"]]))
    return found


def _cell_of(config: dict[str, Any]) -> Cell:
    flow, aqm = config["flows"][0], config["bottleneck"]["aqm"]
    queue = "step" if aqm.get("ce_threshold") is not None else aqm["name"]
    rate, delay = config["bottleneck"]["rate"] / 1e6, flow["base_rtt"] / 1e6
    return Cell(flow["cc"]["name"], bool(flow["cc"].get("ecn")), queue, rate, delay)


def _trace(frame: pl.DataFrame) -> Trace:
    names = {
        "bw": "bw_mbit",
        "cwnd": "cwnd",
        "in flight (Linux: outstanding)": "in_flight",
        "short-term bound": "inflight_shortterm",
        "long-term bound": "inflight_longterm",
        "smoothed RTT": "srtt_ms",
    }
    lines = {name: frame[column].cast(pl.Float64).to_list() for name, column in names.items()}
    return Trace(frame["time_s"].to_list(), frame["state"].to_list(), lines)


def through_probes(changes: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the changes through startup and the first probes, with what comes after the last of them."""
    ups = 0
    for i, (_, state) in enumerate(changes):
        ups += state == "probe_up"
        if ups == PROBES and state not in ("probe_up", "probe_down"):
            return changes[: i + 1]
    return changes


def aligned(linux: list[tuple[float, str]], mine: list[tuple[float, str]]) -> list[tuple[float, float, str]] | None:
    """Return the changes that both have, (Linux, simulator, state), or None if the order differs.

    Between two samples a state of Linux may come and go; one that short may be missing on either side.
    """
    pairs = []
    i = j = 0
    while i < len(linux) and j < len(mine):
        if linux[i][1] == mine[j][1]:
            pairs.append((linux[i][0], mine[j][0], linux[i][1]))
            i, j = i + 1, j + 1
        elif j + 1 < len(mine) and mine[j + 1][0] - mine[j][0] < SHORT:
            j += 1
        elif i + 1 < len(linux) and linux[i + 1][0] - linux[i][0] < SHORT:
            i += 1
        else:
            return None
    return pairs if i == len(linux) else None


@dataclass
class Timing:
    """How a run differs from Linux within startup and each probe, in round trips, and the waits before the probes."""

    within: list[tuple[float, str]]
    waits: list[tuple[float, float]]  # Linux, simulator, s


def timing(cell: Cell, pairs: list[tuple[float, float, str]]) -> Timing:
    """Compare the times of changes. Each probe begins after a random wait, so that its clock starts with it."""
    begins = "probe_up" if cell.version == "bbr1" else "probe_refill"
    found = Timing([], [])
    ahead = 0.0
    for i, (theirs, mine, state) in enumerate(pairs[1:], 1):
        random = state == begins and (cell.version != "bbr1" or not found.waits)
        if random:
            found.waits.append((theirs - pairs[i - 1][0], mine - pairs[i - 1][1]))
            ahead = mine - theirs
        else:
            found.within.append(((mine - theirs - ahead) / cell.rtt, f"{state} at {theirs:.2f} s"))
    return found


@dataclass
class Verdict:
    """A cell: how many seeds have the order of Linux, the seed that is nearest, and its largest difference."""

    cell: Cell
    seeds: int
    same_order: int
    nearest: Trace
    worst: float  # round trips
    at: str
    waits: str

    @property
    def holds(self) -> bool:
        """Whether order and times are those of Linux."""
        return self.same_order > 0 and self.worst <= TOLERANCE


def judge(cell: Cell, linux: Trace, runs: list[Trace]) -> Verdict:
    """Hold the runs of a cell against Linux."""
    wanted = through_probes(linux.changes())
    found = [(run, timing(cell, pairs)) for run in runs if (pairs := aligned(wanted, run.changes()))]
    if not found:
        return Verdict(cell, len(runs), 0, runs[0], math.inf, "order", "-")
    run, best = min(found, key=lambda one: max(abs(off) for off, _ in one[1].within))
    worst, at = max(best.within, key=lambda one: abs(one[0]))
    worst = abs(worst)
    spans = []
    for i, (theirs, _) in enumerate(best.waits):
        mine = sorted(one.waits[i][1] for _, one in found if i < len(one.waits))
        beyond = max(mine[0] - theirs, theirs - mine[-1], 0.0) / cell.rtt
        spans.append(f"{theirs:.2f} ({mine[0]:.2f} to {mine[-1]:.2f})")
        if beyond > worst:
            worst, at = beyond, f"wait before probe {i + 1}"
    return Verdict(cell, len(runs), len(found), run, worst, at, ", ".join(spans))


def table(verdicts: list[Verdict]) -> str:
    """Return the verdicts as Markdown."""
    lines = [
        f"Through startup and {PROBES} probes, of the seed that is nearest to Linux. A probe begins after a wait",
        "that is drawn at random: within a probe, times count from its begin; of the wait, Linux's must lie among",
        "those of the seeds.\n",
        "| run | seeds in Linux's order | largest difference, round trips | at | waits in s: Linux (seeds) | agrees |",
        "|---|--:|--:|---|---|---|",
    ]
    for one in verdicts:
        worst = "-" if math.isinf(one.worst) else f"{one.worst:.2f}"
        verdict = "yes" if one.holds else "**no**"
        lines.append(
            f"| {one.cell.name} | {one.same_order} of {one.seeds} | {worst} | {one.at} | {one.waits} | {verdict} |"
        )
    lines.append(f"\n{sum(one.holds for one in verdicts)} of {len(verdicts)} agree.")
    return "\n".join(lines)


def draw(cell: Cell, linux: Trace, mine: Trace, until: float) -> Figure:
    """Draw states, rate, windows and RTT of both side by side."""
    figure = Figure(figsize=(11, 7), layout="constrained")
    panels = figure.subplots(4, 2, sharex="col", sharey="row", height_ratios=(0.35, 1, 1.4, 1))
    bounds = {
        "cwnd": "#222222",
        "in flight (Linux: outstanding)": "#999999",
        "short-term bound": "#ee6677",
        "long-term bound": "#4477aa",
    }
    for column, (title, trace) in enumerate((("Linux", linux), ("simulator", mine))):
        states, rate, windows, rtt = panels[:, column]
        states.set_title(title, fontsize=10)
        changes = [one for one in trace.changes() if one[0] < until]
        for (start, state), (end, _) in zip(changes, [*changes[1:], (until, "")], strict=True):
            states.axvspan(start, end, color=COLOURS[state], linewidth=0)
        states.set_yticks([])
        shown = [i for i, time in enumerate(trace.time) if time <= until]
        times = [trace.time[i] for i in shown]
        rate.step(times, [trace.lines["bw"][i] for i in shown], where="post", color="#222222", linewidth=1)
        rate.axhline(cell.rate_mbit / FRAME_PER_PAYLOAD, color="#999999", linestyle="--", linewidth=0.8)
        for name, colour in bounds.items():
            values = [trace.lines[name][i] for i in shown]
            windows.step(times, values, where="post", color=colour, linewidth=1, label=name)
        rtt.plot(times, [trace.lines["smoothed RTT"][i] for i in shown], color="#222222", linewidth=1)
        rtt.set_xlabel("time, s")
        rtt.set_xlim(0, until)
        for axes in (rate, windows, rtt):
            axes.set_ylim(bottom=0)
            axes.grid(color="#eeeeee")
    panels[0, 0].set_ylabel("state")
    panels[1, 0].set_ylabel("bw, Mbit/s")
    panels[2, 0].set_ylabel("segments")
    panels[3, 0].set_ylabel("smoothed RTT, ms")
    panels[2, 1].legend(fontsize=8, loc="upper right")
    used = [state for state in STATES if state in linux.state or state in mine.state]
    figure.legend(
        handles=[Patch(color=COLOURS[state], label=state) for state in used],
        loc="outside lower center",
        ncols=7,
        fontsize=8,
    )
    figure.suptitle(cell.name, fontsize=11)
    return figure


# runs that the page shows
DRAWN = ("bbr1, pfifo, 10", "bbr1, pfifo, 50", "bbr2, pfifo, 10", "bbr2, pfifo, 50", "bbr2 with ECN, step, 10")
DRAWN += ("bbr2 with ECN, step, 50", "bbr3, pfifo, 10", "bbr3, pfifo, 50")
HEAD = """# BBR's states beside real Linux

One flow of BBRv1 and v2 on Linux 6.1 and of v3 on Linux 6.12, User-Mode Linux on a virtual clock, beside the simulator:
its states through startup and the first two probes, over tail drop (100 packets) and over a step in time at 1 ms. What
the flow believes of its path is read from `TCP_CC_INFO` every 20 to 40 ms and after each change, so that Linux's times
are up to 10 ms late. "Outstanding" is what is not acknowledged cumulatively, also what is lost or SACKed. Made by

    dumbbell run experiments/linux/bbr-traces.toml -o bbr-traces.duckdb
    python docs/findings_bbr_traces.py bbr-traces.duckdb TRACES docs/findings/bbr-traces.md

"""


def main(results: str, traces: str, page: str = "") -> None:
    """Print the verdicts, or write the page with its figures."""
    if not Path(traces).exists():
        print(f"{traces}: no file; nothing is compared")
        return
    linux = read(traces)
    runs = simulated(results, set(linux))
    verdicts = [judge(cell, linux[cell], runs[cell]) for cell in linux if cell in runs]
    if not page:
        print(table(verdicts))
        return
    text = HEAD + table(verdicts) + "\n"
    for one in verdicts:
        cell = one.cell
        if not cell.name.startswith(DRAWN):
            continue
        until = SHOWN_S[f"{cell.rate_mbit:g}"]
        answer = "-ecn" if cell.ecn else ""
        name = f"bbr-trace-{cell.version}{answer}-{cell.queue}-{cell.rate_mbit:g}.png"
        save(draw(cell, linux[cell], one.nearest, until), Path(page).parent / name)
        text += (
            f"\n## {cell.name}\n\n![States, rate, windows and RTT of Linux and of the simulator: {cell.name}]({name})\n"
        )
    Path(page).write_text(text)
    joined = Path(page).with_name("bbr.md")
    joined.write_text(fill(joined.read_text(), {"traces": table(verdicts)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
