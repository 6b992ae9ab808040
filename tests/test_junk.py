from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import described
from dumbbell import cli, experiment
from dumbbell.errors import InputError

TOP = ["duration", "seeds", "title", "matrix", "override", "bottleneck", "hosts", "flows", "record"]
INNER = ["rate", "aqm", "cc", "name", "base_rtt", "count", "start", "uniform", "when", "set", "rate_changes", "at"]
PATHS = ["flows[*].cc", "flows[0]", "bottleneck.aqm", "bottleneck.aqm.target"]
KEYS = st.sampled_from([*TOP, *INNER, *PATHS]) | st.text(max_size=8)
WORDS = st.sampled_from(["codel", "reno", "1s", "10Mbit", "4kB", "none", "-1s", "1e9s", ""]) | st.text(max_size=8)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.datetimes()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def is_clear(error: InputError) -> bool:
    text = str(error)
    return len(text.splitlines()) == 1 and "found " in text and "allowed: " in text and len(text) < 3000


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_table_is_an_experiment_or_one_line(table: dict[str, Any]) -> None:
    try:
        experiment.parse(table, "junk.toml")
    except InputError as error:
        assert is_clear(error) and error.file == "junk.toml"


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(TOP),
    VALUES,
)
def test_any_value_in_a_good_file_is_used_or_one_line(key: str, value: Any) -> None:
    try:
        experiment.parse(described() | {key: value}, "junk.toml")
    except InputError as error:
        assert is_clear(error)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_end_with_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "junk.toml"
    path.write_bytes(content)
    monkeypatch.setattr("sys.argv", ["dumbbell", "run", str(path), "-o", str(tmp_path / "out.duckdb")])
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert leave.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "out.duckdb").exists()


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30))
def test_any_setting_is_used_or_one_line(text: str) -> None:
    try:
        experiment.parse(described(), "junk.toml", [text])
    except InputError as error:
        assert is_clear(error)
