"""Finds the test of Flent that a run is most like, and the names of its series there.

Plots come from the test, so a file has to name one that Flent has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_OF_RRUL = 4  # flows each way, and pings


@dataclass
class Sender:
    """A flow as naming sees it: `kind` is flows, udp or ping."""

    kind: str
    direction: str
    base_rtt_ms: float
    cc: str


@dataclass
class Test:
    """A test of Flent: its name, what each flow's series is called, and the parameters of the test."""

    name: str
    series: list[str]
    parameters: dict[str, str] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)


def choose_test(senders: Sequence[Sender]) -> Test:
    """Return the test that a run is most like.

    One way: `tcp_nup`, or `rtt_fair_var_up` if base RTTs differ. Both ways: `rrul_be`, or `rrul_be_nflows` if flows
    are more than four each way. Without TCP: `ping`.
    """
    tcp = [one for one in senders if one.kind == "flows"]
    ways = Counter(one.direction for one in tcp)
    names = _name_pings_and_udp(senders)
    if not tcp:
        return Test("ping", names)
    if len(ways) == 1:
        rtts = sorted({one.base_rtt_ms for one in tcp})
        if len(rtts) > 1:
            return _make_rtt_fair(senders, names)
        number = 0
        for place, one in enumerate(senders):
            if one.kind == "flows":
                number += 1
                names[place] = f"TCP upload::{number}"
        return Test("tcp_nup", names, {"upload_streams": str(number)})
    many = max(ways.values()) > MOST_OF_RRUL
    numbers: Counter[str] = Counter()
    for place, one in enumerate(senders):
        if one.kind == "flows":
            way = {"down": "download", "up": "upload"}[one.direction]
            numbers[way] += 1
            number = numbers[way]
            names[place] = f"TCP {way} BE::{number}" if many else f"TCP {way} BE{number if number > 1 else ''}"
    if not many:
        return Test("rrul_be", names)
    return Test("rrul_be_nflows", names, {f"{way}_streams": str(numbers[way]) for way in ("download", "upload")})


def _make_rtt_fair(senders: Sequence[Sender], names: list[str]) -> Test:
    hosts: list[str] = []
    for place, one in enumerate(senders):
        if one.kind == "flows":
            alike = sum(host.partition("#")[0] == f"{one.base_rtt_ms:g}ms" for host in hosts)
            hosts.append(f"{one.base_rtt_ms:g}ms" + f"#{alike + 1}" * bool(alike))
            names[place] = f"TCP upload BE{len(hosts)} {hosts[-1]}"
    return Test("rtt_fair_var_up", names, hosts=hosts)


def _name_pings_and_udp(senders: Sequence[Sender]) -> list[str]:
    """Return names of the series of pings and UDP, and nothing for TCP."""
    names, pings, floods = [], 0, 0
    for one in senders:
        if one.kind == "ping":
            names.append("Ping (ms) ICMP" if pings == 0 else f"Ping (ms) UDP BE{pings}")
            pings += 1
        elif one.kind == "udp":
            floods += 1
            names.append(f"UDP {'download' if one.direction == 'down' else 'upload'}::{floods}")
        else:
            names.append("")
    return names


def find_imported_test(said: dict[str, Any], count: int) -> Test | None:
    """Return the test of a run that was imported from a file of Flent; None if it was not."""
    names = said.get("series")
    if not isinstance(names, list) or len(names) != count or not isinstance(test := said.get("test"), str):
        return None
    parameters = said.get("parameters")
    hosts = said.get("hosts")
    return Test(
        test,
        [str(name) for name in names],
        {str(k): str(v) for k, v in parameters.items()} if isinstance(parameters, dict) else {},
        [str(host) for host in hosts] if isinstance(hosts, list) else [],
    )
