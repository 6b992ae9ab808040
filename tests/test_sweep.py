"""Sweeps of short runs: what is done once for all of them, and what for each."""

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import SMALL, parsed
from dumbbell import _native, experiment
from dumbbell.cli import run
from dumbbell.engines import in_flight, sim, sweep
from dumbbell.engines.base import Local
from dumbbell.experiment import schema, shipped
from dumbbell.experiment.cell import Cell, compute_digest, format_canonical
from dumbbell.experiment.plugins import built
from dumbbell.processes import count_cores
from dumbbell.results import store
from dumbbell.results.measured_run import MeasuredRun
from dumbbell.results.store import Store

# 160 runs of some milliseconds
SHORT = SMALL.replace("[1, 2]", str(list(range(1, 41)))).replace('"2s"', '"1s"')


@pytest.fixture
def short(tmp_path: Path) -> Path:
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return path


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """Let a function of `owner` keep the arguments of its calls in the list that is returned."""
    calls: list[Any] = []
    function: Callable[..., Any] = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_a_sweep_connects_once_and_writes_a_commit_of_all_that_has_ended(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither connections nor statements are as many as runs."""
    output = tmp_path / "r.duckdb"
    Store.open(output, write=True).close()
    monkeypatch.setattr(sweep, "COMMIT_EVERY_S", 60.0)
    monkeypatch.setattr(sweep, "LAST", 1000)
    connections, inserts = counted(monkeypatch, store, "connect"), counted(monkeypatch, Store, "_insert")
    lookups = counted(monkeypatch, Store, "find_kept")
    report = sweep.run([experiment.load(short)], output, jobs=2)
    assert (report.done, report.failed) == (160, [])
    assert len(connections) == 1
    assert len(inserts) == len(_native_tables()) and len(lookups) == 1


def _native_tables() -> list[str]:
    return [name for name, _ in _native.gather([_native.run(next(parsed().make_cells()).config, _native.Cancel())])]


def test_what_has_ended_is_committed_while_the_last_runs_go_on(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "COMMIT_EVERY_S", 60.0)
    monkeypatch.setattr(sweep, "LAST", 1)
    commits = counted(monkeypatch, Store, "add")
    sweep.run([experiment.load(short)], tmp_path / "r.duckdb", jobs=1)
    assert len(commits) > 1


def test_short_runs_are_handed_over_together(short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "AHEAD", (2, 64, 1024))
    handed = counted(monkeypatch, sim.Threads, "begin")
    sweep.run([experiment.load(short)], tmp_path / "r.duckdb", jobs=1)
    assert sum(len(runs) for _, runs in handed) == 160
    assert len(handed) <= 80


def test_a_run_that_fails_takes_none_with_it_that_began_with_it() -> None:
    cells = list(parsed(seeds=[1, 2, 3]).make_cells())
    wrong = cells[1].groups | {"bottleneck": cells[1].groups["bottleneck"] | {"rate": 0}}
    cells[1] = dataclasses.replace(cells[1], groups=wrong)
    with sim.Threads(1) as workers:
        ended = workers.begin([(cell, _native.Progress()) for cell in cells]).result()
    assert [type(one) for one in ended] == [MeasuredRun, ValueError, MeasuredRun]
    for cell, one in zip(cells[::2], ended[::2], strict=True):
        assert isinstance(one, MeasuredRun) and 0 < one.wall_s < 60
        assert one.result.hash == _native.run(cell.config, _native.Cancel()).hash
    assert getattr(ended[1], "key", "") == "bottleneck.rate"


def test_threads_do_not_change_a_run() -> None:
    flows = [{"cc": cc, "base_rtt": "20ms", "count": 60} for cc in ("cubic", "dctcp")]
    bottleneck = {"rate": "25Gbit", "aqm": {"name": "fq_codel", "limit": 100_000}}
    cell = next(parsed(duration="0.3s", bottleneck=bottleneck, flows=flows).make_cells())
    hashes = {_native.run(cell.config, _native.Cancel(), threads=threads).hash for threads in (1, 2, 3)}
    with sim.Threads(1, 2) as workers:
        for ended in workers.begin([(cell, _native.Progress())] * 2).result():
            assert isinstance(ended, MeasuredRun)
            hashes.add(ended.result.hash)
    assert len(hashes) == 1


def test_a_single_run_gets_all_cores() -> None:
    one, several = parsed(), parsed(seeds=[1, 2])
    assert run.choose_threads([one], None) == count_cores()
    assert [run.choose_threads(*given) for given in (([one], 1), ([several], None), ([one, one], None))] == [1, 1, 1]


def test_other_engines_carry_short_runs_out_one_by_one() -> None:
    """What no `except Exception` catches is of its run alone, too."""

    class Panic(BaseException):
        pass

    class Fails(Local):
        def run(self, cell: Cell, progress: _native.Progress) -> MeasuredRun:
            if cell.seed == 2:
                raise Panic("no invariant")
            progress.reach(cell.seed)
            return MeasuredRun(1.0, _native.run(cell.config, _native.Cancel()))

    runs = [(cell, _native.Progress()) for cell in parsed(seeds=[1, 2, 3]).make_cells()]
    with Fails(1) as workers:
        ended = workers.begin(runs).result()
    assert [type(one) for one in ended] == [MeasuredRun, Panic, MeasuredRun]
    assert [progress.simulated for _, progress in runs] == [1, 0, 3]


def test_runs_that_began_together_are_stopped_together() -> None:
    cells = list(parsed(seeds=[1, 2, 3], duration="36000s").make_cells())
    with sim.Threads(1) as workers:
        future = workers.begin([(cell, _native.Progress()) for cell in cells])
        workers.stop()
    assert future.cancelled() or [type(one) for one in future.result()] == [_native.Interrupted] * 3


@pytest.mark.parametrize("changes", [{}, {"udp": [{"rate": "1Mbit"}]}, {"web": [{"cc": "reno", "base_rtt": "9ms"}]}])
def test_the_text_of_a_seed_is_that_of_a_run_made_again(changes: dict[str, Any]) -> None:
    if "web" in changes:
        changes["web"][0] |= {"arrivals": "10/s", "size": "10kB"}
    plan = parsed(seeds=[3, 1, 2**62], **changes)
    cells = list(plan.make_cells(5))
    for index, cell in enumerate(cells):
        again = Cell(cell.experiment, cell.title, cell.matrix, cell.seed, cell.groups)
        assert cell.config == again.config == format_canonical(cell.groups)
        assert (
            cell.key == plan.make_cell(index).key == compute_digest(f"{cell.engine}\n{format_canonical(cell.groups)}")
        )
        assert cell.number == index + 5 and cell.packets == again.packets
        seedless = {key: value for key, value in cell.groups.items() if key != "seed"}
        assert cell.cell_key == compute_digest(format_canonical(seedless))
    assert len({cell.key for cell in cells}) == 3


@pytest.mark.slow
def test_runs_resolved_in_parts_are_those_resolved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every experiment that comes with dumbbell: the same values in the same order, and what is wrong is left alone."""
    seen, in_parts = 0, schema._check_in_parts

    def both(table: dict[str, Any], files: Any) -> Any:
        nonlocal seen
        found = in_parts(table, files)
        whole = schema._check_at_once(table, files)
        assert found is not None and repr(found) == repr(whole)
        seen += 1
        return found

    for name, file in shipped.list_experiments().items():
        if built.list_named(file.read_text(encoding="utf-8")):
            continue  # its stacks are not built
        monkeypatch.setattr(schema, "_check_in_parts", both)
        plan = experiment.load(name)
        list(itertools.islice(plan.make_cells(), 8))
        monkeypatch.setattr(schema, "_check_in_parts", in_parts)
    assert seen > 100


def test_a_run_sets_nothing_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is filled in by a profile, a version or a link is of one run, though all share the tables of the file."""
    flows = [{"cc": "cubic", "base_rtt": "20ms"}]
    matrix = {"hosts.profile": ["linux-5.4", "linux-6.12"], "bottleneck.rate": ["1Mbit", "2Mbit"]}
    cells = list(parsed(hosts={"ecn": True}, flows=flows, matrix=matrix).make_cells())
    monkeypatch.setattr(schema, "_check_in_parts", lambda _table, _files: None)
    alone = list(parsed(hosts={"ecn": True}, flows=flows, matrix=matrix).make_cells())
    assert [cell.config for cell in cells] == [cell.config for cell in alone]
    assert [cell.given for cell in cells] == [cell.given for cell in alone]


def test_a_section_is_checked_once_for_all_runs_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_checked", {})
    plan = parsed(matrix={"bottleneck.buffer": [f"{packets}p" for packets in range(1, 21)]})
    list(plan.make_cells())
    checked = [name for name, _ in schema._checked]
    assert (checked.count("bottleneck"), checked.count("hosts"), checked.count("flows")) == (20, 1, 2)
