"""Figures and tables of DualPI2 as its authors' reports have them, and version against version."""

from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

import dumbbell
from conftest import Command
from dumbbell.pages import study
from dumbbell.results.store import Store
from dumbbell.study import Evidence, InputError, Results, figures
from studies.dualpi2_versions import paper as l4s

ROOT = Path(__file__).parents[2]
HEAD = """\
duration = "{seconds}s"
seeds = [1, 2]

[bottleneck]
rate = "{rate}Mbit"
shaper = "htb"
aqm = {{ name = "dualpi2", version = "{version}", ecn_mask = "any_ect" }}

[[flows]]
cc = "{cc}"
ecn = true
base_rtt = "10ms"
count = {count}
start = {{ uniform = ["0s", "100ms"] }}

[[flows]]
cc = "cubic"
ecn = false
base_rtt = "10ms"
count = {count}
start = {{ uniform = ["0s", "100ms"] }}

[record]
series = false
"""
WEB = """
[[web]]
cc = "{cc}"
ecn = true
base_rtt = "10ms"
arrivals = "2.5/s/Mbit"

[[web]]
cc = "cubic"
ecn = false
base_rtt = "10ms"
arrivals = "2.5/s/Mbit"
"""
# iperf's 50 Mbit/s are of payload: 1470 of the 1512 B of a frame
UDP = """
[[udp]]
rate = "{udp}"
size = "1512B"
ecn = "{ecn}"
"""
MATRIX = """
[matrix]
"flows[1].base_rtt" = ["10ms", "20ms"]
"""
VERSIONS = """
"bottleneck.aqm" = [
    { name = "dualpi2", version = "tsfifo", ecn_mask = "any_ect" },
    { name = "dualpi2", version = "wrr", ecn_mask = "any_ect" },
]
"""


def run(
    folder: Path, name: str, more: str = "", seconds: float = 3, rate: int = 40, count: int = 1, new: bool = False
) -> None:
    """Run an experiment of a few seconds into l4s.duckdb."""
    text = (
        HEAD.format(
            seconds=seconds,
            rate=rate,
            count=count,
            version="linux-5.10" if new else "tsfifo",
            cc="prague" if new else "dctcp",
        )
        + more
    )
    (folder / f"{name}.toml").write_text(text)
    dumbbell.run(folder / f"{name}.toml", output=folder / "l4s.duckdb")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("l4s")
    run(folder, "pairs", MATRIX + VERSIONS)
    run(folder, "new", MATRIX, new=True)
    run(folder, "ccdf", "\n[matrix]" + VERSIONS, seconds=2, rate=120)
    run(folder, "web", WEB.format(cc="dctcp") + "\n[matrix]" + VERSIONS, seconds=6)
    run(folder, "five", count=5, new=True)
    run(folder, "overload", UDP.format(udp="51.428571Mbit", ecn="ect1"), seconds=2, rate=100, count=5, new=True)
    return folder / "l4s.duckdb"


@pytest.fixture(scope="module")
def found(store: Path) -> l4s.Results:
    return l4s.Results(store)


PLACE = ["experiment", "aqm", "cc_a", "cc_b", "link_mbit", "rtt_a_ms", "rtt_b_ms", "flows_a", "flows_b"]
CELL = "mixed-rtt,dualpi2,prague,cubic,40,10,20,1,1,,,tcp"


