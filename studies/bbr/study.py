"""README.md: what BBR does to others."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl

from dumbbell.study import (
    Evidence,
    Picture,
    Results,
    Rows,
    Sweep,
    align_table,
    compute_means,
    make_grid,
    map_names,
    order_names,
)

from . import pictures, queues, tables
from .runs import BBR, FIVE, Found, format_percent, format_two_digits

QUESTION = (
    "How do BBRv1, v2, v3 and the draft's BBR share with CUBIC and Reno, by buffer, RTT, number and time of arrival?"
)
GALLERY = {"as-linux-ecn": "bbr-ecn-limit", "share-by-buffer": "bbr-share", "ware-many": "bbr-ware"}
ALSO_DRAWN = {
    "bbr-one-of-many": "groups",
    "bbr-policer-time": "policer",
    "bbr-share-loss": "share-by-buffer",
    "bbr-share-reno": "share-by-buffer",
    "bbr-thin-flow": "fair-queue",
}
RUNS = (Sweep("bbr.duckdb", ("*",)),)
NAMES = (r"4ce5e87",)
DEPTH = "buffer, BDP"
HALF = "equal shares"


def make_evidence(bbr: Results) -> dict[str, Callable[[], pl.DataFrame]]:
    """Return the page's tables from runs of its experiments."""
    return tables.make_tables(Found(bbr))


# 1


def share_table(found: Evidence) -> str:
    """Return the shares against CUBIC and against Reno."""
    values = compute_means(found["share"], ["second", "depth", "cc"], "share")
    rows = make_grid(values, ["second", "depth"], "cc", FIVE, lambda row: format_percent(row, "share"))
    return align_table(["sharing with", "BDP", *FIVE], rows)


def format_linux_table(found: Evidence) -> str:
    """Return shares and loss of the runs of 120 s next to those measured on Linux."""
    runs = found["share"].filter(pl.col("second") == "CUBIC")
    values = compute_means(runs, ["cc", "depth"], "share", "loss")
    rows = []
    for (cc, depth), part in (
        found["linux"].sort("cc", "depth", "stagger").group_by(["cc", "depth"], maintain_order=True)
    ):
        row = values.filter(pl.col("cc") == cc, pl.col("depth") == depth).row(0, named=True)
        measured = ", ".join(f"{100 * one:.0f}" for one in part["share"])
        losses = f"{sum(part['loss']) / len(part):.2f}"
        rows.append([str(cc), f"{depth:g}", format_percent(row, "share"), measured, f"{row['loss']:.2f}", losses])
    return align_table(["", "BDP", "share, %", "Linux", "dropped, %", "Linux"], rows)


def format_mechanisms_table(found: Evidence) -> str:
    """Return the shares with single parameters changed, and how long a flow probes upwards."""
    values = compute_means(
        found["mechanisms"].with_columns(order_names("cc", BBR)), ["cc", "changed", "depth"], "share", "up"
    )
    values = values.sort("cc", pl.col("changed") != "as it is", maintain_order=True)
    depths = sorted(values["depth"].unique())
    shares = make_grid(values, ["cc", "changed"], "depth", depths, lambda row: format_percent(row, "share"))
    rows = [[*row, f"{100 * up:.0f}"] for row, up in zip(shares, values.filter(depth=1.0)["up"], strict=True)]
    header = ["", "changed", *(f"share at {depth:g} BDP, %" for depth in depths), "time in UP at 1 BDP, %"]
    return align_table(header, rows, words=(0, 1))


def format_ware_table(found: Evidence) -> str:
    """Return the share of one BBRv1 flow by model, simulator and Linux."""
    rows = []
    for row in found["ware_sources"].iter_rows(named=True):
        own = "-" if row["linux"] is None else f"{100 * row['linux']:.0f}"
        rows.append(
            [
                row["second"],
                f"{row['rate']:g}; {row['rtt']:g}",
                f"{row['bdps']:g}",
                f"{100 * row['model']:.0f}",
                format_percent(row, "share"),
                f"{100 * row['sarpkaya']:.0f}",
                own,
            ]
        )
    return align_table(
        ["sharing with", "Mbit/s; ms", "BDP", "model", "simulator", "Linux 5.13", "Linux 6.12"], rows, words=(0, 1)
    )


# 2


