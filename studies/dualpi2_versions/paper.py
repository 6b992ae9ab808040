"""Figures and tables of DualPI2 as its authors' reports have them, from its experiments.

Three reports: the schedulers of July 2019 (time-shifted FIFO, WRR by packets, WRR by bytes), the refactoring commits
after it, and the evaluation of 2021. Their figures are A.1 to A.5 (equal RTT), B.1 and B.2 (mixed RTT) and C.1
(overload).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell import results
from dumbbell.published import by_class
from dumbbell.published.compare import select_alike
from dumbbell.published.variants import list_left_out, require_alike
from dumbbell.results.columns import COLUMNS
from dumbbell.study import (
    Nothing,
    Picture,
    Unreadable,
    align_table,
    compute_intervals,
    explain_bins,
    figures,
    format_counts,
    format_half,
    format_number,
    make_grid,
)

SCALABLE = ("dctcp", "prague")  # what goes to the L queue
# report → what it is about, and its versions of DualPI2 under the names that it has for them
REPORTS: dict[str, tuple[str, dict[str, str]]] = {
    "schedulers": (
        "Schedulers of DualPI2, 2019: DCTCP against others",
        {"tsfifo": "DUALPI2 (tsfifo)", "wrr": "DUALPI2WRR", "wrrb": "DUALPI2WRRB"},
    ),
    "commits": (
        "Refactoring commits of DualPI2, 2019: DCTCP against others",
        {"0952823": "commit 0952823", "cbd8653": "commit cbd8653", "4e82fd8": "commit 4e82fd8"},
    ),
    "2021": ("Evaluation of DualPI2, 2021: TCP Prague against others", {"linux-5.10": "DualPI2 of 2021"}),
}
_EVALUATION = "2021"
_REPORT_OF = {version: report for report, (_, versions) in REPORTS.items() for version in versions}
LOADS = ("1-1", "1h-1h")  # one flow in each class; the same with short flows in both
MIXED_MBIT = 40.0  # captions of B.1 and B.2
COUNTS_MBIT, COUNTS_MS = 40.0, 10.0  # of A.4
CCDF_MBIT, CCDF_MS = 120.0, 10.0  # of A.5
SHORT_MBIT = 40.0
_SIZES_KB = (1, 3, 10, 30, 100, 300)  # where ranges of sizes begin
FEWEST_SHORT = 10  # short flows of one size; of fewer a mean says little
_LEAST_MS = 0.01  # where the logarithmic axis of delays begins

RATIO, WINDOW_RATIO, USE = "ratio of rates", "ratio of windows", "utilisation, %"
DELAYS = ("L, mean", "L, P99", "C, mean", "C, P99")
SIGNALS = ("L, marks", "L, drops", "C, marks", "C, drops")
RATES = ("L, rate", "C, rate")
NORMALISED = ("L, normalised rate", "C, normalised rate", "L, normalised window", "C, normalised window")
_OF_RUN = {RATIO: ("rate_ratio", 1.0), WINDOW_RATIO: ("window_ratio", 1.0), USE: ("utilisation", 100.0)}
_OF_CLASS = {
    "mean": ("sojourn_mean_ms", 1.0),
    "P99": ("sojourn_p99_ms", 1.0),
    "marks": ("mark_share", 100.0),
    "drops": ("drop_share", 100.0),
    "rate": ("throughput_mbit", 1.0),
    "normalised rate": ("relative_throughput", 1.0),
    "normalised window": ("normalised_window", 1.0),
}
# statistics of the files of the evaluation → measures of a class
_PUBLISHED = {
    "queue_delay_ms mean": "mean",
    "queue_delay_ms p99": "P99",
    "mark_pct mean": "marks",
    "drop_pct mean": "drops",
    "rate_per_flow_mbit mean": "rate",
}
_PLACE = ["report", "version", "cc", "load", "rate", "rtt_l", "rtt_c", "flows_l", "flows_c", "udp", "udp_in"]


def describe(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the place of a run in the reports; None if it has none."""
    config = json.loads(row["config"])
    aqm, flows, udp = config["bottleneck"]["aqm"], config["flows"], config["udp"]
    report = _REPORT_OF.get(aqm.get("version", "")) if aqm["name"] == "dualpi2" else None
    sides = {side: [f for f in flows if (f["cc"]["name"] in SCALABLE) == (side == "l")] for side in "lc"}
    own = {f["cc"]["name"] for f in sides["l"]}
    if report is None or max(map(len, sides.values())) > 1 or own - {"prague" if report == _EVALUATION else "dctcp"}:
        return None
    if not flows or len(udp) > 1 or len(config["web"]) not in (0, 2):
        return None
    place: dict[str, Any] = {"report": report, "version": REPORTS[report][1][aqm["version"]]}
    place["cc"] = sides["c"][0]["cc"]["name"] if sides["c"] else "-"
    place["load"] = LOADS[bool(config["web"])]
    place["rate"] = config["bottleneck"]["rate"] / 1e6
    for side, of in sides.items():
        place[f"rtt_{side}"] = of[0]["base_rtt"] / 1e6 if of else 0.0
        place[f"flows_{side}"] = of[0]["count"] if of else 0
    place["udp"], place["udp_in"] = by_class.describe_udp(config)
    place["udp_in"] = {"a": "L", "b": "C"}.get(place["udp_in"], "")
    return {"key": row["key"], "seed": row["seed"], "hash": row["hash"]} | place


