"""Searches: files, samplers, fronts, and that a search which was stopped ends as one that was not."""

import copy
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dumbbell
from conftest import Command
from dumbbell.errors import InputError
from dumbbell.results.store import Store
from dumbbell.searching import dominance, search_run
from dumbbell.searching.constraint import parse_constraint
from dumbbell.searching.ledger import Ledger
from dumbbell.searching.run_measures import RunMeasurer
from dumbbell.searching.sampler import KINDS, Answer
from dumbbell.searching.sampler_choice import make_sampler
from dumbbell.searching.search_file import parse_search

pytest.importorskip("optuna")
EXPERIMENT: dict[str, Any] = {
    "duration": "1s",
    "record": {"series": False},
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": [{"cc": "cubic", "base_rtt": "20ms", "start": {"uniform": ["0s", "0.1s"]}}],
    "matrix": {"flows[0].base_rtt": ["10ms", "40ms"]},
}
SEARCH: dict[str, Any] = {
    "title": "CoDel",
    "experiment": EXPERIMENT,
    "budget": 20,
    "seeds": 2,
    "parameters": {
        "target": {"key": "bottleneck.aqm.target", "from": "0.5ms", "to": "50ms", "scale": "log"},
        "interval": {"key": "bottleneck.aqm.interval", "from": "5ms", "to": "500ms", "scale": "log"},
    },
    "objectives": {
        "delay": {"measure": "sojourn_p99", "aim": "minimise"},
        "use": {"measure": "utilisation", "aim": "maximise"},
    },
}
TOML = """\
budget = 20
seeds = 2
[experiment]
duration = "1s"
bottleneck = { rate = "10Mbit", aqm = "codel" }
flows = [{ cc = "cubic", base_rtt = "20ms", start = { uniform = ["0s", "0.1s"] } }]
[parameters.target]
key = "bottleneck.aqm.target"
from = "0.5ms"
to = "50ms"
scale = "log"
[objectives.delay]
measure = "sojourn_p99"
aim = "minimise"
[objectives.use]
measure = "utilisation"
aim = "maximise"
"""


def change(**changes: Any) -> dict[str, Any]:
    """Return the search with other keys: `parameters__target` replaces one inside a table."""
    table = copy.deepcopy(SEARCH)
    for name, value in changes.items():
        *outer, last = name.split("__")
        holder = table
        for step in outer:
            holder = holder[step]
        if value is None:
            del holder[last]
        else:
            holder[last] = value
    return table


# fronts

POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30)


@given(POINTS)
def test_a_front_is_what_nothing_dominates(points: list[tuple[int, int, int]]) -> None:
    values = np.array(points, dtype=float)
    front = dominance.find_front(values)
    for row, one in enumerate(values):
        better = [n for n, other in enumerate(values) if (other <= one).all() and (other < one).any()]
        equal = [n for n in front if (values[n] == one).all()]
        assert (row in front) == (not better and equal == [row])
        assert bool(better) != bool(equal)


def test_the_area_of_a_front() -> None:
    # up to (3, 3): (3 - 1) x (3 - 2) of the first, and (3 - 2) x (2 - 1) that the second adds
    values = np.array([[2.0, 1.0], [1.0, 2.0], [2.5, 2.5], [9.0, 0.0]])
    assert dominance.compute_hypervolume(values, (3, 3)) == 3.0


def test_more_seeds_are_for_those_that_may_be_better() -> None:
    luck = np.array([0.0, 3.0, -2.0, 1.0])
    best = np.stack([10 + luck, 20 - luck])
    worse = best + 0.5  # by the same amount with every seed: sure, though its interval alone overlaps that of the best
    noisy = best + 0.5 + np.stack([luck[::-1], luck])
    scores = np.stack([best, worse, noisy])
    assert dominance.find_front(scores.mean(axis=2)) == [0]
    assert dominance.find_contenders(scores, [0]) == [2]
    # Student's t for 3 degrees of freedom is 3.182; deviations of 0, 3, -2, 1 are sqrt(13/3)
    means, halves = dominance.estimate_halves(luck[None])
    assert means[0] == 0.5 and halves[0] == pytest.approx(3.182446 * np.sqrt(13 / 3) / 2, rel=1e-6)


# files


