"""Options that several commands share: a dataclass declares them once, and a command has it as one parameter."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any


def expand_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer: each parameter that is a dataclass is replaced by the fields of the dataclass."""
    hints = typing.get_type_hints(function, include_extras=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, one in inspect.signature(function).parameters.items():
        kind = hints[name]
        if dataclasses.is_dataclass(kind):
            types = typing.get_type_hints(kind, include_extras=True)
            fields = [(field.name, types[field.name], field.default) for field in dataclasses.fields(kind)]
            groups[name] = kind, [field for field, _, _ in fields]
        else:
            fields = [(name, kind, one.default)]
        parameters += [
            inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, annotation=of, default=default)
            for field, of, default in fields
        ]

    @functools.wraps(function)
    def carry_out(**given: Any) -> None:
        made = {name: kind(**{field: given.pop(field) for field in fields}) for name, (kind, fields) in groups.items()}
        function(**given, **made)

    carry_out.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    carry_out.__annotations__ = {one.name: one.annotation for one in parameters}
    return carry_out