class Results:
    """Runs of its experiments: where each belongs, and what was measured.

    One run may belong to several figures. `measured` has one row per place and measure: mean over seeds (`value`) with
    its 95 % interval, and what was `published` if `reference` names a file of the evaluation of 2021.
    """

    def __init__(self, source: str | Path | results.StoredResults, reference: str | Path | None = None) -> None:
        found = results.StoredResults.open_source(source)
        rows = {row["key"]: row for row in found.runs.iter_rows(named=True)}
        described = [one for row in rows.values() if (one := describe(row))]
        if not described:
            raise Nothing("no run of these reports", "results of experiments of dualpi2-versions", file=found.path)
        self.notes = found.notes
        self.runs = pl.DataFrame(described, infer_schema_length=None)
        self.notes = [*list_left_out(found, self.runs["key"]), *self.notes]
        for place, part in self.runs.group_by(_PLACE):
            select_alike(
                [rows[key] for key in part["key"]], ", ".join(str(value) for value in place if value not in ("", 0.0))
            )
        require_alike(found.runs.filter(pl.col("key").is_in(self.runs["key"].implode())))
        kept = found.with_keys(self.runs["key"])
        self._tables = {name: kept.frame(name) for name in ("classes", "flows", "short_flows", "sojourn")}
        self._tables["runs"] = found.runs
        self.published = reference is not None
        self.measured = self._collect_measured()
        if reference is not None:
            self.measured = self.measured.join(_read_statistics(reference), on=[*_KNOWN, "what"], how="left")
        else:
            self.measured = self.measured.with_columns(published=pl.lit(None, dtype=pl.Float64))

    def select_table(self, name: str) -> pl.DataFrame:
        """Return the rows of a table with the places of their runs; of classes, with `side`, L or C."""
        rows = self._tables[name].join(self.runs, on="key", suffix="_of_run")
        if "class" not in rows.columns:
            return rows
        of_class = self._tables["classes"].select("key", "class", "kind", side=_find_side("cc"))
        return rows.drop("kind", strict=False).join(of_class, on=["key", "class"])

    def _collect_measured(self) -> pl.DataFrame:
        every = self.runs.join(stack_values(self._tables["runs"], self._tables["classes"]), on="key")
        return compute_intervals(every, [*_PLACE, "what"], "value")

    def list_reports(self) -> list[str]:
        """Return the reports that there are runs of."""
        return [report for report in REPORTS if report in self.runs["report"]]

    def select_report(self, report: str, kind: str) -> pl.DataFrame:
        """Return what was measured in one report's experiments of a kind: equal, mixed, overload, ten, same."""
        return self.measured.filter(pl.col("report") == report, _KINDS[kind])


def stack_values(runs: pl.DataFrame, classes: pl.DataFrame) -> pl.DataFrame:
    """Return what was measured in each run, one value per row: `key`, `what`, `value`; of classes only long flows."""
    of_runs = runs.select("key", *(pl.col(c) * by for c, by in _OF_RUN.values()))
    of_runs = of_runs.rename({column: what for what, (column, _) in _OF_RUN.items()}).unpivot(index="key")
    named = {what: pl.col(column) * by for what, (column, by) in _OF_CLASS.items()}
    long_flows = classes.filter(pl.col("kind") == "flows").select("key", side=_find_side("cc"), **named)
    of_classes = long_flows.unpivot(index=["key", "side"])
    of_classes = of_classes.select("key", pl.format("{}, {}", "side", "variable").alias("variable"), "value")
    every = pl.concat([of_runs, of_classes]).rename({"variable": "what"})
    return every.with_columns(pl.col("value").fill_nan(None)).drop_nulls("value")


