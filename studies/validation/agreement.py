"""One and two flows on Linux beside the simulator, and in how many cells they agree: docs/validation-linux.md.

A cell is a queue, congestion controls, rate and base RTT; seeds and starts are averaged, over the same starts on both
sides. Bars: goodput within 2 % of the rate (two flows: 3 % each) and RTT within 6 %; drops and marks within 25 %.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from dumbbell.published.compare import compare, read_reference
from dumbbell.results.store import Store

Cell = dict[str, Any]

HEAD = (
    "\n| queue | ECN | cc | Mbit/s | base RTT ms | goodput | Linux | error % of rate | RTT ms | Linux | error % "
    "| drops and marks | Linux |\n"
    "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)
PARTS: dict[str, Callable[[Cell], bool]] = {
    "One flow: pfifo, CoDel, Cake": lambda c: not c["cc2"] and c["queue"] in ("pfifo", "codel", "cake"),
    "One flow: FQ-CoDel, PIE, FQ-PIE, RED": lambda c: not c["cc2"] and c["queue"] not in ("pfifo", "codel", "cake"),
    "Two flows, CUBIC and Reno: CoDel, FQ-CoDel, PIE, FQ-PIE, RED": lambda c: c["cc2"] and c["queue"] != "cake",
}


def name_queue(qdisc: str) -> str:
    """Return the name of a tc line."""
    words = qdisc.split()
    if words[0] == "red" and words[4] == words[6]:
        return "red step"
    return "pie, rate estimator" if "dq_rate_estimator" in words else words[0]


@dataclass(frozen=True)
class Judged:
    """A cell: (simulated, Linux) of every measure and flow; marks and drops are of flow 0, the queue.

    `linux` has the value of each run on Linux.
    """

    cell: Cell
    measures: dict[tuple[str, int], tuple[float, float]]
    linux: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    @property
    def flows(self) -> tuple[int, ...]:
        """Numbers of the flows."""
        return (1, 2) if self.cell["cc2"] else (1,)

    def compute_goodput_error(self, flow: int) -> float:
        """Return the error of a flow's goodput as a share of the rate."""
        simulated, linux = self.measures["goodput_mbit", flow]
        return (simulated - linux) / float(self.cell["rate_mbit"])

    def compute_rtt_error(self, flow: int) -> float:
        """Return the relative error of a flow's RTT."""
        simulated, linux = self.measures["rtt_ms", flow]
        return simulated / linux - 1

    @property
    def signals(self) -> tuple[float, float]:
        """Drops and marks together, simulated and on Linux."""
        marks, drops = self.measures["marks", 0], self.measures["drops", 0]
        return marks[0] + drops[0], marks[1] + drops[1]

    @property
    def good(self) -> bool:
        """Whether goodput and RTT are within their bars."""
        bar = 0.03 if self.cell["cc2"] else 0.02
        return all(
            abs(self.compute_goodput_error(flow)) <= bar and abs(self.compute_rtt_error(flow)) <= 0.06
            for flow in self.flows
        )

    @property
    def same(self) -> bool:
        """Whether drops and marks are within their bar."""
        simulated, linux = self.signals
        return abs(simulated - linux) <= 0.25 * linux


def is_tabled(cell: Cell) -> bool:
    """Whether the cell is one of the tables."""
    controls = {cell["cc1"], cell["cc2"]} - {""}
    places = (cell["rate_mbit"], cell["delay_ms"])
    if not controls <= {"reno", "cubic"} or cell["seconds"] != 60:
        return False
    if cell["cc2"] or cell["queue"] not in ("pfifo", "codel", "cake"):
        return cell.get("shaper") == "htb" and places in ((10, 20), (10, 80), (50, 10), (50, 40))
    plain = ("cake", "codel ecn", "codel noecn", "pfifo limit 100")
    return places[0] in (10, 50) and places[1] in (10, 40, 80) and cell["qdisc"] in plain


def judge_cells(results: str, reference: str, wanted: Callable[[Cell], bool]) -> list[Judged]:
    """Return the cells that are wanted and that runs answer, in order."""
    figures = []
    for figure in read_reference(reference):
        cell = dict(figure.cell)
        if wanted(cell | {"queue": name_queue(cell["qdisc"])}):
            figures.append(figure)
    with Store.open(results) as store:
        pairs = compare(store.read_table("runs"), store.read_table("flows"), figures).pairs
    found: dict[tuple[Any, ...], dict[Any, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for pair in pairs:
        items = tuple(item for item in pair.figure.cell if item[0] != "stagger_ms")
        found[items][pair.figure.metric, pair.figure.flow].append((pair.simulated, pair.figure.value))
    cells = []
    for items, measures in sorted(found.items(), key=str):
        cell = dict(items)
        means = {m: (fmean(a for a, _ in values), fmean(b for _, b in values)) for m, values in measures.items()}
        if ("goodput_mbit", 1) in means:
            linux = {m: [value for _, value in values] for m, values in measures.items()}
            cells.append(Judged(cell | {"queue": name_queue(cell["qdisc"])}, means, linux))
    return cells


def format_document(cells: list[Judged]) -> str:
    """Return the count of cells that agree and the tables, as Markdown."""
    counts: dict[tuple[str, int], list[int]] = {}
    tables: dict[str, list[str]] = {title: [] for title in PARTS}
    for one in cells:
        cell = one.cell
        rows = next(rows for (_, holds), rows in zip(PARTS.items(), tables.values(), strict=True) if holds(cell))
        for flow in one.flows:
            (goodput, linux), (rtt, linux_rtt) = one.measures["goodput_mbit", flow], one.measures["rtt_ms", flow]
            rows.append(
                f"| {cell['queue']} | {'on' if cell['ecn'] else 'off'} | {cell[f'cc{flow}']} | {cell['rate_mbit']:g} "
                f"| {cell['delay_ms']:g} | {goodput:.2f} | {linux:.2f} | {100 * one.compute_goodput_error(flow):+.2f} "
                f"| {rtt:.2f} | {linux_rtt:.2f} | {100 * one.compute_rtt_error(flow):+.2f} "
                f"| {one.signals[0]:.0f} | {one.signals[1]:.0f} |"
            )
        count = counts.setdefault((cell["queue"], len(one.flows)), [0, 0, 0, 0])
        for place, holds in enumerate((True, one.good, one.same, one.good and one.same)):
            count[place] += holds
    lines = [
        "# CUBIC and Reno on Linux and in the simulator, cell by cell\n",
        "One and two flows, many and short flows; [validation.md](../studies/validation/README.md) counts the cells of "
        "other controls.",
        "Written by `dumbbell study page validation`; [lab-book.md](lab-book.md) says how Linux was measured.",
        "60 s, means over seeds and starts. Goodput in Mbit/s, its error as a share of the rate; RTT in ms.",
        "\n## Agreement\n",
        "| queue | flows | cells | goodput and RTT | drops and marks | both |\n|---|--:|--:|--:|--:|--:|",
    ]
    for (queue, flows), count in sorted(counts.items(), key=lambda one: (one[0][1], one[0][0])):
        lines.append(f"| {queue} | {flows} | " + " | ".join(map(str, count)) + " |")
    for title, rows in tables.items():
        lines += [f"\n## {title}", HEAD, *rows]
    return "\n".join(lines) + "\n"
