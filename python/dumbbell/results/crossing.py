"""Means over keys of an incomplete crossing: of the combinations alone that all rows of a table have."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dumbbell.errors import Unfit, spell_option
from dumbbell.results.dimensions import Dimension
from dumbbell.words import format_count

_MOST_LISTED = 4  # combinations of keys that means leave out


def select_common(
    rows: pl.DataFrame, of_runs: Sequence[Dimension], over: Sequence[Dimension]
) -> tuple[pl.DataFrame, str]:
    """Return the rows of those combinations of `over` that are there for all values of `of_runs`, and what is left out.

    Means over other combinations would be of unlike cells. Where a seed lacks some of the combinations, its rows are
    left out as well, unless no seed has all. Raises InputError if there are no such combinations.
    """
    if not over or rows.is_empty():
        return rows, ""
    shown: dict[tuple[str, ...], dict[tuple[str, ...], set[int]]] = {}
    place_of: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for cell in rows["cell"].unique(maintain_order=True).to_list():
        place_of[cell] = tuple(one.texts[cell] for one in of_runs), tuple(one.texts[cell] for one in over)
    for cell, seed in rows.select("cell", "seed").unique(maintain_order=True).iter_rows():
        place, combination = place_of[cell]
        shown.setdefault(place, {}).setdefault(combination, set()).add(seed)
    every = list(dict.fromkeys(combination for own in shown.values() for combination in own))
    common = [one for one in every if all(one in own for own in shown.values())]
    names = ", ".join(one.name for one in over)
    if not common:
        found = f"rows cannot be compared: no value of {names} is in all of them"
        raise Unfit(found, f"{spell_option('where')} to choose cells that differ in nothing else", option="--mean-over")
    seeds = {place: set.intersection(*(own[one] for one in common)) for place, own in shown.items()}
    whole = {place: own or set[int]().union(*shown[place].values()) for place, own in seeds.items()}
    kept = [
        place_of[cell][1] in common and seed in whole[place_of[cell][0]]
        for cell, seed in rows.select("cell", "seed").iter_rows()
    ]
    lost = rows.filter(~pl.Series(kept, dtype=pl.Boolean)).select("cell", "seed").unique()
    if lost.is_empty():
        return rows, ""
    texts = [
        ", ".join(one.format_text(text) for one, text in zip(over, values, strict=True))
        for values in every
        if values not in common
    ]
    more = f" and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    listed = " and ".join(texts[:_MOST_LISTED]) + more
    runs = sum(place_of[cell][1] in common for cell in lost["cell"])
    said = [f"{listed}, which not all rows have"] if texts else []
    said += [f"{format_count(runs, 'run')} of seeds that not all of these cells have"] if runs else []
    return rows.filter(pl.Series(kept, dtype=pl.Boolean)), f"left out of the means: {'; '.join(said)}"
