"""A report: one page with all that results say, which needs no network.

`sources` says which runs, `report_tables` what they measured, `series` what happened over time; `findings` and `references`
say what to know first; `repeat` has the command for each run; `text` is what is there before scripts run, `page` writes
it all. The scripts and the style of the page are in `web`; `figures.html` is what every page has.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import import_lazily

if TYPE_CHECKING:
    from dumbbell.report.page import write as write
else:
    __getattr__ = import_lazily(__name__, {"write": "page"})
