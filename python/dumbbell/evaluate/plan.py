"""The runs of a suite: each scene with the subject and with every yardstick in its place."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from dumbbell.engines.base import Engine, prepare_experiments
from dumbbell.errors import InputError, OutOfRange, UnknownName, quote_value
from dumbbell.evaluate.suite_file import SUBJECT_KEYS, EvaluationSuite, SuiteScene, name_suite
from dumbbell.experiment import matrix as keys
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment, parse
from dumbbell.experiment.plugins.trust import VARIABLE
from dumbbell.experiment.settings import show_setting
from dumbbell.experiment.toml_file import read_toml

Position = tuple[int, ...]
NOBODY = "nobody"
"""The name in the place of a candidate, for runs without a subject."""


@dataclass(frozen=True)
class Candidate:
    """A subject or a yardstick: its name, and its value in an experiment file.

    `relative` is another one of its kind in its place: a bar that both miss does not count.
    """

    name: str
    value: Any
    relative: Any = None
    words: tuple[str, ...] = ()
    """A stack on the command line: its name, and the options that set its control and parameters."""
    engine: str = "sim"
    """The engine of its runs, by the name that `--engine` takes."""

    def format_run(self, *words: str) -> str:
        """Return the command that runs an experiment with it; the folder of a plugin has to be trusted."""
        value = self.value if isinstance(self.value, dict) else {}
        file = str(value.get("plugin") or value.get("stack", {}).get("name", ""))
        trusting = f"{VARIABLE}={shlex.quote(str(Path(file).parent))} " if file.startswith("/") else ""
        engine = ["--engine", self.engine] if self.engine != "sim" else []
        return trusting + shlex.join(["dumbbell", "run", *words, *engine])


@dataclass(frozen=True)
class ScenePlace:
    """A cell of a scene, with any candidate in it: a position of its matrix."""

    scene: str = ""
    position: Position = ()


@dataclass
class Plan:
    """Experiments of one cell each, and the candidate of each run."""

    engine: Engine | None = None
    """The engine of the runs, if it is not the simulator. Keys of runs depend on it."""
    quick: bool = False
    """Whether it has the quick part of the suite alone."""
    experiments: list[Experiment] = field(default_factory=list)
    labels: dict[ScenePlace, dict[str, str]] = field(default_factory=dict)
    """The values of the matrix that a place has."""
    commands: dict[ScenePlace, str] = field(default_factory=dict)
    """The command that repeats the runs of the subject."""
    tables: dict[ScenePlace, dict[str, Any]] = field(default_factory=dict)
    """The experiment of the subject there, as a file has it."""
    refused: dict[ScenePlace, str] = field(default_factory=dict)
    """The places that the engine cannot run with some candidate, and why."""
    _cells: list[dict[str, Any]] = field(default_factory=list)
    _roles: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self, suite: EvaluationSuite, scene: SuiteScene, who: Candidate, experiment: Experiment, position: Position
    ) -> None:
        """Add the runs of a scene at one position, with a candidate in it."""
        alone = _select_position(experiment, position)
        place = ScenePlace(scene.name, position)
        table = _make_table(alone)
        self.tables.setdefault(place, table)
        self._add_runs(alone, place, who.name, _list_roles(scene, table))
        where = format_where(self.labels[place])
        if suite.of == "stack":
            command = _format_stack_command(suite, scene, who, where, quick=self.quick)
        else:
            command = _format_command(suite, scene, who, experiment, position)
        self.commands.setdefault(place, command)

    def add_victim(self, scene: SuiteScene, experiment: Experiment, position: Position) -> None:
        """Add the runs of a scene at one position in which the subject starts at the end: others are alone.

        The subject's table stays, since buffers may follow from its base RTT.
        """
        alone = _select_position(experiment, position)
        table = _make_table(alone) | {"seeds": list(experiment.seeds)}
        for path in (keys.parse_path(one) for one in scene.subject):
            for entry in keys.get_path(table, path[:2]):
                entry["start"] = f"{(next(alone.make_cells()).duration - 1) / 1e9:.9f}s"
                entry.pop("stop", None)
        place = ScenePlace(scene.name, position)
        self._add_runs(parse(table, str(scene.file)), place, NOBODY, _list_roles(scene, table))

    def _add_runs(self, experiment: Experiment, place: ScenePlace, who: str, roles: Sequence[bool]) -> None:
        # what the name of a setting stands for
        named = {key for axis in experiment.matrix.axes if keys.SETTING in axis.keys for key in axis.keys[1:]}
        matrix = next(experiment.make_cells()).matrix
        self.labels.setdefault(place, {key: one for key, one in matrix.items() if key not in named})
        if self.engine is not None:
            try:
                self.engine.prepare([experiment])
            except InputError as error:
                self.refused.setdefault(place, str(error.move_into("")).partition("\n")[0].removeprefix(": "))
                return
            [experiment] = prepare_experiments([experiment], self.engine)
        self.experiments.append(experiment)
        for cell in experiment.make_cells():
            row: dict[str, Any] = {"key": cell.key, "scene": place.scene, "position": list(place.position), "who": who}
            row["seed"] = cell.seed
            self._cells.append(row | describe_figures(cell, len(roles)))
            self._roles += [
                {"key": cell.key, "flow": flow, "role": "subject" if is_subject else "other"}
                for flow, is_subject in enumerate(roles)
            ]

    @property
    def cells(self) -> pl.DataFrame:
        """One row for each run and whose it is: `key`, `scene`, `position`, `who`, `seed`, and figures of the run."""
        return pl.DataFrame(self._cells, infer_schema_length=None)

    @property
    def roles(self) -> pl.DataFrame:
        """One row for each bulk flow of each run: `key`, `flow`, and `role`, which is subject or other."""
        schema = {"key": pl.String, "flow": pl.Int64, "role": pl.String}
        return pl.DataFrame(self._roles, schema=schema).unique(maintain_order=True)


def describe_figures(cell: Cell, flows: int) -> dict[str, Any]:
    """Return the figures of a run that measures of suites find in its row of `cells`.

    `aqm` has the parameters of the bottleneck's queue discipline as JSON, times in ns.
    """
    record, bottleneck = cell.groups["record"], cell.groups["bottleneck"]
    return {
        "from_s": record["from"] / 1e9,
        "interval_s": record["interval"] / 1e9,
        "duration_s": cell.duration / 1e9,
        "rate_mbit": bottleneck["rate"] / 1e6,
        "flows": flows,
        "aqm": json.dumps(bottleneck["aqm"]),
    }


def make_plan(
    suite: EvaluationSuite,
    candidates: Sequence[Candidate],
    seeds: int,
    *,
    quick: bool = False,
    only: Collection[ScenePlace] | None = None,
    engine: Engine | None = None,
) -> Plan:
    """Return the runs of all scenes, or of the places `only`, with `seeds` seeds. Raises InputError.

    The first candidate is the subject.
    """
    plan = Plan(engine, quick)
    for scene in suite.used_scenes:
        if only is not None and not any(place.scene == scene.name for place in only):
            continue
        for who in candidates:
            experiment = _make_experiment(suite, scene, who, seeds)
            for position in _list_positions(experiment, scene, suite, quick=quick):
                if only is None or ScenePlace(scene.name, position) in only:
                    plan.add(suite, scene, who, experiment, position)
    return plan


def _make_experiment(suite: EvaluationSuite, scene: SuiteScene, who: Candidate, seeds: int) -> Experiment:
    """Return the experiment of a scene with a candidate in the subject's place."""
    table = read_toml(scene.file, "the experiment file of a scene (TOML)")
    table["seeds"] = list(range(suite.seeds.after + 1, suite.seeds.after + seeds + 1))
    for key, value in [*scene.settings.items(), *list_subject_settings(suite, scene, who)]:
        try:
            keys.set_path(table, keys.parse_path(key), copy.deepcopy(value))
        except InputError as error:
            raise error.move_into(str(suite.file), f"scene {scene.name}: ") from None
    if suite.of == "stack" and all("stack" in one for one in table["flows"]):
        table.pop("hosts", None)  # its keys are refused where nothing has the TCP of hosts
    return parse(table, str(scene.file))


