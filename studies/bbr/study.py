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
    Series,
    Sweep,
    align_table,
    compute_means,
    count_experiment_seeds,
    describe_runs,
    draw_means,
    figures,
    list_durations,
    make_grid,
    map_names,
    order_names,
)

from . import queues, tables
from .runs import BBR, FIVE, Found, format_percent, format_two_digits

QUESTION = (
    "How do BBRv1, v2, v3 and the draft's BBR share with CUBIC and Reno, by buffer, RTT, number and time of arrival?"
)
GALLERY = {"as-linux-ecn": "bbr-ecn-limit", "share-by-buffer": "bbr-share", "ware-many": "bbr-ware"}
RUNS = (Sweep("bbr.duckdb", ("*",)),)
NAMES = (r"4ce5e87",)
DEPTH = "buffer, BDP"
HALF = "equal shares"


def make_evidence(bbr: Results) -> dict[str, Callable[[], pl.DataFrame]]:
    """Return the page's tables from runs of its experiments."""
    return tables.make_tables(Found(bbr))


# 1


def draw_share(found: Evidence, second: str, *, linux: bool) -> Picture:
    """Draw the share of one BBR flow against one CUBIC or Reno flow over the depth of the buffer."""
    values = compute_means(found["share"].filter(pl.col("second") == second), ["cc", "depth"], "share")
    measured = found["linux"].group_by("cc", "depth").agg(linux=pl.col("share").mean())
    return draw_means(
        values.join(measured, on=["cc", "depth"], how="left").with_columns(order_names("cc", FIVE)),
        "depth",
        "share",
        by="cc",
        log_x=True,
        reference="linux" if linux else None,
        reference_name="Linux",
        x_label=DEPTH,
        y_label="share of the first flow",
        title=f"Share of one flow sharing with one {second} flow\n"
        f"50 Mbit/s, 40 ms, tail drop; {describe_runs(values['n'], seconds=list_durations(found, 'share-by-buffer'))}",
        level=0.5,
        level_name=HALF,
    )


def share_late(found: Evidence) -> Picture:
    """Draw the share against CUBIC in whole runs of 120 s and in the long run."""
    begin = found.made["share-late"]["setup"].get("record.from", [0])[0] / 1e9
    short, long = (max(list_durations(found, name)) for name in ("share-by-buffer", "share-late"))
    spans = {"short": f"first {short:g} s", "long": f"{begin:g} to {long:g} s"}
    early = found["share"].filter(pl.col("second") == "CUBIC", pl.col("cc").is_in(BBR), pl.col("depth") >= 0.5)
    both = pl.concat(
        [
            early.select("cc", "depth", "share", span=pl.lit("short")),
            found["late"].select("cc", "depth", "share", span=pl.lit("long")),
        ]
    )
    values = compute_means(both, ["span", "cc", "depth"], "share")
    return draw_means(
        values.with_columns(order_names("cc", BBR), map_names("span", spans)),
        "depth",
        "share",
        by="cc",
        facet="span",
        log_x=True,
        x_label=DEPTH,
        y_label="share of BBR",
        title="Share of one BBR flow sharing with one CUBIC flow, early and late\n"
        f"50 Mbit/s, 40 ms, tail drop; {describe_runs(values['n'])}",
        level=0.5,
        level_name=HALF,
    )


def share_loss(found: Evidence) -> Picture:
    """Draw the loss in the runs of 120 s."""
    shares = found["share"].with_columns(shown=pl.format("with {}", "second"))
    values = compute_means(shares, ["shown", "cc", "depth"], "loss")
    return draw_means(
        values.with_columns(order_names("cc", FIVE)),
        "depth",
        "loss",
        by="cc",
        facet="shown",
        log_x=True,
        log_y=True,
        x_label=DEPTH,
        y_label="packets dropped, %",
        title="Loss of two flows that share a link\n"
        f"50 Mbit/s, 40 ms, tail drop; {describe_runs(values['n'], seconds=list_durations(found, 'share-by-buffer'))}",
    )


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


