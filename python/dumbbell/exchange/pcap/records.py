"""The packets of pcap and pcapng files: where they are, when they were captured, how long they were."""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dumbbell.errors import Nothing, Unreadable

ALLOWED = "a capture: pcap or pcapng"
_PCAP = {  # magic number → order of bytes, fractions of a second
    b"\xd4\xc3\xb2\xa1": ("<", 10**6),
    b"\xa1\xb2\xc3\xd4": (">", 10**6),
    b"\x4d\x3c\xb2\xa1": ("<", 10**9),
    b"\xa1\xb2\x3c\x4d": (">", 10**9),
}
_SECTION, _INTERFACE, _OLD, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
_MOST_CAPTURED = 2**26  # bytes of a packet: more is damage
_NAME, _RESOLUTION, _OFFSET = 2, 9, 14  # options of an interface

Int64s = npt.NDArray[np.int64]


@dataclass
class Interface:
    """Where packets were captured: its link type, its name, and how its clock counts."""

    link: int
    name: str = ""
    per_second: int = 10**6
    offset_s: int = 0


@dataclass
class Records:
    """The packets of a file, in its order: place and length of what was captured, length on the wire, time in ns."""

    data: npt.NDArray[np.uint8]
    at: Int64s
    captured: Int64s
    length: Int64s
    time_ns: Int64s
    interface: Int64s
    interfaces: list[Interface]
    notes: list[str] = field(default_factory=list)


def is_capture(raw: bytes) -> bool:
    """Whether bytes begin as a capture does."""
    return raw[:4] in _PCAP or raw[:4] == b"\n\r\r\n"


class _Columns:
    def __init__(self) -> None:
        self.at, self.captured, self.length, self.time, self.interface = (array("q") for _ in range(5))

    def records(self, raw: bytes, interfaces: list[Interface], notes: list[str]) -> Records:
        columns = (self.at, self.captured, self.length, self.time, self.interface)
        return Records(np.frombuffer(raw, np.uint8), *(np.array(one, dtype=np.int64) for one in columns), interfaces, notes)


def read(path: Path, raw: bytes) -> Records:
    """Return the packets of a capture. A file that is cut off is read up to there. Raises InputError."""
    found = _pcap(path, raw) if raw[:4] in _PCAP else _pcapng(path, raw)
    if not len(found.at):
        raise Nothing(str(path), "", "no packet" + f" ({'; '.join(found.notes)})" * bool(found.notes), "a capture of traffic")
    return found


def _pcap(path: Path, raw: bytes) -> Records:
    if len(raw) < 24:
        raise Unreadable(str(path), "", "the capture is cut off in its header", ALLOWED)
    order, per_second = _PCAP[raw[:4]]
    (link,) = struct.unpack_from(f"{order}I", raw, 20)
    unpack = struct.Struct(f"{order}IIII").unpack_from
    columns, notes = _Columns(), []
    place, end, scale = 24, len(raw), 10**9 // per_second
    at, captured, length, time = (one.append for one in (columns.at, columns.captured, columns.length, columns.time))
    while place + 16 <= end:
        seconds, fraction, kept, whole = unpack(raw, place)
        place += 16
        if kept > _MOST_CAPTURED:
            notes.append(f"damaged after packet {len(columns.at)}: read up to there")
            break
        if place + kept > end:
            notes.append(f"cut off after packet {len(columns.at)}: read up to there")
            break
        at(place)
        captured(kept)
        length(whole)
        time(seconds * 10**9 + fraction * scale)
        place += kept
    columns.interface = array("q", bytes(8 * len(columns.at)))
    return columns.records(raw, [Interface(link & 0xFFFF, per_second=per_second)], notes)


def _pcapng(path: Path, raw: bytes) -> Records:
    columns, notes = _Columns(), []
    interfaces: list[Interface] = []
    first, order, place, end = 0, "<", 0, len(raw)  # first: number of the first interface of the section
    timeless = 0
    while place + 12 <= end:
        kind = struct.unpack_from("<I", raw, place)[0]
        if kind == _SECTION:
            magic = raw[place + 8 : place + 12]
            if magic not in (b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a"):
                raise Unreadable(str(path), f"byte {place}", "this is not the head of a section", ALLOWED)
            order, first = (">" if magic[0] == 0x1A else "<"), len(interfaces)
        kind, size = struct.unpack_from(f"{order}II", raw, place)
        if size < 12 or size % 4 or place + size > end:
            what = "cut off" if size >= 12 and not size % 4 else "damaged"
            notes.append(f"{what} after packet {len(columns.at)}: read up to there")
            break
        body, last = place + 8, place + size - 4
        if kind == _INTERFACE and size >= 20:
            interfaces.append(_interface(raw, body, last, order))
        elif kind in (_ENHANCED, _OLD) and size >= 32:
            if kind == _ENHANCED:
                number, high, low, kept, whole = struct.unpack_from(f"{order}IIIII", raw, body)
            else:
                number, _, high, low, kept, whole = struct.unpack_from(f"{order}HHIIII", raw, body)
            number += first
            if number < len(interfaces) and body + 20 + kept <= last:
                one = interfaces[number]
                ticks = (high << 32) | low
                columns.at.append(body + 20)
                columns.captured.append(kept)
                columns.length.append(whole)
                columns.time.append(min(ticks * 10**9 // one.per_second + one.offset_s * 10**9, 2**62))
                columns.interface.append(number)
        elif kind == _SIMPLE:
            timeless += 1
        place += size
    if timeless:
        notes.append(f"{timeless} packets without a time are left out")
    return columns.records(raw, interfaces, notes)


def _interface(raw: bytes, body: int, last: int, order: str) -> Interface:
    one = Interface(struct.unpack_from(f"{order}H", raw, body)[0])
    place = body + 8
    while place + 4 <= last:
        code, length = struct.unpack_from(f"{order}HH", raw, place)
        value = raw[place + 4 : min(place + 4 + length, last)]
        if code == 0:
            break
        if code == _NAME:
            one.name = value.decode("utf-8", "replace")[:40]
        elif code == _RESOLUTION and len(value) == 1:
            bits = value[0] & 0x7F
            one.per_second = 2 ** min(bits, 62) if value[0] & 0x80 else 10 ** min(bits, 18)
        elif code == _OFFSET and len(value) == 8:
            one.offset_s = max(-(2**32), min(struct.unpack(f"{order}q", value)[0], 2**32))
        place += 4 + length + (-length % 4)
    return one
