"""Results held against one file of published numbers, of whichever kind its columns make it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dumbbell.published import by_class, by_flow, by_way
from dumbbell.published import compare as by_cell
from dumbbell.published.compare import Comparison
from dumbbell.results.results import StoredResults


def compare_reference(
    results: StoredResults, reference: str | Path, *, any_length: bool = False
) -> tuple[Comparison, Callable[[Comparison], str]]:
    """Return what was compared, and what writes it as Markdown tables; raises InputError if the file is none.

    `any_length` takes runs of any duration as answers to a cell that states one.
    """
    file = str(reference)
    if by_class.describes(file):
        return by_class.compare(results.runs, results.classes, by_class.read(file)), by_class.format_table
    if by_flow.describes(file):
        return by_flow.compare(results.runs, results.flows, by_flow.read(file)), by_flow.format_table
    if by_way.describes(file):
        return by_way.compare(results.runs, results.flows, by_way.read(file)), by_way.format_table
    figures = by_cell.read_reference(file)
    return by_cell.compare(results.runs, results.flows, figures, any_length=any_length), by_cell.format_grids
