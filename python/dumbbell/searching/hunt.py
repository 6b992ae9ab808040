"""Hunts: the worst candidates of a search become small experiments, explained and kept as tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dumbbell import _native, figures
from dumbbell.engines.sim import Simulator
from dumbbell.errors import Unfit
from dumbbell.evaluate.kept_cells import draw_run
from dumbbell.evaluate.plan import describe_figures
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.experiment.settings import format_toml
from dumbbell.explain import explained, observed
from dumbbell.results.in_memory import RunsInMemory
from dumbbell.results.measured_run import Finished, MeasuredRun
from dumbbell.results.results import StoredResults
from dumbbell.searching.candidate import SearchCandidate
from dumbbell.searching.objective import Objective
from dumbbell.searching.run_measures import mark_subject, measure_finished
from dumbbell.searching.search_file import HuntPlan, SearchPlan
from dumbbell.searching.search_run import SearchState
from dumbbell.searching.shrink import Table, shrink_table
from dumbbell.words import capitalise, format_count, format_measured
from dumbbell.writing import make_folder, write_text

APART = 0.25  # of the range of some parameter, by which two candidates differ that are both kept
# whose median is what is usual: a first generation, drawn at random; later ones are bad because they were sought
FIRST = 50
_ALLOWED = "a folder that can be written to"


@dataclass(frozen=True)
class KeptFind:
    """A small experiment that is as bad as what a search found."""

    objective: Objective
    candidate: SearchCandidate
    table: Table
    value: float
    """The value of the small experiment, merged over the seeds of the hunt."""
    original: float
    """The value of the candidate's worst cell, before it was made smaller."""
    median: float
    """The median of the first candidates."""
    limit: float
    """The best value with which an experiment is still as bad."""
    tried: int
    seeds: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.objective.name}-{self.candidate.number}"

    @property
    def sentence(self) -> str:
        """The find in a sentence."""
        words = capitalise(self.objective.label.removesuffix(f", {self.objective.unit}"))
        words += "," if "," in words else ""
        value, limit, median = map(self.objective.format_value, (self.value, self.limit, self.median))
        side = "at most" if self.objective.is_less_better else "at least"
        return f"{words} is {value}, {side} {limit}; the median of the first candidates is {median}."


def find_worst(state: SearchState, objective: int, keep: int) -> list[SearchCandidate]:
    """Return the candidates with the most extreme values of an objective, no two of them near each other."""
    plan = state.plan
    ordered = sorted(
        state.measured, key=lambda one: (one.merge_seeds(plan.objectives, plan.seeds.first)[objective], one.number)
    )
    chosen: list[SearchCandidate] = []
    for one in ordered:
        if len(chosen) == keep:
            break
        if all(_measure_distance(plan, one, other) > APART for other in chosen):
            chosen.append(one)
    return chosen


def _measure_distance(plan: SearchPlan, one: SearchCandidate, other: SearchCandidate) -> float:
    """Return the largest difference of a parameter, as part of its range; 1 between two choices."""
    found = [0.0]
    for parameter in plan.parameters:
        a, b = one.values[parameter.name], other.values[parameter.name]
        if parameter.choices:
            found.append(float(a != b))
        elif parameter.is_log:
            found.append(float(abs(np.log(a / b)) / np.log(parameter.high / parameter.low)))
        else:
            found.append(abs(a - b) / (parameter.high - parameter.low))
    return max(found)


def find_median(state: SearchState, objective: int) -> float:
    """Return the median value of an objective among the first candidates of a search, less of which is better."""
    plan = state.plan
    return float(
        np.median([one.merge_seeds(plan.objectives, plan.seeds.first)[objective] for one in state.measured[:FIRST]])
    )


def shrink_worst(state: SearchState, note: Callable[[str], None] = lambda _: None) -> list[KeptFind]:
    """Return small experiments that are as bad as the worst candidates, for each objective, each once.

    A candidate that is not worse than the median of the first ones with the seeds of the hunt gives none, and `note`
    gets the reason.
    """
    plan, finds = state.plan, []
    hunt = plan.hunt or HuntPlan()
    seen: set[str] = set()
    for number, objective in enumerate(plan.objectives):
        for one in find_worst(state, number, hunt.keep):
            find = _shrink_candidate(state, one, number, hunt)
            if isinstance(find, str):
                note(f"candidate {one.number}: {find}")
                continue
            note(f"candidate {one.number}: {format_count(find.tried, 'smaller experiment')} tried")
            text = f"{objective.name} {format_toml(find.table)}"
            if text not in seen:
                seen.add(text)
                finds.append(find)
    return finds


