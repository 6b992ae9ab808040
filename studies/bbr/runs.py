"""What the page on BBR rests on: rows of runs of its experiments, cells of Linux, and what others published."""

import json
import re
from typing import Any

import polars as pl

from dumbbell.study import Nothing, Results, shipped

EXPERIMENTS = (
    "share-by-buffer",
    "share-late",
    "mechanisms",
    "probe-end",
    "ware",
    "ware-many",
    "rtt",
    "groups",
    "latecomer",
    "latecomer-believes",
    "shallow",
    "policer",
    "fair-queue",
    "ecn-limit",
    "as-linux",
    "as-linux-ecn",
    "gigabit",
    "short-path",
    "dualpi2",
    "dualpi2-answers",
)
OTHERS, WARE = "linux-bbr-others", "linux-bbr1-ware"  # of references/
NAMES = {
    "bbr1": "BBRv1",
    "bbr2": "BBRv2",
    "bbr3": "BBRv3",
    "bbr-draft": "draft",
    "cubic": "CUBIC",
    "reno": "Reno",
    "dctcp": "DCTCP",
    "prague": "Prague",
}
BBR = list(NAMES.values())[:4]
FIVE = list(NAMES.values())[:5]
QUEUES = {
    "bfifo": "tail drop",
    "codel": "CoDel",
    "fq_codel": "FQ-CoDel",
    "cake": "Cake",
    "dualpi2": "DualPI2",
    "pfifo": "tail drop",
    "red": "step",
}
PAYLOAD = 1448 / 1514  # of a full frame
FRAME = 1514  # B
KB = 1.024  # tc's kb over ours, in the buffers of Ware's set-ups
# Sarpkaya et al. (IFIP 2025, figure 2): goodput of one BBRv1 flow over that of both, by loss-based flow, Mbit/s and ms;
# for buffers of 1, 2, 4 to 64 BDP. Means of the three trials that they published with the paper, rounded by us.
SARPKAYA = {
    ("CUBIC", 10, 40): (0.865, 0.601, 0.503, 0.465, 0.414, 0.346, 0.198),
    ("CUBIC", 50, 30): (0.886, 0.624, 0.461, 0.451, 0.452, 0.410, 0.324),
    ("Reno", 10, 40): (0.888, 0.638, 0.482, 0.487, 0.474, 0.441, 0.372),
}


class Found:
    """Runs of the experiments of this page."""

    def __init__(self, results: Results) -> None:
        self.results = results
        rows = [row for row in results.runs.iter_rows(named=True) if row["experiment"] in EXPERIMENTS]
        self.runs = pl.DataFrame([_place(row) for row in rows], infer_schema_length=None)
        self.classes = results.frame("classes").drop("cc", strict=False)
        self.flows = results.frame("flows").drop("cc", "class", strict=False)

    def select_runs(self, name: str) -> pl.DataFrame:
        """Return the runs of one experiment; raises InputError if there are none."""
        if self.runs.is_empty() or (runs := self.runs.filter(pl.col("experiment") == name)).is_empty():
            raise Nothing(f"no runs of {name}", f"results of bbr/{name}", file=self.results.path)
        return runs

    def select_members(self, runs: pl.DataFrame) -> pl.DataFrame:
        """Return the connection classes of runs, by `class`."""
        return runs.join(self.classes, on="key", suffix="_class")

    def select_flows(self, runs: pl.DataFrame) -> pl.DataFrame:
        """Return the flows of runs, by `flow`."""
        return runs.join(self.flows, on="key", suffix="_flow")

    def select_series(self, runs: pl.DataFrame, table: str = "series") -> pl.DataFrame:
        """Return the time series of runs."""
        return runs.join(self.results.with_keys(runs["key"]).frame(table), on="key")

    def compute_shares(self, name: str) -> pl.DataFrame:
        """Return the runs of an experiment and the share of the flows that are listed first."""
        goodput = pl.col("goodput_mbit")
        each = self.select_flows(self.select_runs(name).select("key", "count"))
        share = each.group_by("key").agg(
            share=goodput.filter(pl.col("flow") < pl.col("count")).sum() / goodput.filter(pl.col("flow") < 1000).sum()
        )
        return self.select_runs(name).join(share, on="key")


