"""Which queue for an access link: uploads, downloads and pings; and what traffic both ways does to CoDel and PIE."""

from collections.abc import Callable
from math import ceil
from typing import Any

import polars as pl

from dumbbell.study import Evidence, Picture, Results, Series, Sweep, align_table, describe_runs, figures, order_names

from . import flent

TRAFFIC = {
    "downloads": "4 down",
    "one-download": "1 down",
    "uploads": "4 up",
    "one-each": "1 down, 1 up",
    "rrul": "4 down, 4 up",
    "evening": "1 down, 1 up, web, call",
}
QUESTION = "What do uploads, downloads and both do to pings and calls; why does traffic both ways hurt CoDel and PIE?"
GALLERY = {"rrul": "home-pings", "two-way": "two-way-queues"}
RUNS = (
    Sweep("home.duckdb", tuple(TRAFFIC)),
    Sweep("two-way.duckdb", ("two-way",)),
    Sweep("flent.duckdb", ("flent-110-10", "flent-ack-filter")),
)
QUEUES = {
    "pfifo": "pfifo, 1000 packets",
    "codel": "CoDel",
    "pie": "PIE",
    "dualpi2": "DualPI2",
    "fq_codel": "FQ-CoDel",
    "cake": "Cake",
    "cake on": "Cake, ACK filter",
}
# headings, links by their rates, and the set-up of the experiments
NAMES = (
    *(r"\b(?:20/5|50/10|100/2)\b", r"98 B, ten per second", r"from 10 s on", r"base RTT of 40 ms"),
    *(r"9 kB on average, ten per second", r"64 kbit/s each way", r"10 Mbit/s each way, with one CUBIC flow"),
    *(r"[Ff]our flows each way", r"two queues of CoDel", r"second and a half", r"four classes", r"April 2016"),
    *(r"November 2017", r"three machines", r"three digits", r"1/64 of the value"),
)
_INTERVAL_MS = 100  # CoDel's
_TARGET_MS = 5
_POINT_MS = 10  # of the time series
_SHOWN_S = (30.0, 31.5)


def _describe_runs(results: Results) -> pl.DataFrame:
    """Return for each run its link, traffic, queue and seed."""
    keys = {"rate": "bottleneck.rate", "back": "reverse.rate", "rtt": "flows[0].base_rtt"}
    keys |= {"aqm": "bottleneck.aqm.name", "ack_filter": "bottleneck.aqm.ack_filter", "second": "flows[1].cc.name"}
    runs = results.tidy("runs", keys)
    return runs.select(
        "key",
        "rate",
        "rtt",
        "seed",
        link=pl.format("{}/{}", *(pl.col(name).cast(pl.Int64) for name in ("rate", "back"))),
        traffic=pl.col("experiment").replace(TRAFFIC),
        ways=1 + pl.col("second").is_not_null().cast(pl.Int64),
        queue=pl.format("{}{}", "aqm", pl.when(ack_filter="on").then(pl.lit(" on")).otherwise(pl.lit(""))).replace(
            QUEUES
        ),
    )


def collect_cells(results: Results) -> pl.DataFrame:
    """Return one row per run: goodput each way in Mbit/s, P50 and P99 of the pings' RTT, their losses, ACKs dropped."""
    flows = results.flows
    bulk = ~pl.col("cc").is_in(["ping", "udp"])

    def select_goodput(way: str) -> pl.Expr:
        return pl.col("goodput_mbit").filter(bulk & (pl.col("direction") == way)).sum()

    ping = (pl.col("cc") == "ping") & (pl.col("packets") > 0)
    of_runs = flows.group_by("key").agg(
        down=select_goodput("down"),
        up=select_goodput("up"),
        rtt=pl.col("rtt_mean_ms").filter(bulk).mean(),
        ping_p50=pl.col("rtt_p50_ms").filter(ping).mean(),
        ping_p99=pl.col("rtt_p99_ms").filter(ping).max(),
        # those under way when counting begins come back after it
        lost=(1 - pl.col("answers").filter(ping).sum() / pl.col("sent").filter(ping).sum()).clip(0.0, 1.0),
    )
    back = results.hops.filter(pl.col("hop") == "reverse")
    acks = pl.col("ack_drops") / (pl.col("ack_packets") + pl.col("ack_drops"))
    of_runs = of_runs.join(back.select("key", acks_dropped=acks), on="key")
    web = results.short_flows.group_by("key").agg(web_p95=pl.col("completion_s").drop_nans().quantile(0.95))
    rows = _describe_runs(results).join(of_runs, on="key").join(web, on="key", how="left")
    return rows.drop("key", "ways", "rtt_right", strict=False).sort("rate", "traffic", "queue", "seed")


