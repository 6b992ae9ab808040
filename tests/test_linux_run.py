"""`dumbbell run --engine linux`: the mapping to Linux, guests that fail, and, where a kernel is built, real ones."""

import copy
import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import dumbbell
from conftest import described, parsed
from dumbbell import _native, scratch
from dumbbell.cli import program
from dumbbell.engines import find_engine, sweep
from dumbbell.engines.linux import engine as linux
from dumbbell.engines.linux import guest, kernels, reach
from dumbbell.engines.linux.controls import MODULES, list_controls
from dumbbell.engines.linux.mapping import list_notes, map_cell, name_by_path
from dumbbell.engines.linux.qdiscs import Qdisc
from dumbbell.engines.sim import Simulator
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.experiment.registry import read_registry
from dumbbell.published import engines
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.store import Store
from real_linux import needs_cc, needs_kernel, needs_tc

QDISCS = ("bfifo", "cake", "codel", "dualpi2", "fq", "fq_codel", "fq_pie", "htb", "netem", "pfifo", "pie", "red")
CONTROLS = ("reno", "cubic", "dctcp", "bbr")


def kernel(folder: Path, script: str = "exit 1", **described: Any) -> kernels.Kernel:
    """Return a kernel that is a shell script: $last is the folder of its run."""
    place = folder / "default"
    place.mkdir(parents=True, exist_ok=True)
    (place / "linux").write_text(f'#!/bin/sh\nfor last; do :; done\ncd "$last" || exit 9\n{script}\n')
    (place / "linux").chmod(0o755)
    whole = {"release": "6.12.1", "digest": "d" * 64, "congestion_controls": CONTROLS, "qdiscs": QDISCS, "recipe": {}}
    (place / "kernel.json").write_text(json.dumps(whole | described))
    return kernels.load()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DUMBBELL_LINUX", str(tmp_path / "linux"))
    return tmp_path / "linux"


def cell(aqm: Any = "codel", *, bottleneck: dict[str, Any] | None = None, **changes: Any) -> Cell:
    table = {"rate": "10Mbit", "aqm": aqm, "shaper": "htb"} | (bottleneck or {})
    return parsed(bottleneck=table, **changes).make_cell(0)


def plan(home: Path, one: Cell) -> list[str]:
    return map_cell(one, kernel(home)).plan.splitlines()


