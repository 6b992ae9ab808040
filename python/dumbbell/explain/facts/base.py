"""The base of all facts, and phrases that several share."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, dataclass_transform

from dumbbell.explain.phrases import format_span, format_time
from dumbbell.words import capitalise, format_duration, format_whole, join_words

_WORTH_NAMING = 3  # events of the largest burst


class Rank(IntEnum):
    """Where a fact stands: first what the run came to, then what happened when, then what went on for long."""

    RESULT = 0
    EVENT = 1
    COURSE = 2


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class Fact:
    """Something that is known of a run. Each class of facts is a frozen dataclass; its class line may set its rank."""

    rank: ClassVar[Rank] = Rank.EVENT

    def __init_subclass__(cls, *, rank: Rank | None = None, kw_only: bool = False) -> None:
        cls.rank = cls.rank if rank is None else rank
        dataclass(frozen=True, kw_only=kw_only)(cls)

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
        return capitalise(self._describe())

    def _describe(self) -> str:
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return kind, numbers and sentence; what is not known is None."""
        values = {name: _replace_nan(value) for name, value in dataclasses.asdict(self).items()}
        return {"kind": self.kind, **values, "sentence": self.sentence}


def _replace_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _replace_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def link_of(hop: str) -> str:
    """Return what the link of a hop is called; it has no name where there is one."""
    return f"the link of {hop}" if hop else "the link"


class OfFlow(Fact):
    """A fact about one flow, with the name and the number of that flow."""

    name: str
    flow: int


class OfQueue(Fact):
    """Something that is known of the queue of a hop."""

    hop: str
    """Empty where there is one."""
    own_queues: bool = field(default=False, kw_only=True)
    """Whether the discipline has queues of their own for flows, so that a number of all packets mixes them."""

    @property
    def queue(self) -> str:
        """What it is called."""
        what = "queues" if self.own_queues else "queue"
        return f"the {what} of {self.hop}" if self.hop else f"the {what}"

    @property
    def place(self) -> str:
        """Where, if there are several hops."""
        return f" at {self.hop}" if self.hop else ""


@dataclass(frozen=True)
class Burst:
    """Events close to each other."""

    from_s: float
    until_s: float
    count: int

    def __str__(self) -> str:
        many = format_whole(self.count)
        if self.until_s - self.from_s < 0.0015:
            return f"{many} at {format_time(self.until_s)}"
        return f"{many} {format_span(self.from_s, self.until_s)}"

    @property
    def time(self) -> str:
        """When, in words."""
        return str(self).removeprefix(format_whole(self.count)).lstrip()


class Grouped(Fact, rank=Rank.COURSE, kw_only=True):
    """Events in bursts."""

    from_s: float
    until_s: float
    count: int
    bursts: tuple[Burst, ...]
    """All of a few; else the largest."""
    burst_count: int
    apart_s: float
    """Bursts are at least so far apart."""
    typical_s: float
    """Median of the times from the start of one to that of the next; 0 of one burst."""
    closest_s: float
    farthest_s: float
    """The shortest and the longest of these times."""

    @property
    def in_bursts(self) -> str:
        """The bursts in words."""
        if self.burst_count == 1:
            return self.bursts[0].time
        if self.burst_count == len(self.bursts):
            return f"in {self.burst_count} bursts: {join_words(self.bursts)}"
        when = f"{format_span(self.from_s, self.until_s)}, {self._describe_spacing()}"
        (largest,) = self.bursts
        if largest.count == 1:
            return f"one by one {when}"
        text = f"in {self.burst_count} bursts {when}"
        few = largest.count < _WORTH_NAMING
        return f"{text}, none of more than {largest.count}" if few else f"{text}; the largest has {largest}"

    def _describe_spacing(self) -> str:
        """Return how far apart bursts begin, in words."""
        least, typical, most = map(format_duration, (self.closest_s, self.typical_s, self.farthest_s))
        return f"{typical} apart" if least == most else f"{typical} apart in the median ({least} to {most})"
