import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Command, parsed
from dumbbell import engine_version
from dumbbell.errors import InputError
from dumbbell.experiment import shipped
from dumbbell.experiment.cell import Cell
from dumbbell.published import compare, pictures

LONG = """\
table,kind,qdisc,cc1,cc2,rate_mbit,delay_ms,flow,metric,value
5,two-flow,flowblind,cubic,reno,10,20,,jain,0.900
6,two-flow,flowblind,cubic,reno,10,20,1,throughput_mbit,6.0
6,two-flow,flowblind,cubic,reno,10,20,2,throughput_mbit,3.0
7,two-flow,flowblind,cubic,reno,10,20,1,rtt_ms,25.0
7,two-flow,flowblind,cubic,reno,10,20,2,rtt_ms,20.0
8,one-flow,triple-isolate,reno,,10,20,1,throughput_mbit,9.0
"""
WIDE = """\
qdisc,shaper,ecn,cc1,cc2,rate_mbit,delay_ms,seconds,flow,goodput_mbit,rtt_ms,retransmissions,drops,marks,packets
pfifo limit 100,htb,0,cubic,reno,10,20,2,1,6.0,25.0,9,19,0,5000
pfifo limit 100,htb,0,cubic,reno,10,20,2,2,3.0,20.0,10,19,0,5000
pfifo limit 100,htb,1,cubic,reno,10,20,2,1,6.0,25.0,9,19,0,5000
pfifo limit 100,htb,0,cubic,reno,10,20,60,1,6.0,25.0,9,19,0,5000
"""


def cell(aqm: Any = "codel", **changes: Any) -> Cell:
    rate, shaper = changes.pop("rate", "10Mbit"), changes.pop("shaper", "link")
    return parsed(bottleneck={"rate": rate, "aqm": aqm, "shaper": shaper}, **changes).make_cell(0)


