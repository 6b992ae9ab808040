import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import polars as pl
import pytest

import dumbbell
from conftest import SMALL, Command
from dumbbell import experiment
from dumbbell.engines import sweep
from dumbbell.errors import InputError
from dumbbell.results.store import TABLES, Store, clear_errors

# 24 runs, together some seconds, so that there is a middle to stop in
SLOW = SMALL.replace('"2s"', '"15s"').replace("[1, 2]", "[1, 2, 3, 4, 5, 6]").replace('"10Mbit"]', '"1Gbit"]')


def contents(path: Path) -> dict[str, pl.DataFrame]:
    with Store.open(path) as store:
        tables = {name: store.read_table(name) for name in TABLES}
    tables["runs"] = tables["runs"].drop("wall_s").select(sorted(tables["runs"].drop("wall_s").columns))
    return tables


def same(a: dict[str, pl.DataFrame], b: dict[str, pl.DataFrame]) -> bool:
    return all(a[name].equals(b[name]) for name in TABLES)


def test_a_second_run_does_nothing(small: Path, tmp_path: Path) -> None:
    plan, output = [experiment.load(small)], tmp_path / "r.duckdb"
    first = sweep.run(plan, output)
    assert (first.done, first.kept, first.failed) == (8, 0, [])
    before = contents(output)
    second = sweep.run(plan, output)
    assert (second.done, second.kept) == (0, 8)
    assert same(before, contents(output))


