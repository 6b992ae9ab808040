"""What columns.py says of the results, held against what runs write."""

import itertools
import re
from pathlib import Path

import pytest

import dumbbell
from conftest import described
from dumbbell.results import columns
from dumbbell.results.store import Store


def test_every_column_of_a_sweep_is_described_and_none_is_made_up(tmp_path: Path) -> None:
    traffic = {"web": [{"cc": "cubic", "arrivals": "20/s"}], "udp": [{}]}
    dumbbell.run(described(bottleneck={"rate": "10Mbit", "aqm": "cake"}, **traffic), output=tmp_path / "r.duckdb")
    with Store.open(tmp_path / "r.duckdb") as store:
        for table, declared in columns.COLUMNS.items():
            of_simulator = {name for name, column in declared.items() if "sim" in column.engines}
            assert set(store.list_columns(table)) == of_simulator, table


def test_units_are_those_of_the_names() -> None:
    ends = {"_ms": "ms", "_s": "s", "_mbit": "Mbit/s", "_kb": "kB", "_bytes": "bytes", "_packets": "packets"}
    for table, of_table in columns.COLUMNS.items():
        for column in of_table.values():
            for end, unit in ends.items():
                assert not column.name.endswith(end) or column.unit == unit, (table, column)
            assert column.label and column.doc.endswith("."), (table, column)


def test_quantiles_alone_are_read_from_histograms() -> None:
    # short flows have their own values; percentiles of those of classes, by size, come from histograms
    binned = {column.name for of_table in columns.COLUMNS.values() for column in of_table.values() if column.least_bin}
    named = {name for of_table in columns.COLUMNS.values() for name in of_table if re.search(r"_p\d+(_ms|_s)?$", name)}
    assert binned == named and len(named) == 7 + 2 + 3 + 2 + 3 + 3 + 6 + 2 + 1


@pytest.mark.parametrize(
    ("table", "column", "value", "width"),
    [
        # 2^29 ns = 536.9 ms is the octave of 605.6 ms; a bin is 1/64 of it
        ("runs", "sojourn_p99_ms", 605.6, 2**29 / 64 / 1e6),
        ("runs", "sojourn_p99_ms", 0.05, 0.001024),
        ("runs", "sojourn_p99_ms", 0.131, 0.001024),
        ("runs", "sojourn_p99_ms", 0.1311, 0.002048),
        ("runs", "sojourn_p99_ms", 0.0, 0.001024),
        ("slowdowns", "completion_p50_s", 0.6056, 2**29 / 64 / 1e9),
        ("slowdowns", "slowdown_p99", 3.0, 2**21 / 64 / 1e6),
        ("runs", "sojourn_p99_ms", None, None),
        ("runs", "sojourn_p99_ms", float("nan"), None),
        ("runs", "sojourn_mean_ms", 605.6, None),
        ("runs", "sojourn_max_ms", 605.6, None),
        ("short_flows", "slowdown", 3.0, None),
    ],
)
def test_the_width_of_a_bin(table: str, column: str, value: float | None, width: float | None) -> None:
    assert columns.COLUMNS[table][column].find_resolution(value) == (None if width is None else pytest.approx(width))


def test_bins_are_those_of_the_engine(tmp_path: Path) -> None:
    found = dumbbell.run(described(bottleneck={"rate": "10Mbit", "aqm": "pfifo"}), output=tmp_path / "r.duckdb")
    column = columns.COLUMNS["runs"]["sojourn_p99_ms"]
    ends = sorted(found.sojourn["from_ms"].to_list())
    assert len(ends) > 20
    for start, following in itertools.pairwise(ends):
        width = column.find_resolution(start * (1 + 1e-12))
        assert width is not None and start / width == pytest.approx(round(start / width), abs=1e-6)
        assert following >= start + width * (1 - 1e-6) or following == start
    assert any(
        b == pytest.approx(a + (column.find_resolution(a * (1 + 1e-12)) or 0)) for a, b in itertools.pairwise(ends)
    )


@pytest.mark.parametrize(
    ("name", "table", "expected"),
    [
        ("goodput_mbit", None, "goodput, Mbit/s"),
        ("sojourn_p99_ms", None, "time in queue, P99, ms"),
        ("rtt_mean_ms", "classes", "mean RTT, ms"),
        ("rtt_max_ms", None, "smoothed RTT, maximum, ms"),  # P95 is of single RTTs and may be above
        ("packets", "runs", "packets"),
        ("jain", None, "Jain's index"),
        ("backlog_bytes", None, "backlog, bytes"),
        ("short_flows", None, "short flows"),
        ("bottleneck.rate", None, "bottleneck.rate"),
    ],
)
def test_axes_are_labelled_in_words(name: str, table: str | None, expected: str) -> None:
    assert columns.format_axis_label(name, table) == expected


def test_a_name_is_found_in_every_table_that_has_it() -> None:
    assert [table for table, _ in columns.find("goodput_mbit")] == ["flows", "classes", "series", "apps"]
    assert columns.find("goodput") == []