def draw_ware(found: Evidence) -> Picture:
    """Draw the share of one BBRv1 flow where its model was validated: simulator, Linux of two sources, model."""
    rows = found["ware_sources"].with_columns(
        shown=pl.format("{}, {} Mbit/s, {} ms", "second", pl.col("rate").cast(pl.Int64), pl.col("rtt").cast(pl.Int64))
    )
    sources = {
        "model": "model of Ware et al.",
        "share": "simulator",
        "sarpkaya": "Linux 5.13 (Sarpkaya et al.)",
        "linux": "Linux 6.12 (ours)",
    }
    long = rows.unpivot(
        list(sources), index=["shown", "bdps", "low", "high"], variable_name="source", value_name="value"
    )
    simulated = pl.col("source") == "share"
    long = long.filter(pl.col("value").is_not_null()).with_columns(
        low=pl.when(simulated).then("low").otherwise("value"), high=pl.when(simulated).then("high").otherwise("value")
    )
    return draw_means(
        long.with_columns(map_names("source", sources)),
        "bdps",
        "value",
        by="source",
        facet="shown",
        log_x=True,
        x_label=DEPTH,
        y_label="share of BBRv1",
        title="Share of one BBRv1 flow where its model was validated\n"
        "Last 400 s (CUBIC) or 200 s (Reno) of 1000 s, tail drop",
        level=0.5,
        level_name=HALF,
    )


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


def draw_rtt(found: Evidence) -> Picture:
    """Draw the share of a flow of 10 ms sharing with one of another RTT."""
    buffers = {62_500: "buffer of 10 ms", 1_250_000: "buffer of 200 ms"}
    values = compute_means(found["rtt"], ["bytes", "cc", "second_rtt"], "share")
    return draw_means(
        values.with_columns(order_names("cc", FIVE), map_names("bytes", buffers)),
        "second_rtt",
        "share",
        by="cc",
        facet="bytes",
        log_x=True,
        x_label="base RTT of the second flow, ms",
        y_label="share of the flow of 10 ms",
        title="Share of a flow of 10 ms sharing with one of the same control and a longer RTT\n"
        f"50 Mbit/s, tail drop; {describe_runs(values['n'])}",
        level=0.5,
        level_name=HALF,
    )


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


def draw_groups(found: Evidence) -> Picture:
    """Draw the share of the group of BBR over the share of the flows that they are."""
    order = {flows: f"{flows} flows" for flows in sorted(found["groups"]["flows"].unique())}
    shares = found["groups"].with_columns(
        of_flows=pl.col("count") / pl.col("flows"),
        shown=pl.format("buffer of {} BDP", pl.col("depth").cast(pl.Int64)),
        all=map_names("flows", order),
    )
    values = compute_means(shares, ["shown", "cc", "all", "of_flows"], "share")
    picture = draw_means(
        values.with_columns(order_names("cc", BBR)),
        "of_flows",
        "share",
        by="all",
        facet="shown",
        columns="cc",
        log_x=False,
        x_label="share of the flows that are BBR, the others CUBIC",
        y_label="share of the link",
        title="Share of a group of BBR flows among CUBIC flows\n"
        f"100 Mbit/s, 40 ms, tail drop; {describe_runs(values['n'], seconds=list_durations(found, 'groups'))}",
    )
    for axes in picture.panels.values():
        axes.plot([0, 1], [0, 1], color="0.45", linewidth=0.9, linestyle="--", label="_equal")
    return picture.arrange()


def draw_one_of_many(found: Evidence) -> Picture:
    """Draw the share of a single BBR flow over the number of CUBIC flows, and how often a fair share that is."""
    single = (
        found["groups"]
        .filter(pl.col("count") == 1)
        .with_columns(others=pl.col("flows") - 1, shown=pl.format("buffer of {} BDP", pl.col("depth").cast(pl.Int64)))
    )
    measures = {"share": "share of the link", "times": "share, times a fair share"}
    long = single.with_columns(times=pl.col("share") * pl.col("flows")).unpivot(
        ["share", "times"], index=["shown", "cc", "others", "seed"], variable_name="measure", value_name="value"
    )
    pictured = compute_means(long, ["measure", "shown", "cc", "others"], "value").with_columns(
        order_names("cc", BBR), map_names("measure", measures)
    )
    return draw_means(
        pictured,
        "others",
        "value",
        by="cc",
        facet="shown",
        each="measure",
        log_x=True,
        log_y=True,
        x_label="CUBIC flows",
        title="One BBR flow among several CUBIC flows\n"
        f"100 Mbit/s, 40 ms, tail drop; {describe_runs(pictured['n'], seconds=list_durations(found, 'groups'))}",
    )


# 4

AMONG = {"like": "among 4 of its kind", "cubic": "among 4 CUBIC", "bbr": "CUBIC among 4 of BBR"}


def draw_latecomer(found: Evidence) -> Picture:
    """Draw what a flow that comes late gets over time."""
    late = found["latecomer"].with_columns(
        map_names("kind", AMONG),
        order_names("cc", FIVE),
        shown=pl.format("buffer of {} BDP", pl.col("depth").cast(pl.Int64)),
    )
    return draw_means(
        late,
        "time",
        "fair",
        by="cc",
        facet="shown",
        columns="kind",
        log_x=False,
        x_label="time since its start, s",
        y_label="goodput over a fifth of the link",
        title="Goodput of a flow that comes 10 to 30 s late\n"
        f"50 Mbit/s, 40 ms, tail drop; means of 5 s; {describe_runs(count_experiment_seeds(found, 'latecomer'))}",
        level=1,
        level_name="fair",
    )


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

