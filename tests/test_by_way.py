"""Runs of Flent's RRUL: the reference, the reader, and what a run of the same has in it."""

import csv
import gzip
import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dumbbell
from conftest import Command
from dumbbell.errors import InputError
from dumbbell.experiment import load, shipped
from dumbbell.pages import study
from dumbbell.published import by_way
from dumbbell.published.compare import matches_qdisc
from dumbbell.results.results import StoredResults

REFERENCE = shipped.list_references()["flent-rrul"]
EXPERIMENTS = ("home/flent-110-10", "home/flent-ack-filter")
ONE = """\
duration = "4s"
[bottleneck]
rate = "20Mbit"
aqm = "cake"
[reverse]
rate = "2Mbit"
aqm = { name = "cake", ack_filter = "on" }
[hosts]
ecn = true
[[flows]]
cc = "cubic"
base_rtt = "30ms"
count = 2
[[flows]]
cc = "cubic"
base_rtt = "30ms"
direction = "up"
[[udp]]
rate = "7840bit"
size = "98B"
echo = true
base_rtt = "30ms"
direction = "up"
"""
ROW = {
    "source": "a-post",
    "time": "2020-01-01T00:00:00",
    "qdisc": "cake",
    "qdisc_up": "cake ack-filter",
    "cc1": "cubic",
    "pacing": "cc",
    "ecn": "1",
    "flows_down": "2",
    "flows_up": "1",
    "rate_mbit": "20",
    "up_mbit": "2",
    "delay_ms": "30",
    "seconds": "4",
    "goodput_down_mbit": "10",
    "goodput_up_mbit": "1",
    "ping_p50_ms": "31",
    "ping_p99_ms": "40",
}


def written(path: Path, *rows: dict[str, str]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(ROW))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> StoredResults:
    folder = tmp_path_factory.mktemp("both-ways")
    (folder / "one.toml").write_text(ONE)
    dumbbell.run(folder / "one.toml", ["seeds=[1, 2]"], output=folder / "one.duckdb")
    return StoredResults(folder / "one.duckdb")


def test_sums_each_way_and_percentiles_of_pings(results: StoredResults, tmp_path: Path) -> None:
    figures = by_way.read(written(tmp_path / "r.csv", ROW))
    pairs = {pair.figure.metric: pair for pair in by_way.compare(results.runs, results.flows, figures).pairs}
    assert set(pairs) == set(by_way.MEASURES) and {pair.seeds for pair in pairs.values()} == {2}
    flows = results.flows.to_dicts()

    def mean(column: str, *ccs: str, direction: str) -> float:
        return sum(float(r[column]) for r in flows if r["cc"] in ccs and r["direction"] == direction) / 2

    down, up = (mean("goodput_mbit", "cubic", direction=way) for way in ("down", "up"))
    assert 10 < down < 19.2 and 0.5 < up < 1.92, "payload of a full link at most"
    assert pairs["goodput_down_mbit"].simulated == pytest.approx(down)
    assert pairs["goodput_down_mbit"].error == pytest.approx((down - 10) / 20), "of the rate down"
    assert pairs["goodput_up_mbit"].error == pytest.approx((up - 1) / 2), "of the rate up"
    assert pairs["ping_p50_ms"].simulated == pytest.approx(mean("rtt_p50_ms", "ping", direction="up"))
    assert pairs["ping_p99_ms"].error == pytest.approx(mean("rtt_p99_ms", "ping", direction="up") - 40), "ms"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("qdisc", "cake flowblind"),
        ("qdisc_up", "cake"),
        ("qdisc_up", "cake ack-filter-aggressive"),
        ("cc1", "reno"),
        ("pacing", "fq"),
        ("ecn", "0"),
        ("flows_down", "1"),
        ("flows_up", "2"),
        ("rate_mbit", "2"),
        ("up_mbit", "20"),
        ("delay_ms", "40"),
        ("seconds", "5"),
    ],
)
def test_every_column_decides(results: StoredResults, tmp_path: Path, column: str, value: str) -> None:
    figures = by_way.read(written(tmp_path / "r.csv", ROW | {column: value}))
    compared = by_way.compare(results.runs, results.flows, figures)
    assert not compared.pairs and compared.missing == len(by_way.MEASURES)


