"""Where a replay stands: time, speed, pause. It knows neither terminal nor clock."""

from __future__ import annotations

import math
from dataclasses import dataclass

SLOWEST, FASTEST = 1 / 64, 4096.0
_SEEK = 0.05  # of the run


@dataclass
class Player:
    """A position in a run of `duration_s`, of which `known_s` are there already; steps are `interval_s` long."""

    duration_s: float
    interval_s: float
    speed: float = 1.0
    """Seconds of the run per second."""
    time_s: float = 0.0
    is_paused: bool = False
    known_s: float = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether it has come to the end of what is there of the run, and the run goes on."""
        return self.time_s >= self.known_s - 1e-9 and self.known_s < self.duration_s - 1e-9

    @property
    def is_over(self) -> bool:
        """Whether it is at the end of the run."""
        return self.time_s >= self.duration_s - 1e-9

    def advance(self, seconds: float) -> None:
        """Go on for some time of the clock."""
        if not self.is_paused:
            self._go(self.time_s + seconds * self.speed)

    def press(self, key: str) -> bool:
        """Do what a key asks for; return whether to go on."""
        match key:
            case "q" | "Q":
                return False
            case " ":
                self.is_paused = not self.is_paused
            case "." | "right":
                self._step(1)
            case "," | "left":
                self._step(-1)
            case "+" | "=" | "up":
                self.speed = min(2 * self.speed, FASTEST)
            case "-" | "_" | "down":
                self.speed = max(self.speed / 2, SLOWEST)
            case "]":
                self._go(self.time_s + max(_SEEK * self.duration_s, self.interval_s))
            case "[":
                self._go(self.time_s - max(_SEEK * self.duration_s, self.interval_s))
            case "home":
                self._go(0.0)
            case "end":
                self._go(self.duration_s)
        return True

    def _step(self, steps: int) -> None:
        """Pause, and go to the end of the next interval, or of the one before."""
        self.is_paused = True
        at = self.time_s / self.interval_s
        place = math.floor(at + 1e-6) if steps > 0 else math.ceil(at - 1e-6)
        self._go((place + steps) * self.interval_s)

    def _go(self, time: float) -> None:
        self.time_s = min(max(time, 0.0), self.known_s, self.duration_s)
