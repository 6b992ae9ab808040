"""A data file of Flent as flows: uploads and downloads of TCP, and pings."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import polars as pl

from dumbbell.errors import Nothing, join_names
from dumbbell.exchange import infer, measurement, setup
from dumbbell.exchange.flent import file, metadata, voip
from dumbbell.exchange.flent.file import Data, Raw
from dumbbell.exchange.measurement import Floats, ImportedFlow, Measurement, SetupFact, assume_fact

FORMAT = "Flent"
_COMPUTED = re.compile(r"\b(avg|sum|totals|fairness|all)$", re.IGNORECASE)
_PART = re.compile(r"::[a-z]\w*$")  # a key of a series as a series of its own
_VOIP = re.compile(r"VoIP\b", re.IGNORECASE)
_QUEUE = re.compile(r"^qdisc_stats_.+|^qdisc-stats$")
_STEP_S = 0.2  # Flent's own, if a file does not say
_LEAST_STEP_S = 1e-4
_TCP = {"srtt_ms": "tcp_rtt", "cwnd": "tcp_cwnd", "ssthresh": "tcp_ssthresh", "in_flight": "tcp_in_flight"}
_WHOLE = ("cwnd", "ssthresh", "in_flight", "retransmissions")
_WITHOUT_HOST = 3  # words of a ping that does not name its host: Ping (ms) ICMP
_NAMED = 8  # series that a note names


def read(path: Path) -> Measurement:
    """Return what a data file of Flent measured. Raises InputError."""
    return read_measurement(file.load(path))


def read_measurement(data: Data) -> Measurement:
    """Return what a data file measured. Raises InputError."""
    step, points = _find_points(data)
    flows, left = [], []
    names = dict.fromkeys(_PART.sub("", name) for name in [*data.results, *data.raw])
    for name in names:
        if _COMPUTED.search(name):
            continue
        units = data.series_meta.get(name, {}).get("UNITS")
        if name.startswith("Ping (ms)"):
            flow = _ping(data, name, points)
        elif _VOIP.match(name):
            flow = voip.read_flow(data, name, points)
        elif units == "Mbits/s" or re.match(r"(TCP|UDP) .*(up|down)", name):
            flow = _read_flow(data, name, points)
        else:
            if not _QUEUE.match(name):
                left.append(name)
            continue
        if flow is not None:
            flows.append(flow)
    if not flows:
        says = f"it has {join_names(left, _NAMED)}" if left else "it has no series with a value"
        raise Nothing(format_line(says), "uploads or downloads in Mbit/s, or pings", file=data.path)
    notes = [f"left out, because no column holds them: {format_line(join_names(left, _NAMED))}"] if left else []
    end = max([float(data.x[-1]) if len(data.x) else step, *(flow.end_s for flow in flows)])
    found = Measurement(
        flows,
        duration_s=max(end, step),
        interval_s=step,
        title=format_line(data.get_text("TITLE")) or format_line(f"Flent's {data.get_text('NAME')}".strip()),
        source=metadata.describe_source(data),
        notes=notes,
    )
    metadata.describe(data, found)
    _add_queues(data, points, found)
    _set_base_rtts(found)
    metadata.restore(data, found)
    return found


def format_line(text: str) -> str:
    """Return text of a file on one line, cut where it is very long."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]


def _find_points(data: Data) -> tuple[float, Floats]:
    """Return the length of the intervals and their ends."""
    said = data.metadata.get("STEP_SIZE")
    gaps = np.diff(data.x)
    step = float(np.median(gaps)) if len(gaps) else 0.0
    if step < _LEAST_STEP_S:
        step = float(said) if isinstance(said, int | float) and not isinstance(said, bool) else _STEP_S
    step = step if math.isfinite(step) and step >= _LEAST_STEP_S else _STEP_S
    ends = [raw.times[-1] for name, raw in data.raw.items() if not _QUEUE.match(name)]
    end = max([float(data.x[-1]) if len(data.x) else 0.0, *map(float, ends)], default=0.0)
    if len(data.x) and np.allclose(gaps, step, rtol=1e-6, atol=1e-9) and end <= data.x[-1] + step:
        return step, data.x[data.x > min(step / 2, data.x[-1] / 2)]
    step = measurement.choose_interval(end, step)
    return step, measurement.make_grid(max(end, step), step)


def _get_samples(data: Data, name: str) -> Raw | None:
    """Return the values of a series as they were measured, or where these are missing as they were plotted."""
    raw = data.raw.get(name)
    if raw is not None and "val" in raw.values and np.isfinite(raw.values["val"]).any():
        keep = np.isfinite(raw.values["val"])
        return Raw(raw.times[keep], {key: one[keep] for key, one in raw.values.items()})
    series = data.results.get(name)
    if series is None or not np.isfinite(series).any():
        return None
    keep = np.isfinite(series)
    return Raw(data.x[keep], {"val": series[keep]})


