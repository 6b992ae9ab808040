"""Holds the JSON Schema of experiment files against what `experiment.parse` says of the same table."""

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jsonschema
import pytest

from dumbbell import _native, experiment
from dumbbell.errors import InputError
from dumbbell.experiment import file, json_schema

# what JSON Schema cannot say: the reason, and the line of the error
EXCEPTIONS = {
    "nan and inf are no JSON": r" is (nan|-?inf); ",
    "how many there are in all": r"flows and sources of UDP are too many",
    "an index depends on the length of a list": r"unknown key \S+; (the last of \S+|\S+) is ",
    "two values contradict each other": r"it must be (an earliest time that is not after|a size above min)",
    "a range has a value": r"it must be at least least, ",
    "parameters of an application contradict each other": r"it must be at least (smallest|initial|start_segments)",
    "the same name twice": r"it must be a name that matrix\.",
    "the same run twice": r"make the same run; use values that differ",
    "times after the end of the run": r"it must be a time before the end of the run",
    "keys that others leave without effect": r"it has no effect without |it sets the hosts' TCP|record\.queue is ",
    "an override that no run meets": r"no run meets this condition",
    "an override of what the matrix sets": r"override\[\d+\]\.set: \S+ and the matrix's ",
    "a file of sizes has to be read": r"size\.csv: ",
    "a trace of a link has to be read": r"bottleneck\.trace\"?(\[[0-9]+\])?: .* \(.*\); (it must be|give) ",
    "a datagram fits into a full frame": r"it must be at most \d+ B, (what )?a full frame of hosts\.mss",
    "a trace replaces other keys": r"and trace cannot be combined",
    "a buffer replaces a limit": r"buffer and aqm\.\w+ cannot be combined",
    "what is relative makes a number that is too large or too small": r", which makes ",
    "products need a base RTT": r"no base RTT in this run is above 0s|and the base RTT is 0s",
    "a cycle of rates changes within the run": r"it must be a time before until",
    "keys that need others": r"it must be ((none|fixed) without|left out, unless|shared next to) "
    r"|the flow has no ECN; ",
    "a segment fits into those of the hosts": r"it must be at most hosts\.mss",
}


@cache
def _validator(_described: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema.make_schema())


def validator() -> jsonschema.Draft202012Validator:
    """Return the validator of the schema of the engine, or of what a test has put in its place."""
    return _validator(_native.registry())


def excused(error: InputError) -> str | None:
    """Return why the schema may accept what is refused with this error, if it may."""
    return next((reason for reason, line in EXCEPTIONS.items() if re.search(line, str(error))), None)


@contextmanager
def held_against_parse() -> Iterator[None]:
    """Let every table that is parsed fail if the schema accepts what `parse` refuses, or the other way round."""
    real = file._parse

    def held(table: dict[str, Any], name: str, settings: Any, *rest: Any) -> experiment.Experiment:
        # what these take is said by their code
        has_plugin = any(f"'{key}'" in str(table) for key in ("plugin", "stack"))
        accepted = bool(settings) or validator().is_valid(copy.deepcopy(table))
        try:
            found = real(table, name, settings, *rest)
        except InputError as error:
            assert settings or not accepted or has_plugin or excused(error), (
                f"the schema accepts what is refused: {error}"
            )
            raise
        if not accepted:
            shown = [f"{e.json_path}: {e.message}" for e in validator().iter_errors(table)]
            pytest.fail(f"the schema refuses what is accepted: {shown}")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file, "_parse", held)
        yield
