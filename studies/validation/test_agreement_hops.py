"""The count of cells in which traffic both ways and over two queues agrees with Linux."""

import importlib
from types import ModuleType

import pytest

from dumbbell.experiment import parse, shipped
from dumbbell.pages import study

HOPS = shipped.references()["linux-6.12-hops"]
# scenarios that single packets do not decide, one of each set
SAMPLE = {
    "lot": ("fq_codel", "", "fq_codel"),
    "both": ("fq_codel", "fq_codel", ""),
    "asym": ("fq_codel", "cake besteffort ack-filter", ""),
    "rrul": ("cake besteffort", "cake besteffort", ""),
}


@pytest.fixture(scope="module")
def agreement() -> ModuleType:
    return importlib.import_module(f"{study.find('validation').program.__package__}.agreement_hops")


def test_every_scenario_is_an_experiment(agreement: ModuleType) -> None:
    known = agreement.scenarios(HOPS)
    assert len(known) == 130 and sum(len(runs) for runs in known.values()) == 158
    for runs in known.values():
        made = parse(agreement.experiment(runs[0], starts=3), "linux")
        assert len(made) == 3
        groups = made.cell(0).groups
        assert len(groups["flows"]) == len(runs[0])
        assert bool(groups["hop"]) == bool(runs[0][0]["second_qdisc"])
        assert (groups["reverse"] is not None) == bool(runs[0][0]["reverse_qdisc"])


@pytest.mark.parametrize("name", SAMPLE)
def test_a_scenario_of_each_set_agrees(agreement: ModuleType, name: str) -> None:
    for scenario, runs in agreement.scenarios(HOPS).items():
        row = runs[0][0]
        if (row["set"], *(row[f"{one}qdisc"] for one in ("", "reverse_", "second_"))) == (name, *SAMPLE[name]):
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
