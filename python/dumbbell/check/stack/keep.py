"""The way from a verdict to its run: experiment files, qlog and packets of the cells that failed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dumbbell.check.stack.outcomes import StackRun
from dumbbell.check.stack.suite import STACK, StackResult
from dumbbell.errors import InputError
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment, parse
from dumbbell.experiment.settings import format_toml

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9.,=-]+")


def make_experiment(one: StackResult, seed: int) -> Experiment:
    """Return the run of a result as an experiment. Raises InputError."""
    return parse(_make_table(one, seed), f"{one.case} {one.place} {one.control}")


def _make_table(one: StackResult, seed: int) -> dict[str, Any]:
    assert one.subject is not None
    title = f"{one.case}, {one.place}, {one.control}: {one.verdict.result}"
    return {"title": title, **one.seen.scene.substitute_control(one.subject.flow, [seed])}


def find_worst_seed(one: StackResult) -> int:
    """Return the seed whose run shows best what a result says: of the longest completion, or of the least goodput."""
    number = one.seen.scene.subjects[0]
    runs = one.seen.subject.runs
    if not runs:
        return 1

    def measure_badness(run: StackRun) -> tuple[float, float, float]:
        flow = run.flows[number]
        # closed as early as the verdict says; never complete is worse than late
        closed = min((one.closed_after for one in run.flows if one.closed), default=math.inf)
        return -closed, math.inf if math.isnan(flow.completion) else flow.completion, -flow.goodput

    return int(max(runs, key=measure_badness).seed)


def keep(
    results: Iterable[StackResult],
    folder: Path,
    writers: Mapping[str, Callable[[Cell, Path], object]],
    say: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write the runs of all results that are bad into a folder each; return these. Raises InputError.

    A folder has `experiment.toml`, and what each of `writers` writes below its name, of the seed in which it is worst.
    """
    made = []
    for one in results:
        if not STACK.is_bad(one.verdict.result):
            continue
        place = folder / _NOT_IN_NAME.sub("-", f"{one.control} {one.case} {one.place}")
        place.mkdir(parents=True, exist_ok=True)
        seed = find_worst_seed(one)
        lines = [f"{key} = {format_toml(value)}" for key, value in _make_table(one, seed).items()]
        head = [f"# {one.verdict.result}: {one.verdict.reason}", "# dumbbell run --trust experiment.toml"]
        (place / "experiment.toml").write_text("\n".join([*head, "", *lines, ""]), encoding="utf-8")
        cell = make_experiment(one, seed).make_cell(0)
        for name, write in writers.items():
            try:
                write(cell, place / name)
            except (InputError, RuntimeError) as error:
                say(f"{place / name}: {error}")
        made.append(place)
    return made
