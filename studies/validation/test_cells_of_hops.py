"""The count of cells in which traffic both ways and over two queues agrees with Linux."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from dumbbell.pages import study
from dumbbell.study import parse, shipped

HOPS = shipped.list_references()["linux-6.12-hops"]
# scenarios that single packets do not decide, one of each set
SAMPLE = {
    "lot": ("fq_codel", "", "fq_codel"),
    "both": ("fq_codel", "fq_codel", ""),
    "asym": ("fq_codel", "cake besteffort ack-filter", ""),
    "rrul": ("cake besteffort", "cake besteffort", ""),
}


@pytest.fixture(scope="module")
def agreement() -> ModuleType:
    return importlib.import_module(f"{study.find('validation').program.__package__}.hops")


@pytest.mark.slow
def test_every_scenario_is_an_experiment(agreement: ModuleType) -> None:
    known = agreement.read_scenarios(HOPS)
    assert len(known) == 130 and sum(len(runs) for runs in known.values()) == 158
    for runs in known.values():
        made = parse(agreement.make_experiment(runs[0], starts=3), "linux")
        assert len(made) == 3
        groups = made.make_cell(0).groups
        assert len(groups["flows"]) == len(runs[0])
        assert bool(groups["hop"]) == bool(runs[0][0]["hop[0].aqm"])
        assert (groups["reverse"] is not None) == bool(runs[0][0]["reverse.aqm"])


def test_scenarios_from_many_starts_are_those_of_single_runs(agreement: ModuleType) -> None:
    many, single = agreement.read_many_starts(), agreement.read_scenarios(HOPS)
    assert len(many) > 10 and many.keys() <= single.keys()
    for scenario, runs in many.items():
        assert len(runs) >= agreement.LEAST_MANY
        for run in runs:
            assert agreement.make_experiment(run) | {"flows": []} == agreement.make_experiment(single[scenario][0]) | {
                "flows": []
            }
        measured, other = agreement.measure_linux(runs), agreement.measure_linux(single[scenario][:1])
        assert {len(values) for values in measured.goodput.values()} == {len(runs)}
        assert [values.keys() for values in vars(measured).values()] == [v.keys() for v in vars(other).values()]


def test_the_program_that_adds_starts_has_the_columns_of_its_file(agreement: ModuleType) -> None:
    program = importlib.import_module(f"{agreement.__package__}.hops_starts")
    with Path(agreement.MANY).open(encoding="utf-8") as stream:
        assert stream.readline().strip().split(",") == list(program.COLUMNS)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_scenario_of_each_set_agrees(agreement: ModuleType, name: str) -> None:
    for scenario, runs in agreement.read_scenarios(HOPS).items():
        row = runs[0][0]
        if (row["set"], *(row[f"{one}.aqm"] for one in ("bottleneck", "reverse", "hop[0]"))) == (name, *SAMPLE[name]):
            found = agreement.compare(scenario, runs)
            assert [one for one in found if not one.agrees] == []
            whats = {"goodput", "RTT", "drops and marks"} | ({"ping P99"} if name == "rrul" else set())
            assert {one.what for one in found} == whats
            return
    raise AssertionError("no such scenario")


def test_bars(agreement: ModuleType) -> None:
    def agrees(error: float, bar: float) -> bool:
        return bool(agreement.Compared("", "", "", "", "", 0.0, 0.0, error, bar).agrees)

    assert agrees(0.03, 0.03) and agrees(-0.03, 0.03)
    assert not agrees(0.031, 0.03) and not agrees(-0.031, 0.03) and not agrees(float("nan"), 0.03)


def test_a_difference_within_its_interval_agrees(agreement: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, runs = next(iter(agreement.read_scenarios(HOPS).items()))
    values = {"cubic, down": [1.0, 3.0, 1.0, 3.0], "cubic, up": [2.0, 2.0, 2.0, 2.0]}
    others = {"cubic, down": [2.0, 4.0, 2.0, 4.0], "cubic, up": [3.0, 3.0, 3.0, 3.0]}
    of = agreement.Measured
    monkeypatch.setattr(agreement, "measure_simulator", lambda *_: of(values, values, {}, {}))
    monkeypatch.setattr(agreement, "measure_linux", lambda _: of(others, others, {}, {}))
    found = {(one.what, one.where): one for one in agreement.compare(scenario, runs, 4, [runs[0]] * 4)}
    # both vary by 4/3, so the difference, 1, has an interval of 2.45 * sqrt(2 / 3) = 2.0 (6 degrees of freedom)
    spread, fixed = found["RTT", "cubic, down"], found["RTT", "cubic, up"]
    assert (
        spread.agrees and spread.error == pytest.approx(-1 / 3) and spread.interval == pytest.approx(2.0 / 3, rel=0.01)
    )
    assert not fixed.agrees and fixed.interval == 0
    # without many starts there is no interval
    assert not any(one.interval for one in agreement.compare(scenario, runs, 4))
