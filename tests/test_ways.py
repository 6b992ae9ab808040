"""What is refused before a run, in one line, and what Python may pass instead of TOML."""

import datetime
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import SMALL, Command, described, parsed
from dumbbell import experiment
from dumbbell._native import engine_version
from dumbbell.errors import InputError

FLOW = {"cc": "reno", "base_rtt": "20ms"}


def line(settings: list[str] | None = None, **changes: Any) -> str:
    with pytest.raises(InputError) as error:
        experiment.parse(described(**changes), "test.toml", settings)
    return str(error.value)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"matrix": {"bottleneck.rate": ["1Mbit", "2Mbit", "1000kbit"]}},
            'matrix."bottleneck.rate"[2]: "1Mbit" and "1000kbit" make the same run; use values that differ',
        ),
        (
            {"matrix": {"flows[0].cc, flows[1].cc": [["reno", "cubic"], ["reno", {"name": "cubic"}]]}},
            'matrix."flows[0].cc, flows[1].cc"[1]: ["reno", "cubic"] and ["reno", {name = "cubic"}] make '
            "the same run; use values that differ",
        ),
        (
            {"flows": [FLOW, FLOW | {"start": "2s"}]},
            'flows[1].start is "2s" in a run of 2s; it must be a time before the end of the run',
        ),
        (
            {"udp": [{"start": {"uniform": ["3s", "4s"]}}]},
            'udp[0].start is "3s" in a run of 2s; it must be a time before the end of the run',
        ),
        (
            {"flows": [FLOW | {"start": {"uniform": ["0s", "3s"]}}]},
            'flows[0].start is up to "3s" in a run of 2s; it must be a time before the end of the run, whatever is '
            "drawn",
        ),
        (
            {
                "matrix": {"duration": ["9s", "5s"]},
                "bottleneck": {"aqm": "codel", "rate_changes": [{"at": "6s", "rate": "1Mbit"}]},
            },
            'matrix."duration"[1]: bottleneck.rate_changes[0].at is "6s" in a run of 5s; it must be a time before '
            "the end of the run",
        ),
        (
            {"matrix": {"bottleneck": {"rate": ["1Mbit"]}}},
            'matrix: the key bottleneck.rate is without quotes; use keys in quotes: "bottleneck.rate" = [...]',
        ),
        (
            {"override": [{"when": {"bottleneck": {"rate": "1Mbit"}}, "set": {"duration": "1s"}}]},
            'override[0].when."bottleneck": the key bottleneck.rate is without quotes; use keys in quotes, '
            'such as "bottleneck.rate"',
        ),
        (
            {"override": [{"when": {"duration": "2s"}, "set": {"hosts": {"ecn": False}}}]},
            "override[0].set: the key hosts.ecn is without quotes; use keys in quotes, "
            'such as "bottleneck.rate"; a table is never set as a whole',
        ),
        (
            {"override": [{"when": {"bottleneck.rate": "3Mbit"}, "set": {"duration": "1s"}}]},
            "override[0].when: no run meets this condition; give keys and values of some runs of the matrix",
        ),
        (
            {
                "matrix": {"bottleneck.rate": ["1Mbit", "2Mbit"]},
                "override": [{"when": {"bottleneck.rate": "1Mbit"}, "set": {"bottleneck.rate": "3Mbit"}}],
            },
            'override[0].set: bottleneck.rate and the matrix\'s "bottleneck.rate" cannot be combined; use another key',
        ),
        ({"title": {1, 2}}, "title is {1, 2} (set); it must be text, a number, true, false, a list or a table"),
        (
            {"duration": datetime.date(2026, 1, 2)},
            "duration is 2026-01-02 (date); it must be text, a number, true, false, a list or a table",
        ),
        ({"hosts": {1: True}}, "hosts: a key is 1 (int); it must be text"),
        ({"title": b"\xff"}, "title is b'\\xff'; it must be text, or bytes that are UTF-8"),
    ],
)
def test_one_line_says_what_is_wrong(changes: dict[str, Any], expected: str) -> None:
    assert line(**changes) == f"test.toml: {expected}"


def test_values_that_make_one_run_in_some_cells_only_are_different() -> None:
    # hystart of linux-5.4 is 5.5
    matrix = {
        "hosts.profile": ["linux-5.4", "linux-6.12"],
        "flows[*].cc": ["cubic", {"name": "cubic", "hystart": "5.5"}],
    }
    assert len({cell.key for cell in parsed(matrix=matrix).make_cells()}) == 3
    one_profile = {"flows[*].cc": matrix["flows[*].cc"]}
    assert "make the same run" in line(matrix=one_profile, hosts={"profile": "linux-5.4"})


