"""Versions of engines. Each begins with what the engine is: `linux-…`, `live-…`; that of the simulator is a number."""

from collections.abc import Iterable

from dumbbell._native import engine_version

OTHERS = ("linux", "live")
KINDS = ("sim", *OTHERS)


def kind(version: str) -> str:
    """Return what an engine's version begins with: linux, live; else sim."""
    return next((other for other in OTHERS if version.startswith(f"{other}-")), "sim")


def chosen(versions: Iterable[str], wanted: str) -> str | None:
    """Return the version that `wanted` names: itself, or the newest of a kind; the newest of `versions` is the last."""
    known = list(versions)
    if wanted in known:
        return wanted
    of_kind = [version for version in known if wanted in KINDS and kind(version) == wanted]
    return engine_version() if engine_version() in of_kind else next(reversed(of_kind), None)
