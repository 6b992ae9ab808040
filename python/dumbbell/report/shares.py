"""Compares the flows of one run: who gets more, by how much, and where."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from dumbbell.explain import observed
from dumbbell.explain.explained import explain_run
from dumbbell.report.findings import ReportSide
from dumbbell.results import diff
from dumbbell.results import dimensions as dims
from dumbbell.results.aggregate import FEW, compute_half_width
from dumbbell.results.results import StoredResults
from dumbbell.results.tables import format_half, format_number
from dumbbell.words import format_percent

_GOODPUTS = ("goodput_common_mbit", "goodput_mbit")
_MOST_KINDS = 6  # of flows that are held against each other


@dataclass
class SideShares:
    """How unlike flows share, over the cells of one side: a sentence, and a row of texts for each kind of flow."""

    title: str
    says: str
    rows: list[list[str]]
    sure: bool
    """Whether a cell counts for a kind only if its seeds leave no doubt."""


def describe_run(sides: Sequence[ReportSide]) -> list[str]:
    """Return what a run came to, in sentences, if there is only one."""
    if sum(len(side.number_of) for side in sides) != 1:
        return []
    return [fact.sentence for fact in explain_run(observed.observe_results(sides[0].results)).results]


def compute_shares(sides: Sequence[ReportSide]) -> list[SideShares]:
    """Return how flows of unlike kinds share, for each side whose cells all have the same kinds; not of one run."""
    if sum(len(side.number_of) for side in sides) == 1:
        return []
    found = []
    for side in sides:
        flows = side.results.parts("flows", [*_GOODPUTS, "share"])
        flows = flows.filter(~pl.col("cc").is_in(["udp", "ping"]))  # which send as they please
        common, own = (pl.col(name).fill_nan(None) for name in _GOODPUTS)
        flows = flows.with_columns(goodput_mbit=pl.coalesce(common, own))
        flows = flows.with_columns(link=_find_links(side.results, flows))
        links = flows["link"].unique(maintain_order=True).to_list()
        for link in links:
            title = ", ".join(filter(None, [side.name if len(sides) > 1 else "", link if len(links) > 1 else ""]))
            found.append(_compute_side_shares(side, flows.filter(link=link), title))
    return [one for one in found if one is not None]


def _find_links(results: StoredResults, flows: pl.DataFrame) -> pl.Series:
    """Return over which links the data of each flow went: only flows that share them are held against each other."""
    routes: dict[tuple[str, int], str] = {}
    for cell, config in results.configurations.items():
        entries = [one for one in config["flows"] for _ in range(one.get("count", 1))]
        routes |= {(cell, flow): " and ".join(one.get("route") or []) for flow, one in enumerate(entries)}
    names = flows.select("cell", "flow", "direction").iter_rows()
    return pl.Series([routes.get((cell, flow)) or str(way) for cell, flow, way in names], dtype=pl.String)


def _compute_side_shares(side: ReportSide, flows: pl.DataFrame, title: str) -> SideShares | None:
    kinds = flows["part"].unique(maintain_order=True).to_list()
    keys = [(one, dims.distinguish_texts(one, side.results.configurations)) for one in side.results.dimensions]
    cells = {cell: ", ".join(one.format_text(called[one.texts[cell]]) for one, called in keys) for cell in side.cells}
    if not 2 <= len(kinds) <= _MOST_KINDS or None in kinds:
        return None
    # of the time that all have in common; without any, goodputs are each over its own time, and nothing is shared
    got = pl.col("share").fill_nan(None)
    runs = flows.group_by("cell", "key", "seed", "hash", "part", maintain_order=True).agg(
        total=pl.when(got.is_not_null().all()).then(got.sum()), flow=pl.col("goodput_mbit").mean(), flows=pl.len()
    )
    runs = runs.with_columns(share=pl.col("total") / pl.col("total").sum().over("key"))
    # seeds have the same weight, and so have cells; seeds that make the same run say nothing about chance
    n = pl.when(pl.col("hash").n_unique() > 1).then(pl.len()).otherwise(1)
    each = runs.group_by("cell", "part", maintain_order=True).agg(
        pl.col("share", "flow").mean(),
        pl.col("flows").max(),
        half=pl.when(n > FEW).then(compute_half_width(pl.col("share").std(), n)),
    )
    each = each.with_columns(cell_text=pl.col("cell").replace_strict(cells))
    if (
        each.group_by("cell").len()["len"].min() != len(kinds)
        or each["share"].is_null().any()
        or each["share"].is_nan().any()
    ):
        return None
    held = _compare_kinds(runs, kinds, cells)
    most = _find_most(held, kinds)
    rows = []
    for kind in kinds:
        own = each.filter(part=kind).sort("share")
        ends = [own.row(at, named=True) for at in (0, -1)]
        count = int(own["flows"].max() or 1)  # type: ignore[arg-type]
        rows.append(
            [
                f"{kind} ({count} flows)" if count > 1 else kind,
                f"{format_number(own['flow'].mean())}",  # type: ignore[arg-type]
                format_percent(own["share"].mean()),  # type: ignore[arg-type]
                *([_end(one) for one in ends] if own.height > 1 else []),
                f"{sum(one == kind for one in most.values())} of {own.height}",
            ]
        )
    says = _describe_shares(held, most, kinds, per_flow=each["flows"].max() != 1)
    return SideShares(title, f"In the runs of {title}: {says}" if title else says, rows, _count_seeds(held) > 1)


def _compare_kinds(runs: pl.DataFrame, kinds: Sequence[str], cells: dict[str, str]) -> pl.DataFrame:
    """Return the goodput of a flow of every two kinds against each other, seed by seed, in each cell."""
    place = {cell: number for number, cell in enumerate(cells)}
    sides: list[list[pl.DataFrame]] = [[], []]
    for pair in itertools.combinations(range(len(kinds)), 2):
        for of, kind in zip(sides, pair, strict=True):
            own = runs.filter(part=kinds[kind]).select(
                "seed",
                "hash",
                pair=pl.col("cell").replace_strict(place, return_dtype=pl.Int64),
                where=pl.col("cell").replace_strict(cells),
                table=pl.lit("flows"),
                measure=pl.lit("goodput_mbit"),
                part=pl.lit(f"{pair[0]} {pair[1]}"),
                value="flow",
            )
            of.append(own)
    found = diff.compare_rows(pl.concat(sides[0]), pl.concat(sides[1]), ("A", "B")).frame
    which = pl.col("part").str.split(" ").list
    return found.with_columns(
        first=which.get(0).cast(pl.Int64).replace_strict(dict(enumerate(kinds))),
        second=which.get(1).cast(pl.Int64).replace_strict(dict(enumerate(kinds))),
        runs=pl.lit(runs.group_by("cell").agg(pl.col("seed").n_unique())["seed"].max()),
    )


def _count_seeds(held: pl.DataFrame) -> int:
    return int(held["runs"][0])


def _find_most(held: pl.DataFrame, kinds: Sequence[str]) -> dict[int, str | None]:
    """Return for each cell the kind that gets significantly more than any other; None where that is not decided."""
    found: dict[int, str | None] = {}
    for (cell,), rows in held.group_by("pair", maintain_order=True):
        wins = [
            row["first"] if row["difference"] < 0 else row["second"]
            for row in rows.iter_rows(named=True)
            if row["differs"]
        ]
        found[cell] = next((kind for kind in kinds if wins.count(kind) == len(kinds) - 1), None)
    return found


def _describe_shares(held: pl.DataFrame, most: dict[int, str | None], kinds: Sequence[str], *, per_flow: bool) -> str:
    """Return who gets more, in how many cells that is significant, and where flows are furthest apart."""
    wins = {kind: sum(one == kind for one in most.values()) for kind in kinds}
    first, *others = sorted(kinds, key=lambda kind: -wins[kind])
    cells, undecided = len(most), sum(one is None for one in most.values())
    than = others[0] if len(others) == 1 else "any other"
    seeds = _count_seeds(held)
    sure = " significantly" if seeds > 1 else ""
    how = f"{seeds} seeds, paired, FDR 5 %" if seeds > 1 else "one run each"
    whose = "A flow of " if per_flow else ""
    if undecided == cells:
        where = f"in any of {cells} cells" if cells > 1 else "here"
        said = f"Which of {', '.join(kinds[:-1])} and {kinds[-1]} gets more goodput is not decided {where} ({how})."
    elif cells == 1:
        said = f"{whose}{first} gets{sure} more goodput than {than} ({how})."
    else:
        said = f"{whose}{first} gets{sure} more goodput than {than} in {wins[first]} of {cells} cells"
        said += "".join(f", {kind} in {wins[kind]}" for kind in others if wins[kind])
        said += f"; {undecided} {'is' if undecided == 1 else 'are'} undecided" * (undecided > 0) + f" ({how})."
    apart = held if cells == 1 else held.filter("differs")
    if apart.is_empty():
        return said
    row = apart.sort("size").row(-1, named=True)
    ends = sorted([(row["a"], row["first"]), (row["b"], row["second"])], reverse=True)
    sizes = " and ".join(f"{format_number(size)} Mbit/s for {kind}" for size, kind in ends)
    difference = f"{format_number(abs(row['difference']))}{format_half(row['half'])} Mbit/s apart" if seeds > 1 else ""
    furthest = "They are furthest apart with" if apart.height > 1 else "That is with"
    where = f"{furthest} {row['where']}:" if cells > 1 else "They get"
    return f"{said} {where} {', '.join(filter(None, (sizes, difference)))}."


def _end(row: dict[str, Any]) -> str:
    """Return the share in a cell with half of its interval, and which cell it is."""
    share = format_percent(row["share"])
    half = format_half(None if row["half"] is None else 100 * row["half"])
    return f"{share.removesuffix(' %')}{half} %" + (f" ({row['cell_text']})" if row["cell_text"] else "")
