"""The evidence of studies/bbr/README.md: made of runs, and the model it is compared with."""

import importlib
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
from dumbbell.study import InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def runs() -> ModuleType:
    return importlib.import_module(f"{study.find('bbr').program.__package__}.runs")


def shrink_experiment(name: str) -> dict[str, Any]:
    """Return an experiment short and with few of its cells, of the middle of each list."""
    table = tomllib.loads((ROOT / f"studies/bbr/experiments/{name}.toml").read_text())
    table |= {"duration": "92s" if name.startswith("latecomer") else "6s", "seeds": [1, 2]}
    if "from" in table["record"]:
        table["record"]["from"] = "2s"
    limits = {"share": ["125kB", "250kB", "500kB", "2MB"], "latec": ["250kB"]}
    kept = {
        "bottleneck.aqm.limit": limits.get(name[:5]),
        "flows[0].count, flows[1].count": [[1, 1], [1, 3], [1, 9]],
        "flows[1].base_rtt": ["10ms", "40ms"],
        "flows[0].count": [1, 4] if name == "ecn-limit" else [2, 10],
        "bottleneck.path[0].burst": ["10kB", "50kB"],
        "flows[*].base_rtt": ["4.9ms", "5ms", "5.1ms"] if name == "ecn-limit" else None,
        "flows[1].cc, record.from": [["cubic", "2s"]],
        "flows[1].cc, record.from, bottleneck.rate, flows[*].base_rtt, bottleneck.aqm.limit": [
            ["cubic", "2s", "10Mbit", "40ms", "51200B"],
            ["reno", "2s", "10Mbit", "40ms", "204800B"],
        ],
    }
    table["matrix"] = {key: kept.get(key) or values for key, values in table["matrix"].items()}
    if name == "gigabit":
        table["duration"] = "2s"
        table["matrix"]["bottleneck.aqm"] = table["matrix"]["bottleneck.aqm"][:2]
    if name == "as-linux":
        *_, last = table["matrix"]
        table["matrix"] = {last: [[*row[:-1], "6s"] for row in table["matrix"][last]]}
    return table


@pytest.mark.slow
def test_every_table_comes_from_runs(runs: ModuleType, tmp_path: Path) -> None:
    output = tmp_path / "bbr.duckdb"
    for name in runs.EXPERIMENTS[:2]:
        dumbbell.run(experiment.parse(shrink_experiment(name), f"{name}.toml"), output=output)
    found = study.find("bbr")
    part = found.make_evidence([output])
    assert [path.name for path in found.draw("bbr-share", tmp_path, evidence=part)] == ["bbr-share.svg"]
    with pytest.raises(InputError, match="no runs of policer; give results of bbr/policer"):
        found.draw("bbr-policer", tmp_path, evidence=part)
    for name in runs.EXPERIMENTS[2:]:
        dumbbell.run(experiment.parse(shrink_experiment(name), f"{name}.toml"), output=output)
    tables = found.make_evidence([output]).tables
    kept = found.read_evidence()
    assert {name: frame.columns for name, frame in tables.items()} == {
        name: frame.columns for name, frame in kept.tables.items()
    }
    # BBRv1 leaves CUBIC little in a shallow buffer
    v1 = tables["share"].filter(pl.col("cc") == "BBRv1", pl.col("second") == "CUBIC", pl.col("depth") == 0.5)
    assert len(v1) == 2 and (v1["share"] > 0.7).all()
    # a run without loss is one of 0 %
    assert tables["shallow"]["loss"].null_count() == 0


def test_a_run_without_loss_counts_in_the_mean_and_has_a_place_in_the_figure() -> None:
    found = study.find("bbr")
    loss = found.read_evidence()["shallow"].filter(
        pl.col("cc") == "BBRv1", pl.col("count") == 2, pl.col("depth") == 2.0
    )
    assert loss["loss"].min() == 0 < loss["loss"].max()  # type: ignore[operator]
    drawn = found.figures["bbr-shallow"](found.read_evidence())
    (axes,) = (axes for key, axes in drawn.panels.items() if key == ("2 flows",))
    line = next(line for line in axes.get_lines() if line.get_label() == "BBRv1")
    assert float(np.asarray(line.get_ydata())[-1]) == pytest.approx(loss["loss"].mean())
    assert axes.get_yscale() == "symlog"


def test_the_model_of_the_cap(runs: ModuleType) -> None:
    # 4 BDP of 40 ms at 50 Mbit/s are 160 ms and 660.5 frames: p = 1/2 - 1/8 - 4/660.5
    # PROBE_RTT takes 160 + 200 + 40 of 10,000 ms
    assert runs.predict_share(4, 50, 40) == pytest.approx((1 - 0.375 + 4 / 660.5) * 0.96, rel=1e-4)
    # nobody else has a place in a buffer of one BDP
    assert runs.predict_share(1, 50, 40) == pytest.approx(1 - 0.028)
    # the packets that many flows keep in flight raise what they see as the base RTT
    assert runs.predict_share(4, 50, 40, flows=32) > runs.predict_share(4, 50, 40) + 0.15


def test_cells_of_linux(runs: ModuleType) -> None:
    pairs = runs.select_linux_pairs()
    assert set(pairs["cc"]) == {"BBRv1", "BBRv2", "BBRv3"} and set(pairs["depth"]) == {0.5, 2, 8}
    assert pairs["share"].is_between(0, 1).all()


def test_titles_of_figures_give_what_the_evidence_has() -> None:
    of = study.find("bbr")
    pictures = importlib.import_module(f"{of.program.__package__}.pictures")
    assert pictures.format_span([0.31, 21.4, 3]) == "0.31 to 21" and pictures.format_percents([0.5, 0.501]) == "50 %"
    sources = pl.DataFrame({"bdps": [1.0, 2, 4, 8], "share": [0.5] * 4, "high": [0.51] * 4, "sarpkaya": [0.5] * 4})
    sources = sources.with_columns(linux=pl.lit(None, pl.Float64), model=pl.Series([0.8, 0.6, 0.52, 0.7]))
    assert pictures.find_depth_too_high(sources) == 2
    assert pictures.find_depth_too_high(sources.with_columns(model="share")) is None
    found = of.read_evidence()
    shares = found["share"].filter(cc="BBRv1", second="CUBIC", depth=1.0)["share"]
    title = pictures.draw_share(found, "CUBIC", linux=True).around.title
    assert f"takes {100 * shares.to_numpy().mean():.0f} to " in title and title.count("\n") == 1
