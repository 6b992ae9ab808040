"""The recorded states of a single run: every hop, the state of queue disciplines and of congestion controls."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from dumbbell import figures
from dumbbell.plotting.placing import order_frame
from dumbbell.plotting.request import PlotRequest
from dumbbell.results import aggregate
from dumbbell.results.aggregate import Axis, Samples
from dumbbell.results.results import StoredResults

_FEW_STATES = 8  # names that ribbons distinguish
_FEW_SENDERS = 4
_MOST_STRETCHES = 400  # of states, which a ribbon can show
_MEASURES = ("sojourn_mean_ms", "ce_marks", "sce_marks", "drops")


def collect_hops(results: StoredResults, request: PlotRequest) -> Samples | None:
    """Return the series of every hop of a run with several, with the axis `hop`; None of any other run."""
    rows = results.hop_series
    if rows["hop"].n_unique() < 2:
        return None
    found = aggregate.collect_rows(results, "hop_series", ["time_s", "hop", *_MEASURES])
    frame = _select_time(found.frame, request.time)
    hop = Axis("hop", rows["hop"].unique(maintain_order=True).to_list())
    axes = [*found.axes, hop]
    return replace(found, axes=axes, frame=order_frame(axes, frame))


def list_queue_states(results: StoredResults, time: tuple[float, float] | None) -> list[Any]:
    """Return a panel for each recorded state of the queue disciplines of a run, one line per hop that has it."""
    rows = _select_time(results.queue_states, time)
    panels = []
    for state in rows["state"].unique(maintain_order=True).to_list():
        own = rows.filter(pl.col("state") == state).select("time_s", "hop", "value")
        several = own["hop"].n_unique() > 1
        panels.append(figures.Series(own, "value", "hop" if several else None, f"{state} of the queue"))
    return panels


def list_control_states(results: StoredResults, time: tuple[float, float] | None) -> Mapping[str, Sequence[Any]]:
    """Return the stretches of each recorded state of the controls that have a model of their path, by sender.

    Nothing if there are more than ribbons can show.
    """
    if results.trace.is_empty():
        return {}
    rows = results.parts("trace", ["time_s", "state"])
    end: float = max(rows["time_s"].to_list(), default=0.0)
    rows = _select_time(rows, time).filter(pl.col("state").fill_null("") != "")
    if rows.is_empty() or rows["state"].n_unique() > _FEW_STATES or rows["flow"].n_unique() > _FEW_SENDERS:
        return {}
    found: dict[str, Sequence[Any]] = {}
    for (flow,), own in rows.sort("flow", "time_s").group_by("flow", maintain_order=True):
        name = own["part"][0] or own["cc"][0] or f"flow {flow}"
        name = name if name not in found else f"{name} #{len(found) + 1}"
        last = min(time[1], end) if time else end
        found[name] = figures.find_bands(own["time_s"], own["state"], last)
    return found if max(map(len, found.values())) <= _MOST_STRETCHES else {}


def _select_time(rows: pl.DataFrame, time: tuple[float, float] | None) -> pl.DataFrame:
    return rows.filter(pl.col("time_s").is_between(*time)) if time else rows
