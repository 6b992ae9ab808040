"""Distributions from which networks of tasks are drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dumbbell.errors import OutOfRange, WrongValue, quote_value
from dumbbell.experiment.toml_checks import is_number

if TYPE_CHECKING:
    from numpy.random import Generator

Network = dict[str, Any]
"""The drawn values of a network by name, and what a task computes from them."""


class Draw(Protocol):
    """A distribution of one value."""

    def draw(self, generator: Generator) -> Any:
        """Return the next value."""


@dataclass(frozen=True)
class Uniform:
    """A number, evenly distributed from `low` to `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        check_range(self, self.low, self.high)

    def draw(self, generator: Generator) -> float:
        """Return the next value."""
        return float(generator.uniform(self.low, self.high))


@dataclass(frozen=True)
class LogUniform:
    """A number whose logarithm is evenly distributed; with `whole`, the integer below it."""

    low: float
    high: float
    whole: bool = False

    def __post_init__(self) -> None:
        check_range(self, self.low, self.high, is_log=True)

    def draw(self, generator: Generator) -> float:
        """Return the next value."""
        value = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        return math.floor(value) if self.whole else value


@dataclass(frozen=True)
class OneOf:
    """One of `values`, each as likely as the others."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.values, tuple | list) or not self.values:
            raise WrongValue(quote_value(self.values), "a list of one value or more", command="OneOf", key="values")

    def draw(self, generator: Generator) -> Any:
        """Return the next value."""
        return self.values[int(generator.integers(len(self.values)))]


def check_range(kind: object, low: float, high: float, *, is_log: bool = False) -> None:
    """Raise InputError of an object of `kind` unless low and high are numbers in order, above 0 for logarithms."""
    name = type(kind).__name__
    if not (is_number(low) and is_number(high) and math.isfinite(low) and math.isfinite(high) and low <= high):
        found = f"{quote_value(low)} to {quote_value(high)}"
        raise OutOfRange(found, "a range of numbers, low to high", command=name, key="low and high")
    if is_log and low <= 0:
        raise OutOfRange(quote_value(low), "more than 0", command=name, key="low")


def draw_network(draws: Mapping[str, Draw], generator: Generator) -> Network:
    """Return a value of each distribution, drawn in their order."""
    return {name: one.draw(generator) for name, one in draws.items()}
