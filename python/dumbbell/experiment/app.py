"""Users of applications: which keys an application takes."""

from typing import Any

from dumbbell.errors import Missing, Unfit, WrongValue
from dumbbell.experiment.registry import read_registry

_OF_STREAMS = ("cc", "ecn", "ecn_echo")
MOST = 10_000  # of the engine (crates/dumbbell-config/src/lib.rs)


def check(run: dict[str, Any], given: dict[str, Any]) -> None:
    """Raise InputError, without a file, for the first user of an application whose keys do not fit the application."""
    users = sum(one["count"] for one in run["app"])
    if users > MOST:
        raise WrongValue(f"{users} users", f"at most {MOST} users of applications", key="app")
    for number, (one, own) in enumerate(zip(run["app"], given["app"], strict=True)):
        name, place = one["kind"]["name"], f"app[{number}]"
        if name in read_registry().apps_of_streams:
            if one["cc"] is None:
                raise Missing(list(read_registry().cc), key=f"{place}.cc")
            continue
        for key in _OF_STREAMS:
            if own.get(key) is not None:
                raise Unfit(
                    f"{name} sends datagrams, without a congestion control", f"omit {key}", key=f"{place}.{key}"
                )


def describe(one: dict[str, Any]) -> str:
    """Return the application of an entry of `app` with the congestion control of its streams: pages over cubic."""
    name: str = one["kind"]["name"]
    return f"{name} over {one['cc']['name']}" if one.get("cc") else name
