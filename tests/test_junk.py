import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from conftest import TRACE, described, examples
from dumbbell import cli, experiment
from dumbbell.errors import OPTION, Conflict, InputError, Unreadable, escape_line, spell_option
from dumbbell.experiment.registry import Param, read_registry

pytestmark = pytest.mark.junk

TOP = ["duration", "seeds", "title", "matrix", "override", "bottleneck", "hosts", "flows", "web", "udp", "record"]
TRAFFIC = ["arrivals", "size", "pareto", "min", "max", "csv", "spacing", "profile"]
INNER = [
    *TRAFFIC,
    "rate",
    "aqm",
    "cc",
    "name",
    "base_rtt",
    "count",
    "start",
    "uniform",
    "when",
    "set",
    "rate_changes",
    "at",
]
PATHS = ["flows[*].cc", "flows[0]", "bottleneck.aqm", "bottleneck.aqm.target", "web[0].size", "udp[*].rate"]
KEYS = st.sampled_from([*TOP, *INNER, *PATHS]) | st.text(max_size=8)
WORDS = st.sampled_from(["codel", "reno", "1s", "10Mbit", "4kB", "none", "-1s", "1e9s", ""]) | st.text(max_size=8)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.datetimes()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def is_clear(error: InputError, file: str = "") -> bool:
    """Whether each error is a kind of its own, a line long, and says file and key."""
    text = str(error)

    def spelt(file: str) -> str:
        return spell_option(file) if OPTION.match(file) else file

    single = all(type(one) is not InputError and len(str(one).splitlines()) == 1 for one in error.errors)
    named = all(
        escape_line(one.key.rpartition(": ")[2]) in str(one) and spelt(one.file) in str(one) for one in error.errors
    )
    right = all(one.found and (one.allowed or isinstance(one, Conflict | Unreadable)) for one in error.errors)
    whole = text.splitlines() == list(map(str, error.errors))
    told = all(one.file == file for one in error.errors) if file else True
    return single and named and right and whole and told and all(len(str(one)) < 1000 for one in error.errors)


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=6))
@example({"--0": None})
@example({"--only": None})
def test_any_table_is_an_experiment_or_one_line(table: dict[str, Any]) -> None:
    try:
        experiment.parse(table, "junk.toml")
    except InputError as error:
        assert is_clear(error, "junk.toml")


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(
    st.sampled_from(TOP),
    VALUES,
)
def test_any_value_in_a_good_file_is_used_or_one_line(key: str, value: Any) -> None:
    try:
        experiment.parse(described() | {key: value}, "junk.toml")
    except InputError as error:
        assert is_clear(error)


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(b"\r\r\n")
def test_any_bytes_end_with_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "junk.toml"
    path.write_bytes(content)
    monkeypatch.setattr("sys.argv", ["dumbbell", "run", str(path), "-o", str(tmp_path / "out.duckdb")])
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert leave.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(line.startswith(f"{path}:") for line in lines)
    assert not (tmp_path / "out.duckdb").exists()


@settings(max_examples=examples(150), deadline=None)
@given(st.text(max_size=30))
def test_any_setting_is_used_or_one_line(text: str) -> None:
    try:
        experiment.parse(described(), "junk.toml", [text])
    except InputError as error:
        assert is_clear(error)


def toml(value: Any) -> str:
    """Return `value` about as TOML has it; what TOML does not have comes out as something else."""
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case bool() | str():
            return json.dumps(value)
        case _:
            return str(value)


