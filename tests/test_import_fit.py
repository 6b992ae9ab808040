"""What `import --run` says at its end, and what files and proposals are called."""

import dataclasses
import tomllib
from pathlib import Path

import polars as pl
import pytest

import dumbbell
from conftest import Command
from dumbbell.exchange import fit, formats, keep, setup
from dumbbell.exchange.measurement import assume_fact
from test_import import rounds
from test_import_bounds import iperf3

SAMPLES = Path(__file__).parent / "imports"


@pytest.mark.slow
def test_a_run_ends_with_what_was_measured_beside_what_was_simulated(tmp_path: Path, command: Command) -> None:
    for name in ("far.pcap.gz", "near.pcap.gz", "upload.ss.txt"):
        (tmp_path / name).write_bytes((SAMPLES / name).read_bytes())
        ended = command("import", name, "--run", "-o", "r.duckdb")
        assert ended.returncode == 0, ended.stderr
        lines = ended.stderr.splitlines()
        start = lines.index(f"{name}: measured next to simulated")
        rows = {tuple(cell.strip() for cell in line.split("|")[1:3]): line for line in lines[start:] if "|" in line}
        results = dumbbell.open(tmp_path / "r.duckdb", engine="all")
        of_name = results.runs.filter(pl.col("imported").str.contains(name, literal=True))
        cells = results.runs.filter(pl.col("cell") == of_name["cell"][0])
        assert cells.height == 2
        flows = results.flows.filter(pl.col("key").is_in(cells["key"].to_list()) & (pl.col("cc") == "cubic"))
        sums = flows.group_by("key").agg(pl.col("goodput_mbit").sum())
        measured, simulated = (
            sums.filter(pl.col("key") == key)["goodput_mbit"][0]
            for key in (of_name["key"][0], next(key for key in cells["key"] if key != of_name["key"][0]))
        )
        (row,) = (line for key, line in rows.items() if key[0].startswith("cubic") and key[1] == "goodput, Mbit/s")
        said = [cell.strip() for cell in row.split("|")[3:6]]
        assert [float(said[0]), float(said[1])] == pytest.approx([measured, simulated], rel=1e-3)
        assert said[2] == f"{100 * (simulated - measured) / measured:+.1f} %"
        # the queue is not in any of the files
        assert any("beyond what the file tells: ASSUMED are bottleneck.aqm" in line for line in lines)
        if name == "near.pcap.gz":
            assert any(key[0].startswith("ping") and key[1].startswith("RTT") for key in rows)


def test_a_fifo_that_fits_worse_than_another_queue_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.ss.txt"
    path.write_text(rounds(*(str(1700000000 + n) for n in range(4))))
    one = keep.propose_experiment(path, formats.read(path), "x")

    def describe_fit(aqm: str, *rows: fit._FitRow) -> str:
        facts = [
            (key, assume_fact(aqm, "no word of it") if key == "bottleneck.aqm" else fact) for key, fact in one.facts
        ]
        return fit._choose_queue(dataclasses.replace(one, facts=facts), list(rows))

    fifo = '{ name = "pfifo", limit = 100 }'
    ping = fit._FitRow("ping up, flow 1", "RTT, P99, ms", "rtt_p99_ms", 31.5, 108.0)
    assert "--set bottleneck.aqm=fq_codel" in describe_fit(fifo, ping) and "31.5" in describe_fit(fifo, ping)
    assert not describe_fit('"fq_codel"', ping) and not describe_fit(fifo, dataclasses.replace(ping, simulated=33.0))
    tcp = fit._FitRow("cubic down, flow 0", "RTT, mean, ms", "rtt_mean_ms", 94.0, 207.0)
    assert "--set bottleneck.aqm=codel" in describe_fit(fifo, tcp)


def test_files_of_one_name_have_proposals_of_their_own(tmp_path: Path, command: Command) -> None:
    (tmp_path / "v6.ss.txt").write_text(rounds(*(str(1700000000 + n) for n in range(4))))
    (tmp_path / "v6.ss.json").write_text(iperf3(10, 10, 10))
    for name in ("v6.ss.txt", "v6.ss.json", "v6.ss.txt"):
        ended = command("import", name, "-o", "r.duckdb", "--propose", "p")
        assert ended.returncode == 0, ended.stderr
    proposals = {path.name: path.read_text() for path in (tmp_path / "p").iterdir()}
    assert set(proposals) == {"v6.ss.toml", "v6.ss.json.toml"}
    assert "of v6.ss.txt (format" in proposals["v6.ss.toml"] and "of v6.ss.json (" in proposals["v6.ss.json.toml"]
    experiments = dumbbell.open(tmp_path / "r.duckdb", engine="all").runs["experiment"].to_list()
    assert sorted(experiments) == ["v6.ss", "v6.ss.json"]
    # other results, and the proposals still there
    ended = command("import", "v6.ss.json", "-o", "s.duckdb", "--propose", "p")
    assert ended.returncode == 0 and (tmp_path / "p" / "v6.ss.toml").read_text() == proposals["v6.ss.toml"]


@pytest.mark.slow
def test_cells_of_several_imports_have_their_names(tmp_path: Path, command: Command) -> None:
    for name in ("one", "two"):
        text = rounds(*(str(1700000000 + n) for n in range(4))).replace("minrtt:20.5", f"minrtt:{len(name) * 5}.5")
        (tmp_path / f"{name}.ss.txt").write_text(text.replace("rtt:30", "rtt:40") if name == "two" else text)
        assert command("import", f"{name}.ss.txt", "--run", "-o", "r.duckdb").returncode == 0
    (tmp_path / "two.ss.txt").write_text(iperf3(10, 10))
    assert command("import", "two.ss.txt", "--run", "--name", "three", "-o", "r.duckdb").returncode == 0
    said = command("validate", "r.duckdb", "--engines", "--engine", "import").stdout
    assert "the only cell" not in said
    assert all(any(line.startswith(f"| {name} ") for line in said.splitlines()) for name in ("one.ss", "three"))


def test_a_proposal_says_of_which_file_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a (b).ss.txt"
    path.write_text(rounds(*(str(1700000000 + n) for n in range(4))))
    one = keep.propose_experiment(path, formats.read(path), "x")
    assert tomllib.loads(one.text)["title"].startswith("ss -ti")
    assert setup.find_source_name(one.text) == path.name and setup.find_source_name("[bottleneck]\n") == ""
