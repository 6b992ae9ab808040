"""A hop of a device: its tree of queue disciplines, from the root to the queue."""

import itertools
import re
from dataclasses import dataclass, field
from typing import Any

from dumbbell.errors import Unfit, Unsupported, WrongValue
from dumbbell.experiment import units
from dumbbell.tc import classes, netem, policer, qdiscs, shapers
from dumbbell.tc.devices import NO_QUEUE, Device, HtbClass, Place, QdiscNode
from dumbbell.tc.lexer import Word, place_error
from dumbbell.tc.options import ENGINE, Value
from dumbbell.tc.shapers import ETHERNET, format_place

FULL_FRAME = 1514  # bytes: hosts.mss of 1448, and 66 of headers
_PPP_FRAME = 1506  # with an MTU of 1492: RFC 2516, section 7
_WITHOUT_ETHERNET = re.compile(r"(?:ifb4)?(?:ppp|pppoe-|wwan|tun|wg)[\w.@-]*")
_QUEUE_LENGTH, _QUEUE_LENGTH_IFB = 1000, 32  # packets; dev.c DEFAULT_TX_QUEUE_LEN, ifb.c TX_Q_LIMIT


@dataclass
class TcHop:
    """A queue and its link, as keys of an experiment file, and what cannot be one."""

    device: str
    keys: dict[str, Value] = field(default_factory=dict)
    aqm: dict[str, Value] = field(default_factory=dict)
    path: list[Value] = field(default_factory=list)
    delay: int = 0
    """ns; it becomes part of base RTTs."""
    delay_texts: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """Differences from Linux, and decisions."""
    shaper: str = ""
    """The discipline that has the rate, if any has."""
    traffic: list[tuple[str, str]] = field(default_factory=list)
    """The classes of a queue, each with the DSCP of its flows."""
    header: int = ETHERNET
    rate_word: Word | None = None
    netem_limit: netem.Netem | None = None
    """The netem whose limit is the queue."""
    assumed_rate: tuple[int, str] | None = None
    """bit/s, where a policer limits the flow, with the reason."""

    @property
    def is_ppp(self) -> bool:
        """Whether it is a device of PPP, whose MTU is that of PPPoE."""
        return re.match(r"(?:ifb4)?ppp", self.device.rpartition(":")[2]) is not None

    @property
    def only_delays(self) -> bool:
        """Whether it has nothing but a constant delay."""
        return self.netem_limit is not None and "rate" not in self.keys and not self.path and bool(self.delay_texts)


def has_queue(device: Device) -> bool:
    """Whether somebody set up a queue at a device."""
    return device.root is not None and device.root.kind not in NO_QUEUE


def check_places(device: Device) -> None:
    """Raise InputError for a discipline or a class whose parent no line has."""
    nodes = [one for one in (device.root, *device.children.values()) if one is not None]
    of_handles = {one.handle[0]: one for one in nodes if one.handle}
    at: list[tuple[Place, Word]] = [(place, one.kind) for place, one in device.children.items()]
    at += [((place[0], 0), one.word) for place, one in device.classes.items()]
    for place, word in at:
        above = of_handles.get(place[0])
        is_class = above is not None and above.kind == "htb" and place[1] and place not in device.classes
        if device.root is None or above is None or is_class:
            found = f"{device.name} has no {'class' if place[1] else 'discipline'} {format_place(place)}"
            raise place_error(Unfit(found, "its line, too", key=f"parent {format_place(place)}"), word)


