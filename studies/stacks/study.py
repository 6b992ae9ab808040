"""What quinn, noq and picoquic do beside Linux, and from which mechanisms their CUBIC differs from Linux's."""

import json
from typing import Any

import polars as pl

from dumbbell import figures
from dumbbell.figures import Picture
from dumbbell.pages import Evidence, Sweep
from dumbbell.results.results import Results
from dumbbell.results.tables import aligned

RUNS = (
    Sweep("alone.duckdb", ("alone",)),
    Sweep("beside.duckdb", ("beside",)),
    Sweep("steps.duckdb", ("steps",)),
)
SENDERS = {
    "cubic": "Linux CUBIC",
    "quinn-0.11.16-cubic": "quinn 0.11.16 CUBIC",
    "quinn-0.11.19-cubic": "quinn 0.11.19 CUBIC",
    "noq-1.4.0-cubic": "noq CUBIC",
    "picoquic-1.1.52.0-cubic": "picoquic CUBIC",
    "bbr3": "Linux BBRv3",
    "quinn-0.11.19-bbr": "quinn 0.11.19 BBR",
    "noq-1.4.0-bbr3": "noq BBR3",
    "picoquic-1.1.52.0-bbr": "picoquic BBR",
}
QUEUES = {"bfifo": "FIFO", "codel": "CoDel", "fq_codel": "FQ-CoDel", "pie": "PIE"}
STEPS = ("as it is", "without HyStart", "paced at 1.25 windows a round trip", "without offload", "no SACK compression", "quinn 0.11.16")
# of versions, of cells by their rates and RTTs, and of the set-up
NAMES = (
    r"0\.11\.1[69]", r"BBRv?[123]", r"1\.4\.0", r"1\.1\.52\.0", r"1\.25 windows", r"P95",
    r"\d+ Mbit/s(?:,| and) \d+ ms", r"\d+ ms, \d+ Mbit/s", r"at (?:20|50|100) Mbit/s", r"[Oo]ne (?:flow|change|bandwidth)", r"RFC \d+",
    r"64 MB", r"250 kB", r"1 MB", r"0\.7\b",
)  # fmt: skip


def _queue(config: dict[str, Any]) -> str:
    aqm = config["bottleneck"]["aqm"]
    return f"FIFO of {aqm['limit'] // 1000} kB" if aqm["name"] == "bfifo" else QUEUES[aqm["name"]]


def _described(results: Results) -> pl.DataFrame:
    """Return for each run its rate in Mbit/s, base RTT in ms, queue and seed."""
    rows = []
    for run in results.runs.iter_rows(named=True):
        config = json.loads(run["config"])
        rows.append(
            {
                "key": run["key"],
                "rate": config["bottleneck"]["rate"] // 10**6,
                "rtt": config["flows"][0]["base_rtt"] // 10**6,
                "queue": _queue(config),
                "step": _step(config),
                "seed": run["seed"],
            }
        )
    return pl.DataFrame(rows)


def _step(config: dict[str, Any]) -> str:
    hosts, cc = config["hosts"], config["flows"][0]["cc"]
    if cc["name"] != "cubic":
        return STEPS[5]
    changed = [
        cc["hystart"] == "off",
        hosts["pacing"] == "fq",
        hosts["offload"] == "none",
        not hosts["sack_compression"],
    ]
    return STEPS[sum(changed)]


def _flows(results: Results) -> pl.DataFrame:
    """Return one row per flow: who it is, goodput and throughput in Mbit/s, RTT in ms, packets sent and dropped."""
    found = results.flows.select(
        "key",
        "flow",
        pl.col("cc").alias("sender"),
        goodput="goodput_mbit",
        throughput="throughput_mbit",
        rtt_mean="rtt_mean_ms",
        drops="drops",
        packets="packets",
        closed=pl.col("closed").fill_null(""),
        closed_s="closed_s",
    )
    named = pl.col("sender").replace(SENDERS)
    return _described(results).join(found.with_columns(named), on="key")


def alone(results: Results) -> pl.DataFrame:
    """Return one row per run of a flow alone; `use` is the share of the link that its packets take."""
    found = _flows(results).with_columns(use=pl.col("throughput") / pl.col("rate"), cc=_control())
    return found.select(
        "rate", "rtt", "queue", "sender", "cc", "seed", "goodput", "use", "rtt_mean", "drops", "packets", "closed", "closed_s"
    ).sort("rate", "rtt", "queue", "cc", "sender", "seed")  # fmt: skip


def _control() -> pl.Expr:
    return pl.when(pl.col("sender").str.contains("BBR")).then(pl.lit("BBR")).otherwise(pl.lit("CUBIC"))


def beside(results: Results) -> pl.DataFrame:
    """Return one row per run of two flows: the first's share of both goodputs, and beside whom it ran."""
    flows = _flows(results)
    first, second = (flows.filter(pl.col("flow") == n) for n in (0, 1))
    both = first.join(second.select("key", other="sender", other_goodput="goodput"), on="key").with_columns(cc=_control())
    share = pl.col("goodput") / (pl.col("goodput") + pl.col("other_goodput"))
    return both.with_columns(share=share).select(
        "queue", "sender", "cc", "other", "seed", "share", "goodput", "other_goodput", "closed"
    ).sort("other", "cc", "sender", "queue", "seed")  # fmt: skip


