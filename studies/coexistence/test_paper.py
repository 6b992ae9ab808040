"""DCTCP and BBRv2 over STEP, PI2, CSAQM and tail drop: places of runs, frames, figures and tables."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import Command
from dumbbell import experiment
from dumbbell.study import InputError, Results, shipped
from studies.coexistence import paper
from studies.coexistence import terms as coexistence

# at 100 Mbit/s and 10 ms, K RTT C is K times 125000 bytes; 500 ms are 6.25 MB, or 4128 packets of 1514 bytes
FILE = """\
duration = "{seconds}s"
seeds = {seeds}

[bottleneck]
rate = "100Mbit"
aqm = {{ name = "red", min = "62500B", max = "62500B", wlog = 0, ecn = true, limit = "6250000B" }}

[[flows]]
cc = {{ name = "bbr2", ecn = true, ecn_max_rtt = "0s" }}
base_rtt = "10ms"
start = {{ uniform = ["0s", "100ms"] }}

[[flows]]
cc = "dctcp"
base_rtt = "10ms"
start = {{ uniform = ["0s", "100ms"] }}

[record]
series = false

[matrix]
"flows[0].cc, flows[1].cc" = [
    ["dctcp", "dctcp"],
    [{{ name = "bbr2", ecn = true, ecn_max_rtt = "0s" }}, "dctcp"],
]
"bottleneck.aqm" = [
    {{ name = "red", min = "62500B", max = "62500B", wlog = 0, ecn = true, limit = "6250000B" }},
    {{ name = "pi2", target = "5ms", tupdate = "10ms", alpha = 5, beta = 102, limit = 55 }},
    {{ name = "bfifo", limit = "62500B" }},
]
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("coexistence")
    (folder / "tiny.toml").write_text(FILE.format(seconds=2, seeds="[1, 2]"))
    return dumbbell.run(folder / "tiny.toml", output=folder / "tiny.duckdb", progress=False)


def make_config(**changes: Any) -> dict[str, Any]:
    """The configuration of one BBRv2 and one DCTCP over STEP, with some keys replaced."""
    one = {"base_rtt": 10_000_000, "count": 1, "path": []}
    bbr = {"name": "bbr2", "ecn": True, "ecn_max_rtt": 0}
    table = {
        "flows": [one | {"cc": bbr}, one | {"cc": {"name": "dctcp"}}],
        "bottleneck": {
            "rate": 100_000_000,
            "aqm": {"name": "red", "min": 62500, "max": 62500, "wlog": 0, "ecn": True, "limit": 6_250_000},
            "path": [],
        },
        "web": [],
        "udp": [],
        "duration": 180_000_000_000,
    }
    return table | changes


def make_flow(cc: str, rtt_ms: int, count: int, *, limit_ms: int = 0, path: list[Any] | None = None) -> dict[str, Any]:
    own = {"name": cc} | ({"ecn": True, "ecn_max_rtt": limit_ms * 1_000_000} if cc == "bbr2" else {})
    return {"cc": own, "base_rtt": rtt_ms * 1_000_000, "count": count, "path": path or []}


def link(**aqm: Any) -> dict[str, Any]:
    return {"rate": 1_000_000_000, "aqm": aqm, "path": []}


def place(**changes: Any) -> tuple[Any, ...]:
    row = coexistence.describe(make_config(**changes))
    assert row is not None
    return tuple(row[name] for name in ("variant", "rate_gbit", "rtt", "buffer", "n", "flows", "k", "aqm", "mix"))


