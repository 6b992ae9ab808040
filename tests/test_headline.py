"""Figures that got no title: the line above them is true of the rows that were drawn."""

import re

import polars as pl
import pytest

import dumbbell
from conftest import described
from dumbbell import figures
from dumbbell.notebook import Results
from dumbbell.plotting.headline import describe_picture

AQMS = ["pfifo", "codel", "cake"]
FLOWS = [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "bbr3", "base_rtt": "20ms", "start": {"uniform": ["0s", "1s"]}}]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    table = described(flows=FLOWS, duration="3s", seeds=[1, 2, 3], matrix={"bottleneck.aqm": AQMS})
    return dumbbell.run(table, output=tmp_path_factory.mktemp("headline") / "r.duckdb", progress=False)


def get_title(picture: figures.Picture) -> str:
    return (picture.around.title or "").partition("\n")[0]


def test_a_figure_without_a_title_states_its_extremes(results: Results) -> None:
    title = get_title(results.plot("bars", value="goodput"))
    flows = pl.concat([results.where(f"aqm={aqm}").flows.with_columns(aqm=pl.lit(aqm)) for aqm in AQMS])
    found = flows.group_by("aqm", "cc").agg(pl.col("goodput_mbit").mean()).sort("goodput_mbit")
    low, high = found.row(0, named=True), found.row(-1, named=True)
    assert title.startswith("Goodput") and f": {low['goodput_mbit']:.3g} (" in title
    assert f"to {high['goodput_mbit']:.3g} Mbit/s" in title
    for end in (low, high):
        assert end["cc"] in title and end["aqm"] in title


def test_a_title_of_its_own_stays_and_the_extremes_stand_below(results: Results) -> None:
    assert get_title(results.plot("bars", title="Mine")) == "Mine"
    assert results.plot("bars", title="").around.title is None


def test_queues_state_what_delay_and_utilisation_they_trade(results: Results) -> None:
    title = get_title(results.plot("ellipses", value=("sojourn", "utilisation"), by="bottleneck.aqm"))
    assert re.fullmatch(
        r"Mean time in queue: [\d.]+ \(\w+\) to [\d.]+ ms \(pfifo\); utilisation: [\d.]+ \(\w+\) to [\d.]+ \(\w+\)",
        title,
    )


def test_one_run_states_the_means_of_its_flows(results: Results) -> None:
    title = get_title(results.where("aqm=codel", "seed=1").plot("series"))
    assert re.fullmatch(r"Mean goodput: cubic [\d.]+ and bbr3 [\d.]+ Mbit/s", title)


def test_what_is_the_same_everywhere_is_said_once() -> None:
    frame = pl.DataFrame({"x": ["a", "b"], "y": [2.0, 2.0]})
    assert describe_picture(figures.bars(frame, "x", "y", y_label="rate, Mbit/s")) == "Rate: 2 Mbit/s everywhere"
    frame = pl.DataFrame({"x": ["a", "b", "a", "b"], "g": ["c", "c", "d", "d"], "y": [1.0, 5, 3, 4]})
    drawn = figures.bars(frame, "x", "y", group="g", y_label="rate, Mbit/s")
    assert describe_picture(drawn) == "Rate: 1 (a) to 5 Mbit/s (b), both with c"