def test_other_traffic_is_no_answer(tmp_path: Path) -> None:
    figures = by_way.read(written(tmp_path / "r.csv", ROW))
    head, ping = ONE.split("[[udp]]\n")
    web = '[[web]]\ncc = "cubic"\nbase_rtt = "30ms"\narrivals = "5/s"\nsize = "10kB"\n'
    udp = '[[udp]]\nrate = "7840bit"\n'
    others = {"web": ONE + web, "no ping": head, "two pings": f"{ONE}[[udp]]\n{ping}", "no echo": head + udp}
    others["one way"] = ONE.replace('[reverse]\nrate = "2Mbit"\naqm = { name = "cake", ack_filter = "on" }\n', "")
    others["one way"] = others["one way"].replace('direction = "up"\n', "")
    for name, text in others.items():
        (tmp_path / f"{name}.toml").write_text(text)
        found = dumbbell.run(tmp_path / f"{name}.toml", output=tmp_path / f"{name}.duckdb")
        assert not by_way.compare(found.runs, found.flows, figures).pairs, name


def test_a_file_that_cannot_be_read_names_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", ROW, ROW | {"up_mbit": "fast"})
    with pytest.raises(InputError, match=r"r\.csv: line 3: .*fast"):
        by_way.read(path)


def test_compare_prints_a_row_per_run(results: StoredResults, tmp_path: Path, command: Command) -> None:
    said = command("validate", str(results.path), str(written(tmp_path / "r.csv", ROW))).stdout
    (row,) = [line for line in said.splitlines() if line.startswith("| 2020-01-01")]
    assert row.split("|")[2].strip() == "cake / cake ack-filter" and row.split("|")[3].strip() == "20/2"
    assert "Compared: 4 of the 4 figures" in said


