"""Actions of agents, which change the rate or the window of their flow, or set a key of the queue."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dumbbell.errors import OutOfRange, UnknownName, quote_value
from dumbbell.experiment.toml_checks import is_number
from dumbbell.gym.draws import check_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RateFactor:
    """An action from -1 to 1 multiplies the pacing rate by 1 + step · action, or divides it by 1 - step · action.

    The rate of an episode begins at the value `start_rate_mbit` of its network. Source: Jay et al., ICML 2019, and
    PCC-RL, network_sim.py, with steps of 0.025 for actions that have no bounds.
    """

    step: float
    low: float
    """Mbit/s."""
    high: float
    start = "start_rate_mbit"
    column = "pacing_rate_mbit"

    def __post_init__(self) -> None:
        check_range(self, self.low, self.high, is_log=True)
        if not is_number(self.step) or not 0 < self.step < math.inf:
            raise OutOfRange(quote_value(self.step), "more than 0", command="RateFactor", key="step")

    def apply(self, rates: Floats, actions: Floats) -> Floats:
        """Return the rates after actions."""
        change = 1 + self.step * np.abs(actions)
        return np.clip(np.where(actions >= 0, rates * change, rates / change), self.low, self.high)


@dataclass(frozen=True)
class WindowFactor:
    """An action from -1 to 1 multiplies the window by a power of `base`; it begins at `start_window` segments.

    Source: 4 for Orca (Abbasloo et al., SIGCOMM 2020; envwrapper.py), 2 for Sage (envwapper.py), whose bounds of the
    window are 4 and 20000 segments (sage.cc).
    """

    base: float
    low: float = 4
    high: float = 20_000
    start = "start_window"
    column = "cwnd"

    def __post_init__(self) -> None:
        check_range(self, self.low, self.high, is_log=True)
        if not is_number(self.base) or not 1 < self.base < math.inf:
            raise OutOfRange(quote_value(self.base), "more than 1", command="WindowFactor", key="base")

    def apply(self, windows: Floats, actions: Floats) -> Floats:
        """Return the windows after actions, segments; an action applies to the exact window, not to the rounded one."""
        return np.clip(windows * self.base**actions, self.low, self.high)


@dataclass(frozen=True)
class QueueKey:
    """An action from -1 to 1 sets a key to a value from `low` to `high`; `unit` follows the number.

    `scale` is "linear", "log" or "square": the value grows with the square of the action's distance from -1, as the
    probability for classic flows does with that for scalable ones in PI2 (De Schepper et al., CoNEXT 2016).
    """

    key: str
    low: float
    high: float
    unit: str = ""
    scale: str = "linear"

    def __post_init__(self) -> None:
        if self.scale not in ("linear", "log", "square"):
            raise UnknownName(str(self.scale), among=("linear", "log", "square"), what="scale")
        check_range(self, self.low, self.high, is_log=self.scale == "log")

    def convert(self, action: float) -> str | float:
        """Return the value that the key gets."""
        part = (min(max(action, -1.0), 1.0) + 1) / 2
        if self.scale == "log":
            value = self.low * math.exp(part * math.log(self.high / self.low))
        else:
            value = self.low + (part * part if self.scale == "square" else part) * (self.high - self.low)
        return f"{value:.6f}{self.unit}" if self.unit else value


Action = RateFactor | WindowFactor | QueueKey