def _shrink_candidate(state: SearchState, one: SearchCandidate, number: int, hunt: HuntPlan) -> KeptFind | str:
    """Return the small experiment of a candidate, or the reason why there is none."""
    plan, objective = state.plan, state.plan.objectives[number]
    cells = range(len(one.cells))
    worst = min(cells, key=lambda cell: objective.sign_value(one.runs[cell, 1][number] or 0.0))
    experiment = plan.set_parameters(one.values, 1)
    table = experiment.make_table(experiment.matrix.find_position(worst))
    alone = replace(plan, objectives=(objective,))
    middle = find_median(state, number)
    median = objective.sign_value(middle)
    original = measure_table(alone, table, hunt.seeds)
    seeds = format_count(hunt.seeds, "seed")
    if original is None:
        return f"{objective.name} has no value in some run with {seeds}; nothing is kept"
    if objective.sign_value(original) >= middle:
        found = f"{objective.name} is {objective.format_value(original)} with {seeds}"
        usual = f"{objective.format_value(median)}, the median of the first candidates"
        return f"{found}, not worse than {usual}; nothing is kept"
    limit = median + hunt.share * (original - median)

    def is_bad(smaller: Table) -> bool:
        value = measure_table(alone, smaller, hunt.seeds)
        return value is not None and objective.sign_value(value) <= objective.sign_value(limit)

    keep_flows = max((index + 1 for index in _list_subjects(plan)), default=0)
    tied = [parameter.paths for parameter in plan.parameters if len(parameter.paths) > 1]
    smaller, tried = shrink_table(table, is_bad, keep_flows, hunt.least_s, tied)
    value = measure_table(alone, smaller, hunt.seeds)
    assert value is not None
    return KeptFind(objective, one, smaller, value, original, median, limit, tried, hunt.seeds)


def _list_subjects(plan: SearchPlan) -> list[int]:
    return [int(text.partition("[")[2].rstrip("]")) for text in plan.subject]


def measure_table(plan: SearchPlan, table: Table, seeds: int) -> float | None:
    """Return the only objective's value in an experiment of one cell, merged over seeds; None if a run has none."""
    finished = carry_out_table(table, seeds)
    if finished is None:
        return None
    roles = {one.cell.key: mark_subject(plan, table) for one in finished}
    values = [found[0] for found in measure_finished(plan, finished, roles).values()]
    known = [value for value in values if value is not None]
    return plan.objectives[0].merge(known, "seeds") if len(known) == len(values) else None


def carry_out_table(table: Table, seeds: int) -> list[Finished] | None:
    """Return the runs of an experiment of one cell; None if one fails."""
    cells = list(parse(table | {"seeds": list(range(1, seeds + 1))}, "found").make_cells())
    with Simulator().open_workers(1) as workers:
        ended = workers.begin([(cell, _native.Progress()) for cell in cells]).result()
    if not all(isinstance(one, MeasuredRun) for one in ended):
        return None
    return [Finished(cell, one) for cell, one in zip(cells, ended, strict=True) if isinstance(one, MeasuredRun)]


# keeping


def keep_finds(plan: SearchPlan, finds: Sequence[KeptFind], folder: Path) -> list[Path]:
    """Write each find into a folder of its own, and return these. Raises InputError.

    A folder has `experiment.toml`, `suite.toml` with the statement that the experiment is as bad as it was found,
    `README.md` with the sentences of `dumbbell explain`, and `figure.png`.
    """
    return [_keep_find(plan, one, make_folder(folder / one.name, _ALLOWED)) for one in finds]


def _keep_find(plan: SearchPlan, one: KeptFind, path: Path) -> Path:
    table = one.table | {"seeds": list(range(1, one.seeds + 1))}
    lines = [f"# {one.sentence}", "# dumbbell run experiment.toml", ""]
    lines += [f"{key} = {format_toml(value)}" for key, value in table.items()]
    write_text(path / "experiment.toml", "\n".join([*lines, ""]), _ALLOWED)
    write_text(path / "suite.toml", make_suite(plan, one), _ALLOWED)
    finished = carry_out_table(one.table, 1)
    assert finished is not None
    stored = StoredResults(RunsInMemory(finished))
    if len(stored.frame("series")):
        figures.save(draw_run(stored, one.sentence), str(path / "figure.png"))
    write_text(path / "README.md", _describe_find(plan, one, finished[0]), _ALLOWED)
    return path


