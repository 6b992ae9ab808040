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


_ROLES = ("without ABE", "RFC 8511's beta", "beta 0.95")


def _name_roles(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of standard TCP, of RFC 8511's beta and of 0.95, with `role`, the name of the beta."""
    beta = pl.col("beta")
    role = (
        pl.when(beta == pl.col("cc").replace_strict(STANDARD))
        .then(pl.lit(_ROLES[0]))
        .when(beta == pl.col("cc").replace_strict(DEFAULTS))
        .then(pl.lit(_ROLES[1]))
        .when(beta == 0.95)
        .then(pl.lit(_ROLES[2]))
    )
    return frame.with_columns(role=role.cast(pl.Enum(_ROLES))).filter(pl.col("role").is_not_null())


def _describe_roles() -> str:
    """Return the betas of the names: `beta without ABE and of RFC 8511: NewReno 0.5 and 0.8, CUBIC 0.7 and 0.85`."""
    each = ", ".join(f"{_NAMES['cc'][cc]} {STANDARD[cc]:g} and {DEFAULTS[cc]:g}" for cc in STANDARD)
    return f"beta without ABE and of RFC 8511: {each}"


def _make_gain_title(shown: pl.DataFrame) -> str:
    """Return in how many cells RFC 8511's beta gains 1 % or more and more than the interval, if in most of them."""
    own = shown.filter(pl.col("beta") == pl.col("cc").replace_strict(DEFAULTS))
    half = (pl.col("high") - pl.col("gain")).fill_null(0)
    better = own.filter(pl.col("gain") > half, pl.col("gain") >= 1).height
    if better * 2 <= own.height:
        return "Gain in goodput over the same control without ABE"
    most = math.ceil(float(own["gain"].max()))  # type: ignore[arg-type]  # there are some
    return f"With RFC 8511's beta one flow's goodput rises by 1 to {most} % in {better} of {own.height} cases"


def _draw_gain(results: Results) -> Picture:
    gains = results.compute_gains().filter(pl.col("abe") | pl.col("ecn"))
    shown = gains.filter((pl.col("rate") == 10) | (pl.col("cc") == "cubic"))  # as in the slides
    frame = _order_rows(shown).with_columns(link=pl.format("{} Mbit/s", pl.col("rate_mbit").cast(pl.Int64)))
    picture = draw_means(
        frame.sort("beta_ecn"),
        "beta_ecn",
        "gain",
        by="rtt_ms",
        facet=["cc", "link", "aqm"],
        columns=2,
        bands=True,
        x_label="beta_ecn, the share of the window that remains after a mark",
        y_label="gain in goodput, %",
        title=f"{_make_gain_title(shown)}\none flow, a line for each base RTT; gain over the same control "
        f"without ABE; {_describe_points(shown['n'], 'start')}",
        level=0,
    )
    for key in picture.panels:
        called = next(cc for cc, name in _NAMES["cc"].items() if name == key[0])
        figures.mark_place(picture, key, DEFAULTS[called], "RFC 8511")
    rtts = {f"RTT {rtt:g} ms": f"{rtt:g} ms" for rtt in shown["rtt"].unique()}
    return picture.name_lines(rtts, list(picture.panels))


def select_sojourns(results: Results) -> pl.DataFrame:
    """Return the runs whose time in queue is drawn: 80 ms and 10 Mbit/s, standard, RFC 8511's factor and 0.95."""
    runs = results.select_runs("gain").filter(pl.col("rate") == 10, pl.col("rtt") == 80, pl.col("ecn"))
    chosen = [(pl.col("cc") == cc) & pl.col("beta").is_in([STANDARD[cc], DEFAULTS[cc], 0.95]) for cc in STANDARD]
    return runs.filter(pl.any_horizontal(chosen))


_WAITS = (0.5, 100.0)  # ms, where the axis of the time in queue begins and ends


def _make_sojourn_title(results: Results) -> str:
    """Return how much longer P99 of the time in queue is with RFC 8511's beta, if that is little."""
    own = results.compute_gains().filter(pl.col("rate") == 10, pl.col("rtt") == 80)
    ratios = own.filter(pl.col("beta") == pl.col("cc").replace_strict(DEFAULTS))["p99"]
    more = math.ceil(100 * (max(ratios, default=9.0) - 1))
    if more <= 10:
        return f"RFC 8511's beta leaves the longest waits as they were: P99 grows by at most {max(more, 0)} %"
    return "Time in queue with and without ABE"


def _draw_sojourn(results: Results) -> Picture:
    counts = select_sojourns(results).group_by("cc", "aqm", "beta").agg(n=pl.col("seed").n_unique())["n"]
    starts = f"{format_counts(counts)} start{'s' * (counts.max() != 1)}"
    bins = _name_roles(results.collect_sojourns()).with_columns(pl.col("from_ms").clip(*_WAITS))
    picture = figures.cdf(
        _rename_algorithms(bins, "cc", "aqm"),
        "from_ms",
        weight="packets",
        by="role",
        facet=["cc", "aqm"],
        columns=2,
        log_x=True,
        x_label="time in queue, ms",
        y_label="share of packets that wait less",
        title=f"{_make_sojourn_title(results)}\none flow, 10 Mbit/s, base RTT 80 ms, {starts}; {_describe_roles()}",
    )
    for axes in picture.panels.values():
        axes.set_xlim(_WAITS[0], min(_WAITS[1], axes.get_xlim()[1]))
    return picture.arrange()


def _make_convergence_title(runs: pl.DataFrame) -> str:
    """Return in how many cells the median is longer with RFC 8511's beta, if that is most of them."""
    late = pl.col("convergence").fill_null(math.inf).median()
    medians = _name_roles(runs).group_by("cc", "aqm", "rtt", "role").agg(late)
    both = medians.pivot("role", index=["cc", "aqm", "rtt"], values="convergence").drop_nulls(_ROLES[:2])
    slower = both.filter(pl.col(_ROLES[1]) > pl.col(_ROLES[0])).height
    if slower * 3 > both.height * 2:
        return (
            f"With ABE a new flow waits longer for its share: the median is longer in {slower} of {both.height} cases"
        )
    return "Convergence of a new flow with and without ABE"


def _draw_convergence(results: Results) -> Picture:
    runs = _name_roles(results.select_runs("convergence").filter(pl.col("rtt") >= 80))
    runs = runs.filter(pl.col("role") != _ROLES[2]).with_columns(pl.col("role").cast(pl.Enum(_ROLES[:2])))
    place = ["cc", "aqm", "rtt", "role"]
    counts = runs.group_by(place).agg(runs=pl.len(), never=pl.col("convergence").null_count())
    late = runs.with_columns(pl.col("convergence").fill_null(math.inf))
    picture = figures.cdf(
        _order_rows(late),
        "convergence",
        by="role",
        facet=["cc", "aqm", "rtt_ms"],
        columns=3,
        log_x=True,
        x_label=f"time until Jain's index is 0.95, s; never: not within {WITHIN_S:g} s",
        y_label="share of runs",
        title=f"{_make_convergence_title(runs)}\n{format_counts(counts['runs'])} runs a line, 10 Mbit/s, entry at a random "
        f"time; {_describe_roles()}",
    )
    named = _order_rows(counts.filter(pl.col("never") > 0)).rows(named=True)
    for key in picture.panels:
        own = [row for row in named if (row["cc"], row["aqm"], row["rtt_ms"]) == key]
        ends = {row["role"]: f"{row['never']} never" for row in own}
        picture.name_lines(ends, [key], legend=True)
    return picture.arrange()


def _make_ratio_title(means: pl.DataFrame) -> str:
    """Return where the mean over RTTs is what the slides give, if it is there alone."""
    inside = pl.col("beta").is_between(0.7, 0.85)
    own = means.filter(inside, pl.col("rtt").cast(pl.String) == "mean")
    there = (pl.col("aqm") == "codel") & ~pl.col("rival_ecn")
    ratio = pl.col("rate_ratio")
    hit, other = own.filter(there), own.filter(~there)
    if hit.filter(ratio.is_between(*SLIDES)).height == hit.height > 0 and other.filter(ratio < SLIDES[0]).height == (
        other.height
    ):
        return "The slides' ratio appears over CoDel alone, and only if standard TCP runs without ECN"
    return "Throughput of CUBIC flows with ABE over that of flows without"


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
        pl.col("rtt").cast(pl.Enum([*names[:3], "mean", *names[3:]])),  # the fourth colour is black
        standard=pl.when("rival_ecn")
        .then(pl.lit("standard TCP with ECN"))
        .otherwise(pl.lit("standard TCP without ECN")),
    )
    picture = draw_means(
        _rename_algorithms(mean, "aqm"),
        "beta",
        "rate_ratio",
        by="rtt",
        facet=["standard", "aqm"],
        columns=2,
        bands=True,
        x_label="beta_ecn of the flows with ABE",
        y_label="throughput ratio",
        title=f"{_make_ratio_title(mean)}\n10 CUBIC flows with ABE over 10 without, 10 Mbit/s; a line for each base RTT, "
        f"thick: mean over RTTs; {_describe_points(mean['n'], 'run')}",
        level=1,
    )
    for axes in picture.panels.values():
        for line in axes.lines:
            if line.get_label() == "mean":
                line.set(linewidth=2.2, linestyle="-", marker="None", zorder=3.5)
    picture.draw_band(*SLIDES, x=(0.7, 0.85))
    for key in picture.panels:
        figures.write_in(picture, key, "slides: 1.25 to 2", (0.775, SLIDES[1]), move=(0, -2), ha="center", va="top")
    return picture.name_lines(None, list(picture.panels))


