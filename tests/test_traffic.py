"""Short flows and UDP: how files describe them, and what the store has of them after a run."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dumbbell
from conftest import Command, described, parsed
from dumbbell import _native, experiment
from dumbbell.engines import sweep
from dumbbell.errors import InputError, join_closest
from dumbbell.experiment import json_schema, traffic
from dumbbell.experiment.registry import read_registry
from dumbbell.published import compare
from dumbbell.results.store import Store

WEB = {"cc": "cubic", "arrivals": "50/s", "size": "10kB"}
UDP = {"rate": "5Mbit"}
ARRIVALS = 'arrivals from 0 to 1000000 such as "100/s", or "2.5/s/Mbit" for each Mbit/s of the bottleneck'
SIZES = 'a size such as "10kB", { pareto = 0.9, min = "1kB", max = "1MB" } or { csv = "sizes.csv" }'
PARETO = {"pareto": 0.9, "min": "1kB", "max": "1MB"}


def web(**changes: Any) -> dict[str, Any]:
    """Return the canonical form of one entry of `web`."""
    cell = parsed(web=[WEB | changes]).make_cell(0)
    found: dict[str, Any] = json.loads(cell.config)["web"][0]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100/s", {"per_second": 100.0}),
        (" 0.5 / s", {"per_second": 0.5}),
        ("2.5/s/Mbit", {"per_mbit": 2.5}),
        ("1000000/s", {"per_second": 1e6}),
        (0, {"per_second": 0.0}),
    ],
)
def test_arrivals(text: Any, expected: dict[str, float]) -> None:
    assert web(arrivals=text)["arrivals"] == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("10kB", {"fixed": 10_000}),
        (PARETO, {"pareto": 0.9, "min": 1000, "max": 1_000_000}),
        ({"pareto": 1, "min": "1B", "max": "2B"}, {"pareto": 1.0, "min": 1, "max": 2}),
    ],
)
def test_sizes(size: Any, expected: dict[str, Any]) -> None:
    assert web(size=size)["size"] == expected


def line(entry: dict[str, Any]) -> str:
    with pytest.raises(InputError) as error:
        parsed(web=[WEB | entry])
    return str(error.value)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"arrivals": 100}, f'arrivals is 100; did you mean "100/s"? It must be {ARRIVALS}'),
        ({"arrivals": "2/Mbit"}, f'arrivals is "2/Mbit"; did you mean "2/s/Mbit"? It must be {ARRIVALS}'),
        ({"arrivals": "-1/s"}, f'arrivals is "-1/s"; it must be {ARRIVALS}'),
        ({"arrivals": "1000001/s"}, f'arrivals is "1000001/s"; it must be {ARRIVALS}'),
        ({"arrivals": True}, f"arrivals is true; it must be {ARRIVALS}"),
        ({"size": 10}, f'size is 10; did you mean "10B"? It must be {SIZES}'),
        ({"size": 0}, "size is 0; it must be a size from 1B to 1125899906842624B"),
        ({"size": {}}, f"size is {{}}; it must be {SIZES}"),
        (
            {"size": {"pareot": 0.9, "min": "1kB", "max": "1MB"}},
            f'size is {{pareot = 0.9, min = "1kB", max = "1MB"}}; did you mean pareto? It must be {SIZES}',
        ),
        ({"size": PARETO | {"max": "1kB"}}, 'size.max is "1kB"; it must be a size above min, 1kB'),
        ({"size": PARETO | {"pareto": 0}}, "size.pareto is 0; it must be a number from 0.01 to 100"),
        ({"size": PARETO | {"pareto": "1"}}, 'size.pareto is "1"; it must be a number from 0.01 to 100'),
        (
            {"size": PARETO | {"min": "1kb"}},
            'size.min is "1kb"; did you mean "1kB"? It must be a size such as "4MB", "64KiB" or "1514B"',
        ),
        ({"size": {"csv": 3}}, "size.csv is 3; it must be the name of a CSV file"),
        (
            {"cc": "cubci"},
            'cc: unknown cc "cubci"; did you mean "cubic"? Choose from '
            + join_closest("cubci", list(read_registry().cc)),
        ),
    ],
)
def test_wrong_traffic_is_one_line(entry: dict[str, Any], expected: str) -> None:
    assert line(entry) == f"test.toml: web[0].{expected}"


def test_wrong_keys_of_the_new_sections_name_the_nearest() -> None:
    assert line({"arivals": "1/s"}).endswith("unknown key web[0].arivals; did you mean web[0].arrivals?")
    with pytest.raises(
        InputError, match=r"test.toml: udp\[0\].spacing is .poison.; did you mean .poisson.\? It must be"
    ):
        parsed(udp=[UDP | {"spacing": "poison"}])
    with pytest.raises(InputError, match=r"test.toml: udp\[0\].size is .59B.; it must be an integer from 60B to"):
        parsed(udp=[UDP | {"size": "59B"}])
    with pytest.raises(InputError, match=r"test.toml: web\[0\].cc is missing; give one of reno, "):
        parsed(web=[{"arrivals": "1/s"}])
    with pytest.raises(InputError, match=r"test.toml: web is 257 of them; it must be at most 256"):
        parsed(web=[WEB] * 257)


@pytest.mark.parametrize("value", ["1000000/s", "1000000/s/Mbit", "0.000001/s"])
def test_bounds_of_arrivals_are_those_of_the_engine(value: str) -> None:
    config = parsed(web=[WEB | {"arrivals": value}]).make_cell(0).groups
    _native.check(json.dumps(config))
    over = config | {"web": [config["web"][0] | {"arrivals": {"per_second": traffic.MAX_ARRIVALS * 1.001}}]}
    with pytest.raises(ValueError, match=r"arrivals: .*N from 0 to 1000000"):
        _native.check(json.dumps(over))


def test_bounds_of_sizes_are_those_of_the_engine() -> None:
    config = parsed(web=[WEB]).make_cell(0).groups

    def checked(size: dict[str, Any]) -> None:
        _native.check(json.dumps(config | {"web": [config["web"][0] | {"size": size}]}))

    low, high = traffic.SHAPES
    checked({"fixed": traffic.MAX_SIZE})
    checked({"empirical": [[traffic.MAX_SIZE, traffic.MAX_WEIGHT * 0.999]]})
    for shape in (low, high):
        checked({"pareto": shape, "min": 1, "max": 2})
    for size in (
        {"fixed": traffic.MAX_SIZE + 1},
        {"empirical": [[1, traffic.MAX_WEIGHT]]},
        {"pareto": low * 0.99, "min": 1, "max": 2},
        {"pareto": high * 1.01, "min": 1, "max": 2},
    ):
        with pytest.raises(ValueError, match=r"web\[0\].size"):
            checked(size)


@given(st.floats(0, 1e6), st.sampled_from(["per_second", "per_mbit"]))
def test_arrivals_that_are_shown_read_back(flows: float, unit: str) -> None:
    text = traffic.show_arrivals({unit: round(flows, 6)})
    assert traffic.parse_arrivals(text) == {unit: round(flows, 6)}


def test_means_of_sizes() -> None:
    # as in the engine: 8975.3 B; with shape 1 it is low * ln(high/low) / (1 - low/high) = 1000 * 6.9078 / 0.999
    assert traffic.compute_mean_size({"pareto": 0.9, "min": 1000, "max": 1_000_000}) == pytest.approx(8975.3, abs=0.1)
    assert traffic.compute_mean_size({"pareto": 1.0, "min": 1000, "max": 1_000_000}) == pytest.approx(6914.67, abs=0.01)
    assert traffic.compute_mean_size({"empirical": [[100, 1.0], [200, 3.0]]}) == 175


def with_sizes(folder: Path, content: str | bytes) -> experiment.Experiment:
    (folder / "sizes.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return experiment.parse(described(web=[WEB | {"size": {"csv": "sizes.csv"}}]), str(folder / "test.toml"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("1000,1\n500,3\n", [[500, 3.0], [1000, 1.0]]),
        ("size,weight\n\n1000, 0.5\r\n1000,0.25\n", [[1000, 0.75]]),
        ('\ufeff"size in bytes","weight"\n"1500","2"\n9,0\n', [[1500, 2.0]]),
        ("1500.0,1e3", [[1500, 1000.0]]),
    ],
)
def test_sizes_from_a_file_beside_the_experiment(content: str, expected: list[Any], tmp_path: Path) -> None:
    assert with_sizes(tmp_path, content).make_cell(0).groups["web"][0]["size"] == {"empirical": expected}


NO_PAIR = "it must be a size in bytes, a comma and a weight"
NO_FILE = "it must be a CSV file with a size in bytes, a comma and a weight on each line"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("1000,1\n1000;2\n", f'line 2 of PATH is "1000;2"; {NO_PAIR}'),
        ("size,weight\nsize,weight\n", f'line 2 of PATH is "size,weight"; {NO_PAIR}'),
        ("1000,1,1\n", f'line 1 of PATH is "1000,1,1"; {NO_PAIR}'),
        ("1000\n", f'line 1 of PATH is "1000"; {NO_PAIR}'),
        ("10kB,1\n", f'line 1 of PATH is "10kB,1"; {NO_PAIR}'),
        ("\n0,1\n", "size in line 2 of PATH is 0; it must be whole bytes from 1 to 1125899906842624"),
        ("1.5,1\n", "size in line 1 of PATH is 1.5; it must be whole bytes from 1 to 1125899906842624"),
        ("inf,1\n", "size in line 1 of PATH is inf; it must be whole bytes from 1 to 1125899906842624"),
        ("1,-1\n", "weight in line 1 of PATH is -1; it must be from 0 to 1e+18"),
        ("1,nan\n", "weight in line 1 of PATH is nan; it must be from 0 to 1e+18"),
        ("", f"no size has a weight above 0 in PATH; {NO_FILE}"),
        ("size,weight\n1,0\n", f"no size has a weight above 0 in PATH; {NO_FILE}"),
        (
            "1,9e17\n2,9e17\n",
            "the sum of the weights in PATH is 1.8e+18; it must be less than 1e+18",
        ),
        (
            "".join(f"{size},1\n" for size in range(1, 10_002)),
            "10001 different sizes in PATH are too many; at most 10000 are allowed",
        ),
        ("1,1\n" * 4_200_000, f"there are more than 16 MiB in PATH; {NO_FILE}, at most 16 MiB"),
    ],
)
def test_a_wrong_file_of_sizes_is_one_line_that_names_file_and_line(
    content: str, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        with_sizes(tmp_path, content)
    expected = expected.replace("PATH", str(tmp_path / "sizes.csv"))
    assert str(error.value) == f"{tmp_path / 'test.toml'}: web[0].size.csv: {expected}"


def test_files_of_sizes_that_cannot_be_read(tmp_path: Path) -> None:
    for content in (b"\xff\xfe", b"1,\0\n"):
        with pytest.raises(InputError) as error:
            with_sizes(tmp_path, content)
        assert len(str(error.value).splitlines()) == 1 and "sizes.csv" in str(error.value)
    for name in ("missing.csv", ".", "a\0b"):
        with pytest.raises(InputError, match=r"test.toml: web\[0\].size.csv: "):
            experiment.parse(described(web=[WEB | {"size": {"csv": name}}]), str(tmp_path / "test.toml"))


def test_a_file_of_sizes_is_read_once_and_shared_by_all_runs(tmp_path: Path) -> None:
    plan = with_sizes(tmp_path, "".join(f"{size},1\n" for size in range(1, 10_001)))
    (tmp_path / "sizes.csv").unlink()
    first, second = plan.make_cell(0), plan.make_cell(0)
    assert first.key == second.key and first.groups["web"][0]["size"] is second.groups["web"][0]["size"]


def test_traffic_in_matrix_overrides_settings_and_labels() -> None:
    table = described(
        flows=None,
        web=[WEB],
        udp=[UDP, UDP],
        matrix={
            "web[*].arrivals": ["10/s", "2/s/Mbit"],
            "web[0].size": ["1kB", PARETO],
            "udp[*].rate": ["1Mbit", "20Mbit"],
        },
        override=[
            {"when": {"web[*].arrivals": "2/s/Mbit", "web[0].size": PARETO}, "set": {"duration": "9s"}},
            {"when": {"udp[*].rate": "20Mbit"}, "set": {"udp[1].count": 3}},
        ],
    )
    plan = experiment.parse(table, "test.toml", ["udp[0].spacing=poisson"])
    found = [
        (
            traffic.show_arrivals(cell.groups["web"][0]["arrivals"]),
            cell.matrix["web[0].size"],
            cell.duration // 10**9,
            [udp["count"] for udp in cell.groups["udp"]],
        )
        for cell in plan.make_cells()
    ]
    pareto = '{pareto = 0.9, min = "1kB", max = "1MB"}'
    assert found == [
        ("10/s", "1kB", 2, [1, 1]),
        ("10/s", "1kB", 2, [1, 3]),
        ("10/s", pareto, 2, [1, 1]),
        ("10/s", pareto, 2, [1, 3]),
        ("2/s/Mbit", "1kB", 2, [1, 1]),
        ("2/s/Mbit", "1kB", 2, [1, 3]),
        ("2/s/Mbit", pareto, 9, [1, 1]),
        ("2/s/Mbit", pareto, 9, [1, 3]),
    ]
    assert all(cell.groups["udp"][0]["spacing"] == "poisson" for cell in plan.make_cells())
    assert [cell.flow_count for cell in plan.make_cells()][:2] == [2, 4]
    inside = parsed(web=[WEB | {"size": PARETO}], matrix={"web[0].size.max": ["1MB", "10MB"]})
    assert [cell.groups["web"][0]["size"]["max"] for cell in inside.make_cells()] == [10**6, 10**7]


def test_cost_is_reckoned_with_short_flows_and_udp() -> None:
    # 10 Mbit/s for 2 s are 1651 frames of 1514 B; UDP at 20 Mbit/s sends twice that, from 1 s on once
    base = parsed().make_cell(0).packets
    assert base == pytest.approx(1651.3 + 1000 + 20, abs=0.1)
    # a fast hop behind a slow one carries what that lets through, and what a way of its own has for it
    hop = {"name": "fast", "rate": "1Gbit", "aqm": "pfifo"}
    over_both = {"cc": "cubic", "route": ["bottleneck", "fast"]}
    assert parsed(hop=[hop], flows=[over_both]).make_cell(0).packets == pytest.approx(2 * 1651.3 + 1010, abs=0.1)
    beside = parsed(hop=[hop], flows=[over_both, {"cc": "cubic", "route": ["fast"]}])
    assert beside.make_cell(0).packets == pytest.approx(101 * 1651.255 + 1020, abs=1)
    udp = {"rate": "20Mbit"}
    assert parsed(udp=[udp]).make_cell(0).packets == pytest.approx(3302.5 + 1000 + 30, abs=0.1)
    assert parsed(udp=[udp | {"start": "1s"}], flows=None).make_cell(0).packets == pytest.approx(1651.3 + 1010, abs=0.1)
    # 50 flows a second for 2 s, 10000 / 1448 segments each
    alone = parsed(web=[WEB], flows=None).make_cell(0)
    assert alone.short_flow_count == 100 and alone.flow_count == 0
    assert alone.packets == pytest.approx(100 * 10_000 / 1448 + 1000 + 1000, abs=0.1)
    assert parsed(web=[WEB | {"arrivals": "2/s/Mbit", "stop": "1s"}]).make_cell(0).short_flow_count == 20


def test_the_schema_and_describe_know_the_new_sections(command: Command) -> None:
    definitions = json_schema.make_schema()["$defs"]
    web, udp = definitions["Web"], definitions["Udp"]
    assert web["properties"]["arrivals"]["anyOf"][0]["type"] == "string"
    assert web["properties"]["arrivals"]["default"] == "2.5/s/Mbit"
    assert web["properties"]["size"]["default"] == PARETO
    assert web["properties"]["base_rtt"]["default"] == "20ms"
    forms = web["properties"]["size"]["anyOf"]
    assert [sorted(form.get("properties", [])) for form in forms] == [[], ["max", "min", "pareto"], ["csv"]]
    assert udp["properties"]["spacing"]["enum"] == ["constant", "poisson"] and "count" in udp["properties"]
    assert "short_flows" in definitions["Record"]["properties"]
    for section in ("web", "udp", "record", "flows"):
        said = command("describe", section).stdout
        assert all(f"\n{name} = " in said for name in read_registry().sections[section])
    assert "\ncc (needed: one of reno, " in command("describe", "web").stdout
    assert 'size = {pareto = 0.9, min = "1kB", max = "1MB"} (sizes)' in command("describe", "web").stdout
    assert "\ncount = 1 " in command("describe", "udp").stdout


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return results of runs with flows, short flows and UDP at half and twice the link."""
    path = tmp_path_factory.mktemp("mixed") / "r.duckdb"
    plan = parsed(
        duration="4s",
        seeds=[1, 2],
        web=[WEB | {"size": PARETO}],
        udp=[UDP],
        matrix={"udp[0].rate": ["5Mbit", "20Mbit"], "bottleneck.aqm": ["pfifo", "fq_codel"]},
    )
    report = sweep.run([plan], path, progress=False)
    assert (report.done, report.failed) == (8, [])
    return path


