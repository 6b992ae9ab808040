"""Figures and tables of the page, from its evidence: one section for each question."""

import polars as pl
import polars.selectors as cs

from dumbbell.study import (
    Evidence,
    Picture,
    Rows,
    Series,
    align_table,
    choose_title,
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
NAMES = {kind: kind.replace(", ", ",\n") for kind in KINDS}  # next to lines
LOADS = {0.0: "none", 0.25: "low (10 flows/s)", 2.5: "high (100 flows/s)", 7.5: "three times high"}
WEB = {"prague": "short flows are Prague", "cubic": "short flows are CUBIC, no ECN"}
BURSTS = {"prague": "short Prague flows", "cubic": "short CUBIC flows"}
# controls of both flows, and which packets L takes: the panel's title, and names of the flows with their queues
PAIRS = {
    ("prague", "cubic", "l4s_ect"): ("CUBIC with ECN in C", "Prague (L)", "CUBIC, ECN (C)"),
    ("prague", "cubic", "any_ect"): ("CUBIC with ECN in L", "Prague (L)", "CUBIC, ECN (L)"),
    ("cubic", "cubic", "any_ect"): ("CUBIC with ECN in L, no Prague", "CUBIC, no ECN (C)", "CUBIC, ECN (L)"),
    ("prague", "reno", "any_ect"): ("Reno with ECN in L", "Prague (L)", "Reno, ECN (L)"),
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

    def find_answer() -> str:
        newest = Rows("newest", shown)(version="Prague 0.7").ratio
        return f"Prague gets {newest.min:.2g} to {newest.max:.2g} times CUBIC's rate"

    picture = draw_means(
        shown,
        "rtt",
        "ratio",
        by="version",
        log_x=True,
        x_label="base RTT of both flows, ms",
        y_label="Prague's rate / CUBIC's rate",
        title=choose_title(find_answer, "How Prague shares with CUBIC of the same RTT")
        + f"\nDualPI2, 40 Mbit/s, equal RTT; {describe_runs(shown['n'], what='seed')}",
        level=1,
    )
    figures.write_in(picture, (), "equal rates", (20, 1), move=(0, -6), ha="center")
    return picture


def draw_rtt_map(found: Evidence) -> Picture:
    """Draw the ratio of rates of Prague 0.7 as a map over both RTTs."""
    ratios = compute_means(found["rtt"].filter(pl.col("version") == "Prague 0.7"), ["rtt", "second_rtt"], "ratio")

    def find_answer() -> str | None:
        most = Rows("ratios", ratios).ratio.max
        favours = Rows("ratios", ratios.filter(pl.col("rtt") <= 20, pl.col("second_rtt") == 100)).ratio.max == most
        answer = f"A Prague flow of short RTT gets up to {most:.1f} times the rate of a CUBIC flow of long RTT"
        return answer if favours else None

    return figures.heat(
        ratios,
        "second_rtt",
        "rtt",
        "ratio",
        kind="ratio",
        x_label="base RTT of CUBIC, ms",
        y_label="base RTT of Prague, ms",
        label="Prague's rate / CUBIC's rate",
        title=choose_title(find_answer, "How Prague shares with CUBIC of another RTT")
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

    def find_answer() -> str | None:
        rate, slowest = pl.col("prague"), pl.col("link") == list(links.values())[-1]
        near = values.filter(pl.col("rtt") <= 20).group_by("pair", "link").agg(spread=rate.max() / rate.min())
        fast, slow = (Rows("near", near.filter(chosen)).spread for chosen in (~slowest, slowest))
        flat = fast.max < 1.15 < 1.5 < slow.max
        return "Up to 20 ms Prague's rate hardly depends on its RTT, except on the slowest link" if flat else None

    return draw_means(
        values,
        "rtt",
        "prague",
        by="link",
        facet="pair",
        columns=2,
        log_x=True,
        log_y=True,
        x_label="base RTT of Prague, ms",
        y_label="rate of one Prague flow, Mbit/s",
        title=choose_title(find_answer, "How Prague's rate depends on its own RTT")
        + f"\nDualPI2, CUBIC at 20 ms; {describe_runs(values['n'], what='seed')}",
    ).name_lines(solid=True)


# 2


def draw_burst(found: Evidence) -> Picture:
    """Draw the delay of both queues over time, as the long flows see it, before, in and after a burst."""
    flows = {0: "Prague", 1: "CUBIC"}
    seeds = max(count_experiment_seeds(found, "questions-burst"), default=1)
    shown = found["burst_series"].with_columns(who=map_names("flow", flows), shown=map_names("web", BURSTS))
    tails = pl.concat(
        [
            shown.select("time_s", "shown", "who", delay=at, part=pl.format("{}, {}", "who", pl.lit(name)))
            for at, name in (("p95", "P95"), ("p50", "median"))
        ]
    )
    begin, end = BURST_S
    tail = Rows("tails", shown.with_columns(within=pl.col("time_s").is_between(begin + 0.5, end))).group(
        "web", "flow", "within", p95=("p95", "mean")
    )

    def find_growth(web: str, flow: int) -> float:
        return float(tail(web=web, flow=flow, within=True).p95.only / tail(web=web, flow=flow, within=False).p95.only)

    def find_answer() -> str | None:
        both = min(find_growth("prague", 0), find_growth("prague", 1), find_growth("cubic", 1))
        if both > 1.2 and find_growth("cubic", 0) < 1.05:
            return "Short Prague flows lengthen the tail of both queues, short CUBIC flows that of CUBIC alone"
        return None

    return figures.stacked_series(
        [
            Series(tails.filter(pl.col("who") == flows[0]), "delay", "part", "delay of Prague (L), ms"),
            Series(tails.filter(pl.col("who") == flows[1]), "delay", "part", "delay of CUBIC (C), ms"),
            Series(shown, "goodput", "who", "goodput, Mbit/s"),
        ],
        columns="shown",
        marks=[(begin, "burst"), (end, "end")],
        title=choose_title(find_answer, "A burst of short flows against both queues")
        + "\nDualPI2, 40 Mbit/s, 10 ms; burst of 100 short flows a second; delay: smoothed RTT less base RTT; "
        f"{seeds} seed{'s' * (seeds != 1)}",
    ).name_lines(solid=True)


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


def _collect_protection(found: Evidence, value: str, of: int, flows: dict[int, str]) -> pl.DataFrame:
    chosen = found["protection"].filter(pl.col("class") == of)
    loads = {rate: _load(rate) for rate in sorted(chosen["udp"].unique())}
    return compute_means(
        chosen.with_columns(flows=map_names("count", flows), load=map_names("udp", loads), share=100 * pl.col("share")),
        ["load", "flows", "protection"],
        value,
    )


def draw_protection_delay(found: Evidence) -> Picture:
    """Draw the delay of Prague over classic protection."""
    values = _collect_protection(found, "p99", 0, {1: "Prague, 1 flow", 8: "Prague, 8 flows"})
    means = Rows("delays", values)

    def find_answer() -> str | None:
        quiet, half, over = means(load=_load(0)), means(load=_load(20)), means(load=[_load(40), _load(60)])
        little = max(quiet.p99.max, half(protection=10).p99.max) < 3
        if little and min(half(protection=50).p99.min, over(protection=[5, 10]).p99.min) > 10:
            return "Classic protection delays Prague little until UDP fills what is left for L"
        return None

    return draw_means(
        values,
        "protection",
        "p99",
        by="flows",
        facet="load",
        columns=2,
        log_x=True,
        log_y=True,
        x_label="classic protection, %",
        y_label="P99 of Prague's delay, ms",
        title=choose_title(find_answer, "What classic protection costs the L queue")
        + f"\nDualPI2, 40 Mbit/s, 10 ms, one CUBIC flow in C; {describe_runs(values['n'], what='seed')}",
    ).name_lines()


def draw_protection_share(found: Evidence) -> Picture:
    """Draw what CUBIC has of the link over classic protection."""
    values = _collect_protection(found, "share", 1, {1: "CUBIC with 1 Prague", 8: "CUBIC with 8 Prague"})
    means = Rows("shares", values)

    def find_answer() -> str | None:
        over, calm = means(load=[_load(40), _load(60)]), means(load=[_load(0), _load(20)], protection=50)
        if over.share.max < 3 and calm.share.min > 40:
            return "Classic protection secures CUBIC's share, but not when UDP overloads the L queue"
        return None

    picture = draw_means(
        values,
        "protection",
        "share",
        by="flows",
        facet="load",
        columns=2,
        log_x=True,
        x_label="classic protection, %",
        y_label="CUBIC's share of the link, %",
        title=choose_title(find_answer, "What classic protection gives CUBIC")
        + f"\nDualPI2, 40 Mbit/s, 10 ms, one CUBIC flow; {describe_runs(values['n'], what='seed')}",
    )
    points = [float(share) for share in range(1, 51)]
    picture.draw_curve(points, points, "share protected")
    return picture.name_lines()


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


def draw_any_ect(found: Evidence) -> Picture:
    """Draw the goodput of both flows where ECN of a classic flow lands in either queue."""
    parts = []
    for (cc, second, mask), (title, *flows) in PAIRS.items():
        chosen = found["any_ect"].filter(
            pl.col("cc") == cc, pl.col("second") == second, pl.col("second_ecn"), pl.col("mask") == mask
        )
        names = pl.col("class").replace_strict(dict(enumerate(flows)), return_dtype=pl.String)
        parts.append(chosen.with_columns(pair=pl.lit(title), flow=names))
    every = pl.concat(parts)
    values = compute_means(every, ["pair", "flow", "rtt"], "goodput")

    def find_answer() -> str | None:
        starved, fair = (
            Rows("classic", values.filter(pl.col("flow").str.ends_with(f", ECN ({queue})"), pl.col("rtt") >= 10))
            for queue in "LC"
        )
        if starved.goodput.max < 5 < fair.goodput.min:
            return "A classic flow with ECN starves in the L queue, whichever flow is beside it"
        return None

    order = every["pair"].unique(maintain_order=True)
    picture = draw_means(
        values.with_columns(order_names("pair", order)),
        "rtt",
        "goodput",
        by="flow",
        facet="pair",
        columns=2,
        log_x=True,
        x_label="base RTT of both flows, ms",
        y_label="goodput, Mbit/s",
        title=choose_title(find_answer, "A classic flow with ECN in either queue")
        + f"\nDualPI2, 40 Mbit/s; {describe_runs(values['n'], what='seed')}",
    )
    return picture.name_lines(panels=list(picture.panels))


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
    medians = Rows("medians", middle)

    def find_answer() -> str | None:
        needed = medians(queue=FQ_CODEL).p99.min > 4 * medians(queue=[FQ_STEP, DUALPI2]).p99.max
        return "FQ-CoDel needs ce_threshold to keep Prague's queue short" if needed else None

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
        title=choose_title(find_answer, "How long Prague's packets wait")
        + f"\nOne CUBIC flow and short flows beside Prague; {describe_runs(middle['n'], 'median', what='seed')}",
    ).name_lines(NAMES)


def draw_fq_short(found: Evidence) -> Picture:
    """Draw the slow-down of short flows by size."""
    shown = found["short"].with_columns(
        order_names("queue", KINDS), shown=map_names("web", WEB), size=pl.col("from_bytes") / 1e3
    )

    def find_answer() -> str | None:
        means = Rows("means", found["short"])(web="cubic")
        sooner = means(queue=DUALPI2).mean.min > 1.3 * means(queue=[FQ_CODEL, FQ_STEP]).mean.max
        return "Short flows without ECN finish sooner over FQ-CoDel than over DualPI2" if sooner else None

    return figures.lines(
        shown.sort("shown", "queue", "size"),
        "size",
        "mean",
        low="mean_low",
        high="mean_high",
        by="queue",
        facet="shown",
        log_x=True,
        x_label="size of the short flow, kB (lower end of each class of sizes)",
        y_label="completion time / ideal",
        title=choose_title(find_answer, "Completion time of short flows")
        + "\nIdeal: size / rate + base RTT; 40 Mbit/s, 10 ms, 10 short flows a second; "
        f"{describe_runs(count_experiment_seeds(found, 'questions-fq'), what='seed')}",
    ).name_lines(NAMES)


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
    """Return links with names of their rates and of their flows, in order."""
    rates = {
        rate: f"{rate:g} Mbit/s" if rate < 1000 else f"{rate / 1000:g} Gbit/s"
        for rate in sorted(frame["rate"].unique())
    }
    return frame.with_columns(rate=map_names("rate", rates), shown=map_names("flows", TRAFFIC))


def draw_stability(found: Evidence) -> Picture:
    """Draw how much the delay of the C queue swings."""
    held = pl.when(pl.col("mean") >= HELD * TARGET_MS).then(100 * pl.col("swing"))
    swings = found["swings"].with_columns(held=held)

    def find_answer() -> str | None:
        many = Rows("many", swings.filter(pl.col("flows") >= 10, pl.col("rate") >= 40, pl.col("held").is_not_null()))
        if many(rtt=[1, 2, 5, 10, 20, 50]).held.max < 30 < many(rtt=200).held.min:
            return "From 40 Mbit/s on the queue of 10 or 100 CUBIC flows swings at 200 ms, and hardly up to 50 ms"
        return None

    return figures.heat(
        _collect_rates(swings),
        "rtt",
        "rate",
        "held",
        facet="shown",
        columns=3,
        kind="plain",
        decimals=0,
        x_label="base RTT, ms",
        y_label="",
        label="",
        title=choose_title(find_answer, "How much the C queue's delay swings")
        + "\nStandard deviation of the C queue's delay, % of the target of 15 ms; one seed; "
        "blank: the flows do not fill the link",
    )


def draw_phase_margins(found: Evidence) -> Picture:
    """Draw the phase margins that the linear model has for the same links; below 0 the loop is unstable."""

    def find_answer() -> str | None:
        margins = Rows("margins", found["margins"].filter(pl.col("phase").is_not_null()))
        fast = Rows("fast", margins.frame.filter(pl.col("rate") >= 40))
        if margins(rtt=[1, 2, 5, 10, 20, 50]).phase.min > 0 > fast(rtt=200).phase.max:
            return "In the linear model the queue is stable up to 50 ms, and unstable at 200 ms from 40 Mbit/s on"
        return None

    return figures.heat(
        _collect_rates(found["margins"]),
        "rtt",
        "rate",
        "phase",
        facet="shown",
        columns=3,
        kind="margin",
        decimals=0,
        x_label="base RTT, ms",
        y_label="",
        label="phase margin, degrees",
        title=choose_title(find_answer, "Phase margin of the linear model")
        + "\nPhase margin in degrees; below 0 (red): unstable; blank: windows below 2 segments",
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
