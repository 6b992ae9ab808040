"""Packets that flows sent and lost, and that queues let pass, interval by interval."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import parsed
from dumbbell.engines import sweep

FLOW: dict[str, Any] = {"cc": "cubic", "base_rtt": "40ms"}


def test_what_a_flow_sent_and_lost_is_known_interval_by_interval(tmp_path: Path) -> None:
    experiment = parsed(
        duration="10s",
        seeds=[1],
        flows=[FLOW, FLOW],
        udp=[{"rate": "8Mbit"}],
        bottleneck={"rate": "10Mbit", "aqm": {"name": "pfifo", "limit": 20}},
    )
    assert sweep.run([experiment], tmp_path / "r.duckdb", progress=False).failed == []
    results = dumbbell.open(tmp_path / "r.duckdb")
    series, flows = results.series, results.flows
    sums = series.group_by("flow", maintain_order=True).agg(pl.col("sent", "drops").sum()).sort("flow")
    assert sums["drops"].to_list() == flows["drops"].to_list() and min(sums["drops"]) > 0
    # senders of UDP and TCP; what was sent in the last half RTT of its sender's clock is not in the series
    assert sums["sent"].to_list() == pytest.approx(flows["sent"].to_list(), abs=20)
    queue, runs = results.queue_series, results.runs
    assert queue["packets"].sum() == runs["packets"][0] and queue["drops"].sum() == series["drops"].sum()