def make_victim_plan(suite: EvaluationSuite, who: Candidate, seeds: int, beside: Plan) -> Plan:
    """Return the runs of a plan's places without the subject `who` that criteria with harm need. Raises InputError."""
    plan = Plan(beside.engine)
    harmed = {one.scene for one in suite.criteria if one.harm is not None}
    for scene in (one for one in suite.used_scenes if one.name in harmed):
        experiment = _make_experiment(suite, scene, who, seeds)
        for position in (one.position for one in beside.labels if one.scene == scene.name):
            plan.add_victim(scene, experiment, position)
    return plan


def format_where(labels: Mapping[str, str]) -> str:
    """Return what tells a cell of a scene from the others in a word or two: the values of its keys."""
    return " ".join(labels.values()).replace(",", "")


def format_labels(labels: Mapping[str, str]) -> str:
    """Return what tells a cell of a scene from the others: the values of its keys with their names."""
    return ", ".join(value if key == keys.SETTING else f"{key} {value}" for key, value in labels.items())


def find_places(plan: Plan, names: Sequence[str]) -> list[ScenePlace]:
    """Return the places of a plan that are called by these names. Raises InputError for an unknown name."""
    found = {place: format_where(labels) for place, labels in plan.labels.items()}
    for name in names:
        if name not in found.values():
            known = [*dict.fromkeys(one for one in found.values() if one)]
            raise UnknownName(quote_value(name), among=known, option="--place", what="place")
    return [place for place, name in found.items() if name in names]


