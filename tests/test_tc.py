"""`dumbbell tc`: lines of tc and configurations of routers as experiments, and back."""

import contextlib
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import in_process
from dumbbell import _native
from dumbbell.engines.linux import reach
from dumbbell.engines.linux.mapping import map_cell
from dumbbell.engines.linux.plan_commands import list_commands
from dumbbell.engines.linux.qdiscs import NOT_ZERO
from dumbbell.errors import InputError
from dumbbell.experiment.file import parse
from dumbbell.experiment.other_names import _TC
from dumbbell.experiment.registry import read_registry
from dumbbell.experiment.shaping import LINK_LAYER, _compute_cost
from dumbbell.tc import devices, netem, policer, qdiscs, quantities, shapers
from dumbbell.tc.convert import Converted, convert
from dumbbell.tc.lexer import Source, Word, split_commands
from dumbbell.tc.setup import Wishes

ROOT_OF_HTB = "tc qdisc add dev eth0 root handle 1: htb default 10\n"


def read(*lines: str, **wishes: str) -> Converted:
    return convert(lines, Wishes(**wishes))


def bottleneck(*lines: str, section: str = "bottleneck", **wishes: str) -> dict[str, Any]:
    """Return a section of the file as it is written."""
    found: dict[str, Any] = tomllib.loads(read(*lines, **wishes).text)[section]
    return found


def refusal(*lines: str, **wishes: str) -> str:
    with pytest.raises(InputError) as error:
        read(*lines, **wishes)
    return str(error.value)


def word(text: str) -> Word:
    return Word.make(text, Source("tc", (text,)), 1, 1)


# units


@pytest.mark.parametrize(
    ("read_word", "text", "value"),
    [
        (quantities.parse_rate, "50mbit", 50_000_000),
        (quantities.parse_rate, "9545Kbit", 9_545_000),
        (quantities.parse_rate, "1mibit", 1_048_576),
        (quantities.parse_rate, "125kbps", 1_000_000),  # bytes per second
        (quantities.parse_rate, "1kibps", 8192),
        (quantities.parse_rate, "1001", 1000),  # bit/s; the kernel has whole bytes: 125 B/s
        (quantities.parse_size, "1695", 1695),
        (quantities.parse_size, "10k", 10_240),
        (quantities.parse_size, "32Mb", 33_554_432),
        (quantities.parse_size, "8kbit", 1024),
        (quantities.parse_size, "15k/8", 15_360),  # with its cells, which tables had
        (quantities.parse_time, "300", 300_000),  # microseconds
        (quantities.parse_time, "17.3ms", 17_300_000),
        (quantities.parse_time, "1.5secs", 1_500_000_000),
        (quantities.parse_time, "1999ns", 1_000),  # whole microseconds
        (quantities.parse_share, "1%", 0.01),
        (quantities.parse_share, "25", 0.25),  # a percentage without its sign
        (quantities.parse_packets, "10240p", 10_240),
    ],
)
def test_units_are_those_of_tc(read_word: Callable[[Word], float], text: str, value: float) -> None:
    assert read_word(word(text)) == value


def test_a_wrong_unit_is_named_with_its_place() -> None:
    text = refusal("tc qdisc add dev eth0 root cake bandwidth 50mbut")
    assert text.startswith('tc:1:43: cake bandwidth is "50mbut"; did you mean "50mbit"? It must be a rate of tc')


def test_words_know_their_places() -> None:
    source = Source("x", ("tc class add \\", "  classid '1:1'  # why", "a && sudo b 2>/dev/null; c"))
    found = [[(str(one), one.line, one.column) for one in words] for words in split_commands(source)]
    assert found[0] == [("tc", 1, 1), ("class", 1, 4), ("add", 1, 10), ("classid", 2, 3), ("1:1", 2, 11)]
    assert [[text for text, _, _ in words] for words in found[1:]] == [["a"], ["b"], ["c"]]


# lines that operators have

