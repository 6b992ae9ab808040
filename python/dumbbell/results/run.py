"""The time series of one run as a frame with one row per interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from dumbbell.errors import Ambiguous, Nothing, UnknownName

if TYPE_CHECKING:
    from dumbbell.results.results import StoredResults

CAPACITY = "capacity_mbit"
LIFE = ("start_s", "completion_s")  # of a flow
# what there is over time, by a short name: table and column
OVER_TIME = {
    "goodput": ("series", "goodput_mbit"),
    "cwnd": ("series", "cwnd"),
    "ssthresh": ("series", "ssthresh"),
    "srtt": ("series", "srtt_ms"),
    "rtt": ("series", "srtt_ms"),
    "pings": ("series", "rtt_ms"),
    "in_flight": ("series", "in_flight"),
    "retransmissions": ("series", "retransmissions"),
    "sojourn": ("queue_series", "sojourn_mean_ms"),
    "backlog": ("queue_series", "backlog_packets"),
    "backlog_bytes": ("queue_series", "backlog_bytes"),
    "throughput": ("queue_series", "throughput_mbit"),
    "capacity": ("queue_series", CAPACITY),
    "marks": ("queue_series", "ce_marks"),
    "sce_marks": ("queue_series", "sce_marks"),
    "drops": ("queue_series", "drops"),
}


def select_lifetime(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return rows of flows without what is not a measurement: before a flow begins, after it ends, windows of UDP.

    A point is of the interval before it. The rows stay, so that flows that are alike keep their numbers. They have
    `LIFE`, too.
    """
    interval = pl.col("time_s").unique().sort().diff().min()
    interval = (interval.over("key") if "key" in rows.columns else interval).fill_null(0.0)
    start = pl.col("start_s").fill_null(0.0)
    end = (start + pl.col("completion_s")).fill_null(float("inf"))
    lasts = (pl.col("time_s") > start) & (pl.col("time_s") - interval < end)
    if "srtt_ms" in columns:  # there is no RTT before the first ACK
        rows = rows.with_columns(pl.col("srtt_ms").replace(0.0, None))
    # UDP has no window: 0 in its rows; null is a window that is not known
    senders = lasts & (pl.col("cwnd").fill_null(1) > 0) if "cwnd" in columns else lasts
    return rows.with_columns(
        pl.when(lasts if column in ("goodput_mbit", "rtt_ms") else senders).then(pl.col(column)).alias(column)
        for column in columns
    )


def find_series_column(name: str) -> tuple[str, str]:
    """Return table and column of what `name`, short or the column's own, is over time; else raise InputError."""
    found = next((place for short, place in OVER_TIME.items() if name in (short, place[1])), None)
    if found is None:
        raise UnknownName(name, among=list(OVER_TIME), option="--value", what="series")
    return found


def require_one(results: StoredResults) -> str:
    """Return the key of the only run; raises InputError if there are several."""
    if len(results) != 1:
        keys = [one.name for one in results.dimensions] + ["seed"] * (len(results.seeds) > 1)
        if not len(results):
            raise Nothing("found no run", "conditions that one run meets", file=results.path)
        allowed = f"one by conditions on {', '.join(keys)}"
        raise Ambiguous(f"these are {len(results)} runs", allowed, file=results.path)
    return results.keys[0]


def collect_series(run: StoredResults, *measures: str) -> pl.DataFrame:
    """Return what happened in one run over time; `dumbbell.notebook.Run.series` says how. Raises InputError."""
    places = [find_series_column(name) for name in measures or OVER_TIME]
    frames = []
    for table in ("series", "queue_series"):
        known = run.measures(table)
        columns = list(dict.fromkeys(column for own, column in places if own == table and column in known))
        if not measures and "rtt_ms" in columns and not run.frame(table)["rtt_ms"].is_finite().any():
            columns.remove("rtt_ms")  # a run without pings
        if columns:
            frames.append(
                _collect_flow_series(run, columns) if table == "series" else run.frame(table).select("time_s", *columns)
            )
    frames = [one for one in frames if _has_values(one)]
    if not frames:
        found = f"found no {', '.join(measures)} over time" if measures else "found no time series in the run"
        raise Nothing(found, "runs with record.series = true", file=run.path)
    whole = frames[0]
    for one in frames[1:]:
        whole = whole.join(one, on="time_s", how="full", coalesce=True)
    return whole.sort("time_s")


def _collect_flow_series(run: StoredResults, columns: Sequence[str]) -> pl.DataFrame:
    window = ["cwnd"] if "cwnd" in run.measures("series") else []
    wanted = list(dict.fromkeys([*columns, *window]))
    rows = select_lifetime(run.parts("series", ["time_s", *wanted, *LIFE]), wanted)
    parts = rows.select("flow", "part", "cc").unique("flow", maintain_order=True).sort("flow")
    names = _number_names([part or cc or "flow" for part, cc in parts.select("part", "cc").iter_rows()])
    label = pl.col("flow").replace_strict(parts["flow"], names, return_dtype=pl.String)
    wide = rows.with_columns(label=label).pivot(on="label", index="time_s", values=list(columns))
    if len(columns) == 1:
        wide = wide.rename({name: f"{columns[0]}_{name}" for name in names})
    if len(names) == 1:
        return wide.rename({f"{column}_{names[0]}": column for column in columns})
    return wide.select("time_s", *(pl.col(f"{c}_{name}").alias(f"{c} {name}") for c in columns for name in names))


def _has_values(frame: pl.DataFrame) -> bool:
    """Whether anything but the time is known."""
    return any(column.count() for column in frame.drop("time_s"))


def _number_names(names: list[str]) -> list[str]:
    """Return names in which those that occur more than once are numbered."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(f"{name} #{seen[name]}" if names.count(name) > 1 else name)
    return found
