"""README.md: states, rate, windows and RTT of one BBR flow on Linux and in the simulator."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl
from matplotlib.lines import Line2D

from dumbbell.figures.style import DASHES, GUIDE
from dumbbell.study import Evidence, Picture, Results, Rows, Series, Sweep, align_table, figures

from .traces import (
    LINES,
    STATES,
    TOLERANCE,
    Cell,
    Trace,
    align_changes,
    collect_simulated,
    cut_after_probes,
    judge,
    read_linux,
)

QUESTION = "Does a flow go through the same states at the same times as on Linux?"
GALLERY = {"bbr-traces": "bbr-trace-bbr3-pfifo-10"}
RUNS = (Sweep("bbr-traces.duckdb", ("bbr-traces",)),)
FRAME_PER_PAYLOAD = 1514 / 1448
SHOWN_S = {10.0: 2.0, 50.0: 8.0}  # by rate, Mbit/s
DRAWN = (
    Cell("bbr1", False, "pfifo", 10.0, 20.0),
    Cell("bbr1", False, "pfifo", 50.0, 40.0),
    Cell("bbr2", False, "pfifo", 10.0, 20.0),
    Cell("bbr2", False, "pfifo", 50.0, 40.0),
    Cell("bbr2", True, "step", 10.0, 20.0),
    Cell("bbr2", True, "step", 50.0, 40.0),
    Cell("bbr3", False, "pfifo", 10.0, 20.0),
    Cell("bbr3", False, "pfifo", 50.0, 40.0),
)
ALSO_DRAWN = {cell.figure: "bbr-traces" for cell in DRAWN}
SOURCES = ("Linux", "simulator")
WIDTH = 5.2  # inches


def make_evidence(results: Results) -> dict[str, pl.DataFrame]:
    """Return the comparison of every cell, and what the figures draw."""
    measured = read_linux()
    runs = collect_simulated(results, set(measured))
    rows: list[dict[str, Any]] = []
    waits: list[dict[str, Any]] = []
    drawn: list[pl.DataFrame] = []
    for cell, trace in measured.items():
        row, own, nearest = judge(cell, trace, runs[cell])
        rows.append(row)
        waits += own
        if cell in DRAWN:
            drawn += [_thin_trace(cell, one, source) for one, source in zip((trace, nearest), SOURCES, strict=True)]
    return {"cells": pl.DataFrame(rows), "waits": pl.DataFrame(waits), "drawn": pl.concat(drawn)}


def _thin_trace(cell: Cell, trace: Trace, source: str) -> pl.DataFrame:
    """Return what a figure shows of a trace, at most every 20 ms and at changes of state."""
    kept, last = [], -1.0
    for i, time in enumerate(trace.time):
        changed = i > 0 and trace.state[i] != trace.state[i - 1]
        if time <= SHOWN_S[cell.rate_mbit] and (changed or time - last >= cell.rtt * 0.99):
            kept.append(i)
            last = time
    return pl.DataFrame(
        {
            "figure": [cell.figure] * len(kept),
            "source": [source] * len(kept),
            "time": [round(trace.time[i], 3) for i in kept],
            "state": [STATES.index(trace.state[i]) if trace.state[i] else None for i in kept],
            **{name: [_round_value(trace.lines[name][i]) for i in kept] for name in LINES},
        },
        schema_overrides=dict.fromkeys(LINES, pl.Float64),
    )


def _round_value(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


# the end of the horizontal axis, s, where less than all that is known is drawn: BBRv1 probes every eight round trips
ENDS_S = {("bbr1", 10.0): 1.3, ("bbr1", 50.0): 2.5}
KERNELS = {"bbr1": "6.1", "bbr2": "6.1", "bbr3": "6.12"}
BOUND = "{}, long-term bound"


def draw_cell(cell: Cell, found: Evidence) -> Picture:
    """Draw states, what is in flight, window, rate and RTT of Linux and of the simulator over each other."""
    end = ENDS_S.get((cell.version, cell.rate_mbit), SHOWN_S[cell.rate_mbit])
    similar = found["drawn"].filter(pl.col("figure").str.ends_with(f"-{cell.queue}-{cell.rate_mbit:g}"))
    rows = similar.filter(pl.col("figure") == cell.figure, pl.col("time") <= end)
    bounds = rows.filter(pl.col("long_term").is_not_null()).with_columns(
        pl.format(BOUND, "source").alias("source"), in_flight="long_term"
    )
    payload = cell.rate_mbit / FRAME_PER_PAYLOAD
    columns = ["time", "source", "in_flight"]
    panels = [
        Series(pl.concat([rows.select(columns), bounds.select(columns)]), "in_flight", "source", "in flight, segments"),
        Series(rows, "cwnd", "source", "cwnd, segments"),
        Series(rows, "bw", "source", "bw, Mbit/s", steps=True, levels=[(payload, "")]),
        Series(rows, "srtt", "source", "smoothed RTT, ms", levels=[(cell.delay_ms, "")]),
    ]
    states = {
        source: figures.find_bands(part["time"], [STATES[state] for state in part["state"]], end)
        for source in SOURCES
        for part in [rows.filter(pl.col("source") == source, pl.col("state").is_not_null())]
    }
    title = f"{describe_nearness(cell, found)}\n{describe(cell, found)}"
    picture = figures.stacked_series(panels, x="time", x_label="time, s", states=states, title=title)
    # the same scales in all figures of a rate and a queue
    flight, window, rtt = (similar[name].drop_nulls().to_numpy().max() for name in ("in_flight", "cwnd", "srtt"))
    windows = (0.0, 1.05 * float(max(flight, window)))
    limits = [windows, windows, (0.0, 1.25 * payload), (0.85 * cell.delay_ms, 1.05 * float(rtt))]
    for axes, ends in zip(picture.panels.values(), limits, strict=True):
        axes.set_ylim(*ends)
        axes.set_xlim(0, end)
        for line in axes.lines:
            if str(line.get_label()).startswith(SOURCES[0]):  # below, and wide: it is seen where both are equal
                line.set(linewidth=3.0, alpha=0.55)
    for label, shown in picture.entries:
        if label.startswith(SOURCES[0]):
            shown.set(linewidth=3.0, alpha=0.55)
    picture.entries = [entry for entry in picture.entries if entry[0] not in map(BOUND.format, SOURCES)]
    picture.entries.sort(key=lambda entry: entry[0] not in SOURCES)
    if not bounds.is_empty():
        dashed = Line2D([], [], color=GUIDE, linewidth=1.5, linestyle=DASHES[1])
        picture.entries.insert(len(SOURCES), ("long-term bound", dashed))
    picture.panel_size, picture.rigid = (4.3, 1.1), True
    return picture.set_width(WIDTH)


def pair_changes(cell: Cell, found: Evidence) -> list[tuple[float, float, str]]:
    """Return the changes of state through startup and the first probes of what is drawn: Linux, simulator, state."""
    rows = found["drawn"].filter(pl.col("figure") == cell.figure, pl.col("state").is_not_null())
    linux, simulated = (
        Trace(part["time"].to_list(), [STATES[state] for state in part["state"]], {}).list_changes()
        for source in SOURCES
        for part in [rows.filter(pl.col("source") == source)]
    )
    return align_changes(cut_after_probes(linux), simulated) or []


def find_differences(cell: Cell, found: Evidence) -> tuple[float, float]:
    """Return the largest differences of times until the first probe and from it on, s; infinite in another order."""
    pairs = pair_changes(cell, found)[1:]  # both start at 0
    first = next((i for i, (_, _, state) in enumerate(pairs) if state in ("probe_refill", "probe_up")), len(pairs))
    apart = [abs(mine - theirs) for theirs, mine, _ in pairs]
    return max(apart[:first], default=math.inf), max(apart[first:], default=math.inf)


def describe_nearness(cell: Cell, found: Evidence) -> str:
    """Return the answer of a figure."""
    begin, probes = (_round_up(apart) for apart in find_differences(cell, found))
    what = f"{cell.version.replace('bbr', 'BBRv')}{' with ECN' if cell.ecn else ''} at {cell.rate_mbit:g} Mbit/s"
    if begin is None or probes is None:
        return f"{what}: the simulator goes through other states than Linux"
    if begin > cell.delay_ms:
        return f"{what}: start-up ends {begin} ms apart, but the probes are within {probes} ms of Linux's"
    return f"{what}: states within {max(begin, probes)} ms of Linux's through two probes"


def _round_up(seconds: float) -> int | None:
    """Return whole milliseconds, so that a bound stays one; None if there is none."""
    return None if math.isinf(seconds) else math.ceil(1000 * seconds - 1e-6)


def describe(cell: Cell, found: Evidence) -> str:
    """Return the set-up of a figure."""
    seeds = found["cells"].filter(pl.col("cell") == cell.name)["seeds"].item()
    queue = "FIFO of 100 packets" if cell.queue == "pfifo" else "marks above 1 ms of queue"
    return (
        f"One flow, base RTT {cell.delay_ms:g} ms, {queue}; dashed lines: rate without headers, base RTT. "
        f"Linux {KERNELS[cell.version]}: one run; simulator: the nearest of {seeds} seeds."
    )


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return the cells that agree by the rule of the page, and those that would with one round trip."""
    cells = found["cells"]
    worst = pl.max_horizontal("within", "beyond")
    return {
        "agree": Rows("agree", cells.with_columns(worst=worst, agrees=(pl.col("order") > 0) & (worst <= TOLERANCE))),
        "one": int(((cells["order"] > 0) & (cells.select(worst).to_series() <= 1)).sum()),
        "two": int(((cells["order"] > 0) & (cells.select(worst).to_series() <= TOLERANCE)).sum()),
        "tolerance": TOLERANCE,
        "drawn_cells": [(cell.name, cell.figure) for cell in DRAWN],
    }


def format_verdicts(found: Evidence) -> str:
    """Return one row for each cell."""
    waits = found["waits"]
    rows = []
    for row in found["cells"].iter_rows(named=True):
        own = waits.filter(pl.col("cell") == row["cell"]).sort("probe")
        spans = ", ".join(f"{w['linux']:.2f} ({w['low']:.2f}-{w['high']:.2f})" for w in own.iter_rows(named=True))
        rows.append(
            [
                row["cell"],
                f"{row['order']} of {row['seeds']}",
                f"{row['within']:.2f}",
                row["at"],
                f"{row['near']}; {row['near_two']}",
                spans,
                f"{row['beyond']:.2f}",
            ]
        )
    header = ["cell", "seeds in Linux's order", "nearest seed: largest difference, round trips", "at"]
    header += ["seeds within 1; 2 round trips", "waits, s: Linux (seeds)", "outside the seeds, round trips"]
    return align_table(header, rows, words=(0, 3, 5))


TABLES: dict[str, Callable[[Evidence], str]] = {"verdicts": format_verdicts}
FIGURES: dict[str, Callable[[Evidence], Picture]] = {cell.figure: partial(draw_cell, cell) for cell in DRAWN}
