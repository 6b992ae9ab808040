"""Traces as qlog: JSON text sequences (RFC 7464) of draft-ietf-quic-qlog-main-schema, with the events of draft-ietf-quic-qlog-quic-events.

`quic:congestion_state_updated` has the state of the control, `quic:recovery_metrics_updated` the metrics of QUIC's schema and, beside them, the variables of BBR under
the draft's names. Volumes are segments where their name says nothing else; `congestion_window` and `bytes_in_flight` are bytes of payload. A file may have any of
these fields: what is missing is unknown to the judge.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from dumbbell.check.lab import PAYLOAD, Run
from dumbbell.check.trace import NEEDED, NUMBERS, Trace
from dumbbell.errors import InputError

_SEPARATOR = "\x1e"
# of recovery_metrics_updated: our column, and by what it is multiplied
_METRICS = {
    "min_rtt": ("min_rtt_ms", 1.0),
    "smoothed_rtt": ("srtt_ms", 1.0),
    "congestion_window": ("cwnd", float(PAYLOAD)),
    "bytes_in_flight": ("in_flight", float(PAYLOAD)),
    "pacing_rate": ("pacing_rate_mbit", 1e6),
}
# beside them: the draft's names, and ours
_VARIABLES = {
    "bbr_max_bw": ("max_bw_mbit", 1e6),
    "bbr_bw": ("bw_mbit", 1e6),
    "bbr_bw_shortterm": ("bw_shortterm_mbit", 1e6),
    "bbr_inflight_shortterm": ("inflight_shortterm", 1.0),
    "bbr_inflight_longterm": ("inflight_longterm", 1.0),
    "bbr_inflight": ("inflight_bdp", 1.0),
    "bbr_probe_up_step": ("probe_up_step", 1.0),
    "bbr_pacing_gain": ("pacing_gain", 1.0),
    "bbr_cwnd_gain": ("cwnd_gain", 1.0),
    "bbr_round_count": ("round", 1.0),
    "bbr_extra_acked": ("extra_acked", 1.0),
    "bbr_full_bw_now": ("full_bw_now", 1.0),
    "bbr_full_bw_reached": ("full_bw_reached", 1.0),
    "bbr_idle_restart": ("idle_restart", 1.0),
    "delivered": ("delivered", 1.0),
    "lost": ("lost", 1.0),
    "sent": ("sent", 1.0),
    "timeouts": ("timeouts", 1.0),
    "undone": ("undone", 1.0),
    "app_limited": ("app_limited", 1.0),
    "queue_bytes": ("backlog_bytes", 1.0),
}
FIELDS = _METRICS | _VARIABLES
_STATE, _METRIC = "congestion_state_updated", "recovery_metrics_updated"
_ALLOWED = "a qlog file: one JSON object a line, or a JSON text sequence"


def write(path: Path, run: Run, title: str, control: str) -> None:
    """Write a trace; the path and its changes are in the header."""
    trace, setup = run.trace, run.setup
    header = {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": title,
        "trace": {
            "title": title,
            "description": control,
            "vantage_point": {"type": "client", "name": "sender"},
            "common_fields": {"time_format": "relative_to_epoch", "reference_time": {"clock_type": "monotonic", "epoch": "unknown"}},
            "event_schemas": ["urn:ietf:params:qlog:events:quic-12"],
            "rate_bit": setup.point.rate,
            "rtt_s": setup.point.rtt,
            "times_s": setup.times,
            "values": setup.values,
        },
    }
    with path.open("w", encoding="utf-8") as file:
        _record(file, header)
        columns = {name: trace[column] * factor for name, (column, factor) in FIELDS.items() if trace.has(column)}
        before: dict[str, float | None] = {}
        state = ca_state = ""
        for row in range(len(trace)):
            time = round(float(trace.time[row]) * 1e3, 6)
            now, ca_now = str(trace.state[row]), str(trace.words["ca_state"][row])
            if (now, ca_now) != (state, ca_state):
                change = {"old": state, "new": now, "recovery_state": ca_now}
                _record(file, {"time": time, "name": f"quic:{_STATE}", "data": change})
                state, ca_state = now, ca_now
            data = {name: None if math.isnan(value) else float(value) for name, column in columns.items() for value in (column[row],)}
            changed = {name: value for name, value in data.items() if before.get(name, math.inf) != value}
            if changed:
                _record(file, {"time": time, "name": f"quic:{_METRIC}", "data": changed})
                before |= changed


def _record(file: Any, value: dict[str, Any]) -> None:
    file.write(f"{_SEPARATOR}{json.dumps(value)}\n")


def read(path: Path) -> tuple[Trace, dict[str, Any]]:
    """Return the trace of a file, and what its header says of the path.

    A metric holds until the next event that has it. Events other than these two are passed over. Raises InputError.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), "", getattr(error, "strerror", None) or "a file that is no text", _ALLOWED) from None
    rows: list[tuple[float, str, str, dict[str, Any]]] = []
    header: dict[str, Any] = {}
    known: dict[str, Any] = {}
    state, ca_state = "", "open"
    for number, line in enumerate(lines, 1):
        text = line.strip(_SEPARATOR + " \t\r")
        if not text:
            continue
        try:
            value = json.loads(text)
        except ValueError:
            raise InputError(str(path), f"line {number}", text[:40], _ALLOWED) from None
        if not isinstance(value, dict):
            raise InputError(str(path), f"line {number}", text[:40], "a JSON object")
        if "name" not in value:
            header |= value.get("trace", {}) if isinstance(value.get("trace"), dict) else {}
            continue
        name, data, time = str(value["name"]).rpartition(":")[2], value.get("data"), value.get("time")
        if not isinstance(data, dict) or not isinstance(time, int | float):
            raise InputError(str(path), f"line {number}", text[:40], "an event with time and data")
        if name == _STATE:
            state, ca_state = str(data.get("new", state)), str(data.get("recovery_state", ca_state))
        elif name in (_METRIC, "metrics_updated"):
            known |= data
        else:
            continue
        if rows and rows[-1][0] == time:
            rows.pop()
        rows.append((float(time), state, ca_state, dict(known)))
    if not rows:
        raise InputError(str(path), "", "no event of congestion control", f"events {_STATE} and {_METRIC}")
    columns: dict[str, Any] = {"time_s": [row[0] / 1e3 for row in rows], "state": [row[1] for row in rows], "ca_state": [row[2] for row in rows]}
    for field, (column, factor) in FIELDS.items():
        if column in NUMBERS and any(field in row[3] for row in rows):
            columns[column] = [_number(path, field, row[3].get(field)) / factor for row in rows]
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        names = {column: field for field, (column, _) in FIELDS.items()}
        raise InputError(str(path), "", f"no {', '.join(names.get(name, name) for name in missing)}", "a trace with these")
    return Trace(columns), header


def _number(path: Path, field: str, value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool | int | float):
        return float(value)
    raise InputError(str(path), field, str(value)[:40], "a number")