@pytest.mark.slow
def test_large_matrices_are_checked_for_overrides_too() -> None:
    values = [f"{i}us" for i in range(1, 201)]
    matrix = {f"flows[{i}].base_rtt": values for i in (0, 1)}
    met = {"when": {"flows[0].base_rtt": "200us", "flows[1].base_rtt": "200us"}, "set": {"duration": "1s"}}
    assert len(parsed(matrix=matrix, override=[met])) == 40_000
    unmet = met | {"when": {"flows[0].base_rtt": "200us", "flows[1].base_rtt": "201us"}}
    assert "override[0].when: no run meets this condition" in line(matrix=matrix, override=[unmet])


@pytest.mark.parametrize(
    ("matrix", "setting", "axis"),
    [
        ({"flows[*].base_rtt": ["1ms", "2ms"]}, "flows[0].base_rtt=5ms", "flows[*].base_rtt=1ms"),
        ({"flows[0].base_rtt": ["1ms", "2ms"]}, "flows[*].base_rtt=5ms", "flows[0].base_rtt=1ms"),
        (
            {"flows[0].cc, flows[1].cc": [["reno", "reno"], ["cubic", "reno"]]},
            "flows[0].cc=cubic",
            'flows[0].cc, flows[1].cc=[["cubic", "reno"]]',
        ),
        ({"bottleneck.aqm.target": ["1ms", "2ms"]}, "bottleneck.aqm=codel", "bottleneck.aqm.target=1ms"),
        (
            {"bottleneck.aqm": [{"name": "codel", "ecn": True}]},
            "bottleneck.aqm.ecn=false",
            'bottleneck.aqm={ name = "codel", ecn = true }',
        ),
        ({"bottleneck.aqm": ["codel", "pie"]}, "bottleneck.aqm.name=red", "bottleneck.aqm=codel"),
    ],
)
def test_a_setting_that_would_make_labels_lie_names_the_axis(matrix: dict[str, Any], setting: str, axis: str) -> None:
    key = setting.partition("=")[0]
    allowed = f"another key, or the whole axis, such as {shlex.quote(axis)}"
    assert line([setting], matrix=matrix) == f"overrides: {key} and the matrix cannot be combined; use {allowed}"


def test_settings_beside_the_matrix_are_kept() -> None:
    table = described(matrix={"bottleneck.aqm": ["codel", "fq_codel"], "flows[0].base_rtt": ["1ms", "2ms"]})
    plan = experiment.parse(
        table, "f", ["bottleneck.aqm.target=3ms", "flows[1].base_rtt=9ms", " flows[0].base_rtt = 4ms"]
    )
    assert [cell.matrix["flows[0].base_rtt"] for cell in plan.make_cells()] == ["4ms", "4ms"]
    assert {cell.groups["bottleneck"]["aqm"]["target"] for cell in plan.make_cells()} == {3_000_000}
    only_slow = [{"when": {"bottleneck.rate": "1Mbit"}, "set": {"duration": "1s"}}]
    slow = described(matrix={"bottleneck.rate": ["1Mbit", "2Mbit"]}, override=only_slow)
    assert len(experiment.parse(slow, "f", ["bottleneck.rate=40Mbit"])) == 1, "an override may have nothing left to do"
    assert (
        line(["duration=1s", "duration=2s"])
        == 'overrides: two values of "duration" cannot be combined; use each key once'
    )


def test_python_values_are_read_as_what_they_mean(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("1000,1\n")
    table = described(
        title=b"caf\xc3\xa9",
        seeds=np.array([1, 2]),
        flows=({"cc": np.str_("reno"), "count": np.int64(3), "loss": np.float32(0.5)},),
        hosts={"ecn": np.bool_(False)},
        web=[{"cc": "reno", "size": {"csv": tmp_path / "sizes.csv"}}],
        matrix={"flows[0].dscp": np.arange(2)},
    )
    plan = experiment.parse(table, "experiment")
    flow = plan.make_cell(0).groups["flows"][0]
    assert (plan.title, plan.seeds, len(plan)) == ("café", (1, 2), 4)
    assert (flow["count"], flow["loss"], plan.make_cell(0).groups["hosts"]["ecn"]) == (3, 0.5, False)
    assert plan.make_cell(0).groups["web"][0]["size"] == {"empirical": [[1000, 1.0]]}
    assert isinstance(table["seeds"], np.ndarray), "what was given is not changed"


def test_bad_input_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="duration is 3; did you mean"):
        parsed(duration=3)


def test_an_empty_file_is_one_good_line(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "empty.toml"
    path.write_text("# nothing yet\n")
    expected = f"{path}: this file is empty; it must be an experiment, such as dumbbell list experiments names\n"
    assert command("run", path).stderr == expected


def test_unquoted_keys_of_a_file(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(SMALL.partition("[matrix]")[0] + '[matrix]\nbottleneck.rate = ["1Mbit"]\n')
    assert 'use keys in quotes: "bottleneck.rate" = [...]' in command("run", path).stderr


def test_the_version_is_that_of_package_and_engine(command: Command) -> None:
    done = command("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("dumbbell 0.") and done.stdout.endswith(f"(engine {engine_version()})\n")
