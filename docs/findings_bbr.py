"""Figures and tables of docs/findings/bbr.md, from experiments/bbr/*.toml.

python docs/findings_bbr.py RESULTS PAGE

Writes the tables into PAGE, each between `<!-- table NAME -->` and `<!-- end -->`, and the figures beside it.
"""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bbr_queues
import polars as pl
from bbr_runs import BBR, EXPERIMENTS, FIVE, PAYLOAD, Found, cross, linux, linux_pairs, ordered, percent, two_digits
from questions import fill, means, named

from dumbbell import figures
from dumbbell.errors import InputError
from dumbbell.figures import Picture, Series
from dumbbell.tables import aligned

__all__ = ["EXPERIMENTS", "FIGURES", "TABLES", "Found", "in_flight_cap", "linux_pairs", "main"]

# 1


def in_flight_cap(depth: float, base_rtt: float = 0.04) -> float:
    """Return the share of BBRv1 beside flows that keep a buffer of `depth` products full, by Ware et al. (IMC 2019).

    BBR has twice the product of its bandwidth and of the RTT in flight that it saw with its own packets out of the
    queue. If the others have the part p of the buffer of X products, then (1 - p)(X + 1) = 2 (1 - p)(p X + 1), so that
    p = 1/2 - 1/(2 X). In PROBE_RTT, each 10 s, it sends nearly nothing while the queue empties, for 200 ms and a round.
    """
    others = max(0.0, 0.5 - 0.5 / depth)
    return (1 - others) * (1 - (depth * base_rtt + 0.2 + base_rtt) / 10)


def share(found: Found) -> Picture:
    """Draw the share of one BBR flow beside one other flow over the depth of the buffer."""
    shares = found.shares("share-by-buffer").with_columns(shown=pl.format("beside {}", "second"))
    values = means(shares, ["shown", "cc", "depth"], "share")
    measured = (
        linux_pairs().group_by("cc", "depth").agg(pl.col("linux").mean()).with_columns(shown=pl.lit("beside CUBIC"))
    )
    both = values.join(measured, on=["cc", "depth", "shown"], how="left")
    picture = figures.lines(
        both.with_columns(ordered("cc", FIVE)),
        "depth",
        "share",
        low="low",
        high="high",
        by="cc",
        facet="shown",
        log_x=True,
        reference="linux",
        reference_name="Linux",
        x_label="depth of the buffer, bandwidth-delay products",
        y_label="share of the first flow",
        title="50 Mbit/s, 40 ms, tail drop; mean, least and largest of 4 runs of 120 s",
    )
    depths = [0.1 * 160 ** (i / 60) for i in range(61)]
    picture.curve(depths, [in_flight_cap(depth) for depth in depths], "model of BBRv1's in-flight cap")
    picture.level(0.5, "half", "--")
    return picture.arrange()


def share_loss(found: Found) -> Picture:
    """Draw the loss in the same runs."""
    shares = found.of("share-by-buffer").with_columns(shown=pl.format("beside {}", "second"))
    return figures.lines(
        means(shares, ["shown", "cc", "depth"], "loss").with_columns(ordered("cc", FIVE)),
        "depth",
        "loss",
        low="low",
        high="high",
        by="cc",
        facet="shown",
        log_x=True,
        log_y=True,
        x_label="depth of the buffer, bandwidth-delay products",
        y_label="packets dropped, %",
    )


def share_table(found: Found) -> str:
    """Return the shares beside CUBIC and beside Reno, and loss."""
    shares = found.shares("share-by-buffer")
    rows = []
    for second in ("CUBIC", "Reno"):
        values = means(shares.filter(pl.col("second") == second), ["cc", "depth"], "share")
        rows += [
            [f"beside {second}", *row] for row in cross(values, "depth", "cc", FIVE, lambda row: percent(row, "share"))
        ]
    return aligned(["share, %", "depth", *FIVE], rows)


def linux_table(found: Found) -> str:
    """Return the shares beside CUBIC next to those measured on Linux."""
    runs = found.shares("share-by-buffer").filter(pl.col("second") == "CUBIC")
    values = means(runs, ["cc", "depth"], "share", "loss")
    rows = []
    for (cc, depth), part in linux_pairs().group_by(["cc", "depth"], maintain_order=True):
        row = values.filter(pl.col("cc") == cc, pl.col("depth") == depth).row(0, named=True)
        measured = ", ".join(f"{100 * one:.0f}" for one in part["linux"])
        losses = f"{part['linux_loss'].mean():.2f}"
        rows.append([str(cc), f"{depth:g}", percent(row, "share"), measured, f"{row['loss']:.2f}", losses])
    return aligned(["", "depth", "share, %", "Linux", "dropped, %", "Linux"], rows)


