"""The count of cells in which many flows and short flows agree with Linux."""

import importlib
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import pytest

import dumbbell
from dumbbell.pages import study
from dumbbell.published import by_flow
from dumbbell.study import shipped

ROOT = Path(__file__).parents[2]
MANY = shipped.list_references()["linux-6.12-many"]
SHORT = shipped.list_references()["linux-6.12-short"]


@pytest.fixture(scope="module")
def package() -> str:
    return str(study.find("validation").program.__package__)


@pytest.fixture(scope="module")
def validation(package: str) -> ModuleType:
    return importlib.import_module(f"{package}.rows")


@pytest.fixture(scope="module")
def short_flows(package: str) -> ModuleType:
    return importlib.import_module(f"{package}.short_flows")


@pytest.fixture(scope="module")
def page(package: str) -> ModuleType:
    return importlib.import_module(f"{package}.linux_page")


def test_the_references_have_twelve_cells_each(short_flows: ModuleType) -> None:
    many, short = by_flow.group_runs(MANY), short_flows.read_linux(SHORT)
    assert len(many) == len(short) == 12
    assert {len(run) for runs in many.values() for run in runs} == {5, 10, 50}
    assert {len(runs) for runs in many.values()} == {len(runs) for runs in short.values()} == {8}
    assert min(len(short_flows.list_finished(runs)) for runs in short.values()) == 255


def test_a_run_whose_flows_share_a_queue_is_left_out(validation: ModuleType) -> None:
    assert validation.are_alone([2.0, 2.1, 1.6])
    assert not validation.are_alone([2.0, 2.1, 1.4])
    assert validation.are_alone([1.0] * 49 + [0.1]), "of 50 flows some always share a queue"


def test_bars(validation: ModuleType, short_flows: ModuleType, page: ModuleType) -> None:
    def make_many(cubic: float, rtt: float, signals: float) -> Any:
        values = {("goodput_mbit", 1): [(cubic, 5.0)], ("rtt_ms", 1): [(rtt, 20.0)], ("marks", 0): [(signals, 100.0)]}
        values |= {("goodput_mbit", 2): [(5.0, 5.0)], ("rtt_ms", 2): [(20.0, 20.0)], ("drops", 0): [(0.0, 0.0)]}
        return validation.Judged({"ecn": 1.0, "rate_mbit": 10.0, "rtts_ms": "20"}, values)

    # a fair share is 5 Mbit/s, 3 % of it 0.15; 6 % of 20 ms are 1.2; 25 % of 100 are 25
    for seen, verdict in [
        (make_many(5.14, 21.1, 124), "yes"),
        (make_many(5.16, 20.0, 100), "goodput, RTT"),
        (make_many(5.0, 21.3, 100), "goodput, RTT"),
        (make_many(5.0, 20.0, 126), "drops and marks"),
    ]:
        assert all(row.endswith(f"| {verdict} |") for row in page.write_many(seen, 2))
        assert (seen.is_good(1 / 2) and seen.same) == (verdict == "yes")

    cell = ("10000B", "pfifo limit 100", "false", "10Mbit", "40ms", "120s")
    for seconds, verdict in [([1.0, 1.0], "yes"), ([1.06, 1.06], "mean"), ([0.8, 1.2], "P95")]:
        done = short_flows.Judged(cell, seconds, [1.0, 1.0], [1.0])
        row = validation.Row("short-flows")
        row.judge(done.name, done.errors)
        assert (not row.outside) == (verdict == "yes") and page.write_short(done).endswith(f"| {verdict} |")


def test_arrivals_are_those_of_the_reference(short_flows: ModuleType) -> None:
    cell = ("10000B", "codel ecn", "true", "10Mbit", "40ms", "120s")
    flows = short_flows.read_linux(SHORT)[cell][0]
    results = dumbbell.run(short_flows.make_experiment(cell, flows, seeds=1))
    starts = results.flows["start_s"].to_list()[1:]
    assert starts == pytest.approx([float(row["start_s"]) for row in flows], abs=1e-6)
    completion = results.flows["completion_s"].to_list()[1:]
    assert 1e3 * fmean(completion) == pytest.approx(93, rel=0.05), "as on Linux"


@pytest.mark.slow
def test_the_experiments_answer_every_cell(
    validation: ModuleType, short_flows: ModuleType, page: ModuleType, tmp_path: Path
) -> None:
    output = tmp_path / "results.duckdb"
    for name in ("many-flows", "short-flows", "short-flows-100kb"):
        dumbbell.run(f"validation/{name}", ["seeds=[1]"], output=output)
    many = validation.judge_many(str(output))
    assert sorted(flows for _, flows in many) == sorted(len(runs[0]) for runs in by_flow.group_runs(MANY).values())
    completions = short_flows.simulate_drawn_arrivals(output, short_flows.read_linux(SHORT))
    assert len(completions) == 12 and min(map(len, completions.values())) > 20
    assert sum(page.format_verdict(*one) == "yes" for one in many) >= 8, "of 12, with one seed"
