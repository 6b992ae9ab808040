"""Several hops, traffic both ways and pings: from the experiment file to tables."""

from typing import Any

import pytest

import dumbbell
from conftest import Command, described, parsed
from dumbbell.errors import InputError
from dumbbell.experiment.net import ROUTES

DOWN = {"cc": "cubic", "base_rtt": "20ms"}
UP = DOWN | {"direction": "up"}
PING = {"rate": "7840bit", "size": "98B", "echo": True, "base_rtt": "20ms"}
LATE = {"at": "6s", "rate": "1Mbit"}
HOME: dict[str, Any] = {
    "duration": "5s",
    "bottleneck": {"rate": "20Mbit", "aqm": "fq_codel"},
    "reverse": {"rate": "5Mbit", "aqm": "fq_codel"},
    "flows": [DOWN, UP],
    "udp": [PING, PING | {"direction": "up"}],
}
LOT: dict[str, Any] = {
    "duration": "5s",
    "bottleneck": {"rate": "10Mbit", "aqm": "fq_codel", "delay": "5ms"},
    "hop": [{"name": "second", "rate": "5Mbit", "aqm": "fq_codel"}],
    "flows": [DOWN | {"route": ["bottleneck", "second"]}, DOWN, DOWN | {"route": ["second"]}],
}


def test_a_run_with_one_hop_is_described_as_ever() -> None:
    groups = parsed(udp=[{"rate": "1Mbit"}]).make_cell(0).groups
    keys = {"hop", "reverse", "delay", "echo", *(param.name for param in ROUTES)}
    tables = [groups, groups["bottleneck"], *groups["flows"], *groups["udp"]]
    assert not any(keys & table.keys() for table in tables)
    # what is said of a default does not change it
    said = parsed(
        udp=[{"rate": "1Mbit", "direction": "down"}], bottleneck={"rate": "10Mbit", "aqm": "codel", "delay": 0}
    )
    assert said.make_cell(0).groups == groups


def test_a_net_has_all_of_its_keys() -> None:
    groups = parsed(**HOME).make_cell(0).groups
    assert groups["hop"] == [] and groups["reverse"]["aqm"]["name"] == "fq_codel"
    assert [flow["direction"] for flow in groups["flows"]] == ["down", "up"]
    assert all(flow["route"] is None and flow["ack_route"] is None for flow in groups["flows"])


