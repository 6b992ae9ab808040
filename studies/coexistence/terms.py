"""DCTCP and BBRv2 over STEP, PI2, CSAQM and tail drop: what its experiments measured, in the paper's terms.

Terms of Fejes, Gombos, Laki and Nadas, "On the Incompatibility of Scalable Congestion Controls over the Internet"
(2020): the delay target is K times the smallest base RTT; a connection class is all flows of one congestion control and
base RTT.
"""

import json
import math
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.study import Nothing, Results

AQMS = ("STEP", "PI2", "CSAQM", "TailDrop")
MIXES = ("dctcp", "bbr2", "both")
COUNTS = ("2", "10", "20", "40", "100", "4-16", "8-32", "2-2-8-8", "4-4-16-16")
NO_LIMIT, LIMIT = "no limit", "5 ms limit"  # up to which RTT BBRv2 answers ECN
LARGE, SMALL, DROP = "500 ms", "1.33 K", "K"  # buffers; the last one is tail drop of K base RTT
FRAME = 1514  # bytes, of a full frame
# what distinguishes cells; seeds of a cell differ in nothing else
PLACE = ["variant", "rate_gbit", "rtt", "buffer", "n", "flows", "k", "aqm"]
# flows of one congestion control alone that are as many, with the same RTTs, as those of a mix
_ALONE = {"2-2-8-8": "4-16", "4-4-16-16": "8-32"}
_AQM = {"red": "STEP", "pi2": "PI2", "csaqm": "CSAQM", "bfifo": "TailDrop"}
_NEAR = 0.02  # relative, within which a buffer is taken for what it is called: whole packets and bytes


def _format_ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:g}"


def _step(aqm: dict[str, Any]) -> bool:
    return bool(aqm["min"] and aqm["min"] == aqm["max"] and aqm["wlog"] == 0 and aqm["ecn"])


def _measure_queue(aqm: dict[str, Any], rate: float) -> tuple[float, float] | None:
    """Return delay target and buffer, s; None if the queue discipline is none of the paper's."""
    match aqm["name"]:
        case "red" if _step(aqm):
            return aqm["min"] * 8 / rate, aqm["limit"] * 8 / rate
        case "pi2":
            return aqm["target"] / 1e9, aqm["limit"] * FRAME * 8 / rate
        case "csaqm":
            return aqm["target"] / 1e9, aqm["limit"] * 8 / rate
        case "bfifo":
            return aqm["limit"] * 8 / rate, aqm["limit"] * 8 / rate
    return None


def _name_buffer(target: float, buffer: float, aqm: str) -> str:
    """Return what the paper calls a buffer, or its length in ms."""
    if aqm == "bfifo":
        return DROP
    for name, length in ((LARGE, 0.5), (SMALL, 1.33 * target)):
        if math.isclose(buffer, length, rel_tol=_NEAR):
            return name
    return f"{buffer * 1e3:.4g} ms"


def _limit(ccs: list[dict[str, Any]]) -> str | None:
    """Return up to which RTT BBRv2 answers ECN; empty without BBRv2, None if flows differ or it never does."""
    limits: set[int | None] = {cc["ecn_max_rtt"] if cc["ecn"] else None for cc in ccs if cc["name"] == "bbr2"}
    if len(limits) > 1:
        return None
    names: dict[int | None, str] = {0: NO_LIMIT, 5_000_000: LIMIT}
    return names.get(limits.pop()) if limits else ""


def describe(config: dict[str, Any]) -> dict[str, Any] | None:
    """Return the place of a run in the paper by its configuration; None if it has none."""
    flows, bottleneck = config["flows"], config["bottleneck"]
    names = {one["cc"]["name"] for one in flows}
    variant = _limit([one["cc"] for one in flows])
    found = _measure_queue(bottleneck["aqm"], bottleneck["rate"])
    stages = [stage for way in (*flows, bottleneck) for stage in way["path"]]
    if config["web"] or config["udp"] or not names or names - {"dctcp", "bbr2"} or found is None or variant is None:
        return None
    if any(stage["name"] != "value_marker" or stage["weight"] != 1 for stage in stages):
        return None
    counts: dict[tuple[int, str], int] = {}
    for one in flows:
        group = (one["base_rtt"], one["cc"]["name"])
        counts[group] = counts.get(group, 0) + one["count"]
    rtts = sorted({rtt for rtt, _ in counts})
    total = sum(counts.values())
    # the paper's order: 50 ms before 5 ms, BBR before DCTCP
    each = [str(counts[group]) for group in sorted(counts, key=lambda group: (-group[0], group[1]))]
    n = "-".join(each) if len(rtts) > 1 else str(total)
    if rtts[0] == 0 or n not in COUNTS:
        return None
    target, buffer = found
    return {
        "variant": variant,
        "rate_gbit": bottleneck["rate"] / 1e9,
        "rtt": "+".join(map(_format_ms, rtts)),
        "buffer": _name_buffer(target, buffer, bottleneck["aqm"]["name"]),
        "n": n,
        "flows": total,
        "k": float(f"{target * 1e9 / rtts[0]:.3g}"),
        "aqm": _AQM[bottleneck["aqm"]["name"]],
        "mix": next(iter(names)) if len(names) == 1 else "both",
        "target_ms": target * 1e3,
        "duration_s": config["duration"] / 1e9,
    }


def _describe_runs(results: Results) -> pl.DataFrame:
    """Return one row per run of the paper's matrix, with its place; raises InputError if there is none."""
    rows = []
    for row in results.runs.iter_rows(named=True):
        if place := describe(json.loads(row["config"])):
            rows.append({name: row[name] for name in ("key", "seed", "hash", "experiment")} | place)
    if not rows:
        raise Nothing("no run of DCTCP or BBRv2 over STEP, PI2, CSAQM or tail drop", _ALLOWED, file=results.path)
    return pl.DataFrame(rows, infer_schema_length=None)


