"""Parses the headers ahead of the IP header that counts: link layers, tags, labels and tunnels, all packets at once.

A header that is known is passed over, layer by layer, until an IP packet without another one in it is found.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dumbbell.exchange.pcap.bytes import Bytes
from dumbbell.exchange.pcap.records import Int64s

Bools = npt.NDArray[np.bool_]

IPV4, IPV6 = 0x0800, 0x86DD  # types of Ethernet: www.iana.org/assignments/ieee-802-numbers
UDP = 17
_VLAN, _MPLS, _PPPOE, _BRIDGED = (0x8100, 0x88A8, 0x9100), (0x8847, 0x8848), 0x8864, 0x6558
_PPP, _SERIAL, _LOOP, _RAW = -1, -2, -3, -4  # kinds without a type of Ethernet
# link type (LINKTYPE_ of tcpdump.org) → where the next header begins, and where its type is, or what it is
_TYPED = {1: (14, 12), 104: (4, 2), 113: (16, 14), 276: (20, 0)}
_FIXED = {
    **dict.fromkeys((12, 14, 101, 228, 229), (0, _RAW)), **dict.fromkeys((0, 108), (0, _LOOP)), 9: (0, _PPP),
    50: (0, _SERIAL), 51: (0, _PPPOE), 166: (2, _PPP), 204: (1, _PPP), 219: (0, _MPLS[0]),
}  # fmt: skip
ETHERNET = 1
_NAMES_OF_LINKS = {
    6: "Token Ring", 8: "SLIP", 10: "FDDI", 105: "IEEE 802.11", 107: "Frame Relay", 119: "IEEE 802.11 behind Prism",
    127: "IEEE 802.11 behind radiotap", 138: "IP over IEEE 1394", 163: "IEEE 802.11 behind AVS", 187: "Bluetooth",
    189: "USB", 192: "PPI, mostly of IEEE 802.11", 195: "IEEE 802.15.4", 201: "Bluetooth", 220: "USB", 227: "CAN",
    230: "IEEE 802.15.4", 239: "NFLOG of Linux", 249: "USB", 251: "Bluetooth", 253: "netlink", 273: "Zigbee",
}  # fmt: skip
_PPP_TYPES = {0x21: IPV4, 0x57: IPV6, 0x281: _MPLS[0], 0x283: _MPLS[1]}  # www.iana.org/assignments/ppp-numbers
_EXTENSIONS = (0, 43, 60)  # headers of IPv6 that are passed over: hop-by-hop, routing, destination
_VXLAN, _GENEVE, _GTP = (4789, 8472), 6081, 2152  # ports: RFC 7348 and Linux's default, RFC 8926, 3GPP TS 29.281
_MOST_LAYERS = 16
_NO_IP = 0x10000  # beyond all types of Ethernet
_NAMES = {
    0x0806: "ARP", 0x8863: "PPPoE discovery", 0x88CC: "LLDP", 0x888E: "EAPOL", 0x88E5: "MACsec, which is encrypted",
    0x8899: "Realtek's protocol", 0x88BE: "ERSPAN", 0x88F7: "PTP", 0x9000: "loopback tests",
}  # fmt: skip
_PROTOCOLS = {
    2: "IGMP", 33: "DCCP", 44: "fragments of IPv6", 50: "ESP, which is encrypted", 51: "AH", 88: "EIGRP", 89: "OSPF",
    103: "PIM", 112: "VRRP", 115: "L2TPv3", 132: "SCTP", 136: "UDP-Lite", 47: "GRE with something else than IP",
}  # fmt: skip


class _Take(Protocol):
    """Takes a layer off some packets: its length, what follows, and its name if the user has to know it."""

    def __call__(self, which: Bools, length: Int64s | int, becomes: Int64s | int, name: str = "") -> None: ...


@dataclass
class Network:
    """The IP headers that count: where they begin, and their types (0: none). `outer` are the outermost ones.

    `is_marked` is whether a tunnel around a packet has CE, which its end hands on (RFC 6040, section 4.2).
    """

    offset: Int64s
    kind: Int64s
    outer: Int64s
    outer_kind: Int64s
    is_marked: Bools
    tunnels: Counter[str]


def is_known(link: int) -> bool:
    """Whether a link type can be read."""
    return link in _TYPED or link in _FIXED


def link_name(link: int) -> str:
    """Return a link type that cannot be read, in words."""
    name = _NAMES_OF_LINKS.get(link)
    return f"link type {link}, {name}, is not read" if name else f"link type {link} is not known"


def name_payload(kind: int, protocol: int) -> str:
    """Return what a packet is that is not TCP, UDP or a ping, in words."""
    if kind in (IPV4, IPV6):
        return _PROTOCOLS.get(protocol, f"IP protocol {protocol}")
    if 0 < kind <= 1500:
        return "IEEE 802.2, as spanning trees send it"
    if kind <= 0 or kind > 0xFFFF:
        return "no IP"
    return _NAMES.get(kind, f"type 0x{kind:04x} of Ethernet")


def find_transport(read: Bytes, offset: Int64s, kind: Int64s) -> tuple[Int64s, Int64s]:
    """Return where the headers after IP begin, behind extensions of IPv6, and their protocols."""
    is_4, is_6 = kind == IPV4, kind == IPV6
    place = offset + np.where(is_4, (read.read_bytes(offset) & 15) * 4, 40)
    protocol = np.where(is_4, read.read_bytes(offset + 9), read.read_bytes(offset + 6))
    for _ in range(3):
        extended = is_6 & np.isin(protocol, _EXTENSIONS)
        if not extended.any():
            break
        following = read.read_bytes(place)
        place = np.where(extended, place + (read.read_bytes(place + 1) + 1) * 8, place)
        protocol = np.where(extended, following, protocol)
    return place, protocol


def read_network(read: Bytes, link: int) -> Network:
    """Return the IP headers that count in packets of a link type that is known."""
    count = len(read.at)
    if link in _TYPED:
        length, place = _TYPED[link]
        offset, kind = np.full(count, length, dtype=np.int64), read.read_16_bits(place)
    else:
        length, fixed = _FIXED[link]
        offset, kind = np.full(count, length, dtype=np.int64), np.full(count, fixed, dtype=np.int64)
    found = Network(offset, kind, offset.copy(), np.zeros_like(kind), np.zeros(count, dtype=bool), Counter())
    left = np.arange(count)
    for _ in range(_MOST_LAYERS):
        if not len(left):
            break
        left = _peel(read.select_rows(left), left, found)
    found.kind[~np.isin(found.kind, (IPV4, IPV6)) & (found.kind < 0)] = 0
    return found


def _peel(read: Bytes, rows: Int64s, found: Network) -> Int64s:
    """Pass over one layer of some packets, and return those that had one which has others in it."""
    offset, kind = found.offset[rows], found.kind[rows]
    step, inner = np.zeros(len(rows), dtype=np.int64), kind.copy()

    def take(which: Bools, length: Int64s | int, becomes: Int64s | int, name: str = "") -> None:
        step[which] = np.broadcast_to(length, which.shape)[which]
        inner[which] = np.broadcast_to(becomes, which.shape)[which]
        if name and which.any():
            found.tunnels[name] += int(which.sum())

    has = set(np.unique(kind).tolist())
    if _RAW in has:
        take(kind == _RAW, 0, _read_version(read, offset))
    if _LOOP in has:
        take(kind == _LOOP, 4, _read_version(read, offset + 4))
    if _SERIAL in has:
        is_ppp = read.read_bytes(offset) == 0xFF
        take((kind == _SERIAL) & is_ppp, 0, _PPP)
        take((kind == _SERIAL) & ~is_ppp, 4, read.read_16_bits(offset + 2))
    if _BRIDGED in has:
        take(kind == _BRIDGED, 14, read.read_16_bits(offset + 12))
    if has & set(_VLAN):
        take(np.isin(kind, _VLAN), 4, read.read_16_bits(offset + 2))
    if _PPPOE in has:
        take(kind == _PPPOE, 6, _PPP, "PPPoE")
    if _PPP in has:
        _take_ppp(read, offset, kind == _PPP, take)
    if has & set(_MPLS):
        is_last = np.isin(kind, _MPLS) & (read.read_32_bits(offset) & 0x100 > 0)
        take(np.isin(kind, _MPLS) & ~is_last, 4, kind)
        nibble = read.read_bytes(offset + 4) >> 4
        take(is_last & (nibble > 0), 4, _read_version(read, offset + 4), "MPLS")
        take(is_last & (nibble == 0), 8, _BRIDGED, "MPLS")  # RFC 4448, section 4.6: a control word, and Ethernet
    if any(0 < one <= 1500 for one in has):
        is_snap = (
            (kind > 0)
            & (kind <= 1500)
            & (read.read_32_bits(offset) == 0xAAAA0300)
            & (read.read_16_bits(offset + 4) == 0)
        )
        take(is_snap, 8, read.read_16_bits(offset + 6))
    is_ip = np.isin(kind, (IPV4, IPV6))
    if is_ip.any():
        first = is_ip & (found.outer_kind[rows] == 0)
        found.outer[rows[first]], found.outer_kind[rows[first]] = offset[first], kind[first]
        _take_tunnels(read, offset, np.where(is_ip, kind, 0), take)
        service = np.where(kind == IPV4, read.read_bytes(offset + 1), read.read_bytes(offset + 1) >> 4)
        found.is_marked[rows] |= is_ip & (step > 0) & (service & 3 == 3)
    changed = (step > 0) | (inner != kind)
    inside = read.at + offset + step <= read.end
    found.offset[rows] = np.where(changed & inside, offset + step, offset)
    found.kind[rows] = np.where(changed & ~inside, 0, inner)
    left: Int64s = rows[changed & inside]
    return left


def _read_version(read: Bytes, offset: Int64s) -> Int64s:
    """Return the type that the first four bits of an IP header say; a type that is none where they are others."""
    nibble = read.read_bytes(offset) >> 4
    found: Int64s = np.full(len(nibble), _NO_IP, dtype=np.int64)
    found[nibble == 4], found[nibble == 6] = IPV4, IPV6
    return found


def _take_ppp(read: Bytes, offset: Int64s, is_ppp: Bools, take: _Take) -> None:
    """Pass over PPP (RFC 1661, section 2): with the address of RFC 1662 or without, with a short protocol or a long."""
    framed = np.where(read.read_16_bits(offset) == 0xFF03, 2, 0)
    short = read.read_bytes(offset + framed) & 1 > 0
    protocol = np.where(short, read.read_bytes(offset + framed), read.read_16_bits(offset + framed))
    inner = np.full(len(offset), _NO_IP, dtype=np.int64)
    for number, kind in _PPP_TYPES.items():
        inner[protocol == number] = kind
    take(is_ppp, framed + np.where(short, 1, 2), inner)


def _take_tunnels(read: Bytes, offset: Int64s, kind: Int64s, take: _Take) -> None:
    """Pass over IP headers that have another packet in them."""
    place, protocol = find_transport(read, offset, kind)
    is_whole = (kind == IPV6) | (read.read_16_bits(offset + 6) & 0x1FFF == 0)  # no later fragment
    protocol = np.where((kind > 0) & is_whole, protocol, -1)
    header = place - offset
    has = set(np.unique(protocol).tolist())
    if 4 in has:
        take(protocol == 4, header, IPV4, "IP-in-IP")
    if 41 in has:
        take(protocol == 41, header, IPV6, "6in4")
    if 47 in has:
        _take_gre(read, place, header, protocol == 47, take)
    if UDP in has:
        port, body = np.where(protocol == UDP, read.read_16_bits(place + 2), -1), place + 8
        first, second = read.read_bytes(body), read.read_bytes(body + 1)
        take(np.isin(port, _VXLAN) & (first & 0x08 > 0), header + 16, _BRIDGED, "VXLAN")
        is_geneve = (port == _GENEVE) & (first >> 6 == 0)
        take(is_geneve, header + 16 + (first & 0x3F) * 4, read.read_16_bits(body + 2), "Geneve")
        # version 1 of GTP, and a user's packet
        is_gtp = (port == _GTP) & (first >> 4 == 3) & (second == 0xFF)
        if is_gtp.any():
            length = np.where(first & 7 > 0, 12, 8)
            following = np.where(first & 4 > 0, read.read_bytes(body + 11), 0)
            for _ in range(3):  # extension headers: TS 29.281, section 5.2.1
                more = (following > 0) & is_gtp
                size = np.where(more, read.read_bytes(body + length) * 4, 0)
                following = np.where(more & (size > 0), read.read_bytes(body + length + size - 1), 0)
                length = length + size
            inner = _read_version(read, body + length)
            take(is_gtp & np.isin(inner, (IPV4, IPV6)), header + 8 + length, inner, "GTP-U")


def _take_gre(read: Bytes, place: Int64s, header: Int64s, is_gre: Bools, take: _Take) -> None:
    """Pass over GRE: RFC 2784 and 2890, and that of PPTP with PPP in it (RFC 2637, section 4.1)."""
    flags, inner = read.read_16_bits(place), read.read_16_bits(place + 2)
    bits = [(flags & bit > 0).astype(np.int64) for bit in (0x8000, 0x2000, 0x1000, 0x0080)]
    plain = is_gre & (flags & 7 == 0) & np.isin(inner, (IPV4, IPV6, _BRIDGED, *_MPLS))
    take(plain, header + 4 + 4 * (bits[0] + bits[1] + bits[2]), inner, "GRE")
    is_pptp = is_gre & (flags & 7 == 1) & (inner == 0x880B)
    take(is_pptp & (bits[2] > 0), header + 8 + 4 * (bits[2] + bits[3]), _PPP, "GRE")
