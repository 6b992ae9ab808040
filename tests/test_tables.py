import csv
import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Command
from dumbbell import cli, experiment, figures, registry, sweep
from dumbbell.errors import InputError
from dumbbell.store import Store
from dumbbell.tables import Frame, markdown, selected, tidy


@pytest.fixture(scope="module")
def frame() -> Frame:
    """Four runs of two flows with made-up measures: goodput = rate · (flow + 1) / 10 + seed, RTT = base RTT + 5."""
    from conftest import described

    table = described(
        seeds=[1, 2],
        bottleneck={"rate": "1Mbit", "aqm": "codel"},
        matrix={"bottleneck.rate": ["10Mbit", "100Mbit"], "flows[1].base_rtt": ["40ms"]},
    )
    cells = list(experiment.parse(table, "made-up.toml").cells())
    runs = [
        {
            "key": str(i),
            "experiment": "made-up",
            "title": "",
            "seed": c.seed,
            "matrix": json.dumps(c.matrix),
            "config": c.config,
            "jain": 0.5 + 0.1 * i,
        }
        for i, c in enumerate(cells)
    ]
    flows = [
        {
            "key": str(i),
            "flow": n,
            "cc": flow["cc"]["name"],
            "base_rtt_ms": flow["base_rtt"] / 1e6,
            "goodput_mbit": c.groups["bottleneck"]["rate"] / 1e6 * (n + 1) / 10 + c.seed,
            "rtt_mean_ms": flow["base_rtt"] / 1e6 + 5,
        }
        for i, c in enumerate(cells)
        for n, flow in enumerate(c.groups["flows"])
    ]
    return Frame(pl.DataFrame(runs), pl.DataFrame(flows), "made-up.duckdb")


def test_a_table_of_any_key_by_any_other(frame: Frame) -> None:
    # at 10 Mbit/s: flow 0 gets 1 + seed, mean 2.5; flow 1 gets 2 + seed, mean 3.5
    assert markdown(frame, "bottleneck.rate", "flow", "goodput") == (
        "goodput_mbit of each flow, mean over seed (2)\n\n"
        "| bottleneck.rate \\ flow |    0 |    1 |\n"
        "| ---------------------- | ---: | ---: |\n"
        "| 10Mbit                 |  2.5 |  3.5 |\n"
        "| 100Mbit                | 11.5 | 21.5 |"
    )


def test_what_a_mean_is_over_is_said(frame: Frame) -> None:
    assert (
        markdown(frame, "cc", None, "rtt").splitlines()[0]
        == "rtt_mean_ms of each flow, mean over bottleneck.rate (2), seed (2), flow (2)"
    )
    assert "| 45" in markdown(frame, "base_rtt", None, "rtt") or "|          45 |" in markdown(
        frame, "base_rtt", None, "rtt"
    )


def test_spread_is_the_standard_deviation(frame: Frame) -> None:
    # 2 and 3: mean 2.5, deviation 0.7071
    assert "2.5 ± 0.7071" in markdown(frame, "rate", "flow", "goodput", spread=True)


def test_measures_of_runs_and_short_names(frame: Frame) -> None:
    text = markdown(frame, "rate", "seed", "jain", where=["flows[1].base_rtt=40ms"])
    assert [line.split("|")[2:4] for line in text.splitlines()[4:]] == [[" 0.5 ", " 0.6 "], [" 0.7 ", " 0.8 "]]
    assert markdown(frame, "aqm", None, "jain").splitlines()[4].startswith("| codel | 0.65 |")


def test_where_keeps_only_what_is_wanted(frame: Frame) -> None:
    text = markdown(frame, "cc", None, "goodput", where=["bottleneck.rate=100Mbit", "seed=1"])
    assert [line.split()[1:4:2] for line in text.splitlines()[4:]] == [["cubic", "11"], ["reno", "21"]]
    assert selected(frame, ["seed=1"]).runs.height == 2
    with pytest.raises(InputError, match=r"--where: seed: found 3, allowed: 1, 2"):
        markdown(frame, "cc", None, "goodput", where=["seed=3"])


def test_tidy_rows_hold_one_value_and_every_key(frame: Frame) -> None:
    rows = list(csv.DictReader(io.StringIO(tidy(frame, ["goodput", "jain"]))))
    assert len(rows) == 8 + 4
    assert rows[1] == {
        "experiment": "made-up",
        "bottleneck.rate": "10Mbit",
        "flows[1].base_rtt": "40ms",
        "seed": "1",
        "flow": "1",
        "cc": "reno",
        "base_rtt_ms": "40.0",
        "measure": "goodput_mbit",
        "value": "3.0",
    }
    assert rows[-1]["measure"] == "jain" and rows[-1]["flow"] == ""


