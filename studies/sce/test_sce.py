import csv
import io
import json
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import Command, parsed
from dumbbell.errors import InputError
from dumbbell.experiment import shipped
from dumbbell.pages import study
from dumbbell.published.compare import Figure, read_reference
from studies.sce import paper

REFERENCE = shipped.list_references()["sce"]
BY_NUMBER = {table.number: table for table in paper.TABLES}

# two of the draft's tests, short
FEW = """\
duration = "2s"
[bottleneck]
rate = "10Mbit"
aqm = "cake"
[[flows]]
cc = "cubic"
base_rtt = "20ms"
"""
TWO = FEW + FEW[FEW.index("[[flows]]") :]


def test_every_table_of_the_sce_draft_is_there_once() -> None:
    assert [table.number for table in paper.TABLES] == list(range(1, 112))
    described = [(t.kind, t.qdisc, t.cc1, t.cc2, t.metric) for t in paper.TABLES]
    assert len(set(described)) == 111
    sections = list(dict.fromkeys(table.section for table in paper.TABLES))
    assert sections == sorted(sections) and len(sections) == 4 + 7 + 8


@pytest.mark.parametrize(
    ("number", "section", "title"),
    [
        (3, "5.1.3", "Difference in TCP Throughput (dctcp-sce - dctcp), normalized to Cake-limited Bandwidth"),
        (8, "5.2.2.1", "reno vs reno-sce Jain's fairness index"),
        (16, "A.1", "dctcp-sce TCP Throughput (Mbit)"),
        (50, "A.4", "dctcp vs dctcp-sce TCP Throughput (Mbit)"),
        (107, "A.8", "reno-sce vs dctcp TCP RTT (ms)"),
    ],
)
def test_known_tables(number: int, section: str, title: str) -> None:
    table = BY_NUMBER[number]
    assert (table.section.split(". ")[0], table.title) == (section, title)


def test_tables_agree_with_every_row_of_the_reference() -> None:
    with REFERENCE.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {int(row["table"]) for row in rows} == set(range(5, 112))
    for row in rows:
        table = BY_NUMBER[int(row["table"])]
        assert all(getattr(table, c) == row[c] for c in ("kind", "qdisc", "cc1", "cc2", "metric")), row
        assert float(row["rate_mbit"]) in table.grid.rates and float(row["delay_ms"]) in table.grid.delays
        assert int(row["flow"] or 0) in table.flows
        assert len(row["value"].split(".")[1]) == table.decimals


def test_every_figure_of_the_reference_stands_in_its_table() -> None:
    empty = pl.DataFrame(schema={"key": pl.String, "config": pl.String})
    filled = paper.fill(paper.TABLES, empty, pl.DataFrame(), read_reference(REFERENCE))
    rows = paper.list_figures(filled)
    shown = sum(row["published"] is not None for row in rows if row["kind"] != "difference")
    with REFERENCE.open() as stream:
        assert shown == len(list(csv.DictReader(stream)))
    # 10 Mbit, 2 ms: 8.85 of Reno-SCE (table 14) and 9.56 of Reno (table 13)
    figures = {(f.table, dict(f.cell)["rate_mbit"], dict(f.cell)["delay_ms"]): f for f in read_reference(REFERENCE)}
    reno, sce = figures["13", 10.0, 2.0].value, figures["14", 10.0, 2.0].value
    difference = next(r for r in rows if (r["table"], r["rate_mbit"], r["delay_ms"]) == (1, 10, 2))
    assert difference["published"] == pytest.approx((sce - reno) / 10)
    assert difference["simulated"] is None and difference["flow"] is None


def make_cell(qdisc: str, cc1: str, cc2: str, rate: float, delay: float) -> Any:
    return (("qdisc", qdisc), ("cc1", cc1), ("cc2", cc2), ("rate_mbit", rate), ("delay_ms", delay))


