"""What `dumbbell import` makes of captures of runs that are known: traces of simulations."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import captures
import dumbbell
from conftest import Command
from dumbbell.exchange import formats
from dumbbell.exchange.pcap import packets, records
from dumbbell.experiment import units

TWO = """
duration = "10s"
seeds = [1]
[bottleneck]
rate = "20Mbit"
aqm = {aqm}
[[flows]]
cc = "{first}"
base_rtt = "20ms"
[[flows]]
cc = "cubic"
base_rtt = "20ms"
"""


@pytest.fixture
def traced(tmp_path: Path, command: Command) -> Callable[..., dict[str, Any]]:
    """Simulates two flows, imports their packets, returns the experiment that is proposed and the first flow's CE."""

    def proposed(at: str, **values: str) -> dict[str, Any]:
        (tmp_path / "two.toml").write_text(TWO.format(**values))
        assert command("trace", "two.toml", "--at", at, "-o", "two.pcapng").returncode == 0
        made = command("import", "two.pcapng", "-o", "r.duckdb", "--propose", "as.toml")
        assert made.returncode == 0, made.stderr
        table = tomllib.loads((tmp_path / "as.toml").read_text())
        results = dumbbell.open(tmp_path / "r.duckdb", engine="all")
        found, found_runs = results.flows, results.runs
        ours = dumbbell.run(tmp_path / "two.toml", output=tmp_path / "s.duckdb", progress=False).flows
        marks = found["ce_received"][0], ours["ce_received"][0]
        assert "simulated by dumbbell" in json.loads(found_runs["imported"][0])["comment"]
        # flows keep their order, whoever got most
        assert [port.rpartition(":")[2] for port in found["source"]] == ["50000", "50001"]
        return table | {"marks": marks, "sources": found["source"].to_list()}

    return proposed


def test_the_link_of_a_capture_is_found_again_where_losses_were(traced: Callable[..., dict[str, Any]]) -> None:
    """Holes that are filled acknowledge much at once: SACK says when it passed."""
    table = traced("sender", aqm='{ name = "pfifo", limit = 250 }', first="bbr3")
    assert units.parse("rate", table["bottleneck"]["rate"]) == pytest.approx(20e6, rel=0.01)
    assert table["bottleneck"]["aqm"]["limit"] == pytest.approx(250, rel=0.02)
    assert len(table["flows"]) == 2  # one of them is not CUBIC, as their shares show


@pytest.mark.parametrize("at", ["sender", "receiver"])
def test_marks_and_l4s_show_in_a_capture(traced: Callable[..., dict[str, Any]], at: str) -> None:
    table = traced(at, aqm='"dualpi2"', first="prague")
    assert table["bottleneck"] == {"rate": "20Mbit", "aqm": {"name": "dualpi2"}} and table["hosts"] == {"ecn": True}
    assert [one["cc"] for one in table["flows"]] == ["prague", "cubic"]
    counted, wanted = table["marks"]  # at the sender by AccECN's counter, which comes half a round trip later
    assert wanted > 500 and counted == pytest.approx(wanted, abs=20)


def of_both(folder: Path, command: Command, experiment: str, at: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return table `flows` of a run, and of what its trace was imported as."""
    (folder / "lab.toml").write_text(experiment)
    assert command("trace", "lab.toml", "--at", at, "-o", "lab.pcapng").returncode == 0
    made = command("import", "lab.pcapng", "--as", "lab.toml", "-o", "lab.duckdb")
    assert made.returncode == 0, made.stderr
    ours = dumbbell.run(folder / "lab.toml", output=folder / "s.duckdb", progress=False).flows
    return ours, dumbbell.open(folder / "lab.duckdb", engine="import").flows


@pytest.mark.parametrize(("at", "near"), [("sender", 0.02), ("receiver", 0.05)])
def test_rtts_are_those_of_the_sender_with_losses_too(tmp_path: Path, command: Command, at: str, near: float) -> None:
    """SACK gives samples while a hole is open; what fills a hole gives none, even where the loss was not seen."""
    experiment = TWO.format(aqm='{ name = "pfifo", limit = 60 }', first="bbr3")
    ours, theirs = of_both(tmp_path, command, experiment, at)
    assert ours["retransmissions"].sum() > 20
    for name in ("rtt_p50_ms", "rtt_p95_ms", "rtt_p99_ms", "rtt_mean_ms", "rtt_max_ms", "goodput_mbit"):
        assert theirs[name].to_list() == pytest.approx(ours[name].to_list(), rel=near), name
    kept = [dumbbell.open(tmp_path / f"{name}.duckdb", engine="all") for name in ("lab", "s")]
    counts = [results.rtt["samples"].sum() for results in kept]
    assert at == "receiver" or counts[0] == pytest.approx(counts[1], rel=0.01)


def test_what_ends_by_itself_is_as_long_as_it_was(tmp_path: Path, command: Command) -> None:
    experiment = TWO.format(aqm='"codel"', first="reno").replace("[[flows]]", '[[flows]]\nsize = "300kB"', 1)
    ours, theirs = of_both(tmp_path, command, experiment, "sender")
    assert theirs["goodput_mbit"].to_list() == pytest.approx(ours["goodput_mbit"].to_list(), rel=0.001)
    assert theirs["completion_s"][0] == pytest.approx(ours["completion_s"][0], rel=0.001)
    assert theirs["completion_s"][1] is None
    assert command("import", "lab.pcapng", "-o", "p.duckdb", "--propose", "p.toml").returncode == 0
    flows = tomllib.loads((tmp_path / "p.toml").read_text())["flows"]
    assert [one.get("size") for one in flows] == ["300kB", None]


def test_a_capture_that_begins_later_knows_no_empty_path(tmp_path: Path, command: Command) -> None:
    """ACKs of what was sent before it are no round trips, and the smallest one is that of a full queue."""
    (tmp_path / "lab.toml").write_text(TWO.format(aqm='{ name = "pfifo", limit = 250 }', first="cubic"))
    assert command("trace", "lab.toml", "-o", "lab.pcapng", "--time", "4s..8s").returncode == 0
    raw = (tmp_path / "lab.pcapng").read_bytes()
    found = packets.read(records.read(tmp_path / "lab.pcapng", raw))
    later = [  # without the handshakes, which a trace has always
        captures.Frame(found.time_ns[n] / 1e9, raw[at : at + kept], int(length))
        for n, (at, kept, length) in enumerate(zip(*_frames(tmp_path / "lab.pcapng", raw), strict=True))
        if found.time_ns[n] >= 4e9
    ]
    (tmp_path / "late.pcap").write_bytes(captures.pcap(later, nano=True))
    for flow in formats.read(tmp_path / "late.pcap").flows:
        assert flow.base_rtt is not None and not flow.base_rtt.known
        assert units.parse("time", flow.base_rtt.text) > 60e6  # 20 ms, and a queue that is never empty
        assert flow.rtts_ms is not None and flow.rtts_ms.min() > 60


def _frames(path: Path, raw: bytes) -> tuple[Any, Any, Any]:
    all_ = records.read(path, raw)
    return all_.at.tolist(), all_.captured.tolist(), all_.length.tolist()
