"""Figures of searches: two objectives over each other, or one along the candidates."""

from __future__ import annotations

import polars as pl

from dumbbell import figures
from dumbbell.errors import TooMany, UnknownName, quote_value
from dumbbell.figures import Picture
from dumbbell.figures.front import AS_GIVEN, ON_FRONT, OTHER, count_outside
from dumbbell.plotting.kinds import Kind
from dumbbell.plotting.request import PlotRequest
from dumbbell.results.results import StoredResults
from dumbbell.searching.found import SearchFindings
from dumbbell.words import format_count


def front(results: StoredResults, request: PlotRequest) -> Picture:
    """Draw the front of the last search of a results file."""
    return draw_front(SearchFindings(results.path), request.value, log_x=request.log_x, log_y=request.log_y or None)


def draw_front(
    found: SearchFindings, names: tuple[str, ...] = (), *, log_x: bool | None = None, log_y: bool | None = None
) -> Picture:
    """Draw two objectives of a search, the first two unless `names` are given; of one, how it gets better."""
    for name in names:
        if name not in found.objectives:
            among = found.objectives
            raise UnknownName(quote_value(name), among=among, file=found.path, option="--value", what="objective")
    if len(names) > 2:
        raise TooMany(f"{len(names)} objectives", "two", option="--value")
    chosen = names or tuple(found.objectives[:2])
    labels = {one["name"]: one["label"] for one in found.description["objectives"]}
    less = {one["name"]: one["aim"] == "minimise" for one in found.description["objectives"]}
    rows = found.candidates.drop_nulls(list(chosen))
    if len(chosen) == 1:
        return _draw_progress(found, rows, chosen[0], labels[chosen[0]], is_less_better=less[chosen[0]], log_y=log_y)
    x, y = chosen
    # the first objective is a cost in most searches: it is across
    group = pl.when(pl.col("candidate") < 0).then(pl.lit(AS_GIVEN)).when("is_front").then(pl.lit(ON_FRONT))
    rows = rows.with_columns(group=group.otherwise(pl.lit(OTHER)))
    several = int(rows["seeds"].max() or 0) > 1  # type: ignore[arg-type]
    options = {
        "group": "group",
        "x_ends": (f"{x}_low", f"{x}_high") if several else None,
        "y_ends": (f"{y}_low", f"{y}_high") if several else None,
        "steps": "post" if less[x] else "pre",
        "log_x": log_x,
        "log_y": log_y,
        "x_label": labels[x],
        "y_label": labels[y],
    }
    picture = figures.front(rows, x, y, **options)
    parts = [found.describe_briefly(), "95 % intervals over seeds" if several else ""]
    if outside := count_outside(picture, rows, x, y):
        parts.append(f"{format_count(outside, 'candidate')} outside of the axes")
    picture.around.title = "; ".join(filter(None, parts))
    return picture


def _draw_progress(
    found: SearchFindings, rows: pl.DataFrame, name: str, label: str, *, is_less_better: bool, log_y: bool | None
) -> Picture:
    """Draw the values of one objective in the order of the candidates, with the best so far."""
    tried = rows.filter(pl.col("candidate") >= 0)
    best = pl.col(name).cum_min() if is_less_better else pl.col(name).cum_max()
    is_record = (pl.col(name) == best) & (best != best.shift()).fill_null(True)
    tried = tried.with_columns(group=pl.when(is_record).then(pl.lit(ON_FRONT)).otherwise(pl.lit(OTHER)))
    picture = figures.front(
        tried, "candidate", name, group="group", log_x=False, log_y=log_y, x_label="candidate", y_label=label
    )
    picture.around.title = f"{found.describe_briefly()}; the line is the best so far"
    return picture


FRONT = Kind("front", front, values="pair", against=False, keys=False, experiments=True, says_rest=True)