def store(*runs: tuple[str, list[str], list[float], float]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return runs and flows of 10 Mbit and 20 ms: isolation, congestion controls, goodputs, Jain's index."""
    rows, flows = [], []
    for number, (isolation, ccs, goodputs, jain) in enumerate(runs):
        named = [{"cc": "reno", "base_rtt": "20ms"} for _ in ccs]
        aqm = {"name": "cake", "isolation": isolation}
        config = parsed(bottleneck={"rate": "10Mbit", "aqm": aqm}, flows=named).make_cell(0).groups
        for flow, cc in zip(config["flows"], ccs, strict=True):
            flow["cc"] = {"name": cc}
        rows.append({"key": f"k{number}", "config": json.dumps(config), "jain": jain})
        flows += [{"key": f"k{number}", "flow": i, "goodput_mbit": g} for i, g in enumerate(goodputs)]
    return pl.DataFrame(rows), pl.DataFrame(flows)


def test_cells_by_hand() -> None:
    runs, flows = store(
        ("triple-isolate", ["reno"], [8.0], 1.0),
        ("triple-isolate", ["reno-sce"], [9.0], 1.0),
        ("triple-isolate", ["reno-sce"], [9.5], 1.0),  # another seed: the mean is 9.25
        ("flowblind", ["reno", "reno-sce"], [6.0, 3.0], 0.9),
    )
    published = [
        Figure(make_cell("triple-isolate", "reno", "", 10, 20), "13", 1, "throughput_mbit", 8.9),
        Figure(make_cell("triple-isolate", "reno-sce", "", 10, 20), "14", 1, "throughput_mbit", 8.44),
        Figure(make_cell("flowblind", "reno", "reno-sce", 10, 20), "6", 0, "jain", 0.669),
        Figure(make_cell("flowblind", "reno", "reno-sce", 10, 20), "28", 1, "throughput_mbit", 7.7),
        Figure(make_cell("flowblind", "reno", "reno-sce", 10, 20), "28", 2, "throughput_mbit", 1.5),
        Figure(make_cell("triple-isolate", "reno", "", 10, 40), "13", 1, "throughput_mbit", 8.2),
    ]
    filled = paper.fill(paper.select_tables("1,6,12-14,28"), runs, flows, published)
    text = paper.format_markdown(filled)
    parts = {part.split(":")[0]: part for part in text.split("\n\n") if part.startswith("Table")}
    assert list(parts) == ["Table 1", "Table 6", "Table 12", "Table 13", "Table 14", "Table 28"]
    grids = dict(zip(parts, (part for part in text.split("\n\n") if part.startswith("|")), strict=True))

    def list_cells(table: str, rate: str = "10") -> list[str]:
        lines = [[c.strip() for c in line.strip("|").split(" | ")] for line in grids[table].splitlines()]
        return next(line[1:] for line in lines if line[0] == rate)

    # (9.25 - 8) / 10 and (8.44 - 8.9) / 10
    assert list_cells("Table 1") == ["-", "-", "-", "-", "0.125 (-0.046)", "-", "-", "-"]
    assert list_cells("Table 6") == ["-", "-", "0.900 (0.669)", "-"]
    assert list_cells("Table 12") == ["-"] * 8
    assert list_cells("Table 13") == ["-", "-", "-", "-", "8.00 (8.90)", "- (8.20)", "-", "-"]
    assert list_cells("Table 28") == ["-", "-", "6.00/3.00 (7.70/1.50)", "-"]
    assert list_cells("Table 28", "5") == ["-"] * 4
    assert text.startswith("## 5.1.1. Reno-SCE TCP Throughput\n\n| Mbit \\ ms |") and text.count("## A.1.") == 1

    rows = {(r["table"], r["rate_mbit"], r["delay_ms"], r["flow"]): r for r in paper.list_figures(filled)}
    assert len(rows) == 64 + 20 + 3 * 64 + 2 * 20
    assert rows[1, 10, 20, None]["error"] == pytest.approx(0.125 + 0.046)
    assert rows[14, 10, 20, 1]["seeds"] == 2
    assert rows[28, 10, 20, 2] | {"error": 0} == {
        **{"table": 28, "kind": "two-flow", "qdisc": "flowblind", "cc1": "reno", "cc2": "reno-sce"},
        **{"rate_mbit": 10, "delay_ms": 20, "flow": 2, "metric": "throughput_mbit"},
        **{"simulated": 3.0, "published": 1.5, "error": 0, "seeds": 1},
    }


@pytest.mark.parametrize("only", ["", "0", "112", "1-112", "5-4", "one", "1,,2", "-3"])
def test_tables_that_are_not_there(only: str) -> None:
    with pytest.raises(InputError, match="it must be numbers from 1 to 111"):
        paper.select_tables(only)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    paths = []
    for name, text in (("one", FEW), ("two", TWO)):
        paths.append(tmp_path_factory.mktemp("stores") / f"{name}.duckdb")
        dumbbell.run(tomllib.loads(text), output=paths[-1])
    return paths[0], paths[1]


@pytest.mark.slow
def test_the_command(stores: tuple[Path, Path], tmp_path: Path, command: Command) -> None:
    done = command("study", "tables", "sce", *stores, "--only", "12,52")
    assert done.returncode == 0, done.stderr
    assert "\nTable 12: cubic TCP Throughput (Mbit); Columns: netem" in done.stdout and "Table 13" not in done.stdout
    groups = ("one-flow-triple-isolate", "two-flow-triple-isolate")
    drawn = command("study", "figure", "sce", "-o", "maps", *(word for one in stores for word in ("--from", one)))
    assert drawn.returncode == 0, drawn.stderr
    names = [f"maps/{group}-{measure}.svg" for group in groups for measure in ("throughput_mbit", "rtt_ms")]
    assert drawn.stdout.splitlines() == names
    one = command("study", "figure", "sce", f"{groups[0]}-rtt_ms", "-o", "one", "--from", stores[0])
    assert one.stdout == f"one/{groups[0]}-rtt_ms.svg\n"
    assert (tmp_path / "maps" / "one-flow-triple-isolate-throughput_mbit.svg").stat().st_size > 5000
    rows = list(csv.DictReader(io.StringIO(command("study", "tables", "sce", *stores, "--format", "csv").stdout)))
    assert len(rows) == 4 * 64 + 7 * 20 + 10 * 64 + 90 * 20 * 2
    simulated = [row for row in rows if row["simulated"]]
    assert [(row["table"], row["flow"]) for row in simulated] == [
        *(("12", "1"), ("17", "1")),
        *(("52", "1"), ("52", "2"), ("97", "1"), ("97", "2")),
    ]
    assert float(simulated[0]["simulated"]) > 1


def test_conditions_choose_the_runs_of_a_draft(stores: tuple[Path, Path], command: Command) -> None:
    def list_simulated(*conditions: str) -> set[str]:
        done = command("study", "tables", "sce", stores[1], "--format", "csv", *conditions)
        assert done.returncode == 0, done.stderr
        return {row["table"] for row in csv.DictReader(io.StringIO(done.stdout)) if row["simulated"]}

    assert list_simulated() == list_simulated("--where", "seed=1") != set()
    none = command("study", "tables", "sce", stores[1], "--where", "bottleneck.rate=1Gbit")
    assert (none.returncode, len(none.stderr.splitlines())) == (2, 1) and "bottleneck.rate" in none.stderr
    part = command("study", "tables", "sce", stores[1], "--where", "flow=0")
    assert (part.returncode, len(part.stderr.splitlines())) == (2, 1) and "a paper holds whole runs" in part.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sec", "STORE"], "study: unknown study sec; did you mean sce?"),
        (["sce", "none.duckdb"], "none.duckdb: "),
        (["sce", "STORE", "--only", "x"], "--only is "),
        (["sce", "STORE", "--reference", "none.csv"], "none.csv: "),
        (["sce", "STORE", "--only", "13"], "STORE: no run that answers a cell"),
        (["abe", "STORE", "--format", "csv"], "study tables: --format csv and abe"),
        (["abe", "STORE", "--only", "1"], "study tables: --only and abe"),
        (["abe", "STORE", "STORE"], "study tables: RESULTS is 2 files; it must be one of abe"),
    ],
)
def test_bad_input(arguments: list[str], said: str, stores: tuple[Path, Path], command: Command) -> None:
    store = str(stores[0])
    done = command("study", "tables", *(store if argument == "STORE" else argument for argument in arguments))
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(said.replace("STORE", store))


