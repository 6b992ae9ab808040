"""A run in the words of Linux: addresses, routes, tc(8), sysctls, and who sends what; the guest's plan.

The network in the guest, four namespaces and one more for a serial link:

    S s0 -- d0 D d1 -- m0 M m1 -- [l0 L l1 --] r0 R

D delays: half of each base RTT in either direction, by the last eight bits of the receiver's port. M has the queue.
Every link but the bottleneck is infinitely fast. What has no counterpart is refused before anything runs.
"""

import itertools
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dumbbell import _native
from dumbbell.engines.linux.kernels import Kernel
from dumbbell.engines.linux.keys import refuse_rest
from dumbbell.engines.linux.qdiscs import Qdisc, approximated, qdisc
from dumbbell.errors import Conflict, InputError, TooMany, Unsupported, WrongValue
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.net import hops
from dumbbell.experiment.registry import registry

VERSION = 2  # changes whenever a run may come out otherwise though its plan is the same: part of every run's key
FIRST_PORT = 10_000  # guest.c: a sender's port is this plus its number
MOST_SENDERS = 50_000
_RECEIVER_PORT, _VARIANTS = 16_384, 128  # 256 ports, one a base RTT, for each variant of receivers
_BANDS = 16  # TCQ_PRIO_BANDS, pkt_sched.h
_GUEST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # guest.c
_NETEM_LIMIT = 10_000_000  # packets; more than are ever under way
_US, _MS = 1_000, 1_000_000

