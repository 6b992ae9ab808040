"""Captures become flows: rates, RTTs, retransmissions and marks, from wherever they were taken."""

import gzip
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import captures
from captures import ACK, FIN, HEADERS, SYN, Frame, pcap, pcapng, tcp
from dumbbell.errors import InputError
from dumbbell.exchange import formats
from dumbbell.exchange.measurement import ImportedFlow, Measurement
from dumbbell.exchange.pcap import connection

SAMPLES = Path(__file__).parent / "imports"
MSS = 1448
RTT, NEAR = 0.040, 0.0001


def read(tmp_path: Path, content: bytes, name: str = "one.pcap", interval_s: float | None = None) -> Measurement:
    path = tmp_path / name
    path.write_bytes(content)
    return formats.read(path, interval_s)


def only(found: Measurement) -> ImportedFlow:
    (flow,) = found.flows
    return flow


def bulk(
    rounds: int = 20,
    *,
    near: float = NEAR,
    per_round: int = 4,
    lost: tuple[int, ...] = (),
    base: int = 2**32 - 5000,
    stamps: bool = True,
    marked: tuple[int, ...] = (),
    handshake: bool = True,
    ends: bool = True,
    **more: Any,
) -> list[Frame]:
    """A sender with a fixed window, seen `near` (its round trip, s) to it: a round each 40 ms, acknowledged one by one.

    Segments whose numbers are in `lost` pass here, are lost behind, and are sent again in the next round.
    """
    far = RTT - near
    frames = []

    def both(at: float, sent: int | None) -> tuple[int, int] | None:
        return (round(at * 1000) + 1, 0 if sent is None else sent) if stamps else None

    start = 0.0
    if handshake:
        frames += [
            tcp(0.0, sequence=base - 1, flags=SYN, segment=1460, stamps=both(0.0, None), **more),
            tcp(
                far,
                sequence=99,
                acknowledged=base,
                flags=SYN | ACK,
                back=True,
                segment=1460,
                stamps=both(far, 1),
                **more,
            ),
            tcp(far + near, sequence=base, acknowledged=100, stamps=both(far + near, round(far * 1000) + 1), **more),
        ]
        start = far + near
    number, echo = 0, round(far * 1000) + 1
    pending: list[int] = []
    got = 0
    held: set[int] = set()
    for round_ in range(rounds):
        now = start + round_ * RTT
        batch = pending + [number + one for one in range(per_round - len(pending))]
        number += per_round - len(pending)
        again, pending = set(pending), []
        acks = []
        for place, one in enumerate(batch):
            at = now + place * 0.001
            ecn = 3 if one in marked else 2
            frames.append(tcp(at, MSS, base + one * MSS, 100, ecn=ecn, stamps=both(at, echo), **more))
            if one in lost and one not in again:
                pending.append(one)
                continue
            held.add(one)
            while got in held:
                got += 1
            acks.append((at + far, got))
        for at, reached in acks:
            frames.append(
                tcp(at, acknowledged=base + reached * MSS, sequence=100, back=True, stamps=both(at, 1), **more)
            )
        if acks:
            echo = round(acks[0][0] * 1000) + 1
    if ends:
        at = start + rounds * RTT
        frames += [
            tcp(at, sequence=base + number * MSS, acknowledged=100, flags=FIN | ACK, stamps=both(at, echo), **more),
            tcp(
                at + far,
                acknowledged=base + number * MSS + 1,
                sequence=100,
                back=True,
                stamps=both(at + far, 1),
                **more,
            ),
        ]
    return sorted(frames, key=lambda one: one.time)


