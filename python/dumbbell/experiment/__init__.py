"""Experiment files, from TOML to runs.

`file` reads a file (`toml_file`, with `settings` on top) and makes its runs (`cell`), `schema` has its keys and types,
`matrix` its axes, `registry` the algorithms that the engine knows, `units` the values with units; `places` finds line
and column of a key, `shipped` what comes with dumbbell.
"""

from typing import TYPE_CHECKING

from dumbbell.lazy import import_lazily

if TYPE_CHECKING:
    from dumbbell.experiment.cell import Cell as Cell
    from dumbbell.experiment.file import Experiment as Experiment
    from dumbbell.experiment.file import load as load
    from dumbbell.experiment.file import parse as parse
    from dumbbell.experiment.toml_file import read_title as read_title
    from dumbbell.experiment.toml_file import read_toml as read_toml
else:
    __getattr__ = import_lazily(
        __name__,
        {
            "Cell": "cell",
            "Experiment": "file",
            "load": "file",
            "parse": "file",
            "read_toml": "toml_file",
            "read_title": "toml_file",
        },
    )
