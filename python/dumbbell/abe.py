"""Figures and tables of Alternative Backoff with ECN (RFC 8511), as in its authors' slides, from experiments/abe."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from dumbbell import figures, results
from dumbbell.aggregate import half_width, times
from dumbbell.compare import alike, only_flows
from dumbbell.errors import InputError
from dumbbell.figures import Picture, Series
from dumbbell.tables import aligned

TARGET_MS = 5.0  # of CoDel; a queue below it is drained
STANDARD = {"reno": 0.5, "cubic": 0.7}
DEFAULTS = {"reno": 0.8, "cubic": 0.85}  # RFC 8511 section 3.1
SLIDES = (1.25, 2.0)  # mean throughput ratio of CUBIC with 0.7 to 0.85 to standard TCP, as the slides have it
WITHIN_S = 60.0  # longest time for convergence: what convergence.toml leaves after the latest entry
_WITHOUT_ABE = "Standard TCP, without ABE: beta " + ", ".join(f"{beta:g} ({cc})" for cc, beta in STANDARD.items())
_PLACE = ("aqm", "rate", "rtt")
_MEASURES = {
    "goodput_total_mbit": "goodput_total_mbit",
    "sojourn_p50_ms": "sojourn_p50_ms",
    "sojourn_p99_ms": "sojourn_p99_ms",
    "rate_ratio": "rate_ratio",
}


def _describe(row: dict[str, Any]) -> dict[str, Any]:
    config = json.loads(row["config"])
    flow, last = config["flows"][0], config["flows"][-1]
    cc = flow["cc"]
    return {
        "key": row["key"],
        "seed": row["seed"],
        "hash": row["hash"],
        "experiment": row["experiment"],
        "cc": cc["name"],
        "beta": cc["beta_ecn"] if cc["abe"] else STANDARD[cc["name"]],
        "abe": cc["abe"],
        "ecn": flow["ecn"] is not False,
        "rival_ecn": last["ecn"] is not False,
        "aqm": config["bottleneck"]["aqm"]["name"],
        "rate": config["bottleneck"]["rate"] / 1e6,
        "rtt": flow["base_rtt"] / 1e6,
        "size": (flow["size"] or 0) / 1e3,
        "reduction": config["hosts"]["ecn_reduction"],
        **{name: row.get(column) for name, column in _MEASURES.items()},
        "convergence": _within(row.get("convergence_cumulative_s")),
    }


def _within(seconds: float | None) -> float | None:
    """Return a time for convergence, or None if it is longer than every run can show."""
    return seconds if seconds is not None and seconds <= WITHIN_S else None


def _means(runs: pl.DataFrame, by: list[str], *measures: str) -> pl.DataFrame:
    """Return means over seeds with `low` and `high`, the 95 % interval of the first measure, and `n` different runs."""
    value = pl.col(measures[0])
    mean = runs.group_by(by).agg(
        pl.col(measures).mean(),
        deviation=value.std(),
        n=pl.when(pl.col("hash").n_unique() > 1).then(value.count()).otherwise(1),
    )
    half = half_width(pl.col("deviation"), pl.col("n"))
    return mean.with_columns(low=value - half, high=value + half)


def _has_abe(config: dict[str, Any]) -> bool:
    return only_flows(config) and "abe" in config["flows"][0]["cc"]


EXPERIMENTS = ("gain", "convergence", "coexistence", "slow-start", "short")


class Results:
    """Runs of experiments/abe with what tells them apart.

    Raises InputError if runs of a file are missing, or if runs differ in something that no figure shows.
    """

    def __init__(self, path: str | Path) -> None:
        found = results.Results(path)
        rows = [row for row in found.runs.iter_rows(named=True) if _has_abe(json.loads(row["config"]))]
        if not rows:
            raise InputError(str(path), "", "no run with ABE", "results of experiments/abe/*.toml")
        self.notes = found.notes
        self.runs = pl.DataFrame([_describe(row) for row in rows], infer_schema_length=None)
        missing = [name for name in EXPERIMENTS if self.of(name).is_empty()]
        if missing:
            runs = f"no runs of {', '.join(missing)} by the latest engine that the file has runs of"
            raise InputError(str(path), "", runs, "results of experiments/abe/*.toml")
        places = self.runs.select(pl.exclude("key", "seed", "hash", "convergence", *_MEASURES)).columns
        configs = {row["key"]: row for row in rows}
        for (experiment, *_), keys in self.runs.group_by("experiment", *(p for p in places if p != "experiment")):
            if experiment in EXPERIMENTS:
                alike([configs[key] for key in keys["key"]], f"one place of {experiment}.toml")
        overshooting = results.Results(path, keys=self.of("slow-start")["key"])  # no figure shows series of the others
        self._tables = {name: found.frame(name) for name in ("flows", "sojourn")}
        self._tables |= {name: overshooting.frame(name) for name in ("series", "queue_series")}

    def of(self, experiment: str) -> pl.DataFrame:
        """Return the runs of one file of experiments/abe."""
        return self.runs.filter(pl.col("experiment") == experiment)

    def table(self, name: str, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of a table that belong to runs."""
        return self._tables[name].filter(pl.col("key").is_in(keys.implode()))

    def gains(self) -> pl.DataFrame:
        """Return goodput and sojourn of one flow beside those without ABE seed by seed: means, interval of `gain`.

        `p50` is a difference in ms, since a link that is not full has a median near zero; `p99` is a ratio.
        """
        measures = ("goodput_total_mbit", "sojourn_p50_ms", "sojourn_p99_ms")
        runs = self.of("gain")
        standard = runs.filter(~pl.col("abe") & pl.col("ecn"))
        beside = standard.select("cc", "seed", *_PLACE, *(pl.col(m).alias(f"standard_{m}") for m in measures))
        gains = runs.join(beside, on=["cc", "seed", *_PLACE]).with_columns(
            gain=100 * (pl.col(measures[0]) / pl.col(f"standard_{measures[0]}") - 1),
            p50=pl.col(measures[1]) - pl.col(f"standard_{measures[1]}"),
            p99=pl.col(measures[2]) / pl.col(f"standard_{measures[2]}"),
        )
        return _means(gains, ["cc", "abe", "beta", "ecn", *_PLACE], "gain", "p50", "p99", *measures)

    def overshoots(self) -> pl.DataFrame:
        """Return, for each run of slow-start.toml, how often the window was reduced until the queue was drained."""
        runs = self.of("slow-start")
        counts = []
        for key in runs["key"]:
            own = pl.Series([key])
            flow, queue = self.table("series", own).sort("time_s"), self.table("queue_series", own).sort("time_s")
            windows, delays = flow["cwnd"].to_list(), queue["sojourn_mean_ms"].to_list()
            peak = windows.index(max(windows))
            drained = next((i for i in range(peak, len(delays)) if delays[i] < TARGET_MS), len(delays) - 1)
            thresholds = flow["ssthresh"].to_list()[peak - 1 : drained + 1]
            reductions = sum(later < earlier for earlier, later in pairwise(thresholds))
            counts.append({"key": key, "reductions": reductions, "peak": windows[peak], "left": windows[drained]})
        counted = {"key": pl.String, "reductions": pl.Int64, "peak": pl.Int64, "left": pl.Int64}
        return runs.join(pl.DataFrame(counts, schema=counted), on="key")


