"""Prague against CUBIC and Reno in one queue of RFC 3168, from classic-*.toml."""

from typing import Any

import polars as pl
import polars.selectors as cs

from dumbbell.study import (
    Evidence,
    Picture,
    Results,
    Rows,
    Series,
    Sweep,
    align_table,
    choose_title,
    count_seeds,
    describe_runs,
    draw_means,
    figures,
    make_grid,
    order_names,
)

QUESTION = "What does Prague leave to CUBIC and Reno in one classic queue?"
GALLERY = {
    "classic-map": "l4s-classic-rate",
    "classic-published": "l4s-classic-ratios",
    "classic-time": "l4s-classic-time",
}
RUNS = (
    Sweep("l4s-classic.duckdb", ("classic-*",)),
    Sweep("l4s-classic-linux.duckdb", ("classic-dctcp",), engine="linux"),
)
# versions, headings, what is in the figures, formulas and the published set-up
NAMES = (
    *(r"(?:of|\() ?0\.[57]\b", r"W is about 2", r"1/√p", r"August 2020"),
    *(r"six queues", r"of two CUBIC flows", r"a third CUBIC flow", r"mean of 40 s", r"eight seeds"),
    *(r"never starts the timer", r"[Ss]cenario [56]", r"Section [34]", r"of two starts"),
)

# throughput of Prague and of the other flow in Mbit/s at 50 Mbit/s, 20 ms: github.com/heistp/l4s-tests e21cd91,
# README, "Scenario 6 Fairness Table"; one run each
PUBLISHED = {
    ("CUBIC", True): [(45.70, 1.94), (45.94, 1.68), (45.69, 1.98), (45.41, 2.23), (45.93, 1.69), (45.62, 2.05)],
    ("CUBIC", False): [(45.81, 1.81), (45.76, 1.83), (45.57, 2.01), (45.63, 2.00), (46.02, 1.57), (45.80, 1.81)],
    ("Reno", True): [(46.60, 1.10), (46.34, 1.25), (46.94, 0.78), (45.86, 1.77), (45.86, 1.73), (45.90, 1.80)],
    ("Reno", False): [(46.49, 1.17), (46.01, 1.59), (46.67, 0.96), (46.36, 1.32), (46.27, 1.34), (45.74, 1.87)],
}
QUEUES = ("fq_codel, 1 queue", "fq_codel, 1 queue, 1 ms", "PIE", "PIE, 5 ms, 100 packets", "RED, 150 kB", "RED, 400 kB")
AGREES = 1.25  # a published ratio agrees if it lies within the seeds' range, widened by this factor
CONTROLS = {"cubic": "CUBIC", "reno": "Reno", "prague": "Prague", "dctcp": "DCTCP"}
HOSTS_AS_ABOVE = "as above"
HOSTS = {
    ("linux-6.12", "tso", "polling", "auto"): HOSTS_AS_ABOVE,
    ("linux-5.4", "tso", "polling", "auto"): "hosts of Linux 5.4",
    ("linux-6.12", "gso", "polling", "auto"): "bursts stay together",
    ("linux-6.12", "tso", "blocking", "auto"): "blocking writes",
    ("linux-6.12", "tso", "polling", "accecn"): "Accurate ECN",
    ("linux-5.4", "gso", "blocking", "accecn"): "all four",
}


MARKS = ("CoDel", "PIE", "CoDel that drops", "PIE that drops", "tail drop", "FQ-CoDel", "DualPI2")


KEYS = {
    "rate": "bottleneck.rate", "rtt": "flows[0].base_rtt", "seconds": "duration", "first": "flows[0].cc.name",
    "second": "flows[1].cc.name", "firsts": "flows[0].count", "others": "flows[1].count",
    "version": "flows[0].cc.version", "ecn": "flows[1].ecn", "ecn_echo": "flows[1].ecn_echo",
    **{name: f"hosts.{name}" for name in ("profile", "offload", "writes")},
    **{f"aqm_{name}": f"bottleneck.aqm.{name}" for name in ("name", "ecn", "flows", "target", "limit", "isolation")},
}  # fmt: skip