def list_subject_settings(suite: EvaluationSuite, scene: SuiteScene, who: Candidate) -> list[tuple[str, Any]]:
    """Return the keys of a scene that get the subject, with their values: `flows[0].cc`, of a stack `stack`, too."""
    if suite.of != "stack":
        return [(f"{place}.{SUBJECT_KEYS[suite.of]}", who.value) for place in scene.subject]
    flow = who.value if isinstance(who.value, dict) else {"cc": who.value}
    return [(f"{place}.{key}", value) for place in scene.subject for key, value in flow.items()]


def _list_positions(
    experiment: Experiment, scene: SuiteScene, suite: EvaluationSuite, *, quick: bool
) -> list[Position]:
    """Return the positions of the matrix, with `quick` those alone that the suite keeps then."""
    axes = experiment.matrix.axes
    kept_by_axis: dict[str, tuple[int, ...]] = {}
    for text, positions in scene.quick.items():
        key = f'scene.{scene.name}.quick."{text}"'
        axis = next((one for one in axes if text in (one.text, one.keys[0])), None)
        if axis is None:
            known = [one.keys[0] for one in axes]
            raise UnknownName(quote_value(text), among=known, file=suite.file, key=key, what="axis")
        for one in positions:
            if not isinstance(one, int) or not 0 <= one < len(axis.values):
                allowed = f"positions from 0 to {len(axis.values) - 1}"
                raise OutOfRange(quote_value(one), allowed, file=suite.file, key=key)
        kept_by_axis[axis.text] = positions
    kept = [set(kept_by_axis.get(axis.text, range(len(axis.values)))) for axis in axes]
    return [
        position
        for position in experiment.matrix.list_positions()
        if not quick or all(digit in some for digit, some in zip(position, kept, strict=True))
    ]


def _select_position(experiment: Experiment, position: Position) -> Experiment:
    """Return the experiment with one position of its matrix alone."""
    axes = zip(experiment.matrix.axes, position, strict=True)
    alone = keys.Matrix(tuple(replace(axis, values=(axis.values[digit],)) for axis, digit in axes))
    return replace(experiment, matrix=alone)


def _make_table(alone: Experiment) -> dict[str, Any]:
    """Return what a file says of an experiment with one position of its matrix alone, without seeds."""
    return copy.deepcopy(alone.make_table((0,) * len(alone.matrix.axes)))


def _list_roles(scene: SuiteScene, table: Mapping[str, Any]) -> list[bool]:
    """Return whether each bulk flow of an experiment is the subject's."""
    subjects = {path[1] for path in map(keys.parse_path, scene.subject) if path[0] == "flows"}
    flows = table.get("flows", [])
    return [index in subjects for index, one in enumerate(flows) for _ in range(int(one.get("count", 1)))]


def _format_command(
    suite: EvaluationSuite, scene: SuiteScene, who: Candidate, experiment: Experiment, position: Position
) -> str:
    axes = zip(experiment.matrix.axes, position, strict=True)
    settings = [axis.format_setting(digit) for axis, digit in axes]
    others = [*scene.settings.items(), *list_subject_settings(suite, scene, who)]
    settings += [show_setting(key, value) for key, value in others]
    if suite.seeds.after:  # the file begins with another seed
        settings.append(show_setting("seeds", [suite.seeds.after + 1]))
    return who.format_run(str(scene.file), *(word for one in settings for word in ("--set", one)))


def _format_stack_command(suite: EvaluationSuite, scene: SuiteScene, who: Candidate, where: str, *, quick: bool) -> str:
    """Return the command that judges a cell again and keeps it, with its page and results next to the first ones."""
    words = ["dumbbell", "evaluate", "stack", *who.words]
    words += ["--suite", name] if (name := name_suite(suite)) != suite.of else []
    words += ["--only", scene.name, *(["--place", where] if where else []), *(["--quick"] if quick else [])]
    return shlex.join([*words, "-o", "repeated", "--keep", "kept"])
