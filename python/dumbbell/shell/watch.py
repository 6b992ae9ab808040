"""`dumbbell watch`: what goes on in a running session, in another terminal."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import socket
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dumbbell.errors import Ambiguous, InputError, Nothing, OutOfRange, WrongValue, quote_value
from dumbbell.experiment import units
from dumbbell.watch.keys import Keyboard
from dumbbell.watch.sparks import draw_sparks

_UNIX = Path("/proc/net/unix")
_DIRECTIONS = ("down", "up")
_HISTORY = 40  # intervals that the picture shows
_REFRESH_NS = {True: 250_000_000, False: 1_000_000_000}  # of a terminal; of lines
_PATIENCE_S = 5.0  # with a session that says nothing: it says something every 0.1 s
COLUMNS = ("time_s", "direction", "rate_mbit", "sojourn_ms", "marks", "drops", "queued_packets", "queued_kb")


@dataclass(frozen=True)
class LinkInterval:
    """One direction in one interval: `rate_mbit` left the link, `sojourn_ms` is None if nothing left the queue."""

    time_s: float
    direction: str
    rate_mbit: float
    sojourn_ms: float | None
    marks: int
    drops: int
    queued_packets: int
    queued_kb: float
    link_mbit: float

    def to_row(self) -> list[str]:
        """Return the values of `COLUMNS` as text."""
        sojourn = "" if self.sojourn_ms is None else f"{self.sojourn_ms:.3f}"
        counts = [str(self.marks), str(self.drops), str(self.queued_packets), f"{self.queued_kb:.1f}"]
        return [f"{self.time_s:.2f}", self.direction, f"{self.rate_mbit:.3f}", sojourn, *counts]


class RunningSession:
    """A running session, as its process reports it."""

    def __init__(self, address: str) -> None:
        """Raise OSError or ValueError if it is over, or another user's."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_PATIENCE_S)
        try:
            self._socket.connect(address)
            self._lines: IO[str] = self._socket.makefile("r")
            self.about: dict[str, Any] = json.loads(self._lines.readline())  # ValueError if it is over
        except (OSError, ValueError):
            self.close()
            raise

    def close(self) -> None:
        """Close the connection to the session."""
        self._socket.close()

    @property
    def described(self) -> str:
        """The session in few words."""
        return f"{self.about['pid']} ({self.about['experiment']}: {self.about['command']})"

    def take_snapshots(self) -> Iterator[dict[str, Any]]:
        """Yield what was seen so far, again and again, until the session is over."""
        with contextlib.suppress(OSError, ValueError):
            for line in self._lines:
                yield json.loads(line)


def list_running() -> list[RunningSession]:
    """Return all sessions of this user in this network namespace."""
    try:
        text = _UNIX.read_text(errors="replace")
    except OSError:
        return []
    found = []
    for name in dict.fromkeys(re.findall(rf"@(dumbbell-{os.getuid()}-\d+)$", text, re.MULTILINE)):
        with contextlib.suppress(OSError, ValueError):
            found.append(RunningSession(f"\0{name}"))
    return found


def find(which: str) -> RunningSession:
    """Return the session that `which` names: its process, its results file, or the only one if empty."""
    sessions = list_running()
    path = str(Path(which).resolve())
    meant = [one for one in sessions if which in ("", str(one.about["pid"])) or one.about["output"] == path]
    if len(meant) == 1:
        return meant[0]
    named = ", ".join(one.described for one in sessions)
    if meant:
        raise Ambiguous(f"{len(meant)} shells are running", f"one by process or results file: {named}", command="watch")
    if sessions:
        allowed = f"the process or results file of one that runs: {named}"
        raise Nothing(f"no running dumbbell shell is {which}", allowed, command="watch")
    if "DUMBBELL_SHELL" in os.environ:
        found = "a dumbbell shell cannot watch itself; run dumbbell watch in another terminal"
    else:
        found = f"{which} is not a file of runs, and no" if which else "no"
        found += " dumbbell shell is running; start one with dumbbell shell FILE"
    raise Nothing(found, command="watch")


def is_running(which: str) -> bool:
    """Whether a results file is that of a session which runs."""
    path, found = str(Path(which).resolve()), list_running()
    for one in found:
        one.close()
    return any(one.about["output"] == path for one in found)


