"""Figures and tables of Alternative Backoff with ECN (RFC 8511), as in its authors' slides, from experiments/abe."""

import json
import math
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import polars as pl

from dumbbell.compare import latest_engine, only_flows
from dumbbell.errors import InputError
from dumbbell.store import Store
from dumbbell.tables import aligned

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

TARGET_MS = 5.0  # of CoDel; a queue below it is drained
QUEUES = ("codel", "pie")
STANDARD = {"reno": 0.5, "cubic": 0.7}
DEFAULTS = {"reno": 0.8, "cubic": 0.85}  # RFC 8511 section 3.1
SLIDES = (1.25, 2.0)  # mean throughput ratio of CUBIC with 0.7 to 0.85 to standard TCP, as the slides have it
_PLACE = ("aqm", "rate", "rtt")


def _describe(row: dict[str, Any]) -> dict[str, Any]:
    config = json.loads(row["config"])
    flow, last = config["flows"][0], config["flows"][-1]
    cc = flow["cc"]
    return {
        "key": row["key"],
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
        **{name: row.get(name) for name in ("goodput_total_mbit", "sojourn_p50_ms", "sojourn_p99_ms", "rate_ratio")},
        "convergence": row.get("convergence_cumulative_s"),
    }


def _has_abe(config: dict[str, Any]) -> bool:
    return only_flows(config) and "abe" in config["flows"][0]["cc"]


EXPERIMENTS = ("gain", "convergence", "coexistence", "slow-start", "short")


class Results:
    """Runs of experiments/abe with what tells them apart; raises InputError if runs of a file are missing."""

    def __init__(self, path: str | Path) -> None:
        with Store.open(path) as store:
            runs = latest_engine(store.table("runs").rows(named=True))
            rows = [row for row in runs if _has_abe(json.loads(row["config"]))]
            self._tables = {name: store.table(name) for name in ("flows", "series", "queue_series", "sojourn")}
        if not rows:
            raise InputError(str(path), "", "no run with ABE", "results of experiments/abe/*.toml")
        self.runs = pl.DataFrame([_describe(row) for row in rows], infer_schema_length=None)
        missing = [name for name in EXPERIMENTS if self.of(name).is_empty()]
        if missing:
            found = f"no runs of {', '.join(missing)} by the latest engine that the file has runs of"
            raise InputError(str(path), "", found, "results of experiments/abe/*.toml")

    def of(self, experiment: str) -> pl.DataFrame:
        """Return the runs of one file of experiments/abe."""
        return self.runs.filter(pl.col("experiment") == experiment)

    def table(self, name: str, keys: pl.Series) -> pl.DataFrame:
        """Return the rows of a table that belong to runs."""
        return self._tables[name].filter(pl.col("key").is_in(keys.implode()))

    def gains(self) -> pl.DataFrame:
        """Return goodput and sojourn of one flow beside those without ABE, means over seeds.

        `p50` is a difference in ms, since a link that is not full has a median near zero; `p99` is a ratio.
        """
        measures = ("goodput_total_mbit", "sojourn_p50_ms", "sojourn_p99_ms")
        mean = self.of("gain").group_by("cc", "abe", "beta", "ecn", *_PLACE).agg(pl.col(measures).mean())
        standard = mean.filter(~pl.col("abe") & pl.col("ecn"))
        beside = standard.select("cc", *_PLACE, *(pl.col(m).alias(f"standard_{m}") for m in measures))
        return mean.join(beside, on=["cc", *_PLACE]).with_columns(
            gain=100 * (pl.col(measures[0]) / pl.col(f"standard_{measures[0]}") - 1),
            p50=pl.col(measures[1]) - pl.col(f"standard_{measures[1]}"),
            p99=pl.col(measures[2]) / pl.col(f"standard_{measures[2]}"),
        )

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


def _panels(down: int, across: int, size: tuple[float, float]) -> list[list[Axes]]:
    _, axes = plt.subplots(
        down, across, figsize=(size[0] * across, size[1] * down), squeeze=False, layout="constrained"
    )
    return [list(row) for row in axes]


def _by_rtt(axis: Axes, rows: pl.DataFrame, value: str, label: str) -> None:
    rows = rows.sort("rtt")
    axis.plot([f"{rtt:g}" for rtt in rows["rtt"]], rows[value], marker="o", markersize=4, label=label)


def _gain(results: Results) -> None:
    gains = results.gains().filter(pl.col("abe"))
    places = [("reno", "codel", 10.0), ("reno", "pie", 10.0), ("cubic", "codel", 10.0), ("cubic", "pie", 10.0)]
    places += [("cubic", "codel", 20.0), ("cubic", "pie", 20.0)]
    panels = _panels(3, 2, (5, 3))
    for axis, (cc, aqm, rate) in zip(chain.from_iterable(panels), places, strict=True):
        here = gains.filter(pl.col("cc") == cc, pl.col("aqm") == aqm, pl.col("rate") == rate)
        for beta in sorted(here["beta"].unique()):
            _by_rtt(axis, here.filter(pl.col("beta") == beta), "gain", f"{beta:g}")
        axis.axhline(0, color="0.5", linewidth=0.8)
        axis.set(title=f"{cc}, {aqm}, {rate:g} Mbit/s", xlabel="base RTT, ms", ylabel="gain in goodput, %")
    panels[0][1].legend(title="beta_ecn", fontsize="small", ncols=2)


