"""Hunts: what a search finds becomes a small experiment that is as bad, with a test that repeats it."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from conftest import Command
from dumbbell.experiment.file import parse
from dumbbell.searching import hunt, shrink
from dumbbell.searching.hunt import find_median, find_worst, measure_table, shrink_worst
from dumbbell.searching.objective import read_objectives
from dumbbell.searching.search_file import SearchPlan, parse_search
from dumbbell.searching.search_run import SearchState, carry_out_search
from dumbbell.searching.shrink import shrink_table

pytest.importorskip("optuna")
HUNT: dict[str, Any] = {
    "title": "What CUBIC leaves to Reno",
    "budget": 30,
    "seeds": 1,
    "subject": ["flows[0]"],
    "experiment": {
        "duration": "8s",
        "bottleneck": {"rate": "10Mbit", "aqm": {"name": "pfifo", "limit": 100}},
        "hosts": {"ecn": False},
        "flows": [
            {"cc": "reno", "base_rtt": "20ms"},
            {"cc": "cubic", "base_rtt": "20ms", "count": 2, "start": {"uniform": ["0s", "0.1s"]}},
        ],
        "udp": [{"rate": "100kbit", "size": "200B"}],
    },
    "parameters": {
        "rtt": {"key": "flows[0].base_rtt", "from": "5ms", "to": "200ms", "scale": "log"},
        "limit": {"key": "bottleneck.aqm.limit", "from": 10, "to": 1000, "scale": "log"},
    },
    "objectives": {"share": {"criterion": "rfc9743:beside-share", "aim": "minimise"}},
    "hunt": {"keep": 2, "share": 0.9, "seeds": 2},
}


def test_a_table_shrinks_to_what_matters() -> None:
    table = {
        "duration": "37s",
        "bottleneck": {"rate": "12345678bit", "aqm": {"name": "codel", "target": "7ms"}},
        "hosts": {"ecn": False},
        "flows": [
            {"cc": "cubic", "base_rtt": "23ms"},
            {"cc": "reno", "base_rtt": "30ms", "count": 12},
            {"cc": "bbr1", "base_rtt": "9ms"},
        ],
    }
    asked = []

    def is_bad(one: dict[str, Any]) -> bool:
        asked.append(one)
        (cell,) = parse(one | {"seeds": [1]}, "x").make_cells()
        flows = [flow for flow in cell.groups["flows"] if flow["cc"]["name"] == "reno"]
        return bool(flows) and flows[0]["count"] >= 3 and cell.groups["bottleneck"]["rate"] > 9e6

    small, tried = shrink_table(table, is_bad, keep_flows=1)
    assert tried == len(asked) < 200
    assert small == {
        "duration": "1s",
        "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
        "flows": [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "reno", "base_rtt": "30ms", "count": 3}],
    }


def test_the_flows_that_are_judged_stay_and_so_does_what_is_measured() -> None:
    table = {
        "duration": "4s",
        "record": {"from": "1.5s", "series": False},
        "bottleneck": {"rate": "1Mbit", "aqm": "codel"},
        "flows": [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "reno", "base_rtt": "20ms"}],
        "udp": [{"rate": "500kbit"}],
    }
    small, _ = shrink_table(table, lambda _: True, 1, least_s=2.0)
    assert small["flows"] == [{"cc": "cubic", "base_rtt": "20ms"}] and "udp" not in small
    assert small["record"] == table["record"] and small["duration"] == "2s"


def test_a_flow_keeps_its_stack_and_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrink, "parse", lambda *_: None)  # the stack need not be built
    flow = {
        "stack": {"name": "quinn-0.11.19", "mtu": 1400},
        "cc": "cubic",
        "base_rtt": "20ms",
        "size": "20kB",
        "count": 2,
    }
    small, _ = shrink_table({"duration": "1s", "bottleneck": {"rate": "1Mbit"}, "flows": [flow]}, lambda _: True, 1)
    assert small["flows"] == [{"stack": "quinn-0.11.19", "cc": "cubic", "base_rtt": "20ms", "size": "20kB"}]


def test_keys_of_one_parameter_keep_one_value() -> None:
    flows = [{"cc": "cubic", "base_rtt": "23ms"}, {"cc": "reno", "base_rtt": "23ms"}]
    table = {"duration": "1s", "bottleneck": {"rate": "1Mbit", "aqm": "codel"}, "flows": flows}
    tied = [(("flows", 0, "base_rtt"), ("flows", 1, "base_rtt"))]
    asked = []

    def is_bad(one: dict[str, Any]) -> bool:
        asked.append([flow["base_rtt"] for flow in one["flows"]])
        return len(one["flows"]) == 2

    small, _ = shrink_table(table, is_bad, 2, tied=tied)
    assert [flow["base_rtt"] for flow in small["flows"]] == ["20ms", "20ms"]
    assert all(len(set(rtts)) == 1 for rtts in asked)
    assert [flow["base_rtt"] for flow in shrink_table(table, is_bad, 2)[0]["flows"]] == ["20ms", "20ms"]
    assert any(len(set(rtts)) == 2 for rtts in asked)


def test_keys_of_one_parameter_are_removed_together() -> None:
    flows = [{"cc": "cubic", "base_rtt": "20ms", "ecn": True}, {"cc": "reno", "base_rtt": "20ms", "ecn": True}]
    table = {"duration": "1s", "bottleneck": {"rate": "1Mbit", "aqm": "codel"}, "flows": flows}
    tied = [(("flows", 0, "ecn"), ("flows", 1, "ecn"))]

    def is_bad(one: dict[str, Any]) -> bool:
        return "ecn" in one["flows"][0]

    small, _ = shrink_table(table, is_bad, 2, tied=tied)
    assert small["flows"] == flows
    assert "ecn" not in shrink_table(table, is_bad, 2)[0]["flows"][1]
    assert all("ecn" not in flow for flow in shrink_table(table, lambda _: True, 2, tied=tied)[0]["flows"])


def test_a_table_that_nothing_makes_smaller_stays() -> None:
    table = {"duration": "1s", "bottleneck": {"rate": "1Mbit"}, "flows": [{"cc": "cubic", "base_rtt": "20ms"}]}
    assert shrink_table(table, lambda _: False)[0] == table


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> SearchState:
    return carry_out_search(parse_search(HUNT, "hunt.toml"), tmp_path_factory.mktemp("hunt") / "h.duckdb")


def test_the_worst_are_apart(state: SearchState) -> None:
    worst = find_worst(state, 0, 4)
    values = [one.merge_seeds(state.plan.objectives, 1)[0] for one in worst]
    assert values == sorted(values) and values[0] == min(
        one.merge_seeds(state.plan.objectives, 1)[0] for one in state.measured
    )
    assert len({one.values["limit"] for one in worst}) == len(worst) > 1


def test_the_usual_is_the_median_of_the_first_candidates(state: SearchState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hunt, "FIRST", 3)
    first = sorted(one.merge_seeds(state.plan.objectives, 1)[0] for one in state.measured[:3])
    assert find_median(state, 0) == first[1] != find_median(SearchState(state.plan, state.candidates[3:]), 0)


def test_a_candidate_that_is_no_worse_than_the_median_is_not_kept(
    state: SearchState, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered = find_worst(state, 0, len(state.measured))
    monkeypatch.setattr(hunt, "find_worst", lambda *_: [ordered[-1]])
    told: list[str] = []
    assert shrink_worst(state, told.append) == []
    (line,) = told
    assert re.fullmatch(
        rf"candidate {ordered[-1].number}: share is 0\.\d+ with 2 seeds, "
        r"not worse than 0\.\d+, the median of the first candidates; nothing is kept",
        line,
    )


def test_a_value_of_an_objective_has_its_unit() -> None:
    table = {
        "queue": {"measure": "sojourn_p50", "aim": "maximise"},
        "share": {"criterion": "rfc9743:beside-share", "aim": "maximise"},
        "own": {"sql": "SELECT key, seed AS value FROM runs", "aim": "minimise"},
    }
    objectives = read_objectives(table, Path())
    assert [one.format_value(519.2) for one in objectives] == ["519 ms", "519", "519"]


@pytest.mark.slow
def test_a_find_is_small_and_its_test_repeats_it(state: SearchState, tmp_path: Path, command: Command) -> None:
    plan: SearchPlan = state.plan
    finds = shrink_worst(state)
    assert 1 <= len(finds) <= 2
    find = finds[0]
    assert find.value <= find.limit < find.median
    assert measure_table(plan, find.table, 2) == find.value
    assert "udp" not in find.table and "hosts" not in find.table and find.table["flows"][0]["cc"] == "reno"
    kept = dumbbell.search(HUNT, keep=tmp_path / "kept").kept
    folder = kept[0]
    assert folder.name == find.name
    experiment = tomllib.loads((folder / "experiment.toml").read_text())
    assert experiment.pop("seeds") == [1, 2] and experiment == find.table
    text = (folder / "README.md").read_text()
    assert re.search(rf"Candidate {find.candidate.number} of search \S+ had 0\.\d+\. This experiment", text)
    assert find.sentence in text and "share a link of" in text and (folder / "figure.png").stat().st_size > 3000
    lines = [line.strip() for line in text.splitlines() if line.startswith("    dumbbell ")]
    assert len(lines) == 2
    for line in lines:
        words = line.replace("experiment.toml", str(folder / "experiment.toml")).split()[1:]
        done = command(*(str(folder) if word == "." else word for word in words))
        assert done.returncode == 0, done.stderr
    # the statement fails where the flows are even
    same = ["--set", "flows[0].base_rtt=20ms", "--set", "flows[0].cc=cubic", "-o", "even.duckdb"]
    assert command("run", folder / "experiment.toml", *same).returncode == 0
    assert command("evaluate", "results", "even.duckdb", "--suite", folder).returncode == 1


@pytest.mark.slow
def test_the_test_of_a_column_repeats_it_too(tmp_path: Path, command: Command) -> None:
    table = HUNT | {"objectives": {"least": {"measure": "flows.goodput", "aim": "minimise", "flows": "worst"}}}
    del table["subject"]
    (folder, *_) = dumbbell.search(table | {"hunt": {"keep": 1, "seeds": 1}}, keep=tmp_path / "kept").kept
    assert command("run", folder / "experiment.toml", "-o", "r.duckdb").returncode == 0
    done = command("evaluate", "results", "r.duckdb", "--suite", folder)
    assert done.returncode == 0, done.stdout + done.stderr
