"""The statement of what agrees with what."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from dumbbell.pages import study
from dumbbell.published import engines
from dumbbell.study import Evidence

ROOT = Path(__file__).parents[2]


@pytest.fixture
def program() -> ModuleType:
    return study.find("validation").program


@pytest.fixture
def validation(program: ModuleType) -> ModuleType:
    return importlib.import_module(f"{program.__package__}.rows")


@pytest.fixture
def bars(program: ModuleType) -> ModuleType:
    return importlib.import_module(f"{program.__package__}.bars")


def test_a_row_counts_cells_and_names_those_outside(
    program: ModuleType, validation: ModuleType, bars: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(bars.ROWS, "pairs", ("two flows", "Linux 6.12", "A", {}))
    row = validation.Row("pairs")
    row.add("first", {"goodput": [0.001, -0.02], "RTT": [0.004]}, True)
    spread = validation.Measured(3, goodput=0.004, rtt=0.02)
    row.add("second", {"goodput": [0.01, -0.06], "RTT": [0.1]}, False, ", drops and marks 3 (Linux 9)", spread)
    row.add("third", {"goodput": [0.021], "RTT": [0.004]}, True)  # the bar of a row may be wider than the uniform one
    found = Evidence(program.make_tables([row]))
    assert found["rows"].select("cells", "agree", "uniform").row(0) == (3, 2, 1)
    text = program.format_summary(found)
    cells = [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]
    runs = "1 to 3; in the median 0.40 % of the rate, 2.0 % of the RTT"
    assert cells[:6] == ["two flows", "Linux 6.12", runs, "**1 of 3**", "2 of 3", "A"]
    assert cells[6] == "goodput 2.0 / 4.4 / 6.0; RTT 0.40 / 8.1 / 10.0"
    outside = program.describe_outside(found, "pairs")
    assert outside.splitlines()[0] == "**two flows** (Linux 6.12): 1 of 3 cells are outside."
    assert outside.splitlines()[2:] == ["- second: goodput -6.0 %, RTT +10.0 %, drops and marks 3 (Linux 9)"]


def test_the_home_page_names_the_worst_rows(program: ModuleType) -> None:
    rows = study.find("validation").read_evidence()["rows"]
    shown = program.trust(study.find("validation").read_evidence())
    itself = rows.row(by_predicate=pl.col("name") == "sce-plain-linux", named=True)["what"]
    assert itself not in shown  # which compares Linux with a publication, not the simulator
    linux = rows.filter(pl.col("reference").str.starts_with("Linux") & pl.col("uniform").is_not_null())
    by_share = linux.filter(pl.col("what") != itself).sort(pl.col("uniform") / pl.col("cells"))
    assert by_share.height > 7
    published = rows.filter((pl.col("reference") == "SCE draft") & (pl.col("what") != itself))
    for row in pl.concat([by_share.head(4), published]).iter_rows(named=True):
        line = next(line for line in shown.splitlines() if f" {row['what']} " in line)
        assert line.rstrip("| ").endswith(f" {row['uniform']} of {row['cells']}")


def test_readme_and_accuracy_page_say_what_the_rows_come_to() -> None:
    rows = study.find("validation").read_evidence()["rows"].filter(pl.col("reference").str.starts_with("Linux"))
    counted = rows.filter(pl.col("uniform").is_not_null())
    said = re.compile(rf"{counted['uniform'].sum()} of {counted['cells'].sum()} (?:cells|scenarios)")
    for page in (ROOT / "README.md", ROOT / "docs" / "accuracy.md", ROOT / "studies" / "validation" / "README.md"):
        part = page.read_text(encoding="utf-8")
        assert said.search(part), page
        assert "a virtual clock" in part, page


def test_a_scenario_is_one_cell(validation: ModuleType) -> None:
    """Its flows, queues and pings are figures of one cell, which agrees if all of them do."""
    rows = study.find("validation").read_evidence()["rows"]
    hops = rows.filter(pl.col("bar") == "G")
    scenarios = validation.hops.read_scenarios(validation.HOPS)
    assert hops["cells"].sum() == len(scenarios)


def test_spread_is_that_of_the_runs(validation: ModuleType) -> None:
    one = validation.Measured.from_runs([0.5, 0.52, 0.49], [20.0, 21.0, 22.0])
    assert (one.runs, one.goodput, one.rtt) == (3, pytest.approx(0.03), pytest.approx(2 / 21))
    alone = validation.Measured.from_runs([0.5], [20.0])
    assert alone == validation.Measured(1)
    assert validation.Measured.find_widest([one, alone]) == one


def test_engines_are_compared_on_a_page_of_their_own(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = engines.EnginePair("10Mbit, pie, 20ms, reno", ("reno",), 10.0, (9.0, 30.0, 4.0), (9.5, 25.0, 5.0), (1, 1))
    good = engines.EnginePair("10Mbit, pie, 20ms, bbr1", ("bbr1",), 10.0, (9.0, 30.0, 4.0), (9.0, 30.0, 4.0), (1, 1))
    monkeypatch.setattr(engines, "compare", lambda _: engines.EngineComparison(("0.1", "linux-6.12"), [pair, good], 0))
    written = importlib.import_module(f"{program.__package__}.engines")
    monkeypatch.setattr(written, "PAGE", tmp_path / "validation-engines.md")
    written.main("any")
    text = (tmp_path / "validation-engines.md").read_text(encoding="utf-8")
    # (9.0 - 9.5) / 10, 30 / 25 - 1, 4 / 5 - 1
    row = "| 10Mbit, pie, 20ms |  -5.0 / +20.0 / -20.0 | +0.0 / +0.0 / +0.0 |"
    assert row.replace(" ", "") in text.replace(" ", "")
    assert "0 % within the bars" in text and "100 % within the bars" in text


def test_a_cell_agrees_within_its_bars(validation: ModuleType) -> None:
    def judge_cell(goodput: float, rtt: float, signals: float) -> tuple[bool, bool]:
        values = {("goodput_mbit", 1): [(goodput, 9.0)], ("rtt_ms", 1): [(rtt, 20.0)]}
        values |= {("marks", 0): [(signals, 90.0)], ("drops", 0): [(0.0, 10.0)]}
        one = validation.Judged({"cc1": "reno", "cc2": "", "rate_mbit": 10.0}, values)
        return one.is_good(), one.same

    # 2 % of 10 Mbit/s are 0.2; 6 % of 20 ms are 1.2; 25 % of 100 are 25
    assert judge_cell(9.19, 21.1, 124) == (True, True)
    assert judge_cell(9.21, 20.0, 100) == (False, True)
    assert judge_cell(9.0, 21.3, 100) == (False, True)
    assert judge_cell(9.0, 20.0, 126) == (True, False)


def test_bars_of_rows(validation: ModuleType) -> None:
    def agrees(name: str, measure: str, error: float, flows: int = 0) -> bool:
        row = validation.Row(name)
        row.judge("a cell", {measure: [0.0, error]}, flows)
        return not row.outside

    assert agrees("dualpi2", "goodput", -0.02, 1) and not agrees("dualpi2", "goodput", -0.021, 1)
    assert agrees("dualpi2", "goodput", 0.03, 2) and not agrees("dualpi2", "goodput", 0.031, 2)
    assert not agrees("dualpi2", "RTT", 0.061) and not agrees("dualpi2", "marks and drops", 0.26)
    assert agrees("prague", "share", 0.05) and not agrees("prague", "share", 0.06)
    assert agrees("bbr2-two-flows", "goodput", 0.5), "the share is judged"
    assert not agrees("one-flow", "RTT", float("nan"))


def test_every_row_of_the_page_has_bars(validation: ModuleType, bars: ModuleType) -> None:
    rows = study.find("validation").read_evidence()["rows"]
    assert set(rows["name"]) == set(bars.ROWS)
    for row in rows.iter_rows(named=True):
        assert validation.Row(row["name"]).texts.items() <= row.items()


def test_the_closed_form(validation: ModuleType) -> None:
    # no queue: 1 - (1 - beta)^2 / (2 (1 - beta)) = (1 + beta) / 2; a queue as deep as the reduction: full use
    assert validation.predict_utilisation(0.5, 0) == pytest.approx(0.75)
    assert validation.predict_utilisation(0.8, 0) == pytest.approx(0.9)
    assert validation.predict_utilisation(0.8, 0.25) == 1


def test_linux_beside_the_draft_comes_from_the_references(validation: ModuleType) -> None:
    row = validation.make_linux_sce_row()
    kept = study.find("validation").read_evidence().select_table("rows")(name="sce-plain-linux")
    assert row.cells == kept.cells.only == 56
    assert row.cells - len(row.outside) == kept.agree.only
