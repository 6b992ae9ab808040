"""The time series of each run in few bytes: whole numbers, differences, as many bits as they need.

A run has lines. A line belongs to a panel, such as `goodput`, and is called by its flow, hop or state. Values are
rounded to four significant digits of the largest one, and stored as differences in bytes of seven bits (LEB128, zigzag;
0 is a value that is missing). Lines of one run and table share their times, which are a line themselves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dumbbell.figures import html
from dumbbell.report.sources import ReportRuns, ReportSource
from dumbbell.results.columns import format_axis_label
from dumbbell.results.results import StoredResults
from dumbbell.results.run import LIFE, select_lifetime

RUNS_OF_A_CHUNK = 64
_FEW_FLOWS = 6  # flows of a run that have a line each; of more, flows that are alike share one
_DIGITS = 4
_NO_THRESHOLD = 2**31 - 1

# panel → column
_OF_FLOWS = {
    "goodput": "goodput_mbit",
    "cwnd": "cwnd",
    "ssthresh": "ssthresh",
    "srtt": "srtt_ms",
    "pings": "rtt_ms",
    "retransmissions": "retransmissions",
}
_OF_QUEUE = {
    "throughput": "throughput_mbit",
    "capacity": "capacity_mbit",
    "sojourn": "sojourn_mean_ms",
    "backlog": "backlog_packets",
    "CE marks": "ce_marks",
    "SCE marks": "sce_marks",
    "drops": "drops",
}
_OF_TRACE = (
    *("max_bw_mbit", "bw_mbit", "bw_shortterm_mbit", "pacing_rate_mbit", "min_rtt_ms", "inflight_shortterm"),
    *("inflight_longterm", "inflight_bdp", "pacing_gain", "cwnd_gain", "ecn_alpha"),
)
STATE = "state"  # the panel of states of a control, whose values are places in a list of texts


@dataclass(frozen=True)
class Chunk:
    """Lines of some runs: `head` says what each is and where its bytes are in `body`."""

    number: int
    head: dict[str, Any]
    body: bytes

    def to_text(self) -> str:
        """Return the chunk as text of base64: length of the head, head, body."""
        head = json.dumps(self.head, separators=(",", ":"), ensure_ascii=False).encode()
        return html.pack_bytes(len(head).to_bytes(4, "little") + head + self.body)


# the name of a flow: its part, or its control where there is one part
_NAME = pl.when(pl.col("part").fill_null("") == "").then("cc").otherwise("part")


@dataclass
class Lines:
    """Lines of runs as rows: `run`, `group` (lines that share their times), `panel`, `label`, `x`, `y`."""

    frame: pl.DataFrame
    texts: list[str]
    """What the values of panel `state` mean."""


class ReportSeries:
    """The time series of all runs of a report, read once."""

    def __init__(self, runs: ReportRuns) -> None:
        self._runs = runs
        self._tables = [self._collect_source(number, one) for number, one in enumerate(runs.sources)]

    def _collect_source(self, number: int, source: ReportSource) -> list[Lines]:
        results = source.results
        own = self._runs.select_source(number)
        found = [self._collect_flows(results, own), self._collect_queue(results, own), self._collect_hops(results, own)]
        found += [
            self._collect_states(results, own),
            *self._trace(results, own),
            *self._collect_histograms(results, own),
        ]
        return [one for one in found if one is not None and one.frame.height]

    def find_most(self, share: float) -> int:
        """Return to how many points lines have to be cut so that this share of all points is left."""
        by = ["run", "group", "panel", "label"]
        parts = [one.frame.group_by(by).len()["len"].cast(pl.Float64) for of in self._tables for one in of]
        lengths = pl.concat(parts).to_numpy() if parts else np.zeros(1)
        few, many = 1, int(lengths.max())
        while few < many:
            middle = (few + many + 1) // 2
            fits = np.minimum(lengths, middle).sum() <= share * lengths.sum()
            few, many = (middle, many) if fits else (few, middle - 1)
        return few

    def make_chunks(self, most: int | None = None) -> Iterator[Chunk]:
        """Yield the lines of all runs, in chunks of runs; each with at most `most` points."""
        parts = [_thin_lines(one.frame, most) if most else one.frame for of in self._tables for one in of]
        texts = [one.texts for of in self._tables for one in of]
        for number, first in enumerate(range(0, len(self._runs), RUNS_OF_A_CHUNK)):
            inside = pl.col("run").is_between(first, first + RUNS_OF_A_CHUNK - 1)
            yield _make_chunk(number, [(frame.filter(inside), said) for frame, said in zip(parts, texts, strict=True)])

    # from tables to lines

    @staticmethod
    def _collect_flows(results: StoredResults, own: pl.DataFrame) -> Lines | None:
        known = results.measures("series")
        panels = {column: panel for panel, column in _OF_FLOWS.items() if column in known}
        if not panels:
            return None
        names = list(panels)
        rows = select_lifetime(results.parts("series", ["time_s", *names, *LIFE]), names)
        rows = rows.join(own, on="key", how="inner")
        if "ssthresh" in names:  # which is not set before the first reduction
            rows = rows.with_columns(pl.when(pl.col("ssthresh") < _NO_THRESHOLD).then("ssthresh"))
        sends_alone = pl.col("cc").is_in(["udp", "ping"])  # without a window, and nothing is sent again
        own_of_tcp = [column for column in names if column in ("cwnd", "ssthresh", "retransmissions")]
        rows = rows.with_columns(pl.when(~sends_alone).then(pl.col(own_of_tcp)))
        # a flow of its own while there are few, else the mean of those that are alike
        count = pl.col("flow").n_unique().over("run")
        alike = pl.col("flow").n_unique().over("run", "part")
        place = pl.col("flow").rank("dense").over("run", "part")
        # flows of one kind are numbered where each has a line
        own_name = pl.when(alike > 1).then(pl.concat_str(_NAME, pl.lit(" #"), place.cast(pl.Int64))).otherwise(_NAME)
        shared = pl.concat_str(_NAME, pl.lit(", mean of "), alike, pl.lit(" flows"))
        rows = rows.with_columns(label=pl.when((count <= _FEW_FLOWS) | (alike == 1)).then(own_name).otherwise(shared))
        rows = rows.group_by("run", "label", "time_s", maintain_order=True).agg(pl.col(names).mean())
        return Lines(_stack_columns(rows, panels, "flows"), [])

    @staticmethod
    def _collect_queue(results: StoredResults, own: pl.DataFrame) -> Lines | None:
        known = results.measures("queue_series")
        panels = {column: panel for panel, column in _OF_QUEUE.items() if column in known}
        if not panels:
            return None
        rows = results.frame("queue_series").select("key", "time_s", *panels)
        rows = rows.join(own, on="key", how="inner").with_columns(label=pl.lit(""))
        lines = _stack_columns(rows, panels, "queue")
        # a rate that does not change is the link's, which the settings say
        same = pl.col("y").n_unique().over("run", "panel") < 2
        zero = (pl.col("y").abs().max().over("run", "panel") == 0) & pl.col("panel").is_in(
            ["CE marks", "SCE marks", "drops"]
        )
        return Lines(lines.filter(~(same & (pl.col("panel") == "capacity")) & ~zero), [])

    @staticmethod
    def _collect_hops(results: StoredResults, own: pl.DataFrame) -> Lines | None:
        rows = results.frame("hop_series")
        panels = {column: f"hops: {panel}" for panel, column in _OF_QUEUE.items() if column in rows.columns}
        if rows.is_empty() or not panels:
            return None
        rows = rows.select("key", "time_s", *panels, label="hop").join(own, on="key", how="inner")
        lines = _stack_columns(rows, panels, "hops")
        return Lines(lines.filter(pl.col("y").abs().max().over("run", "panel") > 0), [])

    @staticmethod
    def _collect_states(results: StoredResults, own: pl.DataFrame) -> Lines | None:
        rows = results.frame("queue_states")
        if rows.is_empty():
            return None
        rows = rows.join(own, on="key", how="inner")
        name = pl.format("queue: {}", "state")
        return Lines(
            rows.select(
                "run",
                group=pl.concat_str(pl.lit("states "), "hop", "state"),
                panel=name,
                label=pl.col("hop"),
                x=pl.col("time_s").cast(pl.Float64),
                y=pl.col("value").cast(pl.Float64),
            ).sort("run", "panel", "label", "x"),
            [],
        )

    @staticmethod
    def _trace(results: StoredResults, own: pl.DataFrame) -> list[Lines]:
        if results.frame("trace").is_empty():
            return []
        known = results.measures("trace")
        columns = [column for column in _OF_TRACE if column in known]
        rows = results.parts("trace", ["time_s", "state", *columns]).join(own, on="key", how="inner")
        alike = pl.col("flow").n_unique().over("run", "part")
        numbered = pl.concat_str(_NAME, pl.lit(" #"), pl.col("flow") + 1)
        rows = rows.with_columns(
            pl.col(columns).cast(pl.Float64), label=pl.when(alike > 1).then(numbered).otherwise(_NAME)
        )
        panels = {column: f"control: {format_axis_label(column, 'trace')}" for column in columns}
        found = [Lines(_stack_columns(rows, panels, "trace"), [])]
        states = rows.filter(pl.col("state").is_not_null() & (pl.col("state").cast(pl.String) != ""))
        if states.height:
            texts = sorted(states["state"].cast(pl.String).unique().to_list())
            places = {text: place for place, text in enumerate(texts)}
            lines = states.select(
                "run",
                group=pl.concat_str(pl.lit("trace states "), "label"),
                panel=pl.lit(STATE),
                label="label",
                x="time_s",
                y=pl.col("state").cast(pl.String).replace_strict(places, return_dtype=pl.Float64),
            ).sort("run", "label", "x")
            found.append(Lines(lines, texts))
        return found

    @staticmethod
    def _collect_histograms(results: StoredResults, own: pl.DataFrame) -> Iterator[Lines]:
        for table, count in (("sojourn", "packets"), ("rtt", "samples")):
            if results.frame(table).is_empty():
                continue
            rows = results.parts(table, ["from_ms", count]).join(own, on="key", how="inner")
            rows = rows.with_columns(label=_NAME)
            rows = rows.group_by("run", "label", "from_ms", maintain_order=True).agg(pl.col(count).sum())
            # the share of values that are at least as large
            rows = rows.sort("run", "label", "from_ms").with_columns(
                y=pl.col(count).cum_sum(reverse=True).over("run", "label") / pl.col(count).sum().over("run", "label")
            )
            yield Lines(
                rows.select(
                    "run",
                    group=pl.concat_str(pl.lit(f"{table} "), "label"),
                    panel=pl.lit(f"distribution of {table}"),
                    label="label",
                    x="from_ms",
                    y="y",
                ),
                [],
            )


def _stack_columns(rows: pl.DataFrame, panels: dict[str, str], table: str) -> pl.DataFrame:
    """Return one row per value of columns, each of a panel; lines without a value are left out."""
    rows = rows.with_columns(pl.col(list(panels)).cast(pl.Float64).fill_nan(None))
    long = rows.unpivot(list(panels), index=["run", "label", "time_s"], variable_name="panel", value_name="y")
    long = long.with_columns(pl.col("panel").replace_strict(panels), group=pl.concat_str(pl.lit(f"{table} "), "label"))
    long = long.filter(pl.col("y").is_not_null().any().over("run", "panel", "label"))
    order = pl.col("panel").replace_strict({panel: i for i, panel in enumerate(panels.values())}, return_dtype=pl.Int64)
    long = long.with_columns(order=order).sort("run", "order", "label", "time_s")
    return long.select("run", "group", "panel", "label", pl.col("time_s").cast(pl.Float64).alias("x"), "y")


def _thin_lines(lines: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return lines with at most `most` points: neighbours become their mean, counts their sum, states the last."""
    by = ["run", "group", "panel", "label"]
    step = (pl.len().over(by) + most - 1) // most
    place = pl.int_range(pl.len()).over(by)
    lines = lines.with_columns(step=step, part=place // step)
    if lines["step"].max() == 1:
        return lines.drop("step", "part")
    summed = pl.col("panel").first().str.contains("marks|drops|retransmissions")
    stays = pl.col("panel").first().str.starts_with("distribution") | (pl.col("panel").first() == STATE)
    few = lines.group_by(*by, "part", maintain_order=True).agg(
        x=pl.when(stays).then(pl.col("x").first()).otherwise(pl.col("x").last()),
        y=pl.when(stays)
        .then(pl.col("y").first())
        .when(summed & (pl.col("y").count() == 0))
        .then(None)
        .when(summed)
        .then(pl.col("y").sum())
        .otherwise(pl.col("y").mean()),
    )
    return few.drop("part")


# from lines to bytes


def _make_chunk(number: int, parts: Sequence[tuple[pl.DataFrame, list[str]]]) -> Chunk:
    head: dict[str, Any] = {}
    body = bytearray()
    known: dict[tuple[Any, ...], tuple[int, int, int]] = {}  # times that several runs have
    for frame, texts in parts:
        if frame.is_empty():
            continue
        by = ["run", "group", "panel", "label"]
        lines = frame.group_by(by, maintain_order=True).agg("x", "y")
        seen: dict[tuple[int, str], tuple[int, list[Any]]] = {}
        values, decimals = to_whole_numbers(lines["y"])
        octets, ends = encode_lists(values)
        for place, (run, group, panel, label, times) in enumerate(
            lines.select("run", "group", "panel", "label", "x").iter_rows()
        ):
            of_run = head.setdefault(str(run), {"times": [], "lines": []})
            key = (run, group)
            if key not in seen or seen[key][1] != times:
                code = tuple(times)
                if code not in known:
                    x_values, x_decimals = to_whole_numbers(pl.Series([times]), digits=7)
                    known[code] = (len(body), len(times), x_decimals[0])
                    body += encode_lists(x_values)[0]
                of_run["times"].append(known[code])
                seen[key] = (len(of_run["times"]) - 1, times)
            start = ends[place - 1] if place else 0
            line: list[Any] = [panel, label, seen[key][0], len(body), len(times), decimals[place]]
            if panel == STATE:
                line.append(texts)
            of_run["lines"].append(line)
            body += octets[start : ends[place]]
    return Chunk(number, {"first": number * RUNS_OF_A_CHUNK, "runs": head}, bytes(body))


def to_whole_numbers(lists: pl.Series, digits: int = _DIGITS) -> tuple[list[npt.NDArray[np.float64]], list[int]]:
    """Return values as whole numbers, NaN for none, and of each list how many decimals these stand for."""
    values, decimals = [], []
    for one in lists:
        array = one.to_numpy().astype(np.float64) if isinstance(one, pl.Series) else np.asarray(one, dtype=np.float64)
        finite = array[np.isfinite(array)]
        largest = float(np.abs(finite).max()) if finite.size else 0.0
        places = digits - 1 - math.floor(math.log10(largest)) if largest > 0 else 0
        if places > 0 and finite.size and np.all(finite == np.rint(finite)):
            places = 0
        places = max(-9, min(9, places))
        values.append(np.rint(array * 10.0**places))
        decimals.append(places)
    return values, decimals


def encode_lists(lists: Sequence[npt.NDArray[np.float64]]) -> tuple[bytes, list[int]]:
    """Return the bytes of all lists one after the other, and where each of them ends."""
    sizes = [len(one) for one in lists]
    whole = np.concatenate(lists) if lists else np.empty(0)
    first = np.zeros(len(whole), dtype=bool)
    starts = np.cumsum([0, *sizes[:-1]]) if sizes else np.empty(0, dtype=np.int64)
    first[starts[np.asarray(sizes) > 0].astype(np.int64)] = True
    missing = ~np.isfinite(whole)
    # each value less the one before it in its list that is there
    place = np.arange(len(whole))
    known = np.where(missing, -1, place)
    begin = np.maximum.accumulate(np.where(first, place, 0)) if len(whole) else place
    last = np.maximum.accumulate(known) if len(whole) else known
    before = np.concatenate(([-1], last[:-1])) if len(whole) else last
    filled = np.where(missing, 0, whole).astype(np.int64)
    previous = np.where(before >= begin, filled[np.maximum(before, 0)], 0) if len(whole) else filled
    delta = filled - previous
    code = np.where(delta >= 0, 2 * delta, -2 * delta - 1) + 1
    code = np.where(missing, 0, code).astype(np.uint64)
    # seven bits to a byte, the lowest first; the highest bit says that more follow
    shifts = np.arange(9, dtype=np.uint64) * np.uint64(7)
    groups = code[:, None] >> shifts
    used = (groups > 0) | (shifts == 0)
    more = np.concatenate((used[:, 1:], np.zeros((len(code), 1), dtype=bool)), axis=1)
    octets = (groups & np.uint64(127)).astype(np.uint8) | (more.astype(np.uint8) << np.uint8(7))
    lengths = used.sum(axis=1)
    ends = np.cumsum(lengths)
    cuts = np.cumsum(sizes)
    return octets[used].tobytes(), [int(ends[cut - 1]) if cut else 0 for cut in cuts]