SHARED = """tc qdisc add dev eth0 root handle 1: htb default 12
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit ceil 10mbit
tc class add dev eth0 parent 1:1 classid 1:11 htb rate 128kbit ceil 3mbit
tc class add dev eth0 parent 1:1 classid 1:12 htb rate 1.6mbit ceil 9.9mbit
tc class add dev eth0 parent 1:1 classid 1:13 htb rate 1.6mbit ceil 9.9mbit
tc qdisc add dev eth0 parent 1:12 fq_codel quantum 300
"""
FIVE = SHARED + "".join(f"tc class add dev eth0 parent 1:1 classid 1:{number} htb rate 1mbit\n" for number in (14, 15))
LEVELS = SHARED + "tc class add dev eth0 parent 1:13 classid 1:131 htb rate 1mbit\n"
ALONE = "\n".join(line for line in SHARED.splitlines() if "classid 1:1 " not in line).replace(
    "parent 1:1 ", "parent 1: "
)
BANDS = """tc qdisc add dev a root handle 1: prio bands 3
tc qdisc add dev a parent 1:2 fq_codel target 6ms
"""
PRIO = "tc qdisc add dev a root handle 1: prio\ntc qdisc add dev a parent 1:1 codel"
ADSL_QUEUE = "fq_codel limit 1001 quantum 300 target 17.3ms interval 112.3ms memory_limit 32Mb"
ADSL = "stab linklayer atm overhead -4 tbf rate 808kbit burst {} latency 300ms"
CAKE = {"name": "cake"}
ACCEPTED: dict[str, tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]] = {
    "cake of OpenWrt": (
        ("cake bandwidth 5415kbit overhead 38 mpu 84 diffserv4 nat dual-srchost ack-filter",),
        {"rate": "5.415Mbit", "overhead": "38B", "mpu": "84B"},
        {**CAKE, "diffserv": "diffserv4", "isolation": "dual-srchost", "ack_filter": "on"},
    ),
    "tbf on ATM": (
        (ADSL.format(3300), ADSL_QUEUE),
        # a frame takes 1514 - 4 = 1510 B in 32 cells: 1696 B; 3300 - 1696 = 1604
        {"rate": "808kbit", "shaper": "htb", "burst": "1604B", "overhead": "10B", "framing": "atm"},
        {
            "name": "fq_codel", "limit": 1001, "quantum": "300B", "target": "17.3ms", "interval": "112.3ms",
            "memory_limit": "33554432B",
        },
    ),
    "simplest.qos": (
        ("htb rate 20mbit", "fq_codel quantum 1526"),
        {"rate": "20Mbit", "shaper": "htb", "burst": "1600B"},
        {"name": "fq_codel", "quantum": "1526B"},
    ),
    "LibreQoS": (
        ("htb rate 500mbit", "htb rate 125mbit ceil 500mbit", "cake diffserv4"),
        {"rate": "500Mbit", "shaper": "htb", "burst": "1600B"},
        {**CAKE, "diffserv": "diffserv4", "bandwidth": "0bit"},
    ),
    "cake on ATM": (
        ("cake bandwidth 840kbit flows atm overhead 10",),
        {"rate": "840kbit", "overhead": "10B", "framing": "atm"},
        {**CAKE, "isolation": "flows"},
    ),
    "cake with nat and wash": (
        ("cake bandwidth 100mbit diffserv4 nat wash",),
        {"rate": "100Mbit"},
        {**CAKE, "diffserv": "diffserv4"},
    ),
    "ingress": (
        ("cake bandwidth 45mbit ingress besteffort wash",),
        {"rate": "45Mbit"},
        {**CAKE, "ingress": True, "diffserv": "besteffort"},
    ),
    # 10 Mbit/s for 20 ms are 16.5 frames
    "netem": (
        ("netem delay 20ms loss 1%",),
        {"rate": "10Mbit", "path": [{"name": "loss", "probability": 0.01}]},
        {"name": "pfifo", "limit": 983},
    ),
    # 500 ms are 412.8 frames; the delay is 400 ms, and 0 to 200 ms
    "netem with jitter and a rate": (
        ("netem delay 500ms 100ms loss 25% rate 10mbit",),
        {
            "rate": "10Mbit",
            "path": [{"name": "loss", "probability": 0.25}, {"name": "jitter", "max": "200ms"}],
        },
        {"name": "pfifo", "limit": 587},
    ),
    "red": (
        ("red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 ecn adaptive bandwidth 10Mbit",),
        {"rate": "10Mbit"},
        {
            "name": "red", "limit": "400000B", "min": "30000B", "max": "90000B", "avpkt": "1000B", "burst": 55,
            "ecn": True, "adaptive": True, "bandwidth": "10Mbit",
        },
    ),
    "classes that share": (
        (SHARED,),
        {"rate": "10Mbit"},
        {
            "name": "htb_classes", "rate1": "1.6Mbit", "ceil1": "9.9Mbit", "queue1": "fq_codel", "flow_quantum": "300B",
            "rate2": "128kbit", "ceil2": "3Mbit", "rate3": "1.6Mbit", "ceil3": "9.9Mbit",
        },
    ),
    "bands": (
        (BANDS,),
        {"rate": "10Mbit"},
        {
            "name": "htb_classes", "rate1": "10Tbit", "prio1": 1, "queue1": "fq_codel", "target": "6ms",
            "rate2": "10Tbit", "rate3": "10Tbit", "prio3": 2,
        },
    ),
    "fq": (
        ("fq limit 1000 flow_limit 50 nopacing",),
        {"rate": "10Mbit"},
        {"name": "fq", "limit": 1000, "flow_limit": 50},
    ),
    "police": (
        ("police rate 10mbit burst 10k drop",),
        {"rate": "100Mbit", "path": [{"name": "policer", "rate": "10Mbit", "burst": "10240B"}]},
        {"name": "pfifo"},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCEPTED)
def test_a_line_becomes_an_experiment_that_runs(name: str, tmp_path: Path) -> None:
    lines, keys, aqm = ACCEPTED[name]
    done = in_process.run(["tc", *lines, "-o", "one.toml"], tmp_path)
    assert done.returncode == 0 and done.stdout == "one.toml\n", done.stderr
    found = tomllib.loads((tmp_path / "one.toml").read_text(encoding="utf-8"))["bottleneck"]
    assert found.pop("aqm") == aqm
    assert found == keys
    words = ["run", "one.toml", "--set", "duration=1100ms", "--set", "seeds=[1]", "-o", "one.duckdb"]
    done = in_process.run(words, tmp_path)
    assert done.returncode == 0 and "1 run done" in done.stderr


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        # 1514 - 4 = 1510 B are 32 cells of 53 B: TBF drops every full frame
        ((ADSL.format(1695), ADSL_QUEUE), "tc:1:55: tbf burst 1695: tbf drops each frame that is longer"),
        ((ADSL.format(1695), ADSL_QUEUE), "a full frame takes 1696 B on this link; use a burst of 1696 or more"),
        ((FIVE,), "sharing between 5 classes of htb (1:11, 1:12, 1:13, 1:14, 1:15); use at most 4, or --class 1:12"),
        ((LEVELS,), "sharing between 3 classes of htb (1:11, 1:12, 1:131) at several levels; use --class 1:12, which"),
        ((ALONE,), "sharing between 3 classes of htb (1:11, 1:12, 1:13) without one class above them; use --cl"),
        ((SHARED + "tc qdisc add dev eth0 parent 1:11 cake",), "cake below class 1:11, one of several; use pfifo"),
        (
            (SHARED + "tc qdisc add dev eth0 parent 1:11 fq_codel quantum 600",),
            "fq_codel quantum 600, unlike the queue of another class; use one value for all classes",
        ),
        (("fq maxrate 1mbit",), "not support maxrate of fq; use a rate of the hop, or hosts.pacing"),
        (("sfq limit 100",), "tc:1:1: dumbbell has no sfq: it is not modelled"),
        (("cake bandwidth 45mbit ingress autorate-ingress besteffort wash",), "not support autorate-ingress of cake"),
        (("netem delay 50ms 100ms distribution pareto",), "the distribution pareto; use uniform"),
        (("netem delay 500ms 100ms loss 25%",), "packets overtake each other; use rate in the same netem"),
        (("tc qdisc add dev a root cake bandwith 50mbit",), 'word of cake "bandwith"; did you mean "bandwidth"?'),
        (("tc qdisc add dev a root fq_codle",), 'tc:1:25: unknown queue discipline "fq_codle"; did you'),
        (("cake bandwidth 50mbit overhead -4",), "cake overhead is -4 bytes; it must be 0 to 256"),
        (("cake bandwidth $UP",), "a variable of a shell; it must be its value"),
        (("stab overhead -20 tbf rate 1mbit burst 5k limit 10k",), "stab overhead is -20 bytes; it must be -14 to 242"),
        (("stab overhead 4 cake bandwidth 1mbit overhead 8",), "stab and the overhead of cake, which Linux adds up"),
        (("fq_codel quantum 10",), 'fq_codel quantum is "10B"; it must be an integer from 256B to 1MiB'),
        (("red min 30000",), "limit of red, for which tc has no default"),
        (("police rate 10mbit burst 10k",), "reclassify for packets that exceed the rate, tc's default,"),
        ((PRIO,), "codel below band 0, one of several; use pfifo or fq_codel in each"),
        ((PRIO.replace("prio", "prio bands 9"),), "prio with 9 bands; use 2 to 4"),
        (("htb rate 1mbit", "tbf rate 2mbit burst 5k limit 9k"), "tbf below class 1:1, two shapers"),
        (("netem delay 1s rate 100mbit",), "netem limit is 1000 packets; it must be more than 8257"),
        (("htb rate 20mbit", "codel", "pie"), "a queue is there already, htb, and nothing can be below it"),
        (("tc qdisc add dev a root codel", "tc qdisc add dev b root codel"), "use --down a or --down b"),
        (("tc qdisc add dev a parent 1:10 codel",), "a has no class 1:10; use its line, too"),
        (("tc qdisc show",), "no line sets up a queue"),
        (("tc qdisc add dev lo root noqueue",), "no line sets up a queue"),
        (("tc qdics add dev lo root codel",), 'unknown object of tc "qdics"; did you mean "qdisc"?'),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_place_and_a_remedy(lines: tuple[str, ...], reason: str) -> None:
    assert reason in refusal(*lines)


def test_what_is_left_out_is_named() -> None:
    remarks = read("cake bandwidth 50mbit nat wash split-gso").remarks
    assert [one.split(":")[:2] for one in remarks] == [["left out", f" {one}"] for one in ("nat", "wash", "split-gso")]
    assert "tc takes 0 for not given" in read("pie limit 0").remarks[0]
    assert "limit" in NOT_ZERO["pie"]


def test_every_value_says_where_it_is_from() -> None:
    """A value is of a word of the lines, or ASSUMED; only the pings have their source above them."""
    text = read("tc qdisc add dev eth0 root fq_codel target 6ms").text
    lines = [
        line
        for line in text.partition("[[udp]]")[0].splitlines()
        if " = " in line and not line.startswith(("#", "title"))
    ]
    assert len(lines) == 9
    assert all("  # " in line for line in lines)
    assert [line.partition(" =")[0] for line in lines if "ASSUMED" not in line] == ["name", "target"]


# shapers


def test_stab_and_cake_count_the_same_bytes() -> None:
    """stab counts from the frame, Cake from the IP packet: -4 and 10 are the same."""
    of_stab = bottleneck(ADSL.format(3300))
    of_cake = bottleneck("cake bandwidth 808kbit atm overhead 10")
    keys = ("overhead", "framing")
    assert [of_stab[key] for key in keys] == [of_cake[key] for key in keys]


@pytest.mark.parametrize(
    ("classes", "rate", "burst"),
    [
        (["1:10 htb rate 10mbit"], "10Mbit", "1600B"),
        (["1:10 htb rate 10mbit ceil 20mbit"], "10Mbit", "1600B"),  # nobody lends it more
        (["1:1 htb rate 20mbit", "1:10 htb rate 10mbit ceil 15mbit cburst 3k"], "15Mbit", "3072B"),
        # of burst and cburst the smaller counts where ceil is rate: both have to have tokens
        (["1:1 htb rate 20mbit burst 2k", "1:10 htb rate 10mbit ceil 30mbit"], "20Mbit", "1600B"),
        (["1:1 htb rate 5mbit", "1:10 htb rate 10mbit ceil 30mbit burst 2k"], "10Mbit", "2048B"),  # what it has
        (["1:10 htb rate 10gbit"], "10Gbit", "1601B"),  # 1.25 B in a nanosecond
        (["1:10 htb rate 10mbit burst 100"], "10Mbit", "1514B"),
    ],
)
def test_a_class_of_htb_has_what_it_may_borrow(classes: list[str], rate: str, burst: str) -> None:
    lines, parent = [ROOT_OF_HTB.strip()], "1:"
    for one in classes:
        lines.append(f"tc class add dev eth0 parent {parent} classid {one}")
        parent = one.split()[0]
    found = bottleneck("\n".join(lines) + "\n")
    assert (found["rate"], found["burst"]) == (rate, burst)
    assert found["aqm"] == {"name": "pfifo", "limit": 1000}


def test_a_class_can_be_chosen() -> None:
    found = bottleneck(SHARED, chosen_class="1:12")
    assert found["rate"] == "9.9Mbit" and found["aqm"] == {"name": "fq_codel", "quantum": "300B"}
    assert any("the 2 other classes of eth0 are idle" in one for one in read(SHARED, chosen_class="1:12").remarks)
    assert "unknown class 1:14; did you mean 1:13?" in refusal(SHARED, chosen_class="1:14")


def test_each_class_has_traffic_of_its_own() -> None:
    file = tomllib.loads(read(SHARED).text)
    assert [one.get("dscp") for one in file["flows"]] == [None, "EF", "CS1"]
    assert any("none for 1:12, EF for 1:11, CS1 for 1:13" in one for one in read(SHARED).remarks)
    given = SHARED.replace("ceil 3mbit", "ceil 3mbit prio 2 quantum 3000 burst 20k")
    aqm = bottleneck(given)["aqm"]
    assert (aqm["prio2"], aqm["quantum2"], aqm["burst"]) == (2, "3000B", "20480B")
    assert any("all classes have the largest burst, 20480B" in one for one in read(given).remarks)


def test_tbf_lends_no_frame() -> None:
    """TBF of 9000 B sends five frames of 1514 B at once (7570 B), and so does HTB of 9000 - 1514 = 7486 B."""
    found = bottleneck("tbf rate 10mbit burst 9000 latency 50ms")
    assert found["burst"] == "7486B"
    # 10 Mbit/s for 50 ms, and the burst: 62500 + 9000
    assert found["aqm"] == {"name": "bfifo", "limit": "71500B"}


def test_the_rate_of_the_link_can_be_said() -> None:
    assert bottleneck("codel", rate="30Mbit")["rate"] == "30Mbit"
    behind = bottleneck("cake bandwidth 20mbit", rate="30Mbit")
    assert (behind["rate"], behind["aqm"]["bandwidth"]) == ("30Mbit", "20Mbit")
    assert "--rate and the rate of htb" in refusal("htb rate 5mbit", rate="30Mbit")


def test_delays_are_base_rtts() -> None:
    both = (
        "tc qdisc add dev a root netem delay 10ms\ntc qdisc add dev b root handle 1: tbf rate 1mbit burst 5k limit 9k\n"
    )
    both += "tc qdisc add dev b parent 1:1 netem delay 5ms limit 50\n"
    found = tomllib.loads(read(both).text)
    assert found["flows"][0]["base_rtt"] == "15ms" and "reverse" not in found
    assert found["bottleneck"]["aqm"] == {"name": "pfifo", "limit": 49}  # 5 ms are 0.41 frames
    assert tomllib.loads(read(both, rtt="20ms").text)["flows"][0]["base_rtt"] == "35ms"


def test_netem_reorders_what_it_does_not_delay() -> None:
    found = tomllib.loads(read("netem delay 10ms reorder 25%").text)
    assert found["bottleneck"]["path"] == [{"name": "reorder", "probability": 0.75, "delay": "10ms"}]
    assert found["flows"][0]["base_rtt"] == "0ns"


def test_netem_loses_in_bursts() -> None:
    """tc's h and k are losses, ours are packets that pass; without r each packet leaves the bad state with 1 - p."""
    assert bottleneck("netem loss gemodel 1% 10% 70% 0.1%")["path"] == [
        {"name": "burst_loss", "p": 0.01, "r": 0.1, "h": pytest.approx(0.3), "k": pytest.approx(0.999)}
    ]
    assert bottleneck("netem loss gemodel 1%")["path"][0] == {
        "name": "burst_loss",
        "p": 0.01,
        "r": 0.99,
        "h": 0.0,
        "k": 1.0,
    }


# several devices, configurations


INGRESS = """#!/bin/sh
modprobe ifb
tc qdisc del dev eth0 root 2>/dev/null
tc qdisc add dev eth0 root handle 1: htb default 10
tc class add dev eth0 parent 1: classid 1:10 htb \\
    rate 10mbit burst 15k cburst 15k
tc qdisc add dev eth0 handle ffff: ingress && tc qdisc add dev ifb0 root cake bandwidth 45mbit
tc filter add dev eth0 parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0
tc qdisc change dev ifb0 root cake bandwidth 40mbit
"""


def test_an_ifb_has_the_downloads() -> None:
    found = tomllib.loads(read(INGRESS).text)
    assert (found["bottleneck"]["rate"], found["reverse"]["rate"]) == ("40Mbit", "10Mbit")
    assert [flow.get("direction", "down") for flow in found["flows"]] == ["down", "up"]
    assert found["reverse"]["burst"] == "15360B"


def test_what_tc_prints_is_read() -> None:
    printed = """qdisc noqueue 0: dev lo root refcnt 2
qdisc cake 800a: dev pppoe-wan root refcnt 2 bandwidth 9545Kbit dual-srchost nat nowash rtt 100.0ms noatm overhead 34
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
qdisc ingress ffff: dev pppoe-wan parent ffff:fff1 ----------------
qdisc fq_codel 800b: dev ifb4pppoe-wan root refcnt 2 limit 10240p flows 1024 target 5ms memory_limit 32Mb ecn
"""
    found = tomllib.loads(read(printed).text)
    assert (found["reverse"]["rate"], found["reverse"]["overhead"]) == ("9.545Mbit", "34B")
    # a device of PPP has no Ethernet header, and an MTU of 1492
    assert found["bottleneck"]["overhead"] == "0B" and found["hosts"]["mss"] == "1440B"
    assert found["bottleneck"]["aqm"]["limit"] == 10_240


def test_what_tc_prints_of_a_device_is_read() -> None:
    """Printed by iproute2 6.1: there is no dev, stab has a line of its own, and a burst below 1 us is 0."""
    tbf = """qdisc tbf 8001: root refcnt 3 rate 808Kbit burst 3300b/1 mpu 0b lat 300ms linklayer ethernet
 linklayer atm overhead -4 mtu 2047 tsize 512
 Sent 2120 bytes 6 pkt (dropped 3, overlimits 0 requeues 0)
"""
    found = bottleneck(tbf)
    assert (found["burst"], found["overhead"], found["framing"]) == ("1604B", "10B", "atm")
    htb = """qdisc htb 1: root refcnt 3 r2q 10 default 0x11 direct_packets_stat 0 direct_qlen 1000
qdisc bfifo 5: parent 1:11 limit 1514000b
class htb 1:11 parent 1:10 leaf 5: prio 0 rate 5Mbit ceil 10Gbit burst 0b cburst 0b
class htb 1:10 root rate 10Mbit ceil 10Mbit burst 15Kb cburst 1600b
"""
    found = bottleneck(htb)
    assert (found["rate"], found["burst"]) == ("10Mbit", "1600B")
    assert found["aqm"] == {"name": "bfifo", "limit": "1514000B"}


SQM = """config queue 'eth1'
	option enabled '1'
	option interface 'eth1'
	option download '6000'
	option upload '{upload}'
	option qdisc '{qdisc}'
	option script '{script}.qos'
	option linklayer 'atm'
	option overhead '40'
	option tcMPU '96'
	option iqdisc_opts '{options}'
"""


@pytest.mark.parametrize(
    ("script", "qdisc", "options", "up", "aqm"),
    [
        (
            "piece_of_cake", "cake", "nat dual-dsthost ingress", {"rate": "500kbit", "overhead": "40B"},
            {"name": "cake", "diffserv": "besteffort", "isolation": "dual-dsthost", "ingress": True},
        ),
        ("layer_cake", "cake", "diffserv4", {"rate": "500kbit"}, {"name": "cake", "diffserv": "diffserv4"}),
        # stab counts from the frame: 54 = 40 + 14; a packet takes 33 * 53 * 8 / 6000 = 2.3 ms, less than 5 ms
        (
            "simplest", "fq_codel", "", {"rate": "500kbit", "overhead": "54B", "shaper": "htb", "burst": "1749B"},
            {"name": "fq_codel", "limit": 1001, "flows": 1024, "target": "5ms", "interval": "100ms", "ecn": True},
        ),
        # 33 cells of a frame and 3300 B: 3498 - 1749
        (
            "simplest_tbf", "pie", "", {"rate": "500kbit", "burst": "1514B"},
            {"name": "pie", "limit": 1001, "target": "5ms", "ecn": True},
        ),
    ],
)  # fmt: skip
def test_a_configuration_of_sqm(
    script: str, qdisc: str, options: str, up: dict[str, Any], aqm: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "sqm"
    file.write_text(SQM.format(script=script, qdisc=qdisc, options=options, upload=500), encoding="utf-8")
    found = tomllib.loads(read(str(file)).text)
    assert found["bottleneck"]["rate"] == "6Mbit" and found["bottleneck"]["aqm"] == aqm
    assert up.items() <= found["reverse"].items()
    if "codel" in str(found["reverse"]["aqm"]["name"]):  # 33 * 53 * 8 / 500 = 27.984 ms
        assert found["reverse"]["aqm"]["target"] == "27.984ms" and found["reverse"]["aqm"]["interval"] == "122.984ms"


def test_classes_of_sqm_share_or_are_chosen(tmp_path: Path) -> None:
    file = tmp_path / "sqm"
    file.write_text(SQM.format(script="simple", qdisc="fq_codel", options="", upload=0), encoding="utf-8")
    shared = bottleneck(str(file))["aqm"]
    assert shared["name"] == "htb_classes" and [shared[f"queue{number}"] for number in (1, 2, 3)] == ["fq_codel"] * 3
    assert bottleneck(str(file), chosen_class="1:12")["rate"] == "5.984Mbit"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + text.replace("eth1", "eth2"), encoding="utf-8")
    assert f"{file}:12:1: it has 2 queues that are enabled (eth1, eth2)" in refusal(str(file))
    file.write_text(text.replace("'6000'", "'6 Mbit'"), encoding="utf-8")
    assert f'{file}:4:18: download is "6 Mbit"; it must be a whole number' in refusal(str(file))


def test_the_first_subscriber_of_libreqos(tmp_path: Path) -> None:
    table, network = tmp_path / "ShapedDevices.csv", tmp_path / "network.json"
    table.write_text(
        "Circuit ID,Circuit Name,Parent Node,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps\n"
        '1,"A St., B",AP_A,25,5,155,20\n2,C,AP_A,25,5,105,18\n',
        encoding="utf-8",
    )
    network.write_text(
        '{"S": {"downloadBandwidthMbps": 1000, "uploadBandwidthMbps": 1000, "children":'
        ' {"AP_A": {"downloadBandwidthMbps": 100, "uploadBandwidthMbps": 200}}}}',
        encoding="utf-8",
    )
    found = read(str(table), str(network))
    file = tomllib.loads(found.text)
    assert (file["bottleneck"]["rate"], file["reverse"]["rate"]) == ("100Mbit", "20Mbit")
    assert file["bottleneck"]["aqm"] == {"name": "cake", "diffserv": "diffserv4", "bandwidth": "0bit"}
    assert "note: the subscriber is A St., B, the first of 2; all others are idle here" in found.remarks
    assert bottleneck(str(table))["rate"] == "155Mbit"


# and back


def compute_bytes(hop: dict[str, Any]) -> list[int]:
    """Return what frames of all lengths take on the link, as Cake counts them."""
    own = {key: hop[key] for key in LINK_LAYER if hop.get(key) is not None}
    own |= {key: hop["aqm"][key] for key in LINK_LAYER[1:] if hop["aqm"][key] is not None}
    layer = _native.link_layer(json.dumps(own))
    return [_compute_cost(frame, layer) for frame in range(60, 1515)]


@pytest.mark.slow
def test_an_experiment_in_lines_of_tc_is_the_same_hop_again() -> None:
    """For every queue discipline that Linux has and every value of a key that tc takes."""
    kernel, queues, count = reach.make_kernel(), set(), 0
    for key in reach.list_keys():
        if key.owner not in read_registry().aqm or key.name == "fq_codel.stale_when_empty":  # of which tc knows nothing
            continue
        for value in reach.choose_values(key.param):
            try:
                cell = key.make_cell(**key.beside, **{key.param.name: value})
                lines = list_commands(map_cell(cell, kernel))
            except InputError:  # not this value, or not on Linux
                continue
            before = cell.groups["bottleneck"]
            after = parse(tomllib.loads(read("\n".join(lines) + "\n").text), "again").make_cell(0).groups["bottleneck"]
            queues.add(before["aqm"]["name"])
            count += 1
            if key.name in ("cake.overhead", "cake.mpu", "cake.framing"):  # they become keys of the hop
                assert compute_bytes(before) == compute_bytes(after)
            elif (key.name, value) == ("cake.bandwidth", "5Mbit"):  # below the link, which tc does not know
                assert after["rate"] == 5_000_000
            else:
                assert after == before, (key.name, value)
    assert queues == {"pfifo", "bfifo", "red", "step", "codel", "fq_codel", "pie", "fq_pie", "dualpi2", "cake"}
    assert count > 150


@pytest.mark.parametrize("name", read_registry().aqm)
def test_every_queue_of_linux_comes_back(name: str) -> None:
    text = f'duration = "1s"\n[bottleneck]\nrate = "20Mbit"\nshaper = "htb"\nburst = "3000B"\naqm = "{name}"\n'
    text += '[[flows]]\ncc = "cubic"\nbase_rtt = "20ms"\n'
    if name == "cake":
        text = text.replace('shaper = "htb"\nburst = "3000B"\n', 'link_layer = "docsis"\n')
    cell = parse(tomllib.loads(text), "one").make_cell(0)
    try:
        lines = list_commands(map_cell(cell, reach.make_kernel()))
    except InputError as error:
        assert name in ("pi2", "csaqm", "docsis_pie", "mac80211", "htb_classes", "fq"), error
        return
    again = parse(tomllib.loads(read("\n".join(lines) + "\n").text), "again").make_cell(0)
    assert again.groups["bottleneck"] == cell.groups["bottleneck"]
    assert again.groups["flows"][0]["base_rtt"] == 20_000_000


def test_commands_of_a_file_are_those_of_run(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(read("htb rate 5mbit", "codel target 7ms").text, encoding="utf-8")
    ours, theirs = (
        in_process.run(words, tmp_path) for words in (["tc", "one.toml"], ["run", "one.toml", "--show-commands"])
    )
    assert ours.returncode == 0 and "codel target 7000us" in ours.stdout
    assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr)
    refused = in_process.run(["tc", "one.toml", "--rtt", "3ms"], tmp_path)
    assert refused.returncode == 2 and "--rtt and an experiment file cannot be combined" in refused.stderr


def test_a_file_that_exists_stays(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("mine", encoding="utf-8")
    done = in_process.run(["tc", "codel", "-o", "one.toml"], tmp_path)
    assert done.returncode == 2 and "one.toml: cannot write: this file already exists" in done.stderr
    assert (tmp_path / "one.toml").read_text(encoding="utf-8") == "mine"
    assert "there is no such file" in in_process.run(["tc", "no-file"], tmp_path).stderr
    assert 'rate is "fast"' in in_process.run(["tc", "codel", "--rate", "fast"], tmp_path).stderr


# whatever is written

WORDS = (
    *devices.KINDS, *_TC, *qdiscs._CAKE, *qdiscs.QUEUES["red"], *qdiscs.QUEUES["dualpi2"], *netem._READERS,
    *shapers._CLASS, *shapers._STAB, *shapers._TBF, *policer.KEYS,
    *("tc", "qdisc", "class", "filter", "add", "change", "replace", "del", "dev", "root", "parent", "handle"),
    "classid",
    *("1:", "1:1", "1:10", "2:", "eth0", "ifb0", "stab", "police", "redirect", "ffff:", "10mbit", "0", "5ms", "1%"),
    *("10k", "-4", "1e9", "$X", ";", "&&", "\\\n", "\n", "'", '"', "#", "ip", "netns", "exec", "9" * 25, "10:", ":"),
    *("config queue", "option", "interface", "Download Max Mbps,", "{", "}", "mq", "gemodel", "0x1/0x3"),
)  # fmt: skip
LINES = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
TEXTS = st.one_of(
    st.text(max_size=80),
    LINES,
    LINES.map(lambda line: f"tc qdisc add dev eth0 root {line}"),
    st.lists(LINES.map(lambda line: f"tc qdisc add dev eth0 {line}"), max_size=4).map("\n".join),
    st.tuples(st.sampled_from(devices.KINDS), LINES).map(" ".join),
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_no_text_gives_anything_but_an_experiment_or_an_error(texts: list[str]) -> None:
    assume("-" not in texts)
    try:
        found = convert(texts, Wishes())
    except InputError as error:
        assert str(error) and "\n" not in str(error).split("\n", 20)[0]
    else:
        assert tomllib.loads(found.text)["bottleneck"]


NUMBERED = ("limit", "rate", "target", "delay", "bandwidth", "burst", "quantum", "overhead", "min", "alpha")


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.sampled_from(devices.KINDS),
    st.sampled_from(NUMBERED),
    st.integers(0, 10**12),
    st.sampled_from(("", "k", "mbit", "ms", "%", "p")),
)
def test_no_number_gives_anything_but_an_experiment_or_an_error(kind: str, option: str, number: int, unit: str) -> None:
    with contextlib.suppress(InputError):
        assert tomllib.loads(read(f"{kind} {option} {number}{unit} ").text)["bottleneck"]


# lines of public threads, word for word: each is an experiment, or refused with its reason

PUBLIC: dict[tuple[str, ...], str] = {
    # openwrt/packages 16045
    ("cake bandwidth 5415kbit overhead 38 mpu 84 diffserv4 nat dual-srchost ack-filter",): "",
    # sqm-scripts 84
    ("stab linklayer atm overhead -4 tbf rate 808kbit burst 1695", ADSL_QUEUE): "tbf drops each frame that is longer",
    # sqm-scripts 82 and 37
    ("htb rate 20mbit", "fq_codel quantum 1526"): "",
    (SHARED,): "",
    # LibreQoS 280, and its documentation
    ("htb rate 125mbit ceil 500mbit", "cake diffserv4"): "",
    ("cake bandwidth 100mbit diffserv4 nat wash",): "",
    # dtaht/sch_cake 150
    ("cake bandwidth 840kbit flows atm overhead 10",): "",
    ("fq limit 1000",): "",
    # SQM, ingress
    ("cake bandwidth 45mbit ingress autorate-ingress besteffort wash",): "does not support autorate-ingress of cake",
    # netem
    ("netem delay 20ms loss 1%",): "",
    ("netem delay 50ms 100ms distribution pareto",): "does not support the distribution pareto",
    ("netem delay 500ms 100ms loss 25%",): "packets overtake each other; use rate in the same netem",
    ("red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 ecn adaptive bandwidth 10Mbit",): "",
    ("police rate 10mbit burst 10k drop",): "",
}


@pytest.mark.parametrize("lines", PUBLIC)
def test_a_line_of_a_public_thread_is_an_experiment_or_refused_with_its_reason(lines: tuple[str, ...]) -> None:
    if reason := PUBLIC[lines]:
        assert reason in refusal(*lines)
    else:
        assert tomllib.loads(read(*lines).text)["bottleneck"]["rate"]