def test_values_of_parameters_read_well() -> None:
    target = parse_search(SEARCH).parameters[0]
    assert target.settle(5217345.9) == 5217000 and target.spell(5217000) == "5.217ms"
    assert target.show(5217000) == 5.217 and target.column == "target_ms" and target.axis_label == "target, ms"
    assert target.settle(1.0) == 500_000 and target.settle(1e12) == 50_000_000  # the ends of its range
    steps = {"key": "bottleneck.rate", "from": "10Mbit", "to": "100Mbit", "step": "15Mbit"}
    assert parse_search(change(parameters__rate=steps)).parameters[2].settle(31e6) == 25_000_000
    count = {"key": "flows[0].count", "from": 1, "to": 9}
    number = parse_search(change(parameters__flows=count)).parameters[2]
    assert number.is_whole and number.settle(3) == 3
    choice = {"key": "flows[0].cc", "choices": ["cubic", {"name": "reno", "abe": True}]}
    control = parse_search(change(parameters__cc=choice)).parameters[2]
    assert control.spell(1) == {"name": "reno", "abe": True} and control.show(1) == "reno(abe=true)"
    assert not control.is_number


def test_a_constraint_is_a_comparison_of_amounts() -> None:
    one = parse_constraint("interval >= 2 * target", ["target", "interval"], "constraints[0]")
    assert one.measure_violation({"target": 5.0, "interval": 10.0}) == 0
    assert one.measure_violation({"target": 5.0, "interval": 4.0}) == 6.0
    both = parse_constraint("target + 1 > 2 and < 9", ["target"], "constraints[0]")
    assert both.measure_violation({"target": 3.0}) == 0 and both.measure_violation({"target": 9.0}) > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 0}, "budget is 0; it must be a whole number from 1"),
        ({"budget": None}, "budget"),
        ({"sampler": "tpee"}, "sampler.*did you mean .tpe"),
        ({"parameters": {}}, "parameters"),
        ({"parameters__target__to": "0.1ms"}, "parameters.target.to"),
        ({"parameters__target__from": "5"}, "parameters.target.from"),
        ({"parameters__target__from": "0s"}, "parameters.target.from.*logarithmic"),
        ({"parameters__target__key": "bottleneck.aqm.targte"}, "parameters.target.key.*did you mean"),
        ({"parameters__target__key": "flows[0].base_rtt"}, "flows.0..base_rtt and the matrix"),
        ({"parameters__target__from": "1us", "parameters__target__to": "11s"}, "parameters.target.to.*10s"),
        ({"parameters__queue": {"key": "bottleneck.aqm", "choices": ["pfifo", "codle"]}}, "parameters.queue.*codel"),
        ({"parameters__interval__key": "bottleneck.aqm.target"}, "bottleneck.aqm.target in target and interval"),
        ({"parameters__target__choices": ["5ms", "6ms"]}, "choices and from"),
        ({"constraints": ["interval > 2 * targte"]}, "constraints.0..*targte"),
        (
            {"constraints": ["interval > 2 * yardstick"]},
            "constraints.0..*parameter that is a number .yardstick",
        ),
        ({"constraints": ["interval"]}, "constraints.0."),
        ({"objectives__delay__aim": "minimize"}, "objectives.delay.aim.*did you mean .minimise"),
        ({"objectives__delay__measure": "sojourn_p98"}, "objectives.delay.measure.*sojourn"),
        ({"objectives__delay__sql": "SELECT 1"}, "measure and sql"),
        ({"objectives__delay": {"criterion": "rfc9743:late-share"}}, "objectives.delay.*subject"),
        ({"objectives__delay": {"criterion": "rfc9743:late-sahre"}}, "objectives.delay.criterion.*late-share"),
        ({"seeds": {"first": 3, "most": 2}}, "seeds.most"),
        ({"experiment__seeds": [1]}, "experiment.seeds"),
        ({"experiment__duration": "1"}, "experiment.duration.*did you mean"),
        ({"hunt": {"keeep": 1}}, "hunt.keeep.*did you mean keep"),
        (
            {"parameters__delay": {"key": "flows[0].count", "choices": [1, 4]}},
            "column delay of objectives.delay and param",
        ),
        (
            {"parameters__seeds": {"key": "flows[0].count", "choices": [1, 4]}},
            "column seeds of parameters.seeds and every",
        ),
        ({"subject": ["flow[0]"]}, "subject"),
    ],
)
def test_a_wrong_file_is_refused_with_its_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        parse_search(change(**changes), "my.toml")
    assert error.value.file.startswith("my") and "\n" not in str(error.value)


