"""Twenty unlike runs, and what happens in each of them as raw events: read from qlog, by nothing that explains them."""

import itertools
import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.qlog import write


def _flow(cc: Any, base_rtt: str = "20ms", **more: Any) -> dict[str, Any]:
    return {"cc": cc, "base_rtt": base_rtt, **more}


def _table(
    aqm: Any, *flows: dict[str, Any], duration: str = "12s", rate: str = "10Mbit", **more: Any
) -> dict[str, Any]:
    bottleneck = {"rate": rate, "aqm": aqm} | more.pop("bottleneck", {})
    own = {"duration": duration, "bottleneck": bottleneck, "hosts": {"ecn": True}, "flows": list(flows)}
    return own | more


_NO_ECN: dict[str, Any] = {"hosts": {"ecn": False}}
RUNS: dict[str, dict[str, Any]] = {
    "cubic-codel": _table("codel", _flow("cubic", "40ms")),
    "reno-pfifo": _table({"name": "pfifo", "limit": 60}, _flow("reno", "20ms"), **_NO_ECN),
    "cubic-bbr1-pfifo": _table(
        {"name": "pfifo", "limit": 100}, _flow("cubic", "40ms"), _flow("bbr1", "40ms", start="1s"), duration="24s"
    ),
    "cubic-bbr3-codel": _table(
        "codel", _flow("cubic", "40ms"), _flow("bbr3", start="2s"), duration="20s", rate="20Mbit"
    ),
    "bbr3-alone-deep": _table({"name": "pfifo", "limit": 400}, _flow("bbr3", "30ms", start="500ms"), duration="30s"),
    "dctcp-step": _table({"name": "step", "threshold": "1ms"}, _flow("dctcp", "10ms"), _flow("dctcp", "10ms")),
    "prague-cubic-dualpi2": _table("dualpi2", _flow("prague"), _flow("cubic", start="500ms"), rate="20Mbit"),
    "two-fq-codel": _table("fq_codel", _flow("cubic"), _flow("reno", "80ms")),
    "reno-pie": _table("pie", _flow("reno"), _flow("cubic", start="3s", stop="8s"), **_NO_ECN),
    "pi2-marks": _table("pi2", _flow("cubic", ecn=True), _flow("prague")),
    "cake": _table("cake", _flow("cubic", "30ms"), _flow("bbr3", "10ms")),
    "random-loss": _table("pfifo", _flow("cubic", "40ms", loss=0.005), **_NO_ECN),
    "burst-loss": _table(
        "pfifo", _flow("reno", "40ms", path=[{"name": "burst_loss", "p": 0.002, "r": 0.2}]), **_NO_ECN
    ),
    "rate-steps": _table(
        "codel",
        _flow("cubic", "40ms"),
        _flow("bbr3", "40ms"),
        bottleneck={"rate_changes": [{"at": "5s", "rate": "2Mbit"}, {"at": "9s", "rate": "20Mbit"}]},
        duration="14s",
    ),
    "rtt-steps": _table("codel", _flow("cubic"), bottleneck={"link": "leo"}, duration="32s"),
    "outages": _table(
        {"name": "pfifo", "limit": 200}, _flow("cubic", "40ms"), bottleneck={"link": {"name": "onoff"}}, duration="20s"
    ),
    "reordering": _table(
        {"name": "pfifo", "limit": 100},
        _flow("reno", "20ms", path=[{"name": "reorder", "probability": 0.01, "delay": "15ms"}]),
        **_NO_ECN,
    ),
    "two-hops": _table(
        "codel",
        _flow("cubic", "40ms", route=["bottleneck", "second"]),
        _flow("reno", "20ms", route=["second"]),
        hop=[{"name": "second", "rate": "8Mbit", "aqm": {"name": "pfifo", "limit": 80}}],
    ),
    "udp-and-short": _table(
        "pie",
        _flow("cubic"),
        udp=[{"rate": "2Mbit", "start": "3s", "stop": "9s"}],
        web=[{"cc": "cubic", "base_rtt": "20ms", "arrivals": "20/s"}],
    ),
    "app-limited": _table(
        "fq_codel",
        _flow("cubic", app_rate="2Mbit"),
        _flow("reno", size="3MB", start="1s"),
        _flow("bbr3", app_pause="4s", app_resume="7s"),
    ),
    "timeouts": _table({"name": "pfifo", "limit": 4}, _flow("reno", "10ms", count=4), rate="2Mbit", **_NO_ECN),
    "both-ways": _table(
        {"name": "codel", "ecn": True},
        _flow("cubic"),
        _flow("reno", direction="up"),
        _flow("bbr1"),
        reverse={"rate": "2Mbit", "aqm": {"name": "pfifo", "limit": 40}},
    ),
    "bbrs-codel": _table(
        {"name": "codel", "ecn": True},
        _flow({"name": "bbr3", "ecn": True, "probe_rtt_interval": "2s"}, "4ms"),
        _flow({"name": "bbr2", "probe_rtt_interval": "2s"}, app_pause="4s", app_resume="7s"),
    ),
}


def cell(name: str) -> Cell:
    """Return one of the runs."""
    return parse(RUNS[name], f"{name}.toml").make_cell(0)


@dataclass
class Step:
    """A value that holds from a time on."""

    times: list[float] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def set(self, time: float, value: Any) -> None:
        self.times.append(time)
        self.values.append(value)

    def at(self, time: float) -> Any:
        """Return the value at a time; None before the first."""
        place = bisect_right(self.times, time) - 1
        return self.values[place] if place >= 0 else None

    def before(self, time: float) -> Any:
        """Return the value right before a time."""
        return self.at(time - 1e-7)

    def within(self, start: float, end: float) -> list[Any]:
        """Return the values that hold in a time."""
        first, last = max(bisect_right(self.times, start) - 1, 0), bisect_right(self.times, end)
        return self.values[first:last]


