"""`dumbbell diff --packets`: the first packet in which two runs part."""

import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import captures
from conftest import Command
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.packets import recording, sides, wanted
from dumbbell.packets.parting import PacketSide, Parting, find

ONE = """
duration = "2s"
[bottleneck]
rate = "20Mbit"
aqm = {{ name = "pfifo", limit = {limit} }}
[[flows]]
cc = "cubic"
base_rtt = "20ms"
ecn = false
"""


def cell(text: str) -> Cell:
    return parse(tomllib.loads(text), "experiment").make_cell(0)


def rows_of(limit: int, point: str = "sender") -> pl.DataFrame:
    one = cell(ONE.format(limit=limit))
    return recording.record_packets(one, wanted.check_selection(one, [point]))[0]


def side(*packets: dict[str, Any], of_run: bool = True) -> PacketSide:
    """Return a side of packets, which are data segments of 1448 B, in order, every ms, unless they say otherwise."""
    usual = {"flow": 0, "direction": "data", "protocol": "tcp", "length": 1514, "payload": 1448, "ack": 1}
    usual |= {"flags": "ACK", "window": 64256, "ecn": "ECT(0)", "sack": None, "fate": ""}
    rows = [
        {"time_ns": number * 10**6, "seq": 1 + 1448 * number, **usual, **packet}
        for number, packet in enumerate(packets)
    ]
    schema = {"sack": pl.String, "fate": pl.String, "flags": pl.String, "window": pl.Int64, "seq": pl.Int64}
    return PacketSide("made by hand", pl.DataFrame(rows, schema_overrides=schema), of_run)


def parted(a: PacketSide, b: PacketSide, **more: Any) -> Parting:
    return find(a, b, "sender", **more)


def test_two_runs_part_at_the_first_packet_that_one_queue_drops(tmp_path: Path, command: Command) -> None:
    """A queue with room for one packet more takes the one that the other drops first; all before it are the same."""
    first = (
        rows_of(40)
        .filter(direction="data")
        .with_row_index("n")
        .filter(pl.col("drop_hop").is_not_null())
        .row(0, named=True)
    )
    (tmp_path / "one.toml").write_text(ONE.format(limit=40))
    done = command("diff", "one.toml", "--packets", "--by", "bottleneck.aqm.limit=40,41")
    assert done.returncode == 1, done.stderr
    assert f"packet {first['n'] + 1} of flow 0, data, at {first['time_s']:.9f} s" in done.stdout
    assert "- fate: A dropped at bottleneck, B none\n" in done.stdout
    assert "A is bottleneck.aqm.limit=40: one, seed=1" in done.stdout
    (tmp_path / "other.toml").write_text(ONE.format(limit=41))
    again = command("diff", "one.toml", "other.toml", "--packets", "--around", "2")
    assert again.returncode == 1
    assert f"packet {first['n'] + 1} of flow 0, data" in again.stdout
    lines = [line for line in again.stdout.splitlines() if line.startswith(("| = ", "| ! ", "| A ", "| B "))]
    assert [line[2] for line in lines] == ["=", "=", "!", "="]
    # at the receiver its absence shows as the packet behind it
    there = command("diff", "one.toml", "other.toml", "--packets", "--at", "receiver")
    assert there.returncode == 1
    gone = rows_of(41, "receiver").filter(direction="data")["seq"].to_list().index(first["seq"])
    assert f"packet {gone + 1} of flow 0, data" in there.stdout
    assert f"- seq: A {first['seq'] + 1448}, B {first['seq']}\n" in there.stdout


def test_equal_runs_are_equal_in_all_packets(tmp_path: Path, command: Command) -> None:
    (tmp_path / "one.toml").write_text(ONE.format(limit=40))
    done = command("diff", "one.toml", "--packets", "--engine", "sim", "--engine", "sim", "--within", "0ns")
    assert done.returncode == 0, done.stderr
    assert f"No difference in {rows_of(40).height} packets; their times are at most 0 us apart." in done.stdout


def test_a_run_is_equal_to_the_files_of_its_packets(tmp_path: Path, command: Command) -> None:
    """What the reader of captures makes of headers is what the engine said: sequence numbers, SACK, windows, flags."""
    (tmp_path / "one.toml").write_text(ONE.format(limit=40))
    for name in ("run.pcapng", "run.parquet"):
        assert command("trace", "one.toml", "-o", name, "--at", "all").returncode == 0
    height = rows_of(40).height
    for a, b in (("run.pcapng", "run.parquet"), ("one.toml", "run.pcapng"), ("run.parquet", "one.toml")):
        done = command("diff", a, b, "--packets", "--within", "0ns")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"No difference in {height} packets" in done.stdout
    done = command("diff", "run.pcapng", "run.parquet", "--packets", "--at", "receiver")
    assert done.returncode == 0
    assert f"No difference in {rows_of(40, 'receiver').height} packets" in done.stdout


@pytest.mark.parametrize(
    ("packet", "said"),
    [
        ({"seq": 9}, "seq: A 2897, B 9"),
        ({"ack": 9}, "ack: A 1, B 9"),
        ({"length": 1500}, "length of the frame: A 1514, B 1500"),
        ({"payload": 1400}, "payload: A 1448, B 1400"),
        ({"flags": "PSH ACK"}, "flags: A ACK, B PSH ACK"),
        ({"window": 64257}, "window: A 64256, B 64257"),
        ({"sack": "9-10"}, "SACK blocks: A none, B 9-10"),
        ({"ecn": "CE"}, "ECN field: A ECT(0), B CE"),
        ({"fate": "CE"}, "fate: A none, B CE"),
        ({"protocol": "udp"}, "protocol: A tcp, B udp"),
    ],
)
def test_each_field_is_compared(packet: dict[str, Any], said: str) -> None:
    found = parted(side({}, {}, {}, {}), side({}, {}, packet, {}))
    assert found.differences == [said]
    assert [(one.equal, one.first_ns) for one in found.streams] == [(2, 2_000_000)]