def _place(row: dict[str, Any]) -> dict[str, Any]:
    config = json.loads(row["config"])
    flows, bottleneck = config["flows"], config["bottleneck"]
    first, last = flows[0], flows[-1]
    aqm, path = bottleneck["aqm"], bottleneck["path"]
    bdp = bottleneck["rate"] * first["base_rtt"] / 8e9  # bytes
    return {
        "key": row["key"],
        "seed": row["seed"],
        "experiment": row["experiment"],
        "rate": bottleneck["rate"] / 1e6,
        "rtt": first["base_rtt"] / 1e6,
        "second_rtt": last["base_rtt"] / 1e6,
        "cc": NAMES[first["cc"]["name"]],
        "version": _name_version(first),
        "changed": _describe_change(row),
        "second": NAMES[last["cc"]["name"]],
        "count": first["count"],
        "flows": sum(flow["count"] for flow in flows),
        "queue": QUEUES[aqm["name"]],
        "mask": aqm.get("ecn_mask"),
        "ecn": config["hosts"]["ecn"],
        "shaper": bottleneck["shaper"],
        "bytes": aqm.get("limit"),
        "threshold": aqm.get("min") if aqm["name"] == "red" else None,
        "depth": aqm["limit"] / bdp if aqm["name"] == "bfifo" else None,
        "bucket": path[0]["burst"] / 1e3 if path else None,
        "utilisation": row["utilisation"],
        "loss": 100 * row["drop_share"],
        "sojourn": row["sojourn_mean_ms"],
        "jain": row["jain"],
    }


def _name_version(flow: dict[str, Any]) -> str:
    """Return the name of a flow's congestion control, and whether it answers ECN."""
    name = NAMES[flow["cc"]["name"]]
    return f"{name}, ECN" if flow["cc"].get("ecn") else name


def _describe_change(row: dict[str, Any]) -> str:
    """Return what a run changed of its first flow's control; empty if nothing."""
    found = re.search(r"\((.*)\)", json.loads(row["matrix"]).get("flows[0].cc", ""))
    return found[1].replace("ecn=true", "").removeprefix(", ").replace("=", " = ") if found else ""


def format_percent(row: dict[str, Any], name: str, digits: int = 0) -> str:
    """Return a mean with its min and max, in percent."""
    return f"{100 * row[name]:.{digits}f} ({100 * row['low']:.{digits}f}-{100 * row['high']:.{digits}f})"


def format_two_digits(value: float) -> str:
    """Return a number with two digits, or all that are before the point."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def read_linux() -> pl.DataFrame:
    """Return one row for each run that was measured on Linux: what it was, share of the first flow or group, loss."""
    rows = pl.read_csv(shipped.list_references()[OTHERS])
    cells = rows.with_columns(
        run=(pl.col("flow") == 0).cum_sum(),
        rate_mbit=pl.col("bottleneck.rate").str.strip_suffix("Mbit").cast(pl.Float64),
        rtt=pl.col("flows.base_rtt").str.strip_suffix("ms").cast(pl.Float64),
    )
    cc, goodput, dropped = pl.col("flows.cc"), pl.col("goodput_mbit"), pl.col("drops").first()
    own = pl.when(cc.n_unique() == 1).then(pl.col("flow") == 0).otherwise(cc == cc.first())
    return cells.group_by("run", maintain_order=True).agg(
        pl.col("rate_mbit", "rtt").first(),
        cc=cc.first().replace_strict(NAMES),
        second=cc.last().replace_strict(NAMES),
        flows=pl.len(),
        stagger=pl.col("stagger_ms").first(),
        share=goodput.filter(own).sum() / goodput.sum(),
        loss=100 * dropped / (dropped + pl.col("packets").first()),
        rtt_mean=pl.col("rtt_mean_ms").mean(),
        bytes=pl.col("bottleneck.aqm").first().str.extract(r"^bfifo limit (\d+)$").cast(pl.Int64),
        second_rtt=pl.col("rtt").last(),
    )


def select_linux_pairs() -> pl.DataFrame:
    """Return those of one BBR flow beside one CUBIC flow, by depth of the buffer."""
    pairs = read_linux().filter(pl.col("flows") == 2, pl.col("second") == "CUBIC")
    depth = pl.col("bytes") / (pl.col("rate_mbit") * pl.col("rtt") * 125)
    return pairs.select("cc", "stagger", "share", "loss", depth=depth).sort("cc", "depth", "stagger")


def predict_share(bdps: float, rate_mbit: float, rtt_ms: float, flows: int = 1) -> float:
    """Return the share of BBRv1 flows by the model of Ware et al. (IMC 2019), equations 9 to 11.

    BBR has twice the BDP in flight that it believes in, and sees its RTT with its own packets out of the queue, but for
    four a flow. If the others have the part p of a full buffer of X BDP or q packets, (1 - p)(X + 1) = 2 (1 - p)(p X +
    1 + 4 N X / q), so that p = 1/2 - 1/(2 X) - 4 N / q. In PROBE_RTT, every 10 s, BBR sends nearly nothing while the
    queue empties, for 200 ms and one base RTT.
    """
    seconds = bdps * rtt_ms / 1e3
    packets = seconds * rate_mbit * 1e6 / 8 / FRAME
    others = max(0.0, 0.5 - 0.5 / bdps - 4 * flows / packets)
    return (1 - others) * (1 - (seconds + 0.2 + rtt_ms / 1e3) / 10)
