"""A laboratory for congestion control and active queue management.

`dumbbell.run` runs an experiment, `dumbbell.open` reads a results file; both return `Results`.
"""

from typing import TYPE_CHECKING

from dumbbell.errors import InputError
from dumbbell.lazy import import_lazily, list_public

if TYPE_CHECKING:
    from dumbbell._native import engine_version
    from dumbbell.api import open, run  # noqa: A004  as in dumbbell.open
    from dumbbell.experiment.file import Experiment, load, parse
    from dumbbell.experiment.plugins.trust import trust
    from dumbbell.notebook import Results
    from dumbbell.simulating import simulate, simulate_many
else:
    __getattr__ = import_lazily(
        __name__,
        {
            "Experiment": "experiment.file",
            "Results": "notebook",
            "engine_version": "_native",
            "load": "experiment.file",
            "open": "api",
            "parse": "experiment.file",
            "run": "api",
            "simulate": "simulating",
            "simulate_many": "simulating",
            "trust": "experiment.plugins.trust",
        },
    )

__all__ = [
    "Experiment",
    "InputError",
    "Results",
    "engine_version",
    "load",
    "open",
    "parse",
    "run",
    "simulate",
    "simulate_many",
    "trust",
]

__dir__ = list_public(__name__, __all__)
