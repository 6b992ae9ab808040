"""Version against version of DualPI2, from versions-diff*.toml.

Every comparison pairs runs of one cell and seed; means of a cell's change count all cells alike.
"""

import json
from collections.abc import Callable
from typing import Any

import polars as pl

from dumbbell.results import diff
from dumbbell.study import (
    Evidence,
    Nothing,
    Picture,
    Results,
    Rows,
    Sweep,
    align_table,
    choose_title,
    count_experiment_seeds,
    figures,
    format_number,
    join_words,
    order_names,
)

from . import paper

QUESTION = "What did each published version change?"
GALLERY = {"versions-diff": "dualpi2-versions-wrr"}
RUNS = (Sweep("dualpi2-versions.duckdb", ("versions-diff*",)),)
# versions, and constants of the algorithms and of the statistics
NAMES = (
    *(r"0952823", r"4e82fd8", r"by 6 bits", r"by 127", r"40 ms older", r"95 % interval", r"rate of 5 %"),
    *(r"[Tt]hree (?:commits|workloads)", r"all (?:cells|rows)"),
)
SHIFTED = "4e82fd8, terms shifted"
# each version against the one before it, and the name of its figure
PAIRS = (
    ("tsfifo", "wrr", "DUALPI2WRR against the time-shifted FIFO"),
    ("tsfifo", "wrrb", "DUALPI2WRRB against the time-shifted FIFO"),
    ("0952823", "cbd8653", "cbd8653 (statistics are reset) against 0952823"),
    ("cbd8653", "4e82fd8", "4e82fd8 (sign preserved) against cbd8653"),
    (SHIFTED, "4e82fd8", "4e82fd8 against itself with the terms of its controller shifted by 6 bits"),
)
WORKLOADS = ("one flow each", "one flow each and short flows", "five flows each and UDP")
_SHORT = ("L, slow-down of short flows", "C, slow-down of short flows")
LIMITS = (-60.0, 110.0)  # per cent, of the figures: all changes with their intervals
MEASURES = (paper.USE, paper.RATIO, paper.WINDOW_RATIO, *paper.RATES, *paper.DELAYS, *paper.SIGNALS, *_SHORT)
_UNITS = {"rate": "Mbit/s", "mean": "ms", "P99": "ms", "marks": "%", "drops": "%"}
_WORDS = {"mean": "mean time in queue", "P99": "P99 time in queue"}
_CELL = ["workload", "cc", "rate", "rtt_l", "rtt_c", "flows_l", "flows_c", "udp", "udp_in"]


def read(found: Results) -> pl.DataFrame:
    """Return every value of every run, one per row, with version, workload and cell."""
    rows = []
    for run in found.runs.iter_rows(named=True):
        place = paper.describe(run)
        if place is not None:
            aqm = json.loads(run["config"])["bottleneck"]["aqm"]
            version = aqm["version"] if aqm["arithmetic"] is None else SHIFTED
            workload = WORKLOADS[2 if place["udp_in"] else paper.LOADS.index(place["load"])]
            rows.append({**place, "version": version, "workload": workload})
    if not rows:
        raise Nothing("no run of DualPI2's versions", "results of versions-diff*.toml", file=found.path)
    runs = pl.DataFrame(rows, infer_schema_length=None)
    finished = pl.col("finished")
    short = (
        found.frame("slowdowns")
        .join(found.classes.select("key", "class", "cc"), on=["key", "class"])
        .with_columns(
            what=pl.when(pl.col("cc").is_in(paper.SCALABLE)).then(pl.lit(_SHORT[0])).otherwise(pl.lit(_SHORT[1]))
        )
        .filter(finished > 0)
        .group_by("key", "what")
        .agg(value=(pl.col("slowdown_mean") * finished).sum() / finished.sum())
    )
    values = pl.concat([paper.stack_values(found.runs, found.classes), short]).filter(pl.col("what").is_in(MEASURES))
    return runs.join(values, on="key")


def _compare_versions(values: pl.DataFrame, first: str, second: str) -> diff.Diff:
    """Return what differs between two versions in the same cells."""
    cells = values.select(_CELL).unique().sort(_CELL).with_row_index("pair")
    long = values.join(cells, on=_CELL).select(
        pl.col("pair").cast(pl.Int64),
        "version",
        pl.format("{} {} Mbit/s {}/{} ms", "cc", "rate", "rtt_l", "rtt_c").alias("where"),
        pl.lit("").alias("table"),
        pl.col("what").alias("measure"),
        pl.lit("").alias("part"),
        "seed",
        "hash",
        "value",
    )
    sides = [long.filter(pl.col("version") == version).drop("version") for version in (first, second)]
    return diff.compare_rows(sides[0], sides[1], (first, second))


