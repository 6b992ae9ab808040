"""The verdict of a report: which queue, and what does it cost? Settings by what people feel, best to worst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from dumbbell.report.findings import ReportSide
from dumbbell.results import felt
from dumbbell.results.columns import BINS
from dumbbell.results.felt import LOST, Felt, SettingComparison
from dumbbell.results.student import compute_tails
from dumbbell.results.tables import format_number
from dumbbell.words import capitalise, join_words

_FALSE = 0.05  # share of false discoveries among what is called significant (Benjamini and Hochberg, 1995)
_LITTLE_USED = 50.0  # %: a link that is used less has no standing queue
_FEW_SEEDS = 5  # below which a verdict says that seeds are few: t is 2.8 with five, 12.7 with two
_MOST_TABLES = 6  # combinations of other keys


@dataclass
class QueueVerdict:
    """Settings of queues under equal conditions: sentences, and a table whose first row is the best."""

    title: str
    says: list[str]
    head: list[str]
    rows: list[list[str]]
    best: list[list[bool]]
    """Of each cell, whether it is the best of its column."""
    caption: str = ""


@dataclass
class RankedSettings:
    """Settings in order, and of all but the first whether it is significantly worse; None if that is unknown."""

    order: list[str]
    losing: dict[str, list[str]]
    """Of each setting: whose packets are lost so often that P99 never arrives."""
    worse: dict[str, bool | None] = field(default_factory=dict)


def make_verdicts(sides: Sequence[ReportSide]) -> tuple[list[QueueVerdict], str]:
    """Return a verdict for each combination of the other keys, of each file and engine; and what is left out."""
    found = []
    for side in sides:
        for one in felt.compare_settings(side.results):
            where = ", ".join(f"{name} {value}" for name, value in one.where.items())
            title = "; ".join(filter(None, [side.name if len(sides) > 1 else "", where]))
            found.append(_make_verdict(one, title))
    if len(found) <= _MOST_TABLES:
        return found, ""
    return found[:_MOST_TABLES], f"The first {_MOST_TABLES} of {len(found)} combinations; --where narrows them."


def _make_verdict(one: SettingComparison, title: str) -> QueueVerdict:
    ranked = rank_settings(one)
    columns = sorted(one.columns, key=lambda column: column.role == "use")
    costs = len([column for column in columns if column.role != "use"])
    labels = [column.label for column in columns]
    head = [" / ".join(one.keys), *labels[:costs], "cost, Mbit/s", "against the first row", *labels[costs:]]
    rows, best = [], []
    tops = {column.label: _find_top(one, column) for column in one.columns}
    for setting in ranked.order:
        values = [one.compute_mean(setting, column.label) for column in columns]
        texts = ["-" if value is None else format_short(value) for value in values]
        is_best = [value is not None and value == tops[label] for value, label in zip(values, labels, strict=True)]
        cost = [_format_cost(one, setting), _compare_with_best(ranked, setting)]
        rows.append([setting, *texts[:costs], *cost, *texts[costs:]])
        best.append([False, *is_best[:costs], False, False, *is_best[costs:]])
    return QueueVerdict(title, describe_verdict(one, ranked), head, rows, best, _format_caption(one))


def _format_caption(one: SettingComparison) -> str:
    seeds = "1 seed" if one.seeds == 1 else f"means over {one.seeds} seeds"
    added = " (with half a base RTT for UDP, which has no propagation of its own)" * any(c.offset for c in one.columns)
    return (
        f"{capitalise(seeds)}. In the order of the geometric mean of the delays and slow-downs{added}. A "
        f"setting under which a call or a ping loses {100 * LOST:g} % or more comes after all others: its P99 is a "
        "packet that never arrives. Pages that never load count with the measured time. Cost: what flows get less than "
        "with the setting under which they get most. "
        "Significant: paired by seed, false discovery rate 5 %, and more than the bins of histograms are wide."
    )


def _find_top(one: SettingComparison, column: Felt) -> float | None:
    known = [value for setting in one.settings if (value := one.compute_mean(setting, column.label)) is not None]
    if not known:
        return None
    return max(known) if column.more_is_better else min(known)


# the order


def compute_scores(one: SettingComparison) -> pl.DataFrame:
    """Return `setting`, `seed`, `hash` and `score`, the logarithm of the geometric mean of the delays of each run."""
    delays = [column for column in one.columns if column.role == "delay"]
    offsets = {column.label: column.offset for column in delays}
    rows = one.frame.filter(pl.col("label").is_in(list(offsets)))
    value = pl.col("value") + pl.col("label").replace_strict(offsets, return_dtype=pl.Float64)
    return (
        rows.with_columns(value=value.clip(1e-6).log())
        .group_by("setting", "seed", "hash", maintain_order=True)
        .agg(score=pl.col("value").mean(), n=pl.len())
        .filter(pl.col("n") == len(delays))
        .drop("n")
    )


def rank_settings(one: SettingComparison) -> RankedSettings:
    """Return the settings, best first: those that lose little of what waits, by the delays that it has."""
    found = compute_scores(one)
    mean = dict(found.group_by("setting").agg(pl.col("score").mean()).iter_rows())
    losing = {
        setting: [
            column.of
            for column in one.columns
            if column.role == "loss" and (one.compute_mean(setting, column.label) or 0.0) >= 100 * LOST
        ]
        for setting in one.settings
    }
    order = sorted(one.settings, key=lambda setting: (len(losing[setting]), mean.get(setting, math.inf)))
    return RankedSettings(order, losing, _find_worse(found, order))


def _find_worse(found: pl.DataFrame, order: Sequence[str]) -> dict[str, bool | None]:
    """Return of each setting but the first whether its delays are significantly longer, by t-tests of paired seeds."""
    own = {setting: found.filter(setting=setting).select("seed", "hash", "score") for setting in order}
    p: dict[str, float | None] = {}
    for setting in order[1:]:
        pairs = own[order[0]].join(own[setting], on="seed", suffix=" of other")
        n = min(pairs["hash"].n_unique(), pairs["hash of other"].n_unique()) if pairs.height else 0
        difference = pairs["score of other"] - pairs["score"]
        mean, deviation = difference.mean(), difference.std()
        if n < 2 or not isinstance(mean, float) or not isinstance(deviation, float):
            p[setting] = None
        elif deviation == 0:
            p[setting] = 1.0 if mean == 0 else 0.0
        elif mean <= math.log1p(1 / BINS):  # percentiles are read from histograms with bins so wide
            p[setting] = 1.0
        else:
            p[setting] = float(compute_tails(pairs.height - 1, mean / deviation * math.sqrt(pairs.height)))
    known = sorted((value, setting) for setting, value in p.items() if value is not None)
    passed = [place for place, (value, _) in enumerate(known, 1) if value <= _FALSE * place / len(known)]
    significant = {setting for _, setting in known[: max(passed, default=0)]}
    return {setting: None if value is None else setting in significant for setting, value in p.items()}


def _compare_with_best(ranked: RankedSettings, setting: str) -> str:
    if setting == ranked.order[0]:
        return ""
    more = [of for of in ranked.losing[setting] if of not in ranked.losing[ranked.order[0]]]
    if more:
        return f"loses packets of the {' and the '.join(more)}"
    worse = ranked.worse.get(setting)
    return "not tested" if worse is None else "longer, significant" if worse else "not distinguished"


# sentences


def describe_verdict(one: SettingComparison, ranked: RankedSettings) -> list[str]:
    """Return the verdict in sentences: the best, what it is like against the worst, what it costs, how sure that is."""
    first, last = ranked.order[0], ranked.order[-1]
    alike = [setting for setting in ranked.order[1:] if not is_worse(ranked, setting)]
    best = f"Shortest waits: {first}" if one.seeds < 2 or not alike else f"{first} comes first"
    felt_of = "; ".join(
        f"{column.word.format(_format_cell(one, first, column))} ({last}: {_format_cell(one, last, column)})"
        for column in one.columns
        if column.role in ("delay", "score", "loss", "late") and _is_relevant(one, column)
    )
    text = [f"{best}. With it {felt_of}."]
    little_used, cost = _describe_use(one), _describe_cost(one, first)
    text += [part for part in (little_used, cost) if part] or ["No flow measures what it costs."]
    if one.seeds < 2:
        text.append("Each setting has one seed, so that nothing says which differences are chance: run five or more.")
        return text
    if alike:
        text.append(f"By what people feel, {join_words([first, *alike])} are not distinguished by {one.seeds} seeds.")
    else:
        text.append(f"All others have significantly longer waits or lose packets (FDR 5 %, {one.seeds} seeds).")
    text += [f"{join_words(same)} have the same values in every run." for same in _find_same_runs(one)]
    if one.seeds < _FEW_SEEDS:
        text.append(f"{one.seeds} seeds are few: only differences far larger than their spread can be significant.")
    return text


def _describe_use(one: SettingComparison) -> str:
    """Return why no queue matters much where no link is used much, or nothing."""
    used = [
        value
        for column in one.columns
        if column.role == "use"
        for setting in one.settings
        if (value := one.compute_mean(setting, column.label)) is not None
    ]
    if not used or max(used) >= _LITTLE_USED:
        return ""
    most = format_short(max(used))
    return f"No link is used to more than {most} %, so that little waits, and the choice of the queue matters little."


def _find_same_runs(one: SettingComparison) -> list[list[str]]:
    """Return the settings that have the same values in all columns, seed by seed."""
    rows = one.frame.select("setting", "seed", "label", "value").sort("seed", "label")
    alike: dict[tuple[float, ...], list[str]] = {}
    for setting in one.settings:
        alike.setdefault(tuple(rows.filter(setting=setting)["value"]), []).append(setting)
    return [same for same in alike.values() if len(same) > 1]


def is_worse(ranked: RankedSettings, setting: str) -> bool:
    """Return whether a setting has significantly longer delays than the best, or loses more of what waits."""
    return bool(ranked.worse.get(setting)) or len(ranked.losing[setting]) > len(ranked.losing[ranked.order[0]])


def _is_relevant(one: SettingComparison, column: Felt) -> bool:
    """Return whether a column is worth a sentence: delays are, losses if there are any."""
    return column.role == "delay" or any(
        (one.compute_mean(setting, column.label) or 0.0) > 0 for setting in one.settings
    )


def _format_cell(one: SettingComparison, setting: str, column: Felt) -> str:
    value = one.compute_mean(setting, column.label)
    return "-" if value is None else format_short(value) + column.unit


def format_short(value: float) -> str:
    """Return a value with three significant digits."""
    return format_number(float(f"{value:.3g}")) if value else "0"


def compute_costs(one: SettingComparison, setting: str) -> list[tuple[Felt, float, float, str]]:
    """Return of each rate: what flows get, how much less that is than the most, and with which setting that is."""
    found = []
    for column in one.columns:
        known = {name: value for name in one.settings if (value := one.compute_mean(name, column.label)) is not None}
        if column.role == "rate" and setting in known and any(known.values()):
            most = max(known, key=lambda name: known[name])
            found.append((column, known[setting], known[most] - known[setting], most))
    return found


def _format_cost(one: SettingComparison, setting: str) -> str:
    ways = compute_costs(one, setting)
    return ", ".join(f"{format_short(less)}{f' {column.of}' * (len(ways) > 1)}" for column, _, less, _ in ways) or "-"


def _describe_cost(one: SettingComparison, setting: str) -> str:
    said = [
        f"{column.label.partition(',')[0]} {format_short(got)} Mbit/s, "
        + (f"{format_short(less)} less than the most, with {most}" if less > 0 else "the most of all")
        for column, got, less, most in compute_costs(one, setting)
    ]
    return f"What it costs: {'; '.join(said)}." if said else ""