def _find_side(cc: str) -> pl.Expr:
    return pl.when(pl.col(cc).is_in(SCALABLE)).then(pl.lit("L")).otherwise(pl.lit("C"))


_ONE_EACH = (pl.col("flows_l") == 1) & (pl.col("flows_c") == 1) & (pl.col("udp_in") == "")
_ONLY_FLOWS = (pl.col("udp_in") == "") & (pl.col("load") == LOADS[0])
_COUNTS = (
    _ONLY_FLOWS
    & (pl.col("rate") == COUNTS_MBIT)
    & ((pl.col("rtt_l") == COUNTS_MS) | (pl.col("flows_l") == 0))
    & ((pl.col("rtt_c") == COUNTS_MS) | (pl.col("flows_c") == 0))
)
_KINDS = {
    "equal": _ONE_EACH & (pl.col("rtt_l") == pl.col("rtt_c")),
    "mixed": _ONE_EACH & _ONLY_FLOWS & (pl.col("rate") == MIXED_MBIT),
    "overload": pl.col("udp_in") != "",
    "ten": _COUNTS & (pl.col("flows_l") + pl.col("flows_c") == 10),
    "same": _COUNTS & (pl.col("flows_l") == pl.col("flows_c")),
}
# what a published figure says of its place
_KNOWN = ["report", "cc", "load", "rate", "rtt_l", "rtt_c", "flows_l", "flows_c", "udp", "udp_in"]


def _read_statistics(path: str | Path) -> pl.DataFrame:
    """Return published statistics of DualPI2 by their places; raises InputError if the file has none."""
    if not by_class.describes(path):
        raise Unreadable(
            f"{path} has other columns",
            f"a CSV file with the columns {', '.join(sorted(by_class.COLUMNS))}",
            option="--reference",
        )
    rows: dict[tuple[Any, ...], float] = {}
    for figure in by_class.read(path):
        cell = dict(figure.cell)
        if cell["qdisc"] != "dualpi2" or cell["cc1"] not in ("prague", "") or cell["counted"] != "tcp":
            continue
        (flows_l, flows_c), udp_in = cell["flows"], {"a": "L", "b": "C"}.get(cell["udp_class"], "")
        rtts = cell["delay_ms"] if flows_l else 0.0, cell["delay2_ms"] if flows_c else 0.0
        place = (
            _EVALUATION,
            cell["cc2"] or "-",
            LOADS[0],
            cell["rate_mbit"],
            *rtts,
            flows_l,
            flows_c,
            cell["udp_mbit"],
            udp_in,
        )
        if figure.table == "all":
            if figure.metric == "util_pct mean" and not udp_in:
                rows[(*place, USE)] = figure.value
        elif figure.metric in _PUBLISHED:
            rows[(*place, f"{'L' if figure.table == 'a' else 'C'}, {_PUBLISHED[figure.metric]}")] = figure.value
    for key, value in list(rows.items()):
        one, what = key[:-1], key[-1]
        other = rows.get((*one, RATES[1]))
        if what == RATES[0] and other:
            rows[(*one, RATIO)] = value / other
            delays = rows.get((*one, DELAYS[0])), rows.get((*one, DELAYS[2]))
            if None not in delays:
                windows = [float(rtt) + float(q or 0) for rtt, q in zip(one[4:6], delays, strict=True)]
                rows[(*one, WINDOW_RATIO)] = value / other * windows[0] / windows[1]
    if not rows:
        raise Nothing(
            f"{path} has nothing of TCP Prague over DualPI2",
            "statistics of the evaluation of 2021",
            option="--reference",
        )
    return pl.DataFrame([(*key, value) for key, value in rows.items()], [*_KNOWN, "what", "published"], orient="row")


# figures


