"""Defaults that are full frames, which follow from the segments of the hosts, and the largest datagram."""

from collections.abc import Iterator
from typing import Any

from dumbbell.errors import WrongValue
from dumbbell.experiment import stack
from dumbbell.experiment.net import list_hops
from dumbbell.experiment.registry import Param, read_registry

HEADERS = 66
"""Bytes of a full frame in addition to the payload: Ethernet, IPv4, and TCP with time stamps."""
UDP_HEADERS = 42
"""Bytes of a datagram's frame in addition to its payload: Ethernet, IPv4 and UDP."""
_STAGES = ("path", "behind", "ack_path")


def compute_full_frame(run: dict[str, Any]) -> int:
    """Return the length of a full frame on the devices of a run, bytes without FCS: Linux's psched_mtu."""
    return int(run["hosts"]["mss"]) + HEADERS


def settle(run: dict[str, Any], given: dict[str, Any]) -> None:
    """Give keys whose default is full frames the value that the segments of `run` make, if they are not `given`.

    Raises InputError for a datagram that is larger than a full frame: the network cuts nothing into fragments.
    """
    most = compute_full_frame(run)
    if run["hosts"]["mss"] != read_registry().sections["hosts"]["mss"].default:
        _fill_all(run, given, most)
    full = f"a full frame of hosts.mss = {run['hosts']['mss']} B"
    for number, one in enumerate(run["udp"]):
        if one["size"] > most:
            raise WrongValue(f"{one['size']} B", f"at most {most} B, {full}", key=f"udp[{number}].size")
    for section in stack.CARRIED:
        for number, (one, own) in enumerate(zip(run[section], given[section], strict=True)):
            payload = own["cc"].get("mtu", 0) if one["cc"] and "plugin" in one["cc"] else 0  # of a QUIC stack
            if payload > most - UDP_HEADERS:
                allowed = f"at most {most - UDP_HEADERS} B, what {full} has room for"
                raise WrongValue(f"{payload} B", allowed, key=f"{section}[{number}].stack.mtu")


def _fill_all(run: dict[str, Any], given: dict[str, Any], most: int) -> None:
    known = read_registry()
    for (_, hop), (_, own) in zip(list_hops(run), list_hops(given), strict=True):
        if "plugin" not in hop["aqm"]:
            _fill(hop["aqm"], own["aqm"], known.aqm[hop["aqm"]["name"]].params, most)
    for one, own in zip(run["udp"], given["udp"], strict=True):
        _fill(one, own, known.sections["udp"], most)
    for one, own in _list_tables(run, given):
        for key in _STAGES:
            if one.get(key):
                one[key] = [dict(stage) for stage in one[key]]  # other runs of the file have the same list
                for stage, of_file in zip(one[key], own[key], strict=True):
                    _fill(stage, of_file, known.stage[stage["name"]].params, most)


def _list_tables(run: dict[str, Any], given: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for name in ("flows", "web", "udp", "app"):
        yield from zip(run[name], given[name], strict=True)
    yield from ((hop, own) for (_, hop), (_, own) in zip(list_hops(run), list_hops(given), strict=True))


def _fill(table: dict[str, Any], given: dict[str, Any], params: dict[str, Param], most: int) -> None:
    for name, param in params.items():
        if param.frames and name not in given:
            table[name] = param.find_default(most)
