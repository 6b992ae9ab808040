"""Real Linux, from references/linux-coexistence.csv: its cells as those of the simulator, and in the paper's terms."""

from typing import Any

import polars as pl

from dumbbell.study import shipped

from . import terms

HOSTS = ("5.4 model", "5.10")  # those whose transport is as in Linux 5.4
MODEL = HOSTS[0]
KEYS = ["mix", "limit", "n", "rtt", "step", "small"]
PAYLOAD = 1448 / terms.FRAME  # of a full frame, with timestamps
_RUN = ["host", "ccs", "ecn_limit_ms", "aqm", "target_bytes", "buffer_bytes", "seconds", "stagger_ms", "seed"]
_LARGE = 10_000_000  # bytes; buffers of 500 ms have more, those of 1.33 K less


def read_flows() -> pl.DataFrame:
    """Return one row per flow, as in the file, with `n` (flows of its run), `small` (buffer) and `limit` as text."""
    path = shipped.list_references()["linux-coexistence"]
    whole = pl.read_csv(path, infer_schema_length=None).with_columns(
        start=pl.struct(*_RUN, pl.when(pl.col("ccs") != "2-2-8-8").then("delay_ms")).rank("dense")
    )
    counts = whole.group_by("start").agg(
        n=pl.col("flow").n_unique(), same=pl.len() / pl.col("flow").n_unique(), mix=pl.col("cc").unique().sort()
    )
    limit = pl.when(pl.col("mix").str.contains("bbr2")).then(pl.format("{}", pl.col("ecn_limit_ms")))
    return (
        whole.join(counts.with_columns(pl.col("mix").list.join("+")), on="start")
        .with_columns(limit=limit.otherwise(pl.lit("")), small=pl.col("buffer_bytes") < _LARGE)
        .rename({"target_bytes": "step", "delay_ms": "rtt"})
    )


def collect_cells() -> pl.DataFrame:
    """Return one row per cell of equal RTTs over STEP, means over its starts.

    `use` is the sum of goodputs over the rate, `share` BBRv2's of it (0 without), `srtt` the mean RTT in ms.
    """
    rows = read_flows().filter(
        pl.col("host").is_in(HOSTS),
        pl.col("aqm") == "step",
        pl.col("seconds").is_in([20, 30]),
        pl.col("ccs") != "2-2-8-8",
    )
    goodput = pl.col("goodput_mbit")
    starts = rows.group_by(*KEYS, "start").agg(
        use=goodput.sum() / pl.col("rate_mbit").first() / pl.col("same").first(),
        share=goodput.filter(pl.col("cc") == "bbr2").sum() / goodput.sum(),
        srtt=pl.col("rtt_ms").mean(),
    )
    return starts.group_by(KEYS).agg(pl.col("use", "share", "srtt").mean(), starts=pl.len())


def collect_two_rtts() -> pl.DataFrame:
    """Return the relative throughput (goodput) of each class of BBRv2 and DCTCP of two RTTs: `step`, `cc`, `rtt`."""
    rows = read_flows().filter(pl.col("ccs") == "2-2-8-8")
    relative = pl.col("goodput_mbit").mean() * pl.col("n").first() / pl.col("rate_mbit").first()
    return rows.group_by("step", "cc", "rtt").agg(linux=relative)


def collect_changes() -> pl.DataFrame:
    """Return the utilisation of two DCTCP flows over the recommended STEP by `host`: one change each."""
    rows = read_flows().filter(
        pl.col("ccs") == "dctcp+dctcp", pl.col("step") == 106_250, pl.col("rtt") == 5, ~pl.col("small").fill_null(False)
    )
    starts = rows.group_by("host", "start").agg(
        use=pl.col("goodput_mbit").sum() / pl.col("rate_mbit").first(), seconds=pl.col("seconds").first()
    )
    return (
        starts.group_by("host").agg(pl.col("use").mean(), starts=pl.len(), seconds=pl.col("seconds").max()).sort("host")
    )


def collect_paper_tables() -> dict[str, pl.DataFrame]:
    """Return what Linux did over STEP as `dumbbell.coexistence` has runs and classes; null where it is not known.

    Each start counts as a seed. Marks of a class are CE marks that its receivers saw.
    """
    rows = read_flows().filter(pl.col("host").is_in(HOSTS), pl.col("aqm") == "step")
    shortest = pl.when(pl.col("ccs") == "2-2-8-8").then(5).otherwise("rtt")
    place = rows.with_columns(
        variant=pl.col("limit").replace({"0": terms.NO_LIMIT, "5": terms.LIMIT}),
        rate_gbit=pl.col("rate_mbit") / 1e3,
        buffer=pl.when("small").then(pl.lit(terms.SMALL)).otherwise(pl.lit(terms.LARGE)),
        k=(pl.col("step") * 8 / pl.col("rate_mbit") / 1e3 / shortest).round(6),
        aqm=pl.lit("STEP"),
        cls=pl.format("{}-{}", "cc", "rtt"),
        two=pl.col("ccs") == "2-2-8-8",
        frames=pl.col("goodput_mbit") * pl.col("seconds") * 1e6 / 8 / (PAYLOAD * terms.FRAME),
    ).with_columns(
        rtt=pl.when("two").then(pl.lit("5+50")).otherwise(pl.format("{}", "rtt")),
        n=pl.when("two").then("ccs").otherwise(pl.format("{}", "n")),
        flows=pl.col("n"),
        mix=pl.when(pl.col("mix") == "bbr2+dctcp").then(pl.lit("both")).otherwise("mix"),
    )
    keys = ["variant", "rate_gbit", "rtt", "buffer", "n", "flows", "k", "aqm", "mix"]
    every = place.with_columns(seed=pl.col("start").rank("dense").over(keys).cast(pl.Int64))
    rate = pl.col("goodput_mbit") / PAYLOAD
    once = pl.col("goodput_mbit").mean().over(*keys, "seed", "flow")  # a cell that ran twice with the same start
    fair = pl.col("once").sum() ** 2 / (pl.len() * (pl.col("once") ** 2).sum())
    every = every.with_columns(once=once)
    return {
        "runs": _add_unknown_columns(
            every.unique([*keys, "seed", "flow"])
            .group_by(*keys, "seed")
            .agg(
                utilisation=pl.col("once").sum() / PAYLOAD / 1e3 / pl.col("rate_gbit").first(),
                jain=fair,
                marks=(pl.col("marks") / pl.col("packets")).first(),
                drops=(pl.col("drops") / pl.col("packets")).first(),
            ),
            "delay",
            "delay_max",
            "delay_whole",
        ),
        "classes": _add_unknown_columns(
            every.group_by(*keys, "cls", "seed").agg(
                relative_throughput=rate.mean() * pl.col("flows").first() / pl.col("rate_gbit").first() / 1e3,
                marks=pl.col("delivered_ce").sum() / pl.col("frames").sum(),
            ),
            "drops",
            "harm",
        ),
    }


def _add_unknown_columns(frame: pl.DataFrame, *missing: str) -> pl.DataFrame:
    """Return a frame with columns of which nothing is known."""
    unknown: dict[str, Any] = {name: pl.lit(None, pl.Float64) for name in missing}
    return frame.with_columns(**unknown)
