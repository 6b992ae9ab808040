"""Many flows and short flows on Linux beside the simulator: the rest of docs/validation-linux.md.

A cell is a queue, a rate, a base RTT and a number of bulk flows or a size of short flows; means over runs.
Bars for many flows: goodput within 3 % of a fair share, RTT within 6 %, drops and marks together within 25 %; for short
flows: mean completion time within 5 %, 95th percentile within 15 %.

Completion times depend on the arrivals: the means of Linux's eight lists differ by up to a third. So the short flows
have the arrivals of the reference. What arrivals drawn here give (experiments/short-flows*.toml) stands beside.
"""

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

import polars as pl

import dumbbell
from dumbbell.published.compare import matches_qdisc, select_latest_engine
from dumbbell.results.store import Store

Key = tuple[Any, ...]

CONTROLS = ("cubic", "reno")
SHARED = 0.75  # a flow below this share of the median has company in its queue
FEW = 10  # up to so many flows, a run in which two share a queue is left out

MANY_HEAD = (
    "| flows | ECN | Mbit/s | base RTT ms | cc | goodput | Linux | error, % of a fair share | RTT ms | Linux | error % "
    "| drops and marks | Linux | agrees |\n|--:|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"
)
SHORT_HEAD = (
    "| size | queue | Mbit/s | base RTT ms | flows | mean ms | Linux | error % | P95 ms | Linux | error % "
    "| error of the mean %, arrivals drawn | agrees |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"
)


@dataclass
class Many:
    """One run of bulk flows: (control, goodput in Mbit/s, RTT in ms or None) of each flow, signals of the queue."""

    flows: list[tuple[str, float, float | None]] = field(default_factory=list)
    signals: float = 0.0

    def is_alone(self) -> bool:
        """Whether no two flows share a queue, as far as goodput tells; with more than `FEW` flows some always do."""
        goodputs = [goodput for _, goodput, _ in self.flows]
        return len(goodputs) > FEW or min(goodputs) > SHARED * median(goodputs)

    def average(self, control: str, place: int) -> float:
        """Return the mean of goodput (0) or RTT (1) over the flows of a control."""
        found = ((goodput, rtt)[place] for cc, goodput, rtt in self.flows if cc == control)
        return fmean(value for value in found if value is not None)


@dataclass(frozen=True)
class Short:
    """One short flow: its start, and how long it took, both in seconds; None if it was not over in time."""

    start: float
    completion: float | None


def find_percentile(values: list[float], share: float) -> float:
    """Return a percentile, interpolated between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


def read_rows(path: str | Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with Path(path).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def place_of(row: dict[str, str]) -> tuple[str, bool, float, float, float]:
    """Return queue, ECN, rate, base RTT and length of a row."""
    return row["qdisc"], row["ecn"] == "1", float(row["rate_mbit"]), float(row["delay_ms"]), float(row["seconds"])


def read_linux_many(path: str | Path) -> dict[Key, list[Many]]:
    """Return the runs of each cell of many flows."""
    runs: dict[Key, dict[str, Many]] = defaultdict(lambda: defaultdict(Many))
    for row in read_rows(path):
        run = runs[(int(row["flows"]), *place_of(row))][row["seed"]]
        rtt = float(row["rtt_ms"]) if row["rtt_ms"] else None
        run.flows.append((row["cc"], float(row["goodput_mbit"] or 0), rtt))
        run.signals += float(row["drops"] or 0) + float(row["marks"] or 0)
    return {cell: list(of_seed.values()) for cell, of_seed in runs.items()}


def read_linux_short(path: str | Path) -> dict[Key, dict[int, list[Short]]]:
    """Return the short flows of each list of each cell."""
    flows: dict[Key, dict[int, list[Short]]] = defaultdict(lambda: defaultdict(list))
    for row in read_rows(path):
        if row["size"]:
            completion = float(row["completion_s"]) if row["completion_s"] else None
            flows[(int(row["size"]), *place_of(row))][int(row["seed"])].append(Short(float(row["start_s"]), completion))
    return {cell: dict(lists) for cell, lists in flows.items()}


def list_finished(lists: dict[int, list[Short]]) -> list[float]:
    """Return the completion times of all flows that were over in time, seconds."""
    return [flow.completion for flows in lists.values() for flow in flows if flow.completion is not None]


def make_experiment(cell: Key, flows: list[Short], seeds: int = 5) -> dict[str, Any]:
    """Return an experiment with these arrivals; the bulk flow begins at a random moment of the first 10 ms."""
    size, qdisc, ecn, rate, delay, seconds = cell
    name, *words = qdisc.split()
    aqm = {"name": name, "limit": int(words[1])} if words[0] == "limit" else {"name": name, "ecn": words == ["ecn"]}
    flow = {"cc": "cubic", "base_rtt": f"{delay:g}ms"}
    short = [flow | {"size": f"{size}B", "start": f"{one.start:.6f}s"} for one in flows]
    return {
        "title": "Linux: short flows at given moments",
        "duration": f"{seconds:g}s",
        "seeds": list(range(1, seeds + 1)),
        "bottleneck": {"rate": f"{rate:g}Mbit", "shaper": "htb", "aqm": aqm},
        "hosts": {"ecn": ecn},
        "flows": [flow | {"start": {"uniform": ["0s", "10ms"]}}, *short],
        "record": {"series": False},
    }


def simulate_arrivals(linux: dict[Key, dict[int, list[Short]]]) -> dict[Key, list[float]]:
    """Return the completion times of the simulator with Linux's arrivals, seconds."""
    times: dict[Key, list[float]] = defaultdict(list)
    for cell, lists in linux.items():
        for flows in lists.values():
            measured = dumbbell.run(make_experiment(cell, flows)).flows.filter(pl.col("flow") > pl.col("flow").min())
            times[cell] += measured["completion_s"].drop_nulls().drop_nans().to_list()
    return dict(times)


