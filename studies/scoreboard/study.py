"""A scoreboard: every control alone and next to every other, over every queue; real Linux where it was measured."""

from statistics import mean, median
from typing import Any

import polars as pl

from dumbbell.study import (
    Evidence,
    Picture,
    Results,
    Sweep,
    align_table,
    compute_means,
    figures,
    make_grid,
    order_names,
    shipped,
)

QUESTION = "What does each control do alone and next to each other, over each queue?"
ALSO_DRAWN = {"scoreboard-harm": "pairs"}
RUNS = (Sweep("scoreboard-alone.duckdb", ("alone",)), Sweep("scoreboard-pairs.duckdb", ("pairs",)))
CONTROLS = {
    "reno": "Reno",
    "cubic": "CUBIC",
    "bbr1": "BBRv1",
    "bbr2": "BBRv2",
    "bbr3": "BBRv3",
    "prague": "Prague",
}
QUEUES = {
    "pfifo 100": "FIFO, 100 packets",
    "pfifo 1000": "FIFO, 1000 packets",
    "codel": "CoDel",
    "pie": "PIE",
    "fq_codel": "FQ-CoDel",
    "cake": "Cake",
    "dualpi2": "DualPI2",
}
# as the references of Linux call these queues, with ECN
LINUX = {
    "pfifo limit 100": "pfifo 100",
    "codel ecn": "codel",
    "pie ecn": "pie",
    "fq_codel ecn": "fq_codel",
    "cake": "cake",
    "dualpi2": "dualpi2",
}
BAR = {"goodput": 0.02, "rtt": 0.06}
"""When a cell agrees with Linux, as in the study validation: shares of the rate and of Linux's mean RTT."""
NAMES = (
    *(r"Six congestion controls", r"seven queues", r"10 and 50 Mbit/s", r"10, 40 and 80 ms", r"two experiments"),
    *(r"with 1000?", r"FIFO, 100 packets", r"1000 packets", r"Section 3", r"Half", r"six cells", r"6\.(?:12|18|1)"),
)


def _collect_flows(results: Results) -> pl.DataFrame:
    keys = {"rate": "bottleneck.rate", "rtt": "flows[0].base_rtt", "aqm": "bottleneck.aqm.name"}
    runs = results.tidy("runs", keys | {"limit": "bottleneck.aqm.limit"})
    fifo = pl.format("FIFO, {} packets", "limit")
    queue = pl.when(pl.col("aqm") == "pfifo").then(fifo).otherwise(pl.col("aqm").replace(QUEUES))
    cells = runs.select("key", "seed", pl.col("rate", "rtt").cast(pl.Int64), queue=queue)
    found = results.flows.select(
        "key",
        "flow",
        pl.col("cc").replace(CONTROLS).alias("cc"),
        goodput="goodput_mbit",
        sent_mbit="throughput_mbit",
        rtt_mean="rtt_mean_ms",
        rtt_p95="rtt_p95_ms",
        loss=pl.col("drops") / (pl.col("packets") + pl.col("drops")),
    )
    return cells.join(found, on="key")


def collect_alone(results: Results) -> pl.DataFrame:
    """Return one row per cell of a flow alone: utilisation, mean RTT and P95 above the base RTT in ms, share lost."""
    rows = (
        _collect_flows(results)
        .group_by("queue", "cc", "rate", "rtt", maintain_order=True)
        .agg(
            pl.col("goodput", "rtt_mean", "loss").mean(),
            use=pl.col("sent_mbit").mean() / pl.col("rate").first(),
            delay=pl.col("rtt_p95").mean() - pl.col("rtt").first(),
        )
    )
    return rows.sort("queue", "cc", "rate", "rtt")


