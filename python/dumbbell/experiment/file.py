"""Experiment files: TOML → checked description → runs, one at a time."""

import copy
import itertools
import pickle
import random
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from dumbbell import _native
from dumbbell.errors import (
    Conflict,
    InputError,
    Missing,
    Nothing,
    Unfit,
    UnknownKey,
    Unreadable,
    combine_errors,
    keep_error,
    parse_engine_error,
    quote_value,
)
from dumbbell.experiment import link_trace, places, plugins, schema, shipped, without_effect
from dumbbell.experiment import matrix as keys
from dumbbell.experiment.cell import Cell, compute_digest, format_canonical
from dumbbell.experiment.files import Files
from dumbbell.experiment.override import Override, parse_override, quote_dotted_key
from dumbbell.experiment.patterns import LoneRuns, RunPatterns, Setting, list_leaves
from dumbbell.experiment.settings import Settings, copy_value, list_names, split_settings
from dumbbell.experiment.toml_file import read_toml

CHECKED_AHEAD = 4096  # cells that are checked before the first one runs
_KEPT = 64  # runs that need not be resolved again: checks look at the first ones several times
_patterns_of_tables = RunPatterns()
_COMPARED = 64  # cells in which two values of an axis are compared


class _Resolved(NamedTuple):
    """A run, the run without overrides, and the numbers of the overrides that apply."""

    cell: Cell
    plain: dict[str, Any]
    chosen: list[int]
    is_right: bool
    """Whether it is known to be right as the only run of an experiment, if the engine takes it."""


