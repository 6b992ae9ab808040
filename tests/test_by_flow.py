"""Cells of several flows, each with its own congestion control and base RTT, and the verdict on them."""

import json
from pathlib import Path

import pytest

import dumbbell
from conftest import Command
from dumbbell import experiment
from dumbbell.errors import InputError
from dumbbell.experiment import shipped
from dumbbell.published import by_flow
from dumbbell.published.compare import Cell
from dumbbell.results.results import StoredResults

ROOT = Path(__file__).parent.parent
HEADER = (
    "kernel,bottleneck.aqm,hosts.ecn,bottleneck.rate,duration,seed,flow,flows.cc,flows.base_rtt,goodput_mbit,"
    "rtt_mean_ms,retransmissions,ce_reported,drops,ce_marks_c,sojourn_mean_c_ms,sojourn_mean_l_ms,flows.cc.ect\n"
)
# 10 Mbit/s: Prague beside CUBIC with two seeds; DCTCP of either codepoint; three flows of two kinds
ROWS = """\
6,fq_codel,false,10Mbit,3s,1,0,prague,10ms,4.0,12,0,100,5,0,6,0.5,
6,fq_codel,false,10Mbit,3s,1,1,cubic,20ms,5.0,30,3,7,5,0,6,0.5,
6,fq_codel,false,10Mbit,3s,2,0,prague,10ms,4.4,14,0,140,7,0,8,0.7,
6,fq_codel,false,10Mbit,3s,2,1,cubic,20ms,5.0,30,3,7,7,0,8,0.7,
6,fq_codel,true,10Mbit,3s,1,0,dctcp,10ms,9.0,20,0,300,0,310,5,0,0
6,fq_codel,true,10Mbit,3s,1,0,dctcp,10ms,9.0,20,0,300,0,0,0,0.6,1
6,fq_codel,true,10Mbit,3s,1,0,reno,10ms,3.0,20,0,50,0,90,5,0,
6,fq_codel,true,10Mbit,3s,1,1,reno,10ms,3.4,22,0,50,0,90,5,0,
6,fq_codel,true,10Mbit,3s,1,2,cubic,10ms,3.1,21,0,50,0,90,5,0,
"""
BOTTLENECK = 'duration = "3s"\n[bottleneck]\nrate = "10Mbit"\nshaper = "htb"\naqm = "fq_codel"\n'


def flow(cc: str, rtt: str = "10ms", count: int = 1) -> str:
    return f'[[flows]]\ncc = "{cc}"\nbase_rtt = "{rtt}"\ncount = {count}\n'


def named(cell: Cell) -> tuple[str, str, float]:
    words = dict(cell)
    return words["ccs"], words["rtts_ms"], words["ecn"]


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    path = tmp_path / "linux-6.18-l4s.csv"
    path.write_text(HEADER + ROWS)
    return path


def test_a_file_may_say_the_same_by_keys(reference: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    header = "bottleneck.aqm,bottleneck.rate,hosts.ecn,duration,seed,flow,flows.cc,flows.base_rtt,flows.start,"
    header += "goodput_mbit,rtt_mean_ms,drops,ce_marks_c,ce_reported\n"
    rows = ["prague,10ms,0s,4.2,13,6,0,120", "cubic,20ms,1s,5.0,30,6,0,7"]
    keys.write_text(header + "".join(f"fq_codel,10Mbit,false,3s,1,{n},{row}\n" for n, row in enumerate(rows)))
    assert by_flow.describes(keys), "flows of two base RTTs"
    former = {(f.cell, f.flow, f.metric): f.value for f in by_flow.read(reference)}
    found = by_flow.read(keys)
    assert {f.cell[6:] for f in found} == {(("flows.start", "0s+1s"),)}
    same = {(f.cell[:6], f.flow, f.metric): f.value for f in found}
    assert same.items() <= {key: pytest.approx(value) for key, value in former.items()}.items() and len(same) == 7


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("fq_codel,10Mbit,false,3s,1,2,cubic,20ms,5.0", "flow 2 where flow 1 of a run is due"),
        ("fq_codel,ten,false,3s,1,0,cubic,20ms,5.0", "line 3: this cannot be read"),
        ("fq_codel,10Mbit,maybe,3s,1,0,cubic,20ms,5.0", "line 3: this cannot be read"),
        ("fq_codel,10Mbit,false,3s,1,0,cubic,soon,5.0", "line 3: this cannot be read"),
        ("fq_codel,10Mbit,false,3s,1,0,cubic,20ms,five", "line 3: this cannot be read"),
        ("fq_codel,10Mbit", "line 3: this cannot be read"),
    ],
)
def test_keys_that_cannot_be_read(tmp_path: Path, row: str, found: str) -> None:
    keys = tmp_path / "keys.csv"
    header = "bottleneck.aqm,bottleneck.rate,hosts.ecn,duration,seed,flow,flows.cc,flows.base_rtt,goodput_mbit\n"
    keys.write_text(header + "fq_codel,10Mbit,false,3s,1,0,cubic,20ms,5.0\n" + row + "\n")
    with pytest.raises(InputError, match=found):
        by_flow.read(keys)


