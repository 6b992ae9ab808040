"""What a kernel was told is read back: from made-up words of tc and ip, and from a real kernel."""

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dumbbell import _native
from dumbbell.engines.linux import engine as linux
from dumbbell.engines.linux import reach, readback
from dumbbell.engines.linux.mapping import Mapped, map_cell
from dumbbell.engines.linux.qdiscs import NOT_ZERO
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.experiment.registry import read_registry
from real_linux import require_engine

KERNEL = reach.make_kernel()
QUEUE = "bottleneck"


def cell(aqm: Any = "pfifo", **changes: Any) -> Cell:
    table = {
        "duration": "1s",
        "bottleneck": {"rate": "10Mbit", "aqm": aqm} | changes.pop("bottleneck", {}),
        "flows": [{"cc": "cubic", "base_rtt": "20ms"} | changes.pop("flow", {})],
    }
    return parse(table | changes, "experiment").make_cell(0)


def print_qdisc(kind: str, **options: Any) -> str:
    """Return what `tc -j qdisc show` prints of a discipline."""
    return json.dumps([{"kind": kind, "handle": "2:", "root": True, "refcnt": 2, "options": options}])


def different(text: str, printed: str) -> list[str]:
    settings = readback.read_back_queue(text, QUEUE, "show")
    return readback.find_differences(settings, {"show": printed})


# what iproute2 6.1 prints of what Linux 6.12 has
ALIKE = [
    ("pfifo limit 0", print_qdisc("pfifo", limit=0)),
    (
        "codel limit 7 target 7000us interval 20001us ecn ce_threshold 500us",
        print_qdisc("codel", limit=7, target=6999, ce_threshold=499, interval=20000, ecn=True),
    ),
    ("codel noecn", print_qdisc("codel", limit=1000, target=4999, interval=99999)),
    (
        "codel target 100s interval 1000s ecn ce_threshold 0us",
        print_qdisc("codel", limit=1000, target=100000000, ce_threshold=0, interval=1000000000, ecn=True),
    ),
    (
        "fq_codel flows 33 quantum 300 memory_limit 16777216 ce_threshold 7000us ce_threshold_selector 0x1/0x3",
        print_qdisc(
            "fq_codel",
            flows=33,
            quantum=300,
            memory_limit=16777216,
            ce_threshold=6999,
            ce_threshold_selector=1,
            ce_threshold_mask=3,
        ),
    ),
    (
        "pie limit 10 target 7777us tupdate 8000us alpha 3 beta 21 ecn bytemode dq_rate_estimator",
        print_qdisc(
            "pie",
            limit=10,
            target=7776,
            tupdate=8000,
            alpha=3,
            beta=21,
            ecn=True,
            bytemode=True,
            dq_rate_estimator=True,
        ),
    ),
    (
        "pie no_dq_rate_estimator nobytemode",
        print_qdisc("pie", limit=1000, target=15000, tupdate=15000, alpha=2, beta=20),
    ),
    (
        "red limit 200000 min 1000 max 30000 avpkt 500 burst 50 probability 0.01 bandwidth 5000000bit ecn",
        print_qdisc("red", limit=200000, min=1000, max=30000, ecn=True, harddrop=False, ewma=11, probability=0.01),
    ),
    (
        "cake bandwidth 5000001bit besteffort flowblind rtt 200000us ethernet ether-vlan overhead 100 atm mpu 100"
        " memlimit 1000000 ingress ack-filter no-split-gso",
        print_qdisc(
            "cake",
            bandwidth=625000,
            diffserv="besteffort",
            flowmode="flowblind",
            rtt=200000,
            atm="atm",
            overhead=100,
            mpu=100,
            memlimit=1000000,
            ingress=True,
            split_gso=False,
            **{"ack-filter": "enabled"},
        ),
    ),
    ("cake unlimited mpu 0", print_qdisc("cake", bandwidth="unlimited", overhead=0)),
    ("fq flow_limit 1000000 limit 10000000", print_qdisc("fq", limit=10000000, flow_limit=1000000)),
]


@pytest.mark.parametrize(("text", "printed"), ALIKE)
def test_what_a_kernel_rounds_and_tc_leaves_out_is_no_difference(text: str, printed: str) -> None:
    assert different(text, printed) == []


