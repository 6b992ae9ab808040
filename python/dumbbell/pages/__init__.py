"""Pages of findings: templates whose every number and comparison is computed from stored results.

`values` are what a template may ask of the results, `evidence` the small tables that are kept beside a page,
`template` renders, `prose` finds numbers that were typed by hand, `study` is the folder of one page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dumbbell.lazy import names_of

__all__ = ["ContradictedError", "Evidence", "Study", "find", "names", "render"]

if TYPE_CHECKING:
    from dumbbell.pages.evidence import Evidence
    from dumbbell.pages.study import Study, find, names
    from dumbbell.pages.template import ContradictedError, render

else:
    __getattr__ = names_of(
        __name__,
        {
            "ContradictedError": "template",
            "Evidence": "evidence",
            "Study": "study",
            "find": "study",
            "names": "study",
            "render": "template",
        },
    )
