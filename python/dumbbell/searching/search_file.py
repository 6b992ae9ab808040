"""Search files: TOML → a checked `SearchPlan`. docs/how-to/search.md lists the keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumbbell.errors import (
    Conflict,
    InputError,
    Missing,
    OutOfRange,
    Unfit,
    UnknownKey,
    UnknownName,
    WrongValue,
    combine_errors,
    quote_value,
)
from dumbbell.experiment import places, units
from dumbbell.experiment.file import Experiment, load, parse
from dumbbell.experiment.matrix import parse_path
from dumbbell.experiment.settings import Settings, copy_value, show_setting
from dumbbell.experiment.toml_checks import check_keys, check_kind, check_name, is_number, make_error
from dumbbell.experiment.toml_file import read_toml
from dumbbell.searching.candidate import CANDIDATE_COLUMNS
from dumbbell.searching.constraint import SearchConstraint, parse_constraint
from dumbbell.searching.objective import Objective, read_objectives
from dumbbell.searching.sampler import KINDS, choose_sampler
from dumbbell.searching.search_parameter import SearchParameter, read_parameters

_KEYS = (
    *("title", "experiment", "subject", "seeds", "budget", "sampler", "sampler_seed"),
    *("parameters", "constraints", "objectives", "hunt"),
)
_REQUIRED = ("experiment", "budget", "parameters", "objectives")
_HUNT_KEYS = ("keep", "share", "seeds", "duration")
_MOST_SEEDS, _MOST_BUDGET = 1000, 10_000_000


@dataclass(frozen=True)
class SearchSeeds:
    """How many seeds every candidate gets, and at most where it is not sure whether it belongs to the front."""

    first: int = 3
    most: int = 3


@dataclass(frozen=True)
class HuntPlan:
    """A plan for the worst candidates: how many are kept, and how much of their badness a smaller one keeps.

    `share` is a part of the way from the median of the first candidates to the worst, which the smaller one keeps in
    the mean over `seeds` seeds; `least_s` is the shortest run that it may be.
    """

    keep: int = 3
    share: float = 0.9
    seeds: int = 3
    least_s: float = 1.0


@dataclass(frozen=True)
class SearchPlan:
    """A checked search file."""

    file: str
    title: str
    experiment: Experiment
    parameters: tuple[SearchParameter, ...]
    constraints: tuple[SearchConstraint, ...]
    objectives: tuple[Objective, ...]
    seeds: SearchSeeds
    budget: int
    sampler: str
    sampler_seed: int = 1
    subject: tuple[str, ...] = ()
    """The tables of the experiment that are the subject of suites' measures: `flows[0]`."""
    hunt: HuntPlan | None = None

    @property
    def name(self) -> str:
        """The name of the file, without its ending."""
        return Path(self.file).stem

    def set_parameters(self, values: Mapping[str, Any], seeds: int) -> Experiment:
        """Return the experiment with the first `seeds` seeds and settled values of parameters, as it is without any."""
        own = [one for one in self.parameters if one.name in values]
        settings = [setting for one in own for setting in one.list_settings(values[one.name])]
        return dataclasses.replace(
            self.experiment,
            settings=(*self.experiment.settings, *settings),
            seeds=tuple(range(1, seeds + 1)),
        )

    def list_options(self, values: Mapping[str, Any]) -> list[str]:
        """Return what `dumbbell run` takes to run the experiment with settled values: `KEY=VALUE`."""
        own = [one for one in self.parameters if one.name in values]
        return [show_setting(key, one.spell(values[one.name])) for one in own for key in one.keys]


def load_search(file: str | Path, settings: Settings = None) -> SearchPlan:
    """Return the search in a TOML file, with settings of its experiment applied. Raises InputError."""
    table = read_toml(file, "a search file (TOML)")
    with places.ErrorPlacer(file):
        return parse_search(table, str(file), settings)


def parse_search(table: Mapping[str, Any], file: str = "search", settings: Settings = None) -> SearchPlan:
    """Return the search that a parsed TOML file describes; raises InputError, said of `file`."""
    try:
        return _read_search(copy_value(dict(table)), file, settings)
    except InputError as error:
        raise error if error.file else error.move_into(file) from None


def _read_search(table: dict[str, Any], file: str, settings: Settings) -> SearchPlan:
    top = check_keys("", table, _KEYS, _REQUIRED)
    folder = Path(file).parent
    experiment = _read_experiment(top["experiment"], file, settings)
    parameters = read_parameters(top["parameters"])
    for parameter in parameters:
        _check_parameter(experiment, parameter)
    objectives = read_objectives(top["objectives"], folder)
    _refuse_shared_names(parameters, objectives)
    numbers = [one.name for one in parameters if one.is_number]
    constraints = check_kind("constraints", top.get("constraints", []), list, "a list of comparisons")
    budget = _read_whole("budget", top["budget"], 1, _MOST_BUDGET)
    sampler = check_name("sampler", top["sampler"], list(KINDS)) if "sampler" in top else choose_sampler(budget)
    seeds = _read_seeds(top.get("seeds", 1))
    if seeds.most > seeds.first and (worst := next((one for one in objectives if one.seeds == "worst"), None)):
        found = f"more seeds for some, and the worst seed in {worst.name}"
        raise Conflict(found, "one number of seeds: the worst of more seeds is worse", key="seeds")
    subject = tuple(check_kind("subject", top.get("subject", []), list, 'tables such as ["flows[0]"]'))
    for number, text in enumerate(subject):
        _check_subject(f"subject[{number}]", text)
    if not subject and (judged := next((one for one in objectives if one.source), None)):
        raise Missing('the tables that are judged, such as subject = ["flows[0]"]', key=f"objectives.{judged.name}")
    return SearchPlan(
        file=file,
        title=str(check_kind("title", top.get("title", ""), str, "text")),
        experiment=experiment,
        parameters=parameters,
        constraints=tuple(parse_constraint(one, numbers, f"constraints[{n}]") for n, one in enumerate(constraints)),
        objectives=objectives,
        seeds=seeds,
        budget=budget,
        sampler=sampler,
        sampler_seed=_read_whole("sampler_seed", top.get("sampler_seed", 1), 0, 2**31 - 1),
        subject=subject,
        hunt=_read_hunt(top["hunt"]) if "hunt" in top else None,
    )


