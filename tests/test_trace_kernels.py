"""`dumbbell trace --engine`: packets that kernels sent, in which tshark sees what the same run measured."""

import dataclasses
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from conftest import Command
from dumbbell import _native
from dumbbell.engines import find_engine
from dumbbell.engines.base import Captures
from dumbbell.engines.linux import engine as linux_engine
from dumbbell.engines.linux import kernels, mapping
from dumbbell.engines.linux.points import CapturePoint
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.packets import recording, wanted
from real_linux import require_engine
from tshark import GOOD, expected_duplicates, flow, headers, program, seen, there

FIRST_PORT = 10_000  # of senders, with kernels


def experiment_of(aqm: Any, *flows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"duration": "4s", "bottleneck": {"rate": "20Mbit", "aqm": aqm}, "flows": list(flows), **more}


MARKS = experiment_of(
    {"name": "codel", "ecn": True}, flow("cubic"), flow("reno", "40ms", ecn=False), hosts={"ecn": True}
)
LOSSES = experiment_of({"name": "pfifo", "limit": 40}, flow("cubic", ecn=False), flow("cubic", "50ms", ecn=False))
BOTH_WAYS = experiment_of(
    "fq_codel",
    flow("cubic"),
    flow("cubic", "30ms", direction="up"),
    reverse={"rate": "3Mbit", "aqm": {"name": "pfifo", "limit": 30}},
)
BURSTS = MARKS | {"hosts": {"offload": "gso", "ecn": True}}


def live() -> Captures:
    """Return the engine, or skip the test."""
    if not hasattr(_native, "live_run"):
        pytest.skip("live runs need Linux")
    found = find_engine("live")
    assert isinstance(found, Captures)
    return found


@dataclasses.dataclass
class Traced:
    """One run: its packets in a file and as rows, and what it measured."""

    file: Path
    rows: pl.DataFrame
    summary: dict[str, Any]
    tables: dict[str, pl.DataFrame]


def traced(engine: Captures, source: dict[str, Any], file: Path, tries: int = 3) -> Traced:
    """Carry out a run; skips where network namespaces are not allowed, or where the machine loses frames."""
    one = parse(dict(source), "experiment").make_cell(0)
    try:
        run = _traced(engine, one, file)
    except InputError as error:
        pytest.skip(str(error))
    if lost := run.summary.get("frames_lost", 0):
        if tries == 1:
            pytest.skip(f"this machine is too late, 3 times: {lost} frames were lost")
        return traced(engine, source, file, tries - 1)
    return run


def _traced(engine: Captures, one: Cell, file: Path) -> Traced:
    with engine.capture_run(one) as (result, files):
        count, _ = _native.write_captured(
            one.config, files, file, **wanted.check_selection(one, ["sender"], snap=0).keywords
        )
        height, rows = _native.write_captured(one.config, files, **wanted.check_selection(one, [wanted.ALL]).keywords)
    frame = pl.DataFrame(rows)
    assert frame.height == height and frame.filter(point="sender").height == count
    tables = {name: pl.DataFrame(pa.table(table)) for name, table in _native.gather([result])}
    return Traced(file, frame, json.loads(result.summary), tables)


def average_polls(times: list[float], rtts: list[str]) -> float:
    """Return the mean of what a sender that smooths these RTTs (RFC 6298) tells every 200 ms, ms."""
    smoothed, polls, due = 0.0, [], 0.2
    for time, rtt in zip(times, rtts, strict=True):
        while time > due and smoothed:
            polls.append(smoothed)
            due += 0.2
        if rtt:
            smoothed += (1e3 * float(rtt) - smoothed) / (8 if smoothed else 1)
    return statistics.mean(polls)