def format_rtt_table(found: Evidence) -> str:
    """Return the second flow's goodput over the first's, time in queue and loss."""
    buffers = map_names("bytes", {62_500: "10 ms", 1_250_000: "200 ms"})
    values = compute_means(
        found["rtt"].with_columns(buffers), ["bytes", "second_rtt", "cc"], "share", "sojourn", "loss"
    )

    def format_cell(row: dict[str, Any]) -> str:
        ratio, loss = format_two_digits(1 / row["share"] - 1), format_two_digits(row["loss"])
        return f"{ratio}; {row['sojourn']:.0f} ms; {loss} %"

    return align_table(
        ["buffer", "RTT, ms", *FIVE], make_grid(values, ["bytes", "second_rtt"], "cc", FIVE, format_cell)
    )


# 3


# 4

AMONG = {"like": "among 4 of its kind", "cubic": "among 4 CUBIC", "bbr": "CUBIC among 4 of BBR"}


def format_latecomer_table(found: Evidence) -> str:
    """Return how soon the late flow has four fifths of its fair share over 5 s, and what it has from 50 to 60 s."""
    kinds = found["latecomers"].with_columns(map_names("kind", AMONG)).group_by("depth", "kind", "cc")
    reached = pl.col("reached").cast(pl.Float64)
    values = kinds.agg(
        reached=reached.fill_null(math.inf).median(), count=reached.count(), n=pl.len(), end=pl.col("end").mean()
    ).sort("depth", "kind")
    rows = make_grid(values, ["depth", "kind"], "cc", FIVE, _format_reached, missing="")
    return align_table(["BDP", "", *FIVE], rows, words=(0, 1))


def _format_reached(row: dict[str, Any]) -> str:
    time = f"{row['reached']:.0f} s" if math.isfinite(row["reached"]) else "never"
    some = "" if row["count"] in (0, row["n"]) else f" ({row['count']} of {row['n']})"
    return f"{time}{some}; {row['end']:.2f}"


# 5


