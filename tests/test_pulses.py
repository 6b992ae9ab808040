"""Rates that change in cycles, and UDP that is on and off."""

from pathlib import Path
from typing import Any

import pytest

import dumbbell
from conftest import parsed
from dumbbell.engines import sweep
from dumbbell.engines.linux import reach
from dumbbell.engines.linux.mapping import map_cell
from dumbbell.errors import InputError
from dumbbell.experiment.net import list_rate_changes

CYCLE = {"every": "300ms", "rates": ["2Mbit", "8Mbit"]}


def hop(changes: Any, **more: Any) -> dict[str, Any]:
    return {"rate": "8Mbit", "aqm": "pfifo", "shaper": "htb", "rate_changes": changes} | more


def run_once(path: Path, **changes: Any) -> dumbbell.Results:
    table: dict[str, Any] = {"seeds": [1], "matrix": None, "override": None}
    assert sweep.run([parsed(**(table | changes))], path, progress=False).failed == []
    return dumbbell.open(path)


def test_a_cycle_is_the_list_of_its_changes(tmp_path: Path) -> None:
    times = [(300, "2Mbit"), (600, "8Mbit"), (900, "2Mbit"), (1200, "8Mbit"), (1500, "2Mbit")]
    listed = [{"at": f"{at}ms", "rate": rate} for at, rate in times]
    cycle = CYCLE | {"until": "1.8s"}
    cell = parsed(bottleneck=hop(cycle)).make_cell(0)
    assert list_rate_changes(cell.groups["bottleneck"], cell.duration) == [
        {"at": at * 10**6, "rate": int(rate.removesuffix("Mbit")) * 10**6} for at, rate in times
    ]
    one, other = (
        run_once(tmp_path / f"{number}.duckdb", bottleneck=hop(changes)).runs.row(0, named=True)
        for number, changes in enumerate((cycle, listed))
    )
    assert one["hash"] == other["hash"]


def test_without_until_it_goes_on_to_the_end(tmp_path: Path) -> None:
    # 2 s, of which 0.3 to 0.6, 0.9 to 1.2 and 1.5 to 1.8 s at 2 Mbit/s
    runs = run_once(tmp_path / "r.duckdb", bottleneck=hop(CYCLE)).runs
    assert runs["capacity_mbit"].to_list() == pytest.approx([(0.9 * 2 + 1.1 * 8) / 2])


def test_the_kernel_gets_every_change() -> None:
    cell = parsed(bottleneck=hop(CYCLE), flows=[{"cc": "cubic", "base_rtt": "20ms"}]).make_cell(0)
    lines = [line for line in map_cell(cell, reach.make_kernel()).plan.splitlines() if line.startswith("at ")]
    assert [int(line.split()[1]) // 10**6 for line in lines] == [300, 600, 900, 1200, 1500, 1800]


def test_a_matrix_steps_a_cycle() -> None:
    matrix = {"bottleneck.rate_changes.every": ["100ms", "400ms"]}
    cells = [*parsed(bottleneck=hop(CYCLE), seeds=[1], matrix=matrix, override=None).make_cells()]
    assert [cell.groups["bottleneck"]["rate_changes"]["every"] for cell in cells] == [10**8, 4 * 10**8]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"every": "2s", "rates": ["1Mbit"]},
            'rate_changes.every is "2s"; it must be a time before the end of the run',
        ),
        (CYCLE | {"until": "300ms"}, 'rate_changes.every is "300ms"; it must be a time before until'),
        ({"every": "1ms"}, "bottleneck.rate_changes.rates is missing"),
        ({"every": "1ms", "rates": []}, "bottleneck.rate_changes.rates is []; it must be a list of rates"),
        ({"every": "1ms", "rates": ["x"]}, 'bottleneck.rate_changes.rates[0] is "x"; it must be a rate such as'),
        ({"every": "1us", "rates": ["1Mbit"]}, 'bottleneck.rate_changes.every is "1us"; it must be a time from 1ms'),
        (
            CYCLE | {"evry": "1s"},
            "unknown key bottleneck.rate_changes.evry; did you mean bottleneck.rate_changes.every?",
        ),
        ("1Mbit", 'bottleneck.rate_changes is "1Mbit"; it must be a list'),
    ],
)
def test_what_is_wrong_with_a_cycle_is_said(changes: Any, expected: str) -> None:
    with pytest.raises(InputError) as error:
        parsed(bottleneck=hop(changes))
    assert expected in str(error.value)


@pytest.mark.parametrize(("times", "share"), [("fixed", 0.2), ("exponential", 0.2)])
def test_udp_that_is_on_and_off_sends_its_share(tmp_path: Path, times: str, share: float) -> None:
    udp = {"rate": "4Mbit", "on": "20ms", "off": "80ms", "times": times}
    results = run_once(tmp_path / "r.duckdb", duration="40s", flows=[], udp=[udp], bottleneck=hop([]))
    # 400 times on and off: the share of exponential ones has a deviation of 0.8 * sqrt(2 / 400) = 6 %
    tolerance = 0.002 if times == "fixed" else 0.2
    flows = results.flows
    assert flows["throughput_mbit"].to_list() == pytest.approx([4 * share], rel=tolerance)


def test_udp_is_silent_in_times_off(tmp_path: Path) -> None:
    udp = {"rate": "4Mbit", "on": "200ms", "off": "300ms"}
    record = {"interval": "100ms"}
    results = run_once(tmp_path / "r.duckdb", flows=[], udp=[udp], bottleneck=hop([]), record=record)
    sent = results.series["sent"].to_list()
    # 4 Mbit/s are 33 frames in 100 ms; frames that reach the queue at the end of an interval count in it
    assert [count > 0 for count in sent] == ([True, True, False, False, False] * 4)


@pytest.mark.parametrize(
    ("udp", "expected"),
    [
        ({"on": "1s"}, "udp[0].on is 1s; it must be none without off"),
        ({"off": "1s"}, "udp[0].off is 1s; it must be none without on"),
        ({"times": "exponential"}, "udp[0].times is exponential; it must be fixed without on and off"),
    ],
)
def test_half_of_on_and_off_is_refused(udp: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as error:
        parsed(udp=[udp])
    assert expected in str(error.value)


def test_linux_refuses_udp_that_is_off_at_times() -> None:
    cell = parsed(udp=[{"on": "1s", "off": "1s"}]).make_cell(0)
    with pytest.raises(InputError, match=r"udp\[0\]\.on: Linux does not support"):
        map_cell(cell, reach.make_kernel())
