"""Holds the JSON Schema of experiment files against what `experiment.parse` says of the same table."""

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jsonschema
import pytest

from dumbbell import _native, experiment, json_schema
from dumbbell.errors import InputError

# what JSON Schema cannot say: the reason, and the line of the error
EXCEPTIONS = {
    "nan and inf are no JSON": r"found (nan|-?inf), ",
    "how many there are in all": r"flows and sources of UDP, allowed: at most",
    "an index depends on the length of a list": r"allowed: an index (from 0 to|into)",
    "two values contradict each other": r"allowed: (an earliest time that is not after|a size above min)",
    "the same run twice": r"which make the same run, allowed: values that differ",
    "times after the end of the run": r"allowed: a time before the end of the run",
    "an override that no run meets": r"found a condition that no run meets",
    "an override of what the matrix sets": r"allowed: a key that the matrix does not set",
    "a file of sizes has to be read": r"size\.csv: found ",
    "a trace of a link has to be read": r"bottleneck\.trace\"?(\[[0-9]+\])?: found .* \(.*\), allowed: ",
    "a trace replaces other keys": r"found this key beside bottleneck\.trace",
}


@cache
def _validator(_described: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema.file_schema())


def validator() -> jsonschema.Draft202012Validator:
    """Return the validator of the schema of the engine, or of what a test has put in its place."""
    return _validator(_native.registry())


def excused(error: InputError) -> str | None:
    """Return why the schema may accept what is refused with this error, if it may."""
    return next((reason for reason, line in EXCEPTIONS.items() if re.search(line, str(error))), None)


@contextmanager
def held_against_parse() -> Iterator[None]:
    """Let every table that is parsed fail if the schema accepts what `parse` refuses, or the other way round."""
    real = experiment._parse

    def held(table: dict[str, Any], file: str, settings: Any, *rest: Any) -> experiment.Experiment:
        accepted = bool(settings) or validator().is_valid(copy.deepcopy(table))
        try:
            found = real(table, file, settings, *rest)
        except InputError as error:
            assert settings or not accepted or excused(error), f"the schema accepts what is refused: {error}"
            raise
        if not accepted:
            shown = [f"{e.json_path}: {e.message}" for e in validator().iter_errors(table)]
            pytest.fail(f"the schema refuses what is accepted: {shown}")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "_parse", held)
        yield