@dataclass
class Sender:
    """What the qlog of one sender has."""

    calls: list[float] = field(default_factory=list)
    """When something happened at all."""
    sent: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    exits: list[tuple[float, str]] = field(default_factory=list)
    state: Step = field(default_factory=Step)
    recovery: Step = field(default_factory=Step)
    metrics: dict[str, Step] = field(default_factory=lambda: defaultdict(Step))
    acked: Step = field(default_factory=Step)
    """Payload that is acknowledged cumulatively, bytes."""

    @property
    def mss(self) -> int:
        """Payload of a full segment, bytes: options of the header take some of it."""
        return max(int(data["raw"].get("payload_length", 0)) for _, data in self.sent)

    def mbit(self, start: float, end: float) -> float:
        """Return the goodput of a time."""
        return ((self.acked.at(end) or 0) - (self.acked.at(start) or 0)) * 8e-6 / (end - start)

    def entries(self) -> list[tuple[float, str]]:
        """Return when loss recovery, CWR or the repair after a timeout began, and which."""
        found, last = [], "open"
        for time, state in zip(self.recovery.times, self.recovery.values, strict=True):
            if state != last and state in ("recovery", "cwr", "loss"):
                found.append((time, state))
            last = state
        return found

    def spans(self, state: str) -> list[tuple[float, float | None]]:
        """Return the times in a state of the control."""
        changes = [(t, s) for t, s in zip(self.state.times, self.state.values, strict=True)]
        changes = [one for n, one in enumerate(changes) if n == 0 or changes[n - 1][1] != one[1]]
        ends = [time for time, _ in changes[1:]] + [None]
        return [(time, end) for (time, name), end in zip(changes, ends, strict=True) if name == state]


@dataclass
class Queue:
    """What the qlog of the network has of one hop: only packets of `[[flows]]`."""

    waits: list[tuple[float, float, int]] = field(default_factory=list)
    """When a packet left the queue, s, how long it had been there, ms, and its length."""
    drops: list[tuple[float, str, str]] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)
    packets: Step = field(default_factory=Step)
    by_flow: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Drops of data."""
    waits_of: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    marks_of: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Packets that became CE."""


@dataclass
class Raw:
    """All of it."""

    senders: dict[int, Sender]
    queues: dict[str, Queue]


def raw(cell_: Cell, folder: Path) -> Raw:
    """Run it again, with qlog instead of a trace, and read that."""
    written = write.write(cell_, folder)
    senders: dict[int, Sender] = {}
    queues: dict[str, Queue] = defaultdict(Queue)
    for path in written.files:
        events = _events(path)
        if path.stem == "network":
            _network(events, queues, cell_.duration / 1e9)
        else:
            senders[int(path.stem.removeprefix("flow-"))] = _sender(events)
    return Raw(senders, dict(queues))


def _events(path: Path) -> list[dict[str, Any]]:
    texts = path.read_text().removeprefix("\x1e").split("\n\x1e")
    return [json.loads(text) for text in itertools.islice(texts, 1, None)]


def _sender(events: list[dict[str, Any]]) -> Sender:
    found = Sender()
    packets: dict[int, tuple[int, int]] = {}  # by number: segment and payload
    payload: dict[int, int] = {}
    acked: set[int] = set()
    first = total = 0
    for event in events:
        time, data = event["time"] / 1e3, event["data"]
        found.calls.append(time)
        match event["name"].split(":")[1]:
            case "packet_sent":
                found.sent.append((time, data))
                if "segment" in data:
                    packets[data["header"]["packet_number"]] = (data["segment"], data["raw"]["payload_length"])
                    payload[data["segment"]] = data["raw"]["payload_length"]
            case "packet_received" if data["header"]["packet_type"] == "1RTT":
                for one in data["frames"][0].get("acked_ranges", []):
                    acked |= {packets[n][0] for n in range(one[0], one[-1] + 1) if n in packets}
                before = first
                while first in acked:
                    total += payload[first]
                    first += 1
                if first > before:
                    found.acked.set(time, total)
            case "packet_lost":
                found.lost.append(time)
            case "congestion_state_updated":
                found.state.set(time, data["new"])
                found.recovery.set(time, data["recovery_state"])
                if "trigger" in data:
                    found.exits.append((time, data["trigger"]))
            case "recovery_metrics_updated":
                for name, value in data.items():
                    found.metrics[name].set(time, value)
    return found


def _network(events: list[dict[str, Any]], queues: dict[str, Queue], end: float) -> None:
    for event in events:
        time, data = event["time"] / 1e3, event["data"]
        if time > end:  # clocks of senders are behind that of the queue
            continue
        queue = queues[data["hop"]]
        match event["name"]:
            case "dumbbell:packet_dequeued":
                queue.waits.append((time, data["sojourn"], data["length"]))
                queue.waits_of[data["flow"]].append(data["sojourn"])
            case "dumbbell:packet_dropped":
                queue.drops.append((time, data["reason"], data["place"]))
                if data["reason"] in ("overflow", "aqm", "filter"):
                    queue.by_flow[data["flow"]] += "acknowledgement" not in data
            case "dumbbell:packet_marked":
                queue.marks.append((time, data["mark"]))
                queue.marks_of[data["flow"]] += data["mark"] == "ce"
        queue.packets.set(time, data["queue_packets"])
