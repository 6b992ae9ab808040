"""Engines by the names that `--engine` takes.

Other packages add theirs as entry points of the group `dumbbell.engines`: a name, and a function that returns a
`dumbbell.engines.base.Engine` for what follows the colon in `NAME:WHICH`, or for None.
"""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from dumbbell.errors import UnknownName, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from dumbbell.engines.base import Engine

GROUP = "dumbbell.engines"
_OWN = {"sim": "dumbbell.engines.sim", "linux": "dumbbell.engines.linux.engine", "live": "dumbbell.engines.live.engine"}


def _others() -> dict[str, "EntryPoint"]:
    from importlib.metadata import entry_points  # it takes 30 ms to import, and to read what is installed

    return {one.name: one for one in entry_points(group=GROUP)}


def by_name(text: str) -> "Engine":
    """Return the engine that `text` names. Raises InputError."""
    name, colon, which = text.partition(":")
    whole = bool(which) or not colon
    if whole and name in _OWN:
        make = importlib.import_module(_OWN[name]).engine
    else:
        others = _others()
        if not whole or name not in others:
            known = ("sim", "linux", "linux:NAME", "live", *others)
            raise UnknownName(one_line(text) or "nothing", among=known, option="--engine", what="engine")
        make = others[name].load()
    return cast("Callable[[str | None], Engine]", make)(which or None)
