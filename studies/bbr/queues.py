"""What queues make of BBR: flow queues, a step around its limit for ECN, DualPI2. Sections 7 to 9 of the page."""

from typing import Any

import polars as pl

from dumbbell.study import (
    Evidence,
    Picture,
    align_table,
    compute_means,
    describe_runs,
    draw_means,
    figures,
    list_durations,
    make_grid,
    map_names,
    order_names,
)

from .runs import FIVE, format_two_digits

# 7

REMEDIES = ["tail drop", "CoDel", "FQ-CoDel", "Cake"]
ECN = {False: "no ECN", True: "ECN negotiated"}


def draw_fair_queue(found: Evidence) -> Picture:
    """Draw the share of one BBR flow over four queues."""
    shares = found["fair_queue"].with_columns(shown=pl.format("with {}", "second"))
    values = compute_means(shares, ["shown", "ecn", "cc", "queue"], "share")
    return draw_means(
        values.with_columns(order_names("cc", FIVE), order_names("queue", REMEDIES), map_names("ecn", ECN)),
        "queue",
        "share",
        by="cc",
        facet="ecn",
        columns="shown",
        x_label="",
        y_label="share of the first flow",
        title=f"Share of one flow over four queues\n50 Mbit/s, 40 ms, tail drop of 2 BDP; {describe_runs(values['n'])}",
        level=0.5,
        level_name="equal shares",
    )


def thin_flow(found: Evidence) -> Picture:
    """Draw the delay of a thin flow beside the pairs."""
    thin = found["fair_queue"].filter(pl.col("second") == "CUBIC")
    values = compute_means(thin, ["ecn", "cc", "queue"], "thin_p99")
    return draw_means(
        values.with_columns(order_names("cc", FIVE), order_names("queue", REMEDIES), map_names("ecn", ECN)),
        "queue",
        "thin_p99",
        by="cc",
        facet="ecn",
        log_y=True,
        x_label="",
        y_label="P99 of its time in queue, ms",
        title="Time in queue of a thin flow beside one flow and one of CUBIC\n"
        f"60 frames of 200 B per second; 50 Mbit/s, 40 ms; {describe_runs(values['n'])}",
    )


def format_fair_queue_table(found: Evidence) -> str:
    """Return the time in queue of the first flow's own packets beside CUBIC."""
    own = found["fair_queue"].filter(pl.col("second") == "CUBIC")
    own = own.with_columns(map_names("ecn", ECN), order_names("queue", REMEDIES))
    values = compute_means(own, ["ecn", "queue", "cc"], "own_mean", "own_p99")
    rows = make_grid(values, ["ecn", "queue"], "cc", FIVE, lambda row: f"{row['own_mean']:.2g} / {row['own_p99']:.2g}")
    return align_table(["", "own queue, ms", *FIVE], rows, words=(0, 1))


# 8

ANSWERS = ["BBRv2", "BBRv2, ECN", "BBRv3", "BBRv3, ECN", "BBRv1", "DCTCP"]
LIMIT = 5.0  # ms; bbr_ecn_max_rtt_us


def draw_ecn_limit(found: Evidence) -> Picture:
    """Draw the mean queue at base RTTs around the limit of 5 ms, with Linux."""
    answers = ["BBRv2", "BBRv2, ECN", "BBRv3", "BBRv3, ECN", "DCTCP"]
    rows = found["ecn"].filter(pl.col("version").is_in(answers), pl.col("rtt").is_between(4, 6))
    linux = (
        found["as_linux"]
        .filter(pl.col("kind") == "ecn")
        .group_by("cc", "rtt")
        .agg(linux=pl.col("linux").first())
        .select("rtt", "linux", version=pl.format("{}, ECN", "cc"), count=pl.lit(4, pl.Int64))
    )
    counts = {count: f"{count} flow{'s' * (count > 1)}" for count in sorted(rows["count"].unique())}
    values = compute_means(rows, ["count", "version", "rtt"], "sojourn").join(
        linux, on=["count", "version", "rtt"], how="left"
    )
    picture = draw_means(
        values.with_columns(order_names("version", answers), map_names("count", counts)),
        "rtt",
        "sojourn",
        by="version",
        facet="count",
        log_x=False,
        log_y=True,
        reference="linux",
        reference_name="Linux: RTT - base RTT, one run",
        x_label="base RTT, ms",
        y_label="mean time in queue, ms",
        title="Queue over a step of 1 ms around BBR's limit for ECN\n"
        f"50 Mbit/s; {describe_runs(values['n'], seconds=list_durations(found, 'ecn-limit', 'short-path'))}",
    )
    for axes in picture.panels.values():
        axes.axvline(LIMIT, color="0.45", linewidth=0.9, linestyle="--", label="_limit")
    return picture.arrange()


