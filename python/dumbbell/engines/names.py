"""Engines by the names that `--engine` takes.

Other packages add theirs as entry points of the group `dumbbell.engines`: a name, and a function that returns a
`dumbbell.engines.base.Engine` for what follows the colon in `NAME:WHICH`, or for None.
"""

import importlib
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, cast

from dumbbell.errors import UnknownName, one_line

if TYPE_CHECKING:
    from dumbbell.engines.base import Engine

GROUP = "dumbbell.engines"
_OWN = {"sim": "dumbbell.engines.sim", "linux": "dumbbell.engines.linux.engine", "live": "dumbbell.engines.live.engine"}


def by_name(text: str) -> "Engine":
    """Return the engine that `text` names. Raises InputError."""
    name, colon, which = text.partition(":")
    others = {one.name: one for one in entry_points(group=GROUP)}
    if (name not in _OWN and name not in others) or (colon and not which):
        known = ("sim", "linux", "linux:NAME", "live", *others)
        raise UnknownName("--engine", "", one_line(text) or "nothing", known, what="engine")
    make = importlib.import_module(_OWN[name]).engine if name in _OWN else others[name].load()
    return cast("Callable[[str | None], Engine]", make)(which or None)
