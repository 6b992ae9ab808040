"""`buffer` of a hop: the limit that it sets, whichever queue the hop has."""

from typing import Any

import pytest

import dumbbell
from conftest import parsed
from dumbbell.engines import sweep
from dumbbell.engines.linux import reach
from dumbbell.engines.linux.mapping import map_cell
from dumbbell.errors import InputError
from dumbbell.experiment.registry import read_registry

FLOW = {"cc": "cubic", "base_rtt": "40ms"}


def limits(buffer: Any, aqm: Any = "pfifo", **changes: Any) -> dict[str, Any]:
    """Return the parameters of the bottleneck's queue, 20 Mbit/s in front of flows of at most 80 ms."""
    flows = [FLOW, FLOW | {"base_rtt": "80ms"}]
    table: dict[str, Any] = {"bottleneck": {"rate": "20Mbit", "aqm": aqm, "buffer": buffer}, "flows": flows} | changes
    found: dict[str, Any] = parsed(**table).make_cell(0).groups["bottleneck"]["aqm"]
    return found


# one product is 20 Mbit/s * 80 ms = 200,000 B, 132.1 full frames of 1514 B
@pytest.mark.parametrize(
    ("buffer", "aqm", "key", "expected"),
    [
        ("1bdp", "pfifo", "limit", 132),
        ("1.5bdp", "pfifo", "limit", 198),  # 198.2
        (" 2 bdp ", "bfifo", "limit", 400_000),
        ("0.25bdp", "fq_codel", "limit", 33),
        ("1bdp", "codel", "limit", 132),
        ("1bdp", "red", "limit", 200_000),
        ("1bdp", "pie", "limit", 132),
        ("1bdp", "dualpi2", "limit", 132),
        ("1bdp", {"name": "dualpi2", "version": "tsfifo"}, "limit", 132),
        ("1bdp", "csaqm", "limit", 200_000),
        ("1bdp", "cake", "memlimit", 132 * (1448 + 832)),  # what Linux counts for a segment in a queue
        ("100p", "pfifo", "limit", 100),
        (100, "pfifo", "limit", 100),
        ("100p", "bfifo", "limit", 151_400),
        ("64KiB", "bfifo", "limit", 65_536),
        ("64KiB", "pfifo", "limit", 43),  # 43.3
        ("80ms", "pfifo", "limit", 132),
        ("1s", "bfifo", "limit", 2_500_000),
        ("0.001bdp", "pfifo", "limit", 1),  # 0.13: it holds one packet at least
        ("1B", "bfifo", "limit", 1514),
    ],
)
def test_it_sets_the_limit_of_every_queue(buffer: Any, aqm: Any, key: str, expected: int) -> None:
    assert limits(buffer, aqm)[key] == expected


def test_every_queue_takes_it() -> None:
    for name, algorithm in read_registry().aqm.items():
        before, after = (parsed(bottleneck={"rate": "20Mbit", "aqm": name} | more) for more in ({}, {"buffer": "700p"}))
        changed = {
            key
            for key, value in after.make_cell(0).groups["bottleneck"]["aqm"].items()
            if value != before.make_cell(0).groups["bottleneck"]["aqm"][key]
        }
        assert changed == {"memlimit" if name == "cake" else "limit"}, name
        assert algorithm.params[changed.pop()].unit in ("packets", "bytes")


def test_the_limit_of_packets_decides_where_there_is_one_of_memory_too() -> None:
    # 100,000 packets take up to 2 * 1514 + 1056 B each
    assert limits("100000p", "fq_codel")["memory_limit"] == 100_000 * 4084
    assert limits("100p", "fq_codel")["memory_limit"] == 32 << 20
    given = limits("100000p", {"name": "fq_codel", "memory_limit": "1MB"})
    assert (given["limit"], given["memory_limit"]) == (100_000, 1_000_000)


def test_older_kernels_count_less_memory_for_a_packet() -> None:
    assert limits("10p", "cake", hosts={"profile": "linux-6.1"})["memlimit"] == 10 * (1448 + 768)


def test_full_frames_follow_the_segments_of_the_hosts() -> None:
    # 200,000 B of frames of 8948 + 66 B: 22.2
    assert limits("1bdp", "pfifo", hosts={"mss": "8948B"})["limit"] == 22