def name_of(what: str) -> str:
    """Return a measure in words with its unit."""
    side, _, measure = what.partition(", ")
    if not measure or what == paper.USE:
        return what
    unit = _UNITS.get(measure)
    return f"{side}: {_WORDS.get(measure, measure)}" + (f", {unit}" if unit else "")


def _count_identical(values: pl.DataFrame, first: str, second: str) -> tuple[int, int]:
    """Return how many runs of two versions are the same to the last bit, and how many there are of both."""
    runs = values.select(*_CELL, "version", "seed", "hash").unique()
    sides = [runs.filter(pl.col("version") == version).drop("version") for version in (first, second)]
    both = sides[0].join(sides[1], on=[*_CELL, "seed"], suffix="_b")
    return both.filter(pl.col("hash") == pl.col("hash_b")).height, both.height


def make_evidence(results: Results) -> dict[str, pl.DataFrame]:
    """Return changes of every measure by pair and workload, means of every cell, and how many runs are alike."""
    values = read(results)
    changes, alike = [], []
    for first, second, _ in PAIRS:
        same, runs = _count_identical(values, first, second)
        alike.append({"a": first, "b": second, "same": same, "runs": runs})
        for workload in WORKLOADS if same < runs else ():
            here = values.filter(pl.col("workload") == workload)
            if not {first, second} <= set(here["version"]):
                continue
            for row in _compare_versions(here, first, second).measures.iter_rows(named=True):
                wanted = ("change", "change_low", "change_high", "differs", "differing", "cells")
                kept = {name: row[name] for name in wanted}
                means = {"mean_a": row["a"], "mean_b": row["b"]}
                changes.append({"a": first, "b": second, "workload": workload, "what": row["measure"], **means, **kept})
    names = {"tsfifo": "tsfifo", "wrr": "wrr", "wrrb": "wrrb", "4e82fd8": "divided", SHIFTED: "shifted"}
    cells = (
        values.filter(pl.col("version").is_in(list(names)))
        .group_by("workload", *_CELL[1:], "what", "version", maintain_order=True)
        .agg(pl.col("value").mean())
        .with_columns(version=pl.col("version").replace_strict(names))
        .pivot("version", index=["workload", *_CELL[1:], "what"], values="value")
    )
    keys = ["workload", "cc", "rate", "rtt_l", "rtt_c", "udp_in", "udp", "what"]
    return {
        "changes": pl.DataFrame(changes, infer_schema_length=None),
        "alike": pl.DataFrame(alike),
        "cells": cells.sort(keys, nulls_last=True),
    }


def make_facts(found: Evidence) -> dict[str, Any]:
    """Return measures under their names for the template."""
    return {
        "workloads": WORKLOADS,
        "shifted": SHIFTED,
        "short": _SHORT,
        "ratio": paper.RATIO,
        "use": paper.USE,
        "change": lambda a, b, workload, what: Rows(
            "change",
            found["changes"].filter(
                pl.col("a") == a, pl.col("b") == b, pl.col("workload") == workload, pl.col("what") == what
            ),
        ),
    }


def format_table(found: Evidence, first: str, second: str, workload: str) -> str:
    """Return every measure with the mean change of a cell, its interval and the verdict, as Markdown."""
    chosen = found["changes"].filter(pl.col("a") == first, pl.col("b") == second, pl.col("workload") == workload)
    rows = {row["what"]: row for row in chosen.iter_rows(named=True)}
    body = []
    for what in MEASURES:
        row = rows.get(what)
        if row is None or row["mean_a"] == row["mean_b"] == 0:
            continue
        ends = row["change_low"], row["change_high"]
        body.append(
            [
                name_of(what),
                format_number(row["mean_a"]),
                format_number(row["mean_b"]),
                "-" if row["change"] is None else diff.format_percent(row["change"]),
                "-" if None in ends else diff.format_interval(*ends, diff.format_percent),
                "**yes**" if row["differs"] else "no",
                f"{row['differing']} of {row['cells']}",
            ]
        )
    header = ["measure", first, second, "mean change of a cell", "95 % interval", "differs", "cells that differ"]
    return align_table(header, body, words=(0, 5))


