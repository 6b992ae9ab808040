"""Links that follow a trace: how files name it, what a configuration holds of it, and what is measured."""

import json
import runpy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import TRACE, Command, described, parsed
from dumbbell import _native, experiment
from dumbbell.engines import sweep
from dumbbell.errors import InputError
from dumbbell.experiment import link_trace, shipped
from dumbbell.results import dimensions

NUMBER = (
    "it must be one whole number of milliseconds per line, 0 to 86400000 (a day), and perhaps a delay in ms behind it"
)
NAME = "the name of a file in mahimahi's format: a time in whole milliseconds per line"


def with_trace(folder: Path, content: str | bytes, **keys: Any) -> experiment.Experiment:
    (folder / "link.trace").write_bytes(content.encode() if isinstance(content, str) else content)
    bottleneck = {"aqm": "codel", "trace": "link.trace"} | keys
    return experiment.parse(described(bottleneck=bottleneck), str(folder / "test.toml"))


@pytest.mark.parametrize(
    ("content", "schedule", "rate"),
    [
        # gap 0, 2 opportunities; gap 5, 1; gap 5, 1: four frames of 12112 bit in 10 ms
        ("0\n0\n5\n10\n", "ACFBFB", 4_844_800),
        ("0\r\n0\r\n5\r\n10\r\n", "ACFBFB", 4_844_800),
        ("\ufeff0\n0\n 5\n10\n\n", "ACFBFB", 4_844_800),
        ("1", "BB", 12_112_000),
    ],
)
def test_a_trace_beside_the_experiment(content: str, schedule: str, rate: int, tmp_path: Path) -> None:
    bottleneck = with_trace(tmp_path, content).make_cell(0).groups["bottleneck"]
    assert bottleneck["trace"] == {"file": "link", "schedule": schedule}
    assert bottleneck["rate"] == rate


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("0\n12x\n", f'there is "12x" in line 2 (PATH); {NUMBER}'),
        ("-5\n", f'there is "-5" in line 1 (PATH); {NUMBER}'),
        ("# by hand\n1\n", f'there is "# by hand" in line 1 (PATH); {NUMBER}'),
        ("99999999999\n", f'there is "99999999999" in line 1 (PATH); {NUMBER}'),
        (b"\x00\xff\x1b[2J\n", f'there is "\\0\ufffd\\u{{1b}}[2J" in line 1 (PATH); {NUMBER}'),
        ("", "there is no line with a time (PATH); it must be one line or more, the last after 0"),
        (
            "0\n0\n",
            "there is nothing but the time 0 (PATH); it must be a last line after 0: there the trace starts again",
        ),
        ("5\n4\n", "there is 4 in line 2, after 5 (PATH); it must be times that do not decrease"),
        ("1\n\n2\n", "there is an empty line, line 2 (PATH); it must be a number on each line"),
        ("60000\n", "there is a mean rate of 201bit (PATH); it must be 1kbit to 10000Gbit"),
        (b" " * (32 * 2**20 + 1), f"it has more than 32 MiB (PATH); it must be {NAME}, at most 32 MiB"),
    ],
)
def test_a_bad_trace_is_one_line_that_names_file_and_line(content: str | bytes, expected: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        with_trace(tmp_path, content)
    expected = expected.replace("PATH", str(tmp_path / "link.trace"))
    assert str(error.value) == f"{tmp_path / 'test.toml'}: bottleneck.trace: {expected}"


@pytest.mark.parametrize("name", ["missing.trace", ".", "a\0b", "", 5, ["link.trace"], {"csv": "link.trace"}])
def test_what_names_no_file(name: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"test.toml: bottleneck.trace") as error:
        with_trace(tmp_path, "1", trace=name)
    assert len(str(error.value).splitlines()) == 1 and NAME in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rate", "10Mbit"),
        ("shaper", "htb"),
        ("shaper", "link"),
        ("burst", "3000B"),
        ("rate_changes", [{"at": "1s", "rate": "1Mbit"}]),
    ],
)
def test_what_a_trace_replaces_is_refused_beside_it(key: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        with_trace(tmp_path, "1", **{key: value})
    allowed = "one of the two: the trace says when the link sends, and its mean rate is the rate"
    assert f": bottleneck.{key}: {key} and trace cannot be combined; use {allowed}" in str(error.value)
    # without a trace it may be set; a burst is one of htb
    alone = {key: value, "trace": "none"} | ({"shaper": "htb"} if key == "burst" else {})
    assert with_trace(tmp_path, "1", **alone).make_cell(0).groups["bottleneck"]["trace"] is None


def test_the_engine_refuses_the_same() -> None:
    config = json.loads(parsed(bottleneck={"aqm": "codel", "trace": TRACE}).make_cell(0).config)
    config["bottleneck"]["rate"] = 1_000_000
    with pytest.raises(ValueError, match=r"^bottleneck.rate: found 1Mbit, allowed: the mean rate of the trace, "):
        _native.check(json.dumps(config))
    for schedule in ("", "AB", "B", "B!"):
        config["bottleneck"]["trace"]["schedule"] = schedule
        with pytest.raises(ValueError, match=r"^bottleneck.trace: found "):
            _native.check(json.dumps(config))


def test_the_configuration_is_all_that_a_run_needs(tmp_path: Path) -> None:
    plan = with_trace(tmp_path, "1\n2\n4\n")
    (tmp_path / "link.trace").unlink()
    first, second = plan.make_cell(0), plan.make_cell(0)
    assert first.key == second.key
    assert first.groups["bottleneck"]["trace"]["schedule"] is second.groups["bottleneck"]["trace"]["schedule"]
    once, again = (_native.run(first.config, _native.Cancel()).hash for _ in range(2))
    assert once == again


def test_a_long_trace_stands_for_about_two_characters_a_millisecond() -> None:
    # a million lines, 8 in each ms: 2 characters for each of 125000 ms
    text = "".join(f"{line // 8}\n" for line in range(1_000_000))
    schedule = _native.link_schedule(text.encode())
    assert len(schedule) == 250_000
    assert _native.link_rate(schedule) == 1_000_000 * 12_112_000 // 124_999


def test_traces_in_matrix_override_settings_and_results(tmp_path: Path) -> None:
    (tmp_path / "slow.trace").write_text("4\n")
    (tmp_path / "fast.trace").write_text("1\n")
    (tmp_path / "pause.trace").write_text("".join(f"{ms}\n" for ms in range(1500)) + "2000\n")
    table = described(
        bottleneck={"aqm": "codel"},
        matrix={"bottleneck.trace": ["slow.trace", "fast.trace", "pause.trace", "none"]},
        override=[{"when": {"bottleneck.trace": "slow.trace"}, "set": {"record.interval": "500ms"}}],
    )
    plan = experiment.parse(table, str(tmp_path / "test.toml"))
    cells = list(plan.make_cells())
    rates = [cell.groups["bottleneck"]["rate"] for cell in cells]
    assert rates == [3_028_000, 12_112_000, 1501 * 12_112_000 // 2000, 10_000_000]
    assert [cell.groups["record"]["interval"] for cell in cells] == [500_000_000, *[1_000_000_000] * 3]
    assert [cell.matrix["bottleneck.trace"] for cell in cells][:2] == ["slow.trace", "fast.trace"]

    path = tmp_path / "a.duckdb"
    assert sweep.run([plan], path, jobs=1, progress=False).failed == []
    results = dumbbell.Results(path)
    frame = results.runs.sort("capacity_mbit")
    # of pause, 1501 times in 2 s and the first of the next pass
    assert frame["capacity_mbit"].to_list() == pytest.approx([3.028, 1502 * 0.012112 / 2, 10, 12.112])
    used = frame["throughput_mbit"] / frame["capacity_mbit"]
    assert used.to_list() == pytest.approx(frame["utilisation"].to_list()) and min(used) > 0.7
    axes = dimensions.make_dimension("t", ("bottleneck", "trace"), results.configurations)
    slow = link_trace.show(cells[0].groups["bottleneck"]["trace"])
    assert slow.startswith("slow (") and slow in axes.texts.values() and "none" in axes.texts.values()
    only = results.where(f"bottleneck.trace={slow}")
    assert only.queue_series["capacity_mbit"].to_list() == [3.028] * 4
    pause = results.queue_series.filter(pl.col("capacity_mbit") < 1000 * 0.012112 * 0.6)
    assert pause["capacity_mbit"].max() == pytest.approx(501 * 0.012112)

    figure = results.where(f"bottleneck.trace={axes.texts[cells[2].cell_key]}").plot("series")
    assert {line.get_label() for line in figure.axes[0].get_lines()} >= {"capacity of the link"}
    assert len(results.where("bottleneck.trace=none").plot("series", value=["capacity"]).axes) == 1


def test_settings_name_a_trace_and_the_command_says_what_is_wrong(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.trace").write_text("1\n")
    (tmp_path / "a.toml").write_text('duration = "1s"\n[bottleneck]\naqm = "cake"\n[[flows]]\ncc = "cubic"\n')
    done = command("run", "a.toml", "--set", "bottleneck.trace=a.trace", "-o", "a.duckdb")
    assert done.returncode == 0, done.stderr
    wrong = command("run", "a.toml", "--set", "bottleneck.trace=b.trace", "-o", "a.duckdb")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == f"--set: bottleneck.trace: no such file or directory (b.trace); give {NAME}\n"
    assert "bottleneck.trace = unset (trace)" in command("describe", "bottleneck.trace").stdout


def set_bottleneck(folder: Path, keys: dict[str, Any], *settings: str) -> dict[str, Any]:
    (folder / "a.trace").write_text("1\n")
    table = described(bottleneck={"aqm": "codel"} | keys)
    found = experiment.parse(table, str(folder / "test.toml"), [f"bottleneck.{setting}" for setting in settings])
    bottleneck: dict[str, Any] = found.make_cell(0).groups["bottleneck"]
    return bottleneck


def test_a_setting_of_trace_or_rate_replaces_what_the_file_has_of_the_other(tmp_path: Path) -> None:
    change = [{"at": "1s", "rate": "5Mbit"}]
    with_rate = {"rate": "10Mbit", "shaper": "htb", "burst": "3kB", "rate_changes": change}
    traced = set_bottleneck(tmp_path, with_rate, "trace=a.trace")
    assert traced == set_bottleneck(tmp_path, {"trace": "a.trace"})
    assert traced["rate"] == 12_112_000
    assert set_bottleneck(tmp_path, {"trace": "a.trace"}, "rate=5Mbit") == set_bottleneck(tmp_path, {"rate": "5Mbit"})
    # no trace replaces nothing
    assert set_bottleneck(tmp_path, with_rate, "trace=none") == set_bottleneck(tmp_path, with_rate)
    for keys, settings in (
        ({}, ("trace=a.trace", "rate=5Mbit")),
        (with_rate, ("trace=a.trace", "shaper=htb")),
        ({"trace": "a.trace"}, ("burst=3kB",)),
    ):
        with pytest.raises(InputError, match=r"and trace cannot be combined; use one of the two"):
            set_bottleneck(tmp_path, keys, *settings)


def test_a_trace_beside_a_matrix_of_rates_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.trace").write_text("1\n")
    table = described(matrix={"bottleneck.rate": ["5Mbit", "6Mbit"]})
    with pytest.raises(InputError, match=r'matrix."bottleneck.rate"\[1\]: "5Mbit" and "6Mbit" make the same run'):
        experiment.parse(table, str(tmp_path / "test.toml"), ["bottleneck.trace=a.trace"])


def test_cake_does_not_shape_at_the_mean_rate_of_a_trace(tmp_path: Path) -> None:
    """Half of the time the link has twice its mean rate, which is used only by a queue without that rate as its own."""
    content = "".join(f"{ms}\n" for ms in range(1000) for _ in (0, 1)) + "2000\n"
    sent = {}
    for bandwidth in ("none", "12Mbit", 0):
        cake = {"name": "cake", "bandwidth": bandwidth}
        cell = with_trace(tmp_path, content, aqm=cake).make_cell(0)
        sent[bandwidth] = json.loads(_native.run(cell.config, _native.Cancel()).summary)["utilisation"]
    assert sent["none"] == sent[0] > 0.8 and sent["12Mbit"] < 0.6, sent


@pytest.mark.parametrize(("name", "seed"), [("cellular", 4), ("cellular-outage", 3)])
def test_the_shipped_traces_are_what_the_model_makes(name: str, seed: int) -> None:
    model = runpy.run_path(str(shipped.place() / "traces" / "cellular.py"))
    lines = (shipped.place() / "traces" / "experiments" / f"{name}.trace").read_text().split()
    assert list(map(int, lines)) == list(model["generate_opportunities"](seed, 30))
