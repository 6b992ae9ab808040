"""Agents that PPO trained on Aurora's task, next to CUBIC, BBRv3 and rules, in networks that they have not seen."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from dumbbell.experiment import shipped
from dumbbell.study import (
    Evidence,
    Picture,
    Results,
    Rows,
    Sweep,
    align_table,
    figures,
    order_names,
)

from .held_out import compute_bound, draw_networks, measure_runs

QUESTION = "Can an agent learn congestion control in minutes, and how does it do next to CUBIC and BBRv3?"
RUNS = (Sweep("learning.duckdb", ("heldout",)),)
GALLERY = {"heldout": "learning-scores"}
TRAINED, UNTRAINED, RULE = "trained agent", "untrained agent", "rule of one line"
KINDS = {"trained": TRAINED, "untrained": UNTRAINED, "rule": RULE}
_MISSING = pl.col("bound") - pl.col("reward")
ORDER = (TRAINED, RULE, "BBRv3", UNTRAINED, "start rate kept", "CUBIC")
NAMES = (
    *(r"100 to 500 packets per second", r"RTTs of 100 to 1000 ms", r"queues of 2 to 2981 packets", r"5 % random loss"),
    *(
        r"lasts 60 s",
        r"of 60 s",
        r"ICML 2019",
        r"ten monitor intervals",
        r"every half RTT",
        r"two cores",
        r"layers of 32 and 16",
        r"of 16 simulations",
        r"of 400 steps",
        r"minimum by 5 %",
        r"over 1000",
    ),
    *(r"10 · throughput", r"1000 · latency", r"2000 · loss", r"BBRv3"),
)


def collect_controls(results: Results) -> pl.DataFrame:
    """Return one row for each network and control: score, goodput, RTT and loss."""
    settings = [json.loads(text)["setting"].split(", ", 1) for text in results.runs["matrix"]]
    of_runs = results.runs.select(
        "key",
        network=pl.Series([int(number) for number, _ in settings]),
        kind=pl.Series([name for _, name in settings], dtype=pl.String),
    )
    numbers = pl.col("score", "goodput", "rtt", "loss").round_sig_figs(6)
    rows = measure_runs(results).join(of_runs, on="key").drop("key").with_columns(numbers)
    return rows.select("network", "kind", "score", "goodput", "rtt", "loss").sort("network", "kind")


def collect_networks() -> pl.DataFrame:
    """Return one row for each network: rate of the payload, base RTT, loss, and the bound of scores."""
    rows = [
        {
            "network": number,
            "rate": network["rate_mbit"],
            "rtt": network["rtt_ms"],
            "loss": network["loss"],
            "queue": network["queue_packets"],
            "bound": compute_bound(network),
        }
        for number, (network, _) in enumerate(draw_networks())
    ]
    return pl.DataFrame(rows).with_columns(pl.col("rate", "rtt", "loss", "bound").round_sig_figs(6))


def make_evidence(results: Results) -> dict[str, pl.DataFrame]:
    """Return what the page rests on: the runs of controls, and what training wrote."""
    agents = shipped.list_studies()["learning"] / "agents"
    return {
        "controls": collect_controls(results),
        "agents": pl.read_csv(agents / "scores.csv"),
        "curve": pl.read_csv(agents / "curve.csv"),
        "networks": collect_networks(),
    }


def join_kinds(found: Evidence) -> pl.DataFrame:
    """Return one row for each network, kind and seed, with the network's properties; controls have seed 0."""
    agents = found["agents"].with_columns(pl.col("kind").replace_strict(KINDS))
    controls = found["controls"].with_columns(seed=pl.lit(0, pl.Int64)).select(agents.columns)
    networks = found["networks"].select("network", "rate", "bound", base="rtt")
    rows = pl.concat([agents, controls]).join(networks, on="network")
    return rows.with_columns(use=pl.col("goodput") / pl.col("rate"), inflation=pl.col("rtt") / pl.col("base"))


def summarise_seeds(found: Evidence) -> pl.DataFrame:
    """Return one row for each kind and seed: means over networks."""
    means = pl.col("score", "bound", "use", "inflation", "loss").mean()
    return join_kinds(found).group_by("kind", "seed").agg(means).sort("kind", "seed")


