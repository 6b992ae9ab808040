"""What the page on Alternative Backoff with ECN rests on: its experiments, and CUBIC's beta on Linux."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl

from dumbbell.study import LEVEL, Evidence, Picture, Results, Rows, Sweep, align_table, make_grid, shipped

from . import paper

QUESTION = "Do the claims of the slides on RFC 8511 hold: throughput, delay, coexistence, convergence?"
GALLERY = {"coexistence": "abe-ratio", "short": "abe-completion"}
ALSO_DRAWN = {"abe-reductions": "closed-form", "abe-sojourn": "gain"}
RUNS = (
    Sweep(
        "abe.duckdb",
        ("gain", "convergence", "coexistence", "slow-start", "short", "closed-form"),
    ),
    Sweep("abe-beta.duckdb", ("cubic-beta",)),
    Sweep("abe-prr.duckdb", ("closed-form",), ("hosts.ecn_reduction=prr",)),
    Sweep("abe-unpaced.duckdb", ("closed-form",), ("hosts.pacing=cc",)),
)
LINUX = "linux-cubic-beta"
CCS = {"reno": "NewReno", "cubic": "CUBIC"}
AQMS = {"codel": "CoDel", "pie": "PIE"}


def make_evidence(
    results: Results, beta: Results, prr: Results, unpaced: Results
) -> dict[str, pl.DataFrame | Callable[[], pl.DataFrame]]:
    """Return one row per run, the distributions and series that figures show, and cells beside theory and Linux."""
    found = paper.Results(results.path)
    overshoots = found.count_overshoots().select("key", "reductions", "peak", "left")
    done = found.select_table("flows", found.select_runs("short")["key"]).select("key", "completion_s")
    runs = found.runs.join(overshoots, on="key", how="left").join(done, on="key", how="left", nulls_equal=False)
    runs = runs.sort("experiment", "cc", "aqm", "rate", "rtt", "size", "reduction", "beta", "ecn", "rival_ecn", "seed")
    runs = runs.with_row_index("number")
    chosen = runs.filter(pl.col("key").is_in(_select_shown(found)["key"].implode()))
    own = chosen.select("key", "number")
    series = found.select_table("series", chosen["key"]).select("key", "time_s", "cwnd", "ssthresh")
    queue = found.select_table("queue_series", chosen["key"]).select("key", "time_s", "sojourn_mean_ms")
    closed = {"as theory": results, "spread over a round trip": prr, "not paced": unpaced}
    return {
        "runs": runs.drop("key").with_columns(pl.col("hash").str.head(6)),
        "sojourn": _collect_distribution(found),
        "windows": series.join(own, on="key").drop("key").sort("number", "time_s"),
        "queues": queue.join(own, on="key").drop("key").sort("number", "time_s"),
        "closed": lambda: pl.concat([_compare_closed_form(name, one) for name, one in closed.items()]),
        "linux": lambda: _compare_with_linux(beta),
    }


def _select_shown(found: paper.Results) -> pl.DataFrame:
    """Return the runs whose slow start is drawn."""
    return pl.concat([run for _, run in paper.select_slow_starts(found)])


def _collect_distribution(found: paper.Results) -> pl.DataFrame:
    """Return histograms of the time in queue at 80 ms and 10 Mbit/s; a bin has 0.5 % of the packets or more."""
    runs = paper.select_sojourns(found)
    bins = found.select_table("sojourn", runs["key"]).join(runs.select("key", "cc", "aqm", "beta"), on="key")
    by = ["cc", "aqm", "beta"]
    sums = bins.group_by(*by, "from_ms").agg(pl.col("packets").sum()).sort(*by, "from_ms")
    share = (pl.col("packets").cum_sum() / pl.col("packets").sum() * 200).floor().over(by)
    return (
        sums.with_columns(part=share)
        .group_by(*by, "part", maintain_order=True)
        .agg(pl.col("from_ms").min(), pl.col("packets").sum())
        .drop("part")
    )


def _compare_closed_form(name: str, results: Results) -> pl.DataFrame:
    """Return the utilisation of runs of closed-form.toml beside what theory gives an AIMD flow."""
    keys = {"rate": "bottleneck.rate", "rtt": "flows[0].base_rtt", "least": "bottleneck.aqm.min"}
    runs = results.tidy("runs", keys | {"beta": "flows[0].cc.beta_ecn"}).filter(experiment="closed-form")
    bdp = pl.col("rate") * 1e6 * (pl.col("rtt") * 1e6) / 8e9
    depth = pl.when(least=1).then(0.0).otherwise(pl.col("least") / bdp)
    runs = runs.select("utilisation", hosts=pl.lit(name), beta=pl.col("beta").fill_null(0.5), depth=depth)
    places = runs.select("beta", "depth").rows()
    once, twice = ([predict_utilisation(beta**power, depth) for beta, depth in places] for power in (1, 2))
    return (
        runs.select("hosts", "beta", "depth", "utilisation")
        .with_columns(pl.Series("theory", once), pl.Series("twice", twice))
        .sort("beta", "depth")
    )


def predict_utilisation(beta: float, depth: float) -> float:
    """Return the utilisation of a flow that keeps `beta` after a mark at `depth` BDPs of queue.

    Its window runs from a = beta m to m = 1 + depth, one segment a round trip.
    """
    kept = 1 - beta * (1 + depth)
    return 1 - kept**2 / (2 * kept + (1 + depth) ** 2 - 1) if kept > 0 else 1.0


def _compare_with_linux(results: Results) -> pl.DataFrame:
    """Return goodput and marks of CUBIC with another beta beside one run of Linux, over the starts of the simulator."""
    keys = {"rate": "bottleneck.rate", "rtt": "flows[0].base_rtt", "beta": "flows[0].cc.beta"}
    runs = results.tidy("runs", keys).with_columns((pl.col("beta") / 1024).round(2), marks=pl.col("ce_marks"))
    goodput = pl.col("goodput_total_mbit")
    simulated = runs.group_by("rate", "rtt", "beta").agg(
        pl.col("marks").mean(), goodput=goodput.mean(), low=goodput.min(), high=goodput.max(), starts=pl.len()
    )
    measured = pl.read_csv(
        shipped.list_references()[LINUX], schema_overrides={"rate_mbit": pl.Float64, "delay_ms": pl.Float64}
    )
    measured = measured.rename(
        {"rate_mbit": "rate", "delay_ms": "rtt", "goodput_mbit": "linux", "marks": "linux_marks"}
    )
    return measured.join(simulated, on=["rate", "rtt", "beta"]).sort("rate", "rtt", "beta")


class Kept(paper.Results):
    """The runs of its experiments from the evidence, as `dumbbell.abe` draws them."""

    def __init__(self, found: Evidence) -> None:
        self.notes = []
        runs = found["runs"].with_columns(key=pl.col("number").cast(pl.String))
        self.runs = runs
        flows = runs.filter(experiment="short").select("key", "completion_s")
        series, queue = (
            found[name].with_columns(key=pl.col("number").cast(pl.String)) for name in ("windows", "queues")
        )
        self._tables = {"flows": flows, "series": series, "queue_series": queue, "sojourn": pl.DataFrame()}
        self._sojourns = found["sojourn"]

    def collect_sojourns(self) -> pl.DataFrame:
        """Return the histograms of the time in queue."""
        return self._sojourns

    def count_overshoots(self) -> pl.DataFrame:
        """Return the runs of slow-start.toml with their reductions."""
        return self.select_runs("slow-start")


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return what the template asks for beside the runs."""
    gains = Kept(found).compute_gains().with_columns(half=pl.col("high") - pl.col("gain"))
    # Linux's goodput has two decimals, its marks are whole: the simulator's are compared as the table prints them
    linux = found["linux"].with_columns(
        error=((pl.col("goodput").round(2) - pl.col("linux")) / pl.col("rate")).round(6),
        marks_error=pl.col("marks").round(0) - pl.col("linux_marks"),
    )
    closed = found["closed"].with_columns(
        error=pl.col("utilisation") / pl.col("theory") - 1, error_twice=pl.col("utilisation") / pl.col("twice") - 1
    )
    return {
        "within": paper.WITHIN_S,
        "level": LEVEL,
        "gains": Rows("gains", gains),
        "beside": Rows(
            "beside", linux.with_columns(near=(pl.col("error").abs() <= 0.001) & (pl.col("marks_error").abs() <= 1))
        ),
        "theory": Rows("theory", closed),
        "ratios": Rows("ratios", _compute_ratios(found)),
        "waits": Rows("waits", compute_waits(found)),
        "completions": Rows("completions", paper.collect_completions(Kept(found))),
        "steps": lambda beta, factor: math.log(1 / factor) / math.log(beta),
        "ranks": lambda cc, aqm, rtt: _test_ranks(found, cc, aqm, rtt),
        "slow": Rows("slow", _select_slow_start(found)),
    }


