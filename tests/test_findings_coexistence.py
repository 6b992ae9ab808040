"""The tables of docs/findings/coexistence.md."""

import importlib
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import dumbbell
from dumbbell import coexistence, experiment

ROOT = Path(__file__).parent.parent


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    for one in ("findings_coexistence", "questions"):
        monkeypatch.delitem(sys.modules, one, raising=False)
    return importlib.import_module("findings_coexistence")


def test_what_linux_did_is_read_as_cells(findings: ModuleType) -> None:
    cells = findings.linux_cells()
    place = {"mix": "dctcp", "limit": "", "n": 2, "rtt": 5.0, "step": 106_250, "small": False}
    one = cells.filter(**place)
    assert one.height == 1 and 0.45 < one["use"][0] < 0.56 and one["share"][0] == 0
    mixed = cells.filter(mix="bbr2+dctcp", limit="0", n=10, rtt=5.0, step=312_500)
    # five flows of each: DCTCP has two thirds and more
    assert mixed.height == 1 and 0.2 < mixed["share"][0] < 0.34


def test_hosts_are_named_by_what_was_changed(findings: ModuleType) -> None:
    named = findings._host
    assert named("linux-5.4", "rfc6937", "tso", False, "cc", 0.0, 0.0) == "5.4"
    offload = named("linux-5.4", "rfc6937bis", "tso", False, "cc", 50.0, 0.0)
    assert offload == "5.4, PRR of 5.15 on, receive offload, 50 us"
    batches = named("linux-6.1", "rfc6937", "tso", True, "fq", 0.0, 50.0)
    assert batches == "6.1, the old PRR, paced by fq, ACKs in batches of 50 us"
    assert named("linux-6.1", "rfc6937bis", "none", True, "cc", 0.0, 0.0) == "6.1, no bursts"


def small(name: str, kept: dict[str, list[Any]]) -> dict[str, Any]:
    """Return an experiment short and with few of its cells."""
    folder = "linux" if name.startswith("coexistence") else "csaqm"
    table = tomllib.loads((ROOT / f"experiments/{folder}/{name}.toml").read_text())
    table |= {"duration": "0.5s", "seeds": [1], "record": {"series": False}}
    table["matrix"] |= kept
    return table


def test_tables_of_questions(findings: ModuleType, tmp_path: Path) -> None:
    output = tmp_path / "q.duckdb"
    step = {"name": "red", "min": "106250B", "max": "106250B", "wlog": 0, "ecn": True, "limit": "62500000B"}
    slow = {"bottleneck.rate, bottleneck.aqm.limit": [["10Mbit", "1MB"]]}
    tables = {
        "questions-hosts": small("questions-hosts", {"bottleneck.aqm": [step], "flows[*].count": [2]}),
        "questions-weights": small("questions-weights", slow),
        "questions-classes": small("questions-classes", slow),
        "coexistence": small(
            "coexistence",
            {"flows[*].count": [1], "flows[*].base_rtt, bottleneck.aqm, duration": [["5ms", step, "1s"]]},
        ),
    }
    tables["coexistence-rtts"] = small("coexistence-rtts", {})
    for name, table in tables.items():
        dumbbell.run(experiment.parse(table, f"{name}.toml"), output=output)
    found = findings.Found(str(output), findings.EXPERIMENTS, findings._place)
    hosts = findings.hosts(found).splitlines()
    assert len(hosts) == 2 + 10 and hosts[0].endswith("0.17 |")
    assert all(0 <= int(line.split("|")[-2]) <= 100 for line in hosts[2:])
    linux = findings.linux(found)
    assert linux["linux"].count("\n") == 1 + 4 and re.search(r"use within 3 points +\| +\d of 4", linux["linux-scores"])
    rtts = findings.linux_rtts(found).splitlines()
    assert len(rtts) == 2 + 4 and rtts[4].split("|")[2].strip().startswith("2.")  # K = 2, BBRv2 of 50 ms on Linux
    weights = findings.weights(found, "questions-weights").splitlines()
    assert len(weights) == 2 + 18 + 1 and "of 18" in weights[-1]
    assert findings.weights(found, "questions-classes").splitlines()[-1].count("of 4") == 2


def test_acceptance_counts_the_cells_where_others_fail(findings: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        (1.0, "5", k, aqm, jain)
        for k, by in {0.1: (0.5, 0.6, 0.96), 0.5: (0.5, 0.85, 0.5), 1.0: (0.79, 0.1, 0.9)}.items()
        for aqm, jain in zip(("STEP", "PI2", "CSAQM"), by, strict=True)
    ]
    frame = pl.DataFrame(rows, ["rate_gbit", "rtt", "k", "aqm", "jain"], orient="row")
    frame = frame.with_columns(n=pl.lit("2"), mix=pl.lit("both"), buffer=pl.lit("500 ms"), variant=pl.lit("no limit"))
    monkeypatch.setattr(coexistence, "runs", lambda _: frame)
    cells = [cell.strip() for cell in findings.acceptance(None).splitlines()[2].split("|")]
    assert cells[1:-1] == ["1", "5", "2", "1", "2", "0.90"]