def frames(*runs: tuple[Cell, dict[str, Any], list[dict[str, Any]]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = [{"key": f"k{i}", "config": c.config, **summary} for i, (c, summary, _) in enumerate(runs)]
    flows = [
        {"key": f"k{i}", "flow": n, **flow} for i, (*_, measured) in enumerate(runs) for n, flow in enumerate(measured)
    ]
    return pl.DataFrame(rows), pl.DataFrame(flows)


def reference(tmp_path: Path, text: str) -> list[compare.Figure]:
    path = tmp_path / "reference.csv"
    path.write_text(text)
    return compare.read_reference(path)


FLOWBLIND = {"name": "cake", "isolation": "flowblind"}


def test_scores_by_hand(tmp_path: Path) -> None:
    # two seeds: goodputs 5 and 7 (mean 6), 4 and 4; RTT 20 and 30 (mean 25), 22 and 26 (mean 24)
    first = [{"goodput_mbit": 5.0, "rtt_mean_ms": 20.0}, {"goodput_mbit": 4.0, "rtt_mean_ms": 22.0}]
    second = [{"goodput_mbit": 7.0, "rtt_mean_ms": 30.0}, {"goodput_mbit": 4.0, "rtt_mean_ms": 26.0}]
    run = cell(FLOWBLIND)
    result = compare.compare(
        *frames((run, {"jain": 0.98}, first), (run, {"jain": 1.0}, second)), reference(tmp_path, LONG)
    )
    assert result.missing == 1, "the one-flow figure"
    errors = {(p.figure.metric, p.figure.flow): p.error for p in result.pairs}
    assert errors == pytest.approx(
        {
            ("jain", 0): 0.99 - 0.9,
            ("throughput_mbit", 1): (6 - 6) / 10,
            ("throughput_mbit", 2): (4 - 3) / 10,
            ("rtt_ms", 1): (25 - 25) / 25,
            ("rtt_ms", 2): (24 - 20) / 20,
            ("share", 1): 6 / 10 - 6 / 9,
            ("ratio", 1): math.log((6 / 4) / (6 / 3)),
        }
    )
    assert {p.seeds for p in result.pairs} == {2}
    text = compare.format_scores(result)
    # errors of goodput are 0 and 0.1: median 0.05, 90th percentile 0.09
    cells = [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines()]
    goodput = next(row for row in cells if row[0].startswith("| goodput"))
    assert goodput[1:5] == ["2", "0.0500", "0.0900", "0.1000"]
    assert goodput[5] == "cubic+reno 10Mbit 20ms flowblind flow 2 |"
    assert "Compared: 5 of the 6 figures of the reference." in text
    assert "4 / 3 / +10.0%" in compare.format_grids(result) and "24 / 20 / +20.0%" in compare.format_grids(result)


def test_one_column_a_metric(tmp_path: Path) -> None:
    run = cell({"name": "pfifo", "limit": 100}, shaper="htb", hosts={"ecn": False})
    flows = [
        {"goodput_mbit": 6.0, "rtt_mean_ms": 25.0, "retransmissions": 19},
        {"goodput_mbit": 3.0, "rtt_mean_ms": 20.0, "retransmissions": 10},
    ]
    result = compare.compare(*frames((run, {"ce_marks": 0, "drops": 39}, flows)), reference(tmp_path, WIDE))
    errors = {(p.figure.metric, p.figure.flow): p.error for p in result.pairs}
    assert errors[("retransmissions", 1)] == pytest.approx(math.log(20 / 10))
    assert errors[("drops", 0)] == pytest.approx(math.log(40 / 20))
    assert errors[("marks", 0)] == 0.0
    assert len([p for p in result.pairs if p.figure.metric == "goodput_mbit"]) == 2, "neither with ECN nor of 60 s"
    longer = compare.compare(*frames((run, {}, flows)), reference(tmp_path, WIDE), any_length=True)
    assert len([p for p in longer.pairs if p.figure.metric == "goodput_mbit"]) == 3


@pytest.mark.parametrize(
    ("words", "aqm", "same"),
    [
        ("flowblind", FLOWBLIND, True),
        ("cake flowblind", FLOWBLIND, True),
        ("triple-isolate", FLOWBLIND, False),
        ("triple-isolate", "cake", True),
        ("cake", "cake", True),
        ("cake", FLOWBLIND, False),
        ("cake besteffort", {"name": "cake", "diffserv": "besteffort"}, True),
        ("cake", {"name": "cake", "diffserv": "besteffort"}, False),
        ("pfifo limit 100", {"name": "pfifo", "limit": 100}, True),
        ("pfifo limit 100", {"name": "pfifo", "limit": 99}, False),
        ("pfifo", {"name": "pfifo", "limit": 99}, False),
        ("codel ecn", {"name": "codel", "ecn": True}, True),
        ("codel noecn", {"name": "codel", "ecn": True}, False),
        ("codel noecn", {"name": "codel", "ecn": False}, True),
        ("codel ecn", {"name": "codel", "ecn": True, "target": "1ms"}, False),
        ("pfifo limit 100", "codel", False),
    ],
)
def test_which_queue_the_words_mean(words: str, aqm: Any, same: bool) -> None:
    assert compare.matches_qdisc(words, cell(aqm).groups["bottleneck"]["aqm"]) is same


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": "11Mbit"},
        {"flows": [{"cc": "cubic", "base_rtt": "20ms"}]},
        {"flows": [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "cubic", "base_rtt": "20ms"}]},
        {"flows": [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "reno", "base_rtt": "21ms"}]},
    ],
)
def test_other_cells_are_not_compared(changes: dict[str, Any], tmp_path: Path) -> None:
    flows = [{"goodput_mbit": 5.0, "rtt_mean_ms": 20.0}] * 2
    result = compare.compare(*frames((cell(FLOWBLIND, **changes), {"jain": 1.0}, flows)), reference(tmp_path, LONG))
    assert (len(result.pairs), result.missing) == (0, 6)