def _read_experiment(value: Any, file: str, settings: Settings) -> Experiment:
    if isinstance(value, dict):
        if "seeds" in value:
            raise Conflict("seeds of the experiment and of the search", "seeds of the search", key="experiment.seeds")
        try:
            return parse(value, str(Path(file).with_suffix("")), settings)
        except InputError as error:
            raise combine_errors(
                [one.move(file, f"experiment.{one.key}".rstrip(".")) for one in error.errors]
            ) from None
    if not isinstance(value, str):
        raise make_error("experiment", value, "a file, a name of dumbbell list experiments, or a table")
    own = Path(file).parent / value
    return load(own if own.is_file() else value, settings)


def _check_parameter(experiment: Experiment, one: SearchParameter) -> None:
    """Raise InputError if the experiment does not take the keys or the values of a parameter."""
    for path, key in zip(one.paths, one.keys, strict=True):
        if axis := experiment.matrix.find_changed_axis(path):
            raise Conflict(
                f"{key} and the matrix's {quote_value(axis.text)}", "one of them", key=f"parameters.{one.name}"
            )
        if path == parse_path("seeds"):
            raise Unfit("seeds are no parameter", "seeds of the search", key=f"parameters.{one.name}.key")
    values = range(len(one.choices)) if one.choices else [one.settle(end) for end in (one.low, one.high)]
    for number, value in enumerate(values):
        settings = (*experiment.settings, *one.list_settings(value))
        place = f"choices[{number}]" if one.choices else ("from", "to")[number]
        try:
            dataclasses.replace(experiment, settings=settings).make_cell(0)
        except UnknownKey as error:
            raise error.move("", f"parameters.{one.name}.key") from None
        except InputError as error:  # candidates have other values, too, with which this one may fit
            if isinstance(error, WrongValue | UnknownName) and error.key in one.keys:
                raise error.move("", f"parameters.{one.name}.{place}") from None


def _check_subject(key: str, text: Any) -> None:
    allowed = 'a table of flows, such as "flows[0]"'
    check_kind(key, text, str, allowed)
    try:
        path = parse_path(text)
    except InputError as error:
        raise error.move("", key) from None
    if len(path) != 2 or path[0] != "flows" or not isinstance(path[1], int) or path[1] < 0:
        raise WrongValue(quote_value(text), allowed, key=key)


def _refuse_shared_names(parameters: Sequence[SearchParameter], objectives: Sequence[Objective]) -> None:
    """Raise InputError if two columns of the table of candidates have one name."""
    columns = [(f"parameters.{one.name}", one.column) for one in parameters]
    columns += [(f"objectives.{one.name}", f"{one.name}{end}") for one in objectives for end in ("", "_low", "_high")]
    owners = dict.fromkeys(CANDIDATE_COLUMNS, "every search")
    for key, column in columns:
        if owner := owners.get(column):
            raise Conflict(f"column {column} of {key} and {owner}", "another name", key=key)
        owners[column] = key


def _read_whole(key: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise OutOfRange(quote_value(value), f"a whole number from {least} to {most}", key=key)
    return value


def _read_seeds(value: Any) -> SearchSeeds:
    if isinstance(value, dict):
        table = check_keys("seeds", value, ("first", "most"), ("first", "most"))
        first, most = (_read_whole(f"seeds.{name}", table[name], 2, _MOST_SEEDS) for name in ("first", "most"))
        if most < first:
            raise OutOfRange(quote_value(most), f"{first} or more", key="seeds.most")
        return SearchSeeds(first, most)
    number = _read_whole("seeds", value, 1, _MOST_SEEDS)
    return SearchSeeds(number, number)


def _read_hunt(value: Any) -> HuntPlan:
    table = check_keys("hunt", value, _HUNT_KEYS)
    plan = HuntPlan()
    share = table.get("share", plan.share)
    if not is_number(share) or not 0 < share <= 1:
        raise make_error("hunt.share", share, "a number above 0, up to 1")
    keep = _read_whole("hunt.keep", table.get("keep", plan.keep), 1, 100)
    seeds = _read_whole("hunt.seeds", table.get("seeds", plan.seeds), 1, 100)
    try:
        least_s = units.parse("time", table.get("duration", "1s")) / 1e9
    except InputError as error:
        raise error.move("", "hunt.duration") from None
    return HuntPlan(keep, float(share), seeds, least_s)