def test_slow_down_by_size_is_in_the_store(mixed: Path) -> None:
    results = dumbbell.open(mixed)
    sizes, each = results.slowdowns, results.short_flows
    assert sizes["from_bytes"].unique().sort().to_list()[:4] == [1000, 2000, 5000, 10_000]
    assert (sizes["slowdown_mean"].drop_nans() >= 1).all()
    both = (pl.col("slowdown_p99").is_nan() | (pl.col("slowdown_p99") >= pl.col("slowdown_p50"))).all()
    assert sizes.select(both).item()
    counted = sizes.group_by("key").agg(pl.col("flows").sum()).join(results.runs, on="key")
    assert (counted["flows"] == counted["short_flows"]).all() and (counted["flows"] > 150).all()
    assert each.height == counted["flows"].sum()
    # the means of the table by size are those of the flows one by one
    place = ["key", "class", "from_bytes", "to_bytes"]
    pairs = each.join(sizes, on=["key", "class"]).filter(
        pl.col("size_bytes") >= pl.col("from_bytes"), pl.col("size_bytes") < pl.col("to_bytes")
    )
    means = pairs.group_by(place).agg(pl.col("slowdown").drop_nans().mean(), pl.col("slowdown_mean").first())
    means = means.filter(pl.col("slowdown").is_not_null())
    assert means.height > 20 and ((means["slowdown"] - means["slowdown_mean"]).abs() < 1e-9).all()


