"""Labels that distinguish the flows of one run: "cubic" and "reno"."""

import json
from collections.abc import Sequence
from typing import Any

from dumbbell.results import dimensions as dims


def number_labels(labels: Sequence[str]) -> list[str]:
    """Return labels of which those that occur more than once are numbered: `cubic #1`, `cubic #2`."""
    several = {label for label in labels if labels.count(label) > 1}
    seen: dict[str, int] = {}
    result = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        result.append(f"{label} #{seen[label]}".strip() if label in several else label)
    return result


# what may distinguish flows of one control, in this order
_KEYS = (
    *("direction", "route", "base_rtt", "ecn", "rate", "start", "stop", "app_rate", "size"),
    *("path", "ack_path", "jitter", "loss"),
)
_LABELS: dict[tuple[str, bool], list[str]] = {}


def group_labels(groups: list[dict[str, Any]], *, alone: bool = False) -> list[str]:
    """Return what distinguishes the groups of flows of one run, in few words: "cubic", "reno".

    A group alone has an empty label; with `alone`, that of its congestion control.
    """
    code = repr(groups), alone
    if code not in _LABELS:
        _LABELS[code] = _group_labels(groups, alone=alone)
    return _LABELS[code]


def _group_labels(groups: list[dict[str, Any]], *, alone: bool) -> list[str]:
    names = [
        ("ping" if one.get("echo") else "udp")
        if "cc" not in one
        else dims.spell_path_value(("flows", 0, "cc"), one["cc"])
        for one in groups
    ]
    if len(groups) < 2:
        return names if alone else [""] * len(groups)
    labels = names if len(set(names)) > 1 else [""] * len(groups)
    for key in _KEYS:
        longer = [
            ", ".join(filter(None, (label, _label_group(one, key)))) for label, one in zip(labels, groups, strict=True)
        ]
        if len(set(longer)) > len(set(labels)):
            labels = longer
    return number_labels(labels if any(labels) else names)


def list_further_words(group: dict[str, Any]) -> list[str]:
    """Return route and ECN of a group, which distinguish classes of traffic whose other words are the same."""
    return [_label_group(group, "route"), _label_group(group, "ecn")]


def _label_group(group: dict[str, Any], key: str) -> str:
    if key not in group:
        return ""
    section = "flows" if "cc" in group else "udp"
    value = group[key]
    if key == "route":
        hops = value or [{"down": "bottleneck", "up": "reverse"}[group["direction"]]]
        return f"over {' and '.join(hops)}"
    if key == "ecn":
        return {True: "ECN", False: "no ECN"}.get(value, "" if value is None else str(value))
    text = dims.spell_path_value((section, 0, key), value)
    return text if key in ("base_rtt", "rate", "direction") else f"{key} {text}"


def add_assumed_controls(config: dict[str, Any], given: str | None) -> list[dict[str, Any]]:
    """Return the groups of flows of an imported run whose control its file does not say; `given` is its column."""
    known = json.loads(given or "[]")

    def is_given(key: str) -> bool:
        return any(one == key or one.startswith(f"{key}.") for one in known)

    return [group for number, group in enumerate(config["flows"]) if not is_given(f"flows[{number}].cc")]
