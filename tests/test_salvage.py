"""Damaged results files: what can be read is said, and saved; exports are whole or not there."""

import random
import shutil
import sqlite3
from pathlib import Path

import duckdb
import polars as pl
import pytest

from conftest import SMALL, Command
from dumbbell import experiment
from dumbbell.cli.export import export
from dumbbell.engines import estimate, sweep
from dumbbell.errors import InputError, Nothing, Unreadable
from dumbbell.results import salvage, store
from dumbbell.results.store import Store


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a results file whose tables have several blocks: 8 runs, the rows of each often over."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "small.toml").write_text(SMALL)
    sweep.run([experiment.load(folder / "small.toml")], folder / "r.duckdb")
    with duckdb.connect(str(folder / "r.duckdb")) as file:
        for name in ("series",):
            file.execute(f"CREATE TABLE more AS SELECT t.* FROM {name} t, range(6000) ORDER BY key, random()")
            file.execute(f"DELETE FROM {name}")
            file.execute(f"INSERT INTO {name} SELECT * FROM more ORDER BY key, random()")
            file.execute("DROP TABLE more")
        # without the blocks that are free now: damage there would be none
        file.execute(f"ATTACH '{folder / 'small.duckdb'}' AS small")
        name = file.execute("SELECT current_database()").fetchall()[0][0]
        file.execute(f'COPY FROM DATABASE "{name}" TO small')
    return folder / "small.duckdb"


def rows(path: Path, name: str, keys: list[str]) -> pl.DataFrame:
    with Store.open(path) as file:
        found = file.read(f"SELECT * FROM {name} ORDER BY ALL")
    return found.filter(pl.col("key").is_in(keys))


def test_a_whole_file_is_said_to_be_whole_and_saved_as_it_is(whole: Path, tmp_path: Path) -> None:
    found = salvage.check(whole)
    assert found.is_whole and len(found.whole) == 8 and "8 of 8 runs are whole" in found.to_text()
    salvage.save(whole, tmp_path / "new.duckdb")
    for name in store.TABLES:
        assert rows(whole, name, found.whole).equals(rows(tmp_path / "new.duckdb", name, found.whole))
    assert [path.name for path in tmp_path.iterdir()] == ["new.duckdb"]


@pytest.mark.slow
def test_runs_outside_of_a_damaged_block_are_saved(whole: Path, tmp_path: Path) -> None:
    content, rng, partly = whole.read_bytes(), random.Random(5), 0
    for number in range(8):
        if partly:
            break
        damaged = bytearray(content)
        damaged[rng.randrange(16_384, len(damaged))] ^= 1 << rng.randrange(8)
        path, new = tmp_path / f"{number}.duckdb", tmp_path / f"{number}.new.duckdb"
        path.write_bytes(damaged)
        try:
            found = salvage.save(path, new)
        except (Nothing, Unreadable) as error:
            assert len(str(error).splitlines()) == 1 and str(path) in str(error) and not new.exists()
            continue
        assert len(found.whole) <= 8 and salvage.check(new).is_whole
        partly += 0 < len(found.whole) < 8
        for name in store.TABLES:  # what is saved is what was there
            assert rows(new, name, found.whole).equals(rows(whole, name, found.whole))
        with Store.open(new) as file:
            assert sorted(file.read("SELECT key FROM runs")["key"]) == sorted(found.whole)
        if not found.is_whole:
            assert "cannot be read" in found.to_text() and "dumbbell store save" in found.to_text()
    assert partly > 0


def test_a_file_that_is_cut_off_is_one_line_or_what_is_left(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    for part in (0, 5, 4096, 12_288, len(content) // 2, len(content) - 600_000):
        path = tmp_path / f"{part}.duckdb"
        path.write_bytes(content[:part])
        try:
            found = salvage.check(path)
        except InputError as error:
            assert len(str(error).splitlines()) == 1 and str(error).startswith(f"{path}: ")
        else:
            assert not found.is_whole and len(found.whole) < 8


def test_a_log_that_cannot_be_read_is_left_out(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.duckdb"
    shutil.copyfile(whole, path)
    store.find_log(path).write_bytes(b"nonsense" * 4096)
    found = salvage.check(path)
    if found.notes:  # DuckDB may see that this is none of its logs
        assert "the log next to it" in found.to_text() and not found.is_whole
    assert len(found.whole) == 8
    assert salvage.save(path, tmp_path / "new.duckdb").whole == found.whole


def test_commands_say_what_to_do(whole: Path, tmp_path: Path, command: Command) -> None:
    done = command("store", "check", whole)
    assert done.returncode == 0 and "8 of 8 runs are whole" in done.stdout
    content = bytearray(whole.read_bytes())
    for place in range(len(content) // 2, len(content) // 2 + 600_000, 5000):
        content[place % len(content)] ^= 4
    path = tmp_path / "r.duckdb"
    path.write_bytes(content)
    done = command("store", "check", path)
    assert done.returncode in (1, 2) and (done.stdout + done.stderr).count("Traceback") == 0
    refused = command("export", path, "-o", tmp_path / "out")
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1, refused.stderr
    assert f"dumbbell store check {path}" in refused.stderr
    assert not (tmp_path / "out").exists()
    taken = command("store", "save", whole, "-o", path)
    assert taken.returncode == 2 and "this file exists" in taken.stderr and path.read_bytes() == content


def test_other_kinds_of_files_are_called_what_they_are(tmp_path: Path, command: Command) -> None:
    with sqlite3.connect(tmp_path / "a.duckdb") as other:
        other.execute("CREATE TABLE runs (key TEXT)")
    (tmp_path / "b.duckdb").write_text("some text, " * 2000)
    for name, kind in (("a", "this is a SQLite database"), ("b", "this is another kind of file")):
        for line in (["store", "check"], ["table"]):
            done = command(*line, tmp_path / f"{name}.duckdb")
            assert done.returncode == 2 and done.stderr.count("\n") == 1 and kind in done.stderr, done.stderr
            assert "download" not in done.stderr.lower()


def test_an_export_that_fails_leaves_nothing(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Store.read_table
    for stop in (KeyboardInterrupt(), OSError(28, "No space left on device")):

        def failing(self: Store, name: str, stop: BaseException = stop) -> pl.DataFrame:
            if name == "sojourn":
                raise stop
            return real(self, name)

        monkeypatch.setattr(Store, "read_table", failing)
        with pytest.raises((KeyboardInterrupt, InputError)):
            export(str(whole), str(tmp_path / "out"), engine="all")
        assert not (tmp_path / "out").exists()
        (tmp_path / "there").mkdir(exist_ok=True)
        with pytest.raises((KeyboardInterrupt, InputError)):
            export(str(whole), str(tmp_path / "there"), engine="all")
        assert not list((tmp_path / "there").iterdir())
    monkeypatch.setattr(Store, "read_table", real)
    export(str(whole), str(tmp_path / "there"), engine="all")
    assert {path.stem for path in (tmp_path / "there").iterdir()} == set(store.TABLES)


def test_the_size_of_a_sweep_is_reckoned_before_it() -> None:
    small = experiment.parse({"bottleneck": {"aqm": "codel"}, "flows": [{"cc": "reno"}], "duration": "1s"})
    assert 0 < estimate.estimate_size([small]) < 1e6
    seeds = [*range(1, 1001)]
    table = {
        "bottleneck": {"aqm": "codel"},
        "flows": [{"cc": "reno", "count": 100}],
        "duration": "1000s",
        "seeds": seeds,
    }
    assert estimate.estimate_size([experiment.parse(table | {"record": {"interval": "1ms"}})]) > 10e9
