"""The tables of a results file, made of what another tool measured."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
import polars as pl

from dumbbell.exchange.measurement import SAME_S, Floats, ImportedFlow, Measurement, summarise_samples
from dumbbell.results.columns import BINS, COLUMNS, LEAST_BIN, OF_STORE, TABLES

VERSION = "import-4"
"""The engine of imported runs; it counts up when the same file gives other tables."""
_TYPES = {"count": pl.Int64, "real": pl.Float64, "text": pl.String}
_OF_SESSIONS = {"live", "shell"}  # no file has what only sessions and the real clock tell of a run
# as engines have it (crates/dumbbell-measure/src/together.rs): from which index on shares are fair, over which window,
# and for how long they must stay so, s
_JAIN, _WINDOW_S, _SUSTAINED_S = 0.95, 1.0, 5.0


def make_schema(table: str) -> dict[str, Any]:
    """Return the columns of an imported table without the key, and their types: those that engines give it."""
    return {
        name: _TYPES[column.values]
        for name, column in COLUMNS[table].items()
        if name not in OF_STORE and not (table == "runs" and set(column.engines) <= _OF_SESSIONS)
    }


def make_frame(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with all columns of a table: unknown ones are null."""
    wanted = make_schema(table)
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(kind, strict=False).alias(name)
        for name, kind in wanted.items()
    )


def make_tables(found: Measurement, config: dict[str, Any]) -> dict[str, pl.DataFrame]:
    """Return the tables of a run, without keys, in the order of the flows of `config`."""
    flows = found.flows
    classes = _list_classes(flows, config)
    of_class = {number: place for place, members in enumerate(classes) for number in members}
    shares, got = _compute_shares(found, config), _measure_common_goodput(found, config)
    listed = [
        {
            "flow": number,
            "class": of_class[number],
            "cc": _name_control(flow, number, config),
            "direction": flow.direction,
            "base_rtt_ms": _get_base_rtt(number, config),
            "start_s": flow.start_s,
            "share": shares[number],
            "goodput_common_mbit": got[number],
            "source": flow.ends[0] if flow.ends else None,
            "destination": flow.ends[1] if flow.ends else None,
        }
        | ({"completion_s": flow.end_s - flow.start_s} if flow.is_over else {})
        | {name: value for name, value in flow.figures.items() if not (isinstance(value, float) and math.isnan(value))}
        for number, flow in enumerate(flows)
    ]
    made = {
        "runs": pl.DataFrame([_run(found, config)], infer_schema_length=None),
        "flows": pl.DataFrame(listed, infer_schema_length=None),
        "classes": pl.DataFrame(
            [
                _make_class_row(place, [flows[number] for number in members], members, config)
                for place, members in enumerate(classes)
            ],
            infer_schema_length=None,
        ),
        "series": _make_series(flows),
        "queue_series": _make_queue_series(found),
        "rtt": _make_histograms(flows, classes),
    }
    if found.hops:
        of_hops = [one.with_columns(pl.lit(hop).alias("hop")) for hop, one in found.hops.items()]
        made["hop_series"] = pl.concat(of_hops).sort("time_s", maintain_order=True)
        made["hops"] = pl.DataFrame([{"hop": hop} | _summarise_queue(one) for hop, one in found.hops.items()])
    if found.exact:
        for name in found.exact["tables"]:
            rows = pl.DataFrame(found.exact[name], infer_schema_length=None, strict=False)
            made[name] = rows if rows.width else pl.DataFrame(schema=make_schema(name))
    # all of them: a reader of one of which no file knows anything asks for its columns
    return {name: make_frame(name, made.get(name, pl.DataFrame(schema=make_schema(name)))) for name in TABLES}


