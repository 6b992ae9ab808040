"""Six questions about L4S, from its experiments."""

from typing import Any

import polars as pl
import polars.selectors as cs

from dumbbell.study import Evidence, Rows, Sweep

from . import drawings, pi2_margins
from .drawings import spread_of
from .rows import DUALPI2, FQ_CODEL, FQ_STEP, HELD, TARGET_MS, make_evidence

__all__ = ["FIGURES", "NAMES", "RUNS", "TABLES", "make_evidence", "make_facts"]

QUESTION = "How does Prague share with other RTTs, bursts and classic flows; would FQ-CoDel do; is DualPI2 stable?"
GALLERY = {
    "questions-any-ect": "l4s-any-ect",
    "questions-burst": "l4s-burst",
    "questions-fq": "l4s-fq-delay",
    "questions-protection": "l4s-protection-delay",
    "questions-rtt-rates": "l4s-rtt-rates",
    "questions-rtt": "l4s-rtt",
    "stability": "l4s-stability",
}
ALSO_DRAWN = {
    "l4s-fq-short": "questions-fq",
    "l4s-margins": "stability",
    "l4s-protection-share": "questions-protection",
    "l4s-rtt-map": "questions-rtt",
}
RUNS = (Sweep("dualpi2.duckdb", ("questions-*", "stability")),)
# constants of the algorithms and formulas; headings
NAMES = (
    *(r"(?:[Uu]p to|[Bb]e(?:yond|low)|in|/) 25 ms", r"not 15\.", r"60 s \(", r"3 Gbit/s", r"15 s\)"),
    *(r"100 ms\. The model omits", r"0\.[67]\b", r"10⁵", r"[12] p'", r"100 (?:CUBIC )?flows", r"Six questions"),
    *(r"burst of 100 short flows", r"The third queue", r"100 kbit/s", r"2 \(1 - [pb]\)", r"1\.33/?p?'?"),
    *(r"0\.75 \(RTT[^)]*\)(?: / 25 ms)?", r"15 ms of queue", r"3 ms of the link", r"step of 1 ms", r"2 s after"),
    *(r"protected 10 %", r"> 25 %", r"above 1/2", r"sqrt\(1\.76 / p\)", r"\b1/(?:W|R|RTT)\b", r"200 ms or more"),
    *(
        r"second half",
        r"20 to 50 % of the target comes from",
        r"1 to 3 ms, and windows",
        r"30 % of its",
        r"√2",
        r"g 0\.80",
    ),
    *(r"\^\(1/3\)", r"below -15°", r"above 20°", r"gain is 1", r"holds 15 ms", r"of two flows"),
)


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return means over seeds, what the model has beside the swings, and formulas of the page."""
    swings = found["swings"].join(found["margins"], on=["rate", "rtt", "flows"], how="left")
    held = swings.filter(pl.col("mean") >= HELD * TARGET_MS)
    reno = {rtt: pi2_margins.compute_link_margins(400e6, rtt / 1e3, 10, "reno") for rtt in (50, 100)}
    second = found["any_ect"].filter(pl.col("class") == 1, pl.col("mask") == "any_ect", pl.col("cc") == "prague")
    windows = second.filter(pl.col("second") == "cubic", pl.col("second_ecn")).group_by("rtt").agg(cs.numeric().mean())
    friendly = (3 / (1 + pi2_margins.CUBIC_KEEPS) / pl.col("marks")).sqrt()
    return {
        "DUALPI2": DUALPI2,
        "FQ_CODEL": FQ_CODEL,
        "FQ_STEP": FQ_STEP,
        "target": TARGET_MS,
        "equal": Rows("equal", found["rtt"].filter(pl.col("rtt") == pl.col("second_rtt"))),
        "held": Rows("held", held),
        "reno_margin": {rtt: margin.phase_deg for rtt, margin in reno.items() if margin},
        "spread_of": spread_of,
        "disjoint": find_disjoint,
        "windows": Rows("windows", windows.with_columns(friendly=friendly).sort("rtt")),
    }


def find_disjoint(rows: Rows) -> list[str]:
    """Return at which equal RTTs the ratios of the seeds of both versions do not overlap."""
    ends = rows.frame.group_by("rtt", "version").agg(low=pl.col("ratio").min(), high=pl.col("ratio").max())
    both = (
        ends.filter(pl.col("version") == "Prague 0.7")
        .join(ends.filter(pl.col("version") == "Prague 0.6"), on="rtt")
        .sort("rtt")
    )
    apart = (pl.col("low") > pl.col("high_right")) | (pl.col("high") < pl.col("low_right"))
    return [f"{value:g}" for value in both.filter(apart)["rtt"]]


FIGURES = {
    "l4s-rtt": drawings.draw_rtt,
    "l4s-rtt-map": drawings.draw_rtt_map,
    "l4s-rtt-rates": drawings.draw_rtt_rates,
    "l4s-burst": drawings.draw_burst,
    "l4s-protection-delay": drawings.draw_protection_delay,
    "l4s-protection-share": drawings.draw_protection_share,
    "l4s-any-ect": drawings.draw_any_ect,
    "l4s-fq-delay": drawings.draw_fq_delay,
    "l4s-fq-short": drawings.draw_fq_short,
    "l4s-stability": drawings.draw_stability,
    "l4s-margins": drawings.draw_phase_margins,
}
TABLES = {
    "rates": drawings.format_rates_table,
    "burst": drawings.format_burst_table,
    "protection": drawings.format_protection_table,
    "any-ect": drawings.format_any_ect_table,
    "fq": drawings.format_fq_table,
    "short": drawings.format_short_table,
    "swings": drawings.format_swing_table,
}
