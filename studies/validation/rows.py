"""Counts the cells that agree: simulator against Linux, against publications, against theory."""

import csv
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from dumbbell.published import by_flow
from dumbbell.published.compare import Figure, compare, format_cell, read_reference, select_latest_engine
from dumbbell.results.store import Store
from dumbbell.study import shipped

from . import agreement, agreement_bbr, agreement_flows, agreement_hops, agreement_l4s
from .agreement import Cell, Judged

LINUX_PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation-linux.md"
HOPS_PAGE = LINUX_PAGE.with_name("validation-hops.md")
NAMES = ("linux-6.12", "linux-6.12-many", "linux-6.12-short", "linux-6.12-hops", "linux-6.18-l4s", "linux-bbr", "sce")
LINUX, MANY, SHORT, HOPS, L4S, BBR, SCE = (str(shipped.list_references()[name]) for name in NAMES)
CLOSED_FORM = "Use of the link by a deterministic AIMD flow"
PUBLISHED = "SCE draft"
KERNELS = "Linux 6.1, 6.12"

# the bar that is the same for all cells: of the rate, of the goodput of all, of the reference
UNIFORM = {"goodput": 0.02, "share": 0.02, "RTT": 0.06}


@dataclass(frozen=True)
class Measured:
    """The runs of the reference behind one cell: how many, and how far they lie apart.

    `goodput` is the largest minus the smallest as a share of the rate, `rtt` the same of mean RTTs as a share of their
    mean; None where there is one run.
    """

    runs: int = 1
    goodput: float | None = None
    rtt: float | None = None

    @classmethod
    def from_runs(cls, goodputs: Sequence[float], rtts: Sequence[float]) -> "Measured":
        """Return the spread of runs: goodputs as shares of the rate, and mean RTTs."""
        if len(goodputs) < 2:
            return cls(len(goodputs))
        return cls(len(goodputs), max(goodputs) - min(goodputs), (max(rtts) - min(rtts)) / fmean(rtts))

    @classmethod
    def find_widest(cls, found: "Iterable[Measured]") -> "Measured":
        """Return the largest spread of several figures of the same runs."""
        several = list(found)
        spreads = [
            [one for one in values if one is not None]
            for values in zip(*((m.goodput, m.rtt) for m in several), strict=True)
        ]
        return cls(max(one.runs for one in several), *(max(values, default=None) for values in spreads))


@dataclass
class Row:
    """One line of the table: what was compared, and each cell that is outside its bar with its largest error."""

    name: str
    what: str
    reference: str
    bar: str
    command: str
    why: str = ""  # what is known of the cells that are outside
    cells: int = 0
    uniform: int = 0  # cells within UNIFORM
    measured: list[tuple[str, Measured]] = field(default_factory=list)
    errors: dict[str, list[float]] = field(default_factory=dict)
    outside: list[tuple[str, float, str]] = field(default_factory=list)  # cell, size of the error, what is off

    def add(
        self,
        name: str,
        errors: dict[str, list[float]],
        agrees: bool,
        more: str = "",
        measured: Measured = Measured(),
    ) -> None:
        """Count a cell; errors are signed shares."""
        self.cells += 1
        self.measured.append((name, measured))
        worst = {}
        self.uniform += all(abs(error) <= UNIFORM.get(m, math.inf) for m, found in errors.items() for error in found)
        for measure, values in errors.items():
            self.errors.setdefault(measure, []).extend(map(abs, values))
            worst[measure] = max(values, key=abs)
        if not agrees:
            off = ", ".join(f"{measure} {100 * value:+.1f} %" for measure, value in worst.items()) + more
            self.outside.append((name, max(map(abs, worst.values())), off))


def place(cell: Cell) -> str:
    """Return the name of a cell."""
    ccs = " and ".join(str(cell[c]) for c in ("cc1", "cc2") if cell[c])
    queue = cell["qdisc"] if cell.get("queue") in (None, "cake") else cell["queue"]
    return f"{ccs}, {queue}, {cell['rate_mbit']:g} Mbit/s, {cell['delay_ms']:g} ms"


def make_linux_row(row: Row, cells: list[Judged]) -> Row:
    """Count cells of one and two flows on Linux."""
    for one in cells:
        errors = {
            "goodput": list(map(one.compute_goodput_error, one.flows)),
            "RTT": list(map(one.compute_rtt_error, one.flows)),
        }
        signals = "" if one.same else f", drops and marks {one.signals[0]:.0f} (Linux {one.signals[1]:.0f})"
        rate = float(one.cell["rate_mbit"])
        found = [
            Measured.from_runs([value / rate for value in one.linux["goodput_mbit", flow]], one.linux["rtt_ms", flow])
            for flow in one.flows
        ]
        row.add(place(one.cell), errors, one.good and one.same, signals, Measured.find_widest(found))
    return row


