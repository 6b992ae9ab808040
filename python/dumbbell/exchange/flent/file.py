"""The container of a Flent data file: JSON, plain or compressed, and its checked parts."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dumbbell import file_kinds
from dumbbell.errors import Unreadable, quote_value
from dumbbell.exchange.measurement import SAME_S, Floats, read_number

ALLOWED = "a data file of Flent: .flent, .flent.gz or .flent.bz2"
NEWEST = 4
_SHORT = 40
_AROUND_S = 3600.0  # before and after a test
_ZONES_S, _FARTHEST_ZONE_S = 900.0, 50_400.0  # time zones are quarters of an hour apart, and up to 14 hours from UTC


@dataclass
class Raw:
    """Samples of one series: their times from the start of the test, s, and what was measured at each, by key."""

    times: Floats
    values: dict[str, Floats]


@dataclass
class Data:
    """A data file. `results` are on `x`, s from the start; NaN is a gap."""

    path: Path
    version: int
    x: Floats
    results: dict[str, Floats]
    raw: dict[str, Raw]
    metadata: dict[str, Any]

    @property
    def series_meta(self) -> dict[str, dict[str, Any]]:
        """What is said of each series."""
        found = self.metadata.get("SERIES_META")
        return {key: one for key, one in found.items() if isinstance(one, dict)} if isinstance(found, dict) else {}

    def get_text(self, key: str) -> str:
        """Return a text of the metadata; empty if it is none."""
        found = self.metadata.get(key)
        return found if isinstance(found, str) else ""


def parse_data(path: Path, value: Any) -> Data:
    """Return the parts of a data file that was read as JSON. Raises InputError."""
    if not isinstance(value, dict):
        raise Unreadable(f"this is {quote_value(value, _SHORT)}", ALLOWED, file=path)
    version = value.get("version", 1)
    if type(version) is not int or not 1 <= version <= NEWEST:
        raise Unreadable(f"this is {quote_value(version, _SHORT)}", f"1 to {NEWEST}", file=path, key="version")
    for key, kind, words in (("x_values", list, "a list"), ("results", dict, "a table"), ("metadata", dict, "a table")):
        if not isinstance(value.get(key), kind):
            raise Unreadable(
                f"this is {quote_value(value.get(key), _SHORT)}", f"{words}, as Flent writes it", file=path, key=key
            )
    x = _parse_numbers(value["x_values"])
    if x is None or not np.isfinite(x).all():
        raise Unreadable("it has what is not a number", "times in seconds", file=path, key="x_values")
    results: dict[str, Floats] = {}
    for name, series in value["results"].items():
        found = _parse_numbers(series) if isinstance(series, list) else None
        if found is None or len(found) != len(x):
            raise Unreadable(
                f"this is {quote_value(series, _SHORT)}",
                f"a list of {len(x)} numbers",
                file=path,
                key=f"results: {_cut(name)}",
            )
        results[name] = found
    metadata = value["metadata"]
    return Data(path, version, x, results, _read_raw_values(path, value.get("raw_values"), metadata, x), metadata)


def _snap_times(times: Floats, x: Floats) -> Floats:
    """Return times of which those that are the same as one of `x`, but for the resolution of the calendar, are it."""
    if not len(x):
        return times
    place = np.clip(np.searchsorted(x, times), 1, max(len(x) - 1, 1)) - (len(x) == 1)
    near = np.where(
        np.abs(x[place] - times) < np.abs(x[np.maximum(place - 1, 0)] - times), place, np.maximum(place - 1, 0)
    )
    return np.where(np.abs(x[near] - times) < SAME_S, x[near], times)


def _read_raw_values(path: Path, value: Any, metadata: dict[str, Any], x: Floats) -> dict[str, Raw]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Unreadable(
            f"this is {quote_value(value, _SHORT)}", "a table, as Flent writes it", file=path, key="raw_values"
        )
    zero = read_start(metadata)
    found: dict[str, dict[str, list[float]]] = {}
    for name, samples in value.items():
        if not isinstance(samples, list):
            continue
        columns: dict[str, list[float]] = {"t": []}
        for sample in samples:
            if not isinstance(sample, dict):
                continue
            time = read_number(sample.get("t"))
            if math.isnan(time):
                continue
            count = len(columns["t"])
            columns["t"].append(time)
            for key, one in sample.items():
                if key != "t" and not math.isnan(number := read_number(one)):
                    column = columns.setdefault(key, [])
                    column += [math.nan] * (count - len(column))
                    column.append(number)
        if columns["t"]:
            found[name] = columns
    first = min((columns["t"][0] for columns in found.values()), default=0.0)
    if zero is None:
        zero = first
    elif not _has_zone(metadata):
        shift = round((first - zero) / _ZONES_S) * _ZONES_S
        zero += shift if abs(shift) <= _FARTHEST_ZONE_S else 0.0
    made = {}
    for name, columns in found.items():
        count = len(columns["t"])
        values = {key: np.array(c + [math.nan] * (count - len(c))) for key, c in columns.items() if key != "t"}
        times = np.array(columns["t"]) - zero
        last = float(x[-1]) if len(x) else float(np.median(times))
        keep = (times > -_AROUND_S) & (times < last + _AROUND_S)  # others are of another clock
        if not keep.any():
            continue
        times, values = times[keep], {key: column[keep] for key, column in values.items()}
        made[name] = Raw(_snap_times(times, x), values)
    return made


def _has_zone(metadata: dict[str, Any], key: str = "T0") -> bool:
    """Whether the start of a test says its time zone: before version 4, Flent wrote the local time without one."""
    text = metadata.get(key)
    return isinstance(text, str) and re.search(r"(?:Z|[+-]\d\d:?\d\d)$", text.strip()) is not None


def read_start(metadata: dict[str, Any], key: str = "T0") -> float | None:
    """Return when a test began, s since 1970; None if the file does not say."""
    text = metadata.get(key)
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _parse_numbers(values: list[Any]) -> Floats | None:
    """Return numbers, null as NaN; None if anything else is there."""
    if any(isinstance(one, bool) or not (one is None or isinstance(one, int | float)) for one in values):
        return None
    return np.array([read_number(one) for one in values], dtype=np.float64)


def _cut(name: str) -> str:
    return re.sub(r"\s+", " ", name)[:60]


def is_flent(value: Any) -> bool:
    """Whether a JSON value looks like a data file of Flent."""
    return isinstance(value, dict) and "x_values" in value and "results" in value


def load(path: Path) -> Data:
    """Return a data file. Raises InputError."""
    try:
        value = json.loads(file_kinds.unpack(path, ALLOWED).decode("utf-8"))
    except (ValueError, RecursionError):
        raise Unreadable("this is not JSON", ALLOWED, file=path) from None
    return parse_data(path, value)
