"""A replay on a terminal: rates, windows, round trips, queues and states as they go, and what happened."""

from __future__ import annotations

import math
import sys
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dumbbell.explain import phrases
from dumbbell.watch.keys import Keyboard
from dumbbell.watch.player import Player
from dumbbell.watch.replay import Array, Replay
from dumbbell.watch.source import RunSource
from dumbbell.watch.sparks import draw_bar, draw_sparks
from dumbbell.words import format_count, format_measured

_REFRESH_S = 0.05
_EVENTS = 6  # lines
_MOST_SPARKS, _LEAST_SPARKS = 40, 6
_NUMBER = 6  # columns of a terminal that a number takes at least
_FIXED, _FIXED_LINKS = 58, 55  # columns of the terminal that numbers take in the tables; names come on top
KEYS = "space pause   . or → step   , or ← back   + - speed   [ ] seek   q quit"


def show(source: RunSource, speed: float) -> None:
    """Play a run until the user leaves. Raises InputError, and KeyboardInterrupt on Ctrl-C."""
    console = Console()
    player = Player(source.duration_s, source.duration_s, speed)
    found: Replay | None = None
    drawn: object = None
    with source, Keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        before = time.monotonic()
        going = True
        while going:
            newer = source.take_replay()
            if newer is not None:
                found = newer
                player.interval_s, player.known_s = found.interval_s, found.duration_s
            now = time.monotonic()
            player.advance(now - before)
            before = now
            place = -1 if found is None else found.find_interval(player.time_s)
            state = (place, player.speed, player.is_paused, player.is_waiting, source.is_done, console.size, now // 1)
            if state != drawn or newer is not None:
                drawn = state
                live.update(draw_screen(found, player, source, *console.size), refresh=True)
            key = keys.read(_REFRESH_S)
            going = player.press(key) if key else keys.is_there or not (player.is_over and source.is_done)
    at = f"{phrases.format_time(player.time_s)} of {phrases.format_time(player.duration_s)}"
    print(f"{found.title if found else source.about}: left at {at}", file=sys.stderr)


def draw_screen(found: Replay | None, player: Player, source: RunSource, width: int, height: int) -> RenderableType:
    """Return what the terminal shows, in this many columns and lines."""
    parts: list[RenderableType] = [_draw_head(found, player, source, width)]
    if found is not None:
        at = found.find_interval(player.time_s)
        parts += [Text(), _draw_links(found, at, width), Text()]
        rows = max(1, height - len(found.links) - 10 - min(_EVENTS, len(found.events)))
        parts.append(_draw_flows(found, at, width, rows))
        past = [(when, text) for when, text in found.events if when <= player.time_s][-_EVENTS:]
        parts.append(Text())
        parts += [Text(f"{when:9.3f} s  {text}", no_wrap=True, overflow="ellipsis") for when, text in past]
    parts += [Text(), Text(KEYS, style="dim", no_wrap=True, overflow="ellipsis")]
    return Group(*parts)


def _draw_head(found: Replay | None, player: Player, source: RunSource, width: int) -> Text:
    if found is None:
        reached = f"{phrases.format_time(source.reached_s)} of {phrases.format_time(source.duration_s)}"
        return Text(f"{source.about}\n{reached} done; {source.when_shown}", no_wrap=True, overflow="ellipsis")
    state = "▶"
    if player.is_waiting:
        state = f"waits for the run, which is at {phrases.format_time(source.reached_s)}"
    elif player.is_over:
        state = "end"
    elif player.is_paused:
        state = "paused"
    speed = f"{player.speed:g}" if player.speed >= 1 else f"1/{1 / player.speed:g}"
    text = (
        f"{phrases.format_clock(player.time_s)} of {phrases.format_time(player.duration_s)}   {state}   speed {speed}"
    )
    line = draw_bar(player.time_s / player.duration_s, max(10, min(width, 120) - len(text) - 3))
    return Text.assemble((found.title, "bold"), f"  {source.about}\n{text}   ", (line, "cyan"), no_wrap=True)


def _draw_history(values: Array, top: float, at: int, room: int) -> str:
    """Return the last values as bars, the newest at the right."""
    shown = values[max(0, at + 1 - room) : at + 1]
    return draw_sparks((0.0 if math.isnan(value) else float(value) for value in shown), top).rjust(room)


def _find_top(values: Array) -> float:
    known = values[~(values != values)]
    return float(known.max()) if len(known) else 0.0


def _make_table(names: list[tuple[str, bool]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, is_number in names:
        table.add_column(
            name, justify="right" if is_number else "left", no_wrap=True, min_width=_NUMBER * is_number or None
        )
    return table


def _fit_bars(width: int, most: int) -> tuple[int, int]:
    """Return how many rows of bars, up to `most`, have room in so many columns, and how wide they are."""
    count = max(0, min(most, width // (_LEAST_SPARKS + 2)))
    return count, min(_MOST_SPARKS, width // count - 2) if count else 0


def _draw_links(found: Replay, at: int, width: int) -> Table:
    names = ("Mbit/s", "of", "in queue, ms", "queued", "marks", "drops")
    count, room = _fit_bars(width - _FIXED_LINKS - max(len(one.name) for one in found.links), 2)
    bars = ("rate", "time in queue")[:count]
    table = _make_table([("", False), *((name, True) for name in names), *((name, False) for name in bars)])
    for one in found.links:
        if at < 0:
            table.add_row(one.name, *["-"] * 6)
            continue
        numbers = [one.rate_mbit[at], one.capacity_mbit[at], one.sojourn_ms[at]]
        counts = [one.queued[at], one.marks[at], one.drops[at]]
        tops = [(one.rate_mbit, _find_top(one.capacity_mbit)), (one.sojourn_ms, _find_top(one.sojourn_ms))]
        histories = [_draw_history(*of, at, room) for of in tops[:count]]
        table.add_row(one.name, *map(format_measured, numbers), *map(format_measured, counts), *histories)
    return table


def _draw_flows(found: Replay, at: int, width: int, rows: int) -> Table:
    numbers = ("Mbit/s", "cwnd", "RTT, ms", "sent again")
    names = max((len(one.name) for one in found.flows), default=0)
    most, room = _fit_bars(width - _FIXED - names, 3)
    bars = ("rate", "window", "RTT")[:most]
    table = _make_table(
        [("", False), *((name, True) for name in numbers), ("state", False), *((b, False) for b in bars)]
    )
    top = max((_find_top(one.rate_mbit) for one in found.flows), default=0.0)
    for one in found.flows[:rows]:
        if at < 0:
            table.add_row(one.name, *["-"] * 4)
            continue
        values = [format_measured(one.rate_mbit[at]), format_measured(one.cwnd[at], 1), format_measured(one.rtt_ms[at])]
        tops = [(one.rate_mbit, top), (one.cwnd, _find_top(one.cwnd)), (one.rtt_ms, _find_top(one.rtt_ms))]
        histories = [_draw_history(*of, at, room) for of in tops[:most]]
        table.add_row(one.name, *values, format_measured(one.retransmissions[at]), one.state[at].ljust(13), *histories)
    if len(found.flows) > rows:
        table.add_row(f"… {format_count(len(found.flows) - rows, 'more flow')}")
    return table