def select_slow_starts(results: Results) -> list[tuple[str, pl.DataFrame]]:
    """Return a standard flow, an unlucky and a lucky one with ABE: what they are called, and their runs."""
    overshoots, found = results.count_overshoots(), []
    for beta, best in ((0.5, False), (0.8, False), (0.8, True)):
        here = overshoots.filter(pl.col("beta") == beta, pl.col("reduction") == "immediate")
        luck = "standard" if beta == 0.5 else "lucky" if best else "unlucky"
        found.append((luck, here.sort("goodput_total_mbit", descending=best).head(1)))
    return found


def _make_slow_start_title(chosen: Sequence[dict[str, Any]]) -> str:
    """Return what distinguishes the lucky flow, if its window is near the BDP after the cuts, and the others' below."""
    *others, lucky = [one["left"] / _compute_bdp(one) for one in chosen]
    if 0.95 <= lucky <= 1.2 and max(others) < 0.9:
        return "After slow start the lucky flow's window ends at the BDP, the others' below it"
    return "Window and queue after slow start"


def _compute_bdp(run: dict[str, Any]) -> float:
    """Return the product of rate and base RTT in full frames."""
    return float(run["rate"] * 1e3 * run["rtt"] / 8 / 1514)


def _draw_slow_start(results: Results) -> Picture:
    windows, queues, titles, runs = [], [], [], []
    for luck, one in select_slow_starts(results):
        chosen = one.row(0, named=True)
        runs.append(chosen)
        beta, own = chosen["beta"], pl.Series([chosen["key"]])
        titles.append(f"{luck}, beta {beta:g}, {chosen['rtt']:g} ms: {chosen['goodput_total_mbit']:.2f} Mbit/s")
        run = pl.lit(titles[-1])
        flow = results.select_table("series", own).select("time_s", pl.col("cwnd").cast(pl.Float64))
        windows.append(flow.with_columns(what=pl.lit("cwnd"), run=run))
        windows.append(flow.with_columns(cwnd=pl.lit(_compute_bdp(chosen)), what=pl.lit("BDP"), run=run))
        queues.append(results.select_table("queue_series", own).select("time_s", "sojourn_mean_ms", run=run))
    order = order_names("run", titles)
    what = pl.col("what").cast(pl.Enum(["cwnd", "BDP"]))
    picture = figures.stacked_series(
        [
            Series(pl.concat(windows).with_columns(order, what), "cwnd", "what", "cwnd, segments"),
            Series(
                pl.concat(queues).with_columns(order),
                "sojourn_mean_ms",
                None,
                "time in queue, ms",
                levels=[(TARGET_MS, "target")],
            ),
        ],
        columns="run",
        title=f"{_make_slow_start_title(runs)}\none NewReno flow over CoDel, {runs[0]['rate']:g} Mbit/s, one run each; the "
        "window is reduced at once on a mark; goodput of the whole run in the heads",
    )
    return picture.name_lines()


