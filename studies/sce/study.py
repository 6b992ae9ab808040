"""What the page on the SCE draft's open questions rests on: experiments/findings-*.toml."""

from typing import Any

import polars as pl

from dumbbell.study import (
    Evidence,
    Picture,
    Results,
    Rows,
    Series,
    Sweep,
    align_table,
    describe_runs,
    figures,
    list_members,
    map_names,
    order_names,
)

QUESTION = "Why is a link with SCE idle at low rates, and the RTT higher; when is it unfair?"
GALLERY = {
    "findings-fair-parts": "sce-fair-parts",
    "findings-parts": "sce-parts",
    "findings-rtt": "sce-rtt",
    "findings-trains": "sce-trains",
    "findings-window": "sce-window",
}
ALSO_DRAWN = {"sce-fair": "findings-fair-pair"}
RUNS = (Sweep("sce-questions.duckdb", ("findings-*",)),)
NAMES = (r"2/\(W\+2\)", r"1/\(1\+√W\)")
EXPERIMENTS = (
    *("trains", "window", "scale", "parts", "ramp", "defer", "rtt", "rtt-bursts"),
    *("fair-pair", "fair-alone", "fair-parts", "fair-target", "fair-alone-parts"),
)
PLACE = (
    *("experiment", "cc", "divisor", "rate", "rtt", "target", "ramp", "pacing", "delayed_ack", "feedback", "prr"),
    *("offload", "seconds"),
)
MEASURES = (
    *("utilisation", "goodput", "flow_goodput", "jain", "sojourn", "sojourn_max", "cwnd_mean", "srtt", "beyond"),
    *("packets", "sce_marks"),
)
PAYLOAD = 1448 / 1514  # goodput of a link that is full of full frames
SCE = {"dctcp-sce": "DCTCP-SCE", "reno-sce": "Reno-SCE", "dctcp": "DCTCP", "reno": "Reno"}
CHANGES = ("as published", "paced", "divisor 1448", "both", "target 20 ms")
PACING = {"cc": "not paced", "fq": "paced"}


def make_evidence(results: Results) -> dict[str, pl.DataFrame]:
    """Return the means over seeds of every cell, and two time series."""
    flows = results.frame("flows").filter(pl.col("flow") == 0)
    own = flows.select("key", "cwnd_mean", flow_goodput="goodput_mbit", srtt="rtt_mean_ms")
    rows = (
        _collect_places(results)
        .join(list_members(f"sce/findings-{name}" for name in EXPERIMENTS), on="cell")
        .drop("cell")
    )
    runs = rows.join(own, on="key").with_columns(beyond=pl.col("srtt") - pl.col("rtt"))
    trains = runs.filter(experiment="findings-trains", pacing="cc", delayed_ack=False)
    shown = runs.filter(
        experiment="findings-rtt", seconds=300.0, seed=1, delayed_ack=True, feedback=True, target=5.0
    ).select("key", "cc")
    return {
        "runs": runs.group_by(PLACE).agg(pl.col(MEASURES).mean(), seeds=pl.len()).sort(PLACE),
        "trains": _select_series(results, trains.select("key", "cc"), "backlog_packets", "throughput_mbit").filter(
            pl.col("time_s").is_between(50, 50.4)
        ),
        "sojourn": _select_series(results, shown, "sojourn_mean_ms"),
    }


KEYS = {
    "seconds": "duration", "cc": "flows[0].cc.name", "divisor": "flows[0].cc.mss_divisor",
    "rate": "bottleneck.rate", "rtt": "flows[0].base_rtt", "cake_rtt": "bottleneck.aqm.rtt",
    "sce": "bottleneck.aqm.sce", "sce_thresh": "bottleneck.aqm.sce_thresh", "pacing": "hosts.pacing",
    "delayed_ack": "hosts.delayed_ack", "feedback": "hosts.sce_feedback", "prr": "hosts.prr",
    "offload": "hosts.offload",
}  # fmt: skip


def _collect_places(results: Results) -> pl.DataFrame:
    """Return the runs with what tells them apart, and measures under short names."""
    return results.tidy("runs", KEYS).with_columns(
        target=pl.col("cake_rtt") / 20,  # Cake: a twentieth of what it takes for the RTT
        ramp=pl.format("{} {}", "sce", pl.col("sce_thresh").fill_null(8)),  # the default, without effect on "on"
        goodput="goodput_total_mbit",
        sojourn="sojourn_mean_ms",
        sojourn_max="sojourn_max_ms",
    )


