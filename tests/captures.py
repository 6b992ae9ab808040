"""Captures made by hand: frames, and pcap and pcapng files of them."""

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass

SYN, FIN, RST, ACK = 0x02, 0x01, 0x04, 0x10
SENDER, RECEIVER = "10.0.0.1", "10.0.0.2"
PORTS = (40000, 5201)
HEADERS = 14 + 20 + 32  # Ethernet, IPv4, TCP with timestamps


@dataclass(frozen=True)
class Frame:
    """What is captured when, in s; `length` is that on the wire."""

    time: float
    content: bytes
    length: int


def ip(payload: bytes, source: str, target: str, protocol: int, ecn: int = 0, more: int = 0, ttl: int = 64) -> bytes:
    """Return a packet of IPv4 or IPv6 around `payload`, which `more` bytes would follow."""
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(target)
    if a.version == 4:
        total = 20 + len(payload) + more
        return (
            struct.pack(">BBHHHBBH", 0x45, ecn, total if total < 65536 else 0, 1, 0, ttl, protocol, 0)
            + a.packed
            + b.packed
            + payload
        )
    return (
        struct.pack(">IHBB", 0x60000000 | ecn << 20, len(payload) + more, protocol, ttl) + a.packed + b.packed + payload
    )


def ethernet(packet: bytes, tags: int = 0) -> bytes:
    """Return an Ethernet frame, with VLAN tags."""
    kind = b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd"
    return bytes(12) + b"\x81\x00\x00\x05" * tags + kind + packet


def tcp(
    time: float,
    payload: int = 0,
    sequence: int = 0,
    acknowledged: int = 0,
    flags: int = ACK,
    *,
    back: bool = False,
    ecn: int = 0,
    stamps: tuple[int, int] | None = None,
    hosts: tuple[str, str] = (SENDER, RECEIVER),
    ports: tuple[int, int] = PORTS,
    segment: int = 0,
    tags: int = 0,
    kept: int = 0,
) -> Frame:
    """Return a segment from sender to receiver, or `back`; of its payload `kept` bytes are captured."""
    options = b"\x02\x04" + struct.pack(">H", segment) if segment else b""
    if stamps is not None:
        options = (
            b"\x01\x01\x08\x0a" + struct.pack(">II", *stamps)
            if not segment
            else options + b"\x08\x0a" + struct.pack(">II", *stamps)
        )
    options += b"\x01" * (-len(options) % 4)
    sides, numbers = (hosts[::-1], ports[::-1]) if back else (hosts, ports)
    offset = (20 + len(options)) // 4
    header = struct.pack(
        ">HHIIHHHH", *numbers, sequence % 2**32, acknowledged % 2**32, offset << 12 | flags, 65535, 0, 0
    )
    content = header + options + bytes(kept)
    whole = ethernet(ip(content, *sides, 6, ecn, payload - kept), tags)
    return Frame(time, whole, len(whole) + payload - kept)


def udp(
    time: float,
    payload: int,
    ports: tuple[int, int] = (1000, 2000),
    *,
    back: bool = False,
    ecn: int = 0,
    kept: bytes = b"",
) -> Frame:
    """Return a datagram, of whose payload `kept` is captured."""
    sides, numbers = ((RECEIVER, SENDER), ports[::-1]) if back else ((SENDER, RECEIVER), ports)
    packet = ip(struct.pack(">HHHH", *numbers, 8 + payload, 0) + kept, *sides, 17, ecn, payload - len(kept))
    return Frame(time, ethernet(packet), len(ethernet(packet)) + payload - len(kept))


def ping(time: float, number: int, *, back: bool = False, ttl: int = 64, payload: int = 56) -> Frame:
    """Return an echo request, or its answer."""
    sides = (RECEIVER, SENDER) if back else (SENDER, RECEIVER)
    packet = ip(struct.pack(">BBHHH", 0 if back else 8, 0, 0, 7, number) + bytes(payload), *sides, 1, ttl=ttl)
    return Frame(time, ethernet(packet), len(ethernet(packet)))


def pcap(frames: Iterable[Frame], *, order: str = "<", nano: bool = False, link: int = 1, cut: int = 0) -> bytes:
    """Return a pcap file; with `cut`, `cut` bytes are missing at its end."""
    scale = 10**9 if nano else 10**6
    made = struct.pack(f"{order}IHHIIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)
    for one in frames:
        ticks = round(one.time * scale)
        made += struct.pack(f"{order}IIII", ticks // scale, ticks % scale, len(one.content), one.length) + one.content
    return made[: len(made) - cut]


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Return a block of pcapng."""
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    return struct.pack(f"{order}II", kind, size) + body + struct.pack(f"{order}I", size)


def pcapng(
    frames: Iterable[Frame],
    *,
    order: str = "<",
    resolution: int = 9,
    link: int = 1,
    interface: int = 0,
    others: int = 0,
) -> bytes:
    """Return a pcapng file with `others` more interfaces, on which nothing was captured."""
    made = block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    options = struct.pack(f"{order}HHB3x", 9, 1, resolution) + struct.pack(f"{order}HH", 0, 0)
    made += block(1, struct.pack(f"{order}HHI", link, 0, 0) + options, order) * (1 + others)
    for one in frames:
        ticks = round(one.time * 10**resolution)
        head = struct.pack(f"{order}IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(one.content), one.length)
        made += block(6, head + one.content, order)
    return made
