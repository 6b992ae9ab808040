"""What queues make of BBR: flow queues, a step around its limit for ECN, DualPI2. Questions 7 to 9 of the page."""

from typing import Any

import polars as pl
from bbr_runs import FIVE, Found, cross, ordered, two_digits
from questions import means, named

from dumbbell import figures
from dumbbell.figures import Picture
from dumbbell.tables import aligned

# 7

REMEDIES = ["tail drop", "CoDel", "FQ-CoDel", "Cake"]
ECN = {False: "no ECN", True: "ECN negotiated"}


def fair_queue(found: Found) -> Picture:
    """Draw the share of one BBR flow over four queues."""
    shares = found.shares("fair-queue").with_columns(shown=pl.format("beside {}", "second"))
    picture = figures.bars(
        means(shares, ["shown", "ecn", "cc", "queue"], "share").with_columns(
            ordered("cc", FIVE), ordered("queue", REMEDIES), named("ecn", ECN)
        ),
        "queue",
        "share",
        low="low",
        high="high",
        group="cc",
        facet="ecn",
        columns="shown",
        x_label="",
        y_label="share of the first flow",
        title="50 Mbit/s, 40 ms; tail drop of 2 BDP; mean, least and largest of 4 runs",
    )
    picture.level(0.5, "half", "--")
    return picture.arrange()


def thin_flow(found: Found) -> Picture:
    """Draw the delay of a thin flow beside the pairs."""
    runs = found.of("fair-queue").filter(pl.col("second") == "CUBIC")
    thin = found.members(runs).filter(pl.col("kind") == "udp")
    return figures.bars(
        means(thin, ["ecn", "cc", "queue"], "sojourn_p99_ms").with_columns(
            ordered("cc", FIVE), ordered("queue", REMEDIES), named("ecn", ECN)
        ),
        "queue",
        "sojourn_p99_ms",
        low="low",
        high="high",
        group="cc",
        facet="ecn",
        log_y=True,
        x_label="",
        y_label="P99 of the thin flow's time in queue, ms",
        title="60 frames of 200 B a second beside one flow and one of CUBIC",
    )


def fair_queue_table(found: Found) -> str:
    """Return the mean time in queue of the first flow's own packets beside CUBIC."""
    runs = found.of("fair-queue").filter(pl.col("second") == "CUBIC")
    own = found.members(runs).filter(pl.col("class") == 0, pl.col("kind") == "flows")
    values = means(own, ["ecn", "cc", "queue"], "sojourn_mean_ms", "sojourn_p99_ms")
    rows = []
    for ecn, name in ECN.items():
        for queue in REMEDIES:
            here = {
                row["cc"]: row
                for row in values.filter(pl.col("ecn") == ecn, pl.col("queue") == queue).iter_rows(named=True)
            }
            rows.append(
                [
                    name,
                    queue,
                    *(
                        f"{here[cc]['sojourn_mean_ms']:.2g} / {here[cc]['sojourn_p99_ms']:.2g}" if cc in here else "-"
                        for cc in FIVE
                    ),
                ]
            )
    return aligned(["", "own queue, ms", *FIVE], rows, words=(0, 1))


# 8

ANSWERS = ["BBRv2", "BBRv2, ECN", "BBRv3", "BBRv3, ECN", "BBRv1", "DCTCP"]


def ecn_limit(found: Found) -> Picture:
    """Draw the mean queue around the limit of 5 ms."""
    runs = found.of("ecn-limit")
    order = [f"{value:g}" for value in sorted(runs["rtt"].unique())]
    text = runs["rtt"].map_elements(lambda value: f"{value:g}", return_dtype=pl.String).alias("shown")
    flows = {count: f"{count} flow{'s' * (count > 1)}" for count in sorted(runs["count"].unique())}
    values = means(runs.with_columns(text, count=named("count", flows)), ["count", "version", "shown"], "sojourn")
    return figures.lines(
        values.with_columns(ordered("version", ANSWERS), ordered("shown", order)),
        "shown",
        "sojourn",
        low="low",
        high="high",
        by="version",
        facet="count",
        columns=1,
        log_y=True,
        x_label="base RTT, ms",
        y_label="mean time in queue, ms",
        title="50 Mbit/s, a step of 1 ms; mean, least and largest of 4 runs of 60 s",
    )


