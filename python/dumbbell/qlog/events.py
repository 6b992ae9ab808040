"""The events of a qlog file, in whatever form it is.

Read are JSON text sequences, one JSON object per line, and contained JSON (`traces[].events`), whose events may be
objects or lists after `event_fields` (qlog before version 0.3: picoquic, mvfst, kwik); each compressed by gzip, too.
Times are milliseconds, or what `configuration.time_units` says; absolute ones are counted from the first event of the
file on. A file that is cut off, as that of a process that was killed, is read up to there.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dumbbell.errors import Unreadable, quote_value
from dumbbell.writing import report_read_failures

_ALLOWED = "a qlog file: JSON text sequence, one JSON object per line, or contained JSON"
_SEPARATORS = "\x1e\ufeff \t\r\n"
_EPOCH = 1e9  # ms: a time above is no time since the start of a connection (11 days), but one of the calendar
_FIELDS_BEFORE_03 = ("relative_time", "category", "event", "data")  # draft-marx-qlog-main-schema-01, event_fields
_RELATIVE_TO_LAST = {"delta", "relative_to_previous_event"}


@dataclass(frozen=True)
class Event:
    """One event: its time in seconds, its name without category, and its data. `unit`: of times in its data, ms."""

    time: float
    name: str
    data: dict[str, Any]
    unit: float


@dataclass
class QlogFile:
    """The events of congestion control in order of time, what the header says, and notes on the reading.

    `falls` counts the events whose time lies before that of the one in front of them in the file.
    """

    events: list[Event]
    header: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    falls: int = 0


@dataclass
class _QlogPart:
    """A trace of a file: its events as they are there, each with its place, and what is common to them."""

    records: list[tuple[str, Any]]
    common: dict[str, Any]
    header: dict[str, Any]


def read_events(path: Path, wanted: Iterable[str]) -> QlogFile:
    """Return the events of these names, of the connection with most of them. Raises InputError."""
    files = read_connections(path, wanted)
    most = max(files, key=lambda one: len(one.events))
    if len(files) > 1:
        most.notes.append(f"{len(files)} connections with congestion control: the one with most events is judged")
    return most


def read_connections(path: Path, wanted: Iterable[str]) -> list[QlogFile]:
    """Return the events of these names by connection; one without any if there are none. Raises InputError."""
    notes: list[str] = []
    text = _read_text(path, notes)
    names = frozenset(wanted)
    parts = [_sort_events(path, part, names) for part in _split_parts(path, text, notes)]
    groups = [(found, header) for found_by_group, header in parts for found in found_by_group]
    if not groups:
        header = parts[0][1] if parts else {}
        return [QlogFile([], header, notes)]
    return [QlogFile(found, header, list(notes), _put_in_order(found)) for found, header in groups]


def _read_text(path: Path, notes: list[str]) -> str:
    with report_read_failures(path, _ALLOWED):
        raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = _decompress(path, raw, notes)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(raw) - error.start > 3:
            raise Unreadable("this is not text", _ALLOWED, file=path) from None
        return raw[: error.start].decode("utf-8")  # cut off within a letter


def _decompress(path: Path, raw: bytes, notes: list[str]) -> bytes:
    found = b""
    try:
        while raw[:2] == b"\x1f\x8b":  # members one after another
            one = zlib.decompressobj(16 + zlib.MAX_WBITS)
            found += one.decompress(raw)
            if not one.eof:
                notes.append("the compressed file is cut off: read up to there")
            raw = one.unused_data
    except zlib.error:
        raise Unreadable("this is a damaged gzip file", _ALLOWED, file=path) from None
    return found


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _split_parts(path: Path, text: str, notes: list[str]) -> Iterator[_QlogPart]:
    """Return the traces of a file."""
    text = text.strip(_SEPARATORS)
    if not text:
        raise Unreadable("the file is empty", _ALLOWED, file=path)
    first, _, _ = text.partition("\n")
    try:
        value = _parse_json(first.strip(_SEPARATORS))
        lines = not (isinstance(value, dict) and isinstance(value.get("traces"), list))
    except ValueError:
        lines = False
        if not re.search(r'"(traces|events)"', text[:100_000]):
            if first == text and text.startswith("{"):
                notes.append("cut off in line 1: nothing before it")
                return
            raise Unreadable(f"this is {quote_value(first[:40])}", _ALLOWED, file=path, key="line 1") from None
    if lines:
        yield _parse_lines(path, text, notes)
        return
    try:
        value = _parse_json(text)
    except ValueError:
        yield _salvage_events(path, text, notes)
        return
    traces = value.get("traces") if isinstance(value, dict) else None
    if not isinstance(traces, list):
        traces = [value]  # one trace without the frame of a file
    for trace in traces:
        if isinstance(trace, dict) and isinstance(trace.get("events"), list):
            records = [(f"event {number}", one) for number, one in enumerate(trace["events"], 1)]
            yield _QlogPart(records, _find_common_fields(trace), trace)


def _parse_lines(path: Path, text: str, notes: list[str]) -> _QlogPart:
    part = _QlogPart([], {}, {})
    # the separator of records would be an end of a line to splitlines()
    lines = [(number, line.strip(_SEPARATORS)) for number, line in enumerate(text.split("\n"), 1)]
    lines = [(number, line) for number, line in lines if line]
    for number, line in lines:
        try:
            value = _parse_json(line)
        except ValueError:
            if number == lines[-1][0] and len(lines) > 1:
                notes.append(f"cut off in line {number}, its last: read up to there")
                break
            raise Unreadable(f"this is {quote_value(line[:40])}", _ALLOWED, file=path, key=f"line {number}") from None
        if not isinstance(value, dict):
            raise Unreadable(f"this is {quote_value(line[:40])}", "a JSON object", file=path, key=f"line {number}")
        if "name" in value or ("event" in value and "data" in value):
            part.records.append((f"line {number}", value))
        elif isinstance(value.get("trace"), dict):
            part.header |= value["trace"]
            part.common |= _find_common_fields(value["trace"])
    return part


def _find_common_fields(trace: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of all events of a trace, in one table."""
    found: dict[str, Any] = {}
    for key in ("configuration", "common_fields"):
        if isinstance(trace.get(key), dict):
            found |= trace[key]
    if isinstance(trace.get("event_fields"), list):
        found["event_fields"] = trace["event_fields"]
    return found


