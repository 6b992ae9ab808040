"""qlog files of QUIC stacks, and those that dumbbell writes: what a sender sends, gets acknowledged and believes."""

from __future__ import annotations

import bisect
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dumbbell.errors import Nothing
from dumbbell.exchange import infer, measurement, setup
from dumbbell.exchange.measurement import ImportedFlow, Measurement, SetupFact
from dumbbell.experiment.registry import read_registry
from dumbbell.qlog.events import Event, QlogFile, read_connections
from dumbbell.words import format_count

_METRICS = ("recovery_metrics_updated", "metrics_updated", "metric_update", "congestion_metric_update")
_SENT, _RECEIVED, _LOST = "packet_sent", "packet_received", "packet_lost"
_STEPS_S, _LONG_S = (0.2, 1.0), 600.0
_NO_DATA_BYTES = 80  # packets of TCP without payload: handshake and ACKs
# quinn-proto 0.11 writes RTTs in seconds, the first one kInitialRtt (RFC 9002, section 6.2.2)
_INITIAL_RTT_S = 0.333
_SPACES = {"initial": "initial", "handshake": "handshake"}
_LEAST_SHARE = 0.001
_FRAMED = 42  # Ethernet, IPv4 and UDP: what a frame has more than a packet of QUIC
_MOST_CONNECTIONS = 100  # that are listed
_BUCKET = 64  # numbers of packets: small enough to look through, large enough for few buckets


def read(path: Path, interval_s: float | None = None) -> Measurement:
    """Return what a qlog file says of each connection. Raises InputError."""
    files = read_connections(path, (*_METRICS, _SENT, _RECEIVED, _LOST))
    found = [_QlogConnection(path, one, number) for number, one in enumerate(files) if one.events]
    most = max((one.weight for one in found), default=0.0)
    kept = [one for one in found if one.weight > _LEAST_SHARE * most] if most > 0 else found
    if len(kept) > _MOST_CONNECTIONS:
        heaviest = {id(one) for one in sorted(kept, key=lambda one: -one.weight)[:_MOST_CONNECTIONS]}
        kept = [one for one in kept if id(one) in heaviest]
    length = max((one.end for one in kept), default=0.0)
    measurement.check_length(path, length)
    step = measurement.choose_interval(length, interval_s or _STEPS_S[length > _LONG_S])
    points = measurement.make_grid(max(length, step), step)
    flows = [flow for one in kept if (flow := one.make_flow(points, step)) is not None]
    if not flows:
        events = f"{', '.join(_METRICS[:2])}, {_SENT} and {_RECEIVED}"
        raise Nothing("found no connection with packets or metrics", f"a file with events {events}", file=path)
    notes = [note for one in kept for note in one.notes]
    if len(found) > len(kept):
        notes.append(f"{len(found) - len(kept)} connections that carried least were left out")
    title = next((str(one.header["title"]) for one in files if isinstance(one.header.get("title"), str)), "")
    return Measurement(
        flows,
        max(length, step),
        step,
        title=" ".join(title.split())[:200] or f"qlog, {format_count(len(flows), 'connection')}",
        source={"format": "qlog"},
        notes=list(dict.fromkeys(notes)),
    )


