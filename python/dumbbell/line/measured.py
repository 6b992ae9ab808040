"""The rates and the round-trip time of a line, from a measurement of another tool."""

from __future__ import annotations

from pathlib import Path

from dumbbell.errors import Nothing
from dumbbell.exchange import formats, infer
from dumbbell.experiment import units

_KEYS = {"down": "bottleneck.rate", "up": "reverse.rate"}


def read_line(path: Path) -> dict[str, tuple[int, str]]:
    """Return `down` and `up` in bit/s and `rtt` in ns, as far as a measurement gives them, each with where it is from.

    Raises InputError if the file cannot be read or gives none of them.
    """
    found = formats.read(path, None)
    facts = infer.complete(found)
    values: dict[str, tuple[int, str]] = {}
    for name, key in _KEYS.items():
        if (fact := facts.get(key)) is not None and fact.known:
            values[name] = (units.parse("rate", fact.text), f"{path.name}: {fact.explanation}")
    known = [flow.base_rtt for flow in found.flows if flow.base_rtt is not None and flow.base_rtt.known]
    if known:
        least = min(known, key=lambda fact: units.parse("time", fact.text))
        values["rtt"] = (units.parse("time", least.text), f"{path.name}: {least.explanation}")
    if not values:
        raise Nothing("it gives neither a rate nor a round-trip time", "a measurement under load", file=path)
    return values
