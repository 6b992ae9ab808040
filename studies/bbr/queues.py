"""What queues make of BBR: flow queues, a step around its limit for ECN, DualPI2. Sections 7 to 9 of the page."""

from typing import Any

import polars as pl
from matplotlib.lines import Line2D

from dumbbell.figures.style import GUIDE
from dumbbell.study import (
    Evidence,
    Picture,
    align_table,
    compute_means,
    describe_runs,
    draw_means,
    figures,
    list_durations,
    make_grid,
    map_names,
    order_names,
)

from .pictures import WIDTH, format_percents, format_span
from .runs import BBR, FIVE, format_two_digits

# 7

REMEDIES = ["tail drop", "CoDel", "FQ-CoDel", "Cake"]
ECN = {False: "no ECN", True: "ECN negotiated"}


def draw_fair_queue(found: Evidence) -> Picture:
    """Draw the share of one BBR flow over four queues."""
    shares = found["fair_queue"].with_columns(shown=pl.format("against one {} flow", "second"))
    values = compute_means(shares, ["shown", "ecn", "cc", "queue"], "share")
    fair, codel = (
        values.filter(pl.col("queue").is_in(own), pl.col("cc").is_in(who))["share"]
        for own, who in ((["FQ-CoDel", "Cake"], FIVE), (["CoDel"], BBR))
    )
    picture = draw_means(
        values.with_columns(order_names("cc", FIVE), order_names("queue", REMEDIES), map_names("ecn", ECN)),
        "queue",
        "share",
        by="cc",
        facet="ecn",
        columns="shown",
        x_label="",
        y_label="share of the first flow",
        title=f"FQ-CoDel and Cake give the first flow {format_percents(fair)}, "
        f"CoDel gives BBR {format_percents(codel)}\n"
        f"50 Mbit/s, 40 ms; tail drop has a buffer of 2 BDP; {describe_runs(values['n'])} (bars)",
        level=0.5,
        level_name="equal shares",
    )
    for axes in picture.panels.values():
        axes.set_ylim(0, 1)
    return picture.set_width(WIDTH)


def thin_flow(found: Evidence) -> Picture:
    """Draw the delay of a thin flow that shares the link with the pairs."""
    thin = found["fair_queue"].filter(pl.col("second") == "CUBIC")
    values = compute_means(thin, ["ecn", "cc", "queue"], "thin_p99")
    flows, tail = (
        values.filter(pl.col("queue").is_in(own))["thin_p99"] for own in (["FQ-CoDel", "Cake"], ["tail drop"])
    )
    return draw_means(
        values.with_columns(order_names("cc", FIVE), order_names("queue", REMEDIES), map_names("ecn", ECN)),
        "queue",
        "thin_p99",
        by="cc",
        facet="ecn",
        log_y=True,
        x_label="",
        y_label="P99 of its time in queue, ms",
        title=f"A thin flow waits {format_span(flows)} ms over FQ-CoDel and Cake, "
        f"{format_span(tail)} ms over tail drop\n"
        "60 frames of 200 B per second share 50 Mbit/s with a CUBIC flow and one of the control in the legend; 40 ms; "
        f"{describe_runs(values['n'])} (bars)",
    ).set_width(WIDTH)


def format_fair_queue_table(found: Evidence) -> str:
    """Return the time in queue of the first flow's own packets beside CUBIC."""
    own = found["fair_queue"].filter(pl.col("second") == "CUBIC")
    own = own.with_columns(map_names("ecn", ECN), order_names("queue", REMEDIES))
    values = compute_means(own, ["ecn", "queue", "cc"], "own_mean", "own_p99")
    rows = make_grid(values, ["ecn", "queue"], "cc", FIVE, lambda row: f"{row['own_mean']:.2g} / {row['own_p99']:.2g}")
    return align_table(["", "own queue, ms", *FIVE], rows, words=(0, 1))


# 8

ANSWERS = ["BBRv2", "BBRv2, ECN", "BBRv3", "BBRv3, ECN", "BBRv1", "DCTCP"]
LIMIT = 5.0  # ms; bbr_ecn_max_rtt_us


