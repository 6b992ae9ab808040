"""Pings: echoes of ICMP, and flows of UDP in which each datagram is answered by one of the same size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dumbbell.exchange.pcap.packets import ICMP, ICMPV6, Packets
from dumbbell.exchange.pcap.records import Int64s

NUMBERED = "pings over UDP: an answer is that to the request whose payload begins with the same four bytes"
IN_ORDER = "pings over UDP: as many answers as requests, which were taken in pairs, in order"
ECHO = "pings of ICMP"
_ASKED, _ANSWERED = (8, 128), (0, 129)  # types of ICMP's echo
_MOST_S = 60.0  # from a request to its answer
_STARTS = (32, 64, 128, 255)  # what hosts set as TTL, which routers count down: RFC 1700, and what systems do
_AT_ONCE_MS = 0.1  # answers so soon are a network of one machine or room, or seen where they are sent
_PART = 0.2  # of the RTT of TCP between the same hosts, which a ping cannot be shorter than by so much
_FEWEST = 3  # answers: fewer of the same size may be chance


@dataclass
class Pings:
    """What was asked, and of what was answered the request and the answer: places of packets."""

    asked: Int64s
    requests: Int64s
    answers: Int64s
    note: str


def read_icmp(packets: Packets) -> list[Pings]:
    """Return the echoes that were answered, for each pair of hosts."""
    asked: dict[tuple[int, int, int], int] = {}
    requests: dict[tuple[int, int], list[int]] = {}
    answered: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for place in np.flatnonzero(np.isin(packets.protocol, (ICMP, ICMPV6))).tolist():
        source, target = int(packets.source[place]), int(packets.target[place])
        number = int(packets.sequence[place])
        if packets.flags[place] in _ASKED:
            if asked.setdefault((source, target, number), place) == place:
                requests.setdefault((source, target), []).append(place)
        elif packets.flags[place] in _ANSWERED:
            left = asked.pop((target, source, number), None)
            if left is not None and 0 <= packets.time_ns[place] - packets.time_ns[left] <= _MOST_S * 1e9:
                answered.setdefault((target, source), []).append((left, place))
    found = []
    for ends, pairs in answered.items():
        table = np.array(pairs, dtype=np.int64)
        found.append(Pings(np.array(requests[ends]), table[:, 0], table[:, 1], ECHO))
    return found


def explain_missing_rtt(packets: Packets, pairs: Pings, other_ms: float) -> str:
    """Return why the times between requests and answers are no RTTs; empty if they are.

    Where answers leave, they have the TTL that hosts set, and requests have come through routers; between the ends,
    neither has. `other_ms` is the shortest RTT of other flows between the hosts, infinite if there is none.
    """
    took_ms = float(np.median(packets.time_ns[pairs.answers] - packets.time_ns[pairs.requests])) / 1e6
    fresh = [bool(np.isin(packets.hops_left[which], _STARTS).mean() > 0.5) for which in (pairs.requests, pairs.answers)]
    if fresh == [False, True]:
        return "taken near who answers, where no RTT shows"
    if fresh == [False, False]:
        return "taken between the ends, where only a part of the RTT shows"
    if fresh == [True, True] and (took_ms < _AT_ONCE_MS or took_ms < _PART * other_ms < math.inf):
        return "answered at once: taken near who answers, where no RTT shows"
    return ""


def read_pings(packets: Packets, group: Int64s) -> Pings | None:
    """Return the pings that the datagrams between two ports are; None if they are none."""
    is_first = packets.source[group] == packets.source[group[0]]
    sides = group[is_first], group[~is_first]
    if min(map(len, sides)) < _FEWEST:
        return None
    # what is captured first may be an answer
    return _pair_echoes(packets, *sides) or _pair_echoes(packets, *sides[::-1])


def _pair_echoes(packets: Packets, asked: Int64s, answered: Int64s) -> Pings | None:
    numbers, of_answers = packets.sequence[asked], packets.sequence[answered]
    sorted_numbers, places = np.unique(numbers, return_index=True)
    if len(places) == len(asked):
        known = np.isin(of_answers, sorted_numbers)
        if (
            known.sum() < _FEWEST or not known[int(known.argmax()) :].all()
        ):  # earlier ones were asked before the capture
            return None
        of_answers, firsts = np.unique(of_answers[known], return_index=True)
        requests, answers = asked[places[np.searchsorted(sorted_numbers, of_answers)]], answered[known][firsts]
        order = np.argsort(answers)
        requests, answers, note = requests[order], answers[order], NUMBERED
    elif len(asked) == len(answered):
        requests, answers, note = asked, answered, IN_ORDER
    else:
        return None
    good = (packets.payload[requests] == packets.payload[answers]) & (packets.payload[requests] > 0)
    return Pings(asked, requests, answers, note) if (good & (requests < answers)).all() else None
