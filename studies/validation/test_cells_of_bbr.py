"""Which cells of BBR on Linux a run answers, and whether it is like them."""

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from dumbbell.pages import study
from dumbbell.published import by_flow
from dumbbell.study import shipped

ROOT = Path(__file__).parents[2]
CELLS = shipped.list_references()["linux-bbr"]


@pytest.fixture(scope="module")
def validation() -> Any:
    return importlib.import_module(f"{study.find('validation').program.__package__}.rows")


def test_flows_start_together_where_a_handshake_takes_longer_than_the_time_between_starts() -> None:
    starts = {
        (len(run), run[0]["flows.base_rtt"]): [by_flow.read_value(row["flows.start"]) / 1e6 for row in run]
        for run in by_flow.read_runs(CELLS)
    }
    assert starts[2, "10ms"] == [0, 37]
    assert starts[2, "40ms"] == [40, 40]
    assert starts[1, "40ms"] == [0]
    assert starts[10, "5ms"] == [37 * i for i in range(10)]


def test_a_bbr_flow_at_10_mbit_has_goodput_and_rtt_of_linux_over_every_queue(validation: Any, tmp_path: Path) -> None:
    table = tomllib.loads((shipped.list_experiments()["validation/bbr-one-flow"]).read_text(encoding="utf-8"))
    table["seeds"] = [1]
    table["matrix"]["bottleneck.rate, flows[*].base_rtt"] = [["10Mbit", "20ms"]]
    results = dumbbell.run(table, output=tmp_path / "results.duckdb")
    pairs = by_flow.compare(results.runs, results.flows, by_flow.read(CELLS)).pairs
    cells = {pair.figure.cell for pair in pairs}
    assert len(by_flow.group_runs(CELLS)) > len(cells) > 15
    named = [dict(cell) for cell in cells]
    assert {(cell["rate_mbit"], cell["rtts_ms"], cell["set"]) for cell in named} == {(10, "20", "one")}
    rows = validation.make_bbr_rows(str(tmp_path / "results.duckdb"))
    assert sum(row.cells for row in rows) == len(cells) and [row.outside for row in rows if row.outside] == []


def test_a_cell_of_bbr_has_a_name(validation: Any) -> None:
    cell = {"qdisc": "codel target 1s ce_threshold 1ms ecn", "ccs": "bbr2+bbr2", "rate_mbit": 1000.0, "rtts_ms": "5"}
    cell |= {"set": "paper0", "flows.cc.ecn": "true+true"}
    assert validation.name_of_bbr(cell, "bbr2") == "2 bbr2, step 1ms, 1 Gbit/s, 5 ms, no limit"
    cell |= {"set": "two", "flows.cc.ecn": "false+", "ccs": "bbr2+cubic", "rate_mbit": 10.0, "qdisc": "pie"}
    assert validation.name_of_bbr(cell, "bbr2") == "bbr2+cubic without ECN response, pie, 10 Mbit/s, 5 ms"
