"""The headers of captured packets, all at once: addresses, ports, sequence numbers, ECN, timestamps."""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumbbell.errors import join_names
from dumbbell.exchange.pcap import layers
from dumbbell.exchange.pcap.bytes import Bytes
from dumbbell.exchange.pcap.layers import IPV4, IPV6
from dumbbell.exchange.pcap.records import Int64s, Records
from dumbbell.words import format_count

TCP, UDP, ICMP, ICMPV6 = 6, 17, 1, 58
SYN, FIN, RST, ACK, ECE, CWR, AE = 0x02, 0x01, 0x04, 0x10, 0x40, 0x80, 0x100
CE, ECT0, ECT1 = 3, 2, 1
_ETHERNET_HEADER = 14
_MOST_SCALE = 14  # of a window: RFC 7323, section 2.3
_LEAST_SHARE, _NAMED = 0.01, 6  # of packets that are left out, and kinds of them that are named
_FILLER, _MOST_BLOCKS = 1, 4  # the option of one byte; blocks of SACK that a header has room for

Bools = npt.NDArray[np.bool_]


@dataclass
class Packets:
    """The captured packets of TCP, UDP and pings, in order of time. All columns but `sacks` have one value per packet.

    `source` and `target` are numbers of addresses with ports, of `ends`; `frame` is the length as an Ethernet frame;
    `stamp` and `echo` are TCP's timestamps, -1 without.
    """

    time_ns: Int64s
    protocol: Int64s
    source: Int64s
    target: Int64s
    frame: Int64s
    payload: Int64s
    ecn: Int64s
    hops_left: Int64s
    """TTL of IPv4, hop limit of IPv6."""
    sequence: Int64s
    acknowledged: Int64s
    flags: Int64s
    stamp: Int64s
    echo: Int64s
    segment: Int64s
    """The MSS that a SYN announces; 0 of others."""
    sacks: Int64s
    """Blocks of SACK, a row each: place of the packet, first byte, end. In order of packets."""
    window: Int64s
    """As TCP's header has it, without its scale."""
    scale: Int64s
    """The scale of windows that a SYN announces; -1 of others."""
    ends: list[str]
    notes: list[str] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    """What the file says of itself."""

    def __len__(self) -> int:
        return len(self.time_ns)


def read(records: Records, interface: int | None = None) -> Packets:
    """Return the headers of the packets of one interface: by default the one with most of them."""
    numbers, counts = np.unique(records.interface, return_counts=True)
    if interface is not None:
        numbers, counts = numbers[numbers == interface], counts[numbers == interface]
    fit = [
        (count, number)
        for number, count in zip(numbers, counts, strict=True)
        if layers.is_known(records.interfaces[number].link)
    ]
    notes = list(records.notes)
    if not len(numbers):
        return _make_empty_packets(notes)
    if not fit:
        return _make_empty_packets([*notes, layers.link_name(records.interfaces[numbers[0]].link)])
    chosen = max(fit)[1]
    if len(numbers) > 1:
        named = records.interfaces[chosen].name or f"number {chosen}"
        notes.append(f"{len(numbers)} interfaces: the packets of {named}, which has most, are taken")
    keep = np.flatnonzero(records.interface == chosen)
    keep = keep[np.argsort(records.time_ns[keep], kind="stable")]
    link = records.interfaces[chosen].link
    found = layers.read_network(Bytes(records, keep), link)
    if found.tunnels:
        inside = [f"{format_count(number, 'packet')} in {name}" for name, number in found.tunnels.most_common()]
        notes.append(
            f"{join_names(inside, _NAMED)}: the packets inside are read, and frames are counted with all headers"
        )
    return _read_headers(records, keep, found, notes, is_ethernet=link == layers.ETHERNET)


def _make_empty_packets(notes: list[str]) -> Packets:
    empty = np.zeros(0, dtype=np.int64)
    return Packets(
        empty, empty, empty, empty, empty, empty, empty, empty, empty, empty, empty, empty, empty, empty,
        np.zeros((0, 3), dtype=np.int64), empty, empty, [], notes,
    )  # fmt: skip


def _read_lengths(records: Records, keep: Int64s, bytes_: Bytes, offset: Int64s, is_4: Bools) -> Int64s:
    """Return the lengths of IP packets."""
    left = records.length[keep] - offset
    total = np.where(is_4, bytes_.read_16_bits(offset + 2), bytes_.read_16_bits(offset + 4) + 40)
    # segments that the card is to cut have no length, or one that is too long for the field
    return np.where((total == np.where(is_4, 0, 40)) | (left > 65_600), left, np.minimum(total, left))


