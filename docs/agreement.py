"""Cells of Linux beside the simulator, and in how many of them they agree: docs/validation-linux.md, by `make linux`.

A cell is a queue, congestion controls, rate and base RTT; seeds and starts are averaged, over the same starts on both
sides. Bars: goodput within 2 % of the rate (two flows: 3 % each) and RTT within 6 %; drops and marks within 25 %.
"""

import sys
from collections import defaultdict
from statistics import fmean

from dumbbell.compare import compare, read_reference
from dumbbell.store import Store

HEAD = (
    "\n| queue | ECN | cc | Mbit/s | base RTT ms | goodput | Linux | error % of rate | RTT ms | Linux | error % "
    "| drops and marks | Linux |\n"
    "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)
PARTS = {
    "One flow: pfifo, CoDel, Cake": lambda c: not c["cc2"] and c["queue"] in ("pfifo", "codel", "cake"),
    "One flow: FQ-CoDel, PIE, FQ-PIE, RED": lambda c: not c["cc2"] and c["queue"] not in ("pfifo", "codel", "cake"),
    "Two flows, CUBIC and Reno: CoDel, FQ-CoDel, PIE, FQ-PIE, RED": lambda c: c["cc2"] and c["queue"] != "cake",
}


def queue_of(qdisc: str) -> str:
    """Return the name of a tc line."""
    words = qdisc.split()
    if words[0] == "red" and words[4] == words[6]:
        return "red step"
    return "pie, rate estimator" if "dq_rate_estimator" in words else words[0]


def wanted(cell: dict) -> bool:
    """Whether the cell is one of the tables."""
    controls = {cell["cc1"], cell["cc2"]} - {""}
    places = (cell["rate_mbit"], cell["delay_ms"])
    if not controls <= {"reno", "cubic"} or cell["seconds"] != 60:
        return False
    if cell["cc2"] or cell["queue"] not in ("pfifo", "codel", "cake"):
        return cell.get("shaper") == "htb" and places in ((10, 20), (10, 80), (50, 10), (50, 40))
    plain = ("cake", "codel ecn", "codel noecn", "pfifo limit 100")
    return places[0] in (10, 50) and places[1] in (10, 40, 80) and cell["qdisc"] in plain


def cells(results: list[str], reference: str) -> dict[tuple, dict]:
    """Return (simulated, Linux) of every measure of every cell."""
    found: dict[tuple, dict] = defaultdict(lambda: defaultdict(list))
    figures = []
    for figure in read_reference(reference):
        cell = dict(figure.cell)
        if wanted(cell | {"queue": queue_of(cell["qdisc"])}):
            figures.append(figure)
    for path in results:
        with Store.open(path) as store:
            pairs = compare(store.table("runs"), store.table("flows"), figures).pairs
        for pair in pairs:
            cell = {k: v for k, v in pair.figure.cell if k != "stagger_ms"}
            found[tuple(cell.items())][pair.figure.metric, pair.figure.flow].append((pair.simulated, pair.figure.value))
    return {
        c: {m: tuple(map(fmean, zip(*v, strict=True))) for m, v in measures.items()} for c, measures in found.items()
    }


def main(reference: str, *results: str) -> None:
    """Print the tables."""
    counts: dict[tuple, list[int]] = {}
    tables: dict[str, list[str]] = {title: [] for title in PARTS}
    for items, measures in sorted(cells(list(results), reference).items(), key=str):
        cell = dict(items)
        cell["queue"] = queue_of(cell["qdisc"])
        title = next((t for t, holds in PARTS.items() if holds(cell)), None)
        if title is None or ("goodput_mbit", 1) not in measures:
            continue
        rate, flows = cell["rate_mbit"], (1, 2) if cell["cc2"] else (1,)
        signals = [sum(measures[name, 0][side] for name in ("marks", "drops")) for side in (0, 1)]
        good = True
        for flow in flows:
            (goodput, linux), (rtt, linux_rtt) = measures["goodput_mbit", flow], measures["rtt_ms", flow]
            off, rtt_off = (goodput - linux) / rate, rtt / linux_rtt - 1
            good &= abs(off) <= (0.03 if cell["cc2"] else 0.02) and abs(rtt_off) <= 0.06
            tables[title].append(
                f"| {cell['queue']} | {'on' if cell['ecn'] else 'off'} | {cell[f'cc{flow}']} | {rate:g} "
                f"| {cell['delay_ms']:g} | {goodput:.2f} | {linux:.2f} | {100 * off:+.2f} "
                f"| {rtt:.2f} | {linux_rtt:.2f} | {100 * rtt_off:+.2f} "
                f"| {signals[0]:.0f} | {signals[1]:.0f} |"
            )
        same = abs(signals[0] - signals[1]) <= 0.25 * signals[1]
        count = counts.setdefault((cell["queue"], len(flows)), [0, 0, 0, 0])
        for place, holds in enumerate((True, good, same, good and same)):
            count[place] += holds
    print("# Every measured cell of Linux beside the simulator\n")
    print("Written by `make linux`; [lab-book.md](lab-book.md) says how Linux was measured.")
    print("60 s, means over seeds and starts. Goodput in Mbit/s, its error as a share of the rate; RTT in ms.")
    print("\n## Agreement\n")
    print("| queue | flows | cells | goodput and RTT | drops and marks | both |\n|---|--:|--:|--:|--:|--:|")
    for (queue, flows), count in sorted(counts.items(), key=lambda one: (one[0][1], one[0][0])):
        print(f"| {queue} | {flows} | " + " | ".join(map(str, count)) + " |")
    for title, rows in tables.items():
        print("\n".join((f"\n## {title}", HEAD, *rows)))


if __name__ == "__main__":
    main(*sys.argv[1:])
