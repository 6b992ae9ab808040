import json
import tomllib
from pathlib import Path

import polars as pl
import pytest

import dumbbell
from conftest import Command
from dumbbell import experiment
from dumbbell.pages import study
from dumbbell.published import by_class
from dumbbell.results.store import Store
from dumbbell.study import InputError, compute_intervals
from studies.abe import paper as abe

ROOT = Path(__file__).parents[2]
BDP = 625_000  # bytes: 50 Mbit/s * 100 ms


def predict_utilisation(beta: float, threshold: float) -> float:
    """What a flow that keeps `beta` of its window uses, marked at a queue of `threshold` BDP.

    The window runs from a = beta m to m = 1 + threshold, one segment a round trip. Below 1 it is the use of a round
    trip of base RTT; above 1 the link is full and the round trip lasts as long as the window takes.
    """
    m = 1 + threshold
    a = beta * m
    return 1.0 if a >= 1 else 1 - (1 - a) ** 2 / (2 * (1 - a) + m * m - 1)


def test_the_formula_gives_the_known_values() -> None:
    for beta, threshold, expected in [(0.5, 0, 0.75), (0.5, 0.25, 0.8929), (0.7, 0.1, 0.921), (0.8, 0.05, 0.9394)]:
        assert predict_utilisation(beta, threshold) == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.long)])
def test_a_deterministic_flow_uses_what_theory_says(every: int) -> None:
    found = experiment.load(ROOT / "studies/abe/experiments/closed-form.toml")
    cells = [cell for number, cell in enumerate(found.make_cells()) if number % every == 0]
    assert len(cells) >= 3
    for cell in cells:
        config = json.loads(cell.config)
        cc = config["flows"][0]["cc"]
        beta = cc["beta_ecn"] if cc["abe"] else 0.5
        least = config["bottleneck"]["aqm"]["min"]
        result = dumbbell._native.run(cell.config, dumbbell._native.Cancel())
        expected = predict_utilisation(beta, 0 if least == 1 else least / BDP)
        assert json.loads(result.summary)["utilisation"] == pytest.approx(expected, rel=0.01), (beta, least)