def format_ecn_table(found: Evidence) -> str:
    """Return time in queue, share of marks, utilisation and fairness of four flows."""
    values = compute_means(
        found["ecn"].filter(pl.col("count") > 1), ["rtt", "version"], "sojourn", "mark_share", "utilisation", "jain"
    )

    def format_row(row: dict[str, Any]) -> str:
        shares = f"{100 * row['mark_share']:.0f}; {100 * row['utilisation']:.1f}"
        return f"{format_two_digits(row['sojourn'])}; {shares}; {row['jain']:.2f}"

    return align_table(["base RTT, ms", *ANSWERS], make_grid(values, ["rtt"], "version", ANSWERS, format_row))


def format_linux_table(found: Evidence) -> str:
    """Return what else was measured on Linux next to runs with the same starts and the same period."""
    keys = ["kind", "name", "measure", "linux"]
    rows = [
        [row["name"], row["measure"], f"{row['value']:.3g} ({row['low']:.3g}-{row['high']:.3g})", f"{row['linux']:.3g}"]
        for row in compute_means(found["as_linux"], keys, "value").iter_rows(named=True)
    ]
    return align_table(["", "measure", "simulator", "Linux"], rows, words=(0, 1))


# 9

FIRST = ["BBRv1", "BBRv2, ECN", "BBRv3, ECN", "BBRv3", "draft", "Prague", "CUBIC"]
SENDS_ECT0 = FIRST[:3]
MASKS = {"l4s_ect": "ECT(0) in the C queue", "any_ect": "ECT(0) in the L queue"}
ROLES = {"first": "the flow named", "Prague": "Prague", "CUBIC": "CUBIC"}


def _select_shown(found: Evidence) -> pl.DataFrame:
    """Return the cells that differ: the queue of ECT(0) matters only to flows that send it."""
    rows = found["dualpi2"]
    return rows.filter((pl.col("mask") == "l4s_ect") | pl.col("version").is_in(SENDS_ECT0))


def draw_dualpi2(found: Evidence) -> Picture:
    """Draw the goodput of three flows over DualPI2."""
    rows = _select_shown(found).with_columns(
        shown=pl.format("{}, {} ms", pl.col("mask").replace_strict(MASKS), pl.col("rtt").cast(pl.Int64))
    )
    order = [f"{mask}, {rtt} ms" for mask in MASKS.values() for rtt in (4, 20)]
    values = compute_means(rows, ["shown", "version", "role"], "goodput_mbit")
    return figures.bars(
        values.with_columns(order_names("version", FIRST), order_names("shown", order), map_names("role", ROLES)),
        "version",
        "goodput_mbit",
        low="low",
        high="high",
        group="role",
        facet="shown",
        columns=2,
        x_label="sharing with Prague and with CUBIC without ECN",
        y_label="goodput, Mbit/s",
        title="Goodput of three flows in one DualPI2\n"
        "50 Mbit/s; BBRv1 negotiates ECN as tcp_ecn = 1 lets it; "
        f"{describe_runs(values['n'], seconds=list_durations(found, 'dualpi2'))}",
    )


def format_dualpi2_table(found: Evidence) -> str:
    """Return goodput and mean time in queue of the three flows."""
    rows = [
        [MASKS[mask], f"{rtt:g}", version, *cells]
        for (mask, rtt, version), cells in _format_three(_select_shown(found), ["mask", "rtt", "version"])
    ]
    rows.sort(key=lambda row: (row[0], float(row[1]), FIRST.index(row[2])))
    return align_table(["", "RTT, ms", "first flow", "its Mbit/s; queue", "Prague", "CUBIC"], rows, words=(0, 1, 2))


def format_answers_table(found: Evidence) -> str:
    """Return the same with parts of BBR's answer to ECN changed."""
    rows = [
        [version, changed, *cell]
        for (version, changed), cell in _format_three(found["answers"], ["version", "changed"])
    ]
    return align_table(["first flow", "changed", "its Mbit/s; queue", "Prague", "CUBIC"], rows, words=(0, 1))


def _format_three(rows: pl.DataFrame, keys: list[str]) -> list[tuple[Any, list[str]]]:
    """Return goodput and mean time in queue of three flows as text, by what tells the runs apart."""
    values = compute_means(
        rows.with_columns(order_names("role", list(ROLES))), [*keys, "role"], "goodput_mbit", "queue_ms"
    )
    return [
        (key, [f"{row['goodput_mbit']:.1f}; {row['queue_ms']:.2g} ms" for row in part.iter_rows(named=True)])
        for key, part in values.group_by(keys, maintain_order=True)
    ]
