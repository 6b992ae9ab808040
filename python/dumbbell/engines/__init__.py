"""Engines, which run experiments.

`base` says what an engine is, `names` finds one: `sim`, `linux` or `live`. `sweep` carries out all runs of experiments,
`estimate` says what that takes, `progress` shows it; `cluster` runs on other machines, `needs` is what an engine needs
of this one.
"""

from dumbbell.engines.names import find_engine

__all__ = ["find_engine"]
