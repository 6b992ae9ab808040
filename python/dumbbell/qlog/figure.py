"""Figures of qlog files over time: window, bytes in flight, RTT and losses, of one or more files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dumbbell import figures
from dumbbell.check import qlog_file
from dumbbell.check.fields import BY_COLUMN
from dumbbell.errors import Conflict, Nothing

_LOST = "packet_lost"
_METRICS = ("recovery_metrics_updated", "metrics_updated", "metric_update", "congestion_metric_update")
# metrics by what they are called in the figure: the panel that they are in, their names in files, and what to
# multiply by; RTTs are in ms, or in the unit of the file's times
_BYTES, _RTT = "window, kB", "RTT, ms"
_CURVES = {
    "cwnd": (_BYTES, ("congestion_window", *BY_COLUMN["cwnd"].others), 1e-3),
    "in flight": (_BYTES, ("bytes_in_flight",), 1e-3),
    "smoothed RTT": (_RTT, ("smoothed_rtt",), 1.0),
    "latest RTT": (_RTT, ("latest_rtt",), 1.0),
    "minimum RTT": (_RTT, ("min_rtt",), 1.0),
}
_LOSSES = "packets lost"
_SCHEMA = {"time_s": pl.Float64, "value": pl.Float64, "what": pl.String}


@dataclass
class Curves:
    """What a file has over time: panels of lines, as frames with the columns `time_s`, `value` and `what`."""

    panels: dict[str, pl.DataFrame]
    notes: list[str]


def read(path: Path) -> Curves:
    """Return window, bytes in flight, kB, RTTs, ms, and packets lost so far, of a qlog file. Raises InputError."""
    file = qlog_file.events(path, (*_METRICS, _LOST))
    rows: dict[str, list[tuple[float, float, str]]] = {}
    lost = 0
    for event in file.events:
        if event.name == _LOST:
            lost += 1
            rows.setdefault(_LOSSES, []).append((event.time, float(lost), "lost"))
            continue
        for what, (panel, names, factor) in _CURVES.items():
            value = next((event.data[name] for name in names if name in event.data), None)
            if isinstance(value, int | float) and not isinstance(value, bool):
                scale = event.unit if panel == _RTT else factor
                rows.setdefault(panel, []).append((event.time, value * scale, what))
    panels = {}
    for panel in (_BYTES, _RTT, _LOSSES):
        if panel in rows:
            panels[panel] = pl.DataFrame(rows[panel], schema=_SCHEMA, orient="row")
    if not panels:
        raise Nothing(str(path), "", "no window, bytes in flight, RTT or loss", f"events {', '.join(_METRICS[:2])}")
    return Curves(panels, file.notes)


def draw(paths: Sequence[Path], span: tuple[float, float] | None = None, title: str | None = None) -> figures.Picture:
    """Draw files, one line each for window, bytes in flight, RTTs and losses; `span` is a part of the time, s.

    Raises InputError.
    """
    names = _names(paths)
    found = {name: read(path).panels for name, path in zip(names, paths, strict=True)}
    together: dict[str, list[pl.DataFrame]] = {}
    for name, panels in found.items():
        for panel, rows in panels.items():
            part = rows.filter(pl.col("time_s").is_between(*span)) if span else rows
            if len(paths) > 1:
                part = part.with_columns(pl.lit(f"{name}: ").add(pl.col("what")).alias("what"))
            if len(part):
                together.setdefault(panel, []).append(part)
    if not together:
        raise Nothing("qlog", "--time", "nothing in this part of the time", "a part of the files' time")
    series = [
        figures.Series(pl.concat(together[panel]), "value", "what", panel, steps=panel != _RTT)
        for panel in (_BYTES, _RTT, _LOSSES)
        if panel in together
    ]
    return figures.stacked_series(series, title=title or " and ".join(names))


def _names(paths: Sequence[Path]) -> list[str]:
    """Return names that tell files apart: the last parts of their paths that differ."""
    whole = [path.absolute().parts for path in paths]
    if len(set(whole)) < len(whole):
        raise Conflict("qlog", "", "a file given twice", "different files")
    for count in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-count:]) for parts in whole]
        if len(set(names)) == len(names):
            break
    return [name.removesuffix(".sqlog").removesuffix(".qlog") for name in names]