def linux_others_table(found: Found) -> str:
    """Return what else was measured on Linux, beside the simulator."""
    rows = []
    for cell in linux().filter((pl.col("flows") > 2) | (pl.col("rtt") != pl.col("second_rtt"))).iter_rows(named=True):
        cc, limit = cell["cc"], f"buffer of {(cell['bytes'] or 0) / 1e3:g} kB"
        if cell["rtt"] != cell["second_rtt"]:
            name = f"2 {cc}, {cell['rtt']:g} and {cell['second_rtt']:g} ms, {limit}"
            runs = found.shares("rtt").filter(
                pl.col("second_rtt") == cell["second_rtt"], pl.col("bytes") == cell["bytes"]
            )
            measure, value, times = "share of the first, %", "share", 100.0
        elif cell["second"] == "CUBIC":
            name = f"1 {cc} among {cell['flows'] - 1} CUBIC, {limit}"
            runs = _groups(found).filter(
                pl.col("count") == 1, pl.col("flows") == cell["flows"], pl.col("bytes") == cell["bytes"]
            )
            measure, value, times = "share of BBR, %", "share", 100.0
        elif cell["bytes"]:
            name = f"{cell['flows']} {cc}, {limit}"
            runs = found.of("shallow").filter(pl.col("count") == cell["flows"], pl.col("bytes") == cell["bytes"])
            measure, value, times = "dropped, %", "loss", 1.0
        else:
            name = f"{cell['flows']} {cc} with ECN, {cell['rtt']:g} ms, step of 1 ms"
            runs = found.of("ecn-limit").filter(
                pl.col("version") == f"{cc}, ECN", pl.col("count") == cell["flows"], pl.col("rtt") == cell["rtt"]
            )
            runs = found.members(runs).with_columns(beyond=pl.col("rtt_mean_ms") - pl.col("rtt"))
            measure, value, times = "mean RTT - base RTT, ms", "beyond", 1.0
        values = runs.filter(pl.col("cc") == cc)[value] * times
        seen = {"share": 100 * cell["linux"], "loss": cell["linux_loss"], "beyond": cell["linux_rtt"] - cell["rtt"]}[
            value
        ]
        low, high = float(values.min()), float(values.max())  # type: ignore[arg-type]
        rows.append([name, measure, f"{values.mean():.3g} ({low:.3g}-{high:.3g})", f"{seen:.3g}"])
    return aligned(["", "measure", "simulated", "Linux"], rows, words=(0, 1))


def mechanisms_table(found: Found) -> str:
    """Return the shares with single gains changed, and how long a flow probes upwards."""
    shares = found.shares("mechanisms")
    trace = found.series(shares.select("key"), "trace").filter(pl.col("flow") == 0).sort("key", "time_s")
    lasting = trace.with_columns(lasts=pl.col("time_s").shift(-1).over("key") - pl.col("time_s"))
    up = (
        lasting.filter(pl.col("time_s") > 10)
        .group_by("key")
        .agg(up=pl.col("lasts").filter(pl.col("state") == "probe_up").sum() / pl.col("lasts").sum())
    )
    values = means(shares.join(up, on="key"), ["cc", "changed", "depth"], "share", "up")
    depths = sorted(values["depth"].unique())
    rows = []
    for (cc, changed), part in values.group_by(["cc", "changed"], maintain_order=True):
        of = {row["depth"]: row for row in part.iter_rows(named=True)}
        cells = [percent(of[depth], "share") for depth in depths]
        rows.append([str(cc), str(changed) or "as it is", *cells, f"{100 * of[1.0]['up']:.0f}"])
    header = ["", "changed", *(f"share, %, at {depth:g}" for depth in depths), "time in UP at 1, %"]
    return aligned(header, rows, words=(0, 1))


# 2


