"""Every command that reads or writes a file, with files that are not what they should be: one line, status 2."""

import gzip
import sqlite3
from pathlib import Path

import pytest

from conftest import SMALL
from dumbbell import cli
from dumbbell.results.store import Store

BAD = ("missing", "folder", "empty", "sqlite", "text", "bytes")
POINT = ["--only", "1", "--rate", "1Mbit", "--rtt", "20ms"]
SAMPLE = Path(__file__).parent.parent / "docs" / "check-bbr-sample.sqlog"
READ = {
    "run": ["run", "BAD", "--dry-run"],
    "run -o": ["run", "GOOD.toml", "-o", "BAD", "--jobs", "1"],
    "table": ["table", "BAD"],
    "plot": ["plot", "BAD", "-o", "NEW.png"],
    "report": ["report", "BAD", "-o", "NEW.html"],
    "diff": ["diff", "BAD", "BAD"],
    "validate": ["validate", "BAD", "--engines"],
    "study tables sce": ["study", "tables", "sce", "BAD"],
    "study tables": ["study", "tables", "abe", "BAD"],
    "evaluate results": ["evaluate", "results", "BAD", "--suite", "coexistence"],
    "evaluate results by a file": ["evaluate", "results", "BAD", "--suite", "BAD"],
    "export": ["export", "BAD", "-o", "NEW"],
    "evaluate trace": ["evaluate", "trace", "BAD", "--rate", "10Mbit", "--rtt", "20ms"],
    "evaluate --known": ["evaluate", "cc", "bbr3", "--suite", "bbr", *POINT, "--known", "BAD"],
    "evaluate --baseline": ["evaluate", "cc", "bbr3", "--suite", "bbr", *POINT, "--baseline", "BAD"],
}
# what these files are right for: an empty list of known failures, and a sweep that makes its file
RIGHT = {("evaluate --known", "empty"), ("run -o", "missing")}


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("one two three\n" * 1000)
    (tmp_path / "bytes").write_bytes(bytes(range(256)) * 100)
    with sqlite3.connect(tmp_path / "sqlite") as other:
        other.execute("CREATE TABLE runs (key TEXT)")
    (tmp_path / "GOOD.toml").write_text(SMALL)
    return tmp_path


def run_command(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[object, list[str]]:
    monkeypatch.setattr("sys.argv", ["dumbbell", *line])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code, capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in READ for kind in BAD if (name, kind) not in RIGHT])
def test_a_file_that_is_not_what_it_should_be_is_one_line(
    name: str, kind: str, bad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(bad)
    before = {path.name: path.read_bytes() for path in bad.iterdir() if path.is_file()}
    status, lines = run_command([kind if word == "BAD" else word for word in READ[name]], monkeypatch, capsys)
    assert (status, len(lines)) == (2, 1), lines
    assert kind in lines[0] and "Traceback" not in lines[0] and len(lines[0]) < 600
    # nothing is written, and nothing that was there is changed
    assert {path.name: path.read_bytes() for path in bad.iterdir() if path.is_file()} == before


KINDS = {
    "results": "this is a results file, which dumbbell table, plot, report, diff, validate and explain read",
    "experiment": "this is an experiment file, which dumbbell run, explain and trace read",
    "pcap": "this is a capture, which dumbbell import reads",
    "pcapng": "this is a capture, which dumbbell import reads",
    "pcap.gz": "this is a capture, which dumbbell import reads",
    "flent": "this is a data file of Flent, which dumbbell import reads",
    "iperf3": "this is JSON of iperf3, which dumbbell import reads",
    "qlog": "this is a qlog file, which dumbbell import and plot read",
    "parquet": "this is a Parquet file",
}
OTHERS = {
    "run": set(KINDS) - {"experiment"},
    **dict.fromkeys(("table", "plot", "report", "diff", "validate", "explain"), set(KINDS) - {"results"}),
    "plot": set(KINDS) - {"results", "qlog"},
    "import": {"results", "experiment", "parquet"},
}


@pytest.fixture
def kinds(tmp_path: Path) -> Path:
    imports = Path(__file__).parent / "imports"
    (tmp_path / "experiment").write_text(SMALL)
    pcap = gzip.decompress((imports / "near.pcap.gz").read_bytes())
    (tmp_path / "pcap").write_bytes(pcap)
    (tmp_path / "pcap.gz").write_bytes(gzip.compress(pcap))
    (tmp_path / "pcapng").write_bytes(b"\n\r\r\n\x1c\0\0\0")
    (tmp_path / "flent").write_bytes(gzip.compress(b'{"metadata": {"DATA_FILENAME": "x"}, "version": 4}'))
    (tmp_path / "iperf3").write_bytes((imports / "upload.json").read_bytes())
    (tmp_path / "qlog").write_text('\x1e{"qlog_version": "0.3"}\n')
    (tmp_path / "parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    with Store.open(tmp_path / "results", write=True):
        pass
    return tmp_path


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in OTHERS for kind in sorted(OTHERS[name])])
def test_a_file_of_another_kind_is_called_what_it_is(
    name: str, kind: str, kinds: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(kinds)
    line = READ.get(name, [name, "BAD"])
    status, lines = run_command([kind if word == "BAD" else word for word in line], monkeypatch, capsys)
    assert (status, len(lines)) == (2, 1), lines
    assert lines[0].partition("; it must be ")[0] == f"{kind}: {KINDS[kind]}", lines


@pytest.mark.parametrize(
    ("line", "output"),
    [
        (["run", "GOOD.toml", "-o", "NEW"], "nowhere/NEW"),
        (["run", "GOOD.toml", "-o", "NEW"], "empty/NEW"),
        (["evaluate", "cc", "bbr3", "--suite", "bbr", "--junit", "NEW"], "nowhere/NEW"),
        (["evaluate", "cc", "bbr3", "--suite", "bbr", "--junit", "NEW"], "empty/NEW"),
        # folders that are missing are made
        (["evaluate", "cc", "bbr3", "--suite", "bbr", *POINT, "--keep", "NEW"], "empty/NEW"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_line(
    line: list[str], output: str, bad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(bad)
    status, lines = run_command([output if word == "NEW" else word for word in line], monkeypatch, capsys)
    assert (status, len(lines)) == (2, 1) and output.split("/")[0] in lines[0], lines


@pytest.mark.parametrize(
    "line",
    [
        ["report", "good.duckdb", "-o", "FILE"],
        ["export", "good.duckdb", "-o", "FILE"],
        ["study", "run", "l4s-classic", "-o", "FILE"],
        ["study", "page", "l4s-classic", "-o", "FILE"],
        ["study", "figure", "l4s-classic", "-o", "FILE"],
        ["evaluate", "cc", "bbr3", "--suite", "bbr", *POINT, "--keep", "FILE"],
        ["evaluate", "trace", str(SAMPLE), "--rate", "1Mbit", "--rtt", "40ms", "--figures", "FILE"],
    ],
)
def test_no_folder_gets_the_name_of_a_file(
    line: list[str], bad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(bad)
    with Store.open(bad / "good.duckdb", write=True):
        pass
    status, lines = run_command(["x.pdf" if word == "FILE" else word for word in line], monkeypatch, capsys)
    assert (status, len(lines)) == (2, 1) and '"x.pdf"; it must be ' in lines[0] and "folder" in lines[0], lines
    assert not (bad / "x.pdf").exists()
