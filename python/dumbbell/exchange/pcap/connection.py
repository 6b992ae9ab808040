"""One TCP connection as a capture saw it: what got through, what was sent again, how long round trips took.

A capture is near the sender, near the receiver, or between. From where it was taken, a round trip has two parts: to the
receiver and back (data until its ACK) and to the sender and back (an ACK until data that echo its timestamp).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from dumbbell.exchange.measurement import Floats
from dumbbell.exchange.pcap.packets import ACK, AE, CE, CWR, ECE, ECT0, ECT1, FIN, RST, SYN, Packets
from dumbbell.exchange.pcap.records import Int64s

Side = Literal["sender", "receiver", "between"]
_NEAR = 0.2  # of the round trip: what is as close as that is at the end itself
_NEAR_MS = 0.5  # and any round trip up to this within a machine
_REORDERED = 0.3  # of the smallest RTT: a hole that is filled earlier was no loss
_REORDERED_S = 0.003  # the same where no RTT is known
_IDLE = 3.0  # smallest round trips without any ACK: the sender was idle
_FEWEST_DELAYS, _TICKS = 20, (0.9, 1.1)  # of timestamps that say one-way delays; how many of them may be in a ms
_ALL_FLAGS, _ACCURATE, _FIRST_COUNT = 7, (2, 3, 4, 6), 5  # of AccECN: what a SYN and its answers have; the counter
_SILENT_S, _SILENT = 1.0, 10.0  # after which a sender without anything on its way is done: s, and smallest round trips
_OLDEST_S = 10.0  # a part of a round trip that is held longer says nothing of now

Bools = npt.NDArray[np.bool_]


@dataclass
class Waits:
    """Waits of data in queues: when the data were captured, s, and how long they waited, ms."""

    at: Floats
    ms: Floats


@dataclass
class TcpConnection:
    """A connection in the direction of its data. Times are s from the start of the capture.

    `got_at` and `got_bytes`: payload that was acknowledged so far. `rtts_at` and `rtts_ms`: samples of the RTT;
    `shortest_ms` is known from the handshake too.
    """

    source: int
    target: int
    start_s: float
    end_s: float
    is_over: bool
    side: Side | None
    got_at: Floats
    got_bytes: Floats
    rtts_at: Floats
    rtts_ms: Floats
    shortest_ms: float | None
    is_whole: bool
    """Whether its handshake was captured."""
    has_acks: bool
    """Whether the receiver's acknowledgements were captured."""
    data_at: Floats
    data_frames: Floats
    """Bytes of frames of data, each at its time."""
    passed_at: Floats
    passed_frames: Floats
    """Bytes of frames that had passed the link by then: what reaches the receiver, or what ACKs and SACK say of it."""
    back_at: Floats
    back_frames: Floats
    """Bytes of frames of what the receiver sent, each at its time."""
    waits: Waits | None
    """How long its data waited at most, by timestamps; None without them."""
    data_packets: Floats
    """How many packets of data were in the queue, each at its time: near the sender, what was sent again was lost."""
    sent: int
    again_at: Floats
    """When data were sent again, once for each packet."""
    duplicates: int
    ce: int
    ect0: int
    ect1: int
    acks: int
    has_ecn: bool | None
    """Whether both ends agreed on ECN; None without a handshake."""
    is_accurate: bool
    """Whether they agreed on AccECN."""
    told: int
    """Packets with CE of which the receiver told: with AccECN at least as many, else answers to marks."""
    notes: list[str] = field(default_factory=list)


def read_connection(packets: Packets, order: Int64s, start_ns: int) -> TcpConnection | None:
    """Return what the packets of a connection, in order of time, say; None if it carried no data."""
    source = packets.source[order]
    payload = packets.payload[order]
    here = int(source[0])
    forward = source == here
    if int(payload[forward].sum()) < int(payload[~forward].sum()):
        forward = ~forward
    data = forward & (payload > 0)
    if not data.any():
        return None
    return _ConnectionReader(packets, order, forward, data, start_ns).make_connection()


