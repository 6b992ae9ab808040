"""What a proposal says of itself: where each value is from, and bounds that hold whatever the format."""

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import captures
from captures import pcap
from conftest import Command
from dumbbell.exchange import formats, keep, setup
from dumbbell.exchange.measurement import ImportedFlow, Measurement, Origin, SetupFact, derive_fact
from dumbbell.exchange.pcap import records
from dumbbell.experiment import units
from test_captures import bulk
from test_flent import foreign
from test_import import rounds

SAMPLES = Path(__file__).parent / "imports"


def iperf3(*mbit: float, **more: Any) -> str:
    """Return a test of one stream of TCP: what was given to the socket, or with `reverse` received, in each second."""
    sender = not more.get("reverse")
    streams = [
        {"socket": 5, "start": n, "end": n + 1, "seconds": 1, "bytes": rate * 125_000, "bits_per_second": rate * 1e6}
        | ({"retransmits": 3, "rtt": 30_000 + 1000 * n, "snd_cwnd": 60_000} if sender else {})
        | {"sender": sender}
        for n, rate in enumerate(mbit)
    ]
    received = more.get("received", sum(mbit) / len(mbit))
    ends = {"sender": {"socket": 5, "retransmits": 137, "bits_per_second": received * 1e6, "sender": sender}}
    ends["receiver"] = {"socket": 5, "bits_per_second": received * 1e6, "sender": sender}
    test = {"protocol": "TCP", "reverse": int(not sender)}
    said = {"start": {"test_start": test}, "intervals": [{"streams": [one]} for one in streams]}
    return json.dumps(said | {"end": {"streams": [ends]}})


def qlog(count: int = 200) -> str:
    """Return a log of a sender whose packets of 1300 bytes are acknowledged after 20 ms, one each ms."""
    head = {"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": {"vantage_point": {"type": "server"}}}
    events: list[dict[str, Any]] = []
    for n in range(count):
        frames = [{"frame_type": "stream", "stream_id": 0, "length": 1250}]
        data: dict[str, Any] = {"header": {"packet_type": "1RTT", "packet_number": n}, "raw": {"length": 1300}}
        events.append({"time": float(n), "name": "transport:packet_sent", "data": data | {"frames": frames}})
        data = {"header": {"packet_type": "1RTT", "packet_number": n}, "raw": {"length": 40}}
        frames = [{"frame_type": "ack", "acked_ranges": [[0, n]]}]
        events.append({"time": n + 20.0, "name": "transport:packet_received", "data": data | {"frames": frames}})
    events.sort(key=lambda one: one["time"])
    return "".join(f"\x1e{json.dumps(one)}\n" for one in [head, *events])


def contents() -> dict[str, bytes]:
    """Return a file of each format, both ways where a format has that."""
    back = bulk(rounds=30, hosts=("10.0.0.2", "10.0.0.1"), ports=(40002, 5201))
    both = sorted([*bulk(rounds=40, lost=(9, 30)), *back], key=lambda one: one.time)
    upload = foreign(TITLE="rtt:11ms bandwidth:1Mbit/2Mbit")
    upload["results"]["TCP upload::1"] = [1.0, 1.5, 1.0, 1.5, 1.0]
    return {
        "near.pcap.gz": (SAMPLES / "near.pcap.gz").read_bytes(),
        "far.pcap.gz": (SAMPLES / "far.pcap.gz").read_bytes(),
        "both.pcap": pcap(both),
        "upload.json": (SAMPLES / "upload.json").read_bytes(),
        "slow-start.json": iperf3(1, 1, 1, 20, 1, 1, 1).encode(),
        "reverse.json": iperf3(1, 1, 1, 1, 30, 30, 30, reverse=1).encode(),
        "upload.ss.txt": (SAMPLES / "upload.ss.txt").read_bytes(),
        "made.ss.txt": rounds("1700000000", "1700000001", "1700000002").encode(),
        "made.sqlog": qlog().encode(),
        "made.flent": json.dumps(foreign()).encode(),
        "title.flent": json.dumps(upload).encode(),
    }


def made(tmp_path: Path, name: str, content: bytes | str) -> keep.Imported:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return keep.propose_experiment(path, formats.read(path), "it")