def test_the_base_rtt_has_the_delay_of_the_hops_on_the_way() -> None:
    hops = {"hop": [{"name": "far", "rate": "5Mbit", "aqm": "pfifo", "buffer": "1bdp", "delay": "20ms"}]}
    flows = [FLOW | {"route": ["bottleneck", "far"]}, {"cc": "reno", "base_rtt": "50ms"}]
    run = parsed(bottleneck={"rate": "20Mbit", "aqm": "pfifo", "buffer": "1bdp"}, flows=flows, **hops).make_cell(0)
    # 40 ms + 20 ms are more than 50 ms: 150,000 B at 20 Mbit/s, and 37,500 B at 5 Mbit/s, 24.8 frames
    assert run.groups["bottleneck"]["aqm"]["limit"] == 99
    assert run.groups["hop"][0]["aqm"]["limit"] == 25


def test_a_matrix_steps_it_and_results_name_it_beside_the_limit(tmp_path: Any) -> None:
    matrix = {"bottleneck.rate": ["4Mbit", "8Mbit"], "bottleneck.buffer": ["0.5bdp", "2bdp"]}
    experiment = parsed(bottleneck={"aqm": "pfifo"}, flows=[FLOW], seeds=[1], matrix=matrix, override=None)
    # 4 Mbit/s * 40 ms = 20,000 B are 13.2 frames
    assert [cell.groups["bottleneck"]["aqm"]["limit"] for cell in experiment.make_cells()] == [7, 26, 13, 53]
    assert sweep.run([experiment], tmp_path / "r.duckdb", progress=False).failed == []
    text = str(dumbbell.open(tmp_path / "r.duckdb").table("utilisation"))
    assert "bottleneck.rate \\ bottleneck.buffer | 0.5bdp |" in text
    assert "They differ in bottleneck.aqm.limit (7, 13, 26, 53) as well" in text


def test_the_kernel_gets_the_limit() -> None:
    cell = parsed(bottleneck={"rate": "20Mbit", "aqm": "pie", "buffer": "1bdp"}, flows=[FLOW]).make_cell(0)
    assert any("pie limit 66" in line for line in map_cell(cell, reach.make_kernel()).plan.splitlines())


def test_without_it_a_configuration_is_as_it_was() -> None:
    assert "buffer" not in parsed().make_cell(0).groups["bottleneck"]


@pytest.mark.parametrize(
    ("buffer", "aqm", "expected"),
    [
        ("1bdp", {"name": "pfifo", "limit": 100}, "buffer and aqm.limit cannot be combined; use one of the two"),
        ("1bdp", {"name": "cake", "memlimit": "1MB"}, "buffer and aqm.memlimit cannot be combined"),
        ("1000p", {"name": "cake"}, None),
        ("100000000p", "cake", "which makes aqm.memlimit = 228000000000; it must be one with a limit from 1 to"),
        ("1 rtt", "pfifo", 'bottleneck.buffer is "1 rtt"; it must be a buffer such as "1.5bdp"'),
        ("1.5p", "pfifo", 'bottleneck.buffer is "1.5p"; it must be'),
        ("0p", "pfifo", 'bottleneck.buffer is "0p"; it must be'),
        (0, "pfifo", 'bottleneck.buffer is "0p"; it must be'),
        ("0bdp", "pfifo", 'bottleneck.buffer is "0bdp"; it must be'),
        ("1001bdp", "pfifo", 'bottleneck.buffer is "1001bdp"; it must be'),
        ("10Mbit", "pfifo", 'bottleneck.buffer is "10Mbit"; it must be'),
        (True, "pfifo", "bottleneck.buffer is true; it must be"),
        (1.5, "pfifo", "bottleneck.buffer is 1.5; it must be"),
    ],
)
def test_what_is_wrong_is_said(buffer: Any, aqm: Any, expected: str | None) -> None:
    if expected is None:
        limits(buffer, aqm)
        return
    with pytest.raises(InputError) as error:
        limits(buffer, aqm)
    assert expected in str(error.value)


def test_products_need_a_base_rtt() -> None:
    with pytest.raises(InputError, match=r'bottleneck.buffer is "1bdp", and no base RTT in this run is above 0s'):
        parsed(bottleneck={"rate": "1Mbit", "aqm": "pfifo", "buffer": "1bdp"}, flows=[], udp=[{"rate": "1Mbit"}])
    parsed(bottleneck={"rate": "1Mbit", "aqm": "pfifo", "buffer": "80ms"}, flows=[], udp=[{"rate": "1Mbit"}])
