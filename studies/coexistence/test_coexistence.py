"""The study of BBRv2 and DCTCP: what it makes of runs and of the cells of Linux."""

import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import dumbbell
from dumbbell import experiment
from dumbbell.evaluate.statement_file import load_statements
from dumbbell.pages import study
from dumbbell.study import Evidence, Results, Rows

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return study.find("coexistence").program


def test_what_linux_did_is_read_as_cells(program: ModuleType) -> None:
    cells = program.runs.linux.collect_cells()
    place = {"mix": "dctcp", "limit": "", "n": 2, "rtt": 5, "step": 106_250, "small": False}
    one = cells.filter(**place)
    assert one.height == 1 and 0.45 < one["use"][0] < 0.56 and one["share"][0] == 0 and one["starts"][0] > 1
    mixed = cells.filter(mix="bbr2+dctcp", limit="0", n=10, rtt=5, step=312_500)
    # five flows of each: DCTCP has two thirds and more
    assert mixed.height == 1 and 0.2 < mixed["share"][0] < 0.34


def test_what_linux_did_is_read_as_the_paper_has_it(program: ModuleType) -> None:
    frames = program.runs.linux.collect_paper_tables()
    place = {"variant": "no limit", "rtt": "5", "n": "10", "k": 0.5, "mix": "both"}
    classes = frames["classes"].filter(**place, buffer="500 ms")
    by = dict(classes.select("cls", "relative_throughput").rows())
    assert 2 < by["dctcp-5"] / by["bbr2-5"] < 2.4  # 129 and 60 Mbit/s
    # goodput is without headers, the share of the link with them
    assert frames["runs"].filter(**place)["utilisation"][0] == pytest.approx(0.942123 * 1514 / 1448)
    every = frames["runs"].filter(rtt="5+50")
    assert set(every["n"]) == {"2-2-8-8"} and set(every["k"]) == {0.1, 0.17, 2.0, 5.0}


def test_what_claims_say_of_linux_is_what_its_cells_show() -> None:
    found = study.find("coexistence").read_evidence()["claims"]
    fails = dict(found.select("id", "linux_fails").rows())
    said = {one.id: one.linux_fails for one in load_statements("coexistence").criteria if one.linux_fails is not None}
    assert said and {name: fails[name] for name in said} == said


def test_hosts_are_named_by_what_was_changed(program: ModuleType) -> None:
    named = program.runs.describe_host
    assert named("linux-5.4", "rfc6937", "tso", False, "cc", 0.0, 0.0) == "5.4"
    offload = named("linux-5.4", "rfc6937bis", "tso", False, "cc", 50.0, 0.0)
    assert offload == "5.4, PRR of 5.15 on, receive offload, 50 us"
    batches = named("linux-6.1", "rfc6937", "tso", True, "fq", 0.0, 50.0)
    assert batches == "6.1, the old PRR, paced by fq, ACKs in batches of 50 us"
    assert named("linux-6.1", "rfc6937bis", "none", True, "cc", 0.0, 0.0) == "6.1, no bursts"


def test_cells_that_fail_are_counted_by_where_they_are(program: ModuleType) -> None:
    cells = ("aqm PI2, n 10, k 0.5", "aqm PI2, n 40, k 0.5", "aqm STEP, n 10, k 1")
    assert program.runs.spread(cells) == "over PI2 (2), STEP (1); N = 10 (2), 40 (1)"
    assert program.runs.spread(("k 0.5",)) == ""