def _answers(config: dict[str, Any], place: Key) -> bool:
    qdisc, ecn, rate, delay, seconds = place
    bottleneck, rtts = config["bottleneck"], {one["base_rtt"] for one in config["flows"] + config["web"]}
    return (
        matches_qdisc(qdisc, bottleneck["aqm"])
        and bottleneck["shaper"] == "htb"
        and config["hosts"]["ecn"] == ecn
        and bottleneck["rate"] == rate * 1e6
        and rtts == {delay * 1e6}
        and config["duration"] == seconds * 1e9
    )


def _is_many(config: dict[str, Any], flows: int) -> bool:
    return not config["web"] and sum(flow["count"] for flow in config["flows"]) == flows


def _is_short(config: dict[str, Any], size: int) -> bool:
    return len(config["web"]) == 1 and config["web"][0]["size"] == {"fixed": size}


def collect_simulated(
    results: str | Path, many: Iterable[Key], short: Iterable[Key]
) -> tuple[dict[Key, list[Many]], dict[Key, list[float]]]:
    """Return what the results file has for the cells of either kind."""
    with Store.open(results) as store:
        runs = store.read_table("runs").to_dicts()
        flows, shorts = store.read_table("flows").fill_nan(None), store.read_table("short_flows")
    configs = {row["key"]: json.loads(row["config"]) for row in runs}
    flows_of = {key: part.to_dicts() for (key,), part in flows.group_by("key", maintain_order=True)}
    times_of = {key: part["completion_s"].drop_nulls().drop_nans().to_list() for (key,), part in shorts.group_by("key")}

    def find_runs(kind: Any, cell: Key) -> list[dict[str, Any]]:
        def answers(config: dict[str, Any]) -> bool:
            return bool(kind(config, cell[0])) and _answers(config, cell[1:])

        return select_latest_engine([run for run in runs if answers(configs[run["key"]])])

    bulk: dict[Key, list[Many]] = {}
    for cell in many:
        bulk[cell] = []
        for run in find_runs(_is_many, cell):
            controls = [flow["cc"]["name"] for flow in configs[run["key"]]["flows"] for _ in range(flow["count"])]
            measured = zip(controls, flows_of[run["key"]], strict=True)
            rows = [(cc, flow["goodput_mbit"] or 0.0, flow["rtt_mean_ms"]) for cc, flow in measured]
            bulk[cell].append(Many(rows, sum(run[c] for c in run if c == "ce_marks" or c.startswith("drops_"))))
    completions = {cell: [t for run in find_runs(_is_short, cell) for t in times_of[run["key"]]] for cell in short}
    return bulk, completions


@dataclass(frozen=True)
class Verdict:
    """What is said of a cell: errors by flow or kind of flow, all relative, and whether it agrees."""

    name: str
    goodput: list[float]
    rtt: list[float]
    completion: list[float]
    agrees: bool