@pytest.mark.parametrize("name", contents())
def test_every_value_says_where_it_is_from_and_bounds_hold(name: str, tmp_path: Path) -> None:
    """A link is not slower than what passed on average, and no base RTT is longer than the shortest measured one."""
    one = made(tmp_path, name, contents()[name])
    facts = dict(one.facts)
    origins = "|".join(origin.value for origin in Origin)
    for line in one.text.splitlines():
        if re.match(r"(rate|aqm|ecn|cc|base_rtt|size|start|stop|duration|shaper) =", line):
            assert re.search(rf"  # ({origins}): \S", line), line
    assert all(fact.error for fact in facts.values() if fact.origin is Origin.DERIVED)
    assert {key for key, fact in one.facts if fact.known} == set(one.known)
    found, table = one.measured, tomllib.loads(one.text)
    for way, section in (("down", "bottleneck"), ("up", "reverse")):
        flows = [flow for flow in found.flows if flow.direction == way and flow.kind != "ping"]
        if not flows:
            continue
        span = max(flow.end_s for flow in flows) - min(flow.start_s for flow in flows)
        carried = sum(flow.goodput_mbit * (flow.end_s - flow.start_s) for flow in flows) / span
        assert units.parse("rate", table[section]["rate"]) >= carried * 1e6 * 1514 / 1448 * 0.99, section
    entries = [
        entry for kind in ("flows", "udp") for entry in table.get(kind, []) for _ in range(entry.get("count", 1))
    ]
    for flow, entry in zip(found.flows, entries, strict=True):
        if math.isfinite(flow.rtt_min_ms):
            assert units.parse("time", entry["base_rtt"]) / 1e6 <= flow.rtt_min_ms * (1 + 1e-6), flow.name


def test_what_a_file_says_and_its_own_figures_refute_is_not_taken() -> None:
    flow = ImportedFlow(
        "x", base_rtt=SetupFact("11ms", "the title says so"), end_s=9.0, ends=("10.0.0.1:5", "10.0.0.2:6")
    )
    flow.figures = {"goodput_mbit": 30.0, "rtt_min_ms": 7.314}
    ping = ImportedFlow(
        "p", "ping", ends=("10.0.0.2", "10.0.0.1"), figures={"rtt_min_ms": 5.5, "answers": 3}, end_s=9.0
    )
    ping.base_rtt = derive_fact("5.5ms", "its smallest RTT", "not longer")
    found = Measurement([flow, ping], 9.0, 0.2, setup={"bottleneck.rate": SetupFact("20Mbit", "tc qdisc tbf of here")})
    text = setup.propose_file(found, "x").text
    table = tomllib.loads(text)
    assert table["flows"][0]["base_rtt"] == "5.5ms"  # between the same hosts
    assert table["bottleneck"]["rate"] == "31.4Mbit"  # 30 * 1514 / 1448 = 31.37
    assert len(found.notes) == 2
    assert found.notes[0] == ("a base RTT of 11ms (the title says so) is not possible: RTTs of 5.5 ms were measured")
    assert found.notes[1].startswith("a rate of 20Mbit (tc qdisc tbf of here) is not possible: 31.4 Mbit/s passed")


@pytest.mark.parametrize(
    ("mbit", "more", "least", "most"),
    [
        ((1, 1, 1, 1, 1, 30, 30, 30, 30), {"reverse": 1}, 30, 32),  # received: the best seconds
        ((90, 20, 20, 20, 20, 20, 20), {"received": 20.0}, 20.9, 21),  # given: the first fills a socket's buffer
        ((1, 1, 1, 1, 20, 20, 20), {"received": 9.2}, 9.6, 9.7),  # the median is less than the mean that arrived
    ],
)
def test_the_rate_of_a_link_is_that_of_what_the_bytes_are(
    mbit: tuple[float, ...], more: dict[str, Any], least: float, most: float, tmp_path: Path
) -> None:
    one = made(tmp_path, "x.json", iperf3(*mbit, **more))
    assert least * 1e6 <= units.parse("rate", tomllib.loads(one.text)["bottleneck"]["rate"]) <= most * 1e6
    assert one.measured.flows[0].figures["retransmissions"] == 137  # with --reverse, only the end has them


# captures


