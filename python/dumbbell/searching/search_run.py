"""Carries out a search: asks a sampler for candidates, measures them, and finds the front with few seeds.

What a sampler asks depends on its seed and on the answers alone, in batches whose size does not depend on the machine.
So a search that was stopped asks the same candidates again, finds their values in the results file, and ends with the
same front, to the bit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dumbbell import _native
from dumbbell.engines import sweep
from dumbbell.engines.sim import Simulator
from dumbbell.errors import Nothing
from dumbbell.searching import dominance
from dumbbell.searching.candidate import MEASURED, OUTSIDE, WITHOUT_VALUE, SearchCandidate
from dumbbell.searching.ledger import Ledger
from dumbbell.searching.run_measures import RunMeasurer
from dumbbell.searching.sampler import Answer, Sampler
from dumbbell.searching.sampler_choice import make_sampler
from dumbbell.searching.search_file import SearchPlan

AS_GIVEN = -1  # the number of the candidate that is the experiment as its file has it
_MOST_ASKED = 20  # suggestions for each candidate of the budget, where constraints refuse many
Told = Callable[[int, int], None]


@dataclass
class SearchState:
    """The candidates of a search, those on its front, and the seeds that each of these has."""

    plan: SearchPlan
    candidates: list[SearchCandidate] = field(default_factory=list)
    unchanged: SearchCandidate = field(default_factory=lambda: SearchCandidate(AS_GIVEN, {}))
    """The experiment as its file has it, which is compared with the front."""
    front: list[SearchCandidate] = field(default_factory=list)
    seeds: int = 0
    """Seeds of the front, and of those that were compared with it last."""
    finished: bool = False
    runs: int = 0
    """Runs that were carried out; what the results file had was not."""

    @property
    def measured(self) -> list[SearchCandidate]:
        """The candidates with values."""
        return [one for one in self.candidates if one.state == MEASURED]


def carry_out_search(
    plan: SearchPlan,
    output: str | Path,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    told: Told | None = None,
    on_note: Callable[[str], None] = lambda _: None,
) -> SearchState:
    """Carry out a search, or go on with it, and write it into the results file `output`, with the runs of its front.

    `told` gets the number of candidates that are done, and of all. Raises InputError, KeyboardInterrupt on Ctrl-C:
    what is finished is kept.
    """
    state = SearchState(plan)
    sampler = make_sampler(
        plan.sampler, plan.parameters, len(plan.objectives), plan.sampler_seed, constrained=bool(plan.constraints)
    )
    with sweep.open_workers(jobs, cluster, Simulator()) as workers, Ledger(output, plan.objectives) as ledger:
        measurer = RunMeasurer(plan, workers, ledger)
        try:
            measurer.measure([state.unchanged], plan.seeds.first)
            _sample(state, sampler, measurer, told or _ignore_progress)
            _compare_with_more_seeds(state, measurer, on_note)
            measurer.measure([state.unchanged], state.seeds)
            state.finished = True
        finally:
            state.runs = measurer.carried_out
            if not state.finished:
                workers.stop()
                _find_first_front(state)
            ledger.commit()
            write_state(state, ledger)
    if state.front:
        experiments = [plan.set_parameters(one.values, state.seeds) for one in state.front]
        report = sweep.run(experiments, output, jobs=jobs, cluster=cluster, engine=Simulator(), progress=False)
        if report.interrupted:
            raise KeyboardInterrupt
    return state


def _sample(state: SearchState, sampler: Sampler, measurer: RunMeasurer, told: Told) -> None:
    """Measure as many candidates as the budget says."""
    plan, done = state.plan, 0
    while done < plan.budget:
        suggestions = sampler.ask(plan.budget - done)
        batch = [_make_candidate(plan, len(state.candidates) + n, one) for n, one in enumerate(suggestions)]
        measurer.measure([one for one in batch if one.state == MEASURED], plan.seeds.first)
        state.candidates += batch
        sampler.take_answers([_answer(plan, one) for one in batch])
        done += sum(one.state != OUTSIDE for one in batch)
        told(done, plan.budget)
        if len(state.candidates) > _MOST_ASKED * plan.budget:
            found = f"{len(state.candidates) - done} of {len(state.candidates)} candidates miss a constraint"
            raise Nothing(found, "constraints that more of the space meets", file=plan.file, key="constraints")
    if not state.measured:
        one = next((one for one in state.candidates if one.reason), state.candidates[0])
        found = f"none of {len(state.candidates)} candidates was measured; the first: {one.reason or one.state}"
        if one.state == WITHOUT_VALUE:
            raise Nothing(found, "a measure that every run has", file=plan.file, key="objectives")
        raise Nothing(found, "parameters with which the experiment runs", file=plan.file, key="parameters")


def _make_candidate(plan: SearchPlan, number: int, suggestion: dict[str, Any]) -> SearchCandidate:
    values = {one.name: one.settle(suggestion[one.name]) for one in plan.parameters}
    candidate = SearchCandidate(number, values)
    shown = {one.name: float(one.show(values[one.name])) for one in plan.parameters if one.is_number}
    candidate.violation = max((one.measure_violation(shown) for one in plan.constraints), default=0.0)
    if candidate.violation > 0:
        candidate.state = OUTSIDE
    return candidate


def _answer(plan: SearchPlan, one: SearchCandidate) -> Answer:
    if one.state != MEASURED:
        return Answer(None, one.violation)
    return Answer(one.merge_seeds(plan.objectives, plan.seeds.first))


def _find_first_front(state: SearchState) -> None:
    """Find the front by the seeds that all candidates have."""
    state.seeds = state.plan.seeds.first
    measured = [one for one in state.measured if not one.list_missing(state.seeds)]
    if measured:
        values = np.array([one.merge_seeds(state.plan.objectives, state.seeds) for one in measured])
        state.front = [measured[row] for row in dominance.find_front(values)]


def _compare_with_more_seeds(state: SearchState, measurer: RunMeasurer, on_note: Callable[[str], None]) -> None:
    """Find the front; those of which it is not sure whether they belong there get more seeds, twice as many each time.

    All that are compared have the same seeds. It ends when no other candidate may be better than the front by the
    intervals of paired differences, or at the most seeds.
    """
    plan = state.plan
    _find_first_front(state)
    alive = _select_unlike(state.measured)
    while state.seeds < plan.seeds.most:
        scores = np.array([one.compute_scores(plan.objectives, state.seeds) for one in alive])
        front = dominance.find_front(scores.mean(axis=2))
        contenders = dominance.find_contenders(scores, front)
        if not contenders:
            break
        alive = [alive[row] for row in sorted([*front, *contenders])]
        seeds = min(2 * state.seeds, plan.seeds.most)
        on_note(f"{len(alive)} candidates may belong to the front; they get {seeds} seeds")
        measurer.measure(alive, seeds)
        alive = [one for one in alive if one.state == MEASURED]
        state.seeds = seeds
        values = np.array([one.merge_seeds(plan.objectives, seeds) for one in alive])
        state.front = [alive[row] for row in dominance.find_front(values)]


def _select_unlike(candidates: Sequence[SearchCandidate]) -> list[SearchCandidate]:
    """Return the first of candidates with the same values."""
    found: dict[str, SearchCandidate] = {}
    for one in candidates:
        found.setdefault(repr(sorted(one.values.items())), one)
    return list(found.values())


def describe_plan(plan: SearchPlan) -> dict[str, Any]:
    """Return what tables and figures of a search have to know of its file."""
    return {
        "engine": _native.engine_version(),
        "sampler": plan.sampler,
        "budget": plan.budget,
        "cells": plan.experiment.matrix.size,
        "experiment": plan.experiment.name,
        "parameters": [
            {"name": one.name, "column": one.column, "label": one.axis_label, "keys": list(one.keys), "log": one.is_log}
            for one in plan.parameters
        ],
        "objectives": [
            {
                "name": one.name,
                "label": one.label,
                "aim": "minimise" if one.is_less_better else "maximise",
                "cells": one.cells,
                "seeds": one.seeds,
            }
            for one in plan.objectives
        ],
    }


def write_state(state: SearchState, ledger: Ledger) -> None:
    """Write the candidates of a search and their scores into its results file."""
    plan, on_front = state.plan, {one.number for one in state.front}
    candidates, scores = [], []
    for one in [state.unchanged, *state.candidates]:
        seeds = one.count_seeds()
        parameters = {own.column: own.show(one.values[own.name]) for own in plan.parameters if one.values}
        settings = plan.list_options(one.values)
        row = (one.number, one.state, one.reason, seeds, one.number in on_front)
        candidates.append((*row, _format_json(parameters), _format_json(settings)))
        if one.state == MEASURED and seeds:
            scores += [(one.number, *row) for row in list_scores(plan, one, seeds)]
    described = (plan.name, plan.title, _format_json(describe_plan(plan)), state.finished)
    ledger.write_search(plan.name, described, candidates, scores)


def list_scores(plan: SearchPlan, one: SearchCandidate, seeds: int) -> list[tuple[str, float, float, float]]:
    """Return name, value and 95 % interval of each objective of a candidate; the worst seed has no interval."""
    scores = one.compute_scores(plan.objectives, seeds)
    means, halves = dominance.estimate_halves(scores)
    found = []
    for number, objective in enumerate(plan.objectives):
        if objective.seeds == "worst":
            value = objective.sign_value(float(scores[number].max()))
            found.append((objective.name, value, value, value))
        else:
            value, half = objective.sign_value(float(means[number])), float(halves[number])
            found.append((objective.name, value, value - half, value + half))
    return found


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _ignore_progress(_done: int, _of: int) -> None:
    pass
