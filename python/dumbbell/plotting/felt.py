"""Draws the delays that people feel, and the rates of flows: a panel for each."""

import polars as pl

from dumbbell import figures
from dumbbell.errors import Conflict, Nothing, TooMany, spell_option
from dumbbell.figures import Picture, format_value
from dumbbell.plotting.kinds import Kind
from dumbbell.plotting.measure_means import describe_seeds
from dumbbell.plotting.placing import MEASURE
from dumbbell.plotting.request import FEW_PANELS, MOST_PANELS, PlotRequest
from dumbbell.results import aggregate
from dumbbell.results import felt as feeling
from dumbbell.results.felt import LOST, SettingComparison
from dumbbell.results.results import StoredResults

_SETTING = "setting"


def felt(results: StoredResults, request: PlotRequest) -> Picture:
    """Draw delays of what waits for others, losses that are felt, and rates: a row for each queue, a panel for each."""
    own = [*request.value, *request.keys, *request.mean_over, *([request.of] if request.of else [])]
    if own:
        asked_for = ", ".join(own)
        raise Conflict(
            f"{asked_for} and kind felt, which has measures of its own",
            f"kind bars, or {spell_option('where')}",
            option="--kind",
        )
    results.require_whole_runs("kind felt shows whole runs", "keys of runs")
    found = feeling.compare_settings(results)
    if not found:
        needed = "runs with sparse UDP, pings or [[web]] that differ in a queue discipline, or in one key"
        raise Nothing(
            "no traffic of these runs waits for others, or all runs have the same settings",
            needed,
            file=results.path,
            option="--kind",
        )
    columns = [column for column in found[0].columns if any(_has(one, column.label) for one in found)]
    rates = [column for column in columns if column.role == "rate"]
    losses = [column for column in columns if column.role == "loss" and _find_most(found, column.label) >= 100 * LOST]
    shown = [column for column in columns if column.role == "delay"] + losses
    shown += rates or [column for column in columns if column.role == "use"]
    if len(found) * len(shown) > max(FEW_PANELS, MOST_PANELS):
        raise TooMany(
            f"{len(found) * len(shown)} panels",
            f"at most {MOST_PANELS}",
            f"choose runs with {spell_option('where')}",
            file=results.path,
        )
    labels = [column.label for column in shown]
    frames = []
    for one in found:
        where = ", ".join(value if "," in name else format_value(name, value) for name, value in one.where.items())
        frames.append(_compute_means(one, labels).with_columns(pl.lit(where).alias("where")))
    frame = pl.concat(frames).with_columns(
        pl.col("label").cast(pl.Enum(labels)).alias(MEASURE),
        pl.col("where").cast(pl.Enum(list(dict.fromkeys(w for f in frames for w in f["where"])))),
    )
    settings = list(dict.fromkeys(text for one in found for text in one.settings))
    n = pl.concat([f["n"] for f in frames])
    bars = "" if n.max() == 1 else "mean and range of " if n.max() == 2 else "mean and 95 % interval over "
    return figures.dots(
        frame.with_columns(pl.col(_SETTING).cast(pl.Enum(settings)), text=pl.col("mean").round_sig_figs(3)),
        _SETTING,
        "mean",
        low="low",
        high="high",
        text="text",
        facet="where" if len(found) > 1 else None,
        each=MEASURE,
        x_label=labels[0],
        title=f"{bars}{describe_seeds(n)}",
    )


def _has(one: SettingComparison, label: str) -> bool:
    return any(one.compute_mean(setting, label) is not None for setting in one.settings)


def _find_most(found: list[SettingComparison], label: str) -> float:
    return max(one.compute_mean(setting, label) or 0.0 for one in found for setting in one.settings)


def _compute_means(one: SettingComparison, labels: list[str]) -> pl.DataFrame:
    """Return `setting`, `label`, `mean`, `low`, `high` and `n`: 95 % intervals, of two seeds their range."""
    rows = one.frame.filter(pl.col("label").is_in(labels)).group_by(_SETTING, "label", maintain_order=True)
    value = pl.col("value")
    means = rows.agg(
        mean=value.mean(),
        deviation=value.std(),
        least=value.min(),
        most=value.max(),
        n=value.count(),
        unlike=pl.col("hash").n_unique(),
    ).with_columns(n=pl.when(pl.col("unlike") > 1).then("n").otherwise(1))
    half = aggregate.compute_half_width(pl.col("deviation"), pl.col("n"))
    is_range = pl.col("n") == 2
    return means.with_columns(half=half).select(
        _SETTING,
        "label",
        "mean",
        low=pl.when(is_range).then("least").when(pl.col("n") > 2).then((pl.col("mean") - pl.col("half")).clip(0)),
        high=pl.when(is_range).then("most").when(pl.col("n") > 2).then(pl.col("mean") + pl.col("half")),
        n=pl.col("n").cast(pl.Int64),
    )


FELT = Kind("felt", felt, values="none")
