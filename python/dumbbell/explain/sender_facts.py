"""Finds facts of senders in table flows and from their traces."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dumbbell.experiment.frame_size import compute_full_frame
from dumbbell.explain import bursts
from dumbbell.explain.bursts import Array
from dumbbell.explain.facts import results, senders
from dumbbell.explain.facts.base import Fact
from dumbbell.explain.observed import Observed

MOST_SINGLE = 6  # flows of which each has its own sentences
_FEW = 3  # events that are described one by one
_REPAIRS = (
    "recovery",
    "cwr",
    "loss",
)  # states of the congestion machine in which the window is not the control's alone
_REDUCTIONS = {"loss": "loss_reductions", "ecn": "ecn_reductions"}
# what stages of a path do to packets
_LOSES, _DELAYS = ("loss", "burst_loss", "policer"), ("reorder", "jitter")
_UNSET_SSTHRESH = 1 << 30
_LIMITS = ("app_rate", "app_pause", "size", "stop")  # keys by which an application has nothing to send at times
_LIMITED = 0.05  # share of its time from which a flow is said to be limited by its application


@dataclass(frozen=True)
class TracedFlow:
    """A flow: its number, what it is called, its group, its row of table flows, and its trace by column, if any."""

    flow: int
    name: str
    group: dict[str, Any]
    row: dict[str, Any]
    trace: dict[str, Array]

    @property
    def start_s(self) -> float:
        """When it connects."""
        connect = self.group.get("connect")
        return float(self.row["start_s"]) if connect is None else float(connect) / 1e9

    @property
    def done_s(self) -> float | None:
        """When all that it had to send was acknowledged; None if that did not come."""
        completion = self.row.get("completion_s")
        known = completion is not None and math.isfinite(completion)
        return self.start_s + float(completion) if known and completion is not None else None

    @property
    def has_trace(self) -> bool:
        """Whether there is one."""
        return bool(self.trace) and len(self.trace["time_s"]) > 0

    @property
    def is_stack(self) -> bool:
        """Whether the flow is one of a QUIC stack, which tells its window, RTT and losses, and no states."""
        return "control" in self.group["cc"]

    @property
    def has_model(self) -> bool:
        """Whether its control has a model of its path, as BBR has."""
        return self.has_trace and bool((self.trace["state"] != "").any())

    @property
    def last_s(self) -> float:
        """Time of its last row."""
        return float(self.trace["time_s"][-1])

    def find_row(self, time: float) -> int:
        """Return the last row at or before a time."""
        return max(int(np.searchsorted(self.trace["time_s"], time + 1e-9, side="right")) - 1, 0)

    def find_row_before(self, time: float) -> int:
        """Return the last row before a time."""
        return max(int(np.searchsorted(self.trace["time_s"], time - 1e-9)) - 1, 0)


_COLUMNS = (
    *_REDUCTIONS.values(),
    *("time_s", "state", "ca_state", "cwnd", "lost", "timeouts", "undone", "delivered", "app_limited"),
    *("min_rtt_ms", "bw_mbit", "max_bw_mbit"),
)


def trace_flows(run: Observed) -> list[TracedFlow]:
    """Return the flows of `[[flows]]`."""
    trace = run.find_table("trace")
    by_flow = {}
    if trace.height:
        # the clocks of senders end as the run does
        names = [name for name in _COLUMNS if name in trace.columns]  # an older results file has fewer
        wanted = trace.filter(trace["time_s"] <= run.duration_s).select("flow", *names)
        for (flow,), rows in wanted.group_by("flow", maintain_order=True):
            by_flow[flow] = {name: rows[name].to_numpy() for name in names}
    listed = {row["flow"]: row for row in run.flows}
    return [
        TracedFlow(flow, name, group, listed[flow], by_flow.get(flow, {}))
        for flow, (name, group) in enumerate(run.members)
        if flow in listed and run.is_tcp(flow)
    ]


def find_facts(run: Observed) -> Iterator[Fact]:
    """Yield what there is to say of senders."""
    flows = trace_flows(run)
    yield from _find_starts(run, flows)
    single = len(flows) <= MOST_SINGLE
    for one in flows:
        yield from _find_configured_times(run, one)
        if one.row.get("closed"):
            at = one.start_s + float(one.row["closed_s"])
            yield senders.Closed(one.name, one.flow, at, str(one.row["closed"]))
        if not single:
            continue
        yield from round_trips(one.name, one.row)
        yield from _find_end_of_slow_start(run, one)
        yield from _find_ignored_marks(one)
        if one.has_trace and not one.is_stack:
            yield from _find_facts_in_trace(one, run)
        elif one.has_trace:
            yield from _find_losses(one, run)
            yield from _find_facts_without_trace(run, one)
        else:
            yield from _find_facts_without_trace(run, one)
    if not single:
        yield from _summarise_groups(run, flows)


def _find_starts(run: Observed, flows: list[TracedFlow]) -> Iterator[Fact]:
    """Yield when groups of flows start; a run in which all start at once says it with its setting."""
    if all(one.start_s == 0 for one in flows):
        return
    for name, group in run.groups:
        own = [one for one in flows if one.group is group]
        if own:
            starts = [one.start_s for one in own]
            several = f"the {len(own)} flows of {name}" if len(own) > 1 else name
            yield senders.Started(several, tuple(one.flow for one in own), min(starts), max(starts))


def _find_configured_times(run: Observed, one: TracedFlow) -> Iterator[Fact]:
    group = one.group
    stop = group.get("stop")
    done = one.done_s
    if stop is not None and stop / 1e9 < run.duration_s and (done is None or done > stop / 1e9):
        yield senders.Stopped(one.name, one.flow, stop / 1e9, done)
    elif done is not None:
        yield senders.Completed(one.name, one.flow, done, done - one.start_s, group.get("size"))
    if (pause := group.get("app_pause")) is not None:
        resume = group.get("app_resume")
        yield senders.Paused(one.name, one.flow, pause / 1e9, None if resume is None else resume / 1e9)


def round_trips(name: str, row: dict[str, Any]) -> Iterator[Fact]:
    """Yield the RTTs of a flow, by its row of table flows, if it has any."""
    found = [row.get(column) for column in ("rtt_min_ms", "rtt_p50_ms", "rtt_p99_ms")]
    if all(value is not None and math.isfinite(value) for value in found):
        least, p50, p99 = (float(value) for value in found if value is not None)
        yield results.RoundTrips(name, int(row["flow"]), float(row["base_rtt_ms"]), least, p50, p99)


def _find_end_of_slow_start(run: Observed, one: TracedFlow) -> Iterator[Fact]:
    cause, after = str(one.row.get("slow_start_exit") or ""), one.row.get("slow_start_exit_s")
    if cause and after is not None:
        at = one.start_s + float(after)
        window = None
        if one.has_trace:
            window = int(one.trace["cwnd"][one.find_row_before(at)])
        is_startup = one.has_model or cause == "plateau"
        about = window is not None and bool(run.series_config["trace"])
        yield senders.SlowStartLeft(one.name, one.flow, at, float(after), cause, window, is_startup, about)
    elif one.is_stack:
        return
    elif one.has_trace:
        window = int(one.trace["cwnd"].max())
        yield senders.StayedInSlowStart(one.name, one.flow, one.start_s, window, one.has_model)
    elif run.kind != "sim":
        rows = _select_points(run, one)
        left = rows.filter((pl.col("ssthresh") < _UNSET_SSTHRESH) & (pl.col("cwnd") >= pl.col("ssthresh")))
        if left.height:
            by = float(left["time_s"][0])
            yield senders.SlowStartLeft(one.name, one.flow, by, by - one.start_s, "", None, is_startup=False, by_s=by)


def _find_facts_without_trace(run: Observed, one: TracedFlow) -> Iterator[Fact]:
    """Yield what table flows and the series say, where there is no trace."""
    row = one.row
    sent, again, timeouts = (_to_count(row.get(name)) for name in ("sent", "retransmissions", "timeouts"))
    if sent is not None and one.is_stack:
        yield results.Totals(one.name, one.flow, sent, again, None, _to_count(row.get("drops")))
    elif sent is not None and again is not None:
        yield results.Totals(one.name, one.flow, sent, again, timeouts)
    own = _select_points(run, one)
    if own.height > 2:
        cwnd = own["cwnd"].to_numpy()
        least, most, middle = int(cwnd.min()), int(cwnd.max()), float(np.median(cwnd))
        yield senders.WindowRange(one.name, one.flow, float(own["time_s"][0]), least, middle, most, len(cwnd))


def _to_count(value: float | None) -> int | None:
    """Return a count; None if it was not measured."""
    return None if value is None or not math.isfinite(value) else int(value)


def _select_points(run: Observed, one: TracedFlow) -> pl.DataFrame:
    """Return the time series of a flow as it is kept, from its first RTT on; no rows where it has no windows."""
    series = run.tables["series"]
    if not {"cwnd", "ssthresh", "srtt_ms"} <= set(series.columns):
        return pl.DataFrame(schema={"time_s": pl.Float64, "cwnd": pl.Int64, "ssthresh": pl.Int64})
    known = (pl.col("srtt_ms") > 0) & pl.col("cwnd").is_not_null() & pl.col("cwnd").cast(pl.Float64).is_finite()
    return series.filter((pl.col("flow") == one.flow) & known)


def _find_facts_in_trace(one: TracedFlow, run: Observed) -> Iterator[Fact]:
    yield from _describe_reductions(one, run)
    yield from _find_losses(one, run)
    yield from _find_counted(one, "timeouts", senders.Timeouts)
    yield from _find_counted(one, "undone", senders.Undone)
    yield from _find_limits(one, run)
    if one.has_model:
        yield from _find_facts_of_bbr(one, run)


def find_reductions(one: TracedFlow) -> list[senders.Reduction]:
    """Return the reductions that the sender counts, in order of time: because of loss, because of marks.

    A window is that after the reduction when its episode is over, the next one begins, or the trace ends.
    """
    trace = one.trace
    rows: list[tuple[int, str]] = []
    for cause, name in _REDUCTIONS.items():
        if name in trace:
            steps = np.diff(trace[name].astype(np.int64), prepend=0)
            rows += [(int(row), cause) for row in np.flatnonzero(steps > 0) for _ in range(int(steps[row]))]
    rows.sort(key=lambda each: each[0])
    is_open = np.flatnonzero(~np.isin(trace["ca_state"], _REPAIRS))
    last = len(trace["time_s"]) - 1
    found = []
    for place, (row, cause) in enumerate(rows):
        later = np.searchsorted(is_open, row)
        ends = [int(is_open[later])] if later < len(is_open) else []
        ends += [following for following, _ in rows[place + 1 : place + 2] if following > row]
        windows = (int(trace["cwnd"][max(row - 1, 0)]), int(trace["cwnd"][min([*ends, last])]))
        found.append(senders.Reduction(one.name, one.flow, float(trace["time_s"][row]), cause, *windows))
    return found


def _describe_reductions(one: TracedFlow, run: Observed) -> Iterator[Fact]:
    found = find_reductions(one)
    if not found:
        return
    counted = Counter(each.cause for each in found)
    if run.measured_from_s == 0:  # the table has the last ones too, which a trace with fewer rows may lack
        counted |= {cause: int(one.row.get(name) or 0) for cause, name in _REDUCTIONS.items()}
    causes = {cause: n for cause, n in counted.most_common() if n}
    first, last = found[0].at_s, found[-1].at_s
    if one.has_model:
        yield senders.Repairs(one.name, one.flow, first, last, causes)
    elif len(found) <= _FEW:
        yield from found
    else:
        before, after = (float(np.median([getattr(each, name) for each in found])) for name in ("before", "after"))
        apart = float(np.median(np.diff([each.at_s for each in found])))
        yield senders.Reductions(one.name, one.flow, first, last, causes, before, after, apart)


def _find_ignored_marks(one: TracedFlow) -> Iterator[Fact]:
    """Yield that a flow's packets were marked and its control does not answer that."""
    marks, control = _to_count(one.row.get("ce_marks")), one.group["cc"]
    if not marks:
        return
    if control["name"] == "bbr1":
        yield senders.IgnoredMarks(one.name, one.flow, marks, "never")
    elif control["name"] in ("bbr2", "bbr3"):
        if not control["ecn"]:
            yield senders.IgnoredMarks(one.name, one.flow, marks, "ecn")
        elif _to_count(one.row.get("ecn_reductions")) == 0:
            yield senders.IgnoredMarks(one.name, one.flow, marks, "rtt")


