"""A run over one hop as the guest's plan: addresses, routes, tc(8), sysctls, and who sends what.

The network in the guest, four namespaces and one more for a serial link:

    S s0 -- d0 D d1 -- m0 M m1 -- [l0 L l1 --] r0 R

D delays: half of each base RTT in either direction, by the last eight bits of the receiver's port. M has the queue.
Every link but the bottleneck is infinitely fast. What has no counterpart is refused before anything runs.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from dumbbell import _native
from dumbbell.engines.linux import readback
from dumbbell.engines.linux.controls import MODULES, list_controls
from dumbbell.engines.linux.hop import Hop, compute_burst, compute_class_rate, format_class_options
from dumbbell.engines.linux.kernels import Kernel
from dumbbell.engines.linux.keys import refuse_rest
from dumbbell.engines.linux.qdiscs import Qdisc, map_qdisc
from dumbbell.engines.linux.readback import Setting
from dumbbell.engines.linux.units import MS, US, divide_exactly, to_whole_microseconds
from dumbbell.errors import Conflict, InputError, TooMany, Unsupported, spell_option
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.net import ROUTES, give_own_hosts, list_hops, list_rate_changes
from dumbbell.experiment.registry import read_registry
from dumbbell.experiment.schema import describe_section
from dumbbell.experiment.shaping import LINK_LAYER

FIRST_PORT = 10_000  # guest.c: a sender's port is this plus its number
MOST_SENDERS = 50_000
_RECEIVER_PORT, _VARIANTS = 16_384, 128  # 256 ports, one a base RTT, for each variant of receivers
_BANDS = 16  # TCQ_PRIO_BANDS, pkt_sched.h
_NETEM_LIMIT = 10_000_000  # packets; more than are ever under way
_FQ = "fq flow_limit 1000000 limit 10000000"  # which drops nothing

# Switches of hosts that are sysctls, how values become theirs, and what a kernel without the sysctl does; a switch that
# is not given is as the kernel has it.
_SYSCTLS: dict[str, tuple[str, Callable[[Any], int], int | None]] = {
    "tso_rtt": ("tcp_tso_rtt_log", lambda on: 9 if on else 0, 0),
    "sack_compression": ("tcp_comp_sack_nr", lambda on: 44 if on else 0, 0),
    "sack_compression_slack": ("tcp_comp_sack_slack_ns", int, 0),
    "syn_linear_timeouts": ("tcp_syn_linear_timeouts", int, 0),
    "frto": ("tcp_frto", lambda on: 2 if on else 0, None),
    "slow_start_after_idle": ("tcp_slow_start_after_idle", int, None),
    "pacing_ss_ratio": ("tcp_pacing_ss_ratio", int, None),
    "pacing_ca_ratio": ("tcp_pacing_ca_ratio", int, None),
}
# keys of hosts that become routes, options of devices and sockets
_HOSTS = (
    "profile",
    "ecn",
    "delayed_ack",
    "offload",
    "pacing",
    "initial_window",
    "mss",
    "memory",
    "send_buffer",
    "receive_buffer",
    "rto_min",
)
# of a sender; the rest must have its default
_ENDS = ("src_host", "dst_host", "dscp")
_TAKEN = {
    "flows": ("cc", "start", "count", "base_rtt", "stop", "size", *_ENDS, "ecn_echo", "ecn"),
    "web": ("cc", "start", "arrivals", "size", "base_rtt", "stop", *_ENDS, "ecn_echo", "ecn"),
    "udp": ("echo", "base_rtt", "start", "count", "rate", "size", "spacing", "ecn", "stop", *_ENDS),
    "app": ("kind", "cc", "start", "count", "base_rtt", "stop", *_ENDS, "ecn_echo", "ecn"),
}
_ROUTES = tuple(param.name for param in ROUTES)
_HOP_TAKEN = ("name", "rate", "shaper", "burst", "aqm", "rate_changes", "delay", "trace", "path", "behind", "buffer")
_ECN_BITS = {"not-ect": 0, "ect1": 1, "ect0": 2}


class GuestPlan:
    """The plan of one run, put together."""

    most_senders = MOST_SENDERS
    # where the receiver's port stands in the IPv4 packets of each device of D, and its bits that say that it is one
    port_places: tuple[tuple[str, tuple[int, ...]], ...] = (("d1", (22,)), ("d0", (20,)))
    port_bits = 0
    receiver_ports: tuple[int, int] | None = None  # where they say which way a packet goes

    def __init__(self, cell: Cell, kernel: Kernel) -> None:
        self.groups, self.kernel, self.lines = self.read_groups(cell), kernel, list[str]()
        self.given = cell.given
        self.hosts = cell.groups["hosts"]
        self.hosts_given = self.given.get("hosts", {})
        self.schedule = json.loads(_native.schedule(cell.config))
        # two for each connection, numbered ahead of short flows
        self.app_ends: int = sum(2 * connections for _, connections in self.schedule["app"])
        pairs = zip(list_hops(self.groups), list_hops(self.given), strict=True)
        self.hops = [
            self.make_hop(number, place, own, given) for number, ((place, own), (_, given)) in enumerate(pairs)
        ]
        self.users = self.groups.get("app", [])
        self.all_tcp = [
            *self.groups["flows"],
            *self.groups["web"],
            *(one for one in self.users if one["cc"] is not None),
        ]
        self.given_tcp = [one for kind in _TAKEN for one in self.given.get(kind, []) if one.get("cc") is not None]
        everyone = [*self.groups["flows"], *self.groups["web"], *self.groups["udp"], *self.users]
        self.rtts = sorted({get_base_rtt(one) for one in everyone})
        if len(self.rtts) > _BANDS**2:
            raise TooMany(f"{len(self.rtts)} different base RTTs", f"at most {_BANDS**2}", key="base_rtt")
        self.sources = {host: n for n, host in enumerate(sorted({one["src_host"] for one in everyone}), start=1)}
        self.targets = {host: n for n, host in enumerate(sorted({one["dst_host"] for one in everyone}), start=1)}
        self.receivers: dict[tuple[Any, ...], int] = {}
        self.names = list_controls(kernel)
        self.arguments: dict[str, int] = {}
        self.keys_of_modules: dict[str, str] = {}
        self.settings: list[Setting] = []

    @property
    def sender_count(self) -> int:
        """How many senders there are."""
        return self.app_ends + sum(len(self.schedule[kind]) for kind in ("flows", "udp", "web"))

    def make(self) -> None:
        """Put everything together; raises InputError for what has no counterpart."""
        self.refuse()
        self.make_network()
        self.set_delays()
        for hop in self.hops:
            self.set_queue(hop)
        self.set_times()
        self.start_senders()
        self.read_back_modules()
        self.lines += [f"show {text}" for text in readback.list_commands(self.settings)]

    @staticmethod
    def read_groups(cell: Cell) -> dict[str, Any]:
        """Return the keys of a run; flows that are to have hosts of their own name them."""
        return give_own_hosts(cell.groups)

    def make_hop(self, _number: int, place: str, own: dict[str, Any], given: dict[str, Any]) -> Hop:
        """Return a hop and where it is."""
        return Hop(place, own, self.make_qdisc(place, own, given), "M", "m0", "m1", ("L", "l1"))

    def make_qdisc(self, place: str, own: dict[str, Any], given: dict[str, Any]) -> Qdisc:
        """Return the queue discipline of a hop, as `given`."""
        return map_qdisc(own, given.get("aqm", {}), self.kernel.qdiscs, place)

    def add_commands(self, *texts: str) -> None:
        """Add shell commands that have to succeed."""
        self.lines += [f"command {text}" for text in texts]

    def expect(self, key: str, value: Any, command: str, read: readback.Read) -> None:
        """Note that the kernel was given a value, which `read` finds in what a command prints after the run."""
        self.settings.append(readback.make_exact_setting(key, value, command, read))

    # what has no counterpart

    def refuse(self) -> None:
        """Raise InputError for what has no counterpart."""
        profile = read_registry().profiles[self.hosts["profile"]]
        sections = read_registry().sections
        left = {key: value for key, value in self.hosts.items() if key not in (*_HOSTS, *_SYSCTLS)}
        refuse_rest("hosts", left, sections["hosts"], profile.hosts)
        for kind, taken in _TAKEN.items():
            for number, one in enumerate(self.groups.get(kind, [])):
                left = {key: value for key, value in one.items() if key not in (*taken, *_ROUTES)}
                refuse_rest(f"{kind}[{number}]", left, sections[kind], {})
                if one["stop"] is not None and one.get("size") is not None and kind == "flows":
                    raise Conflict("stop and size", "one of them on Linux", key=f"{kind}[{number}].stop")
        for kind in _TAKEN:
            for number, one in enumerate(self.groups.get(kind, [])):
                to_whole_microseconds(f"{kind}[{number}].base_rtt", get_base_rtt(one))
        for hop in self.hops:
            for key in ("trace", "path", "behind"):
                if hop.own[key]:
                    what = "links that follow a trace" if key == "trace" else "stages of a path"
                    allowed = f"omit {key}, or use {spell_option('engine')} sim"
                    raise Unsupported(what, allowed, key=f"{hop.place}.{key}", where="Linux")
            if link := hop.own.get("link"):
                raise Unsupported(f"the link {link['name']}", "shaper", key=f"{hop.place}.link", where="Linux")
            taken = (*_HOP_TAKEN, *LINK_LAYER) if hop.qdisc.shapes else _HOP_TAKEN
            left = {key: value for key, value in hop.own.items() if key not in taken}
            refuse_rest(hop.place, left, describe_section("bottleneck"), {})
        if self.groups["record"].get("queue"):
            raise Unsupported("recording the state of a queue", "false", key="record.queue", where="Linux")
        if self.groups["record"]["trace"] is not None:
            raise Unsupported("traces of senders", "omit record.trace", key="record.trace", where="Linux")
        if (flows := self.sender_count) > self.most_senders:
            allowed, why = f"at most {self.most_senders}", "on Linux each flow has its own port"
            raise TooMany(f"{flows} flows in one run", allowed, why, key="flows")

    def map_control(self, where: str, cc: dict[str, Any]) -> str:
        """Return the kernel's name of a congestion control; its parameters become those of the module."""
        name = cc["name"]
        if name not in self.names:
            raise Unsupported(name, list(self.names), key=f"{where}.cc", where="this kernel")
        params, taken = read_registry().cc[name].params, MODULES.get(name, {})
        profile = read_registry().profiles[self.hosts["profile"]].cc.get(name, {})
        left = {key: value for key, value in cc.items() if key != "name" and key not in taken}
        refuse_rest(f"{where}.cc", left, params, profile)
        for key, (module, convert) in taken.items():
            alike = [one["cc"] for one in self.all_tcp if one["cc"]["name"] == name]
            if not any(key in one["cc"] for one in self.given_tcp if one["cc"]["name"] == name):
                continue
            if any(one[key] != cc[key] for one in alike):
                allowed = "one value, because it is a parameter of the kernel's module"
                raise Conflict(f"two values of {key} in one run", allowed, key=f"{where}.cc.{key}")
            if key == "hystart" and not self._set_hystart(where, cc[key], profile.get(key)):
                continue
            try:
                self.arguments[module] = convert(cc[key])
            except InputError as error:
                raise error.move("", f"{where}.cc.{key}") from None
            self.keys_of_modules[module] = f"{where}.cc.{key}"
        return self.names[name]

    def read_back_modules(self) -> None:
        """Read back parameters of modules: of those that a kernel does not know it says nothing."""
        for argument, value in self.arguments.items():
            module, _, name = argument.partition(".")
            file = f"/sys/module/{module}/parameters/{name}"
            self.expect(self.keys_of_modules[argument], value, f"read - {file}", readback.read_line(file))

    def _set_hystart(self, where: str, wanted: str, of_profile: str | None) -> bool:
        """Return whether to tell the kernel; raises InputError if its HyStart is of another version than `wanted`."""
        major, minor = map(int, re.findall(r"\d+", self.kernel.release)[:2])
        own = "5.6" if (major, minor) >= (5, 6) else "5.5"
        if wanted in ("off", own):
            return True
        if wanted == of_profile:  # the kernel is as it is, which is said
            return False
        raise Unsupported(wanted, ("off", own), key=f"{where}.cc.hystart", where="this kernel")

    # the network

    def make_network(self) -> None:
        """Make namespaces, links, addresses and routes."""
        serial = self.hops[0].serial
        chain = ["S", "D", "M", *(["L"] if serial else []), "R"]
        links = [("S", "s0", "D", "d0"), ("D", "d1", "M", "m0")]
        links += [("M", "m1", "L", "l0"), ("L", "l1", "R", "r0")] if serial else [("M", "m1", "R", "r0")]
        self.make_links(chain, links)
        self.limit_bursts("S", "s0")
        for number, space in enumerate(chain):
            self._add_routes(space, number, len(chain) - 1)

    def make_links(self, spaces: list[str], links: list[tuple[str, str, str, str]]) -> None:
        """Make namespaces, and links between them, each with the addresses 10.0.NUMBER.1 and .2 at its ends."""
        mtu = self.hosts["mss"] + 52  # IPv4 and TCP with time stamps
        all_on = self.hosts["offload"] == "gso"
        self.add_commands(
            "mkdir -p /run/netns",
            *(f"ip netns add {space} && ip -n {space} link set lo up" for space in spaces),
            self._limit_memory(),
        )
        for number, (one, one_dev, other, other_dev) in enumerate(links):
            ends = [f"02:00:00:00:{number:02x}:{end:02x}" for end in (1, 2)]
            peer = f"peer name {other_dev} mtu {mtu} address {ends[1]} netns {other}"
            self.add_commands(
                f"ip -n {one} link add {one_dev} mtu {mtu} address {ends[0]} type veth {peer}",
                f"ip -n {one} addr add 10.0.{number}.1/30 dev {one_dev}",
                f"ip -n {other} addr add 10.0.{number}.2/30 dev {other_dev}",
                *(f"ip -n {s} link set {d} up" for s, d in ((one, one_dev), (other, other_dev))),
                f"ip -n {one} neigh add 10.0.{number}.2 lladdr {ends[1]} dev {one_dev}",
                f"ip -n {other} neigh add 10.0.{number}.1 lladdr {ends[0]} dev {other_dev}",
            )
            for space, device in ((one, one_dev), (other, other_dev)):
                # with all of them off TCP still makes bursts (sk_setup_caps), which are cut as they leave the host
                self.lines.append(f"offload {space} {device} {int(all_on)} {int(all_on)} {int(all_on)} {mtu}")

    def limit_bursts(self, space: str, device: str) -> None:
        """Keep a host from making bursts, where it is to make none."""
        if self.hosts["offload"] == "none":
            self.add_commands(f"ip -n {space} link set dev {device} gso_max_segs 1")
            read = readback.read_link(device, readback.read_after("gso_max_segs"))
            self.expect(
                f"hosts.offload: gso_max_segs of {device}", 1, f"ip -n {space} -o -d link show dev {device}", read
            )

    def _add_routes(self, space: str, number: int, last: int) -> None:
        forth, back = f"via 10.0.{number}.2", f"via 10.0.{number - 1}.1"
        rto, window = self.make_route_options()
        if number == 0:
            self.add_commands(
                *(f"ip -n S addr add {make_address(1, host)}/32 dev lo" for host in self.sources.values()),
                f"ip -n S route add 10.2.0.0/16 {forth}{window}{rto}",
                f"ip -n S route add 10.3.0.0/16 {forth}{window}{rto} features ecn",
            )
            for net, ecn in ((2, False), (3, True)):
                self.expect_route(f"ip -n S route show 10.{net}.0.0/16", sends=True, ecn=ecn, quick=False)
        elif number == last:
            quick = "" if self.hosts["delayed_ack"] else " quickack 1"
            self.add_commands(
                *(
                    f"ip -n R addr add {make_address(net, host)}/32 dev lo"
                    for net in (2, 3)
                    for host in self.targets.values()
                ),
                f"ip -n R route add 10.1.0.0/16 {back}{rto}{quick}",
            )
            self.expect_route("ip -n R route show 10.1.0.0/16", sends=False, ecn=False, quick=bool(quick))
        else:
            self.add_commands(
                f"ip -n {space} route add 10.1.0.0/16 {back}",
                f"ip -n {space} route add 10.2.0.0/15 {forth}",
                f"ip netns exec {space} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'",
            )
        if number in (0, last):
            self.set_sysctls(space)

    def make_route_options(self) -> tuple[str, str]:
        """Return the options of a host's routes: of every host, and of a sender."""
        rto, window = "", ""
        if "rto_min" in self.hosts_given:
            try:
                rto = f" rto_min {divide_exactly(self.hosts['rto_min'], MS)}ms"
            except InputError as error:
                raise error.move("", "hosts.rto_min") from None
        if "initial_window" in self.hosts_given:
            window = f" initcwnd {self.hosts['initial_window']}"
        return rto, window

    def expect_route(self, command: str, *, sends: bool, ecn: bool, quick: bool) -> None:
        """Read a host's route back: its options, and that it has no others of these."""
        if "rto_min" in self.hosts_given:
            read = readback.read_after("rto_min", unit="ms")
            self.expect("hosts.rto_min, ms", divide_exactly(self.hosts["rto_min"], MS), command, read)
        if sends and "initial_window" in self.hosts_given:
            self.expect("hosts.initial_window", self.hosts["initial_window"], command, readback.read_after("initcwnd"))
        self.expect("hosts.ecn: features ecn of the route", ecn, command, readback.read_presence("features ecn"))
        quickack = readback.read_after("quickack", missing=0)
        self.expect("hosts.delayed_ack: quickack of the route", int(quick), command, quickack)

    def set_sysctls(self, space: str) -> None:
        """Set up the transport of a host."""
        told = {"ipv4/tcp_ecn": ("hosts.ecn: tcp_ecn", 2, 0), "ipv4/tcp_no_metrics_save": ("tcp_no_metrics_save", 1, 0)}
        for name, key in (("tcp_rmem", "receive_buffer"), ("tcp_wmem", "send_buffer")):
            told[f"ipv4/{name}"] = (f"hosts.{key}", self.hosts[key], 2)
        lines = [
            "echo 2 >ipv4/tcp_ecn",  # accept it; the route of a flow asks for it
            "echo 1 >ipv4/tcp_no_metrics_save",
            # the kernel's own largest buffers follow from the memory of the guest
            *(
                f"set -- $(cat ipv4/{name}); echo $1 $2 {self.hosts[key]} >ipv4/{name}"
                for name, key in (("tcp_rmem", "receive_buffer"), ("tcp_wmem", "send_buffer"))
            ),
        ]
        for key, (name, convert, without) in _SYSCTLS.items():
            if key in self.hosts_given:
                value = convert(self.hosts[key])
                known = f"[ ! -e ipv4/{name} ] || " if value == without else ""
                lines.append(f"{known}echo {value} >ipv4/{name}")
                told[f"ipv4/{name}"] = (f"hosts.{key}", value, 0)
        words = "; ".join(f"{line} || exit 1" for line in lines)
        # a new hash with every timeout would move a flow to another flow queue, as no router does; since Linux 5.19
        more = "if [ -e core/txrehash ]; then echo 0 >core/txrehash; fi"
        self.add_commands(f"ip netns exec {space} sh -c 'cd /proc/sys/net && {words}; {more}'")
        told["core/txrehash"] = ("txrehash", 0, 0)
        # what a kernel without the file does; the command is the same for all of them
        missing = {f"ipv4/{name}": without for name, _, without in _SYSCTLS.values()} | {"core/txrehash": 0}
        command = " ".join(["read", space, *(f"/proc/sys/net/{file}" for file in told)])
        for file, (key, value, place) in told.items():
            read = readback.read_line(f"/proc/sys/net/{file}", place, missing=missing.get(file))
            self.expect(key, value, command, read)

    def _limit_memory(self) -> str:
        """Return the command that limits the memory of TCP, and note what to read back: three numbers of pages."""
        limit = self.hosts["memory"]
        pages = 1_000_000 if limit is None else max(1, limit // 4096)
        numbers = (pages, pages, max(pages, 1_000_000))
        for place, number in enumerate(numbers):
            file = "/proc/sys/net/ipv4/tcp_mem"
            self.expect("hosts.memory, pages of 4096 B", number, f"read - {file}", readback.read_line(file, place))
        return f"echo {' '.join(map(str, numbers))} >/proc/sys/net/ipv4/tcp_mem"

    def set_delays(self) -> None:
        """Give every base RTT a band with half of it, in both directions."""
        levels = -(-len(self.rtts) // _BANDS)
        bits = self.port_bits
        for device, places in self.port_places:
            add = f"tc -n D qdisc add dev {device}"
            filter_ = f"tc -n D filter add dev {device} protocol ip prio 1"
            if levels > 1:
                self.add_commands(f"{add} root handle 1: prio bands {max(3, levels)}")
            for high in range(levels):
                handle = f"{0x10 + high:x}:" if levels > 1 else "1:"
                of_level = self.rtts[high * _BANDS : (high + 1) * _BANDS]
                if levels > 1:
                    place = f"parent 1:{high + 1:x} handle {handle}"
                    self.add_commands(
                        *(
                            f"{filter_} parent 1: u32 match u16 {bits | high << 4:#06x} {bits | 0xF0:#06x} at {at}"
                            f" flowid 1:{high + 1:x}"
                            for at in places
                        )
                    )
                else:
                    place = f"root handle {handle}"
                self.add_commands(f"{add} {place} prio bands {max(3, len(of_level))}")
                for low, rtt in enumerate(of_level):
                    band = f"{handle}{low + 1:x}"
                    half = rtt // (2 * US) * US  # tc has whole us, and the other direction what is left
                    delay = half if device == "d1" else rtt - half
                    if delay:
                        command = f"tc -n D -j qdisc show dev {device}"
                        key = f"base_rtt of {rtt / MS:g} ms: delay of {device}"
                        self.settings += readback.read_back_netem(key, delay, None, _NETEM_LIMIT, command, parent=band)
                    self.add_commands(
                        f"{add} parent {band} netem delay {delay // US}us limit {_NETEM_LIMIT}"
                        if delay
                        else f"{add} parent {band} pfifo limit {_NETEM_LIMIT}",
                        *(
                            f"{filter_} parent {handle} u32 match u16 {bits | low:#06x} {bits | 0xF:#06x} at {at}"
                            f" flowid {band}"
                            for at in places
                        ),
                    )
        self.set_pacing("S", "s0")

    def set_pacing(self, space: str, device: str) -> None:
        """Let a host's device pace what flows send, if it is to."""
        if self.hosts["pacing"] == "fq":
            self.add_commands(f"tc -n {space} qdisc add dev {device} root handle 2: {_FQ}")
            self.settings += readback.read_back_queue(_FQ, "hosts.pacing", f"tc -n {space} -j qdisc show dev {device}")

    def set_queue(self, hop: Hop) -> None:
        """Give a hop its shaper and queue, and what is behind them."""
        rate = hop.own["rate"]
        tc, dev = f"tc -n {hop.space}", f"dev {hop.departure}"
        place = "root" if hop.qdisc.limits else "parent 1:1"
        if not hop.qdisc.limits:
            self.add_commands(
                f"{tc} qdisc add {dev} root handle 1: htb default 1",
                f"{tc} class add {dev} parent 1: classid 1:1 htb {format_class_options(rate, hop)}",
            )
        self.add_commands(f"{tc} qdisc add {dev} {place} handle 2: {hop.qdisc.text}")
        space, device = hop.behind
        delay = to_whole_microseconds(f"{hop.place}.delay", hop.delay)
        behind = f"dev {device} root handle 1: netem{f' delay {delay}us' if delay else ''}"
        if hop.serial or hop.delay:
            speed = f" rate {rate}bit" if hop.serial else ""
            self.add_commands(f"tc -n {space} qdisc add {behind}{speed} limit {_NETEM_LIMIT}")
        for change in list_rate_changes(hop.own, self.groups["duration"]):
            new = change["rate"]
            texts = []
            if not hop.qdisc.limits:
                texts.append(f"{tc} class change {dev} parent 1: classid 1:1 htb {format_class_options(new, hop)}")
            if hop.qdisc.shapes and hop.own["aqm"]["bandwidth"] is None:
                texts.append(f"{tc} qdisc change {dev} {place} handle 2: cake bandwidth {new}bit")
            if hop.serial:
                texts.append(f"tc -n {space} qdisc change {behind} rate {new}bit limit {_NETEM_LIMIT}")
            if texts:
                self.lines.append(f"at {change['at']} {' && '.join(texts)}")
        self._expect_hop(hop)

    def _expect_hop(self, hop: Hop) -> None:
        """Read a hop back, which has the last of its rates by then."""
        tc, dev = f"tc -n {hop.space}", f"dev {hop.departure}"
        end = self.groups["duration"]
        last = [change["rate"] for change in list_rate_changes(hop.own, end) if change["at"] <= end]
        rate = last[-1] if last else hop.own["rate"]
        text = hop.qdisc.text
        if last and hop.qdisc.kind == "cake" and hop.own["aqm"]["bandwidth"] is None:
            text = re.sub(r"bandwidth \d+bit", f"bandwidth {rate}bit", text)
        self.settings += readback.read_back_queue(text, hop.place, f"{tc} -j qdisc show {dev}")
        if not hop.qdisc.limits:
            self.settings += readback.read_back_htb(
                hop.place, compute_class_rate(rate, hop), compute_burst(rate, hop), f"{tc} class show {dev}"
            )
        space, device = hop.behind
        if hop.serial or hop.delay:
            command = f"tc -n {space} -j qdisc show dev {device}"
            serial = rate if hop.serial else None
            key = f"{hop.place}.{'delay' if hop.delay else 'rate'}"
            self.settings += readback.read_back_netem(key, hop.delay, serial, _NETEM_LIMIT, command, handle="1:")

    # who sends

    def find_port(self, one: dict[str, Any], *kind: Any) -> int:
        """Return the receivers' port for a base RTT, and for what else there is one kind of receivers for each of."""
        variant = self.receivers.setdefault(kind, len(self.receivers))
        if variant >= _VARIANTS:
            raise TooMany(
                f"{variant + 1} kinds of receivers",
                f"at most {_VARIANTS}",
                "use fewer congestion controls",
                key="flows",
            )
        return self.find_first_port(variant) + self.rtts.index(get_base_rtt(one))

    def find_first_port(self, variant: int) -> int:
        """Return the first of the 256 ports of a kind of receivers."""
        return _RECEIVER_PORT + 256 * variant

    def find_tcp_target(self, where: str, one: dict[str, Any]) -> tuple[str, int, str]:
        """Return target, port, and congestion control with the type of service of what a flow sends."""
        cc = self.map_control(where, one["cc"])
        echo = one["ecn_echo"]
        if echo == "accecn" or (echo == "dctcp" and "dctcp" not in self.names):
            raise Unsupported(echo, ("auto", "classic"), key=f"{where}.ecn_echo", where="this kernel")
        listening = "dctcp" if echo == "dctcp" else cc
        accepted = "cubic" if echo == "classic" and cc == "dctcp" else "-"
        ecn = self.hosts["ecn"] if one["ecn"] is None else one["ecn"]
        port = self.find_tcp_port(one, listening, accepted, ecn=bool(ecn))
        return self.find_target(one, ecn=bool(ecn)), port, f"{cc} {one['dscp'] << 2}"

    def find_tcp_port(self, one: dict[str, Any], listening: str, accepted: str, *, ecn: bool) -> int:
        """Return the port of the receivers of a flow."""
        del ecn
        return self.find_port(one, listening, accepted)

    def find_source(self, one: dict[str, Any]) -> str:
        """Return the address of a sender."""
        return make_address(1, self.sources[one["src_host"]])

    def find_target(self, one: dict[str, Any], *, ecn: bool) -> str:
        """Return the address of its receiver: there is a route with ECN, and one without."""
        return make_address(3 if ecn else 2, self.targets[one["dst_host"]])

    def find_udp_target(self, one: dict[str, Any]) -> tuple[str, int]:
        """Return target and port of what a source of UDP sends."""
        return self.find_target(one, ecn=False), _RECEIVER_PORT + 256 * _VARIANTS + self.rtts.index(get_base_rtt(one))

    def list_senders(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield everything that sends, with the guest's line of it."""
        numbers = itertools.count()
        flows = [(f"flows[{n}]", one) for n, one in enumerate(self.groups["flows"]) for _ in range(one["count"])]
        for (where, one), start in zip(flows, self.schedule["flows"], strict=True):
            target, port, rest = self.find_tcp_target(where, one)
            times = f"{start} {_replace_never(one['stop'])} {_replace_never(one['size'])}"
            yield one, f"tcp {next(numbers)} {times} {self.find_source(one)} {target} {port} {rest}"
        sources = itertools.chain.from_iterable(itertools.repeat(one, one["count"]) for one in self.groups["udp"])
        for one, start in zip(sources, self.schedule["udp"], strict=True):
            gap = one["size"] * 8e9 / one["rate"]
            target, port = self.find_udp_target(one)
            poisson, answered = int(one["spacing"] == "poisson"), int(one.get("echo", False))
            yield (
                one,
                f"udp {next(numbers)} {start} {_replace_never(one['stop'])} {gap!r} {one['size'] - 42} {poisson}"
                f" {self.find_source(one)} {target} {port} {_compute_tos(one)} {answered}",
            )
        numbers = itertools.count(next(numbers) + self.app_ends)
        processes = [(self.find_tcp_target(f"web[{n}]", one), one) for n, one in enumerate(self.groups["web"])]
        for process, start, size in self.schedule["web"]:
            (target, port, rest), one = processes[process]
            yield one, f"tcp {next(numbers)} {start} -1 {size} {self.find_source(one)} {target} {port} {rest}"

    def start_senders(self) -> None:
        """Say who sends what, and who receives it."""
        self.lines.append("senders S")
        self.lines += [line for _, line in self.list_senders()]
        # answers come from the address that was asked
        answered = {self.find_udp_target(one) for one in self.groups["udp"] if one.get("echo")}
        others = {self.find_udp_target(one) for one in self.groups["udp"]} - answered
        self.lines += [f"echo R {at} {port} 0" for at, port in sorted(answered)]
        self.lines += [f"sink R {at} {port}" for at, port in sorted(others)]
        for (cc, accepted), variant in self.receivers.items():
            for band in range(len(self.rtts)):
                self.lines.append(f"listen R 0.0.0.0 {self.find_first_port(variant) + band} {cc} {accepted} 0")

    def set_times(self) -> None:
        """Say how long the run takes, and what is captured."""
        record = self.groups["record"]
        # packets that left a sender before the end are still to be seen behind the queue
        tail = max(self.rtts, default=0) + sum(hop.delay for hop in self.hops) + 100 * MS
        numbers = {
            "duration": self.groups["duration"],
            "series": record["interval"] if record["series"] else 0,
            "tail": tail,
            "mss": self.hosts["mss"],
            "seed": self.groups["seed"],
        }
        self.lines += [f"{name} {number}" for name, number in numbers.items()]
        for hop in self.hops:
            self.lines += [
                f"counters tc -n {hop.space} -s -j qdisc show dev {hop.departure}",
                f"capture arrived {hop.space} {hop.arrival}",
                f"capture sent {hop.space} {hop.departure}",
            ]


def get_base_rtt(one: dict[str, Any]) -> int:
    """Return the base RTT of what sends, ns; UDP that nobody answers has none."""
    return int(one["base_rtt"]) if "cc" in one or "kind" in one or one.get("echo") else 0


def make_address(net: int, host: int) -> str:
    """Return the address of a host, by its number in a net."""
    return f"10.{net}.{host >> 8}.{host & 255}"


def _compute_tos(udp: dict[str, Any]) -> int:
    return int(udp["dscp"] << 2 | _ECN_BITS[udp["ecn"]])


def _replace_never(value: int | None) -> int:
    return -1 if value is None else value
