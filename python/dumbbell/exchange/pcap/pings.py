"""Pings over UDP: flows in which each datagram is answered by one of the same size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dumbbell.exchange.pcap.packets import Packets
from dumbbell.exchange.pcap.records import Int64s

NUMBERED = "pings over UDP: an answer is that to the request whose payload begins with the same four bytes"
IN_ORDER = "pings over UDP: as many answers as requests, which were taken in pairs, in order"
_FEWEST = 3  # answers: fewer of the same size may be chance


@dataclass
class Pings:
    """What was asked, and of what was answered the request and the answer: places of packets."""

    asked: Int64s
    requests: Int64s
    answers: Int64s
    note: str


def of(packets: Packets, group: Int64s) -> Pings | None:
    """Return the pings that the datagrams between two ports are; None if they are none."""
    is_first = packets.source[group] == packets.source[group[0]]
    sides = group[is_first], group[~is_first]
    if min(map(len, sides)) < _FEWEST:
        return None
    # what is captured first may be an answer
    return _paired(packets, *sides) or _paired(packets, *sides[::-1])


def _paired(packets: Packets, asked: Int64s, answered: Int64s) -> Pings | None:
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
