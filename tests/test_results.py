"""Which runs are meant, what tells them apart, and means that average nothing unlike."""

import gc
import math
import statistics
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dumbbell
from conftest import described, run_settings
from dumbbell import Results, experiment
from dumbbell.engines import sweep
from dumbbell.errors import InputError
from dumbbell.results import aggregate
from dumbbell.results.labels import group_labels

SHORT = {"duration": "200ms", "record": {"interval": "100ms"}}
RANDOM = [
    {"cc": "cubic", "base_rtt": "20ms"},
    {"cc": "reno", "base_rtt": "20ms", "start": {"uniform": ["0s", "50ms"]}},
]


def made(path: Path, *settings: list[str], **changes: Any) -> Results:
    table = SHORT | {"flows": RANDOM, "seeds": [1, 2, 3], "hosts": {"ecn": True}} | changes
    return run_settings(path, *settings, **table)


@pytest.fixture(scope="module")
def three_sweeps(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return three --set sweeps of one experiment in one file."""
    path = tmp_path_factory.mktemp("sweeps") / "r.duckdb"
    matrix = {"bottleneck.rate": ["10Mbit", "20Mbit"]}
    return made(path, [], ["hosts.ecn=false"], ["bottleneck.aqm.target=20ms"], matrix=matrix)


def test_a_flow_that_is_not_alike_in_all_runs_has_its_number_alone(tmp_path: Path) -> None:
    flows = [{"cc": "cubic", "base_rtt": "20ms", "count": 2}, {"cc": "reno", "base_rtt": "20ms"}]
    results = made(tmp_path / "r.duckdb", flows=flows, matrix={"flows[1].cc": ["reno", "bbr1"]})
    assert results.table("goodput", columns="flow").header[1:] == ["0 cubic", "1 cubic", "2"]


def test_settings_of_several_sweeps_in_one_file_are_kept_apart(three_sweeps: Results) -> None:
    keys = ["bottleneck.rate", "bottleneck.aqm.target", "hosts.ecn"]
    assert [one.name for one in three_sweeps._runs.dimensions] == keys
    found = aggregate.compute_means(three_sweeps._runs, "goodput", ["bottleneck.rate"])
    assert [axis.name for axis in found.axes] == ["bottleneck.rate", "bottleneck.aqm.target", "hosts.ecn", "flow"]
    assert found.frame.height == 3 * 2 * 2 and set(found.frame["n"]) == {3}
    text = three_sweeps.table("goodput", "bottleneck.rate", "flow").to_markdown()
    assert "hosts.ecn" in text and "target" in text and "false" in text and "20ms" in text


def test_a_mean_over_unlike_runs_is_taken_if_it_is_asked_for(three_sweeps: Results) -> None:
    own = aggregate.compute_means(three_sweeps._runs, "jain", ["bottleneck.rate"], mean_over=["hosts.ecn", "target"])
    assert [axis.name for axis in own.axes] == ["bottleneck.rate"]
    runs = three_sweeps.tidy("runs").group_by("bottleneck.rate_mbit").agg(pl.col("jain").mean()).sort(pl.first())
    assert own.frame.sort("bottleneck.rate")["mean"].to_list() == pytest.approx(runs["jain"].to_list())
    assert set(own.frame["n"]) == {3}, "seeds, not runs"
    assert "mean over hosts.ecn" in str(three_sweeps.table("jain", mean_over=["hosts.ecn", "target"]))
    with pytest.raises(InputError, match=r"mean_over: unknown key hosts.ecm; did you mean hosts.ecn\?"):
        three_sweeps.table("jain", mean_over=["hosts.ecm"])


def test_runs_of_an_older_engine_are_left_out_and_named(tmp_path: Path) -> None:
    results = made(tmp_path / "r.duckdb", [], ["hosts.ecn=false"])
    with duckdb.connect(str(results.path)) as connection:
        connection.execute("UPDATE runs SET engine_version = 'old' WHERE config NOT LIKE '%\"ecn\":true%'")
    found = dumbbell.open(results.path)
    assert len(found) == 3 and found.notes == ["left out: 3 runs of engine old; engine all shows them"]
    assert "hosts.ecn" not in [one.name for one in found._runs.dimensions]
    assert len(dumbbell.open(results.path, engine="old")) == 3
    both = dumbbell.open(results.path, engine="all")
    assert len(both) == 6 and both.notes == [] and both._runs.dimensions[0].name == "engine_version"
    assert both.table("jain").frame.height == 2
    with pytest.raises(InputError, match=r"unknown engine new; .*hoose from .*old"):
        len(dumbbell.open(results.path, engine="new"))


def test_another_experiment_is_kept_apart(tmp_path: Path) -> None:
    results = made(tmp_path / "r.duckdb")
    table = described(**(SHORT | {"flows": RANDOM, "seeds": [1, 2], "hosts": {"ecn": False}}))
    sweep.run([experiment.parse(table, "other.toml")], results.path, progress=False)
    found = dumbbell.open(results.path)
    assert [one.name for one in found._runs.dimensions] == ["experiment"]
    assert found.table("jain").frame["n"].to_list() == [3, 2]
    assert len(found.where("experiment=other")) == 2


def test_seeds_that_do_nothing_are_said_so_and_count_as_one(tmp_path: Path) -> None:
    results = made(tmp_path / "r.duckdb", flows=[{"cc": "cubic", "base_rtt": "20ms"}])
    assert results._runs.identical == (1, 1) and "all seeds gave the same run" in repr(results)
    table = results.table("goodput")
    assert table.frame["n"].to_list() == [1] and table.frame["half"].to_list() == [None]
    assert (
        "all seeds gave the same run in 1 of 1 cells" in str(table)
        and "uniform" in str(table)
        and "±" not in str(table)
    )
    random = made(tmp_path / "random.duckdb")
    assert random._runs.identical == (0, 1) and "same run" not in str(random.table("goodput"))


def test_the_interval_is_students(tmp_path: Path) -> None:
    results = made(tmp_path / "r.duckdb")
    with duckdb.connect(str(results.path)) as connection:
        for seed, jain in ((1, 0.2), (2, 0.4), (3, 0.9)):
            connection.execute("UPDATE runs SET jain = ? WHERE seed = ?", [jain, seed])
    row = results.table("jain").frame.row(0, named=True)
    # mean 0.5, s = 0.360555, t(0.975, 2) = 4.302653: half = t s / sqrt(3)
    assert (row["mean"], row["half"], row["n"]) == (pytest.approx(0.5), pytest.approx(0.895666, abs=1e-5), 3)
    assert row["low"] == pytest.approx(0.5 - 0.895666, abs=1e-5)
    assert "0.5 ± 0.9" in str(results.table("jain")) and "±" not in str(results.table("jain", spread=False))


def test_alike_flows_are_one_value_a_run(tmp_path: Path) -> None:
    flows = [{"cc": "cubic", "base_rtt": "20ms", "count": 3, "start": {"uniform": ["0s", "50ms"]}}]
    results = made(tmp_path / "r.duckdb", flows=flows)
    row = results.table("goodput").frame.row(0, named=True)
    by_run = results.flows.group_by("key").agg(pl.col("goodput_mbit").mean())["goodput_mbit"]
    assert row["n"] == 3 and row["mean"] == pytest.approx(by_run.mean())
    assert row["half"] == pytest.approx(4.302653 * statistics.stdev(by_run) / math.sqrt(3), rel=1e-5)


def test_runs_without_a_value_are_counted(tmp_path: Path) -> None:
    results = made(tmp_path / "r.duckdb")
    with duckdb.connect(str(results.path)) as connection:
        connection.execute("UPDATE runs SET jain = NULL WHERE seed = 2")
    assert results.table("jain").frame.row(0, named=True)["none"] == 1
    assert "(2 of 3)" in str(results.table("jain"))


def test_units_count_in_conditions(three_sweeps: Results) -> None:
    for text in ("bottleneck.rate=20000kbit", "rate=0.02Gbit", "rate=20Mbit", "bottleneck.rate=20Mbit/s"):
        assert len(three_sweeps.where(text)) == 9, text
    assert len(three_sweeps.where("bottleneck.aqm.target=0.02s")) == 6
    assert len(three_sweeps.where("bottleneck.aqm.target=20000us,5ms")) == 18
    assert len(three_sweeps.where("hosts.ecn=false", "seed=1,2", "rate=10Mbit")) == 2
    assert len(three_sweeps.where("aqm=codel")) == 12, "as a table shows it: with the default target"
    assert len(three_sweeps.where("aqm=codel(target=20ms)")) == 6
    for text, message in (
        ("rate=30Mbit", "where: rate: unknown value 30Mbit; did you mean 20Mbit? Choose from 10Mbit, 20Mbit"),
        ("rate=20ms", 'where: rate is "20ms", a time; it must be a rate'),
        ("seed=9", "where: seed: unknown value 9; choose from 1, 2, 3"),
        ("rate", 'where is "rate"; it must be KEY=VALUE'),
        ("rte=20Mbit", r"where: unknown key rte; did you mean rate"),
    ):
        with pytest.raises(InputError) as error:
            three_sweeps.where(text)
        assert message in str(error.value)


def test_conditions_on_flows_keep_flows_and_are_refused_for_measures_of_runs(three_sweeps: Results) -> None:
    reno = three_sweeps.where("cc=reno", "hosts.ecn=true", "target=5ms")
    assert reno.flows["cc"].unique().to_list() == ["reno"] and reno.flows.height == 6
    assert reno.series["flow"].unique().to_list() == [1]
    with pytest.raises(InputError, match="cc=reno selects parts of runs, but jain is measured per run"):
        reno.table("jain")


def test_what_belongs_to_a_run_is_not_shown_as_a_flows(three_sweeps: Results) -> None:
    with pytest.raises(InputError, match="rows: the flows of a run differ in cc, but jain"):
        three_sweeps.table("jain", "cc")
    assert three_sweeps._runs.measure("drops").table == "runs"
    assert three_sweeps._runs.measure("flows.drops_aqm").table == "flows"
    assert three_sweeps._runs.measure("drops_aqm", by_part=["cc"]).table == "flows"


def test_statistics_of_classes_and_percentiles_of_the_queue_are_measures(three_sweeps: Results) -> None:
    found = three_sweeps.where("hosts.ecn=true", "target=5ms").table("sojourn_p99", "class", of="classes")
    assert found.frame.height == 4
    by_cc = three_sweeps.where("hosts.ecn=true", "target=5ms").table("sojourn_p99", "cc")
    assert by_cc.frame["cc"].unique().sort().to_list() == ["cubic", "reno"]
    assert three_sweeps._runs.measure("relative").table == "classes"


def test_bins_of_the_rtt_give_the_percentiles_of_their_class_and_the_curves(three_sweeps: Results) -> None:
    results = three_sweeps.where("hosts.ecn=true", "target=5ms", "rate=10Mbit", "seed=1")
    assert results.classes.height == 2 and results.rtt.columns == ["key", "class", "from_ms", "samples"]
    figure = results.plot(kind="cdf", value="rtt")
    [axes] = figure.axes
    assert axes.get_xlabel() == "RTT, ms" and axes.get_ylabel() == "share of samples (CDF)"
    # a line for each class
    curves = [np.asarray(line.get_xydata()) for line in axes.lines]
    assert len(curves) == 2
    for one, curve in zip(results.classes.iter_rows(named=True), curves, strict=True):
        bins = results.rtt.filter(pl.col("class") == one["class"]).sort("from_ms")
        shares = bins["samples"].cum_sum() / bins["samples"].sum()
        for share in (50, 95, 99):
            found, lower = one[f"rtt_p{share}_ms"], bins["from_ms"].filter(shares >= share / 100)[0]
            # a bin is 1/64 of its lower edge wide at most
            assert lower <= found <= lower * (1 + 1 / 64)
            place = curve[curve[:, 1] >= share / 100][0, 0]
            assert lower <= place <= lower * (1 + 1 / 64)


def test_labels_say_what_tells_flows_apart() -> None:
    def labels(*flows: dict[str, Any]) -> list[str]:
        cells = experiment.parse(described(flows=list(flows)), "f.toml").make_cell(0)
        return group_labels(cells.groups["flows"])

    cubic, reno = {"cc": "cubic", "base_rtt": "20ms"}, {"cc": "reno", "base_rtt": "40ms"}
    assert labels(cubic, reno) == ["cubic", "reno"]
    assert labels(cubic, cubic | {"base_rtt": "80ms"}) == ["20ms", "80ms"]
    assert labels(cubic, cubic | {"start": "1s"}) == ["start 0s", "start 1s"]
    assert labels(cubic, cubic) == ["cubic #1", "cubic #2"]
    assert labels(cubic) == [""]
    assert labels(cubic | {"ecn": True}, cubic | {"ecn": False}, reno) == ["cubic, ECN", "cubic, no ECN", "reno"]


def test_tidy_has_typed_columns_in_their_units(three_sweeps: Results) -> None:
    frame = three_sweeps.tidy()
    assert frame.height == 18 * 2 and frame.schema["bottleneck.rate_mbit"] == pl.Float64
    assert frame.schema["hosts.ecn"] == pl.Boolean
    assert sorted(frame["bottleneck.aqm.target_ms"].unique()) == [5.0, 20.0]
    row = frame.filter(pl.col("seed") == 2, pl.col("which") == "reno").row(0, named=True)
    assert row["cc"] == "reno" and row["flow"] == 1 and row["goodput_mbit"] >= 0
    assert three_sweeps.tidy("runs").height == 18 and three_sweeps.tidy("classes").height == 36


def test_sql_sees_these_runs_and_frames_of_the_caller(three_sweeps: Results) -> None:
    some = three_sweeps.where("hosts.ecn=false")
    assert some.sql("SELECT count(*) AS n FROM runs")["n"].to_list() == [6]
    assert (
        some.sql("SELECT count(*) AS n FROM flows JOIN mine USING (cc)", mine=pl.DataFrame({"cc": ["reno"]}))["n"][0]
        == 6
    )
    assert some.sql("SELECT count(*) AS n FROM mine", mine=pa.table({"x": [1, 2]}))["n"][0] == 2
    with pytest.raises(InputError, match=r"sql is .*; it must be a query"):
        some.sql("SELECT nothing FROM nowhere")
    with pytest.raises(InputError, match=r"sql is .*Conversion"):
        some.sql("SELECT CAST(cc AS INTEGER) FROM flows")
    for other in ("SET memory_limit = '1MB'", "ATTACH ':memory:' AS other", "SELECT 1; DETACH results_1"):
        with pytest.raises(InputError, match=r"sql is [A-Z]+; it must be a query"):
            some.sql(other)
    assert isinstance(some.frame("runs", to="arrow"), pa.Table) and some.frame("runs", to="arrow").num_rows == 6


def test_run_returns_the_runs_that_it_was_asked_for(tmp_path: Path) -> None:
    table = described(**(SHORT | {"flows": RANDOM, "seeds": np.arange(1, 3)}))
    path = tmp_path / "r.duckdb"
    first = dumbbell.run(table, output=path)
    second = dumbbell.run(table, {"hosts.ecn": False, "bottleneck.rate": "20Mbit"}, output=str(path))
    assert len(first) == len(second) == 2 and set(first.keys).isdisjoint(second.keys)
    assert second.runs["config"].str.contains('"rate":20000000').all()
    assert len(dumbbell.open(path)) == 4
    again = dumbbell.run(table, ["hosts.ecn=false", "bottleneck.rate=20Mbit"], output=path)
    assert again.sweep is not None and (again.sweep.kept, again.sweep.done) == (2, 0) and again.keys == second.keys


@pytest.mark.slow
def test_results_that_are_kept_nowhere_last_as_long_as_they_are_held() -> None:
    results = dumbbell.run(described(**SHORT), progress=False)
    path, part = results.path, results.where("seed=1")
    del results
    gc.collect()
    assert part.flows.height == 2
    del part
    gc.collect()
    assert not path.exists()


def test_paths_bytes_and_numbers_do_what_is_expected(tmp_path: Path, small: Path) -> None:
    assert len(dumbbell.load(small)) == 8
    results = dumbbell.run(small, {"seeds": [np.int64(1)], "duration": "600ms", "bottleneck.rate": "5Mbit"})
    assert results.runs["seed"].to_list() == [1, 1]
    assert len(dumbbell.run(str(small).encode(), {"duration": "600ms"}, output=tmp_path / "r.duckdb")) == 8
    with pytest.raises(ValueError, match="it must be a file name or a path"):
        dumbbell.run(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no such file"):
        dumbbell.open(tmp_path / "none.duckdb")


def test_progress_may_be_a_function(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    dumbbell.run(
        described(**SHORT, seeds=[1, 2, 3]), output=tmp_path / "r.duckdb", progress=lambda d, n: told.append((d, n))
    )
    assert told[-1] == (3, 3) and all(done <= whole == 3 for done, whole in told)


def test_it_shows_itself(three_sweeps: Results) -> None:
    text, html = repr(three_sweeps), three_sweeps._repr_html_()
    assert "18, 6 cells, 3 seeds" in text and "bottleneck.rate        10Mbit, 20Mbit" in text
    assert html.startswith("<b>r.duckdb</b><table>") and "hosts.ecn" in html
    assert "<table>" in three_sweeps.table("jain")._repr_html_()


def test_the_file_is_open_only_while_it_is_read(tmp_path: Path) -> None:
    results = made(tmp_path / "r.duckdb")
    assert results.flows.height == 6
    assert len(made(tmp_path / "r.duckdb", ["hosts.ecn=false"])) == 6  # a sweep writes, though results are held