def check(tshark: str, run: Traced, *, rtt_ms: float) -> None:
    """Hold tshark against what the run measured, whose smallest RTTs are known to `rtt_ms`."""
    found = seen(tshark, run.file)
    assert found["_ws.malformed"].unique().to_list() == [""]
    assert found["tcp.checksum.status"].unique().to_list() == [GOOD] == found["ip.checksum.status"].unique().to_list()
    assert found.filter(pl.col("frame.len") != pl.col("frame.cap_len")).is_empty()
    assert found["frame.len"].cast(pl.Int64).max() <= 1514  # type: ignore[operator]
    for row in run.tables["flows"].sort("flow").rows(named=True):
        own = run.rows.filter(point="sender", flow=row["flow"])
        port = str(FIRST_PORT + row["flow"])
        data, acks = (found.filter(pl.col(f"tcp.{end}") == port) for end in ("srcport", "dstport"))
        again = data.filter(there("tcp.analysis.retransmission") | there("tcp.analysis.out_of_order"))
        # the kernel counts until its sender is asked, and a packet may leave at that instant
        assert again.height == pytest.approx(row["retransmissions"], abs=1)
        assert own["retransmission"].sum() == again.height
        assert data.filter(pl.col("tcp.len") != "0").height == pytest.approx(row["sent"], abs=8)
        assert acks.filter(there("tcp.analysis.duplicate_ack")).height == expected_duplicates(own)
        assert not data.filter(there("tcp.analysis.lost_segment")).height
        assert not acks.filter(there("tcp.analysis.ack_lost_segment")).height
        rtts = [1e3 * float(one) for one in acks["tcp.analysis.ack_rtt"] if one]
        assert min(rtts) == pytest.approx(row["rtt_min_ms"], abs=rtt_ms)
        times = own.filter(direction="ack")["time_s"].to_list()
        assert average_polls(times, acks["tcp.analysis.ack_rtt"].to_list()) == pytest.approx(
            row["rtt_mean_ms"], rel=0.2
        )
        windows = acks.filter(pl.col("tcp.window_size") != "")["tcp.window_size"].cast(pl.Int64)
        assert windows.to_list() == own.filter(direction="ack")["window"].to_list()
        in_flight = data.filter(there("tcp.analysis.bytes_in_flight"))["tcp.analysis.bytes_in_flight"].cast(pl.Int64)
        assert in_flight.max() <= windows.max()  # type: ignore[operator]


def happened(run: Traced, point: str, what: str) -> dict[int, int]:
    """Return of each flow how many data packets at a point were marked, or dropped, at the hop of that name."""
    hop = point.removesuffix(":out")
    rows = run.rows.filter(pl.col(f"{what}_hop") == hop, point=point, direction="data")
    return dict(rows.group_by("flow").len().iter_rows())


@pytest.fixture
def tshark() -> str:
    return program()


@pytest.mark.slow
@pytest.mark.parametrize("source", [MARKS, LOSSES, BURSTS], ids=["marks", "losses", "bursts"])
def test_what_tshark_sees_is_what_linux_measured(tshark: str, tmp_path: Path, source: dict[str, Any]) -> None:
    run = traced(require_engine(), source, tmp_path / "run.pcapng")
    check(tshark, run, rtt_ms=0.002)
    check_queue(run)
    dropped = run.rows.filter(pl.col("drop_s") <= 4, point="bottleneck")
    if source is LOSSES:
        check_losses(run)
    else:
        assert happened(run, "bottleneck:out", "mark")[0] > 3 and happened(run, "bottleneck", "drop")[1] > 3
        assert dropped["drop_place"].null_count() == dropped.height
        assert run.rows["mark_reason"].null_count() == run.rows.height


@pytest.mark.slow
@pytest.mark.parametrize("at", ["sender", "receiver"])
def test_the_simulator_writes_the_headers_of_linux(tshark: str, tmp_path: Path, at: str) -> None:
    one = parse(experiment_of({"name": "codel", "ecn": True}, flow("cubic")), "experiment").make_cell(0)
    asked = wanted.check_selection(one, [at], snap=0)
    recording.write(one, simulated := tmp_path / "sim.pcapng", asked)
    recording.write(one, captured := tmp_path / "linux.pcapng", asked, require_engine())
    # handshake, the initial window and the first ACKs of it, before clocks that differ by some us round differently
    assert headers(tshark, simulated, 60) == headers(tshark, captured, 60)


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.parametrize("source", [MARKS, LOSSES], ids=["marks", "losses"])
def test_what_tshark_sees_is_what_was_measured_live(tshark: str, tmp_path: Path, source: dict[str, Any]) -> None:
    run = traced(live(), source, tmp_path / "run.pcapng")
    # the kernel's own begin and end within the host
    check(tshark, run, rtt_ms=1)
    check_queue(run)
    if source is LOSSES:
        check_losses(run)
    else:
        assert happened(run, "bottleneck:out", "mark")[0] > 3 and happened(run, "bottleneck", "drop")[1] > 3
        dropped = run.rows.filter(pl.col("drop_hop").is_not_null(), point="bottleneck")
        assert dropped["drop_place"].unique().to_list() == ["in the queue"]
        marked = run.rows.filter(pl.col("mark_hop").is_not_null())
        assert marked["mark_reason"].unique().to_list() == ["aqm"]


