"""Tables and the command line that prints them."""

import json
from pathlib import Path

import duckdb
import polars as pl
import pytest

import dumbbell
from conftest import Command, described, parsed
from dumbbell import cli, experiment, registry, sweep
from dumbbell.errors import InputError
from dumbbell.results import Results
from dumbbell.store import Store
from dumbbell.tables import aligned, number, tidy


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Four runs of two flows, made up: goodput = rate · (flow + 1) / 10 + seed, Jain 0.5, 0.6, 0.7, 0.8."""
    path = tmp_path_factory.mktemp("made") / "r.duckdb"
    table = described(
        seeds=[1, 2],
        duration="100ms",
        bottleneck={"rate": "1Mbit", "aqm": "codel"},
        flows=[{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "reno", "start": {"uniform": ["0s", "50ms"]}}],
        matrix={"bottleneck.rate": ["10Mbit", "100Mbit"], "flows[1].base_rtt": ["40ms"]},
    )
    sweep.run([experiment.parse(table, "made-up.toml")], path, progress=False)
    with duckdb.connect(str(path)) as connection:
        rate = "CAST(json_extract(config, '$.bottleneck.rate') AS DOUBLE) / 1e6"
        connection.execute(f"UPDATE runs SET jain = 0.4 + 0.1 * seed + CASE WHEN {rate} > 50 THEN 0.2 ELSE 0 END")
        connection.execute(
            f"UPDATE flows SET goodput_mbit ="
            f" (SELECT {rate} * (flow + 1) / 10 + seed FROM runs WHERE runs.key = flows.key),"
            " rtt_mean_ms = base_rtt_ms + 5"
        )
    return dumbbell.open(path)


def test_a_table_of_any_key_by_any_other(results: Results) -> None:
    # at 10 Mbit/s: CUBIC gets 1 + seed, mean 2.5; Reno gets 2 + seed, mean 3.5
    assert results.table("goodput", "bottleneck.rate", "flow", spread=False).markdown() == (
        "goodput, Mbit/s, of each flow; mean over seeds, n = 2\n\n"
        "| bottleneck.rate \\ flow |    0 |    1 |\n"
        "| ---------------------- | ---: | ---: |\n"
        "| 10Mbit                 |  2.5 |  3.5 |\n"
        "| 100Mbit                | 11.5 | 21.5 |"
    )
    lines = results.table("goodput", spread=False).markdown().splitlines()
    assert lines[2].split("|")[1:4] == [" bottleneck.rate \\ flow ", " cubic ", " reno "]


def test_the_interval_is_there_unless_it_is_not_wanted(results: Results) -> None:
    # 2 and 3: mean 2.5, s = 0.70711, t(0.975, 1) = 12.7062: half 6.353
    assert "2.5 ± 6.4" in str(results.table("goodput", "rate", "flow"))
    assert "half of the 95 % interval over seeds, n = 2" in str(results.table("goodput", "rate", "flow"))


def test_what_is_neither_row_nor_column_is_a_row(results: Results) -> None:
    text = results.table("rtt", "cc").markdown()
    assert "cc \\ bottleneck.rate | 10Mbit | 100Mbit |" in text and "| reno                 | 45 ± 0 |" in text
    assert results.table("rtt", "cc", mean_over=["bottleneck.rate"]).frame.height == 2
    by_rtt = results.table("rtt", "base_rtt", mean_over=["rate"]).frame
    assert by_rtt["base_rtt"].to_list() == ["20ms", "40ms"] and by_rtt["mean"].to_list() == [25, 45]


def test_measures_of_runs_and_short_names(results: Results) -> None:
    frame = results.where("flows[1].base_rtt=40ms").table("jain", "rate", "seed").frame
    assert [round(value, 6) for value in frame["mean"]] == [0.5, 0.6, 0.7, 0.8]
    assert results.table("jain", "aqm", mean_over=["rate"]).frame.row(0)[:2] == ("codel", pytest.approx(0.65))


def test_tidy_rows_hold_one_value_and_every_key(results: Results) -> None:
    rows = tidy(results, ["goodput", "jain"])
    assert rows.height == 8 + 4
    row = rows.filter(pl.col("measure") == "goodput_mbit", pl.col("seed") == 1, pl.col("flow") == 1).row(0, named=True)
    assert row == {
        "experiment": "made-up",
        "bottleneck.rate_mbit": 10.0,
        "seed": 1,
        "flow": 1,
        "cc": "reno",
        "base_rtt_ms": 40.0,
        "measure": "goodput_mbit",
        "value": 3.0,
    }
    assert rows.filter(pl.col("measure") == "jain")["flow"].null_count() == 4


def test_unknown_names_get_one_line(results: Results) -> None:
    for options, message in (
        ({"rows": "bottleneck.rte"}, "--rows: found bottleneck.rte, "),
        ({"value": "gooodput"}, "--value: found gooodput, "),
    ):
        with pytest.raises(InputError) as error:
            results.table(**options)
        assert message in str(error.value) and "(nearest: " in str(error.value)


def test_numbers_and_columns() -> None:
    assert [number(x) for x in (None, float("nan"), 0.123456, 12345.6)] == ["-", "-", "0.1235", "12346"]
    assert aligned(["a", "b"], [["x", "1"]]).splitlines()[1] == "| --- | --: |"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> None:
    """Call the command line in this process: it has to leave with status 2 and one line."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as leave:
        patch.setattr("sys.argv", ["dumbbell", *map(str, arguments)])
        cli.main()
    shown = capsys.readouterr()
    assert leave.value.code == 2 and shown.out == "" and len(shown.err.splitlines()) == 1, (arguments, shown)
    assert "found " in shown.err or "dumbbell: " in shown.err, (arguments, shown.err)


