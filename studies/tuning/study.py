"""Defaults of CoDel, PIE and PI2 against fronts that searches found, and a published tuning."""

import json
from typing import Any

import polars as pl

from dumbbell.experiment import shipped
from dumbbell.study import (
    Evidence,
    Picture,
    Results,
    Rows,
    Sweep,
    align_table,
    count_seeds,
    describe_runs,
    figures,
    list_durations,
    order_names,
)

QUESTION = "How far are the defaults of CoDel, PIE and PI2 from the best parameters, at home and in a datacentre?"
RUNS = (
    Sweep("tuning.duckdb", ("home", "datacentre")),
    Sweep("target.duckdb", ("target",)),
)
QUEUES = ("CoDel", "PIE", "PI2")
NAMES = (
    *(r"150 candidates at home", r"100 for CoDel and 60 each"),
    *(r"RFC 8289", r"section 3\.2", r"twelve cells", r"at 5, 20 and 50 Mbit/s", r"RTTs of 20 and 60 ms"),
    *(r"at 1 and 4 Gbit/s with 100 and 400 µs", r"as \(3 \+ 6 f - f²\) / \(4 \(1 \+ f\)\)", r"a target of 5 to 10 %"),
    *(r"base RTT of 100 ms", r"PI2", r"P95"),
)
_RTT_MS = 100


def compute_goodput(share: float) -> float:
    """Return the part of a link that Reno uses if the queue stays below a share of the RTT: RFC 8289 section 3.2.

    A window between half of (1 + f) BDP and (1 + f) BDP sends r (3 + 6 f - f^2) / (4 (1 + f)) in a round trip of r.
    """
    return (3 + 6 * share - share * share) / (4 * (1 + share))


def collect_cells(results: Results) -> pl.DataFrame:
    """Return one row per run: place, queue, whether its parameters are tuned, its delay and utilisation."""
    keys = {"rate": "bottleneck.rate", "rtt": "flows[0].base_rtt", "flows": "flows[0].count"}
    settings = [json.loads(text)["setting"] for text in results.runs["matrix"]]
    of_runs = results.runs.select("key", setting=pl.Series(settings, dtype=pl.String))
    rows = results.tidy("runs", keys).join(of_runs, on="key")
    words = pl.col("setting").str.split(", ")
    return rows.select(
        "rate",
        "rtt",
        "flows",
        "seed",
        place="experiment",
        queue=words.list.get(0),
        kind=words.list.get(1),
        delay="sojourn_p95_ms",
        use="utilisation",
    ).sort("place", "queue", "kind", "rate", "rtt", "flows", "seed")


def collect_targets(results: Results) -> pl.DataFrame:
    """Return one row per run of one Reno flow: target over RTT, utilisation and mean delay, and RFC 8289's goodput."""
    rows = results.tidy("runs", {"target": "bottleneck.aqm.target"})
    share = pl.col("target") / _RTT_MS
    found = rows.select("seed", share=share, use="utilisation", delay="sojourn_mean_ms")
    rfc = [compute_goodput(one) for one in found["share"]]
    return found.with_columns(rfc=pl.Series(rfc)).sort("share", "seed")


def read_fronts() -> pl.DataFrame:
    """Return the fronts that the searches found, and the defaults in the same runs."""
    return pl.read_csv(shipped.list_studies()["tuning"] / "searches" / "fronts.csv")


def make_evidence(places: Results, targets: Results) -> dict[str, pl.DataFrame]:
    """Return what the page rests on."""
    return {"cells": collect_cells(places), "targets": collect_targets(targets), "fronts": read_fronts()}


def summarise_cells(found: Evidence) -> pl.DataFrame:
    """Return of each place, queue and kind the worst mean over seeds of any cell: delay in ms, and utilisation."""
    means = found["cells"].group_by("place", "queue", "kind", "rate", "rtt", "flows").agg(pl.col("delay", "use").mean())
    worst = means.group_by("place", "queue", "kind").agg(pl.col("delay").max(), pl.col("use").min())
    return worst.sort("place", "queue", "kind")


