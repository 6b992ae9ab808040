"""Which format a file is in, and its reader."""

from __future__ import annotations

import json
from pathlib import Path

from dumbbell import file_kinds
from dumbbell.errors import Nothing, Unreadable, shown
from dumbbell.exchange import iperf3, ss
from dumbbell.exchange.flent import file as flent_file
from dumbbell.exchange.flent import read as flent
from dumbbell.exchange.measured import Measured

ALLOWED = "a file of Flent, iperf3 --json, ss -ti with times, pcap, pcapng or qlog"


def read(path: Path, interval_s: float | None = None) -> Measured:
    """Return what a file measured, in whatever format it is. Raises InputError.

    `interval_s` is the length of the intervals of series that are made of packets or events, and the time between
    rounds of ss without times.
    """
    from dumbbell.exchange import pcap, qlog

    try:
        if path.is_dir():
            raise Unreadable("this is a directory", ALLOWED, file=path)
        raw = flent_file.content(path)
    except Unreadable as error:
        raise Unreadable(error.found, ALLOWED, file=path) from None
    if not raw.strip():
        raise Unreadable("the file is empty", ALLOWED, file=path)
    if file_kinds.is_capture(raw):
        return pcap.read(path, raw, interval_s)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _unknown(path, raw, f"the bytes {raw[:8].hex(' ')}") from None
    if file_kinds.is_qlog(text):
        return qlog.read(path, interval_s)
    if text.lstrip()[:1] in "{[":
        return _of_json(path, text)
    if ss.looks_like(text):
        return ss.read(path, text, interval_s)
    raise _unknown(path, raw, shown(text.strip()[:40]))


def _unknown(path: Path, raw: bytes, head: str) -> Unreadable:
    """Return the error of a file for which there is no reader here."""
    kind = file_kinds.of_bytes(raw)
    return Unreadable(f"this is {kind}" if kind else f"it begins with {head}", ALLOWED, file=path)


def _of_json(path: Path, text: str) -> Measured:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if (value := iperf3.of_lines(text)) is None:
            raise Unreadable("this is JSON that is cut off or damaged", ALLOWED, file=path) from None
    if isinstance(value, dict) and value.keys() == {"event", "data"}:
        value = iperf3.of_lines(text)
    if flent_file.is_flent(value):
        return flent.of_data(flent_file.parsed(path, value))
    if iperf3.is_iperf3(value):
        return iperf3.of_document(path, value)
    if isinstance(value, dict) and set(value) == {"error"}:
        raise Nothing(f"iperf3 says {shown(value['error'])}", "the JSON of a test that ran", file=path)
    raise Unreadable(f"this is JSON of something else: {shown(value, 40)}", ALLOWED, file=path)
