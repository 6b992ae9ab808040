"""Infers the set-up from the measurements of a file: rate, queue, base RTT and ECN, each with its error.

Bounds that a file implies hold for every reader, and are kept here alone: a link is at least as fast as what passed it
on average, both ways with acknowledgements, and no base RTT is longer than the shortest RTT that was measured.
"""

from __future__ import annotations

import math
import re

import numpy as np
import polars as pl

from dumbbell.exchange.measurement import (
    FRAME_BYTES,
    PAYLOAD_BYTES,
    Floats,
    ImportedFlow,
    Measurement,
    Origin,
    SetupFact,
    assume_fact,
    derive_fact,
)
from dumbbell.exchange.spelt import parse_milliseconds, parse_rate, spell_milliseconds, spell_rate

WAYS = {"down": "bottleneck", "up": "reverse"}
_WINDOW_S = 1.0
_NEAR = 25.0  # percentile
_RECEIVED, _GIVEN = 95.0, 50.0  # percentiles of windows: what is given to a socket fills its buffer first
_LEAST_RATE, _LEAST_LIMIT, _MOST_LIMIT = 8_000, 10, 1_000_000
_ACK_SHARE = 66 / (2 * PAYLOAD_BYTES)  # an ACK of 66 bytes for two segments, RFC 5681, section 4.2
_COUNTED = 0.02  # of a rate: shapers count frames with or without 14 bytes of Ethernet
_BUFFERED = 0.1  # of what was given to sockets: it may be in their buffers at the end
_ROUNDED = 0.005  # of a rate or a time that is written with three digits
_ROSE_MS = 2.0  # a delay that rose by less may have had no queue
_FLOW_QUEUE_MS, _FLOW_QUEUE = 4.0, 3.0  # RTTs of TCP that rose by more, and this many times more than pings
_PORT = re.compile(r"^\[.*\]:\d+$|^[^:]*:[^:]*$")


def complete(found: Measurement) -> dict[str, SetupFact]:
    """Return the facts of the set-up: those of the file within their bounds, and what follows for the others."""
    if not found.exact:
        _limit_rtts(found)
    facts = dict(found.setup)
    ways = ["down", "up"] if any(flow.direction == "up" for flow in found.flows) else ["down"]
    for way in ways:
        section = WAYS[way]
        facts[f"{section}.rate"] = _limit_rate(found, way, facts.get(f"{section}.rate"))
    for way in ways:
        section, other = WAYS[way], facts.get(f"{WAYS['up' if way == 'down' else 'down']}.aqm")
        if f"{section}.aqm" not in facts:
            if other is not None and other.known:
                facts[f"{section}.aqm"] = assume_fact(other.text, "the file does not say; as it is the other way")
            else:
                facts[f"{section}.aqm"] = infer_queue(found, way, parse_rate(facts[f"{section}.rate"]))
    facts.setdefault("hosts.ecn", _infer_ecn(found))
    return facts


# base RTTs


def _find_shortest_flows(found: Measurement) -> list[ImportedFlow | None]:
    """Return for each flow the one between the same hosts that has the shortest RTT; None if no RTT is known."""
    lows = [flow.rtt_min_ms for flow in found.flows]
    hosts = [_find_hosts(flow) or frozenset([f"flow {place}"]) for place, flow in enumerate(found.flows)]
    best: dict[frozenset[str], int] = {}
    for place, (low, key) in enumerate(zip(lows, hosts, strict=True)):
        if math.isfinite(low) and low > 0 and (key not in best or low < lows[best[key]]):
            best[key] = place
    return [found.flows[best[key]] if key in best else None for key in hosts]


def _find_hosts(flow: ImportedFlow) -> frozenset[str] | None:
    """Return the addresses of both ends without ports, or what stands for them."""
    if flow.ends is None:
        return frozenset([flow.path]) if flow.path else None
    # an address of IPv6 stands in brackets where a port follows it
    return frozenset(one.rpartition(":")[0].strip("[]") if _PORT.search(one) else one for one in flow.ends)


