"""The names of BBR's states: ours, and those that stacks write.

Case, separators and prefixes such as `BBR_` do not matter. mvfst writes `ProbeBw_Up` (congestion_control/modular),
s2n-quic `ProbeBwUp` (BbrState), Linux's v2 and v3 have `BBR_BW_PROBE_UP` within BBR_PROBE_BW, picoquic
`picoquic_bbr_alg_probe_bw_up`, ngtcp2 `NGTCP2_BBR_STATE_PROBE_BW_UP`, msquic `BBR_STATE_PROBE_BW`. A PROBE_BW without
its phase is of a BBRv1: its pacing gain says which phase it is like, as for `bbr1` of the registry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dumbbell.evaluate.bbr.trace import STATES

PROBE_BW_ALONE = "probe_bw"
IGNORED = "-"  # in --state: not a state of BBR, the one before goes on
_PREFIX = re.compile(r"^(picoquic|ngtcp2|quic)?(bbr[123]?)?(alg|mode|state)?(?=.)")
_ALIASES = {
    "startup": "startup",
    "startuplongrtt": "startup",
    "startupresume": "startup",
    "drain": "drain",
    "probertt": "probe_rtt",
    PROBE_BW_ALONE.replace("_", ""): PROBE_BW_ALONE,
} | {
    form.format(phase): f"probe_{phase}"
    for phase in ("down", "cruise", "refill", "up")
    for form in ("{}", "probe{}", "probebw{}", "bwprobe{}", "probebwprobe{}", "probebwbwprobe{}")
}
ALLOWED = ", ".join((*STATES, f"{PROBE_BW_ALONE} with its phase"))


def normalise_name(text: str) -> str:
    """Return a name without case, separators and prefixes."""
    return _PREFIX.sub("", re.sub(r"[^a-z0-9]", "", text.lower()))


def find_state(text: str, own: Mapping[str, str]) -> str | None:
    """Return our name of a state, PROBE_BW_ALONE or IGNORED; None if nothing is known of it.

    `own` are names that the user declares, as `normalise_name` returns them.
    """
    word = normalise_name(text)
    return own.get(word) or _ALIASES.get(word)
