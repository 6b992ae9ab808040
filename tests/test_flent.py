"""Data files of Flent: what is written is what Flent's plots need, and what is read comes back as it was."""

import bz2
import gzip
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import Command, described
from dumbbell import experiment
from dumbbell.errors import InputError
from dumbbell.exchange import formats, keep
from dumbbell.exchange.flent import flent_export
from dumbbell.exchange.flent import tests as flents
from dumbbell.exchange.flent.tests import Sender
from dumbbell.exchange.measurement import Measurement

TWO = described(
    duration="6s", seeds=[1],
    flows=[{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "bbr3", "base_rtt": "20ms", "start": "1s"}],
    record={"interval": "200ms"},
)  # fmt: skip
RRUL = described(
    duration="6s", seeds=[1], record={"interval": "200ms"},
    reverse={"rate": "5Mbit", "aqm": {"name": "codel", "ecn": True}}, hosts={"ecn": True},
    flows=[
        {"cc": "cubic", "base_rtt": "40ms", "count": 4},
        {"cc": "cubic", "base_rtt": "40ms", "count": 4, "direction": "up", "start": {"uniform": ["0s", "100ms"]}},
    ],
    udp=[{"rate": "7840bit", "size": "98B", "echo": True, "base_rtt": "40ms", "start": "250ms", "stop": "4s"}],
)  # fmt: skip
FAIR = described(
    duration="6s", seeds=[1], record={"interval": "200ms"},
    flows=[{"cc": "cubic", "base_rtt": "10ms"}, {"cc": "cubic", "base_rtt": "50ms", "count": 2}],
)  # fmt: skip
EXPERIMENTS = {"two": TWO, "rrul": RRUL, "fair": FAIR}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dumbbell.Results]:
    folder = tmp_path_factory.mktemp("flent")
    return {name: dumbbell.run(table, output=folder / f"{name}.duckdb") for name, table in EXPERIMENTS.items()}


