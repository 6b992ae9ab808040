"""Writes docs/validation-linux.md: cells of CUBIC and Reno one by one."""

from collections.abc import Sequence

from . import short_flows
from .bars import Judged
from .short_flows import find_percentile

_HEAD = (
    "\n| queue | ECN | cc | Mbit/s | base RTT ms | goodput | Linux | error % of rate | RTT ms | Linux | error % "
    "| drops and marks | Linux |\n"
    "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)
_MANY_HEAD = (
    "| flows | ECN | Mbit/s | base RTT ms | cc | goodput | Linux | error, % of a fair share | RTT ms | Linux | error % "
    "| drops and marks | Linux | agrees |\n|--:|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"
)
_SHORT_HEAD = (
    "| size | queue | Mbit/s | base RTT ms | flows | mean ms | Linux | error % | P95 ms | Linux | error % "
    "| error of the mean %, arrivals drawn | agrees |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"
)
_PARTS = (
    "One flow: pfifo, CoDel, Cake",
    "One flow: FQ-CoDel, PIE, FQ-PIE, RED",
    "Two flows, CUBIC and Reno: CoDel, FQ-CoDel, PIE, FQ-PIE, RED",
)


def name_of_many(one: Judged, flows: int) -> str:
    """Return a cell of many flows in few words."""
    cell = one.cell
    ecn = "on" if cell["ecn"] else "off"
    return f"{flows} flows, FQ-CoDel, {cell['rate_mbit']:g} Mbit/s, {cell['rtts_ms']} ms, ECN {ecn}"


def format_verdict(one: Judged, flows: int) -> str:
    """Return which bars a cell of many flows is outside of."""
    return "goodput, RTT" if not one.is_good(1 / flows) else "yes" if one.same else "drops and marks"


def _format_figures(one: Judged, flow: int, places: tuple[int, int, int], share: float = 1) -> str:
    """Return goodput, RTT and signals with their errors; `places` are decimals of goodput, RTT and errors."""
    (goodput, linux), (rtt, linux_rtt) = one.average("goodput_mbit", flow), one.average("rtt_ms", flow)
    first, second, third = places
    return (
        f"| {goodput:.{first}f} | {linux:.{first}f} | {100 * one.compute_goodput_error(flow, share):+.{third}f} "
        f"| {rtt:.{second}f} | {linux_rtt:.{second}f} | {100 * one.compute_rtt_error(flow):+.{third}f} "
        f"| {one.signals[0]:.0f} | {one.signals[1]:.0f} |"
    )


def write_many(one: Judged, flows: int) -> list[str]:
    """Return the rows of a cell of many flows."""
    place = f"{flows} | {'on' if one.cell['ecn'] else 'off'} | {one.cell['rate_mbit']:g} | {one.cell['rtts_ms']}"
    return [
        f"| {place} | {cc} {_format_figures(one, flow, (3, 1, 1), 1 / flows)} {format_verdict(one, flows)} |"
        for flow, cc in zip(one.flows, ("cubic", "reno"), strict=True)
    ]


def write_short(one: short_flows.Judged) -> str:
    """Return the row of a cell of short flows."""
    sides = one.simulated, one.linux
    means, p95s = [1e3 * sum(side) / len(side) for side in sides], [1e3 * find_percentile(side, 0.95) for side in sides]
    drawn = sum(one.drawn) / len(one.drawn) * 1e3 / means[1] - 1
    qdisc, rate, delay = one.place
    (mean,), (p95,) = one.errors.values()
    return (
        f"| {one.size} | {qdisc} | {rate:g} | {delay:g} | {len(one.linux)} "
        f"| {means[0]:.1f} | {means[1]:.1f} | {100 * mean:+.1f} | {p95s[0]:.1f} | {p95s[1]:.1f} | {100 * p95:+.1f} "
        f"| {100 * drawn:+.1f} | {one.verdict} |"
    )


def write(cells: list[Judged], many: list[tuple[Judged, int]], short: Sequence[short_flows.Judged]) -> str:
    """Return the count of cells that agree and the tables, as Markdown."""
    counts: dict[tuple[str, int], list[int]] = {}
    tables: dict[str, list[str]] = {title: [] for title in _PARTS}
    for one in cells:
        cell = one.cell
        title = _PARTS[2 if cell["cc2"] else cell["queue"] not in ("pfifo", "codel", "cake")]
        for flow in one.flows:
            place = f"{cell['queue']} | {'on' if cell['ecn'] else 'off'} | {cell[f'cc{flow}']} | {cell['rate_mbit']:g}"
            tables[title].append(f"| {place} | {cell['delay_ms']:g} {_format_figures(one, flow, (2, 2, 2))}")
        count = counts.setdefault((cell["queue"], len(one.flows)), [0, 0, 0, 0])
        for number, holds in enumerate((True, one.is_good(), one.same, one.is_good() and one.same)):
            count[number] += holds
    agree = sum(format_verdict(*one) == "yes" for one in many), sum(one.verdict == "yes" for one in short)
    lines = [
        "# CUBIC and Reno on Linux and in the simulator, cell by cell\n",
        "This page lists one and two flows, many and short flows; [What agrees with what]"
        "(../studies/validation/README.md) counts "
        "the cells of other controls.",
        "`dumbbell study page validation` writes this page; the [lab book](lab-book.md) describes how Linux was",
        "measured. Runs last 60 s; values are means over seeds and starts. Goodput is in Mbit/s, its error is a",
        "share of the rate; RTT is in ms.",
        "\n## Agreement\n",
        "| queue | flows | cells | goodput and RTT | drops and marks | both |\n|---|--:|--:|--:|--:|--:|",
    ]
    for (queue, flows), count in sorted(counts.items(), key=lambda one: (one[0][1], one[0][0])):
        lines.append(f"| {queue} | {flows} | " + " | ".join(map(str, count)) + " |")
    for title, rows in tables.items():
        lines += [f"\n## {title}", _HEAD, *rows]
    lines += [
        "\n## FQ-CoDel, many flows\n",
        f"{agree[0]} of {len(many)} cells agree: goodput within 3 % of a fair share, RTT within 6 %, drops and marks",
        "within 25 %. Half of the flows are CUBIC, half Reno; means over the flows of a control and over runs. Runs of",
        "5 and 10 flows in which two share a queue are left out on both sides: those in which one flow gets less than",
        "0.75 of the median goodput.\n",
        _MANY_HEAD,
        *(line for one in many for line in write_many(*one)),
        "\n## Short flows against one CUBIC flow\n",
        f"{agree[1]} of {len(short)} cells agree: mean completion time within 5 %, 95th percentile within 15 %. "
        "Arrivals",
        "are those on Linux, with five runs of each list. The last column is for arrivals that the simulator draws (40 "
        "seeds),\nso its lists differ from the eight on Linux.\n",
        _SHORT_HEAD,
        *map(write_short, short),
    ]
    return "\n".join(lines) + "\n"