def test_titles_are_answers_only_while_the_evidence_has_them() -> None:
    program = study.find("sce").program
    found = study.find("sce").read_evidence()
    parts = program.select_parts(found, "findings-fair-parts", rtt=80.0)
    paced = (pl.col("part") == "paced") & (pl.col("rate") == 10)
    assert "Pacing makes" in program._make_fair_parts_title(parts)
    unfair = parts.with_columns(pl.when(paced).then(0.7).otherwise("jain").alias("jain"))
    assert program._make_fair_parts_title(unfair).startswith("Jain's index")
    fair = program.predict_fairness(found).filter(cc="dctcp-sce")
    assert program._make_fair_title(fair).startswith("At worst")
    assert not program._make_fair_title(fair.with_columns(alone=pl.col("rate"))).startswith("At worst")
    window = program.select_means(found, "findings-window", "cc", "rate", "rtt", "pacing", "delayed_ack")
    window = window.filter(cc="dctcp-sce", delayed_ack=False)
    assert "stays at" in program._make_window_title(window)
    assert "stays at" not in program._make_window_title(window.with_columns(cwnd_mean=pl.lit(20.0)))
    sojourn = found["sojourn"]
    assert "Reno-SCE" in program._make_rtt_title(sojourn)
    assert "Reno-SCE" not in program._make_rtt_title(sojourn.with_columns(sojourn_mean_ms=pl.lit(1.0)))


def test_the_trains_show_no_more_than_the_link_carries() -> None:
    program = study.find("sce").program
    picture = program.draw_trains(study.find("sce").read_evidence())
    [axes] = picture.panels.values()
    ticks = next(shown for shown in axes.collections if shown.get_label() == "_events")
    times = [segment[0, 0] for segment in ticks.get_segments()]
    on_link = 1514 * 8 / 5e3  # ms of a frame at 5 Mbit/s; times are of whole milliseconds
    assert len(times) > 20 and all(later - earlier > on_link - 1 for earlier, later in pairwise(times))
