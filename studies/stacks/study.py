"""What quinn, noq and picoquic do next to Linux, and the mechanisms by which their CUBIC differs from that of Linux."""

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import Any

import polars as pl

from dumbbell.study import (
    Evidence,
    Picture,
    Results,
    Rows,
    Sweep,
    align_table,
    describe_runs,
    figures,
    list_durations,
    make_grid,
    order_names,
)

QUESTION = "Do quinn, noq and picoquic fill a link and share it as Linux does, and why not?"
RUNS = (
    Sweep("alone.duckdb", ("alone",)),
    Sweep("beside.duckdb", ("beside",)),
    Sweep("steps.duckdb", ("steps",)),
    Sweep("any-loss.duckdb", ("any-loss",)),
)
SENDERS = {
    "cubic": "Linux CUBIC",
    "quinn-0.11.16-cubic": "quinn 0.11.16 CUBIC",
    "quinn-0.11.19-cubic": "quinn 0.11.19 CUBIC",
    "noq-1.4.0-cubic": "noq CUBIC",
    "picoquic-1.1.52.0-cubic": "picoquic CUBIC",
    "picoquic-any-loss-cubic": "picoquic CUBIC, each loss counts",
    "bbr3": "Linux BBRv3",
    "quinn-0.11.19-bbr": "quinn 0.11.19 BBR",
    "noq-1.4.0-bbr3": "noq BBR3",
    "picoquic-1.1.52.0-bbr": "picoquic BBR",
}
QUEUES = {"bfifo": "FIFO", "codel": "CoDel", "fq_codel": "FQ-CoDel", "pie": "PIE"}
STEPS = (
    "as it is",
    "without HyStart",
    "paced at 1.25 windows a round trip",
    "without offload",
    "no SACK compression",
    "quinn 0.11.16",
)
# of versions, of cells by their rates and RTTs, and of the set-up
NAMES = (
    *(r"three QUIC stacks", r"FIFO of 1000 kB", r"[Ss]ection \d", r"in 30 s", r"(?:three|six) seeds", r"another 30 %"),
    *(r"from 10 s to 60 s", r"\d+ Mbit/s and \d+ ms", r"1\.25 windows", r"0\.11\.1[69]", r"64 MB"),
)


KEYS = {
    "rate": "bottleneck.rate", "rtt": "flows[0].base_rtt", "aqm": "bottleneck.aqm.name",
    "limit": "bottleneck.aqm.limit", "cc": "flows[0].cc.name", "hystart": "flows[0].cc.hystart",
    "pacing": "hosts.pacing", "offload": "hosts.offload", "sack_compression": "hosts.sack_compression",
}  # fmt: skip