@pytest.mark.parametrize(("text", "printed"), ALIKE)
def test_any_other_value_is_a_difference(text: str, printed: str) -> None:
    """Whatever tc prints of what it was told is compared: a change of any of it is found."""
    options = json.loads(printed)[0]["options"]
    words = text.replace("-", "_").split()
    told = {
        "flowblind": "flowmode", "besteffort": "diffserv", "unlimited": "bandwidth", "ack_filter": "ack-filter",
        "no_split_gso": "split_gso", "nobytemode": "bytemode", "noecn": "ecn",
    }  # fmt: skip
    names = {told.get(word, word) for word in words} & {*options, "ecn", "bytemode"}
    if "ce_threshold_selector" in names:
        names.add("ce_threshold_mask")
    if text.startswith("red"):
        names -= {"probability"}  # the kernel's is computed by tc from several
    assert names
    for name in names:
        value = options.get(name, False)  # tc prints some flags only if they are set
        other = not value if isinstance(value, bool) else "other" if isinstance(value, str) else value + 2
        kind = text.split()[0]
        (found,) = different(text, print_qdisc(kind, **(options | {name: other})))
        assert found.startswith("bottleneck.aqm.") and found.endswith(f", got {readback._show_value(other)}")


def test_a_line_names_key_asked_and_got() -> None:
    assert different("codel limit 0", print_qdisc("codel", limit=1000)) == ["bottleneck.aqm.limit: asked 0, got 1000"]
    assert different("codel ecn", print_qdisc("codel", limit=1000)) == ["bottleneck.aqm.ecn: asked ecn, got off"]
    assert different("codel limit 9", "[]") == ["bottleneck.aqm.limit: asked 9, got nothing"]
    assert different("codel limit 9", "tc: no such device") == ["bottleneck.aqm.limit: asked 9, got nothing"]


CLASS = (
    "class htb 1:1 root leaf 2: prio 0 quantum 1514 rate {rate} ceil {rate} linklayer ethernet burst {burst}/1 mpu 0b "
    "cburst {burst}/1 mpu 0b level 0"
)


def in_json(rate: int, ceil: int) -> str:
    """Return the class as newer versions of tc print it."""
    return json.dumps([{"handle": "1:1", "rate": rate, "ceil": ceil, "burst": 1512, "cburst": 1512}])


@pytest.mark.parametrize(
    ("rate", "burst", "printed", "keys"),
    [
        (12_345_678, 1514, CLASS.format(rate="12345Kbit", burst="1512b"), []),
        (20_000_000, 1514, CLASS.format(rate="20Mbit", burst="1512b"), []),
        (20_000_000, 102_400, CLASS.format(rate="20Mbit", burst="100Kb"), []),
        (1_000_000_000, 1514, CLASS.format(rate="1Gbit", burst="1375b"), []),  # 12 us, and 11 as printed
        (1_000_000_000, 1514, CLASS.format(rate="1Gbit", burst="1000b"), ["burst", "cburst"]),
        (20_000_000, 1514, CLASS.format(rate="21Mbit", burst="1512b"), ["rate", "ceil"]),
        (20_000_000, 1514, CLASS.format(rate="20Mbit", burst="1600b"), ["burst", "cburst"]),
        (20_000_000, 1514, in_json(2_500_000, 2_500_000), []),
        (20_000_008, 1514, in_json(2_500_000, 2_500_001), ["rate"]),
    ],
)  # fmt: skip
def test_shapers_are_compared_as_far_as_tc_prints_them(rate: int, burst: int, printed: str, keys: list[str]) -> None:
    found = readback.find_differences(readback.read_back_htb(QUEUE, rate, burst, "show"), {"show": printed})
    assert [text.split(": ")[1].split()[0] for text in found] == keys


