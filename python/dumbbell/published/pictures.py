"""Results against published ones, as figures: errors as heat maps, or both as lines over the base RTT."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import polars as pl

from dumbbell.errors import UnknownName

if TYPE_CHECKING:
    from dumbbell.figures import Picture
    from dumbbell.published.compare import Comparison

MOST_MAPS = 200  # of errors: all pairs of congestion controls of a draft


def make_pairs(compared: Comparison, metric: str) -> tuple[pl.DataFrame, str]:
    """Return one row per compared figure of `metric`, with the keys of its cell, and what the error is called."""
    found = [p for p in compared.pairs if p.figure.metric == metric and not math.isnan(p.error)]
    if not found:
        known = sorted({p.figure.metric for p in compared.pairs})
        raise UnknownName(
            metric, among=known or "the reference has no cell that a run answers", option="--value", what="measure"
        )
    cells = [dict(p.figure.cell) for p in found]
    others = [c for c in dict.fromkeys(key for cell in cells for key in cell) if c not in _PLACE]
    unlike = [c for c in others if len({cell.get(c) for cell in cells}) > 1]
    rows = []
    for pair, cell in zip(found, cells, strict=True):
        flows = "+".join(cell[c] for c in ("cc1", "cc2") if cell.get(c))
        flow = f"flow {pair.figure.flow}" if cell.get("cc2") and pair.figure.flow else ""
        values = (cell["rate_mbit"], cell["delay_ms"], pair.simulated, pair.figure.value, pair.error)
        rows.append((flows, *(cell.get(c) for c in unlike), flow, *values))
    measured = ["rate_mbit", "delay_ms", "simulated", "published", "error"]
    frame = pl.DataFrame(rows, schema=["flows", *unlike, "flow", *measured], orient="row", infer_schema_length=None)
    texts = [name for name in ("flows", *unlike, "flow") if frame[name].dtype == pl.String]
    # in the order of the reference
    enums = [pl.col(name).cast(pl.Enum(frame[name].drop_nulls().unique(maintain_order=True))) for name in texts]
    frame = frame.with_columns(enums)
    place = [name for name in frame.columns if name not in ("seconds", "simulated", "published", "error")]
    if "seconds" in frame.columns and frame.select(*place, "seconds").n_unique() == frame.select(place).n_unique():
        frame = frame.drop("seconds")  # how long a run is follows from the rest
    return frame, found[0].score


_PLACE = ("cc1", "cc2", "rate_mbit", "delay_ms")


def _list_facets(frame: pl.DataFrame) -> list[str]:
    """Return the columns ahead of the measured ones that distinguish panels."""
    ahead = frame.columns[: frame.columns.index("rate_mbit")]
    return [name for name in ahead if frame[name].n_unique() > 1] or ahead[:1]


# per cent, at which colours end: the least that all errors are within, and no more than a mean RTT may be off in the
# validation
_BARS = (1.0, 2.0, 6.0)


def draw_errors(frame: pl.DataFrame, score: str) -> Picture:
    """Return heat maps of errors in per cent, rate by base RTT, from `pairs`; `score` says what an error is."""
    from dumbbell import figures

    name, _, formula = score.partition(", ")
    formula = figures.format_number(re.sub(r"\|(.*)\|", r"(\1)" if "/" in formula else r"\1", formula))
    formula = formula.replace("sim ", "simulated ").replace("pub", "reference")
    facets = _list_facets(frame)
    errors = frame.with_columns(pl.col("error") * 100)
    worst = max(map(abs, errors["error"].to_list()))
    bar = next((bar for bar in _BARS if worst <= bar), _BARS[-1])
    said = [f"error: {formula}", f"the largest is {_round_up(worst)} %"]
    said += [f"colours end at {bar:g} %"] if worst > bar else []
    return figures.heat(
        errors,
        "delay_ms",
        "rate_mbit",
        "error",
        limit=bar,
        facet=facets,
        most_panels=MOST_MAPS,
        columns=min(4, frame.select(facets).n_unique()),
        x_label="base RTT, ms",
        y_label="rate, Mbit/s",
        label=f"{name} error, %",
        title="; ".join(said),
    )


def _round_up(value: float) -> str:
    """Return a bound to two digits, which nothing exceeds."""
    if value <= 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step - 1e-9) * step:.2g}" if value < 100 else f"{math.ceil(value)}"


def draw_both(frame: pl.DataFrame, metric: str) -> Picture:
    """Return lines over the base RTT, simulated and published."""
    from dumbbell import figures

    label = {"rtt_ms": "mean RTT, ms", "jain": "Jain's index"}.get(
        metric, metric.removesuffix("_mbit") + ", Mbit/s" * ("mbit" in metric)
    )
    return figures.lines(
        frame,
        "delay_ms",
        "simulated",
        by="rate_mbit",
        facet=_list_facets(frame),
        reference="published",
        x_label="base RTT, ms",
        y_label=label,
    )
