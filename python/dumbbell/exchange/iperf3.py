"""The JSON of iperf3: `iperf3 --json` and `--json-stream`, of client or server."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dumbbell.errors import Nothing, Unreadable, quote_value
from dumbbell.exchange import measurement, setup
from dumbbell.exchange.measurement import ImportedFlow, Measurement, SetupFact, assume_fact, derive_fact, read_number
from dumbbell.words import format_count

ALLOWED = "what iperf3 --json writes"
_ALIGNED = 0.1  # of an interval
_HEADERS = 52  # IPv4, TCP and timestamps: what an MTU has more than a segment
_LONGER_V6 = 20  # bytes of a header of IPv6 more than of IPv4
_FRAMED = 42  # Ethernet, IPv4 and UDP: what a frame has more than a block
_MOST_STREAMS = 200  # that are listed; iperf3 has 128 at most (MAX_STREAMS of iperf_api.h)


def is_iperf3(value: Any) -> bool:
    """Whether a JSON value looks like iperf3's."""
    if not isinstance(value, dict):
        return False
    return {"start", "intervals"} <= value.keys() or {"event", "data"} == value.keys()


def parse_lines(text: str) -> dict[str, Any] | None:
    """Return what `--json-stream` writes, one event per line, as the whole document; None if it is something else."""
    whole: dict[str, Any] = {"start": {}, "intervals": [], "end": {}}
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str) or "data" not in event:
            return None
        if event["event"] == "interval":
            whole["intervals"].append(event["data"])
        elif event["event"] in ("start", "end"):
            whole[event["event"]] = event["data"]
        elif event["event"] == "error":
            whole["error"] = event["data"]
    return whole


def read_document(path: Path, value: dict[str, Any]) -> Measurement:
    """Return what a document of iperf3 says. Raises InputError."""
    file = _Document(path, value)
    flows = file.read_flows()
    if not flows:
        said = value.get("error")
        found = f"the test failed: {str(said)[:80]}" if said else "found no interval of any stream"
        raise Nothing(" ".join(found.split()), "the JSON of a test that ran", file=path)
    return file.make_measurement(flows)


@dataclass
class _UdpCounts:
    """The counters of a stream of UDP. `figures` has what arrived only if the receiver told it."""

    figures: dict[str, float | int] = field(default_factory=dict)
    sent_mbit: float = 0.0
    is_received: bool = False
    lost: int = 0