def write_statistics(folder: Path) -> Path:
    """Write statistics of one cell of the evaluation."""
    path = folder / "published.csv"
    rows = [
        ",".join([*PLACE, "udp_mbit,udp_class,counted,class,statistic,mean,p1,p25,p75,p99,stddev"]),
        f"{CELL},a,rate_per_flow_mbit,30,,,,,",
        f"{CELL},b,rate_per_flow_mbit,10,,,,,",
        f"{CELL},a,queue_delay_ms,0.5,.1,.2,.6,1.25,",
        f"{CELL},b,queue_delay_ms,15,1,9,20,24,",
        f"{CELL},all,util_pct,99.5,,,,,",
        "overload,dualpi2,prague,cubic,100,10,10,5,5,50,a,tcp,a,mark_pct,16,,,,,",
        "overload,dualpi2,prague,cubic,100,10,10,5,5,50,a,udp,a,mark_pct,77,,,,,",
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_a_run_is_in_every_report_figure_that_it_belongs_to(found: l4s.Results) -> None:
    assert found.list_reports() == ["schedulers", "2021"]
    equal = found.select_report("schedulers", "equal")
    assert set(equal["version"]) == {"DUALPI2 (tsfifo)", "DUALPI2WRR"} and set(equal["load"]) == {"1-1", "1h-1h"}
    for kind in ("mixed", "same"):  # one run of 10 ms at 40 Mbit/s is in both
        assert 10.0 in found.select_report("schedulers", kind)["rtt_c"], kind
    assert (
        set(found.select_report("2021", "ten")["flows_l"]) == {5}
        and found.select_report("schedulers", "ten").is_empty()
    )
    overload = found.select_report("2021", "overload")
    assert set(overload["udp"]) == {50.0} and set(overload["udp_in"]) == {"L"}


def test_measures_are_means_of_what_the_store_has(store: Path, found: l4s.Results) -> None:
    with Store.open(store) as opened:
        runs, classes = opened.read_table("runs"), opened.read_table("classes")
    place = pl.col("rtt_c") == 20, pl.col("version") == "DUALPI2WRR"
    keys = found.runs.filter(*place)["key"]
    own, of_runs = (frame.filter(pl.col("key").is_in(keys.implode())) for frame in (classes, runs))
    assert len(keys) == 2 and own.height == 4
    here = {row["what"]: row for row in found.select_report("schedulers", "mixed").filter(*place).iter_rows(named=True)}
    low, classic = (own.filter(pl.col("class") == n) for n in (0, 1))
    rates = of_runs["rate_ratio"].to_list()
    assert here["ratio of rates"]["value"] == pytest.approx(sum(rates) / 2)
    # Student's t of one degree of freedom is 12.706; the deviation of two is their distance over the root of 2
    half = 12.7062 * abs(rates[0] - rates[1]) / 2
    assert here["ratio of rates"]["high"] - here["ratio of rates"]["value"] == pytest.approx(half, rel=1e-4)
    for what, frame, column, factor in [
        ("L, mean", low, "sojourn_mean_ms", 1),
        ("C, P99", classic, "sojourn_p99_ms", 1),
        ("L, marks", low, "mark_share", 100),
        ("C, drops", classic, "drop_share", 100),
        ("C, normalised window", classic, "normalised_window", 1),
    ]:
        assert here[what]["value"] == pytest.approx(factor * sum(frame[column]) / 2), what
    assert here["L, marks"]["value"] > 0 and here["C, marks"]["value"] == 0


def test_the_normalised_window_is_that_of_the_evaluation(store: Path, found: l4s.Results) -> None:
    """Rate times base RTT and mean time in queue, over link / sum of n / (q + RTT)."""
    one = found.runs.filter(pl.col("rtt_c") == 20)["key"][0]
    with Store.open(store) as opened:
        own = opened.read_table("classes").filter(pl.col("key") == one).sort("class")
    rtts = [row["sojourn_mean_ms"] + row["base_rtt_ms"] for row in own.iter_rows(named=True)]
    fair = 40 / sum(1 / rtt for rtt in rtts)
    for row, rtt in zip(own.iter_rows(named=True), rtts, strict=True):
        assert row["normalised_window"] == pytest.approx(row["throughput_mbit"] * rtt / fair, rel=1e-6)


def test_completion_is_the_shortest_time_over_the_real_one(store: Path, found: l4s.Results) -> None:
    done = l4s.collect_completions(found).filter(
        pl.col("version") == "DUALPI2WRR", pl.col("side") == "L", pl.col("size") == 1
    )
    [row] = done.iter_rows(named=True)
    with Store.open(store) as opened:
        short, classes = opened.read_table("short_flows"), opened.read_table("classes")
    keys = found.runs.filter(pl.col("load") == "1h-1h", pl.col("version") == "DUALPI2WRR")["key"]
    own = short.join(classes.filter(pl.col("cc") == "dctcp"), on=["key", "class"], how="semi")
    own = own.filter(
        pl.col("key").is_in(keys.implode()), pl.col("size_bytes") < 3000, pl.col("completion_s").is_not_nan()
    )
    shares = [(size * 8 / 40e6 + 0.02) / time for size, time in own.select("size_bytes", "completion_s").iter_rows()]
    assert row["flows"] == len(shares) > 100
    assert row["value"] == pytest.approx(sum(shares) / len(shares)) and 0.5 < row["value"] < 1.1


def list_points(picture: figures.Picture) -> dict[tuple[object, ...], dict[str, list[tuple[float, float]]]]:
    """Return the points of each line by panel and label."""
    return {
        key: {
            str(line.get_label()): [(x, y) for x, y in np.asarray(line.get_xydata()).tolist()]
            for line in axes.lines
            if not str(line.get_label()).startswith("_")
        }
        for key, axes in picture.panels.items()
    }


def test_versions_stand_side_by_side(found: l4s.Results) -> None:
    pictures = l4s._draw_lines(found, "schedulers", l4s.FIGURES["mixed-delay-c"])
    drawn = list_points(pictures[""])
    assert {key[-1] for key in drawn} == {"DUALPI2 (tsfifo)", "DUALPI2WRR"} and len(drawn) == 4
    means = found.select_report("schedulers", "mixed").filter(pl.col("what") == "C, mean").sort("rtt_c")
    for version, own in means.partition_by("version", as_dict=True).items():
        assert np.allclose(drawn[("C, mean", *version)]["L 10 ms"], own.select("rtt_c", "value").rows())
    split = l4s._draw_lines(found, "schedulers", l4s.FIGURES["equal-delay-l"])
    assert set(split) == {"1-1", "1h-1h"}


def test_bars_of_counts_are_the_slowest_and_the_fastest_flow(store: Path, found: l4s.Results) -> None:
    rows = found.select_report("2021", "ten").filter(pl.col("what") == "C, normalised rate")
    [row] = l4s._find_slowest_and_fastest(found, rows).iter_rows(named=True)
    keys = found.runs.filter(pl.col("flows_l") == 5, pl.col("udp_in") == "")["key"]
    with Store.open(store) as opened:
        flows = opened.read_table("flows").filter(pl.col("key").is_in(keys.implode()), pl.col("cc") == "cubic")
    rate = pl.col("throughput_mbit")
    shares = flows.group_by("key").agg(low=rate.min() / rate.mean(), high=rate.max() / rate.mean())
    assert row["low"] == pytest.approx(row["value"] * shares["low"].mean()) and row["low"] < row["value"]
    assert row["high"] == pytest.approx(row["value"] * shares["high"].mean()) and row["high"] > row["value"]


@pytest.mark.slow
def test_published_values_stand_beside_their_cells_only(store: Path, tmp_path: Path) -> None:
    beside = l4s.Results(store, write_statistics(tmp_path))
    known = beside.measured.drop_nulls("published")
    # 30 / 10; windows 30 (10 + 0.5) and 10 (20 + 15)
    assert dict(known.filter(pl.col("udp_in") == "").select("what", "published").iter_rows()) == {
        "ratio of rates": 3,
        "ratio of windows": pytest.approx(0.9),
        "L, rate": 30,
        "C, rate": 10,
        "L, mean": 0.5,
        "L, P99": 1.25,
        "C, mean": 15,
        "C, P99": 24,
        "utilisation, %": 99.5,
    }
    assert set(known["report"]) == {"2021"} and set(known["rtt_c"]) == {10.0, 20.0}
    assert known.filter(pl.col("udp_in") == "L").select("what", "published").rows() == [("L, marks", 16)]
    picture = l4s._draw_lines(beside, "2021", l4s.FIGURES["mixed-rate"])[""]
    assert "published" in [label for label, _ in picture.entries]
    text = l4s.format_tables(beside)
    assert "(0.5)" in text and "In parentheses: published." in text
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"^reference: .*other.csv has other columns"):
        l4s.Results(store, tmp_path / "other.csv")


