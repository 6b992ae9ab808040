"""What columns.py says of the results, held against what runs write."""

from pathlib import Path

import pytest

import dumbbell
from conftest import described
from dumbbell import columns
from dumbbell.store import TABLES, Store

# described ahead of the engine that measures them
COMING = {
    "runs": {"drops"},
    "flows": {"rtt_p50_ms", "rtt_p95_ms", "rtt_p99_ms", "ce_marks", "sce_marks", "drops"},
    "classes": {"rtt_p50_ms", "rtt_p95_ms", "rtt_p99_ms"},
}
# of runs in real time, which other runs do not have
LATE = {f"lateness_{which}_ms" for which in ("p50", "p99", "max", "allowed")}
LIVE = {
    "runs": LATE | {"ends_waited_ms", "frames_lost", "valid", "forwarder", "flows_seen"},
    "flows": {"source", "destination"},
}


def test_every_column_of_a_sweep_is_described_and_none_is_made_up(tmp_path: Path) -> None:
    traffic = {"web": [{"cc": "cubic", "arrivals": "20/s"}], "udp": [{}]}
    dumbbell.run(described(bottleneck={"rate": "10Mbit", "aqm": "cake"}, **traffic), output=tmp_path / "r.duckdb")
    assert list(columns.COLUMNS) == list(TABLES)
    with Store.open(tmp_path / "r.duckdb") as store:
        for table, described_columns in columns.COLUMNS.items():
            written = set(store.columns(table))
            assert written <= described_columns.keys(), table
            unwritten = COMING.get(table, set()) | LIVE.get(table, set())
            assert described_columns.keys() - written <= unwritten, table


def test_units_are_those_of_the_names() -> None:
    ends = {"_ms": "ms", "_s": "s", "_mbit": "Mbit/s", "_kb": "kB", "_bytes": "bytes", "_packets": "packets"}
    for table, of_table in columns.COLUMNS.items():
        for column in of_table.values():
            for end, unit in ends.items():
                assert not column.name.endswith(end) or column.unit == unit, (table, column)
            assert column.label and column.doc.endswith("."), (table, column)


@pytest.mark.parametrize(
    ("name", "table", "expected"),
    [
        ("goodput_mbit", None, "goodput, Mbit/s"),
        ("sojourn_p99_ms", None, "time in queue, P99, ms"),
        ("rtt_mean_ms", "classes", "mean RTT, ms"),
        ("packets", "runs", "packets"),
        ("jain", None, "Jain's index"),
        ("backlog_bytes", None, "backlog, bytes"),
        ("short_flows", None, "short flows"),
        ("bottleneck.rate", None, "bottleneck.rate"),
    ],
)
def test_axes_are_labelled_in_words(name: str, table: str | None, expected: str) -> None:
    assert columns.axis_label(name, table) == expected


def test_a_name_is_found_in_every_table_that_has_it() -> None:
    assert [table for table, _ in columns.find("goodput_mbit")] == ["flows", "classes", "series"]
    assert columns.find("goodput") == []