def measure_intervals(session: RunningSession, length_ns: int) -> Iterator[list[LinkInterval]]:
    """Yield both directions, interval by interval."""
    before: dict[str, Any] | None = None
    for now in session.take_snapshots():
        if before is None:
            before = now
        elif now["time_s"] - before["time_s"] >= 0.95 * length_ns / 1e9:
            yield [_measure_between(direction, before, now) for direction in _DIRECTIONS]
            before = now


def _measure_between(direction: str, before: dict[str, Any], after: dict[str, Any]) -> LinkInterval:
    now = after[direction]
    seconds = after["time_s"] - before["time_s"]
    since = {name: now[name] - before[direction][name] for name in now}
    sojourn = since["sojourn_ns"] / since["sent"] / 1e6 if since["sent"] else None
    queued = (now["backlog_packets"], now["backlog_bytes"] / 1e3)
    rate = since["bytes"] * 8e-6 / seconds
    return LinkInterval(
        after["time_s"], direction, rate, sojourn, since["ce_marks"], since["drops"], *queued, now["rate"] / 1e6
    )


def _print_lines(session: RunningSession, length_ns: int, *, as_csv: bool) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if as_csv:
        writer.writerow(COLUMNS)
    for both in measure_intervals(session, length_ns):
        for one in both:
            if as_csv:
                writer.writerow(one.to_row())
                continue
            sojourn = "-" if one.sojourn_ms is None else f"{one.sojourn_ms:.2f}"
            print(
                f"{one.time_s:8.2f} s  {one.direction:4}  {one.rate_mbit:8.2f} Mbit/s  {sojourn:>8} ms in queue  "
                f"{one.marks:5} marks  {one.drops:5} drops  {one.queued_packets:5} packets queued"
            )
        sys.stdout.flush()


def _show_screen(session: RunningSession, length_ns: int) -> None:
    from rich.live import Live
    from rich.table import Table

    history = {direction: deque([0.0] * _HISTORY, _HISTORY) for direction in _DIRECTIONS}
    is_paused = False
    with Keyboard() as keys, Live(auto_refresh=False, transient=True) as live:
        for both in measure_intervals(session, length_ns):
            while key := keys.read(0.0):
                is_paused ^= key == " "
                if key in ("q", "Q"):
                    return
            table = Table(title=session.described, title_justify="left", box=None, pad_edge=False)
            table.add_column("")
            for name in ("Mbit/s", "link", "in queue, ms", "marks/s", "drops/s", "queued"):
                table.add_column(name, justify="right", min_width=8)
            table.add_column("share of the link")
            seconds = length_ns / 1e9
            for one in both:
                bars = history[one.direction]
                bars.append(one.rate_mbit)
                sojourn = "-" if one.sojourn_ms is None else f"{one.sojourn_ms:.2f}"
                per_second = [f"{count / seconds:.0f}" for count in (one.marks, one.drops)]
                numbers = [f"{one.rate_mbit:.2f}", f"{one.link_mbit:.4g}", sojourn, *per_second]
                table.add_row(one.direction, *numbers, str(one.queued_packets), draw_sparks(bars, one.link_mbit))
            if not is_paused:
                table.caption = "space pauses, q quits"
                table.caption_justify = "left"
                live.update(table, refresh=True)
    print(f"{session.described} is over", file=sys.stderr)


def follow(which: str, interval: str, *, as_csv: bool) -> None:
    """Show a running session until it ends; `interval` is between two updates. Raises InputError."""
    is_screen = sys.stdout.isatty() and not as_csv
    length_ns = _REFRESH_NS[is_screen]
    if interval:
        try:
            length_ns = units.parse("time", interval)
        except ValueError as error:
            allowed = error.allowed if isinstance(error, InputError) else "a time, such as 250ms"
            raise WrongValue(quote_value(interval), allowed, command="watch", option="--interval") from None
        if not 100_000_000 <= length_ns <= 3_600_000_000_000:
            raise OutOfRange(quote_value(interval), "100ms to 1h", command="watch", option="--interval")
    session = find(which)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            if is_screen:
                _show_screen(session, length_ns)
            else:
                _print_lines(session, length_ns, as_csv=as_csv)
    finally:
        session.close()
