"""Time series of what queue disciplines believe: `record.queue`."""

from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import described, parsed
from dumbbell.errors import InputError
from dumbbell.experiment.registry import read_registry

STATES = list(read_registry().states)


def accepted(**own: Any) -> list[str]:
    """Return the states that may be recorded in runs of an experiment; the others are refused."""
    found = []
    for state in STATES:
        try:
            parsed(record={"queue": [state]}, **own)
        except InputError as error:
            assert error.key == "record.queue" and f" is {state}; " in str(error)
        else:
            found.append(state)
    return found


@pytest.mark.slow
def test_every_discipline_tells_its_own() -> None:
    told = {}
    for aqm in read_registry().aqm:
        own: dict[str, Any] = {"duration": "4s", "bottleneck": {"rate": "10Mbit", "aqm": aqm}}
        record = {"interval": "500ms", "queue": accepted(**own)}
        found = dumbbell.run(described(record=record, **own)).queue_states
        told[aqm] = sorted(set(found["state"]))
        assert told[aqm] == sorted(record["queue"]), "what is accepted is what is recorded"
        assert found.height == 8 * len(told[aqm]) and found["value"].is_finite().all()
        assert set(found["hop"]) <= {"bottleneck"}
        shares = found.filter(pl.col("state").is_in(["p", "blue", "max_p"]))["value"]
        # Linux's PIE is not held to 1 (pie_calculate_probability: only an overflow of 64 bits is)
        assert shares.is_between(0, 256 if "pie" in aqm else 1).all()
    assert told["pie"] == ["burst_ms", "p", "qdelay_ms"] and told["codel"] == ["count", "dropping"]
    assert told["dualpi2"] == ["credit", "p", "qdelay_ms"] and told["pfifo"] == []
    assert {name for names in told.values() for name in names} == set(STATES)


def test_what_is_recorded_changes_nothing() -> None:
    plain = dumbbell.run(described())
    told = dumbbell.run(described(record={"queue": ["count"]}))
    assert plain.runs["hash"].to_list() == told.runs["hash"].to_list()
    assert plain.queue_states.height == 0 and told.queue_states.height == 2
    # and what records nothing is the cell that it was
    assert "queue" not in parsed().make_cell(0).groups["record"]
    assert parsed(record={"queue": []}).make_cell(0).groups == parsed().make_cell(0).groups


def test_each_hop_tells_its_own() -> None:
    both = {"reverse": {"rate": "5Mbit", "aqm": "pie"}, "record": {"interval": "1s", "queue": ["p", "count"]}}
    found = dumbbell.run(described(**both)).queue_states
    assert set(found.select("hop", "state").rows()) == {("bottleneck", "count"), ("reverse", "p")}


@pytest.mark.parametrize("queue", [["q"], "p", ["p", "p"], [1]])
def test_what_no_discipline_tells_is_refused(queue: Any) -> None:
    with pytest.raises(InputError, match="p, qdelay_ms") as error:
        parsed(record={"queue": queue})
    assert error.value.key == "record.queue"


def test_a_part_of_the_time_cuts_the_states_as_well() -> None:
    """The panel of a state covers the part of the run that is asked for, as all others do."""
    results = dumbbell.run(described(duration="2s", record={"interval": "100ms", "queue": ["count"]}), progress=False)
    picture = results.plot("series", time=(0.5, 1.0))
    (axes,) = [one for one in picture.axes if "count" in one.get_ylabel()]
    times = [float(time) for line in axes.lines for time, _ in line.get_xydata().tolist()]  # type: ignore[union-attr]
    assert times and min(times) >= 0.4 and max(times) <= 1.1
