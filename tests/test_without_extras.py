"""What users do without the packages of extras: runs, tables, differences, claims, reports, figures, SQL, imports."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = ("arrow", "cluster", "gym", "pandas", "search")
OPTIONAL = ("scipy", "pyarrow", "pandas", "distributed", "dask", "optuna", "cmaes", "pymoo", "gymnasium", "pettingzoo")
# modules whose classes extend those of an extra, imported when somebody asks for them; a study that trains agents
LAZY = {
    "python/dumbbell/gym/environments.py": {"gymnasium"},
    "python/dumbbell/gym/parallel_environment.py": {"gymnasium", "pettingzoo"},
    "studies/learning/train.py": {"stable_baselines3", "torch"},
}
BLOCKED = f"""
import sys
for name in {OPTIONAL}:
    sys.modules[name] = None  # from here on, import NAME raises ModuleNotFoundError
import contextlib, io, json, pathlib
from dumbbell.cli import program
import dumbbell, pytest

def command(*arguments):
    sys.argv = ["dumbbell", *map(str, arguments)]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            program.main()
        except SystemExit as end:
            assert (end.code or 0) < 2, (arguments, end.code)  # 1: results differ
    return said.getvalue()

"""
USES = """
text, capture = sys.argv[1:]
pathlib.Path("small.toml").write_text(text)
command("run", "small.toml", "-o", "r.duckdb")
assert "cubic" in command("table", "r.duckdb", "--value", "goodput", "--rows", "flow")
assert "capacity, Mbit/s" in command("diff", "r.duckdb", "--by", "bottleneck.rate")
command("diff", "r.duckdb", "r.duckdb")
pathlib.Path("own.toml").write_text(SUITE)
pathlib.Path("own.py").write_text(PROGRAM)
assert "holds" in command("evaluate", "results", "r.duckdb", "--suite", "own.toml", "--run-program")
command("report", "r.duckdb", "-o", "report.html")
for kind in ("box", "cdf", "series"):
    command("plot", "r.duckdb", "--kind", kind, "-o", f"{kind}.png")
command("plot", "r.duckdb", "-o", "page.html")
command("export", "r.duckdb", "--format", "csv", "-o", "csv")
command("export", "r.duckdb", "--format", "parquet", "-o", "parquet")
assert "ms" in command("explain", "r.duckdb", "--where", "bottleneck.rate=2Mbit", "--where", "base_rtt=10ms")
command("import", capture, "-o", "imported.duckdb")
results = dumbbell.open("r.duckdb")
assert results.tidy().height == results.sql("SELECT count(*) AS n FROM flows")["n"].item() == 16
assert results.sql("SELECT key, key FROM runs").columns == ["key", "key_1"]
for query in ("SELECT nothing FROM runs", "SELECT to_seconds(seed) FROM runs", "SELECT key::INT FROM runs"):
    with pytest.raises(dumbbell.InputError):
        results.sql(query)
for to in ("arrow", "pandas"):
    with pytest.raises(dumbbell.InputError, match=rf"pip install 'dumbbell\\[{to}\\]'"):
        results.frame("runs", to=to)
assert results.run("rate=2Mbit", "base_rtt=10ms", seed=1).packets("bottleneck", time=(0, 1)).height
"""
SUITE = """
title = "Own"
of = "results"
program = "own.py"
table = { runs = { measures = ["utilisation"] } }
paragraphs = { V = { title = "V" } }
cells = [{ rate = [2, 10], rtt = [10, 40] }]

[[criterion]]
id = "used"
answers = ["V"]
says = "It is used."
measure = "utilisation"
passes = ">= 0.5"
cells = "every"
"""
PROGRAM = """
NAMES = {"bottleneck.rate_mbit": "rate", "flows[*].base_rtt_ms": "rtt"}
runs = lambda results: results.tidy("runs").rename(NAMES)
"""


@pytest.mark.slow
def test_the_required_packages_do_for_everything_but_extras(small: Path, tmp_path: Path) -> None:
    texts = f"SUITE, PROGRAM = {SUITE!r}, {PROGRAM!r}\n"
    capture = ROOT / "tests" / "imports" / "upload.json"
    line = [sys.executable, "-c", BLOCKED + texts + USES, small.read_text(), str(capture)]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr


def imports(node: ast.AST, *, inside: bool = False) -> list[tuple[str, bool]]:
    """Return the packages that a module imports, and of each whether that is inside of a function or for types."""
    found = []
    for child in ast.iter_child_nodes(node):
        lazy = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        lazy = lazy or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING")
        if isinstance(child, ast.Import):
            found += [(alias.name.partition(".")[0], inside) for alias in child.names]
        elif isinstance(child, ast.ImportFrom) and not child.level:
            found.append(((child.module or "").partition(".")[0], inside))
        found += imports(child, inside=lazy)
    return found


@pytest.mark.slow
def test_packages_of_extras_are_imported_inside_of_functions_and_the_others_are_required() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required, extras = (
        {re.split(r"[><=\[]", one)[0] for one in listed}
        for listed in (
            project["dependencies"],
            [one for name in EXTRAS for one in project["optional-dependencies"][name]],
        )
    )
    assert not any("<" in one for one in project["dependencies"]), "a library has no upper bounds"
    imported = {"pillow": "PIL"}  # a package that is imported by another name
    known = {imported.get(one, one) for one in required} | set(sys.stdlib_module_names) | {"dumbbell", "pydantic_core"}
    found: dict[str, set[str]] = {}
    for path in [*(ROOT / "python" / "dumbbell").rglob("*.py"), *ROOT.glob("studies/*/*.py")]:
        if "/dumbbell/studies/" in str(path) or path.name.startswith("test_"):
            continue
        for package, lazy in imports(ast.parse(path.read_text(encoding="utf-8"))):
            place = str(path.relative_to(ROOT))
            if package not in known | LAZY.get(place, set()) and not (lazy and package in extras):
                found.setdefault(package, set()).add(place)
    assert not found