def rtt(found: Found) -> Picture:
    """Draw the share of a flow of 10 ms beside one of another RTT."""
    names = {62_500: "buffer of 10 ms", 1_250_000: "buffer of 200 ms"}
    shares = found.shares("rtt").with_columns(named("bytes", names))
    picture = figures.lines(
        means(shares, ["bytes", "cc", "second_rtt"], "share").with_columns(ordered("cc", FIVE)),
        "second_rtt",
        "share",
        low="low",
        high="high",
        by="cc",
        facet="bytes",
        log_x=True,
        x_label="base RTT of the second flow, ms",
        y_label="share of the flow of 10 ms",
        title="Two flows of one kind, 50 Mbit/s, tail drop; mean, least and largest of 4 runs",
    )
    picture.level(0.5, "half", "--")
    return picture.arrange()


def rtt_table(found: Found) -> str:
    """Return how many times as much the flow of the longer RTT gets, time in queue and loss."""
    shares = found.shares("rtt").with_columns(ratio=1 / pl.col("share") - 1)
    rows = []
    for limit, name in ((62_500, "10 ms"), (1_250_000, "200 ms")):
        values = means(shares.filter(pl.col("bytes") == limit), ["cc", "second_rtt"], "ratio", "sojourn", "loss")

        def text(row: dict[str, Any]) -> str:
            return f"{two_digits(row['ratio'])}; {row['sojourn']:.0f} ms; {two_digits(row['loss'])} %"

        rows += [[name, *row] for row in cross(values, "second_rtt", "cc", FIVE, text)]
    return aligned(["buffer", "RTT, ms", *FIVE], rows)


# 3


def _groups(found: Found) -> pl.DataFrame:
    each = found.each(found.of("groups"))
    bbr = pl.col("goodput_mbit").filter(pl.col("flow") < pl.col("count")).sum()
    keys = ["key", "cc", "depth", "bytes", "count", "flows"]
    return each.group_by(keys).agg(share=bbr / pl.col("goodput_mbit").sum()).sort("key")


def groups(found: Found) -> Picture:
    """Draw the share of the group of BBR over the part that they are of all flows."""
    shares = _groups(found).with_columns(
        part=pl.col("count") / pl.col("flows"),
        shown=pl.format("buffer of {} products", pl.col("depth").cast(pl.Int64)),
        all=pl.format("{} flows", "flows"),
    )
    order = [f"{flows} flows" for flows in sorted(shares["flows"].unique())]
    values = means(shares, ["shown", "cc", "all", "part"], "share")
    picture = figures.lines(
        values.with_columns(ordered("cc", BBR), ordered("all", order)),
        "part",
        "share",
        by="all",
        facet="shown",
        columns="cc",
        log_x=False,
        x_label="part of the flows that are BBR, the others CUBIC",
        y_label="share of the link of these",
        title="100 Mbit/s, 40 ms, tail drop; means of 2 runs of 90 s",
    )
    picture.curve([0, 1], [0, 1], "equal shares")
    return picture.arrange()


def one_of_many(found: Found) -> Picture:
    """Draw the share of a single BBR flow over the number of CUBIC flows."""
    single = (
        _groups(found)
        .filter(pl.col("count") == 1)
        .with_columns(
            others=pl.col("flows") - 1, shown=pl.format("buffer of {} products", pl.col("depth").cast(pl.Int64))
        )
    )
    picture = figures.lines(
        means(single, ["shown", "cc", "others"], "share").with_columns(ordered("cc", BBR)),
        "others",
        "share",
        low="low",
        high="high",
        by="cc",
        facet="shown",
        log_x=True,
        x_label="CUBIC flows",
        y_label="share of the one BBR flow",
    )
    counts = [49 ** (i / 40) for i in range(41)]
    picture.curve(counts, [1 / (count + 1) for count in counts], "equal shares")
    return picture.arrange()


# 4

AMONG = {"like": "among 4 of its kind", "cubic": "among 4 CUBIC", "bbr": "CUBIC among 4 of BBR"}
BIN = 5  # s