def _select_slow_start(found: Evidence) -> pl.DataFrame:
    runs = found["runs"].filter(experiment="slow-start")
    capacity = pl.col("rate") * 1e3 * pl.col("rtt") / 8 / 1514
    return runs.select("beta", "reduction", "rtt", "reductions", peak_bdp=pl.col("peak") / capacity)


def _compute_ratios(found: Evidence) -> pl.DataFrame:
    """Return throughput ratios of CUBIC with ABE to CUBIC without: means over RTTs, with and without the shortest."""
    runs = found["runs"].filter(experiment="coexistence", cc="cubic")
    each = runs.group_by("aqm", "rival_ecn", "beta", "rtt").agg(pl.col("rate_ratio").mean())
    by = ["aqm", "rival_ecn", "beta"]
    all_rtts = each.group_by(by).agg(mean=pl.col("rate_ratio").mean())
    longer = each.filter(pl.col("rtt") > 20).group_by(by).agg(longer=pl.col("rate_ratio").mean())
    short = each.filter(rtt=20.0).select(*by, shortest="rate_ratio")
    return all_rtts.join(longer, on=by).join(short, on=by).sort(by)


def compute_waits(found: Evidence) -> pl.DataFrame:
    """Return the median time to convergence; a run that does not converge counts as longer than all others."""
    runs = found["runs"].filter(experiment="convergence")
    by = ["cc", "aqm", "beta", "abe", "rtt"]
    late = pl.col("convergence").fill_null(math.inf)
    return (
        runs.group_by(by)
        .agg(median=late.median().replace(math.inf, None), runs=pl.len(), late=pl.col("convergence").null_count())
        .sort(by)
    )


