"""`dumbbell watch`: a run as it goes and a stored one again, as lines, and on a terminal with its keys."""

import contextlib
import csv
import dataclasses
import io
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from conftest import Command
from dumbbell import _native
from dumbbell.explain import observed
from dumbbell.results.results import StoredResults
from dumbbell.watch import keys, replay, screen, source
from dumbbell.watch.player import Player
from terminal import RESTORED, Terminal, echoes

EXPERIMENT = """
duration = "4s"
[bottleneck]
rate = "10Mbit"
aqm = "codel"
[[flows]]
cc = "cubic"
base_rtt = "20ms"
[[flows]]
cc = "bbr3"
base_rtt = "20ms"
start = "1s"
[[udp]]
rate = "1Mbit"
"""


@pytest.fixture
def experiment(tmp_path: Path) -> str:
    (tmp_path / "two.toml").write_text(EXPERIMENT)
    return "two.toml"


# without a terminal


def test_a_pipe_gets_a_line_for_each_interval(command: Command, experiment: str) -> None:
    done = command("watch", experiment, "--interval", "500ms")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in done.stdout.splitlines() if "*" not in line]
    assert [line.split(" s")[0].strip() for line in lines] == [f"{0.5 * n:.3f}" for n in range(1, 9)]
    assert all("link" in line and "CUBIC" in line and "BBRv3" in line and "UDP" in line for line in lines)
    assert "BBRv3 started" in done.stdout
    assert "ended the slow start of CUBIC" in done.stdout


def rows_of(text: str) -> pl.DataFrame:
    return pl.DataFrame(list(csv.DictReader(text.splitlines()))).with_columns(
        pl.col("time_s", "rate_mbit").cast(pl.Float64)
    )


@pytest.mark.slow
def test_what_is_shown_is_what_was_measured(command: Command, experiment: str, tmp_path: Path) -> None:
    command("run", experiment, "-o", "r.duckdb", "--set", "record.interval=100ms")
    for words in ([experiment], ["r.duckdb"], ["r.duckdb", "--stored"]):
        done = command("watch", *words, "--format", "csv", "--interval", "1s")
        assert done.returncode == 0, done.stderr
        rows = rows_of(done.stdout)
        runs, flows = (
            observed.observe_results(StoredResults(tmp_path / "r.duckdb")).tables[t] for t in ("runs", "flows")
        )
        link = rows.filter(pl.col("part") == "link")
        assert link["rate_mbit"].mean() == pytest.approx(runs["throughput_mbit"][0], abs=0.01)
        assert link["drops"].cast(pl.Int64).sum() == runs["drops"][0]
        cubic = rows.filter(pl.col("part") == "CUBIC")
        assert cubic["rate_mbit"].mean() == pytest.approx(flows["goodput_mbit"][0], rel=0.01)
        states = set(rows.filter(pl.col("part") == "BBRv3")["state"])
        assert bool(states & {"PROBE_CRUISE", "PROBE_DOWN", "PROBE_UP", "PROBE_REFILL"}) == ("--stored" not in words)


def test_a_run_is_named_by_its_key(command: Command, experiment: str, tmp_path: Path) -> None:
    command("run", experiment, "-o", "r.duckdb", "--set", "seeds=[1, 2]")
    key = StoredResults(tmp_path / "r.duckdb").keys[1]
    assert "seed 2" not in command("watch", "r.duckdb", "--format", "csv").stdout
    done = command("watch", "r.duckdb", key[:6], "--interval", "1s")
    assert done.returncode == 0
    assert command("watch", "r.duckdb", "ffffffffffff").returncode == 2
    assert f"the beginning of a key, such as {StoredResults(tmp_path / 'r.duckdb').keys[0][:8]}" in (
        command("watch", "r.duckdb", "xyz").stderr
    )