def ecn_table(found: Found) -> str:
    """Return time in queue, share of marks, use of the link and fairness of four flows."""
    runs = found.members(found.of("ecn-limit").filter(pl.col("count") > 1))
    values = means(runs, ["version", "rtt"], "sojourn", "mark_share", "utilisation", "jain")

    def text(row: dict[str, Any]) -> str:
        shares = f"{100 * row['mark_share']:.0f}; {100 * row['utilisation']:.1f}"
        return f"{two_digits(row['sojourn'])}; {shares}; {row['jain']:.2f}"

    return aligned(["base RTT, ms", *ANSWERS], cross(values, "rtt", "version", ANSWERS, text))


# 9

FIRST = ["BBRv1", "BBRv2, ECN", "BBRv3, ECN", "BBRv3", "draft", "Prague", "CUBIC"]
MASKS = {"l4s_ect": "ECT(0) belongs to C", "any_ect": "ECT(0) belongs to L"}
THREE = {0: "the flow named", 1: "Prague", 2: "CUBIC"}


def dualpi2(found: Found) -> Picture:
    """Draw the goodput of three flows over DualPI2."""
    flows = found.each(found.of("dualpi2")).with_columns(
        shown=pl.format("base RTT {} ms", pl.col("rtt").cast(pl.Int64)), role=named("flow", THREE)
    )
    values = means(flows, ["mask", "shown", "version", "role"], "goodput_mbit")
    return figures.bars(
        values.with_columns(
            ordered("version", FIRST), ordered("shown", ["base RTT 4 ms", "base RTT 20 ms"]), named("mask", MASKS)
        ),
        "version",
        "goodput_mbit",
        low="low",
        high="high",
        group="role",
        facet="shown",
        columns="mask",
        x_label="beside Prague and CUBIC without ECN",
        y_label="goodput, Mbit/s",
        title="50 Mbit/s; mean, least and largest of 4 runs of 120 s",
    )


def dualpi2_table(found: Found) -> str:
    """Return goodput and mean time in queue of the three flows."""
    rows = []
    for mask, queue in MASKS.items():
        # a mask tells nothing apart but ECT(0)
        ect0 = pl.lit(mask == "l4s_ect") | pl.col("version").is_in(FIRST[:3])
        for (rtt_ms, version), cells in _three(found, "dualpi2", (pl.col("mask") == mask) & ect0, ["rtt", "version"]):
            rows.append([queue, f"{rtt_ms:g}", version, *cells])
    rows.sort(key=lambda row: (row[0], float(row[1]), FIRST.index(row[2])))
    return aligned(["", "RTT, ms", "first flow", "its Mbit/s; queue", "Prague", "CUBIC"], rows, words=(0, 1, 2))


def dualpi2_answers_table(found: Found) -> str:
    """Return the same with parts of BBR's answer to ECN changed."""
    cells = _three(found, "dualpi2-answers", pl.lit(value=True), ["version", "changed"])
    rows = [[version, changed or "as it is", *cell] for (version, changed), cell in cells]
    return aligned(["first flow", "changed", "its Mbit/s; queue", "Prague", "CUBIC"], rows, words=(0, 1))


def _three(found: Found, name: str, kept: pl.Expr, keys: list[str]) -> list[tuple[Any, list[str]]]:
    """Return goodput and mean time in queue of three flows as text, by what tells the runs apart."""
    flows = found.each(found.of(name).filter(kept))
    values = means(flows, [*keys, "flow"], "goodput_mbit", "sojourn_mean_ms")
    return [
        (key, [f"{row['goodput_mbit']:.1f}; {row['sojourn_mean_ms']:.2g} ms" for row in part.iter_rows(named=True)])
        for key, part in values.group_by(keys, maintain_order=True)
    ]