@dataclass(frozen=True)
class Experiment:
    """A checked experiment file."""

    file: str
    title: str
    seeds: tuple[int, ...]
    base: dict[str, Any]
    matrix: keys.Matrix
    overrides: tuple[Override, ...]
    settings: tuple[Setting, ...]
    files: Files
    engine: str = ""
    """Version of the engine that makes the runs; that of the simulator if empty."""
    plan_of: Callable[[Cell], str] | None = None
    """What the engine does with a cell, where that does not follow from its configuration alone: part of its key."""
    plan: dict[str, Any] = field(default_factory=dict)
    """The keys of the file that describe the sweep, as they were read."""
    given: tuple[tuple[str, Any], ...] = ()
    """The settings on top of the file, keys and values."""

    def add_settings(self, settings: Settings, *, asks_engine: bool = True) -> "Experiment":
        """Return the experiment with further settings on top of those that it has, checked as by `parse`."""
        try:
            further = split_settings(settings)
            names = list_names(further)
        except InputError as error:
            raise error if error.file else error.move_into(self.file) from None
        if not further:
            return self
        every = (*((key, value) for key, value in self.given if key not in names), *further)
        with places.ErrorPlacer(self.file):
            if names == {"seeds"}:
                return self._set_seeds(further[0][1], every)
            if names.isdisjoint((*schema.PLAN_KEYS, *(axis.text for axis in self.matrix.axes))):
                return self._set_further(_read_paths(further), every, asks_engine)
            table = pickle.loads(self._base) | self.plan
            return _parse_into(table, self.file, list(every), self.files, asks_engine)

    def _set_seeds(self, seeds: Any, every: tuple[tuple[str, Any], ...]) -> "Experiment":
        """Return the experiment with other seeds, which do not change what else is right."""
        try:
            plan: Any = schema.validate(schema.SweepPlan, {"seeds": seeds})
        except InputError as error:
            raise error.move_into(self.file) from None
        return self._change(
            seeds=tuple(plan.seeds), plan=self.plan | {"seeds": seeds}, given=every, _resolved=self._resolved
        )

    def _change(self, **fields: Any) -> "Experiment":
        """Return the experiment with other fields; its table and its name stay as they are."""
        other = object.__new__(Experiment)  # a frozen dataclass sets its fields one by one
        caches = {"_base": self._base, "_patterns": self._patterns, "name": self.name, "_resolved": {}}
        other.__dict__.update(self.__dict__ | caches | fields)
        other.__dict__.pop("_lone_runs", None)
        return other

    def _set_further(
        self, further: list[Setting], every: tuple[tuple[str, Any], ...], asks_engine: bool
    ) -> "Experiment":
        """Return the experiment with settings of keys of its runs: what else was checked is not checked again."""
        _refuse_changed_axes(self.matrix, further)
        paths = [path for path, _ in further]
        settings = (*(one for one in self.settings if one[0] not in paths), *further)
        other = self._change(settings=settings, given=every)
        if found := _drop_consequences(list(other.find_faults(overrides=False, asks_engine=asks_engine))):
            raise combine_errors([one if one.file else one.move_into(self.file) for one in found])
        if not self.matrix.axes and other._resolve_and_say((), self.seeds[0]).is_right:
            names = [key for key, _ in every[-len(further) :]]
            self._lone_runs.note_keys(names, paths, settings[: -len(further)])
        return other

    @cached_property
    def _base(self) -> bytes:
        return pickle.dumps(self.base)

    @cached_property
    def _patterns(self) -> RunPatterns:
        return RunPatterns()

    @cached_property
    def name(self) -> str:
        """File name without its ending."""
        return _split_file(self.file)[1]

    def __len__(self) -> int:
        return self.matrix.size * len(self.seeds)

    def make_cell(self, index: int) -> Cell:
        """Return the run at `index`, 0 to len - 1; raises InputError if it cannot be resolved."""
        position, seed = divmod(index, len(self.seeds))
        return self._resolve(self.matrix.find_position(position), self.seeds[seed])

    def make_cells(self, first: int = 0) -> Iterator[Cell]:
        """Yield every run, made as it is asked for; their numbers count from `first`."""
        numbers = itertools.count(first)
        for position in self.matrix.list_positions():
            cell = self._resolve(position, self.seeds[0])
            for seed in self.seeds:
                number = next(numbers)
                yield cell if (seed, number) == (cell.seed, cell.number) else cell.set_seed(seed, number)

    def make_cells_with(self, settings: Settings) -> list[Cell]:
        """Return the runs of the experiment with further settings, about which the engine is not asked.

        They are those of `add_settings`. A single run that differs from a known one only in values on which nothing
        else depends is made without an experiment of its own.
        """
        try:
            cell = self._lone_runs.derive(split_settings(settings)) if len(self.seeds) == 1 else None
        except InputError:  # which is raised with its place when the settings are added
            cell = None
        return list(self.add_settings(settings, asks_engine=False).make_cells()) if cell is None else [cell]

    @cached_property
    def _lone_runs(self) -> LoneRuns:
        engine = self.engine or _native.engine_version()
        cell = Cell(self.name, self.title, {}, self.seeds[0], {}, engine, plan_of=self.plan_of)
        return LoneRuns(cell, self._patterns, self.files)

    def make_table(self, position: tuple[int, ...]) -> dict[str, Any]:
        """Return the run at a position of the matrix as a file has it, without seeds; raises InputError."""
        found = self._resolve_and_say(position, self.seeds[0])
        table = self._make_plain_table(self._list_settings(position))
        if found.chosen:
            self._apply_overrides(table, found.chosen)
        return table

    def _list_settings(self, position: tuple[int, ...]) -> list[Setting]:
        """Return all that is set in the run at a position, in order."""
        of_matrix = [(path, value) for key, path, value in self.matrix.list_settings(position) if key != keys.SETTING]
        return [*of_matrix, *self.settings]

    def _make_plain_table(self, settings: list[Setting]) -> dict[str, Any]:
        """Return the table of a run before overrides apply; raises InputError."""
        table: dict[str, Any] = pickle.loads(self._base)  # a copy, in a fifth of the time of copy.deepcopy
        for path, value in settings:
            keys.set_path(table, path, value)
        link_trace.remove_replaced(table, self.settings)
        return table

    def _apply_overrides(self, table: dict[str, Any], chosen: list[int]) -> None:
        """Set what overrides set; settings come last. Raises InputError."""
        for path, value in itertools.chain(*(self.overrides[n][1] for n in chosen), self.settings):
            keys.set_path(table, path, value)
        link_trace.remove_replaced(table, self.settings)

    def sample_cells(self, most: int) -> list[Cell]:
        """Return up to `most` runs, one drawn at random from each of as many equal parts; the same ones every time."""
        parts = min(most, len(self))
        ends = [len(self) * part // parts for part in range(parts + 1)]
        draw = random.Random(0)
        return [self.make_cell(draw.randrange(first, end)) for first, end in itertools.pairwise(ends)]

    def _resolve(self, position: tuple[int, ...], seed: int) -> Cell:
        return self._resolve_and_say(position, seed).cell

    @cached_property
    def _resolved(self) -> "dict[tuple[int, ...], _Resolved]":
        """Runs that were resolved, with any seed, by their positions."""
        return {}

    def _resolve_and_say(self, position: tuple[int, ...], seed: int) -> "_Resolved":
        found = self._resolved.get(position)
        if found is None:
            found = self._resolve_now(position, seed)
            if len(self._resolved) >= _KEPT:
                self._resolved.clear()
            self._resolved[position] = found
        if found.cell.seed != seed:
            found = found._replace(cell=found.cell.set_seed(seed))
        return found

    def _resolve_now(self, position: tuple[int, ...], seed: int) -> "_Resolved":
        chosen: list[int] = []
        settings = self._list_settings(position)
        known, changes = self._patterns, settings
        if not settings:
            known, changes = _patterns_of_tables, list_leaves(self.base)
        try:
            derived = known.make_run(changes, self.files)
            if derived is None:
                table = self._make_plain_table(settings)
                read = self.files.uses
                run, given = schema.check_tables(table, self.files)
                if settings or self.files.uses == read:
                    run = known.settle(changes, run, given)
                else:  # a file may change before the next table names it
                    schema.settle(run, given)
            else:
                run, given = derived.make_tables()
            groups = plain = run | {"seed": seed}
            chosen = [n for n, (when, _) in enumerate(self.overrides) if all(one.is_met(plain) for one in when)]
            if chosen:
                table = self._make_plain_table(settings)
                self._apply_overrides(table, chosen)
                derived = None
                run, given = schema.check_tables(table, self.files)
                schema.settle(run, given)
                groups = run | {"seed": seed}
        except InputError as error:
            raise combine_errors([self._place_error(one, position, chosen) for one in error.errors]) from None
        labels = {key: label(value) for key, _, value in self.matrix.list_settings(position)}
        engine = self.engine or _native.engine_version()
        cell = Cell(self.name, self.title, labels, seed, groups, engine, given=given, plan_of=self.plan_of)
        if derived is not None:
            cell.set_text(derived.format_text())
        is_lone = not self.matrix.axes and not self.overrides
        return _Resolved(cell, plain, chosen, is_lone and derived is not None and derived.is_right)

    def _place_error(self, error: InputError, position: tuple[int, ...], chosen: list[int]) -> InputError:
        """Return an error of a run, said of what sets its key: a setting, an override, the matrix or else the file."""
        try:
            path = keys.parse_path(error.key)
        except InputError:
            return error.move_into(self.file)

        def sets_key(other: keys.Path) -> bool:
            return len(other) <= len(path) and keys.do_overlap(other, path)

        if isinstance(error, UnknownKey) and error.nearest and not any(isinstance(step, int) for step in path):
            error = copy.copy(error)
            error.nearest = str(error.nearest).replace("[0]", "[*]")  # set for all
        if any(sets_key(one) for one, _ in self.settings):
            return error.move_into("--set")
        for number in reversed(chosen):
            if any(sets_key(one) for one, _ in self.overrides[number][1]):
                return error.move_into(self.file, f"override[{number}].set: ")
        for axis, digit in zip(self.matrix.axes, position, strict=True):
            if any(map(sets_key, axis.paths)):
                return error.move_into(self.file, f'matrix."{axis.text}"[{digit}]: ')
        return error.move_into(self.file)

    def find_faults(self, *, overrides: bool, asks_engine: bool = True) -> Iterator[InputError]:
        """Yield what is wrong with any value of any axis, and with all cells of a small matrix.

        With `overrides`, each of them has to apply to some run. The engine is asked about cells if `asks_engine`.
        """
        origin, seed = (0,) * len(self.matrix.axes), self.seeds[0]
        found: list[InputError] = []
        first, error = self._try_position(origin, asks_engine)
        if first is not None and first.is_right:  # there is no other run
            return
        if error is not None:
            found += error.errors
        met = self._find_met(first.plain) if first is not None and self.overrides else set()
        tried = {origin}
        for number, axis in enumerate(self.matrix.axes):
            seen: dict[str, int] = {}
            if first is not None and len(axis.values) > 1:
                seen[compute_digest(format_canonical(first.plain))] = 0
            for digit in range(1, len(axis.values)):
                tried.add(position := _move_position(origin, number, digit))
                one, error = self._try_position(position, asks_engine)
                place = f'matrix."{axis.text}"[{digit}]'
                if error is not None:
                    known = {(one.key, str(one)) for one in found}
                    new = [one for one in error.errors if (one.key, str(one)) not in known]
                    found += [
                        one if one.key.startswith(place) else one.move_into(self.file, f"{place}: ") for one in new
                    ]
                if one is None or first is None:
                    continue
                met |= self._find_met(one.plain)
                alike = seen.setdefault(compute_digest(format_canonical(one.plain)), digit)
                if alike != digit and self._are_equal(number, alike, digit):
                    values = [
                        axis.values[n][0] if len(axis.keys) == 1 else list(axis.values[n]) for n in (alike, digit)
                    ]
                    same = f"{quote_value(values[0])} and {quote_value(values[1])} make the same run"
                    found.append(Unfit(same, "values that differ", file=self.file, key=place))
        if found:
            yield from found
            return
        unmet = set(range(len(self.overrides)))
        has_tcp, idle = self.matrix.size > CHECKED_AHEAD, None
        positions = itertools.islice(self.matrix.list_positions(), CHECKED_AHEAD) if self.matrix.axes else (origin,)
        for position in positions:
            try:
                run = self._resolve_and_say(position, seed)
                if position not in tried:
                    without_effect.refuse_late_times(run.cell.groups)
            except InputError as error:
                yield from error.errors
                return
            unmet.difference_update(run.chosen)
            groups = run.cell.groups
            if not has_tcp and not (has_tcp := without_effect.has_tcp(groups)):
                idle = idle or without_effect.find_unused_tcp_key(groups["hosts"], run.cell.given["hosts"])
        if not has_tcp and idle is not None:
            yield idle.move_into(self.file)
        cells = self._sample_axes()
        yield from self._find_untold_states(cells)
        if (unused := without_effect.find_unused_burst(cell.groups for cell in cells)) is not None:
            yield unused.move_into(self.file)
        if self.matrix.size > CHECKED_AHEAD:
            # a condition holds for some value of an axis, or never
            unmet = {n for n in unmet if not all((n, m) in met for m in range(len(self.overrides[n][0])))}
        if unmet and overrides:
            nothing, allowed = "no run meets this condition", "keys and values of some runs of the matrix"
            yield Nothing(nothing, allowed, file=self.file, key=f"override[{min(unmet)}].when")

    def _sample_axes(self) -> list[Cell]:
        """Return a run of every value of every axis, the other axes at their first."""
        if not self.matrix.axes:
            return [self._resolve_and_say((), self.seeds[0]).cell]
        origin = (0,) * len(self.matrix.axes)
        axes = enumerate(self.matrix.axes)
        others = (
            _move_position(origin, number, digit) for number, axis in axes for digit in range(1, len(axis.values))
        )
        return [self._resolve_and_say(position, self.seeds[0]).cell for position in (origin, *others)]

    def _find_untold_states(self, cells: list[Cell]) -> Iterator[InputError]:
        """Yield errors for states of queue disciplines that are to be recorded and that no run tells."""
        for state in dict.fromkeys(state for cell in cells for state in cell.groups["record"].get("queue", ())):
            errors = [_check_states(cell, [state]) for cell in cells]
            if None not in errors and errors[0] is not None:
                yield parse_engine_error(self.file, errors[0])

    def _try_position(
        self, position: tuple[int, ...], asks_engine: bool
    ) -> "tuple[_Resolved | None, InputError | None]":
        """Return the run at a position, or what is wrong with it."""
        try:
            found = self._resolve_and_say(position, self.seeds[0])
            if not found.is_right:
                without_effect.refuse_late_times(found.cell.groups)
            if asks_engine:
                self._ask_engine(found.cell)
        except InputError as error:
            return None, error
        return found, None

    def _find_met(self, plain: dict[str, Any]) -> set[tuple[int, int]]:
        """Return the conditions that hold for a run, by the numbers of override and condition."""
        every = ((n, m, one) for n, (when, _) in enumerate(self.overrides) for m, one in enumerate(when))
        return {(n, m) for n, m, one in every if one.is_met(plain)}

    def _are_equal(self, number: int, first: int, second: int) -> bool:
        """Return whether two values of an axis make the same run in every cell, or in a sample of many."""
        draw, size = random.Random(0), self.matrix.size
        for index in range(size) if size <= _COMPARED else (draw.randrange(size) for _ in range(_COMPARED)):
            position = self.matrix.find_position(index)
            one, other = (
                self._resolve_and_say(_move_position(position, number, n), self.seeds[0]) for n in (first, second)
            )
            if one.plain != other.plain:
                return False
        return True

    def _ask_engine(self, cell: Cell) -> None:
        # of what the queues of a sweep tell each may lack some
        if (error := _check_states(cell, [])) is not None:
            raise parse_engine_error(self.file, error) from None


def _check_states(cell: Cell, states: list[str]) -> ValueError | None:
    """Return what the engine says against a run that records these states of its queue disciplines, if anything."""
    few: dict[str, Any] = {name: [one | {"count": 1} for one in cell.groups[name]] for name in ("flows", "udp")}
    if "queue" in cell.groups["record"]:
        few["record"] = cell.groups["record"] | {"queue": states}
    try:
        _native.check(Cell("", "", {}, cell.seed, plugins.replace_plugins(cell.groups | few)).config)
    except ValueError as error:
        return error
    return None


def _move_position(position: tuple[int, ...], number: int, digit: int) -> tuple[int, ...]:
    """Return `position` with axis `number` at `digit`."""
    return (*position[:number], digit, *position[number + 1 :])


def label(value: Any) -> str:
    """Return a matrix value in few words: `cake(isolation=flowblind)`."""
    match value:
        case str():
            return value
        case list():
            return " + ".join(map(label, value)) or "none"
        case {"plugin": str(path), **rest}:
            return label({"name": Path(path).stem.removeprefix("lib")} | {k: v for k, v in rest.items() if k != "name"})
        case {"name": str(name), **rest}:
            return name + (f"({', '.join(f'{k}={label(v)}' for k, v in rest.items())})" if rest else "")
        case _:
            return quote_value(value, 200).strip('"')


def parse(
    table: dict[str, Any], file: str = "experiment", settings: Settings = None, *, asks_engine: bool = True
) -> Experiment:
    """Return the experiment that a parsed TOML file describes; raises InputError, said of `file`.

    The engine is asked whether it can run the cells, unless the caller is about to run them: not `asks_engine`.
    """
    try:
        return _parse_into(copy_value(table), file, split_settings(settings), Files(_split_file(file)[0]), asks_engine)
    except InputError as error:
        raise error if error.file else error.move_into(file) from None


@lru_cache(maxsize=256)
def _split_file(file: str) -> tuple[Path, str]:
    """Return the folder of a file, and its name without its ending."""
    path = Path(file)
    return path.parent, path.stem


def _parse_into(
    table: dict[str, Any], file: str, settings: list[tuple[str, Any]], files: Files, asks_engine: bool
) -> Experiment:
    """Return the experiment of a table, which the experiment takes over; raises InputError."""
    try:
        return _parse(table, file, settings, files, asks_engine)
    except InputError as error:
        raise error if error.file else error.move_into(file) from None
    except RecursionError:
        raise Unreadable("its tables are nested too deeply", "a file with fewer levels", file=file) from None


def _parse(
    table: dict[str, Any], file: str, settings: list[tuple[str, Any]], files: Files, asks_engine: bool
) -> Experiment:
    if not table and not settings:
        allowed = "an experiment, such as dumbbell list experiments names"
        raise Unreadable("this file is empty", allowed)
    found: list[InputError] = []
    known = [*schema.PLAN_KEYS, *schema.list_run_keys()]
    for key in [key for key in table if key not in known]:
        found.append(UnknownKey(quote_value(key), among=known, key=key, nearest=schema.find_nearest_key((key,), table)))
        del table[key]
    list_names(settings)
    table |= {key: value for key, value in settings if key in schema.PLAN_KEYS}
    described = {key: value for key, value in table.items() if key in schema.PLAN_KEYS}
    plan, wrong = _split_plan(table)
    found += wrong
    axes = {key: list(values) for key, values in plan.matrix.items()}
    axes |= {key: value if isinstance(value, list) else [value] for key, value in settings if key in axes}
    try:
        last = _read_paths([(key, value) for key, value in settings if key not in axes and key not in schema.PLAN_KEYS])
    except InputError as error:  # it may be an axis of a matrix that was left out
        raise (combine_errors([one.move_into(file) for one in wrong]) if wrong else error) from None
    if "matrix" in plan.model_fields_set and not axes:
        found.append(Nothing("it has no key", "one key or more, each with its values", key="matrix"))
    overrides = [
        one
        for number, each in enumerate(plan.override)
        if (one := keep_error(found, parse_override, each, f"override[{number}]", files)) is not None
    ]
    axes_read = [
        axis_read
        for key, values in axes.items()
        if (axis_read := keep_error(found, keys.parse_axis, key, values)) is not None
    ]
    product = keys.Matrix(tuple(axes_read))
    _refuse_changed_axes(product, last)
    for number, (_, sets) in enumerate(overrides):
        for path, _ in sets:
            if axis := product.find_changed_axis(path):
                both = f'{keys.format_path(path)} and the matrix\'s "{axis.text}"'
                found.append(Conflict(both, "another key", key=f"override[{number}].set"))
    experiment = Experiment(
        file,
        plan.title,
        tuple(plan.seeds),
        table,
        product,
        tuple(overrides),
        tuple(last),
        files,
        plan=described,
        given=tuple(settings),
    )
    # of a file that is not whole only what is there can be wrong, and settings may leave nothing to which one applies
    rest = experiment.find_faults(overrides=not (settings or found), asks_engine=asks_engine)
    found += [one for one in rest if not (wrong and isinstance(one, Missing | Nothing))]
    if found := _drop_consequences(found):
        raise combine_errors([one if one.file else one.move_into(file) for one in found])
    return experiment


def _read_paths(settings: Sequence[tuple[str, Any]]) -> list[Setting]:
    """Return settings of keys of runs, each with the path of its key; raises InputError."""
    try:
        return [(keys.parse_path(key), value) for key, value in settings]
    except InputError as error:
        raise error.move("--set", "") from None


def _refuse_changed_axes(matrix: keys.Matrix, settings: list[Setting]) -> None:
    """Raise InputError if a setting changes what an axis of the matrix says that it sets."""
    for path, value in settings:
        if axis := matrix.find_changed_axis(path):
            like = next((n for n, one in enumerate(axis.values) if len(axis.keys) > 1 and value in one), 0)
            allowed = f"another key, or the whole axis, such as {shlex.quote(axis.format_setting(like))}"
            raise Conflict(f"{keys.format_path(path)} and the matrix", allowed, option="--set")


@cache
def _make_plan() -> schema.SweepPlan:
    """Return the plan of a file that says nothing of a sweep."""
    return schema.SweepPlan()


def _split_plan(table: dict[str, Any]) -> tuple[schema.SweepPlan, list[InputError]]:
    """Take what describes the sweep out of a file; return it, and what is wrong with it, which is then left out."""
    found: list[InputError] = []
    given = {key: table.pop(key) for key in schema.PLAN_KEYS if key in table}
    if not given:
        return _make_plan(), []
    matrix = given.get("matrix")
    for key, value in list(matrix.items()) if isinstance(matrix, dict) else ():
        if isinstance(value, dict):
            dotted = quote_dotted_key(key, value)
            found.append(
                Unfit(f"the key {dotted} is without quotes", f'keys in quotes: "{dotted}" = [...]', key="matrix")
            )
    if not found:
        try:
            plan = schema.validate(schema.SweepPlan, given)
        except InputError as error:
            found += error.errors
        else:
            assert isinstance(plan, schema.SweepPlan)
            return plan, []
    return schema.SweepPlan(), found


def _drop_consequences(found: list[InputError]) -> list[InputError]:
    """Return errors without those that follow from others: what is missing where a key like it is unknown."""
    meant = {one.nearest for one in found if isinstance(one, UnknownKey)}
    return [one for one in found if not (isinstance(one, Missing | Nothing) and one.key in meant)]


def load(file: str | Path, settings: Settings = None, *, asks_engine: bool = True) -> Experiment:
    """Return the experiment in `file`, with `KEY=VALUE` settings applied; raises InputError.

    If there is no such file, `file` may name an experiment that comes with dumbbell, such as `sce/one-flow`.
    """
    path = file if Path(file).exists() else shipped.find(Path(file).as_posix()) or file
    table = read_toml(path, known=shipped.list_experiments())
    with places.ErrorPlacer(path):
        return parse(table, str(path), settings, asks_engine=asks_engine)
