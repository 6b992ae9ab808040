"""A laboratory for congestion control and active queue management.

`dumbbell.run` runs an experiment, `dumbbell.simulate` does so in memory, `dumbbell.open` reads a results file: all
return `Results`.
"""

from typing import TYPE_CHECKING

from dumbbell.errors import InputError
from dumbbell.lazy import import_lazily, list_public

if TYPE_CHECKING:
    from dumbbell._native import engine_version
    from dumbbell.api import open, run, search  # noqa: A004  as in dumbbell.open
    from dumbbell.experiment.file import Experiment, load, parse
    from dumbbell.experiment.plugins.trust import trust
    from dumbbell.notebook import Results, Search
    from dumbbell.simulating import simulate, simulate_many
    from dumbbell.simulation import Agents, Simulation, list_observations
else:
    __getattr__ = import_lazily(
        __name__,
        {
            "Agents": "simulation",
            "Experiment": "experiment.file",
            "Results": "notebook",
            "Search": "notebook",
            "Simulation": "simulation",
            "engine_version": "_native",
            "list_observations": "simulation",
            "load": "experiment.file",
            "open": "api",
            "parse": "experiment.file",
            "run": "api",
            "search": "api",
            "simulate": "simulating",
            "simulate_many": "simulating",
            "trust": "experiment.plugins.trust",
        },
    )

__all__ = [
    "Agents",
    "Experiment",
    "InputError",
    "Results",
    "Search",
    "Simulation",
    "engine_version",
    "list_observations",
    "load",
    "open",
    "parse",
    "run",
    "search",
    "simulate",
    "simulate_many",
    "trust",
]

__dir__ = list_public(__name__, __all__)
