import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import SMALL, Command
from dumbbell import _native, experiment
from dumbbell.engines import cluster, sweep
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.results.store import TABLES, Store

distributed: Any = pytest.importorskip("distributed", reason="needs the package distributed (pip install distributed)")

# runs that take some tenths of a second each, so that there is a middle
SLOW = SMALL.replace('"2s"', '"20s"').replace("[1, 2]", "[1, 2, 3, 4, 5]").replace('"10Mbit"]', '"1Gbit"]')
# runs that take minutes
ENDLESS = SMALL.replace('"2s"', '"20000s"').replace('"2Mbit", "10Mbit"]', '"1Gbit", "2Gbit"]')


def client_of(address: str) -> Any:
    return distributed.Client(address, timeout=10, set_as_default=False)


@dataclass
class Dask:
    """A scheduler and its workers, a process each."""

    address: str
    workers: list["subprocess.Popen[bytes]"]


def started(what: str, *arguments: str, folder: Path) -> "subprocess.Popen[bytes]":
    line = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments, "--no-dashboard"]
    with (folder / f"{what}.log").open("ab") as log:
        return subprocess.Popen(line, stdout=log, stderr=log, cwd=folder)


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    folder = tmp_path_factory.mktemp("dask")
    described = folder / "scheduler.json"
    with contextlib.ExitStack() as stack:

        def begin(what: str, *arguments: str) -> "subprocess.Popen[bytes]":
            process = started(what, *arguments, folder=folder)
            stack.callback(process.wait, 10)
            stack.callback(process.kill)
            return process

        scheduler = begin("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(described))
        deadline = time.monotonic() + 30
        address = ""
        while not address:
            assert time.monotonic() < deadline and scheduler.poll() is None, (folder / "scheduler.log").read_text()
            time.sleep(0.05)
            with contextlib.suppress(OSError, ValueError):
                address = json.loads(described.read_text())["address"]
        options = ("--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--host", "127.0.0.1")
        workers = [begin("worker", address, *options) for _ in range(2)]
        with client_of(address) as client:
            client.wait_for_workers(2, timeout=30)
        yield Dask(address, workers)


def contents(path: Path) -> dict[str, pl.DataFrame]:
    with Store.open(path) as store:
        tables = {name: store.read_table(name) for name in TABLES}
    tables["runs"] = tables["runs"].drop("wall_s").select(sorted(tables["runs"].drop("wall_s").columns))
    return tables


def check_same(a: Path, b: Path) -> None:
    one, two = contents(a), contents(b)
    for name in TABLES:
        assert one[name].equals(two[name]), name


def test_a_run_that_fails_is_reported_and_does_not_stop_the_others(
    dask: Dask, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = vars(Cell)["config"].fget
    broken = property(lambda cell: f"no JSON {cell.matrix}" if cell.seed == 2 else real(cell))
    monkeypatch.setattr(Cell, "config", broken)
    said: list[str] = []
    plan = [experiment.load(small)]
    report = sweep.run(
        plan, tmp_path / "r.duckdb", cluster=dask.address, progress=False, on_failure=lambda _, text: said.append(text)
    )
    assert (report.done, report.kept, len(report.failed)) == (4, 0, 4)
    assert len(said) == 4 and all("allowed: JSON" in text for text in said)
    monkeypatch.undo()
    report = sweep.run(plan, tmp_path / "r.duckdb", cluster=dask.address, progress=False)
    assert (report.done, report.kept, report.failed) == (4, 4, [])
    sweep.run(plan, tmp_path / "local.duckdb", progress=False)
    check_same(tmp_path / "r.duckdb", tmp_path / "local.duckdb")


def test_workers_of_another_engine_are_refused(
    dask: Dask, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = _native.engine_version()
    monkeypatch.setattr(_native, "engine_version", lambda: "0.0.0+other")
    with pytest.raises(InputError) as error:
        sweep.run([experiment.load(small)], tmp_path / "r.duckdb", cluster=dask.address, progress=False)
    assert f"has engine {here}; use workers with engine 0.0.0+other, as here" in str(error.value)


@pytest.mark.timed
def test_an_interrupted_sweep_ends_its_runs_in_the_workers(dask: Dask, small: Path, tmp_path: Path) -> None:
    endless = tmp_path / "endless.toml"
    endless.write_text(ENDLESS)
    line = [sys.executable, "-m", "dumbbell", "run", str(endless), "-o", str(tmp_path / "e.duckdb")]
    process = subprocess.Popen([*line, "--cluster", dask.address], stderr=subprocess.PIPE, text=True)
    with client_of(dask.address) as client:
        deadline = time.monotonic() + 30
        while not any(client.processing().values()) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    _, said = process.communicate(timeout=20)
    assert time.monotonic() - asked < 5
    assert process.returncode == 130 and len(said.splitlines()) == 1, said
    # the workers have their hands free
    report = sweep.run([experiment.load(small)], tmp_path / "r.duckdb", cluster=dask.address, progress=False)
    assert report.done == 8
    assert time.monotonic() - asked < 15


ONE: dict[str, Any] = {
    "duration": "1s",
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "bbr3", "base_rtt": "40ms"}],
    "record": {"interval": "100ms"},
}


def check_same_results(found: list[dumbbell.Results], expected: list[dumbbell.Results]) -> None:
    """Compare all tables, without the seconds that runs took."""
    assert [one.item for one in found] == [one.item for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.runs.drop("wall_s").equals(other.runs.drop("wall_s"))
        assert one.flows.equals(other.flows) and one.series.equals(other.series)


def test_simulations_of_a_cluster_have_the_results_of_threads(dask: Dask) -> None:
    checked = dumbbell.parse(ONE)
    several = ONE | {"matrix": {"bottleneck.aqm": ["pie", "cake"]}, "seeds": [1, 2]}
    given: list[Any] = [(checked, {"seeds": [seed], "bottleneck.rate": f"{seed}Mbit"}) for seed in range(1, 9)]
    given += [several, (ONE, {"flows[0].cc": "reno"}), checked]
    local = list(dumbbell.simulate_many(given))
    found = list(dumbbell.simulate_many(iter(given), cluster=dask.address, ahead=4))
    check_same_results(found, local)
    assert [len(one) for one in found] == [1] * 8 + [4, 1, 1]
    ended = list(dumbbell.simulate_many(given, cluster=dask.address, ordered=False))
    check_same_results(sorted(ended, key=lambda one: one.item or 0), local)
    # an experiment that cannot be run does not disturb the others
    mixed = [given[0], ONE | {"duration": "-1s"}, given[1]]
    kept = list(dumbbell.simulate_many(mixed, cluster=dask.address, return_exceptions=True))
    assert isinstance(kept[1], InputError) and "item 1: duration" in str(kept[1])
    for one, other in ((kept[0], local[0]), (kept[2], local[1])):
        assert isinstance(one, dumbbell.Results) and one.flows.equals(other.flows)


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_only_its_runs(
    dask: Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "COMMIT_EVERY_S", 0.2)
    path, output = tmp_path / "slow.toml", tmp_path / "r.duckdb"
    path.write_text(SLOW)
    log = output.with_name(output.name + ".wal")
    over = threading.Event()
    killed: list[float] = []

    def kill() -> None:
        while not over.wait(0.02):
            if log.exists() and log.stat().st_size > 4096:
                dask.workers[0].kill()
                killed.append(time.monotonic())
                return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        report = sweep.run([experiment.load(path)], output, cluster=dask.address, progress=False)
    finally:
        over.set()
        killer.join()
    if not killed:
        pytest.skip("these machines are too fast for this test")
    assert dask.workers[0].wait(5) == -signal.SIGKILL and dask.workers[1].poll() is None
    assert (report.done, report.kept, report.failed) == (20, 0, [])
    sweep.run([experiment.load(path)], tmp_path / "local.duckdb", progress=False)
    check_same(output, tmp_path / "local.duckdb")


@pytest.mark.timed
def test_a_wrong_address_is_one_line(small: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        asked = time.monotonic()
        done = command("run", small, "--cluster", address)
        assert time.monotonic() - asked < 5
    assert done.returncode == 2, done
    assert len(done.stderr.splitlines()) == 1 and address in done.stderr and not done.stdout, done
    assert [p.name for p in small.parent.iterdir()] == ["small.toml"]
    done = command("run", small, "--cluster", address, "--jobs", "2")
    assert done.returncode == 2 and "--jobs and --cluster" in done.stderr


@pytest.mark.parametrize("address", ["tcp://nowhere", "http://127.0.0.1:80", "127.0.0.1", "tcp://127.0.0.1:99999", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="tcp://HOST:PORT"):
        cluster.Cluster(address)


def test_who_takes_a_connection_and_says_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises(InputError, match="no Dask scheduler that answers"):
            cluster.Cluster(f"tcp://127.0.0.1:{mute.getsockname()[1]}")


def test_without_distributed_it_says_what_to_install(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {name: None for name in sys.modules if name.partition(".")[0] == "distributed"}
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match="pip install distributed"):
        sweep.run([experiment.load(small)], tmp_path / "r.duckdb", cluster="tcp://127.0.0.1:8786", progress=False)
