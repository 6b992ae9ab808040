"""The kinds of figures that `dumbbell plot` draws, each with what may be asked of it.

A kind is a file of this package with a `Kind` called as the kind in capitals, and its line here. Names alone import
none of these files.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dumbbell.errors import UnknownName

if TYPE_CHECKING:
    from dumbbell.figures import Picture
    from dumbbell.plotting.request import PlotRequest
    from dumbbell.results.results import StoredResults

# the file of each kind
KINDS = {
    "lines": "means",
    "bars": "means",
    "box": "means",
    "cdf": "distributions",
    "ccdf": "distributions",
    "heat": "means",
    "ratio": "means",
    "ellipses": "ellipses",
    "differences": "differences",
    "series": "over_time",
    "shares": "shares",
    "felt": "felt",
    "front": "front",
}


def _show_means(_: PlotRequest) -> str:
    return ""


@dataclass(frozen=True)
class Kind:
    """A kind of figure: the function that draws it, and what may be asked of it.

    `values` is how many measures may be asked for. `time`, `baseline` and `against` are
    options that it takes. Without `keys` it takes no keys at all. With `experiments` it shows experiments that vary
    different keys. With `says_rest` its note says itself in which further keys the runs differ. `shows` returns what it
    shows instead of means over keys, which then cannot be asked for.
    """

    name: str
    draw: Callable[[StoredResults, PlotRequest], Picture]
    values: Literal["none", "one", "pair", "several"] = "several"
    time: bool = False
    baseline: bool = False
    against: bool = True
    keys: bool = True
    experiments: bool = False
    says_rest: bool = False
    shows: Callable[[PlotRequest], str] = _show_means


def find_kind(name: str) -> Kind:
    """Return a kind by its name; raises UnknownName."""
    if name not in KINDS:
        raise UnknownName(name, among=list(KINDS), option="--kind", what="kind")
    found: Kind = getattr(importlib.import_module(f"dumbbell.plotting.{KINDS[name]}"), name.upper())
    return found


def list_kinds() -> Iterator[Kind]:
    """Yield every kind, which imports them all."""
    yield from map(find_kind, KINDS)