def make_linux_rows(linux: str, two: str) -> list[Row]:
    """Return the rows of Linux; writes docs/validation-linux.md."""

    def is_plain(cell: Cell) -> bool:
        return not cell["cc2"] and cell["queue"] in ("pfifo", "codel", "cake")

    tabled = agreement.judge_cells(linux, LINUX, agreement.is_tabled)
    one = [cell for cell in tabled if not cell.cell["cc2"] and not is_plain(cell.cell)]
    pairs = [cell for cell in tabled if cell.cell["cc2"]]
    beside = agreement.judge_cells(two, LINUX, lambda cell: bool(cell["cc2"]) and cell["queue"] == "cake")
    flows, many, short = agreement_flows.format_document(MANY, SHORT, linux)
    fixed = ("Linux 6.12", "A", "dumbbell study run validation")
    rows = [
        make_linux_row(
            Row("one-flow", "one flow: tail drop, CoDel, Cake", *fixed), agreement.judge_cells(linux, LINUX, is_plain)
        ),
        make_linux_row(Row("one-flow-aqm", "one flow: FQ-CoDel, PIE, FQ-PIE, RED", *fixed), one),
        make_linux_row(Row("two-flows", "CUBIC and Reno: CoDel, FQ-CoDel, PIE, FQ-PIE, RED", *fixed), pairs),
        make_linux_row(Row("two-flows-cake", "pairs of CUBIC, Reno and DCTCP in one Cake queue", *fixed), beside),
    ]
    rows.append(Row("many-flows", "5, 10 and 50 flows: FQ-CoDel", *fixed))
    for verdict in many:
        rows[-1].add(verdict.name, {"goodput": verdict.goodput, "RTT": verdict.rtt}, verdict.agrees)
    what = "flows of 10 kB to 1 MB against one CUBIC flow: tail drop, CoDel, FQ-CoDel"
    rows.append(Row("short-flows", what, "Linux 6.12", "B", "dumbbell study run validation"))
    for verdict in short:
        errors = {"mean": [verdict.completion[0]], "P95": [verdict.completion[1]]}
        rows[-1].add(verdict.name, errors, verdict.agrees)
    LINUX_PAGE.write_text(agreement.format_document(tabled) + flows, encoding="utf-8")
    return rows


def make_hop_rows(starts: int = agreement_hops.STARTS) -> list[Row]:
    """Return the rows of traffic both ways and of two queues; makes their runs, and writes docs/validation-hops.md."""
    found, text = agreement_hops.write_page(HOPS, starts)
    runs, many = agreement_hops.read_scenarios(HOPS), agreement_hops.read_many_starts()
    HOPS_PAGE.write_text(text, encoding="utf-8")
    rows = {
        name: Row(name, what, "Linux 6.12", "G", "dumbbell study run validation")
        for name, what in agreement_hops.SETS.items()
    }
    scenarios: dict[tuple[str, str], list[agreement_hops.Compared]] = {}
    for one in found:
        scenarios.setdefault((one.set, one.scenario), []).append(one)
    for (name, scenario), figures in scenarios.items():
        errors: dict[str, list[float]] = {}
        for one in figures:
            errors.setdefault(one.what, []).append(one.error)
        agrees = all(one.agrees for one in figures)
        rates = agreement_hops.find_rates(runs[scenario][0][0])
        measured = spread_of_scenario(many.get(scenario, runs[scenario]), rates)
        rows[name].add(figures[0].cell, errors, agrees, measured=measured)
    return list(rows.values())


def spread_of_scenario(runs: list[list[agreement_hops.Row]], rates: dict[str, float]) -> Measured:
    """Return how far the runs of a scenario on Linux lie apart, in the class of flows that varies most.

    `rates` has the rate of each route, Mbit/s.
    """
    found = agreement_hops.measure_linux(runs)
    return Measured.find_widest(
        Measured.from_runs([value / rates[group.rpartition(", ")[2]] for value in goodputs], found.rtt[group])
        for group, goodputs in found.goodput.items()
    )