def collect_two_way(results: Results) -> pl.DataFrame:
    """Return one row per run: RTT and goodput of the flow down, and how its queue swings.

    `least` and `most` are means over CoDel's intervals of the least and the most delay in each; `stretch` is the median
    of how long the delay stays above 5 ms, `short` the share of these stretches that are shorter than an interval;
    `neither` is the share of points at which both queues are empty.
    """
    hops = results.hop_series.filter(pl.col("time_s") > 10)
    wide = hops.pivot("hop", index=["key", "time_s"], values=["backlog_packets", "sojourn_mean_ms"]).sort(
        "key", "time_s"
    )
    empty = {way: pl.col(f"backlog_packets_{way}") == 0 for way in ("bottleneck", "reverse")}
    delay = pl.col("sojourn_mean_ms_bottleneck")
    points = wide.group_by("key").agg(
        empty=empty["bottleneck"].mean(),
        neither=(empty["bottleneck"] & empty["reverse"]).mean(),
        delay_p95=delay.quantile(0.95),
    )
    window = (pl.col("time_s") * 1000 / _INTERVAL_MS).ceil()
    swings = wide.group_by("key", window).agg(least=delay.min(), most=delay.max()).group_by("key")
    points = points.join(swings.agg(pl.col("least", "most").mean()), on="key")
    runs = wide.with_columns(above=delay > _TARGET_MS).with_columns(part=pl.col("above").rle_id().over("key"))
    stretches = runs.filter("above").group_by("key", "part").agg(length=pl.len() * _POINT_MS)
    of_stretches = stretches.group_by("key").agg(
        stretch=pl.col("length").median(), short=(pl.col("length") < _INTERVAL_MS).mean()
    )
    down = results.flows.filter(pl.col("direction") == "down")
    of_flows = down.select("key", rtt_ms="rtt_mean_ms", goodput="goodput_mbit", signals=pl.col("drops"))
    rows = (
        _describe_runs(results).join(of_flows, on="key").join(points, on="key").join(of_stretches, on="key", how="left")
    )
    return rows.select(
        "queue", "rtt", "ways", "seed", "rtt_ms", "goodput", "signals", "empty", "neither",
        "delay_p95", "least", "most", "stretch", "short",
    ).sort("queue", "rtt", "ways", "seed")  # fmt: skip


def collect_swing(results: Results) -> pl.DataFrame:
    """Return a second and a half of the two queues of CoDel at 20 ms with a flow each way."""
    runs = _describe_runs(results).filter(queue="CoDel", rtt=20.0, ways=2, seed=1)
    first, last = _SHOWN_S
    series: pl.DataFrame = results.hop_series
    rows = series.join(runs, on="key").filter(pl.col("time_s").is_between(first, last))
    return rows.select("time_s", "hop", "backlog_packets", "sojourn_mean_ms").sort("time_s", "hop")


def make_evidence(home: Results, both: Results, rrul: Results) -> dict[str, Callable[[], pl.DataFrame]]:
    """Return what the page rests on."""
    return {
        "cells": lambda: collect_cells(home),
        "two": lambda: collect_two_way(both),
        "swing": lambda: collect_swing(both),
        "flent": lambda: flent.make_evidence(rrul),
    }


def make_facts(_: Evidence) -> dict[str, Any]:
    """Return what else the template may name."""
    return {
        "late": flent.LATE_S,
        "interval": _INTERVAL_MS,
        "target": _TARGET_MS,
        "fair": [QUEUES[name] for name in ("fq_codel", "cake", "cake on")],
        "single": [QUEUES[name] for name in ("codel", "pie", "dualpi2")],
        "fifo": QUEUES["pfifo"],
        "cakes": [QUEUES[name] for name in ("cake", "cake on")],
    }


def _compute_means(found: Evidence, *by: str) -> pl.DataFrame:
    values = ("down", "up", "ping_p50", "ping_p99", "lost", "acks_dropped", "web_p95")
    return found["cells"].group_by(*by, maintain_order=True).agg(pl.col(*values).mean())


def _format_table(found: Evidence, traffic: str) -> str:
    rows = []
    means = {(r["link"], r["queue"]): r for r in _compute_means(found, "traffic", "link", "queue").iter_rows(named=True)
             if r["traffic"] == traffic}  # fmt: skip
    for link in dict.fromkeys(link for link, _ in means):
        for queue in QUEUES.values():
            r = means[link, queue]
            shown = [f"{r['down']:.1f}", f"{r['up']:.2f}", f"{r['ping_p50']:.0f}", f"{r['ping_p99']:.0f}"]
            shown += [f"{100 * r['lost']:.1f}", f"{100 * r['acks_dropped']:.0f}"]
            rows.append([link, queue, *shown] + ([f"{r['web_p95']:.2f}"] if traffic == TRAFFIC["evening"] else []))
    head = ["link, Mbit/s", "queue", "down, Mbit/s", "up, Mbit/s", "ping P50, ms", "ping P99, ms", "pings lost, %"]
    head += ["ACKs dropped on the way up, %"]
    if traffic == TRAFFIC["evening"]:
        head = [name.replace("ping P", "call P").replace("pings", "call") for name in head] + ["short flows P95, s"]
    return align_table(head, rows, words=(0, 1))