def test_the_guest_runs_the_tools_that_path_has(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tc = tmp_path / "tc"
    tc.write_text("#!/bin/sh\n")
    tc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    changing = cell(bottleneck={"rate_changes": [{"at": "1s", "rate": "5Mbit"}]})
    lines = name_by_path(map_cell(changing, kernel(home)).plan).splitlines()
    texts = [line for line in lines if line.startswith(("command", "at ", "counters"))]
    assert not [line for line in texts if " tc -n" in line]
    assert f"counters {tc} -n M -s -j qdisc show dev m1" in lines
    assert any(line.startswith(f"at 1000000000 {tc} -n M class change") for line in lines)
    assert any(line.startswith("command ip -n") for line in lines)


@pytest.mark.parametrize(
    ("aqm", "options"),
    [
        ({"name": "pfifo", "limit": 50}, "pfifo limit 50"),
        ({"name": "bfifo", "limit": "30kB"}, "bfifo limit 30000"),
        ({"name": "codel", "ecn": True}, "codel ecn"),
        (
            {"name": "codel", "limit": 7, "target": "1ms", "interval": "20ms", "ecn": False, "ce_threshold": "500us"},
            "codel limit 7 target 1000us interval 20000us noecn ce_threshold 500us",
        ),
        ({"name": "step", "threshold": "3ms"}, "codel target 100s interval 1000s ecn ce_threshold 3000us"),
        (
            {"name": "fq_codel", "flows": 64, "ce_threshold": "1ms", "ce_threshold_selector": "ect1"},
            "fq_codel flows 64 ce_threshold 1000us ce_threshold_selector 0x1/0x3",
        ),
        (
            {"name": "pie", "target": "20ms", "dq_rate_estimator": False, "bytemode": True},
            "pie target 20000us bytemode no_dq_rate_estimator",
        ),
        ({"name": "fq_pie", "ecn": True, "ecn_prob": 50}, "fq_pie ecn_prob 50 ecn"),
        (
            {"name": "red", "limit": "100kB", "min": "10kB", "max": "30kB", "ecn": True, "bandwidth": "5Mbit"},
            "red limit 100000 min 10000 max 30000 avpkt 1000 bandwidth 5000000bit ecn",
        ),
        (
            {"name": "cake", "diffserv": "besteffort", "isolation": "flowblind", "overhead": "18B", "framing": "atm"},
            "cake bandwidth 10000000bit besteffort flowblind overhead 18 atm no-split-gso",
        ),
        ({"name": "cake", "ingress": False, "framing": "none"}, "cake bandwidth 10000000bit noatm egress no-split-gso"),
        ({"name": "dualpi2", "step_thresh": "2ms", "drop": "dequeue"}, "dualpi2 step_thresh 2000us drop_dequeue"),
    ],
)
def test_queue_disciplines_in_the_words_of_tc(home: Path, aqm: Any, options: str) -> None:
    place = "root" if aqm["name"] == "cake" else "parent 1:1"
    assert f"command tc -n M qdisc add dev m1 {place} handle 2: {options}" in plan(home, cell(aqm))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"aqm": "csaqm"}, "bottleneck.aqm: Linux does not support csaqm; use one of pfifo"),
        ({"aqm": "pi2"}, "bottleneck.aqm: Linux does not support pi2"),
        (
            {"aqm": {"name": "cake", "sce": "on"}},
            "bottleneck.aqm.sce: Linux does not support on; use off",
        ),
        (
            {"aqm": {"name": "codel", "control_law": "rfc8289"}},
            "bottleneck.aqm.control_law: Linux does not support rfc8289",
        ),
        (
            {"aqm": {"name": "codel", "target": "1500ns"}},
            "bottleneck.aqm.target is 1500 ns; it must be whole microseconds",
        ),
        ({"aqm": {"name": "red", "wlog": 0}}, "bottleneck.aqm.wlog: Linux does not support 0"),
        (
            {"bottleneck": {"aqm": {"name": "red", "adaptive": True}}},
            "bottleneck.aqm.adaptive: Linux does not support true, whose timer",
        ),
        ({"bottleneck": {"path": ["loss"]}}, "bottleneck.path: Linux does not support stages"),
        ({"flows": [{"cc": "prague"}]}, r"flows\[0\].cc: this kernel does not support prague; use one of reno"),
        ({"flows": [{"cc": "cubic", "jitter": "1ms"}]}, r"flows\[0\].jitter: Linux does not support 1ms"),
        (
            {"flows": [{"cc": {"name": "reno", "abe": True}}]},
            r"flows\[0\].cc.abe: Linux does not support true",
        ),
        (
            {"flows": [{"cc": {"name": "cubic", "beta": 600}}, {"cc": {"name": "cubic", "beta": 700}}]},
            r"flows\[0\].cc.beta: two values of beta in one run",
        ),
        (
            {"flows": [{"cc": "cubic"}, {"cc": {"name": "cubic", "beta": 600}}]},
            r"flows\[0\].cc.beta: two values of beta in one run",
        ),
        (
            {"hosts": {"prr": "rfc6937"}},
            "hosts.prr: Linux does not support rfc6937; use rfc6937bis",
        ),
        ({"hosts": {"opener": "receiver"}}, "hosts.opener: Linux does not support receiver"),
        ({"hosts": {"rto_min": "200500us"}}, "hosts.rto_min is 200500000 ns; it must be whole ms"),
        (
            {"flows": [{"cc": {"name": "cubic", "hystart_ack_delta": "1500ns"}}]},
            r"flows\[0\].cc.hystart_ack_delta is 1500 ns; it must be whole us",
        ),
        (
            {"flows": [{"cc": {"name": "cubic", "hystart": "5.5"}}]},
            r"flows\[0\].cc.hystart: this kernel does not support 5.5; use off or 5.6",
        ),
        ({"record": {"trace": "1s"}}, "record.trace: Linux does not support traces"),
        (
            {"flows": [{"cc": "cubic", "count": 60_000}]},
            "flows: 60000 flows in one run are too many; at most 50000 are allowed",
        ),
    ],
)
def test_what_linux_lacks_is_refused_before_anything_runs(home: Path, changes: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError, match=f"^{found}"):
        map_cell(cell(**changes), kernel(home))


def test_links_of_the_simulator_are_refused_by_name(home: Path) -> None:
    named = parsed(bottleneck={"rate": "10Mbit", "aqm": "codel", "link": "wifi"}).make_cell(0)
    with pytest.raises(InputError, match=r"^bottleneck.link: Linux does not support the link wifi; use shaper"):
        map_cell(named, kernel(home))