def test_delays_are_compared_to_a_microsecond() -> None:
    def found(delay: float, rate: int = 625000) -> list[str]:
        options = {"limit": 9, "delay": {"delay": delay, "jitter": 0}, "rate": {"rate": rate}}
        printed = json.dumps([{"kind": "netem", "handle": "1:", "parent": "1:2", "options": options}])
        return readback.find_differences(
            readback.read_back_netem("base_rtt", 100_000, 5_000_000, 9, "show", parent="1:2"), {"show": printed}
        )

    assert found(9.9e-05) == found(1e-4) == []  # ticks of 64 ns, in whole us
    assert found(9.8e-05) == ["base_rtt: asked 100 us, got 98"]
    assert found(1.01e-04) == ["base_rtt: asked 100 us, got 101"]
    assert found(1e-4, 625001) == ["base_rtt: rate of netem: asked 5000000 bit/s, got 625001"]


def test_sysctls_routes_and_modules_are_compared() -> None:
    one = cell(
        hosts={"initial_window": 20, "rto_min": "300ms", "frto": False, "receive_buffer": "1MB", "memory": "40MB"},
        flow={"cc": {"name": "cubic", "beta": 600, "fast_convergence": False}},
    )
    settings = map_cell(one, KERNEL).settings
    route = "via 10.0.0.2 dev s0 {}rto_min lock {}ms initcwnd {}\n"
    files, cubic = "/proc/sys/net/ipv4/{}: {}\n", "/sys/module/tcp_cubic/parameters"
    sysctls = "".join(
        files.format(name, value)
        for name, value in {
            "tcp_ecn": "2",
            "tcp_no_metrics_save": "1",
            "tcp_rmem": "4096\t131072\t1000000",
            "tcp_wmem": "4096\t16384\t4194304",
            "tcp_frto": "0",
        }.items()
    )
    # a kernel before 5.19 has no txrehash, and none is needed there
    good = {
        **{
            command: sysctls for command in readback.list_commands(settings) if command.startswith(("read S", "read R"))
        },
        "read - /proc/sys/net/ipv4/tcp_mem": files.format("tcp_mem", "9765\t9765\t1000000"),
        f"read - {cubic}/beta": f"{cubic}/beta: 600\n",
        f"read - {cubic}/fast_convergence": f"{cubic}/fast_convergence: 0\n",
        "ip -n S route show 10.2.0.0/16": "10.2.0.0/16 " + route.format("", 300, 20),
        "ip -n S route show 10.3.0.0/16": "10.3.0.0/16 " + route.format("features ecn ", 300, 20),
        "ip -n R route show 10.1.0.0/16": "10.1.0.0/16 " + route.format("", 300, 20),
    }
    hosts = [one for one in settings if not one.command.startswith("tc ")]
    assert readback.find_differences(hosts, good) == []
    changed: dict[str, tuple[str, str, str]] = {
        "hosts.frto: asked 0, got 2": ("read S", "tcp_frto: 0", "tcp_frto: 2"),
        "hosts.receive_buffer: asked 1000000, got 5": ("read S", "\t1000000", "\t5"),
        "hosts.ecn: tcp_ecn: asked 2, got 1": ("read R", "tcp_ecn: 2", "tcp_ecn: 1"),
        "hosts.memory, pages of 4096 B: asked 9765, got 7": ("read - /proc", "9765\t9765", "7\t9765"),
        "flows[0].cc.beta: asked 600, got 717": ("read - /sys/module/tcp_cubic/parameters/beta", "600", "717"),
        "flows[0].cc.fast_convergence: asked 0, got nothing": ("read - /sys", "/fast_convergence: 0", "/x: 1"),
        "hosts.initial_window: asked 20, got 10": ("ip -n S route show 10.3", "initcwnd 20", "initcwnd 10"),
        "hosts.rto_min, ms: asked 300, got nothing": ("ip -n R", "rto_min lock 300ms", ""),
        "hosts.ecn: features ecn of the route: asked on, got off": ("ip -n S route show 10.3", "features ecn ", ""),
        "hosts.delayed_ack: quickack of the route: asked 0, got 1": ("ip -n R", "\n", " quickack 1\n"),
    }
    for text, (command, old, new) in changed.items():
        other = {key: value.replace(old, new) if key.startswith(command) else value for key, value in good.items()}
        assert readback.find_differences(hosts, other) == [text]


def plans() -> Iterator[tuple[str, Mapped]]:
    """Yield the plans of every key that reaches the kernel."""
    for key in reach.list_keys():
        for value in reach.choose_values(key.param):
            try:
                yield key.name, map_cell(key.make_cell(**(key.beside | {key.param.name: value})), KERNEL)
            except InputError:
                continue


