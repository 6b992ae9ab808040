"""Figures and tables of the page, from its evidence: one section for each question."""

import polars as pl
import polars.selectors as cs

from dumbbell.experiment import units
from dumbbell.study import (
    Evidence,
    Picture,
    Rows,
    Series,
    align_table,
    compute_means,
    count_experiment_seeds,
    describe_runs,
    draw_means,
    figures,
    make_grid,
    map_names,
    order_names,
)

from . import pi2_margins
from .rows import BURST_S, DUALPI2, FQ_CODEL, FQ_STEP, HELD, TARGET_MS

KINDS = [DUALPI2, FQ_CODEL, FQ_STEP]
LOADS = {0.0: "none", 0.25: "low (10 flows/s)", 2.5: "high (100 flows/s)", 7.5: "three times high"}
WEB = {"prague": "short flows are Prague", "cubic": "short flows are CUBIC, no ECN"}
PAIRS = {
    ("prague", "cubic", True, "l4s_ect"): "Prague, CUBIC+ECN in C",
    ("prague", "cubic", True, "any_ect"): "Prague, CUBIC+ECN in L",
    ("cubic", "cubic", True, "any_ect"): "CUBIC in C, CUBIC+ECN in L",
    ("prague", "reno", True, "any_ect"): "Prague, Reno+ECN in L",
}
TRAFFIC = {2: "1 Prague, 1 CUBIC", 10: "10 CUBIC", 100: "100 CUBIC"}
SIZES = (1000, 10_000, 50_000, 200_000)


def spread_of(rows: Rows) -> Rows:
    """Return by link, number of flows and ECN the largest mean rate of Prague at any RTT over its least."""
    rate = pl.col("prague")
    grouped = rows.frame.group_by("rate", "count", "second_ecn", maintain_order=True).agg(
        spread=rate.max() / rate.min()
    )
    return Rows("spreads", grouped)


def format_rates_table(found: Evidence) -> str:
    """Return how much Prague's rate depends on its RTT from 1 to 20 ms: the largest mean over the least."""
    near = found["rates"].filter(pl.col("rtt") <= 20).group_by("rate", "count", "second_ecn", "rtt")
    spreads = spread_of(Rows("rates", near.agg(cs.numeric().mean()))).frame.sort("rate", "count", "second_ecn")
    ecn = pl.when("second_ecn").then(pl.lit("ECN")).otherwise(pl.lit("no ECN"))
    named = spreads.with_columns(kind=pl.format("{} each, {}", "count", ecn))
    names = named["kind"].unique(maintain_order=True).to_list()
    rows = make_grid(named, ["rate"], "kind", names, lambda row: f"{row['spread']:.2f}")
    return align_table(["", *names], [[f"{rate} Mbit/s", *cells] for rate, *cells in rows], words=(0,))


# 1


def draw_rtt(found: Evidence) -> Picture:
    """Draw the ratio of rates over the base RTT of both flows."""
    equal = found["rtt"].filter(pl.col("rtt") == pl.col("second_rtt"))
    shown = compute_means(equal, ["version", "rtt"], "ratio")
    newest = Rows("newest", shown)(version="Prague 0.7").ratio
    return draw_means(
        shown,
        "rtt",
        "ratio",
        by="version",
        direct="rows",
        log_x=True,
        x_label="base RTT of both flows, ms",
        y_label="Prague's rate / CUBIC's rate",
        title=f"Prague gets {newest.min:.1f} to {newest.max:.1f} times CUBIC's rate\n"
        f"DualPI2, 40 Mbit/s, equal RTT; {describe_runs(shown['n'], what='seed')}",
        level=1,
        level_name="equal",
    )


