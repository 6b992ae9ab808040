"""Makes the sampler of a search."""

from __future__ import annotations

from collections.abc import Sequence

from dumbbell.errors import Conflict, Unfit
from dumbbell.searching.optuna_sampler import OptunaSampler
from dumbbell.searching.pymoo_sampler import PymooSampler
from dumbbell.searching.sampler import KINDS, Sampler
from dumbbell.searching.search_parameter import SearchParameter


def make_sampler(
    name: str, parameters: Sequence[SearchParameter], objectives: int, seed: int, *, constrained: bool
) -> Sampler:
    """Return a sampler of `KINDS`. Raises InputError if its package is not installed or it does not fit the search."""
    kind = KINDS[name]
    if kind.single and objectives > 1:
        raise Unfit(f"{name} takes one objective, and there are {objectives}", "nsga2, tpe or gp", key="sampler")
    if kind.numbers and (choice := next((one.name for one in parameters if one.choices), None)):
        raise Conflict(f"{name} and {choice}, which has choices,", "nsga2, tpe or gp", key="sampler")
    if kind.package == "pymoo":
        return PymooSampler(name, parameters, objectives, seed)
    return OptunaSampler(name, parameters, objectives, seed, constrained=constrained)