def test_a_run_has_a_place() -> None:
    assert place() == ("no limit", 0.1, "10", "500 ms", "2", 2, 0.5, "STEP", "both")
    # 1 Gbit/s: 8.5 ms is 1.0625 MB, 1.33 times that is 1413125 bytes or 933 packets
    assert place(
        flows=[make_flow("dctcp", 50, 20), make_flow("dctcp", 50, 20)],
        bottleneck=link(name="pi2", target=8_500_000, limit=933),
    ) == ("", 1.0, "50", "1.33 K", "40", 40, 0.17, "PI2", "dctcp")
    assert place(
        flows=[
            make_flow("bbr2", 50, 2, limit_ms=5),
            make_flow("dctcp", 50, 2),
            make_flow("bbr2", 5, 8, limit_ms=5),
            make_flow("dctcp", 5, 8),
        ],
        bottleneck=link(name="csaqm", target=50_000_000, limit=62_500_000),
    ) == ("5 ms limit", 1.0, "5+50", "500 ms", "2-2-8-8", 20, 10.0, "CSAQM", "both")
    # the file may list RTTs in any order
    assert place(
        flows=[make_flow("bbr2", 5, 16), make_flow("bbr2", 50, 4)], bottleneck=link(name="bfifo", limit=31250)
    ) == (
        "no limit",
        1.0,
        "5+50",
        "K",
        "4-16",
        20,
        0.05,
        "TailDrop",
        "bbr2",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"flows": [make_flow("cubic", 5, 1)]},
        {"flows": [make_flow("bbr2", 5, 1), make_flow("bbr2", 5, 1, limit_ms=5)]},
        {"flows": [make_flow("bbr2", 5, 1, path=[{"name": "value_marker", "weight": 3}])]},
        {"flows": [make_flow("dctcp", 5, 1, path=[{"name": "loss", "probability": 0.1}])]},
        {"flows": []},
        {"flows": [make_flow("bbr2", 5, 4), make_flow("dctcp", 5, 4)]},
        {"udp": [{"rate": 1}]},
        {"bottleneck": link(name="codel", limit=1000)},
        {"bottleneck": link(name="red", min=1000, max=3000, wlog=0, ecn=True, limit=60000)},
    ],
)
def test_other_runs_have_none(changes: dict[str, Any]) -> None:
    assert coexistence.describe(make_config(**changes)) is None


def test_a_weight_of_one_is_the_matrix() -> None:
    marked = [make_flow("dctcp", 5, 2, path=[{"name": "value_marker", "weight": 1}])]
    assert place(flows=marked, bottleneck=link(name="csaqm", target=5_000_000, limit=62_500_000))[-2] == "CSAQM"


@pytest.mark.slow
def test_every_run_of_the_files_has_a_place() -> None:
    names = [name for name in shipped.list_experiments() if re.search(r"^coexistence/.*-10?g", name)]
    assert len(names) >= 10
    for name in names:
        for cell in experiment.load(name).make_cells():
            row = coexistence.describe(cell.groups)
            assert row is not None, (name, cell.matrix)
            rtts, counts = row["rtt"], row["n"]
            assert row["rate_gbit"] == (10 if "10g" in name else 1)
            assert row["buffer"] == ("1.33 K" if "small" in name else "K" if "taildrop" in name else "500 ms"), name
            assert (rtts == "5+50") == ("rtts" in name) == ("-" in counts)
            assert row["variant"] == ("5 ms limit" if "limit" in name else "" if row["mix"] == "dctcp" else "no limit")
            assert row["k"] in ((0.05, 0.1, 0.17, 0.25, 0.5, 1, 2) + ((5, 10) if "rtts" in name else ()))


def collect_classes(*rows: tuple[str, str, str, str, float, float]) -> pl.DataFrame:
    names = ["key", "variant", "n", "cls", "relative_throughput", "delay"]
    frame = pl.DataFrame(rows, names, orient="row")
    return frame.with_columns(
        rate_gbit=1.0,
        rtt=pl.lit("5+50"),
        buffer=pl.lit("500 ms"),
        k=0.5,
        aqm=pl.lit("STEP"),
        mix=pl.when(pl.col("key").str.starts_with("mix")).then(pl.lit("both")).otherwise(pl.lit("one")),
    )