def test_a_key_that_a_grid_has_no_place_for_decides(tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    header = "bottleneck.aqm,bottleneck.rate,hosts.ecn,duration,seed,flow,flows.cc,flows.base_rtt,goodput_mbit"
    rows = ["fq_codel,10Mbit,false,3s,1,0,cubic,20ms,5.0", "fq_codel,10Mbit,false,3s,2,0,cubic,20ms,6.0"]
    keys.write_text("\n".join([header, *rows]) + "\n")
    assert not by_flow.describes(keys)
    keys.write_text("\n".join([f"{header},flows.cc.beta_ecn", f"{rows[0]},0.7", f"{rows[1]},0.85"]) + "\n")
    assert by_flow.describes(keys)
    assert {(f.cell[6:], f.value) for f in by_flow.read(keys)} == {
        ((("flows.cc.beta_ecn", "0.7"),), 5.0),
        ((("flows.cc.beta_ecn", "0.85"),), 6.0),
    }
    file = tmp_path / "e.toml"
    cubic = flow("cubic", "20ms").replace('"cubic"', '{ name = "cubic", beta_ecn = 0.85 }')
    file.write_text(BOTTLENECK + cubic)
    results = dumbbell.run(file, output=tmp_path / "e.duckdb")
    compared = by_flow.compare(results.runs, results.flows, by_flow.read(keys))
    assert [pair.figure.value for pair in compared.pairs] == [6.0] and compared.missing == 1


def test_what_a_file_says(reference: Path) -> None:
    assert by_flow.describes(reference) and not by_flow.describes(shipped.list_references()["linux-6.12"])
    figures = {(*named(f.cell), f.flow, f.metric): f.value for f in by_flow.read(reference)}
    both = ("prague+cubic", "10+20", 0)
    assert figures[(*both, 1, "goodput_mbit")] == pytest.approx(4.2), "mean over seeds"
    assert figures[(*both, 1, "rtt_ms")] == 13 and figures[(*both, 2, "rtt_ms")] == 30
    assert figures[(*both, 0, "marks")] == 120, "CE that the flow in L saw; not what CUBIC echoed"
    assert figures[(*both, 0, "signals")] == 126
    assert figures[(*both, 0, "sojourn_l_ms")] == pytest.approx(0.6)
    assert figures["dctcp", "10", 1, 0, "marks"] == 310 and figures["dctcp-ect1", "10", 1, 0, "marks"] == 300
    assert ("dctcp", "10", 1, 0, "sojourn_l_ms") not in figures, "nothing was in L"
    assert figures["2 reno+cubic", "10", 1, 1, "goodput_mbit"] == pytest.approx(3.2), "alike flows are one"
    assert figures["2 reno+cubic", "10", 1, 2, "goodput_mbit"] == 3.1


def test_errors_by_hand(reference: Path, tmp_path: Path, command: Command) -> None:
    file = tmp_path / "e.toml"
    output = tmp_path / "e.duckdb"
    file.write_text(BOTTLENECK + flow("prague") + flow("cubic", "20ms"))
    dumbbell.run(file, ["seeds=[1, 2]"], output=output)
    file.write_text(BOTTLENECK + "[hosts]\necn = true\n" + flow("reno", count=2) + flow("cubic"))
    dumbbell.run(file, output=output)
    results = StoredResults(output)
    compared = by_flow.compare(results.runs, results.flows, by_flow.read(reference))
    pairs = {(*named(p.figure.cell), p.figure.flow, p.figure.metric): p for p in compared.pairs}
    assert {key[0] for key in pairs} == {"prague+cubic", "2 reno+cubic"} and compared.missing == 14, "no DCTCP"
    runs = {key: results.flows.filter(key=key).sort("flow").to_dicts() for key in results.runs["key"]}
    two = [rows for rows in runs.values() if len(rows) == 2]
    (three,) = [rows for rows in runs.values() if len(rows) == 3]
    both = ("prague+cubic", "10+20", 0)
    goodput = pairs[(*both, 1, "goodput_mbit")]
    simulated = sum(rows[0]["goodput_mbit"] for rows in two) / len(two)
    assert goodput.simulated == pytest.approx(simulated)
    assert goodput.error == pytest.approx((simulated - 4.2) / 10)
    marks = sum(row["ce_received"] + row["drops"] for rows in two for row in rows) / len(two)
    assert pairs[(*both, 0, "signals")].error == pytest.approx((marks - 126) / 126)
    assert pairs[(*both, 0, "sojourn_l_ms")].simulated == pytest.approx(two[0][0]["sojourn_mean_ms"], rel=0.2)
    other = sum(rows[1]["goodput_mbit"] for rows in two) / len(two)
    assert pairs[(*both, 1, "share")].error == pytest.approx(simulated / (simulated + other) - 4.2 / 9.2)
    of_group = pairs["2 reno+cubic", "10", 1, 1, "goodput_mbit"]
    assert of_group.simulated == pytest.approx((three[0]["goodput_mbit"] + three[1]["goodput_mbit"]) / 2)
    share = pairs["2 reno+cubic", "10", 1, 1, "share"]
    total = sum(row["goodput_mbit"] for row in three)
    assert share.simulated == pytest.approx(2 * of_group.simulated / total)
    assert share.figure.value == pytest.approx(6.4 / 9.5)
    printed = command("validate", output, reference)
    assert printed.returncode == 0, printed.stderr
    assert "prague+cubic" in printed.stdout and "marks and drops, \\|sim - pub\\| / pub" in printed.stdout
    rows = command("validate", output, reference, "--format", "csv").stdout.splitlines()
    assert rows[0].startswith("table,qdisc,ecn,ccs,rate_mbit,rtts_ms,seconds,flow,metric,simulated,published")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("10Mbit,3s,2,1,cubic", "10Mbit,3s,2,2,cubic"), "flow"),
        (("4.4", "four"), "line 4"),
        (("10Mbit,3s,1,0,prague", "10Mbit,3s,1,one,prague"), "line 2"),
    ],
)
def test_files_that_are_not_whole(reference: Path, change: tuple[str, str], found: str) -> None:
    reference.write_text(reference.read_text().replace(*change))
    with pytest.raises(InputError, match=found):
        by_flow.read(reference)


