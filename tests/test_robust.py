"""Results files that are damaged, cut or out of room, and sweeps that are killed or meet."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import SMALL, Command
from dumbbell import experiment
from dumbbell.engines import sweep
from dumbbell.errors import InputError
from dumbbell.results import store
from dumbbell.results.store import TABLES, Store
from test_store import contents, same

# 24 runs of some hundredths of a second
MANY = SMALL.replace("[1, 2]", "[1, 2, 3, 4, 5, 6]").replace('"2s"', '"20s"').replace('"10Mbit"]', '"100Mbit"]')
# what finishes is kept at once
OFTEN = "from dumbbell import cli; from dumbbell.engines import sweep; sweep.COMMIT_EVERY_S = 0.0"
RUN = "import sys; sys.argv = ['dumbbell', 'run', *sys.argv[1:]]; cli.main()"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a results file with 8 runs."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "small.toml").write_text(SMALL)
    sweep.run([experiment.load(folder / "small.toml")], folder / "good.duckdb")
    return folder / "good.duckdb"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a results file whose 8 runs are in the log beside it: its sweep was killed."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "small.toml").write_text(SMALL)
    code = "import os; from dumbbell.results.store import Store; Store.close = lambda _: os.kill(os.getpid(), 9)"
    line = [sys.executable, "-c", f"{OFTEN}; {code}; {RUN}", "small.toml", "-o", "r.duckdb"]
    assert subprocess.run(line, cwd=folder, check=False, timeout=60).returncode == -signal.SIGKILL
    return folder / "r.duckdb"


def flipped(content: bytes, rng: random.Random) -> bytes:
    """Return `content` with a bit, or some, the other way round."""
    damaged = bytearray(content)
    for _ in range(rng.choice([1, 1, 8, 64])):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def damages(content: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yield `content` cut at several places, and with flipped bits; the first blocks are the file's own books."""
    for n in range(12):
        yield content[: len(content) * n // 12 + rng.randrange(5)]
    for _ in range(12):
        yield flipped(content, rng)
        yield flipped(content[:16384], rng) + content[16384:]


def used(path: Path, plan: experiment.Experiment) -> int | None:
    """Read and extend results: return how many runs they had, None if they were refused in one line."""
    try:
        with Store.open(path) as store:
            kept = store.read_table("runs").height
            assert all(store.read_table(name) is not None for name in TABLES)
        report = sweep.run([plan], path)
    except InputError as error:
        assert len(str(error).splitlines()) == 1 and str(error).startswith(f"{path}: ")
        return None
    assert (report.kept, report.done, report.failed) == (kept, len(plan) - kept, [])
    return kept


def test_any_damage_of_results_is_an_input_error_or_none(finished: Path, small: Path, tmp_path: Path) -> None:
    plan, path = experiment.load(small), tmp_path / "bad.duckdb"
    whole = contents(finished)
    for number, damaged in enumerate(damages(finished.read_bytes(), random.Random(1))):
        path.write_bytes(damaged)
        if used(path, plan) is not None:
            assert same(contents(path), whole), f"damage {number}"
        path.with_name("bad.duckdb.wal").unlink(missing_ok=True)


@pytest.mark.slow
def test_any_damage_of_the_log_costs_what_comes_after_or_is_an_input_error(
    killed: Path, finished: Path, small: Path, tmp_path: Path
) -> None:
    plan, path = experiment.load(small), tmp_path / "bad.duckdb"
    log, beside = killed.with_name("r.duckdb.wal").read_bytes(), tmp_path / "bad.duckdb.wal"
    whole = contents(finished)
    found = []
    for number, damaged in enumerate(damages(log, random.Random(2))):
        path.write_bytes(killed.read_bytes())
        beside.write_bytes(damaged)
        found.append(used(path, plan))
        if found[-1] is not None:
            assert same(contents(path), whole), f"damage {number}"
    cuts = found[:12]
    assert None not in cuts and cuts == sorted(cuts, key=lambda kept: kept or 0), (
        "a cut log gives what is before the cut"
    )
    assert None in found[12:]


def limited(most: int) -> str:
    """Return code after which no file grows beyond `most` bytes: what a full disk does, to every file by itself.

    Python cuts the modules off that it compiles, too, if it may keep them (`-B`: it does not).
    """
    return f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))"