def _select_series(results: Results, runs: pl.DataFrame, *values: str) -> pl.DataFrame:
    table = results.with_keys(runs["key"]).frame("queue_series")
    return table.join(runs, on="key").select("cc", "time_s", *values).sort("cc", "time_s")


def select_means(found: Evidence, experiment: str, *keys: str) -> pl.DataFrame:
    """Return an experiment's cells by the keys that tell them apart."""
    runs = found["runs"].filter(experiment=experiment)
    return runs.group_by(keys).agg(pl.col(MEASURES).mean()).sort(keys)


def select_parts(found: Evidence, experiment: str, **where: Any) -> pl.DataFrame:
    """Return the cells of an experiment that changes one thing at a time, with `part`, what a run changed."""
    frame = select_means(found, experiment, "cc", "divisor", "pacing", "target", "rate", "rtt").filter(**where)
    paced, divided, high = pl.col("pacing") == "fq", pl.col("divisor") == 1448, pl.col("target") == 20
    changed = (
        pl.when(paced & divided)
        .then(pl.lit("both"))
        .when(paced)
        .then(pl.lit("paced"))
        .when(divided)
        .then(pl.lit("divisor 1448"))
        .when(high)
        .then(pl.lit("target 20 ms"))
        .otherwise(pl.lit("as published"))
    )
    return frame.with_columns(part=changed.cast(pl.Enum(CHANGES)))


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return what the template asks for beside the runs: parts by name, pairs with what they have alone."""
    parts, fair = (select_parts(found, name) for name in ("findings-parts", "findings-fair-parts"))
    text = pl.col("part").cast(pl.String)
    ramps = found["runs"].filter(experiment="findings-ramp")["ramp"].unique()
    return {
        "means_of": lambda experiment, *keys: Rows(experiment, select_means(found, experiment, *keys)),
        "ramp_on": next(ramp for ramp in ramps if ramp.startswith("on")),
        "parts": Rows("parts", parts.with_columns(part=text)),
        "fair_parts": Rows("fair_parts", fair.with_columns(part=text)),
        "waits": Rows("waits", collect_waits(found)),
        "predicted": Rows("predicted", predict_fairness(found)),
        "window": Rows("window", select_means(found, "findings-window", "cc", "rate", "rtt", "pacing", "delayed_ack")),
    }


def predict_fairness(found: Evidence) -> pl.DataFrame:
    """Return Jain's index of each pair, and that if the flow took what it takes alone and the other filled the link."""
    keys = ["cc", "rate", "rtt"]
    pair = select_means(found, "findings-fair-pair", *keys)
    alone = select_means(found, "findings-fair-alone", *keys).with_columns(rate=2 * pl.col("rate"))
    both = pair.join(alone.select(*keys, alone="flow_goodput"), on=keys)
    first, second = pl.col("alone"), PAYLOAD * pl.col("rate") - pl.col("alone")
    return both.with_columns(expected=(first + second) ** 2 / (2 * (first**2 + second**2))).with_columns(
        miss=pl.col("jain") - pl.col("expected")
    )


def _pair(
    frame: pl.DataFrame, rows: str, order: tuple[str, ...], column: str, columns: list[float], value: str
) -> list[list[str]]:
    """Return cells "DCTCP-SCE / Reno-SCE" of a value."""
    shown = {(str(r[rows]), r[column], r["cc"]): f"{r[value]:.2f}" for r in frame.iter_rows(named=True)}
    return [
        [name, *(f"{shown[name, one, 'dctcp-sce']} / {shown[name, one, 'reno-sce']}" for one in columns)]
        for name in order
    ]


def format_parts_table(found: Evidence) -> str:
    """Return the utilisation at 80 ms with one change at a time."""
    frame = select_parts(found, "findings-parts", rtt=80.0)
    rates = [1.0, 2.0, 5.0, 10.0, 25.0]
    head = ["80 ms, DCTCP-SCE / Reno-SCE", *(f"{rate:g} Mbit/s" for rate in rates)]
    return align_table(head, _pair(frame, "part", CHANGES, "rate", rates, "utilisation"))


def format_fair_parts_table(found: Evidence) -> str:
    """Return Jain's index of pairs at 80 ms with one change at a time."""
    frame = select_parts(found, "findings-fair-parts", rtt=80.0)
    rates = [2.0, 5.0, 10.0, 20.0]
    head = ["80 ms, DCTCP-SCE / Reno-SCE against CUBIC", *(f"{rate:g} Mbit/s" for rate in rates)]
    return align_table(head, _pair(frame, "part", CHANGES[:4], "rate", rates, "jain"))


