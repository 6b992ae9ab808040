"""From results to figures: what is drawn against what, in which lines and panels. `dumbbell.figures` draws it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from dumbbell import aggregate, units
from dumbbell.aggregate import Axis, Means, Samples
from dumbbell.columns import axis_label
from dumbbell.errors import InputError, nearest
from dumbbell.results import Results

if TYPE_CHECKING:
    from pathlib import Path

    from dumbbell.figures import Picture

KINDS = ("lines", "bars", "box", "cdf", "ccdf", "heat", "ratio", "ellipses", "series", "shares")
FEW_LINES, MOST_LINES = 8, 24  # in a panel: that keys nobody chose may make, and in all
FEW_PANELS, MOST_PANELS = 9, 36
_MOST_BESIDE = 4  # columns of time series
_WHICH = "flow of its kind"
_NEEDS_ONE = ("lines", "bars", "box", "cdf", "ccdf", "heat", "ratio", "shares")
_SERIES = ("goodput", "cwnd", "srtt", "sojourn", "signals")


@dataclass(frozen=True)
class _Asked:
    """What the caller wants of a figure."""

    value: tuple[str, ...]
    against: str | None
    by: tuple[str, ...]
    facet: tuple[str, ...]
    mean_over: tuple[str, ...]
    of: str | None
    baseline: str | None
    time: tuple[float, float] | None
    log_x: bool | None
    log_y: bool
    title: str | None

    @property
    def keys(self) -> list[str]:
        """The keys that are wanted somewhere."""
        return [*([self.against] if self.against else []), *self.by, *self.facet]


def plot(
    results: Results,
    kind: str | None = None,
    *,
    value: str | Sequence[str] = (),
    against: str | None = None,
    by: str | Sequence[str] = (),
    facet: str | Sequence[str] = (),
    mean_over: str | Sequence[str] = (),
    of: str | None = None,
    baseline: str | None = None,
    reference: str | Path | None = None,
    time: tuple[float, float] | None = None,
    log_x: bool | None = None,
    log_y: bool = False,
    title: str | None = None,
) -> Picture:
    """Return a figure of results: what suits their shape, or what is asked for.

    `kind` is one of `KINDS`; `value` what to draw; `against` the key along the horizontal axis, `by` the keys that
    tell lines, bars or boxes apart, `facet` those that tell panels apart. Every other key by which the runs differ
    becomes a line or a panel, unless it is in `mean_over`. `baseline`, `KEY=VALUE`, draws the difference from the
    runs with this value, seed by seed (kind "ratio": the ratio). `reference` is a CSV file of published results:
    errors as heat maps, or, with kind "lines", both beside each other. `time` is the part of time series to draw,
    from and to, in seconds.

    Raises InputError if there is no such key or measure, or too much for one figure.
    """
    asked = _Asked(
        _listed(value),
        against,
        _listed(by),
        _listed(facet),
        _listed(mean_over),
        of,
        baseline,
        time,
        log_x,
        log_y,
        title,
    )
    if kind is not None and kind not in KINDS:
        raise InputError("--kind", "", kind, ", ".join(KINDS), nearest(kind, KINDS))
    if reference is not None:
        return _beside(results, reference, kind, asked)
    kind = kind or _suits(results, asked)
    if kind in _NEEDS_ONE and len(asked.value) > 1:
        raise InputError("--value", "", ", ".join(asked.value), f"one value for {kind}")
    if asked.time is not None and kind not in ("series", "shares"):
        raise InputError("--time", "", f"{kind}, which have no time", "kind series or shares")
    if asked.baseline is not None and kind not in ("lines", "bars", "box", "heat", "ratio"):
        raise InputError("--baseline", "", kind, "kind lines, bars, box, heat or ratio")
    over_time = kind == "series" or (kind == "shares" and asked.against is None)
    if asked.of is not None and (over_time or (kind in ("cdf", "ccdf") and (asked.value or ("sojourn",))[0] in _BINS)):
        raise InputError("--of", "", f"{asked.of} with kind {kind}", "--value, which names what is drawn")
    if asked.mean_over and over_time:
        found = f"{', '.join(asked.mean_over)} with kind {kind}, which shows runs one by one"
        raise InputError("--mean-over", "", found, "--where for some of the runs")
    draw = {
        "lines": _lines,
        "bars": _bars,
        "box": _box,
        "cdf": _cdf,
        "ccdf": _ccdf,
        "heat": _heat,
        "ratio": _ratio,
        "ellipses": _ellipses,
        "series": _series,
        "shares": _shares,
    }[kind]
    return draw(results, asked)


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _suits(results: Results, asked: _Asked) -> str:
    """Return the kind of figure that suits the shape of the results."""
    if asked.time is not None:
        return "series"
    if asked.against is not None or asked.by or asked.facet:
        return "lines" if _is_numeric(results, asked.against) or asked.baseline else "bars"
    several = [one for one in results.dimensions if one.name not in asked.mean_over]
    if not several:
        has_series = not asked.of and any(config["record"]["series"] for config in results.configurations.values())
        return "series" if has_series else "box" if len(results) > 4 else "bars"
    sizes = [len(one.ordered) for one in several]
    longest = max((size for one, size in zip(several, sizes, strict=True) if one.is_numeric), default=0)
    if longest < 3:
        return "bars"
    if math.prod(sizes) / longest > FEW_LINES * FEW_PANELS and sum(size > 2 for size in sizes) > 1 and not asked.value:
        return "heat"
    return "lines"


def _is_numeric(results: Results, name: str | None) -> bool:
    if name is None:
        return True
    if name in ("from_bytes", "base_rtt"):
        return True
    if name in ("flow", "class"):  # numbers that count nothing
        return False
    return results.key(name, "--against").is_numeric


# axes


def _frame(axes: Sequence[Axis], frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose keys have an order."""
    return frame.with_columns(pl.col(axis.name).cast(pl.Enum(axis.texts)) for axis in axes)