def traced(tmp_path: Path, command: Command, experiment: str, *points: tuple[str, str]) -> bytes:
    """Return what a simulation sends past some points, flow by flow, as one capture."""
    (tmp_path / "lab.toml").write_text(experiment)
    frames = []
    for flow, at in points:
        assert command("trace", "lab.toml", "--at", at, "--flow", flow, "-o", "lab.pcapng").returncode == 0
        raw = (tmp_path / "lab.pcapng").read_bytes()
        all_ = records.read(tmp_path / "lab.pcapng", raw)
        for at_, kept, length, time in zip(all_.at, all_.captured, all_.length, all_.time_ns, strict=True):
            frames.append(captures.Frame(int(time) / 1e9, raw[at_ : at_ + kept], int(length)))
    return pcap(sorted(frames, key=lambda one: one.time), nano=True)


def shortened(content: bytes, tmp_path: Path, start: float, end: float) -> bytes:
    all_ = records.read(tmp_path / "x", content)
    times = (all_.time_ns - all_.time_ns[0]) / 1e9
    keep_ = np.flatnonzero((times >= start) & (times < end)).tolist()
    frames = [
        captures.Frame(times[n], content[all_.at[n] : all_.at[n] + all_.captured[n]], int(all_.length[n]))
        for n in keep_
    ]
    return pcap(frames, nano=True)


ONE = """
duration = "6s"
seeds = [1]
[bottleneck]
rate = "20Mbit"
aqm = { name = "pfifo", limit = 150 }
[[flows]]
cc = "cubic"
base_rtt = "30ms"
"""


@pytest.mark.parametrize("at", ["sender", "receiver"])
def test_a_short_capture_has_the_rate_of_its_link(at: str, tmp_path: Path, command: Command) -> None:
    """What came after the last whole interval belongs to no interval: counted in, 20 Mbit/s were up to 37."""
    whole = traced(tmp_path, command, ONE, ("0", at))
    for start, end in ((0, 0.5), (0, 1), (0, 2), (3, 4), (0, 6)):
        one = made(tmp_path, "x.pcap", shortened(whole, tmp_path, start, end))
        found = dict(one.facts)["bottleneck.rate"]
        assert units.parse("rate", found.text.strip('"')) == pytest.approx(20e6, rel=0.025), (start, end)


def test_a_link_that_was_seldom_full_is_no_derived_one(tmp_path: Path, command: Command) -> None:
    """Losses alone do not show it: a flow of Reno with too short a buffer leaves its link idle."""
    short = ONE.replace("limit = 150", "limit = 10").replace("30ms", "200ms").replace("cubic", "reno")
    one = made(tmp_path, "x.pcap", traced(tmp_path, command, short, ("0", "receiver")))
    assert one.measured.flows[0].figures["retransmissions"] > 0
    fact = dict(one.facts)["bottleneck.rate"]
    assert fact.origin is Origin.ASSUMED and "may be faster" in fact.source
    full = made(tmp_path, "y.pcap", traced(tmp_path, command, ONE, ("0", "receiver")))
    assert dict(full.facts)["bottleneck.rate"].origin is Origin.DERIVED


def test_a_capture_of_one_segment_has_no_rate(tmp_path: Path) -> None:
    packet = captures.tcp(0.0, 1448)
    one = made(tmp_path, "x.pcap", pcap([packet]))
    assert "goodput_mbit" not in one.measured.flows[0].figures
    fact = dict(one.facts)["bottleneck.rate"]
    assert fact.origin is Origin.ASSUMED and "cannot tell" in fact.source
    assert any("no rate shows" in note for note in one.measured.notes)
    length = dict(one.facts)["duration"]
    assert length.origin is Origin.ASSUMED and length.source.startswith("one interval; the measurement took ")


BOTH = """
duration = "5s"
seeds = [1]
[bottleneck]
rate = "50Mbit"
aqm = { name = "pfifo", limit = 200 }
[reverse]
rate = "10Mbit"
aqm = { name = "pfifo", limit = 60 }
[[flows]]
cc = "bbr1"
base_rtt = "20ms"
[[flows]]
cc = "cubic"
base_rtt = "20ms"
direction = "up"
"""


