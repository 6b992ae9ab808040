"""Counts the cells that agree: simulator against Linux, against publications, against theory."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from dumbbell.published import by_flow
from dumbbell.published import compare as by_cell
from dumbbell.published.compare import Figure, Pair, format_cell, read_reference, select_latest_engine
from dumbbell.results.store import Store
from dumbbell.study import shipped

from . import hops, linux_page, short_flows
from .bars import Cell, Errors, Judged, Measured, Row, judge_pairs

LINUX_PAGE = Path(__file__).resolve().parents[2] / "docs" / "validation-linux.md"
HOPS_PAGE = LINUX_PAGE.with_name("validation-hops.md")
NAMES = ("linux-6.12", "linux-6.12-many", "linux-6.12-short", "linux-6.12-hops", "linux-6.18-l4s", "linux-bbr", "sce")
LINUX, MANY, SHORT, HOPS, L4S, BBR, SCE = (str(shipped.list_references()[name]) for name in NAMES)
CLOSED_FORM = "Use of the link by a deterministic AIMD flow"
SHARED = 0.75  # a flow below this share of the median has company in its queue
FEW = 10  # up to so many flows, a run in which two share a queue is left out
_PLAIN = ("pfifo", "codel", "cake")
_COUNTED = {"goodput_mbit": "goodput", "throughput_mbit": "goodput", "rtt_ms": "RTT", "share": "share"}


def name_queue(qdisc: str) -> str:
    """Return the name of a tc line."""
    words = qdisc.split()
    if words[0] == "red" and words[4] == words[6]:
        return "red step"
    return "pie, rate estimator" if "dq_rate_estimator" in words else words[0]


def place(cell: Cell) -> str:
    """Return the name of a cell."""
    ccs = " and ".join(str(cell[c]) for c in ("cc1", "cc2") if cell[c])
    queue = cell["qdisc"] if cell.get("queue") in (None, "cake") else cell["queue"]
    return f"{ccs}, {queue}, {cell['rate_mbit']:g} Mbit/s, {cell['delay_ms']:g} ms"


def is_tabled(cell: Cell) -> bool:
    """Whether the cell is one of the tables of docs/validation-linux.md."""
    controls = {cell["cc1"], cell["cc2"]} - {""}
    places = (cell["rate_mbit"], cell["delay_ms"])
    if not controls <= {"reno", "cubic"} or cell["seconds"] != 60:
        return False
    if cell["cc2"] or cell["queue"] not in _PLAIN:
        return cell.get("shaper") == "htb" and places in ((10, 20), (10, 80), (50, 10), (50, 40))
    plain = ("cake", "codel ecn", "codel noecn", "pfifo limit 100")
    return places[0] in (10, 50) and places[1] in (10, 40, 80) and cell["qdisc"] in plain


def judge_cells(results: str, reference: str, wanted: Callable[[Cell], bool]) -> list[Judged]:
    """Return the cells of one and two flows that are wanted and that runs answer, in order."""

    def is_wanted(figure: Figure) -> bool:
        cell = dict(figure.cell)
        return wanted(cell | {"queue": name_queue(cell["qdisc"])})

    figures = filter(is_wanted, read_reference(reference))
    with Store.open(results) as store:
        pairs = by_cell.compare(store.read_table("runs"), store.read_table("flows"), figures).pairs
    cells = sorted(judge_pairs(pairs, "stagger_ms"), key=lambda one: str(tuple(one.cell.items())))
    for one in cells:
        one.cell["queue"] = name_queue(one.cell["qdisc"])
    return cells


def count_flows(name: str, cells: Iterable[Judged]) -> Row:
    """Count cells of one and two flows on Linux."""
    row = Row(name)
    for one in cells:
        signals = "" if one.same else f", drops and marks {one.signals[0]:.0f} (Linux {one.signals[1]:.0f})"
        row.add(place(one.cell), one.list_errors(), one.is_good() and one.same, signals, one.measured)
    return row


def are_alone(goodputs: Sequence[float]) -> bool:
    """Return whether no two flows share a queue, as far as goodput tells; of more than `FEW` some always do."""
    return len(goodputs) > FEW or min(goodputs) > SHARED * median(goodputs)


def judge_many(results: str) -> list[tuple[Judged, int]]:
    """Return the cells of many flows, and how many flows each has."""
    figures = by_flow.read(MANY, are_alone)
    with Store.open(results) as store:
        pairs = by_flow.compare(store.read_table("runs"), store.read_table("flows"), figures, are_alone).pairs
    runs = by_flow.group_runs(MANY)
    counts = {str(dict(cell)): len(of_cell[0]) for cell, of_cell in runs.items()}
    return [(one, counts[str(one.cell)]) for one in judge_pairs(pairs)]


def make_linux_rows(linux: str, two: str) -> list[Row]:
    """Return the rows of Linux; writes docs/validation-linux.md."""

    def is_plain(cell: Cell) -> bool:
        return not cell["cc2"] and cell["queue"] in _PLAIN

    listed = judge_cells(linux, LINUX, is_tabled)
    one = [cell for cell in listed if not cell.cell["cc2"] and not is_plain(cell.cell)]
    pairs = [cell for cell in listed if cell.cell["cc2"]]
    beside = judge_cells(two, LINUX, lambda cell: bool(cell["cc2"]) and cell["queue"] == "cake")
    many, short = judge_many(linux), short_flows.judge(SHORT, linux)
    rows = [
        count_flows("one-flow", judge_cells(linux, LINUX, is_plain)),
        count_flows("one-flow-aqm", one),
        count_flows("two-flows", pairs),
        count_flows("two-flows-cake", beside),
        Row("many-flows"),
        Row("short-flows"),
    ]
    for cell, flows in many:
        rows[-2].add(
            linux_page.name_of_many(cell, flows), cell.list_errors(1 / flows), cell.is_good(1 / flows) and cell.same
        )
    for done in short:
        rows[-1].judge(done.name, done.errors)
    LINUX_PAGE.write_text(linux_page.write(listed, many, short), encoding="utf-8")
    return rows


def make_hop_rows(starts: int = hops.STARTS) -> list[Row]:
    """Return the rows of traffic both ways and of two queues; makes their runs, and writes docs/validation-hops.md."""
    found, text = hops.write_page(HOPS, starts)
    runs, many = hops.read_scenarios(HOPS), hops.read_many_starts()
    HOPS_PAGE.write_text(text, encoding="utf-8")
    rows = {name: Row(name) for name in hops.SETS}
    scenarios: dict[tuple[str, str], list[hops.Compared]] = {}
    for one in found:
        scenarios.setdefault((one.set, one.scenario), []).append(one)
    for (name, scenario), figures in scenarios.items():
        errors: Errors = {}
        for one in figures:
            errors.setdefault(one.what, []).append(one.error)
        agrees = all(one.agrees for one in figures)
        rates = hops.find_rates(runs[scenario][0][0])
        measured = spread_of_scenario(many.get(scenario, runs[scenario]), rates)
        rows[name].add(figures[0].cell, errors, agrees, measured=measured)
    return list(rows.values())


def spread_of_scenario(runs: list[by_flow.Run], rates: dict[str, float]) -> Measured:
    """Return how far the runs of a scenario on Linux lie apart, in the class of flows that varies most.

    `rates` has the rate of each route, Mbit/s.
    """
    found = hops.measure_linux(runs)
    return Measured.find_widest(
        Measured.from_runs([value / rates[group.rpartition(", ")[2]] for value in goodputs], found.rtt[group])
        for group, goodputs in found.goodput.items()
    )


def _read_evidence(study: str) -> list[dict[str, str]]:
    with (shipped.place() / study / "evidence" / "linux.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def make_coexistence_rows() -> list[Row]:
    """Return the rows of BBRv2 and DCTCP over STEP at 1 Gbit/s, from the evidence of the study coexistence."""
    rows = {key: Row(f"coexistence-{name}") for key, name in (("alone", "alone"), ("2", "two"), ("10", "ten"))}
    for row in _read_evidence("coexistence"):
        if not row["use_sim"]:
            continue
        use, share, rtt = (float(row[name]) for name in ("use", "share", "srtt"))
        errors = {"goodput": [float(row["use_sim"]) - use], "RTT": [float(row["srtt_sim"]) / rtt - 1]}
        mixed = "+" in row["mix"]
        if mixed:
            errors["share"] = [float(row["share_sim"]) - share]
        limit = "no limit" if row["limit"] == "0" else f"limit {row['limit']} ms" if row["limit"] else "no BBR"
        name = f"{row['n']} flows of {row['mix']}, {limit}, {row['rtt']} ms, K = {row['k']}"
        rows[row["n"] if mixed else "alone"].judge(name, errors, measured=Measured(int(row["starts"])))
    return list(rows.values())


def make_cubic_beta_row() -> Row:
    """Return the row of CUBIC with another beta, from the evidence of the study abe."""
    row = Row("cubic-beta")
    for cell in _read_evidence("abe"):
        off = (float(cell["goodput"]) - float(cell["linux"])) / float(cell["rate"])
        errors = {"goodput": [off], "marks": [float(cell["marks"]) / float(cell["linux_marks"]) - 1]}
        row.judge(f"beta {cell['beta']}, {float(cell['rate']):g} Mbit/s, {float(cell['rtt']):g} ms", errors)
    return row


def _compare_flows(results: str, reference: str) -> dict[by_cell.Cell, dict[tuple[int, str], Pair]]:
    """Return the pairs of each cell of a file of ours, by flow or group of flows and metric."""
    with Store.open(results) as store:
        compared = by_flow.compare(store.read_table("runs"), store.read_table("flows"), by_flow.read(reference))
    cells: dict[by_cell.Cell, dict[tuple[int, str], Pair]] = {}
    for pair in compared.pairs:
        cells.setdefault(pair.figure.cell, {})[pair.figure.flow, pair.figure.metric] = pair
    return cells


def make_l4s_rows(results: str) -> list[Row]:
    """Return the rows of DualPI2 on Linux 6.18."""
    rows = [Row("dualpi2"), Row("prague")]
    for cell, pairs in _compare_flows(results, L4S).items():
        ccs = str(dict(cell)["ccs"])
        prague, flows = "prague" in ccs, 1 + ccs.count("+")
        names = _COUNTED | {"signals": "marks and drops"}
        names.pop("goodput_mbit" if prague and flows > 1 else "share")
        errors: Errors = {}
        for (_, metric), pair in pairs.items():
            if metric in names:
                errors.setdefault(names[metric], []).append(pair.error)
        rows[prague].judge(format_cell(cell), errors, flows)
    return rows


def make_bbr_rows(results: str) -> list[Row]:
    """Return the rows of BBR on Linux."""
    rows: dict[str, Row] = {}
    runs = by_flow.group_runs(BBR)
    for cell, pairs in _compare_flows(results, BBR).items():
        named, flows = dict(cell), runs[cell][0]
        rate, controls = named["rate_mbit"], dict.fromkeys(row["flows.cc"] for row in flows)
        groups = range(1, 1 + max(flow for flow, _ in pairs))
        weights = [1] * len(groups) if len(flows) <= 2 else list(Counter(row["flows.cc"] for row in flows).values())
        goodput, rtt = ([pairs[group, metric] for group in groups] for metric in ("goodput_mbit", "rtt_ms"))
        errors = {"goodput": [sum(weight * pair.error for weight, pair in zip(weights, goodput, strict=True))]}
        if len(flows) == 2:
            errors["RTT"] = [pair.error for pair in rtt]
        else:
            means = [
                fmean(values, weights) for values in zip(*((p.simulated, p.figure.value) for p in rtt), strict=True)
            ]
            errors["RTT"] = [means[0] / means[1] - 1]
        if named["set"] == "two" or len(controls) == 2:
            errors["share"] = [pairs[1, "share"].error]
        version = next(cc for cc in controls if cc.startswith("bbr"))
        kind = {"one": "one-flow", "two": "two-flows"}.get(named["set"], "gigabit")
        spread = Measured.find_widest(
            Measured.from_runs(
                [float(row["goodput_mbit"]) / rate for row in of_flow], [float(row["rtt_mean_ms"]) for row in of_flow]
            )
            for of_flow in zip(*runs[cell], strict=True)
        )
        row = rows.setdefault(f"{version}-{kind}", Row(f"{version}-{kind}"))
        row.judge(name_of_bbr(named, version), errors, measured=spread)
    return [row for _, row in sorted(rows.items(), key=lambda item: (item[0].split("-", 1)[1], item[0]))]


def name_of_bbr(cell: Cell, version: str) -> str:
    """Return a cell of BBR in few words."""
    first, _, second = cell["ccs"].partition("+")
    words = cell["qdisc"].split()
    queue = f"step {words[words.index('ce_threshold') + 1]}" if "ce_threshold" in words else cell["qdisc"]
    answers = "true" in cell.get("flows.cc.ecn", "")
    response = "" if answers or version == "bbr1" else " without ECN response"
    limit = ", no limit" if cell["set"] == "paper0" else ""
    rate = "1 Gbit/s" if cell["rate_mbit"] == 1000 else f"{cell['rate_mbit']:g} Mbit/s"
    ccs = f"2 {first}" if first == second else cell["ccs"]
    return f"{ccs}{response}, {queue}, {rate}, {cell['rtts_ms']} ms{limit}"


def make_sce_rows(sce: str) -> list[Row]:
    """Return the rows of the SCE draft."""
    with Store.open(sce) as store:
        pairs = by_cell.compare(store.read_table("runs"), store.read_table("flows"), read_reference(SCE)).pairs
    errors = [(pair.figure, pair.error) for pair in pairs]
    one = [(figure, error) for figure, error in errors if not dict(figure.cell)["cc2"]]
    two = [(figure, error) for figure, error in errors if dict(figure.cell)["cc2"]]
    plain = [(figure, error) for figure, error in one if dict(figure.cell)["cc1"] in ("reno", "cubic")]
    return [count_cells(name, some) for name, some in (("sce-one", one), ("sce-two", two), ("sce-plain", plain))]


def count_cells(name: str, errors: Iterable[tuple[Figure, float]]) -> Row:
    """Count published cells."""
    cells: dict[tuple[Any, ...], Errors] = {}
    for figure, error in errors:
        if figure.metric in ("throughput_mbit", "rtt_ms"):
            cells.setdefault(figure.cell, {}).setdefault(_COUNTED[figure.metric], []).append(error)
    row = Row(name)
    for items, found in cells.items():
        row.judge(place(dict(items)), found)
    return row


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
    return count_cells("sce-plain-linux", errors)


def predict_utilisation(beta: float, depth: float) -> float:
    """Return the use of the link that theory gives a flow which keeps `beta` after a mark at `depth` BDPs of queue."""
    kept = 1 - beta * (1 + depth)
    return 1 - kept**2 / (2 * kept + (1 + depth) ** 2 - 1) if kept > 0 else 1.0


def make_theory_row(abe: str) -> Row:
    """Return the row of AIMD's closed form."""
    row = Row("closed-form")
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
        row.judge(f"beta {beta:g}, threshold {depth:g} BDP", {"utilisation": [error]})
    return row


if __name__ == "__main__":
    make_linux_rows(*sys.argv[1:])
