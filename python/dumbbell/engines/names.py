"""Engines by the names that `--engine` takes.

Other packages add theirs as entry points of the group `dumbbell.engines`: a name, and a function that returns a
`dumbbell.engines.sweep.Engine` for what follows the colon in `NAME:WHICH`, or for None.
"""

import importlib
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, cast

from dumbbell.errors import UnknownName, one_line

if TYPE_CHECKING:
    from dumbbell.engines.sweep import Engine

GROUP = "dumbbell.engines"
SIM = "sim"
_OWN = {"linux": "dumbbell.engines.linux.engine", "live": "dumbbell.engines.live.engine"}


def by_name(text: str) -> "Engine | None":
    """Return the engine that `text` names; None is the simulator. Raises InputError."""
    name, colon, which = text.partition(":")
    if text == SIM:
        return None
    others = {one.name: one for one in entry_points(group=GROUP)}
    if (name not in _OWN and name not in others) or (colon and not which):
        known = (SIM, "linux", "linux:NAME", "live", *others)
        raise UnknownName("--engine", "", one_line(text) or "nothing", known, what="engine")
    make = importlib.import_module(_OWN[name]).engine if name in _OWN else others[name].load()
    return cast("Callable[[str | None], Engine]", make)(which or None)