def test_harm_is_what_a_class_loses_beside_others() -> None:
    frame = collect_classes(
        ("dctcp a", "", "4-16", "dctcp-5", 1.0, 0.5),
        ("dctcp b", "", "4-16", "dctcp-5", 1.5, 0.7),  # another seed: 1.25 and 0.6 in the mean
        ("bbr2", "no limit", "4-16", "bbr2-5", 0.8, 0.5),
        ("bbr2 of 40", "no limit", "8-32", "bbr2-5", 0.1, 0.5),
        ("mix", "no limit", "2-2-8-8", "dctcp-5", 0.5, 0.8),
        ("mix", "no limit", "2-2-8-8", "bbr2-5", 1.2, 0.4),
        ("mix limit", "5 ms limit", "2-2-8-8", "dctcp-5", 1.25, 0.6),
        ("mix limit", "5 ms limit", "2-2-8-8", "bbr2-5", 1.2, 0.4),  # alone only without the limit
        ("mix 40", "no limit", "4-4-16-16", "dctcp-5", 0.5, 0.8),  # 8-32 of DCTCP alone did not run
    )
    rows = {(row[0], row[1]): row[2:] for row in coexistence.compute_harm(frame).rows()}
    assert rows == {
        ("mix", "dctcp-5"): pytest.approx((0.6, 0.25)),
        ("mix", "bbr2-5"): pytest.approx((-0.5, -0.25)),
        ("mix limit", "dctcp-5"): pytest.approx((0.0, 0.0)),
    }


def test_frames_of_a_real_run(found: Results) -> None:
    runs, classes = coexistence.runs(found), coexistence.classes(found)
    assert runs.height == 12 and classes.height == 3 * 2 * (1 + 2)
    assert set(runs["aqm"]) == {"STEP", "PI2", "TailDrop"} and set(runs["k"]) == {0.5}
    assert dict(runs.select("aqm", "buffer").unique().rows()) == {"STEP": "500 ms", "PI2": "1.33 K", "TailDrop": "K"}
    assert set(classes["cls"]) == {"bbr2-10", "dctcp-10"}
    whole = found.runs
    for run in runs.filter(pl.col("aqm") == "STEP").iter_rows(named=True):
        flows = found.flows.filter(pl.col("key") == run["key"])
        packets = flows["packets"].to_list()
        assert run["jain"] == pytest.approx(sum(packets) ** 2 / (2 * sum(p * p for p in packets)))
        (of_run,) = whole.filter(pl.col("key") == run["key"]).iter_rows(named=True)
        assert run["delay"] == pytest.approx(of_run["sojourn_mean_ms"] / 5)
        assert run["delay"] - 1 / 5 < run["delay_whole"] < run["delay"]
        assert run["delay_max"] == pytest.approx(of_run["sojourn_max_ms"] / 5) and run["delay_max"] > run["delay"] > 0
        assert run["marks"] == of_run["mark_share"] > 0 and run["drops"] == of_run["drop_share"]
        own = classes.filter(pl.col("key") == run["key"])
        # each flow's packets of 1514 bytes in 2 s, over 50 Mbit/s; SYNs are smaller
        shares = {f"{cc}-10": 0.0 for cc in flows["cc"]}
        for row in flows.iter_rows(named=True):
            share = row["packets"] * 1514 * 8 / 2e6 / 50
            shares[f"{row['cc']}-10"] += share / (2 if run["mix"] == "dctcp" else 1)
        assert dict(own.select("cls", "relative_throughput").rows()) == pytest.approx(shares, abs=0.005)
        assert own["members"].to_list() == ([2] if run["mix"] == "dctcp" else [1, 1])
    assert classes.filter(pl.col("cls") == "bbr2-10", pl.col("harm").is_not_null()).is_empty()
    assert classes.filter(pl.col("mix") == "both", pl.col("cls") == "dctcp-10")["harm"].null_count() == 0


def test_a_store_without_such_runs_is_refused(tmp_path: Path, small: Path, command: Command) -> None:
    dumbbell.run(small, output=tmp_path / "other.duckdb", progress=False)
    with pytest.raises(InputError, match="no run of DCTCP or BBRv2"):
        coexistence.runs(tmp_path / "other.duckdb")
    done = command("study", "tables", "coexistence", "other.duckdb")
    assert done.returncode == 2 and "coexistence/*" in done.stderr and "Traceback" not in done.stderr


def test_runs_of_two_kinds_in_one_cell_are_refused(tmp_path: Path) -> None:
    for seconds in (1, 2):
        (tmp_path / "tiny.toml").write_text(FILE.format(seconds=seconds, seeds="[1]"))
        dumbbell.run(tmp_path / "tiny.toml", output=tmp_path / "two.duckdb", progress=False)
    with pytest.raises(InputError, match="duration"):
        paper.Results(tmp_path / "two.duckdb")