def test_each_base_rtt_has_its_own_delays(home: Path) -> None:
    flows = [{"cc": "cubic", "base_rtt": f"{rtt}ms", "ecn": rtt % 2 == 0} for rtt in (20, 7, 20)]
    lines = plan(home, cell(flows=flows))
    assert "command tc -n D qdisc add dev d1 parent 1:1 netem delay 3500us limit 10000000" in lines
    assert "command tc -n D qdisc add dev d0 parent 1:2 netem delay 10000us limit 10000000" in lines
    assert (
        "command tc -n D filter add dev d0 protocol ip prio 1 parent 1: u32 match u16 0x0001 0x000f at 20 flowid 1:2"
        in lines
    )
    # number, start, stop, size, source, target (10.3: with ECN), port (of the RTT), congestion control, type of service
    senders = [line for line in lines if line.startswith("tcp ")]
    assert senders == [
        "tcp 0 0 -1 -1 10.1.0.1 10.3.0.1 16385 cubic 0",
        "tcp 1 0 -1 -1 10.1.0.1 10.2.0.1 16384 cubic 0",
        "tcp 2 0 -1 -1 10.1.0.1 10.3.0.1 16385 cubic 0",
    ]
    # more than 16 need two levels of bands
    many = plan(home, cell(flows=[{"cc": "cubic", "base_rtt": f"{rtt}ms"} for rtt in range(1, 19)]))
    assert "command tc -n D qdisc add dev d1 parent 11:2 netem delay 9000us limit 10000000" in many
    assert (
        "command tc -n D filter add dev d1 protocol ip prio 1 parent 1: u32 match u16 0x0010 0x00f0 at 22 flowid 1:2"
        in many
    )


def test_starts_and_short_flows_are_those_of_the_simulator(home: Path) -> None:
    flows = [{"cc": "cubic", "start": {"uniform": ["0s", "1s"]}}]
    one = cell(
        flows=flows,
        web=[{"cc": "reno", "arrivals": "20/s", "stop": "1s"}],
        udp=[{"rate": "1Mbit", "ecn": "ect1", "dscp": 46}],
    )
    lines = plan(home, one)
    with Store.open(_simulated(home, one)) as store:
        start = store.read_table("flows")["start_s"][0]
        short = store.read_table("short_flows").sort("flow")
    senders = [line.split() for line in lines if line.startswith("tcp ")]
    assert float(senders[0][2]) / 1e9 == pytest.approx(start, abs=1e-9)
    assert [(int(s[1]), int(s[4])) for s in senders[1:]] == list(zip(short["flow"], short["size_bytes"], strict=True))
    assert [float(s[2]) / 1e9 for s in senders[1:]] == pytest.approx(short["start_s"].to_list(), abs=1e-9)
    # 1514 B at 1 Mbit/s are 12.112 ms apart; 1514 - 42 B of payload; DSCP 46 and ECT(1) are 46 * 4 + 1
    assert "udp 1 0 -1 12112000.0 1472 0 10.1.0.1 10.2.0.1 49152 185 0" in lines
    assert "sink R 10.2.0.1 49152" in lines


def _simulated(home: Path, *cells: Cell) -> Path:
    path = home.parent / "simulated.duckdb"
    with Store.open(path, write=True) as store:
        store.add(Finished(one, MeasuredRun(0.1, _native.run(one.config, _native.Cancel()))) for one in cells)
    return path


def test_shapers_rate_changes_and_hosts(home: Path) -> None:
    bottleneck = {"shaper": "link", "rate_changes": [{"at": "1s", "rate": "5Mbit"}]}
    hosts = {"offload": "gso", "delayed_ack": False, "frto": False, "mss": "1000B", "pacing": "fq", "initial_window": 4}
    lines = plan(home, cell("pfifo", bottleneck=bottleneck, hosts=hosts))
    # what the link sends in 4 us
    htb = "rate 10000000bit ceil 10000000bit burst 5 cburst 5 quantum 1514"
    assert f"command tc -n M class add dev m1 parent 1: classid 1:1 htb {htb}" in lines
    assert "command tc -n L qdisc add dev l1 root handle 1: netem rate 10000000bit limit 10000000" in lines
    change = next(line for line in lines if line.startswith("at 1000000000 "))
    slower = htb.replace("10000000", "5000000").replace("burst 5", "burst 2")
    assert slower in change and "netem rate 5000000bit" in change
    assert htb.replace("burst 5", "burst 1514") in "\n".join(plan(home, cell("pfifo", bottleneck={"shaper": "htb"})))
    assert "offload L l0 1 1 1 1052" in lines and "mss 1000" in lines
    text = "\n".join(lines)
    assert "mtu 1052" in text and "initcwnd 4" in text and "quickack 1" in text and "dev s0 root handle 2: fq" in text
    assert "echo 0 >ipv4/tcp_frto" in text
    # bursts of the sender alone: they are cut where they leave it
    alone = plan(home, cell(hosts={"offload": "tso"}))
    assert "offload S s0 0 0 0 1500" in alone and "gso_max_segs" not in " ".join(alone)
    assert "command ip -n S link set dev s0 gso_max_segs 1" in plan(home, cell(hosts={"offload": "none"}))


