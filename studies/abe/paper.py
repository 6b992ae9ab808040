"""Figures and tables of Alternative Backoff with ECN (RFC 8511), as in its authors' slides, from its experiments."""

import json
import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell import results
from dumbbell.published.compare import has_only_flows, select_alike
from dumbbell.published.variants import list_left_out, require_alike
from dumbbell.study import (
    Nothing,
    Picture,
    Series,
    align_table,
    compute_intervals,
    draw_means,
    figures,
    format_counts,
    make_grid,
    order_names,
)

TARGET_MS = 5.0  # of CoDel; a queue below it is drained
STANDARD = {"reno": 0.5, "cubic": 0.7}
DEFAULTS = {"reno": 0.8, "cubic": 0.85}  # RFC 8511 section 3.1
SLIDES = (1.25, 2.0)  # mean throughput ratio of CUBIC with 0.7 to 0.85 to standard TCP, as the slides have it
_EMPTY_MS = 0.05  # a packet that waits less met an empty queue
WITHIN_S = 60.0  # longest time for convergence: what convergence.toml leaves after the latest entry
_NAMES = {"cc": {"reno": "NewReno", "cubic": "CUBIC"}, "aqm": {"codel": "CoDel", "pie": "PIE"}}
_WITHOUT_ABE = "Standard TCP, without ABE: beta " + ", ".join(
    f"{beta:g} ({_NAMES['cc'][cc]})" for cc, beta in STANDARD.items()
)
_PLACE = ("aqm", "rate", "rtt")
_MEASURES = ("goodput_total_mbit", "sojourn_p50_ms", "sojourn_p99_ms", "rate_ratio")


_KEYS = {
    "cc": "flows[0].cc.name", "beta": "flows[0].cc.beta_ecn", "abe": "flows[0].cc.abe", "ecn": "flows[0].ecn",
    "rival": "flows[1].cc.name", "rival_ecn": "flows[1].ecn", "aqm": "bottleneck.aqm.name",
    "rate": "bottleneck.rate", "rtt": "flows[0].base_rtt", "size": "flows[0].size",
    "reduction": "hosts.ecn_reduction",
}  # fmt: skip


def _describe(found: results.StoredResults) -> pl.DataFrame:
    """Return what tells runs apart, and what was measured."""
    ecn, other_ecn = (pl.col(name).fill_null(True) for name in ("ecn", "rival_ecn"))
    return found.tidy("runs", _KEYS).select(
        *("key", "seed", "hash", "experiment", "cc", "abe", "aqm", "rate", "rtt", "reduction", *_MEASURES),
        beta=pl.coalesce("beta", pl.col("cc").replace_strict(STANDARD, default=None)),
        ecn=ecn,
        rival_ecn=pl.when(pl.col("rival").is_null()).then(ecn).otherwise(other_ecn),
        size=pl.col("size").fill_null(0) / 1e3,
        convergence=_replace_late(pl.col("convergence_cumulative_s")),
    )


def _replace_late(seconds: pl.Expr) -> pl.Expr:
    """Return times for convergence, null where they are longer than every run can show."""
    return pl.when(seconds <= WITHIN_S).then(seconds)


def _has_abe(config: dict[str, Any]) -> bool:
    return has_only_flows(config) and "abe" in config["flows"][0]["cc"]


EXPERIMENTS = ("gain", "convergence", "coexistence", "slow-start", "short")