def compute_digest(made: dict[str, pl.DataFrame]) -> str:
    """Return a hash of what was measured."""
    text = json.dumps({name: rows.to_dict(as_series=False) for name, rows in sorted(made.items())}, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _list_groups(config: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return of each flow of a configuration its section and its entry."""
    return [(kind, one) for kind in ("flows", "udp") for one in config[kind] for _ in range(one["count"])]


def _name_control(flow: ImportedFlow, number: int, config: dict[str, Any]) -> str:
    if flow.kind != "flows":
        return flow.kind
    return str(_list_groups(config)[number][1]["cc"]["name"])


def _get_base_rtt(number: int, config: dict[str, Any]) -> float:
    return float(_list_groups(config)[number][1].get("base_rtt") or 0) / 1e6


def _list_classes(flows: list[ImportedFlow], config: dict[str, Any]) -> list[list[int]]:
    """Return the flows that are one class each: alike in kind, congestion control, base RTT and direction."""
    found: dict[tuple[Any, ...], list[int]] = {}
    groups = _list_groups(config)
    for number, flow in enumerate(flows):
        section, one = groups[number]
        what = one.get("cc") or {"rate": one.get("rate"), "size": one.get("size"), "echo": one.get("echo")}
        code = (section, json.dumps(what, sort_keys=True, default=str), one.get("base_rtt"), flow.direction)
        found.setdefault(code, []).append(number)
    return list(found.values())


def _run(found: Measurement, config: dict[str, Any]) -> dict[str, Any]:
    flows = [flow for flow in found.flows if "goodput_mbit" in flow.figures]
    row: dict[str, Any] = {"goodput_total_mbit": sum(flow.goodput_mbit for flow in flows) if flows else None}
    tcp = [flow for flow in flows if flow.kind == "flows"]
    if tcp:
        row |= _compare_shares(tcp, found, config)
    counted = [flow.figures["retransmissions"] for flow in found.flows if "retransmissions" in flow.figures]
    if counted and len(counted) == len([flow for flow in found.flows if flow.kind == "flows"]):
        row["retransmissions"] = round(sum(counted))
    if found.queue is not None and found.queue.height:
        row |= _summarise_queue(found.queue)
    return row | found.runs


def _summarise_queue(queue: pl.DataFrame) -> dict[str, Any]:
    """Return what the counters of a queue over time come to in the whole run."""
    known = {name for name in queue.columns if queue[name].count()}
    row: dict[str, Any] = {name: queue[name].sum() for name in ("drops", "ce_marks") if name in known}
    if "throughput_mbit" in known:
        row["throughput_mbit"] = queue["throughput_mbit"].mean()
    if "sojourn_mean_ms" in known:
        waited, sent = pl.col("sojourn_mean_ms"), pl.col("throughput_mbit")
        mean = waited.mean()
        if row.get("throughput_mbit"):  # a mean of packets: an interval counts by what left in it
            mean = (waited * sent).sum() / sent.filter(waited.is_not_null()).sum()
        row["sojourn_mean_ms"] = queue.select(mean).item()
    return row


def _compute_jain(goodputs: list[float]) -> float | None:
    squares = len(goodputs) * sum(value * value for value in goodputs)
    return sum(goodputs) ** 2 / squares if squares > 0 else None


def _find_common_time(found: Measurement, config: dict[str, Any]) -> tuple[float, float] | None:
    """Return begin and end of the time that the TCP flows have in common; without any, the whole measurement."""
    tcp = [(number, flow) for number, flow in enumerate(found.flows) if flow.kind == "flows"]
    if not tcp:
        return 0.0, found.duration_s
    # a flow comes to the queue half a base RTT after its start at the sender
    ahead = 0.0 if found.source.get("taken") == "near the receiver" else 0.5e-3
    begin = max(flow.start_s + ahead * _get_base_rtt(number, config) for number, flow in tcp)
    end = min((flow.end_s for _, flow in tcp if flow.is_over), default=found.duration_s)
    return (begin, end) if end > begin else None


def _measure_common_goodput(found: Measurement, config: dict[str, Any]) -> list[float | None]:
    """Return the mean goodput of each flow in the time that the TCP flows have in common; None where no file says it.

    Flows that were measured over equal times have their goodputs; of others the series have what each got together.
    """
    common = _find_common_time(found, config)
    known = [float(flow.figures["goodput_mbit"]) if "goodput_mbit" in flow.figures else None for flow in found.flows]
    tcp = [flow for flow in found.flows if flow.kind == "flows"]
    starts, ends = [flow.start_s for flow in tcp], [flow.end_s for flow in tcp]
    spread = max(starts, default=0.0) - min(starts, default=0.0) + max(ends, default=0.0) - min(ends, default=0.0)
    if common is None or len(tcp) < 2 or spread <= found.interval_s:
        return known if common is not None else [None] * len(known)
    got: list[float | None] = []
    for flow in found.flows:
        if "goodput_mbit" not in flow.series.columns:
            return [None] * len(known)
        inside = (pl.col("time_s") - found.interval_s >= common[0] - SAME_S) & (pl.col("time_s") <= common[1] + SAME_S)
        mean = flow.series.filter(inside)["goodput_mbit"].mean()
        got.append(float(mean) if isinstance(mean, int | float) else None)
    return got


def _compute_shares(found: Measurement, config: dict[str, Any]) -> list[float | None]:
    got = _measure_common_goodput(found, config)
    total = sum(value or 0.0 for value in got)
    return [value / total if total > 0 and value is not None else None for value in got]


def _compare_shares(flows: list[ImportedFlow], found: Measurement, config: dict[str, Any]) -> dict[str, float | None]:
    """Return Jain's index, the time that TCP flows have in common, and when their shares became fair and stayed so.

    Windows are whole intervals of the file, about a second of them, and begin with the first interval after the last
    start. A file whose intervals are longer than a second does not tell when shares converged.
    """
    common, got = _find_common_time(found, config), _measure_common_goodput(found, config)
    own = [value for value, flow in zip(got, found.flows, strict=True) if flow.kind == "flows" and value is not None]
    row: dict[str, float | None] = {"jain": _compute_jain(own) if len(own) == len(flows) else None}
    if common is None:
        return row
    row["common_s"] = common[1] - common[0]
    carried = all(flow.carried is not None for flow in flows)
    frames = [
        flow.carried.select("time_s", rate="mbit")
        if carried and flow.carried is not None
        else flow.series.select("time_s", rate="goodput_mbit")
        for flow in flows
        if carried or "goodput_mbit" in flow.series.columns
    ]
    if len(frames) < max(2, len(flows)) or found.interval_s > _WINDOW_S + SAME_S:
        return row
    rates = pl.concat(frames).group_by("time_s", maintain_order=True).agg("rate").sort("time_s")
    inside = (pl.col("time_s") - found.interval_s >= common[0] - SAME_S) & (pl.col("time_s") <= common[1] + SAME_S)
    looks = rates.filter(inside, pl.col("rate").list.len() == len(flows)).drop_nulls()
    if looks.is_empty():
        return row
    shares = np.array(looks["rate"].to_list(), dtype=np.float64)
    begins = looks["time_s"].to_numpy() - found.interval_s - common[0]
    return row | _find_convergence(shares, begins, found.interval_s)


def _find_convergence(shares: Floats, begins: Floats, interval_s: float) -> dict[str, float | None]:
    """Return when shares were fair for good, and when those of all since the start were, of rates by interval and flow.

    `begins` are the starts of the intervals, s since the last flow came.
    """
    size = max(1, round(_WINDOW_S / interval_s))
    cumulative = np.cumsum(shares, axis=0)
    first = next((n for n, each in enumerate(cumulative.tolist()) if (_compute_jain(each) or 0.0) >= _JAIN), None)
    since = None
    found = None
    for last in range(size - 1, len(shares)):
        if (_compute_jain(shares[last - size + 1 : last + 1].sum(axis=0).tolist()) or 0.0) < _JAIN:
            since = None
            continue
        since = last - size + 1 if since is None else since
        if begins[last] + interval_s - begins[since] >= _SUSTAINED_S - SAME_S:
            found = float(begins[since])
            break
    return {
        "convergence_s": found,
        "convergence_cumulative_s": None if first is None else float(begins[first]) + interval_s,
    }


def _make_class_row(
    place: int, members: list[ImportedFlow], numbers: list[int], config: dict[str, Any]
) -> dict[str, Any]:
    first = members[0]

    def compute_mean(name: str) -> float | None:
        values = [float(flow.figures[name]) for flow in members if name in flow.figures]
        values = [value for value in values if not math.isnan(value)]
        return sum(values) / len(values) if values else None

    row: dict[str, Any] = {
        "class": place,
        "kind": "flows" if first.kind == "flows" else "udp",
        "cc": _name_control(first, numbers[0], config),
        "direction": first.direction,
        "base_rtt_ms": _get_base_rtt(numbers[0], config) if first.kind == "flows" else 0.0,
        "flows": len(members),
    }
    row |= {name: compute_mean(name) for name in ("throughput_mbit", "goodput_mbit", "rtt_mean_ms")}
    samples = [flow.rtts_ms for flow in members if flow.rtts_ms is not None and len(flow.rtts_ms)]
    if samples:
        row |= {
            name: value for name, value in summarise_samples(np.concatenate(samples)).items() if name != "rtt_min_ms"
        }
    return row


def _make_series(flows: list[ImportedFlow]) -> pl.DataFrame:
    rows = [flow.series.with_columns(pl.lit(number).alias("flow")) for number, flow in enumerate(flows)]
    rows = [one for one in rows if one.height]
    if not rows:
        return pl.DataFrame(schema=make_schema("series"))
    return pl.concat(rows, how="diagonal_relaxed").sort("time_s", "flow", maintain_order=True)


def _make_queue_series(found: Measurement) -> pl.DataFrame:
    """Return what is known of the queue over time; without that, the points alone: figures over time need them."""
    if found.queue is not None and found.queue.height:
        return found.queue
    times = [flow.series["time_s"] for flow in found.flows if flow.series.height]
    if not times:
        return pl.DataFrame(schema=make_schema("queue_series"))
    return pl.DataFrame({"time_s": pl.concat(times).unique().sort()})


def _make_histograms(flows: list[ImportedFlow], classes: list[list[int]]) -> pl.DataFrame:
    """Return the histogram of RTT samples by class, with the bins of the engines."""
    rows = []
    for place, members in enumerate(classes):
        samples = [flows[number].rtts_ms for number in members]
        kept = [one for one in samples if one is not None and len(one)]
        if not kept:
            continue
        values = np.concatenate(kept)
        doublings = np.maximum(0, np.floor(np.log2(np.maximum(values, 1e-9) / LEAST_BIN)) - int(math.log2(BINS)))
        width = LEAST_BIN * 2.0**doublings
        starts, counts = np.unique(np.floor(values / width) * width, return_counts=True)
        rows.append(pl.DataFrame({"class": [place] * len(starts), "from_ms": starts, "samples": counts}))
    return pl.concat(rows) if rows else pl.DataFrame(schema=make_schema("rtt"))