def draw_rtt_map(found: Evidence) -> Picture:
    """Draw the ratio of rates of Prague 0.7 as a map over both RTTs."""
    ratios = compute_means(found["rtt"].filter(pl.col("version") == "Prague 0.7"), ["rtt", "second_rtt"], "ratio")
    most = Rows("ratios", ratios).ratio.max
    favours = Rows("ratios", ratios.filter(pl.col("rtt") <= 20, pl.col("second_rtt") == 100)).ratio.max == most
    answer = f"A Prague flow of short RTT gets up to {most:.1f} times the rate of a CUBIC flow of long RTT"
    return figures.heat(
        ratios,
        "second_rtt",
        "rtt",
        "ratio",
        kind="ratio",
        x_label="base RTT of CUBIC, ms",
        y_label="base RTT of Prague, ms",
        label="Prague's rate / CUBIC's rate",
        title=(answer if favours else "How Prague shares with CUBIC of another RTT")
        + f"\nDualPI2, 40 Mbit/s, Prague 0.7; {describe_runs(ratios['n'], spread='', what='seed')}",
    )


def draw_rtt_rates(found: Evidence) -> Picture:
    """Draw the rate of a Prague flow over its RTT, by link rate, numbers of flows and ECN of CUBIC."""
    links = {rate: f"{rate:g} Mbit/s link" for rate in sorted(found["rates"]["rate"].unique(), reverse=True)}
    pairs = {
        (count, ecn): f"{count} Prague, {count} CUBIC {'with' if ecn else 'without'} ECN"
        for ecn in (False, True)
        for count in (1, 4)
    }
    shown = found["rates"].with_columns(
        pl.struct("count", "second_ecn")
        .map_elements(lambda row: pairs[row["count"], row["second_ecn"]], return_dtype=pl.String)
        .cast(pl.Enum(list(pairs.values())))
        .alias("pair"),
        link=map_names("rate", links),
    )
    values = compute_means(shown, ["pair", "link", "rtt"], "prague")
    rate, slowest = pl.col("prague"), pl.col("link") == list(links.values())[-1]
    near = values.filter(pl.col("rtt") <= 20).group_by("pair", "link").agg(spread=rate.max() / rate.min())
    fast, slow = (Rows("near", near.filter(chosen)).spread for chosen in (~slowest, slowest))
    flat = fast.max < 1.15 < 1.5 < slow.max
    answer = "Up to 20 ms Prague's rate hardly depends on its RTT, except on the slowest link"
    return draw_means(
        values,
        "rtt",
        "prague",
        by="link",
        facet="pair",
        columns=2,
        direct="rows",
        log_x=True,
        log_y=True,
        x_label="base RTT of Prague, ms",
        y_label="rate of one Prague flow, Mbit/s",
        title=(answer if flat else "How Prague's rate depends on its own RTT")
        + f"\nDualPI2, CUBIC at 20 ms; {describe_runs(values['n'], what='seed')}",
    )


# 2


def draw_burst(found: Evidence) -> Picture:
    """Draw the delay of both queues over time, as the long flows see it, before, in and after a burst."""
    flows = {0: "Prague (L queue)", 1: "CUBIC (C queue)"}
    seeds = max(count_experiment_seeds(found, "questions-burst"), default=1)
    shown = found["burst_series"].with_columns(who=map_names("flow", flows), shown=map_names("web", WEB))
    tails = pl.concat(
        [
            shown.select("time_s", "shown", "who", delay=at, part=pl.format("{}, {}", "who", pl.lit(name)))
            for at, name in (("p50", "median"), ("p95", "P95"))
        ]
    )
    return figures.stacked_series(
        [
            Series(tails.filter(pl.col("who") == flows[0]), "delay", "part", "delay of Prague, ms"),
            Series(tails.filter(pl.col("who") == flows[1]), "delay", "part", "delay of CUBIC, ms"),
            Series(shown, "goodput", "who", "goodput, Mbit/s"),
        ],
        columns="shown",
        marks=[(BURST_S[0], "burst"), (BURST_S[1], "end")],
        title="A burst of 100 short flows a second against both queues\n"
        "DualPI2, 40 Mbit/s, 10 ms; smoothed RTT less base RTT in half seconds of "
        f"{seeds} seed{'s' * (seeds != 1)}",
    )


