"""What the page of BBR's findings rests on: runs of experiments/bbr, cells of Linux, and how its tables say numbers."""

import json
import re
from collections.abc import Callable
from typing import Any

import polars as pl
import questions
from questions import named

from dumbbell import shipped

EXPERIMENTS = (
    "share-by-buffer",
    "mechanisms",
    "rtt",
    "groups",
    "latecomer",
    "shallow",
    "policer",
    "fair-queue",
    "ecn-limit",
    "dualpi2",
    "dualpi2-answers",
)
LINUX = "linux-bbr-others.csv"
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
}
PAYLOAD = 1448 / 1514  # of a full frame


class Found(questions.Found):
    """Runs of the experiments of this page."""

    def __init__(self, path: str) -> None:
        super().__init__(path, EXPERIMENTS, _place)

    def shares(self, name: str) -> pl.DataFrame:
        """Return the runs of an experiment with two listed flows and the share of the first, `share`."""
        flows = self.flows.filter(pl.col("flow") < 2)
        both = flows.group_by("key").agg(both=pl.col("goodput_mbit").sum())
        first = flows.filter(pl.col("flow") == 0).join(both, on="key")
        share = first.select("key", share=pl.col("goodput_mbit") / pl.col("both"))
        return self.of(name).join(share, on="key")


def _place(row: dict[str, Any]) -> dict[str, Any]:
    config = json.loads(row["config"])
    flows, bottleneck = config["flows"], config["bottleneck"]
    first, last = flows[0], flows[-1]
    aqm, path = bottleneck["aqm"], bottleneck["path"]
    product = bottleneck["rate"] * first["base_rtt"] / 8e9  # bytes
    return {
        "key": row["key"],
        "seed": row["seed"],
        "experiment": row["experiment"],
        "rate": bottleneck["rate"] / 1e6,
        "rtt": first["base_rtt"] / 1e6,
        "second_rtt": last["base_rtt"] / 1e6,
        "cc": NAMES[first["cc"]["name"]],
        "version": _version(first),
        "changed": _changed(row),
        "second": NAMES[last["cc"]["name"]],
        "count": first["count"],
        "flows": sum(flow["count"] for flow in flows),
        "queue": QUEUES[aqm["name"]],
        "mask": aqm.get("ecn_mask"),
        "ecn": config["hosts"]["ecn"],
        "bytes": aqm.get("limit"),
        "depth": aqm["limit"] / product if aqm["name"] == "bfifo" else None,
        "bucket": path[0]["burst"] / 1e3 if path else None,
        "utilisation": row["utilisation"],
        "loss": 100 * row["drop_share"],
        "sojourn": row["sojourn_mean_ms"],
        "jain": row["jain"],
    }


def _version(flow: dict[str, Any]) -> str:
    """Return the name of a flow's congestion control, and whether it answers ECN."""
    name = NAMES[flow["cc"]["name"]]
    return f"{name}, ECN" if flow["cc"].get("ecn") else name


def _changed(row: dict[str, Any]) -> str:
    """Return what a run changed of its first flow's control; empty if nothing."""
    found = re.search(r"\((.*)\)", json.loads(row["matrix"]).get("flows[0].cc", ""))
    return found[1].replace("ecn=true", "").removeprefix(", ").replace("=", " = ") if found else ""


def ordered(column: str, order: list[str]) -> pl.Expr:
    """Return a column of names that come in this order."""
    return named(column, {name: name for name in order})


def percent(row: dict[str, Any], name: str, digits: int = 0) -> str:
    """Return a mean with its least and largest, in percent."""
    return f"{100 * row[name]:.{digits}f} ({100 * row['low']:.{digits}f}-{100 * row['high']:.{digits}f})"


def cross(
    frame: pl.DataFrame, rows: str, columns: str, order: list[str], text: Callable[[dict[str, Any]], str]
) -> list[list[str]]:
    """Return the cells of a table: a row for each value of `rows`, the values of `columns` across."""
    cells = {(row[rows], str(row[columns])): text(row) for row in frame.iter_rows(named=True)}
    values = frame[rows].unique().sort().to_list()
    return [[_number(value), *(cells.get((value, name), "-") for name in order)] for value in values]


def two_digits(value: float) -> str:
    """Return a number with two digits, or all that are before the point."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _number(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def linux() -> pl.DataFrame:
    """Return one row for each run that was measured on Linux: what it was, share of the first flow or group, loss."""
    cells = pl.read_csv(shipped.folder("references") / LINUX, schema_overrides={"rtts_ms": pl.String})
    first = pl.col("cc") == pl.col("cc").first()
    own = pl.when(pl.col("cc").n_unique() == 1).then(pl.col("flow") == 1).otherwise(first)
    goodput, dropped = pl.col("goodput_mbit"), pl.col("queue_drops").first()
    rtts = pl.col("rtts_ms").str.split("+").list
    found = cells.group_by("ccs", "qdisc", "rate_mbit", "rtts_ms", "seed", maintain_order=True).agg(
        cc=pl.col("cc").first().replace_strict(NAMES),
        second=pl.col("cc").last().replace_strict(NAMES),
        flows=pl.len(),
        linux=goodput.filter(own).sum() / goodput.sum(),
        linux_loss=100 * dropped / (dropped + pl.col("packets").first()),
        linux_rtt=pl.col("mean_rtt_ms").mean(),
    )
    return found.with_columns(
        bytes=pl.when(pl.col("qdisc").str.starts_with("bfifo"))
        .then(pl.col("qdisc").str.extract(r"(\d+)$"))
        .cast(pl.Int64),
        rtt=rtts.first().cast(pl.Float64),
        second_rtt=rtts.last().cast(pl.Float64),
    )


def linux_pairs() -> pl.DataFrame:
    """Return those of one BBR flow beside one CUBIC flow, by depth of the buffer."""
    pairs = linux().filter(pl.col("flows") == 2, pl.col("second") == "CUBIC")
    return pairs.with_columns(depth=pl.col("bytes") / (pl.col("rate_mbit") * pl.col("rtt") * 125)).sort(
        "cc", "depth", "seed"
    )
