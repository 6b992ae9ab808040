"""Bars of criteria: conditions on a value, such as `> 0.05 and > 3 * cubic`."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from dumbbell.errors import UnknownName, WrongValue, quote_value

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(r"\s*([<>]=?)(.*)", re.DOTALL)
_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, Callable[[list[float]], float]] = {"min": min, "max": max}
_ALLOWED = (
    "<, <=, > or >= with an amount, joined by `and`; amounts are made of numbers, words, yardsticks, + - * /, min, max"
)
_NAMES = "word or yardstick"
_ROUNDING = 1e-9  # relative
_LONGEST = 200  # characters: what is longer is no bar that anybody reads


@dataclass(frozen=True)
class CriterionBar:
    """Conditions that a value meets all together."""

    text: str
    conditions: tuple[tuple[str, ast.expr], ...]
    """Signs such as `<=`, each with an amount."""

    def is_met(self, value: float, names: Mapping[str, float]) -> bool:
        """Whether a value meets every condition; `names` are the values of words and yardsticks.

        What differs from an amount by rounding alone is equal to it.
        """
        return all(_compare(sign, value, compute_amount(amount, names)) for sign, amount in self.conditions)

    def list_limits(self, names: Mapping[str, float]) -> list[float]:
        """Return the amounts of all conditions."""
        return [compute_amount(amount, names) for _, amount in self.conditions]

    def format_numbers(self, names: Mapping[str, float]) -> str:
        """Return the bar with numbers in the place of words: `>= 0.95`."""
        return " and ".join(f"{sign} {compute_amount(amount, names):.4g}" for sign, amount in self.conditions)

    @property
    def names(self) -> set[str]:
        """The words and yardsticks in its amounts."""
        amounts = [amount for _, amount in self.conditions]
        return {one.id for amount in amounts for one in ast.walk(amount) if isinstance(one, ast.Name)}

    @property
    def has_numbers(self) -> bool:
        """Whether its amounts contain a number that has no name."""
        amounts = [amount for _, amount in self.conditions]
        return any(isinstance(one, ast.Constant) for amount in amounts for one in ast.walk(amount))

    @property
    def is_upper(self) -> bool:
        """Whether small values meet the first condition."""
        return self.conditions[0][0] in ("<", "<=")


def _compare(sign: str, value: float, limit: float) -> bool:
    near = math.isclose(value, limit, rel_tol=_ROUNDING, abs_tol=0.0)
    return _COMPARISONS[sign](limit if near else value, limit)


def parse_bar(text: object, names: Collection[str], key: str, what: str = _NAMES) -> CriterionBar:
    """Return a bar whose amounts use `names`, which are `what` in messages. Raises InputError with `key`."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise WrongValue(quote_value(text), _ALLOWED, key=key)
    conditions = []
    for part in text.split(" and "):
        found = _CONDITION.fullmatch(part)
        if found is None:
            raise WrongValue(quote_value(text), _ALLOWED, key=key)
        conditions.append((found[1], _parse_amount(found[2], names, text, key, what)))
    return CriterionBar(text, tuple(conditions))


def parse_amount(text: str, names: Collection[str], key: str, what: str = _NAMES) -> ast.expr:
    """Return the amount that a text is: numbers, `names`, + - * /, min and max. Raises InputError with `key`."""
    return _parse_amount(text, names, text, key, what)


def _parse_amount(part: str, names: Collection[str], text: str, key: str, what: str) -> ast.expr:
    try:
        found = ast.parse(part.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise WrongValue(quote_value(text), _ALLOWED, key=key) from None
    _check_amount(found, names, text, key, what)
    return found


def _check_amount(node: ast.expr, names: Collection[str], text: str, key: str, what: str) -> None:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool) and abs(number) < math.inf:
            return
        case ast.Name(id=name):
            if name not in names:
                raise UnknownName(quote_value(name), among=sorted(names), key=key, what=what)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            _check_amount(inner, names, text, key, what)
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _OPERATIONS:
            _check_amount(left, names, text, key, what)
            _check_amount(right, names, text, key, what)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
            for one in args:
                _check_amount(one, names, text, key, what)
        case _:
            raise WrongValue(quote_value(text), _ALLOWED, key=key)


def compute_amount(node: ast.expr, names: Mapping[str, float]) -> float:
    """Return the number that an amount is, where `names` have these values; x / 0 is infinite, and 0 / 0 NaN."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(operand=inner):
            return -compute_amount(inner, names)
        case ast.BinOp(left=left, op=kind, right=right):
            first, second = compute_amount(left, names), compute_amount(right, names)
            if isinstance(kind, ast.Div) and second == 0:
                return float("nan") if first == 0 else float("inf") * (1 if first > 0 else -1)
            return _OPERATIONS[type(kind)](first, second)
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name]([compute_amount(one, names) for one in args])
    raise AssertionError(ast.dump(node))
