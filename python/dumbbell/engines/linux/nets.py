"""A run over several hops, or with senders on both sides, as the guest's plan.

The network in the guest. X is in the middle, and every hop hangs on it with two links:

    S s0 -- d0 D d1 -- x0 X x1 -- r0 R        X i1 -- a1 H1 b1 -- o1 X, or X i1 -- a1 H1 b1 -- c1 L1 e1 -- o1 X

Who sends down is in S, who sends up in R, and receivers on the other side. D delays as over one hop. H1 has the queue
of hop 1, L1 its serial link and its delay. Every other link is infinitely fast. Ports say which way packets go: a kind
of receivers has 256 of them, for congestion control, ECN and route, and X has a rule for each step of a route: from
which link, to or from which ports, over which link. So hosts have one address each, as queues that isolate hosts
see them.
"""

from collections.abc import Iterator
from typing import Any

from dumbbell import _native
from dumbbell.engines.linux.hop import Hop
from dumbbell.engines.linux.plan import FIRST_PORT, GuestPlan, make_address
from dumbbell.errors import Unsupported
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.net import ROUTES, give_routes
from dumbbell.experiment.schema import SENDERS

_RECEIVER_PORT = 0x8000  # guest.c gets it: senders from there, or above, are receivers
_FIRST_TABLE, _ECN_TABLE = 1000, 100  # routing tables
_TTL = 255  # each hop takes up to three of it


# All but those that set rates of shapers.
APPLICATIONS = (
    "pages",
    "call",
    "game",
    "video",
    "request",
    "onoff",
    "backup",
    "dash",
    "responsiveness",
)
_HEAD = 5  # crates/dumbbell-live/src/apps/datagrams.rs: bytes of a datagram by which the guest knows it again


