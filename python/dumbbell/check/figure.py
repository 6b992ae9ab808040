"""The trace of a case as a figure: states, bandwidth, what is in flight, the queue."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from dumbbell import figures
from dumbbell.check.lab import FRAME, Run
from dumbbell.check.model import Case, Verdict
from dumbbell.figures.over_time import Band

_BANDWIDTHS = {"max_bw_mbit": "max_bw", "bw_shortterm_mbit": "bw_shortterm", "pacing_rate_mbit": "pacing rate"}
_VOLUMES = {
    "in_flight": "inflight",
    "cwnd": "cwnd",
    "inflight_bdp": "BBRInflight(1.0)",
    "inflight_longterm": "inflight_longterm",
    "inflight_shortterm": "inflight_shortterm",
}
_MOST_ROUNDS = 60  # that are drawn around what happens


def draw(run: Run, case: Case, verdict: Verdict, control: str) -> figures.Picture:
    """Draw a run with its states as bands, the times at which it was disturbed as lines."""
    trace, setup = run.trace, run.setup
    start, end = _window(run)
    rows = trace.rows(start, end)
    point = setup.point
    panels = [
        figures.Series(_long(run, rows, _BANDWIDTHS), "value", "what", "bandwidth, Mbit/s", steps=True, levels=[(point.goodput, "link")]),
        figures.Series(_long(run, rows, _VOLUMES), "value", "what", "segments", steps=True, levels=[(point.bdp, "BDP")] if point.bdp >= 1 else []),
        figures.Series(
            pl.DataFrame({"time_s": trace.time[rows], "value": trace["backlog_bytes"][rows] / FRAME}), "value", None, "queue, packets", steps=True
        ),
    ]
    bands = [Band(max(one.start, start), min(one.end, end), one.state) for one in trace.phases if one.end > start and one.start < end]
    marks = [(time, name) for name, time in setup.times.items() if start <= time <= end]
    title = f"{case.number}. {case.heading}\n{control}, {point}: {verdict.result}"
    return figures.stacked_series(panels, marks=marks, bands=bands, title=title)


def _long(run: Run, rows: slice, names: dict[str, str]) -> pl.DataFrame:
    """Return columns of the trace one below another, without those that have no values there."""
    trace = run.trace
    parts = []
    for column, label in names.items():
        values = trace[column][rows]
        if column == "pacing_rate_mbit":
            # that of STARTUP would hide all else
            values = np.minimum(values, 3 * run.setup.point.goodput)
        if np.isfinite(values).any():
            parts.append(pl.DataFrame({"time_s": trace.time[rows], "value": values, "what": [label] * len(values)}))
    return pl.concat(parts) if parts else pl.DataFrame({"time_s": [], "value": [], "what": []})


def _window(run: Run) -> tuple[float, float]:
    """Return the part of a trace that is drawn: some rounds around what disturbs it, or from the start on."""
    last = float(run.trace.time[-1])
    length = _MOST_ROUNDS * run.setup.point.round
    if not run.setup.times:
        return 0.0, min(last, 2 * length)
    first = min(run.setup.times.values())
    return max(first - length / 4, 0.0), min(max(*run.setup.times.values(), first) + length, last)


def file_name(case: Case, control: str, run: Run) -> str:
    """Return what the files of a run are called, without their ending."""
    rate, rtt = run.setup.point.rate, run.setup.point.rtt
    words = "".join(c if c.isalnum() else "-" for c in control).strip("-")
    return f"{case.number}-{case.key}-{words}-{rate / 1e6:g}mbit-{rtt * 1e3:g}ms"


def save(run: Run, case: Case, verdict: Verdict, control: str, folder: Path) -> Path:
    """Draw a run into a file of a folder."""
    path = folder / f"{file_name(case, control, run)}.png"
    figures.save(draw(run, case, verdict, control), str(path))
    return path