def read_hop(device: Device, chosen: str | None = None, carries: str = "") -> TcHop:
    """Return the hop of what leaves a device; raises InputError for a tree that is none here.

    `chosen` is the class of HTB that has the traffic. `carries` is the device whose incoming packets pass this one.
    """
    hop = TcHop(device.name)
    plain = (carries or device.name).rpartition(":")[2]
    if _WITHOUT_ETHERNET.fullmatch(plain):
        hop.header = 0
    root = device.root
    assert root is not None
    layer, left = shapers.read_stab(root, hop.header)
    hop.keys |= layer
    hop.left |= left
    _READERS.get(root.kind, _read_leaf)(hop, device, root, chosen)
    if (
        not hop.header
        and not layer.keys() & {"overhead"}
        and "overhead" not in hop.keys
        and "link_layer" not in hop.keys
    ):
        hop.keys["overhead"] = Value("0B", f"{plain} has no Ethernet header, so that tc counts IP packets alone")
    if root.stab_word is not None and hop.aqm["name"].toml not in ("pfifo", "bfifo", "cake") and hop.keys:
        hop.notes.append(
            f"below stab {hop.aqm['name'].toml} of Linux counts bytes on the link; here it counts those of frames"
        )
    if "egress" in device.policed:
        hop.path.append(policer.read_policer(*device.policed["egress"]))
    return hop


def _add_layer(hop: TcHop, layer: dict[str, Value], word: Word) -> None:
    """Add overhead and framing of a discipline; raises InputError if stab has some, because Linux adds both up."""
    taken = [key for key in hop.keys if key in ("link_layer", "overhead", "mpu", "framing")]
    if taken and layer:
        found = f"stab and the overhead of {word}, which Linux adds up,"
        raise place_error(Unsupported(found, "the sum at one of them", where=ENGINE), word)
    hop.keys |= layer


def _read_child(hop: TcHop, device: Device, child: QdiscNode | None, above: str) -> None:
    """Read what is below a shaper: a queue, or by default the device's own."""
    if child is None:
        length = _QUEUE_LENGTH_IFB if device.name.rpartition(":")[2].startswith("ifb") else _QUEUE_LENGTH
        source = f"the queue of {above} without a qdisc: a pfifo of the device's txqueuelen"
        hop.aqm = {"name": Value("pfifo", source), "limit": Value(length, f"ASSUMED: txqueuelen of {device.name}")}
        return
    if child.kind in ("htb", "tbf"):
        raise shapers.refuse_second(above, child)
    _READERS.get(child.kind, _read_leaf)(hop, device, child, None)


def _read_leaf(hop: TcHop, device: Device, qdisc: QdiscNode, _chosen: str | None) -> None:
    if qdisc.kind in NO_QUEUE:
        raise place_error(Unfit(f"{qdisc.kind} has no queue", "a line with one", key=device.name), qdisc.kind)
    if qdisc.kind == "pfifo_fast":
        hop.aqm = {
            "name": Value("pfifo", "qdisc pfifo_fast: all traffic here is best effort, in one of its three bands"),
            "limit": Value(_QUEUE_LENGTH, f"ASSUMED: txqueuelen of {device.name}"),
        }
        return
    if qdisc.kind == "mq":
        _read_mq(hop, device, qdisc)
        return
    queue = qdiscs.read_queue(qdisc.kind, qdisc.options, hop.header)
    hop.aqm |= queue.keys
    hop.left |= queue.left
    if queue.layer:
        _add_layer(hop, queue.layer, qdisc.kind)
    if queue.name == "red" and queue.keys.get("adaptive"):
        hop.notes.append("red adaptive: Linux 6 does not start its timer for what tc sends; here RED adapts")
    if queue.name == "cake":
        _take_bandwidth(hop, queue)
    child = device.children.get(qdisc.handle) if qdisc.handle else None
    if child is None and qdisc.handle:
        child = device.children.get((qdisc.handle[0], 1))
    if child is not None:
        found = f"{child.kind} below {qdisc.kind}"
        raise place_error(Unsupported(found, f"{qdisc.kind} alone", where=ENGINE), child.kind)


