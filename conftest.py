import gc
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import dumbbell
import in_process
from dumbbell import experiment
from dumbbell.engines import sweep
from dumbbell.experiment import shipped
from dumbbell.experiment.plugins import known, trust
from schema_corpus import held_against_parse

pytest_plugins = ["sessions", "pytester"]

# `make test` draws the same examples each time: it says the same of the same code. `make search` draws new ones.
SEARCH = int(os.environ.get("DUMBBELL_SEARCH", "0"))
settings.register_profile("dumbbell", derandomize=not SEARCH, print_blob=True)
settings.load_profile("dumbbell")
# Figures and tables are many objects and few cycles: looking for those takes a twelfth of the time otherwise.
gc.set_threshold(50_000, 20, 20)
TRACE = str(shipped.place() / "traces" / "experiments" / "cellular.trace")
SMALL = """\
title = "small"
duration = "2s"
seeds = [1, 2]

[bottleneck]
rate = "10Mbit"
aqm = "codel"

[[flows]]
cc = "cubic"
base_rtt = "20ms"

[[flows]]
cc = "reno"
base_rtt = "20ms"
start = { uniform = ["0s", "500ms"] }

[matrix]
"bottleneck.rate" = ["2Mbit", "10Mbit"]
"flows[*].base_rtt" = ["10ms", "40ms"]
"""

TWO_FLOWS = """\
duration = "5s"
[bottleneck]
rate = "20Mbit"
aqm = "codel"
[[flows]]
cc = "cubic"
base_rtt = "40ms"
[[flows]]
cc = "bbr3"
base_rtt = "20ms"
"""


def examples(number: int) -> int:
    """Return how many examples a property test draws: `number`, in a search so many times as many as it says."""
    return number * max(SEARCH, 1)


def described(**changes: Any) -> dict[str, Any]:
    """Return a small experiment without a matrix, with some of its top keys replaced; None takes one away."""
    table = {
        "duration": "2s",
        "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
        "flows": [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "reno", "base_rtt": "20ms"}],
    } | changes
    return {key: value for key, value in table.items() if value is not None}


def parsed(**changes: Any) -> experiment.Experiment:
    return experiment.parse(described(**changes), "test.toml")


def run_settings(path: Path, *settings: list[str], **changes: Any) -> dumbbell.Results:
    """Run a small experiment once for each list of settings, all into one file, and return what is in it."""
    for one in settings or ([],):
        table = experiment.parse(described(**changes), "made.toml", one)
        assert sweep.run([table], path, progress=False).failed == []
    return dumbbell.open(path)


@pytest.fixture(autouse=True)
def _schema_is_held_against_every_table(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every table that a test parses, junk apart, is one more test of `dumbbell describe --schema`."""
    if request.node.get_closest_marker("junk"):
        yield
        return
    with held_against_parse():
        yield


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what this machine trusts and has cached out of a test, and forget the plugins of other tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.delenv(trust.VARIABLE, raising=False)
    monkeypatch.setattr(trust, "_here", set())
    monkeypatch.setattr(known, "_known", {})


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Run the command line in an empty folder, without a process of its own (`in_process` says what that needs)."""
    return lambda *arguments: in_process.run([*map(str, arguments)], tmp_path)


@pytest.fixture
def process(tmp_path: Path) -> Command:
    """Run the command line in an empty folder as everybody does, by a start of Python."""

    def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        line = [*in_process.COMMAND, *map(str, arguments)]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return run