def make_coexistence_rows() -> list[Row]:
    """Return the rows of BBRv2 and DCTCP over STEP at 1 Gbit/s, from the evidence of the study coexistence."""
    study = shipped.place() / "coexistence"
    with (study / "evidence" / "linux.csv").open(newline="", encoding="utf-8") as stream:
        cells = [row for row in csv.DictReader(stream) if row["use_sim"]]
    rows = {
        "alone": Row(
            "coexistence-alone",
            "BBRv2 or DCTCP alone, 1 Gbit/s: STEP",
            "Linux 5.4",
            "H",
            "dumbbell study run coexistence",
        ),
        "2": Row(
            "coexistence-two", "BBRv2 next to DCTCP, 1 Gbit/s: STEP", "Linux 5.4", "H", "dumbbell study run coexistence"
        ),
        "10": Row(
            "coexistence-ten",
            "five BBRv2 and five DCTCP, 1 Gbit/s: STEP",
            "Linux 5.4",
            "H",
            "dumbbell study run coexistence",
        ),
    }
    bars = {"goodput": 0.03, "share": 0.08, "RTT": 0.10}
    for row in cells:
        use, share, rtt = (float(row[name]) for name in ("use", "share", "srtt"))
        errors = {"goodput": [float(row["use_sim"]) - use], "RTT": [float(row["srtt_sim"]) / rtt - 1]}
        mixed = "+" in row["mix"]
        if mixed:
            errors["share"] = [float(row["share_sim"]) - share]
        agrees = all(abs(error) <= bars[measure] for measure, found in errors.items() for error in found)
        limit = "no limit" if row["limit"] == "0" else f"limit {row['limit']} ms" if row["limit"] else "no BBR"
        name = f"{row['n']} flows of {row['mix']}, {limit}, {row['rtt']} ms, K = {row['k']}"
        place_ = row["n"] if mixed else "alone"
        rows[place_].add(name, errors, agrees, measured=Measured(int(row["starts"])))
    return list(rows.values())


def make_cubic_beta_row() -> Row:
    """Return the row of CUBIC with another beta, from the evidence of the study abe."""
    row = Row("cubic-beta", "CUBIC with beta 0.7 to 0.85: CoDel with ECN", "Linux 6.12", "A", "dumbbell study run abe")
    with (shipped.place() / "abe" / "evidence" / "linux.csv").open(newline="", encoding="utf-8") as stream:
        for cell in csv.DictReader(stream):
            here, there = float(cell["goodput"]), float(cell["linux"])
            marks = float(cell["marks"]) / float(cell["linux_marks"]) - 1
            errors = {"goodput": [(here - there) / float(cell["rate"])], "marks": [marks]}
            name = f"beta {cell['beta']}, {float(cell['rate']):g} Mbit/s, {float(cell['rtt']):g} ms"
            row.add(name, errors, abs(errors["goodput"][0]) <= 0.02 and abs(marks) <= 0.25)
    return row


def make_l4s_rows(results: str) -> list[Row]:
    """Return the rows of DualPI2 on Linux 6.18."""
    with Store.open(results) as store:
        compared = by_flow.compare(store.read_table("runs"), store.read_table("flows"), by_flow.read(L4S))
    rows = [
        Row(
            "dualpi2",
            "classic flows and DCTCP, one and two: DualPI2",
            "Linux 6.18",
            "A",
            "dumbbell study run validation",
        ),
        Row(
            "prague",
            "TCP Prague, alone and against others: DualPI2",
            "Linux 6.18",
            "E",
            "dumbbell study run validation",
        ),
    ]
    for cell, pairs in agreement_l4s.group_by_cell(compared).items():
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
        rows[prague].add(
            format_cell(cell), {names.get(metric, metric): found for metric, found in errors.items()}, agrees
        )
    return rows


