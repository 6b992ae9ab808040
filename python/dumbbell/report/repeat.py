"""The command that repeats a run: its experiment file, with the values of its cell and its seed.

A file is found if it comes with dumbbell, or is next to the results or in the current folder under the name of the
experiment, and if it makes the same configuration. Settings that the file does not have, as of `--set`, are added.
Otherwise the command says what is known: the name of the file and the keys of its matrix.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dumbbell.errors import InputError
from dumbbell.experiment import matrix, shipped
from dumbbell.experiment.file import Experiment, load
from dumbbell.report.sources import ReportRuns
from dumbbell.results import dimensions as dims
from dumbbell.results.versions import find_kind

_MOST_CELLS = 20_000  # of a file that is searched for the cells of runs
_OUTPUT = "again.duckdb"


def list_commands(runs: ReportRuns) -> list[str]:
    """Return the command of each run."""
    found: list[str] = []
    known: dict[tuple[int, str], _ExperimentFile | None] = {}
    rows = runs.frame.select("source", "experiment", "seed", "engine_version", "matrix", "config")
    cells: dict[tuple[int, str, str], tuple[str, str]] = {}
    for source, experiment, seed, version, texts, config in rows.iter_rows():
        if command := json.loads(texts).get("shell.command"):
            found.append(f"dumbbell shell {shlex.quote(f'{experiment}.toml')} -o {_OUTPUT} -- {command}")
            continue
        if find_kind(version) == "import":
            found.append("# measured by another tool: dumbbell import FILE --run simulates the same set-up")
            continue
        place = (source, experiment)
        if place not in known:
            known[place] = _find_file(experiment, runs.sources[source].results.path.parent)
        code = (source, experiment, re.sub(r'"seed":[0-9]+', "", config))
        if code not in cells:
            cells[code] = _make_command(experiment, known[place], json.loads(texts), json.loads(config))
        engine = runs.sources[source].engines.get(version, version) if find_kind(version) != "sim" else ""
        engine = "live" if find_kind(version) == "live" else engine
        tail = f" --set 'seeds=[{seed}]'" + (f" --engine {shlex.quote(engine)}" if engine else "")
        command, said = cells[code]
        found.append(f"{command}{tail} -o {_OUTPUT}{said}")
    return found


class _ExperimentFile:
    """An experiment file and its cells, by what their matrix says."""

    def __init__(self, name: str, experiment: Experiment) -> None:
        self.name = name
        self._axes = experiment.matrix
        self._cells: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {}
        if experiment.matrix.size <= _MOST_CELLS:
            step = len(experiment.seeds)
            for number, position in enumerate(experiment.matrix.list_positions()):
                try:
                    cell = experiment.make_cell(number * step)
                except InputError:
                    continue
                self._cells[_make_code(cell.matrix)] = (position, cell.groups)

    def find_settings(self, texts: dict[str, str], config: dict[str, Any]) -> list[str] | None:
        """Return the settings that make this file that run alone; None if it has no such cell."""
        found = self._cells.get(_make_code(texts))
        if found is None:
            return None
        position, own = found
        given = [
            axis.format_setting(digit)
            for axis, digit in zip(self._axes.axes, position, strict=True)
            if len(axis.values) > 1
        ]
        ours, theirs = (json.loads(json.dumps(dims.drop_seed(one))) for one in (own, config))
        paths = dims.find_unlike_paths((), [ours, theirs])
        if any(self._axes.find_changed_axis(path) for path in paths):
            return None
        return given + [setting for path in paths for setting in _list_changes(path, theirs)]


def _make_code(texts: dict[str, str]) -> str:
    return json.dumps(texts, sort_keys=True)


def _list_changes(path: matrix.Path, config: dict[str, Any]) -> Iterator[str]:
    """Yield a setting that gives a key the value which it has in a configuration."""
    for value in matrix.get_path(config, path):
        text = dims.spell_path_value(path, value)
        yield f"{matrix.format_path(path)}={text}"


def _find_file(experiment: str, folder: Path) -> _ExperimentFile | None:
    """Return the file of an experiment: next to the results, here, or one that comes with dumbbell."""
    places = [folder / f"{experiment}.toml", Path(f"{experiment}.toml")]
    names = [(str(path), path) for path in places if path.is_file()]
    names += [(name, path) for name, path in shipped.list_experiments().items() if path.stem == experiment]
    for name, path in names:
        try:
            return _ExperimentFile(name, load(path))
        except InputError:
            continue
    return None


def _make_command(
    experiment: str, file: _ExperimentFile | None, texts: dict[str, str], config: dict[str, Any]
) -> tuple[str, str]:
    """Return the command without its seed, and a comment if the file was not there to try it."""
    said = ""
    settings = None if file is None else file.find_settings(texts, config)
    if file is None or settings is None:
        name = f"{experiment}.toml"
        settings = [f"{key}={text}" for key, text in texts.items()]
        said = f"  # {name} was not found: values are as the results show them"
    else:
        name = file.name
    command = " ".join(["dumbbell run", shlex.quote(name), *(f"--set {shlex.quote(one)}" for one in settings)])
    return command, said
