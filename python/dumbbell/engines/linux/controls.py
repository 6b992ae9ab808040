"""Congestion controls of kernels: their names, and their parameters as those of modules."""

import json
from collections.abc import Callable
from typing import Any

from dumbbell.engines.linux.kernels import Kernel
from dumbbell.engines.linux.units import US, divide_exactly
from dumbbell.experiment.registry import read_registry

# what the simulator calls a kernel's congestion control, module parameters by our names, and how values become theirs
MODULES: dict[str, dict[str, tuple[str, Callable[[Any], int]]]] = {
    "cubic": {
        "beta": ("tcp_cubic.beta", int),
        "bic_scale": ("tcp_cubic.bic_scale", int),
        "fast_convergence": ("tcp_cubic.fast_convergence", int),
        "tcp_friendliness": ("tcp_cubic.tcp_friendliness", int),
        "hystart": ("tcp_cubic.hystart", lambda word: int(word != "off")),  # of which version: _hystart
        "hystart_detect": ("tcp_cubic.hystart_detect", {"train": 1, "delay": 2, "both": 3}.__getitem__),
        "hystart_low_window": ("tcp_cubic.hystart_low_window", int),
        "hystart_ack_delta": ("tcp_cubic.hystart_ack_delta_us", lambda time: divide_exactly(time, US)),
    },
    "dctcp": {
        "shift_g": ("tcp_dctcp.dctcp_shift_g", int),
        "alpha_init": ("tcp_dctcp.dctcp_alpha_on_init", int),
    },
    "bbr2": {
        "ecn": ("tcp_bbr2.ecn_enable", int),
        "ecn_max_rtt": ("tcp_bbr2.ecn_max_rtt_us", lambda time: divide_exactly(time, US)),
    },
}


def list_controls(kernel: Kernel) -> dict[str, str]:
    """Return the kernel's name of each congestion control that both have."""
    # BBRv3 takes the place of BBRv1; of kernels built before its version was noted, the names of the patches tell it
    patches = json.dumps(kernel.described.get("recipe", {})).lower()
    version = kernel.described.get("bbr", 3 if "bbr3" in patches else 1)
    names = {name: name for name in read_registry().cc if name in kernel.congestion_controls}
    if "bbr" in kernel.congestion_controls:
        names.setdefault(f"bbr{version}", "bbr")
    return names
