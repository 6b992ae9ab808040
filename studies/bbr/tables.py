"""The small tables that the page on BBR is made of, from its runs."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import polars as pl

from dumbbell.study import shipped

from .runs import KB, NAMES, PAYLOAD, SARPKAYA, WARE, Found, predict_share, read_linux, select_linux_pairs

MSS = 1448  # B
BIN = 5  # s; of the latecomer's goodput


def make_tables(found: Found) -> dict[str, Callable[[], pl.DataFrame]]:
    """Return every table of the page, by name; each is made when it is asked for, from the runs that it needs."""
    late, policer = cache(lambda: _collect_latecomer(found)), cache(lambda: _collect_policer(found))
    made: dict[str, Callable[[], pl.DataFrame]] = {
        "share": lambda: found.compute_shares("share-by-buffer").select(
            "cc", "second", "depth", "seed", "share", "loss"
        ),
        "late": lambda: found.compute_shares("share-late").select("cc", "depth", "seed", "share", "sojourn", "loss"),
        "linux": select_linux_pairs,
        "mechanisms": lambda: _collect_mechanisms(found),
        "ware": lambda: _collect_ware(found),
        "ware_sources": lambda: _collect_ware_sources(found),
        "rtt": lambda: (
            found.compute_shares("rtt")
            .with_columns(ratio=1 / pl.col("share") - 1)
            .select("cc", "bytes", "second_rtt", "seed", "share", "ratio", "sojourn", "loss")
        ),
        "groups": lambda: found.compute_shares("groups").select("cc", "depth", "count", "flows", "seed", "share"),
        "latecomer": lambda: late()["latecomer"],
        "latecomers": lambda: late()["latecomers"],
        "believes": lambda: _collect_estimates(found),
        "shallow": lambda: found.select_runs("shallow").select("cc", "count", "depth", "seed", "loss", "utilisation"),
        "policer": lambda: policer()["policer"],
        "policer_believed": lambda: policer()["policer_believed"],
        "policer_lost": lambda: policer()["policer_lost"],
        "fair_queue": lambda: _collect_fair_queue(found),
        "ecn": lambda: _collect_ecn(found),
        "short_path": lambda: _collect_short_path(found),
        "as_linux": lambda: _compare_with_linux(found),
        "gigabit": lambda: _collect_gigabit(found),
        "dualpi2": lambda: _collect_three(found, "dualpi2", ["mask", "rtt"]),
        "answers": lambda: _collect_three(found, "dualpi2-answers", ["changed"]),
    }
    return {name: partial(_sort_rows, make) for name, make in made.items()}


def _sort_rows(make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """Return a table in the order of its rows: joins and groups have none, and the same runs make the same files."""
    frame = make()
    return frame.sort(frame.columns)


def _collect_mechanisms(found: Found) -> pl.DataFrame:
    """Return shares with single gains changed, and for which part of the time after 10 s the flow is in PROBE_UP."""
    shares = pl.concat([found.compute_shares("mechanisms"), found.compute_shares("probe-end")])
    trace = found.select_series(shares.select("key"), "trace").filter(pl.col("flow") == 0).sort("key", "time_s")
    lasting = trace.with_columns(lasts=pl.col("time_s").shift(-1).over("key") - pl.col("time_s"))
    up = (
        lasting.filter(pl.col("time_s") > 10)
        .group_by("key")
        .agg(up=pl.col("lasts").filter(pl.col("state") == "probe_up").sum() / pl.col("lasts").sum())
    )
    return (
        shares.join(up, on="key")
        .with_columns(pl.col("changed").replace("", "as it is"))
        .select("cc", "changed", "depth", "seed", "share", "up", "loss")
    )


def _collect_ware(found: Found) -> pl.DataFrame:
    """Return the runs where Ware et al. validated their model: share, fill of buffer and window."""
    runs = pl.concat([found.compute_shares("ware"), found.compute_shares("ware-many")]).with_columns(
        bdps=pl.col("depth") / KB
    )
    trace = found.select_series(runs.filter(pl.col("count") == 1).select("key", "second"), "trace").filter(
        pl.col("flow") == 0, pl.col("time_s") > pl.when(pl.col("second") == "Reno").then(800.0).otherwise(600.0)
    )
    window = trace.group_by("key").agg(
        in_flight=pl.col("in_flight").mean(), cwnd=pl.col("cwnd").mean(), min_rtt=pl.col("min_rtt_ms").mean()
    )
    rows = runs.join(window, on="key", how="left").sort("second", "rate", "count", "bdps", "seed")
    predicted = [predict_share(r["bdps"], r["rate"], r["rtt"], r["count"]) for r in rows.iter_rows(named=True)]
    return rows.select(
        "second",
        "rate",
        "rtt",
        "count",
        pl.col("bdps").round(6),
        "seed",
        "share",
        model=pl.Series(predicted),
        fill=pl.col("sojourn") / (pl.col("bytes") * 8 / pl.col("rate") / 1e3),
        window_used=pl.col("in_flight") / pl.col("cwnd"),
    )


def _collect_ware_sources(found: Found) -> pl.DataFrame:
    """Return one row for each buffer beside one loss-based flow: model, simulator, what was measured on Linux."""
    one = _collect_ware(found).filter(pl.col("count") == 1)
    means = one.group_by("second", "rate", "rtt", "bdps", maintain_order=True).agg(
        share=pl.col("share").mean(),
        low=pl.col("share").min(),
        high=pl.col("share").max(),
        model=pl.col("model").first(),
    )
    published = pl.DataFrame(
        [
            {"second": second, "rate": float(rate), "rtt": float(rtt), "bdps": float(2**i), "sarpkaya": share}
            for (second, rate, rtt), shares in SARPKAYA.items()
            for i, share in enumerate(shares)
        ]
    )
    keys = ["second", "rate", "rtt", "bdps"]
    return means.join(published, on=keys, how="left").join(read_linux_ware(), on=keys, how="left")


def read_linux_ware() -> pl.DataFrame:
    """Return the share of BBRv1 on Linux beside one loss-based flow."""
    goodput, is_first = pl.col("goodput_mbit"), pl.col("flow") == 0
    rows = pl.read_csv(shipped.list_references()[WARE]).with_columns(
        rate=pl.col("bottleneck.rate").str.strip_suffix("Mbit").cast(pl.Float64),
        rtt=pl.col("flows.base_rtt").str.strip_suffix("ms").cast(pl.Float64),
        second=pl.when(~is_first).then(pl.col("flows.cc").replace(NAMES)),
    )
    return rows.group_by(pl.col("second").backward_fill(), "rate", "rtt", pl.col("bdps").cast(pl.Float64)).agg(
        linux=goodput.filter(is_first).sum() / goodput.sum()
    )


def _collect_latecomer(found: Found) -> dict[str, pl.DataFrame]:
    """Return the goodput of the flow that came last over its fair share: in bins over time, and per run."""
    runs = found.select_runs("latecomer")
    start = found.flows.filter(pl.col("flow") == 4).select("key", "start_s")
    series = found.select_series(runs).filter(pl.col("flow") == 4).join(start, on="key")
    like, cubic = pl.col("cc") == pl.col("second"), pl.col("cc") == "CUBIC"
    kind = pl.when(like).then(pl.lit("like")).when(cubic).then(pl.lit("cubic")).otherwise(pl.lit("bbr"))
    late = series.select(
        "key",
        "seed",
        "depth",
        kind=kind,
        cc=pl.when(cubic).then("second").otherwise("cc"),
        time=(pl.col("time_s") - pl.col("start_s")).ceil(),
        fair=pl.col("goodput_mbit") / (pl.col("rate") * PAYLOAD / pl.col("flows")),
    ).filter(pl.col("time").is_between(1, 60))
    keys = ["depth", "kind", "cc"]
    bins = late.group_by(*keys, "key", time=((pl.col("time") - 1) // BIN * BIN + BIN / 2)).agg(pl.col("fair").mean())
    over = pl.col("fair").rolling_mean(BIN).over("key")
    each = (
        late.sort("key", "time")
        .with_columns(over=over)
        .group_by(*keys, "key", "seed")
        .agg(
            reached=pl.col("time").filter(pl.col("over") >= 0.8).min(),
            end=pl.col("fair").filter(pl.col("time") > 50).mean(),
        )
    )
    curve = bins.group_by(*keys, "time").agg(pl.col("fair").mean(), low=pl.col("fair").min(), high=pl.col("fair").max())
    return {
        "latecomer": curve,
        "latecomers": each.drop("key"),
    }


def _collect_estimates(found: Found) -> pl.DataFrame:
    """Return what each of five flows believes 50 to 60 s after the last came, and the latecomer's first estimate."""
    runs = found.select_runs("latecomer-believes")
    start = found.flows.filter(pl.col("flow") == 4).select("key", came="start_s")
    trace = (
        found.select_series(runs, "trace").join(start, on="key").with_columns(since=pl.col("time_s") - pl.col("came"))
    )
    end = (
        trace.filter(pl.col("since").is_between(50, 60))
        .group_by("cc", "seed", "flow")
        .agg(bw=pl.col("bw_mbit").mean(), min_rtt=pl.col("min_rtt_ms").mean())
    )
    first = (
        trace.filter(pl.col("flow") == 4, pl.col("since").is_between(1, 2))
        .group_by("cc", "seed", "flow")
        .agg(first_min_rtt=pl.col("min_rtt_ms").min())
    )
    return end.join(first, on=["cc", "seed", "flow"], how="left")


