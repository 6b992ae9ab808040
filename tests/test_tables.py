"""Tables and the command line that prints them."""

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import dumbbell
from conftest import Command, described, parsed
from dumbbell import Results, experiment
from dumbbell.cli import describe, list_, program
from dumbbell.engines import sweep
from dumbbell.errors import InputError
from dumbbell.experiment import registry
from dumbbell.results import latex
from dumbbell.results.store import Store
from dumbbell.results.tables import align_table, format_number, join_csv, tidy


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
    assert results.table("goodput", "bottleneck.rate", "flow", spread=False).to_markdown() == (
        "goodput, each over its own time, Mbit/s, of each flow; mean over seeds, n = 2\n\n"
        "| bottleneck.rate \\ flow | 0 cubic | 1 reno |\n"
        "| ---------------------- | ------: | -----: |\n"
        "| 10Mbit                 |     2.5 |    3.5 |\n"
        "| 100Mbit                |    11.5 |   21.5 |"
    )
    assert results.table("goodput", "flow", "bottleneck.rate", spread=False).cells[1] == ["1 reno", "3.5", "21.5"]
    lines = results.table("goodput", spread=False).to_markdown().splitlines()
    assert lines[2].split("|")[1:4] == [" bottleneck.rate \\ flow ", " cubic ", " reno "]


def test_the_interval_is_there_unless_it_is_not_wanted(results: Results) -> None:
    # 2 and 3: t(0.975, 1) = 12.7 would make an interval of 2.5 ± 6.4, which says nothing
    assert "2.5 (2 to 3)" in str(results.table("goodput", "rate", "flow"))
    assert "; mean (least to greatest) of 2 seeds\n" in str(results.table("goodput", "rate", "flow"))


def test_what_is_neither_row_nor_column_is_a_row(results: Results) -> None:
    text = results.table("rtt", "cc").to_markdown()
    assert "cc \\ bottleneck.rate |     10Mbit |    100Mbit |" in text
    assert "| reno                 | 45 (equal) |" in text
    assert results.table("rtt", "cc", mean_over=["bottleneck.rate"]).frame.height == 2
    by_rtt = results.table("rtt", "base_rtt", mean_over=["rate"]).frame
    assert by_rtt["base_rtt"].to_list() == ["20ms", "40ms"] and by_rtt["mean"].to_list() == [25, 45]


def test_measures_of_runs_and_short_names(results: Results) -> None:
    frame = results.where("flows[1].base_rtt=40ms").table("jain", "rate", "seed").frame
    assert [round(value, 6) for value in frame["mean"]] == [0.5, 0.6, 0.7, 0.8]
    assert results.table("jain", "aqm", mean_over=["rate"]).frame.row(0)[:3] == ("codel", "jain", pytest.approx(0.65))


def test_tidy_rows_hold_one_value_and_every_key(results: Results) -> None:
    rows = tidy(results._runs, ["goodput", "jain"])
    assert rows.height == 8 + 4
    row = rows.filter(pl.col("measure") == "goodput_mbit", pl.col("seed") == 1, pl.col("flow") == 1).row(0, named=True)
    assert row == {
        "experiment": "made-up",
        "bottleneck.rate_mbit": 10.0,
        "seed": 1,
        "flow": 1,
        "cc": "reno",
        "direction": "down",
        "base_rtt_ms": 40.0,
        "measure": "goodput_mbit",
        "value": 3.0,
    }
    assert rows.filter(pl.col("measure") == "jain")["flow"].null_count() == 4


def test_a_frame_has_the_numbers_of_keys_beside_their_texts(results: Results) -> None:
    found = results.table("goodput", "bottleneck.rate", "flow")
    assert found.frame.columns == [
        *("bottleneck.rate", "bottleneck.rate_mbit", "flow", "measure"),
        *("mean", "half", "low", "high", "resolution", "n", "runs", "none"),
    ]
    assert found.frame["bottleneck.rate_mbit"].to_list() == [10.0, 10.0, 100.0, 100.0]
    assert found.frame["flow"].dtype == pl.Int64 and found.frame["flow"].to_list() == [0, 1, 0, 1]
    base_rtt = results.table("rtt", "base_rtt", mean_over=["rate"]).frame
    assert base_rtt["base_rtt_ms"].to_list() == [20.0, 40.0] and base_rtt["base_rtt"].to_list() == ["20ms", "40ms"]
    assert results.table("goodput").frame["flow"].to_list() == ["cubic", "reno"] * 2


