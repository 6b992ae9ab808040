"""Pages of findings: templates whose every number and comparison is computed from stored results.

`values` are what a template may ask of the results, `evidence` the small tables that are kept beside a page,
`template` renders, `prose` finds numbers that were typed by hand, `study` is the folder of one page.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dumbbell.pages.evidence import Evidence
    from dumbbell.pages.study import Study, find, names
    from dumbbell.pages.template import ContradictedError, render

__all__ = ["ContradictedError", "Evidence", "Study", "find", "names", "render"]

_PLACES = {
    "ContradictedError": "template",
    "Evidence": "evidence",
    "Study": "study",
    "find": "study",
    "names": "study",
    "render": "template",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: figures take a second, and most commands draw none."""
    if name not in _PLACES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"dumbbell.pages.{_PLACES[name]}"), name)
