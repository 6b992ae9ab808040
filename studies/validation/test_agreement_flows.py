"""The count of cells in which many flows and short flows agree with Linux."""

import importlib
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import pytest

import dumbbell
from dumbbell.pages import study
from dumbbell.study import shipped

ROOT = Path(__file__).parents[2]
MANY = shipped.list_references()["linux-6.12-many"]
SHORT = shipped.list_references()["linux-6.12-short"]


@pytest.fixture(scope="module")
def agreement() -> ModuleType:
    return importlib.import_module(f"{study.find('validation').program.__package__}.agreement_flows")


def test_the_references_have_twelve_cells_each(agreement: ModuleType) -> None:
    many, short = agreement.read_linux_many(MANY), agreement.read_linux_short(SHORT)
    assert (len(many), len(short)) == (12, 12)
    assert all(len(run.flows) == cell[0] for cell, runs in many.items() for run in runs)
    assert {len(runs) for runs in many.values()} == {8}
    assert {len(lists) for lists in short.values()} == {8}
    assert min(len(agreement.list_finished(lists)) for lists in short.values()) == 255


def test_a_run_whose_flows_share_a_queue_is_left_out(agreement: ModuleType) -> None:
    def run(*goodputs: float) -> Any:
        return agreement.Many([("cubic", goodput, 20.0) for goodput in goodputs])

    assert run(2.0, 2.1, 1.6).is_alone()
    assert not run(2.0, 2.1, 1.4).is_alone()
    assert run(*[1.0] * 49, 0.1).is_alone(), "of 50 flows some always share a queue"


def test_bars(agreement: ModuleType) -> None:
    def make_many(cubic: float, rtt: float, signals: float) -> Any:
        return agreement.Many([("cubic", cubic, rtt), ("reno", 5.0, 20.0)], signals)

    cell = (2, "fq_codel ecn", True, 10.0, 20.0, 60.0)
    linux = {cell: [make_many(5.0, 20.0, 100)]}
    # a fair share is 5 Mbit/s, 3 % of it 0.15; 6 % of 20 ms are 1.2; 25 % of 100 are 25
    for seen, verdict in [
        (make_many(5.14, 21.1, 124), "yes"),
        (make_many(5.16, 20.0, 100), "goodput, RTT"),
        (make_many(5.0, 21.3, 100), "goodput, RTT"),
        (make_many(5.0, 20.0, 126), "drops and marks"),
    ]:
        rows, verdicts = agreement.compare_many(linux, {cell: [seen]})
        assert verdicts[0].agrees == (verdict == "yes") and all(row.endswith(f"| {verdict} |") for row in rows)

    cell = (10_000, "pfifo limit 100", False, 10.0, 40.0, 120.0)
    for seconds, verdict in [([1.0, 1.0], "yes"), ([1.06, 1.06], "mean"), ([0.8, 1.2], "P95")]:
        rows, verdicts = agreement.compare_short({cell: [1.0, 1.0]}, {cell: seconds}, {cell: [1.0]})
        assert verdicts[0].agrees == (verdict == "yes") and rows[0].endswith(f"| {verdict} |")


def test_arrivals_are_those_of_the_reference(agreement: ModuleType) -> None:
    cell = (10_000, "codel ecn", True, 10.0, 40.0, 120.0)
    flows = agreement.read_linux_short(SHORT)[cell][1]
    results = dumbbell.run(agreement.make_experiment(cell, flows, seeds=1))
    starts = results.flows["start_s"].to_list()[1:]
    assert starts == pytest.approx([flow.start for flow in flows], abs=1e-6)
    completion = results.flows["completion_s"].to_list()[1:]
    assert 1e3 * fmean(completion) == pytest.approx(93, rel=0.05), "as on Linux"


@pytest.mark.slow
def test_the_experiments_answer_every_cell(agreement: ModuleType, tmp_path: Path) -> None:
    output = tmp_path / "results.duckdb"
    for name in ("many-flows", "short-flows", "short-flows-100kb"):
        dumbbell.run(f"validation/{name}", ["seeds=[1]"], output=output)
    many = agreement.read_linux_many(MANY)
    bulk, completions = agreement.collect_simulated(output, many, agreement.read_linux_short(SHORT))
    assert all(len(runs) == 1 and len(runs[0].flows) == cell[0] for cell, runs in bulk.items())
    assert len(completions) == 12 and min(map(len, completions.values())) > 20
    assert sum(one.agrees for one in agreement.compare_many(many, bulk)[1]) >= 8, "of 12, with one seed"