def check_queue(run: Traced) -> None:
    """Hold what became of packets against the counters of the run, which lasts 4 s."""
    flows = run.tables["flows"]
    for row in flows.rows(named=True):
        number = row["flow"]
        # flows are counted for half a base RTT longer
        assert happened(run, "bottleneck", "drop").get(number, 0) == pytest.approx(row["drops"], abs=2)
        marked = happened(run, "bottleneck:out", "mark").get(number, 0)
        assert marked == pytest.approx(row["ce_marks"], abs=2)
        # ECN bits as they left the queue, and as they came; one may be under way at the end
        for point in ("bottleneck:out", "receiver"):
            of_flow = run.rows.filter(point=point, flow=number, direction="data")
            assert marked - of_flow.filter(ecn="CE").height in (0, 1)
    dropped = run.rows.filter(pl.col("drop_s") <= 4, point="bottleneck")
    reasons = {"overflow": run.summary["drops_overflow"], "aqm": run.summary["drops_aqm"]}
    assert dict(dropped["drop_reason"].value_counts().iter_rows()) == {key: n for key, n in reasons.items() if n}


def check_losses(run: Traced) -> None:
    """Packets were dropped as they arrived, of both flows, and receivers said what they had got."""
    dropped = run.rows.filter(pl.col("drop_hop").is_not_null(), point="bottleneck")
    assert dropped.height > 20 and run.tables["flows"]["drops"].min() > 0  # type: ignore[operator]
    assert run.rows.filter(point="sender")["sack"].is_not_null().sum() > 100
    assert dropped["drop_place"].unique().to_list() == ["on arrival"]
    assert (dropped["drop_s"] == dropped["time_s"]).all()


@pytest.mark.timed
@pytest.mark.parametrize("engine", [require_engine, pytest.param(live, marks=pytest.mark.long)])
def test_each_flow_has_its_sender_where_it_sends(tshark: str, tmp_path: Path, engine: Callable[[], Captures]) -> None:
    run = traced(engine(), BOTH_WAYS, tmp_path / "run.pcapng")
    check(tshark, run, rtt_ms=0.01 if engine is require_engine else 1)
    for number, hop in ((0, "bottleneck"), (1, "reverse")):
        of_flow = run.rows.filter(flow=number)
        back = {"bottleneck": "reverse", "reverse": "bottleneck"}[hop]
        points = {(point, direction) for point, direction in of_flow.select("point", "direction").unique().iter_rows()}
        ends = {(point, direction) for point in ("sender", "receiver") for direction in ("data", "ack")}
        assert points == ends | {
            (f"{of}{out}", to) for of, to in ((hop, "data"), (back, "ack")) for out in ("", ":out")
        }
        first = [of_flow.filter(point=point, direction="data")["time_s"][0] for point in ("sender", hop, "receiver")]
        # on Linux, half of the base RTT lies ahead of the queue of what is sent down, and behind that of what is sent
        # up; live, all of it lies behind the latter
        rtt = (0.020, 0.030)[number]
        one_way = rtt / 2 if engine is require_engine else (0, rtt)[number]
        assert first[2] - first[0] == pytest.approx(one_way, abs=0.002)
        assert first[1] - first[0] == pytest.approx(one_way if number == 0 else 0, abs=0.002)
    hops = run.tables["hops"]
    for name in ("bottleneck", "reverse"):
        dropped = run.rows.filter(pl.col("drop_hop") == name, pl.col("drop_s") <= 4, point=name).height
        assert dropped == hops.filter(hop=name)["drops"][0]
    assert happened(run, "reverse", "drop")[1] > 3


