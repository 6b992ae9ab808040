"""Published numbers next to those of the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.errors import InputError, Nothing
from dumbbell.experiment import shipped
from dumbbell.published import compare, reference
from dumbbell.published.compare import Comparison, Pair
from dumbbell.report.findings import ReportSide


@dataclass
class Published:
    """One reference next to the runs of one side."""

    name: str
    side: str
    scores: list[list[str]]
    """Header and rows: median, 90th percentile and worst cell of every score."""
    note: str
    pairs: list[dict[str, Any]]


def list_published(sides: Sequence[ReportSide], wanted: Sequence[str]) -> list[Published]:
    """Return what references say: those that are `wanted`, and those that come with dumbbell and have a cell of these.

    Raises InputError if a wanted one is none, or has no cell that a run answers.
    """
    own = shipped.list_references()
    files = [(Path(name).stem, own.get(name.removesuffix(".csv"), Path(name)), True) for name in wanted]
    files += [(name, path, False) for name, path in own.items() if name not in {one for one, _, _ in files}]
    found = []
    for name, path, asked in files:
        held = [one for side in sides if (one := _compare_with_reference(name, path, side, asked=asked)) is not None]
        if asked and not held:
            raise Nothing("found no run of a cell that is published", "published results of these runs", file=path)
        found += held
    return found


def _compare_with_reference(name: str, path: Path, side: ReportSide, *, asked: bool) -> Published | None:
    try:
        found, _ = reference.compare_reference(side.results, path)
    except (InputError, pl.exceptions.PolarsError, LookupError, ValueError, TypeError):
        if asked:
            raise
        return None  # of another form, or of runs of another kind
    if not found.pairs:
        return None
    scores, _, note = compare.format_scores(found).rpartition("\n\n")
    return Published(name, side.name, _split_table(scores), note, _make_pairs(found, side.number_of))


def _split_table(table: str) -> list[list[str]]:
    """Return header and rows of a Markdown table."""
    lines = [line.replace("\\|", "\x00").strip("| ").split("|") for line in table.splitlines()]
    return [[cell.strip().replace("\x00", "|") for cell in line] for i, line in enumerate(lines) if i != 1]


def _make_pairs(found: Comparison, number_of: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "where": compare.format_cell(pair.figure.cell),
            "table": pair.figure.table,
            "metric": pair.figure.metric,
            "flow": pair.figure.flow or None,
            "published": pair.figure.value,
            "simulated": pair.simulated,
            "error": None if math.isnan(pair.error) else pair.error,
            "score": pair.score,
            "runs": _list_numbers(pair, number_of),
        }
        for pair in found.pairs
    ]


def _list_numbers(pair: Pair, number_of: dict[str, int]) -> list[int]:
    return [number_of[key] for key in pair.keys if key in number_of]
