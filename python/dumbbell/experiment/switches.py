"""Parameters that do nothing unless another one has some value: without it they have no value in tables and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dumbbell.experiment import matrix


@dataclass(frozen=True)
class Switch:
    """`values` of the parameter `key` with which others count; with no `values`, any but none."""

    key: str
    values: tuple[Any, ...] = ()

    def is_on(self, holder: dict[str, Any]) -> bool:
        """Whether the parameters that need this switch count in a table of a configuration."""
        value = holder.get(self.key)
        if holder.get("name") == "dualpi2" and self.key == "scheduler" and value is None:
            value = _SCHEDULERS.get(str(holder.get("version")), "credit")
        return value in self.values if self.values else value is not None

    def __str__(self) -> str:
        values = [{True: "true", False: "false"}.get(value, value) for value in self.values]
        return f"{self.key}={','.join(map(str, values))}" if values else f"{self.key} set"


# of the versions of DualPI2 (aqm/dualpi2/versions.rs); all others have that of Linux, credit
_SCHEDULERS = {"tsfifo": "time-shift", "wrr": "wrr-packets", "wrrb": "wrr-bytes"}
_ABE = Switch("abe", (True,))
_ECN = Switch("ecn", (True,))
_HYSTART = Switch("hystart", ("5.5", "5.6"))
_ABE_KEYS = dict.fromkeys(("beta_ecn", "abe_slow_start"), _ABE)
_CE_THRESHOLD = {"ce_threshold_selector": Switch("ce_threshold")}
_BBR_ECN = dict.fromkeys(("ecn_max_rtt", "ecn_alpha_gain", "ecn_factor", "ecn_thresh", "ecn_reprobe_gain"), _ECN)

# table of a configuration (algorithm or section) → parameter → what it needs. A test runs each without it.
NEEDS: dict[str, dict[str, Switch]] = {
    "reno": _ABE_KEYS,
    "cubic": _ABE_KEYS
    | dict.fromkeys(("hystart_detect", "hystart_low_window"), _HYSTART)
    | {"hystart_ack_delta": Switch("hystart", ("5.5", "5.6"))},
    "bbr2": _BBR_ECN,
    "bbr3": _BBR_ECN,
    "prague": {"rate_below": Switch("mode", ("switch",))},
    "codel": _CE_THRESHOLD,
    "fq_codel": _CE_THRESHOLD,
    "red": dict.fromkeys(("harddrop", "nodrop"), _ECN),
    "pie": {"ecn_prob": _ECN},
    "fq_pie": {"ecn_prob": _ECN},
    "cake": {"sce_thresh": Switch("sce", ("thresh",))},
    "dualpi2": {
        "t_shift": Switch("scheduler", ("time-shift",)),
        "t_speed": Switch("scheduler", ("time-shift",)),
        "wrr_ratio": Switch("scheduler", ("time-shift", "wrr-packets")),
        "classic_protection": Switch("scheduler", ("credit", "wrr-bytes", "wrr-bytes-turns")),
    },
    "bottleneck": {"burst": Switch("shaper", ("htb",))},
    "hosts": dict.fromkeys(("sack_blocks_held", "sack_compression_slack"), Switch("sack_compression", (True,))),
    "record": {"interval": Switch("series", (True,))},
}


def explain_off(path: matrix.Path, holder: Any) -> str:
    """Return what the parameter at `path` needs and its table `holder` has not; else an empty text."""
    if not isinstance(holder, dict):
        return ""
    place = holder.get("name") or next((step for step in path[-2:-1] if isinstance(step, str)), "")
    switch = NEEDS.get(place, {}).get(str(path[-1]))
    return "" if switch is None or switch.is_on(holder) else str(switch)
