"""What runs an experiment.

`names` finds an engine, `sweep` carries out all runs of an experiment on the simulator, on `linux` or `live`;
`cluster` does so on other machines, `needs` is what an engine needs of this one.
"""

from dumbbell.engines.names import by_name

__all__ = ["by_name"]