def _find_increases(trace: dict[str, Array], name: str) -> tuple[Array, Array]:
    """Return when a counter has grown, and by how much; a stack may not tell it."""
    known = np.isfinite(trace[name])
    steps = np.diff(trace[name][known].astype(np.int64), prepend=0)
    there = steps > 0
    return trace["time_s"][known][there], steps[there]


def _find_losses(one: TracedFlow, run: Observed) -> Iterator[Fact]:
    at, counts = _find_increases(one.trace, "lost")
    if not len(at):
        return
    apart = bursts.find_gap([one.row], 0.0)
    found = bursts.find_bursts(at, counts, apart)
    whole = run.measured_from_s == 0
    dropped = int(one.row["drops"]) if whole else None
    by_timeout = int(counts[np.isin(at, _find_increases(one.trace, "timeouts")[0])].sum())
    yield senders.Lost(
        one.name, one.flow, dropped, by_timeout, _describe_path(run, one.group), **bursts.describe_bursts(found, apart)
    )


def _describe_path(run: Observed, group: dict[str, Any]) -> str:
    """Return what a path, without its queues, does to data, as `senders.Lost` has it."""
    hops = [run.config["bottleneck"], *run.config.get("hop", []), run.config.get("reverse") or {}]
    stages = [
        *group.get("path", []),
        *(stage for hop in hops for part in ("path", "behind") for stage in hop.get(part, [])),
    ]
    names = {str(stage["name"]) for stage in stages}
    loses = bool(group.get("loss")) or not names.isdisjoint(_LOSES)
    delays = bool(group.get("jitter")) or not names.isdisjoint(_DELAYS)
    return " ".join(["loses"] * loses + ["delays"] * delays)


