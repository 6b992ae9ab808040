"""What the page rests on. Change it to your question; `dumbbell study` with the folder's path runs this file."""

from typing import Any

import polars as pl

from dumbbell.study import Evidence, Picture, Results, Sweep, align_table, figures

RUNS = (Sweep("results.duckdb", ("shares",), quick=("seeds=[1,2]", "duration=20s")),)


def runs(results: Results) -> pl.DataFrame:
    """Return one row per run: what distinguishes it, CUBIC's share of the goodput, and the utilisation of the link."""
    rows = results.tidy("flows").rename(
        {"bottleneck.aqm": "aqm", "flows[*].base_rtt_ms": "rtt", "bottleneck.rate_mbit": "rate"}, strict=False
    )
    goodput = pl.col("goodput_mbit")
    cubic = goodput.filter(pl.col("cc") == "cubic").sum()
    cells = rows.group_by("aqm", "rtt", "seed")
    return cells.agg(share=cubic / goodput.sum(), goodput=goodput.sum()).sort("aqm", "rtt", "seed")


def make_evidence(results: Results) -> dict[str, pl.DataFrame]:
    """Return the small tables that are kept next to the page."""
    return {"runs": runs(results)}


def make_facts(_: Evidence) -> dict[str, Any]:
    """Return what else the page may name."""
    return {"low": 0.45, "high": 0.55}  # shares between them are called fair


def _collect_cells(found: Evidence) -> pl.DataFrame:
    """Return mean and min-max of the share per cell, in percent."""
    share = pl.col("share") * 100
    cells = found["runs"].group_by("aqm", "rtt", maintain_order=True)
    return cells.agg(share=share.mean(), low=share.min(), high=share.max())


def format_shares(found: Evidence) -> str:
    """Return a Markdown table."""
    head = ["queue", "RTT, ms", "CUBIC's share, %", "min-max"]
    rows = [
        [row["aqm"], f"{row['rtt']:g}", f"{row['share']:.0f}", f"{row['low']:.0f} to {row['high']:.0f}"]
        for row in _collect_cells(found).iter_rows(named=True)
    ]
    return align_table(head, rows)


def draw_shares(found: Evidence) -> Picture:
    """Return the figure."""
    return figures.bars(
        _collect_cells(found).with_columns(pl.format("{} ms", pl.col("rtt").cast(pl.Int64)).alias("rtt")),
        "aqm",
        "share",
        low="low",
        high="high",
        group="rtt",
        x_label="",
        y_label="CUBIC's share, %",
        title="CUBIC against Reno\nmean and min-max of the seeds",
    )


TABLES = {"shares": format_shares}
FIGURES = {"shares": draw_shares}
