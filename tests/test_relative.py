"""Rates and windows that follow from the path of what sends."""

from typing import Any

import pytest

from conftest import parsed
from dumbbell.errors import InputError

SLOW = {"hop": [{"name": "slow", "rate": "4Mbit", "aqm": "pfifo", "delay": "10ms"}]}


def run(**changes: Any) -> dict[str, Any]:
    return parsed(**({"bottleneck": {"rate": "20Mbit", "aqm": "pfifo"}} | changes)).make_cell(0).groups


def test_shares_are_of_the_first_hop_of_the_route_at_the_start() -> None:
    groups = run(
        **SLOW,
        bottleneck={"rate": "20Mbit", "aqm": "pfifo", "rate_changes": [{"at": "1s", "rate": "1Mbit"}]},
        reverse={"rate": "2Mbit", "aqm": "pfifo"},
        flows=[
            {"cc": "cubic", "base_rtt": "40ms", "app_rate": "50%"},
            {"cc": "cubic", "base_rtt": "40ms", "app_rate": "12.5%", "direction": "up"},
        ],
        udp=[{"rate": "80%"}, {"rate": "120%", "route": ["slow", "bottleneck"]}],
    )
    assert [one["app_rate"] for one in groups["flows"]] == [10_000_000, 250_000]
    assert [one["rate"] for one in groups["udp"]] == [16_000_000, 4_800_000]


def test_constant_rates_and_windows_follow_the_path() -> None:
    flows = [
        {"cc": {"name": "constant", "rate": "25%"}, "base_rtt": "40ms"},
        # 20 Mbit/s * 40 ms = 100,000 B are 66.05 full frames; twice that is 132.1
        {"cc": {"name": "constant", "window": "2bdp"}, "base_rtt": "40ms"},
        # segments of 724 B make frames of 790 B: 253.2
        {"cc": {"name": "constant", "window": "2bdp"}, "base_rtt": "40ms", "mss": "724B"},
        # 4 Mbit/s * (40 + 10) ms = 25,000 B are 16.5 full frames
        {"cc": {"name": "constant", "window": "1bdp"}, "base_rtt": "40ms", "route": ["slow"]},
        {"cc": {"name": "constant", "window": "0.001bdp"}, "base_rtt": "1ms"},  # one at least
        {"cc": {"name": "constant", "window": 7}, "base_rtt": "40ms"},
    ]
    cc = [flow["cc"] for flow in run(**SLOW, flows=flows)["flows"]]
    assert cc[0]["rate"] == 5_000_000
    assert [one["window"] for one in cc[1:]] == [132, 253, 17, 1, 7]


def test_a_matrix_steps_them_with_the_rate() -> None:
    experiment = parsed(
        bottleneck={"aqm": "pfifo"},
        udp=[{}],
        seeds=[1],
        matrix={"bottleneck.rate": ["10Mbit", "100Mbit"], "udp[0].rate": ["20%", "3Mbit"]},
        override=None,
    )
    rates = [cell.groups["udp"][0]["rate"] for cell in experiment.make_cells()]
    assert rates == [2_000_000, 3_000_000, 20_000_000, 3_000_000]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"udp": [{"rate": "0%"}]},
            'udp[0].rate is "0%"; it must be a rate such as "10Mbit", or a share such as "80%"',
        ),
        ({"udp": [{"rate": "x%"}]}, 'udp[0].rate is "x%"; it must be a rate'),
        (
            {"udp": [{"rate": "0.001%"}]},
            'udp[0].rate is "0.001%", which makes 200; it must be one that makes a rate from 1000',
        ),
        (
            {"flows": [{"cc": {"name": "constant", "window": "0bdp"}}]},
            'flows[0].cc.window is "0bdp"; it must be an integer',
        ),
        (
            {"flows": [{"cc": {"name": "constant", "window": "1bdp"}, "base_rtt": 0}]},
            'flows[0].cc.window is "1bdp", and the base RTT is 0s; it must be an integer',
        ),
        (
            {"bottleneck": {"rate": "80%", "aqm": "pfifo"}},
            'bottleneck.rate is "80%"; it must be a rate such as "10Mbit"',
        ),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as error:
        run(**changes)
    assert expected in str(error.value)