@pytest.mark.parametrize("unknown", [{"window": None}, {"fate": None}])
def test_what_a_side_does_not_know_is_not_compared(unknown: dict[str, Any]) -> None:
    assert not parted(side({}, {"window": 9, "fate": "CE"}), side({}, {"window": 9, "fate": "CE"} | unknown)).different


def test_times_are_compared_only_if_asked_and_are_always_told() -> None:
    a, b = side({}, {}, {}), side({"time_ns": 400}, {"time_ns": 1_001_000}, {"time_ns": 2_000_700})
    found = parted(a, b)
    assert not found.different
    assert found.streams[0].apart_ns == (700.0, 1000)
    assert not parted(a, b, within_ns=1000).different
    late = parted(a, b, within_ns=999)
    assert late.differences == ["time: 1 us apart, more than 0.999 us"]
    assert late.streams[0].equal == 1


def test_clocks_of_other_tools_are_counted_from_the_first_packet() -> None:
    a, b = side({}, {}), side({"time_ns": 10**18}, {"time_ns": 10**18 + 1_000_200}, of_run=False)
    found = parted(a, b)
    assert found.streams[0].apart_ns == (100.0, 200)
    assert (
        "first packet of each side, at 0.000000000 and 1000000000.000000000 s of its own clock" in found.to_markdown()
    )


def test_a_packet_that_one_side_lacks_is_the_first_that_differs() -> None:
    lost = parted(side({}, {}, {}, {}), side({}, {}, {"seq": 1 + 3 * 1448, "time_ns": 3_000_000}))
    assert lost.differences == ["seq: A 2897, B 4345"]
    assert [row[0] for row in lost.shown] == ["=", "=", "A", "="]
    ended = parted(side({}, {}, {}), side({}, {}))
    assert ended.differences == ["only A has this packet"]
    assert parted(side({}), side({}, {})).differences == ["only B has this packet"]


def test_the_earliest_of_all_flows_and_directions_comes_first() -> None:
    answers = {"flow": 1, "direction": "ack", "ack": 5}
    a = side({}, {"flow": 1}, answers, {})
    b = side({}, {"flow": 1}, answers | {"ack": 6}, {"seq": 7})
    found = parted(a, b)
    assert [(one.flow, one.direction, one.first_ns) for one in found.streams] == [
        (1, "ack", 2_000_000),
        (0, "data", 3_000_000),
        (1, "data", None),
    ]
    assert found.differences == ["ack: A 5, B 6"]


def test_a_capture_of_another_tool_has_relative_numbers_and_real_windows(tmp_path: Path) -> None:
    """Random first sequence numbers, one of which wraps, and no port of ours."""
    first, other = 2**32 - 100, 77
    frames = [
        captures.tcp(10.0, sequence=first, flags=captures.SYN),
        captures.tcp(10.1, sequence=other, acknowledged=first + 1, flags=captures.SYN | captures.ACK, back=True),
        captures.tcp(10.2, 1000, first + 1, other + 1),
        captures.tcp(10.3, 0, other + 1, (first + 1001) % 2**32, back=True),
    ]
    path = tmp_path / "other.pcap"
    path.write_bytes(captures.pcap(frames))
    found = sides.read_side(str(path), None, ())
    assert not found.of_run
    assert found.rows.select("direction", "seq", "ack", "payload").rows() == [
        ("data", 0, None, 0),
        ("ack", 0, 1, 0),
        ("data", 1, 1, 1000),
        ("ack", 1, 1001, 0),
    ]


REFUSED = {
    "nothing to compare with": (["one.toml", "--packets"], "another file, --by KEY=A,B, or --engine A --engine B"),
    "one value": (["one.toml", "--packets", "--by", "bottleneck.aqm.limit"], "a key with two values, KEY=A,B"),
    "an option of results": (["one.toml", "two.toml", "--packets", "--format", "csv"], "--packets and --format"),
    "an option of packets": (["one.duckdb", "--by", "bottleneck.rate", "--at", "receiver"], "--at and results"),
    "around is not for results": (["one.duckdb", "--by", "bottleneck.rate", "--around", "5"], "--around and results"),
    "keys of a file": (["run.parquet", "run.parquet", "--packets", "--set", "duration=1s"], "--set and run.parquet"),
    "an engine of two files": (
        ["run.parquet", "run.parquet", "--packets", "--engine", "sim"],
        "--engine and run.parquet",
    ),
    "no such point": (["run.parquet", "run.parquet", "--packets", "--at", "bottelneck"], "did you mean bottleneck"),
    "no such flow": (["run.parquet", "run.parquet", "--packets", "--flow", "7"], "no packet of these flows"),
    "no time": (["one.toml", "one.toml", "--packets", "--within", "soon"], "--within"),
    "no rows of packets": (["other.parquet", "run.parquet", "--packets"], "this table has no packets"),
    "no file": (["none.parquet", "run.parquet", "--packets"], "no such file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(tmp_path: Path, command: Command, name: str) -> None:
    words, said = REFUSED[name]
    (tmp_path / "one.toml").write_text(ONE.format(limit=40))
    (tmp_path / "two.toml").write_text(ONE.format(limit=41))
    if any("parquet" in word for word in words):
        one = cell(ONE.format(limit=40))
        recording.write(one, tmp_path / "run.parquet", wanted.check_selection(one))
        pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    done = command("diff", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_side_without_packets_is_named() -> None:
    with pytest.raises(InputError, match="no packet at sender"):
        find(side({}), PacketSide("empty.parquet", side({}).rows.clear()), "sender")