@pytest.mark.slow
def test_each_way_has_its_own_depth_and_its_acks(tmp_path: Path, command: Command) -> None:
    """RTTs are the sum of both queues; timestamps tell them apart. ACKs of the download take a part of the upload."""
    content = traced(tmp_path, command, BOTH, ("0", "receiver"), ("1", "sender"))
    one = made(tmp_path, "both.pcap", content)
    # the host of the capture downloads most
    table = tomllib.loads(one.text)
    assert units.parse("rate", table["reverse"]["rate"]) == pytest.approx(10e6, rel=0.03)
    assert table["reverse"]["aqm"]["limit"] == pytest.approx(60, rel=0.15)
    down = table["bottleneck"]["aqm"]["limit"] * 1514 * 8 / units.parse("rate", table["bottleneck"]["rate"])
    assert down < 0.052  # its buffer takes 48 ms to empty; RTTs rose by twice as much
    reasons = dict(one.facts)["reverse.aqm"].source
    assert "one-way delays" in reasons


def pinged(count: int, took: float, asked: int, answered: int, lost: tuple[int, ...] = (), **more: Any) -> list[Any]:
    frames = [captures.ping(0.2 * n, n, ttl=asked, **more) for n in range(count)]
    frames += [captures.ping(0.2 * n + took, n, ttl=answered, back=True, **more) for n in range(count) if n not in lost]
    return sorted(frames, key=lambda one: one.time)


def test_pings_where_they_are_answered_have_no_rtt(tmp_path: Path) -> None:
    """TTLs say where that is: routers count them down. 24 us of turnaround are not the path's RTT."""
    for took, ttls, has_rtt, words in (
        (0.052, (64, 60), True, ""),
        (0.000024, (60, 64), False, "taken near who answers"),
        (0.0007, (125, 128), False, "taken near who answers"),
        (0.020, (62, 63), False, "between the ends"),
        (0.000024, (64, 64), False, "answered at once"),
        (0.001, (64, 64), True, ""),
    ):
        one = made(tmp_path, "p.pcap", pcap(pinged(10, took, *ttls), nano=True))
        (ping,) = one.measured.flows
        assert ("rtt_min_ms" in ping.figures) is has_rtt and ping.figures["answers"] == 10, (took, ttls)
        assert any(words in note for note in one.measured.notes) or not words
        fact = dict(one.facts)["udp[0].base_rtt"]
        assert fact.origin is (Origin.DERIVED if has_rtt else Origin.ASSUMED), (took, ttls)
    # next to TCP with a longer path, what is answered at once is no RTT either
    frames = sorted([*bulk(), *pinged(5, 0.0006, 64, 64)], key=lambda one: one.time)
    one = made(tmp_path, "q.pcap", pcap(frames, nano=True))
    assert {fact.text for key, fact in one.facts if key.endswith("base_rtt")} == {'"39.9ms"'}


def test_pings_are_counted_by_their_requests(tmp_path: Path) -> None:
    one = made(tmp_path, "p.pcap", pcap(pinged(41, 0.03, 64, 60, lost=tuple(range(0, 40, 3)), payload=200)))
    facts = dict(one.facts)
    assert facts["udp[0].size"].text == '"242B"' and facts["udp[0].size"].origin is Origin.FILE
    assert facts["udp[0].rate"].text == '"9.68kbit"'  # 242 bytes each 0.2 s, answered or not


def test_pings_that_do_not_see_the_queue_of_tcp_mean_a_queue_for_each_flow() -> None:
    def proposed(ping_ms: float) -> SetupFact:
        tcp = ImportedFlow("t", end_s=9.0, base_rtt=derive_fact("20ms", "minrtt", "not longer"))
        tcp.figures = {"goodput_mbit": 9.0, "rtt_min_ms": 20.0, "rtt_p99_ms": 100.0}
        ping = ImportedFlow("p", "ping", end_s=9.0, base_rtt=derive_fact("20ms", "its smallest RTT", "not longer"))
        ping.figures = {"rtt_min_ms": 20.0, "rtt_p99_ms": ping_ms, "answers": 40}
        return dict(setup.propose_file(Measurement([tcp, ping], 9.0, 0.2), "x").facts)["bottleneck.aqm"]

    assert proposed(23.0).text == '"fq_codel"' and "do not see TCP's queue" in proposed(23.0).source
    assert proposed(23.0).origin is Origin.ASSUMED
    assert proposed(98.0).text.startswith('{ name = "pfifo", limit = ')
