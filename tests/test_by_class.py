"""Statistics of classes beside those of DualPI2's evaluation: mixed RTT, one class alone, overload."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dumbbell
from conftest import Command
from dumbbell.published import by_class
from dumbbell.published.compare import Comparison, Pair

HEADER = (
    "experiment,aqm,cc_a,cc_b,link_mbit,rtt_a_ms,rtt_b_ms,flows_a,flows_b,udp_mbit,udp_class,counted,class,statistic,"
    "mean,p1,p25,p75,p99,stddev\n"
)
OVERLOAD = "overload,pie,cubic-ecn,cubic,10,10,10,2,2,14,{udp},{counted},{of},{value}"
ALONE = "mixed-rtt,pie,cubic-ecn,cubic,10,,20,0,1,,,tcp,{of},{value}"
TRAFFIC = """\
duration = "5s"
[bottleneck]
rate = "10Mbit"
aqm = { name = "pie", ecn = true }
"""
PAIR = """\
[[flows]]
cc = "cubic"
ecn = true
base_rtt = "10ms"
count = 2
[[flows]]
cc = "cubic"
ecn = false
base_rtt = "10ms"
count = 2
"""
UDP = '[[udp]]\nrate = "14.4Mbit"\nsize = "1512B"\necn = "ect1"\n'  # 14 Mbit/s of payload, as iperf counts


def rows(text: str, **words: str) -> list[str]:
    """Return a row for every statistic of a class."""
    found = []
    for statistic in ("rate_per_flow_mbit", "queue_delay_ms", "mark_pct", "drop_pct", "util_pct"):
        found.append(text.format(value=f"{statistic},2,1,1.5,2.5,4,1", **words))
    return found


def compared(tmp_path: Path, experiment: str, lines: list[str]) -> tuple[Comparison, pl.DataFrame]:
    published = tmp_path / "classes.csv"
    published.write_text(HEADER + "\n".join(lines) + "\n")
    (tmp_path / "e.toml").write_text(experiment)
    results = dumbbell.run(tmp_path / "e.toml", output=tmp_path / "e.duckdb")
    return by_class.compare(results.runs, results.classes, by_class.read(published)), results.classes


def pairs(comparison: Comparison, counted: str = "tcp") -> dict[tuple[str, str], Pair]:
    """Return the pairs of rows that count TCP or UDP, by class and metric."""
    of = [p for p in comparison.pairs if dict(p.figure.cell)["counted"] == counted]
    return {(p.figure.table, p.figure.metric): p for p in of}


def row(classes: pl.DataFrame, kind: str, number: int = 0) -> dict[str, Any]:
    return classes.filter(pl.col("kind") == kind).sort("class").row(number, named=True)


def test_overload_counts_tcp_and_udp_apart(tmp_path: Path, command: Command) -> None:
    lines = []
    for counted in ("tcp", "udp"):
        for of in ("a", "b"):
            lines += rows(OVERLOAD, udp="a", counted=counted, of=of)
        lines.append(OVERLOAD.format(udp="a", counted=counted, of="all", value="util_pct,90,1,1,1,1,1"))
    lines.append(OVERLOAD.format(udp="a", counted="udp", of="b", value="queue_delay_ms,nan,nan,nan,nan,nan,nan"))
    lines.append(OVERLOAD.format(udp="b", counted="tcp", of="a", value="mark_pct,1,1,1,1,1,1"))
    result, classes = compared(tmp_path, TRAFFIC + PAIR + UDP, lines)
    assert result.missing == 1, "UDP in the other class"
    tcp, udp = pairs(result), pairs(result, "udp")
    a, b, source = row(classes, "flows"), row(classes, "flows", 1), row(classes, "udp")
    assert tcp["a", "mark_pct mean"].simulated == pytest.approx(100 * a["mark_share"])
    assert tcp["b", "drop_pct mean"].simulated == pytest.approx(100 * b["drop_share"])
    assert udp["a", "queue_delay_ms p99"].simulated == source["sojourn_p99_ms"]
    assert udp["a", "rate_per_flow_mbit mean"].simulated == source["throughput_mbit"]
    assert tcp["a", "util_pct mean"].simulated == pytest.approx(10 * a["total_throughput_mbit"])
    both = a["total_throughput_mbit"] + b["total_throughput_mbit"]
    assert tcp["all", "util_pct mean"].simulated == pytest.approx(10 * both)
    assert udp["all", "util_pct mean"].simulated == pytest.approx(10 * source["total_throughput_mbit"])
    assert not any(of == "b" for of, _ in udp), "no UDP is in the other class"
    # 2 ms were published
    mean = tcp["a", "queue_delay_ms mean"].simulated
    assert mean == a["sojourn_mean_ms"] > 2
    assert tcp["a", "queue_delay_ms mean"].error == pytest.approx((mean - 2) / 2)
    assert tcp["a", "queue_delay_abs mean"].error == pytest.approx(mean - 2)
    scored = {pair.score.partition(": ")[0] for pair in result.pairs}
    assert scored == {"overload, tcp", "overload, udp"}
    printed = command("validate", tmp_path / "e.duckdb", tmp_path / "classes.csv").stdout
    assert "| 14 in a | tcp" in printed and "| 14 in a | udp" in printed
    assert "overload, tcp: queue delay mean, \\|sim - pub\\| ms" in printed


def test_a_run_without_udp_is_no_overload(tmp_path: Path) -> None:
    result, _ = compared(tmp_path, TRAFFIC + PAIR, rows(OVERLOAD, udp="a", counted="tcp", of="a"))
    assert not result.pairs and result.missing == 9


def test_the_second_class_alone(tmp_path: Path, command: Command) -> None:
    flow = '[[flows]]\ncc = "cubic"\necn = false\nbase_rtt = "20ms"\n'
    lines = rows(ALONE, of="b") + rows(ALONE, of="a")
    lines.append(ALONE.format(of="all", value="util_pct,100,1,1,1,1,1"))
    result, classes = compared(tmp_path, TRAFFIC + flow, lines)
    alone = pairs(result)
    only = row(classes, "flows")
    assert result.missing == 0 and not any(of == "a" for of, _ in alone)
    assert alone["b", "rate_per_flow_mbit mean"].simulated == only["throughput_mbit"]
    assert alone["b", "drop_pct mean"].simulated == pytest.approx(100 * only["drop_share"])
    assert "cubic 10Mbit 20ms pie" in command("validate", tmp_path / "e.duckdb", tmp_path / "classes.csv").stdout
