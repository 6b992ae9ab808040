"""Traffic both ways and over two queues on Linux beside the simulator (references/linux-6.12-hops.csv).

A run is a scenario with Linux's own starts. Where flows share a queue, who starts when decides, on Linux as here: so
besides the run with those starts there are several that differ from them by up to 10 ms, and means over them are
compared with the mean of Linux's runs of the scenario; flows that are alike count together. Bars: goodput within 3 %
of the rate of the slowest hop of its route, RTT within 6 %, drops and marks of each queue together within 25 %, P99 of
pings within 15 %. Scenarios that references/linux-6.12-hops-starts.csv has are compared start by start with that file
instead: a figure also agrees if the difference of both means is within its 95 % interval.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import polars as pl

import dumbbell
from dumbbell.published import by_flow
from dumbbell.published.by_flow import Row, Run, read_value
from dumbbell.results.student import compute_t_quantile
from dumbbell.study import align_table

_REFERENCES = Path(__file__).parent / "references"
SINGLE = str(_REFERENCES / "linux-6.12-hops.csv")  # a run or a few of every scenario
MANY = str(_REFERENCES / "linux-6.12-hops-starts.csv")  # many starts of some scenarios
STARTS = 12
LEAST_MANY = 24  # starts on Linux, from which on they stand for a distribution
_SPREAD_MS = 10
_BUFFER = f"{32 << 20}B"
# On the machine of the reference the memory of a pure ACK that it sends itself counts as 2 B (`skb_set_tcp_pure_ack`):
# ACKs never fill Cake's memory there.
_NO_LIMIT = "1GB"
QUEUES = {"first": "bottleneck", "reverse": "reverse", "second": "hop[0]"}  # and the table of their keys
PREFIXES = {"first": "", "reverse": "reverse_", "second": "second_"}  # of the columns of each queue
HOP_NAMES = {"bottleneck": "first", "second": "second", "reverse": "reverse"}  # in results
_ROUTES = {"bottleneck": "first", "second": "second", "bottleneck+second": "long"}


@dataclass(frozen=True)
class Compared:
    """One figure of a scenario: of which flows or queue, here and on Linux, and its error as the bar has it."""

    scenario: str
    cell: str
    set: str
    what: str
    where: str
    here: float
    linux: float
    error: float
    bar: float
    runs: int = 1  # of Linux
    interval: float = 0.0  # half of that of the difference, as the error has it

    @property
    def agrees(self) -> bool:
        """Whether the error is within the bar, or the interval of the difference has 0."""
        return abs(self.error) <= max(self.bar, self.interval)


def read_scenarios(path: str | Path) -> dict[str, list[Run]]:
    """Return Linux's runs of each scenario."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in by_flow.read_runs(path):
        runs[run[0]["scenario"]].append(run)
    return dict(runs)


def describe_route(row: Row) -> str:
    """Return the direction of a flow, or which hops it passes."""
    return row["flows.direction"] or _ROUTES[row["flows.route"]]


def _group(row: Row) -> str:
    return f"{row['flows.cc']}, {describe_route(row)}"


def _describe_queues(row: Row) -> dict[str, tuple[str, str]]:
    """Return rate and queue discipline of each hop that a run has."""
    return {name: (row[f"{key}.rate"], row[f"{key}.aqm"]) for name, key in QUEUES.items() if row[f"{key}.aqm"]}


def _parse_queue(text: str, *, back: bool = False) -> dict[str, Any]:
    name, *words = text.split()
    aqm: dict[str, Any] = {"name": name}
    if "limit" in words:
        aqm["limit"] = int(words[words.index("limit") + 1])
    if name in ("codel", "pie"):
        aqm["ecn"] = "ecn" in words
    if name == "cake":
        aqm |= {"diffserv": "besteffort", "ack_filter": "on" if "ack-filter" in words else "off"}
        aqm |= {"memlimit": _NO_LIMIT} if back else {}
    return aqm


