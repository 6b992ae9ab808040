"""The packets of pcap and pcapng files: where they are, when they were captured, how long they were."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dumbbell import file_kinds
from dumbbell.errors import Nothing, Unreadable, escape_line
from dumbbell.words import format_count

ALLOWED = "a capture: pcap or pcapng"
# magic number → order of bytes, fractions of a second
_PCAP = dict(zip(file_kinds.PCAP, (("<", 10**6), (">", 10**6), ("<", 10**9), (">", 10**9)), strict=True))
_SECTION, _INTERFACE, _OLD, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
_MOST_CAPTURED = 2**26  # bytes of a packet: more is damage
_MOST_OPTIONS = 2**17  # bytes of a packet's block without the packet
_ABOUT = {4: "written by", 1: "comment"}  # options of a section
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

    raw: bytes
    data: npt.NDArray[np.uint8]
    at: Int64s
    captured: Int64s
    length: Int64s
    time_ns: Int64s
    interface: Int64s
    interfaces: list[Interface]
    notes: list[str] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    """What the file says of itself: `written by`, `comment`."""


class _Columns:
    """Columns of packets, section by section."""

    def __init__(self) -> None:
        self._parts: list[tuple[Int64s, ...]] = []
        self.count = 0

    def add(self, *columns: Int64s) -> None:
        """Add packets: place, captured length, length, time, interface."""
        self._parts.append(columns)
        self.count += len(columns[0])

    def make_records(
        self, raw: bytes, interfaces: list[Interface], notes: list[str], about: dict[str, str] | None = None
    ) -> Records:
        empty = np.zeros(0, dtype=np.int64)
        at, captured, length, time_ns, interface = (
            np.concatenate([empty, *(part[place] for part in self._parts)]) for place in range(5)
        )
        data = np.frombuffer(raw, np.uint8)
        return Records(raw, data, at, captured, length, time_ns, interface, interfaces, notes, about or {})


def view_words(raw: bytes, kind: str) -> npt.NDArray[Any]:
    """Return the numbers of a kind, `>u4`, that begin at every byte: an index is a place."""
    size = np.dtype(kind).itemsize
    return np.ndarray((max(0, len(raw) - size + 1),), kind, buffer=raw, strides=(1,))


def read(path: Path, raw: bytes) -> Records:
    """Return the packets of a capture. A file that is cut off is read up to there. Raises InputError."""
    found = _read_pcap(path, raw) if raw[:4] in _PCAP else _read_pcapng(path, raw)
    if not len(found.at):
        raise Nothing(
            "found no packet" + f" ({'; '.join(found.notes)})" * bool(found.notes), "a capture of traffic", file=path
        )
    return found


def _read_pcap(path: Path, raw: bytes) -> Records:
    if len(raw) < 24:
        raise Unreadable("the capture is cut off in its header", ALLOWED, file=path)
    order, per_second = _PCAP[raw[:4]]
    (link,) = struct.unpack_from(f"{order}I", raw, 20)
    unpack = struct.Struct(f"{order}I").unpack_from
    notes, found = [], array("q")
    place, end, append = 24, len(raw), found.append
    while place + 16 <= end:
        (kept,) = unpack(raw, place + 8)
        if kept > _MOST_CAPTURED:
            notes.append(f"damaged after packet {len(found)}: read up to there")
            break
        if place + 16 + kept > end:
            notes.append(f"cut off after packet {len(found)}: read up to there")
            break
        append(place)
        place += 16 + kept
    if not notes and place < end:
        notes.append(f"cut off after packet {len(found)}: read up to there")
    at, number = np.array(found, dtype=np.int64), view_words(raw, f"{order}u4")
    columns = _Columns()
    if len(at):
        seconds, fraction, kept_, whole = (number[at + 4 * one].astype(np.int64) for one in range(4))
        columns.add(at + 16, kept_, whole, seconds * 10**9 + fraction * (10**9 // per_second), np.zeros_like(at))
    return columns.make_records(raw, [Interface(link & 0xFFFF, per_second=per_second)], notes)


def _read_pcapng(path: Path, raw: bytes) -> Records:
    columns, notes = _Columns(), []
    interfaces: list[Interface] = []
    first, order, place, end = 0, "<", 0, len(raw)  # first: number of the first interface of the section
    about: dict[str, str] = {}
    timeless, found, old = 0, array("q"), array("q")
    unpack = struct.Struct("<II").unpack_from
    while place + 12 <= end:
        kind, size = unpack(raw, place)
        if kind == _SECTION:
            magic = raw[place + 8 : place + 12]
            if magic not in (b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a"):
                raise Unreadable("this is not the head of a section", ALLOWED, file=path, key=f"byte {place}")
            _add_section(columns, raw, (found, old), order, interfaces, first)
            found, old = array("q"), array("q")
            order, first = (">" if magic[0] == 0x1A else "<"), len(interfaces)
            unpack = struct.Struct(f"{order}II").unpack_from
            kind, size = unpack(raw, place)
        if size < 12 or size % 4 or place + size > end:
            what = "damaged" if _is_damaged(raw, place, kind, size, order) else "cut off"
            notes.append(f"{what} after packet {columns.count + len(found) + len(old)}: read up to there")
            break
        if kind == _SECTION and not about:
            for code, value in _read_options(raw, place + 24, place + size - 4, order):
                if code in _ABOUT:
                    about[_ABOUT[code]] = escape_line(value.decode("utf-8", "replace"))[:200]
        elif kind == _ENHANCED and size >= 32:
            found.append(place)
        elif kind == _OLD and size >= 32:
            old.append(place)
        elif kind == _INTERFACE and size >= 20:
            interfaces.append(_read_interface(raw, place + 8, place + size - 4, order))
        elif kind == _SIMPLE:
            timeless += 1
        place += size
    if not notes and place < end:
        notes.append(f"cut off after packet {columns.count + len(found) + len(old)}: read up to there")
    _add_section(columns, raw, (found, old), order, interfaces, first)
    if timeless:
        notes.append(f"left out: {format_count(timeless, 'packet')} without a time")
    return columns.make_records(raw, interfaces, notes, about)


def _is_damaged(raw: bytes, place: int, kind: int, size: int, order: str) -> bool:
    """Whether the last block has a length that it cannot have; else the file ends in it."""
    if size < 12 or size % 4 or size > _MOST_CAPTURED:
        return True
    if kind != _ENHANCED or place + 24 > len(raw):
        return False
    (kept,) = struct.unpack_from(f"{order}I", raw, place + 20)
    return not 32 <= size - kept <= _MOST_OPTIONS


def _add_section(
    columns: _Columns,
    raw: bytes,
    blocks: tuple[array[int], array[int]],
    order: str,
    interfaces: list[Interface],
    first: int,
) -> None:
    """Add the packets of a section: places of blocks of the usual kind, and of the old one."""
    own = interfaces[first:]
    if not own:
        return
    number, short = view_words(raw, f"{order}u4"), view_words(raw, f"{order}u2")
    per_second = np.array([one.per_second for one in own], dtype=object)
    for is_old, places in enumerate(blocks):
        at = np.array(places, dtype=np.int64)
        if not len(at):
            continue
        interface = (short[at + 8] if is_old else number[at + 8]).astype(np.int64)
        size, high, low, kept, whole = (number[at + place].astype(np.int64) for place in (4, 12, 16, 20, 24))
        good = (interface < len(own)) & (kept <= size - 32)
        at, interface, high, low, kept, whole = (one[good] for one in (at, interface, high, low, kept, whole))
        time = np.zeros(len(at), dtype=np.int64)
        for one in np.unique(interface).tolist():
            mine = interface == one
            ticks = (high[mine] << 32) | low[mine]
            time[mine] = _to_nanoseconds(ticks, int(per_second[one])) + own[one].offset_s * 10**9
        columns.add(at + 28, kept, whole, time, interface + first)


def _to_nanoseconds(ticks: Int64s, per_second: int) -> Int64s:
    ticks = np.clip(ticks, 0, 2**62)
    if 10**9 % per_second == 0:
        return np.clip(ticks, 0, 2**62 // (10**9 // per_second)) * (10**9 // per_second)
    if per_second % 10**9 == 0:
        return ticks // (per_second // 10**9)
    return np.array([min(int(one) * 10**9 // per_second, 2**62) for one in ticks.tolist()], dtype=np.int64)


def _read_interface(raw: bytes, body: int, last: int, order: str) -> Interface:
    one = Interface(struct.unpack_from(f"{order}H", raw, body)[0])
    for code, value in _read_options(raw, body + 8, last, order):
        if code == _NAME:
            one.name = value.decode("utf-8", "replace")[:40]
        elif code == _RESOLUTION and len(value) == 1:
            bits = value[0] & 0x7F
            one.per_second = 2 ** min(bits, 62) if value[0] & 0x80 else 10 ** min(bits, 18)
        elif code == _OFFSET and len(value) == 8:
            one.offset_s = max(-(2**32), min(struct.unpack(f"{order}q", value)[0], 2**32))
    return one


def _read_options(raw: bytes, place: int, last: int, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield the options of a block up to the byte `last`: code and value."""
    while place + 4 <= last:
        code, length = struct.unpack_from(f"{order}HH", raw, place)
        if code == 0:
            return
        yield code, raw[place + 4 : min(place + 4 + length, last)]
        place += 4 + length + (-length % 4)