@dataclass(frozen=True)
class _Lines:
    """A figure of lines: of which experiments, which measures, what along the axis, what distinguishes lines and rows.

    `by` and `rows` name columns of the frame that `_name_values` makes. Each version has a column of panels. A report
    with one version has one for each congestion control of C instead, and so needs no row for it. `split` makes a
    picture of each of its values.
    """

    kind: str
    whats: Sequence[str]
    x: str
    by: str
    rows: Sequence[str]
    x_label: str
    y_label: str
    split: Sequence[str] = ()
    log_y: bool = False
    level: float | None = None
    title: str = ""


_RTT, _RTT_C, _UDP = "base RTT, ms", "base RTT of C, ms", "UDP, Mbit/s"
_DELAY, _SHARE, _FAIR = "time in queue, ms", "share of packets, %", "share of what is fair"
_OVER, _OVER_W = "rate of L / rate of C", "window of L / window of C"
_EACH = ("measure", "cc")
_MAIN = ("L, marks", "C, drops")

FIGURES = {
    "equal-delay-l": _Lines("equal", DELAYS[:2], "rtt", "link", _EACH, _RTT, _DELAY, ["load"], log_y=True),
    "equal-delay-c": _Lines("equal", DELAYS[2:], "rtt", "link", _EACH, _RTT, _DELAY, ["load"], log_y=True),
    "equal-use": _Lines("equal", [USE], "rtt", "link", ["load", "cc"], _RTT, USE),
    "equal-signals": _Lines("equal", _MAIN, "rtt", "link", _EACH, _RTT, _SHARE, ["load"], log_y=True),
    "equal-ratio": _Lines("equal", [RATIO], "rtt", "link", ["load", "cc"], _RTT, _OVER, log_y=True, level=1),
    "counts-ten": _Lines("ten", NORMALISED, "flows", "class", _EACH, "flows of L, of ten", _FAIR, level=1),
    "counts-same": _Lines("same", NORMALISED, "flows", "class", _EACH, "flows in each class", _FAIR, level=1),
    "mixed-rate": _Lines("mixed", [RATIO], "rtt of C", "L", ["cc"], _RTT_C, _OVER, log_y=True, level=1),
    "mixed-window": _Lines("mixed", [WINDOW_RATIO], "rtt of C", "L", ["cc"], _RTT_C, _OVER_W, log_y=True, level=1),
    "mixed-delay-l": _Lines("mixed", DELAYS[:2], "rtt of C", "L", _EACH, _RTT_C, _DELAY, log_y=True),
    "mixed-delay-c": _Lines("mixed", DELAYS[2:], "rtt of C", "L", _EACH, _RTT_C, _DELAY, log_y=True),
    "overload-rate": _Lines("overload", RATES, "udp", "class", ["UDP", "cc"], _UDP, "TCP, Mbit/s a flow", log_y=True),
    "overload-delay": _Lines("overload", DELAYS, "udp", "measure", ["UDP", "cc"], _UDP, _DELAY, log_y=True),
    "overload-signals": _Lines("overload", SIGNALS, "udp", "measure", ["UDP", "cc"], _UDP, _SHARE),
}


def _order_values(column: str, values: Sequence[str]) -> pl.Expr:
    return pl.col(column).cast(pl.Enum(list(dict.fromkeys(values))))


def _list_versions(report: str) -> list[str]:
    return list(REPORTS[report][1].values())


def _name_values(frame: pl.DataFrame, report: str) -> pl.DataFrame:
    """Return rows with the names that figures show."""
    return frame.with_columns(
        _order_values("version", _list_versions(report)),
        _order_values("load", LOADS),
        pl.col("rtt_c").alias("rtt of C"),
        pl.col("rtt_l").alias("rtt"),
        pl.format("L {} ms", pl.col("rtt_l").cast(pl.Int64)).alias("L"),
        pl.format("{} Mbit/s", pl.col("rate").cast(pl.Int64)).alias("link"),
        pl.format("UDP in {}", "udp_in").alias("UDP"),
        pl.col("flows_l").alias("flows"),
    )


def _choose_columns(report: str) -> str:
    """Return what has a column of panels each: versions, or congestion controls of a report with one version."""
    return "version" if len(_list_versions(report)) > 1 else "cc"