def test_an_interval_narrower_than_a_bin_says_so() -> None:
    # 605.6 ms lie in the octave of 2^29 ns, of whose bins there are 64
    row = {"value": 605.6, "high": 605.6, "published": 600.0}
    assert l4s._format_cell(row | {"what": "C, P99"}) == "605.6 ± <8.4 (600)"
    assert l4s._format_cell(row | {"what": "C, P99", "high": 615.6}) == "605.6 ± 10 (600)"
    assert l4s._format_cell(row | {"what": "C, P99", "high": None}) == "605.6 (600)"
    assert l4s._format_cell(row | {"what": "C, mean"}) == "605.6 (equal) (600)"
    assert l4s._format_cell(row | {"what": l4s.RATIO, "high": 605.65}) == "605.6 ± 0.05 (600)"


@pytest.mark.slow
def test_a_folder_of_figures_and_tables(store: Path, tmp_path: Path, command: Command) -> None:
    done = command("study", "tables", "dualpi2-versions", store)
    assert done.returncode == 0, done.stderr
    figures = command("study", "figure", "dualpi2-versions", "--from", store, "-o", tmp_path / "new")
    assert figures.returncode == 0, figures.stderr
    drawn = sorted(path.name for path in (tmp_path / "new").glob("*.svg"))
    assert sorted(Path(line).name for line in figures.stdout.splitlines() if line.endswith(".svg")) == drawn
    for name in (
        "schedulers-ccdf",
        "schedulers-completion-cubic",
        "2021-overload-rate",
        "2021-mixed-rate",
        "2021-counts-ten",
    ):
        assert f"{name}.svg" in drawn
    assert not any(name.startswith("commits") for name in drawn), "no runs of them"
    assert "## Schedulers" in done.stdout and "### Overload\n\nNo runs." in done.stdout
    wrong = command("study", "tables", "abe", store, "--reference", "x.csv")
    assert wrong.returncode == 2 and "--reference" in wrong.stderr


