"""Where output goes that cannot be written, and what a sweep says of itself."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import SMALL, parsed
from dumbbell import experiment
from dumbbell.engines import estimate, sweep
from dumbbell.results.store import Alike, Store

FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an experiment, small.toml, and its results, r.duckdb."""
    folder = tmp_path_factory.mktemp("output")
    (folder / "small.toml").write_text(SMALL)
    sweep.run([experiment.load(folder / "small.toml")], folder / "r.duckdb")
    return folder


PRINTING = [
    ["--help"],
    ["--version"],
    ["list"],
    ["describe", "cake"],
    ["describe", "--all"],
    ["describe", "--schema"],
    ["run", "small.toml", "--dry-run"],
    ["table", "r.duckdb"],
    ["table", "r.duckdb", "--format", "csv"],
    ["table", "r.duckdb", "--format", "latex"],
    ["table", "r.duckdb", "--format", "raw"],
]


def ended(line: list[str], folder: Path, redirection: str) -> tuple[int, str]:
    """Return exit status and standard error of a command under `redirection` of the shell."""
    script = f'"$0" -m dumbbell "$@" {redirection}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, *line],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize("line", PRINTING, ids=" ".join)
def test_output_that_finds_no_room_is_one_line(line: list[str], results: Path) -> None:
    expected = "standard output: cannot write: no space left on device\n"
    assert ended(line, results, "> /dev/full") == (2, expected)


def test_nobody_need_read_to_the_end(results: Path) -> None:
    assert ended(["describe", "--all"], results, "| true") == (1, "")
    assert ended(["list"], results, ">&-") == (0, "")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
def test_errors_that_cannot_be_said_keep_their_status(results: Path) -> None:
    assert ended(["describe", "nothing of the kind"], results, "2> /dev/full")[0] == 2


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_export_that_finds_no_room_leaves_no_part_of_a_table(ending: str, results: Path) -> None:
    script = f'ulimit -f 1; "$0" -B -m dumbbell export r.duckdb -o {ending} --format {ending}'
    line = ["bash", "-c", script, sys.executable]
    done = subprocess.run(line, cwd=results, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1) and done.stderr.startswith(f"{ending}: ")
    assert not (results / ending).exists()


def test_progress_counts_what_is_left(results: Path, tmp_path: Path) -> None:
    whole = experiment.load(results / "small.toml")
    more = experiment.load(results / "small.toml", ["seeds=[1, 2, 3]"])
    with Store.open(results / "r.duckdb") as store:
        assert estimate.estimate_missing([whole], store) == (0, 0.0)
        new = [cell for cell in more.make_cells() if cell.seed == 3]
        runs, packets = estimate.estimate_missing([more, more], store)
        assert runs == 4 and packets == pytest.approx(sum(cell.packets for cell in new))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(estimate, "_EXACT", 0)
            assert estimate.estimate_missing([more], store)[0] == 4
    with Store.open(tmp_path / "new.duckdb", write=True) as store:
        assert estimate.estimate_missing([whole], store)[0] == 8


def test_a_sweep_says_in_how_many_cells_the_seed_made_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dumbbell import cli

    jitter = {"flows[0].jitter": ["0s", "1ms"], "bottleneck.rate": ["1Mbit", "2Mbit"]}
    plan = parsed(seeds=[1, 2, 3], bottleneck={"aqm": "pfifo"}, matrix=jitter)
    report = sweep.run([plan], tmp_path / "r.duckdb")
    assert report.alike == Alike(same=2, cells=4, seeds=3)
    assert sweep.run([parsed(bottleneck={"aqm": "pfifo"})], tmp_path / "one.duckdb").alike == Alike(0, 0, 0)
    monkeypatch.setattr("dumbbell.experiment.file.load", lambda *_: plan)
    monkeypatch.setattr("sys.argv", ["dumbbell", "run", "any.toml", "-o", str(tmp_path / "r.duckdb")])
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert leave.value.code == 0
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(
        "all seeds (up to 3) gave the same run in 2 of 4 cells, because nothing in them is random; "
    )


@pytest.mark.parametrize(
    ("changes", "is_said"),
    [
        ({}, True),
        ({"hosts.ecn": True}, False),
        ({"flows[0].ecn": True}, False),
        ({"flows[0].cc": "dctcp"}, False),
        ({"bottleneck.aqm": "codel"}, False),
        ({"udp": [{"ecn": "ect1"}]}, False),
    ],
)
def test_a_queue_that_marks_nothing_is_told_of(changes: dict[str, Any], is_said: bool) -> None:
    from dumbbell.experiment import ecn
    from dumbbell.experiment.file import parse

    table = {"bottleneck": {"aqm": {"name": "codel", "ecn": True}}, "flows": [{"cc": "cubic"}], "udp": []}
    said = ecn.explain_useless_marks(
        parse(
            {**table, **{k: v for k, v in changes.items() if k == "udp"}},
            "test",
            {key: value for key, value in changes.items() if key != "udp"},
        )
    )
    line = "bottleneck.aqm.ecn = true marks nothing: no flow asks for ECN; hosts.ecn = true makes them ask"
    assert said == (line if is_said else "")
