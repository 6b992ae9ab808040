"""Which cells of BBR agree with measurements of Linux, and by how much the others do not.

python -m studies.validation.agreement_bbr RESULTS REFERENCE [--all]

REFERENCE holds cells of Linux with BBRv1, v2 and v3 in the columns of references/linux-bbr.csv: a row for each flow of
a run, those of one run one after the other. --all prints every cell.
"""

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from dumbbell.published.compare import has_only_flows, matches_qdisc, select_alike, select_latest_engine
from dumbbell.results.store import Store
from dumbbell.study import Unreadable

from .agreement_l4s import Bar
from .agreement_l4s import format_document as bars_as_markdown

COLUMNS = frozenset(
    ("kernel", "version", "set", "ccs", "qdisc", "ecn", "kernel_args", "gso", "rate_mbit", "delay_ms", "seconds")
) | {"stagger_ms", "seed", "flow", "cc", "goodput_mbit", "rtt_ms"}
KINDS = {"one": "one flow", "two": "two flows", "paper": "1 Gbit/s", "paper0": "1 Gbit/s, no limit"}


@dataclass(frozen=True)
class Cell:
    """One configuration of the measurements."""

    version: str
    kind: str
    ccs: tuple[str, ...]
    qdisc: str
    ecn: bool
    bbr_ecn: bool
    bbr_limit: bool  # BBR's response to ECN only up to an RTT of 5 ms
    gso: bool
    kernel: str
    rate_mbit: float
    delay_ms: float
    seconds: float
    stagger_ms: float

    @property
    def classes(self) -> list[tuple[str, list[int]]]:
        """Alike neighbours: name and numbers of the flows."""
        return [(name, list(flows)) for name, flows in groupby(range(len(self.ccs)), lambda i: self.ccs[i])]

    @property
    def starts_ms(self) -> list[float]:
        """When each flow's SYN is sent.

        The measuring program waits for each handshake, and sends nothing meanwhile. Where one takes longer than the
        time between starts, all flows send their first data together, after the last handshake.
        """
        flows = len(self.ccs)
        together = flows > 1 and self.delay_ms > self.stagger_ms
        return [(flows - 1) * self.delay_ms if together else i * self.stagger_ms for i in range(flows)]

    @property
    def name(self) -> str:
        """The cell in few words."""
        ccs = "+".join(name if len(flows) == 1 else f"{len(flows)} {name}" for name, flows in self.classes)
        words = self.qdisc.split()
        queue = f"step {words[words.index('ce_threshold') + 1]}" if "ce_threshold" in words else self.qdisc
        response = "" if self.bbr_ecn or self.version == "bbr1" else " without ECN response"
        limit = ", no limit" if self.bbr_ecn and not self.bbr_limit else ""
        rate = "1 Gbit/s" if self.rate_mbit == 1000 else f"{self.rate_mbit:g} Mbit/s"
        return f"{ccs}{response}, {queue}, {rate}, {self.delay_ms:g} ms{limit}"


@dataclass
class Figures:
    """Means over runs: goodputs and RTTs of the flows, and the counts of the queue."""

    goodput_mbit: list[float]
    rtt_ms: list[float]
    counts: dict[str, float] = field(default_factory=dict)

    @classmethod
    def average(cls, runs: Sequence["Figures"]) -> "Figures":
        """Return the mean of several runs of a cell."""
        return cls(
            [fmean(values) for values in zip(*(run.goodput_mbit for run in runs), strict=True)],
            [fmean(values) for values in zip(*(run.rtt_ms for run in runs), strict=True)],
            {count: fmean(run.counts[count] for run in runs) for count in runs[0].counts},
        )

    def compute_share(self, flows: Iterable[int]) -> float:
        """Return the share of these flows in the goodput of all."""
        return sum(self.goodput_mbit[i] for i in flows) / (sum(self.goodput_mbit) or 1.0)


