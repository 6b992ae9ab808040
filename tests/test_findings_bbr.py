"""The figures and tables of docs/findings/bbr.md."""

import importlib
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import dumbbell
from dumbbell import experiment
from dumbbell.errors import InputError

ROOT = Path(__file__).parent.parent


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    for one in ("findings_bbr", "bbr_runs", "bbr_queues"):
        monkeypatch.delitem(sys.modules, one, raising=False)
    return importlib.import_module("findings_bbr")


def small(name: str) -> dict[str, Any]:
    """Return an experiment short and with few of its cells, of the middle of each list."""
    table = tomllib.loads((ROOT / f"experiments/bbr/{name}.toml").read_text())
    table |= {"duration": "82s" if name == "latecomer" else "12s", "seeds": [1, 2]}
    kept = {
        "bottleneck.aqm.limit": ["125kB", "250kB", "500kB", "2MB"] if name == "share-by-buffer" else None,
        "flows[0].count, flows[1].count": [[1, 1], [1, 3], [1, 9]],
        "flows[1].base_rtt": ["10ms", "40ms"],
        "flows[0].count": [1, 4] if name == "ecn-limit" else [2, 10],
        "bottleneck.path[0].burst": ["10kB", "50kB"],
        "flows[*].base_rtt": ["4.9ms", "5ms", "5.1ms"] if name == "ecn-limit" else None,
    }
    table["matrix"] = {key: kept.get(key) or values for key, values in table["matrix"].items()}
    return table


def test_figures_and_tables(findings: ModuleType, tmp_path: Path) -> None:
    output = tmp_path / "bbr.duckdb"
    for name in findings.EXPERIMENTS[:2]:
        dumbbell.run(experiment.parse(small(name), f"{name}.toml"), output=output)
    with pytest.raises(InputError, match="no runs of rtt"):
        findings.Found(str(output))
    for name in findings.EXPERIMENTS[2:]:
        dumbbell.run(experiment.parse(small(name), f"{name}.toml"), output=output)
    page = tmp_path / "bbr.md"
    page.write_text("no place")
    with pytest.raises(InputError, match="no place for this table"):
        findings.main(str(output), str(page))
    places = "".join(f"<!-- table {name} -->\nold\n<!-- end -->\ntext\n" for name in findings.TABLES)
    page.write_text(places)
    findings.main(str(output), str(page))
    text, drawn = page.read_text(), {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert sorted(drawn) == sorted(f"bbr-{name}.png" for name in findings.FIGURES)
    assert "old" not in text and text.count("text\n") == len(findings.TABLES) and "| BBRv1 | as it is" in text
    # twice is the same
    findings.main(str(output), str(page))
    assert page.read_text() == text
    assert drawn == {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    # BBRv1 leaves CUBIC little in a shallow buffer
    shares = findings.Found(str(output)).shares("share-by-buffer")
    v1 = shares.filter(pl.col("cc") == "BBRv1", pl.col("second") == "CUBIC", pl.col("depth") == 0.5)
    assert len(v1) == 2 and (v1["share"] > 0.7).all()


def test_the_page_has_a_place_for_every_table_and_figure(findings: ModuleType) -> None:
    text = (ROOT / "docs/findings/bbr.md").read_text()
    for name in findings.TABLES:
        assert f"<!-- table {name} -->" in text
    for name in findings.FIGURES:
        assert f"](bbr-{name}.png)" in text
        assert (ROOT / f"docs/findings/bbr-{name}.png").exists()


def test_the_model_of_the_cap(findings: ModuleType) -> None:
    # 4 products: p = 1/2 - 1/8, in PROBE_RTT for 160 + 200 + 40 of 10,000 ms
    assert findings.in_flight_cap(4) == pytest.approx((1 - 0.375) * 0.96)
    # nobody else has a place in a buffer of one product
    assert findings.in_flight_cap(1) == pytest.approx(1 - 0.028)


def test_cells_of_linux(findings: ModuleType) -> None:
    pairs = findings.linux_pairs()
    assert set(pairs["cc"]) == {"BBRv1", "BBRv2", "BBRv3"} and set(pairs["depth"]) == {0.5, 2, 8}
    assert pairs["linux"].is_between(0, 1).all()