def name_queue(aqm: dict[str, Any]) -> str:
    """Return the name of a queue in words; its target is in ms, the limit of RED in bytes."""
    name = aqm["name"]
    if name in ("codel", "pie", "red") and not aqm["ecn"]:
        return f"{ {'codel': 'CoDel', 'pie': 'PIE', 'red': 'RED'}[name] } that drops"
    if name == "fq_codel" and aqm["flows"] == 1:
        return QUEUES[0] if aqm["target"] == 5 else QUEUES[1]
    if name == "pie":
        return QUEUES[2] if aqm["limit"] > 100 else QUEUES[3]
    if name == "red":
        return f"RED, {aqm['limit'] // 1000} kB"
    if name == "cake":
        return f"Cake, {aqm['isolation']}"
    return str({"codel": "CoDel", "pfifo": "tail drop", "fq_codel": "FQ-CoDel", "dualpi2": "DualPI2"}[name])


def collect_pairs(results: Results, engine: str) -> pl.DataFrame:
    """Return one row per run of two classes: shares, signals, windows and times in queue of both."""
    runs = results.tidy("runs", KEYS)
    aqms = [{key[4:]: row[key] for key in KEYS if key.startswith("aqm_")} for row in runs.iter_rows(named=True)]
    hosts = [HOSTS.get(row) for row in runs.select("profile", "offload", "writes", "ecn_echo").iter_rows()]
    first = pl.col("first").replace(CONTROLS)
    runs = runs.select(
        *("key", "experiment", "rate", "rtt", "seconds", "firsts", "seed"),
        pl.col("second").replace(CONTROLS),
        pl.col("ecn").fill_null(True),
        pl.Series("queue", map(name_queue, aqms), dtype=pl.String),
        pl.Series("hosts", hosts, dtype=pl.String),
        first=first,
        version=pl.concat_str([first, "version"], separator=" ", ignore_nulls=True),
        counts=pl.format("{}:{}", "firsts", "others"),
        engine=pl.lit(engine),
    )
    signals = pl.col("ce_marks") + pl.col("drops")
    flows = results.frame("flows").select(
        "key",
        "flow",
        goodput="goodput_mbit",
        signals=signals / (pl.col("packets") + pl.col("drops")),
        marks=pl.col("ce_marks"),
        window="cwnd_mean",
        delay="sojourn_mean_ms",
    )
    which = pl.when(pl.col("flow") < pl.col("firsts")).then(0).when(pl.col("flow") == 2, pl.col("counts") == "1:1")
    sides = flows.join(runs.select("key", "counts", "firsts"), on="key").with_columns(side=which.then(2).otherwise(1))
    means = sides.group_by("key", "side").agg(pl.col("goodput", "signals", "marks", "window", "delay").mean())
    found = runs
    for side in (0, 1, 2):
        of = means.filter(pl.col("side") == side).drop("side")
        renamed = of.rename({name: f"{name}_{side + 1}" for name in of.columns if name != "key"})
        found = found.join(renamed, on="key", how="left")
    both = pl.col("goodput_1") + pl.col("goodput_2")
    return found.with_columns(
        ratio=pl.col("goodput_1") / pl.col("goodput_2"),
        share=pl.col("goodput_2") / both,
        marked=pl.col("marks_1") > 0,  # not if the queue dropped its SYN: one that is sent again asks for no ECN
        per_round_1=pl.col("signals_1") * pl.col("window_1"),
        per_round_2=pl.col("signals_2") * pl.col("window_2"),
    )


