"""Figures: a heat map of errors beside a reference, time series of flows, a measure against a key."""

import math
import re
from pathlib import Path

import matplotlib as mpl
import polars as pl

from dumbbell.compare import Comparison
from dumbbell.errors import InputError
from dumbbell.tables import Frame

mpl.use("Agg")
from matplotlib import pyplot as plt

MOST_LINES = 10


def errors(comparison: Comparison, metric: str, output: str | Path) -> None:
    """Draw the errors of `metric` (`goodput_mbit`, `rtt_ms`, ...), rate by delay, one map for each pair of flows.

    Raises InputError if nothing was compared by that metric or `output` cannot be written.
    """
    pairs = [p for p in comparison.pairs if p.figure.metric == metric and not math.isnan(p.error)]
    if not pairs:
        known = sorted({p.figure.metric for p in comparison.pairs})
        raise InputError("--value", "", metric, ", ".join(known) or "a reference that some run answers")
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for pair in pairs:
        cell = dict(pair.figure.cell)
        name = "+".join(cell[c] for c in ("cc1", "cc2") if cell.get(c)) + f" {cell.get('qdisc', '')}"
        flow = f" flow {pair.figure.flow}" if cell.get("cc2") and pair.figure.flow else ""
        groups.setdefault(name + flow, []).append((cell["rate_mbit"], cell["delay_ms"], pair.error))
    across = min(4, len(groups))
    down = -(-len(groups) // across)
    figure, axes = plt.subplots(down, across, figsize=(4 * across + 1, 3.2 * down), squeeze=False, layout="constrained")
    most = max(abs(error) for cells in groups.values() for *_, error in cells) or 1.0
    image = None
    for axis, (name, cells) in zip(axes.flat, groups.items(), strict=False):
        rates, delays = sorted({c[0] for c in cells}), sorted({c[1] for c in cells})
        grid = [[math.nan] * len(delays) for _ in rates]
        for rate, delay, error in cells:
            grid[rates.index(rate)][delays.index(delay)] = error
        axis.set_facecolor("0.85")  # grey: nothing published, as against white: no error
        image = axis.imshow(grid, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", origin="lower")
        axis.set_xticks(range(len(delays)), [f"{d:g}" for d in delays])
        axis.set_yticks(range(len(rates)), [f"{r:g}" for r in rates])
        axis.set(title=name, xlabel="base RTT, ms", ylabel="rate, Mbit/s")
    for axis in list(axes.flat)[len(groups) :]:
        axis.set_visible(False)
    if image is not None:
        figure.colorbar(image, ax=axes, label=_signed(pairs[0].score))
    _save(output)


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
    _, axis = plt.subplots(figsize=(9, 4.5), layout="constrained")
    keys = ["key", "flow"] if "flow" in table.columns else ["key"]
    lines = table.filter(pl.col(column).is_not_null()).partition_by(keys, as_dict=True, maintain_order=True)
    # of UDP there is no window and no RTT
    lines = {line: rows for line, rows in lines.items() if rows[column].cast(pl.Float64).is_not_nan().any()}
    for line, rows in list(lines.items())[:MOST_LINES]:
        name = labels.get(str(line[0]), "") + (f" flow {line[1]}" if len(line) > 1 and line[1] is not None else "")
        axis.plot(rows["time_s"], rows[column], label=name, linewidth=1)
    axis.set(xlabel="time, s", ylabel=column, ylim=(0, None))
    if axis.get_legend_handles_labels()[1]:
        axis.legend(fontsize="small")
    if len(lines) > MOST_LINES:
        axis.set_title(f"first {MOST_LINES} of {len(lines)} lines", fontsize="small")
    _save(output)


def against(frame: Frame, key: str, value: str, output: str | Path) -> None:
    """Draw the means of a measure against a key: one line for each combination of the other keys that vary.

    The values of the key stand at equal distances. Raises InputError if there is no such key or measure or `output`
    cannot be written.
    """
    measure = frame.measure(value)
    by_flow = frame.is_flow_measure(measure)
    across = frame.key(key, by_flow=by_flow, option="--against")
    others = ["experiment", *(name for name in frame.matrix_keys if name.split(".")[-1] != key.split(".")[-1])]
    if by_flow and frame.flows["flow"].n_unique() > 1:
        others.append("flow")
    lines = _varying(frame, others, by_flow=by_flow)
    heads = {text: order for order, text in sorted(zip(across.order, across.texts, strict=True))}
    means: dict[tuple[str, str], list[float]] = {}
    for line, text, number in zip(lines, across.texts, frame.rows(by_flow=by_flow)[measure].to_list(), strict=True):
        if number is not None:
            means.setdefault((line, text), []).append(float(number))
    _, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for line in sorted(set(lines)):
        points = [(i, means[line, head]) for i, head in enumerate(heads) if (line, head) in means]
        axis.plot([i for i, _ in points], [sum(v) / len(v) for _, v in points], marker="o", markersize=4, label=line)
    axis.set_xticks(range(len(heads)), list(heads))
    axis.set(xlabel=key, ylabel=measure, ylim=(0, None))
    axis.grid(alpha=0.3)
    if any(lines):
        axis.legend(fontsize="small")
    _save(output)


def _varying(frame: Frame, names: list[str], *, by_flow: bool) -> list[str]:
    """Return what tells the rows of a frame apart: the values of those keys in `names` that differ."""
    keys = [frame.key(name, by_flow=by_flow) for name in names]
    columns = [[_said(key.name, text) for text in key.texts] for key in keys if len(set(key.texts)) > 1]
    return [", ".join(texts) for texts in zip(*columns, strict=True)] or [""] * frame.rows(by_flow=by_flow).height


def _said(name: str, text: str) -> str:
    """Return a value with the last word of its key; an algorithm says by itself what it is."""
    word = name.rpartition(".")[2]
    return text if word in ("cc", "aqm") else f"{word} {text}"


def _save(output: str | Path) -> None:
    try:
        plt.savefig(output, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(str(output), "", str(error), "a file name that ends in .png, .pdf or .svg") from None
    finally:
        plt.close("all")
