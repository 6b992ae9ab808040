"""What differs between results: verdicts, intervals, ranking, exit status."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import dumbbell
from conftest import Command, described
from dumbbell import Results, experiment
from dumbbell.engines import sweep
from dumbbell.errors import InputError
from dumbbell.results import diff
from dumbbell.results.store import TABLES
from test_results import RANDOM, SHORT, made

TWO = [{"cc": "cubic", "base_rtt": "20ms", "count": 2, "start": {"uniform": ["0s", "1s"]}}]


def run(path: Path, settings: list[str] | None = None, **changes: Any) -> Results:
    table = described(**({"duration": "10s", "flows": TWO, "record": {"series": False}} | changes))
    report = sweep.run([experiment.parse(table, "diff.toml", settings)], path, progress=False)
    assert report.failed == []
    return dumbbell.open(path)


def test_a_higher_target_of_codel_shows_in_the_sojourn_first(tmp_path: Path) -> None:
    codel = {"rate": "10Mbit", "aqm": {"name": "codel", "ecn": True}}
    matrix = {"bottleneck.aqm.target": ["5ms", "6ms"], "bottleneck.rate": ["10Mbit", "50Mbit"]}
    results = run(tmp_path / "r.duckdb", bottleneck=codel, matrix=matrix, seeds=[1, 2, 3, 4, 5, 6], duration="30s")
    found = results.diff(by="bottleneck.aqm.target")
    assert found.different
    assert found.measures["measure"][0].startswith("sojourn"), found.measures.select("measure", "change")
    first = found.measures.filter(pl.col("measure") == "sojourn_mean_ms", pl.col("table") == "runs").row(0, named=True)
    assert first["differs"] and first["difference"] > 0 and first["change_low"] > 0
    # more than a microsecond of queue for each of target: most of the difference arrives
    assert 0.4 < first["difference"] < 1.5
    assert "time in queue" in found.to_markdown().split("\n\n")[1]
    with pytest.raises(InputError, match=r"by: .* has one value"):
        results.where("target=5ms").diff(by="target")


def test_the_same_twice_is_no_difference(tmp_path: Path) -> None:
    one, two = run(tmp_path / "a.duckdb", seeds=[1, 2]), run(tmp_path / "b.duckdb", seeds=[1, 2])
    found = one.diff(two)
    assert not found.different and "all" in found.to_markdown() and (found.frame["difference"] == 0).all()


@pytest.mark.slow
def test_other_seeds_of_the_same_are_within_chance(tmp_path: Path) -> None:
    """200 comparisons of six seeds with six others, all of one cell: about 5 % have p < 0.05, and none is different."""
    pie = {"rate": "10Mbit", "aqm": "pie"}
    results = run(tmp_path / "r.duckdb", seeds=list(range(1, 2401)), bottleneck=pie, duration="2s")
    long = diff._stack_measures(results._runs, ["sojourn_mean_ms"]).with_columns(where=pl.lit(""))
    blocks = long.with_columns(pair=(pl.col("seed") - 1) // 12, first=(pl.col("seed") - 1) % 12 < 6)
    a, b = blocks.filter("first").drop("first"), blocks.filter(~pl.col("first")).drop("first")
    frame = diff._decide_verdicts(diff._compute_tests(diff._compare_cells(a, b)))
    assert frame.height == 200 and frame["n"].unique().to_list() == [6] and not frame["paired"].any()
    alarms = int((frame["p"] < 0.05).sum())
    # binomial(200, 0.05): 3 to 19 with 99.8 %
    assert 3 <= alarms <= 19, alarms
    assert not frame["differs"].any()


def test_cells_that_draw_from_the_same_seeds_are_not_independent(tmp_path: Path) -> None:
    """The start that a seed draws moves the goodput of all cells alike: over all cells that is no difference."""
    matrix = {"bottleneck.rate": [f"{rate}Mbit" for rate in range(10, 40)]}
    one = run(tmp_path / "a.duckdb", seeds=[1, 2, 3, 4, 5, 6], matrix=matrix, duration="2s")
    two = run(tmp_path / "b.duckdb", seeds=[7, 8, 9, 10, 11, 12], matrix=matrix, duration="2s")
    found = one.diff(two)
    assert not found.different, found.to_markdown()
    assert found.measures["n"].max() == 6 and found.measures["cells"].max() == 30


def test_pairs_by_seed_by_hand(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a.duckdb"), made(tmp_path / "b.duckdb", flows=RANDOM)
    for results, values in ((a, (0.5, 0.6, 0.7)), (b, (0.51, 0.62, 0.73))):
        with duckdb.connect(str(results.path)) as connection:
            for seed, value in enumerate(values, 1):
                connection.execute("UPDATE runs SET jain = ? WHERE seed = ?", [value, seed])
    row = a.diff(b, values=["jain"]).frame.row(0, named=True)
    # differences 0.01, 0.02, 0.03: mean 0.02, s = 0.01, half = 4.302653 * 0.01 / sqrt(3), t = 3.4641, p = 0.0742
    assert (row["difference"], row["half"], row["p"]) == pytest.approx((0.02, 0.0248413, 0.0741799), abs=1e-6)
    assert (row["n"], row["paired"], row["differs"]) == (3, True, False)
    # the interval of the change is that of the difference, in units of A
    ends = [(0.02 + sign * 0.0248413) / 0.6 for sign in (-1, 1)]
    assert (row["change"], row["change_low"], row["change_high"]) == pytest.approx((0.02 / 0.6, *ends), abs=1e-5)


def values_of(side: str, *cells: Sequence[float | None]) -> pl.DataFrame:
    """Return drops of some cells by seed, as `diff.compare_rows` has them."""
    return pl.DataFrame(
        {"pair": pair, "where": f"cell {pair}", "table": "runs", "measure": "drops", "part": "", "seed": seed}
        | {"hash": f"{side} {pair} {seed}", "value": value}
        for pair, cell in enumerate(cells)
        for seed, value in enumerate(cell)
        if value is not None
    )


def test_a_large_change_has_the_interval_of_its_difference() -> None:
    """About 30 times as much: 161.8 to 196.9 on 6.1 has both ends."""
    row = diff.compare_rows(
        values_of("a", [5.8, 6.1, 6.4]), values_of("b", [177.0, 186.0, 193.0]), ("A", "B")
    ).frame.row(0, named=True)
    ends = [(row["difference"] + sign * row["half"]) / row["a"] for sign in (-1, 1)]
    assert [row["change_low"], row["change_high"]] == pytest.approx(ends) and 20 < ends[0] < ends[1] < 40


def test_cells_that_change_both_ways_have_no_mean_change() -> None:
    a = values_of("a", [10.0, 10.1, 10.2], [50.0, 50.1, 50.3])
    found = diff.compare_rows(a, values_of("b", [30.1, 30.0, 30.3], [40.0, 40.3, 40.2]), ("A", "B"))
    row = found.measures.row(0, named=True)
    assert row["differs"] and (row["change"] > 0, row["rises"], row["falls"]) == (True, 1, 1)
    text = found.to_markdown()
    assert "| rises in 1 cell, falls in 1 |" in text and "%" not in text.partition("\n\n")[2].replace("95 % i", "")
    assert "-: cells that change both ways have no mean change." in text and "2 of 2" in text
    one_way = diff.compare_rows(a, values_of("b", [30.1, 30.0, 30.3], [60.0, 60.3, 60.2]), ("A", "B")).to_markdown()
    assert "rises" not in one_way and " to +" in one_way and "\n-: " not in one_way


def test_why_there_are_fewer_seeds_is_said() -> None:
    whole, part = [1.0, 2.0, 3.0], [1.0, 2.0, None]
    b = values_of("b", [2.0, 3.0, 5.0], [3.0, 4.0, 7.0])
    fewer = diff.compare_rows(values_of("a", whole, part), b, ("A", "B")).lines[-1]
    assert "n = 2 to 3 seeds (fewer where a cell has fewer runs);" in fewer
    others = [frame.with_columns(measure=pl.lit("ce_marks")) for frame in (values_of("a", whole, whole), b)]
    lacking = pl.concat([values_of("a", part, part), others[0]]), pl.concat([b, others[1]])
    assert "n = 2 to 3 seeds (fewer where a run has no value);" in diff.compare_rows(*lacking, ("A", "B")).lines[-1]
    same = [
        frame.with_columns(hash=pl.when(pl.col("pair") == 0).then(pl.lit("one")).otherwise("hash"))
        for frame in (values_of("a", whole, whole), b)
    ]
    assert (
        "n = 1 to 3 seeds (runs that are equal count once);"
        in diff.compare_rows(same[0], same[1], ("A", "B")).lines[-1]
    )


def test_means_of_other_seeds_by_hand(tmp_path: Path) -> None:
    a, b = made(tmp_path / "a.duckdb", seeds=[1, 2, 3]), made(tmp_path / "b.duckdb", seeds=[4, 5, 6, 7])
    for results, values in ((a, (1.0, 2.0, 3.0)), (b, (5.0, 5.2, 5.4, 5.6))):
        seeds = results.seeds
        with duckdb.connect(str(results.path)) as connection:
            for seed, value in zip(seeds, values, strict=True):
                connection.execute("UPDATE runs SET jain = ? WHERE seed = ?", [value, seed])
    row = a.diff(b, values=["jain"]).frame.row(0, named=True)
    # Welch: 5.3 - 2, variance 1/3 + 0.066667/4 = 0.35, freedom 0.35^2 / ((1/3)^2/2 + 0.016667^2/3) = 2.2013
    assert row["difference"] == pytest.approx(3.3) and row["paired"] is False
    assert row["variance"] == pytest.approx(0.35) and row["freedom"] == pytest.approx(2.2013, abs=1e-3)


def test_one_run_on_either_side_differs_if_it_is_not_equal(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a.duckdb"), run(tmp_path / "b.duckdb", ["bottleneck.aqm.target=5ms"])
    assert not a.diff(b).different
    results = run(tmp_path / "c.duckdb", matrix={"bottleneck.aqm.target": ["5ms", "9ms"]})
    found = results.diff(by="target")
    assert found.different and found.frame["half"].null_count() == found.frame.height
    assert "n = 1" in found.to_markdown()


def test_what_only_one_side_has_is_named(tmp_path: Path) -> None:
    common: dict[str, Any] = SHORT | {"flows": RANDOM}
    a = made(tmp_path / "a.duckdb", **common, matrix={"bottleneck.rate": ["5Mbit", "10Mbit"]})
    b = made(tmp_path / "b.duckdb", **common, matrix={"bottleneck.rate": ["10Mbit", "15Mbit", "20Mbit"]})
    text = a.diff(b).to_markdown()
    assert "1 cell only in A, 2 only in B" in text and "1 cell in both" in text
    with pytest.raises(InputError, match="none of the 1 and 3 cells is in both"):
        a.where("rate=5Mbit").diff(b)


def test_other_keys_that_change_along_are_named(tmp_path: Path) -> None:
    axis = {"bottleneck.rate, flows[*].base_rtt": [["5Mbit", "10ms"], ["10Mbit", "20ms"]]}
    results = made(tmp_path / "r.duckdb", matrix=axis)
    assert "They differ in flows[0].base_rtt, flows[1].base_rtt as well." in results.diff(by="rate").to_markdown()


def test_two_engines_in_one_file(tmp_path: Path) -> None:
    results = made(tmp_path / "r.duckdb", matrix={"bottleneck.rate": ["5Mbit", "10Mbit"]})
    with duckdb.connect(str(results.path)) as connection:
        for table in TABLES:
            connection.execute(f"UPDATE {table} SET key = 'old ' || key")
        connection.execute("UPDATE runs SET engine_version = 'old'")
    made(tmp_path / "r.duckdb", matrix={"bottleneck.rate": ["5Mbit", "10Mbit"]})
    found = dumbbell.open(results.path).diff(by="engine_version")
    assert not found.different and found.frame["pair"].n_unique() == 2 and "all" in found.to_markdown()
    for factor, different in ((1 - 1e-15, False), (1 - 1e-6, True)):  # what two sums in another order may differ in
        with duckdb.connect(str(results.path)) as connection:
            connection.execute("UPDATE runs SET jain = jain * ? WHERE engine_version = 'old'", [factor])
        found = dumbbell.open(results.path).diff(by="engine_version")
        assert found.different == different, found.to_markdown(cells=True)
        assert different or f"all {found.frame.height} compared figures are equal" in found.to_markdown()


def test_a_sweep_that_was_stopped_is_compared_in_what_it_has(tmp_path: Path) -> None:
    matrix = {"bottleneck.rate": ["5Mbit", "20Mbit"]}
    whole, part = made(tmp_path / "a.duckdb", matrix=matrix), made(tmp_path / "b.duckdb", matrix=matrix)
    key = part.where("rate=20Mbit", "seed=3").keys[0]
    with duckdb.connect(str(part.path)) as connection:
        for table in TABLES:
            connection.execute(f"DELETE FROM {table} WHERE key = ?", [key])
    found = whole.diff(dumbbell.open(part.path))
    assert found.measures["cells"].max() == 2 and (found.measures["relative"] == 0).all()


def test_exit_status_is_that_of_diff(tmp_path: Path, command: Command) -> None:
    run(tmp_path / "r.duckdb", matrix={"bottleneck.aqm.target": ["5ms", "9ms"]}, seeds=[1, 2, 3, 4])
    same = command("diff", "r.duckdb", "r.duckdb")
    assert (same.returncode, same.stdout.splitlines()[-1][:14]) == (0, "No difference:")
    other = command("diff", "r.duckdb", "--by", "bottleneck.aqm.target=5ms,9000us")
    assert other.returncode == 1 and "Different:" in other.stdout and "95 % interval" in other.stdout
    assert command("diff", "r.duckdb", "--by", "target", "--cells").stdout.count("\n") > 5
    assert command("diff", "r.duckdb", "--by", "target", "--format", "csv").stdout.startswith(
        "pair,where,table,measure,part,a,b,"
    )
    for line in (
        ["r.duckdb"],
        ["r.duckdb", "none.duckdb"],
        ["r.duckdb", "--by", "tarjet"],
        ["r.duckdb", "r.duckdb", "--by", "x"],
    ):
        done = command("diff", *line)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr


def test_cells_of_other_settings_are_paired_by_their_matrix(tmp_path: Path) -> None:
    """A parameter outside of the matrix, or a profile, differs in every cell of the two files."""
    matrix = {"bottleneck.rate": ["5Mbit", "20Mbit"]}
    one, profile = [
        run(tmp_path / f"{n}.duckdb", settings, matrix=matrix, seeds=[1, 2, 3])
        for n, settings in enumerate([["bottleneck.aqm=codel"], ["hosts.profile=linux-5.4"]])
    ]
    target = run(tmp_path / "t.duckdb", ["bottleneck.aqm.target=30ms"], matrix=matrix, seeds=[1, 2, 3])
    found = one.diff(target, values=["sojourn"])
    assert found.different and found.frame.height == 2
    assert found.frame["where"].to_list() in (["rate 5Mbit", "rate 20Mbit"], ["rate 20Mbit", "rate 5Mbit"])
    assert (
        "in 2 of the cells, which are paired by matrix: bottleneck.aqm.target from 5ms to 30ms." in found.to_markdown()
    )
    lines = one.diff(profile).to_markdown()
    assert "hosts.profile from linux-6.12 to linux-5.4" in lines and "hosts.tso" not in lines
    # the same configuration goes before the same matrix
    both = run(tmp_path / "t.duckdb", ["bottleneck.aqm=codel"], matrix=matrix, seeds=[1, 2, 3])
    found = one.diff(both)
    assert not found.different and "Left out: 0 cells only in A, 2 only in B." in found.to_markdown()


@pytest.mark.parametrize(
    ("share", "text"), [(0.0065, "+0.65 %"), (-0.042, "-4.2 %"), (1.23, "+120 %"), (26.4, "+2600 %")]
)
def test_changes_are_written_without_exponents(share: float, text: str) -> None:
    assert diff.format_percent(share) == text


def test_a_change_of_nothing_has_no_size(tmp_path: Path) -> None:
    """Without ECN there are no marks; over tail drop there are none with ECN either."""
    aqms = [{"name": "codel", "ecn": True, "target": "1ms"}, "pfifo"]
    results = run(tmp_path / "r.duckdb", matrix={"bottleneck.aqm": aqms, "hosts.ecn": [False, True]}, seeds=[1, 2, 3])
    found = results.diff(by="hosts.ecn", values=["ce_marks"])
    (row,) = [line for line in found.to_markdown().splitlines() if line.startswith("| CE marks, packets | run")]
    assert found.measures["change"][0] is not None
    assert "mean change of a cell" in found.to_markdown() and "%" not in row, row


def test_a_change_to_nothing_is_all_of_it() -> None:
    place = {"pair": 0, "where": "", "table": "runs", "measure": "drops", "part": ""}
    a, b = (
        pl.DataFrame([place | {"seed": seed, "hash": f"{seed}{end}", "value": value} for seed, value in enumerate(own)])
        for end, own in (("a", [40.0, 41.0]), ("b", [0.0, 0.0]))
    )
    row = diff.compare_rows(a, b, ("A", "B")).measures.row(0, named=True)
    assert (row["change"], row["change_low"]) == (-1.0, -1.0) and row["change_high"] > -1.0
    back = diff.compare_rows(b, a, ("A", "B")).measures.row(0, named=True)
    assert back["change"] is None, "a change of nothing has no size"


def test_an_interval_narrower_than_a_bin_says_so(tmp_path: Path) -> None:
    """Quantiles of unlike runs in one bin have no spread; that is not certainty to the last digit."""
    matrix = {"bottleneck.rate": ["10Mbit", "20Mbit"]}
    a = run(tmp_path / "a.duckdb", seeds=[1, 2, 3], matrix=matrix, duration="1s")
    b = run(tmp_path / "b.duckdb", seeds=[1, 2, 3], matrix=matrix, duration="1s")
    for results, value in ((a, 605.6), (b, 700.0)):
        with duckdb.connect(str(results.path)) as connection:
            connection.execute("UPDATE runs SET sojourn_p99_ms = ?, sojourn_max_ms = ?", [value, value])
    found = a.where("bottleneck.rate=10Mbit").diff(b.where("bottleneck.rate=10Mbit"), values=["sojourn_p99"])
    (row,) = [line for line in found.to_markdown().splitlines() if line.startswith("| time in queue")]
    # both lie in the octave of 2^29 ns, of whose bins there are 64: 8.39 ms
    assert "| 94.4 | ± <8.389 |" in " ".join(row.split()) and "± <w: the interval is narrower" in found.to_markdown()
    assert found.frame["resolution"].to_list() == [2**29 / 64e6] and found.frame["half"].to_list() == [0.0]
    whole = a.diff(b, values=["sojourn_p99"])
    # of the mean of 605.6 and 700 ms: 8.39 / 652.8
    (row,) = [line for line in whole.to_markdown().splitlines() if line.startswith("| time in queue")]
    assert "| +16 % | ± <1.3 % |" in " ".join(row.split()), row
    exact = a.diff(b, values=["sojourn_max"])
    assert "± <" not in exact.to_markdown() and exact.frame["resolution"].null_count() == 2
