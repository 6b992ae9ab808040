"""BBRv3 over FQ-CoDel whose rate falls from 50 to 10 Mbit/s, next to Linux 6.12 with BBRv3, start by start."""

from pathlib import Path

import duckdb
import pytest

import dumbbell

# by start, in the 30 s after the fall: seconds in which packets wait longer than 100 ms, and the longest wait, ms,
# as means over 100 ms; with ECN and without
LINUX_MARKED = {1: (29.6, 1989), 2: (8.6, 210), 3: (13.2, 954), 4: (8.4, 210), 5: (9.1, 210), 6: (14.2, 737)}
LINUX_DROPPED = {1: (0.8, 177), 2: (0.5, 180), 3: (0.7, 155), 4: (1.0, 180), 5: (0.5, 180), 6: (0.5, 165)}


@pytest.mark.slow
@pytest.mark.parametrize(("ecn", "linux"), [(True, LINUX_MARKED), (False, LINUX_DROPPED)])
def test_the_queue_of_bbr3_after_a_fall_of_the_rate_is_that_of_linux(
    ecn: bool, linux: dict[int, tuple[float, float]], tmp_path: Path
) -> None:
    table = {
        "duration": "60s",
        "seeds": list(linux),
        "bottleneck": {
            "rate": "50Mbit",
            "shaper": "htb",
            "aqm": "fq_codel",
            "rate_changes": [{"at": "30s", "rate": "10Mbit"}],
        },
        "hosts": {"ecn": ecn},
        "flows": [{"cc": "bbr3", "base_rtt": "20ms", "start": {"uniform": ["0s", "10s"]}}],
        "record": {"from": "30s", "interval": "100ms"},
    }
    dumbbell.run(table, output=tmp_path / "results.duckdb")
    with duckdb.connect(str(tmp_path / "results.duckdb"), read_only=True) as results:
        rows = results.sql(
            "SELECT seed, count(*) FILTER (q.sojourn_mean_ms > 100), max(q.sojourn_mean_ms) "
            "FROM runs JOIN queue_series q USING (key) WHERE time_s > 30 GROUP BY seed"
        ).fetchall()
    for seed, tenths, longest in rows:
        assert tenths / 10 == pytest.approx(linux[seed][0], abs=1 if ecn else 0.2), seed
        assert longest == pytest.approx(linux[seed][1], rel=0.25), seed
    assert len(rows) == len(linux)