def test_experiments_run_every_kind_of_cell() -> None:
    answered = set()
    for name in ("one-flow", "two-flows", "many-flows"):
        answered |= {
            by_flow.make_cell_of_run(json.loads(c.config))[1:]
            for c in experiment.load(f"validation/l4s-{name}").make_cells()
        }

    def cell(ecn: int, ccs: str, rate: float, rtts: str, seconds: float) -> Cell:
        return (("ecn", ecn), ("ccs", ccs), ("rate_mbit", rate), ("rtts_ms", rtts), ("seconds", seconds))

    rtts = ("5", "10", "20", "50")
    for ccs, ecn in [
        ("cubic", 0),
        ("cubic", 1),
        ("reno", 0),
        ("reno", 1),
        ("dctcp", 1),
        ("dctcp-ect1", 1),
        ("prague", 1),
    ]:
        assert {cell(ecn, ccs, rate, rtt, 60) for rate in (10, 40) for rtt in rtts} <= answered
        assert {cell(ecn, ccs, 100, rtt, 30) for rtt in rtts} <= answered
    for ccs in ("prague+cubic", "prague+reno"):
        assert {cell(ecn, ccs, 40, rtt, 60) for ecn in (0, 1) for rtt in (*rtts, "5+50", "50+5", "10+100")} <= answered
    assert cell(1, "5 prague+5 cubic", 40, "10", 60) in answered and cell(1, "prague+9 cubic", 40, "10", 60) in answered
    measured = shipped.list_references()["linux-6.18-l4s"]
    assert {figure.cell[1:] for figure in by_flow.read(measured)} <= answered