def test_an_extended_sweep_runs_what_is_missing(small: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.duckdb"
    sweep.run([experiment.load(small)], output)
    report = sweep.run([experiment.load(small, ["seeds=[1, 2, 3]"])], output)
    assert (report.done, report.kept) == (4, 8)


def test_results_do_not_depend_on_workers_or_on_order(small: Path, tmp_path: Path) -> None:
    plan = experiment.load(small)
    sweep.run([plan], tmp_path / "one.duckdb", jobs=1)
    sweep.run([plan], tmp_path / "two.duckdb", jobs=2)
    one, two = contents(tmp_path / "one.duckdb"), contents(tmp_path / "two.duckdb")
    assert same(one, two)
    assert one["runs"]["hash"].n_unique() == 8
    again = dumbbell.run(small, jobs=2).runs
    assert again.sort("key")["hash"].to_list() == one["runs"].sort("key")["hash"].to_list()


def test_tables_hold_every_flow_class_and_interval(small: Path) -> None:
    results = dumbbell.run(small)
    assert results.runs.height == 8 and results.flows.height == 16
    assert results.classes.height == 16 and results.series.height > 0 and results.queue_series.height > 0
    assert results.classes["relative_throughput"].is_between(0, 2.0).all()
    totals = results.flows.group_by("key").agg(pl.col("goodput_mbit").sum()).join(results.runs, on="key")
    assert max((totals["goodput_mbit"] - totals["goodput_total_mbit"]).abs()) < 1e-9
    assert set(json.loads(results.runs["matrix"][0])) == {"bottleneck.rate", "flows[*].base_rtt"}


def test_runs_of_one_cell_share_its_hash_whatever_seed_and_engine(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "r.duckdb"
    sweep.run([experiment.load(small)], output)
    before = contents(output)["runs"]
    assert before["cell"].n_unique() == 4 and set(before.group_by("cell").len()["len"]) == {2}
    assert before["cell"].to_list() != before["key"].to_list()
    cell = experiment.load(small).make_cell(0)
    assert before.filter(key=cell.key)["cell"].to_list() == [cell.cell_key]
    monkeypatch.setattr("dumbbell._native.engine_version", lambda: "another")
    again = experiment.load(small).make_cell(0)
    assert (again.key != cell.key, again.cell_key) == (True, cell.cell_key)


@pytest.mark.timed
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_goes_on_where_it_was(how: signal.Signals, tmp_path: Path) -> None:
    path, output = tmp_path / "slow.toml", tmp_path / "r.duckdb"
    path.write_text(SLOW)
    often = "from dumbbell import cli; from dumbbell.engines import sweep; sweep.COMMIT_EVERY_S = 0.1; cli.main()"
    line = [sys.executable, "-c", often, "run", str(path), "-o", str(output), "--jobs", "1"]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (output.exists() and contents(output)["runs"].height) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(how)
    asked = time.monotonic()
    _, said = process.communicate(timeout=30)
    assert time.monotonic() - asked < 3
    if process.returncode == 0:
        pytest.skip("this machine is too fast for this test")
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130), said
    assert "Traceback" not in said
    kept = contents(output)["runs"].height
    assert 0 < kept < 24
    report = sweep.run([experiment.load(path)], output)
    assert (report.done, report.kept) == (24 - kept, kept)
    sweep.run([experiment.load(path)], tmp_path / "whole.duckdb")
    assert same(contents(output), contents(tmp_path / "whole.duckdb"))


def test_a_failed_run_does_not_stop_the_others(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dumbbell import _native, cli

    real = _native.run_all

    def failing(
        configs: list[str], cancel: _native.Cancel, progress: list[_native.Progress], threads: int
    ) -> list[tuple[float, _native.Result] | Exception]:
        broken = RuntimeError("conservation: 3 sent,\n2 arrived")
        ended = zip(configs, real(configs, cancel, progress, threads), strict=True)
        return [broken if json.loads(config)["seed"] == 2 else one for config, one in ended]

    monkeypatch.setattr(_native, "run_all", failing)
    monkeypatch.setattr("sys.argv", ["dumbbell", "run", str(small), "-o", str(tmp_path / "r.duckdb")])
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert leave.value.code == 1
    said = capsys.readouterr().err
    assert said.count("small: failed: conservation: 3 sent,\\n2 arrived (bottleneck.rate = ") == 4
    assert said.count("seed = 2)") == 4
    assert contents(tmp_path / "r.duckdb")["runs"].height == 4


def refused(path: Path, command: Command, small: Path, word: str) -> None:
    """Check that every command refuses the file in one line and leaves it as it is."""
    before = path.read_bytes()
    for line in (["run", small, "-o", path], ["run", small, "-o", path, "--dry-run"], ["table", path]):
        done = command(*line)
        assert done.returncode == 2, (line, done)
        assert len(done.stderr.splitlines()) == 1 and word in done.stderr, done.stderr
        assert done.stderr.startswith(f"{path}: ")
        assert path.read_bytes() == before


def test_files_that_are_no_results_are_left_alone(small: Path, tmp_path: Path, command: Command) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("my notes\n" * 1000)
    refused(text, command, small, "another kind of file")
    empty = tmp_path / "empty"
    empty.touch()
    refused(empty, command, small, "this is an empty file")
    other = tmp_path / "other.duckdb"
    with contextlib.closing(duckdb.connect(str(other))) as connection:
        connection.execute("CREATE TABLE mine AS SELECT 1")
    refused(other, command, small, "a database of something else")


def test_results_of_an_earlier_format_are_left_alone(small: Path, tmp_path: Path, command: Command) -> None:
    old = tmp_path / "old.duckdb"
    with contextlib.closing(duckdb.connect(str(old))) as connection:
        connection.execute("CREATE TABLE dumbbell AS SELECT 2 AS format")
    refused(
        old,
        command,
        small,
        "results in format 2; it must be results in format 5; run the experiment again with this version",
    )


@pytest.mark.parametrize("error", [RuntimeError("Query interrupted"), duckdb.InterruptException("INTERRUPT Error")])
def test_a_query_that_is_interrupted_is_no_fault(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), clear_errors(tmp_path / "r.duckdb"):
        raise error
    with pytest.raises(RuntimeError, match="other"), clear_errors(tmp_path / "r.duckdb"):
        raise RuntimeError("other")


def test_damaged_results_are_left_alone(small: Path, tmp_path: Path, command: Command) -> None:
    good = tmp_path / "good.duckdb"
    sweep.run([experiment.load(small)], good)
    content = good.read_bytes()
    damages = {
        "cut": content[: len(content) // 2],
        "short": content[:20],
        "header": content[:4096] + b"\xff" * 8192 + content[12288:],
        "all": content[:12] + os.urandom(len(content) - 12),
    }
    for name, damaged in damages.items():
        path = tmp_path / f"{name}.duckdb"
        path.write_bytes(damaged)
        refused(path, command, small, "it is damaged")


def test_nobody_writes_what_this_process_still_reads(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.duckdb"
    sweep.run([experiment.load(small)], path)
    line = [sys.executable, "-c", "import sys, duckdb; duckdb.connect(sys.argv[1])", str(path)]
    with Store.open(path) as first:
        with Store.open(path) as second:
            assert second.read_table("runs").height == 8
        # to close one of two descriptors would give up the lock on the other
        assert b"Could not set lock" in subprocess.run(line, stderr=subprocess.PIPE, check=False).stderr
        with pytest.raises(InputError, match="is using it"):
            Store.open(path, write=True)
        assert first.read_table("runs").height == 8
    Store.open(path, write=True).close()


@pytest.mark.slow
def test_results_in_use_are_left_alone(small: Path, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "r.duckdb"
    sweep.run([experiment.load(small)], path)
    code = "import sys; from dumbbell.results.store import Store; s = Store.open(sys.argv[1], write=True); "
    line = [sys.executable, "-c", code + "print(flush=True); input()", str(path)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin and holder.stdout
        holder.stdout.readline()
        done = command("run", small, "-o", path)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith(f"{path}: process {holder.pid} is using it; ")
        for reading in (["run", small, "-o", path, "--dry-run"], ["table", path]):
            assert command(*reading).returncode == 0, "what only reads goes on"
        holder.stdin.close()


def test_results_in_use_by_the_same_process_stay_locked(small: Path, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "r.duckdb"
    with Store.open(path, write=True):
        with pytest.raises(InputError, match="another process is using it; "):
            Store.open(path)
        assert "is using it" in command("run", small, "-o", path).stderr


def test_a_log_without_its_file_is_left_alone(small: Path, tmp_path: Path, command: Command) -> None:
    (tmp_path / "r.duckdb.wal").write_bytes(b"something")
    done = command("run", small, "-o", "r.duckdb")
    assert done.returncode == 2 and "the log of another results file" in done.stderr
    assert (tmp_path / "r.duckdb.wal").read_bytes() == b"something" and not (tmp_path / "r.duckdb").exists()


def test_no_bars_are_drawn_into_what_is_printed(tmp_path: Path) -> None:
    # a session without a script is an interactive one to DuckDB
    code = """
from dumbbell.results.store import Store
with Store.open("new.duckdb", write=True) as store:
    print(store.read("SELECT current_setting('enable_progress_bar') AS drawn")["drawn"][0])
with Store.open("new.duckdb") as store:
    print(store.read("SELECT current_setting('enable_progress_bar') AS drawn")["drawn"][0])
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "False\nFalse\n"


def test_a_dry_run_writes_nothing(small: Path, tmp_path: Path, command: Command) -> None:
    done = command("run", small, "--dry-run")
    assert done.returncode == 0 and done.stdout.startswith("8 runs; about ")
    assert [p.name for p in tmp_path.iterdir()] == ["small.toml"]


def test_columns_may_come_later_and_turn_real(tmp_path: Path) -> None:
    with Store.open(tmp_path / "r.duckdb", write=True) as store:
        store.write({"runs": pl.DataFrame({"key": ["a"], "x": [1]}), "flows": pl.DataFrame({"v": [1]})})
        more = pl.DataFrame({"key": ["b"], "x": [2.5], "n": [7], "bins": ["[1, 2]"]})
        store.write({"runs": more, "flows": pl.DataFrame({"v": [0.5]})})
        store.write({"runs": pl.DataFrame({"key": ["c"], "y": ["w"]}), "flows": pl.DataFrame({"w": ["late"]})})
        runs = store.read("SELECT key, x, n, bins, y FROM runs ORDER BY key")
        assert runs.rows() == [
            ("a", 1.0, None, None, None),
            ("b", 2.5, 7, "[1, 2]", None),
            ("c", None, None, None, "w"),
        ]
        assert store.read("SELECT v, w FROM flows ORDER BY v NULLS LAST").rows() == [
            (0.5, None),
            (1.0, None),
            (None, "late"),
        ]
        with pytest.raises(InputError):
            store.write({"runs": pl.DataFrame({"key": ["a"], "late": [1]}), "flows": pl.DataFrame({"v": [9.0]})})
        assert store.read("SELECT count(*) AS n FROM flows")["n"][0] == 3, "all of a commit or nothing"
        assert "late" not in store.list_columns("runs")
        store.write({"runs": pl.DataFrame({"key": ["d"], "late": [1]})})