def _read_flow(data: Data, name: str, points: Floats) -> ImportedFlow | None:
    samples = _get_samples(data, name)
    if samples is None:
        return None
    rates, times = samples.values["val"], samples.times
    gaps = np.diff(times, prepend=times[0] - (points[1] - points[0] if len(points) > 1 else points[0]))
    spans = samples.values.get("dur", np.full(len(times), np.nan))
    spans = np.where(np.isfinite(spans) & (spans > 0), spans, np.maximum(gaps, 0.0))
    goodput = measurement.compute_rates(times, spans, rates, points)
    order = np.argsort(times, kind="stable")
    begins = np.maximum(times[order] - spans[order], np.concatenate(([-np.inf], times[order][:-1])))
    start, end = max(0.0, float(begins[0])), float(times[order][-1])
    length = np.sum(times[order] - begins)
    figures: dict[str, float | int] = {}
    if length > 0:
        figures["goodput_mbit"] = float(np.sum(rates[order] * (times[order] - begins)) / length)
    columns: dict[str, pl.Series] = {"goodput_mbit": measurement.make_column(goodput)}
    lasts = (points > start - 1e-9) & (points <= end + (points[0] if len(points) else 0.0) + 1e-9)
    for ours, theirs in _TCP.items():
        at, values = _get_values(data, name, theirs)
        if not np.isfinite(values).any():
            continue
        columns[ours] = measurement.make_column(
            np.where(lasts, measurement.hold_values(at, values, points), np.nan), whole=ours in _WHOLE
        )
        if ours == "srtt_ms":
            figures |= measurement.summarise_smoothed(at, values, end)
        if ours == "cwnd":
            figures |= measurement.summarise_window(at, values, end)
    at, values = _get_values(data, name, "retransmissions")
    if np.isfinite(values).any():
        columns["retransmissions"] = measurement.make_column(measurement.hold_values(at, values, points), whole=True)
    series = pl.DataFrame({"time_s": points, **columns}).filter(pl.any_horizontal(pl.exclude("time_s").is_not_null()))
    kind: measurement.Kind = "udp" if name.startswith("UDP") else "flows"
    is_up = bool(re.search(r"\bup", name)) or not re.search(r"\bdown", name)
    return ImportedFlow(
        format_line(name),
        kind,
        "up" if is_up else "down",
        cc=metadata.read_control(data, name, up=is_up) if kind == "flows" else None,
        start_s=start,
        end_s=end,
        figures=figures,
        series=series,
        is_received=not is_up or kind == "flows",
        is_given=is_up,
    )


def _get_values(data: Data, name: str, key: str) -> tuple[Floats, Floats]:
    """Return times and values of a key of a series: from its samples, or where these are missing as it was plotted."""
    raw = data.raw.get(name)
    if raw is not None and key in raw.values:
        return raw.times, raw.values[key]
    if f"{name}::{key}" in data.raw and "val" in data.raw[f"{name}::{key}"].values:
        whole = data.raw[f"{name}::{key}"]
        return whole.times, whole.values["val"]
    return data.x, data.results.get(f"{name}::{key}", np.full(len(data.x), np.nan))


def _ping(data: Data, name: str, points: Floats) -> ImportedFlow | None:
    samples = _get_samples(data, name)
    if samples is None:
        return None
    rtts = samples.values["val"]
    if counted := _is_frequency(data, name, rtts):
        with np.errstate(divide="ignore"):
            rtts = np.where(rtts > 0, 1000.0 / rtts, np.nan)
    keep = np.isfinite(rtts) & (rtts >= 0)
    times, rtts = samples.times[keep], rtts[keep]
    if not len(rtts):
        return None
    end = float(times.max())
    sent = np.sort(times - rtts / 1e3)  # a sample has the time of the answer
    # netperf has one ping on its way at a time
    gap = float(np.median(rtts)) / 1e3 if counted else _find_gap(times, sent)
    figures: dict[str, float | int] = measurement.summarise_samples(rtts)
    figures |= {"rtt_mean_ms": float(rtts.mean()), "rtt_max_ms": float(rtts.max()), "answers": len(rtts)}
    series = pl.DataFrame(
        {"time_s": points, "rtt_ms": measurement.make_column(measurement.hold_values(times, rtts, points))}
    )
    series = series.drop_nulls("rtt_ms").filter(pl.col("time_s") <= end + 1.0)
    return ImportedFlow(
        format_line(name),
        "ping",
        "up",
        start_s=max(0.0, float(sent[0])),
        end_s=end,
        figures=figures,
        series=series,
        rtts_ms=rtts,
        gap_s=gap or None,
    )


def _find_gap(*known: Floats) -> float:
    """Return the time between pings, s, which leave at even spaces: of the times that are most even; 0 of one ping.

    Times of answers are less even than those of pings, unless they are the points of a plot.
    """
    found = []
    for times in known:
        gaps = np.diff(np.sort(times))
        if len(gaps):
            gap = float(np.median(gaps))
            found.append((float(np.median(np.abs(gaps - gap))), gap))
    return min(found, default=(0.0, 0.0))[1]


