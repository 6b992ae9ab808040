"""Several hops and the ways over them: keys of an experiment file, and which of them a run has."""

import itertools
from collections.abc import Sequence
from typing import Any

from dumbbell.errors import OutOfRange, TooMany
from dumbbell.experiment import units
from dumbbell.experiment.registry import Param

# sections with a queue and a link
HOPS = ("bottleneck", "hop", "reverse")
_MINUTE = 60 * 10**9
NAME = Param("name", "name", False, "", "", None, None, (), "What routes call the hop.", "")
DELAY = Param(
    "delay", "time", False, "", 0, 0, _MINUTE, (), "Propagation behind the link, one way, of all that passes it.", ""
)

BUFFER = Param(
    "buffer", "buffer", True, "", None, None, None, (),
    'How much the queue holds, instead of the limit in aqm: "1.5bdp" (BDP: the rate at the start times the largest '
    'base RTT of the run), "100p" or 100 (packets), "64KiB" or "80ms" (at the rate at the start). A packet is a full '
    "frame of hosts.mss; the queue holds at least one.",
    "RFC 7928 section 3.2: buffers and the largest base RTT",
)  # fmt: skip


def _parse_route(name: str, doc: str) -> Param:
    return Param(name, "hops", True, "", None, None, None, (), doc, "")


_DIRECTION = (
    "Which way the data go: down over the bottleneck, up over [reverse]. Acknowledgements go the other way, and half "
    "of the base RTT lies on each."
)
_DAY = 86_400 * 10**9
# of a cycle of changes of a hop's rate, next to the list `rates`
EVERY = Param(
    "every", "time", False, "", 0, 10**6, _DAY, (), "In a cycle, the time from one change of the rate to the next.", ""
)
UNTIL = Param(
    "until", "time", True, "", None, 0, _DAY, (), "In a cycle, no change from this time on; unset: until the end.", ""
)
MOST_CHANGES = 1_000_000  # of a cycle (crates/dumbbell-config/src/route.rs)
# keys of all that sends; UDP has no acknowledgements
ROUTES = (
    Param("direction", "choice", False, "", "down", None, None, ("down", "up"), _DIRECTION, ""),
    _parse_route("route", "Hops that the data pass, in this order; unset: the bottleneck, and up that of [reverse]."),
    _parse_route(
        "ack_route",
        "Hops that the acknowledgements pass; unset: that of [reverse], if there is one, and up the bottleneck. With "
        "none, [], they never wait.",
    ),
)


