"""Packages whose names are imported when somebody asks for them: a start of the program takes what it needs."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def names_of(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: each name of `places` is found in that module of the package."""

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=None)
        return getattr(importlib.import_module(f"{package}.{places[name]}"), name)

    return find