def _make_reductions_title(counted: pl.DataFrame) -> str:
    """Return how many reductions the largest beta needs, if each needs more than the slides' bound but 0.5."""
    rows = counted.filter(pl.col("beta") > 0.5).sort("beta").rows(named=True)
    if not rows or any(row["low"] <= _bound(row["beta"]) for row in rows):
        return "Reductions after slow start until the queue is drained"
    last = rows[-1]
    needed = f"{last['reductions']:.0f} reductions, not {_bound(last['beta']):.1f}"
    return f"At beta {last['beta']:g} a flow needs {needed}"


def _bound(beta: float) -> float:
    """Return the slides' bound of the number of reductions."""
    return math.log(0.5) / math.log(beta)


def _draw_reductions(results: Results) -> Picture:
    counted = (
        results.count_overshoots()
        .filter(pl.col("reduction") == "immediate")
        .group_by("beta")
        .agg(pl.col("reductions").mean(), low=pl.col("reductions").min(), high=pl.col("reductions").max(), n=pl.len())
    )
    picture = draw_means(
        counted.with_columns(what=pl.lit("simulated")),
        "beta",
        "reductions",
        by="what",
        x_label="beta_ecn",
        y_label="reductions",
        title=f"{_make_reductions_title(counted)}\nuntil the queue of slow start is drained; one NewReno flow over CoDel, "
        f"10 Mbit/s; mean and min-max over {format_counts(counted['n'])} base RTTs of 60 to 120 ms",
    )
    betas = [0.5 + 0.005 * n for n in range(91)]
    picture.draw_curve(betas, [_bound(beta) for beta in betas], "bound of the slides")
    picture.entries = []
    [key] = picture.panels
    at = counted.sort("beta").select("beta", "reductions").row(-3)
    figures.write_in(picture, key, "simulated", at, move=(-8, 8), ha="right")
    figures.write_in(picture, key, "bound of the slides", (0.95, 0.0), move=(0, 8), ha="right")
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