def _sojourn(results: Results) -> None:
    runs = results.of("gain").filter(pl.col("rate") == 10, pl.col("ecn"))
    rtts = sorted(runs["rtt"].unique())
    panels = _panels(4, len(rtts), (3.2, 2.5))
    for row, (cc, aqm) in zip(panels, product(STANDARD, QUEUES), strict=True):
        for axis, rtt in zip(row, rtts, strict=True):
            for beta in (STANDARD[cc], DEFAULTS[cc], 0.95):
                here = (pl.col("cc") == cc) & (pl.col("aqm") == aqm) & (pl.col("rtt") == rtt) & (pl.col("beta") == beta)
                bins = results.table("sojourn", runs.filter(here)["key"])
                bins = bins.group_by("from_ms").agg(pl.col("packets").sum()).sort("from_ms")
                shares = bins["packets"].cum_sum() / bins["packets"].sum()
                axis.plot(bins["from_ms"], shares, label=f"{beta:g}" + (" (standard)" if beta == STANDARD[cc] else ""))
            axis.set(title=f"{cc}, {aqm}, {rtt:g} ms", xlim=(0, 20 if aqm == "codel" else 50), ylim=(0, 1))
        row[0].set_ylabel("share of packets")
        row[-1].legend(title="beta_ecn", fontsize="small", loc="lower right")
    for axis in panels[-1]:
        axis.set_xlabel("sojourn, ms")


def _convergence(results: Results) -> None:
    runs = results.of("convergence").with_columns(pl.col("convergence").fill_null(60.0))
    mean = runs.group_by("cc", "aqm", "beta", "rtt").agg(pl.col("convergence").mean())
    panels = _panels(2, 2, (5, 3))
    for axis, (cc, aqm) in zip(chain.from_iterable(panels), product(STANDARD, QUEUES), strict=True):
        here = mean.filter(pl.col("cc") == cc, pl.col("aqm") == aqm)
        for beta in sorted(here["beta"].unique()):
            name = f"{beta:g}" + (" (standard)" if beta == STANDARD[cc] else "")
            _by_rtt(axis, here.filter(pl.col("beta") == beta), "convergence", name)
        axis.set(title=f"{cc}, {aqm}", xlabel="base RTT, ms", ylabel="time to Jain 0.95, s", ylim=(0, 60))
        axis.legend(title="beta_ecn", fontsize="small")


def _ratio(results: Results) -> None:
    runs = results.of("coexistence").filter(pl.col("cc") == "cubic")
    mean = runs.group_by("aqm", "rival_ecn", "beta", "rtt").agg(pl.col("rate_ratio").mean())
    panels = _panels(2, 2, (5, 3.2))
    for row, rival_ecn in zip(panels, (False, True), strict=True):
        for axis, aqm in zip(row, ("codel", "pie"), strict=True):
            here = mean.filter(pl.col("aqm") == aqm, pl.col("rival_ecn") == rival_ecn)
            for rtt in sorted(here["rtt"].unique()):
                line = here.filter(pl.col("rtt") == rtt).sort("beta")
                axis.plot(line["beta"], line["rate_ratio"], marker="o", markersize=4, label=f"{rtt:g} ms")
            whole = here.group_by("beta").agg(pl.col("rate_ratio").mean()).sort("beta")
            axis.plot(whole["beta"], whole["rate_ratio"], color="black", linewidth=2, label="mean")
            axis.fill_between((0.7, 0.85), *SLIDES, color="0.9", label="slides: the mean")
            rival = "with" if rival_ecn else "without"
            axis.set(title=f"{aqm}, standard TCP {rival} ECN", xlabel="beta_ecn", ylabel="throughput ratio")
    panels[0][0].legend(fontsize="small")


def _slow_start(results: Results) -> None:
    overshoots = results.overshoots()
    panels = _panels(2, 3, (5, 3))
    for column, (beta, best) in enumerate(((0.5, False), (0.8, False), (0.8, True))):
        here = overshoots.filter(pl.col("beta") == beta, pl.col("reduction") == "immediate")
        chosen = here.sort("goodput_total_mbit", descending=best).row(0, named=True)
        own = pl.Series([chosen["key"]])
        flow, queue = results.table("series", own).sort("time_s"), results.table("queue_series", own).sort("time_s")
        top, bottom = panels[0][column], panels[1][column]
        top.plot(flow["time_s"], flow["cwnd"], drawstyle="steps-post")
        capacity = chosen["rate"] * 1e3 * chosen["rtt"] / 8 / 1514
        top.axhline(capacity, color="0.5", linestyle="--", label="BDP")
        luck = "standard" if beta == 0.5 else "lucky" if best else "unlucky"
        title = f"{luck}, beta_ecn {beta:g}, {chosen['rtt']:g} ms: {chosen['goodput_total_mbit']:.2f} Mbit/s"
        top.set(title=title, ylabel="cwnd, segments", ylim=(0, None))
        top.legend(fontsize="small")
        bottom.plot(queue["time_s"], queue["sojourn_mean_ms"])
        bottom.axhline(TARGET_MS, color="0.5", linestyle="--", label="target")
        bottom.set(xlabel="time, s", ylabel="sojourn, ms", ylim=(0, None))
        bottom.legend(fontsize="small")


