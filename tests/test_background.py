"""LEDBAT and LEDBAT++ in the simulator: they yield, keep to their target, and share as their documents say.

The limits of LEDBAT++ are those of the system tests of ns-3's `TcpLedbatPp` (2026): 20 Mbit/s, 20 ms, tail drop of 1000
packets. Here they hold for every seed.
"""

import itertools
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from dumbbell.notebook import Results

SEEDS = [1, 2, 3]
START = {"uniform": ["0s", "100ms"]}
# goodput is that of payload: 20 Mbit/s * 1448/1514
CAPACITY = 19.13


def flow(cc: Any, **more: Any) -> dict[str, Any]:
    return {"cc": cc, "base_rtt": "20ms", "start": START} | more


def run(folder: Path, duration: int, flows: list[dict[str, Any]], limit: int = 1000, **more: Any) -> Results:
    file = {
        "duration": f"{duration}s",
        "seeds": SEEDS,
        "bottleneck": {"rate": "20Mbit", "aqm": {"name": "pfifo", "limit": limit}},
        "flows": flows,
        "record": {"interval": "20ms"},
    }
    return dumbbell.run(file | more, output=folder / "r.duckdb")


def measure_goodput(results: Results, start: float, stop: float) -> list[list[float]]:
    """Return the mean goodput (Mbit/s) of each flow from `start` to `stop`, for each seed."""
    table = results.sql(
        f"SELECT key, flow, avg(goodput_mbit) goodput FROM series WHERE time_s > {start} AND time_s <= {stop} + 1e-6 "
        "GROUP BY ALL ORDER BY ALL"
    )
    runs = [run["goodput"].to_list() for run in table.partition_by("key", maintain_order=True)]
    assert len(runs) == len(SEEDS)
    return runs


def measure_delay(results: Results, start: float) -> list[float]:
    """Return the mean time in queue (ms) of all packets from `start` on, for each seed."""
    means = results.sql(
        "SELECT key, sum(sojourn_mean_ms * throughput_mbit) / sum(throughput_mbit) mean FROM queue_series "
        f"WHERE time_s > {start} GROUP BY key ORDER BY key"
    )["mean"].to_list()
    assert len(means) == len(SEEDS)
    return means


@pytest.mark.slow
def test_ledbat_pp_alone_keeps_a_queue_below_its_target_and_uses_the_link(tmp_path: Path) -> None:
    results = run(tmp_path, 30, [flow("ledbat-pp")])
    assert all(30 < mean < 90 for mean in measure_delay(results, 5))
    assert all(goodput > 15 for [goodput] in measure_goodput(results, 5, 30))
    assert results.sql("SELECT sum(drops) FROM runs").item() == 0


@pytest.mark.slow
def test_ledbat_pp_uses_a_link_whose_queue_is_shorter_than_its_target(tmp_path: Path) -> None:
    results = run(tmp_path, 30, [flow("ledbat-pp")], limit=20)
    assert all(mean < 20 for mean in measure_delay(results, 5))
    assert all(goodput > 12 for [goodput] in measure_goodput(results, 5, 30))
    assert results.sql("SELECT min(drops) FROM runs").item() > 0


@pytest.mark.slow
def test_the_queue_drains_in_each_slowdown_and_they_take_a_tenth_of_the_time(tmp_path: Path) -> None:
    """In ns-3 they begin at about 0.8, 10.4 and 20.2 s."""
    results = run(tmp_path, 30, [flow("ledbat-pp", start="0s")])
    series = results.sql(
        "SELECT s.key, s.time_s, cwnd, ssthresh, backlog_packets FROM series s JOIN queue_series q "
        "ON s.key = q.key AND s.time_s = q.time_s ORDER BY 1, 2"
    ).with_columns(slow=pl.col("cwnd") < pl.col("ssthresh"))
    for one in series.partition_by("key"):
        begins = one.filter(pl.col("slow") & ~pl.col("slow").shift(1, fill_value=False))["time_s"].to_list()
        # the first is slow start itself
        assert begins[0] < 0.1
        for begin, (low, high) in zip(begins[1:], [(0.5, 1.5), (9, 11), (18, 21), (27, 31)], strict=True):
            assert low < begin < high, begins
        for begin, after in itertools.pairwise(begins[1:]):
            inside = one.filter(pl.col("slow") & pl.col("time_s").is_between(begin, after - 0.01))
            assert min(inside["cwnd"]) == 2 and min(inside["backlog_packets"]) < 5
            duration = max(inside["time_s"]) - begin + 0.02
            # ten durations from one beginning to the next, each known to 20 ms
            assert after - begin == pytest.approx(10 * duration, abs=0.2)