def _find_counted(one: TracedFlow, name: str, kind: type[senders.Timeouts] | type[senders.Undone]) -> Iterator[Fact]:
    at, counts = _find_increases(one.trace, name)
    if len(at):
        total = int(counts.sum())
        each = tuple(map(float, at)) if total == len(at) and total <= _FEW else ()
        yield kind(one.name, one.flow, float(at[0]), float(at[-1]), total, each)


def _find_limits(one: TracedFlow, run: Observed) -> Iterator[Fact]:
    if all(one.group.get(key) is None for key in _LIMITS):
        return  # it always has something to send
    time = one.trace["time_s"]
    end = run.duration_s if one.done_s is None else one.done_s
    limited = one.trace["app_limited"] > 0
    for first, until in bursts.find_spans(time, one.trace["state"] == "probe_rtt"):
        # BBR says so itself in PROBE_RTT, that its samples of the rate do not count until what is in flight has arrived
        row = one.find_row(first)
        if not limited[max(row - 1, 0)]:
            over = np.flatnonzero(~limited[one.find_row(until) :])
            limited[row : one.find_row(until) + int(over[0]) if len(over) else None] = False
    lengths = np.diff(np.append(np.minimum(time, end), end))
    length = end - float(time[0])
    if length > 0:
        share = float((lengths * limited).sum() / length)
        if share >= _LIMITED:
            yield senders.Limited(one.name, one.flow, float(time[0]), min(share, 1.0))