@dataclass
class Judged:
    """A cell, simulated and measured; `runs` are all simulated and all measured runs."""

    cell: Cell
    simulated: Figures
    linux: Figures
    runs: tuple[list[Figures], list[Figures]]

    @property
    def use(self) -> float:
        """Error of the goodput of all as a share of the rate."""
        return (sum(self.simulated.goodput_mbit) - sum(self.linux.goodput_mbit)) / self.cell.rate_mbit

    @property
    def rtt(self) -> float:
        """Relative error of the RTT, mean over the flows."""
        return fmean(self.simulated.rtt_ms) / fmean(self.linux.rtt_ms) - 1

    @property
    def rtts(self) -> list[float]:
        """Relative error of each flow's RTT."""
        return [mine / theirs - 1 for mine, theirs in zip(self.simulated.rtt_ms, self.linux.rtt_ms, strict=True)]

    @property
    def share(self) -> float | None:
        """Error of the share of the first class of flows, or of flow 1 if all are alike and two."""
        classes = self.cell.classes
        if len(self.cell.ccs) == 2:
            flows = [0]
        elif len(classes) == 2:
            flows = classes[0][1]
        else:
            return None
        return self.simulated.compute_share(flows) - self.linux.compute_share(flows)

    def format_line(self) -> str:
        """Return the figures in few words, simulated (Linux)."""
        classes = (
            [flows for _, flows in self.cell.classes]
            if len(self.cell.ccs) > 2
            else [[i] for i in range(len(self.cell.ccs))]
        )
        shown = []
        for flows in classes:
            goodput = [sum(of.goodput_mbit[i] for i in flows) for of in (self.simulated, self.linux)]
            rtt = [fmean(of.rtt_ms[i] for i in flows) for of in (self.simulated, self.linux)]
            shown.append(f"{goodput[0]:.2f} ({goodput[1]:.2f}) Mbit/s {rtt[0]:.2f} ({rtt[1]:.2f}) ms")
        for count, value in self.linux.counts.items():
            if max(value, self.simulated.counts[count]) > 0:
                shown.append(f"{count} {self.simulated.counts[count]:.0f} ({value:.0f})")
        return f"{self.cell.name}: " + "; ".join(shown)


def read(path: str | Path) -> dict[Cell, list[Figures]]:
    """Return the runs of every cell of a file; raises InputError."""
    name = str(path)
    try:
        with Path(path).open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Unreadable(f"it cannot be read ({error})", "a CSV file of measured flows", file=name) from None
    if not rows or not rows[0].keys() >= COLUMNS:
        raise Unreadable("it has other columns", "a CSV file with the columns " + ", ".join(sorted(COLUMNS)), file=name)
    runs: list[list[dict[str, str]]] = []
    for row in rows:
        if row["flow"] == "1":
            runs.append([])
        runs[-1].append(row)
    cells: dict[Cell, list[Figures]] = defaultdict(list)
    for run in runs:
        first = run[0]
        if len(run) != 1 + first["ccs"].count("+"):
            raise Unreadable(
                f"there are {len(run)} rows of {first['ccs']}", "a row for each flow of a run", file=name, key="flow"
            )
        counts = {count: float(first[count]) for count in ("drops", "marks") if first.get(count)}
        cells[_read_measured(first)].append(
            Figures([float(row["goodput_mbit"]) for row in run], [float(row["rtt_ms"]) for row in run], counts)
        )
    return dict(cells)


def _read_measured(row: dict[str, str]) -> Cell:
    arguments = row["kernel_args"]
    response = "ecn_enable=1" in arguments or "ecn_low=1" in arguments
    return Cell(
        version=row["version"].removesuffix("-noecn"),
        kind=row["set"],
        ccs=tuple(row["ccs"].split("+")),
        qdisc=row["qdisc"],
        ecn=row["ecn"] == "1",
        bbr_ecn=response,
        bbr_limit="ecn_max_rtt_us=0" not in arguments,
        gso=row["gso"] == "1",
        kernel="linux-6.12" if row["kernel"].startswith("6.12") else "linux-6.1",
        rate_mbit=float(row["rate_mbit"]),
        delay_ms=float(row["delay_ms"]),
        seconds=float(row["seconds"]),
        stagger_ms=float(row["stagger_ms"]),
    )


