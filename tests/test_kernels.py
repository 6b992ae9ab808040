"""Results of several kernels: their names in tables, conditions and differences."""

import dataclasses
import json
from pathlib import Path

import pytest

import dumbbell
from conftest import Command, parsed
from dumbbell import _native
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.published import engines
from dumbbell.results import versions
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.store import Store

A, B, OLD = "linux-6.12.1+aaaaaaaa.1111", "linux-6.12.1+bbbbbbbb.1111", "linux-6.12.1+cccccccc.1111"
NAMES = {A: ("default",), B: ("target20",), OLD: ("target20",)}


def _add(path: Path, version: str, name: str | None, cells: list[Cell], target: int | None = None) -> None:
    """Add runs of a kernel; one with a patched target is the simulator with that target."""
    with Store.open(path, write=True) as store:
        for one in cells:
            groups = json.loads(one.config)
            if target is not None:
                groups["bottleneck"]["aqm"]["target"] = target
            measured = _native.run(json.dumps(groups), _native.Cancel())
            kernel = json.dumps({"kernel": {"name": name} if name else {"release": "6.12"}})
            of_engine = dataclasses.replace(one, engine=version, plan_of=lambda _: "plan")
            store.add([Finished(of_engine, MeasuredRun(0.1, measured, kernel))])


@pytest.fixture
def cells() -> list[Cell]:
    changes = {"matrix": {"bottleneck.rate": ["20Mbit", "10Mbit"]}, "seeds": [1, 2], "duration": "3s"}
    flows = [{"cc": "cubic", "base_rtt": "20ms", "start": {"uniform": ["0s", "500ms"]}}]
    return list(parsed(**changes, flows=flows).make_cells())


@pytest.fixture
def path(tmp_path: Path, cells: list[Cell]) -> Path:
    """Two kernels and the simulator."""
    file = tmp_path / "r.duckdb"
    with Store.open(file, write=True) as store:
        store.add(Finished(one, MeasuredRun(0.1, _native.run(one.config, _native.Cancel()))) for one in cells)
    _add(file, A, "default", cells)
    _add(file, B, "target20", cells, 20_000_000)
    return file


def test_versions_are_called_by_the_names_of_their_kernels() -> None:
    assert versions.name_versions([A, B, "0.1.0+x"], NAMES) == {
        A: "linux:default",
        B: "linux:target20",
        "0.1.0+x": "0.1.0+x",
    }
    assert versions.name_kernels([A, "0.1.0+x"], NAMES) == {A: "default", "0.1.0+x": "-"}
    # the digest where two of a name meet; the version where they have no name, or the digest is the same
    assert versions.name_versions([B, OLD], NAMES) == {B: "linux:target20+bbbbbbbb", OLD: "linux:target20+cccccccc"}
    assert versions.name_versions([A, B], {}) == {A: A, B: B}
    other = A.replace("1111", "2222")
    assert versions.name_versions([A, other], {A: ("default",), other: ("default",)}) == {A: A, other: other}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("linux", [A, B]),
        ("linux:target20", [B]),
        ("linux:target20+cccc", [OLD]),
        ("linux:cccccccc", [OLD]),
        ("linux:default", [A]),
        ("linux:", []),
        ("linux:other", []),
        (OLD, [OLD]),
        ("live", []),
    ],
)
def test_a_kernel_is_named_by_name_or_digest(wanted: str, found: list[str]) -> None:
    assert versions.select_versions([OLD, A, B], wanted, NAMES) == found
    assert versions.select_versions([A, B], "linux", {}) == [B]  # of kernels without names the newest


def test_tables_and_figures_show_the_names(path: Path, command: Command) -> None:
    both = dumbbell.open(path).engine("linux")
    assert both.engines == [A, B] and len(both) == 8
    shown = both.table("sojourn", ["kernel"], "bottleneck.rate").to_markdown()
    assert "| default " in shown and "| target20 " in shown and "aaaaaaaa" not in shown
    assert "linux:target20" in both.table("sojourn").to_markdown()
    figure = both.plot(value=["sojourn"], against="bottleneck.rate", by=["kernel"])
    legend = {text.get_text() for axes in figure.axes for text in axes.texts} | {
        text.get_text() for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)] if legend
        for text in legend.get_texts()
    }  # fmt: skip
    assert {"default", "target20"} <= legend
    everything = dumbbell.open(path).engine("all")
    assert everything.tidy()["kernel"].unique(maintain_order=True).to_list() == ["-", "default", "target20"]
    rows = command("table", path, "--engine", "linux", "--format", "raw").stdout.splitlines()
    assert rows[0].startswith("engine_version,experiment,bottleneck.rate_mbit,seed")
    assert {row.split(",")[0] for row in rows[1:]} == {"linux:default", "linux:target20"}
    means = command("table", path, "--engine", "linux", "--format", "csv").stdout.splitlines()
    assert means[0].startswith("engine_version,bottleneck.rate_mbit")
    assert {row.split(",")[0] for row in means[1:]} == {"linux:default", "linux:target20"}
    assert everything._runs.find_key("kernel").ordered == ["default", "target20", "-"]
    assert dumbbell.open(path).notes[:2] == [
        "left out: 4 runs of engine linux:default",
        "left out: 4 runs of engine linux:target20; engine all shows them",
    ]


