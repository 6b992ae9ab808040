"""Runs in real time: what is refused, what is measured, and that nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import TRACE, parsed
from dumbbell import _native
from dumbbell.errors import InputError
from dumbbell.experiment import Cell
from dumbbell.live import engine as live

pytestmark = pytest.mark.skipif(not hasattr(_native, "live_run"), reason="live runs need Linux")

CODEL = {"name": "codel", "ecn": True}


def cell(rate: str = "20Mbit", duration: str = "3s", aqm: Any = CODEL, flows: Any = None, **more: Any) -> Cell:
    flows = flows or [{"cc": "cubic", "base_rtt": "20ms"}]
    experiment = parsed(duration=duration, bottleneck={"rate": rate, "aqm": aqm}, flows=flows, **more)
    return next(iter(experiment.cells()))


def measured(one: Cell, said: list[str] | None = None) -> _native.Result:
    """Return what a run measured; skips where network namespaces are not allowed."""
    with live.Lab(live.Engine(), lambda _, text: said.append(text) if said is not None else None) as lab:
        try:
            return lab.submit(one, _native.Progress()).result().result
        except InputError as error:
            pytest.skip(str(error))


def live_cores() -> int:
    return len(os.sched_getaffinity(0))


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
    ],
)
def test_what_cannot_be_run_live_is_refused_with_its_key(change: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match="--engine live") as caught:
        live.check(cell(**change), "a.toml")
    assert caught.value.key == key
    assert caught.value.file == "a.toml"


def test_a_run_measures_what_the_simulator_does() -> None:
    one = cell(duration="4s")
    said: list[str] = []
    result = measured(one, said)
    summary, simulated = json.loads(result.summary), json.loads(_native.run(one.config, _native.Cancel()).summary)
    assert (summary["valid"] == 0) == bool(said)
    assert summary["frames_lost"] == 0
    assert summary["ce_marks"] > 0
    if said or os.getloadavg()[0] > live_cores():
        pytest.skip(f"this machine is too busy to compare: load {os.getloadavg()[0]:.1f}, {said}")
    assert abs(summary["goodput_total_mbit"] - simulated["goodput_total_mbit"]) < 0.03 * 20
    tables = {name: {column: kind for column, kind, _ in of} for name, (_, of) in _native.gather([result])}
    assert tables["runs"]["lateness_p99_ms"] == "f64"
    assert "probes" not in tables["flows"]


def test_a_link_that_follows_a_trace_carries_as_much_as_in_the_simulator() -> None:
    flows = [{"cc": "cubic", "base_rtt": "40ms"}]
    experiment = parsed(duration="8s", bottleneck={"trace": TRACE, "aqm": CODEL}, flows=flows)
    one = next(iter(experiment.cells()))
    said: list[str] = []
    result = measured(one, said)
    summary, simulated = json.loads(result.summary), json.loads(_native.run(one.config, _native.Cancel()).summary)
    assert summary["capacity_mbit"] == simulated["capacity_mbit"]
    assert summary["throughput_mbit"] <= summary["capacity_mbit"]
    if said or os.getloadavg()[0] > live_cores():
        pytest.skip(f"this machine is too busy to compare: load {os.getloadavg()[0]:.1f}, {said}")
    assert abs(summary["throughput_mbit"] - simulated["throughput_mbit"]) < 0.05 * simulated["throughput_mbit"]


def _children(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(word) for task in tasks for word in task.read_text().split()]


BEGIN = """
import json, sys
from dumbbell import _native
from dumbbell.experiment import Cell
from dumbbell.live import engine as live

with live.Lab(live.Engine()) as lab:
    lab.submit(Cell("a", "", {}, 1, json.loads(sys.argv[1])), _native.Progress()).result()
"""


def test_the_process_of_a_run_ends_with_the_one_that_began_it(tmp_path: Path) -> None:
    measured(cell(duration="1s"))  # skips where it is not allowed
    script = tmp_path / "begin.py"
    script.write_text(BEGIN)
    one = cell(duration="60s")
    parent = subprocess.Popen([sys.executable, str(script), one.config], env=dict(os.environ))
    try:
        deadline = time.monotonic() + 20
        while not (children := _children(parent.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(children) == 1
        time.sleep(1.0)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 5
    while (alive := Path(f"/proc/{children[0]}").exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive
