"""What files of Flent say of their set-up in titles and metadata, calls, and series without a column."""

from pathlib import Path
from typing import Any

import pytest

from dumbbell.exchange.measurement import Origin
from test_flent import FQ, foreign, interface, read


@pytest.mark.parametrize(
    ("title", "down", "up", "origin"),
    [
        ("qdisc:fq_codel rate:20Mbit", '"fq_codel"', '"fq_codel"', Origin.FILE),
        ("qdisc:lfq_cobalt", '"fq_codel"', '"fq_codel"', Origin.ASSUMED),
        ("fq_codel_apu", '"fq_codel"', '"fq_codel"', Origin.DERIVED),
        (
            "cake_dual_srchost_dual_dsthost",
            '{ name = "cake", isolation = "dual-dsthost" }',
            '{ name = "cake", isolation = "dual-srchost" }',
            Origin.DERIVED,
        ),
        ("qdisc:cake_diffserv4", '{ name = "cake", diffserv = "diffserv4" }', None, Origin.DERIVED),
        ("johns_place_sqm", '"fq_codel"', '"fq_codel"', Origin.ASSUMED),
        ("qdisc:pie", '"pie"', '"pie"', Origin.FILE),
        ("qdisc:pfifo_fast", '"pfifo"', '"pfifo"', Origin.ASSUMED),
        ("a codelike red pie", None, None, None),
        ("one step back", None, None, None),
    ],
)
def test_the_title_names_the_queue(
    title: str, down: str | None, up: str | None, origin: Origin | None, tmp_path: Path
) -> None:
    setup = read(tmp_path, foreign(TITLE=title)).setup
    assert {key: setup[key].text for key in setup if key.endswith("aqm")}.get("bottleneck.aqm") == down
    if up is not None:
        assert setup["reverse.aqm"].text == up
    if origin is not None:
        assert setup["bottleneck.aqm"].origin is origin and "title" in setup["bottleneck.aqm"].source
    # what tc says is better
    shaper = {"name": "tbf", "params": {"rate": "20Mbit"}}
    said = foreign(TITLE=title, INGRESS_INFO=interface(shaper, FQ))
    assert read(tmp_path, said).setup["bottleneck.aqm"].origin is Origin.FILE


def test_the_control_is_that_of_the_host_that_sends_and_no_router(tmp_path: Path) -> None:
    def host(control: str, *addresses: str) -> dict[str, Any]:
        egress, ingress = ({"iface": "e", "src": address} for address in addresses)
        return {
            "SYSCTLS": {"net.ipv4.tcp_congestion_control": control},
            "EGRESS_INFO": egress,
            "INGRESS_INFO": ingress,
        }

    remote = {"router": host("cubic", "10.0.2.1", "10.0.1.2"), "server": host("bbr", "10.0.4.2", "10.0.4.2")}
    ours = {"iface": "e", "src": "10.0.1.1", "target": "10.0.4.2"}
    names: dict[str, Any] = {"HOST": "testserv", "HOSTS": ["testserv"], "EGRESS_INFO": ours}
    flow = read(tmp_path, foreign(REMOTE_METADATA=remote, **names)).flows[0]
    assert flow.cc is not None and flow.cc.text == "bbr1" and "of server, which sends" in flow.cc.source
    # where no host is known to send, no router stands in: the title, or CUBIC as an assumption
    del remote["server"]
    flow = read(tmp_path, foreign(REMOTE_METADATA=remote, TITLE="cc:reno", **names)).flows[0]
    assert flow.cc is not None and (flow.cc.text, flow.cc.origin) == ("reno", Origin.FILE)
    flow = read(tmp_path, foreign(REMOTE_METADATA=remote, **names)).flows[0]
    assert flow.cc is not None and (flow.cc.text, flow.cc.origin) == ("cubic", Origin.ASSUMED)


def test_a_call_is_a_flow_of_udp(tmp_path: Path) -> None:
    """Datagrams of 92 bytes each 10 ms; every tenth is lost, and delays are 25 and 27 ms in turn."""
    data = foreign()
    for key, value in (("delay", 26.0), ("jitter", 2.0), ("loss", 1.0), ("bitrate", 66.2), ("induced_delay", 1.0)):
        data["results"][f"VoIP::{key}"] = [value] * 5
    samples = [
        {"seq": n, "size": 92, "t": 1577836800.0 + n / 100, "val": 25.0 + 2 * (n % 2)}
        for n in range(1, 101)
        if n % 10 != 5
    ]
    data["raw_values"]["VoIP"] = samples
    found = read(tmp_path, data)
    (call,) = (flow for flow in found.flows if flow.kind == "udp")
    assert call.direction == "up" and call.figures["sent"] == 100 and call.lost == 10
    assert call.figures["goodput_mbit"] == pytest.approx(89 * 92 * 8e-6 / 0.99)
    assert (call.figures["delay_min_ms"], call.figures["delay_max_ms"]) == (25, 27)
    steps, jitter, total = [0.0 if n % 10 == 6 else 2.0 for n in range(2, 101) if n % 10 != 5], 0.0, 0.0
    for step in steps:
        jitter += (step - jitter) / 16
        total += jitter
    assert call.figures["jitter_mean_ms"] == pytest.approx(total / 90)
    assert call.rate is not None and call.rate.text == "107kbit"  # 134 bytes each 10 ms, the lost ones too
    assert call.size is not None and call.size.text == "134B"
    assert call.series["goodput_mbit"].to_list() == pytest.approx([0.0662] * 5)
    # without single packets, what was plotted
    del data["raw_values"]["VoIP"]
    (call,) = (flow for flow in read(tmp_path, data).flows if flow.kind == "udp")
    assert call.figures["delay_mean_ms"] == 26 and call.figures["goodput_mbit"] == pytest.approx(0.0662)


def test_series_that_are_not_read_are_named(tmp_path: Path) -> None:
    data = foreign()
    data["results"] |= {"HTTP latency": [1.0] * 5, "cpu_stats_a::load": [0.1] * 5, "wifi_stats::air": [1.0] * 5}
    data["results"] |= {"TCP download::1::tcp_cwnd": [10.0] * 5}
    (note,) = read(tmp_path, data).notes
    assert note == "left out, because no column holds them: HTTP latency, cpu_stats_a, wifi_stats"


def test_local_times_of_old_files_fit_their_samples(tmp_path: Path) -> None:
    """Before version 4 the start has no time zone: samples were left out, or an hour late."""
    for zone in (-36000, 0, 3600, 7200, 20700):
        data = foreign(version=2, T0="2020-01-01T00:00:00")
        for samples in data["raw_values"].values():
            for sample in samples:
                sample["t"] -= zone
        data["results"] = {name: [None] * 5 for name in data["results"]}
        flow = read(tmp_path, data).flows[0]
        assert flow.series["goodput_mbit"].to_list() == pytest.approx([1, 2, 3, 4, 5]), zone