def test_udp_has_rows_and_shares(mixed: Path, command: Command) -> None:
    results = dumbbell.open(mixed)
    udp = results.flows.filter(pl.col("cc") == "udp")
    assert udp.height == 8 and udp["rtt_mean_ms"].is_nan().all()
    shares = results.flows.group_by("key").agg(pl.col("share").sum())
    assert ((shares["share"] - 1).abs() < 1e-9).all()
    classes = results.classes.group_by("key").agg(pl.col("total_throughput_mbit").sum()).join(results.runs, on="key")
    assert ((classes["total_throughput_mbit"] - classes["throughput_mbit"]).abs() < 0.05).all()
    assert results.classes["kind"].unique().sort().to_list() == ["flows", "udp", "web"]
    said = command("table", mixed, "--rows", "bottleneck.aqm", "--columns", "cc", "--value", "share")
    assert said.returncode == 0, said.stderr
    # over one queue UDP takes nearly all at twice the rate; over a queue for each flow it does not
    frame = results.where("udp[0].rate=20Mbit", "cc=udp").table("share", "aqm").frame
    share = dict(frame.select("aqm", "mean").rows())
    assert share["pfifo"] > 0.9 and share["fq_codel"] < 0.7


def test_tables_take_udp_for_what_it_is(mixed: Path) -> None:
    results = dumbbell.open(mixed)
    frame = results.where("udp[0].rate=5Mbit").table("rtt", "aqm", "flow").frame
    # of UDP there is no RTT: none of its runs has a value, and no mean
    assert frame.filter(pl.col("flow") == 2)["none"].to_list() == [2, 2]
    assert frame.filter(pl.col("flow") == 2)["mean"].null_count() == 2
    assert frame.filter(pl.col("flow") == 0)["mean"].null_count() == 0
    assert results.table("jain", "arrivals", "web[0].size", mean_over=["aqm", "udp[0].rate"]).cells[0][0] == "50/s"
    assert results.table("jain", "spacing", mean_over=["aqm", "udp[0].rate"]).cells[0][0] == "constant"
    for value in ("srtt", "goodput"):
        assert results.where("udp[0].rate=5Mbit").plot("series", value=value).axes
    assert results.plot(against="udp[0].rate", value="rtt").axes