def compare_kinds(found: Evidence) -> pl.DataFrame:
    """Return one row per place and queue: worst delay and utilisation of defaults and tuned, and how they differ.

    `ratio` is of delays; `gain` and `loss` are of utilisation, in percentage points.
    """
    kinds = [summarise_cells(found).filter(kind=kind).drop("kind") for kind in ("defaults", "tuned")]
    both = kinds[0].join(kinds[1], on=["place", "queue"], suffix="_tuned")
    gain = 100 * (pl.col("use_tuned") - pl.col("use"))
    return both.with_columns(ratio=pl.col("delay") / pl.col("delay_tuned"), gain=gain, loss=-gain)


def average_targets(found: Evidence) -> pl.DataFrame:
    """Return means over seeds at each target, and how far they are from RFC 8289."""
    means = found["targets"].group_by("share", "rfc").agg(pl.col("use", "delay").mean()).sort("share")
    return means.with_columns(off=pl.col("use") - pl.col("rfc"))


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return what the template asks for in addition to the tables."""
    return {
        "kinds": Rows("kinds", compare_kinds(found)),
        "rule": Rows("rule", average_targets(found)),
        "worst": Rows("worst", summarise_cells(found)),
    }


def format_kinds(found: Evidence, place: str) -> str:
    """Return defaults and tuned parameters of a place, with the parameters."""
    fronts = found["fronts"].filter(place=place)
    rows = []
    for row in compare_kinds(found).filter(place=place).iter_rows(named=True):
        own = fronts.filter(queue=row["queue"])
        least = own.filter(kind="default")["use"].item()
        tuned = own.filter(pl.col("kind") == "front", pl.col("use") >= least).sort("delay")["settings"][0]
        rows.append([row["queue"], "defaults", f"{row['delay']:.3g}", f"{100 * row['use']:.1f}"])
        rows.append([row["queue"], tuned, f"{row['delay_tuned']:.3g}", f"{100 * row['use_tuned']:.1f}"])
    return align_table(["queue", "parameters", "P95 of the time in queue, ms", "utilisation, %"], rows, words=(0, 1))


def format_targets(found: Evidence) -> str:
    """Return utilisation and delay by target, next to RFC 8289."""
    rows = [
        [f"{100 * row['share']:.0f}", f"{100 * row['rfc']:.1f}", f"{100 * row['use']:.1f}", f"{row['delay']:.2g}"]
        for row in average_targets(found).iter_rows(named=True)
    ]
    return align_table(["target, % of the RTT", "goodput by RFC 8289, %", "utilisation, %", "mean delay, ms"], rows)


def draw_fronts(found: Evidence, place: str, title: str) -> Picture:
    """Draw the fronts of a place, with the defaults as rings."""
    rows = found["fronts"].filter(place=place)
    is_front = pl.col("kind") == "front"
    drawn = rows.select(
        "queue",
        "delay",
        use=pl.when(is_front).then("use"),
        defaults=pl.when(~is_front).then("use"),
    ).unique(["queue", "delay"], keep="last", maintain_order=True)
    return figures.lines(
        drawn.sort(order_names("queue", QUEUES), "delay"),
        "delay",
        "use",
        by="queue",
        log_x=True,
        reference="defaults",
        reference_name="defaults",
        x_label="P95 of the time in queue in the worst cell, ms",
        y_label="utilisation in the worst cell",
        title=f"{title}\n{describe_runs(rows['seeds'], spread='')}",
    )


def draw_targets(found: Evidence) -> Picture:
    """Draw utilisation by target, next to RFC 8289."""
    rows = average_targets(found)
    return figures.lines(
        rows,
        "share",
        "use",
        reference="rfc",
        reference_name="RFC 8289, section 3.2",
        x_label="target over base RTT",
        y_label="utilisation of one Reno flow",
        title="One Reno flow over CoDel uses the link as RFC 8289 derives\n"
        + describe_runs(count_seeds(found["targets"], "share"), spread="", seconds=list_durations(found, "target")),
    )


TABLES = {
    "home": lambda found: format_kinds(found, "home"),
    "datacentre": lambda found: format_kinds(found, "datacentre"),
    "targets": format_targets,
}
FIGURES = {
    "tuning-home": lambda found: draw_fronts(found, "home", "Fronts at home, and defaults"),
    "tuning-datacentre": lambda found: draw_fronts(found, "datacentre", "Fronts in a datacentre, and defaults"),
    "tuning-target": draw_targets,
}
