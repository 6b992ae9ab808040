"""How experiments of cases are made: a bottleneck, the stack, and other flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dumbbell.check.stack.stack_case import SUBJECT, Scene
from dumbbell.evaluate.bbr.lab import FRAME

_FEWEST = 10  # packets of a queue: a burst of an initial window (RFC 9002, section 7.2) finds room
SPREAD = 0.05  # s: start times are drawn from 0 to this, so that seeds differ


def compute_bdp(rate: float, rtt: float) -> int:
    """Return the bandwidth-delay product of Mbit/s and seconds, in full frames, at least ten."""
    return max(round(rate * 1e6 * rtt / (8 * FRAME)), _FEWEST)


def format_time(seconds: float) -> str:
    """Return a time as experiment files have it."""
    return f"{round(seconds * 1e9)}ns"


def format_rate(rate: float) -> str:
    """Return a rate of Mbit/s as experiment files have it."""
    return f"{round(rate * 1e6)}bit"


def describe_path(rate: float, rtt: float) -> str:
    """Return rate and RTT in words: `200Mbit 100ms`."""
    many = f"{rate / 1000:g}Gbit" if rate >= 1000 else f"{rate:g}Mbit" if rate >= 1 else f"{rate * 1000:g}kbit"
    return f"{many} {rtt * 1e3:g}ms"


def make_subject(rtt: float, *, at: float = 0.0, **keys: Any) -> dict[str, Any]:
    """Return the flow of the stack; it starts up to `SPREAD` after `at`."""
    return {"who": SUBJECT, **make_other_flow("", rtt, at=at, **keys)}


def make_other_flow(cc: str, rtt: float, *, at: float = 0.0, **keys: Any) -> dict[str, Any]:
    """Return the flow of a TCP; it starts up to `SPREAD` after `at`."""
    start = {"uniform": [format_time(at), format_time(at + SPREAD)]}
    return ({"cc": cc} if cc else {}) | {"base_rtt": format_time(rtt), "start": start} | keys


def make_scene(
    place: str,
    rate: float,
    rtt: float,
    seconds: float,
    *,
    flows: Sequence[Mapping[str, Any]] | None = None,
    aqm: str | Mapping[str, Any] | None = None,
    buffer: float = 1.0,
    packets: int | None = None,
    interval: float = 0.1,
    since: float = 0.0,
    link: Mapping[str, Any] | None = None,
    rates: Sequence[tuple[float, float]] = (),
    flow: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Scene:
    """Return a scene: the stack alone, unless `flows` are given, over a tail drop queue of `buffer` BDP, unless `aqm`.

    `packets` is the queue's length, `rates` are changes as time and rate, `flow` are other keys of the stack's flow,
    `facts` are those of `Scene`.
    """
    queue = aqm or {"name": "pfifo", "limit": packets or max(round(buffer * compute_bdp(rate, rtt)), 1)}
    bottleneck: dict[str, Any] = {"rate": format_rate(rate), "aqm": queue}
    if link is not None:
        bottleneck["link"] = dict(link)
    if rates:
        bottleneck["rate_changes"] = [{"at": format_time(at), "rate": format_rate(value)} for at, value in rates]
    table = {
        "duration": format_time(seconds),
        "bottleneck": bottleneck,
        "flows": [dict(one) for one in flows] if flows is not None else [make_subject(rtt, **(flow or {}))],
        "record": {"interval": format_time(interval), "from": format_time(since)},
    }
    return Scene(place, table, rate, rtt, seconds, **facts)