def _collect_waits(found: Evidence) -> pl.DataFrame:
    by = ["cc", "part"]
    own = select_parts(found, "findings-fair-parts", rtt=80.0, rate=5.0).select(*by, "flow_goodput")
    for name, experiment, where in (
        ("alone", "findings-fair-alone-parts", {"rtt": 80.0, "rate": 2.5}),
        ("longer", "findings-fair-target", {"target": 7.25}),
        ("longest", "findings-fair-target", {"target": 10.0}),
    ):
        there = select_parts(found, experiment, **where).select(*by, pl.col("flow_goodput").alias(name))
        own = own.join(there, on=by)
    return own.sort(by)


def collect_waits(found: Evidence) -> pl.DataFrame:
    """Return what a flow of 5 Mbit/s and 80 ms takes in the pair, alone at half the rate, and with longer targets."""
    return _collect_waits(found).with_columns(pl.col("part").cast(pl.String)).sort("cc", "part")


def format_alone_parts_table(found: Evidence) -> str:
    """Return the goodput at 5 Mbit/s and 80 ms, in the pair and alone at half the rate, with one change at a time."""
    columns = ("flow_goodput", "alone", "longer", "longest")
    rows = [
        [SCE[row["cc"]], row["part"], *(f"{row[name]:.2f}" for name in columns)]
        for row in _collect_waits(found).iter_rows(named=True)
    ]
    head = ["5 Mbit/s, 80 ms", "changed", "in the pair, Mbit/s", "alone on a link of its share"]
    return align_table([*head, "pair, target 7.25 ms", "pair, target 10 ms"], rows, words=(0, 1))


def scale_table(found: Evidence) -> str:
    """Return the utilisation with rate, RTT and target in proportion, and not."""
    frame = select_means(found, "findings-scale", "cc", "rate", "rtt", "target")
    shown = {(r["rate"], r["rtt"], r["target"], r["cc"]): r["utilisation"] for r in frame.iter_rows(named=True)}
    pipes = [
        (5.0, 80.0, 5.0),
        (10.0, 40.0, 2.5),
        (25.0, 16.0, 1.0),
        (50.0, 8.0, 0.5),
        (50.0, 8.0, 5.0),
        (50.0, 80.0, 0.5),
    ]
    rows = [
        [*(f"{one:g}" for one in pipe), *(f"{shown[*pipe, cc]:.3f}" for cc in ("dctcp-sce", "reno-sce"))]
        for pipe in pipes
    ]
    return align_table(["Mbit/s", "RTT, ms", "target, ms", "DCTCP-SCE", "Reno-SCE"], rows)


def _measure_beyond(frame: pl.DataFrame, **where: Any) -> tuple[float, float] | None:
    own = frame.filter(**where)
    return None if own.is_empty() else (own["beyond"].mean(), own["sojourn"].mean())  # type: ignore[return-value]


def format_rtt_table(found: Evidence) -> str:
    """Return RTT beyond the base RTT and mean sojourn of Reno and Reno-SCE."""
    frame = found["runs"].filter(experiment="findings-rtt", seconds=300.0)
    cases = {
        "delayed ACKs": {"delayed_ack": True, "feedback": True, "target": 5.0},
        "every packet acknowledged": {"delayed_ack": False, "feedback": True, "target": 5.0},
        "without ESCE feedback": {"delayed_ack": True, "feedback": False, "target": 5.0},
        "target 2.5 ms": {"delayed_ack": True, "feedback": True, "target": 2.5},
        "target 10 ms": {"delayed_ack": True, "feedback": True, "target": 10.0},
    }
    rows = []
    for name, where in cases.items():
        plain, sce = (_measure_beyond(frame, cc=cc, **where) for cc in ("reno", "reno-sce"))
        assert plain and sce
        if name == "without ESCE feedback":  # Reno-SCE hears nothing then
            rows.append([name, f"{plain[0]:.2f} ({plain[1]:.2f})", "-", "-"])
            continue
        cells = [f"{one[0]:.2f} ({one[1]:.2f})" for one in (plain, sce)]
        rows.append([name, *cells, f"{sce[0] - plain[0]:+.2f} ({sce[1] - plain[1]:+.2f})"])
    return align_table(["RTT - base RTT (mean time in queue), ms", "Reno", "Reno-SCE", "difference"], rows)


