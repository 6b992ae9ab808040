"""Constraints of a search: comparisons between parameters, such as `interval >= 10 * target`."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dumbbell.errors import WrongValue, quote_value
from dumbbell.evaluate.criterion_bar import CriterionBar, compute_amount, parse_amount, parse_bar

_ALLOWED = "a comparison of parameters, such as interval >= 10 * target"
_NAMES = "parameter that is a number"
_COMPARED = re.compile(r"\s*([^<>=]+?)\s*((?:<=?|>=?)[^=].*)", re.DOTALL)


@dataclass(frozen=True)
class SearchConstraint:
    """An amount that meets a bar; times are in ms, rates in Mbit/s, sizes in bytes."""

    text: str
    amount: ast.expr
    bar: CriterionBar

    def measure_violation(self, values: Mapping[str, float]) -> float:
        """Return by how much values of parameters miss the bar; 0 or less if they meet it."""
        found = compute_amount(self.amount, values)
        if self.bar.is_met(found, values):
            return 0.0
        limits = self.bar.list_limits(values)
        return max(abs(found - limit) for limit in limits)


def parse_constraint(text: object, names: Collection[str], key: str) -> SearchConstraint:
    """Return a constraint on parameters that are numbers, by their `names`. Raises InputError with `key`."""
    parts = _COMPARED.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        raise WrongValue(quote_value(text), _ALLOWED, key=key)
    amount = parse_amount(parts[1], names, key, _NAMES)
    return SearchConstraint(parts[0].strip(), amount, parse_bar(parts[2], names, key, _NAMES))