def _numbered(axis: Axis, frame: pl.DataFrame) -> tuple[pl.DataFrame, str, str | None]:
    """Return a frame with the numbers of a key, the name of that column, and what to write at the axis."""
    if axis.numbers is None:
        return frame, axis.name, axis.label
    name = f"{axis.name} as a number"
    numbers = pl.col(axis.name).cast(pl.String).replace_strict(axis.numbers, return_dtype=pl.Float64)
    return frame.with_columns(numbers.alias(name)), name, axis.label


def _placed(
    results: Results, axes: Sequence[Axis], asked: _Asked, first: Axis | None, *, few: int = FEW_LINES
) -> tuple[list[str], list[str]]:
    """Return which keys tell lines apart and which panels; InputError if there are too many of either."""
    several = [axis for axis in axes if len(axis.texts) > 1 and axis is not first]
    size = {axis.name: len(axis.texts) for axis in several}
    if few < MOST_LINES and math.prod(size.values()) > few * MOST_PANELS:
        few = MOST_LINES
    by = [axis.name for axis in several if axis.name in asked.by]
    facet = [axis.name for axis in several if axis.name in asked.facet]
    rest = [axis for axis in several if axis.name not in (*by, *facet)]
    for axis in sorted(rest, key=lambda one: (one.name != "flow", len(one.texts))):
        lines = math.prod(size[name] for name in by) * len(axis.texts)
        fits = lines <= (MOST_LINES if not by and len(rest) == 1 else few)
        (by if fits and not (asked.by and not asked.facet) else facet).append(axis.name)
    lines, panels = (math.prod(size[name] for name in names) for names in (by, facet))
    if lines > MOST_LINES or panels > MOST_PANELS:
        what = f"{lines} lines" if lines > MOST_LINES else f"{panels} panels"
        keys = ", ".join(f"{name} ({size[name]})" for name in (by if lines > MOST_LINES else facet))
        allowed = f"at most {MOST_LINES if lines > MOST_LINES else MOST_PANELS}: --where or --mean-over for some keys"
        raise InputError(str(results.path), "plot", f"{what}, of {keys}", allowed)
    return by, facet


def _first(results: Results, axes: Sequence[Axis], asked: _Asked, *, numeric: bool) -> Axis:
    """Return the key along the horizontal axis: the one asked for, or that with the most values."""
    if asked.against is not None:
        return next(axis for axis in axes if axis.name == asked.against)
    free = [axis for axis in axes if axis.name not in (*asked.by, *asked.facet) and len(axis.texts) > 1]
    if numeric and any(axis.numbers is not None for axis in free):
        free = [axis for axis in free if axis.numbers is not None]
    if not free:
        if axes:
            return axes[0]
        raise InputError(str(results.path), "plot", "runs that differ in nothing", "kind series, box or cdf")
    return max(free, key=lambda axis: len(axis.texts))