def shrink_experiment(name: str, kept: dict[str, list[Any]]) -> dict[str, Any]:
    """Return an experiment short and with few of its cells."""
    table = tomllib.loads((ROOT / f"studies/coexistence/experiments/{name}.toml").read_text())
    table |= {"duration": "0.5s", "seeds": [1], "record": {"series": False}}
    for flow in table["flows"]:
        if isinstance(flow.get("start"), dict):  # of up to 1 s, when the run would be over
            flow["start"] = {"uniform": ["0s", "0.25s"]}
    table["matrix"] |= kept
    return table


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return results of every question, short, and few cells of each."""
    output = tmp_path_factory.mktemp("coexistence") / "q.duckdb"
    step = {"name": "red", "min": "106250B", "max": "106250B", "wlog": 0, "ecn": True, "limit": "62500000B"}
    slow = {"bottleneck.rate, bottleneck.aqm.limit": [["10Mbit", "1MB"]]}
    place = {"flows[*].base_rtt, bottleneck.aqm, duration": [["5ms", step, "1s"]]}
    tables = {
        "questions-hosts": shrink_experiment("questions-hosts", {"bottleneck.aqm": [step], "flows[*].count": [2]}),
        "questions-weights": shrink_experiment("questions-weights", slow),
        "questions-classes": shrink_experiment("questions-classes", slow),
        "questions-starts": shrink_experiment("questions-starts", place),
        "questions-marks": shrink_experiment("questions-marks", {"bottleneck.aqm": [step], "flows[*].count": [5]}),
        "questions-starts-rtts": shrink_experiment("questions-starts-rtts", {}) | {"duration": "1.5s"},
        "coexistence": shrink_experiment("coexistence", {"flows[*].count": [1, 5], **place}),
        "coexistence-rtts": shrink_experiment("coexistence-rtts", {}),
    }
    for name, table in tables.items():
        dumbbell.run(experiment.parse(table, f"{name}.toml"), output=output)
    return output


def test_tables_of_questions(program: ModuleType, questions: Path, tmp_path: Path) -> None:
    Evidence(program.runs.collect_questions(Results(questions)), {"x": {}}).save(tmp_path)
    found = Evidence.load(tmp_path)
    hosts = program.format_hosts_table(found).splitlines()
    assert len(hosts) == 2 + 10 and hosts[0].endswith("0.17 |")
    assert all(0 <= int(line.split("|")[-2]) <= 100 for line in hosts[2:])
    cells = program.judge_linux_cells(found)
    assert sorted(cells.select("kind", "n", "limit").rows()) == [
        *(("bbr2", n, "0") for n in (2, 10)),
        *(("both", n, limit) for n in (2, 10) for limit in ("0", "5")),
        *(("dctcp", n, "") for n in (2, 10)),
    ]
    assert cells.filter(n=10, kind="both")["share_started"].null_count() == 0
    assert cells.filter(n=2)["share_started"].null_count() == 4
    scores = program.format_scores_table(found).splitlines()
    assert len(scores) == 2 + 6 and scores[2].split("|")[4].strip() == "-"
    assert found["marks"].select("bursts", "n", "k").rows() == [(False, 10, 0.17), (True, 10, 0.17)]
    assert all(0 < balance <= 1 for balance in found["marks"]["balance"])
    rtts = program.format_linux_rtts_table(found).splitlines()
    assert len(rtts) == 2 + 4 and rtts[4].split("|")[2].strip().startswith("2.66 /")  # K = 2, BBRv2 of 50 ms on Linux
    weights = program.format_weights_table(found).splitlines()
    assert len(weights) == 2 + 18 + 1 and "of 18" in weights[-1]
    assert program.TABLES["classes"](found).splitlines()[-1].count("of 4") == 2


def test_a_question_without_runs_is_named(program: ModuleType, questions: Path) -> None:
    results = Results(questions)
    keys = results.runs.filter(pl.col("experiment") != "questions-starts")["key"]
    with pytest.raises(dumbbell.InputError, match="no runs of questions-starts"):
        program.runs.collect_questions(Results(questions).with_keys(keys))


@pytest.mark.slow
def test_means_are_over_seeds_that_every_cell_has(program: ModuleType, tmp_path: Path) -> None:
    table = shrink_experiment("questions-hosts", {"flows[*].count": [2]})
    key = next(name for name in table["matrix"] if name.startswith("hosts.profile"))
    step = {"name": "red", "min": "106250B", "max": "106250B", "wlog": 0, "ecn": True, "limit": "62500000B"}
    table["matrix"] |= {key: table["matrix"][key][:2], "bottleneck.aqm": [step]}
    output = tmp_path / "r.duckdb"
    dumbbell.run(experiment.parse(table, "questions-hosts.toml"), output=output)
    table["matrix"][key] = table["matrix"][key][:1]
    dumbbell.run(experiment.parse(table | {"seeds": [1, 2]}, "questions-hosts.toml"), output=output)
    results = Results(output)
    assert results.runs.height == 3 and set(program.runs.select_whole_seeds(results).runs["seed"]) == {1}
    assert program.runs.select_whole_seeds(results, {"questions-hosts": 2}).runs.height == 2
    with pytest.raises(dumbbell.InputError, match="no finished run"):
        assert program.runs.select_whole_seeds(results, {"questions-hosts": 3}).runs
    assert program.runs.count_cells("coexistence")["rtts-mixed-1g"] == 54


def test_acceptance_counts_the_cells_where_others_fail(program: ModuleType) -> None:
    rows = [
        ("both", 1.0, "5", "2", k, aqm, jain)
        for k, by in {0.1: (0.5, 0.6, 0.96), 0.5: (0.5, 0.85, 0.5), 1.0: (0.79, 0.1, 0.9)}.items()
        for aqm, jain in zip(("STEP", "PI2", "CSAQM"), by, strict=True)
    ]
    names = ["mix", "gbit", "rtt", "n", "k", "aqm", "jain"]
    frame = pl.DataFrame(rows, names, orient="row").with_columns(seeds=pl.lit(1))
    line = program.format_acceptance_table(Evidence({"runs": frame})).splitlines()[2]
    assert [cell.strip() for cell in line.split("|")][1:-1] == ["1", "5", "2", "1", "2", "0.90"]


def test_failing_claims_are_told_apart_by_what_is_known(program: ModuleType) -> None:
    frame = pl.DataFrame(
        {
            "id": ["a", "b", "c", "d"],
            "counted": [True, True, True, True],
            "verdict": ["fails", "fails", "fails", "holds"],
            "aqms": ["PI2", "PI2", "STEP, PI2", "PI2"],
            "linux_fails": [True, None, False, True],
        }
    )
    kinds = program.classify_failing(Evidence({"claims": frame})).select("id", "kind").rows()
    assert kinds == [("a", "Linux"), ("b", "PI2"), ("c", "other")]


def test_places_and_seeds_are_said_from_the_rows(program: ModuleType) -> None:
    cells = [
        *(("5", "2", k, 3) for k in (0.5, 1.0, 2.0)),
        ("5", "10", 1.0, 3),
        *(("50", "2", k, 3) for k in (0.1, 1, 2)),
    ]
    frame = pl.DataFrame([(1.0, *cell) for cell in cells], ["gbit", "rtt", "n", "k", "seeds"], orient="row")
    assert program.describe_places(Rows("x", frame)) == (
        "1 Gbit/s, 5 ms: N = 2 (K = 0.5 to 2), 10 (K = 1); 1 Gbit/s, 50 ms: N = 2 (K = 0.1, 1, 2)"
    )
    other = pl.DataFrame({"gbit": [1.0, 1.0, 10.0], "seeds": [2, 3, 1]})
    assert program.describe_rates(Rows("x", other)) == "1 Gbit/s, two to three seeds; 10 Gbit/s, one seed"


def test_controls_are_apart_where_no_seed_of_one_is_among_those_of_the_other(program: ModuleType) -> None:
    rows = [
        ("bbr2-5", 0.1, 0.9, 1.1),
        ("dctcp-5", 0.1, 0.5, 0.8),
        ("bbr2-5", 1.0, 0.9, 1.1),
        ("dctcp-5", 1.0, 1.0, 1.2),
    ]
    frame = pl.DataFrame(rows, ["cls", "k", "low", "high"], orient="row").with_columns(
        *(pl.lit(value).alias(name) for name, value in {"mix": "both", "rtt": "5", "n": "2", "aqm": "PI2"}.items()),
        gbit=1.0,
        seeds=3,
    )
    assert program.compare_seed_ranges(Evidence({"classes": frame})).select("k", "apart").rows() == [
        (0.1, True),
        (1.0, False),
    ]


def test_titles_are_answers_only_while_the_evidence_has_them(program: ModuleType) -> None:
    found = study.find("coexistence").read_evidence()
    classes = found["classes"].filter(pl.col("gbit") == 1, pl.col("relative") > 0)
    for rtt in ("5", "50"):
        shown = classes.filter(pl.col("mix") == "both", pl.col("rtt").cast(pl.String) == rtt)
        assert "PI2 favours BBRv2" in program._name_equal_rtts(shown, rtt).replace("mostly ", "")
        assert "favours" not in program._name_equal_rtts(shown.with_columns(relative=pl.lit(1.0)), rtt)
    for mix, answer in (("dctcp", "less than half"), ("bbr2", "takes the share"), ("both", "times its share")):
        shown = classes.filter(pl.col("mix") == mix, pl.col("rtt").cast(pl.String) == "5+50")
        assert answer in program._name_two_rtts(shown, mix)
        assert answer not in program._name_two_rtts(shown.with_columns(relative=pl.lit(1.0)), mix)
    alone = found["runs"].filter(pl.col("mix") == "dctcp", pl.col("rtt").cast(pl.String) == "5", pl.col("gbit") == 1)
    assert "Two DCTCP flows leave" in program._name_utilisation(alone)
    assert "leave" not in program._name_utilisation(alone.with_columns(utilisation=pl.lit(0.9)))
