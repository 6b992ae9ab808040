"""The set-up that devices make together: which hop has downloads, which uploads, and how long paths are."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dumbbell.errors import Conflict, Nothing, TooMany, UnknownName
from dumbbell.experiment import units
from dumbbell.tc.devices import Device, System
from dumbbell.tc.hop import TcHop, check_places, has_queue, read_hop, read_policed_hop, set_netem_limit
from dumbbell.tc.options import Value

_RATE, _RTT = "10Mbit", "20ms"  # assumed: the defaults of rate and base_rtt


@dataclass(frozen=True)
class Wishes:
    """Options of the user in addition to the lines."""

    rate: str | None = None
    rtt: str | None = None
    chosen_class: str | None = None
    down: str | None = None


@dataclass
class TcSetup:
    """The set-up that the lines describe."""

    down: TcHop
    up: TcHop | None
    base_rtt: Value
    left: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def hops(self) -> dict[str, TcHop]:
        """The hops by the names of their tables."""
        return {"bottleneck": self.down} | ({"reverse": self.up} if self.up else {})


def make_setup(system: System, wishes: Wishes) -> TcSetup:
    """Return the set-up of devices; raises InputError if it is none."""
    redirects = {one.redirect[0]: one.name for one in system.devices.values() if one.redirect}
    for one in system.devices.values():
        check_places(one)
    with_queue = [one for one in system.devices.values() if has_queue(one)]
    hops = [read_hop(one, wishes.chosen_class, redirects.get(one.name, "")) for one in with_queue]
    left, notes = dict(system.left), list[str]()
    for one in system.devices.values():
        if one.root is not None and not has_queue(one):
            left[f"{one.root.kind} of {one.name}"] = "it has no queue"
    policed = [read_policed_hop(one) for one in system.devices.values() if "ingress" in one.policed]
    _merge_serial_links(hops)
    delays = [one for one in hops if one.only_delays] if len(hops) > 1 else []
    if len(delays) < len(hops):
        hops = [one for one in hops if one not in delays]
    else:
        delays, hops = delays[1:], hops[:1]
    down, up = _find_directions(hops, policed, redirects, system.devices, wishes.down, notes)
    for hop in filter(None, (down, up)):
        _set_rate(hop, wishes.rate)
        set_netem_limit(hop)
        left |= hop.left
        notes += hop.notes
    return TcSetup(down, up, _sum_delays([*filter(None, (down, up)), *delays], wishes.rtt), left, notes)


def _merge_serial_links(hops: list[TcHop]) -> None:
    """Take a serial link (netem with a rate alone) and the bucket of one frame before it for what they are together.

    That is what `--show-commands` prints for shaper = "link".
    """
    for serial in [one for one in hops if one.shaper == "netem" and not one.delay_texts and not one.path]:
        before = next(
            (
                one
                for one in hops
                if one.shaper == "htb"
                and one.keys["rate"].toml == serial.keys["rate"].toml
                and one.keys["burst"].toml == "1514B"
            ),
            None,
        )
        if before is not None:
            source = f"{serial.keys['rate'].source} of {serial.device}, a serial link behind a bucket of one frame"
            before.keys["shaper"] = Value("link", source)
            del before.keys["burst"]
            hops.remove(serial)


def _find_directions(
    hops: list[TcHop],
    policed: list[TcHop],
    redirects: dict[str, str],
    devices: dict[str, Device],
    wanted: str | None,
    notes: list[str],
) -> tuple[TcHop, TcHop | None]:
    if wanted is not None and wanted not in [one.device for one in hops]:
        raise UnknownName(wanted, among=[one.device for one in hops], what="device", option="--down")
    entering = [one for one in hops if one.device in redirects or _is_ifb(one.device)] + policed
    leaving = [one for one in hops if one not in entering]
    if not hops and not policed:
        raise Nothing("no line sets up a queue", "a line such as tc qdisc add dev eth0 root fq_codel", command="tc")
    if wanted is not None:
        entering = [one for one in hops if one.device == wanted]
        leaving = [one for one in hops if one.device != wanted]
    if len(entering) > 1 or len(leaving) > 1 + (not entering and len(leaving) < 2):
        names = [one.device for one in (*entering, *leaving)]
        if not entering and len(leaving) == 2:
            allowed = f"--down {leaving[0].device} or --down {leaving[1].device}"
            raise Conflict(f"{' and '.join(names)}, of which either may have the downloads,", allowed, command="tc")
        raise TooMany(f"{len(names)} queues ({', '.join(names)})", "two, one for each direction,", command="tc")
    if entering and leaving:
        notes.append(f"downloads pass {_describe(entering[0], redirects)}, uploads {leaving[0].device}")
        return entering[0], leaving[0]
    del devices
    if entering:
        return entering[0], None
    return leaving[0], None


def _is_ifb(name: str) -> bool:
    return name.rpartition(":")[2].startswith("ifb")


def _describe(hop: TcHop, redirects: dict[str, str]) -> str:
    return f"{hop.device}, through which {redirects[hop.device]} receives" if hop.device in redirects else hop.device


def _set_rate(hop: TcHop, wanted: str | None) -> None:
    """Give a hop the rate of its link, where no line has one."""
    if "rate" not in hop.keys:
        if wanted is not None:
            hop.keys = {"rate": Value(wanted, "--rate")} | hop.keys
        elif hop.assumed_rate is not None:
            rate, why = hop.assumed_rate
            hop.keys = {"rate": Value(units.show("rate", rate), f"ASSUMED: {why}; --rate sets it")} | hop.keys
        else:
            why = f"ASSUMED: no line states the rate of {hop.device}; --rate sets it"
            hop.keys = {"rate": Value(_RATE, why)} | hop.keys
        return
    if wanted is None:
        return
    if hop.shaper != "cake":
        found = f"--rate and the rate of {hop.shaper}, which is the link here,"
        raise Conflict(found, "one of them", command="tc")
    hop.aqm["bandwidth"] = hop.keys["rate"]
    hop.keys["rate"] = Value(wanted, "--rate, the link behind Cake")


def _sum_delays(hops: Sequence[TcHop], rtt: str | None) -> Value:
    delay = sum(one.delay for one in hops)
    texts = [text for one in hops for text in one.delay_texts]
    if not texts:
        return Value(rtt, "--rtt") if rtt else Value(_RTT, "ASSUMED; --rtt sets it")
    if rtt:
        delay += units.parse("time", rtt)
    source = " and ".join([f"{text} of {one.device}" for one in hops for text in one.delay_texts])
    return Value(units.show("time", delay), source + (f", and --rtt {rtt}" if rtt else "; --rtt adds the path's own"))