def _take_bandwidth(hop: TcHop, queue: qdiscs.Queue) -> None:
    """Let Cake's rate be that of the hop, unless the hop has one."""
    rate = queue.rate or Value("0bit", "cake without bandwidth does not shape")
    hop.rate_word = queue.rate_word
    if "burst" in hop.keys or rate.toml == "0bit":
        hop.aqm["bandwidth"] = rate
        if rate.toml != "0bit" and hop.keys["burst"].toml == f"{shapers.LEAST_BURST}B":
            del hop.keys["shaper"], hop.keys["burst"]  # a bucket of one frame is the default behind Cake
    else:
        hop.keys["rate"] = rate
        hop.shaper = "cake"
    if queue.keys.get("ingress") and queue.keys["ingress"].toml:
        hop.notes.append(
            "cake ingress: the queue of the link before it is not in these lines; the experiment hops/router-ingress"
            " has one"
        )


def _read_mq(hop: TcHop, device: Device, qdisc: QdiscNode) -> None:
    children = list(device.children.values())
    if len(children) != 1:
        found = f"mq, {len(children) or 'a number of'} queues between which a card takes turns,"
        raise place_error(Unsupported(found, "the line of one queue", where=ENGINE), qdisc.kind)
    _read_child(hop, device, children[0], "mq")


def _read_htb(hop: TcHop, device: Device, qdisc: QdiscNode, chosen: str | None) -> None:
    if chosen is None and len(classes.list_leaves(qdisc, device)) > 1:
        shared = classes.read_classes(qdisc, device, hop.header)
        hop.shaper, hop.rate_word = "htb", qdisc.kind
        hop.keys["rate"], hop.aqm, hop.traffic = shared.rate, shared.aqm, shared.traffic
        hop.left |= shared.left
        hop.notes += shared.notes
        _add_layer(hop, shared.layer, qdisc.kind)
        return
    leaf: HtbClass = shapers.choose_class(qdisc, device, chosen)
    shaper = shapers.read_htb(qdisc, device, leaf, hop.header)
    _take_shaper(hop, shaper, "htb", qdisc.kind)
    _read_child(hop, device, device.children.get(leaf.place), f"class {format_place(leaf.place)}")


def _read_tbf(hop: TcHop, device: Device, qdisc: QdiscNode, _chosen: str | None) -> None:
    frame = _compute_full_frame(hop, qdisc)
    shaper = shapers.read_tbf(qdisc, hop.header, frame)
    _take_shaper(hop, shaper, "tbf", qdisc.kind)
    child = next((one for place, one in device.children.items() if qdisc.handle and place[0] == qdisc.handle[0]), None)
    if child is None and shaper.limit is not None:
        hop.aqm = {"name": Value("bfifo", "tbf without another qdisc"), "limit": shaper.limit}
        return
    if shaper.limit is not None:
        hop.left["tbf limit"] = "the qdisc below has its own"
    _read_child(hop, device, child, "tbf")


