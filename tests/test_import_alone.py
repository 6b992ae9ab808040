"""Results of imported files alone: whatever reads results draws and tells what is there, or says what is not."""

import json
from pathlib import Path

import pytest

import dumbbell
from conftest import Command
from dumbbell.errors import InputError
from dumbbell.exchange import formats, imported_tables, keep
from dumbbell.plotting import KINDS
from dumbbell.results.store import TABLES
from test_flent import foreign

SAMPLES = Path(__file__).parent / "imports"
FILES = ("far.pcap.gz", "upload.json", "upload.ss.txt", "foreign.flent")
# what every store of an imported file can be asked for
READERS = (
    *(("plot", *more, "-o", "p.png") for more in ((), ("--engine", "all"), ("--engine", "import"))),
    *(("plot", "--kind", "series", *more, "-o", "s.png") for more in ((), ("--value", "goodput"))),
    ("plot", "--kind", "series", "-o", "s.html"),
    *(("report", *more, "-o", "r.html") for more in ((), ("--engine", "all"))),
    *(("table", *more) for more in ((), ("--engine", "all", "--format", "raw"), ("--of", "runs", "--format", "csv"))),
    *(("explain", *more) for more in ((), ("--format", "json"), ("--stored",))),
    *(("export", "--format", form, "-o", form) for form in ("csv", "parquet", "flent")),
    *(("watch", *more) for more in ((), ("--format", "csv"), ("--stored",))),
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("alone")
    (folder / "foreign.flent").write_text(json.dumps(foreign()))
    found = {}
    for name in FILES:
        path = next(place / name for place in (SAMPLES, folder) if (place / name).exists())
        found[name] = folder / f"{name}.duckdb"
        keep.keep(found[name], [keep.propose_experiment(path, formats.read(path), "it")])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_whatever_reads_results_reads_imports_alone(name: str, stores: dict[str, Path], command: Command) -> None:
    for first, *more in READERS:
        ended = command(first, str(stores[name]), *more)
        assert ended.returncode == 0, (first, more, ended.stderr)
    ended = command("diff", str(stores[name]), str(stores[name]))
    assert ended.returncode == 0, ended.stderr
    drawn = []
    for kind in KINDS:
        ended = command("plot", str(stores[name]), "--kind", kind, "-o", f"{kind}.png")
        assert ended.returncode in (0, 2) and "frame:" not in ended.stderr, (kind, ended.stderr)
        drawn += [kind] * (ended.returncode == 0)
    assert {"bars", "series"} <= set(drawn)
    said = command("plot", str(stores[name]), "--kind", "cdf").stderr
    assert f"{stores[name]}: --value: the runs have no sojourn; give runs that have it" in said


@pytest.mark.parametrize("name", FILES)
def test_every_table_of_imports_alone_has_its_columns(name: str, stores: dict[str, Path]) -> None:
    results = dumbbell.open(stores[name], engine="all")
    for table in TABLES:
        found = results.frame(table)
        assert set(imported_tables.make_schema(table)) <= set(found.columns), table
    series = results.run().series()
    assert series.height and any(column.startswith("goodput_mbit") for column in series.columns)
    with pytest.raises(InputError, match="no sojourn over time"):
        results.run().series("sojourn")
