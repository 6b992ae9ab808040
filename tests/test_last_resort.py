"""What nobody foresaw ends in one line, and what a terminal or an editor is like does not matter."""

import sqlite3
from pathlib import Path

import pytest

from conftest import Command
from dumbbell import experiment
from dumbbell.cli import program, status
from dumbbell.errors import InputError, UnknownName
from dumbbell.results.results import StoredResults

EXPERIMENT = '[bottleneck]\naqm = "codel"\n[[flows]]\ncc = "cubic"\nbase_rtt = "20ms"\n'


def test_a_fault_is_one_line_and_its_traceback_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("what nobody foresaw")

    monkeypatch.setattr("dumbbell.experiment.file.load", broken)
    monkeypatch.setattr("sys.argv", ["dumbbell", "run", "x.toml", "--dry-run"])
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(SystemExit) as left:
        program.main()
    assert left.value.code == status.FAULT == 70
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("dumbbell: internal error of dumbbell") and "KeyError: 'what nobody foresaw'" in line
    [log] = tmp_path.glob("dumbbell-*.log")
    assert str(log) in line and "Traceback" in log.read_text() and "raise KeyError" in log.read_text()
    monkeypatch.setenv("DUMBBELL_TRACEBACK", "1")
    with pytest.raises(KeyError):
        program.main()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_is_written_to(
    encoding: str, process: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    described = process("describe", "cake")
    assert described.returncode == 0 and "Traceback" not in described.stderr


def test_a_mark_at_the_begin_of_a_file_is_no_part_of_it(tmp_path: Path) -> None:
    plain, marked = tmp_path / "a.toml", tmp_path / "b.toml"
    plain.write_text(EXPERIMENT)
    marked.write_bytes(b"\xef\xbb\xbf" + EXPERIMENT.encode())
    keys = [[cell.key for cell in experiment.load(file).make_cells()] for file in (plain, marked)]
    assert keys[0] == keys[1]
    marked.write_text(EXPERIMENT, encoding="utf-16")
    with pytest.raises(InputError, match="this is UTF-16; it must be TOML, which is UTF-8"):
        experiment.load(marked)


def test_another_database_is_refused_without_the_network(tmp_path: Path) -> None:
    path = tmp_path / "r.duckdb"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE runs (key TEXT)")
    with pytest.raises(InputError) as refused:
        StoredResults(path)
    assert "download" not in str(refused.value).lower() and "\n" not in str(refused.value)


def test_a_notebook_shows_the_line_alone() -> None:
    error = UnknownName('"codle"', among=["codel"], file="a.toml", key="bottleneck.aqm", what="aqm")
    assert error._render_traceback_() == [str(error)] and "\n" not in str(error)