def test_more_seeds_and_the_worst_seed_are_refused() -> None:
    table = change(seeds={"first": 2, "most": 4}, objectives__delay__seeds="worst")
    with pytest.raises(InputError, match="the worst of more seeds is worse"):
        parse_search(table)


# samplers


@pytest.mark.parametrize("name", KINDS)
def test_a_sampler_asks_the_same_after_the_same_answers(name: str) -> None:
    if name == "gp":
        pytest.importorskip("torch")
    if KINDS[name].package == "pymoo":
        pytest.importorskip("pymoo")
    plan = parse_search(SEARCH)
    objectives = 1 if KINDS[name].single else 2

    def ask_twice() -> list[list[dict[str, Any]]]:
        sampler = make_sampler(name, plan.parameters, objectives, 7, constrained=True)
        asked = []
        for _ in range(4):
            asked.append(sampler.ask(12))
            values = [tuple(one[key] / 1e6 for key in ("target", "interval"))[:objectives] for one in asked[-1]]
            answers = [Answer(own, 0.0) if n % 3 else Answer(None, 1.0) for n, own in enumerate(values)]
            sampler.take_answers(answers)
        return asked

    first = ask_twice()
    assert first == ask_twice()
    assert all(0 < len(some) <= 12 for some in first) and first[0] != first[1]
    low, high = plan.parameters[0].low, plan.parameters[0].high
    assert all(low * 0.999 <= one["target"] <= high * 1.001 for some in first for one in some)


def test_a_sampler_that_does_not_fit_is_refused() -> None:
    plan = parse_search(SEARCH)
    with pytest.raises(InputError, match="cmaes takes one objective"):
        make_sampler("cmaes", plan.parameters, 2, 1, constrained=False)


# searches


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dumbbell.Search:
    return dumbbell.search(SEARCH, output=tmp_path_factory.mktemp("whole") / "s.duckdb")


def test_a_front_has_what_runs_measure(whole: dumbbell.Search) -> None:
    row = whole.front.row(0, named=True)
    again = dumbbell.simulate(EXPERIMENT | {"seeds": [1, 2]}, whole.list_settings(row["candidate"]))
    of_seeds = again.runs.group_by("seed").agg(pl.col("sojourn_p99_ms", "utilisation").mean())
    assert row["delay"] == pytest.approx(of_seeds["sojourn_p99_ms"].mean(), rel=1e-12)
    assert row["use"] == pytest.approx(of_seeds["utilisation"].mean(), rel=1e-12)
    spread = of_seeds["sojourn_p99_ms"].std()
    half = 12.7062047 * (spread or 0.0) / np.sqrt(2)  # Student's t for one degree of freedom
    assert row["delay_high"] - row["delay"] == pytest.approx(half, rel=1e-6)
    assert len(whole.candidates) == 21 and whole.unchanged["candidate"].to_list() == [-1]


def test_all_candidates_see_the_same_cells_and_seeds(whole: dumbbell.Search) -> None:
    with Store.open(whole.path) as store:
        keys = store.read("SELECT count(DISTINCT key) AS n FROM measured").item()
    assert keys == 21 * 2 * 2
    runs = whole.results.runs
    assert runs["seed"].unique().sort().to_list() == [1, 2]
    assert len(runs) == len(whole.front) * 2 * 2


