"""The runs that Flent made of RRUL, and the same in the simulator: one row per run of Flent."""

from typing import Any

import polars as pl

from dumbbell.published import by_way
from dumbbell.study import Evidence, Results, align_table, order_names, shipped

REFERENCE = "flent-rrul"
LATE_S = 10  # of `late_down_mbit` in the reference
# beginning of what tc says of the way up → name
QUEUES = {
    "codel": "CoDel",
    "pie": "PIE",
    "fq_codel": "FQ-CoDel",
    "cake besteffort flowblind": "Cake, flowblind",
    "cake besteffort flows": "Cake, besteffort",
    "cake diffserv4 flows": "Cake, diffserv4",
    "cake": "Cake",
    "cake ack-filter": "Cake, ack-filter",
    "cake ack-filter-aggressive": "Cake, ack-filter-aggressive",
}
# measure → column of the reference
_FLENT = {
    "down": "goodput_down_mbit",
    "late": "late_down_mbit",
    "up": "goodput_up_mbit",
    "p50": "ping_p50_ms",
    "p99": "ping_p99_ms",
}


def _describe_runs(results: Results) -> pl.DataFrame:
    """Return for each run what Flent would say of it, and the share of its pings that were lost."""
    flows = results.flows
    down = flows.filter((pl.col("cc") != "ping") & (pl.col("direction") == "down")).select("key", "flow")
    series = results.series.filter(pl.col("time_s") > LATE_S).join(down, on=["key", "flow"])
    late = series.group_by("key", "time_s").agg(pl.col("goodput_mbit").sum())
    late = late.group_by("key").agg(late=pl.col("goodput_mbit").mean())
    pings = flows.filter(cc="ping").select("key", lost=1 - pl.col("answers") / pl.col("sent"))
    measured = by_way.collect_measures(flows)
    rows = [
        {"key": key} | {name: found[column] for name, column in _FLENT.items() if column in found}
        for key, found in measured.items()
    ]
    return pl.DataFrame(rows).join(late, on="key").join(pings, on="key")


def make_evidence(results: Results) -> pl.DataFrame:
    """Return a row per run of Flent: its set-up, and of each measure Flent's figure and the simulator's mean."""
    path = shipped.list_references()[REFERENCE]
    published = pl.read_csv(path)
    figures = by_way.read(path)
    cells = {figure.table: figure.cell for figure in figures}
    keys = by_way.find_answers(results.runs, cells.values())
    runs = _describe_runs(results)
    rows = []
    for one in published.iter_rows(named=True):
        same = runs.filter(pl.col("key").is_in(keys[cells[one["time"]]]))
        row: dict[str, Any] = {
            "source": one["source"],
            "time": one["time"],
            "queue": QUEUES[max((words for words in QUEUES if one["qdisc_up"].startswith(words)), key=len)],
            "rate": f"{one['rate_mbit']:g}/{one['up_mbit']:g}",
            "rtt": one["delay_ms"],
            "ecn": "on" if one["ecn"] else "off",
            "pacing": "both" if one["pacing"] == "fq" else "none",
            "offloads": one["offloads"] or "-",
            "seeds": same.height,
            "idle_flent": one["idle_ms"],
        }
        for name, column in _FLENT.items():
            row |= {name: same[name].mean(), f"{name}_flent": float(one[column])}
        row |= {"lost": same["lost"].mean(), "lost_flent": 1 - one["answered"] / one["pings"]}
        rows.append(row)
    order = order_names("queue", QUEUES.values())
    return pl.DataFrame(rows).sort("source", order, "rtt", "ecn", "pacing", "offloads", descending=[True] + [False] * 5)


def format_table(found: Evidence) -> str:
    """Return every run of Flent and its like, simulated / Flent."""
    rows = []
    for r in found["flent"].iter_rows(named=True):

        def format_pair(name: str, places: int, scale: float = 1.0, r: dict[str, Any] = r) -> str:
            return f"{scale * r[name]:.{places}f} / {scale * r[f'{name}_flent']:.{places}f}"

        shown = [
            format_pair("down", 1),
            format_pair("late", 1),
            format_pair("up", 2),
            format_pair("p50", 1),
            format_pair("p99", 1),
            format_pair("lost", 1, 100),
        ]
        rows.append([r["queue"], r["rate"], f"{r['rtt']:g}", r["ecn"], r["pacing"], r["offloads"], *shown])
    head = ["queue", "link, Mbit/s", "RTT, ms", "ECN", "paced", "router's offloads"]
    head += ["down, Mbit/s", f"down after {LATE_S} s", "up, Mbit/s", "ping P50, ms", "ping P99, ms", "pings lost, %"]
    return align_table(head, rows, words=(0, 1, 3, 4, 5))
