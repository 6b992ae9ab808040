"""The bars of every row of the page, and the one function that says whether a cell is within them.

A cell is a queue, congestion controls, rates and base RTTs; seeds and starts are averaged, the same on both sides.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from dumbbell.published.compare import Pair

Cell = dict[str, Any]
Errors = dict[str, list[float]]

# the bar that is the same for all cells: of the rate, of the goodput of all, of the reference
UNIFORM = {"goodput": 0.02, "share": 0.02, "RTT": 0.06}

_ONE = {"goodput": 0.02, "RTT": 0.06, "drops and marks": 0.25}
_TWO = _ONE | {"goodput": 0.03}
_PRAGUE = {"goodput": 0.02, "share": 0.05, "RTT": 0.06, "marks and drops": 0.25}
_BOTH_WAYS = _TWO | {"ping P99": 0.15}
_BBR_ONE, _BBR_TWO = {"goodput": 0.02, "RTT": 0.06}, {"share": 0.06, "RTT": 0.08}
_GIGABIT = {"goodput": 0.03, "share": 0.08, "RTT": 0.10}
_DRAFT = {"goodput": 0.05, "RTT": 0.10}

PUBLISHED = "SCE draft"
_LINUX, _KERNELS, _OLD = "Linux 6.12", "Linux 6.1, 6.12", "Linux 5.4"
_COMMANDS = {"H": "dumbbell study run coexistence"}

# name → what is compared, with what, letter of the bar on the page, largest error of each measure
ROWS: dict[str, tuple[str, str, str, dict[str, float]]] = {
    "one-flow": ("one flow: tail drop, CoDel, Cake", _LINUX, "A", _ONE),
    "one-flow-aqm": ("one flow: FQ-CoDel, PIE, FQ-PIE, RED", _LINUX, "A", _ONE),
    "two-flows": ("CUBIC and Reno: CoDel, FQ-CoDel, PIE, FQ-PIE, RED", _LINUX, "A", _TWO),
    "two-flows-cake": ("pairs of CUBIC, Reno and DCTCP in one Cake queue", _LINUX, "A", _TWO),
    "many-flows": ("5, 10 and 50 flows: FQ-CoDel", _LINUX, "A", _TWO),
    "short-flows": (
        "flows of 10 kB to 1 MB against one CUBIC flow: tail drop, CoDel, FQ-CoDel",
        _LINUX,
        "B",
        {"mean": 0.05, "P95": 0.15},
    ),
    "both": ("the same queue both ways", _LINUX, "G", _BOTH_WAYS),
    "asym": ("download with upload, asymmetric link", _LINUX, "G", _BOTH_WAYS),
    "rrul": ("four flows each way and pings", _LINUX, "G", _BOTH_WAYS),
    "lot": ("two queues, flows over both and over one", _LINUX, "G", _BOTH_WAYS),
    "dualpi2": (
        "classic flows and DCTCP, one and two: DualPI2",
        "Linux 6.18",
        "A",
        {"goodput": 0.03, "goodput of one flow": 0.02, "RTT": 0.06, "marks and drops": 0.25},
    ),
    "prague": ("TCP Prague, alone and against others: DualPI2", "Linux 6.18", "E", _PRAGUE),
    "bbr2-gigabit": ("BBRv2, 1 Gbit/s", _KERNELS, "F", _GIGABIT),
    **{f"bbr{n}-one-flow": (f"BBRv{n}, one flow", _KERNELS, "F", _BBR_ONE) for n in (1, 2, 3)},
    **{f"bbr{n}-two-flows": (f"BBRv{n}, two flows", _KERNELS, "F", _BBR_TWO) for n in (1, 2, 3)},
    "coexistence-alone": ("BBRv2 or DCTCP alone, 1 Gbit/s: STEP", _OLD, "H", _GIGABIT),
    "coexistence-two": ("BBRv2 next to DCTCP, 1 Gbit/s: STEP", _OLD, "H", _GIGABIT),
    "coexistence-ten": ("five BBRv2 and five DCTCP, 1 Gbit/s: STEP", _OLD, "H", _GIGABIT),
    "cubic-beta": ("CUBIC with beta 0.7 to 0.85: CoDel with ECN", _LINUX, "A", {"goodput": 0.02, "marks": 0.25}),
    "sce-one": ("one flow: Cake, with and without SCE", PUBLISHED, "C", _DRAFT),
    "sce-two": ("two flows: Cake, with and without SCE", PUBLISHED, "C", _DRAFT),
    "sce-plain": ("one flow: Reno and CUBIC alone", PUBLISHED, "C", _DRAFT),
    "sce-plain-linux": (
        "one flow: Reno and CUBIC alone, on Linux 6.12 instead of the simulator",
        PUBLISHED,
        "C",
        _DRAFT,
    ),
    "closed-form": ("one AIMD flow at a step: 5 reductions, 5 thresholds", "closed form", "D", {"utilisation": 0.01}),
}


def is_within(name: str, errors: Errors, flows: int = 0) -> bool:
    """Return whether all errors of a cell are within the bars of a row; a measure without a bar may have any.

    `flows` is how many the cell has, where the bar of one flow is another one.
    """
    bars = ROWS[name][3]
    one = {measure: bars.get(f"{measure} of one flow", bars.get(measure, math.inf)) for measure in errors}
    wanted = one if flows == 1 else {measure: bars.get(measure, math.inf) for measure in errors}
    return all(abs(error) <= wanted[measure] for measure, found in errors.items() for error in found)


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
    cells: int = 0
    uniform: int = 0  # cells within UNIFORM
    measured: list[tuple[str, Measured]] = field(default_factory=list)
    errors: dict[str, list[float]] = field(default_factory=dict)
    outside: list[tuple[str, float, str]] = field(default_factory=list)  # cell, size of the error, what is off

    @property
    def texts(self) -> dict[str, str]:
        """The measures compared, their reference, the bar, and the command that runs the comparison."""
        what, reference, bar, _ = ROWS[self.name]
        beta = "dumbbell study run abe" if self.name == "cubic-beta" else "dumbbell study run validation"
        command = _COMMANDS.get(bar, beta)
        return {"name": self.name, "what": what, "reference": reference, "bar": bar, "command": command}

    def add(self, name: str, errors: Errors, agrees: bool, more: str = "", measured: Measured = Measured()) -> None:
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

    def judge(self, name: str, errors: Errors, flows: int = 0, measured: Measured = Measured()) -> None:
        """Count a cell, which agrees if all its errors are within the bars of the row."""
        self.add(name, errors, is_within(self.name, errors, flows), measured=measured)


@dataclass(frozen=True)
class Judged:
    """A cell of one flow or several: (simulated, Linux) of every metric and flow, one for each start.

    Flow 0 is the queue.
    """

    cell: Cell
    values: dict[tuple[str, int], list[tuple[float, float]]]

    @property
    def flows(self) -> tuple[int, ...]:
        """Numbers of the flows, or groups of alike flows."""
        return tuple(sorted(flow for metric, flow in self.values if metric == "goodput_mbit"))

    def average(self, metric: str, flow: int) -> tuple[float, float]:
        """Return means over starts, simulated and on Linux."""
        simulated, linux = zip(*self.values[metric, flow], strict=True)
        return fmean(simulated), fmean(linux)

    def compute_goodput_error(self, flow: int, share: float = 1) -> float:
        """Return the error of a flow's goodput as a share of the rate, or of this share of it."""
        simulated, linux = self.average("goodput_mbit", flow)
        return (simulated - linux) / (share * float(self.cell["rate_mbit"]))

    def compute_rtt_error(self, flow: int) -> float:
        """Return the relative error of a flow's RTT."""
        simulated, linux = self.average("rtt_ms", flow)
        return simulated / linux - 1

    @property
    def signals(self) -> tuple[float, float]:
        """Drops and marks together, simulated and on Linux."""
        marks, drops = self.average("marks", 0), self.average("drops", 0)
        return marks[0] + drops[0], marks[1] + drops[1]

    def list_errors(self, share: float = 1) -> Errors:
        """Return the errors that a table shows."""
        return {
            "goodput": [self.compute_goodput_error(flow, share) for flow in self.flows],
            "RTT": list(map(self.compute_rtt_error, self.flows)),
        }

    def is_good(self, share: float = 1) -> bool:
        """Return whether goodput and RTT are within their bars."""
        return is_within("one-flow" if len(self.flows) == 1 else "two-flows", self.list_errors(share))

    @property
    def same(self) -> bool:
        """Whether drops and marks are within their bar."""
        simulated, linux = self.signals
        off = (simulated - linux) / linux if linux else math.inf if simulated else 0.0
        return is_within("one-flow", {"drops and marks": [off]})

    @property
    def measured(self) -> Measured:
        """The spread of the starts on Linux, in the flow that varies most."""
        rate = float(self.cell["rate_mbit"])

        def list_linux(metric: str, flow: int) -> list[float]:
            return [value for _, value in self.values[metric, flow]]

        return Measured.find_widest(
            Measured.from_runs([value / rate for value in list_linux("goodput_mbit", flow)], list_linux("rtt_ms", flow))
            for flow in self.flows
        )


def judge_pairs(pairs: Iterable[Pair], *starts: str) -> list[Judged]:
    """Return the cells of pairs; those that differ in the columns `starts` alone are one cell."""
    found: dict[tuple[Any, ...], dict[tuple[str, int], list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for pair in pairs:
        items = tuple(item for item in pair.figure.cell if item[0] not in starts)
        found[items][pair.figure.metric, pair.figure.flow].append((pair.simulated, pair.figure.value))
    return [Judged(dict(items), dict(values)) for items, values in found.items() if ("goodput_mbit", 1) in values]
