"""The packets of a run in a results file: it is simulated again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence

import polars as pl

from dumbbell import _native
from dumbbell.errors import Ambiguous, Nothing, Unfit
from dumbbell.experiment import units
from dumbbell.experiment.cell import Cell
from dumbbell.packets import recording, wanted
from dumbbell.results.results import StoredResults
from dumbbell.results.versions import find_kind


def repeat_packets(
    results: StoredResults,
    at: str | Sequence[str] = (),
    flows: int | Sequence[int] = (),
    time: str | tuple[float | str, float | str] | None = None,
) -> pl.DataFrame:
    """Return the packets of the one run that `results` are, with the columns of `packets.recording.record_packets`.

    `at` are points, by default all; `flows` numbers as in table `flows`, by default all; `time` is a part of it,
    `(2.0, 3.0)` in seconds or `("2s", "3s")`.

    A warning says if this simulator measures something else than what the file has. Raises InputError.
    """
    file = str(results.path)
    if len(results) != 1:
        raise (
            Ambiguous(f"these are {len(results)} runs", "one with where(…)", file=file, key="packets")
            if len(results)
            else Nothing("found no run", "the results of one run", file=file)
        )
    rows = results.frame("runs").row(0, named=True)
    engine = find_kind(rows["engine_version"])
    if engine != "sim":
        trace = f"a run of sim, or dumbbell trace --engine {engine}, which carries the experiment out again"
        reason, some = f"the run is of engine {rows['engine_version']}, which cannot be repeated here", trace
        if engine == "import":
            reason, some = "the run was imported: another tool measured it", "a run of sim, or a capture of your own"
        raise Unfit(reason, some, file=file, key="packets")
    cell = Cell(rows["experiment"], rows["title"], json.loads(rows["matrix"]), rows["seed"], json.loads(rows["config"]))
    points = [at] if isinstance(at, str) else at
    numbers = [flows] if isinstance(flows, int) else flows
    span = None if time is None else units.parse_span(time, "time")
    found, digest = recording.record_packets(cell, wanted.check_selection(cell, points, numbers, span))
    if digest != rows["hash"]:
        version = _native.engine_version()
        warnings.warn(
            f"{file}: the run is of engine {rows['engine_version']}; {version} measures something else, and these are "
            "its packets",
            stacklevel=3,
        )
    return found
