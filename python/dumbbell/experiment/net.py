"""Several hops and the ways over them: keys of an experiment file, and which of them a run has."""

from collections.abc import Sequence
from typing import Any

from dumbbell.experiment.registry import Param

# sections with a queue and a link
HOPS = ("bottleneck", "hop", "reverse")
_MINUTE = 60 * 10**9
NAME = Param("name", "name", False, "", "", None, None, (), "What routes call the hop.", "")
DELAY = Param(
    "delay", "time", False, "", 0, 0, _MINUTE, (), "Propagation behind the link, one way, of all that passes it.", ""
)


def _parse_route(name: str, doc: str) -> Param:
    return Param(name, "hops", True, "", None, None, None, (), doc, "")


_DIRECTION = (
    "Which way the data go: down over the bottleneck, up over [reverse]. Acknowledgements go the other way, and half "
    "of the base RTT lies on each."
)
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
    found += [(f"hop[{number}]", hop) for number, hop in enumerate(run.get("hop", []))]
    return [*found, ("reverse", run["reverse"])] if run.get("reverse") is not None else found


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
_ECHO: dict[str, Any] = {"echo": False, "base_rtt": 0, "ack_path": []}  # of UDP


def remove_net(run: dict[str, Any], senders: Sequence[str]) -> None:
    """Take the keys of hops and routes out of a run with one hop, over which all data go; unused ones of echo, links.

    `senders` are the sections of what sends. The configuration of such a run is as it was before there were these keys.
    """
    of_hops = [hop for _, hop in list_hops(run)]
    for tables, added in ((run["udp"], _ECHO), (of_hops, _LINK_LAYER), (of_hops, _LINK)):
        if all(one[key] == default for one in tables for key, default in added.items()):
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
