"""The columns that a trace may have: every column, its name in qlog, and what stacks call it.

Names without `bbr_` that qlog knows are those of draft-ietf-quic-qlog-quic-events-12, event
`recovery_metrics_updated`; the others are the BBR draft's names after `bbr_`, and counts that no schema has.
`others` are names that files of real stacks have for the same: `cwnd` is qlog's before its version 0.3 (aioquic,
picoquic's loglib/qlog.c), `current_cwnd` mvfst's (quic/logging/QLoggerTypes.cpp, congestion_metric_update).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

FRAME, PAYLOAD = 1514, 1448  # bytes of a full frame without FCS, and of its payload
BYTES, SEGMENTS, RATE, TIME, COUNT, FLAG, NUMBER = "B", "segments", "bit/s", "ms", "count", "0 or 1", "number"
_UNSET = 2.0**62  # bytes, segments or bit/s; stacks write UINT64_MAX, -1 and the like for a bound that is not set
# by what a value of a file is divided to get ours
_FACTORS = {BYTES: float(PAYLOAD), RATE: 1e6}


@dataclass(frozen=True)
class Field:
    """A column of a trace: `name` and `unit` in qlog, `others` that stacks write for it."""

    column: str
    name: str
    unit: str
    meaning: str
    others: tuple[str, ...] = ()
    bound: bool = False  # unset is a value of it: null, or a number that nothing reaches

    @property
    def is_of_model(self) -> bool:
        """Whether it is what a control tells of its model, and not what a transport counts."""
        return self.name.startswith("bbr_") or self.name == "min_rtt"

    @property
    def factor(self) -> float:
        """The factor from our column to qlog."""
        return _FACTORS.get(self.unit, 1.0)

    def list_names(self) -> dict[str, float]:
        """Return every name that is read for it, and by what its value is divided."""
        found = dict.fromkeys((self.name, *self.others), self.factor)
        if self.unit in (SEGMENTS, COUNT) and self.name in _VOLUMES:
            found[f"{self.name}_bytes"] = float(PAYLOAD)
        return found

    def convert_value(self, value: float) -> float:
        """Return a value in the unit of its column; NaN for a bound that is not set."""
        return float("nan") if self.bound and not 0 <= value < _UNSET else value


_VOLUMES = {
    *("bbr_inflight", "bbr_inflight_shortterm", "bbr_inflight_longterm", "bbr_extra_acked", "bbr_probe_up_step"),
    *("delivered", "lost", "sent"),
}
FIELDS = (
    Field("cwnd", "congestion_window", BYTES, "congestion window", ("cwnd", "current_cwnd")),
    Field("in_flight", "bytes_in_flight", BYTES, "what is in flight"),
    Field("min_rtt_ms", "min_rtt", TIME, "least RTT of BBR's filter"),
    Field("srtt_ms", "smoothed_rtt", TIME, "smoothed RTT"),
    Field("pacing_rate_mbit", "pacing_rate", RATE, "pacing rate, of payload"),
    Field("max_bw_mbit", "bbr_max_bw", RATE, "BBR.max_bw, of payload"),
    Field("bw_mbit", "bbr_bw", RATE, "BBR.bw, the smaller of max_bw and bw_shortterm"),
    Field("bw_shortterm_mbit", "bbr_bw_shortterm", RATE, "BBR.bw_shortterm (bw_lo)", bound=True),
    Field(
        "inflight_shortterm",
        "bbr_inflight_shortterm",
        SEGMENTS,
        "BBR.inflight_shortterm (inflight_lo)",
        bound=True,
    ),
    Field("inflight_longterm", "bbr_inflight_longterm", SEGMENTS, "BBR.inflight_longterm (inflight_hi)", bound=True),
    Field("inflight_bdp", "bbr_inflight", SEGMENTS, "BBRInflight(1.0)"),
    Field(
        "probe_up_step", "bbr_probe_up_step", SEGMENTS, "segments by which PROBE_UP raises inflight_longterm a round"
    ),
    Field("pacing_gain", "bbr_pacing_gain", NUMBER, "BBR.pacing_gain"),
    Field("cwnd_gain", "bbr_cwnd_gain", NUMBER, "BBR.cwnd_gain"),
    Field("round", "bbr_round_count", COUNT, "round trips so far"),
    Field("extra_acked", "bbr_extra_acked", SEGMENTS, "BBR.extra_acked"),
    Field("full_bw_now", "bbr_full_bw_now", FLAG, "BBR.full_bw_now"),
    Field("full_bw_reached", "bbr_full_bw_reached", FLAG, "BBR.full_bw_reached (filled_pipe)"),
    Field("idle_restart", "bbr_idle_restart", FLAG, "BBR.idle_restart"),
    Field("delivered", "delivered", COUNT, "segments acknowledged so far"),
    Field("lost", "lost", COUNT, "segments marked lost so far"),
    Field("sent", "sent", COUNT, "segments sent so far"),
    Field("timeouts", "timeouts", COUNT, "retransmission timeouts so far"),
    Field("undone", "undone", COUNT, "reductions that turned out to be spurious so far"),
    Field("app_limited", "app_limited", FLAG, "the application is the limit"),
    Field("backlog_bytes", "queue_bytes", NUMBER, "bytes in the bottleneck's queue, for figures"),
)
BY_COLUMN = {field.column: field for field in FIELDS}
STATE_FIELD = "congestion_state_updated.new"
RECOVERY_FIELD = "congestion_state_updated.recovery_state"
_WORDS = {"state": STATE_FIELD, "ca_state": RECOVERY_FIELD}


def name(column: str) -> str:
    """Return what qlog calls a column."""
    return _WORDS[column] if column in _WORDS else BY_COLUMN[column].name


def list_columns_to_log(columns: Iterable[str]) -> str:
    """Return the names of columns for the author of a logger, with what stacks call them."""
    words = []
    for column in columns:
        others = BY_COLUMN[column].others if column in BY_COLUMN else ()
        words.append(name(column) + (f" (or {', '.join(others)})" if others else ""))
    return ", ".join(words)