def _test_ranks(found: Evidence, cc: str, aqm: str, rtt: float) -> float:
    """Return p of the rank-sum test between times to convergence with RFC 8511's factor and without ABE."""
    runs = found["runs"].filter(experiment="convergence", cc=cc, aqm=aqm, rtt=rtt)
    times = pl.col("convergence").fill_null(1e9)
    one, other = (
        runs.filter(beta=beta).select(times)["convergence"] for beta in (paper.DEFAULTS[cc], paper.STANDARD[cc])
    )
    ranks = pl.concat([one, other]).rank()
    ties = ranks.value_counts()["count"]
    pairs, values = one.len() * other.len(), ranks.len()
    wins = float(ranks.head(one.len()).sum()) - one.len() * (one.len() + 1) / 2
    variance = pairs / 12 * (values + 1 - float((ties.cast(pl.Float64) ** 3 - ties).sum()) / (values * (values - 1)))
    # the sum of ranks is nearly normal (Mann and Whitney 1947); a half corrects for its steps
    return min(1.0, math.erfc((abs(wins - pairs / 2) - 0.5) / math.sqrt(2 * variance))) if variance else math.nan


# Tables


def format_closed_table(found: Evidence) -> str:
    """Return utilisation, simulated (theory), of a flow that is paced and reduced at once."""
    own = found["closed"].filter(hosts="as theory").with_columns(pl.col("depth").round(3)).sort("beta")
    depths = sorted(set(own["depth"]))
    rows = make_grid(own, ["beta"], "depth", depths, lambda row: f"{row['utilisation']:.3f} ({row['theory']:.3g})")
    return align_table(["beta \\ threshold / BDP", *(f"{depth:g}" for depth in depths)], rows)


def format_gain_table(found: Evidence) -> str:
    """Return the gain of RFC 8511's factors, per cent."""
    gains = Kept(found).compute_gains().filter(pl.col("beta") == pl.col("cc").replace_strict(paper.DEFAULTS))
    rows = []
    for cc, rate, aqm in itertools.product(CCS, (10, 20), AQMS):
        cells = gains.filter(cc=cc, aqm=aqm, rate=float(rate)).sort("rtt")
        texts = []
        for row in cells.iter_rows(named=True):
            half = row["high"] - row["gain"]
            texts.append(f"{row['gain']:.1f}" + (f" ± {half:.1f}" if half >= 0.05 else ""))
        rows.append([f"{CCS[cc]}, {AQMS[aqm]}, {rate} Mbit/s", *texts])
    return align_table(["gain, %", "20 ms", "80 ms", "160 ms", "320 ms"], rows)


def format_linux_table(found: Evidence) -> str:
    """Return goodput and marks of the simulator and of Linux."""
    betas = sorted(set(found["linux"]["beta"]))

    def format_cell(row: dict[str, Any]) -> str:
        return f"{row['goodput']:.2f} / {row['linux']:.2f}, {row['marks']:.0f} / {row['linux_marks']:.0f}"

    cells = make_grid(found["linux"], ["rate", "rtt"], "beta", betas, format_cell)
    rows = [[f"{rate} Mbit/s, {rtt} ms", *texts] for rate, rtt, *texts in cells]
    return align_table(["", *(f"beta {beta:g}" for beta in betas)], rows)


def format_waits_table(found: Evidence) -> str:
    """Return the median time to convergence without ABE and with RFC 8511's factor."""
    frame = compute_waits(found)
    rows = []
    for aqm in AQMS:
        for cc in CCS:
            for beta in (paper.STANDARD[cc], paper.DEFAULTS[cc]):
                own = frame.filter(cc=cc, aqm=aqm, beta=beta, rtt=pl.col("rtt")).filter(pl.col("rtt") >= 80).sort("rtt")
                texts = [
                    ("-" if r["median"] is None else f"{r['median']:.1f}") + (f", {r['late']} not" if r["late"] else "")
                    for r in own.iter_rows(named=True)
                ]
                rows.append([f"{CCS[cc]}, {beta:g}, {AQMS[aqm]}", *texts])
    return align_table(["median of 20 runs, s", "80 ms", "160 ms", "320 ms"], rows)


TABLES = {
    "closed": format_closed_table,
    "gain": format_gain_table,
    "linux": format_linux_table,
    "waits": format_waits_table,
}


def draw_figure(found: Evidence, name: str) -> Picture:
    """Draw a figure of the paper from the evidence."""
    return paper.FIGURES[name](Kept(found))


FIGURES = {f"abe-{name}": partial(draw_figure, name=name) for name in paper.FIGURES}