class Net(GuestPlan):
    """The plan of a run over several hops."""

    most_senders = _RECEIVER_PORT - FIRST_PORT
    port_places = (("d1", (22, 20)), ("d0", (20, 22)))
    port_bits = _RECEIVER_PORT
    receiver_ports = (_RECEIVER_PORT, 0xFFFF)

    @staticmethod
    def is_needed(cell: Cell) -> bool:
        """Whether a run has more than one hop, or data go both ways, as those of applications do."""
        groups = cell.groups
        names = {param.name for param in ROUTES}
        senders = (one for kind in ("flows", "web", "udp") for one in groups[kind])
        return "delay" in groups["bottleneck"] or bool(groups.get("app")) or any(names & one.keys() for one in senders)

    @staticmethod
    def read_groups(cell: Cell) -> dict[str, Any]:
        """Return the keys of a run, those of hops and routes as well."""
        return give_routes(GuestPlan.read_groups(cell), list(SENDERS))

    def make_hop(self, number: int, place: str, own: dict[str, Any], given: dict[str, Any]) -> Hop:
        """Return a hop and where it is."""
        qdisc = self.make_qdisc(place, own, given)
        return Hop(place, own, qdisc, f"H{number}", f"a{number}", f"b{number}", (f"L{number}", f"e{number}"))

    # the network

    def make_network(self) -> None:
        """Make namespaces, links, addresses and routes."""
        inner = [
            hop.space if number == 0 else hop.behind[0]
            for hop in self.hops
            for number in range(2 if hop.serial or hop.delay else 1)
        ]
        links = [("S", "s0", "D", "d0"), ("D", "d1", "X", "x0"), ("X", "x1", "R", "r0")]
        for number, hop in enumerate(self.hops):
            links.append(("X", f"i{number}", hop.space, hop.arrival))
            if hop.behind[0] in inner:
                links.append((hop.space, hop.departure, hop.behind[0], f"c{number}"))
            links.append((*((hop.behind) if hop.behind[0] in inner else (hop.space, hop.departure)), "X", f"o{number}"))
        self.make_links(["S", "D", "X", "R", *inner], links)
        self.limit_bursts("S", "s0")
        self.limit_bursts("R", "r0")
        # the address at the other end of the link of a device
        self.via = {one[1]: f"10.0.{number}.2" for number, one in enumerate(links)}
        self.via |= {one[3]: f"10.0.{number}.1" for number, one in enumerate(links)}
        self._set_up_host("S", "s0", 1, self.sources)
        self._set_up_host("R", "r0", 2, self.targets)
        self.add_commands(f"ip -n D route add 10.1.0.0/16 via {self.via['d0']}")
        self.add_commands(f"ip -n D route add 10.2.0.0/16 via {self.via['d1']}")
        for hop in self.hops:
            self.add_commands(f"ip -n {hop.space} route add default via {self.via[hop.departure]}")
            if hop.behind[0] in inner:
                self.add_commands(f"ip -n {hop.behind[0]} route add default via {self.via[hop.behind[1]]}")
        self.tables: dict[str, int] = {}
        for device in ("x0", "x1", *(f"i{number}" for number in range(len(self.hops)))):
            self.tables[device] = _FIRST_TABLE + len(self.tables)
            self.add_commands(
                f"ip -n X route add default via {self.via[device]} dev {device} table {self.tables[device]}"
            )
        for space in ("D", "X", *inner):
            self.add_commands(f"ip netns exec {space} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'")

    def _set_up_host(self, space: str, device: str, net: int, hosts: dict[int, int]) -> None:
        """Give S or R its addresses, its routes, with ECN and without, and its sysctls."""
        rto, window = self.make_route_options()
        quick = "" if self.hosts["delayed_ack"] else " quickack 1"
        route = f"ip -n {space} route add 10.{3 - net}.0.0/16 via {self.via[device]}{window}{rto}{quick}"
        self.add_commands(
            *(f"ip -n {space} addr add {make_address(net, host)}/32 dev lo" for host in hosts.values()),
            route,
            f"{route} features ecn table {_ECN_TABLE}",
        )
        for table, ecn in (("main", False), (str(_ECN_TABLE), True)):
            command = f"ip -n {space} route show 10.{3 - net}.0.0/16 table {table}"
            self.expect_route(command, sends=True, ecn=ecn, quick=bool(quick))
        self.set_sysctls(space)
        self.add_commands(f"ip netns exec {space} sh -c 'echo {_TTL} >/proc/sys/net/ipv4/ip_default_ttl'")

    def set_delays(self) -> None:
        """Give every base RTT a band with half of it, in both directions."""
        super().set_delays()
        self.set_pacing("R", "r0")

    # who sends

    def find_first_port(self, variant: int) -> int:
        """Return the first of the 256 ports of a kind of receivers."""
        return _RECEIVER_PORT + 256 * variant

    def find_way(self, one: dict[str, Any]) -> tuple[bool, tuple[int, ...], tuple[int, ...]]:
        """Return whether something sends up, the hops of its data and those of what comes back."""
        groups = self.groups
        names = ["bottleneck", *(hop["name"] for hop in groups.get("hop", []))]
        back = ["reverse"] if groups.get("reverse") is not None else []
        names += back
        up = one["direction"] == "up"
        data, acks = (back, ["bottleneck"]) if up else (["bottleneck"], back)
        given = one["route"], one.get("ack_route")
        route, ack_route = (default if own is None else own for own, default in zip(given, (data, acks), strict=True))
        return up, tuple(map(names.index, route)), tuple(map(names.index, ack_route))

    def find_source(self, one: dict[str, Any]) -> str:
        """Return the address of a sender."""
        return self._find_addresses(one)[0]

    def find_target(self, one: dict[str, Any], *, ecn: bool) -> str:
        """Return the address of its receiver."""
        del ecn
        return self._find_addresses(one)[1]

    def _find_addresses(self, one: dict[str, Any]) -> tuple[str, str]:
        near, far = make_address(1, self.sources[one["src_host"]]), make_address(2, self.targets[one["dst_host"]])
        return (far, near) if one["direction"] == "up" else (near, far)

    def find_tcp_port(self, one: dict[str, Any], listening: str, accepted: str, *, ecn: bool) -> int:
        """Return the port of the receivers of a flow."""
        return self.find_port(one, "tcp", f"{listening} {accepted} {one['dscp'] << 2}", ecn, *self.find_way(one))

    def find_udp_target(self, one: dict[str, Any]) -> tuple[str, int]:
        """Return target and port of what a source of UDP sends."""
        answer = str(one["dscp"] << 2) if one.get("echo") else ""
        return self.find_target(one, ecn=False), self.find_port(one, "udp", answer, False, *self.find_way(one))

    def start_senders(self) -> None:
        """Say who sends what, who receives it, and which way everything goes."""
        self.lines.append(f"receivers {_RECEIVER_PORT}")
        side = ""
        for one, line in self.list_senders():
            if (now := "R" if one["direction"] == "up" else "S") != side:
                side = now
                self.lines.append(f"senders {side}")
            self.lines.append(line)
        apps = list(self.list_apps())
        for (transport, answer, ecn, up, data, acks), variant in self.receivers.items():
            first = self.find_first_port(variant)
            ports = f"{first}-{first + 255}"
            sender, receiver = ("R", "S") if up else ("S", "R")
            if ecn:
                self.add_commands(f"ip -n {sender} rule add dport {ports} lookup {_ECN_TABLE}")
                if transport == "app":  # whose receivers connect
                    self.add_commands(f"ip -n {receiver} rule add sport {ports} lookup {_ECN_TABLE}")
            ends = ("x1", "x0") if up else ("x0", "x1")
            for which, hops, (start, end) in (("dport", data, ends), ("sport", acks, ends[::-1])):
                for device, to in _list_steps(hops, start, end):
                    self.add_commands(f"ip -n X rule add iif {device} {which} {ports} lookup {self.tables[to]}")
            if transport == "tcp":
                of_bands = range(first, first + len(self.rtts))
                self.lines += [f"listen {receiver} 0.0.0.0 {port} {answer}" for port in of_bands]
        # answers come from the address that was asked
        for one in self.groups["udp"]:
            target, port = self.find_udp_target(one)
            receiver = "S" if one["direction"] == "up" else "R"
            line = f"{receiver} {target} {port}"
            line = f"echo {line} {one['dscp'] << 2}" if one.get("echo") else f"sink {line}"
            if line not in self.lines:
                self.lines.append(line)
        if apps:
            self.lines += [f"apps {_native.apps_version()}", *apps]

    def list_apps(self) -> Iterator[str]:
        """Yield the guest's line of each user of an application: the server is where a sender of flows would be."""
        number = sum(len(self.schedule[kind]) for kind in ("flows", "udp"))
        users = [(f"app[{n}]", one) for n, one in enumerate(self.users) for _ in range(one["count"])]
        for (where, one), (_, connections) in zip(users, self.schedule["app"], strict=True):
            if one["kind"]["name"] not in APPLICATIONS:
                raise Unsupported(one["kind"]["name"], APPLICATIONS, key=f"{where}.kind", where="Linux")
            _check_payloads(where, one["kind"])
            cc = "-" if one["cc"] is None else self.map_control(where, one["cc"])
            if one["cc"] is not None and one["ecn_echo"] not in ("auto", "dctcp" if cc == "dctcp" else "classic"):
                allowed = "auto: both ends of a connection have the same congestion control"
                raise Unsupported(one["ecn_echo"], allowed, key=f"{where}.ecn_echo", where="Linux")
            ecn = one["cc"] is not None and bool(self.hosts["ecn"] if one["ecn"] is None else one["ecn"])
            port = self.find_port(one, "app", "", ecn, *self.find_way(one))
            server, client = self._find_addresses(one)
            spaces = ("R", "S") if one["direction"] == "up" else ("S", "R")
            ends = f"{spaces[0]} {server} {spaces[1]} {client} {port}"
            yield f"app {number} {connections} {ends} {cc} {one['dscp'] << 2}"
            number += 2 * connections


def _check_payloads(where: str, kind: dict[str, Any]) -> None:
    """Raise InputError for datagrams without room for what the guest writes into them."""
    for key in ("payload", "client_payload", "server_payload"):
        # a video has a header of RTP besides
        if kind["name"] != "video" and kind.get(key, _HEAD) < _HEAD:
            raise Unsupported(f"{kind[key]} B", f"{_HEAD} B or more", key=f"{where}.kind.{key}", where="Linux")


def _list_steps(hops: tuple[int, ...], start: str, end: str) -> Iterator[tuple[str, str]]:
    """Yield the steps of a way in X: from which device, over which device."""
    came = [start, *(f"o{hop}" for hop in hops)]
    go = [*(f"i{hop}" for hop in hops), end]
    yield from zip(came, go, strict=True)
