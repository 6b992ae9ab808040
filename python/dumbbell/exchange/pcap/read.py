"""A capture as flows: TCP, UDP and pings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from dumbbell.errors import Nothing
from dumbbell.exchange import infer, measurement, setup
from dumbbell.exchange.measurement import Floats, ImportedFlow, Measurement, SetupFact, assume_fact
from dumbbell.exchange.pcap import packets as headers
from dumbbell.exchange.pcap import pings, records
from dumbbell.exchange.pcap.connection import TcpConnection, Waits, read_connection
from dumbbell.exchange.pcap.packets import CE, TCP, UDP, Packets
from dumbbell.exchange.pcap.records import Int64s
from dumbbell.words import format_count

MOST_FLOWS = 100  # that are listed
_LEAST_SHARE = 0.01  # of the payload of the largest flow, of one that is listed
_TRAIN = 64  # frames: what a queue sends in one go, and more than a card or a burst of a shaper hands over at once
_LONG_S = 600.0  # captures from which on a point per second is enough
_STEPS_S = (0.2, 1.0)


def read(path: Path, raw: bytes, interval_s: float | None = None) -> Measurement:
    """Return what a capture says. Raises InputError."""
    found = headers.read(records.read(path, raw))
    if not len(found):
        why = f" ({'; '.join(found.notes)})" * bool(found.notes)
        raise Nothing(f"found no packet of TCP, UDP or ping{why}", "a capture of IP", file=path)
    return _Capture(path, found, interval_s).make_measurement()


class _Capture:
    def __init__(self, path: Path, found: Packets, interval_s: float | None) -> None:
        self.path, self.packets = path, found
        self.start_ns, end_ns = int(found.time_ns[0]), int(found.time_ns[-1])
        self.length_s = max((end_ns - self.start_ns) / 1e9, 1e-3)
        measurement.check_length(path, self.length_s)
        self.step = measurement.choose_interval(self.length_s, interval_s or _STEPS_S[self.length_s > _LONG_S])
        self.points = measurement.make_grid(
            max(self.length_s, self.step), min(self.step, max(self.length_s, self.step))
        )
        self.widths_s = np.diff(self.points, prepend=0.0)  # the last interval lasts until the capture ends
        self.widths_s[-1] += max(self.length_s - float(self.points[-1]), 0.0)
        self.notes = list(dict.fromkeys(found.notes))
        self.sides: set[str | None] = set()
        self.connections: dict[int, TcpConnection] = {}
        self.shortest_ms: dict[frozenset[str], float] = {}
        self.ecn: dict[str, bool | None] = {}
        self.marking: set[str] = set()

    def make_measurement(self) -> Measurement:
        flows: list[ImportedFlow] = []
        first: dict[int, int] = {}
        hosts: list[tuple[str, str]] = []
        total, most = max(1, int(self.packets.payload.sum())), 1
        groups = sorted(self._group_packets(), key=lambda group: -int(self.packets.payload[group].sum()))
        left, left_bytes = 0, 0
        for group in groups:
            payload = int(self.packets.payload[group].sum())
            is_small = payload < _LEAST_SHARE * most and self._ping_pairs(group) is None
            if flows and (len(flows) >= MOST_FLOWS or is_small):
                left, left_bytes = left + 1, left_bytes + payload
                continue
            if (flow := self._read_flow(group)) is not None:
                most = max(most, payload)
                flows.append(flow)
                first[id(flow)] = int(group[0])
                hosts.append((self._find_host(flow.ends, 0), self._find_host(flow.ends, 1)))
        if left:
            share = f"{100 * left_bytes / total:.2g} %"
            self.notes.append(f"left out: {format_count(left, 'flow')} with the least payload, {share} of it")
        _set_directions(flows, hosts)
        flows += self._read_icmp_flows()
        self._count_waiting(flows)
        if not flows:
            raise Nothing(
                "found no flow with data", "a capture of TCP or UDP with payload, or of pings", file=self.path
            )
        starts = sorted(flow.start_s for flow in flows)
        for flow in flows:  # what began behind the queue of others
            late = flow.start_s > starts[0] + self.step and flow.kind == "flows"
            if late and flow.base_rtt is not None and flow.base_rtt.known:
                why = "its smallest RTT; others were sending when it began, so the path's may be less"
                flow.base_rtt = assume_fact(flow.base_rtt.text, why)
        flows.sort(key=lambda flow: (flow.start_s, first.get(id(flow), len(self.packets))))
        result = Measurement(
            flows,
            self.length_s,
            self.step,
            title=f"capture of {format_count(len(flows), 'flow')}",
            source={
                "format": "capture",
                "started": datetime.fromtimestamp(min(self.start_ns / 1e9, 4e9), UTC).isoformat(),
            }
            | self.packets.about,
            notes=self.notes,
        )
        self._describe(result)
        result.trains_mbit = self._measure_trains(flows)
        return result

    def _count_waiting(self, flows: list[ImportedFlow]) -> None:
        """Add how long data waited, and for how many packets: those that came by in that time, data and ACKs alike.

        Near the sender they went into the queue while a packet waited; near the receiver they came out ahead of it.
        """
        for way in ("down", "up"):
            times, counts, waits = [np.zeros(0)], [np.zeros(0)], list[tuple[ImportedFlow, Waits]]()
            for flow in flows:
                if (one := self.connections.get(id(flow))) is None:
                    continue
                is_data = flow.direction == way
                times.append(one.data_at if is_data else one.back_at)
                counts.append(one.data_packets if is_data else np.ones(len(one.back_at)))
                if is_data and one.waits is not None:
                    waits.append((flow, one.waits))
            at, number = np.concatenate(times), np.concatenate(counts)
            order = np.argsort(at, kind="stable")
            at, total = at[order], np.concatenate(([0.0], np.cumsum(number[order])))
            for flow, waited in waits:
                first = np.searchsorted(at, waited.at - waited.ms / 1e3, side="right")
                ahead = total[np.searchsorted(at, waited.at, side="right")] - total[first]
                flow.queue_ms, packets = (float(np.percentile(of, 99)) for of in (waited.ms, ahead))
                flow.queue_packets, flow.queue_median_ms = round(packets), float(np.median(waited.ms))

    def _measure_trains(self, flows: list[ImportedFlow]) -> dict[str, float]:
        """Return for each direction the rate of its fastest trains (P95), Mbit/s, where frames come behind the link."""
        found = {}
        for way in ("down", "up"):
            seen = [
                self.connections[id(flow)] for flow in flows if flow.direction == way and id(flow) in self.connections
            ]
            seen = [one for one in seen if one.side == "receiver"]
            at = np.concatenate([np.zeros(0), *(one.data_at for one in seen)])
            order = np.argsort(at, kind="stable")
            total = np.cumsum(np.concatenate([np.zeros(0), *(one.data_frames for one in seen)])[order])
            if len(at) > 2 * _TRAIN:
                took = at[order][_TRAIN:] - at[order][:-_TRAIN]
                rates = (total[_TRAIN:] - total[:-_TRAIN])[took > 0] * 8e-6 / took[took > 0]
                found[way] = float(np.percentile(rates, 95)) if len(rates) else 0.0
        return found

    def _describe(self, result: Measurement) -> None:
        """Add what all connections together say: ECN, where the capture was taken, what passed it."""
        known = [agreed for agreed in self.ecn.values() if agreed is not None]
        if known:
            most = 2 * sum(known) >= len(known)
            others = [flow for flow in result.flows if self.ecn.get(flow.name, most) not in (most, None)]
            for flow in others:
                flow.ecn = SetupFact(str(not most).lower(), "its handshake, or its packets")
            said = f"the handshakes, or ECT in packets: {len(known) - len(others)} of {len(known)} flows"
            result.setup["hosts.ecn"] = SetupFact(
                str(most).lower(), said if others else "the handshakes, or ECT in packets"
            )
        for way in {flow.direction for flow in result.flows if flow.name in self.marking}:
            of_way = [flow for flow in result.flows if flow.direction == way and flow.cc is not None]
            queue = '{ name = "dualpi2" }' if of_way else '{ name = "codel", ecn = true }'
            key = {"down": "bottleneck.aqm", "up": "reverse.aqm"}[way]
            result.setup[key] = assume_fact(queue, "packets were marked; the file does not say by which queue")
        sides = {side for side in self.sides if side}
        if len(sides) == 1 and None not in self.sides:
            result.source["taken"] = {"sender": "near the sender", "receiver": "near the receiver"}.get(
                side := next(iter(sides)), "between the ends"
            )
            if side == "sender":
                result.notes.append("taken near the sender: what reached the receiver shows by its ACKs alone")
        downs = [flow for flow in result.flows if flow.direction == "down" and flow.kind != "ping"]
        if downs and sides and "sender" not in self.sides and None not in self.sides:
            frames = np.zeros(len(self.points))
            for flow in downs:
                frames += np.nan_to_num(self._frames[id(flow)])
            mbit = frames * 8e-6 / self.widths_s
            result.queue = pl.DataFrame({"time_s": self.points, "throughput_mbit": mbit})
            result.runs["throughput_mbit"] = float(frames.sum() * 8e-6 / self.length_s)

    _frames: dict[int, Floats]

    def _group_packets(self) -> Iterator[Int64s]:
        """Yield the packets of each connection or flow of UDP, in order of time."""
        self._frames = {}
        low = np.minimum(self.packets.source, self.packets.target)
        high = np.maximum(self.packets.source, self.packets.target)
        code = (low * (len(self.packets.ends) + 1) + high) * 2 + (self.packets.protocol == UDP)
        order = np.argsort(code, kind="stable")
        keep = np.isin(self.packets.protocol[order], (TCP, UDP))
        order = order[keep]
        cuts = np.flatnonzero(np.diff(code[order])) + 1
        for group in np.split(order, cuts):
            if len(group):
                yield from self._split_connections(group)

    def _split_connections(self, group: Int64s) -> Iterator[Int64s]:
        """Yield connections that one pair of ports had after each other: each begins with a SYN of another number."""
        flags = self.packets.flags[group]
        opens = np.flatnonzero((flags & headers.SYN > 0) & (flags & headers.ACK == 0))
        if self.packets.protocol[group[0]] != TCP or len(opens) < 2:
            yield group
            return
        numbers = self.packets.sequence[group[opens]]
        fresh = opens[np.concatenate(([True], np.diff(numbers) != 0))]
        yield from (one for one in np.split(group, fresh[fresh > 0]) if len(one))

    def _find_host(self, ends: tuple[str, str] | None, which: int) -> str:
        return ends[which].rpartition(":")[0] if ends else ""

    def _read_flow(self, group: Int64s) -> ImportedFlow | None:
        if self.packets.protocol[group[0]] == UDP:
            return self._read_udp(group)
        one = read_connection(self.packets, group, self.start_ns)
        if one is None:
            return None
        self.sides.add(one.side)
        self.notes += [note for note in one.notes if note not in self.notes]
        return self._make_tcp_flow(one)

    def _make_tcp_flow(self, one: TcpConnection) -> ImportedFlow:
        end = one.end_s if one.is_over else self.length_s
        last = min(end, float(one.got_at[-1])) if one.is_over and len(one.got_at) else end
        seconds = max(last - one.start_s, 1e-9)
        lives = (self.points > one.start_s) & (self.points - self.step < end)
        got = np.nan_to_num(measurement.hold_values(one.got_at, one.got_bytes, self.points))
        goodput = np.where(lives, np.diff(got, prepend=0.0) * 8e-6 / self.step, np.nan)
        columns = {"goodput_mbit": measurement.make_column(goodput)}
        figures: dict[str, float | int] = {}
        if one.has_acks:
            figures["goodput_mbit"] = float(one.got_bytes[-1]) * 8e-6 / seconds
        elif (span := float(one.data_at[-1] - one.data_at[0])) > 0:  # the first packet took its time before
            figures["goodput_mbit"] = float(one.got_bytes[-1] - one.got_bytes[0]) * 8e-6 / span
        else:
            self.notes.append(f"{self.packets.ends[one.source]}: no ACK, and all data at one time: no rate shows")
        if len(one.rtts_ms):
            srtt = measurement.smooth_rtts(one.rtts_ms)
            columns["srtt_ms"] = measurement.make_column(
                np.where(lives, measurement.hold_values(one.rtts_at, srtt, self.points), np.nan)
            )
            figures |= measurement.summarise_samples(one.rtts_ms) | measurement.summarise_smoothed(
                one.rtts_at, srtt, min(end, self.length_s)
            )
        if one.shortest_ms is not None:
            figures["rtt_min_ms"] = one.shortest_ms
            between = frozenset(_strip_port(self.packets.ends[end]) for end in (one.source, one.target))
            self.shortest_ms[between] = min(one.shortest_ms, self.shortest_ms.get(between, np.inf))
        figures["retransmissions"] = len(one.again_at)
        again = self._count_in_intervals(one.again_at, np.ones(len(one.again_at)))
        columns["retransmissions"] = measurement.make_column(np.where(lives, again, np.nan), whole=True)
        if one.side == "sender":
            figures["sent"] = one.sent
            if one.has_ecn:
                figures["ce_received" if one.is_accurate else "ecn_reductions"] = one.told
        elif one.side is not None:
            figures |= {
                "throughput_mbit": float(one.data_frames.sum()) * 8e-6 / seconds,
                "packets": one.sent,
                "ce_received": one.ce,
                "sce_received": one.ect1,
            }
            if one.side == "receiver":
                figures |= {"acks": one.acks, "duplicates": one.duplicates}
        ends = (self.packets.ends[one.source], self.packets.ends[one.target])
        flow = ImportedFlow(
            f"{ends[0]} > {ends[1]}",
            start_s=one.start_s,
            end_s=last if one.is_over else end,
            figures=figures,
            series=pl.DataFrame({"time_s": self.points, **columns}).filter(pl.Series(lives)),
            rtts_ms=one.rtts_ms if len(one.rtts_ms) else None,
            ends=ends,
            is_over=one.is_over,
        )
        if one.shortest_ms is not None:
            if one.is_whole:
                flow.base_rtt = infer.infer_base_rtt(one.shortest_ms, "its smallest RTT")
            else:
                why = "its smallest RTT; no handshake shows that of an empty queue"
                flow.base_rtt = assume_fact(setup.spell_milliseconds(one.shortest_ms), why)
        marked = one.ect0 + one.ect1 + one.ce > 0
        self.ecn[flow.name] = marked if one.has_ecn is None else one.has_ecn
        if one.is_over and last - one.start_s < self.length_s / 2:
            flow.sends = SetupFact(setup.spell_size(float(one.got_bytes[-1])), "all that it sent")
        if one.ect1 > one.ect0:
            flow.cc = assume_fact("prague", "its packets are ECT(1), as those of L4S are")
        elif one.is_accurate:
            flow.echo = SetupFact('"accecn"', "the handshake")
        if one.ce + one.told:
            self.marking.add(flow.name)
        flow.carried = self._make_carried(self._count_in_intervals(one.passed_at, one.passed_frames))
        flow.answered = self._make_carried(self._count_in_intervals(one.back_at, one.back_frames))
        flow.passed = _measure_passed(one)
        self.connections[id(flow)] = one
        self._frames[id(flow)] = self._count_in_intervals(one.data_at, one.data_frames)
        return flow

    def _make_carried(self, frames: Floats) -> pl.DataFrame:
        return pl.DataFrame({"time_s": self.points, "mbit": frames * 8e-6 / self.widths_s})

    def _count_in_intervals(self, times: Floats, amounts: Floats) -> Floats:
        """Return the sum in each interval."""
        place = np.minimum(np.searchsorted(self.points, times - 1e-9, side="left"), len(self.points) - 1)
        return np.bincount(place, weights=amounts, minlength=len(self.points)).astype(np.float64)

    def _ping_pairs(self, group: Int64s) -> pings.Pings | None:
        return pings.read_pings(self.packets, group) if self.packets.protocol[group[0]] == UDP else None

    def _read_udp(self, group: Int64s) -> ImportedFlow | None:
        """Return pings, or a flow of UDP in the direction with more payload."""
        if (pairs := self._ping_pairs(group)) is not None:
            first = pairs.asked[0]
            source, target = (self.packets.ends[int(of[first])] for of in (self.packets.source, self.packets.target))
            return self._ping(f"ping {source} > {target}", pairs)
        ours = self.packets.source[group] == self.packets.source[group[0]]
        payload = self.packets.payload[group]
        if int(payload[ours].sum()) < int(payload[~ours].sum()):
            ours = ~ours
        group, payload = group[ours], payload[ours].astype(np.float64)
        if not payload.sum():
            return None
        times = (self.packets.time_ns[group] - self.start_ns) / 1e9
        frames = self.packets.frame[group].astype(np.float64)
        start, end = float(times[0]), float(times[-1])
        seconds = end - start + (end - start) / max(1, len(times) - 1)  # the last one takes as long as the others
        lives = (self.points > start) & (self.points - self.step < end)
        goodput = self._count_in_intervals(times, payload) * 8e-6 / self.widths_s
        series = pl.DataFrame(
            {"time_s": self.points, "goodput_mbit": measurement.make_column(np.where(lives, goodput, np.nan))}
        )
        figures: dict[str, float | int] = {}
        rate = None
        if seconds > 0:
            figures["goodput_mbit"] = float(payload.sum()) * 8e-6 / seconds
            rate = assume_fact(
                setup.spell_rate(max(float(frames.sum()) * 8 / seconds, 1000.0)), "what was captured of it"
            )
        ends = (
            self.packets.ends[int(self.packets.source[group[0]])],
            self.packets.ends[int(self.packets.target[group[0]])],
        )
        size = int(np.median(frames))
        flow = ImportedFlow(
            f"{ends[0]} > {ends[1]}",
            "udp",
            start_s=start,
            end_s=end,
            figures=figures,
            series=series.filter(pl.Series(lives)),
            rate=rate,
            size=SetupFact(f"{max(64, min(size, 9000))}B", "the median of its frames"),
            ends=ends,
        )
        figures |= {"ce_received": int((self.packets.ecn[group] == CE).sum())} if rate else {}
        self._frames[id(flow)] = self._count_in_intervals(times, frames)
        flow.carried = self._make_carried(self._frames[id(flow)])
        # nothing says whether what was captured had passed the link
        flow.frames_per_payload = float(frames.sum() / payload.sum())
        return flow

    def _ping(self, name: str, pairs: pings.Pings) -> ImportedFlow:
        """Return pings. Where they were captured, their times may be no RTTs: then these are not known."""
        p, asked = self.packets, pairs.asked
        if pairs.note != pings.ECHO:
            self.notes += [pairs.note] * (pairs.note not in self.notes)
        ends = (p.ends[int(p.source[asked[0]])], p.ends[int(p.target[asked[0]])])
        hosts = frozenset(map(_strip_port, ends))
        if pairs.note == pings.ECHO:
            ends = (_strip_port(ends[0]), _strip_port(ends[1]))
        answered = (p.time_ns[pairs.answers] - self.start_ns) / 1e9
        asked_at = (p.time_ns[asked] - self.start_ns) / 1e9
        rtts = (p.time_ns[pairs.answers] - p.time_ns[pairs.requests]) / 1e6
        size = int(np.median(p.frame[asked]))
        flow = ImportedFlow(
            name, "ping", "up", start_s=float(asked_at[0]), end_s=max(float(asked_at[-1]), float(answered[-1])),
            figures={"answers": len(rtts)}, ends=ends,
            size=SetupFact(f"{max(64, min(size, 9000))}B", "its frames (median)"),
        )  # fmt: skip
        if len(asked) > 1 and (gap := float(asked_at[-1] - asked_at[0]) / (len(asked) - 1)) > 0:
            flow.gap_s = gap
            flow.rate = SetupFact(setup.spell_rate(max(size * 8 / gap, 1000.0)), "its requests")
        if why := pings.explain_missing_rtt(p, pairs, self.shortest_ms.get(hosts, np.inf)):
            self.notes.append(f"{name}: {why}")
            return flow
        order = np.argsort(answered, kind="stable")
        flow.figures |= measurement.summarise_samples(rtts)
        flow.figures |= {"rtt_mean_ms": float(rtts.mean()), "rtt_max_ms": float(rtts.max())}
        held = measurement.make_column(measurement.hold_values(answered[order], rtts[order], self.points))
        flow.series = pl.DataFrame({"time_s": self.points, "rtt_ms": held}).drop_nulls()
        flow.rtts_ms = rtts[order]
        flow.base_rtt = infer.infer_base_rtt(float(rtts.min()), "its smallest RTT")
        return flow

    def _read_icmp_flows(self) -> list[ImportedFlow]:
        """Return pings of ICMP that were answered: of two views of the same, the one at who asks."""
        p, flows = self.packets, []
        for pairs in pings.read_icmp(p):
            target = _strip_port(p.ends[int(p.target[pairs.asked[0]])])
            flows.append(self._ping(f"ping {target}", pairs))
        return flows


def _strip_port(end: str) -> str:
    """Return an address without its port."""
    return end.rpartition(":")[0].strip("[]")


def _measure_passed(one: TcpConnection) -> tuple[float, float, float] | None:
    """Return bytes of frames that passed the link for certain, and from when until when they did; None if unknown.

    Behind the link, the first packet took its time before. Elsewhere ACKs say what had passed since the first was sent.
    """
    if not len(one.passed_at):
        return None
    if one.side == "receiver":
        behind = float(one.passed_frames.sum() - one.passed_frames[0])
        return behind, float(one.passed_at[0]), float(one.passed_at[-1])
    if not one.has_acks:
        return None
    return float(one.passed_frames.sum()), float(one.data_at[0]), float(one.passed_at.max())


def _set_directions(flows: list[ImportedFlow], hosts: list[tuple[str, str]]) -> None:
    """Say which way flows go: down is that of the flow with most payload, from its sender's side to the other."""
    side: dict[str, bool] = {}
    pending = list(range(len(flows)))
    while pending:
        known = next((n for n in pending if hosts[n][0] in side or hosts[n][1] in side), pending[0])
        source, target = hosts[known]
        if source not in side:
            side[source] = not side[target] if target in side else True
        side.setdefault(target, not side[source])
        flows[known].direction = "down" if side[source] else "up"
        pending.remove(known)
