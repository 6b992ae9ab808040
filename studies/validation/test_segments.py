"""Each queue at five sizes of segments, next to Linux: nothing depends on an MTU of 1500 B."""

import csv
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from dumbbell.study import load, shipped

EXPERIMENT = Path(__file__).parent / "experiments" / "segments.toml"
REFERENCE = shipped.list_references()["linux-6.12-segments"]
# bars of the comparison with Linux, and what the mean of the starts of one engine differs by from that of others
GOODPUT, DELAY, STARTS_MS = 0.03, 0.06, 0.3
MEANS = """
    select json_extract_string(config, '$.bottleneck.aqm.name') as "bottleneck.aqm",
        json_extract(config, '$.hosts.mss')::int as "hosts.mss",
        avg(goodput_total_mbit) as goodput_total_mbit, avg(sojourn_mean_ms) as sojourn_mean_ms,
        avg(rtt) as rtt_mean_ms
    from runs join (select key, avg(rtt_mean_ms) as rtt from flows group by key) using (key) group by all
"""


def _group_by_cell(rows: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, float]]:
    values = ("goodput_total_mbit", "sojourn_mean_ms", "rtt_mean_ms")
    return {(row["bottleneck.aqm"], int(row["hosts.mss"])): {key: float(row[key]) for key in values} for row in rows}


@pytest.fixture(scope="module")
def linux() -> dict[tuple[str, int], dict[str, float]]:
    with REFERENCE.open(newline="", encoding="utf-8") as stream:
        return _group_by_cell(list(csv.DictReader(stream)))


@pytest.fixture(scope="module")
def simulated() -> dict[tuple[str, int], dict[str, float]]:
    return _group_by_cell(dumbbell.run(EXPERIMENT).sql(MEANS).to_dicts())


def test_the_reference_has_every_cell_of_the_experiment(linux: dict[tuple[str, int], Any]) -> None:
    cells = {
        (cell.groups["bottleneck"]["aqm"]["name"], cell.groups["hosts"]["mss"])
        for cell in load(EXPERIMENT).make_cells()
    }
    assert linux.keys() == cells and len(cells) == 40


def test_every_queue_is_as_on_linux_at_every_size_of_segments(
    linux: dict[tuple[str, int], dict[str, float]], simulated: dict[tuple[str, int], dict[str, float]]
) -> None:
    for cell, theirs in linux.items():
        ours = simulated[cell]
        assert ours["goodput_total_mbit"] == pytest.approx(theirs["goodput_total_mbit"], rel=GOODPUT), cell
        assert ours["rtt_mean_ms"] == pytest.approx(theirs["rtt_mean_ms"], rel=DELAY), cell
        assert ours["sojourn_mean_ms"] == pytest.approx(theirs["sojourn_mean_ms"], rel=DELAY, abs=STARTS_MS), cell