@pytest.fixture(scope="module")
def files(runs: dict[str, dumbbell.Results], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    return {name: flent_export.export(found._runs, str(folder / f"{name}.flent.gz"))[0] for name, found in runs.items()}


def content(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


# what is written

NEEDED = ("NAME", "TITLE", "LENGTH", "STEP_SIZE", "LOCAL_HOST", "HOST", "T0", "TIME", "TOTAL_LENGTH", "SERIES_META")


@pytest.mark.parametrize(("name", "test"), [("two", "tcp_nup"), ("rrul", "rrul_be"), ("fair", "rtt_fair_var_up")])
def test_a_file_has_all_that_flent_needs(name: str, test: str, files: dict[str, Path]) -> None:
    data = content(files[name])
    assert data.keys() == {"version", "x_values", "results", "raw_values", "metadata"} and data["version"] == 4
    metadata = data["metadata"]
    assert metadata.keys() >= set(NEEDED) and metadata["NAME"] == test and metadata["STEP_SIZE"] == 0.2
    assert metadata["DATA_FILENAME"] == files[name].name
    assert data["x_values"] == pytest.approx([0.2 * n for n in range(1, 31)])
    for series, values in data["results"].items():
        assert len(values) == 30 and all(one is None or isinstance(one, int | float) for one in values), series
        assert metadata["SERIES_META"][series]["UNITS"]
    for series, samples in data["raw_values"].items():
        assert all(sample["t"] >= 946684800 for sample in samples), series


def test_series_are_those_of_the_run(files: dict[str, Path], runs: dict[str, dumbbell.Results]) -> None:
    data, series = content(files["two"]), runs["two"].series
    for number, name in ((0, "TCP upload::1"), (1, "TCP upload::2")):
        rows = series.filter(pl.col("flow") == number)
        wanted = dict(rows.select("time_s", "goodput_mbit").iter_rows())
        start = 1.0 if number else 0.0
        for time, value in zip(data["x_values"], data["results"][name], strict=True):
            assert value == (wanted[time] if time > start else None)
        samples = data["raw_values"][name]
        assert [one["val"] for one in samples] == [value for value in data["results"][name] if value is not None]
        assert [one["tcp_cwnd"] for one in samples] == rows.filter(pl.col("time_s") > start)["cwnd"].to_list()
    sums = [a + (b or 0) for a, b in zip(*(data["results"][f"TCP upload::{n}"] for n in (1, 2)), strict=True)]
    assert data["results"]["TCP upload sum"] == pytest.approx(sums)


def test_the_queue_is_written_as_flents_counters(files: dict[str, Path], runs: dict[str, dumbbell.Results]) -> None:
    data, queue = content(files["two"]), runs["two"].queue_series
    for key, column in (
        ("backlog_bytes", "backlog_bytes"),
        ("dropped", "drops"),
        ("ecn_mark", "ce_marks"),
        ("delay", "sojourn_mean_ms"),
    ):
        assert [one[key] for one in data["raw_values"]["qdisc_stats_bottleneck"]] == queue[column].to_list()
        assert data["results"][f"qdisc_stats_bottleneck::{key}"] == queue[column].to_list()
    assert data["metadata"]["TEST_PARAMETERS"]["qdisc_stats_hosts"] == "bottleneck"
    both = content(files["rrul"])["metadata"]["TEST_PARAMETERS"]
    assert both["qdisc_stats_hosts"] == "bottleneck,reverse"


def test_a_ping_is_told_only_where_it_follows(files: dict[str, Path], runs: dict[str, dumbbell.Results]) -> None:
    waited = runs["two"].queue_series["sojourn_mean_ms"].to_list()
    data = content(files["two"])
    assert data["results"]["Ping (ms) ICMP"] == pytest.approx([20 + one for one in waited])
    assert "not measured" in data["metadata"]["SERIES_META"]["Ping (ms) ICMP"]["NOTE"]
    fair = dumbbell.run(TWO | {"bottleneck": {"rate": "10Mbit", "aqm": "fq_codel"}})
    path = files["two"].with_name("fq.flent.gz")
    flent_export.export(fair._runs, str(path))  # a ping would not wait behind others
    assert set(content(path)["results"]["Ping (ms) ICMP"]) == {None}


def test_pings_that_were_measured_are_told_over_any_queue(tmp_path: Path) -> None:
    ping = {"rate": "20kbit", "size": "98B", "echo": True, "base_rtt": "20ms"}
    pinged = dumbbell.run(TWO | {"bottleneck": {"rate": "10Mbit", "aqm": "fq_codel"}, "udp": [ping]})
    (path,) = flent_export.export(pinged._runs, str(tmp_path / "pinged.flent.gz"))
    data = content(path)
    told = [value for value in data["results"]["Ping (ms) ICMP"] if value is not None]
    (flow,) = pinged.flows.filter(cc="ping").to_dicts()
    assert len(told) >= len(data["x_values"]) - 1 and "NOTE" not in data["metadata"]["SERIES_META"]["Ping (ms) ICMP"]
    assert sum(told) / len(told) == pytest.approx(flow["rtt_mean_ms"], rel=0.02)
    assert min(told) > 20 and max(told) <= flow["rtt_max_ms"]
    again = formats.read(path)  # and as they were, once they are read again
    series = next(one for one in again.flows if one.kind == "ping").series
    assert series["rtt_ms"].to_list() == pytest.approx(told)


def test_what_it_is_of_is_in_the_metadata(files: dict[str, Path], runs: dict[str, dumbbell.Results]) -> None:
    own = content(files["two"])["metadata"]["DUMBBELL"]
    row = runs["two"].runs.to_dicts()[0]
    assert {key: own[key] for key in ("key", "seed", "hash", "engine_version")} == {
        key: row[key] for key in ("key", "seed", "hash", "engine_version")
    }
    assert own["config"] == json.loads(row["config"])


def test_equal_runs_are_equal_files(files: dict[str, Path], runs: dict[str, dumbbell.Results], tmp_path: Path) -> None:
    (again,) = flent_export.export(runs["two"]._runs, str(tmp_path / "two.flent.gz"))
    assert again.read_bytes() == files["two"].read_bytes()
    (plain,) = flent_export.export(runs["two"]._runs, str(tmp_path / "two.flent"))
    (other,) = flent_export.export(runs["two"]._runs, str(tmp_path / "two.flent.bz2"))
    assert plain.read_bytes() == bz2.decompress(other.read_bytes()).replace(b"two.flent.bz2", b"two.flent")


@pytest.mark.parametrize(
    ("senders", "test", "series"),
    [
        (["flows down"], "tcp_nup", ["TCP upload::1"]),
        (["flows up", "flows up"], "tcp_nup", ["TCP upload::1", "TCP upload::2"]),
        (["flows down", "flows up", "ping up"], "rrul_be", ["TCP download BE", "TCP upload BE", "Ping (ms) ICMP"]),
        (
            ["flows down"] * 5 + ["flows up"],
            "rrul_be_nflows",
            [*(f"TCP download BE::{n}" for n in range(1, 6)), "TCP upload BE::1"],
        ),
        (["ping up", "ping up"], "ping", ["Ping (ms) ICMP", "Ping (ms) UDP BE1"]),
        (["flows down", "udp down"], "tcp_nup", ["TCP upload::1", "UDP download::1"]),
    ],
)
def test_a_test_is_chosen_by_the_traffic(senders: list[str], test: str, series: list[str]) -> None:
    chosen = flents.choose_test([Sender(one.split()[0], one.split()[1], 20.0, "cubic") for one in senders])
    assert (chosen.name, chosen.series) == (test, series)


def test_base_rtts_are_the_hosts_of_rtt_fair() -> None:
    chosen = flents.choose_test([Sender("flows", "down", rtt, "cubic") for rtt in (10.0, 50.0, 50.0)])
    assert chosen.hosts == ["10ms", "50ms", "50ms#2"]
    assert chosen.series == ["TCP upload BE1 10ms", "TCP upload BE2 50ms", "TCP upload BE3 50ms#2"]


def test_a_folder_has_a_file_per_run(tmp_path: Path, command: Command) -> None:
    (tmp_path / "m.toml").write_text(
        'duration = "2s"\nseeds = [1, 2]\n[bottleneck]\nrate = "10Mbit"\n[[flows]]\ncc = "cubic"\nbase_rtt = "20ms"\n'
        '[matrix]\n"bottleneck.aqm" = ["codel", "pie"]\n'
    )
    assert command("run", "m.toml", "-o", "m.duckdb").returncode == 0
    done = command("export", "m.duckdb", "--format", "flent", "-o", "out")
    assert done.returncode == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == sorted(
        f"tcp_nup-2000-01-01T000000.000000.m__{aqm}__seed_{seed}.flent.gz"
        for aqm in ("codel", "pie")
        for seed in (1, 2)
    )
    assert sorted(Path(line).name for line in done.stdout.splitlines()) == names
    for arguments, words in (
        (["-o", "one.flent.gz"], "and a file of Flent has one; choose one with --where KEY=VALUE"),
        (["--format", "flent", "-o", "m.toml"], "choose a folder that can be written to, with space, or NAME.flent.gz"),
        (["-o", "all.csv"], '--output is "all.csv"; it must be a folder for a file of each table, or NAME.flent.gz'),
        (["--format", "csv", "-o", "one.flent.gz"], "--format csv and the name one.flent.gz cannot be combined"),
        (["--format", "flent", "-o", "out"], "this file already exists"),
        (["-o", "none/one.flent.gz", "--where", "seed=1", "--where", "bottleneck.aqm=pie"], "none"),
    ):
        refused = command("export", "m.duckdb", *arguments)
        assert refused.returncode == 2 and words in refused.stderr and len(refused.stderr.splitlines()) == 1


def test_runs_without_time_series_are_refused(tmp_path: Path) -> None:
    found = dumbbell.run(TWO | {"record": {"series": False}})
    with pytest.raises(InputError, match="has no time series"):
        flent_export.export(found._runs, str(tmp_path / "x.flent.gz"))


# there and back


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_exported_run_comes_back(
    name: str, files: dict[str, Path], runs: dict[str, dumbbell.Results], tmp_path: Path
) -> None:
    one = keep.propose_experiment(files[name], formats.read(files[name]), "x")
    keep.keep(tmp_path / "r.duckdb", [one])
    back, there = dumbbell.open(tmp_path / "r.duckdb"), runs[name]
    assert [experiment.parse(tomllib.loads(one.text), "x").make_cell(0).cell_key] == there.runs["cell"].to_list(), (
        one.text
    )
    assert one.assumed == one.measured.notes == []
    assert back.runs["cell"].to_list() == there.runs["cell"].to_list()
    assert back.runs["experiment"].to_list() == there.runs["experiment"].to_list()
    left_out = {"key", "number", "wall_s", "engine_version", "kernel", "imported", "given", "hash", "config", "matrix"}
    for table in ("runs", "flows", "classes", "rtt", "sojourn", "hops", "queue_series", "hop_series", "series"):
        ours, theirs = there.frame(table), back.frame(table)
        if table == "series":
            life = "flow", "start_s"
            ours = (
                ours.join(there.flows.select(*life), on="flow")
                .filter(pl.col("time_s") > pl.col("start_s"))
                .drop("start_s")
            )
            ours = ours.filter(pl.col("cwnd") > 0)
            theirs = theirs.filter(pl.col("cwnd") > 0)
        assert ours.height == theirs.height, table
        lost = {"sce_marks", "capacity_mbit"} if table in ("queue_series", "hop_series") else set()
        lost |= {"packets", "sent", "drops"} if table.endswith("series") else set()
        lost |= {"ack_packets", "ack_drops"} if table == "hop_series" else set()
        for column in ours.columns:
            if column in left_out | lost or column not in theirs.columns:
                continue
            if ours[column].dtype.is_numeric():
                nothing = 0.0 if column == "srtt_ms" else -1.0
                a, b = (
                    one[column].cast(pl.Float64).fill_nan(None).fill_null(nothing).to_list() for one in (ours, theirs)
                )
                assert b == pytest.approx(a, rel=1e-9, abs=1e-9), (table, column)
            else:
                assert ours[column].to_list() == theirs[column].to_list(), (table, column)


def test_without_our_metadata_the_series_are_added_up(
    files: dict[str, Path], runs: dict[str, dumbbell.Results], tmp_path: Path
) -> None:
    data = content(files["rrul"])
    del data["metadata"]["DUMBBELL"]
    path = tmp_path / "x.flent"
    path.write_text(json.dumps(data))
    one = keep.propose_experiment(path, formats.read(path), "x")
    keep.keep(tmp_path / "r.duckdb", [one])
    back, there = dumbbell.open(tmp_path / "r.duckdb"), runs["rrul"]
    assert max(there.hops["drops"]) > 0 and max(there.hops["ce_marks"]) > 0
    for table in ("runs", "hops"):
        for column in ("drops", "ce_marks", "throughput_mbit"):
            assert back.frame(table)[column].to_list() == pytest.approx(there.frame(table)[column].to_list()), column
        waited = [found.frame(table)["sojourn_mean_ms"].to_list() for found in (back, there)]
        assert waited[0] == pytest.approx(waited[1], rel=0.1)  # packets of an interval count by their bytes
    assert back.hops["hop"].to_list() == ["bottleneck", "reverse"]
    ping = back.flows.filter(cc="ping").row(0, named=True)
    answered = back.frame("rtt").filter(pl.col("class") == ping["class"])
    assert answered["samples"].sum() == ping["answers"]
    # requests end with the interval of the last answer: those that came later were lost
    got = there.series.filter(flow=ping["flow"]).filter(pl.col("rtt_ms").is_not_nan())["time_s"]
    (udp,) = tomllib.loads(one.text)["udp"]
    assert (udp["rate"], udp["size"], udp["start"][:3], udp["stop"]) == ("3.92kbit", "98B", "0.3", f"{max(got):g}s")
    assert 3.8 <= float(udp["stop"][:-1]) <= 4.2, "the pings of the run stop at 4 s"
    assert sorted(text.partition(" = ")[0] for text in one.assumed) == ["udp[0].rate", "udp[0].size"]


def test_what_a_proposal_leaves_out_of_a_run_is_told(tmp_path: Path) -> None:
    alone = TWO | {"flows": TWO["flows"][:1]}
    other = dumbbell.run(alone | {"flows": [alone["flows"][0] | {"loss": 0.01}]})
    (path,) = flent_export.export(other._runs, str(tmp_path / "other.flent.gz"))
    one = keep.propose_experiment(path, formats.read(path), "x")
    assert one.measured.notes == ["the proposed experiment differs from that of the run in flows[0].loss"]
    named = keep.match_experiment(path, formats.read(path), experiment.parse(alone, "alone.toml").make_cell(0))
    assert named.measured.notes == ["dumbbell wrote this file from a run that differs from alone in flows[0].loss"]


def test_an_imported_file_is_exported_as_the_same_test(tmp_path: Path) -> None:
    data = foreign()
    path = tmp_path / "x.flent.gz"
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    keep.keep(tmp_path / "r.duckdb", [keep.propose_experiment(path, formats.read(path), "x")])
    (again,) = flent_export.export(dumbbell.open(tmp_path / "r.duckdb")._runs, str(tmp_path / "y.flent.gz"))
    back = content(again)
    assert back["metadata"]["NAME"] == "tcp_ndown" and back["metadata"]["T0"] == "2020-01-01T00:00:00.000000Z"
    assert back["x_values"] == data["x_values"]
    for series in ("TCP download::1", "TCP download::2", "Ping (ms) ICMP"):
        assert back["results"][series] == pytest.approx(data["results"][series]), series
    assert back["metadata"]["TEST_PARAMETERS"]["download_streams"] == "2"


# what others have written


def foreign(version: int = 4, **metadata: Any) -> dict[str, Any]:
    times = [0.2, 0.4, 0.6, 0.8, 1.0]
    results: dict[str, list[float | None]] = {
        "TCP download::1": [1.0, 2.0, 3.0, 4.0, 5.0],
        "TCP download::2": [5.0, 4.0, 3.0, 2.0, 1.0],
        "TCP download sum": [6.0] * 5,
        "Ping (ms) ICMP": [21.0, 22.5, 30.0, 24.0, 25.0],
    }
    zero = 1577836800.0
    raw = {
        name: [
            {"t": zero + t, "val": v} | ({"dur": 0.2} if "TCP" in name else {})
            for t, v in zip(times, values, strict=True)
        ]
        for name, values in results.items()
        if "sum" not in name
    }
    said = {"NAME": "tcp_ndown", "TITLE": "", "T0": "2020-01-01T00:00:00.000000Z", "STEP_SIZE": 0.2, "LENGTH": 1}
    said |= {
        "HOST": "server",
        "TEST_PARAMETERS": {"download_streams": "2"},
        "SERIES_META": {n: {"UNITS": "ms" if "Ping" in n else "Mbits/s"} for n in results},
    }
    return {"version": version, "x_values": times, "results": results, "raw_values": raw, "metadata": said | metadata}


def read(tmp_path: Path, data: Any, name: str = "x.flent") -> Measurement:
    path = tmp_path / name
    path.write_text(json.dumps(data))
    return formats.read(path)


def test_a_foreign_file_is_read_series_by_series(tmp_path: Path) -> None:
    found = read(tmp_path, foreign())
    assert [flow.name for flow in found.flows] == ["TCP download::1", "TCP download::2", "Ping (ms) ICMP"]
    first, _, ping = found.flows
    assert first.series["goodput_mbit"].to_list() == pytest.approx([1, 2, 3, 4, 5])
    assert first.figures["goodput_mbit"] == pytest.approx(3.0) and first.direction == "down"
    assert ping.figures["rtt_min_ms"] == 21.0 and ping.figures["answers"] == 5
    assert first.base_rtt is not None and first.base_rtt.text == "21ms"
    assert "rtt_mean_ms" not in first.figures and "cwnd_mean" not in first.figures


def test_what_was_plotted_stands_in_where_samples_are_missing(tmp_path: Path) -> None:
    data = foreign() | {"raw_values": {}}
    assert read(tmp_path, data).flows[0].series["goodput_mbit"].to_list() == pytest.approx([1, 2, 3, 4, 5])


def test_round_trips_per_second_are_round_trips(tmp_path: Path) -> None:
    data = foreign(version=3)
    data["results"]["Ping (ms) UDP BE1"] = [20.0] * 5
    data["raw_values"]["Ping (ms) UDP BE1"] = [{"t": 1577836800 + n / 5, "val": 50.0} for n in range(5)]
    (ping,) = [flow for flow in read(tmp_path, data).flows if flow.name == "Ping (ms) UDP BE1"]
    assert ping.figures["rtt_p50_ms"] == 20.0 and ping.gap_s == 0.02


def test_pings_left_at_even_spaces_whenever_they_were_answered(tmp_path: Path) -> None:
    rtts = [20.0, 60.0, 140.0, 20.0, 90.0, 30.0, 180.0, 20.0]
    data = foreign()
    data["results"]["Ping (ms) ICMP"] = [45.0] * 5
    data["raw_values"]["Ping (ms) ICMP"] = [
        {"t": 1577836800.0 + 0.05 * n + rtt / 1e3, "val": rtt} for n, rtt in enumerate(rtts)
    ]
    ping = read(tmp_path, data).flows[-1]
    assert ping.gap_s == pytest.approx(0.05, rel=1e-4) and ping.start_s == pytest.approx(0, abs=1e-5)


def test_counters_since_the_start_are_counted_per_interval(tmp_path: Path) -> None:
    for version, dropped in ((3, [2, 2, 5, 9, 9]), (4, [2, 0, 3, 4, 0])):
        data = foreign(version=version)
        samples = [{"t": 1577836800.2 + n / 5, "dropped": d, "backlog_pkts": n} for n, d in enumerate(dropped)]
        data["raw_values"]["qdisc_stats_router"] = samples
        found = read(tmp_path, data)
        assert found.queue is not None and found.queue["drops"].to_list()[1:] == [0, 3, 4, 0]
        assert found.queue["backlog_packets"].to_list() == [0, 1, 2, 3, 4]


def interface(*qdiscs: dict[str, Any], classes: Any = None) -> dict[str, Any]:
    return {"iface": "eth0", "qdiscs": list(qdiscs), "classes": classes}


FQ = {
    "name": "fq_codel",
    "params": {"limit": "10240p", "flows": "1024", "quantum": "1514", "target": "5.0ms", "interval": "100.0ms"},
}


@pytest.mark.parametrize(("ways", "run", "hops"), [(("down", "up"), 5, [5, 50]), (("down",), 5, []), (("up",), 50, [])])
def test_queues_are_those_of_the_interfaces_that_shape(
    ways: tuple[str, ...], run: int, hops: list[int], tmp_path: Path
) -> None:
    shaper = {"name": "tbf", "params": {"rate": "20Mbit"}}
    remote = {"near": {"EGRESS_INFO": interface(shaper, FQ)}, "far": {"INGRESS_INFO": interface(shaper, FQ)}}
    told = {"qdisc_stats_hosts": "near,far", "qdisc_stats_interfaces": "eth0,eth0"}
    data = foreign(REMOTE_METADATA=remote, TEST_PARAMETERS=told)
    for number, way in enumerate(ways, 1):
        data["results"][f"TCP {way}load::{number}"] = data["results"].pop(f"TCP download::{number}")
    if len(ways) == 1:
        del data["results"]["TCP download::2"]
    data["raw_values"] = {
        f"qdisc_stats_{host}": [{"t": 1577836800.2 + n / 5, "dropped": drops} for n in range(5)]
        for host, drops in (("far", 1), ("near", 10))
    }
    path = tmp_path / "x.flent"
    path.write_text(json.dumps(data))
    keep.keep(tmp_path / "r.duckdb", [keep.propose_experiment(path, formats.read(path), "x")])
    found = dumbbell.open(tmp_path / "r.duckdb")
    assert found.runs["drops"].to_list() == [run]
    assert [one["drops"] for one in found.hops.to_dicts()] == hops
    assert found.hop_series.height == len(hops) * 5


@pytest.mark.parametrize(
    ("metadata", "rate", "aqm"),
    [
        (
            {"INGRESS_INFO": interface(FQ, classes=[{"name": "htb", "params": {"rate": "20Mbit", "ceil": "20Mbit"}}])},
            "20Mbit",
            {
                "name": "fq_codel",
                "limit": 10240,
                "flows": 1024,
                "quantum": "1514B",
                "target": "5.0ms",
                "interval": "100.0ms",
                "ecn": False,
            },
        ),
        (
            {
                "REMOTE_METADATA": {
                    "router": {
                        "INGRESS_INFO": interface(
                            {"name": "cake", "params": {"bandwidth": "50Mbit", "besteffort": "flows", "raw": ""}}
                        )
                    }
                }
            },
            "50Mbit",
            {"name": "cake", "diffserv": "besteffort", "isolation": "flows"},
        ),
        ({"TITLE": "qdisc:sfq bandwidth:1Mbit/12Mbit rtt:20ms"}, "12Mbit", None),
        ({"DATA_FILENAME": "tcp_ndown-2016.sch_fq_pfifo_1000_bw_20Mbit_rtt_48ms_noecn.flent.gz"}, "20Mbit", None),
        ({"TITLE": "2Mbit"}, "6.274Mbit", None),  # more was measured than that
        ({}, "6.274Mbit", None),  # 6 Mbit/s of payload are 6.2735 as frames, and the link is not slower
    ],
)
def test_the_set_up_is_taken_from_the_metadata(metadata: dict[str, Any], rate: str, aqm: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.flent"
    path.write_text(json.dumps(foreign(**metadata)))
    made = keep.propose_experiment(path, formats.read(path), "x")
    table = tomllib.loads(made.text)
    ping = {"rate": "3.92kbit", "size": "98B", "echo": True}  # five answers are four spaces
    assert {key: one for key, one in table["udp"][0].items() if key != "base_rtt"} == ping
    assert table["bottleneck"]["rate"] == rate
    if aqm is not None:
        assert table["bottleneck"]["aqm"] == aqm and "bottleneck.aqm" in made.known
    else:
        assert any(text.startswith("bottleneck.aqm") for text in made.assumed)
    rtt = (  # 48 ms are more than the pings had
        {"12Mbit": "20ms"}.get(rate) if ("TITLE" in metadata or "DATA_FILENAME" in metadata) else None
    )
    assert table["flows"][0]["base_rtt"] == (rtt or "21ms")


@pytest.mark.parametrize(
    ("metadata", "cc"),
    [
        ({"TEST_PARAMETERS": {"tcp_cong_control": "reno,bbr"}}, "bbr1"),
        (
            {
                "SERIES_META": {
                    f"TCP download::{n}": {"UNITS": "Mbits/s", "COMMAND": "netperf -H x -K dctcp,dctcp"} for n in (1, 2)
                }
            },
            "dctcp",
        ),
        ({"REMOTE_METADATA": {"server": {"SYSCTLS": {"net.ipv4.tcp_congestion_control": "reno"}}}}, "reno"),
        ({}, "cubic"),
    ],
)
def test_the_congestion_control_is_that_of_the_sender(metadata: dict[str, Any], cc: str, tmp_path: Path) -> None:
    flow = read(tmp_path, foreign(**metadata)).flows[0]
    assert flow.cc is not None and flow.cc.text == cc and flow.cc.known == bool(metadata)


def test_damaged_figures_of_ours_leave_the_series(files: dict[str, Path], tmp_path: Path) -> None:
    data = content(files["two"])
    data["metadata"]["DUMBBELL"]["tables"]["flows"] = []
    found = read(tmp_path, data)
    assert len(found.flows) == 3 and found.exact is None  # with the ping
    assert "is damaged" in found.notes[-1]


# Files of tohojo/flent, tohojo/bufferbloat-net and dtaht/blog-cerowrt, which are not ours to ship


@pytest.mark.skipif("DUMBBELL_FLENT_FILES" not in os.environ, reason="no real files: DUMBBELL_FLENT_FILES=DIR")
def test_real_files_are_read() -> None:
    paths = sorted(Path(os.environ["DUMBBELL_FLENT_FILES"]).glob("*.flent.gz"))
    assert len(paths) >= 3
    for path in paths:
        try:
            made = keep.propose_experiment(path, formats.read(path), path.name)
        except InputError as error:
            assert "it has HTTP latency" in str(error), error
            continue
        assert keep.make_rows(made, 1, 0)["flows"].height > 0


# Flent itself


@pytest.fixture(scope="module")
def program() -> str:
    return os.environ.get("DUMBBELL_FLENT") or str(Path(sys.executable).with_name("flent"))


PLOTS = {
    "two": "totals box_totals upload upload_with_ping_and_tcp_rtt tcp_cwnd tcp_rtt tcp_rtt_cdf ping_cdf"
    " backlog drops delay",
    "rrul": "totals box_totals all all_scaled download upload ping ping_cdf tcp_cwnd tcp_rtt box_download bar_combine",
    "fair": "totals box_totals bar_fairness tcp_rtt tcp_cwnd",
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "plot"), [(name, plot) for name, plots in PLOTS.items() for plot in plots.split()])
def test_flent_draws_what_is_written(
    name: str, plot: str, files: dict[str, Path], program: str, tmp_path: Path
) -> None:
    picture = tmp_path / "p.png"
    done = subprocess.run(
        [program, "-p", plot, "-o", str(picture), str(files[name])],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0 and picture.stat().st_size > 5000, said
    assert "Traceback" not in said and "WARNING" not in said, said


def test_flents_own_figures_are_those_of_the_run(
    files: dict[str, Path], runs: dict[str, dumbbell.Results], program: str
) -> None:
    done = subprocess.run(
        [program, "-f", "stats", str(files["two"])], capture_output=True, text=True, timeout=60, check=True
    )
    for number, row in enumerate(runs["two"].flows.to_dicts(), 1):
        block = done.stdout.partition(f" TCP upload::{number}:\n")[2]
        mean = next(line for line in block.splitlines() if "Mean" in line).split(":")[1].split()[0]
        assert float(mean) == pytest.approx(row["goodput_mbit"], rel=0.05)  # of intervals, not of the whole time
