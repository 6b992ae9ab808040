"""Which cells of BBR on Linux a run answers, and whether it is like them."""

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from dumbbell.pages import study
from dumbbell.study import shipped

ROOT = Path(__file__).parents[2]
CELLS = shipped.list_references()["linux-bbr"]


@pytest.fixture(scope="module")
def agreement() -> Any:
    if not CELLS.exists():
        pytest.skip("studies/validation/references/linux-bbr.csv is not there")
    return importlib.import_module(f"{study.find('validation').program.__package__}.agreement_bbr")


def test_flows_start_together_where_a_handshake_takes_longer_than_the_time_between_starts(agreement: Any) -> None:
    starts = {(len(cell.ccs), cell.delay_ms): cell.starts_ms for cell in agreement.read(CELLS)}
    assert starts[2, 10] == [0, 37]
    assert starts[2, 40] == [40, 40]
    assert starts[1, 40] == [0]
    assert starts[10, 5] == [37 * i for i in range(10)]


def test_a_bbr_flow_at_10_mbit_has_goodput_and_rtt_of_linux_over_every_queue(agreement: Any, tmp_path: Path) -> None:
    table = tomllib.loads((shipped.list_experiments()["validation/bbr-one-flow"]).read_text(encoding="utf-8"))
    table["seeds"] = [1]
    table["matrix"]["bottleneck.rate, flows[*].base_rtt"] = [["10Mbit", "20ms"]]
    results = tmp_path / "results.duckdb"
    dumbbell.run(table, output=results)
    cells, total = agreement.judge_cells(str(results), str(CELLS))
    assert total == len(agreement.read(CELLS)) > len(cells) > 15
    assert {(one.cell.rate_mbit, one.cell.delay_ms, one.cell.kind) for one in cells} == {(10, 20, "one")}
    assert [one.format_line() for one in cells if abs(one.use) > 0.02 or abs(one.rtt) > 0.06] == []