def test_conditions_on_kernels_choose_among_all_engines(path: Path) -> None:
    results = dumbbell.open(path)
    assert results.where("kernel=target20").engines == [B]
    assert results.where("kernel=default,target20").engines == [A, B]
    assert results.where("engine_version=linux:default").engines == [A]
    assert results.where("kernel=target20", "bottleneck.rate=10Mbit").seeds == [1, 2]
    with pytest.raises(
        InputError, match=r"kernel: unknown value targt20; did you mean target20. Choose from default, target20"
    ):
        results.where("kernel=targt20")
    with pytest.raises(InputError, match=r"unknown engine linux:x; .*from .*, linux:default, linux:target20, all"):
        results.engine("linux:x").keys  # noqa: B018


def test_a_difference_between_kernels_is_found(path: Path, command: Command) -> None:
    done = command("diff", path, "--engine", "linux", "--by", "kernel")
    assert done.returncode == 1, done.stderr
    assert "kernel default (A) against target20 (B)." in done.stdout and "2 cells in both" in done.stdout
    assert done.stdout == command("diff", path, "--by", "kernel").stdout
    one = command("diff", path, "--by", "kernel", "--where", "bottleneck.rate=10Mbit")
    assert one.returncode == 1 and "1 cell in both" in one.stdout
    by_version = dumbbell.open(path).diff(by="engine_version=linux:default,linux:target20")
    assert by_version.different
    sojourn = by_version.measures.filter(measure="sojourn_mean_ms", table="runs")
    assert sojourn["change"][0] > 0.2


def test_engines_are_compared_by_name_in_the_order_of_rates(path: Path, command: Command) -> None:
    done = command("validate", path, "--engines", "linux:default,linux:target20")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("First linux:default, second linux:target20;")
    places = [done.stdout.index(f"| {rate}Mbit") for rate in (10, 20)]
    assert places == sorted(places)
    assert done.stdout == command("validate", path, "--engines", "--engine", "linux:default,linux:target20").stdout
    with_sim = engines.compare(path, engines=("sim", "linux:default"))
    assert all(pair.compute_error(index) == 0 for pair in with_sim.pairs for index in range(3))
    wrong = command("validate", path, "--engines", "linux:default,linux:x")
    assert wrong.returncode == 2 and "found no runs of linux:x; give runs of two engines; there are" in wrong.stderr


def test_two_kernels_of_one_name_show_their_digests(path: Path, cells: list[Cell]) -> None:
    _add(path, OLD, "target20", cells, 15_000_000)
    results = dumbbell.open(path)
    assert results.engine("linux").engines == [A, OLD]  # the newest of each name
    assert results.engine("all").where("engine_version=linux:target20+bbbbbbbb").engines == [B]
    texts = results.engine("all")._runs.find_key("kernel").ordered
    assert texts == ["default", "target20+bbbbbbbb", "target20+cccccccc", "-"]


@pytest.mark.slow
def test_commands_take_names_of_kernels(path: Path, command: Command, tmp_path: Path) -> None:
    one = ("--engine", "linux:target20")
    assert command("export", path, "-o", "out", *one).returncode == 0
    rows = (tmp_path / "out" / "runs.csv").read_text().splitlines()
    assert len(rows) == 5 and all("bbbbbbbb" in row for row in rows[1:])
    assert command("table", path, *one).returncode == 0
    assert command("plot", path, "-o", "a.png", *one).returncode == 0
    both = command("validate", path, "sce", "--engine", "linux")
    assert both.returncode == 2
    assert "--engine: linux names 2 kernels; choose one of linux:default, linux:target20" in both.stderr
    for arguments in (("evaluate", "results", path, "--suite", "coexistence"), ("study", "tables", "sce", path)):
        wrong = command(*arguments, "--engine", "linux:x")
        assert wrong.returncode == 2 and "unknown engine linux:x; " in wrong.stderr, arguments


def test_files_without_names_stay_readable(tmp_path: Path, cells: list[Cell]) -> None:
    file = tmp_path / "old.duckdb"
    _add(file, A, None, cells)
    _add(file, B, None, cells, 20_000_000)
    results = dumbbell.open(file)
    assert results.engine("linux").engines == [B]
    assert results.engine("all")._runs.find_key("kernel").ordered == [
        A.removeprefix("linux-"),
        B.removeprefix("linux-"),
    ]
    assert results.engine("linux:aaaaaaaa").engines == [A]
    assert results.diff(by=f"engine_version={A},{B}").different


def test_one_configuration_told_in_two_ways_is_two_cells(tmp_path: Path, cells: list[Cell]) -> None:
    file = tmp_path / "r.duckdb"
    one, *_ = cells
    told = dataclasses.replace(one, given={"bottleneck": {"aqm": {"name": "codel", "target": 5_000_000}}})
    bare = dataclasses.replace(one, given={"bottleneck": {"aqm": {"name": "codel"}}})
    with Store.open(file, write=True) as store:
        for cell in (told, bare):
            run = _native.run(cell.config, _native.Cancel())
            of_engine = dataclasses.replace(cell, engine=A, plan_of=lambda one: str(one.given))
            store.add([Finished(of_engine, MeasuredRun(0.1, run, json.dumps({"kernel": {"name": "default"}})))])
    results = dumbbell.open(file).engine("linux")
    assert len(results) == 2 and results.cells.height == 2
    assert [(key.name, key.ordered) for key in results._runs.dimensions] == [("given", ["bottleneck.aqm.target", "-"])]