def _collect_policer(found: Found) -> dict[str, pl.DataFrame]:
    flows = found.select_flows(found.select_runs("policer")).with_columns(
        lost=100 * pl.col("retransmissions") / pl.col("sent")
    )
    runs = found.select_runs("policer").filter(
        pl.col("bucket") == 50, pl.col("seed") == 1, pl.col("cc").is_in(["BBRv1", "BBRv3"])
    )
    trace = found.select_series(runs, "trace").filter(pl.col("time_s") < 20).sort("key", "time_s")
    believed = trace.group_by("cc", time=(pl.col("time_s") * 5).floor() / 5, maintain_order=True).agg(
        pl.col("max_bw_mbit").last(), pl.col("bw_mbit").last()
    )
    sent, lost = pl.col("sent"), pl.col("lost")
    losses = trace.group_by("cc", time=(pl.col("time_s") * 2).floor() / 2 + 0.25, maintain_order=True).agg(
        lost=100 * (lost.max() - lost.min()) / (sent.max() - sent.min())
    )
    return {
        "policer": flows.select("cc", "bucket", "seed", "goodput_mbit", "lost"),
        "policer_believed": believed,
        "policer_lost": losses,
    }


def _collect_fair_queue(found: Found) -> pl.DataFrame:
    """Return shares over four queues, and the time in queue of the first flow, of the second and of a thin one."""
    shares = found.compute_shares("fair-queue")
    members = found.select_members(shares)

    def select_delay(chosen: pl.Expr, name: str) -> pl.DataFrame:
        return members.filter(chosen).select(
            "key", pl.col("sojourn_mean_ms").alias(f"{name}_mean"), pl.col("sojourn_p99_ms").alias(f"{name}_p99")
        )

    listed = pl.col("kind") == "flows"
    parts = {"own": listed & (pl.col("class") == 0), "other": listed & (pl.col("class") == 1)}
    for name, part in (parts | {"thin": pl.col("kind") == "udp"}).items():
        shares = shares.join(select_delay(part, name), on="key", how="left")
    return shares.select(
        "second", "ecn", "cc", "queue", "seed", "share", "own_mean", "own_p99", "other_mean", "thin_p99"
    )