NO_LOSS = 1e-3  # %; below it the axis is linear, so that no loss has a place


def draw_shallow(found: Evidence) -> Picture:
    """Draw the loss rate over the depth of the buffer; runs without loss count as 0."""
    counts = {count: f"{count} flow{'s' * (count > 1)}" for count in sorted(found["shallow"]["count"].unique())}
    begin = found.made["shallow"]["setup"].get("record.from", [0])[0] / 1e9
    end = max(list_durations(found, "shallow"))
    values = compute_means(found["shallow"], ["count", "cc", "depth"], "loss").with_columns(
        order_names("cc", FIVE), map_names("count", counts)
    )
    picture = draw_means(
        values,
        "depth",
        "loss",
        by="cc",
        facet="count",
        columns=4,
        log_x=True,
        x_label=DEPTH,
        y_label="packets dropped, %",
        title="Loss in shallow buffers, all flows of one control\n"
        f"50 Mbit/s, 40 ms, tail drop; {describe_runs(values['n'])} from {begin:g} to {end:g} s",
    )
    ticks = [0, 1e-3, 1e-2, 1e-1, 1, 10]
    for axes in picture.panels.values():
        axes.set_yscale("symlog", linthresh=NO_LOSS, linscale=0.5)
        axes.set_ylim(-1e-4, 40)
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    return picture.arrange()


def format_shallow_table(found: Evidence) -> str:
    """Return loss and utilisation in shallow buffers."""
    some = found["shallow"].filter(pl.col("depth").is_in([0.05, 0.2, 0.5, 1, 2]))

    def format_cell(row: dict[str, Any]) -> str:
        return f"{format_two_digits(row['loss'])}; {100 * row['utilisation']:.1f}"

    values = compute_means(some, ["count", "depth", "cc"], "loss", "utilisation")
    return align_table(["flows", "BDP", *FIVE], make_grid(values, ["count", "depth"], "cc", FIVE, format_cell))


# 6

POLICED = [*FIVE, "Reno"]


def draw_policer(found: Evidence) -> Picture:
    """Draw goodput and retransmissions of a flow through a policer over the depth of the bucket."""
    measures = {"goodput_mbit": "goodput, Mbit/s", "lost": "retransmissions, % of packets"}
    long = found["policer"].unpivot(
        list(measures), index=["cc", "bucket", "seed"], variable_name="measure", value_name="value"
    )
    frame = compute_means(long, ["measure", "cc", "bucket"], "value").with_columns(
        order_names("cc", POLICED), map_names("measure", measures)
    )
    return draw_means(
        frame,
        "bucket",
        "value",
        by="cc",
        each="measure",
        log_x=True,
        x_label="depth of the bucket, kB",
        title="One flow through a policer of 10 Mbit/s\n"
        f"40 ms; {describe_runs(frame['n'], seconds=list_durations(found, 'policer'))}",
    )


def draw_policer_time(found: Evidence) -> Picture:
    """Draw what BBRv1 and v3 believe and lose behind a policer over time."""
    estimates = {"max_bw_mbit": "maximum of the filter", "bw_mbit": "estimate in use"}
    believed = found["policer_believed"].unpivot(
        list(estimates), index=["cc", "time"], variable_name="what", value_name="bandwidth"
    )
    return figures.stacked_series(
        [
            Series(believed.with_columns(map_names("what", estimates)), "bandwidth", "what", "estimate, Mbit/s"),
            Series(found["policer_lost"], "lost", None, "loss in 0.5 s, %", counts=True),
        ],
        x="time",
        columns="cc",
        x_label="time, s",
        title="What BBRv1 and v3 believe and lose behind a policer\n10 Mbit/s, bucket of 50 kB, 40 ms; one run each",
    )


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
    "bbr-share": partial(draw_share, second="CUBIC", linux=True),
    "bbr-share-late": share_late,
    "bbr-share-reno": partial(draw_share, second="Reno", linux=False),
    "bbr-share-loss": share_loss,
    "bbr-ware": draw_ware,
    "bbr-rtt": draw_rtt,
    "bbr-groups": draw_groups,
    "bbr-one-of-many": draw_one_of_many,
    "bbr-latecomer": draw_latecomer,
    "bbr-shallow": draw_shallow,
    "bbr-policer": draw_policer,
    "bbr-policer-time": draw_policer_time,
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