def _read_headers(
    records: Records, keep: Int64s, found: layers.Network, notes: list[str], *, is_ethernet: bool
) -> Packets:
    bytes_, offset, kind = Bytes(records, keep), found.offset, found.kind
    is_4, is_6 = kind == IPV4, kind == IPV6
    first = bytes_.read_bytes(offset)
    header = np.where(is_4, (first & 15) * 4, 40)
    total = _read_lengths(records, keep, bytes_, offset, is_4)
    service = np.where(is_4, bytes_.read_bytes(offset + 1), ((first & 15) << 4) | (bytes_.read_bytes(offset + 1) >> 4))
    service = np.where(found.is_marked & (service & 3 > 0), CE, service)
    hops_left = np.where(is_4, bytes_.read_bytes(offset + 8), bytes_.read_bytes(offset + 7))
    is_first = np.where(is_4, (bytes_.read_16_bits(offset + 6) & 0x1FFF) == 0, True)
    upper, protocol = layers.find_transport(bytes_, offset, kind)
    whole = records.captured[keep] >= upper + np.where(protocol == TCP, 20, 8)
    good = (is_4 | is_6) & is_first & np.isin(protocol, (TCP, UDP, ICMP, ICMPV6)) & whole & (header >= 20)
    notes += _list_left_out(kind, protocol, good | ((is_4 | is_6) & np.isin(protocol, (TCP, UDP, ICMP, ICMPV6))))
    cut = int((good & (protocol == TCP) & (records.captured[keep] < upper + _read_header_length(bytes_, upper))).sum())
    if cut:
        said = f"headers of {format_count(cut, 'packet')} are cut, SACK and timestamps with them"
        notes.append(f"{said}: capture 128 bytes of each or more")
    sources, targets = _read_addresses(bytes_, offset, is_4)
    outermost = _read_lengths(records, keep, bytes_, found.outer, found.outer_kind == IPV4)
    frame = records.length[keep] if is_ethernet else outermost + _ETHERNET_HEADER
    columns = [keep, upper, protocol, service & 3, hops_left, frame, offset + total, is_4, *sources, *targets]
    keep, upper, protocol, ecn, hops_left, frame, end, is_4, *addresses = (column[good] for column in columns)
    bytes_.keep_rows(good)
    return _read_transport(records, bytes_, keep, upper, protocol, ecn, hops_left, frame, end, is_4, addresses, notes)


def _list_left_out(kind: Int64s, protocol: Int64s, is_read: Bools) -> list[str]:
    """Return a note on packets that are not TCP, UDP or pings, if there are many; none if there are a few."""
    others = np.flatnonzero(~is_read)
    if len(others) < max(1, _LEAST_SHARE * len(kind)):
        return []
    codes, counts = np.unique(np.stack((kind[others], protocol[others])), axis=1, return_counts=True)
    found: Counter[str] = Counter()
    for (one, upper), number in zip(codes.T.tolist(), counts.tolist(), strict=True):
        found[layers.name_payload(one, upper)] += number
    named = [f"{format_count(number, 'packet')} of {name}" for name, number in found.most_common()]
    return [f"left out: {join_names(named, _NAMED)}"]


def _read_header_length(bytes_: Bytes, upper: Int64s) -> Int64s:
    """Return the length of TCP's header, with its options."""
    found: Int64s = np.maximum((bytes_.read_bytes(upper + 12) >> 4) * 4, 20)
    return found


def _read_addresses(bytes_: Bytes, offset: Int64s, is_4: Bools) -> tuple[list[Int64s], list[Int64s]]:
    """Return source and destination as four words of 32 bits each; IPv4 is in the last."""

    def read_words(of_4: int, of_6: int) -> list[Int64s]:
        found = [np.where(is_4, 0, bytes_.read_32_bits(offset + of_6 + 4 * word)) for word in range(3)]
        return [*found, bytes_.read_32_bits(offset + np.where(is_4, of_4, of_6 + 12))]

    return read_words(12, 8), read_words(16, 24)


def _read_transport(
    records: Records, bytes_: Bytes, keep: Int64s, upper: Int64s, protocol: Int64s, ecn: Int64s,
    hops_left: Int64s, frame: Int64s, end: Int64s, is_4: Bools, addresses: list[Int64s], notes: list[str],
) -> Packets:  # fmt: skip
    tcp, icmp = protocol == TCP, np.isin(protocol, (ICMP, ICMPV6))
    ports = [np.where(icmp, 0, bytes_.read_16_bits(upper + place)) for place in (0, 2)]
    header = np.where(tcp, _read_header_length(bytes_, upper), 8)
    payload = np.maximum(end - upper - header, 0)
    flags = np.where(tcp, bytes_.read_16_bits(upper + 12) & 0x1FF, 0)
    # of pings: type, and the identifier with the number
    flags = np.where(icmp, bytes_.read_bytes(upper), flags)
    # of UDP the first bytes of the payload
    sequence = bytes_.read_32_bits(upper + np.where(tcp | icmp, 4, 8))
    options = _read_options(bytes_, upper, header, tcp)
    segment = np.where(flags & SYN > 0, options.segment, 0)
    ends, numbers = _number_ends(addresses, ports, is_4)
    return Packets(
        records.time_ns[keep], protocol, numbers[0], numbers[1], frame, payload, ecn, hops_left, sequence,
        np.where(tcp, bytes_.read_32_bits(upper + 8), 0), flags, options.stamp, options.echo, segment, options.sacks,
        np.where(tcp, bytes_.read_16_bits(upper + 14), 0), np.where(flags & SYN > 0, options.scale, -1), ends, notes,
        records.about,
    )  # fmt: skip