def _make_hop(rate: str, qdisc: str, *, back: bool = False) -> dict[str, Any]:
    return {"rate": rate, "shaper": "htb", "aqm": _parse_queue(qdisc, back=back)}


def make_experiment(run: Run, *, starts: int = 0) -> dict[str, Any]:
    """Return an experiment with the flows of a run of Linux: its starts, or `starts` runs with others nearby."""
    first = run[0]
    rtt, queues = first["flows.base_rtt"], _describe_queues(first)
    table: dict[str, Any] = {
        "title": "Linux: traffic both ways, two queues",
        "duration": first["duration"],
        "seeds": list(range(1, starts + 1)) or [1],
        "bottleneck": _make_hop(*queues["first"]),
        "hosts": {"ecn": read_value(first["hosts.ecn"]), "send_buffer": _BUFFER, "receive_buffer": _BUFFER},
        "flows": [],
        "record": {"series": False},
    }
    if "reverse" in queues:
        table["reverse"] = _make_hop(*queues["reverse"], back=True)
    if "second" in queues:
        table["hop"] = [{"name": "second", **_make_hop(*queues["second"])}]
    for row in run:
        flow: dict[str, Any] = {"cc": row["flows.cc"], "base_rtt": rtt}
        start = max(0.0, float(row["start_s"]))
        last = start + _SPREAD_MS / 1000
        flow["start"] = {"uniform": [f"{start:.6f}s", f"{last:.6f}s"]} if starts else f"{start:.6f}s"
        if row["flows.route"]:
            flow["route"] = row["flows.route"].split("+")
        else:
            flow["direction"] = row["flows.direction"]
        table["flows"].append(flow)
    if first["ping_up_rtt_p99_ms"]:
        ping = {"rate": "7840bit", "size": "98B", "echo": True, "base_rtt": rtt}
        table["udp"] = [ping | {"start": "10ms"}, ping | {"start": "60ms", "direction": "up"}]
    return table


@dataclass(frozen=True)
class Measured:
    """Of each run: goodput in Mbit/s and RTT in ms by control and route, drops and marks by queue, P99 of pings."""

    goodput: dict[str, list[float]]
    rtt: dict[str, list[float]]
    signals: dict[str, list[float]]
    pings: dict[str, list[float]]


def measure_linux(runs: list[Run]) -> Measured:
    """Return what Linux's runs of a scenario measured."""
    groups = dict.fromkeys(map(_group, runs[0]))

    def list_means(column: str, group: str) -> list[float]:
        return [fmean(float(row[column]) for row in run if _group(row) == group) for run in runs]

    firsts = [run[0] for run in runs]
    signals = {
        name: [float(row[f"{prefix}drops"]) + float(row[f"{prefix}ce_marks"]) for row in firsts]
        for name, prefix in PREFIXES.items()
        if firsts[0][f"{prefix}drops"]
    }
    p99s = {way: f"ping_{way}_rtt_p99_ms" for way in ("down", "up")}
    return Measured(
        {group: list_means("goodput_mbit", group) for group in groups},
        {group: list_means("rtt_mean_ms", group) for group in groups},
        {name: signals[name] for name in ("first", "second", "reverse") if name in signals},
        {way: [float(row[column]) for row in firsts] for way, column in p99s.items() if firsts[0][column]},
    )


def measure_simulator(run: Run, starts: int) -> Measured:
    """Return what the simulator's runs of a scenario measured."""
    found = dumbbell.run(make_experiment(run, starts=starts))
    flows, hops = found.flows, found.hops
    tcp = flows.filter(~pl.col("cc").is_in(["udp", "ping"]))
    names = dict(enumerate(map(_group, run)))
    tcp = tcp.with_columns(group=pl.col("flow").replace_strict(names))

    def group_means(frame: pl.DataFrame, key: str, value: pl.Expr) -> dict[str, list[float]]:
        means = frame.group_by("key", key, maintain_order=True).agg(value.mean().alias("value"))
        return {str(name): part["value"].to_list() for (name,), part in means.group_by(key, maintain_order=True)}

    signals = group_means(hops, "hop", pl.col("drops") + pl.col("ce_marks"))
    return Measured(
        group_means(tcp, "group", pl.col("goodput_mbit")),
        group_means(tcp, "group", pl.col("rtt_mean_ms")),
        {HOP_NAMES[hop]: values for hop, values in signals.items()},
        group_means(flows.filter(pl.col("cc") == "ping"), "direction", pl.col("rtt_p99_ms")),
    )