def _describe_find(plan: SearchPlan, one: KeptFind, finished: Finished) -> str:
    run = observed.observe_cell(finished.cell, finished.run)
    observed.repeat(run)
    command = ["dumbbell run experiment.toml -o kept.duckdb", "dumbbell evaluate results kept.duckdb --suite ."]
    share = f"{format_measured(100 * (plan.hunt or HuntPlan()).share)} %"
    candidate = f"Candidate {one.candidate.number} of search {plan.name}"
    how = (
        f"{candidate} had {one.objective.format_value(one.original)}. This experiment is the smallest of {one.tried} "
        f"that keeps {share} of the way from the median of the first candidates to it, "
        f"with {format_count(one.seeds, 'seed')}."
    )
    parts = [
        f"# {one.name}",
        one.sentence,
        how,
        "To repeat it:",
        "\n".join(f"    {line}" for line in command),
        "The run of the first seed, explained:",
        re.sub(r"^(?=.)", "    ", explained.explain_run(run).to_text(), flags=re.MULTILINE),
    ]
    return "\n\n".join([*parts, ""])


def make_suite(plan: SearchPlan, one: KeptFind) -> str:
    """Return a suite with the statement that runs of the find are as bad as the limit. Raises InputError."""
    sign = "<=" if one.objective.is_less_better else ">="
    suite: dict[str, Any] = {
        "title": f"Found by search {plan.name}",
        "of": "results",
        "table": {"runs": {"measures": ["value"], "sql": make_query(plan, one)}},
        "paragraphs": {"found": {"title": plan.title or plan.name}},
        "words": {"limit": {"value": one.limit, "origin": f"search {plan.name}, candidate {one.candidate.number}"}},
        "cells": [{"place": ["found"]}],
        "criterion": [
            {
                "id": one.name,
                "answers": ["found"],
                "says": one.sentence,
                "measure": "value",
                "passes": f"{sign} limit",
                "cells": "every",
            }
        ],
    }
    return "".join(f"{key} = {format_toml(value)}\n" for key, value in suite.items())


def make_query(plan: SearchPlan, one: KeptFind) -> str:
    """Return SQL that gives place, seed and value of each run. Raises InputError if the measure is not SQL."""
    objective = one.objective
    if objective.measure is None:
        merged = f"{objective.sql_function}(t.{objective.column})"
        inner = f"SELECT t.key, {merged} AS value FROM {objective.table} t GROUP BY t.key"
        return f"SELECT 'found' AS place, runs.seed, found.value FROM ({inner}) found JOIN runs USING (key)"
    if not objective.measure.sql:
        allowed = "a criterion whose measure is SQL, or measure or sql"
        raise Unfit(
            f"{objective.source} measures by a function", allowed, file=plan.file, key=f"objectives.{objective.name}"
        )
    (cell,) = parse(one.table | {"seeds": [1]}, "found").make_cells()
    return _add_tables(plan, one.table, cell, objective.measure.sql)


def _format_literal(value: float | str | None) -> str:
    """Return a value as SQL has it."""
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _add_tables(plan: SearchPlan, table: Table, cell: Cell, query: str) -> str:
    """Return SQL of a suite with its tables `cells` and `roles`, which results do not have."""
    roles = mark_subject(plan, table)
    own = [str(flow) for flow, is_subject in enumerate(roles) if is_subject] or ["NULL"]
    figures = describe_figures(cell, len(roles)).items()
    columns = ", ".join(f"{_format_literal(value)} AS {name}" for name, value in figures)
    cells = f"cells AS (SELECT key, seed, {columns} FROM runs)"
    role = f"CASE WHEN flow IN ({', '.join(own)}) THEN 'subject' ELSE 'other' END"
    bulk = f"roles AS (SELECT key, flow, {role} AS role FROM flows WHERE flow < {len(roles)})"
    return (
        f"WITH {cells}, {bulk} SELECT 'found' AS place, runs.seed, avg(found.value) AS value"
        f" FROM ({query.strip()}) found JOIN runs USING (key) GROUP BY runs.seed"
    )
