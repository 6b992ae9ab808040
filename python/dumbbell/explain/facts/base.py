"""What every fact has, and what several say alike."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

from dumbbell.explain import words
from dumbbell.explain.words import lasting, listed, seconds, span

_WORTH_NAMING = 3  # events of the largest burst


class Rank(IntEnum):
    """Where a fact stands: first what the run came to, then what happened when, then what went on for long."""

    RESULT = 0
    EVENT = 1
    COURSE = 2


@dataclass(frozen=True)
class Fact:
    """What is known of a run."""

    rank: ClassVar[Rank] = Rank.EVENT

    @property
    def kind(self) -> str:
        """The name of the class in lower case, with underscores."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def when(self) -> float:
        """When it happened or began, s."""
        return float(getattr(self, "at_s", getattr(self, "from_s", 0.0)))

    @property
    def sentence(self) -> str:
        """The fact in words, one or two sentences."""
        return words.first_large(self.said())

    def said(self) -> str:
        """Return the fact in words."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return kind, numbers and sentence; what is not known is None."""
        values = {name: _known(value) for name, value in dataclasses.asdict(self).items()}
        return {"kind": self.kind, **values, "sentence": self.sentence}


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _known(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_known(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def at_hop(hop: str) -> str:
    """Return where, if there are several hops."""
    return f" at {hop}" if hop else ""


def queue_of(hop: str) -> str:
    """Return what a queue is called."""
    return f"the queue of {hop}" if hop else "the queue"


@dataclass(frozen=True)
class Burst:
    """Events close to each other."""

    from_s: float
    until_s: float
    count: int

    def __str__(self) -> str:
        if self.until_s - self.from_s < 0.0015:
            return f"{self.count} at {seconds(self.until_s)}"
        return f"{self.count} from {seconds(self.from_s)} to {seconds(self.until_s)}"


@dataclass(frozen=True, kw_only=True)
class Grouped(Fact):
    """Events in bursts."""

    rank: ClassVar[Rank] = Rank.COURSE

    from_s: float
    until_s: float
    count: int
    bursts: tuple[Burst, ...]
    """All of a few; else the largest."""
    burst_count: int
    apart_s: float
    """Bursts are at least so far apart."""
    typical_s: float
    """Median of the times from the start of one to the next; 0 of one burst."""

    @property
    def in_bursts(self) -> str:
        """The bursts in words."""
        if self.burst_count == 1:
            return str(self.bursts[0]).partition(" ")[2]
        if self.burst_count == len(self.bursts):
            return f"in {self.burst_count} bursts: {listed(self.bursts)}"
        text = (
            f"in {self.burst_count} bursts {span(self.from_s, self.until_s)}, typically {lasting(self.typical_s)} apart"
        )
        (largest,) = self.bursts
        few = largest.count < _WORTH_NAMING
        return f"{text}, of which none has more than {largest.count}" if few else f"{text}; the largest has {largest}"