def test_no_series_is_said(command: Command, experiment: str) -> None:
    command("run", experiment, "-o", "r.duckdb", "--set", "record.series=false")
    assert command("watch", "r.duckdb", "--format", "csv").returncode == 0  # the run is repeated with them
    done = command("watch", "r.duckdb", "--stored")
    assert done.returncode == 2
    assert "kept no time series" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["two.toml", "abc"], "KEY and an experiment file"),
        (["two.toml", "--stored"], "--stored and an experiment file"),
        (["r.duckdb", "--set", "seeds=2"], "--set and a results file"),
        (["--set", "seeds=2"], "--set and a running dumbbell shell"),
        (["two.toml", "--interval", "fast"], "--interval"),
        (["two.toml", "--interval", "1us"], "1ms or more"),
        (["two.toml", "--speed", "0"], "from 1/64 to 4096"),
        (["two.toml", "--cell", "7"], "--cell"),
        (["two.toml", "--engine", "ns3"], "engine"),
        (["nothing.toml"], "nothing.toml"),
        (["nothing.duckdb"], "nothing.duckdb"),
    ],
)
def test_what_cannot_be_shown_is_refused(command: Command, experiment: str, words: list[str], said: str) -> None:
    command("run", experiment, "-o", "r.duckdb")
    done = command("watch", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_beginning_of_a_run_is_that_of_the_whole_run(tmp_path: Path, experiment: str) -> None:
    """Long runs are shown before they are over: what a shorter run measures is what a longer one does until then."""
    chosen, _ = observed.select_cell(
        str(tmp_path / experiment), [], None, [], engine=None, trust=False, command="watch"
    )
    whole = dataclasses.replace(chosen, groups=observed.refine_recording(chosen.groups))
    part = dataclasses.replace(whole, groups=whole.groups | {"duration": 1_500_000_000})
    tables = []
    for cell in (whole, part):
        result = _native.run(cell.config, _native.Cancel())
        tables.append({name: pl.DataFrame(rows) for name, rows in _native.gather([result])})
    for name in ("series", "queue_series"):
        longer = tables[0][name].filter(pl.col("time_s") < 1.4995)
        assert longer.equals(tables[1][name].filter(pl.col("time_s") < 1.4995)), name


@pytest.mark.slow
def test_a_long_run_is_shown_while_it_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, experiment: str) -> None:
    monkeypatch.setattr(source, "_FIRST_PART_S", 0.0)
    chosen, by = observed.select_cell(
        str(tmp_path / experiment),
        ["duration=60s", "bottleneck.rate=100Mbit"],
        None,
        [],
        engine=None,
        trust=False,
        command="watch",
    )
    seen = []
    with source.CarriedRun(chosen, by, 300, None) as carried:
        while not carried.is_done:
            if (found := carried.take_replay()) is not None:
                seen.append(found)
            time.sleep(0.005)
    assert len(seen) > 1
    assert [one.duration_s for one in seen] == sorted(one.duration_s for one in seen)
    assert seen[-1].duration_s == 60
    first, last = seen[0], seen[-1]
    assert first.interval_s == last.interval_s
    whole = len(first) - 1
    assert list(first.links[0].rate_mbit[:whole]) == list(last.links[0].rate_mbit[:whole])


# keys, and where a replay stands


def test_keys_are_read_one_by_one() -> None:
    assert keys.parse_keys(" .\x1b[C\x1b[Dq+\x1bOH\x1b[3~") == [" ", ".", "right", "left", "q", "+", "home"]


def test_a_player_pauses_steps_seeks_and_changes_its_speed() -> None:
    player = Player(10.0, 0.5, known_s=10.0)
    player.advance(1.2)
    assert player.time_s == pytest.approx(1.2)
    assert player.press(" ")
    player.advance(5)
    assert player.time_s == pytest.approx(1.2)
    for key, time_s in ((".", 1.5), (".", 2.0), (",", 1.5), ("right", 2.0), ("left", 1.5), ("]", 2.0), ("[", 1.5)):
        player.press(key)
        assert player.time_s == pytest.approx(time_s), key
    assert player.is_paused
    player.press(" ")
    player.press("+")
    player.press("up")
    player.advance(1)
    assert player.speed == 4
    assert player.time_s == pytest.approx(5.5)
    for _ in range(20):
        player.press("-")
    assert player.speed == 1 / 64
    player.press("end")
    assert player.is_over
    player.press("home")
    assert player.time_s == 0
    assert not player.press("q")


def test_a_player_waits_for_what_is_not_there_yet() -> None:
    player = Player(10.0, 0.5, known_s=2.0)
    player.advance(100)
    assert (player.time_s, player.is_waiting, player.is_over) == (2.0, True, False)
    player.press("end")
    assert player.time_s == 2.0
    player.known_s = 10.0
    assert not player.is_waiting