_ALLOWED = "results of coexistence/*, of dumbbell list"


def runs(results: Results | str | Path) -> pl.DataFrame:
    """Return one row per run of the matrix: its place, and what was measured of queue and link. Raises InputError.

    The place: `variant` (how BBRv2 answers ECN; empty without BBRv2), `rate_gbit`, `rtt` (base RTTs, ms), `buffer`, `n`
    (flows, as the paper writes them), `flows` (how many in all), `k` (target over the smallest base RTT), `aqm`, `mix`.
    Left out are runs with other traffic, numbers of flows, queue disciplines, stages or weights than the matrix.

    `utilisation`, and `marks` and `drops` as shares of packets, are of the whole run. `jain` is over the frames that
    each flow got through the queue (`flows.packets`). `delay` and `delay_max` are mean and longest time in queue
    of all packets, over the target. `delay_whole` is the mean of whole milliseconds: the paper has it from a histogram
    of 1 ms, and so counts less than 1 ms as none.
    """
    found = results if isinstance(results, Results) else Results(results)
    described = _describe_runs(found)
    measured = found.runs.select(
        "key",
        "utilisation",
        delay=pl.col("sojourn_mean_ms"),
        delay_max=pl.col("sojourn_max_ms"),
        marks=pl.col("mark_share"),
        drops=pl.col("drop_share"),
    )
    sent = pl.col("packets").cast(pl.Float64)
    bins = found.frame("sojourn").select("key", "packets", whole=pl.col("from_ms").floor())
    of_bins = bins.group_by("key").agg(delay_whole=pl.col("whole").dot("packets") / pl.col("packets").sum())
    fair = found.flows.group_by("key").agg(jain=sent.sum() ** 2 / (pl.len() * (sent**2).sum()))
    every = described.join(measured, on="key").join(fair, on="key").join(of_bins, on="key", how="left")
    every = every.with_columns(pl.col("delay", "delay_max", "delay_whole") / pl.col("target_ms"))
    return every.select(
        *("key", "seed", "hash", "experiment", *PLACE, "mix"),
        *("utilisation", "jain", "delay", "delay_max", "delay_whole", "marks", "drops"),
    ).sort(*PLACE, "mix", "seed")


def classes(results: Results | str | Path) -> pl.DataFrame:
    """Return one row per run and connection class `cls`, such as "bbr2-50"; columns of the place as `runs` has them.

    `flows` is the number of flows of the run, `members` that of the class. `relative_throughput` is the mean over the
    members of the frames that each got through the queue in the whole run (`classes.total_throughput_mbit`), over the
    rate divided by all flows.
    `marks` and `drops` are shares of the packets of the class, `delay` its mean time in queue over the target.

    `harm` and `harm_delay` (Ware et al., HotNets 2019) hold a class of a mix against the same class where all flows are
    of its own congestion control, in the mean over its seeds: (x - y) / x of throughput and (y - x) / y of time in
    queue, x alone and y with others. Null where there is no such run; negative where others help.
    """
    found = results if isinstance(results, Results) else Results(results)
    of_classes: pl.DataFrame = found.classes
    each = (
        of_classes.filter(pl.col("kind") == "flows")
        .join(_describe_runs(found), on="key", suffix="_of_run")
        .with_columns(
            cls=pl.format("{}-{}", "cc", pl.col("base_rtt_ms").map_elements(lambda ms: f"{ms:g}", pl.String)),
            members=pl.col("flows"),
            flows=pl.col("flows_of_run"),
        )
        .with_columns(
            relative_throughput=pl.col("total_throughput_mbit")
            / pl.col("members")
            / (pl.col("rate_gbit") * 1e3 / pl.col("flows")),
            marks=pl.col("mark_share"),
            drops=pl.col("drop_share"),
            delay=pl.col("sojourn_mean_ms") / pl.col("target_ms"),
        )
    )
    every = each.join(compute_harm(each), on=["key", "cls"], how="left").with_columns(
        pl.selectors.float().fill_nan(None)
    )
    return every.select(
        *("key", "seed", "hash", "experiment", *PLACE, "mix", "cls", "members"),
        *("relative_throughput", "marks", "drops", "delay", "harm", "harm_delay"),
    ).sort(*PLACE, "mix", "seed", "cls")


def compute_harm(each: pl.DataFrame) -> pl.DataFrame:
    """Return `key`, `cls`, `harm` and `harm_delay`, as `classes` has them, of the classes of mixes that ran alone too.

    `each` has a row per run and class: `key`, `cls`, the place and `mix`, `relative_throughput` and `delay`.
    """
    keys = ["variant", "rate_gbit", "rtt", "buffer", "alone", "k", "aqm", "cls"]
    alone = each.filter(pl.col("mix") != "both").with_columns(alone=pl.col("n"))
    # DCTCP alone is the same whether or not BBRv2 has its limit
    variants = pl.DataFrame({"variant": ["", ""], "other": [NO_LIMIT, LIMIT]})
    dctcp = alone.join(variants, on="variant").with_columns(variant=pl.col("other"))
    alone = pl.concat([alone, dctcp.select(alone.columns)])
    alone = alone.group_by(keys).agg(own=pl.col("relative_throughput").mean(), own_delay=pl.col("delay").mean())
    beside = each.filter(pl.col("mix") == "both").with_columns(alone=pl.col("n").replace(_ALONE))
    return beside.join(alone, on=keys).select(
        "key",
        "cls",
        harm=(pl.col("own") - pl.col("relative_throughput")) / pl.col("own"),
        harm_delay=(pl.col("delay") - pl.col("own_delay")) / pl.col("delay"),
    )
