"""The tables that the page rests on, from results of its experiments and coexistence*.toml."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from dumbbell import experiment
from dumbbell.evaluate import statement_verdict as judging
from dumbbell.evaluate.statement_file import load_statements
from dumbbell.study import Nothing, Results, shipped

from . import linux, terms
from .terms import LARGE, NO_LIMIT

QUESTIONS = (
    *("questions-hosts", "questions-weights", "questions-classes", "questions-marks"),
    *("questions-starts", "questions-starts-rtts", "coexistence", "coexistence-rtts"),
)
PLACE = ["mix", "gbit", "rtt", "n", "k", "aqm"]
_OF_CELL = ["variant", "rate_gbit", "rtt", "buffer", "n", "k", "aqm", "mix", "cls"]
POINTS = 0.05  # by which a share may miss its weight


def select_whole_seeds(results: Results, cells: Mapping[str, int] | None = None) -> Results:
    """Return the runs of those seeds that ran whole experiments: a mean is over the same seeds in every cell.

    `cells` is how many cells an experiment has; without it, as many as its largest seed.
    """
    counts = results.runs.group_by("experiment", "seed").agg(found=pl.len())
    wanted = pl.col("found").max().over("experiment")
    if cells is not None:
        wanted = pl.col("experiment").replace_strict(cells, default=0, return_dtype=pl.UInt32)
    whole = counts.filter(pl.col("found") == wanted).drop("found")
    keys = results.runs.join(whole, on=["experiment", "seed"], how="semi")["key"]
    return results.with_keys(keys)


def count_cells(folder: str) -> dict[str, int]:
    """Return how many cells the experiments of a folder have, by name."""
    names = [name for name in shipped.list_experiments() if name.startswith(f"{folder}/")]
    loaded = [experiment.load(name) for name in names]
    return {one.name: len({cell.cell_key for cell in one.make_cells()}) for one in loaded}


def average_seeds(frame: pl.DataFrame, by: Sequence[str], *values: str) -> pl.DataFrame:
    """Return means over seeds as `values`, least and largest of the first as `low` and `high`, and `seeds`."""
    first = pl.col(values[0])
    whole = frame.filter(first.is_not_null()).group_by(by)
    return whole.agg(pl.col(values).mean(), low=first.min(), high=first.max(), seeds=pl.col("seed").n_unique()).sort(by)


# The paper's matrix


def collect_matrix(results: Results) -> dict[str, pl.DataFrame]:
    """Return claims, runs and classes of the matrix, and what BBRv2's limit on ECN does.

    Experiments of which cells are missing are left out.
    """
    chosen = select_whole_seeds(results, count_cells("coexistence"))
    runs, classes = terms.runs(chosen), terms.classes(chosen)
    large = (pl.col("buffer") == LARGE) & (pl.col("rtt").is_in(["5", "50", "5+50"]))
    answers = large & pl.col("variant").is_in(["", NO_LIMIT])
    shared = {"gbit": pl.col("rate_gbit")}
    limit = classes.filter(
        large,
        pl.col("mix") == "both",
        pl.col("aqm") == "STEP",
        pl.col("cls").str.starts_with("bbr2"),
        pl.col("variant") != "",
    ).with_columns(**shared)
    equal = limit.filter(pl.col("rtt") != "5+50", pl.col("gbit") == 1)
    own = runs.filter(answers).with_columns(**shared)
    return {
        "claims": judge_claims(runs, classes),
        "runs": average_seeds(own, PLACE, "jain").join(
            average_seeds(own, PLACE, "utilisation").rename({"low": "use_low", "high": "use_high"}).drop("seeds"),
            on=PLACE,
        ),
        "classes": average_seeds(
            classes.filter(answers).with_columns(**shared), [*PLACE, "cls"], "relative_throughput"
        ).rename({"relative_throughput": "relative"}),
        "limit": average_seeds(equal, ["rtt", "n", "k", "variant"], "relative_throughput").rename(
            {"relative_throughput": "relative"}
        ),
    }


def judge_claims(runs: pl.DataFrame, classes: pl.DataFrame) -> pl.DataFrame:
    """Return one row per claim: what the paper says, the verdict, and that of Linux in those cells that it has.

    `where` says how the cells that fail are spread. `linux_fails` is null where Linux has no cell; `fails_there` is the
    same of the simulator in the cells that Linux has.
    """
    paper = load_statements("coexistence")
    found = judging.judge_statements(paper, {"runs": runs, "classes": classes})
    real = linux.collect_paper_tables()
    measured = judging.judge_statements(paper, real)
    here = [[name for name in frame.columns if name in _OF_CELL] for frame in (real["runs"], real["classes"])]
    same = {
        name: frame.join(real[name], on=keys, how="semi")
        for name, frame, keys in zip(real, (runs, classes), here, strict=True)
    }
    alike = judging.judge_statements(paper, same)
    rows = []
    for one, there, same_cells in zip(found, measured, alike, strict=True):
        claim, section = one.statement, paper.paragraphs[one.statement.answers[0]]
        aqms = {value for cell in claim.cells for column, value in cell if column == "aqm"}
        known = len(there.known)
        rows.append(
            {
                "id": claim.id,
                "section": section.title,
                "counted": section.counted,
                "aqms": ", ".join(aqm for aqm in terms.AQMS if aqm in aqms),
                "says": claim.says,
                "predicate": claim.text,
                "verdict": one.grade,
                "mean": claim.quantifier.is_mean,
                "held": one.met,
                "cells": len(one.known),
                "unsure": one.unsure,
                "value": one.value.mean,
                "where": "" if one.grade != judging.FAILS else spread(one.failing),
                "linux_held": there.met if known else None,
                "linux_cells": known,
                "linux_value": there.value.mean if known else None,
                "linux_fails": _fails(there, paper.numbers) if known else None,
                "fails_there": _fails(same_cells, paper.numbers) if known and same_cells.known else None,
                "reason": claim.reason if one.grade == judging.FAILS else "",
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _fails(verdict: judging.StatementVerdict, numbers: Mapping[str, float]) -> bool:
    """Whether a claim fails in the cells that there are."""
    statement = verdict.statement
    if statement.quantifier.is_mean:
        return not statement.bar.is_met(verdict.value.mean, numbers)
    return not statement.quantifier.is_true_of(verdict.met, len(verdict.known))


def spread(failing: Sequence[str]) -> str:
    """Return how cells, as `judging` names them, are spread over AQMs, numbers of flows and RTTs."""
    counts: dict[str, dict[str, int]] = {}
    for cell in failing:
        for part in cell.split(", "):
            column, _, value = part.partition(" ")
            if column in _SPREAD:
                counts.setdefault(column, {}).setdefault(value, 0)
                counts[column][value] += 1
    parts = []
    for column, name in _SPREAD.items():
        values = counts.get(column, {})
        if values:
            order = sorted(values, key=lambda value: (-values[value], value))
            parts.append(f"{name} " + ", ".join(f"{value} ({values[value]})" for value in order))
    return "; ".join(parts)


_SPREAD = {"aqm": "over", "n": "N =", "rtt": "RTT ="}


# Questions


def collect_questions(results: Results) -> dict[str, pl.DataFrame]:
    """Return what hosts and weights change, and the cells of Linux beside those of the simulator."""
    chosen = select_whole_seeds(results)
    places = [_place(row) for row in chosen.runs.iter_rows(named=True) if row["experiment"] in QUESTIONS]
    runs = pl.DataFrame(places, infer_schema_length=None)
    missing = [name for name in QUESTIONS if runs.is_empty() or name not in set(runs["experiment"])]
    if missing:
        raise Nothing(f"no runs of {', '.join(missing)}", "results of every question", file=results.path)
    measured = ("goodput_mbit", "rtt_mean_ms", "ce_marks", "packets")
    flows = chosen.frame("flows").select("key", "flow", "cc", "base_rtt_ms", *measured)
    each = runs.join(flows, on="key")
    hosts = runs.filter(pl.col("experiment") == "questions-hosts").with_columns(k=pl.col("step") / 625_000)
    return {
        "hosts": average_seeds(hosts, ["host", "n", "k"], "use"),
        "weights": pl.concat([compare_weights(each, "questions-weights"), compare_weights(each, "questions-classes")]),
        "marks": collect_marks(each),
        "linux": compare_with_linux(each),
        "linux_rtts": collect_two_rtts(each),
        "linux_hosts": linux.collect_changes(),
    }


def _place(row: dict[str, Any]) -> dict[str, Any]:
    """Return what tells a run apart."""
    config = json.loads(row["config"])
    flows, hosts, bottleneck = config["flows"], config["hosts"], config["bottleneck"]
    aqm, first, last = bottleneck["aqm"], flows[0], flows[-1]
    stages = {stage["name"]: stage for stage in bottleneck["behind"]}
    marker = next((stage for stage in first["path"] if stage["name"] == "value_marker"), {"window": 0})
    limits = [flow["cc"]["ecn_max_rtt"] / 1e6 for flow in flows if flow["cc"]["name"] == "bbr2"]
    return {
        "key": row["key"],
        "experiment": row["experiment"],
        "seed": row["seed"],
        "use": row["utilisation"],
        "n": sum(flow["count"] for flow in flows),
        "ccs": [flow["cc"]["name"] for flow in flows],
        "limit": f"{limits[0]:g}" if limits else "",
        "step": aqm.get("min"),
        "small": aqm["limit"] < 10_000_000,
        "rate": bottleneck["rate"] / 1e6,
        "window": marker["window"] / 1e6,
        "bursts": hosts["offload"] != "none",
        "first_weight": first["path"][0]["weight"] if first["path"] else 1.0,
        "last_weight": last["path"][0]["weight"] if last["path"] else 1.0,
        "host": describe_host(
            hosts["profile"],
            hosts["prr"],
            hosts["offload"],
            hosts["tso_rtt"],
            hosts["pacing"],
            stages["gro"]["interval"] / 1e3 if "gro" in stages else 0.0,
            first["ack_path"][0]["interval"] / 1e3 if first["ack_path"] else 0.0,
        ),
    }


def describe_host(profile: str, prr: str, offload: str, tso_rtt: bool, pacing: str, gro: float, batch: float) -> str:
    """Return what is not as in the kernel of a profile; `gro` and `batch` in us."""
    kernel = profile.removeprefix("linux-")
    changes = {
        "PRR of 5.15 on": kernel == "5.4" and prr == "rfc6937bis",
        "the old PRR": kernel == "6.1" and prr == "rfc6937",
        "no bursts": offload == "none",
        "bursts grow with short RTTs": kernel == "5.4" and tso_rtt,
        "paced by fq": pacing == "fq",
        f"receive offload, {gro:g} us": gro > 0,
        f"ACKs in batches of {batch:g} us": batch > 0,
    }
    return ", ".join([kernel, *(word for word, is_so in changes.items() if is_so)])


def compare_with_linux(each: pl.DataFrame) -> pl.DataFrame:
    """Return cells of equal RTTs: use, BBRv2's share and mean RTT on Linux, and over seeds in the simulator.

    `_started` are means with the starts of the Linux runs, where those ran.
    """
    goodput = pl.col("goodput_mbit")
    runs = (
        each.filter(pl.col("experiment").is_in(["coexistence", "questions-starts"]))
        .with_columns(mix=pl.col("ccs").list.unique().list.sort().list.join("+"))
        .group_by("experiment", "key", "seed", "mix", "limit", "n", "step", "small", rtt=pl.col("base_rtt_ms").round(3))
        .agg(
            use=goodput.sum() / pl.col("rate").first(),
            share=goodput.filter(pl.col("cc") == "bbr2").sum() / goodput.sum(),
            srtt=pl.col("rtt_mean_ms").mean(),
        )
        .with_columns(pl.col("rtt").cast(pl.Int64), pl.col("step").cast(pl.Int64), pl.col("n").cast(pl.Int64))
    )
    keys = linux.KEYS
    measures = ("use", "share", "srtt")
    ends = [end for name in measures for end in (pl.min(name).alias(f"{name}_low"), pl.max(name).alias(f"{name}_high"))]
    random = runs.filter(pl.col("experiment") == "coexistence").group_by(keys)
    simulated = random.agg(pl.col(measures).mean().name.suffix("_sim"), *ends, seeds=pl.len())
    started = runs.filter(pl.col("experiment") == "questions-starts").group_by(keys)
    measured = linux.collect_cells().with_columns(pl.col("n").cast(pl.Int64))
    both = measured.join(simulated, on=keys).join(
        started.agg(pl.col(measures).mean().name.suffix("_started")), on=keys, how="left"
    )
    return both.with_columns(k=(pl.col("step") / 125_000 / pl.col("rtt")).round(6)).sort(
        "mix", "limit", "rtt", "n", "small", "k"
    )


def collect_marks(each: pl.DataFrame) -> pl.DataFrame:
    """Return the shares of both controls' packets that STEP marks, and their `balance`: the smaller over the larger.

    With bursts as Linux 5.4 sends them, and with single segments.
    """
    of = each.filter(pl.col("experiment") == "questions-marks").group_by("key", "seed", "bursts", "n", "step", "cc")
    classes = of.agg(marked=pl.col("ce_marks").sum() / pl.col("packets").sum())
    wide = classes.pivot("cc", index=["key", "seed", "bursts", "n", "step"], values="marked")
    least, largest = pl.min_horizontal("bbr2", "dctcp"), pl.max_horizontal("bbr2", "dctcp")
    balanced = wide.with_columns(balance=least / largest, k=pl.col("step") / 625_000)
    return average_seeds(balanced, ["bursts", "n", "k"], "balance", "bbr2", "dctcp")


def collect_two_rtts(each: pl.DataFrame) -> pl.DataFrame:
    """Return the relative throughput (goodput) of each class of two controls and RTTs, on Linux and over seeds.

    `low` and `high` are of random starts, `started` is the mean with the starts of the Linux runs.
    """
    runs = each.filter(pl.col("experiment").is_in(["coexistence-rtts", "questions-starts-rtts"])).group_by(
        "experiment", "key", "seed", "step", "cc", rtt=pl.col("base_rtt_ms").round(3).cast(pl.Int64)
    )
    seeds = runs.agg(sim=pl.col("goodput_mbit").mean() * pl.col("n").first() / pl.col("rate").first())
    keys = ["step", "cc", "rtt"]
    random = average_seeds(seeds.filter(pl.col("experiment") == "coexistence-rtts"), keys, "sim")
    started = average_seeds(seeds.filter(pl.col("experiment") != "coexistence-rtts"), keys, "sim")
    both = linux.collect_two_rtts().join(random, on=keys).join(started.select(*keys, started="sim"), on=keys)
    return both.with_columns(k=pl.col("step") / 625_000).sort("k", "rtt", "cc", descending=[False, True, False])


def compare_weights(each: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the share of the first half of the flows over seeds, and what their weights want."""
    goodput = pl.col("goodput_mbit").sort_by("flow")
    first = pl.col("first_weight") / (pl.col("first_weight") + pl.col("last_weight"))
    runs = (
        each.filter(pl.col("experiment") == name)
        .group_by("key", maintain_order=True)
        .agg(
            pl.col("seed", "rate", "window", "first_weight", "last_weight").first(),
            pl.col("ccs").first(),
            wanted=first.first(),
            share=goodput.head(pl.len() // 2).sum() / goodput.sum(),
        )
        .with_columns(
            mix=pl.col("ccs").map_elements(_name_mix, return_dtype=pl.String),
            weights=pl.format("{}:{}", *(pl.col(name).cast(pl.Int64) for name in ("first_weight", "last_weight"))),
            experiment=pl.lit(name),
        )
    )
    return average_seeds(runs, ["experiment", "mix", "weights", "rate", "window", "wanted"], "share").with_columns(
        off=(pl.col("share") - pl.col("wanted")).abs()
    )


def _name_mix(ccs: Sequence[str]) -> str:
    return f"{ccs[0]} and {ccs[-1]}" if len(ccs) == 2 else ", ".join(list(ccs)[: len(ccs) // 2])
