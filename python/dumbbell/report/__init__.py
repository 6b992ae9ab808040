"""A report: one page with all that results say, which needs no network.

`sources` selects the runs, `report_tables` has their measurements, `series` their time series; `findings` and
`references` have what to know first; `repeat` has the command for each run; `text` makes what is there before scripts
run, `page` writes all of it. The sections, scripts and style of the page are in `web`; `figures.html` has what every
page needs.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import import_lazily

if TYPE_CHECKING:
    from dumbbell.report.page import write as write
else:
    __getattr__ = import_lazily(__name__, {"write": "page"})
