"""Times that a run may be over before: medians with censoring, tables and figures."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

import dumbbell
from conftest import described
from dumbbell import Results, run
from dumbbell.errors import InputError
from dumbbell.results import censored


def test_medians_count_what_was_not_reached_as_later() -> None:
    # all known: the smallest time by which half have it
    assert censored.compute_median([3.0, 1.0, 2.0], [9.0] * 3) == 2.0
    # one of three is later than 9: 1, 2, more than 9
    assert censored.compute_median([1.0, None, 2.0], [9.0] * 3) == 2.0
    # two of three are later: no median
    assert censored.compute_median([1.0, None, None], [9.0] * 3) is None
    # one that was watched until 1.5 only is no longer at risk at 2: 1 - 1/4 = 0.75, then 0.75 (1 - 1/2) = 0.375
    assert censored.compute_median([1.0, None, 2.0, None], [9.0, 1.5, 9.0, 9.0]) == 2.0
    # had it been watched until 9: 0.75 (1 - 1/3) = 0.5
    assert censored.compute_median([1.0, None, 2.0, None], [9.0] * 4) == 2.0
    assert censored.compute_median([None, None], [9.0, 9.0]) is None


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return four runs over each of two queues; over codel one converges after 2 s, over pfifo three do."""
    path = tmp_path_factory.mktemp("some") / "r.duckdb"
    table = described(
        seeds=[1, 2, 3, 4],
        flows=[{"cc": "cubic", "base_rtt": "20ms", "start": {"uniform": ["0s", "200ms"]}, "count": 2}],
        matrix={"bottleneck.aqm": ["codel", "pfifo"], "bottleneck.rate": ["5Mbit", "10Mbit"]},
    )
    results = run(table, output=path, progress=False)
    times = {"codel": (2.0, None, None, None), "pfifo": (2.0, 3.0, 4.0, None)}
    rows = []
    for aqm, values in times.items():
        for seed, value in enumerate(values, 1):
            rows += [[value, 40.0 - seed, key] for key in results.where(f"aqm={aqm}", f"seed={seed}").keys]
    with duckdb.connect(str(path)) as connection:
        connection.executemany("UPDATE runs SET convergence_s = ?, common_s = ? WHERE key = ?", rows)
    return dumbbell.open(path)


def test_no_mean_is_of_the_runs_that_converged_alone(some: Results) -> None:
    table = some.where("rate=5Mbit").table("convergence")
    assert [row[1] for row in table.cells] == ["not reached in 3 of 4 within 36 s", "median 3, not reached in 1 of 4"]
    assert table.frame["mean"].to_list() == [None, None] and "Kaplan and Meier" in table.to_markdown()
    with pytest.raises(InputError, match="8 of 16 runs did not reach convergence_s"):
        some.table("convergence", mean_over=["bottleneck.rate"])
    # two are complete: a mean and a range as of any measure
    own = some.where("rate=5Mbit", "aqm=pfifo", "seed=1,2").table("convergence")
    assert own.cells[0][1] == "2.5 (2 to 3)"


def test_figures_mark_the_runs_that_did_not_converge(some: Results) -> None:
    own = some.where("rate=5Mbit")
    box = own.plot("box", value="convergence")
    assert "not reached in 4 of 8 runs, which are drawn where they were over" in (box.around.title or "")
    (axes,) = box.panels.values()
    heights = {float(height) for line in axes.lines for height in np.atleast_1d(line.get_ydata())}
    assert {36.0, 37.0, 38.0} <= heights
    curves = own.plot("cdf", value="convergence")
    (axes,) = curves.panels.values()
    ends = sorted(float(np.asarray(line.get_ydata())[-1]) for line in axes.lines)
    assert ends == [0.25, 0.75]  # of four runs each
    assert "not reached in 4 of 8 runs" in axes.get_xlabel() + str(curves.around.x_label)
