"""ShapedDevices.csv and network.json of LibreQoS as commands of tc(8), for the first subscriber.

LibreQoS makes a class of HTB for each circuit, with its minimum as rate and its maximum as ceiling, below the classes
of its parent nodes, and Cake in it.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from typing import Any

from dumbbell.errors import Missing, Nothing, Unreadable, WrongValue, quote_value
from dumbbell.tc.lexer import Source

_MIN, _MAX = "Min Mbps", "Max Mbps"
_QUEUE = "cake diffserv4"  # LibreQoS's default
_DEVICES = {"Download": "to_network", "Upload": "to_internet"}
DOWN = _DEVICES["Download"]  # the device that downloads leave
_MOST_DEPTH = 32  # nodes below each other


def is_shaped_devices(text: str) -> bool:
    """Whether text is a table of subscribers."""
    head = text.lstrip("\ufeff").partition("\n")[0]
    return f"Download {_MAX}" in head and "," in head


def convert_devices(source: Source, network: Source | None, left: dict[str, str], notes: list[str]) -> Source:
    """Return the commands for the first subscriber; raises InputError."""
    lines = [line for line in source.lines if line.strip() and not line.startswith("#")]
    try:
        rows = list(csv.DictReader([lines[0].lstrip("\ufeff"), *lines[1:]], skipinitialspace=True)) if lines else []
    except csv.Error as error:
        raise Unreadable(f"this is not CSV ({error})", "a table of LibreQoS", file=source.name) from None
    if not rows:
        raise Nothing("it has no subscriber", "a row below the head", file=source.name)
    row = rows[0]
    name = row.get("Circuit Name") or row.get("Circuit ID") or "the first one"
    notes.append(f"the subscriber is {name}, the first of {len(rows)}; all others are idle here")
    parents = _find_parents(network, row.get("Parent Node") or "", notes)
    if not parents and (row.get("Parent Node") or "").lower() not in ("", "none"):
        left[f"parent node {row.get('Parent Node')}"] = "without network.json nothing is known of its rate"
    commands: list[str] = []
    for direction, device in _DEVICES.items():
        commands += _make_commands(source.name, row, parents, direction, device)
    return Source(f"{source.name} as tc", tuple(commands))


def _make_commands(
    file: str, row: Mapping[str, str], parents: list[Mapping[str, Any]], direction: str, device: str
) -> Iterator[str]:
    least, most = (_read_mbit(file, row, f"{direction} {end}") for end in (_MIN, _MAX))
    add = f"tc class add dev {device}"
    yield f"tc qdisc add dev {device} root handle 1: htb default 3"
    number, parent = 0x10, "1:"
    if not parents:
        yield f"{add} parent 1: classid 1:1 htb rate {most}mbit ceil {most}mbit"
        parent = "1:1"
    for node in parents:
        rate = _read_node_rate(node, direction)
        yield f"{add} parent {parent} classid 1:{number:x} htb rate {rate}mbit ceil {rate}mbit"
        parent, number = f"1:{number:x}", number + 1
    yield f"{add} parent {parent} classid 1:3 htb rate {least}mbit ceil {most}mbit"
    sqm = (row.get("sqm") or _QUEUE).strip()
    yield f"tc qdisc add dev {device} parent 1:3 {sqm if ' ' in sqm or sqm == 'fq_codel' else _QUEUE}"


def _read_mbit(file: str, row: Mapping[str, str], key: str) -> str:
    text = (row.get(key) or "").strip()
    try:
        if not 0 < float(text) <= 10**7:
            raise ValueError
    except ValueError:
        if not text:
            raise Missing("Mbit/s of the first subscriber", file=file, key=key) from None
        raise WrongValue(quote_value(text), "Mbit/s of the first subscriber", file=file, key=key) from None
    return text


def _read_node_rate(node: Mapping[str, Any], direction: str) -> float:
    rate = node.get(f"{direction.lower()}BandwidthMbps", 0)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 10**7:
        raise WrongValue(quote_value(rate), "Mbit/s", file="network.json", key=f"{direction.lower()}BandwidthMbps")
    return rate


def _find_parents(network: Source | None, wanted: str, notes: list[str]) -> list[Mapping[str, Any]]:
    """Return the nodes above a subscriber, the highest first."""
    if network is None:
        return []
    try:
        tree = json.loads("\n".join(network.lines))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"this is not JSON ({error})", "network.json of LibreQoS", file=network.name) from None
    found = _search_node(tree, wanted, 0)
    if found is None:
        notes.append(f"{network.name} has no node {wanted or 'for the subscriber'}: nothing above limits it")
    return found or []


def _search_node(tree: Any, wanted: str, depth: int) -> list[Mapping[str, Any]] | None:
    if not isinstance(tree, dict) or depth > _MOST_DEPTH:
        return None
    for name, node in tree.items():
        if not isinstance(node, dict):
            continue
        if name == wanted:
            return [node]
        below = _search_node(node.get("children"), wanted, depth + 1)
        if below is not None:
            return [node, *below]
    return None
