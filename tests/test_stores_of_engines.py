"""Every command that reads results reads those of every engine, whatever that does not measure."""

import json
from pathlib import Path

import duckdb
import pytest

import dumbbell
from conftest import Command
from dumbbell import _native

DESCRIBED = {name: columns for name, _, columns in json.loads(_native.columns())["tables"]}
ENGINES = sorted({one for columns in DESCRIBED.values() for column in columns for one in column["engines"]})
FILE = {
    "title": "two",
    "duration": "2s",
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "reno", "base_rtt": "20ms"}],
    "seeds": [1, 2],
    "record": {"interval": "100ms"},
}
READS = [
    ("table", "{}"),
    ("table", "{}", "--value", "goodput_mbit"),
    ("plot", "{}", "-o", "p.svg"),
    ("plot", "{}", "--kind", "lines", "-o", "p.svg"),
    ("plot", "{}", "--kind", "cdf", "-o", "p.svg"),
    ("report", "{}", "-o", "r.html"),
    ("diff", "{}", "{}"),
    ("export", "{}", "-o", "tables"),
    ("explain", "{}", "--seed", "1"),
    ("export", "{}", "--format", "parquet", "-o", "parquet"),
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Results of the simulator, without what each engine does not measure."""
    folder = tmp_path_factory.mktemp("stores")
    found = {}
    for engine in ENGINES:
        path = folder / f"{engine}.duckdb"
        dumbbell.run(FILE, output=path)
        with duckdb.connect(str(path)) as store:
            for table, columns in DESCRIBED.items():
                there = {row[0] for row in store.execute(f"DESCRIBE {table}").fetchall()}
                for column in columns:
                    if engine not in column["engines"] and column["name"] in there:
                        store.execute(f'ALTER TABLE {table} DROP COLUMN "{column["name"]}"')
        found[engine] = path
    return found


@pytest.mark.slow
@pytest.mark.parametrize("read", READS, ids=" ".join)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_not_measured_is_no_damage(
    engine: str, read: tuple[str, ...], stores: dict[str, Path], command: Command
) -> None:
    done = command(*(word.format(stores[engine]) for word in read))
    assert "damaged" not in done.stderr and "Binder" not in done.stderr, done.stderr
    assert done.returncode in (0, 2) and "internal error" not in done.stderr, done.stderr
    # a figure that needs what is not there may be refused; these need nothing of it
    if read[0] in ("table", "report", "diff", "export") or "lines" in read:
        assert done.returncode == 0, done.stderr
