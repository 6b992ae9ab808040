"""Pages of findings: templates whose every number and comparison is computed from stored results.

`values` are what a template may ask of the results, `evidence` the small tables that are stored with a page,
`template` renders, `prose` finds numbers that were typed by hand, `study` is the folder of one page, `sweeps` the
experiments that it rests on, `new` makes a folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dumbbell.lazy import import_lazily

__all__ = ["ContradictedError", "Evidence", "Study", "Sweep", "find", "list_studies", "render"]

if TYPE_CHECKING:
    from dumbbell.pages.evidence import Evidence
    from dumbbell.pages.study import Study, find, list_studies
    from dumbbell.pages.sweeps import Sweep
    from dumbbell.pages.template import ContradictedError, render

else:
    __getattr__ = import_lazily(
        __name__,
        {
            "ContradictedError": "template",
            "Evidence": "evidence",
            "Study": "study",
            "Sweep": "sweeps",
            "find": "study",
            "names": "study",
            "render": "template",
        },
    )
