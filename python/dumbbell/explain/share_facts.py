"""Finds facts of shares in table flows, from table classes and from the time series."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from dumbbell.explain import phrases
from dumbbell.explain.facts import results
from dumbbell.explain.facts.base import Fact
from dumbbell.explain.observed import Observed
from dumbbell.explain.sender_facts import round_trips, trace_flows

_BINS = 20  # into which a short run is cut; longer ones have bins of 1 s
_LEAST_BINS = 4
_EVEN = 0.1  # distance from the equal share up to which shares are called even
_SUSTAINED_S = 5.0  # how long shares must stay fair, as `describe convergence_s` says
_SINCE = 0.7  # share of the time within which what holds to its end has to have begun
_MOST_FLOWS = 6


def find_facts(run: Observed) -> Iterator[Fact]:
    """Yield what there is to say of shares, short flows and UDP."""
    yield from _find_shares(run)
    flows = trace_flows(run)
    rivals = len({one.group.get("direction") for one in flows}) == 1  # data both ways share no link
    if rivals and 2 <= len(flows) <= _MOST_FLOWS and run.has_series:
        yield from _find_facts_over_time(run)
    watched = _drop_nan(run.run.get("common_s"))
    if rivals and len(flows) >= 2 and watched is not None and watched >= _SUSTAINED_S:
        yield results.Converged(_drop_nan(run.run.get("convergence_s")), watched)
    yield from _find_short_flows(run)
    yield from _find_udp(run)


def _drop_nan(value: float | None) -> float | None:
    """Return a value that was measured, else None."""
    return None if value is None or math.isnan(value) else float(value)


def _find_shares(run: Observed) -> Iterator[Fact]:
    rows = []
    listed = run.flows
    for flow, (name, _) in enumerate(run.members):
        row = listed[flow] if flow < len(listed) else None
        goodput = None if row is None else row["goodput_mbit"]
        if row is not None and run.is_tcp(flow) and goodput is not None and not math.isnan(goodput):  # it was measured
            rows.append((name, float(goodput), flow, float(row["start_s"]), row.get("completion_s"), row["share"]))
    if not rows:
        return
    own = _has_unlike_times(run, rows)
    ranks = [-1.0 if one[5] is None or math.isnan(one[5]) else one[5] for one in rows]
    # who got most of what they shared first; flows that share nothing, by their goodputs
    order = sorted(range(len(rows)), key=lambda place: (-ranks[place] if own else 0.0, -rows[place][1]))
    names, goodputs, numbers, _, _, portions = zip(*(rows[place] for place in order), strict=True)
    jain = run.run.get("jain")
    ways = tuple(str(run.members[flow][1].get("direction") or "") for flow in numbers)
    both = len(set(ways)) > 1
    several = len(rows) > 1 and jain is not None and not math.isnan(jain) and not both
    # of TCP alone: UDP has a sentence of its own
    got = goodputs if None in portions or any(map(math.isnan, portions)) else portions
    total = sum(one or 0.0 for one in got)
    shares = tuple((one or 0.0) / total if total > 0 else 0.0 for one in got)
    fair = float(jain) if several and jain is not None else None
    common_s = _drop_nan(run.run.get("common_s")) if own else None
    yield results.Shares(names, goodputs, shares, numbers, fair, own, ways if both else (), common_s)


def _has_unlike_times(run: Observed, rows: list[tuple[Any, ...]]) -> bool:
    """Return whether flows were measured over unlike times: by more than a hundredth of the run."""
    starts = [max(start, run.measured_from_s) for _, _, _, start, _, _ in rows]
    ends = [run.duration_s if _drop_nan(done) is None else start + done for _, _, _, start, done, _ in rows]
    return bool(max(max(starts) - min(starts), max(ends) - min(ends)) > 0.01 * run.duration_s)


def choose_bin(run: Observed) -> float:
    """Return the length of the intervals in which shares are looked at: 1 s, or a twentieth of a short run."""
    base = max((group.get("base_rtt", 0) for _, group in run.members), default=0) / 1e9
    least = max(run.interval_s, 4 * base)
    return max(min(1.0, run.duration_s / _BINS), math.ceil(least / run.interval_s) * run.interval_s)


def _find_facts_over_time(run: Observed) -> Iterator[Fact]:
    """Yield whether shares were even, or who led how often, in the time in which all that are left at the end send."""
    length = choose_bin(run)
    flows = trace_flows(run)
    starts = [max(one.start_s, float(one.row["start_s"])) for one in flows]
    ends = []
    for one in flows:
        stop = one.group.get("stop")
        end = run.duration_s if stop is None else min(run.duration_s, stop / 1e9)
        ends.append(end if one.done_s is None else min(end, one.done_s))
    first, last = max(starts), min(ends)
    bins = [(at, at + length) for at in np.arange(math.ceil(first / length) * length, last - length + 1e-9, length)]
    if len(bins) < _LEAST_BINS:
        return
    rates = _bin_rates(run, [one.flow for one in flows], bins, length)
    totals = rates.sum(axis=0)
    if (totals <= 0).any():
        return
    shares = rates / totals
    until = bins[-1][1]
    away = np.abs(shares - 1 / len(flows)).max(axis=0)
    even = _find_start_of_run(away <= _EVEN)
    if even < _SINCE * len(bins):
        within = float(away[even:].max())
        yield results.Even(len(flows), float(bins[even][0]), float(until), length, within)
        return
    leader = shares.argmax(axis=0)
    led = np.bincount(leader, minlength=len(flows))
    order = [int(place) for place in np.argsort(-led, kind="stable")]
    firsts = [0, *(int(place) for place in np.flatnonzero(np.diff(leader)) + 1)]
    nexts = [*firsts[1:], len(bins)]
    longest = max(range(len(firsts)), key=lambda n: nexts[n] - firsts[n])
    yield results.Leads(
        tuple(flows[place].name for place in order),
        tuple(flows[place].flow for place in order),
        tuple(int(led[place]) for place in order),
        float(bins[0][0]),
        float(until),
        length,
        len(firsts) - 1,
        flows[int(leader[firsts[longest]])].name,
        float(bins[firsts[longest]][0]),
        float(bins[nexts[longest] - 1][1]),
    )


def _find_start_of_run(holds: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """Return from which bin on a condition holds to the end; their number if it does not."""
    wrong = np.flatnonzero(~holds)
    return int(wrong[-1]) + 1 if len(wrong) else 0


def _bin_rates(
    run: Observed, flows: list[int], bins: list[tuple[float, float]], length: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return goodputs by flow and bin, Mbit/s."""
    series = run.find_table("series").select("time_s", "flow", "goodput_mbit")
    found = np.zeros((len(flows), len(bins)))
    first = bins[0][0]
    for place, flow in enumerate(flows):
        own = series.filter(pl.col("flow") == flow)
        # a point is the end of its interval
        index = np.floor((own["time_s"].to_numpy() - first - 1e-9) / length).astype(int)
        inside = (index >= 0) & (index < len(bins))
        np.add.at(found[place], index[inside], own["goodput_mbit"].to_numpy()[inside])
    return found * run.interval_s / length


