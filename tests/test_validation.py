"""The statement of what agrees with what."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dumbbell import engines

ROOT = Path(__file__).parent.parent


@pytest.fixture
def validation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    for name in ("agreement", "agreement_flows", "engines", "sections", "validation"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("validation")


def test_a_row_counts_cells_and_names_those_outside(validation: ModuleType) -> None:
    row = validation.Row("two flows", "Linux", "A", "make linux")
    row.add("first", {"goodput": [0.001, -0.02], "RTT": [0.004]}, True)
    row.add("second", {"goodput": [0.01, -0.06], "RTT": [0.1]}, False, ", drops and marks 3 (Linux 9)")
    line = "| two flows | Linux | **1 of 2** | A | goodput 1.5 / 4.8 / 6.0; RTT 5.2 / 9.0 / 10.0 | `make linux` |"
    assert row.line() == line
    assert row.outside == [("second", 0.1, "goodput -6.0 %, RTT +10.0 %, drops and marks 3 (Linux 9)")]
    text = validation.document([row])
    assert line in text
    assert "**two flows** (Linux): 1 of 2." in text and "- second: goodput -6.0 %" in text and "- first" not in text


def test_two_commands_write_one_page_and_leave_each_other_s_parts_alone(
    validation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = engines.Pair("10Mbit, pie, 20ms, reno", ("reno",), 10.0, (9.0, 30.0, 4.0), (9.5, 25.0, 5.0), (1, 1))
    good = engines.Pair("10Mbit, pie, 20ms, bbr1", ("bbr1",), 10.0, (9.0, 30.0, 4.0), (9.0, 30.0, 4.0), (1, 1))
    monkeypatch.setattr(engines, "compare", lambda _: engines.Compared(("0.1", "linux-6.12"), [pair, good], 0))
    written = importlib.import_module("engines")
    page = tmp_path / "validation.md"
    monkeypatch.setattr(written, "SUMMARY", page)
    monkeypatch.setattr(written, "PAGE", tmp_path / "validation-engines.md")
    first, second = validation.Row("one", "Linux", "A", "make linux"), validation.Row("two", "Linux", "A", "make linux")
    page.write_text(validation.document([first]), encoding="utf-8")
    assert "Not measured: `make agree`." in page.read_text(encoding="utf-8")
    written.main("any")
    text = page.read_text(encoding="utf-8")
    # (9.0 - 9.5) / 10, 30 / 25 - 1, 4 / 5 - 1
    row = "| 10Mbit, pie, 20ms |  -5.0 / +20.0 / -20.0 | +0.0 / +0.0 / +0.0 |"
    assert row.replace(" ", "") in text.replace(" ", "") and first.line() in text and "Not measured" not in text
    assert "0 % within the bars" in text and "100 % within the bars" in text
    page.write_text(again := validation.document([second], text), encoding="utf-8")
    assert second.line() in again and first.line() not in again and row.replace(" ", "") in again.replace(" ", "")
    written.main("any")
    assert page.read_text(encoding="utf-8") == again
    assert "## What does not agree" in again and "## Elsewhere" in again


def test_a_cell_agrees_within_its_bars(validation: ModuleType) -> None:
    def cell(goodput: float, rtt: float, signals: float) -> tuple[bool, bool]:
        measures = {("goodput_mbit", 1): (goodput, 9.0), ("rtt_ms", 1): (rtt, 20.0)}
        measures |= {("marks", 0): (signals, 90.0), ("drops", 0): (0.0, 10.0)}
        one = validation.Judged({"cc1": "reno", "cc2": "", "rate_mbit": 10.0}, measures)
        return one.good, one.same

    # 2 % of 10 Mbit/s are 0.2; 6 % of 20 ms are 1.2; 25 % of 100 are 25
    assert cell(9.19, 21.1, 124) == (True, True)
    assert cell(9.21, 20.0, 100) == (False, True)
    assert cell(9.0, 21.3, 100) == (False, True)
    assert cell(9.0, 20.0, 126) == (True, False)


def test_the_closed_form(validation: ModuleType) -> None:
    # no queue: 1 - (1 - beta)^2 / (2 (1 - beta)) = (1 + beta) / 2; a queue as deep as the reduction: full use
    assert validation.utilisation(0.5, 0) == pytest.approx(0.75)
    assert validation.utilisation(0.8, 0) == pytest.approx(0.9)
    assert validation.utilisation(0.8, 0.25) == 1


def test_linux_beside_the_draft_comes_from_the_references(validation: ModuleType) -> None:
    row = validation.linux_beside_sce()
    assert row.cells == 56 and row.line() in (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
