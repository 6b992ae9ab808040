"""Checks tables of an experiment file against their sections: finds all faults at once, and fills in the defaults."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from dumbbell.errors import InputError
from dumbbell.experiment.files import Files
from dumbbell.experiment.matrix import Path


class Checked(NamedTuple):
    """A value in its canonical form: with every key, and with those alone that the file sets."""

    whole: Any
    given: Any


@dataclass(frozen=True)
class Fault:
    """What is wrong at a place of a table: a key is missing or unknown, or a value is wrong, as `error` says."""

    place: Path
    kind: Literal["missing", "unknown", "no list", "no table", "value"]
    found: Any = None
    error: InputError | None = None


@dataclass
class Checking:
    """One check: the files that values may name, and the faults so far."""

    files: Files | None
    faults: list[Fault] = field(default_factory=list)


Check = Callable[[Any, Path, Checking], Checked]
Parse = Callable[[Any, Files | None], Any]
_WRONG = Checked(None, None)


def check_value(parse: Parse) -> Check:
    """Return the check of values that `parse` makes canonical; it raises InputError."""

    def check(value: Any, place: Path, checking: Checking) -> Checked:
        try:
            parsed = parse(value, checking.files)
        except InputError as error:
            checking.faults.append(Fault(place, "value", value, error))
            return _WRONG
        return Checked(parsed, parsed)

    return check


def check_list(check_item: Check) -> Check:
    """Return the check of lists."""

    def check(value: Any, place: Path, checking: Checking) -> Checked:
        if not isinstance(value, list | tuple):
            checking.faults.append(Fault(place, "no list", value))
            return _WRONG
        items = [check_item(item, (*place, number), checking) for number, item in enumerate(value)]
        return Checked([item.whole for item in items], [item.given for item in items])

    return check


def check_table(check_item: Check) -> Check:
    """Return the check of tables whose keys are free."""

    def check(value: Any, place: Path, checking: Checking) -> Checked:
        if not isinstance(value, dict):
            checking.faults.append(Fault(place, "no table", value))
            return _WRONG
        items = {key: check_item(item, (*place, key), checking) for key, item in value.items()}
        whole = {key: item.whole for key, item in items.items()}
        return Checked(whole, {key: item.given for key, item in items.items()})

    return check


def check_optional(check_present: Check) -> Check:
    """Return the check of what may be None."""
    return lambda value, place, checking: (
        Checked(None, None) if value is None else check_present(value, place, checking)
    )


def check_anything(value: Any, _place: Path, _checking: Checking) -> Checked:
    """Accept any value as it is."""
    return Checked(value, value)


@dataclass(frozen=True)
class SectionKey:
    """A key of a section. A table must have it unless it has a default; `section` is that of its tables, if any."""

    check: Check
    make_default: Callable[[], Any] | None = None
    section: "Section | None" = None


def set_default(value: Any) -> Callable[[], Any]:
    """Return what makes a default of its own for each table."""
    return (lambda: copy.deepcopy(value)) if isinstance(value, list | dict) else lambda: value


@dataclass(frozen=True)
class Section:
    """A table with known keys, which is a check itself. `convert` changes a table before it is checked; InputError."""

    fields: dict[str, SectionKey]
    convert: Callable[[Any], Any] | None = None

    def __call__(self, value: Any, place: Path, checking: Checking) -> Checked:
        """Check a table; values of keys that it does not set are their defaults."""
        if self.convert is not None:
            try:
                value = self.convert(value)
            except InputError as error:
                checking.faults.append(Fault(place, "value", value, error))
                return _WRONG
        if not isinstance(value, dict):
            checking.faults.append(Fault(place, "no table", value))
            return _WRONG
        whole: dict[str, Any] = {}
        given: dict[str, Any] = {}
        for name, one in self.fields.items():
            if name in value:
                whole[name], given[name] = one.check(value[name], (*place, name), checking)
            elif one.make_default is not None:
                whole[name] = one.make_default()
            else:
                checking.faults.append(Fault((*place, name), "missing"))
        for key in value:
            if key not in self.fields:
                checking.faults.append(Fault((*place, key), "unknown", value[key]))
        return Checked(whole, given)
