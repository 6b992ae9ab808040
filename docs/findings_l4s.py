"""Figures and tables of docs/findings/dualpi2.md, from experiments/l4s/questions-*.toml and stability.toml.

python docs/findings_l4s.py RESULTS FOLDER

Prints the tables; the figures are written into FOLDER.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pi2_margins
import polars as pl
import questions
from questions import means, named

from dumbbell import figures, units
from dumbbell.errors import InputError
from dumbbell.figures import Picture, Series
from dumbbell.tables import aligned

TARGET_MS = 1e3 * pi2_margins.TARGET
HELD = 1 / 3  # of the target; a mean delay below it is no queue that a controller holds
EXPERIMENTS = (
    "questions-rtt",
    "questions-burst",
    "questions-protection",
    "questions-any-ect",
    "questions-fq",
    "stability",
)
DUALPI2, FQ_CODEL, FQ_STEP = "DualPI2", "FQ-CoDel", "FQ-CoDel, ce_threshold 1 ms"


class Found(questions.Found):
    """Runs of the experiments of this page."""

    def __init__(self, path: str) -> None:
        super().__init__(path, EXPERIMENTS, _place)


def _place(row: dict[str, Any]) -> dict[str, Any]:
    config = json.loads(row["config"])
    first, second = config["flows"]
    aqm, web, udp = config["bottleneck"]["aqm"], config["web"], config["udp"]
    ce_threshold = aqm.get("ce_threshold")
    return {
        "key": row["key"],
        "seed": row["seed"],
        "experiment": row["experiment"],
        "duration": config["duration"] / 1e9,
        "rate": config["bottleneck"]["rate"] / 1e6,
        "rtt": first["base_rtt"] / 1e6,
        "second_rtt": second["base_rtt"] / 1e6,
        "cc": first["cc"]["name"],
        "version": first["cc"].get("version"),
        "count": first["count"],
        "flows": sum(flow["count"] for flow in config["flows"]),
        "second": second["cc"]["name"],
        "second_ecn": second["ecn"] is not False,
        "aqm": DUALPI2 if aqm["name"] == "dualpi2" else FQ_STEP if ce_threshold else FQ_CODEL,
        "protection": aqm.get("classic_protection"),
        "mask": aqm.get("ecn_mask"),
        "web": web[0]["cc"]["name"] if web else None,
        "arrivals": web[0]["arrivals"].get("per_mbit", 0.0) if web else None,
        "web_start": web[0]["start"]["min"] / 1e9 if web else None,
        "udp": udp[0]["rate"] / 1e6 if udp else None,
        "rate_ratio": row["rate_ratio"],
        "utilisation": row["utilisation"],
    }


# 1


def rtt(found: Found) -> Picture:
    """Draw the ratio of rates over the base RTT of both flows."""
    ratios = means(found.of("questions-rtt"), ["version", "rtt", "second_rtt"], "rate_ratio")
    equal = ratios.filter(pl.col("rtt") == pl.col("second_rtt")).with_columns(shown=pl.format("Prague {}", "version"))
    picture = figures.lines(
        equal,
        "rtt",
        "rate_ratio",
        low="low",
        high="high",
        by="shown",
        log_x=True,
        x_label="base RTT of both, ms",
        y_label="rate of Prague over that of CUBIC",
        title="40 Mbit/s; mean, least and largest of 3 runs",
    )
    picture.level(1)
    return picture


def rtt_map(found: Found) -> Picture:
    """Draw the ratio of rates as a map over both RTTs."""
    ratios = means(found.of("questions-rtt"), ["version", "rtt", "second_rtt"], "rate_ratio")
    return figures.heat(
        ratios.with_columns(shown=pl.format("Prague {}", "version")),
        "second_rtt",
        "rtt",
        "rate_ratio",
        facet="shown",
        kind="ratio",
        x_label="base RTT of CUBIC, ms",
        y_label="base RTT of Prague, ms",
        label="rate of Prague over that of CUBIC",
    )


# 2

LOADS = {0.25: "low (10 flows/s)", 2.5: "high (100 flows/s)", 7.5: "three times high"}
WEB = {"prague": "short flows are Prague", "cubic": "short flows are CUBIC, no ECN"}
BEFORE = 10.0  # s of a figure ahead of the burst, and behind it


def burst(found: Found) -> Picture:
    """Draw the delay of both queues over time, as the long flows see it, before, in and after a burst."""
    runs = found.of("questions-burst").filter(
        pl.col("aqm") == DUALPI2, pl.col("arrivals") == 2.5, pl.col("web_start") == 20, pl.col("seed") == 1
    )
    series = found.series(runs).filter(pl.col("flow") < 2, pl.col("time_s").is_between(20 - BEFORE, 30 + BEFORE))
    delays = series.with_columns(
        delay=pl.col("srtt_ms") - pl.col("rtt"),
        flow=named("flow", {0: "Prague (L queue)", 1: "CUBIC (C queue)"}),
        shown=named("web", WEB),
    )
    return figures.stacked_series(
        [
            Series(delays, "delay", "flow", "smoothed RTT - base RTT, ms"),
            Series(delays.filter(pl.col("flow") == "Prague (L queue)"), "delay", "flow", "the same, Prague alone"),
            Series(delays, "goodput_mbit", "flow", "goodput, Mbit/s"),
        ],
        columns="shown",
        marks=[(20.0, "burst"), (30.0, "end")],
        title="40 Mbit/s, 10 ms, 100 short flows a second for 10 s, no delayed ACKs",
    )


def burst_table(found: Found) -> str:
    """Return percentiles of the delay of each class while short flows come."""
    runs = found.of("questions-burst").filter(pl.col("web_start") == 0)
    shown = ("sojourn_p50_ms", "sojourn_p99_ms", "sojourn_p999_ms")
    values = means(found.members(runs), ["aqm", "web", "arrivals", "class"], *shown)
    header = ["queue", "short flows", "load", "Prague P50 / P99 / P99.9, ms", "CUBIC", "short flows"]
    rows = []
    for (aqm, web, load), cells in values.group_by(["aqm", "web", "arrivals"], maintain_order=True):
        each = {row["class"]: " / ".join(f"{row[name]:.2g}" for name in shown) for row in cells.iter_rows(named=True)}
        name = LOADS.get(float(str(load)), "none")
        if name == "none" and web == "cubic":
            continue
        rows.append([str(aqm), str(web), name, each[0], each[1], each.get(2, "") if name != "none" else ""])
    return aligned(header, rows, words=(0, 1, 2))


# 3


def _protection(found: Found) -> pl.DataFrame:
    runs = found.of("questions-protection")
    classes = found.members(runs).with_columns(
        share=100 * pl.col("total_throughput_mbit") / pl.col("rate"),
        shown=named("count", {1: "1 Prague, 1 CUBIC", 8: "8 Prague, 1 CUBIC"}),
    )
    rates = sorted(classes["udp"].unique())
    names = {rate: "no UDP" if rate < 0.1 else f"UDP in L: {rate:g} Mbit/s" for rate in rates}
    return classes.with_columns(load=named("udp", names))


def protection_delay(found: Found) -> Picture:
    """Draw the delay of Prague over classic protection."""
    prague = _protection(found).filter(pl.col("class") == 0)
    return figures.lines(
        means(prague, ["shown", "load", "protection"], "sojourn_p99_ms"),
        "protection",
        "sojourn_p99_ms",
        low="low",
        high="high",
        by="load",
        facet="shown",
        log_x=True,
        log_y=True,
        x_label="classic protection, %",
        y_label="time in queue of Prague, P99, ms",
    )


def protection_share(found: Found) -> Picture:
    """Draw what CUBIC has of the link over classic protection."""
    cubic = _protection(found).filter(pl.col("class") == 1)
    picture = figures.lines(
        means(cubic, ["shown", "load", "protection"], "share"),
        "protection",
        "share",
        low="low",
        high="high",
        by="load",
        facet="shown",
        log_x=True,
        x_label="classic protection, %",
        y_label="CUBIC's share of the link, %",
    )
    points = [float(share) for share in range(1, 51)]
    picture.curve(points, points, "what is protected")
    return picture.arrange()


# 4

PAIRS = {
    ("prague", "cubic", True, "l4s_ect"): "Prague, CUBIC+ECN in C",
    ("prague", "cubic", True, "any_ect"): "Prague, CUBIC+ECN in L",
    ("prague", "reno", True, "any_ect"): "Prague, Reno+ECN in L",
    ("cubic", "cubic", True, "any_ect"): "CUBIC in C, CUBIC+ECN in L",
}


def _pairs(found: Found) -> pl.DataFrame:
    pairs = [
        found.of("questions-any-ect")
        .filter(pl.col("cc") == cc, pl.col("second") == second, pl.col("second_ecn") == ecn, pl.col("mask") == mask)
        .with_columns(pair=pl.lit(name))
        for (cc, second, ecn, mask), name in PAIRS.items()
    ]
    classes = found.members(pl.concat(pairs))
    return classes.with_columns(pl.col("pair").cast(pl.Enum(list(PAIRS.values()))))


def any_ect(found: Found) -> Picture:
    """Draw the goodput of both flows where ECN of a classic flow lands in either queue."""
    values = means(_pairs(found), ["pair", "rtt", "class"], "goodput_mbit").with_columns(
        named("class", {0: "first flow", 1: "second flow"}), rtt=pl.format("{} ms", pl.col("rtt").cast(pl.Int64))
    )
    order = [f"{value} ms" for value in sorted({int(text.split()[0]) for text in values["rtt"]})]
    return figures.bars(
        values.with_columns(pl.col("rtt").cast(pl.Enum(order))),
        "rtt",
        "goodput_mbit",
        low="low",
        high="high",
        group="class",
        facet="pair",
        columns=2,
        x_label="base RTT of both",
        y_label="goodput, Mbit/s",
        title="40 Mbit/s; mean, least and largest of 3 runs",
    )


def any_ect_table(found: Found) -> str:
    """Return share of marks and window of the second flow, beside the window that Reno-friendly CUBIC has at it."""
    second = _pairs(found).filter(pl.col("class") == 1, pl.col("pair") == "Prague, CUBIC+ECN in L")
    second = second.with_columns(window=pl.col("window_kb") * 1e3 / 1514)
    rows = []
    for row in means(second, ["rtt"], "mark_share", "window", "goodput_mbit", "sojourn_mean_ms").iter_rows(named=True):
        friendly = (3 / (1 + pi2_margins.CUBIC_KEEPS) / row["mark_share"]) ** 0.5
        cells = [
            f"{100 * row['mark_share']:.1f}",
            f"{row['window']:.1f}",
            f"{friendly:.1f}",
            f"{row['goodput_mbit']:.1f}",
        ]
        rows.append([f"{row['rtt']:g} ms", *cells, f"{row['sojourn_mean_ms']:.2f}"])
    header = ["base RTT", "marked, %", "window", "sqrt(1.76 / p)", "goodput, Mbit/s", "time in queue, ms"]
    return aligned(header, rows)


# 5

KINDS = [DUALPI2, FQ_CODEL, FQ_STEP]


def fq_delay(found: Found) -> Picture:
    """Draw the delay of Prague beside a CUBIC flow and short flows."""
    runs = found.of("questions-fq").filter(pl.col("web") == "prague")
    prague = found.members(runs).filter(pl.col("class") == 0)
    values = means(prague, ["aqm", "rate", "rtt"], "sojourn_p99_ms")
    return figures.lines(
        values.with_columns(
            pl.col("aqm").cast(pl.Enum(KINDS)), rate=pl.format("{} Mbit/s", pl.col("rate").cast(pl.Int64))
        ),
        "rtt",
        "sojourn_p99_ms",
        low="low",
        high="high",
        by="aqm",
        facet="rate",
        log_x=True,
        log_y=True,
        x_label="base RTT, ms",
        y_label="time in queue of Prague, P99, ms",
    )


def fq_short(found: Found) -> Picture:
    """Draw the slow-down of short flows by size."""
    runs = found.of("questions-fq").filter(pl.col("rate") == 40, pl.col("rtt") == 10)
    slow = runs.join(found.results.frame("slowdowns"), on="key").with_columns(size=pl.col("from_bytes") / 1e3)
    values = means(slow, ["aqm", "web", "size"], "slowdown_mean")
    return figures.lines(
        values.with_columns(pl.col("aqm").cast(pl.Enum(KINDS)), shown=named("web", WEB)),
        "size",
        "slowdown_mean",
        low="low",
        high="high",
        by="aqm",
        facet="shown",
        log_x=True,
        x_label="size of short flows from this on, kB",
        y_label="slow-down, mean",
        title="40 Mbit/s, 10 ms, low load; slow-down: completion time over size/rate + base RTT",
    )


def fq_table(found: Found) -> str:
    """Return ratio of rates and delays of the three queues."""
    runs = found.of("questions-fq").filter(pl.col("web") == "prague", pl.col("rate") == 40)
    ratios = means(runs, ["aqm", "rtt"], "rate_ratio", "utilisation")
    delays = means(found.members(runs), ["aqm", "rtt", "class"], "sojourn_mean_ms", "sojourn_p99_ms")
    rows = []
    for kind in KINDS:
        for row in ratios.filter(pl.col("aqm") == kind).iter_rows(named=True):
            here = delays.filter(pl.col("aqm") == kind, pl.col("rtt") == row["rtt"]).sort("class")
            cells = [
                f"{one['sojourn_mean_ms']:.3g} / {one['sojourn_p99_ms']:.3g}" for one in here.iter_rows(named=True)
            ]
            rows.append([kind, f"{row['rtt']:g}", f"{row['rate_ratio']:.2f}", f"{row['utilisation']:.3f}", *cells])
    head = ["queue", "RTT, ms", "Prague / CUBIC", "utilisation", "Prague, mean / P99 ms", "CUBIC", "short flows"]
    return aligned(head, rows)


# 6

TRAFFIC = {2: "1 Prague, 1 CUBIC", 10: "10 CUBIC", 100: "100 CUBIC"}


def swings(found: Found) -> pl.DataFrame:
    """Return mean and standard deviation of the delay of the C queue in the second half of every run.

    CUBIC alone: from the queue's own series. Beside Prague that counts both queues: there it is CUBIC's smoothed RTT
    less the base RTT.
    """
    runs = found.of("stability")
    alone, beside = runs.filter(pl.col("cc") == "cubic"), runs.filter(pl.col("cc") == "prague")
    queue = found.series(alone, "queue_series").with_columns(delay=pl.col("sojourn_mean_ms"))
    flow = found.series(beside).filter(pl.col("flow") == 1).with_columns(delay=pl.col("srtt_ms") - pl.col("rtt"))
    both = pl.concat([queue, flow], how="diagonal_relaxed").filter(pl.col("time_s") > pl.col("duration") / 2)
    swing = both.group_by("rate", "rtt", "flows").agg(
        mean=pl.col("delay").mean(), swing=pl.col("delay").std() / TARGET_MS
    )
    held = pl.when(pl.col("mean") >= HELD * TARGET_MS).then(pl.col("swing"))
    return swing.with_columns(held=held, shown=named("flows", TRAFFIC))


def _rates(frame: pl.DataFrame) -> pl.DataFrame:
    order = [units.show("rate", int(1e6 * rate)) for rate in sorted(frame["rate"].unique())]
    shown = pl.col("rate").map_elements(lambda rate: units.show("rate", int(1e6 * rate)), return_dtype=pl.String)
    return frame.with_columns(rate=shown.cast(pl.Enum(order)))


def stability(found: Found) -> Picture:
    """Draw how much the delay of the C queue swings."""
    return figures.heat(
        _rates(swings(found)),
        "rtt",
        "rate",
        "held",
        facet="shown",
        kind="plain",
        x_label="base RTT, ms",
        y_label="rate",
        label="standard deviation over target",
        title="Delay of the C queue; grey: on average below a third of the target",
    )


def phase_margins(found: Found) -> Picture:
    """Draw the phase margins that the linear model has for the same links."""
    places = found.of("stability").filter(pl.col("cc") == "cubic").select("rate", "rtt", "flows").unique()
    margins = [
        None if one is None else one.phase_deg
        for one in (
            pi2_margins.of_link(1e6 * rate, rtt / 1e3, flows)
            for rate, rtt, flows in places.select("rate", "rtt", "flows").iter_rows()
        )
    ]
    shown = places.with_columns(
        margin=pl.Series(margins, dtype=pl.Float64), shown=named("flows", {10: "10 CUBIC", 100: "100 CUBIC"})
    )
    return figures.heat(
        _rates(shown),
        "rtt",
        "rate",
        "margin",
        facet="shown",
        x_label="base RTT, ms",
        y_label="rate",
        label="phase margin, degrees",
        title="Linear model; grey: fair windows below 2 segments",
    )


def rtt_table(found: Found) -> str:
    """Return the ratios of Prague 0.7 and 0.6 at equal RTT."""
    ratios = means(found.of("questions-rtt"), ["version", "rtt", "second_rtt"], "rate_ratio")
    equal = ratios.filter(pl.col("rtt") == pl.col("second_rtt"))
    rows = [
        [f"Prague {version}", *(f"{ratio:.2f}" for ratio in part.sort("rtt")["rate_ratio"])]
        for (version,), part in equal.group_by(["version"], maintain_order=True)
    ]
    return aligned(["", *(f"{value:g} ms" for value in sorted(equal["rtt"].unique()))], rows)


def protection_table(found: Found) -> str:
    """Return goodput and delays over classic protection."""
    values = means(
        _protection(found), ["count", "load", "protection", "class"], "share", "sojourn_mean_ms", "sojourn_p99_ms"
    )
    rows = []
    for (count, load, share), part in values.group_by(["count", "load", "protection"], maintain_order=True):
        each = {row["class"]: row for row in part.iter_rows(named=True)}
        cells = [
            f"{row['share']:.1f} %, {row['sojourn_mean_ms']:.2g} / {row['sojourn_p99_ms']:.2g}" for row in each.values()
        ]
        rows.append([f"{count} Prague", str(load), f"{share}", *cells])
    return aligned(["", "", "protection, %", "Prague: share, mean / P99 ms", "CUBIC", "UDP"], rows, words=(0, 1))


def swing_table(found: Found) -> str:
    """Return period and strength of the largest swing of 100 CUBIC flows, beside what the linear model has."""
    runs = found.of("stability").filter(pl.col("flows") == 100, pl.col("rate") >= 100, pl.col("rtt") >= 50)
    rows = []
    series = found.series(runs, "queue_series").filter(pl.col("time_s") > pl.col("duration") / 2).sort("time_s")
    for (rate, rtt), part in series.group_by(["rate", "rtt"], maintain_order=True):
        delays, times = part["sojourn_mean_ms"].to_numpy(), part["time_s"].to_numpy()
        power = np.abs(np.fft.rfft(delays - delays.mean())) ** 2
        periods = 1 / np.fft.rfftfreq(len(delays), times[1] - times[0])[1:]
        largest = int(np.argmax(power[1:]))
        within = np.abs(np.log(periods / periods[largest])) < math.log(1.25)
        share = float(power[1:][within].sum() / power[1:].sum())
        model = pi2_margins.of_link(1e6 * float(rate), float(rtt) / 1e3, 100)
        if model is None or delays.mean() < HELD * TARGET_MS:
            continue
        cells = [
            f"{delays.mean():.1f}",
            f"{delays.std() / TARGET_MS:.2f}",
            f"{periods[largest]:.1f}",
            f"{100 * share:.0f}",
        ]
        theory = [f"{model.phase_deg:.0f}", f"{model.period_s:.1f}"]
        rows.append([f"{rate:g} Mbit/s", f"{rtt:g}", *cells, *theory])
    header = ["", "RTT, ms", "mean, ms", "deviation / target", "period, s", "within 25 % of it, % of power"]
    return aligned(
        [*header, "model: phase margin", "period, s"],
        sorted(rows, key=lambda row: (float(row[1]), float(row[0].split()[0]))),
    )


def short_table(found: Found) -> str:
    """Return mean and P99 of the slow-down of short flows of some sizes."""
    runs = found.of("questions-fq").filter(pl.col("rate") == 40, pl.col("rtt") == 10)
    slow = runs.join(found.results.frame("slowdowns"), on="key")
    values = means(slow, ["web", "aqm", "from_bytes"], "slowdown_mean", "slowdown_p99")
    sizes = [1000, 10_000, 50_000, 200_000]
    rows = []
    for web, name in WEB.items():
        for kind in KINDS:
            here = values.filter(pl.col("web") == web, pl.col("aqm") == kind)
            of = {row["from_bytes"]: row for row in here.iter_rows(named=True)}
            cells = [
                f"{of[size]['slowdown_mean']:.1f} / {of[size]['slowdown_p99']:.1f}" if size in of else ""
                for size in sizes
            ]
            rows.append([name, kind, *cells])
    return aligned(["", "queue", *(f"from {size // 1000} kB" for size in sizes)], rows, words=(0, 1))


FIGURES: dict[str, Callable[[Found], Picture]] = {
    "rtt": rtt,
    "rtt-map": rtt_map,
    "burst": burst,
    "protection-delay": protection_delay,
    "protection-share": protection_share,
    "any-ect": any_ect,
    "fq-delay": fq_delay,
    "fq-short": fq_short,
    "stability": stability,
    "margins": phase_margins,
}
TABLES: dict[str, Callable[[Found], str]] = {
    "1. Prague over CUBIC at equal RTT": rtt_table,
    "2. Time in queue with short flows": burst_table,
    "3. Classic protection": protection_table,
    "4. CUBIC with ECN in the L queue": any_ect_table,
    "5. DualPI2 and FQ-CoDel": fq_table,
    "5. Slow-down of short flows, mean / P99": short_table,
    "6. Swings of 100 CUBIC flows": swing_table,
}


def main(path: str, folder: str) -> None:
    """Print the tables and draw the figures."""
    found = Found(path)
    print("\n\n".join(f"## {title}\n\n{table(found)}" for title, table in TABLES.items()))
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        print(figures.save(draw(found), Path(folder) / f"l4s-{name}.png"), file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except InputError as error:
        sys.exit(str(error))
