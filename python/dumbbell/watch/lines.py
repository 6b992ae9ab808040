"""A replay as lines, for pipes and files: one per interval, or CSV."""

from __future__ import annotations

import csv
import math
import sys
import time

from dumbbell.watch.replay import FlowReplay, LinkReplay, Replay
from dumbbell.watch.source import RunSource
from dumbbell.words import format_measured

COLUMNS = (
    *("time_s", "part", "rate_mbit", "capacity_mbit", "sojourn_ms", "queued_packets", "marks", "drops"),
    *("cwnd", "rtt_ms", "retransmissions", "state"),
)
_WAIT_S = 0.02


def write(source: RunSource, speed: float | None, *, as_csv: bool) -> None:
    """Print a run as it goes, as fast as it is known, or at a speed in seconds of the run per second."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if as_csv:
        writer.writerow(COLUMNS)
    printed, printed_events = 0, 0
    with source:
        begun = time.monotonic()
        while True:
            is_done = source.is_done
            found = source.take_replay()
            if found is None:
                if is_done:
                    break
                time.sleep(_WAIT_S)
                continue
            while printed < len(found):
                end = float(found.times[printed])
                if end > found.duration_s + 1e-9 or (not source.is_done and printed == len(found) - 1):
                    break  # the last interval of a part may not be whole
                if speed is not None:
                    time.sleep(max(0.0, begun + end / speed - time.monotonic()))
                if as_csv:
                    writer.writerows(_list_rows(found, printed))
                else:
                    while printed_events < len(found.events) and found.events[printed_events][0] <= end:
                        when, text = found.events[printed_events]
                        print(f"{when:9.3f} s  * {text}")
                        printed_events += 1
                    print(_format_line(found, printed))
                sys.stdout.flush()
                printed += 1
            if source.is_done and not as_csv:
                print("\n".join(found.notes), end="\n" * bool(found.notes), file=sys.stderr)


def _format_line(found: Replay, at: int) -> str:
    parts = [_format_link(one, at) for one in found.links] + [_format_flow(one, at) for one in found.flows]
    return f"{found.times[at]:9.3f} s  {' | '.join(parts)}"


def _format_link(one: LinkReplay, at: int) -> str:
    sojourn = format_measured(one.sojourn_ms[at])
    rate, capacity = (format_measured(values[at]) for values in (one.rate_mbit, one.capacity_mbit))
    return (
        f"{one.name} {rate} of {capacity} Mbit/s, {sojourn} ms in queue, {format_measured(one.queued[at])} queued, "
        f"{format_measured(one.marks[at])} marks, {format_measured(one.drops[at])} drops"
    )


def _format_flow(one: FlowReplay, at: int) -> str:
    rate = format_measured(one.rate_mbit[at])
    parts = [f"{one.name} {rate} Mbit/s"]
    if not math.isnan(one.cwnd[at]):
        parts.append(f"cwnd {one.cwnd[at]:.0f}")
    if not math.isnan(one.rtt_ms[at]):
        parts.append(f"RTT {format_measured(one.rtt_ms[at])} ms")
    if one.state[at]:
        parts.append(one.state[at])
    return ", ".join(parts)


def _list_rows(found: Replay, at: int) -> list[list[str]]:
    def format_value(value: float, places: int = 3) -> str:
        return "" if math.isnan(value) else f"{value:.{places}f}"

    time_s = format_value(float(found.times[at]))
    rows = []
    for one in found.links:
        numbers = [format_value(values[at]) for values in (one.rate_mbit, one.capacity_mbit, one.sojourn_ms)]
        counts = [format_value(values[at], 0) for values in (one.queued, one.marks, one.drops)]
        rows.append([time_s, one.name, *numbers, *counts, "", "", "", ""])
    for flow in found.flows:
        numbers = [
            format_value(flow.cwnd[at], 0),
            format_value(flow.rtt_ms[at]),
            format_value(flow.retransmissions[at], 0),
        ]
        rows.append([time_s, flow.name, format_value(flow.rate_mbit[at]), "", "", "", "", "", *numbers, flow.state[at]])
    return rows