def find_rates(row: Row) -> dict[str, float]:
    """Return the rate of the slowest hop of each route, Mbit/s."""
    rates = {name: read_value(rate) / 1e6 for name, (rate, _) in _describe_queues(row).items()}
    first, second, reverse = (rates.get(name, math.inf) for name in ("first", "second", "reverse"))
    return {"down": first, "up": reverse, "first": first, "second": second, "long": min(first, second)}


def _describe_flows(run: Run) -> str:
    """Return the congestion controls of each route."""
    routes: dict[str, list[str]] = defaultdict(list)
    for row in run:
        routes[describe_route(row)].append(row["flows.cc"])
    return "; ".join(f"{name}:{'+'.join(ccs)}" for name, ccs in routes.items())


def _compute_interval(one: list[float], other: list[float]) -> float:
    """Return half of the 95 % interval of the difference of two means, after Welch; 0 if a side has one value."""
    if min(len(one), len(other)) < 2:
        return 0.0
    parts = [variance(values) / len(values) for values in (one, other)]
    if not sum(parts):
        return 0.0
    freedom = sum(parts) ** 2 / sum(v**2 / (len(values) - 1) for v, values in zip(parts, (one, other), strict=True))
    return compute_t_quantile(freedom, 0.95) * math.sqrt(sum(parts))


def compare(scenario: str, runs: list[Run], starts: int = 0, many: list[Run] | None = None) -> list[Compared]:
    """Compare a scenario: its first run with Linux's starts, or means over `starts` others with the mean of all.

    With `many`, Linux's runs from other starts, those are compared, and the runs here have the same starts.
    """
    if many:
        linux, sim = measure_linux(many), measure_simulator(runs[0], len(many))
    else:
        linux, sim = measure_linux(runs if starts else runs[:1]), measure_simulator(runs[0], starts)
    row, rates = runs[0][0], find_rates(runs[0][0])
    queues = [f"{qdisc} {rate.removesuffix('Mbit')} Mbit/s" for rate, qdisc in _describe_queues(row).values()]
    cell = f"{' and '.join(queues)}, {row['flows.base_rtt'].removesuffix('ms')} ms, {_describe_flows(runs[0])}"
    found = []

    def add(what: str, where: str, ours: list[float], theirs: list[float], scale: float, bar: float) -> None:
        mean, reference = fmean(ours), fmean(theirs)
        error = (mean - reference) / scale if scale else math.inf if mean else 0.0
        interval = _compute_interval(ours, theirs) / scale if many and scale else 0.0
        found.append(
            Compared(scenario, cell, row["set"], what, where, mean, reference, error, bar, len(theirs), interval)
        )

    for group, goodput in linux.goodput.items():
        add("goodput", group, sim.goodput[group], goodput, rates[group.rpartition(", ")[2]], 0.03)
        add("RTT", group, sim.rtt[group], linux.rtt[group], fmean(linux.rtt[group]), 0.06)
    for queue, counts in linux.signals.items():
        add("drops and marks", queue, sim.signals[queue], counts, fmean(counts), 0.25)
    for way, p99s in linux.pings.items():
        add("ping P99", way, sim.pings[way], p99s, fmean(p99s), 0.15)
    return found


def read_many_starts() -> dict[str, list[Run]]:
    """Return Linux's runs from many starts, of the scenarios that have enough of them, with seeds from 1 on."""
    if not Path(MANY).exists():
        return {}
    measured = {}
    for scenario, runs in read_scenarios(MANY).items():
        of_seed = {int(run[0]["seed"]): run for run in runs}
        if len(of_seed) >= LEAST_MANY and sorted(of_seed) == list(range(1, len(of_seed) + 1)):
            measured[scenario] = [of_seed[seed] for seed in sorted(of_seed)]
    return measured


