"""Phrases of captions about runs: how many, what is drawn of several, how long they last; from the evidence."""

from collections.abc import Sequence

import polars as pl

from dumbbell.pages.evidence import Evidence


def describe_runs(
    counts: pl.Series, of: str = "mean", spread: str = "min-max", *, what: str = "run", seconds: Sequence[float] = ()
) -> str:
    """Return what points are and of how many runs: `mean and min-max of 4 runs of 120 s`, `one run of 120 s each`.

    `counts` are the runs of each point; without `spread` none is drawn.
    """
    lasting = f" of {_format_range([f'{second:g}' for second in sorted(seconds)])} s" if seconds else ""
    known = sorted(set(counts.drop_nulls().to_list()))
    drawn = f"{of} and {spread}" if spread else of
    if not known:  # nothing is known of how the runs were made
        return drawn
    if known[-1] <= 1:
        return f"one {what}{lasting} each"
    return f"{drawn} of {_format_range([str(count) for count in known])} {what}s{lasting}"


def count_seeds(frame: pl.DataFrame, *by: str) -> pl.Series:
    """Return how many seeds each point of a frame has; `by` are the columns that distinguish points."""
    return frame.group_by(by).agg(seeds=pl.col("seed").n_unique())["seeds"]


def count_experiment_seeds(found: Evidence, *experiments: str) -> pl.Series:
    """Return how many seeds experiments were run with."""
    return pl.Series([len(found.made[name]["seeds"]) for name in experiments if name in found.made], dtype=pl.Int64)


def list_durations(found: Evidence, *experiments: str) -> list[float]:
    """Return the durations of the runs of experiments, in seconds."""
    return sorted({second for name in experiments for second in found.made.get(name, {}).get("durations", [])})


def _format_range(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"