class _Outstanding:
    """Packets that were sent and not acknowledged: their times and payload by number.

    Numbers are in buckets, so that a range of them is found without those outside of it: a stack that acknowledges
    little leaves many, and every ACK has ranges that begin with the first of them.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, dict[int, tuple[float, float]]] = {}
        self._order: list[int] = []
        """Buckets that are not empty, in order."""

    def add(self, number: int, time: float, payload: float) -> None:
        """Add a packet."""
        key = number // _BUCKET
        if key not in self._buckets:
            self._buckets[key] = {}
            bisect.insort(self._order, key)
        self._buckets[key][number] = (time, payload)

    def take(self, low: int, high: int) -> list[tuple[int, float, float]]:
        """Remove the packets of a range, and return them: number, time and payload."""
        first = bisect.bisect_left(self._order, low // _BUCKET)
        last = bisect.bisect_right(self._order, high // _BUCKET)
        taken: list[tuple[int, float, float]] = []
        for key in self._order[first:last]:
            bucket = self._buckets[key]
            numbers = [number for number in bucket if low <= number <= high]
            taken += [(number, *bucket.pop(number)) for number in numbers]
        if taken:
            emptied = [key for key in self._order[first:last] if not self._buckets[key]]
            for key in emptied:
                del self._buckets[key]
            self._order[first:last] = [key for key in self._order[first:last] if key in self._buckets]
        return taken


class _QlogConnection:
    """A connection of a file: what was sent and acknowledged, and what metrics said."""

    def __init__(self, path: Path, file: QlogFile, number: int) -> None:
        self.path, self.number, self.header = path, number, file.header
        self.notes = list(file.notes)
        self.start, self.end = file.events[0].time, file.events[-1].time
        self.metrics: dict[str, list[tuple[float, float]]] = {}
        self.got: list[tuple[float, float]] = []
        self.came: list[tuple[float, float]] = []
        self.samples: list[tuple[float, float]] = []
        self.sent: Counter[str] = Counter()
        self.lost: list[float] = []
        self.frames, self.payload = 0.0, 0.0
        """Bytes of packets with streams in them, as frames, and of these streams."""
        self.sizes: Counter[int] = Counter()
        self._out: defaultdict[str, _Outstanding] = defaultdict(_Outstanding)
        first = next((one.data["smoothed_rtt"] for one in file.events if "smoothed_rtt" in one.data), None)
        self.scale = 1e3 if isinstance(first, float) and abs(first - _INITIAL_RTT_S) < 1e-6 else 0.0
        if self.scale:
            self.notes.append("its RTTs are in seconds, for it begins with one of 0.333: taken as ms")
        for event in file.events:
            if event.name in _METRICS:
                self._take_metrics(event)
            elif event.name == _SENT:
                self._take_sent(event)
            elif event.name == _RECEIVED:
                self._take_received(event)
            else:
                self._take_lost(event)

    @cached_property
    def weight(self) -> float:
        """What the connection carried, bytes; without packets, how many metrics it has."""
        carried = sum(size for _, size in self.got) + sum(size for _, size in self.came)
        return carried or sum(map(len, self.metrics.values()))

    def _take_metrics(self, event: Event) -> None:
        for name in ("congestion_window", "bytes_in_flight", "ssthresh", "smoothed_rtt", "latest_rtt", "min_rtt"):
            value = _parse_number(event.data.get(name, event.data.get("cwnd") if name == "congestion_window" else None))
            if math.isfinite(value) and 0 <= value < 1e15:
                scale = (self.scale or event.unit) if name.endswith("rtt") else 1.0
                self.metrics.setdefault(name, []).append((event.time, value * scale))

    def _take_sent(self, event: Event) -> None:
        space, number, size = _parse_packet(event.data)
        payload = _measure_payload(event.data, size)
        if payload > 0:
            self._count_packet(size, payload)
            self.sent[space] += 1
            if space == "data":
                self.sizes[round(_get_number(event.data.get("raw"), "payload_length") or size)] += 1
        if number is not None:
            self._out[space].add(number, event.time, payload)

    def _take_received(self, event: Event) -> None:
        space, _, size = _parse_packet(event.data)
        if (payload := _measure_payload(event.data, 0.0)) > 0:
            self._count_packet(size, payload)
            self.came.append((event.time, payload))
        for low, high in _list_acked_ranges(event.data):
            if not (found := self._out[space].take(low, high)):
                continue
            largest, sent_at, _ = max(found)
            took = (event.time - sent_at) * 1e3
            self.got.append((event.time, sum(payload for *_, payload in found)))
            if took > 0 and largest == high:
                self.samples.append((event.time, took))

    def _count_packet(self, size: float, payload: float) -> None:
        """Add a packet with streams to what is known of its frames."""
        if size >= payload:
            self.frames, self.payload = self.frames + size + _FRAMED, self.payload + payload

    def _take_lost(self, event: Event) -> None:
        space, number, _ = _parse_packet(event.data)
        self.lost.append(event.time)
        if number is not None:
            self._out[space].take(number, number)

    def make_flow(self, points: measurement.Floats, step: float) -> ImportedFlow | None:
        """Return the connection as a flow; None if it says nothing that has a column."""
        is_sender = sum(size for _, size in self.got) >= sum(size for _, size in self.came)
        carried = self.got if is_sender else self.came
        columns: dict[str, pl.Series] = {}
        figures: dict[str, float | int] = {}
        lives = (points > self.start) & (points - step < self.end)

        def hold_values(name: str, by: float = 1.0) -> measurement.Floats:
            times, values = _make_columns(self.metrics.get(name, []))
            return np.where(lives, measurement.hold_values(times, values * by, points), np.nan)

        if carried and self.end > self.start:
            times, sizes = _make_columns(carried)
            total = np.concatenate(([0.0], np.cumsum(sizes)))
            at = np.nan_to_num(measurement.hold_values(np.concatenate(([self.start], times)), total, points))
            columns["goodput_mbit"] = measurement.make_column(
                np.where(lives, np.diff(at, prepend=0.0) * 8e-6 / step, np.nan)
            )
            figures["goodput_mbit"] = float(total[-1]) * 8e-6 / (self.end - self.start)
        latest = self.metrics.get("latest_rtt") or self.samples
        rtts = _make_columns(latest)[1]
        if len(rtts):
            figures |= measurement.summarise_samples(rtts)
        if low := [value for _, value in self.metrics.get("min_rtt", []) if value > 0]:
            figures["rtt_min_ms"] = min(low)
        if "smoothed_rtt" in self.metrics:
            times, srtts = _make_columns(self.metrics["smoothed_rtt"])
            columns["srtt_ms"] = measurement.make_column(hold_values("smoothed_rtt"))
            figures |= measurement.summarise_smoothed(times, srtts, self.end)
        if is_sender and self.sizes:
            segment = max(self.sizes, key=lambda size: (self.sizes[size], size))
            for ours, theirs in (
                ("cwnd", "congestion_window"),
                ("in_flight", "bytes_in_flight"),
                ("ssthresh", "ssthresh"),
            ):
                if theirs in self.metrics:
                    columns[ours] = measurement.make_column(hold_values(theirs, 1 / segment), whole=True)
            if "congestion_window" in self.metrics:
                times, windows = _make_columns(self.metrics["congestion_window"])
                figures |= measurement.summarise_window(times, windows / segment, self.end)
            figures["sent"] = sum(self.sent.values())
            figures["retransmissions"] = len(self.lost)
            place = np.minimum(np.searchsorted(points, np.array(self.lost) - 1e-9), len(points) - 1)
            counts = np.bincount(place.astype(np.int64), minlength=len(points)).astype(np.float64)
            columns["retransmissions"] = measurement.make_column(np.where(lives, counts, np.nan), whole=True)
        if not columns and not figures:
            return None
        series = pl.DataFrame({"time_s": points, **columns}).filter(pl.Series(lives))
        name = self.header.get("title")
        flow = ImportedFlow(
            " ".join(str(name).split())[:80] if isinstance(name, str) else f"connection {self.number}",
            direction="down",
            cc=self._find_control(),
            start_s=self.start,
            end_s=self.end,
            figures=figures,
            series=series,
            rtts_ms=rtts if len(rtts) else None,
        )
        if self.payload > 0:
            flow.frames_per_payload = self.frames / self.payload
        if math.isfinite(flow.rtt_min_ms) and flow.rtt_min_ms > 0:
            flow.base_rtt = infer.infer_base_rtt(flow.rtt_min_ms, "its smallest RTT")
        return flow

    def _find_control(self) -> SetupFact | None:
        for key in ("description", "title"):
            text = self.header.get(key)
            for word in re.split(r"[^\w-]+", text) if isinstance(text, str) else []:
                if word.lower() in read_registry().cc and word.lower() not in ("constant", "external"):
                    return setup.match_control(word, f"the {key} of the file")
        return None


def _make_columns(rows: list[tuple[float, float]]) -> tuple[measurement.Floats, measurement.Floats]:
    table = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _get_number(value: Any, key: str) -> float:
    """Return a number of a table; 0 if it is none."""
    number = _parse_number(value.get(key)) if isinstance(value, dict) else math.nan
    return number if math.isfinite(number) and 0 <= number < 1e12 else 0.0


def _parse_number(value: Any) -> float:
    """Return a number, which some stacks write as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _parse_packet(data: dict[str, Any]) -> tuple[str, int | None, float]:
    """Return number space, number and length of a packet."""
    header = data.get("header")
    kind = str((header if isinstance(header, dict) else data).get("packet_type", data.get("packet_type", ""))).lower()
    number = _parse_number(header.get("packet_number") if isinstance(header, dict) else data.get("packet_number"))
    size = (
        _get_number(data.get("raw"), "length") or _get_number(header, "packet_size") or _get_number(data, "packet_size")
    )
    return _SPACES.get(kind, "data"), int(number) if math.isfinite(number) and abs(number) < 2**62 else None, size


