"""Engines by the names that `--engine` takes: the rows of `results.versions.KINDS` that have a module."""

import importlib
from typing import TYPE_CHECKING, cast

from dumbbell.errors import UnknownName, escape_line
from dumbbell.results import versions

if TYPE_CHECKING:
    from dumbbell.engines.base import Engine


def find_engine(text: str) -> "Engine":
    """Return the engine that `text` names. Raises InputError."""
    name, colon, which = text.partition(":")
    found = versions.KINDS.get(name)
    if found is None or not found.module or (colon and not which):
        known = [
            word
            for one in versions.list_runners()
            for word in (one.name, f"{one.name}:{one.which}")[: 1 + bool(one.which)]
        ]
        raise UnknownName(escape_line(text) or "nothing", among=known, option="--engine", what="engine")
    return cast("Engine", importlib.import_module(found.module).make_engine(which or None))
