"""Logs of `ss -ti`: what Linux says of its TCP senders, once or again and again.

Each round of output needs its time: a line with nothing else (`date +%s.%N`, `date --iso-8601=ns`), or a time before
every line, as `ts` writes it (`ts %.s`, or whole seconds without a format). Without times the rounds are as far apart
as `interval_s` says.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from dumbbell.errors import Missing, Nothing, Unreadable, quote_value
from dumbbell.exchange import infer, measurement, setup
from dumbbell.exchange.measurement import ImportedFlow, Measurement, SetupFact
from dumbbell.words import format_count

ALLOWED = "the output of ss -ti, with times"
_STATES = (
    *("ESTAB", "SYN-SENT", "SYN-RECV", "FIN-WAIT-1", "FIN-WAIT-2", "TIME-WAIT", "UNCONN", "CLOSE-WAIT", "LAST-ACK"),
    *("LISTEN", "CLOSING", "CLOSED"),
)
_EPOCH = re.compile(r"[\[(]?(\d{9,19}(?:\.\d+)?)[\])]?:?")
_ISO = re.compile(r"[\[(]?(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?: ?(?:Z|[+-]\d{2}:?\d{2}))?)[\])]?:?")
_SOCKET = re.compile(rf"(?:tcp\s+)?(?:{'|'.join(_STATES)})\s+\d+\s+\d+\s+(\S+)\s+(\S+)(.*)")
_BARE = re.compile(r"(?:tcp\s+)?\d+\s+\d+\s+(\S+:\S+)\s+(\S+:\S+)(.*)")  # with a state that was asked for
_RATE = re.compile(r"([\d.]+)([KMGT]?)bps")
_RATES = ("pacing_rate", "delivery_rate", "send")
_SIZES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_LEAST_SENT = 10_000  # bytes: a connection that sends less is not listed if another sends more
_CONTROL = re.compile(r"[a-z][a-z0-9_-]*")
_LISTED = re.compile(r"\w+:\(+[^()]*\)+")  # users:(("name",pid=1,fd=3)), skmem:(r0,rb87380), timer:(on,200ms,0)
_NUMBERS = ("wscale", "rto", "rtt", "cwnd", "mss", "pmtu")
_MOST_FLOWS = 100  # that are listed
# of ts without a format, %b %d %H:%M:%S, and of date in locale C; a day is the month's, without a year
_CALENDAR = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +)?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(\d{1,2}) "
    r"(\d\d):(\d\d):(\d\d(?:\.\d+)?)(?: [A-Z]{1,5} \d{4}| \d{4})?(?= |\t|$)"
)
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d(?:\.\d+)?)(?= |\t|$)")  # of ts -i, ts -s and ts %T
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ANY_YEAR, _DAY_S = 1972, 86_400.0  # a leap year
# words that stand alone and name no congestion control
_FLAGS = {
    "ts",
    "sack",
    "ecn",
    "ecnseen",
    "fastopen",
    "app_limited",
    "cork",
    "reord_seen",
    "mptcp",
    "timer",
    "ino",
    "sk",
}


@dataclass
class _SsConnection:
    """The reports on a connection, round by round: times and, by word, numbers."""

    times: list[float] = field(default_factory=list)
    rows: list[dict[str, float]] = field(default_factory=list)
    controls: Counter[str] = field(default_factory=Counter)
    has_ecn: bool = False

    @property
    def sent_bytes(self) -> float:
        """What it sent while it was looked at."""
        name = "bytes_acked" if any("bytes_acked" in row for row in self.rows) else "bytes_sent"
        known = [row[name] for row in self.rows if name in row]
        return max(known) - min(known) if known else 0.0


def is_ss_log(text: str) -> bool:
    """Whether a text may be a log of ss."""
    return bool(re.search(r"\bcwnd:\d+|\brto:\d+|\bESTAB\s+\d+\s+\d+\s", text[:1_000_000]))


def read(path: Path, text: str, interval_s: float | None = None) -> Measurement:
    """Return what a log of ss says. Raises InputError."""
    found = _parse_log(path, text, interval_s)
    left = len(found) - _MOST_FLOWS
    if left > 0:
        most = set(sorted(found, key=lambda ends: -found[ends].sent_bytes)[:_MOST_FLOWS])
        found = {ends: one for ends, one in found.items() if ends in most}
    flows = [flow for ends, one in found.items() if (flow := _make_flow(ends, one)) is not None]
    flows = _select_senders(flows)
    if not flows:
        raise Nothing("found no TCP connection with a window", ALLOWED, file=path)
    first = min(found[flow.ends].times[0] for flow in flows if flow.ends)
    for flow in flows:
        _move(flow, first)
    gaps = np.diff(sorted({time for one in found.values() for time in one.times}))
    step = float(np.median(gaps)) if len(gaps) else interval_s or 1.0
    measured_ = Measurement(
        flows,
        max(flow.end_s for flow in flows),
        max(step, 1e-3),
        title=f"ss -ti, {format_count(len(flows), 'connection')}",
        source={"format": "ss"},
    )
    if left > 0:
        measured_.notes.append(f"left out: {left} connections that sent least")
    if all(time == round(time) for one in found.values() for time in one.times):
        measured_.notes.append("its times are whole seconds, and so are its intervals: their rates are rough")
    if first > 1e8:
        measured_.source["started"] = datetime.fromtimestamp(min(first, 4e9), UTC).isoformat()
    if all(found[flow.ends].has_ecn for flow in flows if flow.ends):
        measured_.setup["hosts.ecn"] = SetupFact("true", "the word ecn of ss")
    return measured_


def _split_time(line: str) -> tuple[float | None, str]:
    """Return the time at the start of a line, s, and the rest of the line."""
    if match := _EPOCH.match(line):
        number = float(match[1])
        digits = len(match[1].partition(".")[0])
        scale = 1e9 if digits >= 18 else 1e6 if digits >= 15 else 1e3 if digits >= 12 else 1.0
        return number / scale, line[match.end() :]
    if match := _ISO.match(line):
        text = re.sub(r"(\.\d{6})\d+", r"\1", match[1].replace(",", ".").replace(" +", "+").replace(" -", "-"))
        try:
            time = datetime.fromisoformat(text.strip())
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp(), line[match.end() :]
        except (ValueError, OverflowError):
            return None, line
    if match := _CALENDAR.match(line):
        month, day, hour, minute, second = match.groups()
        try:
            date = datetime(_ANY_YEAR, 1 + _MONTHS.index(month), int(day), int(hour), int(minute), tzinfo=UTC)
        except ValueError:
            return None, line
        return date.timestamp() + float(second), line[match.end() :]
    if match := _CLOCK.match(line):
        return 3600 * float(match[1]) + 60 * float(match[2]) + float(match[3]), line[match.end() :]
    return None, line


def _place_after(time: float, last: float | None) -> float:
    """Return a time without a date or a year in such a way that it is after the last one, over midnight or New Year."""
    for period in (_DAY_S, 366 * _DAY_S):
        if last is not None and time < last - period / 2 and time + period >= last and last < 3 * 366 * _DAY_S:
            time += period * math.floor((last - time) / period + 0.5)
    return time


def _parse_log(path: Path, text: str, interval_s: float | None) -> dict[tuple[str, str], _SsConnection]:
    found: dict[tuple[str, str], _SsConnection] = {}
    now: float | None = None
    here: tuple[str, str] | None = None
    round_: set[tuple[str, str]] = set()
    rounds = 0
    has_times = False
    for number, whole in enumerate(text.splitlines(), 1):
        time, line = _split_time(whole.strip())
        if time is not None:
            now, has_times = _place_after(time, now), True
        line = line.strip()
        if not line or line.startswith(("State", "Netid", "Recv-Q")):
            continue
        match = _SOCKET.match(line) or _BARE.match(line)
        if match:
            here = match[1], match[2]
            if here in round_ and not has_times:
                round_, rounds = set(), rounds + 1
            round_.add(here)
            line = match[3].strip()
        words = _parse_words(line)
        if here is None or not ({"cwnd", "rtt"} & words.keys()):
            continue
        if not has_times:
            if interval_s is None:
                what = "the time of each round"
                raise Missing(
                    "a line of date +%s.%N before each, or --interval",
                    file=f"{path}:{number}",
                    key=what,
                    found="no time",
                )
            now = rounds * interval_s
        assert now is not None
        one = found.setdefault(here, _SsConnection())
        if one.times and now <= one.times[-1]:
            if now < one.times[-1]:
                raise Unreadable(
                    f"the time {quote_value(now)} is before the last one",
                    "a log in order of time",
                    file=f"{path}:{number}",
                )
            continue
        one.times.append(now)
        one.rows.append(words)
        one.has_ecn = one.has_ecn or " ecn " in f" {line} "
        if control := _find_control(line):
            one.controls[control] += 1
    return found


def _parse_words(line: str) -> dict[str, float]:
    """Return the numbers of a line of ss by their words; times in ms, rates in bit/s."""
    found: dict[str, float] = {}
    parts = line.split()
    for place, part in enumerate(parts):
        name, colon, text = part.partition(":")
        if colon:
            value = text.split("/")
            if name == "rtt":
                found["rtt"] = _parse_number(value[0])
                continue
            if name == "retrans" and len(value) == 2:
                found["retrans_out"], found["retrans"] = map(_parse_number, value)
                continue
            number = _parse_number(value[0].removesuffix("ms"))
            if not math.isnan(number):
                found[name] = number
        elif place + 1 < len(parts) and name in _RATES and (match := _RATE.fullmatch(parts[place + 1])):
            found[name] = _parse_number(match[1]) * _SIZES[match[2]]
    return found


def _find_control(line: str) -> str:
    """Return the congestion control: the last word alone before the numbers of TCP, which begin with wscale or rto.

    With options -e, -m, -p and -O, words with a colon, and lists in parentheses, come before it.
    """
    words = _LISTED.sub(" ", line).split()
    end = next((place for place, word in enumerate(words) if word.partition(":")[0] in _NUMBERS), len(words))
    found = [word for word in words[:end] if _CONTROL.fullmatch(word) and word not in _FLAGS]
    return found[-1] if found else ""


def _parse_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _make_flow(ends: tuple[str, str], one: _SsConnection) -> ImportedFlow | None:
    def get_values(name: str) -> measurement.Floats:
        return np.array([row.get(name, math.nan) for row in one.rows])

    times = np.array(one.times)
    window, srtt = get_values("cwnd"), get_values("rtt")
    if not np.isfinite(window).any():
        return None
    acked = get_values("bytes_acked")
    if not np.isfinite(acked).any():  # before Linux 4.1
        acked = get_values("bytes_sent") - np.nan_to_num(get_values("bytes_retrans"))
    columns = {"cwnd": measurement.make_column(window, whole=True)}
    figures: dict[str, float | int] = dict(measurement.summarise_window(times, window, float(times[-1])))
    if np.isfinite(srtt).any():
        columns["srtt_ms"] = measurement.make_column(srtt)
        figures |= measurement.summarise_smoothed(times, srtt, float(times[-1]))
    if np.isfinite(get_values("minrtt")).any():
        figures["rtt_min_ms"] = float(np.nanmin(get_values("minrtt")))
    if np.isfinite(acked).any():
        # a connection that began before the log has bytes from then
        got = np.diff(np.nan_to_num(acked), prepend=np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            columns["goodput_mbit"] = measurement.make_column(
                np.maximum(got, 0.0) * 8e-6 / np.diff(times, prepend=np.nan)
            )
        if len(times) > 1 and times[-1] > times[0]:
            figures["goodput_mbit"] = float(np.nanmax(acked) - np.nanmin(acked)) * 8e-6 / float(times[-1] - times[0])
    if np.isfinite(get_values("ssthresh")).any():
        columns["ssthresh"] = measurement.make_column(get_values("ssthresh"), whole=True)
    if np.isfinite(get_values("unacked")).any():  # tcp_packets_in_flight() of Linux; ss leaves zeros out
        out, selected, lost, again = (
            np.nan_to_num(get_values(name)) for name in ("unacked", "sacked", "lost", "retrans_out")
        )
        columns["in_flight"] = measurement.make_column(np.maximum(out - selected - lost + again, 0.0), whole=True)
    again = get_values("retrans")
    if len(again):  # ss says nothing before the first one
        total = np.maximum.accumulate(np.nan_to_num(again))
        columns["retransmissions"] = measurement.make_column(np.diff(total, prepend=total[0]), whole=True)
        figures["retransmissions"] = round(float(total[-1] - total[0]))
    if np.isfinite(sent := get_values("data_segs_out")).any():
        first, last = np.nanmin(sent), np.nanmax(sent)
        figures["sent"] = round(float(last - first if len(sent) > 1 else last))
    name = one.controls.most_common(1)[0][0] if one.controls else ""
    flow = ImportedFlow(
        f"{ends[0]} > {ends[1]}",
        direction="up",
        cc=setup.match_control(name, "ss") if name else None,
        start_s=float(times[0]),
        end_s=float(times[-1]),
        figures=figures,
        series=pl.DataFrame({"time_s": times, **columns}),
        ends=ends,
        frames_per_payload=measurement.compute_frame_ratio(
            _compute_median(get_values("mss")), is_v6=ends[1].startswith("[")
        ),
    )
    if (low := flow.rtt_min_ms) and math.isfinite(low):
        flow.base_rtt = infer.infer_base_rtt(low, "minrtt" if "rtt_min_ms" in figures else "its smallest smoothed RTT")
    return flow


def _compute_median(values: measurement.Floats) -> float:
    """Return the median of what is known; 0 if nothing is."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else 0.0


def _select_senders(flows: list[ImportedFlow]) -> list[ImportedFlow]:
    """Return the connections that send: those with nothing but a few answers are the other ends of some."""
    several = [flow for flow in flows if _count_sent_bytes(flow) >= _LEAST_SENT]
    return several or flows


def _count_sent_bytes(flow: ImportedFlow) -> float:
    return flow.goodput_mbit * max(flow.end_s - flow.start_s, 0.0) * 1e6 / 8


def _move(flow: ImportedFlow, first: float) -> None:
    flow.start_s -= first
    flow.end_s -= first
    flow.series = flow.series.with_columns(pl.col("time_s") - first).filter(pl.col("time_s") > 0)