def order_table(found: Evidence) -> str:
    """Return the same of DCTCP-SCE and DCTCP."""
    frame = found["runs"].filter(experiment="findings-rtt", feedback=True, target=5.0)
    rows = []
    for delayed in (True, False):
        for seconds in (300.0, 150.0):
            name = f"{seconds:g} s" + ("" if delayed else ", every packet acknowledged")
            pair = [
                _measure_beyond(frame, cc=cc, delayed_ack=delayed, seconds=seconds) for cc in ("dctcp-sce", "dctcp")
            ]
            rows.append([name, *(f"{one[0]:.2f} ({one[1]:.2f})" for one in pair if one)])
    return align_table(["RTT - base RTT (mean time in queue), ms", "DCTCP-SCE", "DCTCP"], rows)


def format_bursts_table(found: Evidence) -> str:
    """Return what the old PRR and bursts do to the queue of DCTCP."""
    frame = select_means(found, "findings-rtt-bursts", "cc", "prr", "offload")
    names = {
        ("rfc6937", "tso"): "as in the draft's kernel",
        ("rfc6937bis", "tso"): "PRR of Linux 5.15 on",
        ("rfc6937", "none"): "no segmentation offload",
    }
    rows = []
    for place, name in names.items():
        own = {r["cc"]: r for r in frame.filter(prr=place[0], offload=place[1]).iter_rows(named=True)}
        longest = f"{own['dctcp']['sojourn_max']:.1f}"
        rows.append([name, *(f"{own[cc]['srtt']:.2f}" for cc in ("dctcp", "dctcp-sce")), longest])
    return align_table(
        ["hosts", "mean RTT of DCTCP, ms", "of DCTCP-SCE, ms", "longest time in queue of DCTCP, ms"], rows
    )


def format_fair_table(found: Evidence) -> str:
    """Return goodput of DCTCP-SCE in the pair and alone, Jain's index and what was predicted."""
    frame = predict_fairness(found).filter(cc="dctcp-sce")
    rtts = [20.0, 40.0, 80.0, 160.0]
    rows = []
    for (rate,), own in frame.group_by("rate", maintain_order=True):
        by_rtt = {r["rtt"]: r for r in own.iter_rows(named=True)}
        cells = [by_rtt[rtt] for rtt in rtts]
        texts = [f"{c['flow_goodput']:.2f} / {c['alone']:.2f} ({c['jain']:.2f} / {c['expected']:.2f})" for c in cells]
        rows.append([f"{rate:g} Mbit/s", *texts])
    head = "DCTCP-SCE: in the pair / alone, Mbit/s (Jain's index / predicted)"
    return align_table([head, *(f"{rtt:g} ms" for rtt in rtts)], rows)


TABLES = {
    "scale": scale_table,
    "parts": format_parts_table,
    "rtt": format_rtt_table,
    "order": order_table,
    "bursts": format_bursts_table,
    "fair": format_fair_table,
    "fair-parts": format_fair_parts_table,
    "alone-parts": format_alone_parts_table,
}


# Figures


