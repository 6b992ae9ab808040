"""A shaper above, at and below its link, and what its frames take there: in all engines the link limits."""

import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import described, parsed
from dumbbell.engines import sweep
from dumbbell.engines.linux import engine as linux
from dumbbell.engines.linux import kernels, reach
from dumbbell.engines.linux.mapping import list_notes, map_cell
from dumbbell.errors import InputError
from dumbbell.experiment.shipped import list_experiments
from dumbbell.results.store import Store
from real_linux import needs_kernel, needs_tools

KERNEL = reach.make_kernel()


HTB = "command tc -n M class add dev m1 parent 1: classid 1:1 htb"


def bottleneck(aqm: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"rate": "20Mbit", "aqm": {"name": "cake"} | aqm, **changes}


def plan(aqm: dict[str, Any], **changes: Any) -> list[str]:
    return map_cell(parsed(bottleneck=bottleneck(aqm, **changes)).make_cell(0), KERNEL).plan.splitlines()


@pytest.mark.parametrize(
    ("aqm", "changes"),
    [
        ({}, {}),
        ({"bandwidth": "19Mbit"}, {}),
        ({"bandwidth": "20Mbit", "overhead": "38B", "mpu": "84B"}, {}),
        ({}, {"link_layer": "pppoe-ptm"}),
        ({"overhead": "48B", "framing": "atm"}, {"link_layer": "pppoe-ptm"}),
        ({}, {"rate_changes": [{"at": "1s", "rate": "5Mbit"}]}),
    ],
)
def test_a_shaper_within_its_link_has_no_other_below_it(aqm: dict[str, Any], changes: dict[str, Any]) -> None:
    text = "\n".join(plan(aqm, **changes))
    assert "tc -n M qdisc add dev m1 root handle 2: cake" in text and "htb" not in text and "netem rate" not in text


@pytest.mark.parametrize(
    ("aqm", "changes", "link"),
    [
        ({"bandwidth": "50Mbit"}, {}, "rate 20000000bit"),
        ({"bandwidth": "9Mbit"}, {"rate_changes": [{"at": "1s", "rate": "5Mbit"}]}, "rate 20000000bit"),
        ({"overhead": "0B"}, {}, "rate 20000000bit"),
        ({"overhead": "0B"}, {"link_layer": "pppoe-llcsnap"}, "rate 20000000bit"),
        ({"framing": "none"}, {"link_layer": "pppoe-ptm"}, "rate 19692307bit"),
    ],
)
def test_a_shaper_that_may_exceed_its_link_is_below_it(aqm: dict[str, Any], changes: dict[str, Any], link: str) -> None:
    lines = plan(aqm, **changes)
    assert any(line.startswith(f"{HTB} {link}") for line in lines)
    assert any(line.startswith("command tc -n M qdisc add dev m1 parent 1:1 handle 2: cake") for line in lines)
    assert not any("netem rate" in line for line in lines)


def test_the_link_below_a_shaper_counts_what_frames_take() -> None:
    def ends(**changes: Any) -> str:
        return next(line for line in plan({"bandwidth": "50Mbit"}, **changes) if line.startswith(HTB)).split(
            "1514 quantum 1514"
        )[1]

    assert ends() == ""
    assert ends(link_layer="pppoe-llcsnap") == " overhead 26 linklayer atm"
    assert ends(link_layer="ethernet") == " overhead 24 mpu 84"
    assert ends(link_layer="pppoe-ptm") == " overhead 16"
    with pytest.raises(InputError, match=r"bottleneck.overhead is 8 bytes below a shaper; it must be 14 or more"):
        plan({"bandwidth": "50Mbit"}, link_layer="ipoa-vcmux")


def test_changes_of_the_rate_reach_the_link_and_a_shaper_that_follows() -> None:
    changes = {"rate_changes": [{"at": "1s", "rate": "5Mbit"}]}

    def at(aqm: dict[str, Any]) -> str:
        return next(line for line in plan(aqm, **changes) if line.startswith("at "))

    assert at({}) == "at 1000000000 tc -n M qdisc change dev m1 root handle 2: cake bandwidth 5000000bit"
    own = at({"bandwidth": "9Mbit"})
    assert "class change dev m1 parent 1: classid 1:1 htb rate 5000000bit" in own and "cake" not in own
    both = at({"overhead": "0B"})
    assert "htb rate 5000000bit" in both and "parent 1:1 handle 2: cake bandwidth 5000000bit" in both
    unlimited = at({"bandwidth": "0bit"})
    assert "htb rate 5000000bit" in unlimited and "netem rate 5000000bit" in unlimited and "cake" not in unlimited


def test_cake_without_a_rate_has_a_serial_link_like_any_queue() -> None:
    lines = plan({"bandwidth": "0bit"})
    assert "command tc -n L qdisc add dev l1 root handle 1: netem rate 20000000bit limit 10000000" in lines
    assert any(line.startswith(f"{HTB} rate 20000000bit") for line in lines)
    cell = parsed(bottleneck=bottleneck({"bandwidth": "0bit"})).make_cell(0)
    said = "bottleneck.shaper = link: htb that may only catch up 4 us, and a serial link behind it"
    assert said in list_notes([cell], KERNEL)
    assert said not in list_notes([parsed(bottleneck=bottleneck({})).make_cell(0)], KERNEL)
    with pytest.raises(InputError, match=r"bottleneck.link_layer: Linux does not support docsis"):
        plan({"bandwidth": "0bit"}, link_layer="docsis")