def _y_label(found: Means | Samples, asked: _Asked, kind: str = "") -> str:
    label = axis_label(found.measure.column, found.measure.table)
    if asked.baseline:
        label = f"{label}, {'ratio to' if kind == 'ratio' else 'difference from'} {asked.baseline}"
    return label


def _note(found: Means, asked: _Asked, what: str = "95 % interval") -> str | None:
    """Return what is drawn: of how many seeds, what the bands are, what is left out."""
    parts = [asked.title] if asked.title else []
    if max(found.frame["n"].to_list(), default=0) > 1:
        parts.append(f"mean{' and ' * bool(what)}{what} over {_seeds(found.frame['n'])}")
    if found.over:
        parts.append(f"mean over {', '.join(found.over)}")
    none = int(found.frame["none"].sum())
    if none:
        parts.append(f"{none} of {int(found.frame['runs'].sum())} runs have no value")
    return "; ".join(parts) or None


def _default(asked: _Asked) -> str:
    """Return what is drawn if nobody has said; short flows have no goodput that means anything."""
    return "slowdown" if asked.of in ("slowdowns", "short_flows") else "goodput"


def _seeds(counts: pl.Series) -> str:
    """Return how many seeds there are: `1 seed`, `2 to 3 seeds`."""
    return f"{aggregate.times(counts)} seed{'' if counts.max() == 1 else 's'}"


def _found(
    results: Results, asked: _Asked, value: str, *, ratio: bool = False, total: bool = False
) -> tuple[Samples, Means]:
    """Return values of a measure, or their differences from the baseline, and the means."""
    keys = asked.keys
    base = asked.baseline.partition("=")[0].strip() if asked.baseline else None
    if base and base not in keys:
        keys = [*keys, base]
    found = aggregate.samples(
        results, value, keys, of=asked.of, mean_over=asked.mean_over, option="--against", total=total
    )
    if asked.baseline:
        assert base is not None
        try:
            text = results.where(asked.baseline).key(base).ordered
        except InputError as error:
            key = error.key if error.file == "--where" else ""
            raise InputError("--baseline", key, error.found, error.allowed, error.nearest) from None
        found = aggregate.from_baseline(found, base, text, ratio=ratio)
    return found, aggregate.means_of(found)


# kinds


def _lines(results: Results, asked: _Asked) -> Picture:
    from dumbbell import figures

    _, found = _found(results, asked, asked.value[0] if asked.value else _default(asked))
    first = _first(results, found.axes, asked, numeric=True)
    by, facet = _placed(results, found.axes, asked, first)
    frame, x, x_label = _numbered(first, _frame(found.axes, found.frame))
    return figures.lines(
        frame.drop_nulls("mean"),
        x,
        "mean",
        low="low",
        high="high",
        by=by or None,
        facet=facet or None,
        log_x=asked.log_x,
        log_y=asked.log_y,
        x_label=x_label,
        y_label=_y_label(found, asked),
        title=_note(found, asked),
    )


def _bars(results: Results, asked: _Asked) -> Picture:
    from dumbbell import figures

    _, found = _found(results, asked, asked.value[0] if asked.value else _default(asked))
    first = _first(results, found.axes, asked, numeric=False) if found.axes else None
    frame = _frame(found.axes, found.frame).drop_nulls("mean")
    if first is None:
        return figures.bars(
            frame.with_columns(all=pl.lit("all runs")),
            "all",
            "mean",
            low="low",
            high="high",
            x_label="",
            y_label=_y_label(found, asked),
            title=_note(found, asked),
        )
    by, facet = _placed(results, found.axes, asked, first, few=MOST_LINES)
    if len(by) > 2:
        by, facet = by[:2], [*by[2:], *facet]
    group, inner = (by[0], by[1]) if len(by) > 1 else (by[0] if by else None, None)
    return figures.bars(
        frame,
        first.name,
        "mean",
        low="low",
        high="high",
        group=group,
        inner=inner,
        facet=facet or None,
        log_y=asked.log_y,
        x_label=first.label_of_texts,
        y_label=_y_label(found, asked),
        title=_note(found, asked),
    )