def test_unknown_names_get_one_line(frame: Frame) -> None:
    with pytest.raises(
        InputError, match=r"^made-up.duckdb: --rows: found bottleneck.rte, .* \(nearest: bottleneck.rate\)$"
    ):
        markdown(frame, "bottleneck.rte", None, "goodput")
    with pytest.raises(InputError, match=r"^made-up.duckdb: --value: found gooodput, .* \(nearest: goodput\)$"):
        markdown(frame, "cc", None, "gooodput")


def test_the_command_line(small: Path, tmp_path: Path, command: Command) -> None:
    done = command("run", small, "-o", "r.duckdb", "--jobs", "2")
    assert (done.returncode, done.stdout) == (
        0,
        "",
    ) and done.stderr == "8 runs done, 0 kept from before, 0 failed: r.duckdb\n"
    assert command("run", small, "-o", "r.duckdb").stderr.startswith("0 runs done, 8 kept")
    table = command("table", "r.duckdb", "--rows", "bottleneck.rate", "--columns", "base_rtt", "--value", "goodput")
    assert table.returncode == 0 and "| 10Mbit" in table.stdout and " 40ms |" in table.stdout
    assert command("table", "r.duckdb", "--csv", "--value", "sojourn_p99").stdout.count("sojourn_p99_ms") == 8
    assert (
        command("plot", "r.duckdb", "-o", "p.svg", "--value", "srtt").returncode == 0 and (tmp_path / "p.svg").exists()
    )
    for options in (
        ["--against", "base_rtt", "--where", "bottleneck.rate=2Mbit"],
        ["--time", "1s..2s", "--where", "flow=1"],
    ):
        assert command("plot", "r.duckdb", "-o", "q.svg", *options).returncode == 0, options
    for options in (["--against", "base_rt"], ["--time", "1s"], ["--time", "1..2"]):
        done = command("plot", "r.duckdb", *options)
        assert done.returncode == 2 and done.stderr.startswith(("r.duckdb: --against", "--time")), done.stderr
    assert command("export", "r.duckdb", "--parquet", "-o", "out").returncode == 0
    assert pl.read_parquet(tmp_path / "out" / "runs.parquet").height == 8
    assert command("export", "r.duckdb", "--parquet", "-o", "out").returncode == 2
    assert json.loads(command("schema").stdout)["$defs"]
    for line in (["frobnicate"], ["run"], ["run", small, "--jobs", "0"], ["table", "r.duckdb", "--csv", "--markdown"]):
        done = command(*line)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr


def test_lines_against_a_key(frame: Frame, tmp_path: Path) -> None:
    def drawn(frame: Frame, key: str, value: str) -> list[tuple[object, list[float], list[float]]]:
        [axes] = figures.against(frame, key, value, tmp_path / "lines.png").panels.values()
        found = [(line.get_label(), np.asarray(line.get_xydata()).tolist()) for line in axes.lines]
        return [(label, [x for x, _ in points], [round(y, 9) for _, y in points]) for label, points in found]

    assert drawn(frame, "bottleneck.rate", "goodput") == [
        ("flow 0", [10, 100], [2.5, 11.5]),
        ("flow 1", [10, 100], [3.5, 21.5]),
    ]
    one = selected(frame, ["flow=1", "seed=1"])
    assert [line[1:] for line in drawn(one, "bottleneck.rate", "goodput")] == [([10, 100], [3.0, 21.0])]
    # runs are 10 Mbit with seeds 1 and 2, then 100 Mbit
    by_rate = [("rate 10Mbit", [1, 2], [0.5, 0.6]), ("rate 100Mbit", [1, 2], [0.7, 0.8])]
    assert drawn(frame, "seed", "jain") == by_rate


def test_everything_registered_is_listed_described_and_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from conftest import parsed

    known = registry.registry()
    cli.list_("")
    listed = capsys.readouterr().out
    for name in [*known.aqm, *known.cc]:
        assert f"  {name} " in listed
        cli.describe(name)
    text = capsys.readouterr().out
    assert all(param.doc in text for a in [*known.aqm.values(), *known.cc.values()] for param in a.params.values())
    plan = parsed(duration="1s", matrix={"bottleneck.aqm": list(known.aqm), "flows[0].cc": list(known.cc)})
    report = sweep.run([plan], tmp_path / "r.duckdb")
    assert report.failed == [] and report.done == len(known.aqm) * len(known.cc)
    with Store.open(tmp_path / "r.duckdb") as store:
        assert (store.table("flows")["goodput_mbit"] > 0).all()
