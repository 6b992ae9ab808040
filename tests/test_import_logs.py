"""Logs of ss and qlog as other versions and options write them, UDP of iperf3, and the work that reading takes."""

import json
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

import captures
from dumbbell.exchange import formats, keep
from dumbbell.exchange.measurement import Origin
from test_import import read, rounds
from test_import_bounds import iperf3, qlog

# ss

NUMBERS = (
    "wscale:7,7 rto:240 rtt:30/4 mss:1448 cwnd:{} bytes_acked:{} unacked:50 retrans:3/9 lost:5 sacked:7 minrtt:20.5"
)
SOCKET = "ESTAB 0 1448 10.0.0.1:40000 10.0.0.2:5201"


@pytest.mark.parametrize(
    "before",
    [
        "cubic",
        "ts sack cubic",
        "ts sack ecn ecnseen fastopen cubic",
        "skmem:(r0,rb131072,t0,tb2626560,f4096,w0,o0,bl0,d0) ts sack cubic",
        'users:(("iperf3",pid=1234,fd=5)) timer:(on,200ms,0) uid:1000 ino:12345 sk:1 <-> ts sack cubic',
        'users:(("a b",pid=1,fd=5),("c",pid=2,fd=6)) skmem:(r0,rb1) cubic',
        'users:(("my prog (two)",pid=1,fd=5)) cubic',
    ],
)
@pytest.mark.parametrize("one_line", [False, True])
def test_the_control_is_found_behind_what_options_of_ss_add(before: str, one_line: bool, tmp_path: Path) -> None:
    text = ""
    for n in range(3):
        rest = f"{before} {NUMBERS.format(10 + n, 10**6 * n)}"
        text += f"{1700000000 + n}\n{SOCKET} {rest}\n" if one_line else f"{1700000000 + n}\n{SOCKET}\n\t {rest}\n"
    (flow,) = read(tmp_path, text).flows
    assert flow.cc is not None and (flow.cc.text, flow.cc.origin) == ("cubic", Origin.FILE)
    # packets out - selected - lost + sent again, as tcp_packets_in_flight() has it
    assert flow.series["in_flight"].to_list() == [50 - 7 - 5 + 3] * 2


def test_ss_leaves_out_what_is_zero(tmp_path: Path) -> None:
    text = "".join(
        f"{1700000000 + n}\n{SOCKET}\n\t cubic rto:240 rtt:30/4 mss:1448 cwnd:10 bytes_acked:{n}{more}\n"
        for n, more in enumerate((" unacked:9", " unacked:8 lost:2", ""))
    )
    (flow,) = read(tmp_path, text).flows
    assert flow.series["in_flight"].to_list() == [6, 0]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["Nov 14 22:13:20", "Nov 14 22:13:21", "Nov 14 22:13:23"], [1, 3]),
        (["Dec 31 23:59:59", "Jan  1 00:00:00", "Jan  1 00:00:01"], [1, 2]),
        (["23:59:59", "00:00:00", "00:00:02"], [1, 3]),
        (["00:00:00.5", "00:00:01.0", "00:00:01.5"], [0.5, 1]),
        (["Tue Nov 14 22:13:20 UTC 2023", "Tue Nov 14 22:13:21 UTC 2023", "Tue Nov 14 22:13:22 UTC 2023"], [1, 2]),
    ],
)
@pytest.mark.parametrize("inline", [False, True])
def test_times_without_a_year_or_a_date(times: list[str], expected: list[float], inline: bool, tmp_path: Path) -> None:
    found = read(tmp_path, rounds(*times, inline=inline))
    assert found.flows[0].series["time_s"].to_list() == pytest.approx(expected)
    assert "started" not in found.source
    whole = all(time == int(time) for time in expected)
    assert any("whole seconds" in note for note in found.notes) is whole


# qlog


def in_capitals(text: str) -> str:
    """Return a log as draft-00 of the schema for QUIC writes it: types in capitals, numbers as text."""
    events = []
    for line in text.split("\n")[1:-1]:
        one = json.loads(line.strip("\x1e"))
        data = one["data"]
        kind, number, size = "1RTT", str(data["header"]["packet_number"]), str(data["raw"]["length"])
        frames = [
            {key: str(value) if isinstance(value, int) else value for key, value in frame.items()}
            | {"frame_type": frame["frame_type"].upper()}
            for frame in data["frames"]
        ]
        header = {"packet_number": number, "packet_size": size}
        name = one["name"].partition(":")[2].upper()
        data = {"packet_type": kind, "header": header, "frames": frames}
        events.append([str(one["time"]), "TRANSPORT", name, "DEFAULT", data])
    fields = ["relative_time", "CATEGORY", "EVENT_TYPE", "TRIGGER", "DATA"]
    trace = {"vantage_point": {"type": "SERVER"}, "event_fields": fields, "events": events}
    return json.dumps({"qlog_version": "draft-00", "traces": [trace]})


