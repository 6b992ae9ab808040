"""The notebooks of docs run, and what notebooks and programs get: frames over time, frames of other libraries."""

import ast
import gc
import importlib
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

import dumbbell
from dumbbell import Results, plotting
from dumbbell.errors import InputError
from test_choice import BBR, CUBIC, RATES, made

ALONE = {
    "bottleneck": {"rate": "10Mbit", "aqm": "codel"},
    "flows": [{"cc": "cubic", "base_rtt": "20ms", "start": {"uniform": ["0s", "1s"]}}],
    "duration": "5s",
    "seeds": [1, 2],
}
DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made(tmp_path_factory.mktemp("two") / "r.duckdb", matrix=RATES, flows=[CUBIC, BBR, CUBIC | {"cc": "reno"}])


@pytest.fixture(scope="module")
def alone() -> Results:
    return dumbbell.run(ALONE)


def shown(cell: str, names: dict[str, Any], place: str) -> Any:
    """Execute a cell and return what a notebook would show: the value of its last line."""
    lines = ast.parse(cell, place)
    last = lines.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(lines, place, "exec"), names)
        return None
    del lines.body[-1]
    exec(compile(lines, place, "exec"), names)
    return eval(compile(ast.Expression(last.value), place, "eval"), names)


def run_notebook(name: str) -> list[Any]:
    """Execute a notebook of docs, and return what its cells show."""
    notebook = json.loads((DOCS / name).read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    values = []
    for cell in notebook["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "outputs are made by who reads it"
            values.append(shown("".join(cell["source"]), names, f"{name}, {cell['id']}"))
    return values


@pytest.mark.slow
def test_every_cell_of_the_notebook_runs_and_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kinds, whys = set(), list[str]()
    for value in run_notebook("notebook.ipynb"):
        if hasattr(value, "_repr_mimebundle_"):
            bundle = value._repr_mimebundle_()
            assert json.dumps(bundle["application/vnd.vegalite.v5+json"])
            kinds.add(value.picture.source.kind)
            whys.append(value.picture.why or "")
    assert kinds == {*plotting_sources()}
    assert any(why.startswith("kind felt") for why in whys), "it is drawn as dots"
    assert (tmp_path / "queues.pdf").stat().st_size > 1000


@pytest.mark.slow
def test_the_notebook_of_loops_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    backlogs, rtts, rewards, front = (value for value in run_notebook("notebook-loop.ipynb") if value is not None)
    assert backlogs["2ms"] < backlogs["20ms"]
    assert rtts.tolist() == pytest.approx([30] * 4, abs=2)
    assert set(rewards) == {"flow_0", "flow_1", "flow_2"}
    assert front["target_ms"].is_between(1, 50).all()
    printed = capsys.readouterr().out
    first, last = map(float, re.findall(r"first (-?[\d.]+), last (-?[\d.]+)", printed)[0])
    assert last > first + 0.5, "the agent gets more with time"
    assert "BBRv3 (20ms) and CUBIC (20ms) share a link" in printed, "the find is explained"


def plotting_sources() -> list[str]:
    """Return what draws the kinds of `plot`."""
    own = {"ccdf": "cdf", "ratio": "heat", "differences": "forest", "series": "stacked_series", "felt": "dots"}
    return [own.get(kind, kind) for kind in plotting.KINDS if kind != "front"]  # which is of a search


def test_a_run_over_time_is_one_row_per_interval(two: Results) -> None:
    run = two.run("bottleneck.rate=10Mbit")
    assert run.seed == 1 and run.config["bottleneck"]["rate"] == 10_000_000 and len(run.results) == 1
    frame = run.series("goodput", "sojourn")
    assert frame.columns == [
        "time_s",
        *(f"goodput_mbit {name}" for name in ("cubic", "bbr3", "reno")),
        "sojourn_mean_ms",
    ]
    assert frame["time_s"].to_list() == pytest.approx([round(0.1 * i, 1) for i in range(1, 21)])
    rows = two.series.filter(pl.col("key") == run.key, flow=2).sort("time_s")
    assert frame["goodput_mbit reno"].to_list() == rows["goodput_mbit"].to_list()
    queue = two.queue_series.filter(pl.col("key") == run.key).sort("time_s")
    assert frame["sojourn_mean_ms"].to_list() == queue["sojourn_mean_ms"].to_list()
    every = run.series()
    assert {"cwnd cubic", "srtt_ms bbr3", "drops", "capacity_mbit"} < {*every.columns} and every.height == 20
    assert run.series("cwnd", to="arrow").num_rows == 20


def test_flows_that_are_alike_are_numbered_and_one_alone_is_not_named(tmp_path: Path) -> None:
    alike = made(tmp_path / "a.duckdb", flows=[CUBIC | {"count": 2}, BBR])
    assert alike.run().series("cwnd").columns == ["time_s", "cwnd cubic #1", "cwnd cubic #2", "cwnd bbr3"]
    alone = made(tmp_path / "b.duckdb", flows=[CUBIC])
    assert alone.run().series("cwnd", "drops").columns == ["time_s", "cwnd", "drops"]
    assert alone.run().series("cwnd")["cwnd"].to_list() == alone.series["cwnd"].to_list()


def test_a_flow_has_no_values_before_it_begins(tmp_path: Path) -> None:
    late = made(tmp_path / "a.duckdb", flows=[CUBIC, BBR | {"start": "1s"}]).run().series("goodput", "srtt", "cwnd")
    for name, begins in (("cubic", 0.0), ("bbr3", 1.0)):
        own = late.select("time_s", *(f"{column} {name}" for column in ("goodput_mbit", "srtt_ms", "cwnd")))
        before = own.filter(pl.col("time_s") <= begins).drop("time_s")
        assert before.null_count().transpose()["column_0"].to_list() == [before.height] * 3
        assert own.filter(pl.col("time_s") > begins).drop_nulls().height == own.height - before.height > 5


def test_one_run_is_asked_for_or_the_error_says_how(two: Results, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"these are 3 runs; choose one by conditions on bottleneck\.rate"):
        two.run()
    with pytest.raises(InputError, match="unknown series goodpt; did you mean goodput"):
        two.run("bottleneck.rate=10Mbit").series("goodpt")
    silent = made(tmp_path / "r.duckdb", record={"series": False})
    with pytest.raises(InputError, match=r"no time series in the run; give runs with record\.series = true"):
        silent.run().series()


def test_frames_for_pandas_and_arrow(two: Results) -> None:
    pandas = pytest.importorskip("pandas")
    frame = two.frame("flows", to="pandas")
    assert isinstance(frame, pandas.DataFrame)
    assert frame["goodput_mbit"].to_list() == two.flows["goodput_mbit"].to_list()
    assert two.tidy(to="pandas")["bottleneck.rate_mbit"].max() == 20
    assert two.sql("SELECT count(*) AS n FROM runs", to="pandas")["n"].tolist() == [3]
    by_time = two.run("bottleneck.rate=10Mbit").series("goodput", to="pandas").set_index("time_s")
    assert by_time.shape == (20, 3)
    assert two.tidy(to="arrow").num_rows == two.tidy().height
    with pytest.raises(InputError, match="unknown library numpy; choose from polars, pandas, arrow"):
        two.frame("flows", to="numpy")  # type: ignore[call-overload]


def test_pandas_is_not_needed_but_said_where_it_is(two: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "pandas" or name.startswith("pandas.")]:
        monkeypatch.delitem(sys.modules, name)
    find = importlib.import_module("importlib._bootstrap")._find_spec

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return find(name, *rest)

    monkeypatch.setattr("importlib._bootstrap._find_spec", without)
    with pytest.raises(
        InputError,
        match=re.escape("""to="pandas" needs the packages pandas and pyarrow: pip install 'dumbbell[pandas]'"""),
    ):
        two.frame("flows", to="pandas")
    assert two.frame("flows").height == 9


# DuckDB takes such a process for a notebook; without the package ipywidgets it refuses to change its progress bar
NOTEBOOK_WITHOUT_WIDGETS = """
import sys, types
shell = types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["ipykernel"] = types.ModuleType("ipykernel")
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
sys.modules["ipywidgets"] = None
import duckdb
try:
    duckdb.connect().execute("SET enable_progress_bar = false")
except duckdb.Error as error:
    print("refused" if "ipywidgets" in str(error) else error)
import dumbbell
flow = {"cc": "cubic", "base_rtt": "20ms"}
bottleneck = {"rate": "10Mbit", "aqm": "codel"}
results = dumbbell.run({"bottleneck": bottleneck, "flows": [flow], "duration": "5s"})
print(results.tidy().height)
"""


def test_results_are_read_in_a_notebook_without_ipywidgets() -> None:
    done = subprocess.run([sys.executable, "-c", NOTEBOOK_WITHOUT_WIDGETS], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["refused", "1"], done.stderr


@pytest.mark.slow
def test_results_without_a_file_of_their_own_travel_with_their_data() -> None:
    results = dumbbell.run(ALONE)
    wanted = results.runs["hash"].to_list()
    whole, part, run = (pickle.dumps(one) for one in (results, results.where(seed=2), results.run(seed=1)))
    del results
    gc.collect()
    assert pickle.loads(whole).runs["hash"].to_list() == wanted
    assert pickle.loads(part).runs["hash"].to_list() == wanted[1:]
    assert pickle.loads(run).series("goodput").height > 0


def test_results_in_a_file_travel_as_its_name(tmp_path: Path) -> None:
    results = dumbbell.run(ALONE, output=tmp_path / "r.duckdb")
    assert len(pickle.dumps(results)) < 10_000
    assert pickle.loads(pickle.dumps(results)).path == tmp_path / "r.duckdb"


def test_the_package_lists_its_public_names() -> None:
    assert [name for name in dir(dumbbell) if not name.startswith("__")] == sorted(dumbbell.__all__)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda results: results.tidy("foo"), "of: unknown table foo; did you mean flows?"),
        (lambda results: results.tidy(["flows"]), "of: unknown table"),
        (lambda results: results.where({"seed": 1}), 'it must be text, "KEY=VALUE", or keywords'),
        (lambda results: results.where(seed=[1, 7]), "unknown value 7; choose from 1, 2"),
        (lambda _: dumbbell.run(ALONE, jobs=0), "jobs is 0; it must be a number of runs at a time, 1 or more"),
        (lambda _: dumbbell.run(ALONE, cluster=cast(Any, [])), "cluster is []"),
    ],
)
def test_what_a_program_gets_wrong_is_an_input_error(wrong: Any, text: str, alone: Results) -> None:
    with pytest.raises(InputError, match=re.escape(text)):
        wrong(alone)


def test_conditions_as_keywords_are_numbers_and_lists(alone: Results) -> None:
    assert len(alone.where(seed=2)) == 1
    assert len(alone.where(seed=[1, 2])) == len(alone.where(seed=range(1, 3))) == 2