def _late(found: Found) -> pl.DataFrame:
    """Return the goodput of the flow that came last over its fair share, by whole seconds since its start."""
    runs = found.of("latecomer")
    start = found.flows.filter(pl.col("flow") == 4).select("key", "start_s")
    series = found.series(runs).filter(pl.col("flow") == 4).join(start, on="key")
    like, cubic = pl.col("cc") == pl.col("second"), pl.col("cc") == "CUBIC"
    kind = pl.when(like).then(pl.lit("like")).when(cubic).then(pl.lit("cubic")).otherwise(pl.lit("bbr"))
    return series.select(
        "key",
        "seed",
        "depth",
        kind=kind,
        cc=pl.when(cubic).then("second").otherwise("cc"),
        time=(pl.col("time_s") - pl.col("start_s")).ceil(),
        fair=pl.col("goodput_mbit") / (pl.col("rate") * PAYLOAD / pl.col("flows")),
    ).filter(pl.col("time").is_between(1, 60))


def latecomer(found: Found) -> Picture:
    """Draw what a flow that comes late gets over time."""
    late = _late(found).with_columns(
        ((pl.col("time") - 1) // BIN * BIN + BIN / 2).alias("time"),
        named("kind", AMONG),
        shown=pl.format("buffer of {} BDP", pl.col("depth").cast(pl.Int64)),
    )
    picture = figures.lines(
        means(late, ["shown", "kind", "cc", "time"], "fair").with_columns(ordered("cc", FIVE)),
        "time",
        "fair",
        by="cc",
        facet="shown",
        columns="kind",
        log_x=False,
        x_label="time since its start, s",
        y_label="goodput of the late flow over a fifth of the link",
        title="50 Mbit/s, 40 ms, tail drop; means of 8 runs",
    )
    picture.level(1, "fair", "--")
    return picture.arrange()


def latecomer_table(found: Found) -> str:
    """Return how soon the late flow has four fifths of its fair share over 5 s, and what it has from 50 to 60 s."""
    late = _late(found).sort("key", "time").with_columns(over=pl.col("fair").rolling_mean(BIN).over("key"))
    keys = ["depth", "kind", "cc", "key"]
    each = late.group_by(keys).agg(
        reached=pl.col("time").filter(pl.col("over") >= 0.8).min(),
        end=pl.col("fair").filter(pl.col("time") > 50).mean(),
    )
    values = each.group_by(keys[:3]).agg(
        reached=pl.col("reached").fill_null(math.inf).median(),
        count=pl.col("reached").count(),
        n=pl.len(),
        end=pl.col("end").mean(),
    )
    rows = []
    for depth in sorted(values["depth"].unique()):
        for kind, name in AMONG.items():
            here = {
                row["cc"]: row
                for row in values.filter(pl.col("depth") == depth, pl.col("kind") == kind).iter_rows(named=True)
            }
            cells = [_reached(here.get(cc)) for cc in FIVE]
            rows.append([f"{depth:g}", name, *cells])
    return aligned(["buffer, BDP", "", *FIVE], rows, words=(0, 1))


def _reached(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    time = f"{row['reached']:.0f} s" if math.isfinite(row["reached"]) else "never"
    some = "" if row["count"] in (0, row["n"]) else f" ({row['count']} of {row['n']})"
    return f"{time}{some}; {row['end']:.2f}"


# 5


def shallow(found: Found) -> Picture:
    """Draw the loss rate over the depth of the buffer."""
    runs = found.of("shallow")
    shown = {count: f"{count} flow{'s' * (count > 1)}" for count in sorted(runs["count"].unique())}
    lost = pl.when(pl.col("loss") > 0).then("loss").name.keep()
    values = means(runs.with_columns(lost, shown=named("count", shown)), ["shown", "cc", "depth"], "loss")
    return figures.lines(
        values.with_columns(ordered("cc", FIVE)),
        "depth",
        "loss",
        low="low",
        high="high",
        by="cc",
        facet="shown",
        columns=4,
        log_x=True,
        log_y=True,
        x_label="depth of the buffer, bandwidth-delay products",
        y_label="packets dropped, %",
        title="All flows of one kind, 50 Mbit/s, 40 ms, tail drop, from 10 to 60 s; no point: no loss",
    )


def shallow_table(found: Found) -> str:
    """Return loss and use of the link in shallow buffers."""
    values = means(found.of("shallow"), ["count", "cc", "depth"], "loss", "utilisation")
    rows = []
    for count in sorted(values["count"].unique()):
        here = values.filter(pl.col("count") == count, pl.col("depth").is_in([0.05, 0.2, 0.5, 1, 2]))
        rows += [
            [str(count), *row]
            for row in cross(
                here, "depth", "cc", FIVE, lambda row: f"{two_digits(row['loss'])}; {100 * row['utilisation']:.1f}"
            )
        ]
    return aligned(["flows", "depth", *FIVE], rows)


# 6

POLICED = [*FIVE, "Reno"]


def _policed(found: Found) -> pl.DataFrame:
    flows = found.each(found.of("policer"))
    return flows.with_columns(lost=100 * pl.col("retransmissions") / pl.col("sent"))


def policer(found: Found) -> Picture:
    """Draw the goodput of a flow through a policer over the depth of the bucket."""
    return _over_bucket(found, "goodput_mbit", "goodput, Mbit/s")


def policer_loss(found: Found) -> Picture:
    """Draw the retransmissions of a flow through a policer."""
    return _over_bucket(found, "lost", "sent again, % of packets")


def _over_bucket(found: Found, value: str, label: str) -> Picture:
    return figures.lines(
        means(_policed(found), ["cc", "bucket"], value).with_columns(ordered("cc", POLICED)),
        "bucket",
        value,
        low="low",
        high="high",
        by="cc",
        log_x=True,
        x_label="depth of the bucket, kB",
        y_label=label,
        title="Policer of 10 Mbit/s, 40 ms, 60 s",
    )


def policer_time(found: Found) -> Picture:
    """Draw what BBRv1 and v3 believe and lose behind a policer over time."""
    runs = found.of("policer").filter(
        pl.col("bucket") == 50, pl.col("seed") == 1, pl.col("cc").is_in(["BBRv1", "BBRv3"])
    )
    trace = found.series(runs, "trace").filter(pl.col("time_s") < 20).sort("key", "time_s")
    believed = trace.unpivot(
        ["max_bw_mbit", "bw_mbit"], index=["cc", "time_s"], variable_name="what", value_name="bandwidth"
    ).with_columns(named("what", {"max_bw_mbit": "filter's maximum", "bw_mbit": "used"}))
    window = (pl.col("time_s") // 0.5) * 0.5
    lost = (
        trace.with_columns(time_s=window)
        .group_by("cc", "time_s")
        .agg(lost=100 * (pl.col("lost").max() - pl.col("lost").min()) / (pl.col("sent").max() - pl.col("sent").min()))
    )
    return figures.stacked_series(
        [
            Series(
                believed.unique(["cc", "time_s", "what"], keep="last", maintain_order=True),
                "bandwidth",
                "what",
                "bandwidth, Mbit/s",
            ),
            Series(lost.sort("cc", "time_s"), "lost", None, "lost in 0.5 s, %"),
        ],
        columns="cc",
        title="Policer of 10 Mbit/s with a bucket of 50 kB, 40 ms",
    )


FIGURES: dict[str, Callable[[Found], Picture]] = {
    "share": share,
    "share-loss": share_loss,
    "rtt": rtt,
    "groups": groups,
    "one-of-many": one_of_many,
    "latecomer": latecomer,
    "shallow": shallow,
    "policer": policer,
    "policer-loss": policer_loss,
    "policer-time": policer_time,
    "fair-queue": bbr_queues.fair_queue,
    "thin-flow": bbr_queues.thin_flow,
    "ecn-limit": bbr_queues.ecn_limit,
    "dualpi2": bbr_queues.dualpi2,
}
TABLES: dict[str, Callable[[Found], str]] = {
    "share": share_table,
    "linux": linux_table,
    "linux-others": linux_others_table,
    "mechanisms": mechanisms_table,
    "rtt": rtt_table,
    "latecomer": latecomer_table,
    "shallow": shallow_table,
    "fair-queue": bbr_queues.fair_queue_table,
    "ecn": bbr_queues.ecn_table,
    "dualpi2": bbr_queues.dualpi2_table,
    "dualpi2-answers": bbr_queues.dualpi2_answers_table,
}


def main(path: str, page: str) -> None:
    """Write the tables into the page and draw the figures beside it."""
    found = Found(path)
    target = Path(page)
    text = fill(target.read_text(encoding="utf-8"), {name: table(found) for name, table in TABLES.items()})
    target.write_text(text, encoding="utf-8")
    for name, draw in FIGURES.items():
        print(figures.save(draw(found), target.parent / f"bbr-{name}.png"), file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except InputError as error:
        sys.exit(str(error))
