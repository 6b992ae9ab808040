"""Experiments as programs in Python give them: files, names of shipped ones, tables, checked ones."""

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from dumbbell.errors import WrongValue, quote_value
from dumbbell.experiment.cell import Cell
from dumbbell.experiment.file import Experiment, load, parse
from dumbbell.experiment.settings import Settings

Given = str | bytes | PathLike[str] | Mapping[str, Any] | Experiment


def read_given(experiment: Given, overrides: Settings = (), *, asks_engine: bool = True) -> Experiment:
    """Return the experiment with `overrides`, checked as by `parse`; raises InputError."""
    match experiment:
        case Experiment():
            return experiment.add_settings(overrides, asks_engine=asks_engine)
        case Mapping():
            return parse(dict(experiment), "experiment", overrides, asks_engine=asks_engine)
    return load(decode_path(experiment), overrides, asks_engine=asks_engine)


def make_cells(experiment: Given, overrides: Settings = ()) -> list[Cell]:
    """Return the runs of an experiment with `overrides`, about which the engine was not asked; raises InputError."""
    if isinstance(experiment, Experiment):
        return experiment.make_cells_with(overrides)
    return list(read_given(experiment, overrides, asks_engine=False).make_cells())


def decode_path(path: str | bytes | PathLike[str] | PathLike[bytes]) -> str:
    """Return the name of a file as text; bytes are names as the system has them."""
    try:
        name = fspath(path)
    except TypeError:
        raise WrongValue(quote_value(path), "a file name or a path", key="file") from None
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else name
