"""The way from a grade to its run: a folder for each cell that is bad, with all that is needed to look into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell import figures
from dumbbell.errors import InputError
from dumbbell.evaluate.bbr import figure, qlog_trace
from dumbbell.evaluate.bbr.case import BbrCase
from dumbbell.evaluate.bbr.cases import CASES, name_case
from dumbbell.evaluate.bbr.lab import CaseRun
from dumbbell.evaluate.evaluation import Evaluation
from dumbbell.evaluate.grade import CellGrade, is_bad
from dumbbell.evaluate.verdict_report import describe_cell
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import parse
from dumbbell.experiment.settings import format_toml
from dumbbell.results.results import StoredResults
from dumbbell.writing import make_folder, write_text

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9.,=-]+")
_PLACE = "a folder that can be written to"
Writers = Mapping[str, Callable[[Cell, Path], object]]
"""Functions that write a run to a file, by the name of the file."""


def keep_cells(
    found: Evaluation,
    folder: Path,
    results: Path,
    writers: Writers,
    say: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write each cell that is bad into a folder of its own; return these. Raises InputError.

    A folder has `verdict.txt`. Of a measure it has `experiment.toml`, `figure.png` and what each of `writers` writes
    below its name, all of the seed that is worst; of a judge the trace that it judged, and its figure. `results` are
    the stored runs. `say` gets what could not be written.
    """
    made = []
    for one in (cell for cell in found.cells if is_bad(cell.grade)):
        path = make_folder(folder / _NOT_IN_NAME.sub("-", " ".join(one.key)).strip("-"), _PLACE)
        write_text(path / "verdict.txt", _describe(found, one), _PLACE)
        try:
            if one.judged is not None and one.judged.run is not None:
                case = CASES[name_case(one.criterion.judge)]
                _keep_trace(one.judged.run, case, one.grade, found.subject.name, path)
            elif one.place in found.plan.tables:
                _keep_run(found, one, path, results, writers)
        except (InputError, RuntimeError) as error:
            say(f"{path}: {error}")
        made.append(path)
    return made


def _describe(found: Evaluation, one: CellGrade) -> str:
    """Return the verdict of a cell, what was looked at, and how to repeat it."""
    lines = [
        f"{found.subject.name}, {one.criterion.id}: {one.criterion.says}",
        f"cell: {one.name or 'the only one'}",
        f"grade: {one.grade}",
        describe_cell(found, one),
        *(f"{grade} if {bar.text}" for grade, bar in one.criterion.named_bars),
        *(f"{check.what}: {check.found}" for check in one.checks),
        *([f"worst seed: {one.worst_seed}"] if one.place in found.plan.tables else []),
        f"repeat: {one.command}",
    ]
    return "\n".join([*lines, ""])


def _keep_trace(run: CaseRun, case: BbrCase, grade: str, subject: str, path: Path) -> None:
    title = f"{case.number}. {case.heading}: {grade}"
    qlog_trace.write(path / "trace.sqlog", run, title, subject, case.key)
    figures.save(figure.draw(run, case, grade, subject), str(path / "figure.png"))


def _keep_run(found: Evaluation, one: CellGrade, path: Path, results: Path, writers: Writers) -> None:
    table: dict[str, Any] = found.plan.tables[one.place] | {"seeds": [one.worst_seed]}
    lines = [f"{key} = {format_toml(value)}" for key, value in table.items()]
    head = [
        f"# {one.criterion.id}: {one.grade}",
        f"# {found.subject.format_run('experiment.toml')}",
        "",
    ]
    write_text(path / "experiment.toml", "\n".join([*head, *lines, ""]), _PLACE)
    cell = parse(table, str(path / "experiment.toml")).make_cell(0)
    stored = StoredResults(results, keys=[cell.key])
    if stored.keys:
        title = f"{found.subject.name}, {one.criterion.id}, {one.name}"
        figures.save(draw_run(stored, title), str(path / "figure.png"))
    for name, write in writers.items():
        write(cell, path / name)


def draw_run(stored: StoredResults, title: str) -> figures.Picture:
    """Draw a run over time: goodput of each flow, and the time in the queue."""
    flows = stored.frame("series").with_columns(flow=pl.format("flow {}", pl.col("flow") + 1))
    panels = [figures.Series(flows, "goodput_mbit", "flow", "goodput, Mbit/s", steps=True)]
    panels.append(figures.Series(stored.frame("queue_series"), "sojourn_mean_ms", None, "time in queue, ms"))
    return figures.stacked_series([one for one in panels if len(one.frame)], title=title)
