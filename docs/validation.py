"""What agrees with what: writes docs/validation-linux.md and, given the results of all commands, docs/validation.md.

python docs/validation.py linux.duckdb two.duckdb linux-l4s.duckdb linux-bbr.duckdb        make linux
the same, and sce.duckdb abe.duckdb                                                        make validation

One section of docs/validation.md is written by docs/engines.py (make agree), and stays as it is.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import agreement
import agreement_bbr
import agreement_flows
import agreement_l4s
import engines
import sections
from agreement import Cell, Judged

from dumbbell import by_flow
from dumbbell.compare import Figure, compare, latest_engine, read_reference, where
from dumbbell.store import Store

ROOT = Path(__file__).parent.parent
LINUX = str(ROOT / "references" / "linux-6.12.csv")
MANY, SHORT = (str(ROOT / "references" / f"linux-6.12-{name}.csv") for name in ("many", "short"))
L4S = str(ROOT / "references" / "linux-6.18-l4s.csv")
BBR = str(ROOT / "references" / "linux-bbr.csv")
SCE = str(ROOT / "references" / "sce.csv")
CLOSED_FORM = "Use of the link by a deterministic AIMD flow"
PUBLISHED = "SCE draft"
KERNELS = "Linux 6.1, 6.12"
TIES = "A packet then often waits exactly as long as COBALT allows, and how the clock rounds decides (lab book 24)."
RANDOM = (
    "Marks and drops of one flow are few and come by chance; DCTCP with ECT(1) at 10 Mbit/s locks at a window that "
    "single packets decide (lab book 31)."
)
LAB = (
    "Likely reasons: from 25 Mbit/s on the lab's hosts add 0.5 to 1 ms, which shows at 0 and 2 ms; up to 5 Mbit/s a "
    "window of a few segments falls into a cycle that depends on the kernel (lab book, SCE draft, one flow)."
)
STARTS = "Who starts first decides much of it, and one start is published (lab book 25)."
SHOWN = 5  # cells named of those that do not agree with a publication

BARS = {
    "A": "goodput of each flow within 2 % of the rate (two flows 3 %, many 3 % of a fair share), mean RTT within 6 %, "
    "drops and marks together within 25 %",
    "B": "mean completion time within 5 %, 95th percentile within 15 %",
    "C": "goodput of each flow within 5 % of the rate, mean RTT within 10 %",
    "D": "use of the link within 1 %",
    "E": "the first flow's share within 0.05 of both (one flow: goodput within 2 % of the rate), mean RTT within 6 %, "
    "marks and drops together within 25 %",
    "F": "one flow: goodput within 2 % of the rate, mean RTT within 6 %; two: the first flow's share within 0.06 of "
    "both, RTT within 8 %; 1 Gbit/s: use within 3 points, the share of a class within 0.08, RTT within 10 %",
}


@dataclass
class Row:
    """One line of the table: what was compared, and each cell that is outside its bar with its largest error."""

    what: str
    reference: str
    bar: str
    command: str
    why: str = ""  # what is known of the cells that are outside
    cells: int = 0
    errors: dict[str, list[float]] = field(default_factory=dict)
    outside: list[tuple[str, float, str]] = field(default_factory=list)  # cell, size of the error, what is off

    def add(self, name: str, errors: dict[str, Iterable[float]], agrees: bool, more: str = "") -> None:
        """Count a cell; errors are signed shares."""
        self.cells += 1
        worst = {}
        for measure, values in errors.items():
            found = list(values)
            self.errors.setdefault(measure, []).extend(map(abs, found))
            worst[measure] = max(found, key=abs)
        if not agrees:
            off = ", ".join(f"{measure} {100 * value:+.1f} %" for measure, value in worst.items()) + more
            self.outside.append((name, max(map(abs, worst.values())), off))

    def line(self) -> str:
        """Return the line of the table."""
        shown = "; ".join(
            f"{measure} {' / '.join(per_cent(quantile(values, share)) for share in (0.5, 0.9, 1))}"
            for measure, values in self.errors.items()
        )
        agree = f"{self.cells - len(self.outside)} of {self.cells}"
        return f"| {self.what} | {self.reference} | **{agree}** | {self.bar} | {shown} | `{self.command}` |"


def quantile(values: list[float], share: float) -> float:
    """Return a percentile, interpolated between neighbours."""
    return agreement_flows.percentile(values, share)


def per_cent(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.2f}" if value < 0.00995 else f"{100 * value:.1f}"


def place(cell: Cell) -> str:
    """Return the name of a cell."""
    ccs = " and ".join(str(cell[c]) for c in ("cc1", "cc2") if cell[c])
    queue = cell["qdisc"] if cell.get("queue") in (None, "cake") else cell["queue"]
    return f"{ccs}, {queue}, {cell['rate_mbit']:g} Mbit/s, {cell['delay_ms']:g} ms"


def linux_row(row: Row, cells: list[Judged]) -> Row:
    """Count cells of one and two flows on Linux."""
    for one in cells:
        errors = {"goodput": map(one.goodput, one.flows), "RTT": map(one.rtt, one.flows)}
        signals = "" if one.same else f", drops and marks {one.signals[0]:.0f} (Linux {one.signals[1]:.0f})"
        row.add(place(one.cell), errors, one.good and one.same, signals)
    return row


def of_linux(linux: str, two: str) -> tuple[str, list[Row]]:
    """Return docs/validation-linux.md and the rows of Linux."""

    def plain(cell: Cell) -> bool:
        return not cell["cc2"] and cell["queue"] in ("pfifo", "codel", "cake")

    tabled = agreement.judged(linux, LINUX, agreement.tabled)
    one = [cell for cell in tabled if not cell.cell["cc2"] and not plain(cell.cell)]
    pairs = [cell for cell in tabled if cell.cell["cc2"]]
    beside = agreement.judged(two, LINUX, lambda cell: bool(cell["cc2"]) and cell["queue"] == "cake")
    flows, many, short = agreement_flows.document(MANY, SHORT, linux)
    fixed = ("Linux 6.12", "A", "make linux")
    rows = [
        linux_row(Row("one flow: tail drop, CoDel, Cake", *fixed), agreement.judged(linux, LINUX, plain)),
        linux_row(Row("one flow: FQ-CoDel, PIE, FQ-PIE, RED", *fixed), one),
        linux_row(Row("CUBIC and Reno: CoDel, FQ-CoDel, PIE, FQ-PIE, RED", *fixed), pairs),
        linux_row(Row("pairs of CUBIC, Reno and DCTCP in one Cake queue", *fixed, TIES), beside),
    ]
    rows.append(Row("5, 10 and 50 flows: FQ-CoDel", *fixed))
    for verdict in many:
        rows[-1].add(verdict.name, {"goodput": verdict.goodput, "RTT": verdict.rtt}, verdict.agrees)
    what = "flows of 10 kB to 1 MB beside one CUBIC flow: tail drop, CoDel, FQ-CoDel"
    rows.append(Row(what, "Linux 6.12", "B", "make linux"))
    for verdict in short:
        errors = {"mean": [verdict.completion[0]], "P95": [verdict.completion[1]]}
        rows[-1].add(verdict.name, errors, verdict.agrees)
    return agreement.document(tabled) + flows, rows


def of_l4s(results: str) -> list[Row]:
    """Return the rows of DualPI2 on Linux 6.18."""
    with Store.open(results) as store:
        compared = by_flow.compare(store.table("runs"), store.table("flows"), by_flow.read(L4S))
    rows = [
        Row("classic flows and DCTCP, one and two: DualPI2", "Linux 6.18", "A", "make linux", RANDOM),
        Row("TCP Prague, alone and beside others: DualPI2", "Linux 6.18", "E", "make linux"),
    ]
    for cell, pairs in agreement_l4s.by_cell(compared).items():
        ccs = str(dict(cell)["ccs"])
        prague, flows = "prague" in ccs, 1 + ccs.count("+")
        bars = {"goodput_mbit": 0.02 if flows == 1 else 0.03, "share": 0.05, "rtt_ms": 0.06, "signals": 0.25}
        bars.pop("goodput_mbit" if prague and flows > 1 else "share")
        errors: dict[str, list[float]] = {}
        for (_, _, metric), pair in pairs.items():
            if metric in bars:
                errors.setdefault(metric, []).append(pair.error)
        agrees = all(abs(error) <= bars[metric] for metric, found in errors.items() for error in found)
        names = {"goodput_mbit": "goodput", "rtt_ms": "RTT", "signals": "marks and drops"}
        rows[prague].add(where(cell), {names.get(metric, metric): found for metric, found in errors.items()}, agrees)
    return rows


def of_bbr(results: str) -> list[Row]:
    """Return the rows of BBR on Linux; none, with a message, if its cells are not there."""
    if not Path(BBR).exists():
        print(f"{BBR}: no file; BBR is not compared with Linux")
        return []
    rows: dict[str, Row] = {}
    for one in agreement_bbr.judged(results, BBR)[0]:
        what, kind = one.cell.version.replace("bbr", "BBRv"), agreement_bbr.KINDS[one.cell.kind].split(",")[0]
        if not any("bbr" in cc for cc in one.cell.ccs):
            what = "DCTCP"
        row = rows.setdefault(f"{kind} {what}", Row(f"{what}, {kind}", KERNELS, "F", "make linux"))
        goodput, share, rtt = {"one flow": (0.02, 1, 0.06), "two flows": (1, 0.06, 0.08)}.get(kind, (0.03, 0.08, 0.10))
        errors = {"goodput": [one.use], "RTT": one.rtts if len(one.cell.ccs) == 2 else [one.rtt]}
        if one.share is not None and (kind == "two flows" or len(one.cell.classes) == 2):
            errors["share"] = [one.share]
        agrees = abs(one.use) <= goodput and all(abs(error) <= rtt for error in errors["RTT"])
        row.add(one.cell.name, errors, agrees and all(abs(error) <= share for error in errors.get("share", [])))
    return [row for _, row in sorted(rows.items())]


def of_sce(sce: str) -> list[Row]:
    """Return the rows of the SCE draft."""
    with Store.open(sce) as store:
        pairs = compare(store.table("runs"), store.table("flows"), read_reference(SCE)).pairs
    rows = [
        Row("one flow: Cake, SCE and not", PUBLISHED, "C", "make sce", LAB),
        Row("two flows: Cake, SCE and not", PUBLISHED, "C", "make sce", STARTS),
        Row("one flow: Reno and CUBIC alone", PUBLISHED, "C", "make sce"),
    ]
    errors = [(pair.figure, pair.error) for pair in pairs]
    count(rows, errors)
    plain = [(figure, error) for figure, error in errors if dict(figure.cell)["cc1"] in ("reno", "cubic")]
    count(rows[2:], [(figure, error) for figure, error in plain if not dict(figure.cell)["cc2"]])
    return rows


def count(rows: list[Row], errors: Iterable[tuple[Figure, float]]) -> None:
    """Count published cells: those of one flow in the first row, those of two in the second."""
    cells: dict[tuple, dict[str, list[float]]] = {}
    for figure, error in errors:
        measure = {"throughput_mbit": "goodput", "rtt_ms": "RTT"}.get(figure.metric)
        if measure:
            cells.setdefault(figure.cell, {}).setdefault(measure, []).append(error)
    for items, found in cells.items():
        good = all(abs(error) <= 0.05 for error in found.get("goodput", []))
        good &= all(abs(error) <= 0.10 for error in found.get("RTT", []))
        cell = dict(items)
        rows[bool(cell["cc2"])].add(place(cell), dict(found), good)


def linux_beside_sce() -> Row:
    """Return the row of Linux itself beside the draft, in the cells that were measured on it."""
    linux = {}
    for figure in read_reference(LINUX):
        cell = dict(figure.cell)
        if cell["qdisc"] == "cake" and not cell["cc2"]:
            measure = figure.metric.replace("goodput", "throughput")
            linux[cell["cc1"], cell["rate_mbit"], cell["delay_ms"], measure] = figure.value
    errors = []
    for figure in read_reference(SCE):
        cell = dict(figure.cell)
        key = cell["cc1"], cell["rate_mbit"], cell["delay_ms"], figure.metric
        if not cell["cc2"] and key in linux:
            scale = figure.value if figure.metric == "rtt_ms" else cell["rate_mbit"]
            errors.append((figure, (linux[key] - figure.value) / scale))
    row = Row("the same cells: Linux 6.12 itself, not the simulator", PUBLISHED, "C", "make validation")
    count([row], errors)
    return row


def utilisation(beta: float, depth: float) -> float:
    """Return the use of the link that theory gives a flow which keeps `beta` after a mark at `depth` BDPs of queue."""
    kept = 1 - beta * (1 + depth)
    return 1 - kept**2 / (2 * kept + (1 + depth) ** 2 - 1) if kept > 0 else 1.0


def of_theory(abe: str) -> Row:
    """Return the row of AIMD's closed form."""
    row = Row("one AIMD flow at a step: 5 reductions, 5 thresholds", "closed form", "D", "make validation")
    with Store.open(abe) as store:
        runs = latest_engine(store.table("runs").to_dicts())
    for run in runs:
        config = json.loads(run["config"])
        if run["title"] != CLOSED_FORM or config["hosts"]["ecn_reduction"] != "immediate":
            continue
        control, least = config["flows"][0]["cc"], config["bottleneck"]["aqm"]["min"]
        beta = control["beta_ecn"] if control["abe"] else 0.5
        depth = 0 if least == 1 else 8e9 * least / (config["bottleneck"]["rate"] * config["flows"][0]["base_rtt"])
        error = run["utilisation"] / utilisation(beta, depth) - 1
        row.add(f"beta {beta:g}, threshold {depth:g} BDP", {"use": [error]}, abs(error) <= 0.01)
    return row


