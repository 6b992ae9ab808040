"""Packets of a capture as rows, with those columns of `packets.recording.record_packets` that headers determine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from dumbbell.errors import Nothing, UnknownName
from dumbbell.exchange.pcap import packets as headers
from dumbbell.exchange.pcap import records
from dumbbell.exchange.pcap.connection import unwrap_numbers
from dumbbell.exchange.pcap.packets import ACK, SYN, TCP, UDP, Packets
from dumbbell.exchange.pcap.records import Int64s, Records

_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "", "ECE", "CWR", "AE")  # by their bits; none has the name of URG's
_ECN = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")
# Ports in captures that dumbbell wrote. Receivers have one of these (crates/dumbbell-packets, crates/dumbbell-live) or,
# with a kernel in virtual time, a higher port than all senders (engines/linux/plan.py, nets.py).
_RECEIVERS = (9, 443, 5001)
_SIMULATED, _CARRIED_OUT = 50_000, 10_000  # the first sender's


def read(path: Path, raw: bytes, point: str | None) -> tuple[pl.DataFrame, bool]:
    """Return the packets of a capture at a point, and whether dumbbell wrote it, with times from the start of a run.

    The point is an interface of the file; a file with one interface needs no name. Flows have the numbers that they
    have in the run if dumbbell wrote the file, and else those of their first packets. Raises InputError.
    """
    found = records.read(path, raw)
    number = _select_interface(path, found, point)
    packets = headers.read(found, number)
    rows = _make_rows(packets)
    if rows.is_empty():
        raise Nothing("found no packet of TCP or UDP", "a capture of IP", file=path)
    return rows, _is_ours(packets)


def _select_interface(path: Path, found: Records, point: str | None) -> int:
    there = np.unique(found.interface).tolist()
    if not there:
        raise Nothing("found no packet", "a capture of IP", file=path)
    if len(there) == 1:
        return int(there[0])
    names = [found.interfaces[number].name for number in there]
    wanted = point or "sender"
    if wanted not in names:
        raise UnknownName(wanted, among=names, file=path, option="--at", what="point")
    return int(there[names.index(wanted)])


def _make_rows(packets: Packets) -> pl.DataFrame:
    keep = np.flatnonzero(np.isin(packets.protocol, (TCP, UDP)))
    low, high = np.minimum(packets.source, packets.target), np.maximum(packets.source, packets.target)
    pair = (low[keep] * max(len(packets.ends), 1) + high[keep]) * 2 + (packets.protocol[keep] == TCP)
    _, firsts, codes = np.unique(pair, return_index=True, return_inverse=True)
    flow, forward_all = np.zeros(len(keep), dtype=np.int64), np.zeros(len(keep), dtype=np.bool_)
    seq, ack, window = (np.full(len(keep), -1, dtype=np.int64) for _ in range(3))
    sacks: list[str | None] = [None] * len(keep)
    blocks = np.searchsorted(packets.sacks[:, 0], keep, "left"), np.searchsorted(packets.sacks[:, 0], keep, "right")
    is_ours = _is_ours(packets)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(firsts)))
    place_of = {int(code): place for place, code in enumerate(np.argsort(firsts))}
    for code, end in enumerate(ends.tolist()):
        own = order[(ends[code - 1] if code else 0) : end]
        rows = keep[own]
        sender, number = _find_sender(packets, rows, is_ours=is_ours)
        forward = packets.source[rows] == sender
        flow[own] = place_of[code] if number is None else number
        forward_all[own] = forward
        if packets.protocol[rows[0]] != TCP:
            continue
        bases = {way: _find_base(packets, rows[forward == way]) for way in (True, False)}
        for way in (True, False):
            mine = own[forward == way]
            seq[mine] = unwrap_numbers(packets.sequence[keep[mine]], bases[way])
            has_ack = mine[packets.flags[keep[mine]] & ACK > 0]
            ack[has_ack] = unwrap_numbers(packets.acknowledged[keep[has_ack]], bases[not way])
            window[mine] = _compute_windows(packets, keep[mine], rows)
            for row in has_ack[blocks[0][has_ack] < blocks[1][has_ack]].tolist():
                some = packets.sacks[blocks[0][row] : blocks[1][row], 1:]
                relative = unwrap_numbers(some.reshape(-1), bases[not way]).reshape(-1, 2).tolist()
                sacks[row] = " ".join(f"{first}-{last}" for first, last in relative)
    tcp = packets.protocol[keep] == TCP
    names = [" ".join(name for bit, name in enumerate(_FLAGS) if name and value >> bit & 1) for value in range(512)]
    flags = packets.flags[keep].tolist()
    frame = pl.DataFrame(
        {
            "time_ns": packets.time_ns[keep],
            "flow": flow,
            "direction": np.where(forward_all, "data", "ack"),
            "protocol": np.where(tcp, "tcp", "udp"),
            "length": packets.frame[keep],
            "payload": packets.payload[keep],
            "ecn": np.array(_ECN)[packets.ecn[keep]],
            "flags": [names[value] if is_tcp else None for value, is_tcp in zip(flags, tcp, strict=True)],
            "seq": seq,
            "ack": ack,
            "window": window,
            "sack": pl.Series(sacks, dtype=pl.String),
        }
    )
    known = [pl.when(pl.col(name) >= 0).then(name) for name in ("seq", "ack", "window")]
    return frame.with_columns(known)


def _is_ours(packets: Packets) -> bool:
    return packets.about.get("written by", "").startswith("dumbbell")


def _find_sender(packets: Packets, rows: Int64s, *, is_ours: bool) -> tuple[int, int | None]:
    """Return which end of a connection sends data, and the number of its flow if that is known."""
    first, other = int(packets.source[rows[0]]), int(packets.target[rows[0]])
    if is_ours:
        ports = {end: int(packets.ends[end].rpartition(":")[2]) for end in (first, other)}
        sender = min(ports, key=lambda end: (ports[end] in _RECEIVERS, ports[end]))
        base = _SIMULATED if ports[sender] >= _SIMULATED else _CARRIED_OUT
        if ports[sender] >= base:
            return sender, ports[sender] - base
    if packets.protocol[rows[0]] != TCP:
        return first, None
    sent = {end: int(packets.payload[rows[packets.source[rows] == end]].sum()) for end in (first, other)}
    return max(sent, key=lambda end: sent[end]), None


def _find_base(packets: Packets, rows: Int64s) -> int:
    """Return the sequence number that counts as 0: that of the SYN, or the one before the first byte that was seen."""
    syns = rows[packets.flags[rows] & SYN > 0]
    if len(syns):
        return int(packets.sequence[syns[0]])
    return int(packets.sequence[rows[0]]) - 1 if len(rows) else 0


def _compute_windows(packets: Packets, mine: Int64s, connection: Int64s) -> Int64s:
    """Return the windows that one end offers, bytes; -1 where the scale is unknown, without both SYNs."""
    syns = connection[packets.flags[connection] & SYN > 0]
    if len(np.unique(packets.source[syns])) < 2:
        return np.full(len(mine), -1, dtype=np.int64)
    is_syn = packets.flags[mine] & SYN > 0
    both = bool((packets.scale[syns] >= 0).all())
    scale = int(packets.scale[mine][is_syn][0]) if both else 0
    found: Int64s = np.where(is_syn, packets.window[mine], packets.window[mine] << scale)
    return found