# what the simulator calls a kernel's congestion control, module parameters by our names, and how values become theirs
MODULES: dict[str, dict[str, tuple[str, Callable[[Any], int]]]] = {
    "cubic": {
        "beta": ("tcp_cubic.beta", int),
        "bic_scale": ("tcp_cubic.bic_scale", int),
        "fast_convergence": ("tcp_cubic.fast_convergence", int),
        "tcp_friendliness": ("tcp_cubic.tcp_friendliness", int),
        "hystart": ("tcp_cubic.hystart", lambda word: int(word != "off")),  # of which version: _hystart
        "hystart_detect": ("tcp_cubic.hystart_detect", {"train": 1, "delay": 2, "both": 3}.__getitem__),
        "hystart_low_window": ("tcp_cubic.hystart_low_window", int),
        "hystart_ack_delta": ("tcp_cubic.hystart_ack_delta_us", lambda time: whole(time, _US)),
    },
    "dctcp": {
        "shift_g": ("tcp_dctcp.dctcp_shift_g", int),
        "alpha_init": ("tcp_dctcp.dctcp_alpha_on_init", int),
    },
    "bbr2": {
        "ecn": ("tcp_bbr2.ecn_enable", int),
        "ecn_max_rtt": ("tcp_bbr2.ecn_max_rtt_us", lambda time: whole(time, _US)),
    },
}
# Switches of hosts that are sysctls, how values become theirs, and what a kernel without the sysctl does; a switch that
# is not given is as the kernel has it.
_SYSCTLS: dict[str, tuple[str, Callable[[Any], int], int | None]] = {
    "tso_rtt": ("tcp_tso_rtt_log", lambda on: 9 if on else 0, 0),
    "sack_compression": ("tcp_comp_sack_nr", lambda on: 44 if on else 0, 0),
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
_TAKEN = {
    "flows": ("cc", "start", "count", "base_rtt", "stop", "size", "src_host", "dst_host", "dscp", "ecn_echo", "ecn"),
    "web": ("cc", "start", "arrivals", "size", "base_rtt", "stop", "src_host", "dst_host", "dscp", "ecn_echo", "ecn"),
    "udp": ("start", "count", "rate", "size", "spacing", "ecn", "stop", "src_host", "dst_host", "dscp"),
}
_ECN_BITS = {"not-ect": 0, "ect1": 1, "ect0": 2}


@dataclass(frozen=True)
class Mapped:
    """A run as the guest carries it out."""

    plan: str
    """What guest.c reads, with `by_path`."""
    arguments: tuple[str, ...]
    """For the kernel's command line."""
    qdisc: Qdisc
    senders: int


def notes(cells: list[Cell], kernel: Kernel) -> list[str]:
    """Return what of these runs Linux does only nearly as the simulator, in words."""
    said: dict[str, None] = {}
    for cell in cells:
        groups = cell.groups
        profile = groups["hosts"]["profile"]
        if not kernel.release.startswith(profile.removeprefix("linux-") + "."):
            said[f"hosts.profile = {profile}: the kernel is {kernel.release}"] = None
        if groups["bottleneck"]["shaper"] == "link" and groups["bottleneck"]["aqm"]["name"] != "cake":
            said["bottleneck.shaper = link: htb with a burst of one frame, and a serial link behind it"] = None
        said |= dict.fromkeys(approximated(groups["bottleneck"]["aqm"]))
        if any(one["stop"] is not None for one in groups["flows"]):
            said["flows.stop: at most two segments that were written before leave after it"] = None
        if any(one["spacing"] == "poisson" for one in groups["udp"]):
            said["udp.spacing = poisson: the same distribution, other draws"] = None
    return list(said)


def cc_names(kernel: Kernel) -> dict[str, str]:
    """Return the kernel's name of each congestion control that both have."""
    patches = json.dumps(kernel.described.get("recipe", {})).lower()
    # the patches of BBRv3 put it in the place of BBRv1
    bbr = "bbr3" if "bbr3" in patches else "bbr1"
    names = {name: name for name in registry().cc if name in kernel.congestion_controls}
    if "bbr" in kernel.congestion_controls:
        names.setdefault(bbr, "bbr")
    return names


class _Plan:
    """The plan of one run, put together."""

    def __init__(self, cell: Cell, kernel: Kernel) -> None:
        self.groups, self.kernel, self.lines = cell.groups, kernel, list[str]()
        self.given = cell.given
        self.hosts = cell.groups["hosts"]
        self.hosts_given = self.given.get("hosts", {})
        self.bottleneck = cell.groups["bottleneck"]
        self.schedule = json.loads(_native.schedule(cell.config))
        self.qdisc = qdisc(
            self.bottleneck["aqm"],
            self.given.get("bottleneck", {}).get("aqm", {}),
            self.bottleneck["rate"],
            kernel.qdiscs,
        )
        self.serial = self.bottleneck["shaper"] == "link" and not self.qdisc.shapes
        self.all_tcp = [*self.groups["flows"], *self.groups["web"]]
        self.given_tcp = [*self.given.get("flows", []), *self.given.get("web", [])]
        self.rtts = sorted({one["base_rtt"] for one in self.all_tcp} | ({0} if self.groups["udp"] else set()))
        if len(self.rtts) > _BANDS**2:
            raise TooMany("", "base_rtt", f"{len(self.rtts)} different ones", f"at most {_BANDS**2}")
        everyone = [*self.all_tcp, *self.groups["udp"]]
        self.sources = {host: n for n, host in enumerate(sorted({one["src_host"] for one in everyone}), start=1)}
        self.targets = {host: n for n, host in enumerate(sorted({one["dst_host"] for one in everyone}), start=1)}
        self.receivers: dict[tuple[str, str], int] = {}
        self.names = cc_names(kernel)
        self.arguments: dict[str, int] = {}

    def command(self, *texts: str) -> None:
        self.lines += [f"command {text}" for text in texts]

    # what has no counterpart

    def refuse(self) -> None:
        profile = registry().profiles[self.hosts["profile"]]
        sections = registry().sections
        left = {key: value for key, value in self.hosts.items() if key not in (*_HOSTS, *_SYSCTLS)}
        refuse_rest("hosts", left, sections["hosts"], profile.hosts)
        if len(hops(self.groups)) > 1 or "delay" in self.bottleneck:
            place, hop = hops(self.groups)[-1]
            allowed = "one hop, over which all data go, and no queue for acknowledgements"
            raise Unsupported("", place, f"the hop {hop.get('name', place)}", allowed, where="Linux")
        for kind, taken in _TAKEN.items():
            for number, one in enumerate(self.groups[kind]):
                left = {key: value for key, value in one.items() if key not in taken}
                refuse_rest(f"{kind}[{number}]", left, sections[kind], {})
                if one["stop"] is not None and one.get("size") is not None and kind == "flows":
                    raise Conflict("", f"{kind}[{number}].stop", "a stop and a size", "one of them with Linux")
        for key, what in (("trace", "trace of a link"), ("path", "stages of a path"), ("behind", "stages of a path")):
            if self.bottleneck[key]:
                raise Unsupported("", f"bottleneck.{key}", what, "none", where="Linux")
        if link := self.bottleneck.get("link"):
            raise Unsupported("", "bottleneck.link", f"link {link['name']}", "shaper", where="Linux")
        for key in ("link_layer", "overhead", "mpu", "framing"):
            value = self.bottleneck.get(key)
            if value not in (None, "raw"):
                raise Unsupported("", f"bottleneck.{key}", str(value), "the default", where="Linux")
        if self.groups["record"].get("queue"):
            raise Unsupported("", "record.queue", "state of a queue discipline", "none", where="Linux")
        if self.groups["record"]["trace"] is not None:
            raise Unsupported("", "record.trace", "trace of a sender", "none", where="Linux")
        flows = sum(map(len, self.schedule.values()))
        if flows > MOST_SENDERS:
            raise TooMany(
                "",
                "flows",
                f"{flows} flows in one run",
                f"at most {MOST_SENDERS} with Linux: each has a port of its own",
            )

    def control(self, where: str, cc: dict[str, Any]) -> str:
        """Return the kernel's name of a congestion control; its parameters become those of the module."""
        name = cc["name"]
        if name not in self.names:
            raise Unsupported("", f"{where}.cc", name, list(self.names), where="this kernel")
        params, taken = registry().cc[name].params, MODULES.get(name, {})
        profile = registry().profiles[self.hosts["profile"]].cc.get(name, {})
        left = {key: value for key, value in cc.items() if key != "name" and key not in taken}
        refuse_rest(f"{where}.cc", left, params, profile)
        for key, (module, convert) in taken.items():
            alike = [one["cc"] for one in self.all_tcp if one["cc"]["name"] == name]
            if not any(key in one["cc"] for one in self.given_tcp if one["cc"]["name"] == name):
                continue
            if any(one[key] != cc[key] for one in alike):
                raise Conflict(
                    "", f"{where}.cc.{key}", "two values in one run", "one: it is a parameter of the kernel's module"
                )
            if key == "hystart" and not self._hystart(where, cc[key], profile.get(key)):
                continue
            try:
                self.arguments[module] = convert(cc[key])
            except InputError as error:
                raise error.moved("", f"{where}.cc.{key}") from None
        return self.names[name]

    def _hystart(self, where: str, wanted: str, of_profile: str | None) -> bool:
        """Return whether to tell the kernel; raises InputError if its HyStart is of another version than `wanted`."""
        major, minor = map(int, re.findall(r"\d+", self.kernel.release)[:2])
        own = "5.6" if (major, minor) >= (5, 6) else "5.5"
        if wanted in ("off", own):
            return True
        if wanted == of_profile:  # the kernel is as it is, which is said
            return False
        raise Unsupported("", f"{where}.cc.hystart", wanted, ("off", own), where="this kernel")

    # the network

    def network(self) -> None:
        chain = ["S", "D", "M", *(["L"] if self.serial else []), "R"]
        links = [("S", "s0", "D", "d0"), ("D", "d1", "M", "m0")]
        links += [("M", "m1", "L", "l0"), ("L", "l1", "R", "r0")] if self.serial else [("M", "m1", "R", "r0")]
        mtu = self.hosts["mss"] + 52  # IPv4 and TCP with time stamps
        all_on = self.hosts["offload"] == "gso"
        self.command(
            "mkdir -p /run/netns",
            *(f"ip netns add {space} && ip -n {space} link set lo up" for space in chain),
            "echo 1000000 1000000 1000000 >/proc/sys/net/ipv4/tcp_mem"
            if self.hosts["memory"] is None
            else self._memory(),
        )
        for number, (one, one_dev, other, other_dev) in enumerate(links):
            ends = [f"02:00:00:00:{number:02x}:{end:02x}" for end in (1, 2)]
            peer = f"peer name {other_dev} mtu {mtu} address {ends[1]} netns {other}"
            self.command(
                f"ip -n {one} link add {one_dev} mtu {mtu} address {ends[0]} type veth {peer}",
                f"ip -n {one} addr add 10.0.{number}.1/30 dev {one_dev}",
                f"ip -n {other} addr add 10.0.{number}.2/30 dev {other_dev}",
                *(f"ip -n {s} link set {d} up" for s, d in ((one, one_dev), (other, other_dev))),
                f"ip -n {one} neigh add 10.0.{number}.2 lladdr {ends[1]} dev {one_dev}",
                f"ip -n {other} neigh add 10.0.{number}.1 lladdr {ends[0]} dev {other_dev}",
            )
            for space, device in ((one, one_dev), (other, other_dev)):
                # with all of them off TCP still makes bursts (sk_setup_caps), which are cut as they leave the host
                self.lines.append(f"offload {space} {device} {int(all_on)} {int(all_on)} {int(all_on)}")
        if self.hosts["offload"] == "none":
            self.command("ip -n S link set dev s0 gso_max_segs 1")
        for number, space in enumerate(chain):
            self._routes(space, number, len(chain) - 1)

    def _routes(self, space: str, number: int, last: int) -> None:
        forth, back = f"via 10.0.{number}.2", f"via 10.0.{number - 1}.1"
        rto, window = "", ""
        if "rto_min" in self.hosts_given:
            try:
                rto = f" rto_min {whole(self.hosts['rto_min'], _MS)}ms"
            except InputError as error:
                raise error.moved("", "hosts.rto_min") from None
        if "initial_window" in self.hosts_given:
            window = f" initcwnd {self.hosts['initial_window']}"
        if number == 0:
            self.command(
                *(f"ip -n S addr add {_address(1, host)}/32 dev lo" for host in self.sources.values()),
                f"ip -n S route add 10.2.0.0/16 {forth}{window}{rto}",
                f"ip -n S route add 10.3.0.0/16 {forth}{window}{rto} features ecn",
            )
        elif number == last:
            quick = "" if self.hosts["delayed_ack"] else " quickack 1"
            self.command(
                *(
                    f"ip -n R addr add {_address(net, host)}/32 dev lo"
                    for net in (2, 3)
                    for host in self.targets.values()
                ),
                f"ip -n R route add 10.1.0.0/16 {back}{rto}{quick}",
            )
        else:
            self.command(
                f"ip -n {space} route add 10.1.0.0/16 {back}",
                f"ip -n {space} route add 10.2.0.0/15 {forth}",
                f"ip netns exec {space} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'",
            )
        if number in (0, last):
            self._sysctls(space)

    def _sysctls(self, space: str) -> None:
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
        words = "; ".join(f"{line} || exit 1" for line in lines)
        # a new hash with every timeout would move a flow to another flow queue, as no router does; since Linux 5.19
        more = "if [ -e core/txrehash ]; then echo 0 >core/txrehash; fi"
        self.command(f"ip netns exec {space} sh -c 'cd /proc/sys/net && {words}; {more}'")

    def _memory(self) -> str:
        pages = max(1, self.hosts["memory"] // 4096)
        return f"echo {pages} {pages} {max(pages, 1_000_000)} >/proc/sys/net/ipv4/tcp_mem"

    def delays(self) -> None:
        """Give every base RTT a band with half of it, in both directions."""
        levels = -(-len(self.rtts) // _BANDS)
        for device, at in (("d1", 22), ("d0", 20)):  # where the receiver's port stands in an IPv4 packet
            add = f"tc -n D qdisc add dev {device}"
            filter_ = f"tc -n D filter add dev {device} protocol ip prio 1"
            if levels > 1:
                self.command(f"{add} root handle 1: prio bands {max(3, levels)}")
            for high in range(levels):
                handle = f"{0x10 + high:x}:" if levels > 1 else "1:"
                of_level = self.rtts[high * _BANDS : (high + 1) * _BANDS]
                if levels > 1:
                    place = f"parent 1:{high + 1:x} handle {handle}"
                    self.command(
                        f"{filter_} parent 1: u32 match u16 {high << 4:#06x} 0x00f0 at {at} flowid 1:{high + 1:x}"
                    )
                else:
                    place = f"root handle {handle}"
                self.command(f"{add} {place} prio bands {max(3, len(of_level))}")
                for low, rtt in enumerate(of_level):
                    band = f"{handle}{low + 1:x}"
                    delay = rtt // 2 if device == "d1" else rtt - rtt // 2
                    self.command(
                        f"{add} parent {band} netem delay {delay / 1000:.3f}us limit {_NETEM_LIMIT}"
                        if delay
                        else f"{add} parent {band} pfifo limit {_NETEM_LIMIT}",
                        f"{filter_} parent {handle} u32 match u16 {low:#06x} {0x000F:#06x} at {at} flowid {band}",
                    )
        if self.hosts["pacing"] == "fq":
            self.command("tc -n S qdisc add dev s0 root fq flow_limit 1000000 limit 10000000")

    def queue(self) -> None:
        rate, burst = self.bottleneck["rate"], self.bottleneck["burst"]
        if self.qdisc.shapes:
            self.command(f"tc -n M qdisc add dev m1 root handle 2: {self.qdisc.text}")
        else:
            self.command(
                "tc -n M qdisc add dev m1 root handle 1: htb default 1",
                f"tc -n M class add dev m1 parent 1: classid 1:1 htb {_rate(rate, burst)}",
                f"tc -n M qdisc add dev m1 parent 1:1 handle 2: {self.qdisc.text}",
            )
        if self.serial:
            self.command(f"tc -n L qdisc add dev l1 root handle 1: netem rate {rate}bit limit {_NETEM_LIMIT}")
        for change in sorted(self.bottleneck["rate_changes"], key=lambda change: change["at"]):
            new = change["rate"]
            texts = [f"tc -n M class change dev m1 parent 1: classid 1:1 htb {_rate(new, burst)}"]
            if self.qdisc.shapes:
                texts = [f"tc -n M qdisc change dev m1 root handle 2: cake bandwidth {new}bit"]
                if self.bottleneck["aqm"]["bandwidth"] is not None:
                    continue
            if self.serial:
                texts.append(f"tc -n L qdisc change dev l1 root handle 1: netem rate {new}bit limit {_NETEM_LIMIT}")
            self.lines.append(f"at {change['at']} {' && '.join(texts)}")

    # who sends

    def port(self, one: dict[str, Any], cc: str, accepted: str) -> int:
        """Return the receivers' port for a base RTT and for a listener's congestion control and that of its sockets."""
        variant = self.receivers.setdefault((cc, accepted), len(self.receivers))
        if variant >= _VARIANTS:
            raise TooMany("", "flows", f"more than {_VARIANTS} kinds of receivers", "fewer congestion controls")
        return _RECEIVER_PORT + 256 * variant + self.band(one["base_rtt"])

    def band(self, rtt: int) -> int:
        return self.rtts.index(rtt)

    def tcp(self, where: str, one: dict[str, Any]) -> tuple[str, int, str]:
        """Return target, port, and congestion control with the type of service of what a flow sends."""
        cc = self.control(where, one["cc"])
        echo = one["ecn_echo"]
        if echo == "accecn" or (echo == "dctcp" and "dctcp" not in self.names):
            raise Unsupported("", f"{where}.ecn_echo", echo, ("auto", "classic"), where="this kernel")
        listening = "dctcp" if echo == "dctcp" else cc
        accepted = "cubic" if echo == "classic" and cc == "dctcp" else "-"
        ecn = self.hosts["ecn"] if one["ecn"] is None else one["ecn"]
        target = _address(3 if ecn else 2, self.targets[one["dst_host"]])
        return target, self.port(one, listening, accepted), f"{cc} {one['dscp'] << 2}"

    def senders(self) -> None:
        lines, number = [], 0
        flows = [(f"flows[{n}]", one) for n, one in enumerate(self.groups["flows"]) for _ in range(one["count"])]
        for (where, one), start in zip(flows, self.schedule["flows"], strict=True):
            target, port, rest = self.tcp(where, one)
            times = f"{start} {_or_never(one['stop'])} {_or_never(one['size'])}"
            lines.append(f"tcp {number} {times} {_address(1, self.sources[one['src_host']])} {target} {port} {rest}")
            number += 1
        sources = list(itertools.chain.from_iterable(itertools.repeat(one, one["count"]) for one in self.groups["udp"]))
        for one, start in zip(sources, self.schedule["udp"], strict=True):
            gap = one["size"] * 8e9 / one["rate"]
            port = _RECEIVER_PORT + 256 * _VARIANTS + self.band(0)
            addresses = f"{_address(1, self.sources[one['src_host']])} {_address(2, self.targets[one['dst_host']])}"
            tos = one["dscp"] << 2 | _ECN_BITS[one["ecn"]]
            poisson = int(one["spacing"] == "poisson")
            lines.append(
                f"udp {number} {start} {_or_never(one['stop'])} {gap!r} {one['size'] - 42} {poisson}"
                f" {addresses} {port} {tos}"
            )
            number += 1
        if sources:
            lines.append(f"sink R 0.0.0.0 {port}")
        processes = [(self.tcp(f"web[{n}]", one), one) for n, one in enumerate(self.groups["web"])]
        for process, start, size in self.schedule["web"]:
            (target, port, rest), one = processes[process]
            lines.append(
                f"tcp {number} {start} -1 {size} {_address(1, self.sources[one['src_host']])} {target} {port} {rest}"
            )
            number += 1
        for (cc, accepted), variant in self.receivers.items():
            for band in range(len(self.rtts)):
                lines.append(f"listen R 0.0.0.0 {_RECEIVER_PORT + 256 * variant + band} {cc} {accepted}")
        self.lines += lines

    def times(self) -> None:
        record = self.groups["record"]
        # packets that left a sender before the end are still to be seen behind the queue
        tail = max(self.rtts, default=0) + 100 * _MS
        numbers = {
            "duration": self.groups["duration"],
            "series": record["interval"] if record["series"] else 0,
            "tail": tail,
            "mss": self.hosts["mss"],
            "seed": self.groups["seed"],
        }
        self.lines += [f"{name} {number}" for name, number in numbers.items()]
        self.lines += [
            "senders S",
            "counters tc -n M -s -j qdisc show dev m1",
            "capture arrived M m0",
            "capture sent M m1",
        ]


def whole(time: int, unit: int) -> int:
    """Return a time in milliseconds or microseconds; raises InputError, without a key, if it is not a whole number."""
    if time % unit:
        raise WrongValue("", "", f"{time} ns", f"whole {'ms' if unit == _MS else 'us'}: the kernel has no finer ones")
    return time // unit


def _address(net: int, host: int) -> str:
    return f"10.{net}.{host >> 8}.{host & 255}"


def _or_never(value: int | None) -> int:
    return -1 if value is None else value


def _rate(rate: int, burst: int) -> str:
    return f"rate {rate}bit ceil {rate}bit burst {burst} cburst {burst} quantum 1514"


def by_path(plan: str) -> str:
    """Name tc and ip of a plan by their files, where PATH has others than the guest finds by itself."""

    def file(found: re.Match[str]) -> str:
        first = shutil.which(found[2])
        return found[1] + (found[2] if first in (None, shutil.which(found[2], path=_GUEST_PATH)) else first)

    return re.sub(r"(?m)(^command |^at \d+ |^counters |&& )(tc|ip)(?= )", file, plan)


def mapped(cell: Cell, kernel: Kernel) -> Mapped:
    """Return a run as the guest carries it out; raises InputError, without a file, for what has no counterpart."""
    plan = _Plan(cell, kernel)
    plan.refuse()
    plan.network()
    plan.delays()
    plan.queue()
    plan.times()
    plan.senders()
    arguments = tuple(f"{name}={value}" for name, value in sorted(plan.arguments.items()))
    senders = sum(map(len, plan.schedule.values()))
    text = "".join(f"{line}\n" for line in plan.lines)
    return Mapped(text, arguments, plan.qdisc, senders)
