"""What a receiver acknowledges and offers beside Linux 6.12.117, which ran the same experiments (`--engine linux`)."""

import math
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import Command
from dumbbell.results.student import compute_t_quantile

# a queue of three packets: holes within the first round trips, filled one by one
SHORT_QUEUE = """
duration = "1s"
bottleneck = { rate = "20Mbit", shaper = "htb", aqm = { name = "pfifo", limit = 3 } }
flows = [{ cc = "reno", base_rtt = "40ms" }]
"""
# payload acknowledged and window of the first ACKs behind the SYN-ACK, bytes: while the first holes are there the
# window grows to 80640, as they are filled its end stays where it is, and then the buffer grows once
ACKS = [
    *[(1449, 67072), (2897, 69888), (4345, 72832), (5793, 75776), (5793, 78592), *[(5793, 80640)] * 6],
    *[(7241, 79232), (8689, 77824), (10137, 76416), (11585, 75008), (13033, 74624), (24617, 75136)],
    *[(26065, 81536), (27513, 84480), (28961, 87296), (30409, 90240), (31857, 93184), (33305, 95872), (34753, 95872)],
]


def test_the_first_windows_are_those_of_linux(command: Command, tmp_path: Path) -> None:
    (tmp_path / "short-queue.toml").write_text(SHORT_QUEUE)
    done = command("trace", str(tmp_path / "short-queue.toml"), "--at", "receiver", "-o", "run.parquet")
    assert done.returncode == 0, done.stderr
    acks = pl.read_parquet(tmp_path / "run.parquet").filter(pl.col("direction") == "ack").slice(1, len(ACKS))
    assert acks.select("ack", "window").rows() == ACKS


def experiment(rates: tuple[str, str], aqms: tuple[Any, Any], base_rtt: str) -> dict[str, Any]:
    flow = {"cc": "cubic", "base_rtt": base_rtt}
    return {
        "duration": "60s",
        "seeds": list(range(1, 9)),
        "bottleneck": {"rate": rates[0], "shaper": "htb", "aqm": aqms[0]},
        "reverse": {"rate": rates[1], "shaper": "htb", "aqm": aqms[1]},
        "hosts": {"ecn": False, "send_buffer": "33554432B", "receive_buffer": "33554432B"},
        "flows": [
            flow | {"start": {"uniform": ["0s", "10ms"]}},
            flow | {"direction": "up", "start": {"uniform": ["30ms", "50ms"]}},
        ],
        "record": {"series": False},
    }


PFIFO = experiment(("40Mbit", "40Mbit"), ({"name": "pfifo", "limit": 100}, {"name": "pfifo", "limit": 100}), "20ms")
THIN = experiment(("100Mbit", "2Mbit"), ("fq_codel", {"name": "pfifo", "limit": 1000}), "30ms")
# of the runs from the first eight starts on Linux: goodput in Mbit/s, RTT and time in the reverse queue in ms
LINUX_THIN = {
    "down": [2.85, 6.94, 3.07, 6.71, 2.67, 7.89, 2.86, 3.8],
    "up": [1.86, 1.62, 1.79, 1.63, 1.69, 1.72, 1.74, 1.72],
    "rtt": [2234.6, 1986.0, 2245.9, 2009.7, 2784.4, 1831.7, 2838.3, 2241.4],
    "sojourn": [2277.5, 1955.9, 2306.2, 1988.4, 2670.7, 1739.7, 2708.1, 2322.3],
}


def of_flows(found: dumbbell.Results, direction: str, column: str) -> list[float]:
    """Return a column of the flow in this direction, run by run."""
    return list(found.flows.filter(pl.col("direction") == direction)[column])


def is_close(here: list[float], linux: list[float], bar: float) -> bool:
    """Return whether two means differ by `bar` at the most, or by no more than the 95 % interval of the difference."""
    half = compute_t_quantile(len(here) + len(linux) - 2, 0.95) * math.sqrt(
        sum(variance(v) / len(v) for v in (here, linux))
    )
    return abs(fmean(here) - fmean(linux)) <= max(bar, half)


def test_two_flows_against_each_other_over_a_fifo_are_as_on_linux() -> None:
    # eight starts on Linux: 34.5 Mbit/s each, 39.5 ms (38.8 to 40.1); with an ACK for each push out of order 29.8, 44.0
    found = dumbbell.run(PFIFO)
    for way in ("down", "up"):
        assert fmean(of_flows(found, way, "goodput_mbit")) == pytest.approx(34.5, rel=0.03)
        rtts = of_flows(found, way, "rtt_mean_ms")
        assert fmean(rtts) == pytest.approx(39.5, rel=0.06)
        assert min(rtts) > 38.0 and max(rtts) < 41.0


def test_a_download_next_to_an_upload_over_a_thin_link_is_as_on_linux() -> None:
    # with an ACK for each push out of order 33.4 Mbit/s, 1075 ms and 449 ms
    found = dumbbell.run(THIN)
    for way, rate in (("down", 100), ("up", 2)):
        assert is_close(of_flows(found, way, "goodput_mbit"), LINUX_THIN[way], 0.03 * rate), way
    rtt, sojourn = LINUX_THIN["rtt"], LINUX_THIN["sojourn"]
    assert is_close(of_flows(found, "down", "rtt_mean_ms"), rtt, 0.06 * fmean(rtt))
    waits = list(found.hops.filter(pl.col("hop") == "reverse")["sojourn_mean_ms"])
    assert is_close(waits, sojourn, 0.06 * fmean(sojourn))