def _limit_rtts(found: Measurement) -> None:
    """Let no flow have a base RTT above the shortest RTT between its hosts."""
    told = set()
    bounds = _find_shortest_flows(found)
    own = [flow.base_rtt for flow in found.flows]
    by_flow = {id(flow): fact for flow, fact in zip(found.flows, own, strict=True)}
    for flow, low, fact in zip(found.flows, bounds, own, strict=True):
        if low is None or (fact is None and flow.kind == "udp"):
            continue
        if fact is not None and parse_milliseconds(fact) <= low.rtt_min_ms * (1 + 1e-6):
            continue
        theirs = by_flow[id(low)]
        is_known = theirs is None or theirs.known
        how = "its smallest RTT" if low is flow else f"the smallest RTT between its hosts, of {low.name}"
        if is_known:
            flow.base_rtt = infer_base_rtt(low.rtt_min_ms, how)
        else:
            flow.base_rtt = assume_fact(spell_milliseconds(low.rtt_min_ms), f"{how}; the path's may be shorter")
        if fact is not None and fact.origin is Origin.FILE and fact not in told:
            told.add(fact)
            short = f"RTTs of {low.rtt_min_ms:.3g} ms were measured"
            found.notes.append(f"a base RTT of {fact.text} ({fact.source}) is not possible: {short}")


def infer_base_rtt(shortest_ms: float, how: str) -> SetupFact:
    """Return a base RTT that is the shortest one measured."""
    return derive_fact(spell_milliseconds(shortest_ms), how, "the path's is this or shorter")


# rates


def compute_least_rate(found: Measurement, way: str, *, estimates: bool = True) -> float:
    """Return the mean throughput of a direction as frames: data, acknowledgements of the other, pings.

    Without `estimates`, acknowledgements that the file does not have are left out.
    """
    spans = [span for flow in found.flows for span in _find_spans(flow, way, found, estimates=estimates)]
    spans = [(size, start, end) for size, start, end in spans if end > start and size > 0]
    if not spans:
        return 0.0
    whole = sum(size for size, _, _ in spans) / (max(end for *_, end in spans) - min(start for _, start, _ in spans))
    return max([whole, *(size / (end - start) for size, start, end in spans)]) * 8e-6


def _find_spans(
    flow: ImportedFlow, way: str, found: Measurement, *, estimates: bool
) -> list[tuple[float, float, float]]:
    """Return bytes of frames of a flow that passed one way, each with its time from and until."""
    if flow.direction == way or flow.kind == "ping":
        if flow.passed is not None:
            return [flow.passed]
        if flow.kind != "ping" and flow.is_received and flow.goodput_mbit > 0:
            size = flow.goodput_mbit * 1e6 / 8 * (flow.end_s - flow.start_s) * flow.frames_per_payload
            return [(size, flow.start_s, flow.end_s)]
        return []
    if flow.answered is not None and flow.answered.height:
        size = float(flow.answered["mbit"].sum()) * 1e6 / 8 * found.interval_s
        return [(size, flow.start_s, max(flow.end_s, flow.start_s + found.interval_s))]
    if estimates and flow.kind == "flows" and flow.is_received and flow.goodput_mbit > 0:
        size = flow.goodput_mbit * 1e6 / 8 * (flow.end_s - flow.start_s) * _ACK_SHARE
        return [(size, flow.start_s, flow.end_s)]
    return []


def _make_series(flow: ImportedFlow, way: str) -> pl.DataFrame:
    """Return what of a flow passed one way over time, as frames: `time_s` and `mbit`."""
    nothing = pl.DataFrame(schema={"time_s": pl.Float64, "mbit": pl.Float64})
    if flow.direction == way:
        if flow.carried is not None:
            return flow.carried
        factor = flow.frames_per_payload
    elif flow.answered is not None:
        return flow.answered
    else:
        factor = _ACK_SHARE if flow.kind == "flows" else 0.0
    if factor <= 0 or "goodput_mbit" not in flow.series.columns or flow.kind == "ping":
        return nothing
    return flow.series.select("time_s", (pl.col("goodput_mbit") * factor).alias("mbit"))