def format_data(found: Evidence) -> str:
    """Return the tables of all comparisons in which something differs."""
    parts = []
    for first, second, title in PAIRS:
        chosen = found["changes"].filter(pl.col("a") == first, pl.col("b") == second)
        if chosen.height:
            parts.append(f"## {title}")
            parts += [
                f"{workload[0].upper()}{workload[1:]}:\n\n{format_table(found, first, second, workload)}"
                for workload in WORKLOADS
            ]
    return "\n\n".join(parts)


def _describe_intervals(found: Evidence) -> str:
    """Return what the intervals are over: seeds or, of one seed, cells."""
    seeds = max(count_experiment_seeds(found, *found.made), default=1)
    return f"95 % intervals over {seeds} seeds" if seeds > 1 else "one seed, 95 % intervals over cells"


def _find_change(found: Evidence, first: str, second: str, what: str) -> Rows:
    """Return the changes of a measure from one version to another, in all workloads or in some."""
    rows = found["changes"].filter(pl.col("a") == first, pl.col("b") == second, pl.col("what") == what)
    return Rows(f"changes of {what}", rows)


def _answer_wrr(found: Evidence) -> str | None:
    changes = Rows("changes", found["changes"].filter(pl.col("a") == "tsfifo", pl.col("b") == "wrr"))
    same, others = (changes(workload=names).differs for names in (WORKLOADS[0], list(WORKLOADS[1:])))
    if not any(same) and sum(others) > 5:
        return "WRR matters only where one queue fills up: with short flows, and with UDP"
    return None


def _answer_wrrb(found: Evidence) -> str | None:
    wait = _find_change(found, "tsfifo", "wrrb", "L, mean")
    if not all(wait.differs):
        return None
    places = zip(("one flow each", "short flows", "UDP"), WORKLOADS, strict=True)
    grown = [f"{diff.format_percent(wait(workload=workload).change.only)} ({place})" for place, workload in places]
    return figures.format_number(f"WRRB changes the mean time in L by {join_words(grown)}")


def _answer_shifted(found: Evidence) -> str | None:
    wait = _find_change(found, SHIFTED, "4e82fd8", "C, mean")
    if all(wait.differs) and wait.change.min > 0.1:
        grown = f"{100 * wait.change.min:.0f} to {100 * wait.change.max:.0f} %"
        return f"Terms divided by 127 lengthen the mean time in C by {grown} against shifted terms"
    return None


def _draw_forest(first: str, second: str, answer: Callable[[Evidence], str | None]) -> Any:
    def draw(found: Evidence) -> Picture:
        chosen = found["changes"].filter(pl.col("a") == first, pl.col("b") == second, pl.col("change").is_not_null())
        moved = chosen.filter((pl.col("mean_a") != 0) | (pl.col("mean_b") != 0))["what"].unique()
        measures = [what for what in MEASURES if what in moved]
        names = [name_of(what).split(", ms")[0].removesuffix(", %").removesuffix(", Mbit/s") for what in measures]
        shown = chosen.filter(pl.col("what").is_in(measures)).with_columns(
            name=pl.col("what").replace_strict(dict(zip(measures, names, strict=True))).cast(pl.Enum(names)),
            workload=order_names("workload", WORKLOADS),
            **{name: 100 * pl.col(name) for name in ("change", "change_low", "change_high")},
        )
        return figures.forest(
            shown,
            "name",
            "change",
            low="change_low",
            high="change_high",
            sure="differs",
            facet="workload",
            columns=3,
            limits=LIMITS,
            x_label="mean change of a cell, %",
            title=choose_title(lambda: answer(found), f"{second} against {first}")
            + f"\n{_describe_intervals(found)}; filled: significant (FDR 5 %)",
        )

    return draw


FIGURES = {
    "dualpi2-versions-wrr": _draw_forest("tsfifo", "wrr", _answer_wrr),
    "dualpi2-versions-wrrb": _draw_forest("tsfifo", "wrrb", _answer_wrrb),
    "dualpi2-versions-shifted": _draw_forest(SHIFTED, "4e82fd8", _answer_shifted),
}
TABLES = {"data": format_data}
PARTS = {"tables.md": "data.md"}