def test_what_is_nearly_the_same_is_said_and_names_follow_the_kernel(home: Path) -> None:
    plain, other = cell(), cell({"name": "step"}, hosts={"profile": "linux-5.4"}, bottleneck={"shaper": "link"})
    assert list_notes([plain], kernel(home)) == []
    assert len(list_notes([plain, other], kernel(home))) == 3
    assert list_controls(kernel(home))["bbr1"] == "bbr"
    assert list_controls(kernel(home, recipe={"patches": ["0002-BBR3.patch"]}))["bbr3"] == "bbr"
    assert list_controls(kernel(home, bbr=3))["bbr3"] == "bbr"
    assert list_controls(kernel(home, bbr=1, recipe={"patches": ["next-to-bbr3.patch"]}))["bbr1"] == "bbr"
    tuned = cell(flows=[{"cc": {"name": "cubic", "hystart": "off", "beta": 614}}])
    assert map_cell(tuned, kernel(home)).arguments == ("tcp_cubic.beta=614", "tcp_cubic.hystart=0")


FULL = ((0, 2**62), (7, 0), (3, None))
"""Drops of a full queue among 7, and the packets that then fit."""


def test_counters_of_tc_are_summed_over_tins() -> None:
    tins = [{"drops": 1, "ecn_mark": 2, "bulk": "x"}, {"drops": 3, "ecn_mark": 4}]
    said = [
        {"kind": "htb", "handle": "1:", "drops": 9},
        {"kind": "cake", "handle": "2:", "drops": 4, "options": {}, "tins": tins},
    ]
    assert linux.read_counters(linux.find_discipline(json.dumps(said), "cake")) == {"drops": 4, "ecn_mark": 6}
    with pytest.raises(RuntimeError, match="no pie with the handle 2:"):
        linux.find_discipline(json.dumps(said), "pie")


@pytest.mark.parametrize(
    ("kind", "full", "said", "limit"),
    [
        *(("pfifo", "at drops", {"drops": 7}, 0), ("codel", "at limit", {"options": {"limit": 60}, "drops": 7}, 60)),
        ("fq_pie", "at limit", {"options": {"limit": 60}, "drops": 7, "overmemory": 0}, 60),
        ("fq_pie", "at limit", {"options": {"limit": 60}, "drops": 7, "overmemory": 1}, None),
        # whether drops are because it was full is known of all of them or of none, if the counters show it
        *(("fq_codel", "as counted", {"drops": 7, "drop_overlimit": n}, limit) for n, limit in FULL),
        *(("red", "as counted", {"drops": 7, "pdrop": n}, limit) for n, limit in FULL),
        ("cake", "as counted", {"drops": 7, "memory_used": 9, "memory_limit": 9}, 2**62),
        ("cake", "as counted", {"drops": 7, "memory_used": 10, "memory_limit": 9}, None),
    ],
)
def test_packets_that_fit_are_known_from_limits_and_counters(
    kind: str, full: Any, said: dict[str, Any], limit: int | None
) -> None:
    assert linux._find_limit(Qdisc(kind, "", True, full=full), said) == limit


@pytest.mark.slow
@needs_kernel
@needs_cc
@needs_tc
def test_drops_of_full_queues_are_those_that_the_kernel_counts(tmp_path: Path) -> None:
    counters = {"pie": "overlimit", "fq_pie": "overlimit", "codel": "drop_overlimit", "fq_codel": None}
    one = parsed(
        duration="4s",
        hosts={"ecn": False},
        bottleneck={"rate": "20Mbit", "aqm": "pie"},
        flows=[{"cc": "cubic", "base_rtt": "40ms", "count": 8}],
        matrix={"bottleneck.aqm": [{"name": name, "limit": 60} for name in counters]},
    )
    report = sweep.run([one], tmp_path / "a", jobs=1, engine=linux.LinuxEngine(kernels.load()), progress=False)
    assert report.done == len(counters), report.failed
    with Store.open(tmp_path / "a") as store:
        runs = store.read_table("runs")
    for row in runs.iter_rows(named=True):
        name = json.loads(row["config"])["bottleneck"]["aqm"]["name"]
        told = json.loads(row["aqm_counters"])
        if counters[name] is None:
            assert 0 < told["drop_overlimit"] < told["drops"] and row["drops_overflow"] is row["drops_aqm"] is None
        else:  # one or two packets come after the end of the run
            assert row["drops_overflow"] == pytest.approx(told[counters[name]], abs=2) and row["drops_overflow"] > 20
            assert row["drops_overflow"] + row["drops_aqm"] == row["drops"]


@pytest.mark.slow
@needs_kernel
@needs_cc
@needs_tc
@pytest.mark.parametrize("shaper", ["link", "htb"])
def test_as_many_packets_fit_on_linux_as_in_the_simulator(shaper: str, tmp_path: Path) -> None:
    """Over a queue of five packets, one more would lower the drops by a third."""
    one = parsed(
        duration="20s",
        record={"from": "8s"},
        bottleneck={"rate": "6.2Mbit", "aqm": {"name": "pfifo", "limit": 5}, "shaper": shaper},
        flows=[{"cc": "reno", "base_rtt": "40ms", "count": 2, "start": {"uniform": ["0s", "100ms"]}}],
        seeds=[1, 2],
    )
    found = []
    for name, engine in (("sim", Simulator()), ("linux", linux.LinuxEngine(kernels.load()))):
        report = sweep.run([one], tmp_path / name, jobs=1, engine=engine, progress=False)
        assert report.done == 2, report.failed
        with Store.open(tmp_path / name) as store:
            found.append(store.read_table("runs").select(pl.mean("drops", "utilisation")).row(0))
    assert found[0] == pytest.approx(found[1], rel=0.1)