def _is_frequency(data: Data, name: str, raw: Floats) -> bool:
    """Whether the samples of a ping are round trips per second, as netperf counts them, and not ms.

    What was plotted is always ms.
    """
    plotted = data.results.get(name)
    if plotted is None or name not in data.raw or not np.isfinite(plotted).any():
        return False
    shown, found = float(np.nanmedian(plotted)), float(np.nanmedian(raw))
    if shown <= 0 or found <= 0:
        return False
    return abs(math.log(1000.0 / found / shown)) < abs(math.log(found / shown))


def _add_queues(data: Data, points: Floats, found: Measurement) -> None:
    """Add what queue disciplines counted over time: of the only queue, or of those whose way the metadata say."""
    names = sorted({name.partition("::")[0] for name in [*data.raw, *data.results] if _QUEUE.match(name)})
    frames = {
        name.partition("_stats_")[2]: one for name in names if (one := _read_queue(data, name, points)) is not None
    }
    ways = metadata.match_queues(data)
    both = {way: frames[host] for host, way in ways.items() if host in frames}
    if len(both) == len(frames) == len(metadata.WAYS):
        found.queue, found.hops = both["bottleneck"], {way: both[way] for way in metadata.WAYS.values()}
    elif len(frames) == 1:
        found.queue = next(iter(frames.values()))
    elif frames:
        found.notes.append(
            f"left out: counters of {len(frames)} queues, of which the file does not say which way they are"
        )


def _read_queue(data: Data, name: str, points: Floats) -> pl.DataFrame | None:
    columns: dict[str, pl.Series] = {}
    keys = {
        "backlog_packets": "backlog_pkts",
        "backlog_bytes": "backlog_bytes",
        "sojourn_mean_ms": "delay",
        "drops": "dropped",
        "ce_marks": "ecn_mark",
        "throughput_mbit": "sent_bytes",
    }
    for ours, theirs in keys.items():
        times, values = _get_values(data, name, theirs)
        keep = np.isfinite(values)
        times, values = times[keep], values[keep]
        if not len(values):
            continue
        if ours == "throughput_mbit":  # bytes in all
            steps = np.diff(measurement.hold_values(times, values, points), prepend=np.nan)
            steps[0] = values[0] if len(points) and abs(times[0] - points[0]) < measurement.SAME_S else np.nan
            columns[ours] = measurement.make_column(
                np.where(steps >= 0, steps * 8e-6, np.nan) / np.diff(points, prepend=0.0)
            )
        elif ours in ("drops", "ce_marks"):
            columns[ours] = measurement.make_column(
                _count_in_intervals(data, name, theirs, times, values, points), whole=True
            )
        else:
            columns[ours] = measurement.make_column(
                measurement.hold_values(times, values, points), whole=ours.startswith("backlog")
            )
    return pl.DataFrame({"time_s": points, **columns}) if columns else None


def _count_in_intervals(data: Data, name: str, key: str, times: Floats, values: Floats, points: Floats) -> Floats:
    """Return how many there were in each interval, of counts: since the last sample, or before version 4 in all."""
    if data.version < file.NEWEST and name in data.raw and key in data.raw[name].values:
        total = values
    else:
        total = np.cumsum(values)
        if len(times) and times[0] > 0:
            times, total = np.concatenate(([0.0], times)), np.concatenate(([0.0], total))
    at = measurement.hold_values(times, total, points)
    steps: Floats = np.maximum(np.diff(at, prepend=total[0] if len(total) else 0.0), 0.0)
    return steps


def _set_base_rtts(found: Measurement) -> None:
    """Give flows the smallest RTT of the pings as base RTT: of the ping to the same host, if there are several."""
    pings = [flow for flow in found.flows if flow.kind == "ping"]
    said = found.source.pop("rtt", None)
    hosts = {words[-1]: ping for ping in pings if len(words := ping.name.split()) > _WITHOUT_HOST}
    for flow in found.flows:
        host = flow.name.split()[-1]
        flow.path = host if host in hosts else "the test's host"
        if flow.kind == "udp":
            continue
        same = [ping for ping in pings if ping.path == flow.path or (not ping.path and host not in hosts)]
        if said is not None:
            flow.base_rtt = SetupFact(setup.spell_milliseconds(said), "the title says so")
        elif flow.kind == "ping":
            flow.base_rtt = infer.infer_base_rtt(flow.rtt_min_ms, "its smallest RTT")
        elif host in hosts:
            flow.base_rtt = infer.infer_base_rtt(
                hosts[host].rtt_min_ms, f"the smallest RTT of the pings to {format_line(host)}"
            )
        elif same:
            flow.base_rtt = infer.infer_base_rtt(
                min(p.rtt_min_ms for p in same), "the smallest round trip of the pings"
            )
        elif pings:
            flow.base_rtt = infer.infer_base_rtt(
                min(p.rtt_min_ms for p in pings), "the smallest round trip of all pings"
            )
        elif not math.isnan(flow.rtt_min_ms):
            flow.base_rtt = assume_fact(setup.spell_milliseconds(flow.rtt_min_ms), "its smallest smoothed RTT")
