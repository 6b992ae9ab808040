"""Options that would do nothing are refused with one line."""

from pathlib import Path

import pytest

from conftest import Command

ONE = """
duration = "1s"
[bottleneck]
rate = "10Mbit"
aqm = "codel"
[[flows]]
cc = "cubic"
base_rtt = "20ms"
"""

REFUSED = {
    "trace beyond the end": (["trace", "one.toml", "--time", "20s..30s"], "trace: --time is 20 s in a run of 1 s"),
    "trace at the end": (["trace", "one.toml", "--time", "1s..2s"], "a time that begins before the end of the run"),
    "qlog of stacks": (
        ["trace", "one.toml", "--stacks", "-o", "out"],
        "trace: --stacks: no flow of this run has a stack",
    ),
    "report": (["report", "one.duckdb", "--run-program"], "--suite is missing"),
    "linux build": (["linux", "build", "--install", "--dry-run"], "--dry-run and --install cannot be combined"),
    "evaluate": (["evaluate", "cc", "--list", "--known", "x"], "--list and --known cannot be combined"),
    "evaluate as JSON": (["evaluate", "cc", "--list", "--format", "json"], "--list and --format cannot be combined"),
    "paths of scenes": (["evaluate", "cc", "reno", "--rtt", "20ms"], "--rate or --rtt and suite rfc9743"),
    "tables of a paper": (
        ["study", "tables", "bbr", "--only", "1"],
        "--only and the evidence of bbr cannot be combined",
    ),
    "figures of a study": (["study", "figure", "bbr", "--where", "seed=1"], "--where and the evidence of bbr"),
    "qlog of packets": (["trace", "one.toml", "--qvis"], "--qvis and run.pcapng cannot be combined"),
    "a plot of qlog": (["plot", "a.sqlog", "--kind", "bars"], "--kind and a qlog file cannot be combined"),
    "watch": (["watch", "1", "--speed", "2"], "--speed and a running dumbbell shell cannot be combined"),
    "commands": (
        ["run", "one.toml", "--engine", "linux", "--show-commands", "--jobs", "2"],
        "--show-commands and --jobs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_without_effect_is_refused(tmp_path: Path, command: Command, name: str) -> None:
    (tmp_path / "one.toml").write_text(ONE)
    words, said = REFUSED[name]
    done = command(*words)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_the_same_options_where_they_act(tmp_path: Path, command: Command) -> None:
    (tmp_path / "one.toml").write_text(ONE)
    assert command("trace", "one.toml", "--time", "500ms..2s").returncode == 0
    assert command("evaluate", "cc", "--suite", "bbr", "--list", "--only", "18").returncode == 0