def test_means_over_seeds_have_intervals(found: Results) -> None:
    every = paper.Results(found.path)
    figure = paper._Figure("", "utilisation", ("10",), ("dctcp",), 0.1)
    (row,) = every.collect_figure(figure).iter_rows(named=True)
    two = every.runs.filter(pl.col("aqm") == "STEP", pl.col("mix") == "dctcp")["utilisation"].to_list()
    mean, half = sum(two) / 2, 12.706 * abs(two[0] - two[1]) / 2  # Student's t of one degree of freedom
    assert row["runs"] == 2 and row["value"] == pytest.approx(mean)
    assert row["high"] - row["value"] == pytest.approx(half, rel=1e-3) and row["aqm"] == "STEP"


def test_an_interval_narrower_than_a_bin_of_the_paper_says_so() -> None:
    row = {"aqm": "PI2", "n": "2", "rtt": "10 and 50 ms", "value": 0.4, "low": 0.4, "k": 0.5}

    def find_cell(measure: str) -> str:
        figure = paper._Figure("", measure, ("10+50",), ("both",), facet=("rtt",))
        return paper._format_grid(figure, pl.DataFrame([row])).splitlines()[-1].split("|")[-2].strip()

    # bins of 1 ms, and a target of half of 10 ms
    assert find_cell("delay_whole") == "0.4 ± <0.2" and find_cell("delay") == "0.4 (equal)"


def test_the_papers_figures_and_tables(found: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {
        "01": paper._Figure("Utilisation", "utilisation", ("10",), ("dctcp",), 0.1),
        "08": paper._Figure("Throughput", "relative_throughput", ("10",), ("both",), 0.1),
        "drops": paper._Figure("Drops", "drops", ("10",), ("dctcp", "both"), 0.1, buffer="K", facet=("mix", "rtt")),
        "harm": paper._Figure("Harm", "harm", ("5",), ("both",)),  # no runs
    }
    monkeypatch.setattr(paper, "FIGURES", chosen)
    every = paper.Results(found.path)
    paths = paper.draw(every, tmp_path / "figures")
    assert [path.name for path in paths] == ["figure-01.svg", "figure-08.svg", "drops.svg"]
    assert all(path.stat().st_size > 5000 for path in paths)
    text = paper.format_tables(every)
    assert "## Figure 1: Utilisation" in text and "## Harm\n\nNo runs." in text
    throughput = text.partition("## Figure 8")[2].partition("##")[0]
    rows = [line.split("|")[1:-1] for line in throughput.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in rows[0]] == ["AQM", "N", "class", "0.5"]
    assert [cell.strip() for cell in rows[2][:3]] == ["STEP", "2", "bbr2-10"] and "±" in rows[2][3]


def test_a_logarithmic_axis_leaves_out_what_reaches_0() -> None:
    figure = paper._Figure("Delay", "delay", ("5",), ("dctcp",), log=True)
    rows = {"k": [0.05, 0.1, 0.17], "value": [0.0, 1.0, 2.0], "low": [-0.1, -1.0, 1.5], "high": [0.1, 3.0, 2.5]}
    frame = pl.DataFrame(rows).with_columns(n=pl.lit("2"), aqm=pl.lit("STEP"), runs=3)
    made = paper.draw_figure(figure, frame)
    [axes] = made.panels.values()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "0.17"]
    [ends] = axes.collections[0].get_segments()[1:]  # type: ignore[attr-defined]
    assert ends[:, 1].tolist() == [1.5, 2.5] and "means of 3 runs" in str(made.around.title)


def test_the_command_names_its_papers(command: Command) -> None:
    done = command("study", "tables", "coexistance", "none.duckdb")
    assert done.returncode == 2 and "did you mean coexistence?" in done.stderr
    for name in ("stacks", "coexistence", "dualpi2-versions"):
        assert name in done.stderr
    done = command("study", "tables", "coexistence", "none.duckdb", "--reference", "x.csv")
    assert done.returncode == 2 and "--reference" in done.stderr