def _measure_windows(found: Measurement, way: str) -> tuple[Floats, float, float]:
    """Return what passed one way over windows of a second or less, Mbit/s, how long they are, s, and the most.

    The most is that of the busiest interval of the file.
    """
    # what was put on the net of UDP may have been lost
    flows = [flow for flow in found.flows if flow.kind != "udp" or flow.is_received]
    rows = [one for flow in flows if (one := _make_series(flow, way)).height]
    if not rows:
        return np.zeros(0), 0.0, 0.0
    whole = pl.concat(rows).drop_nulls().group_by("time_s").agg(pl.col("mbit").sum()).sort("time_s")
    gap = whole["time_s"].diff().median()
    step = gap if isinstance(gap, float) and gap > 0 else found.interval_s
    together = min(max(1, round(_WINDOW_S / step)), max(1, whole.height // 4))
    found_ = whole["mbit"].rolling_mean(together).drop_nulls().to_numpy()
    return found_[found_ > 0], together * step, float(whole["mbit"].max() or 0.0)  # type: ignore[arg-type]


def _limit_rate(found: Measurement, way: str, said: SetupFact | None) -> SetupFact:
    """Return the rate of a link: what the file says if that is possible, else what passed the link at its best."""
    least = compute_least_rate(found, way)
    if said is not None and found.exact:
        return said
    if said is not None:
        least = compute_least_rate(found, way, estimates=False)
        counted = _BUFFERED if any(flow.is_given for flow in found.flows if flow.direction == way) else _COUNTED
        if parse_rate(said) * (1 + counted) >= least * 1e6:
            return said
        found.notes.append(
            f"a rate of {said.text} ({said.source}) is not possible: {least:.3g} Mbit/s passed on average, as frames"
        )
    windows, window_s, most = _measure_windows(found, way)
    if len(windows) < 2 and least <= 0:
        return assume_fact("100Mbit", f"cannot tell: {_explain_unknown_rate(found, way)}")
    is_given = any(flow.is_given for flow in found.flows if flow.direction == way)
    best = float(np.percentile(windows, _GIVEN if is_given else _RECEIVED)) if len(windows) else least
    value = max(best, least, _LEAST_RATE / 1e6)
    text = spell_rate(value * 1e6, least * 1e6)
    if len(windows) < 2:
        how = "the mean of what arrived, as frames"
        if any(flow.lost > 0 for flow in found.flows if flow.direction == way):
            return derive_fact(text, how, "the link is not slower; it is faster if it was not full all the time")
        return assume_fact(text, f"{how}; the link may be faster")
    how = f"what passed in the best {_format_length(window_s)}, as frames with ACKs"
    if is_given:
        how = f"the median of what was given to the sockets over {_format_length(window_s)}, as frames with ACKs"
    if best < least:
        how = "the mean of what arrived, as frames with ACKs"
    most = max(most, found.trains_mbit.get(way, 0.0))
    error = _estimate_error(windows, window_s, value, 0.0 if is_given else most)
    if not _was_full(found, way):
        return assume_fact(text, f"{how} ({error}); nothing shows that they filled the link, which may be faster")
    mean = f", and not below the mean of {spell_rate(least * 1e6)}" if least > 0 else ""
    return derive_fact(text, how, f"{error}{mean}")


def _estimate_error(windows: Floats, window_s: float, value: float, most: float) -> str:
    """Return how far a rate may be off: less in the windows around it, more in the busiest of single intervals."""
    least = 100 * max(_ROUNDED, FRAME_BYTES * 8e-6 / window_s / value)
    near = np.percentile(windows, [_NEAR, 100 - _NEAR]) if most <= 0 else [np.percentile(windows, _RECEIVED - 20), most]
    down, up = (math.ceil(max(100 * off / value, least)) for off in (value - near[0], near[1] - value))
    return f"-{down} to +{up} %"


def _format_length(window_s: float) -> str:
    return "seconds" if abs(window_s - 1) < 0.15 else f"windows of {window_s:.2g} s"


def _was_full(found: Measurement, way: str) -> bool:
    """Whether something shows that a link was full most of the time: a delay whose median rose, or UDP that was lost.

    Losses and marks of TCP show that a queue was full at times, and no more.
    """
    for flow in found.flows:
        if flow.direction != way and flow.kind != "ping":
            continue
        if flow.kind == "udp" and flow.lost > 0:
            return True
        rise = flow.queue_median_ms
        if rise is None:
            rise = _find_rise(flow, ("rtt_p50_ms", "rtt_mean_ms"))
        if rise is not None and rise > _ROSE_MS:
            return True
    return False


def _explain_unknown_rate(found: Measurement, way: str) -> str:
    """Return why no rate follows from a file."""
    flows = [flow for flow in found.flows if flow.direction == way and flow.kind != "ping"]
    if not flows:
        return "nothing was sent that way but answers"
    if any(not flow.is_received for flow in flows):
        return "the file does not say what arrived"
    return "too little was captured to have a rate"


# queues


def _find_rise(flow: ImportedFlow, columns: tuple[str, ...] = ("rtt_p99_ms", "rtt_max_ms")) -> float | None:
    """Return by how much the RTT of a flow rose, ms, as the first of some figures that is known says it."""
    low = flow.rtt_min_ms
    if flow.base_rtt is not None and flow.base_rtt.known:
        low = min(low, parse_milliseconds(flow.base_rtt)) if math.isfinite(low) else parse_milliseconds(flow.base_rtt)
    high = next((flow.figures[name] for name in columns if name in flow.figures), None)
    return None if high is None or not math.isfinite(low) else max(0.0, float(high) - low)


def infer_queue(found: Measurement, way: str, speed: float) -> SetupFact:
    """Return the queue that fits what was measured: whose pings do not wait with TCP is one for each flow.

    Round trips wait in the queues of both ways. Where one-way delays are known, each way has its own depth.
    """
    senders = [flow for flow in found.flows if flow.kind != "ping"]
    both = len({flow.direction for flow in senders}) > 1
    tcp = [rise for flow in senders if flow.kind == "flows" and (rise := _find_rise(flow)) is not None]
    pings = [rise for flow in found.flows if flow.kind == "ping" and (rise := _find_rise(flow)) is not None]
    if tcp and pings and max(tcp) > _FLOW_QUEUE_MS + _FLOW_QUEUE * max(pings):
        why = f"pings rose by {max(pings):.3g} ms and the RTT of TCP by {max(tcp):.3g}: they do not see TCP's queue"
        return assume_fact('"fq_codel"', f"{why}, so that each flow has its own; the file does not say which kind")
    own = [flow for flow in senders if flow.direction == way and flow.queue_ms is not None]
    if both and own:
        longest = max(own, key=lambda flow: flow.queue_ms or 0.0)
        limit = longest.queue_packets or _limit(longest.queue_ms or 0.0, speed)
        limit = min(max(limit, _LEAST_LIMIT), _MOST_LIMIT)
        why = f"one-way delays rose by {longest.queue_ms:.3g} ms, with so many packets ahead, dropped ones too"
        return assume_fact(_make_fifo(limit), f"the file does not say; {why}")
    rises = tcp if not both else [r for f in senders if f.direction == way and (r := _find_rise(f)) is not None]
    rises = rises or pings
    if not rises or max(rises) <= 0:
        return assume_fact('"pfifo"', "the file does not say which queue it was")
    rise = max(rises)
    if rise < _ROSE_MS:
        return assume_fact('"pfifo"', "the file does not say which queue it was, and nothing shows that it filled")
    if both:
        share = f"RTTs rose by {rise:.3g} ms in the queues of both ways together, half of it in each"
        return assume_fact(_make_fifo(_limit(rise / 2, speed)), f"the file does not say; {share}{_FULL}")
    return assume_fact(_make_fifo(_limit(rise, speed)), f"the file does not say; the RTT rose by {rise:.3g} ms{_FULL}")


_FULL = ", as this buffer gives when it is full"


def _limit(rise_ms: float, speed: float) -> int:
    """Return the packets of a buffer that takes so long to empty."""
    return min(max(round(rise_ms / 1e3 * speed / 8 / FRAME_BYTES), _LEAST_LIMIT), _MOST_LIMIT)


def _make_fifo(limit: int) -> str:
    return f'{{ name = "pfifo", limit = {limit} }}'


def _infer_ecn(found: Measurement) -> SetupFact:
    """Return whether hosts asked for ECN, where the file does not say: a queue marks only packets that allow it.

    Linux's net.ipv4.tcp_ecn is 2 by default, by which a host answers ECN and does not ask for it
    (Documentation/networking/ip-sysctl.rst).
    """
    queues = [*found.hops.values(), *([] if found.queue is None else [found.queue])]
    if any((one["ce_marks"].sum() or 0) > 0 for one in queues if "ce_marks" in one.columns):
        return derive_fact("true", "the queue marked packets", "flows without marks may have had none")
    return assume_fact("false", "the file does not say; by Linux's default, tcp_ecn = 2, no host asks for it")