def _make_completion_title(ratios: pl.DataFrame) -> str:
    """Return what flows of 1 MB and more do with RFC 8511's beta, if the evidence has it."""
    long = ratios.filter(pl.col("beta") == pl.col("cc").replace_strict(DEFAULTS), pl.col("size") >= 1000)
    codel, pie = long.filter(aqm="codel")["ratio"], long.filter(aqm="pie", cc="reno")["ratio"]
    if len(codel) and len(pie) and codel.max() < 0.95 and pie.max() > 1.02:  # type: ignore[operator]
        return "Over CoDel flows of 1 to 8 MB end sooner with ABE; over PIE NewReno's end later"
    return "Completion time of short flows over that without ABE"


def _draw_completion(results: Results) -> Picture:
    found = collect_completions(results)
    shown = found.filter(pl.col("beta") != pl.col("cc").replace_strict(STANDARD))
    rtts = results.select_runs("short")["rtt"].n_unique()
    own = pl.col("beta") == pl.col("cc").replace_strict(DEFAULTS)
    bands = shown.with_columns(pl.when(own).then(name).alias(name) for name in ("low", "high"))
    picture = draw_means(
        _order_rows(bands).sort("size").with_columns(pl.col("size") / 1e3),
        "size",
        "ratio",
        by="beta_ecn",
        facet=["cc", "aqm"],
        columns=2,
        bands=True,
        log_x=True,
        log_y=True,
        x_label="size of the flow, MB",
        y_label="completion time / that without ABE",
        title=f"{_make_completion_title(found)}\none flow that ends, 10 Mbit/s; means over {rtts} base RTTs of 20 to "
        "160 ms; band: min-max with RFC 8511's beta, 0.8 or 0.85",
        level=1,
    )
    return picture.name_lines(None, list(picture.panels))


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