def format_burst_table(found: Evidence) -> str:
    """Return percentiles of the delay of each class while short flows come."""
    shown = ("p50", "p99", "p999")
    values = found["burst"].group_by("web", "arrivals", "class", maintain_order=True).agg(pl.col(*shown).mean())
    rows = []
    for (web, load), cells in values.group_by(["web", "arrivals"], maintain_order=True):
        each = {row["class"]: " / ".join(f"{row[name]:.2g}" for name in shown) for row in cells.iter_rows(named=True)}
        if load == 0 and web == "cubic":
            continue
        name = LOADS[float(str(load))]
        rows.append(
            [WEB[str(web)] if load else "no short flows", name, each[0], each[1], each.get(2, "") if load else ""]
        )
    return align_table(
        ["short flows", "load", "Prague P50 / P99 / P99.9, ms", "CUBIC", "short flows"], rows, words=(0, 1)
    )


# 3


def _load(rate: float) -> str:
    return "no UDP" if rate < 0.1 else f"UDP in L: {rate:g} Mbit/s"


def _collect_protection(found: Evidence, value: str, of: int) -> pl.DataFrame:
    chosen = found["protection"].filter(pl.col("class") == of)
    loads = {rate: _load(rate) for rate in sorted(chosen["udp"].unique())}
    return compute_means(
        chosen.with_columns(
            shown=map_names("count", {1: "1 Prague, 1 CUBIC", 8: "8 Prague, 1 CUBIC"}),
            load=map_names("udp", loads),
            share=100 * pl.col("share"),
        ),
        ["shown", "load", "protection"],
        value,
    )


def draw_protection_delay(found: Evidence) -> Picture:
    """Draw the delay of Prague over classic protection."""
    values = _collect_protection(found, "p99", 0)
    return draw_means(
        values,
        "protection",
        "p99",
        by="load",
        facet="shown",
        log_x=True,
        log_y=True,
        x_label="classic protection, %",
        y_label="P99 of Prague's delay, ms",
        title="What classic protection costs the L queue\n"
        f"DualPI2, 40 Mbit/s, 10 ms; {describe_runs(values['n'], what='seed')}",
    )


def draw_protection_share(found: Evidence) -> Picture:
    """Draw what CUBIC has of the link over classic protection."""
    values = _collect_protection(found, "share", 1)
    picture = draw_means(
        values,
        "protection",
        "share",
        by="load",
        facet="shown",
        log_x=True,
        x_label="classic protection, %",
        y_label="CUBIC's share of the link, %",
        title="What classic protection buys CUBIC\nDualPI2, 40 Mbit/s, 10 ms; "
        f"{describe_runs(values['n'], what='seed')}",
    )
    points = [float(share) for share in range(1, 51)]
    picture.draw_curve(points, points, "what is protected")
    return picture.arrange()


def format_protection_table(found: Evidence) -> str:
    """Return shares and delays over classic protection."""
    values = (
        found["protection"]
        .group_by("count", "udp", "protection", "class", maintain_order=True)
        .agg(cs.numeric().mean())
    )
    rows = []
    for (count, load, share), part in values.group_by(["count", "udp", "protection"], maintain_order=True):
        if share not in (1, 10, 50) or (count == 1 and float(str(load)) > 0.1):
            continue
        each = part.sort("class").head(2)
        cells = [f"{100 * r['share']:.1f} %, {r['mean']:.2g} / {r['p99']:.2g}" for r in each.iter_rows(named=True)]
        rows.append([f"{count} Prague", _load(float(str(load))), f"{share}", *cells])
    head = ["", "", "protection, %", "Prague together: share, mean / P99 ms", "CUBIC"]
    return align_table(head, rows, words=(0, 1))


# 4


def _collect_pairs(found: Evidence) -> pl.DataFrame:
    parts = [
        found["any_ect"]
        .filter(pl.col("cc") == cc, pl.col("second") == second, pl.col("second_ecn") == ecn, pl.col("mask") == mask)
        .with_columns(pair=pl.lit(name))
        for (cc, second, ecn, mask), name in PAIRS.items()
    ]
    return pl.concat(parts).with_columns(order_names("pair", PAIRS.values()))


