"""The grammar of conditions, `KEY=VALUE[,VALUE...]`: how texts are cut, and which values of a key they mean."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dumbbell.errors import InputError, Nothing, UnknownKey, UnknownName, WrongValue, find_nearest, quote_value
from dumbbell.experiment import matrix, plugins, schema, spelling, switches
from dumbbell.experiment.override import find_param
from dumbbell.experiment.registry import read_registry
from dumbbell.experiment.settings import parse_setting
from dumbbell.results import dimensions as dims
from dumbbell.results.dimensions import Dimension

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_QUOTES = "\"'"
Runs = TypeVar("Runs")


@dataclass(frozen=True)
class Condition:
    """A key, and the text behind its `=`."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}={self.text}"


def parse(text: str, option: str = "--where") -> Condition:
    """Return the condition that `KEY=VALUE` is; raises InputError."""
    if not isinstance(text, str):
        raise WrongValue(quote_value(text), 'text, "KEY=VALUE", or keywords: seed=[1, 2]', key=option)
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise WrongValue(quote_value(text), "KEY=VALUE, such as bottleneck.rate=10Mbit", key=option)
    return Condition(key.strip(), value.strip())


def make_condition(key: str, value: Any) -> Condition:
    """Return the condition that a key has a value of Python, or one of a list of them."""
    if isinstance(value, list | tuple | set | frozenset | range):
        return Condition(key, ",".join(make_condition(key, one).text for one in value))
    return Condition(key, value if isinstance(value, str) else quote_value(value))


def split_values(text: str) -> list[str]:
    """Return the parts between commas; commas inside quotes, parentheses, brackets and braces separate nothing."""
    parts, start, quote = [], 0, ""
    open_: list[str] = []
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character in _CLOSING:
            open_.append(_CLOSING[character])
        elif open_ and character == open_[-1]:
            open_.pop()
        elif character == "," and not open_:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()]


def strip_quotes(text: str) -> str:
    """Return a text without the quotes around it, if there are any."""
    return text[1:-1] if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0] else text


def make_error(option: str, key: str, text: str, present: Sequence[str]) -> InputError:
    """Return the error for a value that no run has."""
    return UnknownName(text, among=list(dict.fromkeys(present)), option=option, key=key, what="value")


def select_texts(
    text: str, present: Sequence[str], other: Callable[[str], Iterable[str]], *, key: str, option: str = "--where"
) -> list[str]:
    """Return those of `present` that the value of a condition means: the whole text, or a list of them.

    Each is meant as it is shown or, if nothing is shown like that, as what `other` finds for it. Raises InputError.
    """
    if text in present:
        return [text]
    squeezed = {one.replace(" ", ""): one for one in present}
    found: list[str] = []
    for part in split_values(text):
        plain = strip_quotes(part)
        if plain in present:
            found.append(plain)
        elif plain.replace(" ", "") in squeezed:
            found.append(squeezed[plain.replace(" ", "")])
        elif others := list(other(part)):
            found += others
        else:
            raise make_error(option, key, plain, present)
    return list(dict.fromkeys(found))


def select_dimension_texts(
    dimension: Dimension, text: str, configs: dict[str, dict[str, Any]], option: str = "--where"
) -> list[str]:
    """Return the texts of a key of runs that the value of a condition means; raises InputError."""
    try:
        return select_texts(
            text,
            dimension.ordered,
            lambda part: _find_same(dimension, part, configs, option),
            key=dimension.name,
            option=option,
        )
    except InputError:
        if why := explain_missing_switch(dimension, configs):
            raise Nothing(f"no run has {dimension.word}={text}", why, option=option, key=dimension.name) from None
        raise


def explain_missing_switch(dimension: Dimension, configs: dict[str, dict[str, Any]]) -> str:
    """Return what a key needs that some runs have not, so that it has no value there; an empty text if all have it."""
    path = dimension.path
    if path is None or len(path) < 2:
        return ""
    holders = (holder for config in configs.values() for holder in matrix.get_path(config, path[:-1]))
    missing = next(filter(None, (switches.explain_off(path, holder) for holder in holders)), "")
    values = ", ".join(text for text in dimension.ordered if text != dims.NOTHING)
    return missing and f"{values or 'no value'}; it counts only with {missing}"