@pytest.mark.slow
def test_every_word_that_tc_is_told_of_a_queue_is_read_back() -> None:
    """A new key is covered by being there."""
    found: dict[str, set[str]] = {}
    for name, plan in plans():
        for hop in plan.hops:
            for word in readback.find_unknown_words(hop.text):
                found.setdefault(word, set()).add(name)
    assert found == {}


@pytest.mark.slow
def test_every_command_of_a_plan_that_sets_something_has_its_settings() -> None:
    """What of a plan is not read back is a short list."""
    not_set = r"netns add|link add|addr add|neigh add|link set \w+ up|ip_forward|ip rule|filter add|mkdir|prio bands"
    for name, plan in plans():
        shown = "\n".join(one.command for one in plan.settings)
        for line in plan.plan.splitlines():
            if not line.startswith("command ") or re.search(not_set, line):
                continue
            device = re.search(r"tc -n (\w+) (?:qdisc|class) add dev (\w+)", line)
            route = re.search(r"ip -n (\w+) route add (10\.\S+)", line)
            if device and "parent" in line and "pfifo limit 10000000" in line:
                continue  # the band of a base RTT of 0
            if device:
                kind = "class" if "htb" in line else "-j qdisc"  # HTB's rates are those of its class
                told = (
                    " default " in line
                    or " dualpi2 " in line
                    or f"tc -n {device[1]} {kind} show dev {device[2]}" in shown
                )
                assert told or not re.search(r"handle 2: \w+ ", line), (name, line)  # without options nothing is told
            elif route:
                # routers in the middle have none of a host's options
                assert route[1] in "DMLX" or f"ip -n {route[1]} route show {route[2]}" in shown, (name, line)
            elif "tcp_mem" in line:
                assert "read - /proc/sys/net/ipv4/tcp_mem" in shown
            elif "gso_max_segs" in line:
                assert "-o -d link show" in shown
            else:
                assert "cd /proc/sys/net" in line, line
                for sysctl in re.findall(r">((?:ipv4|core)/\w+)", line):
                    assert f"/proc/sys/net/{sysctl}" in shown, (name, line)


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in NOT_ZERO.items() for key in keys])
def test_zeros_that_tc_does_not_tell_are_refused_before_the_run(name: str, key: str) -> None:
    unit = {"time": "0s"}.get(read_registry().aqm[name].params[key].kind, 0)
    aqm = {"name": name, key: unit}
    if name == "fq_pie" and key == "ecn_prob":
        aqm["ecn"] = True
    with pytest.raises(
        InputError, match=rf"bottleneck\.aqm\.{key}.*Linux does not support 0, which tc takes for not given"
    ):
        map_cell(cell(aqm), KERNEL)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"flow": {"base_rtt": "20001234ns"}}, r"flows\[0\]\.base_rtt is 20001234 ns; it must be whole us"),
        ({"hop": [{"name": "b", "rate": "1Gbit", "aqm": "pfifo", "delay": "1500ns"}]}, r"hop\[0\]\.delay is 1500 ns"),
        ({"aqm": {"name": "pie", "tupdate": "1500us"}}, r"aqm\.tupdate is 1500000 ns; it must be whole ms"),
    ],
)
def test_times_that_are_too_fine_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        map_cell(cell(**changes), KERNEL)


def test_both_directions_have_whole_microseconds_of_an_odd_base_rtt() -> None:
    lines = map_cell(cell(flow={"base_rtt": "25us"}), KERNEL).plan.splitlines()
    delays = [line.split("delay ")[1].split()[0] for line in lines if " netem delay " in line and "-n D" in line]
    assert delays == ["12us", "13us"]


# with a real kernel


