"""Queues that shape by themselves, next to the link that they stand at."""

import json
from typing import Any

from dumbbell import _native
from dumbbell.experiment.net import list_rates

LINK_LAYER = ("link_layer", "overhead", "mpu", "framing")  # keys of a hop
_LONGEST = 9014  # bytes of the longest frame that anything sends


def shapes_within_link(hop: dict[str, Any]) -> bool:
    """Return whether the queue of a canonical hop shapes, and never lets more leave than its link carries."""
    aqm = hop["aqm"]
    if aqm.get("name") != "cake" or hop["trace"] is not None or hop.get("link") is not None:
        return False
    # without a bandwidth of its own, Cake follows the rate of the link
    bandwidth = hop["rate"] if aqm["bandwidth"] is None else aqm["bandwidth"]
    rates = list_rates(hop) if aqm["bandwidth"] is not None else [hop["rate"]]
    return 0 < bandwidth <= min(rates) and _counts_enough(hop)


def _counts_enough(hop: dict[str, Any]) -> bool:
    """Return whether Cake counts each frame as at least as long as it is on its link."""
    link = {key: hop[key] for key in LINK_LAYER if hop.get(key) is not None}
    own = link | {key: hop["aqm"][key] for key in LINK_LAYER[1:] if hop["aqm"][key] is not None}
    ours, theirs = (_native.link_layer(json.dumps(keys)) for keys in (own, link))
    return all(_compute_cost(frame, ours) >= _compute_cost(frame, theirs) for frame in range(60, _LONGEST + 1))


def _compute_cost(frame: int, layer: tuple[int | None, int, str]) -> int:
    """Return the bytes that a frame takes on a link."""
    overhead, mpu, framing = layer
    size = max(frame if overhead is None else frame - 14 + overhead, mpu)
    if framing == "atm":
        return -(-size // 48) * 53
    return size + -(-size // 64) if framing == "ptm" else size