def test_near_the_sender_all_round_trips_are_seen(tmp_path: Path) -> None:
    flow = only(read(tmp_path, pcap(bulk())))
    # 20 rounds of 4 segments in 20 RTTs, and the handshake and the last ACK
    assert flow.figures["sent"] == 80 and flow.figures["retransmissions"] == 0
    assert flow.figures["rtt_p50_ms"] == pytest.approx(39.9) and flow.figures["rtt_mean_ms"] == pytest.approx(39.9)
    assert flow.figures["rtt_min_ms"] == pytest.approx(39.9)
    assert flow.base_rtt is not None and flow.base_rtt.text == "39.9ms" and flow.base_rtt.known
    seconds = RTT + 20 * RTT + RTT - NEAR
    assert flow.figures["goodput_mbit"] == pytest.approx(80 * MSS * 8e-6 / seconds)
    assert flow.is_over and flow.end_s == pytest.approx(seconds)
    # what reaches the receiver does not show here
    assert not {"throughput_mbit", "packets", "ce_received", "duplicates"} & flow.figures.keys()


@pytest.mark.parametrize("near", [0.0399, 0.020])
def test_elsewhere_a_round_trip_is_the_sum_of_its_parts(tmp_path: Path, near: float) -> None:
    found = read(tmp_path, pcap(bulk(near=near, marked=(3, 5))))
    flow = only(found)
    assert found.source["taken"] == ("near the receiver" if near > 0.03 else "between the ends")
    assert flow.figures["rtt_p50_ms"] == pytest.approx(40, abs=1.1)  # timestamps count in ms
    assert flow.figures["rtt_min_ms"] == pytest.approx(40, abs=1.1)
    assert flow.figures["packets"] == 80 and flow.figures["ce_received"] == 2
    seconds = RTT + 20 * RTT + RTT - near
    assert flow.figures["throughput_mbit"] == pytest.approx(80 * (MSS + HEADERS) * 8e-6 / seconds)
    assert "sent" not in flow.figures
    assert found.queue is not None and found.queue["throughput_mbit"].sum() > 0


def test_losses_behind_the_capture_are_sent_again(tmp_path: Path) -> None:
    flow = only(read(tmp_path, pcap(bulk(lost=(9, 30, 31)))))
    assert flow.figures["retransmissions"] == 3 and flow.figures["sent"] == 80
    again = flow.series["retransmissions"].to_list()
    assert sum(again) == 3
    # Karn: no sample of what was sent twice, nor of what waited for it
    assert flow.rtts_ms is not None and flow.rtts_ms.max() == pytest.approx(39.9)
    unique = 77
    assert flow.figures["goodput_mbit"] == pytest.approx(unique * MSS * 8e-6 / flow.end_s)


def test_a_hole_that_is_filled_late_was_a_loss_and_early_a_reordering(tmp_path: Path) -> None:
    lost, swapped = 9, 40
    frames = bulk(near=0.0399, lost=(lost,))
    first = next(
        one
        for one in frames
        if one.length > 1000 and one.content[38:42] == ((2**32 - 5000 + lost * MSS) % 2**32).to_bytes(4)
    )
    frames.remove(first)  # lost ahead of the capture: only the second transmission is seen
    times = [one for one in frames if one.length > 1000]
    a, b = times[swapped], times[swapped + 1]
    frames[frames.index(a)], frames[frames.index(b)] = (
        Frame(a.time, b.content, b.length),
        Frame(b.time, a.content, a.length),
    )
    flow = only(read(tmp_path, pcap(frames)))
    assert flow.figures["retransmissions"] == 1 and flow.figures["duplicates"] == 0


def test_what_had_arrived_before_is_a_duplicate(tmp_path: Path) -> None:
    frames = bulk(near=0.0399)
    data = next(one for one in frames if one.length > 1000)
    frames.append(Frame(data.time + 0.2, data.content, data.length))
    flow = only(read(tmp_path, pcap(sorted(frames, key=lambda one: one.time))))
    assert flow.figures["duplicates"] == 1 and flow.figures["retransmissions"] == 1


