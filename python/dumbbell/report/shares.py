"""What a report says of the flows of one run against each other: who gets more, by how much, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dumbbell.explain import observed
from dumbbell.explain.explained import explained
from dumbbell.report.findings import Side
from dumbbell.results import dimensions as dims
from dumbbell.results.tables import number

_MOST_KINDS = 6  # of flows that are held against each other


@dataclass
class Shares:
    """How unlike flows share, over the cells of one side: a sentence, and a row of texts for each kind of flow."""

    title: str
    says: str
    rows: list[list[str]]


def one_run(sides: Sequence[Side]) -> list[str]:
    """Return what a run came to, in sentences, if there is only one."""
    if sum(len(side.number_of) for side in sides) != 1:
        return []
    return [fact.sentence for fact in explained(observed.of_results(sides[0].results)).results]


def shares(sides: Sequence[Side]) -> list[Shares]:
    """Return how flows of unlike kinds share, for each side whose cells all have the same kinds; not of one run."""
    if sum(len(side.number_of) for side in sides) == 1:
        return []
    found = [_shares(side, side.name if len(sides) > 1 else "") for side in sides]
    return [one for one in found if one is not None]


def _shares(side: Side, title: str) -> Shares | None:
    flows = side.results.parts("flows", ["goodput_mbit"])
    flows = flows.filter(~pl.col("cc").is_in(["udp", "ping"]))  # which send as they please
    kinds = flows["part"].unique(maintain_order=True).to_list()
    keys = [(one, dims.apart(one, side.results.configurations)) for one in side.results.dimensions]
    cells = {cell: ", ".join(one.said(called[one.texts[cell]]) for one, called in keys) for cell in side.cells}
    if not 2 <= len(kinds) <= _MOST_KINDS or None in kinds:
        return None
    # seeds have the same weight, and so have cells
    each = flows.group_by("cell", "key", "part", maintain_order=True).agg(
        total=pl.col("goodput_mbit").sum(), flow=pl.col("goodput_mbit").mean(), flows=pl.len()
    )
    each = each.group_by("cell", "part", maintain_order=True).agg(pl.col("total", "flow").mean(), pl.col("flows").max())
    each = each.with_columns(
        share=pl.col("total") / pl.col("total").sum().over("cell"),
        most=pl.col("flow") == pl.col("flow").max().over("cell"),
        cell_text=pl.col("cell").replace_strict(cells),
    )
    if each.group_by("cell").len()["len"].min() != len(kinds) or each["share"].is_nan().any():
        return None
    rows = []
    for kind in kinds:
        own = each.filter(part=kind).sort("share")
        ends = [f"{_percent(own['share'][at])}{_where(own['cell_text'][at])}" for at in (0, -1)]
        count = int(own["flows"].max() or 1)  # type: ignore[arg-type]
        rows.append(
            [
                f"{kind} ({count} flows)" if count > 1 else kind,
                f"{number(own['flow'].mean())}",  # type: ignore[arg-type]
                _percent(own["share"].mean()),  # type: ignore[arg-type]
                *(ends if own.height > 1 else []),
                f"{own['most'].sum()} of {own.height}",
            ]
        )
    return Shares(title, _says(each, kinds, several=len(side.number_of) > 1), rows)


def _says(each: pl.DataFrame, kinds: Sequence[str], *, several: bool) -> str:
    """Return who gets more, and where flows are furthest apart."""
    wins = {kind: int(each.filter(part=kind)["most"].sum()) for kind in kinds}
    first, *others = sorted(kinds, key=lambda kind: -wins[kind])
    cells = each["cell"].n_unique()
    per_flow = "A flow of " if each["flows"].max() != 1 else ""
    than = others[0] if len(others) == 1 else "any other"
    where = f" in {wins[first]} of {cells} cells" if cells > 1 else " in the mean over seeds" if several else ""
    apart = each.group_by("cell", "cell_text", maintain_order=True).agg(
        high=pl.col("flow").max(),
        low=pl.col("flow").min(),
        who=pl.col("part").sort_by("flow").last(),
        whom=pl.col("part").sort_by("flow").first(),
    )
    row = apart.sort(pl.col("high") / (pl.col("high") + pl.col("low"))).row(-1, named=True)
    unlike = "They are furthest apart with " + row["cell_text"] if cells > 1 else "They get"
    colon = ":" if cells > 1 else ""
    sizes = f"{number(row['high'])} Mbit/s for {row['who']} and {number(row['low'])} Mbit/s for {row['whom']}"
    return f"{per_flow}{first} gets more goodput than {than}{where}. {unlike}{colon} {sizes}."


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _where(text: str) -> str:
    return f" ({text})" if text else ""