def summarise_kinds(found: Evidence) -> pl.DataFrame:
    """Return one row for each kind: means over networks and seeds, and the least and largest score of a seed."""
    seeds = summarise_seeds(found)
    means = pl.col("score", "bound", "use", "inflation", "loss").mean()
    ends = {"low": pl.col("score").min(), "high": pl.col("score").max(), "seeds": pl.len()}
    return seeds.group_by("kind").agg(means, **ends).sort(order_names("kind", ORDER))


def compare_trained(found: Evidence) -> pl.DataFrame:
    """Return for each other kind the share of networks and trained agents in which these get the larger score."""
    rows = join_kinds(found)
    trained = rows.filter(kind=TRAINED).select("network", "seed", trained="score")
    others = rows.filter(pl.col("kind") != TRAINED).group_by("kind", "network").agg(pl.col("score").mean())
    both = others.join(trained, on="network")
    share = (pl.col("trained") > pl.col("score")).mean()
    return both.group_by("kind").agg(better=share).sort(order_names("kind", ORDER))


def summarise_curve(found: Evidence) -> pl.DataFrame:
    """Return one row for each training: what its rewards missed in its first and its last tenth, steps, minutes."""
    rows = found["curve"].sort("seed", "steps")
    part = pl.len() // 10
    return (
        rows.group_by("seed")
        .agg(
            first=_MISSING.head(part).mean(),
            last=_MISSING.tail(part).mean(),
            steps=pl.col("steps").max(),
            minutes=pl.col("seconds").max() / 60,
        )
        .sort("seed")
    )


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return what the template asks for in addition to the tables."""
    return {
        "kinds": Rows("kinds", summarise_kinds(found)),
        "seeds": Rows("seeds", summarise_seeds(found)),
        "better": Rows("better", compare_trained(found)),
        "trainings": Rows("trainings", summarise_curve(found)),
        "count_networks": found["networks"].height,
    }


def format_kinds(found: Evidence) -> str:
    """Return scores and what they are made of, by kind."""
    shares = dict(compare_trained(found).iter_rows())
    rows = []
    for row in summarise_kinds(found).iter_rows(named=True):
        ends = f" ({row['low']:.2f} to {row['high']:.2f})" if row["seeds"] > 1 else ""
        better = f"{100 * shares[row['kind']]:.0f}" if row["kind"] in shares else ""
        rows.append(
            [
                row["kind"],
                f"{row['score']:.2f}{ends}",
                f"{100 * row['use']:.0f}",
                f"{row['inflation']:.2f}",
                f"{100 * row['loss']:.1f}",
                better,
            ]
        )
    names = ["control", "score", "goodput, % of the rate", "RTT over base RTT", "loss, %", "trained agent is better, %"]
    return align_table(names, rows, words=(0, 1))


def draw_curve(found: Evidence) -> Picture:
    """Draw what the rewards of each training miss, by its steps."""
    steps = {"training": pl.format("seed {}", "seed"), "thousands": pl.col("steps") / 1000}
    rows = found["curve"].select("seed", **steps, missing=_MISSING).sort("seed", "thousands")
    count = rows["seed"].n_unique()
    return figures.lines(
        rows,
        "thousands",
        "missing",
        by="training",
        log_x=False,
        x_label="steps, thousands",
        y_label="reward missing to the bound",
        title=f"Every agent learns\nmean of 16 episodes, {count} trainings",
    )


def draw_scores(found: Evidence) -> Picture:
    """Draw the distribution of scores over networks, as parts of the bound."""
    rows = join_kinds(found).group_by("network", "kind").agg(gap=(pl.col("bound") - pl.col("score")).mean())
    count = found["networks"].height
    return figures.box(
        rows.with_columns(order_names("kind", ORDER)).sort("kind", "network"),
        "kind",
        "gap",
        x_label="",
        y_label="score missing to the bound",
        title=f"What is missing in networks that no agent was trained in\n{count} networks, one run of 60 s each",
    )


TABLES = {"kinds": format_kinds}
FIGURES = {"learning-curve": draw_curve, "learning-scores": draw_scores}
