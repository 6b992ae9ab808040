"""Every key by which compared runs differ is named, wherever they are compared; means are of cells that all have."""

import io
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from matplotlib.text import Text

import dumbbell
from conftest import run_settings
from dumbbell import Results, experiment
from dumbbell.engines import sweep
from dumbbell.errors import InputError
from dumbbell.experiment import shipped
from dumbbell.published.variants import require_alike
from dumbbell.results.tables import format_mean

FLOWS = [
    {"cc": "cubic", "base_rtt": "20ms", "start": {"uniform": ["0s", "50ms"]}},
    {"cc": "reno", "base_rtt": "20ms", "start": {"uniform": ["0s", "50ms"]}},
]
SHORT = {"duration": "400ms", "record": {"interval": "100ms"}, "flows": FLOWS, "seeds": [1, 2, 3]}
TARGET, INTERVAL = "bottleneck.aqm.target", "bottleneck.aqm.interval"
KINDS = ("lines", "bars", "box", "cdf", "ccdf", "ellipses", "series")


def made(path: Path, *settings: list[str], **changes: Any) -> Results:
    return run_settings(path, *settings, **(SHORT | changes))


def written(picture: Any) -> str:
    """Return every text of a figure."""
    picture.canvas.draw()
    return " ".join(text.get_text() for text in picture.findobj(Text)).replace("\n", " ").replace("\xa0", " ")