def draw_ecn_limit(found: Evidence) -> Picture:
    """Draw the mean queue at base RTTs around the limit of 5 ms, with Linux."""
    pairs = {name: version for version in ("BBRv2", "BBRv3") for name in (version, f"{version}, ECN")}
    rows = found["ecn"].filter(pl.col("rtt").is_between(4, 6))
    values = compute_means(rows, ["count", "version", "rtt"], "sojourn")
    dctcp = values.filter(pl.col("version") == "DCTCP")
    own = values.filter(pl.col("version").is_in(list(pairs)))
    shown = pl.concat(
        [own.with_columns(panel=pl.col("version").replace_strict(pairs))]
        + [dctcp.with_columns(panel=pl.lit(panel)) for panel in ("BBRv2", "BBRv3")]
    )
    counts = {count: f"{count} flow{'s' * (count > 1)}" for count in sorted(rows["count"].unique())}
    places = {rtt: float(place) for place, rtt in enumerate(sorted(shown["rtt"].unique()))}
    most = max(counts)
    growth = {
        panel: [
            values.filter(pl.col("count") == most, pl.col("version") == f"{panel}, ECN", pl.col("rtt") == rtt)[
                "sojourn"
            ].item()
            for rtt in (LIMIT, 5.1)
        ]
        for panel in ("BBRv2", "BBRv3")
    }
    said = " and ".join(f"from {low:.1f} to {high:.0f} ms ({panel})" for panel, (low, high) in growth.items())
    picture = draw_means(
        shown.with_columns(
            map_names("count", counts),
            order_names("version", [*pairs, "DCTCP"]),
            place=pl.col("rtt").replace_strict(places),
        ),
        "place",
        "sojourn",
        by="version",
        facet="count",
        columns="panel",
        log_x=False,
        log_y=True,
        x_names={place: f"{rtt:g}" for rtt, place in places.items()},
        x_label="base RTT, ms (not to scale)",
        y_label="mean time in queue, ms",
        title=f"Above a base RTT of {LIMIT:g} ms BBR does not answer ECN: the queue of {most} flows grows {said}\n"
        f"Marks above 1 ms of queue, 50 Mbit/s; "
        f"{describe_runs(values['n'], seconds=list_durations(found, 'ecn-limit', 'short-path'))} (bands)",
    )
    linux = (
        found["as_linux"]
        .filter(pl.col("kind") == "ecn", pl.col("rtt").is_in(list(places)))
        .group_by("cc", "rtt")
        .agg(linux=pl.col("linux").first())
        .sort("cc", "rtt")
    )
    ring: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 6, "markerfacecolor": "none"}
    ring |= {"markeredgecolor": "black"}
    for (cc,), part in linux.group_by("cc", maintain_order=True):
        at = [places[rtt] for rtt in part["rtt"]]
        picture.panels[counts[most], str(cc)].plot(at, part["linux"], **ring, zorder=4, label="_Linux")
    for axes in picture.panels.values():
        axes.axvline(places[LIMIT], color=GUIDE, linewidth=0.9, linestyle="--", label="_limit")
    handles = {label: handle for label, handle in picture.entries if isinstance(handle, Line2D)}
    other = handles["DCTCP"]
    grey = [
        (text, Line2D([], [], color=GUIDE, linestyle=handle.get_linestyle(), marker=handle.get_marker()))
        for text, handle in (("BBR with ECN", handles["BBRv3, ECN"]), ("BBR without ECN", handles["BBRv3"]))
    ]
    picture.entries = [*grey, ("DCTCP", other)]
    picture.add_entry("Linux: RTT - base RTT, one run", Line2D([], [], **ring))
    picture.add_entry(f"BBR's limit for ECN, {LIMIT:g} ms", Line2D([], [], color=GUIDE, linewidth=0.9, linestyle="--"))
    return picture.set_width(WIDTH)


def format_ecn_table(found: Evidence) -> str:
    """Return time in queue, share of marks, utilisation and fairness of four flows."""
    values = compute_means(
        found["ecn"].filter(pl.col("count") > 1), ["rtt", "version"], "sojourn", "mark_share", "utilisation", "jain"
    )

    def format_row(row: dict[str, Any]) -> str:
        shares = f"{100 * row['mark_share']:.0f}; {100 * row['utilisation']:.1f}"
        return f"{format_two_digits(row['sojourn'])}; {shares}; {row['jain']:.2f}"

    return align_table(["base RTT, ms", *ANSWERS], make_grid(values, ["rtt"], "version", ANSWERS, format_row))