def _find_short_flows(run: Observed) -> Iterator[Fact]:
    classes = run.tables["classes"]
    webs = classes.filter(classes["kind"] == "web")
    flows = run.tables["short_flows"]
    for row in webs.iter_rows(named=True):
        own = flows.filter(flows["class"] == row["class"])["completion_s"].drop_nulls().drop_nans()
        p50, p95 = (float(own.quantile(q, "nearest") or 0) if len(own) else 0.0 for q in (0.5, 0.95))
        yield results.ShortFlows(phrases.format_label(row["cc"]), int(row["flows"]), p50, p95, len(own))


def _find_udp(run: Observed) -> Iterator[Fact]:
    rows = run.flows
    for flow, (name, group) in enumerate(run.members):
        if run.is_tcp(flow) or flow >= len(rows):
            continue
        row = rows[flow]
        if group.get("echo"):
            yield from round_trips(name, row)
        if row["goodput_mbit"] is None or row["drops"] is None:  # not measured
            continue
        delays = [row.get("delay_mean_ms"), row.get("delay_max_ms")]
        mean, most = (None if one is None or math.isnan(one) else float(one) for one in delays)
        yield results.Udp(
            name, flow, float(row["goodput_mbit"]), int(row["drops"]), mean, most, bool(group.get("echo"))
        )