@pytest.mark.junk  # the schema does not know which keys go together
def test_keys_of_a_shaper_that_is_not_there_are_refused() -> None:
    with pytest.raises(InputError, match=r"bottleneck.burst is 100000; it must be 1514 without shaper = \"htb\""):
        dumbbell.run(described(bottleneck={"aqm": "codel", "burst": "100kB"}))


@pytest.mark.junk  # nor which queues use a bucket
def test_a_bucket_that_no_run_uses_is_refused() -> None:
    """Cake within its link never waits for the bucket. Above it, or next to a queue that needs a shaper, it counts."""
    bucket = {"shaper": "htb", "burst": "100kB"}
    for aqm in ({}, {"bandwidth": "19Mbit"}):
        with pytest.raises(InputError, match=r"bottleneck.burst: cake shapes by itself .* the bucket does nothing"):
            parsed(bottleneck=bottleneck(aqm, **bucket))
    with pytest.raises(InputError, match=r"reverse.burst: cake shapes by itself"):
        parsed(bottleneck=bottleneck({"bandwidth": "50Mbit"}, **bucket), reverse=bottleneck({}, **bucket))
    for aqm in ({"bandwidth": "50Mbit"}, {"bandwidth": "0bit"}, {"overhead": "0B"}):
        parsed(bottleneck=bottleneck(aqm, **bucket))
    parsed(bottleneck=bottleneck({}, **bucket), matrix={"bottleneck.aqm": ["cake", "codel"]})


def test_what_cake_counts_can_be_less_than_the_link(tmp_path: Path) -> None:
    queues = [{"name": "cake"}, {"name": "cake", "framing": "none"}, {"name": "cake", "overhead": "64B"}]
    table = described(
        duration="4s",
        bottleneck={"rate": "20Mbit", "link_layer": "pppoe-llcsnap", "aqm": "cake"},
        udp=[{"rate": "40Mbit"}],
        flows=[],
        matrix={"bottleneck.aqm": queues},
    )
    results = dumbbell.run(table, output=tmp_path / "x.duckdb")
    used = list(results.runs["utilisation"])
    # 1514 B are 33 cells either way; 1500 + 64 B are 33 cells, as 1540 are
    assert all(0.98 < one <= 1 for one in used)
    # without cells they are 1540 B for 1749: the shaper lets 1.14 times as many leave
    assert results.runs["throughput_mbit"][1] == pytest.approx(20, rel=0.01)


@pytest.mark.parametrize("name", ["hops/shaper-margin", "hops/shaper-overhead"])
def test_the_shipped_experiments_show_what_a_shaper_does(name: str, tmp_path: Path) -> None:
    table = tomllib.loads(list_experiments()[name].read_text()) | {
        "duration": "10s",
        "seeds": [1],
        "record": {"from": "2s"},
    }
    results = dumbbell.run(table, output=tmp_path / "x.duckdb")
    assert max(results.hops["utilisation"]) <= 1
    assert max(results.hops["utilisation"]) > 0.9


@pytest.mark.parametrize("name", ["hops/router-modem", "hops/router-ingress"])
def test_a_router_below_the_line_keeps_the_queue_of_another_box_empty(name: str, tmp_path: Path) -> None:
    table = tomllib.loads(list_experiments()[name].read_text()) | {"duration": "10s", "seeds": [1]}
    ((axis, values),) = table["matrix"].items()
    table["matrix"] = {axis: [values[1], values[-1]]}
    results = dumbbell.run(table, output=tmp_path / "x.duckdb")
    calls = results.tidy("flows").filter(pl.col("cc") == "udp").sort(axis + "_mbit")
    below, without = calls["delay_p99_ms"]
    assert below < 10 and without > 100  # grants of the modem alone; and a queue of 120 ms
    assert max(results.hops["utilisation"]) <= 1


@pytest.mark.slow
@needs_kernel
@needs_tools
@pytest.mark.parametrize(
    ("aqm", "changes"),
    [
        ({"bandwidth": "50Mbit"}, {}),
        ({"bandwidth": "0bit"}, {}),
        ({"bandwidth": "18Mbit"}, {}),
        ({"overhead": "0B", "framing": "none"}, {"link_layer": "pppoe-llcsnap"}),
        ({"bandwidth": "19Mbit"}, {"rate_changes": [{"at": "3s", "rate": "10Mbit"}]}),
    ],
)
def test_linux_and_the_simulator_agree(aqm: dict[str, Any], changes: dict[str, Any], tmp_path: Path) -> None:
    one = parsed(duration="6s", bottleneck=bottleneck(aqm, **changes), flows=[{"cc": "cubic", "base_rtt": "20ms"}])
    for engine in (None, linux.LinuxEngine(kernels.load())):
        report = sweep.run([one], tmp_path / "r", jobs=1, engine=engine, progress=False)
        assert report.done == 1, report.failed
    with Store.open(tmp_path / "r") as store:
        runs, flows = store.read_table("runs"), store.read_table("flows")
    assert all(value <= 1 for value in runs["utilisation"])
    for values, share in ((runs["utilisation"], 0.02), (flows["goodput_mbit"], 0.02), (flows["rtt_mean_ms"], 0.03)):
        assert values[1] == pytest.approx(values[0], rel=share), values.name
