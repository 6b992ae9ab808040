"""Figures of a results file as `dumbbell plot` draws them: errors, time series, a measure against a key."""

import math
import re
from pathlib import Path

import polars as pl

from dumbbell import units
from dumbbell.compare import Comparison
from dumbbell.errors import InputError
from dumbbell.figures.canvas import Picture, save
from dumbbell.figures.heat import heat
from dumbbell.figures.lines import lines
from dumbbell.figures.over_time import Series, stacked_series
from dumbbell.tables import Frame

MOST_LINES = 10
MOST_MAPS = 200


def errors(comparison: Comparison, metric: str, output: str | Path) -> None:
    """Draw the errors of `metric` (`goodput_mbit`, `rtt_ms`, ...), rate by delay, one map for each pair of flows.

    Raises InputError if nothing was compared by that metric or `output` cannot be written.
    """
    pairs = [p for p in comparison.pairs if p.figure.metric == metric and not math.isnan(p.error)]
    if not pairs:
        known = sorted({p.figure.metric for p in comparison.pairs})
        raise InputError("--value", "", metric, ", ".join(known) or "a reference that some run answers")
    rows = []
    for pair in pairs:
        cell = dict(pair.figure.cell)
        flows = "+".join(cell[c] for c in ("cc1", "cc2") if cell.get(c))
        flow = pair.figure.flow if cell.get("cc2") and pair.figure.flow else None
        rows.append((flows, cell.get("qdisc", ""), flow, cell["rate_mbit"], cell["delay_ms"], pair.error))
    facets, place = ["flows", "qdisc", "flow"], ["rate_mbit", "delay_ms"]
    frame = pl.DataFrame(rows, schema=[*facets, *place, "error"], orient="row", infer_schema_length=None)
    # several cells of one place (of other durations, say) are drawn as the last one
    frame = frame.unique([*facets, *place], keep="last", maintain_order=True)
    frame = frame.with_columns(
        pl.col(name).cast(pl.Enum(frame[name].unique(maintain_order=True))) for name in facets[:2]
    )
    picture = heat(
        frame,
        "delay_ms",
        "rate_mbit",
        "error",
        facet=facets,
        most_panels=MOST_MAPS,
        columns=min(4, frame.select(facets).n_unique()),
        x_label="base RTT, ms",
        y_label="rate, Mbit/s",
        label=_signed(pairs[0].score),
    )
    save(picture, output)


def _signed(score: str) -> str:
    """Return the name of a score, `goodput, |sim - pub| / rate`, with the sign that a map shows."""
    return re.sub(r"\|(.*)\|", r"(\1)", score)


def series(
    frame: Frame, tables: list[pl.DataFrame], value: str, output: str | Path, time: tuple[float, float] | None = None
) -> None:
    """Draw a column of one of the time series against time: one line a flow or run, the first ten of them.

    `time` is the part to draw, from and to, in seconds. Raises InputError if there is no such column or
    `output` cannot be written.
    """
    columns = {
        name: table for table in reversed(tables) for name in table.columns if name not in ("key", "flow", "time_s")
    }
    column = next(
        (name for name in (value, f"{value}_mbit", f"{value}_mean_ms", f"{value}_ms") if name in columns), None
    )
    if column is None:
        raise InputError(frame.file, "--value", value, ", ".join(columns) or "results with time series")
    table = columns[column]
    if time is not None:
        table = table.filter(pl.col("time_s").is_between(*time))
    labels = dict(zip(frame.runs["key"], _varying(frame, frame.matrix_keys, by_flow=False), strict=True))
    keys = ["key", "flow"] if "flow" in table.columns else ["key"]
    found = table.filter(pl.col(column).is_not_null()).partition_by(keys, as_dict=True, maintain_order=True)
    # of UDP there is no window and no RTT
    found = {line: rows for line, rows in found.items() if rows[column].cast(pl.Float64).is_not_nan().any()}
    drawn, names = [], []
    for line, rows in list(found.items())[:MOST_LINES]:
        name = labels.get(str(line[0]), "") + (f" flow {line[1]}" if len(line) > 1 and line[1] is not None else "")
        names.append(name.strip() or "run")
        drawn.append(rows.select("time_s", column, line=pl.lit(names[-1])))
    if not drawn:
        raise InputError(frame.file, "--value", value, "a measure of some flow or run, and a time in it")
    rows = pl.concat(drawn).with_columns(pl.col("line").cast(pl.Enum(list(dict.fromkeys(names)))))
    title = f"first {MOST_LINES} of {len(found)} lines" if len(found) > MOST_LINES else None
    save(stacked_series([Series(rows, column, "line")], title=title), output)


def against(frame: Frame, key: str, value: str, output: str | Path) -> Picture:
    """Draw the means of a measure against a key: one line for each combination of the other keys that vary.

    A key of numbers or quantities has an axis of numbers, any other has its values at equal distances. Raises
    InputError if there is no such key or measure or `output` cannot be written.
    """
    measure = frame.measure(value)
    by_flow = frame.is_flow_measure(measure)
    across = frame.key(key, by_flow=by_flow, option="--against")
    others = ["experiment", *(name for name in frame.matrix_keys if name.split(".")[-1] != key.split(".")[-1])]
    if by_flow and frame.flows["flow"].n_unique() > 1:
        others.append("flow")
    rows = pl.DataFrame(
        {
            "line": _varying(frame, others, by_flow=by_flow),
            "x": across.texts,
            "y": frame.rows(by_flow=by_flow)[measure].cast(pl.Float64),
        }
    )
    means = rows.filter(pl.col("y").is_not_null()).group_by("line", "x", maintain_order=True).agg(pl.col("y").mean())
    if means.is_empty():
        raise InputError(frame.file, "--value", value, "a measure of some run")
    numeric, label = _numbers(means["x"].to_list(), key)
    x = means["x"] if numeric is None else pl.Series("x", numeric)
    picture = lines(means.with_columns(x), "x", "y", by="line", x_label=label, y_label=measure)
    save(picture, output)
    return picture


def _numbers(texts: list[str], key: str) -> tuple[list[float] | None, str]:
    """Return quantities as numbers in the smallest of their units, and a label with it; None if they are words."""
    for kind, known in (("time", units.TIME), ("rate", units.RATE), ("size", units.SIZE)):
        try:
            sizes = [units.parse(kind, text) for text in texts]
        except InputError:
            continue
        unit = next((u for u, size in reversed(known.items()) if all(s % size == 0 for s in sizes)), next(iter(known)))
        return [size / known[unit] for size in sizes], f"{key}, {unit}{'/s' if kind == 'rate' else ''}"
    try:
        return [float(text) for text in texts], key
    except ValueError:
        return None, key


def _varying(frame: Frame, names: list[str], *, by_flow: bool) -> list[str]:
    """Return what tells the rows of a frame apart: the values of those keys in `names` that differ."""
    keys = [frame.key(name, by_flow=by_flow) for name in names]
    columns = [[_said(key.name, text) for text in key.texts] for key in keys if len(set(key.texts)) > 1]
    return [", ".join(texts) for texts in zip(*columns, strict=True)] or [""] * frame.rows(by_flow=by_flow).height


def _said(name: str, text: str) -> str:
    """Return a value with the last word of its key; an algorithm says by itself what it is."""
    word = name.rpartition(".")[2]
    return text if word in ("cc", "aqm") else f"{word} {text}"