def collect_pairs(results: Results) -> pl.DataFrame:
    """Return one row per cell of two flows: goodput and share of the first, and what the two make together.

    `harm` is what the second takes from the first: the part of its goodput alone that the first lacks next to it.
    """
    flows = _collect_flows(results)
    first, second = (flows.filter(flow=n) for n in (0, 1))
    both = first.join(second.select("key", other="cc", other_goodput="goodput", other_rtt="rtt_p95"), on="key")
    rows = both.group_by("queue", "cc", "other", "rate", "rtt", maintain_order=True).agg(
        pl.col("goodput", "other_goodput", "loss").mean(),
        share=(pl.col("goodput") / (pl.col("goodput") + pl.col("other_goodput"))).mean(),
        delay=pl.col("rtt_p95").mean() - pl.col("rtt").first(),
    )
    return rows.sort("queue", "cc", "other", "rate", "rtt")


def read_linux() -> pl.DataFrame:
    """Return goodput in Mbit/s and mean RTT in ms of one flow on Linux, in cells of the scoreboard."""
    references = shipped.list_references()
    counts = {"linux-6.12": pl.col("hosts.ecn") == "true", "linux-bbr": pl.col("flows.cc.ecn") != "true"}
    found = []
    for name in ("linux-6.12", "linux-bbr", "linux-6.18-l4s"):
        rows = pl.read_csv(references[name], infer_schema=False).fill_null("")
        is_alone = (pl.col("flow") == "0") & (pl.col("flow").shift(-1).fill_null("0") == "0")
        found.append(
            rows.filter(is_alone, counts.get(name, True)).select(
                queue=pl.col("bottleneck.aqm").replace_strict(
                    {words: QUEUES[queue] for words, queue in LINUX.items()}, default=None
                ),
                cc="flows.cc",
                rate=pl.col("bottleneck.rate").str.strip_suffix("Mbit").cast(pl.Float64),
                rtt=pl.col("flows.base_rtt").str.strip_suffix("ms").cast(pl.Float64),
                goodput=pl.col("goodput_mbit").cast(pl.Float64),
                rtt_mean=pl.col("rtt_mean_ms").cast(pl.Float64),
            )
        )
    rows = (
        pl.concat(found).with_columns(pl.col("cc").replace_strict(CONTROLS, default=None)).drop_nulls(["queue", "cc"])
    )
    means = rows.group_by("queue", "cc", "rate", "rtt").agg(pl.col("goodput", "rtt_mean").mean(), starts=pl.len())
    return means.filter(pl.col("rate").is_in([10.0, 50.0]) & pl.col("rtt").is_in([10.0, 40.0, 80.0])).sort(
        "queue", "cc", "rate", "rtt"
    )


def compare_with_linux(found: pl.DataFrame) -> pl.DataFrame:
    """Return the cells that were measured on Linux as well: both figures, and the error of the simulator."""
    there = read_linux().with_columns(pl.col("rate", "rtt").cast(pl.Int64))
    both = found.join(there, on=["queue", "cc", "rate", "rtt"], suffix="_linux")
    return both.with_columns(
        goodput_error=(pl.col("goodput") - pl.col("goodput_linux")) / pl.col("rate"),
        rtt_error=pl.col("rtt_mean") / pl.col("rtt_mean_linux") - 1,
    ).select(
        "queue",
        "cc",
        "rate",
        "rtt",
        "goodput",
        "goodput_linux",
        "goodput_error",
        "rtt_mean",
        "rtt_mean_linux",
        "rtt_error",
    )


def make_evidence(one: Results, two: Results) -> dict[str, pl.DataFrame]:
    """Return what the page rests on."""
    single = collect_alone(one)
    solo = single.select("queue", "cc", "rate", "rtt", solo="goodput")
    both = (
        collect_pairs(two)
        .join(solo, on=["queue", "cc", "rate", "rtt"])
        .with_columns(harm=1 - pl.col("goodput") / pl.col("solo"))
    )
    return {"alone": single, "two": both.drop("solo"), "measured": compare_with_linux(single)}


def make_facts(_: Evidence) -> dict[str, Any]:
    """Return what else the template may name."""
    return {
        "flow_queues": [QUEUES["fq_codel"], QUEUES["cake"]],
        "fifos": [QUEUES[name] for name in ("pfifo 100", "pfifo 1000")],
        "long_fifo": QUEUES["pfifo 1000"],
        "classic": ["Reno", "CUBIC"],
        "bar": BAR,
    }