class Results:
    """Runs of its experiments with what tells them apart.

    Raises InputError if there are none, or if runs differ in something that no figure shows; `notes` say what lacks.
    """

    def __init__(self, source: str | Path | results.StoredResults) -> None:
        found = results.StoredResults.open_source(source)
        rows = [row for row in found.runs.iter_rows(named=True) if _has_abe(json.loads(row["config"]))]
        if not rows:
            raise Nothing("no run with ABE", "results of abe/*, of dumbbell list", file=found.path)
        self.notes = found.notes
        self.runs = _describe(found).filter(pl.col("key").is_in([row["key"] for row in rows]))
        self.notes = [*list_left_out(found, self.runs["key"]), *self.notes]
        if self.missing:
            left = f"no runs of {', '.join(self.missing)}, nor figures of them: experiments/*.toml make them"
            self.notes = [*self.notes, left]
        places = self.runs.select(pl.exclude("key", "seed", "hash", "convergence", *_MEASURES)).columns
        configs = {row["key"]: row for row in rows}
        for (experiment, *_), keys in self.runs.group_by("experiment", *(p for p in places if p != "experiment")):
            if experiment in EXPERIMENTS:
                select_alike([configs[key] for key in keys["key"]], f"one place of {experiment}.toml")
        require_alike(pl.DataFrame(rows, infer_schema_length=None).select("experiment", "matrix", "config"))
        self._tables = {name: found.frame(name) for name in ("flows", "sojourn")}
        overshoots = self.select_runs("slow-start")["key"]  # no figure shows series of the others
        if not overshoots.is_empty():
            overshooting = found.with_keys(overshoots)
            self._tables |= {name: overshooting.frame(name) for name in ("series", "queue_series")}

    @property
    def missing(self) -> list[str]:
        """Files of its experiments that have no runs here."""
        return [name for name in EXPERIMENTS if self.select_runs(name).is_empty()]

    def select_runs(self, experiment: str) -> pl.DataFrame:
        """Return the runs of one file of its experiments."""
        return self.runs.filter(pl.col("experiment") == experiment)

    def select_table(self, name: str, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of a table that belong to runs."""
        return self._tables[name].filter(pl.col("key").is_in(keys.implode()))

    def collect_sojourns(self) -> pl.DataFrame:
        """Return the histograms of the time in queue that are drawn."""
        runs = select_sojourns(self)
        return self.select_table("sojourn", runs["key"]).join(runs, on="key")

    def compute_gains(self) -> pl.DataFrame:
        """Return goodput and sojourn of one flow and of those without ABE seed by seed: means, interval of `gain`.

        `p50` is a difference in ms, since a link that is not full has a median near zero; `p99` is a ratio.
        """
        measures = ("goodput_total_mbit", "sojourn_p50_ms", "sojourn_p99_ms")
        runs = self.select_runs("gain")
        standard = runs.filter(~pl.col("abe") & pl.col("ecn"))
        beside = standard.select("cc", "seed", *_PLACE, *(pl.col(m).alias(f"standard_{m}") for m in measures))
        gains = runs.join(beside, on=["cc", "seed", *_PLACE]).with_columns(
            gain=100 * (pl.col(measures[0]) / pl.col(f"standard_{measures[0]}") - 1),
            p50=pl.col(measures[1]) - pl.col(f"standard_{measures[1]}"),
            p99=pl.col(measures[2]) / pl.col(f"standard_{measures[2]}"),
        )
        return compute_intervals(gains, ["cc", "abe", "beta", "ecn", *_PLACE], "gain", "p50", "p99", *measures)

    def count_overshoots(self) -> pl.DataFrame:
        """Return, for each run of slow-start.toml, how often the window was reduced until the queue was drained."""
        runs = self.select_runs("slow-start")
        counts = []
        for key in runs["key"]:
            own = pl.Series([key])
            flow, queue = (
                self.select_table("series", own).sort("time_s"),
                self.select_table("queue_series", own).sort("time_s"),
            )
            windows, delays = flow["cwnd"].to_list(), queue["sojourn_mean_ms"].to_list()
            peak = windows.index(max(windows))
            drained = next((i for i in range(peak, len(delays)) if delays[i] < TARGET_MS), len(delays) - 1)
            thresholds = flow["ssthresh"].to_list()[peak - 1 : drained + 1]
            reductions = sum(later < earlier for earlier, later in pairwise(thresholds))
            counts.append({"key": key, "reductions": reductions, "peak": windows[peak], "left": windows[drained]})
        counted = {"key": pl.String, "reductions": pl.Int64, "peak": pl.Int64, "left": pl.Int64}
        return runs.join(pl.DataFrame(counts, schema=counted), on="key")


def _order_rows(runs: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the names that figures show: congestion controls in the slides' order, units in the keys."""
    return _rename_algorithms(runs, "cc", "aqm").rename(
        {"beta": "beta_ecn", "rtt": "rtt_ms", "rate": "rate_mbit"}, strict=False
    )


def _rename_algorithms(runs: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Return rows with the usual names of congestion controls and queue disciplines, in the slides' order."""
    names = pl.Enum([name for key in keys for name in _NAMES[key].values()])
    return runs.with_columns(
        pl.col(key).cast(pl.String).replace_strict(_NAMES[key], return_dtype=names) for key in keys
    )


def _describe_points(counts: pl.Series, what: str) -> str:
    """Return what the points of a figure are: means with intervals, or single values."""
    return f"one {what} each" if counts.max() == 1 else f"means of {format_counts(counts)} {what}s, 95 % intervals"


def _name_rtts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows with base RTTs as names, around which lines.py spreads intervals."""
    return frame.with_columns(rtt_ms=pl.format("{} ms", pl.col("rtt_ms").cast(pl.Int64)))


def _draw_gain(results: Results) -> Picture:
    gains = _order_rows(results.compute_gains().filter(pl.col("abe")))
    shown = gains.filter((pl.col("rate_mbit") == 10) | (pl.col("cc") == "CUBIC"))  # as in the slides
    return draw_means(
        _name_rtts(shown),
        "rtt_ms",
        "gain",
        by="beta_ecn",
        facet=["cc", "rate_mbit"],
        columns="aqm",
        x_label="base RTT",
        y_label="gain in goodput, %",
        title=f"Gain in goodput over the same control without ABE\none flow; {_describe_points(shown['n'], 'start')}",
        level=0,
    )


def select_sojourns(results: Results) -> pl.DataFrame:
    """Return the runs whose time in queue is drawn: 80 ms and 10 Mbit/s, standard, RFC 8511's factor and 0.95."""
    runs = results.select_runs("gain").filter(pl.col("rate") == 10, pl.col("rtt") == 80, pl.col("ecn"))
    chosen = [(pl.col("cc") == cc) & pl.col("beta").is_in([STANDARD[cc], DEFAULTS[cc], 0.95]) for cc in STANDARD]
    return runs.filter(pl.any_horizontal(chosen))


def _draw_sojourn(results: Results) -> Picture:
    counts = select_sojourns(results).group_by("cc", "aqm", "beta").agg(n=pl.col("seed").n_unique())["n"]
    starts = f"{format_counts(counts)} start{'s' * (counts.max() != 1)}"
    return figures.cdf(
        _order_rows(results.collect_sojourns().with_columns(pl.col("from_ms").clip(_EMPTY_MS))),
        "from_ms",
        weight="packets",
        by="beta_ecn",
        facet="cc",
        columns="aqm",
        log_x=True,
        x_label="time in queue, ms",
        y_label="share of packets",
        title=f"Time in queue with and without ABE\n10 Mbit/s, 80 ms, {starts}; {_WITHOUT_ABE}",
    )


def _draw_convergence(results: Results) -> Picture:
    runs = results.select_runs("convergence")
    place = ["cc", "aqm", "beta", "rtt"]
    counts = runs.group_by(place).agg(runs=pl.len())
    reached = runs.filter(pl.col("convergence").is_not_null()).join(counts, on=place).sort("convergence")
    ranks = reached.with_columns(share=(pl.int_range(pl.len()) + 1).over(place) / pl.col("runs"))
    begins = counts.with_columns(convergence=pl.lit(0.0), share=pl.lit(0.0))
    curves = pl.concat([begins, ranks.select(begins.columns)]).unique([*place, "convergence"], keep="last")
    picture = figures.lines(
        _order_rows(curves.filter(pl.col("rtt") >= 80)),
        "convergence",
        "share",
        by="beta_ecn",
        facet=["cc", "aqm"],
        columns="rtt_ms",
        log_x=False,
        x_label="time to Jain's index 0.95, s",
        y_label="share of runs",
        title=f"Convergence of a new flow\n{format_counts(counts['runs'])} runs; within {WITHIN_S:g} s; {_WITHOUT_ABE}",
    )
    picture.draw_level(1)
    return picture


def _draw_ratio(results: Results) -> Picture:
    place = ["aqm", "rival_ecn", "beta"]
    runs = results.select_runs("coexistence").filter(pl.col("cc") == "cubic")
    runs = runs.select(*place, "rtt", "seed", "hash", "rate_ratio")
    names = [f"{rtt:g} ms" for rtt in sorted(runs["rtt"].unique())]
    over_rtts = runs.group_by(*place, "seed").agg(pl.col("rate_ratio").mean(), pl.col("hash").str.join(""))
    each = pl.concat(
        [
            runs.with_columns(rtt=pl.format("{} ms", pl.col("rtt").cast(pl.Int64))),
            over_rtts.with_columns(rtt=pl.lit("mean")).select(runs.columns),
        ]
    )
    mean = compute_intervals(each, [*place, "rtt"], "rate_ratio").with_columns(
        pl.col("rtt").cast(pl.Enum([*names, "mean"])),
        standard=pl.when("rival_ecn")
        .then(pl.lit("standard TCP with ECN"))
        .otherwise(pl.lit("standard TCP without ECN")),
    )
    picture = draw_means(
        _rename_algorithms(mean, "aqm"),
        "beta",
        "rate_ratio",
        by="rtt",
        facet="standard",
        columns="aqm",
        x_label="beta with ABE",
        y_label="throughput ratio",
        title="Throughput of 10 CUBIC flows with ABE over that of 10 without\n10 Mbit/s; "
        f"{_describe_points(mean['n'], 'run')}",
    )
    for line in (line for axes in picture.panels.values() for line in axes.lines if line.get_label() == "mean"):
        line.set_linewidth(3)
    picture.draw_band(*SLIDES, "slides: the mean", x=(0.7, 0.85))
    return picture.arrange()


def select_slow_starts(results: Results) -> list[tuple[str, pl.DataFrame]]:
    """Return a standard flow, an unlucky and a lucky one with ABE: what they are called, and their runs."""
    overshoots, found = results.count_overshoots(), []
    for beta, best in ((0.5, False), (0.8, False), (0.8, True)):
        here = overshoots.filter(pl.col("beta") == beta, pl.col("reduction") == "immediate")
        luck = "standard" if beta == 0.5 else "lucky" if best else "unlucky"
        found.append((luck, here.sort("goodput_total_mbit", descending=best).head(1)))
    return found


def _draw_slow_start(results: Results) -> Picture:
    windows, queues, titles = [], [], []
    for luck, one in select_slow_starts(results):
        chosen = one.row(0, named=True)
        beta, own = chosen["beta"], pl.Series([chosen["key"]])
        titles.append(f"{luck}, beta {beta:g}, {chosen['rtt']:g} ms: {chosen['goodput_total_mbit']:.2f} Mbit/s")
        run = pl.lit(titles[-1])
        flow = results.select_table("series", own).select("time_s", pl.col("cwnd").cast(pl.Float64))
        capacity = pl.lit(chosen["rate"] * 1e3 * chosen["rtt"] / 8 / 1514)
        windows.append(flow.with_columns(what=pl.lit("cwnd"), run=run))
        windows.append(flow.with_columns(cwnd=capacity, what=pl.lit("BDP"), run=run))
        queues.append(results.select_table("queue_series", own).select("time_s", "sojourn_mean_ms", run=run))
    runs = order_names("run", titles)
    what = pl.col("what").cast(pl.Enum(["cwnd", "BDP"]))
    return figures.stacked_series(
        [
            Series(pl.concat(windows).with_columns(runs, what), "cwnd", "what", "cwnd, segments"),
            Series(
                pl.concat(queues).with_columns(runs),
                "sojourn_mean_ms",
                None,
                "time in queue, ms",
                levels=[(TARGET_MS, "target")],
            ),
        ],
        columns="run",
        title="Window and queue after slow start\nNewReno, CoDel, reduced at once",
    )


def _draw_reductions(results: Results) -> Picture:
    counted = (
        results.count_overshoots()
        .group_by("reduction", "beta")
        .agg(pl.col("reductions").mean(), low=pl.col("reductions").min(), high=pl.col("reductions").max())
    )
    picture = draw_means(
        counted,
        "beta",
        "reductions",
        by="reduction",
        x_label="beta with ABE",
        y_label="reductions",
        title="Reductions after slow start until the queue is drained\nNewReno, CoDel; mean and min-max over base RTTs",
    )
    betas = [0.5 + 0.005 * n for n in range(91)]
    picture.draw_curve(betas, [math.log(0.5) / math.log(beta) for beta in betas], "log(0.5) / log(beta)")
    return picture.arrange()


def collect_completions(results: Results) -> pl.DataFrame:
    """Return completion times of short flows over those without ABE: mean, smallest and largest over base RTTs."""
    runs = results.select_runs("short")
    flows = results.select_table("flows", runs["key"]).select("key", "completion_s")
    done = runs.join(flows, on="key").filter(pl.col("completion_s").is_not_nan())
    place = ["cc", "aqm", "size", "rtt"]
    standard = done.filter(~pl.col("abe")).select(*place, standard="completion_s")
    ratio = done.join(standard, on=place).with_columns(ratio=pl.col("completion_s") / pl.col("standard"))
    return ratio.group_by("cc", "aqm", "beta", "size").agg(
        pl.col("ratio").mean(),
        low=pl.col("ratio").min(),
        high=pl.col("ratio").max(),
        mean_s=pl.col("completion_s").mean(),
    )


def _draw_completion(results: Results) -> Picture:
    ratios = _order_rows(collect_completions(results).filter(pl.col("beta") != pl.col("cc").replace_strict(STANDARD)))
    return draw_means(
        ratios.with_columns(pl.col("size").map_elements(lambda size: f"{size / 1e3:g} MB", pl.String)),
        "size",
        "ratio",
        by="beta_ecn",
        facet="cc",
        columns="aqm",
        log_y=True,
        x_label="size",
        y_label="completion time / standard",
        title="Completion time of short flows over that without ABE\nmean and min-max over base RTTs",
        level=1,
    )


FIGURES = {
    "gain": _draw_gain,
    "sojourn": _draw_sojourn,
    "convergence": _draw_convergence,
    "ratio": _draw_ratio,
    "slow-start": _draw_slow_start,
    "reductions": _draw_reductions,
    "completion": _draw_completion,
}
# figures that need an experiment of another name
_NEEDS = {"sojourn": "gain", "ratio": "coexistence", "reductions": "slow-start", "completion": "short"}


def draw(
    results: Results, folder: str | Path, only: str | None = None, formats: Sequence[str] = (".svg",)
) -> list[Path]:
    """Draw every figure that there are runs for, or one, as `abe-….svg` in `folder`; raises InputError."""
    made = {
        f"abe-{name}": partial(figure, results)
        for name, figure in FIGURES.items()
        if _NEEDS.get(name, name) not in results.missing
    }
    return figures.save_all(made, folder, only, formats)


def _format_grid(frame: pl.DataFrame, rows: list[str], column: str, value: str, form: str) -> str:
    """Return a Markdown table of means over the runs that have a value: `rows` by the values of `column`."""
    heads = sorted(frame[column].unique())
    known = pl.col(value).count()
    means = frame.group_by(*rows, column).agg(pl.col(value).mean(), known.alias("known"), pl.len().alias("of"))
    text = [pl.col(name).cast(pl.String) for name in rows]

    def format_mean(row: dict[str, Any]) -> str:
        part = f" ({row['known']} of {row['of']})" if row["known"] < row["of"] else ""
        return (format(row[value], form) if row["known"] else "-") + part

    body = make_grid(means.sort(text), rows, column, heads, format_mean)
    return align_table([*rows, *(f"{head:g}" for head in heads)], body, words=tuple(range(len(rows))))


def format_tables(results: Results) -> str:
    """Return the figures' numbers as Markdown tables, base RTT across; those that there are runs for."""
    parts: list[tuple[str, pl.DataFrame, list[str], str, str, str]] = []
    if "gain" not in results.missing:
        gains, place = results.compute_gains().filter(pl.col("abe")), ["cc", "aqm", "rate", "beta"]
        parts += [
            (f"Gain in goodput, %: means of {format_counts(gains['n'])} runs", gains, place, "rtt", "gain", "+.1f"),
            ("Time in queue, P50 - standard, ms", gains, place, "rtt", "p50", "+.1f"),
            ("Time in queue, P99 / standard", gains, place, "rtt", "p99", ".2f"),
        ]
    if "convergence" not in results.missing:
        title = f"Time to Jain 0.95, s: mean of the runs that reach it within {WITHIN_S:g} s; how many, if not all"
        rows = results.select_runs("convergence")
        parts.append((title, rows, ["cc", "aqm", "beta"], "rtt", "convergence", ".1f"))
    if "coexistence" not in results.missing:
        standard = pl.when("rival_ecn").then(pl.lit("ECN")).otherwise(pl.lit("no ECN"))
        rows = results.select_runs("coexistence").with_columns(standard=standard)
        parts.append(("Throughput ratio", rows, ["cc", "aqm", "standard", "beta"], "rtt", "rate_ratio", ".2f"))
    if "slow-start" not in results.missing:
        rows = results.count_overshoots().with_columns(pl.col("reductions").cast(pl.Float64))
        parts.append(("Reductions until drained", rows, ["reduction", "beta"], "rtt", "reductions", ".0f"))
    if "short" not in results.missing:
        rows, title = collect_completions(results), "Completion time / standard, by size in kB"
        parts.append((title, rows, ["cc", "aqm", "beta"], "size", "ratio", ".3f"))
    return "\n\n".join([*(f"### {part[0]}\n\n{_format_grid(*part[1:])}" for part in parts), *results.notes])
