"""The small tables that the page rests on, from runs of its experiments."""

import math
from collections.abc import Callable

import numpy as np
import polars as pl

from dumbbell.study import Nothing, Results, shipped

from . import pi2_margins

TARGET_MS = 1e3 * pi2_margins.TARGET
HELD = 1 / 3  # of the target; a mean delay below it is no queue that a controller holds
EXPERIMENTS = (
    "questions-rtt",
    "questions-rtt-rates",
    "questions-rtt-step",
    "questions-burst",
    "questions-protection",
    "questions-any-ect",
    "questions-fq",
    "stability",
)
DUALPI2, FQ_CODEL, FQ_STEP = "DualPI2", "FQ-CoDel", "FQ-CoDel, ce_threshold 1 ms"
BURST_S = (20.0, 30.0)  # of the figure
BEFORE_S = 10.0  # that it shows ahead of the burst, and behind it


KEYS = {
    "duration": "duration", "rate": "bottleneck.rate", "rtt": "flows[0].base_rtt",
    "second_rtt": "flows[1].base_rtt", "cc": "flows[0].cc.name", "version": "flows[0].cc.version",
    "count": "flows[0].count", "second_count": "flows[1].count", "second": "flows[1].cc.name",
    "second_ecn": "flows[1].ecn", "aqm": "bottleneck.aqm.name", "threshold": "bottleneck.aqm.ce_threshold",
    "protection": "bottleneck.aqm.classic_protection", "mask": "bottleneck.aqm.ecn_mask",
    "step": "bottleneck.aqm.step_thresh", "web": "web[0].cc.name", "arrivals": "web[0].arrivals",
    "web_start": "web[0].start", "udp": "udp[0].rate",
}  # fmt: skip


def collect_runs(results: Results) -> pl.DataFrame:
    """Return the runs of this page's experiments with what tells them apart; raises InputError if there are none."""
    runs = results.tidy("runs", KEYS).filter(pl.col("experiment").is_in(EXPERIMENTS))
    if runs.is_empty():
        raise Nothing("no run of this study", "results of dualpi2/*", file=results.path)
    fq = pl.when(pl.col("threshold").is_null()).then(pl.lit(FQ_CODEL)).otherwise(pl.lit(FQ_STEP))
    return runs.select(
        *("key", "seed", "experiment", *(key for key in KEYS if key not in ("aqm", "threshold", "second_count"))),
        "utilisation",
        ratio="rate_ratio",
    ).with_columns(
        runs.select(
            version=pl.format("Prague {}", pl.col("version").fill_null("None")),
            flows=pl.col("count") + pl.col("second_count"),
            second_ecn=pl.col("second_ecn").fill_null(True),
            queue=pl.when(pl.col("aqm") == "dualpi2").then(pl.lit(DUALPI2)).otherwise(fq),
            arrivals=pl.col("arrivals")
            .cast(pl.String)
            .str.extract(r"^([\d.]+)")
            .cast(pl.Float64),  # a second and Mbit/s, or none
        )
    )


