"""Candidates of a search: settled values of its parameters, and what their runs measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dumbbell.searching.ledger import RunValues

if TYPE_CHECKING:
    from dumbbell.experiment.cell import Cell
    from dumbbell.searching.objective import Objective

MEASURED, OUTSIDE, REFUSED, FAILED, WITHOUT_VALUE = "measured", "outside", "refused", "failed", "without a value"
CANDIDATE_COLUMNS = ("candidate", "state", "reason", "seeds", "is_front", "settings")
"""Columns that every candidate has, in addition to its parameters and objectives."""
STATES = {
    MEASURED: "its runs were measured",
    OUTSIDE: "it misses a constraint, and was not run",
    REFUSED: "the experiment does not take its values",
    FAILED: "a run of it failed: an invariant of the engine is broken",
    WITHOUT_VALUE: "a measure of one of its runs has no value",
}


@dataclass
class SearchCandidate:
    """One candidate: its number, settled values of the parameters by name, and its runs by cell and seed."""

    number: int
    values: dict[str, Any]
    state: str = MEASURED
    reason: str = ""
    violation: float = 0.0
    cells: list[Cell] = field(default_factory=list)
    """One run of each cell of the experiment, with the first seed."""
    runs: dict[tuple[int, int], RunValues] = field(default_factory=dict)
    """Measurements of runs, by the place of the cell and the seed."""

    def list_missing(self, seeds: int) -> list[tuple[int, int]]:
        """Return the cells and seeds that are not measured yet."""
        every = ((cell, seed) for cell in range(len(self.cells)) for seed in range(1, seeds + 1))
        return [place for place in every if place not in self.runs]

    def count_seeds(self) -> int:
        """Return how many of the first seeds have runs in all cells."""
        seeds = 0
        while self.cells and all((cell, seeds + 1) in self.runs for cell in range(len(self.cells))):
            seeds += 1
        return seeds

    def settle_state(self, objectives: Sequence[Objective]) -> None:
        """Note which objective has no value in which of its runs, if one has none."""
        for (_, seed), run in self.runs.items() if self.state == MEASURED else ():
            for objective, value in zip(objectives, run, strict=True):
                if value is None:
                    self.state, self.reason = WITHOUT_VALUE, f"objective {objective.name} has no value (seed {seed})"
                    return

    def compute_scores(self, objectives: Sequence[Objective], seeds: int) -> npt.NDArray[np.float64]:
        """Return objectives by seeds: for each seed, cells are merged as the objective says. Less is better."""
        scores = np.empty((len(objectives), seeds))
        for number, one in enumerate(objectives):
            for seed in range(1, seeds + 1):
                values = [self.runs[cell, seed][number] for cell in range(len(self.cells))]
                scores[number, seed - 1] = one.sign_value(
                    one.merge([value for value in values if value is not None], "cells")
                )
        return scores

    def merge_seeds(self, objectives: Sequence[Objective], seeds: int) -> tuple[float, ...]:
        """Return one value for each objective, of which less is better."""
        scores = self.compute_scores(objectives, seeds)
        return tuple(
            float(row.max() if one.seeds == "worst" else row.mean())
            for one, row in zip(objectives, scores, strict=True)
        )