def _in_order(runs: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the names that figures show: congestion controls in the slides' order, units in the keys."""
    return runs.with_columns(pl.col("cc").cast(pl.Enum(list(STANDARD)))).rename(
        {"beta": "beta_ecn", "rtt": "rtt_ms", "rate": "rate_mbit"}, strict=False
    )


def _named_rtts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows with base RTTs as names, beside which lines.py spreads intervals."""
    return frame.with_columns(rtt_ms=pl.format("{} ms", pl.col("rtt_ms").cast(pl.Int64)))


def _gain(results: Results) -> Picture:
    gains = _in_order(results.gains().filter(pl.col("abe")))
    shown = gains.filter((pl.col("rate_mbit") == 10) | (pl.col("cc") == "cubic"))  # as in the slides
    picture = figures.lines(
        _named_rtts(shown),
        "rtt_ms",
        "gain",
        low="low",
        high="high",
        by="beta_ecn",
        facet=["cc", "rate_mbit"],
        columns="aqm",
        x_label="base RTT",
        y_label="gain in goodput, %",
        title=f"Means of {times(shown['n'])} runs and their 95 % intervals",
    )
    picture.level(0)
    return picture


def _sojourn(results: Results) -> Picture:
    runs = results.of("gain").filter(pl.col("rate") == 10, pl.col("ecn"))
    chosen = [(pl.col("cc") == cc) & pl.col("beta").is_in([STANDARD[cc], DEFAULTS[cc], 0.95]) for cc in STANDARD]
    runs = runs.filter(pl.any_horizontal(chosen))
    bins = _in_order(results.table("sojourn", runs["key"]).join(runs, on="key"))
    picture = figures.cdf(
        bins,
        "from_ms",
        weight="packets",
        by="beta_ecn",
        facet=["cc", "aqm"],
        columns="rtt_ms",
        x_label="sojourn, ms",
        y_label="share of packets",
        title=_WITHOUT_ABE,
    )
    next(iter(picture.panels.values())).set_xlim(0, 50)  # all panels have one axis
    return picture.arrange()


def convergences(results: Results) -> pl.DataFrame:
    """Return mean times to Jain 0.95 of the runs that reach it, `reached` of `runs`; null if none of them does."""
    runs, place = results.of("convergence"), ["cc", "aqm", "beta", "rtt"]
    counts = runs.group_by(place).agg(reached=pl.col("convergence").count(), runs=pl.len())
    return _means(runs, place, "convergence").join(counts, on=place)


def _convergence(results: Results) -> Picture:
    mean = _in_order(convergences(results))
    rtts = sorted(mean["rtt_ms"].unique())
    picture = figures.lines(
        _named_rtts(mean),
        "rtt_ms",
        "convergence",
        low="low",
        high="high",
        by="beta_ecn",
        facet="cc",
        columns="aqm",
        x_label="base RTT",
        y_label="time to Jain 0.95, s",
        title=f"{_WITHOUT_ABE}. Means of those of {times(mean['runs'])} runs that reach 0.95, 95 % intervals",
    )
    # at the upper edge, above all points and one below another, how many do not
    late = mean.filter(pl.col("reached") < pl.col("runs")).sort("beta_ecn")
    most = max(late.group_by("cc", "aqm", "rtt_ms").len()["len"].to_list(), default=0)
    first = next(iter(picture.panels.values()))  # all panels have one axis
    bottom, top = first.get_ylim()
    first.set_ylim(bottom, bottom + (top - bottom) / (1 - 0.08 * most))
    for row in late.iter_rows(named=True):
        axes = picture.panels[row["cc"], row["aqm"]]
        colour = picture.colours[figures.said("beta_ecn", row["beta_ecn"])]
        place = rtts.index(row["rtt_ms"])
        earlier = sum(note.xy[0] == place for note in axes.texts if isinstance(note, Annotation))
        axes.annotate(
            f"\N{WHITE CIRCLE} {row['runs'] - row['reached']} of {row['runs']}",
            (place, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, -12 * earlier),
            textcoords="offset points",
            va="top",
            fontsize="small",
            color=colour,
        )
        picture.entry(
            f"runs not within {WITHIN_S:g} s", Line2D([], [], linestyle="none", marker="o", mfc="white", mec="0.2")
        )
    return picture.arrange()


def _ratio(results: Results) -> Picture:
    place = ["aqm", "rival_ecn", "beta"]
    runs = results.of("coexistence").filter(pl.col("cc") == "cubic")
    runs = runs.select(*place, "rtt", "seed", "hash", "rate_ratio")
    names = [f"{rtt:g} ms" for rtt in sorted(runs["rtt"].unique())]
    over_rtts = runs.group_by(*place, "seed").agg(pl.col("rate_ratio").mean(), pl.col("hash").str.join(""))
    each = pl.concat(
        [
            runs.with_columns(rtt=pl.format("{} ms", pl.col("rtt").cast(pl.Int64))),
            over_rtts.with_columns(rtt=pl.lit("mean")).select(runs.columns),
        ]
    )
    mean = _means(each, [*place, "rtt"], "rate_ratio").with_columns(
        pl.col("rtt").cast(pl.Enum([*names, "mean"])),
        standard=pl.when("rival_ecn")
        .then(pl.lit("standard TCP with ECN"))
        .otherwise(pl.lit("standard TCP without ECN")),
    )
    picture = figures.lines(
        mean,
        "beta",
        "rate_ratio",
        low="low",
        high="high",
        by="rtt",
        facet="standard",
        columns="aqm",
        x_label="beta_ecn",
        y_label="throughput ratio",
        title=f"Means of {times(mean['n'])} runs and their 95 % intervals",
    )
    for line in (line for axes in picture.panels.values() for line in axes.lines if line.get_label() == "mean"):
        line.set_linewidth(3)
    picture.band(*SLIDES, "slides: the mean", x=(0.7, 0.85))
    return picture.arrange()


def _slow_start(results: Results) -> Picture:
    overshoots = results.overshoots()
    windows, queues, titles = [], [], []
    for beta, best in ((0.5, False), (0.8, False), (0.8, True)):
        here = overshoots.filter(pl.col("beta") == beta, pl.col("reduction") == "immediate")
        chosen = here.sort("goodput_total_mbit", descending=best).row(0, named=True)
        own = pl.Series([chosen["key"]])
        luck = "standard" if beta == 0.5 else "lucky" if best else "unlucky"
        titles.append(f"{luck}, beta {beta:g}, {chosen['rtt']:g} ms: {chosen['goodput_total_mbit']:.2f} Mbit/s")
        run = pl.lit(titles[-1])
        flow = results.table("series", own).select("time_s", pl.col("cwnd").cast(pl.Float64))
        capacity = pl.lit(chosen["rate"] * 1e3 * chosen["rtt"] / 8 / 1514)
        windows.append(flow.with_columns(what=pl.lit("cwnd"), run=run))
        windows.append(flow.with_columns(cwnd=capacity, what=pl.lit("BDP"), run=run))
        queues.append(results.table("queue_series", own).select("time_s", "sojourn_mean_ms", run=run))
    runs = pl.col("run").cast(pl.Enum(titles))
    what = pl.col("what").cast(pl.Enum(["cwnd", "BDP"]))
    return figures.stacked_series(
        [
            Series(pl.concat(windows).with_columns(runs, what), "cwnd", "what", "cwnd, segments"),
            Series(
                pl.concat(queues).with_columns(runs),
                "sojourn_mean_ms",
                None,
                "sojourn, ms",
                levels=[(TARGET_MS, "target")],
            ),
        ],
        columns="run",
    )


def _reductions(results: Results) -> Picture:
    counted = (
        results.overshoots()
        .group_by("reduction", "beta")
        .agg(pl.col("reductions").mean(), low=pl.col("reductions").min(), high=pl.col("reductions").max())
    )
    picture = figures.lines(
        counted,
        "beta",
        "reductions",
        low="low",
        high="high",
        by="reduction",
        x_label="beta_ecn",
        y_label="reductions until the queue is drained",
        title="Mean, smallest and largest over base RTTs",
    )
    betas = [0.5 + 0.005 * n for n in range(91)]
    picture.curve(betas, [math.log(0.5) / math.log(beta) for beta in betas], "log(0.5) / log(beta)")
    return picture.arrange()


def completions(results: Results) -> pl.DataFrame:
    """Return completion times of short flows over those without ABE: mean, smallest and largest over base RTTs."""
    runs = results.of("short")
    flows = results.table("flows", runs["key"]).select("key", "completion_s")
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


def _completion(results: Results) -> Picture:
    ratios = _in_order(completions(results).filter(pl.col("beta") != pl.col("cc").replace_strict(STANDARD)))
    picture = figures.lines(
        ratios.with_columns(pl.col("size").map_elements(lambda size: f"{size / 1e3:g} MB", pl.String)),
        "size",
        "ratio",
        low="low",
        high="high",
        by="beta_ecn",
        facet="cc",
        columns="aqm",
        x_label="size",
        y_label="completion time / standard",
        title="Mean, smallest and largest over base RTTs",
    )
    picture.level(1)
    return picture


FIGURES = {
    "gain": _gain,
    "sojourn": _sojourn,
    "convergence": _convergence,
    "ratio": _ratio,
    "slow-start": _slow_start,
    "reductions": _reductions,
    "completion": _completion,
}


def draw(results: Results, folder: str | Path) -> list[Path]:
    """Draw every figure as `abe-….png` in `folder`; raises InputError if that cannot be written."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(folder), "", error.strerror or str(error), "a folder that can be written to") from None
    paths = []
    for name, figure in FIGURES.items():
        try:
            paths.append(figures.save(figure(results), Path(folder) / f"abe-{name}.png"))
        except InputError as error:
            raise error if error.file else error.within(f"abe-{name}") from None
    return paths


def _by(frame: pl.DataFrame, rows: list[str], column: str, value: str, form: str) -> str:
    """Return a Markdown table of means over the runs that have a value: `rows` by the values of `column`."""
    heads = sorted(frame[column].unique())
    known = pl.col(value).count()
    grouped = frame.group_by(*rows, column).agg(pl.col(value).mean(), known.alias("known"), pl.len().alias("of"))
    cells = {tuple(r[:-3]): r[-3:] for r in grouped.rows()}
    lines = sorted({key[:-1] for key in cells}, key=lambda key: tuple(str(part) for part in key))

    def text(mean: float | None, known: int, of: int) -> str:
        part = f" ({known} of {of})" if known < of else ""
        return (format(mean, form) if mean is not None else "-") + part

    body = [
        [*(f"{part:g}" if isinstance(part, float) else str(part) for part in line)]
        + [text(*cells.get((*line, head), (None, 0, 0))) for head in heads]
        for line in lines
    ]
    return aligned([*rows, *(f"{head:g}" for head in heads)], body, words=tuple(range(len(rows))))


def tables(results: Results) -> str:
    """Return the figures' numbers as Markdown tables, base RTT across."""
    gains = results.gains()
    abe = gains.filter(pl.col("abe"))
    overshoots = results.overshoots().with_columns(pl.col("reductions").cast(pl.Float64))
    coexistence = results.of("coexistence").with_columns(
        standard=pl.when("rival_ecn").then(pl.lit("ECN")).otherwise(pl.lit("no ECN"))
    )
    flat = completions(results)
    parts = [
        (
            f"Gain in goodput, %: means of {times(abe['n'])} runs",
            _by(abe, ["cc", "aqm", "rate", "beta"], "rtt", "gain", "+.1f"),
        ),
        ("Sojourn P50 - standard, ms", _by(abe, ["cc", "aqm", "rate", "beta"], "rtt", "p50", "+.1f")),
        ("Sojourn P99 / standard", _by(abe, ["cc", "aqm", "rate", "beta"], "rtt", "p99", ".2f")),
        (
            f"Time to Jain 0.95, s: mean of the runs that reach it within {WITHIN_S:g} s, and how many do if not all",
            _by(results.of("convergence"), ["cc", "aqm", "beta"], "rtt", "convergence", ".1f"),
        ),
        ("Throughput ratio", _by(coexistence, ["cc", "aqm", "standard", "beta"], "rtt", "rate_ratio", ".2f")),
        ("Reductions until drained", _by(overshoots, ["reduction", "beta"], "rtt", "reductions", ".0f")),
        ("Completion time / standard, by size in kB", _by(flat, ["cc", "aqm", "beta"], "size", "ratio", ".3f")),
    ]
    return "\n\n".join(f"### {title}\n\n{table}" for title, table in parts)
