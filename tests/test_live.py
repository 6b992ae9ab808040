"""Runs in real time: what is refused, what is measured, and that nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from conftest import TRACE, Command, parsed
from dumbbell import _native
from dumbbell.engines.live import engine as live
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.store import gather_tables
from test_killed import namespaces

pytestmark = [pytest.mark.timed, pytest.mark.skipif(not hasattr(_native, "live_run"), reason="live runs need Linux")]

CODEL = {"name": "codel", "ecn": True}


def cell(rate: str = "20Mbit", duration: str = "3s", aqm: Any = CODEL, flows: Any = None, **more: Any) -> Cell:
    flows = flows or [{"cc": "cubic", "base_rtt": "20ms"}]
    experiment = parsed(duration=duration, bottleneck={"rate": rate, "aqm": aqm}, flows=flows, **more)
    return next(iter(experiment.make_cells()))


def measured(one: Cell, said: list[str] | None = None) -> _native.Result:
    """Return what a run measured; skips where network namespaces are not allowed."""
    with live.LiveLab(live.LiveEngine(), lambda _, text: said.append(text) if said is not None else None) as lab:
        try:
            return lab.submit(one, _native.Progress()).result().result
        except InputError as error:
            pytest.skip(str(error))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"web": [{"cc": "cubic"}]}, "web"),
        ({"udp": [{}]}, "udp"),
        ({"aqm": "csaqm"}, "bottleneck.aqm"),
        ({"flows": [{"cc": "cubic", "loss": 0.01}]}, "flows[0].path"),
        ({"flows": [{"cc": "cubic"}, {"cc": "cubic-sce"}]}, "flows[1].cc"),
        ({"flows": [{"cc": "cubic", "app_rate": "1Mbit"}]}, "flows[0].app_rate"),
        ({"hosts": {"mss": "1kB"}}, "hosts.mss"),
        ({"hop": [{"name": "second", "aqm": "codel"}]}, "hop"),
        ({"reverse": {"aqm": {"name": "cake", "ack_filter": "on"}}}, "reverse.aqm.ack_filter"),
        ({"reverse": {"aqm": "codel"}, "flows": [{"cc": "cubic", "ack_route": []}]}, "flows[0].ack_route"),
    ],
)
def test_what_cannot_be_run_live_is_refused_with_its_key(change: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match="--engine live") as caught:
        live.check(cell(**change), "a.toml")
    assert caught.value.key == key
    assert caught.value.file == "a.toml"


def columns_of(one: Cell, result: _native.Result) -> dict[str, pa.Table]:
    """Return what is kept of a run."""
    return {name: pa.table(rows) for name, rows in gather_tables([Finished(one, MeasuredRun(1.0, result))]).items()}


TRIES = 3


def valid(one: Cell) -> _native.Result:
    """Return what a run measured that was not too late; skips if none of some tries was."""
    said: list[str] = []
    for tries in range(1, TRIES + 1):
        result = measured(one, said)
        is_valid = json.loads(result.summary)["valid"]
        assert (is_valid == 0) == (len(said) == tries)
        if is_valid:
            return result
    pytest.skip(f"this machine is too late, {TRIES} times: {said}")


@pytest.mark.parametrize("cc", ["cubic", pytest.param("reno", marks=pytest.mark.long)])
def test_a_run_measures_what_the_simulator_does(cc: str) -> None:
    one = cell("50Mbit", "4s", flows=[{"cc": cc, "base_rtt": "20ms"}], hosts={"ecn": True})

    def rtt(found: _native.Result) -> float:
        return float(columns_of(one, found)["flows"]["rtt_mean_ms"][0].as_py())

    # in one run of many, slow start ends late: the one in the middle counts
    result = sorted((valid(one) for _ in range(3)), key=rtt)[1]
    simulated = _native.run(one.config, _native.Cancel())
    summary, expected = json.loads(result.summary), json.loads(simulated.summary)
    assert summary["lateness_p99_ms"] < 0.25 and summary["frames_lost"] == 0
    assert summary["ce_marks"] > 0
    assert abs(summary["goodput_total_mbit"] - expected["goodput_total_mbit"]) < 0.03 * 50
    assert rtt(result) == pytest.approx(rtt(simulated), rel=0.10)
    live_tables = columns_of(one, result)
    assert live_tables["runs"]["lateness_p99_ms"].type == "double"
    assert "probes" not in live_tables["flows"].column_names


def test_both_directions_are_those_of_the_simulator() -> None:
    flow = {"cc": "cubic", "base_rtt": "30ms"}
    one = cell("20Mbit", "5s", "fq_codel", [flow, flow | {"direction": "up"}], reverse={"rate": "4Mbit", "aqm": "cake"})
    found = [columns_of(one, run) for run in (valid(one), _native.run(one.config, _native.Cancel()))]
    of = [
        {name: table["flows"][name].to_pylist() for name in ("goodput_mbit", "rtt_mean_ms", "direction")}
        for table in found
    ]
    assert of[0]["direction"] == ["down", "up"]
    for number, rate in ((0, 20), (1, 4)):
        assert of[0]["goodput_mbit"][number] == pytest.approx(of[1]["goodput_mbit"][number], abs=0.05 * rate)
        assert of[0]["rtt_mean_ms"][number] == pytest.approx(of[1]["rtt_mean_ms"][number], rel=0.10)
    names = ("hop", "throughput_mbit", "packets", "ack_packets")
    hops = [{name: table["hops"][name].to_pylist() for name in names} for table in found]
    assert hops[0]["hop"] == ["bottleneck", "reverse"]
    for name in names[1:]:
        assert hops[0][name] == pytest.approx(hops[1][name], rel=0.10), name
    assert len(found[0]["hop_series"]["time_s"]) == 2 * 5


def test_a_shaper_above_its_link_is_limited_by_the_link() -> None:
    one = cell("20Mbit", "4s", {"name": "cake", "bandwidth": "50Mbit"}, flows=[{"cc": "cubic", "base_rtt": "20ms"}])
    found, expected = (json.loads(run.summary) for run in (valid(one), _native.run(one.config, _native.Cancel())))
    assert found["utilisation"] <= 1 and found["throughput_mbit"] <= 20.01
    assert found["utilisation"] == pytest.approx(expected["utilisation"], rel=0.05)


def test_a_dry_run_and_workers_go_one_after_the_other(tmp_path: Path, command: Command) -> None:
    assert live.LiveEngine().count_parallel(8) == 1
    with live.LiveEngine().open_workers(8) as lab:
        assert lab.slots == 1
    plain = tmp_path / "plain.toml"
    plain.write_text('duration = "10s"\nseeds = [1, 2, 3, 4]\n[bottleneck]\naqm = "codel"\n[[flows]]\ncc = "reno"\n')
    done = command("run", plain, "--engine", "live", "--dry-run", "--jobs", "8")
    # four runs of 10 s and half a second to set each up
    assert done.stdout.startswith("4 runs; about 42 s one after the other, "), done.stderr


def test_a_link_that_follows_a_trace_carries_as_much_as_in_the_simulator() -> None:
    # a deep queue is never empty: what the link carries is its opportunities, however busy the machine is
    flows = [{"cc": "cubic", "base_rtt": "40ms"}]
    experiment = parsed(
        duration="4s", bottleneck={"trace": TRACE, "aqm": {"name": "pfifo", "limit": 1000}}, flows=flows
    )
    one = next(iter(experiment.make_cells()))
    summary = json.loads(valid(one).summary)
    simulated = json.loads(_native.run(one.config, _native.Cancel()).summary)
    assert summary["capacity_mbit"] == simulated["capacity_mbit"]
    assert summary["throughput_mbit"] <= summary["capacity_mbit"]
    assert abs(summary["throughput_mbit"] - simulated["throughput_mbit"]) < 0.05 * simulated["throughput_mbit"]


def _children(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(word) for task in tasks for word in task.read_text().split()]


BEGIN = """
import json, sys
from dumbbell import _native
from dumbbell.experiment import Cell
from dumbbell.engines.live import engine as live

with live.LiveLab(live.LiveEngine()) as lab:
    lab.submit(Cell("a", "", {}, 1, json.loads(sys.argv[1])), _native.Progress()).result()
"""


def test_the_process_of_a_run_ends_with_the_one_that_began_it(tmp_path: Path) -> None:
    measured(cell(duration="100ms"))  # skips where it is not allowed
    script = tmp_path / "begin.py"
    script.write_text(BEGIN)
    one = cell(duration="60s")
    parent = subprocess.Popen([sys.executable, str(script), one.config], env=dict(os.environ))
    try:
        deadline = time.monotonic() + 20
        while not (children := _children(parent.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(children) == 1
        # without a session of its own it would get no larger share of the cores than others
        assert os.getsid(children[0]) == children[0]
        while not namespaces(children[0]).keys() - namespaces("self").keys():  # the run is under way
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 5
    while (alive := Path(f"/proc/{children[0]}").exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive
