"""Flows that a stack carries: how a file names one, what it measures, and where it is refused."""

import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import dumbbell
import window_stack
from conftest import Command
from dumbbell import InputError, experiment
from dumbbell.engines.live import engine as live
from dumbbell.experiment import json_schema
from dumbbell.experiment.plugins import built, trust


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example of a transport in C."""
    return window_stack.built(tmp_path_factory.mktemp("window"))


pytestmark = pytest.mark.usefixtures("own_folders", "trusted")


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch, library: Path) -> None:
    monkeypatch.setenv(trust.VARIABLE, str(library.parent))


def table(**flow: Any) -> dict[str, Any]:
    bottleneck = {"rate": "10Mbit", "aqm": {"name": "pfifo", "limit": 50}}
    return {"duration": "4s", "bottleneck": bottleneck, "flows": [{"base_rtt": "20ms"} | flow]}


@pytest.mark.slow
def test_a_stack_is_named_in_four_ways(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built, "find_library", lambda name: library if name == "window" else pytest.fail(name))
    files = [
        table(stack=str(library)),
        table(stack={"plugin": str(library)}, cc="aimd"),
        table(stack="window", cc="aimd"),
        table(stack={"name": "window", "initial": 10}, cc="aimd"),
    ]
    found = [dumbbell.run(one) for one in files]
    assert {one.flows["cc"][0] for one in found} == {"window-aimd"}
    assert len({one.runs["hash"][0] for one in found}) == 1
    other = dumbbell.run(table(stack={"name": "window", "initial": 3}, cc="fixed"))
    assert other.flows["cc"][0] == "window-fixed" and other.flows["cwnd_max"][0] == 2


@pytest.mark.slow
def test_stacks_and_tcp_share_a_link_in_a_sweep(library: Path, tmp_path: Path, command: Command) -> None:
    file = tmp_path / "both.toml"
    file.write_text(f"""
title = "both"
duration = "3s"
seeds = [1, 2]
[bottleneck]
rate = "10Mbit"
aqm = "codel"
[[flows]]
stack = "{library}"
cc = "aimd"
base_rtt = "20ms"
[[flows]]
cc = "reno"
base_rtt = "20ms"
[matrix]
"flows[0].cc" = ["aimd", "fixed"]
"bottleneck.aqm" = ["codel", "fq_codel"]
""")
    for jobs, out in ((1, "one"), (2, "two")):
        done = command("run", file, "-o", out, "--jobs", str(jobs))
        assert done.returncode == 0, done.stderr
    first, second = (dumbbell.open(tmp_path / out) for out in ("one", "two"))
    assert sorted(first.runs["hash"]) == sorted(second.runs["hash"]) and len(set(first.runs["hash"])) == 4
    assert set(first.flows["cc"]) == {"window-aimd", "window-fixed", "reno"}
    shown = command("table", "one", "--rows", "flows[0].cc", "--value", "flows.goodput_mbit")
    assert shown.returncode == 0 and "window-fixed@" in shown.stdout, shown.stderr + shown.stdout


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        ({"stack": 3}, "flows[0].stack is 3; it must be the name of a stack that `dumbbell stack list` shows"),
        ({"stack": {"initial": 3}}, "flows[0].stack is {initial = 3}; it must be the name"),
        ({"stack": "SELF", "cc": {"name": "aimd"}}, 'flows[0].cc is {name = "aimd"}; it must be the name of one of'),
        ({"stack": "SELF", "cc": "bbr"}, 'flows[0].cc is "bbr"; it must be aimd or fixed'),
        ({"stack": {"plugin": "SELF", "initail": 3}}, "unknown key flows[0].stack.initail; did you mean initial?"),
        ({"stack": {"plugin": "SELF", "initial": 0}}, "flows[0].stack.initial is 0; it must be an integer from 1 to"),
        ({"stack": "SELF", "app_pause": "1s"}, "flows[0].app_pause: a flow with a stack is not TCP"),
        ({"stack": "nobody"}, "unknown stack nobody"),
    ],
)
def test_what_is_wrong_with_a_stack_is_said_with_its_key(flow: dict[str, Any], expected: str, library: Path) -> None:
    def own(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: own(one) for key, one in value.items()}
        return str(library) if value == "SELF" else value

    with pytest.raises(InputError) as refused:
        dumbbell.run(table(**own(flow)))
    assert expected in str(refused.value), refused.value


def test_the_schema_for_editors_knows_stacks() -> None:
    check = jsonschema.Draft202012Validator(json_schema.make_schema())
    good = [table(stack="quinn", cc="newreno"), table(stack={"name": "quinn", "send_window": "1MB"}), table(cc="reno")]
    good += [table() | {"matrix": {"flows[0].stack": ["quinn-0.11.16", "quinn"]}}]
    for one in good:
        assert not list(check.iter_errors(one)), one
    for bad in (table(stack=3), table(stack={}, cc="reno"), table(stack="quinn", cc=3), table(), table(cc="newreno")):
        assert list(check.iter_errors(bad)), bad


def test_describe_says_what_a_stack_takes(library: Path, command: Command) -> None:
    done = command("describe", library)
    assert done.returncode == 0, done.stderr
    assert "control = aimd (choice, one of aimd, fixed)" in done.stdout and "initial = 10 packets" in done.stdout
    assert "QUIC stack" in command("describe", "flows.stack").stdout


def test_the_trace_of_a_stack_has_what_it_believes(library: Path) -> None:
    run = dumbbell.run(table(stack=str(library)) | {"record": {"trace": "100ms", "interval": "1s"}})
    trace, series = run.trace, run.series
    assert len(trace) == pytest.approx(40, abs=3) and set(trace["ca_state"]) == {"open"} and set(trace["state"]) == {""}
    assert trace["cwnd"].max() == pytest.approx(run.flows["cwnd_max"][0], abs=3)
    assert min(trace["srtt_ms"].drop_nans().drop_nulls()) >= 20 and max(trace["in_flight"].drop_nulls()) > 0
    assert trace["sent"].is_sorted() and trace["sent"][-1] <= run.flows["sent"][0]
    for row in series.filter(series["time_s"] < 4).iter_rows(named=True):  # both look at the same sender
        near = trace.filter((trace["time_s"] - row["time_s"]).abs() <= 0.15)
        assert min(near["cwnd"]) <= row["cwnd"] + 2 and row["cwnd"] <= max(near["cwnd"]) + 2


def test_other_engines_refuse_stacks_by_name(library: Path) -> None:
    cell = next(iter(experiment.parse(table(stack=str(library)), "a.toml").make_cells()))
    with pytest.raises(
        InputError, match=r"flows\[0\]\.cc\.plugin: --engine live does not support plugins; use --engine sim"
    ):
        live.check(cell, "a.toml")


def test_a_stack_that_crashes_ends_its_run_and_no_other(library: Path, tmp_path: Path, command: Command) -> None:
    to = window_stack.built(tmp_path, "broken", "crashes")
    file = tmp_path / "sweep.toml"
    file.write_text(f"""