def _find_facts_of_bbr(one: TracedFlow, run: Observed) -> Iterator[Fact]:
    trace = one.trace
    state, time = trace["state"], trace["time_s"]
    drains = bursts.find_spans(time, state == "drain")
    if drains and drains[0][1] < one.last_s:
        yield senders.Drained(one.name, one.flow, drains[0][1], drains[0][1] - drains[0][0])
    yield from _probe_rtts(one)
    known = np.flatnonzero(state != "")
    lengths = np.diff(time, append=time[-1])[known]
    total = float(lengths.sum())
    if total > 0:
        shares = {str(name): float(lengths[state[known] == name].sum() / total) for name in np.unique(state[known])}
        entered = int(((state[1:] == "probe_up") & (state[:-1] != "probe_up")).sum())
        yield senders.Probed(one.name, one.flow, float(time[known[0]]), entered, shares)
    half = (float(time[0]) + one.last_s) / 2
    late = (time >= half) & np.isfinite(trace["max_bw_mbit"]) & np.isfinite(trace["min_rtt_ms"])
    if late.sum() > 1 and (state[late] != "startup").all():
        rows = np.flatnonzero(late)
        span = float(time[rows[-1]] - time[rows[0]])
        if span > 0:
            series = run.find_table("series")
            since, until = float(time[rows[0]]), float(time[rows[-1]])
            own = series.filter((pl.col("flow") == one.flow) & pl.col("time_s").is_between(since, until))
            slowest = min(hop["rate"] for hop in (run.config["bottleneck"], *run.config.get("hop", [])))
            yield senders.Believed(
                one.name,
                one.flow,
                float(time[rows[0]]),
                float(np.median(trace["max_bw_mbit"][rows])),
                float(np.median(trace["min_rtt_ms"][rows])),
                float(one.row["base_rtt_ms"]) + 2 * 8 * compute_full_frame(run.config) * 1e3 / slowest,
                float(own["goodput_mbit"].sum()) * run.interval_s / span,
            )


