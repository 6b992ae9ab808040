"""The JSON of iperf3: `iperf3 --json` and `--json-stream`, of client or server."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dumbbell.errors import Nothing, Unreadable, shown
from dumbbell.exchange import measured, setup
from dumbbell.exchange.measured import Fact, Flow, Measured

ALLOWED = "what iperf3 --json writes"
_ALIGNED = 0.1  # of an interval
_HEADERS = 52  # IPv4, TCP and timestamps: what an MTU has more than a segment


def is_iperf3(value: Any) -> bool:
    """Whether a JSON value looks like iperf3's."""
    if not isinstance(value, dict):
        return False
    return {"start", "intervals"} <= value.keys() or {"event", "data"} == value.keys()


def of_lines(text: str) -> dict[str, Any] | None:
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


def of_document(path: Path, value: dict[str, Any]) -> Measured:
    """Return what a document of iperf3 says. Raises InputError."""
    file = _File(path, value)
    flows = file.flows()
    if not flows:
        said = value.get("error")
        found = f"the test failed: {str(said)[:80]}" if said else "no interval of any stream"
        raise Nothing(str(path), "", " ".join(found.split()), "the JSON of a test that ran")
    return file.measured(flows)


class _File:
    def __init__(self, path: Path, value: dict[str, Any]) -> None:
        self.path = path
        self.start, self.end = self._table(value, "start"), self._table(value, "end")
        self.test = self._table(self.start, "test_start")
        self.intervals = self._list(value, "intervals")

    def _table(self, of: Any, key: str) -> dict[str, Any]:
        found = of.get(key, {}) if isinstance(of, dict) else {}
        if not isinstance(found, dict):
            raise Unreadable(str(self.path), key, f"this is {shown(found, 40)}", ALLOWED)
        return found

    def _list(self, of: dict[str, Any], key: str) -> list[dict[str, Any]]:
        found = of.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise Unreadable(str(self.path), key, f"this is {shown(found, 40)}", ALLOWED)
        return found

    def flows(self) -> list[Flow]:
        """Return the streams, each as a flow."""
        rows: dict[tuple[int, bool], list[dict[str, float]]] = {}
        for interval in self.intervals:
            for stream in self._list(interval, "streams"):
                if stream.get("omitted") is True or not isinstance(stream.get("socket"), int):
                    continue
                row = {key: _number(one) for key, one in stream.items()}
                row |= {key: _number(one) for key, one in self._table(stream, "udp").items()}
                if math.isfinite(row.get("end", math.nan)) and row.get("seconds", 0.0) > 0:
                    sends = stream.get("sender", not self.test.get("reverse"))
                    rows.setdefault((stream["socket"], bool(sends)), []).append(row)
        ends = {
            (one["socket"], bool(side.get("sender", True))): (side, self._table(stream, "receiver"))
            for stream in self._list(self.end, "streams")
            for side in [self._table(stream, "sender"), self._table(stream, "udp")]
            if isinstance((one := side).get("socket"), int)
        }
        self._align(list(rows.values()))
        return [self._flow(key, of_stream, *ends.get(key, ({}, {}))) for key, of_stream in rows.items()]

    def _align(self, streams: list[list[dict[str, float]]]) -> None:
        """Let intervals of all streams that ended together, but for some microseconds, end at one time."""
        spans = [row["seconds"] for of_stream in streams for row in of_stream]
        step = float(np.median(spans)) if spans else 1.0
        step = float(f"{step:.2g}")
        for row in (row for of_stream in streams for row in of_stream):
            whole = round(row["end"] / step) * step
            row["end"] = round(whole if abs(row["end"] - whole) < _ALIGNED * step else row["end"], 6)

    def _flow(
        self, key: tuple[int, bool], rows: list[dict[str, float]], sent: dict[str, Any], received: dict[str, Any]
    ) -> Flow:
        is_udp = self.test.get("protocol") == "UDP"
        ends = np.array([row["end"] for row in rows])
        spans = np.array([row["seconds"] for row in rows])

        def of(name: str, by: float = 1.0) -> measured.Floats:
            return np.array([row.get(name, math.nan) for row in rows]) * by

        columns = {"goodput_mbit": measured.column(of("bits_per_second", 1e-6))}
        start, end = float((ends - spans).min()), float(ends.max())
        figures: dict[str, float | int] = {}
        total = float(np.nansum(of("bytes")))
        if (got := _number(received.get("bits_per_second"))) > 0:
            figures["goodput_mbit"] = got * 1e-6
        elif end > start and not is_udp:
            figures["goodput_mbit"] = total * 8e-6 / (end - start)
        srtt = of("rtt", 1e-3)
        srtt[srtt <= 0] = np.nan
        if np.isfinite(srtt).any():
            columns["srtt_ms"] = measured.column(srtt)
            figures |= measured.of_smoothed(ends, srtt, end)
        window = of("snd_cwnd", 1 / self._segment(rows))
        window[window <= 0] = np.nan
        if np.isfinite(window).any():
            columns["cwnd"] = measured.column(window, whole=True)
            figures |= measured.of_window(ends, window, end)
        again = of("retransmits")
        if np.isfinite(again).any() and not is_udp:
            columns["retransmissions"] = measured.column(again, whole=True)
            said = _number(sent.get("retransmits"))
            figures["retransmissions"] = round(float(said if math.isfinite(said) else np.nansum(again)))
        rate = size = None
        if is_udp:
            figures |= self._of_udp(key, rows, sent, end - start)
            wanted, block = _number(self.test.get("target_bitrate")), _number(self.test.get("blksize"))
            if block > 0:
                size = Fact(f"{round(block) + 42}B", "the block size, with headers")
            if wanted > 0 and block > 0:
                rate = Fact(setup.rate(wanted * (block + 42) / block), "the target bit rate, as frames")
        up = key[1]
        cc = None
        if not is_udp:
            name = self.end.get("sender_tcp_congestion")
            cc = setup.control(name, "sender_tcp_congestion") if isinstance(name, str) and name else None
        series = (
            pl.DataFrame({"time_s": ends, **columns}).sort("time_s").unique("time_s", keep="last", maintain_order=True)
        )
        flow = Flow(
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
            ends=self._ends(key),
        )
        low = flow.rtt_min_ms
        if math.isfinite(low):
            flow.base_rtt = Fact(
                setup.milliseconds(low), "its smallest smoothed RTT; the path's may be less", known=False
            )
        return flow

    def _of_udp(
        self, key: tuple[int, bool], rows: list[dict[str, float]], sent: dict[str, Any], seconds: float
    ) -> dict[str, float | int]:
        """Return what a receiver of UDP counted: iperf3 tells it at the end, or in each interval of the receiver."""
        packets = _number(sent.get("packets"))
        lost, jitter = _number(sent.get("lost_packets")), _number(sent.get("jitter_ms"))
        found: dict[str, float | int] = {}
        if packets > 0 and lost >= 0:
            figure = _number(sent.get("bytes"))
            arrived = packets - lost
            if figure > 0 and seconds > 0:
                found["goodput_mbit"] = figure * arrived / packets * 8e-6 / seconds
            found["sent"] = round(packets)
        elif not key[1] and seconds > 0:
            found["goodput_mbit"] = sum(row.get("bytes", 0.0) for row in rows) * 8e-6 / seconds
        if math.isfinite(jitter):
            found["jitter_ms"] = jitter
        return found

    def _segment(self, rows: list[dict[str, float]]) -> float:
        """Return bytes of payload of a segment, in which windows are counted."""
        for name in ("tcp_mss", "tcp_mss_default"):
            if (size := _number(self.start.get(name))) > 0:
                return size
        mtu = next((row["pmtu"] for row in rows if row.get("pmtu", 0.0) > _HEADERS), 0.0)
        return mtu - _HEADERS if mtu else setup.PAYLOAD_BYTES

    def _ends(self, key: tuple[int, bool]) -> tuple[str, str] | None:
        for one in self._list(self.start, "connected"):
            if one.get("socket") == key[0]:
                here = f"{one.get('local_host')}:{one.get('local_port')}"
                there = f"{one.get('remote_host')}:{one.get('remote_port')}"
                return (here, there) if key[1] else (there, here)
        return None

    def measured(self, flows: list[Flow]) -> Measured:
        """Return the whole test."""
        gaps = [gap for flow in flows for gap in np.diff(flow.series["time_s"].to_numpy(), prepend=0.0).tolist()]
        step = float(np.median(gaps)) if gaps else 1.0
        began = _number(self._table(self.start, "timestamp").get("timesecs"))
        source = {"format": "iperf3", "version": str(self.start.get("version", "")).strip()[:80]}
        if math.isfinite(began) and 0 <= began < 1e11:
            source["started"] = datetime.fromtimestamp(began, UTC).isoformat()
        for key in ("host",):
            if isinstance(host := self._table(self.start, "connecting_to").get(key), str):
                source[key] = host[:80]
        notes = []
        if any(flow.kind == "flows" for flow in flows):
            notes.append("the series are bytes given to the socket, and the goodput of a flow is what the receiver got")
        return Measured(
            flows,
            max(flow.end_s for flow in flows),
            max(step, 1e-3),
            title=f"iperf3, {len(flows)} stream{'s' * (len(flows) > 1)}",
            source={key: text for key, text in source.items() if text},
            notes=notes,
            filled=50.0,  # what is given to a socket fills its buffer first
        )


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:
        return math.nan
