"""What the page on BBR rests on: rows of runs of its experiments, cells of Linux, and what others published."""

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
        self.runs = _describe_runs(results)
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


KEYS = {
    "rate": "bottleneck.rate", "rtt": "flows[0].base_rtt", "cc": "flows[0].cc.name", "answers": "flows[0].cc.ecn",
    "count": "flows[0].count", "aqm": "bottleneck.aqm.name", "mask": "bottleneck.aqm.ecn_mask", "ecn": "hosts.ecn",
    "shaper": "bottleneck.shaper", "bytes": "bottleneck.aqm.limit", "least": "bottleneck.aqm.min",
    "burst": "bottleneck.path[0].burst",
}  # fmt: skip


def _describe_runs(results: Results) -> pl.DataFrame:
    """Return the runs of this page with what tells them apart, and measures under short names."""
    listed = results.flows.filter(pl.col("cc").is_in(list(NAMES))).sort("flow").group_by("key")
    last = listed.agg(flows=pl.len(), second=pl.col("cc").last(), second_rtt=pl.col("base_rtt_ms").last())
    changes = pl.col("matrix").str.json_path_match("$['flows[0].cc']").str.extract(r"\((.*)\)").fill_null("")
    changed = (
        changes.str.replace("ecn=true", "", literal=True)
        .str.strip_prefix(", ")
        .str.replace_all("=", " = ", literal=True)
    )
    runs = results.tidy("runs", KEYS).filter(pl.col("experiment").is_in(EXPERIMENTS)).join(last, on="key")
    cc, aqm = pl.col("cc").replace_strict(NAMES), pl.col("aqm")
    return runs.join(results.runs.select("key", changed=changed), on="key").select(
        *("key", "seed", "experiment", "rate", "rtt", "second_rtt", "changed", "count", "flows", "mask", "ecn"),
        *("shaper", "bytes", "utilisation", "jain"),
        cc=cc,
        version=pl.when("answers").then(cc + ", ECN").otherwise(cc),
        second=pl.col("second").replace_strict(NAMES),
        queue=aqm.replace_strict(QUEUES),
        threshold=pl.when(aqm == "red").then("least"),
        depth=pl.when(aqm == "bfifo").then(pl.col("bytes") / (pl.col("rate") * pl.col("rtt") * 125)),
        bucket=pl.col("burst") / 1e3,
        loss=100 * pl.col("drop_share"),
        sojourn="sojourn_mean_ms",
    )


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
