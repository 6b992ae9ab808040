"""What a file is by how it begins, and which commands read it: said where another kind of file was asked for."""

import bz2
import contextlib
import gzip
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dumbbell.errors import Unreadable

_HEAD = 200_000  # bytes that are looked at, unpacked
# draft-ietf-opsawg-pcap-05, section 4: microseconds and nanoseconds, in both orders of bytes
PCAP = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
_PCAPNG = b"\n\r\r\n"  # draft-ietf-opsawg-pcapng-02, section 4.1: type of a section header, alike in both orders
_DUCKDB = slice(8, 12), b"DUCK"  # behind a checksum of eight bytes: duckdb.org/docs/stable/internals/storage
_QLOG = re.compile(r'"(?:qlog_version|qlog_format|file_schema|vantage_?point)"')
_FLENT = re.compile(r'\A\s*\{.*"(?:x_values|raw_values|BATCH_UUID|DATA_FILENAME)"', re.DOTALL)
_IPERF3 = re.compile(r'\A\s*\{.*"version":\s*"iperf 3', re.DOTALL)
_EXPERIMENT = re.compile(r"^[ \t]*\[{0,2}[ \t]*(?:bottleneck|flows|web|udp|matrix)[ \t]*[\].=]", re.MULTILINE)


MOST_BYTES = 2**30  # uncompressed; the largest files of Flent in public are 1/30 of it
_DAMAGED = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)


@dataclass(frozen=True)
class Packed:
    """A way of compressing: how its files begin, what unpacks them, and what unpacks `_HEAD` bytes of a beginning."""

    magic: bytes
    unpack: Callable[[bytes], bytes]
    unpack_head: Callable[[bytes], bytes]


# by the ending of a name
PACKED = {
    ".gz": Packed(b"\x1f\x8b", gzip.decompress, lambda raw: zlib.decompressobj(wbits=31).decompress(raw, _HEAD)),
    ".bz2": Packed(b"BZh", bz2.decompress, lambda raw: bz2.BZ2Decompressor().decompress(raw, _HEAD)),
    ".xz": Packed(b"\xfd7zXZ\x00", lzma.decompress, lambda raw: lzma.LZMADecompressor().decompress(raw, _HEAD)),
}


@dataclass(frozen=True)
class FileKind:
    """A kind of file, with its article, and the commands that read it, if there are any."""

    name: str
    commands: str

    def __str__(self) -> str:
        verb = "read" if " and " in self.commands else "reads"
        return f"{self.name}, which {self.commands} {verb}" if self.commands else self.name


RESULTS = FileKind("a results file", "dumbbell table, plot, report, diff, validate and explain")
EXPERIMENT = FileKind("an experiment file", "dumbbell run, explain and trace")
CAPTURE = FileKind("a capture", "dumbbell import")
FLENT = FileKind("a data file of Flent", "dumbbell import")
IPERF3 = FileKind("JSON of iperf3", "dumbbell import")
QLOG = FileKind("a qlog file", "dumbbell import and plot")
PARQUET = FileKind("a Parquet file", "")
SQLITE = FileKind("a SQLite database", "")


def is_capture(head: bytes) -> bool:
    """Whether bytes begin as a capture does."""
    return head[:4] in (*PCAP, _PCAPNG)


def is_qlog(text: str) -> bool:
    """Whether a text may be qlog."""
    return text[:1] == "\x1e" or bool(_QLOG.search(text[:_HEAD]))


def find_kind(raw: bytes) -> FileKind | None:
    """Return what bytes of a file, from its first one on, are; None if that is not known."""
    place, magic = _DUCKDB
    if raw[place] == magic:
        return RESULTS
    if raw[:4] == b"PAR1":
        return PARQUET
    if raw[:16] == b"SQLite format 3\0":
        return SQLITE
    head = _unpack(raw)
    if is_capture(head):
        return CAPTURE
    text = head.decode("utf-8", errors="replace").removeprefix("\ufeff")
    if text[:1] == "\x1e" or (text.lstrip()[:1] == "{" and is_qlog(text)):
        return QLOG
    found = ((_FLENT, FLENT), (_IPERF3, IPERF3), (_EXPERIMENT, EXPERIMENT))
    return next((kind for pattern, kind in found if pattern.search(text)), None)


def find_kind_of_file(path: str | Path) -> FileKind | None:
    """Return what a file is; None if that is not known or it cannot be read."""
    with contextlib.suppress(OSError, ValueError), Path(path).open("rb") as file:
        return find_kind(file.read(_HEAD))
    return None


def unpack(path: Path, allowed: str) -> bytes:
    """Return the bytes of a file, uncompressed. Raises InputError, which says what is `allowed`."""
    try:
        if path.is_dir():
            raise Unreadable("this is a directory", allowed, file=path)
        raw = path.read_bytes()
    except OSError as error:
        raise Unreadable((error.strerror or str(error)).lower(), allowed, file=path) from None
    try:
        packed = next((one for one in PACKED.values() if raw.startswith(one.magic)), None)
        raw = packed.unpack(raw) if packed else raw
    except _DAMAGED:
        raise Unreadable("this is a damaged compressed file", allowed, file=path) from None
    if len(raw) > MOST_BYTES:
        raise Unreadable(f"it has more than {MOST_BYTES >> 20} MiB", allowed, file=path)
    return raw


def _unpack(raw: bytes) -> bytes:
    """Return the first bytes of what is compressed in a file; of any other file, its first bytes."""
    with contextlib.suppress(*_DAMAGED):
        for one in PACKED.values():
            if raw.startswith(one.magic):
                return one.unpack_head(raw[:_HEAD])
    return raw[:_HEAD]
