"""Every command that reads results, over a run with flows, pings and short flows up and down: what is what is named."""

import csv
import io
import json
import re
from pathlib import Path

import polars as pl
import pytest

import dumbbell
from conftest import Command
from dumbbell.results.results import StoredResults

FLOWS = ["cubic, down", "cubic, up", "ping, down", "ping, up"]
CLASSES = ["down, flows", "up, flows", "ping, down", "ping, up", "down, web", "up, web"]
PART = """
[[flows]]
cc = "cubic"
direction = "{way}"
start = {{ uniform = ["0s", "0.2s"] }}
[[web]]
cc = "cubic"
direction = "{way}"
arrivals = "4/s"
size = "10kB"
[[udp]]
rate = "7840bit"
size = "98B"
echo = true
base_rtt = "20ms"
direction = "{way}"
"""
FILE = f"""
duration = "3s"
seeds = [1, 2]
[bottleneck]
rate = "10Mbit"
aqm = "fq_codel"
[reverse]
rate = "2Mbit"
aqm = "fq_codel"
[record]
interval = "200ms"
trace = "200ms"
queue = ["count"]
[matrix]
"bottleneck.aqm, reverse.aqm" = [["codel", "codel"], ["fq_codel", "fq_codel"]]
{PART.format(way="down")}{PART.format(way="up")}"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("both")
    (folder / "both.toml").write_text(FILE)
    dumbbell.run(folder / "both.toml", output=folder / "both.duckdb")
    return folder / "both.duckdb"


def headings(markdown: str) -> list[str]:
    line = next(line for line in markdown.splitlines() if line.startswith("|"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


@pytest.mark.parametrize(
    ("of", "names"),
    [
        ("flows", FLOWS),
        ("classes", CLASSES),
        ("slowdowns", CLASSES[4:]),
        ("short_flows", CLASSES[4:]),
        ("hops", ["bottleneck", "reverse"]),
    ],
)
def test_tables_of_every_part(command: Command, both: Path, of: str, names: list[str]) -> None:
    said = command("table", both, "--of", of).stdout
    assert headings(said) == names
    rows = list(csv.DictReader(io.StringIO(command("table", both, "--of", of, "--format", "csv").stdout)))
    key = {"flows": "flow", "hops": "hop"}.get(of, "class")
    assert list(dict.fromkeys(row[key] for row in rows)) == names and len(rows) == 2 * len(names)
    assert all(name in command("table", both, "--of", of, "--format", "latex").stdout for name in names)


def test_a_table_of_hops_is_of_hops_if_nobody_says_what(command: Command, both: Path) -> None:
    assert command("table", both, "--of", "hops").stdout.startswith("throughput, Mbit/s, of each hop;")


def test_values_are_under_their_names(command: Command, both: Path) -> None:
    flows = pl.DataFrame(StoredResults(both).flows)
    for row in csv.DictReader(io.StringIO(command("table", both, "--format", "csv").stdout)):
        cc, way = row["flow"].split(", ")
        own = flows.filter((pl.col("cc") == cc) & (pl.col("direction") == way))["goodput_mbit"].to_list()
        assert len(own) == 4, "two queues, two seeds"
        assert min(own) <= float(row["mean"]) <= max(own)
    rates = {row["hop"]: float(row["mean"]) for row in csv.DictReader(io.StringIO(_csv(command, both, "hops")))}
    assert rates["reverse"] < 2 < rates["bottleneck"] < 10


def _csv(command: Command, path: Path, of: str) -> str:
    return command("table", path, "--of", of, "--value", "throughput", "--format", "csv").stdout


@pytest.mark.parametrize("of", ["flows", "classes"])
def test_direction_is_a_key_of_tables(command: Command, both: Path, of: str) -> None:
    key, names = ("flow", FLOWS) if of == "flows" else ("class", CLASSES)
    up = [name for name in names if "up" in name]
    assert headings(command("table", both, "--of", of, "--where", "direction=up").stdout) == up
    raw = list(csv.DictReader(io.StringIO(command("table", both, "--of", of, "--format", "raw").stdout)))
    assert {row["direction"] for row in raw} == {"down", "up"} and len(raw) == 4 * len(names)
    said = command("table", both, "--of", of, "--rows", "direction", "--where", "kind=udp").stdout
    lines = [line.split("|")[1].strip() for line in said.splitlines() if line.startswith("|")]
    assert lines[2:] == ["down", "up"]
    for name in names:
        chosen = command("table", both, "--of", of, "--format", "raw", "--where", f'{key}="{name}"').stdout
        own = list(csv.DictReader(io.StringIO(chosen)))
        assert len(own) == 4 and {row["direction"] for row in own} == {"up" if "up" in name else "down"}, name


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--kind", "bars"), FLOWS),
        (("--kind", "box"), FLOWS),
        (("--kind", "lines", "--by", "flow"), []),
        (("--kind", "cdf"), CLASSES),
        (("--kind", "series", "--value", "goodput"), FLOWS),
        (("--kind", "shares"), FLOWS),
        (("--kind", "bars", "--of", "classes"), CLASSES),
        (("--kind", "bars", "--of", "hops"), ["bottleneck", "reverse"]),
        (("--kind", "bars", "--by", "direction"), ["down", "up"]),
        (("--kind", "bars", "--baseline", "bottleneck.aqm=codel"), FLOWS),
    ],
)
def test_figures(command: Command, both: Path, tmp_path: Path, options: tuple[str, ...], names: list[str]) -> None:
    path = tmp_path / "plot.svg"
    assert command("plot", both, "-o", path, *options).returncode == 0
    texts = set(re.findall(r"<text[^>]*>([^<]*)", path.read_text()))
    assert set(names) <= texts, texts


def test_time_series_of_a_queue_say_which(command: Command, both: Path, tmp_path: Path) -> None:
    chosen = ("--kind", "series", "--value", "sojourn", "--value", "marks", "--where", "bottleneck.aqm=fq_codel")
    command("plot", both, "-o", tmp_path / "p.svg", *chosen)
    said = " ".join(re.findall(r"<text[^>]*>([^<]*)", (tmp_path / "p.svg").read_text())).replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert "time in queue, mean, ms, bottleneck" in said and "CE marks, packets, bottleneck" in said, said


def test_a_diff_names_flows_and_classes(command: Command, both: Path) -> None:
    said = command("diff", both, "--by", "bottleneck.aqm=codel,fq_codel", "--format", "csv").stdout
    of: dict[str, set[str]] = {}
    for row in csv.DictReader(io.StringIO(said)):
        of.setdefault(row["table"], set()).add(row["part"])
    assert of["flows"] == set(FLOWS) and of["classes"] == set(CLASSES)
    assert command("diff", both, both).returncode == 0


@pytest.mark.parametrize("by", ["direction=down,up", "direction", "flow", "class=0,1"])
def test_a_diff_is_between_runs(command: Command, both: Path, by: str) -> None:
    done = command("diff", both, "--by", by)
    key = by.partition("=")[0]
    assert done.returncode == 2
    assert done.stderr == (
        f"--by: {key} distinguishes parts of one run; use a key of runs; --where chooses among flows and classes\n"
    )


def test_exported_tables_have_the_directions(command: Command, both: Path, tmp_path: Path) -> None:
    command("export", both, "-o", tmp_path)
    for name, column, wanted in (
        ("flows", "direction", {"down", "up"}),
        ("classes", "direction", {"down", "up"}),
        *((table, "hop", {"bottleneck", "reverse"}) for table in ("hops", "hop_series", "queue_states")),
    ):
        with (tmp_path / f"{name}.csv").open(newline="") as stream:
            assert {row[column] for row in csv.DictReader(stream)} == wanted, name
    with (tmp_path / "runs.csv").open(newline="") as stream:
        config = json.loads(next(csv.DictReader(stream))["config"])
    assert [flow["direction"] for flow in (*config["flows"], *config["web"], *config["udp"])] == ["down", "up"] * 3


def test_describe_knows_direction_and_class(command: Command) -> None:
    said = command("describe", "direction").stdout
    assert all(f"{table}.direction = down" in said for table in ("flows", "web", "udp"))
    assert all(f"column of table {table}: direction" in said for table in ("flows", "classes"))
    assert "direction and routes" in command("describe", "class").stdout


@pytest.mark.parametrize(
    "wanted", [("validate", "{}", "sce"), ("study", "tables", "sce", "{}"), ("study", "tables", "abe", "{}")]
)
def test_papers_have_no_cell_with_traffic_both_ways(command: Command, both: Path, wanted: tuple[str, ...]) -> None:
    done = command(*(str(both) if word == "{}" else word for word in wanted))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "no run" in done.stderr, done.stderr


def test_the_store_is_whole(command: Command, both: Path) -> None:
    assert command("export", both, "--format", "parquet", "-o", "whole").returncode == 0


def test_classes_that_differ_in_route_and_ecn_alone_are_told_apart(command: Command, tmp_path: Path) -> None:
    (tmp_path / "routes.toml").write_text(ROUTES)
    command("run", tmp_path / "routes.toml", "-o", tmp_path / "r.duckdb")
    rows = list(
        csv.DictReader(
            io.StringIO(command("table", tmp_path / "r.duckdb", "--of", "classes", "--format", "csv").stdout)
        )
    )
    assert [row["class"] for row in rows] == [
        "down, over bottleneck",
        "down, over bottleneck, no ECN",
        "down, over second",
        "up, over reverse",
    ]


ROUTES = """
duration = "2s"
[bottleneck]
rate = "10Mbit"
aqm = "fq_codel"
[reverse]
rate = "2Mbit"
aqm = "fq_codel"
[[hop]]
name = "second"
rate = "8Mbit"
aqm = "fq_codel"
[[flows]]
cc = "cubic"
count = 2
[[flows]]
cc = "cubic"
ecn = false
[[flows]]
cc = "cubic"
route = ["second"]
[[flows]]
cc = "cubic"
direction = "up"
"""
