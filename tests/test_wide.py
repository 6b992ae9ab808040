"""Sweeps of many runs: what they take is known at once, and memory does not grow with them."""

import dataclasses
import itertools
import time
import tracemalloc
from pathlib import Path

import pytest

from conftest import parsed
from dumbbell import _native, experiment
from dumbbell.engines import estimate, in_flight, sim, sweep

# the last axis has as many values as a million has cells to a sample of 1000: every 1000th cell has the same duration
MILLION = {
    "matrix": {
        "bottleneck.rate": [f"{rate}kbit" for rate in range(1000, 1100)],
        "flows[0].base_rtt": [f"{rtt}ms" for rtt in range(1, 11)],
        "duration": [f"{seconds}s" for seconds in range(1, 1001)],
    }
}


@pytest.mark.slow
def test_a_million_runs_are_reckoned_at_once_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim, "measure_speed", lambda _cells, _jobs: 1e6)
    million = parsed(**MILLION)
    started = time.process_time()
    tracemalloc.start()
    plan = estimate.estimate([million], tmp_path / "r.duckdb", 2, sim.Simulator())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert plan.runs == 1_000_000 and plan.kept == 0
    assert peak < 50e6 and time.process_time() - started < 20
    # 500.5 s at 1.0495 Mbit/s on average, and 1020 packets for whatever a run takes besides
    packets = 1e6 * (500.5 * 1.0495e6 / (1514 * 8) + 1020)
    assert plan.seconds == pytest.approx(packets / 1e6 / 2, rel=0.03)


def test_runs_are_tried_out_at_equal_distances_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1, 2, 3 and 4 s, with 10 trials: 1, 2, 3 and 4 of them; a packet of each costs what its duration says."""
    cells = list(
        parsed(bottleneck={"rate": "1Gbit", "aqm": "codel"}, matrix={"duration": ["1s", "2s", "3s", "4s"]}).make_cells()
    )
    tried = []

    def cost(trial: sim._Trial) -> float:
        tried.append(trial._cell.duration // 10**9)
        return trial._cell.duration / 1e9

    monkeypatch.setattr(sim._Trial, "measure_packet_cost", cost)
    monkeypatch.setattr(sim, "_TRIALS", 10)
    assert sim.measure_speed(cells, 1) == pytest.approx(10 / (1 + 2 * 2 + 3 * 3 + 4 * 4))
    assert tried == [1, 2, 2, 3, 3, 3, 4, 4, 4, 4]
    monkeypatch.setattr(sim._Trial, "measure_packet_cost", lambda _trial: None)  # all fail
    assert sim.measure_speed(cells, 1) == sim.measure_speed([], 1) == sim.PACKETS_PER_SECOND


def test_a_trial_says_what_the_whole_run_costs() -> None:
    """A run of ten hours is given up after a moment; a short one is measured to its end."""
    rate = {"rate": "100Mbit", "aqm": "codel"}
    whole = next(parsed(bottleneck=rate, duration="60s").make_cells())
    started = time.thread_time()
    _native.run(whole.config, _native.Cancel())
    cost = (time.thread_time() - started) / whole.packets
    started = time.process_time()
    late = {"cc": "cubic", "base_rtt": "20ms", "start": "5s"}  # idle until then, which costs nothing
    for flows in (None, [late, late | {"cc": "reno"}]):
        long = next(parsed(bottleneck=rate, duration="36000s", **({"flows": flows} if flows else {})).make_cells())
        found = sim._Trial(long).measure_packet_cost()
        # other work on the machine costs up to a factor of two; a trial that counts wrongly is off by more
        assert found is not None and cost / 4 < found < cost * 4
    assert time.process_time() - started < 60
    short = sim._Trial(next(parsed().make_cells()))
    assert short.measure_packet_cost() is not None and short._whole
    good = next(parsed().make_cells())
    groups = good.groups | {"bottleneck": good.groups["bottleneck"] | {"rate": 0}}
    fails = dataclasses.replace(good, groups=groups)
    assert sim._Trial(fails).measure_packet_cost() is None


@pytest.mark.slow
def test_a_million_runs_begin_at_once() -> None:
    report = sweep.SweepReport()

    class Empty:
        def find_kept(self, _: object) -> set[str]:
            return set()

    begun: set[str] = set()
    started = time.process_time()
    cells = sweep._sort_longest_first(sweep._select_missing([parsed(**MILLION)], Empty(), begun, report))  # type: ignore[arg-type]
    first = list(itertools.islice(cells, 100))
    assert len(first) == 100 and time.process_time() - started < 10
    assert len(begun) <= in_flight.WINDOW + sweep.LOOKED_UP[1]


def test_runs_of_several_files_are_counted_and_run_once(small: Path, tmp_path: Path) -> None:
    plans = [experiment.load(small), experiment.load(small, ["seeds=[2, 3]"])]
    output = tmp_path / "r.duckdb"
    plan = estimate.estimate(plans, output, 2, sim.Simulator())
    assert (plan.runs, plan.kept) == (12, 0)
    report = sweep.run(plans, output, progress=False)
    assert (report.done, report.kept, report.failed) == (12, 4, [])
    plan = estimate.estimate(plans, output, 2, sim.Simulator())
    assert (plan.runs, plan.kept, plan.seconds, plan.size) == (12, 12, 0, 0)


def test_the_longest_runs_of_a_window_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = parsed(matrix={"duration": ["1s", "3s", "2s", "5s", "4s"]})
    assert [cell.duration // 10**9 for cell in sweep._sort_longest_first(plan.make_cells())] == [5, 4, 3, 2, 1]
    monkeypatch.setattr(sweep, "WINDOW", 2)
    assert [cell.duration // 10**9 for cell in sweep._sort_longest_first(plan.make_cells())] == [3, 5, 4, 2, 1]


def test_a_sample_is_spread_and_always_the_same() -> None:
    million = parsed(**MILLION)
    sample = million.sample_cells(200)
    assert [cell.key for cell in sample] == [cell.key for cell in million.sample_cells(200)]
    assert len({cell.duration for cell in sample}) > 150
    assert [cell.matrix["bottleneck.rate"] for cell in sample[:2]] == ["1000kbit"] * 2
    few = parsed(seeds=[1, 2, 3])
    assert [cell.seed for cell in few.sample_cells(10)] == [1, 2, 3]
