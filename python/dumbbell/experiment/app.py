"""Users of applications: which keys an application takes."""

from typing import Any

from dumbbell.errors import Missing, Unfit, WrongValue
from dumbbell.experiment import plugins
from dumbbell.experiment.registry import read_registry

_OF_STREAMS = ("cc", "ecn", "ecn_echo")
_FILLS = (
    "responsiveness",
)  # applications that no stack carries: AppSpec::fits_streams (crates/dumbbell-core/src/app/mod.rs)
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
            if "plugin" in one["cc"]:
                _check_stack(one["cc"], name, place)
            continue
        for key in _OF_STREAMS:
            if own.get(key) is not None:
                if key == "cc" and "plugin" in own["cc"] and plugins.get_known(own["cc"]["plugin"]).kind == "stack":
                    found = f"{name} sends datagrams, which no stack carries"
                    raise Unfit(found, "omit stack, or use an application of streams", key=f"{place}.stack")
                raise Unfit(
                    f"{name} sends datagrams, without a congestion control", f"omit {key}", key=f"{place}.{key}"
                )


def _check_stack(cc: dict[str, Any], name: str, place: str) -> None:
    """Raise InputError if the plugin `cc` is a stack that cannot carry the application `name`."""
    known = plugins.get_known(cc["plugin"])
    if known.kind != "stack":
        return
    if not known.has_streams:
        found = f"{known.algorithm.name} has no streams, which applications need"
        allowed = "a stack with the functions for streams of dumbbell.h (stream_write, stream_read, close, lost)"
        raise Unfit(
            found,
            f"{allowed}, such as quinn or noq; a library from before them is to be built again",
            key=f"{place}.stack",
        )
    if name in _FILLS:
        found = f"{name} measures what waits behind data that always fill a TCP connection"
        raise Unfit(found, "omit stack, or use another application", key=f"{place}.stack")


def describe(one: dict[str, Any]) -> str:
    """Return the application of an entry of `app` with the congestion control of its streams: pages over cubic."""
    name: str = one["kind"]["name"]
    return f"{name} over {one['cc']['name']}" if one.get("cc") else name
