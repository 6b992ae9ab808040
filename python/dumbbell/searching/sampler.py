"""Samplers of a search: those of optuna and of pymoo, behind one interface of questions and answers.

A sampler is a function of its seed and of the answers that it got, in their order. So a search that goes on asks the
same questions again, whose answers are in the results file, until it is where it was.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dumbbell.errors import Needs

_INSTALL = "pip install 'dumbbell[search]'"
MANY = 1000  # candidates: the time of TPE for each grows with their number, and reaches 20 ms here
Suggestion = dict[str, Any]
"""A value of each parameter: in its range, or the place of a choice."""


@dataclass(frozen=True)
class Answer:
    """The result of a suggestion: values of which less is better, or none, and by how much constraints are missed."""

    values: tuple[float, ...] | None
    violation: float = 0.0


class Sampler(Protocol):
    """Suggests values of parameters."""

    @property
    def batch(self) -> int:
        """How many suggestions it makes at once."""

    def ask(self, count: int) -> list[Suggestion]:
        """Return the next suggestions, `count` at most."""

    def take_answers(self, answers: Sequence[Answer]) -> None:
        """Take the answers to the suggestions that it was asked for last, in their order."""


@dataclass(frozen=True)
class SamplerKind:
    """A sampler: the package that it is of, what it is good for, and what it cannot do."""

    package: str
    title: str
    single: bool = False
    """Whether it takes one objective alone."""
    numbers: bool = False
    """Whether it takes no choices."""


KINDS = {
    "tpe": SamplerKind("optuna", "tree-structured Parzen estimators: few candidates, any parameters"),
    "gp": SamplerKind("optuna", "Gaussian processes: very few candidates; needs the package torch"),
    "nsga2": SamplerKind("optuna", "a genetic algorithm: thousands of candidates"),
    "nsga3": SamplerKind("optuna", "a genetic algorithm for three objectives or more"),
    "cmaes": SamplerKind("optuna", "CMA-ES: one objective, parameters that are numbers", single=True, numbers=True),
    "qmc": SamplerKind("optuna", "Sobol's sequence: the whole space, evenly"),
    "random": SamplerKind("optuna", "values drawn at random"),
    "sms-emoa": SamplerKind("pymoo", "a genetic algorithm that enlarges the hypervolume", numbers=True),
    "de": SamplerKind("pymoo", "differential evolution: one objective", single=True, numbers=True),
}


def choose_sampler(budget: int) -> str:
    """Return the sampler of a search whose file names none: by the number of candidates."""
    return "tpe" if budget <= MANY else "nsga2"


def import_package(name: str, install: str = _INSTALL) -> Any:
    """Return an optional package, or a module of one. Raises InputError if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Needs(f"the package {name.partition('.')[0]}", install, key="sampler") from None