def list_hops(run: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the hops of a canonical run, or of what is given of one, each with its place: bottleneck, hop, reverse."""
    found = [("bottleneck", run["bottleneck"])]
    if hops := run.get("hop"):
        found += [(f"hop[{number}]", hop) for number, hop in enumerate(hops)]
    if (reverse := run.get("reverse")) is not None:
        found.append(("reverse", reverse))
    return found


def list_rates(hop: dict[str, Any]) -> list[int]:
    """Return every rate that a canonical hop has at any time, bit/s."""
    changes = hop["rate_changes"]
    later = changes["rates"] if isinstance(changes, dict) else [change["rate"] for change in changes]
    return [hop["rate"], *later]


def list_rate_changes(hop: dict[str, Any], duration: int) -> list[dict[str, int]]:
    """Return the changes of the rate of a canonical hop in order of time: `at` in ns, `rate` in bit/s.

    Those of a cycle are within a run of `duration`, ns.
    """
    changes = hop["rate_changes"]
    if isinstance(changes, list):
        return sorted(changes, key=lambda change: change["at"])
    last = duration if changes["until"] is None else min(changes["until"], duration)
    times = range(changes["every"], last, changes["every"])
    return [{"at": at, "rate": rate} for at, rate in zip(times, itertools.cycle(changes["rates"]), strict=False)]


def settle_rate_changes(run: dict[str, Any]) -> None:
    """Raise InputError, without a file, for a cycle of changes of rate that makes no change, or too many."""
    for place, hop in list_hops(run):
        changes = hop["rate_changes"]
        if isinstance(changes, list):
            continue
        last = run["duration"] if changes["until"] is None else min(changes["until"], run["duration"])
        if changes["every"] >= last:
            found = units.show("time", changes["every"])
            what = "the end of the run" if changes["until"] is None else "until, and before the end of the run"
            raise OutOfRange(f'"{found}"', f"a time before {what}", key=f"{place}.rate_changes.every")
        count = (last - 1) // changes["every"]
        if count > MOST_CHANGES:
            raise TooMany(f"{count} changes of the rate", f"at most {MOST_CHANGES}", key=f"{place}.rate_changes.every")


def compute_base_rtt(run: dict[str, Any], sender: dict[str, Any]) -> int:
    """Return the base RTT of what sends, ns: its own, and the `delay` of the hops that data and answers pass.

    It is 0 for UDP that nobody answers. `run` is canonical, with every key of hops and routes.
    """
    if "cc" not in sender and not sender["echo"]:
        return 0
    delays = {str(hop.get("name", place)): hop[DELAY.name] for place, hop in list_hops(run)}
    forward, back = ["bottleneck"], ["reverse"]
    data, answers = (back, forward) if sender["direction"] == "up" else (forward, back)
    data = data if sender["route"] is None else sender["route"]
    answers = answers if sender.get("ack_route") is None else sender["ack_route"]
    return int(sender["base_rtt"]) + sum(int(delays.get(name, 0)) for name in (*data, *answers))


def find_largest_base_rtt(run: dict[str, Any]) -> int:
    """Return the largest base RTT of all that sends in a canonical run, ns."""
    return max((compute_base_rtt(run, one) for name in ("flows", "web", "udp") for one in run[name]), default=0)


def give_own_hosts(run: dict[str, Any]) -> dict[str, Any]:
    """Return a canonical run whose flows and sources of UDP name all their hosts, as the engine numbers them.

    Entries with hosts = "each" become one entry for each of their `count`.
    """
    everyone = [one for name in ("flows", "udp", "web") for one in run[name]]
    if all(one.get("hosts", "shared") == "shared" for one in everyone):
        return run
    numbers = itertools.count(1 + max(max(one["src_host"], one["dst_host"]) for one in everyone))
    found = dict(run)
    for name in ("flows", "udp"):
        found[name] = []
        for one in run[name]:
            plain = {key: value for key, value in one.items() if key != "hosts"}
            if one["hosts"] == "shared":
                found[name].append(plain)
                continue
            for _ in range(one["count"]):
                found[name].append(plain | {"count": 1, "src_host": next(numbers), "dst_host": next(numbers)})
    return found


def give_routes(run: dict[str, Any], senders: Sequence[str]) -> dict[str, Any]:
    """Return a canonical run with every key of hops and routes, of which one with one hop has none."""
    found = run | {"bottleneck": {DELAY.name: DELAY.default} | run["bottleneck"]}
    for name in senders:
        if name in run:
            found[name] = [{param.name: param.default for param in ROUTES} | one for one in run[name]]
    return found


def select_direction(run: dict[str, Any], senders: Sequence[str], *, up: bool) -> dict[str, Any]:
    """Return a canonical run with the one hop of one direction: up that of [reverse], if there is one.

    Everything that sends is sent over it.
    """
    own = run["reverse"] if up and run.get("reverse") is not None else run["bottleneck"]
    left = {param.name for param in ROUTES}
    found = {key: value for key, value in run.items() if key not in ("hop", "reverse")}
    found["bottleneck"] = {key: value for key, value in own.items() if key != DELAY.name}
    for name in senders:
        if name in run:
            found[name] = [{key: value for key, value in one.items() if key not in left} for one in run[name]]
    return found


_LINK_LAYER: dict[str, Any] = {"link_layer": "raw", "overhead": None, "mpu": None, "framing": None}  # of hops
_LINK: dict[str, Any] = {"link": None}
_BUFFER: dict[str, Any] = {BUFFER.name: None}
_HOSTS: dict[str, Any] = {"hosts": "shared"}  # of flows and UDP
_ON_OFF: dict[str, Any] = {"on": None, "off": None, "times": "fixed"}  # of UDP
_OWN_HOST: dict[str, Any] = {
    "initial_window": None,
    "mss": None,
    "receive_buffer": None,
    "misbehaves": None,
}  # of flows
_ECHO: dict[str, Any] = {"echo": False, "base_rtt": 0, "ack_path": []}  # of UDP


def remove_net(run: dict[str, Any], senders: Sequence[str]) -> None:
    """Take the keys of hops and routes out of a run with one hop, over which all data go; unused ones of echo, links.

    `senders` are the sections of what sends. The configuration of such a run is as it was before there were these keys.
    """
    of_hops = [hop for _, hop in list_hops(run)]
    later = [(of_hops, one) for one in (_LINK_LAYER, _LINK, _BUFFER)]
    later += [(run["udp"] + run["flows"], _HOSTS)]
    later += [(run["udp"], _ECHO), (run["udp"], _ON_OFF), (run["flows"], _OWN_HOST)]
    for tables, added in later:
        if tables and all(one[key] == value for one in tables for key, value in added.items()):
            for one in tables:
                for key in added:
                    del one[key]
    if not run["record"]["queue"]:
        del run["record"]["queue"]
    everyone = [one for name in senders for one in run[name]]
    routes = any(one[param.name] != param.default for one in everyone for param in ROUTES if param.name in one)
    if routes or run["hop"] or run["reverse"] is not None or run["bottleneck"]["delay"]:
        return
    del run["hop"], run["reverse"], run["bottleneck"]["delay"]
    for one in everyone:
        for param in ROUTES:
            one.pop(param.name, None)