def format_shallow_table(found: Evidence) -> str:
    """Return loss and utilisation in shallow buffers."""
    some = found["shallow"].filter(pl.col("depth").is_in([0.05, 0.2, 0.5, 1, 2]))

    def format_cell(row: dict[str, Any]) -> str:
        return f"{format_two_digits(row['loss'])}; {100 * row['utilisation']:.1f}"

    values = compute_means(some, ["count", "depth", "cc"], "loss", "utilisation")
    return align_table(["flows", "BDP", *FIVE], make_grid(values, ["count", "depth"], "cc", FIVE, format_cell))


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return means over seeds by cell for the template, with `low` and `high`, and how far the model is off."""

    def compute_cell_means(table: str, by: tuple[str, ...], value: str) -> Rows:
        rows = found.select_table(table)
        return rows.group(*by, mean=(value, "mean"), low=(value, "min"), high=(value, "max"))

    sources = found["ware_sources"].with_columns(
        off=pl.col("model") - pl.col("share"),
        off_linux=pl.col("model") - pl.col("sarpkaya"),
        to_linux=(pl.col("share") - pl.col("sarpkaya")).abs(),
        to_own=(pl.col("share") - pl.col("linux")).abs(),
    )
    cells = (
        found["ware"]
        .group_by("second", "rate", "count", "bdps", maintain_order=True)
        .agg(pl.col("share").mean(), pl.col("model").first(), pl.col("fill").mean(), pl.col("window_used").mean())
    )
    cells = cells.with_columns(
        off=pl.col("model") - pl.col("share"), relative=(pl.col("model") / pl.col("share") - 1).abs()
    )
    seeds = (
        found["share"]
        .filter(second="CUBIC")
        .group_by("cc", "depth")
        .agg(mean=pl.col("share").mean(), low=pl.col("share").min(), high=pl.col("share").max())
    )
    on_linux = found["linux"].join(seeds, on=["cc", "depth"]).sort("cc", "depth", "stagger")
    beyond = pl.max_horizontal(pl.col("low") - pl.col("share"), pl.col("share") - pl.col("high"), 0.0)
    aside = found.select_table("as_linux").group(
        "kind", "cc", "rtt", "linux", mean=("value", "mean"), low=("value", "min"), high=("value", "max")
    )
    return {
        "shares": compute_cell_means("share", ("cc", "second", "depth"), "share"),
        "losses": compute_cell_means("share", ("cc", "second", "depth"), "loss"),
        "lates": compute_cell_means("late", ("cc", "depth"), "share"),
        "changes": compute_cell_means("mechanisms", ("cc", "changed", "depth"), "share"),
        "changed_losses": compute_cell_means("mechanisms", ("cc", "changed", "depth"), "loss"),
        "model": Rows("model", sources),
        "cells": Rows("cells", cells),
        "on_linux": Rows("on_linux", on_linux.with_columns(outside=beyond)),
        "rtts": compute_cell_means("rtt", ("cc", "bytes", "second_rtt"), "share"),
        "rtt_losses": compute_cell_means("rtt", ("cc", "bytes", "second_rtt"), "loss"),
        "grouped": Rows(
            "grouped",
            found["groups"]
            .group_by("cc", "depth", "count", "flows", maintain_order=True)
            .agg(mean=pl.col("share").mean(), times=(pl.col("share") * pl.col("flows") / pl.col("count")).mean()),
        ),
        "lost": compute_cell_means("shallow", ("cc", "count", "depth"), "loss"),
        "used": compute_cell_means("shallow", ("cc", "count", "depth"), "utilisation"),
        "ended": compute_cell_means("latecomers", ("depth", "kind", "cc"), "end"),
        "policed": compute_cell_means("policer", ("cc", "bucket"), "goodput_mbit"),
        "resent": compute_cell_means("policer", ("cc", "bucket"), "lost"),
        "queued": compute_cell_means("fair_queue", ("second", "ecn", "cc", "queue"), "own_mean"),
        "fair": compute_cell_means("fair_queue", ("second", "ecn", "cc", "queue"), "share"),
        "others": compute_cell_means("fair_queue", ("second", "ecn", "cc", "queue"), "other_mean"),
        "thin": compute_cell_means("fair_queue", ("second", "ecn", "cc", "queue"), "thin_p99"),
        "steps": compute_cell_means("ecn", ("version", "count", "rtt"), "sojourn"),
        "marks": compute_cell_means("ecn", ("version", "count", "rtt"), "mark_share"),
        "aside": aside,
        "short": found.select_table("short_path").group(
            "cc",
            "rtt",
            cwnd=("cwnd", "mean"),
            twice_bdp=("twice_bdp", "mean"),
            bursts=("bursts", "mean"),
            limited=("limited", "mean"),
        ),
        "gigabits": found.select_table("gigabit").group(
            "source", "limited", "threshold", share=("share", "mean"), min_rtt=("min_rtt", "median")
        ),
        "seeds": lambda experiment: len(found.made[experiment]["seeds"]),
        "percents_of": lambda values: [f"{100 * one:.0f} %" for one in values],
        "three": compute_cell_means("dualpi2", ("mask", "rtt", "version", "role"), "goodput_mbit"),
        "delays": compute_cell_means("dualpi2", ("mask", "rtt", "version", "role"), "queue_ms"),
        "answered": compute_cell_means("answers", ("version", "changed", "role"), "goodput_mbit"),
    }


FIGURES: dict[str, Callable[[Evidence], Picture]] = {
    "bbr-share": partial(pictures.draw_share, second="CUBIC", linux=True),
    "bbr-share-late": pictures.draw_share_late,
    "bbr-share-reno": partial(pictures.draw_share, second="Reno", linux=False),
    "bbr-share-loss": pictures.draw_share_loss,
    "bbr-ware": pictures.draw_ware,
    "bbr-rtt": pictures.draw_rtt,
    "bbr-groups": pictures.draw_groups,
    "bbr-one-of-many": pictures.draw_one_of_many,
    "bbr-latecomer": pictures.draw_latecomer,
    "bbr-shallow": pictures.draw_shallow,
    "bbr-policer": pictures.draw_policer,
    "bbr-policer-time": pictures.draw_policer_time,
    "bbr-fair-queue": queues.draw_fair_queue,
    "bbr-thin-flow": queues.thin_flow,
    "bbr-ecn-limit": queues.draw_ecn_limit,
    "bbr-dualpi2": queues.draw_dualpi2,
}
TABLES: dict[str, Callable[[Evidence], str]] = {
    "share": share_table,
    "linux": format_linux_table,
    "mechanisms": format_mechanisms_table,
    "ware": format_ware_table,
    "rtt": format_rtt_table,
    "latecomer": format_latecomer_table,
    "shallow": format_shallow_table,
    "fair-queue": queues.format_fair_queue_table,
    "ecn": queues.format_ecn_table,
    "as-linux": queues.format_linux_table,
    "dualpi2": queues.format_dualpi2_table,
    "answers": queues.format_answers_table,
}