def test_without_timestamps_a_capture_at_the_receiver_knows_the_handshake_alone(tmp_path: Path) -> None:
    flow = only(read(tmp_path, pcap(bulk(near=0.0399, stamps=False))))
    assert flow.rtts_ms is None and "rtt_mean_ms" not in flow.figures
    assert flow.figures["rtt_min_ms"] == pytest.approx(40.0)


def test_forms_of_files_say_the_same(tmp_path: Path) -> None:
    frames = bulk(lost=(7,))
    wanted = only(read(tmp_path, pcap(frames))).figures
    forms = {
        "big.pcap": pcap(frames, order=">"),
        "nano.pcap": pcap(frames, nano=True),
        "ng.pcapng": pcapng(frames),
        "big.pcapng": pcapng(frames, order=">", resolution=6),
        "two.pcapng": pcapng(frames, interface=1, others=1),
        "packed.pcap.gz": gzip.compress(pcap(frames)),
        "tagged.pcap": pcap(bulk(lost=(7,), tags=2)),
        "raw.pcap": pcap([Frame(one.time, one.content[14:], one.length - 14) for one in frames], link=101),
        "any.pcap": pcap([Frame(one.time, bytes(14) + one.content[12:], one.length + 2) for one in frames], link=113),
        "any2.pcap": pcap(
            [Frame(one.time, one.content[12:14] + bytes(18) + one.content[14:], one.length + 6) for one in frames],
            link=276,
        ),
        "six.pcap": pcap(bulk(lost=(7,), hosts=("fd00::1", "fd00::2"))),
    }
    for name, content in forms.items():
        figures = only(read(tmp_path, content, name)).figures
        assert figures.keys() == wanted.keys(), name
        for key, value in wanted.items():
            assert figures[key] == pytest.approx(value, rel=1e-4), (name, key)


def test_several_interfaces_are_told_and_the_busiest_is_taken(tmp_path: Path) -> None:
    frames = bulk()
    both = pcapng(frames, others=1)
    extra = pcapng(frames[:5], interface=1, others=1)
    start = len(pcapng([], others=1))
    found = read(tmp_path, both + extra[start:], "x.pcapng")
    assert only(found).figures["sent"] == 80
    assert any("2 interfaces" in note for note in found.notes)


def test_segments_that_the_card_cuts_count_as_cut(tmp_path: Path) -> None:
    base = 1000
    frames = [
        tcp(0.0, sequence=base - 1, flags=SYN, segment=1460, stamps=(1, 0)),
        tcp(0.02, sequence=99, acknowledged=base, flags=SYN | ACK, back=True, segment=1460, stamps=(20, 1)),
        tcp(0.0201, sequence=base, acknowledged=100, stamps=(21, 20)),
        tcp(0.0202, 5 * MSS, base, 100, stamps=(21, 20)),
        tcp(0.0402, acknowledged=base + 2 * MSS, sequence=100, back=True, stamps=(41, 21)),
        tcp(0.0403, acknowledged=base + 5 * MSS, sequence=100, back=True, stamps=(41, 21)),
    ]
    found = read(tmp_path, pcap(frames))
    flow = only(found)
    assert flow.figures["sent"] == 5 and flow.figures["rtt_p50_ms"] == pytest.approx(20.0)
    assert any("larger than a segment" in note for note in found.notes)


def test_ecn_is_read_off_the_handshakes(tmp_path: Path) -> None:
    def opened(asked: int, answered: int) -> Measurement:
        frames = bulk()
        at = 14 + 20 + 12

        def flagged(one: Frame, flags: int) -> Frame:
            return Frame(
                one.time,
                one.content[: at + 1] + bytes([one.content[at + 1] | flags]) + one.content[at + 2 :],
                one.length,
            )

        return read(tmp_path, pcap([flagged(frames[0], asked), flagged(frames[1], answered), *frames[2:]]))

    assert opened(0xC0, 0x40).setup["hosts.ecn"].text == "true"
    assert opened(0xC0, 0x00).setup["hosts.ecn"].text == "false"
    # without a handshake, packets that may be marked tell
    assert read(tmp_path, pcap(bulk(handshake=False))).setup["hosts.ecn"].text == "true"