def test_unlike_runs_that_answer_one_cell_are_refused(tmp_path: Path) -> None:
    flows = [{"goodput_mbit": 5.0, "rtt_mean_ms": 20.0}] * 2
    unlike = (cell(FLOWBLIND), {"jain": 1.0}, flows), (cell(FLOWBLIND, hosts={"pacing": "fq"}), {"jain": 1.0}, flows)
    with pytest.raises(InputError, match=r"several kinds of runs belong to one published cell, cubic\+reno"):
        compare.compare(*frames(*unlike), reference(tmp_path, LONG))


def test_identical_flows_may_be_one_group(tmp_path: Path) -> None:
    text = LONG.replace("cubic,reno", "reno,reno")
    run = cell(FLOWBLIND, flows=[{"cc": "reno", "base_rtt": "20ms", "count": 2}])
    flows = [{"goodput_mbit": 6.0, "rtt_mean_ms": 20.0}, {"goodput_mbit": 3.0, "rtt_mean_ms": 20.0}]
    assert compare.compare(*frames((run, {"jain": 0.9}, flows)), reference(tmp_path, text)).missing == 1


@pytest.mark.parametrize(
    ("versions", "simulated"), [(["a", "b"], 4.0), (["b", "a"], 4.0), ([engine_version(), "b"], 8.0)]
)
def test_an_older_engine_counts_where_no_newer_one_answers(
    versions: list[str], simulated: float, tmp_path: Path
) -> None:
    run = cell("cake", flows=[{"cc": "reno", "base_rtt": "20ms"}])
    goodputs = (8.0, 4.0)
    runs = [(run, {"engine_version": v}, [{"goodput_mbit": g}]) for v, g in zip(versions, goodputs, strict=True)]
    (pair,) = compare.compare(*frames(*runs), reference(tmp_path, LONG)).pairs
    assert (pair.simulated, pair.seeds) == (simulated, 1)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", LONG.replace("6.0", "six"), "\0"])
def test_files_that_are_no_reference(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        reference(tmp_path, text)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.slow
def test_the_shipped_reference_is_answered(tmp_path: Path, command: Command) -> None:
    plan = shipped.list_experiments()["sce/one-flow-reno-cubic"]
    few = ["--set", "bottleneck.rate=500kbit", "--set", "duration=5s"]
    assert command("run", plan, "-o", "r.duckdb", *few).returncode == 0
    done = command("validate", "r.duckdb", shipped.list_references()["sce"])
    assert done.returncode == 0, done.stderr
    assert "### Table 12: cubic, triple-isolate: throughput_mbit (simulated / published / error)" in done.stdout
    assert "| RTT, \\|sim - pub\\| / pub" in done.stdout
    rows = command("validate", "r.duckdb", shipped.list_references()["sce"], "--format", "csv").stdout.splitlines()
    assert (
        rows[0].startswith("table,qdisc,cc1,cc2,rate_mbit,delay_ms,flow,metric,simulated,published") and len(rows) > 8
    )
    assert command("plot", "r.duckdb", "--reference", shipped.list_references()["sce"], "-o", "e.png").returncode == 0
    assert (tmp_path / "e.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("errors", "end", "said"),
    [
        ((-0.008261, 0.002), 1.0, "error: (simulated \N{MINUS SIGN} reference) / reference; the largest is 0.83 %"),
        ((0.014, 0.002), 2.0, "the largest is 1.4 %"),
        ((-0.2143, 0.002), 6.0, "the largest is 22 %; colours end at 6 %"),
        ((0.0, 0.0), 1.0, "the largest is 0 %"),
    ],
)
def test_errors_are_drawn_on_the_least_scale_that_holds_them(
    errors: tuple[float, float], end: float, said: str
) -> None:
    frame = pl.DataFrame(
        {"flows": ["cubic", "cubic"], "rate_mbit": [1.0, 2.0], "delay_ms": [5.0, 5.0], "error": list(errors)}
    )
    picture = pictures.draw_errors(frame, "RTT, |sim - pub| / pub")
    [axes] = picture.panels.values()
    assert axes.images[0].get_clim() == (-end, end) and picture.around.bar_label == "RTT error, %"
    assert said in str(picture.around.title) and ("end at" in str(picture.around.title)) == ("end at" in said)