def make_bbr_rows(results: str) -> list[Row]:
    """Return the rows of BBR on Linux; none, with a message, if its cells are not there."""
    if not Path(BBR).exists():
        print(f"{BBR}: no file; BBR is not compared with Linux")
        return []
    rows: dict[str, Row] = {}
    for one in agreement_bbr.judge_cells(results, BBR)[0]:
        what, kind = one.cell.version.replace("bbr", "BBRv"), agreement_bbr.KINDS[one.cell.kind].split(",")[0]
        if not any("bbr" in cc for cc in one.cell.ccs):
            what = "DCTCP"
        name = f"{what.lower().replace('bbrv', 'bbr')}-{kind.replace(' ', '-').replace('1-Gbit/s', 'gigabit')}"
        row = rows.setdefault(
            f"{kind} {what}", Row(name, f"{what}, {kind}", KERNELS, "F", "dumbbell study run validation")
        )
        goodput, share, rtt = {"one flow": (0.02, 1, 0.06), "two flows": (1, 0.06, 0.08)}.get(kind, (0.03, 0.08, 0.10))
        errors = {"goodput": [one.use], "RTT": one.rtts if len(one.cell.ccs) == 2 else [one.rtt]}
        if one.share is not None and (kind == "two flows" or len(one.cell.classes) == 2):
            errors["share"] = [one.share]
        agrees = abs(one.use) <= goodput and all(abs(error) <= rtt for error in errors["RTT"])
        agrees = agrees and all(abs(error) <= share for error in errors.get("share", []))
        found = [
            Measured.from_runs(
                [run.goodput_mbit[flow] / one.cell.rate_mbit for run in one.runs[1]],
                [run.rtt_ms[flow] for run in one.runs[1]],
            )
            for flow in range(len(one.cell.ccs))
        ]
        row.add(one.cell.name, errors, agrees, measured=Measured.find_widest(found))
    return [row for _, row in sorted(rows.items())]


def make_sce_rows(sce: str) -> list[Row]:
    """Return the rows of the SCE draft."""
    with Store.open(sce) as store:
        pairs = compare(store.read_table("runs"), store.read_table("flows"), read_reference(SCE)).pairs
    rows = [
        Row("sce-one", "one flow: Cake, SCE and not", PUBLISHED, "C", "dumbbell study run validation"),
        Row("sce-two", "two flows: Cake, SCE and not", PUBLISHED, "C", "dumbbell study run validation"),
        Row("sce-plain", "one flow: Reno and CUBIC alone", PUBLISHED, "C", "dumbbell study run validation"),
    ]
    errors = [(pair.figure, pair.error) for pair in pairs]
    count_cells(rows, errors)
    plain = [(figure, error) for figure, error in errors if dict(figure.cell)["cc1"] in ("reno", "cubic")]
    count_cells(rows[2:], [(figure, error) for figure, error in plain if not dict(figure.cell)["cc2"]])
    return rows


def count_cells(rows: list[Row], errors: Iterable[tuple[Figure, float]]) -> None:
    """Count published cells: those of one flow in the first row, those of two in the second."""
    cells: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for figure, error in errors:
        measure = {"throughput_mbit": "goodput", "rtt_ms": "RTT"}.get(figure.metric)
        if measure:
            cells.setdefault(figure.cell, {}).setdefault(measure, []).append(error)
    for items, found in cells.items():
        good = all(abs(error) <= 0.05 for error in found.get("goodput", []))
        good &= all(abs(error) <= 0.10 for error in found.get("RTT", []))
        cell = dict(items)
        rows[bool(cell["cc2"])].add(place(cell), dict(found), good)


def make_linux_sce_row() -> Row:
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
    row = Row(
        "sce-plain-linux",
        "the same cells: Linux 6.12 itself, not the simulator",
        PUBLISHED,
        "C",
        "dumbbell study run validation",
    )
    count_cells([row], errors)
    return row


def predict_utilisation(beta: float, depth: float) -> float:
    """Return the use of the link that theory gives a flow which keeps `beta` after a mark at `depth` BDPs of queue."""
    kept = 1 - beta * (1 + depth)
    return 1 - kept**2 / (2 * kept + (1 + depth) ** 2 - 1) if kept > 0 else 1.0


def make_theory_row(abe: str) -> Row:
    """Return the row of AIMD's closed form."""
    row = Row(
        "closed-form",
        "one AIMD flow at a step: 5 reductions, 5 thresholds",
        "closed form",
        "D",
        "dumbbell study run validation",
    )
    with Store.open(abe) as store:
        runs = select_latest_engine(store.read_table("runs").to_dicts())
    for run in runs:
        config = json.loads(run["config"])
        if run["title"] != CLOSED_FORM or config["hosts"]["ecn_reduction"] != "immediate":
            continue
        control, least = config["flows"][0]["cc"], config["bottleneck"]["aqm"]["min"]
        beta = control["beta_ecn"] if control["abe"] else 0.5
        depth = 0 if least == 1 else 8e9 * least / (config["bottleneck"]["rate"] * config["flows"][0]["base_rtt"])
        error = run["utilisation"] / predict_utilisation(beta, depth) - 1
        row.add(f"beta {beta:g}, threshold {depth:g} BDP", {"utilisation": [error]}, abs(error) <= 0.01)
    return row


if __name__ == "__main__":
    make_linux_rows(*sys.argv[1:])
