"""Finds facts of queues and links in tables runs and hops and from time series."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from dumbbell.experiment.net import list_rate_changes
from dumbbell.explain import bursts, phrases
from dumbbell.explain.bursts import Array
from dumbbell.explain.facts import queues, results
from dumbbell.explain.facts.base import Fact
from dumbbell.explain.observed import Observed
from dumbbell.explain.sender_facts import MOST_SINGLE, trace_flows

_IDLE_MS = 0.01  # mean wait up to which a hop without signals has nothing to tell
_AFTER_CHANGE_S = 5.0
_LEAST_STEADY = 0.2  # share of the run
_OUTAGE_S = 0.02
_APART = ("fq_codel", "fq_pie")  # disciplines with a queue per flow
_ROUNDS = 4  # after slow start, in base RTTs, that are part of the start


class _Start(NamedTuple):
    """The slow start of the flows that start first."""

    from_s: float
    until_s: float
    """0 if none of them left it."""
    of: tuple[str, ...]
    """Which flows; none if it was that of all."""


def find_facts(run: Observed) -> Iterator[Fact]:
    """Yield what there is to say of queues and links; one hop alone has no name in it."""
    rows = run.tables["hops"].to_dicts() or [run.run | {"hop": ""}]
    busy = [row for row in rows if not _is_idle(row)] or rows[:1]
    for row in busy:
        name = "" if len(busy) == 1 and row["hop"] == "bottleneck" else row["hop"]
        yield from _find_totals(run, row, name)
        series = run.hops.get(row["hop"])
        if series is not None and series.height > 2:
            yield from _find_changes_over_time(run, row, series, name)


def _is_idle(row: dict[str, Any]) -> bool:
    signals = sum(_get_number(row, name) or 0 for name in ("drops", "ce_marks", "sce_marks"))
    return not signals and (_get_number(row, "sojourn_mean_ms") or 0) < _IDLE_MS


def _get_number(row: dict[str, Any], name: str) -> float | None:
    """Return a measure; None if the engine does not have it."""
    value = row.get(name)
    return None if value is None or not math.isfinite(value) else float(value)


def has_queue_per_flow(run: Observed, hop: str) -> bool:
    """Return whether the discipline of a hop keeps flows apart, of which there are several."""
    aqm = run.find_hop(hop)["aqm"]
    many = len(run.members) > 1 or bool(run.config["web"])
    apart = aqm["name"] in _APART or (aqm["name"] == "cake" and aqm.get("isolation") != "flowblind")
    return many and (apart or aqm["name"] == "dualpi2")


def _find_totals(run: Observed, row: dict[str, Any], hop: str) -> Iterator[Fact]:
    aqm = run.find_hop(hop)["aqm"]["name"]
    own = has_queue_per_flow(run, hop)
    used = [_get_number(row, name) for name in ("utilisation", "throughput_mbit", "capacity_mbit")]
    if None not in used:
        yield results.Utilisation(hop, *(one for one in used if one is not None))
    waits = [_get_number(row, f"sojourn_{name}_ms") for name in ("mean", "p50", "p99", "max")]
    if None not in waits:
        yield results.Waiting(hop, *(one for one in waits if one is not None), own_queues=own)
    if own and not run.tables["hops"].height:
        yield from _find_facts_by_flow(run, hop, aqm)
    signals = [_get_number(row, name) for name in ("ce_marks", "sce_marks", "drops", "packets")]
    if None not in signals:
        marks, sce_marks, drops, packets = (int(one) for one in signals if one is not None)
        overflow = _get_number(row, "drops_overflow")
        by = "the step" if aqm == "step" else phrases.format_label(aqm)
        known = None if overflow is None else int(overflow)
        yield results.Signals(hop, marks, sce_marks, drops, known, packets, by=by, own_queues=own)


def _find_facts_by_flow(run: Observed, hop: str, aqm: str) -> Iterator[Fact]:
    """Yield how long packets of each flow waited, and those of short flows, if these are not too many."""
    rows = [(name, row.get("sojourn_mean_ms")) for (name, _), row in zip(run.members, run.flows, strict=False)]
    classes = run.tables["classes"]
    rows += [
        (f"the short flows of {phrases.format_label(row['cc'])}", row["sojourn_mean_ms"])
        for row in classes.filter(classes["kind"] == "web").iter_rows(named=True)
    ]
    known = [(name, float(mean)) for name, mean in rows if mean is not None and math.isfinite(mean)]
    if 1 < len(known) <= MOST_SINGLE:
        names, means = zip(*known, strict=True)
        yield results.WaitingByFlow(hop, phrases.format_label(aqm), aqm == "dualpi2", names, means)


def _find_changes_over_time(run: Observed, row: dict[str, Any], series: pl.DataFrame, hop: str) -> Iterator[Fact]:
    columns = {name: series[name].to_numpy() for name in series.columns if name != "hop"}
    time, interval, own = columns["time_s"], run.interval_s, has_queue_per_flow(run, hop)
    yield from _find_actions(run, hop, columns)
    start = _start(run)
    waits = columns["sojourn_mean_ms"]
    if (_get_number(row, "sojourn_max_ms") or 0) > 0.001 and np.isfinite(waits).all():
        early = (time > start.from_s) & (time <= start.until_s)
        fine = bool(run.fine)
        if fine and early.any() and waits[early].max() > 0:
            peak = float(waits[early].max())
            yield queues.StartPeak(hop, start.from_s, start.until_s, interval, peak, start.of, own_queues=own)
        at = int(np.argmax(waits))
        if time[at] > start.until_s or not fine:  # else the start reported it
            yield queues.Peak(hop, float(time[at]), interval, float(waits[at]), own_queues=own)
        yield from _find_steady_state(run, hop, columns, start if fine else _Start(0.0, 0.0, ()))
    yield from _find_states(run, hop)
    yield from _find_rate_changes(run, hop, columns)
    yield from _find_outages(hop, columns, interval)


def _find_actions(run: Observed, hop: str, columns: dict[str, Array]) -> Iterator[Fact]:
    apart = bursts.find_gap(run.flows, run.interval_s)
    for what, name in (("dropped", "drops"), ("marked", "ce_marks"), ("marked_sce", "sce_marks")):
        if not np.isfinite(columns[name].astype(np.float64)).all():  # not measured
            continue
        found = bursts.find_bursts(columns["time_s"], columns[name].astype(np.int64), apart)
        if not run.fine:  # of whole intervals
            found = [dataclasses.replace(one, from_s=max(one.from_s - run.interval_s, 0.0)) for one in found]
        if found:
            yield queues.Acted(hop, what, **bursts.describe_bursts(found, apart))


def _start(run: Observed) -> _Start:
    """Return the start of the flows that start first: some round trips after the last of them left slow start."""
    flows = trace_flows(run)
    first = min((one.start_s for one in flows), default=0.0)
    own = [one for one in flows if one.start_s <= first + 1.0 and one.row.get("slow_start_exit")]
    ends = [
        one.start_s + float(one.row["slow_start_exit_s"]) + _ROUNDS * float(one.row["base_rtt_ms"]) / 1e3 for one in own
    ]
    return _Start(first, max(ends, default=0.0), () if len(own) == len(flows) else tuple(one.name for one in own))


def _find_steady_state(run: Observed, hop: str, columns: dict[str, Array], start: _Start) -> Iterator[Fact]:
    since = start.until_s
    changes = [change["at"] / 1e9 for change in list_rate_changes(run.find_hop(hop), round(run.duration_s * 1e9))]
    until = min([run.duration_s, *(at for at in changes if at > since)])
    time, backlog = columns["time_s"], columns["backlog_packets"]
    rows = (time > since) & (time <= until + 1e-9)
    if until - since < _LEAST_STEADY * run.duration_s or rows.sum() < 10:
        return
    own, weights = has_queue_per_flow(run, hop), columns["throughput_mbit"][rows]
    if since and weights.sum() > 0:
        mean = float((columns["sojourn_mean_ms"][rows] * weights).sum() / weights.sum())
        yield queues.Steady(hop, since, until, mean, start.of, own_queues=own)
    if run.fine:
        yield queues.Empty(hop, since, until, run.interval_s, float((backlog[rows] == 0).mean()), own_queues=own)


def _find_states(run: Observed, hop: str) -> Iterator[Fact]:
    states = run.find_table("queue_states")
    if not states.height:
        return
    own = states.filter(states["hop"] == (hop or "bottleneck"))
    dropping = own.filter(own["state"] == "dropping")
    time, value = dropping["time_s"].to_numpy(), dropping["value"].to_numpy()
    found = bursts.find_spans(time, value > 0)
    if found:
        longest = max(found, key=lambda one: one[1] - one[0])
        yield queues.Dropping(
            hop,
            found[0][0],
            found[-1][1],
            len(found),
            float((value > 0).mean()),
            longest[1] - longest[0],
            longest[0],
            run.interval_s,
            own_queues=has_queue_per_flow(run, hop),
        )
    law = own.filter(own["state"] == "p")
    if law.height:
        time, value = law["time_s"].to_numpy(), law["value"].to_numpy()
        most = int(np.argmax(value))
        if value[most] > 0:
            at = float(time[most])
            yield queues.Probability(hop, float(time[0]), float(np.median(value)), float(value[most]), at)


def _find_rate_changes(run: Observed, hop: str, columns: dict[str, Array]) -> Iterator[Fact]:
    config = run.find_hop(hop)
    before = config["rate"] / 1e6
    if isinstance(config["rate_changes"], dict):  # a cycle: no change of it is news
        return
    changes = list_rate_changes(config, round(run.duration_s * 1e9))
    for place, change in enumerate(changes):
        at, after = change["at"] / 1e9, change["rate"] / 1e6
        if at >= run.duration_s:
            break
        next_at = changes[place + 1]["at"] / 1e9 if place + 1 < len(changes) else run.duration_s
        until = min(at + _AFTER_CHANGE_S, next_at, run.duration_s)
        rows = (columns["time_s"] > at + 1e-9) & (columns["time_s"] <= until + 1e-9)
        peak, peak_at, counts = None, None, [0, 0]
        if rows.any():
            worst = int(np.argmax(columns["sojourn_mean_ms"][rows]))
            peak, peak_at = float(columns["sojourn_mean_ms"][rows][worst]), float(columns["time_s"][rows][worst])
            counts = [int(np.nansum(columns[name][rows].astype(np.float64))) for name in ("drops", "ce_marks")]
        if after != before:
            yield queues.RateChange(hop, at, before, after, until, peak, peak_at, *counts)
        before = after


def _find_outages(hop: str, columns: dict[str, Array], interval: float) -> Iterator[Fact]:
    time = columns["time_s"]
    # the intervals end at these times
    found = [
        (first - interval, end - interval) for first, end in bursts.find_spans(time, columns["capacity_mbit"] <= 0)
    ]
    found = [one for one in found if one[1] - one[0] >= max(_OUTAGE_S, interval)]
    if found:
        longest = max(found, key=lambda one: one[1] - one[0])
        yield queues.Outages(
            hop,
            found[0][0],
            found[-1][1],
            len(found),
            longest[1] - longest[0],
            longest[0],
            sum(end - first for first, end in found),
        )
