"""Results files and what can be asked of them.

`store` is the file, `results` its reader: which runs, which keys, which frames. `selecting` has the grammar of
`--where`, `columns` every measure, `aggregate` means over seeds, `tables` their text, `diff` compares two sets of
runs.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import import_lazily

if TYPE_CHECKING:
    from dumbbell.results.results import StoredResults as StoredResults
else:
    __getattr__ = import_lazily(
        __name__,
        {"StoredResults": "results"},
    )