def _order_cells(frame: pl.DataFrame) -> list[tuple[str, str]]:
    known = set(frame.select("queue", "cc").iter_rows())
    return [(queue, cc) for queue in QUEUES.values() for cc in CONTROLS.values() if (queue, cc) in known]


def format_alone_table(found: Evidence) -> str:
    """Return one row per queue and control: least utilisation, median and largest delay, largest share lost."""
    frame = found["alone"]
    rows = []
    for queue, cc in _order_cells(frame):
        of = frame.filter(queue=queue, cc=cc)
        use, delay, loss = (of[name].to_list() for name in ("use", "delay", "loss"))
        rows.append(
            [
                queue,
                cc,
                f"{100 * mean(use):.1f}",
                f"{100 * min(use):.1f}",
                f"{median(delay):.1f}",
                f"{max(delay):.1f}",
                f"{100 * median(loss):.2g}",
                f"{100 * max(loss):.2g}",
            ]
        )
    head = ["queue", "control", "utilisation, %", "least", "P95 of queueing, ms", "largest", "lost, %", "most"]
    return align_table(head, rows, words=(0, 1))


def format_pairs_table(found: Evidence, queue: str) -> str:
    """Return the share of each control next to each other one, in per cent: mean and range over cells."""
    shares = found["two"].with_columns(order_names("cc", CONTROLS.values()), share=100 * pl.col("share"))
    means = compute_means(shares.filter(queue=queue), ["cc", "other"], "share")

    def format_share(row: dict[str, Any]) -> str:
        return f"{row['share']:.0f} ({row['low']:.0f}-{row['high']:.0f})"

    rows = make_grid(means, ["cc"], "other", CONTROLS.values(), format_share)
    return align_table(["share of, next to", *CONTROLS.values()], rows, words=(0,))


def format_measured_table(found: Evidence) -> str:
    """Return cells of one flow on Linux and here."""
    frame = found["measured"]
    rows = []
    for queue, cc in _order_cells(frame):
        for r in frame.filter(queue=queue, cc=cc).iter_rows(named=True):
            rows.append(
                [
                    queue,
                    cc,
                    f"{r['rate']} Mbit/s, {r['rtt']} ms",
                    f"{r['goodput']:.2f} / {r['goodput_linux']:.2f} / {100 * r['goodput_error']:+.1f} %",
                    f"{r['rtt_mean']:.1f} / {r['rtt_mean_linux']:.1f} / {100 * r['rtt_error']:+.1f} %",
                ]
            )
    return align_table(["queue", "control", "cell", "goodput, Mbit/s", "mean RTT, ms"], rows, words=(0, 1, 2))


def draw_harm(found: Evidence) -> Picture:
    """Draw what each control loses next to each other one, queue by queue."""
    order = pl.Enum(list(CONTROLS.values()))
    frame = found["two"].group_by("queue", "cc", "other").agg(harm=100 * pl.col("harm").mean())
    frame = frame.with_columns(
        order_names("queue", QUEUES.values()), pl.col("cc").cast(order), pl.col("other").cast(order)
    ).sort("queue", "cc", "other")
    apart = pl.col("queue").is_in([QUEUES["fq_codel"], QUEUES["cake"]])
    ends = [
        f"{min(harms):.0f} to {max(harms):.0f} %"
        for harms in (frame.filter(queues)["harm"].to_list() for queues in (apart, ~apart))
    ]
    return figures.heat(
        frame,
        "other",
        "cc",
        "harm",
        facet="queue",
        columns=4,
        x_label="next to one flow of",
        y_label="loss of one flow of",
        kind="percent",
        label="% of its goodput alone; 50 is fair",
        title=f"Next to another flow, a control loses {ends[0]} of its goodput with flow queues, and {ends[1]} "
        "without\nmean over 10 and 50 Mbit/s and base RTTs of 10, 40 and 80 ms; ECN is on where the queue supports it",
    )


TABLES = {"alone": format_alone_table, "measured": format_measured_table} | {
    f"pairs_{name.replace(' ', '_')}": (lambda found, queue=queue: format_pairs_table(found, queue))
    for name, queue in QUEUES.items()
}
FIGURES = {"scoreboard-harm": draw_harm}