def steps(results: Results) -> pl.DataFrame:
    """Return one row per run: what was changed, use of the link, RTT and drops."""
    found = _flows(results).with_columns(use=pl.col("throughput") / pl.col("rate"))
    # the queue's size follows from the cell
    plain = pl.col("queue").str.starts_with("FIFO")
    queue = pl.when(plain).then(pl.lit("FIFO")).otherwise(pl.col("queue"))
    return found.select("rate", "rtt", queue.alias("queue"), "step", "seed", "goodput", "use", "rtt_mean", "drops").sort(
        "rate", "rtt", "queue", "step", "seed"
    )


def evidence(one: Results, two: Results, ladder: Results) -> dict[str, pl.DataFrame]:
    """Return what the page rests on."""
    return {"alone": alone(one), "beside": beside(two), "steps": steps(ladder)}


def facts(_: Evidence) -> dict[str, Any]:
    """Return what else the template may name."""
    return {
        "steps_in_order": list(STEPS),
        "as_it_is": STEPS[0],
        "no_hystart": STEPS[1],
        "paced": STEPS[2],
        "compared": STEPS[4],
        "quinn": STEPS[5],
        "cubics": [name for name in SENDERS.values() if "CUBIC" in name],
        "stacks_cubic": [name for name in SENDERS.values() if "CUBIC" in name and "Linux" not in name],
        "stacks_bbr": [name for name in SENDERS.values() if "BBR" in name and "Linux" not in name],
    }


def _mean_table(frame: pl.DataFrame, control: str) -> str:
    """Return use of the link and RTT of each sender alone, by cell and queue."""
    frame = frame.filter(cc=control)
    names = [name for name in SENDERS.values() if name in set(frame["sender"])]
    means = frame.group_by("rate", "rtt", "queue", "sender", maintain_order=True).agg(
        pl.col("goodput", "rtt_mean", "drops").mean(), closed=(pl.col("closed") != "").sum()
    )
    found = {(r["rate"], r["rtt"], r["queue"], r["sender"]): r for r in means.iter_rows(named=True)}
    rows = []
    for rate, rtt, queue in dict.fromkeys((a, b, c) for a, b, c, _ in found):
        row = [f"{rate} Mbit/s, {rtt} ms", queue]
        for name in names:
            r = found[rate, rtt, queue, name]
            row.append(f"{r['goodput']:.1f} / {r['rtt_mean']:.0f} / {r['drops']:.0f}" + ("*" if r["closed"] else ""))
        rows.append(row)
    return aligned(["cell", "queue", *names], rows, words=(0, 1))


def cubic_table(found: Evidence) -> str:
    """Return what CUBIC does alone."""
    return _mean_table(found["alone"], "CUBIC")


def bbr_table(found: Evidence) -> str:
    """Return what BBR does alone."""
    return _mean_table(found["alone"], "BBR")


def beside_table(found: Evidence) -> str:
    """Return the share of each sender beside each of Linux's, by queue."""
    means = found["beside"].group_by("other", "sender", "queue", maintain_order=True).agg(pl.col("share").mean())
    shares = {(r["other"], r["sender"], r["queue"]): r["share"] for r in means.iter_rows(named=True)}
    queues = list(dict.fromkeys(queue for *_, queue in shares))
    pairs = [(other, name) for name in SENDERS.values() for other in SENDERS.values() if (other, name, queues[0]) in shares]
    rows = [
        [name, other, *(f"{100 * shares[other, name, queue]:.0f}" for queue in queues)]
        for other, name in sorted(pairs, key=lambda pair: (pair[0], list(SENDERS.values()).index(pair[1])))
    ]
    return aligned(["flow", "beside", *queues], rows, words=(0, 1))


def steps_table(found: Evidence) -> str:
    """Return one row per change: use of the link in per cent, mean RTT in ms and drops, by cell."""
    means = found["steps"].group_by("rate", "rtt", "queue", "step", maintain_order=True).agg(
        pl.col("use", "rtt_mean", "drops").mean()
    )
    of = {(r["rate"], r["rtt"], r["queue"], r["step"]): r for r in means.iter_rows(named=True)}
    rows = []
    for rate, rtt, queue in dict.fromkeys((a, b, c) for a, b, c, _ in of):
        row = [f"{rate} Mbit/s, {rtt} ms", queue]
        for step in STEPS:
            r = of[rate, rtt, queue, step]
            row.append(f"{100 * r['use']:.1f} / {r['rtt_mean']:.0f} / {r['drops']:.0f}")
        rows.append(row)
    return aligned(["cell", "queue", *STEPS], rows, words=(0, 1))


def drops_by_step(found: Evidence) -> Picture:
    """Draw drops in a queue of one bandwidth-delay product, change by change."""
    frame = found["steps"].with_columns(
        pl.col("step").cast(pl.Enum(list(STEPS))),
        cell=pl.format("{} Mbit/s, {} ms", "rate", "rtt"),
        queue=pl.col("queue").cast(pl.Enum(["FIFO", "CoDel", "PIE"])),
    )
    frame = frame.group_by("cell", "queue", "step", maintain_order=True).agg(
        mean=pl.col("drops").mean(), low=pl.col("drops").min(), high=pl.col("drops").max()
    )
    return figures.bars(
        frame.sort("queue", "cell", "step"),
        "cell",
        "mean",
        low="low",
        high="high",
        group="step",
        facet="queue",
        columns=1,
        log_y=True,
        x_label="",
        y_label="packets dropped in 30 s",
        title="From Linux's CUBIC to that of quinn, one change at a time\nmean and min-max of six seeds",
    )


TABLES = {"cubic": cubic_table, "bbr": bbr_table, "beside": beside_table, "steps": steps_table}
FIGURES = {"drops-by-step": drops_by_step}
