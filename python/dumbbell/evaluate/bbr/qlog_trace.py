"""Traces as qlog, written as JSON text sequences (RFC 7464) of draft-ietf-quic-qlog-main-schema.

Events are those of draft-ietf-quic-qlog-quic-events. `quic:congestion_state_updated` has the state of the control,
`quic:recovery_metrics_updated` the metrics of QUIC's schema and, next to them, the variables of BBR under the draft's
names (`qlog/fields.py`). A file may have any of these fields: what is missing is unknown to the judge. `qlog/events.py`
says which forms of files are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.errors import Nothing, UnknownName, WrongValue, quote_value
from dumbbell.evaluate.bbr import states
from dumbbell.evaluate.bbr.lab import CaseRun
from dumbbell.evaluate.bbr.trace import Trace
from dumbbell.qlog.events import Event, QlogFile, read_events
from dumbbell.qlog.fields import BY_COLUMN, COUNT, FIELDS, FLAG

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
    if not file.events:
        raise Nothing("found no event of congestion control", f"a file with events {_STATE} and {_METRIC}", file=path)
    own = {states.normalise_name(theirs): ours for theirs, ours in (own_states or {}).items()}
    unknown: dict[str, None] = {}
    rows = [{"time_s": one.time, **_read_metrics(path, one), **_read_states(one, own, unknown)} for one in file.events]
    given = {key: None for row in rows for key in row}
    state, is_alone = pl.col("state"), pl.col("state") == states.PROBE_BW_ALONE
    if "pacing_gain" not in given and any(row.get("state") == states.PROBE_BW_ALONE for row in rows):
        unknown.setdefault(states.PROBE_BW_ALONE)
    if unknown:
        found = ", ".join(quote_value(name) for name in list(unknown)[:_MOST_NAMED])
        example = quote_value(next(iter(unknown)))
        allowed = f"choose from {states.ALLOWED}; or --state {example}=STATE, --state {example}=- to pass it over"
        raise UnknownName(found, among=allowed, file=path, what="state")
    schema = {"state": pl.String, "ca_state": pl.String, **dict.fromkeys(["time_s", *BY_COLUMN], pl.Float64)}
    frame = (
        pl.DataFrame(rows, schema=schema)
        .with_columns(pl.all().forward_fill())
        .with_columns(
            pl.col("state").fill_null(""),
            pl.col("ca_state").fill_null("open"),
            *(pl.col(name).fill_null(0.0 if name in _ZERO_AT_FIRST else math.nan) for name in BY_COLUMN),
        )
    )
    # a PROBE_BW without its phase has that of its gain
    gain = pl.col("pacing_gain").fill_nan(1.0)
    phase = pl.when(gain > 1).then(pl.lit("probe_up")).when(gain < 1).then(pl.lit("probe_down"))
    frame = frame.with_columns(
        alone=is_alone, state=pl.when(is_alone).then(phase.otherwise(pl.lit("probe_cruise"))).otherwise(state)
    )
    # of rows at the same time the last one counts, except for a state that lasted no time
    is_replaced = (pl.col("time_s") == pl.col("time_s").shift(-1)) & (
        (state == state.shift(-1)) | pl.col("alone").shift(-1)
    )
    kept = frame.filter(~is_replaced.fill_null(False))
    return TraceLog(**vars(file), trace=Trace({name: kept[name].to_numpy() for name in given}))


def _read_metrics(path: Path, event: Event) -> dict[str, float]:
    """Return the metrics of an event by their columns. Raises InputError."""
    found = {}
    for key, value in event.data.items():
        if key not in _NAMES:
            continue
        one, by = _NAMES[key]
        number = math.nan if value is None else _convert_number(path, key, value)
        if number < 0 and not one.bound:
            at = f"{key} at {event.time:.6g} s"
            raise WrongValue(quote_value(value, 40), "a number that is not negative", file=path, key=at)
        found[one.column] = one.convert_value(number * (event.unit if one.unit == "ms" else 1.0) / by)
    return found


def _convert_number(path: Path, key: str, value: Any) -> float:
    if not isinstance(value, bool | int | float):
        raise WrongValue(quote_value(value, 40), "a number", file=path, key=key)
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _read_states(event: Event, own: Mapping[str, str], unknown: dict[str, None]) -> dict[str, str]:
    """Return the state of the control and of its loss recovery, if an event has them; note a state that is unknown."""
    # congestion_metric_update has states and metrics; recovery_metrics_updated has no states
    if event.name in (_METRIC, "metrics_updated", "metric_update"):
        return {}
    found = {}
    recovery = event.data.get("recovery_state")
    if isinstance(recovery, str) and states.normalise_name(recovery) in _RECOVERY:
        found["ca_state"] = states.normalise_name(recovery)
    name, phase = (
        next((event.data[key] for key in keys if isinstance(event.data.get(key), str)), "")
        for keys in (_STATE_KEYS, _PHASE_KEYS)
    )
    if name:
        state = states.find_state(name + phase, own) or states.find_state(name, own)
        if state is None:
            unknown.setdefault(name)
        elif state != states.IGNORED:
            found["state"] = state
    return found