def test_tables_of_short_flows_and_classes(mixed: Path, command: Command) -> None:
    results = dumbbell.open(mixed)
    keys = results.runs.filter(pl.col("matrix").str.contains("fq_codel"))["key"]
    rows = results.slowdowns.filter(pl.col("key").is_in(keys.implode()), pl.col("from_bytes") == 1000)
    said = command(
        *("table", mixed, "--of", "slowdowns", "--rows", "from_bytes", "--columns", "aqm"),
        *("--value", "slowdown_p99", "--mean-over", "udp[0].rate"),
    )
    assert said.returncode == 0, said.stderr
    first = [cell.strip() for cell in said.stdout.splitlines()[4].strip("|").split("|")]
    assert said.stdout.startswith(
        "slow-down, P99, of each class and range of sizes; mean over udp[0].rate; mean (least to greatest) of 2 seeds"
    )
    heads = [cell.strip() for cell in said.stdout.splitlines()[2].strip("|").split("|")]
    assert heads[1:] == ["pfifo", "fq_codel"]  # in the order of the matrix
    assert first[0] == "1000" and float(first[2].split()[0]) == pytest.approx(rows["slowdown_p99"].mean(), rel=1e-3)
    found = results.table("throughput_mbit", "kind", of="classes", mean_over=["aqm", "udp[0].rate", "class"]).frame
    means = results.classes.group_by("kind").agg(pl.col("throughput_mbit").mean())
    for kind, mean in means.iter_rows():
        assert found.filter(pl.col("kind") == kind)["mean"][0] == pytest.approx(mean)
    tidy = command(
        "table", mixed, "--of", "short_flows", "--format", "raw", "--where", "udp[0].rate=5Mbit"
    ).stdout.splitlines()
    assert tidy[0].endswith(",seed,class,measure,value") and len(tidy) > 500
    said = command("table", mixed, "--of", "slowdown")
    assert said.returncode == 2 and said.stderr.startswith("--of: unknown part ")


