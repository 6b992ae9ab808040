"""Packages whose names are imported when somebody asks for them: a start of the program takes what it needs."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def import_lazily(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: each name of `places` is found in that module of the package."""

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=None)
        return getattr(importlib.import_module(f"{package}.{places[name]}"), name)

    return find


def call_lazily(module: str, name: str) -> Callable[..., Any]:
    """Return a function that is imported when it is called."""

    def call(*args: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **options)

    return call


def list_public(module: str, names: Sequence[str]) -> Callable[[], list[str]]:
    """Return the `__dir__` of a package: its public names, and the names that Python itself gave it."""

    def list_names() -> list[str]:
        own = vars(sys.modules[module])
        return sorted({*names, *(name for name in own if name.startswith("__"))})

    return list_names