def _salvage_events(path: Path, text: str, notes: list[str]) -> _QlogPart:
    """Return the events of contained JSON that ends before its end."""
    decoder = json.JSONDecoder()
    start = re.search(r'"events"\s*:\s*\[', text)
    if start is None:
        raise Unreadable(f"it begins with {quote_value(text[:40])}", _ALLOWED, file=path)
    head: dict[str, Any] = {}
    for key in ("configuration", "common_fields", "event_fields"):
        found = re.search(rf'"{key}"\s*:\s*', text[: start.start()])
        if found is not None:
            try:
                head[key] = decoder.raw_decode(text, found.end())[0]
            except (ValueError, RecursionError):
                continue
    records: list[tuple[str, Any]] = []
    place = start.end()
    while True:
        place += len(re.match(r"[\s,]*", text[place : place + 1000])[0])  # type: ignore[index]
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        records.append((f"event {len(records) + 1}", value))
    notes.append(f"cut off or damaged after event {len(records)}: read up to there")
    return _QlogPart(records, _find_common_fields(head), {})


def _sort_events(path: Path, part: _QlogPart, wanted: frozenset[str]) -> tuple[list[list[Event]], dict[str, Any]]:
    """Return the wanted events of a trace, apart by connection, and its header."""
    unit = 1e-3 if str(part.common.get("time_units")) == "us" else 1.0
    steps = str(part.common.get("time_format", "")) in _RELATIVE_TO_LAST
    names = part.common.get("event_fields")
    columns = [str(one).lower() for one in names] if isinstance(names, list) and names else list(_FIELDS_BEFORE_03)
    found: dict[str, list[Event]] = {}
    first: float | None = None
    now = 0.0
    for place, record in part.records:
        event = dict(zip(columns, record, strict=False)) if isinstance(record, list) else record
        if not isinstance(event, dict):
            raise Unreadable(f"this is {quote_value(event, 40)}", "an event", file=path, key=place)
        name = str(event.get("name") or event.get("event") or event.get("event_type") or event.get("type"))
        name = name.rpartition(":")[2].lower()
        time = _parse_time(event.get("time", event.get("relative_time")))
        if time is not None:
            now = now + time * unit if steps else time * unit
            first = now if first is None else first
        if name not in wanted:
            continue
        data = event.get("data")
        if not isinstance(data, dict) or time is None:
            raise Unreadable(f"this is {quote_value(record, 40)}", "an event with time and data", file=path, key=place)
        since = now - first if first is not None and first > _EPOCH else now
        group = str(event.get("group_id", event.get("ODCID", event.get("odcid", ""))))
        found.setdefault(group, []).append(Event(since / 1e3, name, data, unit))
    return list(found.values()), part.header


def _put_in_order(found: list[Event]) -> int:
    """Sort events by time; return how many of them were behind a later one."""
    falls = sum(after.time < before.time for before, after in itertools.pairwise(found))
    found.sort(key=lambda event: event.time)
    return falls


def _parse_time(value: Any) -> float | None:
    """Return a time as a number: mvfst writes it as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        time = float(value)
    except OverflowError:
        return None
    return time if math.isfinite(time) else None
