"""Traces as qlog, written as JSON text sequences (RFC 7464) of draft-ietf-quic-qlog-main-schema.

Events are those of draft-ietf-quic-qlog-quic-events. `quic:congestion_state_updated` has the state of the control,
`quic:recovery_metrics_updated` the metrics of QUIC's schema and, next to them, the variables of BBR under the draft's
names (`fields.FIELDS`). A file may have any of these fields: what is missing is unknown to the judge. `qlog_file` says
which forms of files are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.errors import Nothing, UnknownName, WrongValue, quote_value
from dumbbell.evaluate.bbr import states
from dumbbell.evaluate.bbr.fields import BY_COLUMN, COUNT, FIELDS, FLAG
from dumbbell.evaluate.bbr.lab import CaseRun
from dumbbell.evaluate.bbr.qlog_file import Event, QlogFile, read_events
from dumbbell.evaluate.bbr.trace import Trace

_SEPARATOR = "\x1e"
_STATE, _METRIC = "congestion_state_updated", "recovery_metrics_updated"
# events that have a state, metrics or both: those of the draft, qlog's names before version 0.3, mvfst's
# (QLoggerTypes.cpp: metric_update has the RTTs) and s2n-quic's (events/connection.rs)
_EVENTS = (_STATE, _METRIC, "metrics_updated", "metric_update", "congestion_metric_update", "bbr_state_changed")
_STATE_KEYS, _PHASE_KEYS = ("new", "state"), ("phase", "cycle_phase")
_MOST_NAMED = 8  # unknown states that an error names
# what loss recovery is called in `recovery_state`, without case and separators: Linux's names and those of mvfst
_RECOVERY = {"open", "disorder", "cwr", "recovery", "loss"}
_NAMES = {name: (one, by) for one in FIELDS for name, by in one.list_names().items()}
# what has no value before its first event: nothing was counted, and no flag set
_ZERO_AT_FIRST = {one.column for one in FIELDS if one.unit in (COUNT, FLAG)}


@dataclass(kw_only=True)
class TraceLog(QlogFile):
    """A file with the trace that its events make."""

    trace: Trace

    @property
    def cut(self) -> bool:
        """Whether the file is cut off before its end."""
        return any("cut off" in note for note in self.notes)


def write(path: Path, run: CaseRun, title: str, control: str, case: str) -> None:
    """Write a trace; the path, its changes and the case are in the header."""
    trace, setup = run.trace, run.setup
    header = {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": title,
        "trace": {
            "title": title,
            "description": control,
            "vantage_point": {"type": "client", "name": "sender"},
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
            },
            "event_schemas": ["urn:ietf:params:qlog:events:quic-12"],
            "case": case,
            "control": control,
            "rate_bit": setup.point.rate,
            "rtt_s": setup.point.rtt,
            "times_s": setup.times,
            "values": setup.values,
        },
    }
    with path.open("w", encoding="utf-8") as file:
        _record(file, header)
        # a column of nothing but NaN, too: null says that it is known and not set
        columns = {one.name: trace[one.column] * one.factor for one in FIELDS if not trace.is_without(one.column)}
        before: dict[str, float | None] = {}
        state = ca_state = ""
        for row in range(len(trace)):
            time = round(float(trace.time[row]) * 1e3, 6)
            now, ca_now = str(trace.state[row]), str(trace.words["ca_state"][row])
            if (now, ca_now) != (state, ca_state):
                change = {"old": state, "new": now, "recovery_state": ca_now}
                _record(file, {"time": time, "name": f"quic:{_STATE}", "data": change})
                state, ca_state = now, ca_now
            data = {name: None if math.isnan(column[row]) else float(column[row]) for name, column in columns.items()}
            changed = {name: value for name, value in data.items() if before.get(name, math.inf) != value}
            if changed:
                _record(file, {"time": time, "name": f"quic:{_METRIC}", "data": changed})
                before |= changed


def _record(file: Any, value: dict[str, Any]) -> None:
    file.write(f"{_SEPARATOR}{json.dumps(value)}\n")


def read(path: Path, own_states: Mapping[str, str] | None = None) -> TraceLog:
    """Return the trace of a file, what its header says of the path, and notes on the reading.

    `own_states` are names of states that the user declares, and ours for them. A metric holds until the next event
    that has it. Other events are passed over. Raises InputError.
    """
    file = read_events(path, _EVENTS)
    rows = _TraceRows(path, {states.normalise_name(theirs): ours for theirs, ours in (own_states or {}).items()})
    for event in file.events:
        rows.add_event(event)
    if not rows.rows:
        raise Nothing("found no event of congestion control", f"a file with events {_STATE} and {_METRIC}", file=path)
    if rows.has_unknown():
        found = ", ".join(quote_value(name) for name in list(rows.unknown)[:_MOST_NAMED])
        example = quote_value(next(iter(rows.unknown)))
        raise UnknownName(
            found,
            among=f"choose from {states.ALLOWED}; or --state {example}=STATE, --state {example}=- to pass it over",
            file=path,
            what="state",
        )
    return TraceLog(**vars(file), trace=Trace(rows.make_columns()))


class _TraceRows:
    """Rows of a trace as they come from events."""

    def __init__(self, path: Path, own: dict[str, str]) -> None:
        self.rows: list[tuple[float, str, str, dict[str, float]]] = []  # time, state, state of recovery, metrics
        self.unknown: dict[str, None] = {}
        self._path, self._own = path, own
        self._state, self._recovery = "", "open"
        self._known: dict[str, float] = {}
        self._has_states = self._has_recovery = self._alone = False

    def add_event(self, event: Event) -> None:
        """Add a row with the values that hold after an event."""
        for key, value in event.data.items():
            known = _NAMES.get(key)
            if known is not None:
                one, by = known
                scale = event.unit if one.unit == "ms" else 1.0
                number = self._parse_number(key, value)
                if number < 0 and not one.bound:
                    at = f"{key} at {event.time:.6g} s"
                    raise WrongValue(quote_value(value, 40), "a number that is not negative", file=self._path, key=at)
                self._known[one.column] = one.convert_value(number * scale / by)
        # congestion_metric_update has both; recovery_metrics_updated has no states
        if event.name not in (_METRIC, "metrics_updated", "metric_update"):
            self._take_state(event.data)
        state = self._state
        alone = state == states.PROBE_BW_ALONE
        if alone:
            state = states.find_state_of_gain(self._known.get("pacing_gain", 1.0))
            self._alone = True
        # a row of the same time is replaced, but for a state that lasted no time
        if self.rows and self.rows[-1][0] == event.time and (self.rows[-1][1] == state or alone):
            self.rows.pop()
        self.rows.append((event.time, state, self._recovery, dict(self._known)))

    def has_unknown(self) -> bool:
        """Whether there are states of which nothing is known: PROBE_BW without phase and gain is one."""
        if self._alone and "pacing_gain" not in self._known:
            self.unknown.setdefault(states.PROBE_BW_ALONE)
        return bool(self.unknown)

    def _take_state(self, data: dict[str, Any]) -> None:
        recovery = data.get("recovery_state")
        if isinstance(recovery, str) and states.normalise_name(recovery) in _RECOVERY:
            self._recovery, self._has_recovery = states.normalise_name(recovery), True
        name = next((data[key] for key in _STATE_KEYS if isinstance(data.get(key), str)), None)
        if not name:
            return
        phase = next((data[key] for key in _PHASE_KEYS if isinstance(data.get(key), str)), "")
        found = states.find_state(name + phase, self._own) or states.find_state(name, self._own)
        if found is None:
            self.unknown.setdefault(name)
        elif found != states.IGNORED:
            self._state, self._has_states = found, True

    def _parse_number(self, key: str, value: Any) -> float:
        if value is None:
            return math.nan
        if isinstance(value, bool | int | float):
            try:
                return float(value)
            except OverflowError:
                return math.inf
        raise WrongValue(quote_value(value, 40), "a number", file=self._path, key=key)

    def make_columns(self) -> dict[str, Any]:
        """Return what a trace is made of."""
        times, names, recoveries, metrics = zip(*self.rows, strict=True)
        found: dict[str, Any] = {"time_s": times}
        if self._has_states:
            found["state"] = names
        if self._has_recovery:
            found["ca_state"] = recoveries
        for column in BY_COLUMN:
            if any(column in row for row in metrics):
                first = 0.0 if column in _ZERO_AT_FIRST else math.nan
                found[column] = [row.get(column, first) for row in metrics]
        return found