def make_evidence(simulated: Results, linux: Results) -> dict[str, pl.DataFrame]:
    """Return what the page rests on; see the columns of `collect_pairs`."""
    pairs = collect_pairs(simulated, "simulator")

    # a run that two experiments have is in the store once, so they are chosen by what they are
    prague, lab = pl.col("first") == "Prague", (pl.col("rate") == 50) & (pl.col("rtt") == 20)
    one_each, short, long = pl.col("counts") == "1:1", pl.col("seconds") == 58, pl.col("seconds") == 100
    newest, three = pl.col("version").is_in(["Prague 0.7", "CUBIC"]), pl.col("seed") <= 3
    queue = pl.col("queue")
    chosen = {
        "published": short & prague & lab & (pl.col("hosts") == HOSTS_AS_ABOVE),
        "hosts": short & (pl.col("version") == "Prague 0.5") & pl.col("ecn") & queue.is_in([QUEUES[0], QUEUES[2]]),
        "map": long & newest & one_each & three & pl.col("ecn") & queue.is_in(["CoDel", "PIE", "RED, 400 kB"]),
        "marks": long & prague & lab & one_each & queue.is_in(MARKS),
        "tunnel": queue.str.starts_with("Cake"),
        "many": long & prague & lab & pl.col("ecn") & (pl.col("second") == "CUBIC") & queue.is_in(["CoDel", "PIE"]),
    }

    def select_pairs(name: str, *columns: str) -> pl.DataFrame:
        rows = pairs.filter(chosen[name]).select(*columns)
        return rows.sort(*(column for column in columns if column not in ("ratio", "share")))

    detail = ("goodput_1", "goodput_2", "signals_1", "signals_2", "per_round_1", "per_round_2", "delay_1", "delay_2")
    published = select_pairs(
        "published", "queue", "version", "second", "ecn", "seed", "ratio", "share", "marked", *detail
    )
    theirs = [
        {"queue": queue, "second": second, "ecn": ecn, "prague_mbit": prague, "other_mbit": other}
        for (second, ecn), values in PUBLISHED.items()
        for queue, (prague, other) in zip(QUEUES, values, strict=True)
    ]
    measured = pl.DataFrame(theirs).with_columns(ratio=pl.col("prague_mbit") / pl.col("other_mbit"))
    dctcp = pl.concat([pairs.filter(pl.col("first") == "DCTCP"), collect_pairs(linux, "Linux")])
    time = pairs.filter(pl.col("experiment") == "classic-time", pl.col("seed") == 1)
    series = simulated.with_keys(time["key"]).frame("series").join(time.select("key", joins="second"), on="key")
    return {
        "published": published,
        "measured": measured,
        "hosts": select_pairs("hosts", "queue", "second", "hosts", "seed", "ratio"),
        "map": select_pairs("map", "queue", "rate", "rtt", "first", "second", "seed", "share", "delay_1"),
        "marks": select_pairs("marks", "queue", "second", "ecn", "seed", "share", "ratio", "marked"),
        "tunnel": select_pairs(
            "tunnel", "queue", "first", "second", "ecn", "seed", "goodput_1", "goodput_2", "goodput_3", "share"
        ),
        "many": select_pairs("many", "queue", "counts", "seed", "goodput_1", "goodput_2", "ratio"),
        "dctcp": dctcp.select("engine", "queue", "second", "seed", "ratio", "share").sort(
            "engine", "queue", "second", "seed"
        ),
        "time": series.select("joins", "flow", "time_s", "goodput_mbit", "srtt_ms").sort("joins", "flow", "time_s"),
    }