def compare_many(linux: dict[Key, list[Many]], sim: dict[Key, list[Many]]) -> tuple[list[str], list[Verdict]]:
    """Return the rows of the table of many flows, and the verdict on each cell."""
    rows, verdicts = [], []
    for cell, on_linux in linux.items():
        count, _, ecn, rate, delay, _ = cell
        sides = [[run for run in runs if run.is_alone()] for runs in (sim[cell], on_linux)]
        signals = [fmean(run.signals for run in side) for side in sides]
        same = abs(signals[0] - signals[1]) <= 0.25 * signals[1]
        errors: tuple[list[float], list[float]] = ([], [])
        lines, good = [], True
        for control in CONTROLS:
            goodput, rtt = ([fmean(run.average(control, place) for run in side) for side in sides] for place in (0, 1))
            off, rtt_off = (goodput[0] - goodput[1]) * count / rate, rtt[0] / rtt[1] - 1
            good &= abs(off) <= 0.03 and abs(rtt_off) <= 0.06
            errors[0].append(off)
            errors[1].append(rtt_off)
            lines.append(
                f"| {count} | {'on' if ecn else 'off'} | {rate:g} | {delay:g} | {control} "
                f"| {goodput[0]:.3f} | {goodput[1]:.3f} | {100 * off:+.1f} "
                f"| {rtt[0]:.1f} | {rtt[1]:.1f} | {100 * rtt_off:+.1f} | {signals[0]:.0f} | {signals[1]:.0f} "
            )
        name = f"{count} flows, FQ-CoDel, {rate:g} Mbit/s, {delay:g} ms, ECN {'on' if ecn else 'off'}"
        verdicts.append(Verdict(name, *errors, [], good and same))
        verdict = "yes" if good and same else "goodput, RTT" if not good else "drops and marks"
        rows += [f"{line}| {verdict} |" for line in lines]
    return rows, verdicts


def compare_short(
    linux: dict[Key, list[float]], sim: dict[Key, list[float]], drawn: dict[Key, list[float]]
) -> tuple[list[str], list[Verdict]]:
    """Return the rows of the table of short flows, and the verdict on each cell."""
    rows, verdicts = [], []
    for cell, times in linux.items():
        size, qdisc, _, rate, delay, _ = cell
        mean, p95 = (
            [1e3 * of(side) for side in (sim[cell], times)] for of in (fmean, lambda v: find_percentile(v, 0.95))
        )
        off, p95_off = mean[0] / mean[1] - 1, p95[0] / p95[1] - 1
        drawn_off = fmean(drawn[cell]) / fmean(times) - 1
        good = abs(off) <= 0.05, abs(p95_off) <= 0.15
        name = f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1000} kB"
        verdicts.append(Verdict(f"{name}, {qdisc}, {rate:g} Mbit/s, {delay:g} ms", [], [], [off, p95_off], all(good)))
        rows.append(
            f"| {name} | {qdisc} | {rate:g} | {delay:g} | {len(times)} "
            f"| {mean[0]:.1f} | {mean[1]:.1f} | {100 * off:+.1f} | {p95[0]:.1f} | {p95[1]:.1f} | {100 * p95_off:+.1f} "
            f"| {100 * drawn_off:+.1f} | {'yes' if all(good) else 'P95' if good[0] else 'mean'} |"
        )
    return rows, verdicts


def format_document(
    many_reference: str, short_reference: str, results: str
) -> tuple[str, list[Verdict], list[Verdict]]:
    """Return the tables as Markdown, the verdicts on many flows and those on short flows."""
    many, short = read_linux_many(many_reference), read_linux_short(short_reference)
    bulk, drawn = collect_simulated(results, many, short)
    rows, of_many = compare_many(many, bulk)
    times = {cell: list_finished(lists) for cell, lists in short.items()}
    short_rows, of_short = compare_short(times, simulate_arrivals(short), drawn)
    lines = [
        "\n## FQ-CoDel, many flows\n",
        f"{count_agreed(of_many)} cells agree: goodput within 3 % of a fair share, RTT within 6 %, drops and marks",
        "within 25 %. Half of the flows are CUBIC, half Reno; means over the flows of a control and over runs. Runs of",
        "5 and 10 flows in which two share a queue are left out on both sides: those in which one flow has less than",
        f"{SHARED} of the median goodput.\n",
        MANY_HEAD,
        *rows,
        "\n## Short flows against one CUBIC flow\n",
        f"{count_agreed(of_short)} cells agree: mean completion time within 5 %, 95th percentile within 15 %. Arrivals",
        "are those on Linux, five runs of each list. The last column is of arrivals that the simulator draws, 40 seeds:"
        "\nits lists differ from Linux's eight.\n",
        SHORT_HEAD,
        *short_rows,
    ]
    return "\n".join(lines) + "\n", of_many, of_short


def count_agreed(verdicts: list[Verdict]) -> str:
    """Return how many of how many cells agree."""
    return f"{sum(one.agrees for one in verdicts)} of {len(verdicts)}"