REAL = {
    "htb and rates": cell("codel", bottleneck={"rate_changes": [{"at": "500ms", "rate": "3333333bit"}]}),
    "cake": cell({"name": "cake", "rtt": "30ms", "diffserv": "diffserv4", "mpu": "84B", "overhead": "38B"}),
    "cake changes": cell("cake", bottleneck={"rate_changes": [{"at": "500ms", "rate": "3333333bit"}]}),
    "fq_codel": cell({"name": "fq_codel", "ce_threshold": "1ms", "ce_threshold_selector": "ect1", "quantum": "300B"}),
    "fq_pie": cell({"name": "fq_pie", "target": "7777us", "tupdate": "3ms", "alpha": 3, "ecn": True}),
    "pie": cell({"name": "pie", "bytemode": True, "dq_rate_estimator": True, "beta": 1}),
    "red": cell({"name": "red", "min": "5kB", "max": "20kB", "probability": 0.05, "ecn": True, "harddrop": True}),
    "hosts": cell(
        hosts={
            "initial_window": 20, "rto_min": "300ms", "frto": False, "memory": "40MB", "pacing": "fq", "mss": "1000B",
            "offload": "none", "delayed_ack": False, "tso_rtt": False, "sack_compression": False,
            "syn_linear_timeouts": 2, "slow_start_after_idle": False, "pacing_ss_ratio": 150, "pacing_ca_ratio": 110,
        },
        flow={"cc": {"name": "cubic", "beta": 600, "hystart_ack_delta": "3ms", "hystart": "off"}, "dscp": 10},
    ),
    "both ways": cell(
        "codel",
        hosts={"initial_window": 20, "pacing": "fq", "offload": "none"},
        reverse={"rate": "2Mbit", "aqm": {"name": "pie", "target": "20ms"}},
        flows=[{"cc": "cubic", "base_rtt": "25us"}, {"cc": "reno", "base_rtt": "20ms", "direction": "up"}],
        hop=[{"name": "b", "rate": "1Gbit", "aqm": "pfifo", "delay": "1501us"}],
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_a_real_kernel_has_what_it_was_told(name: str) -> None:
    engine = require_engine()
    with linux.Guests(engine, 1) as guests:
        guests.run(REAL[name], _native.Progress())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "instead", "said"),
    [
        ("handle 2: codel limit 77", "handle 2: codel limit 0", "bottleneck.aqm.limit: asked 77, got 1000"),
        (" initcwnd 20 features ecn", " initcwnd 19 features ecn", "hosts.initial_window: asked 20, got 19"),
        ("echo 0 >ipv4/tcp_frto", "echo 2 >ipv4/tcp_frto", "hosts.frto: asked 0, got 2"),
        ("rate 10000000bit ceil", "rate 9000000bit ceil", "bottleneck.rate: rate of htb: asked 10000000 bit/s"),
        ("netem delay 10000us", "netem delay 9000us", "base_rtt of 20 ms: delay of d1: asked 10000 us, got 9000"),
        ("offload S s0 0 0 0 1500", "offload S s0 0 0 0 1400", "hosts.mss: MTU of s0: asked 1400, got 1500"),
    ],
)
def test_a_real_kernel_with_something_else_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, told: str, instead: str, said: str
) -> None:
    engine = require_engine()
    one = cell({"name": "codel", "limit": 77}, hosts={"initial_window": 20, "frto": False})
    plan = map_cell(one, engine.kernel)
    assert told in plan.plan
    other = dataclasses.replace(plan, plan=plan.plan.replace(told, instead))
    monkeypatch.setattr(linux, "map_cell", lambda *_: other)
    with linux.Guests(engine, 1) as guests, pytest.raises(RuntimeError) as failed:
        guests.run(one, _native.Progress())
    assert said in str(failed.value) and "\n" not in str(failed.value)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in NOT_ZERO.items() for key in keys])
def test_the_zeros_that_are_refused_do_not_reach_a_real_kernel(
    monkeypatch: pytest.MonkeyPatch, name: str, key: str
) -> None:
    """Each refusal has its reason: with it away the run ends, since the kernel has its default."""
    engine = require_engine()
    monkeypatch.setattr("dumbbell.engines.linux.qdiscs.NOT_ZERO", {})
    value = "0s" if read_registry().aqm[name].params[key].kind == "time" else 0
    one = cell({"name": name, key: value} | ({"ecn": True} if key == "ecn_prob" else {}))
    with linux.Guests(engine, 1) as guests, pytest.raises(RuntimeError, match=rf"asked 0|{key}"):
        guests.run(one, _native.Progress())