def answers(config: dict[str, Any], cell: Cell) -> bool:
    """Whether a run is one of `cell`."""
    flows = config["flows"]
    hosts, bottleneck = config["hosts"], config["bottleneck"]
    return (
        tuple(flow["cc"]["name"] for flow in flows) == cell.ccs
        and all(_has_same_response(flow["cc"], cell) for flow in flows)
        and all(flow["count"] == 1 and flow["base_rtt"] == cell.delay_ms * 1e6 for flow in flows)
        and all(
            flow["start"]["min"] == flow["start"]["max"] == 1e6 * at
            for flow, at in zip(flows, cell.starts_ms, strict=True)
        )
        and hosts["profile"] == cell.kernel
        and hosts["ecn"] == cell.ecn
        and hosts["offload"] == ("gso" if cell.gso else "tso")
        and bottleneck["rate"] == cell.rate_mbit * 1e6
        and config["duration"] == cell.seconds * 1e9
        and matches_qdisc(cell.qdisc, bottleneck["aqm"])
    )


def _has_same_response(cc: dict[str, Any], cell: Cell) -> bool:
    if cc["name"] not in ("bbr2", "bbr3"):
        return True
    if cc["ecn"] != cell.bbr_ecn:
        return False
    return cc["name"] == "bbr3" or not cell.bbr_ecn or (cc["ecn_max_rtt"] > 0) == cell.bbr_limit


def judge_cells(results: str, reference: str) -> tuple[list[Judged], int]:
    """Return the cells that runs answer, and how many there are in the reference."""
    with Store.open(results) as store:
        runs, flows = store.read_table("runs"), store.read_table("flows")
    configs = [(json.loads(row["config"]), row) for row in runs.iter_rows(named=True)]
    by_place: dict[tuple[Any, ...], list[tuple[dict[str, Any], dict[str, Any]]]] = defaultdict(list)
    for config, row in configs:
        if has_only_flows(config):
            place = config["bottleneck"]["rate"], tuple(flow["cc"]["name"] for flow in config["flows"])
            by_place[place].append((config, row))
    of_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in flows.sort("flow").iter_rows(named=True):
        of_run[row["key"]].append(row)
    cells = []
    measured = read(reference)
    for cell, linux in measured.items():
        there = by_place[cell.rate_mbit * 1e6, cell.ccs]
        found = select_alike(select_latest_engine([row for config, row in there if answers(config, cell)]), cell.name)
        simulated = [
            Figures(
                [flow["goodput_mbit"] for flow in of_run[row["key"]]],
                [flow["rtt_mean_ms"] for flow in of_run[row["key"]]],
                {"drops": float(row["drops"]), "marks": float(row["ce_marks"])},
            )
            for row in found
        ]
        if simulated:
            cells.append(Judged(cell, Figures.average(simulated), Figures.average(linux), (simulated, linux)))
    return cells, len(measured)


def fill_bars(cells: Iterable[Judged]) -> list[Bar]:
    """Return the bars of every version and kind, filled."""
    found: dict[tuple[str, str, str], Bar] = {}

    def add(one: Judged, measure: str, limits: dict[float, float], error: float | None) -> None:
        if error is not None:
            what = one.cell.version if "bbr" in "".join(one.cell.ccs) else "DCTCP alone"
            key = (KINDS[one.cell.kind], what, measure)
            bar = found.setdefault(key, Bar(f"{what}, {KINDS[one.cell.kind]}: {measure}", limits))
            bar.errors.append((abs(error), one.format_line()))

    for one in cells:
        if one.cell.kind == "one":
            add(one, "goodput, share of the rate", {0.85: 0.02}, one.use)
            add(one, "RTT", {0.85: 0.06}, one.rtt)
        elif one.cell.kind == "two":
            add(one, "share of flow 1", {0.5: 0.06, 0.9: 0.15}, one.share)
            for error in one.rtts:
                add(one, "RTT", {0.5: 0.08}, error)
            add(one, "use of the link", {}, one.use)
        else:
            add(one, "use of the link", {0.8: 0.03}, one.use)
            if len(one.cell.classes) == 2:
                add(one, "share of the first class", {0.8: 0.08}, one.share)
            add(one, "RTT", {0.8: 0.10}, one.rtt)
    order = list(KINDS.values())
    return [bar for _, bar in sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))]


def main(results: str, reference: str, *options: str) -> None:
    """Print what agrees."""
    cells, total = judge_cells(results, reference)
    print(bars_as_markdown(fill_bars(cells)))
    if "--all" in options:
        print("\nAll cells:\n")
        for one in sorted(cells, key=lambda one: one.cell.name):
            print(f"- {one.format_line()}")
    print(f"\n{len(cells)} of {total} cells have a run.")


if __name__ == "__main__":
    main(*sys.argv[1:])
