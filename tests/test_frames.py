"""Defaults that are full frames, and datagrams that do not fit into one."""

from typing import Any

import pytest

from dumbbell import InputError
from dumbbell.experiment.file import parse

QUEUES = ({"name": "fq_codel"}, {"name": "fq_pie"}, {"name": "bfifo"}, {"name": "csaqm"})


def cell(aqm: Any, **hosts: Any) -> dict[str, Any]:
    table = {
        "bottleneck": {"aqm": aqm, "path": [{"name": "policer"}]},
        "hosts": hosts,
        "flows": [{"cc": "reno", "path": [{"name": "policer"}]}],
        "udp": [{}, {"size": "100B"}],
    }
    return parse(table, "test").make_cell(0).groups


# MTU = mss + 52, a frame is 14 B longer; a quantum has 256 B at least
@pytest.mark.parametrize(
    ("mss", "frame", "quantum"), [(88, 154, 256), (460, 526, 526), (1448, 1514, 1514), (8948, 9014, 9014)]
)
def test_defaults_follow_the_segments(mss: int, frame: int, quantum: int) -> None:
    for aqm in QUEUES:
        groups = cell(aqm, mss=f"{mss}B")
        found = groups["bottleneck"]["aqm"]
        assert found.get("quantum", quantum) == quantum
        if aqm["name"] in ("bfifo", "csaqm"):
            assert found["limit"] == 1000 * frame
        assert [one["size"] for one in groups["udp"]] == [frame, 100]
        for path in (groups["bottleneck"]["path"], groups["flows"][0]["path"]):
            assert path[0]["burst"] == 10 * frame


def test_what_is_given_stays() -> None:
    assert cell({"name": "fq_pie", "quantum": "300B"}, mss="460B")["bottleneck"]["aqm"]["quantum"] == 300
    assert cell({"name": "fq_codel", "quantum": "1514B"}, mss="460B")["bottleneck"]["aqm"]["quantum"] == 1514


def test_runs_of_one_file_do_not_share_their_stages() -> None:
    table = {
        "bottleneck": {"aqm": "pfifo", "path": [{"name": "policer"}]},
        "flows": [{"cc": "reno"}],
        "matrix": {"hosts.mss": ["460B", "1448B", "4000B"]},
    }
    bursts = [one.groups["bottleneck"]["path"][0]["burst"] for one in parse(table, "test").make_cells()]
    assert bursts == [5260, 15140, 40660]


@pytest.mark.parametrize(("mss", "size"), [(1448, 1515), (1448, 9014), (460, 527)])
def test_a_datagram_above_the_mtu_is_refused(mss: int, size: int) -> None:
    ping = {"size": f"{size}B", "echo": True, "base_rtt": "20ms"}
    table = {"bottleneck": {"aqm": "pfifo"}, "hosts": {"mss": f"{mss}B"}, "udp": [{}, ping]}
    with pytest.raises(InputError) as error:
        parse(table, "test").make_cell(0)
    told = f"udp[1].size is {size} B; it must be at most {mss + 66} B, a full frame of hosts.mss = {mss} B"
    assert told in str(error.value)
    ping["size"] = f"{mss + 66}B"
    assert parse(table, "test").make_cell(0).groups["udp"][1]["size"] == mss + 66