ACE = {0: 0x000, 2: 0x080, 3: 0x0C0, 5: 0x140, 6: 0x180, 7: 0x1C0}  # AE, CWR and ECE as flags


@pytest.mark.parametrize("down", [False, True], ids=["upload", "download"])
def test_accecn_tells_the_sender_how_many_packets_were_marked(tmp_path: Path, down: bool) -> None:
    """The counter begins at 5; 5, 6, 0 and 3 are 1 + 2 + 3 packets. Who opens the connection sends a code first."""
    back = dict[str, Any](back=True, sequence=100)
    if down:
        frames = [
            tcp(0.0, flags=SYN | ACE[7], back=True, sequence=99, segment=1460),
            tcp(0.0001, flags=SYN | ACK | ACE[2], sequence=999, acknowledged=100, segment=1460),
            tcp(0.0401, flags=ACK | ACE[2], acknowledged=1000, **back),
        ]
    else:
        frames = [
            tcp(0.0, flags=SYN | ACE[7], sequence=999, segment=1460),
            tcp(0.04, flags=SYN | ACK | ACE[2], back=True, sequence=99, acknowledged=1000, segment=1460),
            tcp(0.0401, sequence=1000, acknowledged=100),
        ]
    for n, counter in enumerate((5, 6, 0, 3)):
        frames.append(tcp(0.0402 + 0.04 * n, MSS, 1000 + n * MSS, 100, ecn=2))
        frames.append(tcp(0.0801 + 0.04 * n, flags=ACK | ACE[counter], acknowledged=1000 + (n + 1) * MSS, **back))
    found = read(tmp_path, pcap(sorted(frames, key=lambda one: one.time)))
    assert only(found).figures["ce_received"] == 6
    assert found.setup["bottleneck.aqm"].text == '{ name = "codel", ecn = true }' and only(found).echo is not None


def test_udp_and_pings(tmp_path: Path) -> None:
    frames = [captures.udp(n * 0.01, 972, ecn=1) for n in range(101)]
    frames += [captures.udp(n * 0.01 + 0.005, 10, back=True) for n in range(20)]
    frames += [captures.ping(0.1 * n, n) for n in range(10)] + [
        captures.ping(0.1 * n + 0.0251, n, back=True) for n in range(9)
    ]
    found = read(tmp_path, pcap(sorted(frames, key=lambda one: one.time)))
    stream, pings = sorted(found.flows, key=lambda flow: flow.kind, reverse=True)
    assert (stream.kind, pings.kind) == ("udp", "ping")
    assert stream.figures["goodput_mbit"] == pytest.approx(972 * 8 * 100e-6)  # 100 per s
    assert stream.rate is not None and stream.rate.text == "811kbit"  # 972 + 42 bytes
    assert stream.size is not None and stream.size.text == "1014B"
    assert pings.figures["answers"] == 9 and pings.figures["rtt_p50_ms"] == pytest.approx(25.1)


