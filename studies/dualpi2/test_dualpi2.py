"""The figures of studies/dualpi2/README.md and the linear model of DualPI2's controller."""

import importlib
import math
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

import dumbbell
from dumbbell import experiment
from dumbbell.pages import study
from dumbbell.study import Evidence, InputError, Results, Tables, compute_means

ROOT = Path(__file__).parents[2]


@pytest.fixture
def findings() -> ModuleType:
    return study.find("dualpi2").program


@pytest.fixture
def model(findings: ModuleType) -> ModuleType:
    found: ModuleType = findings.pi2_margins
    return found


def test_flows_in_equilibrium(model: ModuleType) -> None:
    # Reno: W^2 p = 2, so that W p' = sqrt(2), and r = W p / R
    flow = model.model_reno(100, 0.1)
    assert (flow.probability, flow.response, flow.forgets) == pytest.approx((0.0141421, 1.414214, 0.2), rel=1e-5)
    # CUBIC in its Reno-friendly region: p = 3 / 1.7 / W^2, g = 2 * 0.3 * sqrt(3 / 1.7), r = 0.6 W p / R
    flow = model.model_cubic(20, 0.03)
    assert flow.probability**2 == pytest.approx(3 / 1.7 / 400)
    assert flow.response == pytest.approx(0.6 * math.sqrt(3 / 1.7))
    assert flow.forgets == pytest.approx(0.6 * 20 * 3 / 1.7 / 400 / 0.03)
    # beyond it: W = 1.054 (R / p)^(3/4), RFC 9438 section 5.1
    flow = model.model_cubic(10_000, 0.1)
    assert 1.054 * (0.1 / flow.probability**2) ** 0.75 == pytest.approx(10_000, rel=1e-3)


def test_margins_are_where_the_loop_has_gain_or_phase_of_the_border(model: ModuleType) -> None:
    rtt, flow = 0.05, model.model_reno(50, 0.05)
    found = model.compute_margins(flow, rtt)

    def compute_loop(omega: float) -> complex:
        s = 1j * omega
        controller = model.BETA + model.ALPHA / (model.TUPDATE * s)
        return complex(
            controller
            * flow.response
            / rtt
            * np.exp(-s * (rtt + model.TUPDATE / 2))
            / ((s + flow.forgets) * (s + 1 / rtt))
        )

    grid = np.logspace(-2, 3, 20_001)
    values = np.array([compute_loop(omega) for omega in grid])
    turns = np.flatnonzero((values.imag[:-1] < 0) & (values.imag[1:] >= 0) & (values.real[1:] < 0))
    assert found.gain_db == pytest.approx(-20 * math.log10(abs(values[turns[0]])), abs=0.05)
    crossed = values[np.flatnonzero(np.abs(values) >= 1)[-1]]
    assert found.phase_deg == pytest.approx(180 + math.degrees(np.angle(crossed)), abs=0.3)


def test_the_model_says_what_rtts_the_gains_are_for(model: ModuleType) -> None:
    # RFC 9332 appendix A: alpha and beta follow from RTT_max = 100 ms
    assert (
        model.compute_link_margins(400e6, 0.085, 10, "reno").phase_deg
        > 0
        > model.compute_link_margins(400e6, 0.2, 10, "reno").phase_deg
    )
    assert model.compute_link_margins(4e6, 0.001, 10) is None
    margins = [model.compute_link_margins(120e6, rtt / 1e3, 10).phase_deg for rtt in (5, 20, 50, 100, 200)]
    assert margins == sorted(margins, reverse=True)


def shrink_experiment(name: str) -> dict[str, Any]:
    """Return an experiment with few of its cells, and short."""
    table = tomllib.loads((ROOT / f"studies/dualpi2/experiments/{name}.toml").read_text())
    table |= {"duration": "60s" if name == "questions-burst" else "3s", "seeds": [1, 2], "override": []}
    kept = {
        "bottleneck.rate": ["40Mbit"],
        "flows[0].count, flows[1].count": [[1, 1]],
        "flows[0].base_rtt": ["5ms", "10ms"],
        "flows[1].base_rtt": ["5ms", "10ms"],
        "flows[*].base_rtt": ["5ms", "10ms"],
        "flows[*].base_rtt, web[0].base_rtt": [["10ms", "10ms"]],
        "bottleneck.aqm.classic_protection": [1, 50],
        "udp[0].rate": ["1kbit", "20Mbit"],
        "web[0].arrivals": ["0/s", "2.5/s/Mbit"],
    }
    if name == "stability":
        kept |= {"bottleneck.rate": ["4Mbit", "120Mbit"], "flows[*].base_rtt": ["5ms", "50ms"]}
    table["matrix"] = {key: kept.get(key, values) for key, values in table["matrix"].items()}
    return {key: value for key, value in table.items() if value}


@pytest.mark.slow
def test_figures_and_tables(findings: ModuleType, tmp_path: Path) -> None:
    rows, drawings = (importlib.import_module(f"{findings.__package__}.{name}") for name in ("rows", "drawings"))
    output = tmp_path / "l4s.duckdb"
    for name in rows.EXPERIMENTS[:3]:
        dumbbell.run(experiment.parse(shrink_experiment(name), f"{name}.toml"), output=output)
    part = Evidence(Tables(findings.make_evidence(Results(str(output)))))
    assert findings.FIGURES["l4s-rtt"](part).panels
    with pytest.raises(InputError, match="no runs of questions-burst"):
        findings.FIGURES["l4s-burst"](part)
    for name in rows.EXPERIMENTS[3:]:
        dumbbell.run(experiment.parse(shrink_experiment(name), f"{name}.toml"), output=output)
    found = Evidence(Tables(findings.make_evidence(Results(str(output)))))
    assert "| Prague" in drawings.format_fq_table(found).splitlines()[0]
    for name in ("l4s-rtt", "l4s-burst", "l4s-fq-delay", "l4s-stability"):
        assert findings.FIGURES[name](found).panels, name
    swings = found["swings"]
    # two rates, two base RTTs, three kinds of traffic
    assert len(swings) == 12 and (swings["swing"].drop_nulls() > 0).all()
    assert swings.filter(pl.col("flows") == 2)["period"].null_count() == 4  # of CUBIC alone only
    cells = compute_means(found["rtt"], ["version", "rtt", "second_rtt"], "ratio")
    assert len(cells.filter(pl.col("second_rtt") < 20)) == 8 and (cells["low"] <= cells["high"]).all()
