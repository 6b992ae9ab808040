"""Damaged results files: what can be read is saved as a page says; exports are whole or not there."""

import re
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
from dumbbell.errors import InputError
from dumbbell.results import store
from dumbbell.results.store import Store

ROOT = Path(__file__).parent.parent


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


def damage(content: bytes, name: str, path: Path) -> Path:
    """Write a results file in which a number of blocks of the table `name` are damaged."""
    with duckdb.connect(str(path.with_name("whole.duckdb"))) as file:
        blocks = file.execute(f"SELECT DISTINCT block_id FROM pragma_storage_info('{name}') WHERE block_id > 0")
        places = [12_288 + 262_144 * block + 1000 for (block,) in blocks.fetchall()]
    damaged = bytearray(content)
    for place in places:
        damaged[place] ^= 4
    path.write_bytes(damaged)
    return path


def test_tables_that_can_be_read_are_copied_as_troubleshooting_says(
    whole: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    found = re.search(r"## A damaged results file.*?```python\n(.*?)```", page, re.DOTALL)
    assert found
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(whole, "whole.duckdb")
    path = damage(whole.read_bytes(), "series", tmp_path / "results.duckdb")
    refused = command("export", path, "-o", tmp_path / "out")
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1, refused.stderr
    assert "it is damaged" in refused.stderr and "docs/troubleshooting.md" in refused.stderr
    assert not (tmp_path / "out").exists()
    exec(found[1], {})
    assert re.findall(r"^(\w+) is lost", capsys.readouterr().out, re.MULTILINE) == ["series"]
    for name in store.TABLES:
        with Store.open(whole) as old, Store.open("saved.duckdb") as new:
            there, saved = (file.read(f"SELECT * FROM {name} ORDER BY ALL") for file in (old, new))
        assert saved.equals(there.clear() if name == "series" else there), name
    again = command("run", whole.parent / "small.toml", "-o", "saved.duckdb")
    assert again.returncode == 0 and "0 runs done, 8 kept" in again.stdout + again.stderr


def test_other_kinds_of_files_are_called_what_they_are(tmp_path: Path, command: Command) -> None:
    with sqlite3.connect(tmp_path / "a.duckdb") as other:
        other.execute("CREATE TABLE runs (key TEXT)")
    (tmp_path / "b.duckdb").write_text("some text, " * 2000)
    for name, kind in (("a", "this is a SQLite database"), ("b", "this is another kind of file")):
        done = command("table", tmp_path / f"{name}.duckdb")
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
