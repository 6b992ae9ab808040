"""The networks that the hunts found are still as bad, and the experiments are made of them."""

import itertools
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dumbbell.experiment.plugins import built
from dumbbell.experiment.toml_file import read_toml
from dumbbell.searching.hunt import measure_table
from studies.hunting import networks, study

HERE = Path(__file__).parent
HUNTS = study.read_hunts()
FOUND: dict[tuple[str, str], dict[str, Any]] = {
    (row["criterion"], row["control"]): row
    for row in HUNTS.filter(study.is_beyond("limit", "median")).iter_rows(named=True)
}
QUICK = [("start", "cubic"), ("use", "bbr1"), ("queue", "bbr1"), ("harm", "bbr1")]


def read_table(text: str) -> dict[str, Any]:
    """Return the table that a cell of hunts.csv holds."""
    table: dict[str, Any] = tomllib.loads(f"value = {text}")["value"]
    return table


def skip_without_stack(control: str) -> None:
    """Skip a test of a control whose stack is not built."""
    stack, _ = networks.STACKS.get(control, ("", ""))
    if stack and built.list_missing(f'stack = "{stack}"'):
        pytest.skip(f"{stack} is not built: {built.make_build_command(stack)}")


@pytest.mark.parametrize(
    ("criterion", "control"),
    [pytest.param(*one, marks=() if one in QUICK else pytest.mark.slow) for one in FOUND],
)
def test_a_network_is_as_bad_as_the_hunt_asked_for(criterion: str, control: str) -> None:
    row = FOUND[criterion, control]
    skip_without_stack(control)
    plan = networks.load_hunt(criterion, control)
    value = measure_table(plan, read_table(row["table"]), 3)
    assert value is not None
    toward = 1 if row["worst"] > row["median"] else -1
    assert toward * (value - row["limit"]) >= -1e-5 * row["limit"]  # six digits in the file


def test_the_measure_of_the_page_is_that_of_the_search_files() -> None:
    """The page measures runs by functions of its own, the searches by SQL and columns."""
    import dumbbell

    for criterion in study.CRITERIA:
        control = next(one for kind, one in FOUND if kind == criterion)
        table = read_table(FOUND[criterion, control]["table"])
        plan = networks.load_hunt(criterion, control)
        results = dumbbell.simulate(table | {"seeds": [1]})
        (run,) = results.tidy("runs", {"rate": "bottleneck.rate", "duration": "duration"}).iter_rows(named=True)
        flows = results.frame("flows")
        value = study.measure_run(criterion, run, flows.filter(flows["cc"] != "udp").sort("flow"))
        assert value == pytest.approx(measure_table(plan, table, 1), rel=1e-6), criterion


def test_the_experiments_have_every_network_once() -> None:
    settings = []
    for path in [*(HERE / "experiments").glob("found*.toml"), *(HERE / "experiments").glob("stacks*.toml")]:
        axis = read_toml(path)["matrix"]
        names = [row[0] for rows in axis.values() for row in rows]
        settings += [one for name in names for one in name.split(networks.BOTH)]
    kept = HUNTS.filter(HUNTS["table"].is_not_null()).select("criterion", "control")
    own = [f"{criterion}, {control}" for criterion, control in kept.iter_rows()]
    instead = [f"{one}, {study.INSTEAD}" for one in own if not one.endswith(" cubic")]
    assert sorted(settings) == sorted([*own, *instead])


def test_a_network_in_words_has_its_flows_and_queues() -> None:
    text = study.describe_network(
        '{ duration = "20s", bottleneck = { rate = "5Mbit", buffer = "250ms", aqm = "pfifo" }, flows = [{ cc = "bbr1", '
        'base_rtt = "200ms", count = 2 }], reverse = { rate = "1Mbit", aqm = "pfifo" }, udp = [{ rate = "50%", '
        'stop = "10s" }], hosts = { ecn = true, profile = "linux-5.4", pacing = "fq" } }'
    )
    assert text == (
        "5Mbit pfifo 250ms; BBRv1 2 flows 200ms; acknowledgements over 1Mbit pfifo; UDP of 50% to 10s; ECN; linux-5.4; "
        "fq pacing"
    )


def test_a_window_in_startup_grows_while_the_rtt_is_below_its_gain() -> None:
    """The window is gain * rate * min_rtt, and the rate is window / RTT: it grows if RTT < gain * min_rtt."""
    import dumbbell

    rounds = study.collect_rounds(dumbbell.simulate(read_toml(HERE / "experiments" / "rounds.toml")))
    for (gain,), own in rounds.group_by("gain"):
        rows = own.sort("round").filter(pl.col("round") > 2).to_dicts()
        for before, after in itertools.pairwise(rows):
            grows = after["cwnd"] > 1.05 * before["cwnd"]
            assert grows or after["rtt"] > 0.95 * gain * after["least"], (gain, after["round"])
        assert rows[-1]["cwnd"] == rows[-2]["cwnd"] and rows[-1]["rtt"] > gain * rows[-1]["least"]


def test_prague_stands_still_where_one_segment_is_in_flight() -> None:
    """By hand: two segments leave in 25 ms, so that one is in flight if a round trip takes less than 12.5 ms."""
    import dumbbell

    table = read_toml(HERE / "experiments" / "stall.toml") | {"seeds": [1]}
    table["matrix"] = {"hosts.delayed_ack": [False], "flows[0].base_rtt": ["6ms", "10ms", "14ms"]}
    rows = study.collect_stall(dumbbell.simulate(table), "simulator")
    assert [use < 0.1 for use in rows["use"]] == [True, True, False]
    assert [marks > 0 for marks in rows["marks"]] == [False, False, True]


def test_every_hunt_of_the_list_has_a_row_and_no_other() -> None:
    rows = [tuple(row) for row in HUNTS.select("criterion", "control").iter_rows()]
    assert rows == networks.list_hunts()
