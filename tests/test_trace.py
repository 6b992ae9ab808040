"""`dumbbell trace`: files that tshark reads, whose own analysis agrees with what the runs measured."""

import json
import os
import re
import statistics
import struct
import subprocess
import sys
import threading
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import dumbbell
import window_stack
from conftest import TWO_FLOWS, Command
from dumbbell.errors import InputError
from dumbbell.experiment import units
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.experiment.plugins import trust
from dumbbell.packets import again, recording, wanted
from tshark import GOOD, expected_duplicates, flow, headers, program, seen, there

TWO = TWO_FLOWS + '[matrix]\n"bottleneck.rate" = ["10Mbit", "20Mbit"]\n'


@pytest.fixture
def tshark() -> str:
    return program()


@pytest.fixture
def experiment(tmp_path: Path) -> str:
    (tmp_path / "two.toml").write_text(TWO)
    return "two.toml"


def experiment_of(bottleneck: Mapping[str, Any], *flows: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    hosts = {"hosts": {"ecn": True}}
    return {"duration": "5s", "bottleneck": {"rate": "20Mbit", **bottleneck}, **hosts, "flows": list(flows), **more}


def cell(source: dict[str, Any]) -> Cell:
    return parse(dict(source), "experiment").make_cell(0)


RECEIVER = "9"
LOSS = [{"name": "loss", "probability": 0.01}]
CASES = {
    "codel": experiment_of({"aqm": "codel"}, flow("cubic"), flow("reno", "60ms")),
    "tail drop": experiment_of(
        {"aqm": {"name": "pfifo", "limit": 40}}, flow("cubic", ecn=False), flow("bbr3", "60ms", ecn=False)
    ),
    "loss": experiment_of({"aqm": "fq_codel"}, flow("cubic", path=LOSS), flow("bbr1", path=LOSS)),
    "dctcp": experiment_of({"aqm": "step"}, flow("dctcp"), flow("dctcp", "40ms")),
    "l4s": experiment_of({"aqm": "dualpi2"}, flow("prague"), flow("cubic")),
    "small window": experiment_of({"aqm": "pfifo"}, flow("cubic", "80ms"), hosts={"receive_buffer": "60000B"}),
    "download": experiment_of({"aqm": "codel"}, flow("cubic"), hosts={"opener": "receiver"}),
    "up": experiment_of(
        {"aqm": "codel"}, flow("cubic"), flow("cubic", direction="up"), reverse={"rate": "5Mbit", "aqm": "cake"}
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_analysis_of_tshark_agrees_with_the_run(tshark: str, tmp_path: Path, name: str) -> None:
    one = cell(CASES[name])
    path = tmp_path / "run.pcapng"
    written = recording.write(one, path, wanted.check_selection(one, snap=0))
    packets, digest = recording.record_packets(one, wanted.check_selection(one, ["sender"]))
    assert digest == written.hash
    found = seen(tshark, path)
    simulated = found.height - found.filter(pl.col("frame.comment").str.starts_with("not simulated")).height
    assert simulated == packets.height == written.packets - (found.height - simulated)
    assert found["_ws.malformed"].unique().to_list() == [""]
    assert found["tcp.checksum.status"].unique().to_list() == [GOOD] == found["ip.checksum.status"].unique().to_list()
    assert found.filter(pl.col("frame.len") != pl.col("frame.cap_len")).is_empty()
    result = dumbbell.run(CASES[name], progress=False)
    found = found.filter(~pl.col("frame.comment").str.starts_with("not simulated"))
    for number, row in enumerate(result.flows.sort("flow").rows(named=True)):
        data, acks = (found.filter(pl.col(f"tcp.{port}") == str(50_000 + number)) for port in ("srcport", "dstport"))
        again = data.filter(there("tcp.analysis.retransmission") | there("tcp.analysis.out_of_order"))
        assert again.height == row["retransmissions"], name
        own = packets.filter(pl.col("flow") == number)
        assert acks.filter(there("tcp.analysis.duplicate_ack")).height == expected_duplicates(own)
        # nothing is missing: what was captured is all that the sender sent and received
        assert not data.filter(there("tcp.analysis.lost_segment")).height
        assert not acks.filter(there("tcp.analysis.ack_lost_segment")).height
        rtts = [1e3 * float(one) for one in acks["tcp.analysis.ack_rtt"] if one]
        # tshark's are of the newest segment that an ACK acknowledges, the store's of the oldest
        assert statistics.median(rtts) == pytest.approx(row["rtt_p50_ms"], rel=0.06)
        assert min(rtts) >= row["rtt_min_ms"] - 0.002
        # windows as the receiver offers them, and what is in flight below
        windows = acks.filter(pl.col("tcp.window_size") != "")["tcp.window_size"].cast(pl.Int64)
        assert windows.to_list() == own.filter(pl.col("direction") == "ack")["window"].to_list()
        assert not acks.filter(there("tcp.analysis.zero_window")).height
        in_flight = data.filter(there("tcp.analysis.bytes_in_flight"))["tcp.analysis.bytes_in_flight"].cast(pl.Int64)
        assert in_flight.max() <= windows.max()  # type: ignore[operator]


def test_a_window_that_is_full_is_what_tshark_sees(tshark: str, tmp_path: Path) -> None:
    one = cell(CASES["small window"])
    path = tmp_path / "run.pcapng"
    recording.write(one, path, wanted.check_selection(one))
    in_flight = seen(tshark, path)["tcp.analysis.bytes_in_flight"]
    most = max(int(one) for one in in_flight if one)
    window = max(
        int(one) for one in seen(tshark, path).filter(pl.col("tcp.srcport") == RECEIVER)["tcp.window_size"][1:]
    )
    # whole segments
    assert window - 1448 < most <= window


def test_accecn_is_what_tshark_reads(tshark: str, tmp_path: Path) -> None:
    one = cell(CASES["l4s"])
    path = tmp_path / "run.pcapng"
    recording.write(one, path, wanted.check_selection(one, ["receiver"], [0]))
    found = seen(tshark, path)
    counters = [
        int(value) for value in found.filter(pl.col("tcp.srcport") == RECEIVER)["tcp.options.acc_ecn.eceb"] if value
    ]
    marked = found.filter((pl.col("tcp.srcport") != RECEIVER) & (pl.col("ip.dsfield.ecn") == "3"))
    assert marked.height > 10
    assert counters == sorted(counters)
    payload = marked["tcp.len"].cast(pl.Int64).sum()
    # the last acknowledgements may be under way
    assert 0 <= payload - counters[-1] <= 4 * 1436
    # MSS, SACK permitted, timestamps, AccECN, NOP and scale; then NOPs, timestamps, AccECN and its NOP
    syn, syn_ack, ack = (row["tcp.option_kind"] for row in headers(tshark, path, 3))
    assert (syn, syn_ack, ack) == ("2,4,8,1,3", "2,4,8,174,1,1,3", "1,1,8,174,1")
    # 5 and the number of packets with CE, modulo 8
    ace = found.filter(pl.col("tcp.srcport") == RECEIVER)["tcp.flags.ace"][-1]
    assert (int(ace) - 5 - marked.height) % 8 in (0, 7, 6, 5)


@pytest.mark.slow
def test_points_are_interfaces_and_comments_say_what_queues_did(tshark: str, tmp_path: Path) -> None:
    one = cell(CASES["tail drop"])
    path = tmp_path / "run.pcapng"
    recording.write(one, path, wanted.check_selection(one, [wanted.ALL]))
    found = seen(tshark, path)
    assert found["frame.interface_name"].unique().sort().to_list() == [
        "bottleneck",
        "bottleneck:out",
        "receiver",
        "sender",
    ]
    at = found.filter(pl.col("frame.interface_name") == "bottleneck")
    dropped = at.filter(pl.col("frame.comment").str.starts_with("dropped at bottleneck (overflow, on arrival) at "))
    left = found.filter(pl.col("frame.interface_name") == "bottleneck:out")
    assert dropped.height > 10
    assert at.height - dropped.height - left.height in range(42)  # what is queued at the end, and on the wire
    assert not left.filter(there("frame.comment")).height


def test_short_flows_and_udp(tshark: str, tmp_path: Path) -> None:
    web = {"cc": "cubic", "base_rtt": "20ms", "arrivals": "40/s", "size": "20kB"}
    udp = {"rate": "1Mbit", "size": "300B", "echo": True, "base_rtt": "10ms"}
    one = cell(experiment_of({"aqm": "codel"}, flow("cubic"), web=[web], udp=[udp]))
    path = tmp_path / "run.pcapng"
    recording.write(one, path, wanted.check_selection(one, snap=0))
    found = seen(tshark, path)
    assert found["_ws.malformed"].unique().to_list() == [""]
    assert set(found["tcp.checksum.status"]) == {GOOD, ""}
    streams = found.filter(there("tcp.stream")).group_by("tcp.stream").agg(pl.col("tcp.len").cast(pl.Int64).sum())
    assert streams.height > 150
    assert Counter(streams["tcp.len"])[20_000] > 100


@pytest.mark.slow
def test_a_file_that_keeps_headers_is_analysed_alike(tshark: str, tmp_path: Path) -> None:
    one = cell(CASES["loss"])
    tables = []
    for name, snap in (("whole.pcapng", 0), ("headers.pcapng", None)):
        recording.write(one, tmp_path / name, wanted.check_selection(one, snap=snap))
        tables.append(seen(tshark, tmp_path / name).drop("tcp.checksum", "tcp.checksum.status", "frame.cap_len"))
    assert tables[0].equals(tables[1])
    assert (tmp_path / "headers.pcapng").stat().st_size < (tmp_path / "whole.pcapng").stat().st_size / 8


def frames_of(path: Path) -> list[tuple[int, bytes]]:
    """Return interface and bytes of each packet in a pcapng file."""
    whole, at, found = path.read_bytes(), 0, []
    while at < len(whole):
        kind, length = struct.unpack_from("<II", whole, at)
        if kind == 6:
            interface, _, _, kept, _ = struct.unpack_from("<5I", whole, at + 8)
            found.append((interface, whole[at + 28 : at + 28 + kept]))
        at += length
    return found


def test_datagrams_of_a_stack_have_their_own_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = window_stack.built(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv(trust.VARIABLE, str(tmp_path))
    one = cell(
        experiment_of({"aqm": {"name": "pfifo", "limit": 20}}, {"base_rtt": "20ms", "stack": str(library)}, hosts={})
    )
    path = tmp_path / "run.pcapng"
    written = recording.write(one, path, wanted.check_selection(one, ["sender", "receiver"]))
    assert written.packets > 1000
    # behind 42 B of headers: the example numbers its datagrams, and answers with the number that it expects
    numbers: dict[tuple[int, bool], list[int]] = {}
    for interface, frame in frames_of(path):
        back = frame[34:36] == (443).to_bytes(2)
        assert len(frame) == int.from_bytes(frame[16:18]) + 14
        numbers.setdefault((interface, back), []).append(int.from_bytes(frame[42:50], "little"))
    sent, heard, arrived, answered = (numbers[key] for key in ((0, False), (0, True), (1, False), (1, True)))
    assert sent[:50] == list(range(50)) and len(set(sent)) > 1000
    assert set(arrived) < set(sent) and len(arrived) < len(sent)
    assert answered == sorted(answered) and heard == answered[: len(heard)] and len(answered) - len(heard) < 100
    rows, digest = recording.record_packets(one, wanted.check_selection(one, ["sender"]))
    assert digest == written.hash and rows.filter(pl.col("direction") == "data").height == len(sent)


def test_the_command_writes_what_the_name_says(tmp_path: Path, command: Command, experiment: str) -> None:
    def run(*arguments: str) -> Any:
        return command("trace", experiment, "--cell", "2", "--set", "duration=2s", *arguments)

    for name, more in (("run.pcapng", ()), ("some.pcapng", ("--flow", "1", "--time", "1s..2s", "--snap", "60"))):
        said = run("-o", name, *more)
        assert (said.returncode, said.stdout) == (0, f"{name}\n"), said.stderr
        assert (tmp_path / name).read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"
    assert (tmp_path / "some.pcapng").stat().st_size < (tmp_path / "run.pcapng").stat().st_size / 2
    assert run("-o", "run.parquet", "--at", "bottleneck").returncode == 0
    rows = pl.read_parquet(tmp_path / "run.parquet")
    assert rows["point"].unique().to_list() == ["bottleneck"] and rows.height > 1000
    said = run("-o", "run.qlog")
    assert said.returncode == 0, said.stderr
    whole = json.loads((tmp_path / "run.qlog").read_text())
    assert whole["file_schema"] == "urn:ietf:params:qlog:file:contained"
    assert [one["vantage_point"]["name"] for one in whole["traces"]] == ["flow 0", "flow 1", "network"]
    assert all(len(one["events"]) > 100 for one in whole["traces"])
    assert run("-o", "one.sqlog", "--flow", "0").returncode == 0
    assert (tmp_path / "one.sqlog").read_bytes()[:1] == b"\x1e"


def test_a_run_is_chosen_as_in_tables_and_results_are_no_experiment(
    tmp_path: Path, command: Command, experiment: str
) -> None:
    assert command("trace", experiment, "--where", "rate=20000kbit", "--set", "duration=1s").returncode == 0
    said = command("trace", experiment).stderr
    assert "it describes 2 runs; choose one with --cell N or --where KEY=VALUE: --cell 1 (bottleneck.rate=10M" in said
    assert command("run", experiment, "-o", "two.csv").returncode == 2 and not (tmp_path / "two.csv").exists()
    said = command("run", experiment, "-o", "two.csv").stderr
    assert (
        "two.csv: cannot write: results are a DuckDB file, and .csv names another kind; choose a name such as" in said
    )
    assert command("run", experiment, "--set", "duration=1s", "-o", "two.duckdb").returncode == 0
    said = command("trace", "two.duckdb").stderr
    assert "two.duckdb: this is a results file, which dumbbell table, plot, report," in said, said


def test_a_capture_waits_for_no_library_of_results(tmp_path: Path, experiment: str) -> None:
    line = ["trace", experiment, "--cell", "1", "--set", "duration=1s", "-o", "run.pcapng"]
    script = (
        f"import sys; from dumbbell.cli import commands; commands.carry_out({line})\n"
        "print(*{'polars', 'duckdb', 'pandas', 'matplotlib'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == "run.pcapng\n\n", said.stdout


def test_a_pipe_is_fed_and_an_older_file_stays_with_who_reads_it(tmp_path: Path) -> None:
    one = cell({**CASES["codel"], "duration": "1s"})
    run, pipe = tmp_path / "run.pcapng", tmp_path / "pipe.pcapng"
    recording.write(one, run, wanted.PacketSelection())
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        writing = threading.Thread(target=recording.write, args=(one, pipe, wanted.PacketSelection()), daemon=True)
        writing.start()
        came, _ = reader.communicate(timeout=60)
        writing.join(60)
    assert came == run.read_bytes() and pipe.is_fifo()
    linked = tmp_path / "linked.pcapng"
    linked.symlink_to(run)
    with run.open("rb") as old:
        recording.write(one, run, wanted.PacketSelection(flows=(0,)))
        assert old.read() == came != run.read_bytes()
    recording.write(one, linked, wanted.PacketSelection())
    assert linked.is_symlink() and run.read_bytes() == came


@pytest.mark.slow
def test_ctrl_c_ends_the_wait_for_who_reads_a_pipe(tmp_path: Path, experiment: str) -> None:
    os.mkfifo(tmp_path / "pipe.pcapng")
    script = (
        "import os, signal, threading; from dumbbell import cli\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start(); cli.main()"
    )
    line = [sys.executable, "-c", script, "trace", experiment, "--cell", "1", "-o", "pipe.pcapng"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "")
    assert (tmp_path / "pipe.pcapng").is_fifo()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.pcapng", "run.parquet", "run.qlog"])
def test_ctrl_c_ends_it_at_once_and_leaves_no_half_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "long.toml").write_text(TWO.partition("[matrix]")[0].replace('"5s"', '"86400s"'))
    script = (
        "import os, polars, signal, sys, threading; from dumbbell import cli\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler); signal.siginterrupt(signal.SIGINT, False)\n"
        "threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start(); cli.main()"
    )
    line = [sys.executable, "-c", script, "trace", "long.toml", "-o", name]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "")
    assert [path.name for path in tmp_path.iterdir()] == ["long.toml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["-o", "run.txt"],
            "it must be a name that ends in .pcapng, .parquet, .qlog or .sqlog",
        ),
        (["--at", "nowhere"], "nowhere"),
        (["--flow", "2"], "from 0 to 1"),
        (["--snap", "-1"], "bytes from 0 (whole frames) to 65535"),
        (["-o", "run.qlog", "--snap", "10"], "--snap with a .pcapng or .parquet file"),
        (["-o", "run.parquet", "--snap", "10"], "--snap with a .pcapng file"),
        (["-o", "no/such/run.pcapng"], "no/such/run.pcapng: no such file or directory"),
        (["--time", "2s..1s"], "FROM before TO"),
        (["--cell", "3"], "from 1 to 2"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(
    command: Command, experiment: str, arguments: list[str], said: str
) -> None:
    cells = [] if "--cell" in arguments else ["--cell", "1"]
    found = command("trace", experiment, *cells, *arguments)
    assert found.returncode == 2
    assert said in found.stderr and len(found.stderr.splitlines()) == 1, found.stderr


def test_packets_of_a_stored_run() -> None:
    results = dumbbell.run(
        {"duration": "3s", "bottleneck": {"rate": "10Mbit", "aqm": "codel"}, "flows": [flow("cubic"), flow("bbr3")]}
    )
    rows = results.run().packets()
    assert rows["point"].unique(maintain_order=True).sort().to_list() == [
        "bottleneck",
        "bottleneck:out",
        "receiver",
        "sender",
    ]
    sent = rows.filter(
        (pl.col("point") == "sender") & (pl.col("direction") == "data") & pl.col("segment").is_not_null()
    )
    counted = sent.filter(pl.col("time_s") <= 3).group_by("flow").len().sort("flow")["len"].to_list()
    assert counted == results.flows.sort("flow")["sent"].to_list()
    assert rows["time_s"].is_sorted()
    some = results.run().packets("receiver", 1, (1.0, 2.0))
    assert some["flow"].unique().to_list() == [1]
    assert some.filter(~pl.col("flags").cast(pl.String).str.contains("SYN")).height > 100
    for text in (("1s", "2s"), ("1000ms", 2), "1s..2s"):
        assert results.run().packets("receiver", 1, text).equals(some)
    for wrong in (("2s", "1s"), (2, 1), ("1s",), (-1, 2), (1, float("inf")), (True, 2), ("1", "2"), 1, "1s"):
        with pytest.raises(InputError, match=r"time is .*; it must be .*FROM.*TO.*, such as"):
            results.run().packets(time=wrong)  # type: ignore[arg-type]
    several = dumbbell.run(
        {
            "duration": "1s",
            "seeds": [1, 2],
            "bottleneck": {"rate": "1Mbit", "aqm": "codel"},
            "flows": [flow("reno", start={"uniform": ["0s", "100ms"]})],
        }
    )
    with pytest.raises(InputError, match="2 runs"):
        again.repeat_packets(several._runs)
    with pytest.raises(InputError, match="2 runs"):
        several.run()
    of_run = several.run(seed=2).packets("sender")
    assert of_run.height > 50 and of_run.equals(again.repeat_packets(several.where(seed=2)._runs, "sender"))
    assert not of_run.equals(several.run(seed=1).packets("sender"))


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("import-4", "packets: the run was imported: another tool measured it; use a run of sim"),
        (
            "linux-6.12+x.y",
            "packets: the run is of engine linux-6.12+x.y, which cannot be repeated here; use a run of sim",
        ),
    ],
)
def test_packets_of_what_was_not_simulated_are_refused(version: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "results.duckdb"
    dumbbell.run(
        {"duration": "1s", "bottleneck": {"rate": "1Mbit", "aqm": "codel"}, "flows": [flow("reno")]}, output=path
    )
    with duckdb.connect(str(path)) as store:
        store.execute("UPDATE runs SET engine_version = ?", [version])
    with pytest.raises(InputError, match=re.escape(said)):
        dumbbell.open(path).run().packets()


def test_a_run_without_packets_costs_what_it_did_and_measures_the_same(tmp_path: Path) -> None:
    one = cell(CASES["codel"])
    written = recording.write(one, tmp_path / "run.pcapng", wanted.check_selection(one, [wanted.ALL]))
    plain = dumbbell.run(CASES["codel"], progress=False)
    assert written.hash == plain.runs["hash"][0]


BOTH_WAYS = """
duration = "5s"
[bottleneck]
rate = "20Mbit"
aqm = "fq_codel"
[reverse]
rate = "5Mbit"
aqm = "fq_codel"
[[flows]]
cc = "cubic"
base_rtt = "20ms"
count = 2
[[flows]]
cc = "cubic"
base_rtt = "20ms"
direction = "up"
[[udp]]
rate = "7840bit"
size = "98B"
echo = true
base_rtt = "30ms"
src_host = 7
dst_host = 8
"""


def test_a_trace_says_which_way_flows_go_and_what_pings_are(tmp_path: Path, command: Command) -> None:
    (tmp_path / "both.toml").write_text(BOTH_WAYS)
    assert command("trace", "both.toml", "-o", "both.pcapng").returncode == 0
    made = command("import", "both.pcapng", "-o", "x.duckdb", "--propose", "again.toml")
    assert made.returncode == 0 and "left out" not in made.stderr, made.stderr
    again = tomllib.loads((tmp_path / "again.toml").read_text())
    rates = [units.parse("rate", again[link]["rate"]) / 1e6 for link in ("bottleneck", "reverse")]
    assert rates == [pytest.approx(20, rel=0.02), pytest.approx(5, rel=0.02)]  # with acknowledgements
    up, down = again["flows"]
    assert (down["count"], down.get("direction"), up.get("count"), up["direction"]) == (2, None, None, "up")
    (ping,) = again["udp"]
    assert units.parse("time", ping.pop("base_rtt")) == pytest.approx(30e6, rel=0.02)
    assert ping == {"rate": "7.84kbit", "size": "98B", "echo": True}
    # as the measurement of the experiment it has the RTTs that the run has
    assert command("import", "both.pcapng", "--as", "both.toml", "-o", "r.duckdb").returncode == 0
    assert command("run", "both.toml", "-o", "r.duckdb").returncode == 0
    pings = dumbbell.open(tmp_path / "r.duckdb", engine="all").flows.filter(flow=3)
    assert pings.height == 2 and min(pings["answers"]) == max(pings["answers"]) > 40
    for name in ("rtt_min_ms", "rtt_mean_ms", "rtt_max_ms"):
        assert pings[name][0] == pytest.approx(pings[name][1], abs=0.001)