def test_pings_over_udp_are_found_by_number_or_by_order(tmp_path: Path) -> None:
    def pings(
        lost: set[int], *, numbered: bool = True, wrong: int = 0, first: int = 0, rtt: float = 0.0251
    ) -> list[Frame]:
        """Return a ping each 10 ms, answered after 25.1 ms, but for the answers that are lost."""
        of = range(100 + first)
        asked = [captures.udp(0.01 * n, 58, kept=struct.pack(">I", n) if numbered else b"") for n in of[first:]]
        back = [(n, struct.pack(">I", n + wrong) if numbered else b"") for n in of if n not in lost]
        return asked + [captures.udp(0.01 * n + rtt, 58, kept=kept, back=True) for n, kept in back]

    def read_pings(frames: list[Frame]) -> tuple[list[ImportedFlow], list[str]]:
        bulk = [captures.udp(0.001 * n, 1400, (7, 8)) for n in range(1500)]
        made = read(tmp_path, pcap(sorted(frames + bulk, key=lambda one: one.time)))
        return made.flows, [note for note in made.notes if "ping" in note]

    for frames, answers, how in (
        (pings({3, 50}), 98, "begins with the same four bytes"),
        (pings(set(), first=5), 100, "begins with the same four bytes"),  # answers to what was asked before
        (pings(set(), numbered=False), 100, "in order"),
    ):
        flows, (note,) = read_pings(frames)
        (ping,) = (one for one in flows if one.kind == "ping")
        assert len(flows) == 2 and how in note and ping.figures["answers"] == answers
        assert ping.rtts_ms is not None and set(ping.rtts_ms.round(6)) == {25.1}
        assert ping.rate is not None and ping.rate.text == "80kbit"  # 58 and 42 bytes each 10 ms
        assert ping.direction == "down" and ping.size is not None and ping.size.text == "100B"
    flows, notes = read_pings(pings({3}, rtt=1e-6))
    (ping,) = (one for one in flows if one.kind == "ping")
    assert ping.figures == {"answers": 99} and ping.base_rtt is None is ping.rtts_ms
    assert any("where no RTT shows" in note for note in notes)
    # answers to something else, or nobody knows to what
    for frames in (pings(set(), wrong=5000), pings({3}, numbered=False)):
        flows, notes = read_pings(frames)
        assert [one.kind for one in flows] == ["udp"] and not notes  # left out, for so little payload


def test_both_ways_and_small_flows(tmp_path: Path) -> None:
    frames = bulk(rounds=30) + bulk(rounds=10, ports=(40001, 5201))
    frames += bulk(rounds=12, hosts=("10.0.0.2", "10.0.0.1"), ports=(40002, 5201))
    frames += [
        tcp(0.5, 20, 5, 100, ports=(50000, 22)),
        tcp(0.51, sequence=100, acknowledged=25, back=True, ports=(50000, 22)),
    ]
    found = read(tmp_path, pcap(sorted(frames, key=lambda one: one.time)))
    assert [flow.direction for flow in found.flows].count("down") == 2 and len(found.flows) == 3
    assert found.notes[0].startswith("left out: 1 flow with the least payload")


def test_ports_that_are_used_again_are_another_connection(tmp_path: Path) -> None:
    again = [Frame(one.time + 5, one.content, one.length) for one in bulk(base=12345)]
    found = read(tmp_path, pcap([*bulk(), *again]))
    assert len(found.flows) == 2 and found.flows[1].start_s == pytest.approx(5)
    assert all(flow.figures["sent"] == 80 and flow.figures["retransmissions"] == 0 for flow in found.flows)


def test_sequence_numbers_wrap() -> None:
    values = np.array([2**32 - 10, 2**32 - 1, 5, 4, 2**31])
    assert connection.unwrap_numbers(values, 2**32 - 10).tolist() == [0, 9, 15, 14, 2**31 + 10]


@pytest.mark.parametrize("cut", [1, 20, 70])
def test_a_capture_that_is_cut_off_is_read_up_to_there(tmp_path: Path, cut: int) -> None:
    found = read(tmp_path, pcap(bulk(), cut=cut))
    assert found.notes[0].startswith("cut off after packet ")
    assert only(found).figures["sent"] == 80