@pytest.mark.slow
def test_ledbat_pp_yields_to_cubic_and_takes_the_link_when_it_has_left(tmp_path: Path) -> None:
    results = run(tmp_path, 50, [flow("ledbat-pp"), flow("cubic", start="15s", stop="35s")])
    for own, cubic in measure_goodput(results, 25, 34):
        assert own / (own + cubic) < 0.2 and own + cubic > 15
    assert all(own > 15 for own, _ in measure_goodput(results, 40, 50))


@pytest.mark.slow
def test_flows_of_ledbat_pp_that_start_one_after_another_share(tmp_path: Path) -> None:
    results = run(tmp_path, 80, [flow("ledbat-pp", start=f"{5 * number}s") for number in range(4)])
    for shares in measure_goodput(results, 20, 80):
        assert sum(shares) ** 2 / 4 / sum(share**2 for share in shares) > 0.85
        assert min(shares) > 0.08 * sum(shares)


@pytest.mark.slow
def test_a_latecomer_takes_the_link_from_ledbat_and_not_from_ledbat_pp(tmp_path: Path) -> None:
    """RFC 6817 section 4.4: the second flow takes the queue of the first for base delay, and adds its own target."""
    shares = {}
    for cc in ("ledbat", "ledbat-pp"):
        (tmp_path / cc).mkdir()
        results = run(tmp_path / cc, 120, [flow(cc), flow(cc, start="20s")])
        shares[cc] = [late / (early + late) for early, late in measure_goodput(results, 90, 120)]
        if cc == "ledbat":
            assert all(mean > 120 for mean in measure_delay(results, 90))
        else:
            assert all(mean < 60 for mean in measure_delay(results, 90))
    assert all(share > 0.85 for share in shares["ledbat"])
    assert all(0.4 < share < 0.65 for share in shares["ledbat-pp"])


@pytest.mark.slow
def test_ledbat_alone_adds_at_most_its_target_and_uses_the_link(tmp_path: Path) -> None:
    for target in (100, 25, 5):
        (tmp_path / str(target)).mkdir()
        results = run(tmp_path / str(target), 60, [flow({"name": "ledbat", "target": f"{target}ms"})])
        means = measure_delay(results, 40)
        # timestamps count whole milliseconds
        assert all(0.6 * target < mean < target + 1 for mean in means), means
        assert all(goodput > 0.99 * CAPACITY for [goodput] in measure_goodput(results, 40, 60))
        assert results.sql("SELECT sum(drops) FROM runs").item() == 0


@pytest.mark.slow
@pytest.mark.parametrize("cc", ["cubic", "reno"])
@pytest.mark.parametrize("own", ["ledbat", {"name": "ledbat", "target": "5ms", "gain": 10.0}])
def test_ledbat_yields_where_the_queue_is_longer_than_its_target(cc: str, own: Any, tmp_path: Path) -> None:
    """With the defaults, and as RFC 7928 section 5.4 asks for it."""
    results = run(tmp_path, 60, [flow(own), flow(cc, start="10s")])
    for mine, other in measure_goodput(results, 30, 60):
        assert mine < 0.2 * (mine + other) and mine + other > 0.95 * CAPACITY


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20, 100])
def test_ledbat_shares_as_reno_where_the_queue_is_shorter_than_its_target(limit: int, tmp_path: Path) -> None:
    """RFC 6817 section 4.2: losses are then the only signal. 100 packets take 61 ms."""
    results = run(tmp_path, 90, [flow("ledbat"), flow("reno")], limit)
    for own, reno in measure_goodput(results, 30, 90):
        assert 0.4 < own / (own + reno) < 0.6


@pytest.mark.slow
def test_a_queue_of_acknowledgements_counts_for_round_trips_and_not_for_one_way_delays(tmp_path: Path) -> None:
    back = {"rate": "5Mbit", "aqm": {"name": "pfifo", "limit": 200}}
    goodput = {}
    for cc in ("ledbat", "ledbat-pp"):
        (tmp_path / cc).mkdir()
        results = run(tmp_path / cc, 60, [flow(cc), flow("cubic", direction="up", start="10s")], reverse=back)
        goodput[cc] = [own for own, _ in measure_goodput(results, 30, 60)]
    # CUBIC keeps 480 ms of queue on the way back: no packet of the way there waits for it
    assert all(own > 0.4 * CAPACITY for own in goodput["ledbat"]), goodput
    assert all(own < 0.02 * CAPACITY for own in goodput["ledbat-pp"]), goodput