def test_csv_is_what_is_shown(results: Results) -> None:
    found = results.table("goodput", "bottleneck.rate", "flow")
    lines = found.to_csv().splitlines()
    assert lines[0] == "bottleneck.rate_mbit,flow,measure,mean,half,low,high,resolution,n,runs,none"
    # 2 and 3 Mbit/s: see test_the_interval_is_there_unless_it_is_not_wanted
    assert lines[1] == "10.0,0,goodput_mbit,2.5,,2.0,3.0,,2,2,0"
    again = pl.read_csv(io.StringIO(found.to_csv()), schema=found.plain.schema)
    assert again.equals(found.frame.drop("bottleneck.rate")) and again.equals(found.plain)
    first = results.table("goodput", "bottleneck.rate", "flow", limit=1)
    assert first.to_csv().splitlines() == lines[:3] and first.frame.height == 4
    bare = results.table("goodput", "bottleneck.rate", "flow", spread=False).to_csv().splitlines()[0]
    assert bare == "bottleneck.rate_mbit,flow,measure,mean,resolution,n,runs,none"
    one = results.table("jain", mean_over=["bottleneck.rate"]).to_csv().splitlines()
    assert one[0] == "measure,mean,half,low,high,resolution,n,runs,none" and one[1].startswith("jain,0.64999999")


def test_an_interval_narrower_than_a_bin_says_so(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "r.duckdb"
    shutil.copy(results.path, path)
    with duckdb.connect(str(path)) as connection:
        # unlike runs whose quantiles are in one bin; then in two, 1 ms apart
        connection.execute("UPDATE runs SET sojourn_p99_ms = 605.6, sojourn_p50_ms = 100 + seed, sojourn_max_ms = 700")
    found = dumbbell.open(path)
    p99 = found.table("sojourn_p99", "bottleneck.rate")
    assert [row[-1] for row in p99.cells] == ["605.6 ± <8.4"] * 2  # 2^29 ns / 64
    assert p99.notes[-1] == (
        "± <w: the interval is narrower than the bin of the histogram from which the value is read; w is the width of "
        "the bin, 1.6 % of the value or less, but at least 0.001024 ms"
    )
    assert p99.frame["resolution"].to_list() == [2**29 / 64e6] * 2 and p99.frame["half"].to_list() == [0, 0]
    assert "± 0" not in p99.to_markdown() and "605.6 $\\pm$ $<$8.4" in p99.to_latex()
    assert "605.6,0.0,605.6,605.6,8.388608," in p99.to_csv()
    p50 = found.table("sojourn_p50", "bottleneck.rate")
    assert p50.cells[0][-1] == "101.5 (101 to 102)" and not any("bin" in note for note in p50.notes)
    longest = found.table("sojourn_max", "bottleneck.rate")
    assert longest.cells[0][-1] == "700 (equal)" and longest.frame["resolution"].null_count() == 2
    assert not any("bin" in note for note in found.table("sojourn_p99", "bottleneck.rate", spread=False).notes)


def test_several_measures_make_one_csv(results: Results) -> None:
    tables = [results.table(value, "bottleneck.rate") for value in ("jain", "goodput")]
    rows = pl.read_csv(io.StringIO(join_csv(tables)))
    assert rows.columns[:4] == ["bottleneck.rate_mbit", "flow", "measure", "mean"]
    assert rows["measure"].to_list() == ["jain"] * 2 + ["goodput_mbit"] * 4
    assert rows["flow"].to_list() == [None, None, "cubic", "reno", "cubic", "reno"]
    assert rows["mean"].to_list() == pytest.approx([0.55, 0.75, 2.5, 3.5, 11.5, 21.5])


def balanced(text: str) -> bool:
    """Whether the braces of LaTeX are in pairs."""
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def test_latex_is_a_tabular_whose_text_is_escaped(results: Results) -> None:
    text = results.table("goodput", "bottleneck.rate", "flow").to_latex()
    lines = text.splitlines()
    assert lines[0].startswith("% goodput, each over its own time, Mbit/s, of each flow; mean")
    assert lines[1:5] == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"bottleneck.rate \textbackslash{} flow & 0 cubic & 1 reno \\",
        r"\midrule",
    ]
    assert lines[5].startswith(r"10Mbit & 2.5 (2 to 3) & 3.5 (3 to 4) \\")
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"] and balanced(text)
    special = r"_%&#${}~^\<>"
    made = latex.format_tabular("a", ["[x]", special], [["*", "-1.5e-05 ± 2"], ["[a_b]", "- (1 of 2)"]], 1, ["b\nc"])
    rows = [line for line in made.splitlines() if line.endswith(r"\\")]
    assert rows[0] == (r"{}[x] & \_\%\&\#\$\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}$<$$>$ \\")
    assert rows[1] == r"{}* & $-$1.5$\cdot10^{-5}$ $\pm$ 2 \\" and rows[2] == r"{}[a\_b] & - (1 of 2) \\"
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [1, 1, 1] and balanced(made)
    assert made.splitlines()[0] == "% a" and made.splitlines()[-1] == "% b c"


