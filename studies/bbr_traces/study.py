"""README.md: states, rate, windows and RTT of one BBR flow on Linux and in the simulator."""

from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl

from dumbbell.study import Evidence, Picture, Results, Rows, Series, Sweep, align_table, figures

from .traces import LINES, STATES, TOLERANCE, Cell, Trace, collect_simulated, judge, read_linux

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
SOURCES = ("Linux", "simulator")


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


def draw_cell(cell: Cell, found: Evidence) -> Picture:
    """Draw states, rate, windows and RTT of Linux and of the simulator over each other."""
    rows = found["drawn"].filter(pl.col("figure") == cell.figure)
    bounds = rows["long_term"].is_not_null().any()
    panels = [
        Series(
            rows,
            "bw",
            "source",
            "bw, Mbit/s",
            steps=True,
            levels=[(cell.rate_mbit / FRAME_PER_PAYLOAD, "payload rate")],
        ),
        Series(rows, "cwnd", "source", "cwnd, segments"),
        Series(rows, "in_flight", "source", "in flight, segments"),
        *([Series(rows, "long_term", "source", "long-term bound, segments", steps=True)] if bounds else []),
        Series(rows, "srtt", "source", "smoothed RTT, ms"),
    ]
    end = float(rows["time"].max() or 0.0)  # type: ignore[arg-type]
    own = {source: rows.filter(pl.col("source") == source, pl.col("state").is_not_null()) for source in SOURCES}
    states = {
        source: figures.find_bands(part["time"], [STATES[state] for state in part["state"]], end)
        for source, part in own.items()
    }
    return figures.stacked_series(
        panels,
        x="time",
        x_label="time, s",
        states=states,
        title=f"One flow on Linux and in the simulator\n{cell.name}",
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
