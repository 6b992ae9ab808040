"""Imported tables have the types that engines give their columns, which Rust declares once."""

from pathlib import Path

import polars as pl

from dumbbell import experiment
from dumbbell.engines import sweep
from dumbbell.exchange import imported_tables
from dumbbell.results.columns import COLUMNS, OF_STORE, TABLES
from dumbbell.results.store import Store

TABLE = {
    "duration": "2s",
    "record": {"trace": "100ms", "queue": ["p"]},
    "bottleneck": {"rate": "10Mbit", "aqm": "pie"},
    "flows": [{"cc": "cubic", "base_rtt": "20ms"}, {"cc": "reno", "base_rtt": "20ms"}],
    "web": [{"cc": "cubic", "arrivals": "20/s"}],
}
_OF_VALUES = {"count": pl.Int64, "real": pl.Float64, "text": pl.String}


def test_columns_are_what_they_are_declared_to_be(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    sweep.run([experiment.parse(TABLE, "mine")], path)
    wrong = []
    with Store.open(path) as store:
        for table in TABLES:
            frame = store.read(f"SELECT * FROM {table}")
            for name in set(frame.columns) & COLUMNS[table].keys() - OF_STORE:
                kind = frame.schema[name]
                declared = _OF_VALUES[COLUMNS[table][name].values]
                if frame[name].null_count() < frame.height and kind != declared:
                    wrong.append(f"{table}.{name}: {kind}, declared {declared}")
    assert not wrong


def test_imports_leave_out_what_no_file_has() -> None:
    runs = imported_tables.make_schema("runs")
    assert not {"valid", "forwarder", "frames_lost", "flows_seen", "lateness_p99_ms", "hash", "kernel"} & runs.keys()
    assert {"rate_ratio": pl.Float64, "packets": pl.Int64, "aqm_counters": pl.String}.items() <= runs.items()
    assert imported_tables.make_schema("flows")["source"] == pl.String