def test_a_file_that_is_damaged_is_not_called_cut_off(tmp_path: Path) -> None:
    whole = pcapng(bulk())
    places, place = [], 0
    while place < len(whole):
        places.append(place)
        place += int.from_bytes(whole[place + 4 : place + 8], "little")
    middle = places[len(places) // 2]
    for size, words in ((4 * 10**6, "damaged"), (7, "damaged"), (2**31, "damaged"), (0, "damaged")):
        bad = whole[: middle + 4] + size.to_bytes(4, "little") + whole[middle + 8 :]
        assert read(tmp_path, bad, "bad.pcapng").notes[0].startswith(f"{words} after packet ")
    assert read(tmp_path, whole[: middle + 40], "cut.pcapng").notes[0].startswith("cut off after packet ")


def test_headers_that_are_cut_are_told(tmp_path: Path) -> None:
    short = [Frame(one.time, one.content[:58], one.length) for one in bulk()]
    assert read(tmp_path, pcap(short)).notes[0].startswith(f"headers of {len(short)} packets are cut")
    assert "are cut" not in " ".join(read(tmp_path, pcap(bulk())).notes)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    for content, words in (
        (pcap([]), "no packet"),
        (pcap([])[:20], "cut off in its header"),
        (pcap(bulk(), link=147), "link type 147 is not known"),
        (pcap([Frame(0.0, bytes(12) + b"\x08\x06" + bytes(28), 42)]), "no packet of TCP, UDP or ping"),
        (pcap([tcp(0.0), tcp(0.1, back=True)]), "no flow with data"),
        (b"\n\r\r\n" + bytes(20), "not the head of a section"),
    ):
        with pytest.raises(InputError, match=words) as error:
            read(tmp_path, content, "bad.pcap")
        assert "bad.pcap" in str(error.value) and len(str(error.value).splitlines()) == 1


# Captures of iperf3 -P 2 with CUBIC through dumbbell shell: 2 Mbit/s, CoDel with ECN, 30 ms, at both ends at once.


@pytest.fixture(scope="module")
def samples() -> dict[str, Measurement]:
    return {name: formats.read(SAMPLES / f"{name}.pcap.gz") for name in ("near", "far")}


def test_real_captures_of_both_ends_agree(samples: dict[str, Measurement]) -> None:
    assert (
        samples["near"].source["taken"] == "near the sender" and samples["far"].source["taken"] == "near the receiver"
    )
    near, far = ([flow for flow in one.flows if flow.kind == "flows"] for one in samples.values())
    for ours, theirs in zip(near, far, strict=True):
        assert ours.figures["sent"] == theirs.figures["packets"]
        assert ours.figures["goodput_mbit"] == pytest.approx(theirs.figures["goodput_mbit"], rel=0.02)
        assert ours.figures["rtt_min_ms"] == pytest.approx(theirs.figures["rtt_min_ms"], abs=0.1)
        assert ours.figures["rtt_p50_ms"] == pytest.approx(theirs.figures["rtt_p50_ms"], rel=0.1)


def test_real_captures_are_as_tshark_has_them(samples: dict[str, Measurement]) -> None:
    """Packets with data, tcp.analysis.ack_rtt (median) and packets with CE, as tshark 4.0 counts them.

    Of the two segments that an ACK acknowledges, tshark takes the time of the newest and Linux that of the oldest: up
    to a segment of 1514 bytes at 2 Mbit/s earlier.
    """
    near = [flow for flow in samples["near"].flows if flow.kind == "flows"]
    assert [flow.figures["sent"] for flow in near] == [264, 218]
    for flow, theirs in zip(near, [66.63, 60.54], strict=True):
        assert 5 < flow.figures["rtt_p50_ms"] - theirs < 1514 * 8 / 2e6 * 1e3 + 0.05
    assert sum(flow.figures["ce_received"] for flow in samples["far"].flows) == 37  # and so many did the shell mark


def test_pings_of_a_real_capture_are_those_of_ping(samples: dict[str, Measurement]) -> None:
    (ping,) = [flow for flow in samples["near"].flows if flow.kind == "ping"]
    assert ping.figures["answers"] == 14
    assert ping.figures["rtt_min_ms"] == pytest.approx(31.128, abs=0.05)
    assert ping.figures["rtt_mean_ms"] == pytest.approx(79.684, abs=0.05)
    assert ping.figures["rtt_max_ms"] == pytest.approx(277.087, abs=0.05)
    assert not math.isnan(ping.rtt_min_ms)