@pytest.mark.slow
def test_rows_and_files_are_of_what_is_asked(tshark: str, tmp_path: Path) -> None:
    engine, one = require_engine(), parse(MARKS, "experiment").make_cell(0)
    path = tmp_path / "run.pcapng"
    asked = wanted.check_selection(one, ["bottleneck", "bottleneck:out"], [0], (1.0, 2.0))
    written = recording.write(one, path, asked, engine)
    found = seen(tshark, path)
    assert found["frame.interface_name"].unique().sort().to_list() == ["bottleneck", "bottleneck:out"]
    assert found.height == written.packets > 1000 and set(found["tcp.srcport"]) == {str(FIRST_PORT)}
    rows, digest = recording.record_packets(one, asked, engine)
    assert (rows.height, digest) == (written.packets, written.hash)
    late = rows.filter(pl.col("payload") > 0)["time_s"]
    assert late.min() >= 1.0 and late.max() <= 2.0  # type: ignore[operator]
    assert rows["segment"].null_count() == rows.height


@pytest.mark.timed
@pytest.mark.parametrize("engine", ["linux", pytest.param("live", marks=pytest.mark.long)])
def test_the_command_writes_what_the_name_says(tmp_path: Path, command: Command, engine: str) -> None:
    found = require_engine() if engine == "linux" else live()
    traced(found, MARKS | {"duration": "1s"}, tmp_path / "it-works.pcapng")
    (tmp_path / "one.toml").write_text('duration = "1s"\n[bottleneck]\naqm = "codel"\n[[flows]]\ncc = "reno"\n')
    for name in ("run.pcapng", "run.parquet"):
        said = command("trace", "one.toml", "--engine", engine, "-o", name)
        assert (said.returncode, said.stdout) == (0, f"{name}\n"), said.stderr
        assert ("not quite the same on Linux: bottleneck.shaper" in said.stderr) == (engine == "linux")
    assert f"engine {engine}-".encode() in (tmp_path / "run.pcapng").read_bytes()[:2000]
    assert pl.read_parquet(tmp_path / "run.parquet").filter(point="receiver").height > 100


@pytest.mark.slow
def test_a_guest_that_cannot_capture_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, one = require_engine(), parse(MARKS, "experiment").make_cell(0)

    def nowhere(cell: Cell, kernel: kernels.Kernel) -> Any:
        return dataclasses.replace(mapping.map_cell(cell, kernel), points=(CapturePoint("into", 0, "M", "none"),))

    monkeypatch.setattr(linux_engine, "map_cell", nowhere)
    with pytest.raises(RuntimeError, match="none in M: No such device"), engine.capture_run(one):
        pass


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engine", "linx"], "linux"),
        (["--engine", "live", "-o", "run.qlog"], "--engine sim, or linux or live with a .pcapng or .parquet file"),
    ],
)
def test_an_engine_that_cannot_is_said_in_one_line(
    tmp_path: Path, command: Command, arguments: list[str], said: str
) -> None:
    (tmp_path / "one.toml").write_text('duration = "1s"\n[bottleneck]\naqm = "codel"\n[[flows]]\ncc = "reno"\n')
    found = command("trace", "one.toml", *arguments)
    assert found.returncode == 2
    assert said in found.stderr and len(found.stderr.splitlines()) == 1, found.stderr


@pytest.mark.slow
def test_simulator_and_kernel_part_where_both_sides_say(command: Command, tmp_path: Path) -> None:
    """Up to that packet all headers are the same, and most times are less than that of a frame apart."""
    require_engine()
    (tmp_path / "one.toml").write_text(
        'duration = "2s"\nbottleneck = { rate = "20Mbit", aqm = { name = "pfifo", limit = 40 } }\n'
        'flows = [{ cc = "cubic", base_rtt = "20ms", ecn = false }]\n'
    )
    done = command("diff", "one.toml", "--packets", "--engine", "sim", "--engine", "linux")
    assert done.returncode in (0, 1), done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|    0 |")]
    assert len(rows) == 2, done.stdout
    for row in rows:
        _, _, _, _, equal, _, median, _ = (part.strip() for part in row.strip("|").split("|"))
        assert int(equal) > 100
        assert float(median) < 1514 * 8 / 20  # us at 20 Mbit/s