def test_runs_that_no_figure_tells_apart_are_refused(tmp_path: Path) -> None:
    run(tmp_path, "one", seconds=1)
    run(tmp_path, "two", seconds=2)
    with pytest.raises(InputError, match="they differ in duration"):
        l4s.Results(tmp_path / "l4s.duckdb")
    (tmp_path / "codel.toml").write_text(
        'duration = "1s"\n[bottleneck]\naqm = "codel"\n[[flows]]\ncc = "dctcp"\nbase_rtt = "5ms"\n'
    )
    dumbbell.run(tmp_path / "codel.toml", output=tmp_path / "codel.duckdb")
    with pytest.raises(InputError, match="no run of these reports"):
        l4s.Results(tmp_path / "codel.duckdb")


@pytest.fixture
def versions() -> ModuleType:
    return study.find("dualpi2_versions").program


def test_versions_are_held_against_each_other_seed_by_seed(store: Path, versions: ModuleType) -> None:
    values = versions.read(Results(str(store)))
    mixed = values.filter(pl.col("workload") == "one flow each", pl.col("rate") == 40)
    found = versions._compare_versions(mixed, "tsfifo", "wrr")
    assert "2 cells in both, n = 2; paired seed by seed" in found.lines[-1]
    row = found.frame.filter(pl.col("measure") == "C, mean").row(0, named=True)
    assert found.frame["pair"].n_unique() == 2
    one = mixed.filter(
        pl.col("report") == "schedulers",
        pl.col("what") == "C, mean",
        pl.col("rtt_c") == (10 if " 10.0/10.0 " in row["where"] else 20),
    )
    by_seed = one.pivot("version", index="seed", values="value")
    assert row["difference"] == pytest.approx((by_seed["wrr"] - by_seed["tsfifo"]).mean())
    found = versions.make_evidence(Results(str(store)))
    changes, alike = found["changes"], found["alike"]
    chosen = changes.filter(pl.col("b") == "wrr", pl.col("workload") == "one flow each", pl.col("what") == "C, mean")
    assert chosen["cells"].item() > 0 and chosen["change"].item() is not None
    assert (
        alike.filter(pl.col("runs") == 0).height == len(versions.PAIRS) - 1
    )  # versions that this store has no runs of
    assert "| C: mean time in queue, ms" in versions.format_table(Evidence(found), "tsfifo", "wrr", "one flow each")


def test_a_version_against_itself_is_the_same_to_the_last_bit(store: Path, versions: ModuleType) -> None:
    values = versions.read(Results(str(store)))
    same, runs = versions._count_identical(values, "tsfifo", "tsfifo")
    assert same == runs > 0