def test_qlog_of_draft_00_says_the_same(tmp_path: Path) -> None:
    (wanted,) = read(tmp_path, qlog(), "new.sqlog").flows
    (found,) = read(tmp_path, in_capitals(qlog()), "old.qlog").flows
    assert wanted.figures["goodput_mbit"] == pytest.approx(200 * 1250 * 8e-6 / 0.219)
    assert wanted.figures["rtt_min_ms"] == pytest.approx(20.0) and wanted.figures["sent"] == 200
    assert found.figures == pytest.approx(wanted.figures)


# iperf3


def udp(
    block: int = 1250, sent: int = 400, lost: int = 100, jitter: float = 0.25, remote: float = 1.0, **more: Any
) -> str:
    """Return a test of UDP of four seconds, as its sender or with `reverse` its receiver writes it."""
    sender = not more.get("reverse")
    each = sent // 4 if sender else (sent - lost) // 4
    streams = [
        {"socket": 5, "start": n, "end": n + 1, "seconds": 1, "bytes": each * block, "packets": sent // 4}
        | {"bits_per_second": each * block * 8.0, "sender": sender}
        | ({} if sender else {"jitter_ms": 0.1 + 0.2 * n, "lost_packets": lost // 4})
        for n in range(4)
    ]
    end = {"socket": 5, "bytes": sent * block, "packets": sent, "lost_packets": lost, "jitter_ms": jitter}
    test = {"protocol": "UDP", "blksize": block, "reverse": int(not sender)}
    if "target" in more:
        test["target_bitrate"] = more["target"]
    return json.dumps(
        {
            "start": {"test_start": test},
            "intervals": [{"streams": [one]} for one in streams],
            "end": {
                "streams": [{"udp": end | {"sender": sender}}],
                "cpu_utilization_percent": {"host_total": 1, "remote_total": remote},
            },
        }
    )


def proposed(tmp_path: Path, text: str) -> keep.Imported:
    (tmp_path / "x.json").write_text(text)
    return keep.propose_experiment(tmp_path / "x.json", formats.read(tmp_path / "x.json"), "x")


@pytest.mark.parametrize("more", [{}, {"reverse": 1}, {"target": 1_000_000}])
def test_udp_has_its_link_of_what_arrived_and_its_source_of_what_was_sent(more: dict[str, Any], tmp_path: Path) -> None:
    one = proposed(tmp_path, udp(**more))
    table, facts = tomllib.loads(one.text), dict(one.facts)
    # 300 of 400 datagrams in 4 s, each 1292 bytes as a frame
    assert table["bottleneck"]["rate"] == "775.2kbit" and facts["bottleneck.rate"].origin is Origin.DERIVED
    assert table["udp"][0]["rate"] == "1.03Mbit" and table["udp"][0]["size"] == "1292B"
    flow = one.measured.flows[0]
    assert flow.figures["goodput_mbit"] == pytest.approx(0.75) and flow.figures["jitter_ms"] == 0.25
    assert flow.figures.get("jitter_mean_ms") == (pytest.approx(0.4) if "reverse" in more else None)
    assert any("jitter" in note for note in one.measured.notes) is ("reverse" not in more)
    # what was put on the net is no goodput
    assert ("goodput_mbit" in flow.series.columns) is ("reverse" in more)


def test_udp_without_an_answer_does_not_know_what_arrived(tmp_path: Path) -> None:
    one = proposed(tmp_path, udp(lost=0, jitter=0, remote=0))
    (flow,) = one.measured.flows
    assert flow.figures == {"sent": 400} and not flow.is_received
    assert one.measured.notes == [
        "the server did not answer: what arrived of UDP, its loss and its jitter are not known"
    ]
    facts = dict(one.facts)
    assert facts["bottleneck.rate"].origin is Origin.ASSUMED and "cannot tell" in facts["bottleneck.rate"].source
    assert facts["udp[0].rate"].text == '"1.03Mbit"' and facts["udp[0].rate"].origin is Origin.DERIVED
    row = keep.make_rows(one, 1, 0)["flows"].row(0, named=True)
    assert (row["goodput_mbit"], row["jitter_ms"], row["sent"]) == (None, None, 400)
    # a path without loss or jitter is another thing
    assert "goodput_mbit" in proposed(tmp_path, udp(lost=0, jitter=0, remote=1.5)).measured.flows[0].figures


def test_frames_have_the_headers_of_what_was_sent(tmp_path: Path) -> None:
    """A link carries frames: payload and headers, 20 bytes more of IPv6, 42 around a packet of QUIC."""

    def factor(name: str, text: str) -> float:
        return read(tmp_path, text, name).flows[0].frames_per_payload

    said = json.loads(iperf3(10, 10))
    said["start"]["tcp_mss_default"] = 1428
    said["start"]["connected"] = [{"socket": 5, "local_host": "fd00::1", "remote_host": "fd00::2"}]
    assert factor("x.json", json.dumps(said)) == pytest.approx(1514 / 1428)
    said = json.loads(udp()) | {}
    said["start"]["connected"] = [{"socket": 5, "local_host": "fd00::1", "remote_host": "fd00::2"}]
    assert factor("y.json", json.dumps(said)) == pytest.approx((1250 + 62) / 1250)
    assert factor("x.txt", rounds("1700000000", "1700000001")) == pytest.approx(1514 / 1448)
    v6 = rounds("1700000000", "1700000001").replace("mss:1448", "mss:1428")
    v6 = v6.replace("10.0.0.1:", "[fd00::1]:").replace("10.0.0.2:", "[fd00::2]:")
    assert factor("z.txt", v6) == pytest.approx(1514 / 1428)
    assert factor("x.sqlog", qlog()) == pytest.approx(1342 / 1250)


def test_tcp_without_an_answer_has_what_was_given_to_the_socket(tmp_path: Path) -> None:
    said = json.loads(iperf3(10, 10, 10))
    del said["end"]
    one = proposed(tmp_path, json.dumps(said))
    assert any("did not answer" in note for note in one.measured.notes) and not one.measured.flows[0].is_received


# the work


def longer(kind: str, size: int) -> tuple[str, bytes]:
    """Return a name, and a file of a kind that has `size` events."""
    if kind == "qlog":  # as long as it goes on, few packets are acknowledged
        events = [json.loads(line.strip("\x1e")) for line in qlog(size).split("\n")[:-1]]
        for event in events[1:]:
            for frame in event["data"]["frames"]:
                if frame["frame_type"] == "ack":
                    low = frame["acked_ranges"][0][1] // 100
                    frame["acked_ranges"] = [[low, low]]
        return "x.sqlog", "".join(f"\x1e{json.dumps(one)}\n" for one in events).encode()
    if kind == "ss":
        return "x.txt", rounds(*(str(1700000000 + n) for n in range(size))).encode()
    if kind == "ss, connections":
        text = rounds("1700000000", "1700000001")
        return "x.txt", "".join(
            text.replace(":40000", f":{n}")
            .replace("1700000000", str(1700000000 + 2 * n))
            .replace("1700000001", str(1700000001 + 2 * n))
            for n in range(size // 4)
        ).encode()
    if kind == "iperf3":
        return "x.json", iperf3(*[10.0] * size).encode()
    if kind == "iperf3, streams":
        said = json.loads(iperf3(10.0))
        (stream,) = said["intervals"][0]["streams"]
        said["intervals"][0]["streams"] = [stream | {"socket": n} for n in range(size)]
        said["start"]["connected"] = [{"socket": n, "local_host": "a", "remote_host": "b"} for n in range(size)]
        return "x.json", json.dumps(said).encode()
    frames = [captures.tcp(n * 1e-3, 1448, n * 1448, ports=(40000 + n % 500, 5201)) for n in range(size)]
    return "x.pcap", captures.pcap(frames)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["qlog", "ss", "ss, connections", "iperf3", "iperf3, streams", "capture of many flows"]
)
def test_reading_takes_time_in_step_with_the_length(kind: str, tmp_path: Path) -> None:
    """Four times the length takes four times the work, and a quadratic reader sixteen times."""

    def seconds(size: int) -> float:
        name, content = longer(kind, size)
        path = tmp_path / f"{size}-{name}"
        path.write_bytes(content)
        best = float("inf")
        for _ in range(2):
            start = time.process_time()
            keep.propose_experiment(path, formats.read(path), "x")
            best = min(best, time.process_time() - start)
        return best

    seconds(100)  # what is imported and cached once
    assert seconds(8000) < 9 * seconds(2000) + 0.2