def _box(results: Results, asked: _Asked) -> Picture:
    from dumbbell import figures

    found, means = _found(results, asked, asked.value[0] if asked.value else _default(asked))
    frame = _frame(found.axes, found.frame).drop_nulls("value")
    first = _first(results, found.axes, asked, numeric=False) if found.axes else None
    by, facet = _placed(results, found.axes, asked, first) if first else ([], [])
    return figures.box(
        frame if first else frame.with_columns(pl.lit("all runs").alias("runs")),
        first.name if first else "runs",
        "value",
        by=by or None,
        facet=facet or None,
        log_y=asked.log_y,
        x_label=first.label_of_texts if first else "",
        y_label=_y_label(found, asked),
        title=asked.title or _seeds(means.frame["n"]),
    )


_BINS = {"sojourn": ("sojourn", "from_ms", "packets"), "rtt": ("rtt", "from_ms", "samples")}


def _cdf(results: Results, asked: _Asked, *, complementary: bool = False) -> Picture:
    from dumbbell import figures

    value = asked.value[0] if asked.value else "sojourn"
    if value in _BINS:
        table, column, weight = _BINS[value]
        found = aggregate.rows(results, table, [column, weight], asked.keys, mean_over=asked.mean_over)
        label = axis_label(column, table)
    elif value in ("completion", "slowdown", "completion_s"):
        column, weight = ("slowdown" if value == "slowdown" else "completion_s"), None
        found = aggregate.rows(results, "short_flows", [column], asked.keys, mean_over=asked.mean_over)
        label = axis_label(column, "short_flows")
    else:
        found, _ = _found(results, asked, value)
        column, weight, label = "value", None, _y_label(found, asked)
    by, facet = _placed(results, found.axes, asked, None)
    frame = _frame(found.axes, found.frame).drop_nulls(column)
    runs = frame.group_by([axis.name for axis in found.axes] or pl.lit(1)).agg(pl.col("hash").n_unique())["hash"]
    together = f"{aggregate.times(runs)} runs, all {', '.join(found.over)}," if found.over else _seeds(runs)
    return figures.cdf(
        frame,
        column,
        weight=weight,
        by=by or None,
        facet=facet or None,
        complementary=complementary,
        log_x=asked.log_x,
        log_y=asked.log_y or complementary,
        x_label=label,
        title=asked.title or (f"{together} together" if runs.max() != 1 else None),
    )


def _ccdf(results: Results, asked: _Asked) -> Picture:
    return _cdf(results, asked, complementary=True)


def _heat(results: Results, asked: _Asked, *, ratio: bool = False) -> Picture:
    from dumbbell import figures

    if ratio and not asked.baseline:
        raise InputError("--kind", "", "ratio without --baseline", "--baseline KEY=VALUE, the runs to divide by")
    _, found = _found(results, asked, asked.value[0] if asked.value else "utilisation", ratio=ratio)
    several = [axis for axis in found.several if axis.name not in asked.facet]
    chosen = [axis for axis in several if axis.name in (asked.against, *asked.by)]
    others = sorted((a for a in several if a not in chosen), key=lambda a: (a.numbers is None, -len(a.texts)))
    chosen = [*chosen, *others][:2]
    if len(chosen) < 2:
        raise InputError(str(results.path), "plot", "fewer than two keys that differ", "two keys for a heat map")
    # delays across and rates up, as published maps have them
    x, y = chosen if asked.against or "rtt" in chosen[0].name else chosen[::-1]
    rest = [axis for axis in found.axes if axis not in (x, y)]
    _, facet = _placed(results, rest, _with_facets(asked, [axis.name for axis in rest]), None)
    frame = _frame(found.axes, found.frame)
    frame, across, _ = _numbered(x, frame)
    frame, up, _ = _numbered(y, frame)
    return figures.heat(
        frame,
        across,
        up,
        "mean",
        facet=facet or None,
        kind="ratio" if ratio else "difference" if asked.baseline else "plain",
        x_label=x.label,
        y_label=y.label,
        label=_y_label(found, asked, "ratio" if ratio else ""),
        title=_note(found, asked, ""),
    )


def _ratio(results: Results, asked: _Asked) -> Picture:
    return _heat(results, asked, ratio=True)