def test_code_of_the_program_is_without_comments_and_white_space() -> None:
    text = 'int a = 2; /* two\n lines */ char *s = "// no \\" comment"; // a comment\nint b = a / 2;'
    before = guest.digest_code(text)
    for one, other in (
        ("two", "2"),
        ("// a comment", "// another 'comment"),
        ("/ 2", "/2"),
        ("int b", "int\n\n b"),
        (";", " ;"),
    ):
        assert guest.digest_code(text.replace(one, other)) == before, (one, other)
    for one, other in (("a / 2", "a / 3"), ("a / 2", "a * 2"), ("no \\", "yes \\"), ("// no", "no"), ("int b", "intb")):
        assert guest.digest_code(text.replace(one, other)) != before, (one, other)


def test_keys_depend_on_kernel_program_mapping_and_measuring(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = linux.LinuxEngine(kernel(home)).version
    assert first.startswith("linux-6.12.1+dddddddd.")
    assert linux.LinuxEngine(kernel(home, digest="e" * 64)).version != first
    with monkeypatch.context() as changed:
        changed.setattr(linux, "VERSION", 0)
        assert linux.LinuxEngine(kernel(home)).version != first
    with monkeypatch.context() as changed:
        changed.setattr("dumbbell.engines.linux.guest.compute_code_digest", lambda: "other")
        assert linux.LinuxEngine(kernel(home)).version != first
    with monkeypatch.context() as changed:
        changed.setattr("dumbbell._native.measuring_version", lambda: "00000000")
        assert linux.LinuxEngine(kernel(home)).version != first
    assert linux.LinuxEngine(kernel(home)).version == first
    one = cell()
    assert dataclasses.replace(one, engine=first).key != one.key
    assert dataclasses.replace(one, engine=first).cell_key == one.cell_key


# guests that are shell scripts


def run(home: Path, script: str, **options: Any) -> sweep.SweepReport:
    chosen = linux.LinuxEngine(kernel(home, script))
    return sweep.run([parsed()], home.parent / "r.duckdb", jobs=1, engine=chosen, progress=False, **options)


@needs_cc
@needs_tc
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("printf 'tc qdisc add x: Error: Unknown\\nqdisc' >failed", r"tc qdisc add x: Error: Unknown\nqdisc"),
        (
            "echo 'Kernel panic - not syncing: no init'",
            "the guest ended too early: Kernel panic - not syncing: no init",
        ),
        ("exit 3", "the guest ended too early: it printed nothing"),
        ("echo 5 >done; echo '[]' >counters; touch arrived sent samples", "tc qdisc show: no codel with the handle 2:"),
        (
            """echo 5 >done; echo '[{"kind": "codel", "handle": "2:", "options": {"limit": 1000}}]' >counters
            head -c 32 /dev/zero >sent; touch arrived samples""",
            "capture: flow 0: a packet left the queue at 0s that had not arrived",
        ),
        ("echo 5 >done", r"counters: No such file or directory"),
    ],
)
def test_guests_that_fail_say_why_in_one_line_and_leave_nothing(home: Path, script: str, said: str) -> None:
    failures: list[str] = []
    report = run(home, script, on_failure=lambda _, text: failures.append(text))
    assert report.done == 0 and len(failures) == 1 and said in failures[0].replace("\n", r"\n")
    assert list((home / "runs").iterdir()) == []


@needs_cc
@needs_tc
def test_a_guest_that_stands_still_is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "STALL_S", 0.2)
    failures: list[str] = []
    run(home, "sleep 1000", on_failure=lambda _, text: failures.append(text))
    assert (
        len(failures) == 1
        and failures[0].startswith("the guest made no progress for ")
        and "before the start" in failures[0]
    )
    assert list((home / "runs").iterdir()) == []


@pytest.mark.slow
@needs_cc
@needs_tc
@pytest.mark.parametrize("signal", ["INT", "KILL"])
def test_nothing_is_left_of_a_sweep_that_ends(home: Path, signal: str) -> None:
    kernel(home, "echo $$ >../child; exec sleep 1000")
    text = "duration = '2s'\n[bottleneck]\naqm = 'codel'\n[[flows]]\ncc = 'cubic'\n"
    (home.parent / "one.toml").write_text(text)
    command = [sys.executable, "-m", "dumbbell", "run", "one.toml", "--engine", "linux", "-o", "r.duckdb"]
    process = subprocess.Popen(command, cwd=home.parent, stderr=subprocess.DEVNULL)
    child = home / "runs" / "child"
    _until(lambda: child.exists() and child.read_text().strip() != "")
    guest = int(child.read_text())
    process.send_signal(getattr(__import__("signal"), f"SIG{signal}"))
    process.wait(timeout=20)
    _until(lambda: not _running(guest))
    left = [one for one in (home / "runs").iterdir() if one.name != "child"]
    assert len(left) == (1 if signal == "KILL" else 0)
    scratch.clear(home / "runs")
    assert not [one for one in (home / "runs").iterdir() if one.name != "child"]


