"""Several hops and both directions on Linux: what the kernel is told and refused; where a kernel is built, runs."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import parsed
from dumbbell.engines import sweep
from dumbbell.engines.linux import engine as linux
from dumbbell.engines.linux import kernels, reach
from dumbbell.engines.linux.mapping import list_notes, map_cell
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.results.store import Store
from real_linux import needs_kernel, needs_tools

KERNEL = reach.make_kernel()
QUEUE = {"rate": "10Mbit", "aqm": "fq_codel", "shaper": "htb"}


def cell(**changes: Any) -> Cell:
    table: dict[str, Any] = {"bottleneck": QUEUE, "flows": [{"cc": "cubic", "base_rtt": "20ms"}]}
    return parsed(**(table | changes)).make_cell(0)


def plan(**changes: Any) -> list[str]:
    return map_cell(cell(**changes), KERNEL).plan.splitlines()


def steps(lines: list[str], ports: str) -> list[tuple[str, str]]:
    """Return the way of what has these ports, from device to device of X."""
    to = {
        found[2]: found[1]
        for line in lines
        if (found := re.match(r"command ip -n X route add default via \S+ dev (\S+) table (\d+)", line))
    }
    rules = (re.match(rf"command ip -n X rule add iif (\S+) {ports} lookup (\d+)", line) for line in lines)
    return [(found[1], to[found[2]]) for found in rules if found]


def test_data_and_acknowledgements_go_their_ways() -> None:
    lines = plan(
        hop=[{"name": "second", **QUEUE}],
        reverse=QUEUE,
        flows=[
            {"cc": "cubic", "base_rtt": "20ms", "route": ["bottleneck", "second"]},
            {"cc": "cubic", "base_rtt": "20ms", "direction": "up", "ack_route": []},
        ],
        hosts={"ecn": True},
    )
    # hop 0 is the bottleneck, 1 the second, 2 that of [reverse]
    assert steps(lines, "dport 32768-33023") == [("x0", "i0"), ("o0", "i1"), ("o1", "x1")]
    assert steps(lines, "sport 32768-33023") == [("x1", "i2"), ("o2", "x0")]
    assert steps(lines, "dport 33024-33279") == [("x1", "i2"), ("o2", "x0")]
    assert steps(lines, "sport 33024-33279") == [("x0", "x1")]
    senders = [line for line in lines if line.split(" ")[0] in ("senders", "tcp", "listen", "receivers")]
    assert senders == [
        "receivers 32768",
        "senders S",
        "tcp 0 0 -1 -1 10.1.0.1 10.2.0.1 32768 cubic 0",
        "senders R",
        "tcp 1 0 -1 -1 10.2.0.1 10.1.0.1 33024 cubic 0",
        "listen R 0.0.0.0 32768 cubic - 0",
        "listen S 0.0.0.0 33024 cubic - 0",
    ]
    # ECN is asked for by a route, so that a host has one address
    assert "command ip -n S rule add dport 32768-33023 lookup 100" in lines
    assert "command ip -n R rule add dport 33024-33279 lookup 100" in lines
    assert [line for line in lines if line.startswith(("capture", "counters"))][3:6] == [
        "counters tc -n H1 -s -j qdisc show dev b1",
        "capture arrived H1 a1",
        "capture sent H1 b1",
    ]


def test_half_of_the_base_rtt_lies_on_either_way_of_either_direction() -> None:
    up = {"cc": "cubic", "base_rtt": "80ms", "direction": "up"}
    lines = plan(reverse=QUEUE, flows=[{"cc": "cubic", "base_rtt": "20ms"}, up])
    for device in ("d0", "d1"):
        for band, half in ((1, 10), (2, 40)):
            at = f"parent 1:{band} netem delay {half}000us limit 10000000"
            assert f"command tc -n D qdisc add dev {device} {at}" in lines
            # by the port of the receiver, which data have at 22 and acknowledgements at 20
            for place in (20, 22):
                match = f"match u16 {0x8000 | band - 1:#06x} 0x800f at {place} flowid 1:{band}"
                assert f"command tc -n D filter add dev {device} protocol ip prio 1 parent 1: u32 {match}" in lines


def test_delays_and_serial_links_are_behind_their_hops() -> None:
    changes = [{"at": "1s", "rate": "2Mbit"}]
    serial = {"rate": "5Mbit", "aqm": "codel", "delay": "3ms", "rate_changes": changes}
    lines = plan(hop=[{"name": "second", **serial}, {"name": "third", **QUEUE, "delay": "1ms"}])
    assert "command tc -n L1 qdisc add dev e1 root handle 1: netem delay 3000us rate 5000000bit limit 10000000" in lines
    assert "command tc -n L2 qdisc add dev e2 root handle 1: netem delay 1000us limit 10000000" in lines
    change = next(line for line in lines if line.startswith("at 1000000000 "))
    assert "tc -n H1 class change dev b1" in change
    assert "tc -n L1 qdisc change dev e1 root handle 1: netem delay 3000us rate 2000000bit" in change
    assert not [line for line in lines if "netns add L0" in line]
    # the tail of the run is longer by what is behind the hops
    assert f"tail {124 * 10**6}" in lines
    said = list_notes([cell(hop=[{"name": "second", **serial}])], KERNEL)
    assert said == ["hop[0].shaper = link: htb that may only catch up 4 us, and a serial link behind it"]


def test_pings_are_answered() -> None:
    ping = {"rate": "8kbit", "size": "98B", "echo": True, "base_rtt": "20ms", "dscp": 46}
    lines = plan(reverse=QUEUE, udp=[ping, {"rate": "1Mbit", "direction": "up"}])
    udp = [line for line in lines if line.split(" ")[0] in ("udp", "echo", "sink")]
    assert udp == [
        "udp 1 0 -1 98000000.0 56 0 10.1.0.1 10.2.0.1 33025 184 1",
        "udp 2 0 -1 12112000.0 1472 0 10.2.0.1 10.1.0.1 33280 0 0",
        "echo R 10.2.0.1 33025 184",
        "sink S 10.1.0.1 33280",
    ]
    assert steps(lines, "sport 33024-33279") == [("x1", "i1"), ("o1", "x0")]
    # over one hop as well
    assert "echo R 10.2.0.1 49152 0" in plan(udp=[{"rate": "8kbit", "echo": True, "base_rtt": "20ms"}])


@pytest.mark.parametrize(
    ("hop", "options"),
    [
        ({"aqm": {"name": "cake", "ack_filter": "aggressive"}}, "ack-filter-aggressive"),
        ({"link_layer": "docsis"}, "docsis"),
        ({"link_layer": "ethernet-vlan", "mpu": "90B"}, "ethernet ether-vlan mpu 90"),
        ({"overhead": "44B", "framing": "atm"}, "overhead 44 atm"),
        (
            {"link_layer": "pppoe-ptm", "aqm": {"name": "cake", "overhead": "8B", "framing": "none"}},
            "pppoe-ptm overhead 8 noatm",
        ),
    ],
)
def test_ack_filter_and_link_layers_are_cakes_options(hop: dict[str, Any], options: str) -> None:
    lines = plan(reverse=QUEUE | {"aqm": "cake"} | hop)
    queue = f"cake bandwidth 10000000bit {options} no-split-gso"
    # with fewer bytes a frame than its link has, it stands below that
    place = "parent 1:1" if "noatm" in options else "root"
    assert f"command tc -n H1 qdisc add dev b1 {place} handle 2: {queue}" in lines


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"reverse": QUEUE | {"aqm": "pi2"}}, "reverse.aqm: Linux does not support pi2"),
        (
            {"hop": [{"name": "b", **QUEUE, "link_layer": "docsis"}]},
            r"hop\[0\].link_layer: Linux does not support docsis",
        ),
        ({"hop": [{"name": "b", **QUEUE, "overhead": "8B"}]}, r"hop\[0\].overhead: Linux does not support 8 ?B"),
        ({"hop": [{"name": "b", **QUEUE, "path": ["loss"]}]}, r"hop\[0\].path: Linux does not support stages"),
        ({"reverse": QUEUE | {"behind": ["loss"]}}, "reverse.behind: Linux does not support stages"),
        ({"reverse": QUEUE | {"aqm": {"name": "codel", "target": "1500ns"}}}, "reverse.aqm.target is 1500 ns"),
        (
            {"reverse": QUEUE, "flows": [{"cc": "cubic", "count": 30_000}]},
            "flows: 30000 flows in one run are too many; at most 22768 are allowed",
        ),
    ],
)
def test_what_linux_lacks_is_refused_by_the_name_of_its_hop(changes: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError, match=f"^{found}"):
        plan(**changes)


def test_one_hop_is_told_what_it_was() -> None:
    lines = plan()
    assert not [line for line in lines if " rule add " in line or line.startswith("receivers")]
    assert "counters tc -n M -s -j qdisc show dev m1" in lines


# real guests


def both_engines(path: Path, **changes: Any) -> Store:
    experiment = parsed(**({"flows": []} | changes))
    for engine in (None, linux.LinuxEngine(kernels.load())):
        report = sweep.run([experiment], path, jobs=2, engine=engine, progress=False)
        assert report.done == len(experiment), report.failed
    return Store.open(path)


@pytest.mark.slow
@needs_kernel
@needs_tools
def test_both_directions_are_those_of_the_simulator(tmp_path: Path) -> None:
    """Flow queues do not depend on the starts, so that one run stands for all."""
    start = {"uniform": ["0s", "100ms"]}
    down = {"cc": "cubic", "base_rtt": "20ms", "start": start}
    ping = {"rate": "7840bit", "size": "98B", "echo": True, "base_rtt": "20ms"}
    with both_engines(
        tmp_path / "r", duration="15s", bottleneck=QUEUE, reverse=QUEUE | {"rate": "2Mbit"},
        flows=[down, down | {"direction": "up"}], udp=[ping, ping | {"direction": "up"}],
    ) as store:  # fmt: skip
        flows, hops, series = store.read_table("flows"), store.read_table("hops"), store.read_table("hop_series")
    assert flows["direction"].to_list() == ["down", "up", "down", "up"] * 2
    ours, theirs = (
        {name: table[name].to_list()[n : n + 4] for name in table.columns} for table in [flows] for n in (0, 4)
    )
    for number in range(2):
        assert theirs["goodput_mbit"][number] == pytest.approx(ours["goodput_mbit"][number], rel=0.03)
        assert theirs["rtt_mean_ms"][number] == pytest.approx(ours["rtt_mean_ms"][number], rel=0.06)
    # 100 ms apart
    assert theirs["answers"][2:] == pytest.approx(ours["answers"][2:], abs=1) and min(ours["answers"][2:]) > 145
    assert theirs["rtt_mean_ms"][2:] == pytest.approx(ours["rtt_mean_ms"][2:], rel=0.06)
    assert theirs["rtt_min_ms"][2:] == pytest.approx(ours["rtt_min_ms"][2:], rel=0.02)
    assert hops["hop"].to_list() == ["bottleneck", "reverse"] * 2
    for measure in ("packets", "throughput_mbit", "ack_packets"):
        assert hops[measure].to_list()[2:] == pytest.approx(hops[measure].to_list()[:2], rel=0.05), measure
    assert min(hops["ack_packets"]) > 500 and len(series) == 2 * 2 * 15


@pytest.mark.slow
@needs_kernel
@needs_tools
def test_delays_and_several_hops_are_those_of_the_simulator(tmp_path: Path) -> None:
    """One source of UDP over three hops, in a net of serial links, and a flow that fills the second."""
    link = {"rate": "10Mbit", "aqm": "pfifo", "shaper": "link"}
    hops = [{"name": "b", **link, "rate": "5Mbit", "delay": "7ms"}, {"name": "c", **link, "delay": "2ms"}]
    udp = {"rate": "4500kbit", "size": "1250B"}
    with both_engines(
        tmp_path / "r", duration="4s", bottleneck=link, hop=hops,
        udp=[udp | {"rate": "1Mbit", "route": ["c", "bottleneck", "b"]}, udp | {"route": ["b"], "start": "1s"}],
    ) as store:  # fmt: skip
        flows, table = store.read_table("flows"), store.read_table("hops")
    # 1, 1 and 2 ms of serialisation, 9 ms of delays
    assert flows["delay_min_ms"].to_list()[::2] == pytest.approx([13.0, 13.0], abs=0.01)
    for measure in ("delay_mean_ms", "delay_p95_ms", "goodput_mbit", "packets"):
        values = flows[measure].to_list()
        assert values[2:] == pytest.approx(values[:2], rel=0.03), measure
    for measure in ("packets", "sojourn_mean_ms", "drops"):
        values = table[measure].to_list()
        assert values[3:] == pytest.approx(values[:3], rel=0.03, abs=0.01), measure


@pytest.mark.slow
@needs_kernel
@needs_tools
def test_acknowledgements_that_are_filtered_are_counted(tmp_path: Path) -> None:
    """ACKs of a fast download fill a slow way back; Cake's filter drops some, and Linux counts the same."""
    cake = {"rate": "100kbit", "aqm": {"name": "cake", "ack_filter": "on"}}
    one = parsed(
        duration="8s", bottleneck=QUEUE | {"rate": "20Mbit"}, reverse=cake, flows=[{"cc": "cubic", "base_rtt": "20ms"}]
    )
    chosen = dataclasses.replace(linux.LinuxEngine(kernels.load()))
    report = sweep.run([one], tmp_path / "r", jobs=1, engine=chosen, progress=False)
    assert report.done == 1, report.failed
    with Store.open(tmp_path / "r") as store:
        hops, runs = store.read_table("hops"), store.read_table("runs")
    drops = dict(zip(hops["hop"], zip(hops["ack_drops"], hops["drops"], strict=True), strict=True))
    counted = json.loads(hops["aqm_counters"][1])
    assert drops["bottleneck"] == (0, 0) or drops["bottleneck"][0] == 0
    assert drops["reverse"][0] == drops["reverse"][1] > 200
    assert drops["reverse"][1] == pytest.approx(counted["drops"], rel=0.01)
    assert runs["utilisation"][0] > 0.8
