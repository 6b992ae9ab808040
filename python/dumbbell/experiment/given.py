"""Experiments as callers in Python give them: a file, the name of one that is shipped, a table, or one that is checked."""

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from dumbbell.errors import WrongValue, quote_value
from dumbbell.experiment.file import Experiment, load, parse
from dumbbell.experiment.settings import Settings

Given = str | bytes | PathLike[str] | Mapping[str, Any] | Experiment


def read_given(experiment: Given, overrides: Settings = ()) -> Experiment:
    """Return the experiment, checked, with `overrides`; raises InputError."""
    match experiment:
        case Experiment():
            return experiment.with_settings(overrides)
        case Mapping():
            return parse(dict(experiment), "experiment", overrides)
    return load(decode_path(experiment), overrides)


def decode_path(path: str | bytes | PathLike[str] | PathLike[bytes]) -> str:
    """Return the name of a file as text; bytes are names as the system has them."""
    try:
        name = fspath(path)
    except TypeError:
        raise WrongValue(quote_value(path), "a file name or a path", key="file") from None
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else name