def _until(holds: Any, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def _running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("text", ["", "lnx", "linux:", "Linux", "sim:x"])
def test_engines_that_there_are_not(text: str) -> None:
    with pytest.raises(
        InputError, match=r"engine: unknown engine .*(hoose from sim, linux, linux:NAME|did you mean sim\?)"
    ):
        find_engine(text)


def test_from_python_the_engine_is_named_alike(home: Path) -> None:
    kernel(home)
    described = {"duration": "1s", "bottleneck": {"aqm": "csaqm"}, "flows": [{"cc": "cubic"}]}
    with pytest.raises(InputError, match=r"experiment: bottleneck.aqm: Linux does not support csaqm"):
        dumbbell.run(described, engine="linux")


def test_notes_stand_beside_shown_commands(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel(home)
    (tmp_path / "one.toml").write_text(
        'duration = "1s"\n[bottleneck]\nrate = "10Mbit"\naqm = "codel"\nshaper = "link"\n'
        '[[flows]]\ncc = "cubic"\nbase_rtt = "20ms"\n'
    )
    line = ["dumbbell", "run", str(tmp_path / "one.toml"), "--engine", "linux", "--show-commands"]
    monkeypatch.setattr("sys.argv", line)
    with pytest.raises(SystemExit) as left:
        program.main()
    said = capsys.readouterr()
    assert left.value.code == 0 and "codel" in said.out
    assert "not quite the same on Linux: bottleneck.shaper = link: " in said.err


def test_commands_are_shown_without_a_kernel_and_without_tc(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.toml").write_text(
        'duration = "1s"\n[bottleneck]\nrate = "10Mbit"\naqm = { name = "codel", target = "7ms" }\n'
        '[[flows]]\ncc = "cubic"\nbase_rtt = "20ms"\n'
    )
    monkeypatch.setenv("PATH", "")
    for words, status, out, err in (
        (
            ["linux", "--show-commands"],
            0,
            "handle 2: codel target 7000us\n",
            "no kernel is built: these commands are for",
        ),
        (
            ["linux:mine", "--show-commands"],
            2,
            "",
            "unknown kernel mine; build it with dumbbell linux build --name mine",
        ),
        (["linux", "--show-commands", "--dry-run"], 2, "", "--show-commands and --dry-run cannot be combined"),
        (["linux", "--show-commands", "--jobs", "2"], 2, "", "--show-commands and --jobs cannot be combined"),
    ):
        monkeypatch.setattr("sys.argv", ["dumbbell", "run", str(tmp_path / "one.toml"), "--engine", *words])
        with pytest.raises(SystemExit) as left:
            program.main()
        said = capsys.readouterr()
        assert left.value.code == status
        assert out in said.out and err in said.err
    assert not home.exists()


def test_without_a_kernel_the_remedy_is_said(home: Path) -> None:
    with pytest.raises(InputError, match=r"unknown kernel .*; build it with dumbbell linux build"):
        find_engine("linux")
    assert isinstance(find_engine("sim"), Simulator)
    assert not home.exists()


# results of two engines


def test_two_engines_in_one_file_are_told_apart_and_compared(tmp_path: Path) -> None:
    cells = list(parsed(matrix={"flows[0].cc": ["cubic", "bbr1"]}).make_cells())
    path = tmp_path / "r.duckdb"
    ran = {one.key: _native.run(one.config, _native.Cancel()) for one in cells}
    with Store.open(path, write=True) as store:
        store.add(Finished(one, MeasuredRun(0.1, ran[one.key])) for one in cells)
        others = [dataclasses.replace(one, engine="linux-6.12.1+a.b") for one in cells]
        store.add(Finished(one, MeasuredRun(0.1, ran[cells[n].key], '{"kernel": 1}')) for n, one in enumerate(others))
    assert dumbbell.open(path).engines == [dumbbell.engine_version()]
    assert dumbbell.open(path).engine("linux").engines == ["linux-6.12.1+a.b"]
    assert dumbbell.open(path).engine("sim").engines == [dumbbell.engine_version()]
    assert len(dumbbell.open(path).engine("all")) == 4
    with Store.open(path) as store:
        assert store.read_table("runs")["kernel"].null_count() == 2
    compared = engines.compare(path)
    assert compared.engines == (dumbbell.engine_version(), "linux-6.12.1+a.b") and compared.alone == 0
    assert [pair.with_bbr for pair in compared.pairs] == [False, True]
    assert all(pair.compute_error(index) == 0 for pair in compared.pairs for index in range(3))
    assert "100 % within 6 %" in engines.format_scores(compared) and "bbr1" in engines.format_table(compared)
    with pytest.raises(InputError, match="engines: found no runs of live; give runs of two engines; there are"):
        engines.compare(path, engines=("sim", "live"))


def test_runs_in_real_time_that_were_too_late_are_not_compared(tmp_path: Path) -> None:
    cells = list(parsed(seeds=[1, 2], matrix={"flows[0].cc": ["cubic", "reno"]}).make_cells())
    path = tmp_path / "r.duckdb"
    ran = {one.key: _native.run(one.config, _native.Cancel()) for one in cells}
    others = [dataclasses.replace(one, engine=f"{kind}-a") for kind in ("live", "linux") for one in cells]
    with Store.open(path, write=True) as store:
        store.add(Finished(one, MeasuredRun(0.1, ran[one.key])) for one in cells)
        store.add(Finished(one, MeasuredRun(0.1, ran[cells[n % 4].key])) for n, one in enumerate(others))
    with pytest.raises(InputError, match="engines: there are runs of linux and of live; use engine with one of"):
        engines.compare(path)
    # one run of the first cell, and both of the second
    late = [others[n].key for n in (1, 2, 3)]
    with duckdb.connect(path) as file:
        file.execute("ALTER TABLE runs ADD COLUMN valid INTEGER")
        file.execute("UPDATE runs SET valid = CASE WHEN list_contains(?, key) THEN 0 ELSE 1 END", [late])
    compared = engines.compare(path, engines=("sim", "live"))
    assert [(pair.ccs, pair.seeds) for pair in compared.pairs] == [(("cubic", "reno"), (2, 1))]
    assert compared.invalid == 3 and compared.alone == 1
    assert "In real time 3 runs were too late to count" in engines.format_markdown(compared)
    assert "100 % within 10 %" in engines.format_scores(compared) and "100 % within 3 %" in engines.format_scores(
        compared
    )
    compared = engines.compare(path, engines=("sim", "linux"))
    assert compared.invalid == 0 and [pair.seeds for pair in compared.pairs] == [(2, 2), (2, 2)]


def test_errors_are_over_the_rate_or_the_second_engine() -> None:
    pair = engines.EnginePair("c", ("reno",), 10.0, (9.0, 30.0, 4.0), (9.5, 25.0, 5.0), (1, 1))
    # (9 - 9.5) / 10; (30 - 25) / 25; (4 - 5) / 5
    assert [pair.compute_error(index) for index in range(3)] == pytest.approx([-0.05, 0.2, -0.2])


# real guests


@pytest.mark.slow
@needs_kernel
@needs_cc
@needs_tc
@pytest.mark.parametrize("aqm", ["pie", "fq_codel"])
def test_the_same_seed_is_the_same_run_on_linux(aqm: str, tmp_path: Path) -> None:
    one = parsed(
        duration="4s",
        bottleneck={"rate": "10Mbit", "aqm": aqm, "shaper": "htb"},
        flows=[{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "reno", "base_rtt": "8ms", "stop": "2s"}],
        web=[{"cc": "cubic", "arrivals": "5/s", "size": "20kB", "stop": "2s"}],
        udp=[{"rate": "500kbit", "spacing": "poisson"}],
    )
    chosen = linux.LinuxEngine(kernels.load())
    hashes = []
    for name in ("a", "b"):
        report = sweep.run([one], tmp_path / name, jobs=1, engine=chosen, progress=False)
        assert report.done == 1, report.failed
        with Store.open(tmp_path / name) as store:
            runs, flows = store.read_table("runs"), store.read_table("flows")
            short = store.read_table("short_flows")
        hashes.append(runs["hash"][0])
    assert hashes[0] == hashes[1]
    assert runs["utilisation"][0] > 0.7 and json.loads(runs["kernel"][0])["iproute2"]
    assert flows["rtt_min_ms"][0] == pytest.approx(20, abs=0.7) and flows["rtt_min_ms"][1] == pytest.approx(8, abs=0.7)
    # 500 kbit/s of frames of 1514 B, 42 B of them headers; of 165 in a Poisson process 8 % are a standard deviation
    assert flows["goodput_mbit"][2] == pytest.approx(0.5 * 1472 / 1514, rel=0.35)
    # all of them end: over PIE one waits for a timeout more than once, until 3.4 s
    assert short["completion_s"].is_not_nan().all()


@pytest.mark.slow
@needs_kernel
@needs_cc
@needs_tc
def test_delay_and_jitter_of_udp_are_those_of_the_simulator(tmp_path: Path) -> None:
    """Two sources whose packets meet now and then: one waits for the other on the link."""
    udp = [{"rate": "1Mbit"}, {"rate": "3Mbit", "size": "500B", "start": "1s"}]
    one = parsed(duration="5s", bottleneck={"rate": "10Mbit", "aqm": "pfifo", "shaper": "link"}, flows=[], udp=udp)
    for engine in (None, linux.LinuxEngine(kernels.load())):
        report = sweep.run([one], tmp_path / "r", jobs=1, engine=engine, progress=False)
        assert report.done == 1, report.failed
    with Store.open(tmp_path / "r") as store:
        flows = store.read_table("flows")
    # frames of 1514 and 500 B take 1.2112 and 0.4 ms at 10 Mbit/s
    assert flows["delay_min_ms"].to_list() == pytest.approx([1.2112, 0.4] * 2, abs=0.001)
    for measure in ("delay_mean_ms", "delay_p95_ms", "delay_max_ms", "jitter_mean_ms", "jitter_ms"):
        ours, theirs = flows[measure].to_list()[:2], flows[measure].to_list()[2:]
        # the clock of User-Mode Linux has steps of 256 ns: one meeting of 400 packets may end otherwise
        assert theirs == pytest.approx(ours, rel=0.03) and min(ours) > 0.01, measure


@pytest.mark.slow
@needs_kernel
@needs_cc
@needs_tc
def test_flows_without_a_socket_count_no_timeouts() -> None:
    flows = [{"cc": "reno", "base_rtt": "20ms"}, {"cc": "reno", "base_rtt": "20ms", "start": "400ms"}]
    cells = [
        parsed(duration="500ms", bottleneck={"rate": "10Mbit", "aqm": "pfifo"}, flows=flows[:count], udp=udp).make_cell(
            0
        )
        for count in (1, 2)
        for udp in ([], [{"rate": "1Mbit"}])
    ]
    # no file may say that the second flow begins after the end: the engine is told so past the checks of files
    for number in (2, 3):
        groups = copy.deepcopy(cells[number].groups)  # cells share their tables
        groups["flows"][1]["start"] = {"min": 600_000_000, "max": 600_000_000}
        cells[number] = dataclasses.replace(cells[number], groups=groups)
    with linux.LinuxEngine(kernels.load()).open_workers(1) as guests:
        futures = [guests.submit(one, _native.Progress()) for one in cells]
        results = [future.result().result for future in futures]
    # runs go into the store together, so all have the same columns
    found = pa.table(dict(_native.gather(results))["flows"])
    assert max(found["start_s"].to_pylist()) == 0.5 and not any(found["timeouts"].to_pylist())


@pytest.mark.slow
@needs_kernel
@needs_cc
@needs_tc
@pytest.mark.parametrize("aqm", ["codel", "fq_codel", "fq_pie", "cake"])
def test_the_kernels_own_defaults_are_ours(aqm: str, tmp_path: Path) -> None:
    """A run that sets every key to the default and one that sets nothing are the same; module parameters are below."""
    table: dict[str, Any] = {"bottleneck": {"rate": "10Mbit", "aqm": aqm, "shaper": "htb"}, "flows": [{"cc": "cubic"}]}
    settings: dict[str, Any] = {}
    for key in reach.list_keys():
        value = reach.read_default(key.param)
        if key.owner in (aqm, "hosts") and key.name != "hosts.profile" and value is not None:
            settings[key.place + key.param.name] = value
    bare, whole = parsed(duration="2s", **table), parse(described(duration="2s", **table), "whole", settings)
    chosen = linux.LinuxEngine(kernels.load())
    for one in (bare, whole):
        report = sweep.run([one], tmp_path / "r", jobs=1, engine=chosen, progress=False)
        assert report.done == 1, report.failed
    with Store.open(tmp_path / "r") as store:
        runs = store.read_table("runs")
    assert runs.height == 2 and runs["cell"].n_unique() == 1
    assert runs["hash"].n_unique() == 1 and runs["utilisation"][0] > 0.5


@needs_kernel
@needs_cc
@needs_tc
def test_the_defaults_of_the_kernels_modules_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    # not by two runs: what is on a kernel's command line is part of the seed of its random numbers
    names = {
        module: convert(read_registry().cc[cc].params[key].default)
        for cc, taken in MODULES.items()
        for key, (module, convert) in taken.items()
        if cc != "bbr2"
    }
    files = " ".join(f"/sys/module/{name.replace('.', '/parameters/')}" for name in names)
    asked = f"command exec >&2; cat {files}; exit 1\n"

    def asking(one: Cell, kernel: kernels.Kernel) -> Any:
        made = map_cell(one, kernel)
        return dataclasses.replace(made, plan=asked + made.plan)

    monkeypatch.setattr(linux, "map_cell", asking)
    with linux.LinuxEngine(kernels.load()).open_workers(1) as guests:
        error = guests.submit(parsed().make_cell(0), _native.Progress()).exception()
    said = str(error).rpartition("exit 1: ")[2].split()
    assert dict(zip(names, map(int, said), strict=True)) == names