def format_linux_table(found: Evidence) -> str:
    """Return what else was measured on Linux next to runs with the same starts and the same period."""
    keys = ["kind", "name", "measure", "linux"]
    rows = [
        [row["name"], row["measure"], f"{row['value']:.3g} ({row['low']:.3g}-{row['high']:.3g})", f"{row['linux']:.3g}"]
        for row in compute_means(found["as_linux"], keys, "value").iter_rows(named=True)
    ]
    return align_table(["", "measure", "simulator", "Linux"], rows, words=(0, 1))


# 9

FIRST = ["BBRv1", "BBRv2, ECN", "BBRv3, ECN", "BBRv3", "draft", "Prague", "CUBIC"]
SENDS_ECT0 = FIRST[:3]
MASKS = {"l4s_ect": "ECT(0) in the C queue", "any_ect": "ECT(0) in the L queue"}
IN_L = ", in L"
ROLES = {"first": "first flow", "Prague": "Prague", "CUBIC": "CUBIC"}


def _select_shown(found: Evidence) -> pl.DataFrame:
    """Return the cells that differ: the queue of ECT(0) matters only to flows that send it."""
    rows = found["dualpi2"]
    return rows.filter((pl.col("mask") == "l4s_ect") | pl.col("version").is_in(SENDS_ECT0))


def draw_dualpi2(found: Evidence) -> Picture:
    """Draw the goodput of three flows over DualPI2, a row for each first flow."""
    row = pl.when(pl.col("mask") == "l4s_ect").then("version").otherwise(pl.col("version") + IN_L)
    rows = _select_shown(found).with_columns(
        shown=row, path=pl.format("base RTT of {} ms", pl.col("rtt").cast(pl.Int64))
    )
    values = compute_means(rows, ["path", "mask", "rtt", "version", "shown", "role"], "goodput_mbit")
    far = values.filter(pl.col("rtt") == 20, pl.col("mask") == "l4s_ect", pl.col("version").is_in(SENDS_ECT0))
    first = far.filter(pl.col("role") == "first")["goodput_mbit"]
    others = far.filter(pl.col("role") != "first")["goodput_mbit"]
    order = [*FIRST, *(version + IN_L for version in SENDS_ECT0)]
    return figures.dots(
        values.with_columns(order_names("shown", order), map_names("role", ROLES)),
        "shown",
        "goodput_mbit",
        low="low",
        high="high",
        by="role",
        facet="path",
        columns=2,
        log_x=False,
        limits=(0, 50),
        x_label="goodput, Mbit/s",
        title=f"At 20 ms, BBR that negotiates ECN takes {format_span(first)} of 50 Mbit/s and leaves the others "
        f"{format_span(others)} each\n"
        "Rows: the first flow, which shares DualPI2 with a Prague flow and a CUBIC flow without ECN; its ECT(0) goes "
        "to the C queue, or to the L queue where the row says so. BBRv1 negotiates ECN, as tcp_ecn = 1 lets it; "
        f"{describe_runs(values['n'], seconds=list_durations(found, 'dualpi2'))} (bars)",
    ).set_width(WIDTH)


def format_dualpi2_table(found: Evidence) -> str:
    """Return goodput and mean time in queue of the three flows."""
    rows = [
        [MASKS[mask], f"{rtt:g}", version, *cells]
        for (mask, rtt, version), cells in _format_three(_select_shown(found), ["mask", "rtt", "version"])
    ]
    rows.sort(key=lambda row: (row[0], float(row[1]), FIRST.index(row[2])))
    return align_table(["", "RTT, ms", "first flow", "its Mbit/s; queue", "Prague", "CUBIC"], rows, words=(0, 1, 2))


def format_answers_table(found: Evidence) -> str:
    """Return the same with parts of BBR's answer to ECN changed."""
    rows = [
        [version, changed, *cell]
        for (version, changed), cell in _format_three(found["answers"], ["version", "changed"])
    ]
    return align_table(["first flow", "changed", "its Mbit/s; queue", "Prague", "CUBIC"], rows, words=(0, 1))


def _format_three(rows: pl.DataFrame, keys: list[str]) -> list[tuple[Any, list[str]]]:
    """Return goodput and mean time in queue of three flows as text, by what tells the runs apart."""
    values = compute_means(
        rows.with_columns(order_names("role", list(ROLES))), [*keys, "role"], "goodput_mbit", "queue_ms"
    )
    return [
        (key, [f"{row['goodput_mbit']:.1f}; {row['queue_ms']:.2g} ms" for row in part.iter_rows(named=True)])
        for key, part in values.group_by(keys, maintain_order=True)
    ]