@dataclass
class _TcpOptions:
    """The options of TCP: MSS (0 without), scale of windows and timestamps (-1 without), blocks of SACK."""

    segment: Int64s
    scale: Int64s
    stamp: Int64s
    echo: Int64s
    sacks: Int64s


def _read_options(bytes_: Bytes, upper: Int64s, header: Int64s, tcp: Bools) -> _TcpOptions:
    """Return what the options of all packets say, read side by side: one option of each packet at a time.

    Nearly all stacks write timestamps first, after two fillers.
    """
    usual = tcp & (header >= 32) & (bytes_.read_32_bits(upper + 20) == 0x0101080A)
    stamp = np.where(usual, bytes_.read_32_bits(upper + 24), -1)
    echo = np.where(usual, bytes_.read_32_bits(upper + 28), -1)
    segment = np.zeros(len(upper), dtype=np.int64)
    scale = np.full(len(upper), -1, dtype=np.int64)
    sacks = [np.zeros((0, 3), dtype=np.int64)]
    at = np.where(usual, 32, 20)
    left = np.flatnonzero(tcp & (at < header))
    while len(left):
        here, place = bytes_.select_rows(left), upper[left] + at[left]
        kind = here.read_bytes(place)
        length = np.where(kind == _FILLER, 1, here.read_bytes(place + 1))
        good = (kind != 0) & ((kind == _FILLER) | (length >= 2)) & (at[left] + length <= header[left])
        is_mss, is_stamp = good & (kind == 2) & (length == 4), good & (kind == 8) & (length == 10)
        is_scale = good & (kind == 3) & (length == 3)
        segment[left[is_mss]] = here.read_16_bits(place + 2)[is_mss]
        scale[left[is_scale]] = np.minimum(here.read_bytes(place + 2)[is_scale], _MOST_SCALE)
        stamp[left[is_stamp]], echo[left[is_stamp]] = (
            here.read_32_bits(place + 2)[is_stamp],
            here.read_32_bits(place + 6)[is_stamp],
        )
        for block in range(_MOST_BLOCKS):
            has = good & (kind == 5) & (length >= 10 + 8 * block)
            first = place + 2 + 8 * block
            sacks.append(
                np.stack((left[has], here.read_32_bits(first)[has], here.read_32_bits(first + 4)[has]), axis=1)
            )
        at[left] += length
        left = left[good & (at[left] < header[left])]
    blocks = np.concatenate(sacks)
    return _TcpOptions(segment, scale, stamp, echo, blocks[np.argsort(blocks[:, 0], kind="stable")])


def _number_ends(addresses: list[Int64s], ports: list[Int64s], is_4: Bools) -> tuple[list[str], list[Int64s]]:
    """Return addresses with ports as text, and for source and destination their numbers."""
    words = [np.concatenate((addresses[word], addresses[4 + word])) for word in range(4)]
    port, four = np.concatenate(ports), np.concatenate((is_4, is_4))
    code = np.zeros(len(port), dtype=np.int64)
    if four.all():
        columns = [(words[3] << 16) | port]
    else:  # exact: numbers of what there is, column by column
        columns = [(words[0] << 32) | words[1], (words[2] << 32) | words[3], (port << 1) | four]
    for column in columns:
        _, inverse = np.unique(column, return_inverse=True)
        _, firsts, code = np.unique(
            code * (int(inverse.max(initial=0)) + 1) + inverse, return_index=True, return_inverse=True
        )
    texts = []
    for first in firsts.tolist():
        parts = [int(word[first]) for word in words]
        number = parts[3] if four[first] else parts[0] << 96 | parts[1] << 64 | parts[2] << 32 | parts[3]
        address = ipaddress.IPv4Address(number) if four[first] else ipaddress.IPv6Address(number)
        texts.append(f"{address}:{port[first]}" if four[first] else f"[{address}]:{port[first]}")
    half = len(port) // 2
    return texts, [code[:half].astype(np.int64), code[half:].astype(np.int64)]