def _collect_ecn(found: Found) -> pl.DataFrame:
    marks = found.select_members(found.select_runs("ecn-limit")).select("key", "mark_share")
    return (
        found.select_runs("ecn-limit")
        .join(marks, on="key")
        .select("version", "count", "rtt", "seed", "sojourn", "mark_share", "utilisation", "jain")
    )


def _collect_short_path(found: Found) -> pl.DataFrame:
    """Return the window of four flows on short paths, with twice the BDP that they believe in and with three bursts.

    A burst is what the pacing rate sends in 1/1024 s, and for paths below 16 ms more, by half for each 512 us of RTT:
    of 64 kB with BBRv3, of 512 kB with BBRv2 on Linux 6.1 (GSO_MAX_SIZE of 5.19, less 8 B); two segments at least.
    """
    runs = found.select_runs("short-path").filter(pl.col("cc") != "BBRv1")
    largest = pl.when(pl.col("cc") == "BBRv2").then(524_280.0).otherwise(65_536.0)
    halvings = (pl.col("min_rtt_ms") * 1000 / 512).floor().clip(0, 64)
    burst = ((pl.col("pacing_rate_mbit") * 1e6 / 8 / 1024 + largest / 2.0**halvings) / MSS).floor().clip(2)
    rows = (
        found.select_series(runs, "trace")
        .filter(pl.col("time_s") > 10)
        .with_columns(twice_bdp=2 * pl.col("bw_mbit") * pl.col("min_rtt_ms") * 1e3 / 8 / MSS, bursts=3 * burst)
    )
    return rows.group_by("cc", "rtt", "seed").agg(
        pl.col("cwnd", "twice_bdp", "bursts").mean(),
        limited=(pl.col("bursts") > pl.col("twice_bdp")).mean(),
        sojourn=pl.col("sojourn").first(),
    )


