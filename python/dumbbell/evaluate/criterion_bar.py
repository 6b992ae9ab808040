"""Bars of criteria: conditions on a value, such as `> 0.05 and > 3 * cubic`."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from dumbbell.errors import UnknownName, WrongValue, quote_value

_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max}
_ALLOWED = (
    "<, <=, > or >= with an amount, joined by `and`; amounts are made of numbers, words, yardsticks, + - * /, min, max"
)
_ROUNDING = 1e-9  # relative
_LONGEST = 200  # characters: what is longer is no bar that anybody reads


@dataclass(frozen=True)
class CriterionBar:
    """Conditions that a value meets all together."""

    text: str
    conditions: tuple[tuple[type[ast.cmpop], ast.expr], ...]

    def is_met(self, value: float, names: Mapping[str, float]) -> bool:
        """Whether a value meets every condition; `names` are the values of words and yardsticks.

        What differs from an amount by rounding alone is equal to it.
        """
        return all(_compare(kind, value, compute_amount(amount, names)) for kind, amount in self.conditions)

    def list_limits(self, names: Mapping[str, float]) -> list[float]:
        """Return the amounts of all conditions."""
        return [compute_amount(amount, names) for _, amount in self.conditions]

    def format_numbers(self, names: Mapping[str, float]) -> str:
        """Return the bar with numbers in the place of words: `>= 0.95`."""
        signs = [_SIGNS[kind] for kind, _ in self.conditions]
        return " and ".join(f"{sign} {one:.4g}" for sign, one in zip(signs, self.list_limits(names), strict=True))

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
        return self.conditions[0][0] in (ast.Lt, ast.LtE)


def _compare(kind: type[ast.cmpop], value: float, limit: float) -> bool:
    near = math.isclose(value, limit, rel_tol=_ROUNDING, abs_tol=0.0)
    return _COMPARISONS[kind](limit if near else value, limit)


def parse_bar(text: object, names: Collection[str], key: str) -> CriterionBar:
    """Return a bar whose amounts use the words and yardsticks `names`. Raises InputError with `key`."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise WrongValue(quote_value(text), _ALLOWED, key=key)
    conditions = []
    for part in text.split(" and "):
        try:
            found = ast.parse(f"value {part.strip()}", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise WrongValue(quote_value(text), _ALLOWED, key=key) from None
        if not isinstance(found, ast.Compare) or len(found.ops) != 1 or type(found.ops[0]) not in _COMPARISONS:
            raise WrongValue(quote_value(text), _ALLOWED, key=key)
        if not isinstance(found.left, ast.Name):
            raise WrongValue(quote_value(text), _ALLOWED, key=key)
        _check_amount(found.comparators[0], names, text, key)
        conditions.append((type(found.ops[0]), found.comparators[0]))
    return CriterionBar(text, tuple(conditions))


def parse_amount(text: str, names: Collection[str], key: str) -> ast.expr:
    """Return the amount that a text is: numbers, `names`, + - * /, min and max. Raises InputError with `key`."""
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise WrongValue(quote_value(text), _ALLOWED, key=key) from None
    _check_amount(found, names, text, key)
    return found


def _check_amount(node: ast.expr, names: Collection[str], text: str, key: str) -> None:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return
        case ast.Name(id=name):
            if name not in names:
                raise UnknownName(quote_value(name), among=sorted(names), key=key, what="word or yardstick")
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            _check_amount(inner, names, text, key)
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _OPERATIONS:
            _check_amount(left, names, text, key)
            _check_amount(right, names, text, key)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
            for one in args:
                _check_amount(one, names, text, key)
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
            return (
                _FUNCTIONS[name](*(compute_amount(one, names) for one in args))
                if len(args) > 1
                else compute_amount(args[0], names)
            )
    raise AssertionError(ast.dump(node))