def _ellipses(results: Results, asked: _Asked) -> Picture:
    from dumbbell import figures

    x_value, y_value = asked.value if len(asked.value) == 2 else ("flows.sojourn_mean_ms", "flows.throughput_mbit")
    if len(asked.value) not in (0, 2):
        raise InputError("--value", "", ", ".join(asked.value), "two values: a delay and a throughput")
    delay, throughput = (
        aggregate.samples(results, one, asked.keys, of=asked.of, mean_over=asked.mean_over, option="--by")
        for one in (x_value, y_value)
    )
    names = [axis.name for axis in delay.axes]
    joined = delay.frame.join(
        throughput.frame, on=[*names, aggregate.SEED, "hash"], suffix=" of throughput"
    ).drop_nulls()
    by, facet = _placed(results, delay.axes, asked, None, few=12)
    seeds = joined.group_by(names or pl.lit(1)).agg(pl.col("hash").n_unique())["hash"]
    return figures.ellipses(
        _frame(delay.axes, joined),
        "value",
        "value of throughput",
        by=by or None,
        facet=facet or None,
        log_x=asked.log_x,
        x_label=axis_label(delay.measure.column, delay.measure.table),
        y_label=axis_label(throughput.measure.column, throughput.measure.table),
        title=asked.title or (f"mean and standard deviation of {_seeds(seeds)}" if seeds.max() != 1 else None),
    )


_CAPACITY = "capacity_mbit"
_PANELS = {
    "goodput": ("series", "goodput_mbit"),
    "cwnd": ("series", "cwnd"),
    "ssthresh": ("series", "ssthresh"),
    "srtt": ("series", "srtt_ms"),
    "rtt": ("series", "srtt_ms"),
    "in_flight": ("series", "in_flight"),
    "retransmissions": ("series", "retransmissions"),
    "sojourn": ("queue_series", "sojourn_mean_ms"),
    "backlog": ("queue_series", "backlog_packets"),
    "backlog_bytes": ("queue_series", "backlog_bytes"),
    "throughput": ("queue_series", "throughput_mbit"),
    "capacity": ("queue_series", _CAPACITY),
    "marks": ("queue_series", "ce_marks"),
    "sce_marks": ("queue_series", "sce_marks"),
    "drops": ("queue_series", "drops"),
}


def _series(results: Results, asked: _Asked) -> Picture:
    from dumbbell import figures

    wanted = list(asked.value or _SERIES)
    one_seed = _one_seed(results)
    frames: dict[str, Samples] = {}
    alike = 1
    for table in ("series", "queue_series"):
        columns = list(dict.fromkeys(column for of, column in _PANELS.values() if of == table))
        if _CAPACITY in columns and _CAPACITY not in one_seed.measures(table):
            columns.remove(_CAPACITY)  # of an engine that did not write it
        keys = ["flow"] if table == "series" and "flow" in (*asked.by, *asked.facet) else []
        found = aggregate.rows(one_seed, table, ["time_s", *columns], keys)
        if found.frame.is_empty() and table == "queue_series":
            raise InputError(
                str(results.path), "--kind series", "runs without time series", "runs with record.series = true"
            )
        if asked.time:
            found.frame = found.frame.filter(pl.col("time_s").is_between(*asked.time))
            if found.frame.is_empty() and table == "queue_series":
                raise InputError("--time", "", "no point of the time series in this time", "a time within the runs")
        if table == "series":
            # nothing has been measured before the first ACK
            found.frame = found.frame.with_columns(pl.col("srtt_ms").replace(0.0, None))
            found, alike = _of_alike(found, columns)
        frames[table] = found
    beside = _side_by_side(frames, asked)
    varies = _varies(frames["queue_series"])
    if varies and not asked.value:
        wanted.insert(0, "throughput")
    panels = []
    for name in wanted:
        if name == "signals":
            panels += _signals(frames["queue_series"], beside)
            continue
        key = next((key for key, (_, column) in _PANELS.items() if name in (key, column)), None)
        if key is None:
            raise InputError(
                "--value", "", name, ", ".join([*_PANELS, "signals"]), nearest(name, [*_PANELS, "signals"])
            )
        table, column = _PANELS[key]
        found = frames[table]
        if column not in found.frame.columns:
            raise InputError(
                str(results.path), "--value", f"no {name}", "runs of an engine that writes it: run them again"
            )
        several = [axis for axis in found.several if axis.name != beside]
        by = [axis.name for axis in several]
        lines = math.prod(len(axis.texts) for axis in several)
        if lines > MOST_LINES:
            keys_text = ", ".join(f"{axis.name} ({len(axis.texts)})" for axis in several)
            raise InputError(
                str(results.path), "plot", f"{lines} lines, of {keys_text}", f"at most {MOST_LINES}: --where"
            )
        frame = _frame(found.axes, found.frame).drop_nulls(column)
        if key == "throughput" and varies:
            panels.append(_beside_capacity(frame, by, beside))
            continue
        panels.append(figures.Series(frame, column, by or None, axis_label(column, table)))
    parts = [f"seed {one_seed.seeds[0]} of {len(results.seeds)}"] * (len(results.seeds) > 1)
    parts += [f"each line of flows the mean of {alike} alike"] * (alike > 1)
    title = asked.title or "; ".join(parts) or None
    return figures.stacked_series(panels, columns=beside, marks=_rate_changes(one_seed), title=title)


