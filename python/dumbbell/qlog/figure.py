"""Figures of qlog files over time: window, bytes in flight, RTT and losses, of one or more files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dumbbell import figures
from dumbbell.errors import Nothing, Unfit
from dumbbell.qlog.events import QlogFile, read_connections
from dumbbell.qlog.fields import BY_COLUMN

_LOST = "packet_lost"
_METRICS = ("recovery_metrics_updated", "metrics_updated", "metric_update", "congestion_metric_update")
# what is drawn, and the metrics of files that are it; RTTs are ms, or in the unit of the file's times
_BYTES = {"cwnd": ("congestion_window", *BY_COLUMN["cwnd"].others), "in flight": ("bytes_in_flight",)}
_RTTS = {"smoothed RTT": ("smoothed_rtt",), "latest RTT": ("latest_rtt",), "minimum RTT": ("min_rtt",)}
LOSSES = "lost"
_COUNT = "lost"  # packets lost so far, of files that do not say which
# RFC 9002 section 6.2.2, kInitialRtt: 333 ms. The first RTT that quinn-proto 0.11 writes is this one, in seconds, as
# all its RTTs are (connection/paths.rs); the drafts have ms.
_INITIAL_RTT_S = 0.333
# panels of one file, and of several, which have one line each in every panel
_PANELS = {
    "window, kB": ("cwnd", "in flight"),
    "RTT, ms": ("latest RTT", "smoothed RTT", "minimum RTT"),
    "packets lost": (LOSSES,),
}
_PANELS_OF_SEVERAL = {
    "window, kB": ("cwnd",),
    "in flight, kB": ("in flight",),
    "smoothed RTT, ms": ("smoothed RTT",),
    "packets lost": (LOSSES,),
}
_SCHEMA = {"time_s": pl.Float64, "value": pl.Float64}


@dataclass(frozen=True)
class Curves:
    """The series of a file: frames with `time_s` and `value` by what they are, and notes on the reading.

    `cwnd` and `in flight` are kB (1000 bytes), the RTTs ms, `lost` packets lost so far. A value holds until the next.
    """

    frames: dict[str, pl.DataFrame]
    notes: list[str]


def read(path: Path) -> Curves:
    """Return what a qlog file has. Raises InputError."""
    file = _read_connection(path)
    rows: dict[str, list[tuple[float, float]]] = {}
    lost = 0
    first = next((event.data["smoothed_rtt"] for event in file.events if "smoothed_rtt" in event.data), None)
    in_seconds = isinstance(first, float) and abs(first - _INITIAL_RTT_S) < 1e-6
    if in_seconds:
        file.notes.append("its RTTs are in seconds, for it begins with one of 0.333: drawn as ms")
    has_losses = any(event.name == _LOST for event in file.events)
    for event in file.events:
        if event.name == _LOST:
            lost += 1
            rows.setdefault(LOSSES, []).append((event.time, float(lost)))
            continue
        for names, unit in ((_BYTES, 1e-3), (_RTTS, 1e3 if in_seconds else event.unit)):
            for what, keys in names.items():
                value = next((event.data[key] for key in keys if key in event.data), None)
                if isinstance(value, int | float) and not isinstance(value, bool):
                    rows.setdefault(what, []).append((event.time, value * unit))
        count = event.data.get(_COUNT)
        if not has_losses and isinstance(count, int | float):
            rows.setdefault(LOSSES, []).append((event.time, float(count)))
    if not rows:
        raise Nothing(
            "found no window, bytes in flight, RTT or loss", f"a file with events {', '.join(_METRICS[:2])}", file=path
        )
    end = file.events[-1].time
    frames = {}
    for what, points in rows.items():
        if points[-1][0] < end:
            points.append((end, points[-1][1]))  # it holds
        frames[what] = pl.DataFrame(points, schema=_SCHEMA, orient="row")
    return Curves(frames, file.notes)


def _read_connection(path: Path) -> QlogFile:
    """Return the connection with most events, with what a group that ended before it has.

    A client that names its connection after the destination's ID, as quinn, has another name for it in the handshake.
    """
    files = read_connections(path, (*_METRICS, _LOST))
    most = max(files, key=lambda one: len(one.events))
    before = [one for one in files if one is not most and one.events and one.events[-1].time <= most.events[0].time]
    if len(files) > 1 + len(before):
        most.notes.append(f"{len(files) - len(before)} connections: the one with most events is drawn")
    most.events[:0] = [event for one in before for event in one.events]
    return most


def read_all(paths: Sequence[Path]) -> dict[Path, Curves]:
    """Return what files have. Raises InputError."""
    if len({path.absolute() for path in paths}) < len(paths):
        raise Unfit("a file is given twice", "different files", command="plot")
    return {path: read(path) for path in paths}


def draw(
    files: Mapping[Path, Curves], span: tuple[float, float] | None = None, title: str | None = None
) -> figures.Picture:
    """Draw files over time: window, bytes in flight, RTT and losses; `span` is a part of the time, s.

    Raises InputError.
    """
    names = _name_files(list(files))
    found = {name: one.frames for name, one in zip(names, files.values(), strict=True)}
    series = []
    for label, wanted in (_PANELS if len(files) == 1 else _PANELS_OF_SEVERAL).items():
        parts = []
        for name, frames in found.items():
            for what in wanted:
                if what in frames:
                    line = pl.lit(what if len(files) == 1 else name).alias("what")
                    parts.append(_select_span(frames[what], span).with_columns(line))
        rows = pl.concat(parts) if parts else pl.DataFrame()
        if len(rows):
            series.append(figures.Series(rows, "value", "what", label, steps="RTT" not in label))
    if not series:
        raise Nothing(
            "the files have no events in this part of the time", "another part", command="plot", option="--time"
        )
    return figures.stacked_series(series, title=title or " and ".join(names))


def _select_span(rows: pl.DataFrame, span: tuple[float, float] | None) -> pl.DataFrame:
    """Return a part of the time, which begins with the value that holds there."""
    if span is None:
        return rows
    first, last = span
    before = rows.filter(pl.col("time_s") < first).tail(1).with_columns(pl.lit(first).alias("time_s"))
    return pl.concat([before, rows.filter(pl.col("time_s").is_between(first, last))])


def _name_files(paths: Sequence[Path]) -> list[str]:
    """Return names that distinguish files: as many of the last parts of their paths as that takes."""
    whole = [path.absolute().parts for path in paths]
    names: list[str] = []
    for count in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-count:]) for parts in whole]
        if len(set(names)) == len(names):
            break
    return [name.removesuffix(".sqlog").removesuffix(".qlog") for name in names]