def test_unknown_names_get_one_line(results: Results) -> None:
    for options, message in (
        ({"rows": "bottleneck.rte"}, "rows: unknown key bottleneck.rte; did you mean "),
        ({"columns": "bottleneck.rte"}, "columns: unknown key bottleneck.rte; did you mean "),
        ({"value": "gooodput"}, "value: unknown measure gooodput; did you mean "),
        ({"value": "latency"}, "value: unknown measure latency; did you mean sojourn_mean_ms? Choose from "),
        ({"value": "latency"}, "; sojourn_mean_ms is time in queue, mean, ms; rtt_mean_ms is mean RTT, ms"),
        ({"value": "delay"}, "value: unknown measure delay; did you mean sojourn_mean_ms? "),  # no UDP
        ({"value": "Queue delay"}, "; did you mean sojourn_mean_ms? "),
        ({"value": "loss"}, "value: unknown measure loss; did you mean drop_share? "),
        ({"value": "fairness"}, "value: unknown measure fairness; did you mean jain? "),
        ({"value": "bandwidth"}, "value: unknown measure bandwidth; did you mean goodput_mbit? "),
    ):
        with pytest.raises(InputError) as error:
            results.table(**dict[str, Any](options))
        assert message in str(error.value)


def test_numbers_and_columns() -> None:
    assert [format_number(x) for x in (None, float("nan"), 0.123456, 12345.6)] == ["-", "-", "0.1235", "12346"]
    assert align_table(["a", "b"], [["x", "1"]]).splitlines()[1] == "| --- | --: |"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> None:
    """Call the command line in this process: it has to leave with status 2 and one line."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as leave:
        patch.setattr("sys.argv", ["dumbbell", *map(str, arguments)])
        program.main()
    shown = capsys.readouterr()
    assert leave.value.code == 2 and shown.out == "" and len(shown.err.splitlines()) == 1, (arguments, shown)
    assert shown.err.count("\n") == 1 and "Traceback" not in shown.err, (arguments, shown.err)


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
        ["table", results.path, "--format", "html"],
        ["table", results.path, "--format", "raw", "--rows", "rate"],
        ["table", results.path, "--format", "raw", "--mean-over", "rate"],
        ["table", results.path, "--format", "raw", "--limit", "1"],
        ["table", results.path, "--format", "csv", "--rows", "rae"],
        ["table", results.path, "--of", "clases"],
        ["table", results.path, "--engine", "2"],
        ["validate", results.path, "sce", "--format", "csv", "--scores"],
    ):
        refused(capsys, *line)


@pytest.mark.slow
def test_the_command_line(small: Path, tmp_path: Path, command: Command) -> None:
    done = command("run", small, "-o", "r.duckdb", "--jobs", "2")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "8 runs done, 0 kept from before, 0 failed: r.duckdb\n"
    assert command("run", small, "-o", "r.duckdb").stderr.startswith("0 runs done, 8 kept")
    table = command("table", "r.duckdb", "--rows", "bottleneck.rate", "--columns", "base_rtt", "--value", "goodput")
    assert table.returncode == 0 and "| 10Mbit" in table.stdout and " 40ms |" in table.stdout
    raw = command("table", "r.duckdb", "--format", "raw", "--value", "sojourn_p99").stdout
    assert raw == tidy(dumbbell.open(tmp_path / "r.duckdb")._runs, ["sojourn_p99"]).write_csv()
    assert raw.count("sojourn_p99_ms") == 8
    line = ["table", "r.duckdb", "--rows", "bottleneck.rate", "--columns", "base_rtt", "--value", "goodput"]
    shown = dumbbell.open(tmp_path / "r.duckdb").table("goodput", "bottleneck.rate", "base_rtt")
    means = pl.read_csv(io.StringIO(command(*line, "--format", "csv").stdout), schema=shown.plain.schema)
    assert means.equals(shown.frame.select(means.columns)) and means.height == 8
    assert command(*line, "--format", "csv", "--limit", "1").stdout.count("goodput_mbit") == 2
    assert command(*line, "--format", "latex").stdout.count(r"\\") == 5
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
    assert command("export", "r.duckdb", "--format", "parquet", "-o", "out").returncode == 0
    assert pl.read_parquet(tmp_path / "out" / "runs.parquet").height == 8
    assert command("export", "r.duckdb", "--format", "parquet", "-o", "out").returncode == 2
    assert json.loads(command("describe", "--schema").stdout)["$defs"]


def test_everything_registered_is_listed_described_and_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    known = registry.read_registry()
    list_.list_("")
    listed = capsys.readouterr().out
    for name in [*known.aqm, *known.cc]:
        assert f"  {name} " in listed
        describe.describe(name)
    text = capsys.readouterr().out
    assert all(param.doc in text for a in [*known.aqm.values(), *known.cc.values()] for param in a.params.values())
    plan = parsed(duration="1s", matrix={"bottleneck.aqm": list(known.aqm), "flows[0].cc": list(known.cc)})
    report = sweep.run([plan], tmp_path / "r.duckdb")
    assert report.failed == [] and report.done == len(known.aqm) * len(known.cc)
    with Store.open(tmp_path / "r.duckdb") as store:
        assert (store.read_table("flows")["goodput_mbit"] > 0).all()


def test_a_goodput_over_unlike_times_says_so(tmp_path: Path) -> None:
    """Goodputs of flows of which one comes late add up to more than the link carries: the header says why."""
    flows = [{"cc": "reno"}, {"cc": "reno", "start": "2s"}]
    late = dumbbell.run(described(duration="4s", flows=flows), output=tmp_path / "late.duckdb")
    assert late._runs.measure("goodput").label == "goodput, each over its own time, Mbit/s"
    assert late.table("goodput").title.startswith("goodput, each over its own time, Mbit/s, of each flow")
    assert late._runs.measure("rtt").label == "mean RTT, ms"
    flows[1]["start"] = "10ms"
    together = dumbbell.run(described(duration="4s", flows=flows), output=tmp_path / "together.duckdb")
    assert together._runs.measure("goodput").label == "goodput, Mbit/s"


@pytest.mark.parametrize("asked", [{"value": "goodput", "of": "slowdowns"}, {"value": "slowdowns.goodput"}])
def test_a_measure_that_a_part_lacks_is_not_taken_from_elsewhere(results: Results, asked: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match=r"unknown measure goodput; .*; --of flows or --of classes or --of apps has it"
    ):
        results.table(**asked)