def format_two_table(found: Evidence) -> str:
    """Return RTT, goodput and how the queue swings, one way and both ways."""
    means = found["two"].group_by("queue", "rtt", "ways", maintain_order=True).agg(pl.exclude("seed").mean())
    rows = []
    for r in means.sort("rtt", "ways", maintain_order=True).iter_rows(named=True):
        stretch = ["-", "-"] if r["stretch"] is None else [f"{r['stretch']:.0f}", f"{100 * r['short']:.0f}"]
        shown = [f"{r['rtt_ms']:.1f}", f"{r['goodput']:.2f}", f"{r['least']:.1f}", f"{r['most']:.1f}"]
        shown += [f"{r['delay_p95']:.1f}", f"{100 * r['empty']:.0f}"]
        neither = [f"{100 * r['neither']:.1f}" if r["ways"] == 2 else "-"]
        rows.append([r["queue"], f"{r['rtt']:g}", ["one", "both"][r["ways"] - 1], *shown, *neither, *stretch])
    head = [
        "queue",
        "base RTT, ms",
        "ways",
        "RTT, ms",
        "goodput down, Mbit/s",
        "least delay",
        "most delay, ms",
        "P95, ms",
        "queue empty, %",
    ]
    head += ["both empty, %", "above 5 ms, median, ms", f"of these under {_INTERVAL_MS} ms, %"]
    return align_table(head, rows, words=(0, 2))


def draw_pings(found: Evidence) -> Picture:
    """Draw P99 of the pings' RTT by queue and link, by traffic."""
    shown = {TRAFFIC["downloads"]: "4 downloads", TRAFFIC["uploads"]: "4 uploads", TRAFFIC["rrul"]: "4 of each"}
    means = found["cells"].filter(pl.col("traffic").is_in([*shown])).group_by("traffic", "link", "queue").agg(
        ping=pl.col("ping_p99").mean(), low=pl.col("ping_p99").min(), high=pl.col("ping_p99").max(),
        rate=pl.col("rate").first(), n=pl.col("ping_p99").count(),
    )  # fmt: skip
    links = means.sort("rate")["link"].unique(maintain_order=True).to_list()
    frame = means.with_columns(
        order_names("queue", QUEUES.values()),
        traffic=pl.col("traffic").replace_strict(shown, return_dtype=pl.Enum([*shown.values()])),
        link=pl.format("{} Mbit/s", "link").cast(pl.Enum([f"{link} Mbit/s" for link in links])),
        text=pl.col("ping").round_sig_figs(2).round().cast(pl.Int64),
    ).sort("traffic", "link", "queue")
    fifo = frame.filter(queue=QUEUES["pfifo"])["ping"].to_list()
    apart = frame.filter(pl.col("queue").is_in([QUEUES[name] for name in ("fq_codel", "cake", "cake on")]))[
        "ping"
    ].to_list()
    picture = figures.dots(
        frame,
        "queue",
        "ping",
        low="low",
        high="high",
        by="link",
        text="text",
        facet="traffic",
        columns=3,
        log_x=True,
        x_label="RTT of pings, 99th percentile, ms",
        title=f"Pings take up to {max(fifo) / 1000:.1f} s over a long FIFO, and at most {ceil(max(apart))} ms with "
        f"a queue for each flow\nCUBIC flows, base RTT 40 ms; {describe_runs(frame['n'], what='seed')}; rates down/up",
    )
    picture.draw_limit(40.0, "base RTT")
    return picture.arrange()


def draw_queues(found: Evidence) -> Picture:
    """Draw the two queues of CoDel over time with a flow each way."""
    names = {"bottleneck": "down", "reverse": "up"}
    shown = found["swing"].with_columns(way=pl.col("hop").replace_strict(names, return_dtype=pl.String))
    return figures.stacked_series(
        [
            Series(shown, "backlog_packets", "way", "packets in queue"),
            Series(shown, "sojourn_mean_ms", "way", "time in queue, ms", levels=[(float(_TARGET_MS), "target")]),
        ],
        title="CoDel with one flow each way: both queues swing in each round trip\n10 Mbit/s, base RTT 20 ms",
    )


def _make_table_of(traffic: str) -> Callable[[Evidence], str]:
    return lambda found: _format_table(found, traffic)


TABLES = {name.replace("-", "_"): _make_table_of(text) for name, text in TRAFFIC.items()} | {
    "two": format_two_table,
    "flent": flent.format_table,
}
FIGURES = {"home-pings": draw_pings, "two-way-queues": draw_queues}