def test_the_runs_of_the_front_are_in_the_file(whole: dumbbell.Search) -> None:
    assert whole.plot().panels and whole.results.table(value="sojourn_p99")
    picture = whole.results.plot()
    assert picture.why is not None and picture.why.startswith("kind front")


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [1, 25, 60])
def test_a_stopped_search_ends_as_one_that_was_not(
    stopped: int, whole: dumbbell.Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    took: list[int] = []
    take = RunMeasurer._take

    def stop(self: RunMeasurer, *ended: Any) -> None:
        took.append(1)
        if len(took) > stopped:
            raise KeyboardInterrupt
        take(self, *ended)

    output = tmp_path / "s.duckdb"
    with monkeypatch.context() as patch:
        patch.setattr(RunMeasurer, "_take", stop)
        with pytest.raises(KeyboardInterrupt):
            dumbbell.search(SEARCH, output=output, jobs=1)
    if stopped > 25:
        assert not dumbbell.Search(output).is_finished
    plan = parse_search(SEARCH)
    state = search_run.carry_out_search(plan, output, jobs=2)
    assert state.runs <= 21 * 2 * 2 - (stopped > 1)
    again = dumbbell.Search(output)
    assert again.to_json() == whole.to_json() and again.candidates.equals(whole.candidates)


KILLS_ITSELF = """
import json, os, signal, sys
import dumbbell
from dumbbell.searching import ledger

ledger.COMMIT_EVERY_S = 0.1
commit, add = ledger.Ledger.commit, ledger.Ledger.add
committed = 0

def commit_and_count(self):
    global committed
    commit(self)
    committed = len(self._known)

def add_and_die(self, *measured):
    add(self, *measured)
    if committed >= 100:
        print(committed, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

ledger.Ledger.commit, ledger.Ledger.add = commit_and_count, add_and_die
dumbbell.search(json.loads(sys.argv[1]), output=sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_search_loses_little_and_ends_as_one_that_was_not(tmp_path: Path) -> None:
    """The kill comes between two commits, while runs go on, and at the same place on every machine."""
    table, output = change(budget=100, seeds=4), tmp_path / "s.duckdb"
    program = [sys.executable, "-c", KILLS_ITSELF, json.dumps(table), str(output)]
    child = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr
    plan = parse_search(table)
    with Ledger(output, plan.objectives) as ledger:
        kept = len(ledger._known)
    assert kept == int(child.stdout) >= 100
    state = search_run.carry_out_search(plan, output)
    found = dumbbell.Search(output)
    assert state.runs + kept == (len(state.candidates) + 1) * 8
    assert found.to_json() == dumbbell.search(table, jobs=1).to_json()


@pytest.mark.slow
def test_more_seeds_go_where_ranks_are_unsure() -> None:
    found = dumbbell.search(change(seeds={"first": 2, "most": 8}, budget=20))
    seeds = found.candidates.filter(pl.col("candidate") >= 0)["seeds"]
    most = found.front["seeds"].unique().item()
    assert most > 2 and seeds.min() == 2 and 0 < (seeds == most).sum() < 20
    few = dumbbell.search(change(budget=20))
    assert found.candidates["target_ms"].equals(few.candidates["target_ms"])  # the sampler sees the first seeds


@pytest.mark.slow
def test_candidates_outside_of_constraints_are_not_run() -> None:
    found = dumbbell.search(change(constraints=["interval >= 100 * target"]))
    outside = found.candidates.filter(pl.col("state") == "outside")
    measured = found.candidates.filter(pl.col("state") == "measured", pl.col("candidate") >= 0)
    assert len(measured) == 20 and len(outside) > 0
    assert (measured["interval_ms"] >= 99.99 * measured["target_ms"]).all()
    assert (outside["interval_ms"] < 100 * outside["target_ms"]).all() and outside["seeds"].sum() == 0


def test_an_objective_without_a_value_is_named() -> None:
    # a flow that lasts has no completion time
    objectives = {"end": {"measure": "flows.completion_s", "aim": "minimise"}}
    with pytest.raises(InputError, match=r"objectives: none of 3 .*: objective end has no value .seed 1.; give a meas"):
        dumbbell.search(change(seeds=1, budget=3, objectives=objectives))


def test_a_label_ends_with_the_unit_of_its_values() -> None:
    objectives = {
        "delay": {"measure": "sojourn_p95", "aim": "minimise"},
        "share": {"criterion": "rfc9743:beside-share"},
        "rtt": {"criterion": "rfc9743:beside-delay"},
    }
    found = {one.name: one for one in parse_search(change(subject=["flows[0]"], objectives=objectives)).objectives}
    assert (found["delay"].label, found["delay"].unit) == ("time in queue, P95, ms", "ms")
    assert found["share"].unit == "ratio" and found["share"].label.endswith("means")
    assert (found["rtt"].label, found["rtt"].unit) == ("RTT of the others, P95, ms", "ms")


def test_a_measure_may_be_sql_or_of_flows_or_of_a_suite() -> None:
    table = change(
        seeds=1,
        subject=["flows[0]"],
        experiment__flows=[{"cc": "reno", "base_rtt": "20ms"}, {"cc": "cubic", "base_rtt": "20ms", "count": 2}],
        experiment__matrix={"bottleneck.rate": ["5Mbit", "10Mbit"]},
        objectives={
            "least": {"measure": "flows.goodput", "aim": "maximise", "flows": "worst", "cells": "worst"},
            "query": {"sql": "SELECT key, min(goodput_mbit) AS value FROM flows GROUP BY key", "aim": "maximise"},
            "share": {"criterion": "rfc9743:beside-share"},
        },
        budget=3,
    )
    found = dumbbell.search(table)
    row = found.candidates.row(1, named=True)
    again = dumbbell.simulate(table["experiment"] | {"seeds": [1]}, found.list_settings(row["candidate"]))
    least = again.flows.group_by("key").agg(pl.col("goodput_mbit").min())["goodput_mbit"]
    assert row["least"] == least.min() and row["query"] == pytest.approx(least.mean(), rel=1e-12)
    flows = (
        again.flows.with_columns(mine=pl.col("cc") == "reno").group_by("key", "mine").agg(pl.col("goodput_mbit").mean())
    )
    shares = (
        flows.sort("key", "mine")
        .group_by("key", maintain_order=True)
        .agg(pl.col("goodput_mbit").last() / pl.col("goodput_mbit").sum())
    )
    assert row["share"] == pytest.approx(shares["goodput_mbit"].mean(), rel=1e-9)


@pytest.mark.junk
def test_values_that_the_engine_refuses_are_no_candidates() -> None:
    length = {"key": "duration", "from": "0.5s", "to": "2s"}
    found = dumbbell.search(
        change(parameters__length=length, experiment__record={"from": "1s"}, experiment__duration="2s")
    )
    refused = found.candidates.filter(pl.col("state") == "refused")
    assert set(found.candidates.filter(pl.col("state") == "measured")["seeds"]) == {2}
    assert len(refused) and all("less than the duration" in one for one in refused["reason"])
    assert (refused["length_ms"] <= 1000).all()


# the command


@pytest.mark.slow
def test_the_command_prints_and_draws_the_front(tmp_path: Path, command: Command) -> None:
    (tmp_path / "tune.toml").write_text(TOML)
    shown = command("search", "tune.toml", "--dry-run").stdout
    assert shown.startswith("20 candidates (1 cell, 2 seeds): 40 runs, about ")
    done = command("search", "tune.toml", "-o", "t.duckdb", "--plot", "front.svg")
    assert "The front has " in done.stdout and "as the file has it" in done.stdout
    assert (tmp_path / "front.svg").stat().st_size > 3000
    rows = json.loads(command("search", "tune.toml", "-o", "t.duckdb", "--format", "json").stdout)
    table = pl.read_csv(command("search", "tune.toml", "-o", "t.duckdb", "--format", "csv").stdout.encode())
    assert [one["delay"] for one in rows["front"]] == table["delay"].to_list()
    assert table["settings"][0].startswith("bottleneck.aqm.target=")
    assert command("plot", "t.duckdb").stderr.splitlines()[0] == "plot.png"
    other = command("search", "tune.toml", "-o", "t.duckdb", "--set", "bottleneck.rate=20Mbit")
    assert other.returncode == 0 and other.stdout != done.stdout


# against a grid


@pytest.mark.slow
def test_the_front_of_a_grid_is_found() -> None:
    """A grid of 41 by 41 of CoDel's parameters is computed whole; a search of 400 finds its hypervolume within 2 %."""
    one = {**EXPERIMENT, "duration": "4s", "flows": [{"cc": "reno", "base_rtt": "20ms"}]}
    del one["matrix"]
    table = change(budget=400, seeds=1, experiment=one)
    plan = parse_search(table)
    assert plan.sampler == "tpe"
    found = dumbbell.search(plan)
    side = 41
    low, high = (np.array([getattr(one, end) for one in plan.parameters]) for end in ("low", "high"))
    places = np.linspace(0, 1, side)
    experiments = [
        (one | {"seeds": [1]}, plan.list_options({"target": round(target), "interval": round(interval)}))
        for target in low[0] * (high[0] / low[0]) ** places
        for interval in low[1] * (high[1] / low[1]) ** places
    ]
    means = [
        (each.runs["sojourn_p99_ms"].item(), -each.runs["utilisation"].item())
        for each in dumbbell.simulate_many(experiments)
    ]
    grid = np.array(means, dtype=float)
    front = grid[dominance.find_front(grid)]
    reference = tuple(front.max(axis=0) + 0.1 * (front.max(axis=0) - front.min(axis=0)))
    mine = found.front.select("delay", -pl.col("use")).to_numpy()
    share = dominance.compute_hypervolume(mine, reference) / dominance.compute_hypervolume(front, reference)
    assert share > 0.98