def draw_any_ect(found: Evidence) -> Picture:
    """Draw the goodput of both flows where ECN of a classic flow lands in either queue."""
    values = compute_means(_collect_pairs(found), ["pair", "rtt", "class"], "goodput").with_columns(
        map_names("class", {0: "the first of the two", 1: "the classic flow with ECN"}),
        rtt=pl.format("{} ms", pl.col("rtt").cast(pl.Int64)),
    )
    order = [f"{value} ms" for value in sorted({int(text.split()[0]) for text in values["rtt"]})]
    return figures.bars(
        values.with_columns(order_names("rtt", order)),
        "rtt",
        "goodput",
        low="low",
        high="high",
        group="class",
        facet="pair",
        columns=2,
        x_label="base RTT of both",
        y_label="goodput, Mbit/s",
        title="A classic flow with ECN in the C and in the L queue\n"
        f"DualPI2, 40 Mbit/s; {describe_runs(values['n'], what='seed')}",
    )


def format_any_ect_table(found: Evidence) -> str:
    """Return marks and window of CUBIC in the L queue, beside the window that Reno-friendly CUBIC has at them."""
    both = found["any_ect"].filter(
        pl.col("cc") == "prague", pl.col("second") == "cubic", pl.col("second_ecn"), pl.col("mask") == "any_ect"
    )
    rows = []
    for row in (
        both.filter(pl.col("class") == 1).group_by("rtt").agg(cs.numeric().mean()).sort("rtt").iter_rows(named=True)
    ):
        friendly = (3 / (1 + pi2_margins.CUBIC_KEEPS) / row["marks"]) ** 0.5
        beside = both.filter(pl.col("class") == 0, pl.col("rtt") == row["rtt"])["goodput"]
        cells = [f"{100 * row['marks']:.1f}", f"{row['window']:.1f}", f"{friendly:.1f}", f"{row['goodput']:.1f}"]
        rows.append([f"{row['rtt']:g} ms", *cells, f"{beside.sum() / beside.len():.1f}"])
    head = ["base RTT", "marked, %", "window, segments", "sqrt(1.76 / p)", "CUBIC, Mbit/s", "Prague, Mbit/s"]
    return align_table(head, rows)


# 5


def draw_fq_delay(found: Evidence) -> Picture:
    """Draw the delay of Prague beside a CUBIC flow and short flows: every seed."""
    prague = found["fq_delay"].filter(pl.col("class") == 0)
    rates = sorted(prague["rate"].unique())
    middle = prague.group_by("queue", "rate", "rtt", maintain_order=True).agg(
        pl.col("p99").median(), low=pl.col("p99").min(), high=pl.col("p99").max(), n=pl.col("p99").count()
    )
    return draw_means(
        middle.with_columns(
            order_names("queue", KINDS),
            rate=map_names("rate", {rate: f"{rate:g} Mbit/s" for rate in rates}),
        ),
        "rtt",
        "p99",
        by="queue",
        facet="rate",
        log_x=True,
        log_y=True,
        x_label="base RTT, ms",
        y_label="P99 of Prague's delay, ms",
        title="How long Prague's packets wait with and without a queue per flow\n"
        f"One CUBIC flow and short flows beside it; {describe_runs(middle['n'], 'median', what='seed')}",
    )


def draw_fq_short(found: Evidence) -> Picture:
    """Draw the slow-down of short flows by size."""
    shown = found["short"].with_columns(
        order_names("queue", KINDS), shown=map_names("web", WEB), size=pl.col("from_bytes") / 1e3
    )
    return figures.lines(
        shown.sort("shown", "queue", "size"),
        "size",
        "mean",
        low="mean_low",
        high="mean_high",
        by="queue",
        facet="shown",
        log_x=True,
        x_label="size, kB (bins from …)",
        y_label="slow-down, mean",
        title="Completion time of short flows over size/rate + base RTT\n"
        "40 Mbit/s, 10 ms, 10 short flows a second; "
        f"{describe_runs(count_experiment_seeds(found, 'questions-fq'), what='seed')}",
    )