def probe_rtts(one: TracedFlow) -> list[senders.ProbeRtt]:
    """Return BBR's looks for a new min_rtt."""
    trace = one.trace
    found = []
    for first, end in bursts.find_spans(trace["time_s"], trace["state"] == "probe_rtt"):
        rows = slice(one.find_row(first), max(one.find_row(end), one.find_row(first) + 1))
        before, after = one.find_row_before(first), one.find_row(end)
        found.append(
            senders.ProbeRtt(
                one.name,
                one.flow,
                first,
                end if end < one.last_s else None,
                int(trace["cwnd"][rows].min()),
                float(trace["min_rtt_ms"][before]),
                float(trace["min_rtt_ms"][after]),
            )
        )
    return found


def _probe_rtts(one: TracedFlow) -> Iterator[Fact]:
    found = probe_rtts(one)
    if len(found) <= 1:
        yield from found
        return
    took = [each.until_s - each.at_s for each in found if each.until_s is not None]
    after = [each.after_ms for each in found]
    yield senders.ProbeRtts(
        one.name,
        one.flow,
        found[0].at_s,
        found[-1].at_s,
        len(found),
        float(np.median(np.diff([each.at_s for each in found]))),
        float(np.median(took)),
        min(after),
        max(after),
    )


def _summarise_groups(run: Observed, flows: list[TracedFlow]) -> Iterator[Fact]:
    """Yield what groups of flows did, where there are too many for a sentence each."""
    for name, group in run.groups:
        own = [one for one in flows if one.group is group]
        left = [one for one in own if one.row.get("slow_start_exit")]
        if not own:
            continue
        if len(own) == 1:
            yield from _find_end_of_slow_start(run, own[0])
        elif left:
            at = [one.start_s + float(one.row["slow_start_exit_s"]) for one in left]
            causes = dict(Counter(str(one.row["slow_start_exit"]) for one in left).most_common())
            yield senders.SlowStartsLeft(name, len(own), len(left), min(at), max(at), causes)
        total = [one.row for one in own]
        if all(row.get("sent") is not None for row in total):
            sums = [
                sum(int(row[column] or 0) for row in total)
                for column in ("sent", "retransmissions", "timeouts", "drops")
            ]
            who = f"the {len(own)} flows of {name} together" if len(own) > 1 else name
            sent, again, timeouts, dropped = sums
            if own[0].is_stack:
                told = None if any(row["retransmissions"] is None for row in total) else again
                yield results.Totals(who, own[0].flow, sent, told, None, dropped)
            else:
                yield results.Totals(who, own[0].flow, sent, again, timeouts)