def _one_seed(results: Results) -> Results:
    return results.where(f"seed={min(results.seeds)}") if len(results.seeds) > 1 else results


def _of_alike(found: Samples, columns: Sequence[str], *, total: bool = False) -> tuple[Samples, int]:
    """Return a line for each of the flows that are alike if they are few, else their mean, and of how many that is.

    With `total` it is their sum.
    """
    names = [axis.name for axis in found.axes]
    place = [*names, aggregate.SEED, "key", "time_s"]
    numbered = found.frame.with_columns(which=pl.int_range(pl.len()).over(place) + 1)
    alike: int = max(numbered["which"].to_list(), default=1)
    if alike == 1:
        return found, 1
    if math.prod(len(axis.texts) for axis in found.several) * alike <= FEW_LINES:
        alone = "" if any(axis.name == "flow" for axis in found.several) else "flow "
        texts = [f"{alone}#{number}" for number in range(1, alike + 1)]
        which = (pl.lit(f"{alone}#") + pl.col("which").cast(pl.String)).alias(_WHICH)
        return replace(found, axes=[*found.axes, Axis(_WHICH, texts)], frame=numbered.with_columns(which)), 1
    values = [pl.col(column).sum() if total else pl.col(column).mean() for column in columns]
    return replace(found, frame=found.frame.group_by(place, maintain_order=True).agg(values)), alike


def _side_by_side(frames: dict[str, Samples], asked: _Asked) -> str | None:
    """Return the key of runs whose values stand side by side: the facet asked for, else one where flows differ too."""
    several = [axis for axis in frames["queue_series"].several if axis.name not in asked.by]
    of_runs = [axis for axis in several if len(axis.texts) <= _MOST_BESIDE]
    names = [axis.name for axis in of_runs]
    for name in asked.facet:
        full = next((one for one in names if name in (one, one.rpartition(".")[2])), None)
        if full is None:
            raise InputError(
                "--facet", "", name, f"a key of runs with at most {_MOST_BESIDE} values: {', '.join(names)}"
            )
        return full
    of_flows = len(frames["series"].several) > len(frames["queue_series"].several)
    return max(of_runs, key=lambda axis: len(axis.texts)).name if of_runs and of_flows else None


def _varies(queue: Samples) -> bool:
    """Return whether what the link could carry changes within a run."""
    return _CAPACITY in queue.frame.columns and bool(
        queue.frame.group_by("key").agg(pl.col(_CAPACITY).round(3).n_unique() > 1)[_CAPACITY].any()
    )


def _beside_capacity(frame: pl.DataFrame, by: Sequence[str], beside: str | None) -> Any:
    """Return a panel of throughput and of what the link could carry."""
    from dumbbell import figures

    names = {"throughput_mbit": "throughput", _CAPACITY: "capacity"}
    index = ["time_s", *by, *([beside] if beside else [])]
    long = frame.unpivot(list(names), index=index, variable_name="link")
    link = pl.col("link").replace_strict(names, return_dtype=pl.String).cast(pl.Enum(list(names.values())))
    return figures.Series(long.with_columns(link), "value", [*by, "link"], "Mbit/s")


def _signals(queue: Samples, beside: str | None) -> list[Any]:
    """Return a panel of marks and drops an interval, of those that there are."""
    from dumbbell import figures

    names = {"ce_marks": "CE marks", "sce_marks": "SCE marks", "drops": "drops"}
    there = [name for name in names if queue.frame[name].sum() > 0]
    if not there:
        return []
    kept = [axis.name for axis in queue.several if axis.name != beside]
    index = ["time_s", *kept, *([beside] if beside else [])]
    frame = _frame(queue.axes, queue.frame).unpivot(there, index=index, variable_name="signal")
    signals = pl.col("signal").replace_strict(names, return_dtype=pl.String).cast(pl.Enum([names[n] for n in there]))
    label = f"{names[there[0]] if len(there) == 1 else 'packets'} an interval"
    return [figures.Series(frame.with_columns(signals), "value", [*kept, "signal"], label, counts=True)]