SMALL = """\
title = "{name}"
duration = "4s"
seeds = [1]

[bottleneck]
rate = "10Mbit"
aqm = {{ name = "codel", ecn = true }}

[hosts]
ecn = true
ecn_reduction = "immediate"

[[flows]]
cc = "reno"
base_rtt = "80ms"
{flow}

[record]
interval = "20ms"

[matrix]
"{key}" = ["reno", {{ name = "reno", abe = true, beta_ecn = 0.8 }}]
{more}
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    rival = '\n[[flows]]\ncc = "reno"\nbase_rtt = "80ms"'
    both = {"key": "flows[*].cc", "flow": f'{rival}\nstart = "1s"', "more": ""}
    files = {
        "gain": {"key": "flows[0].cc", "flow": "", "more": ""},
        "slow-start": {"key": "flows[0].cc", "flow": "", "more": '"flows[*].base_rtt" = ["84ms"]'},
        "short": {"key": "flows[0].cc", "flow": 'size = "500kB"', "more": ""},
        "convergence": both,
        "coexistence": {**both, "key": "flows[0].cc", "flow": rival},
    }
    for name, parts in files.items():
        (tmp_path / f"{name}.toml").write_text(SMALL.format(name=name, **parts))
    output = tmp_path / "abe.duckdb"
    for name in files:
        dumbbell.run(tmp_path / f"{name}.toml", output=output)
    return output


@pytest.mark.slow
def test_gain_overshoots_and_completions(results: Path) -> None:
    found = abe.Results(results)
    gains = found.compute_gains().sort("beta")
    assert gains["gain"].to_list()[0] == pytest.approx(0, abs=1e-9) and gains["gain"].to_list()[1] > 5
    overshoots = found.count_overshoots().sort("beta")
    # slow start leaves CoDel with at least twice what fits: two halves, or at least log(0.5) / log(0.8) = 3.1 of 0.8
    assert overshoots["reductions"].to_list()[0] == 2 and overshoots["reductions"].to_list()[1] >= 4
    completions = abe.collect_completions(found).sort("beta")
    assert completions["ratio"].to_list()[0] == pytest.approx(1) and completions["ratio"].to_list()[1] <= 1


def test_means_of_seeds_and_times_that_every_run_can_show() -> None:
    runs = pl.DataFrame({"beta": [0.8] * 3 + [0.9] * 3, "gain": [1.0, 2.0, 3.0] + [5.0] * 3, "hash": [*"abcddd"]})
    random, one = compute_intervals(runs, ["beta"], "gain").sort("beta").iter_rows(named=True)
    assert random["n"] == 3 and random["high"] - 2 == pytest.approx(4.3027 / 3**0.5, rel=1e-4)  # Student's t, s = 1
    assert one["n"] == 1 and one["gain"] == 5 and one["high"] is None
    file = tomllib.loads((ROOT / "studies/abe/experiments/convergence.toml").read_text())
    latest = file["flows"][1]["start"]["uniform"][1]
    assert float(file["duration"].removesuffix("s")) - float(latest.removesuffix("s")) == abe.WITHIN_S
    times = pl.DataFrame({"s": [60.0, 60.1, None]}).select(abe._replace_late(pl.col("s")))
    assert times["s"].to_list() == [60.0, None, None]


def test_a_folder_of_figures_and_tables(results: Path, tmp_path: Path, command: Command) -> None:
    text = abe.format_tables(abe.Results(results))
    assert text.count("### ") == 7 and "| reno | codel | 10   | 0.8  |" in text
    wrong = command("study", "tables", "abc", str(results))
    assert wrong.returncode == 2 and "did you mean abe? Choose from abe, " in wrong.stderr
    runs = tmp_path / "other.duckdb"
    (tmp_path / "other.toml").write_text(
        'duration = "1s"\n[bottleneck]\naqm = "codel"\n[[flows]]\ncc = "dctcp"\nbase_rtt = "5ms"\n'
    )
    dumbbell.run(tmp_path / "other.toml", output=runs)
    with pytest.raises(InputError, match="no run with ABE"):
        abe.Results(runs)


@pytest.mark.slow
def test_a_paper_shows_what_there_are_runs_for(results: Path, tmp_path: Path, command: Command) -> None:
    some = tmp_path / "some.duckdb"
    dumbbell.run(results.with_name("gain.toml"), output=some)
    found = abe.Results(some)
    assert found.missing == ["convergence", "coexistence", "slow-start", "short"]
    said = command("study", "tables", "abe", str(some))
    assert said.returncode == 0, said.stderr
    line = ("study", "figure", "abe", "--from", str(some), "-o", str(tmp_path / "figures"))
    assert command(*line, "--format", "png,pdf").returncode == 0
    assert "Gain in goodput" in said.stdout and "no runs of convergence, coexistence, slow-start, short" in said.stdout
    assert "abe-gain.png" in {path.name for path in (tmp_path / "figures").iterdir()}
    wrong = command(*line, "abe-gian")
    assert wrong.returncode == 2 and "did you mean abe-gain" in wrong.stderr and len(wrong.stderr.splitlines()) == 1


@pytest.mark.slow
def test_conditions_choose_the_runs_of_a_paper(results: Path, command: Command) -> None:
    some = command(
        "study", "tables", "abe", str(results), "--where", "experiment=gain", "--where", "flows[0].cc.abe=true"
    )
    assert some.returncode == 0, some.stderr
    assert "no runs of convergence, coexistence, slow-start, short" in some.stdout
    assert command("study", "tables", "abe", str(results)).stdout.count("\n") > some.stdout.count("\n")
    part = command("study", "tables", "abe", str(results), "--where", "flow=0")
    assert (part.returncode, len(part.stderr.splitlines())) == (
        2,
        1,
    ) and "a paper's tables are made of whole runs" in part.stderr
    other = command("study", "tables", "abe", str(results), "--engine", "live")
    assert (other.returncode, len(other.stderr.splitlines())) == (2, 1) and "live" in other.stderr


def test_runs_that_no_figure_tells_apart_are_refused(results: Path, tmp_path: Path) -> None:
    dumbbell.run(tmp_path / "gain.toml", {"hosts.initial_window": 4}, output=results)
    with pytest.raises(InputError, match=r"one place of gain.toml: they differ in hosts.initial_window"):
        abe.Results(results)


CLASSES = """\
experiment,aqm,cc_a,cc_b,link_mbit,rtt_a_ms,rtt_b_ms,flows_a,flows_b,class,statistic,mean,p1,p25,p75,p99
mixed,codel,reno-ecn,cubic,10,20,40,1,1,a,rate_per_flow_mbit,5.0,4,4,5,6
mixed,codel,reno-ecn,cubic,10,20,40,1,1,b,rate_per_flow_mbit,4.0,4,4,5,6
mixed,codel,reno-ecn,cubic,10,20,40,1,1,a,queue_delay_ms,8.0,1,2,3,20
mixed,codel,reno-ecn,cubic,10,20,40,1,1,b,mark_pct,0,0,0,0,0
mixed,codel,reno-ecn,cubic,10,20,40,1,1,all,util_pct,99,90,99,99,100
mixed,codel,reno-ecn,cubic,40,20,40,1,1,all,util_pct,99,90,99,99,100
"""


def test_statistics_of_classes_beside_published_ones(tmp_path: Path, command: Command) -> None:
    published = tmp_path / "classes.csv"
    published.write_text(CLASSES)
    flows = '[[flows]]\ncc = "reno"\nbase_rtt = "20ms"\n[[flows]]\ncc = "cubic"\necn = false\nbase_rtt = "40ms"\n'
    aqm = '[bottleneck]\nrate = "10Mbit"\naqm = { name = "codel", ecn = true }\n'
    (tmp_path / "two.toml").write_text(f'duration = "5s"\nhosts = {{ ecn = true }}\n{aqm}{flows}')
    output = tmp_path / "two.duckdb"
    dumbbell.run(tmp_path / "two.toml", output=output)
    with Store.open(output) as store:
        runs, classes = store.read_table("runs"), store.read_table("classes")
    compared = by_class.compare(runs, classes, by_class.read(published))
    assert compared.missing == 1
    by_metric = {(p.figure.table, p.figure.metric): p for p in compared.pairs}
    a, b = (classes.filter(pl.col("class") == n).row(0, named=True) for n in (0, 1))
    assert by_metric["a", "rate_per_flow_mbit mean"].simulated == a["throughput_mbit"]
    assert by_metric["a", "rate_per_flow_mbit mean"].error == pytest.approx((a["throughput_mbit"] - 5) / 10)
    assert by_metric["a", "queue_delay_ms p99"].simulated == a["sojourn_p99_ms"]
    ratio = by_metric["a / b", "rate_ratio mean"]
    assert ratio.simulated == pytest.approx(a["throughput_mbit"] / b["throughput_mbit"])
    assert ratio.figure.value == 1.25
    assert b["mark_share"] == 0 and b["drop_share"] > 0
    printed = command("validate", str(output), str(published))
    assert printed.returncode == 0 and "rate ratio, \\|ln(sim / pub)\\|" in printed.stdout
    published.write_text(CLASSES.replace(",a,queue", ",c,queue"))
    wrong = command("validate", str(output), str(published))
    assert wrong.returncode == 2 and "line 4" in wrong.stderr


def test_titles_are_answers_only_while_the_evidence_has_them() -> None:
    program = study.find("abe").program
    kept = program.Kept(study.find("abe").read_evidence())
    gains = kept.compute_gains()
    assert "goodput rises" in abe._name_gain(gains)
    assert "rises" not in abe._name_gain(gains.with_columns(gain=pl.lit(0.0)))
    runs = kept.select_runs("convergence")
    assert "waits longer" in abe._name_convergence(runs)
    assert "longer" not in abe._name_convergence(runs.with_columns(convergence=pl.lit(1.0)))
    ratios = abe.collect_completions(kept)
    assert "end sooner" in abe._name_completion(ratios)
    assert "sooner" not in abe._name_completion(ratios.with_columns(ratio=pl.lit(1.0)))
    counted = pl.DataFrame({"beta": [0.5, 0.9], "low": [1, 5], "reductions": [1.0, 6.0]})
    assert not abe._name_reductions(counted).startswith("At beta")  # 5 is less than the bound
    assert abe._name_reductions(counted.with_columns(low=pl.lit(8))).startswith("At beta 0.9")
