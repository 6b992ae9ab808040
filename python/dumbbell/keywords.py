"""Keywords that several functions take, written once as a TypedDict."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def list_keywords(keywords: type) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function with `**name: Unpack[keywords]` show each of them in its signature, and refuse others."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        known = signature(function)
        own = [one for one in known.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        named = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=getattr(kind, "__forward_arg__", kind))
            for name, kind in keywords.__annotations__.items()
        ]
        known = known.replace(parameters=[*own, *named])

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            known.bind(*args, **kwargs)
            return function(*args, **kwargs)

        call.__signature__ = known  # type: ignore[attr-defined]
        return call

    return decorate