LINES = st.one_of(
    st.builds(lambda key, value: f"{key} = {toml(value)}", KEYS, VALUES),
    st.builds(lambda key, value: f"{json.dumps(key)} = {toml(value)}", KEYS, VALUES),
    st.sampled_from(
        [
            "[bottleneck]",
            "[[flows]]",
            "[matrix]",
            "[[override]]",
            "[hosts]",
            "[record]",
            "[flows]",
            "[[web]]",
            "[[udp]]",
        ]
    ),
    st.sampled_from(['arrivals = "9/s"', 'size = "1kB"', 'size = { pareto = 1, min = "1kB", max = "1MB" }']),
    st.sampled_from(['cc = "reno"', 'aqm = "codel"', 'rate = "10Mbit"', 'duration = "1s"', "seeds = [1, 2]"]),
    st.text(max_size=12),
)


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LINES, max_size=12))
def test_any_text_like_toml_is_an_experiment_or_one_line(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "junk.toml"
    path.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    try:
        experiment.load(path)
    except InputError as error:
        assert is_clear(error, str(path))


NUMBERS = st.sampled_from(["0", "1", "10", "0.5", "1500", "9" * 19, "1" + "0" * 29])
PARETOS = st.fixed_dictionaries(
    {
        "pareto": st.sampled_from([0.01, 0.9, 1, 100, 0, -1, "1"]),
        "min": st.sampled_from(["1B", "1kB"]),
        "max": st.sampled_from(["1kB", "1MB", "1024TB"]),
    }
)
UNITS = st.sampled_from(["ns", "ms", "s", "h", "bit", "Mbit", "Tbit", "B", "MB", "GiB", ""])


def values(param: Param) -> st.SearchStrategy[Any]:
    """Return values for `param`: most within its range, some just outside of it, some of no kind."""
    bounds = [bound for bound in (param.default, param.min, param.max) if bound is not None]
    near = [bound + step for bound in bounds if type(bound) in (int, float) for step in (0, 0, 0, 0, -1, 1)]
    unit = {"time": "ns", "rate": "bit"}.get(param.kind, "B")
    own: st.SearchStrategy[Any]
    quantities = st.sampled_from([f"{bound}{unit}" for bound in near] or [f"1{unit}"])
    if param.kind in ("time", "rate") or param.unit == "bytes":
        own = quantities
    elif param.kind == "arrivals":
        own = st.sampled_from(["0/s", "9/s", "2.5/s/Mbit", "1000000/s", "1000001/s", 0])
    elif param.kind == "sizes":
        own = st.sampled_from(["1B", "10kB", "0B", {"csv": "none.csv"}]) | PARETOS
    elif param.kind == "trace":
        own = st.sampled_from(["none", "missing.trace", TRACE])
    elif param.kind == "bool":
        own = st.booleans()
    elif param.kind == "choice":
        own = st.sampled_from(param.choices)
    else:
        own = st.sampled_from(near or [0, 1, 2**32, 2**63, 2**64])
    junk = st.builds(str.__add__, NUMBERS, UNITS) | st.sampled_from(["none", "auto"]) | VALUES
    return st.integers(0, 15).flatmap(lambda number: junk if number == 15 else own)


def tables(params: dict[str, Param], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return tables with some of `params`, and with all of `more`."""
    known = {name: values(param) for name, param in params.items() if name not in more}
    some = st.lists(st.sampled_from(sorted(known)), max_size=2, unique=True) if known else st.just([])
    chosen = some.flatmap(lambda names: st.fixed_dictionaries({name: known[name] for name in names}))
    return st.builds(dict.__or__, chosen, st.fixed_dictionaries(more))


def algorithms(kind: str) -> st.SearchStrategy[Any]:
    found = read_registry().aqm if kind == "aqm" else read_registry().cc
    return st.sampled_from(sorted(found)).flatmap(
        lambda name: st.just(name) | tables(found[name].params, name=st.just(name))
    )


SECTIONS = read_registry().sections
FLOWS = st.lists(
    tables(SECTIONS["flows"], cc=algorithms("cc"))
    | tables(SECTIONS["flows"], cc=algorithms("cc"), count=st.integers(0, 3)),
    min_size=1,
    max_size=3,
)
WEB = st.lists(tables(SECTIONS["web"], cc=algorithms("cc")), max_size=2)
UDP = st.lists(tables(SECTIONS["udp"]) | tables(SECTIONS["udp"], count=st.integers(0, 3)), max_size=2)
AXES = {
    "web[*].arrivals": values(SECTIONS["web"]["arrivals"]),
    "web[0].size": values(SECTIONS["web"]["size"]),
    "udp[*].rate": values(SECTIONS["udp"]["rate"]),
    "hosts.profile": values(SECTIONS["hosts"]["profile"]),
    "bottleneck.aqm": algorithms("aqm"),
    "flows[*].cc": algorithms("cc"),
    "flows[0].base_rtt": values(SECTIONS["flows"]["base_rtt"]),
    "flows[*].stop": values(SECTIONS["flows"]["stop"]),
    "bottleneck.rate": values(SECTIONS["bottleneck"]["rate"]),
    "hosts.mss": values(SECTIONS["hosts"]["mss"]),
}
MATRICES = st.lists(st.sampled_from(sorted(AXES)), min_size=1, max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.lists(AXES[name], min_size=1, max_size=4) for name in names})
)
BOTTLENECKS = tables(SECTIONS["bottleneck"], aqm=algorithms("aqm"))
EXPERIMENTS = st.builds(
    dict.__or__,
    st.fixed_dictionaries({"bottleneck": BOTTLENECKS, "flows": FLOWS}),
    st.fixed_dictionaries(
        {},
        optional={
            "hosts": tables(SECTIONS["hosts"]),
            "matrix": MATRICES,
            "duration": values(SECTIONS["run"]["duration"]),
            "record": tables(SECTIONS["record"]) | VALUES,
            "web": WEB,
            "udp": UDP,
        },
    ),
)


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EXPERIMENTS)
def test_any_experiment_of_the_right_shape_is_checked_whole_or_one_line(table: dict[str, Any]) -> None:
    started = time.process_time()
    try:
        plan = experiment.parse(table, "junk.toml")
    except InputError as error:
        assert is_clear(error)
        return
    finally:
        assert time.process_time() - started < 10
    # what was accepted can be made into runs
    for cell in plan.sample_cells(5):
        assert len(cell.key) == 32 and cell.packets > 0 and json.loads(cell.config)