def _describe_runs(results: Results) -> pl.DataFrame:
    """Return for each run its rate in Mbit/s, base RTT in ms, queue, step of the ladder and seed."""
    hystart, fifo = pl.col("hystart") != "off", pl.format("FIFO of {} kB", pl.col("limit") // 1000)
    changes = (~hystart, pl.col("pacing") == "fq", pl.col("offload") == "none", ~pl.col("sack_compression"))
    step = pl.sum_horizontal(change.cast(pl.Int64) for change in changes).replace_strict(dict(enumerate(STEPS[:5])))
    return results.tidy("runs", KEYS).select(
        "key",
        pl.col("rate", "rtt").cast(pl.Int64),
        queue=pl.when(pl.col("aqm") == "bfifo").then(fifo).otherwise(pl.col("aqm").replace(QUEUES)),
        step=pl.when(pl.col("cc") == "cubic").then(step).otherwise(pl.lit(STEPS[5])),
        seed="seed",
    )


def _collect_flows(results: Results) -> pl.DataFrame:
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
    return _describe_runs(results).join(found.with_columns(named), on="key")


def collect_alone(results: Results) -> pl.DataFrame:
    """Return one row per run of a flow alone.

    `use` is the share of the link that its packets take, `data` the share of them that is data of the application.
    """
    found = _collect_flows(results).with_columns(
        use=pl.col("throughput") / pl.col("rate"), data=pl.col("goodput") / pl.col("throughput"), cc=_name_control()
    )
    return found.select(
        "rate",
        "rtt",
        "queue",
        "sender",
        "cc",
        "seed",
        "goodput",
        "use",
        "data",
        "rtt_mean",
        "drops",
        "closed",
        "closed_s",
    ).sort("rate", "rtt", "queue", "cc", "sender", "seed")


def _name_control() -> pl.Expr:
    return pl.when(pl.col("sender").str.contains("BBR")).then(pl.lit("BBR")).otherwise(pl.lit("CUBIC"))


def collect_pairs(results: Results) -> pl.DataFrame:
    """Return one row per run of two flows: the first's share of both goodputs, and next to whom it ran."""
    flows = _collect_flows(results)
    first, second = (flows.filter(pl.col("flow") == n) for n in (0, 1))
    both = first.join(second.select("key", other="sender", other_goodput="goodput"), on="key").with_columns(
        cc=_name_control()
    )
    share = pl.col("goodput") / (pl.col("goodput") + pl.col("other_goodput"))
    return (
        both.with_columns(share=share)
        .select("queue", "sender", "cc", "other", "seed", "share", "goodput", "other_goodput", "closed")
        .sort("other", "cc", "sender", "queue", "seed")
    )


def collect_steps(results: Results) -> pl.DataFrame:
    """Return one row per run: what was changed, use of the link, RTT and drops."""
    found = _collect_flows(results).with_columns(use=pl.col("throughput") / pl.col("rate"))
    # the queue's size follows from the cell
    plain = pl.col("queue").str.starts_with("FIFO")
    queue = pl.when(plain).then(pl.lit("FIFO")).otherwise(pl.col("queue"))
    return found.select(
        "rate", "rtt", queue.alias("queue"), "step", "seed", "goodput", "use", "rtt_mean", "drops"
    ).sort("rate", "rtt", "queue", "step", "seed")


def make_evidence(
    one: Results, two: Results, ladder: Results, threshold: Results
) -> dict[str, Callable[[], pl.DataFrame]]:
    """Return what the page rests on."""
    return {
        "alone": lambda: collect_alone(one),
        "beside": lambda: collect_pairs(two),
        "steps": lambda: collect_steps(ladder),
        "any_loss": lambda: collect_pairs(threshold),
    }


def compute_effects(found: Evidence) -> Rows:
    """Return by how much each change moved the mean number of drops, in each cell: the columns of `steps` and drops."""
    means = found["steps"].group_by("queue", "rate", "rtt", "step", maintain_order=True).agg(pl.col("drops").mean())
    in_order = means.with_columns(order_names("step", STEPS)).sort("queue", "rate", "rtt", "step")
    moved = in_order.with_columns(
        pl.col("drops").diff().over("queue", "rate", "rtt").abs(), pl.col("step").cast(pl.String)
    )
    return Rows("effects", moved.drop_nulls("drops"))


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return what else the template may name."""
    return {
        "effects": compute_effects(found),
        "as_it_is": STEPS[0],
        "no_hystart": STEPS[1],
        "paced": STEPS[2],
        "compared": STEPS[4],
        "quinn": STEPS[5],
        "noq_and_quinn": ["quinn 0.11.16 CUBIC", "quinn 0.11.19 CUBIC", "noq CUBIC"],
        "each_loss": SENDERS["picoquic-any-loss-cubic"],
        "fifo": "FIFO of 250 kB",
        "one_queue": ["CoDel", "PIE"],
    }


def format_alone_table(found: Evidence, control: str) -> str:
    """Return goodput, RTT and drops of each sender of a control alone, by cell and queue."""
    frame = found["alone"].filter(cc=control)
    names = [name for name in SENDERS.values() if name in set(frame["sender"])]
    means = frame.group_by("rate", "rtt", "queue", "sender", maintain_order=True).agg(
        pl.col("goodput", "rtt_mean", "drops").mean(), closed=(pl.col("closed") != "").sum()
    )

    def format_sender(row: dict[str, Any]) -> str:
        closed = "*" if row["closed"] else ""
        return f"{row['goodput']:.1f} / {row['rtt_mean']:.0f} / {row['drops']:.0f}{closed}"

    return align_table(["cell", "queue", *names], _make_rows(means, "sender", names, format_sender), words=(0, 1))


def _make_rows(
    means: pl.DataFrame, column: str, names: Sequence[str], text: Callable[[dict[str, Any]], str]
) -> list[list[str]]:
    """Return a row for each cell and queue."""
    named = means.with_columns(cell=pl.format("{} Mbit/s, {} ms", "rate", "rtt"))
    return make_grid(named, ["cell", "queue"], column, names, text)


def format_beside_table(found: Evidence) -> str:
    """Return the share of each sender next to each of Linux's, by queue."""
    means = found["beside"].group_by("other", "sender", "queue", maintain_order=True).agg(pl.col("share").mean())
    queues = means["queue"].unique(maintain_order=True).to_list()
    ordered = means.sort("other", order_names("sender", SENDERS.values()), maintain_order=True)
    rows = make_grid(ordered, ["sender", "other"], "queue", queues, lambda row: f"{100 * row['share']:.0f}")
    return align_table(["flow", "next to", *queues], rows, words=(0, 1))


def format_any_loss_table(found: Evidence) -> str:
    """Return picoquic's share next to Linux's CUBIC, as it is and with an answer to each loss."""
    means = found["any_loss"].group_by("sender", "queue", maintain_order=True).agg(pl.col("share").mean())
    queues = means["queue"].unique(maintain_order=True).to_list()
    rows = make_grid(means, ["sender"], "queue", queues, lambda row: f"{100 * row['share']:.0f}")
    return align_table(["flow", *queues], rows, words=(0,))


def format_closed_table(found: Evidence) -> str:
    """Return which connections were closed before their end, by sender and cell."""
    closed = found["alone"].filter(pl.col("closed") != "")
    cells = closed.group_by("sender", "rate", "rtt", "queue", maintain_order=True).agg(
        runs=pl.len(), first=pl.col("closed_s").min()
    )
    rows = [
        [r["sender"], f"{r['rate']} Mbit/s, {r['rtt']} ms, {r['queue']}", str(r["runs"]), f"{r['first']:.1f}"]
        for r in cells.sort("sender", "rate", "rtt", "queue").iter_rows(named=True)
    ]
    return align_table(["flow", "cell", "runs", "after, s"], rows, words=(0, 1))


def format_steps_table(found: Evidence) -> str:
    """Return one row per change: use of the link in per cent, mean RTT in ms and drops, by cell."""
    means = (
        found["steps"]
        .group_by("rate", "rtt", "queue", "step", maintain_order=True)
        .agg(pl.col("use", "rtt_mean", "drops").mean())
    )
    rows = _make_rows(
        means, "step", STEPS, lambda row: f"{100 * row['use']:.1f} / {row['rtt_mean']:.0f} / {row['drops']:.0f}"
    )
    return align_table(["cell", "queue", *STEPS], rows, words=(0, 1))


def draw_drops_by_step(found: Evidence) -> Picture:
    """Draw drops in a queue of one bandwidth-delay product, change by change."""
    frame = found["steps"].with_columns(
        order_names("step", STEPS),
        cell=pl.format("{} Mbit/s, {} ms", "rate", "rtt"),
        queue=pl.col("queue").cast(pl.Enum(["FIFO", "CoDel", "PIE"])),
    )
    frame = frame.group_by("cell", "queue", "step", maintain_order=True).agg(
        mean=pl.col("drops").mean(), low=pl.col("drops").min(), high=pl.col("drops").max(), n=pl.col("drops").count()
    )
    names = {STEPS[0]: "Linux's CUBIC as it is"}
    means = frame.with_columns(pl.col("step").cast(pl.String)).pivot("step", index=["cell", "queue"], values="mean")
    more = (means[STEPS[1]] / means[STEPS[0]]).to_list()
    off = (means[STEPS[1]] / means[STEPS[5]] - 1).abs().to_list()
    return figures.dots(
        frame.sort("queue", "cell", "step").with_columns(
            step=pl.col("step").cast(pl.String).replace(names).cast(pl.Enum([names.get(one, one) for one in STEPS])),
            text=pl.col("mean").round_sig_figs(2).round().cast(pl.Int64),
        ),
        "step",
        "mean",
        low="low",
        high="high",
        by="cell",
        text="text",
        facet="queue",
        columns=3,
        log_x=True,
        x_label=f"packets dropped in {max(list_durations(found, 'steps')):g} s",
        title=f"Without HyStart, Linux's CUBIC loses {min(more):.0f} to {max(more):.0f} times as many packets: "
        f"as many as quinn's, within {ceil(100 * max(off))} %\nthe queue holds one bandwidth-delay product; each row "
        f"keeps the changes above it, except for quinn; {describe_runs(frame['n'], what='seed')}",
    )


TABLES = {
    "cubic": partial(format_alone_table, control="CUBIC"),
    "bbr": partial(format_alone_table, control="BBR"),
    "beside": format_beside_table,
    "steps": format_steps_table,
    "any_loss": format_any_loss_table,
    "closed": format_closed_table,
}
FIGURES = {"drops-by-step": draw_drops_by_step}