def test_bad_options_get_one_line(
    results: Results, small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.parent)
    for options in (
        ["--against", "base_rt"],
        ["--time", "1s"],
        ["--time", "1..2"],
        ["--time", "2s..1s"],
        ["--kind", "pie"],
        ["--value", "relative", "--kind", "series"],
        ["-o", "nodir/p.png"],
        ["-o", "p.doc"],
        ["--kind", "lines", "--time", "1s..2s"],
        ["--kind", "ratio"],
        ["--baseline", "rate=10Mbit", "--kind", "cdf"],
        ["--mean-over", "hosts.ecm"],
        ["--kind", "series", "--mean-over", "rate"],
        ["--kind", "series", "--of", "flows"],
        ["--kind", "shares", "--mean-over", "rate"],
        ["--kind", "cdf", "--of", "flows"],
    ):
        refused(capsys, "plot", results.path, *options)
    for line in (
        ["frobnicate"],
        ["run"],
        ["run", small, "--jobs", "0"],
        ["table", results.path, "--csv", "--markdown"],
        ["table", results.path, "--csv", "--rows", "rate"],
        ["table", results.path, "--of", "clases"],
        ["table", results.path, "--engine", "2"],
        ["compare", results.path, "sce", "--csv", "--scores"],
    ):
        refused(capsys, *line)


def test_the_command_line(small: Path, tmp_path: Path, command: Command) -> None:
    done = command("run", small, "-o", "r.duckdb", "--jobs", "2")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "8 runs done, 0 kept from before, 0 failed: r.duckdb\n"
    assert command("run", small, "-o", "r.duckdb").stderr.startswith("0 runs done, 8 kept")
    table = command("table", "r.duckdb", "--rows", "bottleneck.rate", "--columns", "base_rtt", "--value", "goodput")
    assert table.returncode == 0 and "| 10Mbit" in table.stdout and " 40ms |" in table.stdout
    assert command("table", "r.duckdb", "--csv", "--value", "sojourn_p99").stdout.count("sojourn_p99_ms") == 8
    assert "±" not in command("table", "r.duckdb", "--no-spread").stdout
    assert command("table", "r.duckdb", "--where", "rate=2000kbit").stdout.count("2Mbit") == 0
    done = command(
        "plot", "r.duckdb", "-o", "p.svg", "--kind", "series", "--where", "rate=2Mbit", "--where", "base_rtt=10ms"
    )
    assert done.returncode == 0 and (tmp_path / "p.svg").exists(), done.stderr
    for options in (
        [],
        ["--against", "flows[*].base_rtt", "--where", "bottleneck.rate=2Mbit"],
        ["--time", "1s..2s", "--where", "flow=1"],
        ["--kind", "ccdf", "--by", "rate"],
        ["--kind", "cdf", "--value", "rtt"],
        ["--kind", "ccdf", "--value", "rtt", "--by", "rate"],
    ):
        done = command("plot", "r.duckdb", "-o", "q.svg", *options)
        assert done.returncode == 0, (options, done.stderr)
    assert command("export", "r.duckdb", "--parquet", "-o", "out").returncode == 0
    assert pl.read_parquet(tmp_path / "out" / "runs.parquet").height == 8
    assert command("export", "r.duckdb", "--parquet", "-o", "out").returncode == 2
    assert json.loads(command("schema").stdout)["$defs"]


def test_everything_registered_is_listed_described_and_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    known = registry.registry()
    cli.list_("")
    listed = capsys.readouterr().out
    for name in [*known.aqm, *known.cc]:
        assert f"  {name} " in listed
        cli.describe(name)
    text = capsys.readouterr().out
    assert all(param.doc in text for a in [*known.aqm.values(), *known.cc.values()] for param in a.params.values())
    plan = parsed(duration="1s", matrix={"bottleneck.aqm": list(known.aqm), "flows[0].cc": list(known.cc)})
    report = sweep.run([plan], tmp_path / "r.duckdb")
    assert report.failed == [] and report.done == len(known.aqm) * len(known.cc)
    with Store.open(tmp_path / "r.duckdb") as store:
        assert (store.table("flows")["goodput_mbit"] > 0).all()