def document(rows: list[Row], before: str = "") -> str:
    """Return docs/validation.md; `before` is the page so far, which has the section of the engines."""
    beside = sections.section(before, engines.HEADING) or f"## {engines.HEADING}\n\nNot measured: `make agree`."
    lines = [
        "# What agrees with what\n",
        "Written by `make validation`. [validation-linux.md](validation-linux.md) has every cell of Linux;",
        "[lab-book.md](lab-book.md) says how Linux was measured, what was off and what mended it.",
        "A cell is one queue, one set of congestion controls, one rate and one base RTT.",
        "Errors are median / p90 / worst in per cent: of the rate for goodput, of the reference otherwise.\n",
        "| compared | with | cells that agree | bar | errors | command |",
        "|---|---|--:|---|---|---|",
        *(row.line() for row in rows),
        "\nBars:\n",
        *(f"- {name}: {text}." for name, text in BARS.items()),
        f"\n{beside}\n",
        "## What does not agree\n",
        "The largest error of a flow is shown.\n",
    ]
    for row in rows:
        if not row.outside or (row.reference == PUBLISHED and not row.why):
            continue
        worst = sorted(row.outside, key=lambda one: -one[1])[:SHOWN]
        some = f", of which the worst {SHOWN}" if len(row.outside) > SHOWN else ""
        lines.append(
            f"**{row.what}** ({row.reference}): {len(row.outside)} of {row.cells}{some}. {row.why}".rstrip() + "\n"
        )
        lines += [*(f"- {name}: {off}" for name, _, off in worst), ""]
    lines += [
        "## Elsewhere\n",
        "- [findings/abe.md](findings/abe.md), [findings/sce.md](findings/sce.md): claims of papers, one by one.",
        "- lab-book.md: CUBIC with another beta on Linux; DualPI2's evaluation of 2021, whose data we may not ship.",
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def main(linux: str, two: str, l4s: str, bbr: str, *rest: str) -> None:
    """Write the documents."""
    text, rows = of_linux(linux, two)
    rows += of_l4s(l4s)
    rows += of_bbr(bbr)
    (ROOT / "docs" / "validation-linux.md").write_text(text, encoding="utf-8")
    if rest:
        sce, abe = rest
        rows += [*of_sce(sce), linux_beside_sce(), of_theory(abe)]
        page = ROOT / "docs" / "validation.md"
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        page.write_text(document(rows, before), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
