"""Whether time series have points enough for what they show, and how often a run is to record for that."""

import polars as pl

from dumbbell.experiment import units
from dumbbell.results.results import StoredResults

POINTS = 8  # of a sawtooth, below which its peak and its foot are lost
ROUNDS = 4  # round trips between points, of a flow without a sawtooth
SAWTOOTH = ("cwnd", "ssthresh", "srtt_ms", "in_flight", "sojourn_mean_ms", "backlog_packets", "backlog_bytes")
_NICE = (1, 2, 5)


def suggest_interval(results: StoredResults, interval: float) -> str | None:
    """Return what to record where `interval`, in seconds, is too long for the sawtooth of a flow; None if it is not.

    A cycle is the life of a flow over how often it reduced its window. Points need be no closer than a round trip.
    """
    wanted = ["start_s", "completion_s", "rtt_mean_ms", "loss_reductions", "ecn_reductions"]
    if not set(wanted) <= {"start_s", "completion_s", *results.measures("flows")}:
        return None
    # what is counted begins with the measured time
    times = {
        cell: (config["record"].get("from", 0) / 1e9, config["duration"] / 1e9)
        for cell, config in results.configurations.items()
    }
    begin, end = (
        pl.col("cell").replace_strict({cell: one[i] for cell, one in times.items()}, return_dtype=pl.Float64)
        for i in (0, 1)
    )
    start = pl.col("start_s").fill_null(0.0)
    life = pl.min_horizontal(end, start + pl.col("completion_s")) - pl.max_horizontal(begin, start)
    reductions = pl.col("loss_reductions") + pl.col("ecn_reductions")
    cycles = results.parts("flows", wanted).select(
        rtt=pl.col("rtt_mean_ms") / 1e3, cycle=pl.when(reductions >= 2).then(life / reductions)
    )
    cycles = cycles.drop_nulls("rtt").with_columns(
        most=pl.max_horizontal(pl.coalesce(pl.col("cycle") / POINTS, pl.col("rtt") * ROUNDS), "rtt")
    )
    coarse = cycles.filter(pl.col("most") < interval * 0.999).sort("most")
    if coarse.is_empty():
        return None
    worst = coarse.row(0, named=True)
    said = (
        f"a sawtooth of {_format_time(worst['cycle'])}"
        if worst["cycle"]
        else f"a round trip of {_format_time(worst['rtt'])}"
    )
    step = max(_round_down(worst["most"]), 1e-3)
    return (
        f"a point every {_format_time(interval)} is too few for {said}: "
        f"dumbbell run --set record.interval={_format_time(step)} draws it"
    )


def _round_down(seconds: float) -> float:
    """Return the largest 1, 2 or 5 times a power of ten that is not above."""
    power = 10.0 ** int(f"{seconds:e}".partition("e")[2])
    return max(step * power for step in _NICE if step * power <= seconds * 1.0001)


def _format_time(seconds: float) -> str:
    """Return a time with its unit, to two digits."""
    return units.show("time", round(float(f"{seconds:.2g}") * 1e9))