@pytest.mark.junk  # what a route may name the schema does not know
@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"flows": [UP], "reverse": None, "udp": None}, "flows[0].route", "no hop"),
        ({"flows": [DOWN | {"route": ["first"]}]}, "flows[0].route", "bottleneck, reverse"),
        ({"flows": [DOWN | {"route": ["bottleneck", "bottleneck"]}]}, "flows[0].route", "each hop once"),
        ({"flows": [DOWN | {"ack_route": ["bottleneck"]}]}, "flows[0].ack_route", "not in route"),
        ({"flows": [DOWN | {"direction": "sideways"}]}, "flows[0].direction", "down or up"),
        ({"reverse": {"rate": "5Mbit"}}, "reverse.aqm", "missing"),
        ({"hop": [{"aqm": "codel"}]}, "hop[0].name", "missing"),
        ({"hop": [{"name": "two words", "aqm": "codel"}]}, "hop[0].name", "letters, digits"),
        ({"hop": [{"name": "reverse", "aqm": "codel"}]}, "hop[0].name", "no other hop has"),
        ({"reverse": {"aqm": "codel", "rat": "1Mbit"}}, "reverse.rat", "reverse.rate"),
        ({"reverse": {"aqm": "codel", "rate_changes": [LATE]}}, "reverse.rate_changes[0].at", "before the end"),
        ({"udp": [{"base_rtt": "20ms"}]}, "udp[0].base_rtt", "without echo"),
        ({"udp": [{"ack_path": ["loss"]}]}, "udp[0].ack_path", "without echo"),
    ],
)  # fmt: skip
def test_what_makes_no_net_is_named(changes: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        parsed(**(HOME | changes))
    assert error.value.key == key and words in str(error.value), str(error.value)


def test_flows_both_ways_are_apart_in_tables(command: Command, tmp_path: Any) -> None:
    path = tmp_path / "home.duckdb"
    found = dumbbell.run(
        described(**HOME, matrix={"bottleneck.aqm, reverse.aqm": [["pfifo", "pfifo"], ["fq_codel", "cake"]]}),
        output=path,
    )
    flows = found.flows
    assert flows["direction"].to_list() == ["down", "up"] * 4
    assert flows["cc"].to_list() == ["cubic", "cubic", "ping", "ping"] * 2
    hops = found.hops
    assert hops["hop"].to_list() == ["bottleneck", "reverse"] * 2
    assert min(hops["ack_packets"].drop_nulls()) > 1000
    # the way back is full, and with pfifo it starves the way there
    fifo, back, flow_queues, cake = hops["utilisation"].to_list()
    assert fifo < 0.5 < 0.95 < min(back, flow_queues, cake) and max(back, cake) <= 1.001
    series = found.hop_series
    assert series.height == 2 * 2 * 5 and set(series["hop"]) == {"bottleneck", "reverse"}
    sent = series.filter(series["hop"] == "reverse")["throughput_mbit"].mean()
    assert sent == pytest.approx(hops.filter(hops["hop"] == "reverse")["throughput_mbit"].mean())
    said = command("table", str(path), "--value", "goodput").stdout
    assert "cubic, down" in said and "cubic, up" in said
    said = command("table", str(path), "--columns", "direction", "--where", "cc=cubic").stdout
    assert "bottleneck.aqm, reverse.aqm \\ direction" in said and "ping" not in said
    up = dumbbell.open(path).where("direction=up")
    assert set(up.flows["direction"]) == set(up.classes["direction"]) == {"up"}
    said = command("table", str(path), "--of", "hops", "--value", "sojourn").stdout
    assert "of each hop" in said and "| bottleneck | reverse |" in said.replace("  ", " ").replace("  ", " ")
    said = command("table", str(path), "--of", "classes", "--value", "sojourn").stdout
    assert "ping, up" in said
    # pings wait where nothing keeps flows apart
    rtt = {row["which"] + row["bottleneck.aqm"]: row["rtt_p50_ms"] for row in found.tidy().iter_rows(named=True)}
    assert rtt["ping, uppfifo"] > 100 and 20 <= rtt["ping, upfq_codel"] < 30
    for which in ("ping, down", "ping, up"):
        assert min(flows.filter(flows["cc"] == "ping")["answers"]) >= 40, which


def test_flows_over_two_hops_get_what_the_slower_has_left() -> None:
    found = dumbbell.run(described(**LOT))
    both, first, second = found.flows["goodput_mbit"].to_list()
    # 10 Mbit/s and 5 Mbit/s, of which 1448 of 1514 B are payload
    assert both + second == pytest.approx(5 * 1448 / 1514, rel=0.06)
    assert both + first == pytest.approx(10 * 1448 / 1514, rel=0.06)
    assert both == pytest.approx(second, rel=0.15)
    # the base RTT and the first hop's propagation
    assert found.flows["rtt_min_ms"].to_list()[0] >= 25 and 20 <= found.flows["rtt_min_ms"].to_list()[2] < 25


def test_one_hop_has_no_table_of_hops(command: Command, tmp_path: Any) -> None:
    path = tmp_path / "one.duckdb"
    found = dumbbell.run(described(), output=path)
    assert found.hops.height == 0 and found.hop_series.height == 0
    failed = command("table", str(path), "--of", "hops", "--value", "sojourn")
    assert failed.returncode == 2 and "--of runs" in failed.stderr and failed.stderr.count("\n") == 1


def test_the_live_engine_refuses_several_hops_by_name(command: Command, tmp_path: Any) -> None:
    file = tmp_path / "home.toml"
    file.write_text(
        'duration = "1s"\n[bottleneck]\naqm = "codel"\n[[hop]]\nname = "second"\naqm = "codel"\n'
        '[[flows]]\ncc = "cubic"\nroute = ["bottleneck", "second"]\n',
        encoding="utf-8",
    )
    failed = command("run", str(file), "--engine", "live", "-o", str(tmp_path / "r.duckdb"))
    assert failed.returncode == 2 and failed.stderr.count("\n") == 1 and "second" in failed.stderr, failed.stderr


@pytest.mark.parametrize("aqm", ["fq_codel", "cake"])
def test_headers_and_cells_of_the_link_take_their_part(aqm: str) -> None:
    link = {"rate": "10Mbit", "aqm": aqm, "link_layer": "pppoe-llcsnap"}
    found = dumbbell.run(described(duration="10s", bottleneck=link, flows=[DOWN]))
    # 33 cells of 53 B for each 1448 B of payload
    assert found.flows["goodput_mbit"].to_list()[0] == pytest.approx(10 * 1448 / 1749, rel=0.03)
    bare = parsed(bottleneck={"rate": "10Mbit", "aqm": aqm, "link_layer": "raw"}).make_cell(0).groups
    assert bare == parsed(bottleneck={"rate": "10Mbit", "aqm": aqm}).make_cell(0).groups