def _measure_payload(data: dict[str, Any], size: float) -> float:
    """Return bytes of streams in a packet; where its frames are not told, its payload, else `size`."""
    frames = data.get("frames")
    if isinstance(frames, list) and frames:
        # before draft-02 of the schema for QUIC, types were in capitals
        streams = [one for one in frames if isinstance(one, dict) and str(one.get("frame_type")).lower() == "stream"]
        of_streams = sum(
            _get_number(frame, "length")
            or _get_number(frame.get("raw"), "payload_length")
            or _get_number(frame.get("raw"), "length")
            for frame in streams
        )
        if of_streams or size == 0 or all(isinstance(one, dict) and "frame_type" in one for one in frames):
            return of_streams
    raw = data.get("raw")
    if isinstance(raw, dict) and ("payload_length" in raw or _get_number(raw, "length") <= _NO_DATA_BYTES):
        return _get_number(raw, "payload_length")
    return size


def _list_acked_ranges(data: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of packet numbers that a packet acknowledges."""
    frames = data.get("frames")
    for frame in frames if isinstance(frames, list) else []:
        ranges = frame.get("acked_ranges") if isinstance(frame, dict) else None
        for one in ranges if isinstance(ranges, list) else []:
            numbers = [_parse_number(end) for end in (one if isinstance(one, list) else [one])]
            if numbers and all(math.isfinite(number) and abs(number) < 2**62 for number in numbers):
                yield int(min(numbers)), int(max(numbers))
