"""Which cells of DualPI2 and TCP Prague agree with measurements, and by how much the others do not.

python -m studies.validation.agreement_l4s RESULTS REFERENCE

REFERENCE holds cells of Linux, as dumbbell.by_flow reads them, or statistics of connection classes of DualPI2's
evaluation of 2021, as dumbbell.by_class does.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dumbbell.published import by_class, by_flow
from dumbbell.published.compare import Cell, Comparison, Pair, format_cell
from dumbbell.results.store import Store

FACTOR = 1.3  # marks and drops under mixed RTT
STARVED = 0.1  # of the measured rate


def find_percentile(values: list[float], share: float) -> float:
    """Return the least value that this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values) - 1e-9) - 1)]


@dataclass
class Bar:
    """What a measure must keep to: limits of a percentile, or a share of cells that must be within a limit."""

    what: str
    limits: dict[float, float]  # percentile (1: the worst) → limit
    errors: list[tuple[float, str]] = field(default_factory=list)  # size of the error, which cell

    @property
    def holds(self) -> bool:
        """Whether every limit is kept."""
        errors = [size for size, _ in self.errors]
        return all(find_percentile(errors, share) <= limit + 1e-9 for share, limit in self.limits.items())

    def format_line(self) -> str:
        """Return the line of the table."""
        errors = [size for size, _ in self.errors]
        shown = [f"{find_percentile(errors, share):.3f}" for share in (0.5, 0.9, 1)]
        bars = ", ".join(f"{name_of(share)} {limit:.3g}" for share, limit in self.limits.items())
        verdict = "yes" if self.holds else "**no**"
        return f"| {self.what} | {len(errors)} | {' | '.join(shown)} | {bars} | {verdict} |"

    def list_outside(self) -> list[str]:
        """Return the cells beyond the widest limit, the worst first."""
        limit = max(self.limits.values())
        beyond = sorted(((size, cell) for size, cell in self.errors if size > limit + 1e-9), reverse=True)
        return [f"{cell}: {size:.3f}" for size, cell in beyond]


def name_of(share: float) -> str:
    """Return the name of a percentile."""
    return {0.5: "median", 1: "worst"}.get(share, f"p{100 * share:g}")


def group_by_cell(comparison: Comparison) -> dict[Cell, dict[tuple[str, int, str], Pair]]:
    """Return the pairs of every cell by class, flow and metric."""
    cells: dict[Cell, dict[tuple[str, int, str], Pair]] = defaultdict(dict)
    for pair in comparison.pairs:
        cells[pair.figure.cell][pair.figure.table, pair.figure.flow, pair.figure.metric] = pair
    return cells


def fill_linux_bars(comparison: Comparison) -> list[Bar]:
    """Return the bars of cells of Linux, filled."""
    alone = Bar("classic flow alone: goodput, share of the rate", {1: 0.02})
    pairs = Bar("classic flows together: goodput of each, share of the rate", {1: 0.03})
    rtt = Bar("classic flows: RTT", {1: 0.06})
    signals = Bar("classic flows: marks and drops", {0.85: 0.25})
    prague = Bar("Prague alone: goodput, share of the rate", {1: 0.02})
    share = Bar("Prague and others: share of flow 1", {0.5: 0.05, 0.9: 0.12})
    prague_rtt = Bar("cells with Prague: RTT", {1: 0.10})
    counts = Bar("cells with Prague: marks and drops", {0.85: 0.25})
    delay = Bar("time in queue L", {0.5: 0.25})
    for cell, pairs_of in group_by_cell(comparison).items():
        ccs = dict(cell)["ccs"]
        with_prague, single = "prague" in ccs, "+" not in ccs
        for (_, flow, metric), pair in pairs_of.items():
            name = format_cell(cell) + (f", flow {flow}" if flow and not single else "")
            bar: Bar | None = None
            match metric:
                case "goodput_mbit":
                    bar = (prague if single else None) if with_prague else (alone if single else pairs)
                case "rtt_ms":
                    bar = prague_rtt if with_prague else rtt
                case "signals":
                    bar = counts if with_prague else signals
                case "share":
                    bar = share if with_prague else None
                case "sojourn_l_ms":
                    bar = delay
            if bar is not None and not math.isnan(pair.error):
                bar.errors.append((abs(pair.error), f"{name}: {pair.simulated:.4g} (Linux {pair.figure.value:.4g})"))
    return [alone, pairs, rtt, signals, prague, share, prague_rtt, counts, delay]