def list_outside() -> list[str]:
    """Return the scenarios with a figure outside its bar against the single runs, those with most of them first."""
    counts = {}
    for scenario, runs in read_scenarios(SINGLE).items():
        counts[scenario] = sum(not one.agrees for one in compare(scenario, runs, STARTS))
    return sorted((scenario for scenario, count in counts.items() if count), key=lambda one: -counts[one])


SETS = {
    "both": "the same queue both ways",
    "asym": "download with upload, asymmetric link",
    "rrul": "four flows each way and pings",
    "lot": "two queues, flows over both and over one",
}
WHATS = ("goodput", "RTT", "drops and marks", "ping P99")
_HEAD = [
    *("first queue, Mbit/s", "reverse", "second", "base RTT ms", "ECN", "flows", "what", "of"),
    *("here", "Linux", "runs of Linux", "error %", "interval of it %", "agrees"),
]


def compare_everything(path: str | Path, starts: int = STARTS) -> tuple[list[Compared], str]:
    """Compare every scenario; return the figures, and all of them as Markdown, set by set."""
    found: list[Compared] = []
    lines: dict[str, list[list[str]]] = {name: [] for name in SETS}
    many = read_many_starts()
    for scenario, runs in read_scenarios(path).items():
        row = runs[0][0]
        queues = _describe_queues(row)
        place = [" ".join(queues[q]).replace("Mbit", "") if q in queues else "-" for q in QUEUES]
        place += [row["flows.base_rtt"].removesuffix("ms"), "on" if read_value(row["hosts.ecn"]) else "off"]
        place.append(_describe_flows(runs[0]))
        for one in compare(scenario, runs, starts, many.get(scenario)):
            found.append(one)
            interval = f"{100 * one.interval:.1f}" if one.interval else "-"
            figures = [f"{one.here:.4g}", f"{one.linux:.4g}", str(one.runs), f"{100 * one.error:+.1f}", interval]
            lines[one.set].append([*place, one.what, one.where, *figures, "yes" if one.agrees else "**no**"])
    words = (0, 1, 2, 4, 5, 6, 7, 12)
    parts = [
        f"\n## {text[0].upper()}{text[1:]}\n\n{align_table(_HEAD, lines[name], words=words)}"
        for name, text in SETS.items()
    ]
    counted = [[SETS[name], *(_share(found, name, what) for what in WHATS)] for name in SETS]
    counted.append(["all", *(_share(found, None, what) for what in WHATS)])
    return found, "\n".join([align_table(["set", *WHATS], counted), *parts]) + "\n"


def _share(found: list[Compared], name: str | None, what: str) -> str:
    of = [one.agrees for one in found if one.what == what and name in (None, one.set)]
    return f"{sum(of)} of {len(of)}" if of else "-"


def write_page(path: str | Path, starts: int = STARTS) -> tuple[list[Compared], str]:
    """Return what was compared, and docs/validation-hops.md."""
    found, tables = compare_everything(path, starts)
    text = [
        "# Traffic both ways and two queues: simulator and Linux",
        "",
        "`dumbbell study page validation` writes this page. Each value is a mean over the flows of one control and",
        "route, or over one queue. Goodput agrees within 3 % of the rate of the slowest hop of the route, RTT within",
        "6 %, drops and marks together within 25 %, P99 of pings within 15 %. Linux 6.12 ran most scenarios once,",
        f"some two or four times. Simulated values are means over {starts} runs whose starts differ from Linux's by",
        f"up to {_SPREAD_MS} ms, because the order of starts matters where flows share a queue (lab book 53).",
        "Scenarios outside a tolerance in this comparison ran on Linux again: *runs of Linux* is the number of",
        "starts, and the simulator uses the same starts. There a value also agrees if the 95 % interval of the",
        "difference of the two means (after Welch) contains 0.",
        "",
        tables,
    ]
    return found, "\n".join(text)