def judge_ratios(found: Evidence) -> pl.DataFrame:
    """Return each published ratio against the range of the seeds of each version, and whether they agree."""
    ranges = (
        found["published"]
        .group_by("queue", "second", "ecn", "version")
        .agg(middle=pl.col("ratio").median(), low=pl.col("ratio").min(), high=pl.col("ratio").max())
    )
    both = ranges.join(
        found["measured"].select("queue", "second", "ecn", theirs="ratio"), on=["queue", "second", "ecn"]
    )
    within = pl.col("theirs").is_between(pl.col("low") / AGREES, pl.col("high") * AGREES)
    return both.with_columns(agrees=within, off=pl.col("theirs") / pl.col("middle")).sort(
        "second", "ecn", "queue", "version"
    )


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return what the template asks for in addition to the tables."""
    medians = found["map"].group_by("queue", "rate", "rtt", "first", "second").agg(pl.col("share", "delay_1").median())
    held = judge_ratios(found).pivot("version", index=["second", "ecn", "queue"], values="middle")
    oldest = held.with_columns(ratio=pl.col("Prague 0.5") / pl.col("Prague 0.7"))
    return {
        "oldest": Rows("oldest", oldest),
        "verdicts": Rows("verdicts", judge_ratios(found)),
        "map_median": Rows("map_median", medians),
        "agrees_at": AGREES,
    }


def format_published(found: Evidence) -> str:
    """Return the ratios next to the published ones."""
    rows = []
    of = {(r["queue"], r["second"], r["ecn"], str(r["version"])): r for r in judge_ratios(found).iter_rows(named=True)}
    versions = sorted({key[3] for key in of}, reverse=True)
    for second, ecn in PUBLISHED:
        for queue in QUEUES:
            cells = [of[queue, second, ecn, version] for version in versions]
            shown = [f"{c['middle']:.0f} ({c['low']:.0f} to {c['high']:.0f})" for c in cells]
            verdict = ["yes" if c["agrees"] else f"no: {c['off']:.1f} times" for c in cells]
            name = f"{second}, {'ECN' if ecn else 'no ECN'}"
            rows.append([name, queue, f"{cells[0]['theirs']:.0f}", *shown, verdict[0], verdict[-1]])
    head = ["against Prague", "queue", "published", *versions]
    return align_table([*head, f"{versions[0]} agrees", f"{versions[-1]} agrees"], rows, words=(0, 1, 6, 7))


def _spread(frame: pl.DataFrame, *by: str, value: str = "ratio") -> pl.DataFrame:
    col = pl.col(value)
    return frame.group_by(by, maintain_order=True).agg(col.median(), low=col.min(), high=col.max())


def _format_range(row: dict[str, Any]) -> str:
    return f"{row['ratio']:.0f} ({row['low']:.0f} to {row['high']:.0f})"


def format_hosts_table(found: Evidence) -> str:
    """Return what each part of the published set-up does to the ratio."""
    ranges = _spread(found["hosts"], "hosts", "queue", "second").sort(order_names("hosts", HOSTS.values()))
    placed = ranges.with_columns(place=pl.format("{}: {}", "queue", "second"))
    places = [f"{queue}: {second}" for queue in (QUEUES[0], QUEUES[2]) for second in ("CUBIC", "Reno")]
    rows = make_grid(placed, ["hosts"], "place", places, _format_range)
    return align_table(["hosts", f"{QUEUES[0]}: CUBIC", "Reno", "PIE: CUBIC", "Reno"], rows, words=(0,))


def format_marks_table(found: Evidence) -> str:
    """Return the share of the classic flow by queue, with and without ECN of its own."""
    ecn = pl.when("ecn").then(pl.lit("ECN")).otherwise(pl.lit("no ECN"))
    shares = found["marks"].with_columns(place=pl.format("{}, {}", "second", ecn), ratio=100 * pl.col("share"))
    ranges = _spread(shares, "queue", "place").sort(order_names("queue", MARKS))
    places = ["CUBIC, ECN", "CUBIC, no ECN", "Reno, ECN", "Reno, no ECN"]
    return align_table(["queue", *places], make_grid(ranges, ["queue"], "place", places, _format_range), words=(0,))


def format_signals_table(found: Evidence) -> str:
    """Return signals per packet and per round trip of both flows, medians over seeds."""
    rows = []
    chosen = found["published"].filter(pl.col("version") == "Prague 0.7", pl.col("ecn"), pl.col("second") == "CUBIC")
    means = chosen.group_by("queue", maintain_order=True).agg(cs.numeric().median())
    of = {row["queue"]: row for row in means.iter_rows(named=True)}
    for queue in QUEUES:
        r = of[queue]
        cells = [f"{100 * r['signals_1']:.1f}", f"{100 * r['signals_2']:.1f}"]
        rows.append([queue, *cells, f"{r['per_round_1']:.1f}", f"{r['per_round_2']:.2f}", f"{r['delay_1']:.1f}"])
    head = [
        "queue",
        "Prague: marked, %",
        "CUBIC: marked, %",
        "Prague: marks a round trip",
        "CUBIC",
        "time in queue, ms",
    ]
    return align_table(head, rows, words=(0,))


def format_tunnel_table(found: Evidence) -> str:
    """Return goodput in and outside of the tunnel."""
    rows = []
    means = (
        found["tunnel"]
        .filter(pl.col("ecn"))
        .group_by("queue", "first", "second", maintain_order=True)
        .agg(cs.numeric().mean())
    )
    names = {"Cake, srchost": "tunnel", "Cake, flows": "no tunnel"}
    for r in means.sort("queue", "first", "second", descending=[True, True, False]).iter_rows(named=True):
        cells = [f"{r[f'goodput_{side}']:.1f}" for side in (1, 2, 3)]
        rows.append([names[r["queue"]], f"{r['first']}, {r['second']}", *cells])
    return align_table(["", "inside", "first, Mbit/s", "second", "CUBIC outside"], rows, words=(0, 1))


def format_dctcp_table(found: Evidence) -> str:
    """Return the ratio of DCTCP to a classic flow on Linux and in the simulator."""
    ranges = _spread(found["dctcp"], "queue", "second", "engine")
    engines = ("simulator", "Linux")
    rows = make_grid(
        ranges, ["second", "queue"], "engine", engines, lambda row: f"{row['low']:.1f} to {row['high']:.1f}"
    )
    return align_table(["against DCTCP", "queue", "simulator", "Linux 6.12"], rows, words=(0, 1))


def draw_by_rate(found: Evidence) -> Picture:
    """Draw the share of the classic flow over the rate."""
    chosen = found["map"].filter(pl.col("second") == "CUBIC", pl.col("rtt").is_in([5.0, 20.0, 100.0]))
    shown = chosen.with_columns(
        against=pl.format("against {}", "first").cast(pl.Enum(["against Prague", "against CUBIC"])),
        at=pl.format("{} ms", pl.col("rtt").cast(pl.Int64)).cast(pl.Enum(["5 ms", "20 ms", "100 ms"])),
        share=100 * pl.col("share"),
    )
    counts = count_seeds(shown, "queue", "at", "against", "rate")
    medians = _spread(shown, "queue", "at", "against", "rate", value="share").sort("queue", "at", "against", "rate")

    def find_answer() -> str:
        rows = Rows("medians", medians)
        prague, cubic = (rows(against=f"against {rival}").share.median for rival in ("Prague", "CUBIC"))
        shares = f"{prague:.0f} % against Prague, {cubic:.0f} % against CUBIC"
        return f"In one queue with ECN CUBIC gets {shares} (median of all)"

    return draw_means(
        medians,
        "rate",
        "share",
        by="against",
        facet=["queue", "at"],
        log_x=True,
        x_label="rate of the link, Mbit/s",
        y_label="CUBIC's share, %",
        title=choose_title(find_answer, "What CUBIC gets in one queue with ECN")
        + f"\nA row for each queue, a column for each base RTT; {describe_runs(counts, 'median', what='seed')}",
    ).name_lines(solid=True)


def draw_ratios(found: Evidence) -> Picture:
    """Draw simulated and published ratios by queue."""
    sources = [f"Prague {version}" for version in ("0.7", "0.6", "0.5")]
    ours = found["published"].with_columns(source=pl.col("version"))
    measured = found["measured"].select("queue", "second", "ecn", theirs="ratio", source=pl.lit(sources[-1]))
    both = _spread(ours, "queue", "second", "ecn", "source").join(
        measured, on=["queue", "second", "ecn", "source"], how="left"
    )
    names = {True: "with ECN", False: "without ECN"}

    def find_answer() -> str:
        simulated, theirs = Rows("ratios", both).ratio, Rows("measured", measured).theirs
        answer = f"Prague gets {simulated.min:.0f} to {simulated.max:.0f} times a classic flow's goodput"
        if Rows("verdicts", judge_ratios(found)).off.min > 0.9:
            answer += f", and {theirs.min:.0f} to {theirs.max:.0f} times in measurements"
        return answer

    return figures.dots(
        both.with_columns(
            order_names("queue", QUEUES),
            source=pl.col("source").cast(pl.Enum(sources)),
            against=pl.format("against {} {}", "second", pl.col("ecn").replace_strict(names, return_dtype=pl.String)),
        ).sort("against", "queue", "source"),
        "queue",
        "ratio",
        low="low",
        high="high",
        by="source",
        reference="theirs",
        reference_name="measured in 2020, with Prague 0.5",
        facet="against",
        columns=2,
        log_x=False,
        x_label="Prague's goodput / classic flow's",
        title=choose_title(find_answer, "Prague against a classic flow") + "\nOne queue with ECN, 50 Mbit/s, 20 ms; "
        f"{describe_runs(count_seeds(ours, 'queue', 'second', 'ecn', 'source'), 'median', what='seed')}",
    )


def draw_over_time(found: Evidence) -> Picture:
    """Draw goodput and RTT of two CUBIC flows that Prague, or a third CUBIC flow, joins."""
    joins, stops = 30.0, 90.0
    columns = [f"{rival} joins two CUBIC flows" for rival in ("Prague", "CUBIC")]
    third = pl.when(pl.col("joins") == "Prague").then(pl.lit("Prague")).otherwise(pl.lit("CUBIC 3"))
    shown = (
        found["time"]
        .filter((pl.col("flow") != 2) | pl.col("time_s").is_between(joins, stops + 1, closed="right"))
        .with_columns(
            srtt_ms=pl.col("srtt_ms").replace(0.0, None),  # before the first ACK
            who=pl.when(pl.col("flow") == 2).then(third).otherwise(pl.format("CUBIC {}", pl.col("flow") + 1)),
            shown=pl.format("{} joins two CUBIC flows", "joins").cast(pl.Enum(columns)),
        )
    )
    during = Rows("third", found["time"].filter(pl.col("flow") == 2, pl.col("time_s").is_between(joins + 10, stops)))

    def find_answer() -> str:
        prague, cubic = (during(joins=control).goodput_mbit.mean for control in ("Prague", "CUBIC"))
        return f"Prague takes {prague:.0f} of 50 Mbit/s from two CUBIC flows, a third CUBIC flow takes {cubic:.0f}"

    picture = figures.stacked_series(
        [
            Series(shown, "goodput_mbit", "who", "goodput, Mbit/s"),
            Series(shown, "srtt_ms", "who", "smoothed RTT, ms"),
        ],
        columns="shown",
        marks=[(joins, "joins"), (stops, "stops")],
        title=choose_title(find_answer, "Prague joins two CUBIC flows")
        + "\nOne queue of fq_codel with ECN, 50 Mbit/s, 20 ms; one seed",
    )
    picture.entries.clear()
    colours = {}
    for (_, row), axes in picture.panels.items():
        for line in axes.lines:
            if (name := str(line.get_label())) in ("Prague", "CUBIC 1", "CUBIC 2", "CUBIC 3"):
                line.set(linestyle="-", linewidth=1.6 if name == "Prague" else 0.9)
                line.set_zorder(3 if name == "Prague" else 2)
                colours[name] = str(line.get_color())
        if row == 1:
            axes.set_ylim(bottom=20)  # the base RTT
    for number, text, height, name in (
        (0, "Prague", 37, "Prague"),
        (0, "two CUBIC flows", 9, "CUBIC 1"),
        (1, "three CUBIC flows", 33, "CUBIC 1"),
    ):
        place = ((joins + stops) / 2, height)
        figures.write_in(picture, (columns[number], 0), text, place, colour=colours[name], ha="center")
    return picture.arrange()


FIGURES = {"l4s-classic-ratios": draw_ratios, "l4s-classic-rate": draw_by_rate, "l4s-classic-time": draw_over_time}
TABLES = {
    "published": format_published,
    "hosts": format_hosts_table,
    "marks": format_marks_table,
    "signals": format_signals_table,
    "tunnel": format_tunnel_table,
    "dctcp": format_dctcp_table,
}