def _compute_full_frame(hop: TcHop, qdisc: QdiscNode) -> int:
    """Return the bytes of a full frame on the link, as the shaper counts them."""
    frame = (_PPP_FRAME if hop.is_ppp else FULL_FRAME) - ETHERNET + hop.header
    words = {str(word): str(after) for word, after in itertools.pairwise(qdisc.options)}
    layer = {key: value.toml for key, value in hop.keys.items()}
    if "overhead" in layer:
        frame = frame - hop.header + int(layer["overhead"][:-1])
    elif re.fullmatch(r"[+-]?[0-9]{1,4}", words.get("overhead", "")):
        frame += int(words["overhead"])
    if layer.get("framing") == "atm" or words.get("linklayer") in ("atm", "adsl"):
        frame = -(-frame // 48) * 53
    return frame


def _take_shaper(hop: TcHop, shaper: shapers.Shaper, name: str, word: Word) -> None:
    hop.shaper, hop.rate_word = name, word
    hop.keys["rate"] = Value(units.show("rate", shaper.rate), shaper.rate_source)
    hop.keys["shaper"] = Value("htb", f"qdisc {name}, a token bucket")
    hop.keys["burst"] = Value(f"{shaper.burst}B", shaper.burst_source)
    hop.left |= shaper.left
    hop.notes += shaper.notes
    _add_layer(hop, shaper.layer, word)


def _read_netem(hop: TcHop, device: Device, qdisc: QdiscNode, _chosen: str | None) -> None:
    found = netem.read_netem(qdisc.kind, qdisc.options)
    hop.path += found.stages
    hop.delay += found.delay
    hop.left |= found.left
    if found.delay_text:
        hop.delay_texts.append(found.delay_text)
    if found.rate is not None:
        if hop.shaper:
            raise shapers.refuse_second(hop.shaper, qdisc)
        hop.keys["rate"], hop.shaper, hop.rate_word = found.rate, "netem", qdisc.kind
        if found.overhead:
            overhead = Value(f"{found.overhead + hop.header}B", f"{found.rate.source} {found.overhead}")
            _add_layer(hop, {"overhead": overhead}, qdisc.kind)
    child = next((one for place, one in device.children.items() if qdisc.handle and place[0] == qdisc.handle[0]), None)
    if child is not None:
        if hop.shaper == "netem":
            raise place_error(
                Unsupported(f"{child.kind} below a netem with a rate", "htb or tbf for the rate", where=ENGINE),
                child.kind,
            )
        _READERS.get(child.kind, _read_leaf)(hop, device, child, None)
        return
    hop.netem_limit = found
    hop.aqm = {"name": Value("pfifo", "qdisc netem: its own queue")}


def _read_prio(hop: TcHop, device: Device, qdisc: QdiscNode, _chosen: str | None) -> None:
    """Read bands that only delay: one delay, whichever bands have it."""
    children = list(device.children.values())
    netems = [netem.read_netem(one.kind, one.options) for one in children if one.kind == "netem"]
    delays = {one.delay for one in netems}
    if (
        len(delays) != 1
        or any(one.stages or one.rate for one in netems)
        or len(netems) < sum(one.kind != "pfifo" for one in children)
    ):
        if netems:
            found = "prio, whose bands wait for each other, with netem below some of them,"
            raise place_error(Unsupported(found, "pfifo or fq_codel in each band", where=ENGINE), qdisc.kind)
        shared = classes.read_bands(qdisc, device, hop.header)
        hop.aqm, hop.traffic = shared.aqm, shared.traffic
        hop.left |= shared.left
        hop.notes += shared.notes
        return
    hop.delay += next(iter(delays))
    hop.delay_texts.append(netems[0].delay_text)
    hop.netem_limit = netems[0]
    hop.aqm = {"name": Value("pfifo", "qdisc netem: its own queue")}


_READERS = {"htb": _read_htb, "tbf": _read_tbf, "netem": _read_netem, "prio": _read_prio}


def set_netem_limit(hop: TcHop) -> None:
    """Let netem's limit, less the packets that it delays, be that of the queue; raises InputError if none is left."""
    found = hop.netem_limit
    if found is None or "rate" not in hop.keys:
        return
    rate = units.parse("rate", hop.keys["rate"].toml)
    under_way = -(-rate * found.mean // (8 * FULL_FRAME * 10**9))
    if found.limit <= under_way:
        error = WrongValue(f"{found.limit} packets", f"more than {under_way}: so many are under way", key="netem limit")
        raise place_error(error, found.word)
    less = f", less {under_way} that are under way" if under_way else ""
    hop.aqm["limit"] = Value(min(found.limit - under_way, 100_000_000), f"{found.limit_text}{less}")


def read_policed_hop(device: Device) -> TcHop:
    """Return the hop of what enters a device with a policer, whose link is fast enough that the policer limits."""
    stage = policer.read_policer(*device.policed["ingress"])
    settings: dict[str, Any] = stage.toml
    rate = units.parse("rate", settings["rate"])
    hop = TcHop(device.name, path=[stage])
    hop.aqm = {"name": Value("pfifo", "ASSUMED: the policer keeps it empty")}
    hop.assumed_rate = (min(10 * rate, 10**13), "ten times the rate of the policer, which then limits")
    hop.shaper = ""
    return hop