def _collect_delays(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return goodput, delays, marks and window of each class, one row per run and class."""
    columns = ["mean", "p50", "p99", "p999"]
    kept = {name: f"sojourn_{name}_ms" for name in columns}
    return rows.select(
        *by,
        "class",
        "seed",
        **kept,
        goodput=pl.col("goodput_mbit"),
        share=pl.col("total_throughput_mbit") / pl.col("rate"),
        marks=pl.col("mark_share"),
        window=pl.col("window_kb") * 1e3 / 1514,
    ).sort(*by, "class", "seed", nulls_last=True)


def make_evidence(results: Results) -> dict[str, Callable[[], pl.DataFrame]]:
    """Return what the page rests on; each table is made when it is asked for, from the runs that it needs."""
    runs = collect_runs(results)
    classes = results.frame("classes").drop("cc", strict=False)

    def select_experiments(*names: str) -> pl.DataFrame:
        for name in names:
            if runs.filter(pl.col("experiment") == name).is_empty():
                raise Nothing(f"no runs of {name}", f"results of dualpi2/{name}", file=results.path)
        return runs.filter(pl.col("experiment").is_in(names))

    def make_rtt() -> pl.DataFrame:
        # a run that both experiments have is in the store once, so these are chosen by what they are
        both = select_experiments("questions-rtt", "questions-rtt-rates")
        alone = both.filter(pl.col("rate") == 40, pl.col("flows") == 2, ~pl.col("second_ecn"))
        columns = ("version", "rtt", "second_rtt", "seed")
        return alone.select(*columns, "ratio").sort(columns)

    def make_rates() -> pl.DataFrame:
        newest = select_experiments("questions-rtt", "questions-rtt-rates").filter(
            pl.col("version") == "Prague 0.7",
            pl.col("second_rtt") == 20,
            pl.col("rtt").is_in([1.0, 5.0, 10.0, 20.0, 50.0, 100.0]),
        )
        prague = newest.join(classes.filter(pl.col("class") == 0), on="key")
        rows = prague.select("rate", "rtt", "count", "second_ecn", "seed", "ratio", prague=pl.col("goodput_mbit"))
        return rows.sort("rate", "count", "second_ecn", "rtt", "seed")

    def make_steps() -> pl.DataFrame:
        prague = select_experiments("questions-rtt-step").join(classes.filter(pl.col("class") == 0), on="key")
        rows = prague.select("step", "rtt", "seed", "ratio", prague=pl.col("goodput_mbit"))
        return rows.sort("step", "rtt", "seed")

    def make_burst() -> pl.DataFrame:
        rows = select_experiments("questions-burst").filter(pl.col("web_start") == 0).join(classes, on="key")
        shown = ("web", "arrivals", "class", "seed", "p50", "p99", "p999", "goodput")
        return _collect_delays(rows, "web", "arrivals").select(shown)

    def make_protection() -> pl.DataFrame:
        rows = select_experiments("questions-protection").join(classes, on="key")
        by = ("count", "udp", "protection")
        return _collect_delays(rows, *by).select(*by, "class", "seed", "mean", "p99", "share", "goodput")

    def make_any_ect() -> pl.DataFrame:
        rows = select_experiments("questions-any-ect").join(classes, on="key")
        by = ("cc", "second", "second_ecn", "mask", "rtt")
        return _collect_delays(rows, *by).select(*by, "class", "seed", "goodput", "marks", "window", "mean")

    def make_fq() -> pl.DataFrame:
        return select_experiments("questions-fq").filter(pl.col("web") == "prague")

    def make_short() -> pl.DataFrame:
        slow = select_experiments("questions-fq").filter(pl.col("rate") == 40, pl.col("rtt") == 10)
        by = ("queue", "web", "from_bytes")
        means = (
            slow.join(results.frame("slowdowns"), on="key")
            .group_by(by)
            .agg(
                mean=pl.col("slowdown_mean").mean(),
                mean_low=pl.col("slowdown_mean").min(),
                mean_high=pl.col("slowdown_mean").max(),
                p99=pl.col("slowdown_p99").mean(),
            )
        )
        return means.sort("web", "queue", "from_bytes")

    place = ("queue", "rate", "rtt", "seed")
    return {
        "rtt": make_rtt,
        "rates": make_rates,
        "steps": make_steps,
        "burst": make_burst,
        "burst_series": lambda: _collect_burst_series(results, select_experiments("questions-burst")),
        "protection": make_protection,
        "any_ect": make_any_ect,
        "fq": lambda: make_fq().select(*place, "ratio", "utilisation").sort(place),
        "fq_delay": lambda: _collect_delays(make_fq().join(classes, on="key"), "queue", "rate", "rtt").select(
            "queue", "rate", "rtt", "class", "seed", "mean", "p99"
        ),
        "short": make_short,
        "swings": lambda: _measure_swings(results, select_experiments("stability")),
        "margins": lambda: _compute_margins(select_experiments("stability")),
        "linux": _read_linux,
    }


def _read_linux() -> pl.DataFrame:
    """Return the ratio of Prague 0.7 to CUBIC with ECN at 40 Mbit/s on Linux 6.18, by RTT and seed."""
    rows = pl.read_csv(shipped.list_references()["linux-6.18-l4s"], infer_schema_length=None)
    own, others = (pl.col("flows.base_rtt").shift(place).str.strip_suffix("ms") for place in (0, -1))
    goodput = pl.col("goodput_mbit")
    chosen = rows.select(
        "flow",
        "seed",
        pl.col("bottleneck.rate", "hosts.ecn"),
        ccs=pl.col("flows.cc") + "+" + pl.col("flows.cc").shift(-1),
        last=pl.col("flow").shift(-1),
        rtt=pl.when(own == others).then(own).otherwise(own + "+" + others),
        ratio=goodput / goodput.shift(-1),
    ).filter(
        pl.col("flow") == 0,
        pl.col("last") == 1,
        pl.col("ccs") == "prague+cubic",
        pl.col("bottleneck.rate") == "40Mbit",
        pl.col("hosts.ecn").cast(pl.String) == "true",
    )
    return chosen.select("rtt", "seed", "ratio").sort("rtt", "seed")


def _select_series(results: Results, runs: pl.DataFrame, table: str = "series") -> pl.DataFrame:
    return runs.join(results.with_keys(runs["key"]).frame(table), on="key")


def _collect_burst_series(results: Results, runs: pl.DataFrame) -> pl.DataFrame:
    """Return 5 %, 50 % and 95 % of each flow's delay in half seconds over all seeds, and its mean goodput."""
    begin, end = BURST_S
    chosen = runs.filter(pl.col("arrivals") == 2.5, pl.col("web_start") == begin)
    series = _select_series(results, chosen).filter(
        pl.col("flow") < 2, pl.col("time_s").is_between(begin - BEFORE_S, end + BEFORE_S)
    )
    delay = pl.col("srtt_ms") - pl.col("rtt")
    return (
        series.with_columns(delay=delay, time_s=(pl.col("time_s") * 2).ceil() / 2)
        .group_by("web", "flow", "time_s")
        .agg(
            p5=pl.col("delay").quantile(0.05),
            p50=pl.col("delay").quantile(0.5),
            p95=pl.col("delay").quantile(0.95),
            goodput=pl.col("goodput_mbit").mean(),
        )
        .sort("web", "flow", "time_s")
    )


def _measure_swings(results: Results, runs: pl.DataFrame) -> pl.DataFrame:
    """Return mean, deviation over target and largest swing of the C queue's delay in the second half of each run.

    CUBIC alone: from the queue's own series. With Prague that counts both queues: there it is CUBIC's smoothed RTT
    less the base RTT, and no period is given. `period` is that of the strongest frequency, `within` the share of the
    power within 25 % of it.
    """
    queue = _select_series(results, runs.filter(pl.col("cc") == "cubic"), "queue_series")
    queue = queue.with_columns(delay=pl.col("sojourn_mean_ms"))
    flow = _select_series(results, runs.filter(pl.col("cc") == "prague")).filter(pl.col("flow") == 1)
    flow = flow.with_columns(delay=pl.col("srtt_ms") - pl.col("rtt"))
    both = pl.concat([queue, flow], how="diagonal_relaxed").filter(pl.col("time_s") > pl.col("duration") / 2)
    rows = []
    for (rate, rtt, flows, cc), part in both.sort("time_s").group_by(
        ["rate", "rtt", "flows", "cc"], maintain_order=True
    ):
        delays, times = part["delay"].fill_nan(None).drop_nulls().to_numpy(), part["time_s"].to_numpy()
        period = within = None
        if cc == "cubic" and len(delays) == len(times) > 4 and times[1] > times[0] and delays.std() > 0:
            power = np.abs(np.fft.rfft(delays - delays.mean()))[1:] ** 2
            periods = 1 / np.fft.rfftfreq(len(delays), times[1] - times[0])[1:]
            period = float(periods[int(np.argmax(power))])
            near = np.abs(np.log(periods / period)) < math.log(1.25)
            within = float(power[near].sum() / power.sum())
        swing = {"mean": float(delays.mean()), "swing": float(delays.std() / TARGET_MS)} if len(delays) else {}
        rows.append({"rate": rate, "rtt": rtt, "flows": flows, **swing, "period": period, "within": within})
    return pl.DataFrame(rows, infer_schema_length=None).sort("flows", "rate", "rtt")


def _compute_margins(runs: pl.DataFrame) -> pl.DataFrame:
    """Return phase margins and periods that the linear model has for the links of CUBIC alone."""
    places = runs.filter(pl.col("cc") == "cubic").select("rate", "rtt", "flows").unique().sort("flows", "rate", "rtt")
    rows = []
    for rate, rtt, flows in places.iter_rows():
        found = pi2_margins.compute_link_margins(1e6 * rate, rtt / 1e3, flows)
        margin = {"phase": found.phase_deg, "model_period": found.period_s} if found else {}
        rows.append({"rate": rate, "rtt": rtt, "flows": flows, **margin})
    return pl.DataFrame(rows, infer_schema_length=None)