def format_fq_table(found: Evidence) -> str:
    """Return medians of ratio of rates and delays of the three queues; for Prague the P99 of every seed."""
    ratios = found["fq"].filter(pl.col("rate") == 40).group_by("queue", "rtt").agg(cs.numeric().median())
    delays = found["fq_delay"].filter(pl.col("rate") == 40)
    rows = []
    for kind in KINDS:
        for row in (
            ratios.filter(pl.col("queue") == kind, pl.col("rtt").is_in([10.0, 100.0])).sort("rtt").iter_rows(named=True)
        ):
            here = delays.filter(pl.col("queue") == kind, pl.col("rtt") == row["rtt"])
            seeds = ", ".join(
                f"{value:.0f}" if value >= 10 else f"{value:.1f}"
                for value in sorted(here.filter(pl.col("class") == 0)["p99"])
            )
            middle = here.group_by("class").agg(pl.col("mean", "p99").median()).sort("class")
            cells = [f"{one['mean']:.2g} / {one['p99']:.3g}" for one in middle.iter_rows(named=True)]
            rows.append(
                [kind, f"{row['rtt']:g}", f"{row['ratio']:.2f}", f"{row['utilisation']:.3f}", seeds, *cells[1:]]
            )
    head = ["queue", "RTT, ms", "Prague / CUBIC", "utilisation", "Prague: P99 of each seed, ms"]
    return align_table([*head, "CUBIC: mean / P99, ms", "short flows"], rows, words=(0, 4))


def format_short_table(found: Evidence) -> str:
    """Return mean and P99 of the slow-down of short flows of some sizes."""
    named = found["short"].with_columns(map_names("web", WEB), order_names("queue", KINDS)).sort("web", "queue")
    rows = make_grid(named, ["web", "queue"], "from_bytes", SIZES, lambda row: f"{row['mean']:.1f} / {row['p99']:.1f}")
    return align_table(["", "queue", *(f"from {size // 1000} kB" for size in SIZES)], rows, words=(0, 1))


# 6


def _collect_rates(frame: pl.DataFrame) -> pl.DataFrame:
    order = [units.show("rate", int(1e6 * rate)) for rate in sorted(frame["rate"].unique())]
    shown = pl.col("rate").map_elements(lambda rate: units.show("rate", int(1e6 * rate)), return_dtype=pl.String)
    return frame.with_columns(rate=shown.cast(pl.Enum(order)))


def draw_stability(found: Evidence) -> Picture:
    """Draw how much the delay of the C queue swings."""
    held = pl.when(pl.col("mean") >= HELD * TARGET_MS).then(pl.col("swing"))
    return figures.heat(
        _collect_rates(
            found["swings"].with_columns(held=held, shown=map_names("flows", TRAFFIC)).sort("flows", "rate", "rtt")
        ),
        "rtt",
        "rate",
        "held",
        facet="shown",
        kind="plain",
        x_label="base RTT, ms",
        y_label="rate",
        label="standard deviation over target",
        title="How much the delay of the C queue swings\none seed; hatched: on average below a third of the target",
    )


def draw_phase_margins(found: Evidence) -> Picture:
    """Draw the phase margins that the linear model has for the same links; below 0 the loop is unstable."""
    shown = found["margins"].with_columns(shown=map_names("flows", {10: "10 CUBIC", 100: "100 CUBIC"}))
    return figures.heat(
        _collect_rates(shown),
        "rtt",
        "rate",
        "phase",
        facet="shown",
        x_label="base RTT, ms",
        y_label="rate",
        label="phase margin, degrees",
        title="Phase margin of the linear model\nbelow 0: unstable; hatched: fair windows below 2 segments",
    )


def format_swing_table(found: Evidence) -> str:
    """Return period and strength of the largest swing of 100 CUBIC flows, beside what the linear model has."""
    both = found["swings"].join(found["margins"], on=["rate", "rtt", "flows"])
    chosen = both.filter(
        pl.col("flows") == 100,
        pl.col("rate") >= 100,
        pl.col("rtt") >= 50,
        pl.col("phase").is_not_null(),
        pl.col("mean") >= HELD * TARGET_MS,
    )
    rows = []
    for row in chosen.sort("rtt", "rate").iter_rows(named=True):
        cells = [f"{row['mean']:.1f}", f"{row['swing']:.2f}", f"{row['period']:.1f}", f"{100 * row['within']:.0f}"]
        rows.append(
            [f"{row['rate']:g} Mbit/s", f"{row['rtt']:g}", *cells, f"{row['phase']:.0f}", f"{row['model_period']:.1f}"]
        )
    head = ["", "RTT, ms", "mean, ms", "deviation / target", "period, s", "within 25 % of it, % of power"]
    return align_table([*head, "model: phase margin, degrees", "model: period, s"], rows)