def fill_evaluation_bars(comparison: Comparison) -> list[Bar]:
    """Return the bars of the evaluation of 2021, filled."""
    ratio = Bar("mixed RTT: ratio of rates, ln of sim / measured", {0.5: 0.15, 1: 0.5})
    delay = Bar("mixed RTT: mean time in queue over its bar (25 % or 0.15 ms)", {1: 1.0})
    mixed = {
        ("a", "mark_pct mean"): Bar("mixed RTT: marks of L, ln of sim / measured", {0.5: math.log(FACTOR)}),
        ("b", "drop_pct mean"): Bar("mixed RTT: drops of C, ln of sim / measured", {0.5: math.log(FACTOR)}),
    }
    overload_delay = Bar("overload: mean time in queue", {0.5: 0.15})
    shares = {
        "mark_pct mean": Bar("overload: marks", {0.5: 0.20}),
        "drop_pct mean": Bar("overload: drops", {0.5: 0.20}),
    }
    starved = Bar("overload: starved where the measurement is not (1), or not", {1: 0.0})
    use = Bar("utilisation, percentage points", {})
    for cell, pairs in group_by_cell(comparison).items():
        overload = bool(dict(cell)["udp_mbit"])
        for (side, _, metric), pair in pairs.items():
            simulated, published = pair.simulated, pair.figure.value
            counted = f" ({dict(cell)['counted']})" if overload else ""
            name = f"{format_cell(cell)}, {side}{counted}: {simulated:.4g} (measured {published:.4g})"
            relative = abs(simulated - published) / published if published else math.nan
            match metric:
                case "rate_ratio mean" if not overload:
                    ratio.errors.append((abs(pair.error), name))
                case "queue_delay_ms mean" if overload:
                    overload_delay.errors.append((relative, name))
                case "queue_delay_ms mean":
                    limit = max(0.25 * published, 0.15)
                    delay.errors.append((abs(simulated - published) / limit, name))
                case "rate_per_flow_mbit mean" if overload:
                    starved.errors.append((float(simulated < STARVED * published), name))
                case "util_pct mean" if side == "all":
                    use.errors.append((abs(simulated - published), name))
                case "mark_pct mean" | "drop_pct mean" if overload and max(simulated, published) > 0:
                    shares[metric].errors.append((relative if published else math.inf, name))
                case _ if not overload and (side, metric) in mixed and max(simulated, published) > 0:
                    error = abs(math.log(simulated / published)) if min(simulated, published) > 0 else math.inf
                    mixed[side, metric].errors.append((error, name))
    return [ratio, delay, *mixed.values(), overload_delay, *shares.values(), starved, use]


def format_document(bars: Iterable[Bar]) -> str:
    """Return the bars as a table, and the cells outside of each."""
    measured = [bar for bar in bars if bar.errors]
    lines = [
        "| what | cells | median | p90 | worst | bar | holds |",
        "|---|--:|--:|--:|--:|---|---|",
        *(bar.format_line() for bar in measured),
    ]
    for bar in measured:
        outside = bar.list_outside() if bar.limits else []
        if outside:
            lines += [f"\n{bar.what}: outside {len(outside)} of {len(bar.errors)}\n", *(f"- {one}" for one in outside)]
    return "\n".join(lines)


def main(results: str, reference: str, aqm: str = "dualpi2") -> None:
    """Print what agrees."""
    with Store.open(results) as store:
        runs, flows, classes = (store.read_table(name) for name in ("runs", "flows", "classes"))
    compared: Comparison
    judge: Callable[[Comparison], list[Bar]]
    if by_class.describes(reference):
        figures = [f for f in by_class.read(reference) if _find_queue(f.cell) == aqm]
        compared, judge = by_class.compare(runs, classes, figures), fill_evaluation_bars
    else:
        compared, judge = by_flow.compare(runs, flows, by_flow.read(reference)), fill_linux_bars
    print(format_document(judge(compared)))
    total = len({pair.figure.cell for pair in compared.pairs})
    print(f"\n{total} cells compared; {compared.missing} figures have no run.")


def _find_queue(cell: Cell) -> Any:
    return dict(cell)["qdisc"]


if __name__ == "__main__":
    main(*sys.argv[1:])
