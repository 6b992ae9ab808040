"""Classes of HTB that share a link, as the queue discipline `htb_classes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dumbbell.errors import Unsupported
from dumbbell.experiment import units
from dumbbell.tc import qdiscs, shapers
from dumbbell.tc.devices import Device, HtbClass, QdiscNode
from dumbbell.tc.lexer import place_error
from dumbbell.tc.options import ENGINE, Value

MOST_CLASSES = 4
DSCPS = ("", "EF", "CS1", "CS4")
"""DSCPs of the classes of `htb_classes`, by default; the first has all other traffic."""
_FLOW_KEYS = {
    "limit": "limit",
    "target": "target",
    "interval": "interval",
    "quantum": "flow_quantum",
    "ecn": "ecn",
}
_DEFAULT_BURST = 1600  # bytes, of htb_classes


@dataclass
class SharedClasses:
    """A queue discipline with classes, and the class that each DSCP stands for."""

    rate: Value
    aqm: dict[str, Value] = field(default_factory=dict)
    traffic: list[tuple[str, str]] = field(default_factory=list)
    """The DSCP of the flows of each class, empty for none, and the class."""
    layer: dict[str, Value] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def list_leaves(qdisc: QdiscNode, device: Device) -> list[HtbClass]:
    """Return the classes of a device without others below them, that of `default` first."""
    major = (qdisc.handle or (0, 0))[0]
    classes = {place: one for place, one in device.classes.items() if place[0] == major}
    parents = {one.parent for one in classes.values()}
    leaves = [one for place, one in classes.items() if place not in parents]
    default = shapers.find_default(qdisc, major)
    return sorted(leaves, key=lambda one: shapers.format_place(one.place) != default)


def read_classes(qdisc: QdiscNode, device: Device, header: int) -> SharedClasses:
    """Return the classes below one class; raises InputError for what `htb_classes` cannot be."""
    leaves = list_leaves(qdisc, device)
    names = [shapers.format_place(one.place) for one in leaves]
    shown = ", ".join(sorted(names)[:6])
    sharing = f"sharing between {len(leaves)} classes of htb ({shown})"
    example = f"--class {names[0]}, which leaves the others idle"
    if len(leaves) > MOST_CLASSES:
        allowed = f"at most {MOST_CLASSES}, or {example}"
        raise place_error(Unsupported(sharing, allowed, where=ENGINE), qdisc.kind)
    above = {one.parent for one in leaves}
    parent = device.classes.get(next(iter(above)))
    if len(above) > 1 or parent is None or parent.parent[1]:
        what = "without one class above them" if parent is None else "at several levels"
        raise place_error(Unsupported(f"{sharing} {what}", example, where=ENGINE), qdisc.kind)
    found = SharedClasses(_read_parent(parent, header))
    found.aqm["name"] = Value("htb_classes", f"qdisc htb with the classes {shown}")
    bursts: dict[str, Value] = {}
    for number, (leaf, name) in enumerate(zip(leaves, names, strict=True), 1):
        _read_leaf(found, device, leaf, number, header, bursts)
        found.traffic.append((DSCPS[number - 1], name))
    if bursts:
        largest = max(bursts.values(), key=lambda one: units.parse("size", one.toml))
        found.aqm["burst"] = largest
        if len({one.toml for one in bursts.values()}) > 1 or len(bursts) < len(leaves):
            found.notes.append(f"all classes have the largest burst, {largest.toml}: {largest.source}")
    found.notes.append(
        "filters are not read: the DSCP of a flow names its class, none for "
        + ", ".join(f"{name}{f', {dscp} for' * bool(dscp)}" for dscp, name in found.traffic[:1])
        + "".join(f", {dscp} for {name}" for dscp, name in found.traffic[1:])
    )
    return found


def read_bands(qdisc: QdiscNode, device: Device, header: int) -> SharedClasses:
    """Return the bands of prio as classes that a rate never holds; raises InputError for what they cannot be."""
    number = 3
    words = list(qdisc.options)
    if len(words) > 1 and words[0] == "bands" and words[1].isdecimal():
        number = int(words[1])
    if not 2 <= number <= MOST_CLASSES:
        raise place_error(Unsupported(f"prio with {number} bands", f"2 to {MOST_CLASSES}", where=ENGINE), qdisc.kind)
    found = SharedClasses(Value("", ""))
    found.aqm["name"] = Value("htb_classes", "qdisc prio: the lowest band with a packet sends")
    # traffic without a mark is in the second band: tc-prio(8), priomap
    order = [1, 0, *range(2, number)]
    major = (qdisc.handle or (0, 0))[0]
    for place, band in enumerate(order, 1):
        name = f"band {band}"
        found.aqm[f"rate{place}"] = Value("10Tbit", f"{name}: only other bands hold it")
        if band:
            found.aqm[f"prio{place}"] = Value(band, name)
        child = device.children.get((major, band + 1))
        if child is not None:
            _read_queue(found, child, place, header, name)
        found.traffic.append((DSCPS[place - 1], name))
    found.notes.append(
        f"priomap and filters are not read: {found.traffic[0][1]} has flows without a DSCP, "
        + ", ".join(f"{name} those with {dscp}" for dscp, name in found.traffic[1:])
    )
    return found


def _read_parent(parent: HtbClass, header: int) -> Value:
    name = f"class {shapers.format_place(parent.place)}"
    own = shapers.read_class(parent, header)
    source = f"{name} {own.rate_text}, from which the others borrow"
    return Value(units.show("rate", own.rate), source)


def _read_leaf(
    found: SharedClasses, device: Device, leaf: HtbClass, number: int, header: int, bursts: dict[str, Value]
) -> None:
    name = f"class {shapers.format_place(leaf.place)}"
    own = shapers.read_class(leaf, header)
    found.aqm[f"rate{number}"] = Value(units.show("rate", own.rate), f"{name} {own.rate_text}")
    if own.ceil > own.rate:
        found.aqm[f"ceil{number}"] = Value(units.show("rate", own.ceil), f"{name} {own.ceil_text}")
    if own.prio:
        found.aqm[f"prio{number}"] = Value(own.prio, f"{name} prio {own.prio}")
    if own.quantum:
        found.aqm[f"quantum{number}"] = Value(f"{own.quantum}B", f"{name} quantum {own.quantum}")
    if own.burst > _DEFAULT_BURST:
        bursts[name] = Value(f"{own.burst}B", f"{name} {own.burst_text}")
    found.layer |= own.layer
    child = device.children.get(leaf.place)
    if child is not None:
        _read_queue(found, child, number, header, name)


def _read_queue(found: SharedClasses, child: QdiscNode, number: int, header: int, name: str) -> None:
    """Read the queue of a class."""
    if child.kind not in ("pfifo", "fq_codel"):
        what = f"{child.kind} below {name}, one of several"
        raise place_error(Unsupported(what, "pfifo or fq_codel in each", where=ENGINE), child.kind)
    queue = qdiscs.read_queue(child.kind, child.options, header)
    found.aqm[f"queue{number}"] = Value(queue.name, f"{child.kind} below {name}")
    found.left |= queue.left
    _take_flow_keys(found, queue.keys, child, name)


def _take_flow_keys(found: SharedClasses, keys: Mapping[str, Value], child: QdiscNode, name: str) -> None:
    """Take the parameters of the queue of a class, which all classes have alike."""
    for key, value in keys.items():
        if key == "name":
            continue
        if key not in _FLOW_KEYS:
            found.left[value.source] = f"{name}: the queues of classes have {', '.join(_FLOW_KEYS)} alone"
            continue
        known = found.aqm.get(_FLOW_KEYS[key])
        if known is not None and known.toml != value.toml:
            what = f"{value.source}, unlike the queue of another class"
            raise place_error(Unsupported(what, "one value for all classes", where=ENGINE), child.kind)
        found.aqm[_FLOW_KEYS[key]] = value