def _rate_changes(results: Results) -> list[tuple[float, str]]:
    """Return when the rate of the bottleneck changes, and to what; none if the runs differ in it."""
    changes = [config["bottleneck"]["rate_changes"] for config in results.configurations.values()]
    if any(change != changes[0] for change in changes):
        return []
    return [(change["at"] / 1e9, units.show("rate", change["rate"])) for change in changes[0]]


def _shares(results: Results, asked: _Asked) -> Picture:
    from dumbbell import figures

    if asked.against is None:
        one = _one_seed(results)
        found = aggregate.rows(one, "series", ["time_s", "goodput_mbit"], asked.keys)
        if asked.time:
            found.frame = found.frame.filter(pl.col("time_s").is_between(*asked.time))
        if found.frame.is_empty():
            raise InputError(
                str(results.path), "--kind shares", "runs without time series", "--against KEY, or such runs"
            )
        found, _ = _of_alike(found, ["goodput_mbit"], total=True)
        x, y, label = "time_s", "goodput_mbit", "time, s"
        frame = _frame(found.axes, found.frame)
        note = f"seed {one.seeds[0]} of {len(results.seeds)}" if len(results.seeds) > 1 else None
        axes, first = found.axes, None
    else:
        _, means = _found(results, asked, asked.value[0] if asked.value else "flows.goodput_mbit", total=True)
        first = _first(results, means.axes, asked, numeric=True)
        frame, x, _ = _numbered(first, _frame(means.axes, means.frame))
        y, label, note, axes = "mean", first.label, _note(means, asked), means.axes
    parts = ("flow", _WHICH, *asked.by)
    by = [axis.name for axis in axes if axis.name in parts and len(axis.texts) > 1]
    if not by:
        raise InputError(str(results.path), "--kind shares", "flows that are all alike", "flows that differ, or few")
    rest = tuple(axis.name for axis in axes if axis.name not in parts and axis is not first)
    _, facet = _placed(results, [a for a in axes if a.name in rest], _with_facets(asked, rest), None)
    return figures.shares(
        frame,
        x,
        y,
        by=by or None,
        facet=facet or None,
        x_label=label,
        y_label="share of goodput",
        title=asked.title or note,
    )


def _with_facets(asked: _Asked, facet: Sequence[str]) -> _Asked:
    """Return what is asked for, with these keys as facets and no others."""
    return replace(asked, against=None, by=(), facet=tuple(facet))


# beside published results


def _beside(results: Results, reference: str | Path, kind: str | None, asked: _Asked) -> Picture:
    """Draw results beside published ones: errors as heat maps, or both as lines over the base RTT."""
    from dumbbell import beside, compare

    if kind not in (None, "heat", "lines"):
        raise InputError("--kind", "", f"{kind} with --reference", "heat, lines")
    if len(asked.value) > 1:
        raise InputError("--value", "", ", ".join(asked.value), "one value")
    given: dict[str, Any] = {
        "--against": asked.against,
        "--by": asked.by,
        "--facet": asked.facet,
        "--mean-over": asked.mean_over,
    }
    given |= {"--of": asked.of, "--baseline": asked.baseline, "--time": asked.time}
    for option, value in given.items():
        if value:
            raise InputError(
                option, "", "--reference, which has its own axes and panels", "--value, --kind and --where"
            )
    compared = compare.compare(results.runs, results.flows, compare.read_reference(reference))
    metric = asked.value[0] if asked.value else "rtt_ms"
    metric = {"goodput": "goodput_mbit", "throughput": "throughput_mbit", "rtt": "rtt_ms"}.get(metric, metric)
    known = {pair.figure.metric for pair in compared.pairs}
    # a publication states one of the two, and scores hold either against the same of the simulation
    other = {"goodput_mbit": "throughput_mbit", "throughput_mbit": "goodput_mbit"}.get(metric, metric)
    metric = other if metric not in known and other in known else metric
    frame, score = beside.pairs(compared, metric)
    return beside.errors(frame, score) if kind != "lines" else beside.both(frame, metric)
