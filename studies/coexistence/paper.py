"""Figures and tables of the coexistence of BBRv2 and DCTCP, with the axes of the paper, from its experiments.

The paper's 18 figures, and next to them what it speaks of without a figure: harm, longest time in queue, drops, tail
drop and BBRv2's own limit on ECN.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

import dumbbell
from dumbbell import results
from dumbbell.published.compare import select_alike
from dumbbell.published.variants import list_left_out, require_alike
from dumbbell.study import (
    Picture,
    align_table,
    compute_intervals,
    explain_bins,
    figures,
    format_counts,
    format_mean,
    make_grid,
    order_names,
)

from . import terms
from .terms import AQMS, DROP, LARGE, LIMIT, MIXES, NO_LIMIT, PLACE, SMALL

# measures, their words at an axis and where the axis begins and ends, if that is fixed
_MEASURES: dict[str, tuple[str, float | None, float | None]] = {
    "utilisation": ("utilisation", None, 1.05),
    "jain": ("Jain's index", None, 1.05),
    "delay": ("mean time in queue / target", None, None),
    "delay_whole": ("mean time in queue, whole ms / target", None, None),
    "delay_max": ("longest time in queue / target", None, None),
    "relative_throughput": ("relative throughput", None, None),
    "marks": ("share of packets marked", None, None),
    "drops": ("share of packets dropped", None, None),
    "harm": ("harm to throughput", -1.05, 1.05),  # 0 to 1; below 0 the others help, however much
    "harm_delay": ("harm to time in queue", -1.05, 1.05),
}
# drawn as a line: the target, the fair share
_LEVEL = {"delay": 1.0, "delay_whole": 1.0, "delay_max": 1.0, "relative_throughput": 1.0}
_OF_CLASSES = ("relative_throughput", "marks", "drops", "harm", "harm_delay")


@dataclass(frozen=True)
class _Figure:
    """What a figure shows: a measure of the runs of one kind; each value of `facet` has a panel."""

    title: str
    measure: str
    rtts: Sequence[str]
    mix: Sequence[str]
    gbit: float = 1.0
    buffer: str = LARGE
    variants: Sequence[str] = ("", NO_LIMIT)
    facet: Sequence[str] = ()
    log: bool = False

    @property
    def by_class(self) -> bool:
        """Whether there is one series for each connection class."""
        return self.measure in _OF_CLASSES


_DCTCP, _BBR, _BOTH = ("dctcp",), ("bbr2",), ("both",)
_NEAR, _FAR, _RTTS, _EQUAL = ("5",), ("50",), ("5+50",), ("5", "50")
_RELATIVE, _JAIN = "relative_throughput", "jain"

PAPER = {
    "01": _Figure("Mono-DCTCP utilisation (1 Gbit/s, 5 ms)", "utilisation", _NEAR, _DCTCP),
    "02": _Figure("Mono-DCTCP fairness (1 Gbit/s, 5 ms)", _JAIN, _NEAR, _DCTCP),
    "03": _Figure("Mono-DCTCP average delay (1 Gbit/s, 5 ms)", "delay_whole", _NEAR, _DCTCP),
    "04": _Figure("Mono-DCTCP utilisation (1 Gbit/s, 5 ms, small buffer)", "utilisation", _NEAR, _DCTCP, buffer=SMALL),
    "05": _Figure("Mono-BBR utilisation (1 Gbit/s, 5 ms)", "utilisation", _NEAR, _BBR),
    "06": _Figure("Mono-BBR fairness (1 Gbit/s, 50 ms)", _JAIN, _FAR, _BBR),
    "07": _Figure("Multi-CC fairness (1 Gbit/s, 5 ms)", _JAIN, _NEAR, _BOTH),
    "08": _Figure("Multi-CC relative throughput (1 Gbit/s, 5 ms)", _RELATIVE, _NEAR, _BOTH),
    "09": _Figure("Multi-CC utilisation (1 Gbit/s, 5 ms)", "utilisation", _NEAR, _BOTH),
    "10": _Figure("Multi-CC ECN marking ratio (1 Gbit/s, 5 ms)", "marks", _NEAR, _BOTH),
    "11": _Figure("Multi-CC relative throughput (1 Gbit/s, 50 ms)", _RELATIVE, _FAR, _BOTH),
    "12": _Figure("Multi-CC relative throughput (10 Gbit/s, 5 ms)", _RELATIVE, _NEAR, _BOTH, 10.0),
    "13": _Figure("Multi-CC relative throughput (10 Gbit/s, 50 ms)", _RELATIVE, _FAR, _BOTH, 10.0),
    "14": _Figure("DCTCP relative throughput (1 Gbit/s, 5 and 50 ms)", _RELATIVE, _RTTS, _DCTCP),
    "15": _Figure("BBR relative throughput (1 Gbit/s, 5 and 50 ms)", _RELATIVE, _RTTS, _BBR),
    "16": _Figure("Multi-CC, multi-RTT relative throughput (1 Gbit/s)", _RELATIVE, _RTTS, _BOTH),
    "17": _Figure("Multi-CC, multi-RTT fairness (1 Gbit/s)", _JAIN, _RTTS, _BOTH),
    "18": _Figure("Multi-CC, multi-RTT fairness (1 Gbit/s, small buffer)", _JAIN, _RTTS, _BOTH, buffer=SMALL),
}
_BY_MIX = ("mix", "rtt")
BESIDE = {
    "harm": _Figure("Harm to throughput (1 Gbit/s)", "harm", _EQUAL, _BOTH, facet=("rtt",)),
    "harm-rtts": _Figure("Harm to throughput, multi-RTT (1 Gbit/s)", "harm", _RTTS, _BOTH),
    "harm-10g": _Figure("Harm to throughput (10 Gbit/s)", "harm", _EQUAL, _BOTH, 10.0, facet=("rtt",)),
    "harm-delay": _Figure("Harm to time in queue (1 Gbit/s)", "harm_delay", _EQUAL, _BOTH, facet=("rtt",)),
    "harm-delay-rtts": _Figure("Harm to time in queue, multi-RTT (1 Gbit/s)", "harm_delay", _RTTS, _BOTH),
    "delay": _Figure("Mean time in queue (1 Gbit/s)", "delay", _EQUAL, MIXES, facet=_BY_MIX, log=True),
    "delay-max": _Figure("Longest time in queue (1 Gbit/s)", "delay_max", _EQUAL, MIXES, facet=_BY_MIX, log=True),
    "drops": _Figure("Drops (1 Gbit/s)", "drops", _EQUAL, MIXES, facet=_BY_MIX),
    "drops-small": _Figure("Drops (1 Gbit/s, small buffer)", "drops", _EQUAL, MIXES, buffer=SMALL, facet=_BY_MIX),
    "taildrop-utilisation": _Figure(
        "Utilisation over tail drop (1 Gbit/s)", "utilisation", _EQUAL, MIXES, buffer=DROP, facet=_BY_MIX
    ),
    "taildrop-throughput": _Figure(
        "Relative throughput over tail drop (1 Gbit/s)", _RELATIVE, _EQUAL, _BOTH, buffer=DROP, facet=("rtt",)
    ),
    "limit": _Figure(
        "Relative throughput, BBRv2 with and without its limit on ECN (1 Gbit/s)",
        _RELATIVE,
        _EQUAL,
        _BOTH,
        variants=(NO_LIMIT, LIMIT),
        facet=("variant", "rtt"),
    ),
    "limit-delay": _Figure(
        "Mean time in queue of BBRv2 alone, with and without its limit on ECN (1 Gbit/s)",
        "delay",
        _EQUAL,
        _BBR,
        variants=(NO_LIMIT, LIMIT),
        facet=("variant", "rtt"),
        log=True,
    ),
}
FIGURES = PAPER | BESIDE
_WORDS = ("K", "N", "AQM")
_FACETS = {
    "rtt": pl.format("{} ms", pl.col("rtt").str.replace("+", " and ", literal=True)),
    "mix": pl.col("mix").replace({"dctcp": "DCTCP", "bbr2": "BBRv2", "both": "half each"}),
    "variant": pl.col("variant"),
}


class Results:
    """Runs of its experiments; raises InputError if there is none, or if one cell has runs of two kinds."""

    def __init__(self, source: str | Path | results.StoredResults) -> None:
        found = results.StoredResults.open_source(source)
        self.runs, self.classes = (
            terms.runs(dumbbell.Results(found)),
            terms.classes(dumbbell.Results(found)),
        )
        self.notes = [*list_left_out(found, self.runs["key"]), *found.notes]
        configs = dict(found.runs.select("key", "config").rows())
        for place, part in self.runs.group_by(*PLACE, "mix"):
            select_alike(
                [{"config": configs[key]} for key in part["key"]], ", ".join(str(value) for value in place if value)
            )
        require_alike(found.runs.filter(pl.col("key").is_in(self.runs["key"].implode())))

    def collect_figure(self, figure: _Figure) -> pl.DataFrame:
        """Return what a figure shows: keys, `value` as mean over `runs` seeds, `low` to `high` its 95 % interval."""
        every = self.classes if figure.by_class else self.runs
        rows = every.filter(
            pl.col("rate_gbit") == figure.gbit,
            pl.col("buffer") == figure.buffer,
            pl.col("rtt").is_in(figure.rtts),
            pl.col("mix").is_in(figure.mix),
            pl.col("variant").is_in(figure.variants),
        )
        keys = [*PLACE, "mix", *(["cls"] if figure.by_class else [])]
        mean = compute_intervals(rows.rename({figure.measure: "value"}), keys, "value", count="runs")
        named = {name: words for name, words in _FACETS.items() if name in figure.facet}
        return (
            mean.filter(pl.col("value").is_not_null())
            .with_columns(order_names("aqm", AQMS), **named)
            .sort(*figure.facet, "aqm", *_ORDER_OF_N, *(["cls"] if figure.by_class else []), "k")
        )


# N by the first number in it, and by how many flows that is in all
_ORDER_OF_N = (pl.col("n").str.contains("-", literal=True), pl.col("flows"))


def draw(found: Results, folder: str | Path, only: str | None = None, formats: Sequence[str] = (".svg",)) -> list[Path]:
    """Draw every figure that there are runs for, or one, as `NAME.svg` in `folder`; raises InputError."""
    frames = {
        f"figure-{name}" if name in PAPER else name: (figure, found.collect_figure(figure))
        for name, figure in FIGURES.items()
    }
    made = {name: partial(draw_figure, *one) for name, one in frames.items() if not one[1].is_empty()}
    return figures.save_all(made, folder, only, formats)


def draw_figure(figure: _Figure, frame: pl.DataFrame) -> Picture:
    """Return a figure of the rows that `Results.of` gives for it: K within N within AQM."""
    label, bottom, top = _MEASURES[figure.measure]
    if figure.log:  # no place for 0, nor for an interval that reaches it
        above = pl.when(pl.col("low") > 0)
        frame = frame.filter(pl.col("value") > 0).with_columns(above.then("low"), above.then("high").alias("high"))
    bars = frame["low"].count() > 0
    made = figures.nested(
        frame,
        ("k", "n", "aqm"),
        "value",
        low="low" if bars else None,
        high="high" if bars else None,
        by="cls" if figure.by_class else None,
        facet=figure.facet or None,
        log_y=figure.log,
        bottom=bottom,
        top=top,
        words=_WORDS,
        y_label=label,
        title=figure.title + _note(frame),
    )
    if figure.measure in _LEVEL:
        made.draw_level(_LEVEL[figure.measure])
    return made


def _note(frame: pl.DataFrame) -> str:
    """Return of how many runs a mean is, if of several."""
    return "" if frame["runs"].max() == 1 else f"; means of {format_counts(frame['runs'])} runs"


_INTRODUCTION = (
    "N is the number of flows: in 4-16 and 8-32 those of 50 ms and those of 5 ms, in 2-2-8-8 and 4-4-16-16 BBRv2 of "
    "50 ms, DCTCP of 50 ms, BBRv2 of 5 ms and DCTCP of 5 ms. The delay target is K times the smallest base RTT. "
    "Relative throughput is what the frames of a flow that got through the queue in the whole run are of an equal "
    "share of the rate, a mean over the class. Times in queue are relative to the target; "
    "those of whole milliseconds are from a histogram of 1 ms, as in the paper. Harm is the share that a "
    "class loses against the other, of what it has where all flows are of its own congestion control."
)


def format_tables(found: Results) -> str:
    """Return every figure as a Markdown table: AQM, N and class down, K across."""
    parts = ["# DCTCP and BBRv2 over STEP, PI2, CSAQM and tail drop", _INTRODUCTION]
    for name, figure in FIGURES.items():
        title = f"Figure {int(name)}: {figure.title}" if name in PAPER else figure.title
        frame = found.collect_figure(figure)
        if frame.is_empty():
            parts.append(f"## {title}\n\nNo runs.")
            continue
        note = "" if frame["runs"].max() == 1 else f"{_note(frame)[2:].capitalize()}, ± half of the 95 % interval. "
        measure = _MEASURES[figure.measure][0].capitalize()
        parts.append(f"## {title}\n\n{measure}. {note}Down: AQM and N; across: K.\n\n{_format_grid(figure, frame)}")
    return "\n\n".join([*parts, *explain_bins(parts), *found.notes])


def _format_grid(figure: _Figure, frame: pl.DataFrame) -> str:
    keys = [*figure.facet, "aqm", "n", *(["cls"] if figure.by_class else [])]
    ks = frame["k"].unique().sort().to_list()

    def format_cell(row: dict[str, Any]) -> str:
        # the paper's histogram has bins of 1 ms, and the target is K times the smallest base RTT
        rtts = map(float, re.findall(r"[\d.]+", row["rtt"]))
        width = 1 / (row["k"] * min(rtts)) if figure.measure == "delay_whole" else None
        half = None if row["low"] is None else row["value"] - row["low"]
        return format_mean(row["value"], half, width)

    heads = [*(_HEADS.get(key, key) for key in keys), *(f"{k:g}" for k in ks)]
    return align_table(heads, make_grid(frame, keys, "k", ks, format_cell), words=tuple(range(len(keys))))


_HEADS = {"aqm": "AQM", "n": "N", "cls": "class", "rtt": "RTT", "mix": "flows", "variant": "BBRv2's ECN"}