@dataclass(frozen=True)
class Selector:
    """Says which cells a condition on a key of runs means, in a results file as in an experiment file."""

    file: str
    configs: dict[str, dict[str, Any]]
    matrix_keys: Sequence[str]
    option: str = "--where"

    def find_key(self, name: str, others: Sequence[str] = ()) -> Dimension | None:
        """Return the values of the key that `name` means: its path, or the end of one of the matrix or `others`."""
        path = dims.find_path(name, self.configs.values(), self.matrix_keys, others)
        return None if path is None else dims.make_dimension(name, path, self.configs)

    def select_cells(self, dimension: Dimension, text: str) -> set[str]:
        """Return the cells whose value is one of those that a condition has; raises InputError if there are none."""
        meant = select_dimension_texts(dimension, text, self.configs, self.option)
        return {cell for cell, of_cell in dimension.texts.items() if of_cell in meant}

    def make_key_error(self, name: str, known: Iterable[str]) -> InputError:
        """Return the error for a name that means no key; `known` are those that it may have meant."""
        listed = list(dict.fromkeys(known))
        near = find_nearest(name, [*listed, *(key.rpartition(".")[2] for key in listed)])
        return UnknownName(
            name,
            among=listed,
            file=self.file,
            key=self.option,
            nearest=near,
            what="key",
            also="or any other key of a run",
        )


def select_seeds(text: str, seeds: Iterable[int], option: str = "--where") -> list[int]:
    """Return the seeds that a condition means; raises InputError."""
    return [int(one) for one in select_texts(text, list(map(str, seeds)), lambda _: [], key="seed", option=option)]


def narrow_runs(
    whole: Runs, conditions: Iterable[Condition], meet: Callable[[Runs, Condition], Runs], option: str = "--where"
) -> Runs:
    """Return what is left of `whole` after all conditions, one after the other, each as `meet` does it.

    Raises InputError for a condition that nothing meets. If it is met without those before it, the error says so.
    """
    found, met = whole, list[Condition]()
    for condition in conditions:
        try:
            found = meet(found, condition)
        except InputError as error:
            if not met:
                raise
            with contextlib.suppress(InputError):
                meet(whole, condition)
                said = " and ".join(map(str, [*met, condition]))
                before = " and ".join(map(str, met))
                values = f"one of {error.allowed}" if len(error.known) > 1 else error.allowed
                there = f"where {before}, {condition.key} is {values}"
                error = Nothing(f"no run has {said}; {there}", option=option)
            raise error from None
        met.append(condition)
    return found


def _find_same(dimension: Dimension, text: str, configs: dict[str, dict[str, Any]], option: str) -> list[str]:
    """Return the texts whose values are `text` in another unit, have this name, or have what this table says."""
    if dimension.path is None:
        return []
    said: Any = parse_setting(f"value={text}")[1]
    if dimension.unit == "bytes" and isinstance(said, int):  # as CSV has it
        return [own for own, number in (dimension.numbers or {}).items() if number == said]
    found, wrong = [], []
    for cell, of_cell in dimension.texts.items():
        held = matrix.get_path(configs[cell], dimension.path)
        try:
            value = _parse_canonical(dimension.path, said, configs[cell])
        except InputError as error:
            wrong.append(error)
            continue
        if of_cell != dims.NOTHING and held and all(is_wanted(one, value, dimension.name, option) for one in held):
            found.append(of_cell)
    if wrong and len(wrong) == len(dimension.texts):
        raise wrong[0].move(option, dimension.name) from None
    return list(dict.fromkeys(found))


def _parse_canonical(path: matrix.Path, value: Any, config: dict[str, Any]) -> Any:
    """Return what a value is in a run: a limit is of packets or of bytes, as its queue has it. Raises InputError."""
    if path[-1] == "start":
        return schema.parse_start(value)
    holders = [one for one in matrix.get_path(config, path[:-1]) if isinstance(one, dict) and "name" in one]
    known = [plugins.find_algorithm(one, read_registry().algorithms) for one in holders]
    own = [one.params[str(path[-1])] for one in known if one is not None and path[-1] in one.params]
    param = own[0] if own else find_param(path)
    return value if param is None else spelling.parse_value(param, value)


def is_wanted(held: Any, value: Any, key: str, option: str = "--where") -> bool:
    """Whether a canonical value is what is wanted: equal, of this name, or with every value of this table."""
    if held == value:
        return True
    if not isinstance(held, dict) or "name" not in held:
        return False
    if isinstance(value, str):
        return bool(held["name"] == value)
    if not isinstance(value, dict) or value.get("name", held["name"]) != held["name"]:
        return False
    known = plugins.find_algorithm(held, read_registry().algorithms)
    params = known.params if known else {}
    for name, wanted in value.items():
        if name == "name":
            continue
        if name not in params:
            raise UnknownKey(name, among=list(params), option=option, key=f"{key}.{name}")
        try:
            if spelling.parse_value(params[name], wanted) != held.get(name) or switches.explain_off((name,), held):
                return False
        except InputError as error:
            raise error.move(option, f"{key}.{name}") from None
    return True