def unwrap_numbers(values: Int64s, base: int) -> Int64s:
    """Return numbers of 32 bits as numbers without an end, relative to `base`."""
    if not len(values):
        return values
    first = (int(values[0]) - base + 2**31) % 2**32 - 2**31
    steps = (np.diff(values) + 2**31) % 2**32 - 2**31
    return first + np.concatenate(([0], np.cumsum(steps)))


class _ConnectionReader:
    def __init__(self, packets: Packets, order: Int64s, forward: Bools, data: Bools, start_ns: int) -> None:
        self.time = (packets.time_ns[order] - start_ns) / 1e9
        self.flags = packets.flags[order]
        self.forward, self.data = forward, data
        self.packets, self.order = packets, order
        self.until_s = (int(packets.time_ns[-1]) - start_ns) / 1e9  # the end of the capture
        segments = packets.segment[order]
        said = [int(segments[way & (segments > 0)].min()) for way in (forward, ~forward) if (segments[way] > 0).any()]
        has_stamps = bool((packets.stamp[order][data] >= 0).any())
        self.segment = max(1, min(said) - 12 * has_stamps) if said else 0
        sequence = packets.sequence[order]
        self.base = int(sequence[np.flatnonzero(data)[0]])
        self.begins = unwrap_numbers(sequence[data], self.base)
        self.length = packets.payload[order][data]
        self.ends = self.begins + self.length
        self.data_time = self.time[data]
        self.ceiling = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(self.ends)[:-1]))
        probes = (self.length <= 1) & (self.ends <= self.ceiling)  # keep-alives
        self.again = (self.begins < self.ceiling) & ~probes
        acks = ~forward & (self.flags & ACK > 0) & (self.flags & RST == 0)
        self.ack_place = np.flatnonzero(acks)
        self.ack = unwrap_numbers(packets.acknowledged[order][acks], self.base)
        self.ack_time = self.time[acks]

    def make_connection(self) -> TcpConnection:
        got_at, got = self._find_acknowledged()
        far_at, far, newest = self._measure_far_rtts()
        near_at, near = self._measure_near_rtts()
        shaken_far, shaken_near = self._measure_handshake()
        side = self._find_side(newest, near, shaken_far, shaken_near)
        rtts_at, rtts = _join_rtts(side, (far_at, far), (near_at, near))
        shaken = shaken_far + shaken_near if shaken_far is not None and shaken_near is not None else None
        known = [shaken] if shaken is not None else []
        # of the newest segment, as Linux takes its minimum (tcp_update_rtt_min)
        whole = newest if len(newest) and len(rtts) and rtts is far else rtts
        shortest = min([*known, *([float(whole.min())] if len(whole) else [])], default=None)
        pieces = np.ceil(self.length / self.segment) if self.segment else np.ones(len(self.length))
        again, duplicates = self._find_retransmissions(side, shortest)
        frame = self.packets.frame[self.order][self.data].astype(np.float64)
        if self.segment:  # each piece of what the card cut has headers of its own
            frame += (pieces - 1) * (frame - self.length)
        ecn = self.packets.ecn[self.order][self.forward]
        has_ecn, is_accurate = self._find_ecn()
        passed_at, passed = self._find_passed(side, frame)
        over = self._has_ended(shortest)
        notes = []
        if (pieces > 1).any():
            notes.append(
                "some packets are larger than a segment: captured before the card cut them, and counted as cut; a "
                "queue of this host may count each as one packet, so that a limit in packets is of more bytes than here"
            )
        pure = ~self.forward & (self.packets.payload[self.order] == 0) & (self.flags & (SYN | FIN | RST) == 0)
        return TcpConnection(
            source=int(self.packets.source[self.order][self.data][0]),
            target=int(self.packets.target[self.order][self.data][0]),
            start_s=float(self.time[0]),
            end_s=float(self.time[-1]),
            is_over=over,
            side=side,
            got_at=got_at,
            got_bytes=got,
            rtts_at=rtts_at,
            rtts_ms=rtts,
            shortest_ms=shortest,
            is_whole=shaken is not None,
            has_acks=len(self.ack) > 0,
            data_at=self.data_time,
            data_frames=frame,
            passed_at=passed_at,
            passed_frames=passed,
            back_at=self.time[~self.forward],
            back_frames=self.packets.frame[self.order][~self.forward].astype(np.float64),
            waits=self._measure_delay_rise(side),
            data_packets=pieces * (self._find_last_sent() if side == "sender" else 1.0),
            sent=int(pieces.sum()),
            again_at=np.repeat(self.data_time[again], pieces[again].astype(np.int64)),
            duplicates=duplicates,
            ce=int((ecn == CE).sum()),
            ect0=int((ecn == ECT0).sum()),
            ect1=int((ecn == ECT1).sum()),
            acks=int(pure.sum()),
            has_ecn=has_ecn,
            is_accurate=is_accurate,
            told=self._count_echoed_marks(is_accurate=is_accurate) if has_ecn else 0,
            notes=notes,
        )

    def _find_acknowledged(self) -> tuple[Floats, Floats]:
        """Return when how much was acknowledged; without ACKs in the capture, when how much new data passed."""
        if len(self.ack):
            most = np.maximum.accumulate(np.clip(self.ack, 0, int(self.ends.max())))
            return self.ack_time, most.astype(np.float64)
        fresh = np.maximum(self.ends - np.maximum(self.begins, self.ceiling), 0)
        return self.data_time, np.cumsum(fresh).astype(np.float64)

    def _find_passed(self, side: Side | None, frames: Floats) -> tuple[Floats, Floats]:
        """Return when which bytes of frames had passed the link.

        A hole that is filled acknowledges at once what had come for a round trip: SACK says when it came.
        """
        if side == "receiver" or not len(self.ack):
            return self.data_time, frames
        first = ~self.again
        ends = self.ends[first]
        said = np.searchsorted(np.maximum.accumulate(self.ack), ends, side="left")
        said = np.minimum(said, self._selected)
        known = said < len(self.ack)
        return self.ack_time[said[known]], frames[first][known]

    @cached_property
    def _selected(self) -> Int64s:
        """Of each segment, sent first: which ACK first has it in a block of SACK; if none, the number of ACKs."""
        begins, ends = self.begins[~self.again], self.ends[~self.again]
        packet, left, right = self.packets.sacks.T
        acks = self.order[self.ack_place]
        lows = np.searchsorted(packet, acks, side="left")
        counts = np.searchsorted(packet, acks, side="right") - lows
        number = np.repeat(np.arange(len(acks)), counts)
        rows = np.arange(len(number)) + np.repeat(lows - np.cumsum(counts) + counts, counts)
        said = self.packets.acknowledged[acks][number]
        edges = [self.ack[number] + (edge[rows] - said + 2**31) % 2**32 - 2**31 for edge in (left, right)]
        lowest = np.searchsorted(begins, edges[0], side="left")
        highest = np.searchsorted(ends, edges[1], side="right")
        _, fresh = np.unique(lowest * (len(ends) + 1) + highest, return_index=True)
        fresh.sort()
        found = np.full(len(ends), len(acks), dtype=np.int64)
        following = list(range(len(ends) + 1))  # of each segment the next one that no block had; itself if none had it
        for ack, place, end in zip(*(column[fresh].tolist() for column in (number, lowest, highest)), strict=True):
            while place < end:
                if following[place] != place:
                    following[place] = place = following[following[place]]
                else:
                    found[place] = ack
                    following[place] = place = place + 1
        return found

    def _measure_far_rtts(self) -> tuple[Floats, Floats, Floats]:
        """Return RTTs from here to the receiver and back, at the ACKs that say them, ms; and those of the newest data.

        A sample is of the oldest segment that an ACK acknowledges, or selects first, as Linux takes it
        (tcp_clean_rtx_queue, tcp_sacktag_one). As Karn has it, what was sent again says nothing, nor do ACKs that close
        a hole, nor those of what was sent before the capture.
        """
        first = ~self.again
        ends, begins, times = self.ends[first], self.begins[first], self.data_time[first]
        if not len(ends) or not len(self.ack):
            return np.zeros(0), np.zeros(0), np.zeros(0)
        most = np.maximum.accumulate(self.ack)
        before = np.maximum(np.concatenate(([0], most[:-1])), 0)
        fresh = (self.ack > before) & (self.ack <= ends[-1])
        ack, low = self.ack[fresh], before[fresh]
        newest = np.minimum(np.searchsorted(ends, ack, side="left"), len(ends) - 1)
        oldest = np.minimum(np.searchsorted(ends, low, side="right"), newest)
        again = np.sort(self.ends[self.again])
        closes = np.searchsorted(again, ack, side="right") > np.searchsorted(again, low, side="right")
        number = np.flatnonzero(fresh)[~closes]
        oldest, newest = oldest[~closes], newest[~closes]
        # segments that no ACK acknowledged when a block of SACK had them first
        repaired = np.zeros(len(ends) + 1, dtype=np.int64)
        np.add.at(repaired, np.searchsorted(ends, self.begins[self.again], side="right"), 1)
        np.add.at(repaired, np.searchsorted(begins, self.ends[self.again], side="left"), -1)
        selected = self._selected
        early = (selected < np.searchsorted(most, ends, side="left")) & (np.cumsum(repaired)[:-1] <= 0)
        by_sack, place = np.unique(selected[early], return_index=True)
        place = np.flatnonzero(early)[place]
        alone = ~np.isin(by_sack, number)
        number = np.concatenate((number, by_sack[alone]))
        oldest, newest = (np.concatenate((one, place[alone])) for one in (oldest, newest))
        order = np.argsort(number, kind="stable")
        at, sent, last = self.ack_time[number[order]], times[oldest[order]], times[newest[order]]
        good = at > sent
        return at[good], (at[good] - sent[good]) * 1e3, (at[good] - last[good]) * 1e3

    def _measure_near_rtts(self) -> tuple[Floats, Floats]:
        """Return RTTs from here to the sender and back, at the data that echo an ACK's timestamp first, ms."""
        stamps = self.packets.stamp[self.order]
        echoes = self.packets.echo[self.order]
        acks = np.flatnonzero(~self.forward & (stamps >= 0))
        data = np.flatnonzero(self.data & (echoes >= 0))
        if not len(acks) or not len(data):
            return np.zeros(0), np.zeros(0)
        values, firsts = np.unique(stamps[acks], return_index=True)
        said, first_data = np.unique(echoes[data], return_index=True)
        _, ours, theirs = np.intersect1d(values, said, assume_unique=True, return_indices=True)
        left, came = self.time[acks[firsts[ours]]], self.time[data[first_data[theirs]]]
        order = np.argsort(came, kind="stable")
        left, came = left[order], came[order]
        trips = came - left
        # a sender without anything to send says nothing: no other ACK went out meanwhile, and it took far too long
        times = self.time[acks]
        alone = np.searchsorted(times, came, side="left") - np.searchsorted(times, left, side="right") <= 0
        shortest = trips[trips > 0].min(initial=np.inf)
        good = (trips > 0) & (trips < _OLDEST_S) & ~(alone & (trips > _IDLE * shortest))
        return came[good], (came[good] - left[good]) * 1e3

    def _find_last_sent(self) -> Bools:
        """Return which data were not sent again later."""
        _, lasts = np.unique(self.begins[::-1], return_index=True)
        found = np.zeros(len(self.begins), dtype=bool)
        found[len(self.begins) - 1 - lasts] = True
        return found

    def _measure_delay_rise(self, side: Side | None) -> Waits | None:
        """Return by how much the delay from the sender to the receiver rose at most; None if that is not known.

        The clock of the other end is in its timestamps (RFC 7323, section 3), which Linux counts in ms. Near the
        receiver, data have the clock of the sender. Near the sender, an ACK has the clock of the receiver at the
        arrival of the newest segment that it acknowledges.
        """
        stamps = self.packets.stamp[self.order]
        if side == "receiver":
            number = np.flatnonzero(self.data & (stamps >= 0))
            times = self.time[number]
        elif side == "sender" and len(self.ack):
            first = ~self.again
            ends, again = self.ends[first], np.sort(self.ends[self.again])
            before = np.concatenate(([0], np.maximum.accumulate(self.ack)[:-1]))
            place = np.minimum(np.searchsorted(ends, self.ack), len(ends) - 1)
            repairs = np.searchsorted(again, self.ack, side="right") > np.searchsorted(again, before, side="right")
            good = (ends[place] == self.ack) & (self.ack > before) & ~repairs & (stamps[self.ack_place] >= 0)
            number, times = self.ack_place[good], self.data_time[first][place[good]]
        else:
            return None
        if len(number) < _FEWEST_DELAYS:
            return None
        ticks = unwrap_numbers(stamps[number], int(stamps[number[0]])).astype(np.float64)
        seen = self.time[number]
        lasts_ms = float(seen[-1] - seen[0]) * 1e3
        if not _TICKS[0] * lasts_ms < float(ticks[-1] - ticks[0]) < _TICKS[1] * lasts_ms:
            return None
        delays = times * 1e3 - ticks if side == "receiver" else ticks - times * 1e3
        delays -= delays.min()
        return Waits(times, delays)

    def _measure_handshake(self) -> tuple[float | None, float | None]:
        """Return from the handshake the RTTs from here to the receiver and to the sender of data, ms."""
        syn = self.flags & SYN > 0
        asked = np.flatnonzero(syn & (self.flags & ACK == 0))
        answered = np.flatnonzero(syn & (self.flags & ACK > 0))
        if len(asked) != 1 or len(answered) != 1 or answered[0] < asked[0]:
            return None, None
        opener = self.forward[asked[0]]
        done = np.flatnonzero((self.forward == opener) & (self.flags & ACK > 0) & (self.flags & SYN == 0))
        done = done[done > answered[0]]
        if not len(done) or self.forward[answered[0]] == opener:
            return None, None
        times = self.time[[asked[0], answered[0], done[0]]]
        answerer, opener_rtt = float(times[1] - times[0]) * 1e3, float(times[2] - times[1]) * 1e3
        return (answerer, opener_rtt) if opener else (opener_rtt, answerer)

    @staticmethod
    def _find_side(far: Floats, near: Floats, shaken_far: float | None, shaken_near: float | None) -> Side | None:
        """Return where the capture was taken; None if that does not show."""
        low_far = min(
            [*([float(far.min())] if len(far) else []), *([shaken_far] if shaken_far is not None else [])], default=None
        )
        low_near = min(
            [*([float(near.min())] if len(near) else []), *([shaken_near] if shaken_near is not None else [])],
            default=None,
        )
        if low_far is None or low_near is None:
            return None
        whole = low_far + low_near
        if low_near <= max(_NEAR * whole, min(_NEAR_MS, whole / 2)) and low_near <= low_far:
            return "sender"
        return "receiver" if low_far <= max(_NEAR * whole, min(_NEAR_MS, whole / 2)) else "between"

    def _find_retransmissions(self, side: Side | None, shortest_ms: float | None) -> tuple[Bools, int]:
        """Return which data were sent again, and how many packets had passed here before.

        At the sender that is all that was seen before. Behind a loss it is what fills a hole later than reordering
        would.
        """
        _, firsts, inverse = np.unique(self.begins, return_index=True, return_inverse=True)
        before = firsts[inverse] < np.arange(len(self.begins))
        duplicates = int((self.again & before).sum())
        if side == "sender":
            return self.again, duplicates
        limit = _REORDERED * shortest_ms / 1e3 if shortest_ms is not None else _REORDERED_S
        # the first packet beyond the hole came when its end was first passed
        highs = np.maximum.accumulate(self.ends)
        place = np.searchsorted(highs, self.ends, side="right")
        passed = self.data_time[np.minimum(place, len(highs) - 1)]
        late = self.data_time - passed > limit
        return self.again & (before | late), duplicates

    def _has_ended(self, shortest_ms: float | None) -> bool:
        """Whether it ended in the capture: closed and acknowledged, reset, or all acknowledged and then long silent."""
        if (self.flags & RST > 0).any():
            return True
        silent = max(_SILENT_S, _SILENT * (shortest_ms or 0.0) / 1e3)
        if len(self.ack) and int(self.ack.max()) >= int(self.ends.max()) and self.until_s - self.data_time[-1] > silent:
            return True
        ends = np.flatnonzero(self.forward & (self.flags & FIN > 0))
        return bool(len(ends)) and bool(len(self.ack)) and int(self.ack.max()) > int(self.ends.max())

    def _find_ecn(self) -> tuple[bool | None, bool]:
        """Return whether both ends agreed on ECN, None without a handshake, and whether on AccECN.

        RFC 9768, table 2: what a SYN with all three flags is answered by.
        """
        syn = self.flags & SYN > 0
        asked, answered = self.flags[syn & (self.flags & ACK == 0)], self.flags[syn & (self.flags & ACK > 0)]
        if not len(asked) or not len(answered):
            return None, False
        accurate = bool((_decode_ace(asked) == _ALL_FLAGS).any() and np.isin(_decode_ace(answered), _ACCURATE).any())
        wants = (asked & (ECE | CWR)) == (ECE | CWR)
        return bool(wants.any() and (answered & (ECE | CWR | AE) > 0).any()), accurate

    def _count_echoed_marks(self, *, is_accurate: bool) -> int:
        """Return how many packets with CE the receiver told of: by AccECN's counter, which has 3 bits, or by ECE.

        RFC 9768, section 3.2.2: the counter begins at 5; the last ACK of a handshake has a code instead. Of ECE, what
        the sender answered with CWR is counted: once for each round trip with marks (RFC 3168, section 6.1.2). Linux
        sends CWR after a loss too.
        """
        telling = ~self.forward & (self.flags & ACK > 0) & (self.flags & (SYN | RST) == 0)
        if not is_accurate:
            said = np.cumsum(telling & (self.flags & ECE > 0))
            return int((np.diff(said[self.data & (self.flags & CWR > 0)], prepend=0) > 0).sum())
        place = np.flatnonzero(telling)
        opener = self.forward[np.flatnonzero(self.flags & SYN > 0)[0]]
        place = place[int(not opener) :]
        ack = unwrap_numbers(self.packets.acknowledged[self.order][place], self.base)
        counter = _decode_ace(self.flags[place])[ack >= np.maximum.accumulate(ack)]  # none that was overtaken
        return int((np.diff(counter, prepend=_FIRST_COUNT) % 8).sum())


def _decode_ace(flags: Int64s) -> Int64s:
    """Return the three flags AE, CWR and ECE as a number: AccECN's counter."""
    return (flags >> 6) & 7


def _join_rtts(side: Side | None, far: tuple[Floats, Floats], near: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return samples of the whole RTT, of what was seen of its two parts."""
    if side in (None, "sender") and len(far[1]):
        return far if side == "sender" or not len(near[1]) else _sum(far, near)
    if len(near[1]) and len(far[1]):
        return _sum(near, far)
    return np.zeros(0), np.zeros(0)


def _sum(at: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return samples at the times of the first, each with the last of the other part by then."""
    place = np.searchsorted(other[0], at[0], side="right") - 1
    age = at[0] - other[0][np.maximum(place, 0)]
    good = (place >= 0) & (age < _OLDEST_S)
    return at[0][good], at[1][good] + other[1][np.maximum(place, 0)][good]
