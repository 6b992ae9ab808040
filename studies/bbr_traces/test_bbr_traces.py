"""The comparison of studies/bbr_traces/README.md: order, times and waits of states."""

import math
from types import ModuleType

import polars as pl
import pytest

from dumbbell.pages import study


@pytest.fixture
def traces() -> ModuleType:
    program = study.find("bbr-traces").program
    return __import__(f"{program.__package__}.traces", fromlist=["traces"])


WANTED = [("startup", 0.0), ("drain", 0.2), ("probe_down", 0.3), ("probe_cruise", 0.32), ("probe_refill", 2.32)]
WANTED += [("probe_up", 2.36), ("probe_down", 2.44), ("probe_cruise", 2.48), ("probe_refill", 4.5), ("probe_up", 4.54)]
WANTED += [("probe_down", 4.6), ("probe_cruise", 4.64)]


def trace(traces: ModuleType, changes: list[tuple[str, float]]) -> object:
    return traces.Trace([time for _, time in changes], [state for state, _ in changes], {})


def shift_changes(by: float, since: int) -> list[tuple[str, float]]:
    return [(state, time + (by if i >= since else 0)) for i, (state, time) in enumerate(WANTED)]


def judge_traces(traces: ModuleType, *runs: list[tuple[str, float]]) -> tuple[dict[str, float], list[dict[str, float]]]:
    cell = traces.Cell("bbr2", False, "pfifo", 50.0, 40.0)
    row, waits, _ = traces.judge(cell, trace(traces, WANTED), [trace(traces, one) for one in runs])
    return row, waits


def test_a_later_probe_is_a_wait_and_not_a_difference(traces: ModuleType) -> None:
    # the first probe 0.4 s later: ten round trips, which the waits of the seeds may cover
    row, waits = judge_traces(traces, shift_changes(0.4, 4), shift_changes(-0.1, 4))
    assert row["order"] == 2 and row["within"] == pytest.approx(0) and row["beyond"] == pytest.approx(0)
    assert [round(one["linux"], 2) for one in waits] == [2.0, 2.02]
    assert [waits[0]["low"], waits[0]["high"]] == pytest.approx([1.9, 2.4])
    # if all seeds wait longer, Linux is 0.4 s or ten round trips outside
    row, _ = judge_traces(traces, shift_changes(0.4, 4), shift_changes(0.5, 4))
    assert row["beyond"] == pytest.approx(10)


def test_a_difference_within_a_probe_counts_in_round_trips(traces: ModuleType) -> None:
    far = [(state, time + (0.1 if i >= 6 else 0)) for i, (state, time) in enumerate(WANTED)]
    row, _ = judge_traces(traces, far)
    assert row["within"] == pytest.approx(2.5) and row["near_two"] == 0
    row, _ = judge_traces(traces, far, shift_changes(0.02, 1))
    assert row["within"] == pytest.approx(0.5) and (row["near"], row["near_two"]) == (1, 1)


def test_another_order_does_not_agree(traces: ModuleType) -> None:
    other = [("startup", 0.0), ("probe_rtt", 0.1), *WANTED[1:]]
    row, waits = judge_traces(traces, other)
    assert row["order"] == 0 and math.isinf(row["within"]) and waits == []
    # a state shorter than the distance of two samples may be missing
    short = [one for one in WANTED if one != ("probe_down", 0.3)]
    assert judge_traces(traces, short)[0]["order"] == 1


def test_linux_tells_what_is_in_flight_only_while_nothing_is_lost(traces: ModuleType) -> None:
    measured = traces.read_linux()
    assert len(measured) == 20
    for one in measured.values():
        known = [value for value in one.lines["in_flight"] if value is not None]
        assert known and len(one.lines["in_flight"]) == len(one.time)
    v1 = measured[traces.Cell("bbr1", False, "pfifo", 50.0, 40.0)]
    assert None in v1.lines["in_flight"]


def test_titles_give_the_largest_difference_of_what_is_drawn(traces: ModuleType) -> None:
    of = study.find("bbr-traces")
    cell = traces.Cell("bbr3", False, "pfifo", 10.0, 20.0)
    program, found = of.program, of.read_evidence()
    begin, probes = program.find_differences(cell, found)
    assert 0 < begin <= 0.02 and 0 < probes <= 0.02
    assert f"within {1000 * max(begin, probes):.0f} ms" in program.describe_nearness(cell, found)
    # with the simulator 100 ms late throughout, both are about as far off; in another order no number is given
    mine = pl.col("source") == "simulator"
    late = found["drawn"].with_columns(time=pl.when(mine).then(pl.col("time") + 0.1).otherwise("time"))
    assert min(program.find_differences(cell, {"drawn": late})) > 0.08
    other = found["drawn"].with_columns(state=pl.when(mine).then(pl.lit(0)).otherwise("state"))
    assert "other states" in program.describe_nearness(cell, {"drawn": other})