class _Document:
    def __init__(self, path: Path, value: dict[str, Any]) -> None:
        self.path = path
        self.start, self.end = self._get_table(value, "start"), self._get_table(value, "end")
        self.test = self._get_table(self.start, "test_start")
        self.intervals = self._list(value, "intervals")
        self.notes: list[str] = []
        self.connected = {
            one["socket"]: one for one in self._list(self.start, "connected") if isinstance(one.get("socket"), int)
        }

    def _get_table(self, of: Any, key: str) -> dict[str, Any]:
        found = of.get(key, {}) if isinstance(of, dict) else {}
        if not isinstance(found, dict):
            raise Unreadable(f"this is {quote_value(found, 40)}", ALLOWED, file=self.path, key=key)
        return found

    def _list(self, of: dict[str, Any], key: str) -> list[dict[str, Any]]:
        found = of.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise Unreadable(f"this is {quote_value(found, 40)}", ALLOWED, file=self.path, key=key)
        return found

    def read_flows(self) -> list[ImportedFlow]:
        """Return the streams, each as a flow."""
        rows: dict[tuple[int, bool], list[dict[str, float]]] = {}
        for interval in self.intervals:
            for stream in self._list(interval, "streams"):
                if stream.get("omitted") is True or not isinstance(stream.get("socket"), int):
                    continue
                row = {key: read_number(one) for key, one in stream.items()}
                row |= {key: read_number(one) for key, one in self._get_table(stream, "udp").items()}
                if math.isfinite(row.get("end", math.nan)) and row.get("seconds", 0.0) > 0:
                    rows.setdefault((stream["socket"], self._is_sender(stream)), []).append(row)
        ends = {
            (side["socket"], self._is_sender(side)): (side, self._get_table(stream, "receiver"))
            for stream in self._list(self.end, "streams")
            for side in [self._get_table(stream, "sender"), self._get_table(stream, "udp")]
            if isinstance(side.get("socket"), int)
        }
        if (more := len(rows) - _MOST_STREAMS) > 0:
            self.notes.append(f"left out: {more} streams after the first {_MOST_STREAMS}")
            rows = dict(list(rows.items())[:_MOST_STREAMS])
        self._align(list(rows.values()))
        return [self._read_flow(key, of_stream, *ends.get(key, ({}, {}))) for key, of_stream in rows.items()]

    def _is_sender(self, stream: dict[str, Any]) -> bool:
        """Return whether this host sends a stream; before iperf 3.6 only the direction of the test says it."""
        is_client = "accepted_connection" not in self.start
        return bool(stream.get("sender", bool(self.test.get("reverse")) != is_client))

    def _align(self, streams: list[list[dict[str, float]]]) -> None:
        """Let intervals of all streams that ended together, but for some microseconds, end at one time."""
        spans = [row["seconds"] for of_stream in streams for row in of_stream]
        step = float(np.median(spans)) if spans else 1.0
        step = float(f"{step:.2g}")
        for row in (row for of_stream in streams for row in of_stream):
            whole = round(row["end"] / step) * step
            row["end"] = round(whole if abs(row["end"] - whole) < _ALIGNED * step else row["end"], 6)

    def _read_flow(
        self, key: tuple[int, bool], rows: list[dict[str, float]], sent: dict[str, Any], received: dict[str, Any]
    ) -> ImportedFlow:
        is_udp = self.test.get("protocol") == "UDP"
        ends = np.array([row["end"] for row in rows])
        spans = np.array([row["seconds"] for row in rows])

        def get_values(name: str, by: float = 1.0) -> measurement.Floats:
            return np.array([row.get(name, math.nan) for row in rows]) * by

        columns: dict[str, pl.Series] = {}
        if not (is_udp and key[1]):  # of UDP that is sent, intervals have what was put on the net
            columns["goodput_mbit"] = measurement.make_column(get_values("bits_per_second", 1e-6))
        start, end = float((ends - spans).min()), float(ends.max())
        figures: dict[str, float | int] = {}
        is_received = not key[1]
        if (got := read_number(received.get("bits_per_second"))) > 0:
            figures["goodput_mbit"], is_received = got * 1e-6, True
        elif end > start and not is_udp:
            figures["goodput_mbit"] = float(np.nansum(get_values("bytes"))) * 8e-6 / (end - start)
            if key[1]:
                self._note("the server did not answer: the goodput is what was given to the sockets, not what arrived")
        srtt = get_values("rtt", 1e-3)
        srtt[srtt <= 0] = np.nan
        if np.isfinite(srtt).any():
            columns["srtt_ms"] = measurement.make_column(srtt)
            figures |= measurement.summarise_smoothed(ends, srtt, end)
        window = get_values("snd_cwnd", 1 / self._find_segment(rows))
        window[window <= 0] = np.nan
        if np.isfinite(window).any():
            columns["cwnd"] = measurement.make_column(window, whole=True)
            figures |= measurement.summarise_window(ends, window, end)
        again = get_values("retransmits")
        said = read_number(sent.get("retransmits"))  # with --reverse only the server counts them, at the end
        if not is_udp and np.isfinite(again).any():
            columns["retransmissions"] = measurement.make_column(again, whole=True)
        if not is_udp and (math.isfinite(said) or np.isfinite(again).any()):
            figures["retransmissions"] = round(float(said if math.isfinite(said) else np.nansum(again)))
        rate = size = None
        is_v6 = ":" in str(self.connected.get(key[0], {}).get("remote_host", ""))
        lost, factor = 0, measurement.compute_frame_ratio(self._find_segment(rows), is_v6=is_v6)
        if is_udp:
            udp = self._read_udp(key, rows, sent, end - start)
            figures |= udp.figures
            is_received, lost = udp.is_received, udp.lost
            block = read_number(self.test.get("blksize"))
            if block > 0:
                framed = _FRAMED + (_LONGER_V6 if is_v6 else 0)
                factor = (block + framed) / block
                size = SetupFact(f"{round(block) + framed}B", "the block size, with headers")
            rate = self._find_udp_rate(factor, udp.sent_mbit)
        up = key[1]
        cc = None
        if not is_udp:
            name = self.end.get("sender_tcp_congestion")
            cc = setup.match_control(name, "sender_tcp_congestion") if isinstance(name, str) and name else None
        series = (
            pl.DataFrame({"time_s": ends, **columns}).sort("time_s").unique("time_s", keep="last", maintain_order=True)
        )
        flow = ImportedFlow(
            f"stream {key[0]} {'up' if up else 'down'}",
            "udp" if is_udp else "flows",
            "up" if up else "down",
            cc=cc,
            start_s=max(start, 0.0),
            end_s=end,
            figures=figures,
            series=series,
            rate=rate,
            size=size,
            ends=self._find_ends(key),
            is_received=is_received,
            is_given=key[1],
            lost=lost,
            frames_per_payload=factor,
        )
        low = flow.rtt_min_ms
        if math.isfinite(low):
            flow.base_rtt = assume_fact(
                setup.spell_milliseconds(low),
                "its smallest smoothed RTT, read once per interval; the path's may be shorter",
            )
        return flow

    def _find_udp_rate(self, factor: float, sent_mbit: float) -> SetupFact | None:
        """Return the rate of a source of UDP as frames: the rate that was asked for, else what it sent."""
        wanted = read_number(self.test.get("target_bitrate"))
        if wanted > 0:
            return SetupFact(setup.spell_rate(wanted * factor), "the target bit rate, as frames")
        if sent_mbit > 0:
            return derive_fact(
                setup.spell_rate(sent_mbit * factor * 1e6), "what was sent on average, as frames", "+-0.5 %"
            )
        return None

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _read_udp(
        self, key: tuple[int, bool], rows: list[dict[str, float]], sent: dict[str, Any], seconds: float
    ) -> _UdpCounts:
        """Return what is known of a stream of UDP: what was sent, and what its receiver counted if it answered."""
        own = sum(row.get("bytes", 0.0) for row in rows if math.isfinite(row.get("bytes", 0.0)))
        packets, lost, jitter, size = (
            read_number(sent.get(name)) for name in ("packets", "lost_packets", "jitter_ms", "bytes")
        )
        found = _UdpCounts()
        if seconds > 0:
            sent_bytes = size if size > 0 else own if key[1] else math.nan
            found.sent_mbit = sent_bytes * 8e-6 / seconds if sent_bytes > 0 else 0.0
        if packets > 0:
            found.figures["sent"] = round(packets)
        if key[1] and not self._is_answered(lost, jitter):
            self._note("the server did not answer: what arrived of UDP, its loss and its jitter are not known")
            return found
        found.is_received = True
        if packets > 0 and lost >= 0 and size > 0 and seconds > 0:
            found.figures["goodput_mbit"] = size * max(packets - lost, 0.0) / packets * 8e-6 / seconds
            found.lost = round(lost)
        elif not key[1] and seconds > 0:
            found.figures["goodput_mbit"] = own * 8e-6 / seconds
            found.lost = round(sum(one for row in rows if (one := row.get("lost_packets", 0.0)) > 0))
        else:
            found.is_received = False
        jitters = [(row["jitter_ms"], row.get("packets", 0.0)) for row in rows if "jitter_ms" in row and not key[1]]
        jitters = [(value, count) for value, count in jitters if math.isfinite(value) and count > 0]
        if math.isfinite(jitter):
            found.figures["jitter_ms"] = jitter
        if jitters:
            found.figures["jitter_mean_ms"] = sum(v * n for v, n in jitters) / sum(n for _, n in jitters)
        elif math.isfinite(jitter):
            self._note("the jitter of UDP is that after its last packet: column jitter_ms has it, and jitter none")
        return found

    def _is_answered(self, lost: float, jitter: float) -> bool:
        """Return whether the server told what it received: without its answer, iperf3 writes zeros."""
        counted = read_number(self._get_table(self.end, "sum_received").get("bytes"))
        remote = read_number(self._get_table(self.end, "cpu_utilization_percent").get("remote_total"))
        return jitter > 0 or lost > 0 or counted > 0 or remote > 0

    def _find_segment(self, rows: list[dict[str, float]]) -> float:
        """Return bytes of payload of a segment, in which windows are counted."""
        for name in ("tcp_mss", "tcp_mss_default"):
            if (size := read_number(self.start.get(name))) > 0:
                return size
        mtu = next((row["pmtu"] for row in rows if row.get("pmtu", 0.0) > _HEADERS), 0.0)
        return mtu - _HEADERS if mtu else measurement.PAYLOAD_BYTES

    def _find_ends(self, key: tuple[int, bool]) -> tuple[str, str] | None:
        one = self.connected.get(key[0])
        if one is None:
            return None
        here = f"{one.get('local_host')}:{one.get('local_port')}"
        there = f"{one.get('remote_host')}:{one.get('remote_port')}"
        return (here, there) if key[1] else (there, here)

    def make_measurement(self, flows: list[ImportedFlow]) -> Measurement:
        """Return the whole test."""
        gaps = [gap for flow in flows for gap in np.diff(flow.series["time_s"].to_numpy(), prepend=0.0).tolist()]
        step = float(np.median(gaps)) if gaps else 1.0
        began = read_number(self._get_table(self.start, "timestamp").get("timesecs"))
        source = {"format": "iperf3", "version": str(self.start.get("version", "")).strip()[:80]}
        if math.isfinite(began) and 0 <= began < 1e11:
            source["started"] = datetime.fromtimestamp(began, UTC).isoformat()
        for key in ("host",):
            if isinstance(host := self._get_table(self.start, "connecting_to").get(key), str):
                source[key] = host[:80]
        if any(flow.kind == "flows" and flow.is_given for flow in flows):
            self.notes.insert(
                0, "the series are bytes given to the socket, and the goodput of a flow is what the receiver got"
            )
        return Measurement(
            flows,
            max(flow.end_s for flow in flows),
            max(step, 1e-3),
            title=f"iperf3, {format_count(len(flows), 'stream')}",
            source={key: text for key, text in source.items() if text},
            notes=self.notes,
        )