@pytest.fixture(scope="module")
def confounded(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return two variants of one experiment that differ in three keys."""
    path = tmp_path_factory.mktemp("confounded") / "r.duckdb"
    other = ["bottleneck.aqm=pie", "flows[0].base_rtt=80ms"]
    return made(path, ["hosts.ecn=true"], other)


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return runs of a matrix that sets two keys together."""
    pairs = [["5ms", "100ms"], ["7ms", "50ms"], ["9ms", "30ms"]]
    return made(tmp_path_factory.mktemp("joint") / "r.duckdb", matrix={f"{TARGET}, {INTERVAL}": pairs})


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return uploads over queues that a matrix pairs with those of downloads."""
    return made(
        tmp_path_factory.mktemp("ways") / "r.duckdb",
        duration="1s",
        bottleneck={"rate": "40Mbit", "aqm": "pfifo"},
        reverse={"rate": "5Mbit", "aqm": "pfifo"},
        flows=[FLOWS[0] | {"direction": "up"}, FLOWS[1] | {"direction": "up"}],
        matrix={"bottleneck.aqm, reverse.aqm": [["cake", "cake"], ["pfifo", "cake"], ["pfifo", "pfifo"]]},
    )


def test_variants_that_differ_in_several_keys_name_all_of_them(confounded: Results) -> None:
    found = confounded.table("rtt")
    name = "bottleneck.aqm, flows[0].base_rtt, hosts.ecn"
    assert found.header[0].startswith(name)
    assert [row[0] for row in found.cells] == ["codel, base_rtt=20ms, ecn=true", "pie, base_rtt=80ms, ecn=false"]
    csv = pl.read_csv(io.StringIO(found.to_csv()))
    assert csv.columns[:3] == ["bottleneck.aqm", "flows[0].base_rtt_ms", "hosts.ecn"]
    assert csv.select(csv.columns[:3]).unique(maintain_order=True).rows() == [
        ("codel", 20.0, True),
        ("pie", 80.0, False),
    ]
    assert "pie, base\\_rtt=80ms, ecn=false" in found.to_latex()
    assert name in repr(confounded)
    tidy = confounded.tidy("runs")
    assert {"bottleneck.aqm", "flows[0].base_rtt_ms", "hosts.ecn"} <= {*tidy.columns}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_figures_of_every_kind_name_all_keys(confounded: Results, joint: Results, kind: str) -> None:
    text = written(confounded.plot(kind))
    assert "base_rtt=80ms" in text and "ecn=false" in text, text
    text = written(joint.plot(kind))
    assert "interval" in text and "30ms" in text and "100ms" in text, text


def test_maps_and_differences_name_all_keys(confounded: Results, tmp_path: Path) -> None:
    text = written(confounded.plot("differences", baseline="bottleneck.aqm=codel"))
    assert "they differ in flows[0].base_rtt, hosts.ecn as well" in text
    pairs = [["5ms", "100ms"], ["9ms", "30ms"]]
    keys = {f"{TARGET}, {INTERVAL}": pairs, "bottleneck.rate": ["5Mbit", "10Mbit"]}
    results = made(tmp_path / "r.duckdb", matrix=keys, seeds=[1])
    text = written(results.plot("heat", value="utilisation"))
    assert f"with {INTERVAL}" in text and "100ms with 5ms, 30ms with 9ms" in text and "one run each" in text
    text = written(results.plot("lines", value="utilisation", against=TARGET))
    assert f"they differ in {INTERVAL} (100ms with 5ms, 30ms with 9ms) as well" in text


def test_a_key_that_is_asked_for_leaves_the_other_in_a_line(joint: Results) -> None:
    found = joint.table("jain", rows=TARGET)
    assert found.header[0] == TARGET and [row[0] for row in found.cells] == ["5ms", "7ms", "9ms"]
    assert found.lines == [f"They differ in {INTERVAL} (100ms with 5ms, 50ms with 7ms, 30ms with 9ms) as well"]
    assert found.lines[0] in str(found) and found.lines[0] in found.to_latex()
    csv = pl.read_csv(io.StringIO(found.to_csv()))
    assert csv[f"{TARGET}_ms"].to_list() == [5, 7, 9] and csv[f"{INTERVAL}_ms"].to_list() == [100, 50, 30]
    over = joint.table("jain", mean_over=[TARGET])
    assert f"mean over {TARGET}" in over.title and f"differ in {INTERVAL} (30ms, 50ms, 100ms)" in over.lines[0]


def test_tidy_has_a_column_for_every_key_whatever_values_they_share(joint: Results, tmp_path: Path) -> None:
    pairs = [["5ms", "100ms"], ["5ms", "50ms"], ["9ms", "30ms"]]
    shared = made(tmp_path / "r.duckdb", matrix={f"{TARGET}, {INTERVAL}": pairs}, seeds=[1])
    assert shared.tidy("runs").columns == joint.tidy("runs").columns
    assert joint.tidy("runs")[f"{INTERVAL}_ms"].unique().sort().to_list() == [30, 50, 100]


def test_too_many_keys_are_in_a_line(tmp_path: Path) -> None:
    other = [
        "bottleneck.aqm=pie",
        "flows[*].base_rtt=80ms",
        "hosts.ecn=true",
        "bottleneck.rate=7Mbit",
        "hosts.pacing=fq",
    ]
    results = made(tmp_path / "r.duckdb", [], other, seeds=[1])
    text = str(results.table("jain"))
    for key in ("bottleneck.aqm", "base_rtt", "hosts.ecn", "bottleneck.rate", "hosts.pacing"):
        assert key in text and key in repr(results), key


def test_what_a_profile_sets_is_not_said_besides(tmp_path: Path) -> None:
    matrix = {"hosts.profile": ["linux-6.12", "linux-5.4"]}
    found = made(tmp_path / "r.duckdb", matrix=matrix, seeds=[1]).table("jain")
    assert all("hosts." not in line for line in found.lines)


# means over keys


@pytest.fixture(scope="module")
def incomplete(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return a crossing of two keys in which one value is there for one queue alone, and seeds for one cell alone."""
    path = tmp_path_factory.mktemp("incomplete") / "r.duckdb"
    keys = {"bottleneck.rate": ["5Mbit", "20Mbit"], "bottleneck.aqm": ["pfifo", "codel"]}
    more = ["bottleneck.rate=100Mbit", "bottleneck.aqm=codel"]
    return made(path, [], more, ["seeds=[4,5]", "bottleneck.rate=5Mbit", "bottleneck.aqm=pfifo"], matrix=keys)


def test_means_over_a_key_are_of_the_cells_that_all_rows_have(incomplete: Results) -> None:
    found = incomplete.table("throughput", mean_over=["bottleneck.rate"])
    runs = incomplete.runs.select("key", "throughput_mbit").join(
        incomplete.tidy("runs").select("key", "seed", "bottleneck.aqm", "bottleneck.rate_mbit"), on="key"
    )
    common = runs.filter(pl.col("bottleneck.rate_mbit") < 50, pl.col("seed") <= 3)
    means = dict(common.group_by("bottleneck.aqm").agg(pl.col("throughput_mbit").mean()).rows())
    assert dict(found.frame.select("bottleneck.aqm", "mean").rows()) == pytest.approx(means)
    assert set(found.frame["n"]) == {3}
    left = (
        "left out of the means: rate 100Mbit, which not all rows have; 2 runs of seeds that not all of these cells have"
    )
    assert left in found.notes
    compared = incomplete.diff(by="bottleneck.aqm", values=["throughput"]).measures.row(0, named=True)
    assert {"pfifo": compared["a"], "codel": compared["b"]} == pytest.approx(means)
    for kind in ("bars", "box", "cdf", "ellipses"):
        text = written(
            incomplete.plot(kind, value=() if kind == "ellipses" else "throughput", mean_over="bottleneck.rate")
        )
        assert "left out of the means: rate 100Mbit" in text, (kind, text)


def test_means_over_nothing_in_common_are_refused(incomplete: Results) -> None:
    unlike = incomplete.where("bottleneck.rate=5Mbit", "bottleneck.aqm=pfifo").keys
    unlike += incomplete.where("bottleneck.rate=20Mbit", "bottleneck.aqm=codel").keys
    unlike += incomplete.where("bottleneck.rate=100Mbit").keys
    with pytest.raises(InputError, match=r"no value of bottleneck\.rate is in all of them"):
        incomplete.with_keys(unlike).table("jain", rows="bottleneck.aqm", mean_over=["bottleneck.rate"])


def test_missing_values_are_counted_in_means_over_keys(tmp_path: Path) -> None:
    keys = {"bottleneck.rate": ["5Mbit", "20Mbit"], "bottleneck.aqm": ["pfifo", "codel"]}
    results = made(tmp_path / "r.duckdb", matrix=keys)
    slow = results.where("rate=5Mbit", "aqm=pfifo").keys
    with duckdb.connect(str(results.path)) as connection:
        connection.execute("UPDATE runs SET jain = 1 + seed")
        connection.execute("UPDATE runs SET jain = NULL WHERE key IN (SELECT unnest(?))", [slow])
    found = dumbbell.open(results.path).table("jain", mean_over=["bottleneck.rate"])
    assert [row[1].rpartition(" (")[2] for row in found.cells] == ["3 of 6)", "3.0 ± 2.5"]
    assert found.frame["none"].to_list() == [3, 0] and found.frame["runs"].to_list() == [6, 6]
    assert any("k of n" in note for note in found.notes)
    text = written(dumbbell.open(results.path).plot("bars", value="jain", mean_over="bottleneck.rate"))
    assert "no value in 3 of 12 runs" in text
    text = written(dumbbell.open(results.path).plot("box", value="jain"))
    assert "no value of" in text or "no value in 3 of 12 runs" in text


def test_rows_of_unlike_counts_say_theirs(incomplete: Results) -> None:
    text = str(incomplete.table("jain"))
    assert text.count(", n = 5 |") == 1 and text.count(", n = 3 |") == 4
    assert "n = 3 to 5" in text


def test_of_how_many_runs_is_said(tmp_path: Path) -> None:
    one = made(tmp_path / "one.duckdb", seeds=[1])
    assert one.table("jain").title == "Jain's index, of each run; one run each"
    assert "one run each" in written(one.plot("bars", value="jain"))
    two = made(tmp_path / "two.duckdb", seeds=[1, 2])
    frame = two.table("jain").frame.row(0, named=True)
    low, high = sorted(two.runs["jain"])
    assert (frame["low"], frame["high"], frame["half"]) == (low, high, None)
    assert "mean and range of 2 seeds" in written(two.plot("bars", value="jain"))


def test_a_mean_has_the_digits_of_its_interval() -> None:
    for mean, half, text in (
        (0.6714, 1.9, "0.7 ± 1.9"),
        (25.92, 7.8, "25.9 ± 7.8"),
        (4.653, 0.0017, "4.6530 ± 0.0017"),
        (1.138e-05, 4.9e-05, "1.1e-05 ± 4.9e-05"),
        (0.003441, 6.8e-05, "0.003441 ± 6.8e-05"),
        (-0.0123, 1.6e-05, "-0.012300 ± 1.6e-05"),
        (1234.4, 120.0, "1234 ± 120"),
        (0.0, 0.3, "0 ± 0.3"),
        (12.0, 0.0, "12 (equal)"),
        (3.25, None, "3.25"),
    ):
        assert format_mean(mean, half) == text


# hops and both ways


def test_keys_of_both_ways_are_one_axis(both_ways: Results) -> None:
    (key,) = both_ways._runs.dimensions
    assert key.name == "bottleneck.aqm, reverse.aqm"
    assert key.ordered == ["cake both ways", "pfifo down, cake up", "pfifo both ways"]
    assert len(both_ways.where("bottleneck.aqm, reverse.aqm=pfifo both ways")) == 3
    for kind in ("bars", "cdf", "lines"):
        picture = both_ways.plot(kind)
        assert len(picture.panels) == 1 and "pfifo down, cake up" in written(picture), kind
    assert both_ways.tidy("runs").columns[1:3] == ["bottleneck.aqm", "reverse.aqm"]


@pytest.mark.slow
def test_a_report_compares_both_ways_once(both_ways: Results, tmp_path: Path) -> None:
    text = both_ways.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.count("<b>bottleneck.aqm and reverse.aqm: cake both ways (A) against") == 2
    assert "<b>reverse.aqm" not in text
    assert "hop reverse" in text and '<th scope="row">bottleneck.aqm, reverse.aqm</th>' in text


def test_what_queues_measure_is_of_each_hop(both_ways: Results) -> None:
    found = both_ways.table("sojourn")
    assert found.header[1:] == ["bottleneck", "reverse"] and "of each hop" in found.title
    hops = both_ways.hops.group_by("hop").agg(pl.col("sojourn_mean_ms").mean())
    means = found.frame.group_by("hop").agg(pl.col("mean").mean())
    assert dict(means.rows()) == pytest.approx(dict(hops.rows()))
    assert "time in queue, mean, ms, of bottleneck" in both_ways.table("runs.sojourn").title
    assert "time in queue, mean, ms, of bottleneck" in written(both_ways.plot("bars", value="runs.sojourn"))
    compared = both_ways.diff(by="reverse.aqm=cake,pfifo")
    assert not compared.frame.filter(pl.col("table") == "runs", pl.col("measure") == "sojourn_mean_ms").height
    assert {*compared.frame.filter(pl.col("measure") == "utilisation")["part"]} == {"bottleneck", "reverse"}


def test_no_queue_is_judged_by_a_hop_that_nothing_fills(both_ways: Results) -> None:
    delay_and_use = ("hops.sojourn_mean_ms", "hops.utilisation")
    text = written(both_ways.plot("ellipses", value=delay_and_use, by="bottleneck.aqm, reverse.aqm"))
    assert "utilisation, of reverse" in text
    assert "without bottleneck: utilisation of" in text


def test_a_caption_of_latex_has_measure_and_unit(confounded: Results) -> None:
    text = confounded.table("rtt").to_latex("Two queues.")
    assert text.splitlines()[2].startswith(
        r"\caption{Two queues. Mean RTT, ms, of each flow; mean $\pm$ half of the 95 \% interval"
    )
    assert text.startswith(r"\begin{table}") and text.endswith(r"\end{table}")


# units


@pytest.mark.slow
def test_axes_of_limits_say_what_they_count(tmp_path: Path) -> None:
    limits = ["25kB", "50kB", "250kB", "1MB"]
    path = tmp_path / "bytes.duckdb"
    own = {"bottleneck": {"rate": "10Mbit", "aqm": "bfifo"}, "matrix": {"bottleneck.aqm.limit": limits}}
    sized = made(path, seeds=[1], **own)
    text = written(sized.plot("lines", value="utilisation"))
    assert "limit, bytes" in text and all(limit in text for limit in limits)
    assert sized.table("jain").frame["bottleneck.aqm.limit"].to_list() == limits
    assert sized.table("jain").frame["bottleneck.aqm.limit_bytes"].to_list() == [25_000, 50_000, 250_000, 1_000_000]
    assert len(sized.where("bottleneck.aqm.limit=25000")) == len(sized.where("limit=25kB")) == 1
    own = {"bottleneck": {"rate": "10Mbit", "aqm": "pfifo"}, "matrix": {"bottleneck.aqm.limit": [10, 20, 50]}}
    counted = made(tmp_path / "packets.duckdb", seeds=[1], **own)
    assert "limit, packets" in written(counted.plot("lines", value="utilisation"))
    own["matrix"] = {"bottleneck.aqm": [{"name": "bfifo", "limit": "25kB"}, {"name": "pfifo", "limit": 30}]}
    mixed = made(tmp_path / "mixed.duckdb", seeds=[1], **own)
    assert [row[0] for row in mixed.table("jain", rows="limit").cells] == ["25kB", "30 packets"]


# published cells


def test_a_variant_never_mixes_with_the_runs_of_an_experiment(tmp_path: Path) -> None:
    path = shipped.list_experiments()["abe/slow-start"]
    few = ["duration=1s", "hosts.ecn_reduction=immediate", "flows[0].base_rtt=80ms"]
    one = ['flows[0].cc={name="reno", abe=true, beta_ecn=0.75}']
    assert sweep.run([experiment.load(path, [*few, *one])], tmp_path / "r.duckdb", progress=False).failed == []
    assert sweep.run([experiment.load(path, few)], tmp_path / "r.duckdb", progress=False).failed == []
    results = dumbbell.open(tmp_path / "r.duckdb")
    require_alike(results.runs)  # another beta is another point
    other = ['flows[0].cc={name="reno", abe=true, beta_ecn=0.65}', "bottleneck.aqm.target=40ms"]
    assert sweep.run([experiment.load(path, [*few, *other])], tmp_path / "r.duckdb", progress=False).failed == []
    with pytest.raises(
        InputError,
        match=r"belong to one published cell or figure .*: they differ in bottleneck\.aqm\.target",
    ):
        require_alike(dumbbell.open(tmp_path / "r.duckdb").runs)
