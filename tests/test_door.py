"""The public classes: what they list, that they have the options of what they call, and that types refuse others."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dumbbell
from conftest import described
from dumbbell import Results, notebook, plotting, report, study
from dumbbell.errors import InputError
from dumbbell.packets import again
from dumbbell.plotting.request import PlotOptions
from dumbbell.results import diff, tables
from dumbbell.results.store import TABLES

ROOT = Path(__file__).parents[1]
PUBLIC = {
    *("path", "keys", "seeds", "engines", "notes", "varying", "cells", "configurations", "measures"),
    *("where", "with_keys", "engine", "run", "frame", "tidy", "sql", "table", "plot", "diff", "report"),
    *("summary", "digest", "explain", "save"),
    *TABLES,
}
OF_RUN = {"series", "packets", "explain"}
WRONG = """\
import dumbbell

results = dumbbell.open("r.duckdb")
{line}
"""


@pytest.mark.parametrize(("thing", "public"), [(Results, PUBLIC), (notebook.Run, OF_RUN)])
def test_a_public_class_lists_public_names_alone(thing: type, public: set[str]) -> None:
    assert {name for name in dir(thing) if not name.startswith("_")} == public
    own = {name for name in dir(thing) if name.startswith("_") and not name.startswith("__")}
    assert own <= {"_repr_html_"}, "IPython asks for it"


@pytest.mark.parametrize("thing", [Results, notebook.Run])
def test_a_public_name_has_types_and_says_what_it_is(thing: type) -> None:
    for name in dir(thing):
        if name.startswith("_"):
            continue
        member = inspect.getattr_static(thing, name)
        called: Any = member.fget if isinstance(member, property) else member
        assert inspect.getdoc(called), name
        parameters = list(inspect.signature(called).parameters.values())[1:]
        types = [one.annotation for one in parameters] + [inspect.signature(called).return_annotation]
        assert inspect.Parameter.empty not in types, name
        if isinstance(member, property) or name not in ("frame", "tidy", "sql", "series", "packets"):
            assert types[-1] != "Any", name
        assert not any(one.kind is one.VAR_KEYWORD and one.name not in ("values", "frames") for one in parameters), name


def options(function: Callable[..., Any], *without: str) -> list[tuple[str, Any, Any, str]]:
    """Return name, kind, default and type of each parameter but for the first, which is what the function is about."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [(one.name, one.kind, one.default, plain(one.annotation)) for one in parameters if one.name not in without]


def plain(annotation: Any) -> str:
    """Return a type as text, by the last words of its names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)
    return text.replace("StoredResults", "Results")  # the public class has such a handle


@pytest.mark.parametrize(
    ("method", "function", "extra", "without"),
    [
        (Results.table, tables.make_table, (), ()),
        (Results.plot, plotting.plot, ("interactive",), ()),
        (Results.report, report.write, (), ("where", "engine")),
        (Results.diff, diff.compare_results, ("other",), ("second",)),
        (notebook.Run.packets, again.repeat_packets, ("to",), ()),
    ],
)
def test_a_method_has_the_options_of_the_function_that_it_calls(
    method: Callable[..., Any], function: Callable[..., Any], extra: tuple[str, ...], without: tuple[str, ...]
) -> None:
    assert options(method, *extra) == options(function, *without)


def test_the_typed_options_of_a_figure_are_all_of_them() -> None:
    named = {name: kind for name, _, _, kind in options(Results.plot, "interactive", "kind", "other")}
    types = PlotOptions.__annotations__.items()
    assert named == {name: plain(getattr(kind, "__forward_arg__", kind)) for name, kind in types}


@pytest.mark.long
def test_mypy_refuses_what_there_is_not(tmp_path: Path) -> None:
    refused = [
        'results.table("goodput", bogus=3)',
        'results.plot("lines", bogus=3)',
        "results.plot(interactive=True, value=3)",
        "results.diff(5)",
        'results.report("x.html", engine="sim")',
        'results.tidy("flow")',
        'results.run().series("goodput", to="numpy")',
        "results.whole_runs",
        "results.tidy().rows().bogus",
        'dumbbell.simulate({}, seed="1")',
        "next(dumbbell.simulate_many([], return_exceptions=True)).keys",
    ]
    taken = [
        'results.table("goodput", "bottleneck.rate", mean_over=["seed"]).to_csv()',
        'results.plot("lines", value=["goodput"]).panels',
        'results.plot(interactive=True, value="goodput").spec',
        'results.diff(results, values=["goodput"]).frame.height',
        "results.tidy().height",
        'results.run("seed=1").series("goodput").height',
        'dumbbell.simulate({"duration": "1s"}, {"seeds": [1]}).summary["drops"]',
        "next(dumbbell.simulate_many([({}, ())])).digest.upper()",
        "[one for one in dumbbell.simulate_many([], return_exceptions=True) if not isinstance(one, Exception)][0].keys",
    ]
    files = [tmp_path / f"line_{number}.py" for number in range(len(refused) + 1)]
    for file, line in zip(files, [*refused, "\n".join(taken)], strict=True):
        file.write_text(WRONG.format(line=line))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run([*command, *map(str, files)], cwd=ROOT, capture_output=True, text=True, timeout=110)
    for file, line in zip(files[:-1], refused, strict=True):
        assert f"{file.name}:4: error" in done.stdout, (line, done.stdout)
    assert files[-1].name not in done.stdout, done.stdout


def test_keys_of_runs_are_columns_whether_or_not_they_differ(tmp_path: Path) -> None:
    results = dumbbell.run(described(matrix={"bottleneck.rate": ["2Mbit", "10Mbit"]}), output=tmp_path / "r.duckdb")
    names = ["flows[0].cc.name", "bottleneck.aqm.target", "bottleneck.rate", "flows[*].loss", "experiment"]
    rows = results.tidy("runs", names)
    columns = ["flows[0].cc.name", "bottleneck.aqm.target_ms", "bottleneck.rate_mbit"]
    assert rows.select(columns).rows() == [("cubic", 5.0, 2.0), ("cubic", 5.0, 10.0)]
    names_of_keys = {"cc": "flows[0].cc.name", "rate": "bottleneck.rate", "third": "flows[2].cc.name"}
    rows = results.tidy("runs", names_of_keys | {"threshold": "bottleneck.aqm.ce_threshold"})
    assert rows.select("cc", "rate", "third", "threshold").rows() == [
        ("cubic", rate, None, None) for rate in (2.0, 10.0)
    ]
    with pytest.raises(InputError, match=r"unknown key bottleneck\.rte"):
        results.tidy("runs", {"rate": "bottleneck.rte"})
    assert results.tidy(keys=[]).columns[:2] == ["experiment", "seed"]
    assert results.tidy().columns[:3] == ["experiment", "bottleneck.rate_mbit", "seed"]
    with pytest.raises(InputError, match=r"unknown key bottleneck\.rte; did you mean bottleneck\.rate"):
        results.tidy(keys=["bottleneck.rte"])
    assert results.run(rate="10Mbit").config["bottleneck"]["rate"] == 10_000_000


def test_a_run_has_its_own_seed() -> None:
    assert dumbbell.run(described(seeds=[1, 2], duration="500ms")).run(seed=2).config["seed"] == 2


def test_a_new_study_imports_dumbbell_study_alone() -> None:
    program = (ROOT / "python" / "dumbbell" / "pages" / "example" / "study.py").read_text(encoding="utf-8")
    assert re.findall(r"^(?:from|import) (dumbbell\S*)", program, re.MULTILINE) == ["dumbbell.study"]
    assert all(hasattr(study, name) for name in study.__all__)
