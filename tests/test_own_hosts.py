"""Keys of single flows: switches of TCP, hosts, and receivers that misbehave."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import parsed
from dumbbell.engines import sweep
from dumbbell.engines.linux import reach
from dumbbell.engines.linux.mapping import map_cell
from dumbbell.errors import InputError
from dumbbell.experiment.net import give_own_hosts

FLOW: dict[str, Any] = {"cc": "cubic", "base_rtt": "40ms"}
QUEUE = {"rate": "10Mbit", "aqm": {"name": "pfifo", "limit": 100}}


def run_once(path: Path, **changes: Any) -> dumbbell.Results:
    table: dict[str, Any] = {"seeds": [1], "matrix": None, "override": None, "bottleneck": QUEUE}
    assert sweep.run([parsed(**(table | changes))], path, progress=False).failed == []
    return dumbbell.open(path)


def measure(path: Path, *flows: dict[str, Any], **changes: Any) -> pl.DataFrame:
    return run_once(path, flows=[FLOW | one for one in flows], **changes).flows


@pytest.mark.parametrize(
    ("key", "value"), [("initial_window", 40), ("mss", "536B"), ("receive_buffer", "40kB")], ids=lambda one: str(one)
)
def test_a_switch_of_a_flow_is_that_of_the_hosts(tmp_path: Path, key: str, value: Any) -> None:
    """Alone on the link, a flow with its own switch does what it does where the hosts have it."""
    # a receive buffer starts with 128 KiB, and a window that it limits is to be full
    changes: dict[str, Any] = {
        "bottleneck": {"rate": "10Mbit", "aqm": {"name": "pfifo", "limit": 1000}},
        "duration": "4s",
    }
    own = measure(tmp_path / "own.duckdb", {key: value}, **changes)
    hosts = measure(tmp_path / "hosts.duckdb", {}, hosts={key: value}, **changes)
    default = measure(tmp_path / "default.duckdb", {}, **changes)
    columns = ["goodput_mbit", "sent", "cwnd_mean", "rtt_mean_ms"]
    assert own.select(columns).rows() == hosts.select(columns).rows() != default.select(columns).rows()


def test_flows_side_by_side_have_their_own(tmp_path: Path) -> None:
    # one segment of 536 B makes a frame of 602 B: throughput over goodput
    flows = measure(tmp_path / "r.duckdb", {"mss": "536B"}, {}, {"mss": "536B"}, duration="5s")
    ratio = (flows["throughput_mbit"] / flows["goodput_mbit"]).to_list()
    assert ratio == pytest.approx([602 / 536, 1514 / 1448, 602 / 536], rel=0.02)


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        ({"mss": "8000B"}, "flows[0].mss is 8000 B; it must be at most hosts.mss = 1448 B"),
        ({"mss": "10B"}, 'flows[0].mss is "10B"; it must be an integer from 88B'),
        ({"initial_window": 0}, "flows[0].initial_window is 0; it must be an integer from 1 to 10000"),
        ({"hosts": "each", "src_host": 7}, "flows[0].hosts is each; it must be shared next to src_host and dst_host"),
        ({"misbehaves": "lies"}, 'flows[0].misbehaves is "lies"; did you mean "divides"? It must be one of optimistic'),
        (
            {"misbehaves": "conceals"},
            "flows[0].misbehaves is conceals, and the flow has no ECN; it must be ecn = true as well",
        ),
    ],
)
def test_what_is_wrong_is_said(flow: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as error:
        parsed(flows=[FLOW | flow])
    assert expected in str(error.value)


@pytest.mark.parametrize(
    "flow", [{"mss": "536B"}, {"initial_window": 20}, {"receive_buffer": "1MB"}, {"misbehaves": "optimistic"}], ids=str
)
def test_linux_refuses_them(flow: dict[str, Any]) -> None:
    (key,) = flow
    with pytest.raises(InputError, match=rf"flows\[0\]\.{key}: Linux does not support"):
        map_cell(parsed(flows=[FLOW | flow]).make_cell(0), reach.make_kernel())


CAKE = {"rate": "10Mbit", "aqm": {"name": "cake", "isolation": "dual-dsthost"}}


def test_each_of_the_count_has_hosts_of_its_own(tmp_path: Path) -> None:
    """Five flows of one host get as much as one of another with `shared`, and each as much as that with `each`."""
    for hosts, share in (("shared", 1 / 5), ("each", 1.0)):
        flows = [FLOW | {"count": 5, "hosts": hosts}, FLOW | ({"dst_host": 9} if hosts == "shared" else {})]
        found = run_once(
            tmp_path / f"{hosts}.duckdb", bottleneck=CAKE, flows=flows, duration="10s", record={"from": "2s"}
        ).flows
        goodputs = found["goodput_mbit"].to_list()
        assert sum(goodputs[:5]) / 5 / goodputs[5] == pytest.approx(share, rel=0.25)


def test_hosts_are_numbered_above_those_that_are_named() -> None:
    groups = (
        parsed(
            flows=[FLOW | {"count": 2, "hosts": "each"}, FLOW | {"src_host": 20}],
            udp=[{"count": 2, "hosts": "each"}, {"rate": "1Mbit"}],
        )
        .make_cell(0)
        .groups
    )
    given = give_own_hosts(groups)
    assert [(one["src_host"], one["dst_host"], one["count"]) for one in given["flows"]] == [
        (21, 22, 1),
        (23, 24, 1),
        (20, 2, 1),
    ]
    assert [(one["src_host"], one["dst_host"]) for one in given["udp"]] == [(25, 26), (27, 28), (1, 2)]
    assert give_own_hosts(parsed().make_cell(0).groups) == parsed().make_cell(0).groups


def test_the_kernel_has_an_address_for_each_host() -> None:
    cell = parsed(flows=[FLOW | {"count": 3, "hosts": "each"}]).make_cell(0)
    lines = [line.split() for line in map_cell(cell, reach.make_kernel()).plan.splitlines() if line.startswith("tcp ")]
    assert len({line[5] for line in lines}) == len({line[6] for line in lines}) == 3


def test_an_optimistic_receiver_gets_more_than_others_and_hides_its_losses(tmp_path: Path) -> None:
    flows = measure(tmp_path / "r.duckdb", {"misbehaves": "optimistic"}, {}, duration="20s")
    greedy, other = flows.rows(named=True)
    assert greedy["goodput_mbit"] > 2 * other["goodput_mbit"]
    # what the queue dropped of it, it acknowledged
    assert greedy["drops"] > 0 and greedy["loss_reductions"] == 0 and greedy["retransmissions"] < greedy["drops"] / 10


def test_ack_division_gains_nothing_where_segments_are_counted(tmp_path: Path) -> None:
    plain = measure(tmp_path / "plain.duckdb", {}, duration="10s", hosts={"delayed_ack": False}).row(0, named=True)
    divided = measure(tmp_path / "divided.duckdb", {"misbehaves": "divides"}, duration="10s").row(0, named=True)
    assert divided["acks"] > 9 * divided["packets"]
    # it is acknowledged as without delayed ACKs, ten times
    assert divided["goodput_mbit"] == pytest.approx(plain["goodput_mbit"], rel=0.02)
    assert divided["cwnd_max"] <= 1.05 * plain["cwnd_max"]


@pytest.mark.parametrize(("cc", "echo"), [("cubic", "classic"), ("dctcp", "auto"), ("prague", "auto")])
def test_concealed_marks_are_not_answered(tmp_path: Path, cc: str, echo: str) -> None:
    queue = {"rate": "10Mbit", "aqm": {"name": "dualpi2"} if cc == "prague" else {"name": "codel", "ecn": True}}
    flow = {"cc": cc, "ecn": True, "ecn_echo": echo}
    honest, liar = (
        measure(tmp_path / f"{n}.duckdb", flow | more, bottleneck=queue, duration="10s").row(0, named=True)
        for n, more in enumerate(({}, {"misbehaves": "conceals"}))
    )
    assert honest["ce_received"] > 0 and honest["ecn_reductions"] > 0
    assert liar["ce_received"] > 2 * honest["ce_received"] and liar["ecn_reductions"] == 0
