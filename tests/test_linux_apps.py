"""Applications on Linux: the guest's plan of them, and, where a kernel is built, runs next to the simulator."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import parsed
from dumbbell import _native
from dumbbell.engines.linux import guest, reach
from dumbbell.engines.linux.mapping import list_notes, map_cell
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from real_linux import needs_kernel, needs_tools

KERNEL = reach.make_kernel()
QUEUE = {"rate": "10Mbit", "aqm": "fq_codel", "shaper": "htb"}
PAGES = {"kind": "pages", "cc": "cubic", "base_rtt": "20ms"}
CALL = {"kind": "call", "base_rtt": "40ms"}


def cell(**changes: Any) -> Cell:
    table: dict[str, Any] = {"bottleneck": QUEUE, "flows": [{"cc": "cubic", "base_rtt": "20ms"}]}
    return parsed(**(table | changes)).make_cell(0)


def plan(**changes: Any) -> list[str]:
    return map_cell(cell(**changes), KERNEL).plan.splitlines()


def select(lines: list[str], *words: str) -> list[str]:
    return [line for line in lines if line.split(" ")[0] in words]


def test_each_user_has_a_line_with_both_ends_and_numbers_ahead_of_short_flows() -> None:
    web = {"cc": "cubic", "base_rtt": "20ms", "arrivals": "2/s", "size": "20kB"}
    lines = plan(
        app=[PAGES | {"kind": {"name": "pages", "connections": 3}, "count": 2}, CALL | {"direction": "up", "dscp": 46}],
        udp=[{"rate": "1Mbit"}],
        web=[web],
        reverse=QUEUE,
        duration="5s",
    )
    # numbers: the flow, UDP, two users with three connections each, the call, and then short flows
    assert select(lines, "app") == [
        "app 2 3 S 10.1.0.1 R 10.2.0.1 33281 cubic 0",
        "app 8 3 S 10.1.0.1 R 10.2.0.1 33281 cubic 0",
        "app 14 1 R 10.2.0.1 S 10.1.0.1 33538 - 184",
    ]
    assert [line.split(" ")[1] for line in select(lines, "tcp")][:3] == ["0", "16", "17"]
    assert select(lines, "apps") == [f"apps {_native.apps_version()}"]
    # two connections of three, and two ways of a call
    assert map_cell(cell(app=[PAGES, CALL]), KERNEL).senders == 1 + 12 + 2


def test_users_whose_connections_open_during_the_run_take_no_numbers_ahead_of_it() -> None:
    fresh = {"kind": {"name": "request", "fresh": True}, "cc": "cubic", "base_rtt": "20ms"}
    web = {"cc": "cubic", "base_rtt": "20ms", "arrivals": "2/s", "size": "20kB"}
    lines = plan(app=[fresh, CALL], web=[web], duration="5s")
    assert [line.split(" ")[:3] for line in select(lines, "app")] == [["app", "1", "0"], ["app", "1", "1"]]
    assert [line.split(" ")[1] for line in select(lines, "tcp")][:2] == ["0", "3"]


def test_both_ways_pass_their_hops() -> None:
    lines = plan(app=[PAGES], reverse=QUEUE, flows=[])
    rules = [line for line in lines if " rule add iif " in line]
    assert [line.split(" rule add iif ")[1].split(" lookup")[0] for line in rules] == [
        "x0 dport 32768-33023",
        "o0 dport 32768-33023",
        "x1 sport 32768-33023",
        "o1 sport 32768-33023",
    ]
    # nobody listens at the port of clients
    assert not select(lines, "listen", "sink", "echo")


def test_ecn_is_asked_for_by_the_route_of_the_client() -> None:
    lines = plan(app=[PAGES], flows=[], hosts={"ecn": True})
    assert "command ip -n R rule add sport 32768-33023 lookup 100" in lines
    off = plan(app=[PAGES | {"ecn": False}], flows=[], hosts={"ecn": True})
    assert not [line for line in off if line.endswith(" lookup 100")]


def test_runs_without_applications_have_the_plan_that_they_had() -> None:
    lines = plan()
    assert not select(lines, "app", "apps", "receivers")
    assert "tcp 0 0 -1 -1 10.1.0.1 10.2.0.1 16384 cubic 0" in lines


@pytest.mark.parametrize(
    ("app", "found"),
    [
        (PAGES | {"ecn_echo": "accecn"}, r"app\[0\].ecn_echo: Linux does not support accecn"),
        (PAGES | {"ecn_echo": "dctcp"}, r"app\[0\].ecn_echo: Linux does not support dctcp"),
        (PAGES | {"path": ["loss"]}, r"app\[0\].path: Linux does not support"),
        (CALL | {"base_rtt": "1500ns"}, r"app\[0\].base_rtt is 1500 ns; it must be whole us"),
        (CALL | {"kind": {"name": "call", "payload": "4B"}}, r"app\[0\].kind.payload: Linux does not support 4 B"),
        (
            CALL | {"kind": {"name": "game", "client_payload": "1B"}},
            r"app\[0\].kind.client_payload: Linux does not support 1 B",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused(app: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError, match=found):
        plan(app=[app])


def test_what_sets_rates_of_shapers_is_refused_by_name_with_what_runs() -> None:
    cake = {"rate": "20Mbit", "shaper": "htb", "aqm": {"name": "cake", "bandwidth": "15Mbit"}}
    among = "pages, call, game, video, request, onoff, backup, dash"
    with pytest.raises(InputError, match=rf"app\[0\].kind: Linux does not support autorate.*{among}"):
        plan(bottleneck=cake, app=[{"kind": "autorate", "base_rtt": "20ms"}])


def test_a_note_says_that_a_connection_is_one_on_linux() -> None:
    said = "app: both ways of a connection are one of TCP, whose segments acknowledge as well"
    assert said in list_notes([cell(app=[PAGES])], KERNEL)
    assert said not in list_notes([cell(app=[CALL])], KERNEL)


@pytest.mark.parametrize(
    ("kind", "closes"),
    [
        ({"name": "request", "fresh": True}, True),
        ({"name": "request"}, False),
        ({"name": "onoff"}, True),
        ({"name": "onoff", "persistent": True}, False),
        ({"name": "responsiveness"}, True),
        ({"name": "dash"}, False),
    ],
)
def test_a_note_says_that_connections_are_closed_by_fins(kind: dict[str, Any], *, closes: bool) -> None:
    said = "app: connections that are closed send FINs"
    assert (said in list_notes([cell(app=[PAGES | {"kind": kind}])], KERNEL)) is closes


def test_the_program_of_applications_is_a_command_of_the_plan() -> None:
    lines = guest.name_apps("duration 5\napps 0123\napp 0 1 S a R b 1 - 0\n").splitlines()
    assert lines[0] == "duration 5" and lines[2] == "app 0 1 S a R b 1 - 0"
    assert lines[1].startswith("apps env -i PYTHONHASHSEED=0 ") and lines[1].endswith(str(_native.__file__))


def test_the_program_of_applications_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-sSP", str(guest.APPS), str(_native.__file__), "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No such file" in done.stderr
    one = cell(app=[PAGES])
    (tmp_path / "config").write_text(one.config)
    (tmp_path / "plan").write_text("tail 1\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == "plan: 0 users of applications, of 1\n"


def test_the_schedule_has_users_and_their_connections() -> None:
    one = cell(app=[PAGES | {"start": "1s"}, CALL])
    assert json.loads(_native.schedule(one.config))["app"] == [[1_000_000_000, 6], [0, 1]]


def run_both(**table: Any) -> tuple[dumbbell.Results, dumbbell.Results]:
    return dumbbell.run(table), dumbbell.run(table, engine="linux")


@pytest.mark.slow
@needs_kernel
@needs_tools
@pytest.mark.parametrize("direction", ["down", "up"])
def test_on_an_empty_link_times_are_those_of_the_simulator(direction: str) -> None:
    table = {
        "duration": "10s",
        "bottleneck": QUEUE | {"rate": "50Mbit"},
        "reverse": QUEUE | {"rate": "50Mbit"},
        "record": {"series": False, "from": "2s"},
        "app": [
            # over several connections, ties in time decide which one carries which object
            PAGES | {"kind": {"name": "pages", "think": "500ms", "connections": 1}, "direction": direction},
            CALL | {"direction": direction, "start": "100ms"},
        ],
    }
    ours, linux = run_both(**table)
    loads = [found.app_loads["load_s"].to_list() for found in (ours, linux)]
    assert len(loads[0]) > 2 and loads[1] == pytest.approx(loads[0], rel=0.005)
    calls = [found.apps.filter(pl.col("name") == "call").sort("direction") for found in (ours, linux)]
    for measure in ("delay_mean_ms", "delay_p95_ms", "goodput_mbit", "sent"):
        assert calls[1][measure].to_list() == pytest.approx(calls[0][measure].to_list(), rel=0.005), measure
    assert calls[1]["late_share"].to_list() == [0.0, 0.0]
    assert ours.apps.columns == linux.apps.columns and ours.app_loads.columns == linux.app_loads.columns


@pytest.mark.slow
@needs_kernel
@needs_tools
@pytest.mark.parametrize("direction", ["down", "up"])
def test_on_an_empty_link_datagrams_are_those_of_the_simulator(direction: str) -> None:
    nada = {"name": "video", "source": "statistical", "control": "nada"}
    table = {
        "duration": "15s",
        "bottleneck": QUEUE,
        "reverse": QUEUE,
        "record": {"series": False, "from": "3s"},
        "app": [
            {"kind": kind, "base_rtt": "40ms", "direction": direction, "start": start}
            for kind, start in (("video", "100ms"), (nada, "107ms"), ("game", "111ms"))
        ],
    }
    ours, linux = (found.apps.sort("app", "direction") for found in run_both(**table))
    # a video has one row, a game one for each way
    assert ours["name"].to_list() == linux["name"].to_list() == ["video", "video", "game", "game"]
    for measure in ("delay_mean_ms", "goodput_mbit", "sent", "frame_delay_mean_ms", "frame_delay_p95_ms"):
        found, wanted = (side[measure].fill_nan(0.0).to_list() for side in (linux, ours))
        # NADA's rate follows the delays that its receiver sees, to which reading the clock adds 256 ns
        assert found == pytest.approx(wanted, rel=0.01), measure
    assert linux["encoder_mbit"].to_list()[:2] == pytest.approx(ours["encoder_mbit"].to_list()[:2], rel=0.01)
    for measure in ("late_share", "frames_lost", "freezes"):
        assert linux[measure].to_list() == ours[measure].to_list(), measure


@pytest.mark.slow
@needs_kernel
@needs_tools
def test_reports_on_a_video_give_rtts_as_in_the_simulator() -> None:
    nada = {"name": "video", "source": "statistical", "control": "nada"}
    app = {"kind": nada, "base_rtt": "40ms"}
    table = {"duration": "15s", "bottleneck": QUEUE, "record": {"from": "5s"}, "app": [app]}
    ours, linux = (found.classes["rtt_mean_ms"].item() for found in run_both(**table))
    assert ours > 40.0 and linux == pytest.approx(ours, rel=0.005)


STREAMS = [
    {"name": "request", "size": "50kB"},
    {"name": "request", "size": "50kB", "fresh": True, "think": "20ms"},
    {"name": "backup", "rate": "3Mbit", "size": "1MB", "piece": "20kB"},
    {"name": "dash", "segment": "1s"},
]


@pytest.mark.slow
@needs_kernel
@needs_tools
@pytest.mark.parametrize("kind", STREAMS, ids=["request", "fresh", "backup", "dash"])
def test_on_an_empty_link_loads_of_one_connection_are_those_of_the_simulator(kind: dict[str, Any]) -> None:
    app = {"kind": kind, "cc": "cubic", "base_rtt": "20ms", "start": "1s"}
    table = {"duration": "10s", "bottleneck": QUEUE | {"rate": "50Mbit"}, "app": [app], "record": {"from": "1s"}}
    ours, linux = run_both(**table)
    loads = [found.app_loads["load_s"].to_list() for found in (ours, linux)]
    assert len(loads[0]) > 0 if kind["name"] == "backup" else len(loads[0]) > 5
    assert len(loads[0]) == len(loads[1]) and loads[1] == pytest.approx(loads[0], rel=0.05)
    for measure in ("load_mean_s", "goodput_mbit", "sent"):
        assert linux.apps[measure].to_list() == pytest.approx(ours.apps[measure].to_list(), rel=0.01), measure


@pytest.mark.slow
@needs_kernel
@needs_tools
def test_bursts_over_new_connections_and_a_test_of_responsiveness_run() -> None:
    onoff = {"name": "onoff", "connections": 5, "idle": "500ms"}
    table = {
        "duration": "20s",
        "bottleneck": QUEUE,
        "record": {"series": False},
        "app": [
            {"kind": onoff, "cc": "cubic", "base_rtt": "20ms", "stop": "5s"},
            {"kind": {"name": "responsiveness", "interval": "1s"}, "cc": "cubic", "base_rtt": "20ms", "start": "6s"},
        ],
    }
    ours, linux = (found.apps for found in run_both(**table))
    for measure in ("load_mean_s", "sent"):
        assert linux[measure][0] == pytest.approx(ours[measure][0], rel=0.1), measure
    # one flow after the other: probes on new connections, on those of the load, and the load itself
    for measure in ("rpm_foreign", "rpm_loaded", "capacity_mbit", "idle_latency_ms"):
        assert linux[measure][1] == pytest.approx(ours[measure][1], rel=0.2), measure


@pytest.mark.slow
@needs_kernel
@needs_tools
def test_the_same_seed_is_the_same_run() -> None:
    table = {
        "duration": "5s",
        "bottleneck": QUEUE,
        "flows": [{"cc": "cubic", "base_rtt": "20ms"}],
        "hosts": {"ecn": True},
        "app": [
            PAGES,
            CALL,
            {"kind": {"name": "video", "control": "nada"}, "base_rtt": "20ms"},
            {"kind": {"name": "onoff", "connections": 3, "idle": "300ms"}, "cc": "cubic", "base_rtt": "20ms"},
        ],
    }
    hashes = [dumbbell.run(table, engine="linux").runs["hash"].item() for _ in range(2)]
    assert hashes[0] == hashes[1]


@pytest.mark.slow
@needs_kernel
@needs_tools
def test_packets_of_applications_can_be_traced(tmp_path: Path) -> None:
    queue = 'rate = "10Mbit"\naqm = "fq_codel"\nshaper = "htb"\n'
    users = '[[app]]\nkind = "pages"\ncc = "cubic"\nbase_rtt = "20ms"\n[[app]]\nkind = "call"\nbase_rtt = "20ms"\n'
    (tmp_path / "apps.toml").write_text(f'duration = "2s"\n[bottleneck]\n{queue}{users}')
    command = [sys.executable, "-m", "dumbbell", "trace", "apps.toml", "-o", "apps.parquet", "--engine", "linux"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    packets = pl.read_parquet(tmp_path / "apps.parquet")
    # both ways of a connection have the number of its responses: six connections, and the call behind them
    assert sorted(packets["flow"].unique()) == [0, 2, 4, 6, 8, 10, 12]
    assert packets.filter(pl.col("flow") == 12)["protocol"].unique().to_list() == ["udp"]
