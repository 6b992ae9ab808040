"""Figures of sections 1 to 6 of the page; each has its answer as its title, with numbers from the evidence."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
from matplotlib.lines import Line2D

from dumbbell.figures.style import DASHES, GUIDE, MARKERS, SMALL
from dumbbell.study import (
    Evidence,
    Picture,
    Series,
    compute_means,
    count_experiment_seeds,
    describe_runs,
    draw_means,
    figures,
    list_durations,
    map_names,
    order_names,
)

from .runs import BBR, FIVE, format_two_digits

DEPTH = "buffer, BDP"
WIDTH = 5.2  # inches: two panels side by side that can be read on a telephone
HALF = "equal shares"
LINUX = "Linux, single runs"


def format_span(values: Iterable[float], digits: int | None = None) -> str:
    """Return the least and the largest of values, with two digits unless given: `88 to 95`, `3.6 to 21`."""
    every = list(values)
    ends = [
        f"{value:.{digits}f}" if digits is not None else format_two_digits(value) for value in (min(every), max(every))
    ]
    return " to ".join(dict.fromkeys(ends))


def format_percents(values: Iterable[float]) -> str:
    """Return the least and the largest of shares: `88 to 95 %`."""
    return f"{format_span((100 * value for value in values), 0)} %"


def name_kinds(picture: Picture, names: Sequence[str]) -> None:
    """Let the legend say what dashes and markers mean where panels say what colours mean."""
    picture.entries = [
        (name, Line2D([], [], color=GUIDE, linestyle=dashes, marker=marker))
        for name, dashes, marker in zip(names, DASHES, MARKERS, strict=False)
    ]


def draw_points(picture: Picture, points: pl.DataFrame, facet: str, x: str, y: str, name: str) -> None:
    """Draw single values as hollow circles in the panel of their facet."""
    look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 5, "markerfacecolor": "none"}
    look |= {"markeredgecolor": "black", "markeredgewidth": 0.9}
    for (key,), part in points.group_by(facet, maintain_order=True):
        picture.panels[key,].plot(part[x], part[y], **look, zorder=4, label=f"_{name}")
    picture.add_entry(name, Line2D([], [], **look))


def emphasise(picture: Picture, other: str) -> None:
    """Draw the lines of panels solid and stronger than that which all of them have for comparison."""
    thin = {"linewidth": 0.9, "marker": "None", "linestyle": "-"}
    for axes in picture.panels.values():
        for line in axes.lines:
            label = str(line.get_label())
            if label == other:
                line.set(**thin)
            elif not label.startswith("_"):
                line.set(linewidth=1.6, linestyle="-", zorder=3.5)
    for label, handle in picture.entries:
        if label == other:
            handle.set(**thin)


def write_at(picture: Picture, key: tuple[Any, ...], text: str, x: float, y: float, **options: Any) -> None:
    """Write a few words in a panel at a place of its axes."""
    look: dict[str, Any] = {"color": GUIDE, "fontsize": SMALL, "va": "bottom", "annotation_clip": False}
    picture.panels[key].annotate(text, (x, y), **look | options)


# 1


def draw_share(found: Evidence, second: str, *, linux: bool) -> Picture:
    """Draw the share of one BBR flow against one CUBIC or Reno flow over the depth of the buffer, a panel a version."""
    own = found["share"].filter(pl.col("second") == second)
    values = compute_means(own, ["cc", "depth"], "share")
    base = values.filter(pl.col("cc") == "CUBIC")
    shown = pl.concat(
        [
            part
            for cc in BBR
            for part in (
                values.filter(pl.col("cc") == cc).with_columns(panel=pl.lit(cc)),
                base.with_columns(panel=pl.lit(cc)),
            )
        ]
    )
    shallow = values.filter(pl.col("cc") == "BBRv1", pl.col("depth") <= 1)["share"]
    others = values.filter(pl.col("cc").is_in(BBR[1:]), pl.col("depth") <= 1)["share"]
    picture = draw_means(
        shown.with_columns(order_names("cc", FIVE), order_names("panel", BBR)),
        "depth",
        "share",
        by="cc",
        facet="panel",
        columns=2,
        log_x=True,
        x_label=DEPTH,
        y_label="share of the first flow",
        title=f"Up to 1 BDP, BBRv1 takes {format_percents(shallow)} of the link from {second}; "
        f"the others take {format_percents(others)}\n"
        f"One flow against one {second} flow; 50 Mbit/s, 40 ms, tail drop; "
        f"{describe_runs(values['n'], seconds=list_durations(found, 'share-by-buffer'))} (bands)",
        level=0.5,
        level_name=HALF,
    )
    emphasise(picture, "CUBIC")
    of_cubic, equal = (handle for label, handle in picture.entries if label in ("CUBIC", HALF))
    bold = Line2D([], [], color=GUIDE, marker="o", linewidth=1.6)
    picture.entries = [("BBR", bold), (f"CUBIC against {second} instead", of_cubic)]
    if linux:
        draw_points(picture, found["linux"], "cc", "depth", "share", LINUX)
    picture.add_entry(HALF, equal)
    for axes in picture.panels.values():
        axes.set_ylim(0, 1)
    return picture.set_width(WIDTH)


def draw_share_late(found: Evidence) -> Picture:
    """Draw the share against CUBIC in whole runs of 120 s and in the long run, a panel a version."""
    begin = found.made["share-late"]["setup"].get("record.from", [0])[0] / 1e9
    short, long = (max(list_durations(found, name)) for name in ("share-by-buffer", "share-late"))
    spans = {"long": f"from {begin:g} to {long:g} s", "short": f"in the first {short:g} s"}
    early = found["share"].filter(pl.col("second") == "CUBIC", pl.col("cc").is_in(BBR), pl.col("depth") >= 0.5)
    both = pl.concat(
        [
            early.select("cc", "depth", "share", span=pl.lit("short")),
            found["late"].select("cc", "depth", "share", span=pl.lit("long")),
        ]
    )
    values = compute_means(both, ["span", "cc", "depth"], "share")
    late = values.filter(pl.col("span") == "long")
    v3, v2 = (late.filter(pl.col("cc").is_in(own))["share"] for own in (["BBRv3", "draft"], ["BBRv2"]))
    picture = draw_means(
        values.with_columns(order_names("cc", BBR), map_names("span", spans), panel=order_names("cc", BBR)),
        "depth",
        "share",
        by=["cc", "span"],
        facet="panel",
        columns=2,
        log_x=True,
        x_label=DEPTH,
        y_label="share of BBR",
        title=f"In the long run BBRv3 and the draft get {format_percents(v3)} against CUBIC, "
        f"BBRv2 {format_percents(v2)}\n"
        f"One BBR flow against one CUBIC flow; 50 Mbit/s, 40 ms, tail drop; {describe_runs(values['n'])} (bands)",
        level=0.5,
        level_name=HALF,
    )
    equal = picture.entries[-1]
    name_kinds(picture, list(spans.values()))
    picture.add_entry(*equal)
    for axes in picture.panels.values():
        axes.set_ylim(0, 1)
    return picture.set_width(WIDTH)


def draw_share_loss(found: Evidence) -> Picture:
    """Draw the loss in the runs of 120 s."""
    shares = found["share"].with_columns(shown=pl.format("against one {} flow", "second"))
    values = compute_means(shares, ["shown", "second", "cc", "depth"], "loss")
    shallow = values.filter(pl.col("second") == "CUBIC", pl.col("depth") <= 1)
    first, cubic = (shallow.filter(pl.col("cc") == cc).sort("depth")["loss"] for cc in ("BBRv1", "CUBIC"))
    picture = draw_means(
        values.with_columns(order_names("cc", FIVE)),
        "depth",
        "loss",
        by="cc",
        facet="shown",
        log_x=True,
        log_y=True,
        bands=True,
        x_label=DEPTH,
        y_label="packets dropped, %",
        title=f"Against CUBIC up to 1 BDP, BBRv1 causes {format_span(first / cubic)} times the loss that CUBIC causes\n"
        "One flow of each control against one CUBIC or Reno flow; 50 Mbit/s, 40 ms, tail drop; "
        f"{describe_runs(values['n'], seconds=list_durations(found, 'share-by-buffer'))} (bands)",
    )
    return picture.set_width(WIDTH)


def draw_ware(found: Evidence) -> Picture:
    """Draw the share of one BBRv1 flow where its model was validated: simulator, Linux of two sources, model."""
    rows = found["ware_sources"].with_columns(
        shown=pl.format(
            "{}, {} Mbit/s,\u00a0{} ms", "second", pl.col("rate").cast(pl.Int64), pl.col("rtt").cast(pl.Int64)
        )
    )
    sources = {
        "model": "model of Ware et al.",
        "share": "simulator",
        "sarpkaya": "Linux, 5.13 (Sarpkaya et al.)",
        "linux": "Linux, 6.12 (ours)",
    }
    depth = find_depth_too_high(found["ware_sources"])
    apart = (found["ware_sources"]["share"] - found["ware_sources"]["sarpkaya"]).abs().to_numpy().max()
    begin = "" if depth is None else f"Ware's model of BBRv1 is too high up to {depth:g} BDP; "
    long = rows.unpivot(
        list(sources), index=["shown", "bdps", "low", "high"], variable_name="source", value_name="value"
    )
    simulated = pl.col("source") == "share"
    long = long.filter(pl.col("value").is_not_null()).with_columns(
        low=pl.when(simulated).then("low").otherwise("value"), high=pl.when(simulated).then("high").otherwise("value")
    )
    picture = draw_means(
        long.with_columns(map_names("source", sources)),
        "bdps",
        "value",
        by="source",
        facet="shown",
        log_x=True,
        x_label=DEPTH,
        y_label="share of BBRv1",
        title=f"{begin}the simulator is within {math.ceil(100 * apart)} points of Linux\n"
        "One BBRv1 flow against one flow where the model was validated; tail drop, last 400 s (CUBIC) or 200 s (Reno) "
        "of 1000 s",
        level=0.5,
        level_name=HALF,
    )
    looks: dict[str, dict[str, Any]] = {
        sources["model"]: {"color": "black", "marker": "None", "linewidth": 1.6, "linestyle": "-"},
        sources["sarpkaya"]: {"linestyle": "none", "marker": "o", "markersize": 6.5, "markerfacecolor": "none"},
        sources["linux"]: {"linestyle": "none", "marker": "x", "markersize": 5.5, "markeredgewidth": 1.2},
    }
    shown = [(str(line.get_label()), line) for axes in picture.panels.values() for line in axes.lines]
    for label, line in [*shown, *picture.entries]:
        line.set(**looks.get(label, {}))
    return picture.set_width(WIDTH)


TOO_HIGH = 0.02  # a share above simulator and Linux that is too high, as a share of the link


def find_depth_too_high(sources: pl.DataFrame) -> float | None:
    """Return the depth up to which the model is too high in every set-up, for the simulator and for Linux, in BDP."""
    off = (pl.col("model") - pl.max_horizontal("share", "high", "sarpkaya", "linux")).min()
    found = None
    for depth, worst in sources.group_by("bdps").agg(off).sort("bdps").iter_rows():
        if worst <= TOO_HIGH:
            break
        found = depth
    return found


# 2


def draw_rtt(found: Evidence) -> Picture:
    """Draw the share of a flow of 10 ms sharing with one of another RTT, a panel a control."""
    buffers = {1_250_000: "buffer of 200 ms", 62_500: "buffer of 10 ms"}
    values = compute_means(found["rtt"], ["bytes", "cc", "second_rtt"], "share")
    deep = values.filter(pl.col("cc").is_in(BBR), pl.col("bytes") == 1_250_000, pl.col("second_rtt") > 10)["share"]
    picture = draw_means(
        values.with_columns(order_names("cc", FIVE), map_names("bytes", buffers), panel=order_names("cc", FIVE)),
        "second_rtt",
        "share",
        by=["cc", "bytes"],
        facet="panel",
        columns=3,
        log_x=True,
        x_label="base RTT of the second flow, ms",
        y_label="share of the flow of 10 ms",
        title=f"In a deep buffer a BBR flow of 10 ms gets {format_percents(deep)} against one of a longer RTT\n"
        f"Two flows of one control, the first of 10 ms; 50 Mbit/s, tail drop; {describe_runs(values['n'])} (bands)",
        level=0.5,
        level_name=HALF,
    )
    equal = picture.entries[-1]
    name_kinds(picture, list(buffers.values()))
    picture.add_entry(*equal)
    for axes in picture.panels.values():
        axes.set_ylim(0, 1)
    return picture.set_width(WIDTH)


# 3


def draw_groups(found: Evidence) -> Picture:
    """Draw the share of the group of BBR over the share of the flows that they are."""
    groups = found["groups"]
    order = {flows: f"{flows} flows" for flows in sorted(groups["flows"].unique())}
    shares = groups.with_columns(
        of_flows=pl.col("count") / pl.col("flows"),
        shown=pl.format("buffer of {} BDP", pl.col("depth").cast(pl.Int64)),
        all=map_names("flows", order),
    )
    values = compute_means(shares, ["shown", "depth", "cc", "all", "of_flows"], "share")
    times = values.with_columns(times=pl.col("share") / pl.col("of_flows"))
    few = times.filter(pl.col("of_flows") <= 0.1)["times"]
    picture = draw_means(
        values.with_columns(order_names("cc", BBR)),
        "of_flows",
        "share",
        by="all",
        facet="cc",
        columns="shown",
        log_x=False,
        bands=True,
        x_label="share of the flows that are BBR, the others CUBIC",
        y_label="share of the link",
        title=f"If a tenth of the flows or fewer are BBR, they take {format_span(few)} times their fair share\n"
        f"100 Mbit/s, 40 ms, tail drop; "
        f"{describe_runs(values['n'], seconds=list_durations(found, 'groups'))} (bands)",
    )
    for axes in picture.panels.values():
        axes.plot([0, 1], [0, 1], color=GUIDE, linewidth=0.9, linestyle="--", zorder=1.8, label="_fair")
        axes.set_ylim(0, 1.02)
        axes.set_xlim(0, 1.02)
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        for line in axes.lines:
            line.set_markersize(7 if line.get_label() == order[2] else 3.5)
    fair = Line2D([], [], color=GUIDE, linewidth=0.9, linestyle="--")
    picture.add_entry("fair: an equal share for each flow", fair)
    picture.panel_size, picture.rigid = (2.0, 1.3), True
    return picture.set_width(WIDTH)


def draw_one_of_many(found: Evidence) -> Picture:
    """Draw how many times its fair share a single BBR flow takes over the number of CUBIC flows."""
    single = (
        found["groups"]
        .filter(pl.col("count") == 1)
        .with_columns(
            others=pl.col("flows") - 1,
            times=pl.col("share") * pl.col("flows"),
            shown=pl.format("buffer of {} BDP", pl.col("depth").cast(pl.Int64)),
        )
    )
    values = compute_means(single, ["shown", "cc", "others"], "times")
    most = values.filter(pl.col("others") == pl.col("others").max())
    first, rest = (most.filter(which)["times"] for which in (pl.col("cc") == "BBRv1", pl.col("cc") != "BBRv1"))
    return draw_means(
        values.with_columns(order_names("cc", BBR)),
        "others",
        "times",
        by="cc",
        facet="shown",
        log_x=True,
        log_y=True,
        bands=True,
        x_label="CUBIC flows",
        y_label="share of the link over a fair share",
        title=f"One BBRv1 flow among {most['others'][0]} CUBIC flows takes {format_span(first)} times its fair share, "
        f"the other versions {format_span(rest)} times\n"
        f"100 Mbit/s, 40 ms, tail drop; "
        f"{describe_runs(values['n'], seconds=list_durations(found, 'groups'))} (bands)",
        level=1,
        level_name="fair share",
    ).set_width(WIDTH)


# 4

AMONG = {"like": "BBR among 4 of its kind", "cubic": "BBR among 4 CUBIC", "bbr": "CUBIC among 4 BBR"}


def draw_latecomer(found: Evidence) -> Picture:
    """Draw what a flow that comes late gets over time: a row for each version, a column for those that it meets."""
    depths = {4.0: "buffer of 4 BDP", 1.0: "buffer of 1 BDP"}
    late = found["latecomer"].filter(pl.col("cc").is_in(BBR), pl.col("depth").is_in(list(depths)))
    ends = found["latecomers"].filter(pl.col("cc") == "BBRv1", pl.col("depth") == 1)
    mean = {kind: ends.filter(pl.col("kind") == kind)["end"].to_numpy().mean() for kind in AMONG}
    picture = draw_means(
        late.with_columns(map_names("kind", AMONG), map_names("depth", depths), order_names("cc", BBR)).with_columns(
            version="cc"
        ),
        "time",
        "fair",
        by=["cc", "depth"],
        facet="version",
        columns="kind",
        log_x=False,
        x_label="time since the late flow's start, s",
        y_label="goodput of the late flow over its fair share",
        title=f"At 1 BDP, a late BBRv1 flow gets {mean['cubic']:.1f} times its fair share among CUBIC flows, "
        f"a late CUBIC flow {mean['bbr']:.2f} times among BBRv1 flows\n"
        f"The last of 5 flows comes 10 to 30 s late; 50 Mbit/s, 40 ms, tail drop; means of 5 s; "
        f"{describe_runs(count_experiment_seeds(found, 'latecomer'))} (bands)",
        level=1,
        level_name="fair",
    )
    fair = picture.entries[-1]
    name_kinds(picture, list(depths.values()))
    picture.add_entry(*fair)
    for axes in picture.panels.values():
        axes.set_ylim(0, 4.5)
        for line in axes.lines:
            line.set_marker("None")
    for _, handle in picture.entries:
        handle.set_marker("None")  # type: ignore[attr-defined]
    picture.panel_size, picture.rigid = (1.4, 1.0), True
    return picture.set_width(WIDTH)


# 5

NO_LOSS = 1e-3  # %; below it the axis is linear, so that no loss has a place


def draw_shallow(found: Evidence) -> Picture:
    """Draw the loss rate over the depth of the buffer; runs without loss have a place of their own."""
    counts = {count: f"{count} flow{'s' * (count > 1)}" for count in sorted(found["shallow"]["count"].unique())}
    begin = found.made["shallow"]["setup"].get("record.from", [0])[0] / 1e9
    end = max(list_durations(found, "shallow"))
    values = compute_means(found["shallow"], ["count", "cc", "depth"], "loss")
    small = values.filter(pl.col("depth") <= 0.2)
    first, cubic = (small.filter(pl.col("cc") == cc)["loss"].sort() for cc in ("BBRv1", "CUBIC"))
    picture = draw_means(
        values.with_columns(order_names("cc", FIVE), map_names("count", counts)),
        "depth",
        "loss",
        by="cc",
        facet="count",
        columns=2,
        log_x=True,
        bands=True,
        x_label=DEPTH,
        y_label="packets dropped, %",
        title=f"Up to 0.2 BDP, BBRv1 drops {format_span(first)} % of packets, CUBIC up to {format_span(cubic[-1:])} %\n"
        f"All flows of a run have one control; 50 Mbit/s, 40 ms, tail drop; {describe_runs(values['n'])} (bands) "
        f"from {begin:g} to {end:g} s",
    )
    ticks = {0.0: "none", 1e-2: "0.01", 1e-1: "0.1", 1.0: "1", 10.0: "10"}
    for axes in picture.panels.values():
        axes.set_yscale("symlog", linthresh=NO_LOSS, linscale=0.6)
        axes.set_ylim(-2e-4, 40)
        axes.set_yticks(list(ticks), list(ticks.values()))
        axes.minorticks_off()
    return picture.set_width(WIDTH)


# 6

POLICED = [*FIVE, "Reno"]


def draw_policer(found: Evidence) -> Picture:
    """Draw goodput and retransmissions of a flow through a policer over the depth of the bucket."""
    measures = {"goodput_mbit": "goodput, Mbit/s", "lost": "retransmissions, % of packets"}
    long = found["policer"].unpivot(
        list(measures), index=["cc", "bucket", "seed"], variable_name="measure", value_name="value"
    )
    frame = compute_means(long, ["measure", "cc", "bucket"], "value")
    least = frame.filter(pl.col("measure") == "goodput_mbit", pl.col("bucket") == pl.col("bucket").min())
    bbr, others = (least.filter(which)["value"] for which in (pl.col("cc").is_in(BBR), ~pl.col("cc").is_in(BBR)))
    return draw_means(
        frame.with_columns(order_names("cc", POLICED), map_names("measure", measures)),
        "bucket",
        "value",
        by="cc",
        each="measure",
        log_x=True,
        x_label="depth of the bucket, kB",
        title=f"With a bucket of {least['bucket'][0]:g} kB, BBR gets {format_span(bbr)} Mbit/s, "
        f"CUBIC and Reno {format_span(others)}\n"
        f"One flow through a policer of 10 Mbit/s; 40 ms; "
        f"{describe_runs(frame['n'], seconds=list_durations(found, 'policer'))}",
    )


def draw_policer_time(found: Evidence) -> Picture:
    """Draw what BBRv1 and v3 believe and lose behind a policer over time."""
    estimates = {"max_bw_mbit": "maximum of the filter", "bw_mbit": "estimate in use"}
    believed = found["policer_believed"].unpivot(
        list(estimates), index=["cc", "time"], variable_name="what", value_name="bandwidth"
    )
    lost = found["policer_lost"]
    later = {
        cc: lost.filter(pl.col("cc") == cc, pl.col("time") > START_UP_S)["lost"].to_numpy().max()
        for cc in ("BBRv1", "BBRv3")
    }
    first = lost.filter(pl.col("time") <= START_UP_S)["lost"].drop_nulls().to_numpy().max()
    picture = figures.stacked_series(
        [
            Series(
                believed.with_columns(map_names("what", estimates)),
                "bandwidth",
                "what",
                "estimate, Mbit/s",
                levels=[(POLICED_MBIT, "")],
            ),
            Series(lost, "lost", None, "loss in 0.5 s, %", counts=True),
        ],
        x="time",
        columns="cc",
        x_label="time, s",
        title=f"After start-up, BBRv1 loses up to {later['BBRv1']:.0f} % in half a second, "
        f"BBRv3 up to {later['BBRv3']:.0f} %\n"
        f"Policer of {POLICED_MBIT:g} Mbit/s (dashed) with a bucket of 50 kB, 40 ms; one run each",
    )
    for (cc, number), axes in picture.panels.items():
        if number == 1:
            axes.set_ylim(0, 1.15 * first)
            axes.lines[0].set_visible(False)
            own = lost.filter(pl.col("cc") == cc).drop_nulls()
            axes.bar(own["time"], own["lost"], width=0.5, color="0.55", linewidth=0, label="_lost")
    write_at(picture, ("BBRv1", 1), f"start-up: {first:.0f} %", START_UP_S, first, va="center")
    return picture.set_width(WIDTH)


START_UP_S, POLICED_MBIT = 2.0, 10.0