def _name_controls(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(map_names("cc", SCE))


_TRAINS_MS = 220  # drawn: three round trips


def draw_trains(found: Evidence) -> Picture:
    """Draw the backlog of one flow, and a tick for each packet that leaves the queue."""
    frame = found["trains"].with_columns(ms=1000 * (pl.col("time_s") - 50)).filter(pl.col("ms") <= _TRAINS_MS)
    run = found["runs"].filter(experiment="findings-trains", pacing="cc", delayed_ack=False).row(0, named=True)
    # an interval of 1 ms is shorter than the time of a packet on the link: at most one leaves in it
    gone = frame.filter(pl.col("throughput_mbit") > 0)["ms"].to_list()
    picture = figures.stacked_series(
        [Series(frame, "backlog_packets", None, "packets in the queue")],
        x="ms",
        x_label="time from 50 s on, ms",
        title=f"One DCTCP-SCE flow sends in trains, and the link is idle for {100 * (1 - run['utilisation']):.0f} % of "
        f"the run\none flow at {run['rate']:g} Mbit/s and {run['rtt']:g} ms over Cake with SCE, every packet "
        f"acknowledged, seed 1; {_TRAINS_MS} ms of {run['seconds']:g} s",
    )
    [key] = picture.panels
    figures.mark_events(picture, key, gone)
    figures.write_in(picture, key, "packets leave", (49, -0.22))
    picture.panel_size = (2.9, 2.0)  # of one column
    return picture.arrange()


def _describe_cells(found: Evidence, *experiments: str) -> str:
    """Return how many seeds a point is the mean of, and how long their runs are."""
    runs = found["runs"].filter(pl.col("experiment").is_in(experiments))
    return describe_runs(runs["seeds"], spread="", seconds=sorted(set(runs["seconds"])))


def _name_window(frame: pl.DataFrame) -> str:
    """Return what the unpaced window is limited to at the highest rate, if pacing lifts the limit."""
    last = frame.filter(rate=frame["rate"].max(), rtt=frame["rtt"].max())
    wide = dict(last.select("pacing", "cwnd_mean").rows())
    if wide["fq"] > 3 * wide["cc"]:
        where = f"At {last['rate'][0]:g} Mbit/s the window of DCTCP-SCE stays at {wide['cc']:.0f} segments"
        return f"{where}; paced it grows with the RTT"
    return "Window of DCTCP-SCE over the base RTT"


def draw_window(found: Evidence) -> Picture:
    """Draw the mean window over the base RTT."""
    frame = select_means(found, "findings-window", "cc", "rate", "rtt", "pacing", "delayed_ack")
    frame = frame.filter(cc="dctcp-sce", delayed_ack=False)
    shown = frame.with_columns(map_names("pacing", PACING), link=pl.format("{} Mbit/s", pl.col("rate").cast(pl.Int64)))
    picture = figures.lines(
        shown,
        "rtt",
        "cwnd_mean",
        by="pacing",
        facet="link",
        log_x=True,
        x_label="base RTT, ms",
        y_label="mean cwnd, segments",
        title=f"{_name_window(frame)}\none flow over Cake with SCE, every packet acknowledged; "
        f"{_describe_cells(found, 'findings-window')}",
    )
    return picture.name_lines(None, [list(picture.panels)[-1]])


def _name_parts(frame: pl.DataFrame) -> str:
    """Return what as published and with both changes DCTCP-SCE uses of the link where it uses least."""
    own = frame.filter(cc="dctcp-sce").pivot("part", index="rate", values="utilisation")
    worst = own.filter(pl.col("as published") == pl.col("as published").min()).row(0, named=True)
    if worst["both"] > 1.5 * worst["as published"]:
        return (
            f"At {worst['rate']:g} Mbit/s DCTCP-SCE uses {100 * worst['as published']:.0f} % of the link as published, "
            f"{100 * worst['both']:.0f} % with pacing and the right divisor"
        )
    return "Utilisation at 80 ms as published and with one change at a time"


def draw_parts(found: Evidence) -> Picture:
    """Draw the utilisation over the rate with one change at a time."""
    frame = select_parts(found, "findings-parts", rtt=80.0)
    return _stress(
        figures.lines(
            _name_controls(frame),
            "rate",
            "utilisation",
            by="part",
            facet="cc",
            log_x=True,
            x_label="rate, Mbit/s",
            y_label="utilisation",
            title=f"{_name_parts(frame)}\none flow at 80 ms over Cake with SCE; divisor 1448: steps of one segment; "
            f"both: paced and divisor; {_describe_cells(found, 'findings-parts')}",
        )
    )


def _stress(picture: Picture) -> Picture:
    """Draw the lines of what was published thicker than those of changes."""
    for axes in picture.panels.values():
        for line in axes.lines:
            if line.get_label() == CHANGES[0]:
                line.set(linewidth=2.4, markersize=6)
    return picture


def _name_rtt(frame: pl.DataFrame) -> str:
    """Return the mean times in queue of Reno-SCE and Reno from 100 s on, if that of Reno-SCE is much longer."""
    late = dict(frame.filter(pl.col("time_s") > 100).group_by("cc").agg(pl.col("sojourn_mean_ms").mean()).rows())
    if late["reno-sce"] > 2 * late["reno"]:
        return f"From 100 s on Reno-SCE's packets wait {late['reno-sce']:.1f} ms, Reno's {late['reno']:.1f} ms"
    return "Time in queue at 100 Mbit/s and 160 ms"


_WINDOW_S = 5  # over which the time in queue is drawn as a median and a range


def draw_rtt(found: Evidence) -> Picture:
    """Draw the time in queue over time of four controls: medians of 5 s with their ranges."""
    frame = found["sojourn"]
    begins = ((pl.col("time_s") - 1e-6) // _WINDOW_S) * _WINDOW_S + _WINDOW_S / 2
    value = pl.col("sojourn_mean_ms")
    shown = frame.group_by("cc", time_s=begins).agg(value.median(), low=value.min(), high=value.max())
    run = found["runs"].filter(experiment="findings-rtt", seconds=300.0).row(0, named=True)
    picture = figures.lines(
        _name_controls(shown).sort("cc", "time_s"),
        "time_s",
        "sojourn_mean_ms",
        low="low",
        high="high",
        by="cc",
        log_x=False,
        log_y=True,
        bands=True,
        x_label="time, s",
        y_label="mean time in queue, ms",
        title=f"{_name_rtt(frame)}\none flow at {run['rate']:g} Mbit/s and {run['rtt']:g} ms over Cake, each control "
        f"in a run of its own, seed 1; medians and min-max of {_WINDOW_S} s",
    )
    for axes in picture.panels.values():
        for line in axes.lines:
            line.set_linestyle("-")
    return picture.name_lines()


def _name_fair(frame: pl.DataFrame) -> str:
    """Return the smallest share of the rate that the flow gets against CUBIC, if it gets about as little alone."""
    worst = frame.sort(pl.col("flow_goodput") / pl.col("rate")).row(0, named=True)
    pair, alone = (worst[name] / worst["rate"] for name in ("flow_goodput", "alone"))
    if pair < 0.25 and abs(pair - alone) < 0.05:
        least = f"{100 * pair:.0f} % of the link against CUBIC, and {100 * alone:.0f} %"
        return f"At worst DCTCP-SCE gets {least} alone on a link of its share"
    return "DCTCP-SCE against CUBIC under fair queueing, and alone on a link of its share"


def draw_fair(found: Evidence) -> Picture:
    """Draw the goodput of DCTCP-SCE in the pair and alone."""
    frame = predict_fairness(found).filter(cc="dctcp-sce")
    wheres = ("against CUBIC", "alone on a link of its share")
    long = pl.concat(
        [
            frame.select("rate", "rtt", goodput=pl.col(name) / pl.col("rate"), where=pl.lit(where))
            for name, where in zip(("flow_goodput", "alone"), wheres, strict=True)
        ]
    ).with_columns(order_names("where", wheres), link=pl.format("{} Mbit/s", pl.col("rate").cast(pl.Int64)))
    picture = figures.lines(
        long,
        "rtt",
        "goodput",
        by="where",
        facet="link",
        log_x=True,
        x_label="base RTT, ms",
        y_label="goodput / rate",
        title=f"{_name_fair(frame)}\ntwo flows over Cake with SCE and fair queueing, or one; "
        f"{_describe_cells(found, 'findings-fair-pair', 'findings-fair-alone')}",
    )
    picture.draw_level(PAYLOAD / 2, dashes="--")
    for key in picture.panels:
        end = float(max(long["rtt"])), PAYLOAD / 2
        figures.write_in(picture, key, "half of the link", end, move=(0, -6), ha="right")
    return picture.arrange()


def _name_fair_parts(frame: pl.DataFrame) -> str:
    """Return where changes bring fairness back, if they do at 10 Mbit/s and not at 5 Mbit/s."""
    own = frame.filter(cc="dctcp-sce").pivot("part", index="rate", values="jain")
    ten, five = (own.filter(rate=rate).row(0, named=True) for rate in (10.0, 5.0))
    if ten["as published"] < 0.85 < 0.95 < ten["paced"] and max(five[part] for part in CHANGES[1:4]) < 0.85:
        return "Pacing makes DCTCP-SCE fair to CUBIC at 10 Mbit/s; at 5 Mbit/s none of these changes does"
    return "Jain's index against CUBIC at 80 ms, as published and with each change"


def draw_fair_parts(found: Evidence) -> Picture:
    """Draw Jain's index over the rate with one change at a time."""
    frame = select_parts(found, "findings-fair-parts", rtt=80.0)
    return _stress(
        figures.lines(
            _name_controls(frame),
            "rate",
            "jain",
            by="part",
            facet="cc",
            log_x=True,
            x_label="rate, Mbit/s",
            y_label="Jain's index",
            title=f"{_name_fair_parts(frame)}\none flow of SCE and one of CUBIC at 80 ms over Cake; divisor 1448: "
            f"steps of one segment; both: paced and divisor; {_describe_cells(found, 'findings-fair-parts')}",
        )
    )


FIGURES = {
    "sce-trains": draw_trains,
    "sce-window": draw_window,
    "sce-parts": draw_parts,
    "sce-rtt": draw_rtt,
    "sce-fair": draw_fair,
    "sce-fair-parts": draw_fair_parts,
}