def test_the_reference_is_read_and_every_cell_is_a_combination_of_the_experiments() -> None:
    figures = by_way.read(REFERENCE)
    assert len({figure.table for figure in figures}) == 25 and len(figures) == 100
    wanted = {tuple(dict(f.cell)[c] for c in ("qdisc", "qdisc_up", "ecn", "pacing", "delay_ms")) for f in figures}
    combinations = sum(len(load(name)) // len(load(name).seeds) for name in EXPERIMENTS)
    assert len(wanted) == combinations == 23


@pytest.mark.parametrize(
    ("name", "settings"),
    [(EXPERIMENTS[0], []), (EXPERIMENTS[1], ["bottleneck.rate=100Mbit", "reverse.rate=2Mbit"])],
)
def test_a_short_sample_of_the_experiments(name: str, settings: list[str], tmp_path: Path) -> None:
    short = ["duration=2s", "udp[0].stop=1.9s", "seeds=[1]", *settings]
    found = dumbbell.run(name, short, output=tmp_path / "short.duckdb")
    measured = by_way.collect_measures(found.flows)
    assert len(measured) == len(load(name, ["seeds=[1]"]))
    assert all(value > 0 for of_run in measured.values() for value in of_run.values())
    rtts = {run["key"]: json.loads(run["config"])["udp"][0]["base_rtt"] / 1e6 for run in found.runs.to_dicts()}
    assert all(of_run["ping_p50_ms"] >= rtts[key] for key, of_run in measured.items())


def test_the_whole_reference_is_answered_on_the_page() -> None:
    rows = study.find("home").read_evidence().tables["flent"].to_dicts()
    with REFERENCE.open(newline="") as stream:
        published = {row["time"]: row for row in csv.DictReader(stream)}
    assert {row["time"] for row in rows} == set(published)
    for row in rows:
        assert row["seeds"] >= 3 and row["down_flent"] == float(published[row["time"]]["goodput_down_mbit"])
        assert row["p99_flent"] == float(published[row["time"]]["ping_p99_ms"])


@pytest.fixture
def flent_files(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent)
    return importlib.import_module("studies.home.flent_files")


def a_file(title: str, queue: str, delay: str = "24.0ms") -> dict[str, Any]:
    """Return what Flent writes of a download, an upload and pings of 40 ms, 50 ms while they run."""
    began = 1_460_832_439.0
    pings = [{"t": began + 0.2 * i, "val": 50.0 if 25 <= i < 325 else 40.0} for i in range(350)]
    pings[30]["val"], pings[31]["val"], pings[32]["val"], pings[33]["val"] = 90.0, 80.0, 70.0, 60.0
    router: dict[str, Any] = {
        "INGRESS_INFO": {"qdiscs": [{"name": "htb", "params": {}}, {"name": queue, "params": {"limit": "10000p"}}]},
        "EGRESS_INFO": {"qdiscs": [{"name": "netem", "params": {"delay": delay}}]},
    }
    router["INGRESS_INFO"]["offloads"] = {"generic-receive-offload": True}
    server = {"INGRESS_INFO": {"qdiscs": [{"name": "fq", "params": {}}]}}
    sysctls = {"net.ipv4.tcp_ecn": 1, "net.ipv4.tcp_congestion_control": "cubic"}
    meta: dict[str, Any] = {"TITLE": title, "LENGTH": 60, "SYSCTLS": sysctls}
    meta |= {"T0": "2016-04-16T18:47:19.000000Z", "TIME": "2016-04-16T18:47:19.000000Z"}
    meta["REMOTE_METADATA"] = {"root@router": router, "root@linux": server}
    meta["SERIES_META"] = {"TCP download BE": {"MEAN_VALUE": 90.0}, "TCP upload BE": {"MEAN_VALUE": 7.0}}
    sums = {"TCP download sum": [None, 10.0, 100.0, 80.0, None]}
    raw = {"Ping (ms) ICMP": pings[:40] + pings[41:]}
    return {"metadata": meta, "raw_values": raw, "x_values": [0.0, 5.0, 15.0, 65.0, 70.0], "results": sums}


def test_how_numbers_are_read_from_files_of_flent(flent_files: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "cake_vs_everything"
    folder.mkdir()
    for number, (title, queue) in enumerate((("rtt_48ms_codel", "codel"), ("rtt_48ms_codel", "cake"))):
        (folder / f"rrul_be-{number}.gz").write_bytes(gzip.compress(json.dumps(a_file(title, queue)).encode()))
    (row,) = flent_files.read_rows(tmp_path)
    assert (row["qdisc"], row["delay_ms"], row["pacing"], row["offloads"]) == ("codel limit 10000", 48, "fq", "on")
    assert (row["goodput_down_mbit"], row["goodput_up_mbit"], row["late_down_mbit"]) == (90, 7, 90)
    assert (row["idle_ms"], row["ping_p50_ms"], row["pings"], row["answered"]) == (40, 50, 300, 299)
    assert row["ping_p99_ms"] == 70, "two of 299 are above; with three it would be 1.003 %"


def test_words_of_tc_for_ack_filters() -> None:
    words = {"off": "cake no-ack-filter", "on": "cake ack-filter", "aggressive": "cake ack-filter-aggressive"}
    for value in words:
        (cell,) = load("home/flent-ack-filter", [f"reverse.aqm.ack_filter={value}", "seeds=[1]"]).make_cells()
        aqm = json.loads(cell.config)["reverse"]["aqm"]
        assert [other for other, text in words.items() if matches_qdisc(text, aqm)] == [value]
        assert matches_qdisc("cake", aqm) == (value == "off")