@pytest.mark.parametrize("most", [1_000, 100_000, 200_000, 300_000])
def test_a_full_disk_is_one_line_and_what_is_finished_is_kept(most: int, tmp_path: Path) -> None:
    plan, output = tmp_path / "many.toml", tmp_path / "r.duckdb"
    plan.write_text(MANY)
    line = [sys.executable, "-B", "-c", f"{OFTEN}; {limited(most)}; {RUN}", str(plan), "-o", str(output)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    place = output if most > 274_432 else tempfile.gettempdir()  # where an empty file is made first
    assert done.stderr == f"{place}: cannot write: the disk is full (file too large); choose a disk with free space\n"
    left = {path.name for path in tmp_path.iterdir()} - {"many.toml"}
    if most < 274_432:
        # not even an empty file has room: none is left that looks like one
        assert left == set()
        return
    assert left == {"r.duckdb", "r.duckdb.wal"}
    kept = contents(output)["runs"].height
    assert 0 < kept < 24
    report = sweep.run([experiment.load(plan)], output)
    assert (report.done, report.kept) == (24 - kept, kept)


@pytest.mark.slow
def test_a_second_sweep_on_one_file_is_refused(tmp_path: Path, command: Command) -> None:
    plan, output = tmp_path / "many.toml", tmp_path / "r.duckdb"
    plan.write_text(MANY.replace('"20s"', '"1000s"'))
    line = [sys.executable, "-c", f"{OFTEN}; {RUN}", str(plan), "-o", str(output), "--jobs", "1"]
    with subprocess.Popen(line, stderr=subprocess.PIPE) as first:
        wait_for(store.find_log(output).exists, first)  # it has the file, not only made it
        second = command("run", plan, "-o", output)
        assert second.returncode == 2
        assert second.stderr.startswith(f"{output}: process {first.pid} is using it; ")
        assert len(second.stderr.splitlines()) == 1
        assert first.poll() is None, "the first is not disturbed"
        first.send_signal(signal.SIGINT)
        assert first.wait(timeout=30) == 130
    assert contents(output)["runs"].height < 24


@pytest.mark.slow
def test_results_are_read_while_a_sweep_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, output, folder = tmp_path / "many.toml", tmp_path / "r.duckdb", tmp_path / "snapshots"
    plan.write_text(MANY.replace('"20s"', '"200s"'))
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    line = [sys.executable, "-c", f"{OFTEN}; {RUN}", str(plan), "-o", str(output), "--jobs", "1"]
    seen: list[int] = []
    with subprocess.Popen(line, stderr=subprocess.PIPE) as writer:
        wait_for(output.exists, writer)

        def grown() -> bool:
            with Store.open(output) as store:
                runs, flows = store.read_table("runs"), store.read_table("flows")
            assert flows.height == 2 * runs.height, "whole commits"
            if runs.height > (seen[-1] if seen else 0):
                seen.append(runs.height)
            return len(seen) == 2

        wait_for(grown, writer)
        writer.send_signal(signal.SIGSTOP)  # so that it does not end meanwhile
        assert writer.poll() is None, "the sweep has not ended"
        try:
            with pytest.raises(InputError, match=f"process {writer.pid} is using it"):
                Store.open(output, write=True)
        finally:
            writer.send_signal(signal.SIGCONT)
        assert writer.wait(timeout=60) == 0
    assert list(folder.iterdir()) == [], "snapshots are removed"
    assert contents(output)["runs"].height == 24 > seen[-1]


@pytest.mark.slow
def test_a_file_that_never_stands_still_is_in_use(tmp_path: Path, finished: Path) -> None:
    path = tmp_path / "r.duckdb"
    path.write_bytes(finished.read_bytes())
    copies = tmp_path / "copies"
    copies.mkdir()
    assert not store._copy_snapshot(tmp_path / "missing.duckdb", copies)
    assert store._copy_snapshot(path, copies)
    real, writes = shutil.copyfile, iter(range(100))

    def copy_while_written(source: Path, target: Path) -> None:
        real(source, target)
        if source == path:
            os.utime(path, ns=(next(writes), next(writes)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "copyfile", copy_while_written)
        patch.setattr(store, "_AGAIN_S", 0.0)
        assert not store._copy_snapshot(path, copies)


def test_a_new_file_never_replaces_one_that_came_in_between(finished: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.duckdb"
    output.write_bytes(finished.read_bytes())
    Store._create(output)  # of a sweep that saw no file a moment ago
    assert output.read_bytes() == finished.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["r.duckdb"]


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.005)


@pytest.mark.slow
def test_a_sweep_that_is_killed_ten_times_ends_as_one_that_is_not(tmp_path: Path) -> None:
    plan, output, whole = tmp_path / "many.toml", tmp_path / "r.duckdb", tmp_path / "whole.duckdb"
    plan.write_text(MANY.replace('"20s"', '"60s"'))
    started = time.monotonic()
    sweep.run([experiment.load(plan)], whole, jobs=1)
    length = time.monotonic() - started
    rng = random.Random(10)
    load = "import sys; from dumbbell import experiment; plan = experiment.load(sys.argv[1])"
    code = f"{OFTEN}; {load}; print(flush=True); sys.stdin.readline(); sweep.run([plan], sys.argv[2], jobs=1)"
    # all at once up to where they would begin: what takes long is to get there
    line = [sys.executable, "-c", code, str(plan), str(output)]
    waiting = [subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(10)]
    kept = [0]
    try:
        for process in waiting:
            assert process.stdin and process.stdout
            process.stdout.readline()
            process.stdin.write(b"\n")
            process.stdin.flush()
            time.sleep(rng.uniform(0, length / 4))
            process.kill()
            process.wait(timeout=30)
            if output.exists():
                with Store.open(output) as store:
                    kept.append(store.read_table("runs").height)
    finally:
        for process in waiting:
            process.kill()
            process.communicate()
    assert kept == sorted(kept), "nothing that was kept is lost"
    report = sweep.run([experiment.load(plan)], output)
    assert (report.done, report.kept) == (24 - kept[-1], kept[-1])
    assert same(contents(output), contents(whole))