@pytest.mark.parametrize(("width", "height"), [(60, 20), (80, 24), (140, 40), (300, 80)])
def test_the_picture_fits_its_terminal(width: int, height: int, tmp_path: Path, experiment: str) -> None:
    chosen, by = observed.select_cell(
        str(tmp_path / experiment), [], None, [], engine=None, trust=False, command="watch"
    )
    with source.CarriedRun(chosen, by, 300, None) as carried:
        found: replay.Replay | None = None
        while not carried.is_done:
            found = carried.take_replay() or found
    assert found is not None
    for at in (0.0, 0.02, 2.0, 4.0):
        player = Player(4.0, found.interval_s, time_s=at, known_s=4.0)
        console = Console(width=width, height=height, force_terminal=False, file=io.StringIO(), record=True)
        console.print(screen.draw_screen(found, player, carried, width, height))
        lines = console.export_text().splitlines()
        assert len(lines) <= height
        assert max(map(len, lines)) <= width
        assert any("BBRv3" in line for line in lines)


# a terminal


@pytest.fixture
def terminal(tmp_path: Path, experiment: str) -> Iterator[Terminal]:
    found = Terminal(tmp_path, "watch", experiment, "--speed", "0.25")
    yield found
    found.close()


@pytest.mark.slow
def test_a_terminal_shows_a_run_and_obeys_its_keys(terminal: Terminal) -> None:
    assert terminal.comes("space pause")
    assert not echoes(terminal.now())
    terminal.press(" ")
    assert terminal.comes("paused")
    terminal.press("]")
    terminal.press("]")
    terminal.press("\x1b[C")
    terminal.press("+")
    assert terminal.comes("speed 1/2")
    terminal.press("\x1b[F")
    assert terminal.comes("4.000 s of 4 s")
    assert terminal.comes("end")
    terminal.press("q")
    assert terminal.comes(RESTORED)
    assert terminal.comes("left at 4 s of 4 s")
    assert terminal.ends() == 0
    assert terminal.now() == terminal.modes


@pytest.mark.slow
def test_steps_go_on_by_one_interval(terminal: Terminal) -> None:
    assert terminal.comes("space pause")
    terminal.press(" ")
    assert terminal.comes("paused")
    terminal.press("\x1b[H")
    assert terminal.comes("0.000 s of 4 s")
    for n in (1, 2, 3):
        terminal.press(".")
        assert terminal.comes(f"{0.02 * n:.3f} s of 4 s"), n
    terminal.press(",")
    assert terminal.comes("0.040 s of 4 s")
    terminal.press("q")
    assert terminal.ends() == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_terminal_is_put_back_when_it_is_interrupted(
    terminal: Terminal, number: signal.Signals, status: int
) -> None:
    assert terminal.comes("space pause")
    if number == signal.SIGINT:
        terminal.press("\x03")
    else:
        os.kill(terminal.pid, number)
    assert terminal.comes(RESTORED)
    assert terminal.ends() == status
    assert b"Traceback" not in terminal.said
    assert terminal.now() == terminal.modes


@pytest.mark.slow
def test_without_keys_it_ends_with_the_run(tmp_path: Path, experiment: str) -> None:
    words = [sys.executable, "-m", "dumbbell", "watch", experiment, "--speed", "64"]
    master, slave = pty.openpty()
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE) as done:
        os.close(slave)
        with contextlib.suppress(OSError):  # when nobody has it open any more
            while os.read(master, 65536):
                pass
        os.close(master)
        assert done.wait(60) == 0
        assert done.stderr is not None
        assert b"left at 4 s of 4 s" in done.stderr.read()


def test_a_terminal_without_a_cursor_gets_lines(tmp_path: Path, experiment: str) -> None:
    terminal = Terminal(tmp_path, "watch", experiment, "--interval", "2s", kind="dumb")
    try:
        assert terminal.comes("2.000 s  link")
        assert terminal.comes("4.000 s  link")
        assert terminal.ends() == 0
    finally:
        terminal.close()


def test_a_run_that_fails_leaves_the_terminal_as_it_was(tmp_path: Path, experiment: str) -> None:
    terminal = Terminal(tmp_path, "watch", experiment, "--set", "flows[0].base_rtt=soon")
    try:
        assert terminal.comes("base_rtt")
        assert terminal.ends() == 2
        assert echoes(terminal.now())
    finally:
        terminal.close()
