"""The formats that can be imported: one `FormatReader` each."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell import file_kinds
from dumbbell.errors import Nothing, Unreadable, quote_value
from dumbbell.exchange import iperf3, ss
from dumbbell.exchange.flent import file as flent_file
from dumbbell.exchange.flent import read as flent
from dumbbell.exchange.measurement import Measurement


@dataclass(frozen=True)
class Content:
    """A file that was read: its bytes, uncompressed."""

    path: Path
    raw: bytes

    @functools.cached_property
    def text(self) -> str:
        """What it has as text; empty if it is a capture or no UTF-8."""
        try:
            return "" if file_kinds.is_capture(self.raw) else self.raw.decode("utf-8")
        except UnicodeDecodeError:
            return ""

    @property
    def is_json(self) -> bool:
        """Whether it is JSON, or cut off JSON, but not qlog, which may be much longer than anything else."""
        return self.text.lstrip()[:1] in ("{", "[") and not file_kinds.is_qlog(self.text)

    @property
    def is_plain(self) -> bool:
        """Whether it is text that is neither JSON nor qlog."""
        return not self.is_json and not file_kinds.is_qlog(self.text)

    @functools.cached_property
    def json(self) -> Any:
        """What it has as JSON; None if it is none. Raises InputError if it is damaged."""
        if not self.is_json:
            return None
        try:
            value = json.loads(self.text)
        except (ValueError, RecursionError):
            if (value := iperf3.parse_lines(self.text)) is None:
                raise Unreadable("this is JSON that is cut off or damaged", ALLOWED, file=self.path) from None
        if isinstance(value, dict) and value.keys() == {"event", "data"}:
            value = iperf3.parse_lines(self.text)
        return value


@dataclass(frozen=True)
class FormatReader:
    """A format: its title, how names of its files end, what tells it from others, and what reads it.

    `read` also gets the length of the intervals of series that are made of packets or events, s, and the time between
    rounds of ss without times.
    """

    title: str
    endings: tuple[str, ...]
    sniff: Callable[[Content], bool]
    read: Callable[[Content, float | None], Measurement]


def _read_capture(content: Content, interval_s: float | None) -> Measurement:
    from dumbbell.exchange import pcap

    return pcap.read(content.path, content.raw, interval_s)


def _read_qlog(content: Content, interval_s: float | None) -> Measurement:
    from dumbbell.exchange import qlog_import

    return qlog_import.read(content.path, interval_s)


READERS = (
    FormatReader(
        "Flent",
        (".flent", ".flnt"),
        lambda content: flent_file.is_flent(content.json),
        lambda content, _: flent.read_measurement(flent_file.parse_data(content.path, content.json)),
    ),
    FormatReader(
        "iperf3 --json",
        (".json",),
        lambda content: iperf3.is_iperf3(content.json),
        lambda content, _: iperf3.read_document(content.path, content.json),
    ),
    FormatReader(
        "ss -ti with times",
        (".txt", ".log"),
        lambda content: content.is_plain and ss.is_ss_log(content.text),
        lambda content, interval_s: ss.read(content.path, content.text, interval_s),
    ),
    FormatReader(
        "pcap, pcapng", (".pcapng", ".pcap"), lambda content: file_kinds.is_capture(content.raw), _read_capture
    ),
    FormatReader("qlog", (".sqlog", ".qlog"), lambda content: file_kinds.is_qlog(content.text), _read_qlog),
)
TITLES = [one.title for one in READERS]
ALLOWED = f"a file of {', '.join(TITLES[:-1])} or {TITLES[-1]}"


def read(path: Path, interval_s: float | None = None) -> Measurement:
    """Return what a file measured, in whatever format it is, with series of `interval_s`. Raises InputError."""
    content = Content(path, file_kinds.unpack(path, ALLOWED))
    if not content.raw.strip():
        raise Unreadable("the file is empty", ALLOWED, file=path)
    for reader in READERS:
        if reader.sniff(content):
            return reader.read(content, interval_s)
    value = content.json
    if isinstance(value, dict) and set(value) == {"error"}:
        raise Nothing(f"iperf3 says {quote_value(value['error'])}", "the JSON of a test that ran", file=path)
    if content.is_json:
        raise Unreadable(f"this is JSON of something else: {quote_value(value, 40)}", ALLOWED, file=path)
    kind = file_kinds.find_kind(content.raw)
    begins = quote_value(content.text.strip()[:40]) if content.text else f"the bytes {content.raw[:8].hex(' ')}"
    raise Unreadable(f"this is {kind}" if kind else f"it begins with {begins}", ALLOWED, file=path)


def strip_endings(name: str) -> str:
    """Return the name of a file without the endings of its format."""
    for ending in [*file_kinds.PACKED, *(ending for one in READERS for ending in one.endings)]:
        if name.lower().endswith(ending) and len(name) > len(ending):
            name = name[: -len(ending)]
    return name
