"""Time series, one measure above another."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from dumbbell import figures
from dumbbell.errors import InputError, Nothing, TooMany, Unfit, UnknownName, spell_option
from dumbbell.experiment import units
from dumbbell.figures import Picture
from dumbbell.plotting.inside import collect_hops, list_control_states, list_queue_states
from dumbbell.plotting.interval import SAWTOOTH, suggest_interval
from dumbbell.plotting.kinds import Kind
from dumbbell.plotting.placing import order_frame
from dumbbell.plotting.request import FEW_LINES, MOST_BESIDE, MOST_LINES, PlotRequest
from dumbbell.results import aggregate, parts
from dumbbell.results.aggregate import Axis, Samples
from dumbbell.results.columns import format_axis_label
from dumbbell.results.results import StoredResults
from dumbbell.results.run import CAPACITY, LIFE, OVER_TIME, find_series_column, select_lifetime
from dumbbell.results.versions import find_kind

_SERIES = ("goodput", "srtt", "sojourn", "cwnd", "signals")
_OF_ONE = ("rates", *_SERIES[1:])  # of a single run
_OF_SESSIONS = ("throughput", "sojourn", "signals")  # of dumbbell shell: both directions, each a run
WHICH = "flow of its kind"
_RATES = "rates"  # goodput on top of each other
_REPAIRED = "goodput above the rate: a retransmission released data that waited behind a loss"


def series(results: StoredResults, request: PlotRequest) -> Picture:
    """Draw time series of one seed, one measure above another."""
    alone = len(results.configurations) == 1 and not (request.by or request.facet)
    wanted = list(request.value or (_OF_SESSIONS if results.sessions else _OF_ONE if alone else _SERIES))
    panels_of = [_find_panel(name) for name in wanted]
    if results.of_parts and request.value and all(table == "queue_series" for table, _ in panels_of):
        results.require_whole_runs(
            f"{', '.join(wanted)} is measured per queue", f"{spell_option('value')} goodput, cwnd or srtt as well"
        )
    first = select_seed(results)
    frames: dict[str, Samples] = {}
    alike = 1
    for table in ("series", "queue_series"):
        known = first.measures(table)  # not every engine measures all of it
        columns = [c for c in dict.fromkeys(column for of, column in OVER_TIME.values() if of == table) if c in known]
        keys = [key for key in (*request.by, *request.facet) if table == "series" and key in parts.KEYS]
        of_runs = first if table == "series" else first.whole_runs
        if not columns:
            raise make_error(results)
        found = aggregate.collect_rows(
            of_runs, table, ["time_s", *columns, *LIFE * (table == "series")], keys, options=request.options
        )
        if found.frame.is_empty() and table == "queue_series":
            raise make_error(results)
        if request.time:
            found.frame = found.frame.filter(pl.col("time_s").is_between(*request.time))
            if found.frame.is_empty() and table == "queue_series":
                raise Nothing("no point of the time series is in this time", "a time within the runs", option="--time")
        if table == "series":
            found.frame = select_lifetime(found.frame, columns)
            found, alike = collect_alike(found, columns)
        frames[table] = found
    _check_shown(results, frames, request)
    beside = _choose_side_by_side(frames, request)
    varies = _has_varying_rate(frames["queue_series"])
    if _RATES in wanted and (why := _explain_missing_sum(first, alike, alone=alone)):
        if request.value:
            raise Unfit(
                f"rates on top of each other, of {why}",
                f"goodput, or {spell_option('where')} for one run",
                option="--value",
            )
        wanted[wanted.index(_RATES)] = "goodput"
    if varies and not request.value and not {"throughput", "rates"} & {*wanted}:
        wanted.insert(0, "throughput")
    whole = ", all traffic" * bool(results.of_parts) + ", bottleneck" * (first.whole_runs.hops.height > 0)
    hops = collect_hops(first.whole_runs, request) if alone and not request.value else None
    panels = []
    for name in wanted:
        if name == "signals":
            panels += _make_signal_panels(hops or frames["queue_series"], beside, "" if hops else whole)
            panels += list_queue_states(first.whole_runs, request.time) if alone and not request.value else []
            continue
        if name == "sojourn" and hops:
            panels.append(
                figures.Series(
                    hops.frame, "sojourn_mean_ms", "hop", format_axis_label("sojourn_mean_ms", "queue_series")
                )
            )
            continue
        table, column = _find_panel(name)
        found = frames[table]
        if column not in found.frame.columns:
            if not request.value:
                continue
            what = f"no {name} in these runs"
            raise Nothing(what, "runs of an engine that measures it", file=results.path, option="--value")
        several = [axis for axis in found.several if axis.name != beside]
        by = [axis.name for axis in several]
        lines = math.prod(len(axis.texts) for axis in several)
        if lines > MOST_LINES:
            keys_text = ", ".join(f"{axis.name} ({len(axis.texts)})" for axis in several)
            raise TooMany(
                f"{lines} lines, of {keys_text},",
                f"at most {MOST_LINES}",
                f"choose runs with {spell_option('where')}",
                file=results.path,
            )
        frame = order_frame(found.axes, found.frame).drop_nulls(column)
        if frame.is_empty():
            if not request.value:
                continue
            raise Nothing(
                f"no flow has {name} in this time", f"another {spell_option('time')}, or other flows", option="--value"
            )
        if column == "throughput_mbit" and varies:
            panels.append(_make_throughput_panel(frame, by, beside))
            continue
        label = format_axis_label(column, table) + whole * (table == "queue_series")
        if name == _RATES:
            panels.append(_make_rates_panel(frame, by, frames["queue_series"]))
            continue
        panels.append(figures.Series(frame, column, by or None, label))
    said = list(filter(None, [describe_seed(results, first)]))
    said += [f"each line of flows the mean of {alike} alike, of those that have begun"] * (alike > 1)
    said += [_REPAIRED] * (bool({"goodput", "rates"} & {*wanted}) and _exceeds_rate(frames["series"], first))
    title = "; ".join(said) or None
    states = list_control_states(first, request.time) if alone and not request.value else {}
    picture = figures.stacked_series(
        panels,
        columns=beside,
        marks=_list_rate_changes(first),
        states=states,
        why_empty=_explain_empty(first, frames["queue_series"], beside),
        title=title,
    )
    interval = frames["queue_series"].frame["time_s"].unique().sort().diff().min()
    if isinstance(interval, float) and not results.sessions and {_find_panel(name)[1] for name in wanted} & {*SAWTOOTH}:
        picture.hint = suggest_interval(first, interval)
    return picture


def _explain_empty(results: StoredResults, queue: Samples, beside: str | None) -> dict[str, str]:
    """Return for each value of `beside` that only imported runs have why something of it is not known."""
    if beside is None:
        return {}
    engines = results.runs.select(
        "key", imported=pl.col("engine_version").map_elements(find_kind, pl.String) == "import"
    )
    of = (
        queue.frame.select("key", beside)
        .unique()
        .join(engines, on="key")
        .group_by(beside)
        .agg(pl.col("imported").all())
    )
    return {str(text): "not in the file" for text in of.filter("imported")[beside]}


def _find_panel(name: str) -> tuple[str, str]:
    """Return table and column of what is drawn over time; InputError if there is no such thing."""
    if name == "signals":
        return "queue_series", ""
    try:
        return find_series_column("goodput" if name == _RATES else name)
    except UnknownName:
        raise UnknownName(name, among=[*OVER_TIME, _RATES, "signals"], option="--value", what="series") from None


def make_error(results: StoredResults) -> InputError:
    """Return the error of runs that recorded no time series."""
    return Nothing(
        "the runs have no time series, which kind series draws", "runs with record.series = true", file=results.path
    )


def _check_shown(results: StoredResults, frames: dict[str, Samples], request: PlotRequest) -> None:
    """Refuse keys asked for in which nothing that is drawn over time differs."""
    several = [axis.name for found in frames.values() for axis in found.several]
    for name in (*request.by, *request.facet):
        if not any(name in (one, one.rpartition(".")[2]) for one in several):
            if name not in parts.KEYS:
                results.find_key(name, request.options[name])
            found = f"nothing that is drawn differs in {name}"
            raise Unfit(found, list(dict.fromkeys(several)) or "no key", option=request.options[name])


def select_seed(results: StoredResults) -> StoredResults:
    """Return the runs of the first seed."""
    return results.where(f"seed={min(results.seeds)}") if len(results.seeds) > 1 else results


def describe_seed(results: StoredResults, one: StoredResults) -> str:
    """Return which seed is drawn, if there are others or the seed was chosen; else nothing."""
    others = f" of {len(results.seeds)}" if len(results.seeds) > 1 else ""
    chosen = any(condition.key == "seed" for condition in results.conditions)
    return f"seed {one.seeds[0]}{others}" if others or chosen else ""


def collect_alike(found: Samples, columns: Sequence[str], *, total: bool = False) -> tuple[Samples, int]:
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
        which = (pl.lit(f"{alone}#") + pl.col("which").cast(pl.String)).alias(WHICH)
        return replace(found, axes=[*found.axes, Axis(WHICH, texts)], frame=numbered.with_columns(which)), 1
    values = [pl.col(column).sum() if total else pl.col(column).mean() for column in columns]
    return replace(found, frame=found.frame.group_by(place, maintain_order=True).agg(values)), alike


def _choose_side_by_side(frames: dict[str, Samples], request: PlotRequest) -> str | None:
    """Return the key of runs whose values stand side by side: the facet asked for, else one where flows differ too."""
    queue, flows = frames["queue_series"], frames["series"]
    several = [axis for axis in queue.several if not {axis.name, axis.name.rpartition(".")[2]} & set(request.by)]
    of_runs = [axis for axis in several if len(axis.texts) <= MOST_BESIDE]
    names = [axis.name for axis in of_runs]
    for name in request.facet:
        full = next((one for one in names if name in (one, one.rpartition(".")[2])), None)
        if full is None:
            raise Unfit(
                f"{name} is not of runs, or has too many values",
                f"a key of runs with at most {MOST_BESIDE} values: {', '.join(names)}",
                option=request.options[name],
            )
        return full
    of_flows = len(flows.several) > len(queue.several)
    many = math.prod(len(axis.texts) for axis in queue.several) > FEW_LINES
    return max(of_runs, key=lambda axis: len(axis.texts)).name if of_runs and (of_flows or many) else None


def _has_varying_rate(queue: Samples) -> bool:
    """Return whether what the link could carry changes within a run."""
    return CAPACITY in queue.frame.columns and bool(
        queue.frame.group_by("key").agg(pl.col(CAPACITY).round(3).n_unique() > 1)[CAPACITY].any()
    )


def _make_throughput_panel(frame: pl.DataFrame, by: Sequence[str], beside: str | None) -> Any:
    """Return a panel of throughput and of what the link could carry: one line of it if all lines have the same."""
    place = ["time_s", *([beside] if beside else [])]
    link = pl.Enum(["throughput", "capacity"])
    own = frame.select(*place, *by, value="throughput_mbit").with_columns(
        link=pl.lit(None if by else "throughput", dtype=link)
    )
    capacity = frame.select(*place, *by, value=CAPACITY).with_columns(link=pl.lit("capacity", dtype=link))
    rounded = capacity.with_columns(pl.col("value").round(3))
    if rounded.group_by(place).agg(pl.col("value").n_unique())["value"].max() == 1:
        capacity = capacity.unique(place, keep="first", maintain_order=True).with_columns(
            pl.lit(None, dtype=capacity.schema[name]).alias(name) for name in by
        )
    return figures.Series(pl.concat([own, capacity]), "value", [*by, "link"], "Mbit/s")


def _make_signal_panels(queue: Samples, beside: str | None, whole: str) -> list[Any]:
    """Return a panel of marks and drops an interval, of those that there are."""
    names = {"ce_marks": "CE marks", "sce_marks": "SCE marks", "drops": "drops"}
    there = [name for name in names if queue.frame[name].sum() > 0]
    if not there:
        return []
    kept = [axis.name for axis in queue.several if axis.name != beside]
    index = ["time_s", *([beside] if beside else [])]
    if kept:  # a panel for each, so that a run has one line in every panel
        frame = order_frame(queue.axes, queue.frame)
        return [figures.Series(frame, name, kept, f"{names[name]} an interval{whole}", counts=True) for name in there]
    frame = order_frame(queue.axes, queue.frame).unpivot(there, index=index, variable_name="signal")
    signals = pl.col("signal").replace_strict(names, return_dtype=pl.String).cast(pl.Enum([names[n] for n in there]))
    label = f"{names[there[0]] if len(there) == 1 else 'packets'} an interval{whole}"
    return [figures.Series(frame.with_columns(signals), "value", "signal", label, counts=True)]


def _explain_missing_sum(results: StoredResults, alike: int, *, alone: bool) -> str:
    """Return why the lines of goodput are not parts of what one link carries; nothing if they are."""
    if not alone:
        return "several runs"
    if alike > 1:
        return f"the mean of {alike} flows that are alike"
    return "flows over several hops" if results.whole_runs.hops.height else ""


def _make_rates_panel(frame: pl.DataFrame, by: Sequence[str], queue: Samples) -> Any:
    """Return a panel of goodput on top of each other, below what the link could carry."""
    ceiling = (queue.frame, CAPACITY, "capacity of the link") if CAPACITY in queue.frame.columns else None
    return figures.Series(frame, "goodput_mbit", by or None, "goodput, Mbit/s", stacked=True, ceiling=ceiling)


def _list_rate_changes(results: StoredResults) -> list[tuple[float, str]]:
    """Return when the rate of the bottleneck changes, and to what.

    None if the runs differ in it, or if it changes in a cycle.
    """
    changes = [config["bottleneck"]["rate_changes"] for config in results.configurations.values()]
    if any(change != changes[0] or isinstance(change, dict) for change in changes):
        return []
    return [
        (change["at"] / 1e9, figures.format_value("", units.show("rate", change["rate"])).strip())
        for change in changes[0]
    ]


def _exceeds_rate(flows: Samples, results: StoredResults) -> bool:
    """Return whether a flow has more goodput in an interval than the link carries: holes were repaired in it."""
    most = max((config["bottleneck"]["rate"] for config in results.configurations.values()), default=0) / 1e6
    top = flows.frame["goodput_mbit"].max() if "goodput_mbit" in flows.frame.columns else None
    return isinstance(top, float) and top > 1.02 * most > 0


SERIES = Kind("series", series, time=True, against=False, experiments=True, shows=lambda _: "runs one by one")
