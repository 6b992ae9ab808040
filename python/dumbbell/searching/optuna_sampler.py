"""Samplers of optuna."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dumbbell.searching.sampler import Answer, Suggestion, import_package
from dumbbell.searching.search_parameter import SearchParameter

if TYPE_CHECKING:
    import optuna

_VIOLATION = "violation"


class OptunaSampler:
    """A sampler of optuna, whose study is in memory: what is to last is in the results file."""

    def __init__(
        self, name: str, parameters: Sequence[SearchParameter], objectives: int, seed: int, *, constrained: bool
    ) -> None:
        self._optuna = import_package("optuna")
        self._optuna.logging.set_verbosity(self._optuna.logging.ERROR)
        self.batch, make = _MADE[name]
        options = {"constraints_func": _list_violations} if constrained and name not in _UNCONSTRAINED else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # parts of optuna are called experimental
            sampler = make(self._optuna.samplers, seed, options)
        self._study = self._optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
        self._ranges = {one.name: self._make_range(one) for one in parameters}
        self._asked: list[optuna.Trial] = []
        self._seen: list[tuple[float, ...]] = []

    def _make_range(self, one: SearchParameter) -> Any:
        ranges = self._optuna.distributions
        if one.choices:
            return ranges.CategoricalDistribution(list(range(len(one.choices))))
        if one.is_whole:
            step = 1 if one.step is None else int(one.step)
            return ranges.IntDistribution(int(one.low), int(one.high), log=one.is_log, step=step)
        return ranges.FloatDistribution(one.low, one.high, log=one.is_log, step=one.step)

    def ask(self, count: int) -> list[Suggestion]:
        """Return the next suggestions."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._asked = [self._study.ask(self._ranges) for _ in range(min(count, self.batch))]
        return [dict(one.params) for one in self._asked]

    def take_answers(self, answers: Sequence[Answer]) -> None:
        """Take the answers.

        One without values that misses a constraint gets those of the middle, from which nothing is learnt.
        """
        failed = self._optuna.trial.TrialState.FAIL
        for trial, answer in zip(self._asked, answers, strict=True):
            trial.set_user_attr(_VIOLATION, answer.violation)
            if answer.values is not None:
                self._seen.append(answer.values)
                self._study.tell(trial, answer.values)
            elif answer.violation > 0 and self._seen:
                middle = [sorted(column)[len(column) // 2] for column in zip(*self._seen, strict=True)]
                self._study.tell(trial, middle)
            else:
                self._study.tell(trial, state=failed)


def _list_violations(trial: optuna.trial.FrozenTrial) -> list[float]:
    return [trial.user_attrs[_VIOLATION]]


_UNCONSTRAINED = ("cmaes", "qmc", "random")
_POPULATION = 50  # candidates of a generation, of optuna's genetic algorithms by default
# how many are asked for at once: few where each answer tells something for the next question
_MADE: Mapping[str, tuple[int, Callable[[Any, int, dict[str, Any]], Any]]] = {
    "tpe": (10, lambda all_, seed, more: all_.TPESampler(seed=seed, multivariate=True, constant_liar=True, **more)),
    "gp": (4, lambda all_, seed, more: all_.GPSampler(seed=seed, deterministic_objective=False, **more)),
    "nsga2": (
        _POPULATION,
        lambda all_, seed, more: all_.NSGAIISampler(seed=seed, population_size=_POPULATION, **more),
    ),
    "nsga3": (
        _POPULATION,
        lambda all_, seed, more: all_.NSGAIIISampler(seed=seed, population_size=_POPULATION, **more),
    ),
    "cmaes": (12, lambda all_, seed, more: all_.CmaEsSampler(seed=seed, popsize=12, **more)),
    "qmc": (32, lambda all_, seed, more: all_.QMCSampler(seed=seed, scramble=True, **more)),
    "random": (32, lambda all_, seed, more: all_.RandomSampler(seed=seed, **more)),
}