def _compare_with_linux(found: Found) -> pl.DataFrame:
    """Return other cells of Linux beside runs with their starts and their period: `value` a seed, `linux` one run."""
    rows: list[dict[str, Any]] = []
    shares = found.compute_shares("as-linux")
    steps = (
        found.select_members(found.select_runs("as-linux-ecn"))
        .group_by("key", "cc", "rtt", "seed")
        .agg(pl.col("rtt_mean_ms").mean())
    )
    for cell in (
        read_linux().filter((pl.col("flows") > 2) | (pl.col("rtt") != pl.col("second_rtt"))).iter_rows(named=True)
    ):
        cc, limit = cell["cc"], f"buffer of {(cell['bytes'] or 0) / 1e3:g} kB"
        mine = shares.filter(
            pl.col("cc") == cc,
            pl.col("second") == cell["second"],
            pl.col("flows") == cell["flows"],
            pl.col("bytes") == (cell["bytes"] or 0),
        )
        if cell["rtt"] != cell["second_rtt"]:
            kind, name = "rtt", f"2 {cc}, {cell['rtt']:g} and {cell['second_rtt']:g} ms, {limit}"
            measure, values, seen = "share of the first, %", mine["share"] * 100, 100 * cell["share"]
        elif cell["second"] == "CUBIC":
            kind, name = "among", f"1 {cc} among {cell['flows'] - 1} CUBIC, {limit}"
            measure, values, seen = "share of BBR, %", mine["share"] * 100, 100 * cell["share"]
        elif cell["bytes"]:
            kind, name = "loss", f"{cell['flows']} {cc}, {limit}"
            measure, values, seen = "dropped, %", mine["loss"], cell["loss"]
        else:
            kind, name = "ecn", f"{cell['flows']} {cc} with ECN, {cell['rtt']:g} ms, step of 1 ms"
            mine = steps.filter(pl.col("cc") == cc, pl.col("rtt") == cell["rtt"])
            measure, values, seen = (
                "mean RTT - base RTT, ms",
                mine["rtt_mean_ms"] - cell["rtt"],
                cell["rtt_mean"] - cell["rtt"],
            )
        rows += [
            {
                "kind": kind,
                "cc": cc,
                "rtt": cell["rtt"],
                "name": name,
                "measure": measure,
                "seed": seed,
                "value": value,
                "linux": seen,
            }
            for seed, value in zip(mine["seed"], values, strict=True)
        ]
    return pl.DataFrame(rows)


def _collect_gigabit(found: Found) -> pl.DataFrame:
    """Return the share of five BBRv2 among ten with DCTCP at 1 Gbit/s and 5 ms, with its limit for ECN and without.

    Of the simulator over a serial link and over HTB, as on Linux, with the smallest RTT that flows of BBRv2 saw: of
    the flow in the middle, and of the flow for which it is `highest`.
    """
    cells = pl.read_csv(shipped.list_references()["linux-coexistence"], infer_schema_length=None)
    chosen = cells.filter(
        pl.col("ccs") == "10*bbr2+dctcp",
        pl.col("delay_ms").cast(pl.Float64) == 5,
        pl.col("host") == "5.4 model",
        pl.col("ecn_limit_ms").is_not_null(),
    )
    goodput, keys, bbr2 = pl.col("goodput_mbit"), ["threshold", "limited"], pl.col("cc") == "bbr2"
    measured = (
        chosen.group_by("seed", threshold="target_bytes", limited=pl.col("ecn_limit_ms") == 5)
        .agg(share=goodput.filter(bbr2).sum() / goodput.sum(), **_make_bounds(pl.col("min_rtt_ms").filter(bbr2)))
        .select(*keys, "seed", "share", "min_rtt", "highest", source=pl.lit("Linux"))
    )
    own = pl.col("flow") % 2 == 0  # BBRv2 and DCTCP take turns
    mine = (
        found.select_flows(found.select_runs("gigabit"))
        .with_columns(limited=pl.col("changed") == "")
        .group_by("seed", *keys, "shaper")
        .agg(share=goodput.filter(own).sum() / goodput.sum(), **_make_bounds(pl.col("rtt_min_ms").filter(own)))
        .select(*keys, "seed", "share", "min_rtt", "highest", source=pl.col("shaper"))
    )
    return pl.concat([measured, mine], how="vertical_relaxed")


def _make_bounds(smallest: pl.Expr) -> dict[str, pl.Expr]:
    return {"min_rtt": smallest.median(), "highest": smallest.max()}


def _collect_three(found: Found, name: str, keys: list[str]) -> pl.DataFrame:
    """Return goodput and mean time in queue of the three flows of each run over DualPI2."""
    roles = {0: "first", 1: "Prague", 2: "CUBIC"}
    flows = found.select_flows(found.select_runs(name)).with_columns(
        role=pl.col("flow").replace_strict(roles), changed=pl.col("changed").replace("", "as it is")
    )
    return flows.select(*keys, "version", "seed", "role", "goodput_mbit", pl.col("sojourn_mean_ms").alias("queue_ms"))
