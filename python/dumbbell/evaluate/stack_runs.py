"""Finds closed connections, and times without a delivery, in runs of QUIC stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from dumbbell.evaluate.plan import Plan, ScenePlace
from dumbbell.results.results import StoredResults

Outages = Sequence[Sequence[float]]
"""Start and end of times in which nothing can be delivered, s."""


def find_longest_gap(times: Sequence[float], rates: Sequence[float], since: float, outages: Outages = ()) -> float:
    """Return the longest time without delivery after `since`, for how much of it no outage accounts.

    `times` are ends of intervals, `rates` what was delivered in them. A sender that probes at doubling distances may
    miss the end of an outage by as much as it has lasted (RFC 9002, section 6.2), so that this much of the time behind
    an outage counts as part of it.
    """
    excused = [(start, end + (end - start)) for start, end in outages]
    longest, begun = 0.0, None
    before = since
    for time, rate in zip(times, rates, strict=True):
        if time <= since:
            continue
        if rate > 0:
            begun = None
        elif begun is None:
            begun = before
        if begun is not None:
            within = sum(max(0.0, min(time, until) - max(begun, start)) for start, until in excused)
            longest = max(longest, time - begun - within)
        before = time
    return longest


def measure_longest_gap(
    results: StoredResults, cells: pl.DataFrame, roles: pl.DataFrame, options: Mapping[str, Any]
) -> pl.DataFrame:
    """Return the longest time without delivery of the first flow of a role, s.

    `outages` and `over` have an entry for each position of the first axis: the outages there, and what the time is
    divided by.
    """
    series = results.sql(
        """
        SELECT s.key, s.time_s, s.goodput_mbit, f.start_s, c.position
        FROM series s JOIN flows f USING (key, flow) JOIN cells c USING (key)
        WHERE flow = (SELECT min(r.flow) FROM roles r WHERE r.key = s.key AND r.role = '$role')
        ORDER BY s.key, s.time_s
        """.replace("$role", options["role"]),
        cells=cells,
        roles=roles,
    )
    rows = []
    for (key,), part in series.group_by("key", maintain_order=True):
        first = (part["position"][0].to_list() or [0])[0]
        outages = options["outages"][first] if options["outages"] else ()
        over = options["over"][first] if options["over"] else 1.0
        gap = find_longest_gap(part["time_s"].to_list(), part["goodput_mbit"].to_list(), part["start_s"][0], outages)
        rows.append({"key": key, "value": gap / over})
    return pl.DataFrame(rows, schema={"key": pl.String, "value": pl.Float64})


def list_closed(plan: Plan, subject: str, results: StoredResults) -> dict[ScenePlace, str]:
    """Return the places at which a connection of the subject was closed before its end: why, and when first."""
    found = results.sql(
        """
        SELECT c.scene, c.position, arg_min(f.closed, f.closed_s) AS closed, min(f.closed_s) AS closed_s
        FROM flows f JOIN roles r USING (key, flow) JOIN cells c USING (key)
        WHERE r.role = 'subject' AND f.closed IS NOT NULL AND f.closed != '' GROUP BY ALL
        """,
        cells=plan.cells.filter(pl.col("who") == subject),
        roles=plan.roles,
    )
    return {
        ScenePlace(scene, tuple(position)): f"closed after {seconds:.3g} s: {closed}"
        for scene, position, closed, seconds in found.iter_rows()
    }
