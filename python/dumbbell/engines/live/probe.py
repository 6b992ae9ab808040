"""A process that tries what a live run needs, and says on standard output, in JSON, what it found.

Its argument is the file of the extension module. It tries everything as a run would: in a user namespace of its own
unless it is root, and in a network namespace that ends with it. Like the process of a run it has one thread only.
"""

import ctypes
import fcntl
import importlib.machinery
import importlib.util
import json
import os
import socket
import struct
import sys
import time
from typing import Any

SLEEPS, SLEEP_S = 250, 0.001  # 0.3 s in all
ROUNDS, READS = 10, 2000  # of the clock
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_PR_SET_TIMERSLACK = 29  # linux/prctl.h
_FORWARDER = 2  # real-time priority of the thread that forwards: crates/dumbbell-live/src/priority.rs
# linux/if_packet.h; the rings of a run are larger
_SOL_PACKET, _PACKET_RX_RING, _PACKET_VERSION, _TPACKET_V2 = 263, 5, 10, 1
# linux/rtnetlink.h, linux/netlink.h, linux/if_link.h
_RTM_NEWLINK, _REQUEST, _ACK, _CREATE, _EXCLUSIVE = 16, 0x1, 0x4, 0x400, 0x200
_NLMSG_ERROR, _LINK_INFO, _INFO_KIND = 2, 18, 1
# linux/ethtool.h: to read and to switch checksums, segmentation in and before the interface, and merging
_SIOCETHTOOL = 0x8946
_OFFLOADS = {"checksums": (0x16, 0x17), "tso": (0x1E, 0x1F), "gso": (0x23, 0x24), "gro": (0x2B, 0x2C)}


def _load(path: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader("_native", path)
    spec = importlib.util.spec_from_file_location("_native", path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _try_packets() -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as one:
        one.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        page = os.sysconf("SC_PAGESIZE")
        one.setsockopt(_SOL_PACKET, _PACKET_RX_RING, struct.pack("IIII", page, 4, page // 2, 8))


def _make_attribute(kind: int, content: bytes) -> bytes:
    length = 4 + len(content)
    return struct.pack("HH", length, kind) + content + bytes(-length % 4)


def _try_veth() -> list[str]:
    """Make a pair of veth interfaces and return which of their offloads stay on when they are switched off."""
    kind = _make_attribute(_LINK_INFO, _make_attribute(_INFO_KIND, b"veth"))
    body = struct.pack("BxHiII", socket.AF_UNSPEC, 0, 0, 0, 0) + kind
    flags = _REQUEST | _ACK | _CREATE | _EXCLUSIVE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.send(struct.pack("IHHII", 16 + len(body), _RTM_NEWLINK, flags, 1, 0) + body)
        answer = link.recv(4096)
    _, message, _, _, _, error = struct.unpack_from("IHHIIi", answer)
    if message != _NLMSG_ERROR or error:
        raise OSError(-error, os.strerror(-error))
    name = next(name for _, name in socket.if_nameindex() if name != "lo")
    stay = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_:
        for offload, (read, switch) in _OFFLOADS.items():
            value = ctypes.create_string_buffer(struct.pack("II", switch, 0), 8)
            request = struct.pack("16sP16x", name.encode(), ctypes.addressof(value))
            try:
                fcntl.ioctl(any_, _SIOCETHTOOL, request)
                value.raw = struct.pack("II", read, 1)
                fcntl.ioctl(any_, _SIOCETHTOOL, request)
                on = struct.unpack("II", value.raw)[1]
            except OSError:  # it has none of the kind, as a run takes it
                continue
            if on:
                stay.append(offload)
    return stay


def _list_controls() -> list[str]:
    """Return the congestion controls that this process may use."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as file:  # noqa: PTH123
        names = file.read().split()
    usable = []
    for name in names:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
            try:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
                usable.append(name)
            except OSError:
                continue
    return usable


def _try_real_time() -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(_FORWARDER))


def _measure_oversleep() -> list[float]:
    """Return how many seconds each of some sleeps took too long, ascending."""
    late = []
    for _ in range(SLEEPS):
        began = time.perf_counter()
        time.sleep(SLEEP_S)
        late.append(time.perf_counter() - began - SLEEP_S)
    return sorted(late)


def _measure_clock() -> float:
    """Return the seconds that it takes to read the clock, at best: meanwhile others may have the core."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(READS):
            time.perf_counter()
        best = min(best, (time.perf_counter() - began) / READS)
    return best


def run_probe() -> None:
    """Try one after the other; what fails is said as text with `error` before it."""
    libc = ctypes.CDLL(None, use_errno=True)
    said: dict[str, Any] = {}

    def try_work(what: str, work: Any) -> bool:
        try:
            said[what] = work()
        except OSError as error:
            said[what] = {"error": error.strerror or str(error), "number": error.errno}
            return False
        return True

    def enter_network() -> None:
        if libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def describe_permission() -> str:
        before = os.readlink("/proc/self/ns/user")  # noqa: PTH115
        native.live_permission()
        same = os.readlink("/proc/self/ns/user") == before  # noqa: PTH115
        return "to this user" if same else "in a user namespace of its own"

    native = _load(sys.argv[1])
    if try_work("permission", describe_permission) and try_work("namespace", enter_network):
        try_work("packets", _try_packets)
        try_work("veth", _try_veth)
        try_work("controls", _list_controls)
    said["clock"] = _measure_clock()
    libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    try_work("real time", _try_real_time)
    said["overslept"] = _measure_oversleep()
    print(json.dumps(said))


if __name__ == "__main__":
    run_probe()
