"""Runs of one flow of the control under test, and what they left.

They are deterministic: a first run says when a second is to be disturbed.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from dumbbell import _native
from dumbbell.evaluate.bbr.trace import PROBE_BW, Phase, Trace
from dumbbell.experiment import plugins, schema, units
from dumbbell.experiment.plugins import known, process
from dumbbell.qlog.fields import BY_COLUMN, FRAME, PAYLOAD

MOST_PACKETS = 8e6  # of a run
MOST_ROWS = 12_000  # of a trace, but for changes of state
_ROWS_IN_ROUND = 40
_BUFFER = "64GiB"  # the hosts' buffers never limit a flow
_NS = 1_000_000_000
_LEAST_RATE = 64_000  # bit/s, the draft's least
_MOST_WINDOW = 8000  # segments
APP_SHARE = 0.5  # of the link's rate, of applications that are the limit
# until the next probe: seconds, or rounds to coexist with Reno (section Time Scale for Probing)
PROBE_WAIT, PROBE_ROUNDS = (2.0, 3.0), 63


class NotApplicable(Exception):  # noqa: N818  not an error: it says why a case makes no sense here
    """A case makes no sense at a point or for a control; its text says why."""


class PluginFailed(Exception):  # noqa: N818  a finding about the control, and no error here
    """A control that is a plugin crashed, hung, or did what it must not; its text is one line."""


@dataclass(frozen=True)
class PathPoint:
    """A path: rate of the bottleneck in bit/s and round-trip propagation in seconds."""

    rate: int
    rtt: float

    @property
    def packet_time(self) -> float:
        """Seconds that a full frame takes on the link."""
        return 8 * FRAME / self.rate

    @property
    def bdp(self) -> float:
        """Bandwidth-delay product, segments."""
        return self.rate * self.rtt / (8 * FRAME)

    @property
    def goodput(self) -> float:
        """Payload that the link carries, Mbit/s."""
        return self.rate * PAYLOAD / FRAME / 1e6

    @property
    def round(self) -> float:
        """About how long a round trip takes: with a BDP of few packets, that of the least window."""
        return max(self.rtt + self.packet_time, 4 * self.packet_time)

    @property
    def send_buffer(self) -> float:
        """About how long what the application has written takes to leave.

        The send buffer of a small window holds two buffers of 64 KB.
        """
        return 100 * self.packet_time + 3 * self.round

    @property
    def startup(self) -> float:
        """About how long STARTUP and DRAIN take.

        The window doubles from 10 segments in each round trip, and some rounds see no growth.
        """
        doublings = math.log2(max(self.bdp / 10, 1)) + 2
        return self.round * (doublings + 14)

    @property
    def late_acks(self) -> float:
        """By what share delayed acknowledgements may make a sample of the rate too large.

        If packets come more slowly than the delayed ACK's timer, 40 ms (Linux TCP_DELACK_MIN), an ACK is late by up to
        one packet, unlike the next. The least window has four packets, and the filter keeps the largest sample.
        """
        return 1 / 3 if self.packet_time > 0.04 else 0.0

    def compute_burst(self, trace: Trace, row: int) -> float:
        """Return the segments that a burst may add to what is in flight.

        A row is written after the control's answer was sent. A burst is what the pacing rate sends in 1 ms, from 2
        segments to 64 KB; up to 64 KB whatever the rate on paths shorter than about 5 ms (Linux tcp_tso_autosize). A
        pacing rate that is not known is taken for that of the link.
        """
        most = 65_536 / PAYLOAD
        known = float(trace["pacing_rate_mbit"][row])
        paced = known if np.isfinite(known) else self.goodput
        segments = float(np.clip(paced * 1e6 / 8 * 1e-3 / PAYLOAD, 2, most))
        if self.rtt < 0.005:
            segments = most
        # Linux takes a burst that is on its way out of what is in flight: at a gain below one it takes longer to leave
        gain = trace["pacing_gain"][max(row - 1, 0)]
        return 2 * segments / (float(np.clip(gain, 0.1, 1)) if np.isfinite(gain) else 1.0)

    def set_rate(self, rate: float) -> PathPoint:
        """Return the path with another rate."""
        return PathPoint(round(rate), self.rtt)

    def __str__(self) -> str:
        return f"{units.show('rate', self.rate)}, {units.show('time', round(self.rtt * _NS))}"


@dataclass
class Setup:
    """The facts that a judge gets of a run and its trace: the path, and when it or the application changed, by name."""

    point: PathPoint
    times: dict[str, float] = field(default_factory=dict)
    # of what changes: a rate after its change, bit/s; the length of a batch, s
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseRun:
    """A trace and what the judge knows of it."""

    trace: Trace
    setup: Setup


@cache
def _make_template() -> str:
    """Return a run of one flow in canonical form, which every run of the suite begins with."""
    hosts = {"ecn": True, "send_buffer": _BUFFER, "receive_buffer": _BUFFER}
    table = {"duration": "1s", "bottleneck": {"aqm": "pfifo"}, "hosts": hosts, "flows": [{"cc": "reno"}]}
    return json.dumps(schema.resolve(table, 1))


@cache
def parse_control(text: str) -> str:
    """Return a congestion control in canonical form, as JSON; `text` is that of an experiment file, as JSON."""
    cc = json.loads(text)
    if "name" in cc and known.is_digest(str(cc.get("plugin"))):
        return text  # a plugin that is settled
    table = {"bottleneck": {"aqm": "pfifo"}, "flows": [{"cc": cc}]}
    return json.dumps(schema.resolve(table, 1)["flows"][0]["cc"])


def to_nanoseconds(seconds: float) -> int:
    """Return seconds in whole nanoseconds, at least 0."""
    return max(round(seconds * _NS), 0)


@dataclass
class PathChange:
    """How a run differs from that of a bulk flow over a deep buffer.

    Times of rates and stages are seconds at the bottleneck, those of the flow seconds of the sender's clock.
    """

    rates: list[tuple[float, float]] = field(default_factory=list)  # time and rate, bit/s
    path: list[dict[str, Any]] = field(default_factory=list)  # stages of the data
    acks: list[dict[str, Any]] = field(default_factory=list)  # stages of the acknowledgements
    flow: dict[str, Any] = field(default_factory=dict)  # other keys of the flow
    hosts: dict[str, Any] = field(default_factory=dict)  # other switches of the hosts
    buffer: float | None = None  # packets; by default more than any of the controls fills

    def merge(self, other: PathChange) -> PathChange:
        """Return both changes together."""
        return PathChange(
            [*self.rates, *other.rates],
            [*self.path, *other.path],
            [*self.acks, *other.acks],
            self.flow | other.flow,
            self.hosts | other.hosts,
            other.buffer if other.buffer is not None else self.buffer,
        )


BULK = PathChange()


class CaseLab:
    """Runs one control over one path, in the set-ups that cases share; equal runs are made once."""

    def __init__(self, point: PathPoint, cc: dict[str, Any]) -> None:
        self.point, self.cc = point, cc
        self._runs: dict[str, tuple[float, Trace]] = {}

    def run(self, duration: float, change: PathChange = BULK, point: PathPoint | None = None) -> Trace:
        """Return the trace of a run of this many seconds; a longer one of the same kind is cut."""
        point = point or self.point
        config = json.loads(_make_template())
        fastest = max([point.rate, *(rate for _, rate in change.rates)])
        packets = fastest * duration / (8 * FRAME)
        if packets > MOST_PACKETS:
            raise NotApplicable(
                f"too much for one run: {duration:.3g} s at this rate are {packets / 1e6:.0f} million packets, left "
                f"out above {MOST_PACKETS / 1e6:.0f} million"
            )
        buffer = change.buffer if change.buffer is not None else 100 + 4 * max(point.bdp, point.set_rate(fastest).bdp)
        config["bottleneck"] |= {
            "rate": point.rate,
            "rate_changes": [{"at": to_nanoseconds(at), "rate": round(rate)} for at, rate in change.rates],
        }
        config["bottleneck"]["aqm"]["limit"] = max(round(buffer), 4)
        config["hosts"] |= change.hosts
        flow = config["flows"][0]
        flow |= {
            "cc": json.loads(parse_control(json.dumps(self.cc))),
            "base_rtt": to_nanoseconds(point.rtt),
        } | change.flow
        flow["path"], flow["ack_path"] = copy.deepcopy(change.path), copy.deepcopy(change.acks)
        kind = json.dumps(config, sort_keys=True)
        known = self._runs.get(kind)
        if known is None or known[0] < duration:
            config["duration"] = to_nanoseconds(duration)
            rows = max(to_nanoseconds(point.round / _ROWS_IN_ROUND), to_nanoseconds(duration / MOST_ROWS))
            config["record"] |= {"trace": rows, "series": False}
            try:
                self._runs[kind] = known = (duration, run_traced(config))
            except ValueError as limit:  # such as a batch of more than a minute
                raise NotApplicable(f"the engine has no such path: {limit}") from None
        return known[1]

    def run_until(
        self,
        done: Callable[[Trace], bool],
        first: float,
        most: float,
        change: PathChange = BULK,
        point: PathPoint | None = None,
    ) -> Trace:
        """Return the trace of a run that is long enough, as `done` says.

        It takes `first` seconds, or twice as many and so on, up to `most`.
        """
        duration = first
        while True:
            trace = self.run(min(duration, most), change, point)
            if done(trace) or duration >= most:
                return trace
            duration *= 2

    def run_bulk(self, change: PathChange = BULK, *, more: bool = False) -> Trace:
        """Return a run of a bulk flow that has left DRAIN: with `more`, several phases ago."""

        def is_done(trace: Trace) -> bool:
            return len(trace.find_phases(PROBE_BW)) > (6 if more else 0)

        first = self.point.startup
        return self.run_until(is_done, first, (16 if more else 4) * first + 5, change)

    def find_start_of_probing(self) -> Phase:
        """Return the first phase of PROBE_BW of a bulk flow."""
        found = self.run_bulk().find_phase(PROBE_BW)
        if found is None:
            raise NotApplicable("the flow does not reach PROBE_BW")
        return found

    def to_link_time(self, time: float) -> float:
        """Return when what is sent at a time of the sender's clock gets to the bottleneck."""
        return time + self.point.rtt / 2

    def lose_packets(self, share: float, since: float, until: float | None = None) -> PathChange:
        """Return random loss of what is sent from a time until another."""
        return self._change_packets({"name": "loss", "probability": share}, since, until)

    def make_packets_late(self, delay: float, since: float, until: float | None = None) -> PathChange:
        """Return a delay, in seconds, of all that is sent from a time until another."""
        return self._change_packets(
            {"name": "reorder", "probability": 1.0, "delay": to_nanoseconds(delay)}, since, until
        )

    def _change_packets(self, stage: dict[str, Any], since: float, until: float | None) -> PathChange:
        begin, end = (None if at is None else to_nanoseconds(self.to_link_time(at)) for at in (since, until))
        return PathChange(path=[stage | {"from": begin, "to": end}])

    def limit_application(self, share: float = APP_SHARE, since: float = 0.0) -> PathChange:
        """Return an application that writes a share of what the link carries, from a time on.

        From the start on, the initial window is what it writes in a round trip, 8000 segments at the most: otherwise it
        would fall behind, and would not be the limit until it has caught up.
        """
        share = min(share, _MOST_WINDOW / max(self.point.bdp, 1)) if since == 0 else share
        rate = max(round(self.point.goodput * 1e6 * share), 1000)
        window = {} if since > 0 else {"initial_window": max(10, round(1.2 * share * self.point.bdp) + 10)}
        return PathChange(flow={"app_rate": rate, "app_rate_from": to_nanoseconds(since)}, hosts=window)

    def choose_batch_interval(self) -> float:
        """Return how long acknowledgements are held.

        It is a quarter of the round trip, or the time of 8 packets on the link.
        """
        return max(self.point.rtt / 4, 8 * self.point.packet_time)

    def batch_acks(self) -> PathChange:
        """Return a path on which acknowledgements come in batches."""
        return PathChange(
            acks=[{"name": "batch", "interval": round(self.choose_batch_interval() * 1e9), "frames": None}],
            buffer=200 + 8 * self.point.bdp,
        )

    def lengthen_path(self, since: float) -> PathChange:
        """Return a path that takes 2 % longer from a time on, or a packet, so that no RTT is as small as before."""
        return self.make_packets_late(max(0.02 * self.point.rtt, self.point.packet_time), since)

    def estimate_cycle(self) -> float:
        """Return about how long one cycle of PROBE_BW takes at the most."""
        return PROBE_WAIT[1] + 40 * self.point.round

    def probe(self, change: PathChange = BULK, after: float = 0.0, number: int = 1) -> tuple[Trace, Phase]:
        """Return a run and its `number`th PROBE_UP that begins after a time and is over, with the phase after it."""

        def is_done(trace: Trace) -> bool:
            found = trace.find_phases("probe_up", after)
            return len(found) >= number and len(trace.phases) > trace.phases.index(found[number - 1]) + 2

        point = self.point
        short = point.startup + (min(PROBE_ROUNDS, point.bdp + 4) + 25) * point.round
        most = point.startup + after + number * self.estimate_cycle()
        trace = self.run_until(is_done, min(after + number * short, most), 2 * most, change)
        found = trace.find_phases("probe_up", after)
        if len(found) < number:
            cut = len(trace.find_phases("probe_up", after, cut=True)) - len(found)
            why = f"; PROBE_RTT, which is due repeatedly, ends {cut} of them" if cut else ""
            raise NotApplicable(f"fewer than {number} complete PROBE_UP in {trace.time[-1]:.3g} s{why}")
        return trace, found[number - 1]

    def require_inflight(self) -> None:
        """Raise NotApplicable where nothing is in flight between two segments of a slow application."""
        if APP_SHARE * self.point.bdp < 3:
            raise NotApplicable(
                "nothing is in flight between two segments of the application: each one restarts from idleness"
            )

    def compute_room_for_bursts(self) -> float:
        """Return the packets of two bursts, which on short paths are 64 KB at any rate (Linux tcp_tso_autosize)."""
        return 2 * 65_536 / PAYLOAD if self.point.rtt < 0.005 else 0.0

    def find_tenth(self) -> PathPoint:
        """Return the path with a tenth of its rate."""
        slow = self.point.set_rate(self.point.rate / 10)
        if slow.rate < _LEAST_RATE:
            raise NotApplicable("a tenth of the rate is below 64 kbit/s")
        return slow


def run_traced(config: dict[str, Any]) -> Trace:
    """Return what the first flow of a run in canonical form traced."""
    text, loaded = json.dumps(config), plugins.list_copies(config)
    if loaded:
        child = process.PluginChild("run", site=any(path.endswith(".py") for path in loaded.values()))
        try:
            result = _native.Result.from_bytes(child.answer({"config": text, "plugins": loaded}))
        except RuntimeError as error:
            raise PluginFailed(str(error)) from None
    else:
        result = _native.run(text, _native.Cancel())
    trace = pl.DataFrame(dict(_native.gather([result]))["trace"])
    columns = {one.name: one.to_numpy().astype(str) if one.dtype == pl.String else one.to_numpy() for one in trace}
    return Trace({name: column for name, column in columns.items() if not (loaded and _is_untold(name, column))})


def _is_untold(name: str, column: np.ndarray[Any, Any]) -> bool:
    """Whether a plugin tells nothing in a column of its model: there is no value in it, or none but 0."""
    return name in BY_COLUMN and BY_COLUMN[name].is_of_model and not column[np.isfinite(column)].any()
