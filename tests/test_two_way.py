"""One CUBIC flow each way: goodput and RTT next to Linux 6.12.117, over starts that are drawn."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell

BIG = "33554432B"  # of the guests: buffers that limit nothing


def both_ways(rate: str, aqm: dict[str, Any], **more: Any) -> dict[str, Any]:
    hop = {"rate": rate, "shaper": "htb", "aqm": aqm}
    flow = {"cc": "cubic", "base_rtt": "20ms"}
    return {
        "bottleneck": hop,
        "reverse": hop,
        "hosts": {"ecn": False, "send_buffer": BIG, "receive_buffer": BIG},
        "flows": [
            flow | {"start": {"uniform": ["0s", "10ms"]}},
            flow | {"direction": "up", "start": {"uniform": ["30ms", "50ms"]}},
        ],
        "record": {"series": False},
    } | more


# means of 8 starts of 60 s on Linux; single starts have RTTs from 46 to 93 ms over CoDel, from 38.7 to 40.1 over pfifo
@pytest.mark.parametrize(
    ("rate", "aqm", "goodput", "rtt", "more"),
    [
        (
            "10Mbit",
            {"name": "codel", "ecn": False},
            (8.60, 8.64),
            74.9,
            {"duration": "60s", "seeds": list(range(1, 9))},
        ),
        ("40Mbit", {"name": "pfifo", "limit": 100}, (34.6, 34.9), 39.2, {"duration": "60s", "seeds": [1, 2, 3]}),
    ],
)
def test_both_ways_are_as_on_linux(
    rate: str, aqm: dict[str, Any], goodput: tuple[float, float], rtt: float, more: dict[str, Any], tmp_path: Path
) -> None:
    """Bars are those of the validation: 3 % of goodput, 6 % of the RTT."""
    results = dumbbell.run(both_ways(rate, aqm, **more), output=tmp_path / "r.duckdb")
    means = results.flows.group_by("direction").agg(pl.col("goodput_mbit", "rtt_mean_ms").mean()).sort("direction")
    assert means["goodput_mbit"].to_list() == pytest.approx(goodput, rel=0.03)
    assert means["rtt_mean_ms"].to_list() == pytest.approx([rtt, rtt], rel=0.06)