title = "sweep"
duration = "3s"
[bottleneck]
rate = "20Mbit"
aqm = {{ name = "pfifo", limit = 50 }}
[[flows]]
stack = "{library}"
base_rtt = "20ms"
[matrix]
"flows[0].stack" = ["{library}", "{to}"]
""")
    done = command("run", file, "-o", "out", "--trust")
    assert done.returncode == 1, done.stderr
    assert "crashed (SIGABRT)" in done.stderr and len(dumbbell.open(tmp_path / "out").runs) == 1


def test_the_experiment_is_parsed_without_running_it(library: Path) -> None:
    read = experiment.parse(table(stack=str(library), cc="fixed"))
    assert read is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("to->lost = self->lost;", r"and the stack took [1-9][\d ]* packets for lost\."),
        ("to->lost = 0;", r"and the stack took no packets for lost\.|and the stack took 0 packets for lost\."),
        ("", r"and the stack does not tell how many it took for lost\."),
    ],
)
def test_what_a_stack_believes_stands_next_to_what_was_dropped(
    line: str, said: str, tmp_path: Path, command: Command
) -> None:
    source = re.sub(r"to->congestion_events = .*", "", window_stack.SOURCE)
    (tmp_path / "told.c").write_text(source.replace("to->lost = self->lost;", line))
    path = tmp_path / "told.so"
    words = [
        "cc",
        "-std=c11",
        "-w",
        "-shared",
        "-fPIC",
        "-I",
        str(window_stack.CRATE / "include"),
        str(tmp_path / "told.c"),
    ]
    subprocess.run([*words, "-o", str(path)], check=True)
    trust.trust(tmp_path)
    file = tmp_path / "one.toml"
    file.write_text(f"""
duration = "5s"
[bottleneck]
rate = "10Mbit"
aqm = {{ name = "pfifo", limit = 50 }}
[[flows]]
stack = "{path}"
base_rtt = "20ms"
""")
    found = dumbbell.run(file, output=tmp_path / "r.duckdb")
    flows = found.flows
    assert flows["drops"][0] > 0 and (flows["retransmissions"][0] is None) == (line == "")
    # what the example never tells is missing, and in each table
    assert flows["probes"][0] is None and flows["loss_reductions"][0] is None
    assert (found.runs["retransmissions"][0] is None) == (line == "")
    assert found.series["retransmissions"].is_null().all() == (line == "")
    done = command("explain", tmp_path / "r.duckdb")
    assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr
    text = " ".join(done.stdout.split())
    assert re.search(rf"the queue dropped [\d ]+ packets of them, {said}", text), text


def test_options_without_effect_are_refused(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "tcp.toml"
    file.write_text('duration = "2s"\n[bottleneck]\naqm = "pfifo"\n[[flows]]\ncc = "cubic"\n')
    done = command("trace", file, "--stacks", "-o", tmp_path / "logs")
    assert done.returncode == 2 and "--stacks: no flow of this run has a stack" in done.stderr, done.stderr
    done = command("trace", file, "--time", "20s..30s", "-o", tmp_path / "t.pcapng")
    assert done.returncode == 2 and "--time is 20 s in a run of 2 s; it must be" in done.stderr, done.stderr
    assert not (tmp_path / "logs").exists() and not (tmp_path / "t.pcapng").exists()
    assert command("trace", file, "--time", "1s..30s", "-o", tmp_path / "t.pcapng").returncode == 0