def _reductions(results: Results) -> None:
    overshoots = results.overshoots()
    [[axis]] = _panels(1, 1, (6, 3.6))
    for reduction, offset in (("immediate", -0.006), ("prr", 0.006)):
        here = (
            overshoots.filter(pl.col("reduction") == reduction)
            .group_by("beta")
            .agg(pl.col("reductions").mean(), low=pl.col("reductions").min(), high=pl.col("reductions").max())
            .sort("beta")
        )
        spread = [(here["reductions"] - here["low"]).to_list(), (here["high"] - here["reductions"]).to_list()]
        places = (here["beta"] + offset).to_list()
        axis.errorbar(places, here["reductions"].to_list(), yerr=spread, fmt="o", capsize=3, label=reduction)
    betas = [0.5 + 0.005 * n for n in range(91)]
    axis.plot(betas, [math.log(0.5) / math.log(beta) for beta in betas], color="black", label="log(0.5) / log(beta)")
    axis.set(xlabel="beta_ecn", ylabel="reductions until the queue is drained", ylim=(0, None))
    axis.legend(fontsize="small")


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


def _completion(results: Results) -> None:
    ratios = completions(results)
    panels = _panels(2, 2, (5, 3))
    for axis, (cc, aqm) in zip(chain.from_iterable(panels), product(STANDARD, QUEUES), strict=True):
        here = ratios.filter(pl.col("cc") == cc, pl.col("aqm") == aqm, pl.col("beta") != STANDARD[cc])
        for number, beta in enumerate(sorted(here["beta"].unique())):
            line = here.filter(pl.col("beta") == beta).sort("size")
            spread = [(line["ratio"] - line["low"]).to_list(), (line["high"] - line["ratio"]).to_list()]
            places = [i + 0.15 * (number - 1) for i in range(line.height)]
            axis.errorbar(places, line["ratio"].to_list(), yerr=spread, fmt="o", capsize=2, label=f"{beta:g}")
        sizes = sorted(here["size"].unique())
        axis.set_xticks(range(len(sizes)), [f"{size / 1e3:g}" for size in sizes])
        axis.axhline(1, color="0.5", linewidth=0.8)
        axis.set(title=f"{cc}, {aqm}", xlabel="size, MB", ylabel="completion time / standard")
    panels[0][0].legend(title="beta_ecn", fontsize="small")


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
    paths = []
    for name, figure in FIGURES.items():
        path = Path(folder) / f"abe-{name}.png"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure(results)
            plt.savefig(path, dpi=110)
        except OSError as error:
            raise InputError(str(path), "", error.strerror or str(error), "a folder that can be written to") from None
        finally:
            plt.close("all")
        paths.append(path)
    return paths


def _by(frame: pl.DataFrame, rows: list[str], column: str, value: str, form: str) -> str:
    """Return a Markdown table of means: `rows` by the values of `column`."""
    heads = sorted(frame[column].unique())
    means = {tuple(r[:-1]): r[-1] for r in frame.group_by(*rows, column).agg(pl.col(value).mean()).rows()}
    lines = sorted({key[:-1] for key in means}, key=lambda key: tuple(str(part) for part in key))
    body = [
        [*(f"{part:g}" if isinstance(part, float) else str(part) for part in line)]
        + [format(means[*line, head], form) if means.get((*line, head)) is not None else "-" for head in heads]
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
        ("Gain in goodput, %", _by(abe, ["cc", "aqm", "rate", "beta"], "rtt", "gain", "+.1f")),
        ("Sojourn P50 - standard, ms", _by(abe, ["cc", "aqm", "rate", "beta"], "rtt", "p50", "+.1f")),
        ("Sojourn P99 / standard", _by(abe, ["cc", "aqm", "rate", "beta"], "rtt", "p99", ".2f")),
        ("Time to Jain 0.95, s", _by(results.of("convergence"), ["cc", "aqm", "beta"], "rtt", "convergence", ".1f")),
        ("Throughput ratio", _by(coexistence, ["cc", "aqm", "standard", "beta"], "rtt", "rate_ratio", ".2f")),
        ("Reductions until drained", _by(overshoots, ["reduction", "beta"], "rtt", "reductions", ".0f")),
        ("Completion time / standard, by size in kB", _by(flat, ["cc", "aqm", "beta"], "size", "ratio", ".3f")),
    ]
    return "\n\n".join(f"### {title}\n\n{table}" for title, table in parts)