def test_published_cells_are_answered_by_flows_alone(mixed: Path) -> None:
    cell = (("qdisc", "pfifo"), ("cc1", "cubic"), ("cc2", "reno"), ("rate_mbit", 10.0), ("delay_ms", 20.0))
    figure = compare.Figure(cell, "", 1, "goodput_mbit", 5.0)
    with Store.open(mixed) as store:
        runs, flows = store.read_table("runs"), store.read_table("flows")
    assert compare.compare(runs, flows, [figure]).missing == 1
    alone = dumbbell.run(described(bottleneck={"rate": "10Mbit", "aqm": "pfifo"}))
    assert len(compare.compare(alone.runs, alone.flows, [figure]).pairs) == 1


def test_runs_without_flows_fall_over_nothing(tmp_path: Path, command: Command) -> None:
    (tmp_path / "only.toml").write_text(
        'duration = "2s"\n[bottleneck]\nrate = "10Mbit"\naqm = "codel"\n[[web]]\ncc = "reno"\narrivals = "20/s"\n'
    )
    assert command("run", "only.toml", "-o", "r.duckdb").returncode == 0
    assert command("run", "only.toml", "-o", "r.duckdb", "--dry-run").stdout.startswith("1 run, 1 of them already")
    for line in (
        ["validate", "r.duckdb", "linux-6.12"],
        ["study", "tables", "sce", "r.duckdb"],
        ["study", "tables", "abe", "r.duckdb"],
    ):
        done = command(*line)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    for line in (
        ["table", "r.duckdb", "--value", "short_flows"],
        ["table", "r.duckdb", "--value", "goodput"],
        ["plot", "r.duckdb", "-o", "p.svg", "--value", "backlog_packets"],
        ["export", "r.duckdb", "--format", "csv", "-o", "out"],
    ):
        done = command(*line)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "slowdowns.csv").stat().st_size > 100


def test_of_many_short_flows_a_sample_is_kept_and_the_run_says_so() -> None:
    results = dumbbell.run(described(web=[WEB | {"arrivals": "200/s"}], record={"short_flows": 50}))
    assert results.short_flows.height == 50 == results.runs["short_flows_kept"][0]
    assert results.runs["short_flows"][0] == results.slowdowns["flows"].sum() > 300


@pytest.mark.parametrize("name", ["web", "udp"])
def test_the_experiments_that_come_with_it_resolve(name: str) -> None:
    plan = experiment.load(f"traffic/{name}")
    assert {cell.groups["bottleneck"]["aqm"]["name"] for cell in plan.make_cells()} == {
        "pfifo",
        "codel",
        "fq_codel",
        "cake",
    }
    assert all(cell.groups[name] and cell.groups["flows"] for cell in plan.make_cells())