def _repeat_alone(frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows in which L alone is repeated for every congestion control of C."""
    ccs = frame.filter(pl.col("cc") != "-").select("cc").unique()
    alone = frame.filter(pl.col("cc") == "-").drop("cc").join(ccs, how="cross").select(frame.columns)
    return pl.concat([frame.filter(pl.col("cc") != "-"), alone])


_INTERVALS = "95 % intervals that do not reach 0"


def _make_caption(report: str, part: dict[str, Any], frame: pl.DataFrame, bars: str = _INTERVALS) -> str:
    """Return the title of a picture: whose it is, which part, how many runs made a point, and what the bars are."""
    words = [REPORTS[report][0], *(f"{value}" for value in part.values())]
    if frame["n"].max() != 1:
        words.append(f"means of {format_counts(frame['n'])} runs")
    if frame["low"].count():
        words.append(bars)
    return "; ".join(word for word in words if word)


def _split_frame(frame: pl.DataFrame, split: Sequence[str]) -> list[tuple[dict[str, Any], pl.DataFrame]]:
    """Return a frame for each combination of values of `split`, with these values."""
    if not split:
        return [({}, frame)]
    found = frame.partition_by(list(split), as_dict=True)
    return [(dict(zip(split, key, strict=True)), found[key]) for key in sorted(found, key=str)]


def _find_slowest_and_fastest(found: Results, frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows of classes with `low` and `high` of their slowest and fastest flow, means over seeds."""
    rate = pl.col("throughput_mbit")
    flows = (
        found.select_table("flows")
        .group_by("key", "side", *_PLACE)
        .agg(low=rate.min() / rate.mean(), high=rate.max() / rate.mean())
    )
    spread = flows.group_by(*_PLACE, "side").agg(pl.col("low", "high").mean())
    sided = frame.drop("low", "high").with_columns(side=pl.col("what").str.head(1))
    return sided.join(spread, on=[*_PLACE, "side"], how="left").with_columns(pl.col("low", "high") * pl.col("value"))


def _draw_lines(found: Results, report: str, spec: _Lines) -> dict[str, Picture]:
    """Return the pictures of one figure by what distinguishes them."""
    frame = found.select_report(report, spec.kind).filter(pl.col("what").is_in(list(spec.whats)))
    frame = _repeat_alone(_find_slowest_and_fastest(found, frame) if spec.x == "flows" else frame)
    if spec.log_y:
        frame = frame.filter(pl.col("value") > 0).with_columns(
            pl.when(pl.col("low") > 0).then(pl.col("low", "high")),
            published=pl.when(pl.col("published") > 0).then("published"),
        )
    if frame.is_empty():
        return {}
    frame = _name_values(frame, report)
    classes = {spec.by, *spec.rows} & {"class"}
    measure = pl.col("what").str.strip_prefix("L, ").str.strip_prefix("C, ") if classes else pl.col("what")
    frame = frame.with_columns(pl.col("what").str.head(1).alias("class"), measure=measure)
    names = [what.removeprefix("L, ").removeprefix("C, ") if classes else what for what in spec.whats]
    frame = frame.with_columns(
        _order_values("measure", names), _order_values("class", ["L", "C"]) if classes else pl.lit("").alias("class")
    )
    across = _choose_columns(report)
    split = [name for name in spec.split if name != across]
    rows = [name for name in spec.rows if name != across and frame[name].n_unique() > 1]
    pictures = {}
    for part, own in _split_frame(frame, split):
        picture = figures.lines(
            own,
            spec.x,
            "value",
            low="low" if own["low"].count() else None,
            high="high" if own["low"].count() else None,
            by=spec.by,
            facet=rows or None,
            columns=across,
            log_x=spec.x != "flows",
            log_y=spec.log_y,
            reference="published" if own["published"].count() else None,
            x_label=spec.x_label,
            y_label=spec.y_label,
            title=_make_caption(report, part, own, "bars: slowest and fastest flow")
            if spec.x == "flows"
            else _make_caption(report, part, own),
        )
        if spec.level is not None:
            picture.draw_level(spec.level)
        pictures["-".join(str(value) for value in part.values())] = picture
    return pictures


def _draw_ccdf(found: Results, report: str) -> dict[str, Picture]:
    """Return A.5: which share of the packets was queued for longer."""
    rows = found.select_table("sojourn").filter(
        pl.col("report") == report,
        _KINDS["equal"],
        pl.col("rate") == CCDF_MBIT,
        pl.col("rtt_l") == CCDF_MS,
        pl.col("kind") == "flows",
    )
    if rows.is_empty():
        return {}
    rows = _name_values(rows, report).with_columns(
        from_ms=pl.max_horizontal("from_ms", pl.lit(_LEAST_MS)), queue=pl.format("long flows in {}", "side")
    )
    across = _choose_columns(report)
    picture = figures.cdf(
        rows.with_columns(_order_values("queue", [f"long flows in {side}" for side in "LC"])),
        "from_ms",
        weight="packets",
        by="queue",
        facet=[name for name in ("load", "cc") if name != across and rows[name].n_unique() > 1] or None,
        columns=across,
        complementary=True,
        log_x=True,
        log_y=True,
        x_label="time in queue, ms",
        y_label="share of packets above x",
        title=f"{REPORTS[report][0]}; {CCDF_MBIT:g} Mbit/s, {CCDF_MS:g} ms",
    )
    next(iter(picture.panels.values())).set_ylim(bottom=1e-5)
    return {"": picture.arrange()}


def collect_completions(found: Results) -> pl.DataFrame:
    """Return completion of short flows by size: (size / rate + 2 base RTT) / time, mean, P5 and P95.

    More than 1 is possible: a token bucket that was idle lets two packets through at once. Of the kept sample of short
    flows; sizes with few of them are left out.
    """
    rows = found.select_table("short_flows").filter(pl.col("completion_s").is_not_nan(), _KINDS["equal"])
    best = pl.col("size_bytes") * 8 / (pl.col("rate") * 1e6) + 2 * pl.col("rtt_l") / 1e3
    size = pl.max_horizontal(pl.when(pl.col("size_bytes") >= 1e3 * size).then(size) for size in _SIZES_KB)
    each = rows.with_columns(share=best / pl.col("completion_s"), size=size).drop_nulls("size")
    share = pl.col("share")
    mean = each.group_by(*_PLACE, "side", "size").agg(
        value=share.mean(), low=share.quantile(0.05), high=share.quantile(0.95), flows=pl.len()
    )
    return mean.filter(pl.col("flows") >= FEWEST_SHORT)


def _draw_completion(found: Results, report: str) -> dict[str, Picture]:
    rows = collect_completions(found).filter(pl.col("report") == report, pl.col("rate") == SHORT_MBIT)
    if rows.is_empty():
        return {}
    across = _choose_columns(report)
    shown = _name_values(rows, report).with_columns(
        pl.format("RTT {} ms", pl.col("rtt").cast(pl.Int64)).alias("RTT"),
        _order_values("side", ["L", "C"]).alias("class"),
    )
    return {
        "-".join(part.values()): figures.lines(
            own,
            "size",
            "value",
            low="low",
            high="high",
            by="class",
            facet="RTT",
            columns=across,
            log_x=True,
            x_label="size, kB, from",
            y_label="shortest / real completion time",
            title=_make_caption(
                report, part, own.with_columns(n=1), f"short flows at {SHORT_MBIT:g} Mbit/s; bars: P5 to P95"
            ),
        )
        for part, own in _split_frame(shown, ["cc"] if across != "cc" else [])
    }


def draw(found: Results, folder: str | Path, only: str | None = None, formats: Sequence[str] = (".svg",)) -> list[Path]:
    """Draw every figure that there are runs for, or one, as `REPORT-FIGURE.svg` in `folder`; raises InputError."""
    makers: dict[str, Callable[[str], dict[str, Picture]]] = {
        name: lambda report, spec=spec: _draw_lines(found, report, spec)  # type: ignore[misc]
        for name, spec in FIGURES.items()
    }
    makers |= {
        "ccdf": lambda report: _draw_ccdf(found, report),
        "completion": lambda report: _draw_completion(found, report),
    }
    named = {
        f"{report}-{name}": partial(make, report) for report in found.list_reports() for name, make in makers.items()
    }
    if only is not None:  # others need not be drawn
        named = {name: make for name, make in named.items() if only.startswith(name)} or named
    made = {
        f"{name}-{part}" if part else name: picture for name, make in named.items() for part, picture in make().items()
    }
    return figures.save_all({name: lambda one=one: one for name, one in made.items()}, folder, only, formats)  # type: ignore[misc]


# tables

_OF_COUNTS = (RATIO, *NORMALISED, DELAYS[0], DELAYS[2])
_TABLES: tuple[tuple[str, str, Sequence[str], Sequence[str]], ...] = (
    ("Equal RTT", "equal", ("load", "cc", "rate", "rtt_l"), (RATIO, USE, *DELAYS, SIGNALS[0], SIGNALS[3])),
    ("Numbers of flows, ten together", "ten", ("cc", "flows_l", "flows_c"), _OF_COUNTS),
    ("Numbers of flows, as many in each class", "same", ("cc", "flows_l", "flows_c"), _OF_COUNTS),
    ("Mixed RTT", "mixed", ("cc", "rtt_l", "rtt_c"), (RATIO, WINDOW_RATIO, USE, *DELAYS, SIGNALS[0], SIGNALS[3])),
    ("Overload", "overload", ("cc", "udp_in", "udp"), (*RATES, *DELAYS, *SIGNALS)),
)
_WORDS = {
    "rate": "Mbit/s",
    "rtt_l": "RTT L",
    "rtt_c": "RTT C",
    "flows_l": "flows L",
    "flows_c": "flows C",
    "udp": "UDP, Mbit/s",
    "udp_in": "UDP in",
    "side": "class",
}
_INTRODUCTION = (
    "L is the class of DCTCP or TCP Prague, C the other. Rates are Mbit/s of frames a flow, times in queue ms of the "
    "packets of the long flows over the whole run, marks and drops % of these packets. The fair window is the one "
    "that, equal for all flows, fills the link."
)


def _format_cell(row: dict[str, Any]) -> str:
    """Return a mean, half of its interval and, in parentheses, what was published."""
    side, _, measure = row["what"].partition(", ")
    column, scale = _OF_CLASS[measure] if side in ("L", "C") else _OF_RUN[row["what"]]
    width = COLUMNS["classes" if side in ("L", "C") else "runs"][column].find_resolution(row["value"] / scale)
    half = None if row["high"] is None else row["high"] - row["value"]
    text = format_number(row["value"]) + format_half(half, None if width is None else width * scale)
    return text + ("" if row["published"] is None else f" ({format_number(row['published'])})")


def _format_grid(
    frame: pl.DataFrame, keys: Sequence[str], heads: Sequence[str], column: str, text: Callable[[dict[str, Any]], str]
) -> str:
    """Return a Markdown table: a row for each combination of `keys`, a column for each value of `column`."""
    body = make_grid(frame.sort(keys), keys, column, heads, text)
    words = tuple(i for i, key in enumerate(keys) if frame.schema[key] in (pl.String, pl.Enum))
    return align_table([*(_WORDS.get(key, key) for key in keys), *heads], body, words=words)


def format_tables(found: Results) -> str:
    """Return every measure of every report as Markdown: simulated, and in parentheses what was published."""
    parts = ["# DualPI2 as in its authors' reports", _INTRODUCTION]
    if found.published:
        parts.append("In parentheses: published.")
    for report in found.list_reports():
        parts.append(f"## {REPORTS[report][0]}")
        for title, kind, keys, whats in _TABLES:
            frame = found.select_report(report, kind).filter(pl.col("what").is_in(list(whats)))
            if frame.is_empty():
                parts.append(f"### {title}\n\nNo runs.")
                continue
            frame = frame.with_columns(_order_values("version", _list_versions(report)), _order_values("load", LOADS))
            note = (
                f"Means of {format_counts(frame['n'])} runs, ± half of the 95 % interval.\n\n"
                if frame["n"].max() != 1
                else ""
            )
            parts.append(f"### {title}\n\n{note}{_format_grid(frame, [*keys, 'version'], whats, 'what', _format_cell)}")
        short = (
            collect_completions(found)
            .filter(pl.col("report") == report)
            .with_columns(_order_values("version", _list_versions(report)))
        )
        if not short.is_empty():
            named = short.with_columns(kb=pl.format("from {} kB", "size"))
            heads = named.sort("size")["kb"].unique(maintain_order=True).to_list()
            keys = ["cc", "rate", "rtt_l", "side", "version"]
            table = _format_grid(named, keys, heads, "kb", lambda row: format_number(row["value"]))
            parts.append(f"### Completion of short flows by size: (size / rate + 2 base RTT) / time, mean\n\n{table}")
    return "\n\n".join([*parts, *explain_bins(parts), *found.notes])
