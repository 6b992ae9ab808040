"""A QUIC stack as the subject of an evaluation: its control, its windows, and Linux's control of the same family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dumbbell.evaluate.plan import Candidate
from dumbbell.experiment import plugins
from dumbbell.experiment.file import parse
from dumbbell.experiment.settings import show_setting

# Linux's control of the same family, by the start of a control's name; that of CUBIC is the yardstick anyway
FAMILIES = {"bbr": "bbr3", "reno": "reno", "newreno": "reno"}


WINDOW = 64_000_000
"""Bytes of flow control that no path of the suites fills."""
# what the receiver allows, and what the sender keeps, in windows
_WINDOWS = {"receive_window": 1, "stream_receive_window": 1, "send_window": 8}


def make_subject(
    stack: str, control: str | None, settings: Mapping[str, Any], window: int | None = None
) -> tuple[Candidate, str]:
    """Return a stack as a candidate, and the name of its control. Raises InputError.

    `settings` are parameters of the stack; with `window`, the windows of flow control that it has are of that size.
    """
    known = list_parameters(stack)
    windows = {key: f"{window * many}B" for key, many in _WINDOWS.items() if key in known and window is not None}
    flow: dict[str, Any] = {"stack": {"name": stack, **windows, **settings}}
    flow |= {"cc": control} if control is not None else {}
    found = _resolve_control(flow)
    name = str(found.get("control", ""))
    relative = next((of for start, of in FAMILIES.items() if name.startswith(start)), None)
    words = [stack, *(["--cc", control] if control is not None else [])]
    if window != WINDOW:
        words += ["--window", "own" if window is None else f"{window}B"]
    words += [word for key, value in settings.items() for word in ("--set", show_setting(key, value))]
    return Candidate(str(found["name"]), flow, relative, tuple(words)), name


def _resolve_control(flow: Mapping[str, Any]) -> dict[str, Any]:
    table = {"duration": "1s", "bottleneck": {"aqm": "pfifo"}, "flows": [flow], "seeds": [1]}
    found: dict[str, Any] = parse(table, "evaluate").make_cell(0).groups["flows"][0]["cc"]
    return found


def list_parameters(stack: str) -> frozenset[str]:
    """Return the names of the parameters that a stack takes. Raises InputError."""
    return frozenset(_resolve_control({"stack": stack}))


def list_controls(stack: str) -> list[str]:
    """Return what the controls of a stack are called in tables. Raises InputError."""
    algorithm = plugins.find_algorithm(_resolve_control({"stack": stack}), {})
    assert algorithm is not None
    return [f"{algorithm.name}-{one}" for one in algorithm.params["control"].choices]
