"""The trace of a case as a figure: states, bandwidth, what is in flight, the queue."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from dumbbell import figures
from dumbbell.errors import Nothing
from dumbbell.evaluate.bbr.case import BbrCase
from dumbbell.evaluate.bbr.lab import CaseRun
from dumbbell.qlog.fields import FRAME

_BANDWIDTHS = {"max_bw_mbit": "max_bw", "bw_shortterm_mbit": "bw_shortterm", "pacing_rate_mbit": "pacing rate"}
_VOLUMES = {
    "in_flight": "inflight",
    "cwnd": "cwnd",
    "inflight_bdp": "BBRInflight(1.0)",
    "inflight_longterm": "inflight_longterm",
    "inflight_shortterm": "inflight_shortterm",
}
_RTTS = {"srtt_ms": "smoothed RTT", "min_rtt_ms": "min_rtt"}
_MOST_ROUNDS = 60  # that are drawn around what happens


def draw(run: CaseRun, case: BbrCase, result: str, control: str) -> figures.Picture:
    """Draw a run with its states, the times at which it was disturbed as lines."""
    start, end = _choose_window(run)
    rows = run.trace.select_rows(start, end)
    panels = _list_panels(run, rows)
    if run.trace.has("backlog_bytes"):
        queue = pl.DataFrame({"time_s": run.trace.time[rows], "value": run.trace["backlog_bytes"][rows] / FRAME})
        panels.append(figures.Series(queue, "value", None, "queue, packets", steps=True))
    title = f"{case.number}. {case.heading}: {control}, {run.setup.point}, {result}"
    return _stack_panels(run, panels, (start, end), control, title)


def draw_file(run: CaseRun, name: str) -> figures.Picture:
    """Draw a whole trace: states, bandwidths, window and what is in flight, RTT; what it has of these."""
    panels = _list_panels(run, slice(0, len(run.trace)), rtts=True)
    if not panels:
        raise Nothing("found no bandwidth, window or RTT", "a trace with one of them", file=name, option="--figures")
    return _stack_panels(run, panels, (0.0, float(run.trace.time[-1])), name, f"{name}: {run.setup.point}")


def _stack_panels(
    run: CaseRun, panels: list[figures.Series], span: tuple[float, float], name: str, title: str
) -> figures.Picture:
    """Return panels over a part of the time, with states, and lines where the path changes."""
    start, end = span
    marks = [(time, what) for what, time in run.setup.times.items() if start <= time <= end]
    phases = [one for one in run.trace.phases if one.end > start and one.start < end]
    bands = [figures.Band(max(one.start, start), min(one.end, end), one.state) for one in phases]
    return figures.stacked_series(panels, marks=marks, states={name: bands}, title=title)


def _list_panels(run: CaseRun, rows: slice, *, rtts: bool = False) -> list[figures.Series]:
    """Return bandwidths, volumes and, if they are wanted, RTTs, where the trace has values of them."""
    point = run.setup.point
    kinds = [
        (_BANDWIDTHS, "bandwidth, Mbit/s", [(point.goodput, "link")]),
        (_VOLUMES, "segments", [(point.bdp, "BDP")] if point.bdp >= 1 else []),
        (_RTTS if rtts else {}, "RTT, ms", [(point.rtt * 1e3, "base RTT")]),
    ]
    found = [(_stack_columns(run, rows, columns), title, levels) for columns, title, levels in kinds]
    return [
        figures.Series(values, "value", "what", title, steps=True, levels=levels)
        for values, title, levels in found
        if len(values)
    ]


def _stack_columns(run: CaseRun, rows: slice, names: dict[str, str]) -> pl.DataFrame:
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


def _choose_window(run: CaseRun) -> tuple[float, float]:
    """Return the part of a trace that is drawn: some rounds around what disturbs it, or from the start on."""
    last = float(run.trace.time[-1])
    length = _MOST_ROUNDS * run.setup.point.round
    if not run.setup.times:
        return 0.0, min(last, 2 * length)
    first = min(run.setup.times.values())
    return max(first - length / 4, 0.0), min(max(*run.setup.times.values(), first) + length, last)


def save(run: CaseRun, case: BbrCase, result: str, control: str, folder: Path) -> Path:
    """Draw a run into a file of a folder, which has the name of case, control and path."""
    rate, rtt = run.setup.point.rate, run.setup.point.rtt
    words = "".join(c if c.isalnum() else "-" for c in control).strip("-")
    path = folder / f"{case.number}-{case.key}-{words}-{rate / 1e6:g}mbit-{rtt * 1e3:g}ms.png"
    figures.save(draw(run, case, result, control), str(path))
    return path
